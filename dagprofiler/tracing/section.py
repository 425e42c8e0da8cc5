"""The profile's section ``spans``: what tracing saw inside the tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dagprofiler.tracing.collecting import Packed

__all__ = ["COLUMNS", "SPANS_SCHEMA", "Traced", "spans_section"]

#: Columns of the section's records.
COLUMNS = ("task", "round", "worker", "thread", "label", "start_ms", "end_ms", "id", "args")


class Traced(NamedTuple):
    """What was recorded of one task in one round.

    Attributes
    ----------
    task, round, worker
        Name; number from 0; number in the timeline's list of workers, or None.
    spans
        What was recorded.
    zero_s
        Reading of the clock of the process that ran it, in seconds, when the run began.
    """

    task: str
    round: int
    worker: int | None
    spans: Packed
    zero_s: float


def spans_section(traced: Iterable[Traced]) -> dict[str, Any]:
    """Return the section as JSON holds it; times are in ms from the run's start.

    O(n) time and memory in the number of spans.

    Examples
    --------
    >>> from dagprofiler.tracing import collecting, span
    >>> with collecting() as collection, span("parse"):
    ...     pass
    >>> section = spans_section([Traced("load", 0, None, collection.packed(), 0.0)])
    >>> section["labels"]
    [{'kind': 'span', 'name': 'parse', 'category': 'span'}]
    """
    labels: dict[tuple[str, str, str], int] = {}
    threads: dict[tuple[int | None, int, str], int] = {}
    records: list[list[Any]] = []
    dropped: dict[str, int] = {}
    for task, number, worker, spans, zero_s in traced:
        if spans.dropped:
            dropped[task] = dropped.get(task, 0) + spans.dropped
        own = [threads.setdefault((worker, *thread), len(threads)) for thread in spans.threads]
        for label, thread, start_s, end_s in spans.spans():
            which = labels.setdefault(label[:3], len(labels))
            start_ms, end_ms = ((s - zero_s) * 1e9 for s in (start_s, end_s))
            times = (round(start_ms) / 1e6, round(end_ms) / 1e6)
            record = [task, number, worker, own[thread], which, *times, label.id]
            records.append([*record, None if label.args is None else dict(label.args)])
    section: dict[str, Any] = {
        "labels": [dict(zip(("kind", "name", "category"), label)) for label in labels],
        "threads": [dict(zip(("worker", "id", "name"), thread)) for thread in threads],
        "columns": list(COLUMNS),
        "records": records,
    }
    if dropped:
        section["dropped"] = dropped
    return section


def _described(kind: Any, description: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "description": description, **more}


def _record(names: dict[str, dict[str, Any]], description: str) -> dict[str, Any]:
    return _described("object", description, properties=names, required=list(names))


_NUMBER_OF_A_WORKER = _described(
    ["integer", "null"], "Number in the timeline's workers, from 0; null if unknown.", minimum=0
)

_LABEL = _record(
    {
        "kind": {
            "enum": ["span", "async", "instant", "async_instant", "counter"],
            "description": "`span`: spans of one thread are nested; `async`: others may run "
            "beside it; `instant`, `async_instant`: without duration; `counter`: a value.",
        },
        "name": _described("string", "What it is called."),
        "category": _described("string", "Module of a function, or what kind of thing it is."),
    },
    "What a span is called.",
)

_THREAD = _record(
    {
        "worker": _NUMBER_OF_A_WORKER,
        "id": _described("integer", "Its number, as the system counts threads."),
        "name": _described("string", "Its name in Python."),
    },
    "A thread that recorded.",
)

#: The section as JSON Schema, draft 2020-12.
SPANS_SCHEMA: dict[str, Any] = _described(
    "object",
    "What tracing saw inside the tasks; absent if nothing was traced.",
    properties={
        "labels": _described("array", "What spans are called.", items=_LABEL),
        "threads": _described("array", "Threads that recorded.", items=_THREAD),
        "columns": _described(
            "array", "Names of the values in each record.", items={"type": "string"}
        ),
        "records": _described(
            "array",
            "One entry a span, its values in the order of `columns`: name of the task; number "
            "of the round, from 0; worker, thread and label by their numbers; start and end in "
            "ms from the run's start; id of what is asynchronous, or null; values beside it, "
            "by name, or null.",
            items={"type": "array"},
        ),
        "dropped": _described(
            "object",
            "Task name -> number of spans for which there was no room; tasks without are absent.",
            additionalProperties=_described("integer", "How many.", minimum=1),
        ),
    },
    required=["labels", "threads", "columns", "records"],
)
