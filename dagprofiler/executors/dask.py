"""DaskExecutor: tasks on a Dask cluster, whose workers send outputs to each other."""

from __future__ import annotations

import pickle
from collections import Counter
from concurrent.futures import BrokenExecutor, Future
from contextlib import closing, suppress
from dataclasses import dataclass, field
from importlib import import_module
from operator import itemgetter
from threading import Lock
from time import monotonic, perf_counter
from typing import Any, NamedTuple
from uuid import uuid4

from dagprofiler._util.checks import integer
from dagprofiler.errors import needs_extra, refused
from dagprofiler.executors import Executor, running_future, settle
from dagprofiler.executors.jobs import Job, JobResult
from dagprofiler.executors.worker import interrupted_later
from dagprofiler.graph.wiring import JOBS_PER_WORKER
from dagprofiler.serializers import frames_bytes

#: One topic of events for all runs: a scheduler keeps the last events of each topic forever.
TOPIC = "dagprofiler"

#: Outputs up to this size are sent with the record, and values from this process with the jobs:
#: fetching one takes as long as a task.
_SMALL_BYTES = 10_000

#: How long a cluster may have no worker: a nanny starts another one in a few seconds.
_WITHOUT_WORKERS_S = 60.0

#: Values from this process that are larger are sent to a worker and lost with it; the scheduler
#: keeps smaller ones.
_KEPT_BYTES = 10_000_000

_DISCONNECTED = "the connection to the scheduler was lost"

#: What Dask takes for the bandwidth between workers before it has measured one.
_BYTES_PER_S = 100e6


@dataclass
class Held:
    """The serialized value of one output, as a worker holds it."""

    frames: object

    def __sizeof__(self) -> int:
        # Dask uses it to place tasks near their inputs, and to limit memory.
        return object.__sizeof__(self) + frames_bytes(self.frames)


class _Output(NamedTuple):
    """The handle of a value in the cluster: Dask's future, its size, and which workers have it."""

    future: Any
    size_bytes: int
    workers: set[str]


@dataclass
class _SentJob:
    """A job that was sent and has not returned.

    Attributes
    ----------
    in_dask, worker
        Dask's future of it, and the worker that it was sent to.
    future
        The future that this process waits for.
    lost
        A text for each worker that died with it.
    """

    in_dask: Any
    worker: str
    future: Future[JobResult] = field(default_factory=running_future)
    lost: list[str] = field(default_factory=list)


