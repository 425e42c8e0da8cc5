import pytest
from handmade import handmade

from dagprofiler import DAG, Profile, task
from dagprofiler.analysis.compare import compare_profiles
from dagprofiler.stats.ranktests import FASTER, INCONCLUSIVE, NO_DIFFERENCE, SLOWER

CALIBRATION = {"score": 2.0, "parts": {"python": 2.0}, "spread": 0.01, "kernel_version": 1}
FRESH = {"fresh_process": True, "busy_cores": 0, "collect_garbage": "rounds"}
TEN = [10.0 + i / 100 for i in range(10)]


def profile_of(tasks, edges=None, *, kinds=None, conditions=FRESH, host="lab-7", **environment):
    """A profile of several rounds, with only what comparing looks at."""
    edges = edges or {}
    columns = [column for row in (*tasks.values(), *edges.values()) for column in row.values()]
    kinds = kinds or ["measured"] * max(map(len, columns), default=10)
    samples = {"rounds": kinds, "total_ms": [1.0] * len(kinds), "tasks": tasks, "edges": edges}
    run = {"state": "complete", "rounds": kinds.count("measured")}
    sections = {
        "samples": samples,
        "run": run if conditions is None else {**run, "conditions": conditions},
        "environment": {"cpu": "some cpu", "machine": "x86_64", **environment},
    }
    pairs = [key.split("->") for key in edges]
    return Profile.loads(handmade(tasks, edges=pairs, hostname=host, sections=sections).dumps())


def timed(factor=1.0, **settings):
    return profile_of({"a": {"wall_ms": [factor * time for time in TEN]}}, **settings)


def task_a(mine, theirs, **how):
    return compare_profiles(mine, theirs, **how)["task_times"]["a"]


@pytest.mark.parametrize(
    ("factor", "verdict"),
    [(1.2, SLOWER), (0.8, FASTER), (1.0, NO_DIFFERENCE), (1.01, NO_DIFFERENCE)],
)
@pytest.mark.parametrize("paired", [False, True])
def test_rounds_in_fresh_processes_and_rounds_in_pairs_get_verdicts(factor, verdict, paired):
    conditions = {**FRESH, "fresh_process": not paired}
    mine, theirs = timed(factor, conditions=conditions), timed(conditions=conditions)
    entry = task_a(mine, theirs, paired=paired)
    assert list(entry)[:4] == ["quantity", "base_ms", "new_ms", "ratio"]
    assert entry["new_ms"] / entry["base_ms"] == pytest.approx(factor)
    assert (entry["verdict"], entry["quantity"]) == (verdict, "wall_ms")
    assert entry["ratio"] == pytest.approx(factor)
    assert entry["low"] <= entry["ratio"] <= entry["high"]
    assert entry["coverage"] > 0.95
    assert "after Holm's correction for 1 comparison" in entry["reason"]
    back = task_a(theirs, mine, paired=paired)
    opposite = {SLOWER: FASTER, FASTER: SLOWER}
    assert back["verdict"] == opposite.get(verdict, verdict)
    assert entry["ratio"] * back["ratio"] == pytest.approx(1.0)
    assert entry["low"] * back["high"] == pytest.approx(1.0)
    assert task_a(mine, mine, paired=paired)["verdict"] == NO_DIFFERENCE


def test_tasks_and_edges_are_families_of_their_own():
    rows = {f"t{i}": {"wall_ms": TEN} for i in range(4)}
    parts = {"serialize_ms": TEN, "deserialize_ms": TEN}
    profile = profile_of(rows, {"t0->t1": parts, "t1->t2": parts})
    result = compare_profiles(profile, profile)
    assert result["task_times"]["t0"]["reason"].endswith("for 4 comparisons")
    assert result["total_time"]["reason"].endswith("for 1 comparison")
    assert result["edge_times"]["t0->t1"]["reason"].endswith("for 2 comparisons")
    many = profile_of({f"t{i}": {"wall_ms": TEN[:6]} for i in range(60)})
    entry = compare_profiles(many, many)["task_times"]["t7"]
    assert entry["verdict"] == INCONCLUSIVE
    assert entry["reason"].startswith("6 rounds are too few for 60 comparisons: at least")


