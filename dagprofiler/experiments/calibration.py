"""calibrate_engine(): what an executor adds to the times of tasks, measured on that executor."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from math import prod, sqrt
from time import perf_counter, process_time, sleep, thread_time
from typing import Any

from dagprofiler._document.rounds import Rounds
from dagprofiler._util import JsonObject, Values, grouped
from dagprofiler._util.interpreter import HOSTNAME
from dagprofiler.dag import DAG, ORDER_ONLY
from dagprofiler.engine.setup import as_executor
from dagprofiler.errors import refused
from dagprofiler.executors import Executor
from dagprofiler.executors.pools import PoolExecutor
from dagprofiler.graph.replay import Overhead
from dagprofiler.graph.wiring import JOBS_PER_WORKER
from dagprofiler.measure.busy import usable_cores
from dagprofiler.measure.calibrate import kernels
from dagprofiler.measure.machine import allocator_settings
from dagprofiler.predict import Engine, simulate
from dagprofiler.profile import Profile
from dagprofiler.stats import median
from dagprofiler.task import Task

__all__ = ["calibrate_engine"]

#: Tasks of a chain; tasks for each worker that wait for it, and how long each takes; long ones.
_CHAIN, _WAITING, _WAIT_S, _LONG_S = 20, 8, 4e-3, 0.1
#: Runs of each DAG.
_RUNS = 5
#: How long all workers may take to start, in seconds.
_START_S = 30.0
#: How many arrays are made; the allocator learns from the first ones.
_ARRAYS = 100
#: Turns of kernels on each number of workers, to measure contention. Many short ones: how cores
#: share a processor changes from one second to the next, most of all on virtual machines.
_TURNS = 12


#: Runs a DAG on the executor that is calibrated.
Runs = Callable[..., Profile]


class Probe(Task):
    """Takes values, and sleeps for a time, or computes."""

    gathers = ["x"]
    outputs = ["x", "used"]

    def __init__(self, seconds: float = _WAIT_S, size: int = 1, *, computes: bool = False) -> None:
        super().__init__()
        self.seconds, self.size, self.computes = seconds, size, computes

    def compute(self, x: list[bytes]) -> dict[str, object]:
        """Use the core, or sleep; return bytes, and what the process has used."""
        used = os.getpid(), process_time(), usable_cores()
        end = thread_time() + self.seconds
        while self.computes and thread_time() < end:
            pass
        if not self.computes:
            sleep(self.seconds)
        return {"x": bytes(self.size), "used": used}


class KernelRun(Task):
    """Runs a kernel of the machine's calibration."""

    outputs = ["seconds"]

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def compute(self) -> dict[str, float]:
        """Run the kernel once to warm up, and once more; that time is what counts."""
        work = kernels()[self.name]
        work()
        # Of this thread alone: time in which other programs have the core is no contention.
        begun = thread_time()
        work()
        return {"seconds": thread_time() - begun}


