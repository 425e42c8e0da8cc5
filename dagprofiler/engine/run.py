"""Run: all rounds of a run, from the first call of a hook to the profile.

:class:`Plan` says which rounds there are. Each is a :class:`Round`, whose ready loop asks a
:class:`Frontier` what to run next. :class:`ReadyQueue` is the frontier of a fixed graph. The
package `rules` has one for dynamic graphs, and `journal` one that wraps another and takes over
what previous attempts finished.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from itertools import chain, filterfalse
from operator import attrgetter
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from dagprofiler._document.rounds import ALLOCATION, COLD, MEASURED, MIN_ROUNDS, WARM_UP
from dagprofiler._util.interpreter import asked_for, owner, recording
from dagprofiler.config import Config
from dagprofiler.engine.hooks import NO_HOOKS, Hook, RunInfo, hooks_of
from dagprofiler.engine.log import Results, RoundLog, RunLog, environment
from dagprofiler.engine.options import RunOptions
from dagprofiler.engine.sections import Tables
from dagprofiler.errors import (
    GraphError,
    RunError,
    WorkerError,
    describe,
    frames_of,
    refused,
    short_repr,
)
from dagprofiler.executors.serial import SerialExecutor
from dagprofiler.graph.wiring import ReadyTasks, Wiring
from dagprofiler.measure.pipeline import Contract
from dagprofiler.measure.random import current_stream, generators_restored
from dagprofiler.profile import Profile
from dagprofiler.task import Task

if TYPE_CHECKING:
    from dagprofiler.engine.fresh import FreshRounds, Taken
    from dagprofiler.executors.dispatch import Dispatcher
    from dagprofiler.measure.instruments import Instrumentation


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
        The task numbers of each node of a schedule, in order.
    """

    def __init__(
        self,
        wiring: Wiring,
        ranked: Sequence[int] | None = None,
        orders: Sequence[Sequence[int]] = (),
    ) -> None:
        self.wiring = wiring
        self.pop: Callable[[], int | None]
        self.done: Callable[[int], None] | None = None
        self._ranked, self._orders = ranked, orders

    def begin(self, current: Round) -> None:
        """Prepare the two operations."""
        wiring = self.wiring
        if current.executor.serial:
            # Kahn's order, without the tasks that are skipped.
            left = filterfalse(current.log.skipped.__contains__, wiring.order)
            self.pop = partial(next, left, None)
            return
        ready = ReadyTasks(wiring.targets, wiring.first_target, self._ranked, self._orders)
        self.pop, self.done = ready.pop, ready.done

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


def is_traced(kind: str, instrumentation: Instrumentation | None) -> bool:
    """Tell whether the profile includes the spans of a round."""
    if kind == ALLOCATION:
        return False
    if instrumentation is not None and instrumentation.tracing is not None:
        return True
    return recording.enabled


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
        grows = wiring.grows
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
        ended = False
        # Spans are those of the tasks, not of a collection around the run.
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


class Plan:
    """The rounds of one run, one after the other.

    Parameters
    ----------
    options
        What was asked of the run.
    is_precise
        Tells whether the measured rounds so far reach a precision.
    allocation
        Whether a pass that counts allocations comes last.

    Attributes
    ----------
    single
        Whether there is only one round.
    ended_by
        What ended the measured rounds: ``"n"``, ``"precision"``,
        ``"max_rounds"`` or ``"max_time_s"``; None before that.
    """

    def __init__(
        self, options: RunOptions, is_precise: Callable[[float], bool], *, allocation: bool = False
    ) -> None:
        self.single = not options.several and not allocation
        self.ended_by: str | None = None
        self._rounds = options.rounds
        self._is_precise = is_precise
        self._allocation = allocation
        self._past: Sequence[str] = ()
        self._past_s = 0.0
        self._where = ""

    def resume(self, kinds: Sequence[str], seconds: float) -> None:
        """Continue the plan of previous attempts, which began rounds of these `kinds`.

        Parameters
        ----------
        seconds
            Time since the first measured one of these began, in seconds of running.
        """
        self._past = kinds
        self._past_s = seconds

    def __iter__(self) -> Iterator[str]:
        """Yield the kind of each round."""
        for taken in range(self._rounds.warmup or 0):
            self._where = f" in the {'warm-up' if taken else 'cold'} round"
            yield WARM_UP if taken else COLD
        begun, taken = perf_counter() - self._past_s, 0
        of_how_many = "" if self._rounds.n == "auto" else f" of {self._rounds.n}"
        while self.ended_by is None:
            taken += 1
            self._where = f" in round {taken}{of_how_many}"
            yield MEASURED
            self.ended_by = self._end(taken, perf_counter() - begun)
        if self._allocation:
            self._where = " in the allocation round"
            yield ALLOCATION

    def where(self) -> str:
        """Return the current round in words, after a space; "" for a single round."""
        return "" if self.single else self._where

    def _end(self, taken: int, seconds: float) -> str | None:
        """Return why `taken` measured rounds are enough; None if they are not."""
        rounds = self._rounds
        if rounds.n != "auto":
            return "n" if taken == rounds.n else None
        if taken < max(MIN_ROUNDS, self._past.count(MEASURED)):
            return None
        if self._is_precise(rounds.precision):
            return "precision"
        if taken >= rounds.max_rounds:
            return "max_rounds"
        if seconds >= rounds.max_time_s:
            return "max_time_s"
        # The earlier attempt found them precise: it had begun the allocation pass.
        return "precision" if ALLOCATION in self._past else None


