"""DaskExecutor: tasks on a Dask cluster, whose workers hand outputs to each other."""

from __future__ import annotations

import pickle
from concurrent.futures import Future
from operator import itemgetter
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from dagprofiler.errors import GraphError, MissingExtraError, ValidationError
from dagprofiler.executors import Executor

if TYPE_CHECKING:
    from dagprofiler.executors.jobs import Outcome

__all__ = ["DaskExecutor"]

_SMALL_BYTES = 10_000


class DaskExecutor(Executor):
    """Runs tasks on a Dask cluster (extra ``dask``).

    Outputs stay with the workers that made them and go from worker to worker;
    the process that drives the run gets records, and the outputs of sinks and
    of what ``keep=`` names.

    Parameters
    ----------
    client_or_address
        A ``distributed.Client``, or the address of a scheduler, as in
        ``"tcp://10.0.0.1:8786"``. None: a cluster of this machine's cores, which
        is started for each run and ended with it.
    retries
        How often a task is run again if its worker dies. The profile records
        the attempts that were lost.

    Raises
    ------
    MissingExtraError
        If ``distributed`` is not installed.
    ValidationError
        If an argument is not as above.

    Notes
    -----
    Records come as events of the workers, by the streams that they have open
    to the scheduler anyway; nothing is gathered. Dask itself moves tasks from a
    dead worker to another and computes lost outputs again: what such a second
    computation records is not taken.
    """

    name = "dask"

    def __init__(self, client_or_address: Any = None, *, retries: int = 0) -> None:
        try:
            from distributed import Client
        except ImportError as error:
            raise MissingExtraError("DaskExecutor", "dask") from error
        if not (client_or_address is None or isinstance(client_or_address, (str, Client))):
            raise _refused(
                "expected a distributed.Client, the address of a scheduler or None, "
                f"got {client_or_address!r}"
            )
        if type(retries) is not int or retries < 0:
            raise _refused(f"retries must be an integer of at least 0, got {retries!r}")
        self._given = client_or_address
        self._retries = retries
        self._client: Any = None
        self._cluster: Any = None
        self._topic = ""
        self._threads: int | None = None
        self._submitted = 0
        #: By key: the future that this process waits for, and Dask's own.
        self._waiting: dict[str, tuple[Future[Outcome], Any]] = {}
        self._lost: dict[str, list[str]] = {}
        self._lock = Lock()

    @property
    def capacity(self) -> int:
        """Two tasks for each thread of the workers that are there now, but one at least."""
        if self._threads is None:
            self._threads = sum(self._client.nthreads().values())
        # A cluster may start its workers when there is something to do.
        return max(1, 2 * self._threads)

    def open(self, timeout_s: float | None) -> None:  # noqa: ARG002  (Dask ends no running task)
        """Connect to the cluster, or start one."""
        import dask
        from distributed import Client, LocalCluster

        given, security = self._given, None
        if given is None:
            # So many more deaths than that, and Dask itself gives a task up.
            with dask.config.set({"distributed.scheduler.allowed-failures": self._retries}):
                given = self._cluster = LocalCluster(dashboard_address=":0")
        elif isinstance(given, Client):
            given, security = given.scheduler.address, given.security
        # A client of our own, since what another one listens to is its owner's.
        self._client = Client(given, security=security, set_as_default=False)
        # It gathers messages for 10 ms, to send many at once; few are under way here.
        self._client.scheduler_comm.interval = 0
        self._topic = f"dagprofiler-{uuid4().hex}"
        self._threads = None
        self._client.subscribe_topic(self._topic, self._heard)
        self._client.subscribe_topic("all", self._heard_of_workers)

    def submit(self, job: Any, handles: list[Any]) -> Future[Outcome]:
        """Have a worker call the job with what Dask's futures stand for."""
        self._submitted += 1
        key = f"{self._topic}-{self._submitted}"
        mine: Future[Outcome] = Future()
        with self._lock:
            theirs = self._client.submit(
                _on_worker,
                job,
                self._topic,
                key,
                *[output.future for output in handles],
                key=key,
                pure=False,
            )
            self._waiting[key] = mine, theirs
        theirs.add_done_callback(self._ended)
        return mine

    def put(self, frames: Any) -> Any:
        """Hand a value to the cluster."""
        return _Output(self._client.scatter(_Held(frames), hash=False), None)

    def fetch(self, handle: Any) -> Any:
        """Bring a value here."""
        return handle.future.result().frames if handle.frames is None else handle.frames

    def close(self) -> None:
        """Let go of the cluster; end it, if it is ours."""
        client, cluster = self._client, self._cluster
        self._client = self._cluster = None
        # Dask drops what nobody refers to, also what has not begun yet.
        self._waiting.clear()
        self._lost.clear()
        if client is not None:
            if client.status == "running":
                client.unsubscribe_topic(self._topic)
                client.unsubscribe_topic("all")
            client.close()
        if cluster is not None:
            cluster.close()

    def _heard(self, event: tuple[float, Any]) -> None:
        """Take the outcome that a worker tells; called in the client's own thread."""
        key, told = event[1]
        outcome = pickle.loads(told)
        with self._lock:
            mine, theirs = self._waiting.pop(key, (None, None))
            lost = self._lost.pop(key, [])
        if mine is None:
            # Computed again, for its output alone.
            return
        if outcome is not None:
            worker, record, attempts = outcome
            outcome = worker, self._with_handles(record, theirs), (*attempts, *lost)
        mine.set_result(outcome)

    def _with_handles(self, record: tuple[Any, ...], theirs: Any) -> tuple[Any, ...]:
        """Return a record with a future for each output in the place of the worker's list."""
        times, payload, wire, frames, outputs, error, readings = record
        futures = dict.fromkeys(frames, theirs)
        if len(futures) > 1:
            # Each by itself, so that a consumer fetches no more than it needs.
            futures = {
                field: self._client.submit(itemgetter(field), theirs, pure=False)
                for field in futures
            }
        handles = {field: _Output(futures[field], data) for field, data in frames.items()}
        return times, payload, wire, handles, outputs, error, readings

    def _heard_of_workers(self, event: tuple[float, Any]) -> None:
        """Take note of workers that come and go, and of what they leave behind."""
        action = event[1].get("action") if isinstance(event[1], dict) else None
        if action not in ("add-worker", "remove-worker"):
            return
        self._threads = None
        if action == "remove-worker":
            why = f"worker {event[1].get('worker')} was removed from the cluster"
            for key in event[1].get("processing-tasks", ()):
                self._was_lost(key, why)

    def _was_lost(self, key: str, why: str) -> None:
        with self._lock:
            if key not in self._waiting:
                return
            lost = self._lost.setdefault(key, [])
            lost.append(why)
            if len(lost) <= self._retries:
                return
            mine, theirs = self._waiting.pop(key)
            del self._lost[key]
        again = f" (attempt {len(lost)} of {self._retries + 1})" if self._retries else ""
        mine.set_exception(ConnectionError(f"{why}{again}"))
        # Or else Dask would try it again.
        theirs.release()

    def _ended(self, theirs: Any) -> None:
        """Take note of a future that ended otherwise than by an outcome."""
        if theirs.status == "finished":
            return
        with self._lock:
            mine, _ = self._waiting.pop(theirs.key, (None, None))
        if mine is not None:
            error = theirs.exception() if theirs.status == "error" else None
            mine.set_exception(error or ConnectionError(f"Dask calls it {theirs.status}"))


