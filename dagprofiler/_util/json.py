"""JSON: documents are read, checked to be plain, and written, one record a line."""

from __future__ import annotations

import gc
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from time import gmtime, strftime, time
from typing import Any

from dagprofiler._util import JsonObject
from dagprofiler._util.files import COMPRESSED
from dagprofiler._util.interpreter import imported
from dagprofiler.errors import ProfileError, json_path


def utc_text(seconds: float | None = None) -> str:
    """Return a time as ISO 8601 text in UTC, to the microsecond, with a ``Z``.

    Parameters
    ----------
    seconds
        Since 1970; by default now.
    """
    # Without datetime, which is long to import.
    whole_s, us = divmod(round((time() if seconds is None else seconds) * 1e6), 1_000_000)
    return f"{strftime('%Y-%m-%dT%H:%M:%S', gmtime(whole_s))}.{us:06}Z"


@contextmanager
def collector_paused() -> Iterator[None]:
    """Keep the garbage collector from running while tables without cycles are built.

    It would traverse a large table each time the table has grown by a quarter,
    which doubles the time, and free nothing.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def jsonable(parameters: Mapping[str, object]) -> tuple[JsonObject, list[str]]:
    """Return `parameters` as plain JSON, and the names of those stored as text.

    Arrays and tuples become lists, numpy scalars numbers. Values without a JSON
    form (objects, NaN, integers beyond 64 bits) are stored as their ``str``.

    Examples
    --------
    >>> jsonable({"n": 3, "shape": (2, 2), "model": complex(1, 2)})
    ({'n': 3, 'shape': [2, 2], 'model': '(1+2j)'}, ['model'])
    """
    values: JsonObject = {}
    as_text = []
    for name, value in parameters.items():
        try:
            values[name] = _plain(value)
        except Exception:  # noqa: BLE001  (to_dict() of an object is a user's code)
            values[name] = _text(value)
            as_text.append(name)
    return values, as_text


def _text(value: object) -> str:
    """Return the text of any value, also of one whose ``str`` fails, as of very long integers."""
    # A parameter must not lose the profile.
    with suppress(Exception):
        return str(value)
    return object.__repr__(value)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise TypeError("keys must be text")
        return {str.__str__(key): _plain(item) for key, item in value.items()}
    numpy = imported("numpy")
    if numpy is not None and isinstance(value, (numpy.generic, numpy.ndarray)):
        python = value.tolist()
        # Not times, which would become bare integers in nanoseconds.
        if type(python) is not type(value) and value.dtype.kind not in "mM":
            return _plain(python)
    if hasattr(value, "to_dict") and not isinstance(value, type):
        return _plain(value.to_dict())
    raise TypeError(f"{type(value).__name__} has no JSON form")


def parse(text: str | bytes | bytearray) -> Any:
    """Return the document in a JSON text, in which numbers may be NaN or infinite.

    Raises
    ------
    ProfileError
        If the text is not JSON.
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ProfileError("JSON cannot be read: nested too deep") from error
    except ValueError as error:
        raise ProfileError(f"not JSON: {error}") from error


def check_plain(document: Mapping[str, object]) -> None:
    """Raise a ProfileError if a section is not JSON; ``configuration`` may hold NaN.

    Version 0.1.0 wrote NaN and infinity there.
    """
    for name, section in document.items():
        _plain_text(name, section)


def plain_document(document: Mapping[str, object]) -> JsonObject:
    """Return a deep copy of a document that is plain JSON; errors as :func:`check_plain`.

    Keys that are numbers become text, as :mod:`json` writes them.
    """
    return {name: json.loads(_plain_text(name, part)) for name, part in document.items()}


def _plain_text(name: str, section: object) -> str:
    try:
        return json.dumps(section, allow_nan=name == "configuration", default=plain_number)
    except (TypeError, ValueError) as error:
        raise ProfileError(str(error), json_path([name])) from error
    except RecursionError as error:
        raise ProfileError("nested too deep", json_path([name])) from error


#: What a compressed document may unpack to: a thousandth of it on disk fills the memory.
MAX_UNPACKED_BYTES = 2**30

_PIECE_BYTES = 2**20


def load(path: Any, max_unpacked_bytes: int | None = MAX_UNPACKED_BYTES) -> Any:
    """Return the document in a file or an open stream; errors as :func:`parse`, naming the file."""
    try:
        return parse(read(path, max_unpacked_bytes))
    except ProfileError as error:
        name = file_name(path)
        if not name:
            raise
        raise ProfileError(f"{error.message} (in {name!r})", error.path) from error.__cause__


def file_name(path: object) -> str:
    """Return the name of a file or an open stream; "" if it has none."""
    name = path if isinstance(path, (str, bytes, os.PathLike)) else getattr(path, "name", "")
    # A file that was opened by its descriptor has that number as its name.
    return "" if isinstance(name, int) else os.fsdecode(name)


