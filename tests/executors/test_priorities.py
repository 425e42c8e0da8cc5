from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import programs
import pytest

from dagprofiler import DAG, PoolExecutor, ValidationError

NAMES = "abcdef"


def dag(costs=None):
    tasks = {name: programs.Act("nothing") for name in NAMES}
    for name, cost in (costs or {}).items():
        tasks[name].estimate_instructions = lambda cfg, cost=cost: cost
    return DAG(tasks, [("a", "d", []), ("b", "e", []), ("e", "f", [])])


def order(dag, **asked):
    """Return the tasks in the order in which a single worker ran them."""
    with ThreadPoolExecutor(1) as pool:
        profile = dag.run(executor=pool, **asked)
    timeline = profile.sections["timeline"]
    at = timeline["columns"].index("compute_start_ms")
    names = [row[0] for row in sorted(timeline["records"], key=lambda row: row[at])]
    return "".join(names), profile.sections["run"].get("priorities")


def test_without_anything_that_tells_it_is_kahns_order():
    assert order(dag()) == ("abcdef", None)


def test_cost_models_tell_where_all_tasks_have_one():
    costs = {"a": 1, "b": 1, "c": 9, "d": 2, "e": 3, "f": 4}
    assert order(dag(costs)) == ("cbaedf", "cost_models")
    assert order(dag({"c": 9})) == ("abcdef", None)


def test_times_that_are_given_put_the_longest_path_first():
    times = {"a": 1, "b": 1, "c": 9, "d": 2, "e": 3, "f": 4}
    assert order(dag(), priorities=times) == ("cbaedf", "given")


def test_a_profile_tells_too():
    names, told_by = order(dag(), priorities=dag().run())
    assert sorted(names) == sorted(NAMES)
    assert told_by == "profile"


def test_tasks_that_are_alike_go_in_kahns_order():
    assert order(dag(), priorities=dict.fromkeys(NAMES, 0))[0] == "abcdef"


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (3, "got 3"),
        ({}, "no time for 'a', 'b', 'c', 'd', 'e' and 1 more"),
        ({**dict.fromkeys("abcde", 1)}, "no time for 'f'"),
        ({**dict.fromkeys(NAMES, 1), "c": -1}, "at least 0, got -1"),
        ({**dict.fromkeys(NAMES, 1), "c": float("nan")}, "got nan"),
        ({**dict.fromkeys(NAMES, 1), "c": float("inf")}, "got inf"),
        ({**dict.fromkeys(NAMES, 1), "c": 10**400}, "got 1000"),
        ({**dict.fromkeys(NAMES, 1), "c": True}, "got True"),
        ({**dict.fromkeys(NAMES, 1), "c": "1"}, "got '1'"),
    ],
)
def test_what_does_not_tell_is_refused(given, problem):
    with (
        ThreadPoolExecutor(1) as pool,
        pytest.raises(ValidationError, match=r"^priorities: ") as caught,
    ):
        dag().run(executor=pool, priorities=given)
    assert problem in str(caught.value)


@pytest.mark.parametrize("kind", [int, np.int64, np.float32, Fraction])
def test_times_are_numbers_of_whatever_library(kind):
    times = {name: kind(1) for name in NAMES}
    assert order(dag(), priorities=times) == order(dag(), priorities=dict.fromkeys(NAMES, 1.0))


def test_times_of_other_tasks_are_left_aside():
    times = {**dict.fromkeys(NAMES, 1), "another": 100}
    assert order(dag(), priorities=times)[0].startswith("b")


def test_a_profile_of_another_dag_is_refused():
    profile = programs.failing("nothing").run()
    with ThreadPoolExecutor(1) as pool, pytest.raises(ValidationError, match="no time for 'a'"):
        dag().run(executor=PoolExecutor(pool), priorities=profile)
