"""RunLog: the raw readings of a run; TaskRecord: one task as hooks receive it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Union

from dagprofiler._document.rounds import MEASURED, MOMENTS, Rounds
from dagprofiler._util.interpreter import TaskSpans
from dagprofiler._util.json import utc_text
from dagprofiler.errors import GraphError, short_repr
from dagprofiler.executors import RoundReport
from dagprofiler.graph.wiring import Wiring
from dagprofiler.measure.machine import (
    blas_threads,
    command_line,
    cores_quota,
    machine,
    repository,
    versions,
)
from dagprofiler.measure.pipeline import Contract
from dagprofiler.metrics import TaskMetrics
from dagprofiler.stats import median

if TYPE_CHECKING:
    from dagprofiler.measure.instruments import Readings

Number = Union[int, float, None]
Column = list[Optional[float]]


def renumber(round_log: RoundLog, new: Wiring) -> list[int | None] | None:
    """Give the tasks of a round, in which the graph grew, the numbers that they have in `new`.

    Rules may fire in another order in each round. Of a round that failed, tasks that the other
    rounds lack are left out.

    Returns
    -------
    list of int, or None
        The new number of each task, None for one that is left out; None if all are the same.

    Raises
    ------
    GraphError
        If the round succeeded and its graph is another one.
    """
    old = round_log.wiring
    if new.same_as(old):
        round_log.wiring = new
        return None
    if round_log.complete:
        _check_same(old, new)
    index, count = {name: i for i, name in enumerate(new.names)}, len(new.names)
    tasks = [index.get(name) for name in old.names]
    known = {(owner, new.field_of(slot)): slot for slot, owner in enumerate(new.owner)}
    slots = [known.get((tasks[i], old.field_of(slot))) for slot, i in enumerate(old.owner)]  # type: ignore[arg-type]
    moments = [round_log.times_of(i) for i in range(len(tasks))]
    round_log.times = [*chain.from_iterable(_moved(moments, tasks, count, [None] * 6))]
    round_log.ran_on = _moved(round_log.ran_on, tasks, count, 0)
    round_log.wire_bytes = _moved(round_log.wire_bytes, slots, len(new.owner), 0)
    round_log.payload_bytes = rekeyed(round_log.payload_bytes, slots)
    by_task = ("undeclared_bytes", "errors", "tracebacks", "meters", "digests", "attempts", "spans")
    for name in by_task:
        setattr(round_log, name, rekeyed(getattr(round_log, name), tasks))
    round_log.skipped = set(rekeyed(dict.fromkeys(round_log.skipped), tasks))
    if round_log.encode_s:
        places = _places(old, new, tasks, slots)
        round_log.encode_s = _moved(round_log.encode_s, slots, len(new.owner), None)
        round_log.decode_s = _moved(round_log.decode_s, places, len(new.slots), None)
    growth: Growth = round_log.growth  # type: ignore[assignment]
    growth.estimates = rekeyed(growth.estimates, tasks)
    growth.added_s = _moved(growth.added_s, tasks, count, 0.0)
    growth.firings = [
        firing._replace(tasks=[number for i in firing.tasks if (number := tasks[i]) is not None])
        for firing in growth.firings
    ]
    round_log.wiring = new
    return tasks


def _check_same(here: Wiring, first: Wiring) -> None:
    """Raise a GraphError unless a round had the tasks, outputs and edges of the first round."""
    of_here, of_first = here.by_name(), first.by_name()
    differing = sorted(of_here.keys() ^ of_first.keys()) or [
        name for name, edges in of_here.items() if edges != of_first[name]
    ]
    if differing:
        name = differing[0]
        lacks = "lacks it" if name not in of_here else "has it, the first one does not"
        if name in of_here and name in of_first:
            lacks = "has other outputs of it, or other edges to it"
        raise GraphError(
            f"task {short_repr(name)}: a later round {lacks}; rounds can be compared only if "
            "their graphs are the same: use rounds=1, or a seed if the graph depends on random "
            "numbers"
        )


def _places(
    old: Wiring, new: Wiring, tasks: list[int | None], slots: list[int | None]
) -> list[int | None]:
    """Return the position of each input of a wiring in another."""
    places = []
    for i, task in enumerate(tasks):
        place: dict[Any, int] = {}
        if task is not None:
            place = dict(zip(new.feeds(task), range(*new.first_input[task : task + 2])))
        places += [place.get((field, slots[slot])) for field, slot in old.feeds(i)]
    return places


def _moved(
    values: Sequence[Any], places: Sequence[int | None], count: int, missing: Any
) -> list[Any]:
    """Return a list of `count` values, with each value at its new place."""
    moved = [missing] * count
    for place, value in zip(places, values):
        if place is not None:
            moved[place] = value
    return moved


def rekeyed(values: Mapping[int, Any], numbers: Sequence[int | None]) -> dict[int, Any]:
    """Return values under new numbers, without those that have none."""
    pairs = ((numbers[key], value) for key, value in values.items())
    return {key: value for key, value in pairs if key is not None}


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
    """

    estimates: dict[int, int]
    added_s: list[float]
    firings: list[Firing] = field(default_factory=list)
    unfired: dict[str, str] = field(default_factory=dict)
    rules_s: float = 0.0


