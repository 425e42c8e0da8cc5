"""Real workers of Celery beside a real Redis server.

The server is ``redis-server`` of the system, on a free port of this machine; it and all workers
end with the tests.
"""

import gc
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from contextlib import closing, suppress
from functools import partial
from importlib.util import find_spec

import pytest
from conformance import Conformance, failure
from platforms import found, of_engine
from processes import until
from programs import ASKED, PYTHONPATH, Act, last, program

from dagprofiler import DAG, CeleryExecutor, ValidationError, WorkerError

pytestmark = of_engine
#: What nothing here takes as long as; a test that waits for it has failed.
LONG_S = 60


def ended(process, how=signal.SIGTERM):
    """End a process and the group that it leads."""
    for sign in (how, signal.SIGKILL):
        with suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.killpg(process.pid, sign)
            process.wait(10)
    process.wait(10)


class Server:
    """A Redis server, and the workers beside it."""

    def __init__(self, folder, redis):
        self.folder, self.redis = folder, redis
        self.workers = []
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        where = "--bind", "127.0.0.1", "--port", str(self.port), "--save", "", "--dir", str(folder)
        self.process = subprocess.Popen(
            [redis, *where], start_new_session=True, stdout=subprocess.DEVNULL
        )
        until(self.answers)

    def answers(self):
        with socket.socket() as link:
            return link.connect_ex(("127.0.0.1", self.port)) == 0

    def app(self, port=None, **options):
        import celery_app

        return celery_app.app_of(port or self.port, **options)

    def start(self, queue, *options, before=(), **environment):
        """Start a worker that takes from a queue of its own."""
        command = [
            *(*before, sys.executable, "-m", "celery", "-A", "celery_app", "worker"),
            *("-Q", queue, "-n", f"{queue}@%h", "-l", "warning", *(options or ("-c", "2"))),
            *("--without-gossip", "--without-mingle"),
        ]
        ours = {"PYTHONPATH": PYTHONPATH, "CELERY_TEST_PORT": str(self.port)}
        how = {"cwd": self.folder, "env": {**os.environ, **ours, **environment}}
        with open(self.folder / f"{queue}.log", "ab") as log:
            how.update(stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
            worker = subprocess.Popen(command, **how)
        self.workers.append(worker)
        until(lambda: worker.poll() is not None or self.has_worker(queue))
        assert worker.poll() is None, (self.folder / f"{queue}.log").read_text()
        return worker

    def has_worker(self, queue):
        """Tell whether the worker that takes from a queue answers."""
        replies = self.app().control.ping(timeout=0.3)
        return any(name.startswith(f"{queue}@") for reply in replies for name in reply)

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
    redis = found("redis-server", shutil.which("redis-server"))
    server = Server(tmp_path_factory.mktemp("celery"), redis)
    yield server
    server.close()


@pytest.fixture(scope="module")
def celery_executor(server):
    """Two processes that stay for all tests."""
    server.start("shared")
    return CeleryExecutor(server.app(), queue="shared")


def test_runs_name_their_workers_and_leave_no_jobs(celery_executor, server):
    before = server.keys()
    profile = program().run(executor=celery_executor, **ASKED)
    assert profile.sections["run"]["executor"] == "CeleryExecutor"
    workers = profile.sections["timeline"]["workers"]
    assert 1 <= len(workers) <= 2
    assert os.getpid() not in {worker["pid"] for worker in workers}
    # A process that dies loses its job.
    error = failure(DAG({"bad": Act("kill")}), celery_executor)
    assert isinstance(error.__cause__, WorkerError)
    assert "WorkerLostError" in str(error)
    # Workers acknowledge a job a moment after its result is there.
    until(lambda: not server.keys() - before)


class TestCelery(Conformance):
    # That takes seconds, and has a test of its own.
    are_replaced = False

    @pytest.fixture
    def executor(self, celery_executor):
        return celery_executor


def test_large_outputs_go_through_a_shared_folder(celery_executor, server, tmp_path):
    class ThroughTheBroker(CeleryExecutor):
        """As if the workers were on other machines, which share no folder."""

        def open(self):
            super().open()
            self.folder = None

    dag = program(100_000)
    expected = dag.run(**ASKED)
    payload = sum(expected.metrics.edge_weights.values()) / 8
    received = []
    given = CeleryExecutor(server.app(), queue="shared", folder=str(tmp_path))
    apart = ThroughTheBroker(server.app(), queue="shared")
    for executor in (celery_executor, given, apart):
        before = server.received_bytes()
        profile = dag.run(executor=executor, **ASKED)
        received.append(server.received_bytes() - before)
        assert profile.outputs == expected.outputs
        assert profile.metrics.edge_weights == expected.metrics.edge_weights
    assert payload > 6_000_000
    assert max(received[:2]) < 300_000
    assert received[2] > payload
    assert list(tmp_path.iterdir()) == []


def test_a_worker_that_dies_as_a_whole_is_noticed(server):
    server.start("dies", "-c", "1")
    executor = CeleryExecutor(server.app(), queue="dies", patience_s=1)
    dag = DAG({"bad": Act("kill_parent"), "waits": last, "later": last})
    failures = failure(dag, executor, priorities={"bad": 3, "waits": 2, "later": 1}).failures
    assert isinstance(failures["bad"], WorkerError)
    assert "'dies@" in str(failures["bad"])
    assert "has not answered for" in str(failures["bad"])
    assert {*failures["bad"].in_flight, *failures["waits"].in_flight} >= {"waits"}
    with pytest.raises(ValidationError, match="no worker of app 'tests' takes jobs from queue"):
        dag.run(executor=executor)


def lost_while_it_runs(executor, started, act):
    """Return why a task is lost when `act` is called while it runs."""

    def acts():
        until(started.exists)
        act()

    thread = threading.Thread(target=acts)
    thread.start()
    error = failure(DAG({"long": Act("sleep", str(started))}), executor)
    thread.join()
    assert isinstance(error.__cause__, WorkerError)
    return str(error)


def test_a_worker_that_was_started_anew_has_lost_what_it_had(server, tmp_path):
    first = server.start("anew", "-c", "1")
    # Silence alone would not tell before the safety net does.
    executor = CeleryExecutor(server.app(), queue="anew", patience_s=LONG_S)

    def restart():
        ended(first, signal.SIGKILL)
        server.start("anew", "-c", "1")

    why = lost_while_it_runs(executor, tmp_path / "started", restart)
    assert "was restarted" in why or "does not have it" in why


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_other_backends_and_pools_of_threads_do_as_well(server, tmp_path, pool):
    # The second needs the broker alone.
    backend = f"file://{tmp_path}" if pool == "threads" else "rpc://"
    server.start(pool, "-P", pool, "-c", "2", CELERY_TEST_BACKEND=backend)
    executor = CeleryExecutor(server.app(backend=backend), queue=pool)
    profile = program().run(executor=executor, **ASKED)
    assert profile.outputs == program().run(**ASKED).outputs
    assert profile.sections["run"].get("legacy_generators", True) is (pool == "prefork")
    assert list(tmp_path.iterdir()) == []
    limited = program().run(executor=executor, timeout=LONG_S, **ASKED)
    assert limited.outputs == profile.outputs


@pytest.mark.parametrize(
    ("app", "options", "words"),
    [
        ({"backend": "disabled://"}, {}, "no result backend"),
        ({"port": 1}, {}, "refused"),
        ({}, {"folder": "/nowhere"}, "/nowhere"),
        # Its worker does not know the task.
        ({}, {"queue": "ignorant"}, r"'ignorant': .*include=\['dagprofiler"),
    ],
)
def test_what_jobs_need_and_is_not_there_is_named(server, app, options, words):
    if options.get("queue") == "ignorant":
        server.start("ignorant", "-P", "solo", CELERY_TEST_INCLUDE="")
    app = server.app(**app)
    app.conf.broker_transport_options = {"max_retries": 0}
    unreachable = pytest.importorskip("kombu.exceptions").OperationalError
    with pytest.raises((ValidationError, OSError, unreachable), match=words):
        DAG({"a": last}).run(executor=CeleryExecutor(app, **options))


def test_a_broker_that_goes_away_loses_the_jobs(server, tmp_path):
    with closing(Server(tmp_path, server.redis)) as other:
        other.start("leaves", "-c", "1")
        executor = CeleryExecutor(other.app(), queue="leaves", patience_s=1)
        ends = partial(ended, other.process, signal.SIGKILL)
        lost_while_it_runs(executor, tmp_path / "started", ends)


SCRIPT = """
import os, sys, time
from celery_app import app_of
from dagprofiler import DAG, CeleryExecutor, Config, Task

class Mine(Task):
    outputs = ["x"]
    def compute(self, cfg):
        if cfg.started:
            with open(cfg.started, "a") as file:
                file.write("once ")
            while not os.path.exists(f"{cfg.started}.go"):
                time.sleep(0.01)
        return {"x": 5}

port, started = sys.argv[1:]
executor = CeleryExecutor(app_of(port), queue="shared")
dag = DAG({name: Mine() for name in "abcdefgh"}, [], Config(started=started))
print(dag.run(executor=executor).outputs["a"], flush=True)
"""


def test_ctrl_c_takes_back_what_has_not_begun(celery_executor, server, start, tmp_path):
    found("the package cloudpickle", find_spec("cloudpickle"))
    started = tmp_path / "started"
    program = start(SCRIPT, str(server.port), str(started))
    until(started.exists)
    os.kill(program.pid, signal.SIGINT)
    printed, errors = program.communicate(timeout=LONG_S)
    assert printed == ""
    assert errors.rstrip().endswith("KeyboardInterrupt")
    # Who answers has heard before what is taken back.
    until(lambda: server.has_worker("shared"))
    (tmp_path / "started.go").touch()
    # The workers, which are not ours to end, take the next run.
    assert DAG({"a": last}).run(executor=celery_executor).outputs
    assert 1 <= len(started.read_text().split()) <= 2
