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
    from importlib.metadata import EntryPoint

__all__ = ["EXPORTERS", "IMPORTERS", "format_of", "formats", "load"]

EXPORTERS, IMPORTERS = "dagprofiler.exporters", "dagprofiler.importers"


def formats(group: str) -> dict[str, EntryPoint]:
    """Return the formats of a group by name, sorted.

    Raises
    ------
    FormatError
        If two packages give one name to different things.
    """
    from importlib.metadata import entry_points

    found: Any = entry_points()
    # Before Python 3.10 a dict.
    points = found.select(group=group) if hasattr(found, "select") else found.get(group, ())
    named: dict[str, EntryPoint] = {}
    for point in sorted(points, key=lambda point: point.name):
        known = named.setdefault(point.name, point)
        if known.value != point.value:
            raise FormatError(
                f"format {point.name!r} is given by both {known.value!r} and {point.value!r} "
                f"(entry points {group!r}); one of their packages has to go"
            )
    return named


def load(group: str, name: str) -> Any:
    """Return what stands under the name of a format.

    Raises
    ------
    FormatError
        If there is none, or it cannot be imported.
    """
    known = formats(group)
    if name not in known:
        what = group.rpartition(".")[2]
        raise FormatError(
            f"there is no format {name!r} among the {what} (known: {', '.join(known) or 'none'})"
            f"{did_you_mean(name, list(known))}"
        )
    try:
        return known[name].load()
    except (ImportError, AttributeError) as error:
        raise FormatError(
            f"format {name!r} cannot be loaded from {known[name].value!r}: {error}"
        ) from error


def format_of(path: str) -> str:
    """Return the name of the format that the ending of a file's name stands for.

    Raises
    ------
    FormatError
        If it stands for none, or for several.
    """
    ending = path.lower()
    known = formats(EXPORTERS)
    extensions = {name: load(EXPORTERS, name).extension for name in known}
    fitting = [name for name, extension in extensions.items() if ending.endswith(extension)]
    longest = max((len(extensions[name]) for name in fitting), default=0)
    best = [name for name in fitting if len(extensions[name]) == longest]
    if len(best) != 1:
        what = f"could be any of {', '.join(best)}" if best else "says no format"
        endings = ", ".join(f"{extension} ({name})" for name, extension in extensions.items())
        raise FormatError(f"{path!r} {what}; give format=, or one of the endings {endings}")
    return best[0]
