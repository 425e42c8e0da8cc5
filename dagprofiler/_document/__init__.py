"""A profile as data: the attributes that analyses read, and its sections as objects.

A section is empty where the profile has none. Everything that reads one reads it here: what is
unknown is None in a row, whichever columns a file has, and what counts as measured is decided once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from dagprofiler._document.rounds import MEASURED, measured_of
from dagprofiler._util import JsonObject, Values, grouped
from dagprofiler._util.json import collector_paused
from dagprofiler.config import Config
from dagprofiler.metrics import DAGMetrics

Section = TypeVar("Section")

#: Stands for an empty dict, a new one in each object.
_NOTHING: Mapping[str, Any] = {}


def _of_fields(kind: type[Section], values: Values) -> Section:
    """Return an object of those values that are its fields: newer files may hold others."""
    defaults: JsonObject = getattr(kind, "_field_defaults", {})
    empty = {key: dict[str, Any]() for key, value in defaults.items() if value is _NOTHING}
    return kind(**{**empty, **{key: values[key] for key in values.keys() & kind.__annotations__}})


class RunFacts(NamedTuple):
    """How a run went: the section ``run``.

    Attributes
    ----------
    state
        ``"complete"`` or ``"partial"``; None if that is unknown.
    reason
        Why it is partial.
    executor
        Name of the executor.
    rounds
        Number of complete measured rounds; None if that is unknown.
    conditions
        The arguments of :class:`~dagprofiler.Rounds`; empty for a plain run.
    elapsed_ms, ended_by
        Of several rounds: duration of all of them, and what ended them.
    other_threads_ms
        Of several serial rounds: CPU time of other threads in them, as of numpy's BLAS.
    overhead
        Kind of overhead, such as ``"loop_ms"``, to its time; None if it was not measured.
    tasks
        Tasks that did not succeed: ``state``, ``error``, ``traceback``, ``round``.
    attempts
        Task to the attempts that its executor retried.
    resumed
        An entry for each resumption.
    bound
        Task to the arguments that were bound to it.
    priorities
        The source of priorities; None for Kahn's order.
    """

    state: str | None = None
    reason: str | None = None
    executor: str | None = None
    rounds: int | None = None
    conditions: Mapping[str, Any] = _NOTHING
    elapsed_ms: float | None = None
    ended_by: str | None = None
    other_threads_ms: float | None = None
    overhead: Mapping[str, float] | None = None
    tasks: Mapping[str, JsonObject] = _NOTHING
    attempts: Mapping[str, Sequence[JsonObject]] = _NOTHING
    resumed: Sequence[JsonObject] = ()
    bound: Mapping[str, Mapping[str, str]] = _NOTHING
    priorities: str | None = None

    @property
    def is_partial(self) -> bool:
        """Whether some task did not run to its end."""
        return self.state == "partial"


class Samples(NamedTuple):
    """Every value that several rounds measured: the section ``samples``.

    Attributes
    ----------
    rounds
        Kind of each round: ``"cold"``, ``"warm_up"``, ``"measured"`` or ``"allocation"``.
    total_ms
        Duration of each round; None for one that is not complete.
    tasks, edges
        Task, or edge as ``"source->target"``, to quantity, such as ``"wall_ms"``, to its value in
        each round; None where it was not measured.
    """

    rounds: Sequence[str] = ()
    total_ms: Sequence[float | None] = ()
    tasks: Mapping[str, Mapping[str, Sequence[Any]]] = _NOTHING
    edges: Mapping[str, Mapping[str, Sequence[Any]]] = _NOTHING

    @property
    def measured(self) -> list[int]:
        """Numbers of the measured rounds, without warm-up."""
        return [number for number, kind in enumerate(self.rounds) if kind == MEASURED]

    def of(self, task: str, quantity: str) -> list[Any]:
        """Return the values of a task in the measured rounds, without unknown ones.

        Examples
        --------
        >>> samples = Samples(["cold", "measured"], tasks={"a": {"wall_ms": [9.0, 1.5]}})
        >>> samples.of("a", "wall_ms"), samples.of("a", "cpu_ms")
        ([1.5], [])
        """
        return measured_of(self.rounds, self.tasks.get(task, {}).get(quantity, ()), quantity)

    def of_edge(self, edge: str, quantity: str) -> list[Any]:
        """Return the values of an edge, ``"source->target"``, as :meth:`of` those of a task."""
        return measured_of(self.rounds, self.edges.get(edge, {}).get(quantity, ()), quantity)


class TimelineRow(NamedTuple):
    """One task in one round; moments are in milliseconds since the run began, None if unknown.

    Attributes
    ----------
    task, round, worker
        Name; number from 0; index into the timeline's workers, None if unknown.
    ready_ms
        When its last input was available.
    deserialize_start_ms, deserialize_end_ms
    compute_start_ms, compute_end_ms
    serialize_start_ms, serialize_end_ms
        Start and end of each phase.
    """

    task: str
    round: int
    worker: int | None
    ready_ms: float | None = None
    deserialize_start_ms: float | None = None
    deserialize_end_ms: float | None = None
    compute_start_ms: float | None = None
    compute_end_ms: float | None = None
    serialize_start_ms: float | None = None
    serialize_end_ms: float | None = None


class Timeline(NamedTuple):
    """When each task ran, and where: the section ``timeline``.

    Attributes
    ----------
    workers
        ``host``, ``pid`` and ``thread`` of each.
    columns, records
        The table; :meth:`rows` has its rows by name.
    """

    workers: Sequence[JsonObject] = ()
    columns: Sequence[str] = ()
    records: Sequence[Sequence[Any]] = ()

    def rows(self, round: int | None = None) -> list[TimelineRow]:
        """Return the rows of one round, or of all.

        Examples
        --------
        >>> timeline = Timeline(columns=["task", "round", "worker", "ready_ms"],
        ...                     records=[["a", 0, 0, 1.5], ["a", 1, 0, 9.0]])
        >>> [row.ready_ms for row in timeline.rows(1)], timeline.rows()[0].compute_end_ms
        ([9.0], None)
        """
        records = self.records
        if round is not None:
            records = [record for record in records if record[1] == round]
        fields = TimelineRow._fields
        if tuple(self.columns) == fields:
            # 10,000 rows take 1.6 ms, and 3.1 by _make().
            return [tuple.__new__(TimelineRow, record) for record in records]
        rows = [dict(zip(self.columns, record)) for record in records]
        # A newer version may write further columns.
        return [TimelineRow(**{key: row[key] for key in row.keys() & fields}) for row in rows]

    def columns_by_round(self) -> dict[int, dict[str, Sequence[Any]]]:
        """Return the values of the fields of :class:`TimelineRow`, of all rows of each round."""
        fields = TimelineRow._fields
        rows: Sequence[Sequence[Any]] = self.records
        if tuple(self.columns) != fields:
            rows = self.rows()
        by_round = grouped([(row[1], row) for row in rows])
        return {number: dict(zip(fields, zip(*several))) for number, several in by_round.items()}


class SpanRow(NamedTuple):
    """One traced span.

    Attributes
    ----------
    task, round
        Name of the task and number of the round.
    thread, thread_index, own
        Name of the thread; its index in the section; whether it ran the task.
    worker
        Index into the timeline's workers; None if unknown.
    start_ms, end_ms
        In milliseconds since the run began.
    id, args
        Id of an asynchronous span, and arguments; None without any.
    kind, name, category
        ``"span"``, ``"async"``, ``"instant"`` or another kind; what its label says.
    """

    task: str
    round: int
    thread: str
    thread_index: int
    own: bool
    worker: int | None
    start_ms: float
    end_ms: float
    id: str | None
    args: JsonObject | None
    kind: str
    name: str
    category: str


class Spans(NamedTuple):
    """What was traced inside the tasks: the section ``spans``.

    Attributes
    ----------
    labels, threads, records
        The tables; :meth:`rows` has the spans with their names.
    dropped
        Task to the number of spans that exceeded the tracer's limit.
    """

    labels: Sequence[Mapping[str, str]] = ()
    threads: Sequence[JsonObject] = ()
    records: Sequence[Sequence[Any]] = ()
    dropped: Mapping[str, int] = _NOTHING

    def rows(self, task: str | None = None) -> list[SpanRow]:
        """Return the spans of one task, or all."""
        rows = []
        # Columns of later versions follow.
        for name, in_round, index, label, start_ms, end_ms, own_id, args, *_ in self.records:
            if task is None or name == task:
                thread, words = self.threads[index], self.labels[label]
                where = thread["name"], index, thread["own"], thread.get("worker")
                what = words["kind"], words["name"], words["category"]
                rows.append(SpanRow(name, in_round, *where, start_ms, end_ms, own_id, args, *what))
        return rows


class Environment(NamedTuple):
    """The machine and the program: the section ``environment``; None is unknown.

    Attributes
    ----------
    python, os, machine, cpu
        Version of Python; the operating system; architecture and model of the processor.
    cores, cores_usable, cores_quota
        Of the machine; those the process may run on; the limit of its control group.
    blas_threads
        Of numpy's BLAS.
    memory_bytes
        Of the machine.
    allocator_settings, versions
        Environment variables of the C library's allocator; package to version.
    command, git
        The command line; ``commit``, and whether it was ``clean``.
    calibration
        Speed of the machine, as :meth:`~dagprofiler.Calibration.to_dict` returns it.
    not_measured
        Column to the reason why no task has it.
    """

    python: str | None = None
    os: str | None = None
    machine: str | None = None
    cpu: str | None = None
    cores: int | None = None
    cores_usable: int | None = None
    cores_quota: float | None = None
    blas_threads: int | None = None
    memory_bytes: int | None = None
    allocator_settings: Mapping[str, str] | None = None
    versions: Mapping[str, str | None] = _NOTHING
    command: str | None = None
    git: Mapping[str, Any] = _NOTHING
    calibration: JsonObject | None = None
    not_measured: Mapping[str, str] = _NOTHING


class OriginRow(NamedTuple):
    """A task that a rule added.

    Attributes
    ----------
    task, round, rule
        Name of the task, number of the round, name of the rule.
    at_ms
        When it was added, in milliseconds since the run began.
    """

    task: str
    round: int
    rule: str
    at_ms: float


class Origins(NamedTuple):
    """How the graph grew: the section ``origins``.

    Attributes
    ----------
    records
        The table of added tasks; :meth:`rows` has its rows by name.
    fired
        The rules that fired: ``round``, ``rule``, ``at_ms``, number of ``tasks``.
    never_fired
        The rules that did not fire in a round, and the ``reason``.
    """

    records: Sequence[Sequence[Any]] = ()
    fired: Sequence[JsonObject] = ()
    never_fired: Sequence[JsonObject] = ()

    def rows(self) -> list[OriginRow]:
        """Return the tasks that rules added, round by round."""
        # Columns of later versions follow.
        return [OriginRow(*record[:4]) for record in self.records]


class ProfileData:
    """A profile as data, which :class:`~dagprofiler.Profile` extends.

    The cached properties are built at their first use in the profile of a run that has just
    ended; in every other profile they are plain attributes.
    """

    config: Config
    seed: int | None
    hostname: str | None
    metadata: JsonObject
    #: Builds the parts of the profile of a run: :class:`dagprofiler.engine.sections.Tables`.
    _tables: Any

    @cached_property
    def timestamp(self) -> str | None:
        """Return when the run started, as ISO 8601 text."""
        return str(self._tables.timestamp)

    @cached_property
    def dag_structure(self) -> JsonObject:
        """Return ``nodes``, ``edges`` and ``execution_order``."""
        structure: JsonObject = self._tables.dag_structure()
        return structure

    @cached_property
    def metrics(self) -> DAGMetrics:
        """Return the metrics of tasks and edges."""
        with collector_paused():
            metrics: DAGMetrics = self._tables.metrics()
            return metrics

    @cached_property
    def sections(self) -> JsonObject:
        """Return the sections of the document that have no attribute of their own."""
        with collector_paused():
            sections: JsonObject = self._tables.sections()
            return sections

    @property
    def name(self) -> str | None:
        """Return what the profile is of: the name of the DAG, or of the command's target."""
        return self.metadata.get("name")

    @property
    def run(self) -> RunFacts:
        """How the run went: the section ``run`` as an object."""
        return _of_fields(RunFacts, self.sections.get("run", {}))

    @property
    def samples(self) -> Samples:
        """Every value that several rounds measured; empty for a plain run.

        Examples
        --------
        >>> from dagprofiler import DAG, task
        >>> @task(outputs=["x"])
        ... def source():
        ...     return {"x": 1}
        >>> len(DAG({"source": source}).run(rounds=3).samples.of("source", "wall_ms"))
        3
        """
        return _of_fields(Samples, self.sections.get("samples", {}))

    @property
    def timeline(self) -> Timeline:
        """When each task ran, and where: the section ``timeline`` as an object."""
        return _of_fields(Timeline, self.sections.get("timeline", {}))

    @property
    def spans(self) -> Spans:
        """What was traced inside the tasks: the section ``spans`` as an object."""
        return _of_fields(Spans, self.sections.get("spans", {}))

    @property
    def environment(self) -> Environment:
        """The machine and the program: the section ``environment`` as an object."""
        return _of_fields(Environment, self.sections.get("environment", {}))

    @property
    def origins(self) -> Origins:
        """How the graph grew: the section ``origins`` as an object."""
        return _of_fields(Origins, self.sections.get("origins", {}))


