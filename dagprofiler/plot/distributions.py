"""The distributions of samples on axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dagprofiler.errors import did_you_mean, short_repr
from dagprofiler.plot.canvas import COLOURS, label_rows, row_axes
from dagprofiler.report.series import samples as samples_of
from dagprofiler.report.subject import Subject
from dagprofiler.samples import measured_of
from dagprofiler.statistics import median

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes

    from dagprofiler.profile import Profile

__all__ = ["samples"]

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
    """Draw how the rounds of each task are spread: a point for each, and a line at the median.

    Where the profile has statistics of the column, a band is the interval of the median.

    Parameters
    ----------
    profile
        Of a run with meters or several rounds, so that it has samples.
    ax
        Where to; by default the axes of a new figure.
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
    subject = Subject(profile)
    known = samples_of(subject)
    if known is None or not known["columns"]:
        raise ValueError("the profile has no samples: take some with run(rounds='auto')")
    chosen = _column(known, column)
    measured = {
        name: values
        for name, row in zip(subject.names, chosen["rows"])
        for values in [measured_of(known["rounds"], row or ())]
        if values
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


def _column(known: Mapping[str, Any], key: str | None) -> Mapping[str, Any]:
    columns: dict[str, Mapping[str, Any]] = {column["key"]: column for column in known["columns"]}
    if key is None:
        return next(iter(columns.values()))
    if key not in columns:
        raise ValueError(
            f"column must be one of {', '.join(columns)}, got {short_repr(key)}"
            f"{did_you_mean(key, list(columns))}"
        )
    return columns[key]


def _chosen(medians: Mapping[str, float], tasks: Sequence[str] | None) -> list[str]:
    if tasks is None:
        largest = sorted(medians, key=medians.__getitem__, reverse=True)[:_ROWS]
        return [name for name in medians if name in set(largest)]
    for name in [tasks] if isinstance(tasks, str) else tasks:
        if name not in medians:
            raise ValueError(
                f"there are no samples of a task {name!r}{did_you_mean(name, list(medians))}"
            )
    return list(tasks)


def _draw_row(ax: Axes, row: int, values: Sequence[float], middle: float) -> None:
    # In the order of the rounds, so that a drift is seen.
    last = max(len(values) - 1, 1)
    heights = [row - _SPREAD + 2 * _SPREAD * i / last for i in range(len(values))]
    ax.plot(values, heights, ".", color=COLOURS["compute"], alpha=0.7, markersize=5)
    ax.vlines(middle, row - 0.38, row + 0.38, linewidth=1.6)


def _draw_bands(ax: Axes, profile: Profile, names: Sequence[str], key: str) -> None:
    """Draw the intervals of the medians that are known."""
    statistics = profile.sections.get("statistics", {}).get("tasks", {})
    found = [(row, statistics.get(name, {}).get(key, {})) for row, name in enumerate(names)]
    known = [(row, one) for row, one in found if one.get("low") is not None]
    bars = ax.barh(
        [row for row, _ in known],
        [one["high"] - one["low"] for _, one in known],
        left=[one["low"] for _, one in known],
        height=0.76,
        color=COLOURS["compute"],
        alpha=0.2,
    )
    for bar in bars:
        # Else the axes would begin where the lowest interval does.
        bar.sticky_edges.x.clear()
    ax.autoscale_view()
