"""Which of several tasks that are ready goes first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dagprofiler.errors import GraphError, ValidationError, short_repr
from dagprofiler.graph import bottom_levels
from dagprofiler.profile import Profile
from dagprofiler.sources import times_of_tasks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dagprofiler.graph import Wiring

__all__ = ["ranking"]


def ranking(
    wiring: Wiring, estimates: Mapping[int, int], priorities: Any
) -> tuple[str | None, list[int] | None]:
    """Return what tells, and all task numbers, that with the longest path behind it first.

    Both are None where nothing tells.

    Parameters
    ----------
    wiring
        The graph.
    estimates
        Task number to what its cost model says, where it has one.
    priorities
        A profile, a mapping of task names to times, or None.

    Raises
    ------
    ValidationError
        If `priorities` is something else, or lacks a task.
    """
    names = wiring.names
    if priorities is None:
        if len(estimates) < len(names):
            return None, None
        source = "cost_models"
        weights: Sequence[float] = [estimates[i] for i in range(len(names))]
    else:
        source = "profile" if isinstance(priorities, Profile) else "given"
        times = _times(priorities)
        missing = [name for name in names if name not in times]
        if missing:
            more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
            raise _refused(f"no time for {', '.join(map(repr, missing[:5]))}{more}")
        weights = [times[name] for name in names]
    levels = bottom_levels(wiring.order, wiring.targets, wiring.first_target, weights)
    return source, sorted(range(len(names)), key=lambda i: (-levels[i], i))


def _times(priorities: Any) -> Mapping[str, float]:
    if isinstance(priorities, Profile):
        return times_of_tasks(priorities)
    if not isinstance(priorities, Mapping):
        raise _refused(f"expected a Profile or {{task: time}}, got {short_repr(priorities)}")
    from dagprofiler.metering import plain_number

    times = {}
    for name, given in priorities.items():
        time = plain_number(given)
        if time is None or time < 0:
            raise _refused(
                f"time of task {name!r} must be a number of at least 0, got {short_repr(given)}"
            )
        times[name] = time
    return times


def _refused(problem: str) -> ValidationError:
    return ValidationError([GraphError(f"priorities: {problem}")])
