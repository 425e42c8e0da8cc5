"""Drawings: DAGs laid out, folded where they are large, and drawn as SVG."""

from __future__ import annotations

import re
from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from math import ceil, sqrt
from typing import NamedTuple, Optional

from dagprofiler._util import grouped
from dagprofiler._util.checks import integer
from dagprofiler._util.html import Drawing, text
from dagprofiler._util.text import BYTES, printable, quantity, share
from dagprofiler.errors import counted

#: Passes over all layers that sort them, and that move what is in them.
_ORDERING, _MOVING = 8, 8

#: The most bends of all edges together. The longest edges get theirs last, and may get none: then
#: they are straight.
_BENDS = 12_000

#: Room that a bend takes in its layer; a node takes 1.
_BEND = 0.3


#: Sources and targets, by number.
Edges = Sequence[tuple[int, int]]

#: For each node the numbers of others.
Neighbours = Sequence[Sequence[int]]


class Layout(NamedTuple):
    """Positions of nodes and bends of edges.

    Attributes
    ----------
    layers
        Of each node, from 0.
    places
        Of each node in its layer, in widths of a node: those of one layer are at least 1 apart.
    bends
        Of each edge the places where it crosses the layers between its ends; none of an edge that
        is drawn straight.
    """

    layers: list[int]
    places: list[float]
    bends: list[list[float]]


def lay_out(count: int, edges: Edges) -> Layout:
    """Return a layout of the graph of nodes 0, 1 ... `count` - 1.

    Raises
    ------
    ValueError
        If the edges form a cycle.

    Notes
    -----
    Sugiyama, Tagawa and Toda, Methods for Visual Understanding of Hierarchical System Structures,
    IEEE Trans. Syst. Man Cybern. 11(2), 1981: layers by the longest path, barycentres sort them.
    Within a layer nodes then move to the mean of their neighbours, as far as the order allows.
    O((V + B) log (V + B)) time, where B is the number of bends, which is bounded.

    Examples
    --------
    >>> lay_out(3, [(0, 1), (0, 2)])
    Layout(layers=[0, 1, 1], places=[1.0, 0.5, 1.5], bends=[[], []])
    """
    layers = layers_of(count, edges)
    graph = _Layered(layers, edges)
    graph.sort()
    places = graph.move()
    bends = [[round(places[v], 3) for v in of_edge] for of_edge in graph.bends]
    return Layout(layers, [round(p, 3) for p in places[:count]], bends)


def layers_of(count: int, edges: Iterable[tuple[int, int]]) -> list[int]:
    """Return the layer of each node, such that edges lead to later layers and are short.

    A node is as early as it can be; one that nothing leads to is as late as it can be. Nodes
    without edges are spread over the layers, or over a square.
    """
    below: list[list[int]] = [[] for _ in range(count)]
    waiting = [0] * count
    for source, target in edges:
        below[source].append(target)
        waiting[target] += 1
    entries = [v for v in range(count) if not waiting[v]]
    layers = [0] * count
    ready = list(entries)
    for v in ready:
        for target in below[v]:
            layers[target] = max(layers[target], layers[v] + 1)
            waiting[target] -= 1
            if not waiting[target]:
                ready.append(target)
    if len(ready) < count:
        raise ValueError(f"{count - len(ready)} nodes are on cycles, or behind them")
    alone = [v for v in entries if not below[v]]
    for v in entries:
        if below[v]:
            layers[v] = min(layers[target] for target in below[v]) - 1
    columns = max(max(layers, default=0) + 1, ceil(sqrt(len(alone))))
    for i, v in enumerate(alone):
        layers[v] = i % columns
    return layers


