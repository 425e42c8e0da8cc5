"""compare(): what differs between profiles, and what a prediction missed of the makespan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from dagprofiler._document import ProfileData
from dagprofiler._document.table import default_times, entries_of_tasks
from dagprofiler._util import JsonObject
from dagprofiler._util.html import ShownInBlocks
from dagprofiler._util.json import jsonable
from dagprofiler._util.text import Block, printable, some, table_of
from dagprofiler._util.text import quantity as with_unit
from dagprofiler.analysis.makespan import PARTS, parts_of
from dagprofiler.config import same_value
from dagprofiler.errors import counted, short_repr
from dagprofiler.stats import DIFFERENCE, FEWEST_ROUNDS, Column, median, ranktests
from dagprofiler.stats.ranktests import FASTER, INCONCLUSIVE, SLOWER, RankResult

if TYPE_CHECKING:
    from numpy.typing import NDArray

    #: The values of one quantity in the measured rounds; NaN where it was not measured.
    Array = NDArray[np.float64]
    #: Quantity to its values.
    Columns = Mapping[str, Array]

#: Task or edge to its entry in a comparison; and a list of names with their entries.
Entries = Mapping[str, JsonObject]
Rows = list[tuple[str, JsonObject]]

_NO_SAMPLES = "a profile has no samples of several rounds"

#: How to take two profiles so that they can be compared.
WAY_OUT = (
    "take both profiles with run(rounds=Rounds(10, fresh_process=True)), "
    "or let compare_runs(base, new) take them in turns"
)

_UNEXPLAINED = "no task and no edge has a verdict, so that nothing explains the difference"

#: What the figures of a row are.
MEANING = (
    "times are medians of the rounds, without waits for a core where these are known; ratio and "
    "interval compare single rounds, and leave out changes of the machine's speed, so a ratio can "
    "differ from that of the medians"
)

#: Verdicts on a difference.
CHANGED = (SLOWER, FASTER)

#: Share of the whole below which a task or an edge does not matter.
LEAST_SHARE = 0.01

#: Share of a task's time up to which serializing or deserializing does not matter.
_PHASE_SHARE = 0.05

#: Parts of ``run.conditions`` that times depend on, with their defaults.
_CONDITIONS = {"busy_cores": 0, "collect_garbage": "rounds"}


def compare_profiles(
    new: ProfileData,
    base: ProfileData,
    *,
    paired: bool = False,
    difference: float = DIFFERENCE,
    names: tuple[str, str] | None = None,
) -> ProfileComparison:
    """Compare a profile with a base.

    Parameters
    ----------
    paired
        Whether round i of one profile was interleaved with round i of the other, so that a
        disturbance affects both. Otherwise both must hold rounds in fresh processes.
    difference
        The smallest relative difference of times that matters, above 0; see
        :func:`dagprofiler.stats.ranktests.verdicts`.
    names
        What the base and the new profile are called; by default by their own names.

    Returns
    -------
    ProfileComparison
        In addition to what :meth:`Profile.compare <dagprofiler.Profile.compare>` describes,
        ``task_times`` has for each task of both profiles, ``edge_times`` for each edge with
        samples in both, and ``total_time`` for the whole DAG

        * ``quantity``: ``"corrected_ms"``, without run-queue delay, if both have it, else
          ``"wall_ms"``; for edges ``"transfer_ms"``, serializing plus deserializing; for the
          DAG ``"corrected_ms"``, its total time without the run-queue delays of its tasks, if
          both ran serially and have them, else ``"total_ms"``.
        * ``base_ms``, ``new_ms``: medians, in milliseconds; None if unknown.
        * ``ratio``: `new` divided by `base`; above 1 is slower. With samples, the typical ratio of
          a round to one of the base (Hodges and Lehmann), at equal speed of the machine if that is
          known, so it can differ from ``new_ms / base_ms``; without samples, ``new_ms / base_ms``.
        * ``low``, ``high``, ``coverage``: interval of the ratio, which lies in it,
          and the probability that it covers the true ratio, as far as rounds differ; None for
          single samples.
        * ``rounds``: number of samples, of the side that has fewer; 0 without samples.
        * ``verdict``: ``"faster"``, ``"slower"``, ``"no significant difference"`` or
          ``"inconclusive"``, corrected for the number of tasks, or of edges.
        * ``comparable``: whether the samples could be judged at all; if so, an inconclusive
          verdict means that the interval is too wide.
        * ``reason``: why this verdict.

    Notes
    -----
    The tests are those of :mod:`dagprofiler.stats.ranktests`. All verdicts are
    "inconclusive" if the two profiles cannot be compared: different machines or conditions, too
    few rounds, rounds of one process; a task's, if the speed of the machine changed in between
    and may account for the difference. The DAG is judged as a task is, next to the mean of its
    tasks' kernels, and is neither faster nor slower if no task and no edge has a verdict. Waits
    for a core are measured in ``compute()`` alone, so the DAG and its edges have no verdict if the
    share of them differs by over 5 % between profiles that were taken apart.
    ``ratio`` is present in any case. Ratio and interval are None if a sample is 0.
    """
    judge = _Judge(_Side(new), _Side(base), difference, paired=paired)
    tasks, edges, total = judge.tasks(), judge.edges(), judge.whole()
    rows = [*tasks.values(), *edges.values()]
    if total["verdict"] in CHANGED and rows and all(row["verdict"] == INCONCLUSIVE for row in rows):
        total.update(verdict=INCONCLUSIVE, comparable=False, reason=_UNEXPLAINED)
    new_ms, base_ms = new.metrics.total_time_ms, base.metrics.total_time_ms
    new_tasks, base_tasks = new.dag_structure["nodes"], base.dag_structure["nodes"]
    common = {*new_tasks} & {*base_tasks}
    alone = {
        "only_in_self": [name for name in new_tasks if name not in common],
        "only_in_other": [name for name in base_tasks if name not in common],
    }
    base_name, new_name = names or _called(base, new)
    return ProfileComparison(
        base=base_name,
        new=new_name,
        config_diff={
            name: {"self": new.config.get(name), "other": base.config.get(name)}
            for name in dict.fromkeys([*new.config, *base.config])
            if not same_parameter(new.config.get(name), base.config.get(name))
        },
        node_weight_diff=_weight_diff(new.metrics.node_weights, base.metrics.node_weights),
        edge_weight_diff=_weight_diff(new.metrics.edge_weights, base.metrics.edge_weights),
        time_diff_ms=None if new_ms is None or base_ms is None else new_ms - base_ms,
        total_time=total,
        task_times={name: tasks[name] for name in new_tasks if name in tasks},
        edge_times=edges,
        obstacles=judge.obstacles,
        **{key: missing for key, missing in alone.items() if missing},
        **_prediction(new, base, tasks),
    )


def _prediction(new: ProfileData, base: ProfileData, tasks: Entries) -> JsonObject:
    """Return how far off one profile is if it predicts what the other has measured."""
    if ("prediction" in new.sections) == ("prediction" in base.sections):
        return {}
    real, predicted, time = base, new, "base_ms"
    if "prediction" in base.sections:
        real, predicted, time = new, base, "new_ms"
    section, result = predicted.sections["prediction"], {}
    entries, held = entries_of_tasks(real), []
    for name in tasks.keys() & section.get("intervals_ms", {}).keys():
        phases = {
            "intervals_ms": tasks[name][time],
            "serialize_intervals_ms": entries[name].serialize_time_ms or 0.0,
            "deserialize_intervals_ms": entries[name].deserialize_time_ms or 0.0,
        }
        least = _PHASE_SHARE * sum(phases.values())
        intervals = [
            (ms, section[key][name]) for key, ms in phases.items() if name in section.get(key, ())
        ]
        held.append(all(low <= ms <= high or ms <= least for ms, (low, high) in intervals))
    if held:
        result["in_intervals"] = {"tasks": sum(held), "of": len(held)}
    error = prediction_error(real, predicted)
    if error is not None:
        result["prediction"] = {**error, "interval_ms": section.get("interval_ms")}
    return result


def _called(base: ProfileData, new: ProfileData) -> tuple[str, str]:
    """Return what two profiles are called; the two names differ."""
    if base.name is None or new.name is None:
        return "base", "new"
    return (base.name, new.name) if base.name != new.name else (f"base ({base.name})", "new")


def same_parameter(new: object, base: object) -> bool:
    """Tell whether two values, or their JSON forms, are equal."""
    return same_value(new, base) or jsonable({"": new})[0] == jsonable({"": base})[0]


def _weight_diff(new: Mapping[str, int], base: Mapping[str, int]) -> dict[str, JsonObject]:
    differences = {}
    for name in dict.fromkeys([*new, *base]):
        weight, other = new.get(name, 0), base.get(name, 0)
        if diff := weight - other:
            pct = diff / other * 100 if other else inf
            differences[name] = {"self": weight, "other": other, "diff": diff, "pct": pct}
    return differences


#: The quantities that are compared: the first that both sides measured.
_QUANTITIES = ("corrected_ms", "wall_ms", "transfer_ms", "total_ms")


class _Side:
    """One of two profiles, and the samples that are compared.

    Attributes
    ----------
    tasks, edges, whole
        The columns of each task, of each edge, and of the DAG. ``kernel_ms`` holds the times of
        a fixed computation next to a task, which tell the machine's speed; for edges and the DAG
        the mean of those, weighted by time.
    """

    def __init__(self, profile: ProfileData) -> None:
        samples, environment = profile.samples, profile.environment
        self.profile, self.conditions = profile, profile.run.conditions
        self.machine = profile.hostname, environment.cpu, environment.machine, environment.cores
        self.rounds = samples.measured
        self.tasks = {
            name: {key: self._column(row, key) for key in ("wall_ms", "corrected_ms", "kernel_ms")}
            for name, row in samples.tasks.items()
        }
        total_ms = self._column({"total_ms": samples.total_ms}, "total_ms")
        kernel_ms = self._mean_kernel_ms()
        self.edges: dict[str, Columns] = {}
        for edge, row in samples.edges.items():
            times_ms = self._column(row, "serialize_ms") + self._column(row, "deserialize_ms")
            self.edges[edge] = {"transfer_ms": times_ms, "kernel_ms": kernel_ms}
        self.whole = {"total_ms": total_ms, "kernel_ms": kernel_ms}
        if profile.run.executor == "serial":
            # Delays of tasks that ran concurrently do not add up.
            self.whole["corrected_ms"] = total_ms - sum(
                _delays_ms(columns) for columns in self.tasks.values()
            )

    def _column(self, row: Mapping[str, Column], quantity: str) -> Array:
        values = row.get(quantity)
        return np.array([values[i] if values else None for i in self.rounds], float)

    def _mean_kernel_ms(self) -> Array:
        """Return for each round the mean of the kernels next to its tasks, weighted by time."""
        weights, weighted_ms = np.zeros(len(self.rounds)), np.zeros(len(self.rounds))
        for columns in self.tasks.values():
            times, kernels = columns["corrected_ms"], columns["kernel_ms"]
            times = times if _is_known(times) else columns["wall_ms"]
            known = (times > 0) & (kernels > 0)
            weights[known] += times[known]
            weighted_ms[known] += (times * kernels)[known]
        with np.errstate(invalid="ignore"):
            return weighted_ms / weights

    def waited(self) -> float | None:
        """Return the share of the tasks' wall time that they waited for a core, if it is known."""
        whole_ms = delay_ms = 0.0
        for columns in self.tasks.values():
            delays_ms = _delays_ms(columns)
            whole_ms += columns["wall_ms"][np.isfinite(delays_ms)].sum()
            delay_ms += np.nansum(delays_ms)
        return float(delay_ms / whole_ms) if whole_ms else None


