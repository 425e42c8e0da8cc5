"""@task turns a function into a task class; dag() wires tasks by their fields."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Callable, cast

from dagprofiler._util import grouped
from dagprofiler.config import Config
from dagprofiler.dag import DAG
from dagprofiler.errors import DeclarationError, GraphError, short_repr
from dagprofiler.measure.pipeline import signature_of
from dagprofiler.serializers import Serializer
from dagprofiler.task import Task, instance_of

if TYPE_CHECKING:
    from inspect import Signature


def task(
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    config_deps: Sequence[str] | None = None,
    estimate_fn: Callable[[Any], Any] | None = None,
    *,
    gathers: Sequence[str] = (),
    serializer: Serializer | None = None,
    timeout: float | None = None,
) -> Callable[[Callable[..., Mapping[str, Any]]], type[Task]]:
    """Make a task class from a function.

    Parameters
    ----------
    inputs
        Input fields; by default the function's parameters without ``cfg``.
    outputs
        Output fields.
    config_deps, gathers, serializer, timeout
        As the attributes of :class:`~dagprofiler.Task`.
    estimate_fn
        Cost model: a function of the config that returns instructions.

    Returns
    -------
    callable
        A decorator that returns a subclass of Task with the function's
        name, module, docstring and signature. The function, with or without
        a parameter ``cfg``, is its ``compute``.

    Examples
    --------
    >>> @task(outputs=["area"])
    ... def rectangle(width, height):
    ...     return {"area": width * height}
    >>> rectangle.inputs
    ['width', 'height']
    """

    def decorate(function: Callable[..., Mapping[str, Any]]) -> type[Task]:
        if outputs is None:
            needs = "@task needs the names of the outputs: @task(outputs=[...])"
            raise DeclarationError(f"task {function.__name__!r}: {needs}")
        body: dict[str, object] = {
            "__module__": function.__module__,
            "__qualname__": function.__qualname__,
            "__doc__": function.__doc__,
            # Where inspect and doctest look; Python 3.13 no longer unwraps a class.
            "__wrapped__": function,
            "__signature__": signature_of(function),
            "__firstlineno__": function.__code__.co_firstlineno,
            "inputs": _fields(signature_of(function)) if inputs is None else _listed(inputs),
            "outputs": _listed(outputs),
            "config_deps": _listed(config_deps or ()),
            "gathers": _listed(gathers),
            "serializer": serializer,
            "timeout": timeout,
            "compute": staticmethod(function),
        }
        if estimate_fn is not None:
            body["estimate_instructions"] = staticmethod(estimate_fn)
        return cast("type[Task]", ABCMeta(function.__name__, (Task,), body))

    # Without parentheses: `inputs` is the function.
    return decorate(inputs) if callable(inputs) else decorate


def _listed(names: Sequence[str]) -> Sequence[str]:
    # check_declarations() refuses a bare string, with a better message.
    return list(names) if isinstance(names, (list, tuple)) else names


def _fields(signature: Signature) -> list[str]:
    """Return the names that a function takes by keyword, without ``cfg``."""
    return [
        name
        for name, parameter in signature.parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        and name != "cfg"
    ]


def dag(
    tasks: Iterable[Task | type[Task]],
    config: Config | None = None,
    edges: Iterable[Any] | None = None,
    *,
    serializer: Serializer | None = None,
) -> DAG:
    """Make a DAG whose edges follow from the fields of its tasks.

    Parameters
    ----------
    tasks
        Task classes, named after the class, or tasks with their own names.
    config
        Parameters for all tasks.
    edges
        Edges as for :class:`~dagprofiler.DAG`; by default one from the task
        that has an output to every task that has an input of that name.
    serializer
        As for :class:`~dagprofiler.DAG`.

    Raises
    ------
    GraphError
        If two tasks have the same name, or a task would feed itself.
    """
    named: dict[str, Task] = {}
    for item in tasks:
        node = item
        if isinstance(item, type) and issubclass(item, Task):
            node = instance_of(item, "dag()", name=item.__name__, config=config)
        if not isinstance(node, Task):
            raise DeclarationError(f"dag(): expected tasks or task classes, got {short_repr(item)}")
        if node.name in named:
            raise GraphError(f"two tasks are named {node.name!r}")
        named[node.name] = node
    wired = _edges(named) if edges is None else edges
    return DAG(named, wired, config, serializer=serializer)


def _edges(tasks: Mapping[str, Task]) -> list[tuple[str, str]]:
    """Return an edge for every pair of tasks that share a field."""
    producers = grouped((field, name) for name, node in tasks.items() for field in node.outputs)
    edges: dict[tuple[str, str], None] = {}
    for name, node in tasks.items():
        for field in node.inputs:
            for source in producers.get(field, ()):
                edges[source, name] = None
    return list(edges)
