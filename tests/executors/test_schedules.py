"""Runs along a schedule: who runs what, in which order, and what is refused before it."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import pytest
from conformance import check_schedule

from dagprofiler import DAG, RunError, ValidationError, task
from dagprofiler.executors.dask import DaskExecutor


@task(outputs=["x"])
def source():
    return {"x": bytes(200_000)}


@task(outputs=["y"])
def middle(x):
    return {"y": len(x)}


@task(outputs=[], gathers=["y"])
def end(y):
    return {}


@task(outputs=["x"])
def failing():
    raise RuntimeError("no")


NAMES = [f"m{i}" for i in range(6)]
EDGES = [*(("s", name) for name in NAMES), *((name, "e") for name in NAMES)]
PLAN = {"edge": ["s", "m5", "m0", "m3", "e"], "cloud": ["m4", "m1", "m2"]}


def dag(first=source):
    return DAG({"s": first, **dict.fromkeys(NAMES, middle), "e": end}, EDGES)


@pytest.mark.parametrize("pool", [ProcessPoolExecutor, ThreadPoolExecutor])
def test_assignment_and_order_are_kept_in_every_round(pool):
    with pool(1) as edge, pool(1) as cloud:
        check_schedule({"edge": edge, "cloud": cloud}, rounds=3)


def test_a_failure_ends_the_run_without_waiting_for_the_others_turn():
    pools = {"edge": thread(), "cloud": thread()}
    with pytest.raises(RunError) as caught:
        dag(failing).run(executor=pools, schedule=PLAN)
    assert caught.value.task == "s"


def thread(count=1):
    return ThreadPoolExecutor(count)


@pytest.mark.parametrize(
    ("plan", "pools", "words"),
    [
        (PLAN, None, ["{node: pool}"]),
        (PLAN, {"edge": thread()}, ["'cloud'"]),
        (PLAN, {"edge": thread(), "cloud": thread(2)}, ["'cloud'", "one worker", "2"]),
        (PLAN, {"edge": thread(), "cloud": ProcessPoolExecutor(1)}, ["one kind"]),
        (PLAN, {"edge": thread(), "cloud": 3}, ["'cloud'", "3"]),
        (PLAN, dict.fromkeys(PLAN, thread()), ["'edge'", "'cloud'", "same"]),
        ({"edge": ["s", *NAMES]}, {"edge": thread()}, ["'e'"]),
        ({"edge": ["s", *NAMES, "e", "q"]}, {"edge": thread()}, ["'edge'", "'q'"]),
        ({"edge": ["e", "s", *NAMES]}, {"edge": thread()}, ["'e' -> 's'", "forever"]),
        ({"edge": None}, {"edge": thread()}, ["'edge'", "None"]),
        ([], None, ["schedule", "[]"]),
        ({}, {}, ["schedule", "{}"]),
    ],
)
def test_what_cannot_be_followed_is_refused_before_the_run(plan, pools, words):
    with pytest.raises(ValidationError) as caught:
        dag().run(executor=pools, schedule=plan)
    assert all(word in str(caught.value) for word in words)


@pytest.mark.parametrize(
    ("option", "word"),
    [({"priorities": {"s": 1}}, "priorities"), ({"on_error": "finish"}, "on_error")],
)
def test_options_that_contradict_a_schedule_are_refused(option, word):
    with pytest.raises(ValidationError, match=word):
        dag().run(executor={"edge": thread(), "cloud": thread()}, schedule=PLAN, **option)


def test_an_engine_without_pinned_workers_is_refused():
    pytest.importorskip("distributed")
    with pytest.raises(ValidationError, match="'edge'"):
        dag().run(executor={"edge": DaskExecutor(), "cloud": thread()}, schedule=PLAN)
