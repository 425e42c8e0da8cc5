"""Reading of JSON that others wrote: each part is checked, and a refusal names the place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dagprofiler.errors import FormatError, json_path, short_repr

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Union

    Path = tuple[Union[str, int], ...]

__all__ = [
    "bytes_of",
    "check",
    "name_of",
    "number_of",
    "objects_of",
    "part_of",
    "quote",
    "refusal",
    "texts_of",
]

#: The largest time in seconds whose milliseconds are finite, with room for sums of them.
_MAX_SECONDS = 1e300

_MAX_BYTES = 2**60 - 1


def number_of(entry: Mapping[str, Any], key: str, path: Path) -> float | None:
    """Return a number of at least 0; None if there is none."""
    value = entry.get(key)
    if value is None:
        return None
    # A bool is an int to Python, and no number to anybody else.
    if type(value) not in (int, float):
        raise refusal(f"expected a number, got {quote(value)}", *path, key)
    if not 0 <= value <= _MAX_SECONDS:
        what = "negative" if value < 0 else "no time and no size"
        raise refusal(f"{quote(value)} is {what}", *path, key)
    return value  # type: ignore[no-any-return]


def bytes_of(entry: Mapping[str, Any], key: str, path: Path) -> int:
    """Return the size of a file, which it must have."""
    value = number_of(entry, key, path)
    if value is None:
        raise refusal("the file has no size", *path)
    if value != int(value) or value > _MAX_BYTES:
        raise refusal(f"expected whole bytes below 2**60, got {short_repr(value)}", *path, key)
    return int(value)


def name_of(entry: Mapping[str, Any], key: str, path: Path) -> str:
    """Return a text that is not empty."""
    name: str = part_of(entry, key, str, path)
    if not name:
        raise refusal("the text is empty", *path, key)
    return name


def texts_of(entry: Mapping[str, Any], key: str, path: Path) -> list[str] | None:
    """Return a list of texts, each once; None if there is no list."""
    if entry.get(key) is None:
        return None
    texts = part_of(entry, key, list, path)
    for i, text in enumerate(texts):
        check(text, str, (*path, key, i))
    return list(dict.fromkeys(texts))


def objects_of(
    entry: Mapping[str, Any], key: str, path: Path, *, empty: bool = False
) -> list[dict[str, Any]]:
    """Return a list of objects, which must be there."""
    found: list[dict[str, Any]] = part_of(entry, key, list, path)
    if not found and not empty:
        raise refusal("expected at least one entry", *path, key)
    for i, item in enumerate(found):
        check(item, dict, (*path, key, i))
    return found


_KINDS: dict[type, str] = {dict: "an object", list: "a list", str: "a text"}


def part_of(entry: Mapping[str, Any], key: str, kind: type, path: Path) -> Any:
    """Return what must stand under a key."""
    if key not in entry:
        raise refusal(f"expected {_KINDS[kind]} under {short_repr(key)}, which is missing", *path)
    check(entry[key], kind, (*path, key))
    return entry[key]


def check(value: Any, kind: type, path: Path) -> None:
    """Refuse what is not of a kind."""
    if not isinstance(value, kind):
        raise refusal(f"expected {_KINDS[kind]}, got {quote(value)}", *path)


def quote(value: Any) -> str:
    """Return a value as messages show it."""
    return short_repr(value)


def refusal(message: str, *path: Any) -> FormatError:
    """Return an error that names the place."""
    return FormatError(f"{json_path(path)}: {message}")
