"""Pictures of the DAG: all tasks, or groups of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dagprofiler.drawing.folding import fold
from dagprofiler.drawing.pictures import of_groups, of_tasks

if TYPE_CHECKING:
    from dagprofiler.drawing.pictures import Picture
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
        made.append({"kind": "tasks", **_columns(of_tasks(subject.names, edges))})
    folding = fold(subject.names, edges)
    if not whole or len(folding.groups) < _FEWER * count:
        groups = of_groups(folding)
        picture = {
            "kind": "groups",
            "labels": groups.labels,
            "tasks": groups.tasks,
            "of": groups.of,
            **_columns(groups),
        }
        made.insert(0 if count > _MANY else len(made), picture)
    return made


def _columns(picture: Picture) -> dict[str, Any]:
    return {
        "layers": picture.layout.layers,
        "places": picture.layout.places,
        "source": [source for source, _ in picture.edges],
        "target": [target for _, target in picture.edges],
        "bends": picture.layout.bends,
    }
