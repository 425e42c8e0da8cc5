import json

import numpy as np
import pytest

from dagprofiler import DAG, DAGMetrics, EdgeMetrics, Task, task


@task(outputs=["data", "label"], estimate_fn=lambda cfg: np.int64(70))
def produce():
    return {"data": np.zeros(10), "label": "x"}


@task(inputs=["data"], outputs=[])
def consume(data, label=None):
    return {}


@pytest.mark.parametrize("named", [[], [["data", "label"]]])
def test_the_metrics_of_a_run_carry_the_names_in_the_dag_and_each_field_as_plain_numbers(named):
    # What else metrics are is in test_compatibility.py.
    data, label = (len(Task.serialize(value)) for value in (np.zeros(10), "x"))
    names = ["data", "label"] if named else ["data"]
    wire, sizes = {"data": data, "label": label}, {"data": 80, "label": label}
    size, carried = (sum(of[name] for name in names) for of in (sizes, wire))
    dag = DAG({"first": produce, "second": consume}, [("first", "second", *named)])
    metrics = dag.run().metrics
    assert isinstance(metrics, DAGMetrics)
    assert metrics.node_weights == {"first": 70, "second": 0}
    assert metrics.edge_weights == {"first->second": 8 * size}
    assert [(entry.task, entry.bytes_in, entry.bytes_out) for entry in metrics.task_metrics] == [
        ("first", 0, data + label),
        ("second", carried, 0),
    ]
    (edge,) = metrics.edge_metrics
    assert edge != EdgeMetrics("first", "second", names, size)
    fields = {n: {"size_bytes": sizes[n], "wire_bytes": wire[n]} for n in names}
    assert edge.field_bytes == fields
    assert edge.to_dict() == {
        **EdgeMetrics("first", "second", names, size).to_dict(),
        "wire_bytes": carried,
        **({"fields": fields} if named else {}),
    }
    assert json.loads(json.dumps(metrics.to_dict())) == metrics.to_dict()
