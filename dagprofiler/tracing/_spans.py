"""Spans, counters and instants in a program's own code, and decorators that trace functions."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from functools import partial, wraps
from sys import modules
from types import coroutine
from typing import TYPE_CHECKING, Any, Callable, TypeVar, cast, overload

from dagprofiler.errors import TraceError, short_repr
from dagprofiler.tracing._process import note
from dagprofiler.tracing._recording import (
    Kind,
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

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
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
            self._record("async" if apart else "span", start, end, error)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, kind: object, error: BaseException | None, _: object) -> None:
        self.__exit__(kind, error, None)

    def _record(
        self, kind: Kind, start: float | None, end: float, error: BaseException | None
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

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        end, start = clock(), self._start
        self._start = None
        if not state.off:
            self._record("async", start, end, error)

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
    record(Label("instant", text_of(name), "instant", plain(args) or None), now, now)


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
        record(Label("counter", text_of(name), "counter", numbers), now, now)
    if others or not given:
        note("counter without a number", name=text_of(name), values=others)


Function = TypeVar("Function", bound=Callable[..., Any])


@overload
def trace(function: Function, /) -> Function: ...
@overload
def trace(
    *, name: str | None = None, category: str | None = None
) -> Callable[[Function], Function]: ...
def trace(function: Any = None, /, *, name: str | None = None, category: str | None = None) -> Any:
    """Record a span for every call of a function.

    Parameters
    ----------
    function
        Function, method, coroutine function, generator function, asynchronous generator
        function, or a ``classmethod``, ``staticmethod`` or function decorated with
        ``contextlib.contextmanager``; or a class, whose instances are recorded as they are made.
    name
        Name of the span; by default the function's qualified name.
    category
        Category of the span; by default the function's module.

    Returns
    -------
    callable
        A function of the same kind, with the same name, signature and documentation.

    Raises
    ------
    TraceError
        If `function` is not callable.

    Notes
    -----
    A span lasts until the work is done: for a coroutine until it returns, for a generator
    from the first requested value until it is exhausted or closed, for a context
    manager until its block ends. Spans of coroutines and generators are asynchronous, since
    other work runs in between. An exception ends the span, is recorded in it and
    propagates. With tracing off a call costs one check of a flag.

    Examples
    --------
    >>> @trace
    ... def load(path):
    ...     return path.upper()
    >>> load("a")
    'A'
    >>> @trace(name="the answer")
    ... def answer():
    ...     return 42
    >>> answer()
    42
    """
    wrap = partial(wrapped, name=name, category=category)
    if function is None:
        return partial(decorated, what="trace", wrap=wrap)
    return decorated(function, "trace", wrap)


def decorated(function: Any, what: str, wrap: Callable[[Any], Any]) -> Any:
    """Return `function` wrapped, inside its ``classmethod`` or ``staticmethod`` if it has one."""
    if isinstance(function, (classmethod, staticmethod)):
        return type(function)(decorated(function.__func__, what, wrap))
    if isinstance(function, type):
        return _constructed(function, what, wrap)
    if not callable(function):
        raise TraceError(f"@{what} of {short_repr(function)}: expected a function or a class")
    return wrap(function)


def _constructed(kind: type, what: str, wrap: Callable[[Any], Any]) -> type:
    """Return a class, each of whose instances is made within what `wrap` records."""
    own: Any = kind.__init__  # type: ignore[misc]
    new: Any = kind.__new__

    @wraps(own)
    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        # object's refuses the arguments that another __new__ has taken.
        if own != object.__init__ or new is object.__new__:
            own(self, *args, **kwargs)

    # A span of the class's name, as that of a function.
    made.__qualname__, made.__module__ = kind.__qualname__, kind.__module__
    try:
        kind.__init__ = wrap(made)  # type: ignore[misc]
    except TypeError as error:
        raise TraceError(f"@{what} of {short_repr(kind)}: a class of Python's own") from error
    return kind


def label_of(function: Any, name: str | None = None, category: str | None = None) -> Label:
    """Return the label of a function's spans."""
    own = getattr(function, "__qualname__", None) or type(function).__qualname__
    module = getattr(function, "__module__", None) or "function"
    return Label("span", text_of(name or own), text_of(category or module))


