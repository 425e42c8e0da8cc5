"""How far off a predicted makespan is, and why."""

import pytest
from handmade import handmade

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
