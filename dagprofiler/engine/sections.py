"""Tables: builds metrics and the profile's sections from a run log on first access.

The run loop stores raw readings only, in flat lists of numbers, which cost the
garbage collector nothing. Dataclasses, weights and the sections of the profile
follow from them; they are built on first access, so that running does
not pay for reporting.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, starmap
from typing import TYPE_CHECKING, Any, NamedTuple

from dagprofiler._document.rounds import (
    ALLOCATION,
    MEASURED,
    MOMENTS,
    PLAIN,
    measured_of,
    rounded,
    statistics_of,
)
from dagprofiler._util.json import Columns, Items, Rows, Table, batched, held
from dagprofiler.engine.log import Figures, Growth, RoundLog, RunLog, duration_ms, figures, phase_s
from dagprofiler.graph.edges import Route
from dagprofiler.metrics import EDGE_COLUMNS, DAGMetrics, EdgeMetrics, TaskMetrics
from dagprofiler.stats import corrected, median, summarize

if TYPE_CHECKING:
    from dagprofiler.tracing.collection import Packed


def origins_of(log: RunLog) -> dict[str, Any]:
    """Return the section ``origins``, its table as lazy rows."""
    grown = [
        (number, round_log.growth)
        for number, round_log in enumerate(log.rounds)
        if round_log.growth
    ]
    return {
        "columns": ["task", "round", "rule", "at_ms"],
        "records": Table(_added(log, grown)),
        "fired": [
            {
                "round": number,
                "rule": firing.rule,
                "at_ms": log.since_start_ms([firing.at_s])[0],
                "tasks": len(firing.tasks),
            }
            for number, growth in grown
            for firing in growth.firings
        ],
        "never_fired": [
            {"round": number, "rule": rule, "reason": why}
            for number, growth in grown
            for rule, why in growth.unfired.items()
        ],
    }


def _added(log: RunLog, grown: list[tuple[int, Growth]]) -> Iterator[Columns]:
    """Yield the rows of the tasks that rules added, round by round."""
    names = log.wiring.names
    for number, growth in grown:
        for firing in growth.firings:
            at_ms = log.since_start_ms([firing.at_s])[0]
            for tasks in batched(firing.tasks):
                yield Columns(
                    [
                        [names[i] for i in tasks],
                        [number] * len(tasks),
                        [firing.rule] * len(tasks),
                        [at_ms] * len(tasks),
                    ]
                )


#: Columns of the section's records.
COLUMNS = ("task", "round", "thread", "label", "start_ms", "end_ms", "id", "args")


class Traced(NamedTuple):
    """The spans of one task in one round.

    Attributes
    ----------
    task, round, worker
        Name; number from 0; index into ``timeline.workers``, or None.
    spans
        What was recorded.
    zero_s
        Reading of the clock of the process that ran it, in seconds, when the run began.
    """

    task: str
    round: int
    worker: int | None
    spans: Packed
    zero_s: float


def spans_section(traced: Iterable[Traced]) -> dict[str, Any]:
    """Return the section as JSON; times are in ms from the run's start.

    O(n) time and memory in the number of spans.

    Examples
    --------
    >>> from dagprofiler.tracing import collecting, span
    >>> with collecting() as collection, span("parse"):
    ...     pass
    >>> section = spans_section([Traced("load", 0, None, collection.packed(), 0.0)])
    >>> section["labels"]
    [{'kind': 'span', 'name': 'parse', 'category': 'span'}]
    """
    labels: dict[tuple[str, str, str], int] = {}
    threads: dict[tuple[int | None, int, str, bool], int] = {}
    records: list[list[Any]] = []
    dropped: dict[str, int] = {}
    for task, number, worker, spans, zero_s in traced:
        if spans.dropped:
            dropped[task] = dropped.get(task, 0) + spans.dropped
        own = [threads.setdefault((worker, *thread), len(threads)) for thread in spans.threads]
        for label, thread, start_s, end_s in spans.spans():
            which = labels.setdefault(label[:3], len(labels))
            start_ms, end_ms = ((s - zero_s) * 1e9 for s in (start_s, end_s))
            times = (round(start_ms) / 1e6, round(end_ms) / 1e6)
            own_id = None if label.id is None else str(label.id)
            extra = None if label.args is None else dict(label.args)
            records.append([task, number, own[thread], which, *times, own_id, extra])
    section: dict[str, Any] = {
        "labels": [dict(zip(("kind", "name", "category"), label)) for label in labels],
        "threads": [dict(zip(("worker", "id", "name", "own"), thread)) for thread in threads],
        "columns": list(COLUMNS),
        "records": records,
    }
    if dropped:
        section["dropped"] = dropped
    return section


#: Least share of the total time of a task whose precision decides the number of rounds.
_WEIGHTY = 0.01


_PHASES = {"deserialize_ms": 0, "wall_ms": 2, "serialize_ms": 4}


def samples_of(log: RunLog) -> dict[str, Any]:
    """Return the section ``samples``: every measured value, in the order of the rounds."""
    rounds, names = log.rounds, log.wiring.names
    timed = [None if round_log.kind == ALLOCATION else round_log for round_log in rounds]
    phases = {
        column: list(zip(*(_phase_ms(round_log, start, len(names)) for round_log in timed)))
        for column, start in _PHASES.items()
    }
    tasks = {}
    for i in log.wiring.order:
        columns = {column: list(by_task[i]) for column, by_task in phases.items()}
        columns.update(_metered(rounds, i))
        if "delay_ms" in columns:
            cpu_ms = columns.get("cpu_ms", [None] * len(rounds))
            columns["corrected_ms"] = [
                None if wall is None else rounded(corrected(wall, delay, cpu))
                for wall, delay, cpu in zip(columns["wall_ms"], columns["delay_ms"], cpu_ms)
            ]
        tasks[names[i]] = columns
    return {
        "rounds": [round_log.kind for round_log in rounds],
        "total_ms": [
            rounded(round_log.total_s * 1e3)
            if round_log is not None and round_log.complete
            else None
            for round_log in timed
        ],
        "tasks": tasks,
        "edges": _edge_samples(log, timed),
    }


def _phase_ms(round_log: RoundLog | None, start: int, count: int) -> list[float | None]:
    if round_log is None:
        return [None] * count
    return [None if s is None else rounded(s * 1e3) for s in phase_s(round_log, start)]


def _metered(rounds: Sequence[RoundLog], i: int) -> dict[str, list[Any]]:
    """Return the meters' columns of task number `i`."""
    names = dict.fromkeys(column for round_log in rounds for column in round_log.columns)
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for round_log in rounds:
        read = round_log.meters_of(i) if round_log.succeeded(i) else {}
        for name, column in columns.items():
            value = read.get(name)
            column.append(rounded(value) if name.endswith("_ms") else value)
    return columns


