"""Documents: what JSON can hold, and files that are read and replaced as a whole."""

from __future__ import annotations

import gc
import io
import json
import math
import os
import stat
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from typing import IO, TYPE_CHECKING, Any

from dagprofiler.errors import ProfileError, json_path, shorten
from dagprofiler.rendering import plain_number

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "collector_paused",
    "file_name",
    "jsonable",
    "load",
    "parse",
    "plain_document",
    "read",
    "utc_now",
    "write",
]


def utc_now() -> str:
    """Return the time as ISO 8601 text in UTC, to the microsecond, with a ``Z``."""
    return datetime.now(timezone.utc).isoformat(timespec="microseconds").replace("+00:00", "Z")


@contextmanager
def collector_paused() -> Iterator[None]:
    """Keep the garbage collector from running while tables without cycles are built.

    It would look through all of a large table again each time the table has
    grown by a quarter, which doubles the time, and find nothing.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class _NotJson(Exception):  # noqa: N818  (a signal, not an error of the library)
    """A value has no JSON form; never leaves this module."""


def jsonable(parameters: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return `parameters` as JSON holds them, and the names of those stored as text.

    Arrays and tuples become lists, numpy scalars numbers. What JSON has no
    form for (objects, NaN, integers beyond 64 bits) is stored as its ``str``.

    Examples
    --------
    >>> jsonable({"n": 3, "shape": (2, 2), "model": complex(1, 2)})
    ({'n': 3, 'shape': [2, 2], 'model': '(1+2j)'}, ['model'])
    """
    values: dict[str, Any] = {}
    as_text = []
    for name, value in parameters.items():
        try:
            values[name] = _plain(value)
        except Exception:  # noqa: BLE001  (to_dict() of an object is a user's code)
            values[name] = _text(value)
            as_text.append(name)
    return values, as_text


