"""Tasks that the tests of all executors run; workers import this module."""

from __future__ import annotations

import os
import random
import re
import signal
import sys
import threading
import time
from pathlib import Path
from types import ModuleType

import numpy as np

import dagprofiler
from dagprofiler import DAG, Config, Hook, Rule, Task, map_over, span, task, trace
from dagprofiler.rules import after, complete
from dagprofiler.serializers import OutOfBandPickle

HERE = Path(__file__).resolve().parent
#: For programs and workers: this folder and the package.
PYTHONPATH = os.pathsep.join([str(HERE), str(HERE.parent.parent)])


class Draw(Task):
    outputs = ["points", "mean"]

    def compute(self, cfg):
        points = dagprofiler.rng().random((cfg.N, 2))
        return {"points": points, "mean": points.mean() + self.config.N, "undeclared": 3}


@task(outputs=["scaled"], serializer=OutOfBandPickle())
def scale(points, factor):
    return {"scaled": points * factor}


@task(outputs=["sums", "mean"], gathers=["scaled"])
def merge(scaled, mean):
    # Where an array begins in memory decides on the last digits of its sum.
    return {"sums": [round(float(one.sum()), 6) for one in scaled], "mean": mean}


@task(outputs=["done"])
def last():
    return {"done": True}


PARTS = range(3)


def program(n: int = 100) -> DAG:
    """Return a DAG with several outputs, two serializers, a gather and an edge that only orders."""
    scales = [f"scale{i}" for i in PARTS]
    tasks = {"draw": Draw, **dict.fromkeys(scales, scale), "merge": merge, "last": last}
    edges = [edge for name in scales for edge in (("draw", name, ["points"]), (name, "merge"))]
    return DAG(tasks, [*edges, ("draw", "merge", ["mean"]), ("merge", "last", [])], Config(N=n))


#: Values from outside the graph, for :func:`program`, and what it is run with.
OUTSIDE = {f"scale{i}": {"factor": i + 1.5} for i in PARTS}
ASKED = {"seed": 5, "inputs": OUTSIDE, "keep": ["merge"]}


class Act(Task):
    """Does what its name in `how` says, then makes `x`."""

    outputs = ["x"]

    def __init__(self, how: str, path: str = "") -> None:
        super().__init__()
        self.how = how
        self.path = path

    def compute(self):
        return {"x": getattr(self, f"_{self.how}")()}

    def _nothing(self):
        return None

    def _large(self):
        return bytes(20_000)

    def _rest(self):
        time.sleep(0.02)

    def _raise(self):
        try:
            _divide(1, 0)
        except ZeroDivisionError as error:
            raise ValueError("no such cell") from error

    def _raise_what_only_the_worker_knows(self):
        module = sys.modules["made_by_a_worker"] = ModuleType("made_by_a_worker")
        module.Stranger = type("Stranger", (Exception,), {"__module__": module.__name__})
        raise module.Stranger("who is that")

    def _leave(self):
        sys.exit(7)

    def _exit(self):
        os._exit(3)

    def _kill(self):
        os.kill(os.getpid(), signal.SIGKILL)

    def _kill_parent(self):
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(1)

    def _is_first(self):
        try:
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    def _exit_once(self):
        if self._is_first():
            os._exit(3)
        return "the second time"

    def _raise_again(self):
        if not self._is_first():
            raise ValueError("not a second time")
        return bytes(20_000)

    def _lambda(self):
        return lambda: 0

    def _meet(self):
        # Until a task of another process is there.
        open(os.path.join(self.path, str(os.getpid())), "w").close()
        for _ in range(3000):
            if len(os.listdir(self.path)) > 1:
                break
            time.sleep(0.01)

    def _sleep(self):
        # Longer than any test takes, and says that it has begun. In short sleeps: Ray cancels by
        # an interrupt of Python's own, which does not end a sleep.
        Path(self.path).write_text(f"{os.getpid()}\n")
        for _ in range(6000):
            time.sleep(0.01)

    def _up(self):
        os.write(1, b"up %d\n" % os.getpid())
        threading.Event().wait(60)

    def _hold(self):
        # A call into C that lets no other thread run, nor ends.
        re.match(r"(a+)+$", "a" * 100 + "b")

    def _legacy(self):
        return random.random(), np.random.random()


class ActWithData(Act):
    inputs = ["data"]

    def compute(self, data):
        return super().compute()


def _divide(a: int, b: int) -> float:
    return a / b


@task(outputs=["y"])
def passes(x):
    return {"y": x}


class Fill(Task):
    outputs = ["data"]

    def __init__(self, nbytes: int) -> None:
        super().__init__()
        self.nbytes = nbytes

    def compute(self):
        return {"data": np.ones(self.nbytes, dtype=np.uint8)}


@task(outputs=["nbytes"])
def length(data):
    return {"nbytes": data.nbytes}


@task(outputs=["nbytes"], gathers=["data"])
def lengths(data):
    return {"nbytes": [one.nbytes for one in data]}


@task(outputs=["parts", "count"], serializer=OutOfBandPickle())
def parts(cfg):
    """Hand out arrays, each longer than the one before, as views of one of them."""
    whole = dagprofiler.rng().random(cfg.N * 4)
    return {"parts": [whole[: cfg.N * (i + 1)] for i in range(4)], "count": 4}


@task(outputs=["middle", "ends"])
def middle(part):
    return {"middle": float(np.median(part)), "ends": [float(part[0]), float(part[-1])]}


@task(outputs=["half"])
def halve(end):
    return {"half": end / 2}


@task(outputs=["middles", "halves", "count"], gathers=["middle", "half"])
def gather(middle, half, count):
    return {"middles": middle, "halves": half, "count": count}


def growing(n: int = 100) -> DAG:
    """Return a DAG of one task: a map, a map of it, a merge of both, and a branch behind that."""

    def add_gather(graph):
        middles = [(one, ["middle"]) for one in graph.tasks("middle")]
        behind = [*middles, *graph.tasks("half"), ("parts", ["count"])]
        graph.add_task("gather", gather, after=behind)

    def check(graph):
        graph.add_task("many" if graph["gather"].output("count") > 3 else "few", last)

    middles = map_over("parts", "parts", middle, name="middle", tags=["any"])
    halves = map_over("middle", "ends", halve, name="half", tags=["any"])
    gathers = Rule(complete("any"), add_gather, reads=["parts"])
    rules = [middles, halves, gathers, Rule(after("gather"), check)]
    return DAG({"parts": parts}, config=Config(N=n), rules=rules)


class Follows(Hook):
    """Notes what finishes, and ends the run with a certain task."""

    def __init__(self, until: str | None = None) -> None:
        self.until = until
        self.finished: list[str] = []

    def task_finished(self, record):
        self.finished.append(record.task)
        if record.task == self.until:
            raise RuntimeError("enough of it")


class Traced(Task):
    """Does what can be seen from inside, some of it in a thread and some in coroutines."""

    inputs = ["x"]
    outputs = ["y"]

    def compute(self, x):
        import asyncio

        with span("outer", x=x) as outer:
            thread = threading.Thread(target=step, args=(x,))
            thread.start()
            thread.join()
            outer.args["y"] = asyncio.run(waits(x))
        return {"y": x}


@trace
def step(x):
    return x


@trace
async def waits(x):
    return step(x)


def failing(how: str, path: str = "") -> DAG:
    """Return a DAG whose task ``bad`` fails somehow, with one behind it and one beside it."""
    return DAG(
        {"bad": Act(how, path), "behind": passes, "beside": Act("nothing"), "other": passes},
        [("bad", "behind"), ("beside", "other")],
    )
