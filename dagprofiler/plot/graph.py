"""The DAG on axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from dagprofiler.drawing.scene import FONT_PX
from dagprofiler.drawing.svg import CRITICAL, FILL, darkness
from dagprofiler.plot.canvas import PLAIN, axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dagprofiler.drawing.scene import Box, Scene, Wire
    from dagprofiler.pictures import Drawing

__all__ = ["dag"]

#: Pixels of a scene to an inch, as many as browsers take, and the widest figure in inches.
_PX, _WIDEST = 96, 20

#: Of a box's corners, and an arrow's head from its tip.
_RADIUS, _HEAD = 5, ((0, 0), (-7, -3.5), (-7, 3.5))


class Drawable(Protocol):
    """A DAG or a profile, which can draw itself."""

    def draw(self, **options: Any) -> Drawing:
        """Return its picture."""


def dag(what: Drawable, ax: Axes | None = None, **options: Any) -> Axes:
    """Draw a DAG: before a run its tasks and their outputs, of a profile what they cost.

    Parameters
    ----------
    what
        A DAG or a profile.
    ax
        Where to; by default the axes of a new figure.
    options
        As :meth:`DAG.draw <dagprofiler.DAG.draw>` or :meth:`Profile.draw
        <dagprofiler.Profile.draw>` takes them.

    Returns
    -------
    matplotlib.axes.Axes
        Without its lines and ticks. Edges lead from left to right.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    ValueError, WeightError
        As ``what.draw()`` does.
    """
    scene = what.draw(**options).scene
    width, height = max(scene.width, 160) / _PX, max(scene.height, 40) / _PX
    scale = min(1, _WIDEST / width)
    ax = axes(ax, scale * width, scale * height, bare=True)
    ax.set_axis_off()
    ax.set_aspect("equal")
    ax.set_xlim(0, scene.width)
    ax.set_ylim(scene.height, 0)
    for wire in sorted(scene.wires, key=lambda wire: wire.critical):
        _draw_wire(ax, wire)
    points = _points(ax, scene)
    for box in scene.boxes:
        _draw_box(ax, box, points)
    return ax


def _points(ax: Axes, scene: Scene) -> float:
    """Return how many points of type a pixel of the scene is on these axes."""
    extent = ax.get_window_extent()
    scale = min(extent.width / scene.width, extent.height / scene.height)
    return float(scale * 72 / ax.figure.dpi)


def _draw_wire(ax: Axes, wire: Wire) -> None:
    from matplotlib import rcParams
    from matplotlib.patches import PathPatch, Polygon
    from matplotlib.path import Path

    codes = [Path.MOVETO, *[Path.CURVE4] * (len(wire.points) - 1)]
    look = {
        "color": CRITICAL if wire.critical else rcParams["text.color"],
        "alpha": 0.9 if wire.critical else 0.45,
    }
    dashes = "--" if wire.orders_only else "-"
    curve = Path(wire.points, codes)
    ax.add_patch(PathPatch(curve, fill=False, linewidth=wire.width, linestyle=dashes, **look))
    x, y = wire.points[-1]
    head = [(x + right, y + down) for right, down in _HEAD]
    ax.add_patch(Polygon(head, closed=True, linewidth=0, **look))


def _draw_box(ax: Axes, box: Box, points: float) -> None:
    from matplotlib import rcParams
    from matplotlib.colors import to_rgba
    from matplotlib.patches import FancyBboxPatch

    ax.add_patch(
        FancyBboxPatch(
            (box.x + _RADIUS, box.y + _RADIUS),
            box.width - 2 * _RADIUS,
            box.height - 2 * _RADIUS,
            boxstyle=f"round,pad={_RADIUS}",
            facecolor=to_rgba(FILL, darkness(box.part)),
            edgecolor=CRITICAL if box.critical else rcParams["text.color"],
            linewidth=2 if box.critical else 0.8,
            linestyle="--" if box.unfinished else "-",
        )
    )
    lines = [words for words in (box.label, box.note) if words]
    for i, (words, size) in enumerate(zip(lines, FONT_PX), start=1):
        y = box.y + box.height * i / (len(lines) + 1)
        look = {"fontsize": size * points, "verticalalignment": "center"}
        ax.text(box.x + 10, y, words, clip_on=True, **look, **PLAIN)
