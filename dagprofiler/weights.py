"""Weights: one number for each task, all from one source, and the word where they come from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite
from typing import TYPE_CHECKING, Any

from dagprofiler.errors import WeightError, did_you_mean, short_repr
from dagprofiler.sources import SOURCES, STATISTICS, TIMES, Reader, check_finite

if TYPE_CHECKING:
    from dagprofiler.profiledata import ProfileData
    from dagprofiler.sources import Number

__all__ = ["SOURCES", "STATISTICS", "Weights", "samples_behind", "weights_of"]

#: Why ``"best"`` leaves out what is there.
_RUN_ON = (
    "counted: a task is flagged several_threads, and threads that run on after it count into "
    "other tasks; source='counted' takes the counts all the same"
)

_NO_SCALE = (
    "the machine of this profile was not calibrated, so its times have no common scale; call "
    "dagprofiler.calibrate() before the run, take several rounds, which does it, or give rate="
)


@dataclass(frozen=True)
class Weights:
    """What each task costs, by one source.

    Attributes
    ----------
    values
        Task name to weight, for every task of the DAG.
    unit
        ``"instructions"``; ``"ms"``; ``"reference ms"``, which are milliseconds on the reference
        machine; or, for a rate, what it makes of seconds.
    source
        Where all of them come from, one of `SOURCES`.
    statistic
        What was asked for, one of `STATISTICS`. Of a single value each is the value.
    provenance
        In words: how many rounds, under which conditions, on which host, on which scale.
    filled
        Names of the tasks that have no value of their own, but what was given as ``fill``.
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
        ``"counted"``: instructions that a hardware counter saw. ``"estimated"``: what the cost
        models say, in instructions. ``"reference_time"``: time without run-queue delay, where
        that was measured, on a scale that machines share. ``"cpu_time"``: of the task's thread,
        in ms. ``"wall_time"``: as measured, in ms. ``"best"``: the first of these, in this
        order, that has a value for every task.
    statistic
        ``"median"``, ``"mean"``, ``"min"`` or ``"max"`` of the measured samples; estimates have
        none, and take no notice.
    rate
        For reference times: units a second, finite and above 0. By default times are multiplied
        by the calibration score of the machine, which gives milliseconds on the reference
        machine.
    fill
        Weight of the tasks that have no value, in the unit of the source, finite and at least 0;
        by default such tasks are refused. Where no source has a value for every task, ``"best"``
        then is the one that lacks fewest.

    Raises
    ------
    WeightError
        If an argument is unknown or out of its range; if a task has no value from this source,
        a default of 0 being none, and there is no `fill`; if a weight is more than a float
        holds; if no source that ``"best"`` may choose has any value; if reference times have no
        scale; or if the profile has no samples of several rounds, and thus nothing but medians.

    Notes
    -----
    In profiles without ``weight_sources`` (0.1.0 wrote such) a node weight of 0 cannot be told
    from a task without a cost model, so that it is refused, and wall times are those of
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
    _check_arguments(source, statistic, rate)
    _check_fill(source, fill)
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
        except WeightError as error:
            refused.append(f"\n  - {error}")
            if 0 < len(error.tasks) < len(profile.dag_structure["nodes"]):
                lacking[name] = len(error.tasks)
    if fill is not None and lacking:
        return _from_source(reader, min(lacking, key=lacking.__getitem__), rate, fill)
    what = "one for every task" if fill is None else "any that could be filled up"
    raise WeightError(source, [], f"no source has {what}:{''.join(refused)}")


def samples_behind(profile: ProfileData, weights: Weights) -> dict[str, list[Number]]:
    """Return the measured samples that weights are a statistic of, in the weights' unit.

    Parameters
    ----------
    weights
        Of this profile, without a rate.

    Returns
    -------
    dict of str to list
        At least one number a task: where there are no samples, its weight.

    Raises
    ------
    WeightError
        If the profile has several rounds, but not their samples.
    """
    source = weights.source
    single = {name: [value] for name, value in weights.values.items()}
    if source == "estimated":
        return single
    reader = Reader(profile, "median")
    own = single.keys() - set(weights.filled)
    columns = ["corrected_ms", "wall_ms"] if source == "reference_time" else []
    for column in columns or [SOURCES[source].column]:
        samples = reader.samples(column)
        if all(name in samples for name in own):
            break
    else:
        reader.check_samples(source, "distribution")
        return single
    calibration = reader.calibration() if source == "reference_time" else None
    factor = 1 if calibration is None else calibration.score
    return {**single, **{name: [value * factor for value in samples[name]] for name in own}}


def _check_arguments(source: Any, statistic: Any, rate: Any) -> None:
    sources, statistics = ["best", *SOURCES], list(STATISTICS)
    for value, known, what in ((source, sources, "source"), (statistic, statistics, "statistic")):
        if value not in known:
            words = ", ".join(map(repr, known))
            hint = did_you_mean(value, known)
            raise WeightError(
                source, [], f"{what} must be one of {words}, got {short_repr(value)}{hint}"
            )
    if rate is None:
        return
    if source not in ("best", "reference_time"):
        raise WeightError(source, [], f"rate={short_repr(rate)} is for source='reference_time'")
    try:
        valid = not isinstance(rate, bool) and rate > 0 and isfinite(rate)
    except (OverflowError, TypeError, ValueError):
        valid = False
    if not valid:
        raise WeightError(
            source, [], f"rate must be a finite number above 0, got {short_repr(rate)}"
        )


def _check_fill(source: str, fill: Any) -> None:
    if fill is None:
        return
    try:
        valid = not isinstance(fill, bool) and fill >= 0 and isfinite(fill)
    except (OverflowError, TypeError, ValueError):
        valid = False
    if not valid:
        raise WeightError(
            source, [], f"fill must be a finite number of at least 0, got {short_repr(fill)}"
        )


def _from_source(
    reader: Reader, source: str, rate: float | None, fill: float | None = None
) -> Weights:
    """Return the weights from one source; without `fill` every task has to have a value."""
    reader.lenient = fill is not None
    try:
        found = _found_in(reader, source, rate)
    finally:
        reader.lenient = False
    filled = tuple(name for name in reader.tasks if name not in found.values)
    if fill is None or not filled:
        return found
    values = {name: found.values.get(name, fill) for name in reader.tasks}
    return replace(found, values=values, filled=filled)


def _found_in(reader: Reader, source: str, rate: float | None) -> Weights:
    if source == "reference_time":
        return _reference_time(reader, rate)
    _, column, unit, words = SOURCES[source]
    values = reader.values(source)
    if source == "estimated":
        provenance = "what the cost models of the tasks say; none of it is measured"
    else:
        provenance = reader.provenance(words, column)
    if unit == "instructions":
        # Half an instruction is what a median of two makes, not what a processor does.
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
        scale = (
            f"times this machine's calibration score of {factor:.4g} "
            f"(known to {calibration.spread:.1%}, kernel version {calibration.kernel_version}), "
            "which gives ms on the reference machine"
        )
    else:
        raise WeightError("reference_time", [], _NO_SCALE)
    times_ms, column = reader.times_ms(calibration)
    values = {name: time_ms * factor for name, time_ms in times_ms.items()}
    check_finite("reference_time", values, "" if rate is None else f" at rate={short_repr(rate)}")
    provenance = f"{reader.provenance(TIMES[column], column)}; {scale}"
    return Weights(values, unit, "reference_time", reader.statistic, provenance)