class Results:
    """What a round leaves behind in addition to its log.

    Attributes
    ----------
    outputs
        Task number to the outputs that are returned.
    errors
        Task number to its error.
    rule_failures
        Rule to its error.
    """

    def __init__(self) -> None:
        self.outputs: dict[int, Mapping[str, Any]] = {}
        self.errors: dict[int, BaseException] = {}
        self.rule_failures: dict[str, BaseException] = {}

    def renumber(self, numbers: Sequence[int | None]) -> None:
        """Give the tasks other numbers."""
        self.outputs = rekeyed(self.outputs, numbers)
        self.errors = rekeyed(self.errors, numbers)


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
        Slot to its payload, if that differs.
    undeclared_bytes
        Task number to the serialized length of outputs that it does not
        declare, if it returned any.
    errors
        Task number to its error as text: the error itself may hold values
        that cannot be copied.
    tracebacks
        Task number to the frames of its error, as :func:`dagprofiler.errors.frames_of`
        returns them; tasks without any are absent.
    skipped
        Tasks that did not run because a predecessor failed or was skipped.
    started_s, total_s
        Reading of the clock when the round began, and its duration so far, in seconds,
        without hooks, and without measuring if that delayed the run loop.
    decode_s, encode_s
        Time to decode each input of the wiring, and to encode each slot, in
        seconds; empty without instruments.
    columns, meters
        Names of the columns that the meters measure, and task number to their readings.
    digests
        Task number to the hash of its serialized outputs.
    reasons
        Why a meter has no reading, by column.
    meters_s, garbage_s, store_s
        Time of meters, of collecting garbage before tasks and of storing outputs, in seconds.
    spans
        Task number to the spans that were traced inside it.
    stored
        Task number to the place of its stored outputs, until the journal records it.
    ended_s
        Reading of the clock when the round was complete; None before that.
    waited_s
        Time that the run loop waited for tasks that ran elsewhere, in seconds;
        None if it ran them itself.
    legacy_generators
        False if the seed did not reach numpy's and random's legacy generators,
        because tasks ran concurrently in threads; None otherwise.
    attempts
        Task number to the outcomes, as text, of failed attempts that its executor retried.
    growth
        The growth of a dynamic graph; None for a fixed one.
    versions
        The versions of the packages that the workers had loaded, by name, as far as instruments
        have read them.
    """

    kind: str
    wiring: Wiring = field(repr=False, compare=False)
    times: list[float | None]
    ran_on: list[int]
    wire_bytes: list[int]
    payload_bytes: dict[int, int] = field(default_factory=dict)
    undeclared_bytes: dict[int, int] = field(default_factory=dict)
    errors: dict[int, str] = field(default_factory=dict)
    tracebacks: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    skipped: set[int] = field(default_factory=set)
    started_s: float = 0.0
    total_s: float = 0.0
    decode_s: Column = field(default_factory=list)
    encode_s: Column = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    meters: dict[int, list[Number]] = field(default_factory=dict)
    digests: dict[int, bytes] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    meters_s: float = 0.0
    garbage_s: float = 0.0
    store_s: float = 0.0
    spans: dict[int, TaskSpans] = field(default_factory=dict)
    stored: dict[int, Any] = field(default_factory=dict)
    ended_s: float | None = None
    waited_s: float | None = None
    legacy_generators: bool | None = None
    attempts: dict[int, Sequence[str]] = field(default_factory=dict)
    growth: Growth | None = None
    versions: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, kind: str, wiring: Wiring, columns: list[str]) -> RoundLog:
        """Return the log of a round that is about to begin."""
        tasks, slots = len(wiring.names), len(wiring.owner)
        return cls(kind, wiring, [None] * (6 * tasks), [0] * tasks, [0] * slots, columns=columns)

    def extend_columns(self) -> None:
        """Extend the lists of instruments to the size of the graph, which may have grown."""
        self.decode_s += [None] * (len(self.wiring.slots) - len(self.decode_s))
        self.encode_s += [None] * (len(self.wiring.owner) - len(self.encode_s))

    def note(self, i: int, readings: Readings) -> None:
        """Enter the readings of the instruments for task number `i`."""
        wiring = self.wiring
        self.extend_columns()
        begin, end = wiring.first_input[i], wiring.first_input[i + 1]
        # Inputs from outside the graph follow those from edges.
        for place, seconds in zip(range(begin, end), readings.decode_s):
            self.decode_s[place] = seconds
        for slot, name in enumerate(wiring.outputs[i], wiring.first_slot[i]):
            self.encode_s[slot] = readings.encode_s.get(name)
        self.meters[i] = readings.meters
        for column, why in readings.reasons.items():
            self.reasons.setdefault(column, why)
        self.meters_s += readings.meters_s
        self.garbage_s += readings.garbage_s
        self.store_s += readings.store_s
        if readings.stored is not None:
            self.stored[i] = readings.stored
        if readings.digest is not None:
            self.digests[i] = readings.digest
        if readings.versions is not None:
            self.versions.update(readings.versions)

    def entry(self, i: int, zero_s: float) -> dict[str, Any]:
        """Return what happened to task number `i`, which was measured with instruments, as JSON.

        Parameters
        ----------
        zero_s
            Reading of its worker's clock from which times count.
        """
        wiring, wire = self.wiring, self.wire_bytes
        slots = [*enumerate(wiring.outputs[i], wiring.first_slot[i])]
        decode_s: dict[str, list[Any]] = {}
        for place, (name, _) in enumerate(wiring.feeds(i), wiring.first_input[i]):
            decode_s.setdefault(name, []).append(self.decode_s[place])
        spans, digest = self.spans.get(i), self.digests.get(i)
        return {
            "task": wiring.names[i],
            "times_ms": since_ms(self.times_of(i), zero_s),
            "spans": None if spans is None else spans.shifted(-zero_s),
            "bytes": {
                name: [wire[slot], self.payload_bytes.get(slot, wire[slot])] for slot, name in slots
            },
            "undeclared_bytes": self.undeclared_bytes.get(i),
            "decode_s": decode_s,
            "encode_s": {name: self.encode_s[slot] for slot, name in slots},
            "meters": self.meters[i],
            "digest": None if digest is None else digest.hex(),
            # Of the round so far.
            "reasons": self.reasons,
        }

    def enter(self, i: int, entry: Mapping[str, Any], zero_s: float) -> None:
        """Enter what :meth:`entry` returned for task number `i`; its worker is not part of it."""
        wiring = self.wiring
        self.extend_columns()
        self.times[6 * i : 6 * i + 6] = [zero_s + ms / 1e3 for ms in entry["times_ms"]]
        if entry["spans"] is not None:
            self.spans[i] = TaskSpans(*entry["spans"]).shifted(zero_s)
        for slot, name in enumerate(wiring.outputs[i], wiring.first_slot[i]):
            self.wire_bytes[slot], payload = entry["bytes"][name]
            if payload != self.wire_bytes[slot]:
                self.payload_bytes[slot] = payload
            self.encode_s[slot] = entry["encode_s"][name]
        decode_s = {name: iter(spent) for name, spent in entry["decode_s"].items()}
        for place, (name, _) in enumerate(wiring.feeds(i), wiring.first_input[i]):
            self.decode_s[place] = next(decode_s[name])
        if entry["undeclared_bytes"] is not None:
            self.undeclared_bytes[i] = entry["undeclared_bytes"]
        if entry["digest"] is not None:
            self.digests[i] = bytes.fromhex(entry["digest"])
        self.meters[i] = entry["meters"]
        self.reasons.update(entry["reasons"])

    @property
    def aside_s(self) -> float:
        """Time of measuring itself, in seconds, summed over the workers."""
        return self.meters_s + self.garbage_s + self.store_s

    def conclude(self, report: RoundReport) -> None:
        """Add the executor's report, and shift all readings to this process's clock."""
        if report.waited_s is None:
            self.waited_s = None
        else:
            self.waited_s = (self.waited_s or 0.0) + report.waited_s
        self.attempts.update(report.attempts)
        if report.legacy_generators is not None:
            self.legacy_generators = report.legacy_generators
        if any(report.ahead_s):
            ahead_s = [report.ahead_s[worker] for worker in self.ran_on]
            self.times = [
                None if moment is None else moment - ahead_s[k // 6]
                for k, moment in enumerate(self.times)
            ]
            self.spans = {i: spans.shifted(-ahead_s[i]) for i, spans in self.spans.items()}

    @property
    def complete(self) -> bool:
        """Whether all tasks have succeeded."""
        return not self.errors and None not in self.times[5::6]

    def succeeded(self, i: int) -> bool:
        """Tell whether task number `i` has finished without an error."""
        return self.times[6 * i + 5] is not None and i not in self.errors

    def by_start(self) -> list[int]:
        """Return the tasks that began, in the order of their starts."""
        begun = {i: t for i, t in enumerate(self.times[::6]) if t is not None}
        return sorted(begun, key=begun.__getitem__)

    def times_of(self, i: int) -> Any:
        """Return the six readings of the clock of task number `i`."""
        return self.times[6 * i : 6 * i + 6]


class Figures(NamedTuple):
    """The figures of each task and slot: of several rounds the medians.

    Attributes
    ----------
    deserialize_s, compute_s, serialize_s
        Time of the phase of each task; None if it did not succeed.
    wire_bytes, payload_bytes, undeclared_bytes
        As in :class:`RoundLog`.
    """

    deserialize_s: Column
    compute_s: Column
    serialize_s: Column
    wire_bytes: Sequence[int]
    payload_bytes: dict[int, int]
    undeclared_bytes: dict[int, int]


def figures(rounds: Sequence[RoundLog], wiring: Wiring) -> Figures:
    """Return the figures of at least one round: its own, or the medians of several."""
    phases = [[phase_s(round_log, start) for round_log in rounds] for start in (0, 2, 4)]
    if len(rounds) == 1:
        only, ((decode_s,), (compute_s,), (encode_s,)) = rounds[0], phases
        sizes = only.wire_bytes, only.payload_bytes, only.undeclared_bytes
        return Figures(decode_s, compute_s, encode_s, *sizes)
    wire_bytes, payload_bytes, undeclared_bytes = [], {}, {}
    for slot, task in enumerate(wiring.owner):
        seen = [round_log for round_log in rounds if round_log.succeeded(task)]
        wire = _middle([round_log.wire_bytes[slot] for round_log in seen])
        payload = _middle(
            [round_log.payload_bytes.get(slot, round_log.wire_bytes[slot]) for round_log in seen]
        )
        wire_bytes.append(wire)
        if payload != wire:
            payload_bytes[slot] = payload
    for task in {task for round_log in rounds for task in round_log.undeclared_bytes}:
        seen = [round_log for round_log in rounds if round_log.succeeded(task)]
        undeclared_bytes[task] = _middle(
            [round_log.undeclared_bytes.get(task, 0) for round_log in seen]
        )
    decode_s, compute_s, encode_s = map(_medians, phases)
    return Figures(decode_s, compute_s, encode_s, wire_bytes, payload_bytes, undeclared_bytes)


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


def _medians(columns: Sequence[Column]) -> Column:
    known = ([value for value in row if value is not None] for row in zip(*columns))
    return [median(values) if values else None for values in known]


def _middle(sizes: list[int]) -> int:
    """Return the lower median, a whole number of bytes; 0 without values."""
    return sorted(sizes)[(len(sizes) - 1) // 2] if sizes else 0


#: The six readings of the clock.
PHASES = MOMENTS[1:]


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
    ready_ms, waited_ms
        When its last input was available, in milliseconds from the run's start,
        and the time from then until it started; None if it did not start.
    error
        The error that it raised; None if it succeeded.
    round
        Number of the round, counted from 0, warm-up included.
    """

    task: str
    state: str
    metrics: TaskMetrics | None
    phases: dict[str, float | None]
    worker: dict[str, Any] | None
    error: BaseException | None = None
    round: int = 0
    ready_ms: float | None = None
    waited_ms: float | None = None


