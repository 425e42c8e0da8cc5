"""analyze(): what a profile says about how fast its DAG can run, and what stands in the way."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from math import isfinite
from typing import TYPE_CHECKING, Any

from dagprofiler.analysis.communication import Communication, communication_of
from dagprofiler.analysis.paths import Bottleneck, Graph, Paths, in_units, paths_of
from dagprofiler.analysis.spans import CriticalSpan, CriticalSpans, critical_spans
from dagprofiler.analysis.text import analysis_text
from dagprofiler.documents import collector_paused
from dagprofiler.errors import WeightError, short_repr
from dagprofiler.markup import Shown
from dagprofiler.weights import weights_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dagprofiler.profiledata import ProfileData
    from dagprofiler.sources import Number
    from dagprofiler.weights import Weights

__all__ = ["Analysis", "Bottleneck", "CriticalSpan", "CriticalSpans", "Paths", "analyze"]

#: Times are added up as whole picoseconds: exactly, so that paths of one length tie and the slack
#: of a critical task is 0. Whole instructions are added up as they are.
_PER_MS = 10**9


@dataclass(frozen=True)
class Analysis(Shown):
    """What :func:`analyze` finds. ``print`` shows it, and so do notebooks.

    Attributes
    ----------
    weights
        What each task costs, in which unit, from where.
    communication
        Edge, as ``"source->target"``, to its time in the unit of `weights`; None if not known.
    communication_note
        What the times of edges are made of, or why there are none.
    unknown_edges
        Edges whose time is not known while that of others is: they count as 0, and what is said
        with communication is too little.
    work
        Sum of what all tasks cost: the time that one worker takes.
    levels
        For each task the number of edges on the longest way to it.
    without_communication
        Edges cost nothing, as if all workers shared one memory.
    with_communication
        Every edge costs its time, as if every task ran on another worker; None if not known.
    critical_spans
        What the tasks on the critical path spend their time in, with communication where that
        is known; None if nothing was traced.
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
        """``work / span``: what the speed-up cannot exceed on any number of workers.

        None if nothing costs anything.
        """
        return self.work / self.span if self.span else None

    @property
    def widths(self) -> tuple[int, ...]:
        """Number of tasks on each level; those of one level can run side by side."""
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

    def makespan_at_least(self, workers: int) -> Number:
        """Return ``max(span, work / workers)``: no schedule on equal workers is shorter.

        Without communication, since tasks of one worker need none.
        """
        return max(self.span, self.work / _checked(workers))

    def makespan_at_most(self, workers: int) -> Number:
        """Return ``span + (work - span) / workers``.

        No schedule is longer on equal workers that are never idle while a task is ready, if
        communication costs nothing.
        """
        return self.span + (self.work - self.span) / _checked(workers)

    def speedup_at_most(self, workers: int) -> float | None:
        """Return ``work / makespan_at_least(workers)``, an upper bound of the speed-up.

        None if nothing costs anything.
        """
        return self.work / self.makespan_at_least(workers) if self.span else None

    def __str__(self) -> str:
        return analysis_text(self)

    def _repr_html_(self) -> str:
        from dagprofiler.analysis.markup import analysis_markup

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
        Where the costs of tasks come from, as :meth:`Profile.weights` takes them. Samples of edges
        are taken by the same statistic.
    instructions_per_s
        Speed of a worker, finite and above 0. It turns instructions into ms; only for them.
    bandwidth_bits_per_s
        Speed of the links, finite and above 0. An edge then costs its bits / bandwidth, beside
        what was measured for it.
    size
        Which bits: ``"spec"`` by the standard's counting rule, ``"wire"`` as serialized.

    Raises
    ------
    WeightError
        If tasks have no weight, as :meth:`Profile.weights` says; if an argument is unknown, out of
        its range or of no use for these weights; if the costs add up to more than a float holds.
    CycleError
        If the profile was put together by hand and its edges form a cycle.

    Notes
    -----
    The unit is that of the weights: ms for times, reference ms for reference times, and
    instructions, unless `instructions_per_s` makes them ms.

    An edge costs the time to serialize and deserialize its fields, if the profile has samples of
    it, plus its bits / bandwidth, if one is given; without either it is unknown. For reference
    times samples are multiplied by the machine's calibration score, as the tasks' are. Beside
    instructions they are left out: they are times of this machine, and `instructions_per_s` is of
    any. Edges that carry nothing cost nothing. Times are rounded to a picosecond.

    - critical path, earliest and latest start, slack: Kelley and Walker, Critical-Path Planning
      and Scheduling, Proc. Eastern Joint Computer Conference, 1959;
    - top and bottom levels, communication-to-computation ratio: Kwok and Ahmad, ACM Comput. Surv.
      31(4), 1999;
    - upward and downward ranks: Topcuoglu, Hariri and Wu, IEEE Trans. Parallel Distrib. Syst.
      13(3), 2002;
    - bounds of the makespan: Graham, SIAM J. Appl. Math. 17(2), 1969; Brent, J. ACM 21(2), 1974.

    The gain of a bottleneck is ``min(cost, span - rest)``, where `rest` is the longest path that
    avoids it. In a topological order every path has just one edge that begins at or before a place
    and ends after it; `rest` is the longest path over those edges but the bottleneck's own.

    O(V + E) time and memory; O(I log I) time more for the bottlenecks, where I is the number of
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
    """Return instructions as times, if a speed is given."""
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
    graph = Graph(list(weights.values), pairs)
    times = communication.times or {}
    whole = {int} >= {*map(type, weights.values.values()), *map(type, times.values())}
    per_unit = 1 if whole else _PER_MS
    costs = [round(weights.values[name] * per_unit) for name in graph.names]
    delays = [round(times.get(key, 0) * per_unit) for _, _, key in graph.edges]
    work = sum(costs)
    # Nothing larger than this comes up below, so that it overflows here or nowhere.
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
