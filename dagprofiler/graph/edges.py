"""Edges: the forms that users write, resolved into task numbers and routes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, groupby
from keyword import iskeyword
from typing import Any

from dagprofiler.errors import GraphError, did_you_mean, listed, short_repr

#: One field on an edge: its position among the source's outputs, and the target's input.
Route = tuple[int, str]
Routes = tuple[Route, ...]

#: Declared outputs or inputs of a task.
Fields = tuple[str, ...]


class Rows:
    """Numbers in rows, as the successors of each task.

    Parameters
    ----------
    edges
        Sorted edges, each a number: ``row * count + number``.
    count
        Number of rows.

    Notes
    -----
    Unlike a list for each task, two flat lists of numbers cost the garbage collector nothing.
    """

    def __init__(self, edges: Sequence[int], count: int) -> None:
        lengths = [0] * count
        for edge in edges:
            lengths[edge // count] += 1
        self.numbers = [edge % count for edge in edges]
        self._first = list(accumulate(lengths, initial=0))

    def __len__(self) -> int:
        return len(self._first) - 1

    def __getitem__(self, row: int) -> list[int]:
        return self.numbers[self._first[row] : self._first[row + 1]]


class Edges:
    """Edges between numbered tasks, in the order in which they are given.

    Attributes
    ----------
    count
        Number of tasks.
    sources, targets, routes
        For each edge its two tasks and the fields that it carries.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.sources: list[int] = []
        self.targets: list[int] = []
        self.routes: list[Routes] = []

    def by_source(
        self, gathers: Sequence[Collection[str]] = ()
    ) -> Iterator[tuple[int, int, Routes]]:
        """Return source, target and routes of all edges in the order of version 0.1.0.

        That order is by source, and sources in the order in which edges first
        name them. Edges to tasks with an entry in `gathers` come first, in the
        order in which they are given.
        """
        sources, targets, routes = self.sources, self.targets, self.routes
        runs = [source for source, _ in groupby(sources)]
        turn = {source: k for k, source in enumerate(dict.fromkeys(runs))}
        if len(turn) == len(runs):
            return zip(sources, targets, routes)
        turns = [turn[source] for source in sources]
        if any(gathers):
            turns = [-1 if gathers[target] else k for target, k in zip(targets, turns)]
        order = sorted(range(len(turns)), key=turns.__getitem__)
        return ((sources[i], targets[i], routes[i]) for i in order)

    @cached_property
    def merged(self) -> dict[int, Routes]:
        """Each edge, as ``source * count + target``, to its routes and those of parallel edges."""
        merged: dict[int, Routes] = {}
        for source, target, routes in self.by_source():
            number = source * self.count + target
            merged[number] = merged.get(number, ()) + routes
        return merged

    @cached_property
    def successors(self) -> Rows:
        """The successors of all tasks."""
        return Rows(sorted(self.merged), self.count)

    @cached_property
    def predecessors(self) -> Rows:
        """The predecessors of all tasks."""
        ends = (divmod(edge, self.count) for edge in self.merged)
        return Rows(sorted(target * self.count + source for source, target in ends), self.count)


def resolved_edges(
    names: Sequence[str],
    outputs: Sequence[Fields],
    inputs: Sequence[Fields],
    edges: Iterable[object],
) -> Edges:
    """Return edges, in any of their forms, as numbers and routes."""
    index = {name: i for i, name in enumerate(names)}
    matches = Matches()
    resolved = Edges(len(names))
    for edge in edges:
        if type(edge) is tuple and len(edge) == 2:
            source_name, target_name = edge
            spec = None
        else:
            source_name, target_name, spec = _split(edge)
        try:
            source, target = index[source_name], index[target_name]
        except (KeyError, TypeError):
            has_source = isinstance(source_name, str) and source_name in index
            unknown = target_name if has_source else source_name
            raise GraphError(
                f"{edge_text(source_name, target_name)}: there is no task "
                f"{short_repr(unknown)}{did_you_mean(unknown, names)}"
            ) from None
        if source == target:
            raise GraphError(f"{edge_text(source_name, target_name)}: a task cannot feed itself")
        resolved.sources.append(source)
        resolved.targets.append(target)
        resolved.routes.append(
            matches.routes(source_name, target_name, spec, outputs[source], inputs[target])
        )
    _check_parallels(resolved, names, outputs)
    return resolved


