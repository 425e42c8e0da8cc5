import json
from collections import Counter

import pytest
from handmade import strict
from sample_profiles import profile_of, rendered
from traced_programs import chain

from dagprofiler._document.rounds import MOMENTS
from dagprofiler.errors import FormatError
from dagprofiler.formats import exporter

COLUMNS = ["task", "round", "worker", *MOMENTS]


def events_of(profile):
    return strict(rendered("chrome_trace", profile))["traceEvents"]


def with_timeline(records, tasks=("a", "b"), columns=COLUMNS):
    profile = profile_of(list(tasks))
    profile.sections["timeline"] = {
        "workers": [{"host": "h", "pid": 1, "thread": 5}, {"host": "h", "pid": 2, "thread": 5}],
        "columns": list(columns),
        "records": records,
    }
    return profile


def test_a_failed_task_ends_with_its_last_known_moment():
    profile = with_timeline([["a", 0, 0, 0, 1, 2, 3, 4, None, None], ["b", 0, None, *[None] * 7]])
    failed = {"state": "failed", "error": "ValueError: no"}
    tasks = {"a": failed, "b": {"state": "cancelled"}}
    profile.sections["run"] = {"state": "partial", "tasks": tasks}
    export = exporter("chrome_trace").render(profile)
    events = json.loads(export.text)["traceEvents"]
    spans = {e["name"]: e for e in events if e["ph"] == "X"}
    assert spans.keys() == {"round 0", "a", "deserialize", "compute"}
    assert (spans["a"]["ts"], spans["a"]["dur"]) == (1000, 3000)
    assert spans["a"]["args"] == {"round": 0, "ready_ms": 0, **failed}
    assert any("of which no start is known" in loss for loss in export.losses)


def test_spans_lie_in_their_task_or_on_their_threads_track():
    profile = with_timeline([["a", 0, 0, 0, *range(6)]], tasks="a")
    weight = {"node_weight": "wall_time_ms", "wall_time_ms": 1}
    profile.sections["weight_sources"] = {"a": weight}
    profile.sections["spans"] = {
        "threads": [
            {"own": True, "worker": 0, "name": "main", "id": 5},
            {"own": False, "worker": 1, "name": "side", "id": 7},
            {"own": False, "worker": None, "name": "lost", "id": 8},
        ],
        "labels": [{"kind": "span", "name": "inner", "category": "c"}],
        "records": [
            ["a", 0, 0, 0, 2.25, 2.75, None, {"n": 0}],
            ["a", 0, 1, 0, 2.25, 2.75, None, {"n": 1}],
            ["a", 0, 1, 0, 2.75, 9, None, {"n": 2}],
            ["a", 0, 2, 0, 2.25, 2.75, None, {"n": 3}],
            ["a", 0, 0, 0, 4.5, 9, None, {"n": 4}],
        ],
    }
    events = events_of(profile)
    (around,) = [e for e in events if e.get("cat") == "task"]
    home = around["pid"], around["tid"]
    inner = {e["args"].pop("n"): e for e in events if e["name"] == "inner"}
    times = dict.fromkeys((0, 1, 3), (2250, 500))
    # The last one does not stick out of its task.
    times.update({2: (2750, 6250), 4: (4500, 500)})
    assert {n: (e["ts"], e["dur"]) for n, e in inner.items()} == times
    assert [n for n, e in inner.items() if (e["pid"], e["tid"]) == home] == [0, 4]
    assert inner[0]["args"] == inner[4]["args"] == {"critical_path": True}
    assert around["args"] == {"round": 0, "ready_ms": 0, "critical_path": True}
    assert all(inner[n]["args"] == {"task": "a", "round": 0} for n in (1, 2, 3))
    named = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert [named[inner[n]["tid"]] for n in (1, 2, 3)] == ["side (7)", "side (7)", "lost (8)"]
    assert inner[1]["tid"] == inner[2]["tid"]
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert [processes[inner[n]["pid"]] for n in (1, 3)] == ["h, pid 2", "unknown worker"]


def test_counters_instants_and_coroutines_are_events():
    events = events_of(chain().run())
    kinds = Counter(event["ph"] for event in events)
    assert (kinds["b"], kinds["e"], kinds["C"], kinds["i"]) == (3, 3, 1, 1)
    assert [event["args"] for event in events if event["ph"] == "C"] == [{"depth": 1}]
    marked = {event["name"] for event in events if event.get("args", {}).get("critical_path")}
    assert {"load", "fill", "wait", "read", "count_to"} <= marked


def test_columns_are_found_by_their_names():
    columns = ("task", "round", "worker", "compute_end_ms", "more", "compute_start_ms")
    events = events_of(with_timeline([["a", 0, None, 2, "?", 1]], columns=columns))
    assert {"name": "unknown worker"} in [event.get("args") for event in events]
    assert [e["name"] for e in events if e["ph"] == "X"] == ["round 0", "a", "compute"]
    assert [e["args"] for e in events if e.get("cat") == "task"] == [{"round": 0}]
    with pytest.raises(FormatError, match="no section 'timeline'"):
        rendered("chrome_trace", profile_of(["a"]))
