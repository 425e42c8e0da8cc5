"""Whether a profile document that satisfies the schema agrees with itself.

Every check first asks for a whole column at once, with builtins that loop in
C, and looks for the culprit only when the answer is no.
"""

from __future__ import annotations

from itertools import repeat
from operator import eq, itemgetter, le, mul
from typing import TYPE_CHECKING, Any

from dagprofiler.errors import CycleError, ProfileError, json_path, shorten
from dagprofiler.graph import kahn_order

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["check_consistency"]

_EDGES = ("dag_structure", "edges")
_ORDER = ("dag_structure", "execution_order")


def check_consistency(data: Mapping[str, Any]) -> None:
    """Refuse a profile document that contradicts itself.

    Parameters
    ----------
    data
        A document that satisfies ``PROFILE_SCHEMA``.

    Raises
    ------
    ProfileError
        At the first contradiction. What is merely absent is none.

    Notes
    -----
    Profiles without a schema version come from 0.1.0 or know only the
    standard: their edges may repeat, and their ``execution_metrics`` may be
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
    _check_distinct(structure["nodes"], "task", "dag_structure", "nodes")
    nodes = dict(zip(structure["nodes"], range(len(structure["nodes"]))))
    edges = _Edges(structure["edges"], nodes)
    edges.check_order(structure["execution_order"])
    _check_keys(data["node_weights"], nodes, "node_weights")
    edges.check_weights(data["edge_weights"], repeated=not versioned)
    if "edge_metrics" in data:
        edges.check_metrics(data["edge_metrics"], data["edge_weights"])
    if versioned and "execution_metrics" in data:
        tasks = _column(data["execution_metrics"], "task")
        _numbers(tasks, nodes, "execution_metrics", below="task")
        _check_distinct(tasks, "task", "execution_metrics", below="task")
    if "timeline" in data:
        _check_timeline(data["timeline"], nodes)
    _check_keys(data.get("weight_sources", {}), nodes, "weight_sources")
    _check_keys(data.get("run", {}).get("tasks", {}), nodes, "run", "tasks")


class _Edges:
    """The edges of a document, in columns: names, numbers and keys of their ends.

    Parameters
    ----------
    entries
        ``dag_structure.edges``.
    nodes
        Task name to its number.
    """

    def __init__(self, entries: Sequence[Mapping[str, str]], nodes: Mapping[str, int]) -> None:
        self.nodes = nodes
        self.sources = _column(entries, "source")
        self.targets = _column(entries, "target")
        self.tails = _numbers(self.sources, nodes, *_EDGES, below="source")
        self.heads = _numbers(self.targets, nodes, *_EDGES, below="target")
        self.keys = _edge_keys(self.sources, self.targets)
        if any(map(eq, self.tails, self.heads)):
            i = list(map(eq, self.tails, self.heads)).index(True)
            raise _error(f"task {_quote(self.sources[i])} has an edge to itself", *_EDGES, i)

    def check_order(self, order: Sequence[str]) -> None:
        numbers = _numbers(order, self.nodes, *_ORDER)
        _check_distinct(order, "task", *_ORDER)
        place = dict(zip(numbers, range(len(order))))
        # An end that the order lacks contradicts nothing: it may stand before or after all.
        before = list(map(place.get, self.tails, repeat(-1)))
        after = list(map(place.get, self.heads, repeat(len(order))))
        if not all(map(le, before, after)):
            i = list(map(le, before, after)).index(False)
            raise _error(
                f"{_quote(self.targets[i])} comes before {_quote(self.sources[i])}, "
                f"against the edge {_quote(self.keys[i])}",
                *_ORDER,
                after[i],
            )
        if len(order) < len(self.nodes):
            self._check_incomplete(order)

    def _check_incomplete(self, order: Sequence[str]) -> None:
        """Check that the edges have a topological order, and that one has `order` in it."""
        below: dict[str, list[str]] = {}
        for source, target in zip(self.sources, self.targets):
            below.setdefault(source, []).append(target)
        try:
            complete = kahn_order(list(self.nodes), below)
        except CycleError as error:
            raise _error(shorten(str(error)), *_EDGES) from error
        place = dict(zip(order, range(len(order))))
        latest: dict[str, int] = {}
        for name in complete:
            above = latest.get(name, -1)
            here = place.get(name, above)
            if here < above:
                raise _error(
                    f"{_quote(name)} comes before {_quote(order[above])}, from which edges "
                    "lead to it through tasks that the order lacks",
                    *_ORDER,
                    here,
                )
            for target in below.get(name, ()):
                latest[target] = max(here, latest.get(target, -1))

    def check_weights(self, weights: Mapping[str, Any], *, repeated: bool) -> None:
        if list(weights) == self.keys:
            return
        source_of = self._source_of(repeated=repeated)
        if not weights.keys() <= source_of.keys():
            key = next(key for key in weights if key not in source_of)
            raise _error(f"there is no edge {_quote(key)}", "edge_weights", key)

    def _source_of(self, *, repeated: bool) -> dict[str, str]:
        """Return the source of each key, and check that no key stands for two edges.

        Key and source tell an edge; the key alone does not if names hold ``->``.
        """
        source_of = dict(zip(self.keys, self.sources))
        if len(source_of) < len(self.keys):
            i = _difference(list(map(source_of.get, self.keys)), self.sources)
            if i is not None:
                raise _error(
                    f"this edge and another share the key {_quote(self.keys[i])} of edge_weights",
                    *_EDGES,
                    i,
                )
            if not repeated:
                _check_distinct(self.keys, "edge", *_EDGES)
        return source_of

    def check_metrics(
        self, entries: Sequence[Mapping[str, Any]], weights: Mapping[str, Any]
    ) -> None:
        sources, targets = _column(entries, "source"), _column(entries, "target")
        keys = self.keys
        if sources != self.sources or targets != self.targets:
            keys = _edge_keys(sources, targets)
            i = _difference(list(map(self._source_of(repeated=True).get, keys)), sources)
            if i is not None:
                raise _error(f"there is no edge {_quote(keys[i])}", "edge_metrics", i)
        _check_distinct(keys, "edge", "edge_metrics")
        expected = list(map(mul, _column(entries, "size_bytes"), repeat(8)))
        bits = [entry.get("size_bits", size) for entry, size in zip(entries, expected)]
        i = _difference(bits, expected)
        if i is not None:
            raise _error(
                f"{bits[i]} bits are not 8 x {entries[i]['size_bytes']} bytes",
                *("edge_metrics", i, "size_bits"),
            )
        weighed = list(map(weights.get, keys, expected))
        i = _difference(weighed, expected)
        if i is not None:
            raise _error(
                f"{expected[i]} bits here, but {weighed[i]} in edge_weights",
                *("edge_metrics", i, "size_bytes"),
            )


def _check_timeline(timeline: Mapping[str, Any], nodes: Mapping[str, int]) -> None:
    rows, width = timeline["records"], len(timeline["columns"])
    where = ("timeline", "records")
    i = _difference(list(map(len, rows)), [width] * len(rows))
    if i is not None:
        raise _error(f"{len(rows[i])} entries for {width} columns", *where, i)
    _numbers(_column(rows, 0), nodes, *where, below=0)
    workers = _column(rows, 2)
    known = {*range(len(timeline["workers"])), None}
    if not known.issuperset(workers):
        i = next(i for i, worker in enumerate(workers) if worker not in known)
        raise _error(
            f"there is no worker {workers[i]}, only {len(known) - 1} in timeline.workers",
            *where,
            *(i, 2),
        )


def _column(entries: Sequence[Any], name: str | int) -> list[Any]:
    return list(map(itemgetter(name), entries))


def _edge_keys(sources: Sequence[str], targets: Sequence[str]) -> list[str]:
    return list(map("->".join, zip(sources, targets)))


def _numbers(
    names: Sequence[str], nodes: Mapping[str, int], *above: str, below: Any = None
) -> list[int]:
    """Return the numbers of the tasks `names`, all of which must exist."""
    numbers = list(map(nodes.get, names))
    if None in numbers:
        i = numbers.index(None)
        path = (*above, i) if below is None else (*above, i, below)
        raise _error(f"there is no task {_quote(names[i])}", *path)
    return numbers  # type: ignore[return-value]


def _check_keys(section: Mapping[str, Any], nodes: Mapping[str, int], *above: str) -> None:
    if not section.keys() <= nodes.keys():
        name = next(name for name in section if name not in nodes)
        raise _error(f"there is no task {_quote(name)}", *above, name)


def _check_distinct(names: Sequence[str], what: str, *above: str, below: str | None = None) -> None:
    if len(set(names)) == len(names):
        return
    first: dict[str, int] = {}
    i = next(i for i, name in enumerate(names) if first.setdefault(name, i) != i)
    path = (*above, i) if below is None else (*above, i, below)
    raise _error(f"{what} {_quote(names[i])} is listed before, at {first[names[i]]}", *path)


def _difference(left: Sequence[Any], right: Sequence[Any]) -> int | None:
    """Return the first index at which two lists of one length differ; None if they don't."""
    return None if left == right else list(map(eq, left, right)).index(False)


def _quote(name: str) -> str:
    return shorten(repr(name))


def _error(message: str, *path: Any) -> ProfileError:
    return ProfileError(message, json_path(path))
