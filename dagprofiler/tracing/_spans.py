"""Spans, counters and instants in a program's own code, and decorators that trace functions.

A span goes to the task or the collection of its context. A thread without either, such as one
that a task has started, records for the task that runs in the process if there is only one, and
for the process otherwise. Each thread has its own list, so that no lock is needed.

Wrappers of users' functions are sent to other processes by value (cloudpickle), so they
reference only functions of modules and :data:`recording`, which pickle by name.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import AsyncGenerator, Generator
from functools import partial, wraps
from itertools import count
from time import perf_counter
from typing import TYPE_CHECKING, Any, Callable, TypeVar, overload

from dagprofiler._util import JsonObject, Values
from dagprofiler._util.interpreter import (
    Collection,
    ThreadSpans,
    here,
    owner,
    recording,
    task_threads,
)
from dagprofiler._util.json import jsonable
from dagprofiler.errors import TraceError, describe, short_repr, shorten

if TYPE_CHECKING:
    from typing_extensions import Self

#: A function that is traced: what it takes and returns passes through.
Traced = Callable[..., Any]

#: Returns the context in which one call runs.
Context = Callable[[], Any]

#: Seconds of the clock of all spans.
clock = perf_counter

#: Numbers of the asynchronous spans of this process.
async_ids = count(1)


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
    """Forget number and name of this thread, which have changed in a forked process."""
    _this_thread.__init__()  # type: ignore[misc]


def record(
    kind: str,
    name: str,
    category: str,
    start: float,
    end: float,
    args: JsonObject | None = None,
    id: int | str | None = None,
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


def with_error(args: JsonObject | None, error: BaseException | None) -> JsonObject | None:
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


def plain(values: Values) -> JsonObject | None:
    """Return arguments as JSON values, as they are now; others as text. None for none."""
    return jsonable(values)[0] if values else None


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
    event loop the span is asynchronous: it has its own track, since others may run while it
    waits. Ending it again does nothing.

    Examples
    --------
    >>> with span("load", path="data.csv") as load:
    ...     load.args["rows"] = 3
    """

    __slots__ = ("_start", "args", "name")

    #: Category of the span.
    category = "span"

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

    def _record(self, kind: str, end: float, error: BaseException | None) -> None:
        start, self._start = self._start, None
        if start is not None:
            args = with_error(plain(self.args), error)
            id = next(async_ids) if kind == "async" else None
            record(kind, self.name, self.category, start, end, args, id)


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


def instant(name: object, /, **args: object) -> None:
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


def counter(name: object, value: object = None, /, **values: object) -> None:
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
    If a value is not a finite number, an instant in the trace says so instead.

    Examples
    --------
    >>> counter("queue", 3)
    >>> counter("workers", busy=2, idle=6)
    """
    if recording.off:
        return
    now = clock()
    values = plain(values if value is None else {"value": value, **values}) or {}
    if values and all(type(number) in (int, float) for number in values.values()):
        record("counter", str(name), "counter", now, now, values)
    else:
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


def decorated(function: Any, what: str, wrap: Callable[[Traced], Traced]) -> Any:
    """Return `function` wrapped, inside its ``classmethod`` or ``staticmethod`` if it has one."""
    if isinstance(function, (classmethod, staticmethod)):
        return type(function)(decorated(function.__func__, what, wrap))
    if isinstance(function, type) or not callable(function):
        raise TraceError(f"@{what} of {short_repr(function)}: expected a function, or a method")
    return wrap(function)


def label_of(function: Traced) -> tuple[str, str]:
    """Return the name and the category of a function's spans."""
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return name, getattr(function, "__module__", None) or "function"


def wrapped(
    function: Traced, *, name: str | None = None, category: str | None = None, apart: bool = False
) -> Traced:
    """Return a function that records a span for each call; asynchronous ones if `apart`."""
    own_name, module = label_of(function)
    label = str(name or own_name), str(category or module)
    if apart or any(is_kind(function) for is_kind, _ in _SUSPENDED):
        return within(function, partial(_Call, *label))
    return _function(function, *label)


def within(function: Traced, context: Context) -> Traced:
    """Return a function of the same kind, each of whose calls runs in a context of its own."""
    for is_kind, wrap in _SUSPENDED:
        if is_kind(function):
            return wrap(function, context)
    return _in_context(function, context)


def _function(function: Traced, name: str, category: str) -> Traced:
    @wraps(function)
    def traced(*args: object, **kwargs: object) -> object:
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


def _in_context(function: Traced, context: Context) -> Traced:
    @wraps(function)
    def traced(*args: object, **kwargs: object) -> object:
        with context():
            return function(*args, **kwargs)

    return traced


def _coroutine(function: Traced, context: Context) -> Traced:
    @wraps(function)
    async def traced(*args: object, **kwargs: object) -> object:
        with context():
            return await function(*args, **kwargs)

    return traced


def _generator(function: Traced, context: Context) -> Traced:
    @wraps(function)
    def traced(*args: object, **kwargs: object) -> Generator[object, object, object]:
        with context():
            return (yield from function(*args, **kwargs))

    return traced


def _async_generator(function: Traced, context: Context) -> Traced:
    @wraps(function)
    async def traced(*args: object, **kwargs: object) -> AsyncGenerator[object, object]:
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
_SUSPENDED: list[tuple[Callable[[Any], bool], Callable[[Traced, Context], Traced]]] = [
    (inspect.isasyncgenfunction, _async_generator),
    (inspect.iscoroutinefunction, _coroutine),
    (inspect.isgeneratorfunction, _generator),
]


class _Call(async_span):
    """The span of a call that may be suspended."""

    __slots__ = ("category",)

    def __init__(self, name: str, category: str) -> None:
        super().__init__(name)
        self.category = category
