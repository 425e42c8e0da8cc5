"""The report: a profile as one self-contained page of HTML, and its excerpt for notebooks."""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from string import Template
from typing import Any

from dagprofiler._document.table import Column
from dagprofiler._util.html import (
    Drawing,
    Markup,
    cut_table,
    details,
    markup,
    paragraph,
    text,
    view,
)
from dagprofiler._util.json import plain_number
from dagprofiler._util.text import BYTES, number, quantity
from dagprofiler.analysis.compare import ProfileComparison
from dagprofiler.analysis.makespan import makespan_blocks, makespan_of
from dagprofiler.analysis.summary import origin
from dagprofiler.errors import counted, listed
from dagprofiler.formats import Export
from dagprofiler.profile import Profile
from dagprofiler.report.data import ReportSource, comparison, parts, sketch
from dagprofiler.report.drawing import draw, is_drawn_unasked
from dagprofiler.stats import FLAGS

__all__ = ["EXPORTER", "page"]

#: The files of the script, in the order of the page.
_SCRIPTS = (
    *("base.js", "table.js", "overview.js", "comparison.js", "prediction.js", "graph.js"),
    *("panel.js", "timeline.js", "spans.js", "kinds.js", "samples.js", "lists.js", "main.js"),
)

#: In JSON these occur only in strings, where an escape means the same. Without them no text can
#: end its element or begin another.
_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def page(data: dict[str, Any]) -> str:
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


def block(data: dict[str, Any]) -> str:
    r"""Return `data` as JSON that is safe in a script element.

    Examples
    --------
    >>> block({"</script>": 1})
    '{"\\u003c/script\\u003e":1}'
    """
    text = json.dumps(
        data, ensure_ascii=True, allow_nan=False, default=plain_number, separators=(",", ":")
    )
    return text.translate(_ESCAPES)


@cache
def _assets() -> tuple[Template, str, str]:
    folder = files("dagprofiler.report").joinpath("assets")

    def text(name: str) -> str:
        return folder.joinpath(name).read_text(encoding="utf-8")

    scripts = "".join(map(text, _SCRIPTS))
    return Template(text("report.html")), text("report.css"), f'"use strict";\n{scripts}'


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


#: Most nodes of the picture, columns of a table, and tasks named with a flag.
_NODES, _COLUMNS, _NAMED = 60, 6, 5


def _head(subject: ReportSource) -> Iterator[Markup]:
    """Yield total time, critical path and work; and why the run is partial."""
    total_ms = subject.profile.metrics.total_time_ms
    run = subject.sections.get("run", {})
    of = " a round" if "conditions" in run else ""
    known = "total time unknown" if total_ms is None else f"total {quantity(total_ms, 'ms')}{of}"
    words = [Markup(f"<b>{text(known)}</b>")]
    found = subject.analysis
    if found is not None:
        unit = found.weights.unit
        span, work = quantity(found.span, unit), quantity(found.work, unit)
        words.append(text(f"; critical path {span}, work {work} ({found.weights.provenance})"))
    yield paragraph(Markup("".join(words)))
    if run.get("state") == "partial":
        lost = Counter(entry.get("state") for entry in run.get("tasks", {}).values())
        states = ", ".join(f"{count:,} {state}" for state, count in lost.items())
        yield paragraph(Markup("<b>partial</b>"), f"{run.get('reason')}: {states}")


def _flags(subject: ReportSource) -> Iterator[Markup]:
    """Yield the flags, one per line."""
    for flag, names in subject.flags.items():
        meaning = f" ({FLAGS[flag]})" if flag in FLAGS else ""
        yield paragraph(f"{flag}: {listed(names, _NAMED, str)}{meaning}", quiet=True)


def _tables(subject: ReportSource) -> Iterator[Markup]:
    """Yield the tables of tasks and of edges, by decreasing cost."""
    found = subject.analysis
    costs = [0] if found is None else [found.weights.values[name] for name in subject.names]
    yield _table("task", subject.names, subject.task_figures, costs)
    names = [f"{source} → {target}" for source, target in subject.pairs]
    yield _table("edge", names, subject.edge_figures, subject.sizes)


def _table(
    what: str, names: Sequence[str], figures: Sequence[Column], costs: Sequence[Any]
) -> Markup:
    """Return a table, folded under the number of its rows."""
    if not names:
        return Markup()
    order: Sequence[int] = range(len(names))
    if len(costs) == len(names):
        order = sorted(order, key=lambda i: costs[i] or 0, reverse=True)
    shown = figures[:_COLUMNS]
    rows: list[Sequence[Any]] = [(what, *map(_headed, shown))]
    rows += [(names[i], *(_figure(column, i) for column in shown)) for i in order]
    return details(counted(len(names), what), cut_table(rows, f"{what}s"))


def _figure(figures: Column, i: int) -> str:
    value = figures.values[i]
    return quantity(value, BYTES) if figures.unit == "bytes" else number(value)


def _headed(figures: Column) -> str:
    has_unit = figures.unit in ("", "bytes", None) or figures.unit in figures.label
    return figures.label if has_unit else f"{figures.label}, {figures.unit}"


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
        subject = ReportSource(profile, cost, statistic)
        data = parts(subject)
        if base is not None:
            found = profile.compare(base) if found is None else found
            data["comparison"] = comparison(subject, ReportSource(base, cost, statistic), found)
        return Export(page(data), tuple(_losses(data)))

    def draw(
        self, profile: Profile, *, nodes: int, cost: str | None = None, statistic: str = "median"
    ) -> Drawing:
        """Return a picture of the DAG; arguments as for :meth:`dagprofiler.Profile.draw`."""
        return draw(sketch(ReportSource(profile, cost, statistic)), nodes)

    def excerpt(self, profile: Profile) -> str:
        """Return the HTML that a notebook shows: the outcome, the DAG, and folded tables."""
        words = [] if profile.name is None else [profile.name]
        about = paragraph("; ".join([*words, origin(profile)]), quiet=True)
        if not is_drawn_unasked(len(profile.dag_structure["nodes"])):
            return view(paragraph(repr(profile)), about)
        subject = ReportSource(profile)
        picture = draw(sketch(subject), _NODES).markup()
        shown = makespan_of(profile, subject.analysis)
        run = [] if shown is None else map(markup, makespan_blocks(shown))
        return view(*_head(subject), about, picture, *run, *_flags(subject), *_tables(subject))


def _losses(data: dict[str, Any]) -> Iterator[str]:
    """Yield what the profile holds and the page does not, in words."""
    parts = (data.get(part, {}) for part in ("timeline", "spans", "samples"))
    rounds, spans, columns = (part.get("left_out") for part in parts)
    if rounds:
        left_out = counted(rounds, "round, which is", "rounds, which are")
        yield f"the timeline leaves out {left_out} too many for a page"
    if spans:
        yield f"{counted(spans, 'span')} inside tasks, too many for a page"
    if columns:
        yield f"samples that are too many for a page: {', '.join(columns)}"
    if all(picture["kind"] != "tasks" for picture in data["pictures"]):
        yield "the picture of the DAG shows groups of tasks, of which there are too many"


EXPORTER = Report()
