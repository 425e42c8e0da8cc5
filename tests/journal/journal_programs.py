"""What the tests of journals run; as a program it runs until it is killed, and then goes on.

``python journal_programs.py DIRECTORY EXECUTOR ROUNDS``: EXECUTOR is ``serial``, ``pool`` or
``dask``.
Every task leaves a line in DIRECTORY/marks; the outputs are in DIRECTORY/outputs at the end.
"""

from __future__ import annotations

import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from pathlib import Path

import dagprofiler
from dagprofiler import DAG, Journal, Rounds, Task

WIDTH, DEPTH = 5, 5


class Step(Task):
    """Adds up what arrives and a random number, and leaves a mark."""

    inputs = ["x"]
    gathers = ["x"]
    outputs = ["x"]

    def __init__(self, name: str, marks: str) -> None:
        super().__init__(name)
        self.marks = marks

    def compute(self, x):
        descriptor = os.open(self.marks, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(descriptor, f"{self.name}\n".encode())
        os.close(descriptor)
        time.sleep(0.005)
        return {"x": sum(x) + int(dagprofiler.rng().integers(2**40))}


def grid(marks: str) -> DAG:
    """Return layers of tasks, each of which takes from two of the layer before."""
    names = [[f"{layer}.{place}" for place in range(WIDTH)] for layer in range(DEPTH)]
    edges = [
        (names[layer][(place + shift) % WIDTH], names[layer + 1][place])
        for layer in range(DEPTH - 1)
        for place in range(WIDTH)
        for shift in (0, 1)
    ]
    tasks = {name: Step(name, marks) for layer in names for name in layer}
    return DAG(tasks, edges)


def main(directory: str, executor: str, rounds: int) -> None:
    folder = Path(directory)
    journal = folder / "journal"
    dag, pool, where = grid(str(folder / "marks")), None, None
    if executor == "pool":
        pool = where = ProcessPoolExecutor(2)
        pool.submit(int).result()
    elif executor == "dask":
        from distributed import Client

        from dagprofiler.executors.dask import DaskExecutor

        # Workers in threads: those in processes take seconds to start.
        pool = Client(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None)
        where = DaskExecutor(pool)
    begun = time.monotonic()
    # Kills are to come while tasks run, not while modules are loaded.
    import_module("dagprofiler.measure.random")
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    lines = journal / "journal.jsonl"
    if lines.exists() and lines.stat().st_size:
        profile = dag.resume(journal, executor=where)
    else:
        asked = Rounds(rounds, warmup=0)
        profile = dag.run(7, rounds=asked, executor=where, hooks=[Journal(journal)])
    (folder / "took_s").write_text(str(time.monotonic() - begun))
    profile.save(folder / "profile.json")
    (folder / "outputs").write_text(repr(profile.outputs))
    if pool is not None:
        pool.shutdown()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