class DaskExecutor(Executor):
    """Runs tasks on a Dask cluster (extra ``dask``).

    Outputs stay with the workers that computed them and go from worker to worker;
    the process that drives the run receives records, and the outputs of sinks and
    of tasks in ``keep=``.

    Parameters
    ----------
    client_or_address
        A ``distributed.Client``, or the address of a scheduler, as in
        ``"tcp://10.0.0.1:8786"``. None: a cluster on this machine, with one
        single-threaded process for each core, which is started for each run and
        ended with it.
    retries
        How often a task is run again if its worker dies. The profile records
        the lost attempts.

    Raises
    ------
    MissingExtraError
        If ``distributed`` is not installed.
    ValidationError
        If `retries` is not an integer of at least 0; at the start of a run, if the cluster has
        another version of this library.

    Notes
    -----
    Workers send records as events, by their existing streams to the scheduler.
    Each task is sent to the worker that can start it first, where it waits for the tasks
    sent before it and for inputs that are elsewhere: Dask itself would send it where its
    inputs are, and leave other workers idle. Dask moves tasks from a dead worker to another
    and recomputes lost outputs; the record of such a second computation is ignored.
    """

    name = "dask"

    def __init__(self, client_or_address: Any = None, *, retries: int = 0) -> None:
        with needs_extra("DaskExecutor", "dask"):
            import_module("distributed")
        self._client_or_address = client_or_address
        self.retries = integer("DaskExecutor: retries", retries)
        self._client: Any = None
        self._cluster: Any = None
        #: The threads of each worker, by its address; whether workers have come or gone since.
        self._workers: dict[str, int] = {}
        self._changed = True
        #: The jobs that have not returned, by Dask's keys.
        self._sent: dict[str, _SentJob] = {}
        self._lock = Lock()

    @property
    def capacity(self) -> int:
        """Two tasks for each thread of the current workers, but at least one."""
        if self._changed:
            self._changed = False
            self._workers = {**self._client.nthreads()}
        # A cluster may start its workers when it has tasks.
        return max(1, JOBS_PER_WORKER * sum([*self._workers.values()]))

    def open(self) -> None:
        """Connect to the cluster, or start one."""
        with interrupted_later():
            self._connect()
        client = self._client
        # By default it collects messages for 10 ms, to send many at once; here there are few.
        client.scheduler_comm.interval = 0
        #: The beginning of the keys of the run, and how many jobs it has sent.
        self._run, self._submitted = f"dagprofiler-{uuid4().hex}", 0
        self._workers, self._changed = {}, True
        #: Since when there has been no worker; without meaning while there is one.
        self._empty_since = monotonic()
        #: The total time of the jobs that are done, and their number.
        self._took_s, self._done = 0.0, 0
        client.subscribe_topic(TOPIC, self._heard)
        client.subscribe_topic("all", self._heard_of_workers)
        _check_versions(client)
        client.register_plugin(_anywhere(self._run), name=self._run)

    def _connect(self) -> None:
        """Connect to the cluster; without one, start one."""
        from distributed import Client

        place, security = self._client_or_address, None
        if place is None:
            import dask
            from distributed import LocalCluster

            # After more deaths than that, Dask itself fails a task.
            with dask.config.set({"distributed.scheduler.allowed-failures": self.retries}):
                place = self._cluster = LocalCluster(
                    threads_per_worker=1, dashboard_address="127.0.0.1:0"
                )
        elif isinstance(place, Client):
            place, security = place.scheduler.address, place.security
        # A separate client: the subscriptions of the user's belong to the user.
        self._client = Client(place, security=security, set_as_default=False)

    def submit(self, job: Any, handles: list[Any]) -> Future[JobResult]:
        """Have a worker call the job with the values of Dask's futures."""
        self.check()
        self._submitted += 1
        key = f"{self._run}-{self._submitted}"
        with self._lock:
            worker = self._first_free([data for data in handles if type(data) is _Output])
            in_dask = self._client.submit(
                _perform,
                job,
                key,
                *(data.future if type(data) is _Output else data for data in handles),
                key=key,
                pure=False,
                workers=worker or None,
                allow_other_workers=bool(worker),
                # By default it orders jobs of 100 ms by their keys.
                fifo_timeout="0s",
            )
            job_sent = self._sent[key] = _SentJob(in_dask, worker)
        in_dask.add_done_callback(self._ended)
        return job_sent.future

    def check(self) -> None:
        """Raise if the scheduler is gone, or has had no worker for long."""
        if self._client.status != "running":
            raise BrokenExecutor(_DISCONNECTED)
        if not self._workers and monotonic() - self._empty_since > _WITHOUT_WORKERS_S:
            raise BrokenExecutor(f"the cluster has had no worker for {_WITHOUT_WORKERS_S:g} s")

    def _take(self, key: str) -> _SentJob | None:
        """Remove and return a job that has not returned; None if it has."""
        with self._lock:
            return self._sent.pop(key, None)

    def _first_free(self, inputs: list[_Output]) -> str:
        """Return the worker that can start a job first; empty if there is none."""
        jobs = Counter(sent.worker for sent in self._sent.values())
        job_s = self._took_s / max(1, self._done)
        # A copy, since the client's thread changes it.
        threads = self._workers.copy()

        def starts(worker: str) -> tuple[bool, float, float, int]:
            load = jobs[worker] / threads[worker]
            queue_s = load * job_s if load >= 1 else 0.0
            missing = sum(data.size_bytes for data in inputs if worker not in data.workers)
            return load >= JOBS_PER_WORKER, queue_s + missing / _BYTES_PER_S, load, missing

        worker = min(threads, key=starts, default="")
        for data in inputs:
            data.workers.add(worker)
        return worker

    def put(self, frames: Any) -> Any:
        """Send a value to the cluster; a small one is sent with the jobs."""
        held, size_bytes = Held(frames), frames_bytes(frames)
        if size_bytes <= _SMALL_BYTES:
            return held
        if size_bytes <= _KEPT_BYTES:
            # A task, which Dask repeats if its worker dies.
            return _Output(self._client.submit(Held, frames, pure=False), size_bytes, set())
        return _Output(self._client.scatter(held, hash=False), size_bytes, set())

    def fetch(self, handle: Any) -> Any:
        """Fetch a value, unless it came with its record."""
        held = handle if isinstance(handle, Held) else handle.future.result()
        return held.frames

    def close(self) -> None:
        """Disconnect from the cluster; end it, if :meth:`open` started it."""
        client, cluster = self._client, self._cluster
        self._client = self._cluster = None
        with self._lock:
            # Dask cancels futures without references.
            self._sent.clear()
        try:
            # A lost scheduler needs no message, and there is no client if it could not connect.
            with suppress(Exception), closing(client):
                if client.status == "running":
                    client.unsubscribe_topic(TOPIC)
                    client.unsubscribe_topic("all")
                    client.unregister_scheduler_plugin(self._run)
        finally:
            if cluster is not None:
                cluster.close()

    def _heard(self, event: tuple[float, Any]) -> None:
        """Set the result that a worker has sent; called in the client's own thread."""
        key, worker, took_s, packed = event[1]
        sent = self._take(key)
        if sent is None:
            # A job of another run, or one that Dask has repeated for its output.
            return
        self._took_s, self._done = self._took_s + took_s, self._done + 1
        settle(sent.future, lambda: self._with_handles(packed, sent, worker))

    def _with_handles(self, packed: bytes, sent: _SentJob, worker: str) -> JobResult:
        """Return the result of a job with a handle for each output."""
        result: JobResult = pickle.loads(packed)
        result.attempts = (*result.attempts, *sent.lost)
        in_dask = sent.in_dask
        stay = sum(data is None for record in result.records for data in record.frames.values())

        def handle(k: int, field: str, data: object) -> object:
            if data is not None:
                return Held(data)
            future = in_dask
            if stay > 1:
                # Separate futures, so that a consumer fetches no more than it needs.
                future = self._client.submit(itemgetter((k, field)), in_dask, pure=False)
            return _Output(future, result.records[k].wire_bytes[field], {worker})

        return result.replace(handle)

    def _heard_of_workers(self, event: tuple[float, Any]) -> None:
        """Update the workers by an event of the scheduler, and record lost jobs."""
        change = event[1] if isinstance(event[1], dict) else {}
        action, worker = change.get("action"), str(change.get("worker"))
        if action == "remove-worker":
            self._workers.pop(worker, None)
            self._empty_since = monotonic()
            # Tasks of a worker that is retired, as the cluster shrinks, go to another one.
            for key in () if change.get("expected") else change.get("processing-tasks", ()):
                sent = self._sent.get(key)
                if sent is not None:
                    sent.lost.append(f"worker {worker} died")
                    if len(sent.lost) > self.retries:
                        self._fail(key, ConnectionError(sent.lost[-1]))
        elif action == "add-worker":
            self._workers[worker] = 1
        else:
            return
        self._changed = True

    def _fail(self, key: str, error: BaseException) -> None:
        """Fail a job, unless it has returned."""
        sent = self._take(key)
        if sent is not None:
            sent.future.set_exception(error)
            # Otherwise Dask would retry it.
            sent.in_dask.release()

    def _ended(self, in_dask: Any) -> None:
        """Fail a job that ended without sending a result."""
        if in_dask.status == "error":
            self._fail(in_dask.key, in_dask.exception())
        elif getattr(self._client, "status", None) != "running":
            self._fail(in_dask.key, BrokenExecutor(_DISCONNECTED))
        elif in_dask.status != "finished":
            self._fail(in_dask.key, ConnectionError(f"its state in Dask is {in_dask.status}"))


