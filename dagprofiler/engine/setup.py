"""Setup: what a run is of, and what is asked of it; fixed before its first task starts.

A DAG gives its :class:`Workflow`, a call its :class:`RunOptions`; :func:`prepare` checks one
against the other. Arguments that are left at their defaults are not checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from importlib import import_module
from math import ceil
from numbers import Integral
from operator import index
from time import perf_counter, time
from typing import TYPE_CHECKING, Any

from dagprofiler._document.rounds import PLAIN, Rounds, rounds_of
from dagprofiler._util import Values
from dagprofiler._util.checks import choice, instance, integer, names, number
from dagprofiler.config import Config
from dagprofiler.engine.contracts import Workflow, problems_of
from dagprofiler.errors import (
    CostModelError,
    CycleError,
    DagProfilerError,
    SerializationError,
    ValidationError,
    did_you_mean,
    explained,
    listed,
    refused,
    short_repr,
)
from dagprofiler.executors import Executor
from dagprofiler.graph.edges import field_problem
from dagprofiler.graph.wiring import NumberedGraph, Wiring, bottom_levels, check_orders
from dagprofiler.profile import Profile
from dagprofiler.serializers import Frames, frames_bytes
from dagprofiler.task import Task

if TYPE_CHECKING:
    from dagprofiler.measure.instruments import Instrumentation

Inputs = Mapping[str, Values]


@dataclass(frozen=True)
class RunOptions:
    """The arguments of :meth:`DAG.run <dagprofiler.DAG.run>`.

    Attributes
    ----------
    seed, inputs, meters, priorities, on_error
        As for that method; an iterator of meters has become a list.
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
    """

    seed: int | None = None
    inputs: Inputs | None = None
    rounds: Rounds = PLAIN[0]
    meters: Any = None
    keep: Sequence[str] = ()
    on_error: str = "stop"
    executor: Executor | None = None
    priorities: Any = None
    timeout: float | None = None
    schedule: Mapping[str, Sequence[str]] | None = None

    @classmethod
    def of(cls, **arguments: Any) -> RunOptions:
        """Return the arguments of a run, checked.

        Raises
        ------
        ValidationError
            If one of them is not valid for any graph.
        """
        passed = {name: value for name, value in arguments.items() if value is not _DEFAULTS[name]}
        for name, check in _CHECKS.items():
            if name in passed:
                passed[name] = check(passed[name])
        options = cls(**passed)
        executor: Any = options.executor
        if options.schedule is not None:
            if options.priorities is not None:
                raise refused("priorities: a schedule has the order of the tasks already")
            if options.on_error == "finish":
                raise refused("on_error: after a failure the order of a schedule cannot be kept")
            from dagprofiler.executors.pools import PinnedExecutor

            executor = PinnedExecutor(executor, options.schedule)
        executor = as_executor(executor, options.rounds)
        timeout_s = time_limit("timeout", options.timeout, executor)
        return replace(options, executor=executor, timeout=timeout_s)

    @property
    def is_repeated(self) -> bool:
        """Whether there is more than one round, warm-up included."""
        return self.rounds.n != 1 or self.rounds.warmup != 0

    def instruments(self) -> Instrumentation | None:
        """Return what is measured in addition to the phases; None for a plain run."""
        rounds, meters = self.rounds, self.meters
        if rounds in PLAIN and meters in (None, "wall"):
            return None
        if meters is None:
            meters = "default" if self.is_repeated else "wall"
        from dagprofiler.measure.instruments import Instrumentation
        from dagprofiler.measure.meters import select

        collects = rounds.collect_garbage == "tasks"
        return Instrumentation(select(meters), collects, rounds.check_outputs)


#: The defaults of :meth:`DAG.run <dagprofiler.DAG.run>`.
_DEFAULTS = {**{option.name: option.default for option in fields(RunOptions)}, "rounds": 1}


@dataclass(frozen=True)
class Setup:
    """What a run is of; fixed before its first task starts, emptied of tasks and inputs after.

    Attributes
    ----------
    workflow, options
        What the DAG gives, and the arguments of the run.
    instruments
        What is measured in addition to the phases; None for a plain run.
    given_inputs
        Task number to its inputs from outside the graph, serialized.
    estimates
        Task number to the instructions that its cost model returns; tasks without a model are
        absent.
    priorities, ranked
        The source of priorities, and all task numbers by decreasing priority; None for Kahn's
        order.
    orders
        The task numbers of each node of the schedule, in order; empty without a schedule.
    is_repeated, allocation
        Whether there is more than one round, warm-up included, and whether a pass that counts
        allocations comes last.
    started_at
        When the run began, in seconds since 1970.
    started_s
        Reading of the clock, in seconds, when the run began.
    """

    workflow: Workflow
    options: RunOptions
    instruments: Instrumentation | None
    given_inputs: dict[int, Values]
    estimates: dict[int, int]
    priorities: str | None
    ranked: list[int] | None
    orders: list[list[int]]
    is_repeated: bool
    allocation: bool
    started_at: float
    started_s: float


def prepare(workflow: Workflow, options: RunOptions, *, encoded: bool = False) -> Setup:
    """Return the setup of a run, or raise an error with all that is wrong with it.

    Parameters
    ----------
    encoded
        Whether the inputs are serialized already.

    Raises
    ------
    ValidationError
        If the options do not fit the graph, inputs are missing, or cost models fail.
    SerializationError
        If an input cannot be serialized.
    """
    if options.seed is not None:
        # Some 50 ms the first time, outside of the run's time.
        import_module("dagprofiler.measure.random")
    started_at, started_s = time(), perf_counter()
    given_inputs, estimates = check(workflow, options.inputs)
    if options.keep and workflow.dynamic is None:
        _numbers(_index(workflow.wiring.names), options.keep, "keep")
    source, ranked, orders = _order(workflow, options, estimates)
    check_limits(options.executor, workflow.wiring.names, workflow.tasks)
    instruments = options.instruments()
    if given_inputs and not encoded:
        given_inputs = _encoded(workflow, given_inputs)
    return Setup(
        workflow=workflow,
        options=options,
        instruments=instruments,
        given_inputs=given_inputs,
        estimates=estimates,
        priorities=source,
        ranked=ranked,
        orders=orders,
        is_repeated=options.is_repeated,
        allocation=instruments is not None and instruments.meters.allocation,
        started_at=started_at,
        started_s=started_s,
    )


def check(workflow: Workflow, inputs: Inputs | None) -> tuple[dict[int, Values], dict[int, int]]:
    """Return the inputs from outside the graph and the estimates of the cost models, by task.

    Raises
    ------
    ValidationError
        With all problems.
    """
    given_inputs: dict[int, Values] = {}
    if inputs:
        numbers = _numbers(_index(workflow.wiring.names), inputs, "inputs")
        given_inputs = {i: dict(values) for i, values in zip(numbers, inputs.values())}
    problems: Iterable[DagProfilerError] = ()
    if inputs or not workflow.is_fed:
        problems = problems_of(workflow.wiring, workflow.contracts, given_inputs)
    names, tasks = workflow.wiring.names, workflow.tasks
    estimates, failed = estimates_of(names, tasks, workflow.config)
    all_problems = [*problems, *failed]
    if all_problems:
        raise ValidationError(all_problems) from all_problems[0]
    return given_inputs, estimates


def _index(names: Iterable[str]) -> dict[str, int]:
    """Return the number of each task by its name."""
    return {name: i for i, name in enumerate(names)}


def _numbers(index: Mapping[str, int], names: Iterable[str], where: str) -> list[int]:
    """Return the numbers of tasks, or raise a ValidationError that says where a name stands."""
    for name in names:
        if name not in index:
            hint = did_you_mean(name, [*index])
            raise refused(f"{where}: there is no task {short_repr(name)}{hint}")
    return [index[name] for name in names]


def _encoded(workflow: Workflow, inputs: Mapping[int, Values]) -> dict[int, Values]:
    """Return inputs from outside the graph, serialized by their tasks' serializers."""
    encoded: dict[int, Values] = {}
    for i, values in inputs.items():
        name, frames = workflow.wiring.names[i], dict[str, Frames]()
        for field, value in values.items():
            what = f"inputs: {field!r} of task {name!r} ({type(value).__name__})"
            with explained(SerializationError, f"{what} cannot be serialized"):
                frames[field] = workflow.contracts[i].encode(value)
                # Raises a TypeError unless they are frames.
                frames_bytes(frames[field])
        encoded[i] = frames
    return encoded


