"""Wiring: tasks and edges as flat lists, fixed or growing, and their order."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, MutableSequence, Sequence
from copy import copy
from heapq import heapify, heappop, heappush
from itertools import accumulate
from typing import Any, NamedTuple

from dagprofiler.errors import CycleError
from dagprofiler.graph.edges import Edges, Fields, Routes, Rows, resolved_edges

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
    graph = numbered(nodes, edges)
    return [graph.names[i] for i in graph.order]


def numbered(nodes: Iterable[str], edges: Iterable[tuple[str, str]]) -> NumberedGraph:
    """Return a graph of names in numbers; see :func:`kahn_order`."""
    names = sorted(nodes)
    index = {name: i for i, name in enumerate(names)}
    count = len(names)
    pairs = {index[source] * count + index[target] for source, target in edges}
    below = Rows(sorted(pairs), count)
    return NumberedGraph(names, _order(names, below), below)


class ReadyTasks:
    """The tasks of a fixed graph that are ready: a heap, the first in Kahn's order on top.

    Parameters
    ----------
    below
        The successors of all tasks.
    ranked
        All tasks by priority: of several ready ones, the first of them goes first. None for
        the smallest number.
    orders
        Tasks in the order in which they have to go, as those of one worker: each waits until
        the one before it has been removed, too.

    Notes
    -----
    Kahn, Commun. ACM 5(11), 1962.
    """

    def __init__(
        self, below: Rows, ranked: Sequence[int] | None = None, orders: Iterable[Sequence[int]] = ()
    ) -> None:
        self._below = below
        self._ranked: Sequence[int] = range(len(below)) if ranked is None else ranked
        #: The place of each task in `ranked`.
        self._rank = [0] * len(below)
        for place, task in enumerate(self._ranked):
            self._rank[task] = place
        #: The task after each in its order.
        self._following = {a: b for order in orders for a, b in zip(order, order[1:])}
        #: For each task the number of tasks that it waits for.
        self._waiting = [0] * len(below)
        for task in (*below.numbers, *self._following.values()):
            self._waiting[task] += 1
        self._heap = [self._rank[i] for i, waiting in enumerate(self._waiting) if not waiting]
        heapify(self._heap)

    def pop(self) -> int | None:
        """Remove and return the first task that is ready; None if none is."""
        if not self._heap:
            return None
        task = self._ranked[heappop(self._heap)]
        if task in self._following:
            self._release(self._following[task])
        return task

    def done(self, task: int) -> None:
        """Mark a task as done, which may make its successors ready."""
        for target in self._below[task]:
            self._release(target)

    def _release(self, task: int) -> None:
        self._waiting[task] -= 1
        if not self._waiting[task]:
            heappush(self._heap, self._rank[task])


def check_orders(orders: Sequence[Sequence[int]], below: Rows) -> None:
    """Raise a CycleError, with task numbers, if orders contradict the edges of a graph."""
    _order(range(len(below)), below, orders)


def bottom_levels(order: Sequence[int], below: Rows, weights: Sequence[float]) -> list[float]:
    """Return the length of the longest path from each task to a sink, its own weight included.

    Notes
    -----
    The static level of Kwok and Ahmad, ACM Comput. Surv. 31(4), 1999.
    """
    levels = [0.0] * len(order)
    for i in reversed(order):
        longest = max([levels[target] for target in below[i]], default=0.0)
        levels[i] = weights[i] + longest
    return levels


class NumberedGraph(NamedTuple):
    """A graph in numbers, without what flows along its edges.

    Attributes
    ----------
    names
        Task names, sorted.
    order
        Task numbers in execution order.
    below
        The successors of all tasks.
    """

    names: Sequence[str]
    order: Sequence[int]
    below: Rows


def _order(names: Sequence[Any], below: Rows, orders: Sequence[Sequence[int]] = ()) -> list[int]:
    """Return the Kahn order of numbers of the sorted `names`; see :class:`ReadyTasks`."""
    ready, order = ReadyTasks(below, orders=orders), []
    while (number := ready.pop()) is not None:
        order.append(number)
        ready.done(number)
    if len(order) < len(names):
        raise CycleError([names[i] for i in _cycle(below, orders)])
    return order


def _cycle(below: Rows, orders: Sequence[Sequence[int]]) -> list[int]:
    """Return a cycle of a graph that has one, from its smallest task back to it."""
    import graphlib

    sorter: graphlib.TopologicalSorter[int] = graphlib.TopologicalSorter()
    for source in range(len(below)):
        for target in below[source]:
            sorter.add(target, source)
    for tasks in orders:
        for before, after in zip(tasks, tasks[1:]):
            sorter.add(after, before)
    try:
        sorter.prepare()
    except graphlib.CycleError as error:
        *cycle, _ = error.args[1]
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
        Whether rules may add tasks; see :meth:`growing`.
    order
        Task numbers in execution order: Kahn's, then added tasks as they came.
    below
        The successors of all tasks.
    sinks
        The tasks without successors; of a graph that grows, those of its initial graph.
    inputs, slots, first_input
        For each task the inputs that edges feed: by source, or in the order of the edges for
        a task that gathers; the slots that feed them, of all tasks; and where those of each
        task begin.
    outputs, first_slot
        For each task its declared outputs, and the slot of the first.
    owner, uses
        For each slot the task of its output, and the number of inputs it feeds.
    items
        First slot and output of each list of slots that hold one item of that output.
    routes
        Each edge, as ``source * len(names) + target``, to the fields it
        carries: by source, sources in the order in which edges first name them.
    before, after
        Of a graph that grows: the predecessors of each task, and the successors of each that
        has some. Rules enter a new task into `after` once all that they add is accepted.

    Notes
    -----
    `routes` and `below`, which only reports, failures and parallel runs need, are
    computed at their first use.
    """

    def __init__(
        self,
        names: list[str],
        outputs: list[Fields],
        inputs: Sequence[Fields],
        gathers: Sequence[Fields],
        edges: Iterable[object],
    ) -> None:
        self.grows = False
        self.names = names
        self.outputs = outputs
        self.first_slot: MutableSequence[int] = list(accumulate(map(len, outputs), initial=0))
        self.owner: MutableSequence[int] = [i for i, fields in enumerate(outputs) for _ in fields]
        self.items: list[tuple[int, str]] = []
        self.before: list[Sequence[int]] = []
        self.after: dict[int, list[int]] = {}
        resolved = resolved_edges(names, outputs, inputs, edges)
        #: The edges; None if the graph has grown since they were resolved.
        self.resolved: Edges | None = resolved
        self._lay_out(resolved, inputs, gathers)
        self.sinks = set(range(len(names))).difference(resolved.sources)
        # If all edges lead to larger numbers, the smallest remaining one is always ready.
        self.order: MutableSequence[int] = array("q", range(len(names)))
        if any(source > target for source, target in zip(resolved.sources, resolved.targets)):
            self.order = _order(names, self.below)

    def _lay_out(self, edges: Edges, declared: Sequence[Fields], gathers: Sequence[Fields]) -> None:
        """Set the slots and fields that feed each task, and count the uses of each slot."""
        first_slot = self.first_slot
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
        # Tasks with equal inputs share one tuple.
        shared = {names: names for names in declared}
        all_fields, ends = tuple(fields), self.first_input[1:]
        # A generator: a list of many tuples would keep the garbage collector busy.
        arriving = (all_fields[begin:end] for begin, end in zip(self.first_input, ends))
        self.inputs = [shared.setdefault(names, names) for names in arriving]

    def growing(self) -> Wiring:
        """Return a copy that grows in place, so that references to its lists stay valid.

        Edges lead from existing tasks to new ones only, so a task's number, slots and inputs
        never change, and the order of addition is topological.
        """
        wiring = copy(self)
        wiring.grows, wiring.resolved = True, None
        wiring.names, wiring.outputs, wiring.inputs = [*self.names], [*self.outputs], [*self.inputs]
        wiring.uses, wiring.items = [*self.uses], [*self.items]
        # An array holds a number in 8 bytes, a list in 36.
        wiring.order = array("q", self.order)
        wiring.slots, wiring.owner = array("q", self.slots), array("q", self.owner)
        wiring.first_input = array("q", self.first_input)
        wiring.first_slot = array("q", self.first_slot[: len(self.names)])
        wiring.before, wiring.after = [], {}
        for target in range(len(self.names)):
            sources = tuple(self.predecessors(target))
            wiring.before.append(sources)
            for source in sources:
                wiring.after.setdefault(source, []).append(target)
        return wiring

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
        outputs: Fields,
        sources: Sequence[int],
        slots: Sequence[int],
        inputs: Fields,
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
        self.resolved = None
        number = len(self.names)
        self.order.append(number)
        self.first_slot.append(len(self.owner))
        self.owner.extend([number] * len(outputs))
        self.uses += [0] * len(outputs)
        self.names.append(name)
        self.outputs.append(outputs)
        self.inputs.append(inputs)
        self.slots.extend(slots)
        self.first_input.append(len(self.slots))
        self.before.append(tuple(sources))

    def cut(self, tasks: int, slots: int) -> None:
        """Truncate to the first `tasks` and `slots`."""
        self.resolved = None
        del self.items[bisect_left(self.items, (slots,)) :]
        del self.slots[self.first_input[tasks] :], self.first_input[tasks + 1 :]
        for rows in (self.names, self.order, self.outputs, self.inputs, self.first_slot):
            del rows[tasks:]
        del self.before[tasks:], self.owner[slots:], self.uses[slots:]

    @property
    def _edges(self) -> Edges:
        if self.resolved is None:
            self.resolved = self._resolve()
        return self.resolved

    def _resolve(self) -> Edges:
        """Return the edges of a graph that has grown."""
        edges = Edges(len(self.names))
        # Most edges carry the same fields: they share one tuple.
        shared: dict[Routes, Routes] = {}
        for target in range(edges.count):
            carried: dict[int, Routes] = dict.fromkeys(self.predecessors(target), ())
            for field, slot in self.feeds(target):
                source = self.owner[slot]
                carried[source] += ((slot - self.first_slot[source], field),)
            edges.sources += carried
            edges.targets += [target] * len(carried)
            edges.routes += [shared.setdefault(routes, routes) for routes in carried.values()]
        return edges

    @property
    def routes(self) -> dict[int, Routes]:
        """Each edge and the fields that it carries."""
        return self._edges.merged

    @property
    def below(self) -> Rows:
        """The successors of all tasks."""
        return self._edges.successors

    def edges(self) -> Iterator[tuple[int, int, Routes]]:
        """Yield source, target and routes of each edge, by source."""
        count = len(self.names)
        for number, routes in self.routes.items():
            yield (*divmod(number, count), routes)

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Yield source and target of each edge; parallel edges may come more than once."""
        return zip(self._edges.sources, self._edges.targets)

    def feeds(self, task: int) -> list[tuple[str, int]]:
        """Return the inputs of a task that edges feed, and the slot that feeds each."""
        span = slice(self.first_input[task], self.first_input[task + 1])
        return list(zip(self.inputs[task], self.slots[span]))

    def origins(self, task: int) -> list[tuple[str, str, str]]:
        """Return for each input of a task that an edge feeds its name, and whose output it is."""
        names, owner = self.names, self.owner
        return [(name, names[owner[slot]], self.field_of(slot)) for name, slot in self.feeds(task)]

    def slot_names(self) -> list[tuple[str, str]]:
        """Return for each slot its task and the output in it."""
        return [(self.names[i], self.field_of(slot)) for slot, i in enumerate(self.owner)]

    def successors(self, task: int) -> list[int]:
        """Return the direct successors of `task`."""
        return self.after.get(task, []) if self.grows else self.below[task]

    def predecessors(self, task: int) -> Sequence[int]:
        """Return the direct predecessors of `task`."""
        return self.before[task] if self.grows else self._edges.predecessors[task]

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
        """Return the outputs of a task that other tasks need, or that added tasks may need."""
        slots = enumerate(self.outputs[task], self.first_slot[task])
        return [field for slot, field in slots if self.grows or self.uses[slot]]

    def same_as(self, other: Wiring) -> bool:
        """Tell whether two graphs are the same and grew in the same order."""
        mine, theirs = (
            (w.names, w.outputs, w.before, w.inputs, w.slots, w.first_input, w.owner, w.items)
            for w in (self, other)
        )
        return mine == theirs

    def by_name(self) -> dict[str, tuple[object, ...]]:
        """Return for each task its outputs, its predecessors and what feeds it, by names."""
        names = self.names
        return {
            name: (
                self.outputs[i],
                {names[source] for source in self.predecessors(i)},
                {*self.origins(i)},
            )
            for i, name in enumerate(names)
        }
