"""Checks of arguments: each returns a plain value, or raises an error that names the argument.

`error` makes the error of a problem; by default it is a ValidationError with that one problem.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite
from typing import Any, Callable

from dagprofiler._util import Value
from dagprofiler.errors import did_you_mean, refused, short_repr

Refuse = Callable[[str], Exception]

#: Integers have at most 64 bits, so that every reader of a file can hold them.
_INTEGERS = 2**63


def plain_number(value: object) -> float | int | None:
    """Return a finite number of numpy or another library as a plain one; None for others.

    Examples
    --------
    >>> plain_number(2.5), plain_number(2**63), plain_number(True), plain_number("2")
    (2.5, None, None, None)
    """
    from numbers import Integral, Real

    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    if isinstance(value, Integral):
        integer = int(value)
        return integer if -_INTEGERS <= integer < _INTEGERS else None
    number = float(value)
    return number if isfinite(number) else None


def integer(
    name: str,
    value: object,
    least: int = 0,
    most: int | None = None,
    *,
    other: str = "",
    error: Refuse = refused,
) -> int:
    """Return an integer from `least` to `most`; True and False are none.

    Parameters
    ----------
    most
        By default the largest of 64 bits, which the message does not mention.
    other
        What else the argument may be, for the message: ``"'auto'"``.

    Examples
    --------
    >>> integer("workers", 2, 1)
    2
    >>> integer("workers", 0, 1)
    Traceback (most recent call last):
    dagprofiler.errors.ValidationError: workers must be an integer of at least 1, got 0
    """
    number = plain_number(value)
    if not isinstance(number, int) or number < least or (most is not None and number > most):
        limits = f"of at least {least}" if most is None else f"from {least} to {most}"
        also = f" or {other}" if other else ""
        raise error(f"{name} must be an integer {limits}{also}, got {short_repr(value)}")
    return number


def number(
    name: str, value: object, *, zero: bool = False, unit: str = "", error: Refuse = refused
) -> float | int:
    """Return a finite number above 0, or of at least 0 if `zero` is true.

    Examples
    --------
    >>> number("rate", 0.5), number("fill", 0, zero=True)
    (0.5, 0)
    >>> number("timeout", -1, unit="seconds")
    Traceback (most recent call last):
    dagprofiler.errors.ValidationError: timeout must be a finite number of seconds above 0, got -1
    """
    plain = plain_number(value)
    if plain is None or plain < 0 or (not plain and not zero):
        of = f" of {unit}" if unit else ""
        limit = " of at least 0" if zero else " above 0"
        raise error(f"{name} must be a finite number{of}{limit}, got {short_repr(value)}")
    return plain


def choice(
    name: str, value: object, choices: Sequence[str | None], *, error: Refuse = refused
) -> Any:
    """Return a value that is one of `choices`, which are strings, or None.

    Examples
    --------
    >>> choice("on_error", "go", ("stop", "finish"))
    Traceback (most recent call last):
    dagprofiler.errors.ValidationError: on_error must be 'stop' or 'finish', got 'go'
    """
    # An array, for one, has no truth value when it is compared.
    if (value is None or isinstance(value, str)) and value in choices:
        return value
    *others, last = map(repr, choices)
    hint = did_you_mean(value, [known for known in choices if known])
    raise error(f"{name} must be {', '.join(others)} or {last}, got {short_repr(value)}{hint}")


def instance(
    name: str, value: Value, kinds: type | tuple[type, ...], what: str, *, error: Refuse = refused
) -> Value:
    """Return an instance of a class, or of one of several; `what` says which in the message."""
    if not isinstance(value, kinds):
        raise error(f"{name} must be {what}, got {short_repr(value)}")
    return value


def boolean(name: str, value: object, *, error: Refuse = refused) -> bool:
    """Return True or False, as given."""
    if not isinstance(value, bool):
        raise error(f"{name} must be True or False, got {short_repr(value)}")
    return value


def names(name: str, values: object, what: str = "names") -> list[str]:
    """Return an iterable of non-empty strings as a list; one string alone is none.

    Examples
    --------
    >>> names("keep", ("a", "b"), "names of tasks")
    ['a', 'b']
    >>> names("keep", "a", "names of tasks")
    Traceback (most recent call last):
    dagprofiler.errors.ValidationError: keep must be names of tasks, got 'a'; write ['a']
    """
    if isinstance(values, str) or not isinstance(values, Iterable):
        hint = f"; write [{short_repr(values)}]" if isinstance(values, str) else ""
        raise refused(f"{name} must be {what}, got {short_repr(values)}{hint}")
    listed = [*values]
    for value in listed:
        if not isinstance(value, str) or not value:
            raise refused(f"{name} holds {short_repr(value)}, expected a non-empty string")
    return listed