def _is_known(column: Array) -> bool:
    return bool(np.isfinite(column).any())


def _median(column: Array) -> float:
    # numpy.nanmedian() takes ten times as long for a few rounds.
    return median(column[np.isfinite(column)].tolist())


def _delays_ms(columns: Columns) -> Array:
    """Return how long a task waited for a core."""
    return columns["wall_ms"] - columns["corrected_ms"]


def _obstacles(new: _Side, base: _Side, *, paired: bool) -> dict[str, str]:
    """Return the reasons why there can be no verdict: code to words."""
    sides = new, base
    fewest = min(len(side.rounds) for side in sides)
    if not fewest:
        if any("prediction" in side.profile.sections for side in sides):
            return {"predicted": "one of the profiles is predicted: it has no samples"}
        return {"no_samples": _NO_SAMPLES}
    obstacles = {}
    hosts = [side.profile.hostname for side in sides]
    if None in hosts or new.machine != base.machine:
        obstacles["other_machine"] = (
            f"hosts {hosts[0]!r} and {hosts[1]!r} are different machines, as far as is known: "
            "no verdict, and the ratio is of raw times"
        )
    now, before = ({**_CONDITIONS, **side.conditions} for side in sides)
    differing = [name for name in _CONDITIONS if now[name] != before[name]]
    if differing:
        words = (f"{name} is {now[name]!r} now, {before[name]!r} in the base" for name in differing)
        obstacles["other_conditions"] = f"the conditions differ: {'; '.join(words)}"
    if not paired and not all(side.conditions.get("fresh_process") for side in sides):
        obstacles["one_process"] = (
            "samples from a single process cannot be compared across processes, which differ 2 to "
            "4 times as much as rounds do"
        )
    elif not paired and fewest < FEWEST_ROUNDS:
        least = f"at least {FEWEST_ROUNDS} of each are needed"
        obstacles["few_rounds"] = f"{fewest} measured rounds are too few, {least}"
    return obstacles


