"""dag.run(rounds=..., meters=...): what several rounds measure, and what a profile says of them."""

import contextlib
import gc
import os
import pickle
import random
import threading
import time
import tracemalloc
import weakref
from statistics import median
from types import SimpleNamespace

import numpy as np
import pytest
from agreement import check_agreement
from handmade import failure
from platforms import needs_two_cores
from processes import children, cpu_ticks, open_files_of_the_kernel, until
from steps import Calls, Timed, always, spent_ms

import dagprofiler
from dagprofiler import DAG, Hook, Profile, Rounds, RunError, Task, TaskMetrics
from dagprofiler.errors import describe
from dagprofiler.serializers import OutOfBandPickle


def chain():
    tasks = {
        "a": Calls(always(x=[1, 2, 3], blob=b"." * 100), ["x", "blob"]),
        "b": Calls(lambda _, x: {"y": sum(x)}, "y", "x"),
        "c": Calls(lambda _, y: {"z": y}, "z", "y"),
    }
    return DAG(tasks, [("a", "b"), ("b", "c")])


def kinds(measured, warmup=2):
    return [*["cold", *["warm_up"] * (warmup - 1)][:warmup], *["measured"] * measured]


@pytest.mark.parametrize("arguments", [{}, {"rounds": 1}, {"rounds": Rounds(1)}])
def test_a_plain_run_has_no_samples_unless_metered(arguments):
    document = chain().run(**arguments).to_dict()
    assert not {"samples", "statistics"} & set(document)
    assert set(document["run"]) == {"state", "overhead", "executor", "rounds"}
    assert set(document["run"]["overhead"]) == {"prepare_ms", "loop_ms", "hooks_ms"}
    assert [row[:2] for row in document["timeline"]["records"]] == [[name, 0] for name in "abc"]
    document = chain().run(**arguments, meters="default").to_dict()
    assert document["samples"]["rounds"] == ["measured"]
    assert "statistics" not in document
    assert (document["run"]["rounds"], document["run"]["conditions"]["n"]) == (1, 1)
    one = document["samples"]["tasks"]["a"]
    assert len(one["wall_ms"]) == 1
    # Several rounds are metered by the default set.
    assert chain().run(rounds=2).sections["samples"]["tasks"]["a"].keys() == one.keys()
    wall = chain().run(rounds=2, meters="wall").sections["samples"]["tasks"]["a"]
    assert set(wall) == {"wall_ms", "serialize_ms", "deserialize_ms"}


def test_figures_are_medians_of_measured_rounds(clock):
    first = Timed(clock, [50, 20, 3, 9, 2, 8, 4, 100])
    second = Timed(clock, [60, 30, 5, 5, 5, 7, 7, 7], inputs=["x"], outputs=[])
    profile = DAG({"a": first, "b": second}, [("a", "b")]).run(rounds=6)
    document = profile.to_dict()
    check_agreement(document)
    samples, run = document["samples"], document["run"]
    assert (samples["rounds"], run["rounds"], run["ended_by"]) == (kinds(6), 6, "n")
    assert run["conditions"] == Rounds(6).to_dict()
    assert samples["tasks"]["a"]["wall_ms"] == [1000.0 * s for s in first.seconds]
    assert samples["tasks"]["a"]["serialize_ms"] == [1000.0] * 8
    assert samples["tasks"]["b"]["deserialize_ms"] == [4000.0] * 8
    assert samples["total_ms"] == [1000.0 * s for s in (115, 55, 13, 19, 12, 20, 16, 112)]
    nbytes = len(pickle.dumps(1))
    assert profile.metrics.task_metrics == [
        TaskMetrics("a", 6000.0, 1000.0, 0.0, 0, nbytes),
        TaskMetrics("b", 6000.0, 0.0, 4000.0, nbytes, 0),
    ]
    assert document["total_time_ms"] == 17500.0
    assert run["elapsed_ms"] == sum(samples["total_ms"])
    assert document["statistics"]["cold_ms"] == {"a": 50000.0, "b": 60000.0}
    interval = {"low": 2000.0, "high": 100000.0, "coverage": 0.96875}
    summary = {"median": 6000.0, "mad": 3000.0, **interval, "min": 2000.0, "n": 6}
    assert document["statistics"]["tasks"]["a"]["wall_ms"] == summary


