"""Rendering: the JSON text of a document, column by column, one record a line."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from dagprofiler.errors import ProfileError
from dagprofiler.interpreter import imported

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import TypeVar, Union

    Row = TypeVar("Row")
    Rows = Union[Sequence[Any], "Columns"]

__all__ = ["Columns", "Items", "Table", "batched", "held", "plain_number", "render"]

#: Rows that are encoded at once: enough for speed, few enough for memory.
_BATCH = 4096

#: Sections that hold tables side by side; each table has its rows on lines of their own.
_TABLES = frozenset({"dag_structure", "origins", "samples", "spans", "statistics", "timeline"})


def plain_number(value: Any) -> Any:
    """Return a numpy scalar as the number it is."""
    numpy = imported("numpy")
    if numpy is not None and isinstance(value, numpy.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no JSON form")


# A cycle ends in a RecursionError, which render() reports; looking for one costs a tenth.
_STRICT: Any = {"allow_nan": False, "default": plain_number, "check_circular": False}
_encode = json.JSONEncoder(**_STRICT).encode
_encode_lines = json.JSONEncoder(**_STRICT, separators=("\n", ": ")).encode


def batched(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Yield `rows` in lists of a few thousand: what is made for speed at once stays small."""
    rows = iter(rows)
    while batch := list(islice(rows, _BATCH)):
        yield batch


class Columns:
    """Rows of one shape, held by column.

    Their text is put together column by column, which takes a fraction of the
    time that making the rows takes.

    Parameters
    ----------
    columns
        Name to values, for rows that are dicts; values alone, for lists.
    optional
        Rows whose value in the last column, which has a name and is not the
        only one, is None are without that key.
    """

    def __init__(
        self,
        columns: Mapping[str, Sequence[Any]] | Sequence[Sequence[Any]],
        *,
        optional: bool = False,
    ) -> None:
        self.names = list(columns) if isinstance(columns, Mapping) else None
        self.columns = list(columns.values() if isinstance(columns, Mapping) else columns)
        self.optional = optional

    def __len__(self) -> int:
        return len(self.columns[0])

    def __iter__(self) -> Iterator[Any]:
        rows = zip(*self.columns)
        names = self.names
        if names is None:
            return map(list, rows)
        if not self.optional:
            return (dict(zip(names, row)) for row in rows)
        fewer = names[:-1]
        return (dict(zip(fewer if row[-1] is None else names, row)) for row in rows)

    def pieces(self) -> list[list[str]]:
        """Return the JSON text of the rows, as columns of pieces."""
        count = len(self)
        opening, closing = "[]" if self.names is None else "{}"
        labels = [f"{_encode(name)}: " for name in self.names or ()] or [""] * len(self.columns)
        pieces = []
        for i, (label, column) in enumerate(zip(labels, self.columns)):
            pieces += [[(", " if i else opening) + label] * count, *_pieces(column)]
        if self.optional:
            label, texts = f", {labels[-1]}", pieces.pop()
            pieces[-1] = ["" if text == "null" else label + text for text in texts]
        return [*pieces, [closing] * count]


class Table:
    """A list too large to be held: batches of its rows, to be gone through once."""

    def __init__(self, batches: Iterable[Rows]) -> None:
        self.batches = batches

    def held(self) -> list[Any]:
        """Return the list."""
        return list(chain.from_iterable(self.batches))


class Items:
    """A dict too large to be held: batches of its keys and values, to be gone through once."""

    def __init__(self, batches: Iterable[tuple[Sequence[str], Rows]]) -> None:
        self.batches = batches

    def held(self) -> dict[str, Any]:
        """Return the dict."""
        return dict(chain.from_iterable(zip(*batch) for batch in self.batches))


def held(value: Any) -> Any:
    """Return `value` with rows that are yet to be made made, as lists and dicts."""
    if isinstance(value, (Items, Table)):
        return value.held()
    if isinstance(value, dict):
        return {
            key: item.held() if isinstance(item, Table) else item for key, item in value.items()
        }
    return value


def render(document: Iterable[tuple[str, Any]]) -> Iterator[str]:
    """Yield the JSON text of a document, piece by piece, one record a line.

    Raises
    ------
    ProfileError
        If a section holds what JSON has no form for: NaN, infinity, an object.
    """
    lead = "{\n"
    for name, section in document:
        yield f"{lead}{_encode(name)}: "
        try:
            yield from _table(section, nested=name in _TABLES)
        except (TypeError, ValueError, RecursionError) as error:
            raise ProfileError(f"cannot be written: {error}", f"$.{name}") from error
        lead = ",\n"
    yield "\n}\n"


def _table(value: Any, *, nested: bool = False, indent: str = "\n  ") -> Iterator[str]:
    """Yield the text of a list or a dict with each item on a line of its own."""
    if nested and isinstance(value, dict) and value:
        lead = "{"
        for key, item in value.items():
            yield f"{lead}{indent}{_encode(key)}: "
            yield from _table(item, indent=indent + "  ")
            lead = ","
        yield f"{indent[:-2]}}}"
        return
    batches: Iterator[list[list[str]]]
    if isinstance(value, dict):
        value = Items(zip(batched(value), batched(value.values())))
    elif isinstance(value, list):
        value = Table(batched(value))
    if isinstance(value, Items):
        brackets, batches = "{}", (_item_pieces(*batch) for batch in value.batches)
    elif isinstance(value, Table):
        brackets, batches = "[]", map(_pieces, value.batches)
    else:
        yield _encode(value)
        return
    lead = brackets[0]
    for pieces in batches:
        breaks = [f",{indent}"] * len(pieces[0])
        breaks[0] = f"{lead}{indent}"
        yield _woven([breaks, *pieces])
        lead = ","
    yield f"{indent[:-2]}{brackets[1]}" if lead == "," else brackets


def _item_pieces(keys: Sequence[str], values: Rows) -> list[list[str]]:
    if not all(isinstance(key, str) for key in keys):
        # Numbers as keys, which json turns into text.
        return [[_encode(dict(zip(keys, values)))[1:-1]]]
    return [*_pieces(keys), [": "] * len(keys), *_pieces(values)]


def _pieces(rows: Rows) -> list[list[str]]:
    """Return the JSON text of the rows, as columns of pieces to be woven.

    One call of the encoder, which is C, does for a whole column.
    """
    if isinstance(rows, Columns):
        return rows.pieces()
    if not isinstance(rows[0], (dict, list, tuple)):
        # JSON text in ASCII has no line break but those that stand between values.
        texts = _encode_lines(rows)[1:-1].split("\n")
        if len(texts) == len(rows):
            return [texts]
    # Values inside of values: a mark, which is random, so that none can look like
    # it, goes between those of the column.
    mark = os.urandom(8).hex()
    flat: list[Any] = [mark] * (2 * len(rows) - 1)
    flat[::2] = rows
    return [_encode(flat)[1:-1].split(f', "{mark}", ')]


def _woven(pieces: list[list[str]]) -> str:
    """Return the text of rows that are spread over columns of pieces."""
    step = len(pieces)
    flat = [""] * (step * len(pieces[0]))
    for i, column in enumerate(pieces):
        flat[i::step] = column
    return "".join(flat)
