"""How far off a predicted makespan is, and why."""

import pytest
from handmade import handmade

from dagprofiler import Profile, TaskMetrics
from dagprofiler._document.rounds import MOMENTS


def profile_of(*rows, predicted=False, samples=None):
    """Return a profile whose tasks are ready, begin, compute from, to, and end at these moments."""
    columns = ["task", "round", "worker", *MOMENTS]
    records = [[n, 0, w, ready, a, b, b, c, c, d] for n, w, ready, a, b, c, d in rows]
    sections = {"timeline": {"workers": [{}, {}], "columns": columns, "records": records}}
    if samples:
        sections["samples"] = {"rounds": ["measured"], "tasks": samples}
    if predicted:
        sections["prediction"] = {"kind": "simulation", "sources": [], "reasons": []}
    return handmade([row[0] for row in rows], sections=sections)


REAL = profile_of(
    *(("a", 0, 0, 2, 3, 9, 10), ("b", 1, 0, 2, 2, 8, 8), ("c", 0, 10, 12, 12, 16, 16)),
    samples={"b": {"delay_ms": [None]}, "c": {"delay_ms": [1.0]}},
)
GUESS = profile_of(
    ("a", 0, 0, 0, 0, 8, 8), ("b", 1, 0, 0, 0, 8, 8), ("c", 0, 8, 8, 8, 12, 12), predicted=True
)


@pytest.mark.parametrize("compared", [REAL.compare(GUESS), GUESS.compare(REAL)])
def test_every_moment_of_every_worker_belongs_to_one_part(compared):
    error = compared["prediction"]
    parts = error["parts"]
    assert (error["real_ms"], error["predicted_ms"], error["error"]) == (16, 12, -0.25)
    assert sum(part["error"] for part in parts.values()) == pytest.approx(-0.25)
    # Both workers waited 2 ms for ready tasks, one of them 2 ms more, with one task ready.
    each = {name: (part["real_ms"], part["predicted_ms"]) for name, part in parts.items()}
    pairs = (7.5, 10), (0.5, 0), (1, 0), (3, 0), (4, 2)
    assert each == dict(zip(("tasks", "cores", "transfers", "engine", "waiting"), pairs))
    assert "-25.0%" in str(compared)
    assert "waiting" in compared._repr_html_()


@pytest.mark.parametrize(
    ("ends", "where"), [([12, 16], ", in"), ([11, 13.5], ", not in"), (None, "")]
)
def test_the_headline_says_how_far_off_a_prediction_was_and_whether_its_interval_held(ends, where):
    guess = Profile.from_dict(GUESS.to_dict())
    guess.sections["prediction"].update({} if ends is None else {"interval_ms": ends})
    said = REAL.compare(guess).headline()
    assert said.startswith(f"predicted 12 ms, real 16 ms: 25.0% too short{where}")
    assert ("interval" in said) == bool(where)


def test_predicted_times_are_judged_by_their_intervals():
    real = handmade("ab", times=[TaskMetrics(name, 5.0, 0.0, 0.0, 0, 0) for name in "ab"])
    guess = Profile.from_dict(real.to_dict())
    ends = {"a": [0, 99], "b": [98, 99]}
    guess.sections["prediction"] = {"kind": "models", "intervals_ms": ends}
    for found in (real.compare(guess), guess.compare(real)):
        assert found["in_intervals"] == {"tasks": 1, "of": 2}
        assert found.headline().startswith("real times of 1 of 2 tasks")
        assert "verdict" not in str(found)


def test_only_workers_of_the_predicted_round_count_and_only_predictions_are_judged():
    def one_task(worker, *, predicted=False):
        found = profile_of(("a", worker, 0, 0, 0, 6, 6), predicted=predicted)
        found.sections["timeline"]["workers"] = [{}, {}, {}]
        return found

    parts = one_task(0).compare(one_task(1, predicted=True))["prediction"]["parts"]
    assert {part["error"] for part in parts.values()} == {0}
    assert parts["tasks"]["real_ms"] == 2
    fresh = one_task(0)
    rows = fresh.sections["timeline"]["records"]
    rows += [[*rows[0][:1], n, n, *rows[0][3:]] for n in range(1, 5)]
    assert fresh.compare(one_task(1, predicted=True))["prediction"]["parts"] == parts
    assert "prediction" not in REAL.compare(REAL)
    bare = profile_of(predicted=True)
    assert "prediction" not in REAL.compare(bare)
    untimed = handmade("abc", times=[TaskMetrics(name, 5.0, 0.0, 0.0, 0, 0) for name in "abc"])
    for found in (untimed.compare(GUESS), GUESS.compare(untimed)):
        assert "the other has no timeline" in found["total_time"]["reason"]
        assert "Rounds(" not in str(found)