def test_sizes_that_change_have_a_whole_median():
    # Of 10, 20, 30 and 40 bytes, the sizes of the measured rounds, the lower median.
    sizes = [1000, 2000, 40, 10, 30, 20]
    tasks = {"a": Calls(lambda k: {"x": b"." * sizes[k]}), "b": Calls(always(y=1), "y", "x")}
    profile = DAG(tasks, [("a", "b")]).run(rounds=4)
    document = profile.to_dict()
    assert document["samples"]["edges"]["a->b"]["size_bytes"] == sizes
    wire = [len(Task.serialize(b"." * size)) for size in sizes]
    assert document["samples"]["edges"]["a->b"]["wire_bytes"] == wire
    assert document["edge_weights"] == {"a->b": 8 * 20}
    assert document["edge_metrics"]["records"] == [[["x"], 20, wire[-1]]]
    first, second = document["execution_metrics"]
    assert first["bytes_out"] == second["bytes_in"] == wire[-1]


LIMITED = {"max_rounds": 50, "max_time_s": 85.0}


@pytest.mark.parametrize(
    ("seconds", "arguments", "rounds", "ended_by"),
    [
        ([7], {}, 6, "precision"),
        ([10, 20] * 20, {}, 30, "max_rounds"),
        ([10, 20] * 20, {"max_rounds": 7}, 7, "max_rounds"),
        ([10, 20] * 20, {"max_rounds": 9, "precision": 0.4}, 6, "precision"),
        ([9, 11] * 20, {"max_rounds": 50, "max_time_s": 1.0}, 6, "max_time_s"),
        ([9, 11] * 20, LIMITED, 9, "max_time_s"),
        # Warming up takes none of the time for measuring.
        ([100, *[9, 11] * 20], {"warmup": 1, **LIMITED}, 9, "max_time_s"),
    ],
)
def test_auto_takes_the_rounds_that_it_needs(clock, seconds, arguments, rounds, ended_by):
    asked = Rounds("auto", **{"warmup": 0, "max_time_s": 1e6, **arguments})
    dag = DAG({"a": Timed(clock, seconds, outputs=[])})
    sections = dag.run(rounds=asked, meters="wall").sections
    assert (sections["run"]["rounds"], sections["run"]["ended_by"]) == (rounds, ended_by)
    assert sections["samples"]["rounds"] == kinds(rounds, asked.warmup)


def test_every_second_of_several_rounds_is_in_one_figure(clock):
    dag = DAG({"a": Timed(clock), "b": Timed(clock, inputs=["x"], outputs=[])}, [("a", "b")])
    rounds, slow = Rounds(3, warmup=1, collect_garbage=None), Hook()
    slow.run_started = slow.task_started = slow.task_finished = lambda _: clock.passes(8)
    # It takes 0.5 s to start, and as long to stop, and reads very little.
    takes = dict.fromkeys(("start", "stop"), lambda: clock.passes(0.5) or 3e-7)
    meter = SimpleNamespace(name="energy", unit="J", reason=None, **takes)
    document = dag.run(rounds=rounds, hooks=[slow], meters=[meter]).to_dict()
    # The start of the run, and two tasks that start and finish in four rounds.
    spent = {"hooks_ms": 8000.0 * (1 + 4 * 4), "meters_ms": 1000.0 * 2 * 4}
    others = ("prepare_ms", "loop_ms", "garbage_ms", "between_rounds_ms")
    assert document["run"]["overhead"] == {**dict.fromkeys(others, 0.0), **spent}
    assert spent_ms(document) == document["run"]["elapsed_ms"]
    # A round takes what its tasks take: hooks are no part of the program. Meters are told apart.
    assert document["samples"]["total_ms"] == [9000.0] * 4
    assert document["total_time_ms"] == 9000.0
    assert document["samples"]["tasks"]["a"]["wall_ms"] == [2000.0] * 4
    # Small values of a user's meter are kept as they are.
    assert document["samples"]["tasks"]["a"]["energy_J"] == [3e-7] * 4
    assert document["statistics"]["tasks"]["a"]["energy_J"]["median"] == 3e-7


