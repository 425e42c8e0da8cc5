"""Plots with matplotlib (extra ``plot``): each draws on axes, and returns them.

Without `ax` each makes a figure of a size that fits. Text and lines have the colours of the
style that is in use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dagprofiler._document.rounds import measured_of
from dagprofiler._util.checks import choice
from dagprofiler._util.text import printable
from dagprofiler.errors import did_you_mean, needs_extra, short_repr
from dagprofiler.profile import Profile
from dagprofiler.report.data import ReportSource, timeline
from dagprofiler.report.data import samples as samples_of
from dagprofiler.report.drawing import shortened
from dagprofiler.stats import median

if TYPE_CHECKING:
    from matplotlib.axes import Axes


#: Colours of the phases of a task, as in the report.
COLOURS = {"deserialize": "#5fae9f", "compute": "#3b82c4", "serialize": "#d9a637"}

#: Texts are shown unchanged: a dollar sign does not begin a formula.
PLAIN: dict[str, Any] = {"parse_math": False}

#: Rows that are labelled, and letters of a label.
_LABELLED, _LETTERS = 60, 32

#: Inches: of a figure's width, of a row, and of what is around the rows.
_WIDTH, _ROW, _AROUND = 8, 0.28, 1.1


def row_axes(ax: Axes | None, rows: int) -> Axes:
    """Return `ax`, or the axes of a new figure high enough for the rows.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    """
    with needs_extra("dagprofiler.report.plot", "plot"):
        from matplotlib import pyplot
    if ax is not None:
        return ax
    height = _AROUND + _ROW * min(max(rows, 2), _LABELLED)
    return pyplot.subplots(figsize=(_WIDTH, height), layout="constrained")[1]


def label_rows(ax: Axes, names: Sequence[str], what: str) -> None:
    """Label the rows from the top down, or only their number if there are too many."""
    ax.set_ylim(len(names) - 0.5, -0.5)
    if len(names) <= _LABELLED:
        labels = [shortened(printable(name), _LETTERS) for name in names]
        ax.set_yticks(range(len(names)), labels, **PLAIN)
    else:
        ax.set_yticks([])
        ax.set_ylabel(f"{len(names):,} {what}")
    ax.spines[["top", "right"]].set_visible(False)


#: Height of the bars, where rows are 1 apart.
_BAR = 0.72


def gantt(
    profile: Profile,
    ax: Axes | None = None,
    *,
    by: str = "task",
    round: int | None = None,  # noqa: A002  (the library's term)
) -> Axes:
    """Draw when each task deserialized its inputs, computed, and serialized its outputs.

    A thin line before a bar is the time that a task was ready and waited.

    Parameters
    ----------
    profile
        A profile with a timeline; those of 0.1.0 and of other tools have none.
    ax
        Axes to draw on; by default those of a new figure.
    by
        ``"task"``: a row for each task, in the order of their starts; ``"worker"``: one for
        each worker.
    round
        Its number, from 0; by default a measured round of a time near the median.

    Returns
    -------
    matplotlib.axes.Axes
        The time is in ms from the start of the first task in this round.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    ValueError
        If the profile has no timeline or no such round, or `by` is invalid.
    """
    choice("by", by, ("task", "worker"), error=ValueError)
    subject = ReportSource(profile)
    known = timeline(subject)
    if known is None:
        raise ValueError("the profile has no timeline, so the times of its tasks are unknown")
    chosen = _round(known, round)
    records = [i for i, number in enumerate(known["round"]) if number == chosen]
    records.sort(key=lambda i: _start(known, i))
    keys = dict.fromkeys(known[by][i] for i in records)
    rows = {key: row for row, key in enumerate(keys if by == "task" else sorted(keys))}
    ax = row_axes(ax, len(rows))
    _draw(ax, known, {i: rows[known[by][i]] for i in records}, waits=by == "task")
    names = subject.names if by == "task" else known["workers"]
    label_rows(ax, [names[key] for key in rows], f"{by}s")
    ax.set_xlabel("ms from the start of the first task")
    return ax


def _round(known: Mapping[str, Any], number: int | None) -> int:
    chosen: int = known["first"] if number is None else number
    numbers = [number for number, _ in known["rounds"]]
    if chosen not in numbers:
        known_rounds = ", ".join(map(str, numbers))
        raise ValueError(
            f"round must be one of those in the timeline ({known_rounds}), got {short_repr(number)}"
        )
    return chosen


def _start(known: Mapping[str, Any], record: int) -> float:
    """Return the start of the first phase of a record."""
    starts = [column[record] for _, column, _ in known["phases"]]
    return float(min(start for start in starts if start is not None))


def _draw(ax: Axes, known: Mapping[str, Any], row_of: Mapping[int, int], *, waits: bool) -> None:
    """Draw a bar for each phase of the records, all of a kind at once."""
    zero = _start(known, next(iter(row_of)))
    waiting = [i for i in row_of if waits and known["ready"][i] is not None]
    ax.hlines(
        [row_of[i] for i in waiting],
        [max(0.0, known["ready"][i] - zero) for i in waiting],
        [_start(known, i) - zero for i in waiting],
        color="#888888",
        linewidth=1,
        label="waiting" if waiting else None,
    )
    for phase, starts, stops in known["phases"]:
        done = [i for i in row_of if starts[i] is not None and stops[i] is not None]
        ax.barh(
            [row_of[i] for i in done],
            [stops[i] - starts[i] for i in done],
            left=[starts[i] - zero for i in done],
            height=_BAR,
            color=COLOURS[phase],
            label=phase,
        )
    ax.legend(frameon=False, fontsize="small")


#: Rows that can be read, how far points are spread in theirs, and times between the medians of
#: tasks from which on the scale of a new figure is logarithmic.
_ROWS, _SPREAD, _WIDE = 40, 0.26, 100


def samples(
    profile: Profile,
    ax: Axes | None = None,
    *,
    column: str | None = None,
    tasks: Sequence[str] | None = None,
) -> Axes:
    """Draw the samples of each task: a point for each round, and a line at the median.

    If the profile has statistics of the column, a band is the interval of the median.

    Parameters
    ----------
    profile
        A profile with samples, from a run with meters or several rounds.
    ax
        Axes to draw on; by default those of a new figure.
    column
        As it is called in ``profile.sections["samples"]``: ``"cpu_ms"``, ``"read_bytes"``; by
        default the times in ``compute()``, without run-queue delay where that was measured.
    tasks
        Their names; by default all, or the 40 with the largest medians.

    Returns
    -------
    matplotlib.axes.Axes
        In the unit of the column. Those of a new figure are logarithmic where the medians differ
        more than a hundredfold.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    ValueError
        If the profile has no samples, none of this column, or none of such a task.
    """
    subject = ReportSource(profile)
    known = samples_of(subject)
    if known is None or not known["columns"]:
        raise ValueError("the profile has no samples: take some with run(rounds='auto')")
    columns = {chosen["key"]: chosen for chosen in known["columns"]}
    key = next(iter(columns)) if column is None else column
    chosen = columns[choice("column", key, [*columns], error=ValueError)]
    measured = {
        name: values
        for name, row in zip(subject.names, chosen["rows"])
        if (values := measured_of(known["rounds"], row or ()))
    }
    medians = {name: median(values) for name, values in measured.items()}
    names = _chosen(medians, tasks)
    fresh = ax is None
    ax = row_axes(ax, len(names))
    for row, name in enumerate(names):
        _draw_row(ax, row, measured[name], medians[name])
    _draw_bands(ax, profile, names, chosen["key"])
    label_rows(ax, names, "tasks")
    ax.set_xlabel(", ".join(filter(None, (chosen["label"], chosen["unit"]))))
    if len(names) < len(measured) and tasks is None:
        ax.set_title(f"{len(names)} of {len(measured):,} tasks", fontsize="medium")
    centres = [medians[name] for name in names]
    if fresh and min(centres, default=0) > 0 and max(centres) > _WIDE * min(centres):
        ax.set_xscale("log")
    return ax


def _chosen(medians: Mapping[str, float], tasks: Sequence[str] | None) -> list[str]:
    if tasks is None:
        largest = sorted(medians, key=medians.__getitem__, reverse=True)[:_ROWS]
        return [name for name in medians if name in set(largest)]
    for name in [tasks] if isinstance(tasks, str) else tasks:
        if name not in medians:
            hint = did_you_mean(name, list(medians))
            raise ValueError(f"there are no samples of a task {name!r}{hint}")
    return list(tasks)


def _draw_row(ax: Axes, row: int, values: Sequence[float], middle: float) -> None:
    # In the order of the rounds, so that a drift is seen.
    last = max(len(values) - 1, 1)
    heights = [row - _SPREAD + 2 * _SPREAD * i / last for i in range(len(values))]
    ax.plot(values, heights, ".", color=COLOURS["compute"], alpha=0.7, markersize=5)
    ax.vlines(middle, row - 0.38, row + 0.38, linewidth=1.6)


def _draw_bands(ax: Axes, profile: Profile, names: Sequence[str], key: str) -> None:
    """Draw the known intervals of the medians."""
    statistics = profile.sections.get("statistics", {}).get("tasks", {})
    entries = [(row, statistics.get(name, {}).get(key, {})) for row, name in enumerate(names)]
    known = [(row, entry) for row, entry in entries if entry.get("low") is not None]
    bars = ax.barh(
        [row for row, _ in known],
        [entry["high"] - entry["low"] for _, entry in known],
        left=[entry["low"] for _, entry in known],
        height=0.76,
        color=COLOURS["compute"],
        alpha=0.2,
    )
    for bar in bars:
        # Else the axes would begin where the lowest interval does.
        bar.sticky_edges.x.clear()
    ax.autoscale_view()
