"""Rounds(fresh_process=True): each round in a new process, of which none is left."""

import importlib
import multiprocessing
import multiprocessing.resource_tracker
import os
import re
import signal
import sys
import types

import pytest
from handmade import failure
from processes import alive_in, children, processes, until
from steps import Notes

from dagprofiler import DAG, Rounds, task
from dagprofiler.errors import DagProfilerError, SerializationError

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks at /proc")

FRESH = Rounds(3, fresh_process=True)
ONCE = Rounds(1, fresh_process=True)

#: A module that new processes import fast: this one would import pytest.
TASKS = """
import gc, os, pickle, random, signal, sys, time

import dagprofiler
from dagprofiler import DAG, Rounds, Task, task

@task(outputs=["pid"])
def pid(cfg):
    with open(cfg.log, "a") as file:
        print(os.getpid(), file=file)
    return {"pid": os.getpid()}

@task(outputs=["x"])
def acts(cfg, pid):
    with open(cfg.log) as file:
        rounds = len(file.readlines())
    if rounds == cfg.get("at"):
        globals()[cfg.action]()
    return {"x": rounds}

class Odd(Exception):
    def __init__(self):
        super().__init__("odd", lambda: None)

def fail():
    raise LookupError("lost")

def fail_oddly():
    raise Odd

def interrupt():
    raise KeyboardInterrupt

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def hang():
    print("hangs", flush=True)
    while True:
        time.sleep(0.01)

@task(outputs=["x"])
def returns(expression):
    return {"x": eval(expression)}

@task(outputs=["z"])
def adds(x, y):
    return {"z": (*x, y)}

class Cannot(Task):
    outputs = ["x"]
    def compute(self):
        return {"x": lambda: 1}
    def serialize(self, data):
        return b"a function"
    def deserialize(self, data):
        return lambda: 1

class Counts:
    name, unit, reason = "pid", "1", None
    def start(self):
        pass
    def stop(self):
        return os.getpid()

class Broken(Counts):
    name = "broken"
    def stop(self):
        raise OSError("no sensor")
"""


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    """Return the module of the tasks, as new processes import it."""
    folder = tmp_path_factory.mktemp("fresh")
    (folder / "tasks_of_fresh_rounds.py").write_text(TASKS, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        # The program that runs: new processes would import pytest again.
        patch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))
        yield importlib.import_module("tasks_of_fresh_rounds")
    del sys.modules["tasks_of_fresh_rounds"]


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log"


@pytest.fixture
def program(tasks, log):
    """Return a function that makes a DAG whose second task acts in the round that it is told."""

    def program(**config):
        nodes = {"a": tasks.pid, "b": tasks.acts}
        return DAG(nodes, [("a", "b")], {"log": str(log), **config})

    return program


def pids_in(log):
    """Return the processes that computed, in their order."""
    return [int(line) for line in log.read_text(encoding="utf-8").split()]


@pytest.fixture(autouse=True)
def _none_is_left(tmp_path_factory, monkeypatch):
    """Whatever a test does, neither a process nor a file of its rounds is left."""
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    # Python starts it with the first of such processes; it stays.
    multiprocessing.resource_tracker.ensure_running()
    before = children()
    yield
    assert before.issuperset(children())
    assert os.listdir(folder) == []


def test_every_round_has_another_process_and_none_warms_up(program, log):
    profile = program().run(rounds=FRESH, keep=["a"])
    pids = pids_in(log)
    assert len(pids) == len({*pids, os.getpid()}) - 1 == 3
    assert not set(pids) & set(processes())
    timeline, run = profile.sections["timeline"], profile.sections["run"]
    workers = [worker["pid"] for worker in timeline["workers"]]
    ran = [(task, k, workers[worker]) for task, k, worker, *_ in timeline["records"]]
    assert ran == [(task, k, pid) for k, pid in enumerate(pids) for task in "ab"]
    assert profile.sections["samples"]["rounds"] == ["measured"] * 3
    assert run["conditions"] == FRESH.to_dict()
    assert (run["rounds"], run["ended_by"]) == (3, "n")
    # Outputs are those of the last round, and times on the clock of the run.
    assert profile.outputs == {"a": {"pid": pids[-1]}, "b": {"x": 3}}
    walls = profile.sections["samples"]["tasks"]["a"]["wall_ms"]
    assert profile.metrics.task_metrics[0].compute_time_ms == sorted(walls)[1]
    moments = [moment for row in timeline["records"] for moment in row[4:]]
    assert [0, *moments, run["elapsed_ms"]] == sorted([0, *moments, run["elapsed_ms"]])


