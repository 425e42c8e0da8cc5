"""Spans, counters and instants that a program records in its own code."""

from __future__ import annotations

from sys import modules
from typing import TYPE_CHECKING, Any

from dagprofiler.tracing._process import note
from dagprofiler.tracing._recording import (
    ASYNC,
    COUNTER,
    INSTANT,
    SPAN,
    Label,
    clock,
    failed,
    in_event_loop,
    labelled,
    plain,
    record,
    state,
    text_of,
)

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self


class span:  # noqa: N801  (reads as a word of the language)
    """Record how long a block of code takes: ``with span("load", path=path): ...``.

    Parameters
    ----------
    name
        Its name in the trace; other types are converted by ``str``.
    **args
        Arguments of the span. Values that JSON cannot represent are converted by ``str``.

    Attributes
    ----------
    args
        The arguments; more can be added until the block ends.

    Notes
    -----
    An exception ends the span, is recorded in it under ``error``, and propagates. In an
    event loop, and with ``async with``, the span is asynchronous: it has its own track,
    since others may run while it waits. Entering one object twice at a time or
    closing it twice adds a note to the trace and raises nothing.

    Examples
    --------
    >>> with span("load", path="data.csv") as load:
    ...     load.args["rows"] = 3
    """

    __slots__ = ("_start", "args", "name")

    def __init__(self, name: Any, /, **args: Any) -> None:
        self.name = name
        self.args = args
        self._start: float | None = None

    def __enter__(self) -> Self:
        if self._start is not None:
            note("span entered twice", name=text_of(self.name))
        else:
            self._start = clock()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        end = clock()
        start = self._start
        self._start = None
        if state.off:
            return
        # What in_event_loop() and record() do, without the calls.
        running_loop = state.running_loop
        if running_loop is not None:
            apart = running_loop() is not None
        else:
            apart = "asyncio.events" in modules and in_event_loop()
        args = self.args
        # What has replaced the dict may have no truth value, as an array has none.
        bare = type(args) is dict and not args
        if kind is None and not apart and bare and type(self.name) is str and start:
            buffer = state.sink.get(state.fallback).buffer
            buffer += (self.name, start, end)
            if len(buffer) > buffer.limit:
                buffer.owner.full(buffer)
        else:
            self._record(ASYNC if apart else SPAN, start, end, error)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.__exit__(kind, error, traceback)

    def _record(
        self, kind: str, start: float | None, end: float, error: BaseException | None
    ) -> None:
        name = text_of(self.name)
        if start is None:
            note("span closed that was not open", name=name)
            return
        label = labelled(kind, name, "span", plain(self.args) or None)
        record(label if error is None else failed(label, error), start, end)


class async_span(span):  # noqa: N801  (as span)
    """Record concurrent work on its own track.

    Like :class:`span`, but it can begin in one place and end in another, also in another
    thread.

    Examples
    --------
    >>> request = async_span("request", number=7).begin()
    >>> request.end()
    """

    __slots__ = ()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        end, start = clock(), self._start
        self._start = None
        if not state.off:
            self._record(ASYNC, start, end, error)

    def begin(self) -> Self:
        """Begin the span and return it."""
        return self.__enter__()

    def end(self, error: BaseException | None = None) -> None:
        """End the span and record `error`, if given."""
        self.__exit__(None, error, None)


def instant(name: Any, /, **args: Any) -> None:
    """Record that something happened.

    Parameters
    ----------
    name, **args
        As for :class:`span`.

    Examples
    --------
    >>> instant("cache miss", key="a")
    """
    if state.off:
        return
    now = clock()
    record(Label(INSTANT, text_of(name), "instant", plain(args) or None), now, now)


def counter(name: Any, value: Any = None, /, **values: Any) -> None:
    """Record a value that changes over time, or a group of values.

    Parameters
    ----------
    name
        Its name in the trace.
    value
        A finite number; None if `values` are given.
    **values
        Numbers by name.

    Notes
    -----
    A value that is not a finite number adds a note to the trace instead.

    Examples
    --------
    >>> counter("queue", 3)
    >>> counter("workers", busy=2, idle=6)
    """
    if state.off:
        return
    now = clock()
    given = values if value is None else {"value": value, **values}
    numbers: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for key, number in plain(given).items():
        right = isinstance(number, (int, float)) and not isinstance(number, bool)
        (numbers if right else others)[key] = number
    if numbers:
        record(Label(COUNTER, text_of(name), "counter", numbers), now, now)
    if others or not given:
        note("counter without a number", name=text_of(name), values=others)