@dataclass(frozen=True)
class Calibration:
    """How fast a machine is, relative to the reference machine.

    Attributes
    ----------
    score
        Geometric mean of the parts. A machine of score 2 is twice as fast as
        the reference: ``reference_ms = measured_ms * score``.
    parts
        Speed at each kind of work: ``python`` (a loop in the interpreter),
        ``matrix`` (products of small matrices, one core), ``memory`` (copies
        of arrays of 2 MiB).
    spread
        Half the width of the confidence interval of the score, relative to
        the score. It covers only the repeats within one calibration, 0.1 s:
        scores of one machine differ by more between processes and minutes,
        by 5 to 15 % on a virtual machine of two cores.
    kernel_version
        Scores of different versions do not compare.
    taken_at
        When it was taken, as ISO 8601 text in UTC; None if that is unknown.

    Notes
    -----
    One number can't describe a machine: another one may be twice as fast at
    matrix products and no faster in the interpreter. If the parts of two
    machines have different ratios, the speedup of a task lies between these
    ratios, depending on its work.
    """

    score: float
    parts: dict[str, float]
    spread: float
    kernel_version: int
    taken_at: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the calibration as stored in a profile's ``environment``."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Calibration:
        """Return the calibration that a profile's ``environment`` holds."""
        return _of_fields(cls, data)
