"""One contender of the benchmark: the ``dagprofiler`` that this interpreter imports.

Started by ``bench_core.py`` and kept alive. Every line on standard input names one
measurement, ``["chain", {"n": 10000}]``; every line on standard output is its result.
Where a result is to be compared with the bare loop, the bare loop was timed right before,
in this process, with the same task objects. Times are in seconds, memory in MiB.
"""

from __future__ import annotations

import gc
import json
import pickle
import random
import sys
import tempfile
from collections import Counter
from functools import partial
from importlib import import_module
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

from dagprofiler import DAG, Config, Profile, Task

Edges = list[tuple[str, str]]
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


class Start(Task):
    outputs = ["y"]

    def compute(self, cfg=None):
        return {"y": 1}


class Step(Task):
    inputs = ["y"]
    outputs = ["y"]

    def compute(self, y, cfg=None):
        return {"y": 1}


class Gather(Task):
    inputs = ["y"]
    outputs = ["z"]
    gathers = ["y"]

    def compute(self, y, cfg=None):
        return {"z": 1}


def starts(field):
    """Return a class of tasks without inputs and with the output `field`."""

    class First(Task):
        outputs = [field]

        def compute(self, cfg=None):
            return {field: 1}

    return First


def joins(field):
    """Return a class of tasks with the inputs a, b, c and the output `field`."""

    class Join(Task):
        inputs = ["a", "b", "c"]
        outputs = [field]

        def compute(self, a, b, c, cfg=None):
            return {field: 1}

    return Join


STARTS = [starts(field) for field in "abc"]
JOINS = [joins(field) for field in "abc"]


