import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import programs
import pytest
from conformance import Conformance, check_schedule
from platforms import of_engine
from processes import alive_in, until
from relay import Relay

from dagprofiler import DAG, Hook, RunError, ValidationError, WorkerError
from dagprofiler.executors.pools import PoolExecutor

if os.environ.get("DAGPROFILER_EXTERNAL") != "required":
    pytest.importorskip("distributed")
import dask
import distributed

from dagprofiler.executors.dask import TOPIC, DaskExecutor

pytestmark = of_engine
#: What nothing here takes as long as; a test that waits for it has failed.
LONG_S = 120


@contextmanager
def connected(workers):
    """A client of a cluster that starts workers anew, however long that takes."""
    how = {"threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1h"}),
        distributed.LocalCluster(n_workers=workers, **how) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def client():
    with connected(2) as client:
        yield client


class TestDask(Conformance):
    # It is a thread of its worker's process.
    are_alone = False

    @pytest.fixture
    def executor(self, client):
        client.wait_for_workers(2, timeout=LONG_S)
        return DaskExecutor(client)

    def test_a_worker_that_dies_once_costs_an_attempt(self, client, tmp_path):
        dag = programs.failing("exit_once", str(tmp_path / "once"))
        profile = dag.run(executor=DaskExecutor(client, retries=2))
        assert profile.outputs["behind"] == {"y": "the second time"}
        (lost,) = profile.sections["run"]["attempts"]["bad"]
        assert lost["round"] == 0
        assert re.fullmatch(r"worker tcp://\S+ died", lost["error"])
        for retries in (-1, True):
            with pytest.raises(ValidationError, match="retries must"):
                DaskExecutor(retries=retries)

    def test_a_clients_cluster_stays_as_it_was(self, client, executor):
        programs.program().run(inputs=programs.OUTSIDE, executor=executor)
        assert client.submit(abs, -3).result() == 3
        seen = client.run_on_scheduler(what_a_scheduler_knows)
        assert not [key for key in seen["tasks"] if key.startswith("dagprofiler")]
        assert not [name for name in seen["plugins"] if name.startswith("dagprofiler")]
        assert not seen["subscribed"]

    def test_a_large_edge_does_not_pass_through_the_driver(self, client):
        client.wait_for_workers(2, timeout=LONG_S)
        names = ["a", "b", "c", "d"]
        dag = DAG(
            {**dict.fromkeys(names, programs.Fill(3_000_000)), "all": programs.lengths},
            [(name, "all") for name in names],
        )
        with Relay(client.scheduler.address) as relay:
            profile = dag.run(executor=DaskExecutor(relay.address))
        assert profile.outputs == {"all": {"nbytes": [3_000_000] * 4}}
        assert len(profile.sections["timeline"]["workers"]) == 2
        assert 0 < relay.bytes < 300_000

    def test_tasks_that_need_one_output_run_on_all_workers(self, executor, tmp_path):
        readers = {name: programs.ActWithData("meet", str(tmp_path)) for name in "abcd"}
        edges = [("fill", name) for name in readers]
        profile = DAG({"fill": programs.Fill(3_000_000), **readers}, edges).run(executor=executor)
        # Dask itself would run all of them where the output is.
        assert len(profile.sections["timeline"]["workers"]) == 2


def what_a_scheduler_knows(dask_scheduler):
    return {
        "tasks": [str(key) for key in dask_scheduler.tasks],
        "plugins": [*dask_scheduler.worker_plugins, *dask_scheduler.plugins],
        "subscribed": [*getattr(dask_scheduler._broker._topics[TOPIC], "subscribers", ())],
    }


# One worker, so that what dies with it is known


@pytest.fixture
def alone():
    with connected(1) as client:
        yield client


def dying(first, path):
    """Return a DAG whose worker dies once, with an output that is still needed."""
    bad = programs.Act("exit_once", str(path))
    # There is "0" so that the job whose output is lost is not the first one that the worker got.
    tasks = {"0": programs.Act("nothing"), "first": first, "bad": bad, "last": programs.passes}
    edges = [("0", "first", []), ("first", "bad", []), ("first", "last"), ("bad", "last", [])]
    return DAG(tasks, edges)


def test_outputs_that_died_with_their_worker_are_made_again(alone, tmp_path):
    told = programs.Follows()
    dag = dying(programs.Act("large"), tmp_path / "once")
    profile = dag.run(executor=DaskExecutor(alone, retries=1), hooks=[told])
    assert profile.outputs == {"last": {"y": bytes(20_000)}}
    assert told.finished == ["0", "first", "bad", "last"]
    assert [*profile.sections["run"]["attempts"]] == ["bad"]
    # If that fails, it is an error.
    first = programs.Act("raise_again", str(tmp_path / "first"))
    with pytest.raises(RunError, match="could not be computed again") as caught:
        dying(first, tmp_path / "again").run(executor=DaskExecutor(alone, retries=1))
    assert isinstance(caught.value.failures["last"], WorkerError)


