"""Programs written for version 0.1.0 run unchanged.

What others test is not repeated here: each class of 0.1.0 has a file of its own.
"""

import dataclasses
import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from handmade import failure

from dagprofiler import DAG, Config, Profile, Task, analyze, task
from dagprofiler.metrics import DAGMetrics, EdgeMetrics, TaskMetrics
from dagprofiler.serializers import OutOfBandPickle


class Collect(Task):
    inputs = []
    outputs = ["x", "y"]

    def compute(self, cfg=None):
        n = cfg.N if cfg else 10
        return {"x": np.random.randn(n), "y": np.random.randn(n)}

    @staticmethod
    def estimate_instructions(cfg):
        return cfg.N * 10


class Double(Task):
    inputs = ["x"]
    outputs = ["z"]
    config_deps = ["scale"]

    def compute(self, x, cfg=None):
        scale = cfg.get("scale", 2) if cfg else 1.0
        return {"z": x * scale}

    @staticmethod
    def estimate_instructions(cfg):
        return cfg.get("N", 100) * 5


class Add(Task):
    inputs = ["y", "z"]
    outputs = ["result"]

    def compute(self, y, z, cfg=None):
        return {"result": y + z}


def test_programs_for_0_1_0_run_unchanged():
    tasks = {"T0": Collect("first", None), "T1": Double(), "T2": Add()}
    dag = DAG(tasks, [("T0", "T1"), ("T0", "T2"), ("T1", "T2", ["z"])], Config(N=100))
    assert dag.execution_order == ["T0", "T1", "T2"]
    assert all(node.config is dag.config for node in dag.tasks.values())
    profile = dag.run(42)
    metrics = profile.metrics
    assert (profile.seed, len(metrics.task_metrics)) == (42, 3)
    assert metrics.node_weights == {"T0": 1000, "T1": 500, "T2": 0}
    assert metrics.edge_weights == {"T0->T1": 6400, "T0->T2": 6400, "T1->T2": 6400}
    (result,) = profile.final_outputs.items()
    assert (result[0], result[1].shape) == ("result", (100,))
    # 0.1.0 passes each entry on as arguments and splits edge keys in two.
    data = json.loads(profile.dumps())
    for entry in data["execution_metrics"]:
        assert set(entry) <= {field.name for field in dataclasses.fields(TaskMetrics)}
    assert all(len(key.split("->")) == 2 for key in data["edge_weights"])
    Config(**data["configuration"])


#: As 0.1.0 saved the README's Quick Start, but for the line breaks.
QUICK_START = (Path(__file__).parent / "data" / "quick-start-of-0.1.0.json").read_text()


def test_profiles_of_0_1_0_have_times_of_tasks(tmp_path):
    profile = Profile.loads(QUICK_START)
    times = {"collect": 14.652, "process": 12.6, "classify": 0.004}
    assert profile.weights("wall_time").values == times
    assert profile.weights("best").source == "wall_time"
    path = analyze(profile).without_communication.critical_path
    assert path == ("collect", "process", "classify")
    profile.export(tmp_path / "saga.json", "saga", cost="wall_time")
    costs = json.loads((tmp_path / "saga.json").read_text())["tasks"]
    assert {task["name"]: task["cost"] for task in costs} == times
    assert "1,000,000" in str(profile)
    assert "CollectData" not in str(profile)
    assert [t.task for t in profile.metrics.task_metrics] == [*times]
    document = json.loads(QUICK_START)
    del document["execution_metrics"][1]
    shown = str(Profile.from_dict(document))
    assert "1,000,000" in shown
    assert "14.652" not in shown
    assert "no times" in shown


class Text(Task):
    """Overrides its format."""

    inputs = ["x"]
    outputs = ["text"]

    @staticmethod
    def serialize(data):
        return json.dumps(data).encode()

    @staticmethod
    def deserialize(data):
        return json.loads(data)

    def compute(self, x, cfg=None):
        return {"text": [float(value) for value in x]}


class Recorded(Task):
    """Records what passes through run(), as programs for 0.1.0 may."""

    inputs = ["x"]
    outputs = ["z"]

    def __init__(self, **options):
        super().__init__(**options)
        self.seen = []

    def run(self, inputs, config=None):
        result = super().run(inputs, config)
        self.seen.append((sorted(inputs), config, result["metrics"]))
        return result

    def compute(self, x, cfg=None):
        return {"z": x * cfg.factor}


class Source(Task):
    outputs = ["x"]

    def __init__(self, value):
        super().__init__()
        self.value = value

    def compute(self, cfg=None):
        return {"x": self.value}


@task(outputs=["got"])
def sink(z):
    return {"got": z}


def overriding(**body):
    return type("Overrides", (Recorded,), body)


def recorded(value=3, recorder=Recorded, source=Source, **options):
    tasks = {"a": source(value), "b": recorder(), "c": sink}
    return DAG(tasks, [("a", "b"), ("b", "c")], Config(factor=2), **options)


def test_a_dag_goes_through_an_override_of_run():
    dag = recorded()
    profile = dag.run()
    assert profile.final_outputs == {"got": 6}
    ((fields, config, metrics),) = dag.tasks["b"].seen
    assert (fields, config is dag.config, type(metrics)) == (["x"], True, TaskMetrics)
    sizes = [len(Task.serialize(value)) for value in (3, 6)]
    found = profile.metrics
    assert [entry.task for entry in found.task_metrics] == ["a", "b", "c"]
    assert [found.task_metrics[1].bytes_in, found.task_metrics[1].bytes_out] == sizes
    assert [*found.edge_weights.items()] == [("a->b", 8 * sizes[0]), ("b->c", 8 * sizes[1])]


