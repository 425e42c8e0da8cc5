"""Jobs: tasks as they are sent to workers, and the errors for what cannot be sent."""

from __future__ import annotations

import gc
import pickle
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from io import BytesIO
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

from dagprofiler.config import Config
from dagprofiler.errors import PackedError, SerializationError, describe, short_repr
from dagprofiler.executors._shared_files import SHARED_FILE_BYTES, SharedFile
from dagprofiler.executors.worker import Worker, beside, end_with, this_worker
from dagprofiler.measure.pipeline import Contract, perform
from dagprofiler.measure.random import Streams, generators_restored
from dagprofiler.serializers import FrameList, PickleSerializer, frames_bytes

if TYPE_CHECKING:
    from dagprofiler.measure.instruments import Instrumentation, Instruments


class JobResult(NamedTuple):
    """The result of a job.

    Attributes
    ----------
    worker
        The worker that ran it; None if unknown.
    record
        The fields of a :class:`~dagprofiler.measure.pipeline.Record`. Its ``frames``
        are the outputs, or the executor's handles of them.
    attempts
        A text for each earlier attempt, in order.
    """

    worker: Worker | None
    record: tuple[Any, ...]
    attempts: tuple[str, ...] = ()


class Session(NamedTuple):
    """What all tasks of one round share.

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
    collects
        Whether a worker collects garbage before its first task of the round.
    folder
        Folder of large outputs; None if they are sent with the record.
    parent
        Id of the process with which the workers end; None if they outlive it.
    """

    key: str
    config: Config
    seed: int | None
    instrumentation: Instrumentation | None
    collects: bool
    folder: str | None
    parent: int | None = None


class _Here(threading.local):
    """The session that this thread works for, and its open instruments."""

    key = ""
    instruments: Instruments | None = None

    def enter(self, session: Session, *, alone: bool) -> None:
        """Prepare for the tasks of a round, unless that is done."""
        if self.key == session.key:
            return
        if session.collects:
            gc.collect()
        if self.instruments is not None:
            self.instruments.close()
        self.key, self.instruments = session.key, None
        if session.instrumentation is not None:
            self.instruments = session.instrumentation.open(alone=alone)


_here = _Here()


def _carry_out(
    session: Session, work: tuple[Any, ...], frames: list[Any], *, alone: bool
) -> tuple[Any, ...]:
    """Perform a task in this thread; return its record."""
    _here.enter(session, alone=alone)
    seed, instruments = session.seed, _here.instruments
    streams = None if seed is None else Streams(seed, legacy=alone)
    with generators_restored() if streams and alone else nullcontext():
        record = perform(work, frames, session.config, streams, instruments, beside=True)
    if instruments is not None:
        instruments.rest()
    return record


class Job:
    """One task, for a worker in this process.

    Call it with the frames of its inputs, in order; it returns the fields
    of a :class:`JobResult` and never raises. A bare tuple pickles in a
    third of the time of a named one.
    """

    __slots__ = ("_session", "_work")

    def __init__(self, session: Session, work: tuple[Any, ...]) -> None:
        self._session = session
        self._work = work

    @property
    def name(self) -> str:
        """The task's name."""
        name: str = self._work[0]
        return name

    def __call__(self, frames: list[Any]) -> tuple[Any, ...]:
        """Perform the task in this thread."""
        worker = this_worker()
        return worker, _carry_out(self._session, self._work, frames, alone=worker[-1]), ()


