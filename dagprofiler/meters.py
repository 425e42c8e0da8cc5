"""What is measured around ``compute()`` beside the wall clock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from operator import index
from time import perf_counter
from typing import Any, Callable, Protocol

from dagprofiler.counters import Unavailable
from dagprofiler.errors import GraphError, ValidationError, describe, did_you_mean, shorten
from dagprofiler.probes import BUILT_IN, KernelFiles

__all__ = ["ALLOCATION", "METER_SETS", "Meter", "Meters", "Selection", "column_of", "select"]

#: Columns that the pipeline fills itself.
_PIPELINE_COLUMNS = ("wall_ms", "corrected_ms", "serialize_ms", "deserialize_ms")

_ABSENT = object()

#: How often nothing is measured, to know what the meters count of themselves.
_TRIALS = 5

#: Integers of a profile fit 64 bits.
_INTEGERS = 2**63


class Meter(Protocol):
    """Measures one quantity of each task, from just before ``compute()`` to just after it.

    A meter needs no base class: any object with these attributes will do.

    Attributes
    ----------
    name
        Of the quantity.
    unit
        Its unit, as in ``"ms"``, ``"bytes"`` or ``"J"``; ``"1"`` for a count.
    reason
        Why :meth:`stop` returned None.

    Notes
    -----
    What it raises, or returns that is no finite number, never fails a run: the
    value is null, with the reason beside it. Users' own meters are outermost,
    so that their cost is in no other quantity. Where tasks run in other
    processes, each worker gets a copy of the object by pickling.

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
        """Begin to measure; ``compute()`` is about to start."""

    def stop(self) -> float | int | None:
        """Return the quantity since :meth:`start`; None if it is not known, with `reason` set.

        Comes after every start that raised nothing, also when the task failed.
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
    "default": ("delay", "cpu"),
    "full": tuple(name for name in BUILT_IN if name != "allocation"),
}


@dataclass(frozen=True)
class Selection:
    """What is measured around each task beside the wall clock; it pickles if `own` does.

    Attributes
    ----------
    names
        Built-in meters, from the inside out.
    own
        Users' meters, outside of those, by column: what they are called when they
        are chosen, whatever they are called later.
    allocation
        Whether a pass of its own, :data:`ALLOCATION`, was asked for too.
    """

    names: tuple[str, ...] = ()
    own: tuple[tuple[str, Meter], ...] = ()
    allocation: bool = False

    @property
    def columns(self) -> list[str]:
        """The columns that it fills."""
        names = [_column(name, BUILT_IN[name].unit) for name in self.names]
        return names + [column for column, _ in self.own]

    def open(self, proc: str = "/proc") -> Meters:
        """Open its meters for this thread."""
        return Meters(self, proc)


#: The pass that measures exact allocation. It slows Python down, so its times are not used.
ALLOCATION = Selection(("allocation",))


class Meters:
    """The opened meters of one worker: of the thread that makes this object.

    Parameters
    ----------
    selection
        What to measure.
    proc
        Where the kernel's files on processes are.

    Attributes
    ----------
    columns
        The names of what :meth:`stop` returns.
    reasons
        Column to the first reason why it holds a null; columns without one are
        absent. A reason that concerns one task alone names it.
    cost_s
        What :meth:`start` and :meth:`stop` took so far, in seconds.

    Notes
    -----
    Files under ``/proc/thread-self`` are those of the thread that opened them.
    All but ``delay``, ``cpu`` and what a user's meter does is about the whole
    process: with several workers in one process it holds what the others did.
    """

    def __init__(self, selection: Selection, proc: str = "/proc") -> None:
        self.columns = selection.columns
        self.reasons: dict[str, str] = {}
        self.cost_s = 0.0
        self._idle_counts: dict[int, float | int | None] = {}
        self._files = KernelFiles(proc)
        self._closers: list[Callable[[], None]] = [self._files.close]
        self._failed: dict[int, str] = {}
        self._nulls: list[float | int | None] = [None] * len(self.columns)
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
        own = (meter for _, meter in selection.own)
        opened.extend(enumerate(own, start=len(selection.names)))
        self._use(opened)
        self.cost_s = 0.0

    def _use(self, opened: list[tuple[int, Any]]) -> None:
        """Take these meters, given from the inside out."""
        self._starts = [(position, meter.start) for position, meter in reversed(opened)]
        self._stops = [(position, meter.stop, meter) for position, meter in opened]

    def _counts_of_nothing(self) -> dict[int, float | int | None]:
        """Return what meters count of the meters inside of them, where no task runs.

        Python code is tens of thousands of instructions, and always the same ones.
        None if that cannot be had: then no count can be either.
        """
        if "instructions" not in self.columns:
            return {}
        position, trials = self.columns.index("instructions"), []
        for _ in range(_TRIALS):
            self.start()
            trials.append(self.stop("")[position])
        counts = [count for count in trials if count is not None]
        if counts:
            # A trial that failed makes no null.
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
                    "the counter was not reliable: it counted less than the meters alone take",
                )
        if self._failed:
            for position, what in self._failed.items():
                self.reasons.setdefault(self.columns[position], f"task {task!r}: {what}")
            self._failed.clear()
        self.cost_s += perf_counter() - begun
        return values

    def _checked(self, position: int, value: Any, meter: Meter) -> float | int | None:
        """Return what a meter returned if it is a number for a profile, as a plain one, or None."""
        if type(value) is int and -_INTEGERS <= value < _INTEGERS:
            return value
        if value is None:
            reason = getattr(meter, "reason", None) or "its meter returned None and no reason"
            self.reasons.setdefault(self.columns[position], str(reason))
            return None
        number = _number(value)
        if number is None:
            self._failed[position] = (
                f"stop() returned {shorten(repr(value))}, "
                f"expected None or a finite number (an integer of at most 64 bits)"
            )
        return number

    def close(self) -> None:
        """Close what is open; values can no more be had."""
        while self._closers:
            # Forgotten when it is done, since Ctrl-C may come first and this be called again.
            self._closers[-1]()
            self._closers.pop()


def _failure(method: str, error: Exception) -> str:
    return str(error) if isinstance(error, Unavailable) else f"{method}() raised {describe(error)}"


def _number(value: Any) -> float | int | None:
    """Return a number of numpy or another library as a plain one; None if it is none."""
    from numbers import Real

    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number:
        return None
    try:
        integer = int(index(value))
    except TypeError:
        number = float(value)
        return number if isfinite(number) else None
    return integer if -_INTEGERS <= integer < _INTEGERS else None


def select(meters: Any) -> Selection:
    """Return what ``run(meters=...)`` stands for.

    Parameters
    ----------
    meters
        A name, a :class:`Meter`, or an iterable of both. Names are those of
        meters and of sets: ``"wall"`` is measured always, ``"default"`` adds
        ``delay`` and ``cpu``, ``"full"`` all but ``allocation``.

    Raises
    ------
    ValidationError
        With all problems: unknown names, objects that are no meters, meters
        that would fill one column twice.
    """
    wanted: set[str] = set()
    own: list[tuple[str, Meter]] = []
    problems: list[str] = []
    for given in _listed(meters):
        if not isinstance(given, str):
            column, problem = _asked(given)
            own += [] if problem else [(column, given)]
        else:
            known = [*METER_SETS, *BUILT_IN]
            problem = "" if given in known else _unknown(given, known)
            wanted.update(METER_SETS.get(given, (given,)))
        if problem:
            problems.append(problem)
    names = tuple(name for name in METER_SETS["full"] if name in wanted)
    selection = Selection(names, tuple(own), "allocation" in wanted)
    problems += _collisions(selection)
    if problems:
        raise ValidationError([GraphError(problem) for problem in problems])
    return selection


def _listed(meters: Any) -> list[Any]:
    """Return the meters as a list; what is one itself, or nothing that has any, is one item."""
    has_any = isinstance(meters, Iterable) and not isinstance(meters, (str, bytes))
    return list(meters) if has_any and not hasattr(meters, "stop") else [meters]


def _unknown(name: str, known: Sequence[str]) -> str:
    return f"meters: {name!r} is unknown (known: {', '.join(known)}){did_you_mean(name, known)}"


def _asked(given: Any) -> tuple[str, str]:
    """Return the column that a user's meter fills, and why it is no meter; one of them is empty.

    Its name is asked for once: it may be a property that changes, or raises.
    """
    try:
        attributes = ("name", "unit", "start", "stop")
        found: dict[str, Any] = {each: getattr(given, each, _ABSENT) for each in attributes}
        problem = _shape_problem(given, found)
    except Exception as error:  # noqa: BLE001  (a property may raise anything)
        who = type(given).__name__
        return "", f"meters: {who} cannot be asked for its name: {describe(error)}"
    return "" if problem else _column(found["name"], found["unit"]), problem


def _shape_problem(given: Any, found: dict[str, Any]) -> str:
    missing = [each for each, value in found.items() if value is _ABSENT]
    if missing:
        return (
            f"meters: expected a name, or an object with name, unit, start() and stop(), "
            f"got {given!r} (it has no {', '.join(missing)})"
        )
    if isinstance(given, type):
        return f"meters: expected an object, got the class {given.__name__}; call it"
    name, unit = found["name"], found["unit"]
    if not isinstance(name, str) or not name:
        return f"meter {given!r}: name must be a non-empty string, got {name!r}"
    if not isinstance(unit, str):
        return f"meter {name!r}: unit must be a string ('1' for a count), got {unit!r}"
    return ""


def _collisions(selection: Selection) -> list[str]:
    """Return a problem for each column of a user's meter that is taken."""
    built_in = {_column(name, one.unit) for name, one in BUILT_IN.items()}
    own = [column for column, _ in selection.own]
    problems = []
    for position, column in enumerate(own):
        if column in _PIPELINE_COLUMNS or column in built_in:
            whose = "is measured by dagprofiler itself"
        elif column in own[:position]:
            whose = "is filled by two meters"
        else:
            continue
        problems.append(f"meters: column {column!r} {whose}; give the meter another name")
    return problems
