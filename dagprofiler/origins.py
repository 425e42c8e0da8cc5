"""How a graph grew, as a section of the profile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dagprofiler.rendering import Columns, Table, batched

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dagprofiler.readings import Growth
    from dagprofiler.records import RunLog

__all__ = ["ORIGIN_COLUMNS", "origins_of"]

ORIGIN_COLUMNS = ("task", "round", "rule", "at_ms")


def origins_of(log: RunLog) -> dict[str, Any]:
    """Return the section ``origins``, its table as rows yet to be made."""
    grown = [(number, one.growth) for number, one in enumerate(log.rounds) if one.growth]
    section: dict[str, Any] = {
        "columns": list(ORIGIN_COLUMNS),
        "records": Table(_added(log, grown)),
        "fired": [
            {
                "round": number,
                "rule": firing.rule,
                "at_ms": log.since_start_ms([firing.at_s])[0],
                "tasks": len(firing.tasks),
            }
            for number, growth in grown
            for firing in growth.firings
        ],
        "never_fired": [
            {"round": number, "rule": rule, "reason": why}
            for number, growth in grown
            for rule, why in growth.unfired.items()
        ],
    }
    names = log.wiring.names
    missing = [
        {
            "round": number,
            "tasks": [names[i] for i in sorted(growth.absent)],
            "edges": [[names[i] for i in edge] for edge in sorted(growth.lacking)],
        }
        for number, growth in grown
        if growth.absent or growth.lacking
    ]
    if missing:
        section["missing"] = missing
    return section


def _added(log: RunLog, grown: list[tuple[int, Growth]]) -> Iterator[Columns]:
    """Yield the rows of the tasks that rules added, round by round."""
    names = log.wiring.names
    for number, growth in grown:
        for firing in growth.firings:
            at_ms = log.since_start_ms([firing.at_s])[0]
            for tasks in batched(firing.tasks):
                yield Columns(
                    [
                        [names[i] for i in tasks],
                        [number] * len(tasks),
                        [firing.rule] * len(tasks),
                        [at_ms] * len(tasks),
                    ]
                )
