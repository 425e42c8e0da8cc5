"""A profile in rows and columns, which everything shown is made of.

The text, the command, the page, the exports and the data frames all read the columns of
:class:`ProfileTable`, so that each figure of a task has one source, one name, one label and one
unit. Formats of traces read :func:`task_spans`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dagprofiler._document import ProfileData, Samples, SpanRow, TimelineRow
from dagprofiler._util import JsonObject, Values
from dagprofiler._util.html import ShownInBlocks
from dagprofiler._util.text import MOST_ROWS, Block, cell
from dagprofiler.errors import FormatError, counted, did_you_mean, needs_extra, short_repr
from dagprofiler.metrics import TaskMetrics
from dagprofiler.stats import median


class Column(NamedTuple):
    """One figure of all tasks, or of all edges.

    Attributes
    ----------
    key
        Its name in the profile.
    label
        Its name for people.
    unit
        ``"ms"``, ``"bytes"``, ``"bits"``, ``"instructions"``, or ``""``.
    values
        One for each task or edge, in the profile's order; None if unknown.
    """

    key: str
    label: str
    unit: str
    values: list[Any]


_LABELS = {
    "time_ms": "time",
    "low_ms": "time, at least",
    "high_ms": "time, at most",
    "share": "share of all tasks' time",
    "compute_time_ms": "time in compute()",
    "deserialize_time_ms": "deserializing inputs",
    "serialize_time_ms": "serializing outputs",
    "cpu_time_ms": "CPU time",
    "reference_time_ms": "time on the reference machine",
    "wall_ms": "time in compute()",
    "corrected_ms": "time without run-queue delay",
    "deserialize_ms": "deserializing",
    "serialize_ms": "serializing",
    "delay_ms": "run-queue delay",
    "cpu_ms": "CPU time",
    "kernel_ms": "CPU time of a fixed kernel next to the task",
    "process_cpu_ms": "CPU time of the process",
    "children_cpu_ms": "CPU time of child processes",
    "gc_ms": "garbage collection",
    "gil_ms": "holding the interpreter's lock",
    "instructions": "counted instructions",
    "resident_before_bytes": "resident memory before",
    "peak_memory_bytes": "peak memory, more than before",
    "allocation_bytes": "allocated memory",
    "read_bytes": "bytes read",
    "written_bytes": "bytes written",
    "data_fields": "fields",
    "size_bits": "payload",
    "size_bytes": "payload",
    "wire_bytes": "as serialized",
}

_UNITS = ("ms", "bytes", "bits", "instructions")

#: Fields of an entry of ``execution_metrics``.
_TIMES = ("compute_time_ms", "deserialize_time_ms", "serialize_time_ms")
_METRICS = (*_TIMES, "bytes_in", "bytes_out")

#: Candidates of ``weight_sources`` that are no other column.
_CANDIDATES = ("estimated_instructions", "counted_instructions", "cpu_time_ms", "reference_time_ms")

#: What ``weight_sources`` says of a task without an entry.
_DEFAULT = {"node_weight": "default"}

#: Columns of samples whose medians are other columns.
_ELSEWHERE = frozenset({"wall_ms", "serialize_ms", "deserialize_ms", "cpu_ms", "instructions"})


def label_of(key: str) -> str:
    """Return the label of a column; of a user's meter its name."""
    return _LABELS.get(key, key.replace("_", " "))


def unit_of(key: str) -> str:
    """Return the unit in a column's name; ``""`` if it has none."""
    words = ["instructions"] if key == "node_weight" else key.split("_")
    return next((unit for unit in _UNITS if unit in words), "")


