"""compare_runs: measures two DAGs, or two configs, with interleaved rounds."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dagprofiler._util.html import Shown, view
from dagprofiler.analysis.compare import compare_samples, times_markup
from dagprofiler.analysis.summary import comparison_summary
from dagprofiler.dag import DAG
from dagprofiler.engine.hooks import HookCalls
from dagprofiler.engine.options import RunOptions
from dagprofiler.errors import (
    DeclarationError,
    is_a,
    short_repr,
)
from dagprofiler.measure.busy import busy

if TYPE_CHECKING:
    from collections.abc import Generator

    from dagprofiler._document.rounds import Rounds
    from dagprofiler.dag import Inputs
    from dagprofiler.profile import Profile


__all__ = ["RunComparison", "compare_runs"]

#: Enough for 29 of 30 slowdowns of 10 % at 5 % noise, with 30 tasks.
_ROUNDS = 30


@dataclass(frozen=True)
class RunComparison(Shown):
    """The result of :func:`compare_runs`; ``print`` and notebooks show it as a table.

    Attributes
    ----------
    a, b
        The profile of each DAG.
    task_times, edge_times
        As in :meth:`Profile.compare <dagprofiler.Profile.compare>`: for each task,
        or edge, the ratio of a's time to b's, its interval and a verdict on a
        relative to b.
    """

    a: Profile
    b: Profile
    task_times: dict[str, dict[str, Any]]
    edge_times: dict[str, dict[str, Any]]

    def __str__(self) -> str:
        return comparison_summary({**self.task_times, **self.edge_times})

    def _repr_html_(self) -> str:
        return view(times_markup({**self.task_times, **self.edge_times}))


def compare_runs(
    dag_a: DAG,
    dag_b: DAG | Mapping[str, Any],
    *,
    rounds: int | str | Rounds = _ROUNDS,
    seed: int | None = None,
    inputs: Inputs | None = None,
    meters: Any = None,
) -> RunComparison:
    """Measure two DAGs with interleaved rounds, and compare the times of each task.

    Parameters
    ----------
    dag_a, dag_b
        The DAGs to compare. A mapping as `dag_b` is a complete config for `dag_a`:
        ``dag_a.config.copy(N=10)`` changes one parameter. Tasks and edges are
        matched by name.
    rounds
        Rounds of each DAG, as for :meth:`DAG.run`. A verdict needs at least 5 for
        one task and 8 for 30; with fewer it is "inconclusive".
    seed, inputs, meters
        As for :meth:`DAG.run`, the same for both.

    Returns
    -------
    RunComparison
        Both profiles, and the verdicts.

    Raises
    ------
    DeclarationError
        If `dag_a` is not a DAG, or `dag_b` neither a DAG nor a mapping.
    ValidationError
        If a DAG is invalid; raised before any task runs.
    RunError
        If a task of either DAG failed.

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
    >>> compare_runs(dag, dag.config.copy(N=10_000), rounds=20).task_times["spin"]["verdict"]
    'slower'
    """
    if not is_a(dag_a, DAG):
        raise DeclarationError(f"compare_runs: dag_a must be a DAG, got {short_repr(dag_a)}")
    if not is_a(dag_b, (DAG, Mapping)):
        raise DeclarationError(
            f"compare_runs: dag_b must be a DAG or a config for dag_a, got {short_repr(dag_b)}"
        )
    other = dag_b if isinstance(dag_b, DAG) else dag_a.with_config(dag_b)
    # Both get the same meters; a single round is metered too.
    options = RunOptions(seed, inputs, rounds, meters="default" if meters is None else meters)
    with ExitStack() as conditions:
        if options.rounds.busy_cores:
            conditions.enter_context(busy(options.rounds.busy_cores))
        # Like DAG.run, but the rounds are taken one by one.
        runs = [dag._prepared(options, HookCalls([])) for dag in (dag_a, other)]  # noqa: SLF001
        steps = [run.steps() for run in runs]
        for iterator in steps:
            # If one fails, the other is closed too.
            conditions.callback(iterator.close)
        _take_turns(steps)
    a, b = (run.profile for run in runs)
    return RunComparison(a, b, **compare_samples(a, b, paired=True))


def _take_turns(steps: list[Generator[None]]) -> None:
    """Advance all iterators in turns until they end; the order alternates."""
    going = list(steps)
    while going:
        going = [iterator for iterator in going if next(iterator, going) is None]
        going.reverse()
