"""Comparison: how two profiles differ, as a dict, as text, and as notebooks show it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from dagprofiler._document.calibration import Calibration
from dagprofiler._document.rounds import MEASURED
from dagprofiler._util.html import Markup, Shown, cut_table, paragraph, text, view
from dagprofiler._util.text import MOST_ROWS, aligned, and_more, number, printable
from dagprofiler.analysis.summary import comparison_rows, comparison_summary
from dagprofiler.errors import short_repr
from dagprofiler.stats.ranktests import (
    CANT_SAY,
    Verdict,
    compare_interleaved,
    compare_unpaired,
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

#: How two profiles are to be taken so that they can be compared.
WAY_OUT = (
    "take both profiles with run(rounds=Rounds(10, fresh_process=True)), "
    "or let compare_runs(dag_a, dag_b) take them in turns"
)
_ONE_PROCESS = (
    "rounds of one process cannot judge those of another, since processes differ 2 to 4 times "
    f"as much as rounds do; {WAY_OUT}"
)
#: Parts of ``run.conditions`` that times depend on, and what both have where none are told.
_CONDITIONS = {"busy_cores": 0, "collect_garbage": "rounds"}

#: Parts of ``environment`` that tell machines apart.
_MACHINE = ("cpu", "machine", "cores")


class _Pair(NamedTuple):
    """The samples of one task or edge in two profiles."""

    quantity: str
    mine: Measured
    theirs: Measured


def compare_samples(
    mine: ProfileData, theirs: ProfileData, *, paired: bool = False
) -> dict[str, Any]:
    """Return how long tasks and edges took in one profile, seen from another.

    Parameters
    ----------
    paired
        Whether round i of one profile was taken beside round i of the other, so that what
        disturbed one disturbed both. Else both must hold rounds in processes of their own.

    Returns
    -------
    dict
        ``task_times`` and ``edge_times``: the name of each task or edge with measured samples
        on both sides to

        * ``quantity``: ``"corrected_ms"``, without run-queue delay, where both have it, else
          ``"wall_ms"``; of edges ``"transfer_ms"``, serializing and deserializing together.
        * ``ratio``: median of `mine` divided by that of `theirs`; above 1 is slower. Of
          interleaved rounds the typical ratio, since medians lose what pairs have in common.
        * ``low``, ``high``, ``coverage``: interval of the typical ratio (Hodges and Lehmann),
          and the probability with which it covers it as far as rounds differ; None for single
          samples.
        * ``verdict``: ``"faster"``, ``"slower"``, ``"no difference that can be seen"`` or
          ``"can't say"``, corrected for the number of tasks, or of edges.
        * ``reason``: what the verdict rests on; absent if there is nothing to say.

        ``scale``: only where times of different machines were put on one scale; says how.

    Notes
    -----
    The tests are those of :mod:`dagprofiler.stats.ranktests`. "can't say" for all where the two
    profiles cannot be compared: other machines or conditions, too few rounds, rounds of one
    process. ``ratio`` stands there all the same. Ratio and interval are None where a sample is 0,
    or so far from 1 that its ratios are more than a float holds.

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
    """One of two profiles: its samples in the measured rounds, and where they come from."""

    def __init__(self, profile: ProfileData, samples: Mapping[str, Any]) -> None:
        sections = profile.sections
        run, environment = sections.get("run", {}), sections.get("environment", {})
        self.tasks: Mapping[str, Any] = samples["tasks"]
        self.edges: Mapping[str, Any] = samples.get("edges", {})
        self.rounds = [i for i, kind in enumerate(samples["rounds"]) if kind == MEASURED]
        self.host = profile.hostname
        self.machine = (self.host, *map(environment.get, _MACHINE))
        self.conditions: Mapping[str, Any] = run.get("conditions", {})
        found = environment.get("calibration")
        self.calibration = None if found is None else Calibration.from_dict(found)

    def measured(self, row: Mapping[str, Sequence[Any]], column: str) -> Measured:
        """Return a column of a task or an edge in the measured rounds; empty without any value."""
        values = row.get(column)
        found = [values[i] for i in self.rounds] if values else []
        return found if any(value is not None for value in found) else []


