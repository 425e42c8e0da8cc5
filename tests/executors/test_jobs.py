"""What is between the run loop and an executor: jobs, their batches, and what becomes of them."""

import os
import pickle
import re
import signal
import subprocess
import sys
import threading
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from time import perf_counter

import programs
import pytest
from conformance import Here, done, failure
from hypothesis import given
from hypothesis import strategies as st

from dagprofiler import DAG, Config, Rounds, task
from dagprofiler.dag import ORDER_ONLY
from dagprofiler.errors import SerializationError, WorkerError
from dagprofiler.executors import dispatch, jobs
from dagprofiler.executors.dispatch import Clock
from dagprofiler.executors.jobs import JobResult
from dagprofiler.executors.worker import Worker, interrupted_later


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    """Do not wait long before an executor is asked whether it still works."""
    monkeypatch.setattr(dispatch, "_PATIENCE_S", 0.001)


def raises(error):
    """Return a function that raises an error, whatever it is called with."""

    def fails(*_):
        raise error

    return fails


def independent(*names):
    return DAG({name: programs.Act("nothing") for name in names})


# -- an executor and the run loop ----------------------------------------------------------


class Keeps(Here):
    """Outputs stay with it; what it hands out are tickets."""

    def __init__(self):
        super().__init__()
        self.kept = {}
        self.fetched = []

    def put(self, frames):
        ticket = f"ticket {len(self.kept)}"
        self.kept[ticket] = frames
        return ticket

    def fetch(self, handle):
        self.fetched.append(handle)
        return self.kept[handle]

    def answer(self, job, handles):
        result = super().answer(job, [self.kept[handle] for handle in handles])
        return result.replace(lambda k, field, frames: self.put(frames))


def test_outputs_stay_where_they_are_until_they_are_needed(batches_of):
    batches_of(1)
    dag, asked = programs.program(), {"seed": 5, "inputs": programs.OUTSIDE}
    executor = Keeps()
    profile = dag.run(**asked, executor=executor)
    assert repr(profile.outputs) == repr(dag.run(**asked).outputs)
    assert len(executor.fetched) == 1
    # What nobody needs is not kept at all.
    executor, edges = Keeps(), [("draw", "length", {"points": "data"})]
    DAG({"draw": programs.Draw, "length": programs.length}, edges, {"N": 5}).run(executor=executor)
    assert len(executor.kept) == 3  # the session, an input and an output


def test_a_lost_task_is_named_with_its_reason(batches_of):
    def loses(error):
        """Return an executor that loses the job of the task `bad`."""
        fails = raises(error)
        return Here(answer=lambda job, h: (fails if job.name == "bad" else Here().answer)(job, h))

    batches_of(1)
    error = failure(programs.failing("nothing"), loses(ConnectionError("gone")), on_error="finish")
    lost = error.failures["bad"]
    assert isinstance(lost, WorkerError)
    assert (lost.task, lost.in_flight, lost.reason) == ("bad", ["beside"], "ConnectionError: gone")
    assert isinstance(lost.__cause__, ConnectionError)
    assert done(error.profile) == {"beside", "other"}
    assert str(pickle.loads(pickle.dumps(lost))) == str(lost)
    # An executor can say itself what it lost.
    own = loses(WorkerError("bad", ["x"], "the host is down"))
    assert "the host is down" in str(failure(programs.failing("nothing"), own))


@pytest.mark.parametrize(
    ("methods", "words"),
    [
        ({"submit": lambda *_: None}, "has no attribute 'add_done_callback'"),
        ({"answer": lambda *_: "done"}, "its future holds 'done', not what the job returned"),
        ({"fetch": raises(ConnectionError("gone"))}, "ConnectionError: gone"),
        ({"capacity": 0}, "there is no worker to take it"),
    ],
    ids=["no future", "no result", "no output", "no worker"],
)
def test_an_executor_that_returns_no_job_result_is_an_error(methods, words):
    executor = Here(**methods)
    error = failure(independent("a", "b"), executor)
    assert isinstance(error.__cause__, WorkerError)
    assert re.search(f"task 'a' was lost by its executor: .*{words}", str(error))
    assert executor.calls[-1] == "close"


