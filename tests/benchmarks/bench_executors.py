"""Measure what it costs to run tasks in processes.

``python tests/benchmarks/bench_executors.py [--quick] [--only ROW]``

Needs nothing but Python and pip. Prints a Markdown table; README.md beside this file says
how to read it.
"""

from __future__ import annotations

import gc
from concurrent.futures import Executor, ProcessPoolExecutor
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

from bench_core import NONE, print_rows, run_where_installed, spread, times

if __name__ == "__main__":
    run_where_installed()

from dagprofiler import DAG, Rounds, Task
from dagprofiler.executors import jobs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Row = tuple[str, str, str]

WORKERS = 2


class Nothing(Task):
    outputs = ["x"]

    def compute(self) -> dict[str, Any]:
        return {"x": None}


class Takes(Task):
    inputs = ["x"]
    outputs = ["y"]

    def compute(self, x: Any) -> dict[str, Any]:
        return {"y": x}


class Spin(Task):
    """Pure Python: `steps` rounds of a loop."""

    outputs = ["x"]

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps = steps

    def compute(self) -> dict[str, Any]:
        return {"x": spin(self.steps)}


class Array(Task):
    outputs = ["data"]

    def __init__(self, nbytes: int) -> None:
        super().__init__()
        self.nbytes = nbytes

    def compute(self) -> dict[str, Any]:
        import numpy as np

        return {"data": np.ones(self.nbytes // 8)}


class Sum(Task):
    inputs = ["data"]
    outputs = ["sum"]
    gathers = ["data"]

    def compute(self, data: list[Any]) -> dict[str, Any]:
        return {"sum": sum(float(array[::512].sum()) for array in data)}


def spin(steps: int) -> int:
    total = 0
    for i in range(steps):
        total += i * i % 7
    return total


def nothing() -> None:
    return None


def steps_for(seconds: float) -> int:
    """Return how many steps of spin() take so long on this machine when it is idle."""
    count = 200_000
    took = min(timed(lambda: spin(count)) for _ in range(5))
    return round(count * seconds / took)


def timed(work: Callable[[], Any]) -> float:
    begun = perf_counter()
    work()
    return perf_counter() - begun


def in_turns(rounds: int, *works: Callable[[], Any]) -> list[list[float]]:
    """Return how many seconds each of several took, one after the other and again."""
    took: list[list[float]] = [[] for _ in works]
    for _ in range(rounds):
        for work, seconds in zip(works, took):
            gc.collect()
            seconds.append(timed(work))
    return took


def over(above: Iterable[float], below: Iterable[float]) -> list[float]:
    return [a / b for a, b in zip(above, below)]


def us(times_s: Iterable[float], count: int) -> str:
    """Return the microseconds that one of `count` takes."""
    return f"{median(times_s) / count * 1e6:.0f}"


def pairs_of(count: int, first: Any, second: Any) -> DAG:
    """Return a DAG of `count` edges, each between two tasks of its own."""
    names = [(f"a{i:03}", f"b{i:03}") for i in range(count)]
    tasks = {name: task for pair in names for name, task in zip(pair, (first, second))}
    return DAG(tasks, names)


def independent(*, quick: bool) -> tuple[DAG, int, str]:
    """Return eight tasks of pure Python, how many steps each takes, and what they are called."""
    seconds = 0.05 if quick else 0.2
    steps = steps_for(seconds)
    name = f"8 independent tasks of {seconds * 1e3:.0f} ms pure Python, {WORKERS} workers"
    return DAG({f"t{i}": Spin(steps) for i in range(8)}), steps, name


def warm_pool() -> Executor:
    """Return a pool whose workers have started and know what tasks need."""
    pool = ProcessPoolExecutor(WORKERS)
    DAG({f"t{i}": Spin(500_000) for i in range(2 * WORKERS)}).run(executor=pool)
    return pool


def speedup(*, quick: bool) -> Iterable[Row]:
    """Time eight independent tasks on two processes, against a serial run."""
    dag, _, work = independent(quick=quick)
    with warm_pool() as pool:
        serial, ours = in_turns(3 if quick else 7, dag.run, lambda: dag.run(executor=pool))
    yield f"{work}: speed-up over a serial run", "1.9", spread(over(serial, ours))


def submitting(*, quick: bool) -> Iterable[Row]:
    """Time tasks that do nothing, against bare submit() on the same pool."""
    count = 2_000 if quick else 10_000
    dag = DAG({f"t{i:05}": Nothing for i in range(count)})
    with warm_pool() as pool:
        bare, ours = in_turns(
            3 if quick else 9,
            lambda: [future.result() for future in submit_all(pool, count)],
            lambda: dag.run(executor=pool),
        )
    what = f"{count:,} no-op tasks, {WORKERS} processes, against bare submit()"
    yield what, "0.7 x", times(over(ours, bare))
    yield "… a task: bare, and ours", NONE, f"{us(bare, count)} and {us(ours, count)} us"


def submit_all(pool: Executor, count: int) -> list[Any]:
    return [pool.submit(nothing) for _ in range(count)]


def fidelity(*, quick: bool) -> Iterable[Row]:
    """Compare times recorded beside another worker with serial ones beside a busy core."""
    seconds = (0.002, 0.005, 0.01, 0.02)
    dag = DAG({f"t{i}": Spin(steps_for(seconds[i % 4])) for i in range(16)})
    rounds = Rounds(3 if quick else 9, warmup=1)
    busy = Rounds(rounds.n, warmup=1, busy_cores=WORKERS - 1)
    ratios = []
    with warm_pool() as pool:
        for _ in range(3):
            beside = compute_ms(dag.run(rounds=rounds, executor=pool))
            alone = compute_ms(dag.run(rounds=busy))
            ratios += [beside[name] / alone[name] for name in alone]
    yield (
        f"compute times of 16 tasks under {WORKERS} workers, against serial with a busy core",
        "within 10 %",
        f"{spread(ratios)} x",
    )


def compute_ms(profile: Any) -> dict[str, float]:
    return {one.task: one.compute_time_ms for one in profile.metrics.task_metrics}


def large_values(*, quick: bool) -> Iterable[Row]:
    """Time a large value on its way between two processes: in a file, and through the pipe."""
    threshold = jobs.SHARED_FILE_BYTES
    for nbytes in (32 << 10, 64 << 10, 128 << 10, 256 << 10, 1 << 20, 10 << 20, 100 << 20):
        pairs = 2 if nbytes > 50 << 20 else 10
        dag = pairs_of(pairs, Array(nbytes), Sum)
        took = {limit: between(dag, limit, quick=quick) for limit in (1, 1 << 62)}
        ratios = over(took[1], took[1 << 62])
        per_edge = [median(each) / pairs * 1e3 for each in took.values()]
        yield (
            f"{pairs} edges of {nbytes / 2**20:g} MB between processes: in files against the pipe",
            "less" if nbytes >= threshold else NONE,
            f"{spread(ratios)} x; {per_edge[0]:.2f} against {per_edge[1]:.2f} ms an edge",
        )


def between(dag: DAG, limit: int, *, quick: bool) -> list[float]:
    """Return how long runs take whose values of so many bytes and more go through files."""
    before, jobs.SHARED_FILE_BYTES = jobs.SHARED_FILE_BYTES, limit
    try:
        # Processes are forked with it.
        with warm_pool() as pool:
            dag.run(executor=pool)
            return [timed(lambda: dag.run(executor=pool)) for _ in range(3 if quick else 7)]
    finally:
        jobs.SHARED_FILE_BYTES = before


ROWS = {"speedup": speedup, "submit": submitting, "fidelity": fidelity, "large": large_values}


if __name__ == "__main__":
    print_rows(__doc__, ROWS)
