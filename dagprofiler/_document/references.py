"""check_references(): whether a document holds what it names, as the shapes declare it."""

from __future__ import annotations

import ast
from functools import cache
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from dagprofiler._document.sections import ProfileDocument
from dagprofiler._document.shapes import Row, fields_of, inner_shape
from dagprofiler.errors import ProfileError, json_path, short_repr

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Steps of a path: each item of a list or value of a dict, and each key of a dict.
_EACH, _KEYS = "*", "keys"


class _Reference(NamedTuple):
    """Values of a document that name, or are the index of, something in it."""

    path: tuple[Any, ...]
    to: str


def check_references(
    data: Mapping[str, Any], names: Mapping[str, Mapping[str, Any]], *, versioned: bool
) -> None:
    """Refuse a document in which something refers to what is not there.

    Parameters
    ----------
    data
        A document that satisfies ``PROFILE_SCHEMA``.
    names
        ``"task"`` and ``"edge"`` to a dict whose keys are the names that exist.
    versioned
        Whether entries of ``execution_metrics`` are named after tasks.

    Raises
    ------
    ProfileError
        At the first task, edge or index that does not exist.

    Notes
    -----
    All values of one field are tested together, by builtins that loop in C; places are looked
    for only when a test has failed.
    """
    for path, to in _references():
        if path[0] not in data or (path[0] == "execution_metrics" and not versioned):
            continue
        values = set(_values(data, path)) - {None}
        if to in names:
            unknown = values - names[to].keys()
            problem = f"there is no {to} {{}}"
        elif float in {*map(type, values)}:
            # 1.0 is an integer to JSON Schema.
            unknown = {value for value in values if type(value) is float}
            problem = "expected an integer without a point, got {}"
        elif to == "round":
            continue
        else:
            section, _, part = to.partition(".")
            count = len(data.get(section, {}).get(part, ()))
            unknown = {value for value in values if value >= count}
            problem = f"there is no {part[:-1]} {{}}, only {count} in {to}"
        if unknown:
            found = ((place, v) for place, v in _places(data, path) if v in unknown)
            place, value = next(found)
            raise ProfileError(problem.format(short_repr(value)), json_path(place))


@cache
def _references() -> list[_Reference]:
    """Return the references that the shapes declare."""
    return list(_declared(ProfileDocument, ()))


def _declared(shape: type, path: tuple[Any, ...]) -> Iterator[_Reference]:
    for i, (name, kind, field) in enumerate(fields_of(shape)):
        here = (*path, i if issubclass(shape, Row) else name)
        if field.keys:
            yield _Reference((*here, _KEYS), field.keys)
        innermost: Any = kind
        while isinstance(innermost, ast.Subscript):
            innermost = getattr(innermost.slice, "elts", [innermost.slice])[-1]
            here = (*here, _EACH)
        if field.ref:
            yield _Reference(here, field.ref)
        inner = inner_shape(shape, innermost)
        if inner is not None:
            yield from _declared(inner, here)


def _values(data: Mapping[str, Any], path: tuple[Any, ...]) -> list[Any]:
    """Return all values at a path."""
    values: Any = [data]
    for step in path:
        if not values:
            break
        if step == _EACH and isinstance(values[0], dict):
            values = list(chain.from_iterable(map(dict.values, values)))
        elif step in (_EACH, _KEYS):
            values = list(chain.from_iterable(values))
        elif isinstance(step, int):
            values = list(map(itemgetter(step), values))
        else:
            values = [value[step] for value in values if step in value]
    return list(values)


def _places(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield the place and the value of all values at a path."""
    if not path:
        yield (), value
        return
    step, rest = path[0], path[1:]
    if step == _KEYS:
        yield from (((key,), key) for key in value)
        return
    if step != _EACH:
        inner = [(step, value[step])] if isinstance(value, list) or step in value else []
    else:
        inner = list(value.items() if isinstance(value, dict) else enumerate(value))
    for key, item in inner:
        yield from (((key, *place), found) for place, found in _places(item, rest))