@pytest.mark.slow
def test_a_seed_gives_the_same_outputs_in_processes(tasks):
    draws = "int(dagprofiler.rng().integers(2**60)), random.getrandbits(60)"
    dag = DAG({"a": tasks.returns.bind(expression=draws), "b": tasks.adds}, [("a", "b")])
    rounds = Rounds(2, fresh_process=True, check_outputs=True)
    inputs = {"b": {"y": 1}}
    profile, here = dag.run(7, rounds=rounds, inputs=inputs), dag.run(7, inputs=inputs)
    assert profile.final_outputs == here.final_outputs
    assert profile.metrics.task_metrics[1].bytes_in == here.metrics.task_metrics[1].bytes_in
    flags = profile.sections["statistics"]["flags"].get("a", [])
    assert "outputs_differ" not in flags
    unseeded = dag.run(rounds=rounds, inputs=inputs)
    assert "outputs_differ" in unseeded.sections["statistics"]["flags"]["a"]


def test_a_single_round_has_a_process_like_the_programs_own(tasks, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "argv", ["program", "--fast"])
    # What is no folder in the path does no harm.
    monkeypatch.setattr(sys, "path", [tmp_path, None, *sys.path])
    monkeypatch.chdir(tmp_path)
    surroundings = "sys.argv, os.getcwd(), __name__, (sys.stdin.read(), os.read(0, 10))"
    profile = DAG({"a": tasks.returns.bind(expression=surroundings)}).run(rounds=ONCE)
    seen = ["program", "--fast"], str(tmp_path), tasks.__name__, ("", b"")
    assert profile.final_outputs["x"] == seen
    assert profile.sections["run"]["rounds"] == 1
    timeline = profile.sections["timeline"]
    assert timeline["workers"][timeline["records"][0][2]]["pid"] != os.getpid()


@pytest.mark.slow
def test_what_is_measured_there_is_what_was_asked_for(tasks):
    dag = DAG({"a": tasks.returns.bind(expression="len(bytearray(1_000_000))")})
    rounds = Rounds(2, warmup=1, fresh_process=True)
    profile = dag.run(rounds=rounds, meters=["cpu", tasks.Counts(), tasks.Broken(), "allocation"])
    samples = profile.sections["samples"]
    assert samples["rounds"] == ["cold", "measured", "measured", "allocation"]
    columns = samples["tasks"]["a"]
    assert None not in columns["cpu_ms"][:3]
    # No process computes twice: what it has warmed up would not be fresh.
    assert len({os.getpid(), *columns["pid"][:3]}) == 4
    assert columns["broken"] == [None] * 4
    reason = profile.sections["environment"]["not_measured"]["broken"]
    assert reason == "task 'a': stop() raised OSError: no sensor"
    # What other threads do there is not seen here.
    assert profile.run.other_threads_ms is None
    # Allocations do not depend on the process.
    assert columns["allocation_bytes"][:3] == [None] * 3
    assert 1_000_000 <= columns["allocation_bytes"][3] < 1_100_000


