"""Measure what it costs to run tasks in processes.

``python tests/benchmarks/bench_executors.py [--quick] [--only ROW]``
"""

from concurrent.futures import ProcessPoolExecutor
from statistics import median

from harness import NONE, in_turns, over, print_rows, run_where_installed, spread, timed, times, us

if __name__ == "__main__":
    run_where_installed()

from dagprofiler import DAG, Rounds, Task
from dagprofiler.executors import jobs

WORKERS = 2


class Nothing(Task):
    outputs = ["x"]

    def compute(self):
        return {"x": None}


class Takes(Task):
    inputs = ["x"]
    outputs = ["y"]

    def compute(self, x):
        return {"y": x}


class Spin(Task):
    """Pure Python: `steps` rounds of a loop."""

    outputs = ["x"]

    def __init__(self, steps):
        super().__init__()
        self.steps = steps

    def compute(self):
        return {"x": spin(self.steps)}


class Array(Task):
    outputs = ["data"]

    def __init__(self, nbytes):
        super().__init__()
        self.nbytes = nbytes

    def compute(self):
        import numpy as np

        return {"data": np.ones(self.nbytes // 8)}


class Sum(Task):
    inputs = ["data"]
    outputs = ["sum"]
    gathers = ["data"]

    def compute(self, data):
        return {"sum": sum(float(array[::512].sum()) for array in data)}


def spin(steps):
    total = 0
    for i in range(steps):
        total += i * i % 7
    return total


def nothing():
    return None


def steps_for(seconds):
    """Return how many steps of spin() take so long on this machine when it is idle."""
    count = 200_000
    took = min(timed(lambda: spin(count)) for _ in range(5))
    return round(count * seconds / took)


def pairs_of(count, first, second):
    """Return a DAG of `count` edges, each between two tasks of its own."""
    names = [(f"a{i:03}", f"b{i:03}") for i in range(count)]
    tasks = {name: task for pair in names for name, task in zip(pair, (first, second))}
    return DAG(tasks, names)


def independent(*, quick):
    """Return eight tasks of pure Python, how many steps each takes, and what they are called."""
    seconds = 0.05 if quick else 0.2
    steps = steps_for(seconds)
    name = f"8 independent tasks of {seconds * 1e3:.0f} ms pure Python, {WORKERS} workers"
    return DAG({f"t{i}": Spin(steps) for i in range(8)}), steps, name


def warm_pool():
    """Return a pool whose workers have started and know what tasks need."""
    pool = ProcessPoolExecutor(WORKERS)
    DAG({f"t{i}": Spin(500_000) for i in range(2 * WORKERS)}).run(executor=pool)
    return pool


def speedup(*, quick):
    """Time eight independent tasks on two processes, against a serial run."""
    dag, _, work = independent(quick=quick)
    with warm_pool() as pool:
        serial, ours = in_turns(3 if quick else 7, dag.run, lambda: dag.run(executor=pool))
    yield f"{work}: speed-up over a serial run", "1.9", spread(over(serial, ours))


def submitting(*, quick):
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


def submit_all(pool, count):
    return [pool.submit(nothing) for _ in range(count)]


def fidelity(*, quick):
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


def compute_ms(profile):
    return {one.task: one.compute_time_ms for one in profile.metrics.task_metrics}


def large_values(*, quick):
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


def between(dag, limit, *, quick):
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
