"""The makespan of a run: its parts, which add up to it."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import merge
from typing import Any

from dagprofiler._document import ProfileData
from dagprofiler._document.rounds import MEASURED
from dagprofiler._document.table import timeline_rows
from dagprofiler.stats import median

#: Parts of the makespan, and what they are.
PARTS = {
    "tasks": "compute() of the tasks",
    "cores": "waits for a core, where measured; simulated ones are in tasks",
    "transfers": "serializing and deserializing",
    "engine": "workers without work although tasks were ready",
    "waiting": "workers without work and without ready tasks",
}

_MOMENTS = (
    *("ready_ms", "deserialize_start_ms"),
    *("compute_start_ms", "compute_end_ms", "serialize_end_ms"),
)


def parts_of(profile: ProfileData, workers: int) -> dict[str, float] | None:
    """Return the parts of the makespan of the median round, in milliseconds.

    A round has at least `workers`, since those without a task are in no record.
    """
    samples = profile.sections.get("samples", {"tasks": {}})
    kinds = samples.get("rounds")
    rounds: dict[int, list[Sequence[float]]] = {}
    busy: dict[int, set[int]] = {}
    for row in timeline_rows(profile):
        moments: list[Any] = [row.get(name) for name in _MOMENTS]
        if None not in moments and (kinds is None or kinds[row["round"]] == MEASURED):
            delays = samples["tasks"].get(row["task"], {}).get("delay_ms")
            delay_ms = (delays[row["round"]] if delays else None) or 0.0
            rounds.setdefault(row["round"], []).append([*moments, delay_ms])
            busy.setdefault(row["round"], set()).add(row["worker"])
    if not rounds:
        return None
    split = [_split(rows, max(workers, len(busy[n]))) for n, rows in rounds.items()]
    middle = median([sum(parts.values()) for parts in split])
    return min(split, key=lambda parts: abs(sum(parts.values()) - middle))


def _split(rows: Sequence[Sequence[float]], workers: int) -> dict[str, float]:
    """Return the parts of one round: the time of all workers, divided by their number."""
    begin, end = min(row[0] for row in rows), max(row[4] for row in rows)
    spent: dict[str, float] = {
        "tasks": sum(row[3] - row[2] - row[5] for row in rows),
        "cores": sum(row[5] for row in rows),
        "transfers": sum((row[2] - row[1]) + (row[4] - row[3]) for row in rows),
    }
    # Steps of the number of tasks that are ready and wait, and of workers that work.
    waits = sorted([(row[0], 1, 0) for row in rows] + [(row[1], -1, 0) for row in rows])
    works = sorted([(row[1], 0, 1) for row in rows] + [(row[4], 0, -1) for row in rows])
    engine, ready, working, at = 0.0, 0, 0, begin
    for moment, waiting, busy in merge(waits, works):
        engine += (moment - at) * min(max(0, ready), max(0, workers - working))
        at, ready, working = moment, ready + waiting, working + busy
    idle = workers * (end - begin) - sum(spent.values())
    spent.update(engine=engine, waiting=idle - engine)
    return {part: time_ms / workers for part, time_ms in spent.items()}
