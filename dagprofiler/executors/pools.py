"""PoolExecutor: tasks on any pool that is a ``concurrent.futures.Executor``; one for schedules."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from concurrent import futures
from typing import TYPE_CHECKING, Any

from dagprofiler._util.checks import integer
from dagprofiler._util.text import printable
from dagprofiler.errors import listed, refused, short_repr
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
        package = type(pool).__module__.partition(".")[0]
        #: The engines of an IPython cluster, which may come and go.
        self._view: Any = getattr(pool, "view", None) if package == "ipyparallel" else None
        #: By default Dask orders the jobs of 100 ms by their keys, also those of a schedule.
        self._in_order = {"fifo_timeout": "0s"} if package == "distributed" else {}
        if workers is not None:
            integer("executor: workers", workers, 1)
        elif self._view is None:
            workers = _workers_of(pool)
        self._workers = workers
        in_threads = isinstance(pool, futures.ThreadPoolExecutor)
        in_processes = isinstance(pool, futures.ProcessPoolExecutor)
        interpreters = getattr(futures, "InterpreterPoolExecutor", ())
        self.shares_memory = in_threads and not isinstance(pool, interpreters)
        #: Processes of the standard library's pools import the main program.
        self.by_value = not in_processes
        self.starts_workers = in_processes or package == "loky"
        self._shared_folder = folder
        self._shared_files: SharedFiles | None = None

    @property
    def capacity(self) -> int:
        """Two tasks for each worker."""
        workers = self.workers
        return JOBS_PER_WORKER * ((os.cpu_count() or 1) if workers is None else workers)

    @property
    def enforces_timeout(self) -> bool:
        """Whether its workers are processes; interpreters in this process cannot start any."""
        return not isinstance(self._pool, futures.ThreadPoolExecutor)

    @property
    def workers(self) -> int | None:
        """How many tasks it runs at once; None if the pool does not tell."""
        if self._workers is None and self._view is not None:
            return len(self._view)
        return self._workers

    def open(self) -> None:
        """Create the folder for large values, if the workers can share one."""
        if self.starts_workers or (self._shared_folder and not self.shares_memory):
            self._shared_files = SharedFiles(self._shared_folder)
            self.folder = self._shared_files.folder

    def submit(self, job: Any, handles: list[Any]) -> Future[JobResult]:
        """Submit the job to the pool."""
        return self._pool.submit(job, handles, **self._in_order)

    def pinned(self, node: str) -> PoolExecutor:
        """Return itself if it has one worker."""
        if self.workers != 1:
            raise refused(
                f"schedule: the pool of node {short_repr(node)} must have one worker to keep the "
                f"order, got {self.workers or 'a number that it does not tell'}"
            )
        return self

    def check(self) -> None:
        """Raise if an IPython cluster has no engines; its jobs would wait forever."""
        if self._view is not None and not len(self._view):
            raise futures.BrokenExecutor("no engine is left")

    def close(self) -> None:
        """Remove the folder for large values."""
        if self._shared_files is not None:
            self._shared_files.close()
            self._shared_files = self.folder = None


def _workers_of(pool: Any) -> int | None:
    """Return how many tasks a pool runs at once; None if it does not tell."""
    client = getattr(pool, "_client", None)
    # With options, as the names of workers, Dask's executor uses some of them.
    if client is not None and not getattr(pool, "_kwargs", None):
        return sum(client.nthreads().values()) or None
    size = getattr(pool, "_max_workers", None)
    return size if isinstance(size, int) else None


def executor_of(value: object) -> Executor | None:
    """Return `value` as an Executor, a pool wrapped in one; None if it is neither."""
    if isinstance(value, futures.Executor):
        return PoolExecutor(value)
    return value if isinstance(value, Executor) else None


class PinnedExecutor(Executor):
    """Runs the tasks of a schedule, each node's on one worker.

    ``dag.run(executor={node: executor}, schedule={node: tasks})`` creates one.

    Parameters
    ----------
    executors
        Node to its executor, as for :meth:`DAG.run <dagprofiler.DAG.run>`, which
        :meth:`~dagprofiler.executors.Executor.pinned` turns into one with a single worker.
    schedule
        Node to its tasks in order.

    Raises
    ------
    ValidationError
        If a node has no executor with a single worker, or not all executors are of one kind.

    Notes
    -----
    The run loop submits the tasks of each node in the order of the schedule, as soon as their
    inputs are there.
    """

    keeps_order = True

    def __init__(self, executors: Mapping[str, Any], schedule: Mapping[str, Sequence[str]]) -> None:
        if not isinstance(executors, Mapping):
            raise refused(f"schedule: executor must be {{node: pool}}, got {short_repr(executors)}")
        self._nodes = {node: _pinned(node, executors) for node in schedule}
        self._node_of = {name: node for node, tasks in schedule.items() for name in tasks}
        self._first = next(iter(self._nodes.values()))
        kinds = {
            (type(executor), executor.shares_memory, executor.starts_workers)
            for executor in self._nodes.values()
        }
        if len(kinds) > 1:
            raise refused("schedule: the executors of all nodes must be of one kind")
        self.shares_memory = self._first.shares_memory
        self.starts_workers = self._first.starts_workers
        self.by_value = any(executor.by_value for executor in self._nodes.values())
        self.name = printable(f"schedule on {self._first.name}")

    @property
    def enforces_timeout(self) -> bool:
        """Whether the executors of all nodes do."""
        return all(executor.enforces_timeout for executor in self._nodes.values())

    @property
    def capacity(self) -> int:
        """All tasks that are ready: the order of its node says which one waits."""
        return sys.maxsize

    def open(self) -> None:
        """Open the executors of all nodes; large values go through the folder of the first."""
        for executor in self._nodes.values():
            executor.open()
        self.folder = self._first.folder

    def submit(self, job: Any, handles: list[Any]) -> Future[JobResult]:
        """Submit the job to its node's executor."""
        return self._nodes[self._node_of[job.name]].submit(job, handles)

    def check(self) -> None:
        """Raise if a node's executor cannot finish its jobs any more."""
        for executor in self._nodes.values():
            executor.check()

    def put(self, frames: Any) -> Any:
        """Return a handle that all nodes can read."""
        return self._first.put(frames)

    def fetch(self, handle: Any) -> Any:
        """Return the serialized value of a handle of any node."""
        return self._first.fetch(handle)

    def close(self) -> None:
        """Close the executors of all nodes."""
        for executor in self._nodes.values():
            executor.close()
        self.folder = None


def _pinned(node: str, executors: Mapping[str, object]) -> Executor:
    pool = executors.get(node)
    executor = executor_of(pool)
    if executor is None:
        raise refused(
            f"schedule: the executor of node {short_repr(node)} must be a "
            f"concurrent.futures.Executor or one of dagprofiler, got {short_repr(pool)}"
        )
    sharing = [other for other in executors if executors[other] is pool]
    if len(sharing) > 1 and isinstance(executor, PoolExecutor):
        raise refused(f"schedule: nodes {listed(sharing)} need a pool each, got the same one")
    return executor.pinned(node)
