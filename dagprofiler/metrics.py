"""What was measured: dataclasses for tasks, edges and a whole run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dagprofiler._util import JsonObject

#: Columns of the profile's section ``edge_metrics``: the fields of :class:`EdgeMetrics` after its
#: ends. The last one is there only if an edge carries several fields.
EDGE_COLUMNS = ("data_fields", "size_bytes", "wire_bytes", "fields")

#: Fields of an entry of the section ``execution_metrics``, and the first of :class:`TaskMetrics`.
TASK_FIELDS = (
    *("task", "compute_time_ms", "serialize_time_ms", "deserialize_time_ms"),
    *("bytes_in", "bytes_out"),
)


@dataclass
class TaskMetrics:
    """Times and sizes of one execution of a task.

    Attributes
    ----------
    task
        Name of the task in the DAG.
    compute_time_ms
        Wall-clock time of ``compute()``, in milliseconds.
    serialize_time_ms, deserialize_time_ms
        Wall-clock time of serializing the outputs and deserializing the inputs,
        in milliseconds; None if the profile was loaded from a file without them.
    bytes_in, bytes_out
        Serialized size of all inputs and of all outputs, in bytes.
    loop_idx
        Number of the repetition; 0 unless the caller repeats.
    """

    task: str
    compute_time_ms: float
    serialize_time_ms: float
    deserialize_time_ms: float
    bytes_in: int
    bytes_out: int
    loop_idx: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return the spec's six fields, without unknown times."""
        # Of a literal: copying vars() takes twice as long.
        entry = {
            "task": self.task,
            "compute_time_ms": self.compute_time_ms,
            "serialize_time_ms": self.serialize_time_ms,
            "deserialize_time_ms": self.deserialize_time_ms,
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
        }
        if self.serialize_time_ms is None or self.deserialize_time_ms is None:
            return {name: value for name, value in entry.items() if value is not None}
        return entry


@dataclass
class EdgeMetrics:
    """Fields and size of the data that one edge carried.

    Attributes
    ----------
    source, target
        Names of the tasks.
    data_fields
        The source's outputs that travel on this edge.
    size_bytes
        Payload in bytes by the spec's counting rule (see
        :func:`dagprofiler.serializers.payload_bytes`).
    wire_bytes
        Serialized length in bytes; None if it was not recorded.
    several
        If the edge carries several fields: field to its ``size_bytes`` and
        ``wire_bytes``; read :attr:`field_bytes`.
    """

    source: str
    target: str
    data_fields: list[str]
    size_bytes: int
    wire_bytes: int | None = None
    several: dict[str, dict[str, int]] | None = field(default=None, repr=False)

    @property
    def size_bits(self) -> int:
        """Payload in bits, ``8 * size_bytes``."""
        return 8 * self.size_bytes

    @property
    def field_bytes(self) -> dict[str, dict[str, int]] | None:
        """Field to its ``size_bytes`` and ``wire_bytes``; None if not recorded."""
        if self.several is None and self.wire_bytes is not None and len(self.data_fields) < 2:
            sizes = {"size_bytes": self.size_bytes, "wire_bytes": self.wire_bytes}
            return dict.fromkeys(self.data_fields, sizes)
        return self.several

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain dicts and lists."""
        entry: JsonObject = {
            "source": self.source,
            "target": self.target,
            "data_fields": self.data_fields,
            "size_bytes": self.size_bytes,
            "size_bits": 8 * self.size_bytes,
        }
        if self.wire_bytes is not None:
            entry["wire_bytes"] = self.wire_bytes
        if self.several is not None:
            entry["fields"] = self.several
        return entry


@dataclass
class DAGMetrics:
    """Metrics of one run of a DAG.

    Attributes
    ----------
    task_metrics
        One entry a task, in execution order.
    edge_metrics
        One entry an edge.
    node_weights
        Task name to estimated instructions; 0 if the task has no cost
        model, which the profile's ``weight_sources`` tells from an estimate.
    edge_weights
        ``"source->target"`` to bits.
    total_time_ms
        Wall-clock time of the whole run, in milliseconds.
    """

    task_metrics: list[TaskMetrics]
    edge_metrics: list[EdgeMetrics]
    node_weights: dict[str, int]
    edge_weights: dict[str, int]
    total_time_ms: float

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain dicts and lists."""
        tasks = [task.to_dict() for task in self.task_metrics]
        edges = [edge.to_dict() for edge in self.edge_metrics]
        return {**vars(self), "task_metrics": tasks, "edge_metrics": edges}
