"""Tasks that the tests of all executors run; workers import this module."""

from __future__ import annotations

import os
import random
import re
import signal
import sys
import threading
import time
from types import ModuleType

import numpy as np

import dagprofiler
from dagprofiler import DAG, Config, Hook, Rule, Task, map_over, span, trace
from dagprofiler.rules import after, complete
from dagprofiler.serializers import OutOfBandPickle


class Draw(Task):
    outputs = ["points", "mean"]

    def compute(self, cfg):
        points = dagprofiler.rng().random((cfg.N, 2))
        return {"points": points, "mean": float(points.mean()), "undeclared": 3}


class Scale(Task):
    inputs = ["points", "factor"]
    outputs = ["scaled"]
    serializer = OutOfBandPickle()

    def compute(self, points, factor):
        return {"scaled": points * factor}


class Merge(Task):
    inputs = ["scaled", "mean"]
    gathers = ["scaled"]
    outputs = ["sums", "mean"]

    def compute(self, scaled, mean):
        return {"sums": [float(one.sum()) for one in scaled], "mean": mean}


class Last(Task):
    outputs = ["done"]

    def compute(self):
        return {"done": True}


PARTS = range(3)


def program(n: int = 100) -> DAG:
    """Return a DAG with several outputs, two serializers, a gather and an edge that only orders."""
    return DAG(
        {
            "draw": Draw,
            **{f"scale{i}": Scale for i in PARTS},
            "merge": Merge,
            "last": Last,
        },
        [
            *(("draw", f"scale{i}", ["points"]) for i in PARTS),
            *((f"scale{i}", "merge") for i in PARTS),
            ("draw", "merge", ["mean"]),
            ("merge", "last", []),
        ],
        Config(N=n),
    )


#: Values from outside the graph, for :func:`program`.
OUTSIDE = {f"scale{i}": {"factor": i + 1.5} for i in PARTS}


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

    def _rest(self):
        time.sleep(0.02)

    def _list(self):
        return ["a", "b"]

    def _raise(self):
        try:
            _divide(1, 0)
        except ZeroDivisionError as error:
            raise ValueError("no such cell") from error

    def _raise_what_only_the_worker_knows(self):
        module = sys.modules["made_by_a_worker"] = ModuleType("made_by_a_worker")
        module.Stranger = type("Stranger", (Exception,), {"__module__": module.__name__})
        raise module.Stranger("who is that")

    def _raise_from_c(self):
        return b"\xff".decode("ascii")

    def _leave(self):
        sys.exit(7)

    def _exit(self):
        os._exit(3)

    def _kill(self):
        os.kill(os.getpid(), signal.SIGKILL)

    def _exit_once(self):
        try:
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return "the second time"
        os._exit(3)

    def _raise_again(self):
        try:
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL))
        except FileExistsError as error:
            raise ValueError("not a second time") from error
        return "the first time"

    def _lambda(self):
        return lambda: 0

    def _wait(self):
        # Until somebody makes the file, or the test has long been given up.
        for _ in range(3000):
            if os.path.exists(self.path):
                break
            time.sleep(0.01)

    def _meet(self):
        # Until a task of another process is there.
        open(os.path.join(self.path, str(os.getpid())), "w").close()
        for _ in range(3000):
            if len(os.listdir(self.path)) > 1:
                break
            time.sleep(0.01)

    def _hold(self):
        # A call into C that lets no other thread run, nor ends.
        re.match(r"(a+)+$", "a" * 100 + "b")

    def _thread(self):
        return os.getpid(), threading.get_ident()

    def _legacy(self):
        return random.random(), np.random.random()


class ActWithData(Act):
    inputs = ["data"]

    def compute(self, data):
        return super().compute()


def _divide(a: int, b: int) -> float:
    return a / b


class After(Task):
    inputs = ["x"]
    outputs = ["y"]

    def compute(self, x):
        return {"y": x}


class Fill(Task):
    outputs = ["data"]

    def __init__(self, nbytes: int) -> None:
        super().__init__()
        self.nbytes = nbytes

    def compute(self):
        return {"data": np.ones(self.nbytes, dtype=np.uint8)}


class Length(Task):
    inputs = ["data"]
    outputs = ["nbytes"]

    def compute(self, data):
        return {"nbytes": data.nbytes}


class Lengths(Task):
    inputs = ["data"]
    gathers = ["data"]
    outputs = ["nbytes"]

    def compute(self, data):
        return {"nbytes": [one.nbytes for one in data]}


class Parts(Task):
    """Hands out arrays, each longer than the one before, as views of one of them."""

    outputs = ["parts", "count"]
    serializer = OutOfBandPickle()

    def compute(self, cfg):
        whole = dagprofiler.rng().random(cfg.N * 4)
        return {"parts": [whole[: cfg.N * (i + 1)] for i in range(4)], "count": 4}


class Middle(Task):
    inputs = ["part"]
    outputs = ["middle", "ends"]

    def compute(self, part):
        return {"middle": float(np.median(part)), "ends": [float(part[0]), float(part[-1])]}


class Halve(Task):
    inputs = ["end"]
    outputs = ["half"]

    def compute(self, end):
        return {"half": end / 2}


class Gather(Task):
    inputs = ["middle", "half", "count"]
    gathers = ["middle", "half"]
    outputs = ["middles", "halves", "count"]

    def compute(self, middle, half, count):
        return {"middles": middle, "halves": half, "count": count}


def growing(n: int = 100) -> DAG:
    """Return a DAG of one task: a map, a map of it, a merge of both, and a branch behind that."""

    def merge(graph):
        behind = [
            *((one, ["middle"]) for one in graph.tasks("middle")),
            *graph.tasks("half"),
            ("parts", ["count"]),
        ]
        graph.add_task("gather", Gather, after=behind)

    def check(graph):
        graph.add_task("many" if graph["gather"].output("count") > 3 else "few", Last)

    return DAG(
        {"parts": Parts},
        config=Config(N=n),
        rules=[
            map_over("parts", "parts", Middle, name="middle", tags=["any"]),
            map_over("middle", "ends", Halve, name="half", tags=["any"]),
            Rule(complete("any"), merge, reads=["parts"]),
            Rule(after("gather"), check),
        ],
    )


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
        {"bad": Act(how, path), "behind": After, "beside": Act("nothing"), "other": After},
        [("bad", "behind"), ("beside", "other")],
    )