@pytest.mark.parametrize(
    ("rounds", "collections"),
    [
        (1, 0),
        (Rounds(1, warmup=2), 3),
        (Rounds(3, warmup=1), 4),
        (Rounds(3, warmup=1, collect_garbage=None), 0),
        (Rounds(3, warmup=1, collect_garbage="tasks"), 4 + 8),
    ],
    ids=str,
)
def test_garbage_is_collected_outside_of_tasks(clock, rounds, collections):
    seen = []

    def note(phase, info):
        seen.append((phase, info["generation"]))
        clock.passes(32 if phase == "start" else 0)

    dag = DAG({"a": Timed(clock), "b": Timed(clock)})
    gc.disable()
    gc.callbacks.append(note)
    try:
        profile = dag.run(rounds=rounds, meters="wall")
    finally:
        gc.callbacks.remove(note)
        gc.enable()
    document = profile.to_dict()
    assert seen.count(("start", 2)) == collections
    assert document["run"]["overhead"].get("garbage_ms", 0.0) == 32000.0 * collections
    assert document["total_time_ms"] == 6000.0
    if rounds != 1:
        assert {*document["samples"]["total_ms"]} == {6000.0}
        assert {*document["samples"]["tasks"]["a"]["wall_ms"]} == {2000.0}
    assert spent_ms(document) == document["run"].get("elapsed_ms", document["total_time_ms"])


def test_outputs_are_those_of_the_last_round():
    made, alive = [], []

    def makes(_):
        alive.append(sum(one() is not None for one in made))
        array = np.zeros(1000)
        made.append(weakref.ref(array))
        return {"x": array}

    tasks = {"a": Calls(makes), "b": Calls(lambda k, x: {"y": k}, "y", "x")}
    profile = DAG(tasks, [("a", "b")]).run(rounds=3, keep=["a"])
    assert alive == [0] * 5
    assert profile.outputs["a"]["x"] is made[-1]()
    assert profile.outputs["b"] == {"y": 4}


def differing(profile):
    flags = profile.sections["statistics"]["flags"]
    return {name for name, raised in flags.items() if "outputs_differ" in raised}


def test_a_seed_gives_the_same_outputs_in_every_round():
    drawn = []

    def draw(_):
        numbers = np.random.randint(2**30), random.getrandbits(60)
        drawn.append((dagprofiler.rng().integers(2**60), *numbers))
        return {"x": drawn[-1]}

    tasks = {"a": Calls(draw), "b": Calls(always(y=1), "y", "x"), "c": Calls(always(x=np.ones(3)))}
    dag = DAG(tasks, [("a", "b")], serializer=OutOfBandPickle())
    random.seed(1)
    np.random.seed(1)
    before = random.getstate(), np.random.get_state()[1].tolist()
    rounds = Rounds(3, check_outputs=True)
    assert differing(dag.run(7, rounds=rounds)) == set()
    dag.run(7)
    assert (len(drawn), len(set(drawn))) == (6, 1)
    # The caller's generators are as before.
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before
    dag.run(8)
    assert len(set(drawn)) == 2
    # Without a seed outputs differ, which is told where it is asked for.
    for checked in (rounds, Rounds(1, warmup=1, check_outputs=True)):
        assert differing(dag.run(rounds=checked)) == {"a"}
    assert differing(dag.run(rounds=3)) == set()


def test_allocations_are_counted_in_their_own_round():
    tasks = {"a": Calls(always(x=1)), "b": Calls(lambda _: {"x": np.ones(1_000_000).nbytes})}
    profile = DAG(tasks).run(rounds=3, meters=["default", "allocation"])
    samples = profile.sections["samples"]
    assert samples["rounds"] == [*kinds(3), "allocation"]
    assert samples["total_ms"][-1] is None
    for columns in samples["tasks"].values():
        for column, values in columns.items():
            if column == "allocation_bytes":
                assert values[:-1] == [None] * 5
            else:
                assert values[-1] is None
                assert column in {"delay_ms", "corrected_ms"} or None not in values[:-1]
    # Threads of the test runner allocate, too.
    assert samples["tasks"]["a"]["allocation_bytes"][-1] < 1_000_000
    assert 8_000_000 <= samples["tasks"]["b"]["allocation_bytes"][-1] < 9_000_000
    summary = profile.sections["statistics"]["tasks"]["b"]["allocation_bytes"]
    assert (summary["n"], summary["median"]) == (1, samples["tasks"]["b"]["allocation_bytes"][-1])
    assert profile.sections["run"]["rounds"] == 3


