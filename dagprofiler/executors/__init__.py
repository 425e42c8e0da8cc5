"""Executors: where the tasks of a run are executed.

:class:`Executor` is what an executor is; write your own by deriving from it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dagprofiler.errors import refused

if TYPE_CHECKING:
    from concurrent.futures import Future

    from dagprofiler.executors.jobs import JobResult


@dataclass
class RoundReport:
    """What only the executor knows about a round.

    Attributes
    ----------
    waited_s
        How long the run loop waited for tasks that ran elsewhere, in seconds; None where it
        ran them itself.
    attempts
        Task number to a text for each failed attempt that the executor retried.
    legacy_generators
        False if the seed did not reach numpy's and random's legacy generators, since tasks ran
        in threads concurrently; None otherwise.
    ahead_s
        For each worker by how many seconds its clock is ahead of this process's; empty if
        there is one clock.
    """

    waited_s: float | None = None
    attempts: dict[int, tuple[str, ...]] = field(default_factory=dict)
    legacy_generators: bool | None = None
    ahead_s: Sequence[float] = ()


class Executor(ABC):
    """Base class of executors, which run jobs.

    A *handle* represents the serialized value of one output. The process that
    drives the run keeps handles and passes them to the consumers' jobs; it
    never inspects one. By default handles are the serialized values themselves,
    or files in :attr:`folder`. An executor whose outputs stay with the workers
    overrides :meth:`put` and :meth:`fetch`, and puts its own handles into results by
    :meth:`JobResult.replace <dagprofiler.executors.jobs.JobResult.replace>`.

    Attributes
    ----------
    name
        Its name in the profile.
    shares_memory
        Whether jobs run in this process; if not, jobs and results can be pickled.
    by_value
        Whether what the main program defines is sent by value, since workers
        do not import it.
    starts_workers
        Whether workers are processes that this one has started: a worker that has run a task
        then ends with this process, even if that is killed.
    keeps_order
        Whether each task travels in a job of its own, in the order of submission.
    folder
        Folder through which this process and workers pass large values; None if they share none.
    retries
        How often it runs a job again whose worker died. If above 0, the tasks of a job that is
        lost nevertheless are sent again one by one.

    Examples
    --------
    >>> from concurrent.futures import Future
    >>> class Here(Executor):
    ...     name = "here"
    ...     shares_memory = True
    ...     capacity = 1
    ...
    ...     def submit(self, job, handles):
    ...         future = Future()
    ...         future.set_result(job(handles))
    ...         return future
    """

    name: str
    shares_memory = False
    by_value = True
    starts_workers = False
    keeps_order = False
    folder: str | None = None
    retries = 0

    @property
    @abstractmethod
    def capacity(self) -> int:
        """How many jobs it accepts at once, running and waiting; 0 if it accepts none.

        Read when a job is done, and each second.
        """

    @property
    def enforces_timeout(self) -> bool:
        """Whether a task that exceeds its time limit is ended.

        Jobs in other processes do so themselves, in a process that they start for the task.
        """
        return not self.shares_memory

    @abstractmethod
    def submit(self, job: Any, handles: list[Any]) -> Future[JobResult]:
        """Have a worker call ``job(frames)`` with the values of the handles.

        Parameters
        ----------
        job
            A :class:`~dagprofiler.executors.jobs.Job`: a callable that takes the list of its
            inputs' serialized values, never raises, and returns a result. It performs one task,
            or several short ones; ``job.name`` tells which, and ``job.outputs`` which of their
            outputs other tasks need.
        handles
            The handles of its inputs, in order. The first is that of the session, which all
            jobs of a round share.

        Returns
        -------
        concurrent.futures.Future
            Of the job's result. An exception means that the executor lost the job.
        """

    def open(self) -> None:
        """Prepare for a run; called once before the first job."""

    def announce(self, key: str, session: bytes) -> bool:
        """Do nothing; nothing calls it, and the next version does not have it.

        Each job has its session as its first input.
        """
        return False

    def check(self) -> None:
        """Raise if no job can finish any more; called each second without a result.

        An exception means that all jobs are lost and that no more are accepted. An
        executor whose futures report that need not override it.
        """

    def put(self, frames: Any) -> Any:
        """Return a handle of a value that this process has serialized.

        By default the value itself, or a file if it is large and there is a :attr:`folder`.
        """
        from dagprofiler.executors._shared_files import SHARED_INPUT_BYTES, in_file_if_large

        return in_file_if_large(frames, self.folder, SHARED_INPUT_BYTES)

    def fetch(self, handle: Any) -> Any:
        """Return the serialized value of a handle."""
        return handle

    def pinned(self, node: str) -> Executor:
        """Return an executor whose one worker runs jobs in the order of their submission.

        Parameters
        ----------
        node
            The node of the schedule, for messages.

        Raises
        ------
        ValidationError
            If it cannot; executors that can override this method.
        """
        raise refused(f"schedule: node {node!r}: {self.name} does not keep the order of tasks")

    def close(self) -> None:
        """Release the resources of :meth:`open` and of the jobs; called after the last job."""


def running_future() -> Future[JobResult]:
    """Return a future that cannot be cancelled, so that its result can always be set."""
    from concurrent.futures import Future

    future: Future[JobResult] = Future()
    future.set_running_or_notify_cancel()
    return future


def settle(future: Future[JobResult], make_result: Callable[[], JobResult]) -> None:
    """Set a future's result, or the error of making it: the run loop waits for one of them."""
    try:
        result = make_result()
    except BaseException as error:  # noqa: BLE001  (else the run would never end)
        future.set_exception(error)
    else:
        future.set_result(result)
