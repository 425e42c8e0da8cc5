"""What the Linux kernel counts: in files, and by ``perf_event_open(2)`` for each thread."""

from __future__ import annotations

import errno
import os
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from operator import attrgetter
from struct import pack
from typing import Any

_GONE = "a task closed or replaced the file that this meter reads"

#: An event as ``perf_event_open(2)`` numbers it: type and config.
INSTRUCTIONS = (0, 1)

# Machines of little-endian bytes alone: a bit of `flags` has another place elsewhere.
_SYSCALL_NUMBERS = {
    "x86_64": 298,
    "aarch64": 241,
    "riscv64": 241,
    "loongarch64": 241,
    "ppc64le": 319,
}
_PARANOID = "/proc/sys/kernel/perf_event_paranoid"
_INHERIT, _EXCLUDE_KERNEL, _EXCLUDE_HYPERVISOR, _INHERIT_THREAD = 1 << 1, 1 << 5, 1 << 6, 1 << 35
_TIME_ENABLED, _TIME_RUNNING = 1 << 0, 1 << 1
_CLOSE_ON_EXEC = 1 << 3
#: ``PERF_EVENT_IOC_ID``, which only counters answer; its direction has other bits on PowerPC.
_ASK_ID, _ASK_ID_POWERPC = 0x80082407, 0x40082407
_ATTRIBUTES_BYTES, _READING_BYTES = 64, 24
_ATTEMPTS = 10


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
        at_last = partial(_close_at_last, close)
        self._finalize: Callable[[], Any] = partial(deque, map(at_last, self._held), 0)
        self._close = close

    def close(self) -> None:
        """Close all resources."""
        while self._held:
            # Removed when it is done, since this is called again after a Ctrl-C.
            self._close(self._held[-1])
            self._held.pop()


def _close_at_last(
    close: Callable[[Any], None], held: Any, over: Callable[[], bool] = sys.is_finalizing
) -> None:
    # When the interpreter ends, modules are empty, and the system closes all.
    if not over():
        close(held)


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


class SystemCalls:
    """The system calls of an :class:`EventCounter`.

    Parameters
    ----------
    read
        Reads a number of bytes from a file descriptor.
    system, machine
        As ``sys.platform`` and ``os.uname().machine`` name them; None: these.

    Raises
    ------
    Unavailable
        If counters cannot be read on such a machine.
    """

    def __init__(
        self,
        read: Callable[[int, int], bytes] = os.read,
        system: str = sys.platform,
        machine: str | None = None,
    ) -> None:
        if system != "linux":
            raise Unavailable("counters are read on Linux only")
        machine = machine or os.uname().machine
        # A program of 32 bits has other numbers, and the machine's name does not tell.
        if machine not in _SYSCALL_NUMBERS or sys.maxsize < 2**32:
            raise Unavailable(f"how to read counters is not known for machine {machine!r}")
        import ctypes
        from fcntl import ioctl

        self._read = read
        self._ioctl = ioctl
        self._ask_id = _ASK_ID_POWERPC if machine == "ppc64le" else _ASK_ID
        self._id = bytearray(8)
        self._errno = ctypes.get_errno
        self._number = _SYSCALL_NUMBERS[machine]
        self._syscall = ctypes.CDLL(None, use_errno=True).syscall
        self._syscall.restype = long = ctypes.c_long
        self._syscall.argtypes = [long, ctypes.c_char_p, long, long, long, ctypes.c_ulong]

    def threads(self) -> set[int]:
        """Return the threads of this process, as the kernel numbers them."""
        return set(map(int, os.listdir("/proc/self/task")))

    def open(self, attributes: bytes, thread: int) -> int:
        """Open a counter of `thread` on every processor; return its file descriptor."""
        fd: int = self._syscall(self._number, attributes, thread, -1, -1, _CLOSE_ON_EXEC)
        if fd < 0:
            number = self._errno()
            raise OSError(number, os.strerror(number))
        return fd

    def read(self, fd: int, size: int) -> bytes:
        """Return the data of a counter; nothing if a task has closed it."""
        # Reading a file that replaced it could consume its data, or block.
        return self._read(fd, size) if self._is_counter(fd) else b""

    def close(self, fd: int) -> None:
        """Close a counter, unless a task has replaced it by another file."""
        if self._is_counter(fd):
            with suppress(OSError):
                os.close(fd)

    def _is_counter(self, fd: int) -> bool:
        # Counters share one inode, so fstat() cannot identify them.
        try:
            self._ioctl(fd, self._ask_id, self._id)
        except OSError:
            return False
        return True


