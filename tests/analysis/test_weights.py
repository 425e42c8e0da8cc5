import pytest
from handmade import handmade

from dagprofiler import DAG, Profile, TaskMetrics
from dagprofiler.analysis.weights import SOURCES, samples_behind, times_of_tasks, weights_of
from dagprofiler.errors import WeightError

CALIBRATION = {"score": 2.0, "parts": {"python": 2.0}, "spread": 0.01, "kernel_version": 1}

#: Of two warm-up rounds and four measured ones.
COLUMNS = {
    "a": {
        "wall_ms": [99.0, 98.0, 4.0, 2.0, 9.0, 5.0],
        "corrected_ms": [90.0, 80.0, 4.0, 2.0, 6.0, 4.0],
        "cpu_ms": [90.0, 80.0, 3.0, 1.0, 2.0, 2.0],
        "instructions": [9, 8, 100, 101, 103, 104],
    },
    "b": {
        "wall_ms": [99.0, 98.0, 10.0, 20.0, 30.0, None],
        "corrected_ms": [99.0, 98.0, 10.0, 20.0, 30.0, None],
        "cpu_ms": [90.0, 80.0, 1.0, 2.0, 3.0, None],
        "instructions": [9, 8, 1000, 2000, 3000, None],
    },
}


ROUNDS = "median of 4 measured rounds"


def sources(estimated=50, **values):
    entry = {"node_weight": "estimated_instructions", "estimated_instructions": estimated}
    if estimated is None:
        reasons = {"estimated_instructions": "the task has no cost model"}
        entry.update(node_weight="default", reasons=reasons)
    return {**entry, **values}


def profile_of(weight_sources, *, rounds=1, weights=None, **sections):
    """A profile with only what weights are read from."""
    names = list(weight_sources if weights is None else weights)
    sections.setdefault("run", {"state": "complete", "rounds": rounds})
    if weights is None:
        weights = {n: e.get("estimated_instructions") or 0 for n, e in weight_sources.items()}
        sections["weight_sources"] = weight_sources
    made = handmade(names, weights=weights, hostname="lab-7", sections=sections)
    return Profile.loads(made.dumps())


def sampled(columns=("wall_ms", "corrected_ms", "cpu_ms", "instructions"), **sections):
    kinds = ["cold", "warm_up", *["measured"] * 4]
    tasks = {name: {c: row[c] for c in columns} for name, row in COLUMNS.items()}
    samples = {"rounds": kinds, "total_ms": [1.0] * 6, "tasks": tasks, "edges": {}}
    sections.setdefault("environment", {"calibration": CALIBRATION})
    return profile_of({"a": sources(), "b": sources(70)}, samples=samples, rounds=4, **sections)


@pytest.mark.parametrize(
    ("source", "unit", "medians", "a", "b"),
    [
        # A median of two counts is no half instruction.
        ("counted", "instructions", (102, 2000), [100, 101, 103, 104], [1000, 2000, 3000]),
        ("estimated", "instructions", (50, 70), [50], [70]),
        ("reference_time", "reference ms", (8.0, 40.0), [8.0, 4, 12, 8], [20.0, 40, 60]),
        ("cpu_time", "ms", (2.0, 2.0), [3.0, 1, 2, 2], [1.0, 2, 3]),
        ("wall_time", "ms", (4.5, 20.0), [4.0, 2, 9, 5], [10.0, 20, 30]),
    ],
)
def test_each_source_gives_medians_in_its_unit(source, unit, medians, a, b):
    weights = weights_of(sampled(), source)
    assert [*weights.values.items()] == [*zip("ab", medians)]
    assert (weights.unit, weights.source, weights.statistic) == (unit, source, "median")
    assert {*map(type, weights.values.values())} == {type(medians[0])}
    assert samples_behind(sampled(), weights) == {"a": a, "b": b}


@pytest.mark.parametrize(
    ("statistic", "a", "b"), [("mean", 5.0, 20.0), ("min", 2.0, 10.0), ("max", 9.0, 30.0)]
)
def test_other_statistics_are_of_the_measured_samples(statistic, a, b):
    weights = weights_of(sampled(), "wall_time", statistic)
    assert (weights.values, weights.statistic) == ({"a": a, "b": b}, statistic)
    assert weights.provenance == f"wall time, {statistic} of 4 measured rounds on host 'lab-7'"
    # Counts stay whole, and estimates have no samples.
    assert weights_of(sampled(), "counted", "mean").values == {"a": 102, "b": 2000}
    assert weights_of(sampled(), "estimated", statistic).values == {"a": 50, "b": 70}


