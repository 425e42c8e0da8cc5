"""Compare what libraries of graphs run themselves with the same under dagprofiler.

``python tests/benchmarks/bench_adapters.py [--quick] [--only ROW]``
"""

import os
import subprocess
import sys
import tempfile
from functools import wraps
from pathlib import Path
from statistics import median

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
from distributed import Client, LocalCluster
from hamilton import driver
from hamilton.ad_hoc_utils import create_temporary_module
from harness import CHECKOUT, in_turns, over, print_rows

# isort: split

import hamilton_steps

from dagprofiler import DAG
from dagprofiler.adapters.dask import profile_dask
from dagprofiler.adapters.hamilton import profile_hamilton


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


#: Of Hamilton's hello world.
OUTPUTS = ["avg_3wk_spend", "spend_per_signup", "spend_zero_mean_unit_variance"]


def longer(name):
    """Return a function of Hamilton's hello world that takes 10 ms more."""
    function = getattr(hamilton_steps, name)
    return wraps(function)(lambda *args, **kwargs: function(*args, **kwargs) + work())


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


# -- the rows ------------------------------------------------------------------------------


def beside(name, own, ours):
    """Run a workload by its library and here, which says what it recorded, too, in turns."""
    own()
    ours()
    theirs, found = [], []
    own_s, ours_s = in_turns(5, lambda: theirs.append(own()), lambda: found.append(ours()))
    equal = all(same(result, ours) for result, (ours, _) in zip(theirs, found))
    figures = (f"{median(took_s) * 1e3:,.0f}" for took_s in (own_s, ours_s))
    ratio = f"{median(over(ours_s, own_s)):.2f} x"
    yield name, "yes" if equal else "no", "1.3 x", *figures, ratio, found[-1][1]


def same(one, other):
    """Tell whether two results are equal, to the bit."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (pd.Series, pd.DataFrame)):
        return bool(one.sort_index().equals(other.sort_index()))
    return bool(np.array_equal(one, other))


def from_dask():
    for name, collection in (("array reduction", array(100)), ("group-by", group_by(100))):

        def ours(collection=collection):
            profile = DAG.from_dask(collection).run()
            count = len(profile.metrics.task_metrics)
            return profile.final_outputs["value"], f"{count:,} tasks, bytes of every edge"

        def own(collection=collection):
            return collection.compute(scheduler="sync")

        yield from beside(f"`from_dask`, {name}", own, ours)
    total = ((dask.array.ones((3_200,), chunks=1) + 1) * 2).sum(split_every=8)
    dags = []
    (took_s,) = in_turns(3, lambda: dags.append(DAG.from_dask(total, optimize=False)))
    figures = f"{min(took_s) * 1e3:,.0f}", "-", "-"
    yield f"conversion of {len(dags[0].tasks):,} keys", "-", "1 s for 10,000", "-", *figures


def from_hamilton():
    inputs = {
        "signups": pd.Series([1.0, 10, 50, 100, 200, 400] * 1000),
        "spend": pd.Series([10.0, 10, 20, 40, 40, 50] * 1000),
    }
    names = [*OUTPUTS, "spend_mean", "spend_zero_mean", "spend_std_dev"]
    module, recording = create_temporary_module(*map(longer, names)), profile_hamilton()
    plain = driver.Builder().with_modules(module).build()
    profiled = driver.Builder().with_modules(module).with_adapters(recording).build()

    def own():
        return plain.execute(OUTPUTS, inputs=inputs)

    def ours():
        profile = DAG.from_hamilton(plain, OUTPUTS, inputs=inputs).run()
        return profile.final_outputs["value"], f"{len(profile.metrics.task_metrics)} tasks"

    def recorded():
        result = profiled.execute(OUTPUTS, inputs=inputs)
        return result, f"{len(recording.profile.metrics.task_metrics)} nodes"

    yield from beside("`from_hamilton`, hello world", own, ours)
    yield from beside("`profile_hamilton`, the same", own, recorded)


def perfflowaspect():
    def run(module):
        paths = [str(CHECKOUT), os.environ.get("PYTHONPATH")]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        command = [sys.executable, "-c", TUTORIAL.format(module=module)]
        with tempfile.TemporaryDirectory() as folder:
            printed = subprocess.run(command, cwd=folder, env=env, capture_output=True, check=True)
            (trace,) = Path(folder).glob("*.pfw")
            spans = trace.read_text().count('"bas"')
        return float(printed.stdout), f"{spans} spans of bas"

    def own():
        return run("perfflowaspect.aspect")[0]

    yield from beside("PerfFlowAspect's tutorial", own, lambda: run("dagprofiler.tracing"))


def on_a_cluster():
    settings = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(processes=False, **settings) as cluster, Client(cluster) as client:
        for name, collection in (("array reduction", array(100)), ("group-by", group_by(100))):

            def recorded(collection=collection):
                with profile_dask(client) as recording:
                    result = collection.compute()
                sections = recording.profile.sections["dask"]
                count = len(sections["transfers"]["records"])
                return result, f"{len(sections['keys']):,} keys, {count} transfers"

            yield from beside(f"`profile_dask`, {name}", collection.compute, recorded)


if __name__ == "__main__":
    head = "workload | results equal | goal | own ms | here ms | ratio | recorded"
    rows = [from_dask, from_hamilton, perfflowaspect, on_a_cluster]
    print_rows(__doc__, rows, head, long=["perfflowaspect"])
