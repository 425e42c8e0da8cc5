"""Subject: a profile as a report looks at it, with tasks and edges as numbers."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from dagprofiler.analysis import Analysis, analyze
from dagprofiler.errors import WeightError
from dagprofiler.report.figures import Figures, edge_figures, edges_of, task_figures

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dagprofiler.analysis import Paths
    from dagprofiler.profile import Profile

__all__ = ["Subject"]

#: What tasks cost, unless it is said: a report is about what took the time.
_COSTS = ("wall_time", "best")


class Subject:
    """A profile, and what several parts of a report want to know of it.

    Parameters
    ----------
    profile
        Fresh or loaded.
    cost, statistic
        As :func:`dagprofiler.analyze` takes them; by default wall times, where there are any.

    Attributes
    ----------
    names, numbers
        Of the tasks, in the profile's order; and the other way round.
    edges
        Source and target of each edge, by number.
    analysis
        None where tasks have no cost from any source; `why_not` then says why.

    Raises
    ------
    WeightError
        If `cost` or `statistic` is given, and there is no such.
    """

    def __init__(
        self, profile: Profile, cost: str | None = None, statistic: str = "median"
    ) -> None:
        self.profile = profile
        self.names: list[str] = profile.dag_structure["nodes"]
        self.numbers = {name: number for number, name in enumerate(self.names)}
        self.pairs = edges_of(profile)
        self.edges = [(self.numbers[source], self.numbers[target]) for source, target in self.pairs]
        self.analysis: Analysis | None = None
        self.why_not = ""
        for one in _COSTS if cost is None else (cost,):
            try:
                self.analysis = self._analyzed(one, statistic)
                break
            except WeightError as error:
                if cost is not None:
                    raise
                self.why_not = error.reason

    def _analyzed(self, cost: str, statistic: str) -> Analysis:
        # Tasks that did not run took no time.
        found = analyze(self.profile, cost=cost, statistic=statistic, fill=0)
        if self.names and len(found.weights.filled) == len(self.names):
            # Nothing but zeros would be no analysis; this says why there are no others.
            self.profile.weights(cost, statistic)
        return found

    @property
    def sections(self) -> Mapping[str, Any]:
        """The sections that only our profiles have."""
        return self.profile.sections

    @cached_property
    def task_figures(self) -> list[Figures]:
        """What is known of tasks."""
        return task_figures(self.profile)

    @cached_property
    def edge_figures(self) -> list[Figures]:
        """What is known of edges."""
        return edge_figures(self.profile)

    @property
    def paths(self) -> Paths | None:
        """The paths with the time of edges, where it is known; without it otherwise."""
        found = self.analysis
        return None if found is None else found.with_communication or found.without_communication
