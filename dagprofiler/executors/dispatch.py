"""Dispatcher: between the run loop and an executor, whose jobs run beside each other."""

from __future__ import annotations

import os
from itertools import islice
from math import inf
from queue import Empty, SimpleQueue
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from dagprofiler.errors import PackedError, SerializationError, WorkerError, describe, short_repr
from dagprofiler.executors import RoundReport
from dagprofiler.executors._shared_files import OwnedFiles, SharedFile
from dagprofiler.executors.jobs import Job, JobPickler, JobResult, Session, Worker, failed
from dagprofiler.measure.machine import clock_domain
from dagprofiler.serializers import FrameList

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from dagprofiler.config import Config
    from dagprofiler.executors import Executor
    from dagprofiler.graph.wiring import Wiring
    from dagprofiler.measure.instruments import Instrumentation
    from dagprofiler.measure.pipeline import Codec


class Clocks:
    """How far the clocks of workers are ahead of this process's, as far as tasks show.

    A task cannot start before it was sent, nor can its record arrive before it
    ended. So each one narrows down how far its worker's clock is ahead, and no
    message beside them is needed.

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
    round trips; drift within a round is taken as nothing.
    """

    def __init__(self, own: str) -> None:
        self.own = own
        #: Clock domain to the least and the most, in seconds.
        self._bounds: dict[str, tuple[float, float]] = {own: (0.0, 0.0)}

    def note(
        self, domain: str, sent_s: float, times: Sequence[float | None], arrived_s: float
    ) -> None:
        """Take note of a task.

        Parameters
        ----------
        domain
            That of its worker's clock.
        sent_s, arrived_s
            When it was sent and when its record arrived, by this process's clock.
        times
            The readings of the worker's clock, in order; None for what was not reached.
        """
        known = [moment for moment in times if moment is not None]
        if domain != self.own and known:
            least, most = self._bounds.get(domain, (-inf, inf))
            self._bounds[domain] = max(least, known[-1] - arrived_s), min(most, known[0] - sent_s)

    def ahead_s(self, domain: str) -> float:
        """Return how many seconds a clock is ahead; 0 of one that no task has shown."""
        least, most = self._bounds.get(domain, (0.0, 0.0))
        return (least + most) / 2

    def error_s(self, domain: str) -> float:
        """Return by how many seconds :meth:`ahead_s` can be wrong."""
        least, most = self._bounds.get(domain, (0.0, 0.0))
        # Where drift has made them cross, what they are apart is the error.
        return abs(most - least) / 2


#: How long nothing may come back before the executor is asked whether anything still can.
_PATIENCE_S = 1.0


class _PendingJob(NamedTuple):
    """A job that is under way.

    Attributes
    ----------
    number, name
        Of its task.
    job
        What was submitted.
    handles
        Of its inputs: kept until the job is done, as what they stand for is.
    decode
        Decoder of its outputs, if they are wanted in this process.
    sent_s
        When it was submitted.
    has_session
        Whether it brings the session with it.
    """

    number: int
    name: str
    job: Any
    handles: list[Any]
    decode: Callable[[Any], Any] | None
    sent_s: float
    has_session: bool