class HookFailed(Exception):  # noqa: N818  (a signal, not an error of the library)
    """A hook raised, which ends the run; internal to the engine."""


class HookCalls:
    """Calls the hooks of one run.

    Parameters
    ----------
    hooks
        As for :meth:`DAG.run <dagprofiler.DAG.run>`.

    Attributes
    ----------
    hooks
        The hooks, in the order of their calls.
    failures
        ``Class.method`` to the error that it raised.
    spent_s
        Time spent in hooks, in seconds.
    """

    def __init__(self, hooks: Iterable[Hook] = NO_HOOKS) -> None:
        self.hooks = [] if hooks is NO_HOOKS else hooks_of(hooks)
        self.failures: dict[str, BaseException] = {}
        self.spent_s = 0.0

    def instruments(self) -> tuple[Any, Any]:
        """Return the store of outputs, and the settings of the Tracer; None if no hook has one."""
        if not self.hooks:
            return None, None
        tracing = self._only("tracing", "one Tracer records a run")
        if tracing is not None:
            from dagprofiler.tracing.functions import Tracing

            if not isinstance(tracing, Tracing):
                raise refused(
                    f"hooks: 'tracing' must be that of a Tracer, got {short_repr(tracing)}"
                )
        return self._only("store", "outputs can be stored in one place"), tracing

    def _only(self, attribute: str, why: str) -> Any:
        """Return an attribute that at most one of the hooks sets; None if none does."""
        values = [getattr(hook, attribute) for hook in self.hooks]
        values = [value for value in values if value is not None]
        if len(values) > 1:
            raise refused(f"hooks: {why}, got {len(values)}")
        return values[0] if values else None

    def tell(self, method: str, what: Any) -> None:
        """Call one method of all hooks, and add its time to theirs."""
        if not self.hooks:
            return
        begun = perf_counter()
        try:
            for hook in self.hooks:
                try:
                    getattr(hook, method)(what)
                except Exception as error:
                    self._note(hook, method, error)
                    raise HookFailed from error
        finally:
            self.spent_s += perf_counter() - begun

    def _note(self, hook: Hook, method: str, error: BaseException) -> None:
        """Add a failure under a unique key."""
        place = f"{type(hook).__name__}.{method}"
        same = sum(key.split(" ")[0] == place for key in self.failures)
        self.failures[f"{place} ({same + 1})" if same else place] = error

    def close(self) -> None:
        """Close all hooks, even if some raise."""
        interrupt = None
        for hook in self.hooks:
            try:
                hook.close()
            except Exception as error:  # noqa: BLE001  (the other hooks must be closed too)
                self._note(hook, "close", error)
            except BaseException as error:  # noqa: BLE001  (the same; Ctrl-C is raised below)
                interrupt = error
        if interrupt is not None:
            raise interrupt

    @contextmanager
    def closed_on_error(self) -> Generator[None]:
        """Close all hooks if the block raises."""
        try:
            yield
        except BaseException:
            self.close()
            raise


#: The age of a calibration from which on rounds take it anew, in seconds.
_CALIBRATED_S = 10.0


