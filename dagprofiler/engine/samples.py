"""The section ``samples``, made from the rounds of a run, and what a run asks of it meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dagprofiler._document.rounds import ALLOCATION
from dagprofiler._document.samples import rounded
from dagprofiler.engine.log import phase_s
from dagprofiler.stats.summary import corrected, median, summarize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dagprofiler.engine.log import RoundLog, RunLog


#: Share of the total from which on a task decides whether there are rounds enough.
_WEIGHTY = 0.01


_PHASES = {"deserialize_ms": 0, "wall_ms": 2, "serialize_ms": 4}


def samples_of(log: RunLog) -> dict[str, Any]:
    """Return the section ``samples``: every value that was measured, in the order of the rounds."""
    rounds, names = log.rounds, log.wiring.names
    timed = [None if one.kind == ALLOCATION else one for one in rounds]
    phases = {
        column: list(zip(*(_phase_ms(one, start, len(names)) for one in timed)))
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
        "rounds": [one.kind for one in rounds],
        "total_ms": [
            rounded(one.total_s * 1e3) if one is not None and one.complete else None
            for one in timed
        ],
        "tasks": tasks,
        "edges": _edge_samples(log, timed),
    }


def _phase_ms(one: RoundLog | None, start: int, count: int) -> list[float | None]:
    if one is None:
        return [None] * count
    return [None if s is None else rounded(s * 1e3) for s in phase_s(one, start)]


def _metered(rounds: Sequence[RoundLog], i: int) -> dict[str, list[Any]]:
    """Return the meters' columns of task number `i`."""
    names = dict.fromkeys(column for one in rounds for column in one.columns)
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for one in rounds:
        read = dict(zip(one.columns, one.meters.get(i, ()))) if one.succeeded(i) else {}
        for name, column in columns.items():
            value = read.get(name)
            column.append(rounded(value) if name.endswith("_ms") else value)
    return columns


def _edge_samples(log: RunLog, timed: Sequence[RoundLog | None]) -> dict[str, Any]:
    """Return for each edge its times and sizes, an entry a round."""
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
        for one in timed:
            if one is None or not (one.succeeded(source) and one.has_edge(source, target)):
                for column in columns.values():
                    column.append(None)
                continue
            wire, payload = one.wire_bytes, one.payload_bytes
            columns["serialize_ms"].append(_sum_ms(one.encode_s, slots))
            arrived = one.succeeded(target)
            columns["deserialize_ms"].append(_sum_ms(one.decode_s, inputs) if arrived else None)
            columns["size_bytes"].append(sum(payload.get(slot, wire[slot]) for slot in slots))
            columns["wire_bytes"].append(sum(wire[slot] for slot in slots))
        edges[f"{names[source]}->{names[target]}"] = columns
    return edges


def _sum_ms(seconds: Sequence[float | None], positions: Sequence[int]) -> float | None:
    """Return the sum of some entries; None where one is missing or the round had no clock there."""
    if positions and not seconds:
        return None
    values = [seconds[position] for position in positions]
    return None if None in values else rounded(sum(values) * 1e3)  # type: ignore[arg-type]


def differing_outputs(log: RunLog) -> list[str]:
    """Return the tasks whose outputs, as serialized, were not the same in all rounds."""
    names = log.wiring.names
    seen: dict[int, set[bytes]] = {}
    for one in log.rounds:
        for i, digest in one.digests.items():
            seen.setdefault(i, set()).add(digest)
    return [names[i] for i in sorted(seen) if len(seen[i]) > 1]


def is_precise(log: RunLog, precision: float) -> bool:
    """Tell whether the medians of all weighty tasks are known to plus or minus `precision`."""
    rounds = log.measured()
    by_task = []
    for i, walls in enumerate(zip(*(phase_s(one, 2) for one in rounds))):
        times = [
            _corrected_s(one, i, wall)
            for one, wall in zip(rounds, walls)
            if one.growth is None or i not in one.growth.absent
        ]
        if times:
            by_task.append(times)
    medians = [median(times) for times in by_task]
    # Where no task weighs that much, the heaviest decide.
    least = min(_WEIGHTY * sum(medians), max(medians, default=0.0))
    return all(
        summarize(times).half_width <= precision
        for times, middle in zip(by_task, medians)
        if middle >= least
    )


def _corrected_s(one: RoundLog, i: int, wall_s: float | None) -> float:
    """Return a time in compute() without run-queue delay, where that was metered."""
    read = dict(zip(one.columns, one.meters.get(i, ())))
    wall_ms = (wall_s or 0.0) * 1e3
    without = corrected(wall_ms, read.get("delay_ms"), read.get("cpu_ms"))
    return (wall_ms if without is None else without) / 1e3
