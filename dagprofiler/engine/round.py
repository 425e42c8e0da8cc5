"""Round: one round of a run, with the ready loop; Frontier: what the loop runs next.

:class:`ReadyQueue` is the frontier of a fixed graph. The package `rules` has one for dynamic
graphs, and `journal` one that wraps another and takes over what previous attempts finished.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import chain, filterfalse
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from dagprofiler._document.rounds import ALLOCATION
from dagprofiler._util.interpreter import recording, sink
from dagprofiler.engine.log import rekeyed
from dagprofiler.errors import WorkerError, describe, frames_of
from dagprofiler.graph.wiring import GrowableWiring, ready_queue, ready_queue_along, ready_queue_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from dagprofiler.config import Config
    from dagprofiler.engine.hooks import HookCalls
    from dagprofiler.engine.log import RunLog
    from dagprofiler.engine.options import RunOptions
    from dagprofiler.executors.dispatch import Dispatcher
    from dagprofiler.executors.serial import SerialExecutor
    from dagprofiler.graph.wiring import Wiring
    from dagprofiler.measure.instruments import Instrumentation
    from dagprofiler.measure.pipeline import Contract
    from dagprofiler.task import Task


class Frontier(Protocol):
    """What to run next in one round; made anew for each.

    `pop` and `done` are read after :meth:`begin`, and may be closures.
    """

    @property
    def wiring(self) -> Wiring:
        """The graph of the round; a dynamic one grows in place."""

    @property
    def pop(self) -> Callable[[], int | None]:
        """Removes and returns the number of a task that is ready; None if none is."""

    @property
    def done(self) -> Callable[[int], None] | None:
        """Marks a task as succeeded; None if the order is known beforehand."""

    def begin(self, current: Round) -> None:
        """Prepare the round; called once, when its clock runs."""

    def failed(self, task: int, skipped: Iterable[int], *, stops: bool) -> None:
        """Mark a task as failed, and the tasks that depend on it as skipped.

        Parameters
        ----------
        stops
            Whether no other task starts.
        """

    def finish(self, *, ended: bool) -> None:
        """Complete the log of the round; always called once, last.

        Parameters
        ----------
        ended
            Whether the loop came to its end; false if an error, such as Ctrl-C, ended it.
        """


class ReadyQueue:
    """The tasks of a fixed graph whose predecessors have succeeded.

    Parameters
    ----------
    wiring
        The graph.
    ranked
        All task numbers by decreasing priority: of several ready tasks, the first one
        starts first. None for Kahn's order.
    orders
        The task numbers of each node of a schedule, in order; None without one.
    """

    def __init__(
        self,
        wiring: Wiring,
        ranked: Sequence[int] | None = None,
        orders: Sequence[Sequence[int]] | None = None,
    ) -> None:
        self.wiring = wiring
        self.pop: Callable[[], int | None]
        self.done: Callable[[int], None] | None = None
        self._ranked, self._orders = ranked, orders

    def begin(self, current: Round) -> None:
        """Prepare the two operations."""
        wiring, ranked = self.wiring, self._ranked
        if current.executor.serial:
            # Kahn's order, without the tasks that are skipped.
            left = filterfalse(current.log.skipped.__contains__, wiring.order)
            self.pop = partial(next, left, None)
            return
        graph = wiring.targets, wiring.first_target
        if self._orders is not None:
            self.pop, self.done = ready_queue_along(self._orders, *graph)
            return
        self.pop, self.done = (
            ready_queue(*graph) if ranked is None else ready_queue_by(ranked, *graph)
        )

    def failed(self, task: int, skipped: Iterable[int], *, stops: bool) -> None:
        """Do nothing: successors of a failed task never become ready."""

    def finish(self, *, ended: bool) -> None:
        """Do nothing."""


class Workload(NamedTuple):
    """What each round of a run executes, and where.

    Attributes
    ----------
    tasks, contracts
        For each task number the task and its contract.
    config
        Parameters of all tasks.
    outside
        Task number to its inputs from outside the graph, serialized.
    keep
        Numbers of the tasks whose outputs are returned in addition to those of the sinks.
    rules
        Names of the rules; empty for a fixed graph.
    frontier
        Returns what to run next in a round, by the number of the round.
    executor
        Runs the tasks.
    instrumentation
        Measurements in addition to the phases; None for none.
    conclude
        Enters what previous attempts at the run recorded into its log when it has ended;
        None without any.
    """

    tasks: list[Task]
    contracts: list[Contract]
    config: Config
    outside: dict[int, dict[str, Any]]
    keep: set[int]
    rules: Sequence[str]
    frontier: Callable[[int], Frontier]
    executor: SerialExecutor | Dispatcher
    instrumentation: Instrumentation | None
    conclude: Callable[[RunLog], None] | None


class Results:
    """What a round leaves behind in addition to its log.

    Attributes
    ----------
    outputs
        Task number to the outputs that are returned.
    errors
        Task number to its error.
    rule_failures
        Rule to its error.
    """

    def __init__(self) -> None:
        self.outputs: dict[int, Mapping[str, Any]] = {}
        self.errors: dict[int, BaseException] = {}
        self.rule_failures: dict[str, BaseException] = {}

    def renumber(self, numbers: Sequence[int | None]) -> None:
        """Give the tasks other numbers."""
        self.outputs = rekeyed(self.outputs, numbers)
        self.errors = rekeyed(self.errors, numbers)


def is_traced(kind: str, instrumentation: Instrumentation | None) -> bool:
    """Tell whether the profile includes the spans of a round."""
    if kind == ALLOCATION:
        return False
    return (instrumentation is not None and instrumentation.tracing is not None) or (
        not recording.off
    )


class Slots:
    """The outputs of a round on their way to the tasks that take them.

    Attributes
    ----------
    handles
        For each slot the executor's handle of its value, while it is needed.
    uses
        For each slot the number of inputs that it still feeds.
    kept
        For each task whether its outputs are returned to this process.
    """

    def __init__(self, wiring: Wiring, keep: Iterable[int], *, grows: bool) -> None:
        self.handles: list[Any] = [None] * len(wiring.uses)
        # The wiring of a dynamic graph is new in each round, and its list grows with it.
        self.uses = wiring.uses if grows else list(wiring.uses)
        self.kept = [False] * len(wiring.names)
        for i in chain(wiring.sinks, keep):
            self.kept[i] = True

    def release(self, slots: Iterable[int]) -> None:
        """Count one use less of each slot, and empty it after the last one."""
        for slot in slots:
            self.uses[slot] -= 1
            if not self.uses[slot]:
                self.handles[slot] = None


class Round:
    """One round of a run in this process.

    Attributes
    ----------
    run, log
        The log of the run, and of this round.
    wiring, tasks, contracts
        The graph; a dynamic one extends these lists.
    keep
        Names of tasks whose outputs are returned even if other tasks follow them.
    slots, results
        Outputs on their way to other tasks, and what the round leaves behind.
    executor
        Runs the tasks.
    added_s
        Returns when a previous attempt at this run added these tasks to the graph, else
        None; None without such an attempt.
    """

    def __init__(
        self,
        run: RunLog,
        work: Workload,
        options: RunOptions,
        hooks: HookCalls,
        kind: str,
        frontier: Frontier,
        *,
        single: bool,
    ) -> None:
        instruments = work.instrumentation
        self._traced = is_traced(kind, instruments)
        if kind is ALLOCATION:
            from dagprofiler.measure.instruments import COUNT_ALLOCATIONS

            store = None if instruments is None else instruments.store
            instruments = COUNT_ALLOCATIONS._replace(store=store)
        self.run = run
        self.wiring = wiring = frontier.wiring
        grows = isinstance(wiring, GrowableWiring)
        # A dynamic graph extends these lists.
        self.tasks = [*work.tasks] if grows else work.tasks
        self.contracts = [*work.contracts] if grows else work.contracts
        self.keep = frozenset(options.keep)
        self.executor = work.executor
        self.results = Results()
        self.added_s: Callable[[Iterable[str]], float | None] | None = None
        self.log = run.begin(kind, instruments.columns if instruments else [])
        self.executor.begin(instruments, wiring)
        self.slots = Slots(wiring, work.keep, grows=grows)
        self._config = work.config
        # Each task removes its inputs; another round needs them again.
        self._outside = work.outside if single else dict(work.outside)
        self._frontier = frontier
        self._hooks = hooks
        self._stop_on_error = options.on_error == "stop"
        self._stopped = False
        #: Reading of the clock from which the time of this round counts.
        self._since_s = 0.0

    def take(self) -> None:
        """Run all tasks; raise what is no Exception, such as Ctrl-C, and failures of hooks."""
        log = self.log
        log.started_s = perf_counter()
        self.start_clock(log.started_s)
        token, ended = None, False
        try:
            if recording.tracing is not None:
                token = sink.set(recording.tracing.place())
            self._frontier.begin(self)
            self._loop()
            ended = True
        finally:
            if token is not None:
                sink.reset(token)
            try:
                self._frontier.finish(ended=ended)
            finally:
                if log.ended_s is None:
                    total_s = self._total_s()
                    log.conclude(self.executor.end())
                    log.total_s = total_s
                # Tracebacks of failures keep this object alive; release its values.
                self.slots.handles.clear()
                self._outside.clear()
                # A dynamic graph refers to this object, too.
                del self._frontier

    def start_clock(self, now_s: float) -> None:
        """Count the time of the round from now on, in addition to what its log holds already."""
        self._since_s = now_s - self.log.total_s - self._apart_s()

    def _total_s(self) -> float:
        """Return the time that this round has taken so far, in seconds."""
        return perf_counter() - self._since_s - self._apart_s()

    def _apart_s(self) -> float:
        """Return the time of hooks and of measuring in this process so far, in seconds."""
        return self._hooks.spent_s + (self.log.aside_s if self.executor.serial else 0.0)

    def rule_failed(self, name: str, error: Exception) -> bool:
        """Record that a rule failed; return whether no new task may start."""
        self.results.rule_failures[f"rule {name!r}"] = error
        self._stopped = self._stopped or self._stop_on_error
        return self._stopped

    def _loop(self) -> None:  # noqa: C901, PLR0912, PLR0915  (hot: a helper call in it counts)
        log, wiring, executor, entry = self.run, self.wiring, self.executor, self.log
        tasks, contracts, config, outside = self.tasks, self.contracts, self._config, self._outside
        hooks, handles, uses = self._hooks.hooks, self.slots.handles, self.slots.uses
        names, kept, owner = wiring.names, self.slots.kept, wiring.owner
        inputs, slots, first_input = wiring.inputs, wiring.slots, wiring.first_input
        outputs_of, first_slot = wiring.outputs, wiring.first_slot
        times, ran_on = entry.times, entry.ran_on
        payload_bytes, wire_bytes = entry.payload_bytes, entry.wire_bytes
        submit, next_done = executor.submit, executor.next
        pop, done = self._frontier.pop, self._frontier.done
        traced = self._traced
        running = 0
        while True:
            # The capacity changes as workers join and leave.
            capacity = executor.capacity
            while running < capacity and not self._stopped:
                ready = pop()
                if ready is None:
                    break
                if hooks:
                    self._hooks.tell("task_started", names[ready])
                task, contract, fields = tasks[ready], contracts[ready], inputs[ready]
                task.config = config
                decoders, frames = [], []
                place, end = first_input[ready], first_input[ready + 1]
                while place < end:
                    slot = slots[place]
                    place += 1
                    decoders.append(contracts[owner[slot]].decode)
                    frames.append(handles[slot])
                    uses[slot] = left = uses[slot] - 1
                    if not left:
                        handles[slot] = None
                if outside and ready in outside:
                    extra = outside.pop(ready)
                    decoders += [contract.decode] * len(extra)
                    fields = [*fields, *extra]
                    frames += map(executor.put, extra.values())
                    gathers = [field for field in contract.gathers if field not in extra]
                    contract = replace(contract, gathers=gathers)
                    del extra
                work = (names[ready], task, contract, fields, decoders, kept[ready])
                submit(ready, work, frames)
                running += 1
            if not running:
                if capacity < 1:
                    self._strand(pop())
                break
            i, worker, record = next_done()
            if i < 0:
                continue
            running -= 1
            k = 6 * i
            times[k : k + 6], payload, wire, frames, outputs, error, readings, spans = record
            if worker:
                ran_on[i] = worker
            if spans is not None and traced:
                entry.spans[i] = spans
            if error is not None:
                self._fail(i, error)
                continue
            slot, declared = first_slot[i], outputs_of[i]
            for field in declared:
                wire_bytes[slot] = wire[field]
                if uses[slot]:
                    handles[slot] = frames[field]
                slot += 1
            if payload is not wire:
                for slot, field in enumerate(declared, first_slot[i]):
                    payload_bytes[slot] = payload[field]
            if len(wire) > len(declared):
                declared_bytes = sum(wire[field] for field in declared)
                entry.undeclared_bytes[i] = sum(wire.values()) - declared_bytes
            if readings is not None:
                entry.note(i, readings)
            # Only the slots keep the outputs after this.
            del record, frames
            if outputs is not None:
                self.results.outputs[i] = outputs
                del outputs
            if hooks:
                entry.total_s = self._total_s()
                self._hooks.tell("task_finished", log.record(entry, i))
            if done is not None:
                done(i)

    def _strand(self, i: int | None) -> None:
        """Fail a task that no worker can run, unless the run is over or fails anyway."""
        if i is not None and not self.results.errors:
            name = self.wiring.names[i]
            self.log.ran_on[i] = -1
            self._fail(i, WorkerError(name, [], "there is no worker to take it"))

    def _fail(self, i: int, error: BaseException) -> None:
        """Record that task number `i` failed, and skip the tasks that depend on it.

        An error that is no Exception, such as Ctrl-C, is raised and ends the run.
        """
        entry, wiring = self.log, self.wiring
        entry.errors[i] = describe(error)
        frames = frames_of(error)
        if frames:
            entry.tracebacks[i] = frames
        below, skipped = [i], []
        while below:
            for target in wiring.successors(below.pop()):
                if target not in entry.skipped:
                    entry.skipped.add(target)
                    skipped.append(target)
                    below.append(target)
                    self.slots.release(slot for _, slot in wiring.feeds(target))
        if not isinstance(error, Exception):
            raise error
        self.results.errors[i] = error
        if self._stop_on_error:
            self._stopped = True
        self._frontier.failed(i, skipped, stops=self._stopped)
        self._hooks.tell("task_failed", self.run.record(entry, i, error))
