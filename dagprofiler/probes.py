"""Probes: the built-in meters, each of one quantity that the system or the interpreter tells."""

from __future__ import annotations

import os
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

from dagprofiler.counters import INSTRUCTIONS, EventCounter, SystemCalls
from dagprofiler.kernelfiles import Unavailable

if TYPE_CHECKING:
    from dagprofiler.kernelfiles import KernelFiles

__all__ = ["BUILT_IN", "BuiltIn", "Growth"]

MILLISECOND_NS = 1e6

#: As much of ``/proc/self/status`` as there may be before the mark of peak memory.
_STATUS_BYTES = 4096


class Growth:
    """A meter of what a reading grows by.

    Parameters
    ----------
    read
        Returns a quantity that only grows.
    divisor
        What brings it to the unit of the meter; None for whole numbers.
    check
        Raises if what was read is not what it should be; comes after the second reading.
    """

    def __init__(
        self,
        read: Callable[[], float | int],
        divisor: float | None = None,
        check: Callable[[], None] | None = None,
    ) -> None:
        self.reason: str | None = None
        self._read = read
        self._divisor = divisor
        self._check = check
        self._before: float | int = 0

    def start(self) -> None:
        """Take the reading to subtract."""
        self._before = self._read()

    def stop(self) -> float | int | None:
        """Return the growth since :meth:`start`; None if there was less than none."""
        try:
            growth = self._read() - self._before
        finally:
            # Has the word also where nothing could be made of what was read.
            if self._check:
                self._check()
        if growth < 0:
            self.reason = "the reading after the task was less than the one before it"
            return None
        return growth / self._divisor if self._divisor else growth


def _open_delay(files: KernelFiles) -> Growth:
    """Measure how long this thread was ready to run while others had the processor.

    Field 2 of schedstat, in ns (the kernel's Documentation/scheduler/sched-stats.rst).
    """
    fd = files.open("thread-self/schedstat")
    # Field 3 counts how often this thread got a processor, which it has now.
    if files.again(fd).split()[2:] in ([], [b"0"]):
        raise Unavailable("the kernel keeps no account of run-queue delays (CONFIG_SCHED_INFO)")
    return Growth(lambda: int(files.again(fd).split()[1]), MILLISECOND_NS, partial(files.check, fd))


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

    return Growth(read, check=partial(files.check, fd))


def _open_written_bytes(files: KernelFiles) -> Growth:
    fd = files.open("self/io")
    return Growth(lambda: int(files.again(fd).split(None, 4)[3]), check=partial(files.check, fd))


class _CollectorTime:
    """A meter of the time that the garbage collector takes.

    Notes
    -----
    Python discards what a callback of the collector raises, and with it a Ctrl-C that arrives
    during a collection, if the callback runs any bytecode. This one runs none: it gets the
    attribute "start" or "stop" of an object, which appends a reading of the clock to a list.
    """

    reason = None

    def __init__(self, callbacks: list[Any]) -> None:
        self._callbacks = callbacks
        self._begun_ns: list[int] = []
        self._ended_ns: list[int] = []
        clocks = {"start": _clocked_into(self._begun_ns), "stop": _clocked_into(self._ended_ns)}
        self._note = partial(getattr, type("Watch", (), clocks)())

    def start(self) -> None:
        # Still there if what came after the last start was interrupted.
        self.close()
        self._begun_ns.clear()
        self._ended_ns.clear()
        self._callbacks.append(self._note)

    def stop(self) -> float:
        self._callbacks.remove(self._note)
        begun, ended = self._begun_ns, self._ended_ns
        if ended and (not begun or ended[0] < begun[0]):
            # The end of a collection that began before the task.
            del ended[0]
        return sum(end - begin for begin, end in zip(begun, ended)) / MILLISECOND_NS

    def close(self) -> None:
        if self._note in self._callbacks:
            self._callbacks.remove(self._note)


def _clocked_into(readings: list[int]) -> property:
    """Return an attribute that appends the time to `readings` when somebody gets it."""
    return property(partial(next, map(readings.append, iter(time.perf_counter_ns, None))))


