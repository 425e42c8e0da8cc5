"""compare_runs: two DAGs, or two configs, measured in turns."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

from dagprofiler._document.rounds import rounds_of
from dagprofiler._util.html import Shown, view
from dagprofiler.analysis.compare import compare_samples, times_markup
from dagprofiler.analysis.summary import comparison_summary
from dagprofiler.dag import DAG
from dagprofiler.engine.options import as_list
from dagprofiler.errors import DeclarationError, short_repr
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
    """What :func:`compare_runs` found; as text, and in notebooks, a table.

    Attributes
    ----------
    a, b
        The profile of each DAG.
    task_times, edge_times
        As :meth:`Profile.compare <dagprofiler.Profile.compare>` returns them: of
        each task, or edge, the ratio of a's time to b's, its interval and a
        verdict on a as seen from b.
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
    """Measure two DAGs in turns, and say of each task whether its time differs.

    Parameters
    ----------
    dag_a, dag_b
        What to compare; a mapping as `dag_b` is another config for `dag_a`, the
        whole of it: ``dag_a.config.copy(N=10)`` changes one parameter. Tasks and
        edges are matched by name.
    rounds
        How often each is run, as for :meth:`DAG.run`. A verdict takes at least
        5 for one task and 7 for 30; where there are too few, it says so.
    seed, inputs, meters
        As for :meth:`DAG.run`, the same for both.

    Returns
    -------
    RunComparison
        Both profiles, and the verdicts.

    Raises
    ------
    DeclarationError
        If `dag_a` is no DAG, or `dag_b` neither one nor a mapping.
    ValidationError
        Before anything runs.
    RunError
        If a task failed in either.

    Notes
    -----
    Whatever disturbs the machine disturbs both: rounds of the two alternate,
    and which of them goes first alternates too. Of round i of one against round
    i of the other, and of all rounds of one against all of the other, what sees
    more decides (:func:`dagprofiler.stats.ranktests.compare_interleaved`).

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
    if not isinstance(dag_a, DAG):
        raise DeclarationError(f"compare_runs: dag_a must be a DAG, got {short_repr(dag_a)}")
    if not isinstance(dag_b, (DAG, Mapping)):
        raise DeclarationError(
            f"compare_runs: dag_b must be a DAG or a config for dag_a, got {short_repr(dag_b)}"
        )
    other = dag_b if isinstance(dag_b, DAG) else dag_a.with_config(dag_b)
    asked = rounds_of(rounds)
    # Both get the same, be it an iterator; a single round is compared too.
    meters = "default" if meters is None else as_list(meters)
    with ExitStack() as conditions:
        if asked.busy_cores:
            conditions.enter_context(busy(asked.busy_cores))
        runs = [
            dag._prepared(  # noqa: SLF001  (what DAG.run does, but for taking the rounds at once)
                perf_counter(),
                [],
                seed=seed,
                inputs=inputs,
                rounds=asked,
                meters=meters,
                keep=(),
                on_error="stop",
            )
            for dag in (dag_a, other)
        ]
        steps = [run.steps() for run in runs]
        for one in steps:
            # Where one fails, the other closes its accounts too.
            conditions.callback(one.close)
        _take_turns(steps)
    a, b = (run.profile for run in runs)
    return RunComparison(a, b, **compare_samples(a, b, paired=True))


def _take_turns(steps: list[Generator[None]]) -> None:
    """Advance all iterators in turns until they end; who goes first alternates."""
    going = list(steps)
    while going:
        going = [one for one in going if next(one, going) is None]
        going.reverse()