def read(path: Any, max_unpacked_bytes: int | None = MAX_UNPACKED_BYTES) -> str | bytes | bytearray:
    """Return the content of an open stream or a file; that of one named ``*.gz`` decompressed."""
    try:
        if hasattr(path, "read"):
            content: str | bytes = path.read()
            return content
        if os.fsdecode(path).endswith(COMPRESSED):
            most = math.inf if max_unpacked_bytes is None else max_unpacked_bytes
            return _decompressed(path, most)
        # Directly as text: bytes in addition would double the memory of a large file.
        with open(path, encoding="utf-8-sig") as file:
            return file.read()
    except UnicodeDecodeError as error:
        raise ProfileError(f"not JSON: {error}") from error


def _decompressed(path: Any, max_bytes: float) -> bytearray:
    import gzip
    import zlib

    content = bytearray()
    try:
        with gzip.open(path) as file:
            while piece := file.read(_PIECE_BYTES):
                content += piece
                if len(content) > max_bytes:
                    raise ProfileError(
                        f"unpacks to more than {max_bytes:,} bytes; if you trust its origin, use "
                        "gunzip first, or Profile.load(path, max_unpacked_bytes=None)"
                    )
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ProfileError(f"cannot be decompressed: {error}") from error
    return content


def mapping_in(mapping: Mapping[str, object], key: str) -> JsonObject:
    """Return the object under a key; an empty one if it is missing or of another type."""
    value = mapping.get(key)
    return value if isinstance(value, dict) else {}


def text_in(mapping: Mapping[str, object], key: str) -> str:
    """Return the text under a key; "" if it is missing or of another type."""
    value = mapping.get(key)
    return value if isinstance(value, str) else ""


#: Rows that are encoded at once: enough for speed, few enough for memory.
_BATCH = 4096

#: Sections that hold tables side by side; each table has its rows on lines of their own.
_TABLES = frozenset(
    ("dag_structure", "edge_metrics", "origins", "samples", "spans", "statistics", "timeline")
)


def plain_number(value: object) -> Any:
    """Return a numpy scalar as the number it is."""
    numpy = imported("numpy")
    if numpy is not None and isinstance(value, numpy.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no JSON form")


# A cycle ends in a RecursionError, which render() reports; looking for one costs a tenth.
_STRICT: Any = {"allow_nan": False, "default": plain_number, "check_circular": False}
_encode = json.JSONEncoder(**_STRICT, separators=(",", ":")).encode
_encode_lines = json.JSONEncoder(**_STRICT, separators=(",\n", ":")).encode

#: Returns a value as JSON on one line, with numbers of numpy as plain ones; a ValueError for NaN.
to_json = json.JSONEncoder(**_STRICT).encode

#: Types of values that hold no others.
_SCALARS = frozenset((str, int, float, bool, type(None)))

_encode_event = json.JSONEncoder(ensure_ascii=False, **_STRICT).encode


def trace_json(value: object) -> str:
    """Return a value as JSON that Perfetto reads correctly.

    Perfetto takes a quote for escaped after every backslash, an escaped one included, and shows
    the escapes of a text without quotes. Half a surrogate pair, which a file in UTF-8 cannot hold,
    becomes an escape.
    """
    text = _encode_event(value).replace("\\\\", "\\u005c")
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def render(document: Iterable[tuple[str, object]]) -> Iterator[str]:
    """Yield the JSON text of a document, piece by piece, one record a line.

    Raises
    ------
    ProfileError
        If a section contains a value without a JSON form: NaN, infinity, an object.
    """
    lead = "{\n"
    for name, section in document:
        yield f"{lead}{_encode(name)}:"
        try:
            yield from _lines(section, nested=name in _TABLES)
        except (TypeError, ValueError, RecursionError) as error:
            raise ProfileError(f"cannot be written: {error}", f"$.{name}") from error
        lead = ",\n"
    yield "\n}\n"


def _lines(value: object, *, nested: bool = False) -> Iterator[str]:
    """Yield the text of a list or a dict with each item on a line of its own."""
    if isinstance(value, dict) and value:
        yield "{\n"
        if nested:
            lead = ""
            for key, item in value.items():
                yield f"{lead}{_encode(key)}:"
                yield from _lines(item)
                lead = ",\n"
        elif _SCALARS.issuperset(map(type, value.values())):
            yield _encode_lines(value)[1:-1]
        else:
            yield from _separated([{key: item} for key, item in value.items()], "{", "}")
        yield "\n}"
    elif isinstance(value, list) and value:
        yield "[\n"
        if _SCALARS.issuperset(map(type, value)):
            yield _encode_lines(value)[1:-1]
        else:
            yield from _separated(value)
        yield "\n]"
    else:
        yield _encode(value)


def _separated(rows: Sequence[object], opening: str = "", closing: str = "") -> Iterator[str]:
    """Yield the text of rows, each on a line, without the brackets around each.

    One call of the encoder, which is in C, encodes a few thousand of them. A random mark, which
    no value can equal, stands between two.
    """
    mark = os.urandom(8).hex()
    between = f'{closing},"{mark}",{opening}'
    lead = ""
    for first in range(0, len(rows), _BATCH):
        batch = rows[first : first + _BATCH]
        flat: list[object] = [mark] * (2 * len(batch) - 1)
        flat[::2] = batch
        text = _encode(flat)[1 + len(opening) : -1 - len(closing)]
        yield lead + text.replace(between, ",\n")
        lead = ",\n"
