"""Real engines of an IPython cluster, and processes of MPI, through their executors."""

import os
import shutil
import sys
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import pytest
from conformance import Conformance, failure
from platforms import found, of_engine
from programs import ASKED, PYTHONPATH, Act, last, program

from dagprofiler import DAG, PoolExecutor, RunError, WorkerError

# It asks for deprecated names, too.
pytestmark = [*of_engine, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


@pytest.fixture(scope="module")
def start_cluster(tmp_path_factory):
    """Return a function that starts two engines, which end with the tests; it returns a client."""
    found("the package ipyparallel", find_spec("ipyparallel"))
    import ipyparallel

    def start_cluster():
        folder = str(tmp_path_factory.mktemp("ipython"))
        how = {"n": 2, "profile_dir": folder, "log_level": 40, "shutdown_atexit": True}
        client = clusters.enter_context(ipyparallel.Cluster(**how))
        client.wait_for_engines(2, interactive=False)
        return client

    with pytest.MonkeyPatch.context() as patch, ExitStack() as clusters:
        # Engines import this module, and so the helpers of all tests.
        helpers = str(Path(__file__).parent.parent)
        patch.setenv("PYTHONPATH", os.pathsep.join([PYTHONPATH, helpers]))
        patch.setenv("IPYTHONDIR", str(tmp_path_factory.mktemp("ipythondir")))
        yield start_cluster


@pytest.fixture(scope="module")
def client(start_cluster):
    return start_cluster()


@pytest.fixture
def executor(client):
    return client.load_balanced_view().executor


class TestIPython(Conformance):
    are_replaced = False
    # An engine's main thread runs an event loop, and these tasks another one.
    test_spans_come_home_to_their_task_worker_and_round = None


def test_large_outputs_go_through_a_folder_that_is_given(executor, tmp_path):
    expected = program(100_000).run(**ASKED)
    pool = PoolExecutor(executor, folder=str(tmp_path))
    assert program(100_000).run(executor=pool, **ASKED).outputs == expected.outputs
    assert list(tmp_path.iterdir()) == []


def test_a_view_that_runs_a_job_on_all_engines_fails(client):
    with pytest.raises(RunError, match="not what the job returned"):
        DAG({"a": last}).run(executor=client[:].executor)
    assert DAG({"a": last}).run(executor=client[0].executor).outputs


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_engines_that_die_lose_their_tasks_and_the_others_go_on(start_cluster):
    executor = PoolExecutor(start_cluster().load_balanced_view().executor)
    assert executor.capacity == 4
    error = failure(DAG({"bad": Act("exit"), "good": last}), executor, on_error="finish")
    assert [*error.failures] == ["bad"]
    assert isinstance(error.__cause__, WorkerError)
    assert "EngineError" in str(error)
    # The engine that is left takes over.
    assert executor.capacity == 2
    assert DAG({"good": last}).run(executor=executor).outputs
    dag = DAG({"bad": Act("kill"), "waits": last})
    error = failure(dag, executor, priorities={"bad": 2, "waits": 1})
    assert isinstance(error.failures["bad"], WorkerError)
    assert {"bad", "waits"} <= {*error.failures, *error.failures["bad"].in_flight}
    assert executor.capacity == 0
    with pytest.raises(RunError, match="no worker"):
        DAG({"good": last}).run(executor=executor)


SCRIPT = """
from mpi4py.futures import MPIPoolExecutor
from programs import ASKED, program

if __name__ == "__main__":
    with MPIPoolExecutor(2) as pool:
        profile = program().run(executor=pool, **ASKED)
    expected = program().run(**ASKED)
    workers = profile.sections["timeline"]["workers"]
    same = profile.outputs == expected.outputs
    same = same and profile.metrics.edge_weights == expected.metrics.edge_weights
    print(profile.sections["run"]["executor"], same, len(workers) in (1, 2))
"""


def test_a_dag_comes_out_as_in_a_serial_run_on_processes_of_mpi(start):
    found("the package mpi4py", find_spec("mpi4py"))
    beside = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    mpiexec = found("mpiexec", shutil.which("mpiexec", path=beside))
    command = [mpiexec, "-n", "3", sys.executable, "-m", "mpi4py.futures"]
    printed, errors = start(SCRIPT, command=command).communicate(timeout=60)
    assert printed == "MPIPoolExecutor True True\n", errors
