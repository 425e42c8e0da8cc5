"""RayExecutor: tasks on a Ray cluster, whose object stores send outputs to each other."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from copy import copy
from importlib import import_module
from time import monotonic
from typing import Any

from dagprofiler._util import Values
from dagprofiler._util.checks import integer
from dagprofiler.errors import needs_extra, refused, short_repr
from dagprofiler.executors import Executor, running_future, settle
from dagprofiler.executors.jobs import Job, JobResult
from dagprofiler.executors.worker import interrupted_later
from dagprofiler.graph.wiring import JOBS_PER_WORKER
from dagprofiler.serializers import FrameList, frames_bytes

#: How long a count of the cluster's resources is used, in seconds.
_COUNTED_FOR_S = 1.0

#: Smaller values are sent with the jobs, as Ray itself does.
_SMALL_BYTES = 100_000

#: How long tasks may go on at the end of a run before they are cancelled, in seconds.
_SETTLED_S = 0.5


class RayExecutor(Executor):
    """Runs tasks on a Ray cluster (extra ``ray``).

    Outputs stay in the object stores of the nodes that computed them and go from
    node to node; the process that drives the run receives records, and the outputs
    of sinks and of tasks in ``keep=``.

    Parameters
    ----------
    address
        Of a cluster, as ``ray.init`` takes it: ``"auto"``, ``"10.0.0.1:6379"``.
        None: the one that this process is connected to, else that of the
        environment variable ``RAY_ADDRESS``, as in a Ray job, else one on this
        machine, which is started for each run and ended with it.
    retries
        How often a task is run again if its worker dies. The profile records
        the lost attempts.
    options
        Ray's options for each task, such as ``{"num_cpus": 2}``: all options of
        ``ray.remote`` except ``max_retries``, ``num_returns`` and ``name``.

    Raises
    ------
    MissingExtraError
        If ``ray`` is not installed.
    ValidationError
        If `retries` is not an integer of at least 0; at the start of a run for Ray Client, or
        if a cluster that was started for it lacks the resources in `options`.
    """

    name = "ray"

    def __init__(
        self,
        address: str | None = None,
        *,
        retries: int = 0,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        with needs_extra("RayExecutor", "ray"):
            import_module("ray")
        self._address = address
        self.retries = integer("RayExecutor: retries", retries)
        self._options = dict(options or {})
        self._is_ours = False
        self._is_pinned = False
        self._actor: Any = None
        self._perform: Any = None
        self._slots, self._counted_at = 0, 0.0
        #: Ray's references of pending results.
        self._waiting: set[Any] = set()

    @property
    def capacity(self) -> int:
        """Twice the tasks that the cluster can run at once now, but at least two."""
        now = monotonic()
        if now - self._counted_at > _COUNTED_FOR_S:
            self._slots, self._counted_at = _slots(self._options), now
        # A cluster may start its nodes when it has tasks.
        return JOBS_PER_WORKER * max(1, self._slots)

    def open(self) -> None:
        """Connect to the cluster, or start one."""
        import ray
        from ray.util.client import ray as client

        address = self._address or os.environ.get("RAY_ADDRESS") or ""
        if client.is_connected() or address.startswith("ray://"):
            raise refused(
                "RayExecutor: Ray Client is not supported: run the program on a node of the "
                "cluster, or as a job (ray job submit)"
            )
        self._counted_at = 0.0
        if not ray.is_initialized():
            self._is_ours = True
            if address:
                ray.init(address, logging_level="error")
            else:
                with interrupted_later(), _path_for_workers():
                    ray.init("local", include_dashboard=False, logging_level="error")
                if not _slots(self._options):
                    raise refused(
                        f"RayExecutor: options {short_repr(self._options)} ask for more than "
                        "this machine has"
                    )
        if self._is_pinned:
            retries = {"max_restarts": self.retries, "max_task_retries": self.retries}
            self._actor = ray.remote(**retries, **self._options)(_Pinned).remote()
            self._perform = self._actor.perform
        else:
            self._perform = ray.remote(max_retries=self.retries, **self._options)(_perform)

    def submit(self, job: Any, handles: list[Any]) -> Future[JobResult]:
        """Have a worker call the job with the values of Ray's references."""
        perform = self._perform.options(name=job.name, num_returns=1 + len(job.outputs))
        call = pickle.dumps((job, self.retries), pickle.HIGHEST_PROTOCOL)
        results = perform.remote(call, *handles)
        first, *others = results if job.outputs else [results]
        references = dict(zip(job.outputs, others))
        self._waiting.add(first)
        future = running_future()

        def received(in_ray: Future[bytes]) -> JobResult:
            result: JobResult = pickle.loads(in_ray.result())
            return result.replace(lambda k, field, data: references.get((k, field), data))

        def ended(in_ray: Future[bytes]) -> None:
            self._waiting.discard(first)
            settle(future, lambda: received(in_ray))

        first.future().add_done_callback(ended)
        return future

    def put(self, frames: Any) -> Any:
        """Put a value into the object store; a small one is sent with the jobs."""
        import ray

        return frames if frames_bytes(frames) <= _SMALL_BYTES else ray.put(frames)

    def fetch(self, handle: Any) -> Any:
        """Fetch a value, unless it came with its record."""
        import ray

        data = ray.get(handle) if isinstance(handle, ray.ObjectRef) else handle
        if type(data) is FrameList:
            # Copies, since the object store may end before the profile does.
            return FrameList(frame if isinstance(frame, bytes) else bytes(frame) for frame in data)
        return data

    def pinned(self, node: str) -> RayExecutor:
        """Return one whose tasks run in order in one actor, which has these options."""
        pinned = copy(self)
        vars(pinned).update(_is_pinned=True, _waiting=set())
        return pinned

    def close(self) -> None:
        """Cancel pending tasks; end the cluster, if :meth:`open` started it."""
        import ray

        if self._is_ours:
            self._is_ours = False
            with interrupted_later():
                ray.shutdown()
        elif ray.is_initialized():
            if self._actor is not None:
                ray.kill(self._actor)
            elif results := list(self._waiting):
                # Ray ends this process if it cancels a task that is just being sent or is ending.
                _, pending = ray.wait(results, num_returns=len(results), timeout=_SETTLED_S)
                for result in pending:
                    ray.cancel(result)
        self._waiting.clear()
        self._actor = self._perform = None


