"""Dispatcher: adapts an executor, whose jobs run concurrently, to the run loop."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor, Future
from math import inf
from queue import Empty, SimpleQueue
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from dagprofiler._util import JsonObject
from dagprofiler.config import Config
from dagprofiler.errors import PackedError, SerializationError, WorkerError, describe, short_repr
from dagprofiler.executors import Executor, RoundReport
from dagprofiler.executors._shared_files import SharedFile, removed_when_unused
from dagprofiler.executors.jobs import Job, JobMaker, JobResult, JobTask, Session, failed
from dagprofiler.executors.worker import Worker
from dagprofiler.graph.wiring import Wiring
from dagprofiler.measure.machine import allocator_settings, clock_domain
from dagprofiler.measure.pipeline import Record, Work, unserialized
from dagprofiler.serializers import Codec, FrameList, Frames, Handle

if TYPE_CHECKING:
    from dagprofiler.measure.instruments import Instrumentation


#: What may be wrong if no worker has done a task.
_NO_GUARD = (
    "; where processes are spawned, a program needs to start under if __name__ == '__main__':"
)


class Clock:
    """How far the clock of other hosts is ahead of this process's, as estimated from jobs.

    A job cannot start before it is sent, and its result cannot arrive before it
    ends. So each job bounds the offset of its worker's clock, and no extra
    messages are needed.

    Attributes
    ----------
    ahead_s, error_s
        The estimate and its largest error, in seconds; 0 and None before the first job.

    Notes
    -----
    Cristian, Distributed Computing 3, 1989, with the jobs themselves as the
    round trips; drift within a round is neglected.
    """

    def __init__(self) -> None:
        self.ahead_s = 0.0
        self.error_s: float | None = None
        self._least_s, self._most_s = -inf, inf

    def add_job(self, sent_s: float, times: Sequence[float | None], arrived_s: float) -> None:
        """Narrow the bounds by the times of a job.

        Parameters
        ----------
        sent_s, arrived_s
            When it was sent and when its result arrived, by this process's clock.
        times
            The readings of its worker's clock, in order; None for phases not reached.
        """
        reached = [moment for moment in times if moment is not None]
        if reached:
            self._least_s = max(self._least_s, reached[-1] - arrived_s)
            self._most_s = min(self._most_s, reached[0] - sent_s)
            self.ahead_s = (self._least_s + self._most_s) / 2
            # If drift made them cross, their distance is the error.
            self.error_s = abs(self._most_s - self._least_s) / 2


class Workers:
    """The workers of a run: their numbers, their clocks, and what the profile says of them.

    Attributes
    ----------
    rows
        The workers in the form of the profile's ``timeline.workers``; a worker's number is its
        position here. A journal adds those of earlier attempts, whose times are by this
        process's clock.
    all_alone
        Whether no worker has another task in its process.
    """

    def __init__(self) -> None:
        self.rows: list[JsonObject] = []
        self.all_alone = True
        self._numbers: dict[Worker, int] = {}
        #: The clocks of other hosts, by their domain and by the numbers of their workers.
        self._clocks: dict[str, Clock] = {}
        self._clock_of: dict[int, Clock] = {}

    def number_of(self, worker: Worker) -> int:
        """Return the number of a worker, which may be new."""
        number = self._numbers.get(worker)
        if number is None:
            number = self._numbers[worker] = len(self.rows)
            row: JsonObject = {"host": worker.host, "pid": worker.pid, "thread": worker.thread}
            if worker.allocator != allocator_settings():
                row["allocator_settings"] = dict(worker.allocator)
            self.rows.append(row)
            if worker.clock != clock_domain():
                self._clock_of[number] = self._clocks.setdefault(worker.clock, Clock())
            self.all_alone = self.all_alone and worker.alone
        return number

    def add_job(self, number: int, sent_s: float, records: list[Record], arrived_s: float) -> None:
        """Learn about a worker's clock from the tasks of a job that it ran."""
        clock = self._clock_of.get(number)
        if clock is not None:
            times = [moment for record in records for moment in record.times]
            clock.add_job(sent_s, times, arrived_s)

    def ahead_s(self, number: int) -> float:
        """Return by how many seconds a worker's clock is ahead of this process's."""
        clock = self._clock_of.get(number)
        return 0.0 if clock is None else clock.ahead_s

    def report(self) -> list[float]:
        """Enter the estimates of the clocks into the rows; return how far each is ahead."""
        for number, clock in self._clock_of.items():
            if clock.error_s is not None:
                self.rows[number]["clock_ahead_ms"] = round(clock.ahead_s * 1e3, 6)
                self.rows[number]["clock_error_ms"] = round(clock.error_s * 1e3, 6)
        return [self.ahead_s(number) for number in range(len(self.rows))]


