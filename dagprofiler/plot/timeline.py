"""The Gantt chart on axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dagprofiler.errors import short_repr
from dagprofiler.plot.canvas import COLOURS, label_rows, row_axes
from dagprofiler.report.series import timeline
from dagprofiler.report.subject import Subject

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes

    from dagprofiler.profile import Profile

__all__ = ["gantt"]

#: Height of the bars, where rows are 1 apart.
_BAR = 0.72


def gantt(
    profile: Profile,
    ax: Axes | None = None,
    *,
    by: str = "task",
    round: int | None = None,  # noqa: A002  (what the library calls it)
) -> Axes:
    """Draw when each task deserialized its inputs, computed, and serialized its outputs.

    A thin line before a bar is the time that a task was ready and waited.

    Parameters
    ----------
    profile
        With a timeline, which every profile has but those of 0.1.0 and of other tools.
    ax
        Where to; by default the axes of a new figure.
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
        If the profile has no timeline or no such round, or `by` is something else.
    """
    if by not in ("task", "worker"):
        raise ValueError(f"by must be 'task' or 'worker', got {short_repr(by)}")
    subject = Subject(profile)
    known = timeline(subject)
    if known is None:
        raise ValueError("the profile has no timeline: nothing says when its tasks ran")
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
    if number is None:
        first: int = known["first"]
        return first
    numbers = [one for one, _ in known["rounds"]]
    if number not in numbers:
        raise ValueError(
            f"round must be one of those in the timeline ({', '.join(map(str, numbers))}), "
            f"got {short_repr(number)}"
        )
    return number


def _start(known: Mapping[str, Any], record: int) -> float:
    """Return when the first phase of a record began."""
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