@dataclass
class RunLog:
    """The log of one run: its rounds, and the facts that they share.

    Attributes
    ----------
    wiring
        The graph that ran.
    nodes
        Task names in the order of the argument of the DAG.
    started_at
        When the run began, in seconds since 1970.
    started
        Reading of the clock, in seconds, when the run began.
    estimates
        Task number to the instructions that its cost model returns; tasks
        without a model are absent.
    executor
        Name of the executor.
    ahead_s
        Returns by how many seconds the clock of a worker is ahead, in a round
        that has not ended.
    workers
        The workers that ran tasks: ``host``, ``pid``, ``thread``.
    outside
        Task number to the size of its inputs from outside the graph, in bytes.
    conditions
        The rounds that the run was called with.
    priorities
        The source of priorities; None for Kahn's order.
    schedule
        Node to its tasks in order; None without a schedule.
    rounds
        The log of each round so far.
    ended_by
        Why the measured rounds ended, as in :class:`~dagprofiler._document.rounds.Plan`.
    environment
        The machine, as :func:`environment` returns it.
    reason
        Why the run is partial; None if it is complete.
    name
        Name of the DAG; None if it has none.
    earlier_s
        Time that previous attempts worked on the run, in seconds; 0 for a first attempt.
    resumed
        The profile's entry for each resumption of the run.
    contracts
        The contract of each task of the round that runs, by its number.
    bound
        Task name to the arguments that were bound to it, as text; the others are absent.
    unknown
        What the origin of the graph cannot give, to the reason.
    prepare_s, hooks_s, garbage_s, total_s
        Time spent before the first task, in hooks, in collecting garbage
        between rounds, and in total, in seconds.
    """

    wiring: Wiring
    nodes: list[str]
    started_at: float
    started: float
    estimates: dict[int, int]
    executor: str
    ahead_s: Callable[[int], float]
    workers: list[dict[str, Any]]
    outside: dict[int, int]
    conditions: Rounds
    priorities: str | None = None
    schedule: Mapping[str, Sequence[str]] | None = None
    rounds: list[RoundLog] = field(default_factory=list)
    ended_by: str | None = None
    environment: dict[str, Any] = field(default_factory=dict)
    reason: str | None = None
    name: str | None = None
    earlier_s: float = 0.0
    resumed: list[dict[str, Any]] = field(default_factory=list)
    contracts: Sequence[Contract] = ()
    bound: dict[str, dict[str, str]] = field(default_factory=dict)
    unknown: Mapping[str, str] = field(default_factory=dict)
    prepare_s: float = 0.0
    hooks_s: float = 0.0
    garbage_s: float = 0.0
    total_s: float = 0.0

    @cached_property
    def timestamp(self) -> str:
        """When the run began, as ISO 8601 text in UTC; of a resumed run the first attempt."""
        return utc_text(self.started_at)

    def begin(self, kind: str, columns: list[str]) -> RoundLog:
        """Return the log of a round that is about to begin."""
        self.rounds.append(RoundLog.of(kind, self.wiring, columns))
        return self.rounds[-1]

    def adopt(self, kind: str, round_log: RoundLog, worker: dict[str, Any]) -> RoundLog:
        """Add a round that another process ran."""
        round_log.kind = kind
        if round_log.growth is None:
            round_log.wiring = self.wiring
        if round_log.started_s:
            round_log.ran_on = [len(self.workers)] * len(round_log.ran_on)
            self.workers.append(worker)
        self.rounds.append(round_log)
        return round_log

    def settle(self, round_log: RoundLog) -> list[int | None] | None:
        """Give the tasks of a round in which the graph grew the numbers of the first such round.

        Returns
        -------
        list of int, or None
            As :func:`renumber`.
        """
        first = next(other for other in self.rounds if other.growth is not None)
        numbers = None
        if first is not round_log:
            try:
                numbers = renumber(round_log, first.wiring)
            except GraphError:
                self.rounds.remove(round_log)
                self.wiring = first.wiring
                raise
        self.wiring = wiring = first.wiring
        given = wiring.given
        self.nodes = [*self.nodes[:given], *wiring.names[given:]]
        self.estimates.update(round_log.growth.estimates)  # type: ignore[union-attr]
        return numbers

    def end(self) -> None:
        """Release the executor: all rounds have ended, and use one clock."""
        self.ahead_s = _one_clock

    def measured(self) -> list[RoundLog]:
        """Return the measured rounds."""
        return [round_log for round_log in self.rounds if round_log.kind == MEASURED]

    def record(self, round_log: RoundLog, i: int, error: BaseException | None = None) -> TaskRecord:
        """Return the record of task number `i`, which finished or failed, in a round."""
        name = self.wiring.names[i]
        number = next(k for k, other in enumerate(self.rounds) if other is round_log)
        ahead_s = self.ahead_s(round_log.ran_on[i])
        times: Any = [None if t is None else t - ahead_s for t in round_log.times_of(i)]
        ready_s, started_s = self._ready_s(round_log, i), times[0]
        metrics = None
        if error is None:
            t0, t1, t2, t3, t4, t5 = times
            metrics = TaskMetrics(
                task=name,
                compute_time_ms=duration_ms(t3 - t2),
                serialize_time_ms=duration_ms(t5 - t4),
                deserialize_time_ms=duration_ms(t1 - t0),
                bytes_in=self.bytes_in(i, round_log.wire_bytes),
                bytes_out=self.bytes_out(i, round_log.wire_bytes, round_log.undeclared_bytes),
                loop_idx=number,
            )
        return TaskRecord(
            task=name,
            state="succeeded" if error is None else "failed",
            metrics=metrics,
            phases=dict(zip(PHASES, self.since_start_ms(times))),
            worker=self.workers[round_log.ran_on[i]] if round_log.ran_on[i] >= 0 else None,
            error=error,
            round=number,
            ready_ms=None if started_s is None else self.since_start_ms([ready_s])[0],
            waited_ms=None if started_s is None else duration_ms(started_s - ready_s),
        )

    def _ready_s(self, round_log: RoundLog, i: int) -> float:
        """Return when the last predecessor of a task ended, or else when the round began."""
        ends: Any = [
            round_log.times[6 * source + 5] - self.ahead_s(round_log.ran_on[source])  # type: ignore[operator]
            for source in self.wiring.predecessors(i)
        ]
        # A task that a rule added cannot have been ready before.
        added_s = round_log.growth.added_s[i] if round_log.growth is not None else 0.0
        return max([*ends, added_s] if added_s else ends, default=round_log.started_s)

    def bytes_in(self, i: int, wire_bytes: Sequence[int]) -> int:
        """Return the serialized length of all inputs of task number `i`."""
        wiring = self.wiring
        slots = wiring.slots[wiring.first_input[i] : wiring.first_input[i + 1]]
        return sum([wire_bytes[slot] for slot in slots]) + self.outside.get(i, 0)

    def bytes_out(self, i: int, wire_bytes: Sequence[int], undeclared: Mapping[int, int]) -> int:
        """Return the serialized length of all outputs of task number `i`."""
        first = self.wiring.first_slot[i]
        slots = slice(first, first + len(self.wiring.outputs[i]))
        return sum(wire_bytes[slots]) + undeclared.get(i, 0)

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


