"""Progress: what is shown of a run while it runs."""

import io
import re
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from handmade import Terminal, sink, source

from dagprofiler import DAG, Progress, Rounds, RunError, compare_runs, map_over, task
from dagprofiler.engine import progress as module


@pytest.fixture
def drawn(monkeypatch):
    """Draw at every event, and by no thread; return a function that runs a DAG and the lines."""
    monkeypatch.setattr(module._Terminal, "pause_s", -1.0)
    monkeypatch.setattr(module._Moving, "_move", lambda _: None)
    monkeypatch.setenv("COLUMNS", "120")

    def lines(dag, expected=None, **options):
        stream = Terminal()
        with suppress(RunError):
            dag.run(hooks=[Progress(expected, stream=stream)], **options)
        return shown(stream)

    return lines


def shown(stream):
    """Return the lines that were drawn, with times as T."""
    lines = [line.rstrip() for line in stream.getvalue().split("\r")[1:]]
    return [re.sub(r"\d+\.\d s|\d+:\d\d", "T", line) for line in lines]


@task(inputs=["x"], outputs=["z"])
def fails(x):
    raise ValueError(x)


TWO = DAG({"first": source, "second": sink}, [("first", "second")])
FAILING = DAG({"first": source, "fails": fails}, [("first", "fails")])


def test_the_line_tells_of_each_task_and_nothing_of_it_remains(drawn):
    assert drawn(TWO) == [
        "[............] 0 of 2 tasks | T | first for T",
        "[######......] 1 of 2 tasks | T, T left",
        "[######......] 1 of 2 tasks | T, T left | second for T",
        "[############] 2 of 2 tasks | T, T left",
        "",
        "",
    ]


def test_rounds_are_counted_without_the_warm_up(drawn):
    lines = drawn(TWO, rounds=Rounds(2, warmup=1))
    where = [line.split(" | ")[1] for line in lines if line]
    assert where == ["warm-up 1 of 1"] * 4 + ["round 1 of 2"] * 4 + ["round 2 of 2"] * 4
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
    assert [line for line in drawn(FAILING) if line][-1].startswith("[############] 2 of 2 tasks")


def test_of_tasks_that_run_concurrently_the_first_is_named(drawn):
    barrier = threading.Barrier(3, timeout=30)
    waits = task(outputs=["x"])(lambda: {"x": barrier.wait()})
    with ThreadPoolExecutor(3) as pool:
        lines = drawn(DAG({"a": waits, "b": waits, "c": waits}), executor=pool)
    assert lines[2] == "[............] 0 of 3 tasks | T | a for T and 2 more"


def test_what_tasks_print_stands_above_the_line(drawn, monkeypatch):
    @task(outputs=["x"])
    def prints():
        for words in ("hello\n", "un", "finished\n"):
            sys.stdout.write(words)
        return {"x": 1}

    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    DAG({"prints": prints}).run(hooks=[Progress(stream=screen)])
    assert sys.stdout is screen
    left = [line.split("\r")[-1] for line in screen.getvalue().split("\n")]
    assert left[:2] == ["hello", "unfinished"]


def test_a_line_moves_while_one_long_task_runs(monkeypatch):
    monkeypatch.setattr(module._Terminal, "pause_s", 0.001)
    moved = threading.Event()

    class Watched(Terminal):
        def write(self, text):
            if self.getvalue().count("waits for") > 3:
                moved.set()
            return super().write(text)

    waits = task(outputs=["x"])(lambda: {"x": moved.wait(60)})
    DAG({"waits": waits}).run(hooks=[Progress(stream=Watched())])
    assert moved.is_set()


def test_without_a_terminal_lines_come_now_and_then(monkeypatch):
    log, dumb = io.StringIO(), Terminal()
    TWO.run(hooks=[Progress(stream=log)])
    assert log.getvalue() == ""
    with monkeypatch.context() as patch:
        patch.setenv("TERM", "dumb")
        TWO.run(hooks=[Progress(stream=dumb)])
    assert dumb.getvalue() == ""
    monkeypatch.setattr(module.Line, "pause_s", -1.0)
    TWO.run(hooks=[Progress(stream=log)])
    lines = log.getvalue().splitlines()
    assert len(lines) == 4
    assert lines[-1].startswith("[############] 2 of 2 tasks")


def test_a_terminal_that_is_gone_ends_no_run():
    class Gone(Terminal):
        def write(self, text):
            raise OSError("gone")

    profile = TWO.run(hooks=[Progress(stream=Gone())])
    assert profile.sections["run"]["state"] == "complete"


def test_two_runs_that_are_compared_share_a_line(drawn, monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    compare_runs(TWO, {}, rounds=Rounds(2, warmup=0), progress=True)
    lines = [line for line in shown(screen) if line]
    assert lines[0].startswith("[............] base: 0 of 2 tasks | round 1 of 2")
    assert lines[4].startswith("[............] new: 0 of 2 tasks | round 1 of 2")
    assert lines[-1].startswith("[############] base: 2 of 2 tasks | round 2 of 2")


def test_a_notebook_has_a_bar(monkeypatch):
    shell = type("Shell", (), {"kernel": None})()
    updates = []

    class Display:
        HTML = str

        @staticmethod
        def display(html, display_id):
            assert display_id
            return type("Handle", (), {"update": staticmethod(updates.append)})

    ipython = type(sys)("IPython")
    ipython.get_ipython, ipython.display = lambda: shell, Display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setattr(module._Notebook, "pause_s", -1.0)
    monkeypatch.setattr(module._Moving, "_move", lambda _: None)
    DAG({"<a>": source}).run(hooks=[Progress()])
    assert updates[0].startswith('<progress value="0.0000"></progress> 0 of 1 tasks | ')
    assert "&lt;a&gt; for " in updates[0]
    assert updates[-1] == ""
