from __future__ import annotations

from statistics import median

import pytest
from steps import a_round, log_of

from dagprofiler._document.rounds import COLD, WARM_UP
from dagprofiler.engine.sections import differing_outputs, is_precise, samples_of


def test_what_was_not_measured_is_null():
    metered = [a_round(1, last, energy_J=[5, 6]) for last in (1, None)]
    log = log_of(*metered, a_round(1, 1))
    tasks = samples_of(log)["tasks"]
    assert tasks["a"]["energy_J"] == [5, 5, None]
    # What was read of a task that failed is no measurement of it.
    assert tasks["b"]["energy_J"] == [6, None, None]
    assert tasks["b"]["wall_ms"] == [1000.0, None, 1000.0]


def test_rounds_with_other_meters_share_their_columns():
    log = log_of(a_round(1, x=[1], y=[2]), a_round(1, y=[3], z=[4]), tasks="a")
    columns = samples_of(log)["tasks"]["a"]
    assert [columns[name] for name in "xyz"] == [[1, None], [2, 3], [None, 4]]


@pytest.mark.parametrize(
    ("metered", "corrected_ms"),
    [
        ({"delay_ms": [300.0]}, 700.0),
        ({"delay_ms": [300.0], "cpu_ms": [900.0]}, 900.0),
        ({"delay_ms": [300.0], "cpu_ms": [None]}, 700.0),
        ({"delay_ms": [None], "cpu_ms": [300.0]}, None),
    ],
)
def test_wall_times_are_corrected_for_the_delay(metered, corrected_ms):
    log = log_of(a_round(1.0, **metered), tasks="a")
    assert samples_of(log)["tasks"]["a"]["corrected_ms"] == [corrected_ms]


def test_outputs_differ_that_have_two_hashes_in_the_rounds_that_did_not_fail():
    rounds = [a_round(1, 1), a_round(1, 1), a_round(1, 1)]
    for round_log, (first, second) in zip(rounds, [(b"1", b"1"), (b"1", b"2"), (b"1", b"1")]):
        round_log.digests = {0: first, 1: second}
    assert differing_outputs(log_of(*rounds)) == ["b"]
    rounds = [a_round(1, 1), a_round(1, None), a_round(1, 1)]
    rounds[0].digests, rounds[1].digests, rounds[2].digests = {0: b"1", 1: b"2"}, {0: b"1"}, {}
    assert differing_outputs(log_of(*rounds)) == []


def rounds_of(*walls_s, **options):
    """Return rounds of tasks, one argument per task: its times in the rounds."""
    return [a_round(*row, **options) for row in zip(*walls_s)]


STEADY = [10.0, 10.2, 10.4, 10.1, 10.3, 10.5]
NOISY = [10.0, 12.0, 14.0, 11.0, 13.0, 15.0]
WARM = [a_round(99.0, kind=COLD), a_round(50.0, kind=WARM_UP)]


@pytest.mark.parametrize(
    ("rounds", "tasks", "precision", "precise"),
    [
        (rounds_of(STEADY, STEADY), "ab", 0.05, True),
        (rounds_of(STEADY, NOISY), "ab", 0.05, False),
        (rounds_of(STEADY, NOISY), "ab", 0.5, True),
        ([*WARM, *rounds_of(STEADY)], "a", 0.05, True),
        # Fewer than six rounds have their smallest and largest values as an interval.
        (rounds_of([1.0] * 2), "a", 0.05, True),
        (rounds_of([1.0]), "a", 0.05, False),
        # Where no task is a hundredth of the total, the heaviest decide.
        (rounds_of(*[NOISY] * 200), [f"t{i:03d}" for i in range(200)], 0.05, False),
        # A DAG that takes no time.
        (rounds_of([0.0] * 6), "a", 0.05, True),
        ([a_round(), a_round()], "", 0.05, True),
    ],
)
def test_rounds_are_precise_when_every_weighty_task_is(rounds, tasks, precision, precise):
    assert is_precise(log_of(*rounds, tasks=tasks), precision) is precise


def test_the_precision_is_the_longer_side_of_the_interval():
    middle = median(STEADY)
    side = max(STEADY[-1] - middle, middle - STEADY[0]) / middle
    log = log_of(*rounds_of(STEADY), tasks="a")
    assert is_precise(log, side * 1.000001)
    assert not is_precise(log, side * 0.999999)


@pytest.mark.parametrize(("factor", "precise"), [(0.009, True), (0.011, False)])
def test_a_task_of_less_than_a_hundredth_of_the_total_does_not_matter(factor, precise):
    light = [wall_s * factor for wall_s in NOISY]
    heavy = [12.5 - 12.5 * factor] * 6
    assert is_precise(log_of(*rounds_of(heavy, light)), 0.05) is precise


def test_waiting_for_a_core_makes_no_task_imprecise():
    rounds = [
        a_round(10.0 + delay_s, delay_ms=[delay_s * 1e3], cpu_ms=[1e4])
        for delay_s in (0.0, 5.0, 0.0, 8.0, 3.0, 20.0)
    ]
    log = log_of(*rounds, tasks="a")
    assert is_precise(log, 0.05)
    for round_log in rounds:
        round_log.columns, round_log.meters = [], {}
    assert not is_precise(log, 0.05)