class _Judge:
    """Compares the samples of two profiles, and says what the comparisons mean."""

    def __init__(self, new: _Side, base: _Side, difference: float, *, paired: bool) -> None:
        self._new, self._base, self._difference, self._paired = new, base, difference, paired
        #: Why there can be no verdict: code to words.
        self.obstacles = _obstacles(new, base, paired=paired)

    def tasks(self) -> dict[str, JsonObject]:
        """Return a row for each task that has a time in both profiles."""
        times, base_times = (default_times(side.profile) for side in (self._new, self._base))
        rows = {}
        for name, time in times.items():
            if name in base_times:
                base_time = base_times[name]
                is_wall = "wall_ms" in (time.column, base_time.column)
                quantity = "wall_ms" if is_wall else "corrected_ms"
                rows[name] = self._row(time.median_ms, base_time.median_ms, quantity)
        return {**rows, **self._judged(self._new.tasks, self._base.tasks)}

    def edges(self) -> dict[str, JsonObject]:
        """Return a row for each edge that has samples in both profiles."""
        return self._judged(self._new.edges, self._base.edges, self._doubt)

    def whole(self) -> JsonObject:
        """Return the row of the whole DAG."""
        judged = self._judged({"": self._new.whole}, {"": self._base.whole}, self._doubt)
        new, base = self._new.profile.metrics, self._base.profile.metrics
        return judged.get("") or self._row(new.total_time_ms, base.total_time_ms, "total_ms")

    @cached_property
    def _doubt(self) -> str:
        """Why waits may account for a difference of what lies between the tasks, or ""."""
        now, before = self._new.waited(), self._base.waited()
        if now is None or before is None or abs(now - before) <= ranktests.GATE_APART:
            return ""
        return (
            f"tasks waited for a core in {before:.0%} of their time in the base and in {now:.0%} "
            "now, and such waits are not measured between the tasks"
        )

    def _row(self, new_ms: float | None, base_ms: float | None, quantity: str) -> JsonObject:
        """Return a row without a verdict."""
        return {
            "quantity": quantity,
            "base_ms": base_ms,
            "new_ms": new_ms,
            "ratio": new_ms / base_ms if base_ms and new_ms is not None else None,
            **dict.fromkeys(("low", "high", "coverage")),
            "rounds": 0,
            "verdict": INCONCLUSIVE,
            "comparable": False,
            "reason": "; ".join(self.obstacles.values()) or _NO_SAMPLES,
        }

    def _judged(
        self, new: Mapping[str, Columns], base: Mapping[str, Columns], doubt: str = ""
    ) -> dict[str, JsonObject]:
        """Return a row for each name with samples of one quantity on both sides.

        A `doubt` is why a difference cannot be relied on, or "".
        """
        rows, results = {}, {}
        for name, columns in new.items():
            quantity = _common_quantity(columns, base.get(name, {}))
            if quantity is not None:
                result = self._compared(columns, base[name], quantity, doubt)
                base_ms = _median(base[name][quantity])
                row = self._row(_median(columns[quantity]), base_ms, quantity)
                row.update(ratio=result.ratio, rounds=min(result.n))
                if min(result.n) > 1:
                    row.update(low=result.low, high=result.high, coverage=result.coverage)
                rows[name], results[name] = row, result
        if not self.obstacles:
            for name, verdict in ranktests.verdicts(results, self._difference).items():
                rows[name].update(verdict._asdict())
        return rows

    def _compared(self, new: Columns, base: Columns, quantity: str, doubt: str) -> RankResult:
        """Compare samples; without kernels if one is not known."""
        rounds, base_rounds = (np.flatnonzero(np.isfinite(side[quantity])) for side in (new, base))
        if self._paired:
            rounds = base_rounds = np.intersect1d(rounds, base_rounds)
        samples = new[quantity][rounds].tolist(), base[quantity][base_rounds].tolist()
        kernels = new["kernel_ms"][rounds].tolist(), base["kernel_ms"][base_rounds].tolist()
        is_metered = all(kernel_ms > 0 for kernel_ms in kernels[0] + kernels[1])
        compare = ranktests.compare_interleaved if self._paired else ranktests.compare_apart
        result = compare(*samples, kernels if is_metered else None)
        if doubt and not self._paired:
            # In rounds that were taken in turns, both sides wait alike.
            return result._replace(p=1.0, doubt=doubt)
        return result