#: How long a job of several tasks may keep a worker, in seconds: long enough to pay for its way,
#: short enough that no task waits long for the others.
BATCH_S = 1.5e-3
#: What a task costs a worker besides its own time, in seconds.
_TASK_S = 25e-6
#: What a byte of its outputs costs on its way, in seconds.
_BYTE_S = 10e-9


class Durations:
    """How long tasks keep a worker, as measured in this run."""

    def __init__(self) -> None:
        self._of_task: dict[str, float] = {}
        #: Class to the total time of its tasks and their number.
        self._of_class: dict[type, tuple[float, int]] = {}
        #: Each class and a worker that has run a task of it.
        self._seen: set[tuple[type, int]] = set()

    def expected_s(self, name: str, cls: type) -> float:
        """Return how long a task will keep a worker, in seconds; infinite if unknown.

        That is as long as in the last round, or else the mean of the tasks of its class.
        """
        if name in self._of_task:
            return self._of_task[name]
        total_s, count = self._of_class.get(cls, (inf, 1))
        return total_s / count

    def add_task(self, name: str, cls: type, worker: int, record: Record) -> None:
        """Learn from the record of a task that succeeded."""
        took_s = record.times[5] - record.times[0] + _TASK_S
        took_s += _BYTE_S * sum(record.wire_bytes.values())
        self._of_task[name] = took_s
        if (cls, worker) in self._seen:
            total_s, count = self._of_class.get(cls, (0.0, 0))
            self._of_class[cls] = total_s + took_s, count + 1
        else:
            # A class's first task in a worker may import modules and compile functions.
            self._seen.add((cls, worker))


class SubmittedTask(NamedTuple):
    """A task on its way.

    Attributes
    ----------
    number, cls
        Its number in the graph, and its class.
    task
        What a job holds of it.
    handles
        The handles of its inputs, which keep their values until the job is done.
    decode
        Decoder of its outputs, if this process needs them and the worker sends them serialized.
    share
        Its share of a job, in which short tasks travel together; 1 if it travels alone.
    limit_s
        Its time limit, in seconds; None for none.
    """

    number: int
    cls: type
    task: JobTask
    handles: list[Handle]
    decode: Codec | None
    share: float
    limit_s: float | None


