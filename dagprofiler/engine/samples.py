"""Samples: what was measured in each of several rounds, and how well its medians are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dagprofiler._document.rounds import ALLOCATION, PLAIN, rounded
from dagprofiler.engine.log import RoundLog, RunLog, phase_s
from dagprofiler.stats import corrected, median, summarize

#: Least share of the total time of a task whose precision decides the number of rounds.
_WEIGHTY = 0.01

#: Column of samples to the first of the two readings of the clock around that phase.
_PHASES = {"deserialize_ms": 0, "wall_ms": 2, "serialize_ms": 4}


def samples_of(log: RunLog) -> dict[str, Any] | None:
    """Return the section ``samples``: every measured value, in the order of the rounds.

    None for a plain run: a single round without meters and conditions.
    """
    metered = any(round_log.columns for round_log in log.rounds)
    if not log.rounds or not (metered or len(log.rounds) > 1 or log.conditions not in PLAIN):
        return None
    rounds, names = log.rounds, log.wiring.names
    phases = {
        column: [_phase_ms(round_log, start, len(names)) for round_log in rounds]
        for column, start in _PHASES.items()
    }
    tasks = {}
    for i in log.wiring.order:
        columns = {column: [times[i] for times in by_round] for column, by_round in phases.items()}
        columns.update(_metered(rounds, i))
        if "delay_ms" in columns:
            cpu_ms = columns.get("cpu_ms", [None] * len(rounds))
            columns["corrected_ms"] = [
                None if wall is None else rounded(corrected(wall, delay, cpu))
                for wall, delay, cpu in zip(columns["wall_ms"], columns["delay_ms"], cpu_ms)
            ]
        tasks[names[i]] = columns
    return {
        "rounds": [round_log.kind for round_log in rounds],
        "total_ms": [
            rounded(round_log.total_s * 1e3)
            if _is_timed(round_log) and round_log.complete
            else None
            for round_log in rounds
        ],
        "tasks": tasks,
        "edges": _edge_samples(log),
    }


def _is_timed(round_log: RoundLog) -> bool:
    """Tell whether the times of a round count: tracing allocations slows all tasks down."""
    return round_log.kind != ALLOCATION


def _phase_ms(round_log: RoundLog, start: int, count: int) -> list[float | None]:
    if not _is_timed(round_log):
        return [None] * count
    return [None if s is None else rounded(s * 1e3) for s in phase_s(round_log, start)]


def _metered(rounds: Sequence[RoundLog], i: int) -> dict[str, list[Any]]:
    """Return the meters' columns of task number `i`."""
    names = dict.fromkeys(column for round_log in rounds for column in round_log.columns)
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for round_log in rounds:
        readings = round_log.meters_of(i) if round_log.succeeded(i) else {}
        for name, column in columns.items():
            value = readings.get(name)
            column.append(rounded(value) if name.endswith("_ms") else value)
    return columns


def _edge_samples(log: RunLog) -> dict[str, Any]:
    """Return for each edge its times and sizes, with one entry a round."""
    wiring, names = log.wiring, log.wiring.names
    inputs_of: dict[tuple[int, int], list[int]] = {}
    for target in range(len(names)):
        for k in range(wiring.first_input[target], wiring.first_input[target + 1]):
            inputs_of.setdefault((wiring.owner[wiring.slots[k]], target), []).append(k)
    edges = {}
    for source, target, routes in wiring.edges():
        slots = [wiring.first_slot[source] + position for position, _ in routes]
        inputs = inputs_of.get((source, target), [])
        columns: dict[str, list[Any]] = {
            name: [] for name in ("serialize_ms", "deserialize_ms", "size_bytes", "wire_bytes")
        }
        for round_log in log.rounds:
            if not _is_timed(round_log) or not round_log.succeeded(source):
                for column in columns.values():
                    column.append(None)
                continue
            wire, payload = round_log.wire_bytes, round_log.payload_bytes
            arrived = round_log.succeeded(target)
            columns["serialize_ms"].append(_sum_ms(round_log.encode_s, slots))
            columns["deserialize_ms"].append(
                _sum_ms(round_log.decode_s, inputs) if arrived else None
            )
            columns["size_bytes"].append(sum(payload.get(slot, wire[slot]) for slot in slots))
            columns["wire_bytes"].append(sum(wire[slot] for slot in slots))
        edges[f"{names[source]}->{names[target]}"] = columns
    return edges


def _sum_ms(seconds: Sequence[float | None], positions: Sequence[int]) -> float | None:
    """Return the sum of some entries; None if one is missing or the round did not time them."""
    if positions and not seconds:
        return None
    values = [seconds[position] for position in positions]
    return None if None in values else rounded(sum(values) * 1e3)  # type: ignore[arg-type]


def differing_outputs(log: RunLog) -> list[str]:
    """Return the tasks whose serialized outputs differed between rounds."""
    digests_of: dict[int, set[bytes]] = {}
    for round_log in log.rounds:
        for i, digest in round_log.digests.items():
            digests_of.setdefault(i, set()).add(digest)
    return [log.wiring.names[i] for i in sorted(digests_of) if len(digests_of[i]) > 1]


def is_precise(log: RunLog, precision: float) -> bool:
    """Tell whether the medians of all weighty tasks are known to plus or minus `precision`."""
    rounds = log.measured()
    by_task = []
    for i, walls in enumerate(zip(*(phase_s(round_log, 2) for round_log in rounds))):
        by_task.append([_corrected_s(log, i, wall) for log, wall in zip(rounds, walls)])
    medians = [median(times) for times in by_task]
    # If no task has that share, the longest tasks decide.
    least = min(_WEIGHTY * sum(medians), max(medians, default=0.0))
    return all(
        summarize(times).half_width <= precision
        for times, middle in zip(by_task, medians)
        if middle >= least
    )


def _corrected_s(round_log: RoundLog, i: int, wall_s: float | None) -> float:
    """Return a time in compute() without run-queue delay, if that was metered."""
    readings = round_log.meters_of(i)
    wall_ms = (wall_s or 0.0) * 1e3
    without = corrected(wall_ms, readings.get("delay_ms"), readings.get("cpu_ms"))
    return (wall_ms if without is None else without) / 1e3
