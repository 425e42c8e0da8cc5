"""Topology over names: execution order, cycles, and which field an edge carries.

Nothing in here knows what a task is; it sees names of tasks and of fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from heapq import heappop, heappush
from itertools import accumulate
from keyword import iskeyword
from typing import TYPE_CHECKING, Any

from dagprofiler.errors import CycleError, GraphError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

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
    waiting: list[int], targets: Sequence[int], first_target: Sequence[int]
) -> tuple[Callable[[], int | None], Callable[[int], None]]:
    """Return two functions that hand out tasks as they become ready.

    Parameters
    ----------
    waiting
        For each task how many predecessors it has; counted down from now on.
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
    waiting = [0] * len(names)
    for target in targets:
        waiting[target] += 1
    pop, done = readiness(waiting, targets, first_target)
    order = []
    number = pop()
    while number is not None:
        order.append(number)
        done(number)
        number = pop()
    if len(order) < len(names):
        stuck = {i for i, count in enumerate(waiting) if count}
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
    waiting
        How many predecessors each task has.
    inputs, slots, first_input
        The inputs that edges feed, those of one task together: gathered ones in
        the order of the edges, others by source; the slot that feeds each; and
        where those of each task begin.
    outputs, first_slot
        For each task its declared outputs, and the slot of the first.
    owner, uses
        For each slot whose output it holds, and how many inputs it feeds.
    routes
        Each edge, as ``source * len(names) + target``, to what it carries:
        by source, sources in the order in which edges first name them.
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
        self.uses = [0] * len(self.owner)
        self.waiting = [0] * len(names)
        self.routes: dict[int, tuple[Route, ...]] = {}
        self._connect(inputs, gathers, edges)
        self.targets, self.first_target = _rows(sorted(self.routes), len(names))
        self.order = _order(names, self.targets, self.first_target)

    def _connect(  # noqa: PLR0912  (once an edge: a helper call counts)
        self,
        inputs: Sequence[list[str]],
        gathers: Sequence[Sequence[str]],
        edges: Iterable[Any],
    ) -> None:
        index = {name: i for i, name in enumerate(self.names)}
        outputs, first_slot, uses = self.outputs, self.first_slot, self.uses
        routes_of, waiting, count = self.routes, self.waiting, len(self.names)
        last_outputs = last_inputs = last_source = None
        positions_of = _Positions().of
        #: Each source and when an edge first named it; and whether its edges follow each other.
        sources: dict[int, int] = {}
        grouped = True
        match: tuple[Route, ...] = ()
        fed: list[int] = []
        slots: list[int] = []
        fields: list[str] = []
        for edge in edges:
            spec = None
            if type(edge) is tuple and len(edge) == 2:
                name, target_name = edge
            else:
                name, target_name, spec = _split(edge)
            try:
                source, target = index[name], index[target_name]
            except (KeyError, TypeError):
                raise _unknown_task(name, target_name, index) from None
            if source == target:
                raise GraphError(f"edge {name!r} -> {name!r}: a task cannot feed itself")
            if source != last_source:
                if source in sources:
                    grouped = False
                else:
                    sources[source] = len(sources)
                last_source = source
            if spec is not None:
                positions = positions_of(outputs[source])
                routes = _explicit(name, target_name, spec, positions)
            else:
                # Edges between tasks of the same classes tend to follow each other.
                if outputs[source] is not last_outputs or inputs[target] is not last_inputs:
                    last_outputs, last_inputs = outputs[source], inputs[target]
                    match = _match(positions_of(last_outputs), positions_of(last_inputs))
                routes = match
            number = source * count + target
            if number in routes_of:
                routes_of[number] = self._merge(source, target, routes_of[number], routes)
            else:
                routes_of[number] = routes
                waiting[target] += 1
            for position, field in routes:
                slot = first_slot[source] + position
                uses[slot] += 1
                fed.append(target)
                slots.append(slot)
                fields.append(field)
        self._lay_out(fed, slots, fields)
        if not grouped:
            self._regroup(sources, [set(names) for names in gathers])

    def _lay_out(self, fed: list[int], slots: list[int], fields: list[str]) -> None:
        """Put the inputs of each task together; sorting keeps them in the order of the edges."""
        by_target = sorted(range(len(fed)), key=fed.__getitem__)
        self.slots = [slots[k] for k in by_target]
        self.inputs = [fields[k] for k in by_target]
        lengths = [0] * len(self.names)
        for target in fed:
            lengths[target] += 1
        self.first_input = list(accumulate(lengths, initial=0))

    def _regroup(self, sources: Mapping[int, int], gathers: Sequence[set[str]]) -> None:
        """Bring edges, and inputs that are not gathered, into the order of version 0.1.0.

        There they come by source, sources in the order in which edges first
        name them.
        """
        count, owner = len(self.names), self.owner
        edges = sorted(self.routes, key=lambda edge: sources[edge // count])
        self.routes = {edge: self.routes[edge] for edge in edges}
        for task, gathered in enumerate(gathers):
            begin, end = self.first_input[task], self.first_input[task + 1]
            if end - begin < 2:
                continue
            span = slice(begin, end)
            feeds = list(zip(self.inputs[span], self.slots[span]))
            feeds.sort(key=lambda f: -1 if f[0] in gathered else sources[owner[f[1]]])
            self.inputs[span] = [field for field, _ in feeds]
            self.slots[span] = [slot for _, slot in feeds]

    def _merge(
        self, source: int, target: int, first: tuple[Route, ...], second: tuple[Route, ...]
    ) -> tuple[Route, ...]:
        """Return the routes of two parallel edges as those of one."""
        where = f"edge {self.names[source]!r} -> {self.names[target]!r}"
        if first == second:
            raise GraphError(f"{where} is given twice")
        common = {position for position, _ in first}.intersection(p for p, _ in second)
        if common:
            fields = ", ".join(repr(self.outputs[source][position]) for position in sorted(common))
            raise GraphError(f"{where}: parallel edges both carry {fields}")
        return first + second

    def edges(self) -> Iterator[tuple[int, int, tuple[Route, ...]]]:
        """Yield source, target and routes of each edge, by source."""
        count = len(self.names)
        for key, routes in self.routes.items():
            yield (*divmod(key, count), routes)

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


class _Positions:
    """Lists of fields as mappings of field to position, each made once."""

    def __init__(self) -> None:
        self._made: dict[int, dict[str, int]] = {}

    def of(self, fields: list[str]) -> dict[str, int]:
        """Return the positions in `fields`, a list that lives as long as this object."""
        made = self._made.get(id(fields))
        if made is None:
            made = self._made[id(fields)] = {field: i for i, field in enumerate(fields)}
        return made


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
