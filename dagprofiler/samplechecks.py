"""Whether a profile's samples can be, and its statistics are of them."""

from __future__ import annotations

from math import isclose
from typing import TYPE_CHECKING, Any

from dagprofiler.errors import ProfileError, json_path
from dagprofiler.rounds import MEASURED
from dagprofiler.samples import counting, measured_of
from dagprofiler.statistics import median

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["check_intervals", "check_samples"]

#: Columns of samples that are ours; those of a user's meter may be negative.
_NEVER_NEGATIVE = frozenset(
    {
        *("wall_ms", "corrected_ms", "serialize_ms", "deserialize_ms", "total_ms"),
        *("delay_ms", "cpu_ms", "process_cpu_ms", "children_cpu_ms", "gc_ms"),
        *("instructions", "page_faults", "voluntary_switches", "involuntary_switches"),
        *("read_bytes", "written_bytes", "resident_before_bytes", "peak_memory_bytes"),
        *("allocation_bytes", "size_bytes", "wire_bytes"),
    }
)

#: Times of ``execution_metrics``, and the columns of samples whose medians they are.
_TIMES = {
    "compute_time_ms": "wall_ms",
    "serialize_time_ms": "serialize_ms",
    "deserialize_time_ms": "deserialize_ms",
}

#: Largest difference between a median and that of its samples, absolute or as a share:
#: times are written to the nanosecond.
_ROUNDING = 1e-6


def check_samples(
    samples: Mapping[str, Any],
    statistics: Mapping[str, Any],
    metrics: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Refuse samples that cannot be, and statistics that contradict them.

    Parameters
    ----------
    samples, statistics
        The sections of a document that satisfies ``PROFILE_SCHEMA``;
        `statistics` may be empty.
    metrics
        Its ``execution_metrics``.

    Raises
    ------
    ProfileError
        At the first column that has not an entry for each round, sample of ours
        below 0, summary whose number of samples or median is another one, or time in
        `metrics` that is not the median of its samples.

    Examples
    --------
    >>> samples = {"rounds": ["measured"], "total_ms": [4.0], "tasks": {}}
    >>> check_samples(samples, {"total_ms": {"median": 4.0, "n": 2}})
    Traceback (most recent call last):
    dagprofiler.errors.ProfileError: $.statistics.total_ms.n: 2 values here, but 1 in samples
    """
    kinds = samples["rounds"]
    columns = dict(_entries(samples))
    for path, values in columns.items():
        if len(values) != len(kinds):
            raise _error(f"{len(values)} entries for {len(kinds)} rounds", "samples", *path)
        if path[-1] in _NEVER_NEGATIVE and min([v for v in values if v is not None], default=0) < 0:
            i = next(i for i, v in enumerate(values) if v is not None and v < 0)
            raise _error(f"{values[i]} is less than 0", "samples", *path, i)
    for path, summary in _entries(statistics):
        # What stands on one side only contradicts nothing.
        if path in columns:
            measured = measured_of(counting(kinds, path[-1]), columns[path])
            _check_summary(summary, measured, path)
    for i, entry in enumerate(metrics):
        columns_of_task = samples["tasks"].get(entry["task"], {})
        for name, column in _TIMES.items():
            if name in entry and column in columns_of_task:
                _check_time(entry[name], kinds, columns_of_task[column], (i, name))


def check_intervals(statistics: Mapping[str, Any]) -> None:
    """Refuse summaries whose interval does not hold their median, or that is below their least."""
    for path, summary in _entries(statistics):
        for least, most in (("low", "median"), ("median", "high"), ("min", "median")):
            if least in summary and most in summary and summary[least] > summary[most]:
                raise _error(
                    f"{least} is {summary[least]}, more than {most}, which is {summary[most]}",
                    *("statistics", *path, least),
                )


def _entries(section: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield what a section holds of each quantity, with the place where it stands."""
    if "total_ms" in section:
        yield ("total_ms",), section["total_ms"]
    for kind in ("tasks", "edges"):
        for name, row in section.get(kind, {}).items():
            for column, entry in row.items():
                yield (kind, name, column), entry


def _check_time(
    time_ms: float, kinds: Sequence[str], column: Sequence[Any], path: tuple[Any, ...]
) -> None:
    # A run that ended before it measured has the times of the rounds that there were.
    values = measured_of(kinds if MEASURED in kinds else [MEASURED] * len(kinds), column)
    if values and not isclose(time_ms, median(values), rel_tol=_ROUNDING, abs_tol=2 * _ROUNDING):
        raise _error(
            f"{time_ms} here, but the median of the samples is {median(values)}",
            *("execution_metrics", *path),
        )


def _check_summary(summary: Mapping[str, Any], measured: list[Any], path: tuple[str, ...]) -> None:
    if len(measured) != summary["n"]:
        raise _error(
            f"{summary['n']} values here, but {len(measured)} in samples",
            *("statistics", *path, "n"),
        )
    middle = median(measured)
    if not isclose(summary["median"], middle, rel_tol=_ROUNDING, abs_tol=_ROUNDING):
        raise _error(
            f"{summary['median']} here, but the median of the samples is {middle}",
            *("statistics", *path, "median"),
        )


def _error(message: str, *path: str | int) -> ProfileError:
    return ProfileError(message, json_path(path))
