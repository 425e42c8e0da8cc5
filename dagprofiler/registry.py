"""The registry of formats: who writes or reads a format says so by an entry point.

The group is ``dagprofiler.exporters`` or ``dagprofiler.importers``, the name that
of the format, the object an instance with the methods that
:class:`dagprofiler.exporters.Exporter` or :class:`dagprofiler.importers.Importer`
describes. Ours are found the same way. Nothing is imported before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dagprofiler.errors import FormatError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.metadata import EntryPoint

__all__ = ["EXPORTERS", "IMPORTERS", "format_of", "formats", "load", "loadable"]

EXPORTERS, IMPORTERS = "dagprofiler.exporters", "dagprofiler.importers"


def formats(group: str) -> list[str]:
    """Return the names of the formats of a group, sorted."""
    return list(_points(group))


def load(group: str, name: str) -> Any:
    """Return what stands under the name of a format.

    Raises
    ------
    FormatError
        If there is none, it cannot be imported, or two packages give the name to different
        things.
    """
    known = _points(group)
    if name not in known:
        what = group.rpartition(".")[2]
        raise FormatError(
            f"there is no format {name!r} among the {what} (known: {', '.join(known) or 'none'})"
            f"{did_you_mean(name, list(known))}"
        )
    return _loaded(group, known[name])


def loadable(group: str) -> tuple[dict[str, Any], list[str]]:
    """Return what stands under each name of a group, and why some names are left out.

    One package that is broken does not keep the formats of others from being found.
    """
    found, reasons = {}, []
    for name, points in _points(group).items():
        try:
            found[name] = _loaded(group, points)
        except FormatError as error:
            reasons.append(str(error))
    return found, reasons


def format_of(path: str) -> str:
    """Return the name of the format that the ending of a file's name stands for.

    Raises
    ------
    FormatError
        If it stands for none, or for several.
    """
    ending = path.lower()
    found, reasons = loadable(EXPORTERS)
    extensions = {name: exporter.extension for name, exporter in found.items()}
    fitting = [name for name, extension in extensions.items() if ending.endswith(extension)]
    longest = max((len(extensions[name]) for name in fitting), default=0)
    best = [name for name in fitting if len(extensions[name]) == longest]
    if len(best) != 1:
        what = f"could be any of {', '.join(best)}" if best else "says no format"
        endings = ", ".join(f"{extension} ({name})" for name, extension in extensions.items())
        hint = f"give format=, or one of the endings {endings}"
        raise FormatError("; ".join([f"{path!r} {what}", hint, *reasons]))
    return best[0]


def _points(group: str) -> dict[str, list[EntryPoint]]:
    """Return the entry points of a group by name, sorted; of some that say the same the first."""
    from importlib.metadata import entry_points

    found: Any = entry_points()
    # Before Python 3.10 a dict.
    points = found.select(group=group) if hasattr(found, "select") else found.get(group, ())
    named: dict[str, dict[str, EntryPoint]] = {}
    for point in sorted(points, key=lambda point: point.name):
        named.setdefault(point.name, {}).setdefault(point.value, point)
    return {name: list(by_value.values()) for name, by_value in named.items()}


def _loaded(group: str, points: Sequence[EntryPoint]) -> Any:
    """Return what the entry points of one name stand for."""
    point, *others = points
    if others:
        raise FormatError(
            f"format {point.name!r} is given by both {point.value!r} and {others[0].value!r} "
            f"(entry points {group!r}); one of their packages has to go"
        )
    try:
        return point.load()
    except Exception as error:  # whatever the module of others does when it is imported
        raise FormatError(
            f"format {point.name!r} cannot be loaded from {point.value!r}: {error}"
        ) from error
