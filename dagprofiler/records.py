"""RunLog: what a run wrote down; TaskRecord: what hooks are told of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dagprofiler.errors import CycleError
from dagprofiler.metrics import TaskMetrics
from dagprofiler.readings import RoundLog
from dagprofiler.rounds import MEASURED, MOMENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from dagprofiler.graph import Wiring
    from dagprofiler.rounds import Rounds

__all__ = ["PHASES", "RunLog", "TaskRecord", "duration_ms"]

#: The six readings of the clock.
PHASES = MOMENTS[1:]


@dataclass
class TaskRecord:
    """One finished or failed task, as hooks see it.

    Attributes
    ----------
    task
        Its name in the DAG.
    state
        ``"succeeded"`` or ``"failed"``.
    metrics
        What it took; None if it failed.
    phases
        Start and end of each phase, in milliseconds from the run's start
        (``compute_start_ms``, ...); None from where it failed.
    worker
        Who ran it: ``host``, ``pid``, ``thread``; None if it never came to run.
    ready_ms, waited_ms
        When its last input was there, and how long it took from then until it
        started; None if it never did.
    error
        Why it failed; None if it succeeded.
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
    """What one run wrote down: its rounds, and what is said of all of them.

    Attributes
    ----------
    wiring
        The graph that ran.
    nodes
        Task names in the order in which the DAG was given them.
    timestamp
        When the run began, as ISO 8601 text in UTC.
    started
        Reading of the clock, in seconds, when the run began.
    estimates
        Task number to the instructions its cost model gives; tasks without a
        model are absent.
    executor
        Its name.
    ahead_s
        Tells how many seconds the clock of a worker is ahead, in a round that
        has not ended.
    workers
        Who ran tasks: ``host``, ``pid``, ``thread``.
    outside
        Task number to the bytes that came from outside the graph.
    conditions
        The rounds that were asked for.
    priorities
        What told which ready task goes first; None where that was Kahn's order.
    rounds
        What was read in each round so far.
    ended_by
        What ended the measured rounds, as :class:`~dagprofiler.rounds.Plan` says.
    environment
        The machine, as :func:`dagprofiler.machine.environment` tells it.
    reason
        Why the run is partial; None if it is complete.
    earlier_s
        How long the attempts before this one worked on the run, in seconds; 0 of a first one.
    resumed
        For each time that the run was gone on with what the profile says of it.
    prepare_s, hooks_s, garbage_s, total_s
        What was spent before the first task, in hooks, in collecting garbage
        between rounds, and in all, in seconds.
    """

    wiring: Wiring
    nodes: list[str]
    timestamp: str
    started: float
    estimates: dict[int, int]
    executor: str
    ahead_s: Callable[[int], float]
    workers: list[dict[str, Any]]
    outside: dict[int, int]
    conditions: Rounds
    priorities: str | None = None
    rounds: list[RoundLog] = field(default_factory=list)
    ended_by: str | None = None
    environment: dict[str, Any] = field(default_factory=dict)
    reason: str | None = None
    earlier_s: float = 0.0
    resumed: list[dict[str, Any]] = field(default_factory=list)
    prepare_s: float = 0.0
    hooks_s: float = 0.0
    garbage_s: float = 0.0
    total_s: float = 0.0

    def begin(self, kind: str, columns: list[str]) -> RoundLog:
        """Return the log of a round that is about to begin."""
        self.rounds.append(RoundLog.of(kind, self.wiring, columns))
        return self.rounds[-1]

    def adopt(self, kind: str, one: RoundLog, worker: dict[str, Any]) -> RoundLog:
        """Take over a round that another process took."""
        one.kind = kind
        if one.started_s:
            one.ran_on = [len(self.workers)] * len(one.ran_on)
            self.workers.append(worker)
        self.rounds.append(one)
        return one

    def settle(self, one: RoundLog) -> list[int] | None:
        """Take a round, in which the graph grew, and those before it to the same numbers.

        Returns
        -------
        list of int or None
            The new number of each task of the round; None if all are the same.
        """
        growth: Any = one.growth
        before = [r for r in self.rounds if r is not one and r.growth is not None]
        numbers = None
        if before:
            # A growing graph is nothing that a plain run needs.
            from dagprofiler.unions import renumber, united

            first: Any = before[0].growth
            try:
                union = united(first.wiring, growth.wiring)
            except CycleError:
                self.rounds.remove(one)
                self.wiring = first.wiring
                raise
            for other in before:
                renumber(other, union)
            numbers = renumber(one, union)
        self.wiring = growth.wiring
        given = growth.wiring.given
        self.nodes = [*self.nodes[:given], *self.wiring.names[given:]]
        self.estimates = {}
        for other in (*before, one):
            self.estimates.update(other.growth.estimates)  # type: ignore[union-attr]
        return numbers

    def end(self) -> None:
        """Let go of the executor: all rounds have ended, and are on one clock."""
        self.ahead_s = _one_clock

    def measured(self) -> list[RoundLog]:
        """Return the measured rounds."""
        return [one for one in self.rounds if one.kind == MEASURED]

    def record(self, one: RoundLog, i: int, error: BaseException | None = None) -> TaskRecord:
        """Return what happened in a round to task number `i`, which finished or failed."""
        name, number = self.wiring.names[i], next(k for k, r in enumerate(self.rounds) if r is one)
        ahead_s = self.ahead_s(one.ran_on[i])
        times: Any = [None if t is None else t - ahead_s for t in one.times_of(i)]
        ready_s, started_s = self._ready_s(one, i), times[0]
        metrics = None
        if error is None:
            t0, t1, t2, t3, t4, t5 = times
            metrics = TaskMetrics(
                task=name,
                compute_time_ms=duration_ms(t3 - t2),
                serialize_time_ms=duration_ms(t5 - t4),
                deserialize_time_ms=duration_ms(t1 - t0),
                bytes_in=self.bytes_in(i, one.wire_bytes),
                bytes_out=self.bytes_out(i, one.wire_bytes, one.undeclared_bytes),
                loop_idx=number,
            )
        return TaskRecord(
            task=name,
            state="succeeded" if error is None else "failed",
            metrics=metrics,
            phases=dict(zip(PHASES, self.since_start_ms(times))),
            worker=self.workers[one.ran_on[i]] if one.ran_on[i] >= 0 else None,
            error=error,
            round=number,
            ready_ms=None if started_s is None else self.since_start_ms([ready_s])[0],
            waited_ms=None if started_s is None else duration_ms(started_s - ready_s),
        )

    def _ready_s(self, one: RoundLog, i: int) -> float:
        """Return when the last predecessor of a task ended, or else when the round began."""
        ends: Any = [
            one.times[6 * source + 5] - self.ahead_s(one.ran_on[source])  # type: ignore[operator]
            for source in self.wiring.predecessors(i)
        ]
        # A task that was added while the round ran was not there before that.
        added_s = one.growth.added_s[i] if one.growth is not None else 0.0
        return max([*ends, added_s] if added_s else ends, default=one.started_s)

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
        start = self.started
        return [None if t is None else round((t - start) * 1e9) / 1e6 for t in times]


def _one_clock(_: int) -> float:
    return 0.0


def duration_ms(seconds: float) -> float:
    """Return milliseconds, to the nanosecond, which is as fine as the clock is."""
    # Half the time of round(..., 6), for the same number: it is most of what a profile holds.
    return round(seconds * 1e9) / 1e6