def test_times_without_delay_are_compared_if_both_have_them_and_edges_by_both_ends():
    slow = {"wall_ms": [3 * time for time in TEN], "corrected_ms": TEN}
    both = {"wall_ms": TEN, "corrected_ms": [2 * time for time in TEN]}
    entry = task_a(profile_of({"a": slow}), profile_of({"a": both}))
    assert (entry["quantity"], entry["ratio"]) == ("corrected_ms", 0.5)
    for lacking in ({"wall_ms": TEN}, {"wall_ms": TEN, "corrected_ms": [None] * 10}):
        entry = task_a(profile_of({"a": slow}), profile_of({"a": lacking}))
        assert (entry["quantity"], entry["ratio"]) == ("wall_ms", pytest.approx(3.0))
    edge = {"serialize_ms": [1.0, 5.0, None, 2.0], "deserialize_ms": [3.0, 1.0, 9.0, None]}
    other = {"serialize_ms": [1.0] * 4, "deserialize_ms": [1.0] * 4}
    ends = {"a": {"wall_ms": [1.0] * 4}, "b": {"wall_ms": [1.0] * 4}}
    mine, theirs = profile_of(ends, {"a->b": edge}), profile_of(ends, {"a->b": other})
    entry = compare_profiles(mine, theirs)["edge_times"]["a->b"]
    assert (entry["quantity"], entry["ratio"]) == ("transfer_ms", 2.5)


def test_only_what_has_measured_samples_on_both_sides_is_compared():
    one, none = {"wall_ms": [1.0]}, {"wall_ms": [None]}
    nothing = {"serialize_ms": [1.0], "deserialize_ms": [None]}
    something = {"serialize_ms": [1.0], "deserialize_ms": [1.0]}
    mine = profile_of({"a": one, "b": none, "c": one}, {"a->b": nothing, "b->c": something})
    theirs = profile_of({"a": one, "b": one, "d": one}, {"a->b": something})
    assert list(compare_profiles(mine, theirs)["task_times"]) == ["a"]
    assert compare_profiles(mine, theirs)["edge_times"] == {}
    document = timed().to_dict()
    del document["samples"]["edges"]
    without = Profile.from_dict(document)
    for mine, theirs in ((without, timed()), (timed(), without), (without, without)):
        assert compare_profiles(mine, theirs)["edge_times"] == {}
        assert task_a(mine, theirs)["verdict"] == NO_DIFFERENCE


@pytest.mark.parametrize("paired", [False, True])
def test_no_difference_is_only_said_where_one_of_the_size_asked_for_could_be_seen(paired):
    noisy = [9, 14, 9, 14, 9, 14, 9, 14, 14, 9.0]
    mine, theirs = profile_of({"a": {"wall_ms": noisy}}), timed()
    entry = task_a(mine, theirs, paired=paired)
    assert entry["high"] > 1.1
    assert entry["verdict"] == INCONCLUSIVE
    assert "a difference of 10 %" in entry["reason"]
    assert task_a(mine, theirs, paired=paired, difference=0.6)["verdict"] == NO_DIFFERENCE
    same = timed(1.001)
    assert task_a(same, theirs, paired=paired)["verdict"] == NO_DIFFERENCE
    assert task_a(same, theirs, paired=paired, difference=1e-4)["verdict"] == INCONCLUSIVE


@pytest.mark.parametrize(
    ("factor", "spread", "headline"),
    [
        (0.88, 0, "12 % faster (1.31 s -> 1.15 s a round)"),
        (1.25, 0, "25 % slower (1.31 s -> 1.64 s a round)"),
        (3.847, 0, "3.85 times as long (1.31 s -> 5.04 s a round)"),
        (1.0, 0, "no significant difference (1.31 s -> 1.31 s a round)"),
        (1.003, 0.5, "inconclusive (1.31 s -> 1.31 s a round, under 1 % apart)"),
    ],
)
def test_the_headline_is_the_verdict_on_the_total_time(factor, spread, headline):
    def lasting(total_ms):
        document = timed().to_dict()
        ends = 1 - spread, 1 + spread
        document["samples"]["total_ms"] = [total_ms * end for end in ends * 5]
        document["total_time_ms"] = total_ms
        return Profile.from_dict(document)

    found = compare_profiles(lasting(factor * 1310.0), lasting(1310.0), names=("old", "new"))
    assert found.headline() == headline
    shown = headline.replace("inconclusive", "inconclusive [1]")
    assert str(found).startswith(f"new against old: {shown}\n")


