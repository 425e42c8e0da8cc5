"""An analysis as text for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dagprofiler.errors import counted
from dagprofiler.quantities import MOST_ROWS, aligned, and_more, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dagprofiler.analysis import Analysis
    from dagprofiler.analysis.spans import CriticalSpans

__all__ = [
    "BOUNDS",
    "analysis_text",
    "bottleneck_rows",
    "bound_rows",
    "figure_rows",
    "notes",
    "span_note",
    "span_rows",
    "task_rows",
]

#: What is to be said of the bounds.
BOUNDS = "equal workers, communication free:"


def analysis_text(found: Analysis) -> str:
    """Return the figures of an analysis, and tables of bounds, bottlenecks and tasks.

    Of a large one the first 40 bottlenecks and tasks are shown.
    """
    return "\n".join(
        [
            *notes(found)[0],
            "",
            *aligned(figure_rows(found)),
            "",
            *notes(found)[1],
            *_table(BOUNDS, bound_rows(found), left=()),
            *_table("", bottleneck_rows(found), "bottlenecks", left=(0, 1)),
            *_spans(found),
            *_table("", task_rows(found), "tasks"),
        ]
    )


def _table(
    head: str, rows: Sequence[Sequence[str]], what: str = "", left: Sequence[int] = (0,)
) -> list[str]:
    """Return an empty line and a table with what is above it; of a long one the first rows."""
    if len(rows) < 2:
        return []
    lines = ["", *([head] if head else ()), *aligned(rows[: MOST_ROWS + 1], left=left)]
    return [*lines, *(and_more(len(rows) - 1, what) if what else ())]


def notes(found: Analysis) -> tuple[list[str], list[str]]:
    """Return what the figures are of, a line each, and the critical paths."""
    weights, without = found.weights, found.without_communication
    communicating, widest = found.with_communication, max(found.widths, default=0)
    tasks, levels = counted(len(found.levels), "task"), counted(len(found.widths), "level")
    lines = [
        f"{tasks} in {levels} of up to {widest:,}, in {weights.unit}",
        f"costs: {printable(weights.provenance)}",
        f"communication: {found.communication_note}",
    ]
    if weights.filled:
        lines.append(
            f"given, not measured, for {counted(len(weights.filled), 'task')}: "
            f"{_few(weights.filled)}"
        )
    if found.unknown_edges:
        edges = counted(len(found.unknown_edges), "edge")
        lines.append(f"unknown, counted as 0, on {edges}: {_few(found.unknown_edges)}")
    paths = [f"critical path: {_route(without.critical_path)}"]
    if communicating is not None and communicating.critical_path != without.critical_path:
        paths.append(f"with communication: {_route(communicating.critical_path)}")
    return lines, paths


def figure_rows(found: Analysis) -> list[tuple[str, str]]:
    """Return the figures of the whole."""
    communicating = found.with_communication
    rows = [("work", _figure(found.work)), ("span", _figure(found.span))]
    if communicating is not None:
        rows.append(("span with communication", _figure(communicating.span)))
    return [
        *rows,
        ("average parallelism", _figure(found.average_parallelism)),
        ("communication / computation", _figure(found.ccr)),
    ]


def bound_rows(found: Analysis) -> list[Sequence[str]]:
    """Return the bounds for 1, 2, 4 ... workers until more of them are of no use, below a head."""
    rows: list[Sequence[str]] = [
        ("workers", "makespan at least", "at most, if greedy", "speed-up at most")
    ]
    parallelism, workers = found.average_parallelism, 1
    while parallelism is not None:
        bounds = (
            found.makespan_at_least(workers),
            found.makespan_at_most(workers),
            found.speedup_at_most(workers),
        )
        rows.append((f"{workers:,}", *map(_figure, bounds)))
        if workers >= parallelism:
            break
        workers *= 2
    return rows


def bottleneck_rows(found: Analysis) -> list[Sequence[str]]:
    """Return the bottlenecks, below a head."""
    return [
        ("bottleneck", "", "cost", "gain if free"),
        *(
            (printable(one.name), one.kind, _figure(one.cost), _figure(one.gain))
            for one in found.bottlenecks
        ),
    ]


def _spans(found: Analysis) -> list[str]:
    """Return a table of the spans inside the tasks on the critical path."""
    critical = found.critical_spans
    if critical is None:
        return []
    more = and_more(len(critical.spans), "spans")
    return ["", *aligned(span_rows(critical, MOST_ROWS), left=(0, 1)), *more, span_note(critical)]


def span_rows(critical: CriticalSpans, most: int) -> list[Sequence[str]]:
    """Return the spans on the critical path, at most so many, and what is in none, below a head."""
    rows: list[Sequence[str]] = [
        ("critical path by span", "in", "calls", "total ms", "self ms", "of the path")
    ]
    for one in critical.spans[:most]:
        taken_ms = one.total_ms if one.self_ms is None else one.self_ms
        figures = map(_figure, (one.calls, one.total_ms, one.self_ms))
        share = _share(taken_ms, critical.compute_ms)
        rows.append((printable(one.name), _few(one.tasks), *figures, share))
    uncovered_ms = critical.uncovered_ms
    share = _share(uncovered_ms, critical.compute_ms)
    return [*rows, ("(in no span)", "", "", "", _figure(uncovered_ms), share)]


def span_note(critical: CriticalSpans) -> str:
    """Return what the shares of spans are of."""
    means = f"means of {counted(critical.rounds, 'round')}" if critical.rounds > 1 else "one round"
    note = f"time of compute() on the path: {_figure(critical.compute_ms)} ms, {means}"
    if not critical.dropped:
        return note
    return f"{note}; there was no room for {counted(critical.dropped, 'span')}: Tracer(limit=...)"


def _share(part_ms: float, whole_ms: float) -> str:
    return f"{part_ms / whole_ms:.1%}" if whole_ms else "-"


def task_rows(found: Analysis) -> list[Sequence[str]]:
    """Return the tasks by their earliest start, below a head."""
    paths = found.with_communication or found.without_communication
    starts = paths.earliest_start
    rows: list[Sequence[str]] = [
        ("task", "level", "cost", "earliest start", "latest start", "slack")
    ]
    for name in sorted(starts, key=lambda name: (starts[name], found.levels[name], name)):
        figures = (
            found.levels[name],
            found.weights.values[name],
            starts[name],
            paths.latest_start[name],
            paths.slack[name],
        )
        rows.append((printable(name), *map(_figure, figures)))
    return rows


def _figure(value: float | None) -> str:
    """Return a number with three decimals; a small one, which these would hide, with its digits."""
    if value is None:
        return "-"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.3g}" if 0 < value < 0.1 else f"{value:,.3f}"


def _few(names: Sequence[str]) -> str:
    return ", ".join(map(printable, names[:5])) + (", ..." if len(names) > 5 else "")


def _route(names: Sequence[str]) -> str:
    """Return the tasks of a path; of a long one the first and the last."""
    shown = [*map(printable, names)]
    if len(shown) > 12:
        shown[6:-5] = [f"... {len(shown) - 11:,} more ..."]
    return " -> ".join(shown) or "-"
