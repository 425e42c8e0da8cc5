"""Measure what tracing costs a call, a run, in memory, and when the trace is written.

``python tests/benchmarks/bench_tracing.py [--quick] [--only ROW]``
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import tracemalloc
from contextlib import contextmanager, nullcontext
from itertools import repeat
from pathlib import Path
from statistics import median
from time import perf_counter, process_time, thread_time
from timeit import Timer
from typing import Any, Callable, NamedTuple

from harness import Process, either, print_rows, spread, timed, times, turns

from dagprofiler import span, trace
from dagprofiler.tracing import configure, flush

#: Seconds and spans that are not reached: nothing is written meanwhile.
NEVER = {"interval_s": 1e5, "limit": 10**8}
USUAL = {"interval_s": 0.25, "limit": 10_000}


def nothing():
    pass


async def nothing_async():
    pass


traced = trace(nothing)
traced_async = trace(nothing_async)


def bare(*args, **kwargs):
    return nothing(*args, **kwargs)


#: What statements use.
NAMES = {"nothing": nothing, "traced": traced, "bare": bare, "span": span, "clock": perf_counter}


class Call(NamedTuple):
    """A statement, or a function that takes a number of calls and returns their CPU seconds."""

    work: str | Callable[[int], float]
    #: The call whose time is subtracted.
    base: str | None = "a plain call"
    #: Microseconds that it may take.
    goal: Any = "-"
    #: What it takes place in.
    within: Callable[[], Any] = nullcontext

    def seconds(self, number):
        """Return CPU seconds of this thread; what they recorded is written afterwards."""
        with self.within():
            if callable(self.work):
                taken = self.work(number)
            else:
                setup = "import gc; gc.enable(); held = []"
                taken = Timer(self.work, setup, thread_time, globals=NAMES).timeit(number)
        flush()
        return taken


def awaits(function):
    async def main(number):
        begun = thread_time()
        for _ in repeat(None, number):
            await function()
        return thread_time() - begun

    return lambda number: asyncio.run(main(number))


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


@contextmanager
def off():
    configure(enable=False)
    yield
    configure(enable=True)


CALLS = {
    "nothing": Call("pass", None),
    "a plain call": Call("nothing()", "nothing"),
    "decorated function, tracing on": Call("traced()", goal=0.8),
    "… until it is in the file, all threads": Call(written),
    "decorated function, tracing off": Call("traced()", goal=0.15, within=off),
    "… a bare `*args, **kwargs` wrapper": Call("bare()"),
    "`with span()`": Call("with span('work'): pass", "nothing", 1.2),
    "… with a value": Call("with span('work', number=1): pass", "nothing"),
    "… tracing off": Call("with span('work'): pass", "nothing", within=off),
    "an awaited call": Call(awaits(nothing_async), "nothing"),
    "decorated `async def`": Call(awaits(traced_async), "an awaited call"),
    "a clock pair and an append": Call("start = clock(); nothing(); held.append((start, clock()))"),
}


def calls():
    """Measure all calls in turns."""
    number = either(50_000, 5_000)
    found = [
        {what: row.seconds(number) / number * 1e6 for what, row in CALLS.items()} for _ in turns(15)
    ]
    for what, row in CALLS.items():
        if row.base is not None:
            over = {"a plain call": " over a plain call", "an awaited call": " over that"}
            more_us = [took[what] - took[row.base] for took in found]
            yield f"{what}{over.get(row.base, '')}, µs a call", row.goal, spread(more_us)


def sizes():
    """Measure what spans take in memory and in the file."""
    number, limit = either(100_000, 10_000), 10_000
    memory = [bytes_of(number)[0] / number for _ in range(3)]
    yield "memory a span", "-", f"{spread(memory, '{:.0f}')} B"
    configure(limit=limit)
    most = [bytes_of(3 * number)[1] / limit for _ in range(3)]
    configure(**NEVER)
    what = "… at most, while it is written, with `limit=10_000`, for each of these"
    yield what, "-", f"{spread(most, '{:.0f}')} B"
    took_s, written = zip(*(write_all(10 * number) for _ in range(3)))
    yield f"writing {10 * number:,} spans", "3 s", f"{spread(took_s)} s"
    yield "… in the file, each", "-", f"{median(written) / number / 10:.0f} B"


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


def write_all(number):
    """Return seconds to write so many spans, and their bytes in the file."""
    before = Path(flush()).stat().st_size
    for _ in repeat(None, number):
        traced()
    return timed(flush), Path(flush()).stat().st_size - before


def runs():
    """Measure runs without tracing, with tracing imported, and with an annotated call a task."""
    n = either(10_000, 1_000)
    kinds = [(False, False), (True, False), (True, True)]
    process, found = Process("contender"), []
    for number in turns(15):
        took_us = {}
        for imported, annotated in kinds if number % 2 else kinds[::-1]:
            how = {"imported": imported, "annotated": annotated}
            took_s = process.ask_afresh("measure_tracing", n=n, **how)
            took_us[imported, annotated] = [1e6 * seconds for seconds in took_s]
        found.append([took_us[kind] for kind in kinds])
    plain, imported, annotated = zip(*found)
    plain_us, imported_us = ([task for task, _ in kind] for kind in (plain, imported))
    yield f"µs a task, {n:,} tasks, tracing not imported", "-", spread(plain_us)
    yield "imported and not annotated, over neither", "1.05 x", times(imported_us, plain_us)
    # The call itself is measured where tracing is on, outside of a run.
    more_us = [task - call - before for (task, call), before in zip(annotated, plain_us)]
    work = "one annotated call each: over neither and the call's own cost, µs a task"
    yield work, 3, spread(more_us)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PERFFLOW_OPTIONS"] = f"log-dir={folder}"
        configure(directory=folder, enable=True, **NEVER)
        # The first span of a process also opens its file.
        traced()
        print_rows(__doc__, [calls, sizes, runs])
        configure(enable=False)
