"""replay(): a graph of numbered tasks on workers, simulated event by event."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from math import inf
from typing import Any, NamedTuple

from dagprofiler.graph.edges import Rows
from dagprofiler.graph.wiring import JOBS_PER_WORKER, ReadyTasks


class Demands(NamedTuple):
    """What the tasks of a graph need, by task number.

    Attributes
    ----------
    work_ms
        Time on a worker of speed 1 that nothing else disturbs.
    core, gil
        Cores that it needs, on average over that time, and the share of it in which it holds the
        interpreter's lock. None: one core, and no lock that others wait for.
    """

    work_ms: Sequence[float]
    core: Sequence[float] | None = None
    gil: Sequence[float] | None = None


class Overhead(NamedTuple):
    """What an executor adds to the times of tasks.

    Attributes
    ----------
    latency_ms
        From sending a job to an idle worker until its record is back, without the task and
        without `driver_ms`.
    gap_ms
        Between two tasks of a worker, if the second was waiting.
    driver_ms
        CPU time of the process that drives the run, for each task.
    start_ms
        What the first task of each worker in a run takes more.
    worker_ms
        CPU time of a worker's process for each task, beside the task: of threads that receive,
        send and keep account. 0 if that process is the driver.
    always
        Cores that its processes use all the time, for each worker: for heartbeats, samples and
        polling.
    cores
        Cores that the workers of its machine share.
    contention
        How many times longer a computation takes while 1, 2, 3 ... workers compute: the geometric
        mean over kinds of work.
    """

    latency_ms: float
    gap_ms: float
    driver_ms: float
    start_ms: float = 0.0
    worker_ms: float = 0.0
    always: float = 0.0
    cores: float = inf
    contention: Sequence[float] = (1.0,)

    def slowed(self, factor: float) -> Overhead:
        """Return what it adds if each of its times is `factor` times as long."""
        times = {name: factor * ms for name, ms in self._asdict().items() if name.endswith("_ms")}
        return self._replace(**times)


#: That of an executor which adds nothing.
NO_OVERHEAD = Overhead(0.0, 0.0, 0.0)


class Replay(NamedTuple):
    """What :func:`replay` returns: moments in milliseconds since the start, by task number.

    Attributes
    ----------
    makespan_ms
        When the last record was handled; infinite if a time is too large for a float.
    worker
        The worker of each task.
    begun, ended
        When each task began on its worker, and ended there.
    """

    makespan_ms: float
    worker: list[int]
    begun: list[float]
    ended: list[float]


def replay(
    below: Rows,
    demands: Demands,
    speeds: Sequence[float],
    overhead: Overhead = NO_OVERHEAD,
    *,
    ranked: Sequence[int] | None = None,
    orders: Sequence[Sequence[int]] | None = None,
    transfers: Mapping[int, Sequence[tuple[int, float]]] | None = None,
) -> Replay:
    """Return when each task of a graph would run, and where.

    The rules are those of a run on an :class:`~dagprofiler.executors.Executor`: the driver
    submits ready tasks up to :data:`~dagprofiler.graph.wiring.JOBS_PER_WORKER` for each
    worker, then handles one record, and so on; a successor is ready when the record has been
    handled; of several ready tasks the queues of :mod:`~dagprofiler.graph.wiring` choose.

    Parameters
    ----------
    below
        The successors of all tasks.
    demands, overhead
        What the tasks need, and what the executor adds.
    speeds
        The speed of each worker, above 0.
    ranked
        All tasks by decreasing priority; None for Kahn's order.
    orders
        The tasks of each worker in their order; None: workers take tasks from one queue.
    transfers
        For each task with data for tasks of other workers: the target, and how long the link
        between the two workers needs with nothing else on it, in milliseconds. Transfers
        on a link at the same time share it. They need `orders`.

    Notes
    -----
    Workers that compute at the same time share cores, the interpreter's lock and the
    memory: each advances at a rate that follows from their number and their shares.
    O(n (log n + w + l)) time for n tasks and edges, w workers and l transfers at a time.
    """
    ready = ReadyTasks(below, ranked, orders or ())
    workers = _Workers(len(below), speeds, overhead, orders)
    return _Run(ready, workers, demands, overhead, transfers or {}).replayed()


#: What is called with a task's number when something has ended.
_Do = Callable[[int], None]


#: The `core`, `gil` and `computes` of a :class:`_Group`.
_Needs = tuple[float, float, float]
#: The needs of what the driver and the workers do beside the tasks.
_BESIDE: _Needs = (1.0, 0.0, 0.0)


class _Group:
    """Pieces of work that advance at one common rate, such as the transfers on a link.

    Attributes
    ----------
    key
        What it is kept by: its needs, or the two workers of a link.
    core, gil
        Cores that each needs, and the share of its time in which it holds the interpreter's lock.
    computes
        How much each counts among the tasks that slow each other down.
    rate
        How far each advances in a millisecond, in milliseconds of its amount.
    done, at_ms
        How far each piece that was there from the beginning would have come, and when.
    ends
        A heap of the pieces by the value of `done` at which they end.
    """

    def __init__(self, key: Any, needs: _Needs = (0.0, 0.0, 0.0)) -> None:
        self.key = key
        self.core, self.gil, self.computes = needs
        self.rate = 1.0
        self.count = 0
        self.done = self.at_ms = 0.0
        self.ends: list[tuple[float, int, int, _Do]] = []

    def advance(self, now_ms: float) -> None:
        self.done += (now_ms - self.at_ms) * self.rate
        self.at_ms = now_ms

    def add(self, now_ms: float, amount_ms: float, do: _Do, i: int) -> None:
        self.advance(now_ms)
        self.count += 1
        heappush(self.ends, (self.done + amount_ms, i, self.count, do))

    def pop(self, now_ms: float) -> tuple[_Do, int]:
        """Remove the piece that ends first; return what to call then, and with which task."""
        self.advance(now_ms)
        _, i, _, do = heappop(self.ends)
        return do, i

    def next_ms(self) -> float:
        return self.at_ms + (self.ends[0][0] - self.done) / self.rate


def _next_end(groups: Iterable[_Group]) -> tuple[float, _Group | None]:
    """Return when the next piece of work ends, and its group."""
    soonest, ending = inf, None
    for group in groups:
        if group.ends:
            at_ms = group.next_ms()
            if at_ms < soonest:
                soonest, ending = at_ms, group
    return soonest, ending


class _Cores:
    """The cores and the interpreter's lock, which everything that computes at a time shares."""

    def __init__(self, overhead: Overhead, workers: int) -> None:
        self.cores, self.contention = overhead.cores, overhead.contention
        #: What computes, by its needs: work with equal needs advances at one rate.
        self.groups = {_BESIDE: _Group(_BESIDE, _BESIDE)}
        self.active = self.gil_sum = 0.0
        self.core_sum = overhead.always * workers

    def begin(self, now_ms: float, needs: _Needs, amount_ms: float, do: _Do, i: int) -> None:
        """Begin a piece of work with such needs; `do` is called with `i` when it ends."""
        group = self.groups.get(needs)
        if group is None:
            group = self.groups[needs] = _Group(needs, needs)
        group.add(now_ms, amount_ms, do, i)
        self._change(now_ms, group, 1)

    def end(self, now_ms: float, group: _Group) -> tuple[_Do, int]:
        """End the first piece of a group; return what to call then, and with which task."""
        ended = group.pop(now_ms)
        if not group.ends and group.key != _BESIDE:
            # Each event looks at all groups, and each task may have needs of its own.
            del self.groups[group.key]
        self._change(now_ms, group, -1)
        return ended

    def _change(self, now_ms: float, changed: _Group, by: int) -> None:
        """Set the rates of all groups, after one of them has one piece more or less."""
        self.active += by * changed.computes
        self.core_sum += by * changed.core
        self.gil_sum += by * changed.gil
        busy = max(1, round(self.active))
        slow = self.contention[min(busy, len(self.contention)) - 1]
        waiting, demand = max(1.0, self.gil_sum), self.core_sum
        live = [group for group in self.groups.values() if group.ends]
        for group in live:
            group.advance(now_ms)
            # It takes turns with others that hold the lock.
            group.rate = 1.0 / (1.0 + group.gil * (waiting - 1.0))
            demand -= len(group.ends) * group.core * (1.0 - group.rate)
        if demand > self.cores:
            slow *= demand / self.cores
        for group in live:
            group.rate /= 1.0 + min(1.0, group.core) * (slow - 1.0)