def _open_gc(_: KernelFiles) -> _CollectorTime:
    import gc

    callbacks = getattr(gc, "callbacks", None)
    if callbacks is None:
        raise Unavailable("this interpreter's collector has no callbacks")
    return _CollectorTime(callbacks)


class _ResidentBefore:
    """A meter of the memory that is resident when a task starts."""

    reason = None

    def __init__(self, read: Callable[[], int], check: Callable[[], None]) -> None:
        self._read = read
        self._check = check
        self._value = 0

    def start(self) -> None:
        self._value = self._read()

    def stop(self) -> int:
        self._check()
        return self._value


def _open_resident_before(files: KernelFiles) -> _ResidentBefore:
    fd = files.open("self/statm")
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    return _ResidentBefore(
        lambda: int(files.again(fd).split(None, 2)[1]) * page_bytes, partial(files.check, fd)
    )


class _PeakMemory(Growth):
    """A meter of what a task adds to resident memory at its peak.

    The kernel's mark of the peak is set back to what is resident when the task
    starts, which whoever reads ``ru_maxrss`` sees too.
    """

    _resets = 0  # of the process, by whichever worker

    def __init__(
        self, read: Callable[[], int], reset: Callable[[], None], check: Callable[[], None]
    ) -> None:
        super().__init__(read, check=check)
        self._reset = reset
        self._resets_before = 0

    def start(self) -> None:
        self._reset()
        _PeakMemory._resets += 1
        self._resets_before = _PeakMemory._resets
        super().start()

    def stop(self) -> float | int | None:
        if _PeakMemory._resets != self._resets_before:
            self.reason = "another task started in the same process before this one ended"
            return None
        return super().stop()


def _open_peak_memory(files: KernelFiles) -> _PeakMemory:
    clear_fd = files.open("self/clear_refs", os.O_WRONLY)
    status_fd = files.open("self/status")

    def read() -> int:
        _, _, rest = files.again(status_fd, _STATUS_BYTES).partition(b"VmHWM:")
        return int(rest.split(None, 1)[0]) * 1024

    if b"VmHWM:" not in files.again(status_fd, _STATUS_BYTES):
        raise Unavailable("the kernel keeps no mark of peak memory (VmHWM)")
    return _PeakMemory(read, partial(files.write, clear_fd, b"5"), partial(files.check, status_fd))


class _Allocation:
    """A meter of the peak of what Python and numpy allocate, by tracemalloc.

    A user's own tracemalloc stays on, but its peak starts anew with each task.
    """

    _starts = 0  # of the process, by whichever run

    def __init__(self, _: KernelFiles) -> None:
        import tracemalloc

        self.reason: str | None = None
        self._tracing = tracemalloc
        self._started = False
        self._before = self._starts_before = 0

    def start(self) -> None:
        if not self._tracing.is_tracing():
            self._tracing.start()
            self._started = True
        self._tracing.reset_peak()
        _Allocation._starts += 1
        self._starts_before = _Allocation._starts
        self._before = self._tracing.get_traced_memory()[0]

    def stop(self) -> int | None:
        if not self._tracing.is_tracing():
            self.reason = "a task stopped tracemalloc"
            return None
        peak = self._tracing.get_traced_memory()[1]
        self.close()
        if _Allocation._starts != self._starts_before:
            self.reason = "another task was measured while this one ran"
            return None
        if peak < self._before:
            self.reason = "a task cleared the traces of tracemalloc, or set its peak back"
            return None
        return peak - self._before

    def close(self) -> None:
        # What a user started stays on.
        if self._started:
            self._tracing.stop()
            self._started = False


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
BUILT_IN = {
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
    # What takes longest is outermost.
    "gc": BuiltIn("ms", _open_gc),
    "resident_before": BuiltIn("bytes", _open_resident_before),
    "peak_memory": BuiltIn("bytes", _open_peak_memory),
    "allocation": BuiltIn("bytes", _Allocation),
}
