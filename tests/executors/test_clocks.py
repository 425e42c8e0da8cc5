from time import perf_counter

import programs
import pytest
from conformance import Here
from hypothesis import given
from hypothesis import strategies as st

from dagprofiler.executors.dispatch import Clock
from dagprofiler.executors.jobs import JobResult
from dagprofiler.executors.worker import Worker

moments = st.lists(st.floats(0, 10), min_size=4, max_size=4).map(sorted)


@given(ahead_s=st.floats(-1e4, 1e4), tasks=st.lists(moments, min_size=1))
def test_the_error_holds_whatever_the_delays(ahead_s, tasks):
    clock = Clock()
    for sent_s, started_s, ended_s, arrived_s in tasks:
        clock.add_job(sent_s, [started_s + ahead_s, ended_s + ahead_s], arrived_s)
    assert abs(clock.ahead_s - ahead_s) <= clock.error_s + 1e-9


def far(job, handles):
    """Return the result of a job as of a host whose clock is 1000 s ahead."""
    (record,) = Here().answer(job, handles).records
    times = tuple(moment and moment + 1000 for moment in record.times)
    return JobResult(Worker("far", 7, 1, "far's clock", True), [record._replace(times=times)])


def test_times_of_another_host_are_brought_to_this_clock(batches_of):
    batches_of(1)
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
