"""Measure what tracing costs a call, a run, in memory, and when the trace is written.

``python tests/benchmarks/bench_tracing.py [--quick] [--rounds N]``
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import tracemalloc
from importlib import import_module
from importlib.util import find_spec
from itertools import chain, repeat
from pathlib import Path
from statistics import median
from time import perf_counter, process_time, thread_time
from typing import Callable, NamedTuple

from harness import (
    CHECKOUT,
    NONE,
    asked,
    note,
    over,
    print_machine,
    print_table,
    run_where_installed,
    spread,
    timed,
    times,
)

if __name__ == "__main__":
    run_where_installed()

from dagprofiler import span, trace
from dagprofiler.tracing import configure, flush

#: Seconds and spans that are not reached: nothing is written meanwhile.
NEVER = {"interval_s": 1e5, "limit": 10**8}
USUAL = {"interval_s": 0.25, "limit": 65_536}


class Row(NamedTuple):
    #: Microseconds that a call may take; None for a peer, or a line that adds to the one above.
    goal: float | None
    #: Takes the number of calls, and returns their seconds.
    seconds: Callable[[int], float]
    #: The row that is subtracted.
    base: str | None = "a plain call"


def nothing():
    pass


async def nothing_async():
    pass


traced = trace(nothing)
traced_async = trace(nothing_async)


def bare(*args, **kwargs):
    return nothing(*args, **kwargs)


def calls(function):
    """Return what measures calls of a function, in CPU seconds of this thread."""

    def seconds(number):
        begun = thread_time()
        for _ in repeat(None, number):
            function()
        return thread_time() - begun

    return seconds


def awaits(function):
    async def main(number):
        begun = thread_time()
        for _ in repeat(None, number):
            await function()
        return thread_time() - begun

    return lambda number: asyncio.run(main(number))


def empty(number):
    begun = thread_time()
    for _ in repeat(None, number):
        pass
    return thread_time() - begun


def spans(number):
    begun = thread_time()
    for _ in repeat(None, number):
        with span("work"):
            pass
    return thread_time() - begun


def spans_with_a_value(number):
    begun = thread_time()
    for i in range(number):
        with span("work", number=i):
            pass
    return thread_time() - begun


def clock_and_append(number):
    held = []
    begun = thread_time()
    for _ in repeat(None, number):
        start = perf_counter()
        nothing()
        held.append((start, perf_counter()))
    return thread_time() - begun


def held(seconds):
    """Return the same; what it recorded is written afterwards."""

    def with_flush(number):
        taken = seconds(number)
        flush()
        return taken

    return with_flush


def written(number):
    """Return CPU seconds of the whole process, until all is in the file."""
    configure(**USUAL)
    flush()
    begun = process_time()
    for _ in repeat(None, number):
        traced()
    flush()
    taken = process_time() - begun
    configure(**NEVER)
    return taken


def off(seconds):
    def switched(number):
        configure(enable=False)
        try:
            return seconds(number)
        finally:
            configure(enable=True)

    return switched


def viztracer():
    """Return rows of VizTracer, where it is installed."""
    if find_spec("viztracer") is None:
        return {}
    package = import_module("viztracer")
    tracer = package.VizTracer(log_sparse=True, verbose=0, tracer_entries=1_000_000)
    sparse = package.log_sparse(nothing)
    tracer.start()
    tracer.stop()

    def events(number):
        begun = thread_time()
        for _ in repeat(None, number):
            with tracer.log_event("work"):
                pass
        return thread_time() - begun

    def started(seconds):
        # While it is, Python 3.11 runs everything more slowly.
        def with_start(number):
            tracer.start()
            taken = seconds(number)
            tracer.stop()
            tracer.clear()
            return taken

        return with_start

    return {
        "VizTracer, `log_sparse`": Row(None, started(calls(sparse))),
        "VizTracer, `log_event`": Row(None, started(events), "nothing"),
    }


ROWS = {
    "nothing": Row(None, empty, None),
    "a plain call": Row(None, calls(nothing), "nothing"),
    "decorated function, tracing on": Row(0.8, held(calls(traced))),
    "… until it is in the file, all threads": Row(None, written),
    "decorated function, tracing off": Row(0.15, off(calls(traced))),
    "… a bare `*args, **kwargs` wrapper": Row(None, calls(bare)),
    "`with span()`": Row(1.2, held(spans), "nothing"),
    "… with a value": Row(None, held(spans_with_a_value), "nothing"),
    "… tracing off": Row(None, off(spans), "nothing"),
    "an awaited call": Row(None, awaits(nothing_async), "nothing"),
    "decorated `async def`": Row(None, held(awaits(traced_async)), "an awaited call"),
    "a clock pair and an append": Row(None, clock_and_append),
}


def measured(rows, number, rounds):
    """Return microseconds a call over the row's base, of each round; rows take turns."""
    found = {what: [] for what in rows}
    for i in range(rounds):
        note(f"round {i + 1} of {rounds}")
        taken = {what: row.seconds(number) for what, row in rows.items()}
        for what, row in rows.items():
            base = 0 if row.base is None else taken[row.base]
            found[what].append((taken[what] - base) / number * 1e6)
    return found


def bytes_of(number):
    """Return bytes that so many spans take in memory, afterwards and at most."""
    flush()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in repeat(None, number):
        traced()
    after, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    flush()
    return after - before, peak - before


