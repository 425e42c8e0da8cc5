from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import programs
import pytest
from conformance import Conformance

from dagprofiler import DAG, RunError, ValidationError
from dagprofiler.executors.dask import DaskExecutor

distributed = pytest.importorskip("distributed")
pytestmark = [
    pytest.mark.external,
    # Dask's own, where a worker is killed.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


class TestDask(Conformance):
    @pytest.fixture
    def executor(self, client):
        client.wait_for_workers(2)
        return DaskExecutor(client)

    def test_threads_are_told_of_the_seeds_reach(self, executor):
        profile = programs.failing("legacy").run(seed=1, executor=executor)

        assert profile.sections["run"]["legacy_generators"] is False

    def test_a_worker_that_dies_once_costs_an_attempt(self, client, tmp_path):
        dag = programs.failing("exit_once", str(tmp_path / "once"))

        profile = dag.run(executor=DaskExecutor(client, retries=2))

        assert profile.outputs["behind"] == {"y": "the second time"}
        (lost,) = profile.sections["run"]["attempts"]["bad"]
        assert lost["round"] == 0
        assert "was removed from the cluster" in lost["error"]

    def test_outputs_that_died_with_their_worker_are_made_again_and_counted_once(self, client):
        tasks = {
            "first": programs.Fill(1000),
            "bad": programs.Act("exit"),
            "last": programs.Length,
        }
        dag = DAG(tasks, [("first", "bad", []), ("first", "last"), ("bad", "last", [])])
        with pytest.raises(RunError) as caught:
            dag.run(executor=DaskExecutor(client), on_error="finish")

        assert [one.task for one in caught.value.profile.metrics.task_metrics] == ["first"]

    def test_dasks_own_executor_does(self, client):
        client.wait_for_workers(2)
        dag = programs.program()
        asked = {"seed": 5, "inputs": programs.OUTSIDE}
        profile = dag.run(**asked, executor=client.get_executor())

        assert repr(profile.outputs) == repr(dag.run(**asked).outputs)


def test_a_cluster_of_its_own_is_started_and_ended():
    profile = programs.program().run(seed=5, inputs=programs.OUTSIDE, executor=DaskExecutor())

    pids = {one["pid"] for one in profile.sections["timeline"]["workers"]}
    assert os.getpid() not in pids
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


@pytest.mark.parametrize("given", [3, object()])
def test_what_is_no_cluster_is_refused(given):
    with pytest.raises(ValidationError, match=r"expected a distributed\.Client"):
        DaskExecutor(given)


@pytest.mark.parametrize("retries", [-1, 1.5, True])
def test_retries_are_a_number(retries):
    with pytest.raises(ValidationError, match="retries must be an integer"):
        DaskExecutor(retries=retries)


def test_time_limits_are_refused(client):
    with pytest.raises(ValidationError, match="executor 'dask' cannot end a task"):
        programs.program().run(executor=DaskExecutor(client), timeout=3)


SCRIPT = """
import os, signal, threading
from dagprofiler import DAG, Task
from dagprofiler.executors.dask import DaskExecutor

class Wait(Task):
    outputs = ["x"]
    def compute(self):
        print("up", os.getpid(), flush=True)
        threading.Event().wait(60)
        return {"x": 1}

if __name__ == "__main__":
    try:
        DAG({"a": Wait, "b": Wait}).run(executor=DaskExecutor())
    except KeyboardInterrupt as stopped:
        print("stopped", stopped.profile.sections["run"]["state"], flush=True)
"""


def test_ctrl_c_leaves_no_process_behind(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    with subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        pid = int(process.stdout.readline().split()[1])
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=60)

    assert "stopped partial" in said
    assert not Path(f"/proc/{pid}").exists()