def test_provenance_names_a_partial_run():
    said = weights_of(sampled(run={"state": "partial", "rounds": 4}), "wall_time").provenance
    assert f"{ROUNDS} of a partial run" in said


def test_times_of_two_machines_are_on_one_scale_by_their_scores():
    slow = sampled(environment={"calibration": {**CALIBRATION, "score": 0.5}})
    fast = weights_of(sampled(), "reference_time")
    assert "calibration score of 2" in fast.provenance
    assert weights_of(slow, "reference_time").values == {n: v / 4 for n, v in fast.values.items()}
    with pytest.raises(WeightError, match=r"dagprofiler\.calibrate\(\) before the run"):
        weights_of(sampled(environment={}), "reference_time")


def test_reference_times_without_delays_are_wall_times():
    weights = weights_of(sampled(["wall_ms"]), "reference_time")
    assert weights.values == {"a": 9.0, "b": 40.0}
    assert weights.provenance.startswith("wall time, without run-queue delay where")
    # Times with and without delay are not mixed.
    profile = sampled()
    profile.sections["samples"]["tasks"]["b"]["corrected_ms"] = [None] * 6
    assert weights_of(profile, "reference_time").values == {"a": 9.0, "b": 40.0}


def test_reference_times_need_no_samples():
    environment = {"calibration": CALIBRATION}
    entry = sources(wall_time_ms=3.0, reference_time_ms=6.0)
    profile = profile_of({"a": entry}, environment=environment)
    weights = weights_of(profile, "reference_time", "max")
    assert weights.values == {"a": 6.0}
    entry = sources(wall_time_ms=5.0, reference_time_ms=6.0)
    profile = profile_of({"a": entry}, rounds=8, environment=environment)
    weights = weights_of(profile, "reference_time")
    assert weights.values == {"a": 6.0}
    assert weights.provenance.startswith("wall time, without run-queue delay where")
    with pytest.raises(WeightError, match="the mean needs samples"):
        weights_of(profile, "reference_time", "mean")


def test_best_takes_the_first_complete_trusted_source():
    profile = sampled()
    assert list(SOURCES) == ["counted", "estimated", "reference_time", "cpu_time", "wall_time"]
    assert weights_of(profile) == weights_of(profile, "counted")
    profile.sections["samples"]["tasks"]["b"]["instructions"] = [None] * 6
    assert weights_of(profile) == weights_of(profile, "estimated")
    profile.sections["weight_sources"]["a"] = sources(None)
    assert weights_of(profile) == weights_of(profile, "reference_time")
    del profile.sections["environment"]["calibration"]
    assert weights_of(profile) == weights_of(profile, "cpu_time")
    profile.sections["samples"]["tasks"]["a"]["cpu_ms"][2:] = [None] * 4
    assert weights_of(profile) == weights_of(profile, "wall_time")
    flagged = sampled(statistics={"flags": {"a": ["short", "several_threads"]}})
    assert weights_of(flagged).source == "estimated"
    assert weights_of(flagged, "counted").source == "counted"
    assert weights_of(sampled(statistics={"flags": {"a": ["short"]}})).source == "counted"


def test_a_default_of_0_is_no_weight():
    profile = profile_of({"a": sources(None), "b": sources(0), "c": sources(None)})
    with pytest.raises(WeightError, match=r"'estimated': .*'a', 'c': .*cost model") as caught:
        weights_of(profile, "estimated")
    assert (caught.value.source, caught.value.tasks) == ("estimated", ["a", "c"])


def test_a_missing_weight_says_why():
    for key in ("counted_instructions", "instructions"):
        environment = {"not_measured": {key: "no hardware counters on this machine"}}
        with pytest.raises(WeightError, match=r"'a': .*no hardware counters"):
            weights_of(profile_of({"a": sources()}, environment=environment), "counted")
    unfinished = sources(wall_time_ms=None, reasons={"wall_time_ms": "the task did not finish"})
    profile = profile_of({"a": sources(wall_time_ms=1.0), "b": unfinished})
    with pytest.raises(WeightError, match=r"'b': .*not finish"):
        weights_of(profile, "wall_time", "mean")
    profile = profile_of({"a": sources(wall_time_ms=1.0)}, rounds=0)
    with pytest.raises(WeightError, match="'a': no round"):
        weights_of(profile, "wall_time")
    assert weights_of(profile).source == "estimated"


