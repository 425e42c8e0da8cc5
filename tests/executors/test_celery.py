"""Real workers of Celery beside a real Redis server.

The server is ``redis-server`` of the system, on a free port of this machine; it and all workers
end with the tests.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from conformance import Conformance

from dagprofiler import (
    DAG,
    CeleryExecutor,
    Config,
    MissingExtraError,
    RunError,
    ValidationError,
    WorkerError,
)

HERE = Path(__file__).resolve().parent
external = pytest.mark.external
pytestmark = [
    # Celery leaves its sockets to the collector of garbage.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
#: What nothing here takes as long as; a test that waits for it has failed.
LONG_S = 60


def found(what, where):
    if where:
        return where
    missing = pytest.fail if os.environ.get("DAGPROFILER_EXTERNAL") == "required" else pytest.skip
    return missing(f"{what} is not there")


def ended(process, how=signal.SIGTERM):
    """End a process and the group that it leads."""
    for sign in (how, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
            process.wait(10)
        except ProcessLookupError:
            break
        except subprocess.TimeoutExpired:
            continue
    process.wait(10)


def until(true):
    give_up = time.monotonic() + LONG_S
    while not true():
        assert time.monotonic() < give_up
        time.sleep(0.02)


class Server:
    """A Redis server, and the workers beside it."""

    def __init__(self, folder):
        self.folder = folder
        self.workers = []
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        command = [
            found("redis-server", shutil.which("redis-server")),
            *("--bind", "127.0.0.1", "--port", str(self.port)),
            *("--save", "", "--dir", str(folder)),
        ]
        self.process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL)
        until(self.answers)

    def answers(self):
        with socket.socket() as link:
            return link.connect_ex(("127.0.0.1", self.port)) == 0

    def app(self, **options):
        import celery_app

        return celery_app.app_of(self.port, **options)

    def start(self, queue, *options, before=(), **environment):
        """Start a worker that takes from a queue of its own."""
        command = [
            *(*before, sys.executable, "-m", "celery", "-A", "celery_app", "worker"),
            *("-Q", queue, "-n", f"{queue}@%h", "-l", "warning", *(options or ("-c", "2"))),
            *("--without-gossip", "--without-mingle"),
        ]
        paths = os.pathsep.join([str(HERE), str(HERE.parent.parent)])
        env = {
            **os.environ,
            "PYTHONPATH": paths,
            "CELERY_TEST_PORT": str(self.port),
            **environment,
        }
        with open(self.folder / f"{queue}.log", "ab") as log:
            worker = subprocess.Popen(
                command,
                cwd=self.folder,
                env=env,
                start_new_session=True,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.workers.append(worker)
        control = self.app().control
        until(
            lambda: (
                worker.poll() is not None
                or any(
                    name.startswith(queue + "@")
                    for reply in control.ping(timeout=0.3)
                    for name in reply
                )
            )
        )
        assert worker.poll() is None, (self.folder / f"{queue}.log").read_text()
        return worker

    def leftovers(self, besides, within_s=10.0):
        """Return what is left of jobs besides these keys, once nothing is or that time is over.

        A worker acknowledges a job a moment after its result is there. Earlier runs that
        were interrupted may have left results, which expire.
        """
        until = time.monotonic() + within_s
        while self.keys() - besides and time.monotonic() < until:
            time.sleep(0.01)
        return self.keys() - besides

    def keys(self):
        """Return keys of results in the backend, and of jobs that wait in queues."""
        import redis

        results = redis.Redis(port=self.port, db=1).keys("*")
        broker = redis.Redis(port=self.port, db=0)
        # Replies to Celery's own questions wait, too, until they are read.
        lists = [key for key in broker.keys("*") if broker.type(key) == b"list"]
        waiting = [key for key in lists if not key.endswith(b".pidbox")]
        return {*results, *waiting, *broker.keys("unacked")}

    def received_bytes(self):
        import redis

        return redis.Redis(port=self.port).info()["total_net_input_bytes"]

    def close(self):
        for worker in self.workers:
            ended(worker, signal.SIGKILL)
        ended(self.process)


@pytest.fixture(autouse=True)
def _collected():
    """Drop what a test leaves: results that end after their server raise where nobody can."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    for package in ("celery", "redis"):
        found(f"the package {package}", find_spec(package))
    server = Server(tmp_path_factory.mktemp("celery"))
    yield server
    server.close()