class EventCounter(Holder):
    """A meter of events in user mode, summed over all threads of the process.

    Every thread that exists when the counter is opened gets a file
    descriptor. Threads that start later inherit the counter of the thread that
    starts them; processes do not.

    Parameters
    ----------
    event
        Type and config, as ``perf_event_open(2)`` numbers them.
    calls
        The system calls; None: the real ones.

    Raises
    ------
    Unavailable
        If the event cannot be counted here.

    Notes
    -----
    A count is exact or None. Counters with several users alternate, so that a full
    count would be an estimate; the time running is then less than the time enabled,
    as it is for a thread on a core with another kind of counters.
    """

    def __init__(self, event: tuple[int, int], calls: Any = None) -> None:
        self.reason: str | None = None
        self._calls = SystemCalls() if calls is None else calls
        super().__init__(self._calls.close)
        self._before: tuple[int, ...] = ()
        #: No code runs without instructions: where all counters of a processor are taken, some
        #: machines say 0 and that it ran all the time.
        self._always_counts = event == INSTRUCTIONS
        # ``struct perf_event_attr`` in its first version.
        flags = _INHERIT | _INHERIT_THREAD | _EXCLUDE_KERNEL | _EXCLUDE_HYPERVISOR
        type_, config = event
        fields = (type_, _ATTRIBUTES_BYTES, config, 0, 0, _TIME_ENABLED | _TIME_RUNNING, flags)
        self._open(pack("=IIQQQQQ", *fields).ljust(_ATTRIBUTES_BYTES, b"\0"))

    def start(self) -> None:
        """Take the reading before the task."""
        self._before = self._read()

    def stop(self) -> int | None:
        """Return the count since :meth:`start`; None, with the reason, if it is incomplete."""
        now = self._read()
        if not now or not self._before:
            self.reason = "a task closed the counter, or put another file in its place"
            return None
        count, enabled, running = map(int.__sub__, now, self._before)
        if enabled == running and (count or not self._always_counts):
            return count
        self.reason = (
            "the counter did not run all the time (others used it, or a core has none), "
            "and what it missed could only be estimated"
        )
        return None

    def _open(self, attributes: bytes) -> None:
        """Open a counter for each thread.

        A thread that starts meanwhile has a counter only if the one that started it
        had one, which is unknown; so threads must be the same before and after.
        """
        for _ in range(_ATTEMPTS):
            threads = self._calls.threads()
            try:
                for thread in sorted(threads):
                    # It may have ended since it was listed.
                    with suppress(ProcessLookupError):
                        self._held.append(self._calls.open(attributes, thread))
            except OSError as error:
                self.close()
                raise Unavailable(_why(error, len(threads))) from error
            if self._calls.threads() <= threads:
                return
            self.close()
        raise Unavailable("threads kept starting while their counters were opened")

    def _read(self) -> tuple[int, ...]:
        """Return count, time enabled and time running, summed over all threads, since opened.

        Nothing if a counter has no data.
        """
        data = b"".join([self._calls.read(fd, _READING_BYTES) for fd in self._held])
        if len(data) < _READING_BYTES * len(self._held):
            return ()
        numbers = memoryview(data).cast("Q").tolist()
        return sum(numbers[::3]), sum(numbers[1::3]), sum(numbers[2::3])


def _why(error: OSError, threads: int) -> str:
    """Return the reason why a counter could not be opened, as a text."""
    what = os.strerror(error.errno or 0)
    sentences = {
        errno.ENOENT: "no hardware counters on this machine",
        errno.EOPNOTSUPP: "no hardware counters on this machine",
        errno.EPERM: "forbidden in this container",
        errno.ENOSYS: "the kernel has no performance counters",
        errno.EBUSY: "another program has exclusive use of the counters",
        errno.EINVAL: f"the kernel refuses the counter ({what}); it needs Linux 5.13 or later",
        errno.EMFILE: f"too many open files: counters need one for each of {threads} threads",
        errno.ENFILE: "too many open files on this machine",
    }
    if error.errno == errno.EACCES:
        return _why_forbidden(_PARANOID)
    return sentences.get(error.errno or 0, f"the kernel refuses the counter ({what})")


def _why_forbidden(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            level = int(file.read())
    except (OSError, ValueError):
        return "forbidden by the kernel"
    # Up to 2, every user may count the events of their own programs in user mode.
    if level <= 2:
        return f"forbidden by a security policy (perf_event_paranoid = {level} allows it)"
    return f"forbidden by perf_event_paranoid = {level}"
