"""The vocabulary of PerfFlowAspect: an annotated program changes an import, and nothing else."""

from __future__ import annotations

import threading
from functools import partial
from itertools import chain
from typing import Any, Callable, NamedTuple, overload

from dagprofiler._util.checks import choice
from dagprofiler.errors import TraceError
from dagprofiler.tracing._process import recorder
from dagprofiler.tracing._recording import Label, clock, new_id, record, state, strand, text_of
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
        label = Label("span", text_of(name), text_of(category))
        _open.mark(pointcut, label, label.category, threading.get_ident())


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
        category, scope = text_of(category), text_of(scope or "")
        args = {"scope": scope} if scope else None
        label = Label("async", text_of(name), category, args, new_id())
        place = strand() if id is None else text_of(id)
        _open.mark(pointcut, label, place, (category, scope), exact=id is not None)


def _marking(function: Any, *, pointcut: str, scope: str) -> Any:
    """Return a function whose calls begin, or end, a span."""
    label = label_of(function)
    when, _, kind = pointcut.partition("_")
    if kind:
        mark = partial(async_event, when, label.name, label.category, scope)
    else:
        mark = partial(sync_event, when, label.name, label.category)
    return signed(within(function, partial(_Marked, mark, before=when == "before")), function)


class _Marked:
    """Calls a function at the start, or at the end, also after an exception."""

    __slots__ = ("_before", "_mark")

    def __init__(self, mark: Callable[[], None], *, before: bool) -> None:
        self._mark, self._before = mark, before

    def __enter__(self) -> None:
        if self._before:
            self._mark()

    def __exit__(self, *_: object) -> None:
        if not self._before:
            self._mark()


class _Begun(NamedTuple):
    """Work that was begun and has not ended: what it is, its place, and when it began."""

    label: Label
    place: Any
    start: float


class _Open:
    """Work that was begun by hand: by thread, or by category and scope."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._begun: dict[Any, list[_Begun]] = {}

    def mark(
        self, pointcut: str, label: Label, place: Any, among: Any, *, exact: bool = False
    ) -> None:
        """Begin or end work, or record an instant in it.

        Parameters
        ----------
        label, place
            What the work is, and where: an end matches best if name and place are those of the
            begin, then if the place is.
        among
            The work with which it is matched.
        exact
            Whether the place must match.
        """
        recorder.start()
        now = clock()
        with self._lock:
            begun = self._begun.setdefault(among, [])
            if pointcut == "before":
                begun.append(_Begun(label, place, now))
                if len(begun) > _MOST_OPEN:
                    oldest = begun.pop(0)
                    _instant(oldest.label, oldest.start, "no 'after' came")
                return
            i = _match(begun, label.name, place, exact=exact)
            found = None if i is None else begun[i]
            if i is not None and pointcut == "after":
                del begun[i]
            if not begun:
                # Numbers of threads come back.
                del self._begun[among]
        if pointcut == "instant":
            number = label.id if found is None else found.label.id
            record(label._replace(kind="async_instant", id=number), now, now)
        elif found is None:
            _instant(label, now, "no 'before' came")
        else:
            record(found.label, found.start, now)

    def finish(self) -> None:
        """End open work at the end of the process."""
        now, note = clock(), {"unfinished": True}
        with self._lock:
            for label, _, start in chain.from_iterable(self._begun.values()):
                record(label._replace(kind="async", args=note, id=label.id or new_id()), start, now)
            self.forget()

    def forget(self) -> None:
        """Reset in a forked process: open work belongs to its parent."""
        self.__init__()  # type: ignore[misc]


def _match(begun: list[_Begun], name: str, place: Any, *, exact: bool) -> int | None:
    """Return the index of the last work that matches best; None if none does."""
    last: dict[int, int] = {}
    for i, work in enumerate(begun):
        fit = 2 * (work.place == place) + (work.label.name == name)
        if fit > 1 or not exact:
            last[fit] = i
    return last[max(last)] if last else None


def _instant(label: Label, moment: float, why: str) -> None:
    record(Label("instant", label.name, label.category, {"note": why}), moment, moment)


_open = _Open()
recorder.by_hand = _open
