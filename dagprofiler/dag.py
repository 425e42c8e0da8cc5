"""DAG: tasks wired together, checked, and run."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cached_property, partial
from types import ModuleType
from typing import IO, TYPE_CHECKING, Any, Union

from dagprofiler._document.rounds import Rounds
from dagprofiler._util import Values, grouped
from dagprofiler._util.checks import instance
from dagprofiler._util.html import Drawing, Shown
from dagprofiler._util.text import printable
from dagprofiler.config import Config, no_parameter
from dagprofiler.engine.contracts import (
    ContractReader,
    Workflow,
    check_names,
    check_task,
    problems_of,
)
from dagprofiler.engine.hooks import Hook, hooks_of
from dagprofiler.errors import DeclarationError, GraphError, counted, refused, short_repr
from dagprofiler.graph.wiring import Wiring
from dagprofiler.profile import Profile
from dagprofiler.serializers import Serializer, check_serializer
from dagprofiler.task import Task
from dagprofiler.task import grows as task_grows

if TYPE_CHECKING:
    from dagprofiler.adapters import Converted
    from dagprofiler.rules import Rules

Inputs = Mapping[str, Values]
Edge = Union[tuple[str, str], tuple[str, str, Any], Sequence[Any]]

#: The fields of an edge that carries none: its target only runs after its source.
ORDER_ONLY: tuple[str, ...] = ()


def _config_of(config: Any) -> Config:
    """Return the argument `config` of a DAG as a Config."""
    if isinstance(config, Config):
        return config
    given = {} if config is None else config
    return Config(**instance("config", given, Mapping, "{name: value}", error=DeclarationError))


def _with_config(tasks: Mapping[str, Any], config: Config) -> dict[str, Task]:
    """Return the tasks, for a class an instance of it, and give each `config`."""
    check_names(tasks)
    checked, classes = dict[str, Task](), set[type]()
    for name, item in tasks.items():
        task = item
        # isinstance() of an abstract class is slow, so it is called once per class.
        if type(item) not in classes:
            task = check_task(name, item)
            classes.add(type(task))
        task.config = config
        checked[name] = task
    return checked


def parameters_of(dag: DAG) -> list[str]:
    """Return the names of the parameters that a DAG has, and of those that its tasks declare."""
    declared = [name for task in dag.tasks.values() for name in task.config_deps]
    return [*dict.fromkeys([*dag.config, *declared])]


class _Adjacency(dict[str, "list[str]"]):
    """Task name to names; a lookup of a missing task returns an empty list and adds no key."""

    def __missing__(self, name: str) -> list[str]:
        return []


class DAG(Shown):
    """Tasks and the edges that data travels along between them.

    Parameters
    ----------
    tasks
        Name to task, or to a task class, which is instantiated. Names
        are printable, non-empty strings (``str.isprintable()``) without ``->``.
    edges
        Each ``(source, target)``, which carries the outputs of the source
        that have the name of an input of the target, or all its outputs if
        none has; or ``(source, target, fields)`` with a list of outputs,
        ``dagprofiler.ORDER_ONLY`` for none, or a mapping of outputs to
        inputs.
    config
        Parameters for all tasks; another mapping is converted to a Config.
    serializer
        Serializer of the tasks that have none of their own; pickle by default.
    rules
        Rules that add tasks while the DAG runs: :class:`~dagprofiler.Rule`
        objects, which are checked in this order, or :class:`~dagprofiler.Rules`.
    name
        What profiles of the DAG are of, in a few words; they keep it as ``profile.name``.

    Attributes
    ----------
    tasks
        Name to task.
    config
        Parameters for all tasks.
    name
        As given; None without one. The command gives a DAG without a name its target's.
    execution_order
        Task names by Kahn's algorithm, the smallest ready name first.
    edges, reverse_edges
        Task name to the names of its successors, of its predecessors.
    edge_fields
        (source, target) to the outputs that travel on that edge.

    Raises
    ------
    GraphError
        If a name or an edge is not as above or is given twice, or an edge
        names an unknown task or field; CycleError if the edges form a cycle.
    DeclarationError
        If a value of `tasks` is not a task, or its declarations are invalid.

    Notes
    -----
    Tasks and edges of a DAG are fixed, and no run changes its graph.

    Examples
    --------
    >>> from dagprofiler import task
    >>> @task(inputs=[], outputs=["x"])
    ... def source(cfg):
    ...     return {"x": cfg.N}
    >>> @task(inputs=["x"], outputs=["y"])
    ... def double(x):
    ...     return {"y": 2 * x}
    >>> dag = DAG({"source": source, "double": double}, [("source", "double")], Config(N=4))
    >>> dag.run().final_outputs
    {'y': 8}
    """

    def __init__(
        self,
        tasks: Mapping[str, Task | type[Task]],
        edges: Iterable[Edge] = (),
        config: Config | Mapping[str, Any] | None = None,
        *,
        serializer: Serializer | None = None,
        rules: Rules | Iterable[Any] = (),
        name: str | None = None,
    ) -> None:
        if serializer is not None:
            check_serializer(serializer, "DAG")
        instance("tasks", tasks, Mapping, "{name: task}", error=DeclarationError)
        if isinstance(edges, Mapping) or not isinstance(edges, Iterable):
            raise GraphError(f"edges must be a list of (source, target), got {short_repr(edges)}")
        if name is not None and not (isinstance(name, str) and name):
            raise DeclarationError(f"name must be a text that is not empty, got {short_repr(name)}")
        self.name = name
        self.config = config = _config_of(config)
        self.serializer = serializer
        self.tasks = _with_config(tasks, config)
        self._rules: Rules | None = None
        if rules or any(task_grows(kind) for kind in {type(task) for task in self.tasks.values()}):
            from dagprofiler.rules import Rules

            self._rules = rules if isinstance(rules, Rules) else Rules(rules)
        names = sorted(self.tasks)
        wired = [self.tasks[name] for name in names]
        reader = ContractReader(serializer)
        contracts = [reader.read(name, self.tasks[name]) for name in names]
        self._wiring = wiring = Wiring(
            names,
            [contract.outputs for contract in contracts],
            [contract.inputs for contract in contracts],
            [contract.gathers for contract in contracts],
            edges,
        )
        is_fed = not any(problems_of(wiring, contracts, {}))
        self._workflow = Workflow(name, [*self.tasks], wiring, wired, contracts, config, is_fed, {})

    def __repr__(self) -> str:
        tasks, edges = counted(len(self.tasks), "task"), counted(len(self._wiring.routes), "edge")
        name = "" if self.name is None else f" {printable(self.name)!r}"
        return f"<DAG{name}: {tasks}, {edges}>"

    def draw(self, *, nodes: int = 60) -> Drawing:
        """Return a picture of the DAG, which notebooks show and which can be saved as SVG.

        A box shows the name of a task and its outputs; a tooltip on an edge shows the fields
        that it carries.

        Parameters
        ----------
        nodes
            Maximum number of nodes, at least 2. The tasks of a larger DAG are folded into
            groups of similar or neighbouring tasks.

        Raises
        ------
        ValueError
            If `nodes` is not an integer of at least 2.

        Examples
        --------
        ``dag.draw().save("dag.svg")`` writes a file.
        """
        from dagprofiler.report.drawing import Sketch, draw

        wiring = self._wiring
        sketch = Sketch(
            wiring.names,
            [(source, target) for source, target, _ in wiring.edges()],
            notes=[", ".join(outputs) for outputs in wiring.outputs],
            fields=[", ".join(fields) for fields in self.edge_fields.values()],
        )
        return draw(sketch, nodes)

    def _repr_html_(self) -> str:
        from dagprofiler._util.html import paragraph, text, view
        from dagprofiler.report.drawing import UNASKED

        if len(self.tasks) > UNASKED:
            return view(paragraph(text(repr(self))))
        return self.draw()._repr_html_()

    @cached_property
    def execution_order(self) -> list[str]:
        """Return the task names by Kahn's algorithm, the smallest ready name first."""
        return [self._wiring.names[i] for i in self._wiring.order]

    @cached_property
    def edges(self) -> dict[str, list[str]]:
        """Return for each task the names of its successors."""
        names = self._wiring.names
        return _Adjacency(grouped((names[a], names[b]) for a, b, _ in self._wiring.edges()))

    @cached_property
    def reverse_edges(self) -> dict[str, list[str]]:
        """Return for each task the names of its predecessors."""
        names = self._wiring.names
        return _Adjacency(grouped((names[b], names[a]) for a, b, _ in self._wiring.edges()))

    @cached_property
    def edge_fields(self) -> dict[tuple[str, str], list[str]]:
        """Return for each edge the outputs that travel on it."""
        wiring, names = self._wiring, self._wiring.names
        return {
            (names[source], names[target]): [wiring.field(source, i) for i, _ in routes]
            for source, target, routes in wiring.edges()
        }

    def validate(self, inputs: Inputs | None = None) -> None:
        """Check whether the DAG can run; :meth:`run` makes the same checks itself.

        Parameters
        ----------
        inputs
            Values from outside the graph, as for :meth:`run`.

        Raises
        ------
        ValidationError
            With all problems: inputs that ``compute()`` needs and that have no
            producer, inputs that it does not take, inputs with two
            producers, cost models that fail.
        """
        from dagprofiler.engine.setup import check, check_inputs

        check(self._current_workflow(), None if inputs is None else check_inputs(inputs))

    def run(
        self,
        seed: int | None = None,
        *,
        inputs: Inputs | None = None,
        rounds: int | str | Rounds = 1,
        meters: Any = None,
        executor: Any = None,
        priorities: Any = None,
        schedule: Mapping[str, Sequence[str]] | None = None,
        timeout: float | None = None,
        hooks: Iterable[Hook] = (),
        keep: Iterable[str] = (),
        on_error: str = "stop",
    ) -> Profile:
        """Run every task, in execution order, and measure it.

        Parameters
        ----------
        seed
            An integer from 0 to 2**63 - 1: every task gets its own random
            stream, for ``dagprofiler.rng()`` and for the legacy generators
            of numpy and ``random``, whose states are restored afterwards.
            None does not touch them.
        inputs
            ``{task: {field: value}}``: values from outside the graph. They
            are serialized and counted as any other input.
        rounds
            How often: a number, ``"auto"``, or :class:`~dagprofiler.Rounds`.
            With several rounds the profile holds the medians, every sample and
            their statistics; outputs are those of the last round.
        meters
            What is measured around ``compute()``: names,
            :class:`~dagprofiler.Meter` objects, or a list of both. ``"wall"``,
            the default of one round, is the clock alone; ``"default"``, the
            default of several, adds CPU time and run-queue delay; ``"full"``
            adds all meters that cost little.
        executor
            Where tasks run. None: in this process, one after the other, which
            is the most exact. Otherwise a ``concurrent.futures.Executor`` or
            an :class:`~dagprofiler.executors.Executor`, and tasks run
            concurrently, each as soon as its inputs are available.
        priorities
            Which of the ready tasks starts first on an executor: with a
            profile of this DAG, or a mapping of task names to times, the one
            with the longest path to a sink. By default the cost models give
            these times if all tasks have one; otherwise Kahn's order applies.
        schedule
            Node to its tasks in the order in which they run there, every task once; `executor`
            is then ``{node: pool}``, with a pool of one worker or a
            :class:`~dagprofiler.RayExecutor` for each node. Assignment and order are kept exactly.
        timeout
            How long a task may take, in seconds, if it has no ``timeout`` of its
            own; on an executor whose workers are processes. A task that takes longer
            is ended and fails with a :class:`~dagprofiler.TaskTimeoutError`.
        hooks
            Observers of the run.
        keep
            Names of tasks whose outputs ``profile.outputs`` holds in addition
            to those of the sinks.
        on_error
            ``"stop"``: after a failure nothing new starts. ``"finish"``:
            tasks that do not depend on it still run.

        Raises
        ------
        ValidationError
            Before any task starts, with all problems.
        RunError
            If a task or a hook failed; the first failure is its cause, and
            ``.profile`` holds what was measured.
        KeyboardInterrupt
            On Ctrl-C, with ``.profile``.
        """
        # Imported here: a program that only declares tasks needs no run loop.
        from dagprofiler.engine.run import HookCalls, Run
        from dagprofiler.engine.setup import RunOptions, prepare

        with closing(HookCalls([] if hooks == () else hooks_of(hooks))) as calls:
            workflow = self._current_workflow()
            options = RunOptions.of(
                seed=seed,
                inputs=inputs,
                rounds=rounds,
                meters=meters,
                keep=keep,
                on_error=on_error,
                executor=executor,
                priorities=priorities,
                timeout=timeout,
                schedule=schedule,
            )
            return Run(prepare(workflow, options), calls).execute()

    def resume(
        self,
        path: str | os.PathLike[str],
        *,
        seed: int | None = None,
        inputs: Inputs | None = None,
        executor: Any = None,
        priorities: Any = None,
        timeout: float | None = None,
        hooks: Iterable[Hook] = (),
    ) -> Profile:
        """Resume a run that a :class:`~dagprofiler.Journal` recorded.

        Finished tasks do not run again. The number of rounds, the meters and
        the outputs to keep are those of the recorded run. The journal records
        this attempt as well, so that it can be resumed in turn. It holds
        pickles, which execute code: resume only what you wrote.

        Parameters
        ----------
        path
            The journal's directory.
        seed, inputs
            By default those of the recorded run; different ones are refused.
        executor, priorities, timeout
            As for :meth:`run`; the executor may differ from the previous one.
        hooks
            Observers of the tasks that still have to run.

        Returns
        -------
        Profile
            Of the whole run; its ``run.resumed`` lists the resumptions.

        Raises
        ------
        JournalError
            If `path` is not a journal, or another run is writing to it; or if
            the DAG, config, seed or inputs differ, with all differences.
        ValidationError, RunError
            As :meth:`run`.

        Warns
        -----
        DagProfilerWarning
            If the source of a task has changed whose recorded results are reused.
        """
        from dagprofiler.engine.run import HookCalls, Run
        from dagprofiler.engine.setup import RunOptions, as_seed, check_inputs, prepare
        from dagprofiler.journal import Journal

        with closing(HookCalls([] if hooks == () else hooks_of(hooks))) as calls:
            journal = Journal(path)
            calls.hooks.insert(0, journal)
            past, workflow = journal.reopen(), self._current_workflow()
            past.compare(
                workflow,
                seed=None if seed is None else as_seed(seed),
                inputs=None if inputs is None else check_inputs(inputs),
            )
            asked = {"executor": executor, "priorities": priorities, "timeout": timeout}
            options = RunOptions.of(**{**vars(past.options), **asked})
            return Run(prepare(workflow, options, encoded=True), calls, past).execute()

    def _current_workflow(self) -> Workflow:
        """Return what a run takes of this DAG, with the tasks that were replaced."""
        self._update_replaced()
        workflow = replace(self._workflow, name=self.name, config=self.config)
        if self._rules is None:
            return workflow
        from dagprofiler.rules.growth import GrowingGraph

        rules, reader = self._rules, ContractReader(self.serializer)
        dynamic = partial(GrowingGraph, self._wiring, rules, reader, self.config)
        return replace(workflow, rules=[rule.name for rule in rules.rules], dynamic=dynamic)

    def with_config(self, config: Config | Mapping[str, Any]) -> DAG:
        """Return a DAG with the same tasks and edges and another config.

        Parameters
        ----------
        config
            A mapping changes these parameters and keeps the others; a :class:`Config` replaces
            all of them. If the DAG has no parameters, a mapping gives it some.

        Raises
        ------
        ValidationError
            If the mapping has a name that is no parameter of the config and in no task's
            ``config_deps``.

        Examples
        --------
        >>> DAG({}, [], Config(N=1, slow=1.0)).with_config({"slow": 1.3}).config
        Config(N=1, slow=1.3)
        """
        if self.config and isinstance(config, Mapping) and not isinstance(config, Config):
            names = parameters_of(self)
            for name in config:
                if name not in names:
                    raise refused(f"config: there is {no_parameter(name, names)}")
            config = self.config.copy(**config)
        other = copy.copy(self)
        other.config = _config_of(config)
        other.tasks = dict(self.tasks)
        return other

    @classmethod
    def from_yaml(cls, path: str | os.PathLike[str] | IO[Any]) -> DAG:
        """Read a DAG from a YAML file (extra ``yaml``).

        Parameters
        ----------
        path
            A file, or an open stream, with ``config`` (a mapping), ``tasks``
            (name to ``module`` and ``class``) and ``edges`` (each
            ``[source, target]``, ``[source, target, fields]``, or a mapping
            of ``source``, ``target`` and, optionally, ``data``).

        Raises
        ------
        GraphError
            If the file has another structure, or a class cannot be imported.
        MissingExtraError
            If PyYAML is not installed.
        """
        from dagprofiler.adapters.yaml import read_dag

        return cls(*read_dag(path))

    @classmethod
    def from_dask(cls, collection: Any, *, optimize: bool = True) -> DAG:
        """Make a DAG of what Dask would compute (extra ``dask``).

        Parameters
        ----------
        collection
            A Dask array, bag, dataframe or delayed value, or a list, tuple or dict of such.
        optimize
            Whether Dask optimizes the graph, which fuses keys, as before it runs one.

        Returns
        -------
        DAG
            With a task for each key, named after it without its hash, and the task ``result``,
            whose output ``value`` is what ``collection.compute()`` returns. Keys that hold data
            are part of the tasks that need them.

        Raises
        ------
        GraphError
            If there is no collection, or Dask makes no graph of it.
        MissingExtraError
            If Dask is not installed.

        Examples
        --------
        ``DAG.from_dask(array.sum()).run(rounds=5).save("profile.json")`` measures each key.
        """
        from dagprofiler.adapters.dask import from_dask

        return cls._converted(from_dask(collection, optimize=optimize))

    @classmethod
    def from_hamilton(
        cls, driver: Any, outputs: Iterable[Any], *, inputs: Mapping[str, Any] | None = None
    ) -> DAG:
        """Make a DAG of what a driver of Hamilton would execute (extra ``hamilton``).

        Parameters
        ----------
        driver
            A ``hamilton.driver.Driver``. Of its adapters, the result builder is used.
        outputs
            Names of nodes, or their functions, as for the driver's ``execute()``.
        inputs
            Name to value, as for ``execute()``; the driver's config gives values too.

        Returns
        -------
        DAG
            With a task for each node that is needed, named after it, and the task ``result``,
            whose output ``value`` is what ``driver.execute(outputs)`` returns. Inputs are part of
            the tasks that need them.

        Raises
        ------
        GraphError
            If Hamilton refuses outputs or inputs, or a node is ``Parallelizable``.
        DeclarationError
            If `driver` is something else.
        MissingExtraError
            If Hamilton is not installed.
        """
        from dagprofiler.adapters.hamilton import from_hamilton

        return cls._converted(from_hamilton(driver, outputs, inputs or {}))

    @classmethod
    def from_functions(
        cls,
        functions: ModuleType | Iterable[Callable[..., Any]],
        config: Config | Mapping[str, Any] | None = None,
        *,
        inputs: Mapping[str, Any] | None = None,
    ) -> DAG:
        """Make a DAG of functions, each of whose parameters is the name of another function.

        Parameters
        ----------
        functions
            Functions with distinct names, or a module, whose own functions without a leading
            underscore are taken.
        config
            Parameters for the functions that take ``cfg``.
        inputs
            Values of parameters that are the name of no function; they are bound to the tasks,
            as by :meth:`Task.bind <dagprofiler.Task.bind>`.

        Returns
        -------
        DAG
            With a task of each function's name, whose one output has that name too.

        Raises
        ------
        GraphError
            If a parameter without a default has no value, or a name has two meanings.
        DeclarationError
            If `functions` are not functions.

        Examples
        --------
        >>> def total(numbers):
        ...     return sum(numbers)
        >>> def mean(total, numbers):
        ...     return total / len(numbers)
        >>> dag = DAG.from_functions([mean, total], inputs={"numbers": [1, 2, 6]})
        >>> dag.run().final_outputs
        {'mean': 3.0}
        """
        from dagprofiler.adapters.functions import from_functions

        return cls._converted(from_functions(functions, inputs or {}), config)

    @classmethod
    def from_networkx(
        cls, graph: Any, config: Config | Mapping[str, Any] | None = None, *, task: str = "task"
    ) -> DAG:
        """Make a DAG of a networkx graph whose nodes hold what they compute (extra ``networkx``).

        Parameters
        ----------
        graph
            A ``networkx.DiGraph``. The attribute ``data_fields`` of an edge has the fields that it
            carries, in a form that the edges of a DAG have. Without it an edge carries the
            outputs that have the name of an input, or the one output to the one parameter of a
            function.
        config
            Parameters for all tasks.
        task
            The attribute of the nodes that holds a task, a task class or a function. The one
            output of a function has the name of its node.

        Raises
        ------
        GraphError
            If a node lacks the attribute, or it is open which output is which parameter; a
            CycleError if the edges form a cycle.
        DeclarationError
            If a node holds something else.
        MissingExtraError
            If networkx is not installed.
        """
        from dagprofiler.adapters.networkx import from_networkx

        return cls._converted(from_networkx(graph, task), config)

    @classmethod
    def _converted(cls, converted: Converted, config: Config | Values | None = None) -> DAG:
        dag = cls(converted.tasks, converted.edges, config)
        dag._workflow = replace(dag._workflow, unknown=converted.unknown)
        return dag

    def _update_replaced(self) -> None:
        """Update the tasks of the workflow that were replaced, and their contracts.

        Programs for version 0.1.0 replace tasks in ``dag.tasks``. The wiring
        does not change, so a replacement must declare the same outputs.
        """
        names, tasks, contracts = self._wiring.names, self._workflow.tasks, self._workflow.contracts
        changed = [i for i, name in enumerate(names) if self.tasks[name] is not tasks[i]]
        for i in changed:
            name, outputs = names[i], contracts[i].outputs
            task = self.tasks[name] = check_task(name, self.tasks[name])
            contract = ContractReader(self.serializer).read(name, task)
            if contract.outputs != outputs:
                raise refused(
                    f"task {name!r} was replaced by one with other outputs: "
                    f"{short_repr(list(contract.outputs))}, wired are {short_repr(list(outputs))}"
                )
            contracts[i], tasks[i] = contract, task
        if changed:
            is_fed = not any(problems_of(self._wiring, contracts, {}))
            self._workflow = replace(self._workflow, is_fed=is_fed)
