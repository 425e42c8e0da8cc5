"""Executors that somebody else writes: the worked example of the documentation, and odd ones."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import Future
from pathlib import Path

import programs
import pytest
from conformance import failure

from dagprofiler import DAG, Executor

pytestmark = pytest.mark.usefixtures("impatient")


class Odd(Executor):
    """Takes what `capacity` says and runs the first `runs` of it."""

    name = "odd"
    shares_memory = True
    capacity = 2

    def __init__(self, runs):
        self.runs = runs
        self.checked = 0

    def submit(self, job, handles):
        future = Future()
        if self.runs:
            self.runs -= 1
            future.set_result(job(handles))
        return future

    def check(self):
        self.checked += 1
        if self.checked > 1:
            raise ConnectionError("all workers are gone")


def test_an_executor_without_workers_is_no_run_that_did_nothing():
    executor = Odd(runs=0)
    executor.capacity = 0
    error = failure(DAG({"bad": programs.last, "b": programs.last}, [("bad", "b", [])]), executor)
    assert str(error.__cause__) == (
        "task 'bad' was lost by its executor: there is no worker to take it"
    )
    assert [*error.failures] == ["bad"]


def test_a_run_that_is_over_needs_no_workers_any_more():
    class Leaves(Odd):
        @property
        def capacity(self):
            return 2 * self.runs

    dag = DAG({"a": programs.last, "b": programs.last}, [("a", "b", [])])
    assert dag.run(executor=Leaves(runs=2)).final_outputs == {"done": True}


def test_late_results_of_jobs_that_were_given_up_change_nothing():
    class Late(Odd):
        def submit(self, job, handles):
            self.late = super().submit(job, handles)
            return self.late

        def check(self):
            try:
                super().check()
            except ConnectionError:
                self.late.set_result(None)
                raise

    error = failure(DAG({"a": programs.last}), Late(runs=0))
    assert [*error.failures] == ["a"]


EXAMPLES = Path(__file__).resolve().parent.parent.parent / "docs" / "examples"

DIES = """
import multiprocessing, os
from dagprofiler import DAG, RunError, Task
from own_executor import MultiprocessingPool

class Dies(Task):
    outputs = ["x"]
    def compute(self):
        os._exit(1)

if __name__ == "__main__":
    with multiprocessing.Pool(2) as pool:
        try:
            DAG({"dies": Dies, "dies too": Dies}).run(executor=MultiprocessingPool(pool))
        except RunError as error:
            print(error.__cause__)
"""


def printed(path):
    done = subprocess.run(
        [sys.executable, path],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(EXAMPLES), *sys.path])},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.splitlines()


def test_the_worked_example_runs_on_its_pool():
    assert printed(EXAMPLES / "own_executor.py") == [
        "{'sum': 5500} by multiprocessing.Pool",
        "the same serially: {'sum': 5500}",
        "at most two processes: True",
    ]


def test_the_worked_example_notices_a_process_that_dies(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(DIES)
    (line,) = printed(program)
    assert re.fullmatch(
        r"task '(\w| )+' was lost by its executor: ChildProcessError: a process of the pool has "
        r"died( \(also in flight: .*\))?",
        line,
    )
