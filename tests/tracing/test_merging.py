"""Traces of several processes in one."""

import io
import json

import pytest
from trace_files import events_of, read

from dagprofiler import TraceError
from dagprofiler.tracing import merge

PROGRAM = """
import os, time
from dagprofiler import span
from dagprofiler.tracing import async_span
with span({name!r}, pid=os.getpid()):
    async_span("request").begin().end()
"""


def written(folder, name, *events, **changes):
    """A trace of one span, or more, in our format, from a process of another machine or time."""
    clock = {"zero_s": 100.0, "epoch_s": 5000.0, "boot": "here", **changes.pop("clock", {})}
    about = {"name": "generic", "hostname": "h", "pid": 7, "clock": clock, **changes}
    event = {"ph": "X", "name": name, "cat": "c", "pid": 7, "tid": 7, "ts": 10.5, "dur": 2.0}
    path = folder / f"{name}.pfw"
    head = json.dumps({"displayTimeUnit": "ms", "otherData": about, "traceEvents": []})
    lines = ",\n".join(json.dumps(event) for event in events or [event])
    path.write_text(f'{head[:-2]}\n{lines}\n], "dagprofiler": {{"closed": true}}}}\n')
    return path


def merged_events(*paths, notes=None):
    """Return the events of a merge, whose notes have to be these."""
    stream = io.BytesIO()
    merged = merge(paths, stream)
    document = json.loads(stream.getvalue())
    assert merged.events == len(document["traceEvents"])
    assert notes is None or notes == merged.notes == document["otherData"]["notes"]
    return document["traceEvents"]


def test_processes_of_one_machine_share_a_clock(traced):
    for name in ("first", "second"):
        traced.run(PROGRAM.format(name=name))
    first, second = sorted(traced.files(), key=lambda f: read(f)["otherData"]["clock"]["zero_s"])
    merged = merge([second, first], traced.folder / "merged.pfw")
    spans = [e for e in events_of(read(merged.path)) if e["ph"] == "X"]
    zeros = [read(file)["otherData"]["clock"]["zero_s"] for file in (first, second)]
    starts = {e["name"]: e["ts"] for e in spans}
    own = {e["name"]: e["ts"] for file in (first, second) for e in events_of(read(file))}
    assert starts["first"] == own["first"]
    assert starts["second"] == pytest.approx(own["second"] + (zeros[1] - zeros[0]) * 1e6, abs=0.01)
    assert merged.notes == []
    assert merged.events == len(read(merged.path)["traceEvents"]) == 10
    # Both have an asynchronous span, the first of each process.
    assert len({e["id"] for e in events_of(read(merged.path)) if e["ph"] == "b"}) == 2


def test_a_change_of_the_time_of_day_moves_nothing(tmp_path):
    first = written(tmp_path, "first", clock={"epoch_s": 5001.0})
    second = written(tmp_path, "second", clock={"zero_s": 101.0})
    second.write_text(second.read_text().replace('"closed": true', '"closed": false'))
    note = f"{second}: it is not closed: the process was killed, or still runs"
    events = merged_events(second, first, notes=[note])
    assert {e["name"]: e["ts"] for e in events} == {"first": 10.5, "second": 1e6 + 10.5}


@pytest.mark.parametrize("boot", ["there", None])
def test_two_machines_are_aligned_by_the_time_of_day(tmp_path, boot):
    here = written(tmp_path, "here", clock={"boot": boot and "here"})
    there = written(tmp_path, "there", clock={"zero_s": 3.0, "epoch_s": 5002.5, "boot": boot})
    note = f"{there}: aligned by the time of day: its clock may be another machine's"
    for paths in ([here, there], [there, here])[: 1 if boot else 2]:
        starts = {e["name"]: e["ts"] for e in merged_events(*paths, notes=[note])}
        assert starts == {"here": 10.5, "there": 10.5 + 2.5e6}


def test_a_trace_of_perfflowaspect_is_merged(tmp_path):
    theirs = tmp_path / "theirs.pfw"
    begin = {"ph": "B", "name": "foo", "cat": "m", "pid": 9, "tid": 9, "ts": 1700000000000000.0}
    end = {**begin, "ph": "E"}
    theirs.write_text(f"[\n{json.dumps(begin)},\n{json.dumps(end)},\n")
    ours = written(tmp_path, "ours")
    events = merged_events(theirs, ours)
    assert events[:2] == [begin, end]
    assert [e["ph"] for e in events[2:]] == ["X"]
    notes = merge([theirs, ours], io.BytesIO()).notes
    assert [note for note in notes if "has no start time" in note]
    assert [note for note in notes if "its end was open" in note]


def test_a_clock_of_another_program_aligns_nothing(tmp_path):
    theirs = tmp_path / "theirs.json"
    event = {"ph": "X", "name": "theirs", "pid": 9, "tid": 9, "ts": 3.0, "dur": 1.0}
    about = {"clock": {"name": "mono"}}
    theirs.write_text(json.dumps({"traceEvents": [event], "otherData": about}))
    events = merged_events(theirs, written(tmp_path, "ours"))
    assert {e["name"]: e["ts"] for e in events} == {"theirs": 3.0, "ours": 10.5}


@pytest.mark.parametrize("text", ["", "{}", "[3]", '[{"ph": "C", "v": NaN}]'])
def test_merge_names_the_file_that_is_no_trace(tmp_path, text):
    path = tmp_path / "no.pfw"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(TraceError, match=r"no.pfw'"):
        merge(path, tmp_path / "merged.pfw")
    assert not (tmp_path / "merged.pfw").exists()


def test_a_merge_can_be_merged_and_replace_its_input(tmp_path):
    once = merge([written(tmp_path, "a"), written(tmp_path, "b")], tmp_path / "once.pfw")
    assert [head["pid"] for head in read(once.path)["otherData"]["merged"]] == [7, 7]
    c = written(tmp_path, "c")
    turned = merge([c, once.path], tmp_path / "turned.pfw")
    for merged, names in ((turned, "cab"), (merge([once.path, c], once.path), "abc")):
        events = read(merged.path)["traceEvents"]
        assert "".join(e["name"] for e in events) == names
        assert len({e["pid"] for e in events}) == 3
