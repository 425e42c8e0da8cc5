"""What holds on every executor: tests that each engine's own file takes over."""

import pickle
import threading
from concurrent.futures import Future

import programs
import pytest
from handmade import edge_bytes, failure

from dagprofiler import DAG, Executor, Journal, Profile, Rounds, RunError, Tracer
from dagprofiler.errors import SerializationError, TaskTimeoutError, ValidationError, WorkerError

#: What the program is run with.
WHOLE = {"seed": 5, "inputs": programs.OUTSIDE, "keep": ["draw", "scale1"]}


def done(profile):
    return {one.task for one in profile.metrics.task_metrics}


def equal(a, b):
    return repr(a) == repr(b)


class Here(Executor):
    """Runs each job at once, as a worker in another process would; `methods` take place of its."""

    name = "here"
    capacity = 2

    def __init__(self, **methods):
        self.calls = []
        vars(self).update(methods)

    def open(self):
        self.calls.append("open")

    def close(self):
        self.calls.append("close")

    def submit(self, job, handles):
        self.calls.append(job.name)
        future = Future()
        try:
            future.set_result(self.answer(pickle.loads(pickle.dumps(job)), handles))
        except Exception as error:  # noqa: BLE001  (what became of the job)
            future.set_exception(error)
        return future

    def answer(self, job, handles):
        return pickle.loads(pickle.dumps(job(handles)))


#: A schedule of :func:`programs.program`.
PLAN = {"edge": ["draw", "scale2", "scale0", "merge"], "cloud": ["scale1", "last"]}


def check_schedule(pools, rounds=1):
    """Check that a run on `pools`, one a node of PLAN, keeps assignment and order."""
    dag = programs.program()
    profile = dag.run(**WHOLE, executor=pools, schedule=PLAN, rounds=rounds)
    assert equal(profile.outputs, dag.run(**WHOLE).outputs)
    timeline = profile.sections["timeline"]
    start = timeline["columns"].index("compute_start_ms")
    found = {}
    for row in sorted(timeline["records"], key=lambda row: row[start]):
        found.setdefault(row[1], {}).setdefault(row[2], []).append(row[0])
    assert [sorted(workers.values()) for workers in found.values()] == [sorted(PLAN.values())] * (
        len(profile.sections["samples"]["rounds"]) if rounds > 1 else 1
    )
    assert profile.sections["schedule"] == PLAN
    assert Profile.loads(profile.dumps()) == profile