def _check_parallels(edges: Edges, names: Sequence[str], outputs: Sequence[Sequence[str]]) -> None:
    """Raise a GraphError if two edges between the same tasks carry the same field."""
    pairs = [s * edges.count + t for s, t in zip(edges.sources, edges.targets)]
    if len(set(pairs)) == len(pairs):
        return
    carried: dict[int, Routes] = {}
    for pair, source, target, routes in zip(pairs, edges.sources, edges.targets, edges.routes):
        if pair in carried:
            check_parallel(names[source], names[target], carried[pair], routes, outputs[source])
        carried[pair] = carried.get(pair, ()) + routes


def edge_text(source: object, target: object) -> str:
    """Return an edge in words, for messages."""
    return f"edge {short_repr(source)} -> {short_repr(target)}"


def check_parallel(
    source: object, target: object, first: Routes, second: Routes, outputs: Sequence[str]
) -> None:
    """Raise a GraphError if two edges between the same tasks carry the same field."""
    common = sorted({position for position, _ in first} & {position for position, _ in second})
    if common or first == second:
        fields = listed([outputs[position] for position in common]) or "no field"
        raise GraphError(f"{edge_text(source, target)} is given twice, both times with {fields}")


def _split(edge: object) -> tuple[Any, Any, Any]:
    """Return (source, target, spec) of an edge in any of its forms."""
    if isinstance(edge, Sequence) and not isinstance(edge, str) and len(edge) in (2, 3):
        source, target, spec = (*edge, None)[:3]
        return source, target, spec
    raise GraphError(
        f"edge {short_repr(edge)}: expected (source, target) or (source, target, fields)"
    )


def field_problem(name: object) -> str | None:
    """Return why `name` cannot be a field, a keyword argument of ``compute()``; None if it can."""
    if not isinstance(name, str):
        return "is not a name"
    if not name.isidentifier() or iskeyword(name):
        return "cannot be a keyword argument"
    if name in ("cfg", "self"):
        return "is reserved by compute()"
    return None


class Matches:
    """Routes of edges, remembered for each pair of declared outputs and inputs.

    Contracts with equal fields share one tuple, so that tuples are compared by identity: hashing
    thousands of fields for each edge would take quadratic time.
    """

    def __init__(self) -> None:
        self._routes: dict[tuple[int, int], Routes] = {}
        self._positions: dict[int, dict[str, int]] = {}

    def routes(
        self, source: object, target: object, spec: object, outputs: Fields, inputs: Fields
    ) -> Routes:
        """Return the routes of an edge.

        Parameters
        ----------
        source, target
            The tasks.
        spec
            The fields, in a form that users write; None for those with the name of an input, or
            all outputs if there are none.
        outputs, inputs
            Declared outputs of the source and inputs of the target.
        """
        if spec is not None:
            return _explicit(source, target, spec, self._positions_of(outputs))
        pair = id(outputs), id(inputs)
        if pair not in self._routes:
            positions = self._positions_of(outputs)
            # An intersection iterates over the smaller set: one task may have thousands of fields.
            common = positions.keys() & self._positions_of(inputs).keys()
            fields = sorted(common or positions)
            self._routes[pair] = tuple([(positions[field], field) for field in fields])
        return self._routes[pair]

    def _positions_of(self, fields: Fields) -> dict[str, int]:
        """Return the position of each of the `fields`."""
        if id(fields) not in self._positions:
            self._positions[id(fields)] = {field: i for i, field in enumerate(fields)}
        return self._positions[id(fields)]


def _explicit(source: object, target: object, spec: object, outputs: Mapping[str, int]) -> Routes:
    """Return the routes of an edge with a list of fields or a mapping of names."""
    where = edge_text(source, target)
    if isinstance(spec, Mapping):
        pairs = list(spec.items())
    elif isinstance(spec, (list, tuple)):
        pairs = [(field, field) for field in spec]
    else:
        raise GraphError(
            f"{where}: expected a list of fields or a mapping of outputs to inputs, got "
            f"{short_repr(spec)}"
        )
    routes: dict[int, str] = {}
    for field, destination in pairs:
        if not isinstance(field, str) or field not in outputs:
            raise GraphError(
                f"{where}: field {short_repr(field)} is not an output of {short_repr(source)} "
                f"(outputs: {listed([*outputs]) or 'none'})"
                f"{did_you_mean(field, list(outputs))}"
            )
        problem = field_problem(destination)
        if problem is not None:
            raise GraphError(f"{where}: input {short_repr(destination)} {problem}")
        position = outputs[field]
        if position in routes:
            raise GraphError(f"{where}: field {short_repr(field)} is named twice")
        routes[position] = destination
    return tuple(routes.items())