def test_the_error_of_a_task_comes_back_with_its_type(program, log):
    error = failure(program(at=2, action="fail"), rounds=FRESH)
    assert error.task == "b"
    assert repr(error.__cause__) == "LookupError('lost')"
    assert error.__cause__ is error.failures["b"]
    run = error.profile.sections["run"]
    assert run["reason"] == "task 'b' failed in round 2 of 3: LookupError: lost"
    place = run["tasks"]["b"].pop("traceback")[-1]
    assert (place["function"], place["text"]) == ("fail", 'raise LookupError("lost")')
    assert run["tasks"] == {"b": {"state": "failed", "error": "LookupError: lost", "round": 1}}
    tasks = error.profile.sections["samples"]["tasks"]
    assert [wall is None for wall in tasks["b"]["wall_ms"]] == [False, True]
    assert None not in tasks["a"]["wall_ms"]
    assert len(pids_in(log)) == 2
    # One that cannot travel is told in words.
    error = failure(program(at=3, action="fail_oddly"), rounds=FRESH)
    assert "odd" in str(error.failures["b"])
    assert "Odd" in error.profile.sections["run"]["reason"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("action", "error", "words"),
    [
        ("interrupt", KeyboardInterrupt, "^interrupted by KeyboardInterrupt"),
        ("die", DagProfilerError, "ended with code -9 "),
    ],
)
def test_a_process_that_ends_leaves_earlier_rounds(program, log, action, error, words):
    with pytest.raises(error) as caught:
        program(at=2, action=action).run(rounds=FRESH)
    profile = caught.value.profile
    run = profile.sections["run"]
    assert run["state"] == "partial"
    assert re.search(words, run["reason"])
    assert run["reason"].endswith("in round 2 of 3")
    assert len(profile.metrics.task_metrics) == len(pids_in(log)) == 2


def test_fresh_rounds_refuse_what_does_not_pickle(program, log, tasks):
    notes, local = Notes(), task(outputs=["x"])(lambda: {"x": 1})
    with pytest.raises(SerializationError, match=r"fresh_process=True.*to a new process.*module"):
        DAG({"a": local}).run(rounds=FRESH, hooks=[notes])
    assert notes.calls == [("close",)]
    meter = tasks.Counts()
    meter.sensor = lambda: None
    with pytest.raises(SerializationError, match="cannot travel"):
        program().run(rounds=FRESH, meters=meter)
    assert not log.exists()
    with pytest.raises(SerializationError, match=r"fresh_process=True.*back by pickle"):
        DAG({"a": tasks.Cannot}).run(rounds=FRESH)


GUARDED = """
import sys, time
from dagprofiler import DAG, Rounds, task

@task(outputs=["x"])
def reads():
    print("computes", flush=True)
    return {"x": sys.stdin.read()}

if __name__ == "__main__":
    profile = DAG({"a": reads}).run(rounds=Rounds(2, fresh_process=True))
    print(repr(profile.final_outputs["x"]), repr(input()))
"""


def test_tasks_of_the_program_itself_go_to_new_processes(start):
    process = start(GUARDED)
    out, err = process.communicate("for the program\n", timeout=30)
    assert (process.returncode, err) == (0, "")
    assert out == "computes\ncomputes\n'' 'for the program'\n"


UNGUARDED = GUARDED.replace('__name__ == "__main__"', "True")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "command", "words"),
    [
        (UNGUARDED, [sys.executable], "if __name__ == '__main__':"),
        ("", [sys.executable, "-c", GUARDED], "define its tasks in a module or a program file"),
    ],
    ids=["no guard", "no file"],
)
def test_programs_that_no_process_can_import_are_an_error(start, text, command, words):
    process = start(text, command=command)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (1, "")
    assert words in err.splitlines()[-1]
    until(lambda: alive_in(process.pid) == [])


HANGS = """
if __name__ == "__main__":
    config = {"log": "log", "at": 2, "action": "hang"}
    try:
        DAG({"a": pid, "b": acts}, [("a", "b")], config).run(rounds=Rounds(6, fresh_process=True))
    except KeyboardInterrupt as error:
        print(error.profile.sections["run"]["reason"])
        print(len(error.profile.metrics.task_metrics))
"""


STOPPED = "interrupted by KeyboardInterrupt in round 2 of 6\n2\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "sign", "says"),
    [
        ("killpg", "SIGINT", STOPPED),
        ("kill", "SIGINT", STOPPED),
        ("kill", "SIGKILL", ""),
    ],
)
def test_a_round_ends_with_its_program_and_leaves_those_before(start, log, end, sign, says):
    program = start(TASKS + HANGS)
    assert program.stdout.readline() == "hangs\n"
    first, second = pids_in(log)
    assert first not in processes()
    assert second in alive_in(program.pid)
    getattr(os, end)(program.pid, getattr(signal, sign))
    assert program.communicate(timeout=30) == (says, "")
    assert program.returncode == (0 if says else -signal.SIGKILL)
    until(lambda: alive_in(program.pid) == [])
