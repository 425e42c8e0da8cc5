"""What runs depend on in this process: its host, modules, calibration, and where spans go.

All but the host may change at any time: in other threads, and inside a task.
"""

from __future__ import annotations

import math
import os
import sys
import threading
from contextvars import ContextVar
from typing import Any, NamedTuple

from dagprofiler._util import JsonObject

#: The name of this machine; platform.node() takes 3 ms to import.
HOSTNAME = os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")

#: The calibration that the program requested, if any.
asked_for: list[Any] = []

#: How many spans of each thread of a task are kept in a round.
SPANS_OF_A_TASK = 100_000


class Span(NamedTuple):
    """A recorded span, instant or sample of a counter.

    Attributes
    ----------
    kind
        ``"span"``, ``"async"``, ``"instant"``, ``"async_instant"`` or ``"counter"``.
    name, category
        Its name and its category.
    start, end
        When it began and ended, in seconds of ``perf_counter``.
    args
        Its arguments, as JSON values; None for none.
    id
        Of asynchronous spans: an id that is unique in their process, or the user's.
    """

    kind: str
    name: str
    category: str
    start: float
    end: float
    args: JsonObject | None = None
    id: int | str | None = None


class TaskSpans(NamedTuple):
    """The spans of a task, on their way to the profile.

    Attributes
    ----------
    threads
        Of each thread: the system's number, its name, whether it computed the task, and its
        spans in the order of their ends. They are bare tuples of a :class:`Span`'s fields,
        which pickle in a fifteenth of the time.
    dropped
        How many spans exceeded the limit.
    """

    threads: list[tuple[int, str, bool, list[Any]]]
    dropped: int

    def shifted(self, seconds: float) -> TaskSpans:
        """Return the same spans, shifted by some seconds."""
        threads = []
        for number, name, computes, rows in self.threads:
            spans = [Span(*row) for row in rows]
            moved = [(*s[:3], s.start + seconds, s.end + seconds, *s[5:]) for s in spans]
            threads.append((number, name, computes, moved))
        return TaskSpans(threads, self.dropped)


class ThreadSpans:
    """The spans of one thread in one collection.

    Attributes
    ----------
    owner
        The collection that it belongs to; None once it is taken.
    thread
        The system's number of the thread, and its name.
    ident
        Python's number of the thread.
    rows
        The fields of each ``Span``, in the order of their ends.
    dropped
        How many spans exceeded the owner's limit.
    """

    __slots__ = ("dropped", "ident", "owner", "rows", "thread")

    def __init__(self, owner: Collection, thread: tuple[int, str]) -> None:
        self.owner: Collection | None = owner
        self.thread = thread
        self.ident = threading.get_ident()
        self.rows: list[Any] = []
        self.dropped = 0


class Collection:
    """The spans of one piece of work, such as a task: a list for each thread.

    Parameters
    ----------
    limit
        How many spans of each thread are kept, the first ones; others are counted.

    Attributes
    ----------
    threads
        The spans of each thread that has recorded, by the system's number and its name.
    functions
        The collector that records functions into it, if there is one.
    due_s
        Reading of the clock after which the next span calls :meth:`make_room`.
    ended
        Whether the work has ended. Threads that outlive it then record elsewhere.
    """

    due_s = math.inf
    functions: Any = None
    ended = False

    def __init__(self, limit: int = SPANS_OF_A_TASK) -> None:
        self.limit = limit
        self.threads: dict[tuple[int, str], ThreadSpans] = {}

    def spans_of(self, thread: tuple[int, str]) -> ThreadSpans:
        """Return those of the calling thread."""
        spans = self.threads.get(thread)
        if spans is None:
            spans = self.threads[thread] = ThreadSpans(self, thread)
        return spans

    def make_room(self, spans: ThreadSpans) -> None:
        """Drop the last span of a thread that exceeds the limit."""
        spans.rows.pop()
        spans.dropped += 1

    def spans(self) -> list[Span]:
        """Return what was recorded so far, thread by thread."""
        return [Span(*row) for spans in list(self.threads.values()) for row in spans.rows]

    def take(self) -> TaskSpans | None:
        """Return and clear what was recorded, if anything; the calling thread did the work."""
        taken, self.threads = self.threads, {}
        me, threads, dropped = threading.get_ident(), [], 0
        for thread, spans in list(taken.items()):
            # A thread that outlives the work asks anew.
            spans.owner = None
            threads.append((*thread, spans.ident == me, spans.rows))
            dropped += spans.dropped
        return TaskSpans(threads, dropped) if threads else None


class TaskThread:
    """A thread, as the tasks that are computed in it see it.

    Attributes
    ----------
    task
        The collection of the task that is being computed; None between tasks.
    spare
        That of the next task: most record nothing and leave it to the next one.
    """

    __slots__ = ("spare", "task")

    def __init__(self) -> None:
        self.task: Collection | None = None
        self.spare = Collection()
        task_threads[threading.get_ident()] = here.thread = self


#: The threads in which tasks have been computed, by their numbers, which come back.
task_threads: dict[int, TaskThread] = {}


class _Here(threading.local):
    """The calling thread; None before its first task."""

    thread: TaskThread | None = None


here = _Here()

#: The random stream of the running task: its key, and its generator once it is requested.
#: One list, so that copies of the context, which coroutines run in, share the generator.
current_stream: ContextVar[list[Any] | None] = ContextVar("stream", default=None)

#: The collection that takes the spans of this context.
owner: ContextVar[Collection | None] = ContextVar("owner", default=None)


class _Recording:
    """Whether and how spans are recorded in this process; refers to itself by name when pickled.

    Attributes
    ----------
    enabled
        Whether tracing is enabled, so that runs keep the spans of tasks.
    off
        Whether no spans are recorded: tracing is disabled, and no collection is open.
    process
        The owner of spans that belong to no task and no collection; None before tracing is
        imported.
    """

    enabled = True
    off = True
    process: Any = None

    def __reduce__(self) -> str:
        return "recording"


recording = _Recording()


def imported(name: str) -> Any:
    """Return the module of this name if it has been imported completely, else None.

    While a thread imports a module, ``sys.modules`` holds it incomplete.
    """
    module = sys.modules.get(name)
    spec = getattr(module, "__spec__", None)
    return None if getattr(spec, "_initializing", False) else module


def _leave_to_parent() -> None:
    """End the tasks and collections of the parent in a forked process."""
    for collection in (owner.get(), *[thread.task for thread in task_threads.values()]):
        if collection is not None:
            collection.ended = True
    task_threads.clear()
    here.thread = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)