def test_workers_that_come_while_tasks_run_get_some(alone, tmp_path):
    hook = Hook()
    hook.task_started = lambda task: task == "a1" and alone.cluster.scale(2)
    dag = DAG({f"a{i}": programs.Act("meet", str(tmp_path)) for i in range(4)})
    profile = dag.run(executor=DaskExecutor(alone), hooks=[hook])
    assert len(profile.sections["timeline"]["workers"]) == 2


class Cluster:
    """Processes of Dask's command line."""

    def __init__(self, folder):
        self.processes, self._file = [], str(folder / "scheduler.json")
        self._start("scheduler", "--port", "0")
        with self._client() as client:
            self.address = client.scheduler.address

    def add_worker(self, **environ):
        self._start("worker", "--no-nanny", "--nthreads", "1", **environ)
        with self._client() as client:
            client.wait_for_workers(1, timeout=LONG_S)

    def _client(self):
        return distributed.Client(scheduler_file=self._file, set_as_default=False, timeout=LONG_S)

    def _start(self, what, *options, **environ):
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", *options]
        command += ["--dashboard-address", ":0", "--scheduler-file", self._file]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environ}
        how = {"stderr": subprocess.DEVNULL, "env": env, "cwd": "/"}
        self.processes.append(subprocess.Popen(command, **how))


@pytest.fixture
def cluster(tmp_path):
    cluster = Cluster(tmp_path)
    yield cluster
    for process in cluster.processes:
        process.kill()
        process.wait()


def test_a_scheduler_that_dies_is_an_error(cluster, tmp_path):
    hook = Hook()
    cluster.add_worker()
    hook.task_started = lambda _: cluster.processes[0].kill()
    dag = DAG({name: programs.Act("sleep", str(tmp_path / "begun")) for name in "abcd"})
    with pytest.raises(RunError, match=r"connection .* lost") as caught:
        dag.run(executor=DaskExecutor(cluster.address), hooks=[hook], on_error="finish")
    assert caught.value.failures.keys() <= {"a", "b"}


def test_a_cluster_without_workers_is_waited_for_so_long(cluster, monkeypatch):
    monkeypatch.setattr("dagprofiler.executors.dask._WITHOUT_WORKERS_S", 0.5)
    with pytest.raises(RunError, match=r"no worker for 0\.5 s"):
        programs.failing("nothing").run(executor=DaskExecutor(cluster.address))
    cluster.add_worker()
    # No nanny starts another worker.
    with pytest.raises(RunError, match=r"no worker for 0\.5 s"):
        programs.failing("exit").run(executor=DaskExecutor(cluster.address, retries=1))


def test_workers_without_this_library_are_refused(cluster, tmp_path):
    (tmp_path / "dagprofiler.py").write_text("raise ImportError('not installed')")
    cluster.add_worker(PYTHONPATH=str(tmp_path))
    with pytest.raises(ValidationError, match=r"ImportError\(.* tcp://"):
        programs.failing("nothing").run(executor=DaskExecutor(cluster.address))


def test_a_schedule_is_kept_on_workers_by_name(client):
    # One that another test has ended may still be on its way back.
    client.wait_for_workers(2)
    names = [worker["name"] for worker in client.scheduler_info()["workers"].values()]
    own = [PoolExecutor(client.get_executor(workers=[name]), workers=1) for name in names]
    check_schedule(dict(zip(("edge", "cloud"), own)))


def test_a_cluster_of_its_own_is_started_and_ended():
    profile = programs.program().run(seed=5, inputs=programs.OUTSIDE, executor=DaskExecutor())
    pids = {one["pid"] for one in profile.sections["timeline"]["workers"]}
    assert os.getpid() not in pids
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


SCRIPT = r"""
import os
from dagprofiler import DAG, DaskExecutor, Hook
from programs import Act

if __name__ == "__main__":
    tells = Hook()
    tells.run_started = lambda run: os.write(1, b"begun\n")
    try:
        DAG({"a": Act("up"), "b": Act("up")}).run(executor=DaskExecutor(), hooks=[tells])
    except KeyboardInterrupt as stopped:
        print("stopped", stopped.profile.sections["run"]["state"], flush=True)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in Linux's /proc")
@pytest.mark.parametrize("moment", ["begun", "up"])
def test_ctrl_c_leaves_no_process_behind(start, moment):
    process = start(SCRIPT)
    while not process.stdout.readline().startswith(moment):
        assert process.poll() is None
    # As a terminal does it: to all of them.
    os.killpg(process.pid, signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert "stopped partial" in said
    # multiprocessing's own helper ends when it sees that nobody is there any more.
    until(lambda: not alive_in(process.pid))
