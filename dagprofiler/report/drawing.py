"""Drawings: the tasks and edges of a DAG as SVG."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

from dagprofiler._util.html import Drawing, text
from dagprofiler._util.text import BYTES, printable, quantity, share
from dagprofiler.errors import counted, short_repr
from dagprofiler.report._layout import Layout, fold, lay_out

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from dagprofiler.report._layout import Folding


class Picture(NamedTuple):
    """Nodes, edges and their layout.

    Attributes
    ----------
    labels
        Of each node.
    tasks
        For each node the numbers of its tasks.
    edges
        Source and target, by the number of the node.
    of
        For each edge the numbers of its edges between tasks.
    layout
        Positions of nodes and edges.
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


#: Of the names, and of the lines below them.
FONT_PX = (12, 10)

#: What a letter of them takes, at most on average, and the longest text that is shown whole.
_LETTER, _LONGEST = (6.9, 5.8), 22

#: Of the boxes: their least width, the padding of their text, their height by lines of text; and
#: how far layers and neighbours are apart, and the picture from its frame.
_LEAST, _PADDING, _HEIGHT = 48, 20, (28, 40)
_GAP, _APART, _MARGIN = 48, 14, 8


@dataclass(frozen=True)
class Sketch:
    """The data of a DAG to draw.

    Attributes
    ----------
    names
        Of the tasks.
    edges
        Source and target, by number.
    notes
        For each task the text below its name; empty if there is none.
    costs, unit
        For each task its cost, or None; empty if no cost is known.
    fields
        For each edge its fields, as text; empty if they are unknown.
    sizes
        For each edge its bytes, or None; empty if no size is known.
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
    """A node: its position, its text, and its darkness from 0 to 1."""

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
    """A picture: its size, its content, and its caption."""

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
    """Return the sum of the known values; None if none is known."""
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
            _tooltip(sketch, edges, boxes[source], boxes[target], size),
            any(sketch.edges[edge] in steps for edge in edges),
            bool(sketch.fields) and not any(sketch.fields[edge] for edge in edges),
        )
        for (source, target), bends, edges, size in zip(
            picture.edges, picture.layout.bends, picture.of, sizes
        )
    ]


def _tooltip(sketch: Sketch, edges: Sequence[int], source: Box, target: Box, size: Any) -> str:
    lines = [f"{source.label} → {target.label}"]
    if len(edges) > 1:
        lines.append(counted(len(edges), "edge"))
    elif sketch.fields:
        lines.append(printable(sketch.fields[edges[0]]) or "order only")
    if size is not None:
        lines.append(quantity(size, BYTES))
    return "\n".join(lines)


def _route(source: Box, target: Box, bends: Sequence[float]) -> list[tuple[float, float]]:
    """Return the curve from the right side of a box to the left side of another."""
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


#: Colours that stand out on light and on dark, with text over the second as strong as below.
CRITICAL, FILL = "#d9601a", "#3b82c4"
_LIGHTEST, _DARKEST = 0.08, 0.5

#: Of a file, which says itself what it is drawn on and in which colour.
_PAPER, _INK = "#ffffff", "#1b1f24"

_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"

_FITTING = "max-width:100%;height:auto;min-width:{:.0f}px"


def svg_of(scene: Scene, *, opaque: bool) -> str:
    """Return a picture on white, or one in the colour of the surrounding text."""
    width, height = f"{scene.width:.0f}", f"{scene.height:.0f}"
    paper = f'<rect width="{width}" height="{height}" fill="{_PAPER}"/>' if opaque else ""
    # On a narrow page it shrinks, but stays readable.
    look = f'color="{_INK}"' if opaque else f'style="{_FITTING.format(0.6 * scene.width)}"'
    title = text(scene.caption)
    # Wires of the critical path above others, boxes above wires.
    wires = sorted(scene.wires, key=lambda wire: wire.critical)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{title}" '
        f'width="{width}" height="{height}" viewBox="0 0 {width} {height}" {look} '
        f'font-family="{_FONT}">'
        f"{paper}{''.join(map(_wire, wires))}{''.join(map(_box, scene.boxes))}</svg>\n"
    )


def darkness(part: float) -> float:
    """Return the opacity of a box for its cost as a share of the largest one."""
    return _LIGHTEST + (_DARKEST - _LIGHTEST) * part


def _wire(wire: Wire) -> str:
    colour = CRITICAL if wire.critical else "currentColor"
    opacity = 0.9 if wire.critical else 0.4
    dashes = ' stroke-dasharray="4 4"' if wire.orders_only else ""
    x, y = wire.points[-1]
    return (
        f"<g><title>{_lines(wire.title)}</title>"
        f'<path d="{_path(wire.points)}" fill="none" stroke="{colour}" '
        f'stroke-opacity="{opacity}" stroke-width="{wire.width:.2f}"{dashes}/>'
        f'<path d="M{x:.1f} {y:.1f}l-7 -3.5v7z" fill="{colour}" fill-opacity="{opacity}"/></g>'
    )


def _path(points: Sequence[tuple[float, float]]) -> str:
    (x, y), *rest = points
    curves = (rest[i : i + 3] for i in range(0, len(rest), 3))
    return f"M{x:.1f} {y:.1f}" + "".join(
        "C" + " ".join(f"{x:.1f} {y:.1f}" for x, y in curve) for curve in curves
    )


def _box(box: Box) -> str:
    stroke = (
        f'stroke="{CRITICAL}" stroke-width="2.2"'
        if box.critical
        else 'stroke="currentColor" stroke-opacity="0.55"'
    )
    dashes = ' stroke-dasharray="4 3"' if box.unfinished else ""
    opacity = darkness(box.part)
    x, middle = box.x + 10, box.y + box.height / 2
    lines = _line(x, middle + 4, FONT_PX[0], box.label)
    if box.note:
        lines = _line(x, middle - 3, FONT_PX[0], box.label)
        lines += _line(x, middle + 12, FONT_PX[1], box.note, ' fill-opacity="0.85"')
    return (
        f"<g><title>{_lines(box.title)}</title>"
        f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" '
        f'height="{box.height:.1f}" rx="5" fill="{FILL}" fill-opacity="{opacity:.2f}" '
        f"{stroke}{dashes}/>{lines}</g>"
    )


def _line(x: float, y: float, size: int, words: str, look: str = "") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="currentColor"{look}>'
        f"{text(words)}</text>"
    )


def _lines(title: str) -> str:
    return "\n".join(map(text, title.split("\n")))


#: From this number of tasks on, notebooks show no drawing by default, since it takes a while.
_UNASKED = 50_000


def draw(sketch: Sketch, nodes: int) -> Drawing:
    """Return the drawing of a DAG, of at most `nodes` nodes.

    Raises
    ------
    ValueError
        If `nodes` is not an integer of at least 2.
    """
    if type(nodes) is not int or nodes < 2:
        raise ValueError(f"nodes must be an integer of at least 2, got {short_repr(nodes)}")
    return Drawing(scene_of(sketch, nodes), svg_of)


def is_drawn_unasked(tasks: int) -> bool:
    """Return whether a notebook draws an object with this number of tasks."""
    return tasks <= _UNASKED
