"""Measure what it costs to let a graph grow while it runs.

``python tests/benchmarks/bench_rules.py [--quick] [--only ROW]``
"""

import resource
import subprocess
import sys
from pathlib import Path
from statistics import median
from timeit import timeit

from harness import (
    NONE,
    exponent,
    in_turns,
    over,
    print_rows,
    run_where_installed,
    spread,
    timed,
    times,
    us,
)

if __name__ == "__main__":
    run_where_installed()

from bench_executors import submit_all, warm_pool

from dagprofiler import DAG, Rule, Task, map_over, reduce, rule
from dagprofiler.rules import after, complete


class Source(Task):
    """Hands out as many items as it is told to."""

    outputs = ["items"]

    def __init__(self, count):
        super().__init__()
        self.count = count

    def compute(self):
        return {"items": list(range(self.count))}


class Begin(Task):
    outputs = ["item"]

    def compute(self):
        return {"item": 0}


class Step(Task):
    inputs = ["item"]
    outputs = ["item"]

    def compute(self, item):
        return {"item": item}


class Merge(Task):
    inputs = ["item"]
    gathers = ["item"]
    outputs = ["items"]

    def compute(self, item):
        return {"items": item}


def mapped(count):
    """Return a DAG that becomes one task, and one for each of its items."""
    return DAG({"source": Source(count)}, rules=[map_over("source", "items", Step)])


def given(count):
    """Return the same graph, given whole; each edge carries one item."""
    names = [f"Step[{i}]" for i in range(count)]
    return DAG(
        {"source": Begin, **dict.fromkeys(names, Step)}, [("source", name) for name in names]
    )


def growing_chain(count):
    """Return a DAG of one task, and a rule that adds a task and the next such rule."""

    def link(number):
        def body(graph):
            graph.add_task(f"t{number}", Step, after=f"t{number - 1}")
            if number + 1 < count:
                graph.add_rule(link(number + 1))

        return Rule(after(f"t{number - 1}"), body, name="link")

    return DAG({"t0": Begin}, rules=[link(1)])


def chain(count):
    """Return the same graph, given whole."""
    tasks = {"t0": Begin, **{f"t{i}": Step for i in range(1, count)}}
    return DAG(tasks, [(f"t{i - 1}", f"t{i}") for i in range(1, count)])


def pool(*, quick):
    """Time a map on two processes, against bare submit() on the same pool."""
    count = 2_000 if quick else 10_000
    with warm_pool() as processes:
        bare, static, ours = in_turns(
            3 if quick else 9,
            lambda: [one.result() for one in submit_all(processes, count)],
            lambda: given(count).run(executor=processes),
            lambda: mapped(count).run(executor=processes),
        )
    work = f"{count:,}-task map of no-op tasks, 2-process pool, against bare submit()"
    yield work, "158 µs a task", "1.7 x", times(over(ours, bare))
    yield "… the same graph given statically", NONE, NONE, times(over(static, bare))
    figures = f"{us(bare, count)} and {us(ours, count)} µs"
    yield "… a task: bare, and ours", NONE, NONE, figures


def inline(*, quick):
    """Time a map in this process, against the same graph given statically."""
    count = 2_000 if quick else 10_000
    static, ours, alone = in_turns(
        3 if quick else 15,
        lambda: given(count).run(),
        lambda: mapped(count).run(),
        given(count).run,
    )
    work = "the same inline, against the same graph given statically"
    yield work, "48 µs a task", "1.5 x", times(over(ours, static))
    yield "… against running it alone, constructed before", NONE, NONE, times(over(ours, alone))
    yield "… a task", NONE, NONE, f"{median(ours) / count * 1e6:.1f} µs"


def chains(*, quick):
    """Time a chain each of whose tasks is added by the rule on the one before."""
    rounds = 3 if quick else 15
    static, ours = in_turns(rounds, lambda: chain(1_000).run(), lambda: growing_chain(1_000).run())
    work = "chain of 1,000 tasks, each added by the rule on the one before, against a static one"
    yield work, "RecursionError", "linear, 3 x", times(over(ours, static))
    sizes = (1_000, 2_000, 4_000, 8_000, 16_000)[: 3 if quick else 5]
    took = in_turns(3, *(growing_chain(size).run for size in sizes))
    slope = exponent(sizes, [min(each) for each in took])
    yield f"… up to {sizes[-1]:,} tasks", NONE, "n^1", f"n^{slope:.2f}"


