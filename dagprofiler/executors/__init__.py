"""Executors: where the tasks of a run are executed.

:class:`Executor` is what an executor is; write your own by deriving from it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Future

    from dagprofiler.executors.jobs import JobResult


__all__ = ["Executor"]


class RoundReport(NamedTuple):
    """What only those who ran the tasks of a round know of it.

    Attributes
    ----------
    waited_s
        How long the run loop waited for tasks that ran elsewhere, in seconds; None where it
        ran them itself.
    attempts
        Task number to what became of attempts that the executor made good, in words,
        one text each.
    legacy_generators
        False if the seed did not reach numpy's and random's legacy generators, since tasks ran
        in threads concurrently; None otherwise.
    ahead_s
        For each worker how many seconds its clock is ahead of this process's; empty where
        there is one clock.
    """

    waited_s: float | None = None
    attempts: Mapping[int, Sequence[str]] = MappingProxyType({})
    legacy_generators: bool | None = None
    ahead_s: Sequence[float] = ()


class Executor(ABC):
    """Runs jobs somewhere.

    A *handle* stands for the serialized value of one output. The process that
    drives the run keeps handles and hands them to the consumers' jobs; it
    never looks into one. Here handles are the serialized values themselves.
    An executor whose outputs stay where they were made overrides
    :meth:`put` and :meth:`fetch`, and puts handles of its own into the
    records' ``frames``.

    Attributes
    ----------
    name
        What the profile calls it.
    shares_memory
        Whether jobs run in this process; if not, jobs and outcomes can be pickled.
    by_value
        Whether jobs take along what the main program defines, since workers
        do not import it.
    enforces_timeout
        Whether it ends a task that takes longer than it may.
    starts_workers
        Whether workers are processes that this one has started: a worker that has had a task
        then ends with this process, even if that is killed.
    folder
        Where workers put large outputs for each other; None if they have no
        such place.

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
    enforces_timeout = False
    starts_workers = False
    folder: str | None = None
    #: What :meth:`capacity_changed` calls; a run sets it.
    on_capacity: Callable[[], None] | None = None

    @property
    @abstractmethod
    def capacity(self) -> int:
        """How many jobs it takes at once, running and waiting ones; 0 if it takes no more."""

    @abstractmethod
    def submit(self, job: Any, handles: list[Any]) -> Future[JobResult]:
        """Have ``job(frames)`` called somewhere, with what the handles stand for.

        Parameters
        ----------
        job
            A callable that takes the list of its inputs' serialized values,
            never raises, and returns an outcome. ``job.name`` is its task's.
        handles
            The handles of its inputs, in order.

        Returns
        -------
        concurrent.futures.Future
            Of what the job returned. Its exception says that the executor lost
            the job.
        """

    def open(self, timeout_s: float | None) -> None:  # noqa: B027  (most have nothing to do)
        """Get ready for a run; called once before the first job.

        Parameters
        ----------
        timeout_s
            How long a task may take, in seconds; None for any time. It is a
            number only if :attr:`enforces_timeout`.
        """

    def announce(self, key: str, session: bytes) -> None:  # noqa: B027  (the same)
        """Make known what all jobs of the next round share; called once before each round.

        Not if :attr:`shares_memory`. A worker that does not know it, since
        nobody called :func:`jobs.announce <dagprofiler.executors.jobs.announce>`
        there, gets it with the first job, which is then sent once more.
        """

    def capacity_changed(self) -> None:
        """Have the run loop look at :attr:`capacity` again; call it in any thread.

        It looks anyway whenever a job is done. Does nothing outside of a run.
        """
        if self.on_capacity is not None:
            self.on_capacity()

    def check(self) -> None:  # noqa: B027  (most are told)
        """Look whether jobs can still come back; called each second in which none does.

        An exception says that all jobs are lost and that no more are taken. An
        executor whose futures tell of that by themselves has no need of it.
        """

    def put(self, frames: Any) -> Any:
        """Return a handle of a value that this process has serialized."""
        return frames

    def fetch(self, handle: Any) -> Any:
        """Return the serialized value that a handle stands for."""
        return handle

    def close(self) -> None:  # noqa: B027  (the same)
        """Let go of what :meth:`open` and the jobs took; called once after the last job."""
