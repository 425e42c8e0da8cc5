"""Collections: spans that are kept in memory instead of the trace file, as those of tasks are.

While a task computes, a collection is the ``owner`` of the spans of its context. They are sent
with the task's record.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import NamedTuple

from dagprofiler._util.interpreter import SPANS_OF_A_TASK, Collection, owner
from dagprofiler.errors import TraceError
from dagprofiler.tracing._recorder import switch
from dagprofiler.tracing._state import collection_here, note
from dagprofiler.tracing.functions import FunctionCollector

__all__ = ["Collection", "Tracing", "collecting"]


@contextmanager
def collecting(collection: Collection | None = None) -> Iterator[Collection]:
    """Record the spans of this context in a collection while the body runs.

    Also when tracing is off, and in copies of the context: coroutines, ``asyncio.to_thread``.
    Other threads record into the trace of the process.

    Examples
    --------
    >>> from dagprofiler.tracing import span
    >>> with collecting() as collection:
    ...     with span("load"):
    ...         pass
    >>> [span.name for span in collection.spans()]
    ['load']
    """
    collection = Collection() if collection is None else collection
    token = owner.set(collection)
    switch(+1)
    try:
        yield collection
    finally:
        switch(-1)
        owner.reset(token)


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
        self._task: Collection | None = None

    def start(self) -> None:
        """Begin recording the task that is about to compute in this thread."""
        self._task = task = collection_here()
        task.limit = self._tracing.limit
        switch(+1)
        if self._tracing.places:
            collector = _collector(self._tracing)
            try:
                collector.start()
            except TraceError as error:
                note("functions are not recorded", why=str(error))
            else:
                task.functions = collector

    def stop(self) -> None:
        """End recording the task, if it was begun."""
        task, self._task = self._task, None
        if task is not None:
            switch(-1)
            # It may be that of the next task, too.
            task.limit = SPANS_OF_A_TASK
            if task.functions is not None:
                task.functions.stop()
                task.functions = None


@lru_cache(maxsize=16)
def _collector(tracing: Tracing) -> FunctionCollector:
    """Return the collector that all tasks of this process share."""
    return FunctionCollector(
        (), floor_ms=tracing.floor_ms, collected_only=True, places=tracing.places
    )
