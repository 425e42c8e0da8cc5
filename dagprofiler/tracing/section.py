"""The profile's section ``spans``: what tracing saw inside the tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dagprofiler.tracing.collecting import Packed

__all__ = ["COLUMNS", "Traced", "spans_section"]

#: Columns of the section's records.
COLUMNS = ("task", "round", "thread", "label", "start_ms", "end_ms", "id", "args")


class Traced(NamedTuple):
    """What was recorded of one task in one round.

    Attributes
    ----------
    task, round, worker
        Name; number from 0; index into ``timeline.workers``, or None.
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
    threads: dict[tuple[int | None, int, str, bool], int] = {}
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
            own_id = None if label.id is None else str(label.id)
            beside = None if label.args is None else dict(label.args)
            records.append([task, number, own[thread], which, *times, own_id, beside])
    section: dict[str, Any] = {
        "labels": [dict(zip(("kind", "name", "category"), label)) for label in labels],
        "threads": [dict(zip(("worker", "id", "name", "own"), thread)) for thread in threads],
        "columns": list(COLUMNS),
        "records": records,
    }
    if dropped:
        section["dropped"] = dropped
    return section
