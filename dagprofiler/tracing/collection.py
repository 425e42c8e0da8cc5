"""Collections: spans that are kept in memory instead of the trace file, as those of tasks are.

The tasks of one thread share one collection, each until it ends. Packed spans are sent with the
task's record: a span takes 20 bytes, and names and arguments are in tables. A task without spans
costs only setting its worker's flag ``busy``; a span finds the worker by its thread or by its
context.
"""

from __future__ import annotations

import os
import threading
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from threading import get_ident
from typing import Any, NamedTuple

from dagprofiler._util.interpreter import TaskThread, here, recording, workers
from dagprofiler.errors import TraceError
from dagprofiler.tracing._process import note, recorder, switch
from dagprofiler.tracing._recording import Buffer, Kind, Label, Sink, state
from dagprofiler.tracing.functions import FunctionCollector

#: How many spans of each thread of a task are kept in a round.
SPANS_OF_A_TASK = 100_000


class Packed(NamedTuple):
    """Recorded spans in a form that is small and pickles.

    Attributes
    ----------
    labels
        Kind, name and category of each label.
    threads
        For each recording thread the system's number, its name, and whether it opened
        the collection.
    of_label, of_thread
        For each span the number of its label and of its thread.
    times
        For each span its start and its end, in seconds of ``perf_counter``.
    args
        Number of a span to its arguments; most have none.
    ids
        Number of an asynchronous span to its id.
    dropped
        How many spans exceeded the limit.
    """

    labels: tuple[tuple[Kind, str, str], ...]
    threads: tuple[tuple[int, str, bool], ...]
    of_label: array[int]
    of_thread: array[int]
    times: array[float]
    args: dict[int, dict[str, Any]]
    ids: dict[int, int | str]
    dropped: int

    def packed(self) -> Packed:
        """Return these spans, which are already packed."""
        return self

    def shifted(self, seconds: float) -> Packed:
        """Return the same spans, shifted by some seconds."""
        return self._replace(times=array("d", [moment + seconds for moment in self.times]))

    def to_dict(self) -> dict[str, Any]:
        """Return them as JSON values."""
        lists = {name: list(getattr(self, name)) for name in ("of_label", "of_thread", "times")}
        keyed = {name: list(getattr(self, name).items()) for name in ("args", "ids")}
        return {**self._asdict(), **lists, **keyed}

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Packed:
        """Return the spans in a dict of :meth:`to_dict`."""
        return cls(
            tuple((kind, name, category) for kind, name, category in data["labels"]),
            tuple((number, name, own) for number, name, own in data["threads"]),
            array("I", data["of_label"]),
            array("I", data["of_thread"]),
            array("d", data["times"]),
            dict(data["args"]),
            dict(data["ids"]),
            data["dropped"],
        )

    def spans(self) -> Iterator[tuple[Label, int, float, float]]:
        """Yield label, number of the thread in `threads`, start and end of each span."""
        times = iter(self.times)
        columns = zip(self.of_label, self.of_thread, times, times)
        for i, (label, thread, start, end) in enumerate(columns):
            full = Label(*self.labels[label], self.args.get(i), self.ids.get(i))
            yield full, thread, start, end


class Few(NamedTuple):
    """A few spans of one thread in recorded form, which is cheaper than packing them.

    Attributes
    ----------
    thread
        Number and name of the thread.
    rows
        As a buffer has them.
    """

    thread: tuple[int, str]
    rows: list[Any]

    def packed(self) -> Packed:
        """Return them packed."""
        return _packed([(*self.thread, True)], [self.rows], 0)

    def __reduce__(self) -> tuple[Any, ...]:
        return Packed, tuple(self.packed())


