"""Tracing inside a run of a DAG: the spans of a task go home with its record.

A task pays for what is recorded in it. While none is, all that happens is that its worker
says that it is busy; what records there finds the worker by this thread, or by the context.
"""

from __future__ import annotations

import os
import threading
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
#: Calls of functions without annotations that take less leave nothing.
FLOOR_MS = 0.1


class Tracing(NamedTuple):
    """What to record inside of tasks; travels to workers, where :meth:`open` begins.

    Attributes
    ----------
    limit
        How many spans of each thread of a task are kept, the first ones; others are counted.
    places
        Where the code is whose functions are recorded without annotations, and the names of
        its modules.
    floor_ms
        Calls of these that take less leave nothing.
    """

    limit: int = SPANS_OF_A_TASK
    places: tuple[tuple[str, str], ...] = ()
    floor_ms: float = FLOOR_MS

    def open(self) -> OpenTracing:
        """Return what records in the thread that calls this."""
        return OpenTracing(self)


class OpenTracing:
    """Records what a Tracer asks for in one task after the other, in one thread."""

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing
        self._spans: Collection | None = None
        self._functions: FunctionCollector | None = None

    def start(self) -> None:
        """Begin with a task."""
        self._spans = spans = here.worker.spans
        spans.set_limit(self._tracing.limit)
        switch(+1)
        if self._tracing.places:
            try:
                self._functions = spans.functions = _shared.take(self._tracing)
            except TraceError as error:
                note("functions are not recorded", why=str(error))

    def stop(self) -> None:
        """End with it, if it was begun with and has not been ended."""
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
    """Where a thread records of which nothing but its context is known.

    Parameters
    ----------
    otherwise
        Where what belongs to no task goes.
    worker
        The thread whose run's context it is; None of no run.
    """

    def __init__(self, otherwise: Any, worker: TaskThread | None = None) -> None:
        self._otherwise = otherwise
        self._worker = worker

    @property
    def buffer(self) -> Buffer:
        """The buffer of this thread for the task that it belongs to.

        While but one task runs, what threads record that have no task of their own is its: it
        may have started them.
        """
        worker = here.worker
        if not worker.busy and self._worker is not None:
            worker = self._worker.innermost()
        if not worker.busy:
            busy = [worker for worker in workers() if worker.busy]
            if len(busy) != 1:
                found: Buffer = self._otherwise.buffer
                return found
            worker = busy[0]
        sink: Sink = worker.spans.sink
        return sink.buffer


class _OfRuns:
    """What runs ask tracing for."""

    @staticmethod
    def begin(worker: TaskThread) -> None:
        """Have a place for what is recorded in the tasks of a worker."""
        worker.spans = Collection(SPANS_OF_A_TASK, worker.thread)
        # A task may fork before anything is recorded.
        recorder.register()
        state.fallback = _fallback

    @staticmethod
    def place() -> _Belonging:
        """Return where a run's own thread, and copies of its context, record."""
        return _Belonging(state.sink.get(_of_process), here.worker)


class _Shared:
    """The collectors of this process, and how many tasks, beside each other, use each."""

    def __init__(self) -> None:
        self.unlock()
        self._users: dict[Tracing, int] = {}
        self._collectors: dict[Tracing, FunctionCollector] = {}

    def unlock(self) -> None:
        """Have a lock that is free: in a process that was forked, nobody may be left to do it."""
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
_of_process = state.fallback
_fallback = _Belonging(_of_process)
recording.tracing = _OfRuns
for begun in workers():
    _OfRuns.begin(begun)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_shared.unlock)