class ProfileTable(ShownInBlocks):
    """The tasks or the edges of a profile: columns of one length.

    ``table["time_ms"]`` is the values of a column, ``table.columns["time_ms"]`` the column with
    label and unit; iterating yields the rows as dicts, ``len()`` is their number. Printing shows
    the first 40.

    Parameters
    ----------
    columns
        The columns; the first name the tasks, or the ends of the edges.

    Attributes
    ----------
    columns
        Key to :class:`Column`, in the order of the table.

    Examples
    --------
    >>> table = ProfileTable([Column("task", "task", "", ["a", "b"]),
    ...                       Column("time_ms", "time", "ms", [1.5, None])])
    >>> table["time_ms"], list(table)[0]
    ([1.5, None], {'task': 'a', 'time_ms': 1.5})
    >>> print(table)
    task  time ms
    a       1.500
    b           -
    """

    def __init__(self, columns: Iterable[Column]) -> None:
        self.columns = {column.key: column for column in columns}

    def __getitem__(self, key: str) -> list[Any]:
        """Return the values of a column."""
        if key not in self.columns:
            known = list(self.columns)
            raise KeyError(f"there is no column {short_repr(key)}{did_you_mean(key, known)}")
        return self.columns[key].values

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())).values)

    def __iter__(self) -> Iterator[JsonObject]:
        columns = [column.values for column in self.columns.values()]
        return (dict(zip(self.columns, row)) for row in zip(*columns))

    def __repr__(self) -> str:
        return f"<ProfileTable: {counted(len(self), 'row')} of {', '.join(self.columns)}>"

    def blocks(self) -> list[Block]:
        """Return the table as text, without the columns that are unknown throughout."""
        known = [c for c in self.columns.values() if any(v is not None for v in c.values)]
        cells = [[cell(value) for value in column.values[:MOST_ROWS]] for column in known]
        left = [i for i, c in enumerate(known) if any(isinstance(v, (str, list)) for v in c.values)]
        head = [column.key.replace("_", " ") for column in known]
        return [Block(rows=[head, *zip(*cells)], left=left, more=max(0, len(self) - MOST_ROWS))]


def entries_of_tasks(profile: ProfileData) -> dict[str, TaskMetrics]:
    """Return the entry of ``execution_metrics`` of each task that has one."""
    return {entry.task: entry for entry in profile.metrics.task_metrics}


class TaskTime(NamedTuple):
    """The time of a task in ``compute()``, wherever one time is shown.

    Attributes
    ----------
    median_ms
        Without run-queue delay where that was measured, else wall time; the median over the
        measured rounds, in milliseconds.
    low_ms, high_ms
        Confidence interval of the median; None without several rounds. The interval of the
        prediction where cost models predict the time.
    column
        ``"corrected_ms"``, or ``"wall_ms"`` for wall time.
    """

    median_ms: float
    low_ms: float | None
    high_ms: float | None
    column: str


def medians_ms(profile: ProfileData) -> dict[str, float]:
    """Return the median of :func:`default_times` of each task that has one."""
    if not profile.samples.tasks and "statistics" not in profile.sections:
        # A single run may have very many tasks.
        return {entry.task: entry.compute_time_ms for entry in profile.metrics.task_metrics}
    return {name: time.median_ms for name, time in default_times(profile).items()}


def default_times(profile: ProfileData, names: Iterable[str] | None = None) -> dict[str, TaskTime]:
    """Return the one time of each task that is shown, or of those in `names`.

    Tasks without a time, which did not run, are absent.
    """
    entries, samples = entries_of_tasks(profile), profile.samples
    statistics = profile.sections.get("statistics", {}).get("tasks", {})
    predicted = profile.sections.get("prediction", {}).get("intervals_ms", {})
    in_rounds, times = {*statistics, *samples.tasks}, {}
    for name in profile.dag_structure["nodes"] if names is None else names:
        time = None
        if name in in_rounds:
            time = _time_in_rounds(statistics.get(name, {}), samples, name)
        if time is None and name in entries:
            low_ms, high_ms = predicted.get(name, (None, None))
            time = TaskTime(entries[name].compute_time_ms, low_ms, high_ms, "wall_ms")
        if time is not None:
            times[name] = time
    return times


def _time_in_rounds(summaries: JsonObject, samples: Samples, task: str) -> TaskTime | None:
    for column in ("corrected_ms", "wall_ms"):
        if column in summaries:
            summary = summaries[column]
            return TaskTime(summary["median"], summary.get("low"), summary.get("high"), column)
        if measured := samples.of(task, column):
            return TaskTime(median(measured), None, None, column)
    return None


