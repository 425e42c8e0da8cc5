"""Tasks that workers of engines import, and the DAG that is to come out alike on all of them."""

from __future__ import annotations

import os
import signal
import time

import dagprofiler
from dagprofiler import DAG, Config, Task, task


@task(inputs=["scale"], outputs=["points", "unused"])
def draw(scale, cfg):
    return {"points": dagprofiler.rng().random((cfg.N, 2)) * scale, "unused": bytes(cfg.N)}


@task(inputs=["points"], outputs=["inside"])
def count(points):
    return {"inside": int(((points**2).sum(axis=1) < 1).sum())}


class Gather(Task):
    inputs = ["inside"]
    outputs = ["pi"]
    gathers = ["inside"]

    def compute(self, inside, cfg):
        return {"pi": 4 * sum(inside) / (len(inside) * cfg.N)}


@task(inputs=[], outputs=["done"])
def after():
    return {"done": True}


def monte_carlo(n=100, parts=4):
    """A DAG with all that edges can be, and what it is run with."""
    dag = DAG(
        {
            **{f"draw{i}": draw for i in range(parts)},
            **{f"count{i}": count for i in range(parts)},
            "gather": Gather,
            "after": after,
        },
        [
            *((f"draw{i}", f"count{i}") for i in range(parts)),
            *((f"count{i}", "gather") for i in range(parts)),
            ("gather", "after", []),
        ],
        Config(N=n),
    )
    inputs = {f"draw{i}": {"scale": 1.0} for i in range(parts)}
    return dag, {"seed": 7, "inputs": inputs, "keep": ["count0"]}


@task(inputs=[], outputs=["x"])
def exits():
    os._exit(3)


@task(inputs=[], outputs=["x"])
def is_killed():
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


@task(inputs=[], outputs=["x"])
def kills_its_parent(cfg):
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(cfg.S)
    return {"x": 1}


@task(inputs=[], outputs=["x"])
def tells_and_sleeps(cfg):
    with open(cfg.started, "w") as file:
        file.write(str(os.getppid()))
    time.sleep(cfg.S)
    return {"x": 1}


@task(inputs=[], outputs=["x"])
def noop():
    return {"x": None}


@task(inputs=[], outputs=["x"])
def raises():
    raise ValueError("no such cell")
