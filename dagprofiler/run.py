"""The ready-loop: the one way through which every run goes."""

from __future__ import annotations

from itertools import islice, repeat
from time import perf_counter
from typing import TYPE_CHECKING, Any

from dagprofiler.errors import RunError, describe
from dagprofiler.graph import ReadyQueue, released
from dagprofiler.hooks import RunInfo
from dagprofiler.machine import environment
from dagprofiler.profile import Profile
from dagprofiler.seeding import generators_restored

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dagprofiler.config import Config
    from dagprofiler.executors.serial import SerialExecutor
    from dagprofiler.hooks import Hook
    from dagprofiler.records import RunLog
    from dagprofiler.task import Codec, Contract, Task

__all__ = ["Run"]


class _HookFailed(Exception):  # noqa: N818  (a signal, not an error of the library)
    """A hook raised; its error is the cause. Never leaves this module."""


class Run:
    """One run of a DAG that has been found valid.

    Parameters
    ----------
    log
        Where readings go; it also knows the graph.
    tasks, contracts
        For each task number the task, and what it declares.
    outside
        Task number to the fields that are fed from outside the graph.
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
        outside: Mapping[int, Mapping[str, Any]],
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
        #: The decoder of all slots, without end, where there is only one.
        self._decoder = None
        if len({contract.decode for contract in contracts}) == 1:
            self._decoder = repeat(contracts[0].decode)
        self._uses = list(log.wiring.uses)
        self._outputs: dict[int, Mapping[str, Any]] = {}

    def execute(self) -> Profile:
        """Run all tasks and return the profile.

        Raises
        ------
        RunError
            If a task or a hook failed; it holds the partial profile.
        """
        names = self._wiring.names
        failures: dict[str, BaseException] = {}
        try:
            try:
                with generators_restored(self._seed):
                    self._loop()
            except _HookFailed as failed:
                failures[str(failed)] = failed.__cause__ or failed
            failures = {**{names[i]: e for i, e in self._log.errors.items()}, **failures}
            first = next(iter(failures), None)
            if first is not None:
                kind = "task" if self._log.errors else "hook"
                self._log.reason = f"{kind} {first!r} failed: {describe(failures[first])}"
            profile = self._profile()
            try:
                self._tell("run_finished", profile)
            except _HookFailed as failed:
                failures[str(failed)] = failed.__cause__ or failed
        except BaseException as error:
            # Ctrl-C and the like pass through, and take along what was measured.
            self._log.reason = f"interrupted by {describe(error)}"
            error.profile = self._profile()  # type: ignore[attr-defined]
            raise
        finally:
            for hook in self._hooks:
                hook.close()
        if failures:
            failed_task = next((names[i] for i in self._log.errors), None)
            raise RunError(failed_task, failures, profile) from next(iter(failures.values()))
        return profile

    def _loop(self) -> None:
        log, wiring, executor = self._log, self._wiring, self._executor
        hooks, successors, first_slot = self._hooks, wiring.successors, wiring.first_slot
        entries, ran_on, handles = log.entries, log.ran_on, self._handles
        capacity = executor.capacity
        uses, outputs_of = self._uses, wiring.outputs
        waiting = list(wiring.waiting)
        ready = ReadyQueue(i for i, count in enumerate(waiting) if not count)
        running = 0
        if hooks:
            order = [wiring.names[i] for i in wiring.order]
            tasks = dict(zip(wiring.names, self._tasks))
            self._tell("run_started", RunInfo(tasks, order, self._config, self._seed))
        begun = perf_counter()
        log.prepare_s = begun - log.started - log.hooks_s
        hooks_before = log.hooks_s
        try:
            while running or (ready and not self._stopped):
                while ready and running < capacity and not self._stopped:
                    i = ready.pop()
                    if hooks:
                        self._tell("task_started", wiring.names[i])
                    work, frames = self._work(i)
                    executor.submit(i, work, frames)
                    del frames
                    running += 1
                i, worker, record = executor.next()
                running -= 1
                entries[i], frames, outputs, error = record
                ran_on[i] = worker
                if error is not None:
                    self._fail(i, error)
                    continue
                for slot, field in enumerate(outputs_of[i], first_slot[i]):
                    if uses[slot]:
                        handles[slot] = frames[field]
                # From here on only the slots hold what was produced.
                del record, frames
                if outputs is not None:
                    self._outputs[i] = outputs
                    del outputs
                if hooks:
                    self._tell("task_finished", log.record(i))
                targets = successors.get(i)
                if targets:
                    ready.add(released(targets, waiting))
        finally:
            ended = perf_counter()
            log.loop_s = ended - begun - (log.hooks_s - hooks_before)
            log.total_s = ended - log.started

    def _work(self, i: int) -> tuple[tuple[Any, ...], list[Any]]:
        """Return the fields of task number `i`'s Work, and the handles of its inputs."""
        wiring, task, contract = self._wiring, self._tasks[i], self._contracts[i]
        task.config = self._config
        inputs: Sequence[str] = wiring.inputs[i]
        slots = wiring.slots[i]
        handles, uses = self._handles, self._uses
        frames = []
        for slot in slots:
            frames.append(handles[slot])
            uses[slot] -= 1
            if not uses[slot]:
                handles[slot] = None
        decoders: Iterable[Codec] = self._decoder or [
            self._contracts[wiring.owner[slot]].decode for slot in slots
        ]
        outside = self._outside.get(i)
        if outside:
            decoders = [*islice(decoders, len(slots)), *[contract.decode] * len(outside)]
            inputs = [*inputs, *outside]
            frames += outside.values()
            gathers = [field for field in contract.gathers if field not in outside]
            contract = contract._replace(gathers=gathers)
        keep = i not in wiring.successors or i in self._keep
        return (wiring.names[i], task, contract, inputs, decoders, keep), frames

    def _fail(self, i: int, error: Exception) -> None:
        """Note that task number `i` failed: what comes after it is skipped."""
        log, wiring = self._log, self._wiring
        log.errors[i] = error
        below = [i]
        while below:
            for target in wiring.successors.get(below.pop(), ()):
                if target not in log.skipped:
                    log.skipped.add(target)
                    below.append(target)
                    for slot in wiring.slots[target]:
                        self._uses[slot] -= 1
                        if not self._uses[slot]:
                            self._handles[slot] = None
        if self._stop_on_error:
            self._stopped = True
        self._tell("task_failed", log.record(i))

    def _tell(self, method: str, what: Any) -> None:
        """Call one method of all hooks, on their own account."""
        begun = perf_counter()
        try:
            for hook in self._hooks:
                try:
                    getattr(hook, method)(what)
                except Exception as error:
                    place = f"{type(hook).__name__}.{method}"
                    raise _HookFailed(place) from error
        finally:
            self._log.hooks_s += perf_counter() - begun

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