def task_table(profile: ProfileData, names: Sequence[str] | None = None) -> ProfileTable:
    """Return the table of a profile's tasks, or of those in `names`.

    Returns
    -------
    ProfileTable
        Always with the columns ``task``, ``execution_order`` (a place, from 0), ``state``
        (``"succeeded"``, ``"failed"``, ``"skipped"`` or ``"cancelled"``), ``time_ms`` (see
        :class:`TaskTime`) with its interval ``low_ms`` and ``high_ms``, ``share`` (of the sum of
        ``time_ms``, from 0 to 1), ``compute_time_ms`` (wall time), ``deserialize_time_ms``,
        ``serialize_time_ms``, ``bytes_in``, ``bytes_out``, ``node_weight`` (None for a default)
        and ``flags`` (a list). Where the profile holds them, also the candidates of
        ``weight_sources`` and the median of each column of samples.
    """
    names = profile.dag_structure["nodes"] if names is None else names
    return ProfileTable(_task_columns(profile, names))


def _task_columns(profile: ProfileData, names: Sequence[str]) -> Iterator[Column]:
    sections, ended = profile.sections, profile.run.tasks
    places = {name: i for i, name in enumerate(profile.dag_structure["execution_order"])}
    times = default_times(profile, names)
    entries = entries_of_tasks(profile)
    flags = sections.get("statistics", {}).get("flags", {})
    sources: JsonObject | None = sections.get("weight_sources")
    weights = profile.metrics.node_weights
    succeeded = "succeeded" if "run" in sections else None

    yield _column("task", names)
    yield _column("execution_order", map(places.get, names))
    yield _column("state", (ended[n]["state"] if n in ended else succeeded for n in names))
    for i, key in enumerate(("time_ms", "low_ms", "high_ms")):
        yield _column(key, (times[name][i] if name in times else None for name in names))
    total = sum(time.median_ms for time in times.values())
    shares = {name: time.median_ms / total for name, time in times.items()} if total else {}
    yield _column("share", (shares.get(name) for name in names))
    of_tasks = [entries.get(name) for name in names]
    for key in _METRICS:
        yield _column(key, (getattr(entry, key, None) for entry in of_tasks))
    if sources is None:
        yield _column("node_weight", map(weights.get, names))
    else:
        defaults = {n for n in names if sources.get(n, _DEFAULT)["node_weight"] == "default"}
        # A default is 0, and 0 is no estimate.
        unknown = {name for name in defaults if not weights.get(name)}
        yield _column("node_weight", (None if n in unknown else weights.get(n) for n in names))
        for key in _CANDIDATES:
            yield _column(key, (sources.get(name, {}).get(key) for name in names))
    yield _column("flags", (list(flags.get(name, ())) for name in names))
    samples = profile.samples
    yield from _sampled(samples.tasks, samples.of, names, _ELSEWHERE)


def edges_of(profile: ProfileData) -> list[tuple[str, str]]:
    """Return source and target of each edge."""
    return [(edge["source"], edge["target"]) for edge in profile.dag_structure["edges"]]


def edge_table(
    profile: ProfileData, pairs: Sequence[tuple[str, str]] | None = None
) -> ProfileTable:
    """Return the table of a profile's edges, each of them once, or of those in `pairs`.

    Returns
    -------
    ProfileTable
        Always with the columns ``source``, ``target``, ``data_fields`` (a list; None if
        unknown), ``size_bits``, ``size_bytes`` and ``wire_bytes``; where the profile holds
        them, also the medians of the samples, as ``serialize_ms`` and ``deserialize_ms``.
    """
    return ProfileTable(_edge_columns(profile, edges_of(profile) if pairs is None else pairs))


def _edge_columns(profile: ProfileData, pairs: Sequence[tuple[str, str]]) -> Iterator[Column]:
    keys = [f"{source}->{target}" for source, target in pairs]
    metrics = profile.metrics
    carried = {(edge.source, edge.target): edge for edge in metrics.edge_metrics}
    edges = [carried.get(pair) for pair in pairs]
    yield _column("source", (source for source, _ in pairs))
    yield _column("target", (target for _, target in pairs))
    # None is unknown, as in profiles without edge_metrics; an empty list is no field.
    fields = [e and (e.data_fields or (None if e.wire_bytes is None else [])) for e in edges]
    yield _column("data_fields", fields)
    # Other programs may write bits that are not whole bytes.
    bits = metrics.edge_weights
    yield _column("size_bits", (e and bits.get(key, e.size_bits) for key, e in zip(keys, edges)))
    for key in ("size_bytes", "wire_bytes"):
        yield _column(key, (getattr(edge, key, None) for edge in edges))
    samples = profile.samples
    yield from _sampled(samples.edges, samples.of_edge, keys, {"size_bytes", "wire_bytes"})


