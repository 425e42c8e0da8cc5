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


class Subject:
    """A profile, and what several parts of a report want to know of it.

    Parameters
    ----------
    profile
        Fresh or loaded.
    cost, statistic
        As :func:`dagprofiler.analyze` takes them; by default wall times, where there are any,
        else the best costs that all tasks have.

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
        If `cost` is given, and no task has one.
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
        if cost is not None:
            self.analysis = self._partly_known(cost, statistic)
            return
        try:
            self.analysis = self._partly_known("wall_time", statistic)
        except WeightError as error:
            try:
                self.analysis = analyze(profile, statistic=statistic)
            except WeightError:
                self.why_not = str(error)

    def _partly_known(self, cost: str, statistic: str) -> Analysis:
        """Return an analysis in which tasks that have no cost, as they did not run, cost 0."""
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
