"""Measure what tracing costs a call, a run, in memory, and when the trace is written.

``python tests/benchmarks/bench_tracing.py [--quick] [--rounds N]``

Needs nothing but Python and pip. Prints a Markdown table; README.md beside this file says
how to read it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import subprocess
import sys
import tempfile
import tracemalloc
from importlib import import_module
from importlib.util import find_spec
from itertools import repeat
from pathlib import Path
from statistics import median
from time import perf_counter, process_time, thread_time
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

from bench_core import CHECKOUT, note, processor, run_where_installed, spread

if __name__ == "__main__":
    run_where_installed()

from dagprofiler import span, trace
from dagprofiler.tracing import configure, flush

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Seconds and spans that are not reached: nothing is written meanwhile.
NEVER: dict[str, Any] = {"interval_s": 1e5, "limit": 10**8}
USUAL: dict[str, Any] = {"interval_s": 0.25, "limit": 65_536}


class Row(NamedTuple):
    """What is measured: seconds that so many calls take, and what they may.

    Attributes
    ----------
    goal
        Microseconds a call; None for a peer, or a line that adds to the one above.
    seconds
        Takes the number of calls.
    base
        The row that is subtracted.
    """

    goal: float | None
    seconds: Callable[[int], float]
    base: str | None = "a plain call"


def nothing() -> None:
    pass


async def nothing_async() -> None:
    pass


traced = trace(nothing)
traced_async = trace(nothing_async)


def bare(*args: Any, **kwargs: Any) -> None:
    return nothing(*args, **kwargs)


def calls(function: Callable[[], Any]) -> Callable[[int], float]:
    """Return what measures calls of a function, in CPU seconds of this thread."""

    def seconds(number: int) -> float:
        begun = thread_time()
        for _ in repeat(None, number):
            function()
        return thread_time() - begun

    return seconds


def awaits(function: Callable[[], Any]) -> Callable[[int], float]:
    async def main(number: int) -> float:
        begun = thread_time()
        for _ in repeat(None, number):
            await function()
        return thread_time() - begun

    return lambda number: asyncio.run(main(number))


def empty(number: int) -> float:
    begun = thread_time()
    for _ in repeat(None, number):
        pass
    return thread_time() - begun


def spans(number: int) -> float:
    begun = thread_time()
    for _ in repeat(None, number):
        with span("work"):
            pass
    return thread_time() - begun


def spans_with_a_value(number: int) -> float:
    begun = thread_time()
    for i in range(number):
        with span("work", number=i):
            pass
    return thread_time() - begun


def clock_and_append(number: int) -> float:
    held: list[tuple[float, float]] = []
    begun = thread_time()
    for _ in repeat(None, number):
        start = perf_counter()
        nothing()
        held.append((start, perf_counter()))
    return thread_time() - begun


def held(seconds: Callable[[int], float]) -> Callable[[int], float]:
    """Return the same; what it recorded is written afterwards."""

    def with_flush(number: int) -> float:
        taken = seconds(number)
        flush()
        return taken

    return with_flush


def written(number: int) -> float:
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


def off(seconds: Callable[[int], float]) -> Callable[[int], float]:
    def switched(number: int) -> float:
        configure(enable=False)
        try:
            return seconds(number)
        finally:
            configure(enable=True)

    return switched


def viztracer() -> dict[str, Row]:
    """Return rows of VizTracer, where it is installed."""
    if find_spec("viztracer") is None:
        return {}
    package = import_module("viztracer")
    tracer = package.VizTracer(log_sparse=True, verbose=0, tracer_entries=1_000_000)
    sparse = package.log_sparse(nothing)
    tracer.start()
    tracer.stop()

    def events(number: int) -> float:
        begun = thread_time()
        for _ in repeat(None, number):
            with tracer.log_event("work"):
                pass
        return thread_time() - begun

    def started(seconds: Callable[[int], float]) -> Callable[[int], float]:
        # While it is, Python 3.11 runs everything more slowly.
        def with_start(number: int) -> float:
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


def measured(rows: Mapping[str, Row], number: int, rounds: int) -> dict[str, list[float]]:
    """Return microseconds a call over the row's base, of each round; rows take turns."""
    found: dict[str, list[float]] = {what: [] for what in rows}
    for i in range(rounds):
        note(f"round {i + 1} of {rounds}")
        taken = {what: row.seconds(number) for what, row in rows.items()}
        for what, row in rows.items():
            base = 0 if row.base is None else taken[row.base]
            found[what].append((taken[what] - base) / number * 1e6)
    return found


