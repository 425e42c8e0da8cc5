import os
import signal
import subprocess
import sys

import pytest
from cli_runner import environment, python

from dagprofiler import Profile

pytestmark = pytest.mark.skipif(os.name != "posix", reason="Windows has no such signals")

slow = pytest.mark.slow

#: A program whose third round waits. If there is a file "slow", so does its disk.
PROGRAM = """
import multiprocessing, os, sys, threading
from concurrent.futures import ProcessPoolExecutor
from dagprofiler import DAG, task

@task(outputs=["x"])
def first():
    return {"x": 1}

@task(inputs=["x"], outputs=["y"])
def waits(x):
    with open("rounds", "a+") as rounds:
        print("one", file=rounds, flush=True)
        rounds.seek(0)
        if len(rounds.readlines()) == 3 + 2 * os.path.exists("slow"):
            print("up", flush=True)
            threading.Event().wait(100)
    return {"y": x}

def build(n=1):
    return DAG({"first": first, "waits": waits}, [("first", "waits")], {"n": n})

dag = build()

def fsync(descriptor):
    print("saving", flush=True)
    sys.stdin.readline()

if os.path.exists("slow"):
    os.fsync = fsync

class Late:
    # Another signal, when the interpreter has taken the handlers of signals back.
    def __del__(self, driver=os.getpid(), getpid=os.getpid, kill=os.kill):
        if getpid() == driver:
            kill(driver, 15)

late = Late()

def pool():
    return ProcessPoolExecutor(2, multiprocessing.get_context("fork"))
"""

ROUNDS = ["--rounds", "9", "--warmup", "0"]

STOPPING = "dagprofiler: stopping; saving what was measured, Ctrl-C again to give up\n"


@pytest.fixture
def started(folder, written):
    """Return a function that starts the command in a process group of its own."""
    written("ended_from_outside.py", PROGRAM)
    pipes = {**dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE), "text": True}
    options = {"cwd": folder, "env": environment(), "start_new_session": True, **pipes}
    processes = []

    def start(*words):
        words = [sys.executable, "-m", "dagprofiler", *words]
        processes.append(subprocess.Popen(words, **options))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    "where",
    [
        [],
        pytest.param(["--executor", "threads:2"], marks=slow),
        ["--executor", "processes:2"],
        pytest.param(["--executor", "ended_from_outside.py:pool"], marks=slow),
        ["--fresh-process"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize(
    ("signals", "words", "code"),
    [
        (["SIGINT", "SIGINT"], "interrupted", 130),
        pytest.param(["SIGTERM", "SIGINT"], "terminated", 143, marks=slow),
        # As timeout(1) sends it.
        pytest.param(["SIGTERM", "SIGTERM"], "terminated", 143, marks=slow),
        (["SIGHUP"], "hung up", 129),
    ],
)
def test_a_signal_saves_the_rounds_and_ends_the_processes(
    started, folder, where, signals, words, code
):
    process = started("run", "ended_from_outside.py:dag", "-q", "-o", "p.json", *ROUNDS, *where)
    assert process.stdout.readline() == "up\n"
    first, *others = (getattr(signal, name) for name in signals)
    # A terminal sends its signals to all of the group.
    (os.kill if first == signal.SIGTERM else os.killpg)(process.pid, first)
    assert process.stderr.readline() == STOPPING
    for number in others:
        os.killpg(process.pid, number)
    # Their ends come when all that could write there have ended.
    out, err = process.communicate(timeout=60)
    assert (out, process.returncode) == ("", code)
    assert err == f"dagprofiler: {words}; measured: 2 complete rounds in p.partial.json\n"
    run = Profile.load(os.path.join(folder, "p.partial.json")).sections["run"]
    assert (run["state"], run["rounds"]) == ("partial", 2)


@pytest.mark.parametrize(
    ("command", "lost"),
    [
        (
            "run ended_from_outside.py:dag -q -o p.json",
            "measured: 4 complete rounds lost: p.partial.json was not written",
        ),
        pytest.param(
            "sweep ended_from_outside.py:build --over n=1,2 -q -o .",
            "measured: 2 complete rounds lost: ./n=1.partial.json was not written",
            marks=slow,
        ),
        (
            "compare --run ended_from_outside.py:build ended_from_outside.py:build",
            "measured: 2 complete rounds lost: base.partial.json was not written",
        ),
    ],
)
def test_a_second_signal_gives_up_saving_and_says_so(started, folder, written, command, lost):
    written("slow", "")
    old = written("p.partial.json", "old")
    process = started(*command.split(), *ROUNDS)
    assert process.stdout.readline() == "up\n"
    process.send_signal(signal.SIGTERM)
    assert process.stdout.readline() == "saving\n"
    # Those of the first second change nothing.
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1.1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 143
    assert err.splitlines()[-1].startswith(f"dagprofiler: terminated; {lost}")
    assert err.count(" lost: ") == 1 + ("run " not in command[:4])
    with open(old, encoding="utf-8") as file:
        assert file.read() == "old"
    assert not [name for name in os.listdir(folder) if name.endswith(".tmp")]


def test_a_signal_lets_a_whole_profile_be_written(started, folder, written):
    written("slow", "")
    process = started("run", "ended_from_outside.py:dag", "-q", "-o", "p.json")
    assert process.stdout.readline() == "saving\n"
    process.send_signal(signal.SIGINT)
    assert process.stderr.readline() == STOPPING
    assert process.communicate("go on\n", timeout=60) == ("", "")
    assert process.returncode == 130
    run = Profile.load(os.path.join(folder, "p.json")).sections["run"]
    assert run["state"] == "complete"


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_that_is_ignored_stays_so(name):
    code = (
        f"import signal; from dagprofiler.cli import entry; number = signal.{name}; "
        "signal.signal(number, signal.SIG_IGN); "
        "import atexit; atexit.register(lambda: print(signal.getsignal(number).name)); entry()"
    )
    assert python("-c", code, "--version").stdout.endswith("SIG_IGN\n")
