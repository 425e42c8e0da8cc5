"""RunLog: the raw readings of a run; TaskRecord: one task as hooks receive it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

from dagprofiler._document.rounds import MEASURED, MOMENTS, Rounds
from dagprofiler._util import JsonObject, Key, Value, Values
from dagprofiler._util.interpreter import TaskSpans
from dagprofiler._util.json import utc_text
from dagprofiler.errors import Frame, GraphError
from dagprofiler.executors import RoundReport
from dagprofiler.graph.wiring import Wiring
from dagprofiler.measure.machine import (
    allocator_settings,
    blas_threads,
    command_line,
    cores_quota,
    machine,
    repository,
    versions,
)
from dagprofiler.measure.pipeline import Contract
from dagprofiler.metrics import TaskMetrics

if TYPE_CHECKING:
    from dagprofiler._document import Calibration
    from dagprofiler.engine.setup import Setup
    from dagprofiler.measure.instruments import Readings

Column = list[Optional[float]]


def renumber(round_log: RoundLog, new: Wiring) -> None:
    """Renumber the tasks of a growing graph's round as in `new`.

    Rules may fire in another order in each round. Of a round that failed, tasks that the other
    rounds lack are left out.

    Raises
    ------
    GraphError
        If the round succeeded and its graph is another one.
    """
    old = round_log.wiring
    round_log.wiring = new
    if new.same_as(old):
        return
    if round_log.complete:
        _check_same(old.by_name(), new.by_name())
    old_tasks = _places(old.names, new.names)
    old_slots = _places(old.slot_names(), new.slot_names())
    moments = [round_log.times_of(i) for i in range(len(old.names))]
    none: Column = [None] * 6
    round_log.times = [*chain.from_iterable(_moved(moments, old_tasks, none))]
    round_log.ran_on = _moved(round_log.ran_on, old_tasks, 0)
    round_log.wire_bytes = _moved(round_log.wire_bytes, old_slots, 0)
    round_log.payload_bytes = _rekeyed(round_log.payload_bytes, old_slots)
    round_log.readings = _rekeyed(round_log.readings, old_tasks)
    round_log.tasks = _rekeyed(round_log.tasks, old_tasks)
    growth: Growth = round_log.growth  # type: ignore[assignment]
    growth.added_s = _moved(growth.added_s, old_tasks, 0.0)
    number_of = {before: now for now, before in enumerate(old_tasks)}
    growth.firings = [
        firing._replace(tasks=[number_of[i] for i in firing.tasks if i in number_of])
        for firing in growth.firings
    ]


def _check_same(here: Mapping[str, object], first: Mapping[str, object]) -> None:
    """Raise a GraphError unless a round had the tasks, outputs and edges of the first round."""
    differing = sorted(name for name in {*here, *first} if here.get(name) != first.get(name))
    if differing:
        raise GraphError(
            f"task {differing[0]!r}: only one of two rounds has it, or its outputs and edges "
            "differ; rounds can be compared only if their graphs are the same: use rounds=1, or a "
            "seed if the graph depends on random numbers"
        )


def _places(old: Iterable[Key], new: Iterable[Key]) -> list[int | None]:
    """Return for each of the new names its place among the old ones; None if it is not there."""
    place_of = {name: place for place, name in enumerate(old)}
    return [place_of.get(name) for name in new]


def _moved(values: Sequence[Value], places: Iterable[int | None], missing: Value) -> list[Value]:
    """Return the values from these places."""
    return [missing if place is None else values[place] for place in places]


def _rekeyed(values: Mapping[int, Value], places: Iterable[int | None]) -> dict[int, Value]:
    """Return values by new number; `places` has the old number at each new one."""
    moved = ((number, old) for number, old in enumerate(places) if old is not None)
    return {number: values[old] for number, old in moved if old in values}


def _places_by_name(wiring: Wiring, i: int) -> Sequence[int]:
    """Return the places of a task's inputs, sorted by the names of inputs and sources.

    This order is the same in all rounds, while rules may add edges in another order in each.
    """
    origins = wiring.origins(i)
    return sorted(range(len(origins)), key=origins.__getitem__)


class Firing(NamedTuple):
    """A rule that fired.

    Attributes
    ----------
    rule
        Name of the rule.
    at_s
        Reading of the clock when its additions were applied.
    tasks
        Numbers of the tasks that it added.
    """

    rule: str
    at_s: float
    tasks: Sequence[int]


@dataclass
class Growth:
    """How a graph grew in one round.

    Attributes
    ----------
    estimates
        As in :class:`~dagprofiler.engine.log.RunLog`, of all its tasks.
    added_s
        Reading of the clock when each task was added; 0 for those of the initial graph.
    firings
        The rules that fired, in that order.
    unfired
        Name of each rule that did not fire, and why.
    rules_s
        Time of evaluating rules and applying their additions, in seconds.
    complete
        Whether all rules had their chance to add tasks, and none of them failed.
    """

    estimates: dict[int, int]
    added_s: list[float]
    firings: list[Firing] = field(default_factory=list)
    unfired: dict[str, str] = field(default_factory=dict)
    rules_s: float = 0.0
    complete: bool = False


@dataclass
class Results:
    """What a round leaves behind in addition to its log.

    Attributes
    ----------
    outputs
        Task name to the outputs that are returned.
    errors
        Task name to its error, in the order of the failures.
    rule_failures
        ``rule 'name'`` to the error of that rule.
    """

    outputs: dict[str, Values] = field(default_factory=dict)
    errors: dict[str, BaseException] = field(default_factory=dict)
    rule_failures: dict[str, BaseException] = field(default_factory=dict)


class TaskNote(NamedTuple):
    """What a round records of a task besides readings and sizes; most tasks have no note.

    Attributes
    ----------
    spans
        The spans that were traced inside it; None if there are none.
    undeclared_bytes
        The serialized length of outputs that it does not declare.
    error
        Its error as text: the error itself may hold values that cannot be copied.
    traceback
        The frames of its error, as :func:`dagprofiler.errors.frames_of` returns them.
    attempts
        The outcomes, as text, of failed attempts that its executor retried.
    skipped
        Whether it did not run because a predecessor failed or was skipped.
    """

    spans: TaskSpans | None = None
    undeclared_bytes: int = 0
    error: str | None = None
    traceback: Sequence[Frame] = ()
    attempts: Sequence[str] = ()
    skipped: bool = False


#: The note of a task that has none.
_NO_NOTE = TaskNote()


@dataclass
class RoundLog:
    """Raw readings of one round, in flat lists that the garbage collector need not track.

    Attributes
    ----------
    kind
        The purpose of the round, as :mod:`dagprofiler._document.rounds` names it.
    wiring
        The graph, which numbers its tasks and slots.
    times
        Six readings of the clock a task, in seconds, as in
        :class:`dagprofiler.measure.pipeline.Record`; None for moments that it did not reach.
    ran_on
        For each task the number of its worker; -1 if it is unknown.
    wire_bytes
        For each slot of the wiring the serialized length of its value.
    payload_bytes
        Slot to the payload of its value, if that is not the serialized length.
    columns
        Each column that the meters measure, and why some tasks have no reading; "" if all have.
    readings
        Task number to what the instruments read; empty without instruments. Tasks that failed
        are absent, and reasons are in `columns`.
    tasks
        Task number to its note, if it has one.
    started_s, total_s
        Reading of the clock when the round began, and its duration so far, in seconds. Time
        in hooks is left out, and so is time of measuring that delayed the run loop.
    ended_s
        Reading of the clock when the round was complete; None before that.
    waited_s
        Time that the run loop waited for tasks that ran elsewhere, in seconds;
        None if it ran them itself.
    legacy_generators
        False if the seed did not reach numpy's and random's legacy generators,
        because tasks ran concurrently in threads; None otherwise.
    growth
        The growth of a dynamic graph; None for a fixed one.
    """

    kind: str
    wiring: Wiring = field(repr=False, compare=False)
    times: list[float | None]
    ran_on: list[int]
    wire_bytes: list[int]
    payload_bytes: dict[int, int] = field(default_factory=dict)
    columns: dict[str, str] = field(default_factory=dict)
    readings: dict[int, Readings] = field(default_factory=dict)
    tasks: dict[int, TaskNote] = field(default_factory=dict)
    started_s: float = 0.0
    total_s: float = 0.0
    ended_s: float | None = None
    waited_s: float | None = None
    legacy_generators: bool | None = None
    growth: Growth | None = None

    def extend(self, tasks: int, slots: int) -> None:
        """Make room for tasks and slots by which the graph grows."""
        self.times += [None] * (6 * tasks)
        self.ran_on += [0] * tasks
        self.wire_bytes += [0] * slots

    def note(self, i: int, **facts: Any) -> None:
        """Add to the note of task number `i`."""
        note = self.tasks.get(i)
        self.tasks[i] = TaskNote(**facts) if note is None else note._replace(**facts)

    def note_of(self, i: int) -> TaskNote:
        """Return the note of task number `i`."""
        return self.tasks.get(i, _NO_NOTE)

    def note_readings(self, i: int, readings: Readings) -> None:
        """Enter what the instruments read of task number `i`."""
        for column, why in readings.reasons.items():
            self.columns[column] = self.columns.get(column) or why
        # Sorted by name, as decode_s() expects; no input is timed of a task that overrides run().
        if self.wiring.grows and readings.decode_s:
            decode_s = [readings.decode_s[place] for place in _places_by_name(self.wiring, i)]
            readings = readings._replace(decode_s=decode_s)
        self.readings[i] = readings

    def facts(self, name: str) -> dict[int, Any]:
        """Return a field of the notes, by task number; tasks without a value are absent."""
        values = {i: getattr(note, name) for i, note in self.tasks.items()}
        return {i: value for i, value in values.items() if value}

    @property
    def errors(self) -> dict[int, str]:
        """The error of each task that failed, as text."""
        return self.facts("error")

    def meters_of(self, i: int) -> dict[str, float | None]:
        """Return the readings of the meters for task number `i`, by column."""
        readings = self.readings.get(i)
        return {} if readings is None else dict(zip(self.columns, readings.meters))

    @property
    def reasons(self) -> dict[str, str]:
        """Why a meter has no reading, by column."""
        return {column: why for column, why in self.columns.items() if why}

    def spent_s(self, *names: str) -> float:
        """Return the time of these fields of the readings, in seconds, summed over the workers."""
        times: list[float] = [getattr(read, n) for read in self.readings.values() for n in names]
        return sum(times)

    def encode_s(self, i: int) -> Sequence[float | None]:
        """Return the time to encode each declared output of task number `i`; empty if not timed."""
        readings = self.readings.get(i)
        return () if readings is None else readings.encode_s

    def decode_s(self, i: int) -> Sequence[float]:
        """Return the time to decode each input of task number `i`; empty if they are not timed."""
        readings = self.readings.get(i)
        if readings is None or not (self.wiring.grows and readings.decode_s):
            return () if readings is None else readings.decode_s
        by_place = dict(zip(_places_by_name(self.wiring, i), readings.decode_s))
        return [by_place[place] for place in range(len(by_place))]

    def payloads(self) -> list[int]:
        """Return the payload of the value in each slot."""
        return [self.payload_bytes.get(slot, n) for slot, n in enumerate(self.wire_bytes)]

    def entry(self, i: int, zero_s: float) -> JsonObject:
        """Return the readings and the note of a task that has succeeded with instruments, as JSON.

        Parameters
        ----------
        zero_s
            Reading of its worker's clock from which the times of spans count.
        """
        note = self.note_of(i)
        return {
            "readings": {**self.readings[i]._asdict(), "reasons": {}},
            "spans": note.spans and note.spans.shifted(-zero_s),
            "undeclared_bytes": note.undeclared_bytes,
        }

    def enter(self, i: int, entry: JsonObject, zero_s: float) -> None:
        """Enter what :meth:`entry` returned."""
        from dagprofiler.measure.instruments import Readings

        self.readings[i] = Readings(**entry["readings"])
        if entry["spans"] is not None:
            self.note(i, spans=TaskSpans(*entry["spans"]).shifted(zero_s))
        if entry["undeclared_bytes"]:
            self.note(i, undeclared_bytes=entry["undeclared_bytes"])

    def add_report(self, report: RoundReport) -> None:
        """Add the executor's report, and shift all readings to this process's clock."""
        if report.waited_s is None:
            self.waited_s = None
        else:
            self.waited_s = (self.waited_s or 0.0) + report.waited_s
        for i, lost in report.attempts.items():
            self.note(i, attempts=lost)
        if report.legacy_generators is not None:
            self.legacy_generators = report.legacy_generators
        if any(report.ahead_s):
            ahead_s = [report.ahead_s[worker] for worker in self.ran_on]
            self.times = [
                None if moment is None else moment - ahead_s[k // 6]
                for k, moment in enumerate(self.times)
            ]
            for i, spans in self.facts("spans").items():
                self.note(i, spans=spans.shifted(-ahead_s[i]))

    @property
    def complete(self) -> bool:
        """Whether all tasks have succeeded, and no other could be added."""
        may_grow = self.growth is not None and not self.growth.complete
        return not (may_grow or None in self.ends or self.errors)

    def succeeded(self, i: int) -> bool:
        """Tell whether task number `i` has finished without an error."""
        return self.times[6 * i + 5] is not None and self.note_of(i).error is None

    def by_start(self) -> list[int]:
        """Return the tasks that began, in the order of their starts."""
        begun = {i: t for i, t in enumerate(self.times[::6]) if t is not None}
        return sorted(begun, key=begun.__getitem__)

    @property
    def ends(self) -> list[float | None]:
        """When each task ended; None for those that did not."""
        return self.times[5::6]

    def set_times(self, i: int, times: Sequence[float | None]) -> None:
        """Enter the six readings of the clock of task number `i`."""
        self.times[6 * i : 6 * i + 6] = times

    def times_of(self, i: int) -> Column:
        """Return the six readings of the clock of task number `i`."""
        return self.times[6 * i : 6 * i + 6]


class RoundResult(NamedTuple):
    """What a round in another process returns.

    Attributes
    ----------
    log
        The log of the round.
    worker
        The process, in the form of the profile's ``timeline.workers``.
    results
        The outputs that are returned, and the errors.
    """

    log: RoundLog
    worker: JsonObject
    results: Results


def phase_s(round_log: RoundLog, start: int) -> Column:
    """Return the time of a phase for each task; None for tasks that did not succeed.

    Parameters
    ----------
    start
        Which of the six readings began the phase: 0, 2 or 4.
    """
    times = round_log.times
    spent = [
        None if done is None else end - begin  # type: ignore[operator]
        for begin, end, done in zip(times[start::6], times[start + 1 :: 6], times[5::6])
    ]
    for task in round_log.errors:
        spent[task] = None
    return spent


@dataclass
class TaskRecord:
    """One finished or failed task, passed to hooks.

    Attributes
    ----------
    task
        Its name in the DAG.
    state
        ``"succeeded"`` or ``"failed"``.
    metrics
        Its times and sizes; None if it failed.
    phases
        Start and end of each phase, in milliseconds from the run's start
        (``compute_start_ms``, ...); None for moments after a failure.
    worker
        The worker that ran it: ``host``, ``pid``, ``thread``; None if it did not start.
    error
        The error that it raised; None if it succeeded.
    round
        Number of the round, counted from 0, warm-up included.
    number
        Number of the task in the graph of its round.
    """

    task: str
    state: str
    metrics: TaskMetrics | None
    phases: dict[str, float | None]
    worker: JsonObject | None
    error: BaseException | None = None
    round: int = 0
    number: int = -1


@dataclass
class RunCosts:
    """Time that a run spent outside its tasks, and in total, in seconds.

    Attributes
    ----------
    prepare_s
        Before the first round.
    hooks_s, garbage_s
        In hooks, and in collecting garbage between rounds.
    earlier_s
        In previous attempts at the run.
    total_s
        From the start of the run to its end, tasks included.
    other_threads_s
        CPU time of other threads of this process in the rounds.
    """

    prepare_s: float = 0.0
    hooks_s: float = 0.0
    garbage_s: float = 0.0
    earlier_s: float = 0.0
    total_s: float = 0.0
    other_threads_s: float = 0.0


@dataclass
class RunLog:
    """The log of one run: its rounds, and the facts that they share.

    Attributes
    ----------
    setup
        What the run is of.
    wiring
        The graph that ran.
    estimates
        Task number to the instructions that its cost model returns; tasks
        without a model are absent.
    given_bytes
        Task number to the size of its inputs from outside the graph, in bytes; others are absent.
    executor
        Name of the executor.
    ahead_s
        Returns by how many seconds the clock of a worker is ahead, in a round
        that has not ended.
    workers
        The workers that ran tasks: ``host``, ``pid``, ``thread``.
    costs
        Where time went besides the tasks.
    rounds
        The log of each round so far.
    ended_by
        What ended the measured rounds: ``"n"``, ``"precision"``, ``"max_rounds"`` or
        ``"max_time_s"``; None before that.
    environment
        The machine, as :func:`environment` returns it.
    reason
        Why the run is partial; None if it is complete.
    resumed
        The profile's entry for each resumption of the run.
    contracts
        The contract of each task of the last round, by its number; empty after the run.
    bound
        Task name to the arguments that were bound to it, as text; the others are absent.
    """

    setup: Setup
    wiring: Wiring
    estimates: dict[int, int]
    given_bytes: dict[int, int]
    executor: str
    ahead_s: Callable[[int], float]
    workers: list[JsonObject]
    contracts: Sequence[Contract]
    costs: RunCosts = field(default_factory=RunCosts)
    rounds: list[RoundLog] = field(default_factory=list)
    ended_by: str | None = None
    environment: JsonObject = field(default_factory=dict)
    reason: str | None = None
    resumed: list[JsonObject] = field(default_factory=list)
    bound: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def conditions(self) -> Rounds:
        """The rounds that the run was called with."""
        return self.setup.options.rounds

    @cached_property
    def timestamp(self) -> str:
        """When the run began, as ISO 8601 text in UTC; a resumed run gets its first attempt's."""
        return utc_text(self.setup.started_at)

    @cached_property
    def started(self) -> float:
        """Reading of the clock at the run's start, moved back by the time of earlier attempts."""
        return self.setup.started_s - self.costs.earlier_s

    def unify(self, round_log: RoundLog) -> None:
        """Renumber the tasks of a growing graph's round as in the first such round.

        Raises
        ------
        GraphError
            If its graph is another one; the round is removed.
        """
        first = next(other for other in self.rounds if other.growth is not None)
        self.wiring = first.wiring
        if first is round_log:
            self.estimates.update(round_log.growth.estimates)  # type: ignore[union-attr]
            return
        try:
            renumber(round_log, first.wiring)
        except GraphError:
            self.rounds.remove(round_log)
            raise

    def describe_environment(self, calibrations: Iterable[Calibration]) -> None:
        """Describe the machine, and what the processes that computed had loaded."""
        self.environment = environment(thorough=self.setup.is_repeated)
        for calibration in calibrations:
            self.environment["calibration"] = calibration.to_dict()
        for round_log in self.rounds:
            for readings in round_log.readings.values():
                self.environment["versions"].update(readings.versions or {})

    def measured(self) -> list[RoundLog]:
        """Return the measured rounds."""
        return [round_log for round_log in self.rounds if round_log.kind == MEASURED]

    def record(self, i: int, error: BaseException | None = None) -> TaskRecord:
        """Return the record of task number `i`, which finished or failed in the last round."""
        name, round_log, number = self.wiring.names[i], self.rounds[-1], len(self.rounds) - 1
        ahead_s = self.ahead_s(round_log.ran_on[i])
        times: Any = [None if t is None else t - ahead_s for t in round_log.times_of(i)]
        metrics = None
        if error is None:
            t0, t1, t2, t3, t4, t5 = times
            arrived = [round_log.wire_bytes[slot] for _, slot in self.wiring.feeds(i)]
            first = self.wiring.first_slot[i]
            left = round_log.wire_bytes[first : first + len(self.wiring.outputs[i])]
            metrics = TaskMetrics(
                task=name,
                compute_time_ms=duration_ms(t3 - t2),
                serialize_time_ms=duration_ms(t5 - t4),
                deserialize_time_ms=duration_ms(t1 - t0),
                bytes_in=sum(arrived) + self.given_bytes.get(i, 0),
                bytes_out=sum(left) + round_log.note_of(i).undeclared_bytes,
                loop_idx=number,
            )
        return TaskRecord(
            task=name,
            state="succeeded" if error is None else "failed",
            metrics=metrics,
            phases=dict(zip(MOMENTS[1:], self.since_start_ms(times))),
            worker=self.workers[round_log.ran_on[i]] if round_log.ran_on[i] >= 0 else None,
            error=error,
            round=number,
            number=i,
        )

    def since_start_ms(self, times: Iterable[float | None]) -> list[float | None]:
        """Return readings of the clock as milliseconds since the run began."""
        return since_ms(times, self.started)