def _edge_samples(log: RunLog, timed: Sequence[RoundLog | None]) -> dict[str, Any]:
    """Return for each edge its times and sizes, with one entry a round."""
    wiring, names = log.wiring, log.wiring.names
    count = len(names)
    inputs_of: dict[int, list[int]] = {}
    for target in range(count):
        for k in range(wiring.first_input[target], wiring.first_input[target + 1]):
            edge = wiring.owner[wiring.slots[k]] * count + target
            inputs_of.setdefault(edge, []).append(k)
    edges = {}
    for source, target, routes in wiring.edges():
        slots = [wiring.first_slot[source] + position for position, _ in routes]
        inputs = inputs_of.get(source * count + target, [])
        columns: dict[str, list[Any]] = {
            name: [] for name in ("serialize_ms", "deserialize_ms", "size_bytes", "wire_bytes")
        }
        for round_log in timed:
            if round_log is None or not round_log.succeeded(source):
                for column in columns.values():
                    column.append(None)
                continue
            wire, payload = round_log.wire_bytes, round_log.payload_bytes
            columns["serialize_ms"].append(_sum_ms(round_log.encode_s, slots))
            arrived = round_log.succeeded(target)
            columns["deserialize_ms"].append(
                _sum_ms(round_log.decode_s, inputs) if arrived else None
            )
            columns["size_bytes"].append(sum(payload.get(slot, wire[slot]) for slot in slots))
            columns["wire_bytes"].append(sum(wire[slot] for slot in slots))
        edges[f"{names[source]}->{names[target]}"] = columns
    return edges


