"""The excerpt: the HTML that a notebook shows for a profile, small and without scripts."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from dagprofiler._util.html import Markup, cut_table, details, paragraph, text, view
from dagprofiler._util.text import number, quantity
from dagprofiler.analysis.summary import origin
from dagprofiler.errors import counted
from dagprofiler.report.data import ReportSource, sketch
from dagprofiler.report.drawing import draw, is_drawn_unasked
from dagprofiler.stats.summary import FLAGS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dagprofiler._document.table import Column
    from dagprofiler.profile import Profile


#: Most nodes of the picture, columns of a table, and tasks named with a flag.
_NODES, _COLUMNS, _NAMED = 60, 6, 5


def excerpt(profile: Profile) -> str:
    """Return the outcome of the run, the DAG, and folded tables of tasks and edges."""
    words = [] if profile.name is None else [profile.name]
    about = paragraph("; ".join([*words, origin(profile)]), quiet=True)
    if not is_drawn_unasked(len(profile.dag_structure["nodes"])):
        return view(paragraph(repr(profile)), about)
    subject = ReportSource(profile)
    picture = draw(sketch(subject), _NODES).markup()
    return view(*_head(subject), about, picture, *_flags(subject), *_tables(subject))


def _head(subject: ReportSource) -> Iterator[Markup]:
    """Yield total time, critical path and work; and why the run is partial."""
    total_ms = subject.profile.metrics.total_time_ms
    known = "total time unknown" if total_ms is None else f"total {quantity(total_ms, 'ms')}"
    words = [Markup(f"<b>{text(known)}</b>")]
    found = subject.analysis
    if found is not None:
        unit = found.weights.unit
        span, work = quantity(found.span, unit), quantity(found.work, unit)
        words.append(text(f"; critical path {span}, work {work} ({found.weights.provenance})"))
    yield paragraph(Markup("".join(words)))
    run = subject.sections.get("run", {})
    if run.get("state") == "partial":
        lost = Counter(entry.get("state") for entry in run.get("tasks", {}).values())
        states = ", ".join(f"{count:,} {state}" for state, count in lost.items())
        yield paragraph(Markup("<b>partial</b>"), f"{run.get('reason')}: {states}")


def _flags(subject: ReportSource) -> Iterator[Markup]:
    """Yield the flags, one per line."""
    raised: dict[str, list[str]] = {}
    for name, flags in subject.sections.get("statistics", {}).get("flags", {}).items():
        for flag in flags:
            raised.setdefault(flag, []).append(name)
    for flag, names in raised.items():
        more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
        meaning = f" ({FLAGS[flag]})" if flag in FLAGS else ""
        yield paragraph(f"{flag}: {', '.join(names[:_NAMED])}{more}{meaning}", quiet=True)


def _tables(subject: ReportSource) -> Iterator[Markup]:
    """Yield the tables of tasks and of edges, by decreasing cost."""
    found = subject.analysis
    costs = [0] if found is None else [found.weights.values[name] for name in subject.names]
    yield _table("task", subject.names, subject.task_figures, costs)
    names = [f"{source} → {target}" for source, target in subject.pairs]
    sizes = (figures.values for figures in subject.edge_figures if figures.key == "size_bytes")
    yield _table("edge", names, subject.edge_figures, next(sizes, [0]))


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
    rows += [(names[i], *(number(column.values[i]) for column in shown)) for i in order]
    return details(counted(len(names), what), cut_table(rows, f"{what}s"))


def _headed(figures: Column) -> str:
    has_unit = not figures.unit or figures.unit in figures.label
    return figures.label if has_unit else f"{figures.label}, {figures.unit}"
