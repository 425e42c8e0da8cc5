"""What ``bench_core.py`` asks of a process: it measures the ``dagprofiler`` that it imports.

Where a result is to be compared with the bare loop, the bare loop was timed right before,
in this process, with the same task objects. Times are in seconds, memory in MiB.
"""

import gc
import json
import pickle
import random
import sys
import tempfile
from functools import lru_cache, partial
from importlib import import_module
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

import numpy as np

from dagprofiler import DAG, Config, Profile, Task

ARRAY_BYTES = 100_000_000
BLOCK_BYTES = 20_000_000
CONSUMERS = 16


# -- the bare loop -------------------------------------------------------------------------


def make_plan(tasks, edges):
    """Return what the bare loop needs, one step a task, and the number of values.

    `tasks` must be in topological order. A value is known by its index: a step holds the
    bound ``compute``, the fields to load with their values, the fields that gather lists of
    values, the fields to dump with their values, and the values whose last consumer it is.
    """
    incoming = {name: [] for name in tasks}
    for source, target in edges:
        incoming[target].append(source)
    values = {}
    last_use = {}
    steps = []
    for number, (name, task) in enumerate(tasks.items()):
        loads = []
        gathered = {field: [] for field in getattr(task, "gathers", ())}
        for source in incoming[name]:
            for field in tasks[source].outputs:
                if field not in task.inputs:
                    continue
                value = values[source, field]
                last_use[value] = number
                if field in gathered:
                    gathered[field].append(value)
                else:
                    loads.append((field, value))
        dumps = [(field, values.setdefault((name, field), len(values))) for field in task.outputs]
        last_use.update((value, number) for _, value in dumps)
        steps.append((task.compute, loads, list(gathered.items()), dumps, []))
    for value, number in last_use.items():
        steps[number][-1].append(value)
    return steps, len(values)


def run_bare(plan, cfg):
    """Call the tasks of a plan: the least that a run which measures its phases must do."""
    steps, count = plan
    dumps, loads, clock = pickle.dumps, pickle.loads, perf_counter
    protocol = pickle.HIGHEST_PROTOCOL
    blobs = [None] * count
    times = []
    for compute, fields, gathered, results, dead in steps:
        t0 = clock()
        inputs = {field: loads(blobs[value]) for field, value in fields}
        if gathered:
            for field, values in gathered:
                inputs[field] = [loads(blobs[value]) for value in values]
        t1 = clock()
        t2 = clock()
        outputs = compute(**inputs, cfg=cfg)
        t3 = clock()
        t4 = clock()
        for field, value in results:
            blobs[value] = dumps(outputs[field], protocol)
        t5 = clock()
        times.append((t1 - t0, t3 - t2, t5 - t4))
        for value in dead:
            blobs[value] = None
        del inputs, outputs
    return times


def timed(call):
    """Return the CPU time of `call`, after a garbage collection, and what it returned."""
    gc.collect()
    start = process_time()
    result = call()
    return process_time() - start, result


# -- the programs --------------------------------------------------------------------------


def kind(compute, outputs, inputs=(), gathers=()):
    """Return a class of tasks."""
    declared = {"inputs": [*inputs], "outputs": [*outputs], "gathers": [*gathers]}
    return type(Task)("Kind", (Task,), {**declared, "compute": compute})