def _common_quantity(new: Columns, base: Columns) -> str | None:
    for quantity in _QUANTITIES:
        if all(quantity in side and _is_known(side[quantity]) for side in (new, base)):
            return quantity
    return None


class ProfileComparison(ShownInBlocks, JsonObject):
    """How a profile differs from a base: the result of `Profile.compare`.

    A dict with the keys that :meth:`Profile.compare <dagprofiler.Profile.compare>` describes;
    ``print`` and notebooks show it as tables.
    """

    @property
    def needs_rounds(self) -> bool:
        """Whether rounds in fresh processes, or in turns, would allow verdicts."""
        return not self["obstacles"].keys().isdisjoint(["no_samples", "one_process"])

    def blocks(self, way_out: str = WAY_OUT) -> list[Block]:
        """Return the headline, a table of times, and the other differences.

        `way_out` is what to do for verdicts if rounds are missing.
        """
        new, base = printable(self["new"]), printable(self["base"])
        makespan = _makespan(self["prediction"]) if "prediction" in self else [()]
        times = {**self["task_times"], **self["edge_times"]}
        marks: dict[str, int] = {}
        shown = [("in all", self["total_time"]), *times.items()] if times else []
        # Times that were predicted have no samples to judge.
        is_judged = not self.keys() & {"prediction", "in_intervals"}
        columns = ("", "base ms", "new ms", "ratio", "interval", "verdict")[: 6 if is_judged else 4]
        rows = []
        for name, row in shown:
            interval = f"{row['low']:.2f} to {row['high']:.2f}" if row["low"] is not None else "-"
            verdict = row["verdict"]
            if verdict == INCONCLUSIVE:
                verdict += f" [{marks.setdefault(row['reason'], len(marks) + 1)}]"
            cells = [name, row["base_ms"], row["new_ms"], row["ratio"], interval, verdict]
            rows.append(cells[: len(columns)])
        notes = [f"[{mark}] {reason}" for reason, mark in marks.items()] if is_judged else []
        notes += [way_out] if is_judged and self.needs_rounds else []
        measured = any(row["rounds"] > 1 for row in times.values())
        alone = [
            f"only in {side}, so not compared: {some(self[key], 10)}"
            for key, side in (("only_in_other", base), ("only_in_self", new))
            if key in self
        ]
        return [
            Block(f"{new} against {base}: {self.headline()}"),
            Block("makespan, predicted against real", makespan, (0, 4)),
            Block(rows=table_of(columns, rows), left=(0, 5), what="tasks and edges"),
            Block(notes=notes),
            Block(notes=[MEANING] if measured else []),
            Block("parameters", _values(self["config_diff"]), (0, 1, 2)),
            Block("bytes of edges", _weights(self["edge_weight_diff"], 8), what="edges"),
            Block("instructions", _weights(self["node_weight_diff"], 1), what="tasks"),
            Block(notes=alone),
        ]

    def headline(self) -> str:
        """Return what was found, as the command, the page and notebooks show it.

        The verdict on the total time, then how many tasks, and edges, of at least 1 % of it are
        slower or faster, the three with the largest changes by name, as in "no significant
        difference in all (252 ms -> 261 ms a round); 1 of 8 tasks slower: peaks 1.25 x
        (+13.8 ms)". A change in ms is that of the ratio, from the base's median.

        Of a prediction and a real run, how far off it is, and whether its interval holds the
        real makespan.
        """
        if "prediction" in self:
            return _accuracy(self["prediction"])
        if "in_intervals" in self:
            held, count = self["in_intervals"].values()
            return f"real times of {held} of {count} tasks are in their predicted intervals"
        words = [_in_all(self["total_time"])]
        for what, times in (("task", self["task_times"]), ("edge", self["edge_times"])):
            words += _changes(counted(len(times), what), self._weighty(times, LEAST_SHARE))
        return "; ".join(words)

    def rows(self, least_share: float = LEAST_SHARE) -> Rows:
        """Return what matters, with names: the whole, and tasks and edges of a share of it."""
        times = {**self["task_times"], **self["edge_times"]}
        return [("the whole", self["total_time"]), *self._weighty(times, least_share)]

    def _weighty(self, times: Entries, least_share: float) -> Rows:
        sides, whole = ("base_ms", "new_ms"), self["total_time"]
        return [
            (printable(name), row)
            for name, row in times.items()
            if any((row[side] or 0) >= least_share * (whole[side] or 0) for side in sides)
        ]


