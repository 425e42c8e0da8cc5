import io
import json
import random
import re
from pathlib import Path

import pytest
from trace_files import events_of, read

from dagprofiler import TraceError, span
from dagprofiler.tracing import flush, merge

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


def test_processes_of_one_machine_share_its_clock_though_the_time_of_day_was_set_back(tmp_path):
    first = written(tmp_path, "first", clock={"epoch_s": 5001.0})
    second = written(tmp_path, "second", clock={"zero_s": 101.0})
    ending = '"closed": false, "lost": 3, "why": "no room"'
    second.write_text(second.read_text().replace('"closed": true', ending))
    told = ["is not closed: the process was killed, or still runs", "3 spans were lost: no room"]
    events = merged_events(second, first, notes=[f"{second}: it {told[0]}", f"{second}: {told[1]}"])
    assert {e["name"]: e["ts"] for e in events} == {"first": 10.5, "second": 1e6 + 10.5}


@pytest.mark.parametrize("boot", ["there", None])
def test_clocks_of_two_machines_are_aligned_by_the_time_of_day_and_it_is_said(tmp_path, boot):
    here = written(tmp_path, "here", clock={"boot": boot and "here"})
    there = written(tmp_path, "there", clock={"zero_s": 3.0, "epoch_s": 5002.5, "boot": boot})
    told = f"{there}: aligned by the time of day: its clock may be another machine's"
    for paths in ([here, there], [there, here])[: 1 if boot else 2]:
        starts = {e["name"]: e["ts"] for e in merged_events(*paths, notes=[told])}
        assert starts == {"here": 10.5, "there": 10.5 + 2.5e6}


def test_only_times_and_numbers_of_processes_are_changed_whatever_stands_in_their_place(tmp_path):
    kept = [
        *({"ts": odd} for odd in (True, "soon", None, [1], 1e18, -1e18)),
        *({"pid": odd, "id": "7.1"} for odd in ("7", 7.0, None, [7], 8, True)),
        {"id": "7.1"},
    ]
    changed = [
        ({"ts": -1.5}, {"ts": 999998.5}),
        ({"ts": 9e17}, {"ts": 9e17 + 1e6}),
        ({"pid": 7}, {"pid": 7 + 2**22}),
        *(({"pid": 7, "id": odd}, {"pid": 7 + 2**22, "id": odd}) for odd in (7, None, ["7.1"])),
        ({"pid": 7, "id": "7.1"}, {"pid": 7 + 2**22, "id": f"7.1 of {7 + 2**22}"}),
    ]
    events = [{"ph": "i", **event} for event in [*kept, *(before for before, _ in changed)]]
    second = written(tmp_path, "second", *events, clock={"zero_s": 101.0})
    found = merged_events(written(tmp_path, "first"), second, notes=[])[1:]
    assert found == [{"ph": "i", **event} for event in [*kept, *(after for _, after in changed)]]


def test_a_file_cut_anywhere_gives_what_is_whole_in_it(traced):
    for i in range(2):
        with span(f"a{i}", word="größer"):
            pass
    whole = Path(flush()).read_bytes()
    cut = traced.folder / "cut.trace"
    for length in range(whole.index(b"\n") + 1, len(whole) - 1):
        cut.write_bytes(whole[:length])
        stream = io.BytesIO()
        assert merge(cut, stream).notes
        names = [e["name"] for e in events_of(json.loads(stream.getvalue()))]
        assert names == [f"a{i}" for i in range(len(names))]
        assert len(names) >= whole[:length].count(b"}},\n") - 2


def test_a_write_over_the_old_tail_that_was_cut_short_loses_that_line_alone(tmp_path):
    path = written(tmp_path, "a")
    text = path.read_text()
    tail = text.index("\n]")
    path.write_text(text[:tail] + ',\n{"ph": "X"' + text[tail + 12 :])
    merged = merge(path, tmp_path / "merged.pfw")
    assert [e["name"] for e in read(merged.path)["traceEvents"]] == ["a"]
    assert any("a line is no event" in note for note in merged.notes)


def test_a_trace_of_perfflowaspect_whose_end_is_open_is_merged(tmp_path):
    theirs = tmp_path / "theirs.pfw"
    event = {"ph": "B", "name": "foo", "cat": "m", "pid": 9, "tid": 9, "ts": 1700000000000000.0}
    begin, end = event, {**event, "ph": "E"}
    theirs.write_text(f"[\n{json.dumps(begin)},\n{json.dumps(end)},\n")
    notes = ["has no start time: its times are unchanged", "its end was open"]
    ours = written(tmp_path, "ours")
    events = merged_events(theirs, ours, notes=[f"{theirs}: {note}" for note in notes])
    assert events[:2] == [begin, end]
    assert [e["ph"] for e in events[2:]] == ["X"]
    # Its forked children write into one file, each with a beginning of its own.
    children = [{**one, "pid": pid} for one in (begin, end) for pid in (8, 9)]
    lines = "".join("[\n" * (one["ph"] == "B") + f"{json.dumps(one)},\n" for one in children)
    theirs.write_text("[\n" + lines + '{"ph": "B", "na')
    assert merged_events(theirs) == children
    assert any("is no event" in note for note in merge(theirs, io.BytesIO()).notes)


