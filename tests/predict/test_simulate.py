"""What a simulated run says of a profile on other workers, and what it refuses."""

from math import isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plans import profile_of

from dagprofiler import Profile, ProfileError, ValidationError
from dagprofiler._document.rounds import MOMENTS
from dagprofiler.formats.saga import to_task_graph  # noqa: F401  (the module loads without SAGA)
from dagprofiler.predict import Engine, simulate

FORK = {"a": 2, "b": 3, "c": 5}, [("a", "b"), ("a", "c")]


def engine(**figures):
    known = {"executor": "pool", "host": "here", "workers": 2, "cores": 99}
    times = {"latency_ms": 0.0, "gap_ms": 0.0, "driver_ms": 0.0}
    return Engine.from_dict({**known, **times, **figures})


def chain(count, ms=1):
    names = [f"t{i}" for i in range(count)]
    return dict.fromkeys(names, ms), [*zip(names, names[1:])]


def timeline(columns=(), rows=(), pids=(1,)):
    """Return the section of a run by workers with these processes."""
    workers = [{"host": "here", "pid": pid} for pid in pids]
    columns = ["task", "round", "worker", *columns]
    return {"timeline": {"columns": columns, "workers": workers, "records": [*rows]}}


@pytest.mark.parametrize(
    ("times", "edges", "options", "makespan_ms"),
    [
        # Kahn's order: a and b start, c follows b.
        ({"a": 3, "b": 2, "c": 2}, [], {"workers": 2}, 4),
        ({"a": 3, "b": 2, "c": 2}, [], {"workers": 1}, 7),
        (*FORK, {"workers": 2}, 7),
        (*FORK, {"workers": 1, "faster": {"c": 2}}, 7.5),
        # Without priorities b comes first; with them the longest.
        ({"a": 1, "b": 1, "c": 4}, [], {"workers": 2}, 5),
        ({"a": 1, "b": 1, "c": 4}, [], {"workers": 2, "priorities": {"a": 1, "b": 1, "c": 4}}, 4),
        # A chain pays for each way there and back, and for the driver.
        (*chain(3), {"engine": engine(latency_ms=0.5, driver_ms=0.25)}, 3 * 1.75),
        # One worker with tasks in wait pays the gap between them.
        (*({"a": 1, "b": 1, "c": 1}, []), {"workers": 1, "engine": engine(gap_ms=0.5)}, 4),
        # The first job of each worker takes longer to come.
        (*chain(3), {"engine": engine(start_ms=2)}, 5),
        # Four submissions and two records before the last record: the driver is the bottleneck.
        ({"a": 0, "b": 0, "c": 0}, [], {"engine": engine(driver_ms=2)}, 6),
        # Who computes at the same time slows each other down.
        ({"a": 10, "b": 10}, [], {"engine": engine(contention=(1.0, 1.5))}, 15),
        ({"a": 10, "b": 20}, [], {"engine": engine(contention=(1.0, 2.0))}, 30),
        ({"a": 10, "b": 10}, [], {"engine": engine(cores=1)}, 20),
        ({"a": 10, "b": 10}, [], {"engine": engine(shares_memory=True)}, 20),
        # What a worker's process does for a takes a core from b: 5 ms each of 10.
        (*chain(2, 10), {"engine": engine(worker_ms=5, cores=1)}, 25),
        # And what it does all the time: a core of two while both work.
        ({"a": 10, "b": 10}, [], {"engine": engine(always=0.5, cores=2)}, 15),
        # The bytes: one MB written once, and read by both.
        (*FORK, {"engine": engine(write_ms=(0.2, 2), read_ms=(0.1, 1)), "workers": 1}, 12),
        # Of its times for 0.2 and 2 MB, that of 1 MB is on the line between them.
        (*FORK, {"engine": engine(write_ms=(3, 3), read_ms=(1, 10)), "workers": 1}, 10 + 3 + 10),
        (*FORK, {"speeds": {"slow": 1, "fast": 2}, "schedule": {"fast": "acb"}}, 5),
        # c waits for its byte: 8 bits a MB over a link of 8e6 bits a ms take 1 ms.
        (*FORK, {"schedule": {"x": "ab", "y": "c"}, "bandwidth": 8e6}, 2 + 1 + 5),
        # Two transfers share the link.
        (*FORK, {"schedule": {"x": "a", "y": "cb"}, "bandwidth": {("x", "y"): 8e6}}, 12),
    ],
)
def test_the_makespan_follows_from_the_rules(times, edges, options, makespan_ms):
    if "schedule" in options:
        options = {**options, "schedule": {n: [*t] for n, t in options["schedule"].items()}}
    found = simulate(profile_of(times, edges, wire=1_000_000), **options)
    assert isclose(found.makespan_ms, makespan_ms)