class Quarry(Task):
    outputs = ["x"]

    def compute(self, cfg=None):
        return {"x": np.ones(cfg.n // 8)}


class Peek(Task):
    inputs = ["x"]
    outputs = ["y"]

    def compute(self, x, cfg=None):
        return {"y": float(x[0])}


class Add(Task):
    inputs = ["x"]
    outputs = ["x"]

    def compute(self, x, cfg=None):
        return {"x": x + 1}


class CountedArray(np.ndarray):
    """An array that counts how often it is pickled."""

    pickled: Counter[str] = Counter()

    def __reduce_ex__(self, protocol):
        self.pickled["times"] += 1
        return super().__reduce_ex__(protocol)


class CountedQuarry(Quarry):
    def compute(self, cfg=None):
        return {"x": super().compute(cfg)["x"].view(CountedArray)}


def chain(n):
    names = [f"t{i:07d}" for i in range(n)]
    tasks = {name: Step() if i else Start() for i, name in enumerate(names)}
    return tasks, list(zip(names, names[1:]))


def layered(n, width=99):
    """A layered random DAG: each task reads a, b and c from three tasks of the layer above."""
    pick = random.Random(0)
    names = [f"t{i:07d}" for i in range(n)]
    tasks = {}
    edges = []
    for i, name in enumerate(names):
        above = (i // width - 1) * width
        tasks[name] = JOINS[i % 3]() if above >= 0 else STARTS[i % 3]()
        if above >= 0:
            edges += [(names[above + 3 * pick.randrange(width // 3) + k], name) for k in range(3)]
    return tasks, edges


def fan(n):
    names = [f"worker{i}" for i in range(n)]
    tasks = {"a": Start(), **{name: Step() for name in names}, "z": Gather()}
    return tasks, [("a", name) for name in names] + [(name, "z") for name in names]


def broadcast(source):
    names = [f"t{i:02d}" for i in range(CONSUMERS)]
    return {"a": source, **{name: Peek() for name in names}}, [("a", name) for name in names]


def sparse(n, width=99):
    """A layered DAG of n no-op tasks, in-degree 1 to 3 (2 in the mean)."""
    pick = random.Random(0)
    names = [f"t{i:07d}" for i in range(n)]
    tasks = {}
    edges = []
    for i, name in enumerate(names):
        above = (i // width - 1) * width
        degree = pick.randint(1, 3) if above >= 0 else 0
        tasks[name] = SPARSE[i % 3, degree]()
        edges += [(names[above + k + 3 * pick.randrange(width // 3)], name) for k in range(degree)]
    return tasks, edges


def make_sparse(n):
    return DAG(*sparse(n), Config())


def sparse_class(field, degree):
    """Return a class of tasks that read the first `degree` of a, b, c and make `field`."""

    class Sparse(Task):
        inputs = list("abc"[:degree])
        outputs = [field]

        def compute(self, cfg=None, **values):
            return {field: 1}

    return Sparse


SPARSE = {(k, degree): sparse_class("abc"[k], degree) for k in range(3) for degree in range(4)}


# -- the measurements ----------------------------------------------------------------------

SHAPES = {"chain": chain, "layered": layered}
ready = {}


def once(make, *args):
    """Return ``make(*args)``, made at the first call."""
    key = (make, args)
    if key not in ready:
        ready.clear()
        ready[key] = make(*args)
    return ready[key]


def make_run(shape, n):
    tasks, edges = SHAPES[shape](n)
    construct = partial(DAG, tasks, edges, Config())
    return construct, construct(), make_plan(tasks, edges)


def read_all(profile):
    metrics = profile.metrics
    return (metrics.task_metrics, metrics.edge_metrics, metrics.node_weights, metrics.edge_weights)


def measure_run(shape, n):
    """Construct and run n no-op tasks, without and with a seed.

    `read` is `run` and a first look at all metrics.
    """
    make, dag, plan = once(make_run, shape, n)
    bare, _ = timed(partial(run_bare, plan, dag.config))
    construct, _ = timed(make)
    seeded, _ = timed(partial(dag.run, seed=42))
    run, profile = timed(dag.run)
    start = process_time()
    read_all(profile)
    read = run + process_time() - start
    return {"bare": bare, "construct": construct, "run": run, "seeded": seeded, "read": read}


def measure_fan(n):
    """Construct and run one source, n workers and one sink."""
    tasks, edges = fan(n)
    plan, cfg = make_plan(tasks, edges), Config()
    bare, _ = timed(partial(run_bare, plan, cfg))
    run, _ = timed(lambda: DAG(tasks, edges, cfg).run())
    seeded, _ = timed(lambda: DAG(tasks, edges, cfg).run(seed=42))
    return {"bare": bare, "run": run, "seeded": seeded}


def make_broadcast(n, no_copy):
    tasks, edges = broadcast(Quarry())
    cfg = Config(n=n)
    options = {}
    if no_copy:
        from dagprofiler.serializers import OutOfBandPickle

        options["serializer"] = OutOfBandPickle()
    return DAG(tasks, edges, cfg, **options), make_plan(tasks, edges), cfg


def measure_array(n=ARRAY_BYTES, no_copy=False):
    """Run one producer of an n-byte array and 16 consumers that read its first item."""
    dag, plan, cfg = once(make_broadcast, n, no_copy)
    bare, _ = timed(partial(run_bare, plan, cfg))
    run, _ = timed(dag.run)
    return {"bare": bare, "run": run}


def count_serializations(no_copy=False):
    """Count how often the array of the broadcast is pickled in one run."""
    tasks, edges = broadcast(CountedQuarry())
    CountedArray.pickled.clear()
    DAG(tasks, edges, Config(n=8000)).run()
    return CountedArray.pickled["times"]


def peak_mib():
    """Return the largest resident size of this process so far."""
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def measure_memory(length, bare=False):
    """Run a chain that passes 20 MB on; return the growth of the peak. Once a process."""
    names = [f"t{i:04d}" for i in range(length)]
    tasks = {name: Add() if i else Quarry() for i, name in enumerate(names)}
    edges, cfg = list(zip(names, names[1:])), Config(n=BLOCK_BYTES)
    before = peak_mib()
    if bare:
        run_bare(make_plan(tasks, edges), cfg)
    else:
        DAG(tasks, edges, cfg).run()
    return peak_mib() - before


def document_of(profile):
    """Return the document that saving a profile writes."""
    if hasattr(profile, "to_dict"):
        return profile.to_dict()
    return {
        "metadata": {"seed": profile.seed, "timestamp": profile.timestamp},
        "configuration": profile.config.to_dict(),
        "dag_structure": profile.dag_structure,
        "node_weights": profile.metrics.node_weights,
        "edge_weights": profile.metrics.edge_weights,
        "execution_metrics": [task.to_dict() for task in profile.metrics.task_metrics],
        "total_time_ms": profile.metrics.total_time_ms,
    }


def measure_json(n):
    """Save and load the profile of n tasks; json's time for the same document beside it."""
    profile = once(make_sparse, n).run()
    compact = json.JSONEncoder(separators=(",", ":")).encode
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "profile.json"
        save, _ = timed(partial(profile.save, path))
        again, _ = timed(partial(profile.save, path))
        dumps, text = timed(partial(compact, document_of(profile)))
        del profile
        loads, parsed = timed(partial(json.loads, text))
        size = len(text)
        del text, parsed
        load, _ = timed(partial(Profile.load, path))
    return {
        "dumps": dumps,
        "loads": loads,
        "save": save,
        "again": again,
        "load": load,
        "mib": size / 2**20,
    }


def measure_overhead():
    """Run the README's Quick Start; return what share of its time went where.

    `reported` is what the profile calls overhead, `unknown` is in no figure at all.
    """
    sys.path.append(str(Path(__file__).resolve().parent.parent.parent / "docs" / "examples"))
    dag = import_module("quickstart").build_dag()
    _, profile = timed(partial(dag.run, seed=42))
    total = profile.metrics.total_time_ms
    phases = sum(
        task.deserialize_time_ms + task.compute_time_ms + task.serialize_time_ms
        for task in profile.metrics.task_metrics
    )
    reported = 0
    if hasattr(profile, "to_dict"):
        reported = sum(profile.to_dict()["run"]["overhead"].values())
    return {"reported": reported / total, "unknown": 1 - (phases + reported) / total}


def measure_million(n, shape):
    """Construct, run, save and load n no-op tasks; `peak` is of the whole process."""
    tasks, edges = {"chain": chain, "sparse": sparse}[shape](n)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "profile.json"
        construct, dag = timed(partial(DAG, tasks, edges, Config()))
        run, profile = timed(dag.run)
        save, _ = timed(partial(profile.save, path))
        del dag, profile, tasks, edges
        load, _ = timed(partial(Profile.load, path))
    return {"construct": construct, "run": run, "save": save, "load": load, "peak": peak_mib()}


MEASUREMENTS = {
    "versions": lambda: [sys.version.split()[0], np.__version__],
    "run": measure_run,
    "fan": measure_fan,
    "array": measure_array,
    "count": count_serializations,
    "memory": measure_memory,
    "json": measure_json,
    "overhead": measure_overhead,
    "million": measure_million,
}


def main():
    """Answer the requests on standard input until it ends."""
    for line in sys.stdin:
        name, arguments = json.loads(line)
        print(json.dumps(MEASUREMENTS[name](**arguments)), flush=True)


if __name__ == "__main__":
    main()
