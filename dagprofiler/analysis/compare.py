"""compare(): what differs between profiles, and what a prediction missed of the makespan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from math import inf
from typing import Any, NamedTuple, Optional

from dagprofiler._document import ProfileData
from dagprofiler._document.table import default_times, entries_of_tasks
from dagprofiler._util.html import ShownInBlocks
from dagprofiler._util.json import jsonable
from dagprofiler._util.text import Block, number, printable, some
from dagprofiler._util.text import quantity as with_unit
from dagprofiler.analysis.makespan import PARTS, parts_of
from dagprofiler.config import same_value
from dagprofiler.errors import counted, short_repr
from dagprofiler.stats import DIFFERENCE, FEWEST_ROUNDS, median
from dagprofiler.stats.ranktests import (
    FASTER,
    GATE_APART,
    INCONCLUSIVE,
    SLOWER,
    RankResult,
    Verdict,
    compare_apart,
    compare_interleaved,
    verdicts,
)

#: What was measured in each of the measured rounds; None where nothing was.
Measured = Sequence[Optional[float]]

#: Entries of a comparison, with their names.
Rows = list[tuple[str, Mapping[str, Any]]]

#: How to take two profiles so that they can be compared.
WAY_OUT = (
    "take both profiles with run(rounds=Rounds(10, fresh_process=True)), "
    "or let compare_runs(base, new) take them in turns"
)
_ONE_PROCESS = (
    "samples from a single process cannot be compared across processes, which differ 2 to 4 "
    f"times as much as rounds do; {WAY_OUT}"
)
_NO_SAMPLES = f"a profile has no samples of several rounds; {WAY_OUT}"
PREDICTED = "one of the profiles is predicted: it has no samples"
_NO_TIMELINE = (
    "the other has no timeline, as those of 0.1.0 and of other tools: take it with dag.run or "
    "dagprofiler run, to see how far off the makespan is"
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

#: Parts of ``environment`` that identify a machine.
_MACHINE = ("cpu", "machine", "cores")


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
        * ``ratio``: `new` divided by `base`; above 1 is slower. The typical ratio of a round to
          one of the base (Hodges and Lehmann) at equal speed of the machine, which that of the
          medians is not; without samples that of the times.
        * ``low``, ``high``, ``coverage``: interval of the ratio, which lies in it,
          and the probability that it covers the true ratio, as far as rounds differ; None for
          single samples.
        * ``rounds``: number of samples, of the side that has fewer; 0 without samples.
        * ``verdict``: ``"faster"``, ``"slower"``, ``"no significant difference"`` or
          ``"inconclusive"``, corrected for the number of tasks, or of edges.
        * ``comparable``: whether the samples could be judged at all; if so, an inconclusive
          verdict means that the interval is too wide.
        * ``reason``: why this verdict; may be absent.

    Notes
    -----
    The tests are those of :mod:`dagprofiler.stats.ranktests`. All verdicts are
    "inconclusive" if the two profiles cannot be compared: different machines or conditions, too
    few rounds, rounds of one process; a task's, if the speed of the machine changed in between
    and may account for the difference. The DAG is judged as a task is, next to the mean of its
    tasks' kernels, and is neither faster nor slower if no task and no edge has a verdict. Waits
    for a core are measured in ``compute()`` alone, so the DAG and its edges have no verdict if the
    share of them differs by over 5 % between profiles that were taken apart.
    ``ratio`` is present in any case. Ratio and interval are
    None if a sample is 0, or so far from 1 that its ratios overflow a float.
    """
    sides = _Side(new), _Side(base)
    judge = _Judge("; ".join(_obstacles(*sides, paired=paired)), difference, paired=paired)
    totals: Any = new.metrics.total_time_ms, base.metrics.total_time_ms
    tasks = {
        **{name: _unjudged(*sides, name) for name in sides[0].times if name in sides[1].times},
        **judge.judged(dict(_task_pairs(*sides))),
    }
    edges = judge.judged(dict(_edge_pairs(*sides)))
    total = judge.judged({"": _whole(*sides)}).get("") or _entry(
        totals[1], totals[0], "total_ms", _lacking(*sides)
    )
    rows = [*tasks.values(), *edges.values()]
    if total["verdict"] in CHANGED and rows and all(row["verdict"] == INCONCLUSIVE for row in rows):
        total.update(verdict=INCONCLUSIVE, comparable=False, reason=_UNEXPLAINED)
    nodes = [profile.dag_structure["nodes"] for profile in (new, base)]
    parameters = {
        name: {"self": new.config.get(name), "other": base.config.get(name)}
        for name in _union(new.config, base.config)
    }
    return ProfileComparison(
        **dict(zip(("base", "new"), names or _called(base, new))),
        config_diff={
            name: both for name, both in parameters.items() if not same_parameter(*both.values())
        },
        node_weight_diff=_weight_diff(new.metrics.node_weights, base.metrics.node_weights),
        edge_weight_diff=_weight_diff(new.metrics.edge_weights, base.metrics.edge_weights),
        time_diff_ms=None if None in totals else totals[0] - totals[1],
        total_time=total,
        task_times={name: tasks[name] for name in nodes[0] if name in tasks},
        edge_times=edges,
        **_alone("only_in_self", *nodes),
        **_alone("only_in_other", *reversed(nodes)),
        **_prediction(new, base, tasks),
    )


