"""The report: a profile as one self-contained page of HTML, and its excerpt for notebooks."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING

from dagprofiler._util import JsonObject
from dagprofiler._util.html import Drawing, markup, paragraph, view
from dagprofiler._util.json import plain_number
from dagprofiler.analysis.summary import profile_blocks
from dagprofiler.formats import Export
from dagprofiler.profile import Profile
from dagprofiler.report.data import ReportSource, losses, page_data, sketch
from dagprofiler.report.drawing import UNASKED, draw

if TYPE_CHECKING:
    from dagprofiler.analysis.compare import ProfileComparison

__all__ = ["EXPORTER", "page"]

#: The files of the script, in the order of the page.
_SCRIPTS = (
    *("base.js", "table.js", "overview.js", "comparison.js", "prediction.js", "graph.js"),
    *("panel.js", "timeline.js", "spans.js", "kinds.js", "samples.js", "lists.js", "main.js"),
)

#: In JSON these occur only in strings, where an escape means the same. Without them no text can
#: end its element or begin another.
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def page(data: JsonObject) -> str:
    """Return the page that shows `data`; the same text for the same data.

    Notes
    -----
    All data of the profile is in one block of JSON in ASCII, which browsers do not execute; the
    script makes text nodes of it. The Content-Security-Policy allows this script and this style
    by their hashes, and nothing else.
    """
    template, style, script = _assets()
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; "
        "base-uri 'none'; form-action 'none'"
    )
    return template.substitute(policy=policy, style=style, script=script, data=block(data))


def block(data: JsonObject) -> str:
    r"""Return `data` as JSON that is safe in a script element.

    Examples
    --------
    >>> block({"</script>": 1})
    '{"\\u003c/script\\u003e":1}'
    """
    text = json.dumps(
        data, ensure_ascii=True, allow_nan=False, default=plain_number, separators=(",", ":")
    )
    # str.translate() takes half of the time of a page of 5,000 tasks.
    for character, escape in _ESCAPES.items():
        text = text.replace(character, escape)
    return text


@cache
def _assets() -> tuple[Template, str, str]:
    folder = files("dagprofiler.report").joinpath("assets")

    def text(name: str) -> str:
        return folder.joinpath(name).read_text(encoding="utf-8")

    scripts = "".join(text(name) for name in _SCRIPTS)
    return Template(text("report.html")), text("report.css"), f'"use strict";\n{scripts}'


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


#: Most nodes of the picture in a notebook.
_NODES = 60


class Report:
    """Renders profiles as pages that work from disk, without a network."""

    name, extension = "html", ".html"

    def render(
        self,
        profile: Profile,
        *,
        base: Profile | None = None,
        found: ProfileComparison | None = None,
        cost: str | None = None,
        statistic: str = "median",
    ) -> Export:
        """Return the page; arguments as for :meth:`dagprofiler.Profile.report`.

        Parameters
        ----------
        found
            The comparison with `base`; by default ``profile.compare(base)``.
        """
        source = ReportSource(profile, cost, statistic)
        other = None if base is None else ReportSource(base, cost, statistic)
        if base is not None and found is None:
            found = profile.compare(base)
        data = page_data(source, other, found)
        return Export(page(data), tuple(losses(data)))

    def draw(
        self, profile: Profile, *, nodes: int, cost: str | None = None, statistic: str = "median"
    ) -> Drawing:
        """Return a picture of the DAG; arguments as for :meth:`dagprofiler.Profile.draw`."""
        return draw(sketch(ReportSource(profile, cost, statistic)), nodes)

    def excerpt(self, profile: Profile) -> str:
        """Return the HTML that a notebook shows: the DAG, and what ``print(profile)`` shows."""
        shown = [markup(block) for block in profile_blocks(profile)]
        tasks = len(profile.dag_structure["nodes"])
        if tasks > UNASKED:
            return view(*shown)
        drawing = self.draw(profile, nodes=_NODES)
        # The blocks say how many tasks there are, but not in how many groups they are drawn.
        caption = paragraph(drawing.caption, quiet=True) if tasks > _NODES else ""
        return view(drawing.picture, caption, *shown)


EXPORTER = Report()