def test_an_edge_takes_the_time_of_its_own_fields(clock):
    tasks = {
        "s": Timed(clock, outputs=["p", "q", "r"]),
        "one": Timed(clock, inputs=["p"], outputs=[]),
        "two": Timed(clock, inputs=["q", "r"], outputs=[]),
        "after": Timed(clock, outputs=[]),
        "new": Timed(clock, inputs=["x"], outputs=[]),
    }
    edges = [("s", "one"), ("s", "two"), ("two", "after", []), ("s", "new", {"q": "x"})]
    samples = DAG(tasks, edges).run(rounds=2).sections["samples"]
    nbytes = len(pickle.dumps(1))
    for name, fields in {"s->one": 1, "s->two": 2, "s->new": 1, "two->after": 0}.items():
        # An edge that only orders carries nothing, and that takes no time.
        assert samples["edges"][name] == {
            "serialize_ms": [1000.0 * fields] * 4,
            "deserialize_ms": [4000.0 * fields] * 4,
            "size_bytes": [nbytes * fields] * 4,
            "wire_bytes": [nbytes * fields] * 4,
        }
    assert samples["tasks"]["s"]["serialize_ms"] == [3000.0] * 4


def test_a_run_of_ones_own_has_rounds_and_inputs_in_each():
    class ByRun(Calls):
        def run(self, inputs, config=None):
            return super().run(inputs, config)

    task = ByRun(lambda call, x, y: {"z": x + y + (call == 3)}, ["z"], ["x", "y"])
    tasks = {"a": Calls(always(x=1)), "b": task, "c": Calls(always(), [], ["z"])}
    dag = DAG(tasks, [("a", "b"), ("b", "c")])
    profile = dag.run(rounds=Rounds(3, check_outputs=True), inputs={"b": {"y": 10}})
    columns = profile.sections["samples"]["tasks"]["b"]
    assert (len(columns["wall_ms"]), columns["cpu_ms"]) == (5, [None] * 5)
    assert "run()" in profile.sections["weight_sources"]["b"]["reasons"]["cpu_time_ms"]
    assert [*profile.outputs] == ["c"]
    assert differing(profile) == {"b"}


def failing(clock, error, *, at):
    """Return a DAG of a, b, c and an independent d, of which b fails in its call number `at`."""

    class Fails(Timed):
        def compute(self, cfg, x):
            outputs = super().compute(cfg)
            if self.calls == at:
                raise error
            return outputs

    tasks = {
        "a": Timed(clock, [1, 2, 3, 4, 50]),
        "b": Fails(clock, [5, 6, 7, 9, 11], inputs=["x"]),
        "c": Timed(clock, inputs=["x"], outputs=[]),
        "d": Timed(clock, outputs=[]),
    }
    return DAG(tasks, [("a", "b"), ("b", "c")])


BOOM, STOPPED = ValueError("boom"), KeyboardInterrupt()


@pytest.mark.parametrize(
    ("error", "on_error", "reason"),
    [
        (BOOM, "stop", "task 'b' failed in round 3 of 6: ValueError: boom"),
        (STOPPED, "finish", "interrupted by KeyboardInterrupt in round 3 of 6"),
    ],
)
def test_a_failure_in_round_3_leaves_rounds_1_and_2(clock, error, on_error, reason):
    with pytest.raises((RunError, type(error))) as caught:
        failing(clock, error, at=4).run(rounds=6, meters="wall", on_error=on_error)
    assert error in (caught.value, caught.value.__cause__)
    profile = caught.value.profile
    run = profile.sections["run"]
    assert (run["state"], run["reason"]) == ("partial", reason)
    assert "ended_by" not in run
    del run["tasks"]["b"]["traceback"]
    assert run["tasks"] == {
        "b": {"state": "failed", "error": describe(error), "round": 4},
        "c": {"state": "skipped", "round": 4},
        "d": {"state": "cancelled", "round": 4},
    }
    samples = profile.sections["samples"]
    # Neither a further task begins nor a further round.
    assert samples["rounds"] == kinds(3)
    assert {name: columns["wall_ms"] for name, columns in samples["tasks"].items()} == {
        "a": [1000.0, 2000.0, 3000.0, 4000.0, 50000.0],
        "b": [5000.0, 6000.0, 7000.0, 9000.0, None],
        "c": [2000.0] * 4 + [None],
        "d": [2000.0] * 4 + [None],
    }
    assert samples["edges"]["a->b"]["deserialize_ms"] == [4000.0] * 4 + [None]
    assert samples["edges"]["b->c"]["size_bytes"][-1] is None
    times = {one.task: one.compute_time_ms for one in profile.metrics.task_metrics}
    assert times == {"a": 4000.0, "b": 8000.0, "c": 2000.0, "d": 2000.0}
    statistics = profile.sections["statistics"]
    assert (statistics["tasks"]["b"]["wall_ms"]["n"], statistics["total_ms"]["n"]) == (2, 2)
    assert "3 measured rounds, 2 of them complete, 2 warm-up" in str(profile)
    # A round that was not finished has no total.
    assert samples["total_ms"][-1] is None
    assert profile.metrics.total_time_ms == median(samples["total_ms"][2:4])
    assert Profile.loads(profile.dumps()) == profile


