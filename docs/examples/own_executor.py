"""An executor of one's own: tasks on a ``multiprocessing.Pool``.

    python own_executor.py

The pool is one of the standard library that is no ``concurrent.futures.Executor``.
"""

# ruff: noqa: D101, D102, D103

import multiprocessing
from concurrent.futures import Future

from dagprofiler import DAG, Config, Executor, Task


class MultiprocessingPool(Executor):
    """Runs tasks on a ``multiprocessing.Pool``, which stays the caller's."""

    name = "multiprocessing.Pool"
    # Its processes know the main program.
    by_value = False

    def __init__(self, pool):
        self.pool = pool
        self.processes = []

    def open(self):
        self.processes = multiprocessing.active_children()

    @property
    def capacity(self):
        # One runs, and the next one is there already.
        return 2 * len(self.processes)

    def submit(self, job, handles):
        future = Future()
        future.set_running_or_notify_cancel()
        self.pool.apply_async(job, [handles], {}, future.set_result, future.set_exception)
        return future

    def check(self):
        # The pool replaces a process that dies, and never tells what that was doing.
        if not all(process.is_alive() for process in self.processes):
            raise ChildProcessError("a process of the pool has died")


class Square(Task):
    outputs = ["square"]
    config_deps = ["N"]

    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def compute(self, cfg):
        return {"square": (self.factor * cfg.N) ** 2}


class Sum(Task):
    inputs = ["square"]
    outputs = ["sum"]
    gathers = ["square"]

    def compute(self, square):
        return {"sum": sum(square)}


def main():
    squares = {f"square{i}": Square(i) for i in range(6)}
    dag = DAG({**squares, "sum": Sum}, [(name, "sum") for name in squares], Config(N=10))
    with multiprocessing.Pool(2) as pool:
        profile = dag.run(executor=MultiprocessingPool(pool))
    workers = profile.sections["timeline"]["workers"]
    print(profile.final_outputs, "by", profile.sections["run"]["executor"])
    print("the same serially:", dag.run().final_outputs)
    print("at most two processes:", len({worker["pid"] for worker in workers}) <= 2)


if __name__ == "__main__":
    main()
