import math
import random
from functools import partial
from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagprofiler.stats import ranktests
from dagprofiler.stats.ranktests import (
    INCONCLUSIVE,
    NO_DIFFERENCE,
    SLOWER,
    compare_apart,
    compare_interleaved,
    compare_ranks,
    fastest_p,
    holm,
    rounds_needed,
    verdicts,
)

compare_paired = partial(compare_ranks, paired=True)
compare_unpaired = partial(compare_ranks, paired=False)

SAMPLES = st.lists(st.floats(0.001, 1000.0), min_size=1, max_size=40)

#: Seven rounds each, also given to scipy 1.17.
A = [10.1, 10.4, 9.9, 10.8, 10.2, 11.0, 10.6]
B = [9.5, 9.8, 9.7, 10.0, 9.4, 10.3, 9.6]


def noisy(seed, n, sigma=0.03, factor=1.0):
    draw = random.Random(seed)
    return [factor * math.exp(draw.gauss(0.0, sigma)) for _ in range(n)]


def rank_sums(n, m):
    """Return U of all ways to mix n samples with m."""
    return [sum(places) - n * (n - 1) // 2 for places in combinations(range(n + m), n)]


def signed_ranks(n):
    """Return W of all signs of n ranks."""
    return [sum(r for r, s in enumerate(signs, 1) if s) for signs in product((0, 1), repeat=n)]


def depths(n, total, fastest):
    """Return the depth of all ways to choose n of `total` ranks."""
    return [
        sum(fastest - rank for rank in ranks if rank < fastest)
        for ranks in combinations(range(total), n)
    ]


@pytest.mark.parametrize(
    ("tails", "counted", "sizes"),
    [
        *((ranktests._rank_sum_tails, rank_sums, (n, m)) for n, m in [(1, 1), (1, 4), (3, 6)]),
        *((ranktests._signed_rank_tails, signed_ranks, (n,)) for n in (1, 2, 5, 8)),
        *((ranktests._depth_tails, depths, sizes) for sizes in [(1, 2, 0), (2, 7, 2), (5, 10, 3)]),
    ],
)
def test_exact_distributions_are_what_counting_gives(tails, counted, sizes):
    values, found = counted(*sizes), tails(*sizes)
    shares = [sum(value <= k for value in values) / len(values) for k in range(len(found))]
    assert found == pytest.approx(shares)
    assert len(found) > max(values)


@pytest.mark.parametrize(
    ("tails", "sizes", "exact_up_to", "off"),
    [
        (ranktests._rank_sum_tails, (30, 30), "_EXACT_UNPAIRED", 0.002),
        (ranktests._signed_rank_tails, (50,), "_EXACT_PAIRED", 0.002),
        (ranktests._depth_tails, (30, 60, 18), "_EXACT_FASTEST", 0.004),
    ],
)
def test_normal_approximations_continue_the_exact_distributions(
    monkeypatch, tails, sizes, exact_up_to, off
):
    exact = tails(*sizes)
    monkeypatch.setattr(ranktests, exact_up_to, 0)
    normal = tails.__wrapped__(*sizes)
    assert normal != exact
    assert normal == pytest.approx(exact, abs=off)


# Twice scipy's mannwhitneyu of log(A) - log1p(gate) and log(B), or wilcoxon of the difference,
# exact, one-sided.
@pytest.mark.parametrize(
    ("compare", "gate", "p"),
    [
        (compare_unpaired, 0.0, 0.006993006993006993),
        (compare_unpaired, 0.02, 0.03787878787878788),
        (compare_paired, 0.0, 0.015625),
        (compare_paired, 0.02, 0.015625),
    ],
)
def test_the_p_value_is_that_of_scipy(compare, gate, p):
    assert compare(A, B, gate).p == pytest.approx(p, abs=1e-15)
    assert compare(B, A, gate).p == pytest.approx(p, abs=1e-15)
    found = compare_unpaired(A, B)
    assert (found.low, found.high) == pytest.approx((9.9 / 9.7, 11.0 / 9.8))
    assert found.coverage == pytest.approx(0.9621212121212122)


@given(SAMPLES, SAMPLES)
def test_the_ratio_is_in_its_interval_and_inverts_with_the_sides(a, b):
    there, back = compare_unpaired(a, b), compare_unpaired(b, a)
    assert there.low <= there.ratio <= there.high
    assert there.smallest_p <= there.p <= 1
    assert there.p == back.p
    assert there.coverage == back.coverage
    assert there.low == pytest.approx(1 / back.high)
    assert there.ratio == pytest.approx(1 / back.ratio)


@given(st.integers(1, 30), st.integers(0, 10**6), st.sampled_from([0.5, 1.0, 1.1, 2.0]))
def test_interval_and_p_agree_where_the_core_changes_its_speed(n, seed, factor):
    here, kernel = under(modes(seed, n, 0.5), seed, factor)
    there, other_kernel = under(modes(seed + 1, n, 0.2), seed + 2)
    for compare in (compare_apart, compare_interleaved):
        found = compare(here, there, (kernel, other_kernel))
        assert found.low <= found.ratio <= found.high
        assert found.p > 0.05 or not found.low <= 1 <= found.high


@given(SAMPLES)
def test_a_set_of_samples_does_not_differ_from_itself(values):
    for compare in (compare_paired, compare_unpaired):
        found = compare(values, values)
        assert found.low <= 1 <= found.high
        assert found.ratio == pytest.approx(1.0)
        assert found.p == 1


@pytest.mark.parametrize("compare", [compare_paired, compare_unpaired])
def test_a_difference_within_the_gate_is_seldom_called_one(compare):
    errors = sum(
        compare(noisy(seed, 10, 0.01, factor=1.02), noisy(seed + 5000, 10, 0.01)).p <= 0.05
        for seed in range(200)
    )
    assert errors <= 10


@given(st.lists(st.floats(0, 1), max_size=20))
def test_holm_adjusts_step_by_step_and_keeps_the_order(p_values):
    adjusted = holm(p_values)
    assert all(p <= a <= 1 for p, a in zip(p_values, adjusted))
    assert sorted(adjusted) == [a for _, a in sorted(zip(p_values, adjusted))]
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert (holm([0.5, 0.9, 0.75]), holm([0.25]), holm([])) == ([1.0] * 3, [0.25], [])


@pytest.mark.parametrize(
    ("comparisons", "paired", "needed"),
    [(1, True, 5), (5, True, 6), (30, True, 8), (1, False, 4), (30, False, 7), (0, True, 1)],
)
def test_more_comparisons_need_more_rounds_for_a_verdict(comparisons, paired, needed):
    assert rounds_needed(comparisons, paired=paired) == needed
    compare = compare_interleaved if paired else compare_unpaired
    for n in (needed, needed - 1) if comparisons else ():
        slow = compare([2.0 + k for k in range(n)], [1.0] * n)
        found = verdicts({str(i): slow for i in range(comparisons)})
        assert {one.verdict for one in found.values()} == {SLOWER if n == needed else INCONCLUSIVE}
        few = f"rounds of each: {n}, and {needed} are needed for a verdict on {comparisons} "
        assert all(one.reason.startswith(few) == (n < needed) for one in found.values())


def test_what_cannot_be_compared_takes_no_power_from_the_rest():
    slow = compare_paired(noisy(1, 6, factor=2.0), noisy(2, 6))
    nothing = {str(i): compare_paired([0.0] * 6, [0.0] * 6) for i in range(20)}
    found = verdicts({**nothing, "slow": slow, "none": compare_paired([], [])})
    reason = "p = 0.031 after Holm's correction for 1 comparison"
    assert found["slow"] == (SLOWER, reason, True)
    assert found["3"] == (NO_DIFFERENCE, "all samples are 0", True)
    assert found["none"] == (INCONCLUSIVE, "no samples", False)
    assert list(found) == [*nothing, "slow", "none"]


def test_interleaved_rounds_are_judged_by_what_sees_more():
    draw = random.Random(7)
    shared = [math.exp(draw.gauss(0.0, 0.2)) for _ in range(20)]
    under_load = compare_interleaved(
        [1.1 * load * one for load, one in zip(shared, noisy(1, 20))],
        [load * one for load, one in zip(shared, noisy(2, 20))],
    )
    assert under_load.paired
    assert under_load.p < 0.001
    disturbed = [1.6 * t if i % 4 == 0 else t for i, t in enumerate(noisy(3, 20))]
    times = noisy(4, 20, factor=1.1)
    hit = compare_interleaved(times, disturbed)
    assert hit.p == 3 * fastest_p(times, disturbed) < 0.001
    assert min(compare_unpaired(times, disturbed).p, compare_paired(times, disturbed).p) > 0.01
    assert 1 < hit.low <= hit.ratio <= hit.high
    assert compare_interleaved([0.0, 1.0], [1.0, 1.0]).reason


def modes(seed, n, slow):
    """Return for n samples how much slower the core was: not at all, or 1.6 times."""
    draw = random.Random(seed)
    return [1.6 if draw.random() < slow else 1.0 for _ in range(n)]


def under(speeds, seed, factor=1.0, sensitivity=1.0):
    """Return times of a task and of the kernel at these speeds."""
    times = [t * s**sensitivity for t, s in zip(noisy(seed, len(speeds), 0.02, factor), speeds)]
    return times, [t * s for t, s in zip(noisy(seed + 50, len(speeds), 0.01), speeds)]


def test_a_tenth_is_found_on_a_core_that_is_slow_half_the_time():
    found = wrong = blind = 0
    for seed in range(0, 600, 60):
        here, kernel = under(modes(seed, 30, 0.5), seed, 1.1)
        same, same_kernel = under(modes(seed + 1, 30, 0.4), seed + 1)
        there, other_kernel = under(modes(seed + 2, 30, 0.5), seed + 2)
        found += compare_interleaved(here, there, (kernel, other_kernel)).p < 0.005
        wrong += compare_interleaved(same, there, (same_kernel, other_kernel)).p < 0.05
        blind += compare_paired(here, there).p < 0.0025 or compare_unpaired(here, there).p < 0.0025
    assert (found, wrong) == (10, 0)
    assert blind < found


def test_sets_taken_apart_are_judged_where_their_speeds_allow():
    calm, kernel = under([1.0] * 10, 1)
    slower_machine, slow_kernel = under([1.6] * 10, 2)
    slower_task, same_kernel = under([1.0] * 10, 3, 1.3)
    other, other_kernel = under([1.0] * 10, 4)
    assert compare_apart(calm, other, (kernel, other_kernel)).p > 0.05
    machine = compare_apart(slower_machine, calm, (slow_kernel, kernel))
    task = compare_apart(slower_task, calm, (same_kernel, kernel))
    both = compare_apart([3 * t for t in slower_machine], calm, (slow_kernel, kernel))
    judged = verdicts({"machine": machine, "task": task, "both": both})
    assert [judged[name].verdict for name in judged] == [INCONCLUSIVE, SLOWER, SLOWER]
    assert "speed changed" in judged["machine"].reason
    assert compare_apart(calm, slower_machine).p < 0.001
