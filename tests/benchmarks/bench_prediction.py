"""How far predictions are off: ``python tests/benchmarks/bench_prediction.py [PART ...]``.

Parts: ``forms`` (cost models of synthetic functions with 5 % noise), ``size`` (how long a
simulation takes), ``structure`` (tasks that sleep), ``makespan`` (six applications on two
processes, from a profile taken in this process and from one taken on the workers), ``faster``
(one class of tasks made twice as fast for real), ``schedules`` (random schedules followed
exactly on two processes). The last four need a machine that does nothing else: the pressure on its
processors is printed.
"""

from __future__ import annotations

import random
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from math import log2
from statistics import mean, median

import numpy as np

from dagprofiler import DAG, Rounds, Task, calibrate_engine, simulate
from dagprofiler.predict._normal_form import fit_points


class Work(Task):
    """Computes for about `ms`, in numpy or in pure Python, on what its predecessors sent."""

    outputs = ["x"]
    gathers = ["x"]

    def __init__(self, ms, kind="python", size=1000, faster=1.0):
        super().__init__()
        self.loops, self.kind, self.size = ms / faster, kind, size

    def compute(self, x):
        if self.kind == "sleep":
            time.sleep(self.loops / 1e3)
        elif self.kind == "python":
            total = 0
            for i in range(int(self.loops * 15_000)):
                total += i % 7
        elif self.kind == "sort":
            array = np.arange(20_000)[::-1] * 7919 % 20_011
            for _ in range(int(self.loops * 1.2) + 1):
                np.sort(array)
        else:
            array = np.ones(200_000)
            for _ in range(int(self.loops * 4) + 1):
                array = array * 1.0001 + 0.5
        return {"x": np.zeros(self.size)}


def fan(faster):
    kinds = ["python", "numpy"]
    tasks = {"split": Work(5, "numpy", 200_000)}
    tasks.update(
        {f"map_{i}": Work(10, kinds[i % 2], 1000, faster.get("map", 1)) for i in range(24)}
    )
    tasks["join"] = Work(10, "python", 10, faster.get("join", 1))
    maps = [name for name in tasks if name.startswith("map")]
    return tasks, [*(("split", m) for m in maps), *((m, "join") for m in maps)]


def chains(faster):
    tasks, edges = {}, []
    for c in range(3):
        for i in range(10):
            kind = "python" if i % 2 else "sort"
            tasks[f"{'ab'[i % 2]}{c}_{i}"] = Work(
                4 + 3 * c, kind, 20_000, faster.get("ab"[i % 2], 1)
            )
            if i:
                edges.append((f"{'ab'[(i - 1) % 2]}{c}_{i - 1}", f"{'ab'[i % 2]}{c}_{i}"))
    return tasks, edges


def tree(faster):
    tasks = {
        f"leaf_{i}": Work(6 + i % 5, "numpy", 50_000, faster.get("leaf", 1)) for i in range(32)
    }
    edges, row, level = [], [*tasks], 0
    while len(row) > 1:
        level += 1
        after = []
        for i in range(0, len(row), 2):
            name = f"merge_{level}_{i // 2}"
            tasks[name] = Work(8, "sort", 50_000, faster.get("merge_*", 1))
            edges += [(row[i], name), (row[i + 1], name)]
            after.append(name)
        row = after
    return tasks, edges


def stencil(faster):
    tasks, edges = {}, []
    for step in range(8):
        for i in range(6):
            tasks[f"cell_{step}_{i}"] = Work(
                3 + (i * step) % 7, "python", 5000, faster.get("cell", 1)
            )
            edges += [
                (f"cell_{step - 1}_{j}", f"cell_{step}_{i}")
                for j in (i - 1, i, i + 1)
                if step and 0 <= j < 6
            ]
    return tasks, edges


def uneven(faster):
    tasks = {"read": Work(3, "numpy", 100_000)}
    tasks.update(
        {f"fit_{i}": Work(5 * 1.25**i, "python", 100, faster.get("fit", 1)) for i in range(14)}
    )
    tasks["best"] = Work(2, "python", 10)
    fits = [name for name in tasks if name.startswith("fit")]
    return tasks, [*(("read", f) for f in fits), *((f, "best") for f in fits)]


def mixed(faster):
    chance = random.Random(7)
    names = [f"{'pq'[i % 2]}_{i}" for i in range(60)]
    tasks = {
        name: Work(
            chance.choice([2, 5, 10, 25]),
            chance.choice(["python", "numpy", "sort"]),
            chance.choice([100, 10_000, 80_000]),
            faster.get(name[0], 1),
        )
        for name in names
    }
    edges = {(names[j], names[i]) for i in range(5, 60) for j in chance.sample(range(i - 5, i), 2)}
    return tasks, sorted(edges)


APPLICATIONS = [fan, chains, tree, stencil, uneven, mixed]


def dag_of(application, faster=None, kind=None):
    tasks, edges = application(faster or {})
    if kind is not None:
        for task in tasks.values():
            task.kind, task.size = kind, 10
    return DAG(tasks, edges)


def pressure():
    with open("/proc/pressure/cpu", encoding="ascii") as file:
        return file.readline().split()[1]


def real_ms(dag, **options):
    """The median of plain runs: in rounds, workers also collect garbage around each task."""
    return median(dag.run(**options).metrics.total_time_ms for _ in range(5))


def report(what, errors):
    print(
        f"{what}: mean {mean(map(abs, errors)):.1%}, max {max(map(abs, errors)):.1%}, "
        f"{len(errors)} cases, {pressure()}"
    )


