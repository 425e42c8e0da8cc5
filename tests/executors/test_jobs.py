from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
import threading

import pytest
from programs import Act, After, Fill, Scale

from dagprofiler import DAG, Config, SerializationError
from dagprofiler.executors import jobs
from dagprofiler.executors._shared_files import SHARED_FILE_BYTES, SharedFile
from dagprofiler.executors.jobs import Job, JobPickler, PackedJob, Session
from dagprofiler.serializers import FrameList, OutOfBandPickle


def make(task, session, *, keep=False, outputs=("x",), inputs=(), decoders=()):
    """Return a job as a worker in another process gets it, and what it was before."""
    dag = DAG({"t": task})
    work = ("t", dag.tasks["t"], *dag._contracts, [*inputs], [*decoders], keep)
    packer = JobPickler(by_value=False)
    job = packer.job(session.key, work, [*outputs])
    return pickle.loads(pickle.dumps(job)), packer.session(session)


def work_of(task):
    """Return what a run hands over of a task."""
    dag = DAG({"t": task})
    (contract,) = dag._contracts
    return "t", dag.tasks["t"], contract, [], [], False


def session(key, **fields):
    given = {"config": Config(), "seed": None, "instrumentation": None}
    return Session(**{"key": key, "collects": False, "folder": None, **given, **fields})


def test_a_worker_that_does_not_know_the_session_says_so():
    one = session("unknown here")
    job, packed = make(Act("nothing"), one)
    assert job([]) is None
    worker, record, attempts = job.with_session(packed)([])
    assert record[3] == {"x": pickle.dumps(None, pickle.HIGHEST_PROTOCOL)}
    assert worker == jobs.this_worker()
    assert worker[1:3] == (os.getpid(), threading.get_ident())
    assert attempts == ()
    # From now on it does.
    assert job([])[1][5] is None


def test_sessions_that_are_not_used_any_more_are_forgotten():
    known = []
    for i in range(20):
        job, packed = make(Act("nothing"), session(f"session {i}"))
        assert job.with_session(packed)([]) is not None
        known.append(job)
    assert [job([]) is None for job in known] == [True] * 12 + [False] * 8


def test_only_outputs_that_somebody_needs_leave_the_worker():
    job, packed = make(Act("nothing"), session("needs"), outputs=[])
    kept, _ = make(Act("nothing"), session("needs"), outputs=[], keep=True)
    _, record, _ = job.with_session(packed)([])
    assert record[3] == {}
    assert list(record[2]) == ["x"]
    assert list(kept([])[1][3]) == ["x"]


def test_a_failure_comes_back_with_its_causes_and_the_workers_traceback():
    job, packed = make(Act("raise"), session("fails"))
    _, record, _ = pickle.loads(pickle.dumps(job.with_session(packed)([])))
    error = record[5].unpacked()
    assert repr(error) == "ValueError('no such cell')"
    assert repr(error.__cause__) == "ZeroDivisionError('division by zero')"
    assert "in _divide" in str(error.__cause__.__cause__)
    assert record[0][2] <= record[0][3]
    assert record[0][4] is None


def test_what_cannot_be_unpacked_fails_and_names_the_task():
    job = PackedJob("key", "t", False, [], b"no pickle", pickle.dumps(tuple(session("key"))))
    _, record, _ = job([])
    error = record[5].unpacked()
    assert isinstance(error, SerializationError)
    assert re.match("task 't'.*UnpicklingError", str(error))


def test_the_config_is_that_of_the_session():
    job, packed = make(Draws(), session("config", config=Config(n=7)), keep=True)
    _, record, _ = job.with_session(packed)([])
    assert pickle.loads(record[3]["x"]) == (7, 7)


class Draws(Act):
    def __init__(self):
        super().__init__("nothing")

    def compute(self, cfg):
        return {"x": (cfg.n, self.config.n)}


def test_large_outputs_leave_as_files_where_there_is_a_folder(tmp_path):
    task = Fill(SHARED_FILE_BYTES)
    one = session("large", folder=str(tmp_path))
    job, packed = make(task, one, outputs=["data"])
    _, record, _ = job.with_session(packed)([])
    shared = record[3]["data"]
    assert type(shared) is SharedFile
    assert record[2]["data"] == os.path.getsize(shared.path) > SHARED_FILE_BYTES
    dag = DAG({"t": After()})
    work = ("t", dag.tasks["t"], *dag._contracts, ["x"], [pickle.loads], True)
    after = JobPickler(by_value=False).job(one.key, work, [])
    _, record, _ = after([shared])
    assert type(record[3]["y"]) is SharedFile


