"""compare_runs: two DAGs, or two configs, measured in turns."""

import pickle

import pytest

import dagprofiler
from dagprofiler import (
    DAG,
    DeclarationError,
    Rounds,
    RunComparison,
    RunError,
    Task,
    ValidationError,
    compare_runs,
    task,
)


class Says(Task):
    """Appends its name to a list, and fails in the call with this number."""

    outputs = ["x"]

    def __init__(self, said, name, fails_at=None, error=None):
        super().__init__()
        self.said, self.says = said, name
        self.fails_at, self.error = fails_at, error or ValueError("boom")

    def compute(self, cfg):
        self.said.append(cfg.get("says", self.says))
        if self.said.count(self.says) == self.fails_at:
            raise self.error
        return {"x": 1}


@task(inputs=["x"], outputs=["y"])
def passes(x):
    return {"y": x}


def two():
    """Return a list and two DAGs that append "a" and "b" to it."""
    said = []
    return said, *(DAG({"t": Says(said, name)}) for name in "ab")


@pytest.mark.parametrize(
    ("rounds", "order"), [(Rounds(5, warmup=0), "abbaabbaab"), (2, "abbaabba")]
)
def test_rounds_and_warm_up_alternate_and_so_does_who_goes_first(rounds, order):
    said, dag_a, dag_b = two()
    compare_runs(dag_a, dag_b, rounds=rounds)
    assert "".join(said) == order


def test_compare_runs_takes_changed_parameters():
    said = []
    dag = DAG({"t": Says(said, "a")}, [], {"says": "one", "N": 3})
    found = compare_runs(dag, {"says": "other"}, rounds=Rounds(2, warmup=0))
    assert said == ["one", "other", "other", "one"]
    assert dict(found.new.config) == {"says": "other", "N": 3}
    assert dict(found.base.config) == dict(dag.config) == {"says": "one", "N": 3}
    dag.run()
    assert said[-1] == "one"


def test_both_get_the_same_numbers_and_have_whole_profiles():
    drawn = []

    @task(inputs=["y"], outputs=["x"])
    def draws(y):
        drawn.append((y, int(dagprofiler.rng().integers(2**60))))
        return {"x": 1}

    asked = {"rounds": 6, "seed": 7, "inputs": {"t": {"y": 5}}, "meters": iter(["cpu", "delay"])}
    found = compare_runs(DAG({"t": draws}), DAG({"t": draws}), **asked)
    assert (len(drawn), len(set(drawn))) == (2 * 8, 1)
    assert isinstance(found, RunComparison)
    for profile in (found.base, found.new):
        run = profile.sections["run"]
        assert (profile.seed, run["state"], run["rounds"]) == (7, "complete", 6)
        assert profile.final_outputs == {"x": 1}
        assert "corrected_ms" in profile.sections["samples"]["tasks"]["t"]
        assert dagprofiler.Profile.loads(profile.dumps()) == profile


def test_compare_runs_tells_slower_from_faster():
    @task(outputs=["x"])
    def spins(cfg):
        return {"x": sum(range(cfg.N))}

    # So much that no other program can hide it.
    found = compare_runs(DAG({"spins": spins}, [], {"N": 1_000}), {"N": 100_000}, rounds=10)
    assert found.task_times["spins"]["verdict"] == "slower"
    assert str(found).startswith("new against base: ")


@pytest.mark.parametrize(
    ("who", "order", "error", "reason", "rounds"),
    [
        ("a", "abbaa", ValueError("boom"), "task 't' failed in round 3 of 6: Val", [2, 2]),
        ("b", "abbaab", ValueError("boom"), "task 't' failed in round 3 of 6: Val", [3, 2]),
        ("a", "abbaa", KeyboardInterrupt(), "interrupted by KeyboardInterrupt", [2, 2]),
        ("b", "abbaab", SystemExit(), "SystemExit", [3, 2]),
    ],
)
def test_a_failure_in_one_ends_both_and_keeps_samples(who, order, error, reason, rounds):
    said = []
    dags = [DAG({"t": Says(said, name, 3 if name == who else None, error)}) for name in "ab"]
    with pytest.raises((RunError, KeyboardInterrupt, SystemExit)) as caught:
        compare_runs(*dags, rounds=Rounds(6, warmup=0))
    assert error in (caught.value, caught.value.__cause__)
    run = caught.value.profile.sections["run"]
    assert run["state"] == "partial"
    assert reason in run["reason"]
    assert "".join(said) == order
    runs = [profile.sections["run"] for profile in caught.value.profiles]
    assert [run["rounds"] for run in runs] == rounds
    assert "the end of another run" in runs[who == "a"]["reason"]
    if isinstance(error, ValueError):
        again = pickle.loads(pickle.dumps(caught.value))
        assert (again.of, len(again.profiles)) == ({"a": "base", "b": "new"}[who], 2)
        assert str(again).startswith(f"{again.of}: task 't' failed")


@pytest.mark.parametrize(
    ("arguments", "error", "problem"),
    [
        ({"rounds": Rounds(6, busy_cores=10_000)}, ValidationError, "busy_cores=10000"),
        ({"new": DAG({"passes": passes})}, ValidationError, "'passes'"),
        ({"new": 5}, DeclarationError, "new must be a DAG or a config.* 5"),
        ({"base": {"N": 1}, "new": {"N": 2}}, DeclarationError, "base must be a DAG"),
    ],
)
def test_bad_arguments_are_refused_before_anything_runs(arguments, error, problem):
    said, dag_a, dag_b = two()
    with pytest.raises(error, match=problem):
        compare_runs(**{"base": dag_a, "new": dag_b, "rounds": 2, **arguments})
    assert said == []
