"""analyze(): critical path, bounds of the makespan and bottlenecks of a profile's DAG."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from heapq import nlargest
from operator import itemgetter
from typing import NamedTuple

from dagprofiler._document import ProfileData, SpanRow
from dagprofiler._document.rounds import measured_of
from dagprofiler._document.table import edges_of
from dagprofiler._util import JsonObject, covered, grouped
from dagprofiler._util.checks import choice, instance, integer
from dagprofiler._util.checks import number as positive
from dagprofiler._util.html import ShownInBlocks
from dagprofiler._util.json import collector_paused
from dagprofiler._util.text import Block, number, printable, share, some, table_of
from dagprofiler.analysis.weights import STATISTICS, Number, Weights, weights_of
from dagprofiler.errors import WeightError, counted
from dagprofiler.graph.wiring import kahn_order

_checked_workers = partial(integer, "workers", least=1, error=ValueError)

#: Paths whose lengths differ by less than this share of the longest are equally long: sums of
#: floats are not exact.
_NEAR = 1e-9
_LESS = 1 - _NEAR

#: Source and target of an edge.
Pair = tuple[str, str]

#: Costs of tasks, and times of edges, in the unit of the analysis.
Costs = Mapping[str, Number]
Delays = Mapping[Pair, Number]

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
        graph = self.without_communication.graph
        steps = dict.fromkeys([edge[2:] for edge in graph.edges], 1)
        levels = graph.starts(dict.fromkeys(self.weights.values, 0), steps)
        return {name: int(level) for name, level in levels.items()}

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
        return paths_of(self).bottlenecks

    def makespan_lower_bound(self, workers: int) -> Number:
        """Return ``max(span, work / workers)``: no schedule on equal workers is shorter.

        Communication is left out, since tasks on one worker need none.
        """
        return max(self.span, self.work / _checked_workers(workers))

    def makespan_upper_bound(self, workers: int) -> Number:
        """Return ``span + (work - span) / workers``.

        No schedule is longer on equal workers that never idle while a task is ready, if
        communication costs nothing (Graham's bound).
        """
        return self.span + (self.work - self.span) / _checked_workers(workers)

    def speedup_bound(self, workers: int) -> float | None:
        """Return ``work / makespan_lower_bound(workers)``, an upper bound of the speed-up.

        None if nothing costs anything.
        """
        return self.work / self.makespan_lower_bound(workers) if self.span else None

    def blocks(self) -> list[Block]:
        """Return the figures and paths, and tables of bounds, bottlenecks, spans and tasks."""
        alone, communicating = self.without_communication, self.with_communication
        tasks, levels = counted(len(self.levels), "task"), counted(len(self.widths), "level")
        widest, unit = max(self.widths, default=0), self.weights.unit
        notes = [
            f"costs: {printable(self.weights.provenance)}",
            f"communication: {self.communication_note}",
        ]
        if self.weights.filled:
            of_tasks = counted(len(self.weights.filled), "task")
            notes.append(f"given, not measured, for {of_tasks}: {some(self.weights.filled)}")
        if self.unknown_edges:
            edges = counted(len(self.unknown_edges), "edge")
            notes.append(f"unknown, counted as 0, on {edges}: {some(self.unknown_edges)}")
        figures: list[tuple[str, Number | None]] = [("work", self.work), ("span", self.span)]
        paths = [f"critical path: {route(alone.critical_path)}"]
        if communicating is not None:
            figures.append(("span with communication", communicating.span))
            if communicating.critical_path != alone.critical_path:
                paths.append(f"with communication: {route(communicating.critical_path)}")
        figures.append(("average parallelism", self.average_parallelism))
        figures.append(("communication / computation", self.ccr))
        spans = [] if self.critical_spans is None else [span_block(asdict(self.critical_spans))]
        return [
            Block(f"{tasks} in {levels} of up to {widest:,}, in {unit}", notes=notes),
            Block(rows=table_of(("", unit), figures)),
            Block(notes=paths),
            Block("equal workers, communication free", table_of(_BOUNDS, bounds_of(self)), ()),
            Block("bottlenecks", table_of(_BOTTLENECKS, self.bottlenecks), (0, 1), "bottlenecks"),
            *spans,
            Block("tasks", table_of(_TASKS, self._tasks()), what="tasks"),
        ]

    def _tasks(self) -> Iterator[tuple[str | Number, ...]]:
        """Yield the rows of the tasks by their earliest start."""
        paths, levels = paths_of(self), self.levels
        starts, slack = paths.earliest_start, paths.slack
        for name in sorted(starts, key=lambda name: (starts[name], levels[name], name)):
            times = starts[name], paths.latest_start[name], slack[name]
            yield name, levels[name], self.weights.values[name], *times


def paths_of(analysis: Analysis) -> Paths:
    """Return the paths with communication, where that is known; without it otherwise."""
    return analysis.with_communication or analysis.without_communication


#: Heads of tables.
_BOUNDS = ("workers", "makespan at least", "at most, if greedy", "speed-up at most")
_BOTTLENECKS = ("bottleneck", "", "cost", "gain if free")
_TASKS = ("task", "level", "cost", "earliest start", "latest start", "slack")


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
    >>> analysis = analyze(profile, cost="estimated")
    >>> analysis.span, analysis.without_communication.critical_path, analysis.average_parallelism
    (50, ('source', 'sink'), 1.0)
    """
    instance("analyze: profile", profile, ProfileData, "a Profile")
    error = partial(WeightError, cost, [])
    if instructions_per_s is not None:
        positive("instructions_per_s", instructions_per_s, error=error)
    if bandwidth_bits_per_s is not None:
        positive("bandwidth_bits_per_s", bandwidth_bits_per_s, error=error)
    choice("size", size, ("spec", "wire"), error=error)
    weights = _at_speed(weights_of(profile, cost, statistic, fill=fill), instructions_per_s)
    pairs = dict.fromkeys(edges_of(profile))
    times, note, unknown = _communication(profile, pairs, weights, bandwidth_bits_per_s, size)
    with collector_paused():
        graph = _Graph(weights.values, profile.dag_structure["execution_order"], pairs)
        paths = alone = Paths.of(graph, weights.values, {})
        if times is not None and any(times.values()):
            paths = Paths.of(graph, weights.values, times)
    return Analysis(
        weights=weights,
        communication=None if times is None else {"->".join(p): t for p, t in times.items()},
        communication_note=note,
        unknown_edges=unknown,
        work=sum(weights.values.values()),
        without_communication=alone,
        with_communication=None if times is None else paths,
        critical_spans=_critical_spans(profile, paths.critical_path),
    )


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
        analysis = analyze(profile, cost=source, statistic=statistic, fill=0)
        if len(analysis.weights.filled) == len(analysis.weights.values):
            # No task has a cost, and without `fill` that is an error with the reason.
            weights_of(profile, source, statistic)
    except WeightError as error:
        if cost is not None:
            raise
        try:
            analysis = analyze(profile, cost="best", statistic=statistic)
        except WeightError:
            return None, str(error)
    return analysis, ""


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


class _Graph:
    """A DAG in topological order.

    Attributes
    ----------
    place
        Task name to its place in the order.
    edges
        Places of source and target of each edge, and their names; by the source's place.
    entries, exits
        Tasks without predecessors, and without successors.
    """

    def __init__(self, nodes: Iterable[str], order: Sequence[str], pairs: Iterable[Pair]) -> None:
        place = {name: i for i, name in enumerate(order)}
        # A profile that was edited, or whose run ended early, may have no order of all tasks.
        edges = _in_order(place, pairs) if place.keys() == {*nodes} else None
        if edges is None or any(source >= target for source, target, _, _ in edges):
            place = {name: i for i, name in enumerate(kahn_order(nodes, pairs))}
            edges = _in_order(place, pairs)
        self.place, self.edges = place, sorted(edges)
        sources, targets = {edge[2] for edge in self.edges}, {edge[3] for edge in self.edges}
        self.entries = [name for name in place if name not in targets]
        self.exits = [name for name in place if name not in sources]

    def starts(self, costs: Costs, delays: Delays) -> dict[str, Number]:
        """Return for each task the longest path to it, without its own cost."""
        # Zeros of the type of the costs.
        starts = {name: 0 * cost for name, cost in costs.items()}
        for _, _, source, target in self.edges:
            delay = delays[source, target] if delays else 0
            arrival = starts[source] + costs[source] + delay
            if arrival > starts[target]:  # noqa: PLR1730  (a call for each edge takes longer)
                starts[target] = arrival
        return starts


def _in_order(place: Mapping[str, int], pairs: Iterable[Pair]) -> list[tuple[int, int, str, str]]:
    return [(place[a], place[b], a, b) for a, b in pairs]


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
    earliest_start
        Top level: the longest path from an entry to the task, without the task's own cost. With
        communication it is HEFT's downward rank.
    bottom_level
        The longest path from the task to an exit, with the task's own cost. With communication
        it is HEFT's upward rank.
    """

    span: Number
    critical_path: tuple[str, ...]
    earliest_start: dict[str, Number]
    bottom_level: dict[str, Number]
    graph: _Graph = field(repr=False, compare=False)
    #: Costs of the tasks, and times of all edges; no times if every edge is free.
    _costs: Costs = field(repr=False)
    _delays: Delays = field(repr=False)

    @classmethod
    def of(cls, graph: _Graph, costs: Costs, delays: Delays) -> Paths:
        """Return the paths of a graph with these costs of tasks and edges."""
        bottom = dict(costs)
        #: The next task of the longest path from each; on a tie the first name.
        following: dict[str, str] = {}
        for _, _, source, target in reversed(graph.edges):
            longest, after = bottom[source], following.get(source)
            delay = delays[source, target] if delays else 0
            length = costs[source] + delay + bottom[target]
            if after is None:
                # Most tasks have one successor.
                following[source], bottom[source] = target, length
                continue
            is_longer, is_near = length * _LESS > longest, length >= longest * _LESS
            if is_longer or (is_near and target < after):
                following[source] = target
            bottom[source] = max(longest, length)
        span = max(bottom.values(), default=0)
        path = sorted(name for name in graph.entries if bottom[name] >= span * _LESS)[:1]
        while path and path[-1] in following:
            path.append(following[path[-1]])
        starts = graph.starts(costs, delays)
        return cls(span, tuple(path), starts, bottom, graph, costs, delays)

    @cached_property
    def bottlenecks(self) -> tuple[Bottleneck, ...]:
        """The ten costliest tasks and edges on the critical path, of those that cost anything.

        By `gain`, then by `cost`, largest first, then tasks before edges.
        """
        path = self.critical_path
        pairs = zip(path, path[1:]) if self._delays else ()
        items: list[tuple[Number, str | Pair]] = [(self._costs[name], name) for name in path]
        items += [(self._delays[pair], pair) for pair in pairs]
        bottlenecks = []
        for cost, item in nlargest(_COSTLIEST, items, key=itemgetter(0)):
            if not cost:
                break
            if isinstance(item, tuple):
                place = self.graph.place[item[0]]
                gain = min(cost, self._loss(place, place + 1, item))
                bottlenecks.append(Bottleneck("->".join(item), "edge", cost, gain))
            else:
                bottlenecks.append(Bottleneck(item, "task", cost, self.gain([item])))
        return tuple(sorted(bottlenecks, key=lambda item: (-item.gain, -item.cost)))

    def gain(self, tasks: Sequence[str]) -> Number:
        """Return how much shorter the span would be if tasks cost nothing; O(V + E) time."""
        if len(tasks) == 1:
            place = self.graph.place[tasks[0]]
            return min(self._costs[tasks[0]], self._loss(place - 1, place + 1))
        costs = {**self._costs, **dict.fromkeys(tasks, 0)}
        starts = self.graph.starts(costs, self._delays)
        return self.span - max([start + costs[name] for name, start in starts.items()])

    def _loss(self, last: int, first: int, edge: Pair | None = None) -> Number:
        """Return how much shorter than the span the longest path is that avoids a task, or an edge.

        What is avoided lies between the places `last` and `first`. Any other path steps over it by
        an edge from `last` or before to `first` or after, or lies wholly before or after it.
        """
        edges, place = self.graph.edges, self.graph.place
        starts, costs, bottom = self.earliest_start, self._costs, self.bottom_level
        lengths = [
            starts[source] + costs[source] + self._delays.get((source, target), 0) + bottom[target]
            for _, target_place, source, target in edges[: bisect_left(edges, (last + 1,))]
            if target_place >= first and (source, target) != edge
        ]
        lengths += [bottom[name] for name in self.graph.entries if place[name] >= first]
        lengths += [starts[name] + costs[name] for name in self.graph.exits if place[name] <= last]
        return _beyond_rounding(self.span - max(lengths, default=0), self.span)

    @cached_property
    def latest_start(self) -> dict[str, Number]:
        """``span - bottom_level``: starting later makes the whole run longer."""
        return {name: self.span - level for name, level in self.bottom_level.items()}

    @cached_property
    def slack(self) -> dict[str, Number]:
        """``latest_start - earliest_start``: 0 for every task on a longest path."""
        starts = self.earliest_start
        return {
            n: _beyond_rounding(at - starts[n], self.span) for n, at in self.latest_start.items()
        }


def _beyond_rounding(difference: Number, span: Number) -> Number:
    """Return a difference of lengths of paths; 0 if it may be one of rounding."""
    return difference if difference > _NEAR * span else 0 * span


def _communication(
    profile: ProfileData,
    pairs: Iterable[Pair],
    weights: Weights,
    bandwidth_bits_per_s: float | None,
    size: str,
) -> tuple[dict[Pair, Number] | None, str, tuple[str, ...]]:
    """Return the time of each edge, what it consists of, and the edges without a known time.

    In the unit of the weights; edges without a time cost 0 if others have one. None, and why, if
    no time is known.
    """
    if weights.unit == "instructions" and bandwidth_bits_per_s is not None:
        how = "give instructions_per_s too, or a time as cost"
        reason = f"bandwidth_bits_per_s gives times, which cannot be added to instructions; {how}"
        raise WeightError(weights.source, [], reason)
    carried, column = profile.metrics.edge_metrics, f"{'size' if size == 'spec' else size}_bytes"
    # An order-only edge is known to cost nothing.
    free = {(e.source, e.target) for e in carried if not (e.data_fields or e.size_bytes)}
    loaded = [pair for pair in pairs if pair not in free]
    if not loaded:
        return dict.fromkeys(pairs, 0), "none, since no edge carries anything", ()
    times, words = {}, []
    # Samples are times of this machine, and instructions_per_s may be of another.
    if weights.source not in ("counted", "estimated"):
        times = _measured(profile, weights, loaded)
    if times:
        scale = " x calibration score" if weights.source == "reference_time" else ""
        words.append(f"measured serialize + deserialize{scale}")
    if bandwidth_bits_per_s is not None:
        sizes = {(e.source, e.target): getattr(e, column) for e in carried}
        # A measured time without a transfer time is incomplete, so it is left out.
        times = {
            pair: 8 * count / bandwidth_bits_per_s * 1e3 + times.get(pair, 0)
            for pair in loaded
            if (count := sizes.get(pair)) is not None
        }
        words.append(f"{size} bits / {bandwidth_bits_per_s:,.12g} a second")
    if not times:
        missing = f"unknown: the profile has no {size} sizes of its edges"
        return None, _UNKNOWN_TIMES if bandwidth_bits_per_s is None else missing, ()
    unknown = tuple("->".join(pair) for pair in loaded if pair not in times)
    return {pair: times.get(pair, 0) for pair in pairs}, " + ".join(words), unknown


_UNKNOWN_TIMES = (
    "unknown: give bandwidth_bits_per_s, or take a run with rounds=..., which measures times of "
    "edges; for costs in instructions give instructions_per_s too"
)


def _measured(profile: ProfileData, weights: Weights, pairs: Iterable[Pair]) -> dict[Pair, Number]:
    """Return the times to serialize and deserialize of the edges that have samples of both."""
    factor = 1.0
    if weights.source == "reference_time":
        factor = profile.sections["environment"]["calibration"]["score"]
    samples, times = profile.samples, {}
    for pair in pairs if samples.edges else ():
        row = samples.edges.get("->".join(pair), {})
        both = zip(row.get("serialize_ms", ()), row.get("deserialize_ms", ()))
        sums = [None if None in times_ms else sum(times_ms) for times_ms in both]
        values = measured_of(samples.rounds, sums)
        if values:
            times[pair] = factor * STATISTICS[weights.statistic](values)
    return times


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

    Over the measured rounds, or over all if none was measured. What lies within ``compute()``
    counts. O(n log n) time in the number of spans.
    """
    measured, place = {*profile.samples.measured}, {task: i for i, task in enumerate(path)}
    computed = {
        (row.task, row.round): (row.compute_start_ms, row.compute_end_ms)
        for row in (profile.timeline.rows() if "spans" in profile.sections else ())
        if row.task in place and (not measured or row.round in measured)
        if row.compute_start_ms is not None and row.compute_end_ms is not None
    }
    if not computed:
        return None
    spans = []
    for span in profile.spans.rows():
        times_ms = computed.get((span.task, span.round))
        if times_ms is not None and span.kind in ("span", "async"):
            start_ms, end_ms = max(span.start_ms, times_ms[0]), min(span.end_ms, times_ms[1])
            if start_ms <= end_ms:
                spans.append(span._replace(start_ms=start_ms, end_ms=end_ms))
    spans.sort(key=lambda span: (place[span.task], span.start_ms, -span.end_ms))
    rounds, self_ms = len({number for _, number in computed}), _self_ms(spans)
    critical = [
        CriticalSpan(
            name=label[1],
            category=label[2],
            tasks=tuple(dict.fromkeys(span.task for span in alike)),
            calls=len(alike) / rounds,
            total_ms=_open_ms(alike) / rounds,
            self_ms=self_ms[label] / rounds if label in self_ms else None,
        )
        for label, alike in grouped((_label(span), span) for span in spans).items()
    ]
    critical.sort(key=lambda span: (span.self_ms is None, -(span.self_ms or 0.0), -span.total_ms))
    compute_ms = sum([end_ms - begin_ms for begin_ms, end_ms in computed.values()])
    uncovered_ms = max(0.0, compute_ms - _open_ms(spans))
    dropped = sum(n for task, n in profile.spans.dropped.items() if task in place)
    means_ms = compute_ms / rounds, uncovered_ms / rounds
    return CriticalSpans(tuple(critical), *means_ms, rounds=rounds, dropped=dropped)


def _label(span: SpanRow) -> tuple[str, str, str]:
    return span.kind, span.name, span.category


def _open_ms(spans: Iterable[SpanRow]) -> float:
    """Return the time in which at least one of the spans of a task in a round was open."""
    times = grouped(((span.task, span.round), (span.start_ms, span.end_ms)) for span in spans)
    return sum([covered(intervals) for intervals in times.values()])


def _self_ms(spans: Iterable[SpanRow]) -> dict[tuple[str, str, str], float]:
    """Return by label the time in spans without that in spans nested in them.

    The spans of a task are sorted by start, those of one start by duration, the longest first.
    """
    self_ms: dict[tuple[str, str, str], float] = defaultdict(float)
    #: For each thread the spans that are still open, the outermost first.
    open_in: dict[tuple[str, int, int], list[SpanRow]] = defaultdict(list)
    for span in spans:
        if span.kind == "span":
            around = open_in[span.task, span.round, span.thread_index]
            while around and around[-1].end_ms <= span.start_ms:
                around.pop()
            self_ms[_label(span)] += span.end_ms - span.start_ms
            if around:
                nested_ms = min(span.end_ms, around[-1].end_ms) - span.start_ms
                self_ms[_label(around[-1])] -= nested_ms
            around.append(span)
    return self_ms


def bounds_of(analysis: Analysis) -> Iterator[tuple[int, Number, Number, float | None]]:
    """Yield 1, 2, 4 ... workers, up to the average parallelism, each with its three bounds."""
    parallelism, workers = analysis.average_parallelism or 0, 1
    while parallelism:
        bounds = analysis.makespan_lower_bound(workers), analysis.makespan_upper_bound(workers)
        yield workers, *bounds, analysis.speedup_bound(workers)
        # Sums of floats are not exact.
        if workers >= round(parallelism, 9):
            break
        workers *= 2


def span_block(critical: JsonObject) -> Block:
    """Return the spans of the critical path, and the time in no span."""
    whole_ms, rounds, dropped = critical["compute_ms"], critical["rounds"], critical["dropped"]
    rows = [
        (
            span["name"],
            some(span["tasks"], 1),
            *(span[key] for key in ("calls", "total_ms", "self_ms")),
            f"{share(span['total_ms' if span['self_ms'] is None else 'self_ms'], whole_ms):.1%}",
        )
        for span in critical["spans"]
    ]
    uncovered_ms = critical["uncovered_ms"]
    rows.append(("(in no span)", "", "", "", uncovered_ms, f"{share(uncovered_ms, whole_ms):.1%}"))
    means = f"means of {counted(rounds, 'round')}" if rounds > 1 else "one round"
    note = f"time of compute() on the path: {number(whole_ms)} ms, {means}"
    if dropped:
        note += f"; there was no room for {counted(dropped, 'span')}: Tracer(limit=...)"
    head = ("critical path by span", "in", "calls", "total ms", "self ms", "of the path")
    return Block("spans", table_of(head, rows), (0, 1), "spans", [note])


def route(names: Sequence[str]) -> str:
    """Return the tasks of a path; of a long path the first and the last tasks."""
    shown = [*names]
    if len(shown) > 12:
        shown[6:-5] = [f"... {len(shown) - 11:,} more ..."]
    return " -> ".join([printable(name) for name in shown]) or "-"
