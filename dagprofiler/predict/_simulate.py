"""simulate(): the makespan and the timeline of a profile's DAG on workers, without running it."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from math import hypot, inf, sqrt
from typing import Any, NamedTuple

import numpy as np

from dagprofiler._document.rounds import MOMENTS
from dagprofiler._document.table import edges_of, entries_of_tasks
from dagprofiler._util import JsonObject, Values, grouped
from dagprofiler._util.checks import instance, integer, names, number
from dagprofiler._util.html import ShownInBlocks
from dagprofiler._util.text import (
    Block,
    class_of,
    classes_of,
    doubts,
    is_of,
    printable,
    quantity,
    shortened,
    some,
)
from dagprofiler.config import Config
from dagprofiler.engine.setup import orders_of, ranking
from dagprofiler.errors import ProfileError, counted, did_you_mean, refused, short_repr
from dagprofiler.formats.saga import network_of
from dagprofiler.graph.replay import Demands, Overhead, Replay, replay
from dagprofiler.graph.wiring import NumberedGraph, numbered
from dagprofiler.metrics import DAGMetrics, EdgeMetrics, TaskMetrics
from dagprofiler.predict._engine import NO_ENGINE, Engine
from dagprofiler.profile import Profile
from dagprofiler.stats import median

#: Student's t for 95 % and 1, 2, 3 ... degrees of freedom; the last entry serves for more.
_T95 = (12.7, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.2, 2.18, 2.16, 2.14, 2.13)

#: The same for the error of an engine.
_T95_OF_ENGINE = _T95[Engine.RUNS - 1]

#: Simulated tasks for one interval, and the least and most simulations.
_SIMULATED_TASKS, _LEAST, _MOST = 200_000, 12, 60


@dataclass(frozen=True)
class Simulation(ShownInBlocks):
    """The result of :func:`simulate`; ``print`` and notebooks show it.

    Attributes
    ----------
    makespan_ms
        From the first task sent to the last record handled, in milliseconds.
    utilisation
        For each worker, or node of a schedule, the share of the makespan in which it works on
        tasks, from 0 to 1.
    reasons
        Why the figures may not be trusted, a sentence each; empty if nothing speaks against
        them.
    """

    makespan_ms: float
    utilisation: dict[str, float]
    reasons: tuple[str, ...]
    _case: _Case = field(repr=False, compare=False)
    _others: tuple[Simulation, ...] = field(default=(), repr=False, compare=False)

    @property
    def curve(self) -> dict[int, Simulation]:
        """Return each number of workers that was asked for, with its simulation."""
        return {len(each.utilisation): each for each in (*self._others, self)}

    @cached_property
    def interval_ms(self) -> tuple[float, float]:
        """Return a 95 % interval of the makespan of one run.

        Raises
        ------
        ProfileError
            If the profile has samples of fewer than three rounds; if its tasks use threads of
            numpy's BLAS and the workers have too few cores for them; if it is not known how long
            they wait on threads for the interpreter's lock.

        Notes
        -----
        From 12 to 60 simulations. In each, every task has its time of a random round, scaled by how
        slow another random round was as a whole, so that disturbances of single tasks and of the
        machine both count. To each side it is at least 2.18 times the error of single runs at the
        calibration of the engine: Student's t for its twelve runs. It reaches to where tasks do
        nothing but operate on arrays, with workers whose allocator is set otherwise than the
        profile's; to where each task uses all threads of numpy's BLAS, if it has more than one and
        they have too few cores; to twice as long, without an engine on one machine; and to what is
        not scaled, on another number of workers than the engine's.
        """
        return self._case.interval_ms()

    @cached_property
    def gains(self) -> dict[str, float]:
        """Return for each class of tasks how much shorter all is if it computes twice as fast.

        As a share of the makespan, the largest first; of the ten classes that compute longest.
        """
        return self._case.gains()

    @cached_property
    def profile(self) -> Profile:
        """Return the predicted run as a profile, marked by its section ``prediction``."""
        return self._case.profile_of(self)

    def figures(self) -> JsonObject:
        """Return makespan, interval and curve as JSON has them; null for an unknown interval."""
        curve = [{"workers": workers, **_point_of(point)} for workers, point in self.curve.items()]
        return {**_point_of(self), "curve": curve}

    def blocks(self) -> list[Block]:
        """Return what is shown: the makespan, the workers, and what would make it shorter."""
        return [
            Block(self._headline()),
            Block(rows=self._rows(), what="workers", notes=self._notes()),
        ]

    def _headline(self) -> str:
        words = f"predicted makespan {quantity(self.makespan_ms, 'ms')}"
        ends = _interval_of(self)
        if ends is not None:
            low, high = ends
            words += f", 95 % from {quantity(low, 'ms')} to {quantity(high, 'ms')}"
        return f"{words}, {counted(len(self.utilisation), 'worker')}"

    def _rows(self) -> list[tuple[str, ...]]:
        if not self._others:
            shares = [(printable(name), f"{share:.1%}") for name, share in self.utilisation.items()]
            return [("worker", "busy"), *shares]
        rows: list[tuple[str, ...]] = [("workers", "makespan", "95 % from", "to", "busy")]
        for workers, one in self.curve.items():
            busy = sum(one.utilisation.values()) / workers
            times = one.makespan_ms, *(_interval_of(one) or (None, None))
            rows.append((str(workers), *(quantity(ms, "ms") for ms in times), f"{busy:.1%}"))
        return rows

    def _notes(self) -> list[str]:
        workers = counted(len(self.utilisation), "worker")
        faster = [
            f"{printable(name)} twice as fast: {shortened(gain)} on {workers}"
            for name, gain in self.gains.items()
        ]
        return faster + doubts(self.reasons)


def _interval_of(simulation: Simulation) -> tuple[float, float] | None:
    """Return the interval; None if there is none."""
    try:
        return simulation.interval_ms
    except ProfileError:
        return None


def _point_of(simulation: Simulation) -> JsonObject:
    ends = _interval_of(simulation)
    interval_ms = ends and [round(ms, 6) for ms in ends]
    return {"makespan_ms": round(simulation.makespan_ms, 6), "interval_ms": interval_ms}


#: The way out of a prediction without an engine.
CALIBRATE = "give calibrate_engine(executor)"

#: Share of their time that tasks wait for a core from which on a machine is called busy.
_BUSY = 0.05

#: Share of the mean task's time below which it does not matter how long a task holds the lock.
_UNSEEN = 0.05

#: CPU time of other threads, of that of the tasks, from which on tasks use them.
_OTHER_THREADS = 0.05

#: Share of its time from which on a task that holds the lock lets others wait for it.
_HOLDS = 0.2

#: Error of predictions at the calibration from which on an engine is doubtful.
_DOUBTFUL = 0.15

#: Classes of tasks for which gains are simulated.
_CLASSES = 10

#: How many times longer a run may take, where what the executor adds was not measured.
_WITHOUT_ENGINE = 2.0

#: What keeps BLAS to one core.
_ONE_BLAS_THREAD = "set OPENBLAS_NUM_THREADS=1 before numpy is loaded, in the workers too"

#: Fewest rounds for an interval.
_LEAST_ROUNDS = 3


def simulate(
    profile: Profile,
    *,
    workers: int | Iterable[int] | None = None,
    engine: Engine | None = None,
    cores: int | None = None,
    speeds: Mapping[str, float] | None = None,
    bandwidth: Any = None,
    schedule: Mapping[str, Sequence[str]] | None = None,
    faster: Mapping[str, float] | None = None,
    priorities: Any = None,
) -> Simulation:
    """Return how long the DAG of a profile would take on workers, without running it.

    Parameters
    ----------
    profile
        A measured profile, or one that cost models predicted.
    workers
        Number of workers; by default those of `speeds`, `schedule` or `engine`. Of several, as
        ``range(1, 17)``, the result is that of the last, and its ``curve`` has all.
    engine
        What the executor adds to the times of tasks; by default that of the profile's section
        ``engine``, or nothing.
    cores
        How many cores the workers share; by default those that `engine` says. Without an engine,
        the usable cores of the machine that the profile was taken on for workers, while nodes of
        `speeds` and `schedule` have a core each.
    speeds
        Node to its speed, above 0: a node of speed 2 takes half the time of the profile.
        A node is one worker. By default all have speed 1.
    bandwidth
        Of the links between nodes, in bits per millisecond (1 Gbit/s is 1e6): one number, or
        ``{(node, node): number}`` as for :func:`~dagprofiler.formats.saga.network_of`.
        By default data is where it is needed, beyond what `engine` says. Needs `schedule`.
    schedule
        Node to its tasks in order, every task once, as for ``DAG.run(schedule=)``. By default
        workers take tasks from one queue.
    faster
        Task, or class of tasks, to the factor by which it computes faster: what if? Of
        ``map_1`` and ``map_2`` the class is ``map``.
    priorities
        As for :meth:`DAG.run <dagprofiler.DAG.run>`, without `schedule`.

    Raises
    ------
    ProfileError
        If a task of the profile has no time.
    ValidationError
        If an argument is invalid, the profile was simulated itself, or the schedule contradicts
        the edges.

    Notes
    -----
    Events are simulated in the dispatcher's own rules; see
    :func:`~dagprofiler.graph.replay.replay`. Times of a profile that was taken on an executor
    contain contention: they are divided by the engine's factor for the number of workers
    that computed beside each task. If the engine's workers ran it in three rounds or more, all
    times are scaled so that a simulation of these rounds takes as long as they did. O(n log n) time
    for n tasks and edges.

    Examples
    --------
    >>> from dagprofiler import DAG, task
    >>> @task(inputs=[], outputs=["x"])
    ... def source(cfg):
    ...     return {"x": sum(range(cfg.N))}
    >>> profile = DAG({"a": source, "b": source}, [], {"N": 100_000}).run(rounds=3)
    >>> one, two = simulate(profile, workers=1), simulate(profile, workers=2)
    >>> two.makespan_ms < one.makespan_ms
    True
    """
    counts = _counts(workers)
    engine = _engine_of(profile, engine)
    graph = graph_of(profile)
    orders = None if schedule is None else orders_of(schedule, graph)
    if orders is not None and priorities is not None:
        raise refused("priorities: a schedule has the order of the tasks already")
    ranked = _ranked(profile, graph, priorities) if orders is None else None
    nodes = [_nodes(count, speeds, schedule, engine) for count in counts]
    transfers = _transfers(profile, graph, nodes[-1], orders, bandwidth)
    times, ratios = _times(profile, graph, engine)
    machine = _Machine.of(profile)
    core = _cores_of_tasks(profile, graph.names, machine)
    lock = None
    if engine.shares_memory:
        lock = _locked(times, _shares(profile, graph.names, "gil_ms"), core)
    # Rounds on as many threads have the waits for the interpreter's lock in their times.
    threads = _threads(profile)
    case = _Case(
        profile,
        graph,
        times,
        ratios,
        core=core,
        lock=lock,
        engine=engine,
        overhead=_overhead(engine, cores, inf if speeds or schedule else machine.cores),
        machine=machine,
        nodes={},
        orders=orders,
        transfers=transfers,
        ranked=ranked,
        budget=_SIMULATED_TASKS // len(counts),
    ).as_measured()
    case = case.computing_faster(_factors(graph.names, faster))
    cases = [
        replace(case, nodes=several, lock=None if len(several) == threads else lock)
        for several in nodes
    ]
    return _simulated(cases[-1], tuple(map(_simulated, cases[:-1])))


def _engine_of(profile: Profile, engine: Engine | None) -> Engine:
    """Return the engine that counts; refuse profiles that cannot be simulated."""
    instance("simulate: profile", profile, Profile, "a Profile")
    instance("simulate: engine", engine, (Engine, type(None)), "an Engine")
    if profile.sections.get("prediction", {}).get("kind") == "simulation":
        raise refused("simulate: the profile was simulated; give the one that it was made from")
    if engine is None and "engine" in profile.sections:
        return Engine.from_dict(profile.sections["engine"])
    return engine or NO_ENGINE


def _ranked(profile: Profile, graph: NumberedGraph, priorities: Any) -> Sequence[int] | None:
    """Return the tasks by decreasing priority, as a run would; None for Kahn's order."""
    sources = profile.sections.get("weight_sources", {})
    costs = [sources.get(name, {}).get("estimated_instructions") for name in graph.names]
    estimates = {i: cost for i, cost in enumerate(costs) if cost is not None}
    return ranking(graph, estimates, priorities)[1]


