"""RunOptions: what is asked of a run; and what a DAG is given: tasks, contracts, inputs.

Nothing that was not given is checked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from math import ceil
from operator import index, is_
from types import FunctionType
from typing import TYPE_CHECKING, Any, Protocol

from dagprofiler._document.rounds import PLAIN, Rounds, rounds_of
from dagprofiler._util.checks import choice, integer, names, number
from dagprofiler.config import Config
from dagprofiler.errors import (
    CostModelError,
    CycleError,
    DagProfilerError,
    DeclarationError,
    GraphError,
    ValidationError,
    describe,
    did_you_mean,
    listed,
    refused,
    short_repr,
)
from dagprofiler.executors import Executor
from dagprofiler.executors.serial import SerialExecutor
from dagprofiler.graph.edges import field_problem
from dagprofiler.graph.wiring import NumberedGraph, Wiring, bottom_levels, check_orders
from dagprofiler.measure.pipeline import Contract, Parameters
from dagprofiler.profile import Profile
from dagprofiler.serializers import Serializer
from dagprofiler.task import Task, check_declarations, contract_of, instance_of

if TYPE_CHECKING:
    from dagprofiler.measure.instruments import Instrumentation


@dataclass(frozen=True)
class RunOptions:
    """What is asked of a run: arguments of :meth:`DAG.run <dagprofiler.DAG.run>`, checked.

    Attributes
    ----------
    seed, inputs, meters, priorities, on_error
        As for :meth:`DAG.run <dagprofiler.DAG.run>`; meters are a list if they are no name.
    rounds
        A :class:`~dagprofiler.Rounds`.
    keep
        A list of names.
    executor
        An :class:`~dagprofiler.executors.Executor`; None for a serial run.
    timeout
        In seconds, or None.
    schedule
        Node to its tasks in order; None for a run in which workers take tasks from one queue.

    Raises
    ------
    ValidationError
        If one of them is not valid for any graph.
    """

    seed: int | None = None
    inputs: Mapping[str, Mapping[str, Any]] | None = None
    rounds: Any = 1
    meters: Any = None
    keep: Any = ()
    on_error: str = "stop"
    executor: Any = None
    priorities: Any = None
    timeout: float | None = None
    schedule: Mapping[str, Sequence[str]] | None = None

    def __post_init__(self) -> None:
        if all(map(is_, vars(self).values(), _DEFAULTS)):
            # A plain run, the most frequent one.
            object.__setattr__(self, "rounds", PLAIN[0])
            return
        rounds: Rounds = rounds_of(self.rounds)
        schedule = None if self.schedule is None else as_schedule(self.schedule)
        executor = as_executor(self._pinned(schedule), rounds)
        checked = {
            "seed": as_seed(self.seed),
            "rounds": rounds,
            "meters": list(self.meters) if isinstance(self.meters, Iterator) else self.meters,
            "keep": names("keep", self.keep, "names of tasks"),
            "on_error": choice("on_error", self.on_error, ("stop", "finish")),
            "executor": executor,
            "timeout": as_timeout(self.timeout, executor),
            "schedule": schedule,
        }
        check_inputs(self.inputs)
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def _pinned(self, schedule: Mapping[str, Sequence[str]] | None) -> Any:
        """Return the executor, of a run along a schedule one that keeps tasks on their nodes."""
        if schedule is None:
            return self.executor
        if self.priorities is not None:
            raise refused("priorities: a schedule has the order of the tasks already")
        if self.on_error == "finish":
            raise refused("on_error: after a failure the order of a schedule cannot be kept")
        from dagprofiler.executors.pools import PinnedExecutor

        return PinnedExecutor(self.executor, schedule)

    @property
    def several(self) -> bool:
        """Whether there is more than one round, warm-up included."""
        rounds: Rounds = self.rounds
        return rounds.n != 1 or rounds.warmup != 0

    @property
    def collects(self) -> bool:
        """Whether garbage is collected before each round; not in a plain run."""
        return self.several and self.rounds.collect_garbage is not None

    def instrumentation(self, store: Any, tracing: Any) -> tuple[Instrumentation | None, bool]:
        """Return what is measured in addition to the phases; a plain run imports no meters.

        Parameters
        ----------
        store
            To which workers write the outputs of each task, or None.
        tracing
            What is recorded inside of tasks in addition to annotations, or None.

        Returns
        -------
        tuple
            The instruments, or None, and whether a pass that counts allocations comes last.
        """
        rounds, meters = self.rounds, self.meters
        if store is not None and rounds.fresh_process:
            raise refused(
                "hooks: rounds in fresh processes report their tasks only when they are over, so "
                "a journal cannot record them; omit it, or fresh_process"
            )
        apart = rounds not in PLAIN or store is not None or tracing is not None
        if not apart and (meters is None or (isinstance(meters, str) and meters == "wall")):
            return None, False
        if meters is None:
            meters = "default" if self.several else "wall"
        from dagprofiler.measure.instruments import Instrumentation
        from dagprofiler.measure.meters import select

        selection = select(meters)
        made = Instrumentation(
            selection, rounds.collect_garbage == "tasks", rounds.check_outputs, store, tracing
        )
        return (made if apart or selection.columns else None), selection.allocation


_DEFAULTS = [option.default for option in fields(RunOptions)]


def ranking(
    wiring: Wiring | NumberedGraph, estimates: Mapping[int, int], priorities: Any
) -> tuple[str | None, list[int] | None]:
    """Return the source of priorities, and task numbers by decreasing upward rank.

    Both are None without a source.

    Parameters
    ----------
    wiring
        The graph.
    estimates
        Task number to the instructions that its cost model returns, if it has one.
    priorities
        A profile, a mapping of task names to times, or None.

    Raises
    ------
    ValidationError
        If `priorities` is of another type, or lacks a task.
    """
    names = wiring.names
    if priorities is None:
        if len(estimates) < len(names):
            return None, None
        source = "cost_models"
        weights: Sequence[float] = [estimates[i] for i in range(len(names))]
    else:
        source = "profile" if isinstance(priorities, Profile) else "given"
        times = _times(priorities)
        missing = [name for name in names if name not in times]
        if missing:
            raise refused(f"priorities: no time for {listed(missing, show=short_repr)}")
        weights = [times[name] for name in names]
    levels = bottom_levels(wiring.order, wiring.targets, wiring.first_target, weights)
    return source, sorted(range(len(names)), key=lambda i: (-levels[i], i))


def _times(priorities: Any) -> Mapping[str, float]:
    if isinstance(priorities, Profile):
        from dagprofiler.analysis.weights import times_of_tasks

        return times_of_tasks(priorities)
    if not isinstance(priorities, Mapping):
        raise refused(
            f"priorities: expected a Profile or {{task: time}}, got {short_repr(priorities)}"
        )
    return {
        name: number(f"priorities: time of task {short_repr(name)}", value, zero=True)
        for name, value in priorities.items()
    }


def as_schedule(schedule: Any) -> dict[str, list[str]]:
    """Return a schedule with lists of names, or raise a ValidationError."""
    if not (isinstance(schedule, Mapping) and schedule):
        raise refused(f"schedule must be {{node: [tasks]}}, got {short_repr(schedule)}")
    return {
        node: names(f"schedule: node {node!r}", schedule[node], "names of tasks")
        for node in names("schedule", schedule)
    }


def orders_of(
    schedule: Mapping[str, Sequence[str]], graph: Wiring | NumberedGraph
) -> list[list[int]]:
    """Return the task numbers of each node of a schedule, in order.

    Raises
    ------
    ValidationError
        If a name is unknown, a task is missing or stands twice, or the orders contradict the
        edges.
    """
    index = {name: i for i, name in enumerate(graph.names)}
    orders: list[list[int]] = []
    place: dict[str, Any] = {}
    for node, tasks in as_schedule(schedule).items():
        for name in tasks:
            if name not in index:
                hint = did_you_mean(name, graph.names)
                raise refused(f"schedule: node {node!r}: there is no task {name!r}{hint}")
            if name in place:
                raise refused(f"schedule: task {name!r} is on {place[name]!r} and on {node!r}")
            place[name] = node
        orders.append([index[name] for name in tasks])
    missing = [name for name in graph.names if name not in place]
    if missing:
        raise refused(f"schedule: no node has {', '.join(map(repr, missing[:5]))}")
    try:
        check_orders(orders, graph.targets, graph.first_target)
    except CycleError as error:
        numbers: Sequence[Any] = error.cycle
        waits = " -> ".join(repr(graph.names[i]) for i in numbers)
        raise refused(
            f"schedule: the order of the tasks contradicts the edges: {waits} would wait for "
            "each other forever"
        ) from error
    return orders


#: What the command calls executors.
_POOLS = {"threads": "ThreadPoolExecutor", "processes": "ProcessPoolExecutor"}


def as_executor(pool: Any, rounds: Rounds) -> Executor | None:
    """Return the argument of ``run(executor=...)`` as an Executor; None for a serial run.

    Raises
    ------
    ValidationError
        If it is not an executor, or does not support the other arguments.
    """
    if pool is None:
        return None
    # A serial run, the most frequent one, does not need this import.
    from dagprofiler.executors.pools import executor_of

    executor = executor_of(pool)
    if executor is None:
        kind, _, workers = pool.partition(":") if type(pool) is str else ("", "", "")
        hint = ""
        if kind in _POOLS:
            hint = f"; give {_POOLS[kind]}({workers}), which only the command spells like this"
        raise refused(
            "executor must be None, a concurrent.futures.Executor or an Executor of "
            f"dagprofiler, got {short_repr(pool)}{hint}"
        )
    if rounds.fresh_process:
        raise refused(
            "executor: rounds in fresh processes are serial; omit the executor, or fresh_process"
        )
    return executor


class EndsTasks(Protocol):
    """What an executor says of time limits."""

    @property
    def name(self) -> str:
        """Its name in the profile."""

    @property
    def enforces_timeout(self) -> bool:
        """Whether a task that exceeds its time limit is ended."""


def as_timeout(timeout: Any, executor: Executor | None) -> float | None:
    """Return the time limit of tasks that have none of their own, in seconds; None for none.

    Raises
    ------
    ValidationError
        If it is not a number above 0, or the executor cannot end a task.
    """
    if timeout is None:
        return None
    timeout_s = number("timeout", timeout, unit="seconds")
    check_ends(executor or SerialExecutor, "timeout")
    return float(timeout_s)


def check_limits(executor: EndsTasks, tasks: Mapping[str, Task]) -> None:
    """Raise a ValidationError if a task's own time limit is none, or cannot be kept."""
    for name, task in tasks.items():
        if task.timeout is not None:
            which = f"task {short_repr(name)}: timeout"
            number(which, task.timeout, unit="seconds")
            check_ends(executor, which)


