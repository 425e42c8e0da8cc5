from __future__ import annotations

import io
from contextlib import suppress
from datetime import datetime, timezone

import pytest

from dagprofiler import DAG, Rounds, RunError, map_over, task
from dagprofiler.cli import _run as module
from dagprofiler.cli._run import Progress, progress


@task(outputs=["x"])
def first():
    return {"x": 1}


@task(inputs=["x"], outputs=["y"])
def second(x):
    return {"y": x}


@task(inputs=["x"], outputs=["z"])
def fails(x):
    raise ValueError(x)


@task(outputs=["x"])
def many():
    return {"x": [1, 2]}


DAG_OF_TWO = DAG({"first": first, "second": second}, [("first", "second")])


def lines(dag=DAG_OF_TWO, expected=None, **options):
    """Run a DAG; return the lines that were drawn, the last one being what remains."""
    stream = io.StringIO()
    with suppress(RunError):
        dag.run(hooks=[Progress(expected, stream)], **options)
    return [line.rstrip() for line in stream.getvalue().split("\r")[1:]]


def test_a_line_tells_of_each_task_and_nothing_of_it_remains():
    assert lines() == [
        "[............] 0 of 2 tasks | running first",
        "[######......] 1 of 2 tasks",
        "[######......] 1 of 2 tasks | running second",
        "[############] 2 of 2 tasks",
        "",
        "",
    ]


def test_rounds_are_counted_and_after_the_first_it_is_known_when_they_end():
    drawn = lines(rounds=Rounds(2, warmup=0))

    assert drawn[0] == "[............] 0 of 2 tasks | round 1 of 2 | running first"
    assert drawn[4].startswith("[######......] 0 of 2 tasks | round 2 of 2 | done at ")
    assert drawn[-3].startswith("[############] 2 of 2 tasks | round 2 of 2 | done at ")


def test_of_auto_nobody_knows_how_many_rounds_there_will_be():
    assert lines(rounds=Rounds("auto", max_rounds=6))[0] == (
        "[............] 0 of 2 tasks | round 1 | running first"
    )


def test_a_profile_tells_how_much_of_the_run_each_task_is():
    expected = DAG_OF_TWO.run()
    for metrics, time_ms in zip(expected.metrics.task_metrics, (0.0, 3.0)):
        metrics.compute_time_ms = time_ms
        metrics.serialize_time_ms = metrics.deserialize_time_ms = 0.0
    drawn = lines(expected=expected)

    assert drawn[1].startswith("[............] 1 of 2 tasks | done at ")


def test_a_task_that_the_profile_does_not_know_counts_as_a_typical_one():
    expected = DAG({"first": first}).run()

    assert lines(expected=expected)[1].startswith("[######......] 1 of 2 tasks")


def test_tasks_by_which_a_graph_grows_are_counted_as_they_come():
    dag = DAG({"many": many}, rules=[map_over("many", "x", second)])
    drawn = lines(dag, rounds=Rounds(2, warmup=0))

    assert drawn[1] == "[######......] 1 of 1 tasks | round 1 of 2"
    assert drawn[2] == "[##..........] 1 of 3 tasks | round 1 of 2 | running second[0]"
    assert drawn[5] == "[######......] 3 of 3 tasks | round 1 of 2"
    assert drawn[6].startswith("[######......] 0 of 1 tasks | round 2 of 2 | done at ")
    assert drawn[-3].startswith("[############] 3 of 3 tasks | round 2 of 2 | done at ")


def test_a_task_that_fails_is_done_too():
    dag = DAG({"first": first, "fails": fails}, [("first", "fails")])

    assert lines(dag)[-3] == "[############] 2 of 2 tasks"


def test_of_many_tasks_that_run_a_few_are_named():
    one = Progress(None, io.StringIO())
    one._running = dict.fromkeys("abcde")

    assert one.text().endswith("running a, b, c and 2 more")


def test_the_end_is_as_many_rounds_away_as_are_to_come_and_what_is_left_of_this_one(monkeypatch):
    class Clock(datetime):
        @classmethod
        def now(cls):
            return datetime(2026, 1, 1, tzinfo=timezone.utc)

    monkeypatch.setattr(module, "datetime", Clock)
    one = Progress(None, io.StringIO())
    one._rounds, one._round, one._round_s = 5, 1, 3600.0
    one._whole, one._left = 4.0, 1.0

    end = datetime(2026, 1, 1, 3, 15, tzinfo=timezone.utc).astimezone()
    assert f" | done at {end:%H:%M:%S}" in one.text()


def test_drawing_is_given_up_where_it_takes_too_long(monkeypatch):
    monkeypatch.setattr(module, "_ALLOWANCE_S", -1.0)
    monkeypatch.setattr(module, "_SHARE", 0.0)

    # Of the last task it is drawn all the same.
    assert [line for line in lines() if line] == ["[############] 2 of 2 tasks"]


def test_a_terminal_that_is_gone_ends_no_run():
    class Gone(io.StringIO):
        def write(self, text):
            raise OSError("gone")

    profile = DAG_OF_TWO.run(hooks=[Progress(None, Gone())])
    assert profile.sections["run"]["state"] == "complete"


@pytest.mark.parametrize("quiet", [True, False])
def test_there_is_no_line_where_nobody_sees_it(quiet):
    assert progress(None, quiet=quiet) == []
