import os
import threading
from contextlib import suppress

import pytest
from handmade import failure
from steps import METHODS, Calls, Notes, always

from dagprofiler import DAG, Config, DeclarationError, Hook, Profile, RunError
from dagprofiler import ValidationError as Invalid
from dagprofiler.engine.setup import RunOptions

WORKS, FAILS = Calls(always(x=1)), Calls(lambda *_: int("no"))


def ran(names):
    return [(method, name) for name in names for method in ("task_started", "task_finished")]


FAILED = [("task_started", "a"), ("task_failed", "a")]


@pytest.mark.parametrize(
    ("first", "on_error", "calls"),
    [
        (WORKS, "stop", [*ran("abc"), ("round_finished", 0)]),
        (FAILS, "stop", FAILED),
        (FAILS, "finish", [*FAILED, *ran("c")]),
    ],
)
def test_hooks_are_called_in_order(first, on_error, calls):
    calls = [("run_started",), *calls, ("run_finished",), ("close",)]
    told = []
    hooks = [Notes(told, label=label) for label in ("1 ", "2 ")]
    dag = DAG({"a": first, "b": WORKS, "c": WORKS}, [("a", "b")])
    # They may watch several runs.
    for _ in range(2):
        with suppress(RunError):
            dag.run(on_error=on_error, hooks=hooks)
    both = [(label + method, *what) for method, *what in calls for label in ("1 ", "2 ")]
    assert told == 2 * both


def test_hooks_receive_the_run_and_records_of_tasks():
    notes, config = Notes(), Config(N=3)
    dag = DAG({"b": WORKS, "a": WORKS}, [("b", "a")], config)
    profile = dag.run(7, hooks=[notes])
    assert notes.got["run_finished"] is profile
    run, record = notes.got["run_started"], notes.got["task_finished"]
    assert dict(run.tasks) == dag.tasks
    assert list(run.execution_order) == ["b", "a"]
    assert run.config is config
    assert run.options == RunOptions(7)
    assert (record.task, record.state, record.error) == ("a", "succeeded", None)
    assert record.metrics == profile.metrics.task_metrics[1]
    timeline = profile.to_dict()["timeline"]
    assert [record.worker] == timeline["workers"]
    assert record.worker.items() >= {"pid": os.getpid(), "thread": threading.get_ident()}.items()
    phases = dict(zip(timeline["columns"], timeline["records"][1]))
    assert phases.items() >= record.phases.items()
    assert list(record.phases) == timeline["columns"][4:]


@pytest.mark.parametrize("hook", [Hook, None])
def test_run_refuses_wrong_hooks(hook):
    with pytest.raises(DeclarationError) as caught:
        DAG({}).run(hooks=[hook])
    assert str(caught.value) == f"hooks: expected instances of Hook, got {hook!r}"
    with pytest.raises(DeclarationError, match=r"hooks must be .* a list$"):
        DAG({}).run(hooks=Notes())


@pytest.mark.parametrize("method", [m for m in METHODS if m != "task_failed"])
def test_a_hook_that_raises_ends_the_run(method):
    notes, other = Notes(fails_in=method), Notes()
    dag = DAG({"a": WORKS, "b": WORKS})
    error = failure(dag, hooks=[notes, other], on_error="finish")
    place = f"Notes.{method}"
    assert str(error) == f"hook {place} failed: OSError: {method}"
    assert (error.task, error.failures) == (None, {place: error.__cause__})
    assert isinstance(error.__cause__, OSError)
    assert Profile.loads(error.profile.dumps()) == error.profile
    # All hooks are closed, even if closing fails.
    assert [call[0] for call in notes.calls][-2:] == ["run_finished", "close"]
    assert other.calls[-1] == ("close",)
    finished = {"run_started": "", "task_started": "", "task_finished": "a"}.get(method)
    if finished is not None:
        assert [one.task for one in error.profile.metrics.task_metrics] == list(finished)
        run = error.profile.to_dict()["run"]
        reason = f"hook '{place}' failed: OSError: {method}"
        assert (run["state"], run["reason"]) == ("partial", reason)
        assert run["tasks"] == {n: {"state": "cancelled"} for n in "ab" if n not in finished}


def test_a_hook_that_raises_about_a_failure_leaves_it_first():
    notes = Notes(fails_in="task_failed")
    error = failure(DAG({"a": FAILS}), hooks=[notes])
    record = notes.got["task_failed"]
    assert (record.task, record.state, record.metrics) == ("a", "failed", None)
    assert record.error is error.__cause__ is error.failures["a"]
    assert record.phases["compute_start_ms"] is not None
    assert record.phases["serialize_start_ms"] is None
    assert notes.got["run_finished"] is error.profile
    assert error.task == "a"
    assert list(error.failures) == ["a", "Notes.task_failed"]
    assert str(error).startswith("task 'a' failed: ValueError")
    assert str(error).endswith("(so did 'Notes.task_failed')")


@pytest.mark.parametrize(
    "arguments",
    [{"seed": -1}, {"on_error": "never"}, {"keep": ["z"]}, {"inputs": {"a": {"cfg": 1}}}],
    ids=" ".join,
)
def test_hooks_are_closed_though_nothing_starts(arguments):
    notes = Notes(fails_in="close", error=KeyboardInterrupt), Notes()
    with pytest.raises((KeyboardInterrupt, Invalid)):
        DAG({"a": WORKS}).run(**arguments, hooks=notes)
    assert notes[0].calls == notes[1].calls == [("close",)]


@pytest.mark.parametrize("name", ["task_finish", "on_task_end", "before_task", "after_run"])
def test_unknown_methods_of_hooks_are_refused(name):
    kind = type("Log", (Notes,), {name: lambda self, record: None, "_on_end": None})
    notes = kind()
    with pytest.raises(DeclarationError, match=f"hook Log: '{name}'.*task_finished") as caught:
        DAG({"a": WORKS}).run(hooks=[notes])
    assert ("did you mean 'task_finished'" in str(caught.value)) is (name == "task_finish")
    assert notes.calls == []


def test_methods_that_a_hook_inherits_are_not_refused():
    observer = type("Observer", (), {"on_event": lambda self: None})
    helps = type("Helps", (Notes, observer), {"on_event": observer.on_event, "task_names": ()})
    DAG({"a": WORKS}).run(hooks=[helps()])