def bytes_of(number: int) -> tuple[int, int]:
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


def bytes_at_most(limit: int, number: int) -> float:
    """Return bytes that are held at most, with what writing takes, for each span of the limit."""
    configure(limit=limit)
    _, most = bytes_of(number)
    configure(**NEVER)
    return most / limit


def write_all(number: int) -> tuple[float, float]:
    """Return seconds to write so many spans, and bytes a span in the file."""
    before = Path(flush() or "").stat().st_size
    for _ in repeat(None, number):
        traced()
    begun = perf_counter()
    path = flush()
    taken = perf_counter() - begun
    return taken, (Path(path or "").stat().st_size - before) / number


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


def report_runs(tasks: int, rounds: int) -> None:
    """Measure and print what runs take, with tracing imported or not, and used or not."""
    found: dict[tuple[bool, bool], list[tuple[float, float]]] = {kind: [] for kind in KINDS}
    env = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    for i in range(rounds):
        note(f"runs, round {i + 1} of {rounds}")
        for kind in KINDS if i % 2 else KINDS[::-1]:
            command = [sys.executable, "-c", RUNS, str(tasks), *map(str, kind)]
            with tempfile.TemporaryDirectory() as folder:
                done = subprocess.run(
                    command, cwd=folder, env=env, check=True, capture_output=True, text=True
                )
            task_us, call_us = map(float, done.stdout.split())
            found[kind].append((task_us, call_us))
    print(f"\n| µs a task, {tasks:,} tasks | not annotated | one annotated call a task |")
    print("|---|---|---|")
    for imported, what in ((False, "tracing not imported before the run"), (True, "imported")):
        cells = [spread([task for task, _ in found[imported, used]]) for used in (False, True)]
        print(f"| {what} | {cells[0]} | {cells[1]} |")
    plain, unused = found[False, False], found[True, False]
    ratios = [with_it[0] / without[0] for with_it, without in zip(unused, plain)]
    print("\n| what | goal | measured |\n|---|---|---|")
    print(f"| imported and not annotated, over neither | 1.05 x | {spread(ratios)} x |")
    for imported, what in ((True, "imported"), (False, "imported by the first task")):
        # The call itself is measured where tracing is on, outside of a run.
        over = [
            task - without[0] - call for (task, call), without in zip(found[imported, True], plain)
        ]
        label = f"annotated, {what}: over neither and the call's own cost, µs a task"
        print(f"| {label} | 3 | {spread(over)} |", flush=True)


def report(rows: Mapping[str, Row], found: Mapping[str, list[float]]) -> None:
    print("| what, µs a call | goal | measured |")
    print("|---|---|---|")
    for what, values in found.items():
        if what != "nothing":
            goal = rows[what].goal
            over = {"a plain call": " over a plain call", "an awaited call": " over that"}
            label = what + over.get(rows[what].base or "", "")
            print(f"| {label} | {'-' if goal is None else goal} | {spread(values)} |", flush=True)


def report_sizes(scale: int) -> None:
    """Measure and print what spans take in memory and in the file."""
    number = 100_000 // scale
    memory = [bytes_of(number)[0] / number for _ in range(3)]
    print(f"| memory a span | 80 B | {spread(memory, '{:.0f}')} B |")
    most = [bytes_at_most(10_000, 300_000 // scale) for _ in range(3)]
    what = "… at most, while it is written, with `limit=10_000`, for each of these"
    print(f"| {what} | - | {spread(most, '{:.0f}')} B |")
    number = 1_000_000 // scale
    writes = [write_all(number) for _ in range(3)]
    print(f"| writing {number:,} spans | 3 s | {spread([taken for taken, _ in writes])} s |")
    print(f"| … in the file, each | - | {median(size for _, size in writes):.0f} B |")


def main() -> None:
    """Measure all rows and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the calls")
    parser.add_argument("--rounds", type=int, default=15, help="so many of each (default: 15)")
    options = parser.parse_args()
    print(f"Python {platform.python_version()}")
    print(f"on {processor()}, {os.cpu_count()} cores, {platform.platform()}\n", flush=True)
    scale = 10 if options.quick else 1
    with tempfile.TemporaryDirectory() as folder:
        configure(directory=folder, enable=True, **NEVER)
        # The first span of a process also opens its file.
        traced()
        rows = {**ROWS, **viztracer()}
        report(rows, measured(rows, 50_000 // scale, options.rounds))
        report_sizes(scale)
        configure(enable=False)
    report_runs(10_000 // scale, options.rounds)


if __name__ == "__main__":
    main()
