"""RunLog: what a run wrote down, and the tables that are made of it when asked for.

The run loop stores raw readings only, in flat lists of numbers, which cost the
garbage collector nothing. Dataclasses, weights and the sections of the profile
follow from them; they are made when somebody looks at them, so that running
does not pay for reporting.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dagprofiler.documents import Items
from dagprofiler.metrics import DAGMetrics, EdgeMetrics, TaskMetrics

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dagprofiler.graph import Wiring

__all__ = ["TIMELINE_COLUMNS", "RunLog", "TaskRecord"]

_PHASES = (
    "deserialize_start_ms",
    "deserialize_end_ms",
    "compute_start_ms",
    "compute_end_ms",
    "serialize_start_ms",
    "serialize_end_ms",
)
TIMELINE_COLUMNS = ("task", "round", "worker", "ready_ms", *_PHASES)

NO_MODEL = "the task has no cost model"
NOT_FINISHED = "the task did not finish"


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
        Who ran it: ``host``, ``pid``, ``thread``.
    error
        Why it failed; None if it succeeded.
    """

    task: str
    state: str
    metrics: TaskMetrics | None
    phases: dict[str, float | None]
    worker: dict[str, Any]
    error: BaseException | None = None


@dataclass
class RunLog:
    """Raw readings of one run.

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
    environment
        The machine, as :func:`dagprofiler.machine.environment` tells it.
    workers
        Who ran tasks: ``host``, ``pid``, ``thread``.
    times
        Six readings of the clock a task, in seconds, as in
        :class:`dagprofiler.task.Record`; None where it did not get so far.
    ran_on
        For each task the number of its worker.
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
    outside
        Task number to the bytes that came from outside the graph.
    reason
        Why the run is partial; None if it is complete.
    prepare_s, loop_s, hooks_s, total_s
        What was spent before the first task, in the loop (tasks included,
        hooks not), in hooks, and in all, in seconds.
    """

    wiring: Wiring
    nodes: list[str]
    timestamp: str
    started: float
    estimates: dict[int, int]
    executor: str
    workers: list[dict[str, Any]]
    times: list[float | None] = field(init=False)
    ran_on: list[int] = field(init=False)
    wire_bytes: list[int] = field(init=False)
    payload_bytes: dict[int, int] = field(default_factory=dict)
    undeclared_bytes: dict[int, int] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    errors: dict[int, str] = field(default_factory=dict)
    skipped: set[int] = field(default_factory=set)
    outside: dict[int, int] = field(default_factory=dict)
    reason: str | None = None
    prepare_s: float = 0.0
    loop_s: float = 0.0
    hooks_s: float = 0.0
    total_s: float = 0.0

    def __post_init__(self) -> None:
        tasks, slots = len(self.wiring.names), len(self.wiring.owner)
        self.times = [None] * (6 * tasks)
        self.ran_on = [0] * tasks
        self.wire_bytes = [0] * slots

    def succeeded(self, i: int) -> bool:
        """Tell whether task number `i` has finished without an error."""
        return self.times[6 * i + 5] is not None and i not in self.errors

    def times_of(self, i: int) -> Any:
        """Return the six readings of the clock of task number `i`."""
        return self.times[6 * i : 6 * i + 6]

    def dag_structure(self) -> dict[str, Any]:
        """Return the profile's section of that name, its tables as rows yet to be made."""
        names = self.wiring.names
        return {
            "nodes": list(self.nodes),
            "edges": (
                {"source": names[source], "target": names[target]}
                for source, target, _ in self.wiring.edges()
            ),
            "execution_order": [names[i] for i in self.wiring.order],
        }

    def metrics(self) -> DAGMetrics:
        """Return the metrics of all tasks that succeeded and of the edges they feed."""
        return DAGMetrics(
            task_metrics=[TaskMetrics(**entry) for entry in self._tasks()],
            edge_metrics=[
                EdgeMetrics(
                    entry["source"],
                    entry["target"],
                    entry["data_fields"],
                    entry["size_bytes"],
                    entry["wire_bytes"],
                    entry.get("fields"),
                )
                for entry in self._edges()
            ],
            node_weights=dict(self._node_weights()),
            edge_weights=dict(self._edge_weights()),
            total_time_ms=_ms(self.total_s),
        )

    def measured(self) -> Iterator[tuple[str, Any]]:
        """Yield the sections of the document that :meth:`metrics` holds as objects."""
        yield "node_weights", Items(self._node_weights())
        yield "edge_weights", Items(self._edge_weights())
        yield "execution_metrics", self._tasks()
        yield "total_time_ms", _ms(self.total_s)
        yield "edge_metrics", self._edges()

    def _tasks(self) -> Iterator[dict[str, Any]]:
        """Yield the entries of the tasks that succeeded, in execution order."""
        ended, errors = self.times[5::6], self.errors
        for i in self.wiring.order:
            if ended[i] is not None and i not in errors:
                yield self._task(i)

    def _task(self, i: int) -> dict[str, Any]:
        wiring, wire_bytes = self.wiring, self.wire_bytes
        t0, t1, t2, t3, t4, t5 = self.times_of(i)
        bytes_in = self.outside.get(i, 0)
        for slot in wiring.slots[wiring.first_input[i] : wiring.first_input[i + 1]]:
            bytes_in += wire_bytes[slot]
        bytes_out = sum(wire_bytes[wiring.first_slot[i] : wiring.first_slot[i + 1]])
        return {
            "task": wiring.names[i],
            "compute_time_ms": round((t3 - t2) * 1000.0, 6),
            "serialize_time_ms": round((t5 - t4) * 1000.0, 6),
            "deserialize_time_ms": round((t1 - t0) * 1000.0, 6),
            "bytes_in": bytes_in,
            "bytes_out": bytes_out + self.undeclared_bytes.get(i, 0),
        }

    @cached_property
    def _edge_sizes(self) -> dict[int, int]:
        """Each edge whose source succeeded and its payload in bytes; by source."""
        wiring, ended, errors = self.wiring, self.times[5::6], self.errors
        count, first_slot = len(wiring.names), wiring.first_slot
        wire_bytes, payload_bytes = self.wire_bytes, self.payload_bytes
        sizes = {}
        for edge, routes in wiring.routes.items():
            source = edge // count
            if ended[source] is not None and source not in errors:
                first, size = first_slot[source], 0
                for position, _ in routes:
                    slot = first + position
                    size += payload_bytes[slot] if slot in payload_bytes else wire_bytes[slot]
                sizes[edge] = size
        return sizes

    def _edges(self) -> Iterator[dict[str, Any]]:
        """Yield the entries of the edges whose source succeeded, by source."""
        wiring, wire_bytes, payload_bytes = self.wiring, self.wire_bytes, self.payload_bytes
        names, routes_of, first_slot = wiring.names, wiring.routes, wiring.first_slot
        count = len(names)
        for edge, size in self._edge_sizes.items():
            source = edge // count
            first, outputs, routes = first_slot[source], wiring.outputs[source], routes_of[edge]
            wire = 0
            for position, _ in routes:
                wire += wire_bytes[first + position]
            entry: dict[str, Any] = {
                "source": names[source],
                "target": names[edge - source * count],
                "data_fields": [outputs[position] for position, _ in routes],
                "size_bytes": size,
                "wire_bytes": wire,
            }
            if len(routes) > 1:
                entry["fields"] = {
                    outputs[position]: {
                        "size_bytes": payload_bytes.get(
                            first + position, wire_bytes[first + position]
                        ),
                        "wire_bytes": wire_bytes[first + position],
                    }
                    for position, _ in routes
                }
            yield entry

    def _node_weights(self) -> Iterator[tuple[str, int]]:
        """Yield each task and its estimated instructions, 0 without a model."""
        names, estimates = self.wiring.names, self.estimates
        return ((names[i], estimates.get(i, 0)) for i in self.wiring.order)

    def _edge_weights(self) -> Iterator[tuple[str, int]]:
        """Yield each edge as ``source->target`` and its payload in bits."""
        names, count = self.wiring.names, len(self.wiring.names)
        for edge, size in self._edge_sizes.items():
            yield f"{names[edge // count]}->{names[edge % count]}", 8 * size

    def record(self, i: int, error: BaseException | None = None) -> TaskRecord:
        """Return what happened to task number `i`, which finished or failed, for hooks."""
        return TaskRecord(
            task=self.wiring.names[i],
            state="succeeded" if error is None else "failed",
            metrics=TaskMetrics(**self._task(i)) if error is None else None,
            phases=dict(zip(_PHASES, self._from_start(self.times_of(i)))),
            worker=self.workers[self.ran_on[i]],
            error=error,
        )

    def sections(self) -> Iterator[tuple[str, Any]]:
        """Yield the profile's sections on the run itself, their tables as rows yet to be made."""
        yield "run", self._run()
        yield "weight_sources", Items(self._weight_sources())
        yield (
            "timeline",
            {
                "workers": self.workers,
                "columns": list(TIMELINE_COLUMNS),
                "records": self._timeline(),
            },
        )
        yield "environment", self.environment

    def _run(self) -> dict[str, Any]:
        names = self.wiring.names
        busy = sum(
            end - start
            for start, end in zip(self.times[::2], self.times[1::2])
            if start is not None and end is not None
        )
        section: dict[str, Any] = {
            "state": "complete" if self.reason is None else "partial",
            "overhead": {
                "prepare_ms": _ms(self.prepare_s),
                "loop_ms": _ms(max(0.0, self.loop_s - busy)),
                "hooks_ms": _ms(self.hooks_s),
            },
            "executor": self.executor,
            "rounds": 1,
        }
        if self.reason is None:
            return section
        section["reason"] = self.reason
        states: dict[str, Any] = {}
        for i in self.wiring.order:
            if i in self.errors:
                states[names[i]] = {"state": "failed", "error": self.errors[i]}
            elif i in self.skipped:
                states[names[i]] = {"state": "skipped"}
            elif not self.succeeded(i):
                states[names[i]] = {"state": "cancelled"}
        section["tasks"] = states
        return section

    def _weight_sources(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for i in self.wiring.order:
            estimated = self.estimates.get(i)
            wall_ms = None
            if self.succeeded(i):
                times = self.times_of(i)
                wall_ms = _ms(times[3] - times[2])
            sources: dict[str, Any] = {
                "node_weight": "default" if estimated is None else "estimated_instructions",
                "estimated_instructions": estimated,
                "wall_time_ms": wall_ms,
            }
            reasons = {}
            if estimated is None:
                reasons["estimated_instructions"] = NO_MODEL
            if wall_ms is None:
                reasons["wall_time_ms"] = NOT_FINISHED
            if reasons:
                sources["reasons"] = reasons
            yield self.wiring.names[i], sources

    def _timeline(self) -> Iterator[list[Any]]:
        wiring, names, ended = self.wiring, self.wiring.names, self.times[5::6]
        targets, first_target = wiring.targets, wiring.first_target
        ready = [self.started + self.prepare_s] * len(names)
        for source, end in enumerate(ended):
            if end is not None and source not in self.errors:
                for target in targets[first_target[source] : first_target[source + 1]]:
                    ready[target] = max(ready[target], end)
        start, ran_on = self.started, self.ran_on
        for i in self.wiring.order:
            t0, t1, t2, t3, t4, t5 = times = self.times_of(i)
            if t5 is not None:
                # Written out, since this is most of what a large profile holds.
                yield [
                    names[i],
                    0,
                    ran_on[i],
                    round((ready[i] - start) * 1000.0, 6),
                    round((t0 - start) * 1000.0, 6),
                    round((t1 - start) * 1000.0, 6),
                    round((t2 - start) * 1000.0, 6),
                    round((t3 - start) * 1000.0, 6),
                    round((t4 - start) * 1000.0, 6),
                    round((t5 - start) * 1000.0, 6),
                ]
            elif t0 is not None:
                yield [names[i], 0, ran_on[i], *self._from_start([ready[i], *times])]

    def _from_start(self, times: Iterable[float | None]) -> list[float | None]:
        started = self.started
        return [None if t is None else round((t - started) * 1000.0, 6) for t in times]


def _ms(seconds: float) -> float:
    """Return milliseconds, to the nanosecond, which is as fine as the clock is."""
    return round(seconds * 1000.0, 6)
