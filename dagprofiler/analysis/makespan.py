"""The makespan of a run: its parts, which add up to it, and what would make it shorter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from heapq import nlargest
from math import ceil, inf, log2
from typing import Any, NamedTuple

from dagprofiler._document import ProfileData
from dagprofiler._document.table import edges_of
from dagprofiler._util import grouped
from dagprofiler._util.text import BYTES, Block, class_of, number, printable, quantity
from dagprofiler.analysis.critical_path import Analysis
from dagprofiler.errors import counted
from dagprofiler.graph.replay import Demands, replay
from dagprofiler.graph.wiring import NumberedGraph, numbered
from dagprofiler.stats import corrected, median

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

#: Classes of tasks whose gains are computed, and tasks that are simulated for them in all.
_CLASSES, _SIMULATED = 10, 30_000

#: Shares of the makespan from which on a gain is shown, and a cause is worth advice.
_SHOWN, _WORTH = 0.001, 0.05

#: Columns of samples that tell how long a task waited for a core.
_OF_WAITS = ("delay_ms", "cpu_ms")

#: Characters of the longest bar.
_BAR = 24


class _Round(NamedTuple):
    """The measured round whose time is nearest to the median: its number and its tasks."""

    number: int
    #: Rows of the timeline whose moments up to the end of ``compute()`` are all known.
    rows: list[Any]
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
    return _split(typical, max(workers, _workers(profile, typical.rows)))


def _median_round(profile: ProfileData) -> _Round | None:
    samples = profile.samples
    measured = {*samples.measured}
    rounds: dict[int, list[Any]] = {}
    for row in profile.timeline.rows():
        is_timed = row.compute_start_ms is not None and row.compute_end_ms is not None
        is_placed = row.ready_ms is not None and row.deserialize_start_ms is not None
        if is_timed and is_placed and (not samples.rounds or row.round in measured):
            rounds.setdefault(row.round, []).append(row)
    if not rounds:
        return None
    totals = samples.total_ms
    spans = {
        n: (totals[n] if n < len(totals) else None)
        or max(map(_ended_ms, rows)) - min(row.ready_ms for row in rows)
        for n, rows in rounds.items()
    }
    middle = median([*spans.values()])
    n = min(spans, key=lambda n: abs(spans[n] - middle))
    tasks = samples.tasks
    waited_ms = sum(_waited_ms(tasks[row.task], n, row) for row in rounds[n] if row.task in tasks)
    workers = max(_workers(profile, rows) for rows in rounds.values())
    return _Round(n, rounds[n], waited_ms, workers)


def _waited_ms(columns: Mapping[str, Any], n: int, row: Any) -> float:
    """Return how long a task waited for a core in round `n`; 0 if that was not measured."""
    wall_ms: float = row.compute_end_ms - row.compute_start_ms
    delay_ms, cpu_ms = (columns[key][n] if key in columns else None for key in _OF_WAITS)
    own_ms = corrected(wall_ms, delay_ms, cpu_ms)
    return 0.0 if own_ms is None else wall_ms - own_ms


def _workers(profile: ProfileData, rows: Sequence[Any]) -> int:
    """Return how many workers had a task of a round; each resumption has workers of its own."""
    # A simulated task can end at 0.
    begun_ms = [-inf, *(entry["at_ms"] for entry in profile.run.resumed)]
    attempts = zip(begun_ms, [*begun_ms[1:], inf])
    return max(
        len({row.worker for row in rows if begun < _ended_ms(row) <= until})
        for begun, until in attempts
    )


def _ended_ms(row: Any) -> float:
    # A task that failed has serialized nothing.
    ended_ms: float = row.compute_end_ms if row.serialize_end_ms is None else row.serialize_end_ms
    return ended_ms


def _split(typical: _Round, workers: int) -> dict[str, float]:
    """Return the parts of one round: the time of all workers, divided by their number."""
    rows = typical.rows
    ends = [_ended_ms(row) for row in rows]
    computing = sum([row.compute_end_ms - row.compute_start_ms for row in rows])
    whole = sum([end - row.deserialize_start_ms for row, end in zip(rows, ends)])
    # Time between the phases serializes nothing.
    between = sum(
        [
            row.compute_start_ms - row.deserialize_end_ms
            for row in rows
            if row.deserialize_end_ms is not None
        ]
    )
    between += sum(
        [
            row.serialize_start_ms - row.compute_end_ms
            for row in rows
            if row.serialize_start_ms is not None
        ]
    )
    # Steps of the number of tasks that are ready and wait, and of workers that work.
    steps = [(row.ready_ms, 1, 0) for row in rows]
    steps += [(row.deserialize_start_ms, -1, 1) for row in rows]
    steps += [(ended_ms, 0, -1) for ended_ms in ends]
    steps.sort()
    spent: dict[str, float] = {
        "tasks": computing - typical.waited_ms,
        "cores": typical.waited_ms,
        "transfers": whole - computing - between,
    }
    begin, end = min([row.ready_ms for row in rows]), max(ends)
    engine, ready, working, at = 0.0, 0, 0, begin
    for moment, waiting, busy in steps:
        if ready > 0 and working < workers:
            engine += (moment - at) * min(ready, workers - working)
        at, ready, working = moment, ready + waiting, working + busy
    idle = workers * (end - begin) - sum(spent.values()) - between
    spent.update(engine=engine + between, waiting=idle - engine)
    return {part: time_ms / workers for part, time_ms in spent.items()}


def makespan_of(profile: ProfileData, found: Analysis | None) -> dict[str, Any] | None:
    """Return where the time of a run went, and what would make it shorter on its workers.

    Parameters
    ----------
    found
        The profile's analysis, if there is one.

    Returns
    -------
    dict or None
        ``workers``: how many had tasks; ``round``: its number if it is one of several;
        ``makespan_ms``; ``parts``: for each of :data:`LABELS` its time in ms, which add up to the
        makespan; ``gains``: the classes of tasks that cost most, and serializing, the largest
        gain first: ``name``, ``tasks``, ``cost_ms``, and by how much the makespan would shrink
        without it, ``gain_ms`` on the workers of this run and ``gain_enough_ms`` with one for
        each task (None: not computed); ``advice``: one for each cause, the largest gain first:
        ``what`` with ``{}`` for its ``name``, ``why``, ``gain_ms`` and ``share``, that of the
        makespan. None without the moments of tasks.

    Notes
    -----
    A moment at which some of k workers compute and others idle counts by the k-th part for each.
    Gains on k workers are differences of makespans by
    :func:`~dagprofiler.graph.replay.replay`, on an executor that costs nothing; on one worker it
    is a sum. Gains with enough workers are differences of the critical path, edges included
    where their times are known.
    """
    typical = _median_round(profile)
    if typical is None:
        return None
    parts, samples = _split(typical, typical.workers), profile.samples
    totals: Sequence[float | None] = samples.total_ms
    total_ms = totals[typical.number] if totals else profile.metrics.total_time_ms
    if total_ms:
        # The makespan begins with the first task, and not when it was ready.
        parts["engine"] += total_ms - sum(parts.values())
        if parts["engine"] < 0:
            parts["waiting"] += parts["engine"]
    parts = {part: max(0.0, round(parts[part], 6)) for part in LABELS}
    shown: dict[str, Any] = {
        "workers": typical.workers,
        "round": typical.number if len(samples.measured) > 1 else None,
        "makespan_ms": round(sum(parts.values()), 6),
        "parts": parts,
        "gains": [],
        "advice": [],
    }
    if found is not None and found.weights.source == "time" and not found.weights.filled:
        case = _TimedRun(profile, found, typical.workers)
        shown["gains"] = case.gains()
        shown["advice"] = _Adviser(profile, found, case, shown).all()
    return shown


class _TimedRun:
    """A run as :func:`replay` takes it, with times that can be set to 0."""

    def __init__(self, profile: ProfileData, found: Analysis, workers: int) -> None:
        self.workers, self.found = workers, found
        self.paths = found.with_communication or found.without_communication
        self.profile = profile
        self._on_path = {*self.paths.critical_path}
        #: In the order in which they are numbered.
        self.names = sorted(profile.dag_structure["nodes"])
        self.computing = [float(found.weights.values[name]) for name in self.names]
        moving = {
            entry.task: (entry.serialize_time_ms or 0.0) + (entry.deserialize_time_ms or 0.0)
            for entry in profile.metrics.task_metrics
        }
        self.moving = [moving.get(name, 0.0) for name in self.names]
        number = {name: i for i, name in enumerate(self.names)}
        schedule = profile.sections.get("schedule")
        self.orders = schedule and [[number[name] for name in row] for row in schedule.values()]

    @cached_property
    def graph(self) -> NumberedGraph:
        """The tasks and edges, numbered in the order of the names."""
        return numbered(self.names, edges_of(self.profile))

    def makespan_ms(
        self, computing: Sequence[float], moving: Sequence[float], workers: int
    ) -> float:
        work = [a + b for a, b in zip(computing, moving)]
        if workers == 1 or len(work) > _SIMULATED:
            return sum(work) / workers
        orders = self.orders if workers == self.workers else None
        speeds = [1.0] * (len(orders) if orders else workers)
        return replay(self.graph.below, Demands(work), speeds, orders=orders).makespan_ms

    def alone_ms(self, workers: int) -> float:
        """Return the makespan with free edges; Graham's bound is close where tasks are many."""
        if len(self.computing) > _SIMULATED // 10:
            return self.found.makespan_upper_bound(workers)
        return self.makespan_ms(self.computing, [0.0] * len(self.moving), workers)

    def gains(self) -> list[dict[str, Any]]:
        """Return what the classes of tasks that cost most gain, and what serializing does."""
        names, workers = self.names, self.workers
        most = _CLASSES if workers == 1 else max(1, min(_CLASSES, _SIMULATED // len(names) - 2))
        members = grouped((class_of(name), i) for i, name in enumerate(names))
        if len(members) == 1:
            longest = nlargest(most, range(len(names)), key=self.computing.__getitem__)
            members = {names[i]: [i] for i in longest}
        costs = {name: sum([self.computing[i] for i in tasks]) for name, tasks in members.items()}
        whole_ms = self.makespan_ms(self.computing, self.moving, workers)
        rows: list[dict[str, Any]] = []

        def add(name: str, tasks: int, cost_ms: float, without_ms: float, enough_ms: float) -> None:
            # A shorter task can make the order of the others a worse one.
            figures = {
                "cost_ms": round(cost_ms, 6),
                "gain_ms": max(0.0, round(whole_ms - without_ms, 6)),
                "gain_enough_ms": max(0.0, round(enough_ms, 6)),
            }
            if max(figures["gain_ms"], figures["gain_enough_ms"]) > _SHOWN * whole_ms:
                rows.append({"name": name, "tasks": tasks, **figures})

        for name in sorted(costs, key=lambda name: -costs[name])[:most]:
            if costs[name] <= _SHOWN * whole_ms:
                # The rest costs less than a gain that is shown.
                break
            tasks = members[name]
            without_ms = whole_ms - costs[name]
            if workers > 1:
                without_ms = self.makespan_ms(self._without(tasks), self.moving, workers)
            called = names[tasks[0]] if len(tasks) == 1 else name
            add(called, len(tasks), costs[name], without_ms, self._enough_ms(tasks))
        if any(self.moving) and most > 1:
            without_ms = self.makespan_ms(self.computing, [0.0] * len(names), workers)
            enough_ms = self.paths.span - self.found.span
            add(MOVING, 0, sum(self.moving), without_ms, enough_ms)
        return sorted(rows, key=lambda row: (-row["gain_ms"], -row["gain_enough_ms"]))

    def _without(self, tasks: Iterable[int]) -> list[float]:
        """Return the times of all tasks where some take none."""
        computing = self.computing.copy()
        for i in tasks:
            computing[i] = 0.0
        return computing

    def _enough_ms(self, tasks: Sequence[int]) -> float:
        """Return how much shorter the critical path is without tasks."""
        if not any(self.names[i] in self._on_path for i in tasks):
            return 0.0
        if len(tasks) == 1:
            return self.paths.gain(self.names[tasks[0]])
        computing = self._without(tasks)
        _, order, below = self.graph
        communication = self.found.communication or {}
        names, begin, longest_ms = self.names, [0.0] * len(order), 0.0
        for i in order:
            end_ms = begin[i] + computing[i]
            longest_ms = max(longest_ms, end_ms)
            for target in below[i]:
                edge_ms = communication.get(f"{names[i]}->{names[target]}", 0.0)
                begin[target] = max(begin[target], end_ms + edge_ms)
        return self.paths.span - longest_ms


#: The name of the gain of serializing and deserializing; tasks have the name of no class.
MOVING = "(serializing)"


def _on(workers: int) -> str:
    return f"on {counted(workers, 'worker')}"


class _Adviser(NamedTuple):
    """What to do first about each cause of a long makespan."""

    profile: ProfileData
    found: Analysis
    case: _TimedRun
    #: Parts and gains, as :func:`makespan_of` returns them.
    shown: dict[str, Any]

    def all(self) -> list[dict[str, Any]]:
        """Return one advice for each cause that is worth one, the largest gain first."""
        causes = (
            *(self._tasks, self._transfers, self._cores),
            *(self._workers, self._waiting, self._engine),
        )
        advice = [one for advise in causes if (one := advise()) is not None]
        return sorted(advice, key=lambda one: -one["gain_ms"])

    def _is_worth(self, ms: float, times: float = 1.0) -> bool:
        return self._share(ms) > times * _WORTH

    def _in_words(self, ms: float) -> str:
        """Return a time, and its share of the makespan."""
        return f"{quantity(ms, 'ms')} ({self._share(ms):.1%})"

    def _share(self, ms: float) -> float:
        return ms / float(self.shown["makespan_ms"] or 1.0)

    def _advice(self, gain_ms: float, what: str, why: str, name: str | None = None) -> Any:
        share = round(self._share(gain_ms), 6)
        return {"what": what, "name": name, "why": why, "gain_ms": gain_ms, "share": share}

    def _tasks(self) -> Any:
        simulated = self.profile.sections.get("prediction", {}).get("gains")
        if simulated:
            # The profile's times contain what its workers shared, which the simulation knew.
            name = max(simulated, key=simulated.__getitem__)
            gain_ms = simulated[name] * self.shown["makespan_ms"]
            why = f"the whole would be {self._in_words(gain_ms)} shorter, by simulation"
            return (
                self._advice(gain_ms, "make {} twice as fast", why, name) if gain_ms > 0 else None
            )
        first = next((row for row in self.shown["gains"] if row["tasks"] and row["gain_ms"]), None)
        if first is None:
            return None
        enough = quantity(first["gain_enough_ms"], "ms")
        gain, on = self._in_words(first["gain_ms"]), _on(self.case.workers)
        why = f"without it the run {on} would be {gain} shorter; with enough workers {enough}"
        return self._advice(first["gain_ms"], "make {} cheaper", why, first["name"])

    def _transfers(self) -> Any:
        row = next((row for row in self.shown["gains"] if row["name"] == MOVING), None)
        if row is None or not self._is_worth(row["gain_ms"]):
            return None
        gain, on = self._in_words(row["gain_ms"]), _on(self.case.workers)
        why = f"without serializing the run {on} would be {gain} shorter"
        edges = self.profile.metrics.edge_metrics
        if edges:
            edge = max(edges, key=lambda edge: edge.size_bytes)
            most = f"{quantity(edge.size_bytes, BYTES)} on {edge.source} -> {edge.target}"
            why += f"; the most is {printable(most)}"
        return self._advice(row["gain_ms"], "move less data between tasks", why)

    def _usable_cores(self) -> int | None:
        """Return how many cores the run had; None if unknown, or on several machines."""
        environment = self.profile.environment
        cores: float | None = environment.cores_usable or environment.cores
        hosts = {worker.get("host") for worker in self.profile.timeline.workers}
        if cores is None or len(hosts) > 1:
            return None
        kept_busy: int = self.profile.run.conditions.get("busy_cores", 0)
        return max(1, int(min(cores, environment.cores_quota or cores)) - kept_busy)

    def _cores(self) -> Any:
        waited_ms, cores = self.shown["parts"]["cores"], self._usable_cores()
        if not self._is_worth(waited_ms):
            return None
        waited = f"tasks waited {self._in_words(waited_ms)} for a core"
        if cores is not None and self.case.workers > cores:
            why = f"{waited}; {counted(self.case.workers, 'worker')} share {counted(cores, 'core')}"
            return self._advice(waited_ms, f"take {counted(cores, 'worker')}", why)
        of = "" if cores is None else f"; it has {counted(cores, 'core')}"
        return self._advice(waited_ms, "end what else runs on the machine", f"{waited}{of}")

    def _workers(self) -> Any:
        workers, cores = self.case.workers, self._usable_cores()
        fixed = self.case.orders is not None or "prediction" in self.profile.sections
        flags = self.profile.sections.get("statistics", {}).get("flags", {}).values()
        waited = self._is_worth(self.shown["parts"]["cores"])
        if fixed or waited or any("contended" in raised for raised in flags):
            return None
        parallelism = max(1.0, self.found.average_parallelism or 1.0)
        more = min(2 ** ceil(log2(parallelism)), 4 * workers)
        more = more if cores is None else min(more, cores)
        if more <= workers:
            return None
        now_ms, then_ms = (self.case.alone_ms(count) for count in (workers, more))
        if not self._is_worth(now_ms - then_ms):
            return None
        where = "if the machine has the cores"
        if cores is not None:
            where = f"the machine has {counted(cores, 'core')}, and the run did not wait for them"
        instead = f"{quantity(then_ms, 'ms')} instead of {quantity(now_ms, 'ms')}"
        gain = self._in_words(now_ms - then_ms)
        why = f"tasks alone, without edges and what a pool costs, would take {instead}, {gain} less"
        why += f"; {where}"
        return self._advice(now_ms - then_ms, f"use {counted(more, 'worker')}", why)

    def _waiting(self) -> Any:
        idle_ms, path = (
            self.shown["parts"]["waiting"],
            self.found.without_communication.critical_path,
        )
        if self.case.workers == 1 or not path or not self._is_worth(idle_ms, 2):
            return None
        longest = max(path, key=lambda name: self.found.weights.values[name])
        idle = self._in_words(idle_ms)
        why = f"workers were idle for {idle}, since no task was ready: the most that it can gain"
        return self._advice(idle_ms, "split {} into tasks that run at once", why, longest)

    def _engine(self) -> Any:
        outside_ms = self.shown["parts"]["engine"]
        if not self._is_worth(outside_ms, 2) or outside_ms < 1:
            return None
        what = (
            "make tasks larger"
            if self.found.work < len(self.case.moving)
            else "look outside of the tasks"
        )
        why = f"starting and measuring tasks takes {self._in_words(outside_ms)}"
        return self._advice(outside_ms, what, why)


def makespan_blocks(shown: Mapping[str, Any]) -> Iterator[Block]:
    """Yield what :func:`makespan_of` returned: parts, advice, gains."""
    workers, whole_ms = shown["workers"], shown["makespan_ms"]
    of = "" if shown["round"] is None else ", in the round nearest the median"
    title = f"where {quantity(whole_ms, 'ms')} went {_on(workers)}{of}"
    rows: list[Sequence[str]] = [("", "ms", "share", "")]
    longest = max(shown["parts"].values()) or 1.0
    for part, ms in shown["parts"].items():
        if not ms:
            # Nothing of it, or nothing known: then it is in the others.
            continue
        share = f"{ms / (whole_ms or 1.0):.1%}"
        rows.append((LABELS[part], number(ms), share, "#" * round(_BAR * ms / longest)))
    yield Block(title, rows, (0, 3), "parts")
    if shown["advice"]:
        yield Block(
            "what to do first",
            notes=[
                f"{i}. {one['what'].format(printable(one.get('name')))}: {one['why']}"
                for i, one in enumerate(shown["advice"], 1)
            ],
        )
    gains: list[Sequence[str]] = [("", "cost", _on(workers), "share", "with enough workers")]
    for row in shown["gains"]:
        tasks = f" ({row['tasks']:,} tasks)" if row["tasks"] > 1 else ""
        cost, here, enough = (number(row[key]) for key in ("cost_ms", "gain_ms", "gain_enough_ms"))
        share = f"{row['gain_ms'] / (whole_ms or 1.0):.1%}"
        gains.append((f"{printable(row['name'])}{tasks}", cost, here, share, enough))
    yield Block("gain if free, in ms", gains, what="gains")
