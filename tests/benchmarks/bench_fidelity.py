"""Measure how far the times and the memory that dagprofiler records are from the truth.

``python tests/benchmarks/bench_fidelity.py [--quick] [--only ROW]``
"""

import gc
import json
import pickle
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from statistics import median, quantiles
from time import perf_counter

from harness import NONE, print_rows, run_where_installed, timed

if __name__ == "__main__":
    run_where_installed()

import numpy as np
from contender import Start, Step, make_plan, run_bare

from dagprofiler import DAG, Rounds, Task

METERS = ("wall", "default", "full")
#: The largest error of a recorded time, in percent, by the length of a busy loop in ms.
BUSY_GOALS = {0.1: 1.0, 1: 0.25, 10: 0.1, 100: 0.05}
#: How many tasks of the DAG are such loops.
SPINS = 5
#: What metering a task costs, and may cost.
COST_LINES = {
    "cost a task: wall, six looks at the clock in a bare loop against none": "0.5 µs",
    "cost a task: default meters, over the same rounds without": "5 µs",
    "… as the profile reports it": NONE,
    "cost a task: full meters, over the same rounds without": "40 µs",
    "… as the profile reports them": NONE,
    "cost a task: a clock around each field, rounds without meters over a plain run": NONE,
}
#: How far from the idle time a kernel's time under load may be.
NEAR = 0.1
#: Up to which share of its time spent waiting for a core a task was idle alone.
IDLE = 0.01
SIZES_MB = (10, 100, 500)


# -- a competing load ----------------------------------------------------------------------

#: Computes until its input ends; with a seed, in bursts as long as the pauses between them.
BURN = """
import os, random, sys, threading, time
def end_with_input():
    sys.stdin.buffer.read()
    os._exit(0)
threading.Thread(target=end_with_input, daemon=True).start()
bursts = random.Random(sys.argv[1]) if sys.argv[1] else None
print("burning", flush=True)
while True:
    end = time.perf_counter() + (bursts.expovariate(2) if bursts else 1)
    while time.perf_counter() < end:
        for _ in range(10_000):
            pass
    if bursts:
        time.sleep(bursts.expovariate(2))
"""


@contextmanager
def burners(count, seed=""):
    """Keep processes computing beside this one, wherever the system puts them.

    With a seed each of them comes and goes, half a second at a time in the mean.
    """
    with ExitStack() as ends:
        for number in range(count):
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", BURN, seed and f"{seed}, {number}"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            ends.enter_context(process)
            ends.callback(process.kill)
            process.stdout.readline()
        yield


# -- busy loops ----------------------------------------------------------------------------

#: How long each spin took by its own clock, in seconds.
SPUN = []


def spin(seconds):
    """Do nothing but look at the clock for so long; note how long it was."""
    begun = now = perf_counter()
    end = begun + seconds
    while now < end:
        now = perf_counter()
    SPUN.append(now - begun)


class Spin(Task):
    outputs = ["done"]

    def __init__(self, seconds):
        super().__init__()
        self.seconds = seconds

    def compute(self):
        spin(self.seconds)
        return {"done": True}


def bare_ms(seconds):
    begun = perf_counter()
    spin(seconds)
    return (perf_counter() - begun) * 1e3


def recorded_ms(dag, meters):
    """Return what is recorded of each spin: in a plain run, or in two rounds, the first first."""
    if meters == "wall":
        return [metrics.compute_time_ms for metrics in dag.run().metrics.task_metrics]
    profile = dag.run(rounds=Rounds(2, warmup=0), meters=meters)
    rounds = zip(*(column(profile, name, "wall_ms") for name in dag.tasks))
    return [wall_ms for one in rounds for wall_ms in one]


def column(profile, task, name):
    """Return what the measured rounds have of one quantity."""
    samples = profile.sections["samples"]
    values = zip(samples["rounds"], samples["tasks"][task][name])
    return [value for kind, value in values if kind == "measured"]


def percent(errors):
    """Return the median of relative errors, and the range of nine tenths of them."""
    *_, high = cuts = quantiles(errors, n=20)
    values = (100 * value for value in (median(errors), cuts[0], high))
    return "{:+.3f} % ({:+.3f} to {:+.3f})".format(*values)


# -- kernels of different kinds ------------------------------------------------------------

#: OpenBLAS multiplies the small one in the calling thread, the other in as many as it has.
SMALL, LARGER = (np.full((n, n), 0.5) for n in (64, 500))
LARGE = np.ones(4_000_000)
TARGET = np.ones_like(LARGE)
KEYS = [str(i * 7919 % 10_007) for i in range(20_000)]
TEXT = " ".join(KEYS)
RECORDS = [
    {"id": i, "name": f"record {i}", "tags": ["a", "b"], "score": i / 7} for i in range(2_500)
]


def python_loop():
    total = 0
    for i in range(200_000):
        total += i * i % 7


def through_a_file():
    with tempfile.TemporaryFile() as file:
        file.write(bytes(1_000_000))
        file.seek(0)
        file.read()