@given(st.data())
def test_no_simulation_beats_the_bounds_of_list_scheduling(data):
    count = data.draw(st.integers(1, 12))
    names = [f"t{i:02}" for i in range(count)]
    times = {name: data.draw(st.integers(0, 9)) for name in names}
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    edges = [pair for pair in pairs if data.draw(st.integers(0, 3)) == 0]
    workers = data.draw(st.integers(1, 4))
    found = simulate(profile_of(times, edges), workers=workers)
    span = {}
    for name in names:
        span[name] = times[name] + max((span[a] for a, b in edges if b == name), default=0)
    work, longest = sum(times.values()), max(span.values())
    assert max(longest, work / workers) <= found.makespan_ms + 1e-9
    assert found.makespan_ms <= work / workers + longest * (1 - 1 / workers) + 1e-9
    timeline = found.profile.sections["timeline"]
    rows = {row[0]: row for row in timeline["records"]}
    start, end = map(timeline["columns"].index, ("deserialize_start_ms", "serialize_end_ms"))
    assert all(rows[a][end] <= rows[b][start] + 1e-6 for a, b in edges)


def test_times_taken_beside_others_contain_contention_already():
    spans = {"a": (0.0, 10.0), "b": (5.0, 15.0), "c": (20.0, 30.0)}
    columns = "ready_ms", "compute_start_ms", "compute_end_ms"
    rows = [[name, 0, int(name == "b"), 0.0, *span] for name, span in spans.items()]
    measured = profile_of(dict.fromkeys(spans, 10.0), sections=timeline(columns, rows, (1, 2)))
    found = simulate(measured, workers=1, engine=engine(contention=(1.0, 2.0)))
    assert found.makespan_ms == pytest.approx(10 / 1.5 + 10 / 1.5 + 10)
    # So do those that were taken while other cores were kept busy.
    measured = profile_of(*FORK)
    measured.sections["run"] = {"conditions": {"busy_cores": 1}}
    found = simulate(measured, workers=1, engine=engine(contention=(1.0, 2.0)))
    assert found.makespan_ms == pytest.approx(5)


def machine(cores, blas_threads=1, *, workers=1):
    environment = {"cores_usable": cores, "blas_threads": blas_threads}
    return {"environment": environment, **timeline(pids=range(workers))}


def test_workers_share_the_cores_of_the_profiles_machine():
    source = profile_of(dict.fromkeys("abcd", 10), rounds=[1.0] * 3, sections=machine(2))
    four = simulate(source, workers=4)
    assert four.makespan_ms == pytest.approx(20)
    assert simulate(source, workers=4, cores=4).makespan_ms == pytest.approx(10)
    assert simulate(source, workers=4, engine=engine(cores=8)).makespan_ms == pytest.approx(10)
    nodes = {name: [name] for name in "abcd"}
    assert simulate(source, schedule=nodes).makespan_ms == pytest.approx(10)
    # What the executor adds was not measured.
    low, high = four.interval_ms
    assert (low, high) == pytest.approx((20, 40))


