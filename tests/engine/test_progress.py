"""Progress: what is shown of a run while it runs."""

import io
import re
import sys
import threading
from contextlib import suppress

import pytest
from handmade import Terminal, sink, source

from dagprofiler import DAG, Progress, Rounds, RunError, map_over, task
from dagprofiler.engine import progress as module


@pytest.fixture
def drawn(monkeypatch):
    """Print a line at every event; return a function that runs a DAG and returns the lines."""
    monkeypatch.setattr(module, "_PAUSE_S", -1.0)

    def lines(dag, expected=None, **options):
        stream = io.StringIO()
        with suppress(RunError):
            dag.run(hooks=[Progress(expected, stream=stream)], **options)
        return shown(stream)

    return lines


def shown(stream):
    """Return the lines that were printed, with times as T."""
    return [
        re.sub(r"\d+\.\d s|\d+:\d\d:\d\d", "T", line) for line in stream.getvalue().splitlines()
    ]


TWO = DAG({"first": source, "second": sink}, [("first", "second")])


def test_the_line_tells_of_each_task(drawn):
    assert drawn(TWO) == [
        "[............] 0 of 2 tasks | T | first for T",
        "[######......] 1 of 2 tasks | T, T left",
        "[######......] 1 of 2 tasks | T, T left | second for T",
        "[############] 2 of 2 tasks | T, T left",
    ]


def test_rounds_are_counted(drawn):
    lines = drawn(TWO, rounds=Rounds(2, warmup=1))
    where = [line.split(" | ")[1] for line in lines]
    assert where == [f"round {k} of 3" for k in (1, 2, 3) for _ in range(4)]
    assert lines[4].startswith("[####........] 0 of 2 tasks")
    assert lines[11].startswith("[############] 2 of 2 tasks")
    # Nobody knows how many rounds there will be.
    lines = drawn(TWO, rounds=Rounds("auto", warmup=0, max_rounds=6))
    assert lines[0] == "0 of 2 tasks | round 1 | T | first for T"


def test_an_expected_profile_gives_the_time_left(drawn):
    expected = TWO.run()
    for metrics, time_ms in zip(expected.metrics.task_metrics, (1.0, 3.0)):
        metrics.compute_time_ms = time_ms
    lines = drawn(TWO, expected=expected)
    assert lines[0].startswith("[............] 0 of 2 tasks | T, T left")
    assert lines[1].startswith("[###.........] 1 of 2 tasks")
    unknown = drawn(TWO, expected=DAG({"first": source}).run())
    assert unknown[1].startswith("[######......] 1 of 2 tasks")


def test_added_and_failed_tasks_are_counted(drawn):
    many = task(outputs=["x"])(lambda: {"x": [1, 2]})(name="many")
    lines = drawn(DAG({"many": many}, rules=[map_over("many", "x", sink)]))
    assert lines[1].startswith("[############] 1 of 1 tasks")
    assert lines[2].startswith("[####........] 1 of 3 tasks")
    assert "3 of 3 tasks" in lines[5]
    fails = task(outputs=["z"])(lambda x: {"z": x / 0})
    failing = DAG({"first": source, "fails": fails}, [("first", "fails")])
    assert drawn(failing)[-1].startswith("[############] 2 of 2 tasks")


def test_on_a_terminal_the_line_stays_below_what_tasks_print(monkeypatch):
    moved = threading.Event()

    class Watched(Terminal):
        def write(self, text):
            if self.getvalue().count("prints for") > 3:
                moved.set()
            return super().write(text)

    @task(outputs=["x"])
    def prints():
        for words in ("hello\n", "un", "finished\n"):
            sys.stdout.write(words)
        return {"x": moved.wait(60)}

    screen, file = Watched(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(sys, "stderr", file)
    monkeypatch.setenv("TERM", "xterm")
    profile = DAG({"prints": prints}).run(hooks=[Progress(stream=screen)])
    assert profile.final_outputs == {"x": True}
    assert (sys.stdout, sys.stderr) == (screen, file)
    # A line is erased before anything else is written over it.
    left = [line.split("\x1b[2K")[-1].strip() for line in screen.getvalue().split("\n")]
    assert left[0].endswith("hello")
    assert left[1] == "unfinished"
    assert not any("tasks" in line for line in left)


def test_without_a_terminal_or_rich_lines_come_now_and_then(drawn, monkeypatch):
    dumb, without = Terminal(), Terminal()
    with monkeypatch.context() as patch:
        patch.setenv("TERM", "dumb")
        TWO.run(hooks=[Progress(stream=dumb)])
    monkeypatch.setitem(sys.modules, "rich.live", None)
    TWO.run(hooks=[Progress(stream=without)])
    assert shown(dumb) == shown(without) == drawn(TWO)
    monkeypatch.undo()
    assert drawn(TWO) == []


def test_a_terminal_that_is_gone_ends_no_run(monkeypatch):
    gone = Terminal()
    gone.close()
    monkeypatch.setenv("TERM", "xterm")
    assert TWO.run(hooks=[Progress(stream=gone)]).sections["run"]["state"] == "complete"