class Batcher:
    """Makes jobs of tasks that wait to be sent.

    Attributes
    ----------
    durations
        How long tasks keep a worker, which says how many share a job.
    free
        How many jobs the executor accepts now.
    waiting
        The tasks.
    """

    def __init__(self) -> None:
        self.durations = Durations()
        self.free = 0
        self.waiting: list[SubmittedTask] = []
        #: How many jobs the waiting tasks fill.
        self._load = 0.0
        #: Whether tasks have been added since the run loop was last asked for more.
        self._has_new = False

    def share_of(self, name: str, cls: type) -> float:
        """Return the share of a job that a task takes."""
        expected_s = self.durations.expected_s(name, cls)
        # Two longer tasks would not fit into one job.
        return expected_s / BATCH_S if expected_s <= BATCH_S / 2 else 1.0

    def add(self, task: SubmittedTask) -> None:
        """Add a task to those that wait."""
        self.waiting.append(task)
        self._load += task.share
        self._has_new = True

    @property
    def has_room(self) -> bool:
        """Whether the jobs that the executor accepts have room for one more task."""
        return self._load < self.free

    def asks_for_more(self) -> bool:
        """Tell whether to ask the run loop for another task: once after each task that it adds."""
        asks, self._has_new = self._has_new and self.has_room, False
        return asks

    def jobs(self, *, at_once: bool) -> list[list[SubmittedTask]]:
        """Return the tasks of each job that is to be sent now; the other tasks wait on.

        Short tasks share jobs, but leave no job that the executor accepts unused.

        Parameters
        ----------
        at_once
            Whether to send all jobs, even more than the executor accepts.
        """
        short = [task for task in self.waiting if task.share < 1]
        singles = [[task] for task in self.waiting if task.share == 1]
        most = max(1, self.free - len(singles))
        # Dealt in turns, so that the tasks of the highest priority come first in their jobs.
        batches = [short[k::most] for k in range(min(most, len(short)))]
        place = {task.number: k for k, task in enumerate(self.waiting)}
        jobs = sorted(batches + singles, key=lambda tasks: place[tasks[0].number])
        count = len(jobs) if at_once else max(0, self.free)
        self.waiting = [task for tasks in jobs[count:] for task in tasks]
        self._load = sum(task.share for task in self.waiting)
        self.free -= count
        return jobs[:count]


#: How long to wait for a result before :meth:`Executor.check` is called.
_PATIENCE_S = 1.0

#: What :meth:`Dispatcher.next` returns without a task.
_NO_TASK: tuple[int, int, Any] = (-1, -1, ())


class PendingJob(NamedTuple):
    """The tasks of a job, and when it was submitted."""

    tasks: list[SubmittedTask]
    sent_s: float


