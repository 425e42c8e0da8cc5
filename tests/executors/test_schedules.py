"""Schedules and priorities: who runs what, in which order, and what is refused before it."""

from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
from conformance import PLAN, Here, check_schedule
from programs import OUTSIDE, Act, failing, program

from dagprofiler import DAG, RunError, ValidationError

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


def test_a_node_that_gives_up_ends_the_run():
    class Dead(Here):
        def submit(self, job, handles):
            return Future()

        def check(self):
            raise BrokenExecutor("gone")

        def pinned(self, node):
            return self

    with pytest.raises(RunError) as caught:
        failing("nothing").run(
            executor={"edge": Dead()}, schedule={"edge": [*failing("nothing").tasks]}
        )
    assert "BrokenExecutor: gone" in str(caught.value)


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
        (PLAN, {"edge": Here(), "cloud": thread()}, {}, ["'edge'"]),
        (PLAN, TWO, {"priorities": {"draw": 1}}, ["priorities"]),
        (PLAN, TWO, {"on_error": "finish"}, ["on_error"]),
        (None, None, {"priorities": dict.fromkeys(NAMES[:-1], 1)}, ["no time for 'last'"]),
        (None, None, {"priorities": dict.fromkeys(NAMES, -1)}, ["priorities: ", "-1"]),
    ],
)
def test_an_order_that_cannot_be_kept_is_refused(plan, pools, options, words):
    with pytest.raises(ValidationError) as caught:
        program().run(inputs=OUTSIDE, executor=pools, schedule=plan, **options)
    assert all(word in str(caught.value) for word in words)


SIX = "abcdef"


def dag(costs=()):
    tasks = {name: Act("nothing") for name in SIX}
    for name in costs:
        tasks[name].estimate_instructions = lambda cfg, cost=costs[name]: cost
    return DAG(tasks, [("a", "d", []), ("b", "e", []), ("e", "f", [])])


def order(dag, **asked):
    """Return the tasks in the order in which a single worker ran them."""
    with ThreadPoolExecutor(1) as pool:
        profile = dag.run(executor=pool, **asked)
    timeline = profile.sections["timeline"]
    at = timeline["columns"].index("compute_start_ms")
    names = [row[0] for row in sorted(timeline["records"], key=lambda row: row[at])]
    return "".join(names), profile.sections["run"].get("priorities")


COSTS = {"a": 1, "b": 1, "c": 9, "d": 2, "e": 3, "f": 4}


@pytest.mark.parametrize(
    ("costs", "given", "expected"),
    [
        ({}, None, ("abcdef", None)),
        (COSTS, None, ("cbaedf", "cost_models")),
        # Not all tasks have a cost model.
        ({"c": 9}, None, ("abcdef", None)),
        ({}, COSTS, ("cbaedf", "given")),
        (COSTS, dict.fromkeys(SIX, 0), ("abcdef", "given")),
        # Times of other tasks are left aside.
        ({}, {**dict.fromkeys(SIX, np.float32(1)), "z": 100}, ("baecdf", "given")),
    ],
)
def test_the_longest_path_goes_first_where_something_tells_it(costs, given, expected):
    assert order(dag(costs), priorities=given) == expected


def test_a_profile_tells_too_if_it_is_of_the_same_dag():
    names, told_by = order(dag(), priorities=dag().run())
    assert (sorted(names), told_by) == (sorted(SIX), "profile")
    with pytest.raises(ValidationError, match="no time for 'a'"):
        order(dag(), priorities=failing("nothing").run())
