"""Tasks of functions, and graphs of them: a parameter has the name of what feeds it."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable, Mapping
from types import FunctionType, ModuleType
from typing import Any, Callable

from dagprofiler._util import Values
from dagprofiler.adapters import Converted
from dagprofiler.errors import DeclarationError, GraphError, did_you_mean, explained, short_repr
from dagprofiler.graph.edges import field_problem
from dagprofiler.measure.pipeline import signature_of
from dagprofiler.task import Task

#: A function of the user's, which becomes a task.
Function = Callable[..., Any]


class _Named:
    """A function with named arguments and a named result: ``compute`` of a FunctionTask."""

    def __init__(self, function: Function, output: str) -> None:
        self._function = function
        self._output = output

    @property
    def __signature__(self) -> inspect.Signature:
        signature = signature_of(self._function)
        # The run would pass cfg to **options.
        named = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        return signature.replace(parameters=named)

    def __call__(self, **inputs: Any) -> dict[str, Any]:
        return {self._output: self._function(**inputs)}


class FunctionTask(Task):
    """A task that calls a function, whose result is its one output.

    Parameters
    ----------
    function
        Function of the inputs, by their names, and of ``cfg`` if it takes that.
    name
        Name of the task, and of its output unless no field can have it: that is ``value``.

    Raises
    ------
    DeclarationError
        If the function is asynchronous or a generator, or its parameters have no names.

    Examples
    --------
    >>> def double(x):
    ...     return 2 * x
    >>> task = FunctionTask(double, "double")
    >>> task.inputs, task.compute(x=3)
    (['x'], {'double': 6})
    """

    #: Each task has its own.
    compute: Any = None

    def __init__(self, function: Function, name: str) -> None:
        super().__init__(name)
        # Where a journal finds the source of the task.
        self.__wrapped__ = function
        self.inputs = list(fields_of(function))
        self.outputs = ["value" if field_problem(name) else name]
        self.compute = _Named(function, self.outputs[0])


class GatherTask(Task):
    """A task that calls a function of one mapping, whose values arrive over the edges.

    Parameters
    ----------
    function
        Function of a mapping; its result is the output.
    name
        Name of the task.
    needed
        The keys of the mapping.
    known
        Values of keys, also of others; those of the rest arrive over edges.
    output
        Name of the output.
    source
        Where a journal finds the source of the task, if anywhere.

    Attributes
    ----------
    arriving
        The keys whose values arrive, in the order of the edges.
    """

    inputs = gathers = ["values"]  # noqa: RUF012  (the standard's form)
    outputs: list[str] = ["value"]  # noqa: RUF012

    def __init__(
        self,
        function: Callable[[dict[Any, Any]], Any],
        name: str,
        needed: Iterable[Any],
        known: Mapping[Any, Any],
        *,
        output: str = "value",
        source: Any = None,
    ) -> None:
        super().__init__(name)
        self.__wrapped__ = function if source is None else source
        self._function = function
        keys = dict.fromkeys(needed)
        self.arriving = [key for key in keys if key not in known]
        self._known = {key: known[key] for key in keys if key in known}
        if output != "value":
            self.outputs = [output]

    def compute(self, values: list[Any]) -> dict[str, Any]:
        """Call the function with the values by their keys."""
        arrived = dict(zip(self.arriving, values))
        return {self.outputs[0]: self._function({**self._known, **arrived})}


def name_of_result(names: Collection[str]) -> str:
    """Return the name of the task that makes the result, beside the names of the others."""
    name = "result"
    while name in names:
        name += "_"
    return name


def fields_of(function: Function) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a function that inputs can have, which ``cfg`` is not.

    Raises
    ------
    DeclarationError
        If its result is no value, or it takes arguments without names.
    """
    kinds = inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction
    if any(kind(function) for kind in kinds):
        raise DeclarationError(f"{place_of(function)}: expected a function that returns its result")
    with explained(DeclarationError, place_of(function), of=ValueError):
        signature = signature_of(function)
    parameters = signature.parameters
    if any(p.kind in (p.VAR_POSITIONAL, p.POSITIONAL_ONLY) for p in parameters.values()):
        raise DeclarationError(f"{place_of(function)}: inputs have names, got {signature}")
    named = {name: p for name, p in parameters.items() if p.kind is not p.VAR_KEYWORD}
    named.pop("cfg", None)
    return named


def from_functions(functions: ModuleType | Iterable[Function], inputs: Values) -> Converted:
    """Return a task for each function, and an edge for each parameter named after a function.

    The parameters are those of :meth:`dagprofiler.DAG.from_functions`.
    """
    if not isinstance(inputs, Mapping):
        raise DeclarationError(f"from_functions(): inputs must be a dict, got {short_repr(inputs)}")
    by_name: dict[str, Function] = {}
    for function in _listed(functions):
        other = by_name.setdefault(function.__name__, function)
        if other is not function:
            both = f"{place_of(other)} and {place_of(function)}"
            raise GraphError(f"two functions are named {function.__name__!r}: {both}")
    names = [*by_name, *inputs]
    for name in inputs:
        if name in by_name:
            raise GraphError(f"{name!r} is both {place_of(by_name[name])} and a value in inputs")
    tasks: dict[str, Task] = {}
    edges: list[Any] = []
    taken: set[str] = set()
    for name, function in by_name.items():
        fields = fields_of(function)
        for field, parameter in fields.items():
            if field in by_name:
                edges.append((field, name, {field: field}))
            elif field not in inputs and parameter.default is parameter.empty:
                hint = f"{', '.join(map(repr, names))}){did_you_mean(field, [*names, 'cfg'])}"
                what = f"parameter {field!r} has no default, and is no function or input"
                raise GraphError(f"{place_of(function)}: {what} (names: {hint}")
        bound = {field: inputs[field] for field in fields if field in inputs}
        taken.update(fields)
        tasks[name] = FunctionTask(function, name).bind(**bound)
    for name in inputs:
        if name not in taken:
            hint = did_you_mean(name, sorted(taken))
            raise GraphError(f"inputs: no function has a parameter {name!r}{hint}")
    return Converted(tasks, edges, {})


def _listed(functions: Any) -> list[Function]:
    """Return the functions of a list, or the public ones that a module defines."""
    listed: list[Any]
    if isinstance(functions, ModuleType):
        public = [value for name, value in vars(functions).items() if not name.startswith("_")]
        written = [value for value in public if isinstance(value, FunctionType)]
        listed = [f for f in written if f.__module__ == functions.__name__]
    else:
        listed = [*functions] if isinstance(functions, Iterable) else []
    others = [f for f in listed if isinstance(f, type) or not hasattr(f, "__name__")]
    if others or not listed:
        what = "functions, or a module with public ones"
        wrong = short_repr(others[0] if others else functions)
        raise DeclarationError(f"from_functions(): expected {what}, got {wrong}")
    return listed


def place_of(function: Function) -> str:
    """Return the name of a function, and file and line of its code if it has any."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    name = getattr(function, "__qualname__", None) or repr(function)
    return f"{name}()" if code is None else f"{name}() ({code.co_filename}:{code.co_firstlineno})"
