"""Where the workers' time goes until the makespan, and what a prediction missed of it."""

from __future__ import annotations

from heapq import merge
from typing import TYPE_CHECKING, Any

from dagprofiler._document.rounds import MEASURED
from dagprofiler.stats.summary import median

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dagprofiler._document import ProfileData

#: Parts of the makespan, and what they are.
PARTS = {
    "tasks": "compute() of the tasks",
    "transfers": "serializing and deserializing",
    "engine": "workers without work although tasks were ready",
    "waiting": "workers without work and without ready tasks",
}

_MOMENTS = (
    *("ready_ms", "deserialize_start_ms"),
    *("compute_start_ms", "compute_end_ms", "serialize_end_ms"),
)


def prediction_error(real: ProfileData, predicted: ProfileData) -> dict[str, Any] | None:
    """Return how far a predicted makespan is from the real one, and which parts differ.

    Returns
    -------
    dict or None
        ``real_ms`` and ``predicted_ms``; ``error``, their difference relative to the real one;
        ``parts``: for each part of the makespan its ``real_ms``, ``predicted_ms`` and its
        contribution to the error. None if a profile has no timeline.

    Notes
    -----
    Each moment of each worker belongs to one part, so a makespan is the sum of the parts over
    all workers, divided by their number. Of several rounds that of the median counts.
    """
    workers = len(_timeline(predicted, "workers"))
    there, guessed = _parts(real, workers), _parts(predicted, workers)
    if there is None or guessed is None:
        return None
    real_ms, predicted_ms = sum(there.values()), sum(guessed.values())
    return {
        "real_ms": round(real_ms, 6),
        "predicted_ms": round(predicted_ms, 6),
        "error": (predicted_ms - real_ms) / real_ms if real_ms else 0.0,
        "parts": {
            part: {
                "real_ms": round(there[part], 6),
                "predicted_ms": round(guessed[part], 6),
                "error": (guessed[part] - there[part]) / real_ms if real_ms else 0.0,
            }
            for part in PARTS
        },
    }


def _timeline(profile: ProfileData, part: str) -> Sequence[Any]:
    found: Sequence[Any] = profile.sections.get("timeline", {}).get(part, ())
    return found


def _parts(profile: ProfileData, workers: int) -> dict[str, float] | None:
    """Return the parts of the makespan of the median round, in milliseconds.

    A round has at least `workers`, since those without a task are in no record.
    """
    columns = _timeline(profile, "columns")
    if not {*_MOMENTS}.issubset(columns):
        return None
    places = [columns.index(name) for name in _MOMENTS]
    kinds = profile.sections.get("samples", {}).get("rounds")
    rounds: dict[int, list[Sequence[float]]] = {}
    busy: dict[int, set[int]] = {}
    for row in _timeline(profile, "records"):
        moments = [row[place] for place in places]
        if None not in moments and (kinds is None or kinds[row[1]] == MEASURED):
            rounds.setdefault(row[1], []).append(moments)
            busy.setdefault(row[1], set()).add(row[2])
    if not rounds:
        return None
    split = [_split(rows, max(workers, len(busy[n]))) for n, rows in rounds.items()]
    middle = median([sum(parts.values()) for parts in split])
    return min(split, key=lambda parts: abs(sum(parts.values()) - middle))


def _split(rows: Sequence[Sequence[float]], workers: int) -> dict[str, float]:
    """Return the parts of one round: the time of all workers, divided by their number."""
    begin, end = min(row[0] for row in rows), max(row[4] for row in rows)
    spent: Mapping[str, float] = {
        "tasks": sum(row[3] - row[2] for row in rows),
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
    return {
        "tasks": spent["tasks"] / workers,
        "transfers": spent["transfers"] / workers,
        "engine": engine / workers,
        "waiting": (idle - engine) / workers,
    }
