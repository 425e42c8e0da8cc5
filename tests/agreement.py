"""Whether the figures of a document agree with each other: an oracle of what we write."""

from math import isclose
from statistics import median

from dagprofiler._document.references import check_references
from dagprofiler._document.rounds import MEASURED, MOMENTS, measured_of
from dagprofiler.schema import validate_profile

#: Times of ``execution_metrics``, and the columns of samples whose medians they are.
TIMES = {
    "compute_time_ms": "wall_ms",
    "serialize_time_ms": "serialize_ms",
    "deserialize_time_ms": "deserialize_ms",
}


def check_agreement(document):
    """Assert that a document of ours is valid, and that nothing in it contradicts the rest."""
    assert validate_profile(document)
    check_references(document)
    samples, statistics = document.get("samples", {}), document.get("statistics", {})
    for path, summary in quantities(statistics):
        assert summary.get("low", summary["median"]) <= summary["median"], path
        assert summary["median"] <= summary.get("high", summary["median"]), path
        assert summary.get("min", summary["median"]) <= summary["median"], path
    if samples:
        check_medians(document, dict(quantities(samples)), dict(quantities(statistics)))
    check_bytes(document)
    check_moments(document.get("timeline", {"columns": (), "records": ()}), document)
    for name, entry in document.get("weight_sources", {}).items():
        choice = entry["node_weight"]
        if choice in ("default", "estimated_instructions"):
            assert document["node_weights"].get(name, 0) == entry.get(choice, 0), name
    run = document.get("run", {"state": "complete"})
    assert run["state"] == "partial" or not run.get("tasks")
    for record in document.get("spans", {}).get("records", ()):
        assert record[4] <= record[5], record


def quantities(section):
    """Yield the path and the entry of each quantity in ``samples`` or ``statistics``."""
    if "total_ms" in section:
        yield "total_ms", section["total_ms"]
    for part in ("tasks", "edges"):
        for name, row in section.get(part, {}).items():
            yield from (((part, name, column), entry) for column, entry in row.items())


def check_medians(document, columns, summaries):
    kinds = document["samples"]["rounds"]
    for path, values in columns.items():
        if path in summaries:
            column = path if isinstance(path, str) else path[-1]
            measured = measured_of(kinds, values, column)
            assert summaries[path]["n"] == len(measured), path
            assert close(summaries[path]["median"], median(measured)), path
    for entry in document.get("execution_metrics", ()):
        row = document["samples"]["tasks"].get(entry["task"], {})
        for name, column in TIMES.items():
            # A run without measured rounds has the times of its warm-up rounds.
            counted = kinds if MEASURED in kinds else [MEASURED] * len(kinds)
            measured = measured_of(counted, row.get(column, ()))
            if name in entry and measured:
                assert close(entry[name], median(measured)), (entry, column)


def close(value, other):
    """Tell whether two times agree, which are rounded to the nanosecond once or twice."""
    return isclose(value, other, rel_tol=1e-6, abs_tol=2e-6)


def check_bytes(document):
    edges = document["dag_structure"]["edges"]
    table = document.get("edge_metrics", {"columns": (), "records": ()})
    for edge, record in zip(edges, table["records"]):
        if record is None:
            continue
        row = dict(zip(table["columns"], record))
        key = f"{edge['source']}->{edge['target']}"
        assert document["edge_weights"].get(key, 8 * row["size_bytes"]) == 8 * row["size_bytes"]
        fields = row.get("fields")
        if fields is not None:
            assert fields.keys() == {*row["data_fields"]}, key
            for size in ("size_bytes", "wire_bytes"):
                parts = [part.get(size) for part in fields.values()]
                assert None in (*parts, row[size]) or sum(parts) == row[size], (key, size)


def check_moments(timeline, document):
    """Assert that moments are in order, and that tasks start after their predecessors."""
    columns = timeline["columns"]
    # ready_ms, or each worker, may be of another clock than the other moments.
    one_clock = not any("clock_ahead_ms" in worker for worker in timeline.get("workers", ()))
    names = [name for name in MOMENTS[not one_clock :] if name in columns]
    spans = {}
    for record in timeline["records"]:
        row = dict(zip(columns, record))
        moments = [row[name] for name in names if row[name] is not None]
        assert moments == sorted(moments), row
        phases = [row[name] for name in names if name != "ready_ms" and row[name] is not None]
        if phases:
            spans[row["task"], row["round"]] = phases[0], phases[-1]
    for (task, number), (start, _) in spans.items() if one_clock else ():
        for edge in document["dag_structure"]["edges"]:
            if edge["target"] == task and (edge["source"], number) in spans:
                assert spans[edge["source"], number][1] <= start, (edge, number)