def environment(*, thorough: bool = False) -> dict[str, Any]:
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
    try:
        usable = len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        usable = None
    try:
        folder = os.getcwd()
    except OSError:
        # It was removed.
        folder = ""
    command, origin = command_line(), repository(folder)
    # Empty while another thread imports it.
    numpy = getattr(sys.modules.get("numpy"), "__version__", None)
    return {
        **machine(),
        "cores_usable": usable,
        **({"cores_quota": cores_quota(), "blas_threads": blas_threads()} if thorough else {}),
        "thread_settings": {name: os.environ.get(name) for name in _THREAD_SETTINGS},
        "allocator_settings": allocator_settings(),
        "versions": {"numpy": numpy, **(versions(frozenset(sys.modules)) if thorough else {})},
        **({} if command is None else {"command": command}),
        **({"git": {**origin}} if origin else {}),
    }


def allocator_settings() -> dict[str, str]:
    """Return the environment variables that set the C library's allocator.

    With a small ``MALLOC_TRIM_THRESHOLD_``, which Dask's nannies set, arrays cost twice as
    much: their memory is given back and mapped anew each time.
    """
    return {name: text for name, text in os.environ.items() if name.startswith("MALLOC_")}


def since_ms(times: Iterable[float | None], zero_s: float) -> list[float | None]:
    """Return readings of a clock, in seconds, as milliseconds since one of them."""
    return [None if t is None else round((t - zero_s) * 1e9) / 1e6 for t in times]


def _one_clock(_: int) -> float:
    return 0.0


def duration_ms(seconds: float) -> float:
    """Return milliseconds, rounded to the nanosecond, the resolution of the clock."""
    # Twice as fast as round(..., 6), with the same result; most values of a profile need it.
    return round(seconds * 1e9) / 1e6
