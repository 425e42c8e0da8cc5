"""The registry of formats: who writes or reads a format says so by an entry point.

The group is ``dagprofiler.exporters`` or ``dagprofiler.importers``, the name that
of the format, the object an instance with the methods that
:class:`dagprofiler.formats.Exporter` or :class:`dagprofiler.formats.Importer`
describes. Ours are found the same way. Nothing is imported before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dagprofiler.errors import FormatError, describe, did_you_mean, short_repr

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from importlib.metadata import EntryPoint


EXPORTERS, IMPORTERS = "dagprofiler.exporters", "dagprofiler.importers"

_METHODS = {EXPORTERS: ("render",), IMPORTERS: ("recognizes", "read")}

#: What people call formats, or the tools that read them. They are hints, and no names of formats.
_ALIASES = {
    **dict.fromkeys(("graphviz", "gv", "xdot"), "dot"),
    **dict.fromkeys(("networkx", "nx", "d3", "json_graph"), "node_link"),
    **dict.fromkeys(("gephi", "igraph", "xml", "yed"), "graphml"),
    **dict.fromkeys(("chrome", "perfetto", "timeline", "trace", "tracing"), "chrome_trace"),
    **dict.fromkeys(("simgrid", "wf", "wfcommons", "wfinstances", "wrench"), "wfformat"),
    **dict.fromkeys(("excel", "pandas", "spreadsheet", "table", "tsv", "xlsx"), "csv"),
    **dict.fromkeys(("github", "gitlab", "markdown", "md", "mmd"), "mermaid"),
    **dict.fromkeys(("browser", "htm", "page", "report"), "html"),
    **dict.fromkeys(("anrg_saga", "probleminstance"), "saga"),
}


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
    if not isinstance(name, str) or name not in known:
        what = group.rpartition(".")[2]
        raise FormatError(
            f"there is no format {short_repr(name)} among the {what} (known: "
            f"{', '.join(known) or 'none'})"
            f"{_meant(name, list(known))}"
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


def recognizing(document: Any) -> tuple[dict[str, Any], list[str]]:
    """Return the importers that recognize a document, and why some could not be asked."""
    known, reasons = loadable(IMPORTERS)
    fitting = {}
    for name, importer in known.items():
        try:
            if importer.recognizes(document):
                fitting[name] = importer
        except Exception as error:  # noqa: BLE001  (whatever the module of others does)
            reasons.append(f"format {name!r} cannot tell whether it fits: {describe(error)}")
    return fitting, reasons


def check_options(name: str, exporter: Any, options: Collection[str]) -> None:
    """Refuse options that the exporter of a format does not take; FormatError.

    Only what its ``render`` declares can be checked: one with ``**options`` takes all.
    """
    if not options:
        return
    from inspect import Parameter, signature

    parameters = signature(exporter.render).parameters
    if any(one.kind is Parameter.VAR_KEYWORD for one in parameters.values()):
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
        if not best:
            hint += _meant(ending.rpartition(".")[2], list(extensions))
        subject = repr(path) if path else "a stream without a name"
        raise FormatError("; ".join([f"{subject} {what}", hint, *reasons]))
    return best[0]


def _meant(name: Any, known: Sequence[str]) -> str:
    """Return the end of a refusal: which of the known formats was meant, if that can be told."""
    if not isinstance(name, str):
        return ""
    alias = _ALIASES.get(name.lower().replace("-", "_").replace(" ", "_"))
    return f"; did you mean {alias!r}?" if alias in known else did_you_mean(name, known)


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
        found = point.load()
    except Exception as error:  # whatever the module of others does when it is imported
        raise FormatError(
            f"format {point.name!r} cannot be loaded from {point.value!r}: {describe(error)}"
        ) from error
    lacking = _lacking(group, found)
    if lacking:
        raise FormatError(
            f"format {point.name!r}: {point.value!r} (entry points {group!r}) {lacking}"
        )
    return found


def _lacking(group: str, found: Any) -> str:
    """Return what keeps an object from being an exporter or an importer; nothing if nothing."""
    if isinstance(found, type):
        return f"is the class {found.__name__}; expected an instance of it, as {found.__name__}()"
    for method in _METHODS[group]:
        if not callable(getattr(found, method, None)):
            return f"is {short_repr(found)}, which has no method {method}()"
    if group == IMPORTERS:
        return ""
    extension = getattr(found, "extension", None)
    if isinstance(extension, str) and extension == extension.lower() and extension[:1] == ".":
        return ""
    return (
        f"has the extension {short_repr(extension)}; expected lower-case text that begins "
        "with a dot"
    )
