"""Wiring: tasks and edges as flat lists, fixed or growing, and their order."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import (
    Callable,
    Iterable,
    Iterator,
    Mapping,
    MutableSequence,
    Sequence,
)
from heapq import heappop, heappush
from itertools import accumulate
from operator import lt
from typing import Any, NamedTuple

from dagprofiler.errors import CycleError
from dagprofiler.graph.edges import Edges, Route, resolved_edges, rows_of

#: How many jobs the driver of a run sends for each worker: one that runs, and one that starts
#: when it ends. Executors and the simulation take the number from here.
JOBS_PER_WORKER = 2


def kahn_order(nodes: Iterable[str], edges: Iterable[tuple[str, str]]) -> list[str]:
    """Return `nodes` in topological order, the smallest ready name first.

    Parameters
    ----------
    nodes
        Distinct names.
    edges
        Pairs of them: source and target.

    Raises
    ------
    CycleError
        If the graph has a cycle.

    Notes
    -----
    Kahn, Commun. ACM 5(11), 1962, with a heap as its queue, which makes the
    order unique. O((V + E) log V) time.

    Examples
    --------
    >>> kahn_order(["c", "b", "a"], [("a", "c")])
    ['a', 'b', 'c']
    """
    names, order, *_ = numbered(nodes, edges)
    return [names[i] for i in order]


def numbered(nodes: Iterable[str], edges: Iterable[tuple[str, str]]) -> NumberedGraph:
    """Return a graph of names in numbers; see :func:`kahn_order`."""
    names = sorted(nodes)
    index = {name: i for i, name in enumerate(names)}
    count = len(names)
    pairs = {index[source] * count + index[target] for source, target in edges}
    targets, first_target = rows_of(sorted(pairs), count)
    return NumberedGraph(names, _order(names, targets, first_target), targets, first_target)


def ready_queue(
    targets: Sequence[int], first_target: Sequence[int]
) -> tuple[Callable[[], int | None], Callable[[int], None]]:
    """Return the two operations of a queue of the tasks that are ready.

    Parameters
    ----------
    targets, first_target
        The successors of all tasks, and where those of each task begin.

    Returns
    -------
    pop
        Removes and returns the smallest ready task number; None if none is ready.
    done
        Marks a task as done, which may make its successors ready.

    Notes
    -----
    A heap and a batch: tasks that become ready together while the batch is
    empty, as in wide stages, are sorted once instead of going through the
    heap. Closures, since calling one takes half the time of a method call.
    """
    #: For each task the number of predecessors that are not done.
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
            # A fast path: most tasks have one successor.
            target = targets[begin]
            waiting[target] = left = waiting[target] - 1
            if not left:
                heappush(heap, target)
            return
        ready = []
        for target in targets[begin:end]:
            waiting[target] = left = waiting[target] - 1
            if not left:
                ready.append(target)
        if len(ready) > 1 and not batch:
            ready.sort(reverse=True)
            batch.extend(ready)
        else:
            for target in ready:
                heappush(heap, target)

    return pop, done


def ready_queue_by(
    ranked: Sequence[int], targets: Sequence[int], first_target: Sequence[int]
) -> tuple[Callable[[], int | None], Callable[[int], None]]:
    """Return the operations of :func:`ready_queue` for another order among the ready tasks.

    Parameters
    ----------
    ranked
        All task numbers by priority, the highest first.
    targets, first_target
        As for :func:`ready_queue`.
    """
    count = len(ranked)
    rank = [0] * count
    for place, number in enumerate(ranked):
        rank[number] = place
    edges = [
        rank[source] * count + rank[target]
        for source in range(count)
        for target in targets[first_target[source] : first_target[source + 1]]
    ]
    pop, done = ready_queue(*rows_of(sorted(edges), count))

    def pop_number() -> int | None:
        place = pop()
        return None if place is None else ranked[place]

    return pop_number, lambda number: done(rank[number])


def ready_queue_along(
    orders: Sequence[Sequence[int]], targets: Sequence[int], first_target: Sequence[int]
) -> tuple[Callable[[], int | None], Callable[[int], None]]:
    """Return the operations of :func:`ready_queue` where each worker has its tasks in order.

    A task is ready when its predecessors are done and the tasks before it in its order have
    been removed.

    Parameters
    ----------
    orders
        The task numbers of each worker, in order; every task once. :func:`check_orders`
        accepts them.
    targets, first_target
        As for :func:`ready_queue`.
    """
    count = len(first_target) - 1
    after: list[int | None] = [None] * count
    waiting = [0] * count
    for target in targets:
        waiting[target] += 1
    for order in orders:
        for i, following in zip(order, order[1:]):
            after[i] = following
            waiting[following] += 1
    heap = [i for i, left in enumerate(waiting) if not left]

    def release(number: int) -> None:
        waiting[number] -= 1
        if not waiting[number]:
            heappush(heap, number)

    def pop() -> int | None:
        if not heap:
            return None
        number = heappop(heap)
        following = after[number]
        if following is not None:
            release(following)
        return number

    def done(number: int) -> None:
        for target in targets[first_target[number] : first_target[number + 1]]:
            release(target)

    return pop, done


def check_orders(
    orders: Sequence[Sequence[int]], targets: Sequence[int], first_target: Sequence[int]
) -> None:
    """Raise a CycleError, with task numbers, if orders contradict the edges of a graph."""
    count = len(first_target) - 1
    edges = {
        source * count + target
        for source in range(count)
        for target in targets[first_target[source] : first_target[source + 1]]
    }
    edges.update(
        number * count + following
        for order in orders
        for number, following in zip(order, order[1:])
    )
    _order(range(count), *rows_of(sorted(edges), count))


def bottom_levels(
    order: Sequence[int],
    targets: Sequence[int],
    first_target: Sequence[int],
    weights: Sequence[float],
) -> list[float]:
    """Return the length of the longest path from each task to a sink, its own weight included.

    Notes
    -----
    The static level of Kwok and Ahmad, ACM Comput. Surv. 31(4), 1999.
    """
    levels = [0.0] * len(order)
    for i in reversed(order):
        below = targets[first_target[i] : first_target[i + 1]]
        levels[i] = weights[i] + max([levels[target] for target in below], default=0.0)
    return levels


class NumberedGraph(NamedTuple):
    """A graph in numbers, without what flows along its edges.

    Attributes
    ----------
    names
        Task names, sorted.
    order
        Task numbers in execution order.
    targets, first_target
        The successors of all tasks, and where those of each task begin.
    """

    names: Sequence[str]
    order: Sequence[int]
    targets: Sequence[int]
    first_target: Sequence[int]


def _order(names: Sequence[Any], targets: Sequence[int], first_target: Sequence[int]) -> list[int]:
    """Return the Kahn order of numbers of the sorted `names`."""
    pop, done = ready_queue(targets, first_target)
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


class Wiring:
    """The data flow between tasks in flat lists, resolved once for the run loop.

    Tasks are numbered in the order of their sorted names, so that the smallest
    ready number is next in Kahn's order. Every declared output has a slot;
    those of one task are adjacent. Flat lists keep graphs of a million tasks
    fast.

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
    grows
        Whether rules may add tasks.
    order
        Task numbers in execution order.
    targets, first_target
        The successors of all tasks, and where those of each task begin.
    sinks
        Tasks without successors.
    inputs, slots, first_input
        For each task the inputs that edges feed: by source, or in the order of the edges for
        a task that gathers; the slots that feed them, of all tasks; and where those of each
        task begin. Tasks that get the same inputs share one list of them.
    outputs, first_slot
        For each task its declared outputs, and the slot of the first.
    owner, uses
        For each slot the task of its output, and the number of inputs it feeds.
    items
        First slot and output of each list of slots that hold one item of that output. Empty
        here; see :class:`~dagprofiler.graph.wiring.GrowableWiring`.
    routes
        Each edge, as ``source * len(names) + target``, to the fields it
        carries: by source, sources in the order in which edges first name them.

    Notes
    -----
    `routes`, `targets` and `first_target`, which only reports, failures and
    parallel runs need, are computed at their first use.
    """

    grows = False

    def __init__(
        self,
        names: list[str],
        outputs: list[tuple[str, ...]],
        inputs: Sequence[tuple[str, ...]],
        gathers: Sequence[tuple[str, ...]],
        edges: Iterable[Any],
    ) -> None:
        self.names = names
        self.outputs = outputs
        self.first_slot: MutableSequence[int] = list(accumulate(map(len, self.outputs), initial=0))
        self.owner: MutableSequence[int] = [
            i for i, fields in enumerate(self.outputs) for _ in fields
        ]
        self.items: list[tuple[int, str]] = []
        self._edges = resolved_edges(names, outputs, inputs, edges)
        self._lay_out(inputs, gathers)
        sources, targets = self._edges.sources, self._edges.targets
        self.sinks = sorted(set(range(len(names))).difference(sources))
        # If all edges lead to larger numbers, the smallest remaining one is always ready.
        self.order: Sequence[int] = range(len(names))
        if not all(map(lt, sources, targets)):
            self.order = _order(names, self.targets, self.first_target)

    def _lay_out(
        self, declared: Sequence[tuple[str, ...]], gathers: Sequence[tuple[str, ...]]
    ) -> None:
        """Group the inputs by task."""
        edges, first_slot = self._edges, self.first_slot
        lengths = [0] * len(self.names)
        for target, routes in zip(edges.targets, edges.routes):
            lengths[target] += len(routes)
        self.first_input: MutableSequence[int] = list(accumulate(lengths, initial=0))
        fields = [""] * self.first_input[-1]
        slots = [0] * self.first_input[-1]
        self.slots: MutableSequence[int] = slots
        self.uses = uses = [0] * len(self.owner)
        #: Where the next input of each task goes.
        places = self.first_input[:]
        for source, target, routes in edges.by_source(gathers):
            place = places[target]
            for position, field in routes:
                slots[place] = slot = first_slot[source] + position
                fields[place] = field
                uses[slot] += 1
                place += 1
            places[target] = place
        all_fields, self.inputs = tuple(fields), list[tuple[str, ...]]()
        shared: dict[tuple[str, ...], tuple[str, ...]] = {}
        for names, begin, end in zip(declared, self.first_input, places):
            arriving = all_fields[begin:end]
            if arriving == names:
                self.inputs.append(names)
            else:
                self.inputs.append(shared.setdefault(arriving, arriving))

    @property
    def routes(self) -> dict[int, tuple[Route, ...]]:
        """Each edge and the fields that it carries."""
        return self._edges.merged

    @property
    def targets(self) -> list[int]:
        """The successors of all tasks."""
        return self._edges.rows[0]

    @property
    def first_target(self) -> list[int]:
        """Where the successors of each task begin."""
        return self._edges.rows[1]

    @property
    def columns(self) -> tuple[Sequence[int], Sequence[int]]:
        """The predecessors of all tasks, and where those of each task begin."""
        return self._edges.columns

    def pairs(self) -> Iterable[int]:
        """Return the numbers of all edges, in the order of `routes`."""
        return self.routes

    def edges(self) -> Iterator[tuple[int, int, tuple[Route, ...]]]:
        """Yield source, target and routes of each edge, by source."""
        count = len(self.names)
        for number, routes in self.routes.items():
            yield (*divmod(number, count), routes)

    def feeds(self, task: int) -> list[tuple[str, int]]:
        """Return the inputs of a task that edges feed, and the slot that feeds each."""
        span = slice(self.first_input[task], self.first_input[task + 1])
        return list(zip(self.inputs[task], self.slots[span]))

    def successors(self, task: int) -> list[int]:
        """Return the direct successors of `task`."""
        return self.targets[self.first_target[task] : self.first_target[task + 1]]

    def predecessors(self, task: int) -> Sequence[int]:
        """Return the direct predecessors of `task`."""
        sources, first_source = self.columns
        return sources[first_source[task] : first_source[task + 1]]

    def fields(self, source: int, routes: Iterable[Route]) -> list[str]:
        """Return the outputs of `source`, or items of them, in `routes`."""
        return [self.field(source, position) for position, _ in routes]

    def field(self, source: int, position: int) -> str:
        """Return the name of the output of `source`, or of an item of one, at a position.

        Items are called ``files[3]``.
        """
        outputs = self.outputs[source]
        if position < len(outputs):
            return outputs[position]
        slot = self.first_slot[source] + position
        first, field = self.items[bisect_left(self.items, (slot + 1,)) - 1]
        return f"{field}[{slot - first}]"

    def field_of(self, slot: int) -> str:
        """Return the name of the output, or of the item of one, in a slot."""
        source = self.owner[slot]
        return self.field(source, slot - self.first_slot[source])

    def wanted(self, task: int) -> list[str]:
        """Return the outputs of a task that feed other tasks."""
        slots = enumerate(self.outputs[task], self.first_slot[task])
        return [field for slot, field in slots if self.uses[slot]]


class GrowableWiring(Wiring):
    """A wiring that grows in place, so that references to its lists stay valid.

    Edges lead from existing tasks to new ones only, so a task's number, slots
    and inputs never change. Tasks are numbered in the order of their addition,
    which is topological: first the given ones, by name.

    Parameters
    ----------
    given
        The initial wiring.

    Attributes
    ----------
    given
        Number of tasks of the initial wiring.
    sources, first_source
        The predecessors of all tasks, and where those of each task begin.
    """

    grows = True

    def __init__(self, given: Wiring) -> None:
        # Without the constructor of the base class: the edges are resolved already.
        self.given = len(given.names)
        self._given_order = [*given.order]
        self.names = [*given.names]
        self.outputs = [*given.outputs]
        self.inputs, self.uses = [*given.inputs], [*given.uses]
        # An array holds a number in 8 bytes, a list in 36.
        self.slots, self.owner = array("q", given.slots), array("q", given.owner)
        self.first_input = array("q", given.first_input)
        self.first_slot = array("q", given.first_slot[: len(given.names)])
        self.items = [*given.items]
        sources, first_source = given.columns
        self.sources, self.first_source = array("q", sources), array("q", first_source)
        self.after: dict[int, list[int]] = {}
        for target, begin in enumerate(first_source[:-1]):
            for source in sources[begin : first_source[target + 1]]:
                self.after.setdefault(source, []).append(target)
        #: The edges of the graph as it is; None after a change.
        self._resolved: Edges | None = None

    def add_items(self, source: int, field: str, count: int) -> int:
        """Add slots for the items of an output of `source`; return the number of the first."""
        first = len(self.owner)
        self.items.append((first, field))
        self.owner.extend([source] * count)
        self.uses += [0] * count
        return first

    def add_task(
        self,
        name: str,
        outputs: tuple[str, ...],
        sources: Sequence[int],
        slots: Sequence[int],
        inputs: tuple[str, ...],
    ) -> None:
        """Add a task with edges from existing tasks.

        Parameters
        ----------
        name, outputs
            Its name and declared outputs.
        sources
            Its direct predecessors.
        slots, inputs
            The slots that feed it, and the input that each feeds.
        """
        self._resolved = None
        self.first_slot.append(len(self.owner))
        self.owner.extend([len(self.names)] * len(outputs))
        self.uses += [0] * len(outputs)
        self.names.append(name)
        self.outputs.append(outputs)
        self.inputs.append(inputs)
        self.slots.extend(slots)
        self.first_input.append(len(self.slots))
        self.sources.extend(sources)
        self.first_source.append(len(self.sources))

    def cut(self, tasks: int, slots: int) -> None:
        """Truncate to the first `tasks` and `slots`."""
        self._resolved = None
        del self.items[bisect_left(self.items, (slots,)) :]
        inputs, sources = self.first_input[tasks], self.first_source[tasks]
        for length, rows in (
            (tasks, (self.names, self.outputs, self.inputs, self.first_slot)),
            (tasks + 1, (self.first_input, self.first_source)),
            (inputs, (self.slots,)),
            (sources, (self.sources,)),
            (slots, (self.owner, self.uses)),
        ):
            for row in rows:
                del row[length:]

    @property
    def columns(self) -> tuple[Sequence[int], Sequence[int]]:
        """The predecessors of all tasks, and where those of each task begin."""
        return self.sources, self.first_source

    def successors(self, task: int) -> list[int]:
        """Return the direct successors of `task`."""
        return self.after.get(task, [])

    def pairs(self) -> Iterable[int]:
        """Return the numbers of all edges, in the order of `routes`, without resolving them."""
        count = len(self.names)
        return (
            source * count + target for source, targets in self.after.items() for target in targets
        )

    def wanted(self, task: int) -> list[str]:
        """Return all outputs of a task: later tasks may need any of them."""
        return list(self.outputs[task])

    @property
    def sinks(self) -> list[int]:  # type: ignore[override]
        """Tasks without successors."""
        return [i for i in range(len(self.names)) if i not in self.after]

    @property
    def order(self) -> Sequence[int]:  # type: ignore[override]
        """Task numbers in execution order: given tasks in Kahn's order, then the added ones."""
        return [*self._given_order, *range(self.given, len(self.names))]

    @property
    def _edges(self) -> Edges:  # type: ignore[override]
        if self._resolved is None:
            self._resolved = self._resolve()
        return self._resolved

    def same_as(self, other: GrowableWiring) -> bool:
        """Tell whether two graphs are the same and grew in the same order."""
        mine, theirs = vars(self), vars(other)
        return all(mine[name] == theirs[name] for name in mine if name not in ("uses", "_resolved"))

    def by_name(self) -> dict[str, tuple[Any, ...]]:
        """Return for each task its outputs, its predecessors and what feeds it, by names."""
        names = self.names
        return {
            name: (
                self.outputs[i],
                {names[source] for source in self.predecessors(i)},
                {
                    (field, names[self.owner[slot]], self.field_of(slot))
                    for field, slot in self.feeds(i)
                },
            )
            for i, name in enumerate(names)
        }

    def _resolve(self) -> Edges:
        edges = Edges(len(self.names), [], [], [])
        # Most edges carry the same fields: they share one tuple.
        shared: dict[tuple[Route, ...], tuple[Route, ...]] = {}
        for target in range(edges.count):
            begin, end = self.first_source[target : target + 2]
            carried: dict[int, tuple[Route, ...]] = dict.fromkeys(self.sources[begin:end], ())
            begin, end = self.first_input[target : target + 2]
            for field, slot in zip(self.inputs[target], self.slots[begin:end]):
                source = self.owner[slot]
                carried[source] += ((slot - self.first_slot[source], field),)
            edges.sources += carried
            edges.targets += [target] * len(carried)
            edges.routes += [shared.setdefault(routes, routes) for routes in carried.values()]
        return edges
