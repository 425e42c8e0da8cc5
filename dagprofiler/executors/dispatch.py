"""Dispatcher: adapts an executor, whose jobs run concurrently, to the run loop."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, Future
from contextlib import suppress
from itertools import chain
from math import inf
from queue import Empty, SimpleQueue
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from dagprofiler.config import Config
from dagprofiler.errors import PackedError, SerializationError, WorkerError, describe, short_repr
from dagprofiler.executors import Executor, RoundReport
from dagprofiler.executors._shared_files import OwnedFiles, SharedFile
from dagprofiler.executors.jobs import Batch, Job, JobPickler, PackedJob, Session, without_phases
from dagprofiler.executors.worker import Worker
from dagprofiler.graph.wiring import JOBS_PER_WORKER, Wiring
from dagprofiler.measure.machine import clock_domain
from dagprofiler.measure.pipeline import Codec
from dagprofiler.serializers import FrameList

if TYPE_CHECKING:
    from dagprofiler.measure.instruments import Instrumentation


class Clocks:
    """How far the clocks of workers are ahead of this process's, as estimated from tasks.

    A task cannot start before it is sent, and its record cannot arrive before it
    ends. So each task bounds the offset of its worker's clock, and no extra
    messages are needed.

    Parameters
    ----------
    own
        The domain of this process's clock.

    Attributes
    ----------
    own
        The same.

    Notes
    -----
    Cristian, Distributed Computing 3, 1989, with the tasks themselves as the
    round trips; drift within a round is neglected.
    """

    def __init__(self, own: str) -> None:
        self.own = own
        #: Clock domain to the lower and upper bound, in seconds.
        self._bounds: dict[str, tuple[float, float]] = {own: (0.0, 0.0)}

    def note(
        self, domain: str, sent_s: float, times: Sequence[float | None], arrived_s: float
    ) -> None:
        """Narrow the bounds by the times of a task.

        Parameters
        ----------
        domain
            The domain of its worker's clock.
        sent_s, arrived_s
            When it was sent and when its record arrived, by this process's clock.
        times
            The readings of the worker's clock, in order; None for phases not reached.
        """
        known = [moment for moment in times if moment is not None]
        if domain != self.own and known:
            least, most = self._bounds.get(domain, (-inf, inf))
            self._bounds[domain] = max(least, known[-1] - arrived_s), min(most, known[0] - sent_s)

    def ahead_s(self, domain: str) -> float:
        """Return how many seconds a clock is ahead; 0 before the first task."""
        least, most = self._bounds.get(domain, (0.0, 0.0))
        return (least + most) / 2

    def error_s(self, domain: str) -> float:
        """Return the largest error of :meth:`ahead_s`, in seconds."""
        least, most = self._bounds.get(domain, (0.0, 0.0))
        # If drift made them cross, their distance is the error.
        return abs(most - least) / 2


#: How long a job of several tasks may keep a worker, in seconds: long enough to pay for its way,
#: short enough that no task waits long for the others.
BATCH_S = 1.5e-3
#: What a task costs a worker besides its own time, in seconds.
_TASK_S = 25e-6
#: What a byte of its outputs costs on its way, in seconds.
_BYTE_S = 10e-9

#: How long to wait for a result before :meth:`Executor.check` is called.
_PATIENCE_S = 1.0

#: What :meth:`Dispatcher.next` returns without a task.
_NO_TASK: tuple[int, int, tuple[Any, ...]] = (-1, -1, ())


class Durations:
    """How long tasks keep a worker, as measured in this run."""

    def __init__(self) -> None:
        self._of_task: dict[str, float] = {}
        #: The sum and the number of those that tasks of a class had.
        self._of_class: dict[type, tuple[float, int]] = {}
        #: Classes of which a worker has run a task.
        self._seen: set[tuple[type, int]] = set()

    def expected_s(self, name: str, kind: type) -> float:
        """Return how long a task will keep a worker, in seconds; infinite if unknown.

        That is as long as in the last round, or else the mean of the tasks of its class.
        """
        known = self._of_task.get(name)
        if known is None:
            total_s, count = self._of_class.get(kind, (inf, 1))
            known = total_s / count
        return known

    def note(self, name: str, kind: type, worker: int, record: tuple[Any, ...]) -> None:
        """Learn from the record of a task that succeeded."""
        times, _, wire = record[:3]
        took_s = times[5] - times[0] + _TASK_S + _BYTE_S * sum(wire.values())
        self._of_task[name] = took_s
        if (kind, worker) in self._seen:
            total_s, count = self._of_class.get(kind, (0.0, 0))
            self._of_class[kind] = total_s + took_s, count + 1
        else:
            # A class's first task in a worker may import modules and compile functions.
            self._seen.add((kind, worker))


class _SentTask(NamedTuple):
    """A task on its way.

    Attributes
    ----------
    number, name, kind
        Of the task; its kind is its class.
    job, handles
        What is submitted. Keeping the handles of its inputs until the job is done keeps their
        values.
    decode
        Decoder of its outputs, if this process needs them.
    share
        Of a job that short tasks share; 1 if it travels alone.
    """

    number: int
    name: str
    kind: type
    job: Any
    handles: list[Any]
    decode: Callable[[Any], Any] | None
    share: float


class _PendingJob(NamedTuple):
    """A submitted job.

    Attributes
    ----------
    tasks
        Its tasks.
    job
        What was submitted.
    sent_s
        When it was submitted.
    has_session
        Whether it contains the session.
    """

    tasks: list[_SentTask]
    job: Any
    sent_s: float
    has_session: bool


class Dispatcher:
    """Submits tasks to an executor as jobs, and collects their records.

    Has the interface of :class:`~dagprofiler.executors.serial.SerialExecutor`.

    Parameters
    ----------
    executor
        Where jobs run.
    config, seed
        Of the run.
    collects
        Whether workers collect garbage before each round.
    timeout_s
        Time limit of a task that has none of its own, in seconds; None for no limit.
    """

    serial = False

    def __init__(
        self,
        executor: Executor,
        *,
        config: Config,
        seed: int | None,
        collects: bool,
        timeout_s: float | None,
    ) -> None:
        self.name = executor.name
        self.enforces_timeout = executor.enforces_timeout
        self.workers: list[dict[str, Any]] = []
        self._executor = executor
        self._config = config
        self._seed = seed
        self._collects = collects
        self._timeout_s = timeout_s
        self._numbers: dict[Worker, int] = {}
        #: Clock domain of each worker.
        self._domains: list[str] = []
        #: The first task of each worker: under a schedule a job of this name goes to that worker.
        self._first: dict[int, str] = {}
        self._clocks = Clocks(clock_domain())
        self._round = 0
        self._open = self._broken = False
        self._wiring: Wiring
        self._session: Session
        #: Pickles jobs; None if they run in this process.
        self._pickler = None if executor.shares_memory else JobPickler(by_value=executor.by_value)
        self._packed_session = b""
        #: How many workers are likely to get their first job of this round.
        self._unknowing = 0
        self._durations = Durations()
        #: How many tasks were submitted here and are not returned.
        self._running = 0
        #: Those of them that were not sent, in their order, and how many jobs they need.
        self._waiting: list[_SentTask] = []
        self._load = 0.0
        #: Whether tasks came since the run loop was last asked for more.
        self._has_new = False
        #: How many jobs the executor accepts now.
        self._free = 0
        self._pending: dict[Any, _PendingJob] = {}
        self._owned = OwnedFiles()
        #: Finished futures and when they finished; None for a change of capacity.
        self._done: SimpleQueue[tuple[Any, float]] = SimpleQueue()
        #: What :meth:`next` returns, as far as it is known.
        self._landed: deque[tuple[int, int, tuple[Any, ...]]] = deque()
        self._attempts: dict[int, tuple[str, ...]] = {}
        self._waited_s = 0.0

    @property
    def capacity(self) -> int:
        """How many tasks it accepts at once: one more, as long as a job has room for it."""
        if self._broken:
            return 0
        self._free = self._executor.capacity - len(self._pending)
        return self._running + (self._load < self._free)

    def begin(self, instrumentation: Instrumentation | None, wiring: Wiring) -> None:
        """Begin a round whose tasks are measured by these instruments, or by none.

        The wiring says which outputs are needed.
        """
        self._wiring = wiring
        if not self._open:
            self._open = True
            self._executor.on_capacity = self._look_again
            self._executor.open()
        self._round += 1
        self._attempts, self._waited_s = {}, 0.0
        self._session = Session(
            key=f"{clock_domain()} {id(self)} {perf_counter()} {self._round}",
            config=self._config,
            seed=self._seed,
            instrumentation=instrumentation,
            collects=self._collects and self._pickler is not None,
            folder=self._executor.folder,
            parent=os.getpid() if self._executor.starts_workers else None,
        )
        if self._pickler is not None:
            self._packed_session = self._pickler.session(self._session)
            known = self._executor.announce(self._session.key, self._packed_session)
            self._unknowing = 0 if known else -(-self._executor.capacity // JOBS_PER_WORKER)
            if self._collects:
                self._prepare()

    def _prepare(self) -> None:
        """Let the workers that are known collect garbage before the round's clock starts.

        A worker that no such job reaches collects before its first task, which delays the round.
        """
        done: SimpleQueue[Any] = SimpleQueue()
        jobs = [
            PackedJob(self._session.key, name, keep=True, outputs=[], data=b"").with_session(
                self._packed_session
            )
            for name in [*self._first.values()][: max(0, self._executor.capacity)]
        ]
        self._unknowing -= len(jobs)
        # An executor that is lost says so when it gets a task.
        with suppress(Exception):
            for job in jobs:
                self._executor.submit(job, []).add_done_callback(done.put)
            for _ in jobs:
                done.get(timeout=_PATIENCE_S)

    def submit(self, number: int, work: tuple[Any, ...], handles: list[Any]) -> None:
        """Submit task `number`; `handles` are those of its inputs, in the order of the work.

        A task that cannot be pickled fails at once.
        """
        name, task, contract, _, _, keep = work
        self._running += 1
        job: Any
        expected_s, decode = inf, None
        if self._pickler is None:
            job = Job(self._session, work)
        else:
            try:
                job = self._pickler.job(self._session.key, work, self._wiring.wanted(number))
            except SerializationError as error:
                self._landed.append((number, -1, without_phases(error)))
                return
            limit_s = self._timeout_s if task.timeout is None else task.timeout
            if limit_s is not None:
                job = job.with_session(self._packed_session, float(limit_s))
            elif not self._executor.keeps_order:
                expected_s = self._durations.expected_s(name, type(task))
            if keep:
                decode = contract.decode
        # Of two tasks that are no shorter, none gains by the company of the other.
        share = expected_s / BATCH_S if expected_s <= BATCH_S / 2 else 1.0
        self._waiting.append(_SentTask(number, name, type(task), job, handles, decode, share))
        self._load += share
        self._has_new = True

    def _flush(self) -> None:
        """Send the waiting tasks, as far as the executor accepts jobs.

        Short tasks share jobs, but leave no job that the executor accepts unused.
        """
        alone = sum(task.share == 1 for task in self._waiting)
        shared = max(1, self._free - alone)
        jobs: list[list[_SentTask]] = []
        batches: deque[list[_SentTask]] = deque()
        for task in self._waiting:
            if task.share < 1 and len(batches) == shared:
                # In turns: those of the highest priority are the first of their jobs.
                batches.rotate(-1)
                batches[-1].append(task)
                continue
            jobs.append([task])
            if task.share < 1:
                batches.append(jobs[-1])
        # Nothing waits for an executor that is broken or has no job to finish.
        accepted = max(0, self._free) if self._pending and not self._broken else len(jobs)
        self._waiting = [task for tasks in jobs[accepted:] for task in tasks]
        self._load = sum(task.share for task in self._waiting)
        self._free -= accepted
        for tasks in jobs[:accepted]:
            job = tasks[0].job
            if len(tasks) > 1:
                job = Batch([task.job for task in tasks], [len(task.handles) for task in tasks])
            has_session = self._pickler is None
            if self._unknowing > 0 and tasks[0].job.limit_s is None:
                self._unknowing -= 1
                job, has_session = job.with_session(self._packed_session), True
            self._send(tasks, job, has_session=has_session)

    def _send(self, tasks: list[_SentTask], job: Any, *, has_session: bool) -> None:
        pending = _PendingJob(tasks, job, perf_counter(), has_session)
        try:
            # A copy, since a job in this process empties the list.
            future = self._executor.submit(job, [data for task in tasks for data in task.handles])
            future.add_done_callback(self._arrived)
        except Exception as error:  # noqa: BLE001  (an engine may raise anything)
            self._broken = True
            self._lose(tasks, error)
            return
        self._pending[future] = pending

    def _arrived(self, future: Future[Any]) -> None:
        """Queue a finished future; called in any thread."""
        self._done.put((future, perf_counter()))

    def _lose(self, tasks: list[_SentTask], error: Exception) -> None:
        """Fail tasks whose job is lost."""
        for task in tasks:
            lost = self._lost(task, tasks, error)
            self._landed.append((task.number, -1, without_phases(lost)))

    def _lost(self, task: _SentTask, tasks: list[_SentTask], error: Exception) -> BaseException:
        """Return the error of a task of a lost job; `tasks` are all that were in it."""
        if isinstance(error, WorkerError):
            return error
        jobs = chain([tasks], (pending.tasks for pending in self._pending.values()))
        others = [other.name for job in jobs for other in job if other is not task]
        lost = WorkerError(task.name, others, describe(error))
        lost.__cause__ = error
        return lost

    def _look_again(self) -> None:
        """Make :meth:`next` return; called in any thread."""
        self._done.put((None, 0.0))

    def next(self) -> tuple[int, int, tuple[Any, ...]]:
        """Wait for a task; return its number, the index of its worker, and its record.

        A number of -1 asks for more tasks, or signals a change of capacity.
        """
        self._owned.tidy()
        if self._has_new and self._load < self._free and not (self._landed or self._broken):
            self._has_new = False
            return _NO_TASK
        if self._waiting and (not self._landed or self._load >= self._free):
            self._flush()
        while not self._landed:
            begun = perf_counter()
            try:
                future, arrived_s = self._done.get(timeout=_PATIENCE_S)
            except Empty:
                self._check()
                continue
            finally:
                self._waited_s += perf_counter() - begun
            if future is None:
                return _NO_TASK
            pending = self._pending.pop(future, None)
            # Without, it already failed as lost.
            if pending is not None:
                self._take(pending, future, arrived_s)
        self._running -= 1
        return self._landed.popleft()

    def _take(self, pending: _PendingJob, future: Future[Any], arrived_s: float) -> None:
        """Take the results of a job's tasks, or send it again with its session."""
        tasks = pending.tasks
        try:
            outcome: Any = future.result()
        except Exception as error:  # noqa: BLE001  (the same)
            self._broken = self._broken or isinstance(error, BrokenExecutor)
            if len(tasks) == 1 or not self._executor.retries or self._broken:
                self._lose(tasks, error)
                return
            # One of them ends every worker: tried alone, the others succeed.
            self._attempts.update({task.number: (describe(error),) for task in tasks})
            self._waiting += [task._replace(share=1.0) for task in tasks]
            self._load += len(tasks)
            self._look_again()
            return
        if isinstance(outcome, tuple):
            worker, record, attempts = outcome
            records = Batch.records(record) if len(tasks) > 1 else (record,)
            for task, own in zip(tasks, records):
                if attempts:
                    earlier = self._attempts.get(task.number, ())
                    self._attempts[task.number] = (*earlier, *attempts)
                if worker is None:
                    self._landed.append((task.number, -1, own))
                else:
                    self._landed.append(self._entered(task, pending.sent_s, worker, own, arrived_s))
        elif outcome is not None or pending.has_session:
            strange = f"its future holds {short_repr(outcome)}, not what the job returned"
            self._lose(tasks, TypeError(strange))
        else:
            self._send(tasks, pending.job.with_session(self._packed_session), has_session=True)

    def _check(self) -> None:
        """Fail all jobs if the executor's check raises."""
        try:
            self._executor.check()
        except Exception as error:  # noqa: BLE001  (the same)
            self._broken = True
            while self._pending:
                _, pending = self._pending.popitem()
                self._lose(pending.tasks, error)

    def _entered(
        self,
        task: _SentTask,
        sent_s: float,
        worker: tuple[Any, ...],
        record: tuple[Any, ...],
        arrived_s: float,
    ) -> tuple[int, int, tuple[Any, ...]]:
        number = task.number
        index = self._numbers.get(worker)  # type: ignore[call-overload]  # a bare tuple
        if index is None:
            index = self._introduced(Worker(*worker))
            self._first[index] = task.name
        times, payload, wire, frames, outputs, error, readings, spans = record
        if self._domains[index] != self._clocks.own:
            self._clocks.note(worker[3], sent_s, times, arrived_s)
        if error is not None:
            if isinstance(error, PackedError):
                error = error.unpacked()
            return number, index, (times, payload, wire, frames, outputs, error, readings, spans)
        self._durations.note(task.name, task.kind, index, record)
        if self._session.folder is not None:
            for data in frames.values():
                if type(data) is SharedFile:
                    self._owned.add(data)
        if task.decode is not None:
            try:
                outputs = self._opened(task, frames, task.decode)
            except (SerializationError, WorkerError) as problem:
                error = problem
        return number, index, (times, payload, wire, frames, outputs, error, readings, spans)

    def _introduced(self, worker: Worker) -> int:
        """Return the number of a new worker."""
        index = self._numbers[worker] = len(self.workers)
        self._domains.append(worker.clock)
        self.workers.append({"host": worker.host, "pid": worker.pid, "thread": worker.thread})
        return index

    def _opened(
        self, task: _SentTask, frames: dict[str, Any], decode: Callable[[Any], Any]
    ) -> dict[str, Any]:
        """Return the values of the handles of a task's outputs."""
        outputs = {}
        for field, handle in frames.items():
            try:
                data = self._executor.fetch(handle)
            except Exception as error:
                raise self._lost(task, [], error) from error
            try:
                outputs[field] = _decoded(data, decode)
            except Exception as error:
                where = f"task {short_repr(task.name)}: output {field!r} cannot be decoded here"
                raise SerializationError(f"{where}: {describe(error)}") from error
        return outputs

    def ahead_s(self, worker: int) -> float:
        """Return the current estimate by how many seconds a worker's clock is ahead."""
        return 0.0 if worker < 0 else self._clocks.ahead_s(self._domains[worker])

    def end(self) -> RoundReport:
        """Return what only the executor knows of the round."""
        clocks = self._clocks
        for domain, worker in zip(self._domains, self.workers):
            if domain != clock_domain():
                worker["clock_ahead_ms"] = round(clocks.ahead_s(domain) * 1e3, 6)
                worker["clock_error_ms"] = round(clocks.error_s(domain) * 1e3, 6)
        shared = self._seed is not None and not all(known.alone for known in self._numbers)
        return RoundReport(
            waited_s=self._waited_s,
            attempts=self._attempts,
            legacy_generators=False if shared else None,
            ahead_s=[clocks.ahead_s(domain) for domain in self._domains],
        )

    def recall(self, worker: dict[str, Any]) -> int:
        """Return the number of a worker of an earlier attempt at this run.

        Its times are already converted to this process's clock.
        """
        if worker not in self.workers:
            self.workers.append(worker)
            self._domains.append(clock_domain())
        return self.workers.index(worker)

    def put(self, frames: Any) -> Any:
        """Return a handle of a value that this process has serialized."""
        return self._executor.put(FrameList(frames) if type(frames) is list else frames)

    def value(self, handle: Any, decode: Codec) -> Any:
        """Return the value of a handle."""
        return _decoded(self._executor.fetch(handle), decode)

    def close(self) -> None:
        """Cancel pending jobs and close the executor."""
        for future in self._pending:
            future.cancel()
        if self._open:
            self._open = False
            self._executor.on_capacity = None
            self._executor.close()


def _decoded(data: Any, decode: Codec) -> Any:
    return decode(data.frames(decode) if type(data) is SharedFile else data)
