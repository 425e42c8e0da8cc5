"""What plots have in common: axes, rows, and colours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dagprofiler.errors import MissingExtraError
from dagprofiler.quantities import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

__all__ = ["COLOURS", "PLAIN", "axes", "label_rows", "row_axes"]

#: Of the phases of a task, as in the report.
COLOURS = {"deserialize": "#5fae9f", "compute": "#3b82c4", "serialize": "#d9a637"}

#: Texts are shown as they are: a dollar sign begins no formula.
PLAIN: dict[str, Any] = {"parse_math": False}

#: Rows that are labelled, and letters of a label.
_LABELLED, _LETTERS = 60, 32

#: Inches: of a figure's width, of a row, and of what is around the rows.
_WIDTH, _ROW, _AROUND = 8, 0.28, 1.1


def axes(ax: Axes | None, width: float, height: float, *, bare: bool = False) -> Axes:
    """Return `ax`, or the axes of a new figure of so many inches, which bare ones fill.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    """
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise MissingExtraError("dagprofiler.plot", "plot") from error
    if ax is not None:
        return ax
    if bare:
        return pyplot.figure(figsize=(width, height)).add_axes((0, 0, 1, 1))
    return pyplot.subplots(figsize=(width, height), layout="constrained")[1]


def row_axes(ax: Axes | None, rows: int) -> Axes:
    """Return `ax`, or the axes of a new figure that is as high as so many rows need it."""
    return axes(ax, _WIDTH, _AROUND + _ROW * min(max(rows, 2), _LABELLED))


def label_rows(ax: Axes, names: Sequence[str], what: str) -> None:
    """Name the rows from the top down; if they are too many to be read, say how many of what."""
    ax.set_ylim(len(names) - 0.5, -0.5)
    if len(names) <= _LABELLED:
        ax.set_yticks(range(len(names)), [_label(name) for name in names], **PLAIN)
    else:
        ax.set_yticks([])
        ax.set_ylabel(f"{len(names):,} {what}")
    ax.spines[["top", "right"]].set_visible(False)


def _label(name: str) -> str:
    words = printable(name)
    return words if len(words) <= _LETTERS else f"{words[: _LETTERS - 1]}…"
