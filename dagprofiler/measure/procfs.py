"""KernelFiles: files of the kernel that are read before and after each task."""

from __future__ import annotations

import os
from collections import deque
from contextlib import suppress
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


_GONE = "a task closed or replaced the file that this meter reads"


class Unavailable(Exception):  # noqa: N818  (no error: it never leaves the profiler)
    """A quantity cannot be measured here; the message says why."""


class Holder:
    """Holds open resources, and closes them at the latest when no reference to it is left.

    Parameters
    ----------
    close
        Closes one of them. Must not refer to this object.

    Notes
    -----
    Python discards what a finalizer raises, and with it a Ctrl-C that arrived just before, if the
    finalizer runs any bytecode. This one runs none if nothing is open.
    """

    __del__ = property(attrgetter("_finalize"))

    def __init__(self, close: Callable[[Any], None]) -> None:
        self._held: list[Any] = []
        self._finalize: Callable[[], Any] = partial(deque, map(close, self._held), 0)
        self._close = close

    def close(self) -> None:
        """Close all resources."""
        while self._held:
            # Removed when it is done, since this is called again after a Ctrl-C.
            self._close(self._held[-1])
            self._held.pop()


class KernelFiles(Holder):
    """Files of the kernel that one thread reads repeatedly.

    A task may close them, and files that it then opens get their descriptors. Only our
    own files are written to or closed; a reading is valid if :meth:`check` does not raise
    afterwards.

    Attributes
    ----------
    read_bytes
        Bytes read so far. The kernel counts them in the I/O of the process.
    """

    def __init__(self, proc: str) -> None:
        #: File descriptor to the file's identity when it was opened.
        self._opened: dict[int, tuple[int, int]] = {}
        super().__init__(partial(_close, self._opened))
        self._proc = proc
        self.read_bytes = 0

    def open(self, name: str, flags: int = os.O_RDONLY) -> int:
        """Open a file below ``/proc``, or raise Unavailable."""
        path = f"{self._proc}/{name}"
        try:
            # Opened and kept in one step, so that Ctrl-C cannot come between.
            self._held.extend(map(os.open, [path], [flags]))
        except FileNotFoundError as error:
            raise Unavailable(f"this system has no {path}") from error
        except OSError as error:
            what = "read" if flags == os.O_RDONLY else "written"
            raise Unavailable(
                f"{path} cannot be {what} ({os.strerror(error.errno or 0)})"
            ) from error
        fd: int = self._held[-1]
        self._opened[fd] = _identity(fd)
        return fd

    def again(self, fd: int, size: int = 256) -> bytes:
        """Return the current content of a file from its beginning, up to `size` bytes."""
        data = os.pread(fd, size, 0)
        self.read_bytes += len(data)
        return data

    def next(self, fd: int, size: int) -> bytes:
        """Return up to `size` further bytes of a file without positions."""
        data = os.read(fd, size)
        self.read_bytes += len(data)
        return data

    def write(self, fd: int, data: bytes) -> None:
        """Write to a file from its beginning; raise Unavailable if a task replaced it."""
        self.check(fd)
        os.pwrite(fd, data, 0)

    def check(self, fd: int) -> None:
        """Raise Unavailable unless a descriptor still refers to our file.

        If it does, it has done so since it was opened: no task can restore it.
        """
        _check(self._opened, fd)


def _check(opened: dict[int, tuple[int, int]], fd: int) -> None:
    try:
        identity = _identity(fd)
    except OSError as error:
        raise Unavailable(_GONE) from error
    # If Ctrl-C came before the identity was stored, no task has run.
    if identity != opened.get(fd, identity):
        raise Unavailable(_GONE)


def _close(opened: dict[int, tuple[int, int]], fd: int) -> None:
    """Close a file unless a task has replaced it."""
    with suppress(OSError, Unavailable):
        _check(opened, fd)
        os.close(fd)


def _identity(fd: int) -> tuple[int, int]:
    status = os.fstat(fd)
    return status.st_dev, status.st_ino
