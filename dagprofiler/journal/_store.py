"""OutputStore: the outputs of tasks on disk, written by the workers that ran them.

Each worker appends to a segment, a file of its own, so that no worker waits for another. It
returns the place of each output with its measurements.
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
    """The place where outputs are stored; sent to workers, which :meth:`open` it.

    Attributes
    ----------
    directory
        An absolute path.
    key
        Identifies this journal: the directory holds an empty file of that name.
    trust
        Whether other users may own the directory and its files, and write to them.
    """

    directory: str
    key: str
    trust: bool = False

    @property
    def token(self) -> str:
        """The path of the file that identifies the journal."""
        return os.path.join(self.directory, f"{self.key}.key")

    def create(self) -> None:
        """Create the directory, and the empty file that identifies the journal.

        Raises
        ------
        JournalError
            If other users can write to the directory, and `trust` is False.
        """
        os.makedirs(os.path.dirname(self.directory), exist_ok=True)
        with suppress(FileExistsError):
            os.mkdir(self.directory, 0o777 if self.trust else 0o700)
        self.check()
        with self.new_file(self.token) as file:
            os.fsync(file.fileno())

    def check(self, name: str = "") -> None:
        """Raise a JournalError if `trust` is False and others can write to the path.

        The path is the directory, or the file `name` in it.
        """
        path = os.path.join(self.directory, name) if name else self.directory
        if not self.trust:
            check_owner(path, os.stat(path))

    def new_file(self, path: str) -> IO[bytes]:
        """Create and open a file, which other users cannot read unless `trust` is True."""
        mode = 0o666 if self.trust else 0o600
        return open(path, "xb", opener=lambda path, flags: os.open(path, flags, mode))

    def open(self) -> OpenStore:
        """Return the store for the calling thread."""
        return OpenStore(self)


class OpenStore(Holder):
    """Writes the outputs of the tasks of one worker to a segment."""

    def __init__(self, store: OutputStore) -> None:
        # At most one segment is open; the thread of a worker ends without notice.
        super().__init__(_close)
        self._store = store
        self._directory = store.directory
        self._segment = ""

    def begin(self) -> None:
        """Open a segment, unless one is open.

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
                raise self._unreachable(
                    "on this worker it is another directory, or holds another journal"
                )
            self._held.append(self._new_segment())
        except OSError as error:
            raise self._unreachable(describe(error)) from error

    def _unreachable(self, why: str) -> JournalError:
        worker = f"worker {hostname()} (process {os.getpid()})"
        return JournalError(self._directory, [f"{worker} cannot write there: {why}"])

    def _new_segment(self) -> IO[bytes]:
        worker = f"{hostname()}-{os.getpid()}-{threading.get_ident()}".replace(os.sep, "_")
        for number in count():
            # Other hosts and containers may have the same names and numbers.
            with suppress(FileExistsError):
                self._segment = f"{worker}-{number}.segment"
                file = self._store.new_file(os.path.join(self._directory, self._segment))
                sync_directory(self._directory)
                return file
        raise AssertionError  # pragma: no cover  (count() has no end)

    def put(self, encoded: Mapping[str, Any]) -> dict[str, Any]:
        """Write outputs and sync them, so that they survive a power failure.

        Returns
        -------
        dict
            The ``segment``, and for each of its ``fields`` its offset, a checksum
            of its content, name and form, whether it is one bytes object, and the
            lengths of its frames, negative for those that are not bytes objects.
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
            # The content of the segment is unknown now; the next outputs go to another one.
            self.close()
            if not isinstance(error, OSError):
                raise
            path = os.path.join(self._directory, self._segment)
            raise JournalError(path, [f"outputs cannot be written: {describe(error)}"]) from error
        return {"segment": self._segment, "fields": fields}


def _close(segment: IO[bytes]) -> None:
    # Closing flushes only after a failed write, which may fail again.
    with suppress(OSError):
        segment.close()


def sync_directory(path: str) -> None:
    """Sync the names in a directory, so that they survive a power failure."""
    # Windows cannot open directories, and syncs names by itself.
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _with_form(checksum: int, field: str, whole: bool, lengths: list[int]) -> int:  # noqa: FBT001
    """Return the checksum of an output's content, extended by its name and frames."""
    return crc32(repr((field, whole, lengths)).encode("utf-8", "surrogatepass"), checksum)


def check_owner(path: str, status: os.stat_result) -> None:
    """Raise a JournalError if another user may have written the file at a path.

    Parameters
    ----------
    status
        The result of :func:`os.stat` for it.
    """
    if not hasattr(os, "geteuid"):
        # The mode does not show the permissions that Windows has.
        return
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid != os.geteuid():
        why = f"it belongs to another user (number {status.st_uid})"
    elif mode & 0o022:
        why = f"other users can write to it (its mode is {mode:04o})"
    else:
        return
    hint = "if you trust them, pass trust=True (--trust-journal)"
    raise JournalError(path, [f"{why}, and resuming a journal executes code in it; {hint}"])


def _segment(directory: str, stored: Mapping[str, Any]) -> str:
    """Return the path of the segment that outputs are in."""
    name = stored["segment"]
    if os.path.basename(name) != name:
        raise JournalError(directory, [f"segment {name!r} is not a file in this directory"])
    return os.path.join(directory, name)


def frames_in(store: OutputStore, stored: Mapping[str, Any], field: str) -> Any:
    """Return the serialized value of an output.

    Raises
    ------
    JournalError
        If it is missing or damaged, or other users may have written it.
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
    """Tell whether a segment is shorter than the outputs that were written to it.

    Parameters
    ----------
    ends
        Length of each segment that was looked up, in bytes; a cache.
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