def test_one_round_has_one_value_whatever_the_statistic():
    entry = sources(wall_time_ms=3.0, counted_instructions=7)
    profile, medians = profile_of({"a": entry}), profile_of({"a": entry}, rounds=6)
    for statistic in ("median", "mean", "min", "max"):
        weights = weights_of(profile, "wall_time", statistic)
        assert weights.values == {"a": 3.0}
        assert samples_behind(profile, weights) == {"a": [3.0]}
        assert weights_of(profile, "counted", statistic).values == {"a": 7}
    assert weights_of(medians, "wall_time").values == {"a": 3.0}
    with pytest.raises(WeightError, match="distribution needs samples"):
        samples_behind(medians, weights_of(medians, "wall_time"))
    with pytest.raises(WeightError, match="6 rounds; statistic='median'"):
        weights_of(medians, "wall_time", "mean")


def without_sources(*names):
    """Return a profile that lacks the sources of weights, with times of tasks of these names."""
    profile = profile_of(None, weights={"a": 5, "b": 6})
    entries = [TaskMetrics(name, float(i), 0, 0, 0, 0) for i, name in enumerate(names, 1)]
    profile.metrics.task_metrics += entries
    del profile.sections["run"]
    return profile


def test_weights_of_a_profile_without_weight_sources():
    profile = without_sources("a", "b")
    assert weights_of(profile, "wall_time", "mean").values == {"a": 1.0, "b": 2.0}
    assert weights_of(profile, "estimated").values == {"a": 5, "b": 6}
    for weight in (0, -3):
        profile.metrics.node_weights["b"] = weight
        with pytest.raises(WeightError, match="'b': it has no estimated_instructions"):
            weights_of(profile, "estimated")
    profile = without_sources("b")
    assert times_of_tasks(profile) == {"b": 1.0}
    with pytest.raises(WeightError, match="'a': it has no wall_time_ms"):
        weights_of(profile, "wall_time")


def test_fill_is_for_tasks_without_a_value():
    profile = profile_of({"a": sources(None), "b": sources(60), "c": sources(0)})
    weights = weights_of(profile, "estimated", fill=7.5)
    assert weights.values == {"a": 7.5, "b": 60, "c": 0}
    assert list(weights.values) == ["a", "b", "c"]
    assert weights.filled == ("a",)
    assert profile.weights("estimated", fill=0).values == {"a": 0, "b": 60, "c": 0}
    profile = sampled()
    profile.sections["samples"]["tasks"]["b"].update(corrected_ms=[None] * 6, wall_ms=[None] * 6)
    weights = weights_of(profile, "reference_time", fill=3)
    assert weights.values == {"a": 8.0, "b": 3}


def test_a_task_without_samples_has_the_median_of_the_profile():
    profile = sampled(["wall_ms"])
    profile.sections["samples"]["tasks"]["b"]["wall_ms"] = [None] * 6
    assert weights_of(profile, "wall_time", "max", fill=1.5).values == {"a": 9.0, "b": 1.5}
    weights = weights_of(profile, "wall_time", fill=2)
    assert weights.values == {"a": 4.5, "b": 2}
    assert samples_behind(profile, weights) == {"a": [4.0, 2.0, 9.0, 5.0], "b": [2]}
    profile.sections["weight_sources"]["b"]["wall_time_ms"] = 4.0
    assert weights_of(profile, "wall_time").values == {"a": 4.5, "b": 4.0}
    with pytest.raises(WeightError, match="mean needs samples"):
        weights_of(profile, "wall_time", "mean", fill=1)


def test_best_with_fill_takes_the_source_that_lacks_fewest():
    entries = {
        "a": sources(None, wall_time_ms=1.0),
        "b": sources(None, wall_time_ms=2.0),
        "c": sources(5),
    }
    weights = weights_of(profile_of(entries), fill=9)
    assert (weights.source, weights.values) == ("wall_time", {"a": 1.0, "b": 2.0, "c": 9})
    entries["a"] = sources(4)
    del entries["b"]["wall_time_ms"]
    weights = weights_of(profile_of(entries), fill=9)
    assert (weights.source, weights.values) == ("estimated", {"a": 4, "b": 9, "c": 5})
    with pytest.raises(WeightError, match="none for 'a': the task has no cost model") as caught:
        weights_of(profile_of({"a": sources(None)}))
    assert [line.split("'")[1] for line in str(caught.value).splitlines()[1:]] == list(SOURCES)
    assert weights_of(DAG({}).run()).values == {}