def check_ends(executor: EndsTasks, which: str) -> None:
    """Raise a ValidationError that names the argument if an executor cannot end a task."""
    if not executor.enforces_timeout:
        name = "a serial run" if executor.name == "serial" else f"executor {executor.name!r}"
        raise refused(
            f"{which}: {name} cannot end a task, since it runs in a thread of this process; "
            "use an executor whose workers are processes"
        )


def check_names(names: Iterable[Any]) -> None:
    """Raise a GraphError unless each name is a printable, non-empty string without ``->``."""
    for name in names:
        if not isinstance(name, str) or not name:
            raise GraphError(f"task name {short_repr(name)}: expected a non-empty string")
        if not name.isprintable():
            character = next(letter for letter in name if not letter.isprintable())
            raise GraphError(
                f"task name {short_repr(name)} holds {character!a}, which cannot be printed"
            )
        if "->" in name:
            raise GraphError(
                f"task name {short_repr(name)} holds '->', which joins names in edge weights"
            )


def check_task(name: Any, given: Any) -> Task:
    """Return the task `name`; for a class, an instance of it."""
    if isinstance(given, type) and issubclass(given, Task):
        return instance_of(given, f"task {name!r}")
    if not isinstance(given, Task):
        raise DeclarationError(
            f"task {short_repr(name)}: expected a Task or a class of them, got {short_repr(given)}"
        )
    task: Task = given
    return task


