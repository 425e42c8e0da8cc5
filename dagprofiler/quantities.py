"""Quantities as people read them, and as parts of the largest."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["BITS", "BYTES", "quantity", "share"]

#: Units that have a prefix; the first is that of edge weights.
BITS, BYTES = "bit", "B"

_PREFIXES = ("", "k", "M", "G", "T", "P", "E")


def quantity(value: Any, unit: str | None) -> str:
    """Return a number as people read it, with four digits; ``-`` for None.

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
    """Return the part that `value` is of the largest value, from 0 to 1."""
    limit = sys.float_info.max
    return float(min(value, limit) / min(largest, limit)) if largest else 0.0
