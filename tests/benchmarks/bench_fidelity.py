"""Measure how far the times and the memory that dagprofiler records are from the truth.

``python tests/benchmarks/bench_fidelity.py [--quick] [--only ROW]``
"""

import gc
import tempfile
import time
from functools import partial
from itertools import chain
from statistics import median, quantiles
from time import perf_counter
from timeit import repeat

from harness import either, print_rows, spread, turns

# isort: split

import contender
import numpy as np
from kernels import burners, kernels, milliseconds, repeated

from dagprofiler import DAG, Rounds, task

METERS = ("wall", "default", "full")
#: The largest error of a recorded time, in percent, by the length of a busy loop in ms.
BUSY_GOALS = {0.1: 1.0, 1: 0.25, 10: 0.1, 100: 0.05}
#: How many tasks of the DAG are such loops.
SPINS = 5
#: What metering a task costs, and may cost.
COST_LINES = {
    "cost a task: wall, six looks at the clock": "0.5 µs",
    "cost a task: default meters, over the same rounds without": "5 µs",
    "… as the profile reports it": "-",
    "cost a task: full meters, over the same rounds without": "40 µs",
    "… as the profile reports them": "-",
    "cost a task: a clock around each field, rounds without meters over a plain run": "-",
}
#: How far from the idle time a kernel's time under load may be.
NEAR = 0.1
#: Up to which share of its time spent waiting for a core a task was idle alone.
IDLE = 0.01
SIZES_MB = (10, 100, 500)
#: What a loop that measures its three phases does for that.
CLOCKS = """
t0 = clock(); t1 = clock(); t2 = clock(); t3 = clock(); t4 = clock(); t5 = clock()
append((t1 - t0, t3 - t2, t5 - t4))
"""


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


def does(work):
    """Return a task that does what it is told, called as directly as any."""

    @task(outputs=["done"])
    def does_it():
        work()
        return {"done": True}

    return does_it


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


@task(outputs=["done"])
def allocate(megabytes):
    # Touches all of it, and lets go of it.
    np.ones(megabytes * 125_000)
    return {"done": True}


def through_a_file():
    with tempfile.TemporaryFile() as file:
        file.write(bytes(1_000_000))
        file.seek(0)
        file.read()


def kernels_of_some_ms():
    """Return a DAG of kernels of different kinds, of some 8 ms each."""
    larger = np.full((500, 500), 0.5)
    large = np.ones(4_000_000)
    target = np.ones_like(large)
    works = {
        **kernels(50_000),
        "matmul, 500 x 500, in all of BLAS's threads": lambda: larger @ larger,
        "copy and sum of 32 MB": lambda: (np.copyto(target, large), target.sum()),
        "file I/O": through_a_file,
        "sleep": lambda: time.sleep(0.008),
    }
    counts = {name: max(1, round(8 / milliseconds(work, 1))) for name, work in works.items()}
    return DAG({name: does(repeated(counts[name], work)) for name, work in works.items()})


# -- the rows ------------------------------------------------------------------------------


def busy():
    budget_ms = either(15_000, 2_000)
    for length_ms, goal in BUSY_GOALS.items():
        spins = does(partial(spin, length_ms / 1e3))
        dag = DAG({f"spin {i}": spins for i in range(SPINS)})
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
        what = f"busy loop of {length_ms} ms: error of its time in a plain run"
        yield what, f"± {goal} %", percent(errors["wall"])
        for kind in METERS[1:]:
            yield f"… in rounds, {kind} meters", f"± {goal} %", percent(errors[kind])
        yield "… a bare loop's", "-", percent(errors["bare"])


