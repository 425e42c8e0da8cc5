"""ProfileComparison: how two profiles differ, as a dict, as text, and in notebooks."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

from dagprofiler._document.calibration import Calibration
from dagprofiler._document.rounds import MEASURED
from dagprofiler._util.html import Markup, Shown, cut_table, paragraph, text, view
from dagprofiler._util.text import MOST_ROWS, aligned, and_more, number, printable
from dagprofiler.analysis.makespan import PARTS
from dagprofiler.analysis.summary import comparison_rows, comparison_summary
from dagprofiler.errors import short_repr
from dagprofiler.stats.ranktests import (
    INCONCLUSIVE,
    Verdict,
    compare_apart,
    compare_interleaved,
    verdicts,
)
from dagprofiler.stats.summary import FEWEST_ROUNDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Optional

    from dagprofiler._document import ProfileData
    from dagprofiler.stats.ranktests import RankResult

    #: What was measured in each of the measured rounds; None where nothing was.
    Measured = Sequence[Optional[float]]

#: How to take two profiles so that they can be compared.
WAY_OUT = (
    "take both profiles with run(rounds=Rounds(10, fresh_process=True)), "
    "or let compare_runs(dag_a, dag_b) take them in turns"
)
_ONE_PROCESS = (
    "samples from a single process cannot be compared across processes, which differ 2 to 4 "
    f"times as much as rounds do; {WAY_OUT}"
)
#: Parts of ``run.conditions`` that times depend on, with their defaults.
_CONDITIONS = {"busy_cores": 0, "collect_garbage": "rounds"}

#: Parts of ``environment`` that identify a machine.
_MACHINE = ("cpu", "machine", "cores")


class _Pair(NamedTuple):
    """The samples of one task or edge in two profiles, and the kernels next to them."""

    quantity: str
    mine: Measured
    theirs: Measured
    kernels: tuple[Measured, Measured] = ((), ())


def compare_samples(
    mine: ProfileData, theirs: ProfileData, *, paired: bool = False
) -> dict[str, Any]:
    """Compare the times of tasks and edges in one profile with those in another.

    Parameters
    ----------
    paired
        Whether round i of one profile was interleaved with round i of the other, so that a
        disturbance affects both. Otherwise both must hold rounds in fresh processes.

    Returns
    -------
    dict
        ``task_times`` and ``edge_times``: for the name of each task or edge with measured
        samples in both profiles

        * ``quantity``: ``"corrected_ms"``, without run-queue delay, if both have it, else
          ``"wall_ms"``; for edges ``"transfer_ms"``, serializing plus deserializing.
        * ``ratio``: median of `mine` divided by that of `theirs`; above 1 is slower. For
          interleaved rounds the typical ratio, since medians lose what pairs have in common.
        * ``low``, ``high``, ``coverage``: interval of the typical ratio (Hodges and Lehmann),
          and the probability that it covers the ratio, as far as rounds differ; None for
          single samples.
        * ``verdict``: ``"faster"``, ``"slower"``, ``"no significant difference"`` or
          ``"inconclusive"``, corrected for the number of tasks, or of edges.
        * ``reason``: why this verdict; may be absent.

        ``scale``: how times of different machines were converted to one scale; absent if they
        were not.

    Notes
    -----
    The tests are those of :mod:`dagprofiler.stats.ranktests`. All verdicts are
    "inconclusive" if the two profiles cannot be compared: different machines or conditions, too
    few rounds, rounds of one process; a task's, if the speed of the machine changed in between
    and may account for the difference. ``ratio`` is present in any case. Ratio and interval are
    None if a sample is 0, or so far from 1 that its ratios overflow a float.

    Examples
    --------
    >>> from dagprofiler import DAG
    >>> compare_samples(DAG({}).run(), DAG({}).run())
    {'task_times': {}, 'edge_times': {}}
    """
    samples, others = mine.sections.get("samples"), theirs.sections.get("samples")
    if samples is None or others is None:
        return {"task_times": {}, "edge_times": {}}
    sides = (_Side(mine, samples), _Side(theirs, others))
    factor, scale = _common_scale(*sides)
    obstacles = "; ".join(_obstacles(*sides, scaled=bool(scale), paired=paired))
    result: dict[str, Any] = {
        f"{kind}_times": _judged(dict(pairs(*sides)), factor, obstacles, paired=paired)
        for kind, pairs in (("task", _task_pairs), ("edge", _edge_pairs))
    }
    if scale:
        result["scale"] = scale
    return result


class _Side:
    """One of two profiles: its samples in the measured rounds, its machine and conditions."""

    def __init__(self, profile: ProfileData, samples: Mapping[str, Any]) -> None:
        sections = profile.sections
        run, environment = sections.get("run", {}), sections.get("environment", {})
        self.tasks: Mapping[str, Any] = samples["tasks"]
        self.edges: Mapping[str, Any] = samples.get("edges", {})
        self.rounds = [i for i, kind in enumerate(samples["rounds"]) if kind == MEASURED]
        self.host = profile.hostname
        self.machine = (self.host, *map(environment.get, _MACHINE))
        self.conditions: Mapping[str, Any] = run.get("conditions", {})
        calibration = environment.get("calibration")
        self.calibration = None if calibration is None else Calibration.from_dict(calibration)

    def measured(self, row: Mapping[str, Sequence[Any]], column: str) -> Measured:
        """Return a column of a task or an edge in the measured rounds; empty if all are None."""
        values = row.get(column)
        samples = [values[i] for i in self.rounds] if values else []
        return samples if any(value is not None for value in samples) else []


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
        left, right = _transfer_ms(mine, row), _transfer_ms(theirs, theirs.edges.get(name, {}))
        if any(v is not None for v in left) and any(v is not None for v in right):
            yield name, _Pair("transfer_ms", left, right)


def _transfer_ms(side: _Side, row: Mapping[str, Any]) -> Measured:
    parts = side.measured(row, "serialize_ms"), side.measured(row, "deserialize_ms")
    return [None if sent is None or got is None else sent + got for sent, got in zip(*parts)]


def _common_scale(mine: _Side, theirs: _Side) -> tuple[float, str]:
    """Return the factor for ratios of different machines, and its explanation."""
    left, right = mine.calibration, theirs.calibration
    if mine.machine == theirs.machine or left is None or right is None:
        return 1.0, ""
    if left.kernel_version != right.kernel_version:
        return 1.0, ""
    return left.score / right.score, (
        f"times of host {mine.host!r} are multiplied by its calibration score of "
        f"{left.score:.4g}, those of host {theirs.host!r} by its score of {right.score:.4g}: "
        "milliseconds on the reference machine"
    )


def _obstacles(mine: _Side, theirs: _Side, *, scaled: bool, paired: bool) -> Iterator[str]:
    """Yield the reasons why there can be no verdict."""
    if mine.host is None or theirs.host is None:
        yield "a profile without a hostname cannot be compared with another"
    elif mine.machine != theirs.machine:
        yield _other_machine(mine, theirs, scaled=scaled)
    for name, default in _CONDITIONS.items():
        values = [side.conditions.get(name, default) for side in (mine, theirs)]
        if values[0] != values[1]:
            yield (
                f"the conditions differ: {name} is {short_repr(values[0])} here, "
                f"{short_repr(values[1])} there"
            )
    if paired:
        return
    if not all(side.conditions.get("fresh_process") for side in (mine, theirs)):
        yield _ONE_PROCESS
        return
    fewest = min(len(mine.rounds), len(theirs.rounds))
    if fewest < FEWEST_ROUNDS:
        what = "1 measured round is" if fewest == 1 else f"{fewest} measured rounds are"
        yield f"{what} too few, at least {FEWEST_ROUNDS} of each are needed; {WAY_OUT}"


def _other_machine(mine: _Side, theirs: _Side, *, scaled: bool) -> str:
    hosts = f"hosts {mine.host!r} and {theirs.host!r} are different machines"
    if scaled:
        return (
            f"{hosts}, and their calibration scores, by which the times are scaled, measure their "
            "overall speed, not their speed at this task"
        )
    return (
        f"{hosts}, and the ratio is of raw times, since they were not calibrated alike: "
        "dagprofiler.calibrate() before each run, or several rounds, gives a common scale"
    )


def _judged(
    pairs: Mapping[str, _Pair], factor: float, obstacles: str, *, paired: bool
) -> dict[str, Any]:
    compare = _in_pairs if paired else _apart
    comparisons = {name: compare(pair, factor) for name, pair in pairs.items()}
    if obstacles:
        judged = dict.fromkeys(pairs, Verdict(INCONCLUSIVE, obstacles))
    else:
        judged = verdicts(comparisons)
    return {
        name: _entry(pair.quantity, comparisons[name], judged[name], paired=paired)
        for name, pair in pairs.items()
    }


def _apart(pair: _Pair, factor: float) -> RankResult:
    sides = [
        [rows for rows in zip(times, kernels or repeat(None)) if rows[0] is not None]
        for times, kernels in zip((pair.mine, pair.theirs), pair.kernels)
    ]
    return _compared(compare_apart, sides, factor)


def _in_pairs(pair: _Pair, factor: float) -> RankResult:
    kernels = (of_side or repeat(None) for of_side in pair.kernels)
    both = [row for row in zip(pair.mine, pair.theirs, *kernels) if None not in row[:2]]
    sides = [[(row[side], row[side + 2]) for row in both] for side in (0, 1)]
    return _compared(compare_interleaved, sides, factor)


def _compared(compare: Any, sides: Sequence[Sequence[Any]], factor: float) -> RankResult:
    """Compare two sets of (time, kernel); without kernels if one is not known."""
    mine, theirs = ([time for time, _ in side] for side in sides)
    kernels = tuple([kernel for _, kernel in side] for side in sides)
    known = all(kernel for side in kernels for kernel in side)
    result: RankResult = compare(
        [time * factor for time in mine], theirs, kernels if known and all(kernels) else None
    )
    return result


def _entry(
    quantity: str, comparison: RankResult, verdict: Verdict, *, paired: bool
) -> dict[str, Any]:
    spread = min(comparison.n) > 1
    entry = {
        "quantity": quantity,
        "ratio": comparison.ratio if paired else comparison.ratio_of_medians,
        "low": comparison.low if spread else None,
        "high": comparison.high if spread else None,
        "coverage": comparison.coverage if spread else None,
        "verdict": verdict.verdict,
    }
    return {**entry, "reason": verdict.reason} if verdict.reason else entry


_RATIOS = "times, as ratios to those there:"

#: Verdicts that have a colour.
_COLOURED = ("faster", "slower")


class _Part(NamedTuple):
    """A table of differences; its first row is the head."""

    title: str
    rows: Sequence[Sequence[str]]
    left: Sequence[int]


class ProfileComparison(dict[str, Any], Shown):
    """How two profiles differ: the result of :meth:`Profile.compare <dagprofiler.Profile.compare>`.

    A dict with the keys that are described there; ``print`` and notebooks show it as tables.
    """

    def __str__(self) -> str:
        lines = self._notes()
        if self._times:
            lines += ["", _RATIOS, comparison_summary(self._times)]
        for title, rows, left in self._parts():
            lines += ["", title, *aligned(rows[: MOST_ROWS + 1], left)]
            lines += and_more(len(rows) - 1, "rows")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        notes = map(paragraph, self._notes())
        times = [paragraph(_RATIOS), times_markup(self._times)] if self._times else []
        parts = (
            part
            for title, rows, left in self._parts()
            for part in (paragraph(title), cut_table(rows, "rows", left))
        )
        return view(*notes, *times, *parts)

    @property
    def _times(self) -> dict[str, Any]:
        return {**self["task_times"], **self["edge_times"]}

    def _notes(self) -> list[str]:
        difference, scale = self["time_diff_ms"], self.get("scale")
        known = "not known for both" if difference is None else f"{difference:+,.3f} ms here"
        notes = [f"total time: {known}", *([printable(scale)] if scale else ())]
        for key, where in (("only_in_self", "here"), ("only_in_other", "there")):
            names = self.get(key, ())
            if names:
                more = f" and {len(names) - MOST_ROWS:,} more" if len(names) > MOST_ROWS else ""
                listed = ", ".join(map(printable, names[:MOST_ROWS]))
                notes.append(f"tasks only {where}: {listed}{more}")
        return notes

    def _parts(self) -> Iterator[_Part]:
        """Yield the differences other than times."""
        if "prediction" in self:
            yield _Part("makespan, predicted against real:", _makespan(self["prediction"]), (0, 4))
        if self["config_diff"]:
            yield _Part("parameters:", _values(self["config_diff"]), (0, 1, 2))
        for key, title in (("node_weight_diff", "instructions:"), ("edge_weight_diff", "bits:")):
            if self[key]:
                yield _Part(title, _weights(self[key]), (0,))


def _makespan(error: Mapping[str, Any]) -> list[tuple[str, ...]]:
    rows = {"makespan": error, **error["parts"]}
    return [
        ("", "predicted ms", "real ms", "of the error", ""),
        *(
            (
                name,
                f"{row['predicted_ms']:,.3f}",
                f"{row['real_ms']:,.3f}",
                f"{row['error']:+.1%}",
                PARTS.get(name, ""),
            )
            for name, row in rows.items()
        ),
    ]


def _values(differing: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, ...]]:
    return [
        ("", "here", "there"),
        *(
            (
                printable(name),
                *(printable(short_repr(entry[side])) for side in ("self", "other")),
            )
            for name, entry in differing.items()
        ),
    ]


def _weights(differing: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, ...]]:
    return [
        ("", "here", "there", "difference", "%"),
        *(
            (
                printable(name),
                *(number(entry[key]) for key in ("self", "other")),
                f"{entry['diff']:+,}",
                f"{entry['pct']:+,.1f}",
            )
            for name, entry in differing.items()
        ),
    ]


def times_markup(times: Mapping[str, Mapping[str, Any]]) -> Markup:
    """Return a table of the compared times of tasks and edges."""
    (head, *rows), reason = comparison_rows(times)
    body = [(*row[:3], _coloured(row[3])) for row in rows]
    note = paragraph(reason, quiet=True) if reason else ""
    return Markup(f"{cut_table([head, *body], 'tasks and edges', left=(0, 3))}{note}")


def _coloured(words: str) -> str:
    """Return a verdict in its colour, and its reason."""
    verdict, colon, reason = words.partition(":")
    if verdict not in _COLOURED:
        return words
    return Markup(f'<b class="{verdict}">{verdict}</b>{colon}{text(reason)}')
