"""Run: all rounds of a run, from the first call of a hook to the profile.

A run takes its :class:`~dagprofiler.engine.setup.Setup`. Each of its rounds is a :class:`Round`,
whose ready loop asks a :class:`Frontier` what to run next. :class:`ReadyQueue` is the frontier of a
fixed graph. The package `rules` has one for dynamic graphs, and `journal` one that wraps another
and takes over what previous attempts finished.
"""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import filterfalse
from time import perf_counter, process_time, thread_time
from typing import TYPE_CHECKING, Any, Protocol

from dagprofiler._document.rounds import ALLOCATION, COLD, MEASURED, WARM_UP
from dagprofiler._util.interpreter import asked_for, current_stream, owner, recording
from dagprofiler.engine.contracts import Workflow
from dagprofiler.engine.hooks import Hook, RunInfo
from dagprofiler.engine.log import Results, RoundLog, RoundResult, RunLog
from dagprofiler.engine.setup import RunOptions, Setup, prepare
from dagprofiler.errors import RunError, WorkerError, describe, frames_of, refused, short_repr
from dagprofiler.executors.serial import SerialExecutor
from dagprofiler.graph.wiring import ReadyTasks, Wiring
from dagprofiler.measure.busy import busy
from dagprofiler.profile import Profile
from dagprofiler.serializers import Handle, frames_bytes
from dagprofiler.stats import FEWEST_ROUNDS

if TYPE_CHECKING:
    from dagprofiler.engine.fresh import FreshRounds
    from dagprofiler.executors.dispatch import Dispatcher
    from dagprofiler.measure.instruments import Instrumentation, Readings


