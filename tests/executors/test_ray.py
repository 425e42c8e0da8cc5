import os
import re
import signal
import sys

import programs
import pytest
from conformance import Conformance, check_schedule, done, failure
from platforms import of_engine
from processes import processes, until

from dagprofiler import DAG, Hook, ValidationError, WorkerError

ray = pytest.importorskip("ray")

from dagprofiler.executors.ray import RayExecutor, _path_for_workers  # noqa: E402

RAYS_OWN = "DeprecationWarning", "FutureWarning"
pytestmark = [*of_engine, *(pytest.mark.filterwarnings(f"ignore::{name}") for name in RAYS_OWN)]


@pytest.fixture(scope="module")
def cluster():
    with _path_for_workers():
        quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": "error"}
        ray.init("local", num_cpus=2, resources={"scale": 3, "east": 1, "west": 1}, **quiet)
    yield
    ray.shutdown()


@pytest.mark.usefixtures("cluster")
class TestRay(Conformance):
    @pytest.fixture
    def executor(self):
        return RayExecutor()

    def test_tasks_whose_workers_die_are_tried_as_often_as_asked(self, tmp_path):
        dag = programs.failing("exit_once", str(tmp_path / "once"))
        profile = dag.run(executor=RayExecutor(retries=2))
        assert profile.outputs["behind"] == {"y": "the second time"}
        attempts = profile.sections["run"]["attempts"]
        assert attempts == {"bad": [{"round": 0, "error": "its worker died"}]}
        error = failure(programs.failing("exit"), RayExecutor(retries=1), on_error="finish")
        assert isinstance(error.__cause__, WorkerError)
        assert "task 'bad' was lost by its executor" in str(error)
        assert done(error.profile) == {"beside", "other"}

    @pytest.mark.parametrize(
        ("options", "capacity"),
        [
            (None, 4),
            ({"num_cpus": 2}, 2),
            ({"num_cpus": 0.5}, 8),
            ({"num_cpus": 0, "resources": {"scale": 1}}, 6),
            ({"num_cpus": 100}, 2),
        ],
    )
    def test_what_tasks_ask_for_says_how_many_are_in_flight(self, options, capacity):
        assert RayExecutor(options=options).capacity == capacity

    def test_a_schedule_is_kept_on_workers_by_their_options(self):
        edge, cloud = (RayExecutor(options={"resources": {name: 1}}) for name in ("east", "west"))
        check_schedule({"edge": edge, "cloud": cloud}, rounds=3)
        assert ray.is_initialized()

    def test_after_ctrl_c_a_users_cluster_is_free_again(self, executor, tmp_path):
        def stop(_):
            raise KeyboardInterrupt

        hook = Hook()
        hook.task_finished = stop
        tasks = {"fill": programs.Fill(20_000_000), "a": programs.Act("sleep", str(tmp_path / "a"))}
        with pytest.raises(KeyboardInterrupt):
            DAG(tasks).run(executor=executor, hooks=[hook])
        assert ray.is_initialized()
        for what in ("CPU", "object_store_memory"):
            until(
                lambda what=what: (
                    ray.available_resources().get(what) == ray.cluster_resources()[what]
                )
            )


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        *(({"retries": retries}, ValidationError, "retries must") for retries in (-1, True)),
        ({"address": "ray://head:10001"}, ValidationError, "Ray Client is not supported"),
        ({"options": {"cpus": 2}}, ValueError, "cpus"),
        ({"options": {"max_retries": 1}}, TypeError, "max_retries"),
    ],
    ids=repr,
)
@pytest.mark.usefixtures("cluster")
def test_what_ray_cannot_do_is_refused(arguments, error, words):
    with pytest.raises(error, match=words):
        DAG({"a": programs.last}).run(executor=RayExecutor(**arguments))


SCRIPT = """
import sys
from dagprofiler import DAG, RayExecutor
from programs import Act, Fill

if __name__ == "__main__":
    profile = DAG({"fill": Fill(1_000_000)}).run(executor=RayExecutor())
    print("sum", int(profile.outputs["fill"]["data"].sum()), flush=True)
    try:
        DAG({"a": Act("sleep", sys.argv[1])}).run(executor=RayExecutor())
    except KeyboardInterrupt as stopped:
        print("stopped", stopped.profile.sections["run"]["state"], flush=True)
"""


def descendants(pid):
    """Return the processes that a process has started, and those that they have."""
    below = [child for child, (_, parent, _) in processes().items() if parent == pid]
    return below + [one for child in below for one in descendants(child)]


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in Linux's /proc")
def test_ctrl_c_leaves_no_process_behind(start, tmp_path):
    mark = tmp_path / "mark"
    mark.touch()
    process = start(SCRIPT, str(mark))
    until(lambda: mark.read_text().endswith("\n") or process.poll() is not None)
    started = descendants(process.pid)
    # As a terminal does: all processes of the group get it.
    os.killpg(process.pid, signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert said == "sum 1000000\nstopped partial\n"
    assert int(mark.read_text()) in started
    until(lambda: {processes().get(pid, "Z")[0] for pid in started} <= {"Z"})


TOO_MUCH = """
import ray
from dagprofiler import DAG, RayExecutor, ValidationError
from programs import last

try:
    DAG({"a": last}).run(executor=RayExecutor(options={"num_cpus": 10_000}))
except ValidationError as error:
    print(error, ray.is_initialized())
"""


def test_what_no_machine_has_is_refused_instead_of_waited_for(start):
    said, _ = start(TOO_MUCH).communicate(timeout=120)
    assert said == (
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
def test_a_task_that_takes_all_memory_fails(start):
    said, _ = start(HOG).communicate(timeout=120)
    assert "task 'hog' was lost by its executor" in said
    # The second is ours, as Ray 2.60 would try again without end.
    assert re.search(r"OutOfMemoryError|ended [2-9] times for lack of memory", said)
