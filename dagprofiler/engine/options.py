"""Contracts: what tasks declare, read once for tasks of a kind, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from types import FunctionType
from typing import Any

from dagprofiler.errors import (
    DagProfilerError,
    DeclarationError,
    GraphError,
    describe,
    did_you_mean,
    short_repr,
)
from dagprofiler.graph.wiring import Wiring
from dagprofiler.measure.pipeline import Contract, Parameters
from dagprofiler.serializers import Serializer
from dagprofiler.task import Task, check_declarations, contract_of, instance_of


def check_names(names: Mapping[Any, Any]) -> None:
    """Raise a GraphError unless all task names are non-empty strings without ``->``."""
    try:
        # One search for all names; the loop below finds the wrong one.
        joined = "\0".join(names)
        # A subclass of str may count two equal texts as two names; readers of a profile do not.
        several = len({*map(str.__str__, names)}) < len(names)
        if "->" not in joined and "" not in names and not several:
            return
    except TypeError:
        pass
    known: set[str] = set()
    for name in names:
        if not isinstance(name, str) or not name:
            raise GraphError(f"task name {short_repr(name)}: expected a non-empty string")
        if str.__str__(name) in known:
            raise GraphError(f"task name {short_repr(name)} stands twice")
        known.add(str.__str__(name))
        if "->" in name:
            raise GraphError(
                f"task name {short_repr(name)} holds '->', which joins names in edge weights"
            )


def check_task(name: Any, given: Any) -> Task:
    """Return the task `name`; for a class, an instance of it."""
    if isinstance(given, type) and issubclass(given, Task):
        return instance_of(given, f"task {short_repr(name)}")
    if not isinstance(given, Task):
        raise DeclarationError(
            f"task {short_repr(name)}: expected a Task or a class of them, got {short_repr(given)}"
        )
    task: Task = given
    return task


_FIELDS = ("inputs", "outputs", "config_deps", "gathers", "serializer")
_CODECS = ("serialize", "deserialize")
_METHODS = ("run", "compute")
_DECLARATIONS = frozenset((*_FIELDS, *_CODECS, *_METHODS))


class ContractReader:
    """Reads the contracts of tasks, once for tasks of the same kind.

    Parameters
    ----------
    default
        Serializer of tasks that choose none.
    """

    def __init__(self, default: Serializer | None) -> None:
        self._default = default
        self._of_class: dict[type[Task], tuple[Any, Any, Contract]] = {}
        #: What holds for all instances of a class that declare nothing themselves, if anything.
        self._shared: dict[type[Task], Contract | None] = {}
        self._parameters: dict[tuple[int, bool], tuple[Any, Parameters]] = {}

    def read_all(self, names: Iterable[str], tasks: Sequence[Task]) -> list[Contract]:
        """Return the contracts of `tasks`, named `names`."""
        known, undeclared = self._shared.get, _DECLARATIONS.isdisjoint
        return [
            shared
            if (shared := known(type(task))) and undeclared(vars(task))
            else self.read(name, task)
            for name, task in zip(names, tasks)
        ]

    def read(self, name: str, task: Task) -> Contract:
        """Return the contract of `task`, named `name`.

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
                # An instance with its own compute() or run() that is not a method.
                pass
        check_declarations(task, f"task {short_repr(name)}")
        compute = task.compute
        function = getattr(compute, "__func__", compute)
        # By identity, since a callable need not be hashable; kept, so that the id stays valid.
        key = (id(function), function is compute)
        parameters = self._parameters[key][1] if key in self._parameters else None
        if parameters is None:
            try:
                parameters = Parameters.of(compute)
            except (TypeError, ValueError) as error:
                raise DeclarationError(
                    f"task {short_repr(name)}: compute() has no signature that fits: "
                    f"{describe(error)}; is 'self' missing?"
                ) from error
            self._parameters[key] = function, parameters
        contract = contract_of(task, parameters, self._default)
        if known is None:
            method = "compute" if function is compute else "compute.__func__"
            declarations = attrgetter(*_FIELDS, *_CODECS, "run.__func__", method)
            # The contract of an instance with its own run() does not apply to its class.
            with suppress(AttributeError):
                self._of_class[type(task)] = declarations, declarations(task), contract
        if type(task) not in self._shared and _DECLARATIONS.isdisjoint(vars(task)):
            self._shared[type(task)] = contract if _speaks_for_instances(type(task)) else None
        return contract


