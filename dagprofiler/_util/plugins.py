"""The registry of formats: packages register exporters and importers by entry points.

The group is ``dagprofiler.exporters`` or ``dagprofiler.importers``, the name that
of the format, the object an instance with the methods of
:class:`dagprofiler.formats.Exporter` or :class:`dagprofiler.formats.Importer`.
Built-in formats are registered the same way. Each is imported at its first use.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from dagprofiler.errors import FormatError, describe, did_you_mean, short_repr

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


EXPORTERS, IMPORTERS = "dagprofiler.exporters", "dagprofiler.importers"

_METHODS = {EXPORTERS: ("render",), IMPORTERS: ("recognizes", "read")}


def formats(group: str) -> list[str]:
    """Return the names of the formats of a group, sorted."""
    return list(_points(group))


def load(group: str, name: str) -> Any:
    """Return the exporter or importer of a format.

    Raises
    ------
    FormatError
        If there is none, it cannot be imported, or two packages register different
        objects under the name.
    """
    known = _points(group)
    if not isinstance(name, str) or name not in known:
        what = group.rpartition(".")[2]
        raise FormatError(
            f"there is no format {short_repr(name)} among the {what} (known: "
            f"{', '.join(known) or 'none'})"
            f"{did_you_mean(name, list(known))}"
        )
    return _loaded(group, known[name])


def loadable(group: str) -> tuple[dict[str, Any], list[str]]:
    """Return the objects of a group by name, and the reasons for those left out.

    A broken package does not hide the formats of others.
    """
    plugins, reasons = {}, []
    for name, points in _points(group).items():
        try:
            plugins[name] = _loaded(group, points)
        except FormatError as error:
            reasons.append(str(error))
    return plugins, reasons


def recognizing(document: Any) -> tuple[dict[str, Any], list[str]]:
    """Return the importers that recognize a document, and the errors of others."""
    known, reasons = loadable(IMPORTERS)
    fitting = {}
    for name, importer in known.items():
        try:
            if importer.recognizes(document):
                fitting[name] = importer
        except Exception as error:  # noqa: BLE001  (third-party code may raise anything)
            reasons.append(f"format {name!r} cannot check the document: {describe(error)}")
    return fitting, reasons


def check_options(name: str, exporter: Any, options: Collection[str]) -> None:
    """Refuse options that the exporter of a format does not take; FormatError.

    A ``render`` with ``**options`` accepts all.
    """
    if not options:
        return
    from inspect import Parameter, signature

    parameters = signature(exporter.render).parameters
    if any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    # The first is the profile.
    known = list(parameters)[1:]
    for option in options:
        if option not in known:
            takes = f"it takes {', '.join(known)}" if known else "it takes none"
            raise FormatError(
                f"format {name!r} has no option {option!r}; {takes}{did_you_mean(option, known)}"
            )


def format_of(path: str) -> str:
    """Return the name of the format of a file's extension.

    Raises
    ------
    FormatError
        If no format has this extension, or several have.
    """
    ending = path.lower()
    exporters, reasons = loadable(EXPORTERS)
    extensions = {name: exporter.extension for name, exporter in exporters.items()}
    fitting = [name for name, extension in extensions.items() if ending.endswith(extension)]
    longest = max((len(extensions[name]) for name in fitting), default=0)
    best = [name for name in fitting if len(extensions[name]) == longest]
    if len(best) != 1:
        what = f"could be any of {', '.join(best)}" if best else "has no known extension"
        endings = ", ".join(f"{extension} ({name})" for name, extension in extensions.items())
        hint = f"give format=, or one of the extensions {endings}"
        if not best:
            hint += did_you_mean(ending.rpartition(".")[2], list(extensions))
        subject = repr(path) if path else "a stream without a name"
        raise FormatError("; ".join([f"{subject} {what}", hint, *reasons]))
    return best[0]


def _points(group: str) -> dict[str, list[EntryPoint]]:
    """Return the entry points of a group by name, sorted, without duplicates."""
    from importlib.metadata import entry_points

    everything: Any = entry_points()
    # A dict before Python 3.10.
    if hasattr(everything, "select"):
        points = everything.select(group=group)
    else:
        points = everything.get(group, ())
    named: dict[str, dict[str, EntryPoint]] = {}
    for point in sorted(points, key=lambda point: point.name):
        named.setdefault(point.name, {}).setdefault(point.value, point)
    return {name: list(by_value.values()) for name, by_value in named.items()}


def _loaded(group: str, points: Sequence[EntryPoint]) -> Any:
    """Return the object of the entry points of one name."""
    point, *others = points
    if others:
        raise FormatError(
            f"format {point.name!r} is given by both {point.value!r} and {others[0].value!r} "
            f"(entry points {group!r}); uninstall one of the two packages"
        )
    try:
        plugin = point.load()
    except Exception as error:  # third-party modules may raise anything
        raise FormatError(
            f"format {point.name!r} cannot be loaded from {point.value!r}: {describe(error)}"
        ) from error
    methods = _METHODS[group]
    if isinstance(plugin, type) or not all(callable(getattr(plugin, m, None)) for m in methods):
        raise FormatError(
            f"format {point.name!r}: {point.value!r} (entry points {group!r}) is "
            f"{short_repr(plugin)}; expected an instance with {' and '.join(methods)}"
        )
    return plugin
