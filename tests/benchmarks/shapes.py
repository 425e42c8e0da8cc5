"""Measure how the time of each operation grows with the graph, for graphs of many shapes.

``python tests/benchmarks/shapes.py [--quick] [--only OPERATION] [--shape SHAPE]``

It ends with status 1 if four times the tasks take more than seven times as long.
"""

import argparse
import copy
import gc
import random
import subprocess
import sys
import tempfile
import tracemalloc
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import cached_property, lru_cache, partial
from pathlib import Path

from harness import (
    CHECKOUT,
    QUICK,
    cpu_seconds,
    either,
    install,
    note,
    print_machine,
    print_table,
)

from dagprofiler import DAG, Journal, Profile, Rule, Task, import_profile, map_over, simulate, task
from dagprofiler.formats import exporter_names
from dagprofiler.rules import after

if __name__ == "__main__" and not exporter_names():  # formats are found among what is installed
    python = install(str(CHECKOUT).strip("/").replace("/", "-"), "-e", str(CHECKOUT))
    sys.exit(subprocess.run([str(python), *sys.argv], check=False).returncode)

#: The larger graph has so many times the tasks of the smaller one.
FACTOR = 4
#: Linear time grows 4 times, n log n 5 times, quadratic time 16 times.
MOST_GROWTH = 7.0
#: A time below this is measured on more tasks: a run of few has costs that do not grow.
LEAST_S = 2e-3
WIDTH = 20


# -- shapes: each function returns a DAG of n tasks -----------------------------------------


class Begin(Task):
    outputs = ("x",)

    def compute(self):
        return {"x": 0}


class Step(Task):
    inputs = outputs = ("x",)

    def compute(self, x=0):
        return {"x": x}


class Gather(Task):
    inputs = gathers = outputs = ("x",)

    def compute(self, x=()):
        return {"x": len(x)}


class Named(Task):
    """A task with lists of inputs and outputs of its own."""

    def __init__(self, inputs, outputs):
        self.inputs, self.outputs = inputs, outputs

    def compute(self, **_):
        return dict.fromkeys(self.outputs, 0)


@task(outputs=["items"])
def source(count):
    return {"items": list(range(count))}


@task(inputs=["item"], outputs=["x"])
def worker(item):
    return {"x": item}


def chain(n):
    tasks = {f"t{i}": Step() if i else Begin() for i in range(n)}
    return DAG(tasks, [(f"t{i - 1}", f"t{i}") for i in range(1, n)])


def fan(n):
    names = [f"w{i}" for i in range(n - 2)]
    tasks = {"a": Begin(), "z": Named([f"o{i}" for i in range(n - 2)], ["z"])}
    tasks.update((name, Named(["x"], [f"o{i}"])) for i, name in enumerate(names))
    return DAG(tasks, [("a", name) for name in names] + [(name, "z") for name in names])


