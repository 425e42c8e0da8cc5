"""LiveWiring: the wiring of a graph that grows while it runs."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import accumulate
from operator import lt
from typing import TYPE_CHECKING, Any

from dagprofiler.errors import CycleError
from dagprofiler.graph.edges import Edges, resolved_edges, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from dagprofiler.graph.edges import Route


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
    targets, first_target = rows_of(sorted(edges), count)
    return [names[i] for i in _order(names, targets, first_target)]


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


def readiness_by(
    ranked: Sequence[int], targets: Sequence[int], first_target: Sequence[int]
) -> tuple[Callable[[], int | None], Callable[[int], None]]:
    """Return what :func:`readiness` does, for another order among the tasks that are ready.

    Parameters
    ----------
    ranked
        All task numbers, the one that goes before all others first.
    targets, first_target
        As for :func:`readiness`.
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
    pop, done = readiness(*rows_of(sorted(edges), count))

    def pop_number() -> int | None:
        place = pop()
        return None if place is None else ranked[place]

    return pop_number, lambda number: done(rank[number])


def bottom_levels(
    order: Sequence[int],
    targets: Sequence[int],
    first_target: Sequence[int],
    weights: Sequence[float],
) -> list[float]:
    """Return the length of the longest path from each task to the end, its own weight included.

    Notes
    -----
    The static level of Kwok and Ahmad, ACM Comput. Surv. 31(4), 1999.
    """
    levels = [0.0] * len(order)
    for i in reversed(order):
        below = targets[first_target[i] : first_target[i + 1]]
        levels[i] = weights[i] + max([levels[target] for target in below], default=0.0)
    return levels


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
    items
        Slots, behind those of outputs, that hold one item of an output, and
        its name: ``files[3]``. None in here; see
        :class:`~dagprofiler.graph.wiring.LiveWiring`.
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
        self.items: dict[int, str] = {}
        self._edges = resolved_edges(names, outputs, inputs, list(edges))
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

    @property
    def columns(self) -> tuple[list[int], list[int]]:
        """The predecessors of all tasks, and where those of each begin."""
        return self._edges.columns

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

    def predecessors(self, task: int) -> list[int]:
        """Return the tasks that an edge leads from to `task`."""
        sources, first_source = self.columns
        return sources[first_source[task] : first_source[task + 1]]

    def fields(self, source: int, routes: Iterable[Route]) -> list[str]:
        """Return the outputs of `source`, or items of them, that travel on `routes`."""
        return [self.field(source, position) for position, _ in routes]

    def field(self, source: int, position: int) -> str:
        """Return the name of the output of `source`, or item of one, that a route is about."""
        outputs = self.outputs[source]
        if position < len(outputs):
            return outputs[position]
        return self.items[self.first_slot[source] + position]

    def wanted(self, task: int) -> list[str]:
        """Return the outputs of a task that others need."""
        slots = enumerate(self.outputs[task], self.first_slot[task])
        return [field for slot, field in slots if self.uses[slot]]