def load():
    dag = kernels_of_some_ms()
    quantities = ("wall_ms", "corrected_ms", "cpu_ms")
    ratios = {name: [] for name in dag.tasks}
    idle_times_ms = {name: [] for name in dag.tasks}
    taken = 0
    if "corrected_ms" not in dag.run(rounds=2).sections["samples"]["tasks"]["sleep"]:
        yield "with two burners beside it", "-", "no run-queue delay to be had on this system"
        return
    for _ in turns(12):
        idle = dag.run(rounds=Rounds(6, warmup=1))
        with burners(2):
            loaded = dag.run(rounds=Rounds(6, warmup=1))
        taken += 6 * len(ratios)
        for name, found in ratios.items():
            idle_ms = undisturbed_ms(idle, name)
            idle_times_ms[name] += idle_ms
            if idle_ms:
                loaded_ms = [median(column(loaded, name, quantity)) for quantity in quantities]
                found.append([ms / median(idle_ms) for ms in loaded_ms])
    medians = {name: [*map(median, zip(*found))] for name, found in ratios.items() if found}
    near = sum(abs(corrected - 1) <= NEAR for _, corrected, _ in medians.values())
    work = "with two burners beside it, the corrected median is within 10 % of the idle one"
    yield work, f"{len(ratios) - 1} of {len(ratios)} kernels", f"{near} of {len(ratios)}"
    for name, (wall, corrected, cpu) in medians.items():
        measured = f"corrected {corrected:.2f} x, wall {wall:.2f}, CPU {cpu:.2f}"
        yield f"… {name}, {median(idle_times_ms[name]):.1f} ms", "-", measured
    share = f"{100 * (1 - sum(map(len, idle_times_ms.values())) / taken):.0f} %"
    yield "… idle samples left out, since other programs made them wait for a core", "-", share


def memory():
    for mb in SIZES_MB:
        dag = DAG({"allocate": allocate.bind(megabytes=mb)})
        rounds = Rounds(either(5, 2), fresh_process=True)
        profile = dag.run(rounds=rounds, meters=["full", "allocation"])
        peaks = column(profile, "allocate", "peak_memory_bytes")
        work = f"peak memory of a task that allocates {mb} MB, each in a fresh process"
        errors = [100 * (peak / (mb * 1e6) - 1) for peak in peaks]
        yield work, "± 5 %", spread(errors, "{:+.2f}", " %")
        allocated = profile.sections["samples"]["tasks"]["allocate"]["allocation_bytes"][-1]
        yield "… by tracemalloc", "-", f"{100 * (allocated / (mb * 1e6) - 1):+.2f} %"
    dag = DAG({"allocate": allocate.bind(megabytes=SIZES_MB[0])})
    profile = dag.run(rounds=Rounds(6), meters="full")
    peaks_mb = [peak / 1e6 for peak in column(profile, "allocate", "peak_memory_bytes")]
    work = f"… {SIZES_MB[0]} MB again and again in this process, which reuses resident pages"
    yield work, "-", spread(peaks_mb, "{:.1f}", " MB")


def cost():
    dag = DAG(*contender.chain(300))
    costs_us = {what: [] for what in COST_LINES}
    for _ in turns(40):
        names = {"clock": perf_counter, "append": [].append}
        clocks_us = min(repeat(CLOCKS, globals=names, repeat=3, number=1000)) * 1e3
        plain_us = in_plain_run_us(dag)
        (without_us, _), *metered = (in_rounds_us(dag, meters) for meters in METERS)
        pairs_us = [(with_us - without_us, said_us) for with_us, said_us in metered]
        found_us = clocks_us, *chain.from_iterable(pairs_us), without_us - plain_us
        for several, one in zip(costs_us.values(), found_us):
            several.append(one)
    for (what, goal), several in zip(COST_LINES.items(), costs_us.values()):
        yield what, goal, spread(several, unit=" µs")


def undisturbed_ms(profile, task):
    """Return the wall times of a task in the rounds in which it never waited for a core.

    What corrected times are held against must need no correction itself, and other programs
    than the burners may run beside this one.
    """
    samples = zip(column(profile, task, "wall_ms"), column(profile, task, "delay_ms"))
    return [wall_ms for wall_ms, delay_ms in samples if delay_ms <= IDLE * wall_ms]


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


if __name__ == "__main__":
    print_rows(__doc__, [busy, load, memory, cost])