def layers(n):
    """Return the pairs of a layered graph: each task reads two of the layer above."""
    draw = random.Random(0)
    return [
        (f"t{above}", f"t{i}")
        for i in range(WIDTH, n)
        for above in sorted(draw.sample(range(i // WIDTH * WIDTH - WIDTH, i // WIDTH * WIDTH), 2))
    ]


def layered(n):
    edges = [(source, target, {f"o_{source}": f"i_{source}"}) for source, target in layers(n)]
    inputs = {f"t{i}": [] for i in range(n)}
    for source, target, _ in edges:
        inputs[target].append(f"i_{source}")
    tasks = {name: Named(fields, [f"o_{name}"]) for name, fields in inputs.items()}
    return DAG(tasks, edges)


def shared(n):
    edges = [(source, target, {"x": "ab"[k % 2]}) for k, (source, target) in enumerate(layers(n))]
    inputs, outputs = ["a", "b"], ["x"]
    tasks = {f"t{i}": Named(inputs if i >= WIDTH else [], outputs) for i in range(n)}
    return DAG(tasks, edges)


def gathers(n):
    tasks = {f"t{i}": Gather() if i >= WIDTH else Begin() for i in range(n)}
    return DAG(tasks, layers(n))


def classes(n):
    kinds = [type(f"Step{i}", (Step,), {}) for i in range(n)]
    tasks = {f"t{i}": kind() for i, kind in enumerate(kinds)}
    return DAG(tasks, [(f"t{i // 2}", f"t{i}") for i in range(1, n)])


def functions(n):
    def decorated(i):
        @task(outputs=["x"])
        def step(x=0):
            return {"x": x + i}

        return step

    tasks = {f"t{i}": decorated(i) for i in range(n)}
    return DAG(tasks, [(f"t{i // 2}", f"t{i}") for i in range(1, n)])


def one_by_one(n):
    def adds(i):
        def body(graph):
            graph.add_task(f"t{i}", Step(), after=f"t{i - 1}")
            if i + 1 < n:
                graph.add_rule(adds(i + 1))

        return Rule(after(f"t{i - 1}"), body, name="adds")

    return DAG({"t0": Begin()}, rules=[adds(1)])


def by_map(n):
    return DAG({"source": source.bind(count=n - 1)}, rules=[map_over("source", "items", worker)])


def in_pairs(n):
    def adds(i):
        def body(graph):
            graph.add_task(f"a{i}", Step(), after="t0")
            graph.add_task(f"b{i}", Step(), after=f"a{i}")
            if 2 * i + 3 < n:
                graph.add_rule(adds(i + 1))

        return Rule(after("t0"), body, name="adds")

    return DAG({"t0": Begin()}, rules=[adds(0)])


GIVEN = [chain, fan, layered, shared, gathers, classes, functions]
GROWN = [one_by_one, by_map, in_pairs]
SHAPES = [*(shape.__name__ for shape in GIVEN + GROWN), "wfformat"]


# -- operations ----------------------------------------------------------------------------


class Case:
    """A shape of n tasks, and what operations need of it."""

    def __init__(self, shape, n, folder):
        self.shape, self.n, self.folder = shape, n, folder
        self.files = 0

    def new_path(self, ending=""):
        self.files += 1
        return self.folder / f"{self.shape}-{self.n}-{self.files}{ending}"

    def construct(self):
        return globals()[self.shape](self.n)

    @cached_property
    def dag(self):
        return self.construct()

    @cached_property
    def instance(self):
        """A WfFormat file of a layered graph."""
        path = self.new_path(".json")
        shared(self.n).run().export(path, "wfformat")
        return path

    def new_profile(self):
        """Return a profile that has not been asked for anything."""
        if self.shape == "wfformat":
            return import_profile(self.instance)
        return self.dag.run()

    @cached_property
    def saved(self):
        path = self.new_path(".json")
        self.new_profile().save(path)
        return path

    @cached_property
    def rounds(self):
        """A profile with samples, where there can be one."""
        return self.new_profile() if self.shape == "wfformat" else self.dag.run(rounds=3)


def construct(case):
    if case.shape == "wfformat":
        return partial(import_profile, case.instance)
    return case.construct


def run(case, **options):
    return partial(case.dag.run, **options)


def threads(case):
    def work():
        with ThreadPoolExecutor(2) as pool:
            case.dag.run(executor=pool)

    return work


def compare(case):
    new, base = copy.copy(case.rounds), copy.copy(case.rounds)
    return lambda: str(new.compare(base))


def export(case, name):
    options = {"network": {"speeds": {"a": 1}, "bandwidth": 1e5}} if name == "saga" else {}
    return partial(case.new_profile().export, case.new_path(), name, **options)


#: The page, format ``html``, is what `report` writes.
FORMATS = [name for name in exporter_names() if name != "html"]

#: Name to the operation, and how many tasks it is measured on with ``--quick``. It takes a case
#: and returns what is timed.
OPERATIONS = {
    "construct": (construct, 2_000),
    "run": (run, 2_000),
    "run, seeded": (partial(run, seed=42), 1_000),
    "run, 3 rounds": (partial(run, rounds=3), 100),
    "run, journal": (lambda case: run(case, hooks=[Journal(case.new_path())]), 100),
    "run, threads": (threads, 250),
    "print": (lambda case: partial(str, case.new_profile()), 250),
    "report": (lambda case: partial(case.new_profile().report, case.new_path(".html")), 250),
    "save": (lambda case: partial(case.new_profile().save, case.new_path(".json")), 250),
    "load": (lambda case: partial(Profile.load, case.saved), 250),
    "compare": (compare, 100),
    "simulate": (lambda case: partial(simulate, case.new_profile(), workers=4), 250),
    **{f"export {name}": (partial(export, name=name), 250) for name in FORMATS},
}
RUNS = {name for name in OPERATIONS if name.startswith("run")}
#: What there is not: a graph that grows is constructed while it runs; an imported one never runs,
#: and has no timeline.
ABSENT = {
    *(("construct", shape.__name__) for shape in GROWN),
    *((name, "wfformat") for name in (*RUNS, "export chrome_trace")),
}


# -- measuring -----------------------------------------------------------------------------


def seconds(operation, case):
    """Return the CPU time of an operation, the smallest of three."""
    return min(cpu_seconds(operation(case)) for _ in range(3))


def growth_of(operation, case_of, n):
    """Return how many times as long an operation takes on 4 n tasks as on n."""
    gc.collect()
    while (few_s := seconds(operation, case_of(n))) < LEAST_S:
        n *= 2
    few, many = case_of(n), case_of(FACTOR * n)
    growth = seconds(operation, many) / few_s
    for _ in range(5):
        if growth > MOST_GROWTH:
            # The machine may have become slower meanwhile: both anew, one right after the other.
            growth = min(growth, seconds(operation, many) / seconds(operation, few))
    return growth


def task_kb(operation, case):
    """Return the peak of the memory that an operation takes, as tracemalloc counts it."""
    work = operation(case)
    gc.collect()
    tracemalloc.start()
    try:
        _result = work()
        return tracemalloc.get_traced_memory()[1] / case.n / 1000
    finally:
        tracemalloc.stop()


def measure(operations, name):
    """Return the growth of time and the memory of each cell of one shape."""
    note(f"{name} ...")
    growth, memory_kb = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        case_of = lru_cache(None)(partial(Case, name, folder=Path(folder)))
        for cell in ((title, name) for title in operations):
            if cell in ABSENT:
                continue
            operation, n = OPERATIONS[cell[0]]
            growth[cell] = growth_of(operation, case_of, either(4 * n, n))
            if not QUICK:
                memory_kb[cell] = task_kb(operation, case_of(4 * n))
    return growth, memory_kb


def print_cells(what, cells, operations, shapes):
    texts = {cell: f"{value:.1f}" for cell, value in cells.items()}
    lines = [[title, *(texts.get((title, name), "-") for name in shapes)] for title in operations]
    print_table(" | ".join([what, *shapes]), lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a quarter of the tasks, no memory")
    parser.add_argument("--only", action="append", choices=OPERATIONS, metavar="OPERATION")
    parser.add_argument("--shape", action="append", choices=SHAPES, metavar="SHAPE")
    asked = parser.parse_args()
    operations, shapes = asked.only or [*OPERATIONS], asked.shape or SHAPES
    growth, memory_kb = {}, {}
    # CPU times, so that one shape on each core may be measured at once.
    with ProcessPoolExecutor() as pool:
        for of_shape in pool.map(partial(measure, operations), shapes):
            growth.update(of_shape[0])
            memory_kb.update(of_shape[1])
    print_machine(())
    print_cells("time of 4 n tasks over that of n", growth, operations, shapes)
    if memory_kb:
        print_cells("peak memory, kB a task", memory_kb, operations, shapes)
    too_steep = {cell: times for cell, times in growth.items() if times > MOST_GROWTH}
    for (title, name), times in too_steep.items():
        print(f"{title}, {name}: {FACTOR} times the tasks take {times:.1f} times as long")
    return 1 if too_steep else 0


if __name__ == "__main__":
    sys.exit(main())