def _simulated(case: _Case, others: tuple[Simulation, ...] = ()) -> Simulation:
    run = case.run
    busy = [0.0] * len(case.nodes)
    for worker, begun, ended in zip(run.worker, run.begun, run.ended):
        busy[worker] += ended - begun
    shares = {node: ms / (run.makespan_ms or 1.0) for node, ms in zip(case.nodes, busy)}
    return Simulation(run.makespan_ms, shares, case.reasons(), case, others)


def _counts(workers: int | Iterable[int] | None) -> list[int | None]:
    """Return the numbers of workers to simulate; ``[None]`` for the default."""
    if workers is None:
        return [None]
    counts = [*workers] if isinstance(workers, Iterable) else [workers]
    if not counts:
        raise refused(f"workers must be a number or several, got {short_repr(workers)}")
    return [integer("workers", count, 1) for count in counts]


class _Times(NamedTuple):
    """The times of one task in milliseconds, in their order: phases, and what is between them.

    Attributes
    ----------
    read, write
        What the engine adds to hand values over.
    deserialize, compute, serialize
        The phases.
    enter, leave
        Between the phases: after compute() inputs are freed, which takes as long as their objects
        are many.
    """

    read: float
    deserialize: float
    enter: float
    compute: float
    leave: float
    serialize: float
    write: float


