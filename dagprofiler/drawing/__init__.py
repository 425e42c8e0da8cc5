"""Drawings: how the tasks of a DAG hang together, as SVG."""

from __future__ import annotations

from dagprofiler.drawing.scene import Sketch, scene_of
from dagprofiler.drawing.svg import svg_of
from dagprofiler.errors import short_repr
from dagprofiler.pictures import Drawing

__all__ = ["Sketch", "draw", "is_drawn_unasked"]

#: Tasks from which on an object shows no drawing of itself unasked, as that takes a while.
_UNASKED = 50_000


def draw(sketch: Sketch, nodes: int) -> Drawing:
    """Return the drawing of a DAG, of at most `nodes` nodes.

    Raises
    ------
    ValueError
        If `nodes` is no integer of at least 2.
    """
    if type(nodes) is not int or nodes < 2:
        raise ValueError(f"nodes must be an integer of at least 2, got {short_repr(nodes)}")
    return Drawing(scene_of(sketch, nodes), svg_of)


def is_drawn_unasked(tasks: int) -> bool:
    """Tell whether an object of so many tasks is drawn when a notebook shows it."""
    return tasks <= _UNASKED
