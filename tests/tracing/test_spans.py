import asyncio
import json
import threading
import time

import numpy as np
import pytest

from dagprofiler.tracing import async_span, configure, counter, instant, span
from dagprofiler.tracing._file import Track
from dagprofiler.tracing._recording import Label


def test_a_span_has_its_name_its_values_and_its_time_in_microseconds(traced):
    begin = time.perf_counter()
    with span("load", path="data.csv", rows=3) as load:
        time.sleep(0.002)
        load.args["bytes"] = 2**40
    took = time.perf_counter() - begin
    (event,) = traced.events("X")
    assert (event["name"], event["cat"]) == ("load", "span")
    assert event["args"] == {"path": "data.csv", "rows": 3, "bytes": 2**40}
    assert 2000 <= event["dur"] <= took * 1e6


def test_an_exception_ends_a_span_and_is_noted_in_it(traced):
    error = OSError("no file")
    with pytest.raises(OSError, match="no file") as caught, span("load", by=0):
        raise error
    assert caught.value is error
    with span("after"):
        pass
    first, second = traced.events("X")
    assert first["args"] == {"by": 0, "error": "OSError: no file"}
    assert first["ts"] + first["dur"] <= second["ts"]


#: Names of events, and how they are shown.
NAMES = [
    *((3, "3"), (None, "None"), (b"bytes", "b'bytes'"), (["a"], "['a']")),
    *((name, name) for name in ("", 'quote " \\ \n \x00 é \U0001f600', "half \ud800")),
]


def test_names_are_taken_by_their_text_whatever_they_are(traced):
    for name, _ in NAMES:
        with span(name), span(name, x=1):
            pass
        instant(name)
        counter(name, 1)
    assert traced.names() == [shown for _, shown in NAMES for _ in range(4)]


ODD = {"nan": float("nan"), "big": 2**80, "array": np.arange(3), "keys": {1: 2}}


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        *((5, {"args": 5}), (None, {}), ({1: 2}, {"1": 2}), ({}, {}), ([1], {"args": [1]})),
        # It has no truth value.
        (np.arange(2), {"args": [0, 1]}),
        # What JSON cannot hold is taken by its text.
        (ODD, {"nan": "nan", "big": str(2**80), "array": [0, 1, 2], "keys": "{1: 2}"}),
    ],
)
def test_values_may_be_replaced_by_anything(traced, values, shown):
    with span("a", number=1) as block:
        block.args = values
    assert traced.events("X")[0].get("args", {}) == shown


def test_a_span_closed_twice_or_entered_twice_leaves_a_note(traced):
    one = span("one")
    for _ in range(2):
        one.__enter__()
    for _ in range(2):
        one.__exit__(None, None, None)
    noted, _, again = traced.events()
    assert traced.names() == ["span entered twice", "one", "span closed that was not open"]
    assert noted["args"] == again["args"] == {"name": "one"}


def test_a_span_left_open_across_a_call_stands_apart_only_if_it_must():
    track = Track(1, (1, "main"), 0.0, verbose=False)
    rows = [
        *("a", 1, 2, "b", 3, 4, "around b", 2.5, 5, "overlaps around b", 4.5, 6),
        *(Label("span", "overlaps a", "m"), 1.5, 7, "around all", 0, 8, "next", 8, 9),
    ]
    assert "".join(line[8:9] for line in track.lines(rows)) == "XXXbebeXX"


def test_a_span_that_lies_in_another_does_so_when_rounded_too():
    zero, start = 8e6, 8e6 + 1e6 + 1 / 3
    track = Track(1, (1, "main"), zero, verbose=False)
    inner = [start + i * 1e-7 for i in range(200)]
    rows = [part for i in range(0, 200, 2) for part in ("inner", inner[i], inner[i + 1])]
    events = [json.loads(line) for line in track.lines([*rows, "outer", inner[0], inner[-1]])]
    outer = events.pop()
    ends_ns = [round(e["ts"] * 1000) + round(e["dur"] * 1000) for e in events]
    starts_ns = [round(e["ts"] * 1000) for e in events[1:]]
    assert all(end <= start for end, start in zip(ends_ns, starts_ns))
    assert ends_ns[-1] <= round(outer["ts"] * 1000) + round(outer["dur"] * 1000)


def test_the_spans_and_labels_that_are_remembered_are_bounded():
    track = Track(1, (1, "main"), 0.0, verbose=False)
    track.lines([part for i in range(60_000) for part in ("x", i, i + 0.5)])
    # One that overlaps what came before it has to look at all that is remembered.
    track.lines(["y", 59_998.2, 60_001, "z", 0, 60_002])
    assert len(track._starts) == 1
    rows = [part for i in range(5000) for part in (f"name {i}", i, i + 0.5)]
    assert [json.loads(line)["name"] for line in track.lines(rows)] == rows[::3]
    assert len(track._heads) <= 1024


def test_where_an_event_loop_runs_spans_stand_apart(traced):
    async def work(i):
        with span("work", i=i):
            await asyncio.sleep(0)

    async def main():
        await asyncio.gather(*map(work, range(3)))
        async with span("with", x=1) as one:
            one.args["y"] = 2

    asyncio.run(main())
    with span("outside"):
        pass
    begins = traced.events("b")
    assert [e["name"] for e in begins] == ["work"] * 3 + ["with"]
    assert len({e["id"] for e in begins}) == 4
    assert begins[-1]["args"] == {"x": 1, "y": 2}
    assert traced.names("X") == ["outside"]


def test_asynchronous_spans_begin_and_end_where_one_likes(traced):
    one, two = (async_span("request", n=n).begin() for n in (1, 2))
    thread = threading.Thread(target=one.end)
    thread.start()
    thread.join()
    two.end(ValueError("late"))
    with async_span("third"):
        pass
    begins = {e["id"]: e.get("args") for e in traced.events("b")}
    assert sorted(begins) == sorted(e["id"] for e in traced.events("e"))
    late = {"n": 2, "error": "ValueError: late"}
    assert sorted(map(str, begins.values())) == sorted(map(str, ({"n": 1}, late, None)))


def test_instants_and_counters_are_events_of_their_own(traced):
    instant("cache miss", key="a")
    counter("queue", 3)
    counter("workers", busy=2, idle=np.int64(6))
    shown = [(event["ph"], event["args"]) for event in traced.events()]
    assert shown == [("i", {"key": "a"}), ("C", {"value": 3}), ("C", {"busy": 2, "idle": 6})]
    for value in (float("inf"), "text", None, True, 2**70):
        counter("queue", value)
    notes = [(event["ph"], event["name"]) for event in traced.events()[3:]]
    assert notes == [("i", "counter without a number")] * 5


def test_with_tracing_off_nothing_is_left_of_what_ends_then(traced):
    configure(enable=False)
    with span("a") as one:
        instant("b")
        counter("c", 1)
        one.__enter__()
    one.__exit__(None, None, None)
    with span("begun"):
        configure(enable=True)
    assert traced.names() == ["begun"]
