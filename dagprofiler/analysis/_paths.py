"""Longest paths through a DAG whose tasks and edges have integer costs, and bottlenecks."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any, NamedTuple

from dagprofiler.graph.wiring import kahn_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dagprofiler.analysis.weights import Number


@dataclass(frozen=True)
class Bottleneck:
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
        How much shorter the span would be if it cost nothing, exactly: from 0, where another
        path is as long, to `cost`.
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
    earliest_start
        Top level: the longest path from an entry to the task, without the task's own cost.
    latest_start
        ``span - bottom_level``: starting later makes the whole run longer.
    slack
        ``latest_start - earliest_start``: 0 for every task on a longest path.
    bottom_level
        The longest path from the task to an exit, with the task's own cost.
    bottlenecks
        The tasks and edges on the critical path that cost anything: by `gain`, then by `cost`,
        largest first, then in the order of the path.
    """

    span: Number
    critical_path: tuple[str, ...]
    earliest_start: dict[str, Number]
    latest_start: dict[str, Number]
    slack: dict[str, Number]
    bottom_level: dict[str, Number]
    bottlenecks: tuple[Bottleneck, ...]

    @property
    def upward_rank(self) -> dict[str, Number]:
        """`bottom_level`; with communication, HEFT's upward rank (Topcuoglu et al., 2002)."""
        return self.bottom_level

    @property
    def downward_rank(self) -> dict[str, Number]:
        """`earliest_start`; with communication, HEFT's downward rank (Topcuoglu et al., 2002)."""
        return self.earliest_start


class WeightedGraph:
    """A DAG in numbers: tasks in topological order, edges by source.

    Attributes
    ----------
    names
        Task names in topological order, level by level.
    edges
        Source, target and key of each edge, sources ascending.
    first_edge
        For each task the index of its first edge in `edges`.
    levels
        For each task the largest number of edges on a path to it.
    """

    def __init__(self, nodes: Sequence[str], pairs: Mapping[tuple[str, str], str]) -> None:
        below: dict[str, list[str]] = {name: [] for name in nodes}
        waiting = dict.fromkeys(nodes, 0)
        for source, target in pairs:
            below[source].append(target)
            waiting[target] += 1
        # Kahn's algorithm with a queue: tasks come in the order of their levels.
        self.names = names = [name for name in nodes if not waiting[name]]
        for name in names:
            for target in below[name]:
                waiting[target] -= 1
                if not waiting[target]:
                    names.append(target)
        if len(names) < len(nodes):
            kahn_order(nodes, below)  # raises an error that names the cycle
        self._place = dict(zip(names, range(len(names))))
        self._nodes = nodes
        self.edges = [
            (i, self._place[target], pairs[name, target])
            for i, name in enumerate(names)
            for target in below[name]
        ]
        self.first_edge = list(accumulate((len(below[name]) for name in names), initial=0))
        self.levels = [0] * len(names)
        for i, below_i, _ in self.edges:
            self.levels[below_i] = max(self.levels[below_i], self.levels[i] + 1)

    def is_exit(self, task: int) -> bool:
        """Return whether a task has no successors."""
        return self.first_edge[task] == self.first_edge[task + 1]

    def by_name(self, values: Sequence[Number]) -> dict[str, Any]:
        """Return task name to value, in the order of the profile."""
        return {name: values[self._place[name]] for name in self._nodes}


def in_units(ticks: int, per_unit: int) -> Number:
    """Return a number of ticks in the unit of the analysis."""
    return ticks if per_unit == 1 else ticks / per_unit


def paths_of(
    graph: WeightedGraph, costs: Sequence[int], delays: Sequence[int], per_unit: int
) -> Paths:
    """Return the paths through a graph whose costs and delays are integer ticks."""
    count = len(costs)
    above, below = [0] * count, [0] * count
    for (source, target, _), delay in zip(graph.edges, delays):
        arrival = above[source] + costs[source] + delay
        above[target] = max(above[target], arrival)
    for (source, target, _), delay in zip(reversed(graph.edges), reversed(delays)):
        remaining = delay + costs[target] + below[target]
        below[source] = max(below[source], remaining)
    bottom = list(map(int.__add__, costs, below))
    span = max(bottom, default=0)
    path = _critical(graph, bottom, below, delays)
    lengths = chain(
        (
            (source, target, above[source] + costs[source] + delay + bottom[target])
            for (source, target, _), delay in zip(graph.edges, delays)
        ),
        ((-1, i, bottom[i]) for i in range(count) if not graph.levels[i]),
        ((i, count, above[i] + costs[i]) for i in range(count) if graph.is_exit(i)),
    )
    gains = _gains(graph, path, costs, delays, lengths)

    def figures(ticks: Iterable[int]) -> dict[str, Number]:
        return graph.by_name([in_units(n, per_unit) for n in ticks])

    return Paths(
        span=in_units(span, per_unit),
        critical_path=tuple(graph.names[i] for i in path.tasks),
        earliest_start=figures(above),
        latest_start=figures(span - n for n in bottom),
        slack=figures(span - n - m for n, m in zip(bottom, above)),
        bottom_level=figures(bottom),
        bottlenecks=tuple(
            Bottleneck(name, kind, in_units(cost, per_unit), in_units(gain, per_unit))
            for name, kind, cost, gain in gains
        ),
    )


