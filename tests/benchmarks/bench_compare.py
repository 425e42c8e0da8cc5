"""Measure how often compare_runs is wrong: about identical DAGs, and about real slowdowns.

``python tests/benchmarks/bench_compare.py [--quick] [--heavy] [--pairs N] [--seed N]``

Needs nothing but Python and pip. Prints a Markdown table; README.md beside this file says
how to read it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
from time import perf_counter
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

from bench_core import NONE, note, processor, run_where_installed, spread

if __name__ == "__main__":
    run_where_installed()

import numpy as np
from bench_fidelity import burners

from dagprofiler import DAG, Task
from dagprofiler.experiments import compare_runs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DIFFERENT = ("faster", "slower")
#: Tasks take so many milliseconds, evenly on a logarithmic scale.
SHORTEST_MS, LONGEST_MS = 0.3, 5.0

ROW = np.linspace(0.0, 1.0, 10_000)
SUMS = np.empty_like(ROW)
MATRIX = np.full((48, 48), 0.5)
WORDS = [str(i * 7919 % 10_007) for i in range(100)]
RECORD = {"id": 7, "name": "record", "tags": ["a", "b", "c"], "scores": [i / 7 for i in range(10)]}


# -- units of work: a task does one of them over and over ----------------------------------


def arithmetic() -> int:
    total = 0
    for i in range(250):
        total += i * i % 7
    return total


def vectors() -> None:
    np.multiply(ROW, ROW, out=SUMS)
    np.add(ROW, SUMS, out=SUMS)


UNITS: tuple[Callable[[], Any], ...] = (
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

    def __init__(self, unit: Callable[[], Any], loops: int) -> None:
        super().__init__()
        self.unit = unit
        self.loops = loops

    def compute(self, x: list[int]) -> dict[str, int]:
        unit = self.unit
        for _ in range(self.loops):
            unit()
        return {"x": len(x)}


def milliseconds(unit: Callable[[], Any]) -> float:
    """Return how long a unit takes, at best."""
    fastest = float("inf")
    for _ in range(20):
        begun = perf_counter()
        for _ in range(50):
            unit()
        fastest = min(fastest, perf_counter() - begun)
    return fastest * 1e3 / 50


class Shape(NamedTuple):
    """Of a DAG: what its tasks do, and its edges."""

    work: list[tuple[Callable[[], Any], int]]
    edges: list[tuple[str, str]]

    @classmethod
    def draw(
        cls,
        draw: random.Random,
        unit_ms: Mapping[Callable[[], Any], float],
        tasks: int,
        shortest_ms: float = SHORTEST_MS,
    ) -> Shape:
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

    def dag(self, slowed: int | None = None) -> DAG:
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


def compared(shape: Shape, slowed: int | None, *, swap: bool) -> Pair:
    """Compare a DAG with itself, or with one of which a task was slowed."""
    plain, other = shape.dag(), shape.dag(slowed)
    begun = perf_counter()
    # Whichever is slower, it is one time the first and one time the second.
    base, new = (other, plain) if swap else (plain, other)
    result = compare_runs(base, new)
    seconds = perf_counter() - begun
    target = None if slowed is None else f"task {slowed}"
    said = {name: entry["verdict"] for name, entry in result.task_times.items()}
    ratio = None
    if target is not None:
        ratio = result.task_times[target]["ratio"]
        ratio = 1 / ratio if swap else ratio
    return Pair(
        target is not None and said[target] == ("faster" if swap else "slower"),
        ratio,
        [name for name, verdict in said.items() if verdict in DIFFERENT and name != target],
        [name for name, entry in result.edge_times.items() if entry["verdict"] in DIFFERENT],
        [name for name, verdict in said.items() if verdict == "inconclusive"],
        result.base.sections["run"]["rounds"],
        seconds,
    )


def report(same: Sequence[Pair], slowed: Sequence[Pair]) -> None:
    """Print the table."""
    both = [*same, *slowed]
    n = len(same)
    errors = max(1, n // 30)
    wrong = f"{sum(bool(pair.tasks) for pair in same)} of {n}"
    found = f"{sum(pair.found for pair in slowed)} of {n}"
    others = f"{sum(bool(pair.tasks) for pair in slowed)} of {n}"
    edges = f"{sum(bool(pair.edges) for pair in both)} of {len(both)}"
    ratios = [pair.ratio for pair in slowed if pair.ratio is not None]
    rows = [
        ("identical DAGs: pairs with any task called different", f"at most {errors}", wrong),
        ("one task does 10 % more: pairs in which that was found", f"at least {n - errors}", found),
        ("… by how much it is said to be slower", NONE, spread(ratios, "{:.3f}")),
        ("… pairs with any other task called different", NONE, others),
        ("pairs of both kinds with any edge called different", NONE, edges),
        ("tasks that could not be judged", NONE, sum(len(pair.unjudged) for pair in both)),
        ("rounds of each a pair", NONE, spread([pair.rounds for pair in both], "{:.0f}")),
        ("seconds a pair", NONE, spread([pair.seconds for pair in both], "{:.1f}")),
    ]
    print("| what | goal | measured |")
    print("|---|---|---|")
    for what, goal, measured in rows:
        print(f"| {what} | {goal} | {measured} |")


def main() -> None:
    """Compare all pairs and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="3 pairs of each kind, 10 tasks each")
    parser.add_argument(
        "--heavy", action="store_true", help="10 tasks of 5 ms, beside four processes"
    )
    parser.add_argument("--pairs", type=int, help="so many of each kind (default: 30)")
    parser.add_argument("--seed", type=int, default=1, help="of the DAGs and of the load")
    options = parser.parse_args()
    pairs = options.pairs or (3 if options.quick else 30)
    print(f"Python {platform.python_version()}, numpy {np.__version__}, seed {options.seed}")
    print(f"on {processor()}, {os.cpu_count()} cores, {platform.platform()}\n", flush=True)
    unit_ms = {unit: milliseconds(unit) for unit in UNITS}
    draw = random.Random(options.seed)
    same, slowed = [], []
    # A burner for every core: together with this program there is one too many, at times.
    with burners(4 if options.heavy else os.cpu_count() or 1, seed=str(options.seed)):
        for number in range(pairs):
            few = options.quick or options.heavy
            shortest_ms = LONGEST_MS if options.heavy else SHORTEST_MS
            shape = Shape.draw(draw, unit_ms, 10 if few else draw.randint(10, 30), shortest_ms)
            swap = bool(number % 2)
            same.append(compared(shape, None, swap=swap))
            slowed.append(compared(shape, draw.randrange(len(shape.work)), swap=swap))
            note(f"pair {number + 1}: identical {same[-1]}")
            note(f"pair {number + 1}: slowed    {slowed[-1]}")
    report(same, slowed)


if __name__ == "__main__":
    main()
