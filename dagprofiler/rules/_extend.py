"""GraphExtension: adds to a wiring what the body of a rule appends, all of it or nothing."""

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
    from dagprofiler.graph.wiring import GrowableWiring
    from dagprofiler.measure.pipeline import Contract
    from dagprofiler.rules.views import GraphEditor, Mapped
    from dagprofiler.task import Task


class GraphExtension:
    """Appends tasks and edges to a wiring.

    Parameters
    ----------
    wiring, index
        The graph, and the number of each task; both grow.
    reader
        Reads the contracts of new tasks.
    config
        Parameters of the run.
    """

    def __init__(
        self, wiring: GrowableWiring, index: dict[str, int], reader: ContractReader, config: Config
    ) -> None:
        self._wiring = wiring
        self._index = index
        self._reader = reader
        self._config = config
        self._resolver = Resolver()
        #: Combinations of fields and inputs that have passed validation.
        self._fine: dict[Any, Contract] = {}
        #: For the current addition: its check, the number of older tasks, and checked slots.
        self._check: Callable[[int, int], None]
        self._old = 0
        self._checked: set[int] = set()

    def add(
        self, editor: GraphEditor, check: Callable[[int, int], None]
    ) -> tuple[list[Task], list[Contract], dict[int, int]]:
        """Add what a body has appended, if it is valid.

        Parameters
        ----------
        check
            Called with the task and the slot of each older output that feeds a new task;
            raises to refuse the edge.

        Returns
        -------
        tuple
            The new tasks, their contracts, and the estimates of cost models, by task number.

        Raises
        ------
        GraphError, DeclarationError, CostModelError
            If it is not valid; then nothing has changed.
        """
        names, tasks = list(editor.tasks_added), list(editor.tasks_added.values())
        contracts = self._reader.read_all(names, tasks)
        wiring = self._wiring
        first, slots = len(wiring.names), len(wiring.owner)
        try:
            if not editor.ordered:
                places = {name: place for place, name in enumerate(names)}
                names = self._sorted(editor, names)
                contracts = [contracts[places[name]] for name in names]
                tasks = [tasks[places[name]] for name in names]
            self._check, self._old, self._checked = check, first, set()
            self._place(editor, names, contracts)
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

    def _sorted(self, editor: GraphEditor, names: list[str]) -> list[str]:
        """Return the new tasks in topological order."""
        after: dict[str, list[str]] = {}
        for target, edges in editor.incoming.items():
            for source, _ in edges:
                if source == target:
                    raise GraphError(
                        f"edge {short_repr(source)} -> {short_repr(target)}: a task cannot "
                        "feed itself"
                    )
                if source in editor.tasks_added:
                    after.setdefault(source, []).append(target)
                elif source not in self._index:
                    raise GraphError(
                        f"edge {short_repr(source)} -> {short_repr(target)}: there is no "
                        f"task {short_repr(source)}"
                        f"{did_you_mean(source, [*self._index, *names])}"
                    )
        return kahn_order(names, after)

    def _place(self, editor: GraphEditor, names: list[str], contracts: list[Contract]) -> None:
        """Append all new tasks to the wiring, each after its predecessors."""
        wiring, index, incoming = self._wiring, self._index, editor.incoming
        first_items: dict[tuple[str, str], int] = {}
        for (feeder, field), encoded in editor.items.items():
            items = [f"{field}[{i}]" for i in range(len(encoded))]
            first_items[feeder, field] = wiring.add_items(index[feeder], items)
        #: Tasks of maps that are not added in one step: the map, and the slot of the item.
        mapped: dict[str, tuple[Mapped, int]] = {}
        for of_map in editor.maps.values():
            names_of, at = of_map.names, of_map.at
            kinds = set(map(id, contracts[at : at + len(names_of)]))
            if not (editor.ordered and len(kinds) == 1 and incoming.keys().isdisjoint(names_of)):
                item = first_items[of_map.source, of_map.field]
                mapped.update((name, (of_map, item + i)) for i, name in enumerate(names_of))
        number, count = 0, len(names)
        while number < count:
            name, contract = names[number], contracts[number]
            whole = editor.maps.get(name)
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
        """Append a new task to the wiring; a task of a map with its item's slot."""
        wiring, index, routes_of = self._wiring, self._index, self._resolver.routes
        outputs, first_slot, inputs = wiring.outputs, wiring.first_slot, contract.inputs
        sources: dict[int, tuple[Route, ...]] = {}
        slots: list[int] = []
        fields: list[str] = []
        if item is not None:
            of_map, slot = item
            sources[index[of_map.source]] = ()
            slots.append(slot)
            fields.append(of_map.into)
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
