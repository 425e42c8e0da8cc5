"""Measure how often compare_runs is wrong: about identical DAGs, and about real slowdowns.

``python tests/benchmarks/bench_compare.py [--quick] [--heavy] [--saved] [--pairs N]
[--seed N]``
"""

import os
import random
from time import perf_counter

from harness import either, note, print_rows, spread
from kernels import burners, kernels, milliseconds

from dagprofiler import DAG, Rounds, task
from dagprofiler.experiments import compare_runs

DIFFERENT = ("faster", "slower")
#: Tasks take so many milliseconds, evenly on a logarithmic scale.
SHORTEST_MS, LONGEST_MS = 0.3, 5.0
#: What a task does over and over.
UNITS = kernels(250)


@task(outputs=["x"], gathers=["x"])
def work(x, unit, loops):
    for _ in range(loops):
        UNITS[unit]()
    return {"x": len(x)}


def drawn(draw, unit_ms, tasks, shortest_ms=SHORTEST_MS):
    """Return a function that makes a DAG, one of whose tasks may do a tenth more of its work."""
    does = []
    for _ in range(tasks):
        unit = draw.choice([*UNITS])
        length_ms = shortest_ms * (LONGEST_MS / shortest_ms) ** draw.random()
        # A tenth more of them has to be a whole number too.
        does.append((unit, 10 * max(1, round(length_ms / unit_ms[unit] / 10))))
    edges = [
        (f"task {source}", f"task {target}")
        for target in range(1, tasks)
        for source in draw.sample(range(target), draw.randint(0, min(3, target)))
    ]

    def dag(slowed=None):
        loops = [loops * 11 // 10 if i == slowed else loops for i, (_, loops) in enumerate(does)]
        bound = (work.bind(unit=unit, loops=count) for (unit, _), count in zip(does, loops))
        return DAG({f"task {i}": task for i, task in enumerate(bound)}, edges)

    return dag


def compared(dag, slowed, *, swap, saved):
    """Compare a DAG with itself, or with one of which a task was slowed.

    Their rounds are interleaved, or, `saved`, each profile is taken by itself.
    """
    # Whichever is slower, it is one time the first and one time the second.
    base, new = (dag(slowed), dag()) if swap else (dag(), dag(slowed))
    begun = perf_counter()
    if saved:
        profiles = [dag.run(rounds=Rounds(7, fresh_process=True)) for dag in (base, new)]
        result = profiles[1].compare(profiles[0])
    else:
        both = compare_runs(base, new)
        profiles, result = [both.base, both.new], both.comparison
    seconds = perf_counter() - begun
    tasks, edges = (
        {name: entry["verdict"] for name, entry in result[kind].items()}
        for kind in ("task_times", "edge_times")
    )
    target = f"task {slowed}"
    ratio = result["task_times"].get(target, {"ratio": 1})["ratio"]
    return {
        # How much longer that task takes, as it is said, and whether it is called slower.
        "ratio": 1 / ratio if swap else ratio,
        "found": tasks.get(target) == ("faster" if swap else "slower"),
        # What is called different beside it, and what could not be judged.
        "tasks": [name for name, said in tasks.items() if said in DIFFERENT and name != target],
        "edges": [name for name, said in edges.items() if said in DIFFERENT],
        "whole": result["total_time"]["verdict"] in DIFFERENT,
        "unjudged": [name for name, said in tasks.items() if said == "inconclusive"],
        "rounds": profiles[0].sections["run"]["rounds"],
        "seconds": seconds,
    }


def pairs(*, heavy, saved, pairs, seed):
    """Compare all pairs."""
    n = pairs or either(30, 3)
    unit_ms = {name: milliseconds(unit, 50) for name, unit in UNITS.items()}
    draw = random.Random(seed)
    same, slowed = [], []
    # A burner for every core: together with this program there is one too many, at times.
    with burners(4 if heavy else os.cpu_count() or 1, seed=str(seed)):
        for number in range(n):
            shortest_ms = LONGEST_MS if heavy else SHORTEST_MS
            tasks = 10 if heavy else draw.randint(10, either(30, 10))
            dag = drawn(draw, unit_ms, tasks, shortest_ms)
            how = {"swap": bool(number % 2), "saved": saved}
            same.append(compared(dag, None, **how))
            slowed.append(compared(dag, draw.randrange(tasks), **how))
            note(f"pair {number + 1}: identical {same[-1]}")
            note(f"pair {number + 1}: slowed    {slowed[-1]}")
    both = [*same, *slowed]
    errors = max(1, n // 30)

    def of(pairs, key):
        return f"{sum(bool(pair[key]) for pair in pairs)} of {len(pairs)}"

    found = "one task does 10 % more: pairs in which that was found"
    wrong = "identical DAGs: pairs with any task called different"
    yield wrong, f"at most {errors}", of(same, "tasks")
    yield "… pairs whose total is called different", f"at most {errors}", of(same, "whole")
    yield found, "-" if saved else f"at least {n - errors}", of(slowed, "found")
    ratios = spread([pair["ratio"] for pair in slowed], "{:.3f}")
    yield "… by how much it is said to be slower", "-", ratios
    yield "… pairs with any other task called different", "-", of(slowed, "tasks")
    yield "pairs of both kinds with any edge called different", "-", of(both, "edges")
    yield "tasks that could not be judged", "-", sum(len(pair["unjudged"]) for pair in both)
    yield "rounds of each a pair", "-", spread([pair["rounds"] for pair in both], "{:.0f}")
    seconds = spread([pair["seconds"] for pair in both], "{:.1f}")
    yield "seconds a pair", 20 if heavy else "-", seconds


if __name__ == "__main__":
    options = {"heavy": False, "saved": False, "pairs": None, "seed": 1}
    print_rows(__doc__, [pairs], **options)