@pytest.fixture(scope="module")
def celery_executor(server):
    """Two processes that stay for all tests."""
    server.start("shared")
    return CeleryExecutor(server.app(), queue="shared")


def failure(executor, dag, **options):
    with pytest.raises(RunError) as caught:
        dag.run(executor=executor, **options)
    return caught.value


def test_celery_that_is_not_installed_is_said_to_be_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "celery", None)
    with pytest.raises(MissingExtraError, match=r"CeleryExecutor needs .*dagprofiler\[celery\]"):
        CeleryExecutor(None)


@external
def test_a_dag_comes_out_as_in_a_serial_run_and_can_run_again(celery_executor, server):
    from engine_tasks import monte_carlo

    before = server.keys()
    dag, how = monte_carlo()
    expected = dag.run(**how)
    for _ in range(2):
        profile = dag.run(executor=celery_executor, **how)
        assert profile.outputs == expected.outputs
        assert profile.metrics.edge_weights == expected.metrics.edge_weights
        assert profile.sections["run"]["executor"] == "CeleryExecutor"
    workers = profile.sections["timeline"]["workers"]
    assert 1 <= len(workers) <= 2
    assert os.getpid() not in {worker["pid"] for worker in workers}
    assert server.leftovers(before) == set()


@external
class TestCelery(Conformance):
    # That takes seconds, and has a test of its own.
    are_replaced = False

    @pytest.fixture
    def executor(self, celery_executor):
        return celery_executor


class ThroughTheBroker(CeleryExecutor):
    """As if the workers were on other machines, which share no folder."""

    def open(self):
        super().open()
        self.folder = None


@external
def test_large_outputs_go_through_memory_where_the_workers_share_it(celery_executor, server):
    from engine_tasks import monte_carlo

    dag, how = monte_carlo(100_000)
    expected = dag.run(**how)
    payload = sum(expected.metrics.edge_weights.values()) / 8
    received = []
    apart = ThroughTheBroker(server.app(), queue="shared")
    for executor in (celery_executor, apart):
        before = server.received_bytes()
        profile = dag.run(executor=executor, **how)
        received.append(server.received_bytes() - before)
        assert profile.outputs == expected.outputs
        assert profile.metrics.edge_weights == expected.metrics.edge_weights
    assert payload > 6_000_000
    assert received[0] < 300_000
    # There and back.
    assert received[1] > 2 * payload


@external
def test_large_outputs_go_through_a_folder_that_is_given(celery_executor, server, tmp_path):
    from engine_tasks import monte_carlo

    dag, how = monte_carlo(100_000)
    executor = CeleryExecutor(server.app(), queue="shared", folder=str(tmp_path))
    before = server.received_bytes()
    assert dag.run(executor=executor, **how).outputs == dag.run(**how).outputs
    assert server.received_bytes() - before < 300_000
    assert list(tmp_path.iterdir()) == []


@external
@pytest.mark.parametrize("how", ["exits", "is_killed"])
def test_a_process_that_dies_loses_its_job(celery_executor, server, how):
    import engine_tasks

    before = server.keys()
    error = failure(celery_executor, DAG({"bad": getattr(engine_tasks, how)}, []))
    assert isinstance(error.__cause__, WorkerError)
    assert "WorkerLostError" in str(error)
    assert server.leftovers(before) == set()


@external
def test_a_worker_that_dies_as_a_whole_is_noticed(server):
    from engine_tasks import kills_its_parent, noop

    server.start("dies", "-c", "1")
    executor = CeleryExecutor(server.app(), queue="dies", patience_s=1)
    dag = DAG({"bad": kills_its_parent, "waits": noop, "later": noop}, [], Config(S=1))
    error = failure(executor, dag, priorities={"bad": 3, "waits": 2, "later": 1})
    assert isinstance(error.failures["bad"], WorkerError)
    assert "'dies@" in str(error.failures["bad"])
    assert "has not answered for" in str(error.failures["bad"])
    assert {*error.failures["bad"].in_flight, *error.failures["waits"].in_flight} >= {"waits"}
    with pytest.raises(ValidationError, match="no worker of app 'tests' takes jobs from queue"):
        dag.run(executor=executor)