Start = kind(lambda self, cfg=None: {"y": 1}, "y")
Step = kind(lambda self, y, cfg=None: {"y": 1}, "y", "y")
Gather = kind(lambda self, y, cfg=None: {"z": 1}, "z", "y", gathers="y")
Quarry = kind(lambda self, cfg=None: {"x": np.ones(cfg.n // 8)}, "x")
Peek = kind(lambda self, x, cfg=None: {"y": float(x[0])}, "y", "x")
Add = kind(lambda self, x, cfg=None: {"x": x + 1}, "x", "x")


class CountedArray(np.ndarray):
    """An array that counts how often it is pickled."""

    pickled = 0

    def __reduce_ex__(self, protocol):
        CountedArray.pickled += 1
        return super().__reduce_ex__(protocol)


CountedQuarry = kind(lambda self, cfg=None: {"x": np.ones(cfg.n // 8).view(CountedArray)}, "x")


def call():
    pass


#: How long it took to import what annotating needs.
importing_s = []


def annotate():
    begun = process_time()
    from dagprofiler import trace

    importing_s.append(process_time() - begun)
    globals()["call"] = trace(call)


Annotates = kind(lambda self, cfg=None: {"y": annotate()}, "y")
Calls = kind(lambda self, y, cfg=None: call() or {"y": 1}, "y", "y")


def chain(n, first=Start, step=Step):
    names = [f"t{i:07d}" for i in range(n)]
    tasks = {name: step() if i else first() for i, name in enumerate(names)}
    return tasks, list(zip(names, names[1:]))


def joins(field, degree):
    """Return a class of tasks that read the first `degree` of a, b, c and make `field`."""
    return kind(lambda self, a=None, b=None, c=None, cfg=None: {field: 1}, field, "abc"[:degree])


JOINS = {(k, degree): joins("abc"[k], degree) for k in range(3) for degree in range(4)}


def layered(n, least=3, width=99):
    """A layered random DAG: each task reads up to three of a, b and c from the layer above."""
    pick = random.Random(0)
    names, tasks, edges = [f"t{i:07d}" for i in range(n)], {}, []
    for i, name in enumerate(names):
        above = (i // width - 1) * width
        degree = pick.randint(least, 3) if above >= 0 else 0
        tasks[name] = JOINS[i % 3, degree]()
        edges += [(names[above + k + 3 * pick.randrange(width // 3)], name) for k in range(degree)]
    return tasks, edges


def sparse(n):
    """The same with in-degrees of 1 to 3, 2 in the mean."""
    return layered(n, 1)


def fan(n):
    names = [f"worker{i}" for i in range(n)]
    tasks = {"a": Start(), **{name: Step() for name in names}, "z": Gather()}
    return tasks, [("a", name) for name in names] + [(name, "z") for name in names]


# -- the measurements ----------------------------------------------------------------------


@lru_cache(1)
def make_run(shape, n):
    tasks, edges = globals()[shape](n)
    construct = partial(DAG, tasks, edges, Config())
    return construct, construct(), make_plan(tasks, edges)


def measure_run(shape, n):
    """Construct and run n no-op tasks, without and with a seed.

    `whole` is both, `read` is `run` and a first look at all metrics.
    """
    make, dag, plan = make_run(shape, n)
    bare, _ = timed(partial(run_bare, plan, dag.config))
    construct, _ = timed(make)
    seeded, _ = timed(partial(dag.run, seed=42))
    run, profile = timed(dag.run)
    start = process_time()
    metrics = profile.metrics
    _ = metrics.task_metrics, metrics.edge_metrics, metrics.node_weights, metrics.edge_weights
    read = run + process_time() - start
    took = {"bare": bare, "construct": construct, "run": run, "seeded": seeded, "read": read}
    return {**took, "whole": construct + run}


@lru_cache(1)
def make_broadcast(source, n, no_copy=False):
    names, options = [f"t{i:02d}" for i in range(CONSUMERS)], {}
    tasks = {"a": source(), **{name: Peek() for name in names}}
    edges = [("a", name) for name in names]
    if no_copy:
        from dagprofiler.serializers import OutOfBandPickle

        options["serializer"] = OutOfBandPickle()
    return DAG(tasks, edges, Config(n=n), **options), make_plan(tasks, edges)


def measure_array(no_copy=False):
    """Run one producer of an array and 16 consumers that read its first item."""
    dag, plan = make_broadcast(Quarry, ARRAY_BYTES, no_copy)
    bare, _ = timed(partial(run_bare, plan, dag.config))
    run, _ = timed(dag.run)
    return {"bare": bare, "run": run}


def count_serializations():
    """Count how often the array of the broadcast is pickled in one run. Once a process."""
    make_broadcast(CountedQuarry, 8000)[0].run()
    return CountedArray.pickled


def peak_mib():
    """Return the largest resident size of this process so far."""
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def measure_memory(length, bare=False):
    """Run a chain that passes 20 MB on; return the growth of the peak. Once a process."""
    program, cfg = chain(length, Quarry, Add), Config(n=BLOCK_BYTES)
    before = peak_mib()
    if bare:
        run_bare(make_plan(*program), cfg)
    else:
        DAG(*program, cfg).run()
    return peak_mib() - before


def measure_json(n):
    """Save and load the profile of n tasks; json's time for the same document beside it."""
    profile, took = make_run("sparse", n)[1].run(), {}
    compact = json.JSONEncoder(separators=(",", ":")).encode
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "profile.json"
        took["save"], _ = timed(partial(profile.save, path))
        took["again"], _ = timed(partial(profile.save, path))
        del profile
        took["dumps"], text = timed(partial(compact, json.loads(path.read_text())))
        took["loads"], parsed = timed(partial(json.loads, text))
        size = len(text)
        del text, parsed
        took["load"], _ = timed(partial(Profile.load, path))
    return {**took, "mib": size / 2**20}


def measure_overhead():
    """Run the README's Quick Start; return what share of its time went where.

    `reported` is what the profile calls overhead, `unknown` is in no figure at all.
    """
    sys.path.append(str(Path(__file__).resolve().parent.parent.parent / "docs" / "examples"))
    _, profile = timed(partial(import_module("quickstart").build_dag().run, seed=42))
    total, kinds = profile.metrics.total_time_ms, ("deserialize", "compute", "serialize")
    each = [getattr(t, f"{kind}_time_ms") for t in profile.metrics.task_metrics for kind in kinds]
    reported = 0
    if hasattr(profile, "to_dict"):
        reported = sum(profile.to_dict()["run"]["overhead"].values())
    return {"reported": reported / total, "unknown": 1 - (sum(each) + reported) / total}


def measure_million(n, shape):
    """Construct, run, save and load n no-op tasks; `peak` is of the whole process."""
    tasks, edges = globals()[shape](n)
    took = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "profile.json"
        took["construct"], dag = timed(partial(DAG, tasks, edges, Config()))
        took["run"], profile = timed(dag.run)
        took["save"], _ = timed(partial(profile.save, path))
        del dag, profile, tasks, edges
        took["load"], _ = timed(partial(Profile.load, path))
    return {"took": took, "peak": peak_mib()}


def measure_tracing(n, imported, annotated):
    """Return the time of each of n tasks that call what is annotated or not, and of such a call.

    Without `imported` the first task imports tracing, if that is needed. Once a process.
    """
    if imported:
        import_module("dagprofiler.tracing")
    late = annotated and not imported
    if annotated and not late:
        annotate()
    tasks, edges = chain(n, Annotates if late else Start, Calls if annotated else Step)
    dag = DAG(tasks, edges)
    runs_s = [timed(dag.run)[0] for _ in range(1 if late else 5)]
    if late:
        runs_s[0] -= importing_s[0]
    calls_s, _ = timed(lambda: [call() for _ in range(n)])
    return median(runs_s) / n, calls_s / n