class Collection:
    """Spans of one piece of work, such as a task.

    Parameters
    ----------
    limit
        How many spans of one thread are kept, the first ones; others are counted.
    thread
        The number by which Python knows the thread whose work it is; None for this one.

    Attributes
    ----------
    own
        Spans of this thread; None if there are none.
    others
        Spans of other threads.
    sink
        The sink of its spans.
    functions
        The collector that records functions into it, if there is one.

    Notes
    -----
    It gets the spans of the context in which it was opened, and of copies of that context
    (coroutines, ``asyncio.to_thread``), in any thread. Threads that the work
    starts record into the trace of the process, those of a task into its collection.
    """

    def __init__(self, limit: int = SPANS_OF_A_TASK, thread: int | None = None) -> None:
        self._limit = 3 * limit
        self._thread = get_ident() if thread is None else thread
        self._dropped = 0
        self.own: Buffer | None = None
        self.others: list[Buffer] = []
        self.sink = Sink(self)
        self.functions: Any = None

    def set_limit(self, limit: int) -> None:
        """Keep so many spans of each thread from now on."""
        self._limit = 3 * limit
        if self.own is not None:
            self.own.limit = self._limit

    def new_buffer(self) -> Buffer:
        """Return a buffer for the calling thread."""
        buffer = Buffer(self, self._limit)
        if get_ident() == self._thread:
            self.own = buffer
        else:
            self.others.append(buffer)
        return buffer

    def full(self, buffer: Buffer) -> None:
        """Drop what is beyond the limit."""
        self._dropped += (len(buffer) - self._limit) // 3
        del buffer[self._limit :]

    def share(self) -> Sink:
        """Return its sink for a thread that may outlive the work; the end of the work closes it."""
        if not self.others:
            self.others.append(Buffer(self, self._limit))
        return self.sink

    def packed(self) -> Packed:
        """Return what was recorded so far."""
        buffers = [buffer for buffer in (self.own, *self.others) if buffer]
        threads = [(*buffer.thread, buffer is self.own) for buffer in buffers]
        return _packed(threads, [buffer[:] for buffer in buffers], self._dropped)

    def take(self) -> Packed | Few | None:
        """Return and clear what was recorded so far, if anything."""
        own = self.own
        if own is not None and len(own) <= _FEW and not (self.others or self._dropped):
            # As it is called for every task that records something.
            few: Few = _new(Few, (own.thread, own[:]))
            own.clear()
            return few
        packed = self.packed()
        self._dropped = 0
        # Threads that outlive their task must not record into the next one.
        self.own, self.others, self.sink = None, [], Sink(self)
        return packed if packed.labels or packed.dropped else None


#: Length of a buffer up to which spans stay as they are.
_FEW = 3 * 32

#: A third of the time that calling the class takes.
_new = tuple.__new__


def _packed(
    threads: Sequence[tuple[int, str, bool]], buffers: Sequence[list[Any]], dropped: int
) -> Packed:
    """Return the packed spans of each thread."""
    labels: dict[tuple[Kind, str, str], int] = {}
    of_label, of_thread, times = array("I"), array("I"), array("d")
    args: dict[int, dict[str, Any]] = {}
    ids: dict[int, int | str] = {}
    for thread, buffer in enumerate(buffers):
        rows = iter(buffer)
        for label, start, end in zip(rows, rows, rows):
            if type(label) is str:
                key: tuple[Kind, str, str] = ("span", label, "span")
            else:
                key = label[:3]
                if label.args:
                    args[len(of_label)] = dict(label.args)
                if label.id is not None:
                    ids[len(of_label)] = label.id
            of_label.append(labels.setdefault(key, len(labels)))
            of_thread.append(thread)
            times.extend((start, end))
    return Packed(tuple(labels), tuple(threads), of_label, of_thread, times, args, ids, dropped)


@contextmanager
def collecting(collection: Collection | None = None) -> Iterator[Collection]:
    """Record the spans of this context in a collection while the body runs.

    Also when tracing is off.

    Examples
    --------
    >>> from dagprofiler.tracing import span
    >>> with collecting() as collection:
    ...     with span("load"):
    ...         pass
    >>> [label.name for label, _, _, _ in collection.packed().spans()]
    ['load']
    """
    collection = Collection() if collection is None else collection
    token = state.sink.set(collection.sink)
    switch(+1)
    try:
        yield collection
    finally:
        switch(-1)
        state.sink.reset(token)


class Tracing(NamedTuple):
    """What to record inside of tasks; sent to workers, where :meth:`open` begins.

    Attributes
    ----------
    limit
        How many spans of each thread of a task are kept, the first ones; others are counted.
    places
        Paths of the code whose functions are recorded without annotations, and the names of
        its modules.
    floor_ms
        Shorter calls of these functions are not recorded, in milliseconds.
    """

    limit: int
    places: tuple[tuple[str, str], ...]
    floor_ms: float

    def open(self) -> OpenTracing:
        """Return the recorder of the calling thread."""
        return OpenTracing(self)


