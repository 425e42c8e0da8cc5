"""Text: readable quantities, and tables."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


#: Units that have a prefix; the first is that of edge weights.
BITS, BYTES = "bit", "B"

_PREFIXES = ("", "k", "M", "G", "T", "P", "E")


def quantity(value: Any, unit: str | None) -> str:
    """Return a number with four digits and its unit; ``-`` for None.

    Examples
    --------
    >>> quantity(6400000, BITS), quantity(160000, BYTES), quantity(5.6274, "ms")
    ('6.4 Mbit', '160 kB', '5.627 ms')
    """
    if value is None:
        return "-"
    if unit is not None and unit.endswith("ms"):
        return f"{value:,.0f} {unit}" if value >= 1000 else f"{value:.4g} {unit}"
    # Version 0.1.0 wrote weights that no float holds.
    scaled, power = min(value, sys.float_info.max), 0
    while scaled >= 1000 and power < len(_PREFIXES) - 1:
        scaled, power = scaled / 1000, power + 1
    space = "" if unit in (BITS, BYTES) else " "
    return f"{scaled:.4g} {_PREFIXES[power]}{space if _PREFIXES[power] else ''}{unit}"


def share(value: Any, largest: Any) -> float:
    """Return `value` relative to the largest value, from 0 to 1."""
    limit = sys.float_info.max
    return float(min(value, limit) / min(largest, limit)) if largest else 0.0


_DIGITS = re.compile(r"[0-9]+")

#: Maximum rows shown for the tasks or edges of a profile.
MOST_ROWS = 40


def printable(text: Any) -> str:
    """Return `text` with unprintable characters and line breaks as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))


def class_of(name: str) -> str:
    """Return the class of tasks that a name belongs to: the name with ``*`` for its numbers.

    Examples
    --------
    >>> class_of("tokenize_12"), class_of("map[3]"), class_of("sink")
    ('tokenize_*', 'map[*]', 'sink')
    """
    return _DIGITS.sub("*", name)


def is_of(name: str, wanted: str) -> bool:
    """Tell whether a task is the one, or of the class, that a user means.

    Examples
    --------
    >>> is_of("tokenize_12", "tokenize"), is_of("tokenize_12", "tokenize_12"), is_of("a", "b")
    (True, True, False)
    """
    kind = class_of(name)
    return wanted in (name, kind, kind.rstrip("*_-.:[]() "))


def number(value: Any) -> str:
    """Return a number with three decimals, a whole one without; ``-`` for None."""
    if value is None:
        return "-"
    return f"{value:,.3f}" if isinstance(value, float) else f"{value:,}"


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


def and_more(count: int, what: str) -> list[str]:
    """Return the line below a cut table with the number of rows left out, if any."""
    return [f"... and {count - MOST_ROWS:,} more {what}"] if count > MOST_ROWS else []
