import pickle

import numpy as np
import pytest

from dagprofiler.measure.instruments import Instrumentation
from dagprofiler.measure.meters import select


def digest(hash_outputs=True, **encoded):
    """Return the hash of the outputs of a task without inputs."""
    instruments = Instrumentation(select("wall"), hash_outputs=hash_outputs).open()
    instruments.begin([], bytes)
    instruments.start()
    instruments.stop("a")
    return instruments.readings(encoded, list(encoded)).digest


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
    assert digest(hash_outputs=False, **other) is None


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