class Surroundings(Task):
    """Tells where a worker runs."""

    outputs = ["allocator", "arrays_s"]

    def compute(self) -> JsonObject:
        """Return the allocator's settings, and what arrays of 1 MB cost."""
        from numpy import ones

        array, times = ones(2**17), []
        for _ in range(_ARRAYS):
            begun = thread_time()
            array = array * 0.5 + 0.5
            times.append(thread_time() - begun)
        return {"allocator": dict(allocator_settings()), "arrays_s": median(times[_ARRAYS // 2 :])}


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
        If it is not an executor, or does not run tasks on as many workers as it tells that it has.

    Notes
    -----
    Takes some ten seconds; on nodes, they take the tasks in turns. All workers are started first. A
    chain of tasks that compute tells the latency; tasks that sleep, more than there are workers,
    tell the gap and the CPU time of the driver and of the workers' processes, and what the first
    ones take more; those that sleep long tell what these processes use all the time; tasks that
    hand over values of two sizes tell what that costs; the kernels of
    :func:`~dagprofiler.calibrate`, on one worker and on more in turns, tell the contention: by
    their means, since cores of virtual machines share a processor one moment and none the next.
    Waits add up in a run, so those of each run count by their mean; other figures are medians over
    the runs. A graph of kernels is run last, and predicted from rounds on the workers and in this
    process that come first.
    """
    nodes: Values = executor if isinstance(executor, Mapping) else {}
    engine = as_executor(next(iter(nodes.values())) if nodes else executor, Rounds())
    if engine is None:
        raise refused("calibrate_engine: a serial run has no engine; give an executor")

    def run(dag: DAG, **options: Any) -> Profile:
        if nodes:
            # Each node in its turn.
            names = [*dag.tasks]
            options["schedule"] = {node: names[k :: len(nodes)] for k, node in enumerate(nodes)}
        return dag.run(executor=executor, **options)

    found = run(DAG({"surroundings": Surroundings()})).outputs["surroundings"]
    here = Surroundings().compute()
    arrays = found["arrays_s"] / here["arrays_s"] if here["arrays_s"] else 1.0
    workers, cores = _all_workers(run, len(nodes) or _told(engine))
    # The runs that these predict come last, so that what the machine does meanwhile counts.
    known, rounds = _known_graph(workers, threads=engine.shares_memory), Rounds(_RUNS, warmup=1)
    there, alone = run(known, rounds=rounds), known.run(rounds=rounds)
    chain = _graph([Probe(computes=True) for _ in range(_CHAIN)], [1])
    chains = [_spans(profile).values() for profile in _rounds(chain, run)]
    # Where clocks of hosts differ a record may come before it was sent.
    chain_ms = max(0.0, median([_mean(_between(spans)) for spans in chains]))
    driver_ms, worker_ms, always = _cpu(run, workers)
    # What it does beside its threads is no more than what a chain waits for.
    driver_ms = min(driver_ms, chain_ms)
    latency_ms = chain_ms - driver_ms
    waits = _rounds(_probes(workers * _WAITING), run)
    gap_ms = median([_mean(_gaps_of(profile)) for profile in waits])
    first_ms = median([min(_spans(profile).values())[0] for profile in waits])
    write_ms, read_ms = _handing_over(run, workers)
    contention = _contention(run, min(workers, cores), threads=engine.shares_memory)
    plain = Engine(
        executor=engine.name,
        host=HOSTNAME,
        workers=workers,
        overhead=Overhead(
            latency_ms=round(latency_ms, 6),
            gap_ms=round(max(0.0, gap_ms), 6),
            start_ms=round(max(0.0, first_ms - (latency_ms + driver_ms) / 2), 6),
            driver_ms=round(driver_ms, 6),
            worker_ms=round(worker_ms, 6),
            always=round(always, 6),
            cores=cores,
            contention=tuple(round(factor, 4) for factor in contention),
        ),
        write_ms=write_ms,
        read_ms=read_ms,
        shares_memory=engine.shares_memory,
        allocator=found["allocator"],
        arrays=1.0 if found["allocator"] == here["allocator"] else round(arrays, 4),
    )
    real, plan = _rounds(known, run, Engine.RUNS), there.sections.get("schedule")
    error, elsewhere = (_error(source, plain, real, plan) for source in (there, alone))
    return replace(plain, error=error, error_elsewhere=elsewhere)


def _told(executor: Executor) -> int | None:
    """Return how many workers an executor tells that it has; None if it does not."""
    with closing(executor):
        executor.open()
        if isinstance(executor, PoolExecutor):
            return executor.workers
        return -(-executor.capacity // JOBS_PER_WORKER)


def _all_workers(run: Runs, expected: int | None) -> tuple[int, int]:
    """Have all workers started; return how many there are, and the cores that they share.

    Pools start their workers one by one, as tasks come, and the others do all tasks meanwhile: the
    tasks take longer each time, until each worker has got some.
    """
    count, seconds, begun = 4 * (expected or os.cpu_count() or 1) + 8, _WAIT_S, perf_counter()
    run(_probes(count))
    while True:
        waited = run(_probes(count, seconds))
        workers = len({row.worker for row in waited.timeline.rows()})
        if workers >= (expected or 1):
            break
        if perf_counter() - begun > _START_S:
            ran = f"tasks ran on {workers} of them within {_START_S:g} s"
            raise refused(f"calibrate_engine: the executor has {expected} workers, but {ran}")
        seconds *= 2
    # Workers may be pinned, each to cores of its own.
    return workers, len(set().union(*(values["used"][2] for values in waited.outputs.values())))


def _rounds(dag: DAG, run: Runs, times: int = _RUNS) -> list[Profile]:
    """Run a DAG several times, after once to warm up."""
    return [run(dag) for _ in range(times + 1)][1:]


def _spans(profile: Profile) -> dict[str, tuple[float, float]]:
    """Return when each task began and ended at its worker."""
    rows = profile.timeline.rows()
    return {r.task: (r.deserialize_start_ms or 0.0, r.serialize_end_ms or 0.0) for r in rows}


def _between(spans: Iterable[tuple[float, float]]) -> list[float]:
    """Return the time between the end of each task and the start of the next."""
    ordered = sorted(spans)
    return [after[0] - before[1] for before, after in zip(ordered, ordered[1:])]


def _graph(tasks: Sequence[Task], steps: Sequence[int] = ()) -> DAG:
    """Return a DAG of these tasks, each after those so many before it.

    After no-ops processes wake up faster than after tasks: those that follow others compute.
    """
    names = [f"probe_{i:03}" for i in range(len(tasks))]
    edges = [(a, b, ORDER_ONLY) for step in steps for a, b in zip(names, names[step:])]
    return DAG(dict(zip(names, tasks)), edges)


def _probes(count: int, seconds: float = _WAIT_S) -> DAG:
    """Return tasks that sleep."""
    return _graph([Probe(seconds) for _ in range(count)])


def _kinds(*, threads: bool) -> list[str]:
    """Return the kernels that tell how much slower work is beside other work."""
    # Threads that run Python code share the interpreter's lock, which is no contention.
    return ["matrix", "memory"] if threads else ["python", "matrix", "memory"]


def _cpu(run: Runs, workers: int) -> tuple[float, float, float]:
    """Return the CPU time of this process and of a worker's for each task that sleeps, in ms.

    And the share of a core that they use all the time, for each worker. Runs of more tasks, and
    of longer ones, tell this process's share; what is used from task to task that of workers.
    """
    from numpy.linalg import solve

    more, long = workers * _WAITING, 2 * workers
    dags = [_probes(workers), _probes(workers + more), _probes(long, _LONG_S)]
    found = []
    for _ in range(_RUNS):
        used, there = [], []
        for dag in dags:
            begun = process_time(), perf_counter()
            outputs = run(dag).outputs
            used.append((process_time() - begun[0], perf_counter() - begun[1]))
            readings = grouped(values["used"][:2] for values in outputs.values())
            readings.pop(os.getpid(), None)
            spans = [max(several) - min(several) for several in readings.values()]
            there.append(sum(spans) / max(1, len(outputs) - len(spans)))
        (few_s, few_took), *others = used
        tasks_and_times = zip([more, long - workers], [took - few_took for _, took in others])
        here = solve([*map(list, tasks_and_times)], [used_s - few_s for used_s, _ in others])
        beside = (there[2] - there[1]) / (_LONG_S - _WAIT_S)
        each = there[1] - beside * _WAIT_S
        found.append((here[0] * 1e3, each * 1e3, here[1] / workers + beside))
    driver_ms, worker_ms, always = (max(0.0, float(median(several))) for several in zip(*found))
    return driver_ms, worker_ms, always


def _gaps_of(profile: Profile) -> Iterator[float]:
    """Yield the times between two tasks of a worker."""
    spans = _spans(profile)
    by_worker = grouped((row.worker, spans[row.task]) for row in profile.timeline.rows())
    for of_worker in by_worker.values():
        # The first may have found its worker idle, the last ones wait for the driver.
        yield from _between(of_worker)[1:-2]


def _known_graph(workers: int, *, threads: bool) -> DAG:
    """Return a graph of kernels in rows, by which predictions are judged."""
    kinds = _kinds(threads=threads)
    tasks = [KernelRun(kinds[i % len(kinds)]) for i in range((workers + 1) * _WAITING)]
    return _graph(tasks, [workers, workers + 1])


def _error(source: Profile, engine: Engine, real: Sequence[Profile], plan: Any) -> float:
    """Return how far predictions of single runs are off, relative to the runs."""
    predicted_ms = simulate(source, engine=engine, schedule=plan).makespan_ms
    times = [profile.metrics.total_time_ms or 0.0 for profile in real]
    return round(sqrt(_mean((predicted_ms / real_ms - 1) ** 2 for real_ms in times)), 4)


def _handing_over(run: Runs, workers: int) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return the times to write a value, outside the tasks, and to read it, of two sizes.

    That is what takes longer than with a value of one byte.
    """
    names = [f"read_{i:03}" for i in range(workers * _WAITING)]
    wholes: list[float] = []
    parts: list[float] = []
    for size in (1, *Engine.VALUE_BYTES):
        tasks = {"write": Probe(0.0, size), **{name: Probe() for name in names}}
        profiles = _rounds(DAG(tasks, [("write", name) for name in names]), run)
        moments = [_spans(profile) for profile in profiles]
        whole = min([min(at[name][0] for name in names) - at["write"][1] for at in moments])
        part = median([gap for profile in profiles for gap in _gaps_of(profile)])
        # What is larger takes no less time; other programs only take more.
        parts.append(max([*parts, part]))
        wholes.append(max([*wholes, whole - parts[-1]]))
    write, read = ([round(ms - of[0], 6) for ms in of[1:]] for of in (wholes, parts))
    return (write[0], write[1]), (read[0], read[1])


def _contention(run: Runs, workers: int, *, threads: bool) -> list[float]:
    """Return how much longer kernels take on 1, 2, ... workers at once."""
    names = _kinds(threads=threads)
    counts = sorted({1, min(2, workers), (workers + 1) // 2, workers})
    keys = [(name, count) for name in names for count in counts]
    dags = {key: _graph([KernelRun(key[0]) for _ in range(key[1])]) for key in keys}
    seconds: dict[tuple[str, int], list[float]] = {key: [] for key in dags}
    for _ in range(_TURNS):
        for key, dag in dags.items():
            seconds[key] += [values["seconds"] for values in run(dag).outputs.values()]
    factors = {
        count: [max(1.0, _mean(seconds[name, count]) / _mean(seconds[name, 1])) for name in names]
        for count in counts
    }
    filled = [1.0]
    for count in range(2, workers + 1):
        known = factors.get(count)
        filled.append(max(filled[-1], prod(known) ** (1 / len(known))) if known else filled[-1])
    return filled


def _mean(values: Iterable[float]) -> float:
    several = [*values]
    return sum(several) / len(several) if several else 0.0
