"""Graphs of Hamilton: the nodes of a driver as tasks, and the driver's own runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from inspect import iscoroutinefunction
from threading import get_ident
from time import perf_counter, time
from typing import Any

from dagprofiler._util import grouped
from dagprofiler._util.interpreter import HOSTNAME
from dagprofiler._util.text import distinct, some
from dagprofiler.adapters import Converted, Observed, OwnRun, profile_of
from dagprofiler.adapters.functions import GatherTask, name_of_result
from dagprofiler.errors import (
    DagProfilerError,
    DeclarationError,
    GraphError,
    describe,
    explained,
    needs_extra,
    short_repr,
)
from dagprofiler.graph.edges import field_problem
from dagprofiler.profile import Profile
from dagprofiler.task import Task

#: What Hamilton's graphs cannot give.
_UNKNOWN = {"estimated_instructions": "Hamilton's graphs have no cost models"}

_SIZES = ("size_bytes", "wire_bytes", "bytes_in", "bytes_out")

_UNKNOWN_OF_RUN = {**_UNKNOWN, **dict.fromkeys(_SIZES, "Hamilton serializes none of its values")}


def _called(function: Callable[..., Any], names: Sequence[str], values: Mapping[str, Any]) -> Any:
    """Return the result of a function of values by their names, which come in this order."""
    return function(**{name: values[name] for name in names})


def from_hamilton(driver: Any, outputs: Iterable[Any], inputs: Mapping[str, Any]) -> Converted:
    """Return a task for each node that the outputs need, and one for the result.

    The parameters are those of :meth:`dagprofiler.DAG.from_hamilton`.
    """
    with needs_extra("DAG.from_hamilton", "hamilton"):
        from hamilton.driver import Driver
        from hamilton.execution.graph_functions import combine_config_and_inputs
    if not isinstance(driver, Driver):
        raise DeclarationError(f"from_hamilton(): expected a Driver, got {short_repr(driver)}")
    if isinstance(outputs, str) or not isinstance(outputs, Iterable):
        what = f"outputs must be a list of nodes, got {short_repr(outputs)}"
        raise DeclarationError(f"from_hamilton(): {what}")
    graph = driver.graph
    with explained(GraphError, "from_hamilton()"):
        wanted = [
            node if isinstance(node, str) else getattr(node, "name", None) or node.__name__
            for node in outputs
        ]
        needed, from_user = graph.get_upstream_nodes(wanted, inputs)
        Driver.validate_inputs(graph, driver.adapter, from_user, inputs, needed)
        values = combine_config_and_inputs(graph.config, inputs)
    nodes = {node.name: node for node in needed if not node.user_defined}
    _check_nodes(nodes)
    known = {name: value for name, value in values.items() if name not in nodes}
    exist = nodes.keys() | known.keys()
    if missing := [name for name in wanted if name not in exist]:
        raise GraphError(f"from_hamilton(): with this config no node makes {missing[0]!r}")
    result = name_of_result(nodes)
    fields = {name: "value" if field_problem(name) else name for name in nodes}
    # Optional dependencies may not exist.
    needs = {
        name: [n.name for n in nodes[name].dependencies if n.name in exist]
        for name in sorted(nodes)
    }
    needs[result], fields[result] = wanted, "value"
    tasks: dict[str, Task] = {}
    edges: list[Any] = []
    for name, names in needs.items():
        if name == result:
            function, written = _builder_of(driver), ()
        else:
            function, written = nodes[name].callable, nodes[name].originating_functions
        compute, source = partial(_called, function, names), written[-1] if written else None
        task = GatherTask(compute, name, names, known, output=fields[name], source=source)
        tasks[name] = task
        edges += [(needed, name, {fields[needed]: "values"}) for needed in task.arriving]
    return Converted(tasks, edges, _UNKNOWN)


def _check_nodes(nodes: Mapping[str, Any]) -> None:
    """Raise a GraphError if a node is not one task, or is asynchronous."""
    from hamilton.node import NodeType

    for name, node in nodes.items():
        if node.node_role in (NodeType.EXPAND, NodeType.COLLECT):
            raise GraphError(f"from_hamilton(): node {name!r} is Parallelizable, or collects one")
        if any(map(iscoroutinefunction, (node.callable, *(node.originating_functions or ())))):
            raise GraphError(f"from_hamilton(): node {name!r} is asynchronous")


def _builder_of(driver: Any) -> Callable[..., Any]:
    """Return what makes the result of ``execute()``."""
    builders = [a.build_result for a in driver.adapter.adapters if hasattr(a, "build_result")]
    return builders[-1] if builders else dict


def profile_hamilton() -> Any:
    """Return an adapter that profiles what a driver runs.

    Returns
    -------
    Recording
        For ``Builder().with_adapters(...)``. Its ``profile`` is that of the last run.

    Raises
    ------
    MissingExtraError
        If Hamilton is not installed.

    Notes
    -----
    A node's time is that between Hamilton's two hooks, other adapters' hooks included that come
    between them. Sizes are unknown: values stay in the process, and nothing is serialized. A node
    that runs several times, behind a ``Parallelizable`` one, is a task each time. What a driver
    runs in other processes, and nodes with an override, are not recorded; the profile says so.
    """
    with needs_extra("profile_hamilton", "hamilton"):
        from hamilton.lifecycle import GraphExecutionHook, NodeExecutionHook

    class HamiltonRecording(NodeExecutionHook, GraphExecutionHook):  # type: ignore[misc]
        """Keeps when the nodes of a run began and ended."""

        def __init__(self) -> None:
            self._run = _Recorded({})

        def __reduce__(self) -> Any:
            # In another process it records nothing.
            return profile_hamilton, ()

        def run_before_graph_execution(self, *, graph: Any, execution_path: Any, **_: Any) -> None:
            path = {*execution_path}
            needs = {
                node.name: sorted(path & {*node.required_dependencies, *node.optional_dependencies})
                for node in graph.nodes
                if node.name in path
            }
            self._run = _Recorded(needs)

        def run_before_node_execution(self, *, node_name: str, task_id: Any, **_: Any) -> None:
            self._run.started[node_name, task_id] = perf_counter()

        def run_after_node_execution(
            self, *, node_name: str, task_id: str | None, error: Exception | None, **_: Any
        ) -> None:
            self._run.ended[node_name, task_id] = perf_counter(), get_ident(), error

        def run_after_graph_execution(self, *, success: bool, **_: Any) -> None:
            self._run.succeeded = success

        @property
        def profile(self) -> Profile:
            """The profile of the last run; a DagProfilerError before the first."""
            return self._run.profile()

    return HamiltonRecording()


class _Recorded:
    """What the hooks of one run saw.

    Parameters
    ----------
    needs
        Node to the nodes that it needs.
    """

    def __init__(self, needs: Mapping[str, list[str]]) -> None:
        self._needs = needs
        self._epoch_s, self._began_s = time(), perf_counter()
        #: Node, and the part of a dynamic run that it is in, to when it began.
        self.started: dict[tuple[str, str | None], float] = {}
        #: The same to when it ended, in which thread, and its error.
        self.ended: dict[tuple[str, str | None], tuple[float, int, Exception | None]] = {}
        self.succeeded = False

    def profile(self) -> Profile:
        """Return the profile of the run; raise a DagProfilerError if no node was to run."""
        if not self._needs:
            raise DagProfilerError("the driver has run nothing yet")
        parts = grouped(self.started)
        missing = [node for node in self._needs if node not in parts]
        if not self.succeeded:
            # They would have come.
            parts.update((node, [None]) for node in missing)
        keys = [(node, part) for node in self._needs for part in parts.get(node, ())]
        names = dict(zip(keys, distinct([node for node, _ in keys], "{} #{}")))
        threads = [*dict.fromkeys(thread for _, thread, _ in self.ended.values())]
        done, states, edges = {}, {}, []
        for key, name in names.items():
            sources = self._sources(*key, parts)
            edges += [(names[source], name) for source in sources]
            end_s, thread, error = self.ended.get(key, (0.0, 0, None))
            if error is not None:
                states[name] = {"state": "failed", "error": describe(error)}
            elif key not in self.ended:
                states[name] = {"state": "cancelled"}
            else:
                start_s = self.started[key]
                ends_s = (self.ended[source][0] for source in sources if source in self.ended)
                ready_s = min(start_s, max(ends_s, default=self._began_s))
                done[name] = Observed(threads.index(thread), ready_s, start_s, end_s, None)
        unknown = dict(_UNKNOWN_OF_RUN)
        if missing and self.succeeded:
            unknown["dag_structure"] = f"not run in this process, or overridden: {some(missing)}"
        run = OwnRun(
            executor="hamilton",
            began_s=self._began_s,
            epoch_s=self._epoch_s,
            fields={name: node for (node, _), name in names.items()},
            edges=edges,
            done=done,
            states=states,
            workers=[{"host": HOSTNAME, "pid": os.getpid(), "thread": ident} for ident in threads],
            unknown=unknown,
            sections={},
        )
        return profile_of(run)

    def _sources(
        self, node: str, part: str | None, parts: Mapping[str, Sequence[str | None]]
    ) -> list[tuple[str, str | None]]:
        """Return what a node needed, within its part of a dynamic run or between parts."""
        return [
            (needed, other)
            for needed in self._needs[node]
            for other in parts.get(needed, ())
            if other == part or part not in parts[needed]
        ]