def test_profiles_are_called_by_their_names_and_pairs_by_their_own_change():
    named = [timed(), timed()]
    for profile, name in zip(named, ("first", "second")):
        profile.metadata["name"] = name
    assert str(named[1].compare(named[0])).startswith("second against first: ")
    assert str(named[0].compare(named[0])).startswith("new against base (first): ")
    assert str(timed().compare(timed())).startswith("new against base: ")
    mine, theirs = timed().to_dict(), timed().to_dict()
    theirs["samples"]["total_ms"] = [10.0, 20.0, 30.0, 40.0, 50.0] * 2
    mine["samples"]["total_ms"] = [12.0, 24.0, 33.0, 48.0, 60.0] * 2
    found = compare_profiles(*map(Profile.from_dict, (mine, theirs)), paired=True)
    how = "by pairs of rounds (medians 30 ms -> 33 ms a round)"
    assert found.headline() == f"20 % slower, {how}"
    found["total_time"]["verdict"] = INCONCLUSIVE
    how = "(medians 30 ms -> 33 ms a round, 20 % slower, by pairs of rounds)"
    assert found.headline() == f"inconclusive {how}"


def test_pairs_are_the_rounds_that_both_have():
    # A machine that gets slower and slower disturbs both sides of a pair alike.
    times = [float(2**i) for i in range(9)]
    mine = profile_of({"a": {"wall_ms": [None, *(1.5 * time for time in times[1:])]}})
    theirs = profile_of({"a": {"wall_ms": [*times[:-1], None]}})
    entry = task_a(mine, theirs, paired=True)
    assert entry["verdict"] == SLOWER
    assert (entry["low"], entry["high"]) == (pytest.approx(1.5), pytest.approx(1.5))
    assert task_a(mine, theirs)["verdict"] == INCONCLUSIVE
    kinds = ["cold", "warm_up", *["measured"] * 6, "allocation"]
    mine = profile_of({"a": {"wall_ms": [99.0, 50.0, *[2.0] * 6, None]}}, kinds=kinds)
    entry = task_a(mine, profile_of({"a": {"wall_ms": [1.0] * 6}}))
    assert (entry["ratio"], entry["low"]) == (2.0, 2.0)


@pytest.mark.parametrize(
    ("mine", "theirs", "paired", "ratio", "reason"),
    [
        ([1.0, None], [None, 1.0], True, None, "no samples"),
        ([1.0] * 5 + [None] * 5, [None] * 5 + [1.0] * 5, True, None, "no samples"),
        ([3.0], [2.0], False, 1.5, "1 measured round is too few, at least 6 of each are needed"),
        (TEN, [0.0, *TEN[1:]], False, None, "a sample is 0, so there is no ratio"),
    ],
)
def test_samples_that_cannot_say_have_no_interval(mine, theirs, paired, ratio, reason):
    sides = (profile_of({"a": {"wall_ms": samples}}) for samples in (mine, theirs))
    entry = task_a(*sides, paired=paired)
    assert (entry["ratio"], entry["verdict"]) == (ratio, INCONCLUSIVE)
    assert entry["low"] is entry["high"] is entry["coverage"] is None
    assert entry["reason"].startswith(reason)
    few = profile_of({"a": {"wall_ms": TEN[:5]}})
    for entry in (task_a(few, timed()), task_a(timed(), few)):
        assert entry["verdict"] == INCONCLUSIVE
        assert entry["reason"].startswith("5 measured rounds are too few, at least 6 of each")


def test_profiles_without_samples_have_times_and_no_verdict():
    plain = DAG({"a": task(outputs=["x"])(lambda: {"x": 1})}).run()
    for mine, theirs in ((plain, plain), (plain, timed()), (timed(), plain)):
        entry = task_a(mine, theirs)
        assert entry["ratio"] == pytest.approx(entry["new_ms"] / entry["base_ms"])
        assert (entry["verdict"], entry["low"]) == (INCONCLUSIVE, None)
        assert "no samples of several rounds" in entry["reason"]
    assert compare_profiles(plain, DAG({}).run())["task_times"] == {}


