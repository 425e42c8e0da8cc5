"""Measure what a journal costs.

``python tests/benchmarks/bench_journal.py [--quick] [--only ROW]``
"""

import os
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

from harness import CACHE, either, in_turns, print_rows, timed, times, turns

from dagprofiler import DAG, Journal, task

SIZES = {"100 bytes": 100, "10 kB": 10_000, "1 MB": 1_000_000, "20 MB": 20_000_000}


@task(outputs=["x"])
def data(value):
    return {"x": value}


@task(outputs=["x"])
def busy():
    end = perf_counter() + 1e-3
    while perf_counter() < end:
        pass
    return {"x": 1}


class Timed(Journal):
    """A journal that times its lines."""

    def __init__(self, directory):
        super().__init__(directory)
        self.took_s = []

    def task_finished(self, record):
        self.took_s.append(timed(lambda: Journal.task_finished(self, record)))


def journaled(dag):
    """Run a DAG with a new journal; return the profile and the journal."""
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        journal = Timed(Path(folder, "journal"))
        return dag.run(hooks=[journal]), journal


def running():
    """Time a run with a journal, against the same without."""
    count = either(2_000, 200)
    dag = DAG(dict.fromkeys((f"t{i:04}" for i in range(count)), busy))
    without, ours = in_turns(9, dag.run, lambda: journaled(dag))
    yield f"{count:,} tasks of 1 ms, against a run without a journal", "1.3 x", times(ours, without)


def cost(nbytes, count):
    """Return the seconds a task for its outputs, and for its line."""
    dag = DAG({f"t{i:04}": data.bind(value=os.urandom(nbytes)) for i in range(count)})
    profile, journal = journaled(dag)
    outputs_s = profile.sections["run"]["overhead"]["journal_ms"] / 1e3
    return outputs_s / count, sum(journal.took_s) / count


def writing():
    """Time what a journal writes of a task."""
    for name, nbytes in SIZES.items():
        count = max(2, min(100, 160_000_000 // nbytes) // either(1, 4))
        costs = zip(*(cost(nbytes, count) for _ in turns(9)))
        each_ms = " and ".join(f"{median(took) * 1e3:.3f}" for took in costs)
        yield f"a task that makes {name}: its outputs and its line", "-", f"{each_ms} ms"


if __name__ == "__main__":
    CACHE.mkdir(parents=True, exist_ok=True)
    print_rows(__doc__, [running, writing])