def check_inputs(inputs: Any) -> None:
    """Raise a ValidationError unless `inputs` is None or ``{task: {field: value}}``."""
    if inputs is None:
        return
    problems: list[str] = []
    if isinstance(inputs, Mapping):
        for name, fields in inputs.items():
            where = f"inputs of task {short_repr(name)}"
            if not isinstance(fields, Mapping):
                problems.append(f"{where} must be {{field: value}}, got {short_repr(fields)}")
                continue
            wrong = {field: field_problem(field) for field in fields}
            problems += [
                f"{where}: {short_repr(field)} {why}" for field, why in wrong.items() if why
            ]
    else:
        problems.append(f"inputs must be {{task: {{field: value}}}}, got {short_repr(inputs)}")
    if problems:
        raise ValidationError([GraphError(problem) for problem in problems])


def as_seed(seed: Any) -> int | None:
    """Return the seed as an int or None, or raise a ValidationError."""
    return None if seed is None else integer("seed", seed, 0, 2**63 - 1, other="None")


_FIELDS = ("inputs", "outputs", "config_deps", "gathers", "serializer")
_CODECS = ("serialize", "deserialize")
_METHODS = ("run", "compute")
_DECLARATIONS = frozenset((*_FIELDS, *_CODECS, *_METHODS))


