"""Run: all rounds of a run, from the first call of a hook to the profile."""

from __future__ import annotations

import gc
from contextlib import ExitStack, suppress
from operator import attrgetter
from time import perf_counter
from typing import TYPE_CHECKING

from dagprofiler._document.rounds import ALLOCATION
from dagprofiler._util.interpreter import asked_for
from dagprofiler.engine.hooks import HookFailed, RunInfo
from dagprofiler.engine.round import Results, Round, is_traced
from dagprofiler.engine.sections import Tables
from dagprofiler.errors import GraphError, RunError, describe, short_repr
from dagprofiler.measure.machine import environment
from dagprofiler.measure.random import generators_restored
from dagprofiler.profile import Profile

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from dagprofiler._document.rounds import Plan
    from dagprofiler.engine.fresh import FreshRounds, Taken
    from dagprofiler.engine.hooks import HookCalls
    from dagprofiler.engine.log import RoundLog, RunLog
    from dagprofiler.engine.options import RunOptions
    from dagprofiler.engine.round import Workload
    from dagprofiler.measure.pipeline import Contract


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
                    with suppress(HookFailed):
                        self._announce()
                        for kind in self._plan:
                            self._take(kind)
                            if self._failed or self._results.rule_failures:
                                break
                            yield
                finally:
                    self._settle()
                profile = self._profile()
                with suppress(HookFailed):
                    self._hooks.tell("run_finished", profile)
            finally:
                self._hooks.close()
        except BaseException as error:
            # Ctrl-C and the like are raised again, with the partial profile.
            log.reason = f"interrupted by {describe(error)}{self._plan.where()}"
            with suppress(AttributeError):
                error.profile = self._profile()  # type: ignore[attr-defined]
            raise
        failures = self._failures()
        if failures:
            failed_task = next(iter(self._failed), None)
            raise RunError(failed_task, failures, profile) from next(iter(failures.values()))
        self.profile = profile

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
        if self._plan.rounds.collects:
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
        try:
            with generators_restored(self._options.seed):
                current.take()
        finally:
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
        several = self._plan.rounds.several
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
            log.timestamp,
            name=log.name,
            outputs={names[i]: outputs[i] for i in order},
            final_outputs=outputs.get(last[0], {}) if last else {},
        )
