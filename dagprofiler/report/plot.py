"""Plots with matplotlib (extra ``plot``): each draws on axes, and returns them.

Without `ax` each makes a figure of a size that fits. Text and lines have the colours of the
style that is in use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dagprofiler._document import TimelineRow
from dagprofiler._document.table import label_of, unit_of
from dagprofiler._util import JsonObject
from dagprofiler._util.checks import choice
from dagprofiler._util.text import printable
from dagprofiler.errors import did_you_mean, needs_extra
from dagprofiler.profile import Profile
from dagprofiler.report.data import begun, sampled, typical_first, worker_names
from dagprofiler.report.drawing import shortened
from dagprofiler.stats import median

if TYPE_CHECKING:
    from matplotlib.axes import Axes


#: Colours of the phases of a task, as in the report.
COLOURS = {"deserialize": "#5fae9f", "compute": "#3b82c4", "serialize": "#d9a637"}

#: Rows that are labelled, and letters of a label.
_LABELLED, _LETTERS = 60, 32

#: In inches: width of a figure, height of a row, and height of what is above and below the rows.
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
        # A dollar sign does not begin a formula.
        ax.set_yticks(range(len(names)), labels, parse_math=False)
    else:
        ax.set_yticks([])
        ax.set_ylabel(f"{len(names):,} {what}")
    ax.spines[["top", "right"]].set_visible(False)


#: Heights of the bars of phases and of waits, where rows are 1 apart.
_BAR, _LINE = 0.72, 0.06


def gantt(
    profile: Profile,
    ax: Axes | None = None,
    *,
    by: str = "task",
    round: int | None = None,
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
    rows = _of_round(profile, begun(profile), round)
    if by == "task":
        names = [row.task for row in rows]
        labels = list(dict.fromkeys(names))
    else:
        workers = [*worker_names(profile), "unknown"]
        names = [workers[-1 if row.worker is None else row.worker] for row in rows]
        labels = [worker for worker in workers if worker in names]
    ax = row_axes(ax, len(labels))
    places = {label: place for place, label in enumerate(labels)}
    heights = [places[name] for name in names]
    for phase in COLOURS if by == "worker" else ("waiting", *COLOURS):
        _draw_phase(ax, phase, rows, heights)
    ax.legend(frameon=False, fontsize="small")
    label_rows(ax, labels, f"{by}s")
    ax.set_xlabel("ms from the start of the first task")
    return ax


def _of_round(profile: Profile, rows: list[TimelineRow], number: int | None) -> list[TimelineRow]:
    """Return the rows of a round, by default of a typical one, in the order of their starts."""
    if not rows:
        raise ValueError("the profile has no timeline, so the times of its tasks are unknown")
    rounds = typical_first(profile.samples, {row.round for row in rows})
    chosen = rounds[0] if number is None else number
    if chosen not in rounds:
        raise ValueError(f"round must be one of {sorted(rounds)}, got {number!r}")
    return sorted((row for row in rows if row.round == chosen), key=_start_ms)


def _start_ms(row: TimelineRow) -> float:
    """Return the start of the first phase of a task that began."""
    start_ms = row.deserialize_start_ms
    return row.compute_start_ms or 0.0 if start_ms is None else start_ms


def _draw_phase(ax: Axes, phase: str, rows: Sequence[TimelineRow], heights: Sequence[int]) -> None:
    """Draw a bar for this phase of each task, or a thin one for the time that it waited."""
    zero_ms = _start_ms(rows[0])
    is_wait = phase == "waiting"
    bars = []
    for row, height in zip(rows, heights):
        start_ms = row.ready_ms if is_wait else getattr(row, f"{phase}_start_ms")
        end_ms = _start_ms(row) if is_wait else getattr(row, f"{phase}_end_ms")
        if start_ms is not None and end_ms is not None:
            start_ms = max(start_ms, zero_ms)
            bars.append((height, end_ms - start_ms, start_ms - zero_ms))
    if bars:
        places, widths, starts = zip(*bars)
        thickness, colour = (_LINE, "#888888") if is_wait else (_BAR, COLOURS[phase])
        ax.barh(places, widths, left=starts, height=thickness, color=colour, label=phase)


#: The most rows that can be read, and half the heights of points and of the band in a row.
_ROWS, _SPREAD, _BAND = 40, 0.26, 0.38

#: Ratio between the medians of tasks from which on the scale of a new figure is logarithmic.
_WIDE = 100


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
    columns = sampled(profile.samples)
    if not columns:
        raise ValueError("the profile has no samples: take some with run(rounds='auto')")
    key = columns[0] if column is None else choice("column", column, columns, error=ValueError)
    measured = {
        name: values
        for name in profile.dag_structure["nodes"]
        if (values := profile.samples.of(name, key))
    }
    medians = {name: median(values) for name, values in measured.items()}
    names = _chosen(medians, tasks)
    fresh = ax is None
    ax = row_axes(ax, len(names))
    statistics = profile.sections.get("statistics", {}).get("tasks", {})
    for row, name in enumerate(names):
        _draw_row(ax, row, measured[name], statistics.get(name, {}).get(key, {}))
    label_rows(ax, names, "tasks")
    unit = unit_of(key)
    ax.set_xlabel(f"{label_of(key)}, {unit}" if unit else label_of(key))
    if len(names) < len(measured) and tasks is None:
        ax.set_title(f"{len(names)} of {len(measured):,} tasks", fontsize="medium")
    centres = [medians[name] for name in names]
    if fresh and min(centres, default=0) > 0 and max(centres) > _WIDE * min(centres):
        ax.set_xscale("log")
    return ax


def _chosen(medians: dict[str, float], tasks: Sequence[str] | None) -> list[str]:
    if tasks is None:
        largest = {*sorted(medians, key=medians.__getitem__, reverse=True)[:_ROWS]}
        return [name for name in medians if name in largest]
    names = [tasks] if isinstance(tasks, str) else list(tasks)
    for name in names:
        if name not in medians:
            hint = did_you_mean(name, list(medians))
            raise ValueError(f"there are no samples of a task {name!r}{hint}")
    return names


def _draw_row(ax: Axes, row: int, values: Sequence[float], summary: JsonObject) -> None:
    # Points are in the order of the rounds, from top to bottom, so that a drift is visible.
    last = max(len(values) - 1, 1)
    heights = [row - _SPREAD + 2 * _SPREAD * i / last for i in range(len(values))]
    ends = row - _BAND, row + _BAND
    colour = COLOURS["compute"]
    ax.plot(values, heights, ".", color=colour, alpha=0.7, markersize=5)
    ax.vlines(median(values), *ends, linewidth=1.6)
    if summary.get("low") is not None:
        interval = summary["low"], summary["high"]
        ax.fill_betweenx(ends, *interval, color=colour, alpha=0.2, linewidth=0)
