"""What a span leaves in memory, and where: the hot path of tracing.

A span is three neighbours in a flat list: its label, its start and its end in seconds of
``perf_counter``, 75 bytes in all. Each thread has a list of its own, so that nothing has to
be locked: one ``+=`` of three is atomic. A label is a bare name, which most spans have, or
a :class:`Label`, which all spans of one function share.

What wraps users' functions is sent to other processes by value (cloudpickle), so it names
nothing but functions of modules and :data:`state`, which pickle by name.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from itertools import count
from time import perf_counter as clock
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from dagprofiler._util.interpreter import imported
from dagprofiler._util.json import jsonable
from dagprofiler.errors import describe, shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextvars import ContextVar
    from typing import Union

    AnyLabel = Union[str, "Label"]

__all__ = [
    "ASYNC",
    "ASYNC_INSTANT",
    "COUNTER",
    "INSTANT",
    "SPAN",
    "Buffer",
    "Label",
    "Owner",
    "Sink",
    "clock",
    "failed",
    "in_event_loop",
    "labelled",
    "new_id",
    "plain",
    "record",
    "state",
    "text_of",
]

SPAN, ASYNC, INSTANT, ASYNC_INSTANT, COUNTER = (
    "span",
    "async",
    "instant",
    "async_instant",
    "counter",
)


class Label(NamedTuple):
    """What a recorded span, instant or sample of a counter is.

    Attributes
    ----------
    kind
        ``"span"``, ``"async"``, ``"instant"``, ``"async_instant"`` or ``"counter"``.
    name, category
        What it is called, and under what it can be found.
    args
        Values that stand beside it, as JSON holds them; None for none.
    id
        Of asynchronous ones: what no other has in this process, or what the user gave.
    """

    kind: str
    name: str
    category: str
    args: Mapping[str, Any] | None = None
    id: int | str | None = None


class Owner(Protocol):
    """Where buffers come from, and who looks after them."""

    def new_buffer(self) -> Buffer:
        """Return a buffer for the thread that asks."""

    def full(self, buffer: Buffer) -> None:
        """Take note that `buffer` is longer than its limit; never raises."""


class Buffer(list):  # type: ignore[type-arg]
    """What one thread recorded: label, start and end of one span after the other.

    Attributes
    ----------
    limit
        Length at which the owner is told.
    owner
        Who that is.
    thread
        Its number, as the system counts threads, and its name.
    """

    __slots__ = ("limit", "owner", "thread")

    def __init__(self, owner: Owner, limit: int) -> None:
        super().__init__()
        self.owner = owner
        self.limit = limit
        self.thread = (threading.get_native_id(), _thread_name())


class Sink(threading.local):
    """Where spans go: in each thread to a buffer of its own, made when it first records."""

    buffer: Buffer

    def __init__(self, owner: Owner) -> None:
        self._owner = owner

    def __getattr__(self, name: str) -> Any:
        if name != "buffer":
            raise AttributeError(name)
        self.buffer = buffer = self._owner.new_buffer()
        return buffer


class _State:
    """What every span looks at.

    Attributes
    ----------
    off
        Whether nobody wants spans.
    running_loop
        Returns asyncio's event loop of this thread, or None; None before asyncio is imported.
    sink
        Where they go in this context, if it has a place of its own.
    fallback
        Where they go if it has none: to the trace of the process and, once tasks run in it,
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


def labelled(kind: str, name: str, category: str, args: dict[str, Any] | None) -> Label:
    """Return a label; asynchronous ones get a number that no other of this process has."""
    # A third of the time that calling the class takes.
    return _new(Label, (kind, name, category, args, next(_ids) if kind == ASYNC else None))


_new = tuple.__new__


def failed(label: AnyLabel, error: BaseException) -> Label:
    """Return the label of a span that `error` has ended."""
    if isinstance(label, str):
        label = Label(SPAN, label, "span")
    args = {**(label.args or {}), "error": shorten(describe(error))}
    return label._replace(args=args)


def in_event_loop() -> bool:
    """Say whether an event loop of asyncio runs in this thread."""
    if state.running_loop is None:
        # asyncio costs 30 ms to import, and a program without it has no loop.
        events = imported("asyncio.events")
        if events is None:
            return False
        state.running_loop = events._get_running_loop  # noqa: SLF001  (for frameworks)
    return state.running_loop() is not None


def text_of(name: Any) -> str:
    """Return a name as text, whatever it is."""
    # What a value says that its class is, and what a subclass makes of its hash and its text, is
    # a user's code.
    if issubclass(type(name), str):
        return str.__str__(name)
    return str(plain({"name": name})["name"])


def plain(values: Mapping[Any, Any]) -> dict[str, Any]:
    """Return values as JSON holds them; those for which it has no form as their text.

    They are looked at when the span ends: later they may have changed. Where they are not
    by name any more, since a user has put something else in their place, they have none.
    """
    if type(values) is not dict:
        values = {"args": values}
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


#: Of the integers for which there is no look at more.
_LARGEST = 2**63 - 1


def _thread_name() -> str:
    me = threading.get_ident()
    with suppress(Exception):
        # current_thread() would register a thread that is not Python's own. What it says that
        # its name is may be a user's code.
        names = [thread.name for thread in threading.enumerate() if thread.ident == me]
        if names:
            return text_of(names[0])
    return f"thread {me}"