@external
def test_a_worker_that_was_started_anew_has_lost_what_it_had(server, tmp_path):
    from engine_tasks import tells_and_sleeps

    first = server.start("anew", "-c", "1")
    # Silence alone would not tell before the safety net does.
    executor = CeleryExecutor(server.app(), queue="anew", patience_s=LONG_S)
    started = tmp_path / "started"
    dag = DAG({"long": tells_and_sleeps}, [], Config(S=LONG_S, started=str(started)))

    def restart():
        until(started.exists)
        ended(first, signal.SIGKILL)
        server.start("anew", "-c", "1")

    thread = threading.Thread(target=restart)
    thread.start()
    error = failure(executor, dag)
    thread.join()
    assert isinstance(error.__cause__, WorkerError)
    assert "was restarted" in str(error) or "does not have it" in str(error)


@external
def test_other_backends_and_pools_of_threads_do_as_well(server, tmp_path):
    from engine_tasks import monte_carlo

    backend = f"file://{tmp_path}"
    server.start("threads", "-P", "threads", "-c", "2", CELERY_TEST_BACKEND=backend)
    executor = CeleryExecutor(server.app(backend=backend), queue="threads")
    dag, how = monte_carlo()
    profile = dag.run(executor=executor, **how)
    assert profile.outputs == dag.run(**how).outputs
    assert profile.sections["run"]["legacy_generators"] is False
    assert list(tmp_path.iterdir()) == []
    assert dag.run(executor=executor, timeout=LONG_S, **how).outputs == profile.outputs


@external
def test_a_result_backend_that_needs_the_broker_alone_does_as_well(server):
    from engine_tasks import monte_carlo

    server.start("rpc", "-c", "1", CELERY_TEST_BACKEND="rpc://")
    dag, how = monte_carlo()
    profile = dag.run(executor=CeleryExecutor(server.app(backend="rpc://"), queue="rpc"), **how)
    assert profile.outputs == dag.run(**how).outputs


@external
def test_workers_that_do_not_know_the_task_are_an_error_at_the_start(server):
    from engine_tasks import noop

    server.start("ignorant", "-P", "solo", CELERY_TEST_INCLUDE="")
    executor = CeleryExecutor(server.app(), queue="ignorant")
    with pytest.raises(ValidationError) as caught:
        DAG({"a": noop}, []).run(executor=executor)
    assert str(caught.value) == (
        "CeleryExecutor: no worker of app 'tests' takes jobs from queue 'ignorant': start one, "
        "of an app with include=['dagprofiler.executors.celery_worker']"
    )


@external
def test_an_app_without_a_backend_is_an_error_at_the_start(server):
    from engine_tasks import noop

    executor = CeleryExecutor(server.app(backend="disabled://"))
    with pytest.raises(ValidationError, match="no result backend"):
        DAG({"a": noop}, []).run(executor=executor)


@external
def test_a_broker_that_is_not_there_is_an_error_at_the_start(server):
    from celery import Celery
    from engine_tasks import noop

    app = Celery("away", broker="redis://127.0.0.1:1/0", backend="redis://127.0.0.1:1/1")
    app.conf.broker_transport_options = {"max_retries": 0}
    with pytest.raises(ValidationError, match="cannot be reached"):
        DAG({"a": noop}, []).run(executor=CeleryExecutor(app))


@external
def test_a_folder_that_cannot_be_shared_is_an_error_at_the_start(server):
    from engine_tasks import noop

    executor = CeleryExecutor(server.app(), folder="/nowhere")
    with pytest.raises(ValidationError, match="CeleryExecutor: folder: FileNotFoundError"):
        DAG({"a": noop}, []).run(executor=executor)


@external
def test_a_broker_that_goes_away_loses_the_jobs(tmp_path):
    from engine_tasks import tells_and_sleeps

    found("the package celery", find_spec("celery"))
    server = Server(tmp_path)
    try:
        server.start("leaves", "-c", "1")
        executor = CeleryExecutor(server.app(), queue="leaves", patience_s=1)
        started = tmp_path / "started"
        dag = DAG({"long": tells_and_sleeps}, [], Config(S=LONG_S, started=str(started)))

        def end():
            until(started.exists)
            ended(server.process, signal.SIGKILL)

        thread = threading.Thread(target=end)
        thread.start()
        error = failure(executor, dag)
        thread.join()
        assert isinstance(error.__cause__, WorkerError)
    finally:
        server.close()