@dataclass
class PackedJob:
    """One task, for a worker in another process; see :class:`Job`.

    Returns None in a worker that does not have the session yet: then call it again
    :meth:`with_session`. Without `data` it prepares its worker for the tasks of a round.

    Parameters
    ----------
    key
        Key of its session.
    name
        The task's name.
    keep
        Whether the process that drives the run needs all outputs.
    outputs
        Names of the outputs that other tasks need. With `keep` the record holds all
        outputs, else these.
    data
        Pickled: the fields of a :class:`~dagprofiler.measure.pipeline.Work` after the
        name; its contract is bytes if many tasks share it.
    session
        The pickled fields of the session, for a worker that does not have it.
    limit_s
        Time limit of the task, in seconds; None for none.
    """

    key: str
    name: str
    keep: bool
    outputs: list[str]
    data: bytes
    session: bytes | None = None
    limit_s: float | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # Half as long as with the names of the fields, as pickle does it.
        return PackedJob, tuple(vars(self).values())

    def with_session(self, session: bytes, limit_s: float | None = None) -> PackedJob:
        """Return this job with the pickled session, for a worker that does not have it.

        A job with a time limit always has it.
        """
        return replace(self, session=session, limit_s=limit_s)

    def __call__(self, frames: list[Any]) -> tuple[Any, ...] | None:
        """Perform the task in this thread, or in the process beside it if it has a time limit.

        Returns None without its session.
        """
        if self.limit_s is None:
            return self.perform(frames)
        # So that this worker ends with the driver, too; the process beside it reports failures.
        with suppress(Exception):
            _known_session(self.key, self.session)
        outcome: tuple[Any, ...] | Exception | None
        worker, outcome = beside.perform(self, frames, self.limit_s)
        if isinstance(outcome, Exception):
            return worker, without_phases(PackedError(outcome)), ()
        return outcome

    def perform(self, frames: list[Any]) -> tuple[Any, ...] | None:
        """Perform the task in this thread; return None without its session."""
        worker = this_worker()
        try:
            session = _known_session(self.key, self.session)
            if session is None:
                return None
            if not self.data:
                _here.enter(session, alone=worker[-1])
                return worker, without_phases(), ()
            task, sent, inputs, decoders = pickle.loads(self.data)
            task.config = session.config
            contract = _unpickled(sent) if type(sent) is bytes else sent
            work = self.name, task, contract, inputs, decoders, self.keep
            frames = [
                data.frames(decode) if type(data) is SharedFile else data
                for data, decode in zip(frames, decoders)
            ]
        except Exception as error:  # noqa: BLE001  (modules of users are imported here)
            problem = SerializationError(
                f"task {short_repr(self.name)} and its inputs cannot be read by a worker: "
                f"{describe(error)}; its modules must be importable, and files of large inputs "
                "readable there"
            )
            problem.__cause__ = error
            return worker, without_phases(PackedError(problem)), ()
        record = _carry_out(session, work, frames, alone=worker[-1])
        times, payload, wire, encoded, _, failure, readings, spans = record
        if failure is not None:
            return worker, (times, {}, {}, {}, None, PackedError(failure), readings, spans), ()
        fields = encoded if self.keep else self.outputs
        leaving = {field: _leaving(encoded[field], session.folder) for field in fields}
        return worker, (times, payload, wire, leaving, None, None, readings, spans), ()