def _in_all(total: JsonObject) -> str:
    """Return the verdict on the total time, as in "12 % faster in all (1.31 s -> 1.15 s)"."""
    base_ms, new_ms, verdict = total["base_ms"], total["new_ms"], total["verdict"]
    if base_ms is None or new_ms is None:
        return "total time unknown"
    unit, per_ms = ("s", 1e3) if max(base_ms, new_ms) >= 1000 else ("ms", 1.0)
    times = " -> ".join(f"{_three_digits(ms / per_ms)} {unit}" for ms in (base_ms, new_ms))
    times += "" if total["coverage"] is None else " a round"
    change = _change(total["ratio"]) if verdict in CHANGED else verdict
    if verdict not in CHANGED or change == _change(new_ms / base_ms):
        return f"{change} in all ({times})"
    return f"{change} in all, {total['low']:.2f} to {total['high']:.2f} x (medians {times})"


def _changes(all_rows: str, rows: Rows) -> Iterator[str]:
    """Yield how many rows are slower, and how many faster; name the three of the largest change.

    As in "1 of 8 tasks slower: peaks 1.25 x (+13.8 ms)".
    """
    changed = [(name, row) for name, row in rows if row["verdict"] in CHANGED]
    changed.sort(key=lambda named: abs(_change_ms(named[1])), reverse=True)
    for verdict in CHANGED:
        number = sum(row["verdict"] == verdict for _, row in changed)
        words = [
            f"{name} {row['ratio']:.3g} x ({_three_digits(_change_ms(row), '+')} ms)"
            for name, row in changed[:_NAMED]
            if row["verdict"] == verdict
        ]
        more = f" and {number - len(words)} more" if words and number > len(words) else ""
        if number:
            yield f"{number} of {all_rows} {verdict}{': ' if words else ''}{', '.join(words)}{more}"


