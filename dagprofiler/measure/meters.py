"""Meters: quantities measured around ``compute()`` in addition to the wall clock."""

from __future__ import annotations

import _thread
import gc
import os
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from math import inf
from time import perf_counter
from typing import Any, Callable, NamedTuple, Protocol, Union

from dagprofiler._util.checks import plain_number
from dagprofiler.errors import GraphError, ValidationError, describe, did_you_mean, short_repr
from dagprofiler.measure.calibrate import interpret, kernel_clock_ns
from dagprofiler.measure.kernel import EventCounter, KernelFiles, UnavailableError
from dagprofiler.stats import median

Number = Union[int, float]

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
    """

    def __init__(self, read: Callable[[], Number], divisor: float | None = None) -> None:
        self.reason: str | None = None
        self._read = read
        self._divisor = divisor
        self._before: Number = 0

    def start(self) -> None:
        """Take the reading before the task."""
        self._before = self._read()

    def stop(self) -> Number | None:
        """Return the growth since :meth:`start`; None if it is negative."""
        growth = self._read() - self._before
        if growth < 0:
            self.reason = "the reading after the task was smaller than the one before it"
            return None
        return growth / self._divisor if self._divisor else growth


def _open_delay(files: KernelFiles) -> ReadingGrowth:
    """Measure how long this thread was ready to run while others had the processor.

    Field 2 of schedstat, in ns (the kernel's Documentation/scheduler/sched-stats.rst).
    """
    # Field 3 counts how often this thread got a processor, which it has now.
    if files.reader("thread-self/schedstat")().split()[2:] in ([], [b"0"]):
        raise UnavailableError(
            "the kernel keeps no account of run-queue delays (CONFIG_SCHED_INFO)"
        )
    return ReadingGrowth(files.number("thread-self/schedstat", 2), MILLISECOND_NS)


def _open_usage(whose: str, *fields: str, divisor: float | None = None) -> ReadingGrowth:
    """Measure the sum of some fields of ``getrusage()``."""
    import resource

    who = getattr(resource, f"RUSAGE_{whose}")

    def read() -> Number:
        usage = resource.getrusage(who)
        total: Number = sum([getattr(usage, field) for field in fields])
        return total

    return ReadingGrowth(read, divisor)


def _open_read_bytes(files: KernelFiles) -> ReadingGrowth:
    """Measure what system calls read, without what the meters themselves do."""
    read_by_all = files.number("self/io", 2)

    def read_by_others() -> int:
        # What this very reading reads is counted after it, here as in the kernel.
        by_meters = files.read_bytes
        return read_by_all() - by_meters

    return ReadingGrowth(read_by_others)


class _CollectorTime:
    """A meter of the time that the garbage collector takes."""

    reason = None

    def __init__(self, _: KernelFiles) -> None:
        self._begun_ns: int | None = None
        self._took_ns = 0

    def start(self) -> None:
        self._begun_ns, self._took_ns = None, 0
        gc.callbacks.append(self._note)

    def _note(self, phase: str, _: object) -> None:
        now_ns = time.perf_counter_ns()
        if phase == "start":
            self._begun_ns = now_ns
        elif self._begun_ns is not None:
            self._took_ns += now_ns - self._begun_ns

    def stop(self) -> float:
        # An interrupted start() may not have come to it.
        if self._note in gc.callbacks:
            gc.callbacks.remove(self._note)
        return self._took_ns / MILLISECOND_NS


class _ResidentBefore(ReadingGrowth):
    """A meter of the memory that is resident when a task starts."""

    def stop(self) -> Number | None:
        return self._before


def _open_resident_before(files: KernelFiles) -> _ResidentBefore:
    pages, page_bytes = files.number("self/statm", 2), os.sysconf("SC_PAGE_SIZE")
    return _ResidentBefore(lambda: pages() * page_bytes)


class _PeakGrowth(ReadingGrowth):
    """A meter of how far the peak of a task exceeds the value at its start.

    The process has one mark of the peak, which is reset when a task starts: also when a task runs
    a metered DAG of its own.

    Parameters
    ----------
    read
        Returns the mark.
    reset
        Sets the mark to the present value.
    """

    latest: _PeakGrowth | None = None  # the meter of this class that has reset the mark last

    def __init__(self, read: Callable[[], int], reset: Callable[[], object]) -> None:
        super().__init__(read)
        self._reset = reset

    def start(self) -> None:
        type(self).latest = self
        self._reset()
        super().start()

    def stop(self) -> Number | None:
        growth = super().stop()
        if growth is None or self.latest is not self:
            self.reason = "the mark of the peak was reset while the task ran"
            return None
        return growth


class _PeakMemory(_PeakGrowth):
    """A meter of the peak of resident memory. Its resets also change ``ru_maxrss``."""

    def __init__(self, files: KernelFiles) -> None:
        mark = files.open("self/clear_refs", os.O_WRONLY)
        read = files.reader("self/status", _STATUS_BYTES)
        if b"VmHWM:" not in read():
            raise UnavailableError("the kernel keeps no mark of peak memory (VmHWM)")
        super().__init__(
            lambda: int(read().partition(b"VmHWM:")[2].split(None, 1)[0]) * 1024,
            lambda: os.pwrite(mark, b"5", 0),
        )


class _Allocation(_PeakGrowth):
    """A meter of the peak of what Python and numpy allocate, by tracemalloc.

    A user's own tracemalloc stays on, but its peak is reset with each task.
    """

    def __init__(self, _: KernelFiles) -> None:
        import tracemalloc

        super().__init__(
            lambda: tracemalloc.get_traced_memory()[1] if tracemalloc.is_tracing() else -1,
            tracemalloc.reset_peak,
        )
        self._tracing = tracemalloc
        self._started = False

    def start(self) -> None:
        if not self._tracing.is_tracing():
            self._tracing.start()
            self._started = True
        super().start()

    def stop(self) -> Number | None:
        peak = super().stop()
        # What a user started stays on.
        if self._started:
            self._tracing.stop()
            self._started = False
        return peak


#: Steps of the kernel: some 20 us.
_KERNEL_STEPS = 180


class _Kernel:
    """A meter of the speed of the core: CPU time of a fixed kernel, just before and after a task.

    Its value is the mean of both. Each is the shorter of two turns, since a task changes the
    contents of the caches. The kernel is Python code: of the kernels tried, its time followed
    that of slowed Python and numpy code best.
    """

    reason = None

    def __init__(self, _: KernelFiles) -> None:
        self._before_ns = 0

    def start(self) -> None:
        self._before_ns = self._shorter_ns()

    def stop(self) -> float:
        return (self._before_ns + self._shorter_ns()) / 2 / MILLISECOND_NS

    def _shorter_ns(self) -> int:
        begun = kernel_clock_ns()
        interpret(_KERNEL_STEPS)
        between = kernel_clock_ns()
        interpret(_KERNEL_STEPS)
        return min(between - begun, kernel_clock_ns() - between)


#: How long a look at the interpreter's lock sleeps, in nanoseconds.
_LOOK_NS = 500_000

#: How many looks at the lock of an idle interpreter, and by how much they vary, in nanoseconds.
_IDLE_LOOKS, _UNCLEAR_NS = 9, 50_000


class _Looks:
    """Sums over the looks at the lock during one task."""

    def __init__(self) -> None:
        #: When the present look began; 0 between two looks.
        self.asleep_ns = 0
        #: Time of the looks that found the lock free, and held; how many found it held.
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

    A thread sleeps and then waits for the lock, as the thread of another task would: that is a
    look. If it takes longer than in an idle interpreter, a thread held the lock, or another
    program the core. A spinning thread would also tell how often a task asks for the lock, but
    only where nothing else runs.
    """

    def __init__(self, _: KernelFiles) -> None:
        if not getattr(sys, "_is_gil_enabled", lambda: True)():
            raise UnavailableError("this interpreter has no global lock")
        self.reason: str | None = None
        self._looks: _Looks | None = None
        self._thread = self._delay_ns = self._begun_ns = 0
        self._idle_ns = median([_look_ns() for _ in range(_IDLE_LOOKS)])
        self._held_from_ns = 3 * self._idle_ns - 2 * _LOOK_NS + _UNCLEAR_NS
        late_ms = (self._idle_ns - _LOOK_NS) / MILLISECOND_NS
        if late_ms / 1e3 > sys.getswitchinterval() / 4:
            raise UnavailableError(
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
        self._looks = None
        if looks.asleep_ns and ended_ns - looks.asleep_ns > self._held_from_ns:
            # The thread still waits in its last look.
            looks.add(ended_ns - looks.asleep_ns, self._held_from_ns)
        waited_ns = looks.held_ns - looks.held_times * self._idle_ns
        held_ns = looks.held_ns * max(0.0, 1 - delay_ns / waited_ns) if waited_ns else 0.0
        seen_ns = held_ns + looks.free_ns
        if not seen_ns:
            self.reason = "the task ended before a look at the interpreter's lock had the core"
            return None
        return held_ns / seen_ns * (ended_ns - self._begun_ns) / MILLISECOND_NS


def _delay_ns(thread: int) -> int:
    """Return how long a thread of this process has waited for a core, if the kernel tells."""
    path = f"/proc/self/task/{thread}/schedstat"
    with suppress(OSError, IndexError), open(path, "rb") as file:
        return int(file.read().split()[1])
    return 0


class BuiltIn(NamedTuple):
    """A built-in meter: its unit, and what opens it or raises :class:`UnavailableError`."""

    unit: str
    open: Callable[[KernelFiles], Any]


# From the inside out. Reading a clock of CPU time updates the scheduler's accounts, and a thread
# that has used up its share then loses the processor: next to four busy processes, one task of
# 0.4 ms in six did. Such a wait is not in the wall time, so `delay` must be inside of all such
# readings. Then 4 of 484,000 tasks of 1.5 us, and none of 4,100 tasks of 0.4 ms, had more delay
# than wall time; with `cpu` inside of `delay`, 839 and 733 tasks had. `instructions` must have few
# meters inside, since it counts what they do.
BUILT_IN = {
    "delay": BuiltIn("ms", _open_delay),
    "cpu": BuiltIn("ms", lambda _: ReadingGrowth(time.thread_time_ns, MILLISECOND_NS)),
    "instructions": BuiltIn("1", EventCounter),
    "process_cpu": BuiltIn("ms", lambda _: ReadingGrowth(time.process_time_ns, MILLISECOND_NS)),
    "children_cpu": BuiltIn(
        "ms", lambda _: _open_usage("CHILDREN", "ru_utime", "ru_stime", divisor=1e-3)
    ),
    "page_faults": BuiltIn("1", lambda _: _open_usage("SELF", "ru_minflt", "ru_majflt")),
    "voluntary_switches": BuiltIn("1", lambda _: _open_usage("SELF", "ru_nvcsw")),
    "involuntary_switches": BuiltIn("1", lambda _: _open_usage("SELF", "ru_nivcsw")),
    "read_bytes": BuiltIn("bytes", _open_read_bytes),
    "written_bytes": BuiltIn("bytes", lambda files: ReadingGrowth(files.number("self/io", 4))),
    # The slowest meters are outermost.
    "gc": BuiltIn("ms", _CollectorTime),
    "resident_before": BuiltIn("bytes", _open_resident_before),
    "peak_memory": BuiltIn("bytes", _PeakMemory),
    "gil": BuiltIn("ms", _HeldLock),
    # Its time is in no other quantity.
    "kernel": BuiltIn("ms", _Kernel),
    "allocation": BuiltIn("bytes", _Allocation),
}


#: Number of empty measurements, to find what the meters count of themselves.
_TRIALS = 5

#: Built-in meters of a thread; all others measure its process.
_OF_THREAD = frozenset({"delay", "cpu", "kernel"})
_BESIDE_OTHERS = "other tasks ran concurrently in the process, which the figure would include"
_UNRELIABLE = "the counter was not reliable: it counted less than the meters themselves use"

#: Integers of a profile fit 64 bits.
_LEAST, _MOST = -(2**63), 2**63 - 1


class _OpenMeter:
    """A meter of one column: a task has its value, or a reason why there is none.

    Attributes
    ----------
    reason
        Why the last value is None.
    idle
        What the meter counts without a task, which is subtracted.
    """

    def __init__(self, column: str, meter: Any) -> None:
        self.column = column
        self.reason = ""
        self.idle: Number = 0
        self._meter = meter
        self._failure = ""

    def begin(self) -> None:
        """Start the meter."""
        self._failure = ""
        self._call("start")

    def end(self, task: str) -> Number | None:
        """Stop the meter, and return its value for `task`; None if it has none."""
        value: Any = None if self._failure else self._call("stop")
        # Most values are plain numbers already, which is faster to check than to convert.
        plain = type(value) in (int, float) and _LEAST <= value <= _MOST
        number: Number | None = value if plain else plain_number(value)
        if number is None:
            self.reason = self._why_none(value, task)
        elif self.idle and number <= self.idle:
            self.reason = _UNRELIABLE
        else:
            return number - self.idle
        return None

    def _call(self, method: str) -> Any:
        try:
            return getattr(self._meter, method)()
        except Exception as error:  # noqa: BLE001  (a user's meter may raise anything)
            self._failure = f"{method}() raised {describe(error)}"
            return None

    def _why_none(self, value: object, task: str) -> str:
        if self._failure:
            return f"task {task!r}: {self._failure}"
        if value is None:
            reason = getattr(self._meter, "reason", None)
            return str(reason or "its meter returned None and no reason")
        return f"task {task!r}: stop() returned {short_repr(value)}, expected a finite number"


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
    running
        The meters that :meth:`start` has started, and :meth:`stop` has not stopped.
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
        self._files = KernelFiles(proc)
        #: From the inside out.
        self._open: list[_OpenMeter] = []
        for name, column in zip(selection.names, self.columns):
            if alone or name in _OF_THREAD:
                self._add(column, self._opened, name)
            else:
                self.reasons[column] = _BESIDE_OTHERS
        self._discount_meters()
        self.running: list[_OpenMeter] = []
        self.cost_s = 0.0
        for column, meter in selection.own:
            if alone:
                self._open.append(_OpenMeter(column, meter))
            else:
                self._add(column, deepcopy, meter)

    def _opened(self, name: str) -> Any:
        """Return a built-in meter that works here."""
        meter = BUILT_IN[name].open(self._files)
        # A file that can be opened can still refuse to be read.
        meter.start()
        meter.stop()
        return meter

    def _add(self, column: str, open_meter: Callable[[Any], Any], argument: Any) -> None:
        try:
            self._open.append(_OpenMeter(column, open_meter(argument)))
        except UnavailableError as reason:
            self.reasons[column] = str(reason)
        except Exception as error:  # noqa: BLE001  (nothing that is measured fails a run)
            self.reasons[column] = f"cannot be opened: {describe(error)}"

    def _discount_meters(self) -> None:
        """Measure how many instructions the meters inside of the counter of instructions take.

        Their Python code takes tens of thousands, the same number each time.
        """
        for counter in [meter for meter in self._open if meter.column == "instructions"]:
            counts = []
            for _ in range(_TRIALS):
                self.start()
                values = {meter.column: meter.end("") for meter in self._open}
                counts.append(values[counter.column])
            counter.idle = min([count for count in counts if count is not None], default=inf)

    def start(self) -> None:
        """Start all meters, from the outside in."""
        begun = perf_counter()
        self.running = [*self._open]
        for meter in reversed(self._open):
            meter.begin()
        self.cost_s += perf_counter() - begun

    def stop(self, task: str) -> list[Number | None]:
        """Stop all meters, from the inside out, and return their values, one a column.

        Parameters
        ----------
        task
            Name of the task that ran since :meth:`start`.
        """
        begun = perf_counter()
        values: dict[str, Number | None] = dict.fromkeys(self.columns)
        while self.running:
            meter = self.running.pop(0)
            value = values[meter.column] = meter.end(task)
            if value is None:
                self.reasons.setdefault(meter.column, meter.reason)
        self.cost_s += perf_counter() - begun
        return [*values.values()]

    def close(self) -> None:
        """Stop the meters if an error has left them running, and close all files."""
        if self.running:
            self.stop("")
        self._files.close()


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
    >>> select(Energy()).columns
    ['energy_J']
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


def column_of(name: str, unit: str) -> str:
    """Return the name of a meter's column in the profile: name and unit, or a count's name.

    Examples
    --------
    >>> column_of("energy", "J"), column_of("hits", "1"), column_of("cpu_ms", "ms")
    ('energy_J', 'hits', 'cpu_ms')
    """
    return name if unit in ("", "1") or name.endswith(f"_{unit}") else f"{name}_{unit}"


#: Names that stand for several meters.
METER_SETS = {
    "wall": (),
    "default": ("delay", "cpu", "kernel"),
    "full": tuple(name for name in BUILT_IN if name not in {"gil", "allocation"}),
}
_NAMES = [*METER_SETS, *BUILT_IN]


@dataclass(frozen=True)
class Selection:
    """The meters of a run, in addition to the wall clock; it pickles if `own` does.

    Attributes
    ----------
    names
        Built-in meters, from the inside out.
    own
        The columns of users' meters, as named when they were selected, and these meters, which
        are outside of the built-in ones.
    allocation
        Whether the separate pass :data:`ALLOCATION` is requested too.
    """

    names: tuple[str, ...] = ()
    own: tuple[tuple[str, Meter], ...] = ()
    allocation: bool = False

    @property
    def columns(self) -> list[str]:
        """The columns of its meters."""
        names = [column_of(name, BUILT_IN[name].unit) for name in self.names]
        return names + [column for column, _ in self.own]


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
    is_one = isinstance(meters, str) or hasattr(meters, "stop") or not isinstance(meters, Iterable)
    wanted: set[str] = set()
    own: dict[str, Meter] = {}
    problems: list[GraphError] = []
    for meter in [meters] if is_one else meters:
        if isinstance(meter, str) and meter in _NAMES:
            wanted.update(METER_SETS.get(meter, (meter,)))
            continue
        problem = _problem_of(meter, own)
        if problem:
            problems.append(GraphError(f"meters: {problem}"))
        else:
            own[column_of(meter.name, meter.unit)] = meter
    if problems:
        raise ValidationError(problems)
    names = tuple(name for name in BUILT_IN if name in wanted - {"allocation"})
    return Selection(names, tuple(own.items()), "allocation" in wanted)


def _problem_of(meter: Any, others: Mapping[str, Meter]) -> str:
    """Return why an object is no meter, or cannot be one beside `others`; "" if it can."""
    if isinstance(meter, str):
        hint = did_you_mean(meter, _NAMES)
        return f"{short_repr(meter)} is unknown (known: {', '.join(_NAMES)}){hint}"
    has_texts = all(isinstance(getattr(meter, name, None), str) for name in ("name", "unit"))
    has_methods = hasattr(meter, "start") and hasattr(meter, "stop")
    if not (has_texts and has_methods) or isinstance(meter, type):
        expected = "expected a name, or an object with name, unit (texts), start() and stop()"
        return f"{expected}, got {short_repr(meter)}"
    column = column_of(meter.name, meter.unit)
    built_in = [column_of(name, built_in.unit) for name, built_in in BUILT_IN.items()]
    if column in (*others, *_PIPELINE_COLUMNS, *built_in):
        return f"column {column!r} has a meter already; give this one another name"
    return ""
