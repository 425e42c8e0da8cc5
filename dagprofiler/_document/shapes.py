"""Shapes: classes that say what a part of a document holds, and the JSON Schema made of them.

The docstring describes a shape and, under *Attributes*, its fields; what a list or a dict holds is
described after dashes, level by level. The annotation of a field is its type, its value is made by
:func:`must` or :func:`may`; see :func:`schema_of` for an example.

Types are ``str``, ``bool``, ``int`` (by default from 0 to 2**63 - 1), ``float`` (by default finite
and at least 0), ``None``, ``Any``, ``list[...]``, ``dict[str, ...]``, another shape, and
alternatives of these, as in ``int | None``. No objects of these classes are ever made.

:func:`surely_satisfies` compares documents with such a schema, a column at a time: all values that
one field has anywhere in the document go together through builtins that loop in C. That takes a
fraction of the time of ``json.loads``; jsonschema takes 20 times as long. The result is only
"certainly valid" or "unknown".
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from inspect import cleandoc
from itertools import chain, islice
from math import inf, isfinite
from operator import itemgetter
from typing import Any, NamedTuple

MAX_INT = 2**63 - 1

_JSON_TYPES = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "None": "null",
}


class Field(NamedTuple):
    """One field of a shape.

    Attributes
    ----------
    required
        Whether the document is invalid without it.
    least, most
        Bounds of numbers, both included; `least` is None for numbers without bounds.
    one_of
        The texts that are allowed; empty for any.
    ref
        What the text, or each text in the list, names: ``"task"`` or ``"edge"``; or the path of
        the list that the number is an index into.
    keys
        What the keys of the dict name: ``"task"`` or ``"edge"``.
    columns
        For the names of a table's columns: the shape of its records.
    format
        A keyword of JSON Schema.
    """

    required: bool
    least: float | None = 0
    most: float | None = None
    one_of: Sequence[str] = ()
    ref: str = ""
    keys: str = ""
    columns: Any = None
    format: str = ""


#: Return a required field, or an optional one; arguments as the attributes of :class:`Field`.
must: Any = partial(Field, required=True)
may: Any = partial(Field, required=False)


class Row:
    """Base class of shapes that are lists: their fields are the entries, in order.

    The field ``rest`` describes further entries.
    """


def fields_of(shape: type) -> Iterator[tuple[str, ast.expr, Field]]:
    """Yield name, type and description of each field of a shape."""
    for name, kind in shape.__annotations__.items():
        yield name, _parsed(kind), vars(shape)[name]


@cache
def _parsed(kind: str) -> ast.expr:
    return ast.parse(kind, mode="eval").body


def inner_shape(shape: type, kind: ast.expr) -> type | None:
    """Return the shape with the name `kind` in the module of `shape`; None if there is none."""
    name = getattr(kind, "id", "")
    return None if name in {*_JSON_TYPES, "Any"} else vars(sys.modules[shape.__module__]).get(name)


def schema_of(shape: type) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a shape.

    Examples
    --------
    >>> class Edge:
    ...     '''One edge.
    ...
    ...     Attributes
    ...     ----------
    ...     sizes
    ...         Its payloads.
    ...
    ...         - In bytes.
    ...     '''
    ...     sizes: list[int] = must(most=9)
    >>> Edge.__annotations__ = {"sizes": "list[int]"}
    >>> sizes = schema_of(Edge)["properties"]["sizes"]
    >>> sizes["description"], sizes["items"]
    ('Its payloads.', {'type': 'integer', 'description': 'In bytes.', 'minimum': 0, 'maximum': 9})
    """
    doc, texts = _descriptions(shape)
    fields = {
        name: (field, _value(shape, kind, texts.get(name, []), field))
        for name, kind, field in fields_of(shape)
    }
    schema: dict[str, Any] = {"description": doc}
    if issubclass(shape, Row):
        *_, (_, rest) = fields.values()
        entries = [entry for name, (_, entry) in fields.items() if name != "rest"]
        return {
            "type": "array",
            **schema,
            "items": rest,
            "prefixItems": entries,
            "minItems": len(entries),
        }
    return {
        "type": "object",
        **schema,
        "required": [name for name, (field, _) in fields.items() if field.required],
        "properties": {name: entry for name, (_, entry) in fields.items()},
    }


def _descriptions(shape: type) -> tuple[str, dict[str, list[str]]]:
    """Return what the docstring of a shape says of it, and of each field, level by level."""
    doc, _, attributes = cleandoc(shape.__doc__ or "").partition("\n\nAttributes\n----------\n")
    texts = {}
    for entry in re.split(r"\n(?=\w)", attributes):
        name, _, text = entry.partition("\n")
        texts[name] = [" ".join(level.split()) for level in text.split("\n    - ")]
    return " ".join(doc.split()), texts


