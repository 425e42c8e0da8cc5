"""Pictures of a DAG: its tasks, or groups of them, laid out."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dagprofiler.drawing.folding import fold
from dagprofiler.drawing.layout import Layout, lay_out

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dagprofiler.drawing.folding import Folding

__all__ = ["Picture", "of_groups", "of_tasks", "picture_of"]


class Picture(NamedTuple):
    """Nodes and where they are.

    Attributes
    ----------
    labels
        Of each node.
    tasks
        Of each node the numbers of the tasks that it stands for.
    edges
        Source and target, by the number of the node.
    of
        Of each edge the numbers of the edges of tasks that it stands for.
    layout
        Where nodes and edges are.
    """

    labels: Sequence[str]
    tasks: list[list[int]]
    edges: list[tuple[int, int]]
    of: list[list[int]]
    layout: Layout


def picture_of(names: Sequence[str], edges: list[tuple[int, int]], nodes: int) -> Picture:
    """Return a picture of the tasks, or, if these are more than `nodes`, of groups."""
    if len(names) <= nodes:
        return of_tasks(names, edges)
    return of_groups(fold(names, edges, nodes))


def of_tasks(names: Sequence[str], edges: list[tuple[int, int]]) -> Picture:
    """Return a picture in which each task is a node."""
    tasks, of = [[i] for i in range(len(names))], [[k] for k in range(len(edges))]
    return Picture(names, tasks, edges, of, lay_out(len(names), edges))


def of_groups(folding: Folding) -> Picture:
    """Return a picture in which each group is a node."""
    edges = list(folding.edges)
    layout = lay_out(len(folding.groups), edges)
    return Picture(folding.labels, folding.groups, edges, list(folding.edges.values()), layout)
