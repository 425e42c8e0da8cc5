"""The vocabulary of PerfFlowAspect: an annotated program changes an import, and nothing else."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any, Callable, NamedTuple, overload

from dagprofiler._util.checks import choice
from dagprofiler._util.interpreter import imported
from dagprofiler.errors import TraceError
from dagprofiler.tracing._process import at_close, recorder
from dagprofiler.tracing._recording import (
    ASYNC,
    ASYNC_INSTANT,
    INSTANT,
    SPAN,
    Label,
    clock,
    in_event_loop,
    new_id,
    plain,
    record,
    state,
    text_of,
)
from dagprofiler.tracing._spans import Function, decorated, label_of, signed, within, wrapped

_POINTCUTS = ("around", "before", "after", "around_async", "before_async", "after_async")
_SYNC = ("before", "after")
_ASYNC = ("before", "instant", "after")

#: How many events of one place may be open; before more, the oldest becomes an instant.
_MOST_OPEN = 1000


@overload
def critical_path(pointcut: Function, /) -> Function: ...
@overload
def critical_path(pointcut: str = "around", scope: str = "") -> Callable[[Function], Function]: ...
def critical_path(pointcut: Any = "around", scope: str = "") -> Any:
    """Annotate a function, or a class, that is likely to be on the critical path.

    Parameters
    ----------
    pointcut
        ``"around"``: a span for each call, as :func:`~dagprofiler.tracing.trace` records it;
        ``"around_async"``: the same on its own track; ``"before"`` and
        ``"before_async"``: a call begins a span; ``"after"`` and ``"after_async"``: the end
        of a call ends the span that was begun last.
    scope
        With ``"before_async"`` and ``"after_async"``: only equal scopes match.

    Returns
    -------
    callable
        A decorator; without parentheses, the decorated function.

    Raises
    ------
    TraceError
        If there is no such pointcut.

    Examples
    --------
    >>> @critical_path(pointcut="around")
    ... def bar(message):
    ...     return message
    >>> bar("hello")
    'hello'
    """
    if isinstance(pointcut, (classmethod, staticmethod)) or callable(pointcut):
        return decorated(pointcut, "critical_path", wrapped)
    choice("pointcut", pointcut, _POINTCUTS, error=TraceError)
    if pointcut in ("around", "around_async"):
        wrap: Callable[[Any], Any] = partial(wrapped, apart=pointcut == "around_async")
    else:
        wrap = partial(_marking, pointcut=pointcut, scope=scope)
    return partial(decorated, what="critical_path", wrap=wrap)


def sync_event(pointcut: str, name: Any, category: Any) -> None:
    """Begin or end a span of this thread by hand.

    Parameters
    ----------
    pointcut
        ``"before"`` or ``"after"``.
    name, category
        Of the span. ``"after"`` ends the last span that was begun with both in this thread,
        or else the last span. An end without a begin becomes an instant in the trace; a begin
        without an end lasts until the process ends, and is marked.

    Raises
    ------
    TraceError
        If there is no such pointcut.
    """
    choice("pointcut", pointcut, _SYNC, error=TraceError)
    if not state.off:
        _open.sync(pointcut, text_of(name), text_of(category))


def async_event(pointcut: str, name: Any, category: Any, scope: Any = None, id: Any = None) -> None:  # noqa: A002  (PerfFlowAspect's)
    """Begin or end asynchronous work by hand, or record an instant in it.

    Parameters
    ----------
    pointcut
        ``"before"``, ``"instant"`` or ``"after"``.
    name, category, scope, id
        Of the work. ``"after"`` ends the last work that was begun with all of them, by this
        coroutine or thread if `id` is None; or else the last one of any thread.

    Raises
    ------
    TraceError
        If there is no such pointcut.

    Notes
    -----
    In the trace each work has a unique id. Work without a begin or an end
    is treated as in :func:`sync_event`.
    """
    choice("pointcut", pointcut, _ASYNC, error=TraceError)
    if not state.off:
        where = (text_of(category), text_of(scope or ""))
        place = _place() if id is None else text_of(id)
        _open.asynchronous(pointcut, text_of(name), where, place)


def _marking(function: Any, *, pointcut: str, scope: str) -> Any:
    """Return a function whose calls begin, or end, a span."""
    label = label_of(function)
    when, _, kind = pointcut.partition("_")
    if kind:
        mark = partial(async_event, when, label.name, label.category, scope)
    else:
        mark = partial(sync_event, when, label.name, label.category)
    marks = _Marks(mark, None) if when == "before" else _Marks(None, mark)
    return signed(within(function, lambda: marks), function)


class _Marks:
    """Calls one function at the start, or one at the end, also after an exception."""

    __slots__ = ("_after", "_before")

    def __init__(self, before: Callable[[], None] | None, after: Callable[[], None] | None) -> None:
        self._before, self._after = before, after

    def __enter__(self) -> None:
        if self._before is not None:
            self._before()

    def __exit__(self, *_: object) -> None:
        if self._after is not None:
            self._after()


class _Begun(NamedTuple):
    """Work that was begun and has not ended: its name, its place, and when it began."""

    name: str
    place: Any
    start: float
    number: int


class _Open:
    """Work that was begun by hand: by thread and category, or by category and scope."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._sync: dict[int, list[_Begun]] = {}
        self._async: dict[tuple[str, str], list[_Begun]] = {}

    def sync(self, pointcut: str, name: str, category: str) -> None:
        recorder.start()
        now, me = clock(), threading.get_ident()
        with self._lock:
            begun = self._sync.setdefault(me, [])
            if pointcut == "before":
                oldest = _begin(begun, _Begun(name, category, now, 0))
                if oldest is not None:
                    _instant(oldest, oldest.place, "no 'after' came")
                return
            found = _end(begun, name, category)
            if not begun:
                # Numbers of threads come back.
                del self._sync[me]
        if found is None:
            _instant(_Begun(name, None, now, 0), category, "no 'before' came")
        else:
            record(Label(SPAN, found.name, found.place), found.start, now)

    def asynchronous(self, pointcut: str, name: str, where: tuple[str, str], place: Any) -> None:
        recorder.start()
        now = clock()
        with self._lock:
            begun = self._async.setdefault(where, [])
            if pointcut == "before":
                oldest = _begin(begun, _Begun(name, place, now, new_id()))
                if oldest is not None:
                    _instant(oldest, where[0], "no 'after' came")
                return
            found = _end(
                begun, name, place, exact=isinstance(place, str), keep=pointcut == "instant"
            )
            if not begun:
                del self._async[where]
        args = plain({"scope": where[1]}) if where[1] else None
        if pointcut == "instant":
            number = new_id() if found is None else found.number
            record(Label(ASYNC_INSTANT, name, where[0], args, number), now, now)
        elif found is None:
            _instant(_Begun(name, None, now, 0), where[0], "no 'before' came")
        else:
            record(Label(ASYNC, found.name, where[0], args, found.number), found.start, now)

    def finish(self) -> None:
        """End open work at the end of the process."""
        now, note = clock(), {"unfinished": True}
        with self._lock:
            for begun in self._sync.values():
                for work in begun:
                    label = Label(ASYNC, work.name, work.place, note, new_id())
                    record(label, work.start, now)
            for where, begun in self._async.items():
                for work in begun:
                    record(Label(ASYNC, work.name, where[0], note, work.number), work.start, now)
            self.forget()

    def forget(self) -> None:
        """Reset in a forked process: open work belongs to its parent."""
        self.__init__()  # type: ignore[misc]


def _begin(begun: list[_Begun], work: _Begun) -> _Begun | None:
    """Add begun work; return the oldest if there is too much."""
    begun.append(work)
    return begun.pop(0) if len(begun) > _MOST_OPEN else None


def _end(
    begun: list[_Begun], name: str, place: Any, *, exact: bool = False, keep: bool = False
) -> _Begun | None:
    """Remove the last that matches best: by name and place, by place, or any.

    With `exact`, the place must match.
    """
    last: dict[int, int] = {}
    for i, work in enumerate(begun):
        fit = 2 * (work.place == place) + (work.name == name)
        if fit > 1 or not exact:
            last[fit] = i
    if not last:
        return None
    i = last[max(last)]
    return begun[i] if keep else begun.pop(i)


def _place() -> Any:
    """Return the id of asyncio's current task, or of the thread."""
    tasks = imported("asyncio.tasks") if in_event_loop() else None
    task = None if tasks is None else tasks.current_task()
    if task is not None:
        return id(task)
    return threading.get_ident()


def _instant(work: _Begun, category: str, why: str) -> None:
    record(Label(INSTANT, work.name, category, {"note": why}), work.start, work.start)


_open = _Open()
at_close(_open.finish, after_fork=_open.forget)
