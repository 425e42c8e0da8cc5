"""Topology over names: execution order, cycles, and which field an edge carries.

Nothing in here knows what a task is; it sees names of tasks and of fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heappop, heappush
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from dagprofiler.errors import CycleError, GraphError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = ["ReadyQueue", "Route", "Wiring", "kahn_order", "released"]

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
    below = {index[s]: [index[t] for t in targets] for s, targets in successors.items()}
    return [names[i] for i in _order(names, below)]


def _order(names: Sequence[str], successors: Mapping[int, Iterable[int]]) -> list[int]:
    """Return the Kahn order of indices into the sorted `names`."""
    waiting = [0] * len(names)
    for targets in successors.values():
        for target in targets:
            waiting[target] += 1
    ready = ReadyQueue(i for i, count in enumerate(waiting) if not count)
    order = []
    while ready:
        i = ready.pop()
        order.append(i)
        targets = successors.get(i)
        if targets:
            ready.add(released(targets, waiting))
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
    number that is ready is what Kahn's order takes next. Every declared output
    has a slot, those of one task side by side. Flat lists, since a graph of a
    million tasks is nothing special.

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
        Task number to the numbers that follow it; tasks without any are absent.
    waiting
        How many predecessors each task has.
    inputs, slots
        For each task the inputs that edges feed, in the order of the edges,
        and the slot from which each is fed.
    outputs, first_slot
        For each task its declared outputs, and the slot of the first.
    owner, uses
        For each slot whose output it holds, and how many inputs it feeds.
    routes
        Each edge, as ``source * len(names) + target``, to what it carries; in
        the order in which the edges were given.
    """

    def __init__(
        self,
        outputs: Mapping[str, Sequence[str]],
        inputs: Mapping[str, Sequence[str]],
        edges: Iterable[Any],
    ) -> None:
        self.names = names = sorted(outputs)
        self.outputs = [outputs[name] for name in names]
        self.first_slot = list(accumulate(map(len, self.outputs), initial=0))
        self.owner = [i for i, fields in enumerate(self.outputs) for _ in fields]
        self.uses = [0] * len(self.owner)
        self.inputs: list[list[str]] = [[] for _ in names]
        self.slots: list[list[int]] = [[] for _ in names]
        self.waiting = [0] * len(names)
        self.successors: dict[int, list[int]] = {}
        self.routes: dict[int, tuple[Route, ...]] = {}
        self._connect([inputs[name] for name in names], edges)
        self.order = _order(names, self.successors)

    def _connect(self, inputs: Sequence[Sequence[str]], edges: Iterable[Any]) -> None:
        index = {name: i for i, name in enumerate(self.names)}
        outputs, count = self.outputs, len(self.names)
        last_outputs = last_inputs = last_match = None
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
            if spec is not None:
                routes = _explicit(name, target_name, spec, outputs[source])
            elif outputs[source] is last_outputs and inputs[target] is last_inputs:
                # Edges between tasks of the same classes tend to follow each other.
                routes = last_match
            else:
                last_outputs, last_inputs = outputs[source], inputs[target]
                routes = last_match = _match(last_outputs, last_inputs)
            key = source * count + target
            if key in self.routes:
                self.routes[key] = self._merge(source, target, self.routes[key], routes)
            else:
                self.routes[key] = routes
                self.waiting[target] += 1
                if source in self.successors:
                    self.successors[source].append(target)
                else:
                    self.successors[source] = [target]
            for position, field in routes:
                slot = self.first_slot[source] + position
                self.uses[slot] += 1
                self.inputs[target].append(field)
                self.slots[target].append(slot)

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
        """Yield source, target and routes of each edge, in the order given."""
        count = len(self.names)
        for key, routes in self.routes.items():
            yield (*divmod(key, count), routes)

    def source_of(self, slot: int) -> tuple[int, str]:
        """Return whose output a slot holds, and its name."""
        source = self.owner[slot]
        return source, self.outputs[source][slot - self.first_slot[source]]

    def fields(self, source: int, routes: Iterable[Route]) -> list[str]:
        """Return the outputs of `source` that travel on `routes`."""
        outputs = self.outputs[source]
        return [outputs[position] for position, _ in routes]


def _split(edge: Any) -> tuple[Any, Any, Any]:
    """Return (source, target, spec) of an edge in any of its forms."""
    try:
        if isinstance(edge, (str, Mapping)):
            raise TypeError  # noqa: TRY301  (they unpack, but are no pairs)
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


def _match(outputs: Sequence[str], inputs: Sequence[str]) -> tuple[Route, ...]:
    """Return the routes of an edge without fields: equal names, else all outputs."""
    matching = set(outputs).intersection(inputs) or outputs
    return tuple((outputs.index(field), field) for field in sorted(matching))


def _explicit(source: str, target: str, spec: Any, outputs: Sequence[str]) -> tuple[Route, ...]:
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
                f"{did_you_mean(field, outputs)}"
            )
        if not isinstance(destination, str):
            raise GraphError(f"{where}: input {destination!r} is not a name")
        position = outputs.index(field)
        if position in routes:
            raise GraphError(f"{where}: field {field!r} is named twice")
        routes[position] = destination
    return tuple(routes.items())


class ReadyQueue:
    """Numbers of tasks that are ready, the smallest first.

    A heap, and beside it a batch: what became ready all at once when there was
    no batch is sorted once and then costs nothing more, which is what the wide
    stages of a graph are made of.
    """

    __slots__ = ("_batch", "_heap")

    def __init__(self, numbers: Iterable[int]) -> None:
        self._batch = sorted(numbers, reverse=True)
        self._heap: list[int] = []

    def __bool__(self) -> bool:
        return bool(self._batch or self._heap)

    def pop(self) -> int:
        """Remove the smallest number and return it."""
        batch, heap = self._batch, self._heap
        if batch and (not heap or batch[-1] < heap[0]):
            return batch.pop()
        return heappop(heap)

    def add(self, numbers: list[int]) -> None:
        """Add numbers in any order."""
        if not self._batch and len(numbers) > 1:
            numbers.sort(reverse=True)
            self._batch = numbers
        else:
            for number in numbers:
                heappush(self._heap, number)


def released(targets: Iterable[int], waiting: list[int]) -> list[int]:
    """Count down what `targets` wait for; return those that wait for nothing now."""
    ready = []
    for target in targets:
        waiting[target] = left = waiting[target] - 1
        if not left:
            ready.append(target)
    return ready
