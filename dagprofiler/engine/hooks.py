"""Hook: an observer of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dagprofiler.config import Config
    from dagprofiler.engine.log import RunLog, TaskRecord
    from dagprofiler.measure.pipeline import Contract
    from dagprofiler.profile import Profile
    from dagprofiler.task import Task


@dataclass(frozen=True)
class RunInfo:
    """A run that is about to start, as hooks see it.

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
        Values from outside the graph, by task and field, serialized.
    asked
        What else :meth:`DAG.run <dagprofiler.DAG.run>` was asked for: ``rounds`` (always a
        :class:`~dagprofiler.Rounds`), ``meters``, ``keep`` and ``on_error``.
    log
        What the run writes down, while it does; it numbers the tasks.
    contracts
        What each task declares, by its number.
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
    """Watches a run; override what you need.

    Hooks are called in the process that drives the run, outside every timed
    phase; their time counts as overhead (``hooks_ms``). A hook that raises
    ends the run as a failing task does. :meth:`close` always comes last.

    Attributes
    ----------
    store
        Where workers put the outputs of each task before they report it, as
        :class:`~dagprofiler.Journal` has it; None for nowhere.
    tracing
        What workers record inside of tasks beside what is annotated, as
        :class:`~dagprofiler.Tracer` has it; None for nothing.

    Examples
    --------
    >>> class Progress(Hook):
    ...     def task_finished(self, record):
    ...         print("done:", record.task)
    """

    store: Any = None
    tracing: Any = None

    def run_started(self, run: RunInfo) -> None:
        """Take note that everything is valid and the first task is about to start."""

    def task_started(self, task: str) -> None:
        """Take note that `task` is about to start."""

    def task_finished(self, record: TaskRecord) -> None:
        """Take note that a task succeeded."""

    def task_failed(self, record: TaskRecord) -> None:
        """Take note that a task failed."""

    def round_finished(self, number: int) -> None:
        """Take note that a round, counted from 0 with warm-up, is complete."""

    def run_finished(self, profile: Profile) -> None:
        """Take note that the run is over; `profile` may be partial."""

    def close(self) -> None:
        """Let go of what the hook holds; called once, however the run ended."""
