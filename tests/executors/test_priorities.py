from concurrent.futures import ThreadPoolExecutor

import numpy as np
import programs
import pytest

from dagprofiler import DAG, ValidationError

NAMES = "abcdef"


def dag(costs=()):
    tasks = {name: programs.Act("nothing") for name in NAMES}
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
        (COSTS, dict.fromkeys(NAMES, 0), ("abcdef", "given")),
        # Times of other tasks are left aside.
        ({}, {**dict.fromkeys(NAMES, np.float32(1)), "z": 100}, ("baecdf", "given")),
    ],
)
def test_the_longest_path_goes_first_where_something_tells_it(costs, given, expected):
    assert order(dag(costs), priorities=given) == expected


def test_a_profile_tells_too_if_it_is_of_the_same_dag():
    names, told_by = order(dag(), priorities=dag().run())
    assert (sorted(names), told_by) == (sorted(NAMES), "profile")
    with pytest.raises(ValidationError, match="no time for 'a'"):
        order(dag(), priorities=programs.failing("nothing").run())


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (3, "got 3"),
        (dict.fromkeys("abcde", 1), "no time for 'f'"),
        (dict.fromkeys(NAMES, -1), "-1"),
        (dict.fromkeys(NAMES, float("nan")), "nan"),
    ],
)
def test_invalid_priorities_are_named(given, problem):
    with pytest.raises(ValidationError, match=f"^priorities: .*{problem}"):
        dag().run(priorities=given)
