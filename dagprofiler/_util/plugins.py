"""The registry of formats: packages register exporters and importers by entry points.

The group is ``dagprofiler.exporters`` or ``dagprofiler.importers``, the name that
of the format, the object an instance with the methods of
:class:`dagprofiler.formats.Exporter` or :class:`dagprofiler.formats.Importer`.
Built-in formats are registered the same way. Each is imported at its first use.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from dagprofiler.errors import FormatError, did_you_mean, explained, short_repr

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

EXPORTERS, IMPORTERS = "dagprofiler.exporters", "dagprofiler.importers"


def formats(group: str) -> list[str]:
    """Return the names of the formats of a group, sorted."""
    return sorted(_points(group))


def load(group: str, name: str) -> Any:
    """Return the exporter or importer of a format.

    Raises
    ------
    FormatError
        If there is none, or it cannot be imported.
    """
    points = _points(group)
    if not isinstance(name, str) or name not in points:
        what, known = group.rpartition(".")[2], sorted(points)
        raise FormatError(
            f"there is no format {short_repr(name)} among the {what} (known: "
            f"{', '.join(known) or 'none'}){did_you_mean(name, known)}"
        )
    words = f"format {name!r} cannot be loaded from {points[name].value!r}"
    with explained(FormatError, words):
        return points[name].load()


def loadable(group: str) -> dict[str, Any]:
    """Return the objects of a group by name, without those that cannot be imported."""
    plugins = {}
    for name in formats(group):
        with suppress(FormatError):
            plugins[name] = load(group, name)
    return plugins


def recognizing(document: object) -> dict[str, Any]:
    """Return the importers that recognize a document, by name."""
    importers = loadable(IMPORTERS).items()
    return {name: importer for name, importer in importers if importer.recognizes(document)}


def check_options(name: str, exporter: Any, options: Mapping[str, object]) -> None:
    """Refuse options that the exporter of a format does not take; FormatError."""
    from inspect import signature

    render = signature(exporter.render)
    try:
        render.bind(None, **options)
    except TypeError as error:
        # The first parameter is the profile.
        known = ", ".join([*render.parameters][1:]) or "none"
        raise FormatError(f"format {name!r}: {error}; options: {known}") from error


def format_of(path: str) -> str:
    """Return the name of the format of a file's extension.

    Raises
    ------
    FormatError
        If no format has this extension, or several have.
    """
    ending = path.lower()
    extensions = {name: exporter.extension for name, exporter in loadable(EXPORTERS).items()}
    fitting = [name for name, extension in extensions.items() if ending.endswith(extension)]
    longest = max((len(extensions[name]) for name in fitting), default=0)
    best = [name for name in fitting if len(extensions[name]) == longest]
    if len(best) != 1:
        what = f"could be any of {', '.join(best)}" if best else "has no known extension"
        endings = ", ".join(f"{extension} ({name})" for name, extension in extensions.items())
        hint = "" if best else did_you_mean(ending.rpartition(".")[2], list(extensions))
        subject = repr(path) if path else "a stream without a name"
        raise FormatError(
            f"{subject} {what}; give format=, or one of the extensions {endings}{hint}"
        )
    return best[0]


def _points(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name."""
    from importlib.metadata import entry_points

    everything: Any = entry_points()
    # A dict of groups before Python 3.10.
    is_new = hasattr(everything, "select")
    points = everything.select(group=group) if is_new else everything.get(group, ())
    return {point.name: point for point in points}
