"""Compare what libraries of graphs run themselves with the same under dagprofiler.

``python tests/benchmarks/bench_adapters.py [--rounds N]``
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from importlib.util import find_spec
from operator import itemgetter
from pathlib import Path
from statistics import median
from time import perf_counter
from types import ModuleType
from typing import Any, Callable, NamedTuple

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
from distributed import Client, LocalCluster
from hamilton import driver
from harness import CHECKOUT, NONE, print_rows

from dagprofiler import DAG
from dagprofiler.adapters.dask import profile_dask
from dagprofiler.adapters.hamilton import profile_hamilton


class Row(NamedTuple):
    """A workload: what the library runs, what dagprofiler runs, and what was recorded."""

    name: str
    own: Callable[[], Any]
    ours: Callable[[], tuple[Any, str]]


def work(value=0.0):
    """Compute for some 10 ms."""
    return float(value) + sum(map(float.__abs__, map(float, range(100_000)))) * 0


def worked(block):
    """Return a block of an array, or a part of a dataframe, after the same work."""
    return block + work()


def array(chunks):
    """Return a reduction whose blocks take 10 ms each."""
    x = da.random.default_rng(1).random((chunks * 10, 100), chunks=(10, 100))
    return (x.map_blocks(worked, meta=np.empty((0, 0))) - x.mean(axis=0)).std(axis=0)


def part(number):
    """Return one part of a dataframe, made in 10 ms."""
    work()
    random = np.random.default_rng(number)
    return pd.DataFrame({"k": random.integers(0, 100, 200), "v": random.random(200)})


def group_by(parts):
    """Return a group-by of some 10 keys a part."""
    frame = dd.from_map(part, range(parts))
    return frame.groupby("k").v.agg(["mean", "std", "max"], split_out=8, shuffle_method="tasks")


def hamilton_steps():
    """Return Hamilton's hello world, each of whose functions takes 10 ms more."""
    module = ModuleType("hamilton_steps")
    module.__dict__.update(pd=pd, work=work)
    body = """
def avg_3wk_spend(spend: pd.Series) -> pd.Series:
    return spend.rolling(3).mean() + work()
def spend_per_signup(spend: pd.Series, signups: pd.Series) -> pd.Series:
    return spend / signups + work()
def spend_mean(spend: pd.Series) -> float:
    return spend.mean() + work()
def spend_zero_mean(spend: pd.Series, spend_mean: float) -> pd.Series:
    return spend - spend_mean + work()
def spend_std_dev(spend: pd.Series) -> float:
    return spend.std() + work()
def spend_zero_mean_unit_variance(spend_zero_mean: pd.Series, spend_std_dev: float) -> pd.Series:
    return spend_zero_mean / spend_std_dev + work()
"""
    exec(body, module.__dict__)
    sys.modules[module.__name__] = module
    return module


#: PerfFlowAspect's tutorial, with work instead of sleep.
TUTORIAL = """
import sys
import {module} as aspect
@aspect.critical_path()
def bas():
    return sum(map(float, range(100_000)))
@aspect.critical_path()
def bar(message):
    return bas()
@aspect.critical_path()
def foo():
    return bar("hello")
print(sum(foo() for _ in range(200)))
"""


def program(module):
    """Run the tutorial with one import; return what it prints."""
    paths = [str(CHECKOUT), os.environ.get("PYTHONPATH")]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", TUTORIAL.format(module=module)],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
            capture_output=True,
            text=True,
            check=True,
        )
        (trace,) = Path(folder).glob("*.pfw")
        program.spans = trace.read_text().count('"bas"')
    return done.stdout


