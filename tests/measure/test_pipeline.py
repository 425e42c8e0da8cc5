import pickle
import re

import pytest

from dagprofiler import Config, Task
from dagprofiler.errors import OutputError, SerializationError
from dagprofiler.measure import pipeline
from dagprofiler.measure.pipeline import Record, Work, perform
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

    def __init__(self, clock, returned=None, error=None):
        super().__init__()
        self.clock, self.returned, self.error = clock, returned, error

    def compute(self, x, y, cfg):
        self.clock.now += COMPUTE
        if self.error is not None:
            raise self.error
        return {"sum": x + y, "first": cfg.N} if self.returned is None else self.returned


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(pipeline, "perf_counter", clock)
    return clock


def record_of(task, *values, fields=("x", "y"), frames=None):
    """Return what came of a task to which values came."""
    of_task = contract_of(task, Parameters.of(task.compute), Slow(task.clock))
    work = Work("add", task, of_task, fields, [of_task.decode] * len(fields), keep=False)
    frames = list(map(pickle.dumps, values)) if frames is None else frames
    record = Record(*perform(work, frames, Config(N=7)))
    task.clock.now = START
    return record


def moments(record):
    """Return the readings of the clock, from the first on."""
    return tuple(None if moment is None else moment - START for moment in record.times)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1)])
def test_what_ends_the_program_stays_what_it_is(clock, error):
    class Ends(Slow):
        def dumps(self, obj):
            raise error

        loads = dumps

    assert record_of(Add(clock, error=error), 2, 3).error is error
    task = Add(clock)
    task.serializer = Ends(clock)
    assert record_of(task, 2, 3).error is error
    assert record_of(task, fields=[]).error is not error


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
    record = record_of(Add(clock, returned), 2, 3, frames=frames)
    assert isinstance(record.error, OutputError if "compute" in told else SerializationError)
    assert re.search(f"task 'add': .*{told}", str(record.error))
    assert moments(record) == times
