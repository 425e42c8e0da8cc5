from __future__ import annotations

import platform

import numpy as np
import pytest
from steps import Calls, failure

from dagprofiler import DAG, Config, task


@task(outputs=["data", "labels"], config_deps=["N"], estimate_fn=lambda cfg: cfg.N * 10)
def collect(cfg):
    return {"data": np.zeros((cfg.N, 10)), "labels": b"0" * cfg.N}


@task(outputs=["predictions"])
def classify(data, labels):
    return {"predictions": labels}


def run(**arguments):
    tasks = {"collect": collect, "classify": classify}
    return DAG(tasks, [("collect", "classify")], Config(N=100)).run(**arguments)


def partial():
    """Return the profile of a run in which b failed after a: c is skipped, d is cancelled."""
    tasks = {"a": collect, "b": Calls(lambda *_, **fields: 1 / 0), "c": classify, "d": collect}
    dag = DAG(tasks, [("a", "b", ["data"]), ("a", "c"), ("b", "c", [])], Config(N=10))
    return failure(dag).profile


# Metrics and weights


def test_weights_follow_from_models_and_sizes():
    metrics = run().metrics
    assert metrics.node_weights == {"collect": 1000, "classify": 0}
    assert metrics.edge_weights == {"collect->classify": 8 * 8100}


def test_consumers_of_the_same_fields_have_lists_of_their_own():
    tasks = {"a": collect, "b": classify, "c": classify}
    first, second = DAG(tasks, [("a", "b"), ("a", "c")], Config(N=3)).run().metrics.edge_metrics
    first.data_fields.append("more")
    first.field_bytes["data"]["size_bytes"] = -1
    assert second.data_fields == ["data", "labels"]
    assert second.field_bytes["data"]["size_bytes"] == 240


# The sections


def test_a_partial_run_has_the_whole_structure_and_what_was_measured():
    document = partial().to_dict()
    assert document["dag_structure"]["execution_order"] == ["a", "b", "c", "d"]
    assert set(document["node_weights"]) == set("abcd")
    assert [entry["task"] for entry in document["execution_metrics"]] == ["a"]
    assert document["edge_weights"] == {"a->b": 8 * 800, "a->c": 8 * 810}
    assert [record[0] for record in document["timeline"]["records"]] == ["a", "b"]
    # A task that did not run has its estimate.
    source = document["weight_sources"]["d"]
    assert source["node_weight"] == "estimated_instructions"
    assert source["estimated_instructions"] == 100


def test_weight_sources_tell_models_from_defaults():
    assert run().to_dict()["weight_sources"] == {
        "collect": {"node_weight": "estimated_instructions", "estimated_instructions": 1000},
        "classify": {
            "node_weight": "default",
            "estimated_instructions": None,
            "reasons": {"estimated_instructions": "the task has no cost model"},
        },
    }


def test_the_environment_describes_the_machine():
    environment = run().to_dict()["environment"]
    assert environment["python"] == platform.python_version()
    assert environment["implementation"] == platform.python_implementation()
    assert environment["versions"]["numpy"] == np.__version__
    assert set(environment["not_measured"]) >= {"counted_instructions", "cpu_time_ms"}


@pytest.mark.parametrize("seed", [None, 42])
def test_metadata_of_a_run(seed):
    metadata = run(seed=seed).to_dict()["metadata"]
    assert metadata["seed"] == seed
    assert metadata["schema_version"] == 1
    assert metadata["timestamp"].endswith("Z")
    assert metadata["hostname"]


# A profile that has just been made, against its document


def test_each_run_has_a_log_of_its_own():
    dag = DAG({"collect": collect}, [], Config(N=2))
    first = dag.run(keep=["collect"])
    text = first.dumps()
    second = dag.run(seed=3)
    assert first.dumps() == text
    assert second.seed == 3
    assert first.outputs["collect"]["data"] is not second.outputs["collect"]["data"]


def test_tasks_have_reasons_of_their_own():
    tasks = {"a": collect, "b": classify, "c": classify}
    profile = DAG(tasks, [("a", "b"), ("a", "c")], Config(N=3)).run()
    sources = profile.sections["weight_sources"]
    assert "reasons" not in sources["a"]
    sources["b"]["reasons"].clear()
    assert sources["c"]["reasons"] == {"estimated_instructions": "the task has no cost model"}
