"""Graphs of networkx whose nodes hold tasks or functions: the inverse of the export."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dagprofiler.adapters import Converted
from dagprofiler.adapters.functions import FunctionTask
from dagprofiler.errors import DeclarationError, GraphError, explained, needs_extra, short_repr
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
            raise GraphError(f"node {node!r} has no attribute {task!r}, only {[*attributes]}")
        tasks[name] = _task(attributes[task], name)
    # Before the fields, in which a cycle shows as inputs that arrive twice.
    kahn_order(tasks, [(str(source), str(target)) for source, target in graph.edges])
    edges = [_edge(tasks, str(a), str(b), fields) for a, b, fields in graph.edges(data=_FIELDS)]
    return Converted(tasks, edges, {})


def _task(item: Any, name: str) -> Task:
    if isinstance(item, Task):
        return item
    if isinstance(item, type) and issubclass(item, Task):
        return instance_of(item, f"node {name!r}", name=name)
    if not callable(item) or isinstance(item, type):
        raise DeclarationError(f"node {name!r}: expected task or function, got {short_repr(item)}")
    with explained(DeclarationError, f"node {name!r}", of=DeclarationError):
        return FunctionTask(item, name)


def _edge(tasks: Mapping[str, Task], source: str, target: str, fields: Any) -> tuple[Any, ...]:
    """Return the edge of a DAG, with its fields where these are not the names that tasks share."""
    if fields is not None:
        return source, target, fields
    outputs, inputs = tasks[source].outputs, tasks[target].inputs
    if isinstance(tasks[target], FunctionTask) and not {*outputs} & {*inputs}:
        if not len(outputs) == len(inputs) == 1:
            ends = f"outputs {outputs} and parameters {inputs}"
            raise GraphError(f"edge {source!r} -> {target!r}, of {ends}, needs {_FIELDS!r}")
        return source, target, {outputs[0]: inputs[0]}
    return source, target
