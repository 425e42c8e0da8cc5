"""replay(): a graph of numbered tasks on workers, simulated event by event."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from math import inf
from typing import NamedTuple

from dagprofiler.graph.wiring import JOBS_PER_WORKER, ReadyTasks

#: How long a thread waits for the interpreter's lock until its holder has to release it.
_SWITCH_MS = 5.0

#: How often tasks ask for that lock in each millisecond on a core without it. A profile does not
#: tell: numpy asks 30 times with arrays of 200 kB, and once in 20 ms with large products.
ASKS = 2.0


class Demands(NamedTuple):
    """What the tasks of a graph need, by task number.

    Attributes
    ----------
    work_ms
        Time on a worker of speed 1 that nothing else disturbs.
    core, gil
        Share of that time in which it needs a core, or holds the interpreter's lock; from
        0 to 1. None: a core all the time, and no lock that others wait for.
    asks
        How often all ask for that lock in each millisecond on a core without it.
    """

    work_ms: Sequence[float]
    core: Sequence[float] | None = None
    gil: Sequence[float] | None = None
    asks: float = ASKS


class Overhead(NamedTuple):
    """What an executor adds to the times of tasks, by default nothing.

    The attributes are those of :class:`~dagprofiler.predict._engine.Engine`.
    """

    latency_ms: float = 0.0
    gap_ms: float = 0.0
    busy_gap_ms: float = 0.0
    start_ms: float = 0.0
    driver_ms: float = 0.0
    worker_ms: float = 0.0
    always: float = 0.0
    cores: float = inf
    contention: Sequence[float] = (1.0,)


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


class _Share:
    """Works that advance at one common rate: a heap of the amounts at which they end."""

    __slots__ = ("asks", "at_ms", "core", "done", "ends", "gil", "held_ms", "rate")

    def __init__(self, core: float, gil: float = 0.0, asks: float = 0.0) -> None:
        self.core, self.gil, self.rate = core, gil, 1.0
        self.asks = asks * max(0.0, core - gil)
        # How long who asks at any moment waits for one of these to release the lock.
        self.held_ms = gil * min(_SWITCH_MS, gil / self.asks if self.asks else _SWITCH_MS)
        self.done = self.at_ms = 0.0
        self.ends: list[tuple[float, int]] = []

    def advance(self, now_ms: float) -> None:
        self.done += (now_ms - self.at_ms) * self.rate
        self.at_ms = now_ms

    def next_ms(self) -> float:
        return self.at_ms + (self.ends[0][0] - self.done) / self.rate


#: Kinds of events. Those of one moment come in the order in which they were caused.
_SENT, _QUEUED, _BEGIN, _RECORD, _HANDLED = range(5)

#: In place of a task: what the driver does, and a worker's process beside its tasks.
_DRIVER, _BESIDE = -1, -2


def replay(  # noqa: C901, PLR0912, PLR0915  (hot: one loop, as the run's own)
    targets: Sequence[int],
    first_target: Sequence[int],
    demands: Demands,
    speeds: Sequence[float],
    overhead: Overhead = Overhead(),  # noqa: B008  (immutable)
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
    targets, first_target
        The successors of all tasks, and where those of each task begin.
    demands, overhead
        What the tasks need, and what the executor adds.
    speeds
        Of each worker, above 0.
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
    memory: each advances at a rate that follows from their number and their shares. A thread
    that releases the lock waits for it anew, beside one that does not up to 5 ms each time.
    O(n log n) time for n tasks and edges.
    """
    count, workers = len(first_target) - 1, len(speeds)
    ready = ReadyTasks(targets, first_target, ranked, orders or ())
    pop, done = ready.pop, ready.done
    if orders is not None:
        home = [0] * count
        for worker, order in enumerate(orders):
            for i in order:
                home[i] = worker
        capacity: float = inf
    else:
        home, capacity = [], JOBS_PER_WORKER * workers
    work_ms, core, gil, asks = demands
    gap_ms, beside_ms, always = overhead.gap_ms, overhead.worker_ms, overhead.always
    cores, contention = overhead.cores, overhead.contention
    busy_gap_ms = max(gap_ms, overhead.busy_gap_ms)
    # Half of what the driver does for a job is to send it, half of it is for its record.
    each_way_ms, half_ms = overhead.latency_ms / 2, overhead.driver_ms / 2
    begun, ended = [0.0] * count, [0.0] * count
    worker_of = [0] * count
    queues: list[deque[int]] = [deque() for _ in range(workers if orders is not None else 1)]
    idle = list(range(workers))  # a heap: the lowest number takes the next job
    is_idle, free_ms, starts_ms = [True] * workers, [0.0] * workers, [overhead.start_ms] * workers
    inbox: deque[int] = deque()
    events: list[tuple[float, int, int, int]] = []
    beside = _Share(1.0)
    shares: dict[tuple[float, float] | None, _Share] = {None: beside}
    links: dict[tuple[int, int], _Share] = {}
    #: How many transfers a task waits for.
    awaited = Counter(target for moves in (transfers or {}).values() for target, _ in moves)
    #: Tasks whose worker has come to them, and waits for their transfers.
    blocked: set[int] = set()
    now = makespan = 0.0
    running = caused = 0
    active = gil_sum = held_ms = 0.0
    core_sum = always * workers
    driver: tuple[int, int] | None = None
    plain = core is None and gil is None

    def cause(at_ms: float, kind: int, i: int) -> None:
        nonlocal caused
        caused += 1
        heappush(events, (at_ms, caused, kind, i))

    def settle() -> None:
        """Set the rates of all shares, after a change of what runs."""
        busy = max(1, round(active))
        slow = contention[min(busy, len(contention)) - 1]
        waiting = max(1.0, gil_sum)
        demand = core_sum
        # Few of them have works at a time.
        live = [share for share in shares.values() if share.ends]
        for share in live:
            share.advance(now)
            # In turns with others who hold the lock, and whenever it asks for it anew.
            waits = share.gil * (waiting - 1.0) + share.asks * max(0.0, held_ms - share.held_ms)
            share.rate = 1.0 / (1.0 + waits)
            demand -= len(share.ends) * share.core * (1.0 - share.rate)
        if demand > cores:
            slow *= demand / cores
        for share in live:
            share.rate /= 1.0 + share.core * (slow - 1.0)

    def change(share: _Share, by: int) -> None:
        nonlocal active, core_sum, gil_sum, held_ms
        active += by * min(1.0, share.core)
        core_sum += by * share.core
        gil_sum += by * share.gil
        held_ms += by * share.held_ms
        settle()

    def occupy(kind: int, ms: float) -> None:
        """Use a core for what is no task."""
        nonlocal core_sum
        core_sum += 1.0
        beside.advance(now)
        heappush(beside.ends, (beside.done + ms, kind))
        settle()

    def drive() -> None:
        """Let the driver do what it does next: submit, or handle a record."""
        nonlocal running, driver
        while driver is None:
            i = pop() if running < capacity else None
            if i is not None:
                running += 1
                kind = _SENT
            elif inbox:
                i, kind = inbox.popleft(), _HANDLED
            else:
                return
            if half_ms:
                driver = kind, i
                occupy(_DRIVER, half_ms)
            else:
                handle(kind, i)

    def handle(kind: int, i: int) -> None:
        nonlocal running, makespan
        if kind == _SENT:
            cause(now + each_way_ms, _QUEUED, i)
        else:
            running -= 1
            makespan = now
            done(i)

    def give(worker: int, i: int) -> None:
        """Let a worker come to a job, after its gap."""
        worker_of[i] = worker
        is_idle[worker] = False
        cause(max(now, free_ms[worker]) + starts_ms[worker], _BEGIN, i)
        starts_ms[worker] = 0.0

    def begin(i: int) -> None:
        begun[i] = now
        key = (1.0, 0.0)
        if not plain:
            key = core[i] if core else 1.0, gil[i] if gil else 0.0
        share = shares.get(key)
        if share is None:
            share = shares[key] = _Share(*key, asks)
            share.at_ms = now
        share.advance(now)
        heappush(share.ends, (share.done + work_ms[i] / speeds[worker_of[i]], i))
        change(share, 1)

    def end(i: int) -> None:
        ended[i] = now
        worker = worker_of[i]
        free_ms[worker] = now + (busy_gap_ms if active >= cores - 1 else gap_ms)
        cause(now + each_way_ms, _RECORD, i)
        if beside_ms:
            occupy(_BESIDE, beside_ms)
        for target, takes_ms in transfers.get(i, ()) if transfers else ():
            pair = worker, home[target]
            link = links.get(pair)
            if link is None:
                link = links[pair] = _Share(0.0)
                link.at_ms = now
            link.advance(now)
            heappush(link.ends, (link.done + takes_ms, target))
            link.rate = 1.0 / len(link.ends)
        queue = queues[worker if home else 0]
        if queue:
            give(worker, queue.popleft())
        else:
            is_idle[worker] = True
            if not home:
                heappush(idle, worker)

    def arrive(target: int) -> None:
        awaited[target] -= 1
        if not awaited[target] and target in blocked:
            blocked.discard(target)
            begin(target)

    drive()
    while True:
        soonest = events[0][0] if events else inf
        ending = None
        for share in shares.values():
            if share.ends:
                at_ms = share.next_ms()
                if at_ms < soonest:
                    soonest, ending = at_ms, share
        arriving = None
        for link in links.values():
            if link.ends:
                at_ms = link.next_ms()
                if at_ms < soonest:
                    soonest, arriving = at_ms, link
        if soonest == inf:
            break
        now = max(now, soonest)
        if arriving is not None:
            arriving.advance(now)
            _, target = heappop(arriving.ends)
            arriving.rate = 1.0 / max(1, len(arriving.ends))
            arrive(target)
            continue
        if ending is not None:
            ending.advance(now)
            _, i = heappop(ending.ends)
            if i >= 0:
                change(ending, -1)
                end(i)
                continue
            core_sum -= 1.0
            settle()
            if i == _DRIVER and driver is not None:
                ended_one, driver = driver, None
                handle(*ended_one)
                drive()
            continue
        _, _, kind, i = heappop(events)
        if kind == _QUEUED:
            if home:
                worker = home[i]
                if is_idle[worker]:
                    give(worker, i)
                else:
                    queues[worker].append(i)
            elif idle:
                give(heappop(idle), i)
            else:
                queues[0].append(i)
        elif kind == _BEGIN:
            if awaited.get(i):
                blocked.add(i)
            else:
                begin(i)
        else:
            inbox.append(i)
            drive()
    return Replay(inf if running else makespan, worker_of, begun, ended)