def _task_pairs(mine: _Side, theirs: _Side) -> Iterator[tuple[str, _Pair]]:
    for name, row in mine.tasks.items():
        for quantity in ("corrected_ms", "wall_ms"):
            left = mine.measured(row, quantity)
            right = theirs.measured(theirs.tasks.get(name, {}), quantity)
            if left and right:
                yield name, _Pair(quantity, left, right)
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
    """Return what to multiply ratios of different machines by, and how that was found."""
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
    """Yield why there can be no verdict."""
    if mine.host is None or theirs.host is None:
        yield "a profile that does not say on which host it was taken compares with no other"
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
            f"{hosts}, and their calibration scores, by which the times are scaled, say how "
            "fast they are on the whole, not at this"
        )
    return (
        f"{hosts}, and the ratio is one of raw times, since not both were calibrated alike: "
        "dagprofiler.calibrate() before each run, or several rounds, would give a common scale"
    )


def _judged(
    pairs: Mapping[str, _Pair], factor: float, obstacles: str, *, paired: bool
) -> dict[str, Any]:
    compare = _in_pairs if paired else _apart
    comparisons = {name: compare(pair, factor) for name, pair in pairs.items()}
    if obstacles:
        said = dict.fromkeys(pairs, Verdict(CANT_SAY, obstacles))
    else:
        said = verdicts(comparisons)
    return {
        name: _entry(pair.quantity, comparisons[name], said[name], paired=paired)
        for name, pair in pairs.items()
    }


def _apart(pair: _Pair, factor: float) -> RankResult:
    mine = [value * factor for value in pair.mine if value is not None]
    return compare_unpaired(mine, [value for value in pair.theirs if value is not None])


def _in_pairs(pair: _Pair, factor: float) -> RankResult:
    both = [
        (left * factor, right)
        for left, right in zip(pair.mine, pair.theirs)
        if left is not None and right is not None
    ]
    return compare_interleaved([left for left, _ in both], [right for _, right in both])


def _entry(quantity: str, comparison: RankResult, said: Verdict, *, paired: bool) -> dict[str, Any]:
    spread = min(comparison.n) > 1
    entry = {
        "quantity": quantity,
        "ratio": comparison.ratio if paired else comparison.ratio_of_medians,
        "low": comparison.low if spread else None,
        "high": comparison.high if spread else None,
        "coverage": comparison.coverage if spread else None,
        "verdict": said.verdict,
    }
    return {**entry, "reason": said.reason} if said.reason else entry


_RATIOS = "times, as ratios to those there:"

#: Verdicts that have a colour.
_COLOURED = ("faster", "slower")


class _Part(NamedTuple):
    """A table of what differs: its rows, the first of which is its head."""

    title: str
    rows: Sequence[Sequence[str]]
    left: Sequence[int]


class Comparison(dict[str, Any], Shown):
    """How two profiles differ, as :meth:`Profile.compare <dagprofiler.Profile.compare>` says.

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
        known = "not known of both" if difference is None else f"{difference:+,.3f} ms here"
        notes = [f"total time: {known}", *([printable(scale)] if scale else ())]
        for key, where in (("only_in_self", "here"), ("only_in_other", "there")):
            names = self.get(key, ())
            if names:
                more = f" and {len(names) - MOST_ROWS:,} more" if len(names) > MOST_ROWS else ""
                listed = ", ".join(map(printable, names[:MOST_ROWS]))
                notes.append(f"tasks only {where}: {listed}{more}")
        return notes

    def _parts(self) -> Iterator[_Part]:
        """Yield what differs beside times."""
        if self["config_diff"]:
            yield _Part("parameters:", _values(self["config_diff"]), (0, 1, 2))
        for key, title in (("node_weight_diff", "instructions:"), ("edge_weight_diff", "bits:")):
            if self[key]:
                yield _Part(title, _weights(self[key]), (0,))


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
    """Return a table of what a comparison says of the times of tasks and edges."""
    (head, *rows), reason = comparison_rows(times)
    body = [(*row[:3], _coloured(row[3])) for row in rows]
    note = paragraph(reason, quiet=True) if reason else ""
    return Markup(f"{cut_table([head, *body], 'tasks and edges', left=(0, 3))}{note}")


def _coloured(words: str) -> str:
    """Return a verdict and its reason, with the verdict in its colour."""
    verdict, colon, reason = words.partition(":")
    if verdict not in _COLOURED:
        return words
    return Markup(f'<b class="{verdict}">{verdict}</b>{colon}{text(reason)}')
