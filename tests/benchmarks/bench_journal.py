"""Measure what a journal costs.

``python tests/benchmarks/bench_journal.py [--quick] [--only ROW]``
"""

import os
import tempfile
from pathlib import Path
from statistics import median

from harness import CACHE, either, in_turns, print_rows, timed, times, turns, us

from dagprofiler import DAG, Hook, Journal, task

SIZES = {"100 bytes": 100, "10 kB": 10_000, "1 MB": 1_000_000, "20 MB": 20_000_000}


@task(outputs=["x"])
def data(value):
    return {"x": value}


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
        self.took_s.append(timed(lambda: Journal.task_finished(self, record)))


def cost(nbytes, count):
    """Return the seconds a task of a journal, of its records alone, and of writing bare."""
    dag = DAG({f"t{i:04}": data.bind(value=os.urandom(nbytes)) for i in range(count)})
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        encoded = next(iter(dag.tasks.values())).serialize({"x": os.urandom(nbytes)})
        bare, journal = Beside(Path(folder, "bare"), encoded), Timed(Path(folder, "journal"))
        profile = dag.run(hooks=[journal, bare])
    outputs_s = profile.sections["run"]["overhead"]["journal_ms"] / 1e3
    records_s = sum(journal.took_s)
    return (outputs_s + records_s) / count, records_s / count, sum(bare.took_s) / count


def writing():
    """Time what a journal writes of a task, beside the same bytes written and synced."""
    for name, nbytes in SIZES.items():
        count = max(2, min(100, 160_000_000 // nbytes) // either(1, 4))
        ours, records, bare = zip(*(cost(nbytes, count) for _ in turns(9)))
        work = f"a task that makes {name}, against an fsync of them"
        yield work, "1.5 x", times(ours, bare)
        each_ms = ", ".join(f"{median(took) * 1e3:.2f}" for took in (bare, ours, records))
        yield "… a task: bare, ours, of that its record", "-", f"{each_ms} ms"


def resuming():
    """Time to go on with a run of which all is done, against the run without a journal."""
    count = either(2_000, 200)
    names = [f"t{i:04}" for i in range(count)]
    tasks = {name: data.bind(value=os.urandom(100)) for name in names}
    dag = DAG(tasks, [(*pair, []) for pair in zip(names, names[1:])])
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        dag.run(hooks=[Journal(folder)])
        runs, resumed = in_turns(9, dag.run, lambda: dag.resume(folder))
        size = sum(file.stat().st_size for file in Path(folder).glob("journal"))
    work = f"{count:,} tasks taken over from a journal, against running them when they do nothing"
    yield work, "-", f"{times(resumed, runs)}; {us(resumed, count)} us a task"
    yield "… its records, a task", "-", f"{size / count:.0f} bytes"


if __name__ == "__main__":
    CACHE.mkdir(parents=True, exist_ok=True)
    print_rows(__doc__, [writing, resuming])
