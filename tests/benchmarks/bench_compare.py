"""Measure how often compare_runs is wrong: about identical DAGs, and about real slowdowns.

``python tests/benchmarks/bench_compare.py [--quick] [--heavy] [--saved] [--pairs N]
[--seed N]``
"""

from __future__ import annotations

import json
import os
import random
from time import perf_counter
from typing import Any, Callable, NamedTuple

from harness import NONE, note, print_rows, run_where_installed, spread, timed

if __name__ == "__main__":
    run_where_installed()

import numpy as np
from bench_fidelity import burners

from dagprofiler import DAG, Rounds, Task
from dagprofiler.experiments import compare_runs

DIFFERENT = ("faster", "slower")
#: Tasks take so many milliseconds, evenly on a logarithmic scale.
SHORTEST_MS, LONGEST_MS = 0.3, 5.0

ROW = np.linspace(0.0, 1.0, 10_000)
SUMS = np.empty_like(ROW)
MATRIX = np.full((48, 48), 0.5)
WORDS = [str(i * 7919 % 10_007) for i in range(100)]
RECORD = {"id": 7, "name": "record", "tags": ["a", "b", "c"], "scores": [i / 7 for i in range(10)]}


# -- units of work: a task does one of them over and over ----------------------------------


def arithmetic():
    total = 0
    for i in range(250):
        total += i * i % 7
    return total


def vectors():
    np.multiply(ROW, ROW, out=SUMS)
    np.add(ROW, SUMS, out=SUMS)


UNITS = (
    arithmetic,
    vectors,
    lambda: {word: position for position, word in enumerate(WORDS)},
    lambda: sorted(WORDS),
    lambda: "-".join(word[::-1].upper() for word in WORDS),
    lambda: json.loads(json.dumps(RECORD)),
    lambda: (MATRIX @ MATRIX, MATRIX @ MATRIX),
    lambda: [np.ones(1_000) for _ in range(10)],
    lambda: [[i] * 10 for i in range(100)],
)


class Work(Task):
    inputs = ["x"]
    outputs = ["x"]
    gathers = ["x"]

    def __init__(self, unit, loops):
        super().__init__()
        # Lambdas cannot travel to a fresh process.
        self.unit = UNITS.index(unit)
        self.loops = loops

    def compute(self, x):
        unit = UNITS[self.unit]
        for _ in range(self.loops):
            unit()
        return {"x": len(x)}


def milliseconds(unit):
    """Return how long a unit takes, at best."""

    def fifty():
        for _ in range(50):
            unit()

    return min(timed(fifty) for _ in range(20)) * 1e3 / 50