#: Traces with entries that are no events, or with numbers that JSON does not have.
NO_EVENTS = '[\n{"ph": "X"},\n 3]', '{"traceEvents":\n[{"ph": "i"}, {"no": "ph"}]}'
NO_JSON = (
    '[{"ph": "X"}, {"ph": "C", "args": {"v": NaN}}]',
    '[{"ph": "i", "ts": 1e999}, {"ph": "i"}]',
)


@pytest.mark.parametrize(
    ("texts", "told"),
    [(NO_EVENTS, "1 entries are no events"), (NO_JSON, "an event is not passed on")],
)
def test_traces_of_other_tools_are_merged_and_what_is_no_event_is_left_out(tmp_path, texts, told):
    paths = [tmp_path / f"{i}.json" for i in range(2)]
    for path, text in zip(paths, texts):
        path.write_text(text)
    assert merged_events(*paths) == [{"ph": "X"}, {"ph": "i"}]
    assert sum(told in note for note in merge(paths, io.BytesIO()).notes) == 2


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "hello", "3", "{}", '{"traceEvents": 3}', "[1, 2}", "\x00\xff", "[" * 100_000),
        '{3, "traceEvents": [\n]}',
    ],
)
def test_what_is_no_trace_is_refused_by_name(tmp_path, text):
    path = tmp_path / "no.pfw"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(TraceError, match=r"no.pfw' is no trace"):
        merge([path], tmp_path / "merged.pfw")
    assert not (tmp_path / "merged.pfw").exists()


def test_a_head_that_says_nonsense_costs_the_alignment_alone(tmp_path):
    clocks = {"a": {"zero_s": "soon"}, "b": {"epoch_s": True}, "c": {}, "d": {}}
    *_, c, d = paths = [written(tmp_path, name, clock=clock) for name, clock in clocks.items()]
    c.write_text(c.read_text().replace('"clock": {', '"clock": 3, "was": {'))
    text = d.read_text()
    d.write_text(text[: text.index('"otherData"')] + '"otherData": 3, "traceEvents": [\n]}')
    assert [e["name"] for e in merged_events(*paths)] == ["a", "b", "c"]


def test_a_merge_can_be_merged_and_replace_what_it_reads(tmp_path):
    once = merge([written(tmp_path, "a"), written(tmp_path, "b")], tmp_path / "once.pfw")
    assert [head["pid"] for head in read(once.path)["otherData"]["merged"]] == [7, 7]
    c = written(tmp_path, "c")
    turned = merge([c, once.path], tmp_path / "turned.pfw")
    for merged, names in ((turned, "cab"), (merge([once.path, c], once.path), "abc")):
        events = read(merged.path)["traceEvents"]
        assert "".join(e["name"] for e in events) == names
        assert len({e["pid"] for e in events}) == 3


ODD = [
    *["null", "true", "0", "-1", "7", "0.5", "1e999", "NaN"],
    *(f"{10**400}", '""', '"X"', '"\\ud800"', "[]", "[[]]", '[1, "a"]', "{}", '{"a": {}}'),
    *('{"clock": {"zero_s": "x"}}', "", "[" * 5000, '{"a":' * 5000, "\n", "\x00", "]"),
]


def mutated(chance, text):
    """The text of a trace with one to three of its values, keys or marks replaced."""
    tokens = re.findall(r'"[^"]*"|[\w.]+|\s+|.', text)
    for _ in range(chance.randint(1, 3)):
        tokens[chance.randrange(len(tokens))] = chance.choice([*ODD, chance.choice(tokens)])
    return "".join(tokens)


def merged_or_refused(seed, folder):
    """Merge a trace that is whole with one that is not; return the trace, or why it is refused."""
    chance = random.Random(seed)
    whole, path = written(folder, "whole"), folder / "wrong.pfw"
    head, event, ending = whole.read_text().splitlines()
    begun = event.replace('"X"', '"b", "id": "7.1"').replace("2.0", '2.0, "args": {"n": [1]}')
    text = "\n".join([head, f"{event},", begun, ending])
    path.write_text(mutated(chance, text), encoding="utf-8")
    paths = chance.choice([[whole, path], [path, whole], [path]])
    stream = io.BytesIO()
    try:
        merge(paths, stream)
    except TraceError as error:
        return str(error)
    path.write_bytes(stream.getvalue())
    return read(path)


@pytest.mark.parametrize(
    "seeds", [range(100), pytest.param(range(100, 500), marks=pytest.mark.slow)]
)
def test_what_is_wrong_in_a_trace_is_refused_by_name_or_left_out(tmp_path, seeds):
    for seed in seeds:
        try:
            outcome = merged_or_refused(seed, tmp_path)
        except Exception as error:
            raise AssertionError(f"mutation {seed}") from error
        assert isinstance(outcome, dict) or "wrong.pfw' is no trace" in outcome
