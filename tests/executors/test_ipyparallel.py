"""Real engines of an IPython cluster, and processes of MPI, through their executors."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import programs
import pytest
from conformance import Conformance

from dagprofiler import DAG, PoolExecutor, RunError, Task, ValidationError, WorkerError

HERE = Path(__file__).resolve().parent
external = pytest.mark.external
pytestmark = [
    # ipyparallel leaves its sockets to the collector of garbage, and asks for deprecated names.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def found(what, where):
    if where:
        return where
    missing = pytest.fail if os.environ.get("DAGPROFILER_EXTERNAL") == "required" else pytest.skip
    return missing(f"{what} is not there")


class Cluster:
    """A cluster of two engines, whose processes end with it."""

    def __init__(self, folder):
        import ipyparallel

        self.cluster = ipyparallel.Cluster(
            n=2, profile_dir=str(folder), log_level=40, shutdown_atexit=True
        )
        self.client = self.cluster.start_and_connect_sync()
        self.client.wait_for_engines(2, interactive=False)
        self.pids = self.client[:].apply_sync(os.getpid)
        self.executor = self.client.load_balanced_view().executor

    def close(self):
        self.client.close()
        self.cluster.stop_cluster_sync()


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    found("the package ipyparallel", find_spec("ipyparallel"))
    clusters = []

    def start():
        clusters.append(Cluster(tmp_path_factory.mktemp("ipython")))
        return clusters[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), str(HERE.parent.parent)]))
        patch.setenv("IPYTHONDIR", str(tmp_path_factory.mktemp("ipythondir")))
        yield start
        for cluster in clusters:
            cluster.close()


@pytest.fixture(scope="module")
def cluster(start):
    return start()


def failure(executor, dag, **options):
    with pytest.raises(RunError) as caught:
        dag.run(executor=executor, **options)
    return caught.value


@external
class TestIPython(Conformance):
    are_replaced = False
    # An engine's main thread runs an event loop, and these tasks another one.
    test_spans_come_home_to_their_task_worker_and_round = None
    test_functions_without_annotations_are_recorded_for_their_task = None

    @pytest.fixture
    def executor(self, cluster):
        return cluster.executor

    def test_engines_work_in_their_main_threads(self, executor, cluster):
        dag = programs.failing("legacy")
        profile = dag.run(seed=1, executor=executor)
        assert profile.outputs == dag.run(seed=1).outputs
        assert "legacy_generators" not in profile.sections["run"]
        workers = {worker["pid"] for worker in profile.sections["timeline"]["workers"]}
        assert workers <= {*cluster.pids}


@external
def test_large_outputs_go_through_a_folder_that_is_given(cluster, tmp_path):
    from engine_tasks import monte_carlo

    dag, how = monte_carlo(100_000)
    expected = dag.run(**how)
    executor = PoolExecutor(cluster.executor, folder=str(tmp_path))
    assert dag.run(executor=executor, **how).outputs == expected.outputs
    assert list(tmp_path.iterdir()) == []
    assert dag.run(executor=cluster.executor, **how).outputs == expected.outputs


class Mine(Task):
    """What the engines could not import: it is of the main program then."""

    outputs = ["x"]

    def compute(self):
        return {"x": 5}


@external
def test_tasks_of_the_main_program_travel(cluster, monkeypatch):
    found("the package cloudpickle", find_spec("cloudpickle"))
    monkeypatch.setattr(Mine, "__module__", "__main__")
    monkeypatch.setattr(sys.modules["__main__"], "Mine", Mine, raising=False)
    assert DAG({"mine": Mine}, []).run(executor=cluster.executor).outputs == {"mine": {"x": 5}}


@external
def test_a_view_that_runs_a_job_on_all_engines_is_refused(cluster):
    from engine_tasks import noop

    with pytest.raises(ValidationError, match=r"DirectView .* all its engines"):
        DAG({"a": noop}, []).run(executor=cluster.client[:].executor)
    assert DAG({"a": noop}, []).run(executor=cluster.client[0].executor).outputs


@external
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_engines_that_die_lose_their_tasks_and_the_others_go_on(start):
    from engine_tasks import exits, is_killed, noop

    cluster = start()
    executor = PoolExecutor(cluster.executor)
    assert executor.capacity == 4
    error = failure(executor, DAG({"bad": exits, "good": noop}, []), on_error="finish")
    assert [*error.failures] == ["bad"]
    assert isinstance(error.__cause__, WorkerError)
    assert "EngineError" in str(error)
    # The engine that is left takes over.
    assert executor.capacity == 2
    assert DAG({"good": noop}, []).run(executor=executor).outputs
    dag = DAG({"bad": is_killed, "waits": noop}, [])
    error = failure(executor, dag, priorities={"bad": 2, "waits": 1})
    assert isinstance(error.failures["bad"], WorkerError)
    assert {"bad", "waits"} <= {*error.failures, *error.failures["bad"].in_flight}
    assert executor.capacity == 0
    with pytest.raises(RunError, match="no worker"):
        DAG({"good": noop}, []).run(executor=executor)


SCRIPT = """
import sys
from engine_tasks import monte_carlo
from mpi4py.futures import MPIPoolExecutor

if __name__ == "__main__":
    dag, how = monte_carlo()
    with MPIPoolExecutor(2) as pool:
        profile = dag.run(executor=pool, **how)
    expected = dag.run(**how)
    workers = profile.sections["timeline"]["workers"]
    same = profile.outputs == expected.outputs
    same = same and profile.metrics.edge_weights == expected.metrics.edge_weights
    print(profile.sections["run"]["executor"], same, len(workers) in (1, 2))
"""


@external
def test_a_dag_comes_out_as_in_a_serial_run_on_processes_of_mpi(tmp_path):
    found("the package mpi4py", find_spec("mpi4py"))
    beside = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    mpiexec = found("mpiexec", shutil.which("mpiexec", path=beside))
    program = tmp_path / "program.py"
    program.write_text(SCRIPT)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parent.parent)])}
    running = subprocess.Popen(
        [mpiexec, "-n", "3", sys.executable, "-m", "mpi4py.futures", program],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        printed, errors = running.communicate(timeout=60)
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
    assert printed == "MPIPoolExecutor True True\n", errors