class OpenTracing:
    """Records what a Tracer requests in the tasks of one thread."""

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing
        self._spans: Collection | None = None
        self._functions: FunctionCollector | None = None

    def start(self) -> None:
        """Begin recording a task."""
        self._spans = spans = here.worker.spans
        spans.set_limit(self._tracing.limit)
        switch(+1)
        if self._tracing.places:
            try:
                self._functions = spans.functions = _shared.take(self._tracing)
            except TraceError as error:
                note("functions are not recorded", why=str(error))

    def stop(self) -> None:
        """End recording the task, if it was begun."""
        spans, self._spans = self._spans, None
        if spans is None:
            return
        functions, self._functions = self._functions, None
        if functions is not None:
            _shared.give_back(self._tracing)
        switch(-1)
        spans.functions = None
        spans.set_limit(SPANS_OF_A_TASK)


class _Belonging:
    """The sink of a thread that is known by its context only.

    Parameters
    ----------
    otherwise
        Sink of spans that belong to no task.
    worker
        The thread of the run whose context it is; None outside of runs.
    """

    def __init__(self, otherwise: Any, worker: TaskThread | None = None) -> None:
        self._otherwise = otherwise
        self._worker = worker

    @property
    def buffer(self) -> Buffer:
        """The buffer of this thread for the task that it belongs to."""
        worker = here.worker
        if not worker.busy and self._worker is not None:
            worker = self._worker.innermost()
        sink: Any = _starter.sink
        if worker.busy:
            sink = worker.spans.sink
        elif sink is None or not sink.is_open():
            sink = self._otherwise
        buffer: Buffer = sink.buffer
        return buffer


class _Starter(threading.local):
    """The sink of the task that started this thread; None if no task did."""

    def __init__(self) -> None:
        # Not current_thread(), which would register a thread that is not Python's own.
        me = get_ident()
        found = [thread for thread in threading.enumerate() if thread.ident == me]
        self.sink: Sink | None = vars(found[0]).get(_STARTED_BY) if found else None


#: The attribute of a thread that holds the sink of the task that started it.
_STARTED_BY = "_dagprofiler_sink"


def _know_starters() -> None:
    """Let each thread know the task that starts it, which Python does not record."""
    start = threading.Thread.start

    @wraps(start)
    def started(thread: threading.Thread) -> None:
        worker = here.worker
        sink = worker.spans.share() if worker.busy else _starter.sink
        if sink is not None:
            vars(thread)[_STARTED_BY] = sink
        start(thread)

    threading.Thread.start = started  # type: ignore[method-assign,assignment]


class _OfRuns:
    """The interface of tracing for runs, which do not import it."""

    @staticmethod
    def begin(worker: TaskThread) -> None:
        """Create the collection of the tasks of a worker."""
        worker.spans = Collection(SPANS_OF_A_TASK, worker.thread)
        # A task may fork before anything is recorded.
        recorder.register()
        state.fallback = _fallback

    @staticmethod
    def place() -> _Belonging:
        """Return the sink of a run's own thread and of copies of its context."""
        return _Belonging(state.sink.get(_of_process), here.worker)


class _Shared:
    """The collectors of this process, and how many concurrent tasks use each."""

    def __init__(self) -> None:
        self.unlock()
        self._users: dict[Tracing, int] = {}
        self._collectors: dict[Tracing, FunctionCollector] = {}

    def unlock(self) -> None:
        """Replace the lock: in a forked process its holder may not exist."""
        self._lock = threading.Lock()

    def take(self, tracing: Tracing) -> FunctionCollector:
        with self._lock:
            if tracing not in self._collectors:
                self._collectors[tracing] = FunctionCollector(
                    (), floor_ms=tracing.floor_ms, collected_only=True, places=tracing.places
                )
            collector = self._collectors[tracing]
            if self._users.get(tracing):
                collector.join()
                self._users[tracing] += 1
            else:
                collector.start()
                self._users[tracing] = 1
            return collector

    def give_back(self, tracing: Tracing) -> None:
        with self._lock:
            self._users[tracing] -= 1
            if self._users[tracing]:
                self._collectors[tracing].leave()
            else:
                self._collectors[tracing].stop()


_shared = _Shared()
_starter = _Starter()
_know_starters()
_of_process = state.fallback
_fallback = _Belonging(_of_process)
recording.tracing = _OfRuns
for begun in workers():
    _OfRuns.begin(begun)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_shared.unlock)
