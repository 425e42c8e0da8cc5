"""Measure dagprofiler's own cost against a bare loop and against the published 0.1.0.

``python tests/benchmarks/bench_core.py [--quick] [--only ROW]``
"""

from functools import partial
from statistics import median

from harness import Process, either, exponent, install, print_rows, spread, timed, times, turns

USES = "numpy", "jsonschema"
OLD = Process("contender", install("0.1.0", *USES, "dagprofiler==0.1.0"), path="")
OURS = Process("contender", install("this checkout", *USES))
#: In the order of the table's columns.
BOTH = OLD, OURS


def sampled(count, function, of=BOTH, **arguments):
    """Return the results of each process, taken in turns after one that warms up."""
    for process in of:
        process.end()
        process.ask(function, **arguments)
    samples = [[process.ask(function, **arguments) for process in of] for _ in turns(count)]
    return [*zip(*samples)]


def ratios(samples, top, bottom="bare"):
    return times([sample[top] for sample in samples], [sample[bottom] for sample in samples])


def run():
    n = either(10_000, 2_000)
    for shape, published, goal, seeded, construct in (
        ("chain", "4.2 x", "2.0 x", "5.0 x", "-"),
        ("layered", "4.3 x", "2.2 x", "4.0 x", "2.2 x"),
    ):
        samples = sampled(15, "measure_run", shape=shape, n=n)
        old, ours = ([sample["run"] for sample in each] for each in samples)
        for work, before, wanted, what in (
            (f"run {n:,} no-op tasks: {shape}", published, goal, "run"),
            ("… with seed=42", "-", seeded, "seeded"),
            ("… with a first look at the metrics", "-", "-", "read"),
            ("… constructing it alone", "-", construct, "construct"),
        ):
            yield work, before, wanted, *(ratios(each, what) for each in samples)
            if what == "run":
                yield "… against 0.1.0's time", "1 x", "0.6 x", "1 x", times(ours, old)


def fan():
    small, large = [3_000, 6_000, 12_000], [12_500, 25_000, 50_000, 100_000]
    both = {n: sampled(6, "measure_run", shape="fan", n=n) for n in small}
    costs = [median(sample["whole"] for sample in both[n][0]) for n in small]
    old, same_size = (f"{ratios(each, 'whole')} at {small[-1]:,}" for each in both[small[-1]])
    ours = {n: sampled(6, "measure_run", [OURS], shape="fan", n=n)[0] for n in large}
    took_s = {n: [sample["whole"] for sample in ours[n]] for n in large}
    work = "construct + run, one source to 50,000 workers to one sink"
    grows = exponent(large, [median(took_s[n]) for n in large])
    figures = f"{ratios(ours[50_000], 'whole')}, n^{grows:.2f}"
    yield work, "190 x, n^2.3", "2.5 x, linear", f"{old}, n^{exponent(small, costs):.2f}", figures
    yield "… at the size of 0.1.0's figure", "-", "-", "-", same_size
    yield "… with seed=42, run alone", "-", "4.0 x", "-", ratios(ours[50_000], "seeded")
    for n in large:
        figures = f"{ratios(ours[n], 'whole')}, {spread([s * 1e3 for s in took_s[n]], '{:.0f}')} ms"
        yield f"… {n:,} workers", "-", "-", "-", figures


def array():
    found = [
        f"{ratios(samples, 'run')}, serializations: {process.ask_afresh('count_serializations')}"
        for process, samples in zip(BOTH, sampled(7, "measure_array"))
    ]
    goals = "1.72 x, 17 serializations", "1.05 x, 1 serialization"
    yield "one 100 MB array to 16 consumers", *goals, *found
    (samples,) = sampled(7, "measure_array", [OURS], no_copy=True)
    yield "the same with the no-copy serializer", "-", "0.15 x", "-", ratios(samples, "run")


