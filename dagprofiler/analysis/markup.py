"""An analysis as a notebook shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dagprofiler.analysis.text import (
    BOUNDS,
    bottleneck_rows,
    bound_rows,
    figure_rows,
    notes,
    span_note,
    span_rows,
    task_rows,
)
from dagprofiler.markup import Markup, cut_table, details, paragraph, table, view

if TYPE_CHECKING:
    from dagprofiler.analysis import Analysis

__all__ = ["analysis_markup"]

#: Spans that are shown.
_SPANS = 15


def analysis_markup(found: Analysis) -> str:
    """Return the figures and the critical path; behind clicks bounds, bottlenecks and tasks."""
    about, paths = notes(found)
    bounds, bottlenecks, tasks = bound_rows(found), bottleneck_rows(found), task_rows(found)
    return view(
        *(paragraph(line, quiet=True) for line in about),
        table(("", found.weights.unit), figure_rows(found)),
        *map(paragraph, paths),
        details(BOUNDS.rstrip(":"), cut_table(bounds, "", left=())) if len(bounds) > 1 else "",
        details("bottlenecks", cut_table(bottlenecks, "bottlenecks", left=(0, 1))),
        _spans(found),
        details("tasks", cut_table(tasks, "tasks")),
    )


def _spans(found: Analysis) -> Markup:
    critical = found.critical_spans
    if critical is None:
        return Markup()
    rows = span_rows(critical, _SPANS)
    note = paragraph(span_note(critical), quiet=True)
    return details("critical path by span", cut_table(rows, "", left=(0, 1)), note)
