"""Scenes as SVG: no script, no style sheet, no identifiers, so that it stands in any page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dagprofiler.drawing.scene import FONT_PX, Box, Scene, Wire
from dagprofiler.markup import text

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["CRITICAL", "FILL", "darkness", "svg_of"]

#: Colours that stand out on light and on dark, with text over the second as strong as below.
CRITICAL, FILL = "#d9601a", "#3b82c4"
_LIGHTEST, _DARKEST = 0.08, 0.5

#: Of a file, which says itself what it is drawn on and in which colour.
_PAPER, _INK = "#ffffff", "#1b1f24"

_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"

_FITTING = "max-width:100%;height:auto;min-width:{:.0f}px"


def svg_of(scene: Scene, *, opaque: bool) -> str:
    """Return a picture of white paper, or else one in the colour of the text around it."""
    width, height = f"{scene.width:.0f}", f"{scene.height:.0f}"
    paper = f'<rect width="{width}" height="{height}" fill="{_PAPER}"/>' if opaque else ""
    # In a page that is too narrow it shrinks, but not to what cannot be read.
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
    """Return how opaque a box is that costs this part of what the most expensive one does."""
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