def _text(value: Any) -> str:
    """Return the text of any value, also of one whose ``str`` fails."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001  (a profile is not lost to what a parameter does)
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
            raise _NotJson
        return {key: _plain(item) for key, item in value.items()}
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, (numpy.generic, numpy.ndarray)):
        python = value.tolist()
        # Times become bare integers in nanoseconds: text says what they are.
        if type(python) is not type(value) and value.dtype.kind not in "mM":
            return _plain(python)
    if hasattr(value, "to_dict") and not isinstance(value, type):
        return _plain(value.to_dict())
    raise _NotJson


def parse(text: str | bytes, *, unique_keys: bool = False) -> Any:
    """Return the document in a JSON text.

    NaN and infinity, which are no JSON, pass inside of ``configuration`` only,
    where version 0.1.0 wrote them.

    Parameters
    ----------
    unique_keys
        Whether to refuse an object in which a key stands twice; else the last counts.

    Raises
    ------
    ProfileError
        If it is no JSON, holds such a number elsewhere, or such an object.
    """
    constants = []

    def constant(word: str) -> float:
        constants.append(word)
        return float(word)

    try:
        if not isinstance(text, (str, bytes, bytearray)):
            raise ProfileError(f"expected JSON text, got {type(text).__name__}")
        if not isinstance(text, str):
            text = text.decode(json.detect_encoding(text), "surrogatepass")
        pairs_hook = _unique if unique_keys else None
        document: Any = json.loads(text, parse_constant=constant, object_pairs_hook=pairs_hook)
        if constants:
            plain_document(document)
    except RecursionError as error:
        raise ProfileError("not JSON that can be read: nested too deep") from error
    except ProfileError:
        raise
    except ValueError as error:
        raise ProfileError(f"not JSON: {error}") from error
    return document


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        ((key, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise ProfileError(
            f"not JSON that can be read: key {shorten(repr(key))} stands twice in one object"
        )
    return found


def plain_document(document: Any) -> Any:
    """Return a deep copy of a document that is plain JSON.

    Raises
    ------
    ProfileError
        If something in it is no JSON value: a key that is no text, an object,
        a number that is not finite outside of ``configuration``.
    """
    try:
        if not isinstance(document, dict):
            return _plain_copy(document, (), finite=True)
        return {
            _key(name, ()): _plain_copy(section, (name,), finite=name != "configuration")
            for name, section in document.items()
        }
    except RecursionError as error:
        raise ProfileError("nested too deep") from error


def _key(key: Any, path: tuple[Any, ...]) -> str:
    if not isinstance(key, str):
        raise ProfileError(f"key {key!r} is no text", json_path(path))
    return key


def _plain_copy(value: Any, path: tuple[Any, ...], *, finite: bool) -> Any:
    kind = type(value)
    if kind is dict:
        return {
            _key(key, path): _plain_copy(item, (*path, key), finite=finite)
            for key, item in value.items()
        }
    if kind is list or kind is tuple:
        return [_plain_copy(item, (*path, i), finite=finite) for i, item in enumerate(value)]
    if kind is float and finite and not math.isfinite(value):
        raise ProfileError(f"{value!r} is not a finite number", json_path(path))
    if value is None or isinstance(value, (str, int, float)):
        return value
    try:
        number = plain_number(value)
    except TypeError as error:
        raise ProfileError(str(error), json_path(path)) from error
    return _plain_copy(number, path, finite=finite)


def load(path: Any, *, unique_keys: bool = False) -> Any:
    """Return the document in a file or an open stream; errors as :func:`parse`, naming the file."""
    try:
        return parse(read(path), unique_keys=unique_keys)
    except ProfileError as error:
        name = file_name(path)
        if not name:
            raise
        raise ProfileError(f"{error.message} (in {name!r})", error.path) from error.__cause__


def file_name(path: Any) -> str:
    """Return what a file or an open stream is called; nothing if it has no name."""
    name = path if isinstance(path, (str, bytes, os.PathLike)) else getattr(path, "name", "")
    # What was opened by its descriptor has that for a name.
    return "" if isinstance(name, int) else os.fsdecode(name)


def read(path: Any) -> str | bytes:
    """Return what is in a file or an open stream."""
    try:
        if hasattr(path, "read"):
            content: str | bytes = path.read()
            return content
        # As text at once: bytes beside it would double what a large file takes.
        with open(path, encoding="utf-8-sig") as file:
            return file.read()
    except UnicodeDecodeError as error:
        raise ProfileError(f"not JSON: {error}") from error


def write(path: Any, pieces: Iterable[str]) -> str:
    """Write text to a stream, or to a file that is replaced as a whole; return its name."""
    if hasattr(path, "write"):
        _write_pieces(path, pieces)
        return str(getattr(path, "name", ""))
    # A symbolic link stays: what it points to is replaced.
    target = os.path.realpath(path)
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        mode = None
    if (mode is not None and not stat.S_ISREG(mode)) or os.path.abspath(path).startswith("/dev/"):
        # A device or a pipe has no old content to keep; and what stands behind
        # /dev/stdout, be it a file, is written on, not replaced.
        with open(path, "a", encoding="utf-8") as file:
            _write_pieces(file, pieces)
        return str(path)
    temporary = os.path.join(os.path.dirname(target), f".dagprofiler-{os.urandom(6).hex()}.tmp")
    try:
        # The umask applies to a new file; mkstemp would make it private.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        descriptor = os.open(temporary, flags, 0o666)
    except OSError as error:
        # The user knows the path, not the name of a temporary file.
        raise type(error)(error.errno, error.strerror, str(path)) from None
    try:
        with open(descriptor, "w", encoding="utf-8", newline="\n") as file:
            _write_pieces(file, pieces)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            os.chmod(temporary, stat.S_IMODE(mode))
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    return str(path)


def _write_pieces(stream: IO[Any], pieces: Iterable[str]) -> None:
    try:
        stream.write("")
        binary = False
    except TypeError:
        binary = True
    raw = isinstance(stream, io.RawIOBase)
    # Alone a raw stream may write less than it is given.
    sink: IO[Any] = io.BufferedWriter(stream) if raw else stream
    try:
        for piece in pieces:
            sink.write(piece.encode() if binary else piece)
    finally:
        if raw:
            sink.detach()  # type: ignore[attr-defined]


def mapping_in(mapping: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return the object under a key; an empty one if something else is there, or nothing."""
    value = mapping.get(key)
    return value if isinstance(value, dict) else {}


def text_in(mapping: Mapping[str, Any], key: str) -> str:
    """Return the text under a key; an empty one if something else is there, or nothing."""
    value = mapping.get(key)
    return value if isinstance(value, str) else ""