class Shape(NamedTuple):
    """Of a DAG: what its tasks do, and its edges."""

    work: list[tuple[Callable[[], Any], int]]
    edges: list[tuple[str, str]]

    @classmethod
    def draw(cls, draw, unit_ms, tasks, shortest_ms=SHORTEST_MS):
        work = []
        for _ in range(tasks):
            unit = draw.choice(UNITS)
            length_ms = shortest_ms * (LONGEST_MS / shortest_ms) ** draw.random()
            # A tenth more of them has to be a whole number too.
            work.append((unit, 10 * max(1, round(length_ms / unit_ms[unit] / 10))))
        edges = [
            (f"task {source}", f"task {target}")
            for target in range(1, tasks)
            for source in draw.sample(range(target), draw.randint(0, min(3, target)))
        ]
        return cls(work, edges)

    def dag(self, slowed=None):
        """Return such a DAG; one task may do a tenth more of its work."""
        tasks = {
            f"task {i}": Work(unit, loops * 11 // 10 if i == slowed else loops)
            for i, (unit, loops) in enumerate(self.work)
        }
        return DAG(tasks, self.edges)


# -- pairs ---------------------------------------------------------------------------------


class Pair(NamedTuple):
    """What came of comparing two DAGs.

    `ratio` is how much longer the slowed task is said to take, None if none was slowed; the
    lists hold what was called different beside it, and what could not be judged.
    """

    found: bool
    ratio: float | None
    tasks: list[str]
    edges: list[str]
    unjudged: list[str]
    rounds: int
    seconds: float


def compared(shape, slowed, *, swap, saved):
    """Compare a DAG with itself, or with one of which a task was slowed.

    Their rounds are interleaved, or, `saved`, each profile is taken by itself.
    """
    plain, other = shape.dag(), shape.dag(slowed)
    begun = perf_counter()
    # Whichever is slower, it is one time the first and one time the second.
    base, new = (other, plain) if swap else (plain, other)
    if saved:
        profiles = [dag.run(rounds=Rounds(7, fresh_process=True)) for dag in (base, new)]
        result = profiles[1].compare(profiles[0])
    else:
        both = compare_runs(base, new)
        profiles, result = [both.base, both.new], both.comparison
    seconds = perf_counter() - begun
    target = None if slowed is None else f"task {slowed}"
    said = {name: entry["verdict"] for name, entry in result["task_times"].items()}
    ratio = None
    if target is not None:
        ratio = result["task_times"][target]["ratio"]
        ratio = 1 / ratio if swap else ratio
    return Pair(
        target is not None and said[target] == ("faster" if swap else "slower"),
        ratio,
        [name for name, verdict in said.items() if verdict in DIFFERENT and name != target],
        [name for name, edge in result["edge_times"].items() if edge["verdict"] in DIFFERENT],
        [name for name, verdict in said.items() if verdict == "inconclusive"],
        profiles[0].sections["run"]["rounds"],
        seconds,
    )


def pairs(*, quick, heavy, saved, pairs, seed):
    """Compare all pairs."""
    n = pairs or (3 if quick else 30)
    unit_ms = {unit: milliseconds(unit) for unit in UNITS}
    draw = random.Random(seed)
    same, slowed = [], []
    # A burner for every core: together with this program there is one too many, at times.
    with burners(4 if heavy else os.cpu_count() or 1, seed=str(seed)):
        for number in range(n):
            shortest_ms = LONGEST_MS if heavy else SHORTEST_MS
            tasks = 10 if quick or heavy else draw.randint(10, 30)
            shape = Shape.draw(draw, unit_ms, tasks, shortest_ms)
            swap = bool(number % 2)
            same.append(compared(shape, None, swap=swap, saved=saved))
            slower = draw.randrange(len(shape.work))
            slowed.append(compared(shape, slower, swap=swap, saved=saved))
            note(f"pair {number + 1}: identical {same[-1]}")
            note(f"pair {number + 1}: slowed    {slowed[-1]}")
    both = [*same, *slowed]
    errors = max(1, n // 30)
    wrong = f"{sum(bool(pair.tasks) for pair in same)} of {n}"
    found = f"{sum(pair.found for pair in slowed)} of {n}"
    others = f"{sum(bool(pair.tasks) for pair in slowed)} of {n}"
    edges = f"{sum(bool(pair.edges) for pair in both)} of {len(both)}"
    ratios = [pair.ratio for pair in slowed]
    yield "identical DAGs: pairs with any task called different", f"at most {errors}", wrong
    wanted = NONE if saved else f"at least {n - errors}"
    yield "one task does 10 % more: pairs in which that was found", wanted, found
    yield "… by how much it is said to be slower", NONE, spread(ratios, "{:.3f}")
    yield "… pairs with any other task called different", NONE, others
    yield "pairs of both kinds with any edge called different", NONE, edges
    yield "tasks that could not be judged", NONE, sum(len(pair.unjudged) for pair in both)
    yield "rounds of each a pair", NONE, spread([pair.rounds for pair in both], "{:.0f}")
    yield "seconds a pair", NONE, spread([pair.seconds for pair in both], "{:.1f}")


if __name__ == "__main__":
    using = [f"numpy {np.__version__}"]
    head = "what | goal | measured"
    print_rows(__doc__, {"pairs": pairs}, head, using, heavy=False, saved=False, pairs=None, seed=1)
