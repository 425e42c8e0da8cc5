"""task_spans(): when each task ran in each round, for formats of traces."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from dagprofiler.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dagprofiler._document import ProfileData


#: The last moment that is finite in nanoseconds.
_MAX_MS = sys.float_info.max / 1e7

_PHASES = ("deserialize", "compute", "serialize")


class TaskSpan(NamedTuple):
    """One task in one round.

    Attributes
    ----------
    start, end
        In ns from the start of the run; the end is later than the start.
    task, round
        Name, and number from 0.
    phases
        Name, start and end of each phase that took time, in order.
    ready_ms
        When the task could have started, in ms; None if unknown.
    worker
        Index into ``timeline.workers``; None if unknown.
    failure
        The task's entry of ``run.tasks`` if it did not succeed in this round.
    """

    start: int
    end: int
    task: str
    round: int
    phases: tuple[tuple[str, int, int], ...] = ()
    ready_ms: float | None = None
    worker: int | None = None
    failure: Mapping[str, Any] | None = None


def task_spans(profile: ProfileData) -> list[TaskSpan]:
    """Return a span for each record of the timeline in which something began.

    Raises
    ------
    FormatError
        If the profile has no timeline.
    """
    timeline = profile.sections.get("timeline")
    if timeline is None:
        raise FormatError(
            "the profile has no section 'timeline', so the times of its tasks are unknown; runs "
            "of dagprofiler 0.2 and later write one"
        )
    place = {name: i for i, name in enumerate(timeline["columns"])}
    ready = place.get("ready_ms")
    phases = [
        (phase, place[f"{phase}_start_ms"], place[f"{phase}_end_ms"])
        for phase in _PHASES
        if {f"{phase}_start_ms", f"{phase}_end_ms"} <= place.keys()
    ]
    failures: Mapping[str, Any] = profile.sections.get("run", {}).get("tasks", {})
    spans = []
    for record in timeline["records"]:
        task, number, worker = record[:3]
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
            failure = failures.get(task)
            if failure is not None and failure.get("round", 0) != number:
                failure = None
            ready_ms = None if ready is None else record[ready]
            # An arrow must find its span.
            end = max(now, first + 1)
            spans.append(TaskSpan(first, end, task, number, tuple(done), ready_ms, worker, failure))
    return spans


def moment_ns(time_ms: float) -> int:
    """Return a moment in whole nanoseconds; one that is too late for them as late as can be."""
    return round(max(-_MAX_MS, min(time_ms, _MAX_MS)) * 1e6)
