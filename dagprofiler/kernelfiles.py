"""KernelFiles: files of the kernel that are read before and after each task."""

from __future__ import annotations

import os
from contextlib import suppress

__all__ = ["KernelFiles", "Unavailable"]

_GONE = "a task closed the file that tells it, or put another in its place"


class Unavailable(Exception):  # noqa: N818  (no error: it never leaves the profiler)
    """A quantity cannot be measured here; the message says why."""


class KernelFiles:
    """Files of the kernel that one thread reads again and again.

    A task may close them, and what it opens then gets their numbers. Nothing
    that is not ours is written to or closed; what was read counts if
    :meth:`check` has nothing to say afterwards.

    Attributes
    ----------
    read_bytes
        What was read so far. The kernel counts it among the I/O of the process.
    """

    def __init__(self, proc: str) -> None:
        self._fds: list[int] = []
        #: File descriptor to what it stood for when it was opened.
        self._opened: dict[int, tuple[int, int]] = {}
        self._proc = proc
        self.read_bytes = 0

    def __del__(self) -> None:
        # Ctrl-C may come before anybody else knows of this object.
        self.close()

    def open(self, name: str, flags: int = os.O_RDONLY) -> int:
        """Open a file below ``/proc``, or raise Unavailable."""
        path = f"{self._proc}/{name}"
        try:
            # Opened and kept in one step, so that Ctrl-C cannot come between.
            self._fds.extend(map(os.open, [path], [flags]))
        except FileNotFoundError as error:
            raise Unavailable(f"this system has no {path}") from error
        except OSError as error:
            what = "read" if flags == os.O_RDONLY else "written"
            raise Unavailable(
                f"{path} cannot be {what} ({os.strerror(error.errno or 0)})"
            ) from error
        fd = self._fds[-1]
        self._opened[fd] = _identity(fd)
        return fd

    def again(self, fd: int, size: int = 256) -> bytes:
        """Return what a file holds now, from its beginning, up to `size` bytes."""
        data = os.pread(fd, size, 0)
        self.read_bytes += len(data)
        return data

    def next(self, fd: int, size: int) -> bytes:
        """Return up to `size` further bytes of a file that has no beginning."""
        data = os.read(fd, size)
        self.read_bytes += len(data)
        return data

    def write(self, fd: int, data: bytes) -> None:
        """Write to a file from its beginning; raise Unavailable if it is not ours any more."""
        self.check(fd)
        os.pwrite(fd, data, 0)

    def check(self, fd: int) -> None:
        """Raise Unavailable unless a descriptor still stands for our file.

        What does has done so ever since it was opened: nobody puts ours back.
        """
        try:
            identity = _identity(fd)
        except OSError as error:
            raise Unavailable(_GONE) from error
        # No task has run where Ctrl-C came before it was noted.
        if identity != self._opened.get(fd, identity):
            raise Unavailable(_GONE)

    def close(self) -> None:
        """Close all files, but none that a task has put in the place of one."""
        while self._fds:
            # Forgotten when it is done, since Ctrl-C may come first and this be called again.
            with suppress(OSError, Unavailable):
                self.check(self._fds[-1])
                os.close(self._fds[-1])
            self._fds.pop()


def _identity(fd: int) -> tuple[int, int]:
    found = os.fstat(fd)
    return found.st_dev, found.st_ino
