"""The profile's sections ``samples`` and ``statistics``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dagprofiler._document.rounds import ALLOCATION, COLD, MEASURED
from dagprofiler.stats import CONFIDENCE, flags, summarize

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Optional, Union

    #: One quantity, an entry a round; null where it was not measured.
    Samples = Sequence[Optional[Union[int, float]]]


def rounded(value: Any) -> Any:
    """Return a time to the nanosecond; whole numbers and None as they are."""
    return round(value, 6) if type(value) is float else value


def statistics_of(samples: Mapping[str, Any], differing: Iterable[str] = ()) -> dict[str, Any]:
    """Return the section ``statistics`` of a section ``samples``.

    Parameters
    ----------
    differing
        Tasks whose outputs differed between rounds.
    """
    kinds = samples["rounds"]
    section: dict[str, Any] = {"confidence": CONFIDENCE}
    totals = measured_of(kinds, samples["total_ms"])
    if totals:
        section["total_ms"] = _summary("total_ms", totals)
    section["tasks"] = _summaries(kinds, samples["tasks"])
    section["edges"] = _summaries(kinds, samples["edges"])
    if COLD in kinds:
        first = kinds.index(COLD)
        section["cold_ms"] = {
            name: columns["wall_ms"][first] for name, columns in samples["tasks"].items()
        }
    differ = set(differing)
    raised = {
        name: _flags(kinds, columns, outputs_differ=name in differ)
        for name, columns in samples["tasks"].items()
    }
    section["flags"] = {
        name: flags_of_task for name, flags_of_task in raised.items() if flags_of_task
    }
    return section


def measured_of(kinds: Sequence[str], column: Samples) -> list[Any]:
    """Return the measured values of a column, without warm-up and nulls."""
    return [v for kind, v in zip(kinds, column) if kind == MEASURED and v is not None]


def _summaries(kinds: Sequence[str], rows: Mapping[str, Mapping[str, Samples]]) -> dict[str, Any]:
    summaries = {}
    for name, columns in rows.items():
        measured = {
            column: measured_of(counting(kinds, column), values)
            for column, values in columns.items()
        }
        summaries[name] = {column: _summary(column, v) for column, v in measured.items() if v}
    return summaries


def counting(kinds: Sequence[str], column: str) -> Sequence[str]:
    """Return the kinds of rounds, with those that count for a column as measured."""
    if column != "allocation_bytes":
        return kinds
    return [MEASURED if kind == ALLOCATION else kind for kind in kinds]


def _summary(column: str, values: Sequence[float]) -> dict[str, Any]:
    summary = summarize(values)._asdict()
    if not column.endswith("_ms"):
        # The resolution of a user's meter is unknown.
        return summary
    return {name: rounded(value) for name, value in summary.items()}


def _flags(
    kinds: Sequence[str], columns: Mapping[str, Samples], *, outputs_differ: bool
) -> list[str]:
    wanted = ("wall_ms", "corrected_ms", "delay_ms", "cpu_ms", "process_cpu_ms")
    measured = {
        name: [v for kind, v in zip(kinds, columns[name]) if kind == MEASURED]
        for name in wanted
        if name in columns
    }
    return flags(**measured, outputs_differ=outputs_differ)
