"""CeleryExecutor: tasks on the workers of a Celery app."""

from __future__ import annotations

import pickle
import socket
import threading
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from time import monotonic
from typing import Any

from dagprofiler._util import JsonObject
from dagprofiler.errors import describe, needs_extra, refused
from dagprofiler.executors import Executor, running_future, settle
from dagprofiler.executors._shared_files import SharedFiles
from dagprofiler.executors.jobs import JobResult
from dagprofiler.graph.wiring import JOBS_PER_WORKER

#: The names in Celery of the task and of the command that workers have.
JOB = "dagprofiler.job"
ROLL_CALL = "dagprofiler_roll_call"

#: How long to wait for the next answer to a roll call, and between two roll calls, in seconds.
_ROLL_CALL_S = 1.0
_PAUSE_S = 0.5

#: How long the thread that receives results waits before it checks whether it is still needed,
#: and how long :meth:`close` waits for it, in seconds: a lost backend blocks it longer.
_DRAIN_S = 0.2
_JOIN_S = 2.0
#: Interval of polling a backend that cannot notify, in seconds.
_POLL_S = 0.02

#: Pools that leave a worker's main thread free to answer while tasks run.
_ANSWERING = {"prefork", "thread"}


@dataclass
class _CeleryJob:
    """A job that was sent and has not returned.

    Attributes
    ----------
    result
        Celery's ``AsyncResult``.
    future
        Of its result.
    sent_s
        When it was sent.
    seen
        Whether a worker has ever reported it.
    missed
        How many roll calls in a row have not found it.
    """

    result: Any
    future: Future[JobResult] = field(default_factory=running_future)
    sent_s: float = field(default_factory=monotonic)
    seen: bool = False
    missed: int = 0


