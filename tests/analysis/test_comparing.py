import pytest
from handmade import handmade

from dagprofiler import DAG, Profile, task
from dagprofiler.analysis.compare import compare_profiles
from dagprofiler.stats.ranktests import FASTER, INCONCLUSIVE, NO_DIFFERENCE, SLOWER

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
def test_fresh_or_paired_rounds_get_verdicts(factor, verdict, paired):
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


def test_times_without_delay_are_compared_if_both_have_them():
    slow = {"wall_ms": [3 * time for time in TEN], "corrected_ms": TEN}
    both = {"wall_ms": TEN, "corrected_ms": [2 * time for time in TEN]}
    entry = task_a(profile_of({"a": slow}), profile_of({"a": both}))
    assert (entry["quantity"], entry["ratio"]) == ("corrected_ms", pytest.approx(0.5))
    for lacking in ({"wall_ms": TEN}, {"wall_ms": TEN, "corrected_ms": [None] * 10}):
        entry = task_a(profile_of({"a": slow}), profile_of({"a": lacking}))
        assert (entry["quantity"], entry["ratio"]) == ("wall_ms", pytest.approx(3.0))
    edge = {"serialize_ms": [1.0, 5.0, None, 2.0], "deserialize_ms": [3.0, 1.0, 9.0, None]}
    other = {"serialize_ms": [1.0] * 4, "deserialize_ms": [1.0] * 4}
    ends = {"a": {"wall_ms": [1.0] * 4}, "b": {"wall_ms": [1.0] * 4}}
    mine, theirs = profile_of(ends, {"a->b": edge}), profile_of(ends, {"a->b": other})
    entry = compare_profiles(mine, theirs)["edge_times"]["a->b"]
    assert (entry["quantity"], entry["ratio"]) == ("transfer_ms", pytest.approx(6**0.5))


def test_only_what_both_sides_measured_is_compared():
    one, none = {"wall_ms": [1.0]}, {"wall_ms": [None]}
    nothing = {"serialize_ms": [1.0], "deserialize_ms": [None]}
    something = {"serialize_ms": [1.0], "deserialize_ms": [1.0]}
    mine = profile_of({"a": one, "b": none, "c": one}, {"a->b": nothing, "b->c": something})
    theirs = profile_of({"a": one, "b": one, "d": one}, {"a->b": something})
    assert list(compare_profiles(mine, theirs)["task_times"]) == ["a"]
    assert compare_profiles(mine, theirs)["edge_times"] == {}


@pytest.mark.parametrize("paired", [False, True])
def test_no_difference_means_that_one_would_be_seen(paired):
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


def with_totals(profile, totals):
    document = profile.to_dict()
    document["samples"]["total_ms"] = totals
    document["run"]["executor"] = "serial"
    document["total_time_ms"] = totals[0]
    return Profile.from_dict(document)


@pytest.mark.parametrize(
    ("factor", "headline"),
    [
        (0.88, "12 % faster in all (1.31 s -> 1.15 s a round); 1 of 1 task faster"),
        (3.847, "3.85 times as long in all (1.31 s -> 5.04 s a round); 1 of 1 task slower"),
        (1.0, "no significant difference in all (1.31 s -> 1.31 s a round)"),
    ],
)
def test_the_headline_begins_with_the_verdict_on_the_whole(factor, headline):
    mine, theirs = (
        with_totals(profile_of({"a": {"wall_ms": [f * 90 * t for t in TEN]}}), [f * 1310.0] * 10)
        for f in (factor, 1.0)
    )
    found = compare_profiles(mine, theirs, names=("old", "new"))
    assert found.headline().startswith(headline)
    assert str(found).startswith(f"new against old: {found.headline()}\n")


