"""Interfaces of the run loop to dynamic graphs and to previous attempts at a run.

The packages `rules` and `journal` implement them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping

    from dagprofiler.engine.log import RoundLog, RunLog


class GrowingRound(Protocol):
    """One round of a dynamic graph: returns ready tasks and evaluates rules."""

    def start(self) -> None:
        """Evaluate all rules for the first time."""

    def pop(self) -> int | None:
        """Return a task that is ready, or None."""

    def done(self, number: int) -> None:
        """Mark a task as succeeded."""

    def failed(self, number: int, skipped: Iterable[int], *, stops: bool) -> None:
        """Mark a task as failed, and the tasks that depend on it as skipped."""

    def conclude(self) -> None:
        """Check the rules that did not fire."""

    def finish(self) -> None:
        """Complete the log of the round; always called once."""


class GrowsGraph(Protocol):
    """Creates the rounds of a run of a dynamic graph."""

    def begin(self, **works_on: Any) -> GrowingRound:
        """Return a new round."""


class EarlierRound(Protocol):
    """The results of one round that previous attempts recorded."""

    is_last: bool

    @property
    def complete(self) -> bool:
        """Whether all tasks of the round succeeded."""

    @property
    def records(self) -> Mapping[str, Any]:
        """Name of each task that finished to its record."""

    @property
    def columns(self) -> list[str]:
        """Names of the columns that the meters measured."""

    def begin(self, round_log: RoundLog, log: RunLog) -> None:
        """Enter the begin and the costs so far into the log of the round."""

    def end(self, round_log: RoundLog, log: RunLog) -> None:
        """Enter the totals of the round into its log, once its tasks are entered."""

    def take_over(
        self, round_log: RoundLog, log: RunLog, i: int, recall: Callable[[dict[str, Any]], int]
    ) -> None:
        """Enter a finished task into the log of the round."""

    def check_all(self, tasks: Container[str]) -> None:
        """Raise a JournalError unless the graph has all tasks that finished."""

    def added_s(self, log: RunLog, tasks: Iterable[str]) -> float | None:
        """Return when tasks were added, if any of them has a record; else None."""

    def fields(self, task: str) -> list[str]:
        """Return the names of the stored outputs of a task."""

    def frames(self, task: str, field: str) -> Any:
        """Return a stored output, serialized."""

    def value(self, task: str, field: str, decode: Callable[[Any], Any]) -> Any:
        """Return a stored output, decoded."""


class EarlierAttempts(Protocol):
    """The state of a run that previous attempts recorded."""

    def of_round(self, number: int) -> EarlierRound | None:
        """Return the results of a round; None if it has none."""

    def conclude(self, log: RunLog) -> None:
        """Enter the totals of a complete run into its log, which runs nothing any more."""
