"""The contracts of many tasks, most of them alike, and whether their inputs fit them."""

from __future__ import annotations

from contextlib import suppress
from operator import attrgetter
from types import FunctionType
from typing import TYPE_CHECKING, Any

from dagprofiler.errors import DeclarationError, GraphError, did_you_mean
from dagprofiler.pipeline import Parameters
from dagprofiler.task import check_declarations, contract_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from dagprofiler.graph import Wiring
    from dagprofiler.pipeline import Contract
    from dagprofiler.serializers import Serializer
    from dagprofiler.task import Task

__all__ = ["ContractReader", "input_problems"]

_FIELDS = ("inputs", "outputs", "config_deps", "gathers", "serializer")
_CODECS = ("serialize", "deserialize")
_METHODS = ("run", "compute")
_DECLARATIONS = frozenset((*_FIELDS, *_CODECS, *_METHODS))


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
        #: What holds for all instances of a class that declare nothing themselves, if anything.
        self._shared: dict[type[Task], Contract | None] = {}
        self._parameters: dict[tuple[int, bool], tuple[Any, Parameters]] = {}

    def read_all(self, names: Iterable[str], tasks: Sequence[Task]) -> list[Contract]:
        """Return the contracts of `tasks`, which stand under `names`."""
        shared = map(self._shared.get, map(type, tasks))
        undeclared = map(_DECLARATIONS.isdisjoint, map(vars, tasks))
        return [
            contract if contract and alike else self.read(name, task)
            for contract, alike, name, task in zip(shared, undeclared, names, tasks)
        ]

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
                # An own compute() or run() that is no method.
                pass
        check_declarations(task, f"task {name!r}")
        compute = task.compute
        function = getattr(compute, "__func__", compute)
        # By identity, since a callable need not be hashable; kept, so that it holds.
        key = (id(function), function is compute)
        parameters = self._parameters[key][1] if key in self._parameters else None
        if parameters is None:
            try:
                parameters = Parameters.of(compute)
            except (TypeError, ValueError) as error:
                raise DeclarationError(
                    f"task {name!r}: compute() has no signature that fits: {error}; "
                    "is 'self' missing?"
                ) from error
            self._parameters[key] = function, parameters
        contract = contract_of(task, parameters, self._default)
        if known is None:
            method = "compute" if function is compute else "compute.__func__"
            declarations = attrgetter(*_FIELDS, *_CODECS, "run.__func__", method)
            # An instance whose own run() is no method can't speak for its class.
            with suppress(AttributeError):
                self._of_class[type(task)] = declarations, declarations(task), contract
        if type(task) not in self._shared and _DECLARATIONS.isdisjoint(vars(task)):
            self._shared[type(task)] = contract if _speaks_for_instances(type(task)) else None
        return contract


def _speaks_for_instances(kind: type[Task]) -> bool:
    """Tell whether all instances that declare nothing themselves are alike: no properties."""
    from inspect import getattr_static

    return (
        kind.__getattribute__ is object.__getattribute__
        and not any(hasattr(getattr_static(kind, name), "__get__") for name in _FIELDS)
        and all(type(getattr_static(kind, name)) is staticmethod for name in _CODECS)
        and all(type(getattr_static(kind, name)) is FunctionType for name in _METHODS)
    )


def input_problems(
    wiring: Wiring, i: int, contract: Contract, outside: Collection[str]
) -> Iterator[GraphError]:
    """Yield what binding the fields that arrive to ``compute()`` refuses."""
    where = f"task {wiring.names[i]!r}"
    takes, gathers = contract.parameters, contract.gathers
    fields = [*wiring.inputs[wiring.first_input[i] : wiring.first_input[i + 1]], *outside]
    arriving = set(fields)
    plain = [field for field in fields if field not in gathers]
    if len(arriving.difference(gathers)) < len(plain):
        for field in dict.fromkeys(plain):
            names = _producers(wiring, i, field, outside)
            if len(names) > 1:
                yield GraphError(
                    f"{where}: input {field!r} has {len(names)} producers: "
                    f"{', '.join(names[:5])}{', ...' if len(names) > 5 else ''}; "
                    "list it in 'gathers' to receive all"
                )
    for field in outside:
        if field in gathers and len(_producers(wiring, i, field, outside)) > 1:
            yield GraphError(f"{where}: input {field!r} is gathered from edges and given as well")
    if contract.overrides_run:
        # Such a run() may call compute() with whatever it likes.
        return
    for field in sorted(takes.required.difference(arriving, gathers)):
        hint = "" if takes.takes_cfg else did_you_mean(field, ["cfg"])
        yield GraphError(f"{where}: compute() needs {field!r}, and nobody provides it{hint}")
    if not takes.any:
        accepted = sorted(takes.required | takes.optional)
        for field in sorted(arriving.union(gathers).difference(accepted)):
            names = _producers(wiring, i, field, outside)
            source = f" from {', '.join(names[:5])}" if names else ""
            yield GraphError(
                f"{where}: compute() does not take {field!r}{source} "
                f"(it takes: {', '.join(map(repr, accepted)) or 'nothing'})"
                f"{did_you_mean(field, accepted)}; an edge with fields [] only orders"
            )


def _producers(wiring: Wiring, i: int, field: str, outside: Collection[str]) -> list[str]:
    """Return who feeds `field` of task number `i`, quoted."""
    names = [repr(wiring.names[wiring.owner[s]]) for f, s in wiring.feeds(i) if f == field]
    return [*names, "run(inputs=...)"] if field in outside else names
