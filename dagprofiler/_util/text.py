"""Text: readable quantities, and tables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from dagprofiler.errors import listed

#: The unit that has a prefix.
BYTES = "B"

_PREFIXES = ("", "k", "M", "G", "T", "P", "E")


def quantity(value: float | None, unit: str | None) -> str:
    """Return a number with four digits and its unit; ``-`` for None.

    Examples
    --------
    >>> quantity(160000, BYTES), quantity(5.6274, "ms")
    ('160 kB', '5.627 ms')
    """
    if value is None:
        return "-"
    if unit is not None and unit.endswith("ms"):
        return f"{value:,.0f} {unit}" if value >= 1000 else f"{value:.4g} {unit}"
    scaled, power = value, 0
    while scaled >= 1000 and power < len(_PREFIXES) - 1:
        scaled, power = scaled / 1000, power + 1
    space = "" if unit == BYTES else " "
    return f"{scaled:.4g} {_PREFIXES[power]}{space if _PREFIXES[power] else ''}{unit}"


def shortened(share: float) -> str:
    """Return by how much something is shorter, or longer, as a share of what it was.

    Examples
    --------
    >>> shortened(0.25), shortened(-0.014)
    ('25.0% shorter', '1.4% longer')
    """
    return f"{abs(share):.1%} {'longer' if share < 0 else 'shorter'}"


def share(value: float, largest: float) -> float:
    """Return `value` relative to the largest value, from 0 to 1."""
    return value / largest if largest else 0.0


_DIGITS = re.compile(r"[0-9]+")

#: Maximum rows shown for the tasks or edges of a profile.
MOST_ROWS = 40


def printable(text: object) -> str:
    """Return `text` with unprintable characters and line breaks as escapes."""
    words = str(text)
    if words.isprintable():
        return words
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in words)


def class_of(name: str) -> str:
    """Return the class of tasks that a name belongs to: the name with ``*`` for its numbers.

    Examples
    --------
    >>> class_of("tokenize_12"), class_of("map[3]"), class_of("sink")
    ('tokenize_*', 'map[*]', 'sink')
    """
    return _DIGITS.sub("*", name)


def classes_of(names: Sequence[str]) -> list[str]:
    """Return the class of each name, in a fifth of the time that a call for each takes."""
    classes = _DIGITS.sub("*", "\n".join(names)).split("\n")
    # A name in a file may contain anything.
    return classes if len(classes) == len(names) else [class_of(name) for name in names]


def is_of(name: str, wanted: str) -> bool:
    """Tell whether a task is the one, or of the class, that a user means.

    Examples
    --------
    >>> is_of("tokenize_12", "tokenize"), is_of("tokenize_12", "tokenize_12"), is_of("a", "b")
    (True, True, False)
    """
    kind = class_of(name)
    return wanted in (name, kind, kind.rstrip("*_-.:[]() "))


def number(value: float | None) -> str:
    """Return a number with three decimals, or three digits below 0.1; ``-`` for None.

    Examples
    --------
    >>> number(1234.5), number(0.01234), number(1234), number(None)
    ('1,234.500', '0.0123', '1,234', '-')
    """
    if value is None:
        return "-"
    if not isinstance(value, float):
        return f"{value:,}"
    return f"{value:.3g}" if 0 < abs(value) < 0.1 else f"{value:,.3f}"


def table_of(head: Sequence[str], rows: Iterable[Iterable[Any]]) -> list[Sequence[str]]:
    """Return a head, and rows of text and numbers as text; see :func:`cell`.

    Examples
    --------
    >>> table_of(["task", "ms"], [("a", 1.5), ("b", None)])
    [['task', 'ms'], ['a', '1.500'], ['b', '-']]
    """
    return [head, *([cell(value) for value in row] for row in rows)]


def cell(value: Any) -> str:
    """Return a text, a list of texts or a number as it stands in a table."""
    if isinstance(value, list):
        return printable(", ".join(value))
    return printable(value) if isinstance(value, str) else number(value)


def some(names: Sequence[object], most: int = 5) -> str:
    """Return the first names, and how many more there are.

    Examples
    --------
    >>> some(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    return listed(names, most, printable)


#: Most reasons for doubt that text shows.
_MOST_REASONS = 5


def doubts(reasons: Sequence[str]) -> list[str]:
    """Return lines for the first reasons not to trust a prediction, and how many more there are.

    Examples
    --------
    >>> doubts(["no engine"])
    ['not certain: no engine']
    """
    lines = [f"not certain: {printable(reason)}" for reason in reasons[:_MOST_REASONS]]
    more = len(reasons) - _MOST_REASONS
    return [*lines, f"not certain: {more} more, listed in `reasons`"] if more > 0 else lines


def distinct(texts: Iterable[str], form: str, clean: Callable[[str], str] = str) -> list[str]:
    """Return the clean form of each text, numbered by `form` where it is taken.

    Texts that are clean come first, then the others in their order.

    Examples
    --------
    >>> distinct(["A", "a", "b", "b"], "{} ({})", str.lower)
    ['a (2)', 'a', 'b', 'b (2)']
    """
    wanted = [(text, clean(text)) for text in texts]
    owners: dict[str, int] = {}
    for i, (text, name) in enumerate(wanted):
        if text == name:
            owners.setdefault(name, i)
    copies: Counter[str] = Counter()
    found = []
    for i, (_, name) in enumerate(wanted):
        candidate = name
        while owners.setdefault(candidate, i) != i:
            copies[name] += 1
            candidate = form.format(name, copies[name] + 1)
        found.append(candidate)
    return found


def aligned(rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> list[str]:
    """Return the lines of a table, with columns as wide as needed.

    Columns whose numbers are in `left` are left-aligned, the others right-aligned.
    """
    widths = [max(map(len, column)) for column in zip(*rows)]
    return [
        "  ".join(
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in rows
    ]


class Block(NamedTuple):
    """A part of what is shown: a title, a table and notes, each of which may be missing.

    Attributes
    ----------
    title
        A sentence, or the name of the table.
    rows
        Text of the cells; the first row is the head. A table of a head alone is not shown.
    left
        Numbers of the columns that are left-aligned.
    what
        What the rows are, in the plural.
    notes
        Sentences below the table, or below the title.
    more
        How many rows follow that were not made, since they are not shown.
    """

    title: str = ""
    rows: Sequence[Sequence[str]] = ()
    left: Sequence[int] = (0,)
    what: str = "rows"
    notes: Iterable[str] = ()
    more: int = 0


def render(
    blocks: Iterable[Block], top: int = MOST_ROWS, width: int | None = None, hint: str = ""
) -> str:
    """Return blocks as text, with an empty line between them.

    Parameters
    ----------
    top
        Maximum number of rows of a table; 0 for all.
    width
        Width to which sentences are wrapped and names in the first column shortened; None for
        lines of any length.
    hint
        What follows the number of rows that are left out.
    """
    parts = (_lines(block, top, width, hint) for block in blocks)
    return "\n\n".join("\n".join(lines) for lines in parts if lines)


def _lines(block: Block, top: int, width: int | None, hint: str) -> list[str]:
    head, body = block.rows[:1], block.rows[1:]
    shown = body[:top] if top else body
    table = fitted_table([*head, *shown], width) if shown else []
    notes = list(block.notes)
    if not table and not notes and (block.rows or not block.title):
        return []
    # The head of a table says what its rows are.
    has_title = block.title and not (table and block.title == block.what)
    lines = wrapped(block.title, width) if has_title else []
    lines += aligned(table, block.left) if table else []
    left_out = len(body) - len(shown) + block.more
    if left_out:
        lines.append(f"... and {left_out:,} more {block.what}{hint}")
    return [*lines, *(line for note in notes for line in wrapped(note, width))]


def markdown(blocks: Iterable[Block]) -> str:
    """Return blocks as Markdown, with whole tables and an empty line between blocks."""
    parts = []
    for block in blocks:
        lines = []
        if block.title and len(block.rows) != 1:
            lines += [f"**{_escaped(block.title)}**", ""]
        if len(block.rows) > 1:
            head, *body = [[_escaped(cell) for cell in row] for row in block.rows]
            rules = ["---" if i in block.left else "---:" for i in range(len(head))]
            lines += [f"| {' | '.join(head)} |", f"|{'|'.join(rules)}|"]
            lines += [f"| {' | '.join(row)} |" for row in body]
        lines += [f"- {_escaped(words)}" for words in block.notes]
        if lines:
            parts.append("\n".join(lines).rstrip())
    return "\n\n".join(parts)


def _escaped(text: str) -> str:
    """Return text with Markdown's special characters escaped."""
    return re.sub(r"([\\`*_\[\]<>|#~&@])", r"\\\1", text)


#: Names are not shortened below this length.
_LEAST_NAME = 12


def fitted_table(rows: Sequence[Sequence[str]], width: int | None) -> Sequence[Sequence[str]]:
    """Return rows, the names in the first column shortened so that they fit."""
    if width is None:
        return rows
    rest = sum(max(map(len, column)) + 2 for column in list(zip(*rows))[1:])
    most = max(_LEAST_NAME, width - rest)
    return [[fitted(row[0], most), *row[1:]] for row in rows]


def fitted(text: str, most: int) -> str:
    """Return `text`, its middle left out if it is longer than `most` characters."""
    if len(text) <= most:
        return text
    end = (most - 3) // 2
    return f"{text[: most - 3 - end]}...{text[len(text) - end :]}"


def wrapped(line: str, width: int | None) -> list[str]:
    """Return a sentence in lines of a width; further ones are indented."""
    if width is None:
        return [line]
    from textwrap import wrap

    own = line[: len(line) - len(line.lstrip())]
    return wrap(
        line, width, subsequent_indent=own or "  ", break_long_words=False, break_on_hyphens=False
    )
