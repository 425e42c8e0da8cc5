"""What PerfFlowAspect has: annotated programs change an import, and nothing else."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import Any, Callable, NamedTuple, overload

from dagprofiler._util.checks import choice
from dagprofiler._util.interpreter import Span, recording
from dagprofiler.errors import TraceError
from dagprofiler.tracing._recorder import Options, recorder
from dagprofiler.tracing._spans import (
    Function,
    Traced,
    async_ids,
    clock,
    decorated,
    in_event_loop,
    label_of,
    record,
    within,
    wrapped,
)

_POINTCUTS = ("around", "before", "after", "around_async", "before_async", "after_async")


@overload
def critical_path(pointcut: Function, /) -> Function: ...
@overload
def critical_path(pointcut: str = "around", scope: str = "") -> Callable[[Function], Function]: ...
def critical_path(pointcut: Any = "around", scope: str = "") -> Any:
    """Annotate a function that is likely to be on the critical path.

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
        If there is no such pointcut, or what is decorated is no function.

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
        wrap: Callable[[Traced], Traced] = partial(wrapped, apart=pointcut == "around_async")
    else:
        wrap = partial(_marking, pointcut=pointcut, scope=scope)
    return partial(decorated, what="critical_path", wrap=wrap)


def sync_event(pointcut: str, name: object, category: object) -> None:
    """Begin or end a span of this thread by hand.

    Parameters
    ----------
    pointcut
        ``"before"`` or ``"after"``.
    name, category
        Of the span. ``"after"`` ends the last span of this name that was begun in this thread, or
        else the last span. An end without a begin becomes an instant in the trace; a begin
        without an end lasts until the process ends, and is marked.

    Raises
    ------
    TraceError
        If there is no such pointcut.
    """
    choice("pointcut", pointcut, ("before", "after"), error=TraceError)
    now, thread = clock(), threading.get_ident()
    _take(pointcut, _Work(Span("span", str(name), str(category), now, now), thread, thread))


def async_event(pointcut: str, name: Any, category: Any, scope: Any = None, id: Any = None) -> None:
    """Begin or end asynchronous work by hand, or record an instant in it.

    Parameters
    ----------
    pointcut
        ``"before"``, ``"instant"`` or ``"after"``.
    name, category, scope, id
        Of the work. ``"after"`` ends work that was begun with its category, scope and id: by this
        coroutine or thread if possible, then of its name if possible, and the last of several.

    Raises
    ------
    TraceError
        If there is no such pointcut.

    Notes
    -----
    In the trace each work has a unique id. Work without a begin or an end
    is treated as in :func:`sync_event`.
    """
    choice("pointcut", pointcut, ("before", "instant", "after"), error=TraceError)
    scope = str(scope or "")
    args = {"scope": scope} if scope else None
    now = clock()
    span = Span("async", str(name), str(category), now, now, args, next(async_ids))
    _take(pointcut, _Work(span, (str(category), scope, id), _strand()))


def _marking(function: Traced, *, pointcut: str, scope: str) -> Traced:
    """Return a function whose calls begin, or end, a span."""
    name, category = label_of(function)
    when, _, kind = pointcut.partition("_")
    if kind:
        mark = partial(async_event, when, name, category, scope)
    else:
        mark = partial(sync_event, when, name, category)
    return within(function, partial(_marked, mark, before=when == "before"))


def _marked(mark: Callable[[], object], *, before: bool) -> ExitStack:
    """Return a context that marks its beginning, or its end, also after an exception."""
    context = ExitStack()
    if before:
        mark()
    else:
        context.callback(mark)
    return context


class _Work(NamedTuple):
    """Work that is begun or ended by hand.

    Attributes
    ----------
    span
        Its span, which ends where it starts.
    group, strand
        An end matches a begin of its group, best one of its coroutine or thread and of its name.
    """

    span: Span
    group: object
    strand: int


#: Work that has begun and not ended.
_open: list[_Work] = []


def _matching(work: _Work) -> list[_Work]:
    """Return the open work of a group, the best match first, and the last of several."""

    def fit(begun: _Work) -> tuple[bool, bool]:
        return begun.strand == work.strand, begun.span.name == work.span.name

    group = [begun for begun in _open[::-1] if begun.group == work.group]
    return sorted(group, key=fit, reverse=True)


def _take(pointcut: str, work: _Work) -> None:
    """Begin work, end the open work that matches it, or record an instant in that."""
    if recording.off:
        return
    if pointcut == "before":
        _open.append(work)
        return
    span, matching = work.span, _matching(work)
    if pointcut == "instant":
        number = matching[0].span.id if matching else span.id
        record(*span._replace(kind="async_instant", id=number))
    else:
        for begun in matching:
            # Another thread may just have ended it.
            with suppress(ValueError):
                _open.remove(begun)
                record(*begun.span._replace(end=span.end))
                return
        record(*span._replace(kind="instant", args={"note": "no 'before' came"}, id=None))


def _finish() -> None:
    """End open work at the end of the process."""
    end = clock()
    while _open:
        span = _open.pop(0).span
        number = span.id or next(async_ids)
        record(*span._replace(kind="async", end=end, args={"unfinished": True}, id=number))


def _strand() -> int:
    """Return the id of asyncio's current task, or of the thread."""
    if in_event_loop():
        from asyncio import current_task

        return id(current_task())
    return threading.get_ident()


def _boolean(text: str) -> Any:
    return {"true": True, "false": False}.get(text.lower(), text)


#: Option of ``PERFFLOW_OPTIONS`` to the field that it sets, and what reads its value.
_READERS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "name": ("name", str),
    "log-dir": ("directory", str),
    "log-filename-include": ("filename_include", lambda text: text.split(",")),
    "log-enable": ("enable", _boolean),
    "cpu-mem-usage": ("cpu_mem_usage", _boolean),
    "log-event": ("events", str.lower),
}

#: Options of PerfFlowAspect that change nothing here.
_OF_OTHERS = ("log-format", "caliper-enable")


def from_environment(text: str) -> tuple[Options, list[str]]:
    """Return the options in the text of ``PERFFLOW_OPTIONS``, and its problems.

    Problems are not raised: the user of a program may be unable to change it.

    Examples
    --------
    >>> options, problems = from_environment("name=solver:log-enable=no")
    >>> options.name, problems
    ('solver', ["log-enable=no: enable must be True or False, got 'no'"])
    """
    options, problems = Options(), []
    for item in filter(None, text.split(":")):
        key, _, value = item.partition("=")
        try:
            choice("option", key, [*_READERS, *_OF_OTHERS], error=TraceError)
            if key in _READERS:
                field, read = _READERS[key]
                options = replace(options, **{field: read(value)})
        except TraceError as error:
            problems.append(f"{item}: {error}")
    return options, problems


_options, _problems = from_environment(os.environ.get("PERFFLOW_OPTIONS", ""))
for _problem in _problems:
    sys.stderr.write(f"PERFFLOW_OPTIONS: {_problem}\n")
recorder.configure(_options)
recorder.endings.append(_finish)
if hasattr(os, "register_at_fork"):
    # Open work belongs to the parent.
    os.register_at_fork(after_in_child=_open.clear)
