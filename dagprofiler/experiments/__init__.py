"""Questions that take several runs: comparisons, sweeps, and the calibration of an engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from logging import getLogger
from typing import IO, Any

from dagprofiler._document.rounds import Rounds
from dagprofiler._util import PathLike
from dagprofiler._util.checks import instance
from dagprofiler._util.html import ShownInBlocks
from dagprofiler._util.text import Block
from dagprofiler.analysis.compare import ProfileComparison, compare_profiles
from dagprofiler.dag import DAG, Inputs
from dagprofiler.engine.progress import Progress
from dagprofiler.engine.run import HookCalls, Run
from dagprofiler.engine.setup import RunOptions, as_executor, prepare
from dagprofiler.errors import DagProfilerError, DeclarationError, refused
from dagprofiler.executors import Executor
from dagprofiler.experiments.calibration import calibrate_engine
from dagprofiler.measure.busy import busy
from dagprofiler.profile import Profile
from dagprofiler.stats import DIFFERENCE

__all__ = ["RunComparison", "calibrate_engine", "compare_runs", "sweep"]

#: Rounds that tell whether a configuration needs a process of its own, and the difference that
#: matters, relative and in ms.
_TRIED, _MATTERS, _MATTERS_MS = 3, 0.1, 0.3

#: Enough for 29 of 30 slowdowns of 10 % at 5 % noise, with 30 tasks.
_ROUNDS = 30


@dataclass(frozen=True)
class RunComparison(ShownInBlocks):
    """The result of :func:`compare_runs`; ``print`` and notebooks show it as tables.

    Attributes
    ----------
    base, new
        The profile of each DAG.
    comparison
        As ``new.compare(base)`` returns it, with verdicts by interleaved rounds.
    """

    base: Profile
    new: Profile
    comparison: ProfileComparison

    @property
    def task_times(self) -> dict[str, dict[str, Any]]:
        """For each task both times, their ratio, its interval and a verdict on the new one."""
        return dict(self.comparison["task_times"])

    @property
    def edge_times(self) -> dict[str, dict[str, Any]]:
        """The same for each edge."""
        return dict(self.comparison["edge_times"])

    def report(
        self, path: PathLike | IO[Any], *, cost: str | None = None, statistic: str = "median"
    ) -> tuple[str, ...]:
        """Write the new profile as a page, with these verdicts against the base.

        Arguments, result and errors are those of :meth:`dagprofiler.Profile.report`.
        """
        options = {"base": self.base, "found": self.comparison}
        return self.new.export(path, "html", **options, cost=cost, statistic=statistic)

    def blocks(self) -> list[Block]:
        """Return what is shown of the comparison."""
        return self.comparison.blocks()


def compare_runs(
    base: DAG,
    new: DAG | Mapping[str, Any],
    *,
    rounds: int | str | Rounds = _ROUNDS,
    seed: int | None = None,
    inputs: Inputs | None = None,
    meters: Any = None,
    difference: float = DIFFERENCE,
    progress: bool = False,
) -> RunComparison:
    """Measure two DAGs with interleaved rounds, and compare a new one with a base.

    Parameters
    ----------
    base, new
        The DAGs to compare. A mapping as `new` changes these parameters of `base`, and a
        :class:`Config` replaces all of them, as in :meth:`DAG.with_config`. Tasks and edges are
        matched by name.
    rounds
        Rounds of each DAG, as for :meth:`DAG.run`. A verdict needs at least 5 for
        one task and 8 for 30; with fewer it is "inconclusive".
    seed, inputs, meters
        As for :meth:`DAG.run`, the same for both.
    difference
        The smallest relative difference of times that matters, above 0: where it might not
        have been seen, the verdict is "inconclusive".
    progress
        Whether to show how far both runs are, as :class:`~dagprofiler.Progress` does.

    Returns
    -------
    RunComparison
        Both profiles, and the verdicts on `new`.

    Raises
    ------
    DeclarationError
        If `base` is not a DAG, or `new` neither a DAG nor a mapping.
    ValidationError
        If a DAG is invalid, or `new` has a parameter that `base` lacks; before any task runs.
    RunError
        If a task of either DAG failed; ``of`` says of which, and ``profiles`` holds both
        profiles of the rounds so far.
    KeyboardInterrupt
        On Ctrl-C, with the same.

    Notes
    -----
    Rounds of the two DAGs alternate, and so does the order within each pair, so that
    disturbances of the machine affect both. The verdict is by the most sensitive of three
    rank tests, which know the speed of the core next to each task
    (:func:`dagprofiler.stats.ranktests.compare_interleaved`).

    Examples
    --------
    >>> from dagprofiler import task
    >>> @task(inputs=[], outputs=["x"])
    ... def spin(cfg):
    ...     return {"x": sum(range(cfg.N))}
    >>> dag = DAG({"spin": spin}, [], {"N": 20_000})
    >>> compare_runs(dag, {"N": 10_000}, rounds=20).task_times["spin"]["verdict"]
    'faster'
    """
    instance("compare_runs: base", base, DAG, "a DAG", error=DeclarationError)
    what = "a DAG or a config for base"
    instance("compare_runs: new", new, (DAG, Mapping), what, error=DeclarationError)
    changed = new if isinstance(new, DAG) else base.with_config(new)
    # Both get the same meters; a single round is metered too.
    meters = "default" if meters is None else meters
    options = RunOptions.of(seed=seed, inputs=inputs, rounds=rounds, meters=meters)
    cases = [("base", base, options), ("new", changed, options)]
    before, after = _interleaved(cases, progress=progress)
    found = compare_profiles(after, before, paired=True, difference=difference)
    return RunComparison(before, after, found)


def sweep(
    dag: DAG,
    over: Mapping[str, Sequence[Any]],
    *,
    rounds: int | str | Rounds = 5,
    seed: int | None = None,
    inputs: Inputs | None = None,
    meters: Any = None,
    executor: Any = None,
    processes: bool | None = None,
    progress: bool = False,
) -> list[Profile]:
    """Measure a DAG in several configurations with interleaved rounds.

    Parameters
    ----------
    dag
        The DAG; the parameters that are not swept are those of its config.
    over
        Parameter to its values. Of several parameters each takes its values with the others at
        their first, and one configuration has the last of all: what
        :func:`~dagprofiler.fit` needs, and far fewer than all combinations.
    rounds, seed, inputs, meters
        As for :meth:`DAG.run`, the same for all.
    executor
        None, or a ``concurrent.futures.Executor``: rounds on the workers that will run the
        tasks predict best.
    processes
        Whether each configuration has a process of its own for all of its rounds. In one that has
        run larger configurations the C library keeps the memory of their arrays, smaller ones
        then take less time, and fitted powers are too high. By default if that makes a difference
        of over 10 % to the configuration in the middle, which is then logged. Needs tasks that
        pickle, and a guard ``if __name__ == "__main__":`` where processes are spawned; without
        effect with `executor` or ``fresh_process``.
    progress
        Whether to show how far the runs are, as :class:`~dagprofiler.Progress` does.

    Returns
    -------
    list of Profile
        One for each configuration.

    Raises
    ------
    ValidationError
        If a parameter is unknown or has no values, or a configuration is invalid; before any
        task runs.
    RunError
        If a task failed; ``of`` says in which configuration, and ``profiles`` holds the
        profiles of the rounds so far, of each configuration that had begun.
    KeyboardInterrupt
        On Ctrl-C, with the same.

    Notes
    -----
    Rounds of the configurations take turns, so that disturbances of the machine affect all.

    Examples
    --------
    >>> from dagprofiler import task
    >>> @task(outputs=["x"])
    ... def spin(cfg):
    ...     return {"x": sum(range(cfg.N))}
    >>> dag = DAG({"spin": spin}, [], {"N": 1})
    >>> [profile.config.N for profile in sweep(dag, {"N": [100, 200, 400]})]
    [100, 200, 400]
    """
    instance("sweep: dag", dag, DAG, "a DAG", error=DeclarationError)
    dags = _design(dag, over)
    if len(dags) > 1 and isinstance(executor, Executor):
        raise refused(f"sweep: executor must be a concurrent.futures.Executor, not {executor.name}")
    # Iterators are used up once, for all.
    meters = "default" if meters is None else meters
    options = RunOptions.of(seed=seed, inputs=inputs, rounds=rounds, meters=meters)
    if executor is not None or options.rounds.fresh_process:
        processes = False
    elif processes is None:
        processes = len(dags) > 2 and _needs_processes(dags, options)
    with ExitStack() as pools:
        cases = []
        for other in dags:
            label = ", ".join(f"{name}={other.config[name]}" for name in over)
            pool = pools.enter_context(ProcessPoolExecutor(1)) if processes else executor
            placed = replace(options, executor=as_executor(pool, options.rounds))
            cases.append((label, other, placed))
        return _interleaved(cases, progress=progress)


def _run_of(dag: DAG, options: RunOptions, hooks: HookCalls) -> Run:
    """Return a run like that of ``DAG.run``, whose rounds can be taken one by one."""
    return Run(prepare(dag._current_workflow(), options), hooks)  # noqa: SLF001


def _needs_processes(dags: Sequence[DAG], options: RunOptions) -> bool:
    """Tell whether a configuration takes another time after a larger one in the same process.

    What fails here fails again in the sweep, which reports it.
    """

    def time_ms(dag: DAG, pool: ProcessPoolExecutor, rounds: int) -> float:
        conditions = Rounds(rounds, warmup=rounds // 2)
        asked = replace(options, executor=as_executor(pool, conditions), rounds=conditions)
        profile = _run_of(dag, asked, HookCalls([])).execute()
        sources = profile.sections.get("weight_sources", {})
        # CPU time, if it is known: other programs do not change it.
        return sum(
            sources.get(entry.task, {}).get("cpu_time_ms") or entry.compute_time_ms
            for entry in profile.metrics.task_metrics
        )

    middle, ends = dags[len(dags) // 2], (dags[0], dags[-1])
    fails = DagProfilerError, BrokenExecutor, OSError, NotImplementedError
    with suppress(*fails), ExitStack() as pools:
        alone, *others = [pools.enter_context(ProcessPoolExecutor(1)) for _ in range(3)]
        # A spawned process that imports a program without a guard ends here, by a RuntimeError.
        alone.submit(int).result()
        alone_ms = time_ms(middle, alone, _TRIED)
        large = max(zip(ends, others), key=lambda end: time_ms(end[0], end[1], 1))
        after_ms = time_ms(middle, large[1], _TRIED)
        if abs(after_ms - alone_ms) > max(_MATTERS * alone_ms, _MATTERS_MS):
            getLogger("dagprofiler.sweep").warning(
                "each configuration has a process of its own: after a larger one in the same "
                "process, tasks took %.2f times as long; processes=False, or --one-process, "
                "measures all in this one",
                after_ms / alone_ms,
            )
            return True
    return False


def _design(dag: DAG, over: Mapping[str, Sequence[Any]]) -> list[DAG]:
    """Return the DAG with each configuration of a sweep, each once."""
    instance("sweep: over", over or None, Mapping, "{parameter: [values]}")
    values = {}
    for name, several in over.items():
        listed = isinstance(several, Iterable) and not isinstance(several, str)
        values[name] = [*several] if listed else []
        if not values[name]:
            raise refused(f"sweep: {name!r} needs a list of values, got {several!r}")
    first = {name: several[0] for name, several in values.items()}
    last = {name: several[-1] for name, several in values.items()}
    chosen = [{**first, name: value} for name, several in values.items() for value in several]
    dags: list[DAG] = []
    for each in [*chosen, last]:
        other = dag.with_config(each)
        if all(other.config != earlier.config for earlier in dags):
            dags.append(other)
    return dags


def _interleaved(cases: Sequence[tuple[str, DAG, RunOptions]], *, progress: bool) -> list[Profile]:
    """Run labelled DAGs, one round of each in turns; return their profiles.

    An error takes along the profiles of all that had begun, and the labels and rounds of those
    whose profiles a further Ctrl-C has left unfinished.
    """
    runs: list[Run] = []
    try:
        with ExitStack() as conditions:
            busy_cores = cases[0][2].rounds.busy_cores
            if busy_cores:
                conditions.enter_context(busy(busy_cores))
            shown = Progress()
            for label, dag, options in cases:
                hooks = HookCalls([Progress(label=label, beside=shown)] if progress else [])
                conditions.callback(hooks.close)
                run = _run_of(dag, options, hooks)
                # If one fails, the others end too.
                conditions.callback(run.stop, "the end of another run")
                runs.append(run)
            going = runs
            while going:
                # In turns until all have ended, in an order that alternates.
                going = [run for run in going if run.step()]
                going.reverse()
    except BaseException as error:
        ended: Any = error
        ended.profiles, ended.unfinished, ended.of = [], {}, ""
        # Two values can have one text, so labels are no keys.
        for (label, _, _), run in zip(cases, runs):
            if hasattr(run, "profile"):
                ended.profiles.append(run.profile)
                if run.profile is getattr(ended, "profile", None):
                    ended.of = label
            elif any(log.complete for log in run.log.rounds):
                ended.unfinished[label] = sum(log.complete for log in run.log.rounds)
        raise
    return [run.profile for run in runs]