def test_blas_threads_that_take_other_cores_are_a_reason():
    times = dict.fromkeys("abcd", 10)
    source = profile_of(times, rounds=[1.0] * 3, sections=machine(2, 2))
    found = simulate(source, engine=engine(cores=2))
    assert found.makespan_ms == pytest.approx(20)
    assert found.interval_ms[1] == pytest.approx(40)
    assert any("OPENBLAS_NUM_THREADS=1" in reason for reason in found.reasons)
    # The CPU time of the process has what its threads take.
    for columns in source.sections["samples"]["tasks"].values():
        columns["process_cpu_ms"] = [20.0] * 3
    assert simulate(source, engine=engine(cores=2)).interval_ms == pytest.approx((40, 40))


@pytest.mark.parametrize(("other_threads_ms", "waits"), [(0.0, False), (60.0, True)])
def test_a_serial_profile_tells_whether_blas_uses_other_threads(other_threads_ms, waits):
    ran = {"run": {"state": "complete", "other_threads_ms": other_threads_ms}}
    source = profile_of(
        dict.fromkeys("abcd", 10), rounds=[1.0] * 3, cpu=1.0, sections={**machine(2, 2), **ran}
    )
    found = simulate(source, engine=engine(cores=2))
    assert any("OPENBLAS_NUM_THREADS=1" in reason for reason in found.reasons) == waits
    if not waits:
        assert found.interval_ms == pytest.approx((20, 20))
        return
    with pytest.raises(ProfileError, match="threads of BLAS"):
        _ = found.interval_ms
    assert "95 %" not in str(found)
    both = simulate(source, engine=engine(cores=2), workers=[2, 1]).figures()
    assert both["interval_ms"] == pytest.approx([40, 40])
    known = {point["workers"]: point["interval_ms"] is not None for point in both["curve"]}
    assert known == {1: True, 2: False}


def test_waits_for_a_core_are_a_reason():
    source = profile_of(*FORK, rounds=[1.0], delay=0.3, sections=machine(2))
    assert any("30% of their time" in reason for reason in simulate(source).reasons)
    quiet = profile_of(*FORK, rounds=[1.0], delay=0.01, sections=machine(2))
    assert not any("of their time" in reason for reason in simulate(quiet).reasons)


def test_the_work_is_that_of_the_median_round():
    measured = profile_of({"a": 10, "b": 10, "c": 10}, rounds=[1.0] * 3)
    for i, columns in enumerate(measured.sections["samples"]["tasks"].values()):
        columns["wall_ms"][i] *= 2
    assert simulate(measured, workers=1).makespan_ms == pytest.approx(40)


def test_several_numbers_of_workers_make_a_curve():
    source = profile_of({"a": 4, "b": 4, "c": 4}, rounds=[1.0, 1.0, 1.0])
    found = simulate(source, workers=range(1, 4), engine=engine(workers=3))
    assert {workers: one.makespan_ms for workers, one in found.curve.items()} == pytest.approx(
        {1: 12, 2: 8, 3: 4}
    )
    assert found.makespan_ms == pytest.approx(4)
    points = found.profile.sections["prediction"]["curve"]
    assert points[1] == {"workers": 2, "makespan_ms": 8.0, "interval_ms": [8.0, 8.0]}
    assert str(found).splitlines()[4].split() == ["2", "8", "ms", "8", "ms", "8", "ms", "75.0%"]


def test_a_task_takes_time_between_its_phases():
    # The meters are read before and after compute(), and then the inputs of t1 are freed: 3 ms.
    rows = [["t0", 0, 0, 0.0, 0.0, 0.0, 0.5, 10.5, 11.5, 11.5]]
    for k, ms in enumerate([3, 3, 9]):
        rows.append(["t1", k, 0, 0.0, 0.0, 0.0, 0.5, 10.5, 11.5 + ms, 11.5 + ms])
    found = simulate(profile_of(*chain(2, 10), sections=timeline(MOMENTS, rows)), workers=1)
    assert found.makespan_ms == pytest.approx(23)
    row = found.profile.timeline.rows()[1]
    assert (row.compute_start_ms, row.compute_end_ms, row.serialize_start_ms) == (10, 20, 23)
    # Moments that other programs do not record add no time.
    columns = "ready_ms", "compute_start_ms", "compute_end_ms", "serialize_start_ms"
    rows = [["t0", 0, 0, 0, 0, 10, 10], ["t1", 0, 0, 10, 10, 20, 20]]
    profile = profile_of(*chain(2, 10), sections=timeline(columns, rows))
    assert simulate(profile, workers=1).makespan_ms == pytest.approx(20)