def _sampled(
    rows: Values, of: Callable[[str, str], list[Any]], names: Sequence[str], others: Collection[str]
) -> Iterator[Column]:
    """Yield the medians of the columns of samples that are not among the `others`."""
    for key in dict.fromkeys(key for row in rows.values() for key in row):
        if key not in others:
            measured = (of(name, key) for name in names)
            yield _column(key, (median(values) if values else None for values in measured))


def _column(key: str, values: Iterable[Any]) -> Column:
    return Column(key, label_of(key), unit_of(key), list(values))


@dataclass(frozen=True)
class ProfiledTask:
    """What a profile holds about one task.

    Attributes
    ----------
    name, state
        As in :func:`task_table`; the state is None where it is unknown.
    time_ms
        The time in ``compute()``: without run-queue delay where that was measured, else wall
        time; over several rounds the median. None if the task did not finish.
    interval_ms
        Ends of the confidence interval of the median; None without several rounds.
    compute_time_ms, serialize_time_ms, deserialize_time_ms
        Wall times of the phases, in milliseconds; None if unknown.
    bytes_in, bytes_out
        Serialized sizes of inputs and outputs, in bytes; None if unknown.
    node_weight
        In instructions; None if the task has no cost model.
    flags
        Warnings about the figures; ``dagprofiler.stats.FLAGS`` explains them.
    samples
        Quantity, such as ``"wall_ms"``, to its values in the measured rounds, without nulls.
    statistics
        Quantity to ``median``, ``low``, ``high``, ``mad``, ``min`` and ``n``.
    timeline
        A dict for each round: ``worker`` and the moments of the phases, in milliseconds.
    spans
        A dict for each span: ``name``, ``kind``, ``category``, ``round``, ``start_ms``,
        ``end_ms``, ``args``.
    """

    name: str
    state: str | None
    time_ms: float | None
    interval_ms: tuple[float, float] | None
    compute_time_ms: float | None
    serialize_time_ms: float | None
    deserialize_time_ms: float | None
    bytes_in: int | None
    bytes_out: int | None
    node_weight: int | None
    flags: list[str]
    samples: dict[str, list[Any]] = field(repr=False)
    statistics: dict[str, JsonObject] = field(repr=False)
    timeline: list[JsonObject] = field(repr=False)
    spans: list[JsonObject] = field(repr=False)


def profiled_task(profile: ProfileData, name: str) -> ProfiledTask:
    """Return what a profile holds about one task.

    Raises
    ------
    KeyError
        If the profile has no such task; the message names the nearest.
    """
    names = profile.dag_structure["nodes"]
    if name not in names:
        raise KeyError(f"there is no task {short_repr(name)}{did_you_mean(name, names)}")
    row, samples = next(iter(task_table(profile, [name]))), profile.samples
    low_ms = row["low_ms"]
    return ProfiledTask(
        name,
        interval_ms=None if low_ms is None else (low_ms, row["high_ms"]),
        samples={key: samples.of(name, key) for key in samples.tasks.get(name, ())},
        statistics=profile.sections.get("statistics", {}).get("tasks", {}).get(name, {}),
        timeline=[row._asdict() for row in profile.timeline.rows() if row.task == name],
        spans=[row._asdict() for row in profile.spans.rows(name)],
        **{key: row[key] for key in ("state", "time_ms", *_METRICS, "node_weight", "flags")},
    )


