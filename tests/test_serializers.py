import pickle

import numpy as np
import pytest

from dagprofiler import DAG, Task, task
from dagprofiler.errors import DeclarationError, RunError
from dagprofiler.serializers import (
    ArrowSerializer,
    CloudpickleSerializer,
    FrameList,
    MsgpackSerializer,
    OutOfBandPickle,
    PickleSerializer,
    Serializer,
    check_serializer,
    frames_bytes,
    is_array,
    payload_bytes,
)


def send(value, serializer=None, *, to_dag=None):
    """Send `value` along an edge; return what arrives, and the edge's metrics."""
    received = []
    give = task(outputs=["x"], serializer=serializer)(lambda: {"x": value})
    take = task(inputs=["x"], outputs=[])(lambda x: received.append(x) or {})
    dag = DAG({"give": give, "take": take}, [("give", "take")], serializer=to_dag)
    (edge,) = dag.run().metrics.edge_metrics
    return received[0], edge


SERIALIZERS = [PickleSerializer, OutOfBandPickle, CloudpickleSerializer, MsgpackSerializer]


def test_serializers_follow_the_protocol():
    value = {"cells": [1, 2, 3]}
    for kind in SERIALIZERS:
        serializer = kind()
        check_serializer(serializer, "DAG")
        assert isinstance(serializer, Serializer)
        loaded = pickle.loads(pickle.dumps(serializer))
        assert type(loaded) is kind
        assert loaded.loads(serializer.dumps(value)) == value
        assert send(value, kind())[0] == send(value, to_dag=kind())[0] == value
    names = [kind.name for kind in (*SERIALIZERS, ArrowSerializer)]
    assert names == ["pickle", "pickle-oob", "cloudpickle", "msgpack", "arrow"]
    assert PickleSerializer.dumps(value) == pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    assert Task.serialize(value) == PickleSerializer.dumps(value)
    assert MsgpackSerializer().dumps({"a": [1, 2]}) == b"\x81\xa1a\x92\x01\x02"
    for odd in ({1, 2}, np.zeros(2), object()):
        with pytest.raises(TypeError, match="serialize"):
            MsgpackSerializer().dumps(odd)
    offset = 5
    received, _ = send(lambda x: x + offset, CloudpickleSerializer())
    assert received(1) == 6


@pytest.mark.parametrize("wrong", ["pickle", 5, object(), pickle, OutOfBandPickle])
def test_what_is_no_serializer_is_refused(wrong):
    give = task(outputs=["x"])(lambda: {"x": 1})()
    give.serializer = wrong
    says = "must be an instance with name, dumps and loads, got "
    for owner, make in (
        ("DAG", lambda: DAG({}, serializer=wrong)),
        ("task 'give'", lambda: DAG({"give": give})),
        ("task class 'Bad'", lambda: type("Bad", (Task,), {"serializer": wrong})),
    ):
        with pytest.raises(DeclarationError, match=f"^{owner}: serializer {says}"):
            make()


def test_a_serializer_may_be_a_property():
    own = property(lambda self: OutOfBandPickle())
    body = {"outputs": ["x"], "serializer": own, "compute": lambda self: {"x": 1}}
    assert type("Own", (Task,), body)().run({})["outputs"]["x"] == OutOfBandPickle.dumps(1)


def test_out_of_band_arrays_share_memory_read_only():
    serializer = OutOfBandPickle()
    array = np.arange(1000.0)
    frames = serializer.dumps({"a": array, "b": "text"})
    head, buffer = frames
    assert len(head) < 500
    assert memoryview(buffer).nbytes == 8000
    assert memoryview(buffer).readonly
    received = serializer.loads(frames)["a"]
    assert np.shares_memory(received, array)
    np.testing.assert_array_equal(received, array)
    assert not received.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        received[0] = 5
    with pytest.raises(ValueError, match="WRITEABLE"):
        received.setflags(write=True)
    assert array.flags.writeable