def _sum_ms(seconds: Sequence[float | None], positions: Sequence[int]) -> float | None:
    """Return the sum of some entries; None if one is missing or the round did not time them."""
    if positions and not seconds:
        return None
    values = [seconds[position] for position in positions]
    return None if None in values else rounded(sum(values) * 1e3)  # type: ignore[arg-type]


def differing_outputs(log: RunLog) -> list[str]:
    """Return the tasks whose serialized outputs differed between rounds."""
    names = log.wiring.names
    seen: dict[int, set[bytes]] = {}
    for round_log in log.rounds:
        for i, digest in round_log.digests.items():
            seen.setdefault(i, set()).add(digest)
    return [names[i] for i in sorted(seen) if len(seen[i]) > 1]


def is_precise(log: RunLog, precision: float) -> bool:
    """Tell whether the medians of all weighty tasks are known to plus or minus `precision`."""
    rounds = log.measured()
    by_task = []
    for i, walls in enumerate(zip(*(phase_s(round_log, 2) for round_log in rounds))):
        by_task.append([_corrected_s(log, i, wall) for log, wall in zip(rounds, walls)])
    medians = [median(times) for times in by_task]
    # If no task has that share, the longest tasks decide.
    least = min(_WEIGHTY * sum(medians), max(medians, default=0.0))
    return all(
        summarize(times).half_width <= precision
        for times, middle in zip(by_task, medians)
        if middle >= least
    )


def _corrected_s(round_log: RoundLog, i: int, wall_s: float | None) -> float:
    """Return a time in compute() without run-queue delay, if that was metered."""
    read = round_log.meters_of(i)
    wall_ms = (wall_s or 0.0) * 1e3
    without = corrected(wall_ms, read.get("delay_ms"), read.get("cpu_ms"))
    return (wall_ms if without is None else without) / 1e3


NO_MODEL = "the task has no cost model"
NOT_FINISHED = "the task did not finish"
NOT_METERED = "the task was not metered"
NOT_CALIBRATED = "the machine was not calibrated: dagprofiler.calibrate(), or several rounds, do it"

#: Candidate for a node's weight to the column of samples that it comes from.
_METERED = {"counted_instructions": "instructions", "cpu_time_ms": "cpu_ms"}

#: How to get a candidate that was not measured.
_HOW = {
    "counted_instructions": "not metered: run(meters='full') counts them",
    "cpu_time_ms": "not metered: run(meters='default') and several rounds measure it",
}


