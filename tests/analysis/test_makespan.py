"""How far off a predicted makespan is, and why."""

import pytest
from handmade import handmade

from dagprofiler import Profile, TaskMetrics
from dagprofiler._document.rounds import MOMENTS
from dagprofiler.analysis.makespan import makespan_of, parts_of
from dagprofiler.analysis.summary import figures


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
    samples={
        name: {"wall_ms": [8.0], "corrected_ms": [ms]} for name, ms in [("b", None), ("c", 7.0)]
    },
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


def test_reading_meters_is_in_no_real_makespan():
    metered = Profile.from_dict(REAL.to_dict())
    metered.sections["samples"]["total_ms"] = [14.5]
    error = metered.compare(GUESS)["prediction"]
    assert (error["real_ms"], error["parts"]["engine"]["real_ms"]) == (14.5, 1.5)
    metered.sections["samples"]["total_ms"] = [17.0]
    assert metered.compare(GUESS)["prediction"]["real_ms"] == 16


@pytest.mark.parametrize(
    ("ends", "where"), [([12, 16], ", in"), ([11, 13.5], ", not in"), (None, "")]
)
def test_the_headline_says_how_far_off_a_prediction_was(ends, where):
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


def test_only_workers_of_the_predicted_round_count():
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
        assert [*found["obstacles"]] == ["predicted"]
        assert "Rounds(" not in str(found)


def run_of(*rows, cores=8, **sections):
    """Return a run of tasks with a time each, of one round, on as many workers as they name."""
    found = profile_of(*rows)
    for n, (name, _, _, begun, computing, computed, ended) in enumerate(rows):
        times = computed - computing, ended - computed, computing - begun
        found.metrics.task_metrics[n : n + 1] = [TaskMetrics(name, *times, 0, 0)]
    found.metrics.total_time_ms = max(row[-1] for row in rows) + 1
    found.sections["environment"] = {"cores": cores}
    found.sections.update(sections)
    return found


ROWS = [("a", 0, 0, 0, 0, 8, 10), ("b", 0, 10, 10, 11, 31, 31), ("c", 0, 10, 31, 31, 39, 39)]
SERIAL = run_of(*ROWS)
SERIAL.dag_structure["edges"] = [{"source": "a", "target": name} for name in "bc"]
BESIDE = run_of(("a", 0, 0, 0, 0, 20, 20), ("b", 1, 0, 0, 0, 18, 18), ("c", 1, 0, 18, 18, 21, 21))


def test_a_makespan_is_shown_in_parts_that_add_up_to_it():
    shown = figures(SERIAL)["makespan"]
    assert shown["makespan_ms"] == sum(shown["parts"].values()) == SERIAL.metrics.total_time_ms
    parts = {"tasks": 36, "transfers": 3, "cores": 0, "waiting": 0, "engine": 1}
    assert (shown["workers"], shown["parts"]) == (1, parts)
    assert "where 40 ms went on 1 worker" in str(SERIAL)
    # What is not known is part of another, and no row of 0.
    assert "waiting for a core" not in str(SERIAL)
    assert figures(handmade("ab"))["makespan"] is None


def test_gains_are_on_the_workers_of_the_run_or_enough():
    def gains(profile):
        return {
            row["name"]: (row["gain_ms"], row["gain_enough_ms"])
            for row in figures(profile)["makespan"]["gains"]
        }

    # On one worker c is worth its time, although b lies beside it on a longer path.
    assert gains(SERIAL) == {"b": (20, 12), "a": (8, 8), "c": (8, 0), "(serializing)": (3, 0)}
    # Without a, its worker takes c.
    assert gains(BESIDE) == {"a": (3, 2), "b": (1, 0), "c": (1, 0)}


def test_each_cause_has_one_advice_the_largest_gain_first():
    def advice(profile):
        return [one["what"].format(one["name"]) for one in figures(profile)["makespan"]["advice"]]

    cheaper, workers, data = "make b cheaper", "use 2 workers", "move less data between tasks"
    assert advice(SERIAL) == [cheaper, workers, data]
    gain = figures(SERIAL)["makespan"]["advice"][0]
    assert (gain["gain_ms"], gain["share"]) == (20, 0.5)
    # A machine without another core, or on which other programs run, has no use for workers.
    one_core = Profile.from_dict(SERIAL.to_dict())
    one_core.sections["environment"] = {"cores": 4, "cores_usable": 1}
    assert advice(one_core) == [cheaper, data]
    waited = {"b": {"wall_ms": [20.0], "corrected_ms": [15.0]}}
    waited["c"] = {"wall_ms": [8.0], "corrected_ms": [3.0]}
    busy = {"samples": {"rounds": ["measured"], "tasks": waited}}
    assert advice(run_of(*ROWS, **busy)) == [cheaper, "end what else runs on the machine", data]


def test_the_time_of_a_task_that_failed_is_computing():
    columns = ["ready_ms", "deserialize_start_ms", "compute_start_ms", "compute_end_ms"]
    timeline = {"workers": [{}], "columns": ["task", "round", "worker", *columns]}
    timeline["columns"].append("serialize_end_ms")
    timeline["records"] = [["a", 0, 0, 0.0, 0.0, 0.0, 300.0, None]]
    profile = handmade("a", [], total_ms=300.0, sections={"timeline": timeline})
    assert makespan_of(profile, None)["parts"]["tasks"] == 300.0


def test_time_between_the_phases_of_a_task_serializes_nothing():
    run = profile_of(("a", 0, 0, 0, 2, 8, 10))
    (row,) = run.sections["timeline"]["records"]
    begin, end = (run.sections["timeline"]["columns"].index(key) for key in MOMENTS[2::3])
    row[begin], row[end] = 1, 9
    parts = {"tasks": 6, "transfers": 2, "cores": 0, "waiting": 0, "engine": 2}
    assert parts_of(run) == parts


def test_each_attempt_of_a_run_has_workers_of_its_own():
    run = run_of(("a", 0, 0, 0, 0, 8, 10), ("b", 1, 10, 10, 11, 31, 31))
    assert makespan_of(run, None)["workers"] == 2
    run.sections["run"] = {"resumed": [{"timestamp": "", "at_ms": 10.0}]}
    assert makespan_of(run, None)["workers"] == 1
    assert makespan_of(run_of(("a", 0, 0, 0, 0, 0, 0)), None)["workers"] == 1