def _value(shape: type, kind: ast.expr, texts: Sequence[str], field: Field) -> dict[str, Any]:
    """Return the schema of a value; `texts` describe it and what is in it."""
    kinds = list(_alternatives(kind))
    names = [_JSON_TYPES.get(_name(part), "") for part in kinds]
    described = _described(texts)
    part = kinds[0]
    if isinstance(part, ast.Subscript):
        inner: Any = part.slice
        container = "array" if _name(part.value) == "list" else "object"
        schema = {"type": [container, *names[1:]] if names[1:] else container, **described}
        if field.columns is not None:
            return {**schema, **_columns(field, texts[1:])}
        values = getattr(inner, "elts", [inner])[-1]
        if _name(values) == "Any":
            return schema
        items = "items" if container == "array" else "additionalProperties"
        return {**schema, items: _value(shape, values, texts[1:], field)}
    other = inner_shape(shape, part)
    if other is not None:
        schema = {**schema_of(other), **described}
        return {**schema, "type": [schema["type"], *names[1:]]} if names[1:] else schema
    schema = {"type": names[0] if len(names) == 1 else names, **described}
    if field.format:
        schema["format"] = field.format
    if field.one_of:
        schema["enum"] = list(field.one_of)
    if [name for name in names if name != "null"] in (["integer"], ["number"]):
        schema.update(_bounds(names[0], field))
    return schema


def _described(texts: Sequence[str]) -> dict[str, str]:
    # Without docstrings (python -OO) there are none.
    return {"description": texts[0]} if texts else {}


def _columns(field: Field, texts: Sequence[str]) -> dict[str, Any]:
    """Return what a list of the names of columns holds; `texts` describe any of them."""
    item: dict[str, Any] = {"type": "string", **_described(texts)}
    if field.one_of:
        item["enum"] = list(field.one_of)
    _, known_texts = _descriptions(field.columns)
    known = [
        {"type": "string", **_described(known_texts.get(name, [])), "enum": [name]}
        for name, *_ in fields_of(field.columns)
        if name != "rest"
    ]
    return {"items": item, "prefixItems": known, "minItems": len(known)}


def _bounds(name: str, field: Field) -> dict[str, Any]:
    if field.least is None:
        return {}
    limit = MAX_INT if name == "integer" else sys.float_info.max
    least = -limit if field.least == -inf else field.least
    return {"minimum": least, "maximum": limit if field.most is None else field.most}


def _alternatives(kind: ast.expr) -> Iterator[ast.expr]:
    if isinstance(kind, ast.BinOp):
        yield from _alternatives(kind.left)
        yield from _alternatives(kind.right)
    else:
        yield kind


def _name(kind: ast.expr) -> str:
    return str(getattr(kind, "id", getattr(kind, "value", "")))


#: Keywords for values inside a value.
_INNER = frozenset({"additionalProperties", "items", "prefixItems", "properties"})

#: Values that are checked together: few enough for the processor's cache.
_AT_ONCE = 1000

_NULL = type(None)
_NUMBERS = {int, float}

#: The Python types that ``json.load`` returns for each type. A bool is not an integer here.
_PYTHON_TYPES: dict[str, set[type]] = {
    "array": {list},
    "boolean": {bool},
    "integer": {int},
    "null": {_NULL},
    "number": _NUMBERS,
    "object": {dict},
    "string": {str},
}


def surely_satisfies(data: Any, schema: Mapping[str, Any]) -> bool:
    """Tell whether `data` certainly satisfies `schema` and contains only finite numbers.

    Parameters
    ----------
    data
        A document as ``json.load`` returns it.
    schema
        A schema with ``type`` throughout, ``items`` for arrays, ``enum``
        for strings only, either ``properties`` or ``additionalProperties``
        for an object. Of other keywords only annotations, ``minItems``, ``minimum``,
        ``maximum``, ``prefixItems`` and ``required``.

    Returns
    -------
    bool
        False means that only a real validator can decide.

    Notes
    -----
    Values without a schema (additional properties) are not checked.

    Examples
    --------
    >>> sizes = {"type": "integer", "minimum": 0, "maximum": 99}
    >>> schema = {"type": "object", "additionalProperties": sizes}
    >>> surely_satisfies({"a": 1, "b": 2}, schema), surely_satisfies({"a": True}, schema)
    (True, False)
    """
    try:
        return _column_valid([data], schema)
    except (IndexError, KeyError, OverflowError):
        # Something is missing, or an integer is too large to be added to a float.
        return False


