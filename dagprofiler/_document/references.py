"""Whether the tasks, edges and rows that a profile document refers to exist."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Any

from dagprofiler._util import JsonObject
from dagprofiler.errors import ProfileError, json_path, one_line


def check_references(document: JsonObject) -> None:
    """Refuse a document that refers to what it does not hold.

    Parameters
    ----------
    document
        A document of the newest version that satisfies ``PROFILE_SCHEMA``.

    Raises
    ------
    ProfileError
        If the name of a task cannot be printed; if a task, an edge or a row of a table is listed
        twice; if something names a task or an edge, or has the index of a row, that does not
        exist; if a row of a table, or a column of samples, is longer or shorter than it must be;
        or if the order contradicts the edges.

    Notes
    -----
    Whether figures agree with each other, as a median with its samples, is not checked. O(V + E)
    time.

    Examples
    --------
    >>> structure = {"nodes": ["a"], "edges": [], "execution_order": ["b"]}
    >>> check_references({"dag_structure": structure})
    Traceback (most recent call last):
    dagprofiler.errors.ProfileError: $.dag_structure.execution_order: there is no task 'b'
    """
    structure = document["dag_structure"]
    order = structure["execution_order"]
    ends = [(edge["source"], edge["target"]) for edge in structure["edges"]]
    # The key tells an edge, unless names hold ``->``.
    keys = [f"{source}->{target}" for source, target in ends]
    tasks, edges = set(structure["nodes"]), set(keys)
    for name in structure["nodes"]:
        if not name.isprintable():
            # It could break lines of tables and files, or change the state of a terminal.
            what = f"the name {name!r} holds characters that cannot be printed"
            raise _error(what, "dag_structure", "nodes")
    _check_distinct("task", structure["nodes"], "dag_structure", "nodes")
    _check_distinct("task", order, "dag_structure", "execution_order")
    _check_distinct("edge", keys, "dag_structure", "edges")
    for path, names in _names_of_tasks(document):
        _check_known("task", names, tasks, *path)
    _check_known("edge", document["edge_weights"], edges, "edge_weights")
    for section in ("samples", "statistics"):
        _check_known("edge", document.get(section, {}).get("edges", ()), edges, section, "edges")
    _check_order(order, ends)
    _check_tables(document, len(keys))
    _check_samples(document.get("samples", {}))


def _names_of_tasks(document: JsonObject) -> Iterator[tuple[tuple[str, ...], Iterable[Any]]]:
    """Yield the path of each part that names tasks, and the names."""
    structure = document["dag_structure"]
    yield ("dag_structure", "edges"), [edge["source"] for edge in structure["edges"]]
    yield ("dag_structure", "edges"), [edge["target"] for edge in structure["edges"]]
    yield ("dag_structure", "execution_order"), structure["execution_order"]
    yield ("node_weights",), document["node_weights"]
    metrics = [entry["task"] for entry in document.get("execution_metrics", ())]
    _check_distinct("task", metrics, "execution_metrics")
    yield ("execution_metrics",), metrics
    yield ("weight_sources",), document.get("weight_sources", ())
    for section, part in (
        *(("run", "tasks"), ("run", "bound"), ("samples", "tasks"), ("spans", "dropped")),
        *(("statistics", part) for part in ("tasks", "cold_ms", "flags")),
        *(("prediction", f"{part}intervals_ms") for part in ("", "serialize_", "deserialize_")),
    ):
        yield (section, part), document.get(section, {}).get(part, ())
    for section in ("timeline", "spans", "origins"):
        records = document.get(section, {}).get("records", ())
        yield (section, "records"), [record[0] for record in records]
    for node, names in document.get("schedule", {}).items():
        yield ("schedule", node), names


def _check_known(what: str, names: Iterable[Any], known: Container[str], *path: str) -> None:
    for name in names:
        # Spans outside of all tasks name none.
        if name is not None and name not in known:
            raise _error(f"there is no {what} {name!r}", *path)


def _check_order(order: Sequence[str], ends: Iterable[tuple[str, str]]) -> None:
    place = {name: i for i, name in enumerate(order)}
    for source, target in ends:
        # A task that the order lacks may come first or last.
        if source == target or place.get(source, -1) > place.get(target, len(order)):
            key = f"{source}->{target}"
            what = f"{target!r} comes before {source!r}, against the edge {key!r}"
            raise _error(what, "dag_structure", "execution_order")


def _check_tables(document: JsonObject, edge_count: int) -> None:
    for section in ("timeline", "spans", "origins", "edge_metrics"):
        table = document.get(section, {"columns": (), "records": ()})
        width = len(table["columns"])
        for i, record in enumerate(table["records"]):
            # An edge that carried nothing has null.
            if record is not None and len(record) != width:
                raise _error(f"{len(record)} entries for {width} columns", section, "records", i)
    for section in ("timeline", "origins"):
        rows = [(row[0], row[1]) for row in document.get(section, {}).get("records", ())]
        _check_distinct("task and round", rows, section, "records")
    if "edge_metrics" in document:
        records = len(document["edge_metrics"]["records"])
        if records != edge_count:
            raise _error(f"{records} records for {edge_count} edges", "edge_metrics", "records")
    spans, workers = document.get("spans", {}), document.get("timeline", {}).get("workers", ())
    threads, labels = spans.get("threads", ()), spans.get("labels", ())
    on_timeline = [row[2] for row in document.get("timeline", {}).get("records", ())]
    of_threads = [thread.get("worker") for thread in threads]
    records = spans.get("records", ())
    _check_indices("worker", on_timeline, len(workers), "timeline", "records")
    _check_indices("worker", of_threads, len(workers), "spans", "threads")
    _check_indices("thread", [row[2] for row in records], len(threads), "spans", "records")
    _check_indices("label", [row[3] for row in records], len(labels), "spans", "records")


def _check_indices(what: str, indices: Iterable[Any], count: int, *path: str) -> None:
    for index in indices:
        # 1.0 is an integer to JSON Schema.
        if index is not None and (type(index) is not int or index >= count):
            raise _error(f"there is no {what} {index}, only {count}", *path)


def _check_samples(samples: JsonObject) -> None:
    rounds = len(samples.get("rounds", ()))
    columns: list[tuple[tuple[str, ...], Any]] = []
    if "total_ms" in samples:
        columns.append((("total_ms",), samples["total_ms"]))
    for part in ("tasks", "edges"):
        for name, row in samples.get(part, {}).items():
            columns += [((part, name, column), values) for column, values in row.items()]
    for path, values in columns:
        if len(values) != rounds:
            raise _error(f"{len(values)} entries for {rounds} rounds", "samples", *path)


def _check_distinct(what: str, names: Sequence[Any], *path: str) -> None:
    if len(set(names)) == len(names):
        return
    earlier = set()
    for name in names:
        if name in earlier:
            raise _error(f"{what} {name!r} is listed twice", *path)
        earlier.add(name)


def _error(message: str, *path: str | int) -> ProfileError:
    return ProfileError(one_line(message, 1000), json_path(path))
