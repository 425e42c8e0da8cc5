"""Meters: quantities measured around ``compute()`` in addition to the wall clock."""

from __future__ import annotations

import _thread
import os
import sys
import time
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from math import isfinite
from time import perf_counter
from typing import Any, Callable, NamedTuple, Protocol

from dagprofiler._util.checks import plain_number
from dagprofiler.errors import GraphError, ValidationError, describe, did_you_mean, short_repr
from dagprofiler.measure.calibrate import interpret
from dagprofiler.measure.kernel import (
    INSTRUCTIONS,
    EventCounter,
    KernelFiles,
    SystemCalls,
    Unavailable,
)
from dagprofiler.stats import median

MILLISECOND_NS = 1e6

#: How much of ``/proc/self/status`` to read, to include the mark of peak memory.
_STATUS_BYTES = 4096


class ReadingGrowth:
    """A meter of the growth of a reading.

    Parameters
    ----------
    read
        Returns a quantity that only grows.
    divisor
        Divisor that gives the unit of the meter; None for whole numbers.
    check
        Raises if the file is not the meter's; called after the second reading.
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
        """Take the reading before the task."""
        self._before = self._read()

    def stop(self) -> float | int | None:
        """Return the growth since :meth:`start`; None if it is negative."""
        try:
            growth = self._read() - self._before
        finally:
            # Its error takes precedence over an unreadable value.
            if self._check:
                self._check()
        if growth < 0:
            self.reason = "the reading after the task was smaller than the one before it"
            return None
        return growth / self._divisor if self._divisor else growth


def _open_delay(files: KernelFiles) -> ReadingGrowth:
    """Measure how long this thread was ready to run while others had the processor.

    Field 2 of schedstat, in ns (the kernel's Documentation/scheduler/sched-stats.rst).
    """
    fd = files.open("thread-self/schedstat")
    # Field 3 counts how often this thread got a processor, which it has now.
    if files.again(fd).split()[2:] in ([], [b"0"]):
        raise Unavailable("the kernel keeps no account of run-queue delays (CONFIG_SCHED_INFO)")
    return ReadingGrowth(
        lambda: int(files.again(fd).split()[1]), MILLISECOND_NS, partial(files.check, fd)
    )


def _open_cpu(_: KernelFiles) -> ReadingGrowth:
    if not hasattr(time, "thread_time_ns"):
        raise Unavailable("this system has no clock of a thread's CPU time")
    return ReadingGrowth(time.thread_time_ns, MILLISECOND_NS)


def _opener_of_usage(
    quantity: Callable[[Any], int], whose: str = "RUSAGE_SELF", divisor: float | None = None
) -> Callable[[KernelFiles], ReadingGrowth]:
    """Return a function that opens a meter of a quantity of ``getrusage()``."""

    def open_usage(_: KernelFiles) -> ReadingGrowth:
        try:
            import resource
        except ImportError as error:
            raise Unavailable("this system has no getrusage()") from error
        getrusage, who = resource.getrusage, getattr(resource, whose)
        return ReadingGrowth(lambda: quantity(getrusage(who)), divisor)

    return open_usage


def _open_read_bytes(files: KernelFiles) -> ReadingGrowth:
    """Measure what system calls read, without what the meters themselves do."""
    fd = files.open("self/io")

    def read() -> int:
        # What this very reading reads is counted after it, here as in the kernel.
        own = files.read_bytes
        return int(files.again(fd).split(None, 2)[1]) - own

    return ReadingGrowth(read, check=partial(files.check, fd))


def _open_written_bytes(files: KernelFiles) -> ReadingGrowth:
    fd = files.open("self/io")
    return ReadingGrowth(
        lambda: int(files.again(fd).split(None, 4)[3]), check=partial(files.check, fd)
    )


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
    """Return a property that appends the time to `readings` when it is read."""
    return property(partial(next, map(readings.append, iter(time.perf_counter_ns, None))))


def _open_gc(_: KernelFiles) -> _CollectorTime:
    import gc

    callbacks = getattr(gc, "callbacks", None)
    if callbacks is None:
        raise Unavailable("this interpreter's collector has no callbacks")
    return _CollectorTime(callbacks)


class _ResidentBefore(ReadingGrowth):
    """A meter of the memory that is resident when a task starts."""

    def stop(self) -> float | int | None:
        if self._check:
            self._check()
        return self._before


def _open_resident_before(files: KernelFiles) -> _ResidentBefore:
    fd = files.open("self/statm")
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    return _ResidentBefore(
        lambda: int(files.again(fd).split(None, 2)[1]) * page_bytes, check=partial(files.check, fd)
    )


class _PeakMemory(ReadingGrowth):
    """A meter of what a task adds to resident memory at its peak.

    Resets the kernel's mark of the peak when the task starts, which also changes
    ``ru_maxrss``.
    """

    _resets = 0  # of the process, by all workers

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

    A user's own tracemalloc stays on, but its peak is reset with each task.
    """

    _starts = 0  # of the process, by all runs

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
            self.reason = "a task cleared the traces of tracemalloc, or reset its peak"
            return None
        return peak - self._before

    def close(self) -> None:
        # What a user started stays on.
        if self._started:
            self._tracing.stop()
            self._started = False


#: Steps of the kernel: some 20 us.
_KERNEL_STEPS = 180


class _Kernel:
    """A meter of the speed of the core: CPU time of a fixed kernel, just before and after a task.

    The mean of both; each is the shorter of two turns, since a task leaves other caches behind
    than it finds. Python code: of the kernels tried, its time
    followed that of slowed Python and numpy code best.
    """

    reason = None

    def __init__(self, clock_ns: Callable[[], int]) -> None:
        self._clock_ns = clock_ns
        self._before_ns = 0

    def start(self) -> None:
        self._before_ns = self._shorter_ns()

    def stop(self) -> float:
        return (self._before_ns + self._shorter_ns()) / 2 / MILLISECOND_NS

    def _shorter_ns(self) -> int:
        clock_ns = self._clock_ns
        begun = clock_ns()
        interpret(_KERNEL_STEPS)
        between = clock_ns()
        interpret(_KERNEL_STEPS)
        return min(between - begun, clock_ns() - between)


def _open_kernel(_: KernelFiles) -> _Kernel:
    # Windows counts the CPU time of a thread in steps of 16 ms.
    of_thread = sys.platform != "win32" and hasattr(time, "thread_time_ns")
    return _Kernel(time.thread_time_ns if of_thread else time.perf_counter_ns)


#: Between two looks at the interpreter's lock, in nanoseconds.
_LOOK_NS = 500_000

#: Looks at the lock of an idle interpreter, and by how much they vary, in nanoseconds.
_IDLE_LOOKS, _UNCLEAR_NS = 9, 50_000


class _Looks:
    """What one task's looks at the lock have found: few numbers, however long it runs."""

    __slots__ = ("asleep_ns", "free_ns", "held_ns", "held_times")

    def __init__(self) -> None:
        #: When the present look began; 0 between two of them.
        self.asleep_ns = 0
        #: How long those took that found the lock free, and held; how many found it held.
        self.free_ns = self.held_ns = self.held_times = 0

    def add(self, span_ns: int, held_from_ns: float) -> None:
        if span_ns > held_from_ns:
            self.held_ns += span_ns
            self.held_times += 1
        else:
            self.free_ns += span_ns


def _look_ns() -> int:
    """Return how long it took to sleep and to get the interpreter's lock."""
    asleep_ns = time.perf_counter_ns()
    time.sleep(_LOOK_NS / 1e9)
    return time.perf_counter_ns() - asleep_ns


class _HeldLock:
    """A meter of the time for which a task holds the interpreter's lock (GIL).

    A thread sleeps, and waits for the lock as that of another task would: that is a look. If it
    takes longer than in an idle interpreter, somebody held the lock, or other programs the core.
    A spinning thread would also tell how often a task asks for the lock, but does so only where
    nothing else runs.
    """

    def __init__(self, _: KernelFiles) -> None:
        if not getattr(sys, "_is_gil_enabled", lambda: True)():
            raise Unavailable("this interpreter has no global lock")
        self.reason: str | None = None
        self._looks: _Looks | None = None
        self._thread = self._delay_ns = self._begun_ns = 0
        self._idle_ns = median([_look_ns() for _ in range(_IDLE_LOOKS)])
        self._held_from_ns = 3 * self._idle_ns - 2 * _LOOK_NS + _UNCLEAR_NS
        late_ms = (self._idle_ns - _LOOK_NS) / MILLISECOND_NS
        if late_ms / 1e3 > sys.getswitchinterval() / 4:
            raise Unavailable(
                f"threads wake {late_ms:.1f} ms late on this system, too late to tell whether they "
                "wait for the interpreter's lock"
            )

    def start(self) -> None:
        begun = _thread.allocate_lock()
        begun.acquire()
        self._looks = looks = _Looks()
        _thread.start_new_thread(self._look, (looks, begun))
        begun.acquire()
        self._delay_ns = _delay_ns(self._thread)
        self._begun_ns = time.perf_counter_ns()

    def _look(self, looks: _Looks, begun: _thread.LockType) -> None:
        self._thread = _thread.get_native_id()
        begun.release()
        while self._looks is looks:
            looks.asleep_ns = time.perf_counter_ns()
            span_ns = _look_ns()
            looks.asleep_ns = 0
            looks.add(span_ns, self._held_from_ns)

    def stop(self) -> float | None:
        ended_ns, looks = time.perf_counter_ns(), self._looks or _Looks()
        delay_ns = _delay_ns(self._thread) - self._delay_ns
        self.close()
        if looks.asleep_ns and ended_ns - looks.asleep_ns > self._held_from_ns:
            # It still waits.
            looks.add(ended_ns - looks.asleep_ns, self._held_from_ns)
        waited_ns = looks.held_ns - looks.held_times * self._idle_ns
        held_ns = looks.held_ns * max(0.0, 1 - delay_ns / waited_ns) if waited_ns else 0.0
        seen_ns = held_ns + looks.free_ns
        if not seen_ns:
            others = "other programs had the core at each look at the interpreter's lock"
            ended = "the task ended before a look at the interpreter's lock"
            self.reason = others if looks.held_times else ended
            return None
        return held_ns / seen_ns * (ended_ns - self._begun_ns) / MILLISECOND_NS

    def close(self) -> None:
        self._looks = None


def _delay_ns(thread: int) -> int:
    """Return how long a thread of this process has waited for a core, if the kernel tells."""
    try:
        with open(f"/proc/self/task/{thread}/schedstat", "rb") as file:
            return int(file.read().split()[1])
    except (OSError, IndexError):
        return 0


class BuiltIn(NamedTuple):
    """A built-in meter: its unit, and a function that opens it or raises :class:`Unavailable`."""

    unit: str
    open: Callable[[KernelFiles], Any]


# From the inside out. Reading a clock of CPU time updates the scheduler's accounts, and a thread
# that has used up its share then loses the processor: next to four busy processes, one task of
# 0.4 ms in six did. Such a wait is not in the wall time, so `delay` must be inside of all such
# readings: then 4 of 484,000 tasks of 1.5 us, and none of 4,100 of 0.4 ms, had more delay than
# wall time; with `cpu` inside of `delay`, 839 and 733 had. `instructions` comes next, since it
# counts what the meters inside of it do.
BUILT_IN = {
    "delay": BuiltIn("ms", _open_delay),
    "cpu": BuiltIn("ms", _open_cpu),
    "instructions": BuiltIn("1", lambda files: EventCounter(INSTRUCTIONS, SystemCalls(files.next))),
    "process_cpu": BuiltIn("ms", lambda _: ReadingGrowth(time.process_time_ns, MILLISECOND_NS)),
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
    # The slowest meters are outermost.
    "gc": BuiltIn("ms", _open_gc),
    "resident_before": BuiltIn("bytes", _open_resident_before),
    "peak_memory": BuiltIn("bytes", _open_peak_memory),
    "gil": BuiltIn("ms", _HeldLock),
    # Its time is in no other quantity.
    "kernel": BuiltIn("ms", _open_kernel),
    "allocation": BuiltIn("bytes", _Allocation),
}


#: Number of empty measurements, to find what the meters count of themselves.
_TRIALS = 5

#: Built-in meters of a thread; all others measure its process.
_OF_THREAD = frozenset({"delay", "cpu", "kernel"})
_BESIDE_OTHERS = "other tasks ran concurrently in the process, which the figure would include"

#: Integers of a profile fit 64 bits.
_INTEGERS = 2**63


class MeterSet:
    """The opened meters of one worker: of the thread that makes this object.

    Parameters
    ----------
    selection
        What to measure.
    proc
        Path of the kernel's files on processes.
    alone
        Whether no other task runs in this process. If not, only meters of
        this thread and users' meters measure.

    Attributes
    ----------
    columns
        The names of what :meth:`stop` returns.
    reasons
        Column to the first reason for a null in it; columns without nulls are
        absent. A reason that concerns only one task names it.
    cost_s
        Total time of :meth:`start` and :meth:`stop`, in seconds.

    Notes
    -----
    Files under ``/proc/thread-self`` are those of the thread that opened them.
    Built-in meters except ``delay``, ``cpu`` and ``kernel`` measure the whole process.
    """

    def __init__(self, selection: Selection, proc: str = "/proc", *, alone: bool = True) -> None:
        self.columns = selection.columns
        self.reasons: dict[str, str] = {}
        self.cost_s = 0.0
        self._idle_counts: dict[int, float | int | None] = {}
        self._files = KernelFiles(proc)
        self._closers: list[Callable[[], None]] = [self._files.close]
        self._failed: dict[int, str] = {}
        self._nulls: list[float | int | None] = [None] * len(self.columns)
        self._alone = alone
        try:
            self._open(selection)
        except BaseException:
            # Ctrl-C, say: nothing stays open.
            self.close()
            raise

    def _open(self, selection: Selection) -> None:
        # Position of the column and meter, from the inside out.
        opened: list[tuple[int, Any]] = []
        for position, name in enumerate(selection.names):
            try:
                if not (self._alone or name in _OF_THREAD):
                    raise Unavailable(_BESIDE_OTHERS)
                meter = BUILT_IN[name].open(self._files)
                if hasattr(meter, "close"):
                    self._closers.append(meter.close)
                # A file that can be opened can still refuse to be read.
                meter.start()
                meter.stop()
                opened.append((position, meter))
            except Unavailable as reason:
                self.reasons[self.columns[position]] = str(reason)
            except Exception as error:  # noqa: BLE001  (nothing that is measured fails a run)
                self.reasons[self.columns[position]] = f"cannot be read: {describe(error)}"
        self._use(opened)
        self._idle_counts = self._counts_of_nothing()
        for position, (_, meter) in enumerate(selection.own, start=len(selection.names)):
            try:
                opened.append((position, meter if self._alone else deepcopy(meter)))
            except Exception as error:  # noqa: BLE001  (whatever its own __deepcopy__ raises)
                self.reasons[self.columns[position]] = (
                    f"its meter cannot be copied for another thread: {describe(error)}"
                )
        self._use(opened)
        self.cost_s = 0.0

    def _use(self, opened: list[tuple[int, Any]]) -> None:
        """Take these meters, given from the inside out."""
        self._starts = [(position, meter.start) for position, meter in reversed(opened)]
        self._stops = [(position, meter.stop, meter) for position, meter in opened]

    def _counts_of_nothing(self) -> dict[int, float | int | None]:
        """Return what meters count of the meters inside of them, without a task.

        Python code takes tens of thousands of instructions, always the same ones.
        None if that cannot be counted: then tasks cannot either.
        """
        if "instructions" not in self.columns:
            return {}
        position, trials = self.columns.index("instructions"), []
        for _ in range(_TRIALS):
            self.start()
            trials.append(self.stop("")[position])
        counts = [count for count in trials if count is not None]
        if counts:
            # A failed trial causes no null.
            self.reasons.pop(self.columns[position], None)
        return {position: min(counts, default=None)}

    def start(self) -> None:
        """Start all meters, from the outside in."""
        begun = perf_counter()
        for position, start in self._starts:
            try:
                start()
            except Exception as error:  # noqa: BLE001  (a user's meter may raise anything)
                self._failed[position] = _failure("start", error)
        self.cost_s += perf_counter() - begun

    def stop(self, task: str) -> list[float | int | None]:
        """Stop all meters, from the inside out, and return their values, one a column.

        Parameters
        ----------
        task
            Name of the task that ran since :meth:`start`.
        """
        begun = perf_counter()
        values = self._nulls.copy()
        for position, stop, meter in self._stops:
            if position in self._failed:
                continue
            try:
                value = stop()
                if type(value) is not float or not isfinite(value):
                    value = self._checked(position, value, meter)
                values[position] = value
            except Exception as error:  # noqa: BLE001  (a user's meter may raise anything)
                self._failed[position] = _failure("stop", error)
        for position, idle in self._idle_counts.items():
            counted = values[position]
            if counted is not None and idle is not None and counted > idle:
                values[position] = counted - idle
            elif counted is not None:
                values[position] = None
                self.reasons.setdefault(
                    self.columns[position],
                    "the counter was not reliable: it counted less than the meters themselves use",
                )
        if self._failed:
            for position, what in self._failed.items():
                self.reasons.setdefault(self.columns[position], f"task {task!r}: {what}")
            self._failed.clear()
        self.cost_s += perf_counter() - begun
        return values

    def _checked(self, position: int, value: Any, meter: Meter) -> float | int | None:
        """Return a meter's value as a plain number, or None if it is not one for a profile."""
        if type(value) is int and -_INTEGERS <= value < _INTEGERS:
            return value
        if value is None:
            reason = getattr(meter, "reason", None) or "its meter returned None and no reason"
            self.reasons.setdefault(self.columns[position], str(reason))
            return None
        number = plain_number(value)
        if number is None:
            self._failed[position] = (
                f"stop() returned {short_repr(value)}, "
                f"expected None or a finite number (an integer of at most 64 bits)"
            )
        return number

    def close(self) -> None:
        """Close all files and meters; no values can be read any more."""
        while self._closers:
            # Removed when it is done, since this is called again after a Ctrl-C.
            self._closers[-1]()
            self._closers.pop()


def _failure(method: str, error: Exception) -> str:
    return str(error) if isinstance(error, Unavailable) else f"{method}() raised {describe(error)}"


#: Columns that the pipeline fills itself.
_PIPELINE_COLUMNS = ("wall_ms", "corrected_ms", "serialize_ms", "deserialize_ms")


class Meter(Protocol):
    """Measures one quantity of each task, from just before ``compute()`` to just after it.

    A meter needs no base class: any object with these attributes is a meter.

    Attributes
    ----------
    name
        Name of the quantity.
    unit
        Its unit, as in ``"ms"``, ``"bytes"`` or ``"J"``; ``"1"`` for a count.
    reason
        Why :meth:`stop` returned None.

    Notes
    -----
    A meter never fails a run: if it raises, or does not return a finite number, the
    value is null and the profile holds the reason. Users' own meters are outermost,
    so that their cost is in no other quantity. If tasks run in other
    processes, each worker gets a pickled copy of the object.

    Examples
    --------
    >>> class Energy:
    ...     name, unit, reason = "energy", "J", None
    ...
    ...     def start(self):
    ...         self.before_J = read_sensor_J()
    ...
    ...     def stop(self):
    ...         return read_sensor_J() - self.before_J
    >>> column_of(Energy())
    'energy_J'
    """

    name: str
    unit: str
    reason: str | None

    def start(self) -> None:
        """Begin to measure; called just before ``compute()``."""

    def stop(self) -> float | int | None:
        """Return the quantity since :meth:`start`; None if it is not known, with `reason` set.

        Called after every successful :meth:`start`, even if the task failed.
        """


def column_of(meter: Meter) -> str:
    """Return the name of a meter's column in the profile: name and unit, or a count's name.

    Examples
    --------
    >>> from types import SimpleNamespace as Named
    >>> column_of(Named(name="energy", unit="J")), column_of(Named(name="hits", unit="1"))
    ('energy_J', 'hits')
    """
    return _column(meter.name, meter.unit)


def _column(name: str, unit: str) -> str:
    return name if unit in ("", "1") or name.endswith(f"_{unit}") else f"{name}_{unit}"


#: Names that stand for several meters.
METER_SETS = {
    "wall": (),
    "default": ("delay", "cpu", "kernel"),
    "full": tuple(name for name in BUILT_IN if name not in {"gil", "allocation"}),
}


@dataclass(frozen=True)
class Selection:
    """The meters of a run, in addition to the wall clock; it pickles if `own` does.

    Attributes
    ----------
    names
        Built-in meters, from the inside out.
    own
        Users' meters, outside of those, by the column at the time of selection,
        even if their names change later.
    allocation
        Whether the separate pass :data:`ALLOCATION` is requested too.
    """

    names: tuple[str, ...] = ()
    own: tuple[tuple[str, Meter], ...] = ()
    allocation: bool = False

    @property
    def columns(self) -> list[str]:
        """The columns of its meters."""
        names = [_column(name, BUILT_IN[name].unit) for name in self.names]
        return names + [column for column, _ in self.own]

    def open(self, proc: str = "/proc", *, alone: bool = True) -> MeterSet:
        """Open its meters for this thread, which may be `alone` in its process with tasks."""
        return MeterSet(self, proc, alone=alone)


#: The pass that measures exact allocation. It slows Python down, so its times are not used.
ALLOCATION = Selection(("allocation",))


def select(meters: Any) -> Selection:
    """Return the selection of ``run(meters=...)``.

    Parameters
    ----------
    meters
        A name, a :class:`Meter`, or an iterable of both. Names are those of
        meters and of sets: ``"wall"`` is always measured, ``"default"`` adds
        ``delay``, ``cpu`` and ``kernel``, ``"full"`` all except ``gil`` and ``allocation``.

    Raises
    ------
    ValidationError
        With all problems: unknown names, objects that are not meters, meters
        with the same column.
    """
    wanted: set[str] = set()
    own: list[tuple[str, Meter]] = []
    problems: list[str] = []
    known = [*METER_SETS, *BUILT_IN]
    for meter in _listed(meters):
        column = problem = ""
        if not isinstance(meter, str):
            column, problem = _asked(meter)
        elif meter in known:
            wanted.update(METER_SETS.get(meter, (meter,)))
        else:
            hint = f"(known: {', '.join(known)}){did_you_mean(meter, known)}"
            problem = f"meters: {short_repr(meter)} is unknown {hint}"
        if column:
            own.append((column, meter))
        if problem:
            problems.append(problem)
    names = tuple(name for name in BUILT_IN if name in wanted - {"allocation"})
    selection = Selection(names, tuple(own), "allocation" in wanted)
    problems += _collisions(selection)
    if problems:
        raise ValidationError([GraphError(problem) for problem in problems])
    return selection


def _listed(meters: Any) -> list[Any]:
    """Return the meters as a list; a meter or a value that is not iterable is one item."""
    has_any = isinstance(meters, Iterable) and not isinstance(meters, (str, bytes))
    return list(meters) if has_any and not hasattr(meters, "stop") else [meters]


def _asked(given: Any) -> tuple[str, str]:
    """Return the column of a user's meter, or why it is not a meter; the other is empty."""
    try:
        problem = _shape_problem(given)
        return "" if problem else column_of(given), problem
    except Exception as error:  # noqa: BLE001  (its name may be a property that raises anything)
        who = type(given).__name__
        return "", f"meters: the name of {who} cannot be read: {describe(error)}"


def _shape_problem(given: Any) -> str:
    missing = [name for name in ("name", "unit", "start", "stop") if not hasattr(given, name)]
    shown = short_repr(given)
    if missing:
        lacks = f"got {shown} (it has no {', '.join(missing)})"
        return f"meters: expected a name, or an object with name, unit, start() and stop(), {lacks}"
    if isinstance(given, type):
        return f"meters: expected an object, got the class {given.__name__}; call it"
    name, unit = short_repr(given.name), short_repr(given.unit)
    if not isinstance(given.name, str) or not given.name:
        return f"meter {shown}: name must be a non-empty string, got {name}"
    if not isinstance(given.unit, str):
        return f"meter {name}: unit must be a string ('1' for a count), got {unit}"
    return ""


def _collisions(selection: Selection) -> list[str]:
    """Return a problem for each column of a user's meter that is taken."""
    built_in = {_column(name, meter.unit) for name, meter in BUILT_IN.items()}
    own = [column for column, _ in selection.own]
    problems = []
    for position, column in enumerate(own):
        if column in _PIPELINE_COLUMNS or column in built_in:
            whose = "is measured by dagprofiler itself"
        elif column in own[:position]:
            whose = "belongs to two meters"
        else:
            continue
        problems.append(f"meters: column {column!r} {whose}; give the meter another name")
    return problems
