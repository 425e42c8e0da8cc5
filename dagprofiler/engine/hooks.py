"""Hook: an observer of a run."""

from __future__ import annotations

from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Any

from dagprofiler.errors import DeclarationError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dagprofiler.config import Config
    from dagprofiler.engine.log import RunLog, TaskRecord
    from dagprofiler.measure.pipeline import Contract
    from dagprofiler.profile import Profile
    from dagprofiler.task import Task


@dataclass(frozen=True)
class RunInfo:
    """Description of a run that is about to start, passed to :meth:`Hook.run_started`.

    Attributes
    ----------
    tasks
        Task name to task.
    execution_order
        Task names in Kahn's order.
    config
        Parameters of the run.
    seed
        Seed of the run, or None.
    inputs
        Inputs from outside the graph, by task and field, serialized.
    asked
        Further arguments of :meth:`DAG.run <dagprofiler.DAG.run>`: ``rounds`` (always a
        :class:`~dagprofiler.Rounds`), ``meters``, ``keep`` and ``on_error``.
    log
        The log of the run, updated while it runs; it numbers the tasks.
    contracts
        The contract of each task, by its number.
    """

    tasks: Mapping[str, Task]
    execution_order: Sequence[str]
    config: Config
    seed: int | None
    inputs: Mapping[str, Mapping[str, Any]]
    asked: Mapping[str, Any]
    log: RunLog
    contracts: Sequence[Contract]


class Hook:
    """Observes a run; override the methods that you need.

    Hooks are called in the process that drives the run, outside every timed
    phase; their time counts as overhead (``hooks_ms``). A hook that raises
    ends the run as a failing task does. :meth:`close` is always called last.
    Public methods whose names begin with ``on_``, ``before_``, ``after_``,
    ``run_``, ``task_`` or ``round_`` must be methods of this class.

    Attributes
    ----------
    store
        The store to which workers write the outputs of each task before they report it,
        as in :class:`~dagprofiler.Journal`; None for no store.
    tracing
        What workers record inside of tasks in addition to annotations, as in
        :class:`~dagprofiler.Tracer`; None for nothing.

    Examples
    --------
    >>> class Progress(Hook):
    ...     def task_finished(self, record):
    ...         print("done:", record.task)
    """

    store: Any = None
    tracing: Any = None

    def run_started(self, run: RunInfo) -> None:
        """Handle the start of the run: after validation, before the first task."""

    def task_started(self, task: str) -> None:
        """Handle the start of a task."""

    def task_finished(self, record: TaskRecord) -> None:
        """Handle the end of a task that succeeded."""

    def task_failed(self, record: TaskRecord) -> None:
        """Handle the end of a task that failed."""

    def round_finished(self, number: int) -> None:
        """Handle the end of a round; `number` counts from 0 and includes warm-up."""

    def run_finished(self, profile: Profile) -> None:
        """Handle the end of the run; `profile` may be partial."""

    def close(self) -> None:
        """Release resources; always called once, last."""


#: Beginnings of names that look like those of a hook's methods.
_LIKE_HOOKS = ("on_", "before_", "after_", "run_", "task_", "round_")
#: What the methods of hooks are about.
_SUBJECTS = {"run", "task", "round"}
#: Words in such names, and the ending of the method that they probably mean.
_ENDINGS = {
    **dict.fromkeys(("start", "begin", "before", "started"), "started"),
    **dict.fromkeys(("end", "done", "complete", "completed", "after", "finish"), "finished"),
    **dict.fromkeys(("error", "fail", "failure", "failed"), "failed"),
}


def check_methods(kind: type[Hook]) -> None:
    """Raise a DeclarationError if a method has a name like a hook's, and no hook has it.

    Names that override a method of another base class are allowed.
    """
    for base in kind.__mro__:
        if not issubclass(base, Hook) or base.__module__.partition(".")[0] == "dagprofiler":
            continue
        for name, value in vars(base).items():
            if (
                name.startswith(_LIKE_HOOKS)
                and isinstance(value, FunctionType)
                and not any(hasattr(parent, name) for parent in base.__bases__)
            ):
                raise DeclarationError(
                    f"hook {kind.__name__}: {name!r} is not a method of Hook and is never called"
                    f"{_suggestion(name) or '; begin the name of a helper with an underscore'}"
                )


def _suggestion(name: str) -> str:
    methods = [method for method in vars(Hook) if method.partition("_")[0] in _SUBJECTS]
    words = name.split("_")
    for subject in _SUBJECTS.intersection(words):
        for word in words:
            meant = f"{subject}_{_ENDINGS.get(word)}"
            if meant in methods:
                return f"; did you mean {meant!r}?"
    return did_you_mean(name, methods)
