"""calibrate_engine(): what an executor adds to the times of tasks, measured on that executor."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from math import prod, sqrt
from time import perf_counter, process_time, sleep, thread_time
from typing import TYPE_CHECKING, Any

from dagprofiler._document.rounds import Rounds
from dagprofiler._util.interpreter import hostname
from dagprofiler.dag import DAG, ORDER_ONLY
from dagprofiler.engine.options import as_executor
from dagprofiler.errors import refused
from dagprofiler.measure.calibrate import kernels
from dagprofiler.measure.machine import allocator_settings
from dagprofiler.predict import Engine, busy_gap_ms, simulate
from dagprofiler.stats import median
from dagprofiler.task import Task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from dagprofiler.profile import Profile

__all__ = ["calibrate_engine"]

#: Tasks of a chain; tasks for each worker that wait for it, and how long each takes.
_CHAIN, _WAITING, _WAIT_S = 20, 8, 4e-3
#: Runs of each DAG.
_RUNS = 5
#: How many arrays are made; the allocator learns from the first ones.
_ARRAYS = 100
#: How long a kernel is repeated to measure contention.
_KERNEL_S = 0.03


class Probe(Task):
    """Takes values, computes for a share of its time, and sleeps for the rest."""

    gathers = ["x"]  # noqa: RUF012  (how tasks declare)
    outputs = ["x", "used"]  # noqa: RUF012  (the same)

    def __init__(self, seconds: float = _WAIT_S, share: float = 0.0, size: int = 1) -> None:
        super().__init__()
        self.seconds, self.share, self.size = seconds, share, size

    def compute(self, x: list[Any]) -> dict[str, Any]:  # noqa: ARG002  (it only has to arrive)
        """Use the core, and sleep; return bytes, and which process has used how much CPU time."""
        used = os.getpid(), process_time()
        end = thread_time() + self.share * self.seconds
        while thread_time() < end:
            pass
        if self.share < 1:
            sleep((1 - self.share) * self.seconds)
        return {"x": bytes(self.size), "used": used}


class KernelRun(Task):
    """Repeats a kernel of the machine's calibration."""

    outputs = ["passes"]  # noqa: RUF012  (how tasks declare)

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def compute(self) -> dict[str, Any]:
        """Repeat the kernel; the time of one pass is what counts."""
        work = kernels()[self.name]
        work()
        times, end = [], perf_counter() + _KERNEL_S
        while perf_counter() < end:
            # Of this thread alone: time in which other programs have the core is no contention.
            begun = thread_time()
            work()
            times.append(thread_time() - begun)
        return {"passes": times}


