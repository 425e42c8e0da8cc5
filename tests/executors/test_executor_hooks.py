"""What an executor may tell a run: that it has grown, what it makes known, what it has lost."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from programs import Act, After

from dagprofiler import DAG, DaskExecutor, Executor, MissingExtraError, RunError, Task
from dagprofiler.executors.jobs import announce, withdraw


class Growing(Executor):
    """Takes one task at first, and more when it has got one."""

    name = "growing"
    shares_memory = True
    capacity = 1

    def open(self):
        self._pool = ThreadPoolExecutor(3)

    def submit(self, job, handles):
        future = self._pool.submit(job, handles)
        if self.capacity == 1:
            self.capacity = 3
            self.capacity_changed()
        return future

    def close(self):
        self._pool.shutdown()


class Barrier(Task):
    outputs = ["x"]

    def __init__(self, barrier):
        super().__init__()
        self.barrier = barrier

    def compute(self):
        return {"x": self.barrier.wait(timeout=30) >= 0}


def test_an_executor_that_grows_gets_more_at_once():
    barrier = threading.Barrier(3)

    profile = DAG({name: Barrier(barrier) for name in "abc"}).run(executor=Growing())

    assert profile.outputs == {name: {"x": True} for name in "abc"}


def test_tasks_wait_for_their_inputs_also_where_one_task_at_a_time_was_the_beginning():
    dag = DAG({"a": Act("nothing"), "b": After, "c": After}, [("a", "b"), ("a", "c")])

    profile = dag.run(executor=Growing())

    assert profile.outputs == {"b": {"y": None}, "c": {"y": None}}


def test_outside_of_a_run_nobody_asks_for_the_capacity():
    Growing().capacity_changed()


class Telling(Executor):
    """Tells its worker, which is this process, what a round's jobs share."""

    name = "telling"
    capacity = 2

    def __init__(self):
        self.keys, self.jobs = [], []

    def announce(self, key, session):
        self.keys.append(key)
        announce(key, session)

    def submit(self, job, handles):
        self.jobs.append(job.name)
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(job, handles)

    def close(self):
        for key in self.keys:
            withdraw(key)


def test_what_is_announced_need_not_be_sent_with_a_job():
    executor = Telling()
    DAG({"a": Act("nothing"), "b": After}, [("a", "b")]).run(executor=executor, rounds=2)

    assert len(executor.keys) == len(set(executor.keys)) > 1
    assert executor.jobs == ["a", "b"] * len(executor.keys)


class Forgetful(Telling):
    """Loses all outputs."""

    def fetch(self, handle):
        raise ConnectionError("gone")


def test_an_output_that_cannot_be_fetched_is_lost():
    with pytest.raises(RunError, match="task 'a' was lost by its executor: ConnectionError: gone"):
        DAG({"a": Act("nothing")}).run(executor=Forgetful())


def test_without_dask_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)

    with pytest.raises(MissingExtraError, match=r"dagprofiler\[dask\]"):
        DaskExecutor()
