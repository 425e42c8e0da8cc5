from __future__ import annotations

import json
import pickle

import numpy as np

from dagprofiler import DAG, DAGMetrics, EdgeMetrics, Task, TaskMetrics


def test_task_metrics_take_the_fields_of_the_standard_in_order():
    metrics = TaskMetrics("collect", 5.5, 0.25, 0.125, 10, 20)
    assert metrics.task == "collect"
    assert metrics.compute_time_ms == 5.5
    assert metrics.serialize_time_ms == 0.25
    assert metrics.deserialize_time_ms == 0.125
    assert metrics.bytes_in == 10
    assert metrics.bytes_out == 20
    assert metrics.loop_idx == 0
    assert TaskMetrics("collect", 1.0, 1.0, 1.0, 1, 1, 3).loop_idx == 3


def test_task_metrics_become_a_dict_of_the_six_fields_and_no_others():
    metrics = TaskMetrics("collect", 5.5, 0.25, 0.125, 10, 20, loop_idx=3)
    assert metrics.to_dict() == {
        "task": "collect",
        "compute_time_ms": 5.5,
        "serialize_time_ms": 0.25,
        "deserialize_time_ms": 0.125,
        "bytes_in": 10,
        "bytes_out": 20,
    }


def test_edge_metrics_follow_their_bytes_in_bits():
    edge = EdgeMetrics("a", "b", ["x"], 3)
    assert edge.size_bits == 24
    edge.size_bytes = 5
    assert edge.size_bits == 40


def test_edge_metrics_become_a_dict_with_bytes_and_bits():
    assert EdgeMetrics(source="a", target="b", data_fields=["x"], size_bytes=3).to_dict() == {
        "source": "a",
        "target": "b",
        "data_fields": ["x"],
        "size_bytes": 3,
        "size_bits": 24,
    }


def test_edge_metrics_show_the_serialized_length_where_it_was_recorded():
    fields = {"x": {"size_bytes": 3, "wire_bytes": 7}}
    entry = EdgeMetrics("a", "b", ["x"], 3, 7, fields).to_dict()
    assert entry["wire_bytes"] == 7
    assert entry["fields"] == fields


def test_dag_metrics_hold_all_and_become_plain_data():
    metrics = DAGMetrics(
        [TaskMetrics("a", 1.0, 1.0, 1.0, 1, 1)],
        [EdgeMetrics("a", "b", ["x"], 3)],
        {"a": 10, "b": 0},
        {"a->b": 24},
        12.5,
    )
    assert metrics.to_dict() == {
        "task_metrics": [metrics.task_metrics[0].to_dict()],
        "edge_metrics": [metrics.edge_metrics[0].to_dict()],
        "node_weights": {"a": 10, "b": 0},
        "edge_weights": {"a->b": 24},
        "total_time_ms": 12.5,
    }


def test_metrics_compare_by_value_and_pickle():
    def make():
        return DAGMetrics(
            [TaskMetrics("a", 1.0, 1.0, 1.0, 1, 1)], [EdgeMetrics("a", "b", ["x"], 3)], {}, {}, 1.0
        )

    assert make() == make()
    assert pickle.loads(pickle.dumps(make())) == make()
    assert EdgeMetrics("a", "b", ["x"], 3) != EdgeMetrics("a", "b", ["x"], 4)


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
    assert [entry.task for entry in metrics.task_metrics] == ["first", "second"]
    assert metrics.node_weights == {"first": 70, "second": 0}
    assert metrics.edge_weights == {"first->second": 640}
    (edge,) = metrics.edge_metrics
    assert (edge.source, edge.target, edge.data_fields) == ("first", "second", ["data"])
    assert (edge.size_bytes, edge.size_bits) == (80, 640)
    assert json.loads(json.dumps(metrics.to_dict())) == metrics.to_dict()


def test_bytes_in_and_out_are_serialized_lengths():
    tasks = {"first": Produce(), "second": Consume()}
    first, second = DAG(tasks, [("first", "second")]).run().metrics.task_metrics
    data, label = (len(Task.serialize(value)) for value in (np.zeros(10), "x"))
    assert (first.bytes_in, first.bytes_out) == (0, data + label)
    assert (second.bytes_in, second.bytes_out) == (data, 0)


def test_an_edge_of_several_fields_records_each_of_them():
    tasks = {"first": Produce(), "second": Consume()}
    (edge,) = DAG(tasks, [("first", "second", ["data", "label"])]).run().metrics.edge_metrics
    data, label = (len(Task.serialize(value)) for value in (np.zeros(10), "x"))
    assert edge.field_bytes == {
        "data": {"size_bytes": 80, "wire_bytes": data},
        "label": {"size_bytes": label, "wire_bytes": label},
    }
    assert (edge.size_bytes, edge.wire_bytes) == (80 + label, data + label)


def test_the_figures_of_a_single_field_are_those_of_the_edge():
    tasks = {"first": Produce(), "second": Consume()}
    (edge,) = DAG(tasks, [("first", "second")]).run().metrics.edge_metrics
    assert edge.field_bytes == {
        "data": {"size_bytes": edge.size_bytes, "wire_bytes": edge.wire_bytes}
    }
    assert edge.wire_bytes == len(Task.serialize(np.zeros(10)))
