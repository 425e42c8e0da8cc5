"""analyze(): critical path, bounds of the makespan and bottlenecks of a profile's DAG."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from heapq import nlargest
from itertools import accumulate
from typing import Any, NamedTuple

from dagprofiler._document import ProfileData
from dagprofiler._document.rounds import measured_of
from dagprofiler._document.table import edges_of
from dagprofiler._util.checks import choice, integer
from dagprofiler._util.checks import number as positive
from dagprofiler._util.html import ShownInBlocks
from dagprofiler._util.json import collector_paused
from dagprofiler._util.text import Block, number, printable, some
from dagprofiler.analysis.weights import STATISTICS, Number, Weights, weights_of
from dagprofiler.errors import WeightError, counted, refused, short_repr
from dagprofiler.graph.wiring import kahn_order

_workers = partial(integer, "workers", least=1, error=ValueError)

#: Paths whose lengths differ by less than this share of the longest are equally long: sums of
#: floats are not exact.
_NEAR = 1e-9

#: Tasks and edges of the critical path whose gains are computed.
_COSTLIEST = 10


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
    without_communication: Paths
    with_communication: Paths | None
    critical_spans: CriticalSpans | None = None

    @cached_property
    def levels(self) -> dict[str, int]:
        """For each task the largest number of edges on a path to it."""
        return self.without_communication.graph.levels()

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
        return mean / (self.work / len(self.weights.values))

    @property
    def bottlenecks(self) -> tuple[Bottleneck, ...]:
        """The bottlenecks with communication, where that is known; without it otherwise."""
        return (self.with_communication or self.without_communication).bottlenecks

    def makespan_lower_bound(self, workers: int) -> Number:
        """Return ``max(span, work / workers)``: no schedule on equal workers is shorter.

        Communication is left out, since tasks on one worker need none.
        """
        return max(self.span, self.work / _workers(workers))

    def makespan_upper_bound(self, workers: int) -> Number:
        """Return ``span + (work - span) / workers``.

        No schedule is longer on equal workers that never idle while a task is ready, if
        communication costs nothing (Graham's bound).
        """
        return self.span + (self.work - self.span) / _workers(workers)

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
    ValidationError
        If `profile` is no Profile.
    WeightError
        If tasks have no weight (see :meth:`Profile.weights`); if another argument is unknown, out
        of its range or not applicable to these weights.
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
    `instructions_per_s` may be of another. Edges that carry nothing cost nothing.

    - critical path, earliest and latest start, slack: Kelley and Walker, Critical-Path Planning
      and Scheduling, Proc. Eastern Joint Computer Conference, 1959;
    - top and bottom levels, communication-to-computation ratio: Kwok and Ahmad, ACM Comput. Surv.
      31(4), 1999;
    - upward and downward ranks: Topcuoglu, Hariri and Wu, IEEE Trans. Parallel Distrib. Syst.
      13(3), 2002;
    - bounds of the makespan: Graham, SIAM J. Appl. Math. 17(2), 1969; Brent, J. ACM 21(2), 1974.

    The gain of a bottleneck is ``min(cost, span - rest)``, where `rest` is the longest path that
    avoids it; less than 1e-9 of the span counts as 0. O(V + E) time and memory.

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
    if not hasattr(profile, "dag_structure"):
        raise refused(f"analyze: profile must be a Profile, got {short_repr(profile)}")
    error = partial(WeightError, cost, [])
    if instructions_per_s is not None:
        positive("instructions_per_s", instructions_per_s, error=error)
    if bandwidth_bits_per_s is not None:
        positive("bandwidth_bits_per_s", bandwidth_bits_per_s, error=error)
    choice("size", size, ("spec", "wire"), error=error)
    weights = weights_of(profile, cost, statistic, fill=fill)
    pairs = {(source, target): f"{source}->{target}" for source, target in edges_of(profile)}
    weights = _at_speed(weights, instructions_per_s)
    communication = _communication_of(profile, pairs, weights, bandwidth_bits_per_s, size)
    with collector_paused():
        found = _analysis(weights, profile.dag_structure["execution_order"], pairs, communication)
    paths = found.with_communication or found.without_communication
    return replace(found, critical_spans=_critical_spans(profile, paths.critical_path))


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
    source = cost or "time"
    try:
        found = analyze(profile, cost=source, statistic=statistic, fill=0)
        if len(found.weights.filled) == len(found.weights.values):
            # No task has a cost: this raises an error with the reason.
            weights_of(profile, source, statistic)
    except WeightError as error:
        if cost is not None:
            raise
        try:
            found = analyze(profile, cost="best", statistic=statistic)
        except WeightError:
            return None, str(error)
    return found, ""


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
    weights: Weights,
    order: Sequence[str],
    pairs: Mapping[tuple[str, str], str],
    communication: _Communication,
) -> Analysis:
    graph = _WeightedGraph(list(weights.values), order, pairs)
    times = communication.times or {}
    costs = [weights.values[name] for name in graph.names]
    delays = [times.get(key, 0) for _, _, key in graph.edges]
    without = _paths_of(graph, costs, [0] * len(delays))
    with_communication = None
    if communication.times is not None:
        with_communication = _paths_of(graph, costs, delays) if any(delays) else without
    return Analysis(
        weights=weights,
        communication=communication.times,
        communication_note=communication.note,
        unknown_edges=communication.unknown,
        work=sum(costs),
        without_communication=without,
        with_communication=with_communication,
    )


class Bottleneck(NamedTuple):
    """A task or an edge on the critical path, and the gain if it cost nothing.

    Attributes
    ----------
    name
        The task's name, or the edge's key, ``"source->target"``.
    kind
        ``"task"`` or ``"edge"``.
    cost
        Its cost, in the unit of the analysis; above 0.
    gain
        How much shorter the span would be if it cost nothing: from 0, where another path is as
        long, to `cost`.
    """

    name: str
    kind: str
    cost: Number
    gain: Number


@dataclass(frozen=True)
class Paths:
    """Start times with enough workers for all tasks, the critical path and its bottlenecks.

    All figures are in the unit of the analysis; the dicts have an entry for every task.

    Attributes
    ----------
    span
        Length of the critical path: no schedule in this model is shorter.
    critical_path
        The tasks of the longest path, from an entry to an exit task; on a tie, the path whose
        names sort first.
    graph
        The DAG in numbers.
    """

    span: Number
    critical_path: tuple[str, ...]
    graph: _WeightedGraph = field(repr=False, compare=False)
    #: Costs of tasks and edges; of each task the longest paths to it and from it.
    _costs: Sequence[Number] = field(repr=False)
    _delays: Sequence[Number] = field(repr=False)
    _top_levels: Sequence[Number] = field(repr=False)
    _bottom_levels: Sequence[Number] = field(repr=False)
    #: The edges of the critical path.
    _path_edges: Sequence[int] = field(repr=False)

    @cached_property
    def bottlenecks(self) -> tuple[Bottleneck, ...]:
        """The ten costliest tasks and edges on the critical path, of those that cost anything.

        By `gain`, then by `cost`, largest first, then in the order of the path.
        """
        tasks = [("task", self._costs[self.graph.place[name]], name) for name in self.critical_path]
        edges = [("edge", self._delays[k], k) for k in self._path_edges]
        on_path: list[Any] = [("", 0, "")] * (len(tasks) + len(edges))
        on_path[::2], on_path[1::2] = tasks, edges
        bottlenecks = []
        for kind, cost, item in nlargest(_COSTLIEST, on_path, key=lambda item: item[1]):
            if cost and kind == "task":
                bottlenecks.append(Bottleneck(item, kind, cost, self.gain(item)))
            elif cost:
                source, _, key = self.graph.edges[item]
                gain = min(cost, self._loss(source, source + 1, item))
                bottlenecks.append(Bottleneck(key, kind, cost, gain))
        # Sorting is stable, and on a tie nlargest has the order of the path.
        return tuple(sorted(bottlenecks, key=lambda item: (-item.gain, -item.cost)))

    def gain(self, task: str) -> Number:
        """Return how much shorter the span would be if a task cost nothing; O(V + E) time."""
        place = self.graph.place[task]
        return min(self._costs[place], self._loss(place - 1, place + 1))

    def _loss(self, last: int, first: int, edge: int = -1) -> Number:
        """Return how much shorter the longest path is that avoids a task, or an edge.

        In topological order, every other path goes over another edge from a task up to `last` to
        one from `first` on, or begins or ends there.
        """
        graph, top, bottom = self.graph, self._top_levels, self._bottom_levels
        lengths = [
            top[source] + self._costs[source] + self._delays[k] + bottom[target]
            for k, (source, target, _) in enumerate(graph.edges[: graph.first_edge[last + 1]])
            if target >= first and k != edge
        ]
        lengths += [bottom[task] for task in graph.entries if task >= first]
        lengths += [top[task] + self._costs[task] for task in graph.exits if task <= last]
        return _positive(self.span - max(lengths, default=0), self.span)

    @cached_property
    def earliest_start(self) -> dict[str, Number]:
        """Top level: the longest path from an entry to the task, without the task's own cost."""
        return self.graph.by_name(self._top_levels)

    @cached_property
    def bottom_level(self) -> dict[str, Number]:
        """The longest path from the task to an exit, with the task's own cost."""
        return self.graph.by_name(self._bottom_levels)

    @cached_property
    def latest_start(self) -> dict[str, Number]:
        """``span - bottom_level``: starting later makes the whole run longer."""
        return {name: self.span - level for name, level in self.bottom_level.items()}

    @cached_property
    def slack(self) -> dict[str, Number]:
        """``latest_start - earliest_start``: 0 for every task on a longest path."""
        starts = self.earliest_start
        return {
            name: _positive(latest - starts[name], self.span)
            for name, latest in self.latest_start.items()
        }

    @property
    def upward_rank(self) -> dict[str, Number]:
        """`bottom_level`; with communication, HEFT's upward rank (Topcuoglu et al., 2002)."""
        return self.bottom_level

    @property
    def downward_rank(self) -> dict[str, Number]:
        """`earliest_start`; with communication, HEFT's downward rank (Topcuoglu et al., 2002)."""
        return self.earliest_start


def _positive(difference: Number, span: Number) -> Number:
    """Return a difference of lengths of paths; 0 if it may be one of rounding."""
    return difference if difference > _NEAR * span else 0 * span


class _WeightedGraph:
    """A DAG in numbers: tasks in topological order, edges by source.

    Attributes
    ----------
    names, place
        Task names in topological order, and the place of each.
    edges
        Source, target and key of each edge, sources ascending.
    first_edge
        For each task the index of its first edge in `edges`.
    entries, exits
        Tasks without predecessors, and without successors.
    """

    def __init__(
        self, nodes: Sequence[str], order: Sequence[str], pairs: Mapping[tuple[str, str], str]
    ) -> None:
        place = {name: i for i, name in enumerate(order)}
        # A profile that was edited, or whose run ended early, may have no order of all tasks.
        if place.keys() != {*nodes} or any(place[a] >= place[b] for a, b in pairs):
            order = kahn_order(nodes, pairs)
            place = {name: i for i, name in enumerate(order)}
        self.names, self.place, self._nodes = order, place, nodes
        self.edges = sorted((place[a], place[b], key) for (a, b), key in pairs.items())
        edges_from = [0] * len(nodes)
        for source, _, _ in self.edges:
            edges_from[source] += 1
        self.first_edge = list(accumulate(edges_from, initial=0))
        targets = {target for _, target, _ in self.edges}
        self.entries = [task for task in range(len(nodes)) if task not in targets]
        self.exits = [task for task, count in enumerate(edges_from) if not count]

    def levels(self) -> dict[str, int]:
        """Return for each task the largest number of edges on a path to it."""
        levels = [0] * len(self.names)
        for source, target, _ in self.edges:
            levels[target] = max(levels[target], levels[source] + 1)
        return self.by_name(levels)

    def by_name(self, values: Sequence[Any]) -> dict[str, Any]:
        """Return task name to value, in the order of the profile."""
        return {name: values[self.place[name]] for name in self._nodes}


def _paths_of(graph: _WeightedGraph, costs: Sequence[Number], delays: Sequence[Number]) -> Paths:
    # Zeros of the type of the costs.
    top = [0 * cost for cost in costs]
    for (source, target, _), delay in zip(graph.edges, delays):
        arrival = top[source] + costs[source] + delay
        top[target] = max(top[target], arrival)
    bottom = list(costs)
    for (source, target, _), delay in zip(reversed(graph.edges), reversed(delays)):
        remaining = costs[source] + delay + bottom[target]
        bottom[source] = max(bottom[source], remaining)
    span = max(bottom, default=0)
    tasks, edges = _critical(graph, bottom, delays)
    names = tuple(graph.names[i] for i in tasks)
    return Paths(span, names, graph, costs, delays, top, bottom, edges)


def _critical(
    graph: _WeightedGraph, bottom: Sequence[Number], delays: Sequence[Number]
) -> tuple[list[int], list[int]]:
    """Return tasks and edges of the longest path; on a tie, the one whose names sort first."""
    names, span = graph.names, max(bottom, default=0)
    near = _NEAR * span
    longest = [task for task in graph.entries if bottom[task] >= span - near]
    tasks, edges = sorted(longest, key=lambda task: names[task])[:1], []
    task = tasks[0] if tasks else -1
    while task >= 0:
        length: Number = 0
        following = edge = -1
        for k in range(graph.first_edge[task], graph.first_edge[task + 1]):
            target = graph.edges[k][1]
            onward = delays[k] + bottom[target]
            is_first = onward >= length - near and names[target] < names[following]
            if edge < 0 or onward > length + near or is_first:
                length, following, edge = onward, target, k
        if edge >= 0:
            edges.append(edge)
            tasks.append(following)
        task = following
    return tasks, edges


class _Communication(NamedTuple):
    """Communication costs of the edges.

    Attributes
    ----------
    times
        Edge, as ``"source->target"``, to its time; None if none is known.
    note
        What the times consist of, or why there are none.
    unknown
        Edges without a known time, which count as 0 because others have one.
    """

    times: dict[str, Number] | None
    note: str
    unknown: tuple[str, ...] = ()


def _communication_of(
    profile: ProfileData,
    pairs: Mapping[tuple[str, str], str],
    weights: Weights,
    bandwidth_bits_per_s: float | None,
    size: str,
) -> _Communication:
    """Return the costs of the edges of a profile, in the unit of the weights.

    Parameters
    ----------
    pairs
        Source and target of each edge to ``"source->target"``.
    weights
        Costs of the tasks.
    bandwidth_bits_per_s
        Speed of the links; None if bits cost nothing.
    size
        Which size counts: ``"spec"`` or ``"wire"``.
    """
    instructions = weights.unit == "instructions"
    if instructions and bandwidth_bits_per_s is not None:
        reason = (
            "bandwidth_bits_per_s gives times, which cannot be added to instructions; give "
            "instructions_per_s too, or a time as cost"
        )
        raise WeightError(weights.source, [], reason)
    carried = {(edge.source, edge.target): edge for edge in profile.metrics.edge_metrics}
    # An order-only edge is known to cost nothing.
    loaded = {
        key: edge
        for pair, key in pairs.items()
        if (edge := carried.get(pair)) is None or edge.data_fields or edge.size_bytes
    }
    if not loaded:
        free: dict[str, Number] = dict.fromkeys(pairs.values(), 0)
        return _Communication(free, "none, since no edge carries anything")
    if instructions:
        return _Communication(
            None,
            "unknown: times cannot be added to instructions; give instructions_per_s and "
            "bandwidth_bits_per_s, or a time as cost",
        )
    measured, words = _measured(profile, weights, loaded)
    if bandwidth_bits_per_s is None:
        unknown = f"{words}, and no bandwidth_bits_per_s is given"
        times, note = measured, words
    else:
        unknown = f"the profile has no {size} sizes of its edges"
        column = "size_bytes" if size == "spec" else "wire_bytes"
        # A measured time without a transfer time is incomplete, so it is left out.
        times = {
            key: 8 * count / bandwidth_bits_per_s * 1e3 + measured.get(key, 0)
            for key, edge in loaded.items()
            if (count := getattr(edge, column, None)) is not None
        }
        note = f"{size} bits / {bandwidth_bits_per_s:,.12g} a second"
        partly = "" if measured.keys() >= times.keys() else " where that was measured"
        note = f"{words}{partly}, and {note}" if measured else f"{note}; {words}"
    if not times:
        return _Communication(None, f"unknown: {unknown}")
    every = {key: times.get(key, 0) for key in pairs.values()}
    return _Communication(every, note, tuple(key for key in loaded if key not in times))


def _measured(
    profile: ProfileData, weights: Weights, keys: Iterable[str]
) -> tuple[dict[str, Number], str]:
    """Return the times to serialize and deserialize of the edges that have samples of both."""
    if weights.source in ("counted", "estimated"):
        return {}, "measured times of edges cannot be added to instructions"
    factor, words = 1.0, "measured serialize + deserialize"
    if weights.source == "reference_time":
        factor = profile.sections["environment"]["calibration"]["score"]
        words += " x calibration score"
    samples = profile.samples
    times: dict[str, Number] = {}
    for key in keys if samples.edges else ():
        row = samples.edges.get(key, {})
        both = zip(row.get("serialize_ms", ()), row.get("deserialize_ms", ()))
        sums = [None if None in pair else sum(pair) for pair in both]
        values = measured_of(samples.rounds, sums)
        if values:
            times[key] = factor * STATISTICS[weights.statistic](values)
    if not times:
        return {}, "the profile has no times of edges; only runs with rounds=... measure them"
    return times, words


@dataclass(frozen=True)
class CriticalSpan:
    """All spans of one name in the tasks on the critical path; times are per round, in ms.

    Attributes
    ----------
    name, category
        Of the spans.
    tasks
        The tasks that contain them, in the order of the path.
    calls
        Number of spans per round.
    total_ms
        Time during which at least one of them was open, in any thread of a task.
    self_ms
        Time in them without that in spans nested in them, added over threads; None for
        asynchronous spans, which wait for each other.
    """

    name: str
    category: str
    tasks: tuple[str, ...]
    calls: float
    total_ms: float
    self_ms: float | None


@dataclass(frozen=True)
class CriticalSpans:
    """Time of ``compute()`` on the critical path by span.

    Attributes
    ----------
    spans
        By decreasing ``self_ms``; asynchronous spans last.
    compute_ms
        Time of ``compute()`` of all tasks on the path, per round.
    uncovered_ms
        The part of `compute_ms` in no span, neither of the thread that ran the task nor of one
        that the task started.
    rounds
        Number of rounds that the means are over.
    dropped
        Number of spans of these tasks that exceeded the tracer's limit, in all rounds; their
        time counts as that of the enclosing spans, or as in no span.
    """

    spans: tuple[CriticalSpan, ...]
    compute_ms: float
    uncovered_ms: float
    rounds: int
    dropped: int


def _critical_spans(profile: ProfileData, path: Sequence[str]) -> CriticalSpans | None:
    """Return the time of the tasks of a path by span; None for a profile without spans.

    Over the measured rounds, or over all if none was measured. Of threads that a task started
    counts what lies within its ``compute()``. O(n log n) time in the number of spans.
    """
    if "spans" not in profile.sections:
        return None
    measured, place = {*profile.samples.measured}, {task: i for i, task in enumerate(path)}
    computed = {
        (row.task, row.round): (row.compute_start_ms, row.compute_end_ms)
        for row in profile.timeline.rows()
        if row.task in place and (not measured or row.round in measured)
        if row.compute_start_ms is not None and row.compute_end_ms is not None
    }
    if not computed:
        return None
    rounds = len({i for _, i in computed})
    by_task: dict[tuple[str, int], list[_Interval]] = {}
    for span in profile.spans.rows():
        key = span.task, span.round
        if key in computed:
            begun_ms, ended_ms = span.start_ms, span.end_ms
            if not span.own:
                first_ms, last_ms = computed[key]
                begun_ms, ended_ms = max(begun_ms, first_ms), min(ended_ms, last_ms)
            if begun_ms <= ended_ms:
                label = span.kind, span.name, span.category
                interval = begun_ms, -ended_ms, label, span.thread_index
                by_task.setdefault(key, []).append(interval)
    totals: dict[_Label, _Total] = {}
    compute_ms = uncovered_ms = sum(end_ms - start_ms for start_ms, end_ms in computed.values())
    for (task, _), intervals in by_task.items():
        uncovered_ms -= _add(sorted(intervals), task, totals)
    spans = []
    for (kind, name, category), total in totals.items():
        tasks = tuple(sorted(total.tasks, key=place.__getitem__))
        self_ms = total.self_ms / rounds if kind == "span" else None
        means = total.calls / rounds, total.total_ms / rounds, self_ms
        spans.append(CriticalSpan(name, category, tasks, *means))
    spans.sort(key=lambda span: (span.self_ms is None, -(span.self_ms or 0.0), -span.total_ms))
    times_ms = compute_ms / rounds, max(0.0, uncovered_ms) / rounds
    dropped = sum(n for task, n in profile.spans.dropped.items() if task in place)
    return CriticalSpans(tuple(spans), *times_ms, rounds=rounds, dropped=dropped)


#: Kind, name and category.
_Label = tuple[str, str, str]

#: Start, minus the end, label and thread of a span.
_Interval = tuple[float, float, _Label, int]


class _Total:
    """Totals of all spans with one label."""

    def __init__(self) -> None:
        self.tasks: set[str] = set()
        self.calls = 0
        self.total_ms = self.self_ms = 0.0


def _add(spans: Sequence[_Interval], task: str, totals: dict[_Label, _Total]) -> float:
    """Add a task's spans in a round, by start, longest first; return the time they cover."""
    covered_ms, covered_until = 0.0, float("-inf")
    #: Label to the end of its latest span: overlapping spans of one name count once.
    until: dict[_Label, float] = {}
    #: Thread to the open spans around the next one in it.
    open_in: dict[int, list[tuple[float, _Label]]] = {}
    for start_ms, minus_end_ms, label, thread in spans:
        kind, end_ms = label[0], -minus_end_ms
        if kind not in ("span", "async"):
            continue
        total = totals.setdefault(label, _Total())
        total.tasks.add(task)
        total.calls += 1
        latest = until.get(label, start_ms)
        total.total_ms += max(0.0, end_ms - max(start_ms, latest))
        until[label] = max(latest, end_ms)
        covered_ms += max(0.0, end_ms - max(start_ms, covered_until))
        covered_until = max(covered_until, end_ms)
        if kind == "span":
            around = open_in.setdefault(thread, [])
            while around and around[-1][0] <= start_ms:
                around.pop()
            total.self_ms += end_ms - start_ms
            if around:
                outer_end_ms, outer = around[-1]
                totals[outer].self_ms -= min(end_ms, outer_end_ms) - start_ms
            around.append((end_ms, label))
    return covered_ms


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
    figures: dict[str, Any] = {"work": found.work, "span": found.span}
    if communicating is not None:
        figures["span with communication"] = communicating.span
    figures["average parallelism"] = found.average_parallelism
    figures["communication / computation"] = found.ccr
    return [("", found.weights.unit), *zip(figures, map(number, figures.values()))]


def bounds_of(found: Analysis) -> Iterator[tuple[int, Number, Number, float | None]]:
    """Yield 1, 2, 4 ... workers, up to the average parallelism, each with its three bounds."""
    parallelism, workers = found.average_parallelism or 0, 1
    while parallelism:
        shortest, longest = found.makespan_lower_bound(workers), found.makespan_upper_bound(workers)
        yield workers, shortest, longest, found.speedup_bound(workers)
        # Sums of floats are not exact.
        if workers >= round(parallelism, 9):
            break
        workers *= 2


def _bound_rows(found: Analysis) -> list[Sequence[str]]:
    """Return a head and the bounds."""
    head = "workers", "makespan at least", "at most, if greedy", "speed-up at most"
    rows = ((f"{workers:,}", *map(number, bounds)) for workers, *bounds in bounds_of(found))
    return [head, *rows]


def _bottleneck_rows(found: Analysis) -> list[Sequence[str]]:
    """Return a head and the bottlenecks."""
    rows = (
        (printable(item.name), item.kind, number(item.cost), number(item.gain))
        for item in found.bottlenecks
    )
    return [("bottleneck", "", "cost", "gain if free"), *rows]


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
    columns = found.levels, found.weights.values, starts, paths.latest_start, paths.slack
    names = sorted(starts, key=lambda name: (starts[name], found.levels[name], name))
    rows = ((printable(name), *(number(column[name]) for column in columns)) for name in names)
    return [("task", "level", "cost", "earliest start", "latest start", "slack"), *rows]


def route(names: Sequence[str]) -> str:
    """Return the tasks of a path; of a long path the first and the last tasks."""
    shown = [*map(printable, names)]
    if len(shown) > 12:
        shown[6:-5] = [f"... {len(shown) - 11:,} more ..."]
    return " -> ".join(shown) or "-"
