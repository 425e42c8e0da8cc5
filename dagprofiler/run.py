"""The ready-loop: the one way through which every run goes."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from itertools import chain, filterfalse, islice, repeat
from time import perf_counter
from typing import TYPE_CHECKING, Any

from dagprofiler.errors import RunError, describe
from dagprofiler.graph import readiness
from dagprofiler.hooks import RunInfo
from dagprofiler.machine import environment
from dagprofiler.profile import Profile
from dagprofiler.seeding import generators_restored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from dagprofiler.config import Config
    from dagprofiler.executors.serial import SerialExecutor
    from dagprofiler.hooks import Hook
    from dagprofiler.pipeline import Codec, Contract
    from dagprofiler.records import RunLog
    from dagprofiler.task import Task

__all__ = ["Run", "close_hooks"]


class _HookFailed(Exception):  # noqa: N818  (a signal, not an error of the library)
    """A hook raised, which ends the run. Never leaves this module."""


def close_hooks(hooks: Sequence[Hook], failures: dict[str, BaseException]) -> None:
    """Close all hooks, whatever comes of it; add what fails to `failures`."""
    interrupt = None
    for hook in hooks:
        try:
            hook.close()
        except Exception as error:  # noqa: BLE001  (the other hooks have to be closed too)
            _note(failures, hook, "close", error)
        except BaseException as error:  # noqa: BLE001  (the same; Ctrl-C goes on below)
            interrupt = error
    if interrupt is not None:
        raise interrupt


def _note(
    failures: dict[str, BaseException], hook: Hook, method: str, error: BaseException
) -> None:
    """Add the failure of a hook, under a key of its own."""
    place = f"{type(hook).__name__}.{method}"
    same = sum(key.split(" ")[0] == place for key in failures)
    failures[f"{place} ({same + 1})" if same else place] = error


class Run:
    """One run of a DAG that has been found valid.

    Parameters
    ----------
    log
        Where readings go; it also knows the graph.
    tasks, contracts
        For each task number the task, and what it declares.
    outside
        Task number to the fields that are fed from outside the graph,
        serialized; taken out when they are used.
    keep
        Numbers of the tasks whose outputs are wanted beside those of the sinks.
    """

    def __init__(
        self,
        log: RunLog,
        tasks: Sequence[Task],
        contracts: Sequence[Contract],
        *,
        config: Config,
        executor: SerialExecutor,
        seed: int | None,
        outside: dict[int, dict[str, Any]],
        keep: set[int],
        hooks: Sequence[Hook],
        stop_on_error: bool,
    ) -> None:
        self._log = log
        self._wiring = log.wiring
        self._tasks = tasks
        self._contracts = contracts
        self._config = config
        self._executor = executor
        self._seed = seed
        self._outside = outside
        self._keep = keep
        self._hooks = hooks
        self._stop_on_error = stop_on_error
        self._stopped = False
        #: What stands in each slot, as a handle of the executor, while somebody needs it.
        self._handles: list[Any] = [None] * len(log.wiring.uses)
        self._uses = list(log.wiring.uses)
        self._outputs: dict[int, Mapping[str, Any]] = {}
        self._errors: dict[int, BaseException] = {}
        self._hook_failures: dict[str, BaseException] = {}
        self._hooks_s = self._hooks_before = 0.0
        self._begun: float | None = None

    def execute(self) -> Profile:
        """Run all tasks and return the profile.

        Raises
        ------
        RunError
            If a task or a hook failed; it holds the partial profile.
        """
        log = self._log
        try:
            try:
                try:
                    with suppress(_HookFailed), generators_restored(self._seed):
                        self._announce()
                        self._loop()
                finally:
                    self._settle()
                profile = self._profile()
                with suppress(_HookFailed):
                    self._tell("run_finished", profile)
            finally:
                close_hooks(self._hooks, self._hook_failures)
        except BaseException as error:
            # Ctrl-C and the like pass through, and take along what was measured.
            log.reason = f"interrupted by {describe(error)}"
            with suppress(AttributeError):
                error.profile = self._profile()  # type: ignore[attr-defined]
            raise
        failures = self._failures()
        if failures:
            failed_task = next((self._wiring.names[i] for i in self._errors), None)
            raise RunError(failed_task, failures, profile) from next(iter(failures.values()))
        return profile

    def _settle(self) -> None:
        """Close the accounts of the run: from here on its figures stand."""
        log = self._log
        log.total_s = perf_counter() - log.started
        log.hooks_s = self._hooks_s
        if self._begun is None:
            log.prepare_s = log.total_s - log.hooks_s
        else:
            log.prepare_s = self._begun - log.started - self._hooks_before
            log.loop_s = log.total_s - log.prepare_s - log.hooks_s
        for name, error in self._failures().items():
            kind = "task" if log.errors else "hook"
            log.reason = f"{kind} {name!r} failed: {describe(error)}"
            break
        # Tracebacks of failures hold on to this object; nobody needs these any more.
        self._handles.clear()
        self._outside.clear()

    def _failures(self) -> dict[str, BaseException]:
        """Return what failed: tasks in the order in which they did, then hooks."""
        failed = {self._wiring.names[i]: error for i, error in self._errors.items()}
        for place, error in self._hook_failures.items():
            failed[f"hook {place}" if place in failed else place] = error
        return failed

    def _announce(self) -> None:
        """Tell the hooks that everything is valid and the first task is about to start."""
        if self._hooks:
            order = [self._wiring.names[i] for i in self._wiring.order]
            tasks = dict(zip(self._wiring.names, self._tasks))
            self._tell("run_started", RunInfo(tasks, order, self._config, self._seed))

    def _loop(self) -> None:  # noqa: C901, PLR0912  (hot: a helper call in it counts)
        log, wiring, executor = self._log, self._wiring, self._executor
        hooks, handles, uses = self._hooks, self._handles, self._uses
        outputs_of, first_slot = wiring.outputs, wiring.first_slot
        times, ran_on, capacity = log.times, log.ran_on, executor.capacity
        payload_bytes, wire_bytes = log.payload_bytes, log.wire_bytes
        submit, next_done, work = executor.submit, executor.next, self._works()
        pop, done = self._schedule()
        running = 0
        self._hooks_before = self._hooks_s
        self._begun = perf_counter()
        while True:
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
                break
            i, worker, record = next_done()
            running -= 1
            k = 6 * i
            times[k : k + 6], payload, wire, frames, outputs, error = record
            if worker:
                ran_on[i] = worker
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
                log.undeclared_bytes[i] = sum(wire.values()) - declared_bytes
            # From here on only the slots hold what was produced.
            del record, frames
            if outputs is not None:
                self._outputs[i] = outputs
                del outputs
            if hooks:
                self._tell("task_finished", log.record(i))
            if done is not None:
                done(i)

    def _schedule(self) -> tuple[Callable[[], int | None], Callable[[int], None] | None]:
        """Return two functions: one hands out tasks, the other, if any, is told which are done."""
        wiring = self._wiring
        if self._executor.capacity > 1:
            return readiness(wiring.targets, wiring.first_target)
        # One at a time is the order that is known, without what comes after a failure.
        left = filterfalse(self._log.skipped.__contains__, wiring.order)
        return partial(next, left, None), None

    def _works(self) -> Callable[[int], tuple[tuple[Any, ...], list[Any]]]:
        """Return a function that makes a task's Work, and takes the handles of its inputs.

        A closure, as :func:`~dagprofiler.graph.readiness`: it runs once a task.
        """
        wiring, tasks, contracts, config = self._wiring, self._tasks, self._contracts, self._config
        names, inputs, slots = wiring.names, wiring.inputs, wiring.slots
        first_input = wiring.first_input
        outside, handles, uses = self._outside, self._handles, self._uses
        # The sinks, and what was asked for.
        keep = [False] * len(names)
        for i in chain(wiring.sinks, self._keep):
            keep[i] = True
        # The decoder of all slots, without end, where there is only one.
        every_decoder = None
        if len({contract.decode for contract in contracts}) == 1:
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
                given = outside.pop(i)
                decoders = [*islice(decoders, len(fields)), *[contract.decode] * len(given)]
                fields += given
                frames += given.values()
                gathers = [field for field in contract.gathers if field not in given]
                contract = contract._replace(gathers=gathers)
            return (names[i], task, contract, fields, decoders, keep[i]), frames

        return work

    def _fail(self, i: int, error: BaseException) -> None:
        """Note that task number `i` failed: what comes after it is skipped.

        What is no Exception, such as Ctrl-C, is raised: it ends the run.
        """
        log, wiring = self._log, self._wiring
        log.errors[i] = describe(error)
        below = [i]
        while below:
            for target in wiring.successors(below.pop()):
                if target not in log.skipped:
                    log.skipped.add(target)
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
        self._tell("task_failed", log.record(i, error))

    def _tell(self, method: str, what: Any) -> None:
        """Call one method of all hooks, on their own account."""
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
        self._log.environment = environment()
        names, outputs = self._wiring.names, self._outputs
        order = [i for i in self._wiring.order if i in outputs]
        last = self._wiring.order[-1:]
        return Profile.from_log(
            self._log,
            self._config,
            self._seed,
            outputs={names[i]: outputs[i] for i in order},
            final_outputs=outputs.get(last[0], {}) if last else {},
        )