class Conformance:
    """Derive from it, with a fixture ``executor``."""

    #: Whether a worker's death leaves this process alive.
    can_die = True
    #: Whether another worker soon replaces one that died.
    are_replaced = True
    #: Whether a task has its process to itself.
    are_alone = True

    @pytest.fixture(params=[1, 50], ids=["alone", "batches"])
    def batch(self, request, batches_of):
        """Let so many tasks share a job."""
        batches_of(request.param)
        return request.param

    @pytest.mark.usefixtures("batch")
    @pytest.mark.parametrize("timeout", [None, 60])
    def test_a_run_records_what_a_serial_run_does_on_one_clock(self, executor, timeout):
        if timeout and not self.can_die:
            pytest.skip("threads cannot be ended")
        dag = programs.program()
        serial = dag.run(**WHOLE)
        profile = dag.run(**WHOLE, executor=executor, timeout=timeout)
        assert equal(profile.outputs, serial.outputs)
        assert equal(profile.final_outputs, serial.final_outputs)
        assert edge_bytes(profile) == edge_bytes(serial)
        assert profile.metrics.node_weights == serial.metrics.node_weights
        assert profile.sections["run"]["state"] == "complete"
        assert Profile.loads(profile.dumps()) == profile
        timeline = profile.sections["timeline"]
        rows = {row[0]: dict(zip(timeline["columns"][2:], row[2:])) for row in timeline["records"]}
        assert {row["worker"] for row in rows.values()} <= set(range(len(timeline["workers"])))
        for source, target in (("draw", "scale0"), ("scale2", "merge"), ("merge", "last")):
            before, after = rows[source], rows[target]
            assert before["serialize_end_ms"] <= after["ready_ms"] <= after["deserialize_start_ms"]

    def test_a_graph_that_grows_does_so_as_in_a_serial_run(self, executor):
        dag = programs.growing()
        serial, profile = dag.run(seed=5), dag.run(seed=5, executor=executor)
        assert sorted(profile.outputs) == ["gather", "many"]
        assert len(profile.outputs["gather"]["halves"]) == 8
        assert equal(profile.outputs["gather"], serial.outputs["gather"])
        assert edge_bytes(profile) == edge_bytes(serial)
        assert edge_bytes(profile)["parts", "middle[3]"][2] == ["parts[3]"]
        assert sorted(profile.dag_structure["nodes"]) == sorted(serial.dag_structure["nodes"])
        assert Profile.loads(profile.dumps()) == profile

    def test_a_seed_reaches_legacy_generators_where_a_task_is_alone(self, executor):
        dag = programs.failing("legacy")
        serial, profile = dag.run(seed=1), dag.run(seed=1, executor=executor)
        assert (profile.outputs == serial.outputs) is self.are_alone
        assert profile.sections["run"].get("legacy_generators", True) is self.are_alone

    def test_a_dag_runs_twice_and_in_rounds_with_meters(self, executor):
        dag = programs.program()
        run = {"inputs": programs.OUTSIDE, "executor": executor}
        dag.run(**run)
        profile = dag.run(**run, rounds=Rounds(3, warmup=1, check_outputs=True), seed=1)
        samples = profile.sections["samples"]
        assert samples["rounds"] == ["cold", "measured", "measured", "measured"]
        assert all(len(columns["wall_ms"]) == 4 for columns in samples["tasks"].values())
        assert all(None not in columns["cpu_ms"] for columns in samples["tasks"].values())
        assert "differs" not in str(profile.sections["statistics"].get("flags"))

    def test_spans_come_home_to_their_task_worker_and_round(self, executor):
        tasks = {f"t{i}": programs.Traced for i in range(6)}
        inputs = {name: {"x": name} for name in tasks}
        profile = DAG(tasks).run(inputs=inputs, executor=executor, rounds=2, hooks=[Tracer()])
        assert Profile.loads(profile.dumps()) == profile
        section, timeline = profile.sections["spans"], profile.sections["timeline"]
        rows = [dict(zip(timeline["columns"], row)) for row in timeline["records"]]
        ran = {(row["task"], row["round"]): row for row in rows}
        seen = {}
        for row in section["records"]:
            record = dict(zip(section["columns"], row))
            at, name = ran[tuple(row[:2])], section["labels"][record["label"]]["name"]
            thread = section["threads"][record["thread"]]
            if name == "outer":
                assert record["args"] == {"x": record["task"], "y": record["task"]}
            # Alone in its process, a task is known to have started the thread.
            if thread["own"]:
                seen.setdefault(tuple(row[:2]), []).append(name)
            assert thread["worker"] == at["worker"]
            assert at["compute_start_ms"] <= record["start_ms"] <= record["end_ms"]
            assert record["end_ms"] <= at["compute_end_ms"]
        assert seen == {one: ["step", "waits", "outer"] for one in ran}

    @pytest.mark.parametrize(
        ("make", "until", "asked"),
        [
            (programs.program, "scale1", WHOLE),
            (programs.growing, "half[1][0]", {"seed": 5, "keep": ["parts", "half[0][1]"]}),
        ],
        ids=["fixed", "half-grown"],
    )
    def test_a_run_that_ended_early_goes_on_from_its_journal(
        self, executor, tmp_path, make, until, asked
    ):
        dag = make()
        serial = dag.run(**asked)
        before, after = programs.Follows(until), programs.Follows()
        with pytest.raises(RunError, match="enough of it"):
            dag.run(**asked, executor=executor, hooks=[Journal(tmp_path), before])
        profile = dag.resume(tmp_path, executor=executor, hooks=[after])
        assert equal(profile.outputs, serial.outputs)
        assert edge_bytes(profile) == edge_bytes(serial)
        assert sorted(before.finished + after.finished) == sorted(serial.dag_structure["nodes"])
        assert profile.sections["run"]["resumed"][0]["tasks"] == len(before.finished)
        assert Profile.loads(profile.dumps()) == profile
        # It is all there, and nothing is left to be done.
        assert equal(dag.resume(tmp_path, executor=executor).outputs, serial.outputs)

    def test_a_failure_keeps_its_cause_and_what_runs_is_waited_for(self, executor):
        error = failure(programs.failing("raise"), executor, on_error="finish")
        assert list(error.failures) == ["bad"]
        assert repr(error.__cause__) == "ValueError('no such cell')"
        assert repr(error.__cause__.__cause__) == "ZeroDivisionError('division by zero')"
        if self.can_die:
            # The worker's traceback.
            assert "in _divide" in str(error.__cause__.__cause__.__cause__)
        assert error.profile.sections["run"]["tasks"]["behind"] == {"state": "skipped"}
        assert done(error.profile) == {"beside", "other"}

    def test_an_error_whose_class_is_not_known_here_leaves_its_words(self, executor):
        if not self.can_die:
            pytest.skip("the worker is this process")
        with pytest.raises(RunError, match=r"'bad' .*Stranger: who is that"):
            programs.failing("raise_what_only_the_worker_knows").run(executor=executor)
        # The executor is as good as before.
        assert programs.failing("nothing").run(executor=executor).sections["run"]["state"]

    def test_an_exit_keeps_its_code(self, executor):
        with pytest.raises(SystemExit) as left:
            programs.failing("leave").run(executor=executor)
        assert left.value.code == 7

    def test_after_a_failure_nothing_new_starts(self, executor, batches_of):
        batches_of(1)
        # Not all may be done before the first error comes.
        tasks = {f"a{i}": programs.Act("rest" if i else "raise") for i in range(50)}
        states = failure(DAG(tasks), executor).profile.sections["run"]["tasks"]
        assert states["a0"]["state"] == "failed"
        assert "cancelled" in {one["state"] for one in states.values()}

    def test_a_task_that_cannot_travel_is_named_with_its_attribute(self, executor):
        dag = programs.failing("nothing")
        dag.tasks["bad"].lock = threading.Lock()
        if not self.can_die:
            # To threads of this process tasks do not travel.
            assert dag.run(executor=executor).sections["run"]["state"] == "complete"
            return
        with pytest.raises(RunError, match=r"'bad': .*'lock'") as caught:
            dag.run(executor=executor, on_error="finish")
        assert isinstance(caught.value.__cause__, SerializationError)
        assert "other" in done(caught.value.profile)

    def test_an_output_that_cannot_be_serialized_is_named(self, executor):
        with pytest.raises(RunError, match=r"task 'bad': output 'x' \(function\)"):
            programs.failing("lambda").run(executor=executor)

    def test_large_values_arrive(self, executor):
        dag = DAG(
            {"fill": programs.Fill(3_000_000), "a": programs.length, "b": programs.length},
            [("fill", "a"), ("fill", "b")],
        )
        profile = dag.run(executor=executor)
        assert profile.outputs == {"a": {"nbytes": 3_000_000}, "b": {"nbytes": 3_000_000}}

    @pytest.mark.parametrize("how", ["exit", pytest.param("kill", marks=pytest.mark.slow)])
    def test_a_worker_that_dies_names_the_tasks_in_flight(self, executor, how, batch):
        if not (self.can_die and self.are_replaced):
            pytest.skip("the tests that follow need the worker")
        tasks = {f"a{i:02}": programs.Act("nothing") for i in range(40)}
        lost = failure(DAG({**tasks, "0": programs.Act(how)}), executor).failures["0"]
        assert isinstance(lost, WorkerError)
        assert "'0'" in str(lost)
        # Two workers have two jobs each at most; no task of the lost batch has reported.
        assert len(lost.in_flight) < 4 * batch
        assert batch == 1 or len(lost.in_flight) >= 40 // 4

    def test_a_task_ends_at_its_time_limit_and_the_others_go_on(self, executor):
        dag = programs.failing("hold")
        dag.tasks["bad"].timeout = 0.1
        if not self.can_die:
            with pytest.raises(ValidationError, match=r"task 'bad': timeout: .*thread"):
                dag.run(executor=executor)
            return
        error = failure(dag, executor, on_error="finish")
        late = error.failures["bad"]
        assert isinstance(late, TaskTimeoutError)
        assert (late.task, late.limit_s) == ("bad", 0.1)
        assert late.took_s >= 0.1
        assert done(error.profile) == {"beside", "other"}
        error = failure(programs.failing("exit"), executor, timeout=60, on_error="finish")
        assert isinstance(error.failures["bad"], WorkerError)
        assert "exit code 3" in str(error)
        assert done(error.profile) == {"beside", "other"}