def repeated(count, work):
    def all_of_it():
        for _ in range(count):
            work()

    return all_of_it


KERNELS = {
    "pure Python loop": python_loop,
    "building dicts": repeated(10, lambda: {key: i for i, key in enumerate(KEYS)}),
    "sorting": repeated(4, lambda: sorted(KEYS)),
    "string work": repeated(
        6, lambda: "-".join(word[::-1].upper() for word in TEXT.replace("1", "one").split())
    ),
    "matmul, 64 x 64": repeated(1_000, lambda: SMALL @ SMALL),
    "matmul, 500 x 500, in all of BLAS's threads": repeated(2, lambda: LARGER @ LARGER),
    "copy and sum of 32 MB": repeated(2, lambda: (np.copyto(TARGET, LARGE), TARGET.sum())),
    "allocating arrays": repeated(
        4, lambda: [np.ones(20_000) for _ in range(50)] + [np.zeros(200) for _ in range(500)]
    ),
    "json and pickle round trips": lambda: (
        json.loads(json.dumps(RECORDS)),
        pickle.loads(pickle.dumps(RECORDS)),
    ),
    "file I/O": repeated(60, through_a_file),
    "sleep": lambda: time.sleep(0.01),
}


class Kernel(Task):
    outputs = ["done"]

    def __init__(self, work):
        super().__init__()
        self.work = work

    def compute(self):
        self.work()
        return {"done": True}


class Allocate(Task):
    outputs = ["done"]

    def compute(self, cfg):
        # Touches all of it, and lets go of it.
        np.ones(cfg.mb * 125_000)
        return {"done": True}


# -- the rows ------------------------------------------------------------------------------


def run_unclocked(plan, cfg):
    """Do what contender.run_bare does, but for its clocks."""
    steps, count = plan
    dumps, loads = pickle.dumps, pickle.loads
    protocol = pickle.HIGHEST_PROTOCOL
    blobs = [None] * count
    for compute, fields, gathered, results, dead in steps:
        inputs = {field: loads(blobs[value]) for field, value in fields}
        if gathered:
            for field, values in gathered:
                inputs[field] = [loads(blobs[value]) for value in values]
        outputs = compute(**inputs, cfg=cfg)
        for field, value in results:
            blobs[value] = dumps(outputs[field], protocol)
        for value in dead:
            blobs[value] = None
        del inputs, outputs


def busy(*, quick):
    budget_ms = 2_000 if quick else 15_000
    for length_ms, goal in BUSY_GOALS.items():
        dag = DAG({f"spin {i}": Spin(length_ms / 1e3) for i in range(SPINS)}, [])
        errors = {kind: [] for kind in ("bare", *METERS)}
        # In each turn every spin is done six times, and runs take some time themselves.
        for turn in range(2 + int(budget_ms / (6 * SPINS * length_ms + 20))):
            for kind, found in errors.items():
                SPUN.clear()
                if kind == "bare":
                    walls_ms = [bare_ms(length_ms / 1e3) for _ in range(SPINS)]
                else:
                    walls_ms = recorded_ms(dag, kind)
                if turn:
                    found += [wall / own / 1e3 - 1 for wall, own in zip(walls_ms, SPUN)]
        for kind, what in (
            ("wall", f"busy loop of {length_ms} ms: error of its time in a plain run"),
            ("default", "… in rounds, default meters"),
            ("full", "… in rounds, full meters"),
            ("bare", "… a bare loop's"),
        ):
            goal_of = NONE if kind == "bare" else f"± {goal} %"
            yield what, goal_of, percent(errors[kind])


def load(*, quick):
    dag = DAG({name: Kernel(work) for name, work in KERNELS.items()}, [])
    quantities = ("wall_ms", "corrected_ms", "cpu_ms")
    ratios = {name: {quantity: [] for quantity in quantities} for name in KERNELS}
    idle_times_ms = {name: [] for name in KERNELS}
    taken = left_out = 0
    if "corrected_ms" not in dag.run(rounds=2).sections["samples"]["tasks"]["sleep"]:
        yield "with two burners beside it", NONE, "no run-queue delay to be had on this system"
        return
    for _ in range(4 if quick else 12):
        idle = dag.run(rounds=Rounds(6, warmup=1))
        with burners(2):
            loaded = dag.run(rounds=Rounds(6, warmup=1))
        for name, found in ratios.items():
            idle_ms = undisturbed_ms(idle, name)
            taken += 6
            left_out += 6 - len(idle_ms)
            idle_times_ms[name] += idle_ms
            if idle_ms:
                for quantity, values in found.items():
                    values.append(median(column(loaded, name, quantity)) / median(idle_ms))
    lines = [
        (name, [median(found[quantity]) for quantity in quantities])
        for name, found in ratios.items()
        if found["wall_ms"]
    ]
    near = sum(abs(corrected - 1) <= NEAR for _, (_, corrected, _) in lines)
    yield (
        "with two burners beside it, the corrected median is within 10 % of the idle one",
        f"{len(KERNELS) - 1} of {len(KERNELS)} kernels",
        f"{near} of {len(KERNELS)}",
    )
    for name, (wall, corrected, cpu) in lines:
        measured = f"corrected {corrected:.2f} x, wall {wall:.2f}, CPU {cpu:.2f}"
        what = f"… {name}, {median(idle_times_ms[name]):.1f} ms"
        yield what, NONE, measured
    share = f"{100 * left_out / taken:.0f} %"
    yield "… idle samples left out, since other programs made them wait for a core", NONE, share


