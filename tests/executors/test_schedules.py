"""Runs along a schedule: who runs what, in which order, and what is refused before it."""

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import pytest
from conformance import PLAN, check_schedule
from programs import OUTSIDE, failing, program

from dagprofiler import RunError, ValidationError
from dagprofiler.executors.dask import DaskExecutor

NAMES = ["draw", "scale0", "scale1", "scale2", "merge", "last"]


def run(**asked):
    program().run(inputs=OUTSIDE, **asked)


@pytest.mark.parametrize("pool", [ProcessPoolExecutor, ThreadPoolExecutor])
def test_assignment_and_order_are_kept_in_every_round(pool):
    with pool(1) as edge, pool(1) as cloud:
        check_schedule({"edge": edge, "cloud": cloud}, rounds=3)


def test_a_failure_ends_the_run_before_the_others_turn():
    plan = {"edge": ["bad", "beside"], "cloud": ["behind", "other"]}
    with pytest.raises(RunError) as caught:
        failing("raise").run(executor={"edge": thread(), "cloud": thread()}, schedule=plan)
    assert caught.value.task == "bad"


def thread(count=1):
    return ThreadPoolExecutor(count)


@pytest.mark.parametrize(
    ("plan", "pools", "words"),
    [
        (PLAN, None, ["{node: pool}"]),
        (PLAN, {"edge": thread()}, ["'cloud'"]),
        (PLAN, {"edge": thread(), "cloud": thread(2)}, ["'cloud'", "one worker", "2"]),
        (PLAN, {"edge": thread(), "cloud": ProcessPoolExecutor(1)}, ["one kind"]),
        (PLAN, dict.fromkeys(PLAN, thread()), ["'edge'", "'cloud'", "same"]),
        ({"edge": NAMES[:-1]}, {"edge": thread()}, ["'last'"]),
        ({"edge": [*NAMES, "q"]}, {"edge": thread()}, ["'edge'", "'q'"]),
        ({"edge": ["last", *NAMES[:-1]]}, {"edge": thread()}, ["'last' -> 'draw'", "forever"]),
        ([], None, ["schedule", "[]"]),
    ],
)
def test_a_schedule_that_cannot_be_kept_is_refused(plan, pools, words):
    with pytest.raises(ValidationError) as caught:
        run(executor=pools, schedule=plan)
    assert all(word in str(caught.value) for word in words)


@pytest.mark.parametrize(
    ("option", "word"),
    [({"priorities": {"draw": 1}}, "priorities"), ({"on_error": "finish"}, "on_error")],
)
def test_options_that_contradict_a_schedule_are_refused(option, word):
    with pytest.raises(ValidationError, match=word):
        run(executor={"edge": thread(), "cloud": thread()}, schedule=PLAN, **option)


def test_an_engine_without_pinned_workers_is_refused():
    pytest.importorskip("distributed")
    with pytest.raises(ValidationError, match="'edge'"):
        run(executor={"edge": DaskExecutor(), "cloud": thread()}, schedule=PLAN)