def bytes_at_most(limit, number):
    """Return bytes that are held at most, with what writing takes, for each span of the limit."""
    configure(limit=limit)
    _, most = bytes_of(number)
    configure(**NEVER)
    return most / limit


def write_all(number):
    """Return seconds to write so many spans, and bytes a span in the file."""
    before = Path(flush()).stat().st_size
    for _ in repeat(None, number):
        traced()
    taken = timed(flush)
    return taken, (Path(flush()).stat().st_size - before) / number


#: Prints CPU microseconds that a task takes, and a call of an annotated function outside of a run.
RUNS = """
import sys
from time import process_time
from statistics import median
from dagprofiler import DAG, Task

tasks, imported, annotated = int(sys.argv[1]), sys.argv[2] == "True", sys.argv[3] == "True"
importing_s = 0.0

def work():
    pass

def annotate():
    global work, importing_s
    begun = process_time()
    from dagprofiler import trace
    importing_s, work = process_time() - begun, trace(work)

if imported:
    import dagprofiler.tracing
    if annotated:
        annotate()

class Source(Task):
    outputs = ["x"]
    def compute(self):
        if annotated and not imported:
            annotate()
        return {"x": 1}

class Link(Task):
    inputs = outputs = ["x"]
    def compute(self, x):
        return {"x": x}

class Annotated(Link):
    def compute(self, x):
        work()
        return {"x": x}

names = [f"t{i}" for i in range(tasks)]
links = dict.fromkeys(names[1:], Annotated if annotated else Link)
dag = DAG({names[0]: Source, **links}, list(zip(names, names[1:])))
taken = []
# The first run imports tracing, if that is how the tasks come by it.
for _ in range(1 if annotated and not imported else 5):
    begun = process_time()
    dag.run()
    taken.append(process_time() - begun - importing_s * (annotated and not imported))
begun = process_time()
for _ in range(tasks):
    work()
print(median(taken) / tasks * 1e6, (process_time() - begun) / tasks * 1e6)
"""

KINDS = [(imported, annotated) for imported in (False, True) for annotated in (False, True)]


def runs(tasks, rounds):
    """Return what runs take, with tracing imported or not, and used or not."""
    found = {kind: [] for kind in KINDS}
    env = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    for i in range(rounds):
        note(f"runs, round {i + 1} of {rounds}")
        for kind in KINDS if i % 2 else KINDS[::-1]:
            command = [sys.executable, "-c", RUNS, str(tasks), *map(str, kind)]
            with tempfile.TemporaryDirectory() as folder:
                done = subprocess.run(
                    command, cwd=folder, env=env, check=True, capture_output=True, text=True
                )
            found[kind].append((*map(float, done.stdout.split()),))
    return found


def lines_of_runs(found):
    for imported, what in ((False, "tracing not imported before the run"), (True, "imported")):
        cells = [spread([task for task, _ in found[imported, used]]) for used in (False, True)]
        yield what, *cells


def ratios_of_runs(found):
    plain, unused = ([task for task, _ in found[imported, False]] for imported in (False, True))
    yield "imported and not annotated, over neither", "1.05 x", times(over(unused, plain))
    for imported, what in ((True, "imported"), (False, "imported by the first task")):
        # The call itself is measured where tracing is on, outside of a run.
        more = [task - base - call for (task, call), base in zip(found[imported, True], plain)]
        label = f"annotated, {what}: over neither and the call's own cost, µs a task"
        yield label, 3, spread(more)


def lines_of_calls(rows, found):
    for what, values in found.items():
        if what != "nothing":
            goal = rows[what].goal
            base = {"a plain call": " over a plain call", "an awaited call": " over that"}
            label = what + base.get(rows[what].base, "")
            yield label, NONE if goal is None else goal, spread(values)


def lines_of_sizes(scale):
    """Measure what spans take in memory and in the file."""
    number = 100_000 // scale
    memory = [bytes_of(number)[0] / number for _ in range(3)]
    yield "memory a span", "80 B", f"{spread(memory, '{:.0f}')} B"
    most = [bytes_at_most(10_000, 300_000 // scale) for _ in range(3)]
    what = "… at most, while it is written, with `limit=10_000`, for each of these"
    yield what, NONE, f"{spread(most, '{:.0f}')} B"
    number = 1_000_000 // scale
    writes = [write_all(number) for _ in range(3)]
    yield f"writing {number:,} spans", "3 s", f"{spread([taken for taken, _ in writes])} s"
    yield "… in the file, each", NONE, f"{median(size for _, size in writes):.0f} B"


def main():
    """Measure all rows and print the tables."""
    options = asked(__doc__, rounds=15)
    scale, rounds = 10 if options["quick"] else 1, options["rounds"]
    print_machine()
    with tempfile.TemporaryDirectory() as folder:
        configure(directory=folder, enable=True, **NEVER)
        # The first span of a process also opens its file.
        traced()
        rows = {**ROWS, **viztracer()}
        calls_of_all = lines_of_calls(rows, measured(rows, 50_000 // scale, rounds))
        print_table("what, µs a call | goal | measured", chain(calls_of_all, lines_of_sizes(scale)))
        configure(enable=False)
    tasks = 10_000 // scale
    found = runs(tasks, rounds)
    head = f"µs a task, {tasks:,} tasks | not annotated | one annotated call a task"
    print_table(head, lines_of_runs(found))
    print_table("what | goal | measured", ratios_of_runs(found))


if __name__ == "__main__":
    main()