class JsonFormat:
    name = "json"
    dumps = staticmethod(Text.serialize)
    loads = staticmethod(Text.deserialize)


def passes(self, x, cfg=None):
    return {"z": x}


def without_serialized_outputs(self, inputs, config=None):
    result = Recorded.run(self, inputs, config)
    return {name: result[name] for name in ("outputs_raw", "metrics")}


def with_other_outputs(self, inputs, config=None):
    result = Recorded.run(self, inputs, config)
    raw = {"z": -result["outputs_raw"]["z"]}
    return {**result, "outputs": {"z": self.serialize(raw["z"])}, "outputs_raw": raw}


def without_compute(self, inputs, config=None):
    z = -self.deserialize(inputs["x"])
    metrics = TaskMetrics(self.name, 0.0, 0.0, 0.0, 0, 0)
    return {"outputs": {"z": self.serialize(z)}, "outputs_raw": {"z": z}, "metrics": metrics}


FORMAT = {name: staticmethod(getattr(Text, name)) for name in ("serialize", "deserialize")}
OVERRIDES = {
    **{
        f"of {value!r}": ({"value": value, "recorder": overriding(compute=passes)}, value)
        for value in (b"bytes", [b"1", b"2"], None)
    },
    "after a producer of another format": (
        {"value": [1, 2], "source": type("Own", (Source,), FORMAT)},
        [1, 2, 1, 2],
    ),
    "with a format of its own": ({"value": [1], "recorder": overriding(**FORMAT)}, [1, 1]),
    "under a serializer": ({"value": [1], "serializer": JsonFormat()}, [1, 1]),
    "under a serializer of buffers": ({"value": [1], "serializer": OutOfBandPickle()}, [1, 1]),
    "without serialized outputs": ({"recorder": overriding(run=without_serialized_outputs)}, 6),
    "with other outputs": ({"recorder": overriding(run=with_other_outputs)}, -6),
    "over a compute() without parameters": (
        {"recorder": overriding(run=without_compute, compute=lambda self: 1 / 0)},
        -3,
    ),
}


@pytest.mark.parametrize(("options", "expected"), OVERRIDES.values(), ids=OVERRIDES)
def test_values_of_all_kinds_pass_through_an_override_of_run(options, expected):
    dag = recorded(**options)
    dag.validate()
    profile = dag.run(keep=["b"])
    assert profile.final_outputs == {"got": expected}
    assert profile.outputs["b"] == {"z": expected}


def test_overrides_of_run_gather_and_draw():
    tasks = {"a": Source(b"1"), "b": Source([2]), "c": overriding(gathers=["x"], compute=passes)()}
    dag = DAG(tasks, [("b", "c"), ("a", "c")], Config(factor=2))
    assert dag.run().final_outputs == {"z": [[2], b"1"]}

    def draws(self, x, cfg=None):
        return {"z": float(np.random.random())}

    plain = type("Plain", (Task,), {"inputs": ["x"], "outputs": ["z"], "compute": draws})
    first, second = (recorded(recorder=kind) for kind in (overriding(compute=draws), plain))
    assert first.run(5).final_outputs == second.run(5).final_outputs


@pytest.mark.parametrize(
    ("run", "cause"),
    [
        (lambda self, inputs, config=None: 1 / 0, ZeroDivisionError),
        (lambda self, inputs, config=None: None, Exception),
        (lambda *args: {**Recorded.run(*args), "outputs": {}, "outputs_raw": {}}, Exception),
    ],
    ids=["it raises", "it returns nothing", "it loses an output"],
)
def test_an_override_of_run_fails_like_a_task(run, cause):
    error = failure(recorded(recorder=overriding(run=run)))
    assert error.task == "b"
    assert "'b'" in str(error)
    assert isinstance(error.__cause__, cause)
    profile = error.profile
    assert profile.sections["run"]["tasks"]["b"]["state"] == "failed"
    assert list(profile.metrics.edge_weights) == ["a->b"]


def test_metrics_are_made_by_position_and_turn_into_dicts():
    times = {"compute_time_ms": 1.5, "serialize_time_ms": 0.25, "deserialize_time_ms": 0.125}
    entry = {"task": "a", **times, "bytes_in": 10, "bytes_out": 20}
    one, edge = TaskMetrics(*entry.values()), EdgeMetrics("a", "b", ["x"], 3)
    assert (one.loop_idx, one.to_dict()) == (0, entry)
    carried = {"source": "a", "target": "b", "data_fields": ["x"], "size_bytes": 3}
    assert (edge.size_bits, edge.to_dict()) == (24, {**carried, "size_bits": 24})
    weights = {"node_weights": {"a": 1, "b": 0}, "edge_weights": {"a->b": 24}}
    whole = DAGMetrics([one], [edge], *weights.values(), 2.5)
    entries = {"task_metrics": [entry], "edge_metrics": [edge.to_dict()]}
    assert whole.to_dict() == {**entries, **weights, "total_time_ms": 2.5}
    assert pickle.loads(pickle.dumps(whole)) == whole