def test_the_headline_names_what_changed_most():
    factors = {"a": 1.2, "b": 1.5, "c": 1.3, "d": 0.5, "e": 1.1, "f": 1.0, "tiny": 2.0}
    sizes = {"b": 2.0, "d": 0.3, "tiny": 0.01}

    def side(changed):
        rows = {
            name: {"wall_ms": [sizes.get(name, 1.0) * (f if changed else 1.0) * t for t in TEN]}
            for name, f in factors.items()
        }
        sent = {"serialize_ms": [9.0 if changed else 3.0] * 10, "deserialize_ms": [0.0] * 10}
        return with_totals(profile_of(rows, {"a->b": sent}), [60.0 + i / 100 for i in range(10)])

    assert compare_profiles(side(True), side(False)).headline() == (
        "no significant difference in all (60 ms -> 60 ms a round); "
        "4 of 7 tasks slower: b 1.5 x (+10 ms), c 1.3 x (+3.01 ms), a 1.2 x (+2.01 ms) and 1 more; "
        "1 of 7 tasks faster; 1 of 1 edge slower: a->b 3 x (+6 ms)"
    )


KERNEL = [0.02 + i / 1e5 for i in range(10)]


def delayed(delay_ms=0.0, slower=1.0, task_factor=1.0):
    """A serial profile of a busy machine: both tasks waited, and the core was slower."""
    rows = {}
    for name, factor in (("a", task_factor), ("b", 1.0)):
        corrected = [factor * slower * time for time in TEN]
        rows[name] = {
            "wall_ms": [time + delay_ms for time in corrected],
            "corrected_ms": corrected,
            "kernel_ms": [slower * time for time in KERNEL],
        }
    totals = [1.0 + sum(times) for times in zip(*(row["wall_ms"] for row in rows.values()))]
    return with_totals(profile_of(rows), totals)


def test_waits_for_a_core_are_no_slowdown_of_the_whole():
    found = compare_profiles(delayed(0.4), delayed())
    total = found["total_time"]
    assert (total["quantity"], total["verdict"]) == ("corrected_ms", NO_DIFFERENCE)
    assert total["ratio"] == pytest.approx(1.0)
    slower = compare_profiles(delayed(0.4, task_factor=1.5), delayed())["total_time"]
    assert (slower["verdict"], slower["new_ms"]) == (SLOWER, pytest.approx(26.1, abs=0.1))
    # Tasks that ran concurrently wait at the same time, so what they waited does not add up.
    document = delayed(8.0).to_dict()
    document["run"]["executor"] = "ThreadPoolExecutor"
    total = compare_profiles(Profile.from_dict(document), delayed())["total_time"]
    assert total["quantity"] == "total_ms"


def test_waits_that_differ_leave_a_verdict_to_the_tasks_alone():
    # What serializing waited for a core is not measured.
    edge = {"a->b": {"serialize_ms": TEN, "deserialize_ms": TEN}}
    twice = {"a->b": {column: [2 * ms for ms in times] for column, times in edge["a->b"].items()}}
    quiet, busy = delayed(), delayed(8.0, task_factor=1.5)
    for profile, edges in ((quiet, edge), (busy, twice)):
        profile.sections["samples"]["edges"] = edges
    found = compare_profiles(busy, quiet)
    whole, carried = found["total_time"], found["edge_times"]["a->b"]
    for entry in (whole, carried):
        assert (entry["verdict"], entry["comparable"]) == (INCONCLUSIVE, False)
        assert "waited for a core in 0% of their time in the base and in 3" in entry["reason"]
    assert found["task_times"]["a"]["verdict"] == SLOWER
    assert "inconclusive in all" in found.headline()
    assert "1 of 2 tasks slower: a 1.5 x" in found.headline()


def test_a_machine_that_changed_its_speed_gets_no_verdict():
    found = compare_profiles(delayed(0.4, slower=1.6), delayed())
    verdicts = [entry["verdict"] for entry in found["task_times"].values()]
    assert verdicts == [INCONCLUSIVE, INCONCLUSIVE]
    total = found["total_time"]
    assert (total["verdict"], total["comparable"]) == (INCONCLUSIVE, False)
    assert "the machine's speed changed" in total["reason"]
    assert found.headline().startswith("inconclusive in all (21.1 ms -> ")
    shown = found._repr_html_()
    assert 'class="slower"' not in shown
    assert "<b " not in shown


