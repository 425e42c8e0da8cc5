"""Jobs: tasks as they are sent to workers, and the errors for what cannot be sent."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from io import BytesIO
from itertools import islice
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple, Union

from dagprofiler._util import Values
from dagprofiler.config import Config
from dagprofiler.errors import PackedError, SerializationError, describe, short_repr
from dagprofiler.executors._shared_files import SHARED_FILE_BYTES, SharedFile, in_file_if_large
from dagprofiler.executors.worker import Worker, end_with, this_worker, time_limit_process
from dagprofiler.measure.pipeline import Record, RecordFields, Times, Work, perform, unserialized
from dagprofiler.serializers import Handle, PickleSerializer

if TYPE_CHECKING:
    from dagprofiler.measure.instruments import Instrumentation, Instruments


class Session(NamedTuple):
    """What all tasks of one round share: the first input of each of its jobs.

    Attributes
    ----------
    key
        Unique in all processes.
    config
        Parameters of the run.
    seed
        Seed of the run, or None.
    instrumentation
        What is measured in addition to the phases; None for nothing.
    folder
        Folder of large outputs; None if they are sent with the record.
    parent
        Id of the process with which the workers end; None if they outlive it.
    """

    key: str
    config: Config
    seed: int | None
    instrumentation: Instrumentation | None
    folder: str | None
    parent: int | None = None


class JobTask(NamedTuple):
    """One task of a job.

    Attributes
    ----------
    name
        Its name in the DAG.
    call
        A :data:`~dagprofiler.measure.pipeline.Work`; for a worker in another
        process a pickle of the fields that the job does not hold.
    inputs
        How many inputs it has.
    outputs
        Names of the outputs that other tasks need.
    returns_outputs
        Whether the process that drives the run needs all outputs.
    """

    name: str
    call: Work | bytes
    inputs: int
    outputs: list[str]
    returns_outputs: bool


@dataclass
class JobResult:
    """The result of a job.

    Attributes
    ----------
    worker
        The worker that ran it.
    records
        The record of each of its tasks, in their order. Its ``frames`` are the outputs that are
        needed, or the executor's handles of them.
    attempts
        A text for each earlier attempt, in order.
    """

    worker: Worker
    records: list[Record]
    attempts: tuple[str, ...] = ()

    def __reduce__(self) -> tuple[object, ...]:
        # Bare tuples pickle in a third of the time of named ones.
        return _result_of, (self.worker, [tuple(record) for record in self.records], self.attempts)

    def replace(self, handle: Callable[[int, str, Handle], Handle]) -> JobResult:
        """Return it with other handles of the outputs.

        Parameters
        ----------
        handle
            Called with the position of a task in the job, the name of an output, and its value
            or handle, returns the handle to put in its place.
        """
        records = [
            record._replace(
                frames={field: handle(k, field, data) for field, data in record.frames.items()}
            )
            for k, record in enumerate(self.records)
        ]
        return JobResult(self.worker, records, self.attempts)


def _result_of(worker: Worker, records: list[RecordFields], attempts: tuple[str, ...]) -> JobResult:
    return JobResult(worker, [Record(*fields) for fields in records], attempts)


def failed(error: BaseException | PackedError, times: Times = (None,) * 6) -> Record:
    """Return the record of a task that failed; without `times`, before its first phase."""
    return Record(times, {}, {}, {}, None, error, None, None)  # type: ignore[arg-type]


@dataclass
class Job:
    """One task, or several short ones, which a worker performs one after the other.

    Called with its inputs, first the session and then those of each task, it returns a
    :class:`JobResult`. It never raises.

    Attributes
    ----------
    key
        Key of its session.
    tasks
        Its tasks, at least one.
    limit_s
        Time limit of its only task, in seconds; None for none.
    """

    key: str
    tasks: list[JobTask]
    limit_s: float | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return _job_of, (self.key, [tuple(task) for task in self.tasks], self.limit_s)

    @property
    def name(self) -> str:
        """The first task's name, and the number of the others."""
        first, others = self.tasks[0].name, len(self.tasks) - 1
        return f"{first} and {others} more" if others else first

    @property
    def outputs(self) -> list[tuple[int, str]]:
        """The outputs that other tasks need: the position of the task, and the field."""
        return [(k, field) for k, task in enumerate(self.tasks) for field in task.outputs]

    def __call__(self, inputs: list[Any]) -> JobResult:
        """Perform the tasks in this thread, or in its process for tasks with a time limit."""
        if self.limit_s is None:
            return self.perform(inputs)
        # This worker must end with the driver, too; the other process reports failures.
        with suppress(Exception):
            _session_of(self.key, inputs[0])
        worker, outcome = time_limit_process.call(self.perform, inputs, self.limit_s, self.name)
        if isinstance(outcome, Exception):
            return JobResult(worker, [failed(PackedError(outcome))])
        return outcome

    def perform(self, inputs: list[Any]) -> JobResult:
        """Perform the tasks in this thread."""
        worker = this_worker()
        session, *others = inputs
        frames = iter(others)
        records = [
            _record_of(task, self.key, session, [*islice(frames, task.inputs)], alone=worker.alone)
            for task in self.tasks
        ]
        return JobResult(worker, records)


