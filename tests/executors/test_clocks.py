from time import perf_counter

import programs
import pytest
from conformance import Here
from hypothesis import given
from hypothesis import strategies as st

from dagprofiler.executors import jobs
from dagprofiler.executors.dispatch import Clocks


def test_of_this_clock_and_of_one_that_no_task_has_shown_nothing_is_said():
    clocks = Clocks("here")
    clocks.note("here", 1.0, [5.0, 6.0], 2.0)
    for name in ("here", "there"):
        assert clocks.ahead_s(name) == clocks.error_s(name) == 0


@pytest.mark.parametrize(
    "noted",
    [
        # Each task narrows down how far a clock is ahead.
        [
            (0.0, [101.0, 102.0], 4.0, 99.5, 1.5),
            (10.0, [110.5, 111.0], 11.5, 100.0, 0.5),
            (20.0, [125.0, 126.0], 30.0, 100.0, 0.5),
        ],
        # Moments that were not reached tell nothing.
        [(0.0, [None, None], 1.0, 0.0, 0.0), (0.0, [7.0, 8.0, None, None], 2.0, 6.5, 0.5)],
        # Bounds that have crossed are apart by the error.
        [(0.0, [1.0, 2.0], 2.0, 0.5, 0.5), (10.0, [15.0, 16.0], 11.0, 3.0, 2.0)],
    ],
    ids=["narrows", "not reached", "crossed"],
)
def test_how_far_a_clock_is_ahead(noted):
    clocks = Clocks("here")
    for sent_s, moments_s, arrived_s, *expected in noted:
        clocks.note("there", sent_s, moments_s, arrived_s)
        assert [clocks.ahead_s("there"), clocks.error_s("there")] == expected


moments = st.lists(st.floats(0, 10), min_size=4, max_size=4).map(sorted)


@given(ahead_s=st.floats(-1e4, 1e4), tasks=st.lists(moments, min_size=1))
def test_the_error_holds_whatever_the_delays(ahead_s, tasks):
    clocks = Clocks("here")
    for sent_s, started_s, ended_s, arrived_s in tasks:
        clocks.note("there", sent_s, [started_s + ahead_s, ended_s + ahead_s], arrived_s)
    assert abs(clocks.ahead_s("there") - ahead_s) <= clocks.error_s("there") + 1e-9


def far(job, handles):
    """Return the answer of a job as of a host whose clock is 1000 s ahead."""
    answer = Here().answer(job, handles)
    if answer is None:
        return None
    _, (times, *rest), attempts = answer
    times = tuple(moment and moment + 1000 for moment in times)
    return ("far", 7, 1, "far's clock", True), (times, *rest), attempts


def test_times_of_another_host_are_brought_to_this_clock():
    begun = perf_counter()
    profile = programs.failing("nothing").run(executor=Here(answer=far))
    took_ms = (perf_counter() - begun) * 1e3
    timeline = profile.sections["timeline"]
    (worker,) = timeline["workers"]
    assert (worker["host"], worker["pid"], worker["thread"]) == ("far", 7, 1)
    assert worker["clock_ahead_ms"] == pytest.approx(1e6, abs=worker["clock_error_ms"] + 1e-3)
    at = timeline["columns"].index("deserialize_start_ms")
    for row in timeline["records"]:
        assert all(0 <= moment <= took_ms for moment in row[at:])


def test_hosts_with_one_clock_are_told_by_more_than_their_name():
    assert jobs.this_worker()[3] == Clocks(jobs.this_worker()[3]).own