class _Pinned:
    """The actor of a node of a schedule: it runs tasks in the order of their submission."""

    def perform(self, call: bytes, *inputs: object) -> object:
        """Run a job; see :func:`_perform`."""
        return _perform(call, *inputs)


def _perform(call: bytes, *inputs: object) -> object:
    """Run a job in a worker; return its result, and each output that other tasks need."""
    job: Job
    job, retries = pickle.loads(call)
    lost = _lost(retries)
    needed: dict[tuple[int, str], object] = dict.fromkeys(job.outputs)

    def leave(k: int, field: str, frames: object) -> object:
        if (k, field) not in needed:
            # Only the process that drives the run needs it: it travels with the record.
            return frames
        needed[k, field] = frames
        return None

    result = job([*inputs]).replace(leave)
    result.attempts += lost
    # Takes a third of the time of Ray's own serialization.
    packed = pickle.dumps(result, pickle.HIGHEST_PROTOCOL)
    return [packed, *needed.values()] if needed else packed


def _lost(retries: int) -> tuple[str, ...]:
    """Return a text for each earlier attempt at the task that runs here."""
    if not retries:
        return ()
    import ray

    # There is no public way to get it.
    count = ray.get_runtime_context().worker.core_worker.get_current_task_attempt_number()
    if count > retries:
        # Ray does not count such deaths as retries.
        raise MemoryError(f"its workers were ended {count} times for lack of memory")
    return tuple("its worker died" for _ in range(count))


def _slots(options: Values) -> int:
    """Return how many tasks with these options the cluster can run at once."""
    import ray

    needed = {"CPU": options.get("num_cpus", 1), "GPU": options.get("num_gpus", 0)}
    needed.update(options.get("resources") or {})
    available = ray.cluster_resources()
    fits = [int(available.get(kind, 0) / amount) for kind, amount in needed.items() if amount]
    return min(fits) if fits else int(available.get("CPU", 0))


@contextmanager
def _path_for_workers() -> Iterator[None]:
    """Let processes that the body starts import the modules that this one can import."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(entry for entry in sys.path if entry)
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
