"""Weights: one number for each task, all from one source, with unit and provenance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import fsum, inf
from typing import Any, Callable, NamedTuple, Union

from dagprofiler._document import Calibration, ProfileData
from dagprofiler._document.table import default_times, entries_of_tasks
from dagprofiler._util.checks import choice, number
from dagprofiler.errors import WeightError, short_repr
from dagprofiler.stats import median

Number = Union[int, float]


class Source(NamedTuple):
    """The places of a source in a profile: candidate in ``weight_sources``, column of samples."""

    candidate: str
    column: str
    unit: str
    words: str


#: Where weights can come from, in the order in which ``"best"`` tries them: instructions are
#: the same on a busy machine, reference times apply to other machines, CPU times leave out all
#: waiting, and wall times include waiting for a core.
SOURCES = {
    "counted": Source(
        "counted_instructions", "instructions", "instructions", "counted instructions"
    ),
    "estimated": Source("estimated_instructions", "", "instructions", ""),
    "reference_time": Source("reference_time_ms", "corrected_ms", "reference ms", ""),
    "cpu_time": Source("cpu_time_ms", "cpu_ms", "ms", "CPU time of the task's thread"),
    "wall_time": Source("wall_time_ms", "wall_ms", "ms", "wall time"),
}

#: The one time of a task, wherever one time is shown, as
#: :func:`dagprofiler._document.table.default_times` returns it.
_TIME = Source("", "time", "ms", "wall time, without run-queue delay where that was measured")

#: Every source that can be asked for by name.
NAMED = {"time": _TIME, **SOURCES}

#: Column of samples to the name of its times.
TIMES = {"corrected_ms": "wall time without run-queue delay", "wall_ms": "wall time"}


def _mean(values: Sequence[Number]) -> float:
    try:
        return fsum(values) / len(values)
    except OverflowError:
        return inf


#: Statistics of a task's samples.
STATISTICS: dict[str, Callable[[Sequence[Number]], Number]] = {
    "median": median,
    "mean": _mean,
    "min": min,
    "max": max,
}

_NO_SOURCES = "the profile holds no weight_sources, and {}"


def check_finite(source: str, values: Mapping[str, Number], at: str = "") -> None:
    """Raise a WeightError if a weight overflows a float; `at` names the rate."""
    # Integer weights may have any size.
    beyond = [name for name, value in values.items() if not value < inf]
    if beyond:
        raise WeightError(source, beyond, f"the weight{at} is more than a float holds")


def times_of_tasks(profile: ProfileData) -> dict[str, float]:
    """Return the time of each task in all its phases, in milliseconds."""
    entries = entries_of_tasks(profile)
    phases = "compute_time_ms", "serialize_time_ms", "deserialize_time_ms"
    return {
        name: sum(getattr(entry, phase) or 0.0 for phase in phases)
        for name, entry in entries.items()
    }


class Reader:
    """Reads one statistic of each task from a profile."""

    def __init__(self, profile: ProfileData, statistic: str) -> None:
        self.statistic = statistic
        #: Whether tasks without a value may be left out.
        self.lenient = False
        self._profile, self._samples = profile, profile.samples
        self.tasks: list[str] = profile.dag_structure["nodes"]
        sources: Mapping[str, Mapping[str, Any]] | None = profile.sections.get("weight_sources")
        self._sources, rounds = sources, profile.run.rounds
        # Profiles without rounds come from one run.
        self._rounds = 1 if rounds is None else rounds
        if self._samples.rounds:
            self._rounds = len(self._samples.measured)

    def threads_run_on(self) -> bool:
        """Return whether a task is flagged for threads, which count towards other tasks too."""
        flags = self._profile.sections.get("statistics", {}).get("flags", {})
        return any("several_threads" in raised for raised in flags.values())

    def calibration(self) -> Calibration | None:
        """Return the calibration of the profile's machine, if there is one."""
        calibration = self._profile.environment.calibration
        return None if calibration is None else Calibration.from_dict(calibration)

    def times_ms(self, calibration: Calibration | None) -> tuple[dict[str, Number], str]:
        """Return the times behind reference times, and their column of samples."""
        corrected = self._from_samples("reference_time", "corrected_ms")
        if corrected and len(corrected) == len(self.tasks):
            return corrected, "corrected_ms"
        if not self._samples.rounds and self._rounds > 1 and calibration:
            # Without samples, only reference times still exclude run-queue delay.
            known = self._present(self._single("reference_time_ms"))
            if known and (self.lenient or len(known) == len(self.tasks)):
                self.check_samples("reference_time", self.statistic)
                return {n: value / calibration.score for n, value in known.items()}, "corrected_ms"
        try:
            walls = self.values("wall_time")
        except WeightError as error:
            raise WeightError("reference_time", error.tasks, error.reason) from None
        if corrected and len(corrected) >= len(walls):
            return corrected, "corrected_ms"
        return walls, "wall_ms"

    def values(self, source: str) -> dict[str, Number]:
        """Return a value for every task; raise a WeightError if a task has none."""
        candidate, column, _, _ = NAMED[source]
        sampled = self._from_samples(source, column)
        if sampled is not None and len(sampled) == len(self.tasks):
            return sampled
        found = self._present(self._single(candidate))
        if self.lenient:
            if sampled and len(sampled) >= len(found):
                return sampled
        elif len(found) < len(self.tasks):
            missing = [name for name in self.tasks if name not in found]
            reasons = (self._reason(n, candidate or "wall_time_ms", column) for n in missing[:5])
            raise WeightError(source, missing, "; ".join(dict.fromkeys(reasons)))
        if found and source != "estimated":
            self.check_samples(source, self.statistic)
        return found

    def samples(self, column: str) -> dict[str, list[Number]]:
        """Return the measured samples in a column, for the tasks that have any."""
        if not self._samples.rounds:
            return {}
        if column == _TIME.column:
            return {**self.samples("wall_ms"), **self.samples("corrected_ms")}
        measured = ((name, self._samples.of(name, column)) for name in self.tasks)
        return {name: values for name, values in measured if values}

    def _from_samples(self, source: str, column: str) -> dict[str, Number] | None:
        """Return the statistic of a column, for the tasks that have samples in it."""
        # The median time is the one that the profile's statistics and tables have.
        is_shown = column == _TIME.column and self.statistic == "median"
        if not self._samples.rounds or not column or is_shown:
            return None
        of = STATISTICS[self.statistic]
        found = {name: of(values) for name, values in self.samples(column).items()}
        check_finite(source, found)
        return found

    def _single(self, candidate: str) -> dict[str, Any]:
        """Return the single value that the profile holds for each task, or None."""
        if not candidate:
            return {name: time.median_ms for name, time in default_times(self._profile).items()}
        estimated = candidate == "estimated_instructions"
        if not self._rounds and not estimated:
            return {}
        found: dict[str, Any] = {}
        if candidate == "wall_time_ms":
            entries = entries_of_tasks(self._profile)
            found = {name: entry.compute_time_ms for name, entry in entries.items()}
        if self._sources is not None:
            own = {n: entry[candidate] for n, entry in self._sources.items() if candidate in entry}
            return {**found, **own}
        if estimated:
            weights = self._profile.metrics.node_weights
            return {name: weight for name, weight in weights.items() if weight > 0}
        return found

    def _present(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {n: values[n] for n in self.tasks if values.get(n) is not None}

    def check_samples(self, source: str, what: str) -> None:
        """Raise a WeightError if `what` needs samples and the profile holds only medians."""
        if what != "median" and self._rounds != 1:
            reason = (
                f"the {what} needs samples of every task, and the profile holds only "
                f"medians of {self._rounds} rounds; statistic='median' returns them"
            )
            raise WeightError(source, [], reason)

    def _reason(self, name: str, candidate: str, column: str) -> str:
        if not self._rounds and column:
            return "no round was measured"
        if self._sources is None:
            if not column:
                return _NO_SOURCES.format("a node weight of 0 may mean a missing cost model")
            if candidate == "wall_time_ms":
                return _NO_SOURCES.format("execution_metrics has no entry of that name")
        own = self._sources.get(name, {}).get("reasons", {}) if self._sources else {}
        general = self._profile.environment.not_measured
        for reasons, key in ((own, candidate), (general, candidate), (general, column)):
            if key in reasons:
                return str(reasons[key])
        return f"the profile holds no {candidate}"

    def provenance(self, words: str, column: str) -> str:
        """Return `words` with the number of rounds, the host and the conditions."""
        if "prediction" in self._profile.sections:
            return f"{words}, predicted and not measured"
        counts = {len(values) for values in self.samples(column).values()} or {self._rounds}
        count = " to ".join(map(str, sorted({min(counts), max(counts)})))
        rounds = "one round" if count == "1" else f"{self.statistic} of {count} measured rounds"
        conditions = self._profile.run.conditions
        if self._profile.run.is_partial:
            rounds += " of a partial run"
        fresh = ", each in a process of its own" if conditions.get("fresh_process") else ""
        busy = conditions.get("busy_cores", 0)
        load = f", {busy} other core{'s' if busy > 1 else ''} kept busy" if busy else ""
        host = self._profile.hostname
        where = "an unknown host" if host is None else f"host {host!r}"
        return f"{words}, {rounds} on {where}{fresh}{load}"


#: Why ``"best"`` skips counted instructions.
_RUN_ON = (
    "counted: skipped, since a task is flagged several_threads and its threads may run on during "
    "other tasks; source='counted' uses the counts anyway"
)

_NO_SCALE = (
    "the machine of this profile was not calibrated, so its times have no common scale; call "
    "dagprofiler.calibrate() before the run, take several rounds (which calibrates), or give rate="
)


@dataclass(frozen=True)
class Weights:
    """The cost of each task, from one source.

    Attributes
    ----------
    values
        Task name to weight, for every task of the DAG.
    unit
        ``"instructions"``; ``"ms"``; ``"reference ms"``, milliseconds on the reference machine;
        or, with a rate, ``"reference units (... a second)"``.
    source
        Source of all values, one of `NAMED`.
    statistic
        Statistic of the samples, one of `STATISTICS`; of a single value each is that value.
    provenance
        In words: number of rounds, conditions, host and scale.
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
    rate: float | None = None,
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
    rate
        For reference times: units a second, finite and above 0. By default times are multiplied
        by the calibration score of the machine, which gives milliseconds on the reference
        machine.
    fill
        Weight of tasks without a value, in the unit of the source, finite and at least 0; by
        default such tasks raise an error. If no source has a value for every task, ``"best"``
        is then the source that lacks fewest.

    Raises
    ------
    WeightError
        If an argument is unknown or out of its range; if a task has no value from this source
        (a default of 0 is none) and there is no `fill`; if a weight overflows a float; if no
        source that ``"best"`` may choose has any value; if reference times have no scale; or if
        another statistic than the median is requested and the profile holds only medians.

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
    if rate is not None:
        if source not in ("best", "reference_time"):
            raise error(f"rate={short_repr(rate)} is for source='reference_time'")
        number("rate", rate, error=error)
    if fill is not None:
        number("fill", fill, zero=True, error=error)
    reader = Reader(profile, statistic)
    if source != "best":
        return _from_source(reader, source, rate, fill)
    refused, lacking = [], {}
    for name in SOURCES:
        if name == "counted" and reader.threads_run_on():
            refused.append(f"\n  - {_RUN_ON}")
            continue
        try:
            return _from_source(reader, name, rate)
        except WeightError as reason:
            refused.append(f"\n  - {reason}")
            if 0 < len(reason.tasks) < len(profile.dag_structure["nodes"]):
                lacking[name] = len(reason.tasks)
    if fill is not None and lacking:
        return _from_source(reader, min(lacking, key=lacking.__getitem__), rate, fill)
    what = "a value for every task" if fill is None else "a value for any task"
    raise error(f"no source has {what}:{''.join(refused)}")


def known_values(weights: Weights) -> dict[str, Number]:
    """Return the weights of the tasks that have a value."""
    filled = set(weights.filled)
    return {name: value for name, value in weights.values.items() if name not in filled}


def known_weights(profile: ProfileData, source: str, statistic: str, fill: float | None) -> Weights:
    """Return weights of the tasks that have a value; with `fill` of all."""
    found = weights_of(profile, source, statistic, fill=0 if fill is None else fill)
    return found if fill is not None else replace(found, values=known_values(found))


def samples_behind(profile: ProfileData, weights: Weights) -> dict[str, list[Number]]:
    """Return the measured samples behind weights, in the unit of the weights.

    Parameters
    ----------
    weights
        Weights of this profile, without a rate.

    Returns
    -------
    dict of str to list
        At least one number for each task: its weight if there are no samples.

    Raises
    ------
    WeightError
        If the profile has several rounds but not their samples.
    """
    source = weights.source
    single = {name: [value] for name, value in weights.values.items()}
    if source == "estimated":
        return single
    reader = Reader(profile, "median")
    own = single.keys() - set(weights.filled)
    columns = ["corrected_ms", "wall_ms"] if source == "reference_time" else []
    for column in columns or [NAMED[source].column]:
        samples = reader.samples(column)
        if all(name in samples for name in own):
            break
    else:
        reader.check_samples(source, "distribution")
        return single
    calibration = reader.calibration() if source == "reference_time" else None
    factor = 1 if calibration is None else calibration.score
    return {**single, **{name: [value * factor for value in samples[name]] for name in own}}


def _from_source(
    reader: Reader, source: str, rate: float | None, fill: float | None = None
) -> Weights:
    """Return the weights from one source; without `fill` every task must have a value."""
    reader.lenient = fill is not None
    found = _found_in(reader, source, rate)
    filled = tuple(name for name in reader.tasks if name not in found.values)
    if fill is None or not filled:
        return found
    values = {name: found.values.get(name, fill) for name in reader.tasks}
    return replace(found, values=values, filled=filled)


def _found_in(reader: Reader, source: str, rate: float | None) -> Weights:
    if source == "reference_time":
        return _reference_time(reader, rate)
    _, column, unit, words = NAMED[source]
    values = reader.values(source)
    if source == "estimated":
        provenance = "what the cost models of the tasks say; none of it is measured"
    else:
        provenance = reader.provenance(words, column)
    if unit == "instructions":
        # A median of two samples may be half an instruction.
        values = {name: round(value) for name, value in values.items()}
    return Weights(values, unit, source, reader.statistic, provenance)


def _reference_time(reader: Reader, rate: float | None) -> Weights:
    calibration = reader.calibration()
    if rate is not None:
        rate = float(rate)
        factor, unit = rate / 1e3, f"reference units ({rate:g} a second)"
        scale = f"seconds times the declared rate of {rate:g} a second"
    elif calibration is not None:
        factor, unit = calibration.score, SOURCES["reference_time"].unit
        taken = "" if calibration.taken_at is None else f", taken at {calibration.taken_at}"
        scale = (
            f"times this machine's calibration score of {factor:.4g} "
            f"(known to {calibration.spread:.1%}, kernel version {calibration.kernel_version}"
            f"{taken}), which gives ms on the reference machine"
        )
    else:
        raise WeightError("reference_time", [], _NO_SCALE)
    times_ms, column = reader.times_ms(calibration)
    values = {name: time_ms * factor for name, time_ms in times_ms.items()}
    check_finite("reference_time", values, "" if rate is None else f" at rate={short_repr(rate)}")
    provenance = f"{reader.provenance(TIMES[column], column)}; {scale}"
    return Weights(values, unit, "reference_time", reader.statistic, provenance)