@pytest.mark.parametrize(
    "array",
    [
        np.arange(10)[::2],
        np.arange(24).reshape(2, 3, 4).transpose(2, 0, 1),
        np.asfortranarray(np.arange(6).reshape(2, 3)),
        np.array(3),
        np.arange(0),
        np.array([{"a": 1}, "x"], dtype=object),
        np.array([(1, 2.0)], dtype=[("n", "i4"), ("w", "f8")]),
        np.array(["2026-11-20"], dtype="M8[D]"),
    ],
    ids=["strided", "transposed", "fortran", "scalar", "empty", "objects", "records", "dates"],
)
def test_out_of_band_carries_arrays_of_every_kind(array):
    serializer = OutOfBandPickle()
    received = serializer.loads(serializer.dumps(array))
    np.testing.assert_array_equal(received, array)
    assert received.dtype == array.dtype
    assert send(array, serializer)[0].shape == array.shape


@pytest.mark.parametrize("value", [np.arange(6.0).reshape(2, 3).T, b"plain"])
def test_frames_are_pickled_as_frames(value):
    frames = FrameList(OutOfBandPickle().dumps(value))
    arrived = pickle.loads(pickle.dumps(frames))
    assert (type(arrived), frames_bytes(arrived)) == (FrameList, frames_bytes(frames))
    assert np.array_equal(OutOfBandPickle().loads(arrived), value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"abc", 3),
        (np.zeros(10), 80),
        (np.zeros((2, 3), dtype="i2"), 12),
        (np.arange(10)[::2], 40),
        (np.array(1.0), 8),
        (np.zeros(0), 0),
        (np.array([1, "x"], dtype=object), None),
        (np.array([(1, "x")], dtype=[("n", "i4"), ("o", "O")]), None),
        (np.float64(1), None),
        (bytearray(3), None),
        ("abc", None),
        ([np.zeros(10)], None),
        (None, None),
    ],
    ids=repr,
)
def test_sizes_are_those_of_the_standard(value, expected):
    wire = len(Task.serialize(value))
    assert is_array(value) is isinstance(value, np.ndarray)
    assert payload_bytes(value, wire) == (wire if expected is None else expected)
    _, edge = send(value)
    assert edge.size_bytes == (wire if expected is None else expected)
    assert edge.wire_bytes == wire


@pytest.fixture
def arrow():
    return pytest.importorskip("pyarrow")


@pytest.mark.external
def test_arrow_tables_are_views_of_the_bytes(arrow):
    serializer = ArrowSerializer()
    table = arrow.table({"n": list(range(1000)), "s": ["x"] * 1000})
    frames = serializer.dumps(table)
    received = serializer.loads(frames)
    assert received.equals(table)
    column = received.column("n").chunk(0).to_numpy(zero_copy_only=True)
    assert np.shares_memory(column, np.frombuffer(frames[1], dtype="u1"))
    assert not column.flags.writeable
    for value in (arrow.table({"n": []}), arrow.table({})):
        received = serializer.loads(serializer.dumps(value))
        assert type(received) is type(value)
        assert received.equals(value)
    schema = arrow.schema([arrow.field("n", arrow.int8(), nullable=False)], {"unit": "ms"})
    received = serializer.loads(serializer.dumps(arrow.table({"n": [1]}, schema=schema)))
    assert received.schema.equals(schema, check_metadata=True)


@pytest.mark.external
def test_arrow_returns_polars_frames_for_polars_frames(arrow):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"n": [1, None], "s": ["a", "b"], "l": [[1], []]})
    received, edge = send(frame, ArrowSerializer())
    assert isinstance(received, polars.DataFrame)
    assert received.equals(frame)
    assert edge.size_bytes == edge.wire_bytes


@pytest.mark.external
def test_arrow_returns_pandas_frames_with_their_index(arrow):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"n": [1.5, 2.5], "s": ["a", "b"]}, index=["first", "second"])
    received, _ = send(frame, ArrowSerializer())
    pandas.testing.assert_frame_equal(received, frame)
    serializer = pickle.loads(pickle.dumps(ArrowSerializer()))
    check_serializer(serializer, "DAG")
    with pytest.raises(TypeError, match=r"expected a table .*list"):
        serializer.dumps([1, 2])
    with pytest.raises(RunError, match=r"output 'x' \(list\)"):
        send([1, 2], serializer)
