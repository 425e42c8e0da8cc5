"""analyze(): critical path, bounds of the makespan and bottlenecks of a profile's DAG."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from math import isfinite
from typing import TYPE_CHECKING, Any

from dagprofiler._util.html import Markup, Shown, cut_table, details, paragraph, table, view
from dagprofiler._util.json import collector_paused
from dagprofiler._util.text import MOST_ROWS, aligned, and_more, printable
from dagprofiler.analysis._communication import Communication, communication_of
from dagprofiler.analysis._paths import Bottleneck, Paths, WeightedGraph, in_units, paths_of
from dagprofiler.analysis._spans import CriticalSpans, critical_spans
from dagprofiler.analysis.weights import weights_of
from dagprofiler.errors import WeightError, counted, short_repr

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dagprofiler._document import ProfileData
    from dagprofiler.analysis.weights import Number, Weights


#: The assumptions of the bounds.
BOUNDS = "equal workers, communication free:"


def analysis_text(found: Analysis) -> str:
    """Return the figures of an analysis, and tables of bounds, bottlenecks and tasks.

    At most 40 bottlenecks and tasks are shown.
    """
    return "\n".join(
        [
            *notes(found)[0],
            "",
            *aligned(figure_rows(found)),
            "",
            *notes(found)[1],
            *_table(BOUNDS, bound_rows(found), left=()),
            *_table("", bottleneck_rows(found), "bottlenecks", left=(0, 1)),
            *_spans(found),
            *_table("", task_rows(found), "tasks"),
        ]
    )


def _table(
    head: str, rows: Sequence[Sequence[str]], what: str = "", left: Sequence[int] = (0,)
) -> list[str]:
    """Return an empty line, the head and a table, cut after its first rows."""
    if len(rows) < 2:
        return []
    lines = ["", *([head] if head else ()), *aligned(rows[: MOST_ROWS + 1], left=left)]
    return [*lines, *(and_more(len(rows) - 1, what) if what else ())]


def notes(found: Analysis) -> tuple[list[str], list[str]]:
    """Return a line for each source of the figures, and the critical paths."""
    weights, without = found.weights, found.without_communication
    communicating, widest = found.with_communication, max(found.widths, default=0)
    tasks, levels = counted(len(found.levels), "task"), counted(len(found.widths), "level")
    lines = [
        f"{tasks} in {levels} of up to {widest:,}, in {weights.unit}",
        f"costs: {printable(weights.provenance)}",
        f"communication: {found.communication_note}",
    ]
    if weights.filled:
        lines.append(
            f"given, not measured, for {counted(len(weights.filled), 'task')}: "
            f"{_few(weights.filled)}"
        )
    if found.unknown_edges:
        edges = counted(len(found.unknown_edges), "edge")
        lines.append(f"unknown, counted as 0, on {edges}: {_few(found.unknown_edges)}")
    paths = [f"critical path: {_route(without.critical_path)}"]
    if communicating is not None and communicating.critical_path != without.critical_path:
        paths.append(f"with communication: {_route(communicating.critical_path)}")
    return lines, paths


def figure_rows(found: Analysis) -> list[tuple[str, str]]:
    """Return the figures of the whole DAG."""
    communicating = found.with_communication
    rows = [("work", _figure(found.work)), ("span", _figure(found.span))]
    if communicating is not None:
        rows.append(("span with communication", _figure(communicating.span)))
    return [
        *rows,
        ("average parallelism", _figure(found.average_parallelism)),
        ("communication / computation", _figure(found.ccr)),
    ]


def bound_rows(found: Analysis) -> list[Sequence[str]]:
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
        rows.append((f"{workers:,}", *map(_figure, bounds)))
        if workers >= parallelism:
            break
        workers *= 2
    return rows


def bottleneck_rows(found: Analysis) -> list[Sequence[str]]:
    """Return a head and the bottlenecks."""
    return [
        ("bottleneck", "", "cost", "gain if free"),
        *(
            (printable(item.name), item.kind, _figure(item.cost), _figure(item.gain))
            for item in found.bottlenecks
        ),
    ]


def _spans(found: Analysis) -> list[str]:
    """Return a table of the spans inside the tasks on the critical path."""
    critical = found.critical_spans
    if critical is None:
        return []
    more = and_more(len(critical.spans), "spans")
    return ["", *aligned(span_rows(critical, MOST_ROWS), left=(0, 1)), *more, span_note(critical)]


def span_rows(critical: CriticalSpans, most: int) -> list[Sequence[str]]:
    """Return a head, at most `most` spans of the critical path, and the time in no span."""
    rows: list[Sequence[str]] = [
        ("critical path by span", "in", "calls", "total ms", "self ms", "of the path")
    ]
    for span in critical.spans[:most]:
        taken_ms = span.total_ms if span.self_ms is None else span.self_ms
        figures = map(_figure, (span.calls, span.total_ms, span.self_ms))
        share = _share(taken_ms, critical.compute_ms)
        rows.append((printable(span.name), _few(span.tasks), *figures, share))
    uncovered_ms = critical.uncovered_ms
    share = _share(uncovered_ms, critical.compute_ms)
    return [*rows, ("(in no span)", "", "", "", _figure(uncovered_ms), share)]


def span_note(critical: CriticalSpans) -> str:
    """Return the time that the shares of spans refer to."""
    means = f"means of {counted(critical.rounds, 'round')}" if critical.rounds > 1 else "one round"
    note = f"time of compute() on the path: {_figure(critical.compute_ms)} ms, {means}"
    if not critical.dropped:
        return note
    return f"{note}; there was no room for {counted(critical.dropped, 'span')}: Tracer(limit=...)"


def _share(part_ms: float, whole_ms: float) -> str:
    return f"{part_ms / whole_ms:.1%}" if whole_ms else "-"


def task_rows(found: Analysis) -> list[Sequence[str]]:
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
        rows.append((printable(name), *map(_figure, figures)))
    return rows


def _figure(value: float | None) -> str:
    """Return a number with three decimals, or three significant digits below 0.1."""
    if value is None:
        return "-"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.3g}" if 0 < value < 0.1 else f"{value:,.3f}"


def _few(names: Sequence[str]) -> str:
    return ", ".join(map(printable, names[:5])) + (", ..." if len(names) > 5 else "")


def _route(names: Sequence[str]) -> str:
    """Return the tasks of a path; of a long path the first and the last tasks."""
    shown = [*map(printable, names)]
    if len(shown) > 12:
        shown[6:-5] = [f"... {len(shown) - 11:,} more ..."]
    return " -> ".join(shown) or "-"


#: Most spans that are shown.
_SPANS = 15


def analysis_markup(found: Analysis) -> str:
    """Return figures and critical path; bounds, bottlenecks and tasks are folded."""
    about, paths = notes(found)
    bounds, bottlenecks, tasks = bound_rows(found), bottleneck_rows(found), task_rows(found)
    return view(
        *(paragraph(line, quiet=True) for line in about),
        table(("", found.weights.unit), figure_rows(found)),
        *map(paragraph, paths),
        details(BOUNDS.rstrip(":"), cut_table(bounds, "", left=())) if len(bounds) > 1 else "",
        details("bottlenecks", cut_table(bottlenecks, "bottlenecks", left=(0, 1))),
        _spans_html(found),
        details("tasks", cut_table(tasks, "tasks")),
    )


def _spans_html(found: Analysis) -> Markup:
    critical = found.critical_spans
    if critical is None:
        return Markup()
    rows = span_rows(critical, _SPANS)
    note = paragraph(span_note(critical), quiet=True)
    return details("critical path by span", cut_table(rows, "", left=(0, 1)), note)


#: Times are added as integer picoseconds, exactly, so that paths of equal length tie and the
#: slack of a critical task is 0. Integer instructions are added as they are.
_PER_MS = 10**9


@dataclass(frozen=True)
class Analysis(Shown):
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

    def __str__(self) -> str:
        return analysis_text(self)

    def _repr_html_(self) -> str:

        return analysis_markup(self)


def analyze(
    profile: ProfileData,
    *,
    cost: str = "best",
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
        Where the costs of tasks come from, as for :meth:`Profile.weights`. The statistic applies
        to the samples of edges too.
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
