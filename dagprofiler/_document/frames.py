"""frames_of(): a profile as tidy data frames of pandas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from dagprofiler._document.table import edge_table, span_rows, task_table, timeline_rows
from dagprofiler.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dagprofiler._document import ProfileData
    from dagprofiler._document.table import ProfileTable


class Frames(NamedTuple):
    """The data frames of a profile; those of missing sections are empty.

    Attributes
    ----------
    tasks, edges
        A row for each; columns as :attr:`Profile.tasks <dagprofiler.Profile.tasks>` and
        :attr:`Profile.edges <dagprofiler.Profile.edges>`. ``frame.attrs["units"]`` maps columns
        to units.
    samples
        A row for each value that was measured: ``task`` (or ``source`` and ``target``),
        ``quantity``, ``round``, ``kind`` of the round, ``value``.
    timeline
        A row for each task and round.
    spans
        A row for each span.
    """

    tasks: Any
    edges: Any
    samples: Any
    timeline: Any
    spans: Any


def frames_of(profile: ProfileData) -> Frames:
    """Return a profile as data frames; see :meth:`dagprofiler.Profile.to_pandas`."""
    try:
        import pandas as pd
    except ImportError as error:
        raise MissingExtraError("Profile.to_pandas()", "pandas") from error

    def of_table(table: ProfileTable) -> Any:
        frame = pd.DataFrame({key: table[key] for key in table.columns})
        frame.attrs["units"] = {
            key: column.unit for key, column in table.columns.items() if column.unit
        }
        return frame

    return Frames(
        of_table(task_table(profile)),
        of_table(edge_table(profile)),
        pd.DataFrame(_samples(profile), columns=_SAMPLE),
        pd.DataFrame(list(timeline_rows(profile))),
        pd.DataFrame(list(span_rows(profile))),
    )


_SAMPLE = ["task", "source", "target", "quantity", "round", "kind", "value"]


def _samples(profile: ProfileData) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of the frame of samples."""
    section = profile.sections.get("samples", {})
    kinds = section.get("rounds", ())
    pairs = {f"{e['source']}->{e['target']}": e for e in profile.dag_structure["edges"]}
    for part in ("tasks", "edges"):
        for name, columns in section.get(part, {}).items():
            edge = pairs[name] if part == "edges" else {}
            ends = None if edge else name, edge.get("source"), edge.get("target")
            for quantity, values in columns.items():
                for i, value in enumerate(values):
                    if value is not None:
                        yield *ends, quantity, i, kinds[i], value
