"""Segments: the outputs of tasks on disk, written by the workers that made them.

Each worker appends to a file of its own, so that nobody waits for another.
Where an output is, the worker tells together with what it measured.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from itertools import count
from typing import IO, TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from dagprofiler.errors import JournalError, describe
from dagprofiler.kernelfiles import Holder
from dagprofiler.machine import hostname
from dagprofiler.serializers import FrameList

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["OpenStore", "Store", "frames_in", "sync_directory", "torn"]

#: The length of a file is part of what it syncs.
_sync = getattr(os, "fdatasync", os.fsync)


class Store(NamedTuple):
    """Where outputs are stored; travels to workers, where :meth:`open` opens it.

    Attributes
    ----------
    directory
        An absolute path.
    key
        Tells this journal from all others: a file of that name says that it is here.
    """

    directory: str
    key: str

    @property
    def token(self) -> str:
        """The path of that file."""
        return os.path.join(self.directory, f"{self.key}.key")

    def found(self) -> None:
        """Make the directory and, empty, the file that says whose it is."""
        os.makedirs(self.directory, exist_ok=True)
        with open(self.token, "wb") as file:
            os.fsync(file.fileno())

    def open(self) -> OpenStore:
        """Return the store for the thread that calls this."""
        return OpenStore(self)


class OpenStore(Holder):
    """The store of one worker, which puts there the outputs of one task after the other."""

    def __init__(self, store: Store) -> None:
        # At most one segment is open; the thread of a worker ends without a word.
        super().__init__(_close)
        self._store = store
        self._directory = store.directory
        self._segment = ""

    def begin(self) -> None:
        """Get ready for outputs, unless it is.

        Raises
        ------
        JournalError
            If this worker cannot reach the directory.
        """
        if self._held:
            return
        try:
            os.stat(self._directory)
            if not os.path.exists(self._store.token):
                raise self._unreachable("there it is another directory, or holds another journal")
            self._held.append(self._new_segment())
        except OSError as error:
            raise self._unreachable(describe(error)) from error

    def _unreachable(self, why: str) -> JournalError:
        worker = f"worker {hostname()} (process {os.getpid()})"
        return JournalError(self._directory, [f"{worker} cannot write there: {why}"])

    def _new_segment(self) -> IO[bytes]:
        who = f"{hostname()}-{os.getpid()}-{threading.get_ident()}".replace(os.sep, "_")
        for number in count():
            # Other hosts and containers may have the same names and numbers.
            with suppress(FileExistsError):
                self._segment = f"{who}-{number}.segment"
                file = open(os.path.join(self._directory, self._segment), "xb")  # noqa: SIM115
                sync_directory(self._directory)
                return file
        raise AssertionError  # pragma: no cover  (it counts without end)

    def put(self, encoded: Mapping[str, Any]) -> dict[str, Any]:
        """Write outputs, so that they outlast this process and the machine's power.

        Returns
        -------
        dict
            The ``segment``, and for each of its ``fields`` where it begins, its
            checksum and the lengths of its frames: a number for bytes, a list
            for several buffers, negative for what is no bytes object.
        """
        (file,) = self._held
        fields: dict[str, list[Any]] = {}
        try:
            start = file.tell()
            for field, data in encoded.items():
                offset, checksum, lengths = start, 0, []
                for part in data if isinstance(data, list) else [data]:
                    view = memoryview(part)
                    buffer = view if view.c_contiguous else view.tobytes()
                    checksum = crc32(buffer, checksum)
                    file.write(buffer)
                    lengths.append(view.nbytes if isinstance(part, bytes) else -view.nbytes)
                    start += view.nbytes
                whole = not isinstance(data, list)
                fields[field] = [offset, checksum, lengths[0] if whole else lengths]
            file.flush()
            _sync(file.fileno())
        except BaseException as error:
            # What it holds from here on nobody knows; the next outputs go elsewhere.
            self.close()
            if not isinstance(error, OSError):
                raise
            path = os.path.join(self._directory, self._segment)
            raise JournalError(path, [f"outputs cannot be written: {describe(error)}"]) from error
        return {"segment": self._segment, "fields": fields}


def _close(segment: IO[bytes]) -> None:
    # Only of one that could not be written something is still to be flushed.
    with suppress(OSError):
        segment.close()


def sync_directory(path: str) -> None:
    """See to it that the names in a directory outlast the machine's power."""
    # Windows opens no directories, and does this by itself.
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def frames_in(directory: str, stored: Mapping[str, Any], field: str) -> Any:
    """Return the serialized value of an output.

    Raises
    ------
    JournalError
        If it is not there as it was written.
    """
    path = os.path.join(directory, stored["segment"])
    offset, checksum, lengths = stored["fields"][field]
    whole = not isinstance(lengths, list)
    nbytes = sum(map(abs, [lengths] if whole else lengths))
    try:
        with open(path, "rb") as file:
            file.seek(offset)
            data = file.read(nbytes)
    except OSError as error:
        raise JournalError(path, [f"cannot be read: {describe(error)}"]) from error
    if len(data) < nbytes or crc32(data) != checksum:
        raise JournalError(path, [f"output {field!r} is damaged: its checksum is wrong"], offset)
    if whole:
        return data
    frames, start, view = FrameList(), 0, memoryview(data)
    for length in lengths:
        frame = view[start : start + abs(length)]
        start += abs(length)
        frames.append(bytes(frame) if length >= 0 else frame)
    return frames


def torn(directory: str, stored: Mapping[str, Any], ends: dict[str, int]) -> bool:
    """Tell whether a segment ends before outputs that were put there do.

    Parameters
    ----------
    ends
        Where segments end, as far as somebody has asked.
    """
    path = os.path.join(directory, stored["segment"])
    if path not in ends:
        try:
            ends[path] = os.path.getsize(path)
        except OSError as error:
            raise JournalError(path, [f"cannot be read: {describe(error)}"]) from error
    return any(
        offset + sum(map(abs, lengths if isinstance(lengths, list) else [lengths])) > ends[path]
        for offset, _, lengths in stored["fields"].values()
    )
