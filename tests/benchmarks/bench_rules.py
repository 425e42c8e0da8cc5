"""Measure what it costs to let a graph grow while it runs.

``python tests/benchmarks/bench_rules.py [--quick] [--only ROW]``
"""

import resource
from concurrent.futures import ProcessPoolExecutor
from statistics import median
from time import perf_counter
from timeit import timeit

from harness import Process, either, exponent, in_turns, print_rows, spread, times, turns, us
from shapes import Begin, Step, by_map, chain, in_pairs, one_by_one, source, worker  # noqa: F401 - weighed() has names of them

from dagprofiler import DAG, map_over, reduce, rule, task
from dagprofiler.rules import complete


@task(outputs=["items"], gathers=["x"])
def merge(x):
    return {"items": x}


def given(count):
    """Return the graph of by_map(), given whole; each edge carries one item."""
    names = [f"worker[{i}]" for i in range(count - 1)]
    tasks = {"source": Begin(), **dict.fromkeys(names, Step())}
    return DAG(tasks, [("source", name) for name in names])


def pool():
    """Time a map on two processes, against bare submit() on the same pool."""
    count = either(10_000, 2_000)
    with ProcessPoolExecutor(2) as processes:
        by_map(100).run(executor=processes)
        bare, static, ours = in_turns(
            9,
            lambda: [one.result() for one in [processes.submit(int) for _ in range(count)]],
            lambda: given(count).run(executor=processes),
            lambda: by_map(count).run(executor=processes),
        )
    work = f"{count:,}-task map of no-op tasks, 2-process pool, against bare submit()"
    yield work, "158 µs a task", "1.7 x", times(ours, bare)
    yield "… the same graph given statically", "-", "-", times(static, bare)
    figures = f"{us(bare, count)} and {us(ours, count)} µs"
    yield "… a task: bare, and ours", "-", "-", figures


def inline():
    """Time a map in this process, against the same graph given statically."""
    count = either(10_000, 2_000)
    whole = given(count)
    static, ours, alone = in_turns(
        15, lambda: given(count).run(), lambda: by_map(count).run(), whole.run
    )
    work = "the same inline, against the same graph given statically"
    yield work, "48 µs a task", "1.5 x", times(ours, static)
    yield "… against running it alone, constructed before", "-", "-", times(ours, alone)
    yield "… a task", "-", "-", f"{median(ours) / count * 1e6:.1f} µs"


def growing():
    """Time a chain each of whose tasks is added by the rule on the one before."""
    static, ours = in_turns(15, lambda: chain(1_000).run(), lambda: one_by_one(1_000).run())
    work = "chain of 1,000 tasks, each added by the rule on the one before, against a static one"
    yield work, "RecursionError", "linear, 3 x", times(ours, static)
    sizes = [1_000, 2_000, 4_000, *either([8_000, 16_000], [])]
    took = in_turns(3, *(one_by_one(size).run for size in sizes))
    slope = exponent(sizes, [min(each) for each in took])
    yield f"… from {sizes[0]:,} to {sizes[-1]:,} tasks", "-", "n^1.10", f"n^{slope:.2f}"


def stages():
    """Time three maps of width 100, each over what the merge before it returned."""
    rules = []
    for stage in range(3):
        before = f"merge {stage - 1}" if stage else "source"
        rules += [
            map_over(before, "items", worker, name=f"map {stage}"),
            reduce(f"map {stage}", merge, name=f"merge {stage}"),
        ]
    (took,) = in_turns(15, DAG({"source": source.bind(count=100)}, rules=rules).run)
    yield "map-reduce, width 100, 3 stages", "84 s", "0.1 s", f"{spread(took, '{:.4f}')} s"


def large():
    """Time and weigh a graph of many tasks, each run in a process of its own."""
    sizes = either((25_000, 50_000, 100_000), (6_250, 12_500, 25_000))
    process = Process("bench_rules")
    for grown, static, what in (
        ("by_map", "given", "by one rule"),
        ("in_pairs", "pairs", "a pair by each of half as many rules"),
    ):
        found = []
        for _ in turns(3):
            ours = [process.ask_afresh("weighed", make=grown, count=size) for size in sizes]
            found.append((*ours, process.ask_afresh("weighed", make=static, count=sizes[-1])))
        *_, ours, theirs = zip(*found)
        beside_s, memory, looked_at, alone = (
            times(*pair) for pair in zip(zip(*ours), zip(*theirs))
        )
        slope = exponent(sizes, [min(each)[0] for each in zip(*found)][: len(sizes)])
        work = f"{sizes[-1]:,} tasks grown, {what}: peak memory over import, against static"
        yield work, "-", "1.3 x", memory
        yield "… and after a look at dag_structure", "-", "1.3 x", looked_at
        yield "… of the run alone, though only the static graph exists before", "-", "-", alone
        figures = f"{beside_s}, n^{slope:.2f}"
        yield "… time against static, and how it grows", "-", "linear", figures


def weighed(make, count):
    """Return how long a graph takes to construct and run, and by how much peak memory grows.

    The last numbers are the growth after a look at ``dag_structure``, and that of the run alone.
    """
    make = globals()[make]
    make(10).run()
    before = peak()
    begun = perf_counter()
    dag = make(count)
    constructed = peak()
    profile = dag.run()
    took_s, grown = perf_counter() - begun, peak()
    assert profile.dag_structure
    return took_s, grown - before, peak() - before, grown - constructed


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def pairs(count):
    """Return the graph of in_pairs(), given whole."""
    tasks = {"t0": Begin()}
    edges = []
    for number in range(count // 2):
        tasks[f"a{number}"] = tasks[f"b{number}"] = Step()
        edges += [("t0", f"a{number}"), (f"a{number}", f"b{number}")]
    return DAG(tasks, edges)


def looking():
    """Time a look at a task by its name, and at the tasks with a tag."""
    sizes = 1_000, either(100_000, 10_000)
    found = [[looked(size) for size in sizes] for _ in turns(9)]
    for i, what in enumerate(("name", "tag")):
        few, many = ([took[i] for took in each] for each in zip(*found))
        work = f"look-up by {what} at {sizes[1]:,} tasks, against {sizes[0]:,}"
        figures = f"{times(many, few)}; {median(few) * 1e9:.0f} and {median(many) * 1e9:.0f} ns"
        yield work, "1.6 ms at 10,000", "constant", figures


def looked(size):
    """Return how long a look at a task takes, by its name and by its tag."""
    seconds = []

    @rule(complete("worker"))
    def look(graph):
        name = f"worker[{size // 2}]"
        # Nothing is held, or the garbage collector would go through the graph.
        looks = (lambda: graph[name], lambda: graph.tasks("source"))
        seconds.extend(timeit(look_up, number=10_000) / 10_000 for look_up in looks)

    tagged = source.bind(count=size)
    tagged.tags = ["source"]
    DAG({"source": tagged}, rules=[map_over("source", "items", worker), look]).run()
    return seconds


if __name__ == "__main__":
    rows = [pool, inline, growing, stages, large, looking]
    print_rows(__doc__, rows, "work | Adage | goal | measured")