class _Output(NamedTuple):
    """An output at a worker: Dask's future, and its serialized value if that came along."""

    future: Any
    frames: Any


class _Held:
    """The serialized value of one output, as it stands at a worker."""

    __slots__ = ("frames",)

    def __init__(self, frames: Any) -> None:
        self.frames = frames

    def __reduce__(self) -> tuple[Any, ...]:
        return _Held, (self.frames,)


def _on_worker(job: Any, topic: str, key: str, *inputs: _Held) -> Any:
    """Do a job at a worker: tell what came of it, and return the outputs."""
    from distributed import get_worker

    outcome = job([held.frames for held in inputs])
    held: Any = None
    if outcome is not None:
        worker, record, attempts = outcome
        times, payload, wire, frames, outputs, error, readings = record
        held = {field: _Held(data) for field, data in frames.items()}
        if len(held) == 1:
            (held,) = held.values()
        # What is wanted there and small comes along; to ask for it takes as long as a task.
        if not job.keep or sum(wire.values()) > _SMALL_BYTES:
            frames = dict.fromkeys(frames)
        outcome = worker, (times, payload, wire, frames, outputs, error, readings), attempts
    get_worker().log_event(topic, (key, pickle.dumps(outcome, pickle.HIGHEST_PROTOCOL)))
    return held


def _refused(problem: str) -> ValidationError:
    return ValidationError([GraphError(f"DaskExecutor: {problem}")])