class LiveWiring(Wiring):
    """A wiring that gets longer, in place, so that whoever holds its lists sees it grow.

    Edges lead from tasks that are there to new ones only. So a task's number,
    its slots and its inputs never change. Tasks are numbered in the order in
    which they came, which is an order in which they can run: those that were
    given first, by name.

    Parameters
    ----------
    given
        The wiring to begin with.

    Attributes
    ----------
    given
        How many tasks it began with.
    sources, first_source
        The predecessors of all tasks, and where those of each begin.
    """

    def __init__(self, given: Wiring) -> None:
        # Not that of the base class, which resolves what is resolved here.
        self.given = len(given.names)
        self._given_order = [*given.order]
        self.names = [*given.names]
        self.outputs = [*given.outputs]
        self.inputs, self.slots = [*given.inputs], [*given.slots]
        self.first_input = [*given.first_input]
        self.first_slot = given.first_slot[: len(given.names)]
        self.owner, self.uses = [*given.owner], [*given.uses]
        self.items = dict(given.items)
        sources, first_source = given.columns
        self.sources, self.first_source = [*sources], [*first_source]
        self.after: dict[int, list[int]] = {}
        for target, begin in enumerate(first_source[:-1]):
            for source in sources[begin : first_source[target + 1]]:
                self.after.setdefault(source, []).append(target)
        self.forget()

    def forget(self) -> None:
        """Make anew what is made when it is asked for, once the graph has changed."""
        self._resolved: Edges | None = None

    def add_items(self, source: int, names: Sequence[str]) -> int:
        """Add slots for items of an output of `source`; return the number of the first."""
        first = len(self.owner)
        self.items.update(enumerate(names, first))
        self.owner += [source] * len(names)
        self.uses += [0] * len(names)
        return first

    def add_task(
        self,
        name: str,
        outputs: list[str],
        sources: Sequence[int],
        slots: Sequence[int],
        inputs: Sequence[str],
    ) -> None:
        """Add a task behind others.

        Parameters
        ----------
        name, outputs
            Of the task.
        sources
            The tasks that edges to it come from.
        slots, inputs
            What feeds it, and as which of its inputs.
        """
        self.forget()
        self.first_slot.append(len(self.owner))
        self.owner += [len(self.names)] * len(outputs)
        self.uses += [0] * len(outputs)
        self.names.append(name)
        self.outputs.append(outputs)
        self.inputs += inputs
        self.slots += slots
        self.first_input.append(len(self.inputs))
        self.sources += sources
        self.first_source.append(len(self.sources))

    def add_mapped(
        self, names: Sequence[str], outputs: list[str], source: int, first: int, field: str
    ) -> None:
        """Add tasks that are alike, each behind `source` and fed by an item of an output of it.

        Parameters
        ----------
        names, outputs
            Of the tasks.
        first
            The slot of the first item.
        field
            The input that it feeds.
        """
        self.forget()
        count, number, slot = len(names), len(self.names), len(self.owner)
        width = len(outputs)
        inputs, sources = len(self.inputs) + 1, len(self.sources) + 1
        self.first_slot += range(slot, slot + count * width, width) if width else [slot] * count
        self.owner += [i for i in range(number, number + count) for _ in outputs]
        self.uses += [0] * (count * width)
        self.names += names
        self.outputs += [outputs] * count
        self.inputs += [field] * count
        self.slots += range(first, first + count)
        self.first_input += range(inputs, inputs + count)
        self.sources += [source] * count
        self.first_source += range(sources, sources + count)

    def cut(self, tasks: int, slots: int) -> None:
        """Leave so many tasks and slots; items stay named, which nobody asks for."""
        self.forget()
        inputs, sources = self.first_input[tasks], self.first_source[tasks]
        for length, rows in (
            (tasks, (self.names, self.outputs, self.first_slot)),
            (tasks + 1, (self.first_input, self.first_source)),
            (inputs, (self.inputs, self.slots)),
            (sources, (self.sources,)),
            (slots, (self.owner, self.uses)),
        ):
            for row in rows:
                del row[length:]

    @property
    def columns(self) -> tuple[list[int], list[int]]:
        """The predecessors of all tasks, and where those of each begin."""
        return self.sources, self.first_source

    def successors(self, task: int) -> list[int]:
        """Return the tasks that an edge leads to from `task`."""
        return self.after.get(task, [])

    def wanted(self, task: int) -> list[str]:
        """Return all outputs of a task: others may need any of them."""
        return self.outputs[task]

    @property
    def sinks(self) -> list[int]:  # type: ignore[override]
        """Tasks without successors."""
        return [i for i in range(len(self.names)) if i not in self.after]

    @property
    def order(self) -> Sequence[int]:  # type: ignore[override]
        """Task numbers in execution order: those given by Kahn's algorithm, then as they came."""
        return [*self._given_order, *range(self.given, len(self.names))]

    @property
    def _edges(self) -> Edges:  # type: ignore[override]
        if self._resolved is None:
            self._resolved = self._resolve()
        return self._resolved

    def same_as(self, other: LiveWiring) -> bool:
        """Tell whether two graphs are the same, and came to be in the same order."""
        mine, theirs = vars(self), vars(other)
        return all(mine[name] == theirs[name] for name in mine if name not in ("uses", "_resolved"))

    def _resolve(self) -> Edges:
        edges = Edges(len(self.names), [], [], [])
        for target in range(edges.count):
            begin, end = self.first_source[target : target + 2]
            carried: dict[int, tuple[Route, ...]] = dict.fromkeys(self.sources[begin:end], ())
            begin, end = self.first_input[target : target + 2]
            for field, slot in zip(self.inputs[begin:end], self.slots[begin:end]):
                source = self.owner[slot]
                carried[source] += ((slot - self.first_slot[source], field),)
            edges.sources += carried
            edges.targets += [target] * len(carried)
            edges.routes += carried.values()
        return edges