class ContractReader:
    """Reads the contracts of tasks, once for all that declare nothing themselves of a class.

    Parameters
    ----------
    default
        Serializer of tasks that choose none.
    """

    def __init__(self, default: Serializer | None) -> None:
        self._default = default
        self._of_class: dict[type[Task], Contract] = {}
        #: Classes whose instances may differ without declaring anything themselves.
        self._vary: set[type[Task]] = set()
        #: Equal fields are one tuple in all contracts, which a wiring knows by its identity.
        self._fields: dict[tuple[str, ...], tuple[str, ...]] = {}
        #: A function, which stays alive so that no other has its id, and what it takes.
        self._parameters: dict[tuple[int, bool], tuple[Any, Parameters]] = {}

    def read(self, name: str, task: Task) -> Contract:
        """Return the contract of `task`, named `name`; raise a DeclarationError for a mistake."""
        kind = type(task)
        known, declares = self._of_class.get(kind), not _DECLARATIONS.isdisjoint(vars(task))
        if known is not None and not declares:
            return known
        where = f"task {short_repr(name)}"
        check_declarations(task, where)
        parameters = self._parameters_of(task.compute, where)
        contract = contract_of(task, parameters, self._default)
        contract.inputs = self._fields.setdefault(contract.inputs, contract.inputs)
        contract.outputs = self._fields.setdefault(contract.outputs, contract.outputs)
        if not declares and kind not in self._vary:
            if _speaks_for_instances(kind):
                self._of_class[kind] = contract
            else:
                self._vary.add(kind)
        return contract

    def _parameters_of(self, compute: Any, where: str) -> Parameters:
        function = getattr(compute, "__func__", compute)
        # By identity, since a callable need not be hashable.
        key = id(function), function is compute
        if key not in self._parameters:
            try:
                self._parameters[key] = function, Parameters.of(compute)
            except (TypeError, ValueError) as error:
                raise DeclarationError(
                    f"{where}: compute() has no signature that fits: {describe(error)}; "
                    "is 'self' missing?"
                ) from error
        return self._parameters[key][1]


def _speaks_for_instances(kind: type[Task]) -> bool:
    """Tell whether instances without declarations share a contract: the class has no properties."""
    from inspect import getattr_static

    return (
        kind.__getattribute__ is object.__getattribute__
        and not any(hasattr(getattr_static(kind, name), "__get__") for name in _FIELDS)
        and all(type(getattr_static(kind, name)) is staticmethod for name in _CODECS)
        and all(type(getattr_static(kind, name)) in _PLAIN_METHODS for name in _METHODS)
    )


#: A function of a class made by @task is a static method.
_PLAIN_METHODS = FunctionType, staticmethod


def problems_of(
    wiring: Wiring,
    contracts: Sequence[Contract],
    outside: Mapping[int, Collection[str]],
    first: int = 0,
    wrong: dict[tuple[Contract, tuple[str, ...]], bool] | None = None,
) -> list[DagProfilerError]:
    """Return the problems with the inputs of the tasks from number `first` on.

    Parameters
    ----------
    contracts
        Of these tasks.
    outside
        Task number to its inputs from outside the graph.
    wrong
        Remembers which contracts and inputs do not fit together, for the next call.
    """
    # Many tasks are alike: their inputs are bound once for all of them.
    wrong = {} if wrong is None else wrong
    problems: list[DagProfilerError] = []
    for i, contract in enumerate(contracts, first):
        kind = contract, wiring.inputs[i]
        if kind not in wrong:
            wrong[kind] = any(_input_problems(wiring, i, contract, ()))
        if wrong[kind] or i in outside:
            problems += [
                GraphError(f"task {short_repr(wiring.names[i])}: {problem}")
                for problem in _input_problems(wiring, i, contract, outside.get(i, ()))
            ]
    return problems


def estimates_of(
    names: Sequence[str], tasks: Sequence[Task], config: Config, first: int = 0
) -> tuple[dict[int, int], list[CostModelError]]:
    """Return the estimates of cost models, by task number from `first` on, and their errors."""
    estimates: dict[int, int] = {}
    problems = []
    no_model = Task.estimate_instructions
    for i, task in enumerate(tasks):
        if task.estimate_instructions is not no_model:
            task.config = config
            try:
                estimated = estimate(names[i], task, config)
            except CostModelError as error:
                problems.append(error)
            else:
                if estimated is not None:
                    estimates[first + i] = estimated
    return estimates, problems


def estimate(name: str, task: Task, config: Config) -> int | None:
    """Return the estimated instructions of `task` under `config`; None if its model has none.

    Raises
    ------
    CostModelError
        If the model fails, or returns anything but a finite number of at
        least 0 that fits 64 bits, or None.
    """
    where = f"task {short_repr(name)}: estimate_instructions"
    try:
        value: Any = task.estimate_instructions(config)
    except Exception as error:
        raise CostModelError(f"{where} failed: {describe(error)}") from error
    if value is None:
        return None
    try:
        # ceil() converts to float, which would change a large numpy integer.
        try:
            instructions = index(value)
        except TypeError:
            instructions = ceil(value)
        in_range = value >= 0 and instructions < 2**63
    except (TypeError, ValueError, OverflowError):
        raise CostModelError(
            f"{where} returned {short_repr(value)}, expected a finite number or None"
        ) from None
    if not in_range:
        raise CostModelError(f"{where} returned {short_repr(value)}, expected 0 to 2**63 - 1")
    return instructions


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
