from __future__ import annotations

import pickle
import subprocess
import sys
import threading

import pytest
from programs import Act, After, Scale

from dagprofiler import DAG, Config, SerializationError
from dagprofiler.executors import jobs as packing
from dagprofiler.executors.jobs import JobPickler, Session


def work_of(task):
    """Return what a run hands over of a task."""
    dag = DAG({"t": task})
    (contract,) = dag._contracts
    return "t", dag.tasks["t"], contract, [], [], False


def session(**config):
    return Session("key", Config(**config), None, None, False, None)


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


def test_where_no_attribute_is_to_blame_the_task_is():
    class Odd(After):
        def __reduce__(self):
            raise RuntimeError("never")

    with pytest.raises(SerializationError, match=r"'t'.*never"):
        JobPickler(by_value=False).job("key", work_of(Odd()), [])


def test_a_session_names_the_parameter_that_cannot_travel():
    with pytest.raises(SerializationError, match=r"config.*'lock'"):
        JobPickler(by_value=False).session(session(n=1, lock=threading.Lock()))


def test_meters_that_cannot_travel_are_named():
    bad = Session("key", Config(), None, threading.Lock(), False, None)
    with pytest.raises(SerializationError, match="meters"):
        JobPickler(by_value=False).session(bad)


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

    monkeypatch.setattr(packing, "_cloudpickle", lambda: None)
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
