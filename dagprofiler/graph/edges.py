"""Edges: the forms that users write, resolved into task numbers and routes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from keyword import iskeyword
from operator import eq, ne
from typing import Any

from dagprofiler.errors import GraphError, did_you_mean, is_a, short_repr

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
    matches = Matches()
    plain = _plain_pairs(edges, index)
    if plain is not None:
        # Two columns at once: both loops run in C.
        of_tasks = matches.kinds(outputs), matches.kinds(inputs)
        kinds = zip(*(map(kinds.__getitem__, ends) for kinds, ends in zip(of_tasks, plain)))
        return Edges(count, *plain, list(map(matches.__getitem__, kinds)))
    resolved = Edges(count, [], [], [])
    carried: dict[int, tuple[Route, ...]] = {}
    for edge in edges:
        name, target_name, spec = _split(edge)
        try:
            source, target = index[name], index[target_name]
        except Exception:  # noqa: BLE001  (the same)
            raise _unknown_task(name, target_name, index) from None
        if source == target:
            raise GraphError(f"{edge_text(name, target_name)}: a task cannot feed itself")
        routes = matches.routes(name, target_name, spec, outputs[source], inputs[target])
        number = source * count + target
        if number in carried:
            check_parallel(name, target_name, carried[number], routes, outputs[source])
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
    except Exception:  # noqa: BLE001  (a name's own __hash__ may do anything)
        return None
    if len(set(edges)) < len(edges) or any(map(eq, sources, targets)):
        return None
    return sources, targets


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
        if is_a(edge, (str, Mapping, AbstractSet)):
            raise TypeError
        if len(edge) == 2:
            source, target = edge
            return source, target, None
        source, target, spec = edge
    except Exception:  # noqa: BLE001  (the same)
        raise GraphError(
            f"edge {short_repr(edge)}: expected (source, target) or (source, target, fields)"
        ) from None
    return source, target, spec


def _unknown_task(source: Any, target: Any, index: Mapping[str, int]) -> GraphError:
    name = source if not is_a(source, str) or source not in index else target
    return GraphError(
        f"{edge_text(source, target)}: there is no task "
        f"{short_repr(name)}{did_you_mean(name, [*index])}"
    )


def field_problem(name: Any) -> str | None:
    """Return why `name` cannot be a field, a keyword argument of ``compute()``; None if it can."""
    if not is_a(name, str):
        return "is not a name"
    if not name.isidentifier() or iskeyword(name):
        return "cannot be a keyword argument"
    if name in ("cfg", "self"):
        return "is reserved by compute()"
    return None


class Matches(dict[tuple[int, int], tuple[Route, ...]]):
    """Routes of edges without fields, computed once for each pair of kinds of tasks.

    A kind is the identity of a list of outputs or of inputs, which tasks with equal
    declarations share. A key is the kind of a source and that of a target.
    """

    def __init__(self) -> None:
        super().__init__()
        #: The positions of the fields of each kind, and its list, kept so that the id stays valid.
        self._places: dict[int, tuple[dict[str, int], Any]] = {}

    def kinds(self, declared: Sequence[list[str]]) -> list[int]:
        """Return the kinds of tasks that declare these fields."""
        kinds = list(map(id, declared))
        for kind in set(kinds).difference(self._places):
            fields = declared[kinds.index(kind)]
            self._places[kind] = {field: i for i, field in enumerate(fields)}, fields
        return kinds

    def __missing__(self, kinds: tuple[int, int]) -> tuple[Route, ...]:
        (outputs, _), (inputs, _) = map(self._places.__getitem__, kinds)
        match = self[kinds] = _match(outputs, inputs)
        return match

    def routes(
        self, source: Any, target: Any, spec: Any, outputs: list[str], inputs: list[str]
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
        kinds = id(outputs), id(inputs)
        if spec is None and kinds in self:
            return self[kinds]
        self.kinds([outputs, inputs])
        if spec is None:
            return self[kinds]
        return _explicit(source, target, spec, self._places[kinds[0]][0])


def _match(outputs: Mapping[str, int], inputs: Mapping[str, int]) -> tuple[Route, ...]:
    """Return the routes of an edge without fields: equal names, else all outputs."""
    smaller, larger = (outputs, inputs) if len(outputs) < len(inputs) else (inputs, outputs)
    matching = [field for field in smaller if field in larger] or outputs
    return tuple((outputs[field], field) for field in sorted(matching))


def _explicit(source: str, target: str, spec: Any, outputs: Mapping[str, int]) -> tuple[Route, ...]:
    """Return the routes of an edge with a list of fields or a mapping of names."""
    where = edge_text(source, target)
    if is_a(spec, Mapping):
        pairs = list(spec.items())
    elif is_a(spec, (list, tuple)):
        pairs = [(field, field) for field in spec]
    else:
        raise GraphError(
            f"{where}: expected a list of fields or a mapping of outputs to inputs, got "
            f"{short_repr(spec)}"
        )
    routes: dict[int, str] = {}
    for field, destination in pairs:
        if not is_a(field, str) or field not in outputs:
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