class _Machine(NamedTuple):
    """Where a profile was taken.

    Attributes
    ----------
    cores
        Those that the process could use; infinite if unknown.
    blas_threads
        Threads of numpy's BLAS; 1 if unknown.
    uses_threads
        Whether tasks use other threads of their process, as those of BLAS; None if unknown.
    workers
        How many had tasks.
    allocator
        Settings of the workers' allocator; None if unknown.
    """

    cores: float
    blas_threads: int
    uses_threads: bool | None
    workers: int
    allocator: Mapping[str, str] | None

    @classmethod
    def of(cls, profile: Profile) -> _Machine:
        environment, workers = profile.environment, profile.timeline.workers
        usable = environment.cores_usable or environment.cores or inf
        cores = min(usable, environment.cores_quota or inf)
        if len({worker.get("host") for worker in workers}) > 1:
            cores = inf
        others_ms, columns = profile.run.other_threads_ms, profile.samples.tasks.values()
        whole_ms = sum(ms or 0.0 for column in columns for ms in column.get("cpu_ms", ()))
        return cls(
            cores,
            environment.blas_threads or 1,
            None if others_ms is None or not whole_ms else others_ms > _OTHER_THREADS * whole_ms,
            max(1, len(workers)),
            # Workers tell their own only where they differ.
            next(iter(workers), {}).get("allocator_settings", environment.allocator_settings),
        )


def _overhead(engine: Engine, cores: int | None, usable: float) -> Overhead:
    """Return what the executor adds; its workers share `usable` cores if nothing else is known."""
    if cores is not None:
        return engine.overhead._replace(cores=integer("cores", cores, 1))
    return engine.overhead._replace(cores=usable) if engine is NO_ENGINE else engine.overhead


class _Lock(NamedTuple):
    """Shares of their time in which tasks hold the interpreter's lock, or wait for it.

    Attributes
    ----------
    held
        Of each task, as far as is known.
    unknown
        Tasks of which it is not known well enough to matter. One that releases the lock while it
        computes, as numpy does, may have to wait for it anew after each operation, and that it
        asks for it is not measured.
    """

    held: list[float]
    unknown: list[int]


