"""What tracing saw inside tasks, as events of a trace in Chrome's format."""

from __future__ import annotations

import json
import sys
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from dagprofiler.exporters.graphs import legible
from dagprofiler.rendering import plain_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from collections.abc import Set as AbstractSet

__all__ = ["Home", "Ran", "all_that_ran", "as_json", "moment_ns", "span_events", "times"]

#: The last moment that is finite in nanoseconds.
_MAX_MS = sys.float_info.max / 1e7


_PHASES = ("deserialize", "compute", "serialize")


class Ran(NamedTuple):
    """What one task did in one round; moments in ns from the start of the run."""

    start: int
    end: int
    task: str
    round: int
    phases: tuple[tuple[str, int, int], ...]
    ready_ms: float | None


class Home(NamedTuple):
    """Where a task of a round is in the trace.

    Attributes
    ----------
    start, end
        When it was there, in ns from the run's start.
    place
        Process and thread, as text.
    """

    start: int
    end: int
    place: str


class _Seen(NamedTuple):
    """A span, and where it goes."""

    start: int
    end: int
    kind: str
    name: str
    words: Mapping[str, Any]
    id: str | None


def span_events(
    section: Mapping[str, Any],
    homes: Mapping[tuple[str, int], Home],
    critical: AbstractSet[str],
    place_of: Callable[[int | None, str], str],
) -> Iterator[str]:
    """Yield the events of what was seen inside tasks.

    Parameters
    ----------
    section
        The profile's ``spans``.
    homes
        Task and round to where it is.
    critical
        Tasks on the critical path, whose spans are marked.
    place_of
        Returns process and thread, as text, of a thread beside the tasks', from
        the index of its worker and its name.

    Notes
    -----
    Spans of a task's own thread lie within its phases. Those of one thread that overlap
    without one being in the other become asynchronous. O(n log n) time.
    """
    threads, kinds = section["threads"], [label["kind"] for label in section["labels"]]
    names = [
        f'"name": {as_json(legible(label["name"]))}, "cat": {as_json(legible(label["category"]))}'
        for label in section["labels"]
    ]
    by_place: dict[str, list[_Seen]] = {}
    places: dict[int, str] = {}
    numbers = count(1)
    for task, number, thread, label, start_ms, end_ms, own_id, args, *_ in section["records"]:
        home = homes.get((task, number))
        start, end = moment_ns(start_ms), moment_ns(end_ms)
        words = {} if args is None else dict(args)
        if home is not None and threads[thread]["own"]:
            place = home.place
            # Clocks are read one after the other: what is in a task must not stick out of it.
            start, end = (max(home.start, min(home.end, at)) for at in (start, end))
        else:
            if thread not in places:
                one = threads[thread]
                places[thread] = place_of(one["worker"], f"{one['name']} ({one['id']})")
            place = places[thread]
            words = {"task": task, "round": number, **words}
        if task in critical and threads[thread]["own"]:
            words.setdefault("critical_path", True)
        unique = None if own_id is None else f"{task} {number} {own_id}"
        kind = kinds[label]
        if kind == "counter":
            # Whatever stands beside it would be a counter, too.
            words = _numbers(args or {})
        by_place.setdefault(place, []).append(_Seen(start, end, kind, names[label], words, unique))
    for place, seen in by_place.items():
        seen.sort(key=lambda one: (one.start, -one.end))
        around: list[int] = []
        for one in seen:
            kind = one.kind
            if kind == "span":
                while around and around[-1] <= one.start:
                    around.pop()
                if around and around[-1] < one.end:
                    kind = "async"
                else:
                    around.append(one.end)
            yield from _events(kind, one, place, numbers)


def _numbers(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in values.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    }


def _events(kind: str, one: _Seen, place: str, numbers: Iterator[int]) -> Iterator[str]:
    what = f"{one.name}, {place}"
    if kind == "counter":
        yield f'{{"ph": "C", {what}, "ts": {one.start / 1000}, "args": {as_json(one.words)}}}'
        return
    words = f', "args": {as_json(one.words)}' if one.words else ""
    if kind == "span":
        yield f'{{"ph": "X", {what}, {times(one.start, one.end)}{words}}}'
    elif kind == "instant":
        yield f'{{"ph": "i", "s": "t", {what}, "ts": {one.start / 1000}{words}}}'
    else:
        what += f', "id": {as_json(legible(one.id or f"overlapping {next(numbers)}"))}'
        if kind == "async_instant":
            yield f'{{"ph": "n", {what}, "ts": {one.start / 1000}{words}}}'
        else:
            yield f'{{"ph": "b", {what}, "ts": {one.start / 1000}{words}}}'
            yield f'{{"ph": "e", {what}, "ts": {one.end / 1000}}}'


def all_that_ran(timeline: Mapping[str, Any]) -> list[tuple[int | None, Ran]]:
    """Return the spans of all records in which something began, and their workers."""
    columns: list[str] = timeline["columns"]
    place = {name: i for i, name in enumerate(columns)}
    ready = place.get("ready_ms")
    phases = [
        (phase, place[f"{phase}_start_ms"], place[f"{phase}_end_ms"])
        for phase in _PHASES
        if {f"{phase}_start_ms", f"{phase}_end_ms"} <= place.keys()
    ]
    spans = []
    for record in timeline["records"]:
        done: list[tuple[str, int, int]] = []
        now = first = None
        for phase, start_column, end_column in phases:
            start_ms, end_ms = record[start_column], record[end_column]
            if start_ms is None:
                continue
            # Whatever a file says, phases follow one another.
            start = moment_ns(start_ms) if now is None else max(now, moment_ns(start_ms))
            first = start if first is None else first
            now = start if end_ms is None else max(start, moment_ns(end_ms))
            # Without a duration it could as well lie in the next span.
            if now > start:
                done.append((phase, start, now))
        if first is not None and now is not None:
            ready_ms = None if ready is None else record[ready]
            # An arrow must find its span.
            span = Ran(first, max(now, first + 1), record[0], record[1], tuple(done), ready_ms)
            spans.append((record[2], span))
    return spans


def moment_ns(time_ms: float) -> int:
    """Return a moment in whole nanoseconds; one that is too late for them as late as can be."""
    return round(max(-_MAX_MS, min(time_ms, _MAX_MS)) * 1e6)


def times(start: int, end: int) -> str:
    """Return start and duration of an event, from moments in ns."""
    return f'"ts": {start / 1000}, "dur": {(end - start) / 1000}'


_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=plain_number).encode


def as_json(value: Any) -> str:
    """Return a value as JSON that Perfetto reads as it is meant.

    It takes a quote for escaped wherever a backslash stands before it, be it the second; and
    of a text without quotes it shows the escapes. Half a surrogate pair, which a file in UTF-8
    cannot hold, becomes one.
    """
    text = _encode(value).replace("\\\\", "\\u005c")
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