@pytest.mark.parametrize("conditions", [None, {}, {**FRESH, "fresh_process": False}])
def test_samples_of_one_process_cannot_judge_those_of_another(conditions):
    elsewhere = timed(1.5, conditions=conditions), timed()
    for mine, theirs in (elsewhere, (timed(1.5), timed(conditions=conditions))):
        entry = task_a(mine, theirs)
        assert (entry["verdict"], entry["ratio"]) == (INCONCLUSIVE, pytest.approx(1.5))
        assert "differ 2 to 4 times as much as rounds do" in entry["reason"]
        assert "run(rounds=Rounds(10, fresh_process=True))" in entry["reason"]
        assert "compare_runs(base, new)" in entry["reason"]


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize(
    ("name", "value", "usual"), [("busy_cores", 1, 0), ("collect_garbage", "tasks", "rounds")]
)
def test_conditions_that_differ_cannot_be_compared(name, value, usual, paired):
    mine = timed(1.5, conditions={**FRESH, name: value})
    for conditions in (FRESH, {"fresh_process": True}):
        entry = task_a(mine, timed(conditions=conditions), paired=paired)
        assert entry["verdict"] == INCONCLUSIVE
        assert entry["reason"] == (
            f"the conditions differ: {name} is {value!r} here, {usual!r} there"
        )
    assert task_a(mine, mine, paired=paired)["verdict"] == NO_DIFFERENCE


def test_calibrated_machines_are_put_on_one_scale_and_all_against_a_verdict_is_said():
    mine = timed(3.0, host="fast", calibration={**CALIBRATION, "score": 0.5})
    theirs = timed(host="slow", calibration=CALIBRATION)
    result = compare_profiles(mine, theirs)
    entry = result["task_times"]["a"]
    assert (entry["ratio"], entry["verdict"]) == (pytest.approx(0.75), INCONCLUSIVE)
    assert entry["low"] <= 0.75 <= entry["high"]
    assert entry["reason"].startswith(
        "hosts 'fast' and 'slow' are different machines, and their calibration scores"
    )
    assert result["scale"] == (
        "times of host 'fast' are multiplied by its calibration score of 0.5, those of host "
        "'slow' by its score of 2: milliseconds on the reference machine"
    )
    mine = timed(host="x", conditions={"fresh_process": False, "busy_cores": 1})
    reason = task_a(mine, timed(host="y"))["reason"]
    assert "different machines" in reason
    assert "busy_cores is 1 here, 0 there" in reason
    assert "single process" in reason
    assert "different machines" in task_a(timed(cpu="old"), timed(cpu="new"))["reason"]
    mine.hostname = None
    assert "hostname" in task_a(mine, timed())["reason"]


@pytest.mark.parametrize("calibration", [{}, {"calibration": {**CALIBRATION, "kernel_version": 2}}])
def test_machines_without_a_common_scale_are_compared_by_raw_times(calibration):
    mine, theirs = timed(3.0, host="x", calibration=CALIBRATION), timed(host="y", **calibration)
    # Two calibrations of one machine change nothing.
    again = timed(host="x", calibration={**CALIBRATION, "score": 1.9})
    for other, verdict in ((theirs, INCONCLUSIVE), (again, SLOWER)):
        result = compare_profiles(mine, other)
        assert "scale" not in result
        entry = result["task_times"]["a"]
        assert (entry["ratio"], entry["verdict"]) == (pytest.approx(3.0), verdict)
        assert ("the ratio is of raw times" in entry["reason"]) == (other is theirs)


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("time", [1.7e308, 5e-324])
def test_ratios_that_no_float_holds_are_none_and_say_why(time, paired):
    def lasting(times):
        edge = {"serialize_ms": times, "deserialize_ms": times}
        return profile_of({"a": {"wall_ms": times}, "b": {}}, {"a->b": edge})

    extreme, usual = lasting([time] * 10), lasting(TEN)
    for mine, theirs in ((extreme, usual), (usual, extreme), (extreme, extreme)):
        found = compare_profiles(mine, theirs, paired=paired)
        for entry in (found["task_times"]["a"], found["edge_times"]["a->b"]):
            assert (entry["ratio"], entry["low"], entry["high"]) == (None, None, None)
            assert entry["verdict"] == INCONCLUSIVE
            assert entry["reason"] == "a sample is outside 1e-150 to 1e+150"


@pytest.mark.parametrize("kinds", [["measured"], ["measured", "allocation"]])
def test_one_round_beside_another_has_a_ratio_and_no_verdict(kinds):
    row = {"wall_ms": [2.0, None][: len(kinds)]}
    profile = profile_of({"a": row}, kinds=kinds, conditions=None)
    figures = {"quantity": "wall_ms", "base_ms": 2.0, "new_ms": 2.0, "ratio": 1.0}
    reason = "1 round is too few for 1 comparison: at least 5 of each are needed"
    figures.update(dict.fromkeys(("low", "high", "coverage")), verdict=INCONCLUSIVE, reason=reason)
    assert task_a(profile, profile, paired=True) == figures
