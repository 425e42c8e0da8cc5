"""An analysis as a notebook shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dagprofiler.analysis.text import (
    BOUNDS,
    bottleneck_rows,
    bound_rows,
    figure_rows,
    notes,
    span_notes,
    span_rows,
    task_rows,
)
from dagprofiler.markup import cut_table, details, paragraph, table, view

if TYPE_CHECKING:
    from dagprofiler.analysis import Analysis

__all__ = ["analysis_markup"]


def analysis_markup(found: Analysis) -> str:
    """Return the figures and the critical path; behind clicks bounds, bottlenecks and tasks."""
    about, paths = notes(found)
    bounds, bottlenecks, tasks = bound_rows(found), bottleneck_rows(found), task_rows(found)
    spans = span_rows(found)
    return view(
        *(paragraph(line, quiet=True) for line in about),
        table(("", found.weights.unit), figure_rows(found)),
        *map(paragraph, paths),
        details(BOUNDS.rstrip(":"), cut_table(bounds, "", left=())) if len(bounds) > 1 else "",
        details("bottlenecks", cut_table(bottlenecks, "bottlenecks", left=(0, 1))),
        details("critical path by span", table(spans[0], spans[1:], left=(0, 1))) if spans else "",
        *(paragraph(line, quiet=True) for line in span_notes(found)),
        details("tasks", cut_table(tasks, "tasks")),
    )