def _job_of(key: str, tasks: list[tuple[Any, ...]], limit_s: float | None) -> Job:
    return Job(key, [JobTask(*fields) for fields in tasks], limit_s)


def _record_of(
    task: JobTask, key: str, packed: PackedSession, frames: list[Any], *, alone: bool
) -> Record:
    """Perform a task in this thread, and return its record as it is sent.

    Parameters
    ----------
    task
        The task.
    key, packed
        The key of its session, and the session as the job has got it.
    frames
        Its inputs.
    alone
        Whether no other task runs in this process.
    """
    _thread_state.reads = True
    try:
        session = _session_of(key, packed)
        call = _call_of(task, session)
        _, _, _, _, decoders, _ = call
        frames = [
            data.frames(decode) if isinstance(data, SharedFile) else data
            for data, decode in zip(frames, decoders)
        ]
    except Exception as error:  # noqa: BLE001  (modules of users are imported here)
        what = f"task {task.name!r} and its inputs cannot be read by a worker"
        hint = "; its modules must be importable, and files of large inputs readable there"
        return failed(PackedError(unserialized(error, what, hint)))
    finally:
        _thread_state.reads = False
    instruments = _thread_state.enter(session, alone=alone)
    streams = None
    restored: AbstractContextManager[None] = nullcontext()
    if session.seed is not None:
        from dagprofiler.measure.random import Streams, generators_restored

        streams = Streams(session.seed, legacy=alone)
        if alone:
            restored = generators_restored()
    with restored:
        fields = perform(call, frames, session.config, streams, instruments, beside=True)
    if instruments is not None:
        instruments.rest()
    # Threads of the process that drives the run hand it over as it is.
    return Record(*fields) if session is packed else _sent(fields, task, session)


def _call_of(task: JobTask, session: Session) -> Work:
    """Return the work of a task, as :func:`perform` takes it."""
    call = task.call
    if isinstance(call, bytes):
        computes, contract, inputs, decoders = pickle.loads(call)
        computes.config = session.config
        if isinstance(contract, bytes):
            contract = _unpickled(contract)
        call = task.name, computes, contract, inputs, decoders, task.returns_outputs
    return call


def _sent(fields: RecordFields, task: JobTask, session: Session) -> Record:
    """Return the record of a task as it is sent to another process."""
    times, payload_bytes, wire_bytes, encoded, _, error, readings, spans = fields
    if error is not None:
        return failed(PackedError(error), times)._replace(spans=spans)
    frames = {
        field: in_file_if_large(encoded[field], session.folder, SHARED_FILE_BYTES)
        for field in (encoded if task.returns_outputs else task.outputs)
    }
    return Record(times, payload_bytes, wire_bytes, frames, None, None, readings, spans)


class _ThreadState(threading.local):
    """The session that this thread works for, and its open instruments."""

    key = ""
    instruments: Instruments | None = None
    #: Whether it reads a task, which may import modules of users.
    reads = False

    def enter(self, session: Session, *, alone: bool) -> Instruments | None:
        """Return the instruments of a session, and close those of the one before."""
        if self.key != session.key:
            if self.instruments is not None:
                self.instruments.close()
            self.key, self.instruments = session.key, None
            if session.instrumentation is not None:
                self.instruments = session.instrumentation.open(alone=alone)
        return self.instruments


_thread_state = _ThreadState()


def reads_a_task() -> bool:
    """Tell whether this thread is a worker that reads a task, and imports what that needs."""
    return _thread_state.reads


#: Pickle to its value, for the latest session of this process.
_values: dict[bytes, Any] = {}


def _unpickled(packed: bytes) -> Any:
    """Return the value of a pickle that many tasks of a session share."""
    value = _values.get(packed)
    if value is None:
        value = _values[packed] = pickle.loads(packed)
    return value


#: A session as a job has got it.
PackedSession = Union[Session, SharedFile, bytes]

#: The most recent sessions of this process, by key.
_sessions: dict[str, Session] = {}
_SESSIONS = 8


