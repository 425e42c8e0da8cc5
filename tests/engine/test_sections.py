"""What a profile says of one run or several: tables, samples, and when these are precise."""

import pytest
from steps import Calls, a_round, always, log_of

from dagprofiler import DAG
from dagprofiler._document.rounds import COLD, WARM_UP
from dagprofiler.engine.sections import Tables, is_precise, samples_of


def sections(*rounds, calibration=None):
    """Return the sections of a run with these rounds of two tasks without edges."""
    log = log_of(*rounds)
    log.environment.pop("calibration", None)
    if calibration is not None:
        log.environment["calibration"] = {"score": calibration}
    return Tables(log).sections()


def test_a_task_is_ready_after_its_last_producer():
    tasks = {"a": Calls(always(x=1)), "b": Calls(always(y=1), "y"), "c": Calls(always(), "", "xy")}
    dag = DAG(tasks, [("a", "c"), ("b", "c")])
    records = dag.run(rounds=3).sections["timeline"]["records"]
    for first, second, third in zip(records[::3], records[1::3], records[2::3]):
        assert [first[0], second[0], third[0]] == ["a", "b", "c"]
        assert third[3] == second[-1] > first[-1] > first[3] == second[3]


def test_weight_sources_hold_medians():
    made = sections(
        a_round(1, 4, instructions=[100, 7], cpu_ms=[9.0, 4.0], delay_ms=[500.0, 0.0]),
        a_round(2, 5, instructions=[101, 7], cpu_ms=[9.5, 4.0], delay_ms=[500.0, 0.0]),
        calibration=2.0,
    )
    assert made["weight_sources"]["a"] == {
        "node_weight": "default",
        # The median of whole numbers is a whole one.
        "counted_instructions": round(100.5),
        "cpu_time_ms": 9.25,
        # Without the delay, and twice as long on the reference machine.
        "reference_time_ms": 2000.0,
    }
    why = {"estimated_instructions": "the task has no cost model"}
    assert made["environment"]["not_measured"] == why
    # Where no meter tells delays, times are those of the wall clock.
    unmetered = sections(a_round(1, 4), a_round(2, 5), calibration=2.0)
    assert unmetered["weight_sources"]["a"]["reference_time_ms"] == 3000.0


def test_unmeasured_weights_have_one_reason():
    plain = sections(a_round(1, 4))
    assert plain["weight_sources"] == {}
    not_measured = plain["environment"]["not_measured"]
    assert "meters='full'" in not_measured["counted_instructions"]
    assert "meters='default'" in not_measured["cpu_time_ms"]
    assert "not calibrated" in not_measured["reference_time_ms"]
    one = a_round(1, 4, instructions=[None, None])
    one.columns["instructions"] = "no hardware counters on this machine"
    not_measured = sections(one)["environment"]["not_measured"]
    told = not_measured["instructions"], not_measured["counted_instructions"]
    assert told == (one.reasons["instructions"],) * 2


@pytest.mark.parametrize("finished", [False, True])
def test_missing_weights_of_a_task_have_reasons(finished):
    # Of the other task the meter read something.
    one = a_round(1, 4 if finished else None, cpu_ms=[1.0, None], delay_ms=[0.0, None])
    one.columns["cpu_ms"] = "task 'b': stop() raised OSError"
    cold = a_round(1, 1 if finished else None, kind=COLD)
    reasons = sections(cold, one, calibration=1.0)["weight_sources"]["b"]["reasons"]
    unfinished = "the task did not finish"
    assert reasons["cpu_time_ms"] == (one.reasons["cpu_ms"] if finished else unfinished)
    assert (reasons.get("reference_time_ms") == unfinished) is not finished


def test_samples_not_measured_are_null():
    metered = [a_round(1, last, energy_J=[5, 6]) for last in (1, None)]
    log = log_of(*metered, a_round(1, 1))
    tasks = samples_of(log)["tasks"]
    assert tasks["a"]["energy_J"] == [5, 5, None]
    # What was read of a task that failed is no measurement of it.
    assert tasks["b"]["energy_J"] == [6, None, None]
    assert tasks["b"]["wall_ms"] == [1000.0, None, 1000.0]


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


def rounds_of(*walls_s):
    """Return rounds of tasks, one argument per task: its times in the rounds."""
    return [a_round(*row) for row in zip(*walls_s)]


STEADY = [10.0, 10.2, 10.4, 10.1, 10.3, 10.5]
NOISY = [10.0, 12.0, 14.0, 11.0, 13.0, 15.0]
#: Of a task whose share of the total is just below a hundredth, or just above it.
LIGHT, WEIGHTY = [wall_s * 0.009 for wall_s in NOISY], [wall_s * 0.011 for wall_s in NOISY]
WAITING = [10.0, 15.0, 10.0, 18.0, 13.0, 30.0]
WARM = [a_round(99.0, kind=COLD), a_round(50.0, kind=WARM_UP)]


@pytest.mark.parametrize(
    ("rounds", "tasks", "precision", "precise"),
    [
        (rounds_of(STEADY, STEADY), "ab", 0.05, True),
        (rounds_of(STEADY, NOISY), "ab", 0.05, False),
        (rounds_of(STEADY, NOISY), "ab", 0.5, True),
        (rounds_of([12.3875] * 6, LIGHT), "ab", 0.05, True),
        (rounds_of([12.3625] * 6, WEIGHTY), "ab", 0.05, False),
        ([*WARM, *rounds_of(STEADY)], "a", 0.05, True),
        # Fewer than six rounds have their smallest and largest values as an interval.
        (rounds_of([1.0] * 2), "a", 0.05, True),
        (rounds_of([1.0]), "a", 0.05, False),
        # Where no task is a hundredth of the total, the heaviest decide.
        (rounds_of(*[NOISY] * 200), [f"t{i:03d}" for i in range(200)], 0.05, False),
        # A DAG that takes no time.
        (rounds_of([0.0] * 6), "a", 0.05, True),
        ([a_round(), a_round()], "", 0.05, True),
        # Waiting for a core makes no task imprecise.
        (rounds_of(WAITING), "a", 0.05, False),
        ([a_round(s, delay_ms=[(s - 10) * 1e3], cpu_ms=[1e4]) for s in WAITING], "a", 0.05, True),
    ],
)
def test_rounds_are_precise_when_every_weighty_task_is(rounds, tasks, precision, precise):
    assert is_precise(log_of(*rounds, tasks=tasks), precision) is precise
