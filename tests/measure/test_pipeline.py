import pickle
import re

import pytest

from dagprofiler import Config, Task
from dagprofiler.errors import OutputError, SerializationError
from dagprofiler.measure import pipeline
from dagprofiler.measure.pipeline import Record, perform
from dagprofiler.task import Parameters, contract_of

#: Seconds that decoding, computing and encoding take, once each.
DECODE, COMPUTE, ENCODE = 1, 10, 100
START = 1000


class Clock:
    """A clock that goes on only when it is told to."""

    now = START

    def __call__(self):
        return self.now


class Slow:
    """A serializer that takes time, raises what is an error, and knows no NotImplemented."""

    name = "slow"

    def __init__(self, clock):
        self.clock = clock

    def dumps(self, obj):
        self.clock.now += ENCODE
        if isinstance(obj, ValueError):
            raise obj
        return 5 if obj is NotImplemented else pickle.dumps(obj)

    def loads(self, data):
        self.clock.now += DECODE
        return pickle.loads(data)


class Add(Task):
    inputs = ["x", "y"]
    outputs = ["sum", "first"]

    def __init__(self, clock, returned=None):
        super().__init__()
        self.clock, self.returned = clock, returned

    def compute(self, x, y, cfg):
        self.clock.now += COMPUTE
        return {"sum": x + y, "first": cfg.N} if self.returned is None else self.returned


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(pipeline, "perf_counter", clock)
    return clock


DECODED, COMPUTED, ENCODED = (0, 2, *[None] * 4), (0, 2, 2, 12, None, None), (0, 2, 2, 12, 12, 212)


@pytest.mark.parametrize(
    ("returned", "frames", "told", "times"),
    [
        (None, [pickle.dumps(2), b""], "input 'y' cannot be decoded: ", DECODED),
        ({"first": 1, "sum": ValueError("no")}, None, "output 'sum' .*: ValueError: no", ENCODED),
        ({"first": 1, "sum": NotImplemented}, None, "output 'sum' returned int", ENCODED),
        # To look at what is returned is no part of any phase.
        (["sum"], None, r"compute\(\) returned list", COMPUTED),
        ({"sum": 1}, None, r"compute\(\) returned no 'first'", COMPUTED),
    ],
)
def test_an_error_ends_its_phase_and_names_the_task(clock, returned, frames, told, times):
    task = Add(clock, returned)
    contract = contract_of(task, Parameters.of(task.compute), Slow(clock))
    work = "add", task, contract, ("x", "y"), [contract.decode] * 2, False
    record = Record(*perform(work, frames or [pickle.dumps(2), pickle.dumps(3)], Config(N=7)))
    assert isinstance(record.error, OutputError if "compute" in told else SerializationError)
    assert re.search(f"task 'add': .*{told}", str(record.error))
    moments = (None if moment is None else moment - START for moment in record.times)
    assert tuple(moments) == times