def test_the_whole_needs_a_verdict_on_a_task_or_edge():
    noisy = [9, 14, 9, 14, 9, 14, 9, 14, 14, 9.0]
    mine = with_totals(profile_of({"a": {"wall_ms": noisy}}), [30.0 + i / 10 for i in range(10)])
    theirs = with_totals(profile_of({"a": {"wall_ms": noisy[::-1]}}), TEN)
    total = compare_profiles(mine, theirs)["total_time"]
    assert (total["verdict"], total["comparable"]) == (INCONCLUSIVE, False)
    assert total["reason"].startswith("no task and no edge has a verdict")


def test_profiles_are_called_by_their_names():
    first, second = timed(), timed()
    first.metadata["name"], second.metadata["name"] = "first", "second"
    assert str(second.compare(first)).startswith("second against first: ")


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
        ([3.0], [2.0], False, 1.5, "1 measured rounds are too few, at least 6 of each"),
        (TEN, [0.0, *TEN[1:]], False, None, "a sample is 0, so there is no ratio"),
    ],
)
def test_samples_that_cannot_say_have_no_interval(mine, theirs, paired, ratio, reason):
    sides = (profile_of({"a": {"wall_ms": samples}}) for samples in (mine, theirs))
    entry = task_a(*sides, paired=paired)
    assert entry["ratio"] == (None if ratio is None else pytest.approx(ratio))
    assert (entry["verdict"], entry["comparable"]) == (INCONCLUSIVE, False)
    assert entry["low"] is entry["high"] is entry["coverage"] is None
    assert entry["reason"].startswith(reason)


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
        found = compare_profiles(mine, theirs)
        entry = found["task_times"]["a"]
        assert (entry["verdict"], entry["ratio"]) == (INCONCLUSIVE, pytest.approx(1.5))
        assert entry["reason"] == found["obstacles"]["one_process"]
        assert "run(rounds=Rounds(10, fresh_process=True))" in str(found)
        assert "compare_runs(base, new)" in str(found)


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize(
    ("name", "value", "usual"), [("busy_cores", 1, 0), ("collect_garbage", "tasks", "rounds")]
)
def test_conditions_that_differ_cannot_be_compared(name, value, usual, paired):
    mine = timed(1.5, conditions={**FRESH, name: value})
    for conditions in (FRESH, {"fresh_process": True}):
        entry = task_a(mine, timed(conditions=conditions), paired=paired)
        assert entry["verdict"] == INCONCLUSIVE
        assert f"{name} is {value!r} now, {usual!r} in the base" in entry["reason"]
    assert task_a(mine, mine, paired=paired)["verdict"] == NO_DIFFERENCE


def test_different_machines_have_a_ratio_and_no_verdict():
    result = compare_profiles(timed(3.0, host="fast"), timed(host="slow"))
    entry = result["task_times"]["a"]
    assert (entry["ratio"], entry["verdict"]) == (pytest.approx(3.0), INCONCLUSIVE)
    assert entry["low"] <= 3.0 <= entry["high"]
    assert "hosts 'fast' and 'slow' are different machines" in entry["reason"]
    mine = timed(host="x", conditions={"fresh_process": False, "busy_cores": 1})
    obstacles = compare_profiles(mine, timed(host="y"))["obstacles"]
    assert list(obstacles) == ["other_machine", "other_conditions", "one_process"]
    assert "busy_cores is 1 now, 0 in the base" in obstacles["other_conditions"]
    assert "different machines" in task_a(timed(cpu="old"), timed(cpu="new"))["reason"]
    mine.hostname = None
    assert "hosts None and 'lab-7'" in task_a(mine, timed())["reason"]
