"""Weights: one number for each task, all from one source, with unit and provenance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import fsum
from typing import Callable, NamedTuple, Union

from dagprofiler._document import Calibration, ProfileData
from dagprofiler._document.table import medians_ms
from dagprofiler._util import JsonObject
from dagprofiler._util.checks import choice, number
from dagprofiler.errors import WeightError
from dagprofiler.stats import median

Number = Union[int, float]


class Source(NamedTuple):
    """The places of a source in a profile: column of samples, candidate in ``weight_sources``."""

    column: str
    candidate: str
    unit: str
    words: str


_ESTIMATED_WORDS = "what the cost models of the tasks say; none of it is measured"
_TIME_WORDS = "wall time, without run-queue delay where that was measured"

#: Where weights can come from, in the order in which ``"best"`` tries them: instructions are
#: the same on a busy machine, reference times apply to other machines, CPU times leave out all
#: waiting, and wall times include waiting for a core.
SOURCES = {
    "counted": Source(
        "instructions", "counted_instructions", "instructions", "counted instructions"
    ),
    "estimated": Source("", "estimated_instructions", "instructions", _ESTIMATED_WORDS),
    "reference_time": Source(
        "corrected_ms", "reference_time_ms", "reference ms", "wall time without run-queue delay"
    ),
    "cpu_time": Source("cpu_ms", "cpu_time_ms", "ms", "CPU time of the task's thread"),
    "wall_time": Source("wall_ms", "wall_time_ms", "ms", "wall time"),
}

#: The one time of a task, wherever one time is shown, as
#: :func:`dagprofiler._document.table.default_times` returns it.
_TIME = Source("corrected_ms", "wall_time_ms", "ms", _TIME_WORDS)

#: Every source that can be asked for by name.
NAMED = {"time": _TIME, **SOURCES}

#: Statistics of a task's samples.
STATISTICS: dict[str, Callable[[Sequence[Number]], Number]] = {
    "median": median,
    "mean": lambda values: fsum(values) / len(values),
    "min": min,
    "max": max,
}


def times_of_tasks(profile: ProfileData) -> dict[str, float]:
    """Return the time of each task in all its phases, in milliseconds."""
    phases = "compute_time_ms", "serialize_time_ms", "deserialize_time_ms"
    return {
        entry.task: sum(getattr(entry, phase) or 0.0 for phase in phases)
        for entry in profile.metrics.task_metrics
    }


class _Reader:
    """Reads one statistic of each task; with "distribution" only the samples behind it."""

    def __init__(self, profile: ProfileData, statistic: str) -> None:
        self.profile, self.statistic = profile, statistic
        self.tasks: list[str] = profile.dag_structure["nodes"]
        self._samples = profile.samples
        self._sources: JsonObject = profile.sections.get("weight_sources", {})
        # Profiles without rounds come from one run.
        rounds = 1 if profile.run.rounds is None else profile.run.rounds
        self._rounds = len(self._samples.measured) if self._samples.rounds else rounds

    def weights(self, source: str, fill: float | None = None) -> Weights:
        """Return the weights from one source; without `fill` every task must have a value."""
        values, words = self._values(source), self._provenance(source)
        missing = tuple(name for name in self.tasks if name not in values)
        if missing and fill is None:
            reasons = dict.fromkeys(self._reason(name, source) for name in missing[:5])
            raise WeightError(source, [*missing], "; ".join(reasons))
        filled = {name: values.get(name, fill or 0) for name in self.tasks}
        return Weights(filled, NAMED[source].unit, source, self.statistic, words, missing)

    def samples(self, source: str) -> dict[str, list[Number]]:
        """Return what was measured of each task, in the unit of a source; a value alone is one.

        Raises
        ------
        WeightError
            If the statistic needs samples, and the profile has only medians of several rounds.
        """
        samples = self._measured(source)
        if len(samples) == len(self.tasks):
            return samples
        single = {name: [value] for name, value in self._single(source) if value is not None}
        is_median = source == "estimated" or self.statistic == "median" or self._rounds == 1
        if not is_median and not samples.keys() >= single.keys():
            reason = (
                f"the {self.statistic} needs samples of every task, and the profile holds only "
                f"medians of {self._rounds} rounds; statistic='median' returns them"
            )
            raise WeightError(source, [], reason)
        return {**single, **samples}

    def _measured(self, source: str) -> dict[str, list[Number]]:
        """Return the samples of the measured rounds, for the tasks that have any."""
        if source == "time":
            return {**self._column("wall_ms"), **self._column("corrected_ms")}
        if source != "reference_time":
            return self._column(NAMED[source].column)
        score, column = self._score(), "corrected_ms" if self._is_corrected() else "wall_ms"
        columns = self._column(column).items()
        return {name: [value * score for value in values] for name, values in columns}

    def _column(self, column: str) -> dict[str, list[Number]]:
        return {name: values for name in self.tasks if (values := self._samples.of(name, column))}

    def _is_corrected(self) -> bool:
        """Return whether all tasks with a wall time have one without run-queue delay."""
        corrected = self._column("corrected_ms")
        return bool(corrected) and len(corrected) >= len(self._column("wall_ms"))

    def _score(self) -> float:
        calibration = self.profile.environment.calibration
        if calibration is None:
            raise WeightError("reference_time", [], _NO_SCALE)
        return Calibration.from_dict(calibration).score

    def _values(self, source: str) -> dict[str, Number]:
        """Return the value of each task that has one."""
        if source == "time" and self.statistic == "median":
            # The profile's statistics and tables have the same.
            return medians_ms(self.profile)
        of = STATISTICS[self.statistic]
        values = {name: of(samples) for name, samples in self.samples(source).items()}
        # A median of two samples may be half an instruction.
        is_count = NAMED[source].unit == "instructions"
        return {name: round(v) for name, v in values.items()} if is_count else values

    def _single(self, source: str) -> Iterator[tuple[str, Number | None]]:
        """Yield the values outside of the samples; of several for one task the last counts."""
        candidate = NAMED[source].candidate
        if source == "estimated" and not self._sources:
            yield from ((n, w) for n, w in self.profile.metrics.node_weights.items() if w > 0)
        if source != "estimated" and not self._rounds:
            return
        if candidate == "wall_time_ms":
            yield from ((e.task, e.compute_time_ms) for e in self.profile.metrics.task_metrics)
        for name, candidates in self._sources.items():
            if candidate in candidates:
                yield name, candidates[candidate]

    def _reason(self, name: str, source: str) -> str:
        """Return why a task has no value."""
        column, candidate, _, _ = NAMED[source]
        if not self._rounds and column:
            return "no round was measured"
        of_task = self._sources.get(name, {}).get("reasons", {})
        reasons = {**self.profile.environment.not_measured, **of_task}
        return str(reasons.get(candidate) or reasons.get(column) or f"it has no {candidate}")

    def _provenance(self, source: str) -> str:
        """Return the source in words, with the number of rounds and the host."""
        run, host, words = self.profile.run, self.profile.hostname, NAMED[source].words
        if source == "estimated":
            return words
        if source == "reference_time" and not self._is_corrected():
            words = _TIME_WORDS
        if "prediction" in self.profile.sections:
            words += ", predicted and not measured"
        else:
            rounds = f"{self.statistic} of {self._rounds} measured rounds"
            words += f", {'one round' if self._rounds == 1 else rounds}"
            words += " of a partial run" if run.is_partial else ""
            words += " on an unknown host" if host is None else f" on host {host!r}"
        if source == "reference_time":
            words += f"; times this machine's calibration score of {self._score():.4g}"
        return words


#: Why ``"best"`` skips counted instructions.
_RUN_ON = (
    "counted: skipped, since a task is flagged several_threads and its threads may run on during "
    "other tasks; source='counted' uses the counts anyway"
)

_NO_SCALE = (
    "the machine of this profile was not calibrated, so its times have no common scale; call "
    "dagprofiler.calibrate() before the run, or take several rounds, which calibrates"
)


@dataclass(frozen=True)
class Weights:
    """The cost of each task, from one source.

    Attributes
    ----------
    values
        Task name to weight, for every task of the DAG.
    unit
        ``"instructions"``, ``"ms"``, or ``"reference ms"``: milliseconds on the reference machine.
    source
        Source of all values, one of `NAMED`.
    statistic
        Statistic of the samples, one of `STATISTICS`; of a single value each is that value.
    provenance
        In words: number of rounds, host and scale.
    filled
        Names of the tasks without a value, whose weight is ``fill``.
    """

    values: dict[str, Number]
    unit: str
    source: str
    statistic: str
    provenance: str
    filled: tuple[str, ...] = ()


def weights_of(
    profile: ProfileData,
    source: str = "best",
    statistic: str = "median",
    *,
    fill: float | None = None,
) -> Weights:
    """Return a weight for every task of a profile, all from one source.

    Parameters
    ----------
    source
        ``"counted"``: instructions by a hardware counter. ``"estimated"``: instructions by the
        cost models. ``"reference_time"``: time without run-queue delay, if that was measured, on
        a scale that machines share. ``"cpu_time"``: CPU time of the task's thread, in ms.
        ``"wall_time"``: in ms. ``"best"``: the first of these, in this order, that has a value
        for every task. ``"time"``: the time that tables show, in ms: wall time, without
        run-queue delay where that was measured.
    statistic
        ``"median"``, ``"mean"``, ``"min"`` or ``"max"`` of the measured samples; ignored for
        estimates.
    fill
        Weight of tasks without a value, in the unit of the source, finite and at least 0; by
        default such tasks raise an error. If no source has a value for every task, ``"best"``
        is then the source that lacks fewest.

    Raises
    ------
    WeightError
        If an argument is unknown or out of its range; if a task has no value from this source
        (a default of 0 is none) and there is no `fill`; if no source that ``"best"`` may choose
        has any value; if reference times have no scale; or if another statistic than the median
        is requested and the profile holds only medians.

    Notes
    -----
    In profiles without ``weight_sources`` (as 0.1.0 wrote them) a node weight of 0 may mean a
    task without a cost model, so it counts as no value, and wall times are those of
    ``execution_metrics``. O(tasks x rounds) time.

    Examples
    --------
    >>> from dagprofiler import DAG, task
    >>> @task(inputs=[], outputs=["x"], estimate_fn=lambda cfg: 100)
    ... def source():
    ...     return {"x": 1}
    >>> weights_of(DAG({"source": source}, []).run(), "estimated").values
    {'source': 100}
    """
    error = partial(WeightError, source, [])
    choice("source", source, ["best", *NAMED], error=error)
    choice("statistic", statistic, [*STATISTICS], error=error)
    if fill is not None:
        number("fill", fill, zero=True, error=error)
    reader = _Reader(profile, statistic)
    if source != "best":
        return reader.weights(source, fill)
    flags = profile.sections.get("statistics", {}).get("flags", {}).values()
    refused, lacking = [], {}
    for name in SOURCES:
        if name == "counted" and any("several_threads" in raised for raised in flags):
            refused.append(f"\n  - {_RUN_ON}")
            continue
        try:
            return reader.weights(name)
        except WeightError as reason:
            refused.append(f"\n  - {reason}")
            if 0 < len(reason.tasks) < len(reader.tasks):
                lacking[name] = len(reason.tasks)
    if fill is not None and lacking:
        return reader.weights(min(lacking, key=lambda name: lacking[name]), fill)
    what = "a value for every task" if fill is None else "a value for any task"
    raise error(f"no source has {what}:{''.join(refused)}")


def known_values(weights: Weights) -> dict[str, Number]:
    """Return the weights of the tasks that have a value."""
    filled = set(weights.filled)
    return {name: value for name, value in weights.values.items() if name not in filled}


def known_weights(profile: ProfileData, source: str, statistic: str, fill: float | None) -> Weights:
    """Return weights of the tasks that have a value, or with `fill` of all tasks."""
    weights = weights_of(profile, source, statistic, fill=0 if fill is None else fill)
    return weights if fill is not None else replace(weights, values=known_values(weights))


def samples_behind(profile: ProfileData, weights: Weights) -> dict[str, list[Number]]:
    """Return the measured samples behind weights of this profile, in the unit of the weights.

    Returns
    -------
    dict of str to list
        At least one number for each task: its weight if there are no samples.

    Raises
    ------
    WeightError
        If the profile has several rounds but not their samples.
    """
    samples = _Reader(profile, "distribution").samples(weights.source)
    return {name: samples.get(name, [value]) for name, value in weights.values.items()}
