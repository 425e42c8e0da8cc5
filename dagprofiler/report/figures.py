"""What a profile says of each task and each edge, in columns that have a label and a unit."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from dagprofiler.rounds import ALLOCATION, MEASURED
from dagprofiler.samples import measured_of
from dagprofiler.sources import entries_of_tasks
from dagprofiler.statistics import median

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dagprofiler.profile import Profile

__all__ = [
    "Figures",
    "edge_figures",
    "edges_of",
    "finite",
    "label_of",
    "medians",
    "task_figures",
    "unit_of",
]


class Figures(NamedTuple):
    """One figure of all tasks, or of all edges.

    Attributes
    ----------
    key
        The name it has in the profile.
    label, unit
        In words; ``"ms"``, ``"bytes"``, ``"instructions"`` or nothing, which is a count.
    values
        In the order of the profile's tasks or edges; None where it is not known.
    """

    key: str
    label: str
    unit: str
    values: list[Any]


_LABELS = {
    "compute_time_ms": "time in compute()",
    "deserialize_time_ms": "deserializing inputs",
    "serialize_time_ms": "serializing outputs",
    "bytes_in": "bytes in",
    "bytes_out": "bytes out",
    "estimated_instructions": "estimated instructions",
    "counted_instructions": "counted instructions",
    "cpu_time_ms": "CPU time",
    "reference_time_ms": "time on the reference machine",
    "node_weights": "node weight",
    "wall_ms": "time in compute()",
    "corrected_ms": "time without run-queue delay",
    "deserialize_ms": "deserializing",
    "serialize_ms": "serializing",
    "delay_ms": "run-queue delay",
    "cpu_ms": "CPU time",
    "process_cpu_ms": "CPU time of the process",
    "children_cpu_ms": "CPU time of child processes",
    "gc_ms": "garbage collection",
    "instructions": "counted instructions",
    "resident_before_bytes": "resident memory before",
    "peak_memory_bytes": "peak memory, more than before",
    "allocation_bytes": "allocated memory",
    "read_bytes": "bytes read",
    "written_bytes": "bytes written",
    "size_bytes": "payload",
    "wire_bytes": "as serialized",
}

_METRICS = (
    "compute_time_ms",
    "deserialize_time_ms",
    "serialize_time_ms",
    "bytes_in",
    "bytes_out",
)
_CANDIDATES = (
    "estimated_instructions",
    "counted_instructions",
    "cpu_time_ms",
    "reference_time_ms",
)

#: Columns of samples whose medians other figures are.
_TOLD = frozenset({"wall_ms", "serialize_ms", "deserialize_ms", "cpu_ms", "instructions"})


def label_of(key: str) -> str:
    """Return a figure's name in words; of a user's meter the name that it has."""
    return _LABELS.get(key, key.replace("_", " "))


def unit_of(key: str) -> str:
    """Return the unit that a figure's name says; nothing for a count."""
    for unit in ("ms", "bytes", "instructions"):
        if unit in key.split("_"):
            return unit
    return "instructions" if key == "node_weights" else ""


def finite(value: Any) -> Any:
    """Return a number that a float can hold; version 0.1.0 wrote others."""
    if isinstance(value, int) and abs(value) >= 2**53:
        limit = sys.float_info.max
        return float(max(-limit, min(value, limit)))
    return value


def task_figures(profile: Profile) -> list[Figures]:
    """Return what is known of tasks, but what is 0 for all of them."""
    return [figures for figures in _of_tasks(profile) if any(figures.values)]


def _of_tasks(profile: Profile) -> Iterator[Figures]:
    names: list[str] = profile.dag_structure["nodes"]
    measured, _ = entries_of_tasks(profile)
    sections = profile.sections
    for key in _METRICS:
        yield _figures(key, (getattr(measured.get(name), key, None) for name in names))
    sources: Mapping[str, Mapping[str, Any]] | None = sections.get("weight_sources")
    if sources is None:
        weights = profile.metrics.node_weights
        yield _figures("node_weights", (finite(weights.get(name)) for name in names))
    else:
        for key in _CANDIDATES:
            yield _figures(key, (finite(sources.get(name, {}).get(key)) for name in names))
    samples = sections.get("samples", {})
    rows = samples.get("tasks", {})
    for key in dict.fromkeys(key for row in rows.values() for key in row):
        if key not in _TOLD:
            yield _figures(key, medians(samples["rounds"], rows, names, key))


def edges_of(profile: Profile) -> list[tuple[str, str]]:
    """Return source and target of each edge, once; 0.1.0's profiles may list one twice."""
    edges = profile.dag_structure["edges"]
    return list(dict.fromkeys((edge["source"], edge["target"]) for edge in edges))


def edge_figures(profile: Profile) -> list[Figures]:
    """Return what is known of edges, in the order of :func:`edges_of`."""
    keys = edges_of(profile)
    carried = {(edge.source, edge.target): edge for edge in profile.metrics.edge_metrics}
    samples = profile.sections.get("samples", {})
    rows, names = samples.get("edges", {}), [f"{source}->{target}" for source, target in keys]
    found = [
        _figures(key, (finite(getattr(carried.get(ends), key, None)) for ends in keys))
        for key in ("size_bytes", "wire_bytes")
    ]
    found += [
        _figures(key, medians(samples["rounds"], rows, names, key))
        for key in ("serialize_ms", "deserialize_ms")
        if rows
    ]
    return [figures for figures in found if any(value is not None for value in figures.values)]


def medians(
    rounds: Sequence[str], rows: Mapping[str, Mapping[str, Any]], names: Sequence[str], key: str
) -> Iterator[Any]:
    """Yield the median of a column for each name; None where nothing was measured."""
    for name in names:
        column = rows.get(name, {}).get(key, ())
        values = measured_of(_counting(rounds, key), column)
        yield median(values) if values else None


def _counting(rounds: Sequence[str], key: str) -> Sequence[str]:
    """Return the rounds; those that count allocations, which have one of their own, as measured."""
    if key != "allocation_bytes":
        return rounds
    return [MEASURED if kind == ALLOCATION else kind for kind in rounds]


def _figures(key: str, values: Iterator[Any]) -> Figures:
    return Figures(key, label_of(key), unit_of(key), list(values))
