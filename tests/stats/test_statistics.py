import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagprofiler.stats import corrected, flags, median, summarize

SAMPLES = st.lists(st.floats(0.001, 1000.0), min_size=1, max_size=40)


@pytest.mark.parametrize("function", [median, summarize])
def test_of_nothing_there_is_no_median(function):
    with pytest.raises(ValueError, match=r"no samples: .* needs at least 1"):
        function([])


# The coverages are 1 - 2 * scipy.stats.binom.cdf(rank - 1, n, 0.5), the ranks those of
# scipy.stats.quantile_test from n = 6 on.
@pytest.mark.parametrize(
    ("n", "low", "high", "coverage"),
    [
        (1, 1, 1, 0.0),
        (2, 1, 2, 0.5),
        (6, 1, 6, 0.96875),
        (10, 2, 9, 0.978515625),
        (20, 6, 15, 0.9586105346679688),
        (1000, 469, 532, 0.9537088026395019),
        (5001, 2431, 2571, 0.9522736955323159),
    ],
)
def test_the_interval_of_a_median_is_two_order_statistics(n, low, high, coverage):
    values = list(range(1, n + 1))
    random.Random(n).shuffle(values)
    assert summarize(values)[2:5] == (low, high, pytest.approx(coverage, abs=1e-15))


@given(SAMPLES)
def test_the_interval_holds_the_median_and_the_summary_agrees(values):
    found = summarize(values)
    assert min(values) <= found.low <= found.median <= found.high <= max(values)
    assert 0 <= found.coverage < 1
    assert (found.median, found.min, found.n) == (median(values), min(values), len(values))


@pytest.mark.parametrize(
    ("wall", "delay", "cpu", "expected"),
    [
        (10.0, None, 3.0, None),
        (10.0, 4.0, None, 6.0),
        (10.0, 4.0, 3.0, 6.0),
        (10.0, 9.0, 7.0, 7.0),
        (10.0, 25.0, 7.0, 7.0),
        (10.0, 25.0, None, 0.0),
        (10.0, -1.0, 2.0, 10.0),
        (0.0, 0.5, 0.5, 0.0),
    ],
)
def test_a_corrected_time_is_between_cpu_and_wall(wall, delay, cpu, expected):
    assert corrected(wall, delay, cpu) == expected


STEADY = [10.0, 10.1, 9.9, 10.05, 9.95, 10.0, 10.02, 9.98]
TENS, HUNDREDS = [10.0] * 8, [100.0] * 6
RAW = [14.0, 10.0, 19.0, 10.0, 13.0, 30.0]
TINY = [0.0050, 0.0055, 0.0049, 0.0051, 0.0058, 0.0050]


@pytest.mark.parametrize(
    ("columns", "raised"),
    [
        (([],), []),
        ((STEADY, STEADY, [0.01] * 8, STEADY, STEADY), []),
        # An interval that reaches over 5 %, or too few rounds for one of 95 %, is wide.
        (([9.6, 9.7, 10.0, 10.0, 10.3, 10.4],), []),
        (([9.6, 9.7, 10.0, 10.0, 10.3, 10.6],), ["wide_interval"]),
        (([10.0] * 5,), ["wide_interval"]),
        # Of few rounds nothing is known of drift and outliers.
        (([10.0, 10.0, 10.0, 20.0, 20.0],), ["wide_interval"]),
        # The corrected times are judged where there are any.
        ((RAW, [10.0] * 6), []),
        ((RAW, [10.0, None, 10.0, 10.0, 10.0, 10.0]), ["wide_interval"]),
        # Waiting for a core in a quarter of the rounds is contended.
        ((TENS, TENS, [0.6, 0, 0, 0, 0, 0.4, 0, 0]), []),
        ((TENS, TENS, [0.6, 0, 0, 0, 0, 0.6, 0, 0]), ["contended"]),
        ((TENS, TENS, [0.6, None, None, None, None, 0, 0, 0]), ["contended"]),
        # Under a tenth of a millisecond is short.
        (([0.0999] * 6,), ["short"]),
        (([0.1] * 6,), []),
        # CPU time beyond that of the thread is that of several threads.
        ((HUNDREDS, HUNDREDS, (), HUNDREDS, [109.0] * 6), []),
        ((*[HUNDREDS] * 2, (), HUNDREDS, [190.0, 190.0, None, *[195.0] * 3]), ["several_threads"]),
        # Time with neither core nor queue is waiting, if the queue is known.
        ((HUNDREDS, [96.0] * 6, [4.0] * 6, [87.0] * 6), []),
        ((HUNDREDS, [96.0] * 6, [4.0] * 6, [40.0] * 6), ["waits"]),
        ((HUNDREDS, [None] * 6, [None] * 6, [40.0] * 6), []),
        # Of one round only what one round shows is said.
        (([200.0], [160.0], [40.0], [80.0], [150.0]), ["contended", "several_threads", "waits"]),
        # Halves that differ by over 10 percent drift; of the last of these only thirds do.
        (([10.0] * 3 + [10.9] * 3,), []),
        (([10.0] * 10 + [11.5] * 10,), ["wide_interval", "drifting"]),
        (([10.0] * 4 + [11.5] * 16,), ["outliers"]),
        # A round far away is an outlier either way, not a tick of the clock or what hardly varies.
        (([*STEADY, 14.0],), ["outliers"]),
        (([*STEADY, 7.0],), ["outliers"]),
        (([0.0020] * 9 + [0.0021],), ["short"]),
        # The median is 10.5, the median deviation 1: 5.19 is 3.5 of them for samples of a normal.
        (([*[9.0, 11.0] * 3, 10.0, 15.6],), ["wide_interval"]),
        (([*[9.0, 11.0] * 3, 10.0, 15.8],), ["wide_interval", "outliers"]),
        # A task of microseconds is only short, whatever the clocks read around it.
        ((TINY, TINY, [0.0, 9e-4, 0, 0, 0, 9e-4], [0.0] * 6, [t + 0.009 for t in TINY]), ["short"]),
    ],
)
def test_what_raises_a_flag_and_what_does_not(columns, raised):
    assert flags(*columns) == raised
