"""Meters: what can be measured around ``compute()`` beside the wall clock, and what is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dagprofiler.errors import GraphError, ValidationError, describe, did_you_mean, short_repr
from dagprofiler.metering import Meters
from dagprofiler.probes import BUILT_IN

__all__ = ["ALLOCATION", "METER_SETS", "Meter", "Selection", "column_of", "select"]

#: Columns that the pipeline fills itself.
_PIPELINE_COLUMNS = ("wall_ms", "corrected_ms", "serialize_ms", "deserialize_ms")


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

    def open(self, proc: str = "/proc", *, alone: bool = True) -> Meters:
        """Open its meters for this thread, which may be `alone` in its process with tasks."""
        return Meters(self, proc, alone=alone)


#: The pass that measures exact allocation. It slows Python down, so its times are not used.
ALLOCATION = Selection(("allocation",))


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
    return (
        f"meters: {short_repr(name)} is unknown (known: "
        f"{', '.join(known)}){did_you_mean(name, known)}"
    )


def _asked(given: Any) -> tuple[str, str]:
    """Return the column that a user's meter fills, and why it is no meter; one of them is empty."""
    try:
        problem = _shape_problem(given)
        return "" if problem else column_of(given), problem
    except Exception as error:  # noqa: BLE001  (its name may be a property that raises anything)
        who = type(given).__name__
        return "", f"meters: {who} cannot be asked for its name: {describe(error)}"


def _shape_problem(given: Any) -> str:
    missing = [name for name in ("name", "unit", "start", "stop") if not hasattr(given, name)]
    if missing:
        return (
            f"meters: expected a name, or an object with name, unit, start() and stop(), "
            f"got {short_repr(given)} (it has no {', '.join(missing)})"
        )
    if isinstance(given, type):
        return f"meters: expected an object, got the class {given.__name__}; call it"
    if not isinstance(given.name, str) or not given.name:
        return (
            f"meter {short_repr(given)}: name must be a non-empty string, got "
            f"{short_repr(given.name)}"
        )
    if not isinstance(given.unit, str):
        return (
            f"meter {short_repr(given.name)}: unit must be a string ('1' for a count), "
            f"got {short_repr(given.unit)}"
        )
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