def stages(*, quick):
    """Time three maps of width 100, each over what the merge before it returned."""
    rules = []
    for stage in range(3):
        source = f"merge {stage - 1}" if stage else "source"
        rules += [
            map_over(source, "items", Step, name=f"map {stage}"),
            reduce(f"map {stage}", Merge, name=f"merge {stage}"),
        ]
    (took,) = in_turns(5 if quick else 15, DAG({"source": Source(100)}, rules=rules).run)
    yield "map-reduce, width 100, 3 stages", "84 s", "0.1 s", f"{spread(took, '{:.4f}')} s"


def large(*, quick):
    """Time and weigh a graph of many tasks, each run in a process of its own."""
    sizes = (6_250, 12_500, 25_000) if quick else (25_000, 50_000, 100_000)
    for shape in ("map", "pairs"):
        seconds = {size: [] for size in sizes}
        memory, looked_at, beside = [], [], []
        for _ in range(1 if quick else 3):
            for size in sizes:
                took, *peaks = weighed(f"grown {shape}", size)
                seconds[size].append(took)
            static_s, *static_peaks = weighed(f"given {shape}", size)
            for ratios, peak, static_peak in zip((memory, looked_at), peaks, static_peaks):
                ratios.append(peak / static_peak)
            beside.append(took / static_s)
        slope = exponent(sizes, [min(each) for each in seconds.values()])
        what = {"map": "by one rule", "pairs": "a pair by each of half as many rules"}[shape]
        work = f"{sizes[-1]:,} tasks grown, {what}: peak memory over import, against static"
        yield work, NONE, "1.2 x", times(memory)
        yield "… and after a look at dag_structure", NONE, "1.2 x", times(looked_at)
        yield (
            "… time against static, and how it grows",
            NONE,
            "linear",
            (f"{times(beside)}, n^{slope:.2f}"),
        )


def weighed(shape, size):
    """Return how long a graph takes in a new process, and by how much its peak memory grows.

    The last number is the growth after a look at ``dag_structure``.
    """
    code = f"import bench_rules; bench_rules.weigh({shape!r}, {size})"
    printed = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parent,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout.split()
    return [float(number) for number in printed]


def weigh(shape, size):
    """Construct and run a graph, and print what that takes."""
    make = {
        "grown map": mapped,
        "given map": given,
        "grown pairs": growing_pairs,
        "given pairs": pairs,
    }[shape]
    make(10).run()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    profiles = []
    print(timed(lambda: profiles.append(make(size).run())))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    assert profiles[0].dag_structure
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)


def growing_pairs(count):
    """Return a DAG of one task, and a rule that adds two tasks behind it and the next such rule."""

    def add(number):
        def body(graph):
            graph.add_task(f"a{number}", Step, after="t0")
            graph.add_task(f"b{number}", Step, after=f"a{number}")
            if 2 * number + 2 < count:
                graph.add_rule(add(number + 1))

        return Rule(after("t0"), body, name="add")

    return DAG({"t0": Begin}, rules=[add(0)])


def pairs(count):
    """Return the same graph, given whole."""
    tasks = {"t0": Begin}
    edges = []
    for number in range(count // 2):
        tasks[f"a{number}"] = tasks[f"b{number}"] = Step
        edges += [("t0", f"a{number}"), (f"a{number}", f"b{number}")]
    return DAG(tasks, edges)


def looking(*, quick):
    """Time a look at a task by its name, and at the tasks with a tag."""
    sizes = (1_000, 10_000) if quick else (1_000, 100_000)
    by_name, by_tag = [], []
    for _ in range(3 if quick else 9):
        found = [looked(size) for size in sizes]
        by_name.append([one[0] for one in found])
        by_tag.append([one[1] for one in found])
    for what, took in (("name", by_name), ("tag", by_tag)):
        few, many = (median(each) for each in zip(*took))
        yield (
            f"look-up by {what} at {sizes[1]:,} tasks, against {sizes[0]:,}",
            "1.6 ms at 10,000",
            "constant",
            f"{times([b / a for a, b in took])}; {few * 1e9:.0f} and {many * 1e9:.0f} ns",
        )


def looked(size):
    """Return how long a look at a task takes, by its name and by its tag."""
    seconds = []

    @rule(complete("Step"))
    def look(graph):
        name = f"Step[{size // 2}]"
        for look_up in (lambda: graph[name], lambda: graph.tasks("source")):
            # Nothing is held, or the garbage collector would go through the graph.
            took = timeit(look_up, number=10_000)
            seconds.append(took / 10_000)

    source = Source(size)
    source.tags = ["source"]
    DAG({"source": source}, rules=[map_over("source", "items", Step), look]).run()
    return seconds[0], seconds[1]


ROWS = {
    "pool": pool,
    "inline": inline,
    "chain": chains,
    "stages": stages,
    "large": large,
    "looking": looking,
}


if __name__ == "__main__":
    print_rows(__doc__, ROWS, "work | Adage | goal | measured")