def test_tasks_that_wait_need_no_core_and_no_lock():
    waiting = profile_of({"a": 10, "b": 10}, rounds=[1.0], cpu=0.0)
    busy = engine(cores=1, contention=(1.0, 2.0), shares_memory=True)
    assert simulate(waiting, engine=busy).makespan_ms == pytest.approx(10)
    # Who waited for a core needs one.
    measured = profile_of({"a": 10, "b": 10}, rounds=[1.0], cpu=0.5)
    for columns in measured.sections["samples"]["tasks"].values():
        columns["corrected_ms"] = [5.0]
    assert simulate(measured, engine=engine(cores=1)).makespan_ms == pytest.approx(10)


@pytest.mark.parametrize(
    ("gil", "makespan_ms", "known"),
    [
        ({"a": 0, "b": 0}, 10, True),
        ({"a": 1, "b": 1}, 20, True),
        # b may wait for a after each operation, or not at all: between 10 and 20 ms.
        ({"a": 1, "b": 0}, 12.5 + 10 / 6, True),
        # What is not known of one task holds as long as it computes.
        ({"a": 1}, 20, False),
        ({}, 20, False),
    ],
)
def test_threads_wait_by_the_measured_shares_of_the_lock(gil, makespan_ms, known):
    measured = profile_of({"a": 10, "b": 10}, rounds=[1.0] * 3)
    for name, share in gil.items():
        measured.sections["samples"]["tasks"][name]["gil_ms"] = [10 * share] * 3
    found = simulate(measured, engine=engine(shares_memory=True))
    assert found.makespan_ms == pytest.approx(makespan_ms)
    # Nor is it known how often b asks.
    if known and makespan_ms in (10, 20):
        assert not any("lock" in reason for reason in found.reasons)
        assert found.interval_ms == pytest.approx((makespan_ms, makespan_ms))
        return
    assert any("lock" in reason for reason in found.reasons)
    with pytest.raises(ProfileError, match=r"how long .* wait on threads for the interpreter"):
        _ = found.interval_ms


def test_tasks_of_a_chain_wait_for_no_lock():
    found = simulate(profile_of(*chain(3, 10), rounds=[1.0] * 3), engine=engine(shares_memory=True))
    assert not any("lock" in reason for reason in found.reasons)
    assert found.interval_ms == pytest.approx((30, 30))


def test_the_interval_widens_with_samples_and_needs_three_rounds():
    steady = simulate(profile_of(*FORK, rounds=[1.0, 1.0, 1.0]), engine=engine())
    assert steady.interval_ms == pytest.approx((7, 7))
    noisy = simulate(profile_of(*FORK, rounds=[0.9, 1.0, 1.1, 1.0, 1.0]), workers=2)
    low, high = noisy.interval_ms
    assert low < 6.5
    assert high > 7.5
    assert noisy.interval_ms == simulate(noisy._case.source, workers=2).interval_ms
    with pytest.raises(ProfileError, match="at least 3 rounds"):
        _ = simulate(profile_of(*FORK), workers=2).interval_ms
    # Student's, for so many rounds.
    one = profile_of({"a": 100}, rounds=[0.9, 1, 1.1])
    low, high = simulate(one, engine=engine(workers=1)).interval_ms
    assert (high - low) / 2 == pytest.approx(4.30 * (1 + 1 / 3) ** 0.5 * 8.165, rel=0.2)


