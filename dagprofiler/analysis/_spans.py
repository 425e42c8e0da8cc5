"""Time on the critical path by the spans inside its tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dagprofiler._document import ProfileData


@dataclass(frozen=True)
class CriticalSpan:
    """All spans of one name in the tasks on the critical path; times are per round, in ms.

    Attributes
    ----------
    name, category
        Of the spans.
    tasks
        The tasks that contain them, in the order of the path.
    calls
        Number of spans per round.
    total_ms
        Time during which at least one of them was open, in any thread of a task.
    self_ms
        Time in them without that in spans nested in them, added over threads; None for
        asynchronous spans, which wait for each other.
    """

    name: str
    category: str
    tasks: tuple[str, ...]
    calls: float
    total_ms: float
    self_ms: float | None


@dataclass(frozen=True)
class CriticalSpans:
    """Time of ``compute()`` on the critical path by span.

    Attributes
    ----------
    spans
        By decreasing ``self_ms``; asynchronous spans last.
    compute_ms
        Time of ``compute()`` of all tasks on the path, per round.
    uncovered_ms
        The part of `compute_ms` in no span, neither of the thread that ran the task nor of one
        that the task started.
    rounds
        Number of rounds that the means are over.
    dropped
        Number of spans of these tasks that exceeded the tracer's limit, in all rounds; their
        time counts as that of the enclosing spans, or as in no span.
    """

    spans: tuple[CriticalSpan, ...]
    compute_ms: float
    uncovered_ms: float
    rounds: int
    dropped: int


def critical_spans(profile: ProfileData, path: Sequence[str]) -> CriticalSpans | None:
    """Return the time of the tasks of a path by span; None for a profile without spans.

    Over the measured rounds, or over all if none was measured. Of threads that a task started
    counts what lies within its ``compute()``. O(n log n) time in the number of spans.
    """
    section, timeline = profile.sections.get("spans"), profile.sections.get("timeline")
    if section is None or timeline is None:
        return None
    kinds = profile.sections.get("samples", {}).get("rounds", ())
    measured = {number for number, kind in enumerate(kinds) if kind == "measured"}
    place = {task: i for i, task in enumerate(path)}

    def on_path(record: Sequence[Any]) -> bool:
        return record[0] in place and (not measured or record[1] in measured)

    columns = timeline["columns"]
    if not {"compute_start_ms", "compute_end_ms"} <= {*columns}:
        return None
    begin, end = columns.index("compute_start_ms"), columns.index("compute_end_ms")
    computed = {
        (record[0], record[1]): (record[begin], record[end])
        for record in timeline["records"]
        if on_path(record) and None not in (record[begin], record[end])
    }
    rounds = len({number for _, number in computed})
    by_task: dict[tuple[str, int], list[_Interval]] = {}
    for task, number, thread, label, start_ms, end_ms, *_ in filter(on_path, section["records"]):
        if (task, number) in computed:
            begun_ms, ended_ms = start_ms, end_ms
            if not section["threads"][thread]["own"]:
                first_ms, last_ms = computed[task, number]
                begun_ms, ended_ms = max(start_ms, first_ms), min(end_ms, last_ms)
            if begun_ms <= ended_ms:
                by_task.setdefault((task, number), []).append((begun_ms, -ended_ms, label, thread))
    totals: dict[int, _Total] = {}
    compute_ms = uncovered_ms = sum(end_ms - start_ms for start_ms, end_ms in computed.values())
    for (task, _), intervals in by_task.items():
        uncovered_ms -= _add(sorted(intervals), section["labels"], task, totals)
    spans = [
        CriticalSpan(
            section["labels"][label]["name"],
            section["labels"][label]["category"],
            tuple(sorted(total.tasks, key=place.__getitem__)),
            total.calls / rounds,
            total.total_ms / rounds,
            total.self_ms / rounds if section["labels"][label]["kind"] == "span" else None,
        )
        for label, total in totals.items()
    ]
    spans.sort(key=lambda span: (span.self_ms is None, -(span.self_ms or 0.0), -span.total_ms))
    mean_ms = 1 / rounds if rounds else 0.0
    return CriticalSpans(
        tuple(spans),
        compute_ms=compute_ms * mean_ms,
        uncovered_ms=max(0.0, uncovered_ms) * mean_ms,
        rounds=rounds,
        dropped=sum(n for task, n in section.get("dropped", {}).items() if task in place),
    )


#: Start, minus the end, label and thread of a span.
_Interval = tuple[float, float, int, int]


class _Total:
    """Totals of all spans with one label."""

    def __init__(self) -> None:
        self.tasks: set[str] = set()
        self.calls = 0
        self.total_ms = self.self_ms = 0.0


def _add(
    spans: Sequence[_Interval],
    labels: Sequence[dict[str, Any]],
    task: str,
    totals: dict[int, _Total],
) -> float:
    """Add a task's spans in a round, by start, longest first; return the time they cover."""
    covered_ms, covered_until = 0.0, float("-inf")
    #: Label to the end of its latest span: overlapping spans of one name count once.
    until: dict[int, float] = {}
    #: Thread to the open spans around the next one in it.
    open_in: dict[int, list[tuple[float, int]]] = {}
    for start_ms, minus_end_ms, label, thread in spans:
        kind, end_ms = labels[label]["kind"], -minus_end_ms
        if kind not in ("span", "async"):
            continue
        total = totals.setdefault(label, _Total())
        total.tasks.add(task)
        total.calls += 1
        latest = until.get(label, start_ms)
        total.total_ms += max(0.0, end_ms - max(start_ms, latest))
        until[label] = max(latest, end_ms)
        covered_ms += max(0.0, end_ms - max(start_ms, covered_until))
        covered_until = max(covered_until, end_ms)
        if kind == "span":
            around = open_in.setdefault(thread, [])
            while around and around[-1][0] <= start_ms:
                around.pop()
            total.self_ms += end_ms - start_ms
            if around:
                outer_end_ms, outer = around[-1]
                totals[outer].self_ms -= min(end_ms, outer_end_ms) - start_ms
            around.append((end_ms, label))
    return covered_ms
