from __future__ import annotations

import dataclasses

import pytest
from steps import METHODS, Calls, Notes, always, failure

from dagprofiler import DAG, Config, DeclarationError, Hook, Profile, Task
from dagprofiler import ValidationError as Invalid
from dagprofiler.engine.options import RunOptions

WORKS, FAILS = Calls(always(x=1)), Calls(lambda *_: int("no"))


def test_calls_come_in_order():
    notes = Notes()
    profile = DAG({"a": WORKS, "b": WORKS}, [("b", "a")]).run(hooks=[notes])
    assert notes.calls == [
        ("run_started",),
        ("task_started", "b"),
        ("task_finished", "b"),
        ("task_started", "a"),
        ("task_finished", "a"),
        ("round_finished", 0),
        ("run_finished",),
        ("close",),
    ]
    assert notes.got["run_finished"] is profile


@pytest.mark.parametrize(
    ("on_error", "later"),
    [("stop", []), ("finish", [("task_started", "c"), ("task_finished", "c")])],
)
def test_calls_come_in_order_when_a_task_fails(on_error, later):
    notes = Notes()
    dag = DAG({"a": FAILS, "b": WORKS, "c": WORKS}, [("a", "b")])
    error = failure(dag, on_error=on_error, hooks=[notes])
    assert notes.calls == [
        ("run_started",),
        ("task_started", "a"),
        ("task_failed", "a"),
        *later,
        ("run_finished",),
        ("close",),
    ]
    assert notes.got["run_finished"] is error.profile
    assert notes.got["run_finished"].to_dict()["run"]["state"] == "partial"


def test_a_task_has_waited_from_when_it_was_ready_until_it_started():
    notes = Notes()
    DAG({"a": WORKS, "b": WORKS}, [("b", "a")]).run(hooks=[notes])
    record = notes.got["task_finished"]
    assert record.ready_ms >= 0
    waited_ms = record.phases["deserialize_start_ms"] - record.ready_ms
    assert record.waited_ms == pytest.approx(waited_ms, abs=1e-5)


def test_each_call_goes_to_all_hooks_in_their_order():
    calls = []
    DAG({"a": WORKS}).run(hooks=[Notes(calls, label="1 "), Notes(calls, label="2 ")])
    assert [call[0] for call in calls] == [
        f"{number} {method}" for method in METHODS if method != "task_failed" for number in "12"
    ]


def test_a_hook_sees_what_is_about_to_run():
    notes, config = Notes(), Config(N=3)
    dag = DAG({"b": WORKS, "a": WORKS}, [("b", "a")], config)
    dag.run(7, hooks=[notes])
    run = notes.got["run_started"]
    assert dict(run.tasks) == dag.tasks
    assert list(run.execution_order) == ["b", "a"]
    assert run.config is config
    assert run.options == RunOptions(7)
    with pytest.raises(dataclasses.FrozenInstanceError):
        run.seed = 8


def test_a_hook_sees_the_record_of_a_task():
    notes = Notes()
    profile = DAG({"a": WORKS}).run(hooks=[notes])
    record = notes.got["task_finished"]
    assert (record.task, record.state, record.error) == ("a", "succeeded", None)
    assert record.metrics == profile.metrics.task_metrics[0]
    assert record.worker == profile.to_dict()["timeline"]["workers"][0]
    (row,) = profile.to_dict()["timeline"]["records"]
    assert list(record.phases.values()) == row[4:]
    assert list(record.phases) == profile.to_dict()["timeline"]["columns"][4:]


def test_a_hook_sees_the_record_of_a_failure():
    notes = Notes()
    error = failure(DAG({"a": FAILS}), hooks=[notes])
    record = notes.got["task_failed"]
    assert (record.task, record.state, record.metrics) == ("a", "failed", None)
    assert record.error is error.__cause__
    assert record.phases["compute_start_ms"] is not None
    assert record.phases["serialize_start_ms"] is None


def test_a_hook_may_run_another_dag():
    class Nests(Hook):
        def task_finished(self, record):
            self.seen = DAG({"inner": WORKS}).run(5).final_outputs

    nests = Nests()
    assert DAG({"a": WORKS}).run(5, hooks=[nests]).final_outputs == nests.seen


@pytest.mark.parametrize("hook", [Hook, None, "hook", object()])
def test_what_is_no_hook_is_refused(hook):
    with pytest.raises(DeclarationError) as caught:
        DAG({}).run(hooks=[hook])
    assert str(caught.value) == f"hooks: expected instances of Hook, got {hook!r}"
    with pytest.raises(DeclarationError, match=r"hooks must be .* a list$"):
        DAG({}).run(hooks=Notes())