#: What sets the threads of numerical libraries; they read it when they are loaded.
_THREAD_SETTINGS = (
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    # How long idle threads spin, which counts as work of the next task.
    "OPENBLAS_THREAD_TIMEOUT",
)


def environment(*, thorough: bool = False) -> JsonObject:
    """Return a description of the machine, of the program and of the versions in use.

    Unknown values are null. Only loaded packages have a version, since others
    took no part in the run.

    Parameters
    ----------
    thorough
        Whether to include the quota of the control groups, the threads of numpy's BLAS and the
        versions of all loaded packages, not only numpy's. The first time takes 0.5 ms, longer
        than many runs.
    """
    usable, origin = None, JsonObject()
    with suppress(AttributeError, OSError):
        usable = len(os.sched_getaffinity(0))
    # The current directory may have been removed.
    with suppress(OSError):
        origin = repository(os.getcwd())
    command = command_line()
    # Empty while another thread imports it.
    numpy = getattr(sys.modules.get("numpy"), "__version__", None)
    return {
        **machine(),
        "cores_usable": usable,
        **({"cores_quota": cores_quota(), "blas_threads": blas_threads()} if thorough else {}),
        "thread_settings": {name: os.environ.get(name) for name in _THREAD_SETTINGS},
        "allocator_settings": dict(allocator_settings()),
        "versions": {"numpy": numpy, **(versions(frozenset(sys.modules)) if thorough else {})},
        **({} if command is None else {"command": command}),
        **({"git": {**origin}} if origin else {}),
    }


#: Adding it and taking it away rounds a float below 2**51 (in ns, 26 days) to a whole number, half
#: to even. round() does the same and takes three times as long; most values of a profile need it.
_WHOLE = 1.5 * 2**52


def since_ms(times: Iterable[float | None], zero_s: float = 0.0) -> list[float | None]:
    """Return readings of a clock, in seconds, as milliseconds since `zero_s`; or durations.

    They are rounded to the nanosecond, the resolution of the clock.
    """
    return [None if t is None else ((t - zero_s) * 1e9 + _WHOLE - _WHOLE) / 1e6 for t in times]


def duration_ms(seconds: float) -> float:
    """Return milliseconds, rounded to the nanosecond."""
    return (seconds * 1e9 + _WHOLE - _WHOLE) / 1e6
