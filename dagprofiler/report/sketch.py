"""The DAG of a profile, for a picture of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dagprofiler.drawing import Sketch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dagprofiler.report.subject import Subject

__all__ = ["sketch_of"]


def sketch_of(subject: Subject) -> Sketch:
    """Return the DAG with what its tasks cost, what edges carry, and the critical path."""
    numbers, paths = subject.numbers, subject.paths
    found = subject.analysis
    lost = subject.sections.get("run", {}).get("tasks", {})
    sizes = (figures.values for figures in subject.edge_figures if figures.key == "size_bytes")
    return Sketch(
        subject.names,
        subject.edges,
        costs=_costs(subject),
        unit="" if found is None else found.weights.unit,
        fields=_fields(subject),
        sizes=next(sizes, ()),
        path=() if paths is None else [numbers[name] for name in paths.critical_path],
        unfinished=[numbers[name] for name in lost],
    )


def _costs(subject: Subject) -> Sequence[Any]:
    """Return what tasks cost; None of those whose cost is not known, but filled in."""
    if subject.analysis is None:
        return ()
    weights = subject.analysis.weights
    filled = set(weights.filled)
    return [None if name in filled else weights.values[name] for name in subject.names]


def _fields(subject: Subject) -> Sequence[str]:
    """Return what each edge carries; nothing of a profile that does not say it."""
    carried = {
        (edge.source, edge.target): ", ".join(edge.data_fields)
        for edge in subject.profile.metrics.edge_metrics
        if edge.data_fields or edge.wire_bytes is not None
    }
    return [carried.get(ends, "") for ends in subject.pairs] if carried else ()
