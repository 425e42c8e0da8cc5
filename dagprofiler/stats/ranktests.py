"""Rank tests: whether one set of samples is faster than another, or slower."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from dagprofiler.errors import counted
from dagprofiler.stats import CONFIDENCE, DIFFERENCE, median, middle_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Ratios between 1 / (1 + GATE) and 1 + GATE count as no difference.
GATE = 0.02
#: The same for samples that were taken one set after the other.
GATE_APART = 0.05
#: Probability of finding any difference where there is none.
ALPHA = 0.05
#: Pairs of samples, paired samples, and samples in all, up to which distributions are exact.
_EXACT_UNPAIRED, _EXACT_PAIRED, _EXACT_FASTEST = 900, 50, 120
#: Share of all samples whose ranks :func:`fastest_p` looks at.
FASTEST = 0.3

FASTER = "faster"
SLOWER = "slower"
NO_DIFFERENCE = "no significant difference"
INCONCLUSIVE = "inconclusive"


#: Samples in one unit; and two sets of them.
Times = Sequence[float]
Sets = tuple[Times, Times]


class RankResult(NamedTuple):
    """The comparison of one set of samples with another.

    Attributes
    ----------
    n
        Number of samples in each set.
    paired
        Whether sample i of one set belongs to sample i of the other.
    ratio
        Typical ratio of a sample to one of the other set, by Hodges and Lehmann;
        above 1 is slower. None, like its interval, if a sample is 0 or there are none.
    low, high
        Confidence interval of `ratio`; always contains it.
    coverage
        Probability that the interval covers the true ratio; below 0.95 if there are
        too few samples.
    p
        Two-sided p-value of "the ratio is within 1 / (1 + gate) and 1 + gate".
    smallest_p
        The smallest possible `p` for this number of samples; both are 1 without a test.
    reason
        Why there is nothing to test, or "".
    doubt
        Why a difference that some tests find cannot be relied on, or "".
    """

    n: tuple[int, int]
    paired: bool
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    coverage: float | None = None
    p: float = 1.0
    smallest_p: float = 1.0
    reason: str = ""
    doubt: str = ""


class Verdict(NamedTuple):
    """What a comparison means.

    Attributes
    ----------
    verdict
        `FASTER`, `SLOWER`, `NO_DIFFERENCE` or `INCONCLUSIVE`.
    reason
        Why.
    comparable
        Whether there was anything to judge. If it is true and the verdict is `INCONCLUSIVE`, only
        the interval is too wide.
    """

    verdict: str
    reason: str
    comparable: bool = True


def compare_ranks(times: Times, other: Times, gate: float = GATE, *, paired: bool) -> RankResult:
    """Compare two sets of samples by their ranks.

    Parameters
    ----------
    times, other
        Samples in one unit, at least 0.
    gate
        Largest relative difference that counts as none, at least 0.
    paired
        Whether ``times[i]`` belongs to ``other[i]``, as in interleaved rounds. Otherwise the
        samples are independent, such as rounds in fresh processes.

    Returns
    -------
    RankResult
        Of `times` divided by `other`. If all samples are 0 there is nothing to test,
        and the ratio is 1; there is no ratio if only some are 0.

    Notes
    -----
    Effects are differences of the samples' logarithms. Independent samples: estimate and interval
    from all differences, Hodges and Lehmann, Ann. Math. Stat. 34(2), 1963; p-value from Mann and
    Whitney, Ann. Math. Stat. 18(1), 1947. Paired samples: estimate and interval from the Walsh
    averages, p-value from the signed-rank test of Wilcoxon, Biometrics Bulletin 1(6), 1945,
    whose statistic is the number of Walsh averages above 0 (Tukey, 1949).

    Both statistics are the number of effects above 0, so that ``tails[k]`` is the probability of
    at most k effects on one side. The p-value is taken once against each end of the gate, and
    doubled. Distributions are exact up to 900 pairs of samples, or 50 paired ones, then normal
    with continuity correction. Ties count against a difference. O(n m log(n m)) time.
    """
    trivial = _trivial(times, other, paired=paired)
    if trivial:
        return trivial
    size = len(times), len(other)
    logs, others = ([math.log(value) for value in values] for values in (times, other))
    if paired:
        logs = [a - b for a, b in zip(logs, others)]
        effects = sorted([(a + b) / 2 for i, a in enumerate(logs) for b in logs[i:]])
        tails, ways = _signed_rank_tails(size[0]), 2 ** size[0]
    else:
        effects = sorted([a - b for a in logs for b in others])
        tails, ways = _rank_sum_tails(*sorted(size)), math.comb(sum(size), size[0])
    end = math.log1p(gate)
    slower = tails[bisect_right(effects, end)]
    faster = tails[len(effects) - bisect_left(effects, -end)]
    beyond = max(bisect_right(tails, (1 - CONFIDENCE) / 2) - 1, 0)
    return RankResult(
        size,
        paired,
        math.exp(middle_of(effects)),
        math.exp(effects[beyond]),
        math.exp(effects[-1 - beyond]),
        max(1 - 2 * tails[beyond], 0.0),
        min(1.0, 2 * min(slower, faster)),
        2 / ways,
    )


def compare_apart(times: Times, other: Times, kernels: Sets | None = None) -> RankResult:
    """Compare samples that were taken one set after the other, such as two saved profiles.

    Parameters are those of :func:`compare_interleaved`, but the sets may differ in length.

    Notes
    -----
    The machine may have changed between the sets, so the gate is wider, and a difference
    counts only if rank sums find it both in the samples and in those :func:`without_speed`. If
    the kernels of the two sets differ by more than the gate, the exponent is not known either:
    then the difference must hold for the exponents 0 and 1 too, or `doubt` says why it is none.
    """
    raw = compare_ranks(times, other, GATE_APART, paired=False)
    if raw.reason or kernels is None:
        return raw
    kernel_ms, other_ms = median(kernels[0]), median(kernels[1])
    changed = not 1 / (1 + GATE_APART) <= kernel_ms / other_ms <= 1 + GATE_APART
    results = [raw]
    for exponent in (None, 1.0) if changed else (None,):
        samples = without_speed((times, other), kernels, exponent)
        results.append(compare_ranks(*samples, GATE_APART, paired=False))
    ps = [result.p for result in results]
    agree = len({(result.ratio or 1.0) > 1 for result in results}) == 1
    doubt = ""
    if changed and min(ps) <= ALPHA:
        doubt = (
            f"the machine's speed changed: a fixed kernel took {other_ms:.3g} ms in the base and "
            f"{kernel_ms:.3g} ms now, which may account for the difference, or hide one"
        )
    return results[1]._replace(p=max(ps) if agree else 1.0, doubt=doubt)


def compare_interleaved(times: Times, other: Times, kernels: Sets | None = None) -> RankResult:
    """Compare interleaved rounds by the most sensitive of three tests.

    Parameters
    ----------
    times, other
        As for :func:`compare_ranks`, paired.
    kernels
        For each set the times of a fixed kernel that ran next to each sample, above 0.

    Notes
    -----
    Signed ranks are robust to a load that both rounds of a pair share, rank sums to
    disturbances of single rounds; both are of samples :func:`without_speed`. The third
    test is :func:`fastest_p`, of the samples themselves: a core that is slow at times makes
    samples a mixture, whose fast mode is narrow. It counts only in the direction of an interval
    that excludes 1, so that no verdict contradicts its interval. The smallest p-value is
    multiplied by three (Bonferroni's correction).
    """
    trivial = _trivial(times, other, paired=True)
    if trivial:
        return trivial
    samples = (times, other) if kernels is None else without_speed((times, other), kernels)
    pairs, sums = (compare_ranks(*samples, paired=paired) for paired in (True, False))
    best = pairs if pairs.p <= sums.p else sums
    p, low, high = best.p, best.low or 0.0, best.high or 0.0
    if low > 1:
        p = min(p, fastest_p(times, other))
    elif high < 1:
        p = min(p, fastest_p(other, times))
    # Rank sums have the smallest p-value.
    smallest_p = min(1.0, 3 * sums.smallest_p)
    return best._replace(paired=True, p=min(1.0, 3 * p), smallest_p=smallest_p)


def without_speed(samples: Sets, kernels: Sets, exponent: float | None = None) -> Sets:
    """Return two sets of samples at the typical speed of the machine.

    Parameters
    ----------
    samples
        Two sets of times, above 0.
    kernels
        For each sample the time of a fixed kernel that ran next to it, above 0.
    exponent
        How a sample grows with its kernel: 0 not at all, 1 in proportion. None for the one of
        0, 0.2, ..., 1.2 with the least spread within the sets.

    Notes
    -----
    Each sample is divided by (kernel / median kernel) ** exponent: a control variate, Lavenberg
    and Welch, Management Science 27(3), 1981, whose coefficient is fitted with Gini's mean
    difference, since times have long tails. A task is slowed less than the kernel if the core
    was slow during a part of it only, or if it waits for memory: so the exponent is fitted.

    Examples
    --------
    >>> fast, slow = without_speed(([10.0, 16.0], [16.0, 10.0]), ([5, 8], [8, 5]), 1.0)
    >>> [round(time, 6) for time in fast + slow]
    [13.0, 13.0, 13.0, 13.0]
    """
    typical = math.log(median([*kernels[0], *kernels[1]]))
    speeds = [[math.log(time) - typical for time in of_set] for of_set in kernels]
    logs = [[math.log(time) for time in of_set] for of_set in samples]

    def freed(exponent: float) -> list[list[float]]:
        return [
            [log - exponent * speed for log, speed in zip(of_logs, of_speeds)]
            for of_logs, of_speeds in zip(logs, speeds)
        ]

    if exponent is None:
        exponent = min(
            (0.2 * step for step in range(7)),
            key=lambda exponent: sum(map(_mean_difference, freed(exponent))),
        )
    one, two = ([math.exp(log) for log in of_set] for of_set in freed(exponent))
    return one, two


def _mean_difference(values: Sequence[float]) -> float:
    """Return Gini's mean difference of values, times the number of pairs."""
    n = len(values)
    return sum([factor * value for factor, value in zip(range(1 - n, n, 2), sorted(values))])


def fastest_p(times: Times, other: Times) -> float:
    """Return a p-value of "`times` are slower", from the ranks of the fastest 30 % of all samples.

    Parameters
    ----------
    times, other
        Samples in one unit.

    Notes
    -----
    A rank test, against the end of the gate, in which all samples but the fastest have the same
    score. Its p-value is doubled, since the caller has chosen the direction by the samples. Ties
    count against a difference. The distribution is exact for up to 120 samples, then normal.
    """
    n, total = len(times), len(times) + len(other)
    fastest = int(FASTEST * total)
    ranked = sorted([*((time / (1 + GATE), 0) for time in times), *((time, 1) for time in other)])
    depth = sum(fastest - rank for rank, (_, whose) in enumerate(ranked[:fastest]) if not whose)
    return min(1.0, 2 * _depth_tails(n, total, fastest)[depth])


def _trivial(times: Times, other: Times, *, paired: bool) -> RankResult | None:
    """Return the comparison of samples without logarithms; None if all have one."""
    size = len(times), len(other)
    if not all(size):
        return RankResult(size, paired, reason="no samples")
    if not any(times) and not any(other):
        return RankResult(size, paired, 1.0, 1.0, 1.0, 1.0, reason="all samples are 0")
    if 0 in times or 0 in other:
        return RankResult(size, paired, reason="a sample is 0, so there is no ratio")
    return None


@lru_cache(maxsize=128)
def _rank_sum_tails(n: int, m: int) -> list[float]:
    """Return P(U <= k) of the Mann-Whitney statistic for k from 0 to n m."""
    # Both sets have the same distribution; the sums of the smaller one are fewer.
    fewer = min(n, m)
    sums = _sum_tails(fewer, range(n + m), is_exact=n * m <= _EXACT_UNPAIRED)
    return sums[fewer * (fewer - 1) // 2 :]


@lru_cache(maxsize=128)
def _depth_tails(n: int, total: int, fastest: int) -> list[float]:
    """Return P(depth <= k) for all k, of `n` samples among `total`.

    A sample of rank r, from 0, adds `fastest` - r to the depth if that is above 0.
    """
    scores = [max(fastest - rank, 0) for rank in range(total)]
    return _sum_tails(n, scores, is_exact=total <= _EXACT_FASTEST)


def _sum_tails(n: int, scores: Sequence[int], *, is_exact: bool) -> list[float]:
    """Return P(sum <= k) for all k, of `n` scores that are chosen at random."""
    if is_exact:
        return _tails(_subset_sums(scores, n)[n])
    total = len(scores)
    mean = sum(scores) / total
    deviations = sum([(score - mean) ** 2 for score in scores])
    variance = n * (total - n) * deviations / (total * (total - 1))
    return _normal_tails(sum(sorted(scores)[-n:]), n * mean, variance)


@lru_cache(maxsize=128)
def _signed_rank_tails(n: int) -> list[float]:
    """Return P(W <= k) of the signed-rank statistic for k from 0 to n (n + 1) / 2."""
    most = n * (n + 1) // 2
    if n > _EXACT_PAIRED:
        return _normal_tails(most, most / 2, most * (2 * n + 1) / 12)
    return _tails(_subset_sums(range(1, n + 1), n).sum(axis=0))


def _subset_sums(scores: Sequence[int], most: int) -> NDArray[np.float64]:
    """Return how many subsets of up to `most` scores there are, by their size and their sum."""
    import numpy as np

    largest = sum(sorted(scores)[-most:])
    ways = np.zeros((most + 1, largest + 1))
    ways[0, 0] = 1
    for score in scores:
        ways[1:, score:] += ways[:-1, : largest + 1 - score]
    return ways


def _tails(ways: NDArray[np.float64]) -> list[float]:
    """Return the share of ways up to each place."""
    below = ways.cumsum()
    tails: list[float] = (below / below[-1]).tolist()
    return tails


def _normal_tails(most: int, mean: float, variance: float) -> list[float]:
    """Return P(X <= k) of a normal distribution for k from 0 to `most`."""
    scale = math.sqrt(2 * variance)
    return [math.erfc((mean - k - 0.5) / scale) / 2 for k in range(most + 1)]


def rounds_needed(comparisons: int, *, paired: bool) -> int:
    """Return the smallest number of rounds of each side that allows a verdict.

    With this number, a difference is found only if no round contradicts it, so take a
    few more. Paired rounds are compared by :func:`compare_interleaved`.

    Examples
    --------
    >>> rounds_needed(1, paired=True), rounds_needed(30, paired=True)
    (5, 8)
    """
    # Of interleaved rounds there are three tests; rank sums have the smallest p-value.
    n, tests = 1, 3 if paired else 1
    while tests * 2 / math.comb(2 * n, n) * comparisons > ALPHA:
        n += 1
    return n


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for their number, in the same order.

    Notes
    -----
    The step-down procedure of Holm, Scand. J. Stat. 6(2), 1979: rejecting where
    the adjusted p-value is at most alpha has a family-wise error rate of at most alpha.

    Examples
    --------
    >>> holm([0.25, 0.01, 0.125])
    [0.25, 0.03, 0.25]
    """
    adjusted = [1.0] * len(p_values)
    largest = 0.0
    for done, i in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - done) * p_values[i]))
        adjusted[i] = largest
    return adjusted


def verdicts(
    comparisons: Mapping[str, RankResult], difference: float = DIFFERENCE
) -> dict[str, Verdict]:
    """Return a verdict and its reason for each name.

    Parameters
    ----------
    comparisons
        All comparisons that are judged together; Holm's correction is for the number
        of those with a p-value.
    difference
        The smallest relative difference that matters, above 0.

    Returns
    -------
    dict of str to Verdict
        In the same order. "inconclusive" if not even the smallest possible p-value for
        this number of rounds would be significant among so many comparisons, or if nothing was
        found while the interval has ratios outside ``1 / (1 + difference)`` to
        ``1 + difference``: a difference that matters might not have been seen.
    """
    p_values = {name: c.p for name, c in comparisons.items() if not c.reason}
    adjusted = dict(zip(p_values, holm([*p_values.values()])))
    return {
        name: _verdict(comparison, adjusted.get(name, 1.0), len(adjusted), difference)
        for name, comparison in comparisons.items()
    }


def _verdict(comparison: RankResult, adjusted: float, count: int, difference: float) -> Verdict:
    ratio, low, high, most = comparison.ratio, comparison.low, comparison.high, 1 + difference
    if ratio is None:
        return Verdict(INCONCLUSIVE, comparison.reason, comparable=False)
    if comparison.reason:
        return Verdict(NO_DIFFERENCE, comparison.reason)
    among = counted(count, "comparison")
    tested = f"p = {adjusted:.2g} after Holm's correction for {among}"
    if adjusted <= ALPHA:
        return Verdict(FASTER if ratio < 1 else SLOWER, tested)
    if comparison.smallest_p * count > ALPHA:
        needed = rounds_needed(count, paired=comparison.paired)
        n = min(comparison.n)
        reason = f"rounds of each: {n}, and {needed} are needed for a verdict on {among}"
        return Verdict(INCONCLUSIVE, reason, comparable=False)
    if comparison.doubt:
        return Verdict(INCONCLUSIVE, comparison.doubt, comparable=False)
    if low and high and low * most >= 1 and high <= most:
        return Verdict(NO_DIFFERENCE, tested)
    reason = (
        f"a difference of {100 * difference:.3g} % might not have been seen, as the interval is "
        "wider; take more rounds, or longer tasks"
    )
    return Verdict(INCONCLUSIVE, reason)
