"""Exporters: a profile as text in the formats of schedulers, viewers and other tools."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from dagprofiler.registry import EXPORTERS, formats, load

if TYPE_CHECKING:
    from dagprofiler.profile import Profile

__all__ = ["Export", "Exporter", "exporter", "exporter_names"]


@dataclass(frozen=True)
class Export:
    """A profile in another format.

    Attributes
    ----------
    text
        What goes into the file.
    losses
        What the profile holds and the format cannot, in words; a sentence each.
    """

    text: str
    losses: tuple[str, ...] = ()


class Exporter(Protocol):
    r"""Renders profiles in one format.

    An exporter sees a profile and nothing of how it came to be. It is found by
    the entry point of its name in the group ``dagprofiler.exporters``, which
    stands for an instance.

    Attributes
    ----------
    name
        Of the format, as ``profile.export(path, format=name)`` takes it.
    extension
        How names of its files end, in lower case, with the dot: ``".dot"``.

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
    found: Exporter = load(EXPORTERS, name)
    return found


def exporter_names() -> list[str]:
    """Return the names of all formats that profiles can be exported to."""
    return formats(EXPORTERS)