class Frames(NamedTuple):
    """The data frames of a profile; those of missing sections are empty.

    Attributes
    ----------
    tasks, edges
        A row for each; columns as :attr:`Profile.tasks <dagprofiler.Profile.tasks>` and
        :attr:`Profile.edges <dagprofiler.Profile.edges>`. ``frame.attrs["units"]`` maps columns
        to units.
    samples
        A row for each value that was measured: ``task`` (or ``source`` and ``target``),
        ``quantity``, ``round``, ``kind`` of the round, ``value``.
    timeline
        A row for each task and round.
    spans
        A row for each span.
    """

    tasks: Any
    edges: Any
    samples: Any
    timeline: Any
    spans: Any


def frames_of(profile: ProfileData) -> Frames:
    """Return a profile as data frames; see :meth:`dagprofiler.Profile.to_pandas`."""
    with needs_extra("Profile.to_pandas()", "pandas"):
        import pandas as pd

    def of_table(table: ProfileTable) -> Any:
        frame = pd.DataFrame({key: table[key] for key in table.columns})
        frame.attrs["units"] = {c.key: c.unit for c in table.columns.values() if c.unit}
        return frame

    return Frames(
        of_table(task_table(profile)),
        of_table(edge_table(profile)),
        pd.DataFrame(_samples(profile), columns=_SAMPLE),
        pd.DataFrame(profile.timeline.rows(), columns=TimelineRow._fields),
        pd.DataFrame(profile.spans.rows(), columns=SpanRow._fields),
    )


_SAMPLE = ["task", "source", "target", "quantity", "round", "kind", "value"]


def _samples(profile: ProfileData) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of the frame of samples."""
    samples = profile.samples
    pairs = {f"{source}->{target}": (source, target) for source, target in edges_of(profile)}
    rows: list[tuple[tuple[Any, ...], Values]]
    rows = [((name, None, None), columns) for name, columns in samples.tasks.items()]
    rows += [((None, *pairs[key]), columns) for key, columns in samples.edges.items()]
    for ends, columns in rows:
        for quantity, values in columns.items():
            for i, value in enumerate(values):
                if value is not None:
                    yield *ends, quantity, i, samples.rounds[i], value


_PHASES = ("deserialize", "compute", "serialize")

#: The last moment that is finite in nanoseconds.
_MAX_MS = sys.float_info.max / 1e7


class TaskSpan(NamedTuple):
    """One task in one round.

    Attributes
    ----------
    start, end
        In ns from the start of the run; the end is later than the start.
    task, round
        Name, and number from 0.
    phases
        Name, start and end of each phase that took time, in order.
    ready_ms
        When the task could have started, in ms; None if unknown.
    worker
        Index into ``timeline.workers``; None if unknown.
    failure
        The task's entry of ``run.tasks`` if it did not succeed in this round.
    """

    start: int
    end: int
    task: str
    round: int
    phases: tuple[tuple[str, int, int], ...] = ()
    ready_ms: float | None = None
    worker: int | None = None
    failure: JsonObject | None = None


def task_spans(profile: ProfileData) -> list[TaskSpan]:
    """Return a span for each record of the timeline in which something began.

    Raises
    ------
    FormatError
        If the profile has no timeline.
    """
    if "timeline" not in profile.sections:
        why = "runs of dagprofiler 0.2 and later write one"
        raise FormatError(f"the profile has no section 'timeline' with the times of tasks; {why}")
    failures, spans = profile.run.tasks, []
    for row in profile.timeline.rows():
        # The starts and ends of the phases.
        moments = [None if ms is None else moment_ns(ms) for ms in row[4:]]
        known = [moment for moment in moments if moment is not None]
        if not known:
            continue
        # A phase without a duration could as well lie in the next span.
        phases = [
            (phase, start, end)
            for phase, start, end in zip(_PHASES, moments[::2], moments[1::2])
            if start is not None and end is not None and end > start
        ]
        failure = failures.get(row.task)
        if failure is not None and failure.get("round", 0) != row.round:
            failure = None
        # Viewers attach arrows to spans of some duration only.
        end, where = max(known[-1], known[0] + 1), (row.task, row.round, tuple(phases))
        spans.append(TaskSpan(known[0], end, *where, row.ready_ms, row.worker, failure))
    return spans


def moment_ns(time_ms: float) -> int:
    """Return a moment in whole nanoseconds, or the last one that a float can hold."""
    return round(max(-_MAX_MS, min(time_ms, _MAX_MS)) * 1e6)