def _prediction(
    mine: ProfileData, theirs: ProfileData, tasks: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Return how far off one profile is if it predicts what the other has measured."""
    if ("prediction" in mine.sections) == ("prediction" in theirs.sections):
        return {}
    real, predicted, time = theirs, mine, "base_ms"
    if "prediction" in theirs.sections:
        real, predicted, time = mine, theirs, "new_ms"
    section, found = predicted.sections["prediction"], {}
    entries, of_compute = entries_of_tasks(real), section.get("intervals_ms", {})
    held = []
    for name in of_compute:
        if name in tasks:
            entry = entries[name]
            phases = {
                "intervals_ms": tasks[name][time],
                "serialize_intervals_ms": entry.serialize_time_ms or 0.0,
                "deserialize_intervals_ms": entry.deserialize_time_ms or 0.0,
            }
            held.append(_holds(section, name, phases))
    if held:
        found["in_intervals"] = {"tasks": sum(held), "of": len(held)}
    error = prediction_error(real, predicted)
    if error is not None:
        found["prediction"] = {**error, "interval_ms": section.get("interval_ms")}
    return found


def _holds(section: Mapping[str, Any], name: str, phases: Mapping[str, float]) -> bool:
    """Tell whether the real times of a task, of those that matter, are in their intervals."""
    for key, ms in phases.items():
        if name in section.get(key, {}) and ms > _PHASE_SHARE * sum(phases.values()):
            low, high = section[key][name]
            if not low <= ms <= high:
                return False
    return True


def _called(base: ProfileData, new: ProfileData) -> tuple[str, str]:
    """Return what two profiles are called; the two names differ."""
    if base.name is None or new.name is None or base.name == new.name:
        about = f" ({base.name})" if base.name is not None and base.name == new.name else ""
        return f"base{about}", "new"
    return base.name, new.name


def _alone(key: str, mine: Sequence[str], theirs: Sequence[str]) -> dict[str, list[str]]:
    """Return ``{key: tasks}`` for the tasks that `theirs` lacks; an empty dict if it has all."""
    common = set(theirs)
    names = [name for name in mine if name not in common]
    return {key: names} if names else {}


def same_parameter(mine: Any, theirs: Any) -> bool:
    """Tell whether two values, or their JSON forms, are equal."""
    return same_value(mine, theirs) or jsonable({"": mine})[0] == jsonable({"": theirs})[0]


def _union(first: Iterable[str], second: Iterable[str]) -> list[str]:
    """Return the names of both, in order of first appearance."""
    return list(dict.fromkeys([*first, *second]))


def _weight_diff(mine: Mapping[str, int], theirs: Mapping[str, int]) -> dict[str, Any]:
    differences = {}
    for name in _union(mine, theirs):
        left, right = mine.get(name, 0), theirs.get(name, 0)
        if diff := left - right:
            pct = diff / right * 100 if right else inf
            differences[name] = {"self": left, "other": right, "diff": diff, "pct": pct}
    return differences


class _Pair(NamedTuple):
    """The samples of one task, of one edge or of the whole DAG, and the kernels next to them."""

    quantity: str
    mine: Measured
    theirs: Measured
    kernels: tuple[Measured, Measured] = ((), ())
    #: Why a difference is none that can be relied on, or "".
    doubt: str = ""


class _Side:
    """One of two profiles: its samples in the measured rounds, its machine and conditions."""

    def __init__(self, profile: ProfileData) -> None:
        samples, run, sections = profile.samples, profile.run, profile.sections
        self.times = default_times(profile)
        self.tasks, self.edges, self.rounds = samples.tasks, samples.edges, samples.measured
        self.total_ms = self.measured({"total_ms": samples.total_ms}, "total_ms")
        self.serial = run.executor == "serial"
        self.predicted, self.timed = "prediction" in sections, "timeline" in sections
        self.host = profile.hostname
        self.machine = (self.host, *(getattr(profile.environment, name) for name in _MACHINE))
        self.conditions = run.conditions

    def measured(self, row: Mapping[str, Any], column: str) -> Measured:
        """Return a column of a task or an edge in the measured rounds; empty if all are None."""
        values = row.get(column)
        return _known([values[i] for i in self.rounds]) if values else []

    def corrected_total_ms(self) -> Measured:
        """Return the times of the rounds without the run-queue delays of the tasks.

        Empty if a delay is not known, or if tasks ran concurrently, where not all delays add up.
        """
        columns = [
            (self.measured(row, "wall_ms"), self.measured(row, "corrected_ms"))
            for row in self.tasks.values()
        ]
        if not self.serial or not all(corrected for _, corrected in columns):
            return []
        totals: list[float | None] = []
        for i, total_ms in enumerate(self.total_ms):
            times = [(walls[i], corrected[i]) for walls, corrected in columns]
            delays = [w - c for w, c in times if w is not None and c is not None]
            if total_ms is None or len(delays) < len(times):
                totals.append(None)
            else:
                totals.append(total_ms - sum(delays))
        return _known(totals)

    @cached_property
    def kernel_ms(self) -> Measured:
        """For each round the mean of the kernels next to its tasks, weighted by time."""
        columns = [
            (self.measured(row, "corrected_ms") or self.measured(row, "wall_ms"), kernels)
            for row in self.tasks.values()
            if (kernels := self.measured(row, "kernel_ms"))
        ]
        means: list[float | None] = []
        for i in range(len(self.rounds)):
            known = [(times[i], kernels[i]) for times, kernels in columns if times]
            pairs = [(time, kernel) for time, kernel in known if time and kernel]
            whole_ms = sum(time for time, _ in pairs)
            means.append(sum(time * kernel for time, kernel in pairs) / whole_ms if pairs else None)
        return means

    @cached_property
    def waited(self) -> float | None:
        """Share of the tasks' wall time that they waited for a core; None if it is not known."""
        times = [
            (wall_ms, corrected_ms)
            for row in self.tasks.values()
            for wall_ms, corrected_ms in zip(
                self.measured(row, "wall_ms"), self.measured(row, "corrected_ms")
            )
            if wall_ms is not None and corrected_ms is not None
        ]
        whole_ms = sum(wall_ms for wall_ms, _ in times)
        return sum(wall - corrected for wall, corrected in times) / whole_ms if whole_ms else None


def _known(samples: Measured) -> Measured:
    """Return samples; an empty list if all are None."""
    return samples if any(value is not None for value in samples) else []


def _whole(mine: _Side, theirs: _Side) -> _Pair:
    quantity, times = "corrected_ms", (mine.corrected_total_ms(), theirs.corrected_total_ms())
    if not all(times):
        quantity, times = "total_ms", (mine.total_ms, theirs.total_ms)
    return _Pair(quantity, *times, (mine.kernel_ms, theirs.kernel_ms), _waits_differ(mine, theirs))


def _waits_differ(mine: _Side, theirs: _Side) -> str:
    """Return why waits may account for a difference of what lies between the tasks, or ""."""
    shares = theirs.waited, mine.waited
    if None in shares or abs(shares[1] - shares[0]) <= GATE_APART:  # type: ignore[operator]
        return ""
    return (
        "tasks waited for a core in {:.0%} of their time in the base and in {:.0%} now, and such "
        "waits are not measured between the tasks".format(*shares)
    )


def _task_pairs(mine: _Side, theirs: _Side) -> Iterator[tuple[str, _Pair]]:
    for name, row in mine.tasks.items():
        other = theirs.tasks.get(name, {})
        for quantity in ("corrected_ms", "wall_ms"):
            left, right = mine.measured(row, quantity), theirs.measured(other, quantity)
            if left and right:
                kernels = mine.measured(row, "kernel_ms"), theirs.measured(other, "kernel_ms")
                yield name, _Pair(quantity, left, right, kernels)
                break


def _edge_pairs(mine: _Side, theirs: _Side) -> Iterator[tuple[str, _Pair]]:
    for name, row in mine.edges.items():
        times = _transfer_ms(mine, row), _transfer_ms(theirs, theirs.edges.get(name, {}))
        doubt = _waits_differ(mine, theirs)
        yield name, _Pair("transfer_ms", *times, (mine.kernel_ms, theirs.kernel_ms), doubt)


def _transfer_ms(side: _Side, row: Mapping[str, Any]) -> Measured:
    parts = zip(side.measured(row, "serialize_ms"), side.measured(row, "deserialize_ms"))
    return _known([None if sent is None or got is None else sent + got for sent, got in parts])


def _obstacles(mine: _Side, theirs: _Side, *, paired: bool) -> Iterator[str]:
    """Yield the reasons why there can be no verdict."""
    if not mine.rounds or not theirs.rounds:
        yield _lacking(mine, theirs)
        return
    if mine.host is None or theirs.host is None:
        yield "a profile without a hostname cannot be compared with another"
    elif mine.machine != theirs.machine:
        yield (
            f"hosts {mine.host!r} and {theirs.host!r} are different machines: no verdict, and the "
            "ratio is of raw times"
        )
    for name, default in _CONDITIONS.items():
        here, there = (side.conditions.get(name, default) for side in (mine, theirs))
        if here != there:
            values = f"{short_repr(here)} here, {short_repr(there)} there"
            yield f"the conditions differ: {name} is {values}"
    if paired:
        return
    if not all(side.conditions.get("fresh_process") for side in (mine, theirs)):
        yield _ONE_PROCESS
        return
    fewest = min(len(mine.rounds), len(theirs.rounds))
    if fewest < FEWEST_ROUNDS:
        what = "1 measured round is" if fewest == 1 else f"{fewest} measured rounds are"
        yield f"{what} too few, at least {FEWEST_ROUNDS} of each are needed"


class _Judge(NamedTuple):
    """Compares pairs of samples, and says what the comparisons mean."""

    obstacles: str
    difference: float
    paired: bool

    def judged(self, pairs: Mapping[str, _Pair]) -> dict[str, Any]:
        """Return an entry for each pair that has samples on both sides."""
        pairs = {name: pair for name, pair in pairs.items() if pair.mine and pair.theirs}
        results = {name: self._compared(pair) for name, pair in pairs.items()}
        if self.obstacles:
            judged = dict.fromkeys(pairs, Verdict(INCONCLUSIVE, self.obstacles, comparable=False))
        else:
            judged = verdicts(results, difference=self.difference)
        return {
            name: self._entry(pair, results[name], judged[name]) for name, pair in pairs.items()
        }

    def _compared(self, pair: _Pair) -> RankResult:
        """Compare the samples of a pair; without kernels if one is not known."""
        sides = [
            list(zip(times, kernels or [None] * len(times)))
            for times, kernels in zip((pair.mine, pair.theirs), pair.kernels)
        ]
        if self.paired:
            both = [rows for rows in zip(*sides) if None not in [time for time, _ in rows]]
            sides = [[rows[side] for rows in both] for side in (0, 1)]
        mine, theirs = ([row for row in side if row[0] is not None] for side in sides)
        kernels: Any = [kernel for _, kernel in mine], [kernel for _, kernel in theirs]
        known = all(kernels) and all([*kernels[0], *kernels[1]])
        times: Any = [time for time, _ in mine], [time for time, _ in theirs]
        compare = compare_interleaved if self.paired else compare_apart
        result = compare(times[0], times[1], kernels if known else None)
        # Rounds in turns wait alike.
        return (
            result._replace(p=1.0, doubt=pair.doubt) if pair.doubt and not self.paired else result
        )

    def _entry(self, pair: _Pair, result: RankResult, verdict: Verdict) -> dict[str, Any]:
        sides = ([ms for ms in side if ms is not None] for side in (pair.theirs, pair.mine))
        base_ms, new_ms = map(median, sides)
        entry = _entry(base_ms, new_ms, pair.quantity, verdict.reason)
        entry.update(ratio=result.ratio, rounds=min(result.n))
        entry.update(verdict=verdict.verdict, comparable=verdict.comparable)
        if min(result.n) > 1:
            entry.update(low=result.low, high=result.high, coverage=result.coverage)
        return entry


def _lacking(mine: _Side, theirs: _Side) -> str:
    """Return why one of two sides has no samples."""
    sides = mine, theirs
    if not (mine.predicted or theirs.predicted):
        return _NO_SAMPLES
    is_untimed = any(not side.predicted and not side.timed for side in sides)
    return f"{PREDICTED}; {_NO_TIMELINE}" if is_untimed else PREDICTED


def _unjudged(mine: _Side, theirs: _Side, name: str) -> dict[str, Any]:
    new, base = mine.times[name], theirs.times[name]
    quantity = "wall_ms" if "wall_ms" in (new.column, base.column) else "corrected_ms"
    return _entry(base.median_ms, new.median_ms, quantity, _lacking(mine, theirs))


def _entry(
    base_ms: float | None, new_ms: float | None, quantity: str, reason: str
) -> dict[str, Any]:
    """Return what is said of times without samples; `reason` may be empty."""
    ratio = new_ms / base_ms if base_ms and new_ms is not None else None
    entry = {"quantity": quantity, "base_ms": base_ms, "new_ms": new_ms, "ratio": ratio}
    interval = dict.fromkeys(("low", "high", "coverage"))
    unjudged = {"rounds": 0, "verdict": INCONCLUSIVE, "comparable": False}
    return {**entry, **interval, **unjudged, **({"reason": reason} if reason else {})}


class ProfileComparison(ShownInBlocks, dict[str, Any]):
    """How a profile differs from a base: the result of `Profile.compare`.

    A dict with the keys that :meth:`Profile.compare <dagprofiler.Profile.compare>` describes;
    ``print`` and notebooks show it as tables.
    """

    def blocks(self) -> list[Block]:
        """Return the headline, a table of times, and the other differences."""
        marks: dict[str, int] = {}
        head = f"{self['new']} against {self['base']}: {self.headline()}"
        predicted = _makespan(self["prediction"]) if "prediction" in self else [()]
        rows: list[Sequence[str]] = [("", "base ms", "new ms", "ratio", "interval", "verdict")]
        times = {**self["task_times"], **self["edge_times"]}
        if times:
            rows.append(_row("in all", self["total_time"], marks))
        rows += [_row(name, entry, marks) for name, entry in times.items()]
        if "prediction" in self or "in_intervals" in self:
            # Times that were predicted have no samples to judge.
            rows, marks = [row[:4] for row in rows], {}
        measured = any(entry["rounds"] > 1 for entry in times.values())
        return [
            Block(head),
            Block("makespan, predicted against real", predicted, (0, 4)),
            Block(rows=rows, left=(0, 5), what="tasks and edges"),
            Block(notes=[f"[{mark}] {reason}" for reason, mark in marks.items()]),
            Block(notes=[MEANING] if measured else []),
            Block("parameters", _values(self["config_diff"]), (0, 1, 2)),
            Block("bytes of edges", _weights(self["edge_weight_diff"], 8), what="edges"),
            Block("instructions", _weights(self["node_weight_diff"], 1), what="tasks"),
            Block(notes=self._alone()),
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

    def _weighty(self, times: Mapping[str, Mapping[str, Any]], least_share: float) -> Rows:
        sides, whole = ("base_ms", "new_ms"), self["total_time"]
        return [
            (printable(name), row)
            for name, row in times.items()
            if any((row[side] or 0) >= least_share * (whole[side] or 0) for side in sides)
        ]

    def _alone(self) -> Iterator[str]:
        for key, where in (("only_in_other", "base"), ("only_in_self", "new")):
            if key in self:
                yield f"only in {self[where]}, so not compared: {some(self[key], 10)}"


def _in_all(total: Mapping[str, Any]) -> str:
    """Return the verdict on the total time, as in "12 % faster in all (1.31 s -> 1.15 s)"."""
    base_ms, new_ms, verdict = total["base_ms"], total["new_ms"], total["verdict"]
    if base_ms is None or new_ms is None:
        return "total time unknown"
    unit, per_ms = ("s", 1e3) if max(base_ms, new_ms) >= 1000 else ("ms", 1.0)
    times = " -> ".join(f"{_three_digits(ms / per_ms)} {unit}" for ms in (base_ms, new_ms))
    times += "" if total["coverage"] is None else " a round"
    if verdict not in CHANGED:
        return f"{verdict} in all ({times})"
    change, of_medians = _change(total["ratio"]), _change(new_ms / base_ms)
    if change == of_medians:
        return f"{change} in all ({times})"
    return f"{change} in all, {total['low']:.2f} to {total['high']:.2f} x (medians {times})"


def _changes(of_all: str, rows: Rows) -> Iterator[str]:
    """Yield how many are slower, and faster, as in "1 of 8 tasks slower: peaks 1.25 x (+13.8 ms)".

    The three with the largest changes are named.
    """
    changed = [(name, row) for name, row in rows if row["verdict"] in CHANGED]
    changed.sort(key=lambda named: abs(_change_ms(named[1])), reverse=True)
    for verdict in CHANGED:
        names = [
            f"{name} {row['ratio']:.3g} x ({_three_digits(_change_ms(row), '+')} ms)"
            for name, row in changed[:_NAMED]
            if row["verdict"] == verdict
        ]
        number = sum(row["verdict"] == verdict for _, row in changed)
        more = f" and {number - len(names)} more" if number > len(names) else ""
        named = f": {', '.join(names)}{more}" if names else ""
        if number:
            yield f"{number} of {of_all} {verdict}{named}"


#: Tasks, and edges, that a headline names.
_NAMED = 3


def _change_ms(entry: Mapping[str, Any]) -> float:
    """Return by how much longer a row takes, by its ratio."""
    change_ms: float = entry["base_ms"] * (entry["ratio"] - 1)
    return change_ms


def _change(ratio: float) -> str:
    if ratio >= 2:
        return f"{ratio:.2f} times as long"
    percent = round(100 * abs(1 - ratio))
    return f"{percent} % {FASTER if ratio < 1 else SLOWER}" if percent else "under 1 % apart"


def _three_digits(value: float, sign: str = "") -> str:
    return f"{value:{sign},.0f}" if abs(value) >= 100 else f"{value:{sign}.3g}"


def _row(name: str, entry: Mapping[str, Any], marks: dict[str, int]) -> tuple[str, ...]:
    """Return a row of the table of times; `marks` numbers the reasons of open verdicts."""
    known = entry.get("low") is not None
    interval = f"{entry['low']:.2f} to {entry['high']:.2f}" if known else "-"
    figures = (number(entry[key]) for key in ("base_ms", "new_ms", "ratio"))
    return printable(name), *figures, interval, _marked(entry, marks)


def _marked(entry: Mapping[str, Any], marks: dict[str, int]) -> str:
    """Return the verdict, with the number of its reason if it is inconclusive."""
    verdict, reason = entry["verdict"], entry.get("reason")
    if verdict != INCONCLUSIVE or not reason:
        return str(verdict)
    return f"{verdict} [{marks.setdefault(reason, len(marks) + 1)}]"


def _makespan(error: Mapping[str, Any]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("", "predicted ms", "real ms", "error", "")]
    for name, row in {"makespan": error, **error["parts"]}.items():
        times = (f"{row[key]:,.3f}" for key in ("predicted_ms", "real_ms"))
        rows.append((name, *times, f"{row['error']:+.1%}", PARTS.get(name, _WHOLE)))
    return rows


def _accuracy(error: Mapping[str, Any]) -> str:
    """Return how far off a makespan was, as in "predicted 7 ms, real 8 ms: 12.5% too short"."""
    times = [f"{name} {with_unit(error[f'{name}_ms'], 'ms')}" for name in ("predicted", "real")]
    way = "long" if error["error"] > 0 else "short"
    words = f"{', '.join(times)}: {abs(error['error']):.1%} too {way}"
    if error["interval_ms"] is None:
        return words
    low, high = error["interval_ms"]
    where = "in" if low <= error["real_ms"] <= high else "not in"
    return f"{words}, {where} its interval of {with_unit(low, 'ms')} to {with_unit(high, 'ms')}"


def _values(differing: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, ...]]:
    rows = (
        (name, short_repr(entry["other"]), short_repr(entry["self"]))
        for name, entry in differing.items()
    )
    return [("", "base", "new"), *(tuple(map(printable, row)) for row in rows)]


def _weights(differing: Mapping[str, Mapping[str, Any]], divisor: int) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("", "base", "new", "difference")]
    for name, entry in differing.items():
        base, new = (number(entry[key] // divisor) for key in ("other", "self"))
        change = f"{entry['pct']:+,.1f} %" if entry["other"] else "new"
        rows.append((printable(name), base, new, change))
    return rows


_WHOLE = "from the first ready task to the last one's end; errors are shares of the real one"


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
    workers = len(predicted.timeline.workers)
    there, guessed = parts_of(real, workers), parts_of(predicted, workers)
    if there is None or guessed is None:
        return None
    whole_ms = sum(there.values())

    def compared(real_ms: float, predicted_ms: float) -> dict[str, Any]:
        error = (predicted_ms - real_ms) / whole_ms if whole_ms else 0.0
        times = {"real_ms": round(real_ms, 6), "predicted_ms": round(predicted_ms, 6)}
        return {**times, "error": error}

    parts = {part: compared(there[part], guessed[part]) for part in PARTS}
    return {**compared(whole_ms, sum(guessed.values())), "parts": parts}
