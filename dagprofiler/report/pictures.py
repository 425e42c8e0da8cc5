"""Pictures of the DAG: all tasks, or groups of them, laid out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dagprofiler.report.folding import fold
from dagprofiler.report.layout import draw

if TYPE_CHECKING:
    from dagprofiler.report.subject import Subject

__all__ = ["pictures"]

#: Tasks from which on groups are shown first.
_MANY = 150

#: The most that a browser shows at once and still answers.
_TASKS, _EDGES = 4_000, 12_000

#: Groups are worth a picture if there are so many fewer of them.
_FEWER = 0.7


def pictures(subject: Subject) -> list[dict[str, Any]]:
    """Return one picture or two, first what is shown first.

    Nodes and edges are in columns. A picture of groups says of each node which tasks, and of each
    edge which edges, it stands for; in one of tasks they are those of the profile, in its order.
    """
    count, edges = len(subject.names), subject.edges
    whole = count <= _TASKS and len(edges) <= _EDGES
    made = []
    if whole:
        made.append({"kind": "tasks", **_drawn(count, edges)})
    folding = fold(subject.names, edges)
    groups = len(folding.groups)
    if not whole or groups < _FEWER * count:
        picture = {
            "kind": "groups",
            "labels": folding.labels,
            "tasks": folding.groups,
            "of": list(folding.edges.values()),
            **_drawn(groups, list(folding.edges)),
        }
        made.insert(0 if count > _MANY else len(made), picture)
    return made


def _drawn(count: int, edges: list[tuple[int, int]]) -> dict[str, Any]:
    drawing = draw(count, edges)
    return {
        "layers": drawing.layers,
        "places": drawing.places,
        "source": [source for source, _ in edges],
        "target": [target for _, target in edges],
        "bends": drawing.bends,
    }