class _Layered:
    """A graph whose edges lead from each layer to the next, by way of bends."""

    def __init__(self, layers: Sequence[int], edges: Edges) -> None:
        self._count = count = len(layers)
        self.above: list[list[int]] = [[] for _ in range(count)]
        self.below: list[list[int]] = [[] for _ in range(count)]
        #: The bends of each edge, which are numbered after the nodes.
        self.bends: list[list[int]] = [[] for _ in edges]
        self._layer = list(layers)
        spans = [layers[target] - layers[source] for source, target in edges]
        left = _BENDS
        for k in sorted(range(len(edges)), key=spans.__getitem__):
            source, target = edges[k]
            if spans[k] - 1 > left:
                break
            left -= spans[k] - 1
            bends = range(len(self._layer), len(self._layer) + spans[k] - 1)
            self.bends[k] = list(bends)
            self._layer += range(layers[source] + 1, layers[target])
            self.above += [[] for _ in bends]
            self.below += [[] for _ in bends]
            for v, following in zip((source, *bends), (*bends, target)):
                self.below[v].append(following)
                self.above[following].append(v)
        self.rows = self._first_rows()

    def _first_rows(self) -> list[list[int]]:
        """Return the layers, sorted so that connected nodes are close."""
        rows: list[list[int]] = [[] for _ in range(max(self._layer, default=-1) + 1)]
        seen = [False] * len(self._layer)
        entries = [v for v in range(self._count) if not self.above[v]]
        alone = [v for v in entries if not self.below[v]]
        # The last is taken first: what follows an entry, in depth, then the next entry.
        stack = [*reversed(alone), *(v for v in reversed(entries) if self.below[v])]
        while stack:
            v = stack.pop()
            if not seen[v]:
                seen[v] = True
                rows[self._layer[v]].append(v)
                stack.extend(reversed(self.below[v]))
        return rows

    def sort(self) -> None:
        """Sort the layers by barycentres, down and up in turns, until no lines cross."""
        fewest, best = self._crossings(), self.rows
        for number in range(_ORDERING):
            if not fewest:
                break
            self.rows = [list(row) for row in self.rows]
            down = number % 2 == 0
            place = [0] * len(self._layer)
            for row in self.rows if down else reversed(self.rows):
                _sort(row, self.above if down else self.below, place)
            crossings = self._crossings()
            if crossings < fewest:
                fewest, best = crossings, self.rows
        self.rows = best

    def _crossings(self) -> int:
        """Count the crossings: pairs of lines whose ends are in opposite orders."""
        place = {v: i for row in self.rows for i, v in enumerate(row)}
        crossings = 0
        for row in self.rows[:-1]:
            ends: list[int] = []
            for v in row:
                after = sorted(place[w] for w in self.below[v])
                for end in after:
                    crossings += len(ends) - bisect_right(ends, end)
                for end in after:
                    insort(ends, end)
        return crossings

    def move(self) -> list[float]:
        """Return the places in the layers, close to those of neighbours."""
        rows = [(row, self._offsets(row)) for row in self.rows]
        places = [0.0] * len(self._layer)
        for row, offset in rows:
            middle = offset[-1] / 2 if row else 0.0
            for v, at in zip(row, offset):
                places[v] = at - middle
        for number in range(_MOVING):
            down = number % 2 == 0
            sides = [self.above if down else self.below]
            if number == _MOVING - 1:
                # The last pass uses both sides, so that the picture is balanced.
                sides = [self.above, self.below]
            for row, offset in rows if down else reversed(rows):
                _settle(row, offset, sides, places)
        lowest = min(places, default=0.0) - 0.5
        return [place - lowest for place in places]

    def _offsets(self, row: Sequence[int]) -> list[float]:
        """Return the places of a layer's nodes if they are packed closely."""
        room = [1.0 if v < self._count else _BEND for v in row]
        return list(accumulate(((a + b) / 2 for a, b in zip(room, room[1:])), initial=0.0))


def _settle(
    row: list[int], offsets: list[float], sides: Sequence[Neighbours], places: list[float]
) -> None:
    """Move a layer's nodes to the mean of their neighbours, as far as the order allows."""
    shifts = []
    for v, offset in zip(row, offsets):
        around = [places[w] for side in sides for w in side[v]] or [places[v]]
        shifts.append(sum(around) / len(around) - offset)
    # One sweep pushes nodes that are too close to the right, the other to the left.
    to_right = accumulate(shifts, max)
    to_left = [*accumulate(reversed(shifts), min)][::-1]
    for v, offset, right, left in zip(row, offsets, to_right, to_left):
        places[v] = (right + left) / 2 + offset


