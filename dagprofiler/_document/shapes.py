"""Shapes: classes that say what a part of a document holds, and the JSON Schema made of them.

The annotation of a field is its type, its value is made by :func:`must` or :func:`may`::

    class Worker:
        '''One thread of one process.'''

        host: str = may("Name of the host.")
        clock_error_ms: float = may("Maximum error of its clock, in milliseconds.")

Types are ``str``, ``bool``, ``int`` (by default from 0 to 2**63 - 1), ``float`` (by default finite
and at least 0), ``None``, ``Any``, ``list[...]``, ``dict[str, ...]``, another shape, and
alternatives of these, as in ``int | None``. No objects of these classes are ever made.
"""

from __future__ import annotations

import ast
import sys
from functools import cache
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


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
    texts
        Descriptions: of the field, and of what a list or a dict in it holds, level by level. A
        shape describes itself.
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

    texts: tuple[str, ...]
    required: bool
    least: float | None = 0
    most: float | None = None
    one_of: Sequence[str] = ()
    ref: str = ""
    keys: str = ""
    columns: Any = None
    format: str = ""


def must(*texts: str, **rules: Any) -> Any:
    """Return a required field; arguments as the attributes of :class:`Field`."""
    return Field(texts, required=True, **rules)


def may(*texts: str, **rules: Any) -> Any:
    """Return an optional field; arguments as the attributes of :class:`Field`."""
    return Field(texts, required=False, **rules)


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
    return None if name in _JSON_TYPES else vars(sys.modules[shape.__module__]).get(name)


def schema_of(shape: type) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a shape.

    Examples
    --------
    >>> class Edge:
    ...     '''One edge.'''
    ...     size_bytes: int = must("Its payload, in bytes.", most=9)
    >>> Edge.__annotations__ = {"size_bytes": "int"}
    >>> schema_of(Edge)["properties"]["size_bytes"]
    {'type': 'integer', 'description': 'Its payload, in bytes.', 'minimum': 0, 'maximum': 9}
    """
    fields = {
        name: (field, _value(shape, kind, field.texts, field))
        for name, kind, field in fields_of(shape)
    }
    schema: dict[str, Any] = {"description": _doc(shape)}
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


def _doc(shape: type) -> str:
    return " ".join((shape.__doc__ or "").split())


def _value(shape: type, kind: ast.expr, texts: Sequence[str], field: Field) -> dict[str, Any]:
    """Return the schema of a value; `texts` describe it and what is in it."""
    kinds = list(_alternatives(kind))
    names = [_JSON_TYPES.get(_name(part), "") for part in kinds]
    described = {"description": texts[0]} if texts else {}
    part = kinds[0]
    if isinstance(part, ast.Subscript):
        inner: Any = part.slice
        container = "array" if _name(part.value) == "list" else "object"
        schema = {"type": [container, *names[1:]] if names[1:] else container, **described}
        if field.columns is not None:
            return {**schema, **_columns(field)}
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


def _columns(field: Field) -> dict[str, Any]:
    """Return what a list of the names of columns holds."""
    item: dict[str, Any] = {"type": "string", "description": field.texts[1]}
    if field.one_of:
        item["enum"] = list(field.one_of)
    known = [
        {"type": "string", "description": entry.texts[0], "enum": [name]}
        for name, _, entry in fields_of(field.columns)
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
