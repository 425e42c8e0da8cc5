"""GraphExtension: takes what the body of a rule adds into a wiring, all of it or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dagprofiler.engine.validate import estimates_of, problems_of
from dagprofiler.errors import GraphError, ValidationError, did_you_mean, short_repr
from dagprofiler.graph.edges import Resolver
from dagprofiler.graph.wiring import kahn_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dagprofiler.config import Config
    from dagprofiler.engine.validate import ContractReader
    from dagprofiler.graph.edges import Route
    from dagprofiler.graph.wiring import LiveWiring
    from dagprofiler.measure.pipeline import Contract
    from dagprofiler.rules.views import GraphEditor, Mapped
    from dagprofiler.task import Task


class GraphExtension:
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
        #: What has been found to fit the inputs of tasks.
        self._fine: dict[Any, Contract] = {}
        #: Of what is being added: its check, how many tasks there were, and slots that passed.
        self._check: Callable[[int, int], None]
        self._old = 0
        self._checked: set[int] = set()

    def add(
        self, draft: GraphEditor, check: Callable[[int, int], None]
    ) -> tuple[list[Task], list[Contract], dict[int, int]]:
        """Take up what a body has added, if nothing is wrong with it.

        Parameters
        ----------
        check
            Is told of each task and slot, of those that were there before, that feeds a new
            one, and may refuse it.

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
        contracts = self._reader.read_all(names, tasks)
        wiring = self._wiring
        first, slots = len(wiring.names), len(wiring.owner)
        try:
            if not draft.ordered:
                places = {name: place for place, name in enumerate(names)}
                names = self._sorted(draft, names)
                contracts = [contracts[places[name]] for name in names]
                tasks = [tasks[places[name]] for name in names]
            self._check, self._old, self._checked = check, first, set()
            self._place(draft, names, contracts)
            problems = problems_of(wiring, contracts, {}, first, self._fine)
            estimates, failed = estimates_of(names, tasks, self._config, first)
            problems += failed
            if problems:
                raise problems[0] if len(problems) == 1 else ValidationError(problems)
        except BaseException:
            wiring.cut(first, slots)
            for name in names:
                self._index.pop(name, None)
            raise
        return tasks, contracts, estimates

    def _sorted(self, draft: GraphEditor, names: list[str]) -> list[str]:
        """Return the new tasks, each behind the new ones that feed it."""
        after: dict[str, list[str]] = {}
        for target, edges in draft.incoming.items():
            for source, _ in edges:
                if source == target:
                    raise GraphError(
                        f"edge {short_repr(source)} -> {short_repr(target)}: a task cannot "
                        "feed itself"
                    )
                if source in draft.tasks_added:
                    after.setdefault(source, []).append(target)
                elif source not in self._index:
                    raise GraphError(
                        f"edge {short_repr(source)} -> {short_repr(target)}: there is no "
                        f"task {short_repr(source)}"
                        f"{did_you_mean(source, [*self._index, *names])}"
                    )
        return kahn_order(names, after)

    def _place(self, draft: GraphEditor, names: list[str], contracts: list[Contract]) -> None:
        """Give all new tasks their places, each behind its predecessors."""
        wiring, index, incoming = self._wiring, self._index, draft.incoming
        first_items: dict[tuple[str, str], int] = {}
        for (feeder, field), encoded in draft.items.items():
            items = [f"{field}[{i}]" for i in range(len(encoded))]
            first_items[feeder, field] = wiring.add_items(index[feeder], items)
        #: Of tasks of maps that are not taken in one step the map, and the slot of the item.
        mapped: dict[str, tuple[Mapped, int]] = {}
        for one in draft.maps.values():
            kinds = set(map(id, contracts[one.at : one.at + len(one.names)]))
            if not (draft.ordered and len(kinds) == 1 and incoming.keys().isdisjoint(one.names)):
                item = first_items[one.source, one.field]
                mapped.update((name, (one, item + i)) for i, name in enumerate(one.names))
        number, count = 0, len(names)
        while number < count:
            name, contract = names[number], contracts[number]
            whole = draft.maps.get(name)
            if whole is None or name in mapped:
                self._place_one(name, contract, incoming.get(name, ()), mapped.get(name))
                number += 1
            else:
                begin, source = len(wiring.names), index[whole.source]
                item = first_items[whole.source, whole.field]
                number += len(whole.names)
                index.update(zip(whole.names, range(begin, begin + len(whole.names))))
                wiring.add_mapped(whole.names, contract.outputs, source, item, whole.into)

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
                slot = first + position
                if number < self._old and slot not in self._checked:
                    self._check(number, slot)
                    self._checked.add(slot)
                slots.append(slot)
                fields.append(field)
        index[name] = len(wiring.names)
        wiring.add_task(name, contract.outputs, list(sources), slots, fields)
