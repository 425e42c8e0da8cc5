"""Measure what exporting, analysing and importing cost beside JSON's own writer and reader.

``python tests/benchmarks/bench_exporters.py [--quick]``
"""

from __future__ import annotations

import copy
import json
import random
from functools import partial
from importlib import import_module
from statistics import median
from time import process_time
from typing import Any, Callable, NamedTuple

from harness import exponent, note, print_rows, run_where_installed, spread, times

if __name__ == "__main__":
    run_where_installed()

import numpy as np

from dagprofiler import DAG, Profile, task
from dagprofiler._util.json import collector_paused, parse
from dagprofiler.analysis import analyze

#: A task's predecessors are among so many tasks before it.
REACH = 1000

#: What is exported: a module of ``dagprofiler.exporters``, and options.
EXPORTS = {
    "saga": ("saga", {"network": {"speeds": {"a": 1, "b": 2}, "bandwidth": 1e5}}),
    "wfformat": ("wfformat", {}),
    "node_link": ("node_link", {}),
    "graphml": ("graphml", {}),
    "dot": ("dot", {}),
    # Beyond what GitHub draws.
    "mermaid": ("mermaid", {}),
    "csv, tasks": ("csv", {"table": "tasks"}),
    "csv, edges": ("csv", {"table": "edges"}),
    "chrome_trace": ("chrome_trace", {}),
}


class Row(NamedTuple):
    """What is measured: some work, against JSON's own."""

    work: Callable[[], Any]
    base: Callable[[], Any]


@task(inputs=["x"], outputs=["x"], gathers=["x"], estimate_fn=lambda _: 1000)
def work(x):
    return {"x": len(x)}


def document_of(tasks):
    """Return the profile of a run of so many tasks that do nothing, with two edges each."""
    draw = random.Random(tasks)
    edges = [
        (f"task {source}", f"task {target}")
        for target in range(2, tasks)
        for source in draw.sample(range(max(0, target - REACH), target), 2)
    ]
    return DAG({f"task {i}": work for i in range(tasks)}, edges).run().to_dict()


def exported(profile, module, options):
    """Return a profile as `Profile.export` writes it."""
    # By its module: in a checkout that is not installed there are no entry points.
    exporter = import_module(f"dagprofiler.formats.{module}").EXPORTER
    with collector_paused():
        return exporter.render(profile, **options).text


def rows_of(document):
    """Return what is measured on a profile."""
    loaded = Profile.from_dict(document)
    importer = import_module("dagprofiler.formats.wfformat").IMPORTER
    instance = exported(copy.copy(loaded), "wfformat", {})

    # A profile keeps some of what it is asked for, a copy of one that was asked nothing does not.
    def export(module, options):
        return exported(copy.copy(loaded), module, options)

    def analysed():
        return str(analyze(copy.copy(loaded), cost="wall_time", bandwidth_bits_per_s=1e9))

    def imported():
        with collector_paused():
            return importer.read(parse(instance))

    dumped = partial(json.dumps, document)
    rows = {
        f"export, `{what}`": Row(partial(export, *arguments), dumped)
        for what, arguments in EXPORTS.items()
    }
    rows["`analyze` and its text"] = Row(analysed, dumped)
    rows["import of WfFormat, to json.loads"] = Row(imported, partial(json.loads, instance))
    return rows


def seconds(work):
    """Return the CPU time of some work, which other programs on the machine do not change much."""
    begun = process_time()
    result = work()
    taken = process_time() - begun
    del result
    return taken


def formats(*, quick):
    """Measure each row in rounds, in which rows and sizes take turns."""
    sizes = [2_500, 10_000] if quick else [25_000, 100_000]
    *smaller, largest = [rows_of(document_of(size)) for size in sizes]
    works_s = {what: [] for what in largest}
    ratios = {what: [] for what in largest}
    for number in range(5):
        note(f"round {number + 1} of 5")
        for what, row in largest.items():
            base_s = seconds(row.base)
            works_s[what].append([seconds(rows[what].work) for rows in [*smaller, largest]])
            ratios[what].append(works_s[what][-1][-1] / base_s)
    yield f"{sizes[-1]:,} tasks, two edges each:", "", "", "", ""
    for what, rounds in works_s.items():
        goal = "3 x, linear" if what.startswith("export") else "linear"
        powers = spread([exponent(sizes, work_s) for work_s in rounds])
        taken_s = median(work_s[-1] for work_s in rounds)
        yield what, goal, times(ratios[what]), f"{taken_s:.2f} s", f"n^{powers}"


if __name__ == "__main__":
    head = "work | goal | to json.dumps | CPU time | grows with"
    print_rows(__doc__, {"formats": formats}, head, [f"numpy {np.__version__}"])
