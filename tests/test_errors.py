import copy
import copyreg
import inspect
import pickle
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from linecache import getline

import pytest
from handmade import failure, source

import dagprofiler
from dagprofiler import DAG, DagProfilerError, Profile, Rounds, RunError, Task, errors, serializers
from dagprofiler.errors import (
    CycleError,
    GraphError,
    PackedError,
    ValidationError,
    short_repr,
)
from dagprofiler.formats.node_link import to_networkx
from dagprofiler.formats.saga import to_network, to_task_graph
from dagprofiler.report import plot

#: One instance of every error, and the builtin that a caller would expect it to be.
INSTANCES = [
    (errors.DeclarationError("task class 'A': inputs must be a list"), TypeError),
    (GraphError("edge 'a' -> 'a': a task cannot feed itself"), ValueError),
    (CycleError(["a", "b", "a"]), ValueError),
    (ValidationError([GraphError("one"), errors.CostModelError("two")]), ValueError),
    (errors.OutputError("task 'a': compute() returned no 'x'"), ValueError),
    (RunError("a", {"a": ValueError("boom")}, DAG({}).run()), RuntimeError),
    (errors.ProfileError("is not a number", "$.total_time_ms"), ValueError),
    (errors.SerializationError("task 'a': output 'x' cannot be serialized"), TypeError),
    (errors.CostModelError("task 'a': estimate_instructions failed"), ValueError),
    (errors.FormatError("there is no format 'x'"), ValueError),
    (errors.MissingExtraError("DAG.from_yaml", "yaml"), ImportError),
    (errors.WeightError("estimated", ["a"], "the task has no cost model"), ValueError),
    (errors.JournalError("/journal", ["a record is damaged"]), ValueError),
    (errors.TraceError("module 'x' is not found"), ValueError),
    (errors.WorkerError("a", ["b"], "the process died"), RuntimeError),
    (errors.TaskTimeoutError("a", 2.5, 2.6), TimeoutError),
]
NAMES = [type(error).__name__ for error, _ in INSTANCES]


def test_no_error_is_left_out_here():
    classes = inspect.getmembers(errors, inspect.isclass)
    defined = {name for name, found in classes if issubclass(found, DagProfilerError)}
    assert defined == {"DagProfilerError", *NAMES}


@pytest.mark.parametrize(("error", "builtin"), INSTANCES, ids=NAMES)
def test_errors_are_public_and_pickle(error, builtin):
    assert isinstance(error, DagProfilerError)
    assert isinstance(error, builtin)
    assert isinstance(error, GraphError) or not isinstance(error, (ValidationError, CycleError))
    name = type(error).__name__
    assert getattr(dagprofiler, name) is type(error)
    assert inspect.getdoc(type(error))
    assert str(copy.copy(error)) == str(copy.deepcopy(error)) == str(error)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        loaded = pickle.loads(pickle.dumps(error, protocol))
        assert (type(loaded), str(loaded)) == (type(error), str(error))
        for found in (loaded, pickle.loads(pickle.dumps(loaded))):
            assert found.__dict__.keys() == error.__dict__.keys()


ONE = DAG({"a": source}).run()
#: What needs a package, the package, and a call that looks for it; the extra, if of another name.
NEEDS = {
    "CloudpickleSerializer": ("cloudpickle", serializers.CloudpickleSerializer),
    "MsgpackSerializer": ("msgpack", serializers.MsgpackSerializer),
    "ArrowSerializer": ("pyarrow", serializers.ArrowSerializer, "arrow"),
    "DaskExecutor": ("distributed", dagprofiler.DaskExecutor, "dask"),
    "CeleryExecutor": ("celery", lambda: dagprofiler.CeleryExecutor(None)),
    "RayExecutor": ("ray", dagprofiler.RayExecutor),
    "DAG.from_yaml": ("yaml", lambda: DAG.from_yaml(__file__)),
    "to_networkx()": ("networkx", lambda: to_networkx(ONE)),
    "to_task_graph": ("saga", lambda: to_task_graph(ONE)),
    "to_task_graph, stochastic": ("saga", lambda: to_task_graph(ONE, stochastic=True)),
    "to_network": ("saga", lambda: to_network({"speeds": {"a": 1}})),
    "dagprofiler.report.plot": ("matplotlib", lambda: plot.gantt(ONE), "plot"),
}


