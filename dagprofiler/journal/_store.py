"""Segments: the outputs of tasks on disk, written by the workers that made them.

Each worker appends to a file of its own, so that nobody waits for another.
Where an output is, the worker tells together with what it measured.
"""

from __future__ import annotations

import os
import stat
import threading
from contextlib import suppress
from itertools import count
from typing import IO, TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from dagprofiler.errors import JournalError, describe
from dagprofiler.measure.machine import hostname
from dagprofiler.measure.procfs import Holder
from dagprofiler.serializers import FrameList

if TYPE_CHECKING:
    from collections.abc import Mapping


#: The length of a file is part of what it syncs.
_sync = getattr(os, "fdatasync", os.fsync)


class OutputStore(NamedTuple):
    """Where outputs are stored; travels to workers, where :meth:`open` opens it.

    Attributes
    ----------
    directory
        An absolute path.
    key
        Tells this journal from all others: a file of that name says that it is here.
    trust
        Whether others may own what is there, and write to it.
    """

    directory: str
    key: str
    trust: bool = False

    @property
    def token(self) -> str:
        """The path of that file."""
        return os.path.join(self.directory, f"{self.key}.key")

    def found(self) -> None:
        """Make the directory and, empty, the file that says whose it is.

        Raises
        ------
        JournalError
            If others can write there, and that is not asked for.
        """
        os.makedirs(os.path.dirname(self.directory), exist_ok=True)
        with suppress(FileExistsError):
            os.mkdir(self.directory, 0o777 if self.trust else 0o700)
        self.check()
        with self.new_file(self.token) as file:
            os.fsync(file.fileno())

    def check(self, name: str = "") -> None:
        """Raise a JournalError if others can write to the directory, or to a file in it.

        Unless that is asked for.
        """
        path = os.path.join(self.directory, name) if name else self.directory
        if not self.trust:
            check_owner(path, os.stat(path))

    def new_file(self, path: str) -> IO[bytes]:
        """Open a file that is not there yet, which others cannot read unless they are trusted."""
        mode = 0o666 if self.trust else 0o600
        return open(path, "xb", opener=lambda path, flags: os.open(path, flags, mode))

    def open(self) -> OpenStore:
        """Return the store for the thread that calls this."""
        return OpenStore(self)


class OpenStore(Holder):
    """The store of one worker, which puts there the outputs of one task after the other."""

    def __init__(self, store: OutputStore) -> None:
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
                file = self._store.new_file(os.path.join(self._directory, self._segment))
                sync_directory(self._directory)
                return file
        raise AssertionError  # pragma: no cover  (it counts without end)

    def put(self, encoded: Mapping[str, Any]) -> dict[str, Any]:
        """Write outputs, so that they outlast this process and the machine's power.

        Returns
        -------
        dict
            The ``segment``, and for each of its ``fields`` where it begins, a
            checksum of it, its name and its form, whether it is one bytes object,
            and the lengths of its frames, negative for what is no bytes object.
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
                fields[field] = [
                    offset,
                    _with_form(checksum, field, whole, lengths),
                    whole,
                    lengths,
                ]
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


def _with_form(checksum: int, field: str, whole: bool, lengths: list[int]) -> int:  # noqa: FBT001
    """Return the checksum of an output with that of how it is made of frames."""
    return crc32(repr((field, whole, lengths)).encode("utf-8", "surrogatepass"), checksum)


def check_owner(path: str, status: os.stat_result) -> None:
    """Raise a JournalError if somebody else can have written what is at a path.

    Parameters
    ----------
    status
        What the system says of it.
    """
    if not hasattr(os, "geteuid"):
        # Windows has other permissions, which these do not show.
        return
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid != os.geteuid():
        why = f"it belongs to another user (number {status.st_uid})"
    elif mode & 0o022:
        why = f"other users can write to it (its mode is {mode:04o})"
    else:
        return
    hint = "trust=True (--trust-journal) if that is meant"
    raise JournalError(path, [f"{why}, and to resume a journal executes code in it; {hint}"])


def _segment(directory: str, stored: Mapping[str, Any]) -> str:
    """Return the path of the segment that outputs are in."""
    name = stored["segment"]
    if os.path.basename(name) != name:
        raise JournalError(directory, [f"segment {name!r} is no file in this directory"])
    return os.path.join(directory, name)


def frames_in(store: OutputStore, stored: Mapping[str, Any], field: str) -> Any:
    """Return the serialized value of an output.

    Raises
    ------
    JournalError
        If it is not there as it was written, or others can have written it.
    """
    path = _segment(store.directory, stored)
    offset, checksum, whole, lengths = stored["fields"][field]
    nbytes, data = sum(map(abs, lengths)), b""
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            if offset + nbytes <= status.st_size:
                file.seek(offset)
                data = file.read(nbytes)
    except (OSError, ValueError) as error:
        raise JournalError(path, [f"cannot be read: {describe(error)}"]) from error
    if not store.trust:
        check_owner(path, status)
    if len(data) < nbytes or _with_form(crc32(data), field, whole, lengths) != checksum:
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
    segment = stored["segment"]
    if segment not in ends:
        path = _segment(directory, stored)
        try:
            ends[segment] = os.path.getsize(path)
        except (OSError, ValueError) as error:
            raise JournalError(path, [f"cannot be read: {describe(error)}"]) from error
    return any(
        offset + sum(map(abs, lengths)) > ends[segment]
        for offset, _, _, lengths in stored["fields"].values()
    )
