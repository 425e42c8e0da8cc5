import multiprocessing
import os
import select
import signal
import sys
import tempfile
import threading
from concurrent import futures
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import programs
import pytest
from conformance import Conformance, failure
from platforms import posix

from dagprofiler import DAG, Hook, PoolExecutor, Rule, task
from dagprofiler.errors import RunError, ValidationError, WorkerError
from dagprofiler.executors import _shared_files
from dagprofiler.rules import after
from dagprofiler.serializers import OutOfBandPickle

pytestmark = [
    # Forking where threads run, as a program that asks for "fork" does.
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
    # Pools whose worker was killed, on Python 3.9.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(scope="class")
def started():
    """All pools that the tests of a class have started."""
    pools = []
    yield pools
    for pool in pools:
        pool.shutdown()


class Processes(Conformance):
    method = "fork"

    @pytest.fixture
    def executor(self, started):
        # A worker that dies breaks its pool.
        if not started or self.is_broken(started[-1]):
            started.append(self.make())
        return started[-1]

    @staticmethod
    def is_broken(pool):
        return pool._broken

    def make(self):
        if self.method not in multiprocessing.get_all_start_methods():
            pytest.skip(f"this system cannot start processes by {self.method}")
        return ProcessPoolExecutor(2, multiprocessing.get_context(self.method))


class TestForkedProcesses(Processes):
    def test_a_config_that_cannot_travel_is_named_with_its_parameter(self, executor):
        dag = DAG({"a": programs.last}, [], {"fine": 1, "rule": (i for i in ()), "n": 2})
        with pytest.raises(TypeError, match=r"config.*'rule'"):
            dag.run(executor=executor)

    def test_a_pool_that_is_shut_down_is_an_error_that_says_so(self):
        pool = self.make()
        pool.shutdown()
        error = failure(programs.failing("nothing"), pool)
        assert isinstance(error.__cause__, WorkerError)
        assert "futures after shutdown" in str(error)


class TestSpawnedProcesses(Processes):
    method = "spawn"
    # By default one way to start processes is tested.
    pytestmark = [pytest.mark.slow] if "fork" in multiprocessing.get_all_start_methods() else []


@pytest.mark.slow
class TestForkserverProcesses(Processes):
    method = "forkserver"


@pytest.mark.slow
class TestLoky(Processes):
    def make(self):
        return pytest.importorskip("loky").ProcessPoolExecutor(2)

    @staticmethod
    def is_broken(pool):
        return pool._flags.broken


class TestThreads(Conformance):
    can_die = False
    are_alone = False

    @pytest.fixture
    def executor(self):
        with ThreadPoolExecutor(2) as pool:
            yield pool

    def test_meters_of_the_whole_process_say_why_they_cannot_tell(self, executor):
        profile = programs.failing("nothing").run(executor=executor, meters=["peak_memory", "cpu"])
        measured = profile.sections["samples"]["tasks"]["bad"]
        assert measured["peak_memory_bytes"] == [None]
        assert measured["cpu_ms"] != [None]
        why = profile.sections["environment"]["not_measured"]["peak_memory_bytes"]
        assert why.startswith("other tasks ran concurrently")


@task(outputs=["data"], serializer=OutOfBandPickle())
def adds(data=None):
    """Take an array, or make one, and make another one of it."""
    return {"data": np.zeros(300_000, dtype=np.uint8) if data is None else data + 1}


@pytest.fixture
def made(monkeypatch, tmp_path):
    """Where folders of large values are made."""
    monkeypatch.setattr(_shared_files, "_ROOM_BYTES", 1 << 60)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def run_chain(pool, made):
    """Return how many files of large values there were when each of five tasks was done."""
    hook, files = Hook(), []
    hook.task_finished = lambda _: files.append(len([*made.glob("dagprofiler-*/*")]))
    names = [f"t{i}" for i in range(5)]
    dag = DAG(dict.fromkeys(names, adds), [*zip(names, names[1:])])
    profile = dag.run(executor=pool, hooks=[hook])
    assert profile.outputs["t4"]["data"].sum() == 4 * 300_000
    return files


def test_a_file_goes_when_its_last_consumer_is_done(made):
    with ProcessPoolExecutor(2) as pool:
        files = run_chain(pool, made)
        assert (files[0], max(files) <= 2) == (1, True)
        fill, bad = programs.Fill(1_000_000), programs.Act("raise")
        with pytest.raises(RunError):
            DAG({"fill": fill, "bad": bad}, [("fill", "bad", [])]).run(executor=pool)
    assert not [*made.glob("dagprofiler-*")]


def test_large_values_go_through_the_pool_on_a_full_disk(made):
    with ProcessPoolExecutor(1, initializer=_write_no_more) as pool:
        assert set(run_chain(pool, made)) == {0}


def _write_no_more():
    # As a full disk does: the first part can be written.
    import resource

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))


def test_a_pool_that_does_not_tell_its_workers_can_be_told():
    class Ours(futures.Executor):
        def submit(self, work, /, *args, **kwargs):
            return pool.submit(work, *args, **kwargs)

    with ThreadPoolExecutor(1) as pool:
        assert PoolExecutor(Ours()).capacity == 2 * (os.cpu_count() or 1)
        assert PoolExecutor(Ours(), workers=3).capacity == 6
        assert DAG({"a": programs.last}).run(executor=Ours()).final_outputs == {"done": True}


def _imports(folder):
    """Import a package that only the worker has."""
    sys.path.insert(0, folder)
    import only_of_workers  # noqa: F401


