"""Clocks: those of other hosts, brought to the clock of the process that drives the run."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Clocks"]


class Clocks:
    """How far the clocks of workers are ahead of this process's, as far as tasks show.

    A task cannot start before it was sent, nor can its record arrive before it
    ended. So each one narrows down how far its worker's clock is ahead, and no
    message beside them is needed.

    Parameters
    ----------
    own
        The domain of this process's clock.

    Attributes
    ----------
    own
        The same.

    Notes
    -----
    Cristian, Distributed Computing 3, 1989, with the tasks themselves as the
    round trips; drift within a round is taken as nothing.
    """

    def __init__(self, own: str) -> None:
        self.own = own
        #: Clock domain to the least and the most, in seconds.
        self._bounds: dict[str, tuple[float, float]] = {own: (0.0, 0.0)}

    def note(
        self, domain: str, sent_s: float, times: Sequence[float | None], arrived_s: float
    ) -> None:
        """Take note of a task.

        Parameters
        ----------
        domain
            That of its worker's clock.
        sent_s, arrived_s
            When it was sent and when its record arrived, by this process's clock.
        times
            The readings of the worker's clock, in order; None for what was not reached.
        """
        known = [moment for moment in times if moment is not None]
        if domain != self.own and known:
            least, most = self._bounds.get(domain, (-inf, inf))
            self._bounds[domain] = max(least, known[-1] - arrived_s), min(most, known[0] - sent_s)

    def ahead_s(self, domain: str) -> float:
        """Return how many seconds a clock is ahead; 0 of one that no task has shown."""
        least, most = self._bounds.get(domain, (0.0, 0.0))
        return (least + most) / 2

    def error_s(self, domain: str) -> float:
        """Return by how many seconds :meth:`ahead_s` can be wrong."""
        least, most = self._bounds.get(domain, (0.0, 0.0))
        # Where drift has made them cross, what they are apart is the error.
        return abs(most - least) / 2