class Dispatcher:
    """Hands tasks to an executor as jobs, and takes their records as they arrive.

    For the run loop it has the shape of
    :class:`~dagprofiler.executors.serial.SerialExecutor`.

    Parameters
    ----------
    executor
        Where jobs run.
    config, seed
        Of the run.
    collects
        Whether workers collect garbage before each round.
    timeout_s
        How long a task may take; None for any time.
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
        self.workers: list[dict[str, Any]] = []
        self._executor = executor
        self._config = config
        self._seed = seed
        self._collects = collects
        self._timeout_s = timeout_s
        self._numbers: dict[Worker, int] = {}
        #: Clock domain of each worker.
        self._domains: list[str] = []
        self._clocks = Clocks(clock_domain())
        self._round = 0
        self._open = self._broken = False
        self._wiring: Wiring
        self._session: Session
        #: What packs jobs; None where they run in this process.
        self._pickler = None if executor.shares_memory else JobPickler(by_value=executor.by_value)
        self._packed_session = b""
        self._pending: dict[Any, _PendingJob] = {}
        self._owned = OwnedFiles()
        #: What has come back, and when; an error instead of a future for what never left.
        self._done: SimpleQueue[tuple[Any, float]] = SimpleQueue()
        self._attempts: dict[int, tuple[str, ...]] = {}
        self._waited_s = 0.0

    @property
    def capacity(self) -> int:
        """How many tasks it takes at once."""
        return 0 if self._broken else self._executor.capacity

    def begin(self, instrumentation: Instrumentation | None, wiring: Wiring) -> None:
        """Begin a round whose tasks are measured by these instruments, or by none.

        The wiring says what outputs somebody needs.
        """
        self._wiring = wiring
        if not self._open:
            self._open = True
            self._executor.on_capacity = self._look_again
            self._executor.open(self._timeout_s)
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
            self._executor.announce(self._session.key, self._packed_session)

    def submit(self, number: int, work: tuple[Any, ...], handles: list[Any]) -> None:
        """Take task number `number` over; `handles` stand for its inputs, in the order of the work.

        A task that cannot travel comes back at once, as one that failed.
        """
        name, task, contract, inputs, decoders, keep = work
        # As many as there are inputs: they may go on without end.
        work = name, task, contract, inputs, [*islice(decoders, len(handles))], keep
        job: Any
        if self._pickler is None:
            job, decode = Job(self._session, work), None
        else:
            try:
                job = self._pickler.job(self._session.key, work, self._wiring.wanted(number))
            except SerializationError as error:
                self._fail(number, error)
                return
            decode = contract.decode if keep else None
        has_session = self._pickler is None
        self._send(_PendingJob(number, name, job, handles, decode, perf_counter(), has_session))

    def _send(self, pending: _PendingJob) -> None:
        try:
            # A copy, since a job in this process empties the list.
            future = self._executor.submit(pending.job, [*pending.handles])
            future.add_done_callback(self._arrived)
        except Exception as error:  # noqa: BLE001  (an engine may raise anything)
            self._broken = True
            self._fail(pending.number, self._lost(pending.name, error))
            return
        self._pending[future] = pending

    def _arrived(self, future: Future[JobResult]) -> None:
        """Take note of a job that is done, in whatever thread the executor says so."""
        self._done.put((future, perf_counter()))

    def _fail(self, number: int, error: BaseException) -> None:
        """Let a task that never left come back as one that failed."""
        self._done.put(((number, -1, failed(error)), 0.0))

    def _lost(self, name: str, error: Exception) -> BaseException:
        if isinstance(error, WorkerError):
            return error
        lost = WorkerError(
            name, [pending.name for pending in self._pending.values()], describe(error)
        )
        lost.__cause__ = error
        return lost

    def _look_again(self) -> None:
        """Let :meth:`next` return, in whatever thread the executor says so."""
        self._done.put(((-1, -1, ()), 0.0))

    def next(self) -> tuple[int, int, tuple[Any, ...]]:
        """Wait for a task; return its number, the index of its worker, and its record.

        The number is -1 if it is the capacity that has changed.
        """
        self._owned.tidy()
        while True:
            begun = perf_counter()
            try:
                future, arrived_s = self._done.get(timeout=_PATIENCE_S)
            except Empty:
                self._check()
                continue
            finally:
                self._waited_s += perf_counter() - begun
            if type(future) is tuple:
                return future
            pending = self._pending.pop(future, None)
            if pending is None:
                # It was given up before.
                continue
            try:
                outcome: Any = future.result()
            except Exception as error:  # noqa: BLE001  (the same)
                self._broken = self._broken or _is_broken(error)
                return pending.number, -1, failed(self._lost(pending.name, error))
            if isinstance(outcome, tuple):
                return self._landed(pending, outcome, arrived_s)
            if outcome is not None or pending.has_session:
                strange = TypeError(
                    f"its future holds {short_repr(outcome)}, not what the job returned"
                )
                return pending.number, -1, failed(self._lost(pending.name, strange))
            job = pending.job.with_session(self._packed_session)
            self._send(pending._replace(job=job, has_session=True))

    def _check(self) -> None:
        """Give all jobs up if the executor says that none will come back."""
        try:
            self._executor.check()
        except Exception as error:  # noqa: BLE001  (the same)
            self._broken = True
            while self._pending:
                _, pending = self._pending.popitem()
                self._fail(pending.number, self._lost(pending.name, error))

    def _landed(
        self, pending: _PendingJob, outcome: tuple[Any, ...], arrived_s: float
    ) -> tuple[int, int, tuple[Any, ...]]:
        number = pending.number
        worker, record, attempts = outcome
        if attempts:
            self._attempts[number] = attempts
        if worker is None:
            return number, -1, record
        index = self._numbers.get(worker)
        if index is None:
            index = self._introduced(Worker(*worker))
        times, payload, wire, frames, outputs, error, readings, spans = record
        if self._domains[index] != self._clocks.own:
            self._clocks.note(worker[3], pending.sent_s, times, arrived_s)
        if error is not None:
            if isinstance(error, PackedError):
                error = error.unpacked()
            return number, index, (times, payload, wire, frames, outputs, error, readings, spans)
        if self._session.folder is not None:
            for data in frames.values():
                if type(data) is SharedFile:
                    self._owned.add(data)
        if pending.decode is not None:
            try:
                outputs = self._opened(pending.name, frames, pending.decode)
            except (SerializationError, WorkerError) as problem:
                error = problem
        return number, index, (times, payload, wire, frames, outputs, error, readings, spans)

    def _introduced(self, worker: Worker) -> int:
        """Return the number of a worker that has not been seen before."""
        index = self._numbers[worker] = len(self.workers)
        self._domains.append(worker.clock)
        self.workers.append({"host": worker.host, "pid": worker.pid, "thread": worker.thread})
        return index

    def _opened(
        self, name: str, frames: dict[str, Any], decode: Callable[[Any], Any]
    ) -> dict[str, Any]:
        """Return the values that the handles of a task's outputs stand for."""
        outputs = {}
        for field, handle in frames.items():
            try:
                data = self._executor.fetch(handle)
            except Exception as error:
                raise self._lost(name, error) from error
            try:
                outputs[field] = _decoded(data, decode)
            except Exception as error:
                where = f"task {name!r}: output {field!r} cannot be decoded here"
                raise SerializationError(f"{where}: {describe(error)}") from error
        return outputs

    def ahead_s(self, worker: int) -> float:
        """Return how many seconds a worker's clock is ahead of this process's, as known so far."""
        return 0.0 if worker < 0 else self._clocks.ahead_s(self._domains[worker])

    def end(self) -> RoundReport:
        """Return what only the executor knows of the round."""
        clocks = self._clocks
        for domain, one in zip(self._domains, self.workers):
            if domain != clock_domain():
                one["clock_ahead_ms"] = round(clocks.ahead_s(domain) * 1e3, 6)
                one["clock_error_ms"] = round(clocks.error_s(domain) * 1e3, 6)
        shared = self._seed is not None and not all(worker.alone for worker in self._numbers)
        return RoundReport(
            waited_s=self._waited_s,
            attempts=self._attempts,
            legacy_generators=False if shared else None,
            ahead_s=[clocks.ahead_s(domain) for domain in self._domains],
        )

    def recall(self, worker: dict[str, Any]) -> int:
        """Return the number of a worker that an earlier attempt at this run had.

        Readings of its clock have been brought to this process's.
        """
        if worker not in self.workers:
            self.workers.append(worker)
            self._domains.append(clock_domain())
        return self.workers.index(worker)

    def put(self, frames: Any) -> Any:
        """Return a handle of a value that this process has serialized."""
        return self._executor.put(FrameList(frames) if type(frames) is list else frames)

    def value(self, handle: Any, decode: Codec) -> Any:
        """Return the value that a handle stands for."""
        return _decoded(self._executor.fetch(handle), decode)

    def close(self) -> None:
        """Take nothing back any more: what has not begun never will."""
        for future in self._pending:
            future.cancel()
        if self._open:
            self._open = False
            self._executor.on_capacity = None
            self._executor.close()


def _decoded(data: Any, decode: Codec) -> Any:
    return decode(data.frames(decode) if type(data) is SharedFile else data)


def _is_broken(error: Exception) -> bool:
    """Tell whether an executor that says so takes nothing any more."""
    from concurrent.futures import BrokenExecutor

    return isinstance(error, BrokenExecutor)