def test_classes_are_ranked_by_what_their_double_speed_gains():
    source = profile_of({"a": 4, "b_1": 4, "b_2": 2, "c": 0.1}, [("a", "b_1"), ("a", "b_2")])
    found = simulate(source, workers=2)
    assert found.makespan_ms == pytest.approx(8)
    assert found.gains == pytest.approx({"a": 0.25, "b_*": 0.25, "c": 0})
    assert "b_* twice as fast: 25.0% shorter on 2 workers" in str(found)


@pytest.mark.parametrize(("processes", "makespan_ms"), [([5, 5], 10), ([5, 6], 20)])
def test_rounds_on_threads_contain_the_waits_for_the_lock(processes, makespan_ms):
    sections = timeline(pids=processes)
    measured = profile_of({"a": 10, "b": 10}, rounds=[1.0] * 3, sections=sections)
    found = simulate(measured, engine=engine(shares_memory=True))
    assert found.makespan_ms == pytest.approx(makespan_ms)
    assert any("lock" in reason for reason in found.reasons) == (makespan_ms == 20)
    assert simulate(measured, workers=4, engine=engine(shares_memory=True)).makespan_ms >= 20


def test_a_predicted_profile_never_passes_for_a_measured_one():
    costs = engine(latency_ms=1.0)
    found = simulate(profile_of(*FORK, rounds=[1.0, 1.0, 1.0]), engine=costs)
    predicted = found.profile
    assert Profile.loads(predicted.dumps()) == predicted
    assert predicted.metrics.total_time_ms == found.makespan_ms
    assert predicted.sections["prediction"]["interval_ms"] == [9.0, 9.0]
    assert "samples" not in predicted.sections
    assert "predicted" in repr(predicted)
    assert str(predicted).startswith("PREDICTED, not measured")
    assert "95 % from 9.000 to 9.000 ms" in str(predicted)
    assert "predicted" in predicted.weights("wall_time").provenance
    assert "predicted" in predicted._repr_html_().lower()
    assert Engine.from_dict(predicted.sections["engine"]) == costs
    with pytest.raises(ValidationError, match="made from"):
        simulate(predicted)


@pytest.mark.parametrize(
    ("costs", "rounds", "factor"),
    [
        (engine(), 3, 10 / 7),
        (engine(latency_ms=1), 3, 10 / 9),
        (engine(), 2, 1),
        (engine(workers=3), 3, 1),
        (engine(host="there"), 3, 1),
        (engine(executor="another"), 3, 1),
    ],
)
def test_rounds_on_an_engines_workers_are_predicted_as_measured(costs, rounds, factor):
    ran = {**timeline(pids=(1, 2)), "run": {"state": "complete", "executor": "pool"}}
    source = profile_of(*FORK, rounds=[1.0] * rounds, total_ms=10.0, sections=ran)
    two_ms = 7 + 2 * costs.overhead.latency_ms
    assert simulate(source, workers=2, engine=costs).makespan_ms == pytest.approx(two_ms * factor)
    faster = simulate(source, workers=2, engine=costs, faster={"c": 5}).makespan_ms
    assert faster == pytest.approx((two_ms - 2) * factor)


def test_reading_meters_takes_no_time_of_a_plain_run():
    rows = [[name, 0, 0, 0.0, 0.0, 0.0, 0.5, 10.5, 11.5, 11.5] for name in ("t0", "t1")]
    ran = {**timeline(MOMENTS, rows, pids=(1, 2)), "run": {"state": "complete", "executor": "pool"}}
    source = profile_of(*chain(2, 10), rounds=[1.0] * 3, total_ms=23.0, sections=ran)
    assert simulate(source, engine=engine()).makespan_ms == pytest.approx(20)