GONE = raises(BrokenExecutor("gone"))


@pytest.mark.parametrize(
    "methods",
    [{"submit": GONE}, {"check": GONE, "submit": lambda *_: Future()}, {"answer": GONE}],
    ids=" ".join,
)
def test_an_executor_that_gives_up_gets_no_other_job(methods):
    error = failure(independent("a", "b", "c"), Here(**methods), on_error="finish")
    assert "'a' was lost by its executor: BrokenExecutor: gone" in str(error.failures["a"])
    # As many as it was said to take at once.
    assert error.failures.keys() == {"a", "b"}
    assert error.profile.sections["run"]["tasks"]["c"] == {"state": "cancelled"}


def test_earlier_attempts_are_recorded_by_round():
    def answer(job, handles):
        result = Here().answer(job, handles)
        result.attempts = ("it died", "it died again")
        return result

    profile = independent("a").run(executor=Here(answer=answer), rounds=Rounds(2, warmup=0))
    assert profile.sections["run"]["attempts"]["a"] == [
        {"round": i, "error": text} for i in (0, 1) for text in ("it died", "it died again")
    ]


class Closes(programs.Act):
    serialize = staticmethod(lambda data: b"value")
    deserialize = staticmethod(raises(ValueError("no key")))


def test_an_output_that_cannot_be_decoded_here_is_named():
    error = failure(DAG({"a": Closes("nothing")}), Here())
    assert isinstance(error.__cause__, SerializationError)
    assert "task 'a': output 'x' cannot be decoded here: ValueError: no key" in str(error)


def test_a_run_whose_executor_cannot_be_closed_keeps_its_times():
    with pytest.raises(ConnectionError) as caught:
        independent("a").run(executor=Here(close=raises(ConnectionError("gone"))))
    profile = caught.value.profile
    assert done(profile) == {"a"}
    *_, ended_ms = profile.sections["timeline"]["records"][0]
    assert profile.metrics.total_time_ms >= ended_ms


def test_an_executor_that_cannot_be_opened_is_closed():
    executor = Here(open=raises(ConnectionError("nobody there")))
    with pytest.raises(ConnectionError, match="nobody there"):
        independent("a").run(executor=executor)
    assert executor.calls == ["close"]


def test_after_ctrl_c_jobs_that_have_not_begun_are_cancelled():
    futures = [Future(), Future()]
    left = iter(futures)
    executor = Here(submit=lambda *_: next(left), check=raises(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt) as caught:
        independent("a", "b").run(executor=executor)
    assert caught.value.profile.sections["run"]["state"] == "partial"
    assert executor.calls == ["open", "close"]
    assert [future.cancelled() for future in futures] == [True, True]


def test_an_executor_that_grows_gets_more_tasks_at_once():
    barrier = threading.Barrier(3)
    meets = task(outputs=["x"])(lambda: {"x": barrier.wait(timeout=30) >= 0})
    tasks = {**dict.fromkeys("abc", meets), "d": programs.passes}

    def submit(job, handles):
        executor.capacity = 3
        return pool.submit(job, handles)

    executor = Here(capacity=1, shares_memory=True, submit=submit)
    with ThreadPoolExecutor(3) as pool:
        profile = DAG(tasks, [("c", "d")]).run(executor=executor)
    assert profile.outputs == {"a": {"x": True}, "b": {"x": True}, "d": {"y": True}}


# -- which tasks share a job ---------------------------------------------------------------


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

    @property
    def jobs(self):
        return self.calls[1:-1]


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
        # It goes first if it comes first.
        ("l0 s1 s2", 1, ["l0", "s1 and 1 more"]),
        # Two of these would be too much for one job.
        ("m1 m2", 4, ["m1", "m2"]),
        # The last does not fit, and waits for the next job.
        ("h1 h2 h3 l4", 1, ["h1 and 1 more", "h3", "l4"]),
    ],
)
def test_ready_tasks_share_the_jobs_that_the_executor_accepts(monkeypatch, names, capacity, jobs):
    parts = {"s": 100, "m": 1.9, "h": 2}
    takes_s = {kind: dispatch.BATCH_S / part for kind, part in parts.items()}
    expected_s = staticmethod(lambda name, _: takes_s.get(name[0], float("inf")))
    monkeypatch.setattr(dispatch.Durations, "expected_s", expected_s)
    executor = Records(capacity)
    DAG(dict.fromkeys(names.split(), programs.last)).run(executor=executor)
    assert executor.jobs == jobs