class Surroundings(Task):
    """Tells where a worker runs."""

    outputs = ["cores", "allocator", "arrays_s"]  # noqa: RUF012  (how tasks declare)

    def compute(self) -> dict[str, Any]:
        """Return the usable cores, the allocator's settings, and what arrays of 1 MB cost."""
        from numpy import ones

        of_process = getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))
        array, times = ones(2**17), []
        for _ in range(_ARRAYS):
            begun = thread_time()
            array = array * 0.5 + 0.5
            times.append(thread_time() - begun)
        return {
            "cores": len(of_process(0)),
            "allocator": allocator_settings(),
            "arrays_s": median(times[_ARRAYS // 2 :]),
        }


def calibrate_engine(executor: Any) -> Engine:
    """Measure what an executor adds to the times of tasks, on that executor.

    Parameters
    ----------
    executor
        As for :meth:`DAG.run <dagprofiler.DAG.run>`; its workers should be those of the runs
        to predict. Of runs along a schedule, ``{node: pool}``.

    Returns
    -------
    Engine
        For :func:`~dagprofiler.simulate`, or to keep with profiles as
        ``profile.sections["engine"] = engine.to_dict()``.

    Raises
    ------
    ValidationError
        If it is not an executor.

    Notes
    -----
    Takes a few seconds. A chain of tasks that compute tells the latency; tasks that sleep,
    more than there are workers, tell the gap and the CPU time of the driver and of the workers'
    processes, and what the first ones take more; of tasks that compute on all cores counts the
    gap with which a simulation of them takes as long; tasks that hand over values of two sizes tell
    what that costs; the kernels of :func:`~dagprofiler.calibrate`, on one worker and on more,
    tell the contention. Waits add up in a run, so those of each run count by their mean;
    figures are medians over the runs. Last comes a graph of tasks that compute, predicted and run.
    """
    nodes: Mapping[str, Any] = executor if isinstance(executor, Mapping) else {}
    if nodes:
        executor = next(iter(nodes.values()))
    engine = as_executor(executor, Rounds())
    if engine is None:
        raise refused("calibrate_engine: a serial run has no engine; give an executor")
    found = DAG({"surroundings": Surroundings()}).run(executor=executor).outputs["surroundings"]
    here = Surroundings().compute()
    arrays = found["arrays_s"] / here["arrays_s"] if here["arrays_s"] else 1.0
    waiting = _probes(4 * (os.cpu_count() or 1) + 8)
    waiting.run(executor=executor)
    own = len(_spans(waiting.run(executor=executor)))
    workers = len(nodes) or own
    chain = _probes(_CHAIN, 1.0, steps=[1])
    chain_ms = [
        _mean(_between(span for _, span in _rows(profile))) for profile in _rounds(chain, executor)
    ]
    driver_ms, worker_ms = _cpu_ms(executor, own)
    # What it does beside its threads is no more than what a chain waits for.
    driver_ms = min(driver_ms, median(chain_ms))
    latency_ms = median(chain_ms) - driver_ms
    waits = _rounds(_probes(own * _WAITING), executor)
    gap_ms = median([_mean(_gaps_of(profile)) for profile in waits])
    first_ms = median([min(span[0] for _, span in _rows(profile)) for profile in waits])
    write_ms, read_ms = _handing_over(executor, own, median(chain_ms), gap_ms)
    busy = min(workers, found["cores"])

    def at_once(dag: DAG) -> Profile:
        if not nodes:
            return dag.run(executor=executor)
        return dag.run(executor=nodes, schedule={n: [t] for n, t in zip(nodes, dag.tasks)})

    contention, between = _contention(at_once, busy, threads=engine.shares_memory)
    plain = Engine(
        executor=engine.name,
        host=hostname(),
        workers=workers,
        latency_ms=round(max(0.0, latency_ms), 6),
        gap_ms=round(max(0.0, gap_ms), 6),
        busy_gap_ms=round(max(0.0, gap_ms), 6),
        start_ms=round(max(0.0, first_ms - (latency_ms + driver_ms) / 2), 6),
        driver_ms=round(driver_ms, 6),
        worker_ms=round(worker_ms, 6),
        write_ms=write_ms,
        read_ms=read_ms,
        cores=found["cores"],
        contention=tuple(round(factor, 4) for factor in contention),
        contention_range=(round(between[0], 4), round(between[1], 4)),
        shares_memory=engine.shares_memory,
        allocator=found["allocator"],
        arrays=1.0 if found["allocator"] == here["allocator"] else round(arrays, 4),
    )
    if not engine.shares_memory:  # threads that compute wait for the interpreter's lock
        plain = replace(plain, busy_gap_ms=round(_busy_gap_ms(executor, own, plain), 6))
    return replace(plain, error=round(_error(executor, replace(plain, workers=own)), 4))


def _rounds(dag: DAG, executor: Any) -> list[Profile]:
    """Run a DAG several times, after once to warm up."""
    return [dag.run(executor=executor) for _ in range(_RUNS + 1)][1:]


def _rows(profile: Profile) -> Iterator[tuple[tuple[str, int], tuple[float, float]]]:
    """Yield name and worker of each task, and when it began and ended there."""
    timeline = profile.sections["timeline"]
    start, end = map(timeline["columns"].index, ("deserialize_start_ms", "serialize_end_ms"))
    for row in timeline["records"]:
        yield (row[0], row[2]), (row[start], row[end])


def _between(spans: Iterable[tuple[float, float]]) -> list[float]:
    """Return the time between the end of each task and the start of the next."""
    several = sorted(spans)
    return [after[0] - before[1] for before, after in zip(several, several[1:])]


def _probes(count: int, share: float = 0.0, *, steps: Sequence[int] = ()) -> DAG:
    """Return tasks that compute for a share of their time, each after those so many before it.

    After no-ops processes wake up faster than after tasks: those that follow others compute.
    """
    names = [f"probe_{i:03}" for i in range(count)]
    edges = [(a, b, ORDER_ONLY) for step in steps for a, b in zip(names, names[step:])]
    return DAG({name: Probe(share=share) for name in names}, edges)


def _cpu_ms(executor: Any, workers: int) -> tuple[float, float]:
    """Return the CPU time of this process and of a worker's for each task that sleeps.

    Here it is what more tasks cost more, there what is used from task to task.
    """
    few, many = _probes(workers), _probes(workers * (1 + _WAITING))
    here, there = [], []
    for _ in range(3):
        used = []
        for dag in (few, many):
            begun = process_time()
            outputs = dag.run(executor=executor).outputs
            used.append(process_time() - begun)
        here.append((used[1] - used[0]) / (workers * _WAITING) * 1e3)
        readings: dict[int, list[float]] = {}
        for values in outputs.values():
            pid, used_s = values["used"]
            if pid != os.getpid():
                readings.setdefault(pid, []).append(used_s)
        spans = [max(several) - min(several) for several in readings.values()]
        there.append(sum(spans) / max(1, len(outputs) - len(spans)) * 1e3)
    return max(0.0, median(here)), median(there)


def _spans(profile: Profile) -> dict[int, list[tuple[float, float]]]:
    """Return when the tasks of each worker began and ended."""
    spans: dict[int, list[tuple[float, float]]] = {}
    for (_, worker), span in _rows(profile):
        spans.setdefault(worker, []).append(span)
    return spans


def _gaps_of(profile: Profile) -> Iterator[float]:
    for several in _spans(profile).values():
        # The first may have found its worker idle, the last ones wait for the driver.
        yield from _between(several)[1:-2]


def _busy_gap_ms(executor: Any, workers: int, engine: Engine) -> float:
    """Return the gap with which runs that compute on all cores take as long if simulated."""
    share, count = min(1.0, engine.cores / workers), workers * _WAITING
    runs, each = _rounds(_probes(count, share), executor), (_WAIT_S * 1e3, share)
    times_ms = [profile.metrics.total_time_ms for profile in runs]
    return median([busy_gap_ms(engine.costs(), workers, count, each, ms) for ms in times_ms])


def _error(executor: Any, engine: Engine) -> float:
    """Return how far predictions of single runs of a known graph are off, relative to the runs."""
    workers, share = engine.workers, min(1.0, engine.cores / engine.workers)
    dag = _probes((workers + 1) * _WAITING, share, steps=[workers, workers + 1])
    measured = dag.run(executor=executor, rounds=Rounds(_RUNS, warmup=1))
    found_ms = simulate(measured, engine=engine).makespan_ms
    errors = [found_ms / real.metrics.total_time_ms - 1 for real in _rounds(dag, executor)]
    return sqrt(_mean(error**2 for error in errors))


def _handing_over(
    executor: Any, workers: int, empty_ms: float, gap_ms: float
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return the times to write a value, outside the tasks, and to read it, of two sizes."""
    names = [f"read_{i:03}" for i in range(workers * _WAITING)]
    write_ms, read_ms = [0.0], [0.0]
    for size in Engine.VALUE_BYTES:
        whole, part = [], []
        tasks = {"write": Probe(0.0, size=size), **{name: Probe() for name in names}}
        for profile in _rounds(DAG(tasks, [("write", name) for name in names]), executor):
            moments = {name: span for (name, _), span in _rows(profile)}
            whole.append(min(moments[name][0] for name in names) - moments["write"][1] - empty_ms)
            part += [ms - gap_ms for ms in _gaps_of(profile)]
        # What is larger takes no less time.
        read_ms.append(max(read_ms[-1], round(median(part), 6)))
        write_ms.append(max(write_ms[-1], round(median(whole) - read_ms[-1], 6)))
    return (write_ms[1], write_ms[2]), (read_ms[1], read_ms[2])


def _contention(
    at_once: Callable[[DAG], Profile], workers: int, *, threads: bool
) -> tuple[list[float], tuple[float, float]]:
    """Return how much longer kernels take on 1, 2, ... workers at once, and their range.

    `at_once` runs a DAG of tasks without edges, each on a worker of its own.
    """
    # Threads that run Python code share the interpreter's lock, which is no contention.
    names = ["matrix", "memory"] if threads else ["python", "matrix", "memory"]
    counts = sorted({1, min(2, workers), (workers + 1) // 2, workers})
    factors: dict[int, list[float]] = {count: [] for count in counts}
    for name in names:
        passes: dict[int, list[float]] = {count: [] for count in counts}
        for _ in range(_RUNS):
            for count in counts:
                dag = DAG({f"kernel_{i:03}": KernelRun(name) for i in range(count)})
                for outputs in at_once(dag).outputs.values():
                    passes[count].append(median(outputs["passes"]))
        for count, found in factors.items():
            found.append(max(1.0, median(passes[count]) / median(passes[1])))
    filled = [1.0]
    for count in range(2, workers + 1):
        known = factors.get(count)
        filled.append(max(filled[-1], prod(known) ** (1 / len(known))) if known else filled[-1])
    return filled, (min(factors[workers]), max(factors[workers]))


def _mean(values: Iterable[float]) -> float:
    several = [*values]
    return sum(several) / len(several) if several else 0.0