class _Path(NamedTuple):
    """A path: indices of its tasks, and of the edges between them."""

    tasks: list[int]
    edges: list[int]


def _critical(
    graph: WeightedGraph, bottom: Sequence[int], below: Sequence[int], delays: Sequence[int]
) -> _Path:
    """Return the longest path; on a tie, the one whose names sort first."""
    path = _Path([], [])
    if not bottom:
        return path
    span = max(bottom)
    names = graph.names
    entries = (i for i, level in enumerate(graph.levels) if not level and bottom[i] == span)
    task = min(entries, key=names.__getitem__)
    path.tasks.append(task)
    while not graph.is_exit(task):
        following = [
            (names[target], target, k)
            for k in range(graph.first_edge[task], graph.first_edge[task + 1])
            for target in (graph.edges[k][1],)
            if delays[k] + bottom[target] == below[task]
        ]
        _, task, edge = min(following)
        path.tasks.append(task)
        path.edges.append(edge)
    return path


def _gains(
    graph: WeightedGraph,
    path: _Path,
    costs: Sequence[int],
    delays: Sequence[int],
    lengths: Iterable[tuple[int, int, int]],
) -> list[tuple[str, str, int, int]]:
    """Return name, kind, cost and gain of each bottleneck, largest gain first.

    The path is a row of slots: task, edge, task ... task. `lengths` has the source and target of
    each edge, and the length of the longest path over it.
    """
    slots = [("", "", 0)] * (2 * len(path.tasks) - 1)
    slots[::2] = [(graph.names[i], "task", costs[i]) for i in path.tasks]
    slots[1::2] = [(graph.edges[k][2], "edge", delays[k]) for k in path.edges]
    span = sum(cost for _, _, cost in slots)
    rest = _longest_avoiding(len(slots), _bypasses(path, len(costs), lengths))
    gains = [
        (name, kind, cost, min(cost, span - avoiding))
        for (name, kind, cost), avoiding in zip(slots, rest)
        if cost
    ]
    # Sorting is stable: on a tie the order of the path remains.
    return sorted(gains, key=lambda entry: (-entry[3], -entry[2]))


def _bypasses(
    path: _Path, count: int, lengths: Iterable[tuple[int, int, int]]
) -> dict[tuple[int, int], int]:
    """Return first and last bypassed slot to the longest path over an edge that bypasses them.

    An edge bypasses the tasks of the path that are strictly between its ends in topological
    order, and the path's edges that begin at its source or later and before its target. Sources
    of -1 and targets of `count` are before and after all tasks.
    """
    on_path = set(path.tasks)
    own = set(zip(path.tasks, path.tasks[1:]))
    #: For each task the number of tasks of the path before it.
    before = list(accumulate((i in on_path for i in range(count)), initial=0))
    last = 2 * len(path.tasks) - 2
    longest: dict[tuple[int, int], int] = {}
    for source, target, length in lengths:
        # After a task of the path comes its edge; after any other the path's next task.
        first = 2 * before[source + 1] - (source in on_path)
        until = min(2 * before[target] - 1, last)
        if first <= until and (source, target) not in own:
            stretch = first, until
            if length > longest.get(stretch, -1):
                longest[stretch] = length
    return longest


def _longest_avoiding(count: int, bypasses: Mapping[tuple[int, int], int]) -> list[int]:
    """Return for each of `count` slots the longest path that avoids it; 0 if there is none."""
    rest = [0] * count
    #: From each slot to the next one without a length; paths are halved on the way.
    following = list(range(count + 1))
    for (first, until), length in sorted(bypasses.items(), key=lambda item: -item[1]):
        slot = first
        while True:
            while following[slot] != slot:
                following[slot] = slot = following[following[slot]]
            if slot > until:
                break
            rest[slot] = length
            following[slot] = slot + 1
    return rest
