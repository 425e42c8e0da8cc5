"""Scenes: boxes and lines of which a picture of a DAG consists, in pixels."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

from dagprofiler.drawing.pictures import Picture, picture_of
from dagprofiler.errors import counted
from dagprofiler.quantities import BYTES, printable, quantity, share

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

__all__ = ["FONT_PX", "Box", "Scene", "Sketch", "Wire", "scene_of"]

#: Of the names, and of the lines below them.
FONT_PX = (12, 10)

#: What a letter of them takes, at most on average, and the longest text that is shown whole.
_LETTER, _LONGEST = (6.9, 5.8), 22

#: Of the boxes: their least width, what is beside their text, their height by lines of text; and
#: how far layers and neighbours are apart, and the picture from its frame.
_LEAST, _PADDING, _HEIGHT = 48, 20, (28, 40)
_GAP, _APART, _MARGIN = 48, 14, 8


@dataclass(frozen=True)
class Sketch:
    """What is known of a DAG that is to be drawn.

    Attributes
    ----------
    names
        Of the tasks.
    edges
        Source and target, by number.
    notes
        For each task what stands below its name; empty if nothing does.
    costs, unit
        For each task what it costs, None where that is not known; empty if it never is.
    fields
        For each edge what it carries, in words; empty if that is not known.
    sizes
        For each edge how many bytes that is, or None; empty if it never is known.
    path
        The tasks on the critical path, by number, in their order.
    unfinished
        Tasks that did not succeed, by number.
    """

    names: Sequence[str]
    edges: list[tuple[int, int]]
    notes: Sequence[str] = ()
    costs: Sequence[Any] = ()
    unit: str = ""
    fields: Sequence[str] = ()
    sizes: Sequence[Any] = ()
    path: Sequence[int] = ()
    unfinished: Collection[int] = ()


class Box(NamedTuple):
    """A node: where it is, what it says, and how dark it is, from 0 to 1."""

    x: float
    y: float
    width: float
    height: float
    label: str
    note: str
    title: str
    part: float
    critical: bool
    unfinished: bool


class Wire(NamedTuple):
    """An edge: a start, and three points for each Bézier curve that follows."""

    points: list[tuple[float, float]]
    width: float
    title: str
    critical: bool
    orders_only: bool


class Scene(NamedTuple):
    """A picture: its size, what is in it, and what is to be said of it."""

    width: float
    height: float
    boxes: list[Box]
    wires: list[Wire]
    caption: str


def scene_of(sketch: Sketch, nodes: int) -> Scene:
    """Return the picture of a DAG of at most `nodes` nodes; larger ones are folded."""
    picture = picture_of(sketch.names, sketch.edges, nodes)
    labels = [_label(sketch, picture, node) for node in range(len(picture.tasks))]
    costs = [_sum(sketch.costs, tasks) for tasks in picture.tasks]
    notes = [_note(sketch, tasks, cost) for tasks, cost in zip(picture.tasks, costs)]
    shown = [(_shortened(label), _shortened(note)) for label, note in zip(labels, notes)]
    longest = max(
        (len(text) * letter for texts in shown for text, letter in zip(texts, _LETTER)), default=0
    )
    width, height = max(_LEAST, _PADDING + longest), _HEIGHT[any(notes)]
    most = max((cost for cost in costs if cost is not None), default=0)
    path, unfinished = set(sketch.path), set(sketch.unfinished)
    layout = picture.layout
    boxes = [
        Box(
            _MARGIN + layout.layers[node] * (width + _GAP),
            _MARGIN + (layout.places[node] - 0.5) * (height + _APART),
            width,
            height,
            *shown[node],
            "\n".join(filter(None, (labels[node], notes[node]))),
            share(costs[node] or 0, most),
            not path.isdisjoint(tasks),
            not unfinished.isdisjoint(tasks),
        )
        for node, tasks in enumerate(picture.tasks)
    ]
    wires = _wires(sketch, picture, boxes)
    corners = [(box.x + width, box.y + height) for box in boxes]
    # A line may run below the lowest box.
    lowest = [y for wire in wires for _, y in wire.points]
    return Scene(
        max((x for x, _ in corners), default=0) + _MARGIN,
        max((*(y for _, y in corners), *lowest), default=0) + _MARGIN,
        boxes,
        wires,
        _caption(sketch, picture),
    )


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _label(sketch: Sketch, picture: Picture, node: int) -> str:
    tasks = picture.tasks[node]
    if len(tasks) == 1:
        return printable(sketch.names[tasks[0]])
    return f"{printable(picture.labels[node])} ({len(tasks):,})"


def _note(sketch: Sketch, tasks: Sequence[int], cost: Any) -> str:
    if sketch.costs:
        return quantity(cost, sketch.unit)
    return printable(sketch.notes[tasks[0]]) if sketch.notes and len(tasks) == 1 else ""


def _sum(values: Sequence[Any], numbers: Sequence[int]) -> Any:
    """Return the sum of what is known; None if nothing is."""
    known = [values[i] for i in numbers if values[i] is not None] if values else ()
    return sum(known) if known else None


def _wires(sketch: Sketch, picture: Picture, boxes: Sequence[Box]) -> list[Wire]:
    sizes = [_sum(sketch.sizes, edges) for edges in picture.of]
    most = max((size for size in sizes if size is not None), default=0)
    steps = set(zip(sketch.path, sketch.path[1:]))
    return [
        Wire(
            _route(boxes[source], boxes[target], bends),
            1.2 + 3 * sqrt(share(size or 0, most)),
            _told(sketch, edges, boxes[source], boxes[target], size),
            any(sketch.edges[edge] in steps for edge in edges),
            bool(sketch.fields) and not any(sketch.fields[edge] for edge in edges),
        )
        for (source, target), bends, edges, size in zip(
            picture.edges, picture.layout.bends, picture.of, sizes
        )
    ]


def _told(sketch: Sketch, edges: Sequence[int], source: Box, target: Box, size: Any) -> str:
    lines = [f"{source.label} → {target.label}"]
    if len(edges) > 1:
        lines.append(counted(len(edges), "edge"))
    elif sketch.fields:
        lines.append(printable(sketch.fields[edges[0]]) or "order only")
    if size is not None:
        lines.append(quantity(size, BYTES))
    return "\n".join(lines)


def _route(source: Box, target: Box, bends: Sequence[float]) -> list[tuple[float, float]]:
    """Return the way from the right side of a box to the left side of another."""
    points = [(source.x + source.width, source.y + source.height / 2)]

    def curve(x: float, y: float) -> None:
        before_x, before_y = points[-1]
        middle = (before_x + x) / 2
        points.extend([(middle, before_y), (middle, y), (x, y)])

    for i, place in enumerate(bends):
        left = source.x + (i + 1) * (source.width + _GAP)
        y = _MARGIN + (place - 0.5) * (source.height + _APART) + source.height / 2
        curve(left, y)
        curve(left + source.width, y)
    curve(target.x, target.y + target.height / 2)
    return points


def _caption(sketch: Sketch, picture: Picture) -> str:
    tasks, edges = counted(len(sketch.names), "task"), counted(len(sketch.edges), "edge")
    if len(picture.tasks) == len(sketch.names):
        return f"{tasks}, {edges}"
    return f"{tasks}, {edges}, in {counted(len(picture.tasks), 'group')}"