class _Workers:
    """Which worker has which task, and which worker is idle."""

    def __init__(
        self,
        count: int,
        speeds: Sequence[float],
        overhead: Overhead,
        orders: Sequence[Sequence[int]] | None,
    ) -> None:
        workers = range(len(speeds))
        self.speeds = speeds
        #: How many jobs the driver has sent to them at a time, at most.
        self.capacity = inf if orders is not None else JOBS_PER_WORKER * len(speeds)
        self.of_task = [0] * count
        self.begun, self.ended = [0.0] * count, [0.0] * count
        self.idle = set(workers)
        self.free_ms = [0.0] * len(speeds)
        self.starts_ms = [overhead.start_ms] * len(speeds)
        #: Task to its worker, where there is a schedule.
        self.home = {i: worker for worker, order in enumerate(orders or ()) for i in order}
        self.queues: list[deque[int]] = [deque() for _ in (workers if self.home else [0])]

    def assign(self, i: int) -> int | None:
        """Return the idle worker that takes a task; without one, queue it and return None."""
        home = self.home.get(i)
        free = self.idle if home is None else self.idle & {home}
        if free:
            return min(free)
        self.queues[home or 0].append(i)
        return None

    def take(self, worker: int, i: int, now_ms: float) -> float:
        """Give a task to an idle worker; return when the worker is free for it."""
        self.of_task[i] = worker
        self.idle.discard(worker)
        begin_ms = max(now_ms, self.free_ms[worker]) + self.starts_ms[worker]
        self.starts_ms[worker] = 0.0
        return begin_ms

    def release(self, worker: int, free_ms: float) -> int | None:
        """Free a worker from `free_ms` on; return the task that waits for it, or None."""
        self.free_ms[worker] = free_ms
        queue = self.queues[worker if self.home else 0]
        if queue:
            return queue.popleft()
        self.idle.add(worker)
        return None


