"""analyze(): critical path, bounds of the makespan and bottlenecks of a profile's DAG."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, replace
from math import isfinite
from typing import TYPE_CHECKING, Any

from dagprofiler._util.html import ShownInBlocks
from dagprofiler._util.json import collector_paused
from dagprofiler._util.text import Block, number, printable, some
from dagprofiler.analysis._paths import (
    Bottleneck,
    Communication,
    CriticalSpans,
    Paths,
    WeightedGraph,
    communication_of,
    critical_spans,
    in_units,
    paths_of,
)
from dagprofiler.analysis.weights import weights_of
from dagprofiler.errors import WeightError, counted, short_repr

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dagprofiler._document import ProfileData
    from dagprofiler.analysis.weights import Number, Weights


#: The assumptions of the bounds.
_BOUNDS = "equal workers, communication free"


def _notes(found: Analysis) -> Iterator[str]:
    """Yield a line for each source of the figures."""
    weights = found.weights
    yield f"costs: {printable(weights.provenance)}"
    yield f"communication: {found.communication_note}"
    if weights.filled:
        tasks = counted(len(weights.filled), "task")
        yield f"given, not measured, for {tasks}: {some(weights.filled)}"
    if found.unknown_edges:
        edges = counted(len(found.unknown_edges), "edge")
        yield f"unknown, counted as 0, on {edges}: {some(found.unknown_edges)}"


def _paths(found: Analysis) -> Iterator[str]:
    """Yield the critical paths."""
    alone, communicating = found.without_communication, found.with_communication
    yield f"critical path: {route(alone.critical_path)}"
    if communicating is not None and communicating.critical_path != alone.critical_path:
        yield f"with communication: {route(communicating.critical_path)}"


def _figure_rows(found: Analysis) -> list[tuple[str, str]]:
    """Return the figures of the whole DAG."""
    communicating = found.with_communication
    rows = [("", found.weights.unit), ("work", number(found.work)), ("span", number(found.span))]
    if communicating is not None:
        rows.append(("span with communication", number(communicating.span)))
    return [
        *rows,
        ("average parallelism", number(found.average_parallelism)),
        ("communication / computation", number(found.ccr)),
    ]


def _bound_rows(found: Analysis) -> list[Sequence[str]]:
    """Return a head and the bounds for 1, 2, 4 ... workers, up to the average parallelism."""
    rows: list[Sequence[str]] = [
        ("workers", "makespan at least", "at most, if greedy", "speed-up at most")
    ]
    parallelism, workers = found.average_parallelism, 1
    while parallelism is not None:
        bounds = (
            found.makespan_lower_bound(workers),
            found.makespan_upper_bound(workers),
            found.speedup_bound(workers),
        )
        rows.append((f"{workers:,}", *map(number, bounds)))
        if workers >= parallelism:
            break
        workers *= 2
    return rows


def _bottleneck_rows(found: Analysis) -> list[Sequence[str]]:
    """Return a head and the bottlenecks."""
    return [
        ("bottleneck", "", "cost", "gain if free"),
        *(
            (printable(item.name), item.kind, number(item.cost), number(item.gain))
            for item in found.bottlenecks
        ),
    ]


def span_rows(critical: Mapping[str, Any]) -> list[Sequence[str]]:
    """Return a head, the spans of the critical path, and the time in no span."""
    rows: list[Sequence[str]] = [
        ("critical path by span", "in", "calls", "total ms", "self ms", "of the path")
    ]
    for span in critical["spans"]:
        taken_ms = span["total_ms"] if span["self_ms"] is None else span["self_ms"]
        figures = (number(span[key]) for key in ("calls", "total_ms", "self_ms"))
        share = _share(taken_ms, critical["compute_ms"])
        rows.append((printable(span["name"]), some(span["tasks"], 1), *figures, share))
    uncovered_ms = critical["uncovered_ms"]
    share = _share(uncovered_ms, critical["compute_ms"])
    return [*rows, ("(in no span)", "", "", "", number(uncovered_ms), share)]


def span_note(critical: Mapping[str, Any]) -> str:
    """Return the time that the shares of spans refer to."""
    rounds, dropped = critical["rounds"], critical["dropped"]
    means = f"means of {counted(rounds, 'round')}" if rounds > 1 else "one round"
    note = f"time of compute() on the path: {number(critical['compute_ms'])} ms, {means}"
    if not dropped:
        return note
    return f"{note}; there was no room for {counted(dropped, 'span')}: Tracer(limit=...)"


def _share(part_ms: float, whole_ms: float) -> str:
    return f"{part_ms / whole_ms:.1%}" if whole_ms else "-"


def _task_rows(found: Analysis) -> list[Sequence[str]]:
    """Return a head and the tasks by their earliest start."""
    paths = found.with_communication or found.without_communication
    starts = paths.earliest_start
    rows: list[Sequence[str]] = [
        ("task", "level", "cost", "earliest start", "latest start", "slack")
    ]
    for name in sorted(starts, key=lambda name: (starts[name], found.levels[name], name)):
        figures = (
            found.levels[name],
            found.weights.values[name],
            starts[name],
            paths.latest_start[name],
            paths.slack[name],
        )
        rows.append((printable(name), *map(number, figures)))
    return rows


def route(names: Sequence[str]) -> str:
    """Return the tasks of a path; of a long path the first and the last tasks."""
    shown = [*map(printable, names)]
    if len(shown) > 12:
        shown[6:-5] = [f"... {len(shown) - 11:,} more ..."]
    return " -> ".join(shown) or "-"


#: Times are added as integer picoseconds, exactly, so that paths of equal length tie and the
#: slack of a critical task is 0. Integer instructions are added as they are.
_PER_MS = 10**9


@dataclass(frozen=True)
class Analysis(ShownInBlocks):
    """The result of :func:`analyze`; ``print`` and notebooks show it.

    Attributes
    ----------
    weights
        Cost of each task, with unit and provenance.
    communication
        Edge, as ``"source->target"``, to its time in the unit of `weights`; None if not known.
    communication_note
        What the times of edges consist of, or why there are none.
    unknown_edges
        Edges whose time is not known while that of others is: they count as 0, so the figures
        with communication are too low.
    work
        Sum of the costs of all tasks: the makespan on one worker.
    levels
        For each task the largest number of edges on a path to it.
    without_communication
        Edges cost nothing, as if all workers shared one memory.
    with_communication
        Every edge costs its time, as if every task ran on another worker; None if not known.
    critical_spans
        Time of the tasks on the critical path by span, with communication where that is known;
        None if nothing was traced.
    """

    weights: Weights
    communication: dict[str, Number] | None
    communication_note: str
    unknown_edges: tuple[str, ...]
    work: Number
    levels: dict[str, int]
    without_communication: Paths
    with_communication: Paths | None
    critical_spans: CriticalSpans | None = None

    @property
    def span(self) -> Number:
        """Length of the critical path without communication."""
        return self.without_communication.span

    @property
    def average_parallelism(self) -> float | None:
        """``work / span``: the largest speed-up on any number of workers.

        None if nothing costs anything.
        """
        return self.work / self.span if self.span else None

    @property
    def widths(self) -> tuple[int, ...]:
        """Number of tasks on each level; tasks of one level can run concurrently."""
        counts = Counter(self.levels.values())
        return tuple(counts[level] for level in range(len(counts)))

    @property
    def ccr(self) -> float | None:
        """Communication-to-computation ratio: mean cost of an edge / mean cost of a task.

        0.0 without edges; None if the times of edges are not known, or no task costs anything.
        """
        if self.communication is None or not self.work:
            return None
        edges = len(self.communication)
        mean = sum(self.communication.values()) / edges if edges else 0.0
        return mean / (self.work / len(self.levels))

    @property
    def bottlenecks(self) -> tuple[Bottleneck, ...]:
        """The bottlenecks with communication, where that is known; without it otherwise."""
        return (self.with_communication or self.without_communication).bottlenecks

    def makespan_lower_bound(self, workers: int) -> Number:
        """Return ``max(span, work / workers)``: no schedule on equal workers is shorter.

        Communication is left out, since tasks on one worker need none.
        """
        return max(self.span, self.work / _checked(workers))

    def makespan_upper_bound(self, workers: int) -> Number:
        """Return ``span + (work - span) / workers``.

        No schedule is longer on equal workers that never idle while a task is ready, if
        communication costs nothing (Graham's bound).
        """
        return self.span + (self.work - self.span) / _checked(workers)

    def speedup_bound(self, workers: int) -> float | None:
        """Return ``work / makespan_lower_bound(workers)``, an upper bound of the speed-up.

        None if nothing costs anything.
        """
        return self.work / self.makespan_lower_bound(workers) if self.span else None

    def blocks(self) -> list[Block]:
        """Return the figures and paths, and tables of bounds, bottlenecks, spans and tasks."""
        tasks = counted(len(self.levels), "task")
        levels, widest = counted(len(self.widths), "level"), max(self.widths, default=0)
        blocks = [
            Block(
                f"{tasks} in {levels} of up to {widest:,}, in {self.weights.unit}",
                notes=_notes(self),
            ),
            Block(rows=_figure_rows(self)),
            Block(notes=_paths(self)),
            Block(_BOUNDS, _bound_rows(self), ()),
            Block("bottlenecks", _bottleneck_rows(self), (0, 1), "bottlenecks"),
        ]
        if self.critical_spans is not None:
            spans = asdict(self.critical_spans)
            blocks.append(Block("spans", span_rows(spans), (0, 1), "spans", [span_note(spans)]))
        return [*blocks, Block("tasks", _task_rows(self), what="tasks")]


def analyze(
    profile: ProfileData,
    *,
    cost: str = "time",
    statistic: str = "median",
    fill: Number | None = None,
    instructions_per_s: float | None = None,
    bandwidth_bits_per_s: float | None = None,
    size: str = "spec",
) -> Analysis:
    """Return critical path, slack, parallelism, bounds of speed-up and bottlenecks of a profile.

    Parameters
    ----------
    cost, statistic, fill
        Where the costs of tasks come from, as for :meth:`Profile.weights`; by default their
        times. The statistic applies to the samples of edges too.
    instructions_per_s
        Speed of a worker, finite and above 0, which turns instructions into ms; only for
        weights in instructions.
    bandwidth_bits_per_s
        Speed of the links, finite and above 0. An edge then costs its bits / bandwidth, in
        addition to its measured time.
    size
        Which bits: ``"spec"`` by the standard's counting rule, ``"wire"`` as serialized.

    Raises
    ------
    WeightError
        If tasks have no weight (see :meth:`Profile.weights`); if an argument is unknown, out of
        its range or not applicable to these weights; if the sum of the costs overflows a float.
    CycleError
        If the profile was edited and its edges form a cycle.

    Notes
    -----
    The unit is that of the weights: ms for times, reference ms for reference times, and
    instructions, or ms with `instructions_per_s`.

    An edge costs the time to serialize and deserialize its fields, if the profile has samples of
    it, plus its bits / bandwidth, if a bandwidth is given; without either its cost is unknown.
    For reference times, samples are multiplied by the machine's calibration score, as those of
    tasks are. With instructions, samples are left out: they are times of this machine, while
    `instructions_per_s` may be of another. Edges that carry nothing cost nothing. Times are
    rounded to a picosecond.

    - critical path, earliest and latest start, slack: Kelley and Walker, Critical-Path Planning
      and Scheduling, Proc. Eastern Joint Computer Conference, 1959;
    - top and bottom levels, communication-to-computation ratio: Kwok and Ahmad, ACM Comput. Surv.
      31(4), 1999;
    - upward and downward ranks: Topcuoglu, Hariri and Wu, IEEE Trans. Parallel Distrib. Syst.
      13(3), 2002;
    - bounds of the makespan: Graham, SIAM J. Appl. Math. 17(2), 1969; Brent, J. ACM 21(2), 1974.

    The gain of a bottleneck is ``min(cost, span - rest)``, where `rest` is the longest path that
    avoids it. In a topological order every path has exactly one edge that begins at or before a
    place and ends after it; `rest` is the longest path over those edges except the bottleneck's.

    O(V + E) time and memory, plus O(I log I) time for the bottlenecks, where I is the number of
    different stretches of the critical path that edges bypass, at most E + 2 V.

    Examples
    --------
    >>> from dagprofiler import DAG, task
    >>> @task(inputs=[], outputs=["x"], estimate_fn=lambda cfg: 30)
    ... def source():
    ...     return {"x": 1}
    >>> @task(inputs=["x"], outputs=["y"], estimate_fn=lambda cfg: 20)
    ... def sink(x):
    ...     return {"y": x}
    >>> profile = DAG({"source": source, "sink": sink}, [("source", "sink")]).run()
    >>> found = analyze(profile, cost="estimated")
    >>> found.span, found.without_communication.critical_path, found.average_parallelism
    (50, ('source', 'sink'), 1.0)
    """
    for name, rate in (
        ("instructions_per_s", instructions_per_s),
        ("bandwidth_bits_per_s", bandwidth_bits_per_s),
    ):
        _check_rate(cost, name, rate)
    if size not in ("spec", "wire"):
        raise WeightError(cost, [], f"size must be 'spec' or 'wire', got {short_repr(size)}")
    weights = weights_of(profile, cost, statistic, fill=fill)
    ends = [(edge["source"], edge["target"]) for edge in profile.dag_structure["edges"]]
    pairs = {(source, target): f"{source}->{target}" for source, target in ends}
    try:
        weights = _at_speed(weights, instructions_per_s)
        communication = communication_of(profile, pairs, weights, bandwidth_bits_per_s, size)
        with collector_paused():
            found = _analysis(weights, pairs, communication)
    except OverflowError as error:
        reason = "together with communication they make more than a float holds"
        raise WeightError(weights.source, [], reason) from error
    paths = found.with_communication or found.without_communication
    return replace(found, critical_spans=critical_spans(profile, paths.critical_path))


def analysis_of(
    profile: ProfileData, cost: str | None = None, statistic: str = "median"
) -> tuple[Analysis | None, str]:
    """Return the analysis that is shown of any profile; without one, None and the reason.

    Tasks without a cost, which did not run, cost 0. Without `cost` it is by times, or, if no
    task has one, by the best source that all tasks have.

    Raises
    ------
    WeightError
        If `cost` is given, and no task has such a cost.
    """
    if cost is not None:
        return _partly_known(profile, cost, statistic), ""
    try:
        return _partly_known(profile, "time", statistic), ""
    except WeightError as error:
        try:
            return analyze(profile, cost="best", statistic=statistic), ""
        except WeightError:
            return None, str(error)


def _partly_known(profile: ProfileData, cost: str, statistic: str) -> Analysis:
    found = analyze(profile, cost=cost, statistic=statistic, fill=0)
    if found.levels and len(found.weights.filled) == len(found.levels):
        # No task has a cost: this raises an error with the reason.
        weights_of(profile, cost, statistic)
    return found


def _checked(workers: Any) -> int:
    if type(workers) is not int or workers < 1:
        raise ValueError(f"workers must be an integer of at least 1, got {short_repr(workers)}")
    return workers


def _check_rate(source: Any, name: str, rate: Any) -> None:
    try:
        valid = rate is None or (not isinstance(rate, bool) and rate > 0 and isfinite(rate))
    except (OverflowError, TypeError, ValueError):
        valid = False
    if not valid:
        raise WeightError(
            source, [], f"{name} must be a finite number above 0, got {short_repr(rate)}"
        )


def _at_speed(weights: Weights, instructions_per_s: float | None) -> Weights:
    """Return weights in instructions as times, if a speed is given."""
    if instructions_per_s is None:
        return weights
    if weights.unit != "instructions":
        reason = f"instructions_per_s is for instructions, and these weights are {weights.unit}"
        raise WeightError(weights.source, [], reason)
    values = {name: value / instructions_per_s * 1e3 for name, value in weights.values.items()}
    provenance = f"{weights.provenance}; at {instructions_per_s:,.12g} instructions a second"
    return replace(weights, values=values, unit="ms", provenance=provenance)


def _analysis(
    weights: Weights, pairs: Mapping[tuple[str, str], str], communication: Communication
) -> Analysis:
    graph = WeightedGraph(list(weights.values), pairs)
    times = communication.times or {}
    whole = {int} >= {*map(type, weights.values.values()), *map(type, times.values())}
    per_unit = 1 if whole else _PER_MS
    costs = [round(weights.values[name] * per_unit) for name in graph.names]
    delays = [round(times.get(key, 0) * per_unit) for _, _, key in graph.edges]
    work = sum(costs)
    # The largest number below: if any number overflows, this one does.
    float(work + sum(delays))
    with_communication = None
    without = paths_of(graph, costs, [0] * len(delays), per_unit)
    if communication.times is not None:
        with_communication = paths_of(graph, costs, delays, per_unit) if any(delays) else without
    return Analysis(
        weights=weights,
        communication=communication.times,
        communication_note=communication.note,
        unknown_edges=communication.unknown,
        work=in_units(work, per_unit),
        levels=graph.by_name(graph.levels),
        without_communication=without,
        with_communication=with_communication,
    )
