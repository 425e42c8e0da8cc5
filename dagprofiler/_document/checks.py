"""Whether a profile document that satisfies the schema agrees with itself.

Every check first tests a whole column with builtins that loop in C, and looks
for the wrong entry only if the test fails.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, repeat
from math import inf, isclose
from operator import eq, itemgetter, le, mul, ne
from typing import Any

from dagprofiler._document.rounds import MEASURED, MOMENTS, counting, measured_of
from dagprofiler._document.sections import ProfileDocument
from dagprofiler._document.shapes import MAX_INT, Row, fields_of, inner_shape
from dagprofiler._util import grouped
from dagprofiler.errors import CycleError, ProfileError, json_path, short_repr, shorten
from dagprofiler.graph.wiring import kahn_order
from dagprofiler.stats import median

#: Built-in columns of samples; those of a user's meter may be negative.
_NEVER_NEGATIVE = frozenset(
    {
        *("wall_ms", "corrected_ms", "serialize_ms", "deserialize_ms", "total_ms"),
        *("delay_ms", "cpu_ms", "process_cpu_ms", "children_cpu_ms", "gc_ms", "gil_ms"),
        *("instructions", "page_faults", "voluntary_switches", "involuntary_switches"),
        *("read_bytes", "written_bytes", "resident_before_bytes", "peak_memory_bytes"),
        *("allocation_bytes", "size_bytes", "wire_bytes"),
    }
)

#: Times of ``execution_metrics``, and the columns of samples whose medians they are.
_TIMES = {
    "compute_time_ms": "wall_ms",
    "serialize_time_ms": "serialize_ms",
    "deserialize_time_ms": "deserialize_ms",
}

#: Tolerance between a median and that of its samples, absolute or relative: times are
#: rounded to the nanosecond.
_ROUNDING = 1e-6


def check_samples(
    samples: Mapping[str, Any],
    statistics: Mapping[str, Any],
    metrics: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Refuse impossible samples, and statistics that contradict them.

    Parameters
    ----------
    samples, statistics
        The sections of a document that satisfies ``PROFILE_SCHEMA``;
        `statistics` may be empty.
    metrics
        Its ``execution_metrics``.

    Raises
    ------
    ProfileError
        At the first column without an entry for each round, sample of a built-in
        column below 0, summary with a wrong number of samples or median, or time in
        `metrics` that is not the median of its samples.

    Examples
    --------
    >>> samples = {"rounds": ["measured"], "total_ms": [4.0], "tasks": {}}
    >>> check_samples(samples, {"total_ms": {"median": 4.0, "n": 2}})
    Traceback (most recent call last):
    dagprofiler.errors.ProfileError: $.statistics.total_ms.n: 2 values here, but 1 in samples
    """
    kinds = samples["rounds"]
    columns = dict(_entries(samples))
    for path, values in columns.items():
        if len(values) != len(kinds):
            raise _error(f"{len(values)} entries for {len(kinds)} rounds", "samples", *path)
        if path[-1] in _NEVER_NEGATIVE and min([v for v in values if v is not None], default=0) < 0:
            i = next(i for i, v in enumerate(values) if v is not None and v < 0)
            raise _error(f"{values[i]} is less than 0", "samples", *path, i)
    for path, summary in _entries(statistics):
        # An entry on one side only is no contradiction.
        if path in columns:
            measured = measured_of(counting(kinds, path[-1]), columns[path])
            if len(measured) != summary["n"]:
                problem = f"{summary['n']} values here, but {len(measured)} in samples"
                raise _error(problem, "statistics", *path, "n")
            _check_median(summary["median"], measured, 1, "statistics", *path, "median")
    for i, entry in enumerate(metrics):
        columns_of_task = samples["tasks"].get(entry["task"], {})
        for name, column in _TIMES.items():
            if name in entry and column in columns_of_task:
                # A run without measured rounds has the times of its warm-up rounds.
                counted = kinds if MEASURED in kinds else [MEASURED] * len(kinds)
                if values := measured_of(counted, columns_of_task[column]):
                    _check_median(entry[name], values, 2, "execution_metrics", i, name)


