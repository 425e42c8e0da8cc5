"""The report: a profile as one page of HTML that needs nothing but a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dagprofiler.drawing import draw
from dagprofiler.errors import counted
from dagprofiler.exporters import Export
from dagprofiler.report.comparison import comparison
from dagprofiler.report.excerpt import excerpt
from dagprofiler.report.page import page
from dagprofiler.report.parts import parts
from dagprofiler.report.sketch import sketch_of
from dagprofiler.report.subject import Subject

if TYPE_CHECKING:
    from typing import Any

    from dagprofiler.pictures import Drawing
    from dagprofiler.profile import Profile

__all__ = ["EXPORTER"]


class Report:
    """Renders profiles as pages that are read from disk, without a network."""

    name, extension = "html", ".html"

    def render(
        self,
        profile: Profile,
        *,
        base: Profile | None = None,
        cost: str | None = None,
        statistic: str = "median",
    ) -> Export:
        """Return the page; arguments as :meth:`dagprofiler.Profile.report` takes them."""
        subject = Subject(profile, cost, statistic)
        data = parts(subject)
        if base is not None:
            data["comparison"] = comparison(subject, Subject(base, cost, statistic))
        return Export(page(data), tuple(_losses(data)))

    def draw(
        self, profile: Profile, *, nodes: int, cost: str | None = None, statistic: str = "median"
    ) -> Drawing:
        """Return a picture of the DAG; arguments as :meth:`dagprofiler.Profile.draw` takes them."""
        return draw(sketch_of(Subject(profile, cost, statistic)), nodes)

    def excerpt(self, profile: Profile) -> str:
        """Return what a notebook shows of a profile."""
        return excerpt(profile)


def _losses(data: dict[str, Any]) -> list[str]:
    """Return what the profile holds and the page does not, in words."""
    losses = []
    rounds = data.get("timeline", {}).get("left_out")
    if rounds:
        left_out = counted(rounds, "round, which is", "rounds, which are")
        losses.append(f"the timeline leaves out {left_out} too many for a page")
    columns = data.get("samples", {}).get("left_out")
    if columns:
        losses.append(f"samples that are too many for a page: {', '.join(columns)}")
    if all(picture["kind"] != "tasks" for picture in data["pictures"]):
        losses.append("the picture of the DAG shows groups of tasks, of which there are too many")
    return losses


EXPORTER = Report()
