"""Spans, counters and instants in a program's own code, and decorators that trace functions."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Generator
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Callable, TypeVar, overload

from dagprofiler._util.interpreter import recording
from dagprofiler.errors import TraceError, short_repr
from dagprofiler.tracing._state import (
    clock,
    in_event_loop,
    new_id,
    plain,
    record,
    with_error,
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
    since others may run while it waits. Ending it again does nothing.

    Examples
    --------
    >>> with span("load", path="data.csv") as load:
    ...     load.args["rows"] = 3
    """

    __slots__ = ("_start", "args", "name")

    def __init__(self, name: Any, /, **args: Any) -> None:
        self.name = str(name)
        self.args = args
        self._start: float | None = None

    def __enter__(self) -> Self:
        self._start = clock()
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        end = clock()
        if not recording.off:
            self._record("async" if in_event_loop() else "span", end, error)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, kind: object, error: BaseException | None, _: object) -> None:
        self.__exit__(kind, error, None)

    def _record(self, kind: str, end: float, error: BaseException | None) -> None:
        start, self._start = self._start, None
        if start is None:
            return
        args = plain(self.args) if self.args else None
        if error is not None:
            args = with_error(args, error)
        record(kind, self.name, "span", start, end, args, new_id() if kind == "async" else None)


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
        self.end(error)

    def begin(self) -> Self:
        """Begin the span and return it."""
        return self.__enter__()

    def end(self, error: BaseException | None = None) -> None:
        """End the span and record `error`, if given."""
        now = clock()
        if not recording.off:
            self._record("async", now, error)


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
    if not recording.off:
        now = clock()
        record("instant", str(name), "instant", now, now, plain(args))


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
    if recording.off:
        return
    now = clock()
    values = plain(values if value is None else {"value": value, **values}) or {}
    numbers = {
        key: number
        for key, number in values.items()
        if isinstance(number, (int, float)) and not isinstance(number, bool)
    }
    if numbers:
        record("counter", str(name), "counter", now, now, numbers)
    if not numbers or numbers != values:
        instant("counter without a number", name=name, values=values)


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
        What is called: a function, method, coroutine or generator, asynchronous or not, or
        anything else that can be called, except classes.
    name
        Name of the spans; by default the function's qualified name.
    category
        Category of the span; by default the function's module.

    Returns
    -------
    callable
        A function of the same kind, with the same name, signature and documentation.

    Raises
    ------
    TraceError
        If `function` is a class or is not callable.

    Notes
    -----
    A span lasts until the work is done: for a coroutine until it returns, for a generator
    from the first requested value until it is exhausted or closed. Spans of coroutines are
    asynchronous, and so are those of generators, since other work runs in between. Below
    ``@contextmanager`` the span of the generator lasts as long as the ``with`` block.
    An exception ends the span, is recorded in it and propagates. With tracing off a call costs
    one check of a flag.

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
    if isinstance(function, type) or not callable(function):
        raise TraceError(
            f"@{what} of {short_repr(function)}: expected a function; of a class decorate methods"
        )
    return wrap(function)


def label_of(function: Any) -> tuple[str, str]:
    """Return the name and the category of a function's spans."""
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return name, getattr(function, "__module__", None) or "function"


def wrapped(
    function: Any, *, name: str | None = None, category: str | None = None, apart: bool = False
) -> Any:
    """Return a function that records a span for each call; asynchronous ones if `apart`."""
    own_name, module = label_of(function)
    label = str(name or own_name), str(category or module)
    if apart or any(is_kind(function) for is_kind, _ in _SUSPENDED):
        return within(function, partial(_Call, *label))
    return _function(function, *label)


def within(function: Any, context: Callable[[], Any]) -> Any:
    """Return a function of the same kind, each of whose calls runs in a context of its own."""
    for is_kind, wrap in _SUSPENDED:
        if is_kind(function):
            return wrap(function, context)
    return _in_context(function, context)


def _function(function: Any, name: str, category: str) -> Any:
    @wraps(function)
    def traced(*args: Any, **kwargs: Any) -> Any:
        if recording.off:
            return function(*args, **kwargs)
        start = clock()
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            record("span", name, category, start, clock(), with_error(None, error))
            raise
        record("span", name, category, start, clock())
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
            step = generator.__anext__()
            while True:
                try:
                    value = await step
                except StopAsyncIteration:
                    return
                try:
                    sent = yield value
                except GeneratorExit:
                    await generator.aclose()
                    raise
                except BaseException as error:  # noqa: BLE001  (the generator handles it)
                    step = generator.athrow(error)
                else:
                    step = generator.asend(sent)

    return traced


#: How to tell the functions whose calls may be suspended, and what wraps them.
_SUSPENDED: list[tuple[Callable[[Any], bool], Callable[[Any, Any], Any]]] = [
    (inspect.isasyncgenfunction, _async_generator),
    (inspect.iscoroutinefunction, _coroutine),
    (inspect.isgeneratorfunction, _generator),
]


class _Call:
    """The span of a call that may be suspended, on its own track."""

    __slots__ = ("category", "name", "start")

    def __init__(self, name: str, category: str) -> None:
        self.name, self.category = name, category

    def __enter__(self) -> None:
        self.start = clock()

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if not recording.off:
            args = with_error(None, error)
            record("async", self.name, self.category, self.start, clock(), args, new_id())