def forms():
    chance = np.random.default_rng(0)
    shapes = [
        lambda n: n,
        lambda n: n * log2(n),
        lambda n: n**2,
        lambda n: n**1.5,
        lambda n: n**0.5,
        lambda n: n**3,
        log2,
    ]
    errors, held = {4: [], 16: []}, []
    for _ in range(40):
        for shape in shapes:
            base, scale = float(chance.choice([16, 100, 1000])), 10 ** chance.uniform(-1, 1)
            sizes = [base * 2**k for k in range(6)]
            fixed = chance.choice([0, 0.3, 1]) * scale * shape(sizes[1])
            rounds = [
                (fixed + scale * shape(n)) * (1 + 0.05 * chance.standard_normal(5)) for n in sizes
            ]
            found = fit_points([[n] for n in sizes], [*map(np.median, rounds)], 0.03)
            for times, several in errors.items():
                n = times * sizes[-1]
                truth = fixed + scale * shape(n)
                several.append(abs(found.form([n]) / truth - 1))
                low, high = found.interval([n])
                held.append(bool(low <= truth <= high))
    for times, several in errors.items():
        p90 = np.quantile(several, 0.9)
        print(f"forms, {times} times beyond: median {median(several):.1%}, p90 {p90:.1%}")
    print(f"forms: 95 % intervals hold the truth in {mean(held):.0%} of {len(held)}")


def size():
    from dagprofiler.graph.edges import rows_of
    from dagprofiler.graph.replay import Demands, EngineCosts, replay

    chance = random.Random(1)
    for count in (1000, 10_000, 100_000):
        edges = sorted(
            {
                s * count + t
                for t in range(2, count)
                for s in chance.sample(range(max(0, t - 300), t), 2)
            }
        )
        work = [chance.uniform(1, 20) for _ in range(count)]
        costs = EngineCosts(0.6, 0.4, 0.2, 8, (1, 1.1, 1.2))
        graph = rows_of(edges, count)
        begun = time.perf_counter()
        replay(*graph, Demands(work), [1.0] * 8, costs)
        print(f"size: {count:,} tasks in {time.perf_counter() - begun:.2f} s")


def structure(pool, engine):
    errors = []
    for application in APPLICATIONS:
        dag = dag_of(application, kind="sleep")
        profile = dag.run(rounds=Rounds(3))
        found = simulate(profile, engine=engine)
        real = real_ms(dag, executor=pool)
        errors.append(found.makespan_ms / real - 1)
    report("structure, two processes", errors)


def makespan(pool, engine):
    errors = {"in this process": [], "on the workers": []}
    held = []
    for application in APPLICATIONS:
        dag = dag_of(application)
        before = {
            "in this process": dag.run(rounds=Rounds(5)),
            "on the workers": dag.run(executor=pool, rounds=Rounds(5)),
        }
        real, compared = real_ms(dag, executor=pool), dag.run(executor=pool)
        for where, profile in before.items():
            found = simulate(profile, engine=engine)
            errors[where].append(found.makespan_ms / real - 1)
            low, high = found.interval_ms
            held.append(low <= real <= high)
            parts = compared.compare(found.profile).get("prediction", {}).get("parts", {})
            shares = ", ".join(f"{name} {part['error']:+.1%}" for name, part in parts.items())
            print(f"  {application.__name__}, {where}: {errors[where][-1]:+.1%} ({shares})")
    for where, several in errors.items():
        report(f"makespan, two processes, profile taken {where}", several)
    print(f"makespan: 95 % intervals hold the real one in {sum(held)} of {len(held)}")


def faster(pool, engine):
    points = []
    for application, name in [
        *((fan, "map"), (fan, "join"), (chains, "a"), (tree, "leaf"), (stencil, "cell")),
        *((uneven, "fit"), (mixed, "p")),
    ]:
        plain, quick = dag_of(application), dag_of(application, {name: 2})
        before = plain.run(executor=pool, rounds=Rounds(5))
        again = real_ms(plain, executor=pool)
        real = 1 - real_ms(quick, executor=pool) / again
        guess = simulate(before, engine=engine)
        wanted = {task: 2.0 for task in plain.tasks if task.startswith(name)}
        gain = 1 - simulate(before, engine=engine, faster=wanted).makespan_ms / guess.makespan_ms
        points.append(gain - real)
    report("twice as fast, in points of the makespan", points)


def schedules(engine):
    errors, chance = [], random.Random(3)
    with ProcessPoolExecutor(1) as one, ProcessPoolExecutor(1) as two:
        pools = {"one": one, "two": two}
        for application in APPLICATIONS:
            dag = dag_of(application)
            profile = dag.run(rounds=Rounds(5))
            order = profile.dag_structure["execution_order"]
            for _ in range(2):
                plan = {"one": [], "two": []}
                for name in order:
                    plan[chance.choice(["one", "two"])].append(name)
                found = simulate(profile, schedule=plan, engine=engine)
                real = real_ms(dag, executor=pools, schedule=plan)
                errors.append(found.makespan_ms / real - 1)
    report("schedules followed exactly", errors)


def main(parts):
    if "forms" in parts:
        forms()
    if "size" in parts:
        size()
    busy = [part for part in ("structure", "makespan", "faster", "schedules") if part in parts]
    if busy:
        with ProcessPoolExecutor(2) as pool:
            engine = calibrate_engine(pool)
            print(engine)
            for part in busy:
                if part == "schedules":
                    schedules(engine)
                else:
                    globals()[part](pool, engine)


if __name__ == "__main__":
    main(sys.argv[1:] or ["forms", "size", "structure", "makespan", "faster", "schedules"])