class CeleryExecutor(Executor):
    """Runs tasks on the workers of a Celery app (extra ``celery``).

    The workers must import ``dagprofiler.executors.celery_worker``: name it in the
    app's ``include``. Jobs and results are sent as text through the app's broker
    and its result backend.

    Parameters
    ----------
    app
        The ``celery.Celery``; it needs a result backend.
    queue
        Name of the queue of jobs; None for Celery's own routing.
    folder
        A folder that this process and all workers share, for large outputs. None: large
        outputs go through files in memory if all workers are on this machine, and
        else through broker and backend.
    patience_s
        How long a worker may not answer before it counts as dead, in seconds.

    Raises
    ------
    MissingExtraError
        If Celery is not installed.

    Notes
    -----
    A broker does not report the death of a worker. So while jobs are pending, the
    executor asks the workers every 1.5 s which of them they have. A job is lost if
    its result has not arrived and no worker has it any more, or none has it since a
    worker stopped answering.
    """

    def __init__(
        self,
        app: Any,
        *,
        queue: str | None = None,
        folder: str | None = None,
        patience_s: float = 5.0,
    ) -> None:
        with needs_extra("CeleryExecutor", "celery"):
            import_module("celery")
        self.name = type(self).__name__
        self._app = app
        self._options = {} if queue is None else {"queue": queue}
        self._shared_folder = folder
        self._patience_s = patience_s
        #: How many workers answered last, including those that take no jobs.
        self._answers = 0

    @property
    def capacity(self) -> int:
        """Two jobs for each process of the workers."""
        # A copy, since another thread changes it.
        workers = [*self._workers.values()]
        return JOBS_PER_WORKER * sum(int(worker["processes"]) for worker in workers)

    def open(self) -> None:
        """Find the workers.

        Raises
        ------
        ValidationError
            If no worker would take a job, if the app has no result
            backend, or if a worker cannot do what the run needs.
        """
        from celery.backends.base import DisabledBackend

        #: The last answer of each worker, and when that came, as ``heard_s``.
        self._workers: dict[str, JsonObject] = {}
        self._pending: dict[str, _CeleryJob] = {}
        #: When a worker was last found missing, and why.
        self._missed = 0.0, ""
        self._closed, self._changed = threading.Event(), threading.Condition()
        self._taker: threading.Thread | None = None
        self._shared_files: SharedFiles | None = None
        # Each thread has a backend; results arrive at that of the sending thread.
        self._backend = self._app.backend
        if isinstance(self._backend, DisabledBackend):
            raise refused("CeleryExecutor: the app has no result backend: Celery(..., backend=...)")
        self._shared_files = SharedFiles(self._shared_folder)
        deadline_s = monotonic() + self._patience_s
        # Workers on a busy machine take long to answer.
        while not self._workers and monotonic() < deadline_s:
            # Stop at as many answers as last time, instead of waiting for others.
            self._note(self._call_roll([], self._answers or None))
        if not self._workers:
            raise refused(
                f"CeleryExecutor: no worker of app {self._app.main!r} takes jobs from queue "
                f"{self._queue()!r}: start one, of an app with "
                "include=['dagprofiler.executors.celery_worker']"
            )
        if all(worker["reaches"] for worker in self._workers.values()):
            self.folder = self._shared_files.folder
        elif self._shared_folder is not None:
            raise refused(
                f"CeleryExecutor: folder: not all workers can write into {self._shared_folder!r}, "
                "or it is not the same folder there"
            )
        self._taker = self._start(self._take_results)
        self._start(self._watch)

    def _start(self, target: Callable[[threading.Event], None]) -> threading.Thread:
        # A daemon, so that the program can end while a broker does not answer.
        thread = threading.Thread(target=target, args=[self._closed], daemon=True)
        thread.start()
        return thread

    def _queue(self) -> str:
        """Return the name of the queue that jobs go to."""
        queue: str = self._app.amqp.router.route({**self._options}, JOB)["queue"].name
        return queue

    def _call_roll(self, jobs: Iterable[str], expected: int | None) -> dict[str, JsonObject]:
        """Return the answers of the workers that would take a job, by their names."""
        arguments = {"jobs": list(jobs), "folder": self._shared_files and self._shared_files.folder}
        replies = self._app.control.broadcast(
            ROLL_CALL, arguments=arguments, reply=True, timeout=_ROLL_CALL_S, limit=expected
        )
        self._answers = len(replies or ())
        queue = self._queue()
        return {
            name: answer
            for reply in replies or ()
            for name, answer in reply.items()
            # A worker without the command answers something else.
            if queue in answer.get("queues", ())
        }

    def _note(self, roll: dict[str, JsonObject]) -> None:
        """Update the workers by their answers, and remove those that stopped answering."""
        now = monotonic()
        for name, answer in roll.items():
            if self._workers.get(name, answer)["pid"] != answer["pid"]:
                self._missed = now, f"worker {name!r} was restarted"
            self._workers[name] = {**answer, "heard_s": now}
        for name, worker in [*self._workers.items()]:
            silent_s = now - worker["heard_s"]
            if worker["pool"] in _ANSWERING and silent_s > self._patience_s:
                del self._workers[name]
                self._missed = now, f"worker {name!r} has not answered for {silent_s:.0f} s"

    def submit(self, job: Any, handles: list[Any]) -> Future[JobResult]:
        """Send the job to the broker."""
        from celery import uuid

        text, key = as_text((job, handles)), uuid()
        # Entered before it is sent, so that :meth:`close` also revokes it after a Ctrl-C.
        pending = self._pending[key] = _CeleryJob(self._app.AsyncResult(key))
        self._app.send_task(
            JOB,
            (text,),
            task_id=key,
            ignore_result=False,
            # The end of a second result would unsubscribe, and swallow a Ctrl-C meanwhile.
            result_cls=lambda _: pending.result,
            # Shown by monitors.
            argsrepr=f"({job.name!r},)",
            **self._options,
        )
        with self._changed:
            self._changed.notify_all()
        pending.result.then(self._arrived)
        return pending.future

    def _arrived(self, result: Any) -> None:
        """Set the future of a result; called in any thread."""
        pending = self._pending.pop(result.id, None)
        if pending is not None:
            settle(pending.future, lambda: _outcome(result))
        # A result that cannot be removed from the backend expires there.
        with suppress(Exception):
            result.forget()

    def _take_results(self, closed: threading.Event) -> None:
        """Receive results while jobs are pending."""
        consumer = getattr(self._backend, "result_consumer", None)
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._pending or closed.is_set())
            if closed.is_set():
                return
            try:
                if consumer is not None:
                    # Wakes up when a result arrives.
                    consumer.drain_events(timeout=_DRAIN_S)
                    continue
                # Databases and files do not notify.
                for pending in [*self._pending.values()]:
                    pending.result.ready()
                closed.wait(_POLL_S)
            except (TimeoutError, socket.timeout):
                pass
            except Exception as error:  # noqa: BLE001  (a backend may raise anything)
                for job in [*self._pending]:
                    self._lose(job, f"the result backend: {describe(error)}")

    def _watch(self, closed: threading.Event) -> None:
        """Look for lost jobs while jobs are pending."""
        while not closed.wait(_PAUSE_S):
            due = monotonic() - _PAUSE_S
            jobs = [job for job, pending in [*self._pending.items()] if pending.sent_s < due]
            if jobs:
                self._look_for(jobs)

    def _look_for(self, jobs: list[str]) -> None:
        # Without a broker there are no answers.
        roll: dict[str, JsonObject] = {}
        with suppress(Exception):
            roll = self._call_roll(jobs, None)
        self._note(roll)
        held = {job for answer in roll.values() for job in answer["jobs"]}
        for job in jobs:
            pending = self._pending.get(job)
            if pending is None:
                continue
            if job in held:
                pending.seen, pending.missed = True, 0
            elif not self._is_ready(pending):
                # At the first such roll call its result may still be on its way.
                pending.missed += pending.seen
                missed_s, reason = self._missed
                if pending.sent_s < missed_s:
                    self._lose(job, reason)
                elif pending.missed > 1:
                    self._lose(job, "its worker does not have it any more")

    def _is_ready(self, pending: _CeleryJob) -> bool:
        """Tell whether the backend has a result; asking also makes it arrive."""
        with suppress(Exception):
            return bool(pending.result.ready())
        return False

    def _lose(self, job: str, reason: str) -> None:
        """Fail a job as lost, unless it has returned."""
        pending = self._pending.pop(job, None)
        if pending is not None:
            self._revoke([job])
            pending.future.set_exception(ConnectionError(reason))

    def _revoke(self, jobs: list[str]) -> None:
        """Make workers skip jobs that they have not begun."""
        with suppress(Exception):
            if jobs:
                self._app.control.revoke(jobs)

    def close(self) -> None:
        """Stop receiving results and revoke the jobs that have not begun."""
        self._closed.set()
        with self._changed:
            self._changed.notify_all()
        if self._taker is not None:
            self._taker.join(_JOIN_S)
        left, self._pending = self._pending, {}
        self._revoke([*left])
        for pending in left.values():
            with suppress(Exception):
                pending.result.forget()
        if self._shared_files is not None:
            self._shared_files.close()
        self.folder = None


def as_text(value: object) -> str:
    """Return a value as text, which all of Celery's serializers accept."""
    return b64encode(pickle.dumps(value, pickle.HIGHEST_PROTOCOL)).decode("ascii")


def from_text(text: str) -> Any:
    """Return the value of a text made by :func:`as_text`."""
    return pickle.loads(b64decode(text))


def _outcome(result: Any) -> JobResult:
    """Return the job's result that a result of Celery holds, or raise its error."""
    value = result.result
    if result.state != "SUCCESS":
        raise value if isinstance(value, Exception) else RuntimeError(f"{result.state}: {value}")
    outcome: JobResult = from_text(value)
    return outcome
