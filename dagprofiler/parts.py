"""Extension: takes what the body of a rule adds into a wiring, all of it or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dagprofiler.contracts import estimates_of, problems_of
from dagprofiler.edges import Resolver, split
from dagprofiler.errors import GraphError, ValidationError, did_you_mean
from dagprofiler.graph import kahn_order

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from dagprofiler.config import Config
    from dagprofiler.contracts import ContractReader
    from dagprofiler.edges import Route
    from dagprofiler.livewiring import LiveWiring
    from dagprofiler.pipeline import Contract
    from dagprofiler.task import Task
    from dagprofiler.views import Draft, Mapped

    #: Target to its edges: source, and the fields as given.
    Incoming = dict[str, list[tuple[str, Any]]]

__all__ = ["Extension"]


class Extension:
    """What makes a wiring longer.

    Parameters
    ----------
    wiring, index
        The graph, and the number of each task; both get longer.
    reader
        Reads the contracts of new tasks.
    config
        Parameters of the run.
    """

    def __init__(
        self, wiring: LiveWiring, index: dict[str, int], reader: ContractReader, config: Config
    ) -> None:
        self._wiring = wiring
        self._index = index
        self._reader = reader
        self._config = config
        self._resolver = Resolver()

    def add(
        self, draft: Draft, check: Callable[[int], None]
    ) -> tuple[list[Task], list[Contract], dict[int, int]]:
        """Take up what a body has added, if nothing is wrong with it.

        Parameters
        ----------
        check
            Is told where the inputs of the new tasks begin, and may refuse what feeds them.

        Returns
        -------
        tuple
            The new tasks, their contracts, and what cost models say, by task number.

        Raises
        ------
        GraphError, DeclarationError, CostModelError
            If anything is wrong; then nothing has changed.
        """
        names, tasks = list(draft.tasks_added), list(draft.tasks_added.values())
        contracts = dict(zip(names, self._reader.read_all(names, tasks)))
        wiring = self._wiring
        first, inputs, mark = len(wiring.names), len(wiring.inputs), wiring.mark()
        try:
            self._place(draft, contracts)
            added = wiring.names[first:]
            if added != names:
                tasks = [draft.tasks_added[name] for name in added]
            check(inputs)
            ordered = [contracts[name] for name in added]
            problems = problems_of(wiring, ordered, {}, first)
            estimates, failed = estimates_of(added, tasks, self._config, first)
            problems += failed
            if problems:
                raise problems[0] if len(problems) == 1 else ValidationError(problems)
        except BaseException:
            wiring.cut(mark)
            for name in names:
                self._index.pop(name, None)
            raise
        return tasks, ordered, estimates

    def _place(self, draft: Draft, contracts: dict[str, Contract]) -> None:
        """Give all new tasks their places, each behind its predecessors."""
        wiring, index = self._wiring, self._index
        incoming: Incoming = {}
        ordered = True
        seen = index.keys()
        order = {name: place for place, name in enumerate(draft.tasks_added)}
        for edge in draft.edges_added:
            source, target, spec = split(edge)
            incoming.setdefault(target, []).append((source, spec))
            if source not in seen:
                if source not in order:
                    raise GraphError(
                        f"edge {source!r} -> {target!r}: there is no task {source!r}"
                        f"{did_you_mean(source, [*index, *order])}"
                    )
                ordered = ordered and order[source] < order[target]
        if not ordered:
            order = dict.fromkeys(kahn_order(list(order), _successors(incoming, order)), 0)
        first_items: dict[tuple[str, str], int] = {}
        for (source, field), encoded in draft.items.items():
            names = [f"{field}[{i}]" for i in range(len(encoded))]
            first_items[source, field] = wiring.add_items(index[source], names)
        # A map that nothing else leads to is one step.
        at_once: dict[str, Mapped] = {}
        passed: set[str] = set()
        items: dict[str, tuple[Mapped, int]] = {}
        for first, one in draft.maps.items():
            item = first_items[one.source, one.field]
            if ordered and incoming.keys().isdisjoint(one.names):
                at_once[first] = one
                passed.update(one.names)
            else:
                items.update((name, (one, item + i)) for i, name in enumerate(one.names))
        for name in order:
            if name in at_once:
                one, number = at_once[name], len(wiring.names)
                item, source = first_items[one.source, one.field], index[one.source]
                wiring.add_mapped(one.names, contracts[name].outputs, source, item, one.into)
                index.update(zip(one.names, range(number, len(wiring.names))))
            elif name not in passed:
                edges = incoming.get(name, ())
                self._place_one(name, contracts[name], edges, items.get(name))

    def _place_one(
        self,
        name: str,
        contract: Contract,
        edges: Iterable[tuple[str, Any]],
        item: tuple[Mapped, int] | None,
    ) -> None:
        """Give a new task its place; of a map with its item's slot."""
        wiring, index, routes_of = self._wiring, self._index, self._resolver.routes
        outputs, first_slot, inputs = wiring.outputs, wiring.first_slot, contract.inputs
        sources: dict[int, tuple[Route, ...]] = {}
        slots: list[int] = []
        fields: list[str] = []
        if item is not None:
            one, slot = item
            sources[index[one.source]] = ()
            slots.append(slot)
            fields.append(one.into)
        for source, spec in edges:
            number = index[source]
            declared = outputs[number]
            routes = routes_of(source, name, spec, declared, inputs)
            if number in sources and (sources[number] or not routes):
                self._resolver.check_parallel(source, name, sources[number], routes, declared)
            sources[number] = sources.get(number, ()) + routes
            first = first_slot[number]
            for position, field in routes:
                slots.append(first + position)
                fields.append(field)
        index[name] = len(wiring.names)
        wiring.add_task(name, contract.outputs, list(sources), slots, fields)


def _successors(incoming: Incoming, order: Collection[str]) -> dict[str, list[str]]:
    """Return for each new task the new ones behind it."""
    after: dict[str, list[str]] = {}
    for target, edges in incoming.items():
        for source, _ in edges:
            if source == target:
                raise GraphError(f"edge {source!r} -> {target!r}: a task cannot feed itself")
            if source in order:
                after.setdefault(source, []).append(target)
    return after
