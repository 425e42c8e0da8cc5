"""The samples of a run's rounds and their statistics, as sections of the profile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dagprofiler.readings import phase_s
from dagprofiler.rounds import ALLOCATION, COLD, MEASURED
from dagprofiler.statistics import CONFIDENCE, corrected, flags, median, summarize

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Optional, Union

    from dagprofiler.readings import RoundLog
    from dagprofiler.records import RunLog

    #: One quantity, an entry a round; null where it was not measured.
    Samples = Sequence[Optional[Union[int, float]]]

__all__ = [
    "counting",
    "differing_outputs",
    "is_precise",
    "measured_of",
    "samples_of",
    "statistics_of",
]

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
                None if wall is None else _rounded(corrected(wall, delay, cpu))
                for wall, delay, cpu in zip(columns["wall_ms"], columns["delay_ms"], cpu_ms)
            ]
        tasks[names[i]] = columns
    return {
        "rounds": [one.kind for one in rounds],
        "total_ms": [
            _rounded(one.total_s * 1e3) if one is not None and one.complete else None
            for one in timed
        ],
        "tasks": tasks,
        "edges": _edge_samples(log, timed),
    }


def _phase_ms(one: RoundLog | None, start: int, count: int) -> list[float | None]:
    if one is None:
        return [None] * count
    return [None if s is None else _rounded(s * 1e3) for s in phase_s(one, start)]


def _metered(rounds: Sequence[RoundLog], i: int) -> dict[str, list[Any]]:
    """Return the meters' columns of task number `i`."""
    names = dict.fromkeys(column for one in rounds for column in one.columns)
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for one in rounds:
        read = dict(zip(one.columns, one.meters.get(i, ()))) if one.succeeded(i) else {}
        for name, column in columns.items():
            value = read.get(name)
            column.append(_rounded(value) if name.endswith("_ms") else value)
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
    return None if None in values else _rounded(sum(values) * 1e3)  # type: ignore[arg-type]


def _rounded(value: Any) -> Any:
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
    section["flags"] = {name: found for name, found in raised.items() if found}
    return section


def measured_of(kinds: Sequence[str], column: Samples) -> list[Any]:
    """Return what was measured in a column: neither warm-up, nor null."""
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
    """Return the rounds with those that count for a column as measured."""
    if column != "allocation_bytes":
        return kinds
    return [MEASURED if kind == ALLOCATION else kind for kind in kinds]


def _summary(column: str, values: Sequence[float]) -> dict[str, Any]:
    summary = summarize(values)._asdict()
    if not column.endswith("_ms"):
        # How fine a user's meter is, only its user knows.
        return summary
    return {name: _rounded(value) for name, value in summary.items()}


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
