"""Text, HTML, JSON, files and plug-ins, for all packages."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from math import inf
from typing import Any, TypeVar, Union

#: A path, as functions of Python take it.
PathLike = Union[str, os.PathLike[str]]

#: An object of a JSON document: the schema of its section says what it holds.
JsonObject = dict[str, Any]

#: Name to value: a task's inputs or outputs, or parameters; values are whatever users made.
Values = Mapping[str, Any]

Key = TypeVar("Key")
Value = TypeVar("Value")


def grouped(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    """Return the values of each key, in order.

    Examples
    --------
    >>> grouped([("a", 1), ("b", 2), ("a", 3)])
    {'a': [1, 3], 'b': [2]}
    """
    groups: dict[Key, list[Value]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def covered(intervals: Iterable[tuple[float, float]]) -> float:
    """Return the total length of the union of intervals.

    Examples
    --------
    >>> covered([(1.0, 3.0), (0.0, 2.0), (5.0, 6.0)])
    4.0
    """
    total, until = 0.0, -inf
    for begin, end in sorted(intervals):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total
