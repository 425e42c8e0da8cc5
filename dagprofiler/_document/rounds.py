"""Rounds: how often a DAG is run, under which conditions, and statistics of their samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from dagprofiler._util import JsonObject
from dagprofiler._util.checks import boolean, choice, integer, number
from dagprofiler.errors import refused
from dagprofiler.stats import CONFIDENCE, FEWEST_ROUNDS, Column, flags, summarize

#: Kinds of rounds. Figures come from the measured ones.
COLD, WARM_UP, MEASURED, ALLOCATION = "cold", "warm_up", "measured", "allocation"

#: The columns of the timeline after task, round and worker, in the order of time.
MOMENTS = (
    "ready_ms",
    *("deserialize_start_ms", "deserialize_end_ms"),
    *("compute_start_ms", "compute_end_ms"),
    *("serialize_start_ms", "serialize_end_ms"),
)


@dataclass(frozen=True)
class Rounds:
    """How often a DAG is run, and under which conditions.

    Parameters
    ----------
    n
        Number of measured rounds; ``"auto"`` takes at least 6, and as many as
        `precision` needs.
    warmup
        Number of rounds before them that do not count; the first is kept as
        ``cold``: the cost of the first round of this run, which is that of a
        cold process only if nothing ran there before. By default 2; 0 before
        a single round and with `fresh_process`.
    max_rounds, max_time_s
        ``"auto"`` ends after this number of measured rounds or seconds, but not
        before the sixth round.
    precision
        ``"auto"`` ends when, for each task that takes at least 1 % of the
        time, the 95 % interval lies within plus or minus this fraction of the
        median: 0.05 is 5 %.
    collect_garbage
        ``"rounds"``: between rounds. ``"tasks"``: also before each task, which
        costs in proportion to all live objects (``overhead.garbage_ms``
        has the time). None: the collector runs as usual.
    fresh_process
        Whether each round runs in a new process.
    busy_cores
        Number of other cores that are kept busy during the run.
    check_outputs
        Whether to compare a hash of the serialized outputs of each task
        between rounds; tasks that differ are flagged.

    Raises
    ------
    ValidationError
        If a value is out of range, or too few rounds are allowed for an interval.

    Notes
    -----
    Whole rounds are repeated, since a task in a loop finds its data in the
    cache, and in one process, since starting a process costs more than most
    DAGs: times in fresh processes vary two to four times as much.

    Examples
    --------
    >>> Rounds("auto", precision=0.02).max_rounds
    30
    >>> Rounds(10).warmup, Rounds(10, fresh_process=True).warmup
    (2, 0)
    """

    n: int | str = "auto"
    warmup: int | None = None
    max_rounds: int = 30
    max_time_s: float = 30.0
    precision: float = 0.05
    collect_garbage: str | None = "rounds"
    fresh_process: bool = False
    busy_cores: int = 0
    check_outputs: bool = False

    def __post_init__(self) -> None:
        checked: JsonObject = {}
        if not (isinstance(self.n, str) and self.n == "auto"):
            checked["n"] = integer("Rounds: n", self.n, 1, other="'auto'")
        for name, least in (("max_rounds", 1), ("busy_cores", 0)):
            checked[name] = integer(f"Rounds: {name}", getattr(self, name), least)
        warmup = self.warmup
        if warmup is None:
            warmup = 0 if checked.get("n") == 1 or self.fresh_process else 2
        checked["warmup"] = integer("Rounds: warmup", warmup)
        for name in ("max_time_s", "precision"):
            checked[name] = float(number(f"Rounds: {name}", getattr(self, name)))
        when = choice("Rounds: collect_garbage", self.collect_garbage, ("rounds", "tasks", None))
        checked["collect_garbage"] = when
        for name in ("fresh_process", "check_outputs"):
            boolean(f"Rounds: {name}", getattr(self, name))
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if self.n == "auto" and self.max_rounds < FEWEST_ROUNDS:
            why = f"max_rounds={self.max_rounds} is too small"
            raise refused(f"Rounds: {why} for 'auto', which needs at least {FEWEST_ROUNDS} rounds")

    def to_dict(self) -> dict[str, Any]:
        """Return the conditions as stored in the profile's ``run.conditions``."""
        return asdict(self)

    def alone(self) -> Rounds:
        """Return the conditions of one of these rounds in its own process."""
        return replace(self, n=1, warmup=0, fresh_process=False, busy_cores=0)


#: What counts as one plain round, of which no samples are recorded; the first is the default.
PLAIN = (Rounds(1), Rounds(1, collect_garbage=None))


def rounds_of(rounds: Any) -> Rounds:
    """Return the argument of ``run(rounds=...)`` as Rounds."""
    return rounds if isinstance(rounds, Rounds) else Rounds(rounds)


def rounded(value: Any) -> Any:
    """Return a time to the nanosecond; whole numbers and None as they are."""
    return round(value, 6) if type(value) is float else value


def statistics_of(samples: JsonObject, differing: Iterable[str] = ()) -> JsonObject:
    """Return the section ``statistics`` of a section ``samples``.

    Parameters
    ----------
    differing
        Tasks whose outputs differed between rounds.
    """
    kinds, tasks = samples["rounds"], samples["tasks"]
    section: JsonObject = {"confidence": CONFIDENCE}
    totals = measured_of(kinds, samples["total_ms"])
    if totals:
        section["total_ms"] = _summary("total_ms", totals)
    section["tasks"] = _summaries(kinds, tasks)
    section["edges"] = _summaries(kinds, samples["edges"])
    if COLD in kinds:
        first = kinds.index(COLD)
        section["cold_ms"] = {name: row["wall_ms"][first] for name, row in tasks.items()}
    differ = set(differing)
    section["flags"] = {}
    for name, row in tasks.items():
        if raised := _flags(kinds, row, outputs_differ=name in differ):
            section["flags"][name] = raised
    return section


def measured_of(kinds: Sequence[str], values: Column, column: str = "") -> list[Any]:
    """Return the measured values of a column, without nulls and those of warm-up.

    Parameters
    ----------
    kinds
        Kind of each round.
    values
        Its value.
    column
        Name of the column: those of allocations are measured in a round of their own.
    """
    counts = {MEASURED, ALLOCATION} if column == "allocation_bytes" else {MEASURED}
    return [value for kind, value in zip(kinds, values) if kind in counts and value is not None]


def _summaries(kinds: Sequence[str], rows: Mapping[str, Mapping[str, Column]]) -> JsonObject:
    summaries = {}
    for name, columns in rows.items():
        measured = {key: measured_of(kinds, values, key) for key, values in columns.items()}
        summaries[name] = {column: _summary(column, v) for column, v in measured.items() if v}
    return summaries


def _summary(column: str, values: Sequence[float]) -> JsonObject:
    summary = summarize(values)._asdict()
    if not column.endswith("_ms"):
        # The resolution of a user's meter is unknown.
        return summary
    return {name: rounded(value) for name, value in summary.items()}


def _flags(kinds: Sequence[str], row: Mapping[str, Column], *, outputs_differ: bool) -> list[str]:
    wanted = ("wall_ms", "corrected_ms", "delay_ms", "cpu_ms", "process_cpu_ms")
    measured = {
        name: [v for kind, v in zip(kinds, row[name]) if kind == MEASURED]
        for name in wanted
        if name in row
    }
    return flags(**measured, outputs_differ=outputs_differ)
