"""Measure what a journal costs.

``python tests/benchmarks/bench_journal.py [--quick] [--only ROW]``
"""

import os
import shutil
import tempfile
from functools import partial
from pathlib import Path
from statistics import median

from harness import CACHE, NONE, in_turns, over, print_rows, run_where_installed, spread, timed

if __name__ == "__main__":
    run_where_installed()

from dagprofiler import DAG, Hook, Journal, Task

SIZES = {"100 bytes": 100, "10 kB": 10_000, "1 MB": 1_000_000, "20 MB": 20_000_000}


class Bytes(Task):
    outputs = ["x"]

    def __init__(self, nbytes):
        super().__init__()
        self.value = os.urandom(nbytes)

    def compute(self):
        return {"x": self.value}


class Beside(Hook):
    """Writes and syncs the same bytes by itself, in turns with the journal, and times it."""

    def __init__(self, path, data):
        self.data = data
        self.took_s = []
        self._file = path.open("xb")

    def task_finished(self, record):
        self.took_s.append(timed(self._write))

    def _write(self):
        self._file.write(self.data)
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self):
        self._file.close()


class Timed(Journal):
    """A journal that times its records."""

    def __init__(self, directory):
        super().__init__(directory)
        self.took_s = []

    def task_finished(self, record):
        self.took_s.append(timed(partial(super().task_finished, record)))


def cost(nbytes, count):
    """Return the seconds a task of a journal, of its records alone, and of writing bare."""
    dag = DAG({f"t{i:04}": Bytes(nbytes) for i in range(count)})
    directory = Path(tempfile.mkdtemp(dir=CACHE))
    try:
        data = next(iter(dag.tasks.values())).serialize({"x": os.urandom(nbytes)})
        bare, journal = Beside(directory / "bare", data), Timed(directory / "journal")
        profile = dag.run(hooks=[journal, bare])
        outputs_s = profile.sections["run"]["overhead"]["journal_ms"] / 1e3
        records_s = sum(journal.took_s)
        return (outputs_s + records_s) / count, records_s / count, sum(bare.took_s) / count
    finally:
        shutil.rmtree(directory)


def writing(*, quick):
    """Time what a journal writes of a task, beside the same bytes written and synced."""
    for name, nbytes in SIZES.items():
        count = max(2, min(100, 160_000_000 // nbytes) // (4 if quick else 1))
        took = [cost(nbytes, count) for _ in range(3 if quick else 9)]
        ratios = [ours / bare for ours, _, bare in took]
        ours_ms, records_ms, bare_ms = (median(each) * 1e3 for each in zip(*took))
        yield f"a task that makes {name}, against an fsync of them", "1.5 x", f"{spread(ratios)} x"
        yield (
            "… a task: bare, ours, of that its record",
            NONE,
            f"{bare_ms:.2f}, {ours_ms:.2f}, {records_ms:.2f} ms",
        )


def resuming(*, quick):
    """Time to go on with a run of which all is done, against the run without a journal."""
    count = 200 if quick else 2_000
    dag = DAG(
        {f"t{i:04}": Bytes(100) for i in range(count)},
        [(f"t{i:04}", f"t{i + 1:04}", []) for i in range(count - 1)],
    )
    directory = Path(tempfile.mkdtemp(dir=CACHE))
    try:
        dag.run(hooks=[Journal(directory)])
        runs, resumed = in_turns(3 if quick else 9, dag.run, lambda: dag.resume(directory))
        ratios = over(resumed, runs)
        size = sum(file.stat().st_size for file in directory.glob("journal"))
    finally:
        shutil.rmtree(directory)
    yield (
        f"{count:,} tasks taken over from a journal, against running them when they do nothing",
        NONE,
        f"{spread(ratios)} x; {median(resumed) / count * 1e6:.0f} us a task",
    )
    yield "… its records, a task", NONE, f"{size / count:.0f} bytes"


ROWS = {"writing": writing, "resuming": resuming}


if __name__ == "__main__":
    CACHE.mkdir(parents=True, exist_ok=True)
    print_rows(__doc__, ROWS)