class Dispatcher:
    """Submits tasks to an executor as jobs, and collects their records.

    Has the interface of :class:`~dagprofiler.executors.serial.SerialExecutor`.

    Parameters
    ----------
    executor
        Where jobs run.
    config, seed
        Of the run.
    timeout_s
        Time limit of a task that has none of its own, in seconds; None for no limit.
    """

    serial = False

    def __init__(
        self, executor: Executor, *, config: Config, seed: int | None, timeout_s: float | None
    ) -> None:
        self._executor = executor
        self._timeout_s = timeout_s
        parent = os.getpid() if executor.starts_workers else None
        #: The session of the current round, and its handle.
        self._session = Session("", config, seed, None, None, parent)
        self._session_handle: Handle = None
        self._maker = JobMaker(pickles=not executor.shares_memory, by_value=executor.by_value)
        self._batcher = Batcher()
        self._workers = Workers()
        self._wiring: Wiring
        #: How many tasks have been submitted and not returned.
        self._running = 0
        self._pending: dict[Future[JobResult], PendingJob] = {}
        #: Finished futures and when they finished.
        self._done: SimpleQueue[tuple[Future[JobResult], float]] = SimpleQueue()
        #: What :meth:`next` returns in its next calls.
        self._landed: deque[tuple[int, int, Record]] = deque()
        self._report = RoundReport()
        self._is_open = self._is_broken = False

    @property
    def name(self) -> str:
        """The executor's name in profiles."""
        return self._executor.name

    @property
    def workers(self) -> list[JsonObject]:
        """The workers, in the form of the profile's ``timeline.workers``."""
        return self._workers.rows

    @property
    def capacity(self) -> int:
        """How many tasks it accepts at once: one more, as long as a job has room for it."""
        if self._is_broken:
            return 0
        self._batcher.free = self._executor.capacity - len(self._pending)
        return self._running + self._batcher.has_room

    def begin(self, instrumentation: Instrumentation | None, wiring: Wiring) -> None:
        """Begin a round whose tasks are measured by these instruments, or by none.

        The wiring says which outputs are needed.
        """
        if not self._is_open:
            self._is_open = True
            self._executor.open()
        self._wiring = wiring
        self._report = RoundReport(waited_s=0.0)
        self._session = self._session._replace(
            key=os.urandom(16).hex(), instrumentation=instrumentation, folder=self._executor.folder
        )
        self._session_handle = self.put(self._maker.session(self._session))

    def submit(self, number: int, work: Work, handles: list[Handle]) -> None:
        """Submit task `number`; `handles` are those of its inputs, in the order of the work.

        A task that cannot be pickled fails at once.
        """
        name, task, contract, _, _, returns_outputs = work
        self._running += 1
        try:
            job_task = self._maker.task(work, self._wiring.wanted(number))
        except SerializationError as error:
            self._landed.append((number, -1, failed(error)))
            return
        executor = self._executor
        limit_s = self._timeout_s if task.timeout is None else task.timeout
        limit_s = None if limit_s is None or executor.shares_memory else float(limit_s)
        travels_alone = limit_s is not None or executor.keeps_order
        share = 1.0 if travels_alone else self._batcher.share_of(name, type(task))
        decode = contract.decode if returns_outputs and not executor.shares_memory else None
        self._batcher.add(
            SubmittedTask(number, type(task), job_task, handles, decode, share, limit_s)
        )

    def _send(self, tasks: list[SubmittedTask]) -> None:
        """Submit a job of these tasks to the executor."""
        job = Job(self._session.key, [task.task for task in tasks], tasks[0].limit_s)
        handles = [self._session_handle]
        for task in tasks:
            handles += task.handles
        sent_s = perf_counter()
        try:
            future = self._executor.submit(job, handles)
            future.add_done_callback(lambda future: self._done.put((future, perf_counter())))
        except Exception as error:  # noqa: BLE001  (an engine may raise anything)
            self._is_broken = True
            self._lose(tasks, error)
        else:
            self._pending[future] = PendingJob(tasks, sent_s)

    def _lose(self, tasks: list[SubmittedTask], error: Exception) -> None:
        """Fail the tasks of a lost job."""
        in_flight = [tasks, *(pending.tasks for pending in self._pending.values())]
        for task in tasks:
            lost = self._lost(task, in_flight, error)
            self._landed.append((task.number, -1, failed(lost)))

    def _lost(
        self, task: SubmittedTask, in_flight: list[list[SubmittedTask]], error: Exception
    ) -> WorkerError:
        """Return the error of a lost task."""
        if isinstance(error, WorkerError):
            return error
        others = [other.task.name for tasks in in_flight for other in tasks if other is not task]
        # Its import takes long, and has been done where it matters.
        from concurrent.futures.process import BrokenProcessPool

        is_first = isinstance(error, BrokenProcessPool) and not self._workers.rows
        reason = f"{describe(error)}{_NO_GUARD if is_first else ''}"
        lost = WorkerError(task.task.name, others, reason)
        lost.__cause__ = error
        return lost

    def next(self) -> tuple[int, int, Any]:
        """Wait for a task; return its number, the index of its worker, and its record.

        A number of -1 asks for more tasks: the capacity may have changed.
        """
        batcher = self._batcher
        if not (self._landed or self._is_broken) and batcher.asks_for_more():
            return _NO_TASK
        if batcher.waiting and not (self._landed and batcher.has_room):
            # Tasks wait on only if another job will end, after which they are sent.
            for tasks in batcher.jobs(at_once=self._is_broken or not self._pending):
                self._send(tasks)
        if not self._landed:
            self._wait()
        if not self._landed:
            return _NO_TASK
        self._running -= 1
        return self._landed.popleft()

    def _wait(self) -> None:
        """Wait for a job, and receive its records; after a while ask the executor to check."""
        begun = perf_counter()
        try:
            future, arrived_s = self._done.get(timeout=_PATIENCE_S)
        except Empty:
            self._check()
            return
        finally:
            waited_s = self._report.waited_s or 0.0
            self._report.waited_s = waited_s + perf_counter() - begun
        pending = self._pending.pop(future, None)
        # A job that is not pending has failed as lost already.
        if pending is not None:
            self._receive(pending, future, arrived_s)

    def _check(self) -> None:
        """Fail all jobs if the executor's check raises."""
        try:
            self._executor.check()
        except Exception as error:  # noqa: BLE001  (an engine may raise anything)
            self._is_broken = True
            while self._pending:
                _, pending = self._pending.popitem()
                self._lose(pending.tasks, error)

    def _receive(self, pending: PendingJob, future: Future[JobResult], arrived_s: float) -> None:
        """Receive the records of a job's tasks."""
        try:
            result = future.result()
            if not isinstance(result, JobResult):
                raise TypeError(f"its future holds {short_repr(result)}, not what the job returned")
        except Exception as error:  # noqa: BLE001  (an engine may raise anything)
            self._is_broken = self._is_broken or isinstance(error, BrokenExecutor)
            self._retry_or_lose(pending.tasks, error)
            return
        worker = self._workers.number_of(result.worker)
        self._workers.add_job(worker, pending.sent_s, result.records, arrived_s)
        for task, record in zip(pending.tasks, result.records):
            if result.attempts:
                earlier = self._report.attempts.get(task.number, ())
                self._report.attempts[task.number] = (*earlier, *result.attempts)
            if record.error is None:
                self._batcher.durations.add_task(task.task.name, task.cls, worker, record)
            self._landed.append((task.number, worker, self._opened(task, record)))

    def _retry_or_lose(self, tasks: list[SubmittedTask], error: Exception) -> None:
        """Send the tasks of a lost job one by one, if the executor retries; else fail them."""
        if len(tasks) == 1 or not self._executor.retries or self._is_broken:
            self._lose(tasks, error)
            return
        # One of the tasks may end every worker: alone, the others succeed.
        for task in tasks:
            self._report.attempts[task.number] = (describe(error),)
            self._batcher.add(task._replace(share=1.0))

    def _opened(self, task: SubmittedTask, record: Record) -> Record:
        """Return a record with its error as it was raised, or the outputs that are needed here."""
        if isinstance(record.error, PackedError):
            return record._replace(error=record.error.unpacked())
        for handle in record.frames.values():
            removed_when_unused(handle)
        if task.decode is None or record.error is not None:
            return record
        outputs = {}
        for field, handle in record.frames.items():
            try:
                data = self._executor.fetch(handle)
            except Exception as error:  # noqa: BLE001  (an engine may raise anything)
                return record._replace(error=self._lost(task, [], error))
            try:
                outputs[field] = _decoded(data, task.decode)
            except Exception as error:  # noqa: BLE001  (a serializer may raise anything)
                what = f"task {task.task.name!r}: output {field!r} cannot be decoded here"
                return record._replace(error=unserialized(error, what))
        return record._replace(outputs=outputs)

    def ahead_s(self, worker: int) -> float:
        """Return the current estimate by how many seconds a worker's clock is ahead."""
        return self._workers.ahead_s(worker)

    def end(self) -> RoundReport:
        """Return what only the executor knows of the round."""
        self._report.ahead_s = self._workers.report()
        if self._session.seed is not None and not self._workers.all_alone:
            self._report.legacy_generators = False
        return self._report

    def put(self, frames: object) -> Handle:
        """Return a handle of a value that this process has serialized."""
        whole = FrameList(frames) if type(frames) is list else frames
        return removed_when_unused(self._executor.put(whole))

    def value(self, handle: Handle, decode: Codec) -> Any:
        """Return the value of a handle."""
        return _decoded(self._executor.fetch(handle), decode)

    def close(self) -> None:
        """Cancel pending jobs and close the executor."""
        for future in self._pending:
            future.cancel()
        if self._is_open:
            self._is_open = False
            self._executor.close()


def _decoded(data: Frames | SharedFile, decode: Codec) -> Any:
    return decode(data.frames(decode) if isinstance(data, SharedFile) else data)
