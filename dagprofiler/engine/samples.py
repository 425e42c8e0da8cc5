"""The section ``samples`` of a run's rounds, and the precision that they have reached."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dagprofiler._document.rounds import ALLOCATION
from dagprofiler._document.samples import rounded
from dagprofiler.engine.log import phase_s
from dagprofiler.stats import corrected, median, summarize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dagprofiler.engine.log import RoundLog, RunLog


#: Least share of the total time of a task whose precision decides the number of rounds.
_WEIGHTY = 0.01


_PHASES = {"deserialize_ms": 0, "wall_ms": 2, "serialize_ms": 4}


def samples_of(log: RunLog) -> dict[str, Any]:
    """Return the section ``samples``: every measured value, in the order of the rounds."""
    rounds, names = log.rounds, log.wiring.names
    timed = [None if round_log.kind == ALLOCATION else round_log for round_log in rounds]
    phases = {
        column: list(zip(*(_phase_ms(round_log, start, len(names)) for round_log in timed)))
        for column, start in _PHASES.items()
    }
    tasks = {}
    for i in log.wiring.order:
        columns = {column: list(by_task[i]) for column, by_task in phases.items()}
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
            if round_log is not None and round_log.complete
            else None
            for round_log in timed
        ],
        "tasks": tasks,
        "edges": _edge_samples(log, timed),
    }


def _phase_ms(round_log: RoundLog | None, start: int, count: int) -> list[float | None]:
    if round_log is None:
        return [None] * count
    return [None if s is None else rounded(s * 1e3) for s in phase_s(round_log, start)]


def _metered(rounds: Sequence[RoundLog], i: int) -> dict[str, list[Any]]:
    """Return the meters' columns of task number `i`."""
    names = dict.fromkeys(column for round_log in rounds for column in round_log.columns)
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for round_log in rounds:
        read = (
            dict(zip(round_log.columns, round_log.meters.get(i, ())))
            if round_log.succeeded(i)
            else {}
        )
        for name, column in columns.items():
            value = read.get(name)
            column.append(rounded(value) if name.endswith("_ms") else value)
    return columns


def _edge_samples(log: RunLog, timed: Sequence[RoundLog | None]) -> dict[str, Any]:
    """Return for each edge its times and sizes, with one entry a round."""
    wiring, names = log.wiring, log.wiring.names
    count = len(names)
    inputs_of: dict[int, list[int]] = {}
    for target in range(count):
        for k in range(wiring.first_input[target], wiring.first_input[target + 1]):
            edge = wiring.owner[wiring.slots[k]] * count + target
            inputs_of.setdefault(edge, []).append(k)
    edges = {}
    for source, target, routes in wiring.edges():
        slots = [wiring.first_slot[source] + position for position, _ in routes]
        inputs = inputs_of.get(source * count + target, [])
        columns: dict[str, list[Any]] = {
            name: [] for name in ("serialize_ms", "deserialize_ms", "size_bytes", "wire_bytes")
        }
        for round_log in timed:
            if round_log is None or not round_log.succeeded(source):
                for column in columns.values():
                    column.append(None)
                continue
            wire, payload = round_log.wire_bytes, round_log.payload_bytes
            columns["serialize_ms"].append(_sum_ms(round_log.encode_s, slots))
            arrived = round_log.succeeded(target)
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
    names = log.wiring.names
    seen: dict[int, set[bytes]] = {}
    for round_log in log.rounds:
        for i, digest in round_log.digests.items():
            seen.setdefault(i, set()).add(digest)
    return [names[i] for i in sorted(seen) if len(seen[i]) > 1]


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
    read = dict(zip(round_log.columns, round_log.meters.get(i, ())))
    wall_ms = (wall_s or 0.0) * 1e3
    without = corrected(wall_ms, read.get("delay_ms"), read.get("cpu_ms"))
    return (wall_ms if without is None else without) / 1e3
