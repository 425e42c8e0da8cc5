"""LiveWiring: the wiring of a graph that grows while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dagprofiler.edges import Edges
from dagprofiler.graph import Wiring, readiness_by

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dagprofiler.edges import Route

__all__ = ["LiveWiring"]


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
        self._made: tuple[Edges, list[int]] | None = None

    def add_items(self, source: int, names: Sequence[str]) -> int:
        """Add slots for items of an output of `source`; return the number of the first."""
        first = len(self.owner)
        self.items.update(enumerate(names, first))
        self.owner += [source] * len(names)
        self.uses += [0] * len(names)
        return first

    def append(self, part: Wiring, known: Sequence[int], slots: Sequence[int]) -> None:
        """Add the tasks of `part` behind those that it has in common with this wiring.

        Parameters
        ----------
        part
            A wiring of tasks that are there, first, and of new ones, to which
            alone edges lead, each numbered behind its predecessors.
        known
            The number in here of each task that is there.
        slots
            The slot in here of each of their slots.
        """
        before, cut = len(known), len(slots)
        shift = len(self.names) - before
        base, places = len(self.owner), len(self.inputs)
        outputs = part.outputs[before:]
        self.names += part.names[before:]
        self.outputs += outputs
        self.first_slot += [base - cut + slot for slot in part.first_slot[before:-1]]
        self.owner += [shift + i for i in part.owner[cut:]]
        self.uses += [0] * (len(part.owner) - cut)
        self.inputs += part.inputs
        self.slots += [slots[s] if s < cut else base - cut + s for s in part.slots]
        self.first_input += [places + place for place in part.first_input[before + 1 :]]
        sources, first_source = part.columns
        rows = len(self.sources)
        self.forget()
        self.sources += [known[s] if s < before else shift + s for s in sources]
        self.first_source += [rows + row for row in first_source[before + 1 :]]

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
        """Task numbers by Kahn's algorithm, the smallest ready name first."""
        return self._as_it_is()[1]

    @property
    def _edges(self) -> Edges:  # type: ignore[override]
        return self._as_it_is()[0]

    def same_as(self, other: LiveWiring) -> bool:
        """Tell whether two graphs are the same, and came to be in the same order."""
        mine, theirs = vars(self), vars(other)
        return all(mine[name] == theirs[name] for name in mine if name not in ("uses", "_made"))

    def _as_it_is(self) -> tuple[Edges, list[int]]:
        """Return the edges and the order of the graph so far."""
        if self._made is None:
            count = len(self.names)
            edges = self._resolved()
            ranked = sorted(range(count), key=self.names.__getitem__)
            pop, done = readiness_by(ranked, *edges.rows)
            order = []
            number = pop()
            while number is not None:
                order.append(number)
                done(number)
                number = pop()
            self._made = edges, order
        return self._made

    def _resolved(self) -> Edges:
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
