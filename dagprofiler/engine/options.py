"""Checks of what ``DAG()`` and ``DAG.run()`` are given, before anything is done with it."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from dagprofiler.analysis.weights import times_of_tasks
from dagprofiler.engine.hooks import Hook
from dagprofiler.errors import DeclarationError, GraphError, ValidationError, short_repr
from dagprofiler.graph.edges import field_problem
from dagprofiler.graph.wiring import bottom_levels
from dagprofiler.profile import Profile
from dagprofiler.task import Task, instance_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dagprofiler._document.rounds import Rounds
    from dagprofiler.executors import Executor
    from dagprofiler.graph.wiring import Wiring


def ranking(
    wiring: Wiring, estimates: Mapping[int, int], priorities: Any
) -> tuple[str | None, list[int] | None]:
    """Return what tells, and all task numbers, that with the longest path behind it first.

    Both are None where nothing tells.

    Parameters
    ----------
    wiring
        The graph.
    estimates
        Task number to what its cost model says, where it has one.
    priorities
        A profile, a mapping of task names to times, or None.

    Raises
    ------
    ValidationError
        If `priorities` is something else, or lacks a task.
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
    from dagprofiler.measure.meters import plain_number

    times = {}
    for name, given in priorities.items():
        time = plain_number(given)
        if time is None or time < 0:
            raise _refused(
                f"time of task {name!r} must be a number of at least 0, got {short_repr(given)}"
            )
        times[name] = time
    return times


def _refused(problem: str) -> ValidationError:
    return ValidationError([GraphError(f"priorities: {problem}")])


def refused(problem: str) -> ValidationError:
    """Return the error of a run that is refused for one problem."""
    return ValidationError([GraphError(problem)])


def as_list(given: Any) -> Any:
    """Return an iterator, which can be gone through once, as a list; all else as it is."""
    return list(given) if isinstance(given, Iterator) else given


def as_executor(given: Any, rounds: Rounds) -> Executor | None:
    """Return what ``run(executor=...)`` was given as an Executor; None for a serial run.

    Raises
    ------
    ValidationError
        If it is none, or if it cannot do what else is asked for.
    """
    executor = None
    if given is not None:
        # A serial run, as most are, needs none of it.
        from dagprofiler.executors.pools import executor_of

        executor = executor_of(given)
        if executor is None:
            raise refused(
                "executor must be None, a concurrent.futures.Executor or an Executor of "
                f"dagprofiler, got {short_repr(given)}"
            )
        if rounds.fresh_process:
            raise refused(
                "executor: rounds in fresh processes are serial ones; leave out the executor, "
                "or fresh_process"
            )
    return executor


def as_timeout(given: Any, executor: Executor | None) -> float | None:
    """Return how many seconds a task may take on an executor; None for any time.

    Raises
    ------
    ValidationError
        If it is no such number, or if the executor cannot end a task then.
    """
    if given is None:
        return None
    from dagprofiler.measure.meters import plain_number

    timeout_s = plain_number(given)
    if timeout_s is None or timeout_s <= 0:
        raise refused(f"timeout must be a number of seconds above 0, got {short_repr(given)}")
    if executor is None or not executor.enforces_timeout:
        name = "a serial run" if executor is None else f"executor {executor.name!r}"
        raise refused(f"timeout: {name} cannot end a task that takes too long")
    return timeout_s


def check_names(names: Mapping[Any, Any]) -> None:
    """Raise a GraphError unless all task names are non-empty strings without ``->``."""
    try:
        # One search for all of them; which one it is matters only if there is one.
        joined = "\0".join(names)
        # What a class of a user's takes for two names is one to all who read a profile.
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


def check_task(name: Any, given: Any) -> Task:
    """Return the task that stands under `name`; of a class, an instance."""
    if isinstance(given, type) and issubclass(given, Task):
        given = instance_of(given, f"task {name!r}")
    if not isinstance(given, Task):
        raise DeclarationError(
            f"task {name!r}: expected a Task or a class of them, got {short_repr(given)}"
        )
    return given


def check_hooks(hooks: Any) -> list[Hook]:
    """Return the hooks as a list, or raise a DeclarationError."""
    if isinstance(hooks, Hook):
        raise DeclarationError(
            f"hooks must be a list of hooks, got {short_repr(hooks)}; put it in a list"
        )
    found = list(hooks)
    for hook in found:
        if not isinstance(hook, Hook):
            raise DeclarationError(f"hooks: expected instances of Hook, got {short_repr(hook)}")
    return found


def store_of(hooks: Sequence[Hook], rounds: Rounds) -> Any:
    """Return where outputs are stored, or None if no hook wants that."""
    stores = [hook.store for hook in hooks if hook.store is not None]
    if len(stores) > 1:
        raise refused(f"hooks: outputs can be stored in one place, got {len(stores)}")
    if stores and rounds.fresh_process:
        raise refused(
            "hooks: of rounds in fresh processes nothing is told before they are over, so no "
            "journal can follow them; leave it out, or fresh_process"
        )
    return stores[0] if stores else None


def tracing_of(hooks: Sequence[Hook]) -> Any:
    """Return what a Tracer asks for; None if there is none."""
    found = [hook.tracing for hook in hooks if hook.tracing is not None]
    if len(found) > 1:
        raise refused(f"hooks: one Tracer records a run, got {len(found)}")
    if not found:
        return None
    from dagprofiler.tracing.runs import Tracing

    if not isinstance(found[0], Tracing):
        raise refused(f"hooks: 'tracing' has to be that of a Tracer, got {short_repr(found[0])}")
    return found[0]


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
