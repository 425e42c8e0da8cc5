"""Whether the tasks, edges and rows that a profile document refers to exist."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from itertools import chain
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
    nodes, order = structure["nodes"], structure["execution_order"]
    ends = [(edge["source"], edge["target"]) for edge in structure["edges"]]
    # The key tells an edge, unless names hold ``->``.
    keys = [f"{source}->{target}" for source, target in ends]
    tasks, edges = set(nodes), set(keys)
    metrics = [entry["task"] for entry in document.get("execution_metrics", ())]
    for name in nodes:
        if not name.isprintable():
            # It could break lines of tables and files, or change the state of a terminal.
            what = f"the name {name!r} holds characters that cannot be printed"
            raise _error(what, "dag_structure", "nodes")
    _check_distinct("task", nodes, "dag_structure", "nodes")
    _check_distinct("task", order, "dag_structure", "execution_order")
    _check_distinct("edge", keys, "dag_structure", "edges")
    _check_distinct("task", metrics, "execution_metrics")
    _check_known("task", chain.from_iterable(ends), tasks, "dag_structure", "edges")
    _check_known("task", metrics, tasks, "execution_metrics")
    for node, names in document.get("schedule", {}).items():
        _check_known("task", names, tasks, "schedule", node)
    for path in _PATHS_OF_TASKS:
        _check_known("task", _part(document, *path), tasks, *path)
    for path in _PATHS_OF_EDGES:
        _check_known("edge", _part(document, *path), edges, *path)
    _check_order(order, ends)
    _check_tables(document, tasks, len(keys))
    _check_samples(document.get("samples", {}))


#: Lists of tasks, and objects whose keys are tasks.
_PATHS_OF_TASKS = (
    *(("dag_structure", "execution_order"), ("node_weights",), ("weight_sources",)),
    *(("run", "tasks"), ("run", "bound"), ("samples", "tasks"), ("spans", "dropped")),
    *(("statistics", part) for part in ("tasks", "cold_ms", "flags")),
    *(("prediction", f"{part}intervals_ms") for part in ("", "serialize_", "deserialize_")),
)

#: Objects whose keys are edges.
_PATHS_OF_EDGES = (("edge_weights",), ("samples", "edges"), ("statistics", "edges"))


def _part(document: JsonObject, *path: str) -> Any:
    """Return a part of a document; an empty one if the document lacks it."""
    part: Any = document
    for key in path:
        part = part.get(key, {})
    return part


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


def _check_tables(document: JsonObject, tasks: Container[str], edge_count: int) -> None:
    tables = ("timeline", "spans", "origins", "edge_metrics")
    rows = {section: _part(document, section, "records") for section in tables}
    for section, records in rows.items():
        width = len(_part(document, section, "columns"))
        for i, record in enumerate(records):
            # An edge that carried nothing has null.
            if record is not None and len(record) != width:
                raise _error(f"{len(record)} entries for {width} columns", section, "records", i)
    for section in ("timeline", "spans", "origins"):
        _check_known("task", [row[0] for row in rows[section]], tasks, section, "records")
    for section in ("timeline", "origins"):
        keys = [(row[0], row[1]) for row in rows[section]]
        _check_distinct("task and round", keys, section, "records")
    if "edge_metrics" in document and len(rows["edge_metrics"]) != edge_count:
        what = f"{len(rows['edge_metrics'])} records for {edge_count} edges"
        raise _error(what, "edge_metrics", "records")
    workers = len(_part(document, "timeline", "workers"))
    threads, labels = _part(document, "spans", "threads"), _part(document, "spans", "labels")
    of_threads = [thread.get("worker") for thread in threads]
    _check_indices("worker", [row[2] for row in rows["timeline"]], workers, "timeline", "records")
    _check_indices("worker", of_threads, workers, "spans", "threads")
    _check_indices("thread", [row[2] for row in rows["spans"]], len(threads), "spans", "records")
    _check_indices("label", [row[3] for row in rows["spans"]], len(labels), "spans", "records")


def _check_indices(what: str, indices: Iterable[Any], count: int, *path: str) -> None:
    for index in indices:
        # 1.0 is an integer to JSON Schema.
        if index is not None and (type(index) is not int or index >= count):
            raise _error(f"there is no {what} {index}, only {count}", *path)


def _check_samples(samples: JsonObject) -> None:
    rounds = len(samples.get("rounds", ()))
    columns: dict[tuple[str, ...], Any] = {}
    if "total_ms" in samples:
        columns["total_ms",] = samples["total_ms"]
    for part in ("tasks", "edges"):
        for name, row in samples.get(part, {}).items():
            columns.update({(part, name, column): values for column, values in row.items()})
    for path, values in columns.items():
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
