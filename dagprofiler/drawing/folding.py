"""Large graphs folded: tasks that are alike, or near each other, become one node."""

from __future__ import annotations

import re
from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from dagprofiler.drawing.layout import layers_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

__all__ = ["Folding", "fold"]

#: From this many on, tasks that are alike are a group.
_ALIKE = 3

#: What a picture may have that people still look at.
_NODES, _EDGES = 600, 4_000

#: The longest row of groups that can still be read, and groups in the coarsest folding.
_DEPTH, _COARSEST = 40, 24

#: Stands for the layer of tasks without edges.
_ALONE = -1

_DIGITS = re.compile(r"\d+")


class Folding(NamedTuple):
    """Tasks in groups that form a DAG again.

    Attributes
    ----------
    groups
        Of each group its tasks, in their order.
    labels
        What its tasks have in common, in words.
    edges
        Between groups: source and target to the numbers of the edges of tasks.
    """

    groups: list[list[int]]
    labels: list[str]
    edges: dict[tuple[int, int], list[int]]


def fold(names: Sequence[str], edges: Sequence[tuple[int, int]], nodes: int = _NODES) -> Folding:
    """Return the finest of three foldings that makes a picture of bearable size.

    Parameters
    ----------
    names
        Of the tasks.
    edges
        Source and target, by number.
    nodes
        Groups of a picture that is still bearable; the coarsest may have two.

    Notes
    -----
    Tasks are grouped that are in one layer and have one name but for its digits; else all of a
    layer; else all of several layers in a row. Edges lead to later layers, so that groups form no
    cycle. Tasks without edges are by themselves. O(V + E) time, beside sorting.

    Examples
    --------
    >>> folding = fold(["split", "map_1", "map_2", "map_3"], [(0, 1), (0, 2), (0, 3)])
    >>> folding.groups, folding.labels, folding.edges
    ([[0], [1, 2, 3]], ['split', 'map_*'], {(0, 1): [0, 1, 2]})
    """
    joined = set(chain.from_iterable(edges))
    layers = [
        layer if v in joined else _ALONE for v, layer in enumerate(layers_of(len(names), edges))
    ]
    for labels, keys in _foldings(names, layers, min(_COARSEST, nodes - 2)):
        folding = _folded(labels, keys, edges)
        if _is_bearable(folding, nodes):
            break
    return folding


def _is_bearable(folding: Folding, nodes: int) -> bool:
    count, edges = len(folding.groups), folding.edges
    bearable = count <= nodes and len(edges) <= _EDGES
    return bearable and max(layers_of(count, list(edges)), default=0) < _DEPTH


def _foldings(
    names: Sequence[str], layers: Sequence[int], coarsest: int
) -> Iterator[tuple[list[str], list[Hashable]]]:
    """Yield for each folding the label and the group of every task, finest first."""
    stems = [_DIGITS.sub("*", name) for name in names]
    sizes = Counter(zip(layers, stems))
    alike = [sizes[key] >= _ALIKE for key in zip(layers, stems)]
    yield (
        [stem if same else name for name, stem, same in zip(names, stems, alike)],
        [(key if same else v) for v, (key, same) in enumerate(zip(zip(layers, stems), alike))],
    )
    for step in (1, max(layers, default=0) // max(1, coarsest) + 1):
        parts = [layer // step for layer in layers]
        yield [_label(part * step, step) for part in parts], list(parts)


def _label(layer: int, step: int) -> str:
    if layer < 0:
        return "without edges"
    return f"level {layer}" if step == 1 else f"levels {layer} to {layer + step - 1}"


def _folded(
    labels: Sequence[str], keys: Sequence[Hashable], edges: Sequence[tuple[int, int]]
) -> Folding:
    numbers: dict[Hashable, int] = {}
    group_of = [numbers.setdefault(key, len(numbers)) for key in keys]
    groups: list[list[int]] = [[] for _ in numbers]
    for v, group in enumerate(group_of):
        groups[group].append(v)
    between: dict[tuple[int, int], list[int]] = {}
    for k, (source, target) in enumerate(edges):
        ends = group_of[source], group_of[target]
        if ends[0] != ends[1]:
            between.setdefault(ends, []).append(k)
    return Folding(groups, [labels[members[0]] for members in groups], between)
