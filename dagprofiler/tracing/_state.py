"""Recording a span: the hot path of tracing.

A span goes to the task or the collection of its context. A thread that has neither, as one that
a task has started, records for the task that runs in the process, if it is the only one, and else
for the process. Each thread has its own list, so that no lock is needed.

Wrappers of users' functions are sent to other processes by value (cloudpickle), so they
reference only functions of modules and :data:`recording`, which pickle by name.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from itertools import count
from time import perf_counter
from typing import Any

from dagprofiler._util.interpreter import (
    Collection,
    ThreadSpans,
    here,
    owner,
    recording,
    task_threads,
)
from dagprofiler._util.json import jsonable
from dagprofiler.errors import describe, shorten

#: Seconds of the clock of all spans.
clock = perf_counter

_ids = count(1)


def new_id() -> int:
    """Return a number that no other asynchronous span of this process has."""
    return next(_ids)


class _ThisThread(threading.local):
    """The calling thread: the system's number and its name, and where its last span went."""

    def __init__(self) -> None:
        self.thread = threading.get_native_id(), threading.current_thread().name
        self.spans: ThreadSpans | None = None


_this_thread = _ThisThread()


def collection_here() -> Collection:
    """Return the collection that takes the next span of this thread."""
    collection = owner.get()
    if collection is not None and not collection.ended:
        return collection
    process: Collection = recording.process
    if not task_threads:
        return process
    if here.thread is not None and here.thread.task is not None:
        return here.thread.task
    tasks = [thread.task for thread in list(task_threads.values()) if thread.task is not None]
    return tasks[0] if len(tasks) == 1 else process


def forget_thread() -> None:
    """Look at this thread anew, as in a forked process."""
    _this_thread.__init__()  # type: ignore[misc]


def record(
    kind: str,
    name: str,
    category: str,
    start: float,
    end: float,
    args: dict[str, Any] | None = None,
    id: int | str | None = None,  # noqa: A002  (as in Chrome's format)
) -> None:
    """Keep one span of this thread; the parameters are the fields of a ``Span``."""
    collection = collection_here()
    spans = _this_thread.spans
    if spans is None or spans.owner is not collection:
        spans = _this_thread.spans = collection.spans_of(_this_thread.thread)
    rows = spans.rows
    rows.append((kind, name, category, start, end, args, id))
    if end > collection.due_s or len(rows) > collection.limit:
        collection.make_room(spans)


def with_error(args: Mapping[str, Any] | None, error: BaseException | None) -> Any:
    """Return the arguments of a span that has ended, with what ended it."""
    # Closing a generator is no error.
    if error is None or isinstance(error, GeneratorExit):
        return args
    return {**(args or {}), "error": shorten(describe(error))}


def in_event_loop() -> bool:
    """Tell whether an event loop of asyncio runs in this thread."""
    # asyncio costs 30 ms to import, and a program without it has no loop.
    events = sys.modules.get("asyncio.events")
    running_loop = getattr(events, "_get_running_loop", None)
    return running_loop is not None and running_loop() is not None


def plain(values: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return arguments as JSON values, as they are now; others as text. None for none."""
    return jsonable(values)[0] if values else None