def _locked(
    times: Sequence[_Times], held: Sequence[float | None], core: Sequence[float] | None
) -> _Lock:
    """Return how long tasks hold the lock, by its meter or by how long they compute."""
    most = [*core] if core else [1.0] * len(times)
    least = [share or 0.0 for share in held]
    # Where no task holds it for long, none has to wait.
    if None not in held and max(least, default=0.0) < _HOLDS:
        most = least
    most = [max(pair) for pair in zip(least, most)]
    # What computes and is not metered is taken for Python, which holds it all the time.
    typical = [
        high if share is None else (low + high) / 2 for share, low, high in zip(held, least, most)
    ]
    whole_ms = sum(each.compute for each in times)
    unknown = [
        i
        for i, each in enumerate(times)
        if most[i] - least[i] > _HOLDS and each.compute > _UNSEEN * whole_ms / len(times)
    ]
    return _Lock(typical, unknown)


@dataclass(frozen=True)
class _Case:
    """What is simulated: a graph in numbers, its times, and the workers."""

    source: Profile
    graph: NumberedGraph
    times: list[_Times]
    #: For each measured round the time of each task relative to its median.
    ratios: list[list[float]]
    core: list[float] | None
    lock: _Lock | None
    engine: Engine
    overhead: Overhead
    #: Where the profile was taken.
    machine: _Machine
    #: Worker, or node of a schedule, to its speed.
    nodes: Mapping[str, float]
    orders: list[list[int]] | None
    transfers: dict[int, list[tuple[int, float]]] | None
    ranked: Sequence[int] | None
    #: Tasks to simulate for one interval.
    budget: int
    #: How many times as long as simulated the profile's rounds took on the engine's workers.
    scale: float | None = None

    @property
    def rounds(self) -> int:
        return len(self.ratios)

    @property
    def error(self) -> float:
        """How far predictions of single runs of a known graph were off."""
        elsewhere = 0.0 if self.on_same_workers else self.engine.error_elsewhere
        return max(self.engine.error, elsewhere)

    @property
    def on_same_workers(self) -> bool:
        """Whether the profile was taken on the engine's workers, and these are simulated."""
        return (
            self.scale is not None
            and len(self.nodes) == self.engine.workers
            and not self.has_speeds
        )

    def why_no_interval(self) -> str:
        """Return why there is no interval; empty if there is one."""
        if self.rounds < _LEAST_ROUNDS:
            return f"it needs samples of at least {_LEAST_ROUNDS} rounds, there are {self.rounds}"
        if self.blas_may_wait and self.machine.uses_threads:
            return f"how long threads of BLAS wait for each other is not known; {_ONE_BLAS_THREAD}"
        return self.doubt_on_lock

    @cached_property
    def doubt_on_lock(self) -> str:
        """Why it is not known how long tasks wait for the interpreter's lock; empty if it is."""
        workers, lock = len(self.nodes), self.lock
        if lock is None or not lock.unknown or workers < 2:
            return ""
        if replace(self, lock=None).run.makespan_ms == self.run.makespan_ms:
            # As in a chain, no task waits for another.
            return ""
        classes = [*dict.fromkeys(class_of(self.graph.names[i]) for i in lock.unknown)]
        return (
            f"how long {some(classes, 5)} wait on threads for the interpreter's lock is not known; "
            f'take the rounds on {workers} threads, or with meters=["default", "gil"] where Python '
            "alone computes"
        )

    @cached_property
    def run(self) -> Replay:
        """The simulated run."""
        return self._run_with(self.work_ms)

    @cached_property
    def work_ms(self) -> list[float]:
        """How long each task keeps its worker, with nothing beside it."""
        return [sum(times) for times in self.times]

    def _run_with(self, work_ms: Sequence[float]) -> Replay:
        return replay(
            self.graph.below,
            Demands(work_ms, self.core, self.lock and self.lock.held),
            [*self.nodes.values()],
            self.overhead,
            ranked=self.ranked,
            orders=self.orders,
            transfers=self.transfers,
        )

    def as_measured(self) -> _Case:
        """Return the case by which the profile's own rounds take as long as they took.

        If they ran on as many workers as the engine has, they tell what is not modelled. What the
        values of priorities were, and which part of the time links took, is not in a profile.
        """
        source, engine, took_ms = self.source, self.engine, self.source.metrics.total_time_ms
        ran_on = source.run.executor, source.hostname, self.machine.workers
        if took_ms is None or ran_on != (engine.executor, engine.host, engine.workers):
            return self
        if self.rounds < _LEAST_ROUNDS or self._other_allocator:
            return self
        if self.transfers is not None or source.run.priorities in ("given", "profile"):
            return self
        plan, (_, metering_ms) = source.sections.get("schedule"), _around(source)
        rounds = replace(
            self,
            nodes=dict.fromkeys(plan or map(str, range(engine.workers)), 1.0),
            orders=orders_of(plan, self.graph) if plan else None,
            ranked=_ranked(source, self.graph, None),
            overhead=engine.overhead,
            # The waits for the interpreter's lock are in the times.
            lock=None,
            # Rounds read meters, which plain runs do not.
            times=[each._replace(enter=each.enter + metering_ms) for each in self.times],
        )
        if not rounds.run.makespan_ms:
            return self
        scale = took_ms / rounds.run.makespan_ms
        return replace(
            self,
            times=[_Times(*(ms * scale for ms in each)) for each in self.times],
            overhead=self.overhead.slowed(scale),
            scale=scale,
        )

    def computing_faster(self, factors: Mapping[int, float]) -> _Case:
        """Return the case in which tasks take these factors of their times in compute()."""
        times = [*self.times]
        for i, factor in factors.items():
            times[i] = times[i]._replace(compute=times[i].compute * factor)
        return replace(self, times=times)

    def interval_ms(self) -> tuple[float, float]:
        why_not = self.why_no_interval()
        if why_not:
            raise ProfileError(f"no interval: {why_not}")
        sampled_ms = self._sampled_ms()
        # Times are above 0 and disturbances multiply; with few rounds the spread is uncertain.
        centre = sum(sampled_ms) / len(sampled_ms)
        spread = hypot(*(ms - centre for ms in sampled_ms)) / sqrt(len(sampled_ms) - 1)
        t95 = _T95[min(self.rounds - 1, len(_T95)) - 1]
        width = t95 * sqrt(1 + 1 / self.rounds) * (spread / (centre or 1.0))
        # Both are of single runs: the wider one counts.
        times_as_long = 1 + max(width, _T95_OF_ENGINE * self.error)
        most = centre * times_as_long
        # Workers share cores and memory; nodes without an engine do not.
        on_one_machine = self.overhead.cores < inf or not (self.orders or self.has_speeds)
        if self.engine is NO_ENGINE and on_one_machine:
            most *= _WITHOUT_ENGINE
        ends = [self.run.makespan_ms, centre / times_as_long, most, *self._others()]
        return min(ends), max(ends)

    def _sampled_ms(self) -> list[float]:
        """Return the makespans of runs whose tasks have their times of random rounds."""
        tasks, work_ms = range(len(self.times)), self.work_ms
        chance = random.Random(len(tasks))  # noqa: S311  (a simulation: the same each time)
        total = sum(work_ms) or 1.0
        slow = [sum(r * ms for r, ms in zip(row, work_ms)) / total or 1.0 for row in self.ratios]
        sampled_ms = []
        for _ in range(min(_MOST, max(_LEAST, self.budget // max(1, len(tasks))))):
            common = chance.choice(slow)
            rows = [chance.randrange(self.rounds) for _ in tasks]
            factors = [common * self.ratios[row][i] / slow[row] for i, row in enumerate(rows)]
            run = self._run_with([ms * factor for ms, factor in zip(work_ms, factors)])
            sampled_ms.append(run.makespan_ms)
        return sampled_ms

    @property
    def _other_allocator(self) -> bool:
        allocator = self.machine.allocator
        return self.engine is not NO_ENGINE and allocator not in (None, self.engine.allocator)

    def gains(self) -> dict[str, float]:
        names, makespan_ms = self.graph.names, self.run.makespan_ms
        members = grouped(zip(classes_of(names), range(len(names))))
        costs = {name: sum(self.times[i].compute for i in m) for name, m in members.items()}
        gains = {}
        for name in sorted(costs, key=costs.__getitem__, reverse=True)[:_CLASSES]:
            faster = self.computing_faster(dict.fromkeys(members[name], 0.5))
            shorter_ms = makespan_ms - faster.run.makespan_ms
            gains[name] = shorter_ms / makespan_ms if makespan_ms else 0.0
        return dict(sorted(gains.items(), key=lambda item: -item[1]))

    def _others(self) -> Iterator[float]:
        """Yield the makespans if what is not known is otherwise."""
        if self.scale is not None and not self.on_same_workers:
            # What was not modelled may depend on the number of workers.
            yield self.run.makespan_ms / self.scale
        if self.blas_may_wait:
            threads = self.machine.blas_threads
            # A share above 1 is measured, of the whole process.
            core = [min(threads, share * threads) for share in self.core or [1.0] * len(self.times)]
            yield replace(self, core=core).run.makespan_ms
        if self._other_allocator:
            # How much of its time a task makes arrays is not known: from never to all the time.
            yield self._run_with([ms * self.engine.arrays for ms in self.work_ms]).makespan_ms

    @property
    def has_speeds(self) -> bool:
        return any(speed != 1.0 for speed in self.nodes.values())

    @property
    def blas_may_wait(self) -> bool:
        """Whether threads of numpy's BLAS may take the cores of other workers."""
        threads, workers = self.machine.blas_threads, len(self.nodes)
        if self.machine.uses_threads is False:
            return False
        if self.on_same_workers:
            return False  # it is in their times
        return min(threads, workers) > 1 and threads * workers > self.overhead.cores

    def reasons(self) -> tuple[str, ...]:
        """Return why the prediction may not be trusted."""
        of_source = self.source.sections.get("prediction", {}).get("reasons", ())
        return (*self._doubts_on_engine(), *self._doubts_on_machine(), *of_source)

    def _doubts_on_machine(self) -> Iterator[str]:
        delayed = _delayed(self.source)
        if delayed > _BUSY:
            yield (
                f"tasks waited {delayed:.0%} of their time for a core when they were measured; "
                f"measure beside no other program, on fewer workers, or {_ONE_BLAS_THREAD}"
            )
        workers = len(self.nodes)
        if self.blas_may_wait:
            yield (
                f"numpy's BLAS has {self.machine.blas_threads} threads in each of {workers} "
                f"workers, on {self.overhead.cores:g} cores: tasks that multiply matrices wait for "
                f"each other; {_ONE_BLAS_THREAD}"
            )
        if self.doubt_on_lock:
            yield self.doubt_on_lock

    def _doubts_on_engine(self) -> Iterator[str]:
        engine, source = self.engine, self.source
        if engine is NO_ENGINE:
            yield f"no engine: what the executor and shared cores cost is not known; {CALIBRATE}"
            return
        if engine.host != source.hostname:
            yield f"the engine was calibrated on {engine.host}, the profile is of {source.hostname}"
        if self.error > _DOUBTFUL:
            yield (
                f"predictions were off by {self.error:.0%} when the engine was calibrated; "
                "calibrate it while no other program runs, or take the rounds on all of its workers"
            )
        if self._other_allocator:
            yield (
                f"the workers' allocator is set to {dict(engine.allocator)}, the profile's to "
                f"{self.machine.allocator}: arrays may take {engine.arrays:.1f} times as long"
            )
        if len(self.nodes) > engine.workers:
            yield f"{len(self.nodes)} workers, the engine was calibrated with {engine.workers}"

    def profile_of(self, simulation: Simulation) -> Profile:
        """Return the predicted profile."""
        source, names = self.source, self.graph.names
        rows, tasks = self._rows()
        sections: JsonObject = {
            "run": {"state": "complete", "executor": self.engine.executor},
            "timeline": {
                "workers": [
                    {"host": node, "pid": number, "thread": 0}
                    for number, node in enumerate(self.nodes)
                ],
                "columns": ["task", "round", "worker", *MOMENTS],
                "records": rows,
            },
            "prediction": {
                "kind": "simulation",
                "sources": sources_of([source]),
                **simulation.figures(),
                "gains": {name: round(gain, 6) for name, gain in simulation.gains.items()},
                "reasons": [*simulation.reasons],
            },
            # Its estimates: what was measured is of another run.
            "weight_sources": {
                name: {key: entry.get(key) for key in ("node_weight", "estimated_instructions")}
                for name, entry in source.sections.get("weight_sources", {}).items()
                if entry["node_weight"] in ("default", "estimated_instructions")
            },
        }
        if self.engine is not NO_ENGINE:
            sections["engine"] = self.engine.to_dict()
        if self.orders is not None:
            orders = [[names[i] for i in order] for order in self.orders]
            sections["schedule"] = dict(zip(self.nodes, orders))
        total_ms = round(self.run.makespan_ms, 6)
        metrics = replace(source.metrics, task_metrics=tasks, total_time_ms=total_ms)
        return predicted(source, source.config, source.dag_structure, metrics, sections)

    def _rows(self) -> tuple[list[list[Any]], list[TaskMetrics]]:
        """Return the rows of the timeline, and the times of each task."""
        run, graph, entries = self.run, self.graph, entries_of_tasks(self.source)
        ready = [0.0] * len(graph.names)
        for i, ended in enumerate(run.ended):
            for target in graph.below[i]:
                ready[target] = max(ready[target], ended)
        rows, metrics = [], []
        for i in graph.order:
            name, moments = graph.names[i], _moments(self.times[i], run.begun[i], run.ended[i])
            rows.append([name, 0, run.worker[i], *(round(ms, 6) for ms in (ready[i], *moments))])
            phases = zip(moments[::2], moments[1::2])
            read_ms, compute_ms, write_ms = (round(end - start, 6) for start, end in phases)
            sizes = entries[name].bytes_in, entries[name].bytes_out
            metrics.append(TaskMetrics(name, compute_ms, write_ms, read_ms, *sizes))
        return rows, metrics


def predicted(
    measured: Profile, config: Config, structure: JsonObject, metrics: DAGMetrics, sections: Values
) -> Profile:
    """Return a predicted profile, of the machine and with the engine of a measured one."""
    kept = {name: measured.sections.get(name) for name in ("environment", "engine")}
    return Profile(
        config,
        structure,
        metrics,
        seed=measured.seed,
        hostname=measured.hostname,
        sections={**{name: of for name, of in kept.items() if of is not None}, **sections},
        metadata={} if measured.name is None else {"name": measured.name},
    )


def sources_of(profiles: Sequence[Profile]) -> list[JsonObject]:
    """Return what the section ``prediction`` says of the profiles behind it."""
    return [{"timestamp": profile.timestamp, "hostname": profile.hostname} for profile in profiles]


def _moments(times: _Times, begun: float, ended: float) -> list[float]:
    """Return the start and end of each phase, spread over the time at the worker."""
    whole = sum(times)
    stretch = (ended - begun) / whole if whole else 0.0
    at = [begun + ms * stretch for ms in accumulate(times)]
    return at[:6]


def graph_of(profile: Profile) -> NumberedGraph:
    """Return the graph of a profile in numbers, as a run has it."""
    return numbered(profile.dag_structure["nodes"], edges_of(profile))


def _nodes(
    workers: int | None,
    speeds: Mapping[str, float] | None,
    schedule: Mapping[str, Sequence[str]] | None,
    engine: Engine,
) -> dict[str, float]:
    """Return each worker's name and speed."""
    if speeds is None and schedule is None:
        return {f"worker {number}": 1.0 for number in range(workers or engine.workers)}
    if workers is not None:
        raise refused("workers: each node of speeds and schedule is a worker; omit it")
    if speeds is None:
        return dict.fromkeys(schedule or (), 1.0)
    speed_of = _numbers("speeds", speeds)
    for node in schedule or ():
        if node not in speed_of:
            raise refused(f"schedule: node {node!r} has no speed; speeds has {some([*speed_of])}")
    return {node: speed_of[node] for node in schedule or speed_of}


def _transfers(
    profile: Profile,
    graph: NumberedGraph,
    nodes: Mapping[str, float],
    orders: Sequence[Sequence[int]] | None,
    bandwidth: Any,
) -> dict[int, list[tuple[int, float]]] | None:
    """Return for each task the tasks on other nodes that it feeds, and the time of each.

    None without links.
    """
    if bandwidth is None:
        return None
    if orders is None:
        raise refused("bandwidth: links are between the nodes of a schedule, and there is none")
    network = network_of({"speeds": dict(nodes), "bandwidth": bandwidth})
    links = {frozenset((e["source"], e["target"])): e["speed"] for e in network["edges"]}
    home = {i: node for node, order in zip(nodes, orders) for i in order}
    index = {name: i for i, name in enumerate(graph.names)}
    transfers: dict[int, list[tuple[int, float]]] = {}
    for edge in profile.metrics.edge_metrics:
        source, target = index[edge.source], index[edge.target]
        if home[source] != home[target]:
            takes_ms = 8 * bytes_on(edge) / links[frozenset((home[source], home[target]))]
            transfers.setdefault(source, []).append((target, takes_ms))
    return transfers


def bytes_on(edge: EdgeMetrics) -> int:
    """Return the bytes that an edge moves."""
    return edge.size_bytes if edge.wire_bytes is None else edge.wire_bytes


def _numbers(what: str, given: Any) -> dict[str, float]:
    """Return numbers above 0 by name."""
    if not (isinstance(given, Mapping) and given):
        raise refused(f"{what} must be {{name: number}}, got {short_repr(given)}")
    return {
        name: float(number(f"{what}: that of {name!r}", given[name])) for name in names(what, given)
    }


def _factors(names: Sequence[str], faster: Mapping[str, float] | None) -> dict[int, float]:
    """Return the factors on the times of tasks in compute()."""
    factors: dict[int, float] = {}
    for wanted, value in (_numbers("faster", faster) if faster else {}).items():
        members = [i for i, name in enumerate(names) if is_of(name, wanted)]
        if not members:
            hint = did_you_mean(wanted, [*names, *map(class_of, names)])
            raise refused(f"faster: there is no task or class {wanted!r}{hint}")
        for i in members:
            factors[i] = factors.get(i, 1.0) / value
    return factors


def _times(
    profile: Profile, graph: NumberedGraph, engine: Engine
) -> tuple[list[_Times], list[list[float]]]:
    """Return the times of each task, and for each round its time relative to the median."""
    entries = entries_of_tasks(profile)
    samples = profile.samples
    beside, (around, _) = _beside(profile, engine), _around(profile)
    write_ms, read_ms = _handed_over(profile, engine)
    times: list[_Times] = []
    rows: list[list[float]] = []
    for name in graph.names:
        entry = entries.get(name)
        if entry is None:
            raise ProfileError(f"task {name!r} has no time")
        measured = samples.of(name, _time_in(samples.tasks.get(name, {})))
        typical = median(measured) if measured else entry.compute_time_ms
        relative = [ms / typical for ms in measured] if typical else [1.0] * len(measured)
        serialize_ms = entry.serialize_time_ms or 0.0
        deserialize_ms = entry.deserialize_time_ms or 0.0
        rows.append(relative or _drawn(profile, name, (typical, serialize_ms, deserialize_ms)))
        enter_ms, leave_ms = around.get(name, (0.0, 0.0))
        compute_ms = typical / beside.get(name, 1.0)
        before = read_ms[name], deserialize_ms, enter_ms
        times.append(_Times(*before, compute_ms, leave_ms, serialize_ms, write_ms[name]))
    ratios = [*zip(*rows)]
    # Disturbances hit a few tasks in each round, and the medians of the tasks hold none of them.
    whole = sum(each.compute for each in times)
    in_rounds = [sum(r * each.compute for r, each in zip(row, times)) for row in ratios]
    usual = median(in_rounds) / whole if in_rounds and whole else 1.0
    times = [each._replace(compute=each.compute * usual) for each in times]
    return times, [[ratio / usual for ratio in row] for row in ratios]


def _around(profile: Profile) -> tuple[dict[str, tuple[float, float]], float]:
    """Return the times before and after compute(), between the phases, and to read meters, in ms.

    Reading meters takes the least of all tasks, and the times of each are beyond that: plain runs
    read none, and tasks without inputs free nothing.
    """
    enters: dict[str, list[float]] = {}
    leaves: dict[str, list[float]] = {}
    for row in profile.timeline.rows():
        before, start = row.deserialize_end_ms, row.compute_start_ms
        end, after = row.compute_end_ms, row.serialize_start_ms
        if before is None or start is None or end is None or after is None:
            continue  # it failed, or other programs did not record it
        enters.setdefault(row.task, []).append(max(0.0, start - before))
        leaves.setdefault(row.task, []).append(max(0.0, after - end))
    if not leaves:
        return {}, 0.0
    enter, leave = (
        {name: median(ms) for name, ms in around.items()} for around in (enters, leaves)
    )
    least = min(enter.values()), min(leave.values())
    return {name: (enter[name] - least[0], leave[name] - least[1]) for name in leave}, sum(least)


def _time_in(columns: Iterable[str]) -> str:
    """Return the column of the time in compute(), if known without waiting for a core."""
    return "corrected_ms" if "corrected_ms" in columns else "wall_ms"


#: Deviations of a normal distribution with equal probability between them.
_QUINTILES = (-1.28, -0.52, 0.0, 0.52, 1.28)


#: The times of a task, and where a prediction has their intervals.
INTERVALS = {
    "compute()": "intervals_ms",
    "serializing": "serialize_intervals_ms",
    "deserializing": "deserialize_intervals_ms",
}


def _drawn(profile: Profile, name: str, phases_ms: Sequence[float]) -> list[float]:
    """Return ratios as of five rounds for a task whose times are predicted with intervals."""
    prediction, whole_ms = profile.sections.get("prediction", {}), sum(phases_ms)
    if "intervals_ms" not in prediction:
        return []
    rows = []
    for ms, key in zip(phases_ms, INTERVALS.values()):
        low, high = (max(end, 1e-3 * ms) for end in prediction.get(key, {}).get(name, (ms, ms)))
        rows.append(
            [ms * ((low if z < 0 else high) / (ms or 1.0)) ** (abs(z) / 1.96) for z in _QUINTILES]
        )
    return [sum(column) / whole_ms if whole_ms else 1.0 for column in zip(*rows)]


def _handed_over(
    profile: Profile, engine: Engine
) -> tuple[defaultdict[str, float], defaultdict[str, float]]:
    """Return how long each task writes for others, each value once, and reads, in ms."""
    read_ms, write_ms = defaultdict[str, float](float), defaultdict[str, float](float)
    sizes = defaultdict[tuple[str, str], int](int)
    for edge in profile.metrics.edge_metrics:
        size = bytes_on(edge)
        read_ms[edge.target] += engine.handing_over_ms(size)[1]
        values = edge.field_bytes or {str(edge.data_fields): {"wire_bytes": size}}
        for name, of_field in values.items():
            value = edge.source, name
            sizes[value] = max(sizes[value], of_field.get("wire_bytes", 0))
    for (source, _), size in sizes.items():
        write_ms[source] += engine.handing_over_ms(size)[0]
    return write_ms, read_ms


def _beside(profile: Profile, engine: Engine) -> dict[str, float]:
    """Return for each task the contention that its measured times contain already."""
    if len(engine.overhead.contention) < 2:
        return {}
    busy = profile.run.conditions.get("busy_cores", 0)
    if busy:
        return dict.fromkeys(profile.dag_structure["nodes"], _contended(engine, 1 + busy))
    spans = [
        (row.task, row.compute_start_ms, row.compute_end_ms)
        for row in profile.timeline.rows()
        if row.compute_start_ms is not None and row.compute_end_ms is not None
    ]
    if len(profile.timeline.workers) < 2 or not spans:
        return {}
    edges = sorted([(a, 1) for _, a, _ in spans] + [(b, -1) for _, _, b in spans])
    moments, steps = np.array(edges).reshape(-1, 2).T
    # The sum over workers of the time for which each has computed.
    areas = np.cumsum(np.diff(moments, prepend=0.0) * (np.cumsum(steps) - steps))
    factors: dict[str, list[float]] = {}
    for name, begun, ended in spans:
        if ended > begun:
            computed = np.diff(np.interp([begun, ended], moments, areas))[0]
            factor = _contended(engine, computed / (ended - begun))
            factors.setdefault(name, []).append(factor)
    return {name: median(values) for name, values in factors.items()}


def _contended(engine: Engine, computing: float) -> float:
    """Return the contention factor for a number of workers, also between two whole ones."""
    factors = engine.overhead.contention
    return float(np.interp(computing, range(1, len(factors) + 1), factors))


def _cores_of_tasks(
    profile: Profile, names: Sequence[str], machine: _Machine
) -> list[float] | None:
    """Return how many cores each task needs, on average; None if that is not known of all."""
    for column, most in (("process_cpu_ms", machine.blas_threads), ("cpu_ms", 1)):
        shares = [share for share in _shares(profile, names, column, most) if share is not None]
        if len(shares) == len(names):
            return shares
    return None


def _shares(
    profile: Profile, names: Sequence[str], column: str, most: float = 1.0
) -> list[float | None]:
    """Return for each task the share of its time that a column has, as on a core; None: unknown."""
    samples, entries = profile.samples, entries_of_tasks(profile)
    sources = profile.sections.get("weight_sources", {})
    shares: list[float | None] = []
    for name in names:
        columns = samples.tasks.get(name, {})
        # The lock is held, or not, also while other programs have the core.
        whole_in = "wall_ms" if column == "gil_ms" else _time_in(columns)
        rows = []
        if whole_in in columns and column in columns:
            pairs = [(columns[whole_in][k], columns[column][k]) for k in samples.measured]
            rows = [pair for pair in pairs if None not in pair]
        cpu_time_ms = sources.get(name, {}).get("cpu_time_ms") if column == "cpu_ms" else None
        if not rows and cpu_time_ms is not None:
            rows = [(entries[name].compute_time_ms, cpu_time_ms)]
        whole, parts = sum(ms for ms, _ in rows), sum(part for _, part in rows)
        # Tenths: tasks of equal shares are simulated together.
        shares.append(round(min(most, max(0.0, parts / whole)), 1) if whole else None)
    return shares


def _threads(profile: Profile) -> int:
    """Return on how many threads of one process the tasks ran; 0 if on several processes."""
    workers = profile.timeline.workers
    processes = {(each.get("host"), each.get("pid", k)) for k, each in enumerate(workers)}
    return len(workers) if len(processes) == 1 else 0


def _delayed(profile: Profile) -> float:
    """Return the share of their time in compute() in which tasks waited for a core."""
    samples = profile.samples
    delays, walls = (
        sum(sum(samples.of(name, column)) for name in samples.tasks)
        for column in ("delay_ms", "wall_ms")
    )
    return delays / walls if walls else 0.0