class Frontier(Protocol):
    """What to run next in one round; made anew for each.

    The run loop reads `pop` and `done` once, after :meth:`begin`, so they may be set there.
    """

    @property
    def wiring(self) -> Wiring:
        """The graph of the round; a dynamic one grows in place."""

    @property
    def pop(self) -> Callable[[], int | None]:
        """Removes and returns the number of a task that is ready; None if none is."""

    @property
    def done(self) -> Callable[[int], None] | None:
        """Marks a task as succeeded; None if `pop` knows the order without it."""

    def begin(self, current: Round) -> None:
        """Prepare the round; called once, after its clock has started."""

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
    """The tasks of a fixed graph whose predecessors have succeeded."""

    def __init__(self, wiring: Wiring) -> None:
        self.wiring = wiring
        self.pop: Callable[[], int | None]
        self.done: Callable[[int], None] | None = None
        self._skipped: set[int] = set()

    def begin(self, current: Round) -> None:
        """Set `pop` and `done`."""
        wiring, setup = self.wiring, current.run_log.setup
        if current.executor.serial:
            unskipped = filterfalse(self._skipped.__contains__, wiring.order)
            self.pop = partial(next, unskipped, None)
            return
        ready = ReadyTasks(wiring.below, setup.ranked, setup.orders)
        self.pop, self.done = ready.pop, ready.done

    def failed(self, task: int, skipped: Iterable[int], *, stops: bool) -> None:
        """Leave tasks out of Kahn's order; elsewhere they never become ready."""
        self._skipped.update(skipped)

    def finish(self, *, ended: bool) -> None:
        """Do nothing."""


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

    def __init__(self, wiring: Wiring, keep: Iterable[str]) -> None:
        self.handles: list[Handle] = [None] * len(wiring.uses)
        # The wiring of a dynamic graph is new in each round, and its list grows with it.
        self.uses = wiring.uses if wiring.grows else list(wiring.uses)
        self._keep = frozenset(keep)
        self.kept: list[bool] = []
        self.extend(wiring.names, 0)
        # What follows a task of a graph that grows is known at the end.
        for i in () if wiring.grows else wiring.sinks:
            self.kept[i] = True

    def extend(self, names: Iterable[str], slots: int) -> None:
        """Make room for tasks of these names and the slots of their outputs."""
        self.handles += [None] * slots
        self.kept += [name in self._keep for name in names]

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
    run_log, log
        The log of the run, and of this round.
    tasks, contracts
        By task number; a dynamic graph extends these lists.
    slots, results
        Outputs on their way to other tasks, and what the round leaves behind.
    executor
        Runs the tasks.
    added_s
        Returns when a previous attempt at this run added tasks of these names to the graph; None
        for names that it did not add. None without a previous attempt.
    """

    def __init__(
        self,
        run_log: RunLog,
        log: RoundLog,
        executor: SerialExecutor | Dispatcher,
        frontier: Frontier,
        hooks: HookCalls,
        *,
        traced: bool,
    ) -> None:
        setup, workflow = run_log.setup, run_log.setup.workflow
        self.run_log = run_log
        self.log = log
        self.tasks, self.contracts = workflow.tasks, workflow.contracts
        if log.wiring.grows:
            # The graph extends these lists.
            self.tasks, self.contracts = [*workflow.tasks], [*workflow.contracts]
        run_log.contracts = self.contracts
        self.executor = executor
        self.results = Results()
        self.added_s: Callable[[Iterable[str]], float | None] | None = None
        self.slots = Slots(log.wiring, setup.options.keep)
        #: Inputs from outside that no task has taken yet; a copy if another round needs them.
        self._given_inputs = setup.given_inputs
        if setup.is_repeated or setup.allocation:
            self._given_inputs = {**setup.given_inputs}
        self._frontier = frontier
        self._hooks = hooks
        self._traced = traced
        self._stopped = False
        #: Time that meters, garbage collection and the store took, in seconds, over all workers.
        self._aside_s = 0.0
        #: The clock minus this and :meth:`_apart_s` is the time of the round.
        self._since_s = 0.0

    def run_tasks(self) -> None:
        """Run all tasks; raise what is no Exception, such as Ctrl-C, and failures of hooks."""
        log = self.log
        log.started_s = perf_counter()
        self.start_clock(log.started_s)
        ended = False
        # Spans belong to the tasks, not to a collection around the run.
        token = owner.set(None)
        try:
            self._frontier.begin(self)
            self._loop()
            ended = True
        finally:
            owner.reset(token)
            try:
                self._frontier.finish(ended=ended)
            finally:
                if log.ended_s is None:
                    total_s = self._total_s()
                    log.add_report(self.executor.end())
                    log.total_s = total_s
                # Tracebacks of failures keep this object alive; release its values.
                self.slots.handles.clear()
                self._given_inputs.clear()
                # A dynamic graph refers to this object: break the cycle.
                del self._frontier
        if log.growth is not None:
            log.growth.complete = not self.results.rule_failures

    def start_clock(self, now_s: float) -> None:
        """Let :meth:`_total_s` go on from the `total_s` of the log, and count from now."""
        self._since_s = now_s - self.log.total_s - self._apart_s()

    def _total_s(self) -> float:
        """Return the time that this round has taken so far, in seconds."""
        return perf_counter() - self._since_s - self._apart_s()

    def _apart_s(self) -> float:
        """Return the time so far, in this process, of what no round counts: hooks and meters."""
        return self._hooks.spent_s + (self._aside_s if self.executor.serial else 0.0)

    def add_readings(self, i: int, readings: Readings) -> None:
        """Record what the instruments read of task number `i`."""
        self.log.note_readings(i, readings)
        self._aside_s += readings.meters_s + readings.garbage_s + readings.store_s

    def rule_failed(self, name: str, error: Exception) -> bool:
        """Record that a rule failed; return whether no new task may start."""
        self.results.rule_failures[f"rule {name!r}"] = error
        self._stopped = self._stopped or self.run_log.setup.options.on_error == "stop"
        return self._stopped

    def _loop(self) -> None:  # noqa: C901, PLR0912, PLR0915  (hot: a helper call in it counts)
        log, executor = self.log, self.executor
        wiring = log.wiring
        tasks, contracts, outside = self.tasks, self.contracts, self._given_inputs
        config = self.run_log.setup.workflow.config
        hooks, handles, uses = self._hooks.hooks, self.slots.handles, self.slots.uses
        names, kept, owner_of = wiring.names, self.slots.kept, wiring.owner
        inputs, slots, first_input = wiring.inputs, wiring.slots, wiring.first_input
        outputs_of, first_slot = wiring.outputs, wiring.first_slot
        times, ran_on = log.times, log.ran_on
        payload_bytes, wire_bytes = log.payload_bytes, log.wire_bytes
        submit, next_done = executor.submit, executor.next
        pop, done = self._frontier.pop, self._frontier.done
        traced = self._traced
        #: The handles of a starting task's inputs, and then of a finished task's outputs.
        frames: Any
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
                    decoders.append(contracts[owner_of[slot]].decode)
                    frames.append(handles[slot])
                    uses[slot] = left = uses[slot] - 1
                    if not left:
                        handles[slot] = None
                if outside and ready in outside:
                    extra = outside.pop(ready)
                    decoders += [contract.decode] * len(extra)
                    fields = (*fields, *extra)
                    frames += map(executor.put, extra.values())
                    gathers = (field for field in contract.gathers if field not in extra)
                    contract = replace(contract, gathers=(*gathers,))
                    del extra
                work = (names[ready], task, contract, fields, decoders, kept[ready])
                submit(ready, work, frames)
                running += 1
            if not running:
                if capacity < 1:
                    self._strand(pop())
                break
            i, worker, record = next_done()
            if i < 0:  # No task: the capacity may have changed.
                continue
            running -= 1
            k = 6 * i
            times[k : k + 6], payload, wire, frames, outputs, error, readings, spans = record
            if worker:
                ran_on[i] = worker
            if spans is not None and traced:
                log.note(i, spans=spans)
            if error is not None:
                self._fail(i, error)
                continue
            slot, declared = first_slot[i], outputs_of[i]
            for field in declared:
                wire_bytes[slot] = wire[field]
                if uses[slot]:
                    handles[slot] = frames[field]
                slot += 1
            if payload is not wire:  # One dict for both if no size differs.
                for slot, field in enumerate(declared, first_slot[i]):
                    payload_bytes[slot] = payload[field]
            if len(wire) > len(declared):
                declared_bytes = sum(wire[field] for field in declared)
                log.note(i, undeclared_bytes=sum(wire.values()) - declared_bytes)
            if readings is not None:
                self.add_readings(i, readings)
            # Only the slots keep the outputs after this.
            del record, frames
            if outputs is not None:
                self.results.outputs[names[i]] = outputs
                del outputs
            if hooks:
                log.total_s = self._total_s()
                self._hooks.tell("task_finished", self.run_log.record(i))
            if done is not None:
                done(i)

    def _strand(self, i: int | None) -> None:
        """Fail task number `i`, which no worker can run, unless the run has failed already."""
        if i is not None and not self.results.errors:
            name = self.log.wiring.names[i]
            self.log.ran_on[i] = -1
            self._fail(i, WorkerError(name, [], "there is no worker to take it"))

    def _fail(self, i: int, error: BaseException) -> None:
        """Record that task number `i` failed, and skip the tasks that depend on it.

        An error that is no Exception, such as Ctrl-C, is raised and ends the run.
        """
        log, wiring = self.log, self.log.wiring
        log.note(i, error=describe(error), traceback=frames_of(error))
        below, skipped = [i], []
        while below:
            for target in wiring.successors(below.pop()):
                if not log.note_of(target).skipped:
                    log.note(target, skipped=True)
                    skipped.append(target)
                    below.append(target)
                    self.slots.release(slot for _, slot in wiring.feeds(target))
        if not isinstance(error, Exception):
            raise error
        self.results.errors[wiring.names[i]] = error
        self._stopped = self._stopped or self.run_log.setup.options.on_error == "stop"
        self._frontier.failed(i, skipped, stops=self._stopped)
        self._hooks.tell("task_failed", self.run_log.record(i, error))


class HookError(Exception):
    """A hook raised an error, which ends the run; internal to the engine."""


@dataclass
class HookCalls:
    """Calls the hooks of one run.

    Attributes
    ----------
    hooks
        The hooks, in the order of their calls; those that are closed are absent.
    failures
        ``Class.method`` and the error that it raised, in the order of the failures.
    spent_s
        Time spent in hooks, in seconds.
    """

    hooks: list[Hook]
    failures: list[tuple[str, Exception]] = dataclasses.field(default_factory=list)
    spent_s: float = 0.0

    def instruments(self, setup: Setup) -> Instrumentation | None:
        """Return the instruments of a run, with the store and the tracing of the hooks."""
        store = self._only("store", "outputs can be stored in one place")
        tracing = self._only("tracing", "one Tracer records a run")
        if store is None and tracing is None:
            return setup.instruments
        if store is not None and setup.options.rounds.fresh_process:
            raise refused(
                "hooks: rounds in fresh processes report their tasks only when they are over, so "
                "a journal cannot record them; omit it, or fresh_process"
            )
        from dagprofiler.measure.instruments import Instrumentation
        from dagprofiler.measure.meters import select

        instruments = setup.instruments or Instrumentation(select("wall"))
        return instruments._replace(store=store, tracing=tracing)

    def _only(self, attribute: str, why: str) -> Any:
        """Return an attribute that at most one of the hooks sets; None if none does."""
        values = [getattr(hook, attribute) for hook in self.hooks]
        values = [value for value in values if value is not None]
        if len(values) > 1:
            raise refused(f"hooks: {why}, got {len(values)}")
        return values[0] if values else None

    def tell(self, method: str, what: object) -> None:
        """Call one method of all hooks, and add its time to theirs."""
        if not self.hooks:
            return
        begun = perf_counter()
        try:
            for hook in self.hooks:
                self._call(hook, method, what)
        finally:
            self.spent_s += perf_counter() - begun

    def close(self) -> None:
        """Close each hook once, even if some raise."""
        if self.hooks:
            try:
                with suppress(HookError):
                    self._call(self.hooks.pop(0), "close")
            finally:
                self.close()

    def _call(self, hook: Hook, method: str, *what: object) -> None:
        try:
            getattr(hook, method)(*what)
        except Exception as error:
            self.failures.append((f"{type(hook).__name__}.{method}", error))
            raise HookError from error


#: From this age on, in seconds, a run of several rounds repeats the calibration.
_CALIBRATED_S = 10.0


class Past(Protocol):
    """The earlier attempts at a run, as seen by the run that resumes it."""

    @property
    def kinds(self) -> Sequence[str]:
        """The kind of each round that was begun."""

    @property
    def measured_s(self) -> float:
        """Time since the first measured round began, in seconds of running."""

    def continue_clock(self, log: RunLog) -> None:
        """Shift the log of the run to the clock of the earlier attempts."""

    def frontier(self, inner: Frontier, number: int) -> Frontier:
        """Return the frontier of a round, which takes over the tasks that have finished."""

    def finish(self, log: RunLog) -> None:
        """Enter the totals of a complete run into its log."""


class Run:
    """One run of a valid DAG: all its rounds.

    Parameters
    ----------
    setup
        What the run is of.
    hooks
        Observers of the run.
    past
        The earlier attempts that it resumes; None for a first one.
    """

    def __init__(self, setup: Setup, hooks: HookCalls, past: Past | None = None) -> None:
        options = setup.options
        self._hooks = hooks
        self._past = past
        self._instruments = hooks.instruments(setup)
        self._executor = _executor_of(setup)
        self.log = RunLog(
            setup,
            setup.workflow.wiring,
            {**setup.estimates},
            {
                i: sum([frames_bytes(frames) for frames in values.values()])
                for i, values in setup.given_inputs.items()
            },
            self._executor.name,
            self._executor.ahead_s,
            self._executor.workers,
            setup.workflow.contracts,
        )
        if past is not None:
            past.continue_clock(self.log)
        self._fresh: FreshRounds | None = None
        if options.rounds.fresh_process:
            from dagprofiler.engine.fresh import FreshRounds

            alone = replace(options, priorities=None, rounds=options.rounds.alone())
            self._fresh = FreshRounds(partial(_run_once, setup.workflow, alone, self._instruments))
        self._kinds = kinds_of_rounds(self.log, past)
        #: Kind of the current or next round, and " in round 3" for messages; "" before the first.
        self._kind = self._where = ""
        #: The results of the last round.
        self._results = Results()
        self._ended = False
        self.profile: Profile

    def execute(self) -> Profile:
        """Run all rounds and return the profile; raise as :meth:`step`."""
        cores = self.log.setup.options.rounds.busy_cores
        with busy(cores) if cores else nullcontext():
            while self.step():
                pass
        return self.profile

    def step(self) -> bool:
        """Run the next round; return whether there is another one.

        :attr:`profile` is available after the last one, or an error.

        Raises
        ------
        RunError
            If a task or a hook failed; it holds the partial profile.
        """
        try:
            if self._next_round():
                return True
            self._end()
        except BaseException as error:
            # Ctrl-C and the like are raised again, with the partial profile.
            self._interrupt(f"{describe(error)}{self._where}")
            error.profile = self.profile  # type: ignore[attr-defined]
            raise
        failures = self._failures()
        if failures:
            failed_task = next(iter(self._results.errors), None)
            raise RunError(failed_task, failures, self.profile) from next(iter(failures.values()))
        return False

    def stop(self, cause: str) -> None:
        """End a run that has begun before its next round."""
        if self.log.rounds and not self._ended:
            self._interrupt(cause + self._where.replace(" in", " before", 1))

    def _next_round(self) -> bool:
        """Run a round; return whether there is another one."""
        # What failed in a hook is among the failures, and no other round follows.
        with suppress(HookError):
            if not self._kind:
                if self._hooks.hooks:
                    self._hooks.tell("run_started", _run_info(self.log))
                self._kind, self._where = next(self._kinds)
                spent_s = perf_counter() - self.log.setup.started_s
                self.log.costs.prepare_s = spent_s - self._hooks.spent_s
            self._run_round(self._kind)
            if not self._failures():
                following = next(self._kinds, None)
                if following is not None:
                    self._kind, self._where = following
                    return True
        return False

    def _run_round(self, kind: str) -> None:
        """Run the whole DAG once, here or in another process."""
        log, setup = self.log, self.log.setup
        # The last round's outputs are no longer needed, only its measurements.
        self._results = Results()
        if setup.is_repeated and setup.options.rounds.collect_garbage is not None:
            begun = perf_counter()
            gc.collect()
            log.costs.garbage_s += perf_counter() - begun
        if self._fresh is not None and kind != ALLOCATION:
            self._add(self._fresh.run(), kind)
            return
        current = self._begin_round(kind)
        # Tasks that run elsewhere leave the generators of this process alone.
        restored: AbstractContextManager[None] = nullcontext()
        if setup.options.seed is not None and setup.options.executor is None:
            from dagprofiler.measure.random import generators_restored

            restored = generators_restored()
        # A run inside a task does not continue the stream of that task.
        outer, others_s = current_stream.set(None), _other_threads_s()
        try:
            with restored:
                current.run_tasks()
        finally:
            current_stream.reset(outer)
            log.costs.other_threads_s += max(0.0, _other_threads_s() - others_s)
            self._keep(current.log, current.results)
        # Hooks have been told of a round that a previous attempt completed.
        if not self._failures() and current.log.ended_s is None:
            current.log.ended_s = perf_counter()
            self._hooks.tell("round_finished", len(log.rounds) - 1)

    def _begin_round(self, kind: str) -> Round:
        """Begin a round in the executor and the log; return it before any of its tasks."""
        log, setup, instruments = self.log, self.log.setup, self._instruments
        if kind == ALLOCATION:
            from dagprofiler.measure.instruments import COUNT_ALLOCATIONS

            store = None if instruments is None else instruments.store
            instruments = COUNT_ALLOCATIONS._replace(store=store)
        frontier: Frontier = ReadyQueue(setup.workflow.wiring)
        if setup.workflow.dynamic is not None:
            frontier = setup.workflow.dynamic()
        if self._past is not None:
            frontier = self._past.frontier(frontier, len(log.rounds))
        log.wiring = wiring = frontier.wiring
        tasks, slots = len(wiring.names), len(wiring.owner)
        round_log = RoundLog(kind, wiring, [None] * (6 * tasks), [0] * tasks, [0] * slots)
        traced = recording.enabled and kind != ALLOCATION
        if instruments is not None:
            round_log.columns = dict.fromkeys(instruments.meters.columns, "")
            traced = traced or instruments.tracing is not None
        self._executor.begin(instruments, wiring)
        log.rounds.append(round_log)
        return Round(log, round_log, self._executor, frontier, self._hooks, traced=traced)

    def _keep(self, round_log: RoundLog, results: Results) -> None:
        """Keep the results of a round that has ended; number its log like the others."""
        for name, contract in zip(round_log.wiring.names, self.log.contracts):
            if contract.bound:
                bound = contract.bound.items()
                self.log.bound[name] = {key: short_repr(value) for key, value in bound}
        if round_log.growth is not None:
            self.log.unify(round_log)
        self._results = results

    def _add(self, result: RoundResult, kind: str) -> None:
        """Add a round that another process ran, and report it to the hooks."""
        log, round_log = self.log, result.log
        round_log.kind = kind
        if round_log.growth is None:
            round_log.wiring = log.wiring
        round_log.ran_on = [len(log.workers)] * len(round_log.ran_on)
        log.workers.append(result.worker)
        log.rounds.append(round_log)
        self._keep(round_log, result.results)
        if self._hooks.hooks:
            names = log.wiring.names
            for i in round_log.by_start():
                self._hooks.tell("task_started", names[i])
                error = result.results.errors.get(names[i])
                method = "task_finished" if error is None else "task_failed"
                self._hooks.tell(method, log.record(i, error))
        if round_log.complete:
            self._hooks.tell("round_finished", len(log.rounds) - 1)

    def run_once(self) -> RoundResult:
        """Run one measured round without hooks, in a process of its own."""
        self._run_round(MEASURED)
        return RoundResult(self.log.rounds[-1], self.log.workers[0], self._results)

    def _end(self) -> None:
        """Complete the log, make the profile, show it to the hooks, and close them."""
        self._total_up()
        failures = self._failures()
        if failures:
            name, error = next(iter(failures.items()))
            if name not in self._results.rule_failures:
                name = f"{'task' if self._results.errors else 'hook'} {short_repr(name)}"
            self.log.reason = f"{name} failed{self._where}: {describe(error)}"
        self.profile = self._profile()
        with suppress(HookError):
            self._hooks.tell("run_finished", self.profile)
        self._hooks.close()

    def _interrupt(self, cause: str) -> None:
        """End the run early; its profile is partial."""
        try:
            self._total_up()
        finally:
            self._hooks.close()
        self.log.reason = f"interrupted by {cause}"
        self.profile = self._profile()

    def _total_up(self) -> None:
        """Close the executor, enter the totals of the run, and release its tasks and inputs."""
        if self._ended:
            return
        self._ended = True
        log, costs, setup = self.log, self.log.costs, self.log.setup
        try:
            self._executor.close()
        finally:
            spent_s, costs.hooks_s = perf_counter() - setup.started_s, self._hooks.spent_s
            costs.total_s = costs.earlier_s + spent_s
            if not self._kind:
                costs.prepare_s = spent_s - costs.hooks_s
            # Neither tracebacks of failures nor the profile keep tasks and inputs alive.
            log.contracts = ()
            setup.given_inputs.clear()
            workflow = replace(setup.workflow, tasks=[], contracts=[], dynamic=None)
            options = replace(
                setup.options, inputs=None, executor=None, priorities=None, meters=None
            )
            log.setup = replace(setup, workflow=workflow, options=options)

    def _failures(self) -> dict[str, BaseException]:
        """Return all failures by name: tasks in the order of failure, then rules, then hooks."""
        failed = {**self._results.errors, **self._results.rule_failures}
        for place, error in self._hooks.failures:
            failed.setdefault(f"hook {place}" if place in self._results.errors else place, error)
        return failed

    def _profile(self) -> Profile:
        from dagprofiler.engine.sections import Tables

        log, setup = self.log, self.log.setup
        # The times of all rounds are by one clock now, and the executor is not needed any more.
        log.ahead_s = SerialExecutor.ahead_s
        order = [log.wiring.names[i] for i in log.wiring.order]
        returned = self._results.outputs
        outputs = {name: returned[name] for name in order if name in returned}
        final = outputs.get(order[-1], {}) if order else {}
        calibrations = asked_for
        if setup.is_repeated:
            from dagprofiler.measure.calibrate import calibration_of_process

            calibrations = [calibration_of_process(oldest_s=_CALIBRATED_S)]
        log.describe_environment(calibrations)
        if self._past is not None:
            self._past.finish(log)
        workflow, tables = setup.workflow, Tables(log)
        seed, name = setup.options.seed, workflow.name
        return Profile.from_run(tables, workflow.config, seed, outputs, final, name=name)


def kinds_of_rounds(log: RunLog, past: Past | None) -> Iterator[tuple[str, str]]:
    """Yield the kind of each round and its name for messages, until there are enough rounds."""
    setup, rounds = log.setup, log.setup.options.rounds
    for number in range(rounds.warmup or 0):
        kind, words = (WARM_UP, "warm-up") if number else (COLD, "cold")
        yield kind, f" in the {words} round"
    earlier: Sequence[str] = () if past is None else past.kinds
    since_s = perf_counter() - (0.0 if past is None else past.measured_s)
    of_how_many = "" if rounds.n == "auto" else f" of {rounds.n}"
    measured = 0
    while log.ended_by is None:
        measured += 1
        single = not (setup.is_repeated or setup.allocation)
        yield MEASURED, "" if single else f" in round {measured}{of_how_many}"
        log.ended_by = _enough(log, measured, perf_counter() - since_s, earlier)
    if setup.allocation:
        yield ALLOCATION, " in the allocation round"


def _enough(log: RunLog, measured: int, seconds: float, earlier: Sequence[str]) -> str | None:
    """Return why a number of measured rounds is enough; None if it is not.

    Parameters
    ----------
    seconds
        Time since the first of them began.
    earlier
        Kinds of the rounds that earlier attempts at the run began.
    """
    rounds = log.setup.options.rounds
    if rounds.n != "auto":
        return "n" if measured == rounds.n else None
    if measured < max(FEWEST_ROUNDS, earlier.count(MEASURED)):
        return None
    from dagprofiler.engine.sections import is_precise

    if is_precise(log, rounds.precision):
        return "precision"
    if measured >= rounds.max_rounds:
        return "max_rounds"
    if seconds >= rounds.max_time_s:
        return "max_time_s"
    # An earlier attempt had found them precise, since it began the allocation round.
    return "precision" if ALLOCATION in earlier else None


def _run_info(log: RunLog) -> RunInfo:
    """Return what hooks learn of a run that is about to start."""
    setup, workflow = log.setup, log.setup.workflow
    names = workflow.wiring.names
    return RunInfo(
        tasks=dict(zip(names, workflow.tasks)),
        execution_order=[names[i] for i in workflow.wiring.order],
        config=workflow.config,
        options=setup.options,
        inputs={names[i]: values for i, values in setup.given_inputs.items()},
        log=log,
    )


def _executor_of(setup: Setup) -> SerialExecutor | Dispatcher:
    """Return what runs the tasks."""
    options, config = setup.options, setup.workflow.config
    if options.executor is None:
        if options.seed is None:
            return SerialExecutor(config, None)
        from dagprofiler.measure.random import Streams

        return SerialExecutor(config, Streams(options.seed))
    from dagprofiler.executors.dispatch import Dispatcher

    return Dispatcher(options.executor, config=config, seed=options.seed, timeout_s=options.timeout)


def _run_once(
    workflow: Workflow, options: RunOptions, instruments: Instrumentation | None
) -> RoundResult:
    """Run one round of a run with these instruments; called in a process of its own."""
    setup = replace(prepare(workflow, options), instruments=instruments)
    return Run(setup, HookCalls([])).run_once()


def _other_threads_s() -> float:
    """Return the CPU time that this process has used, without this thread."""
    return process_time() - thread_time()
