"""How far predictions are off.

``python tests/benchmarks/bench_prediction.py [--all | --quick | [--sleep] PART ...]``

With ``--sleep`` tasks sleep for as long as they would compute, so that figures of executors and
schedules are right on a machine whose speed changes.

Parts, of which ``--quick`` takes ``forms`` and ``size``:

- ``forms``: cost models of simulated times, and whether their intervals hold the real ones;
- ``models``: those of real tasks, at 2, 4 and 16 times the largest size measured;
- ``values``: those of the times to serialize and deserialize values of several kinds, likewise;
- ``size``: how long a simulation takes;
- ``structure``: tasks that sleep, on processes and threads;
- ``makespan``: six applications on two processes, from a profile taken in this process and from
  one taken on the workers; ``loky``, ``threads``, ``dask`` and ``allocator``, which is processes
  with another setting of the allocator than the profile's, likewise;
- ``cores``: eight tasks that multiply matrices on 1 to 4 workers, without an engine and with one;
  ``blas``: the same with a thread of numpy's own on each core;
- ``faster``: one class of tasks made faster for real;
- ``schedules``: six of SAGA's schedulers on two networks, followed exactly. Needs SAGA.

All but ``forms`` and ``size`` need a machine that does nothing else: the pressure on its processors
is printed, and how much longer a loop takes at some moments than at others, as it does where cores
are shared with other virtual machines: over 1.1, errors are those of the machine. Errors are
predicted against real; real is the median of plain runs.
"""

import os
import pickle
import random
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import product
from math import exp, log2
from multiprocessing import get_context
from statistics import mean, median
from unittest.mock import patch

# Of the matrix products: threads of numpy's own would take the other core, or wait for it.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import numpy as np

from dagprofiler import (
    DAG,
    DaskExecutor,
    ProfileError,
    Rounds,
    Task,
    calibrate_engine,
    fit,
    simulate,
    sweep,
)
from dagprofiler.predict._normal_form import fit_points


class Work(Task):
    """Computes for about `ms`, in numpy or in pure Python, on what its predecessors sent."""

    #: Of this worker, up to 1: tasks sleep for the rest of their time.
    speed = 1.0
    outputs = ["x"]
    gathers = ["x"]

    def __init__(self, ms, kind="python", size=1000):
        super().__init__()
        self.loops, self.kind, self.size = ms, kind, size

    def compute(self, x):
        begun = time.perf_counter()
        outputs = self.work()
        time.sleep((1 / Work.speed - 1) * (time.perf_counter() - begun))
        return outputs

    def work(self):
        if self.kind == "sleep":
            time.sleep(self.loops / 1e3)
        elif self.kind == "python":
            total = 0
            for i in range(int(self.loops * 15_000)):
                total += i % 7
        elif self.kind == "sort":
            array = np.arange(5000)[::-1] * 7919 % 20_011
            for _ in range(round(self.loops * 5)):
                np.sort(array)
        else:
            array = np.ones(200_000)
            for _ in range(round(self.loops * 4)):
                array = array * 1.0001 + 0.5
        return {"x": np.zeros(self.size)}


def between(first, middle, last):
    """Return tasks, and edges from the first to all in the middle, and from these to the last."""
    (begin,), (end,) = first, last
    edges = [*((begin, name) for name in middle), *((name, end) for name in middle)]
    return {**first, **middle, **last}, edges


def fan():
    maps = {f"map_{i}": Work(10, ["python", "numpy"][i % 2]) for i in range(24)}
    return between({"split": Work(5, "numpy", 200_000)}, maps, {"join": Work(10, size=10)})


def chains():
    tasks, edges = {}, []
    for c in range(3):
        names = [f"{'ab'[i % 2]}{c}_{i}" for i in range(10)]
        kinds = {"a": "sort", "b": "python"}
        tasks.update({name: Work(4 + 3 * c, kinds[name[0]], 20_000) for name in names})
        edges += zip(names, names[1:])
    return tasks, edges