#: Tasks, and edges, that a headline names.
_NAMED = 3


def _change_ms(entry: JsonObject) -> float:
    """Return the change of a time: that of the ratio, from the base's median."""
    return float(entry["base_ms"] * (entry["ratio"] - 1))


def _change(ratio: float) -> str:
    if ratio >= 2:
        return f"{ratio:.2f} times as long"
    percent = round(100 * abs(1 - ratio))
    return f"{percent} % {FASTER if ratio < 1 else SLOWER}" if percent else "under 1 % apart"


def _three_digits(value: float, sign: str = "") -> str:
    return f"{value:{sign},.0f}" if abs(value) >= 100 else f"{value:{sign}.3g}"


def _makespan(error: JsonObject) -> list[Sequence[str]]:
    rows = [
        (
            name,
            row["predicted_ms"],
            row["real_ms"],
            f"{row['error']:+.1%}",
            PARTS.get(name, "of the median round; errors are shares of the real makespan"),
        )
        for name, row in {"makespan": error, **error["parts"]}.items()
    ]
    return table_of(("", "predicted ms", "real ms", "error", ""), rows)


def _accuracy(error: JsonObject) -> str:
    """Return how far off a makespan was, as in "predicted 7 ms, real 8 ms: 12.5% too short"."""
    times = [f"{name} {with_unit(error[f'{name}_ms'], 'ms')}" for name in ("predicted", "real")]
    way = "long" if error["error"] > 0 else "short"
    words = f"{', '.join(times)}: {abs(error['error']):.1%} too {way}"
    if error["interval_ms"] is None:
        return words
    low, high = error["interval_ms"]
    where = "in" if low <= error["real_ms"] <= high else "not in"
    return f"{words}, {where} its interval of {with_unit(low, 'ms')} to {with_unit(high, 'ms')}"