class Batch:
    """Several jobs as one, which an executor cannot tell from a single task's.

    Its inputs are those of its tasks, one after the other. Its outputs are those of its tasks
    as well, each named by the position of its task and its field.

    Parameters
    ----------
    jobs
        The jobs of its tasks.
    counts
        How many inputs each of them has.
    """

    __slots__ = ("_counts", "_jobs")

    #: Small outputs return with the record, as those that the driving process needs.
    keep = True

    def __init__(self, jobs: Sequence[PackedJob], counts: Sequence[int]) -> None:
        self._jobs = jobs
        self._counts = counts

    def __reduce__(self) -> tuple[Any, ...]:
        return Batch, (self._jobs, self._counts)

    @property
    def name(self) -> str:
        """The first task's name, and the number of the others."""
        return f"{self._jobs[0].name} and {len(self._jobs) - 1} more"

    @property
    def outputs(self) -> list[tuple[int, str]]:
        """The outputs that other tasks need."""
        return [(k, field) for k, job in enumerate(self._jobs) for field in job.outputs]

    def with_session(self, session: bytes) -> Batch:
        """Return this batch with the pickled session, for a worker that does not have it."""
        first, *others = self._jobs
        return Batch([first.with_session(session), *others], self._counts)

    def __call__(self, frames: list[Any]) -> tuple[Any, ...] | None:
        """Perform the tasks one after the other; return None without their session.

        The record has the outputs of all; what else there is of each is in its readings.
        """
        worker, begin = None, 0
        sizes, encoded, rest = {}, {}, []
        for k, (job, count) in enumerate(zip(self._jobs, self._counts)):
            outcome = job(frames[begin : begin + count])
            if outcome is None:
                return None
            begin += count
            worker, record, _ = outcome
            times, payload, wire, leaving, outputs, error, readings, spans = record
            for field, data in leaving.items():
                sizes[k, field] = wire[field]
                encoded[k, field] = data
            rest.append((times, payload, wire, outputs, error, readings, spans))
        return worker, ((None,) * 6, {}, sizes, encoded, None, None, rest, None), ()

    @staticmethod
    def records(record: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        """Yield the record of each task, by that of the batch."""
        handles: list[dict[str, Any]] = [{} for _ in record[6]]
        for (k, field), handle in record[3].items():
            handles[k][field] = handle
        for frames, (times, payload, wire, *others) in zip(handles, record[6]):
            yield times, payload, wire, frames, *others


def without_phases(error: BaseException | PackedError | None = None) -> tuple[Any, ...]:
    """Return the record of a task that failed before its first phase, or of no task at all."""
    return (None,) * 6, {}, {}, {}, None, error, None, None


def _leaving(frames: Any, folder: str | None) -> Any:
    """Return frames as a worker sends them."""
    if folder is not None and frames_bytes(frames) >= SHARED_FILE_BYTES:
        # Without room for a file it is sent like a small value.
        with suppress(OSError):
            return SharedFile.of(frames, folder)
    return FrameList(frames) if type(frames) is list else frames


#: What this process has unpickled for its latest session, by the pickles.
_values: dict[bytes, Any] = {}


def _unpickled(packed: bytes) -> Any:
    """Return the value of a pickle that many tasks of a session share."""
    value = _values.get(packed)
    if value is None:
        value = _values[packed] = pickle.loads(packed)
    return value


#: The most recent sessions of this process, by key.
_sessions: dict[str, Session] = {}
_SESSIONS = 8


#: Announced sessions, pickled, by key.
_announced: dict[str, bytes] = {}


def announce(key: str, session: bytes) -> None:
    """Tell this process, a worker's, of a session: jobs need not be sent twice for it.

    Parameters
    ----------
    key, session
        As in :meth:`Executor.announce <dagprofiler.executors.Executor.announce>`.
    """
    _announced[key] = session


def withdraw(key: str) -> None:
    """Undo :func:`announce`."""
    _announced.pop(key, None)


def _known_session(key: str, packed: bytes | None) -> Session | None:
    session = _sessions.get(key)
    if session is None:
        packed = packed or _announced.get(key)
    if session is None and packed is not None:
        session = Session(*pickle.loads(packed))
        if session.parent is not None:
            end_with(session.parent)
        for old in list(_sessions)[: 1 - _SESSIONS]:
            _sessions.pop(old, None)
        # Classes that travelled by value may have changed since the last round.
        _values.clear()
        _sessions[key] = session
    return session


class _ByValue(pickle.Pickler):
    """Pickles classes and functions of the main program as what `once` returns of them."""

    once: Callable[[Any, Any], bytes]

    def reducer_override(self, value: Any) -> Any:
        """Return how to unpickle such a class or function; pickle decides for other values."""
        if isinstance(value, (type, FunctionType)) and value.__module__ == "__main__":
            return _unpickled, (self.once(value, _cloudpickle()),)
        return NotImplemented


class JobPickler:
    """Pickles the sessions and the tasks of a run.

    Parameters
    ----------
    by_value
        Whether to pickle classes and functions of the main program by value, once each; pickle
        does it by name.

    Notes
    -----
    Uses cloudpickle, if it is installed, for what pickle cannot do.
    """

    def __init__(self, *, by_value: bool) -> None:
        self._by_value = by_value and _cloudpickle() is not None
        #: Contracts, classes and functions with their pickles, by id, which the reference keeps.
        self._shared: dict[int, tuple[Any, bytes]] = {}

    def session(self, session: Session) -> bytes:
        """Return a session in bytes.

        Raises
        ------
        SerializationError
            If it cannot be pickled; it names the parameter, or else the meters.
        """
        try:
            return self._pack(tuple(session))
        except Exception as error:
            culprit = self._culprit(dict(session.config))
            which = "the meters" if culprit is None else f"config: parameter {short_repr(culprit)}"
            raise _refused(which, error) from error

    def job(self, key: str, work: tuple[Any, ...], outputs: list[str]) -> PackedJob:
        """Return a task as a job for another process.

        Parameters
        ----------
        key
            Key of its session.
        work
            The fields of a :class:`~dagprofiler.measure.pipeline.Work`.
        outputs
            Names of the outputs that other tasks need.

        Raises
        ------
        SerializationError
            If the task cannot be pickled; it names the task, and its attribute.
        """
        name, task, contract, inputs, decoders, keep = work
        config = task.config
        try:
            # The worker takes it from the session.
            task.config = None
            data = self._pack((task, self._contract(contract), inputs, decoders))
        except Exception as error:
            culprit = self._culprit({**task.bound, **vars(task)})
            what = "bound argument" if culprit in task.bound else "attribute"
            attribute = "" if culprit is None else f": its {what} {short_repr(culprit)}"
            raise _refused(f"task {short_repr(name)}{attribute}", error) from error
        finally:
            task.config = config
        return PackedJob(key, name, keep, outputs, data)

    def _contract(self, contract: Contract) -> Contract | bytes:
        """Return a contract as bytes; unchanged if it may reference its task."""
        if contract.encode is not PickleSerializer.dumps:
            return contract
        return self._once(contract, self._pack)

    def _once(self, value: Any, dumps: Callable[[Any], bytes]) -> bytes:
        known = self._shared.get(id(value))
        if known is None:
            known = self._shared[id(value)] = value, dumps(value)
        return known[1]

    def _pack(self, value: Any) -> bytes:
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

    def _culprit(self, parts: Mapping[str, Any]) -> str | None:
        """Return the name of the first value that cannot be pickled; None if all can."""
        for name, value in parts.items():
            try:
                self._pack(value)
            except Exception:  # noqa: BLE001  (what a value's own __reduce__ raises)
                return name
        return None


def _cloudpickle() -> Callable[[Any], bytes] | None:
    try:
        import cloudpickle
    except ImportError:
        return None
    dumps: Callable[[Any], bytes] = cloudpickle.dumps
    return dumps


def _refused(which: str, error: Exception) -> SerializationError:
    hint = ""
    if isinstance(error, (pickle.PicklingError, AttributeError)) and _cloudpickle() is None:
        # Pickle raises these if it cannot find a function or a class by its name.
        hint = '; define it at the top of a module, or pip install "dagprofiler[cloudpickle]"'
    return SerializationError(f"{which} cannot be sent to a worker: {describe(error)}{hint}")
