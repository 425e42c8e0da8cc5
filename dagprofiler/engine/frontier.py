"""What the run loop asks of graphs that grow, and of earlier attempts at a run.

The engine says what it needs; the rooms of rules and of the journal provide it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping

    from dagprofiler.engine.log import RoundLog, RunLog


class GrowingRound(Protocol):
    """One round of a graph that grows: which task is next, and which rule is asked when."""

    def start(self) -> None:
        """Ask the rules that need no task."""

    def pop(self) -> int | None:
        """Return a task that is ready, or None."""

    def done(self, number: int) -> None:
        """Mark a task as succeeded."""

    def failed(self, number: int, skipped: Iterable[int], *, stops: bool) -> None:
        """Mark a task as failed, and those behind it as skipped."""

    def conclude(self) -> None:
        """Check that the graph became what its rules meant."""

    def finish(self) -> None:
        """Release what the round held; called once, however it ended."""


class GrowsGraph(Protocol):
    """What the rounds of a run of a graph that grows have in common."""

    def begin(self, **works_on: Any) -> GrowingRound:
        """Return a round that is about to begin."""


class EarlierRound(Protocol):
    """What earlier attempts at a run finished of one round."""

    is_last: bool

    @property
    def complete(self) -> bool:
        """Whether all tasks of the round succeeded."""

    @property
    def records(self) -> Mapping[str, Any]:
        """Name of each task that finished to its record."""

    @property
    def columns(self) -> list[str]:
        """What the meters of the round measured."""

    def begin(self, one: RoundLog, log: RunLog) -> None:
        """Enter what is known of the round as a whole."""

    def end(self, one: RoundLog, log: RunLog) -> None:
        """Enter what the round cost, once its tasks are entered."""

    def take_over(
        self, one: RoundLog, log: RunLog, i: int, recall: Callable[[dict[str, Any]], int]
    ) -> None:
        """Enter a finished task into the log of the round."""

    def check_all(self, tasks: Container[str]) -> None:
        """Refuse a graph that lacks a task which it had."""

    def added_s(self, log: RunLog, tasks: Iterable[str]) -> float | None:
        """Return when tasks were added, if an earlier attempt added them."""

    def fields(self, task: str) -> list[str]:
        """Return the stored outputs of a task."""

    def frames(self, task: str, field: str) -> Any:
        """Return a stored output, serialized."""

    def value(self, task: str, field: str, decode: Callable[[Any], Any]) -> Any:
        """Return a stored output, decoded."""


class EarlierAttempts(Protocol):
    """What earlier attempts at a run have done."""

    def of_round(self, number: int) -> EarlierRound | None:
        """Return what they finished of a round; None if it was not begun."""