def tree():
    tasks = {f"leaf_{i}": Work(6 + i % 5, "numpy", 50_000) for i in range(32)}
    edges, row, level = [], [*tasks], 0
    while len(row) > 1:
        level += 1
        after = [f"merge_{level}_{i}" for i in range(len(row) // 2)]
        tasks.update({name: Work(8, "sort", 50_000) for name in after})
        edges += [(name, after[i // 2]) for i, name in enumerate(row)]
        row = after
    return tasks, edges


def stencil():
    cells = list(product(range(8), range(6)))
    tasks = {f"cell_{step}_{i}": Work(3 + (i * step) % 7, size=5000) for step, i in cells}
    return tasks, [
        (f"cell_{step - 1}_{j}", f"cell_{step}_{i}")
        for step, i in cells
        for j in (i - 1, i, i + 1)
        if step and 0 <= j < 6
    ]


def uneven():
    fits = {f"fit_{i}": Work(5 * 1.25**i, size=100) for i in range(14)}
    return between({"read": Work(3, "numpy", 100_000)}, fits, {"best": Work(2, size=10)})


def mixed():
    chance = random.Random(7)
    names = [f"{'pq'[i % 2]}_{i}" for i in range(60)]
    choices = [2, 5, 10, 25], ["python", "numpy", "sort"], [100, 10_000, 80_000]
    tasks = {name: Work(*map(chance.choice, choices)) for name in names}
    edges = {(names[j], names[i]) for i in range(5, 60) for j in chance.sample(range(i - 5, i), 2)}
    return tasks, sorted(edges)


APPLICATIONS = [fan, chains, tree, stencil, uneven, mixed]


def dag_of(application, faster="", times=1, *, sleeps="--sleep" in sys.argv):
    """Return its DAG; tasks whose names begin with `faster` take so many times less."""
    tasks, edges = application()
    for name, task in tasks.items():
        task.loops /= times if name.startswith(faster) else 1
        task.kind = "sleep" if sleeps else task.kind
    return DAG(tasks, edges)


def pressure():
    with open("/proc/pressure/cpu", encoding="ascii") as file:
        return file.readline().split()[1]


def unsteady():
    """Return how much longer the slow tenth of many equal loops takes than the fast tenth."""
    times = []
    for _ in range(50):
        begun = time.perf_counter()
        sum(i % 7 for i in range(100_000))
        times.append(time.perf_counter() - begun)
        time.sleep(0.02)
    return np.quantile(times, 0.9) / np.quantile(times, 0.1)


def real_ms(dag, times=5, **options):
    return median(dag.run(**options).metrics.total_time_ms for _ in range(times))


def report(what, errors, intervals=(), unit="%"):
    """Print errors, and how many of (low, high, real) are in their intervals, and how wide."""
    values = sorted(100 * abs(error) for error in errors)
    holds = ""
    if intervals:
        held = sum(low <= real <= high for low, high, real in intervals)
        width = median((high - low) / 2 / real for low, high, real in intervals)
        holds = f", intervals hold {held} of {len(intervals)}, half a width {width:.0%}"
    print(
        f"{what}: mean {mean(values):.1f} {unit}, max {values[-1]:.1f} {unit}, "
        f"signed {100 * mean(errors):+.1f} {unit}, {len(values)} cases{holds}, {pressure()}, "
        f"loops take 1 to {unsteady():.2f}",
        flush=True,
    )


SHAPES = {
    "n": lambda n: n,
    "n log n": lambda n: n * log2(n),
    "n^2": lambda n: n**2,
    "n^1.5": lambda n: n**1.5,
    "n^0.5": lambda n: n**0.5,
    "n^3": lambda n: n**3,
    "log n": log2,
}


def known_functions(chance):
    base, scale = float(chance.choice([16, 100, 1000])), 10 ** chance.uniform(-1, 1)
    sizes = [base * 2**k for k in range(6)]
    shape = SHAPES[chance.choice([*SHAPES])]
    fixed = chance.choice([0, 0.3, 1]) * scale * shape(sizes[1])
    return sizes, 0.05, lambda n: fixed + scale * shape(n)


def five_sizes(chance):
    sizes = [400.0, 560.0, 800.0, 1120.0, 1600.0]
    shape, scale = SHAPES[chance.choice([*SHAPES][:4])], 10 ** chance.uniform(-1, 1)
    fixed = chance.choice([0, 0.1, 0.3]) * scale * shape(sizes[1])
    return sizes, 0.04, lambda n: fixed + scale * shape(n)


def two_powers(chance):
    sizes, share = [400 * 2 ** (k / 2) for k in range(6)], chance.uniform(0.1, 0.9)
    f, g = [(SHAPES[a], SHAPES["n^2"]) for a in ("n", "n log n")][chance.integers(2)]
    middle = sizes[3]
    return sizes, 0.03, lambda n: share * f(n) / f(middle) + (1 - share) * g(n) / g(middle)


def saturating(chance):
    level = chance.choice([500, 1500, 5000])
    return [64.0 * 2**k for k in range(11)], 0.02, lambda n: 5e3 * (1 - exp(-n / level))


def slower_from(chance):
    start, factor, power = (
        chance.choice([3000, 6000]),
        chance.uniform(1.2, 2.5),
        chance.choice([1, 2]),
    )
    sizes = [1000.0 * 2**k for k in range(6)]
    return sizes, 0.03, lambda n: n**power * (factor if n > start else 1)


#: What is simulated, how many times beyond the largest size, and how.
ROWS = [
    ("known functions, 5 % noise", (4, 16), known_functions),
    ("five sizes, 4 % noise", (2, 4, 16), five_sizes),
    ("two powers, 3 % noise", (4, 16), two_powers),
    ("saturates smoothly, 2 % noise", (4,), saturating),
    ("slower from a size on, 3 % noise", (4, 16), slower_from),
]


def forms(draws=150):
    """Print how far off cost models of simulated times are, and whether their intervals hold."""
    head = "mean      p90    worst    holds    half a width: median, p90"
    print(f"{'forms':<34} {'beyond':>6} {head}")
    for row, far, draw in ROWS:
        chance, cases = np.random.default_rng(0), {times: [] for times in far}
        for _ in range(draws):
            sizes, noise, cost = draw(chance)
            rounds = [cost(n) * (1 + noise * chance.standard_normal(5)) for n in sizes]
            found = fit_points([(n,) for n in sizes], [float(np.median(r)) for r in rounds], 0.03)
            for times, rows in cases.items():
                n = times * sizes[-1]
                # Of five rounds, too.
                real = float(np.median(cost(n) * (1 + noise * chance.standard_normal(5))))
                low, high = found.interval((n,))
                off = abs(found.form((n,)) / real - 1)
                rows.append((off, low <= real <= high, (high - low) / 2 / real))
        for times, rows in cases.items():
            off, holds, widths = (np.array(column, float) for column in zip(*rows))
            print(
                f"{row:<34} {times:5} x {mean(off):6.1%} {np.quantile(off, 0.9):7.1%} "
                f"{max(off):8.0%} {mean(holds):8.0%} {median(widths):12.1%} "
                f"{np.quantile(widths, 0.9):8.0%}"
            )
    chance = np.random.default_rng(0)
    for words, least in ((3000, 400), (3000, 2000), (30_000, 4000)):
        sizes = [least * 2**k for k in range(5)]
        values = [merged_bytes(chance, n, words) for n in sizes]
        found = fit_points([(float(n),) for n in sizes], values, 0.0)
        ends = [times * sizes[-1] for times in (2, 4, 16)]
        off = [found.form((float(n),)) / merged_bytes(chance, n, words) - 1 for n in ends]
        of = f"{sizes[0]:,} to {sizes[-1]:,} of {words:,} words"
        print(
            f"bytes of merged dictionaries, {of}, 2, 4 and 16 times beyond: "
            f"{', '.join(f'{each:+.2%}' for each in off)}; {found.error:.2%} off the measured ones"
        )


def merged_bytes(chance, count, words):
    return float(len(pickle.dumps(dict(Counter(chance.integers(0, words, count).tolist())))))


class Sized(Task):
    """Takes time that is linear, quadratic, cubic and so on in the parameters."""

    outputs = ["x"]

    def __init__(self, kind):
        super().__init__()
        self.kind = kind

    def compute(self, cfg):
        chance = np.random.default_rng(1)
        n, m = int(cfg.N), int(cfg.M)
        if self.kind == "sort":
            return {"x": np.sort(chance.random(50 * n))}
        if self.kind == "loop":
            return {"x": [i % 7 for i in range(20 * n * m)][: n // 2]}
        if self.kind == "pairs":
            small = n // 10
            return {"x": float(sum(i < j for i in range(small) for j in range(small)))}
        if self.kind == "matrix":
            square = chance.random((n // 10, n // 10))
            for _ in range(3):
                product = square @ square
            return {"x": product}
        if self.kind == "words":
            words, counts = chance.integers(0, 3000, 20 * n).tolist(), {}
            for word in words:
                counts[word] = counts.get(word, 0) + 1
            return {"x": counts}
        image = chance.random((n // 8, n // 8))
        for _ in range(16):
            image[1:-1] = (image[:-2] + image[1:-1] + image[2:]) / 3
        return {"x": image}


def models():
    kinds = ["sort", "loop", "pairs", "matrix", "words", "blur"]
    tasks = {kind: Sized(kind) for kind in kinds} | {f"end_{kind}": Sink() for kind in kinds}
    dag = DAG(tasks, [(kind, f"end_{kind}") for kind in kinds], {"N": 400, "M": 1})
    sizes = {"N": [400, 560, 800, 1120, 1600]}
    check_models("N", dag, sizes, [{"N": 1600 * times} for times in (2, 4, 16)])
    # Three values of each: tasks of 1 to 35 ms, of which what every call costs is a small part.
    over = {"N": [1600, 3200, 6400], "M": [1, 2, 4]}
    check_models("N and M", dag.with_config({"N": 1600, "M": 1}), over, [{"N": 25_600, "M": 16}])


def check_models(what, dag, over, beyond):
    found = fit(sweep(dag, over, rounds=5))
    for values in beyond:
        guess = found.predict(values)
        real = dag.with_config({**dag.config, **values}).run(rounds=Rounds(3, warmup=1))
        ends, errors, intervals = guess.sections["prediction"]["intervals_ms"], {}, []
        times = [{e.task: e.compute_time_ms for e in p.metrics.task_metrics} for p in (guess, real)]
        for name in (name for name in dag.tasks if not name.startswith("end")):
            errors[name] = times[0][name] / times[1][name] - 1
            intervals.append((*ends[name], times[1][name]))
        whole = [sum(one[name] for name in errors) for one in times]
        bits = [guess.metrics.edge_weights, real.metrics.edge_weights]
        off = {edge: bits[0][edge] / bits[1][edge] - 1 for edge in bits[1]}
        total = whole[0] / whole[1] - 1
        report(f"models over {what}, {values}: total {total:+.1%}", errors.values(), intervals)
        print(" ", ", ".join(f"{name} {error:+.1%}" for name, error in errors.items()))
        print("  bytes:", ", ".join(f"{edge} {off_by:+.2%}" for edge, off_by in off.items()))
        sys.stdout.flush()


class Sink(Task):
    """Takes what another task made."""

    inputs = ["x"]
    outputs = ["y"]

    def compute(self, x):
        return {"y": 1}


class Value(Task):
    """Makes a value of N items."""

    outputs = ["x"]
    kinds = {
        "array": lambda n: np.arange(10.0 * n),
        "arrays": lambda n: [np.ones(50) for _ in range(n // 50)],
        "bytes": lambda n: bytes(100 * n),
        "numbers": lambda n: [i + 2**20 for i in range(n)],
        "strings": lambda n: {f"key {i}": f"value {i}" for i in range(n)},
        "records": lambda n: [(f"name {i}", i / 7, i) for i in range(n // 2)],
    }

    def __init__(self, kind):
        super().__init__()
        self.kind = kind

    def compute(self, cfg):
        return {"x": self.kinds[self.kind](int(cfg.N))}


def values():
    tasks = {kind: Value(kind) for kind in Value.kinds} | {f"end_{k}": Sink() for k in Value.kinds}
    dag = DAG(tasks, [(kind, f"end_{kind}") for kind in Value.kinds], {"N": 1000})
    found = fit(sweep(dag, {"N": [1000, 2000, 4000, 8000, 16_000]}, rounds=5))
    for times in (2, 4, 16):
        guess = found.predict({"N": 16_000 * times})
        real = dag.with_config({"N": 16_000 * times}).run(rounds=Rounds(3, warmup=1))
        for phase, names in ("serialize", Value.kinds), ("deserialize", [*tasks][-6:]):
            mine, theirs = (
                {e.task: getattr(e, f"{phase}_time_ms") for e in profile.metrics.task_metrics}
                for profile in (guess, real)
            )
            ends = guess.sections["prediction"][f"{phase}_intervals_ms"]
            intervals = [(*ends[name], theirs[name]) for name in names]
            errors = [mine[name] / theirs[name] - 1 for name in names]
            report(f"time to {phase}, {times} times beyond", errors, intervals)


def size():
    from dagprofiler.graph.edges import Rows
    from dagprofiler.graph.replay import Demands, Overhead, replay

    chance = random.Random(1)
    for count in (1000, 10_000, 100_000):
        before = {t: chance.sample(range(max(0, t - 300), t), 2) for t in range(2, count)}
        edges = sorted({s * count + t for t, sources in before.items() for s in sources})
        work = [chance.uniform(1, 20) for _ in range(count)]
        costs = Overhead(0.6, 0.4, 0.2, worker_ms=0.1, cores=8, contention=(1, 1.1, 1.2))
        graph = Rows(edges, count)
        begun = time.perf_counter()
        replay(graph, Demands(work), [1.0] * 8, costs)
        print(f"size: {count:,} tasks in {time.perf_counter() - begun:.2f} s")


def structure():
    processes = [(count, ProcessPoolExecutor) for count in (2, 4, 8)]
    for count, kind in [*processes, (2, ThreadPoolExecutor), (8, ThreadPoolExecutor)]:
        errors = []
        with kind(count) as executor:
            engine = calibrate_engine(executor)
            for application in APPLICATIONS:
                dag = dag_of(application, sleeps=True)
                found = simulate(dag.run(rounds=Rounds(3)), engine=engine)
                errors.append(found.makespan_ms / real_ms(dag, executor=executor) - 1)
        report(f"structure, {count} workers of a {kind.__name__}", errors)


def makespans(what, executor, profiled):
    """Predict on `executor` from profiles of runs with the options `profiled`, by their name."""
    engine = calibrate_engine(executor)
    print(engine, flush=True)
    errors, singles, intervals = ({where: [] for where in profiled} for _ in range(3))
    for application in APPLICATIONS:
        dag, off = dag_of(application), {where: [] for where in profiled}
        # In turns, so that the machine's slow seconds are in both.
        for _ in range(5):
            before = [dag.run(rounds=Rounds(5), **options) for options in profiled.values()]
            real = dag.run(executor=executor)
            for where, profile in zip(profiled, before):
                error = real.compare(simulate(profile, engine=engine).profile)["prediction"]
                if error["interval_ms"]:
                    intervals[where].append((*error["interval_ms"], error["real_ms"]))
                singles[where].append(abs(error["error"]))
                parts = {"makespan": error, **error["parts"]}.items()
                off[where].append({name: part["error"] for name, part in parts})
        for where, rows in off.items():
            typical = {name: median([row[name] for row in rows]) for name in rows[0]}
            errors[where].append(typical.pop("makespan"))
            shares = ", ".join(f"{name} {part:+.1%}" for name, part in typical.items())
            print(f"  {application.__name__}, {where}: {errors[where][-1]:+.1%} ({shares})")
    for where in profiled:
        row = f"makespan, {what}, profile taken {where}, single runs {mean(singles[where]):.1%}"
        report(row, errors[where], intervals[where])


def makespan():
    with ProcessPoolExecutor(2) as pool:
        makespans(
            "two processes", pool, {"in this process": {}, "on the workers": {"executor": pool}}
        )


def loky():
    from loky import ProcessPoolExecutor as LokyPool

    with LokyPool(2) as pool:
        makespans("loky", pool, {"on the workers": {"executor": pool}})


def threads():
    with ThreadPoolExecutor(2) as pool:
        meters = {"with the meter gil": {"meters": ["default", "gil"]}}
        profiled = {"in this process": {}, **meters, "on the threads": {"executor": pool}}
        makespans("two threads", pool, profiled)


def dask():
    from distributed import Client, LocalCluster

    local = LocalCluster(2, threads_per_worker=1, dashboard_address=None)
    with local as cluster, Client(cluster) as client:
        executor = DaskExecutor(client)
        makespans("Dask with two processes", executor, {"on the workers": {"executor": executor}})


def allocator():
    """Let the workers give memory back as soon as it is freed, as those of Dask do."""
    spawned = ProcessPoolExecutor(2, mp_context=get_context("spawn"))
    with ProcessPoolExecutor(2) as pool, spawned as other:
        with patch.dict(os.environ, {"MALLOC_TRIM_THRESHOLD_": "65536"}):
            dag_of(fan).run(executor=other)
        makespans("another allocator setting", other, {"with the default": {"executor": pool}})


class Products(Task):
    """Multiplies matrices."""

    outputs = ["x"]

    def compute(self):
        square = np.random.default_rng(1).random((400, 400))
        for _ in range(8):
            product = square @ square
        return {"x": product}


def cores():
    dag, rows = DAG({f"task_{i}": Products() for i in range(8)}, []), {}
    forked, spawned = (
        partial(ProcessPoolExecutor, mp_context=get_context(how)) for how in ("fork", "spawn")
    )
    for pool_of, workers in product((ThreadPoolExecutor, forked, spawned), (1, 2, 3, 4)):
        with pool_of(workers) as pool:
            engine = calibrate_engine(pool)
            serial = dag.run(rounds=5)
            there = dag.run(executor=pool, rounds=5)
            real = real_ms(dag, executor=pool)
            cases = {
                "without an engine": simulate(serial, workers=workers),
                "with an engine": simulate(serial, engine=engine),
                "with an engine, from rounds on the workers": simulate(there, engine=engine),
            }
        for how, found in cases.items():
            errors, intervals = rows.setdefault(how, ([], []))
            errors.append(found.makespan_ms / real - 1)
            # Where threads of BLAS wait for each other there is none.
            with suppress(ProfileError):
                intervals.append((*found.interval_ms, real))
    threads = os.environ["OPENBLAS_NUM_THREADS"]
    for how, found in rows.items():
        report(f"eight tasks with {threads} threads of BLAS, {how}", *found)


def blas():
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": str(os.cpu_count())}
    subprocess.run([sys.executable, __file__, "cores"], env=environment, check=True)


def faster():
    points = []
    classes = {
        fan: ["split", "map", "join"],
        chains: ["a", "b"],
        tree: ["leaf", "merge"],
        stencil: ["cell"],
        uneven: ["read", "fit"],
        mixed: ["p", "q"],
    }
    with ProcessPoolExecutor(2) as pool:
        engine = calibrate_engine(pool)
        for application, names in classes.items():
            plain = dag_of(application)
            before = plain.run(executor=pool, rounds=Rounds(5))
            guess = simulate(before, engine=engine).makespan_ms
            for name in names:
                for times in (1.5, 2, 4):
                    quick = dag_of(application, name, times)
                    # In turns, so that the machine's slow minutes are in both.
                    pairs = [
                        [real_ms(dag, 1, executor=pool) for dag in (plain, quick)] for _ in range(5)
                    ]
                    real = 1 - median(after / before for before, after in pairs)
                    wanted = {task: times for task in plain.tasks if task.startswith(name)}
                    found = simulate(before, engine=engine, faster=wanted)
                    points.append(1 - found.makespan_ms / guess - real)
                    print(f"  {application.__name__}, {name} by {times}: {points[-1]:+.1%} off")
    report("one class faster, of the makespan", points, unit="points")


def schedules():
    """In turns: a profile, the simulations and the runs; errors are medians over the turns."""
    from saga import schedulers

    from dagprofiler.formats.saga import from_saga, to_network, to_task_graph

    names = ["Heft", "Cpop", "PEFT", "MinMin", "MaxMin", "Sufferage"]
    errors, best, again, cases = {"in this process": [], "on the workers": []}, [], [], 0
    for speeds in ({"one": 1, "two": 1}, {"one": 0.5, "two": 1}):
        pools = {
            node: ProcessPoolExecutor(1, initializer=setattr, initargs=(Work, "speed", value))
            for node, value in speeds.items()
        }
        engine = calibrate_engine(pools)
        network = to_network({"speeds": speeds, "bandwidth": 1e7})
        for application in APPLICATIONS:
            dag = dag_of(application)
            graph = to_task_graph(dag.run(rounds=Rounds(5)), cost="time")
            plans, sharing = {}, Counter()
            for name in names:
                scheduler = getattr(schedulers, f"{name}Scheduler")()
                plan = from_saga(scheduler.schedule(network, graph))
                plan = {node: plan.get(node, []) for node in speeds}
                # Several schedulers may find the same schedule, which has one makespan.
                sharing[repr(plan)] += 1
                plans[repr(plan)] = plan
            real = {key: [] for key in plans}
            found = {where: {key: [] for key in plans} for where in errors}
            with ProcessPoolExecutor(2) as plain:
                for _ in range(5):
                    for where, executor in zip(errors, (None, plain)):
                        profile = dag.run(executor=executor, rounds=Rounds(3))
                        for key, plan in plans.items():
                            guess = simulate(profile, schedule=plan, speeds=speeds, engine=engine)
                            found[where][key].append(guess.makespan_ms)
                    for key, plan in plans.items():
                        real[key].append(real_ms(dag, 1, executor=pools, schedule=plan))
            for where, guesses in found.items():
                errors[where] += [
                    median(guess / ms for guess, ms in zip(guesses[key], real[key])) - 1
                    for key in sharing.elements()
                ]
            again += [
                median(ms / before for before, ms in zip(real[key], real[key][1:])) - 1
                for key in sharing.elements()
            ]
            typical = {key: median(values) for key, values in real.items()}
            guesses = {key: median(values) for key, values in found["on the workers"].items()}
            best.append(typical[min(guesses, key=guesses.get)] / min(typical.values()) - 1)
            cases += len(plans)
            of_this = {where: f"{mean(values[-6:]):+.1%}" for where, values in errors.items()}
            found_in = f"{application.__name__}, {speeds}: {len(plans)} schedules"
            print(f"  {found_in}, {of_this}", flush=True)
        for pool in pools.values():
            pool.shutdown()
    for where, values in errors.items():
        report(f"schedules followed exactly, {cases} different, profile taken {where}", values)
    report("the runs themselves, each against the one before", again)
    print(f"schedules: best predicted within 3 % of best: {sum(b <= 0.03 for b in best)} of 12")


if __name__ == "__main__":
    parts = [forms, models, values, size, structure, makespan, loky, threads, dask, allocator]
    named = {part.__name__: part for part in [*parts, cores, blas, faster, schedules]}
    quick = ["forms", "size"] if "--quick" in sys.argv else []
    for name in quick or [name for name in sys.argv[1:] if not name.startswith("-")] or named:
        named[name]()
