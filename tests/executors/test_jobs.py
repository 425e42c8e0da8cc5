import pickle
import subprocess
import sys
import threading

import pytest
from programs import Act, passes, scale

from dagprofiler import DAG, Config, SerializationError
from dagprofiler.executors import jobs
from dagprofiler.executors.jobs import JobPickler, Session


def job_of(task, key="key"):
    """Return the job of a task, before it is sent to a worker."""
    dag = DAG({"t": task})
    work = "t", dag.tasks["t"], *dag._contracts, [], [], False
    return JobPickler(by_value=False).job(key, work, ["x"])


def make(task, session):
    """Return a job as a worker in another process gets it, and its session."""
    job = job_of(task, session.key)
    return pickle.loads(pickle.dumps(job)), JobPickler(by_value=False).session(session)


def session(key, **fields):
    given = {"config": Config(), "seed": None, "instrumentation": None}
    return Session(**{"key": key, "collects": False, "folder": None, **given, **fields})


def test_sessions_that_are_not_used_any_more_are_forgotten():
    known = []
    for i in range(20):
        job, packed = make(Act("nothing"), session(f"session {i}"))
        assert job.with_session(packed)([]) is not None
        known.append(job)
    assert [job([]) is None for job in known] == [True] * 12 + [False] * 8


def test_a_task_travels_without_the_config_which_its_session_has():
    task, config = passes(), Config(secret="x" * 1000)
    dag = DAG({"t": task})
    task.config = config
    work = ("t", task, *dag._contracts, [], [], False)
    job = JobPickler(by_value=False).job("key", work, ["y"])
    assert b"xxx" not in pickle.dumps(job)
    assert task.config is config
    assert (job.name, job.outputs, job.keep) == ("t", ["y"], False)
    task.lock = threading.Lock()
    with pytest.raises(SerializationError, match=r"'t'.*'lock'"):
        JobPickler(by_value=False).job("key", work, [])
    assert task.config is config


def test_contracts_are_packed_once_unless_they_may_hold_on_to_their_task():
    dag = DAG({"a": Act("nothing"), "b": Act("nothing"), "c": scale()})
    packer = JobPickler(by_value=False)
    jobs = [
        packer.job("key", (name, dag.tasks[name], contract, [], [], False), [])
        for name, contract in zip("abc", dag._contracts)
    ]
    first, second, other = (pickle.loads(job.data)[1] for job in jobs)
    assert type(first) is bytes
    assert first == second
    assert type(other) is not bytes


def test_functions_within_functions_need_cloudpickle(monkeypatch):
    task = passes()
    task.rule = lambda: 0
    pytest.importorskip("cloudpickle")
    assert job_of(task).name == "t"
    monkeypatch.setattr(jobs, "_cloudpickle", lambda: None)
    with pytest.raises(SerializationError, match=r'pip install "dagprofiler\[cloudpickle\]"'):
        job_of(task)


SCRIPT = """
import pickle, subprocess, sys
from dagprofiler import DAG, Task
from dagprofiler.executors.jobs import JobPickler

class Mine(Task):
    outputs = ["x"]
    def compute(self):
        return {"x": self.value}

dag, jobs = DAG({"t": Mine, "u": Mine}), []
for Mine.value, key in ((1, "first"), (2, "second")):
    pack = JobPickler(by_value=True).job
    for work in zip(dag.tasks, dag.tasks.values(), dag._contracts):
        jobs.append(pack(key, (*work, [], [], True), []))
sys.stdout.buffer.write(pickle.dumps(jobs))
"""


def test_what_the_main_program_defines_is_taken_along_once_in_each_session():
    pytest.importorskip("cloudpickle")
    data = subprocess.run([sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, check=True).stdout
    one, other, changed, _ = pickle.loads(data)
    tasks = [pickle.loads(job.data)[0] for job in (one, other)]
    assert tasks[0].compute.__func__ is tasks[1].compute.__func__
    values = []
    for key, job in (("second", changed), ("first", one)):
        _, record, _ = job.with_session(pickle.dumps(tuple(session(key))))([])
        values.append(pickle.loads(record[3]["x"]))
    assert values == [2, 1]
