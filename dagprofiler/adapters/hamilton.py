"""Graphs of Hamilton: the nodes of a driver as tasks, and the driver's own runs."""

from __future__ import annotations

from threading import get_ident
from time import perf_counter, time
from typing import TYPE_CHECKING, Any

from dagprofiler.adapters import Converted
from dagprofiler.adapters._recorded import Observed, OwnRun, profile_of
from dagprofiler.adapters.functions import GatherTask
from dagprofiler.errors import (
    DagProfilerError,
    DeclarationError,
    GraphError,
    MissingExtraError,
    describe,
    short_repr,
)
from dagprofiler.graph.edges import field_problem
from dagprofiler.measure.machine import hostname

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from dagprofiler.profile import Profile
    from dagprofiler.task import Task

#: What Hamilton's graphs cannot give.
_UNKNOWN = {"estimated_instructions": "Hamilton's graphs have no cost models"}


class _Node:
    """A function of keyword arguments as one of a mapping."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, values: Mapping[str, Any]) -> Any:
        return self._function(**values)


class _HamiltonResult:
    """Makes what the driver's ``execute()`` returns of the outputs.

    Parameters
    ----------
    names
        The outputs, in their order.
    build
        The driver's result builder; None for a dict.
    """

    def __init__(self, names: list[str], build: Callable[..., Any] | None) -> None:
        self._names = names
        self._build = build

    def __call__(self, values: Mapping[str, Any]) -> Any:
        outputs = {name: values[name] for name in self._names}
        return outputs if self._build is None else self._build(**outputs)


def from_hamilton(driver: Any, outputs: Iterable[Any], inputs: Mapping[str, Any]) -> Converted:
    """Return a task for each node that the outputs need, and one for the result.

    The parameters are those of :meth:`dagprofiler.DAG.from_hamilton`.
    """
    try:
        from hamilton.driver import Driver
        from hamilton.execution.graph_functions import combine_config_and_inputs
        from hamilton.node import NodeType
    except ImportError as error:
        raise MissingExtraError("DAG.from_hamilton", "hamilton") from error
    if not isinstance(driver, Driver):
        raise DeclarationError(
            f"from_hamilton(): expected a hamilton.driver.Driver, got {short_repr(driver)}"
        )
    if isinstance(outputs, str):
        raise DeclarationError(f"from_hamilton(): outputs must be a list, write [{outputs!r}]")
    wanted = [
        held if isinstance(held, str) else getattr(held, "name", None) or held.__name__
        for held in outputs
    ]
    graph = driver.graph
    try:
        needed, from_user = graph.get_upstream_nodes(wanted, inputs)
        Driver.validate_inputs(graph, driver.adapter, from_user, inputs, needed)
        given = combine_config_and_inputs(graph.config, inputs)
    except Exception as error:
        raise GraphError(f"from_hamilton(): {describe(error)}") from error
    nodes = {node.name: node for node in needed if not node.user_defined}
    for name, node in nodes.items():
        if node.node_role in (NodeType.EXPAND, NodeType.COLLECT):
            raise GraphError(
                f"from_hamilton(): node {name!r} is Parallelizable or collects one: how many tasks "
                "it makes is known only when it runs"
            )
    result = _name_of_result(nodes)
    fields = {name: "value" if field_problem(name) else name for name in nodes}
    needs = {name: [n.name for n in nodes[name].dependencies] for name in sorted(nodes)}
    needs[result] = wanted
    tasks: dict[str, Task] = {}
    edges: list[Any] = []
    for name, names in needs.items():
        arriving = list(dict.fromkeys(needed for needed in names if needed in nodes))
        known = {needed: given[needed] for needed in names if needed in given}
        edges += [(needed, name, {fields[needed]: "values"}) for needed in arriving]
        if name == result:
            finish = _HamiltonResult(wanted, _builder_of(driver))
            tasks[name] = GatherTask(finish, name, arriving, known)
        else:
            node = nodes[name]
            tasks[name] = GatherTask(
                _Node(node.callable),
                name,
                arriving,
                known,
                output=fields[name],
                source=(node.originating_functions or (None,))[-1],
            )
    return Converted(tasks, edges, _UNKNOWN)


def _name_of_result(nodes: Mapping[str, Any]) -> str:
    name = "result"
    while name in nodes:
        name += "_"
    return name


def _builder_of(driver: Any) -> Callable[..., Any] | None:
    """Return what makes the result of ``execute()``; None for a dict."""
    if not driver.adapter.does_method("do_build_result", is_async=False):
        return None
    builders = [a for a in driver.adapter.adapters if hasattr(a, "build_result")]
    build: Callable[..., Any] = builders[-1].build_result
    return build


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
    between them. Sizes are unknown: values stay in the process, and nothing is serialized.
    """
    try:
        from hamilton.lifecycle import GraphExecutionHook, NodeExecutionHook
    except ImportError as error:
        raise MissingExtraError("profile_hamilton", "hamilton") from error

    class HamiltonRecording(NodeExecutionHook, GraphExecutionHook):  # type: ignore[misc]
        """Keeps when the nodes of a run began and ended."""

        _run: _Recorded | None = None

        def run_before_graph_execution(
            self, *, graph: Any, execution_path: Iterable[str], **_: Any
        ) -> None:
            path = {*execution_path}
            needs = {
                node.name: sorted(path & {*node.required_dependencies, *node.optional_dependencies})
                for node in graph.nodes
                if node.name in path
            }
            self._run = _Recorded(needs)

        def run_before_node_execution(self, *, node_name: str, **_: Any) -> None:
            if self._run is not None:
                self._run.begun[node_name] = perf_counter()

        def run_after_node_execution(
            self, *, node_name: str, error: Exception | None, **_: Any
        ) -> None:
            now = perf_counter()
            if self._run is not None:
                self._run.ended[node_name] = now, get_ident(), error

        def run_after_graph_execution(self, **_: Any) -> None:
            """Nothing is left to keep."""

        @property
        def profile(self) -> Profile:
            """The profile of the last run; a DagProfilerError before the first."""
            if self._run is None:
                raise DagProfilerError("the driver has run nothing yet")
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
        #: Node to when it began.
        self.begun: dict[str, float] = {}
        #: Node to when it ended, in which thread, and its error.
        self.ended: dict[str, tuple[float, int, Exception | None]] = {}

    def profile(self) -> Profile:
        """Return the profile of the run."""
        from os import getpid

        threads = {
            thread: n for n, thread in enumerate(dict.fromkeys(e[1] for e in self.ended.values()))
        }
        done, states = {}, {}
        for name, needs in self._needs.items():
            end_s, thread, error = self.ended.get(name, (0.0, 0, None))
            if name in self.ended and error is None:
                ready_s = max(
                    (self.ended[n][0] for n in needs if n in self.ended), default=self._began_s
                )
                done[name] = Observed(threads[thread], ready_s, self.begun[name], end_s, None)
            elif error is not None:
                states[name] = {"state": "failed", "error": describe(error)}
            else:
                states[name] = {"state": "cancelled"}
        host = {"host": hostname(), "pid": getpid()}
        unknown = dict.fromkeys(
            ("size_bytes", "wire_bytes", "bytes_in", "bytes_out"),
            "Hamilton passes values in one process, and serializes none",
        )
        return profile_of(
            OwnRun(
                executor="hamilton",
                began_s=self._began_s,
                epoch_s=self._epoch_s,
                fields={name: name for name in self._needs},
                edges=[(source, name) for name, needs in self._needs.items() for source in needs],
                done=done,
                states=states,
                workers=[{**host, "thread": thread} for thread in threads],
                unknown={**_UNKNOWN, **unknown},
                sections={},
            )
        )
