"""Recording spans in memory: the hot path of tracing.

A span is three adjacent items in a flat list: its label, its start and its end in seconds of
``perf_counter``, 75 bytes in all. Each thread has its own list, so that no lock is needed: one
``+=`` of three is atomic. A label is a name, as for most spans, or a :class:`Label`, which all
spans of one function share.

Wrappers of users' functions are sent to other processes by value (cloudpickle), so they
reference only functions of modules and :data:`state`, which pickle by name.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from itertools import count
from time import perf_counter
from typing import Any, Literal, NamedTuple, Protocol, Union

from dagprofiler._util.interpreter import imported
from dagprofiler._util.json import jsonable
from dagprofiler.errors import describe, shorten

AnyLabel = Union[str, "Label"]
Kind = Literal["span", "async", "instant", "async_instant", "counter"]

#: Seconds of the clock of all spans.
clock = perf_counter


class Label(NamedTuple):
    """What a recorded span, instant or sample of a counter is.

    Attributes
    ----------
    kind
        One of `Kind`.
    name, category
        Its name and its category.
    args
        Its arguments, as JSON values; None for none.
    id
        Of asynchronous spans: an id that is unique in this process, or the user's.
    """

    kind: Kind
    name: str
    category: str
    args: Mapping[str, Any] | None = None
    id: int | str | None = None


class Owner(Protocol):
    """Creates buffers and empties them."""

    def new_buffer(self) -> Buffer:
        """Return a buffer for the calling thread."""

    def full(self, buffer: Buffer) -> None:
        """Handle a `buffer` that is longer than its limit; never raises."""


class Buffer(list):  # type: ignore[type-arg]
    """The spans of one thread: label, start and end of one span after the other.

    Attributes
    ----------
    limit
        Length above which :meth:`Owner.full` is called.
    owner
        The owner of the buffer.
    thread
        The system's number of the thread, and its name.
    """

    __slots__ = ("limit", "owner", "thread")

    def __init__(self, owner: Owner, limit: int) -> None:
        super().__init__()
        self.owner = owner
        self.limit = limit
        self.thread = (threading.get_native_id(), _thread_name())


class Sink(threading.local):
    """Where spans go: a buffer for each thread, created when it first records."""

    buffer: Buffer

    def __init__(self, owner: Owner) -> None:
        self._owner = owner

    def is_open(self) -> bool:
        """Tell whether its owner still collects what it gets."""
        return getattr(self._owner, "sink", None) is self

    def __getattr__(self, name: str) -> Any:
        if name != "buffer":
            raise AttributeError(name)
        self.buffer = buffer = self._owner.new_buffer()
        return buffer


class _State:
    """The state that every span reads.

    Attributes
    ----------
    off
        Whether no spans are recorded.
    running_loop
        Returns asyncio's event loop of this thread, or None; None before asyncio is imported.
    sink
        Where spans go in this context, if it has its own sink.
    fallback
        Where they go otherwise: to the trace of the process and, once tasks run in it,
        to the task that a thread belongs to.
    """

    __slots__ = ("fallback", "off", "running_loop", "sink")

    fallback: Any
    off: bool
    running_loop: Callable[[], Any] | None
    sink: ContextVar[Any]

    def __reduce__(self) -> str:
        return "state"


state = _State()

_ids = count(1)


def new_id() -> int:
    """Return a number that no other asynchronous span of this process has."""
    return next(_ids)


def record(label: AnyLabel, start: float, end: float) -> None:
    """Keep one span of this thread; `start` and `end` are readings of :data:`clock`."""
    buffer = state.sink.get(state.fallback).buffer
    buffer += (label, start, end)
    if len(buffer) > buffer.limit:
        buffer.owner.full(buffer)


def labelled(kind: Kind, name: str, category: str, args: dict[str, Any] | None) -> Label:
    """Return a label; asynchronous ones get a number that no other of this process has."""
    # A third of the time that calling the class takes.
    return _new(Label, (kind, name, category, args, next(_ids) if kind == "async" else None))


_new = tuple.__new__


def failed(label: AnyLabel, error: BaseException) -> Label:
    """Return the label of a span that `error` has ended."""
    if isinstance(label, str):
        label = Label("span", label, "span")
    args = {**(label.args or {}), "error": shorten(describe(error))}
    return label._replace(args=args)


def in_event_loop() -> bool:
    """Tell whether an event loop of asyncio runs in this thread."""
    if state.running_loop is None:
        # asyncio costs 30 ms to import, and a program without it has no loop.
        events = imported("asyncio.events")
        if events is None:
            return False
        state.running_loop = events._get_running_loop  # noqa: SLF001  (for frameworks)
    return state.running_loop() is not None


def strand() -> int:
    """Return the id of asyncio's current task, or of the thread."""
    tasks = imported("asyncio.tasks") if in_event_loop() else None
    task = None if tasks is None else tasks.current_task()
    return threading.get_ident() if task is None else id(task)


def text_of(name: Any) -> str:
    """Return a name as text, whatever it is."""
    # A value's ``__class__``, and a subclass's ``__hash__`` and ``__str__``, are a user's code.
    if issubclass(type(name), str):
        return str.__str__(name)
    return str(plain({"name": name})["name"])


def plain(values: Mapping[Any, Any]) -> dict[str, Any]:
    """Return values as JSON values; those that JSON cannot represent as text.

    They are converted when the span ends, since they may change later. If a user has replaced
    the dict by another object, that becomes one value.
    """
    if type(values) is not dict:
        values = {} if values is None else {"args": values}
    for name, value in values.items():
        kind = type(value)
        if type(name) is not str or not (
            kind is str
            or (kind is int and -_LARGEST <= value <= _LARGEST)
            or (kind is float and value - value == 0)
            or kind is bool
            or value is None
        ):
            return jsonable({text_of(name): value for name, value in values.items()})[0]
    return values.copy()


#: Integers up to this size are JSON values as they are.
_LARGEST = 2**63 - 1


def _thread_name() -> str:
    me = threading.get_ident()
    with suppress(Exception):
        # current_thread() would register a thread that is not Python's own. The name of a
        # thread may be a property in a user's class.
        names = [thread.name for thread in threading.enumerate() if thread.ident == me]
        if names:
            return text_of(names[0])
    return f"thread {me}"
