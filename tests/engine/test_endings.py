"""However a run ends, its profile can be loaded, and no time in it is negative."""

import shutil
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import nullcontext
from itertools import product
from pathlib import Path

import pytest
from agreement import check_agreement
from steps import Notes

from dagprofiler import DAG, Config, Hook, Journal, Profile, Rounds, RunError, Task
from dagprofiler.journal import OutputFile

TASKS = ("a", "b", "c", "d")
EDGES = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]

ROUNDS = {"plain": 1, "rounds": Rounds(2, warmup=1, collect_garbage=None)}
POOLS = {"serial": None, "threads": ThreadPoolExecutor, "processes": ProcessPoolExecutor}
QUICK = ("serial", "serial"), ("threads", "serial")

#: The task with which it happens, and for how many rounds before that it does not.
PLACES = {"first": ("a", 0), "middle": ("c", 0), "last": ("d", 0), "second": ("a", 1)}
ENDS = ("success", "fails", "interrupted", "hook raises", "killed")


class Step(Task):
    """Adds up what arrives, unless a file says what to do instead."""

    inputs = ["x"]
    outputs = ["x"]
    gathers = ["x"]

    def compute(self, x, cfg):
        said = Path(cfg.folder, self.name)
        if said.exists():
            raise {"fails": ValueError, "interrupted": KeyboardInterrupt}[said.read_text()]
        return {"x": sum(x) + 1}


def program(folder):
    return DAG({name: Step(name) for name in TASKS}, EDGES, Config(folder=str(folder)))


class Ends(Hook):
    """Lets a run end in one of the ways, as soon as a task is about to start."""

    def __init__(self, folder, how, place):
        self.folder, self.how = folder, how
        self.task, self.before = PLACES[place]

    def task_started(self, task):
        if self.how == "success" or task != self.task:
            return
        self.before -= 1
        if self.before >= 0:
            return
        if self.how == "hook raises":
            raise OSError("the hook")
        if self.how == "killed":
            # What a process leaves that ends at this moment.
            shutil.copytree(self.folder / "journal", self.folder / "left")
        else:
            (self.folder / task).write_text(self.how)


@pytest.fixture(autouse=True)
def _slow_disk(monkeypatch):
    """Let storing outputs take longer than the tasks do."""
    append = OutputFile.append
    monkeypatch.setattr(
        OutputFile, "append", lambda file, value: time.sleep(0.001) or append(file, value)
    )


def executor(where):
    return nullcontext() if POOLS[where] is None else POOLS[where](2)


def ended(folder, hooks, rounds, where):
    """Return the profile of a run, however it ends."""
    with executor(where) as pool:
        try:
            return program(folder).run(
                executor=pool, rounds=ROUNDS[rounds], on_error="finish", hooks=hooks
            )
        except (RunError, KeyboardInterrupt) as error:
            return error.profile


def check(profile, folder):
    """Assert that what was saved is loaded, and that its figures agree with each other."""
    profile.save(folder / "profile.json")
    assert Profile.load(folder / "profile.json") == profile
    check_agreement(profile.to_dict())


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
@pytest.mark.parametrize(
    "method", ["run_started", "task_finished", "round_finished", "run_finished", "close"]
)
def test_what_a_run_saved_is_loaded_whatever_a_hook_raises(tmp_path, method, error):
    hooks = [Journal(tmp_path / "journal"), Notes(fails_in=method, error=error)]
    check(ended(tmp_path, hooks, "rounds", "serial"), tmp_path)
    check(program(tmp_path).resume(tmp_path / "journal"), tmp_path)


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize(
    ("where", "then"),
    [
        pytest.param(*pair, marks=[] if pair in QUICK else pytest.mark.slow)
        for pair in product(POOLS, POOLS)
    ],
)
@pytest.mark.parametrize("rounds", ROUNDS)
def test_what_any_run_saved_is_loaded_and_gone_on_with(tmp_path, rounds, where, then, how):
    places = ["last"] if how == "success" else [*PLACES][: 3 if rounds == "plain" else 4]
    for place in places:
        folder = tmp_path / place
        folder.mkdir()
        if how != "killed":
            without = ended(folder, [Ends(folder, how, place)], rounds, where)
            check(without, folder)
            (folder / PLACES[place][0]).unlink(missing_ok=True)
        hooks = [Ends(folder, how, place), Journal(folder / "journal")]
        first = ended(folder, hooks, rounds, where)
        check(first, folder)
        directory = folder / ("left" if how == "killed" else "journal")
        (folder / PLACES[place][0]).unlink(missing_ok=True)
        with executor(then) as pool:
            profile = program(folder).resume(directory, executor=pool)
        check(profile, folder)
        assert profile.outputs == {"d": {"x": 5}}
        assert profile.sections["run"]["state"] == "complete"
        for attempt in profile.sections["run"].get("resumed", []):
            assert attempt["executor_before"] == first.sections["run"]["executor"]
