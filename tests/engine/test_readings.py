from __future__ import annotations

import json
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st
from steps import Calls

from dagprofiler import DAG
from dagprofiler.engine.log import RoundLog, figures
from dagprofiler.measure.instruments import Readings
from dagprofiler.tracing.collection import Packed

#: a makes p and q, b takes both, c takes q.
FIELDS = {"a": ("pq",), "b": ("r", "pq"), "c": ("", "q")}
DIAMOND = DAG(
    {name: Calls(None, *fields) for name, fields in FIELDS.items()}, [("a", "b"), ("a", "c")]
)
WIRING = DIAMOND._wiring
A, B, C = range(3)


def a_round(*computes_s, begin=0.0):
    """Return a round in which tasks decode in 0.25 s, compute so long, and encode in 0.5 s."""
    one = RoundLog.of("measured", WIRING, [])
    now = begin
    for i, compute_s in enumerate(computes_s):
        if compute_s is None:
            continue
        moments = [now, now + 0.25, now + 0.25, now + 0.25 + compute_s]
        one.times[6 * i : 6 * i + 6] = [*moments, moments[-1], moments[-1] + 0.5]
        now = moments[-1] + 0.5
    return one


def failed(one, i):
    """Make task number `i` fail in compute()."""
    one.times[6 * i + 4 : 6 * i + 6] = [None, None]
    one.errors[i] = "ValueError: boom"
    return one


def sized(*wire_bytes, payload=None, undeclared=None, computes_s=(1.0, 1.0, 1.0)):
    one = a_round(*computes_s)
    one.wire_bytes[: len(wire_bytes)] = wire_bytes
    one.payload_bytes.update(payload or {})
    one.undeclared_bytes.update(undeclared or {})
    return one


def readings(decode_s=(), encode_s=None, **others):
    fields = {"meters": [], "digest": None, "reasons": {}, "meters_s": 0.0, "garbage_s": 0.0}
    return Readings(list(decode_s), encode_s or {}, **{**fields, **others})


# One round


SPANS = Packed(
    (("span", "parse", "io"),),
    ((7, "worker", True),),
    *map(array, "IId", ([0], [0], [1.5, 2.5])),
    {0: {"n": 1}},
    {},
    3,
)
SECONDS = st.integers(0, 10**15).map(lambda ns: ns / 1e9)
SIZES = st.integers(0, 2**53)


@given(
    zero_s=st.sampled_from([0.0, 12.5, -3.25]),
    times=st.lists(SECONDS, min_size=6, max_size=6).map(sorted),
    spent=st.lists(st.none() | SECONDS, min_size=3, max_size=3),
    sizes=st.lists(SIZES, min_size=2, max_size=2),
    payload=st.none() | SIZES,
    undeclared=st.none() | SIZES,
    meters=st.lists(st.none() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)),
    digest=st.none() | st.binary(max_size=32),
    spans=st.none() | st.just(SPANS),
    reasons=st.dictionaries(st.text(), st.text(), max_size=2),
)
def test_what_happened_to_a_task_is_the_same_after_it_was_written_and_read(
    zero_s, times, spent, sizes, payload, undeclared, meters, digest, spans, reasons
):
    there, here = (RoundLog.of("measured", WIRING, ["x"]) for _ in range(2))
    there.note(B, readings(spent[:2], {"r": spent[2]}, meters=meters, reasons=reasons))
    there.note(A, readings((), {"p": spent[0]}, meters=[], digest=digest))
    there.times[6 * B : 6 * B + 6] = there.times[:6] = times
    there.wire_bytes[0], there.wire_bytes[2] = sizes
    there.payload_bytes.update({} if payload in (None, sizes[0]) else {0: payload})
    there.undeclared_bytes.update({} if undeclared is None else {A: undeclared})
    there.spans.update({} if spans is None else {B: spans})
    for i in (A, B):
        entry = there.entry(i, zero_s)
        here.enter(i, json.loads(json.dumps(entry)), zero_s)
        assert here.entry(i, zero_s) == entry
    assert {**vars(here), "times": 0, "spans": 0} == {**vars(there), "times": 0, "spans": 0}
    assert here.times == [t if t is None else pytest.approx(t, abs=1e-9) for t in there.times]
    assert here.spans.keys() == there.spans.keys()


# Figures


@pytest.mark.parametrize(
    ("sizes", "middle"), [((1, 2, 3), 2), ((4, 1, 3, 2), 2), ((5, 5), 5), ((0, 9), 0)]
)
def test_sizes_have_the_lower_median(sizes, middle):
    found = figures([sized(size, 1, 1) for size in sizes], WIRING)
    assert found.wire_bytes[0] == middle


def test_sizes_of_rounds_in_which_the_task_failed_do_not_count():
    rounds = [sized(10, 20, 30), failed(sized(10, 20, 0), B), sized(10, 20, 40)]
    assert list(figures(rounds, WIRING).wire_bytes[:3]) == [10, 20, 30]


def test_payloads_are_told_where_they_differ_from_the_length():
    rounds = [sized(10, 20, 30, payload={0: payload}) for payload in (4, 6, 5)]
    assert figures(rounds, WIRING).payload_bytes == {0: 5}
    # In one round it was counted otherwise, in most it was not.
    rounds = [sized(10, 20, 30), sized(10, 20, 30, payload={0: 4}), sized(10, 20, 30)]
    assert figures(rounds, WIRING).payload_bytes == {}


def test_undeclared_outputs_of_some_rounds_have_a_median_too():
    rounds = [sized(undeclared={A: 8}), sized(), sized(undeclared={A: 6})]
    assert figures(rounds, WIRING).undeclared_bytes == {A: 6}


def test_a_round_is_complete_once_all_tasks_have_ended_and_none_has_failed():
    assert a_round(1.0, 1.0, 1.0).complete
    assert not failed(a_round(1.0, 1.0, 1.0), B).complete
    for missing in (A, B, C):
        one = a_round(*(None if i == missing else 1.0 for i in range(3)))
        assert not one.complete
    for last in (A, B, C):
        one = a_round(1.0, 1.0, 1.0)
        one.times[6 * last + 5] = None
        assert not one.complete
