"""Part: what the body of a rule adds to a graph, in numbers, and checked as a graph is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dagprofiler.contracts import estimates_of, problems_of
from dagprofiler.errors import ValidationError
from dagprofiler.graph import Wiring

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dagprofiler.config import Config
    from dagprofiler.contracts import ContractReader
    from dagprofiler.livewiring import LiveWiring
    from dagprofiler.pipeline import Contract
    from dagprofiler.task import Task
    from dagprofiler.views import Draft, Items

__all__ = ["Part"]


@dataclass
class Part:
    """New tasks, wired with each other and with those that are there.

    Attributes
    ----------
    wiring
        Of the tasks that are there and that edges come from, first, and of
        the new ones, each behind its predecessors.
    known
        Numbers in the whole graph of the tasks that are there.
    slots
        Number in the whole graph of each of their slots.
    tasks, contracts
        The new tasks, and what they declare.
    estimates
        Number in the whole graph to what the cost model says.
    items
        Source to output to encoded items, which get slots.
    """

    wiring: Wiring
    known: list[int]
    slots: list[int]
    tasks: list[Task]
    contracts: list[Contract]
    estimates: dict[int, int]
    items: Items

    @classmethod
    def of(
        cls,
        draft: Draft,
        live: LiveWiring,
        index: Mapping[str, int],
        reader: ContractReader,
        config: Config,
    ) -> Part:
        """Return what a body has added, if nothing is wrong with it.

        Raises
        ------
        GraphError, DeclarationError, CostModelError
            If anything is.
        """
        names = list(draft.tasks_added)
        tasks = list(draft.tasks_added.values())
        contracts = reader.read_all(names, tasks)
        sources = dict.fromkeys([edge[0] for edge in draft.edges_added if edge[0] in index])
        wiring = _wired(draft, live, index, list(sources), names, contracts)
        before = len(sources)
        if type(wiring.order) is not range:
            # Once more, each behind its predecessors.
            order = [i - before for i in wiring.order if i >= before]
            names = [names[i] for i in order]
            tasks = [tasks[i] for i in order]
            contracts = [contracts[i] for i in order]
            wiring = _wired(draft, live, index, list(sources), names, contracts)
        problems = problems_of(wiring, contracts, {}, before)
        estimates, failed = estimates_of(names, tasks, config, len(live.names))
        problems += failed
        if problems:
            raise problems[0] if len(problems) == 1 else ValidationError(problems)
        known = [index[name] for name in sources]
        slots: list[int] = []
        items = len(live.owner)
        for name, number in zip(sources, known):
            first = live.first_slot[number]
            slots += range(first, first + len(live.outputs[number]))
            for encoded in draft.items.get(name, {}).values():
                slots += range(items, items + len(encoded))
                items += len(encoded)
        return cls(wiring, known, slots, tasks, contracts, estimates, draft.items)

    def carried(self) -> Iterator[int]:
        """Yield the slots, of outputs that are there, that feed new tasks."""
        cut = len(self.slots)
        for slot in {slot for slot in self.wiring.slots if slot < cut}:
            yield self.slots[slot]


def _wired(
    draft: Draft,
    live: LiveWiring,
    index: Mapping[str, int],
    sources: list[str],
    names: list[str],
    contracts: list[Contract],
) -> Wiring:
    outputs: list[list[str]] = []
    for name in sources:
        declared = live.outputs[index[name]]
        outputs.append(
            [*declared, *_item_names(draft.items[name])] if name in draft.items else declared
        )
    nothing: list[Any] = [[]] * len(sources)
    return Wiring(
        [*sources, *names],
        [*outputs, *[contract.outputs for contract in contracts]],
        [*nothing, *[contract.inputs for contract in contracts]],
        [*nothing, *[contract.gathers for contract in contracts]],
        draft.edges_added,
    )


def _item_names(items: Mapping[str, list[Any]]) -> list[str]:
    return [f"{field}[{i}]" for field, encoded in items.items() for i in range(len(encoded))]
