"""The run loop that executes every run."""

from __future__ import annotations

import gc
from contextlib import suppress
from functools import partial
from itertools import chain, filterfalse, islice, repeat
from time import perf_counter
from typing import TYPE_CHECKING, Any

from dagprofiler._document.rounds import ALLOCATION
from dagprofiler._util.interpreter import asked_for, recording, sink
from dagprofiler.engine.hooks import RunInfo
from dagprofiler.engine.log import Growth, rekeyed
from dagprofiler.engine.sections import Tables
from dagprofiler.errors import (
    GraphError,
    RunError,
    WorkerError,
    describe,
    frames_of,
    short_repr,
)
from dagprofiler.graph.wiring import GrowableWiring, ready_queue, ready_queue_by
from dagprofiler.measure.machine import environment
from dagprofiler.measure.random import generators_restored
from dagprofiler.profile import Profile

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence

    from dagprofiler._document.rounds import Plan
    from dagprofiler.config import Config
    from dagprofiler.engine.fresh import FreshRounds, Taken
    from dagprofiler.engine.frontier import EarlierAttempts, EarlierRound, GrowingRound, GrowsGraph
    from dagprofiler.engine.hooks import Hook
    from dagprofiler.engine.log import RoundLog, RunLog
    from dagprofiler.executors.dispatch import Dispatcher
    from dagprofiler.executors.serial import SerialExecutor
    from dagprofiler.measure.instruments import Instrumentation
    from dagprofiler.measure.pipeline import Codec, Contract
    from dagprofiler.task import Task


#: The age of a calibration from which on rounds take it anew, in seconds.
_CALIBRATED_S = 10.0


class _HookFailed(Exception):  # noqa: N818  (a signal, not an error of the library)
    """A hook raised, which ends the run; internal to this module."""


def close_hooks(hooks: Sequence[Hook], failures: dict[str, BaseException]) -> None:
    """Close all hooks, even if some raise; add their errors to `failures`."""
    interrupt = None
    for hook in hooks:
        try:
            hook.close()
        except Exception as error:  # noqa: BLE001  (the other hooks must be closed too)
            _note(failures, hook, "close", error)
        except BaseException as error:  # noqa: BLE001  (the same; Ctrl-C is raised below)
            interrupt = error
    if interrupt is not None:
        raise interrupt


def _note(
    failures: dict[str, BaseException], hook: Hook, method: str, error: BaseException
) -> None:
    """Add the failure of a hook under a unique key."""
    place = f"{type(hook).__name__}.{method}"
    same = sum(key.split(" ")[0] == place for key in failures)
    failures[f"{place} ({same + 1})" if same else place] = error