def _sort(row: list[int], neighbours: Neighbours, place: list[int]) -> None:
    """Sort a layer by the mean place of neighbours; nodes without any keep their place."""
    means: dict[int, float] = {}
    for i, v in enumerate(row):
        places = [place[w] for w in neighbours[v]] or [i]
        means[v] = sum(places) / len(places)
    row.sort(key=means.__getitem__)
    for i, v in enumerate(row):
        place[v] = i


#: Fewest similar tasks that form a group.
_ALIKE = 3

#: Most nodes and edges of a readable picture.
_NODES, _EDGES = 600, 4_000

#: The longest row of groups that can still be read, and groups in the coarsest folding.
_DEPTH, _COARSEST = 40, 24

#: The layer of tasks without edges.
_ALONE = -1

_DIGITS = re.compile(r"\d+")
_LAST_DIGITS = re.compile(r"\d+(?=\D*$)")

#: Most kinds of tasks that the last number of their names tells apart.
_KINDS = 40


def kinds_by_name(names: Sequence[str]) -> list[str]:
    """Return for each task the pattern of its name, or its name if less than three share it.

    The last number of a name is replaced by ``*``, or every number if that leaves too many kinds.

    Examples
    --------
    >>> kinds_by_name(["split", "map_1", "map_2", "map_3"])
    ['split', 'map_*', 'map_*', 'map_*']
    """
    patterns = [_LAST_DIGITS.sub("*", name) for name in names]
    if len(set(patterns)) > min(_KINDS, len(names) / _ALIKE):
        patterns = [_DIGITS.sub("*", name) for name in names]
    sizes = Counter(patterns)
    return [p if sizes[p] >= _ALIKE else name for p, name in zip(patterns, names)]


class Folding(NamedTuple):
    """The nodes of a picture, which form a DAG: groups of tasks, or tasks.

    Attributes
    ----------
    labels
        What the tasks of each node have in common, in words.
    tasks
        For each node the numbers of its tasks, in order.
    edges
        Source and target, by the number of the node.
    of
        For each edge the numbers of the edges between tasks that it stands for.
    """

    labels: Sequence[str]
    tasks: list[list[int]]
    edges: list[tuple[int, int]]
    of: list[list[int]]


def fold(
    names: Sequence[str], edges: Edges, nodes: int = _NODES, kinds: Sequence[str] | None = None
) -> Folding:
    """Return the finest of three foldings with a readable picture.

    Parameters
    ----------
    names
        Of the tasks.
    edges
        Source and target, by number.
    nodes
        Most groups of a readable picture; the coarsest may have two.
    kinds
        Of the tasks; by default :func:`kinds_by_name`.

    Notes
    -----
    Tasks are grouped that are in one layer and of one kind; else all of a layer; else all of
    several layers in a row. Edges lead to later layers, so that groups form no
    cycle. Tasks without edges are by themselves. O(V + E) time, plus sorting.

    Examples
    --------
    >>> folding = fold(["split", "map_1", "map_2", "map_3"], [(0, 1), (0, 2), (0, 3)])
    >>> folding.labels, folding.tasks, folding.edges, folding.of
    (['split', 'map_*'], [[0], [1, 2, 3]], [(0, 1)], [[0, 1, 2]])
    """
    joined = set(chain.from_iterable(edges))
    layers = layers_of(len(names), edges)
    layers = [layer if v in joined else _ALONE for v, layer in enumerate(layers)]
    kinds = kinds_by_name(names) if kinds is None else kinds
    for labels, keys in _foldings(names, kinds, layers, min(_COARSEST, nodes - 2)):
        folding = _folded(labels, keys, edges)
        is_small = len(folding.tasks) <= nodes and len(folding.edges) <= _EDGES
        if is_small and max(layers_of(len(folding.tasks), folding.edges), default=0) < _DEPTH:
            break
    return folding


