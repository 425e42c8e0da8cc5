"""Checks of the arguments of ``DAG()`` and ``DAG.run()``, before the run begins."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from dagprofiler.analysis.weights import times_of_tasks
from dagprofiler.engine.hooks import Hook, check_methods
from dagprofiler.errors import (
    CycleError,
    DeclarationError,
    GraphError,
    ValidationError,
    did_you_mean,
    short_repr,
)
from dagprofiler.graph.edges import field_problem
from dagprofiler.graph.wiring import bottom_levels, check_orders
from dagprofiler.profile import Profile
from dagprofiler.task import Task, instance_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dagprofiler._document.rounds import Rounds
    from dagprofiler.executors import Executor
    from dagprofiler.graph.wiring import NumberedGraph, Wiring


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
            more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
            raise _refused(f"no time for {', '.join(map(repr, missing[:5]))}{more}")
        weights = [times[name] for name in names]
    levels = bottom_levels(wiring.order, wiring.targets, wiring.first_target, weights)
    return source, sorted(range(len(names)), key=lambda i: (-levels[i], i))


def _times(priorities: Any) -> Mapping[str, float]:
    if isinstance(priorities, Profile):
        return times_of_tasks(priorities)
    if not isinstance(priorities, Mapping):
        raise _refused(f"expected a Profile or {{task: time}}, got {short_repr(priorities)}")
    from dagprofiler._util.checks import plain_number

    times = {}
    for name, value in priorities.items():
        time = plain_number(value)
        if time is None or time < 0:
            raise _refused(
                f"time of task {name!r} must be a number of at least 0, got {short_repr(value)}"
            )
        times[name] = time
    return times


def _refused(problem: str) -> ValidationError:
    return ValidationError([GraphError(f"priorities: {problem}")])


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
    if not isinstance(schedule, Mapping):
        raise refused(f"schedule must be {{node: [tasks]}}, got {short_repr(schedule)}")
    orders: list[list[int]] = []
    place: dict[str, Any] = {}
    for node, tasks in schedule.items():
        if isinstance(tasks, str):
            raise refused(f"schedule: node {node!r} needs a list of tasks, got {short_repr(tasks)}")
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


def refused(problem: str) -> ValidationError:
    """Return the error for a run with one problem."""
    return ValidationError([GraphError(problem)])


def as_list(values: Any) -> Any:
    """Return an iterator as a list, and any other value unchanged."""
    return list(values) if isinstance(values, Iterator) else values


def as_executor(pool: Any, rounds: Rounds) -> Executor | None:
    """Return the argument of ``run(executor=...)`` as an Executor; None for a serial run.

    Raises
    ------
    ValidationError
        If it is not an executor, or does not support the other arguments.
    """
    executor = None
    if pool is not None:
        # A serial run, the most frequent one, does not need this import.
        from dagprofiler.executors.pools import executor_of

        executor = executor_of(pool)
        if executor is None:
            raise refused(
                "executor must be None, a concurrent.futures.Executor or an Executor of "
                f"dagprofiler, got {short_repr(pool)}"
            )
        if rounds.fresh_process:
            raise refused(
                "executor: rounds in fresh processes are serial; omit the executor, or "
                "fresh_process"
            )
    return executor


def as_timeout(timeout: Any, executor: Executor | None) -> float | None:
    """Return the longest time of a task on an executor, in seconds; None for no limit.

    Raises
    ------
    ValidationError
        If it is not a number above 0, or the executor cannot end a task.
    """
    if timeout is None:
        return None
    from dagprofiler._util.checks import plain_number

    timeout_s = plain_number(timeout)
    if timeout_s is None or timeout_s <= 0:
        raise refused(f"timeout must be a number of seconds above 0, got {short_repr(timeout)}")
    if executor is None or not executor.enforces_timeout:
        name = "a serial run" if executor is None else f"executor {executor.name!r}"
        raise refused(f"timeout: {name} cannot end a task that takes too long")
    return timeout_s


def check_names(names: Mapping[Any, Any]) -> None:
    """Raise a GraphError unless all task names are non-empty strings without ``->``."""
    try:
        # One search for all names; the loop below finds the wrong one.
        joined = "\0".join(names)
        # A subclass of str may count two equal texts as two names; readers of a profile do not.
        several = len({*map(str.__str__, names)}) < len(names)
        if "->" not in joined and "" not in names and not several:
            return
    except TypeError:
        pass
    known: set[str] = set()
    for name in names:
        if not isinstance(name, str) or not name:
            raise GraphError(f"task name {short_repr(name)}: expected a non-empty string")
        if str.__str__(name) in known:
            raise GraphError(f"task name {short_repr(name)} stands twice")
        known.add(str.__str__(name))
        if "->" in name:
            raise GraphError(
                f"task name {short_repr(name)} holds '->', which joins names in edge weights"
            )


def check_task(name: Any, task: Any) -> Task:
    """Return the task `name`; for a class, an instance of it."""
    if isinstance(task, type) and issubclass(task, Task):
        task = instance_of(task, f"task {name!r}")
    if not isinstance(task, Task):
        raise DeclarationError(
            f"task {name!r}: expected a Task or a class of them, got {short_repr(task)}"
        )
    return task


def check_hooks(hooks: Any) -> list[Hook]:
    """Return the hooks as a list, or raise a DeclarationError."""
    if isinstance(hooks, Hook):
        raise DeclarationError(
            f"hooks must be a list of hooks, got {short_repr(hooks)}; put it in a list"
        )
    checked = list(hooks)
    for hook in checked:
        if not isinstance(hook, Hook):
            raise DeclarationError(f"hooks: expected instances of Hook, got {short_repr(hook)}")
        check_methods(type(hook))
    return checked


def store_of(hooks: Sequence[Hook], rounds: Rounds) -> Any:
    """Return the store of outputs, or None if no hook has one."""
    stores = [hook.store for hook in hooks if hook.store is not None]
    if len(stores) > 1:
        raise refused(f"hooks: outputs can be stored in one place, got {len(stores)}")
    if stores and rounds.fresh_process:
        raise refused(
            "hooks: rounds in fresh processes report their tasks only when they are over, so a "
            "journal cannot record them; omit it, or fresh_process"
        )
    return stores[0] if stores else None


def tracing_of(hooks: Sequence[Hook]) -> Any:
    """Return the settings of the Tracer; None if there is none."""
    tracings = [hook.tracing for hook in hooks if hook.tracing is not None]
    if len(tracings) > 1:
        raise refused(f"hooks: one Tracer records a run, got {len(tracings)}")
    if not tracings:
        return None
    from dagprofiler.tracing.runs import Tracing

    if not isinstance(tracings[0], Tracing):
        raise refused(f"hooks: 'tracing' must be that of a Tracer, got {short_repr(tracings[0])}")
    return tracings[0]


def check_inputs(inputs: Any) -> None:
    """Raise a ValidationError unless `inputs` is None or ``{task: {field: value}}``."""
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
    elif inputs is not None:
        problems.append(f"inputs must be {{task: {{field: value}}}}, got {short_repr(inputs)}")
    if problems:
        raise ValidationError([GraphError(problem) for problem in problems])


def check_seed(seed: Any) -> int | None:
    """Return the seed as an int, or raise a ValidationError."""
    if seed is None:
        return None
    try:
        # Before Python 3.10 the index of True is True.
        number = int(operator.index(seed))
    except TypeError:
        number = -1
    if not 0 <= number < 2**63:
        raise refused(
            f"seed must be an integer from 0 to 2**63 - 1 or None, got {short_repr(seed)}"
        )
    return number
