"""LiveWiring: the wiring of a graph that grows while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dagprofiler.edges import Edges
from dagprofiler.graph import Wiring

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