def memory():
    length = either(200, 40)
    old, ours = (process.ask_afresh("measure_memory", length=length) for process in BOTH)
    twice = OURS.ask_afresh("measure_memory", length=2 * length)
    bare = OURS.ask_afresh("measure_memory", length=length, bare=True)
    work = f"chain of {length} tasks passing 20 MB: peak memory over import"
    figures = f"{old:,.0f} MB", f"{ours:,.0f} MB; {twice:,.0f} MB at {2 * length} tasks"
    yield work, "3,870 MB", "90 MB, flat in the length", *figures
    yield f"… the bare loop's: {bare:,.0f} MB", "-", "-", "-", "-"


def json():
    n = either(100_000, 10_000)
    samples = sampled(3, "measure_json", n=n)
    for work, published, goal, top, bottom in (
        (f"save, {n:,} tasks, against json.dumps", "4 x", "2 x", "save", "dumps"),
        ("… saved a second time", "-", "-", "again", "dumps"),
        (
            *(f"load with validation, {n:,} tasks, against json.loads", "3 x unvalidated", "3 x"),
            *("load", "loads"),
        ),
    ):
        yield work, published, goal, *(ratios(each, top, bottom) for each in samples)
    sizes = [f"{each[0]['mib']:.1f} MB" for each in samples]
    yield "… the document, compact", "-", "40 MB", *sizes


def imports():
    codes = "pass", "import numpy", "import dagprofiler"
    rounds = [
        [[timed(partial(process.run, code)) for code in codes] for process in BOTH]
        for _ in turns(21)
    ]
    found = [
        times([c - a for a, _, c in each], [b - a for a, b, _ in each]) for each in zip(*rounds)
    ]
    work = "`import dagprofiler` against `import numpy`, both over bare Python"
    yield work, "1.15 x", "0.6 x", *found
    code = "import sys, dagprofiler; print(*{'numpy', 'jsonschema'} & set(sys.modules))"
    loaded = [process.run(code).strip() or "nothing" for process in BOTH]
    yield "… loads of numpy and jsonschema", "-", "nothing", *loaded


def overhead():
    later = sampled(50, "measure_overhead")
    first = [[process.ask_afresh("measure_overhead") for _ in turns(15)] for process in BOTH]
    whole = "time in no task and not reported as overhead, README example"
    for work, published, goal, share, samples in (
        (whole, "11 %", "2 %", "unknown", later),
        ("… reported as overhead", "-", "-", "reported", later),
        ("… neither, in the first run of a process", "-", "-", "unknown", first),
        ("… reported, in the first run of a process", "-", "-", "reported", first),
    ):
        # The sum of floats may be below 0 by their last digit, which would be printed as -0.0.
        percent = [[round(100 * run[share], 1) + 0.0 for run in runs] for runs in samples]
        yield work, published, goal, *(f"{spread(values, '{:.1f}')} %" for values in percent)


def million():
    sizes = either([250_000, 500_000, 1_000_000], [25_000, 50_000, 100_000])
    for shape, what in (("chain", "a chain"), ("sparse", "layers, 2 edges a task")):
        results = [OURS.ask_afresh("measure_million", n=n, shape=shape) for n in sizes]
        for n, result in zip(sizes, results):
            figures = ", ".join(f"{step} {took_s:.1f} s" for step, took_s in result["took"].items())
            figures += f"; {result['peak'] / 2**10:.2f} GB"
            work = f"{n:,} no-op tasks, {what}"
            yield work, "-", "done within 4 GB, linear", "-", figures
        grows = ", ".join(
            f"{step} n^{exponent(sizes, [result['took'][step] for result in results]):.2f}"
            for step in results[0]["took"]
        )
        yield "… grows with", "-", "n^1", "-", grows


if __name__ == "__main__":
    head = "work | 0.1.0, published | goal | 0.1.0, measured | this checkout"
    using = [
        process.run("import numpy; print('numpy', numpy.__version__)").strip() for process in BOTH
    ]
    rows = [run, fan, array, memory, json, imports, overhead, million]
    print_rows(__doc__, rows, head, using, long=["million"])