SCRIPT = """
import sys, time
from celery_app import app_of
from dagprofiler import DAG, CeleryExecutor, Config, Task

class Mine(Task):
    outputs = ["x"]

    def compute(self, cfg):
        if cfg.started:
            with open(cfg.started, "a") as file:
                file.write("once ")
        time.sleep(cfg.S)
        return {"x": cfg.S}

port, seconds, started = sys.argv[1:]
executor = CeleryExecutor(app_of(port), queue="shared")
dag = DAG({name: Mine() for name in "abcdefgh"}, [], Config(S=float(seconds), started=started))
print(dag.run(executor=executor).outputs["a"], flush=True)
"""


def script(server, tmp_path, *arguments):
    path = tmp_path / "program.py"
    path.write_text(SCRIPT)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parent.parent)])}
    return subprocess.Popen(
        [sys.executable, path, str(server.port), *arguments],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@external
def test_tasks_of_the_main_program_travel(celery_executor, server, tmp_path):
    found("the package cloudpickle", find_spec("cloudpickle"))
    printed, errors = script(server, tmp_path, "0", "").communicate(timeout=LONG_S)
    assert printed == "{'x': 0.0}\n", errors


@external
def test_ctrl_c_takes_back_what_has_not_begun(celery_executor, server, tmp_path):
    from engine_tasks import noop

    found("the package cloudpickle", find_spec("cloudpickle"))
    started = tmp_path / "started"
    program = script(server, tmp_path, "1", str(started))
    try:
        until(started.exists)
        os.kill(program.pid, signal.SIGINT)
        printed, errors = program.communicate(timeout=LONG_S)
    finally:
        ended(program, signal.SIGKILL)
    assert printed == ""
    assert errors.rstrip().endswith("KeyboardInterrupt")
    # The workers, which are not ours to end, take the next run.
    assert DAG({"a": noop}, []).run(executor=celery_executor).outputs
    assert 1 <= len(started.read_text().split()) <= 2


@external
@pytest.mark.skipif(sys.platform != "linux", reason="namespaces are Linux's")
def test_clocks_of_other_hosts_are_aligned(server):
    """A worker that has another host name and a clock that is 100,000 s ahead."""
    from engine_tasks import monte_carlo

    elsewhere = ["unshare", "--uts", "--time", "--monotonic", "100000", "sh", "-c"]
    tried = shutil.which("unshare") and subprocess.run(
        [*elsewhere, "hostname elsewhere"], stderr=subprocess.DEVNULL, check=False
    )
    if not tried or tried.returncode != 0:
        pytest.skip("a namespace with another clock is not permitted here")
    server.start("apart", "-c", "1")
    name_it = 'hostname elsewhere; exec "$0" "$@"'
    server.start("apart", "-c", "1", before=[*elsewhere, name_it])
    dag, how = monte_carlo(parts=20)
    executor = CeleryExecutor(server.app(), queue="apart")

    profile = dag.run(executor=executor, rounds=2, **how)

    assert profile.outputs == dag.run(**how).outputs
    timeline = profile.sections["timeline"]
    there = [worker for worker in timeline["workers"] if worker["host"] == "elsewhere"]
    here = [worker for worker in timeline["workers"] if worker["host"] != "elsewhere"]
    assert len(there) == len(here) == 1
    assert "clock_ahead_ms" not in here[0]
    error_ms = there[0]["clock_error_ms"]
    assert abs(there[0]["clock_ahead_ms"] - 100_000e3) <= error_ms + 1e-6
    assert 0 < error_ms < 100_000
    end = {}
    for name, turn, _, ready_ms, start_ms, *_, end_ms in timeline["records"]:
        assert ready_ms >= 0
        assert start_ms >= -error_ms
        end[turn, name] = end_ms
    for name, turn, _, _, start_ms, *_ in timeline["records"]:
        if name.startswith("count"):
            assert start_ms >= end[turn, name.replace("count", "draw")] - 2 * error_ms