def _check_versions(client: Any) -> None:
    """Refuse a cluster without this version of the library: its plugin would end a worker."""
    from pkgutil import resolve_name

    version = "dagprofiler:__version__"
    ours = resolve_name(version)
    answers = client.run(resolve_name, version, on_error="return")
    # A scheduler without the library raises its own error.
    answers["the scheduler"] = client.run_on_scheduler(resolve_name, version)
    for where, answer in answers.items():
        # A worker that has just died cannot be reached.
        if answer != ours and not isinstance(answer, OSError):
            raise refused(f"DaskExecutor: expected dagprofiler {ours}, got {answer!r} at {where}")


def _anywhere(run: str) -> Any:
    """Return a plugin that lets tasks run on any new worker once all workers have gone.

    Dask itself would wait for the worker of each task. The keys of the tasks begin with `run`.
    """
    from distributed import SchedulerPlugin

    class Anywhere(SchedulerPlugin):  # type: ignore[misc]  # Dask has no types
        async def start(self, scheduler: Any) -> None:
            self.scheduler = scheduler

        def transition(
            self, key: object, start: str, finish: str, *_: object, **__: object
        ) -> None:
            if finish == "no-worker" and str(key).startswith(run):
                self.scheduler.tasks[key].worker_restrictions = None

    return Anywhere()


def _perform(job: Job, key: str, *inputs: Any) -> object:
    """Run a job in a worker: send its result as an event, return its large outputs, which stay.

    The event arrives before Dask reports that the job is done: both use the same stream.
    """
    from distributed import get_worker

    if not all(isinstance(data, Held) for data in inputs):
        raise RuntimeError("an input was lost with its worker and could not be computed again")
    begun = perf_counter()
    result = job([held.frames for held in inputs])
    took_s = perf_counter() - begun
    stay: dict[tuple[int, str], Held] = {}

    def leave(k: int, field: str, frames: object) -> object:
        if result.records[k].wire_bytes[field] <= _SMALL_BYTES:
            return frames
        stay[k, field] = Held(frames)
        return None

    sent = result.replace(leave)
    packed, worker = pickle.dumps(sent, pickle.HIGHEST_PROTOCOL), get_worker()
    worker.log_event(TOPIC, (key, worker.address, took_s, packed))
    return next(iter(stay.values())) if len(stay) == 1 else stay