@contextmanager
def rows():
    """Yield the workloads, with what they need."""

    def dag_of_dask(collection):
        profile = DAG.from_dask(collection).run()
        times = profile.metrics.task_metrics
        return profile.final_outputs["value"], f"{len(times):,} tasks, bytes of every edge"

    def recorded(collection):
        with profile_dask(client) as recording:
            result = collection.compute()
        sections = recording.profile.sections
        transfers = len(sections["dask"]["transfers"]["records"])
        return result, f"{len(sections['dask']['keys']):,} keys, {transfers} transfers"

    inputs = {
        "signups": pd.Series([1.0, 10, 50, 100, 200, 400] * 1000),
        "spend": pd.Series([10.0, 10, 20, 40, 40, 50] * 1000),
    }
    outputs = ["avg_3wk_spend", "spend_per_signup", "spend_zero_mean_unit_variance"]
    plain = driver.Builder().with_modules(hamilton_steps()).build()
    recording = profile_hamilton()
    profiled = driver.Builder().with_modules(hamilton_steps()).with_adapters(recording).build()

    def dag_of_hamilton():
        profile = DAG.from_hamilton(plain, outputs, inputs=inputs).run()
        return profile.final_outputs["value"], f"{len(profile.metrics.task_metrics)} tasks"

    def recorded_hamilton():
        result = profiled.execute(outputs, inputs=inputs)
        return result, f"{len(recording.profile.metrics.task_metrics)} nodes"

    def traced():
        result = program("dagprofiler.tracing")
        return result, f"{program.spans} spans of bas"

    reduction, grouped = array(100), group_by(100)
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        local = {"scheduler": "sync"}
        made = [
            Row("Dask array", lambda: reduction.compute(**local), lambda: dag_of_dask(reduction)),
            Row("Dask group-by", lambda: grouped.compute(**local), lambda: dag_of_dask(grouped)),
            Row("Hamilton", lambda: plain.execute(outputs, inputs=inputs), dag_of_hamilton),
            Row(
                "Hamilton's own run",
                lambda: plain.execute(outputs, inputs=inputs),
                recorded_hamilton,
            ),
        ]
        if find_spec("perfflowaspect"):
            made.append(
                Row("PerfFlowAspect's tutorial", lambda: program("perfflowaspect.aspect"), traced)
            )
        with client.as_current():
            made += [
                Row("a cluster's array", reduction.compute, lambda: recorded(reduction)),
                Row("a cluster's group-by", grouped.compute, lambda: recorded(grouped)),
            ]
            yield made


def same(one, other):
    """Tell whether two results are equal, to the bit."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (pd.Series, pd.DataFrame)):
        return bool(one.sort_index().equals(other.sort_index()))
    return bool(np.array_equal(one, other))


def seconds(call):
    """Return the time of a call, and its result."""
    begun = perf_counter()
    result = call()
    return perf_counter() - begun, result


def workloads(*, quick, rounds):
    """Run each workload by its library and here in turns."""
    with rows() as made:
        for row in made:
            turns = range(1 + (1 if quick else rounds))
            turns = [(seconds(row.own), seconds(row.ours)) for _ in turns][1:]
            equal = all(same(result, ours) for (_, result), (_, (ours, _)) in turns)
            own_ms, ours_ms = (median(turn[i][0] for turn in turns) * 1e3 for i in (0, 1))
            ratio = median(ours[0] / own[0] for own, ours in turns)
            figures = f"{own_ms:,.0f}", f"{ours_ms:,.0f}", f"{ratio:.2f}"
            yield row.name, "yes" if equal else "no", *figures, turns[-1][1][1][1]
    many = dask.array.ones((3_200,), chunks=1)
    total = ((many + 1) * 2).sum(split_every=8)
    took = [seconds(lambda: DAG.from_dask(total, optimize=False)) for _ in range(3)]
    took_s, dag = min(took, key=itemgetter(0))
    yield f"conversion of {len(dag.tasks):,} keys", NONE, NONE, f"{took_s * 1e3:,.0f}", NONE, NONE


if __name__ == "__main__":
    head = "workload | equal | own ms | here ms | ratio | recorded"
    print_rows(__doc__, {"workloads": workloads}, head, rounds=5)
