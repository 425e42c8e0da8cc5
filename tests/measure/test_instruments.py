import pickle

import numpy as np
import pytest
from own_meter import Own

from dagprofiler.measure.instruments import Instrumentation
from dagprofiler.measure.meters import select


def opened(*meters, **options):
    return Instrumentation(select(list(meters) or "wall"), **options).open()


def perform(instruments, encoded=None):
    """Do what the pipeline does around a task; return what was read."""
    instruments.begin([], bytes)
    instruments.start()
    instruments.stop("a")
    return instruments.readings(encoded or {}, list(encoded or {}))


def test_what_was_read_of_one_task_is_no_part_of_the_next():
    instruments = opened(Own(1, 2))
    decoders, encode = instruments.begin([bytes], bytes)
    assert [decode(b"") for decode in decoders] == [b""]
    instruments.start()
    instruments.stop("a")
    assert (encode(b"y"), encode(b"x")) == (b"y", b"x")
    first = instruments.readings({"y": b"y", "x": b"x"}, ["x"])
    second = perform(instruments)
    assert (len(first.decode_s), len(first.encode_s), first.meters) == (1, 1, (1,))
    assert (second.decode_s, second.encode_s, second.meters) == ((), (), (2,))


def test_meters_are_stopped_once_and_only_if_they_started():
    calls = []
    instruments = opened(Own(log=calls))
    instruments.begin([], bytes)
    instruments.stop("a")
    assert calls == []
    perform(instruments)
    instruments.stop("a")
    assert calls == ["own starts", "own stops"]


def digest(**encoded):
    return perform(opened(hash_outputs=True), encoded).digest


@pytest.mark.parametrize(
    "other",
    [
        {"x": b"12", "y": b"4"},
        {"x": b"3", "y": b"12"},
        {"x": b"12"},
        {"x": [b"1", b"2"], "y": b"3"},
    ],
)
def test_outputs_have_a_hash_of_their_own_if_it_is_asked_for(other):
    assert digest(**other) != digest(x=b"12", y=b"3") == digest(y=b"3", x=b"12")
    assert perform(opened(), other).digest is None


@pytest.mark.parametrize(
    "frame",
    [
        bytearray(b"12345678"),
        pickle.PickleBuffer(b"12345678"),
        np.frombuffer(b"12345678", dtype="u1").reshape(2, 4),
        memoryview(b"1-2-3-4-5-6-7-8-")[::2],
    ],
    ids=lambda frame: type(frame).__name__,
)
def test_buffers_of_all_kinds_are_hashed_by_their_bytes(frame):
    assert digest(x=[frame]) == digest(x=[b"12345678"])
