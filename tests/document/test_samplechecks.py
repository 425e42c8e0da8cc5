from __future__ import annotations

import copy

import pytest

from dagprofiler._document.checks import check_intervals, check_samples
from dagprofiler._document.rounds import statistics_of
from dagprofiler.errors import ProfileError, json_path

#: Two measured rounds of two tasks and an edge, with allocations counted in a third.
SAMPLES = {
    "rounds": ["cold", "measured", "measured", "allocation"],
    "total_ms": [9.0, 4.0, 6.0, None],
    "tasks": {
        "a": {"wall_ms": [5.0, 1.0, None, None], "allocation_bytes": [None, None, None, 64]},
        "b": {"wall_ms": [4.0, 3.0, 4.0, None], "power_W": [None] * 4},
    },
    "edges": {"a->b": {"serialize_ms": [1.0, 0.000001, 0.000002, None]}},
}


def refusal(samples, statistics):
    with pytest.raises(ProfileError) as caught:
        check_samples(samples, statistics)
    return caught.value


def at(section, place):
    for key in place:
        section = section[key]
    return section


@pytest.mark.parametrize(
    ("place", "values", "message"),
    [
        (("total_ms",), [], "$.samples.total_ms: 0 entries for 4 rounds"),
        (("tasks", "a", "wall_ms"), [1.0], "$.samples.tasks.a.wall_ms: 1 entries for 4 rounds"),
        (
            ("tasks", "b", "wall_ms"),
            [None, 0.5, -0.5, 1.0],
            "$.samples.tasks.b.wall_ms[2]: -0.5 is less than 0",
        ),
    ],
)
def test_samples_have_an_entry_a_round_and_none_that_cannot_be(place, values, message):
    samples = copy.deepcopy(SAMPLES)
    at(samples, place[:-1])[place[-1]] = values
    assert str(refusal(samples, {})) == message


def test_statistics_of_the_samples_agree_with_them_as_does_what_stands_on_one_side_only():
    statistics = statistics_of(SAMPLES)
    assert statistics["tasks"]["a"]["allocation_bytes"]["n"] == 1
    check_samples(SAMPLES, statistics)
    statistics["tasks"]["b"]["energy_J"] = {"median": 1.0, "n": 2}
    del statistics["total_ms"], statistics["edges"]
    check_samples(SAMPLES, statistics)


@pytest.mark.parametrize(
    ("place", "changed", "message"),
    [
        (("total_ms",), {"median": 5.1}, "5.1 here, but the median of the samples is 5.0"),
        (("tasks", "a", "wall_ms"), {"n": 2}, "2 values here, but 1 in samples"),
        (("tasks", "a", "allocation_bytes"), {"median": 65}, "65 here, but the median of the"),
        (("tasks", "b", "wall_ms"), {"median": 3.50001}, "3.50001 here, but the median of the"),
        (("edges", "a->b", "serialize_ms"), {"n": 3}, "3 values here, but 2 in samples"),
        (("edges", "a->b", "serialize_ms"), {"median": 1.0}, "1.0 here, but the median of the"),
    ],
)
def test_statistics_that_contradict_the_samples_are_refused(place, changed, message):
    statistics = statistics_of(SAMPLES)
    at(statistics, place).update(changed)
    refused = refusal(SAMPLES, statistics)
    assert refused.message.startswith(message)
    assert refused.path == json_path(("statistics", *place, *changed))


@pytest.mark.parametrize(
    ("summary", "end"),
    [
        ({"low": 3.0, "median": 2.0, "high": 4.0}, "low"),
        ({"low": 1.0, "median": 2.0, "high": 1.5}, "median"),
        ({"min": 2.5, "median": 2.0}, "min"),
    ],
)
def test_an_interval_holds_its_median(summary, end):
    with pytest.raises(ProfileError, match=f"{end} is .*, more than") as caught:
        check_intervals({"total_ms": {**summary, "n": 1}})
    assert caught.value.path == f"$.statistics.total_ms.{end}"
    for other in ({}, {"low": 2, "high": 2}, {"low": 1, "high": 3, "min": 0}):
        check_intervals({"tasks": {"a": {"wall_ms": {"median": 2, "n": 1, **other}}}})
    check_intervals(statistics_of(SAMPLES))


def entry(**times):
    return {"task": "b", "bytes_in": 0, "bytes_out": 0, **times}


def test_times_are_medians_of_the_measured_rounds_or_of_those_that_there_are():
    check_samples(SAMPLES, {}, [entry(compute_time_ms=3.5, serialize_time_ms=7.0)])
    early = {"rounds": ["cold", "warm_up"], "tasks": {"b": {"wall_ms": [5.0, 1.0]}}}
    check_samples(early, {}, [entry(compute_time_ms=3.0)])
    for samples, median, wrong_ms in ((SAMPLES, r"3\.5", (3.6, 4.0, 3.0)), (early, r"3\.0", [5.0])):
        for wrong in wrong_ms:
            with pytest.raises(ProfileError, match=f"the samples .*{median}") as caught:
                check_samples(samples, {}, [entry(compute_time_ms=wrong)])
            assert caught.value.path == "$.execution_metrics[0].compute_time_ms"
    # A task that no measured round finished has no median to differ from.
    unfinished = {"rounds": ["cold", "measured"], "tasks": {"b": {"wall_ms": [5.0, None]}}}
    check_samples(unfinished, {}, [entry(compute_time_ms=9.0)])
