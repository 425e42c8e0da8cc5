"""Edges: the forms that users write, resolved into task numbers and routes."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from keyword import iskeyword
from operator import eq, ne
from typing import TYPE_CHECKING, Any

from dagprofiler.errors import GraphError, did_you_mean, short_repr

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence


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


@dataclass
class Edges:
    """Edges between numbered tasks, in the order in which they are given.

    Attributes
    ----------
    count
        Number of tasks.
    sources, targets, routes
        For each edge its two tasks and the fields that it carries.
    """

    count: int
    sources: list[int]
    targets: list[int]
    routes: list[tuple[Route, ...]]

    def by_source(
        self, gathers: Sequence[Collection[str]] = ()
    ) -> Iterator[tuple[int, int, tuple[Route, ...]]]:
        """Return source, target and routes of all edges in the order of version 0.1.0.

        That order is by source, and sources in the order in which edges first
        name them. Edges to tasks with an entry in `gathers` come first, in the
        order in which they are given.
        """
        sources, targets, routes = self.sources, self.targets, self.routes
        if sum(map(ne, sources, sources[1:])) < len(set(sources)):
            # All edges of a source are adjacent.
            return zip(sources, targets, routes)
        turn = {source: k for k, source in enumerate(dict.fromkeys(sources))}
        turns = [turn[source] for source in sources]
        if any(gathers):
            turns = [-1 if gathers[target] else k for target, k in zip(targets, turns)]
        order = sorted(range(len(turns)), key=turns.__getitem__)
        return zip(
            map(sources.__getitem__, order),
            map(targets.__getitem__, order),
            map(routes.__getitem__, order),
        )

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
    outputs: Sequence[list[str]],
    inputs: Sequence[list[str]],
    edges: Sequence[Any],
) -> Edges:
    """Return edges, in any of their forms, as numbers and routes."""
    count = len(names)
    index = dict(zip(names, range(count)))
    matches = _Matches(outputs, inputs)
    plain = _plain_pairs(edges, index)
    if plain is not None:
        # Two columns at once: both loops run in C.
        kinds = zip(*map(map, (matches.source.__getitem__, matches.target.__getitem__), plain))
        return Edges(count, *plain, list(map(matches.__getitem__, kinds)))
    resolved = Edges(count, [], [], [])
    carried: dict[int, tuple[Route, ...]] = {}
    for edge in edges:
        name, target_name, spec = _split(edge)
        try:
            source, target = index[name], index[target_name]
        except (KeyError, TypeError):
            raise _unknown_task(name, target_name, index) from None
        where = f"edge {short_repr(name)} -> {short_repr(target_name)}"
        if source == target:
            raise GraphError(f"{where}: a task cannot feed itself")
        if spec is None:
            routes = matches[matches.source[source], matches.target[target]]
        else:
            routes = _explicit(name, target_name, spec, matches.positions(matches.source[source]))
        number = source * count + target
        if number in carried:
            _check_parallel(where, carried[number], routes, outputs[source])
        carried[number] = carried.get(number, ()) + routes
        resolved.sources.append(source)
        resolved.targets.append(target)
        resolved.routes.append(routes)
    return resolved


def _plain_pairs(
    edges: Sequence[Any], index: Mapping[str, int]
) -> tuple[list[int], list[int]] | None:
    """Return sources and targets if all edges are distinct pairs of distinct known names.

    Otherwise None: other forms, and the first error, need a look at each edge.
    """
    if not {tuple}.issuperset(map(type, edges)):
        return None
    try:
        sources = [index[source] for source, _ in edges]
        targets = [index[target] for _, target in edges]
    except (KeyError, TypeError, ValueError):
        return None
    if len(set(edges)) < len(edges) or any(map(eq, sources, targets)):
        return None
    return sources, targets


def _check_parallel(
    where: str, first: tuple[Route, ...], second: tuple[Route, ...], outputs: Sequence[str]
) -> None:
    """Raise a GraphError if two parallel edges carry the same field."""
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
        if len(edge) == 2:
            source, target = edge
            return source, target, None
        source, target, spec = edge
    except (TypeError, ValueError):
        raise GraphError(
            f"edge {short_repr(edge)}: expected (source, target) or (source, target, fields)"
        ) from None
    return source, target, spec


def _unknown_task(source: Any, target: Any, index: Mapping[str, int]) -> GraphError:
    name = source if not isinstance(source, str) or source not in index else target
    return GraphError(
        f"edge {short_repr(source)} -> {short_repr(target)}: there is no task "
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


class _Matches(dict[tuple[int, int], tuple[Route, ...]]):
    """Routes of edges without fields, computed once for each pair of kinds of tasks.

    The keys are pairs of an item of `source` and an item of `target`.

    Attributes
    ----------
    source, target
        For each task its kind as a source and as a target of edges: the identity of its
        list of outputs, and of inputs, which tasks with equal declarations share.
    """

    def __init__(self, outputs: Sequence[list[str]], inputs: Sequence[list[str]]) -> None:
        super().__init__()
        self.source = list(map(id, outputs))
        self.target = list(map(id, inputs))
        self._fields = dict(zip(self.source, outputs))
        self._fields.update(zip(self.target, inputs))
        self._positions: dict[int, dict[str, int]] = {}

    def __missing__(self, kinds: tuple[int, int]) -> tuple[Route, ...]:
        match = self[kinds] = _match(*map(self.positions, kinds))
        return match

    def positions(self, kind: int) -> dict[str, int]:
        """Return the fields of tasks of a kind, with their positions."""
        if kind not in self._positions:
            self._positions[kind] = {field: i for i, field in enumerate(self._fields[kind])}
        return self._positions[kind]


class Resolver:
    """Resolves edges one at a time, and caches the routes between tasks of the same kinds."""

    def __init__(self) -> None:
        #: The ids of two lists of fields to the lists (kept alive: ids stay unique) and routes.
        self._known: dict[tuple[int, int], tuple[Any, tuple[Route, ...]]] = {}

    def routes(
        self, source: str, target: str, spec: Any, outputs: list[str], inputs: list[str]
    ) -> tuple[Route, ...]:
        """Return the routes of an edge.

        Parameters
        ----------
        source, target
            The tasks.
        spec
            The fields, as given; None for matching names.
        outputs, inputs
            Declared outputs of the source and inputs of the target.
        """
        if spec is not None:
            return _explicit(source, target, spec, _places(outputs))
        kinds = id(outputs), id(inputs)
        if kinds not in self._known:
            self._known[kinds] = (outputs, inputs), _match(_places(outputs), _places(inputs))
        return self._known[kinds][1]

    @staticmethod
    def check_parallel(
        source: str,
        target: str,
        first: tuple[Route, ...],
        second: tuple[Route, ...],
        outputs: Sequence[str],
    ) -> None:
        """Raise a GraphError if two edges between the same tasks carry the same field."""
        _check_parallel(
            f"edge {short_repr(source)} -> {short_repr(target)}", first, second, outputs
        )


def _places(fields: Sequence[str]) -> dict[str, int]:
    return {field: i for i, field in enumerate(fields)}


def _match(outputs: Mapping[str, int], inputs: Mapping[str, int]) -> tuple[Route, ...]:
    """Return the routes of an edge without fields: equal names, else all outputs."""
    smaller, larger = (outputs, inputs) if len(outputs) < len(inputs) else (inputs, outputs)
    matching = [field for field in smaller if field in larger] or outputs
    return tuple((outputs[field], field) for field in sorted(matching))


def _explicit(source: str, target: str, spec: Any, outputs: Mapping[str, int]) -> tuple[Route, ...]:
    """Return the routes of an edge with a list of fields or a mapping of names."""
    where = f"edge {short_repr(source)} -> {short_repr(target)}"
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