@pytest.mark.parametrize(
    ("at", "asked", "where", "measured"),
    [
        (0, {"rounds": 1, "meters": "default"}, "", 0),
        (0, {"rounds": 6}, " in the cold round", 0),
        (2, {"rounds": 6}, " in round 1 of 6", 0),
        (3, {"rounds": "auto"}, " in round 2", 1),
        (4, {"rounds": 2, "meters": "allocation"}, " in the allocation round", 2),
    ],
)
def test_the_reason_names_the_round(clock, at, asked, where, measured):
    profile = failure(failing(clock, BOOM, at=at), **{"meters": "wall", **asked}).profile
    run = profile.sections["run"]
    reason = f"task 'b' failed{where}: ValueError: boom"
    assert (run["reason"], run["rounds"]) == (reason, measured)
    walls = profile.sections["samples"]["tasks"]["b"]["wall_ms"]
    assert walls == [*[5e3, 6e3, 7e3, 9e3][:at], None]


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="looks at /proc")
@pytest.mark.parametrize("error", [None, BOOM, STOPPED], ids=repr)
def test_nothing_that_measures_is_left_behind(clock, error, thawed):
    def held():
        return open_files_of_the_kernel(), list(gc.callbacks), tracemalloc.is_tracing()

    gc.collect()  # what earlier tests left open
    before, frozen = held(), []
    dag = failing(clock, error, at=1 if error else None)
    clock.passes = lambda seconds: frozen.append(gc.get_freeze_count())
    with contextlib.suppress(RunError, KeyboardInterrupt):
        rounds = Rounds(1, warmup=0, collect_garbage="tasks")
        dag.run(rounds=rounds, meters=["full", "allocation"])
    assert held() == before
    # Objects are frozen only while a task runs.
    assert gc.get_freeze_count() <= thawed
    assert max(frozen) > 1000


@needs_two_cores
@pytest.mark.parametrize("fails", [False, True])
def test_other_cores_are_busy_during_rounds_only(fails):
    cores, before = os.sched_getaffinity(0), children()
    seen = []

    def looks(call):
        burners = children() - before
        # They compute, and are not just there.
        until(lambda: all(cpu_ticks(burner) > 2 for burner in burners))
        seen.append((len(burners), len(cores) - len(os.sched_getaffinity(0))))
        if fails and call == 1:
            raise ValueError("boom")
        return {"x": 1}

    dag = DAG({"a": Calls(looks)})
    try:
        profile = dag.run(rounds=Rounds(2, warmup=0, busy_cores=1))
    except RunError as error:
        profile = error.profile
    assert seen == [(1, 1), (1, 1)]
    assert before.issuperset(children())
    assert os.sched_getaffinity(0) == cores
    assert profile.sections["run"]["conditions"]["busy_cores"] == 1


def in_another_thread(_):
    def work():
        end = time.thread_time() + 0.02
        while time.thread_time() < end:
            pass

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return {"x": 1}


def test_serial_rounds_tell_what_other_threads_have_computed():
    dag = DAG({"a": Calls(in_another_thread)})
    assert dag.run(rounds=3).run.other_threads_ms >= 60
    assert dag.run().run.other_threads_ms is None
    assert chain().run(rounds=3).run.other_threads_ms < 20