@dataclass(eq=False)
class Tables:
    """The sections of the profile, and the metrics, of a run that has ended.

    Attributes
    ----------
    log
        What the run wrote down.
    """

    log: RunLog

    @property
    def timestamp(self) -> str:
        """When the run started, as ISO 8601 text."""
        return self.log.timestamp

    @cached_property
    def _figures(self) -> Figures:
        """The figures of each task: of the measured rounds, or else of all rounds."""
        rounds = self.log.measured() or self.log.rounds
        wiring = self.log.wiring
        return figures(rounds or [RoundLog.of(MEASURED, wiring, [])], wiring)

    def _known(self) -> Iterator[list[int]]:
        """Yield the tasks that have figures, in execution order, in batches."""
        spent = self._figures.compute_s
        return batched(i for i in self.log.wiring.order if spent[i] is not None)

    @property
    def _total_time_ms(self) -> float:
        """Duration of the run; of several rounds the median."""
        rounds = self.log.rounds
        if self._samples is None:
            return duration_ms(self.log.costs.total_s)
        complete = [round_log for round_log in rounds if round_log.complete]
        # An incomplete round counts only if no round is complete.
        measured = [round_log for round_log in complete if round_log.kind == MEASURED]
        counted = measured or complete or rounds
        return duration_ms(median([round_log.total_s for round_log in counted]))

    def dag_structure(self) -> dict[str, Any]:
        """Return the profile's section of that name, its tables as lazy rows."""
        wiring = self.log.wiring
        return {
            "nodes": list(self.log.nodes),
            "edges": Table(map(self._ends, batched(wiring.pairs()))),
            "execution_order": [wiring.names[i] for i in wiring.order],
        }

    def _ends(self, edges: list[int]) -> Columns:
        names = self.log.wiring.names
        count = len(names)
        return Columns(
            {
                "source": [names[edge // count] for edge in edges],
                "target": [names[edge % count] for edge in edges],
            }
        )

    def metrics(self) -> DAGMetrics:
        """Return the metrics of all tasks that succeeded and of the edges they feed."""
        return DAGMetrics(
            task_metrics=[
                metrics for rows in self._tasks() for metrics in map(TaskMetrics, *rows.columns)
            ],
            edge_metrics=[
                metrics
                for edges in batched(self._edge_sizes)
                for metrics in map(
                    EdgeMetrics, *self._ends(edges).columns, *self._edge_columns(edges)
                )
            ],
            node_weights=held(self._node_weights()),
            edge_weights=held(self._edge_weights()),
            total_time_ms=self._total_time_ms,
        )

    def measured(self) -> Iterator[tuple[str, Any]]:
        """Yield the sections of the document that :meth:`metrics` holds as objects."""
        yield "node_weights", self._node_weights()
        yield "edge_weights", self._edge_weights()
        yield "execution_metrics", Table(self._tasks())
        yield "total_time_ms", self._total_time_ms
        several = max(map(len, self.log.wiring.routes.values()), default=0) > 1
        columns = EDGE_COLUMNS if several else EDGE_COLUMNS[:-1]
        records = Table(self._edge_records(len(columns)))
        yield "edge_metrics", {"columns": list(columns), "records": records}

    def _tasks(self) -> Iterator[Columns]:
        """Yield the entries of the tasks that succeeded, in execution order."""
        return map(self._task_columns, self._known())

    def _task_columns(self, tasks: list[int]) -> Columns:
        """Return the figures of the tasks, in the order of the fields of TaskMetrics."""
        log, of = self.log, self._figures
        wire_bytes, undeclared = of.wire_bytes, of.undeclared_bytes
        return Columns(
            {
                "task": [log.wiring.names[i] for i in tasks],
                "compute_time_ms": _ms(of.compute_s, tasks),
                "serialize_time_ms": _ms(of.serialize_s, tasks),
                "deserialize_time_ms": _ms(of.deserialize_s, tasks),
                "bytes_in": [log.bytes_in(i, wire_bytes) for i in tasks],
                "bytes_out": [log.bytes_out(i, wire_bytes, undeclared) for i in tasks],
            }
        )

    @cached_property
    def _edge_sizes(self) -> dict[int, int]:
        """Each edge whose source succeeded and its payload in bytes; by source."""
        wiring, of = self.log.wiring, self._figures
        count, first_slot = len(wiring.names), wiring.first_slot
        wire_bytes, payload_bytes, spent = of.wire_bytes, of.payload_bytes, of.compute_s
        sizes = {}
        for edge, routes in wiring.routes.items():
            source = edge // count
            if spent[source] is not None:
                first, size = first_slot[source], 0
                for position, _ in routes:
                    slot = first + position
                    size += payload_bytes[slot] if slot in payload_bytes else wire_bytes[slot]
                sizes[edge] = size
        return sizes

    def _edge_records(self, width: int) -> Iterator[Rows]:
        """Yield the records of all edges, by source; None where it did not succeed."""
        sizes = self._edge_sizes
        for edges in batched(self.log.wiring.routes):
            known = [edge for edge in edges if edge in sizes]
            rows = Columns(self._edge_columns(known)[:width])
            if len(known) == len(edges):
                yield rows
            else:
                of_known = iter(rows)
                yield [next(of_known) if edge in sizes else None for edge in edges]

    def _edge_columns(self, edges: list[int]) -> list[list[Any]]:
        """Return what edges whose source succeeded carried, in the order of EDGE_COLUMNS."""
        wiring, sizes = self.log.wiring, self._edge_sizes
        wire_bytes, routes_of, count = self._figures.wire_bytes, wiring.routes, len(wiring.names)
        data_fields, wire, fields = [], [], []
        for edge in edges:
            source, routes = edge // count, routes_of[edge]
            first, outputs = wiring.first_slot[source], wiring.outputs[source]
            declared = len(outputs)
            # No comprehensions: each would cost a call per edge.
            carried, size = [], 0
            for position, _ in routes:
                carried.append(
                    outputs[position] if position < declared else wiring.field(source, position)
                )
                size += wire_bytes[first + position]
            data_fields.append(carried)
            wire.append(size)
            fields.append(self._fields(source, routes) if len(routes) > 1 else None)
        return [data_fields, [sizes[edge] for edge in edges], wire, fields]

    def _fields(self, source: int, routes: tuple[Route, ...]) -> dict[str, dict[str, int]]:
        """Return the sizes of each of several fields that an edge carries."""
        first = self.log.wiring.first_slot[source]
        wire_bytes, payload_bytes = self._figures.wire_bytes, self._figures.payload_bytes
        return {
            self.log.wiring.field(source, position): {
                "size_bytes": payload_bytes.get(first + position, wire_bytes[first + position]),
                "wire_bytes": wire_bytes[first + position],
            }
            for position, _ in routes
        }

    def _node_weights(self) -> Items:
        """Return each task and its estimated instructions, 0 without a model."""
        names, estimates = self.log.wiring.names, self.log.estimates
        return Items(
            ([names[i] for i in tasks], [estimates.get(i, 0) for i in tasks])
            for tasks in batched(self.log.wiring.order)
        )

    def _edge_weights(self) -> Items:
        """Return each edge as ``source->target`` and its payload in bits."""
        names, sizes = self.log.wiring.names, self._edge_sizes
        count = len(names)
        return Items(
            (
                [f"{names[edge // count]}->{names[edge % count]}" for edge in edges],
                [8 * sizes[edge] for edge in edges],
            )
            for edges in batched(sizes)
        )

    def sections(self) -> Iterator[tuple[str, Any]]:
        """Yield the profile's sections on the run itself, their tables as lazy rows."""
        log = self.log
        yield "run", self._run()
        yield "weight_sources", self._weight_sources()
        if self._samples is not None:
            yield "samples", self._samples
            if len(log.rounds) > 1:
                yield "statistics", statistics_of(self._samples, differing_outputs(log))
        columns = ["task", "round", "worker", *MOMENTS]
        records = Table(chain.from_iterable(starmap(self._timeline, enumerate(log.rounds))))
        yield "timeline", {"workers": log.workers, "columns": columns, "records": records}
        if any(round_log.spans for round_log in log.rounds):
            yield "spans", self._spans()
        if any(round_log.growth is not None for round_log in log.rounds):
            yield "origins", origins_of(log)
        if log.schedule is not None:
            yield "schedule", {node: [*tasks] for node, tasks in log.schedule.items()}
        yield "environment", {**log.environment, "not_measured": self._not_measured()}

    def _spans(self) -> dict[str, Any]:
        """Return the spans that were traced inside the tasks."""
        log = self.log
        names = log.wiring.names
        return spans_section(
            [
                Traced(names[i], number, round_log.ran_on[i], spans.packed(), log.started)
                for number, round_log in enumerate(log.rounds)
                for i, spans in round_log.spans.items()
            ]
        )

    @cached_property
    def _samples(self) -> dict[str, Any] | None:
        """The samples of several rounds, or of one with meters; None for a plain run."""
        log = self.log
        metered = any(round_log.columns for round_log in log.rounds)
        sampled = log.rounds and (metered or log.conditions not in PLAIN or len(log.rounds) > 1)
        return samples_of(log) if sampled else None

    def _run(self) -> dict[str, Any]:
        log = self.log
        section: dict[str, Any] = {
            "state": "complete" if log.reason is None else "partial",
            "overhead": self._overhead(),
            "executor": log.executor,
            "rounds": sum(round_log.complete for round_log in log.measured()),
        }
        if self._samples is not None:
            section["conditions"] = log.conditions.to_dict()
            section["elapsed_ms"] = duration_ms(log.costs.total_s)
            if log.ended_by is not None:
                section["ended_by"] = log.ended_by
        attempts: dict[str, list[dict[str, Any]]] = {}
        for number, round_log in enumerate(log.rounds):
            for i, lost in round_log.attempts.items():
                errors = [{"round": number, "error": why} for why in lost]
                attempts.setdefault(log.wiring.names[i], []).extend(errors)
        known: dict[str, Any] = {"attempts": attempts, "resumed": log.resumed, "bound": log.bound}
        known["priorities"] = log.priorities
        section.update({name: value for name, value in known.items() if value})
        if any(round_log.legacy_generators is False for round_log in log.rounds):
            section["legacy_generators"] = False
        if log.reason is not None:
            section["reason"] = log.reason
            section["tasks"] = self._states()
        return section

    def _overhead(self) -> dict[str, float]:
        """Return the overhead outside the tasks, by kind, over all rounds."""
        log, rounds = self.log, self.log.rounds
        # Tasks, measuring them and waiting for them are not overhead of the loop.
        aside_s = sum(_in_tasks_s(round_log) + round_log.apart_s for round_log in rounds)
        costs = log.costs
        spent_s = {"prepare_ms": costs.prepare_s, "hooks_ms": costs.hooks_s}
        if any(round_log.growth is not None for round_log in rounds):
            spent_s["rules_ms"] = sum(
                round_log.growth.rules_s for round_log in rounds if round_log.growth
            )
        loop_s = max(0.0, costs.total_s - aside_s - costs.garbage_s - sum(spent_s.values()))
        if self._samples is not None:
            spent_s["meters_ms"] = sum(round_log.meters_s for round_log in rounds)
            spent_s["garbage_ms"] = costs.garbage_s + sum(
                round_log.garbage_s for round_log in rounds
            )
        if any(round_log.store_s for round_log in rounds):
            spent_s["journal_ms"] = sum(round_log.store_s for round_log in rounds)
        if self._samples is not None:
            in_rounds_s = sum(round_log.total_s - _in_tasks_s(round_log) for round_log in rounds)
            spent_s["between_rounds_ms"] = max(0.0, loop_s - max(0.0, in_rounds_s))
            loop_s -= spent_s["between_rounds_ms"]
        kinds = {"prepare_ms": spent_s.pop("prepare_ms"), "loop_ms": loop_s, **spent_s}
        return {kind: duration_ms(seconds) for kind, seconds in kinds.items()}

    def _states(self) -> dict[str, Any]:
        """Return the tasks that did not succeed in the last round, and their states."""
        log = self.log
        if not log.rounds:
            return {name: {"state": "cancelled"} for name in log.wiring.names}
        last, number = log.rounds[-1], len(log.rounds) - 1
        states: dict[str, Any] = {}
        for i in log.wiring.order:
            if last.succeeded(i):
                continue
            state: dict[str, Any]
            if i in last.errors:
                state = {"state": "failed", "error": last.errors[i]}
                if i in last.tracebacks:
                    state["traceback"] = last.tracebacks[i]
            else:
                state = {"state": "skipped" if i in last.skipped else "cancelled"}
            states[log.wiring.names[i]] = {**state, "round": number} if number else state
        return states

    def _weight_sources(self) -> Items:
        """Return the weight of each task, and its other candidates; empty if no task has any."""
        names = self.log.wiring.names
        if not (self.log.estimates or self._candidates):
            return Items(())
        return Items(
            ([names[i] for i in tasks], self._source_columns(tasks))
            for tasks in batched(self.log.wiring.order)
        )

    def _source_columns(self, tasks: list[int]) -> Columns:
        estimates = [self.log.estimates.get(i) for i in tasks]
        measured = {name: [values[i] for i in tasks] for name, values in self._candidates.items()}
        reasons = [
            self._reasons(i, estimated, candidates)
            for i, estimated, *candidates in zip(tasks, estimates, *measured.values())
        ]
        known = {"estimated_instructions": estimates} if self.log.estimates else {}
        sources = ["default" if each is None else "estimated_instructions" for each in estimates]
        columns: dict[str, list[Any]] = {"node_weight": sources, **known, **measured}
        columns["reasons"] = reasons
        return Columns(columns, optional=True)

    @cached_property
    def _candidates(self) -> dict[str, list[Any]]:
        """Each measured candidate for a node's weight, besides wall time, by task number."""
        candidates = {name: self._medians(column) for name, column in _METERED.items()}
        calibration = self.log.environment.get("calibration")
        if calibration is not None:
            spent_s, times_ms = self._figures.compute_s, self._medians("corrected_ms")
            walls_ms = [None if s is None else duration_ms(s) for s in spent_s]
            candidates["reference_time_ms"] = [
                None if ms is None else round(ms * calibration["score"], 6)
                for ms in (walls_ms if times_ms.count(None) == len(times_ms) else times_ms)
            ]
        return {
            name: values for name, values in candidates.items() if values.count(None) < len(values)
        }

    def _medians(self, column: str) -> list[Any]:
        """Return the median of a column of samples, or None, for each task."""
        if self._samples is None:
            return [None] * len(self.log.wiring.names)
        kinds, tasks = self._samples["rounds"], self._samples["tasks"]
        measured = (
            measured_of(kinds, tasks[name].get(column, ())) for name in self.log.wiring.names
        )
        return [_typical(values) if values else None for values in measured]

    def _reasons(
        self, i: int, estimated: int | None, measured: Sequence[Any]
    ) -> dict[str, str] | None:
        """Return why a task lacks figures; None if it has all."""
        lacking = estimated is None and self.log.estimates
        reasons = {"estimated_instructions": NO_MODEL} if lacking else {}
        finished = self._figures.compute_s[i] is not None
        for candidate, value in zip(self._candidates, measured):
            if value is None:
                why = self._why.get(_METERED.get(candidate, ""), NOT_METERED)
                reasons[candidate] = why if finished else NOT_FINISHED
        return reasons or None

    @cached_property
    def _why(self) -> dict[str, str]:
        """Why a meter has no reading, by column."""
        return {
            column: why
            for round_log in self.log.rounds
            for column, why in round_log.reasons.items()
        }

    def _not_measured(self) -> dict[str, str]:
        """Return the columns that no task has, and why."""
        metered = {column for round_log in self.log.rounds for column in round_log.columns}
        reasons = {**self.log.unknown, **self._why}
        for candidate, column in _METERED.items():
            if candidate not in self._candidates:
                why = NOT_FINISHED if column in metered else _HOW[candidate]
                reasons[candidate] = reasons.get(column, why)
        if not self.log.estimates:
            reasons["estimated_instructions"] = NO_MODEL
        if "reference_time_ms" not in self._candidates:
            reasons["reference_time_ms"] = NOT_CALIBRATED
        return reasons

    def _timeline(self, number: int, round_log: RoundLog) -> Iterator[Columns]:
        """Yield the rows of the tasks that started in a round, in execution order."""
        wiring, since_start_ms = self.log.wiring, self.log.since_start_ms
        started, ended = round_log.times[::6], round_log.times[5::6]
        targets, first_target = wiring.targets, wiring.first_target
        ready = [round_log.started_s] * len(wiring.names)
        if round_log.growth is not None:
            ready = list(map(max, ready, round_log.growth.added_s))
        for source, end in enumerate(ended):
            if end is not None and round_log.succeeded(source):
                for target in targets[first_target[source] : first_target[source + 1]]:
                    ready[target] = max(ready[target], end)
        for tasks in batched(i for i in wiring.order if started[i] is not None):
            yield Columns(
                [
                    [wiring.names[i] for i in tasks],
                    [number] * len(tasks),
                    [round_log.ran_on[i] for i in tasks],
                    since_start_ms([ready[i] for i in tasks]),
                    *map(since_start_ms, zip(*map(round_log.times_of, tasks))),
                ]
            )


def _in_tasks_s(round_log: RoundLog) -> float:
    """Return the time that the run loop ran tasks, or waited for those that ran elsewhere."""
    if round_log.waited_s is not None:
        return round_log.waited_s
    phases = zip(round_log.times[::2], round_log.times[1::2])
    return sum(end - start for start, end in phases if start is not None and end is not None)


def _ms(seconds: Sequence[float | None], tasks: list[int]) -> list[float]:
    """Return the milliseconds of some tasks, all of which are known."""
    return [duration_ms(seconds[i]) for i in tasks]  # type: ignore[arg-type]


def _typical(values: Sequence[Any]) -> Any:
    """Return the median; for integers an integer."""
    middle = median(values)
    return round(middle) if all(type(value) is int for value in values) else round(middle, 6)
