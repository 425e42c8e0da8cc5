"""RoundLog: the raw readings of one round; Figures: what one or several rounds say."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from dagprofiler.statistics import median

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Optional, Union

    from dagprofiler.executors import RoundReport
    from dagprofiler.graph import Wiring
    from dagprofiler.instruments import Readings
    from dagprofiler.livewiring import LiveWiring
    from dagprofiler.tracing.collecting import Few, Packed

    Number = Union[int, float, None]
    Column = list[Optional[float]]

__all__ = ["Figures", "RoundLog", "figures", "phase_s"]


class Firing(NamedTuple):
    """A rule that fired.

    Attributes
    ----------
    rule
        Its name.
    at_s
        Reading of the clock when what it added was there.
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
    wiring
        The graph as it came to be.
    estimates
        As in :class:`~dagprofiler.records.RunLog`, of all its tasks.
    added_s
        Reading of the clock when each task was there; 0 of those that were given.
    firings
        The rules that fired, in that order.
    unfired
        Name of each rule that did not, and why.
    absent
        Tasks that other rounds had, and this one had not.
    lacking
        The same of edges between tasks that it had.
    empty
        The same of slots.
    rules_s
        What rules took, in seconds: asking them, and applying what they add.
    """

    wiring: LiveWiring
    estimates: dict[int, int]
    added_s: list[float]
    firings: list[Firing] = field(default_factory=list)
    unfired: dict[str, str] = field(default_factory=dict)
    absent: set[int] = field(default_factory=set)
    lacking: set[tuple[int, int]] = field(default_factory=set)
    empty: set[int] = field(default_factory=set)
    rules_s: float = 0.0


@dataclass
class RoundLog:
    """Raw readings of one round, in flat lists, which cost the garbage collector nothing.

    Attributes
    ----------
    kind
        What the round is for, as :mod:`dagprofiler.rounds` names it.
    times
        Six readings of the clock a task, in seconds, as in
        :class:`dagprofiler.pipeline.Record`; None where it did not get so far.
    ran_on
        For each task the number of its worker; -1 where that is not known.
    wire_bytes
        For each slot of the wiring the serialized length of what it held.
    payload_bytes
        Slot to its payload, where that differs.
    undeclared_bytes
        Task number to the serialized length of outputs that it does not
        declare, where it returned any.
    errors
        Task number to what it failed with, in words: an error itself may hold
        what cannot be copied.
    skipped
        Tasks that could not run because something before them failed.
    started_s, total_s
        Reading of the clock when the round began, and how long it took, as far as it is told:
        without hooks, and without what measuring took if it held up the run loop.
    decode_s, encode_s
        How long each input of the wiring took to decode, and each slot to
        encode, in seconds; empty without instruments.
    columns, meters
        What the meters of this round measure, and task number to what they read.
    digests
        Task number to the hash of its serialized outputs.
    reasons
        Why meters read nothing, by column.
    meters_s, garbage_s, store_s
        What meters, collecting garbage before tasks and storing outputs cost, in seconds.
    spans
        Task number to what tracing saw inside it.
    stored
        Task number to where its outputs were stored, until somebody takes it.
    ended_s
        Reading of the clock when the round was complete; None before that.
    waited_s
        How long the run loop waited for tasks that ran elsewhere, in seconds;
        None where it ran them itself.
    legacy_generators
        False if the seed did not reach numpy's and random's legacy generators,
        since tasks ran in threads beside each other; None otherwise.
    attempts
        Task number to what became of attempts that its executor made good, in
        words.
    growth
        How the graph grew; None of one that is fixed.
    """

    kind: str
    times: list[float | None]
    ran_on: list[int]
    wire_bytes: list[int]
    payload_bytes: dict[int, int] = field(default_factory=dict)
    undeclared_bytes: dict[int, int] = field(default_factory=dict)
    errors: dict[int, str] = field(default_factory=dict)
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
    spans: dict[int, Packed | Few] = field(default_factory=dict)
    stored: dict[int, Any] = field(default_factory=dict)
    ended_s: float | None = None
    waited_s: float | None = None
    legacy_generators: bool | None = None
    attempts: dict[int, Sequence[str]] = field(default_factory=dict)
    growth: Growth | None = None

    @classmethod
    def of(cls, kind: str, wiring: Wiring, columns: list[str]) -> RoundLog:
        """Return the log of a round that is about to begin."""
        tasks, slots = len(wiring.names), len(wiring.owner)
        return cls(kind, [None] * (6 * tasks), [0] * tasks, [0] * slots, columns=columns)

    def note(self, wiring: Wiring, i: int, readings: Readings) -> None:
        """Write down what the instruments read of task number `i`."""
        # All at the first task; later only what a graph has grown by.
        self.decode_s += [None] * (len(wiring.slots) - len(self.decode_s))
        self.encode_s += [None] * (len(wiring.owner) - len(self.encode_s))
        begin, end = wiring.first_input[i], wiring.first_input[i + 1]
        # What came from outside the graph stands behind what edges fed.
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

    @property
    def aside_s(self) -> float:
        """What measuring itself took, in seconds, summed over the workers."""
        return self.meters_s + self.garbage_s + self.store_s

    @property
    def apart_s(self) -> float:
        """What measuring itself took of the round, in seconds, if it held up the run loop."""
        return self.aside_s if self.waited_s is None else 0.0

    def conclude(self, report: RoundReport) -> None:
        """Add what only the executor knows, and bring all readings to this process's clock."""
        if report.waited_s is None:
            self.waited_s = None
        else:
            self.waited_s = (self.waited_s or 0.0) + report.waited_s
        self.attempts.update(report.attempts)
        if report.legacy_generators is not None:
            self.legacy_generators = report.legacy_generators
        self.align(report.ahead_s)

    def align(self, ahead_s: Sequence[float]) -> None:
        """Bring the readings of workers' clocks to one, given how far each is ahead."""
        if any(ahead_s):
            ran_on = self.ran_on
            self.times = [
                None if moment is None else moment - ahead_s[ran_on[k // 6]]
                for k, moment in enumerate(self.times)
            ]
            self.spans = {
                i: one.packed().shifted(-ahead_s[ran_on[i]]) for i, one in self.spans.items()
            }

    @property
    def complete(self) -> bool:
        """Whether all tasks have succeeded."""
        absent = len(self.growth.absent) if self.growth is not None else 0
        return not self.errors and self.times[5::6].count(None) == absent

    def succeeded(self, i: int) -> bool:
        """Tell whether task number `i` has finished without an error."""
        return self.times[6 * i + 5] is not None and i not in self.errors

    def has_slot(self, slot: int) -> bool:
        """Tell whether the graph had a slot in this round."""
        return self.growth is None or slot not in self.growth.empty

    def has_edge(self, source: int, target: int) -> bool:
        """Tell whether the graph had an edge in this round."""
        growth = self.growth
        return growth is None or not (
            target in growth.absent or source in growth.absent or (source, target) in growth.lacking
        )

    def by_start(self) -> list[int]:
        """Return the tasks that began, in the order in which they did."""
        begun = {i: t for i, t in enumerate(self.times[::6]) if t is not None}
        return sorted(begun, key=begun.__getitem__)

    def times_of(self, i: int) -> Any:
        """Return the six readings of the clock of task number `i`."""
        return self.times[6 * i : 6 * i + 6]


class Figures(NamedTuple):
    """What is said of each task and slot: of several rounds the medians.

    Attributes
    ----------
    deserialize_s, compute_s, serialize_s
        For each task; None where it did not succeed.
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
    """Return the figures of rounds, one at least: the only one's, or the medians of all."""
    decoding, computing, encoding = ([phase_s(one, start) for one in rounds] for start in (0, 2, 4))
    if len(rounds) == 1:
        only = rounds[0]
        return Figures(
            decoding[0],
            computing[0],
            encoding[0],
            only.wire_bytes,
            only.payload_bytes,
            only.undeclared_bytes,
        )
    wire_bytes, payload_bytes, undeclared_bytes = [], {}, {}
    for slot, task in enumerate(wiring.owner):
        seen = [one for one in rounds if one.succeeded(task) and one.has_slot(slot)]
        wire = _middle([one.wire_bytes[slot] for one in seen])
        payload = _middle([one.payload_bytes.get(slot, one.wire_bytes[slot]) for one in seen])
        wire_bytes.append(wire)
        if payload != wire:
            payload_bytes[slot] = payload
    for task in {task for one in rounds for task in one.undeclared_bytes}:
        seen = [one for one in rounds if one.succeeded(task)]
        undeclared_bytes[task] = _middle([one.undeclared_bytes.get(task, 0) for one in seen])
    return Figures(
        _medians(decoding),
        _medians(computing),
        _medians(encoding),
        wire_bytes,
        payload_bytes,
        undeclared_bytes,
    )


def phase_s(one: RoundLog, start: int) -> Column:
    """Return how long a phase took each task; None of tasks that did not succeed.

    Parameters
    ----------
    start
        Which of the six readings began the phase: 0, 2 or 4.
    """
    times = one.times
    spent = [
        None if done is None else end - begin  # type: ignore[operator]
        for begin, end, done in zip(times[start::6], times[start + 1 :: 6], times[5::6])
    ]
    for task in one.errors:
        spent[task] = None
    return spent


def _medians(columns: Sequence[Column]) -> Column:
    known = ([value for value in row if value is not None] for row in zip(*columns))
    return [median(values) if values else None for values in known]


def _middle(sizes: list[int]) -> int:
    """Return the lower median, since a size that was measured is no half byte; 0 of none."""
    return sorted(sizes)[(len(sizes) - 1) // 2] if sizes else 0