def _order(
    workflow: Workflow, options: RunOptions, estimates: Mapping[int, int]
) -> tuple[str | None, list[int] | None, list[list[int]]]:
    """Return the source of priorities, the tasks by priority, and those of each node in order."""
    if workflow.dynamic is not None:
        for name in ("priorities", "schedule"):
            if getattr(options, name) is not None:
                raise refused(f"{name}: not available for a graph that grows")
        return None, None, []
    if options.schedule is not None:
        return None, None, orders_of(options.schedule, workflow.wiring)
    is_serial = options.executor is None
    if is_serial and options.priorities is None:
        return None, None, []
    source, ranked = ranking(workflow.wiring, estimates, options.priorities)
    # A serial run takes Kahn's order, and refuses what a concurrent one refuses.
    return (None, None, []) if is_serial else (source, ranked, [])


def ranking(
    wiring: Wiring | NumberedGraph,
    estimates: Mapping[int, int],
    priorities: Profile | Mapping[str, float] | None,
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
            raise refused(f"priorities: no time for {listed(missing)}")
        weights = [times[name] for name in names]
    levels = bottom_levels(wiring.order, wiring.below, weights)
    return source, sorted(range(len(names)), key=lambda i: (-levels[i], i))


def _times(priorities: Profile | Mapping[str, float]) -> Mapping[str, float]:
    if isinstance(priorities, Profile):
        from dagprofiler.analysis.weights import times_of_tasks

        return times_of_tasks(priorities)
    instance("priorities", priorities, Mapping, "a Profile or {task: time}")
    return {
        name: number(f"priorities: time of task {short_repr(name)}", value, zero=True)
        for name, value in priorities.items()
    }


def as_schedule(schedule: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
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
    index, orders, node_of = _index(graph.names), list[list[int]](), dict[str, str]()
    for node, tasks in as_schedule(schedule).items():
        orders.append(_numbers(index, tasks, f"schedule: node {node!r}"))
        for name in tasks:
            if name in node_of:
                raise refused(f"schedule: task {name!r} is on {node_of[name]!r} and on {node!r}")
            node_of[name] = node
    missing = [name for name in graph.names if name not in node_of]
    if missing:
        raise refused(f"schedule: no node has {listed(missing, 5)}")
    try:
        check_orders(orders, graph.below)
    except CycleError as error:
        waits = " -> ".join(repr(graph.names[int(i)]) for i in error.cycle)
        raise refused(
            f"schedule: the order of the tasks contradicts the edges: {waits} would wait for "
            "each other forever"
        ) from error
    return orders


def as_executor(pool: object, rounds: Rounds) -> Executor | None:
    """Return the argument of ``run(executor=...)`` as an Executor; None for a serial run.

    Raises
    ------
    ValidationError
        If it is not an executor, or does not support the other arguments.
    """
    if pool is None:
        return None
    # A serial run, the most frequent one, does not need this import.
    from dagprofiler.executors.jobs import reads_a_task
    from dagprofiler.executors.pools import executor_of

    if reads_a_task():
        # Its workers would import the module again, and so on without end.
        raise refused(
            "executor: a worker imports the module that starts this run; start it under "
            "if __name__ == '__main__':"
        )
    executor = executor_of(pool)
    if executor is None:
        raise refused(
            "executor must be None, a concurrent.futures.Executor, as ThreadPoolExecutor(2) or "
            f"ProcessPoolExecutor(2), or an Executor of dagprofiler, got {short_repr(pool)}"
        )
    if rounds.fresh_process:
        raise refused(
            "executor: rounds in fresh processes are serial; omit the executor, or fresh_process"
        )
    return executor


def time_limit(which: str, timeout: object, executor: Executor | None) -> float | None:
    """Return a time limit in seconds; None for none.

    Raises
    ------
    ValidationError
        If it is not a number above 0, or the executor cannot end a task.
    """
    if timeout is None:
        return None
    timeout_s = number(which, timeout, unit="seconds")
    if executor is None or not executor.enforces_timeout:
        where = "a serial run" if executor is None else f"executor {executor.name!r}"
        raise refused(
            f"{which}: {where} cannot end a task, since it runs in a thread of this process; "
            "use an executor whose workers are processes"
        )
    return float(timeout_s)


def check_limits(executor: Executor | None, names: Iterable[str], tasks: Iterable[Task]) -> None:
    """Raise a ValidationError if a task's own time limit is invalid, or cannot be kept."""
    for name, task in zip(names, tasks):
        if task.timeout is not None:
            time_limit(f"task {name!r}: timeout", task.timeout, executor)


def check_inputs(inputs: Inputs) -> Inputs:
    """Return `inputs`; raise a ValidationError unless they are ``{task: {field: value}}``."""
    instance("inputs", inputs, Mapping, "{task: {field: value}}")
    for name, values in inputs.items():
        where = f"inputs of task {short_repr(name)}"
        instance(where, values, Mapping, "{field: value}")
        for field in values:
            why = field_problem(field)
            if why is not None:
                raise refused(f"{where}: {short_repr(field)} {why}")
    return inputs


def as_seed(seed: object) -> int:
    """Return the seed as an int, or raise a ValidationError."""
    return integer("seed", seed, 0, 2**63 - 1, other="None")


def estimates_of(
    names: Sequence[str], tasks: Sequence[Task], config: Config, first: int = 0
) -> tuple[dict[int, int], list[CostModelError]]:
    """Return the estimates of cost models by task number, and the errors of other models.

    Parameters
    ----------
    names, tasks
        The tasks, whose numbers count from `first`.
    """
    estimates: dict[int, int] = {}
    problems = []
    no_model = Task.estimate_instructions
    for i, task in enumerate(tasks):
        if task.estimate_instructions is not no_model:
            task.config = config
            try:
                estimated = estimate(names[i], task, config)
                if estimated is not None:
                    estimates[first + i] = estimated
            except CostModelError as error:
                problems.append(error)
    return estimates, problems


def estimate(name: str, task: Task, config: Config) -> int | None:
    """Return the estimated instructions of `task` under `config`; None if its model has none.

    Raises
    ------
    CostModelError
        If the model fails, or returns anything but a finite number of at
        least 0 that fits 64 bits, or None.
    """
    where = f"task {name!r}: estimate_instructions"
    with explained(CostModelError, f"{where} failed"):
        value: Any = task.estimate_instructions(config)
    if value is None:
        return None
    try:
        # ceil() converts to float, which would change a large numpy integer.
        instructions = index(value) if isinstance(value, Integral) else ceil(value)
        is_valid = value >= 0 and instructions < 2**63
    except (TypeError, ValueError, OverflowError):
        is_valid = False
    if not is_valid:
        raise CostModelError(
            f"{where} returned {short_repr(value)}, expected None or a number from 0 to 2**63 - 1"
        )
    return instructions


#: The check of each option that does not depend on the others.
_CHECKS: dict[str, Callable[[Any], object]] = {
    "seed": as_seed,
    "rounds": rounds_of,
    "meters": lambda meters: list(meters) if isinstance(meters, Iterator) else meters,
    "keep": lambda keep: names("keep", keep, "names of tasks"),
    "on_error": lambda on_error: choice("on_error", on_error, ("stop", "finish")),
    "schedule": as_schedule,
    "inputs": check_inputs,
}