def wrapped(
    function: Any, *, name: str | None = None, category: str | None = None, apart: bool = False
) -> Any:
    """Return a function that records a span for each call; asynchronous ones if `apart`."""
    label = label_of(function, name, category)
    if _makes_context_managers(function):
        import inspect
        from contextlib import asynccontextmanager, contextmanager

        inner, again = function.__wrapped__, contextmanager
        if inspect.isasyncgenfunction(inner):
            apart, again = True, cast("Any", asynccontextmanager)
        call = partial(_Call, label._replace(kind="async") if apart else label)
        return signed(again(within(inner, call)), function)
    call = partial(_Call, label._replace(kind="async"))
    plain = None if apart else partial(_function, label=label)
    return signed(within(function, call, plain), function)


def within(
    function: Any, context: Callable[[], Any], plain: Callable[[Any], Any] | None = None
) -> Any:
    """Return a function of the same kind, each of whose calls runs in a context of its own.

    With `plain`, that wraps what is neither asynchronous nor a generator.
    """
    import inspect

    kind = function if hasattr(function, "__code__") else _kind_of_object(function)
    if inspect.isasyncgenfunction(kind):
        return _async_generator(function, context)
    if inspect.iscoroutinefunction(kind):
        return _coroutine(function, context)
    if inspect.isgeneratorfunction(kind):
        traced = _generator(function, context)
        if kind.__code__.co_flags & inspect.CO_ITERABLE_COROUTINE:
            # By `types.coroutine`: a generator that can be awaited.
            traced = wraps(traced)(coroutine(traced))
        return traced
    return _in_context(function, context) if plain is None else plain(function)


def _kind_of_object(function: Any) -> Any:
    """Return the object or its ``__call__``, whichever shows the kind of the callable."""
    import inspect

    call = type(function).__call__
    kinds = (inspect.isasyncgenfunction, inspect.iscoroutinefunction, inspect.isgeneratorfunction)
    return call if any(is_kind(call) for is_kind in kinds) else function


def signed(traced: Any, function: Any) -> Any:
    """Give a wrapper the signature of the wrapped function, for code that reads only that."""
    from contextlib import suppress
    from inspect import signature

    with suppress(Exception):  # builtins may have none, and annotations may be anything
        traced.__signature__ = signature(function)
    return traced


def _makes_context_managers(function: Any) -> bool:
    """Tell whether ``contextlib.contextmanager`` made `function`."""
    import contextlib

    module = getattr(function, "__globals__", {}).get("__name__")
    code = getattr(getattr(function, "__code__", None), "co_name", None)
    return module == contextlib.__name__ and code == "helper" and hasattr(function, "__wrapped__")


def _function(function: Any, label: Label) -> Any:
    @wraps(function)
    def traced(*args: Any, **kwargs: Any) -> Any:
        if state.off:
            return function(*args, **kwargs)
        start = clock()
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            record(failed(label, error), start, clock())
            raise
        end = clock()
        # What record() does, without the call.
        buffer = state.sink.get(state.fallback).buffer
        buffer += (label, start, end)
        if len(buffer) > buffer.limit:
            buffer.owner.full(buffer)
        return result

    return traced


def _in_context(function: Any, context: Callable[[], Any]) -> Any:
    @wraps(function)
    def traced(*args: Any, **kwargs: Any) -> Any:
        with context():
            return function(*args, **kwargs)

    return traced


def _coroutine(function: Any, context: Callable[[], Any]) -> Any:
    @wraps(function)
    async def traced(*args: Any, **kwargs: Any) -> Any:
        with context():
            return await function(*args, **kwargs)

    return traced


def _generator(function: Any, context: Callable[[], Any]) -> Any:
    @wraps(function)
    def traced(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        with context():
            return (yield from function(*args, **kwargs))

    return traced


def _async_generator(function: Any, context: Callable[[], Any]) -> Any:
    @wraps(function)
    async def traced(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        with context():
            generator = function(*args, **kwargs)
            step, arguments = generator.__anext__, ()
            while True:
                try:
                    value = await step(*arguments)
                except StopAsyncIteration:
                    return
                try:
                    sent = yield value
                except GeneratorExit:
                    await generator.aclose()
                    raise
                except BaseException as error:  # noqa: BLE001  (the generator handles it)
                    step, arguments = generator.athrow, cast("Any", (error,))
                else:
                    step, arguments = generator.asend, cast("Any", (sent,))

    return traced


class _Call:
    """The span of a call that may be suspended."""

    __slots__ = ("label", "start")

    def __init__(self, label: Label) -> None:
        self.label = label

    def __enter__(self) -> None:
        self.start = clock()

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        end, label = clock(), self.label
        if state.off:
            return
        if label.kind == "async" or in_event_loop():
            label = labelled("async", label.name, label.category, None)
        # Closing a generator is no error.
        if error is not None and kind is not GeneratorExit:
            label = failed(label, error)
        record(label, self.start, end)
