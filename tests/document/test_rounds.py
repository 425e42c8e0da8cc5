import json
import math
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from dagprofiler import Rounds, ValidationError
from dagprofiler._document.rounds import COLD, MEASURED, WARM_UP, rounds_of, statistics_of


def test_what_run_takes_becomes_rounds():
    assert rounds_of(6) == Rounds(6)
    assert rounds_of("auto") == Rounds("auto") == Rounds()
    auto = Rounds()
    assert (auto.max_rounds, auto.max_time_s, auto.precision) == (30, 30.0, 0.05)
    asked = Rounds(3, busy_cores=1)
    assert rounds_of(asked) is asked
    assert json.loads(json.dumps(asked.to_dict())) == asked.to_dict()
    with pytest.raises(FrozenInstanceError):
        asked.n = 7
    rounds = Rounds(np.int64(6), np.uint8(1), max_rounds=np.int32(9), busy_cores=np.int16(0))
    for value in (rounds.n, rounds.warmup, rounds.max_rounds, rounds.busy_cores):
        assert type(value) is int
    # One round in its own process keeps what it is measured under.
    conditions = {"collect_garbage": "tasks", "fresh_process": True, "check_outputs": True}
    alone = Rounds(9, 2, busy_cores=1, **conditions).alone()
    assert (alone.n, alone.warmup, alone.fresh_process, alone.busy_cores) == (1, 0, False, 0)
    assert (alone.collect_garbage, alone.check_outputs) == ("tasks", True)


def test_two_rounds_warm_up_unless_there_is_nothing_to_warm():
    assert [Rounds(n).warmup for n in (1, 2, "auto")] == [0, 2, 2]
    assert [Rounds(6, w, fresh_process=True).warmup for w in (None, 5)] == [0, 5]
    assert [Rounds(n, warmup=w).warmup for n, w in ((1, 1), (6, 0))] == [1, 0]


INTEGER, HUGE = "must be an integer of at least", 10**400
NO_NUMBERS = [0, True, 2.5, "six", None, np.array([6, 7])]


@pytest.mark.parametrize(
    ("field", "given", "expected"),
    [
        ("warmup", -1, f"{INTEGER} 0"),
        ("max_rounds", 0, f"{INTEGER} 1"),
        ("busy_cores", -1, f"{INTEGER} 0"),
        ("max_time_s", 0, "must be a finite number above 0"),
        *(("max_time_s", value, "must be a finite number above 0") for value in (math.inf, HUGE)),
        *(("precision", value, "must be a finite number above 0") for value in (0.0, HUGE)),
        ("collect_garbage", "task", "must be 'rounds', 'tasks' or None"),
        ("fresh_process", 1, "must be True or False"),
        ("check_outputs", "yes", "must be True or False"),
        *(("n", value, f"{INTEGER} 1 or 'auto'") for value in NO_NUMBERS),
    ],
)
def test_rounds_refuse_values_out_of_range(field, given, expected):
    with pytest.raises(ValidationError) as caught:
        Rounds(**{field: given})
    assert str(caught.value).startswith(f"Rounds: {field} {expected}, got {given!r}"[:200])


@pytest.mark.parametrize("most", [1, 5])
def test_an_interval_that_cannot_be_reached_is_refused(most):
    with pytest.raises(ValidationError, match=f"max_rounds={most} .*at least 6 rounds"):
        Rounds("auto", max_rounds=most)
    assert Rounds("auto", max_rounds=6).max_rounds == 6
    assert Rounds(3, max_rounds=most).max_rounds == most


def section(rounds, **columns):
    return {"rounds": rounds, "total_ms": [1.0] * len(rounds), "tasks": {"a": columns}, "edges": {}}


def test_flags_are_raised_by_measured_rounds():
    kinds = [COLD, WARM_UP, *[MEASURED] * 6]
    steady = section(kinds, wall_ms=[900.0, 500.0, *[10.0] * 6])
    assert statistics_of(steady)["flags"] == {}
    assert statistics_of(steady, ["a"])["flags"] == {"a": ["outputs_differ"]}
    drifting = section(kinds, wall_ms=[10.0] * 5 + [20.0] * 3)
    assert statistics_of(drifting)["flags"] == {"a": ["wide_interval", "drifting"]}
    drifting["tasks"]["a"]["corrected_ms"] = [10.0] * 8
    assert statistics_of(drifting)["flags"] == {}
    contended = section(kinds, wall_ms=[10.0] * 8, delay_ms=[0.0, 0.0, *[1.0] * 6])
    assert statistics_of(contended)["flags"] == {"a": ["contended"]}
