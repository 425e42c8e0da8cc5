"""A user's program, of which mypy --strict and pyright have nothing to say; it is not run."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import dagprofiler
from dagprofiler import (
    DAG,
    ORDER_ONLY,
    Config,
    DAGMetrics,
    Journal,
    Profile,
    Progress,
    Rounds,
    RunError,
    Task,
    analyze,
    compare_runs,
    fit,
    simulate,
    sweep,
    task,
)
from dagprofiler.decorators import dag


class NoInput(Task):
    outputs = ["x"]

    def compute(self) -> dict[str, int]:
        return {"x": 1}


class OptionalConfig(Task):
    inputs = ["x"]
    outputs = ["y"]

    def compute(self, x: int, cfg: Config | None = None) -> Mapping[str, float]:
        return {"y": x / 2}

    @staticmethod
    def estimate_instructions(cfg: Config) -> float | None:
        return None


class KeywordOnly(Task):
    inputs = ["x", "y"]

    def compute(self, *, x: int, y: str = "", **rest: object) -> dict[str, object]:
        return {}


class Static(Task):
    @staticmethod
    def compute(x: bytes) -> dict[str, bytes]:
        return {}

    @staticmethod
    def serialize(data: Any) -> bytes:
        return bytes(data)

    @staticmethod
    def deserialize(data: Any) -> bytes:
        return bytes(data)


@task(inputs=["y"], outputs=["z"], estimate_fn=lambda cfg: cfg.N * 10)
def decorated(y: float, cfg: Config) -> dict[str, float]:
    return {"z": y}


made: DAG = DAG(
    tasks={"a": NoInput(), "b": OptionalConfig, "c": decorated()},
    edges=[("a", "b"), ("b", "c", ["y"]), ("a", "c", {"x": "w"})],
    config=Config(N=1),
)
profile: Profile = dag(tasks=[NoInput, decorated], config=Config(N=1)).run(seed=1)
metrics: DAGMetrics = profile.metrics
weights: dict[str, int] = metrics.node_weights


@task(outputs=["x"], config_deps=["n"])
def make(cfg: Config) -> dict[str, Any]:
    return {"x": [1] * cfg.n}


@task(inputs=["x"], outputs=["s"])
def total(x: list[int]) -> dict[str, Any]:
    return {"s": sum(x)}


graph = DAG({"make": make, "total": total}, [("make", "total")], {"n": 10})
ordered = DAG({"make": make, "total": total}, [("make", "total", ORDER_ONLY)])
try:
    measured = graph.run(rounds=Rounds(3), hooks=[Progress()])
except RunError as error:
    print(error.profile)
    raise
with ThreadPoolExecutor(2) as pool:
    graph.run(rounds=3, executor=pool)
graph.run(hooks=[Journal("j")])
path: str = measured.save("p.json")
again: Profile = Profile.load(path, max_unpacked_bytes=2**20)
measured.export("p.mmd")
measured.report("p.html")
print(analyze(again), again.weights(), simulate(again, workers=2))
print(compare_runs(graph, {"n": 20}, rounds=3))
profiles = sweep(graph, over={"n": [1, 2, 3, 4]})
print(fit(profiles).predict({"n": 9}))
print(again.run, again.samples.of("make", "wall_ms"), again["make"], dagprofiler.__version__)
