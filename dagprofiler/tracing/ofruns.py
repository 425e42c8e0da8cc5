"""Tracing inside a run of a DAG: the spans of a task go home with its record."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from typing import TYPE_CHECKING, NamedTuple

from dagprofiler.errors import TraceError
from dagprofiler.tracing.collecting import Collection
from dagprofiler.tracing.functions import FunctionCollector
from dagprofiler.tracing.process import note, recorder, switch
from dagprofiler.tracing.recording import state

if TYPE_CHECKING:
    from contextvars import Token

    from dagprofiler.tracing.collecting import Packed
    from dagprofiler.tracing.recording import Sink

__all__ = ["FLOOR_MS", "SPANS_OF_A_TASK", "OpenTracing", "Tracing", "by_default"]

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
    modules
        Names of modules whose functions are recorded without annotations.
    floor_ms
        Calls of these that take less leave nothing.
    """

    limit: int = SPANS_OF_A_TASK
    modules: tuple[str, ...] = ()
    floor_ms: float = FLOOR_MS

    def open(self) -> OpenTracing:
        """Return what records in the thread that calls this."""
        return OpenTracing(self)


def by_default() -> Tracing | None:
    """Return what a run records that says nothing of it: what is annotated, if tracing is on."""
    return Tracing() if recorder.options.enable else None


class OpenTracing:
    """Records the spans of one task after the other, in one thread."""

    def __init__(self, tracing: Tracing) -> None:
        self._limit = tracing.limit
        self._collection: Collection | None = None
        self._token: Token[Sink] | None = None
        self._functions = _Functions(tracing) if tracing.modules else None
        switch(+1)
        # Threads of a pool that ends, and what they hold, just go.
        self._closing = weakref.finalize(self, _close, self._functions)
        self._closing.atexit = False

    def start(self) -> None:
        """Begin with a task."""
        self._collection = Collection(self._limit)
        if self._functions is not None:
            self._collection.functions = self._functions.collector
        self._token = state.sink.set(self._collection.sink)
        _running.add(self._collection.sink)
        if self._functions is not None:
            self._functions.start()

    def stop(self) -> None:
        """End with it, if it was begun with and has not been ended."""
        token, self._token = self._token, None
        if token is not None and self._collection is not None:
            if self._functions is not None:
                self._functions.stop()
            state.sink.reset(token)
            _running.remove(self._collection.sink)

    def take(self) -> Packed | None:
        """Return the spans of the last task; None of one that left none."""
        collection, self._collection = self._collection, None
        packed = None if collection is None else collection.packed()
        return packed if packed is not None and packed.of_label else None

    def close(self) -> None:
        """Record no more."""
        self._closing()


def _close(functions: _Functions | None) -> None:
    if functions is not None:
        functions.close()
    switch(-1)


class _Running:
    """The tasks that run in this process.

    While there is but one, what threads record that have no task of their own is its: it may
    have started them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sinks: list[Sink] = []
        self._otherwise = state.fallback

    def add(self, sink: Sink) -> None:
        with self._lock:
            self._sinks.append(sink)
            self._choose()

    def remove(self, sink: Sink) -> None:
        with self._lock:
            if sink in self._sinks:
                self._sinks.remove(sink)
            self._choose()

    def _choose(self) -> None:
        state.fallback = self._sinks[0] if len(self._sinks) == 1 else self._otherwise


class _Functions:
    """Functions without annotations, recorded while tasks run.

    ``sys.monitoring`` sees all threads of a process, so that threads which run tasks share
    one collector, from the first task of the first to the last of the last: to switch it
    costs more than a task may. ``sys.setprofile``, before Python 3.12, is of one thread
    and switched for each task.
    """

    def __init__(self, tracing: Tracing) -> None:
        self._key = tracing.modules, tracing.floor_ms
        self.collector: FunctionCollector | None = None
        self._why = ""
        try:
            self.collector = _shared.take(*self._key) if _MONITORING else _collector(*self._key)
        except TraceError as error:
            self._why = str(error)

    def start(self) -> None:
        if not _MONITORING and self.collector is not None:
            try:
                self.collector.start()
            except TraceError as error:
                self.collector, self._why = None, str(error)
        if self._why:
            note("functions are not recorded", why=self._why)
            # Once is enough.
            self._why = ""

    def stop(self) -> None:
        if not _MONITORING and self.collector is not None:
            self.collector.stop()

    def close(self) -> None:
        collector, self.collector = self.collector, None
        if _MONITORING and collector is not None:
            _shared.give_back(*self._key)


class _Shared:
    """The collectors of this process, by what they record, and how many use each."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users: dict[tuple[tuple[str, ...], float], int] = {}
        self._collectors: dict[tuple[tuple[str, ...], float], FunctionCollector] = {}

    def take(self, modules: tuple[str, ...], floor_ms: float) -> FunctionCollector:
        key = modules, floor_ms
        with self._lock:
            if key not in self._users:
                collector = _collector(*key)
                collector.start()
                self._collectors[key], self._users[key] = collector, 0
            self._users[key] += 1
            return self._collectors[key]

    def give_back(self, modules: tuple[str, ...], floor_ms: float) -> None:
        key = modules, floor_ms
        with self._lock:
            self._users[key] -= 1
            if not self._users[key]:
                del self._users[key]
                self._collectors.pop(key).stop()


def _collector(modules: tuple[str, ...], floor_ms: float) -> FunctionCollector:
    return FunctionCollector(modules, floor_ms=floor_ms, collected_only=True)


_MONITORING = sys.version_info >= (3, 12)
_shared = _Shared()
_running = _Running()
if hasattr(os, "register_at_fork"):
    # Tasks that run are the parent's; by now spans go to the trace of the new process again.
    os.register_at_fork(after_in_child=_running.__init__)  # type: ignore[misc]