def _speaks_for_instances(kind: type[Task]) -> bool:
    """Tell whether instances without declarations share a contract: the class has no properties."""
    from inspect import getattr_static

    return (
        kind.__getattribute__ is object.__getattribute__
        and not any(hasattr(getattr_static(kind, name), "__get__") for name in _FIELDS)
        and all(type(getattr_static(kind, name)) is staticmethod for name in _CODECS)
        and all(type(getattr_static(kind, name)) is FunctionType for name in _METHODS)
    )


def problems_of(
    wiring: Wiring,
    contracts: Sequence[Contract],
    outside: Mapping[int, Collection[str]],
    first: int = 0,
) -> list[DagProfilerError]:
    """Return the problems with the inputs of the tasks from number `first` on.

    Parameters
    ----------
    contracts
        Of these tasks.
    outside
        Task number to its inputs from outside the graph.
    """
    numbers, inputs = range(first, len(wiring.inputs)), wiring.inputs[first:]
    # Many tasks are alike: their inputs are bound once for all of them.
    alike = dict(zip(zip(map(id, contracts), map(id, inputs)), numbers))
    wrong = {
        kind
        for kind, i in alike.items()
        if any(_input_problems(wiring, i, contracts[i - first], ()))
    }
    return [
        GraphError(f"task {short_repr(wiring.names[i])}: {problem}")
        for i, contract, fields in (zip(numbers, contracts, inputs) if wrong or outside else ())
        if i in outside or (id(contract), id(fields)) in wrong
        for problem in _input_problems(wiring, i, contract, outside.get(i, ()))
    ]


def _input_problems(
    wiring: Wiring, i: int, contract: Contract, outside: Collection[str]
) -> Iterator[str]:
    """Yield the problems of binding the fields of a task to ``compute()``."""
    takes, gathers = contract.parameters, contract.gathers
    fields = [*wiring.inputs[i], *outside]
    arriving = set(fields)
    plain = [field for field in fields if field not in gathers]
    if len(arriving.difference(gathers)) < len(plain):
        for field in dict.fromkeys(plain):
            names = _producers(wiring, i, field, outside)
            if len(names) > 1:
                yield (
                    f"input {field!r} has {len(names)} producers: "
                    f"{', '.join(names[:5])}{', ...' if len(names) > 5 else ''}; "
                    "list it in 'gathers' to receive all"
                )
    for field in outside:
        if field in gathers and len(_producers(wiring, i, field, outside)) > 1:
            yield f"input {field!r} is gathered from edges and given as well"
    if contract.overrides_run:
        # Such a run() may call compute() with any arguments.
        return
    for field in sorted(takes.required.difference(arriving, gathers)):
        hint = "" if takes.takes_cfg else did_you_mean(field, ["cfg"])
        yield f"compute() needs {short_repr(field)}, and nobody provides it{hint}"
    if not takes.any:
        accepted = sorted(takes.required | takes.optional)
        for field in sorted(arriving.union(gathers).difference(accepted)):
            names = _producers(wiring, i, field, outside)
            source = f" from {', '.join(names[:5])}" if names else ""
            yield (
                f"compute() does not take {short_repr(field)}{source} "
                f"(it takes: {', '.join(map(repr, accepted)) or 'nothing'})"
                f"{did_you_mean(field, accepted)}; an edge with fields [] only orders"
            )


def _producers(wiring: Wiring, i: int, field: str, outside: Collection[str]) -> list[str]:
    """Return the producers of `field` of task number `i`, quoted."""
    names = [short_repr(wiring.names[wiring.owner[s]]) for f, s in wiring.feeds(i) if f == field]
    return [*names, "run(inputs=...)"] if field in outside else names
