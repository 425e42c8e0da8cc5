import json

import numpy as np

from dagprofiler import DAG, DAGMetrics, EdgeMetrics, Task


def test_an_edge_of_several_fields_records_and_shows_each_of_them():
    # What else metrics are is in test_compatibility.py.
    recorded = {"wire_bytes": 7, "fields": {"x": {"size_bytes": 5, "wire_bytes": 7}}}
    edge = EdgeMetrics("a", "b", ["x"], 5, *recorded.values())
    assert edge.to_dict() == {**EdgeMetrics("a", "b", ["x"], 5).to_dict(), **recorded}
    assert edge != EdgeMetrics("a", "b", ["x"], 4)
    tasks = {"first": Produce(), "second": Consume()}
    (edge,) = DAG(tasks, [("first", "second", ["data", "label"])]).run().metrics.edge_metrics
    data, label = (len(Task.serialize(value)) for value in (np.zeros(10), "x"))
    assert edge.field_bytes == {
        "data": {"size_bytes": 80, "wire_bytes": data},
        "label": {"size_bytes": label, "wire_bytes": label},
    }
    assert (edge.size_bytes, edge.wire_bytes) == (80 + label, data + label)


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