class Run:
    """One run of a valid DAG: all its rounds.

    Parameters
    ----------
    log
        The log of the run; it also holds the graph.
    tasks, contracts
        For each task number the task and its contract.
    plan
        The rounds to run.
    executor
        Runs the tasks.
    instrumentation
        Measurements in addition to the phases; None for none.
    outside
        Task number to its inputs from outside the graph, serialized.
    keep
        Numbers of the tasks whose outputs are returned in addition to those of exit tasks.
    grows
        Creates the rounds of a dynamic graph; None for a fixed graph.
    elsewhere
        Runs a round in another process; None for rounds in this one.
    ranked
        All task numbers by decreasing priority: of several ready tasks, the
        first one starts first. None for Kahn's order.
    asked
        Further arguments of the run, passed to hooks.
    past
        The state that previous attempts at this run recorded; None without any.
    """

    def __init__(
        self,
        log: RunLog,
        tasks: Sequence[Task],
        contracts: Sequence[Contract],
        *,
        config: Config,
        plan: Plan,
        executor: SerialExecutor | Dispatcher,
        instrumentation: Instrumentation | None,
        seed: int | None,
        outside: dict[int, dict[str, Any]],
        keep: set[int],
        hooks: Sequence[Hook],
        stop_on_error: bool,
        grows: GrowsGraph | None,
        elsewhere: FreshRounds | None,
        ranked: Sequence[int] | None,
        asked: Mapping[str, Any],
        past: EarlierAttempts | None,
    ) -> None:
        self._log = log
        self._wiring = log.wiring
        self._tasks = self._given_tasks = tasks
        self._contracts = self._given_contracts = contracts
        self._given_estimates = log.estimates
        self._config = config
        self._plan = plan
        self._executor = executor
        self._instrumentation = instrumentation
        self._seed = seed
        self._outside = outside
        self._keep = keep
        self._hooks = hooks
        self._stop_on_error = stop_on_error
        self._grows = grows
        self._growing: GrowingRound | None = None
        self._given = log.wiring
        self._elsewhere = elsewhere
        self._ranked = ranked
        self._asked = asked
        self._past = past
        #: Tasks of this round that a previous attempt has finished.
        self._finished: set[int] = set()
        self._stopped = False
        self._round: RoundLog
        #: For each slot the executor's handle of its value, while it is needed.
        self._handles: list[Any] = []
        self._uses: list[int] = []
        #: Whether the outputs of each task are returned to this process.
        self._kept: list[bool] = []
        self._outputs: dict[int, Mapping[str, Any]] = {}
        self._errors: dict[int, BaseException] = {}
        self._rule_failures: dict[str, BaseException] = {}
        self._hook_failures: dict[str, BaseException] = {}
        self._hooks_s = self._hooks_before = 0.0
        #: Reading of the clock from which the time of this round counts.
        self._since_s = 0.0
        self._begun: float | None = None

    def execute(self) -> Profile:
        """Run all rounds and return the profile; raise as :meth:`steps`."""
        for _ in self.steps():
            pass
        return self.profile

    def steps(self) -> Generator[None]:
        """Run one round a step; :attr:`profile` is available after the last one.

        Raises
        ------
        RunError
            If a task or a hook failed; it holds the partial profile.
        """
        log = self._log
        try:
            try:
                try:
                    with suppress(_HookFailed):
                        self._announce()
                        for kind in self._plan:
                            self._take(kind)
                            if self._errors or self._rule_failures:
                                break
                            yield
                finally:
                    self._settle()
                profile = self._profile()
                with suppress(_HookFailed):
                    self._tell("run_finished", profile)
            finally:
                close_hooks(self._hooks, self._hook_failures)
        except BaseException as error:
            # Ctrl-C and the like are raised again, with the partial profile.
            log.reason = f"interrupted by {describe(error)}{self._plan.where()}"
            with suppress(AttributeError):
                error.profile = self._profile()  # type: ignore[attr-defined]
            raise
        failures = self._failures()
        if failures:
            failed_task = next((self._wiring.names[i] for i in self._errors), None)
            raise RunError(failed_task, failures, profile) from next(iter(failures.values()))
        self.profile = profile

    def alone(self) -> Taken:
        """Run all rounds of a process of their own; return the last one."""
        from dagprofiler.engine.fresh import Taken

        with suppress(RunError):
            self.execute()
        return Taken(
            self._log.rounds[-1],
            self._log.workers[0],
            self._outputs,
            self._errors,
            self._rule_failures,
        )

    def _settle(self) -> None:
        """Compute the totals of the run, which are final after this."""
        log = self._log
        self._executor.close()
        log.ended_by = self._plan.ended_by
        log.total_s = perf_counter() - log.started
        log.hooks_s = self._hooks_s
        if self._begun is None:
            log.prepare_s = log.total_s - log.earlier_s - log.hooks_s
        else:
            log.prepare_s = self._begun - log.started - log.earlier_s - self._hooks_before
        for name, error in self._failures().items():
            kind = "task" if self._errors else "rule" if self._rule_failures else "hook"
            what = name if kind == "rule" else f"{kind} {name!r}"
            log.reason = f"{what} failed{self._plan.where()}: {describe(error)}"
            break
        # Tracebacks of failures keep this object alive; release its values.
        self._handles.clear()
        self._outside.clear()

    def _failures(self) -> dict[str, BaseException]:
        """Return the failures: tasks in the order of failure, then rules, then hooks."""
        failed = {self._wiring.names[i]: error for i, error in self._errors.items()}
        failed.update(self._rule_failures)
        for place, error in self._hook_failures.items():
            failed[f"hook {place}" if place in failed else place] = error
        return failed

    def _announce(self) -> None:
        """Call ``run_started`` of the hooks."""
        if self._hooks:
            names = self._wiring.names
            run = RunInfo(
                tasks=dict(zip(names, self._tasks)),
                execution_order=[names[i] for i in self._wiring.order],
                config=self._config,
                seed=self._seed,
                inputs={names[i]: fields for i, fields in self._outside.items()},
                asked=self._asked,
                log=self._log,
                contracts=self._contracts,
            )
            self._tell("run_started", run)

    def _take(self, kind: str) -> None:
        """Run the whole DAG once, here or elsewhere."""
        log = self._log
        if self._begun is None:
            self._begun, self._hooks_before = perf_counter(), self._hooks_s
        # The last round's outputs are no longer needed, only its measurements.
        self._outputs, self._finished = {}, set()
        past = None if self._past is None else self._past.of_round(len(log.rounds))
        if past is not None and past.complete and self._grows is None:
            self._round = log.begin(kind, past.columns)
            self._take_over(past)
            return
        if self._plan.rounds.collects:
            begun = perf_counter()
            gc.collect()
            log.garbage_s += perf_counter() - begun
        if self._elsewhere is not None and kind is not ALLOCATION:
            self._adopt(self._elsewhere.take(), kind)
            return
        self._prepare(kind)
        with generators_restored(self._seed):
            self._take_here(past)
        round_log = self._round
        if round_log.complete and not self._rule_failures and round_log.ended_s is None:
            round_log.ended_s = perf_counter()
            self._tell("round_finished", len(log.rounds) - 1)

    def _prepare(self, kind: str) -> None:
        """Prepare the state of a round in this process."""
        instruments, log = self._instrumentation, self._log
        if kind is ALLOCATION:
            from dagprofiler.measure.instruments import COUNT_ALLOCATIONS

            store = None if instruments is None else instruments.store
            instruments = COUNT_ALLOCATIONS._replace(store=store)
        growth = None if self._grows is None else self._begin_anew()
        self._round = log.begin(kind, instruments.columns if instruments else [])
        self._round.growth = growth
        self._executor.begin(instruments, self._wiring)
        self._handles = [None] * len(self._wiring.uses)
        # The wiring of a dynamic graph is new in each round, and its list grows with it.
        self._uses = self._wiring.uses if self._grows else list(self._wiring.uses)
        self._kept = [False] * len(self._wiring.names)
        # The exit tasks, and those in `keep`.
        for i in chain(self._wiring.sinks, self._keep):
            self._kept[i] = True

    def _take_here(self, past: EarlierRound | None) -> None:
        round_log = self._round
        round_log.started_s = perf_counter()
        if past is not None:
            if self._grows is None:
                self._take_over(past)
            else:
                past.begin(round_log, self._log)
        # Previous attempts recorded their total, and the costs to leave out of it.
        self._since_s = round_log.started_s if past is None else perf_counter() - round_log.total_s
        self._since_s -= self._apart_s()
        token = None
        try:
            if recording.tracing is not None:
                token = sink.set(recording.tracing.place())
            self._loop(past)
            if self._growing is not None:
                self._conclude(self._growing, past)
        finally:
            if token is not None:
                sink.reset(token)
            if self._growing is not None:
                self._growing.finish()
            total_s = self._total_s()
            if past is not None and self._grows is not None:
                past.end(round_log, self._log)
            if past is None or not past.complete:
                round_log.conclude(self._executor.end())
                round_log.total_s = total_s
            self._settle_growth()

    def _total_s(self) -> float:
        """Return the time that this round has taken so far, in seconds."""
        return perf_counter() - self._since_s - self._apart_s()

    def _apart_s(self) -> float:
        """Return the time of hooks and of measuring in this process so far, in seconds."""
        return self._hooks_s + (self._round.aside_s if self._executor.serial else 0.0)

    def _take_over(self, past: EarlierRound) -> None:
        """Enter the tasks of this round that previous attempts finished."""
        wiring, executor, log = self._wiring, self._executor, self._log
        names = wiring.names
        past.check_all(set(names))
        self._finished = {i for i, name in enumerate(names) if name in past.records}
        past.begin(self._round, log)
        for i in sorted(self._finished):
            past.take_over(self._round, log, i, executor.recall)
        past.end(self._round, log)
        if past.complete:
            # Only the outputs that the profile returns are needed, those of the last round.
            wanted = self._finished if past.is_last else set()
            waiting: set[int] = set()
        else:
            wanted = waiting = self._finished
        for i in waiting:
            for _, slot in wiring.feeds(i):
                self._uses[slot] -= 1
        for i in waiting:
            for slot, field in enumerate(wiring.outputs[i], wiring.first_slot[i]):
                if self._uses[slot]:
                    self._handles[slot] = executor.put(past.frames(names[i], field))
        for i in wanted.intersection([*wiring.sinks, *self._keep]):
            self._outputs[i] = self._outputs_then(past, i)

    def _outputs_then(self, past: EarlierRound, i: int) -> dict[str, Any]:
        name, decode = self._wiring.names[i], self._contracts[i].decode
        return {field: past.value(name, field, decode) for field in past.fields(name)}

    def _recall(self, past: EarlierRound, i: int) -> bool:
        """Enter a task of a dynamic graph, if a previous attempt has finished it."""
        wiring, uses, handles = self._wiring, self._uses, self._handles
        name = wiring.names[i]
        if name not in past.records:
            return False
        past.take_over(self._round, self._log, i, self._executor.recall)
        self._finished.add(i)
        for _, slot in wiring.feeds(i):
            uses[slot] -= 1
            if not uses[slot]:
                handles[slot] = None
        for slot, field in enumerate(wiring.outputs[i], wiring.first_slot[i]):
            if uses[slot]:
                handles[slot] = self._executor.put(past.frames(name, field))
        if self._kept[i]:
            self._outputs[i] = self._outputs_then(past, i)
        return True

    def _conclude(self, growing: GrowingRound, past: EarlierRound | None) -> None:
        """Check that the graph has all recorded tasks, and check the rules that did not fire."""
        if past is not None and not (self._errors or self._rule_failures):
            past.check_all({self._wiring.names[i] for i in self._finished})
        growing.conclude()

    def _begin_anew(self) -> Growth:
        """Return the growth of a round, which begins with the initial graph."""
        log = self._log
        self._wiring = log.wiring = wiring = GrowableWiring(self._given)
        self._tasks, self._contracts = [*self._given_tasks], [*self._given_contracts]
        log.estimates = dict(self._given_estimates)
        return Growth(log.estimates, [0.0] * len(wiring.names))

    def _settle_growth(self) -> None:
        """Give all results of this round the numbers that tasks have in the first one."""
        if self._grows is None:
            return
        try:
            numbers = self._log.settle(self._round)
        except GraphError:
            self._outputs = {}
            raise
        finally:
            self._wiring = self._log.wiring
        if numbers is not None:
            self._outputs = rekeyed(self._outputs, numbers)
            self._errors = rekeyed(self._errors, numbers)

    def _rule_failed(self, name: str, error: Exception) -> bool:
        """Record that a rule failed; return whether no new task may start."""
        self._rule_failures[f"rule {name!r}"] = error
        self._stopped = self._stopped or self._stop_on_error
        return self._stopped

    def _traces(self, kind: str) -> bool:
        """Tell whether the profile includes the spans of a round."""
        if kind == ALLOCATION:
            return False
        asked = self._instrumentation is not None and self._instrumentation.tracing is not None
        return asked or not recording.off

    def _adopt(self, taken: Taken, kind: str) -> None:
        """Add a round that another process ran, and report it to the hooks."""
        self._round = self._log.adopt(kind, taken.round, taken.worker)
        self._errors, self._outputs = taken.errors, taken.outputs
        self._rule_failures = taken.rule_failures
        if not self._traces(kind):
            self._round.spans.clear()
        self._settle_growth()
        if self._hooks:
            names = self._wiring.names
            for i in taken.round.by_start():
                self._tell("task_started", names[i])
                error = self._errors.get(i)
                method = "task_finished" if error is None else "task_failed"
                self._tell(method, self._log.record(taken.round, i, error))
        if taken.round.complete:
            self._tell("round_finished", len(self._log.rounds) - 1)

    def _loop(self, past: EarlierRound | None) -> None:  # noqa: C901, PLR0912, PLR0915  (hot: a helper call in it counts)
        log, wiring, executor, entry = self._log, self._wiring, self._executor, self._round
        hooks, handles, uses = self._hooks, self._handles, self._uses
        outputs_of, first_slot = wiring.outputs, wiring.first_slot
        times, ran_on = entry.times, entry.ran_on
        payload_bytes, wire_bytes = entry.payload_bytes, entry.wire_bytes
        submit, next_done, work = executor.submit, executor.next, self._works()
        pop, done = self._schedule(past)
        traced = self._traces(entry.kind)
        running = 0
        while True:
            # The capacity changes as workers join and leave.
            capacity = executor.capacity
            while running < capacity and not self._stopped:
                ready = pop()
                if ready is None:
                    break
                if hooks:
                    self._tell("task_started", wiring.names[ready])
                todo, frames = work(ready)
                submit(ready, todo, frames)
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
                self._outputs[i] = outputs
                del outputs
            if hooks:
                entry.total_s = self._total_s()
                self._tell("task_finished", log.record(entry, i))
            if done is not None:
                done(i)

    def _schedule(
        self, past: EarlierRound | None
    ) -> tuple[Callable[[], int | None], Callable[[int], None] | None]:
        """Return two functions: one returns ready tasks, the other, if any, marks them as done."""
        wiring = self._wiring
        if self._grows is not None:
            self._growing = self._grows.begin(
                log=self._round,
                tasks=self._tasks,
                contracts=self._contracts,
                keep=self._kept,
                handles=self._handles,
                uses=self._uses,
                outputs=self._outputs,
                executor=self._executor,
                asked=frozenset(self._asked["keep"]),
                fail=self._rule_failed,
                added_s=None if past is None else partial(past.added_s, self._log),
            )
            self._growing.start()
            return self._growing_pop(self._growing, past), self._growing.done
        finished = self._finished
        if not self._executor.serial:
            graph = wiring.targets, wiring.first_target
            ranked = self._ranked
            pop, done = ready_queue(*graph) if ranked is None else ready_queue_by(ranked, *graph)

            def pop_unfinished() -> int | None:
                number = pop()
                while number in finished:
                    done(number)
                    number = pop()
                return number

            return (pop_unfinished if finished else pop), done
        # A serial run follows Kahn's order, without the tasks that are skipped.
        left = filterfalse(self._round.skipped.__contains__, wiring.order)
        return partial(next, filterfalse(finished.__contains__, left), None), None

    def _growing_pop(
        self, growing: GrowingRound, past: EarlierRound | None
    ) -> Callable[[], int | None]:
        if past is None:
            return growing.pop
        then: EarlierRound = past

        def pop() -> int | None:
            number = growing.pop()
            # Rules are evaluated after recorded tasks, as after tasks that ran.
            while number is not None and self._recall(then, number):
                growing.done(number)
                number = growing.pop()
            return number

        return pop

    def _works(self) -> Callable[[int], tuple[tuple[Any, ...], list[Any]]]:
        """Return a function that returns a task's Work, and the handles of its inputs.

        A closure, as :func:`~dagprofiler.graph.wiring.ready_queue`: it runs once a task.
        """
        wiring, tasks, contracts, config = self._wiring, self._tasks, self._contracts, self._config
        names, inputs, slots = wiring.names, wiring.inputs, wiring.slots
        executor = self._executor
        first_input = wiring.first_input
        handles, uses, keep = self._handles, self._uses, self._kept
        # Each task removes its inputs; another round needs them again.
        outside = self._outside if self._plan.single else dict(self._outside)
        # The decoder of every slot, if all tasks have the same one.
        every_decoder = None
        if self._grows is None and len({contract.decode for contract in contracts}) == 1:
            every_decoder = repeat(contracts[0].decode)

        def work(i: int) -> tuple[tuple[Any, ...], list[Any]]:
            task, contract = tasks[i], contracts[i]
            task.config = config
            begin, end = first_input[i], first_input[i + 1]
            fields, frames = inputs[begin:end], []
            for slot in slots[begin:end]:
                frames.append(handles[slot])
                uses[slot] = left = uses[slot] - 1
                if not left:
                    handles[slot] = None
            decoders: Iterable[Codec] = every_decoder or [
                contracts[wiring.owner[slot]].decode for slot in slots[begin:end]
            ]
            if outside and i in outside:
                extra = outside.pop(i)
                decoders = [*islice(decoders, len(fields)), *[contract.decode] * len(extra)]
                fields += extra
                frames += map(executor.put, extra.values())
                gathers = [field for field in contract.gathers if field not in extra]
                contract = contract._replace(gathers=gathers)
            return (names[i], task, contract, fields, decoders, keep[i]), frames

        return work

    def _strand(self, i: int | None) -> None:
        """Fail a task that no worker can run, unless the run is over or fails anyway."""
        if i is not None and not self._errors:
            name = self._wiring.names[i]
            self._round.ran_on[i] = -1
            self._fail(i, WorkerError(name, [], "there is no worker to take it"))

    def _fail(self, i: int, error: BaseException) -> None:
        """Record that task number `i` failed, and skip the tasks that depend on it.

        An error that is no Exception, such as Ctrl-C, is raised and ends the run.
        """
        entry, wiring = self._round, self._wiring
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
                    for _, slot in wiring.feeds(target):
                        self._uses[slot] -= 1
                        if not self._uses[slot]:
                            self._handles[slot] = None
        if not isinstance(error, Exception):
            raise error
        self._errors[i] = error
        if self._stop_on_error:
            self._stopped = True
        if self._growing is not None:
            self._growing.failed(i, skipped, stops=self._stopped)
        self._tell("task_failed", self._log.record(entry, i, error))

    def _tell(self, method: str, what: Any) -> None:
        """Call one method of all hooks, and add its time to theirs."""
        if not self._hooks:
            return
        begun = perf_counter()
        try:
            for hook in self._hooks:
                try:
                    getattr(hook, method)(what)
                except Exception as error:
                    _note(self._hook_failures, hook, method, error)
                    raise _HookFailed from error
        finally:
            self._hooks_s += perf_counter() - begun

    def _profile(self) -> Profile:
        self._log.end()
        several = self._plan.rounds.several
        self._log.environment = environment(thorough=several)
        calibrations = asked_for
        if several:
            from dagprofiler.measure.calibrate import calibration_of_process

            calibrations = [calibration_of_process(oldest_s=_CALIBRATED_S)]
        for calibration in calibrations:
            self._log.environment["calibration"] = calibration.to_dict()
        if self._past is not None:
            self._past.conclude(self._log)
        names, outputs = self._wiring.names, self._outputs
        self._log.bound = {
            name: {key: short_repr(value) for key, value in contract.bound.items()}
            for name, contract in zip(names, self._contracts)
            if contract.bound
        }
        order = [i for i in self._wiring.order if i in outputs]
        last = self._wiring.order[-1:]
        return Profile.from_run(
            Tables(self._log),
            self._config,
            self._seed,
            self._log.timestamp,
            name=self._log.name,
            outputs={names[i]: outputs[i] for i in order},
            final_outputs=outputs.get(last[0], {}) if last else {},
        )
