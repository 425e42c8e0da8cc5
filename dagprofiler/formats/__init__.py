"""Formats: exporters and importers of other tools' files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO, Any, Protocol

from dagprofiler._util import PathLike
from dagprofiler._util import json as documents
from dagprofiler._util.plugins import EXPORTERS, IMPORTERS, formats, load, recognizing
from dagprofiler.errors import FormatError
from dagprofiler.profile import Profile


@dataclass(frozen=True)
class Export:
    """A profile in another format.

    Attributes
    ----------
    text
        Content of the file.
    losses
        What the profile holds and the format cannot, a sentence each.
    """

    text: str
    losses: tuple[str, ...] = ()


class Exporter(Protocol):
    r"""Renders profiles in one format.

    An exporter is an instance that is registered under its name as an entry
    point in the group ``dagprofiler.exporters``.

    Attributes
    ----------
    name
        Name of the format, for ``profile.export(path, format=name)``.
    extension
        Suffix of its files, in lower case, with the dot: ``".dot"``.

    Examples
    --------
    >>> class TaskList:
    ...     name, extension = "tasks", ".tasks"
    ...
    ...     def render(self, profile, *, end="\\n"):
    ...         return Export(end.join(profile.dag_structure["nodes"]))
    """

    name: str
    extension: str

    def render(self, profile: Profile, **options: Any) -> Export:
        """Return the profile in this format.

        Options are keyword arguments with defaults; each exporter has its own.
        """


def exporter(name: str) -> Exporter:
    """Return the exporter of a format; FormatError if there is none."""
    loaded: Exporter = load(EXPORTERS, name)
    return loaded


def exporter_names() -> list[str]:
    """Return the names of all formats that profiles can be exported to."""
    return formats(EXPORTERS)


#: Sections that profiles of all versions have.
_OURS = {"metadata", "dag_structure", "node_weights"}


class Importer(Protocol):
    """Reads profiles from documents in one format.

    An importer is an instance that is registered under its name as an entry
    point in the group ``dagprofiler.importers``.

    Attributes
    ----------
    name
        Name of the format, for ``import_profile(path, format=name)``.
    """

    name: str

    def recognizes(self, document: Any) -> bool:
        """Return whether a parsed JSON document looks like one of this format."""

    def read(self, document: Any) -> Profile:
        """Return the profile in a parsed JSON document.

        Raises
        ------
        FormatError, ProfileError
            If it is not in this format, or contradicts itself; with the place.
        """


def importer(name: str) -> Importer:
    """Return the importer of a format; FormatError if there is none."""
    loaded: Importer = load(IMPORTERS, name)
    return loaded


def importer_names() -> list[str]:
    """Return the names of all formats that profiles can be imported from."""
    return formats(IMPORTERS)


def import_profile(path: PathLike | IO[Any], format: str | None = None) -> Profile:
    """Return the profile in a file of another tool.

    A file that already holds a profile, even of 0.1.0, is read as by :meth:`Profile.load`.

    Parameters
    ----------
    path
        A file, or an open stream.
    format
        Its format; by default that of the importer that recognizes it.

    Raises
    ------
    FormatError
        If the format is not known, no format recognizes the file, or it is not
        what its format says.
    ProfileError
        If it is no JSON, or a profile that is not valid.

    Notes
    -----
    What the file does not say is absent from the profile, never 0.
    """
    with documents.collector_paused():
        document = documents.load(path)
        if format is not None:
            return importer(format).read(document)
        if isinstance(document, dict) and document.keys() >= _OURS:
            return Profile.from_dict(document)
        fitting: dict[str, Importer] = recognizing(document)
        if len(fitting) != 1:
            what = f"could be any of {', '.join(fitting)}" if fitting else "is in no format known"
            hint = f"give format= (known: {', '.join(importer_names()) or 'none'})"
            name = documents.file_name(path)
            raise FormatError(f"{repr(name) if name else 'the stream'} {what}; {hint}")
        (chosen,) = fitting.values()
        return chosen.read(document)