def doubtful(
    value: Any, schema: Mapping[str, Any], path: tuple[Any, ...] = ()
) -> Iterator[tuple[tuple[Any, ...], Any, dict[str, Any]]]:
    """Yield the parts of a document that a real validator must check.

    Parameters
    ----------
    value, schema
        As for :func:`surely_satisfies`.
    path
        Path of `value` in the document.

    Yields
    ------
    path, value, schema
        `value`, then the values inside it, outer before inner, each with the part of its
        schema that does not concern inner values. `value` satisfies its schema if and only if
        each of these satisfies its part.

    Notes
    -----
    Stop at the first invalid part: values inside a value of a wrong type are not compared with
    their own schema. Valid rows of a large table cost as much as in
    :func:`surely_satisfies`.

    Examples
    --------
    >>> sizes = {"type": "integer", "minimum": 0, "maximum": 99}
    >>> schema = {"type": "object", "additionalProperties": sizes}
    >>> for path, value, _ in doubtful({"a": 1, "b": True}, schema):
    ...     print(path, value)
    () {'a': 1, 'b': True}
    ('b',) True
    """
    yield path, value, {key: schema[key] for key in schema if key not in _INNER}
    for entries, inner in _entries(value, schema):
        while batch := list(islice(entries, _AT_ONCE)):
            if surely_satisfies([item for _, item in batch], {"type": "array", "items": inner}):
                continue
            for key, item in batch:
                if not surely_satisfies(item, inner):
                    yield from doubtful(item, inner, (*path, key))


def _entries(
    value: Any, schema: Mapping[str, Any]
) -> Iterator[tuple[Iterator[tuple[Any, Any]], Mapping[str, Any]]]:
    """Yield the keys or indices and items in a value, with the schema of the items."""
    if isinstance(value, dict):
        for name, field in schema.get("properties", {}).items():
            if name in value:
                yield iter([(name, value[name])]), field
        if schema.get("additionalProperties", True) is not True:
            yield iter(value.items()), schema["additionalProperties"]
    elif isinstance(value, list):
        items = enumerate(value)
        for field, entry in zip(schema.get("prefixItems", ()), items):
            yield iter([entry]), field
        yield items, schema["items"]


def _column_valid(values: list[Any], schema: Mapping[str, Any]) -> bool:
    if len(values) > _AT_ONCE:
        parts = (values[i : i + _AT_ONCE] for i in range(0, len(values), _AT_ONCE))
        return all(_column_valid(part, schema) for part in parts)
    kinds = set(map(type, values))
    if not kinds <= _allowed_types(schema["type"]):
        return False
    if _NULL in kinds:
        kinds.remove(_NULL)
        values = [value for value in values if value is not None]
    if not kinds or kinds == {bool}:
        return True
    if kinds <= _NUMBERS:
        return _numbers_valid(values, schema, floats=float in kinds)
    if kinds == {str}:
        return "enum" not in schema or set(values) <= set(schema["enum"])
    if kinds == {dict}:
        return _objects_valid(values, schema)
    return kinds == {list} and _arrays_valid(values, schema)


def _allowed_types(names: str | list[str]) -> set[type]:
    return set().union(*(_PYTHON_TYPES[n] for n in ([names] if isinstance(names, str) else names)))


def _numbers_valid(values: list[Any], schema: Mapping[str, Any], *, floats: bool) -> bool:
    # A sum is finite only if all of it is; where there is no NaN, min() and max() are right.
    if floats and not isfinite(sum(values)):
        return False
    least, most = schema.get("minimum", -inf), schema.get("maximum", inf)
    return bool(least <= min(values) and max(values) <= most)


def _objects_valid(values: list[Any], schema: Mapping[str, Any]) -> bool:
    for name, field in schema.get("properties", {}).items():
        try:
            column = list(map(itemgetter(name), values))
        except KeyError:
            if name in schema["required"]:
                return False
            column = [value[name] for value in values if name in value]
        if not _column_valid(column, field):
            return False
    others = schema.get("additionalProperties", True)
    return others is True or _column_valid(
        list(chain.from_iterable(map(dict.values, values))), others
    )


def _arrays_valid(values: list[Any], schema: Mapping[str, Any]) -> bool:
    if min(map(len, values)) < schema.get("minItems", 0):
        return False
    prefix = schema.get("prefixItems", ())
    for i, item in enumerate(prefix):
        if not _column_valid(list(map(itemgetter(i), values)), item):
            return False
    rest = map(itemgetter(slice(len(prefix), None)), values) if prefix else values
    return _column_valid(list(chain.from_iterable(rest)), schema["items"])