def check_intervals(statistics: Mapping[str, Any]) -> None:
    """Refuse summaries whose median lies outside the interval, or below the minimum."""
    for path, summary in _entries(statistics):
        for least, most in (("low", "median"), ("median", "high"), ("min", "median")):
            if least in summary and most in summary and summary[least] > summary[most]:
                raise _error(
                    f"{least} is {summary[least]}, more than {most}, which is {summary[most]}",
                    *("statistics", *path, least),
                )


def _check_prediction(section: Mapping[str, Any]) -> None:
    """Refuse intervals of a prediction that are not a lower and an upper end."""
    found: list[tuple[tuple[Any, ...], Any]] = [(("interval_ms",), section.get("interval_ms"))]
    for i, point in enumerate(section.get("curve", ())):
        found.append((("curve", i, "interval_ms"), point.get("interval_ms")))
    for key in ("intervals_ms", "serialize_intervals_ms", "deserialize_intervals_ms"):
        found += [((key, name), ends) for name, ends in section.get(key, {}).items()]
    for path, ends in found:
        if ends is not None and len(ends) != 2:
            message = f"expected a lower and an upper end, got {short_repr(ends)}"
            raise _error(message, "prediction", *path)


def _entries(section: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the path and the entry of each quantity in a section."""
    if "total_ms" in section:
        yield ("total_ms",), section["total_ms"]
    for kind in ("tasks", "edges"):
        for name, row in section.get(kind, {}).items():
            for column, entry in row.items():
                yield (kind, name, column), entry


def _check_median(value: float, samples: list[Any], slack: int, *path: Any) -> None:
    """Check that a value is the median of samples, which are rounded as often as `slack` says."""
    middle = median(samples)
    if not isclose(value, middle, rel_tol=_ROUNDING, abs_tol=slack * _ROUNDING):
        raise _error(f"{value} here, but the median of the samples is {middle}", *path)


def _error(message: str, *path: Any) -> ProfileError:
    return ProfileError(message, json_path(path))


_EDGES = ("dag_structure", "edges")
_ORDER = ("dag_structure", "execution_order")
_ROWS = ("timeline", "records")

_get: Callable[..., Any] = dict.get


def check_consistency(data: Mapping[str, Any]) -> None:
    """Refuse a profile document that contradicts itself.

    Parameters
    ----------
    data
        A document that satisfies ``PROFILE_SCHEMA``.

    Raises
    ------
    ProfileError
        At the first contradiction. An absent value is no contradiction.

    Notes
    -----
    Profiles without a schema version come from 0.1.0 or follow only the
    standard: their edges may repeat, their names may contain ``->``, their node
    weights may be any integers, and entries of ``execution_metrics`` may be
    named after classes. O(V + E) time if the execution order is complete,
    O((V + E) log V) if it is not.

    Examples
    --------
    >>> structure = {"nodes": ["a"], "edges": [], "execution_order": ["b"]}
    >>> check_consistency({"metadata": {}, "dag_structure": structure})
    Traceback (most recent call last):
    dagprofiler.errors.ProfileError: $.dag_structure.execution_order[0]: there is no task 'b'
    """
    versioned = "schema_version" in data["metadata"]
    structure = data["dag_structure"]
    nodes = structure["nodes"]
    _check_distinct(nodes, "task", "dag_structure", "nodes")
    edges = _Edges(structure["edges"])
    names = {"task": dict.fromkeys(nodes), "edge": dict.fromkeys(edges.keys)}
    check_references(data, names, versioned=versioned)
    edges.check_order(structure["execution_order"], nodes)
    weights = data["node_weights"]
    if versioned:
        _check_names(nodes)
        _check_bounds(weights)
    edges.check_weights(data["edge_weights"], repeated=not versioned)
    if "edge_metrics" in data:
        edges.check_metrics(data["edge_metrics"], data["edge_weights"])
    finished: list[str] = []
    if versioned and "execution_metrics" in data:
        finished = _column(data["execution_metrics"], "task")
        _check_distinct(finished, "task", "execution_metrics", below="task")
    if "timeline" in data:
        _check_records("timeline", data["timeline"])
        _check_moments(data["timeline"])
        edges.check_starts(data["timeline"])
    if "spans" in data:
        _check_spans(data["spans"]["records"])
    if "origins" in data:
        _check_records("origins", data["origins"])
    statistics = data.get("statistics", {})
    if "samples" in data:
        metrics = data.get("execution_metrics", ()) if versioned else ()
        check_samples(data["samples"], statistics, metrics)
    check_intervals(statistics)
    _check_prediction(data.get("prediction", {}))
    _check_sources(data.get("weight_sources", {}), weights)
    if "run" in data:
        _check_run(data["run"], finished)


class _Edges:
    """The edges of a document, in columns: names of their ends, and keys.

    Parameters
    ----------
    entries
        ``dag_structure.edges``.
    """

    def __init__(self, entries: Sequence[Mapping[str, str]]) -> None:
        self.sources = _column(entries, "source")
        self.targets = _column(entries, "target")
        self.keys = list(map("->".join, zip(self.sources, self.targets)))

    def check_order(self, order: Sequence[str], nodes: Sequence[str]) -> None:
        i = _failing(ne, self.sources, self.targets)
        if i is not None:
            raise _error(f"task {short_repr(self.sources[i])} has an edge to itself", *_EDGES, i)
        _check_distinct(order, "task", *_ORDER)
        place = dict(zip(order, range(len(order))))
        # A task that the order lacks is no contradiction: it may come first or last.
        before = list(map(place.get, self.sources, repeat(-1)))
        after = list(map(place.get, self.targets, repeat(len(order))))
        i = _failing(le, before, after)
        if i is not None:
            raise _error(
                f"{short_repr(self.targets[i])} comes before {short_repr(self.sources[i])}, "
                f"against the edge {short_repr(self.keys[i])}",
                *_ORDER,
                after[i],
            )
        if len(order) < len(nodes):
            self._check_incomplete(order, nodes)

    def _check_incomplete(self, order: Sequence[str], nodes: Sequence[str]) -> None:
        """Check that the edges have a topological order that agrees with `order`."""
        below = grouped(zip(self.sources, self.targets))
        try:
            complete = kahn_order(nodes, zip(self.sources, self.targets))
        except CycleError as error:
            raise _error(shorten(str(error)), *_EDGES) from error
        place = dict(zip(order, range(len(order))))
        latest: dict[str, int] = {}
        for name in complete:
            above = latest.get(name, -1)
            here = place.get(name, above)
            if here < above:
                raise _error(
                    f"{short_repr(name)} comes before {short_repr(order[above])}, from which edges "
                    "lead to it through tasks that the order lacks",
                    *_ORDER,
                    here,
                )
            for target in below.get(name, ()):
                latest[target] = max(here, latest.get(target, -1))

    def check_weights(self, weights: Mapping[str, Any], *, repeated: bool) -> None:
        if self._same_keys(weights):
            return
        # Key and source tell an edge; the key alone does not if names hold ``->``.
        source_of = dict(zip(self.keys, self.sources))
        if len(source_of) < len(self.keys):
            i = _difference(list(map(source_of.get, self.keys)), self.sources)
            if i is not None:
                problem = f"share the key {short_repr(self.keys[i])} of edge_weights"
                raise _error(f"this edge and another {problem}", *_EDGES, i)
            if not repeated:
                _check_distinct(self.keys, "edge", *_EDGES)
        if not weights.keys() <= source_of.keys():
            key = next(key for key in weights if key not in source_of)
            raise _error(f"there is no edge {short_repr(key)}", "edge_weights", key)

    def _same_keys(self, weights: Mapping[str, Any]) -> bool:
        """Tell whether the keys are those of `weights`, in order and so distinct."""
        return list(weights) == self.keys

    def check_metrics(self, table: Mapping[str, Any], weights: Mapping[str, Any]) -> None:
        if len(table["records"]) != len(self.keys):
            found, edges = len(table["records"]), len(self.keys)
            raise _error(f"{found} records for {edges} edges", "edge_metrics", "records")
        rows, numbers = _check_lengths("edge_metrics", table)
        expected = list(map(mul, _column(rows, 1), repeat(8)))
        if len(rows) == len(self.keys) and self._same_keys(weights):
            weighed = list(weights.values())
        else:
            weighed = [weights.get(self.keys[i], bits) for i, bits in zip(numbers, expected)]
        i = _difference(weighed, expected)
        if i is not None:
            raise _error(
                f"{expected[i]} bits here, but {weighed[i]} in edge_weights",
                *("edge_metrics", "records", numbers[i], 1),
            )
        _check_fields(rows, numbers, table["columns"])

    def check_starts(self, timeline: Mapping[str, Any]) -> None:
        """Check that no task starts before its predecessors have ended.

        Where some clock differs from the others, this says nothing.
        """
        columns = timeline["columns"]
        phases = [columns.index(name) for name in MOMENTS[1:] if name in columns]
        if not phases or _has_other_clocks(timeline["workers"]):
            return
        first, last = phases[0], phases[-1]
        for number, rows in _by_round(timeline["records"]).items():
            ends, starts = _moments_of(rows, last), _moments_of(rows, first)
            ended = list(map(ends.get, self.sources, repeat(-inf)))
            started = list(map(starts.get, self.targets, repeat(inf)))
            i = _failing(le, ended, started)
            if i is not None:
                place = [row[:2] for row in timeline["records"]].index([self.targets[i], number])
                raise _error(
                    f"the task starts at {started[i]}, before {short_repr(self.sources[i])}, on "
                    f"which it depends, ends at {ended[i]}",
                    *(*_ROWS, place, first),
                )


def _has_other_clocks(workers: Sequence[Mapping[str, Any]]) -> bool:
    return any("clock_ahead_ms" in worker for worker in workers)


def _moments_of(rows: Sequence[Any], column: int) -> dict[str, float]:
    """Return a column of the timeline by task, without nulls."""
    names, moments = _column(rows, 0), _column(rows, column)
    if None in moments:
        return {name: moment for name, moment in zip(names, moments) if moment is not None}
    return dict(zip(names, moments))


def _by_round(rows: Sequence[Any]) -> Mapping[int, Sequence[Any]]:
    """Return the rows of each round."""
    rounds = set(_column(rows, 1))
    if len(rounds) == 1:
        return {rounds.pop(): rows}
    rows_of: dict[int, list[Any]] = {number: [] for number in rounds}
    for row in rows:
        rows_of[row[1]].append(row)
    return rows_of


def _check_names(names: Sequence[str]) -> None:
    # The separator keeps the end of one name and the start of the next apart.
    if "->" in " ".join(names):
        i = next(i for i, name in enumerate(names) if "->" in name)
        raise _error(
            f"task name {short_repr(names[i])} holds '->', which joins names in edge weights",
            *("dag_structure", "nodes", i),
        )


def _check_bounds(weights: Mapping[str, int]) -> None:
    if weights and not (min(weights.values()) >= 0 and max(weights.values()) <= MAX_INT):
        name = next(name for name in weights if not 0 <= weights[name] <= MAX_INT)
        # The weight itself may have more digits than Python writes.
        raise _error("the weight is not from 0 to 2**63 - 1", "node_weights", name)


def _check_sources(sources: Mapping[str, Mapping[str, Any]], weights: Mapping[str, int]) -> None:
    entries = list(sources.values())
    chosen = _column(entries, "node_weight")
    values = list(map({"default": 0}.get, chosen, map(_get, entries, chosen)))
    if not set(map(type, values)) <= {int, float}:
        i = next(i for i, value in enumerate(values) if type(value) not in (int, float))
        raise _error(
            f"there is no value for {short_repr(chosen[i])} here",
            *("weight_sources", list(sources)[i], "node_weight"),
        )
    weighed = list(map(weights.get, sources, values))
    if values != weighed:
        for name, choice, value, weight in zip(sources, chosen, values, weighed):
            # Measured candidates are in other units than node_weights.
            if value != weight and choice in ("default", "estimated_instructions"):
                raise _error(
                    f"{short_repr(choice)} means {value} instructions, not what is in node_weights",
                    *("weight_sources", name, "node_weight"),
                )


def _check_run(run: Mapping[str, Any], finished: Sequence[str]) -> None:
    tasks = run.get("tasks", {})
    if tasks and run["state"] == "complete":
        name = next(iter(tasks))
        raise _error(
            f"the run is complete, but task {short_repr(name)} is {tasks[name]['state']}",
            *("run", "state"),
        )
    # A task that failed in a later round has figures of earlier rounds.
    first = {name for name, entry in tasks.items() if not entry.get("round")}
    if not first.isdisjoint(finished):
        i = next(i for i, name in enumerate(finished) if name in first)
        raise _error(
            f"the task is {tasks[finished[i]]['state']}, but has metrics, "
            f"at {json_path(('execution_metrics', i))}",
            *("run", "tasks", finished[i]),
        )


def _check_fields(
    rows: Sequence[Sequence[Any]], numbers: Sequence[int], columns: Sequence[str]
) -> None:
    """Check each edge's `data_fields`, and that its `fields` add up to it."""
    names = _column(rows, 0)
    if max(map(len, names), default=0) > 1:
        different = set(map(tuple, names))
        if list(map(len, different)) != list(map(len, map(set, different))):
            for number, some in zip(numbers, names):
                _check_distinct(some, "field", "edge_metrics", "records", number, 0)
    if "fields" not in columns:
        return
    place = columns.index("fields")
    detailed = [(i, row) for i, row in zip(numbers, rows) if row[place] is not None]
    for i, row in detailed:
        if row[place].keys() != set(row[0]):
            raise _error("the keys are not the data_fields", "edge_metrics", "records", i, place)
        for j, size in enumerate(("size_bytes", "wire_bytes"), 1):
            parts = [part.get(size) for part in row[place].values()]
            if row[j] is not None and None not in parts and row[j] != sum(parts):
                raise _error(
                    f"{row[j]} bytes, but the fields add up to {sum(parts)}",
                    *("edge_metrics", "records", i, j),
                )


def _check_lengths(section: str, table: Mapping[str, Any]) -> tuple[list[Any], Sequence[int]]:
    """Check that records have an entry for each column; return those that are not null.

    Returns
    -------
    rows, numbers
        The records, and where they are.
    """
    rows, columns = table["records"], table["columns"]
    _check_distinct(columns, "column", section, "columns")
    numbers: Sequence[int] = range(len(rows))
    if None in rows:
        numbers = [i for i in numbers if rows[i] is not None]
        rows = [rows[i] for i in numbers]
    i = _difference(list(map(len, rows)), [len(columns)] * len(rows))
    if i is not None:
        entries = f"{len(rows[i])} entries for {len(columns)} columns"
        raise _error(entries, section, "records", numbers[i])
    return rows, numbers


def _check_records(section: str, table: Mapping[str, Any]) -> None:
    """Check a table whose first columns, task and round, identify a record."""
    rows, _ = _check_lengths(section, table)
    tasks = _column(rows, 0)
    if len(set(tasks)) < len(tasks):
        _check_distinct(list(zip(tasks, _column(rows, 1))), "task and round", section, "records")


def _check_moments(timeline: Mapping[str, Any]) -> None:
    """Check that the moments of each record are in order."""
    columns, rows = timeline["columns"], timeline["records"]
    # ready_ms may be from another clock than the other moments.
    names = MOMENTS[1:] if _has_other_clocks(timeline["workers"]) else MOMENTS
    latest = [0.0] * len(rows)
    for name in names:
        if name not in columns:
            continue
        moments = _column(rows, columns.index(name))
        if None in moments:
            moments = [was if now is None else now for now, was in zip(moments, latest)]
        i = _failing(le, latest, moments)
        if i is not None:
            raise _error(
                f"{name} is {moments[i]}, before {latest[i]}, which must not be later",
                *(*_ROWS, i, columns.index(name)),
            )
        latest = moments


def _check_spans(rows: Sequence[Sequence[Any]]) -> None:
    starts, ends = _column(rows, 4), _column(rows, 5)
    i = _failing(le, starts, ends)
    if i is not None:
        raise _error(f"ends at {ends[i]}, before it starts at {starts[i]}", "spans", "records", i)


def _column(entries: Sequence[Any], name: str | int) -> list[Any]:
    return list(map(itemgetter(name), entries))


def _check_distinct(
    names: Sequence[Any], what: str, *above: str | int, below: str | None = None
) -> None:
    if len(set(names)) == len(names):
        return
    first: dict[Any, int] = {}
    i = next(i for i, name in enumerate(names) if first.setdefault(name, i) != i)
    path = (*above, i) if below is None else (*above, i, below)
    raise _error(f"{what} {short_repr(names[i])} is listed before, at {first[names[i]]}", *path)


def _difference(left: Sequence[Any], right: Sequence[Any]) -> int | None:
    """Return the first index at which two lists of one length differ; None if they don't."""
    return None if left == right else _failing(eq, left, right)


def _failing(test: Callable[..., bool], left: Sequence[Any], right: Sequence[Any]) -> int | None:
    """Return the first index at which a test of two columns fails; None if it never does."""
    return None if all(map(test, left, right)) else list(map(test, left, right)).index(False)


#: Steps of a path: each item of a list or value of a dict, and each key of a dict.
_EACH, _KEYS = "*", "keys"


def check_references(
    data: Mapping[str, Any], names: Mapping[str, Mapping[str, Any]], *, versioned: bool
) -> None:
    """Refuse a document in which something refers to what is not there.

    Parameters
    ----------
    data
        A document that satisfies ``PROFILE_SCHEMA``.
    names
        ``"task"`` and ``"edge"`` to a dict whose keys are the names that exist.
    versioned
        Whether entries of ``execution_metrics`` are named after tasks.

    Raises
    ------
    ProfileError
        At the first task, edge or index that does not exist.

    Notes
    -----
    All values of one field are tested together, by builtins that loop in C; places are looked
    for only when a test has failed.
    """
    for path, to in _references():
        if path[0] not in data or (path[0] == "execution_metrics" and not versioned):
            continue
        values = set(_values(data, path)) - {None}
        if to in names:
            unknown = values - names[to].keys()
            problem = f"there is no {to} {{}}"
        elif float in {*map(type, values)}:
            # 1.0 is an integer to JSON Schema.
            unknown = {value for value in values if type(value) is float}
            problem = "expected an integer without a point, got {}"
        elif to == "round":
            continue
        else:
            section, _, part = to.partition(".")
            count = len(data.get(section, {}).get(part, ()))
            unknown = {value for value in values if value >= count}
            problem = f"there is no {part[:-1]} {{}}, only {count} in {to}"
        if unknown:
            place, value = next(found for found in _places(data, path) if found[1] in unknown)
            raise _error(problem.format(short_repr(value)), *place)


@cache
def _references() -> list[tuple[tuple[Any, ...], str]]:
    """Return where a document names, or has the index of, something in it, and of what."""
    return list(_declared(ProfileDocument, ()))


def _declared(shape: type, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], str]]:
    for i, (name, kind, field) in enumerate(fields_of(shape)):
        here = (*path, i if issubclass(shape, Row) else name)
        if field.keys:
            yield (*here, _KEYS), field.keys
        innermost: Any = kind
        while isinstance(innermost, ast.Subscript):
            innermost = getattr(innermost.slice, "elts", [innermost.slice])[-1]
            here = (*here, _EACH)
        if field.ref:
            yield here, field.ref
        inner = inner_shape(shape, innermost)
        if inner is not None:
            yield from _declared(inner, here)


def _values(data: Mapping[str, Any], path: tuple[Any, ...]) -> list[Any]:
    """Return all values at a path."""
    values: Any = [data]
    for step in path:
        if not values:
            break
        if step == _EACH and isinstance(values[0], dict):
            values = list(chain.from_iterable(map(dict.values, values)))
        elif step in (_EACH, _KEYS):
            values = list(chain.from_iterable(values))
        elif isinstance(step, int):
            values = list(map(itemgetter(step), values))
        else:
            values = [value[step] for value in values if step in value]
    return list(values)


def _places(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield the place and the value of all values at a path."""
    if not path:
        yield (), value
        return
    step, rest = path[0], path[1:]
    if step == _KEYS:
        yield from (((key,), key) for key in value)
        return
    if step != _EACH:
        inner = [(step, value[step])] if isinstance(value, list) or step in value else []
    else:
        inner = list(value.items() if isinstance(value, dict) else enumerate(value))
    for key, item in inner:
        yield from (((key, *place), found) for place, found in _places(item, rest))
