"""Edges: the forms that users write, resolved into task numbers and routes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from itertools import accumulate
from keyword import iskeyword
from operator import itemgetter
from typing import Any

from dagprofiler.errors import GraphError, did_you_mean, short_repr

#: One field on an edge: its position among the source's outputs, and the target's input.
Route = tuple[int, str]


def rows_of(edges: Sequence[int], count: int) -> tuple[list[int], list[int]]:
    """Return the targets of sorted edges, and for each source where its targets begin.

    Edges are numbers, ``source * count + target``: unlike an object for each
    task, flat lists of numbers cost the garbage collector nothing.
    """
    lengths = [0] * count
    for edge in edges:
        lengths[edge // count] += 1
    return [edge % count for edge in edges], list(accumulate(lengths, initial=0))


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
        self.routes: list[tuple[Route, ...]] = []

    def has_parallels(self) -> bool:
        """Tell whether several edges join the same two tasks."""
        pairs = {s * self.count + t for s, t in zip(self.sources, self.targets)}
        return len(pairs) < len(self.sources)

    def by_source(
        self, gathers: Sequence[Collection[str]] = ()
    ) -> Iterator[tuple[int, int, tuple[Route, ...]]]:
        """Return source, target and routes of all edges in the order of version 0.1.0.

        That order is by source, and sources in the order in which edges first
        name them. Edges to tasks with an entry in `gathers` come first, in the
        order in which they are given.
        """
        sources, targets, routes = self.sources, self.targets, self.routes
        turn = {source: k for k, source in enumerate(dict.fromkeys(sources))}
        turns = [turn[source] for source in sources]
        if turns == sorted(turns):
            return zip(sources, targets, routes)
        if any(gathers):
            turns = [-1 if gathers[target] else k for target, k in zip(targets, turns)]
        order = sorted(range(len(turns)), key=turns.__getitem__)
        return ((sources[i], targets[i], routes[i]) for i in order)

    @cached_property
    def merged(self) -> dict[int, tuple[Route, ...]]:
        """Each edge, as ``source * count + target``, to its routes and those of parallel edges."""
        merged: dict[int, tuple[Route, ...]] = {}
        for source, target, routes in self.by_source():
            number = source * self.count + target
            merged[number] = merged.get(number, ()) + routes
        return merged

    @cached_property
    def rows(self) -> tuple[list[int], list[int]]:
        """The successors of all tasks, and where those of each task begin."""
        return rows_of(sorted(self.merged), self.count)

    @cached_property
    def columns(self) -> tuple[list[int], list[int]]:
        """The predecessors of all tasks, and where those of each task begin."""
        ends = (divmod(edge, self.count) for edge in self.merged)
        return rows_of(sorted(target * self.count + source for source, target in ends), self.count)


def resolved_edges(
    names: Sequence[str],
    outputs: Sequence[tuple[str, ...]],
    inputs: Sequence[tuple[str, ...]],
    edges: Iterable[Any],
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
            raise _unknown_task(source_name, target_name, index) from None
        if source == target:
            raise GraphError(f"{edge_text(source_name, target_name)}: a task cannot feed itself")
        resolved.sources.append(source)
        resolved.targets.append(target)
        resolved.routes.append(
            matches.routes(source_name, target_name, spec, outputs[source], inputs[target])
        )
    if resolved.has_parallels():
        _check_parallels(resolved, names, outputs)
    return resolved


def _check_parallels(edges: Edges, names: Sequence[str], outputs: Sequence[Sequence[str]]) -> None:
    """Raise a GraphError if two edges between the same tasks carry the same field."""
    carried: dict[tuple[int, int], tuple[Route, ...]] = {}
    for source, target, routes in zip(edges.sources, edges.targets, edges.routes):
        if (source, target) in carried:
            before = carried[source, target]
            check_parallel(names[source], names[target], before, routes, outputs[source])
        carried[source, target] = carried.get((source, target), ()) + routes


def edge_text(source: Any, target: Any) -> str:
    """Return an edge in words, for messages."""
    return f"edge {short_repr(source)} -> {short_repr(target)}"


def check_parallel(
    source: Any,
    target: Any,
    first: tuple[Route, ...],
    second: tuple[Route, ...],
    outputs: Sequence[str],
) -> None:
    """Raise a GraphError if two edges between the same tasks carry the same field."""
    where = edge_text(source, target)
    if first == second:
        raise GraphError(f"{where} is given twice")
    common = {position for position, _ in first}.intersection(p for p, _ in second)
    if common:
        fields = ", ".join(repr(outputs[position]) for position in sorted(common))
        raise GraphError(f"{where}: parallel edges both carry {fields}")


def _split(edge: Any) -> tuple[Any, Any, Any]:
    """Return (source, target, spec) of an edge in any of its forms."""
    try:
        if isinstance(edge, (str, Mapping, AbstractSet)):
            raise TypeError
        source, target, spec = edge if len(edge) == 3 else (*edge, None)
    except (TypeError, ValueError):
        raise GraphError(
            f"edge {short_repr(edge)}: expected (source, target) or (source, target, fields)"
        ) from None
    return source, target, spec


def _unknown_task(source: Any, target: Any, index: Mapping[str, int]) -> GraphError:
    name = source if not isinstance(source, str) or source not in index else target
    return GraphError(
        f"{edge_text(source, target)}: there is no task "
        f"{short_repr(name)}{did_you_mean(name, [*index])}"
    )


def field_problem(name: Any) -> str | None:
    """Return why `name` cannot be a field, a keyword argument of ``compute()``; None if it can."""
    if not isinstance(name, str):
        return "is not a name"
    if not name.isidentifier() or iskeyword(name):
        return "cannot be a keyword argument"
    if name in ("cfg", "self"):
        return "is reserved by compute()"
    return None


_BY_FIELD = itemgetter(1)


class Matches:
    """Routes of edges, remembered for each pair of declared outputs and inputs.

    Contracts with equal fields share one tuple of them, so it is known by its identity: to hash
    or search many fields for each edge would take quadratic time.
    """

    def __init__(self) -> None:
        self._routes: dict[tuple[int, int], tuple[Route, ...]] = {}
        self._positions: dict[int, dict[str, int]] = {}

    def routes(
        self,
        source: Any,
        target: Any,
        spec: Any,
        outputs: tuple[str, ...],
        inputs: tuple[str, ...],
    ) -> tuple[Route, ...]:
        """Return the routes of an edge.

        Parameters
        ----------
        source, target
            The tasks.
        spec
            The fields, in a form that users write; None for matching names.
        outputs, inputs
            Declared outputs of the source and inputs of the target.
        """
        if spec is not None:
            return _explicit(source, target, spec, self._positions_of(outputs))
        pair = id(outputs), id(inputs)
        routes = self._routes.get(pair)
        if routes is None:
            routes = self._routes[pair] = self._match(outputs, inputs)
        return routes

    def _match(self, outputs: tuple[str, ...], inputs: tuple[str, ...]) -> tuple[Route, ...]:
        """Return the routes of an edge without fields: equal names, else all outputs."""
        if len(outputs) > len(inputs):
            positions = self._positions_of(outputs)
            routes = [(positions[field], field) for field in inputs if field in positions]
        else:
            taken = self._positions_of(inputs)
            routes = [(i, field) for i, field in enumerate(outputs) if field in taken]
        routes = routes or [*enumerate(outputs)]
        routes.sort(key=_BY_FIELD)
        return tuple(routes)

    def _positions_of(self, fields: tuple[str, ...]) -> dict[str, int]:
        """Return the position of each of the `fields`."""
        positions = self._positions.get(id(fields))
        if positions is None:
            positions = self._positions[id(fields)] = {f: i for i, f in enumerate(fields)}
        return positions


def _explicit(source: str, target: str, spec: Any, outputs: Mapping[str, int]) -> tuple[Route, ...]:
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
                f"(outputs: {', '.join(map(repr, outputs)) or 'none'})"
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
