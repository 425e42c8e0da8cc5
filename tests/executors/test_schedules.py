"""Runs along a schedule: who runs what, in which order, and what is refused before it."""

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import pytest
from conformance import PLAN, Here, check_schedule
from programs import OUTSIDE, failing, program

from dagprofiler import RunError, ValidationError

NAMES = ["draw", "scale0", "scale1", "scale2", "merge", "last"]


def thread(count=1):
    return ThreadPoolExecutor(count)


TWO = {"edge": thread(), "cloud": thread()}


@pytest.mark.parametrize("pool", [ProcessPoolExecutor, ThreadPoolExecutor])
def test_assignment_and_order_are_kept_in_every_round(pool):
    with pool(1) as edge, pool(1) as cloud:
        check_schedule({"edge": edge, "cloud": cloud}, rounds=3)


def test_a_failure_ends_the_run_before_the_others_turn():
    plan = {"edge": ["bad", "beside"], "cloud": ["behind", "other"]}
    with pytest.raises(RunError) as caught:
        failing("raise").run(executor=TWO, schedule=plan)
    assert caught.value.task == "bad"


@pytest.mark.parametrize(
    ("plan", "pools", "options", "words"),
    [
        (PLAN, None, {}, ["{node: pool}"]),
        (PLAN, {"edge": thread()}, {}, ["'cloud'"]),
        (PLAN, {"edge": thread(), "cloud": thread(2)}, {}, ["'cloud'", "one worker", "2"]),
        (PLAN, {"edge": thread(), "cloud": ProcessPoolExecutor(1)}, {}, ["one kind"]),
        (PLAN, dict.fromkeys(PLAN, thread()), {}, ["'edge'", "'cloud'", "same"]),
        ({"edge": NAMES[:-1]}, {"edge": thread()}, {}, ["'last'"]),
        ({"edge": [*NAMES, "q"]}, {"edge": thread()}, {}, ["'edge'", "'q'"]),
        ({"edge": ["last", *NAMES[:-1]]}, {"edge": thread()}, {}, ["'last' -> 'draw'", "forever"]),
        ([], None, {}, ["schedule", "[]"]),
        (PLAN, {"edge": Here(), "cloud": thread()}, {}, ["'edge'"]),
        (PLAN, TWO, {"priorities": {"draw": 1}}, ["priorities"]),
        (PLAN, TWO, {"on_error": "finish"}, ["on_error"]),
    ],
)
def test_a_schedule_that_cannot_be_kept_is_refused(plan, pools, options, words):
    with pytest.raises(ValidationError) as caught:
        program().run(inputs=OUTSIDE, executor=pools, schedule=plan, **options)
    assert all(word in str(caught.value) for word in words)
