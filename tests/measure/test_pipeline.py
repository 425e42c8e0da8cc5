from __future__ import annotations

import pickle

import numpy as np
import pytest

from dagprofiler import Config, Task, TaskMetrics
from dagprofiler.errors import OutputError, SerializationError
from dagprofiler.measure import pipeline
from dagprofiler.measure.pipeline import Record, Work, encoded_size, perform
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


def contract(task, serializer):
    return contract_of(task, Parameters.of(task.compute), serializer or None)


def record_of(task, *values, fields=("x", "y"), frames=None, keep=False, plain=False):
    """Return what came of a task to which values came."""
    of_task = contract(task, not plain and Slow(task.clock))
    work = Work("add", task, of_task, fields, [of_task.decode] * len(fields), keep)
    frames = list(map(pickle.dumps, values)) if frames is None else frames
    record = Record(*perform(work, frames, Config(N=7)))
    task.clock.now = START
    return record


def moments(record):
    """Return the readings of the clock, from the first on."""
    return tuple(None if moment is None else moment - START for moment in record.times)


def test_each_phase_takes_the_time_that_was_spent_in_it(clock):
    record = record_of(Add(clock), 2, 3)
    assert moments(record) == (0, 2, 2, 12, 12, 212)
    assert {field: pickle.loads(data) for field, data in record.frames.items()} == {
        "sum": 5,
        "first": 7,
    }
    assert record.error is record.outputs is record.readings is None


def test_inputs_that_are_gathered_arrive_as_lists_in_their_order(clock):
    task = Add(clock)
    task.gathers = ["x"]
    task.compute = lambda x, y: {"sum": (x, y), "first": 0}
    record = record_of(task, 1, 2, 3, fields=["x", "y", "x"], keep=True)
    assert record.outputs == {"sum": ([1, 3], 2), "first": 0}
    task.inputs = task.gathers = ["x", "y"]
    assert record_of(task, fields=[], keep=True).outputs["sum"] == ([], [])


def test_inputs_go_before_the_task_computes(clock):
    frames = [pickle.dumps(2), pickle.dumps(3)]
    task = Add(clock)
    task.compute = lambda x, y: {"sum": len(frames), "first": 0}
    assert record_of(task, frames=frames, keep=True).outputs["sum"] == 0


def test_a_failure_ends_the_phase_it_happens_in_and_none_follows(clock):
    error = ValueError("no cell")
    record = record_of(Add(clock, error=error), 2, 3)
    assert moments(record) == (0, 2, 2, 12, None, None)
    assert record.error is error
    assert (record.payload_bytes, record.wire_bytes, record.frames) == ({}, {}, {})
    assert record.outputs is None


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


@pytest.mark.parametrize(
    ("returned", "frames", "told", "times"),
    [
        (None, [pickle.dumps(2), b""], "input 'y' cannot be decoded: ", (0, 2, *[None] * 4)),
        (
            {"first": 1, "sum": ValueError("no format")},
            None,
            "output 'sum' (ValueError) cannot be serialized: ValueError: no format",
            (0, 2, 2, 12, 12, 212),
        ),
        (
            {"first": 1, "sum": NotImplemented},
            None,
            "serialize() of output 'sum' returned int",
            (0, 2, 2, 12, 12, 212),
        ),
        # To look at what is returned is no part of any phase.
        (["sum"], None, "compute() returned list", (0, 2, 2, 12, None, None)),
        ({"sum": 1}, None, "compute() returned no 'first'", (0, 2, 2, 12, None, None)),
    ],
)
def test_what_is_wrong_is_named_and_ends_the_phase_it_happens_in(
    clock, returned, frames, told, times
):
    record = record_of(Add(clock, returned), 2, 3, frames=frames)
    assert isinstance(record.error, OutputError if "compute" in told else SerializationError)
    assert f"task 'add': {told}" in str(record.error)
    assert moments(record) == times


@pytest.mark.parametrize(
    "returned",
    [
        {"sum": np.zeros(100), "first": np.zeros(9)},
        {"sum": np.zeros(100), "first": "é" * 9},
        {"sum": "é" * 9, "first": None},
    ],
    ids=["arrays", "both", "others"],
)
def test_sizes_follow_the_specs_rule_only_for_the_default_serializer(clock, returned):
    task = Add(clock, returned)
    for plain in (False, True):
        record, own = record_of(task, 2, 3, plain=plain), contract(task, not plain and Slow(clock))
        for field, value in returned.items():
            length = len(record.frames[field])
            by_rule = plain and isinstance(value, np.ndarray)
            sizes = record.payload_bytes[field], record.wire_bytes[field]
            assert sizes == (value.nbytes if by_rule else length, length)
            assert sizes == encoded_size(own, value, record.frames[field])


class ByItself(Add):
    """Has a run() of its own, as programs for version 0.1.0 may have."""

    gathers = ["x"]
    took, claimed = 6, (1000, 2000, 3000)

    def run(self, inputs, config):
        self.clock.now += self.took
        values = [*inputs["x"], pickle.loads(inputs["y"])]
        decoded, computed, encoded = self.claimed
        metrics = TaskMetrics("add", computed, encoded, decoded, 0, 0)
        return {"outputs_raw": {"sum": sum(values), "first": 1}, "metrics": metrics}


@pytest.mark.parametrize(
    ("took", "claimed", "ends"),
    [
        (6, (1000, 2000, 3000), (1, 3, 6)),
        (60, (1000, 2000, 3000), (1, 3, 6)),
        (3, (1000, 2000, 3000), (0.5, 1.5, 3)),
        (6, (0, 0, 0), (0, 0, 0)),
        (6, (1000, -1, 3000), (0, 6, 6)),
        (6, (1000, float("inf"), 3000), (0, 6, 6)),
    ],
)
def test_a_run_of_its_own_says_how_long_its_phases_are_up_to_the_time_it_took(
    clock, took, claimed, ends
):
    task = ByItself(clock)
    task.took, task.claimed = took, claimed
    record = record_of(task, 2, 3, 4, fields=["x", "y", "x"], plain=True, keep=True)
    decoded, computed, ended = ends
    times = (0, decoded, decoded, computed, computed, ended)
    assert moments(record) == pytest.approx(times)
    assert record.outputs == {"sum": 9, "first": 1}
    assert pickle.loads(record.frames["sum"]) == 9