def _foldings(
    names: Sequence[str], kinds: Sequence[str], layers: Sequence[int], coarsest: int
) -> Iterator[tuple[list[str], list[Hashable]]]:
    """Yield for each folding the label and the group of every task, finest first."""
    sizes = Counter(zip(layers, kinds))
    alike = [sizes[key] >= _ALIKE for key in zip(layers, kinds)]
    yield (
        [kind if same else name for name, kind, same in zip(names, kinds, alike)],
        [(key if same else v) for v, (key, same) in enumerate(zip(zip(layers, kinds), alike))],
    )
    for step in (1, max(layers, default=0) // max(1, coarsest) + 1):
        parts = [layer // step for layer in layers]
        yield [_levels(part * step, step) for part in parts], list(parts)


def _levels(layer: int, step: int) -> str:
    if layer < 0:
        return "without edges"
    return f"level {layer}" if step == 1 else f"levels {layer} to {layer + step - 1}"


def _folded(labels: Sequence[str], keys: Sequence[Hashable], edges: Edges) -> Folding:
    numbers: dict[Hashable, int] = {}
    group_of = [numbers.setdefault(key, len(numbers)) for key in keys]
    groups = [*grouped((group, v) for v, group in enumerate(group_of)).values()]
    ends = (((group_of[source], group_of[target]), k) for k, (source, target) in enumerate(edges))
    between = grouped((pair, k) for pair, k in ends if pair[0] != pair[1])
    common = [labels[members[0]] for members in groups]
    return Folding(common, groups, list(between), list(between.values()))


def unfolded(names: Sequence[str], edges: list[tuple[int, int]]) -> Folding:
    """Return the folding in which each task is a node."""
    return Folding(names, [[i] for i in range(len(names))], edges, [[k] for k in range(len(edges))])


#: Size of the letters of names and of notes, their average width, and letters of the longest text
#: that is not cut.
FONT_PX = (12, 10)
_LETTER, _LONGEST = (6.9, 5.8), 22

#: Least width of a box, padding of its text, and its height with one and with two lines, in px.
_LEAST, _PADDING, _HEIGHT = 48, 20, (28, 40)

#: Distance of layers, of boxes in a layer, and of the picture from its frame, in px.
_GAP, _APART, _MARGIN = 48, 14, 8


#: Costs of tasks, or sizes of edges; None where one is not known.
Numbers = Sequence[Optional[float]]

#: x and y, in px.
Point = tuple[float, float]


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
    costs: Numbers = ()
    unit: str = ""
    fields: Sequence[str] = ()
    sizes: Numbers = ()
    path: Sequence[int] = ()
    unfinished: Collection[int] = ()


class Scene(NamedTuple):
    """A picture: its size, its content as SVG, and its caption."""

    width: float
    height: float
    content: str
    caption: str


class _Grid(NamedTuple):
    """Positions of layers and places for boxes of one size."""

    width: float
    height: float

    def point(self, layer: int, place: float, *, is_end: bool = False) -> Point:
        """Return where edges arrive at a place of a layer, or where they leave it."""
        x = _MARGIN + layer * (self.width + _GAP) + is_end * self.width
        y = _MARGIN + (place - 0.5) * (self.height + _APART) + self.height / 2
        return x, y

    def corner(self, layer: int, place: float) -> Point:
        """Return the upper left corner of a box."""
        x, y = self.point(layer, place)
        return x, y - self.height / 2

    def route(self, layout: Layout, edge: tuple[int, int], bends: Sequence[float]) -> list[Point]:
        """Return the points on the way from one box to another."""
        first, last = ((layout.layers[node], layout.places[node]) for node in edge)
        between = enumerate(bends, first[0] + 1)
        ends = [[self.point(*bend), self.point(*bend, is_end=True)] for bend in between]
        return [self.point(*first, is_end=True), *chain(*ends), self.point(*last)]


def scene_of(sketch: Sketch, nodes: int) -> Scene:
    """Return the picture of a DAG of at most `nodes` nodes; larger ones are folded."""
    if len(sketch.names) <= nodes:
        picture = unfolded(sketch.names, sketch.edges)
    else:
        picture = fold(sketch.names, sketch.edges, nodes)
    labels = [_label(sketch, picture, node) for node in range(len(picture.tasks))]
    costs = [_sum(sketch.costs, tasks) for tasks in picture.tasks]
    notes = [_note(sketch, tasks, cost) for tasks, cost in zip(picture.tasks, costs)]
    widths = [len(shortened(label)) * _LETTER[0] for label in labels]
    widths += [len(shortened(note)) * _LETTER[1] for note in notes]
    width = max(_LEAST, _PADDING + max(widths, default=0))
    grid = _Grid(width, _HEIGHT[any(notes)])
    layout = lay_out(len(picture.tasks), picture.edges)
    corners = [grid.corner(*where) for where in zip(layout.layers, layout.places)]
    largest = max((cost for cost in costs if cost is not None), default=0)
    path, unfinished = set(sketch.path), set(sketch.unfinished)
    boxes = []
    for tasks, label, note, cost, corner in zip(picture.tasks, labels, notes, costs, corners):
        stroke = _CRITICAL_STROKE if path.intersection(tasks) else _STROKE
        dashes = ' stroke-dasharray="4 3"' if unfinished.intersection(tasks) else ""
        opacity = _LIGHTEST + (_DARKEST - _LIGHTEST) * share(cost or 0, largest)
        look = f'fill-opacity="{opacity:.2f}" {stroke}{dashes}'
        boxes.append(_box(grid, corner, label, note, look))
    routes = [grid.route(layout, *line) for line in zip(picture.edges, layout.bends)]
    wires = _wires(sketch, picture, labels, routes)
    # A line may run beside the last box.
    ends = [(x + grid.width, y + grid.height) for x, y in corners] + [*chain(*routes)]
    right, bottom = (max((end[axis] for end in ends), default=0) for axis in (0, 1))
    return Scene(
        width=right + _MARGIN,
        height=bottom + _MARGIN,
        content="".join([*wires, *boxes]),
        caption=_caption(sketch, picture),
    )


def shortened(text: str, most: int = _LONGEST) -> str:
    """Return a text, cut if it is longer than `most`."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _label(sketch: Sketch, picture: Folding, node: int) -> str:
    tasks = picture.tasks[node]
    if len(tasks) == 1:
        return printable(sketch.names[tasks[0]])
    return f"{printable(picture.labels[node])} ({len(tasks):,})"


def _note(sketch: Sketch, tasks: Sequence[int], cost: float | None) -> str:
    if sketch.costs:
        return quantity(cost, sketch.unit)
    return printable(sketch.notes[tasks[0]]) if sketch.notes and len(tasks) == 1 else ""


def _sum(values: Numbers, numbers: Sequence[int]) -> float | None:
    """Return the sum of the known values; None if none is known."""
    known = [value for i in numbers if (value := values[i]) is not None] if values else ()
    return sum(known) if known else None


def _caption(sketch: Sketch, picture: Folding) -> str:
    tasks, edges = counted(len(sketch.names), "task"), counted(len(sketch.edges), "edge")
    if len(picture.tasks) == len(sketch.names):
        return f"{tasks}, {edges}"
    return f"{tasks}, {edges}, in {counted(len(picture.tasks), 'group')}"


#: Colours of the critical path and of boxes, which stand out on light and on dark paper.
CRITICAL, FILL = "#d9601a", "#3b82c4"

#: Opacity of the boxes that cost least and most: text over them stays readable.
_LIGHTEST, _DARKEST = 0.08, 0.5

#: Colours of paper and text in a file; in a page they are those of the page.
_PAPER, _INK = "#ffffff", "#1b1f24"

_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"

_FITTING = "max-width:100%;height:auto;min-width:{:.0f}px"


def svg_of(scene: Scene, *, opaque: bool) -> str:
    """Return a picture on white, or one in the colour of the surrounding text."""
    width, height = f"{scene.width:.0f}", f"{scene.height:.0f}"
    paper = f'<rect width="{width}" height="{height}" fill="{_PAPER}"/>' if opaque else ""
    # On a narrow page it shrinks, but stays readable.
    look = f'color="{_INK}"' if opaque else f'style="{_FITTING.format(0.6 * scene.width)}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{text(scene.caption)}" '
        f'width="{width}" height="{height}" viewBox="0 0 {width} {height}" {look} '
        f'font-family="{_FONT}">{paper}{scene.content}</svg>\n'
    )


def _wires(
    sketch: Sketch, picture: Folding, labels: list[str], routes: list[list[Point]]
) -> list[str]:
    """Return the edges, those of the critical path above others."""
    sizes = [_sum(sketch.sizes, edges) for edges in picture.of]
    largest = max((size for size in sizes if size is not None), default=0)
    steps = set(zip(sketch.path, sketch.path[1:]))
    wires: list[str] = []
    critical_wires: list[str] = []
    for (source, target), edges, size, points in zip(picture.edges, picture.of, sizes, routes):
        is_critical = any(sketch.edges[edge] in steps for edge in edges)
        colour, opacity = (CRITICAL, 0.9) if is_critical else ("currentColor", 0.4)
        orders_only = bool(sketch.fields) and not any(sketch.fields[edge] for edge in edges)
        dashes = ' stroke-dasharray="4 4"' if orders_only else ""
        ends = f"{shortened(labels[source])} → {shortened(labels[target])}"
        width = 1.2 + 3 * sqrt(share(size or 0, largest))
        x, y = points[-1]
        svg = (
            f"<g>{_title(ends, *_carried(sketch, edges, size))}"
            f'<path d="{_curve(points)}" fill="none" stroke="{colour}" '
            f'stroke-opacity="{opacity}" stroke-width="{width:.2f}"{dashes}/>'
            f'<path d="M{x:.1f} {y:.1f}l-7 -3.5v7z" fill="{colour}" '
            f'fill-opacity="{opacity}"/></g>'
        )
        (critical_wires if is_critical else wires).append(svg)
    return wires + critical_wires


def _curve(points: Sequence[Point]) -> str:
    """Return a smooth line through the points, as data of a path."""
    line = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x, y), (to_x, to_y) in zip(points, points[1:]):
        middle = (x + to_x) / 2
        line += f"C{middle:.1f} {y:.1f} {middle:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}"
    return line


def _carried(sketch: Sketch, edges: Sequence[int], size: float | None) -> Iterator[str]:
    """Yield what an edge of the picture carries, in words."""
    if len(edges) > 1:
        yield counted(len(edges), "edge")
    elif sketch.fields:
        yield printable(sketch.fields[edges[0]]) or "order only"
    if size is not None:
        yield quantity(size, BYTES)


_STROKE = 'stroke="currentColor" stroke-opacity="0.55"'
_CRITICAL_STROKE = f'stroke="{CRITICAL}" stroke-width="2.2"'


def _box(grid: _Grid, corner: Point, label: str, note: str, look: str) -> str:
    """Return a node with its label and its note."""
    x, y = corner
    middle = y + grid.height / 2
    lines = _line(x, middle + (-3 if note else 4), FONT_PX[0], label)
    if note:
        lines += _line(x, middle + 12, FONT_PX[1], note, ' fill-opacity="0.85"')
    return (
        f'<g>{_title(label, note)}<rect x="{x:.1f}" y="{y:.1f}" width="{grid.width:.1f}" '
        f'height="{grid.height:.1f}" rx="5" fill="{FILL}" {look}/>{lines}</g>'
    )


def _line(x: float, y: float, size: int, words: str, look: str = "") -> str:
    return (
        f'<text x="{x + _PADDING / 2:.1f}" y="{y:.1f}" font-size="{size}" fill="currentColor"'
        f"{look}>{text(shortened(words))}</text>"
    )


def _title(*lines: str) -> str:
    return f"<title>{chr(10).join(text(line) for line in lines if line)}</title>"


#: With more tasks, notebooks show no drawing by default, since it takes a while.
UNASKED = 50_000


def draw(sketch: Sketch, nodes: int) -> Drawing:
    """Return the drawing of a DAG, of at most `nodes` nodes.

    Raises
    ------
    ValueError
        If `nodes` is not an integer of at least 2.
    """
    scene = scene_of(sketch, integer("nodes", nodes, 2, error=ValueError))
    return Drawing(scene.caption, svg_of(scene, opaque=True), svg_of(scene, opaque=False))
