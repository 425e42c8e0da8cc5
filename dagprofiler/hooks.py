"""Hook: an observer of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dagprofiler.config import Config
    from dagprofiler.profile import Profile
    from dagprofiler.records import TaskRecord
    from dagprofiler.task import Task

__all__ = ["Hook", "RunInfo"]


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
    """

    tasks: Mapping[str, Task]
    execution_order: Sequence[str]
    config: Config
    seed: int | None


class Hook:
    """Watches a run; override what you need.

    Hooks are called in the process that drives the run, outside every timed
    phase; their time counts as overhead (``hooks_ms``). A hook that raises
    ends the run as a failing task does. :meth:`close` always comes last.

    Examples
    --------
    >>> class Progress(Hook):
    ...     def task_finished(self, record):
    ...         print("done:", record.task)
    """

    def run_started(self, run: RunInfo) -> None:
        """Take note that everything is valid and the first task is about to start."""

    def task_started(self, task: str) -> None:
        """Take note that `task` is about to start."""

    def task_finished(self, record: TaskRecord) -> None:
        """Take note that a task succeeded."""

    def task_failed(self, record: TaskRecord) -> None:
        """Take note that a task failed."""

    def run_finished(self, profile: Profile) -> None:
        """Take note that the run is over; `profile` may be partial."""

    def close(self) -> None:
        """Let go of what the hook holds; called once, however the run ended."""