def test_what_if_is_no_part_of_what_the_rounds_are_compared_with():
    ran = {**timeline(pids=(1, 2)), "run": {"state": "complete", "executor": "pool"}}
    tasks = dict.fromkeys("abcd", 10)
    source = profile_of(tasks, rounds=[1.0] * 3, cpu=1.0, total_ms=24.0, sections=ran)
    costs = engine(cores=2, error_elsewhere=0.3)
    assert simulate(source, engine=costs).interval_ms == pytest.approx((24, 24))
    assert simulate(source, engine=costs, cores=1).makespan_ms == pytest.approx(48)
    speeds = simulate(source, engine=costs, speeds={"x": 1, "y": 2})
    assert speeds.interval_ms[1] == pytest.approx(1.654 * speeds.makespan_ms)
    # What is not modelled may be less on one worker.
    low, high = simulate(source, workers=1, engine=costs).interval_ms
    assert (low, high) == pytest.approx((48 / 1.654, 48 * 1.654))
    low, high = simulate(source, workers=1, engine=engine(cores=2)).interval_ms
    assert (low, high) == pytest.approx((40, 48))


@pytest.mark.parametrize(
    ("measured_engine", "reason", "ends"),
    [
        (None, "calibrate_engine", (7, 14)),
        (engine(host="there"), "there", (7, 7)),
        (engine(error=0.2), "off by 20%", (7 / 1.436, 7 * 1.436)),
        (engine(allocator={"MALLOC_ARENA_MAX": "1"}, arrays=3.0), "MALLOC_ARENA_MAX", (7, 21)),
        (engine(arrays=3.0), "", (7, 7)),
    ],
)
def test_reasons_for_distrust_are_named_and_widen_the_interval(measured_engine, reason, ends):
    sections = {"environment": {"allocator_settings": {}}}
    source = profile_of(*FORK, rounds=[1.0, 1.0, 1.0], sections=sections)
    simulated = simulate(source, workers=2, engine=measured_engine)
    assert simulated.interval_ms == pytest.approx(ends)
    assert any(reason in text for text in simulated.reasons) or not reason
    assert simulated.profile.sections["prediction"]["reasons"] == [*simulated.reasons]
    assert all(text in str(simulated) for text in simulated.reasons[:1])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"workers": 0}, ["workers", "0"]),
        ({"workers": 2, "cores": 0}, ["cores", "0"]),
        ({"workers": 2, "speeds": {"a": 1}}, ["workers", "speeds"]),
        ({"speeds": {"x": 0}}, ["'x'", "0"]),
        ({"engine": {"workers": 2}}, ["engine", "{'workers': 2}"]),
        ({"bandwidth": 5}, ["bandwidth", "schedule"]),
        ({"faster": {"q": 2}}, ["faster", "'q'"]),
        ({"schedule": {"x": ["a", "b", "k"]}}, ["'x'", "'k'"]),
        ({"schedule": {"x": ["a", "b", "c"], "y": ["a"]}}, ["'a'", "'x'", "'y'"]),
        ({"schedule": {"x": ["b", "a", "c"]}}, ["'a' -> 'b'", "forever"]),
        ({"schedule": {"x": [], "y": ["a", "b", "c"]}, "speeds": {"y": 1}}, ["speed", "'x'"]),
        ({"schedule": {"x": ["a", "b", "c"]}, "priorities": {"a": 1}}, ["priorities"]),
    ],
)
def test_what_cannot_be_simulated_is_refused_by_name(options, words):
    with pytest.raises(ValidationError) as caught:
        simulate(profile_of(*FORK, wire=1), **options)
    assert all(word in str(caught.value) for word in words)


def test_missing_times_and_unknown_fields_of_engines_are_refused():
    partial = profile_of(*FORK).to_dict()
    del partial["execution_metrics"][0]
    with pytest.raises(ProfileError, match="'a'"):
        simulate(Profile.from_dict(partial))
    with pytest.raises(ProfileError, match="'q'"):
        Engine.from_dict({**engine().to_dict(), "q": 1})
    with pytest.raises(ProfileError, match="'driver_ms'"):
        Engine.from_dict(
            {"executor": "pool", "host": "here", "workers": 2, "latency_ms": 1.0, "gap_ms": 1.0}
        )
