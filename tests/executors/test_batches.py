"""Which tasks travel together: short ones that are ready together, as far as that is known."""

import pickle
import re
from concurrent.futures import Future
from itertools import count

import programs
import pytest
from conformance import Here, failure

from dagprofiler import DAG, ORDER_ONLY, Rounds, SerializationError, WorkerError
from dagprofiler.executors import dispatch as batching
from dagprofiler.measure import pipeline


class Records(Here):
    """Runs jobs in order when so many were sent or the run loop waits."""

    def __init__(self, capacity):
        super().__init__(capacity=capacity)
        self.sent = []

    def submit(self, job, handles):
        self.calls.append(job.name)
        future = Future()
        self.sent.append((future, job, handles))
        if len(self.sent) == self.capacity:
            self.check()
        return future

    def check(self):
        sent, self.sent = self.sent, []
        for future, job, handles in sent:
            future.set_result(self.answer(pickle.loads(pickle.dumps(job)), handles))


pytestmark = pytest.mark.usefixtures("impatient")


@pytest.fixture
def takes(monkeypatch):
    """Return a function that says what the tasks of each name take, in seconds."""

    def takes(seconds):
        expected = staticmethod(lambda name, _: seconds.get(name[0], float("inf")))
        monkeypatch.setattr(batching.Durations, "expected_s", expected)

    return takes


def jobs_of(executor):
    """Return its jobs without those that were sent again with their session."""
    return list(dict.fromkeys(executor.calls[1:-1]))


def test_tasks_of_an_unknown_class_travel_alone_until_one_is_measured(monkeypatch):
    # Short ones, however busy the machine is.
    monkeypatch.setattr(pipeline, "perf_counter", count(0.0, 1e-6).__next__)
    executor = Records(2)
    DAG({f"t{i:03}": programs.last for i in range(200)}).run(executor=executor)
    jobs = jobs_of(executor)
    assert jobs[:2] == ["t000", "t001"]
    assert len(jobs) < 50
    assert any(name.endswith("more") for name in jobs)


def took(durations, name, kind, seconds, worker=0, nbytes=0):
    durations.note(name, kind, worker, ((0, 0, 0, 0, 0, seconds), {}, {"x": nbytes}))


def test_what_a_task_took_in_the_last_round_counts_more_than_its_class_and_outputs_do_too():
    durations = batching.Durations()
    for _ in range(2):
        took(durations, "short", object, 0.0)
    took(durations, "long", object, 9.0)
    assert durations.expected_s("short", object) < 1e-3
    assert durations.expected_s("long", object) > 9
    assert durations.expected_s("other", object) == pytest.approx(4.5, rel=1e-3)
    assert durations.expected_s("other", int) == float("inf")
    took(durations, "large", object, 0.0, nbytes=1_000_000)
    assert durations.expected_s("large", object) > batching.BATCH_S


def test_the_first_task_of_a_class_in_a_worker_says_nothing_of_the_others():
    durations = batching.Durations()
    for worker in (0, 1):
        took(durations, f"first{worker}", object, 1.0, worker)
        assert worker or durations.expected_s("other", object) == float("inf")
        took(durations, f"second{worker}", object, 0.0, worker)
    assert durations.expected_s("other", object) < 1e-3


@pytest.mark.parametrize(
    ("names", "capacity", "jobs"),
    [
        # No worker is left without work for the sake of a fuller batch.
        ("s1 s2 s3 s4", 4, ["s1", "s2", "s3", "s4"]),
        # In turns, so that the first tasks of all jobs are those that come first.
        ("s1 s2 s3 s4", 2, ["s1 and 1 more", "s2 and 1 more"]),
        ("s1 s2 s3 s4", 1, ["s1 and 3 more"]),
        # A long one travels alone, and those before it and after it together.
        ("l0 s1 s2 s3", 2, ["l0", "s1 and 2 more"]),
        ("s1 s2 s3 x4", 2, ["s1 and 2 more", "x4"]),
        # Two of these would be too much for one job.
        ("m1 m2", 4, ["m1", "m2"]),
        # The last does not fit, and waits for the next job.
        ("h1 h2 h3 l4", 1, ["h1 and 1 more", "h3", "l4"]),
    ],
)
def test_ready_tasks_share_the_jobs_that_the_executor_accepts(takes, names, capacity, jobs):
    takes({"s": batching.BATCH_S / 100, "m": batching.BATCH_S / 1.9, "h": batching.BATCH_S / 2})
    executor = Records(capacity)
    DAG(dict.fromkeys(names.split(), programs.last)).run(executor=executor)
    assert sorted(jobs_of(executor)) == sorted(jobs)


def test_each_task_of_a_batch_has_its_own_record(takes):
    takes({"s": 0.0})
    follows = programs.Follows()
    names = [f"s{i}" for i in range(5)]
    executor = Records(1)
    dag = DAG({name: programs.Act("nothing") for name in names})
    conditions = Rounds(2, warmup=0, collect_garbage=None)
    profile = dag.run(executor=executor, rounds=conditions, hooks=[follows])
    assert jobs_of(executor) == ["s0 and 4 more"]
    timeline = profile.sections["timeline"]
    rows = [dict(zip(timeline["columns"], row)) for row in timeline["records"]]
    assert [row["task"] for row in rows[:5]] == names
    for before, after in zip(rows[:4], rows[1:5]):
        assert before["serialize_end_ms"] <= after["deserialize_start_ms"]
    assert follows.finished == 2 * names


def test_an_input_that_cannot_be_read_fails_its_task_alone(takes, tmp_path):
    class Forgets(Records):
        folder = str(tmp_path)

        def check(self):
            for file in tmp_path.iterdir():
                file.unlink()
            super().check()

    takes({"s": 0.0})
    short = dict.fromkeys(["s0", "s2"], programs.last)
    edges = [("fill", "s1"), *(("fill", name, ORDER_ONLY) for name in short)]
    dag = DAG({"fill": programs.Fill(10**6), "s1": programs.length, **short}, edges)
    failures = failure(dag, Forgets(1), on_error="finish").failures
    assert [*failures] == ["s1"]
    assert isinstance(failures["s1"], SerializationError)
    assert re.match("task 's1'.*FileNotFoundError", str(failures["s1"]))


def test_all_tasks_of_a_lost_batch_are_lost_and_named(takes):
    class Loses(Records):
        def check(self):
            raise ConnectionError("gone")

    takes({"s": 0.0})
    dag = DAG({f"s{i}": programs.last for i in range(3)})
    failures = failure(dag, Loses(1), on_error="finish").failures
    assert failures.keys() == {"s0", "s1", "s2"}
    assert all(isinstance(lost, WorkerError) for lost in failures.values())
    assert failures["s1"].in_flight == ["s0", "s2"]


def test_tasks_of_a_batch_that_is_lost_at_each_attempt_are_tried_alone(takes):
    class Loses(Records):
        retries = 1

        def check(self):
            lost = [sent for sent in self.sent if b"s1" in pickle.dumps(sent[1])]
            self.sent = [sent for sent in self.sent if sent not in lost]
            super().check()
            for future, *_ in lost:
                future.set_exception(ConnectionError("died twice"))

    takes({"s": 0.0})
    dag = DAG({f"s{i}": programs.last for i in range(4)})
    failed = failure(dag, Loses(1), on_error="finish")
    assert [*failed.failures] == ["s1"]
    attempts = failed.profile.sections["run"]["attempts"]
    assert {name: len(lost) for name, lost in attempts.items()} == dict.fromkeys(dag.tasks, 1)
    assert "died twice" in str(attempts["s0"])
