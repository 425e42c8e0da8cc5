"""Topology over names: execution order, cycles, and which field an edge carries.

Nothing in here knows what a task is; it sees names of tasks and of fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from itertools import accumulate
from keyword import iskeyword
from operator import eq, lt, ne
from typing import TYPE_CHECKING, Any

from dagprofiler.errors import CycleError, GraphError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

__all__ = ["Route", "Wiring", "field_problem", "kahn_order", "readiness"]

#: One field on its way: its position among the source's outputs, and the target's input.
Route = tuple[int, str]


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
    count = len(names)
    edges = [index[s] * count + index[t] for s, targets in successors.items() for t in targets]
    targets, first_target = _rows(sorted(edges), count)
    return [names[i] for i in _order(names, targets, first_target)]


def _rows(edges: Sequence[int], count: int) -> tuple[list[int], list[int]]:
    """Return the targets of sorted edges, and for each source where its own begin.

    Edges are numbers, ``source * count + target``: flat lists of numbers cost
    the garbage collector nothing, which an object for each task would.
    """
    lengths = [0] * count
    for edge in edges:
        lengths[edge // count] += 1
    return [edge % count for edge in edges], list(accumulate(lengths, initial=0))


def readiness(
    targets: Sequence[int], first_target: Sequence[int]
) -> tuple[Callable[[], int | None], Callable[[int], None]]:
    """Return two functions that hand out tasks as they become ready.

    Parameters
    ----------
    targets, first_target
        The successors of all tasks, and where those of each begin.

    Returns
    -------
    pop
        Takes the smallest number that is ready; None if there is none.
    done
        Says that a task is done, which may make others ready.

    Notes
    -----
    A heap, and beside it a batch: what becomes ready at once while there is no
    batch is sorted once and then costs nothing more. Wide stages are of that
    kind. Closures, since a call of them takes half the time of a method's.
    """
    #: How many predecessors of each task are not done.
    waiting = [0] * (len(first_target) - 1)
    for target in targets:
        waiting[target] += 1
    batch = [i for i, count in enumerate(waiting) if not count]
    batch.reverse()
    heap: list[int] = []

    def pop() -> int | None:
        if batch and (not heap or batch[-1] < heap[0]):
            return batch.pop()
        return heappop(heap) if heap else None

    def done(number: int) -> None:
        begin, end = first_target[number], first_target[number + 1]
        if end - begin == 1:
            # Most tasks have one successor; it is worth a way of its own.
            target = targets[begin]
            waiting[target] = left = waiting[target] - 1
            if not left:
                heappush(heap, target)
            return
        free = []
        for target in targets[begin:end]:
            waiting[target] = left = waiting[target] - 1
            if not left:
                free.append(target)
        if len(free) > 1 and not batch:
            free.sort(reverse=True)
            batch.extend(free)
        else:
            for target in free:
                heappush(heap, target)

    return pop, done


def _order(names: Sequence[str], targets: Sequence[int], first_target: Sequence[int]) -> list[int]:
    """Return the Kahn order of numbers of the sorted `names`."""
    pop, done = readiness(targets, first_target)
    order = []
    number = pop()
    while number is not None:
        order.append(number)
        done(number)
        number = pop()
    if len(order) < len(names):
        stuck = set(range(len(names))).difference(order)
        after = {i: targets[first_target[i] : first_target[i + 1]] for i in stuck}
        raise CycleError([names[i] for i in _cycle(stuck, after)])
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


@dataclass
class _Edges:
    """Edges between numbered tasks, in the order in which they are given.

    Attributes
    ----------
    count
        How many tasks there are.
    sources, targets, routes
        For each edge the two tasks, and what it carries.
    """

    count: int
    sources: list[int]
    targets: list[int]
    routes: list[tuple[Route, ...]]

    def by_source(
        self, gathers: Sequence[Collection[str]] = ()
    ) -> Iterator[tuple[int, int, tuple[Route, ...]]]:
        """Return source, target and routes of all edges in the order of version 0.1.0.

        There they come by source, sources in the order in which edges first
        name them. Edges to tasks for which `gathers` holds something keep the
        order in which they are given, and come first.
        """
        sources, targets, routes = self.sources, self.targets, self.routes
        if sum(map(ne, sources, sources[1:])) < len(set(sources)):
            # All edges of a source follow each other.
            return zip(sources, targets, routes)
        turn = {source: k for k, source in enumerate(dict.fromkeys(sources))}
        turns = [turn[source] for source in sources]
        if any(gathers):
            turns = [-1 if gathers[target] else k for target, k in zip(targets, turns)]
        order = sorted(range(len(turns)), key=turns.__getitem__)
        return zip(
            map(sources.__getitem__, order),
            map(targets.__getitem__, order),
            map(routes.__getitem__, order),
        )

    @cached_property
    def merged(self) -> dict[int, tuple[Route, ...]]:
        """Each edge, as ``source * count + target``, to what it and those parallel to it carry."""
        merged: dict[int, tuple[Route, ...]] = {}
        for source, target, routes in self.by_source():
            number = source * self.count + target
            merged[number] = merged.get(number, ()) + routes
        return merged

    @cached_property
    def rows(self) -> tuple[list[int], list[int]]:
        """The successors of all tasks, and where those of each begin."""
        return _rows(sorted(self.merged), self.count)


class Wiring:
    """Who feeds whom with what, resolved once, as the run loop needs it.

    Tasks are numbered in the order of their sorted names, so that the smallest
    number that is ready is what Kahn's order takes next. Every declared output
    has a slot, those of one task side by side. Flat lists, since a graph of a
    million tasks is nothing special.

    Parameters
    ----------
    names
        Task names, sorted.
    outputs, inputs, gathers
        For each task its declared fields.
    edges
        Edges in the forms that :class:`dagprofiler.DAG` takes.

    Attributes
    ----------
    order
        Task numbers in execution order.
    targets, first_target
        The successors of all tasks, and where those of each task begin.
    sinks
        Tasks without successors.
    inputs, slots, first_input
        The inputs that edges feed, those of one task together: by source, but
        of a task that gathers in the order of the edges; the slot that feeds
        each; and where those of each task begin.
    outputs, first_slot
        For each task its declared outputs, and the slot of the first.
    owner, uses
        For each slot whose output it holds, and how many inputs it feeds.
    routes
        Each edge, as ``source * len(names) + target``, to what it carries:
        by source, sources in the order in which edges first name them.

    Notes
    -----
    What only reports, failures and parallel runs need is made when asked for:
    `routes`, `targets` and `first_target`.
    """

    def __init__(
        self,
        names: list[str],
        outputs: list[list[str]],
        inputs: Sequence[list[str]],
        gathers: Sequence[Sequence[str]],
        edges: Iterable[Any],
    ) -> None:
        self.names = names
        self.outputs = outputs
        self.first_slot = list(accumulate(map(len, self.outputs), initial=0))
        self.owner = [i for i, fields in enumerate(self.outputs) for _ in fields]
        self._edges = _resolved(names, outputs, inputs, list(edges))
        self._lay_out(gathers)
        sources, targets = self._edges.sources, self._edges.targets
        self.sinks = sorted(set(range(len(names))).difference(sources))
        # Where all edges lead to larger numbers, the smallest one left is always ready.
        self.order: Sequence[int] = range(len(names))
        if not all(map(lt, sources, targets)):
            self.order = _order(names, self.targets, self.first_target)

    def _lay_out(self, gathers: Sequence[Collection[str]]) -> None:
        """Put the inputs of each task together."""
        edges, first_slot = self._edges, self.first_slot
        lengths = [0] * len(self.names)
        for target, routes in zip(edges.targets, edges.routes):
            lengths[target] += len(routes)
        self.first_input = list(accumulate(lengths, initial=0))
        self.inputs = inputs = [""] * self.first_input[-1]
        self.slots = slots = [0] * self.first_input[-1]
        self.uses = uses = [0] * len(self.owner)
        #: Where the next input of each task goes.
        places = self.first_input[:]
        for source, target, routes in edges.by_source(gathers):
            for position, field in routes:
                place = places[target]
                places[target] = place + 1
                inputs[place] = field
                slot = first_slot[source]
                if position:
                    # Most tasks have one output, whose number is there already.
                    slot += position
                slots[place] = slot
                uses[slot] += 1

    @property
    def routes(self) -> dict[int, tuple[Route, ...]]:
        """Each edge and what it carries."""
        return self._edges.merged

    @property
    def targets(self) -> list[int]:
        """The successors of all tasks."""
        return self._edges.rows[0]

    @property
    def first_target(self) -> list[int]:
        """Where the successors of each task begin."""
        return self._edges.rows[1]

    def edges(self) -> Iterator[tuple[int, int, tuple[Route, ...]]]:
        """Yield source, target and routes of each edge, by source."""
        count = len(self.names)
        for number, routes in self.routes.items():
            yield (*divmod(number, count), routes)

    def feeds(self, task: int) -> list[tuple[str, int]]:
        """Return the inputs of a task that edges feed, and the slot that feeds each."""
        span = slice(self.first_input[task], self.first_input[task + 1])
        return list(zip(self.inputs[span], self.slots[span]))

    def successors(self, task: int) -> list[int]:
        """Return the tasks that an edge leads to from `task`."""
        return self.targets[self.first_target[task] : self.first_target[task + 1]]

    def fields(self, source: int, routes: Iterable[Route]) -> list[str]:
        """Return the outputs of `source` that travel on `routes`."""
        outputs = self.outputs[source]
        return [outputs[position] for position, _ in routes]


def _resolved(
    names: Sequence[str],
    outputs: Sequence[list[str]],
    inputs: Sequence[list[str]],
    edges: Sequence[Any],
) -> _Edges:
    """Return what edges, in any of their forms, say in numbers."""
    count = len(names)
    index = dict(zip(names, range(count)))
    matches = _Matches(outputs, inputs)
    plain = _plain_pairs(edges, index)
    if plain is not None:
        # Two columns at once, each in a loop in C.
        kinds = zip(*map(map, (matches.source.__getitem__, matches.target.__getitem__), plain))
        return _Edges(count, *plain, list(map(matches.__getitem__, kinds)))
    resolved = _Edges(count, [], [], [])
    carried: dict[int, tuple[Route, ...]] = {}
    for edge in edges:
        name, target_name, spec = _split(edge)
        try:
            source, target = index[name], index[target_name]
        except (KeyError, TypeError):
            raise _unknown_task(name, target_name, index) from None
        where = f"edge {name!r} -> {target_name!r}"
        if source == target:
            raise GraphError(f"{where}: a task cannot feed itself")
        if spec is None:
            routes = matches[matches.source[source], matches.target[target]]
        else:
            routes = _explicit(name, target_name, spec, matches.positions(matches.source[source]))
        number = source * count + target
        if number in carried:
            _check_parallel(where, carried[number], routes, outputs[source])
        carried[number] = carried.get(number, ()) + routes
        resolved.sources.append(source)
        resolved.targets.append(target)
        resolved.routes.append(routes)
    return resolved


def _plain_pairs(
    edges: Sequence[Any], index: Mapping[str, int]
) -> tuple[list[int], list[int]] | None:
    """Return sources and targets if all edges are different pairs of different known names.

    Else None: what another edge is, and the first that is wrong, is found
    by looking at one after the other.
    """
    if not {tuple}.issuperset(map(type, edges)):
        return None
    try:
        sources = [index[source] for source, _ in edges]
        targets = [index[target] for _, target in edges]
    except (KeyError, TypeError, ValueError):
        return None
    if len(set(edges)) < len(edges) or any(map(eq, sources, targets)):
        return None
    return sources, targets


def _check_parallel(
    where: str, first: tuple[Route, ...], second: tuple[Route, ...], outputs: Sequence[str]
) -> None:
    """Raise a GraphError if two parallel edges carry the same, which :func:`_resolved` merges."""
    if first == second:
        raise GraphError(f"{where} is given twice")
    common = {position for position, _ in first}.intersection(p for p, _ in second)
    if common:
        fields = ", ".join(repr(outputs[position]) for position in sorted(common))
        raise GraphError(f"{where}: parallel edges both carry {fields}")


def _split(edge: Any) -> tuple[Any, Any, Any]:
    """Return (source, target, spec) of an edge in any of its forms."""
    try:
        if isinstance(edge, (str, Mapping, AbstractSet)):
            raise TypeError
        if len(edge) == 2:
            source, target = edge
            return source, target, None
        source, target, spec = edge
    except (TypeError, ValueError):
        raise GraphError(
            f"edge {edge!r}: expected (source, target) or (source, target, fields)"
        ) from None
    return source, target, spec


def _unknown_task(source: Any, target: Any, index: Mapping[str, int]) -> GraphError:
    name = source if not isinstance(source, str) or source not in index else target
    return GraphError(
        f"edge {source!r} -> {target!r}: there is no task {name!r}{did_you_mean(name, [*index])}"
    )


def field_problem(name: Any) -> str | None:
    """Return why `name` cannot be a field, a keyword argument of ``compute()``; None if it can."""
    if not isinstance(name, str):
        return "is not a name"
    if not name.isidentifier() or iskeyword(name):
        return "cannot be a keyword argument"
    if name in ("cfg", "self"):
        return "compute() keeps for itself"
    return None


class _Matches(dict[tuple[int, int], tuple[Route, ...]]):
    """What edges without fields carry: found once for all between tasks of the same kinds.

    The keys are pairs of an item of `source` and an item of `target`.

    Attributes
    ----------
    source, target
        For each task its kind as a source and as a target of edges: the identity of its
        list of outputs, and of inputs, which tasks that are alike share.
    """

    def __init__(self, outputs: Sequence[list[str]], inputs: Sequence[list[str]]) -> None:
        super().__init__()
        self.source = list(map(id, outputs))
        self.target = list(map(id, inputs))
        self._fields = dict(zip(self.source, outputs))
        self._fields.update(zip(self.target, inputs))
        self._positions: dict[int, dict[str, int]] = {}

    def __missing__(self, kinds: tuple[int, int]) -> tuple[Route, ...]:
        match = self[kinds] = _match(*map(self.positions, kinds))
        return match

    def positions(self, kind: int) -> dict[str, int]:
        """Return the fields of tasks of a kind, and where each stands among them."""
        if kind not in self._positions:
            self._positions[kind] = {field: i for i, field in enumerate(self._fields[kind])}
        return self._positions[kind]


def _match(outputs: Mapping[str, int], inputs: Mapping[str, int]) -> tuple[Route, ...]:
    """Return the routes of an edge without fields: equal names, else all outputs."""
    few, many = (outputs, inputs) if len(outputs) < len(inputs) else (inputs, outputs)
    matching = [field for field in few if field in many] or outputs
    return tuple((outputs[field], field) for field in sorted(matching))


def _explicit(source: str, target: str, spec: Any, outputs: Mapping[str, int]) -> tuple[Route, ...]:
    """Return the routes of an edge with a list of fields or a mapping of names."""
    where = f"edge {source!r} -> {target!r}"
    if isinstance(spec, Mapping):
        pairs = list(spec.items())
    elif isinstance(spec, (list, tuple)):
        pairs = [(field, field) for field in spec]
    else:
        raise GraphError(
            f"{where}: expected a list of fields or a mapping of outputs to inputs, got {spec!r}"
        )
    routes: dict[int, str] = {}
    for field, destination in pairs:
        if not isinstance(field, str) or field not in outputs:
            raise GraphError(
                f"{where}: field {field!r} is not an output of {source!r} "
                f"(outputs: {', '.join(map(repr, outputs)) or 'none'})"
                f"{did_you_mean(field, list(outputs))}"
            )
        problem = field_problem(destination)
        if problem is not None:
            raise GraphError(f"{where}: input {destination!r} {problem}")
        position = outputs[field]
        if position in routes:
            raise GraphError(f"{where}: field {field!r} is named twice")
        routes[position] = destination
    return tuple(routes.items())