@pytest.mark.parametrize("method", [m for m in METHODS if m != "task_failed"])
def test_a_hook_that_raises_ends_the_run_like_a_failing_task(method):
    notes, other = Notes(fails_in=method), Notes()
    error = failure(DAG({"a": WORKS, "b": WORKS}), hooks=[notes, other])
    place = f"Notes.{method}"
    assert str(error) == f"hook {place} failed: OSError: {method}"
    assert error.task is None
    assert list(error.failures) == [place]
    assert error.__cause__ is error.failures[place]
    assert isinstance(error.__cause__, OSError)
    assert Profile.loads(error.profile.dumps()) == error.profile
    # All hooks are closed, even if closing fails.
    assert other.calls[-1] == ("close",)
    assert notes.calls.count(("close",)) == 1


@pytest.mark.parametrize(
    ("method", "finished"), [("run_started", ""), ("task_started", ""), ("task_finished", "a")]
)
def test_nothing_new_starts_after_a_hook_has_raised(method, finished):
    notes = Notes(fails_in=method)
    profile = failure(DAG({"a": WORKS, "b": WORKS}), hooks=[notes], on_error="finish").profile
    assert [one.task for one in profile.metrics.task_metrics] == list(finished)
    run = profile.to_dict()["run"]
    assert run["state"] == "partial"
    assert run["reason"] == f"hook 'Notes.{method}' failed: OSError: {method}"
    assert run["tasks"] == {n: {"state": "cancelled"} for n in "ab" if n not in finished}
    assert [call[0] for call in notes.calls][-2:] == ["run_finished", "close"]


def test_a_hook_that_raises_about_a_failure_leaves_it_first():
    error = failure(DAG({"a": FAILS}), hooks=[Notes(fails_in="task_failed")])
    assert error.task == "a"
    assert list(error.failures) == ["a", "Notes.task_failed"]
    assert isinstance(error.__cause__, ValueError)
    assert str(error).startswith("task 'a' failed: ValueError")
    assert str(error).endswith("(and 1 more: 'Notes.task_failed')")


def test_hooks_are_closed_even_if_closing_is_interrupted():
    class Interrupts(Hook):
        def close(self):
            raise KeyboardInterrupt

    notes = Notes()
    with pytest.raises(KeyboardInterrupt):
        DAG({"a": WORKS}).run(hooks=[Interrupts(), notes])
    assert notes.calls[-1] == ("close",)


@pytest.mark.parametrize(
    "arguments",
    [{"seed": -1}, {"on_error": "never"}, {"keep": ["z"]}, {"inputs": {"a": {"cfg": 1}}}],
    ids=repr,
)
def test_hooks_are_closed_even_if_nothing_could_start(arguments):
    class Needs(Task):
        outputs = ["x"]

        def compute(self, y):
            return {"x": y}

    notes = Notes()
    with pytest.raises(Invalid):
        DAG({"a": Needs}).run(hooks=[notes], **arguments)
    assert notes.calls == [("close",)]


def test_a_hook_may_watch_several_runs():
    notes = Notes()
    dag = DAG({"a": WORKS})
    dag.run(hooks=[notes])
    dag.run(hooks=[notes])
    assert notes.calls[:6] == notes.calls[6:]


def test_two_hooks_of_one_class_fail_under_two_keys():
    failures = failure(
        DAG({"a": WORKS}), hooks=[Notes(fails_in="close") for _ in range(3)]
    ).failures
    assert list(failures) == ["Notes.close", "Notes.close (2)", "Notes.close (3)"]
    assert len({id(error) for error in failures.values()}) == 3


def test_a_task_named_like_a_place_in_a_hook_keeps_its_key():
    error = failure(DAG({"Notes.close": FAILS}), hooks=[Notes(fails_in="close")])
    assert error.task == "Notes.close"
    assert {name: type(cause) for name, cause in error.failures.items()} == {
        "Notes.close": ValueError,
        "hook Notes.close": OSError,
    }
    assert str(error).startswith("task 'Notes.close' failed: ValueError: ")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("on_task_end", "task_finished"),
        ("before_task", "task_started"),
        ("after_run", "run_finished"),
        ("task_finish", "task_finished"),
        ("task_fnished", "task_finished"),
        ("on_round_complete", "round_finished"),
        ("task_error", "task_failed"),
    ],
)
def test_a_method_that_no_hook_has_is_refused_with_the_one_that_is_meant(name, meant):
    kind = type("Log", (Notes,), {name: lambda self, record: None})
    calls = []
    with pytest.raises(DeclarationError, match=f"hook Log: '{name}'.*mean '{meant}'"):
        DAG({"a": WORKS}).run(hooks=[kind(calls)])
    assert calls == []


def test_helpers_of_hooks_are_not_refused():
    class Observer:
        def on_event(self):
            pass

    class Helps(Notes, Observer):
        task_names = ()

        def on_event(self):
            pass

        def _on_end(self):
            pass

    DAG({"a": WORKS}).run(hooks=[Helps()])
    helps = type("Helps", (Hook,), {"on_zzz": lambda self: None})
    with pytest.raises(DeclarationError, match=r"'on_zzz'.*underscore"):
        DAG({"a": WORKS}).run(hooks=[helps()])
