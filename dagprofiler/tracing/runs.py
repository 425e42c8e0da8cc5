"""Tracing inside a run of a DAG: the spans of a task are sent with its record.

A task without spans costs only setting its worker's flag ``busy``; a span finds the worker by
its thread or by its context.
"""

from __future__ import annotations

import os
import threading
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

from dagprofiler._util.interpreter import here, recording, workers
from dagprofiler.errors import TraceError
from dagprofiler.tracing._process import note, recorder, switch
from dagprofiler.tracing._recording import state
from dagprofiler.tracing.collection import Collection
from dagprofiler.tracing.functions import FunctionCollector

if TYPE_CHECKING:
    from dagprofiler._util.interpreter import TaskThread
    from dagprofiler.tracing._recording import Buffer, Sink


#: How many spans of each thread of a task are kept in a round.
SPANS_OF_A_TASK = 100_000
#: Shorter calls of functions without annotations are not recorded.
FLOOR_MS = 0.1


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

    limit: int = SPANS_OF_A_TASK
    places: tuple[tuple[str, str], ...] = ()
    floor_ms: float = FLOOR_MS

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
    """The sink of a thread of which only the context is known.

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
        me = threading.get_ident()
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
    """What runs call in tracing."""

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
                self._collectors[tracing] = _collector(tracing)
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


def _collector(tracing: Tracing) -> FunctionCollector:
    floor_ms, places = tracing.floor_ms, tracing.places
    return FunctionCollector((), floor_ms=floor_ms, collected_only=True, places=places)


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
