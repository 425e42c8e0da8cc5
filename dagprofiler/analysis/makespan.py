"""The makespan of a run: its parts, which add up to it, and what would make it shorter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from heapq import nlargest
from itertools import chain, compress
from math import ceil, inf, log2
from typing import Any, NamedTuple

from dagprofiler._document import ProfileData
from dagprofiler._document.rounds import MOMENTS
from dagprofiler._document.table import edges_of
from dagprofiler._util import JsonObject, grouped
from dagprofiler._util.text import BYTES, Block, classes_of, printable, quantity, table_of
from dagprofiler.analysis.critical_path import Analysis, paths_of
from dagprofiler.errors import counted
from dagprofiler.graph.replay import Demands, replay
from dagprofiler.graph.wiring import NumberedGraph, numbered
from dagprofiler.stats import median

#: Parts of the makespan, and what they are.
PARTS = {
    "tasks": "compute() of the tasks",
    "cores": "waits for a core, where measured; simulated ones are in tasks",
    "transfers": "serializing and deserializing",
    "engine": "workers without work although tasks were ready, or between phases of a task",
    "waiting": "workers without work and without ready tasks",
}

#: What they are called where the time of one run is shown, in this order.
LABELS = {
    "tasks": "computing",
    "transfers": "serializing",
    "cores": "waiting for a core",
    "waiting": "idle, no task was ready",
    "engine": "executor and profiler",
}

#: The most classes of tasks whose gains are computed, and the most tasks that all of their replays
#: have together. A larger DAG is not replayed: its makespan is its work divided by the workers.
_CLASSES, _SIMULATED = 10, 30_000

#: Shares of the makespan from which on a gain is shown, and a cause is worth advice.
_SHOWN, _WORTH = 0.001, 0.05

#: Characters of the longest bar.
_BAR = 24


class _Moments(NamedTuple):
    """The workers and `MOMENTS`, in this order, of tasks that came to the end of compute(); ms."""

    workers: Sequence[int | None]
    ready: Sequence[float]
    begun: Sequence[float]
    received: Sequence[float | None]
    started: Sequence[float]
    computed: Sequence[float]
    sending: Sequence[float | None]
    ended: Sequence[float]

    @classmethod
    def of(cls, at: Mapping[str, Sequence[Any]]) -> _Moments:
        """Return columns of a round, without tasks that did not come to the end of compute()."""
        needed = "ready_ms", "deserialize_start_ms", "compute_start_ms", "compute_end_ms"
        known = [None not in moments for moments in zip(*[at[name] for name in needed])]
        # A task that failed has serialized nothing.
        ends = zip(at["compute_end_ms"], at["serialize_end_ms"])
        ended = [computed if sent is None else sent for computed, sent in ends]
        columns = [at[name] for name in ("worker", *MOMENTS[:-1])]
        return cls(*[[*compress(column, known)] for column in (*columns, ended)])


class _Round(NamedTuple):
    """The measured round whose time is nearest to the median: its number and its tasks."""

    number: int
    moments: _Moments
    #: Its sample, which leaves out hooks and, on a serial run, meters; these are on its timeline.
    total_ms: float | None
    #: How long its tasks waited for a core in ``compute()``.
    waited_ms: float
    #: The most workers that had a task in a measured round.
    workers: int


def parts_of(profile: ProfileData, workers: int = 1) -> dict[str, float] | None:
    """Return the parts of the makespan of the median round, in milliseconds.

    A round has at least `workers`, since those without a task are in no record.
    """
    typical = _median_round(profile)
    if typical is None:
        return None
    parts = _split(typical, max(workers, typical.workers))
    whole_ms = sum(parts.values())
    return _adding_up(parts, min(whole_ms, typical.total_ms or whole_ms))


def _adding_up(parts: dict[str, float], makespan_ms: float) -> dict[str, float]:
    """Return parts that add up to a makespan, with more or less for the engine."""
    engine_ms = parts["engine"] + makespan_ms - sum(parts.values())
    waiting_ms = parts["waiting"] + min(0.0, engine_ms)
    return {**parts, "engine": max(0.0, engine_ms), "waiting": waiting_ms}


def _median_round(profile: ProfileData) -> _Round | None:
    samples = profile.samples
    rounds = {n: _Moments.of(at) for n, at in profile.timeline.columns_by_round().items()}
    measured = samples.measured if samples.rounds else rounds
    rounds = {n: rounds[n] for n in measured if n in rounds and rounds[n].ended}
    if not rounds:
        return None
    totals = dict(enumerate(samples.total_ms))
    times = {n: totals.get(n) or max(of.ended) - min(of.ready) for n, of in rounds.items()}
    middle = median([*times.values()])
    n = min(times, key=lambda n: abs(times[n] - middle))
    # Other programs may write one without the other.
    both = [row for row in samples.tasks.values() if {"wall_ms", "corrected_ms"} <= row.keys()]
    waits = [(row["wall_ms"][n], row["corrected_ms"][n]) for row in both]
    waited_ms = sum([wall_ms - alone_ms for wall_ms, alone_ms in waits if alone_ms is not None])
    # A simulated task can end at 0; each resumption has workers of its own.
    begun_ms = [-inf, *(entry["at_ms"] for entry in profile.run.resumed)]
    workers = max(
        len({worker for worker, end in zip(of.workers, of.ended) if begun < end <= until})
        for of in rounds.values()
        for begun, until in zip(begun_ms, [*begun_ms[1:], inf])
    )
    return _Round(n, rounds[n], totals.get(n), waited_ms, workers)


def _split(typical: _Round, workers: int) -> dict[str, float]:
    """Return the parts of one round: the time of all workers, divided by their number."""
    at = typical.moments
    computing = sum([end - start for start, end in zip(at.started, at.computed)])
    whole = sum([end - start for start, end in zip(at.begun, at.ended)])
    # Time between the phases serializes nothing.
    phases = chain(zip(at.received, at.started), zip(at.computed, at.sending))
    between = sum([b - a for a, b in phases if a is not None and b is not None])
    # The k-th task could have begun when k tasks were ready, and a worker was free for it.
    free = [-inf] * workers + sorted(at.ended)
    delays = [
        start - (arrival if arrival > freed else freed)  # noqa: FURB136  (a call takes longer)
        for start, arrival, freed in zip(sorted(at.begun), sorted(at.ready), free)
    ]
    engine = sum([delay for delay in delays if delay > 0])
    idle = workers * (max(at.ended) - min(at.ready)) - whole
    parts = {
        "tasks": computing - typical.waited_ms,
        "cores": typical.waited_ms,
        "transfers": whole - computing - between,
        "engine": engine + between,
        "waiting": idle - engine,
    }
    return {part: time_ms / workers for part, time_ms in parts.items()}


def makespan_of(profile: ProfileData, analysis: Analysis | None) -> JsonObject | None:
    """Return where the time of a run went, and what would make it shorter on its workers.

    Parameters
    ----------
    analysis
        The profile's analysis, if there is one.

    Returns
    -------
    dict or None
        ``workers``: how many had tasks; ``round``: its number if it is one of several;
        ``makespan_ms``; ``parts``: for each of :data:`LABELS` its time in ms, which add up to the
        makespan; ``gains``: the classes of tasks that cost most, and serializing, the largest
        gain first: ``name``, ``tasks``, ``cost_ms``, and by how much the makespan would shrink
        without it, ``gain_ms`` on the workers of this run and ``gain_enough_ms`` with one for
        each task; ``advice``: one for each cause, the largest gain first:
        ``what`` with ``{}`` for its ``name``, ``why``, ``gain_ms`` and ``share``, that of the
        makespan. None without the moments of tasks.

    Notes
    -----
    Of a moment at which j of k workers compute, the share j / k counts as computing, and so on for
    the other parts. Gains on k workers are differences of makespans by
    :func:`~dagprofiler.graph.replay.replay`, on an executor that costs nothing; on one worker it
    is a sum. Gains with enough workers are differences of the critical path, edges included
    where their times are known.
    """
    typical = _median_round(profile)
    if typical is None:
        return None
    parts, samples = _split(typical, typical.workers), profile.samples
    total_ms = typical.total_ms if samples.total_ms else profile.metrics.total_time_ms
    if total_ms:
        # A total begins before the first task and ends after the last one.
        parts = _adding_up(parts, total_ms)
    parts = {part: max(0.0, round(parts[part], 6)) for part in LABELS}
    shown: JsonObject = {
        "workers": typical.workers,
        "round": typical.number if len(samples.measured) > 1 else None,
        "makespan_ms": round(sum(parts.values()), 6),
        "parts": parts,
        "gains": [],
        "advice": [],
    }
    if analysis is not None and analysis.weights.source == "time" and not analysis.weights.filled:
        case = _TimedRun(profile, analysis, typical.workers)
        shown["gains"] = case.gains()
        shown["advice"] = _Adviser(case, shown).all()
    return shown


class _TimedRun:
    """A run as :func:`replay` takes it, with times that can be set to 0."""

    def __init__(self, profile: ProfileData, analysis: Analysis, workers: int) -> None:
        self.profile, self.analysis, self.workers = profile, analysis, workers
        #: In the order in which they are numbered.
        self.names = sorted(profile.dag_structure["nodes"])
        self.computing = [float(analysis.weights.values[name]) for name in self.names]
        moving = {
            entry.task: (entry.serialize_time_ms or 0.0) + (entry.deserialize_time_ms or 0.0)
            for entry in profile.metrics.task_metrics
        }
        self.moving = [moving.get(name, 0.0) for name in self.names]
        self.schedule = profile.sections.get("schedule")
        self.makespan_ms = self.replayed_ms(self.computing, self.moving, workers)

    @cached_property
    def _graph(self) -> NumberedGraph:
        return numbered(self.names, edges_of(self.profile))

    def replayed_ms(self, computing: list[float], moving: list[float], workers: int) -> float:
        """Return the makespan on an executor that costs nothing."""
        work = [a + b for a, b in zip(computing, moving)]
        if workers == 1 or len(work) > _SIMULATED:
            return sum(work) / workers
        orders = None
        if self.schedule and workers == self.workers:
            number = {name: i for i, name in enumerate(self.names)}
            orders = [[number[name] for name in row] for row in self.schedule.values()]
        speeds = [1.0] * (len(orders) if orders else workers)
        return replay(self._graph.below, Demands(work), speeds, orders=orders).makespan_ms

    def alone_ms(self, workers: int) -> float:
        """Return the makespan with free edges; Graham's bound is close where tasks are many."""
        if len(self.computing) > _SIMULATED // 10:
            return self.analysis.makespan_upper_bound(workers)
        return self.replayed_ms(self.computing, [0.0] * len(self.moving), workers)

    def gains(self) -> list[JsonObject]:
        """Return what the classes of tasks that cost most gain, and what serializing does."""
        names, computing, workers = self.names, self.computing, self.workers
        most = _CLASSES if workers == 1 else max(1, min(_CLASSES, _SIMULATED // len(names) - 2))
        members = grouped(zip(classes_of(names), range(len(names))))
        if len(members) == 1:
            longest = nlargest(most, range(len(names)), key=computing.__getitem__)
            members = {names[i]: [i] for i in longest}
        costs = {name: sum([computing[i] for i in tasks]) for name, tasks in members.items()}
        rows, paths = [], paths_of(self.analysis)
        on_path = {*paths.critical_path}
        for name in nlargest(most, costs, key=costs.__getitem__):
            tasks, without_ms = members[name], self.makespan_ms - costs[name]
            if costs[name] <= _SHOWN * self.makespan_ms:
                # The rest costs less than a gain that is shown.
                break
            if workers > 1:
                without = dict.fromkeys(tasks, 0.0)
                left = [without.get(i, ms) for i, ms in enumerate(computing)]
                without_ms = self.replayed_ms(left, self.moving, workers)
            free = [names[i] for i in tasks]
            enough_ms = 0.0 if on_path.isdisjoint(free) else float(paths.gain(free))
            called = free[0] if len(free) == 1 else name
            rows.append(self._gain(called, len(free), costs[name], without_ms, enough_ms))
        if any(self.moving) and most > 1:
            without_ms = self.replayed_ms(computing, [0.0] * len(names), workers)
            enough_ms = float(paths.span - self.analysis.span)
            rows.append(self._gain(MOVING, 0, sum(self.moving), without_ms, enough_ms))
        least = _SHOWN * self.makespan_ms
        rows = [row for row in rows if max(row["gain_ms"], row["gain_enough_ms"]) > least]
        return sorted(rows, key=lambda row: (-row["gain_ms"], -row["gain_enough_ms"]))

    def _gain(
        self, name: str, tasks: int, cost_ms: float, without_ms: float, enough_ms: float
    ) -> JsonObject:
        # Without a task, the others may start in a worse order, and the makespan be longer.
        return {
            "name": name,
            "tasks": tasks,
            "cost_ms": round(cost_ms, 6),
            "gain_ms": max(0.0, round(self.makespan_ms - without_ms, 6)),
            "gain_enough_ms": max(0.0, round(enough_ms, 6)),
        }


#: The name of the gain of serializing and deserializing, which is no class of tasks.
MOVING = "(serializing)"


def _on(workers: int) -> str:
    return f"on {counted(workers, 'worker')}"


class _Advice(NamedTuple):
    """By how much the makespan would shrink, what to do, why, and the task that it is done to."""

    gain_ms: float
    what: str
    why: str
    name: str | None = None


class _Adviser:
    """What to do first about each cause of a long makespan."""

    def __init__(self, case: _TimedRun, shown: JsonObject) -> None:
        self.case, self.shown, self.profile = case, shown, case.profile
        self.workers, self.on = case.workers, _on(case.workers)
        environment, run = case.profile.environment, case.profile.run
        #: How many cores the run had; None if unknown, or on several machines.
        self.cores: int | None = None
        cores = environment.cores_usable or environment.cores
        if cores and len({worker.get("host") for worker in case.profile.timeline.workers}) < 2:
            cores = int(min(cores, environment.cores_quota or cores))
            self.cores = max(1, cores - run.conditions.get("busy_cores", 0))

    def all(self) -> list[JsonObject]:
        """Return one advice for each cause that is worth one, the largest gain first."""
        causes = self._tasks, self._transfers, self._cores, self._workers, self._waiting
        advice = [entry for cause in (*causes, self._engine) for entry in cause()]
        advice.sort(key=lambda entry: -entry.gain_ms)
        return [{**entry._asdict(), "share": self._share(entry.gain_ms)} for entry in advice]

    def _share(self, ms: float) -> float:
        return round(ms / float(self.shown["makespan_ms"] or 1.0), 6)

    def _in_words(self, ms: float) -> str:
        """Return a time, and its share of the makespan."""
        return f"{quantity(ms, 'ms')} ({self._share(ms):.1%})"

    def _tasks(self) -> Iterator[_Advice]:
        simulated = self.profile.sections.get("prediction", {}).get("gains")
        if simulated:
            # The profile's times contain what its workers shared, which the simulation knew.
            name = max(simulated, key=simulated.__getitem__)
            gain_ms = simulated[name] * self.shown["makespan_ms"]
            if gain_ms > 0:
                why = f"the whole would be {self._in_words(gain_ms)} shorter, by simulation"
                yield _Advice(gain_ms, "make {} twice as fast", why, name)
            return
        for row in [row for row in self.shown["gains"] if row["tasks"] and row["gain_ms"]][:1]:
            gain, enough = self._in_words(row["gain_ms"]), quantity(row["gain_enough_ms"], "ms")
            shorter = f"without it the run {self.on} would be {gain} shorter"
            why = f"{shorter}; with enough workers {enough}"
            yield _Advice(row["gain_ms"], "make {} cheaper", why, row["name"])

    def _transfers(self) -> Iterator[_Advice]:
        for row in self.shown["gains"]:
            if row["name"] == MOVING and self._share(row["gain_ms"]) > _WORTH:
                gain = self._in_words(row["gain_ms"])
                why = f"without serializing the run {self.on} would be {gain} shorter"
                edges = self.profile.metrics.edge_metrics
                if edges:
                    edge = max(edges, key=lambda edge: edge.size_bytes)
                    most = f"{quantity(edge.size_bytes, BYTES)} on {edge.source} -> {edge.target}"
                    why += f"; the most is {printable(most)}"
                if self.profile.run.executor == "serial":
                    why += "; a serial run serializes only to measure edges"
                yield _Advice(row["gain_ms"], "move less data between tasks", why)

    def _cores(self) -> Iterator[_Advice]:
        waited_ms, what = self.shown["parts"]["cores"], "end what else runs on the machine"
        if self._share(waited_ms) > _WORTH:
            why = f"tasks waited {self._in_words(waited_ms)} for a core when they computed"
            if self.cores is not None:
                why += f"; {counted(self.workers, 'worker')}, {counted(self.cores, 'core')}"
                if self.workers > self.cores:
                    what = f"take {counted(self.cores, 'worker')}"
            why += "; waits while serializing are not measured, and count as serializing"
            yield _Advice(waited_ms, what, why)

    def _workers(self) -> Iterator[_Advice]:
        sections, analysis = self.profile.sections, self.case.analysis
        flags = sections.get("statistics", {}).get("flags", {}).values()
        waited = self._share(self.shown["parts"]["cores"]) > _WORTH
        fixed = "schedule" in sections or "prediction" in sections
        if fixed or waited or any("contended" in raised for raised in flags):
            return
        parallelism = max(1.0, analysis.average_parallelism or 1.0)
        more = int(min(2 ** ceil(log2(parallelism)), 4 * self.workers, self.cores or inf))
        if more <= self.workers:
            return
        now_ms, then_ms = self.case.alone_ms(self.workers), self.case.alone_ms(more)
        if self._share(now_ms - then_ms) > _WORTH:
            where = "if the machine has the cores"
            if self.cores is not None:
                cores = counted(self.cores, "core")
                where = f"the machine has {cores}, and the run did not wait for them"
            why = (
                f"tasks alone, without edges and what a pool costs, would take "
                f"{quantity(then_ms, 'ms')} instead of {quantity(now_ms, 'ms')}, "
                f"{self._in_words(now_ms - then_ms)} less; {where}"
            )
            yield _Advice(now_ms - then_ms, f"use {counted(more, 'worker')}", why)

    def _waiting(self) -> Iterator[_Advice]:
        idle_ms, analysis = self.shown["parts"]["waiting"], self.case.analysis
        path = analysis.without_communication.critical_path
        if self.workers > 1 and path and self._share(idle_ms) > 2 * _WORTH:
            longest = max(path, key=analysis.weights.values.__getitem__)
            idle = f"workers were idle for {self._in_words(idle_ms)}, since no task was ready"
            why = f"{idle}: the most that it can gain"
            yield _Advice(idle_ms, "split {} into tasks that run at once", why, longest)

    def _engine(self) -> Iterator[_Advice]:
        outside_ms = self.shown["parts"]["engine"]
        if outside_ms >= 1 and self._share(outside_ms) > 2 * _WORTH:
            is_short = self.case.analysis.work < len(self.case.names)
            what = "make tasks larger" if is_short else "look outside of the tasks"
            spent = self._in_words(outside_ms)
            why = f"starting and measuring tasks, and freeing their values, takes {spent}"
            yield _Advice(outside_ms, what, why)


def makespan_blocks(shown: JsonObject) -> Iterator[Block]:
    """Yield what :func:`makespan_of` returned: parts, advice, gains."""
    workers, whole_ms, parts = shown["workers"], shown["makespan_ms"] or 1.0, shown["parts"]
    of = "" if shown["round"] is None else ", in the round nearest the median"
    title = f"where {quantity(shown['makespan_ms'], 'ms')} went {_on(workers)}{of}"
    longest = max(parts.values()) or 1.0
    rows = [
        (LABELS[part], ms, f"{ms / whole_ms:.1%}", "#" * round(_BAR * ms / longest))
        # A part of 0 took no time, or is unknown and counts in the others.
        for part, ms in parts.items()
        if ms
    ]
    yield Block(title, table_of(("", "ms", "share", ""), rows), (0, 3), "parts")
    advice = [
        f"{i}. {entry['what'].format(printable(entry['name']))}: {entry['why']}"
        for i, entry in enumerate(shown["advice"], 1)
    ]
    yield Block("what to do first" if advice else "", notes=advice)
    gains = [
        (
            f"{row['name']} ({row['tasks']:,} tasks)" if row["tasks"] > 1 else row["name"],
            row["cost_ms"],
            row["gain_ms"],
            f"{row['gain_ms'] / whole_ms:.1%}",
            row["gain_enough_ms"],
        )
        for row in shown["gains"]
    ]
    head = ("", "cost", _on(workers), "share", "with enough workers")
    yield Block("gain if free, in ms", table_of(head, gains), what="gains")
