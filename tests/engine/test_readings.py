import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from steps import Calls

from dagprofiler import DAG
from dagprofiler._util.interpreter import TaskSpans
from dagprofiler.engine.log import RoundLog, figures
from dagprofiler.measure.instruments import Readings

#: a makes p and q, b takes both, c takes q.
FIELDS = {"a": ("pq",), "b": ("r", "pq"), "c": ("", "q")}
DIAMOND = DAG(
    {name: Calls(None, *fields) for name, fields in FIELDS.items()}, [("a", "b"), ("a", "c")]
)
WIRING = DIAMOND._wiring
A, B, C = range(3)


def a_round(*wire_bytes, payload=None, undeclared=None, failed=None):
    """Return a round in which each task takes 1 s a phase, and number `failed` fails."""
    one = RoundLog.of("measured", WIRING, [])
    one.times[:] = [float(moment) for moment in range(len(one.times))]
    one.wire_bytes[: len(wire_bytes)] = wire_bytes
    one.payload_bytes.update(payload or {})
    one.undeclared_bytes.update(undeclared or {})
    if failed is not None:
        one.times[6 * failed + 4 : 6 * failed + 6] = [None, None]
        one.errors[failed] = "ValueError: boom"
    return one


def readings(decode_s=(), encode_s=None, **others):
    fields = {"meters": [], "digest": None, "reasons": {}, "meters_s": 0.0, "garbage_s": 0.0}
    return Readings(list(decode_s), encode_s or {}, **{**fields, **others})


PARSE = ("span", "parse", "io", 1.5, 2.5, {"n": 1}, None)
SPANS = TaskSpans([(7, "worker", True, [PARSE])], 3)
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


def test_sizes_are_medians_of_rounds_in_which_the_task_did_not_fail():
    rounds = [a_round(10, 20, 30), a_round(10, 20, 0, failed=B), a_round(10, 20, 40)]
    assert list(figures(rounds, WIRING).wire_bytes[:3]) == [10, 20, 30]
    rounds = [a_round(undeclared={A: 8}), a_round(), a_round(undeclared={A: 6})]
    assert figures(rounds, WIRING).undeclared_bytes == {A: 6}
    # Payloads are told where they differ from the length in most rounds.
    rounds = [a_round(10, 20, 30, payload={0: payload}) for payload in (4, 6, 5)]
    assert figures(rounds, WIRING).payload_bytes == {0: 5}
    rounds = [a_round(10, 20, 30), rounds[0], a_round(10, 20, 30)]
    assert figures(rounds, WIRING).payload_bytes == {}


@pytest.mark.parametrize("task", [A, B, C])
def test_a_round_is_complete_once_all_tasks_have_ended_and_none_has_failed(task):
    assert a_round().complete
    assert not a_round(failed=task).complete
    unfinished = a_round()
    unfinished.times[6 * task + 5] = None
    assert not unfinished.complete
