"""Statistics of repeated samples: medians, their intervals, and flags."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, Optional

#: One quantity, an entry for each round; None where it was not measured.
Column = Sequence[Optional[float]]

CONFIDENCE = 0.95
#: The smallest relative difference that matters, unless another one is asked for.
DIFFERENCE = 0.10
#: The fewest samples with a 95 % interval of their median, whose coverage is 1 - 2 ** (1 - n).
FEWEST_ROUNDS = 6

#: Widest interval of a median, as a share of it, that is not flagged.
PRECISION = 0.05
#: Largest share of a wall time spent waiting for a core that is not flagged.
CONTENDED = 0.05
#: A task is contended if at least this share of its rounds is.
CONTENDED_ROUNDS = 0.25
#: Largest difference between the medians of the two halves that is not flagged.
DRIFT = 0.10
#: Iglewicz and Hoaglin's limit for the modified z-score.
OUTLIER_SCORE = 3.5
#: Smallest deviation of an outlier, as a share of the median: by the score alone,
#: single clock ticks would be outliers among nearly constant samples.
OUTLIER_DEVIATION = 0.10
#: Median below which a task is too short to time, in ms.
SHORT_MS = 0.1
#: Largest share of the wall time for other threads or waiting that is not flagged.
ASIDE = 0.10
#: Differences of wall times below this are noise of clock and meters, in ms.
WALL_FLOOR_MS = 0.001
#: The same for CPU times. They are read around the other meters; Windows counts
#: them in ticks of 15.6 ms, of which a difference of two can be off by two.
CPU_FLOOR_MS = 32.0 if sys.platform == "win32" else 0.05

#: What each flag of a task means, in the order in which they are listed.
FLAGS = {
    "wide_interval": (
        "The confidence interval of the median reaches over 5 % away from it, "
        "or there are too few rounds for one of 95 %."
    ),
    "contended": (
        "In at least a quarter of the rounds the task spent over 5 % of its wall time "
        "waiting for a core."
    ),
    "drifting": "The medians of the first and the second half of the rounds differ by over 10 %.",
    "outliers": (
        "Some rounds lie far from the median: modified z-score over 3.5 and over 10 % away."
    ),
    "short": "The median is under 0.1 ms: it includes the cost of reading the clocks.",
    "several_threads": (
        "Other threads of the process used CPU time worth over 10 % of the task's wall time."
    ),
    "waits": (
        "For over 10 % of its wall time the task neither ran nor waited for a core: "
        "it slept, or waited for data, for another thread or for the machine's host."
    ),
    "outputs_differ": "The outputs, as serialized, were not the same in all rounds.",
}


class Summary(NamedTuple):
    """Statistics of one column of samples.

    Attributes
    ----------
    median, mad, low, high, min
        In the unit of the samples. `mad` is the raw median absolute deviation,
        `low` and `high` are the ends of the median's confidence interval.
    coverage
        Probability that the interval covers the median, 0 to 1; see `summarize`.
    n
        Number of samples, at least 1.
    """

    median: float
    mad: float
    low: float
    high: float
    coverage: float
    min: float
    n: int

    @property
    def reach(self) -> float:
        """How far the interval reaches from the median, to its longer side."""
        return max(self.high - self.median, self.median - self.low)

    @property
    def half_width(self) -> float:
        """How far the interval reaches from the median, as a share of it.

        The longer side counts, so that 0.05 means "within ±5 %". Infinite for one
        sample, and for a median of 0 whose interval is wider than 0.
        """
        if not self.coverage:
            return math.inf
        if not self.reach:
            return 0.0
        return self.reach / abs(self.median) if self.median else math.inf


def median(values: Sequence[float]) -> float:
    """Return the median of one or more numbers."""
    return middle_of(sorted(values))


def summarize(values: Sequence[float]) -> Summary:
    """Return the statistics of one or more samples.

    Parameters
    ----------
    values
        At least one number; independent samples of one distribution.

    Returns
    -------
    Summary
        Its interval is the narrowest symmetric pair of order statistics that covers the median
        with a probability of at least 0.95. Fewer than 6 samples give the smallest and the
        largest, with a lower coverage: ``1 - 2 ** (1 - n)``, which is 0 for one sample.

    Raises
    ------
    ValueError
        Without values.

    Notes
    -----
    The interval that inverts the sign test: David and Nagaraja, Order Statistics,
    3rd edition, 2003, section 7.1. It needs no assumption on the distribution. Divided by 0.6745
    the deviation estimates the standard deviation of normal samples.

    Examples
    --------
    >>> summarize([5.0, 1.0, 4.0, 2.0, 6.0, 3.0])[:5]
    (3.5, 1.5, 1.0, 6.0, 0.96875)
    """
    ordered = sorted(values)
    middle = middle_of(ordered)
    rank, coverage = _median_rank(len(ordered))
    deviation = middle_of(sorted([abs(value - middle) for value in ordered]))
    ends = ordered[rank], ordered[-1 - rank]
    return Summary(middle, deviation, *ends, coverage, ordered[0], len(ordered))


def middle_of(ordered: Sequence[float]) -> float:
    """Return the median of sorted values."""
    n = len(ordered)
    if not n:
        raise ValueError("no samples: a median needs at least 1")
    half = n // 2
    return ordered[half] if n % 2 else (ordered[half - 1] + ordered[half]) / 2


@lru_cache(maxsize=1024)
def _median_rank(n: int) -> tuple[int, float]:
    """Return the number of samples beyond each end of the interval, and its coverage."""
    ways = below = 1
    rank, coverage = 0, 1 - 2 / 2**n
    for k in range(1, (n + 1) // 2):
        ways = ways * (n - k + 1) // k
        below += ways
        narrower = 1 - 2 * below / 2**n
        if narrower < CONFIDENCE:
            break
        rank, coverage = k, narrower
    return rank, coverage


def corrected(wall_ms: float, delay_ms: float | None, cpu_ms: float | None = None) -> float | None:
    """Return a wall time without the thread's run-queue delay.

    Parameters
    ----------
    wall_ms
        Wall time, at least 0.
    delay_ms
        The calling thread's run-queue delay, or None if it was not measured.
    cpu_ms
        The calling thread's CPU time, or None: a lower bound of the result.

    Returns
    -------
    float or None
        ``wall_ms - delay_ms``, but not less than `cpu_ms` and not more than
        `wall_ms`: delay and CPU time are read in a wider window than the wall clock,
        so either can exceed it. None without a delay.
    """
    if delay_ms is None:
        return None
    return min(wall_ms, max(wall_ms - delay_ms, cpu_ms or 0.0, 0.0))


def flags(
    wall_ms: Column,
    corrected_ms: Column = (),
    delay_ms: Column = (),
    cpu_ms: Column = (),
    process_cpu_ms: Column = (),
    *,
    outputs_differ: bool = False,
) -> list[str]:
    """Return the names of a task's flags; `FLAGS` explains them.

    Parameters
    ----------
    wall_ms, corrected_ms, delay_ms, cpu_ms, process_cpu_ms
        Columns over the measured rounds, in their order: wall time, the same
        without run-queue delay, that delay, CPU time of the thread, CPU time of the
        process. All but the first may be empty.
    outputs_differ
        Whether the task's outputs differed between rounds.

    Returns
    -------
    list of str
        In the order of `FLAGS`. A flag is not raised if its columns are missing or if
        it needs more rounds: an interval needs two, drift and outliers six. Spreads
        are those of the corrected times, or else of the wall times.

    Notes
    -----
    Modified z-score: Iglewicz and Hoaglin, How to Detect and Handle Outliers, ASQC
    Quality Press, 1993. Differences below the noise of the clocks (`WALL_FLOOR_MS`,
    `CPU_FLOOR_MS`) raise no flag.
    """
    walls = _measured(wall_ms)
    if not walls:
        return []
    times = _measured(corrected_ms) or walls
    summary = summarize(times)
    aside = max(ASIDE * median(walls), CPU_FLOOR_MS)
    widest = max(PRECISION * summary.median, WALL_FLOOR_MS)
    is_wide = summary.coverage < CONFIDENCE or summary.reach > widest
    raised = {
        "wide_interval": summary.n > 1 and is_wide,
        "contended": _is_contended(wall_ms, delay_ms),
        "drifting": _drifts(times, summary.median),
        "outliers": _has_outliers(times, summary),
        "short": summary.median < SHORT_MS,
        "several_threads": _typical_excess(process_cpu_ms, cpu_ms) > aside,
        "waits": _typical_excess(corrected_ms, cpu_ms) > aside,
        "outputs_differ": outputs_differ,
    }
    return [name for name in FLAGS if raised[name]]


def _measured(column: Column) -> list[float]:
    return [value for value in column if value is not None]


def _is_contended(wall_ms: Column, delay_ms: Column) -> bool:
    rounds = [
        delay > max(CONTENDED * wall, WALL_FLOOR_MS)
        for wall, delay in zip(wall_ms, delay_ms)
        if wall is not None and delay is not None
    ]
    return bool(rounds) and sum(rounds) >= CONTENDED_ROUNDS * len(rounds)


def _drifts(times: Sequence[float], middle: float) -> bool:
    half = len(times) // 2
    if len(times) < FEWEST_ROUNDS:
        return False
    difference = abs(median(times[:half]) - median(times[-half:]))
    return difference > max(DRIFT * middle, WALL_FLOOR_MS)


def _has_outliers(times: Sequence[float], summary: Summary) -> bool:
    by_score = OUTLIER_SCORE / 0.6745 * summary.mad
    far = max(by_score, OUTLIER_DEVIATION * summary.median, WALL_FLOOR_MS)
    farthest = max(max(times) - summary.median, summary.median - summary.min)
    return summary.n >= FEWEST_ROUNDS and farthest > far


def _typical_excess(larger: Column, smaller: Column) -> float:
    """Return the median difference over the rounds that have both; 0 if none has."""
    excesses = [a - b for a, b in zip(larger, smaller) if a is not None and b is not None]
    return median(excesses) if excesses else 0.0
