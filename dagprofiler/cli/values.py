"""Values that a command line gives as text, and the types that they must have."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from dagprofiler.cli.parsing import CommandError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["as_like", "assignments", "guessed"]

_TRUTH = {"true": True, "yes": True, "on": True, "1": True}
_TRUTH.update({"false": False, "no": False, "off": False, "0": False})


def assignments(given: Sequence[str], option: str) -> dict[str, str]:
    """Return the names and values in texts like ``NAME=VALUE``; of a name the last counts."""
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise CommandError(f"{option}: expected NAME=VALUE, got {text!r}")
        found[name.strip()] = value
    return found


def guessed(text: str) -> Any:
    """Return what a text is as JSON, or else the text.

    Examples
    --------
    >>> guessed("3"), guessed("[1, 2]"), guessed("fast")
    (3, [1, 2], 'fast')
    """
    try:
        return json.loads(text)
    except ValueError:
        return text


def as_like(name: str, text: str, like: Any) -> Any:
    """Return a text as a value of the type that another value has.

    Raises
    ------
    CommandError
        If it cannot be one; it names the type.

    Examples
    --------
    >>> as_like("N", "1e6", 1), as_like("rate", "2", 0.5), as_like("on", "no", True)
    (1000000, 2.0, False)
    """
    if like is None:
        return guessed(text)
    kind = type(like)
    try:
        return _converted(text, kind)
    except (ValueError, OverflowError) as error:
        what = _ARTICLES.get(kind, kind.__name__)
        raise CommandError(
            f"--config {name}: expected {what}, as {like!r} is, got {text!r}"
        ) from error
    except TypeError as error:
        raise CommandError(
            f"--config {name}: a {kind.__name__!r} cannot be given as text; let a function build "
            "the DAG, and give what that takes"
        ) from error


_ARTICLES = {
    int: "an integer",
    float: "a number",
    bool: "true or false",
    list: "a JSON list",
    tuple: "a JSON list",
    dict: "a JSON object",
}


def _converted(text: str, kind: type) -> Any:
    if kind is str:
        return text
    if kind is bool:
        word = text.strip().lower()
        if word not in _TRUTH:
            raise ValueError(text)
        return _TRUTH[word]
    if kind is int:
        return _integer(text)
    if kind is float:
        return float(text)
    if kind in (list, tuple, dict):
        value = json.loads(text)
        if not isinstance(value, dict if kind is dict else list):
            raise ValueError(text)
        return kind(value)
    if kind.__module__ == "numpy" and kind.__name__ != "ndarray":
        return kind(text)
    raise TypeError(kind)


def _integer(text: str) -> int:
    """Return an integer, be it written as 1e6."""
    try:
        return int(text)
    except ValueError:
        number = float(text)
        if not number.is_integer():
            raise
        return int(number)