def test_versions_are_those_of_the_workers_that_computed(tmp_path):
    folder = tmp_path / "dist-packages"
    folder.mkdir()
    (folder / "only_of_workers.py").write_text("__version__ = '1.2.3'\n")
    with ProcessPoolExecutor(1, initializer=_imports, initargs=[str(folder)]) as pool:
        profile = DAG({"a": programs.last}).run(rounds=2, executor=pool)
    assert profile.sections["environment"]["versions"]["only_of_workers"] == "1.2.3"


#: Two of its tasks stay up, one has made a large output; its arguments: which pool, and a limit.
PROGRAM = """
import multiprocessing, os, sys
from concurrent.futures import ProcessPoolExecutor
from dagprofiler import DAG
from dagprofiler.executors import _shared_files
from programs import Act, Fill, length

if __name__ == "__main__":
    method, *limits = sys.argv[1:]
    if method == "loky":
        import loky
        pool = loky.ProcessPoolExecutor(2)
    else:
        pool = ProcessPoolExecutor(2, multiprocessing.get_context(method))
    tasks = {"a": Fill(1_000_000), "b": Act("up"), "c": Act("up"), "d": length}
    dag = DAG(tasks, [("a", "d"), ("b", "d", [])])
    _shared_files._ROOM_BYTES = 1 << 60
    try:
        dag.run(executor=pool, timeout=float(limits[0]) if limits else None)
    except KeyboardInterrupt as stopped:
        print("stopped", stopped.profile.sections["run"]["state"], flush=True)
    # To end a pool whose workers got a Ctrl-C, too, takes a hammer: they may hold its locks.
    for worker in multiprocessing.active_children():
        worker.kill()
    os._exit(0)
"""


@posix
@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.slow
def test_ctrl_c_gives_a_partial_profile_and_leaves_no_file(start, tmp_path, method):
    files = tmp_path / "files"
    files.mkdir()
    process = start(PROGRAM, method, TMPDIR=str(files))
    assert all(process.stdout.readline().startswith("up") for _ in range(2))
    assert any(name.startswith("dagprofiler-") for name in os.listdir(files))
    # As a terminal does: all processes of the group get it.
    os.killpg(process.pid, signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert said.endswith("stopped partial\n")
    assert not any(name.startswith("dagprofiler-") for name in os.listdir(files))


@pytest.mark.parametrize(
    ("limit", "options", "words"),
    [
        (0, {}, "'a': timeout"),
        ("soon", {}, "'a': timeout"),
        (float("nan"), {}, "'a': timeout"),
        (None, {"workers": 0}, "executor: workers .*0$"),
        (None, {"workers": "2"}, "executor: workers .*'2'$"),
        (None, {"folder": "nowhere"}, "nowhere"),
    ],
)
def test_invalid_time_limits_workers_and_folders_are_named(limit, options, words):
    dag = DAG({"a": programs.last})
    dag.tasks["a"].timeout = limit
    with ProcessPoolExecutor(1) as pool, pytest.raises((ValidationError, OSError), match=words):
        dag.run(executor=PoolExecutor(pool, **options))


def test_a_time_limit_of_an_added_task_is_refused_serially():
    def add(graph):
        graph.add_task("late", starts.bind(path=""))

    with pytest.raises(RunError, match=r"'late': timeout: .*serial"):
        DAG({"a": programs.last}, rules=[Rule(after("a"), add)]).run()


def hold(path):
    with open(path, "wb", buffering=0) as fifo:
        fifo.write(b"up")
        threading.Event().wait(60)


@task(outputs=["x"], timeout=2)
def starts(path):
    child = multiprocessing.get_context("fork").Process(target=hold, args=(path,))
    child.start()
    child.join()


@posix
@pytest.mark.slow
def test_processes_of_a_task_end_with_it_at_its_time_limit(tmp_path):
    path = str(tmp_path / "fifo")
    os.mkfifo(path)
    end = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with ProcessPoolExecutor(1) as pool, pytest.raises(RunError, match="its time limit is 2 s"):
        DAG({"a": starts.bind(path=path)}).run(executor=pool)
    assert os.read(end, 9) == b"up"
    assert select.select([end], [], [], 20)[0]
    assert os.read(end, 9) == b""
    os.close(end)


slow = partial(pytest.param, marks=pytest.mark.slow)
#: With a time limit each task runs in a process beside its worker.
POOLS = "fork 100", "spawn", "spawn 100", "forkserver", "loky"


@posix
@pytest.mark.parametrize("sign", ["SIGKILL", slow("SIGTERM")])
@pytest.mark.parametrize("pool", ["fork", *map(slow, POOLS)])
def test_workers_end_with_a_driver_that_is_killed(start, pool, sign):
    if pool == "loky":
        pytest.importorskip("loky")
    # A socket's path has 108 characters at most.
    with tempfile.TemporaryDirectory() as folder:
        process = start(PROGRAM, *pool.split(), TMPDIR=folder)
        assert all(process.stdout.readline().startswith("up") for _ in range(2))
        process.send_signal(getattr(signal, sign))
        # It ends when all that could write there have ended.
        process.communicate(timeout=60)
    assert process.returncode == -getattr(signal, sign)


def test_the_worked_example_of_the_page_runs_on_its_pool(start):
    example = Path(__file__).resolve().parents[2] / "docs" / "examples" / "own_executor.py"
    said, errors = start(example.read_text(encoding="utf-8")).communicate(timeout=60)
    assert said.splitlines() == [
        "{'sum': 5500} by multiprocessing.Pool",
        "the same serially: {'sum': 5500}",
        "at most two processes: True",
    ], errors