@pytest.mark.parametrize("case", NEEDS)
def test_a_missing_package_names_its_extra(monkeypatch, case):
    feature, (package, needs, *extra) = case.partition(",")[0], NEEDS[case]
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(errors.MissingExtraError) as caught:
        needs()
    (named,) = extra or [package]
    says = f'needs a package that is not installed: pip install "dagprofiler[{named}]"'
    assert (caught.value.extra, str(caught.value)) == (named, f"{feature} {says}")


def test_messages_are_one_short_line_whatever_is_in_them():
    error = CycleError([*map(str, range(100_000)), "0"])
    message = str(error)
    assert len(message) < 1100
    assert message.startswith("tasks form a cycle: '0' -> '1' -> ")
    assert message.endswith(" -> '99999' -> '0'")
    assert len(error.cycle) == 100_001
    text = short_repr(["first", *range(100_000), "last"])
    assert text.startswith("['first', 0, 1")
    assert text.endswith("99999, 'last']")
    assert len(text) < 310
    assert short_repr("two  blanks\n\x1b[31m") == r"'two  blanks\n\x1b[31m'"
    assert errors.did_you_mean("DATA", ["data", "labels"]) == "; did you mean 'data'?"
    assert errors.did_you_mean("zzz", ["data"]) == errors.did_you_mean(5, []) == ""


class Unpicklable(Exception):  # noqa: N818  (a name that a user may choose)
    def __init__(self):
        super().__init__("holds a lambda")
        self.function = lambda: None


@pytest.mark.parametrize(
    "made", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy, copy.deepcopy]
)
@pytest.mark.parametrize("cause", [ValueError("boom"), Unpicklable()], ids=repr)
def test_a_run_error_travels_with_its_cause(made, cause):
    def raising(error):
        return type("Raises", (Task,), {"compute": lambda self: raises(error)})

    dag = DAG({"a": raising(cause), "b": raising(LookupError())})
    error = failure(dag, on_error="finish")
    again = made(error)
    assert type(again) is RunError
    assert list(again.failures) == ["a", "b"]
    assert again.__cause__ is again.failures["a"]
    assert str(cause) in str(again.__cause__)
    assert type(again.failures["b"]) is LookupError
    assert again.task == "a"
    assert again.profile == error.profile
    if isinstance(cause, ValueError):
        assert type(again.__cause__) is ValueError
        assert str(again) == str(error)


def raises(error):
    raise error


def with_its_cause(message, cause):
    error = ValueError(message)
    error.__cause__ = cause
    return error


def test_errors_keep_their_class_without_their_cause(monkeypatch):
    # So does tblib, which comes with Dask.
    whole = lambda error: (with_its_cause, (*error.args, error.__cause__))  # noqa: E731
    monkeypatch.setitem(copyreg.dispatch_table, ValueError, whole)
    packed = PackedError(with_its_cause("no such cell", Unpicklable()))
    again = pickle.loads(pickle.dumps(packed)).unpacked()
    assert repr(again) == "ValueError('no such cell')"
    assert repr(again.__cause__) == "DagProfilerError('Unpicklable: holds a lambda')"
    assert "Unpicklable: holds a lambda" in str(again.__cause__.__cause__)


class Deep(Task):
    """Raises an error below as many calls as its config says."""

    def compute(self, cfg):
        self.fall(cfg.depth)

    def fall(self, depth):
        return self.fall(depth - 1) if depth else 1 / 0


@pytest.mark.parametrize(
    "how", ["serial", "threads", "processes", pytest.param("fresh", marks=pytest.mark.slow)]
)
def test_a_profile_holds_where_a_task_failed_wherever_it_ran(how):
    pools = {"threads": ThreadPoolExecutor, "processes": ProcessPoolExecutor}
    pool = pools[how](1) if how in pools else None
    rounds = Rounds(1, fresh_process=how == "fresh")
    error = failure(DAG({"deep": Deep}, config={"depth": 1}), executor=pool, rounds=rounds)
    if pool is not None:
        pool.shutdown()
    state = Profile.loads(error.profile.dumps()).sections["run"]["tasks"]["deep"]
    assert state["error"] == "ZeroDivisionError: division by zero"
    frames = [(frame["file"], frame["function"]) for frame in state["traceback"]]
    assert frames == [(__file__, name) for name in ("compute", "fall", "fall")]
    last = state["traceback"][-1]
    assert last["text"] == getline(__file__, last["line"]).strip()


@pytest.mark.parametrize("error", [KeyboardInterrupt(), KeyError("a")])
def test_explained_lets_other_errors_pass(error):
    with pytest.raises(type(error)), errors.explained(GraphError, "graph", of=OSError):
        raise error
