"""Topology over names: execution order, cycles, and which field an edge carries.

Nothing in here knows what a task is; it sees names of tasks and of fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any

from dagprofiler.errors import CycleError, GraphError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["Route", "Wiring", "kahn_order"]

#: One field on its way: the source's output and the target's input.
Route = tuple[str, str]


def kahn_order(nodes: Sequence[str], successors: Mapping[str, Iterable[str]]) -> list[str]:
    """Return `nodes` in topological order, the smallest ready name first.

    Parameters
    ----------
    nodes
        Distinct names.
    successors
        Name to the names that come after it; names without any may be absent.

    Raises
    ------
    CycleError
        If there is no such order.

    Notes
    -----
    Kahn, Commun. ACM 5(11), 1962, with a heap as its queue, which makes the
    order unique. O((V + E) log V) time.

    Examples
    --------
    >>> kahn_order(["c", "b", "a"], {"a": ["c"]})
    ['a', 'b', 'c']
    """
    names = sorted(nodes)
    index = {name: i for i, name in enumerate(names)}
    below = {index[s]: [index[t] for t in targets] for s, targets in successors.items()}
    return [names[i] for i in _order(names, below)]


def _order(names: Sequence[str], successors: Mapping[int, Iterable[int]]) -> list[int]:
    """Return the Kahn order of indices into the sorted `names`."""
    waiting = [0] * len(names)
    for targets in successors.values():
        for target in targets:
            waiting[target] += 1
    ready = [i for i, count in enumerate(waiting) if not count]
    heapify(ready)
    order = []
    while ready:
        i = heappop(ready)
        order.append(i)
        for target in successors.get(i, ()):
            waiting[target] -= 1
            if not waiting[target]:
                heappush(ready, target)
    if len(order) < len(names):
        stuck = {i for i, count in enumerate(waiting) if count}
        raise CycleError([names[i] for i in _cycle(stuck, successors)])
    return order


def _cycle(stuck: set[int], successors: Mapping[int, Iterable[int]]) -> list[int]:
    """Return one cycle among `stuck`, each of which waits for another of them."""
    predecessor = {t: s for s in stuck for t in successors.get(s, ()) if t in stuck}
    node = min(stuck)
    seen: dict[int, int] = {}
    path: list[int] = []
    while node not in seen:
        seen[node] = len(path)
        path.append(node)
        node = predecessor[node]
    cycle = path[seen[node] :][::-1]
    start = cycle.index(min(cycle))
    return [*cycle[start:], *cycle[: start + 1]]


class Wiring:
    """Who feeds whom with what, resolved once, as the run loop needs it.

    Tasks are numbered in the order of their sorted names, so that the smallest
    number that is ready is what Kahn's order takes next. Every output that
    somebody consumes has a slot of its own.

    Parameters
    ----------
    outputs, inputs
        Task name to its declared fields; the same names in both.
    edges
        Edges in the forms that :class:`dagprofiler.DAG` takes.

    Attributes
    ----------
    names
        Task names, sorted.
    order
        Task numbers in execution order.
    successors
        Source to target to the routes of that edge; sources and targets in
        the order in which the edges name them.
    waiting
        How many predecessors each task has.
    inputs, slots
        For each task the inputs that edges feed, in the order of the edges,
        and the slot from which each is fed.
    puts
        For each task its consumed outputs and the slot of each.
    uses, origins
        For each slot how many inputs it feeds, and whose output it is.
    """

    def __init__(
        self,
        outputs: Mapping[str, Sequence[str]],
        inputs: Mapping[str, Sequence[str]],
        edges: Iterable[Any],
    ) -> None:
        self.names = sorted(outputs)
        self.successors: dict[int, dict[int, tuple[Route, ...]]] = {}
        self.waiting = [0] * len(self.names)
        self.inputs: list[list[str]] = [[] for _ in self.names]
        self.slots: list[list[int]] = [[] for _ in self.names]
        self.puts: list[dict[str, int]] = [{} for _ in self.names]
        self.uses: list[int] = []
        self.origins: list[tuple[int, str]] = []
        self._connect(outputs, inputs, edges)
        self.order = _order(self.names, self.successors)

    def _connect(
        self,
        outputs: Mapping[str, Sequence[str]],
        inputs: Mapping[str, Sequence[str]],
        edges: Iterable[Any],
    ) -> None:
        index = {name: i for i, name in enumerate(self.names)}
        automatic: dict[tuple[int, int], tuple[Route, ...]] = {}
        for edge in edges:
            name, target_name, spec = _split(edge)
            try:
                source, target = index[name], index[target_name]
            except (KeyError, TypeError):
                raise _unknown_task(edge, index) from None
            if source == target:
                raise GraphError(f"edge {name!r} -> {name!r}: a task cannot feed itself")
            if spec is None:
                # Tasks of one class share their declarations, so most edges hit the cache.
                key = (id(outputs[name]), id(inputs[target_name]))
                routes = automatic.get(key)
                if routes is None:
                    routes = automatic[key] = _match(outputs[name], inputs[target_name])
            else:
                routes = _explicit(name, target_name, spec, outputs[name])
            row = self.successors.get(source)
            if row is None:
                row = self.successors[source] = {}
            if target in row:
                row[target] = _merge(name, target_name, row[target], routes)
            else:
                row[target] = routes
                self.waiting[target] += 1
            puts = self.puts[source]
            for field, destination in routes:
                slot = puts.get(field)
                if slot is None:
                    slot = puts[field] = len(self.uses)
                    self.uses.append(0)
                    self.origins.append((source, field))
                self.uses[slot] += 1
                self.inputs[target].append(destination)
                self.slots[target].append(slot)


def _split(edge: Any) -> tuple[Any, Any, Any]:
    """Return (source, target, spec) of an edge in any of its forms."""
    try:
        if len(edge) == 2 and not isinstance(edge, str):
            source, target = edge
            return source, target, None
        source, target, spec = edge
    except (TypeError, ValueError):
        raise GraphError(
            f"edge {edge!r}: expected (source, target) or (source, target, fields)"
        ) from None
    return source, target, spec


def _unknown_task(edge: Any, index: Mapping[str, int]) -> GraphError:
    name = next(n for n in edge[:2] if not isinstance(n, str) or n not in index)
    return GraphError(
        f"edge {edge[0]!r} -> {edge[1]!r}: there is no task {name!r}{did_you_mean(name, [*index])}"
    )


def _match(outputs: Sequence[str], inputs: Sequence[str]) -> tuple[Route, ...]:
    """Return the routes of an edge without fields: equal names, else all outputs."""
    matching = set(outputs).intersection(inputs) or outputs
    return tuple((field, field) for field in sorted(matching))


def _explicit(source: str, target: str, spec: Any, outputs: Sequence[str]) -> tuple[Route, ...]:
    """Return the routes of an edge with a list of fields or a mapping of names."""
    where = f"edge {source!r} -> {target!r}"
    if isinstance(spec, Mapping):
        routes = tuple(spec.items())
    elif isinstance(spec, (list, tuple)):
        routes = tuple((field, field) for field in spec)
    else:
        raise GraphError(
            f"{where}: expected a list of fields or a mapping of outputs to inputs, got {spec!r}"
        )
    seen = set()
    for field, destination in routes:
        if not isinstance(field, str) or field not in outputs:
            raise GraphError(
                f"{where}: field {field!r} is not an output of {source!r} "
                f"(outputs: {', '.join(map(repr, outputs)) or 'none'})"
                f"{did_you_mean(field, outputs)}"
            )
        if not isinstance(destination, str):
            raise GraphError(f"{where}: input {destination!r} is not a name")
        if field in seen:
            raise GraphError(f"{where}: field {field!r} is named twice")
        seen.add(field)
    return routes


def _merge(
    source: str, target: str, first: tuple[Route, ...], second: tuple[Route, ...]
) -> tuple[Route, ...]:
    """Return the routes of two parallel edges as those of one."""
    if first == second:
        raise GraphError(f"edge {source!r} -> {target!r} is given twice")
    common = {field for field, _ in first}.intersection(field for field, _ in second)
    if common:
        raise GraphError(
            f"edge {source!r} -> {target!r}: parallel edges both carry "
            f"{', '.join(map(repr, sorted(common)))}"
        )
    return first + second
