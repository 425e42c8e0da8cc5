"""Graphs of networkx whose nodes hold tasks or functions: the inverse of the export."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dagprofiler.adapters import Converted
from dagprofiler.adapters.functions import FunctionTask, place_of
from dagprofiler.errors import DeclarationError, GraphError, needs_extra, short_repr
from dagprofiler.graph.wiring import kahn_order
from dagprofiler.task import Task, instance_of

#: The edge attribute that names the fields, as in an export.
_FIELDS = "data_fields"


def from_networkx(graph: Any, task: str) -> Converted:
    """Return a task for each node, and an edge for each edge.

    The parameters are those of :meth:`dagprofiler.DAG.from_networkx`.
    """
    with needs_extra("DAG.from_networkx", "networkx"):
        import networkx
    if not isinstance(graph, networkx.DiGraph) or graph.is_multigraph():
        raise GraphError(f"from_networkx(): expected a networkx.DiGraph, got {short_repr(graph)}")
    tasks: dict[str, Task] = {}
    nodes: dict[str, Any] = {}
    for node, attributes in graph.nodes(data=True):
        name = str(node)
        if name in nodes:
            raise GraphError(f"nodes {nodes[name]!r} and {node!r} would both be named {name!r}")
        nodes[name] = node
        if task not in attributes:
            has = ", ".join(map(repr, attributes)) or "none"
            raise GraphError(f"node {node!r} has no attribute {task!r} (it has: {has})")
        tasks[name] = _task(attributes[task], name)
    # Before the fields, in which a cycle shows as inputs that arrive twice.
    kahn_order(tasks, [(str(source), str(target)) for source, target in graph.edges])
    edges: list[Any] = []
    for name, node in nodes.items():
        arriving = {str(source): edge.get(_FIELDS) for source, edge in graph.pred[node].items()}
        edges += _edges(tasks, name, arriving)
    return Converted(tasks, edges, {})


def _task(held: Any, name: str) -> Task:
    if isinstance(held, Task):
        return held
    if isinstance(held, type) and issubclass(held, Task):
        return instance_of(held, f"node {name!r}", name=name)
    if not callable(held) or isinstance(held, type):
        raise DeclarationError(
            f"node {name!r} holds {short_repr(held)}, expected a task or function"
        )
    try:
        return FunctionTask(held, name)
    except DeclarationError as error:
        raise DeclarationError(f"node {name!r}: {error}") from error


def _edges(tasks: Mapping[str, Task], name: str, arriving: Mapping[str, Any]) -> list[Any]:
    """Return the edges to the task `name` from its predecessors, given their edges' fields."""
    target = tasks[name]
    named: list[Any] = []
    unnamed = []
    for source, fields in arriving.items():
        if fields is not None:
            named.append((source, name, fields))
        elif not isinstance(target, FunctionTask) or _is_named(tasks[source], source, target):
            named.append((source, name))
        else:
            unnamed.append(source)
    if not isinstance(target, FunctionTask) or not unnamed:
        return named
    where = f"node {name!r}"
    if named:
        raise GraphError(
            f"{where}: no parameter has the name of {unnamed[0]!r} or of its outputs, but those of "
            f"other predecessors have (parameters: {', '.join(map(repr, target.inputs))}); give "
            f"the edge {unnamed[0]!r} -> {name!r} the attribute {_FIELDS!r}"
        )
    if len(unnamed) > len(target.inputs):
        raise GraphError(
            f"{where}: {place_of(target.__wrapped__)} takes {len(target.inputs)} inputs, and "
            f"{len(unnamed)} edges end here: {', '.join(map(repr, unnamed))}"
        )
    for source, field in zip(unnamed, target.inputs):
        outputs = tasks[source].outputs
        if len(outputs) != 1:
            known = ", ".join(map(repr, outputs)) or "none"
            raise GraphError(
                f"{where}: which output of {source!r} is its {field!r}? (outputs: {known}); give "
                f"the edge the attribute {_FIELDS!r}"
            )
        named.append((source, name, {outputs[0]: field}))
    return named


def _is_named(source: Task, name: str, target: Task) -> bool:
    """Tell whether a task has an output with the name of an input of another."""
    return any(
        field in target.inputs and (field == name or not isinstance(source, FunctionTask))
        for field in source.outputs
    )
