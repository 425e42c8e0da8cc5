"""What the system counts for a process and its threads, read before and after a task."""

from __future__ import annotations

import errno
import os
import sys
import time
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "COUNTERS",
    "INSTRUCTIONS",
    "MILLISECOND_NS",
    "PAGE_FAULTS",
    "TASK_CLOCK",
    "BuiltIn",
    "EventCounter",
    "Growth",
    "KernelFiles",
    "SystemCalls",
    "Unavailable",
]

MILLISECOND_NS = 1e6

#: Events as ``perf_event_open(2)`` numbers them: type and config.
INSTRUCTIONS = (0, 1)
TASK_CLOCK = (1, 1)
PAGE_FAULTS = (1, 2)

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
_ATTRIBUTES_BYTES, _READING_BYTES = 64, 24
_ATTEMPTS = 10


class Unavailable(Exception):  # noqa: N818  (no error: it never leaves the profiler)
    """A quantity cannot be measured here; the message says why."""


class SystemCalls:
    """What an :class:`EventCounter` asks of the system.

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

        self.read = read
        self._errno = ctypes.get_errno
        self._number = _SYSCALL_NUMBERS[machine]
        self._syscall = ctypes.CDLL(None, use_errno=True).syscall
        self._syscall.restype = ctypes.c_long
        self._syscall.argtypes = [
            ctypes.c_long,
            ctypes.c_char_p,
            *[ctypes.c_long] * 3,
            ctypes.c_ulong,
        ]

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

    def close(self, fd: int) -> None:
        """Close a file descriptor."""
        os.close(fd)


class EventCounter:
    """A meter of events in user mode, summed over all threads of the process.

    Every thread that is there when the counter is opened gets a file
    descriptor. Threads that start later inherit the counter of the thread that
    starts them, so that nobody has to look for them; processes do not.

    Parameters
    ----------
    name
        Of the meter.
    event
        Type and config, as ``perf_event_open(2)`` numbers them.
    calls
        How the system is asked; None: for real.

    Raises
    ------
    Unavailable
        If the event cannot be counted here.

    Notes
    -----
    A count is exact or none. Counters that more than one user wants take turns,
    and what a count would have been without that is an estimate; it shows as
    less time running than enabled, as it does for a thread on a core that has
    another kind of counters.
    """

    unit = "1"

    def __init__(self, name: str, event: tuple[int, int], calls: Any = None) -> None:
        self.name = name
        self.reason: str | None = None
        self._calls = SystemCalls() if calls is None else calls
        self._fds: list[int] = []
        self._before = (0, 0, 0)
        self._open(_attributes(event))

    def start(self) -> None:
        """Take the reading that the count begins at."""
        self._before = self._read()

    def stop(self) -> int | None:
        """Return what was counted since :meth:`start`; None, with the reason, if not all was."""
        count, enabled, running = map(int.__sub__, self._read(), self._before)
        if enabled == running:
            return count
        self.reason = (
            "the counter did not run all the time (others used it, or a core has none), "
            "and what it missed could only be estimated"
        )
        return None

    def close(self) -> None:
        """Close all file descriptors."""
        while self._fds:
            self._calls.close(self._fds.pop())

    def _open(self, attributes: bytes) -> None:
        """Open a counter for each thread.

        A thread that started meanwhile has a counter if the one that started it
        had, and nobody can tell; so threads must be the same before and after.
        """
        for _ in range(_ATTEMPTS):
            threads = self._calls.threads()
            try:
                for thread in sorted(threads):
                    self._open_one(attributes, thread)
            except OSError as error:
                self.close()
                raise Unavailable(_why(error, len(threads))) from error
            if self._calls.threads() <= threads:
                return
            self.close()
        raise Unavailable("threads kept starting while their counters were opened")

    def _open_one(self, attributes: bytes, thread: int) -> None:
        try:
            self._fds.append(self._calls.open(attributes, thread))
        except OSError as error:
            # The thread has ended since it was listed.
            if error.errno != errno.ESRCH:
                raise

    def _read(self) -> tuple[int, int, int]:
        """Return count, time enabled and time running, summed over all threads, since opened."""
        data = b"".join([self._calls.read(fd, _READING_BYTES) for fd in self._fds])
        numbers = memoryview(data).cast("Q").tolist()
        return sum(numbers[::3]), sum(numbers[1::3]), sum(numbers[2::3])


def _attributes(event: Sequence[int]) -> bytes:
    """Return the ``struct perf_event_attr`` of an event, in its first version."""
    from struct import pack

    flags = _INHERIT | _INHERIT_THREAD | _EXCLUDE_KERNEL | _EXCLUDE_HYPERVISOR
    type_, config = event
    fields = (type_, _ATTRIBUTES_BYTES, config, 0, 0, _TIME_ENABLED | _TIME_RUNNING, flags)
    return pack("=IIQQQQQ", *fields).ljust(_ATTRIBUTES_BYTES, b"\0")


def _why(error: OSError, threads: int) -> str:
    """Return in words why a counter could not be opened."""
    said = os.strerror(error.errno or 0)
    sentences = {
        errno.ENOENT: "no hardware counters on this machine",
        errno.EOPNOTSUPP: "no hardware counters on this machine",
        errno.EPERM: "forbidden in this container",
        errno.ENOSYS: "the kernel has no performance counters",
        errno.EBUSY: "somebody else has the counters for themselves",
        errno.EINVAL: f"the kernel refuses the counter ({said}); it takes Linux 5.13 or later",
        errno.EMFILE: f"too many open files: counters need one for each of {threads} threads",
        errno.ENFILE: "too many open files on this machine",
    }
    if error.errno == errno.EACCES:
        return _why_forbidden(_PARANOID)
    return sentences.get(error.errno or 0, f"the kernel refuses the counter ({said})")


def _why_forbidden(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            level = int(file.read())
    except (OSError, ValueError):
        return "forbidden by the kernel"
    # Up to 2, everybody may count what their own program does in user mode.
    if level <= 2:
        return f"forbidden by a security policy (perf_event_paranoid = {level} allows it)"
    return f"forbidden by perf_event_paranoid = {level}"


class KernelFiles:
    """Files of the kernel that one thread reads again and again.

    Attributes
    ----------
    read_bytes
        What was read so far. The kernel counts it among the I/O of the process.
    """

    def __init__(self, proc: str) -> None:
        self.read_bytes = 0
        self._proc = proc
        self._fds: list[int] = []

    def open(self, name: str, flags: int = os.O_RDONLY) -> int:
        """Open a file below ``/proc``, or raise Unavailable."""
        path = f"{self._proc}/{name}"
        try:
            fd = os.open(path, flags)
        except FileNotFoundError as error:
            raise Unavailable(f"this system has no {path}") from error
        except OSError as error:
            what = "read" if flags == os.O_RDONLY else "written"
            raise Unavailable(
                f"{path} cannot be {what} ({os.strerror(error.errno or 0)})"
            ) from error
        self._fds.append(fd)
        return fd

    def again(self, fd: int) -> bytes:
        """Return what a file holds now."""
        data = os.pread(fd, 4096, 0)  # holds all of them, or the part that is wanted
        self.read_bytes += len(data)
        return data

    def next(self, fd: int, size: int) -> bytes:
        """Return up to `size` further bytes of a file that has no beginning."""
        data = os.read(fd, size)
        self.read_bytes += len(data)
        return data

    def close(self) -> None:
        """Close all files."""
        while self._fds:
            os.close(self._fds.pop())


class Growth:
    """A meter of what a reading grows by.

    Parameters
    ----------
    read
        Returns a quantity that only grows.
    divisor
        What brings it to the unit of the meter; None for whole numbers.
    """

    reason = None

    def __init__(self, read: Callable[[], float | int], divisor: float | None = None) -> None:
        self._read = read
        self._divisor = divisor
        self._before: float | int = 0

    def start(self) -> None:
        """Take the reading to subtract."""
        self._before = self._read()

    def stop(self) -> float | int:
        """Return the growth since :meth:`start`."""
        growth = self._read() - self._before
        return growth / self._divisor if self._divisor else growth


def _open_delay(files: KernelFiles) -> Growth:
    """Measure how long this thread was ready to run while others had the processor.

    Field 2 of schedstat, in ns (the kernel's Documentation/scheduler/sched-stats.rst).
    """
    fd = files.open("thread-self/schedstat")
    # Field 3 counts how often this thread got a processor, which it has now.
    if files.again(fd).split()[2:] in ([], [b"0"]):
        raise Unavailable("the kernel keeps no account of run-queue delays (CONFIG_SCHED_INFO)")
    return Growth(lambda: int(files.again(fd).split()[1]), MILLISECOND_NS)


def _open_cpu(_: KernelFiles) -> Growth:
    if not hasattr(time, "thread_time_ns"):
        raise Unavailable("this system has no clock of a thread's CPU time")
    return Growth(time.thread_time_ns, MILLISECOND_NS)


def _open_instructions(files: KernelFiles) -> EventCounter:
    return EventCounter("instructions", INSTRUCTIONS, SystemCalls(files.next))


def _open_process_cpu(_: KernelFiles) -> Growth:
    return Growth(time.process_time_ns, MILLISECOND_NS)


def _opener_of_usage(
    quantity: Callable[[Any], int], whose: str = "RUSAGE_SELF", divisor: float | None = None
) -> Callable[[KernelFiles], Growth]:
    """Return what opens a meter of a quantity that ``getrusage()`` tells."""

    def open_usage(_: KernelFiles) -> Growth:
        try:
            import resource
        except ImportError as error:
            raise Unavailable("this system has no getrusage()") from error
        getrusage, who = resource.getrusage, getattr(resource, whose)
        return Growth(lambda: quantity(getrusage(who)), divisor)

    return open_usage


def _open_read_bytes(files: KernelFiles) -> Growth:
    """Measure what system calls read, without what the meters themselves do."""
    fd = files.open("self/io")

    def read() -> int:
        # What this very reading reads is counted after it, here as in the kernel.
        own = files.read_bytes
        return int(files.again(fd).split(None, 2)[1]) - own

    return Growth(read)


def _open_written_bytes(files: KernelFiles) -> Growth:
    fd = files.open("self/io")
    return Growth(lambda: int(files.again(fd).split(None, 4)[3]))


class BuiltIn(NamedTuple):
    """A meter that has a name: its unit, and what opens it or raises :class:`Unavailable`."""

    unit: str
    open: Callable[[KernelFiles], Any]


# From the inside out. To read a clock of CPU time brings the scheduler's books up to date, and it
# is then that a thread which has had its share loses the processor: beside four busy processes,
# one task of 0.4 ms in six did. A wait there is no part of the wall time, so that `delay` must be
# inside of all such readings: then 4 of 484,000 tasks of 1.5 us, and none of 4,100 of 0.4 ms, had
# more delay than wall time; with `cpu` inside of `delay` 839 and 733 had. `instructions` comes
# next, since it counts what the meters inside of it do.
COUNTERS = {
    "delay": BuiltIn("ms", _open_delay),
    "cpu": BuiltIn("ms", _open_cpu),
    "instructions": BuiltIn("1", _open_instructions),
    "process_cpu": BuiltIn("ms", _open_process_cpu),
    "children_cpu": BuiltIn(
        "ms",
        _opener_of_usage(
            lambda usage: round((usage.ru_utime + usage.ru_stime) * 1e6), "RUSAGE_CHILDREN", 1e3
        ),
    ),
    "page_faults": BuiltIn("1", _opener_of_usage(lambda usage: usage.ru_minflt + usage.ru_majflt)),
    "voluntary_switches": BuiltIn("1", _opener_of_usage(lambda usage: usage.ru_nvcsw)),
    "involuntary_switches": BuiltIn("1", _opener_of_usage(lambda usage: usage.ru_nivcsw)),
    "read_bytes": BuiltIn("bytes", _open_read_bytes),
    "written_bytes": BuiltIn("bytes", _open_written_bytes),
}
