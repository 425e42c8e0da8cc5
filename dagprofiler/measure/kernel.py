"""What the Linux kernel counts: in files, and by ``perf_event_open(2)`` for each thread."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from struct import Struct, pack
from weakref import finalize

#: An event as ``perf_event_open(2)`` numbers it: type and config.
INSTRUCTIONS = (0, 1)

#: The number of the call on little-endian machines: on others `flags` has other bits.
_SYSCALL_NUMBERS = {"x86_64": 298, "aarch64": 241}
_PARANOID = "/proc/sys/kernel/perf_event_paranoid"
#: New threads inherit the counter, new processes do not; neither the kernel's nor the
#: hypervisor's events count.
_FLAGS = 1 << 1 | 1 << 35 | 1 << 5 | 1 << 6
#: A reading also has the time enabled and the time running.
_TIMES = 1 << 0 | 1 << 1
_CLOSE_ON_EXEC = 1 << 3
_ATTRIBUTES_BYTES = 64
_READING = Struct("=QQQ")


class UnavailableError(Exception):
    """A quantity cannot be measured here; the message says why."""


class KernelFiles:
    """Files and counters of the kernel that one thread reads again and again.

    Parameters
    ----------
    proc
        Path of the kernel's files on processes.

    Attributes
    ----------
    read_bytes
        Bytes read so far. The kernel counts them in the I/O of the process.
    close
        Closes them; called at the latest when no reference to this object is left.
    """

    def __init__(self, proc: str = "/proc") -> None:
        self.read_bytes = 0
        self._proc = proc
        self._opened: list[int] = []
        self.close = finalize(self, _close_all, self._opened)

    def open(self, name: str, flags: int = os.O_RDONLY) -> int:
        """Open a file below ``/proc``, or raise UnavailableError."""
        path = f"{self._proc}/{name}"
        try:
            fd = os.open(path, flags)
        except OSError as error:
            raise UnavailableError(f"{path} cannot be opened ({error.strerror})") from error
        self._opened.append(fd)
        return fd

    def reader(self, name: str, size: int = 256) -> Callable[[], bytes]:
        """Return a function that reads up to `size` bytes of a file from its beginning."""
        fd = self.open(name)

        def read() -> bytes:
            data = os.pread(fd, size, 0)
            self.read_bytes += len(data)
            return data

        return read

    def number(self, name: str, place: int) -> Callable[[], int]:
        """Return a function that reads the number in a file's word `place`, from 1."""
        read = self.reader(name)
        return lambda: int(read().split(None, place)[place - 1])

    def threads(self) -> list[int]:
        """Return the threads of this process, as the kernel numbers them."""
        if sys.platform != "linux":
            raise UnavailableError("counters are read on Linux only")
        return [int(name) for name in os.listdir("/proc/self/task")]

    def open_counters(self, attributes: bytes) -> list[int]:
        """Open a counter for each thread, or raise UnavailableError; return file descriptors."""
        counters: list[int] = []
        try:
            for thread in sorted(self.threads()):
                # It may have ended since it was listed.
                with suppress(ProcessLookupError):
                    counters.append(_perf_event_open(attributes, thread))
        except OSError as error:
            _close_all(counters)
            raise UnavailableError(_why(error)) from error
        self._opened += counters
        return counters

    def read_counter(self, fd: int) -> tuple[int, int, int]:
        """Return a counter's count, time enabled and time running."""
        data = os.read(fd, _READING.size)
        self.read_bytes += len(data)
        count, enabled, running = _READING.unpack(data)
        return count, enabled, running


def _close_all(opened: list[int]) -> None:
    while opened:
        os.close(opened.pop())


def _perf_event_open(attributes: bytes, thread: int) -> int:
    """Open a counter of `thread` on every processor; return its file descriptor.

    Raises
    ------
    UnavailableError
        If the system call is not known on this machine.
    OSError
        If the kernel refuses the counter.
    """
    machine = os.uname().machine
    # A program of 32 bits has other numbers, and the machine's name does not tell.
    if machine not in _SYSCALL_NUMBERS or sys.maxsize < 2**32:
        raise UnavailableError(f"how to read counters is not known for machine {machine!r}")
    import ctypes

    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = long = ctypes.c_long
    syscall.argtypes = [long, ctypes.c_char_p, long, long, long, ctypes.c_ulong]
    fd: int = syscall(_SYSCALL_NUMBERS[machine], attributes, thread, -1, -1, _CLOSE_ON_EXEC)
    if fd < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return fd


class EventCounter:
    """A meter of events in user mode, summed over all threads of the process.

    Every thread that exists when the counter is opened gets a file
    descriptor. Threads that start later inherit the counter of the thread that
    starts them; processes do not.

    Parameters
    ----------
    files
        Opens and reads the counters, and closes them.
    event
        Type and config, as ``perf_event_open(2)`` numbers them.

    Raises
    ------
    UnavailableError
        If the event cannot be counted here.

    Notes
    -----
    A count is exact or None. Counters with several users alternate, so that a full
    count would be an estimate; the time running is then less than the time enabled,
    as it is for a thread on a core with another kind of counters.
    """

    def __init__(self, files: KernelFiles, event: tuple[int, int] = INSTRUCTIONS) -> None:
        self.reason: str | None = None
        self._files = files
        self._before = (0, 0, 0)
        #: All code takes instructions, so a count of 0 is wrong: where all counters of a processor
        #: are taken, some machines report it, and that the counter ran all the time.
        self._always_counts = event == INSTRUCTIONS
        # ``struct perf_event_attr`` in its first version.
        type_, config = event
        fields = (type_, _ATTRIBUTES_BYTES, config, 0, 0, _TIMES, _FLAGS)
        attributes = pack("=IIQQQQQ", *fields).ljust(_ATTRIBUTES_BYTES, b"\0")
        self._counters = files.open_counters(attributes)

    def start(self) -> None:
        """Take the reading before the task."""
        self._before = self._read()

    def stop(self) -> int | None:
        """Return the count since :meth:`start`; None, with the reason, if it is incomplete."""
        count, enabled, running = (now - before for now, before in zip(self._read(), self._before))
        if enabled == running and (count or not self._always_counts):
            return count
        self.reason = (
            "the counter did not run all the time (others used it, or a core has none), "
            "and what it missed could only be estimated"
        )
        return None

    def _read(self) -> tuple[int, int, int]:
        """Return count, time enabled and time running, summed over all threads, since opened."""
        data = [self._files.read_counter(fd) for fd in self._counters]
        return sum(d[0] for d in data), sum(d[1] for d in data), sum(d[2] for d in data)


def _why(error: OSError) -> str:
    """Return the reason why a counter could not be opened, as a text."""
    if error.errno in (errno.ENOENT, errno.EOPNOTSUPP):
        return "no hardware counters on this machine"
    if error.errno == errno.EACCES:
        # Up to 2, every user may count the events of their own programs in user mode.
        with suppress(OSError), open(_PARANOID, encoding="utf-8") as file:
            return f"forbidden (perf_event_paranoid = {file.read().strip()})"
    # Containers forbid it, and kernels before Linux 5.13 cannot count.
    return f"the kernel refuses the counter ({os.strerror(error.errno or 0)})"
