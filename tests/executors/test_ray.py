from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import programs
import pytest
from conformance import Conformance

from dagprofiler import DAG, Hook, RunError, Task, ValidationError, WorkerError
from dagprofiler.serializers import OutOfBandPickle

ray = pytest.importorskip("ray")

from dagprofiler.executors.ray import RayExecutor, _path_for_workers  # noqa: E402

pytestmark = [
    pytest.mark.external,
    # Ray's own.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def cluster():
    with _path_for_workers():
        ray.init(
            "local",
            num_cpus=2,
            resources={"scale": 3},
            include_dashboard=False,
            log_to_driver=False,
            logging_level="error",
        )
    yield
    ray.shutdown()


@pytest.mark.usefixtures("cluster")
class TestRay(Conformance):
    @pytest.fixture
    def executor(self):
        return RayExecutor()

    def test_the_seed_reaches_the_legacy_generators(self, executor):
        dag = programs.failing("legacy")
        profile = dag.run(seed=1, executor=executor)
        assert profile.outputs == dag.run(seed=1).outputs
        assert "legacy_generators" not in profile.sections["run"]

    def test_outputs_that_are_kept_come_also_where_others_need_them(self, executor):
        dag = DAG({"fill": Views, "a": programs.Length}, [("fill", "a")])
        profile = dag.run(executor=executor, keep=["fill"])
        assert profile.outputs["fill"]["data"].sum() == Views.SIZE
        assert profile.outputs["fill"]["more"] == [1]

    def test_a_worker_that_dies_once_costs_an_attempt(self, tmp_path):
        dag = programs.failing("exit_once", str(tmp_path / "once"))
        profile = dag.run(executor=RayExecutor(retries=2))
        assert profile.outputs["behind"] == {"y": "the second time"}
        assert profile.sections["run"]["attempts"] == {
            "bad": [{"round": 0, "error": "its worker died (attempt 1 of 3)"}]
        }

    def test_a_task_whose_workers_always_die_fails_after_its_retries(self):
        with pytest.raises(RunError, match="task 'bad' was lost by its executor") as caught:
            programs.failing("exit").run(executor=RayExecutor(retries=1), on_error="finish")
        assert isinstance(caught.value.__cause__, WorkerError)
        done = {one.task for one in caught.value.profile.metrics.task_metrics}
        assert done == {"beside", "other"}

    @pytest.mark.parametrize(
        ("options", "capacity"),
        [
            (None, 4),
            ({"num_cpus": 2}, 2),
            ({"num_cpus": 0.5}, 8),
            ({"num_cpus": 0, "resources": {"scale": 1}}, 6),
            ({"num_cpus": 0}, 4),
            ({"num_cpus": 100}, 2),
        ],
    )
    def test_what_tasks_ask_for_says_how_many_are_in_flight(self, options, capacity):
        assert RayExecutor(options=options).capacity == capacity

    def test_tasks_with_options_run(self):
        executor = RayExecutor(options={"num_cpus": 2, "resources": {"scale": 1}})
        assert programs.failing("nothing").run(executor=executor).outputs["other"] == {"y": None}

    def test_after_ctrl_c_a_users_cluster_is_free_again(self, executor, tmp_path):
        class Stop(Hook):
            def task_finished(self, record):
                raise KeyboardInterrupt

        dag = DAG(
            {"a": programs.Act("wait", str(tmp_path / "never")), "b": programs.Act("nothing")}
        )
        with pytest.raises(KeyboardInterrupt):
            dag.run(executor=executor, hooks=[Stop()])
        until = time.monotonic() + 20
        while ray.available_resources().get("CPU") != 2 and time.monotonic() < until:
            time.sleep(0.05)
        assert ray.available_resources()["CPU"] == 2

    def test_outputs_that_nobody_asked_for_stay_with_the_workers(self, executor, monkeypatch):
        handed, submit = [], RayExecutor.submit

        def noted(self, job, handles):
            handed.extend(handles)
            return submit(self, job, handles)

        monkeypatch.setattr(RayExecutor, "submit", noted)
        monkeypatch.setattr(ray, "get", None)
        dag = DAG({"fill": programs.Fill(3_000_000), "a": programs.Length}, [("fill", "a")])
        dag.run(executor=executor)
        assert {type(handle) for handle in handed} == {ray.ObjectRef}

    def test_it_stays_connected_and_the_store_is_empty_again(self, executor):
        dag = DAG({"fill": programs.Fill(20_000_000), "a": programs.Length}, [("fill", "a")])
        dag.run(executor=executor)
        assert ray.is_initialized()
        until = time.monotonic() + 30
        while time.monotonic() < until:
            if (
                ray.available_resources()["object_store_memory"]
                == ray.cluster_resources()["object_store_memory"]
            ):
                return
            time.sleep(0.1)
        pytest.fail("outputs are still in the store")


class Views(Task):
    outputs = ["data", "more"]
    serializer = OutOfBandPickle()
    SIZE = 3_000_000

    def compute(self):
        return {"data": np.ones(self.SIZE, dtype=np.uint8), "more": [1]}


@pytest.mark.parametrize("retries", [-1, 1.5, True])
def test_retries_are_a_number(retries):
    with pytest.raises(ValidationError, match="retries must"):
        RayExecutor(retries=retries)


def test_an_address_is_text():
    with pytest.raises(ValidationError, match="address must be a string"):
        RayExecutor(3)


def test_ray_client_is_refused():
    with pytest.raises(ValidationError, match=r"Ray Client .* got 'ray://head:10001'; run the"):
        RayExecutor("ray://head:10001")


@pytest.mark.parametrize("options", [{"cpus": 2}, {"num_cpus": -1}, 3])
def test_options_are_those_of_ray(options):
    with pytest.raises(ValidationError, match=r"options .*ray\.remote"):
        RayExecutor(options=options)


@pytest.mark.parametrize("name", ["max_retries", "num_returns", "name"])
def test_options_of_its_own_are_refused(name):
    with pytest.raises(ValidationError, match=f"options: '{name}' is set by"):
        RayExecutor(options={name: 1 if name != "name" else "x"})


SCRIPT = """
import os, sys, threading
import numpy as np
from dagprofiler import DAG, RayExecutor, Task
from dagprofiler.serializers import OutOfBandPickle

class Data(Task):
    outputs = ["data"]
    serializer = OutOfBandPickle()
    def compute(self):
        return {"data": np.ones(1_000_000, dtype=np.uint8)}

class Wait(Task):
    outputs = ["x"]
    def compute(self):
        with open(os.environ["MARK"], "a") as file:
            file.write(f"{os.getpid()}\\n")
        threading.Event().wait(60)
        return {"x": 1}

if __name__ == "__main__":
    profile = DAG({"data": Data}).run(executor=RayExecutor())
    print("sum", int(profile.outputs["data"]["data"].sum()), flush=True)
    try:
        DAG({"a": Wait}).run(executor=RayExecutor())
    except KeyboardInterrupt as stopped:
        print("stopped", stopped.profile.sections["run"]["state"], flush=True)
"""


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def descendants(pid):
    """Return the processes that a process has started, and those that they have."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found, below = [], [pid]
    while below:
        one = below.pop()
        children = [child for child, parent in parents.items() if parent == one]
        found += children
        below += children
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in Linux's /proc")
def test_ctrl_c_leaves_no_process_behind(tmp_path):
    script, mark = tmp_path / "script.py", tmp_path / "mark"
    script.write_text(SCRIPT)
    mark.touch()
    with subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        env={**os.environ, "MARK": str(mark)},
    ) as process:
        while not mark.read_text().endswith("\n") and process.poll() is None:
            time.sleep(0.05)
        started = descendants(process.pid)
        # As a terminal does: all processes of the group get it.
        os.killpg(process.pid, signal.SIGINT)
        said, _ = process.communicate(timeout=60)
    assert said == "sum 1000000\nstopped partial\n"
    assert int(mark.read_text()) in started
    until = time.monotonic() + 10
    while any(map(is_running, started)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not [pid for pid in started if is_running(pid)]


TOO_MUCH = """
import ray
from dagprofiler import DAG, RayExecutor, Task, ValidationError

class One(Task):
    outputs = ["x"]
    def compute(self):
        return {"x": 1}

try:
    DAG({"a": One}).run(executor=RayExecutor(options={"num_cpus": 10_000}))
except ValidationError as error:
    print(error, ray.is_initialized())
"""


def test_what_no_machine_has_is_refused_instead_of_waited_for():
    ran = subprocess.run(
        [sys.executable, "-c", TOO_MUCH],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        timeout=120,
        check=True,
    )
    assert ran.stdout == (
        "RayExecutor: options {'num_cpus': 10000} ask for more than this machine has False\n"
    )


HOG = """
import os
import numpy as np
from dagprofiler import DAG, RayExecutor, RunError, Task

class Hog(Task):
    outputs = ["x"]
    def compute(self):
        held = []
        while len(held) < 80:
            held.append(np.ones(100_000_000, dtype=np.uint8))
        return {"x": len(held)}

if __name__ == "__main__":
    memory = dict(line.split()[:2] for line in open("/proc/meminfo"))
    total, free = int(memory["MemTotal:"]), int(memory["MemAvailable:"])
    # Some 700 MB more than is in use now.
    os.environ["RAY_memory_usage_threshold"] = str((total - free + 700_000) / total)
    os.environ["RAY_memory_monitor_refresh_ms"] = "20"
    try:
        DAG({"hog": Hog}).run(executor=RayExecutor(retries=1))
    except RunError as error:
        print(error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="free memory is looked up in Linux's /proc")
def test_a_task_that_takes_all_memory_fails(tmp_path):
    script = tmp_path / "hog.py"
    script.write_text(HOG)
    ran = subprocess.run(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        timeout=120,
        check=True,
    )
    assert "task 'hog' was lost by its executor" in ran.stdout
    # The second is ours, as Ray 2.60 would try again without end.
    assert re.search(r"OutOfMemoryError|ended [2-9] times for lack of memory", ran.stdout)
