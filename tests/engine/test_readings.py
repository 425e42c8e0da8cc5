import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from steps import Calls, readings

from dagprofiler import DAG
from dagprofiler._util.interpreter import TaskSpans
from dagprofiler.engine.log import RoundLog, TaskNote, figures

#: a makes p and q, b takes both, c takes q.
FIELDS = {"a": ("pq",), "b": ("r", "pq"), "c": ("", "q")}
DIAMOND = DAG(
    {name: Calls(None, *fields) for name, fields in FIELDS.items()}, [("a", "b"), ("a", "c")]
)
WIRING = DIAMOND._wiring
A, B, C = range(3)


def a_round(*wire_bytes, payload=None, undeclared=None, failed=None):
    """Return a round in which each task takes 1 s a phase, and number `failed` fails."""
    tasks, sizes = len(WIRING.names), [*wire_bytes, *[0] * len(WIRING.owner)]
    moments = [float(moment) for moment in range(6 * tasks)]
    one = RoundLog("measured", WIRING, moments, [0] * tasks, sizes[: len(WIRING.owner)])
    one.payload_bytes.update(payload or {})
    for i, size in (undeclared or {}).items():
        one.note(i, undeclared_bytes=size)
    if failed is not None:
        one.times[6 * failed + 4 : 6 * failed + 6] = [None, None]
        one.note(failed, error="ValueError: boom")
    return one


PARSE = ("span", "parse", "io", 1.5, 2.5, {"n": 1}, None)
SPANS = TaskSpans([(7, "worker", True, [PARSE])], 3)
SECONDS = st.integers(0, 10**15).map(lambda ns: ns / 1e9)
METERED = st.none() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)


@given(
    zero_s=st.sampled_from([0.0, 12.5, -3.25]),
    spent=st.lists(st.none() | SECONDS, min_size=3, max_size=3),
    undeclared=st.integers(0, 2**53),
    meters=st.lists(METERED),
    digest=st.none() | st.binary(min_size=1, max_size=32),
    spans=st.none() | st.just(SPANS),
)
def test_the_note_of_a_task_is_the_same_after_it_was_written_and_read(
    zero_s, spent, undeclared, meters, digest, spans
):
    read = readings(spent[:2], spent[2:], meters=meters, digest=digest)
    there = TaskNote(read, spans, undeclared)
    here = TaskNote.from_dict(json.loads(json.dumps(there.to_dict(zero_s))), zero_s)
    assert here._replace(spans=None) == there._replace(spans=None)
    assert (here.spans is None) == (spans is None)
    assert here.to_dict(zero_s) == there.to_dict(zero_s)


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
