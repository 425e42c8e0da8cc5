from __future__ import annotations

import json
import pickle

import numpy as np

from dagprofiler import DAG, DAGMetrics, EdgeMetrics, Task, TaskMetrics


def test_task_metrics_take_the_fields_of_the_standard_in_order():
    metrics = TaskMetrics("collect", 5.5, 0.25, 0.125, 10, 20)
    assert metrics.loop_idx == 0
    metrics = TaskMetrics("collect", 5.5, 0.25, 0.125, 10, 20, 3)
    assert metrics.loop_idx == 3
    fields = {
        "task": "collect",
        "compute_time_ms": 5.5,
        "serialize_time_ms": 0.25,
        "deserialize_time_ms": 0.125,
        "bytes_in": 10,
        "bytes_out": 20,
    }
    assert metrics.to_dict() == {name: getattr(metrics, name) for name in fields} == fields


def test_edge_metrics_follow_their_bytes_in_bits():
    edge = EdgeMetrics(source="a", target="b", data_fields=["x"], size_bytes=3)
    assert edge.size_bits == 24
    edge.size_bytes = 5
    expected = {"source": "a", "target": "b", "data_fields": ["x"], "size_bytes": 5}
    assert edge.to_dict() == {**expected, "size_bits": 40}
    recorded = {"wire_bytes": 7, "fields": {"x": {"size_bytes": 5, "wire_bytes": 7}}}
    edge = EdgeMetrics("a", "b", ["x"], 5, *recorded.values())
    assert edge.to_dict() == {**expected, "size_bits": 40, **recorded}


def test_dag_metrics_hold_all_compare_by_value_and_become_plain_data():
    def make(size_bytes=3):
        return DAGMetrics(
            [TaskMetrics("a", 1.0, 1.0, 1.0, 1, 1)],
            [EdgeMetrics("a", "b", ["x"], size_bytes)],
            {"a": 10, "b": 0},
            {"a->b": 24},
            12.5,
        )

    metrics = make()
    assert metrics.to_dict() == {
        "task_metrics": [metrics.task_metrics[0].to_dict()],
        "edge_metrics": [metrics.edge_metrics[0].to_dict()],
        "node_weights": {"a": 10, "b": 0},
        "edge_weights": {"a->b": 24},
        "total_time_ms": 12.5,
    }
    assert pickle.loads(pickle.dumps(metrics)) == make() == metrics
    assert make(4) != metrics


class Produce(Task):
    outputs = ["data", "label"]

    def compute(self):
        return {"data": np.zeros(10), "label": "x"}

    @staticmethod
    def estimate_instructions(cfg):
        return np.int64(70)


class Consume(Task):
    inputs = ["data"]

    def compute(self, data, label=None):
        return {}


def test_the_metrics_of_a_run_carry_the_names_in_the_dag_and_are_plain_numbers():
    tasks = {"first": Produce(), "second": Consume()}
    metrics = DAG(tasks, [("first", "second")]).run().metrics
    assert isinstance(metrics, DAGMetrics)
    assert metrics.node_weights == {"first": 70, "second": 0}
    assert metrics.edge_weights == {"first->second": 640}
    data, label = (len(Task.serialize(value)) for value in (np.zeros(10), "x"))
    assert [(entry.task, entry.bytes_in, entry.bytes_out) for entry in metrics.task_metrics] == [
        ("first", 0, data + label),
        ("second", data, 0),
    ]
    sizes = {"data": {"size_bytes": 80, "wire_bytes": data}}
    (edge,) = metrics.edge_metrics
    assert (edge.source, edge.target, edge.data_fields) == ("first", "second", ["data"])
    assert (edge.size_bytes, edge.wire_bytes, edge.field_bytes) == (80, data, sizes)
    assert json.loads(json.dumps(metrics.to_dict())) == metrics.to_dict()


def test_an_edge_of_several_fields_records_each_of_them():
    tasks = {"first": Produce(), "second": Consume()}
    (edge,) = DAG(tasks, [("first", "second", ["data", "label"])]).run().metrics.edge_metrics
    data, label = (len(Task.serialize(value)) for value in (np.zeros(10), "x"))
    assert edge.field_bytes == {
        "data": {"size_bytes": 80, "wire_bytes": data},
        "label": {"size_bytes": label, "wire_bytes": label},
    }
    assert (edge.size_bytes, edge.wire_bytes) == (80 + label, data + label)
