"""ContractReader: the contracts of many tasks, most of them alike."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

from dagprofiler.pipeline import Parameters
from dagprofiler.task import check_declarations, contract_of

if TYPE_CHECKING:
    from dagprofiler.pipeline import Contract
    from dagprofiler.serializers import Serializer
    from dagprofiler.task import Task

__all__ = ["ContractReader"]

_DECLARATIONS = (
    "inputs",
    "outputs",
    "config_deps",
    "gathers",
    "serializer",
    "serialize",
    "deserialize",
)


class ContractReader:
    """Reads the contracts of tasks, and that of tasks which are alike only once.

    Parameters
    ----------
    default
        Serializer of tasks that choose none.
    """

    def __init__(self, default: Serializer | None) -> None:
        self._default = default
        self._of_class: dict[type[Task], tuple[Any, Any, Contract]] = {}
        self._parameters: dict[Any, Parameters] = {}

    def read(self, name: str, task: Task) -> Contract:
        """Return the contract of `task`, which stands under `name`.

        An instance that declares something else than the first of its class
        is checked, and gets a contract of its own.
        """
        known = self._of_class.get(type(task))
        if known is not None:
            declarations, first, contract = known
            try:
                if declarations(task) == first:
                    return contract
            except AttributeError:
                # An own compute() that is no method.
                pass
        check_declarations(task, f"task {name!r}")
        compute = task.compute
        function = getattr(compute, "__func__", compute)
        if function not in self._parameters:
            self._parameters[function] = Parameters.of(compute)
        contract = contract_of(task, self._parameters[function], self._default)
        if known is None:
            method = "compute" if function is compute else "compute.__func__"
            declarations = attrgetter(*_DECLARATIONS, method)
            self._of_class[type(task)] = declarations, declarations(task), contract
        return contract
