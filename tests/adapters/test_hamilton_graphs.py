"""Graphs of Hamilton, and its drivers' own runs, against what Hamilton itself computes."""

import os

import pytest

from dagprofiler import DAG, DagProfilerError, DeclarationError, GraphError, Profile

if os.environ.get("DAGPROFILER_EXTERNAL") != "required":
    pytest.importorskip("hamilton")
    pytest.importorskip("pandas")
import hamilton_parts
import hamilton_steps
import pandas
from hamilton import base, driver
from hamilton.execution import executors

from dagprofiler.adapters.hamilton import profile_hamilton

pytestmark = [pytest.mark.external, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

#: As in Hamilton's hello world.
OUTPUTS = ["spend", "signups", "avg_3wk_spend", "spend_per_signup", "spend_zero_mean_unit_variance"]


def built(*adapters, config=None):
    builder = driver.Builder().with_modules(hamilton_steps, hamilton_parts)
    builder = builder.with_config(config or {})
    builder = builder.enable_dynamic_execution(allow_experimental_mode=True)
    return builder.with_adapters(*adapters).build()


def recorded():
    """Return a recording, and a driver that it records."""
    recording = profile_hamilton()
    made = driver.Builder().with_modules(hamilton_steps).with_adapters(recording).build()
    return recording, made


@pytest.mark.parametrize(
    ("adapters", "outputs", "inputs", "config"),
    [
        ([base.PandasDataFrameResult()], OUTPUTS, {"rows": 6}, {}),
        ([], OUTPUTS, {"rows": 6}, {}),
        ([], [hamilton_steps.spend_mean, "lag_1", "lag_2"], {}, {"rows": 5}),
        ([], ["spend_std_dev"], {"rows": 6, "scale": 3.0}, {}),
        ([], ["spend_mean", "rows"], {"rows": 6}, {}),
    ],
)
def test_results_are_those_of_hamilton(adapters, outputs, inputs, config):
    made = built(*adapters, config=config)
    expected = made.execute(outputs, inputs=inputs)
    result = DAG.from_hamilton(made, outputs, inputs=inputs).run().final_outputs["value"]
    assert type(result) is type(expected)
    assert list(result) == list(expected)
    for name in expected:
        same = getattr(result[name], "equals", result[name].__eq__)
        assert same(expected[name])


def test_tasks_and_fields_have_the_names_of_the_nodes():
    dag = DAG.from_hamilton(built(), ["spend_zero_mean"], inputs={"rows": 6})
    assert set(dag.tasks) == {"raw", "spend", "spend_mean", "spend_zero_mean", "result"}
    assert dag.edge_fields["spend_mean", "spend_zero_mean"] == ["spend_mean"]


@pytest.mark.parametrize(
    ("outputs", "inputs", "error", "word"),
    [
        (["spend_men"], {"rows": 6}, GraphError, "spend_men"),
        (["spend_mean"], {}, GraphError, "rows"),
        (["spend_mean"], {"rows": "six"}, GraphError, "rows"),
        (["parts"], {"rows": 3}, GraphError, "'part"),
        (["later"], {"rows": 3}, GraphError, "'later' is asynchronous"),
        (["chosen"], {"rows": 3}, GraphError, "'chosen'"),
        (None, {"rows": 3}, DeclarationError, "None"),
    ],
)
def test_from_hamilton_names_the_culprit(outputs, inputs, error, word):
    with pytest.raises(error, match=word):
        DAG.from_hamilton(built(), outputs, inputs=inputs)
    with pytest.raises(DeclarationError, match="'a driver'"):
        DAG.from_hamilton("a driver", outputs)


def test_a_recording_has_the_nodes_of_the_last_run():
    recording, made = recorded()
    with pytest.raises(DagProfilerError, match="nothing"):
        _ = recording.profile
    made.execute(["spend_mean"], inputs={}, overrides={"spend": pandas.Series([1.0])})
    assert recording.profile.sections["run"]["state"] == "complete"
    assert recording.profile.dag_structure["nodes"] == ["spend_mean"]
    made.execute(["spend_zero_mean"], inputs={"rows": 6})
    profile = recording.profile
    assert Profile.loads(profile.dumps()) == profile
    assert set(profile.dag_structure["nodes"]) == {"raw", "spend", "spend_mean", "spend_zero_mean"}
    assert len(profile.dag_structure["edges"]) == 4
    assert len(profile.metrics.task_metrics) == 4
    assert "serializes none" in profile.sections["environment"]["not_measured"]["size_bytes"]


def test_a_recording_of_a_failure_is_partial():
    recording, made = recorded()
    with pytest.raises(ValueError, match="on purpose"):
        made.execute(["after_failing"], inputs={"rows": 6})
    run = recording.profile.sections["run"]
    assert run["state"] == "partial"
    states = {name: entry["state"] for name, entry in run["tasks"].items()}
    assert states == {"failing": "failed", "after_failing": "cancelled"}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    "remote",
    [executors.SynchronousLocalTaskExecutor(), executors.MultiProcessingExecutor(1)],
    ids=["here", "in processes"],
)
def test_a_recording_has_what_its_process_runs_each_time(remote):
    recording = profile_hamilton()
    builder = driver.Builder().with_modules(hamilton_parts).with_adapters(recording)
    builder = builder.enable_dynamic_execution(allow_experimental_mode=True)
    made = builder.with_remote_executor(remote).build()
    assert made.execute(["parts"], inputs={"rows": 2}) == {"parts": 1}
    profile = recording.profile
    assert profile.sections["run"]["state"] == "complete"
    edges = {(edge["source"], edge["target"]) for edge in profile.dag_structure["edges"]}
    twice = {("part", "same"), ("part", "same #2"), ("same", "parts"), ("same #2", "parts")}
    told = profile.sections["environment"]["not_measured"].get("dag_structure")
    assert (edges, told and told[-4:]) in [(twice, None), (set(), "same")]
