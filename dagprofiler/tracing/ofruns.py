"""Tracing inside a run of a DAG: the spans of a task go home with its record."""

from __future__ import annotations

import os
import threading
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


def by_default() -> Tracing | None:
    """Return what a run records that says nothing of it: what is annotated, if tracing is on."""
    return Tracing() if recorder.options.enable else None


class OpenTracing:
    """Records the spans of one task after the other, in one thread."""

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing
        self._collection: Collection | None = None
        self._token: Token[Sink] | None = None
        self._functions: FunctionCollector | None = None

    def start(self) -> None:
        """Begin with a task."""
        self._collection = Collection(self._tracing.limit)
        self._token = state.sink.set(self._collection.sink)
        switch(+1)
        _running.add(self._collection.sink)
        if self._tracing.places:
            try:
                self._functions = self._collection.functions = _shared.take(self._tracing)
            except TraceError as error:
                note("functions are not recorded", why=str(error))

    def stop(self) -> None:
        """End with it, if it was begun with and has not been ended."""
        token, self._token = self._token, None
        if token is None or self._collection is None:
            return
        functions, self._functions = self._functions, None
        if functions is not None:
            _shared.give_back(self._tracing)
        _running.remove(self._collection.sink)
        switch(-1)
        state.sink.reset(token)

    def take(self) -> Packed | None:
        """Return the spans of the last task; None of one that left none."""
        collection, self._collection = self._collection, None
        packed = None if collection is None else collection.packed()
        return packed if packed is not None and packed.of_label else None


class _Running:
    """The tasks that run in this process.

    While there is but one, what threads record that have no task of their own is its: it may
    have started them.
    """

    def __init__(self) -> None:
        self._otherwise = state.fallback
        self.forget()

    def forget(self) -> None:
        """Be as new: in a process that was forked, what runs is its parent's."""
        self._lock = threading.Lock()
        self._sinks: list[Sink] = []

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
_running = _Running()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_running.forget)
    os.register_at_fork(after_in_child=_shared.unlock)
