"""PoolExecutor: tasks on any pool that is a ``concurrent.futures.Executor``."""

from __future__ import annotations

import os
from concurrent import futures
from typing import TYPE_CHECKING, Any

from dagprofiler._util.checks import integer
from dagprofiler.errors import describe, is_a, refused
from dagprofiler.executors import Executor
from dagprofiler.executors._shared_files import SharedFiles
from dagprofiler.graph.wiring import JOBS_PER_WORKER

if TYPE_CHECKING:
    from concurrent.futures import Future

    from dagprofiler.executors.jobs import JobResult


class PoolExecutor(Executor):
    """Runs tasks on a pool of the caller, which it neither starts nor shuts down.

    ``dag.run(executor=pool)`` creates one.

    Parameters
    ----------
    pool
        A ``ThreadPoolExecutor``, a ``ProcessPoolExecutor``, or another
        ``concurrent.futures.Executor``: loky's, ipyparallel's, Dask's, mpi4py's.
    workers
        How many tasks it runs at once, at least 1; None if the pool has that number itself.
    folder
        A folder that this process and all workers share: large values go
        through files in it. With None they go through files in memory if the pool
        starts processes of this machine, and through the pool otherwise.

    Raises
    ------
    ValidationError
        If `workers` is not an integer of at least 1.

    Notes
    -----
    The pool holds at most two tasks for each worker: one that runs, and one that
    starts when it ends.
    """

    def __init__(
        self, pool: futures.Executor, workers: int | None = None, *, folder: str | None = None
    ) -> None:
        self.name = type(pool).__name__
        self._pool = pool
        self._workers = None if workers is None else integer("executor: workers", workers, 1)
        interpreters = getattr(futures, "InterpreterPoolExecutor", ())
        self.shares_memory = isinstance(pool, futures.ThreadPoolExecutor) and not isinstance(
            pool, interpreters
        )
        #: Processes of the standard library's pools import the main program.
        self.by_value = not isinstance(pool, futures.ProcessPoolExecutor)
        package = type(pool).__module__.partition(".")[0]
        self.starts_workers = isinstance(pool, futures.ProcessPoolExecutor) or package == "loky"
        #: The engines of an IPython cluster, which may come and go.
        self._view: Any = getattr(pool, "view", None) if package == "ipyparallel" else None
        self._shared_folder = folder
        self._shared_files: SharedFiles | None = None

    @property
    def capacity(self) -> int:
        """Two tasks for each worker."""
        return JOBS_PER_WORKER * self._size()

    @property
    def enforces_timeout(self) -> bool:
        """Whether its workers are processes; interpreters of this one cannot start any."""
        return not isinstance(self._pool, futures.ThreadPoolExecutor)

    def _size(self) -> int:
        if self._workers is not None:
            return self._workers
        if self._view is not None:
            return len(self._view)
        size = getattr(self._pool, "_max_workers", None)
        return size if isinstance(size, int) else os.cpu_count() or 1

    def open(self) -> None:
        """Create the folder for large values, if the workers can share one.

        Raises
        ------
        ValidationError
            If the pool would run each job several times, or the folder cannot be used.
        """
        if type(self._view).__name__ in {"DirectView", "BroadcastView"} and not isinstance(
            self._view.targets, int
        ):
            problem = "runs a job on all its engines; use client.load_balanced_view().executor"
            raise refused(f"executor: a {type(self._view).__name__} {problem}")
        if self.starts_workers or self._shared_folder is not None:
            try:
                self._shared_files = SharedFiles(self._shared_folder)
            except (OSError, TypeError) as error:
                raise refused(
                    f"executor: folder {self._shared_folder!r}: {describe(error)}"
                ) from error
            self.folder = self._shared_files.folder

    def submit(self, job: Any, handles: list[Any]) -> Future[JobResult]:
        """Submit the job to the pool."""
        return self._pool.submit(job, handles)

    def check(self) -> None:
        """Raise if an IPython cluster has no engines; its jobs would wait forever."""
        if self._view is not None and not len(self._view):
            raise futures.BrokenExecutor("no engine is left")

    def close(self) -> None:
        """Remove the folder for large values."""
        if self._shared_files is not None:
            self._shared_files.close()
            self._shared_files = self.folder = None


def executor_of(value: Any) -> Executor | None:
    """Return `value` as an Executor, a pool wrapped in one; None if it is neither."""
    if is_a(value, futures.Executor):
        return PoolExecutor(value)
    return value if is_a(value, Executor) else None