def test_a_task_with_a_time_limit_travels_alone(batches_of):
    batches_of(50)
    dag, executor = independent("s1", "s2", "s3"), Here(capacity=1, enforces_timeout=True)
    dag.tasks["s2"].timeout = 60
    # The process beside this thread must not be inherited by pools that fork later.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(dag.run, executor=executor).result()
    assert executor.calls == ["open", "s1", "s2", "s3", "close"]


def test_all_tasks_of_a_lost_batch_are_lost_and_named(batches_of):
    batches_of(50)
    executor = Records(1)
    executor.check = raises(ConnectionError("gone"))
    failures = failure(independent("s0", "s1", "s2"), executor).failures
    assert failures.keys() == {"s0", "s1", "s2"}
    assert all(isinstance(lost, WorkerError) for lost in failures.values())
    assert failures["s1"].in_flight == ["s0", "s2"]


def test_tasks_of_a_batch_that_is_lost_again_are_tried_alone(batches_of):
    class Loses(Records):
        retries = 1

        def check(self):
            lost = [sent for sent in self.sent if b"s1" in pickle.dumps(sent[1])]
            self.sent = [sent for sent in self.sent if sent not in lost]
            super().check()
            for future, *_ in lost:
                future.set_exception(ConnectionError("died twice"))

    batches_of(50)
    dag = DAG({f"s{i}": programs.last for i in range(4)})
    failed = failure(dag, Loses(1), on_error="finish")
    assert [*failed.failures] == ["s1"]
    attempts = failed.profile.sections["run"]["attempts"]
    assert {name: len(lost) for name, lost in attempts.items()} == dict.fromkeys(dag.tasks, 1)
    assert "died twice" in str(attempts["s0"])


# -- what is sent --------------------------------------------------------------------------


def test_a_large_config_goes_through_one_file_a_round(tmp_path):
    counts, sizes = [], []

    def answer(job, handles):
        counts.append(len([*tmp_path.iterdir()]))
        sizes.append(len(pickle.dumps((job, handles))))
        return Here().answer(job, handles)

    dag = DAG(dict.fromkeys("abc", programs.last), [], Config(large="x" * 10**6))
    dag.run(executor=Here(folder=str(tmp_path), answer=answer), rounds=2)
    assert {*counts} == {1}
    assert max(sizes) < 1500
    assert [*tmp_path.iterdir()] == []


def test_functions_within_functions_need_cloudpickle(monkeypatch):
    pytest.importorskip("cloudpickle")
    dag = independent("t")
    dag.tasks["t"].rule = lambda: 0
    assert dag.run(executor=Here()).outputs == {"t": {"x": None}}
    monkeypatch.setattr(jobs, "_cloudpickle", lambda: None)
    with pytest.raises(Exception, match=r"'t'.*'rule'.*pip install \"dagprofiler\[cloudpickle\]\""):
        dag.run(executor=Here())


SCRIPT = """
import pickle, sys
from conformance import Here
from dagprofiler import DAG, Task

class Mine(Task):
    outputs = ["x"]
    def compute(self):
        return {"x": self.value}

sent = []
def submit(job, handles):
    sent.append((job, handles))
    return Here().submit(job, handles)

for Mine.value in (1, 2):
    DAG({"t": Mine, "u": Mine}).run(executor=Here(submit=submit))
sys.stdout.buffer.write(pickle.dumps(sent))
"""