def test_where_there_is_no_room_for_a_file_an_output_leaves_as_it_is(tmp_path):
    job, packed = make(
        Fill(SHARED_FILE_BYTES), session("full", folder=str(tmp_path / "gone")), outputs=["data"]
    )
    _, record, _ = job.with_session(packed)([])
    assert type(record[3]["data"]) is bytes


def test_a_list_of_buffers_leaves_as_one_that_travels():
    task = Fill(100)
    task.serializer = OutOfBandPickle()
    job, packed = make(task, session("buffers"), outputs=["data"])
    answer = job.with_session(packed)([])
    frames = pickle.loads(pickle.dumps(answer))[1][3]["data"]
    assert type(frames) is FrameList
    assert task.serializer.loads(frames).sum() == 100


def test_a_job_in_this_process_needs_no_pickle():
    task = Act("nothing")
    task.lock = threading.Lock()
    dag = DAG({"t": task})
    job = Job(session("threads"), ("t", task, *dag._contracts, [], [], True))
    worker, record, attempts = job([])
    assert job.name == "t"
    assert record[4] == {"x": None}
    assert worker[-1] is True
    assert attempts == ()


@pytest.mark.parametrize("seed", [None, 3])
def test_a_thread_beside_others_is_not_alone(seed):
    dag = DAG({"t": Act("legacy")})
    job = Job(
        session(f"beside {seed}", seed=seed),
        ("t", *dag.tasks.values(), *dag._contracts, [], [], True),
    )
    answers = []
    thread = threading.Thread(target=lambda: answers.append(job([])))
    thread.start()
    thread.join()
    assert answers[0][0][-1] is False
    assert answers[0][1][4] != job([])[1][4]


def test_a_task_travels_without_the_config_which_its_session_has():
    task = After()
    work = work_of(task)
    task.config = Config(secret="x" * 1000)
    job = JobPickler(by_value=False).job("key", work, ["y"])
    assert b"xxx" not in pickle.dumps(job)
    assert task.config == Config(secret="x" * 1000)
    assert (job.name, job.outputs, job.keep) == ("t", ["y"], False)


def test_a_task_that_cannot_travel_has_its_config_again():
    task = After()
    work = work_of(task)
    task.config, task.lock = Config(n=1), threading.Lock()
    with pytest.raises(SerializationError, match=r"'t'.*'lock'"):
        JobPickler(by_value=False).job("key", work, [])
    assert task.config == Config(n=1)


def test_a_session_names_the_parameter_that_cannot_travel():
    with pytest.raises(SerializationError, match=r"config.*'lock'"):
        JobPickler(by_value=False).session(
            session("key", config=Config(n=1, lock=threading.Lock()))
        )


def test_contracts_that_many_tasks_share_are_packed_once():
    dag = DAG({"a": Act("nothing"), "b": Act("nothing")})
    packer = JobPickler(by_value=False)
    first, second = (
        packer.job("key", (name, dag.tasks[name], contract, [], [], False), ["x"])
        for name, contract in zip("ab", dag._contracts)
    )
    sent = [pickle.loads(job._data)[1] for job in (first, second)]
    assert type(sent[0]) is bytes
    assert sent[0] == sent[1]


def test_contracts_that_may_hold_on_to_their_task_are_not():
    job = JobPickler(by_value=False).job("key", work_of(Scale()), [])
    assert type(pickle.loads(job._data)[1]) is not bytes


def test_functions_within_functions_need_cloudpickle(monkeypatch):
    task = After()
    task.rule = lambda: 0
    work = work_of(task)
    pytest.importorskip("cloudpickle")
    assert JobPickler(by_value=False).job("key", work, []).name == "t"
    monkeypatch.setattr(jobs, "_cloudpickle", lambda: None)
    with pytest.raises(SerializationError, match=r'pip install "dagprofiler\[cloudpickle\]"'):
        JobPickler(by_value=False).job("key", work, [])


SCRIPT = """
import pickle, subprocess, sys
from dagprofiler import DAG, Task
from dagprofiler.executors.jobs import JobPickler

class Mine(Task):
    outputs = ["x"]
    def compute(self):
        return {"x": 42}

dag = DAG({"t": Mine})
job = JobPickler(by_value=True).job("key", ("t", dag.tasks["t"], *dag._contracts, [], [], True), [])
sys.stdout.buffer.write(job._data)
"""


def test_what_the_main_program_defines_is_taken_along():
    pytest.importorskip("cloudpickle")
    data = subprocess.run([sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, check=True).stdout
    task, *_ = pickle.loads(data)
    assert task.compute() == {"x": 42}