class _Run:
    """A run, event by event."""

    def __init__(
        self,
        ready: ReadyTasks,
        workers: _Workers,
        demands: Demands,
        overhead: Overhead,
        transfers: Mapping[int, Sequence[tuple[int, float]]],
    ) -> None:
        self.ready, self.workers, self.demands = ready, workers, demands
        self.overhead, self.transfers = overhead, transfers
        self.cores = _Cores(overhead, len(workers.speeds))
        #: What is on its way from one worker to another; transfers share a link.
        self.links: dict[tuple[int, int], _Group] = {}
        #: A heap by time; events of one moment come in the order in which they were caused.
        self.events: list[tuple[float, int, _Do, int]] = []
        self.inbox: deque[int] = deque()
        #: How many transfers each task waits for. Its worker counts down too: below 0 it begins.
        self.awaited = Counter(target for moves in transfers.values() for target, _ in moves)
        self.now = self.makespan = 0.0
        self.running = self.caused = 0
        #: What the driver does when it has spent its time on a job; None while it is idle.
        self.doing: _Do | None = None

    def replayed(self) -> Replay:
        """Handle all events; return when each task ran, and where."""
        self._drive()
        while True:
            event_ms = self.events[0][0] if self.events else inf
            core_ms, group = _next_end(self.cores.groups.values())
            link_ms, link = _next_end(self.links.values())
            self.now = max(self.now, min(event_ms, core_ms, link_ms))
            if link is not None and link_ms < min(event_ms, core_ms):
                do, i = link.pop(self.now)
                link.rate = 1.0 / max(1, len(link.ends))
                if not link.ends:
                    del self.links[link.key]
            elif group is not None and core_ms < event_ms:
                do, i = self.cores.end(self.now, group)
            elif self.events and event_ms < inf:
                _, _, do, i = heappop(self.events)
            else:
                break
            do(i)
        workers, makespan = self.workers, inf if self.running else self.makespan
        return Replay(makespan, workers.of_task, workers.begun, workers.ended)

    def _cause(self, at_ms: float, do: _Do, i: int) -> None:
        self.caused += 1
        heappush(self.events, (at_ms, self.caused, do, i))

    def _drive(self) -> None:
        """Let the driver do what it does next: submit, or handle a record."""
        # The driver spends half of its time for a job on sending it, half on its record.
        half_ms = self.overhead.driver_ms / 2
        while self.doing is None:
            i = self.ready.pop() if self.running < self.workers.capacity else None
            if i is not None:
                self.running += 1
                do = self._send
            elif self.inbox:
                i, do = self.inbox.popleft(), self._handle
            else:
                return
            if half_ms:
                self.doing = do
                self.cores.begin(self.now, _BESIDE, half_ms, self._driven, i)
            else:
                do(i)

    def _driven(self, i: int) -> None:
        do, self.doing = self.doing, None
        if do is not None:
            do(i)
        self._drive()

    def _send(self, i: int) -> None:
        self._cause(self.now + self.overhead.latency_ms / 2, self._queue, i)

    def _queue(self, i: int) -> None:
        worker = self.workers.assign(i)
        if worker is not None:
            self._give(worker, i)

    def _give(self, worker: int, i: int) -> None:
        self._cause(self.workers.take(worker, i, self.now), self._arrive, i)

    def _arrive(self, i: int) -> None:
        """Note that an input of a task is at its worker, or that the worker is free for it."""
        self.awaited[i] -= 1
        if self.awaited[i] < 0:
            self._begin(i)

    def _begin(self, i: int) -> None:
        work_ms, core, gil = self.demands
        workers = self.workers
        workers.begun[i] = self.now
        cores = core[i] if core else 1.0
        needs = cores, gil[i] if gil else 0.0, min(1.0, cores)
        amount_ms = work_ms[i] / workers.speeds[workers.of_task[i]]
        self.cores.begin(self.now, needs, amount_ms, self._end, i)

    def _end(self, i: int) -> None:
        workers, overhead = self.workers, self.overhead
        workers.ended[i] = self.now
        worker = workers.of_task[i]
        self._cause(self.now + overhead.latency_ms / 2, self._record, i)
        if overhead.worker_ms:
            self.cores.begin(self.now, _BESIDE, overhead.worker_ms, lambda _: None, i)
        for target, takes_ms in self.transfers.get(i, ()):
            pair = worker, workers.home[target]
            link = self.links.setdefault(pair, _Group(pair))
            link.add(self.now, takes_ms, self._arrive, target)
            link.rate = 1.0 / len(link.ends)
        following = workers.release(worker, self.now + overhead.gap_ms)
        if following is not None:
            self._give(worker, following)

    def _record(self, i: int) -> None:
        self.inbox.append(i)
        self._drive()

    def _handle(self, i: int) -> None:
        self.running -= 1
        self.makespan = self.now
        self.ready.done(i)