def test_classes_of_the_main_program_are_sent_anew_in_each_run():
    pytest.importorskip("cloudpickle")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    data = subprocess.check_output([sys.executable, "-c", SCRIPT], env=env)
    results = [job(handles) for job, handles in pickle.loads(data)]
    records = [record for result in results for record in result.records]
    assert [pickle.loads(record.frames["x"]) for record in records] == [1, 1, 2, 2]


def test_an_input_that_cannot_be_read_fails_its_task_alone(batches_of, tmp_path):
    class Forgets(Records):
        folder = str(tmp_path)

        def check(self):
            for file in tmp_path.iterdir():
                file.unlink()
            super().check()

    batches_of(50)
    short = dict.fromkeys(["s0", "s2"], programs.last)
    edges = [("fill", "s1"), *(("fill", name, ORDER_ONLY) for name in short)]
    dag = DAG({"fill": programs.Fill(10**6), "s1": programs.length, **short}, edges)
    failures = failure(dag, Forgets(1), on_error="finish").failures
    assert [*failures] == ["s1"]
    assert isinstance(failures["s1"], SerializationError)
    assert re.match("task 's1'.*FileNotFoundError", str(failures["s1"]))


# -- whose clock ---------------------------------------------------------------------------


moments = st.lists(st.floats(0, 10), min_size=4, max_size=4).map(sorted)


@given(ahead_s=st.floats(-1e4, 1e4), tasks=st.lists(moments, min_size=1))
def test_the_error_holds_whatever_the_delays(ahead_s, tasks):
    clock = Clock()
    for sent_s, started_s, ended_s, arrived_s in tasks:
        clock.add_job(sent_s, [started_s + ahead_s, ended_s + ahead_s], arrived_s)
    assert abs(clock.ahead_s - ahead_s) <= clock.error_s + 1e-9


FAR = Worker("far", 7, 1, "far's clock", True)


def far(job, handles):
    """Return the result of a job as of a host whose clock is 1000 s ahead."""
    (record,) = Here().answer(job, handles).records
    times = tuple(moment and moment + 1000 for moment in record.times)
    return JobResult(FAR, [record._replace(times=times)])


def test_times_of_another_host_are_brought_to_this_clock(batches_of):
    batches_of(1)
    begun = perf_counter()
    profile = programs.failing("nothing").run(executor=Here(answer=far))
    took_ms = (perf_counter() - begun) * 1e3
    timeline = profile.sections["timeline"]
    (worker,) = timeline["workers"]
    assert (worker["host"], worker["pid"], worker["thread"]) == FAR[:3]
    assert worker["clock_ahead_ms"] == pytest.approx(1e6, abs=worker["clock_error_ms"] + 1e-3)
    at = timeline["columns"].index("deserialize_start_ms")
    for row in timeline["records"]:
        assert all(0 <= moment <= took_ms for moment in row[at:])


def test_a_clock_that_no_job_has_read_has_no_figures():
    def unread(job, handles):
        return JobResult(FAR, [jobs.failed(ImportError("gone"))])

    error = failure(independent("a"), Here(answer=unread))
    (worker,) = error.profile.sections["timeline"]["workers"]
    assert worker["host"] == "far"
    assert not worker.keys() & {"clock_ahead_ms", "clock_error_ms"}


UNGUARDED = """
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from dagprofiler import DAG, task

@task(outputs=["x"])
def one():
    return {"x": 1}

DAG({"one": one}).run(executor=ProcessPoolExecutor(1, get_context("spawn")))
"""


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["-c", "import unguarded"], "start it under if __name__ == '__main__':"),
        (["unguarded.py"], "a program needs to start under if __name__ == '__main__':"),
    ],
)
def test_a_program_without_a_guard_whose_workers_import_it(tmp_path, words, says):
    (tmp_path / "unguarded.py").write_text(UNGUARDED)
    line = [sys.executable, *words]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert says in done.stderr.splitlines()[-1]


@interrupted_later()
def start_in_vain():
    signal.raise_signal(signal.SIGINT)
    raise OSError("no cluster answers")


def test_ctrl_c_while_a_cluster_fails_to_start_is_not_lost():
    with pytest.raises(KeyboardInterrupt):
        start_in_vain()