class Run:
    """One run of a valid DAG: all its rounds.

    Parameters
    ----------
    log
        The log of the run; it also holds the graph.
    work
        What each round executes.
    options
        What was asked of the run.
    plan
        The rounds to run.
    hooks
        Observers of the run.
    elsewhere
        Runs a round in another process; None for rounds in this one.
    """

    def __init__(
        self,
        log: RunLog,
        work: Workload,
        options: RunOptions,
        plan: Plan,
        hooks: HookCalls,
        elsewhere: FreshRounds | None,
    ) -> None:
        self._log = log
        self._work = work
        self._options = options
        self._plan = plan
        self._hooks = hooks
        self._elsewhere = elsewhere
        #: Of the last round; names of tasks that failed, before the round's tasks are renumbered.
        self._results = Results()
        self._failed: dict[str, BaseException] = {}
        #: When the first round began, and what hooks had taken by then.
        self._begun: float | None = None
        self._hooks_before = 0.0
        self.profile: Profile

    @property
    def complete_rounds(self) -> int:
        """The number of rounds in which every task has succeeded."""
        return sum(round_log.complete for round_log in self._log.rounds)

    def execute(self) -> Profile:
        """Run all rounds and return the profile; raise as :meth:`steps`."""
        with ExitStack() as conditions:
            cores = self._options.rounds.busy_cores
            if cores:
                from dagprofiler.measure.busy import busy

                with self._hooks.closed_on_error():
                    conditions.enter_context(busy(cores))
            for _ in self.steps():
                pass
        return self.profile

    def steps(self) -> Generator[None]:
        """Run one round a step; :attr:`profile` is available after the last one, or an error.

        If it is closed between two of them, another run ended the turns of both.

        Raises
        ------
        RunError
            If a task or a hook failed; it holds the partial profile.
        """
        log = self._log
        try:
            try:
                try:
                    with suppress(HookFailed):
                        self._announce()
                        for kind in self._plan:
                            if log.rounds:
                                yield
                            self._take(kind)
                            if self._failed or self._results.rule_failures:
                                break
                finally:
                    self._settle()
                self.profile = profile = self._profile()
                with suppress(HookFailed):
                    self._hooks.tell("run_finished", profile)
            finally:
                self._hooks.close()
        except BaseException as error:
            # Ctrl-C and the like are raised again, with the partial profile.
            cause, where = describe(error), self._plan.where()
            if isinstance(error, GeneratorExit) and log.rounds[-1].complete:
                cause, where = "the end of another run", where.replace(" in", " before", 1)
            log.reason = f"interrupted by {cause}{where}"
            with suppress(AttributeError):
                self.profile = error.profile = self._profile()  # type: ignore[attr-defined]
            raise
        failures = self._failures()
        if failures:
            failed_task = next(iter(self._failed), None)
            raise RunError(failed_task, failures, profile) from next(iter(failures.values()))

    def alone(self) -> Taken:
        """Run the only round of a process of its own."""
        from dagprofiler.engine.fresh import Taken

        with suppress(RunError):
            for _ in self.steps():
                pass
        return Taken(self._log.rounds[-1], self._log.workers[0], self._results)

    def _settle(self) -> None:
        """Compute the totals of the run, which are final after this."""
        log = self._log
        self._work.executor.close()
        log.ended_by = self._plan.ended_by
        log.total_s = perf_counter() - log.started
        log.hooks_s = self._hooks.spent_s
        if self._begun is None:
            log.prepare_s = log.total_s - log.earlier_s - log.hooks_s
        else:
            log.prepare_s = self._begun - log.started - log.earlier_s - self._hooks_before
        for name, error in self._failures().items():
            rules = self._results.rule_failures
            kind = "task" if self._failed else "rule" if rules else "hook"
            what = name if kind == "rule" else f"{kind} {short_repr(name)}"
            log.reason = f"{what} failed{self._plan.where()}: {describe(error)}"
            break
        # Tracebacks of failures keep this object alive; release its values.
        self._work.outside.clear()

    def _failures(self) -> dict[str, BaseException]:
        """Return the failures: tasks in the order of failure, then rules, then hooks."""
        failed = {**self._failed, **self._results.rule_failures}
        for place, error in self._hooks.failures.items():
            failed[f"hook {place}" if place in failed else place] = error
        return failed

    def _announce(self) -> None:
        """Call ``run_started`` of the hooks."""
        if self._hooks.hooks:
            work, wiring = self._work, self._log.wiring
            names = wiring.names
            run = RunInfo(
                tasks=dict(zip(names, work.tasks)),
                execution_order=[names[i] for i in wiring.order],
                config=work.config,
                options=self._options,
                inputs={names[i]: fields for i, fields in work.outside.items()},
                rules=work.rules,
                log=self._log,
                contracts=work.contracts,
            )
            self._hooks.tell("run_started", run)

    def _take(self, kind: str) -> None:
        """Run the whole DAG once, here or elsewhere."""
        log = self._log
        if self._begun is None:
            self._begun, self._hooks_before = perf_counter(), self._hooks.spent_s
        # The last round's outputs are no longer needed, only its measurements.
        self._results = Results()
        if self._options.collects:
            begun = perf_counter()
            gc.collect()
            log.garbage_s += perf_counter() - begun
        if self._elsewhere is not None and kind is not ALLOCATION:
            self._adopt(self._elsewhere.take(), kind)
            return
        frontier = self._work.frontier(len(log.rounds))
        log.wiring = frontier.wiring
        single = self._plan.single
        current = Round(log, self._work, self._options, self._hooks, kind, frontier, single=single)
        self._results, log.contracts = current.results, current.contracts
        seeded = self._options.seed is not None
        # A run inside a task does not continue the stream of that task.
        outer = current_stream.set(None)
        try:
            with generators_restored() if seeded else nullcontext():
                current.take()
        finally:
            current_stream.reset(outer)
            log.contracts = ()
            self._conclude(current.log, current.contracts)
        succeeded = current.log.complete and not self._results.rule_failures
        # A round that a previous attempt has completed is known to hooks.
        if succeeded and current.log.ended_s is None:
            current.log.ended_s = perf_counter()
            self._hooks.tell("round_finished", len(log.rounds) - 1)

    def _conclude(self, round_log: RoundLog, contracts: Sequence[Contract]) -> None:
        """Keep what a round that has ended leaves behind, numbered as in the rounds before it."""
        names, results = round_log.wiring.names, self._results
        self._failed = {names[i]: error for i, error in results.errors.items()}
        if any(map(attrgetter("bound"), contracts)):
            self._log.bound.update(
                (name, {key: short_repr(value) for key, value in contract.bound.items()})
                for name, contract in zip(names, contracts)
                if contract.bound
            )
        if round_log.growth is None:
            return
        try:
            numbers = self._log.settle(round_log)
        except GraphError:
            results.outputs = {}
            raise
        if numbers is not None:
            results.renumber(numbers)

    def _adopt(self, taken: Taken, kind: str) -> None:
        """Add a round that another process ran, and report it to the hooks."""
        round_log = self._log.adopt(kind, taken.log, taken.worker)
        self._results = taken.results
        if not is_traced(kind, self._work.instrumentation):
            round_log.spans.clear()
        self._conclude(round_log, self._work.contracts)
        if self._hooks.hooks:
            names = self._log.wiring.names
            for i in round_log.by_start():
                self._hooks.tell("task_started", names[i])
                error = taken.results.errors.get(i)
                method = "task_finished" if error is None else "task_failed"
                self._hooks.tell(method, self._log.record(round_log, i, error))
        if round_log.complete:
            self._hooks.tell("round_finished", len(self._log.rounds) - 1)

    def _profile(self) -> Profile:
        log, work = self._log, self._work
        log.end()
        several = self._options.several
        log.environment = environment(thorough=several)
        calibrations = asked_for
        if several:
            from dagprofiler.measure.calibrate import calibration_of_process

            calibrations = [calibration_of_process(oldest_s=_CALIBRATED_S)]
        for calibration in calibrations:
            log.environment["calibration"] = calibration.to_dict()
        for round_log in log.rounds:
            # Of the processes that computed.
            log.environment["versions"].update(round_log.versions)
        if work.conclude is not None:
            work.conclude(log)
        names, outputs = log.wiring.names, self._results.outputs
        order = [i for i in log.wiring.order if i in outputs]
        last = log.wiring.order[-1:]
        return Profile.from_run(
            Tables(log),
            work.config,
            self._options.seed,
            name=log.name,
            outputs={names[i]: outputs[i] for i in order},
            final_outputs=outputs.get(last[0], {}) if last else {},
        )
