"""HTML for notebooks, and Drawing: a picture of a DAG."""

from __future__ import annotations

import re
from functools import cache
from typing import IO, Any

from dagprofiler._util import PathLike
from dagprofiler._util.files import write
from dagprofiler._util.text import Block, printable, render

#: Maximum rows of a table: notebooks store what they show.
_ROWS = 20

_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"})


class Shown:
    """An object that notebooks show as HTML, and terminals as its text."""

    def _repr_html_(self) -> str:
        raise NotImplementedError

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        """Return the object in all its forms; IPython selects among them."""
        return {"text/plain": str(self), "text/html": self._repr_html_()}


class ShownInBlocks(Shown):
    """An object that shows itself in blocks: notebooks as HTML, terminals as text."""

    def blocks(self) -> list[Block]:
        """Return what is shown, in its order."""
        raise NotImplementedError

    def __str__(self) -> str:
        return render(self.blocks())

    def _repr_html_(self) -> str:
        return view(*map(markup, self.blocks()))


def text(words: str) -> str:
    r"""Return any text as HTML that shows it; unprintable characters become escapes.

    Examples
    --------
    >>> print(text("<b>\0"))
    &lt;b&gt;\x00
    """
    return printable(words).translate(_ESCAPES)


def view(*parts: str) -> str:
    """Return parts of HTML in a styled frame."""
    return f'<div class="dagprofiler"><style>{_style()}</style>{"".join(parts)}</div>'


@cache
def _style() -> str:
    from importlib.resources import files

    lines = files("dagprofiler._util").joinpath("notebook.css").read_text("utf-8").splitlines()
    return "".join(line for line in lines if not line.startswith("/*"))


def paragraph(html: str, *, quiet: bool = False) -> str:
    """Return a paragraph."""
    look = ' class="quiet"' if quiet else ""
    return f"<p{look}>{html}</p>"


#: Words of a cell or a title that have a colour.
_COLOURED = re.compile(r"\b(slower|faster)\b")


def _coloured(words: str) -> str:
    return _COLOURED.sub(r'<b class="\1">\1</b>', text(words))


def markup(block: Block) -> str:
    """Return a block; a table with a title unfolds at a click on it."""
    notes = "".join([paragraph(text(note), quiet=True) for note in block.notes])
    if len(block.rows) < 2:
        title = paragraph(_coloured(block.title)) if block.title and not block.rows else ""
        return f"{title}{notes}"
    table = f"{_table(block)}{notes}"
    if block.title:
        return f"<details><summary>{text(block.title)}</summary>{table}</details>"
    return table


def _table(block: Block) -> str:
    """Return the table of a block; a long one is cut and says how many rows are left."""
    head, *body = block.rows
    # Below the head, cells also have it as an attribute, for cards.
    labels = ["", *(f' data-of="{text(label)}"' if label else "" for label in head[1:])]
    places = [" class=left" if i in block.left else "" for i in range(len(head))]
    cells = [f"<th{place}>{text(cell)}</th>" for place, cell in zip(places, head)]
    lines = [f"<table><thead><tr>{''.join(cells)}</tr></thead><tbody>"]
    for row in body[:_ROWS]:
        shown = [*map(text, row[:-1]), _coloured(row[-1])]
        cells = [f"<td{p}{of}>{cell}</td>" for p, of, cell in zip(places, labels, shown)]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    lines.append("</tbody></table>")
    if more := block.more + max(0, len(body) - _ROWS):
        lines.append(paragraph(text(f"… and {more:,} more {block.what}"), quiet=True))
    return "".join(lines)


class Drawing(Shown):
    """A picture of a DAG: notebooks show it, and it can be saved.

    Made by :meth:`DAG.draw <dagprofiler.DAG.draw>` and :meth:`Profile.draw
    <dagprofiler.Profile.draw>`. Edges lead from left to right.

    Attributes
    ----------
    svg
        The picture as SVG, on white.
    caption
        Numbers of tasks, edges and groups.

    Examples
    --------
    >>> from dagprofiler import DAG, task
    >>> @task(outputs=["x"])
    ... def source():
    ...     return {"x": 1}
    >>> DAG({"source": source}).draw()
    <Drawing: 1 task, 0 edges>
    """

    def __init__(self, caption: str, svg: str, picture: str) -> None:
        self.caption, self.svg = caption, svg
        #: The picture in the colours of a notebook, as a part of a view.
        self.picture = picture

    def save(self, path: PathLike | IO[Any]) -> str:
        """Write the picture as SVG to a file, which is replaced atomically, or to an open stream.

        Returns
        -------
        str
            The path; of a stream its name, or an empty string.
        """
        return write(path, [self.svg])

    def __repr__(self) -> str:
        return f"<Drawing: {self.caption}>"

    def _repr_html_(self) -> str:
        return view(self.picture, paragraph(text(self.caption), quiet=True))

    def _repr_svg_(self) -> str:
        """Return the picture as an image, for viewers without HTML."""
        return self.svg