def _session_of(key: str, packed: PackedSession) -> Session:
    """Return the session of this key, which a job has got as its first input."""
    if isinstance(packed, Session):
        return packed
    session = _sessions.get(key)
    if session is None:
        data = packed.frames(pickle.loads) if isinstance(packed, SharedFile) else packed
        session = pickle.loads(data)
        if session.parent is not None:
            end_with(session.parent)
        for old in list(_sessions)[: 1 - _SESSIONS]:
            _sessions.pop(old, None)
        # Classes that travelled by value may have changed since the last round.
        _values.clear()
        _sessions[key] = session
    return session


class _ByValue(pickle.Pickler):
    """Pickles each class and function of the main program by the pickle that `once` makes of it."""

    once: Callable[[object, Any], bytes]

    def reducer_override(self, value: object) -> Any:
        """Return how to unpickle such a class or function; pickle decides for other values."""
        if isinstance(value, (type, FunctionType)) and value.__module__ == "__main__":
            return _unpickled, (self.once(value, _cloudpickle()),)
        return NotImplemented


class JobMaker:
    """Makes the sessions and the tasks of a run ready for their way to workers.

    Parameters
    ----------
    pickles
        Whether workers are other processes; if not, all is passed as it is.
    by_value
        Whether to pickle classes and functions of the main program by value, once each; pickle
        does it by name.

    Notes
    -----
    Uses cloudpickle, if it is installed, for what pickle cannot do.
    """

    def __init__(self, *, pickles: bool, by_value: bool) -> None:
        self._pickles = pickles
        self._by_value = by_value and _cloudpickle() is not None
        #: Id of a contract, class or function to itself, which keeps the id, and to its pickle.
        self._shared: dict[int, tuple[object, bytes]] = {}

    def session(self, session: Session) -> Session | bytes:
        """Return a session as the first input of jobs.

        Raises
        ------
        SerializationError
            If it cannot be pickled; it names the parameter of the config.
        """
        if not self._pickles:
            return session
        try:
            return self._pack(session)
        except Exception as error:
            raise self._refused("config or meters", dict(session.config), error) from error

    def task(self, call: Work, outputs: list[str]) -> JobTask:
        """Return a task for a job.

        Parameters
        ----------
        call
            What it is to do.
        outputs
            Names of the outputs that other tasks need.

        Raises
        ------
        SerializationError
            If the task cannot be pickled; it names the task, and its attribute.
        """
        name, _, _, inputs, _, returns_outputs = call
        packed = self._packed_call(call) if self._pickles else call
        return JobTask(name, packed, len(inputs), outputs, returns_outputs)

    def _packed_call(self, call: Work) -> bytes:
        name, task, contract, inputs, decoders, _ = call
        config = task.config
        try:
            # The worker takes it from the session.
            task.config = None
            # Other contracts may reference their task.
            is_shared = contract.encode is PickleSerializer.dumps
            packed = self._once(contract, self._pack) if is_shared else contract
            return self._pack((task, packed, inputs, decoders))
        except Exception as error:
            parts = {**task.bound, **vars(task)}
            raise self._refused(f"task {name!r}", parts, error) from error
        finally:
            task.config = config

    def _once(self, value: object, dumps: Callable[[object], bytes]) -> bytes:
        if id(value) not in self._shared:
            self._shared[id(value)] = value, dumps(value)
        return self._shared[id(value)][1]

    def _pack(self, value: object) -> bytes:
        try:
            data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        except Exception:
            dumps = _cloudpickle()
            if dumps is None:
                raise
            return dumps(value)
        if not (self._by_value and b"__main__" in data):
            return data
        file = BytesIO()
        pickler = _ByValue(file, pickle.HIGHEST_PROTOCOL)
        pickler.once = self._once
        pickler.dump(value)
        return file.getvalue()

    def _refused(self, what: str, parts: Values, error: Exception) -> SerializationError:
        """Return the error for a value that cannot be pickled; it names the first such part."""
        for name, part in parts.items():
            try:
                self._pack(part)
            except Exception:  # noqa: BLE001  (what a value's own __reduce__ raises)
                what = f"{what}: {short_repr(name)}"
                break
        hint = ""
        if isinstance(error, (pickle.PicklingError, AttributeError)) and _cloudpickle() is None:
            # Pickle raises these if it cannot find a function or a class by its name.
            hint = '; define it at the top of a module, or pip install "dagprofiler[cloudpickle]"'
        return SerializationError(f"{what} cannot be sent to a worker: {describe(error)}{hint}")


def _cloudpickle() -> Callable[[object], bytes] | None:
    try:
        import cloudpickle
    except ImportError:
        return None
    dumps: Callable[[object], bytes] = cloudpickle.dumps
    return dumps
