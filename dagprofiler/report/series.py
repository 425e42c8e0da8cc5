"""What was measured round by round: samples, and the timeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dagprofiler.report.figures import label_of, unit_of
from dagprofiler.rounds import MEASURED
from dagprofiler.statistics import median

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dagprofiler.report.subject import Subject

__all__ = ["samples", "timeline"]

#: Values that a page holds at most, unless the times alone are more.
_SAMPLES = 400_000

#: Records of a timeline that a page holds at most, unless a single round has more.
_RECORDS = 60_000

_PHASES = ("deserialize", "compute", "serialize")

#: Statistics that are shown of a task's times.
_STATISTICS = ("median", "low", "high", "coverage", "mad", "min", "n")


def samples(subject: Subject) -> dict[str, Any] | None:
    """Return the samples of tasks by column, those of times first; None if there are none."""
    section = subject.sections.get("samples")
    if section is None:
        return None
    rows, rounds = section["tasks"], section["rounds"]
    keys = list(dict.fromkeys(key for row in rows.values() for key in row))
    keys.sort(key=lambda key: key not in ("corrected_ms", "wall_ms"))
    if "corrected_ms" in keys:
        keys.remove("corrected_ms")
        keys.insert(0, "corrected_ms")
    columns: list[dict[str, Any]] = []
    left_out, room = [], _SAMPLES
    for key in keys:
        values = [rows.get(name, {}).get(key) for name in subject.names]
        taken = [v for row in values if row for v in row]
        if not any(taken):
            continue
        if columns and len(taken) > room:
            left_out.append(label_of(key))
            continue
        room -= len(taken)
        columns.append({"key": key, "label": label_of(key), "unit": unit_of(key), "rows": values})
    statistics = subject.sections.get("statistics", {}).get("tasks", {})
    first = columns[0]["key"] if columns else ""
    return {
        "rounds": rounds,
        "total_ms": section.get("total_ms"),
        "columns": columns,
        "left_out": left_out,
        "statistics": {
            what: [statistics.get(name, {}).get(first, {}).get(what) for name in subject.names]
            for what in _STATISTICS
        },
    }


def timeline(subject: Subject) -> dict[str, Any] | None:
    """Return when the phases of tasks began and ended, in columns; None if nothing is known."""
    section = subject.sections.get("timeline")
    if section is None:
        return None
    place = {name: i for i, name in enumerate(section["columns"])}
    phases = [
        (phase, place[f"{phase}_start_ms"], place[f"{phase}_end_ms"])
        for phase in _PHASES
        if {f"{phase}_start_ms", f"{phase}_end_ms"} <= place.keys()
    ]
    began = [
        record
        for record in section["records"]
        if any(record[start] is not None for _, start, _ in phases)
    ]
    if not began:
        return None
    rounds = sorted({record[1] for record in began})
    typical = _typical(subject, rounds)
    most = max(1, _RECORDS * len(rounds) // len(began))
    # Those round the typical one in the order of their times are dropped last.
    shown = set(sorted(rounds, key=typical.index)[:most])
    kept = [record for record in began if record[1] in shown]
    kinds = subject.sections.get("samples", {}).get("rounds", ())
    ready = place.get("ready_ms")
    return {
        "workers": _workers(section["workers"]),
        "rounds": [[n, kinds[n] if n < len(kinds) else ""] for n in rounds if n in shown],
        "first": typical[0],
        "left_out": len(rounds) - len(shown),
        "task": [subject.numbers[record[0]] for record in kept],
        "round": [record[1] for record in kept],
        "worker": [record[2] for record in kept],
        "ready": [None if ready is None else record[ready] for record in kept],
        "phases": [
            [phase, [record[start] for record in kept], [record[end] for record in kept]]
            for phase, start, end in phases
        ],
    }


def _typical(subject: Subject, rounds: Sequence[int]) -> list[int]:
    """Return the rounds, measured ones of a time near the median first."""
    section = subject.sections.get("samples", {})
    kinds: Sequence[str] = section.get("rounds", ())
    totals: Sequence[float | None] = section.get("total_ms", ())
    times = {n: totals[n] for n in rounds if n < len(totals) and totals[n] is not None}
    measured = [n for n in times if kinds[n] == MEASURED]
    if not measured:
        return list(rounds)
    middle = median([times[n] or 0 for n in measured])

    def distance(n: int) -> tuple[bool, bool, float]:
        time = times.get(n)
        return (n not in measured, time is None, abs((time or 0) - middle))

    return sorted(rounds, key=distance)


def _workers(workers: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what each worker is, without what all have in common."""
    if len(workers) == 1:
        return ["the only worker"]
    telling = [
        key
        for key in ("host", "pid", "thread")
        if len({str(worker.get(key)) for worker in workers}) > 1
    ]
    return [
        ", ".join(f"{key} {worker.get(key, 'unknown')}" for key in telling) or f"worker {number}"
        for number, worker in enumerate(workers)
    ]