def _values(differing: Entries) -> list[Sequence[str]]:
    rows = [(n, short_repr(row["other"]), short_repr(row["self"])) for n, row in differing.items()]
    return table_of(("", "base", "new"), rows)


def _weights(differing: Entries, divisor: int) -> list[Sequence[str]]:
    rows = [
        (
            name,
            row["other"] // divisor,
            row["self"] // divisor,
            f"{row['pct']:+,.1f} %" if row["other"] else "new",
        )
        for name, row in differing.items()
    ]
    return table_of(("", "base", "new", "difference"), rows)


def prediction_error(real: ProfileData, predicted: ProfileData) -> JsonObject | None:
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
    all workers, divided by their number. Of several rounds that of the median counts. It is at
    most the time of the round, which leaves out what reading meters takes on a serial run.
    """
    workers = len(predicted.timeline.workers)
    real_parts, predicted_parts = parts_of(real, workers), parts_of(predicted, workers)
    if real_parts is None or predicted_parts is None:
        return None
    whole_ms = sum(real_parts.values())

    def compared(real_ms: float, predicted_ms: float) -> JsonObject:
        error = (predicted_ms - real_ms) / whole_ms if whole_ms else 0.0
        times = {"real_ms": round(real_ms, 6), "predicted_ms": round(predicted_ms, 6)}
        return {**times, "error": error}

    parts = {part: compared(real_parts[part], predicted_parts[part]) for part in PARTS}
    return {**compared(whole_ms, sum(predicted_parts.values())), "parts": parts}
