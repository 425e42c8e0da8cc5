"""Contracts: what tasks declare, read once for a class, and problems with their inputs.

A DAG is made of them, and gives them to its runs as a :class:`Workflow`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from inspect import isfunction
from itertools import count
from types import MethodType
from typing import Any, Callable

from dagprofiler.config import Config
from dagprofiler.errors import (
    SHOWN_PROBLEMS,
    DagProfilerError,
    DeclarationError,
    GraphError,
    did_you_mean,
    explained,
    listed,
    short_repr,
)
from dagprofiler.graph.wiring import Wiring
from dagprofiler.measure.pipeline import Contract, Parameters
from dagprofiler.serializers import Serializer
from dagprofiler.task import Task, check_declarations, contract_of, instance_of


@dataclass(frozen=True)
class Workflow:
    """What a DAG gives to a run.

    Attributes
    ----------
    name
        That of the DAG; None if it has none.
    nodes
        Task names in the order in which the DAG got them.
    wiring
        The graph, which numbers the tasks.
    tasks, contracts
        For each task number the task and its contract.
    config
        Parameters of all tasks.
    is_fed
        Whether edges bring all inputs that tasks need, and no others.
    unknown
        Quantity that the origin of the graph cannot give, to the reason.
    rules
        Names of the rules; empty for a fixed graph.
    dynamic
        Returns the frontier of a round, in which rules extend the graph; None for a fixed graph.
    """

    name: str | None
    nodes: Sequence[str]
    wiring: Wiring
    tasks: list[Task]
    contracts: list[Contract]
    config: Config
    is_fed: bool
    unknown: Mapping[str, str]
    rules: Sequence[str] = ()
    dynamic: Callable[[], Any] | None = None


#: With so many outputs or more, none is suggested for a misspelt input: the search is slow.
_MANY_OUTPUTS = 1000


def check_names(names: Iterable[object]) -> None:
    """Raise a GraphError unless each name is a printable, non-empty string without ``->``."""
    for name in names:
        if not (isinstance(name, str) and name and name.isprintable()) or "->" in name:
            expected = (
                "a printable, non-empty string without '->', which joins names in edge weights"
            )
            raise GraphError(f"task name {short_repr(name)}: expected {expected}")


def check_task(name: object, item: object) -> Task:
    """Return the task `name`; for a class, an instance of it."""
    if isinstance(item, type) and issubclass(item, Task):
        return instance_of(item, f"task {name!r}")
    if not isinstance(item, Task):
        hint = "; @task(outputs=[...]) makes one of a function" if isfunction(item) else ""
        expected = f"expected a Task or a class of them, got {short_repr(item)}"
        raise DeclarationError(f"task {short_repr(name)}: {expected}{hint}")
    return item


_FIELDS = ("inputs", "outputs", "config_deps", "gathers", "serializer")
_CODECS = ("serialize", "deserialize")
_DECLARATIONS = frozenset((*_FIELDS, *_CODECS, "run", "compute"))


class ContractReader:
    """Reads the contracts of tasks: one for all instances of a class that declare nothing more.

    Parameters
    ----------
    default
        Serializer of tasks that choose none.
    """

    def __init__(self, default: Serializer | None) -> None:
        self._default = default
        self._of_class: dict[type[Task], Contract] = {}
        #: Contracts with equal fields share one tuple, since a wiring compares them by identity.
        self._fields: dict[tuple[str, ...], tuple[str, ...]] = {}
        #: What ``compute()`` of a class takes.
        self._parameters: dict[type[Task], Parameters] = {}

    def read(self, name: str, task: Task) -> Contract:
        """Return the contract of `task`, named `name`; raise a DeclarationError for a mistake."""
        contract = self._of_class.get(type(task))
        declares = not _DECLARATIONS.isdisjoint(vars(task))
        if contract is not None and not declares:
            return contract
        where = f"task {name!r}"
        check_declarations(task, where)
        contract = contract_of(task, self._parameters_of(task, where), self._default)
        contract.inputs = self._fields.setdefault(contract.inputs, contract.inputs)
        contract.outputs = self._fields.setdefault(contract.outputs, contract.outputs)
        if not declares and _has_contract_of_class(task):
            self._of_class[type(task)] = contract
        return contract

    def _parameters_of(self, task: Task, where: str) -> Parameters:
        is_own = "compute" in vars(task) or isinstance(type(task).compute, property)
        if not is_own and type(task) in self._parameters:
            return self._parameters[type(task)]
        words, hint = "compute() has no signature that fits", "; is 'self' missing?"
        with explained(DeclarationError, f"{where}: {words}", hint, of=(TypeError, ValueError)):
            parameters = Parameters.of(task.compute)
        if not is_own:
            self._parameters[type(task)] = parameters
        return parameters


def _has_contract_of_class(task: Task) -> bool:
    """Tell whether its class has one contract: no declaration is a property, no codec a method."""
    kind = type(task)
    return not (
        any(hasattr(getattr(kind, name), "__get__") for name in _FIELDS)
        or any(isinstance(getattr(task, name), MethodType) for name in _CODECS)
    )


def problems_of(
    wiring: Wiring,
    contracts: Sequence[Contract],
    outside: Mapping[int, Collection[str]],
    first: int = 0,
    wrong: dict[tuple[Contract, tuple[str, ...]], bool] | None = None,
) -> Iterator[DagProfilerError]:
    """Yield the problems with the inputs of the tasks from number `first` on.

    Parameters
    ----------
    contracts
        The contracts of these tasks.
    outside
        Task number to its inputs from outside the graph.
    wrong
        Contract and inputs to whether they have a problem; pass it again to the next call.
    """
    wrong = {} if wrong is None else wrong
    inputs = wiring.inputs[first:]
    # Tasks with the same contract and inputs are checked once.
    kinds = dict(zip(zip(contracts, inputs), count(first)))
    for (contract, fields), i in kinds.items():
        if (contract, fields) not in wrong:
            wrong[contract, fields] = any(_input_problems(wiring, i, contract, (), dict))
    if not (outside or any(wrong[kind] for kind in kinds)):
        return
    shown, producers = 0, partial(_last_producers, wiring)
    for i, kind in enumerate(zip(contracts, inputs), first):
        if wrong[kind] or i in outside:
            known = producers if shown < SHOWN_PROBLEMS else dict
            for problem in _input_problems(wiring, i, kind[0], outside.get(i, ()), known):
                shown += 1
                yield GraphError(f"task {wiring.names[i]!r}: {problem}")


def _input_problems(
    wiring: Wiring,
    i: int,
    contract: Contract,
    outside: Collection[str],
    producers: Callable[[], Mapping[str, str]],
) -> Iterator[str]:
    """Yield the problems of binding the fields of a task to ``compute()``.

    `producers` returns for each output a task that has it, for hints.
    """
    takes, gathers = contract.parameters, contract.gathers
    fields = [*wiring.inputs[i], *outside]
    arriving = set(fields)
    # Most tasks have no field twice.
    times = Counter(fields) if len(arriving) < len(fields) else {}
    for field, number in times.items():
        if number > 1 and field not in gathers:
            names = _producers(wiring, i, field, outside)
            yield (
                f"input {field!r} has {number} producers: {listed(names, show=str)}; "
                "list it in 'gathers' to receive all"
            )
        elif number > 1 and field in outside:
            yield f"input {field!r} is gathered from edges and given as well"
    if contract.overrides_run:
        # Such a run() may call compute() with any arguments.
        return
    for field in sorted(takes.required.difference(arriving, gathers)):
        hint = _hint(wiring.names[i], contract, field, producers())
        yield f"compute() needs {field!r}, and nobody provides it{hint}"
    if not takes.any:
        accepted = sorted(takes.required | takes.optional)
        for field in sorted(arriving.union(gathers).difference(accepted)):
            names = _producers(wiring, i, field, outside)
            source = f" from {listed(names, show=str)}" if names else ""
            yield (
                f"compute() does not take {field!r}{source} "
                f"(it takes: {listed(accepted, 20) or 'nothing'})"
                f"{did_you_mean(field, accepted)}; an edge with fields [] only orders"
            )


def _hint(name: str, contract: Contract, field: str, producers: Mapping[str, str]) -> str:
    """Return how a task would get a field that nobody provides, as far as can be told."""
    if contract.inputs and field not in contract.inputs:
        return f"; its declared inputs are {listed(contract.inputs)}"
    if producers.get(field, name) != name:
        return f"; task {producers[field]!r} has it as output, but no edge brings it here"
    others = [*producers] if len(producers) < _MANY_OUTPUTS else []
    return did_you_mean(field, others if contract.parameters.takes_cfg else ["cfg", *others])


def _last_producers(wiring: Wiring) -> dict[str, str]:
    """Return for each output the last task that has it."""
    named = zip(wiring.names, wiring.outputs)
    return {output: name for name, outputs in named for output in outputs}


def _producers(wiring: Wiring, i: int, field: str, outside: Collection[str]) -> list[str]:
    """Return the producers of `field` of task number `i`, quoted."""
    names = [repr(wiring.names[wiring.owner[s]]) for f, s in wiring.feeds(i) if f == field]
    return [*names, "run(inputs=...)"] if field in outside else names