def memory(*, quick):
    for mb in SIZES_MB:
        dag = DAG({"allocate": Allocate()}, [], {"mb": mb})
        rounds = Rounds(2 if quick else 5, fresh_process=True)
        profile = dag.run(rounds=rounds, meters=["full", "allocation"])
        peaks = column(profile, "allocate", "peak_memory_bytes")
        errors = [peak / (mb * 1e6) - 1 for peak in peaks]
        low, high = (100 * error for error in (min(errors), max(errors)))
        yield (
            f"peak memory of a task that allocates {mb} MB, each in a fresh process",
            "± 5 %",
            f"{100 * median(errors):+.2f} % ({low:+.2f} to {high:+.2f})",
        )
        allocated = profile.sections["samples"]["tasks"]["allocate"]["allocation_bytes"][-1]
        yield "… by tracemalloc", NONE, f"{100 * (allocated / (mb * 1e6) - 1):+.2f} %"
    dag = DAG({"allocate": Allocate()}, [], {"mb": SIZES_MB[0]})
    profile = dag.run(rounds=Rounds(6), meters="full")
    peaks_mb = [peak / 1e6 for peak in column(profile, "allocate", "peak_memory_bytes")]
    yield (
        f"… {SIZES_MB[0]} MB again and again in this process, which reuses resident pages",
        NONE,
        f"{median(peaks_mb):.1f} MB ({min(peaks_mb):.1f} to {max(peaks_mb):.1f})",
    )


def cost(*, quick):
    n = 300
    tasks = {"t0": Start()}
    tasks.update((f"t{i}", Step()) for i in range(1, n))
    edges = [(f"t{i}", f"t{i + 1}") for i in range(n - 1)]
    dag, plan = DAG(tasks, edges), make_plan(tasks, edges)
    costs = {what: [] for what in COST_LINES}
    for _ in range(10 if quick else 40):
        unclocked_us = timed_us(lambda: run_unclocked(plan, dag.config)) / n
        clocked_us = timed_us(lambda: run_bare(plan, dag.config)) / n
        plain_us = in_plain_run_us(dag)
        (without_us, _), (default_us, said_us), (full_us, all_said_us) = (
            in_rounds_us(dag, meters) for meters in METERS
        )
        found = (
            clocked_us - unclocked_us,
            default_us - without_us,
            said_us,
            full_us - without_us,
            all_said_us,
            without_us - plain_us,
        )
        for costs_us, cost_us in zip(costs.values(), found):
            costs_us.append(cost_us)
    for (what, goal), costs_us in zip(COST_LINES.items(), costs.values()):
        yield what, goal, micro(costs_us)


def undisturbed_ms(profile, task):
    """Return the wall times of a task in the rounds in which it never waited for a core.

    What corrected times are held against must need no correction itself, and other programs
    than the burners may run beside this one.
    """
    samples = zip(column(profile, task, "wall_ms"), column(profile, task, "delay_ms"))
    return [wall_ms for wall_ms, delay_ms in samples if delay_ms <= IDLE * wall_ms]


def timed_us(call):
    """Return how long `call` takes at best, in µs."""
    gc.collect()
    return min(timed(call) for _ in range(3)) * 1e6


def in_plain_run_us(dag):
    """Return how long a plain run takes at best once it is prepared, by a task, in µs."""
    took_ms = []
    for _ in range(3):
        gc.collect()
        profile = dag.run()
        prepare_ms = profile.sections["run"]["overhead"]["prepare_ms"]
        took_ms.append(profile.metrics.total_time_ms - prepare_ms)
    return min(took_ms) * 1e3 / len(dag.tasks)


def in_rounds_us(dag, meters):
    """Return how long a round took and what meters took of it, by a task, in µs.

    The time of a round is the run's without what is between rounds, since the
    totals in the profile leave the meters out.
    """
    run = dag.run(rounds=Rounds(3, warmup=0), meters=meters).sections["run"]
    overhead, n = run["overhead"], 3 * len(dag.tasks)
    between_ms = sum(overhead[f"{kind}_ms"] for kind in ("prepare", "garbage", "between_rounds"))
    return (run["elapsed_ms"] - between_ms) * 1e3 / n, overhead["meters_ms"] * 1e3 / n


def micro(values_us):
    return f"{median(values_us):.2f} µs ({min(values_us):.2f} to {max(values_us):.2f})"


ROWS = {"busy": busy, "load": load, "memory": memory, "cost": cost}


if __name__ == "__main__":
    print_rows(__doc__, ROWS, "what | goal | measured", [f"numpy {np.__version__}"])
