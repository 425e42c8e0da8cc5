import json
from pathlib import Path

import pytest
from handmade import handmade

from dagprofiler import DAG, Profile, Rounds, RunError, __version__, import_profile, task
from dagprofiler._util.text import render
from dagprofiler.analysis.summary import blocks, figures
from dagprofiler.metrics import EdgeMetrics, TaskMetrics

WFFORMAT = Path(__file__).resolve().parent.parent / "data" / "wfformat"
WEIGHTS = {"collect": 100000, "process": 1000000, "classify": 0}


def example(**sections):
    times = [
        TaskMetrics("collect", 5.627, 0.129, 0.0, 0, 880395),
        TaskMetrics("process", 1.25, 0.5, 0.0625, 800163, 800167),
        TaskMetrics("classify", 0.0004, 0.011, 0.5, 880398, 80156),
    ]
    edges = [
        EdgeMetrics("collect", "process", ["data"], 800000, 800163),
        EdgeMetrics("collect", "classify", ["labels", "mask"], 80010),
        EdgeMetrics("process", "classify", [], 0, 0),
    ]
    figures = {"times": times, "weights": dict(WEIGHTS), "total_ms": 1045.2, "seed": 42}
    where = {"timestamp": "2026-11-20T23:59:32.123456Z", "hostname": "worker-01"}
    return handmade(WEIGHTS, edges, **figures, **where, sections=sections)


def test_a_partial_profile_says_so_and_why_first():
    failed = {"state": "failed", "error": "ValueError: no such cell"}
    reason = "task 'process' failed: ValueError: no such cell"
    tasks = {"process": failed, "classify": {"state": "skipped"}}
    profile = example(run={"state": "partial", "reason": reason, "tasks": tasks})
    _, second, *lines = str(profile).split("\n")
    assert second == f"PARTIAL: {reason}"
    assert reason in lines
    rows = [line.split() for line in lines if line]
    states = {row[0]: row[-1] for row in rows if row[0] in WEIGHTS and row[1] != "->"}
    assert states == {"collect": "succeeded", "process": "failed", "classify": "skipped"}


def test_times_of_the_warm_up_are_called_so():
    fails = task(outputs=["x"])(lambda: 1 // 0)
    with pytest.raises(RunError) as caught:
        DAG({"t": fails}).run(rounds=Rounds(3, warmup=1))
    assert "\n0 measured rounds, 1 warm-up; times are of the warm-up\n" in str(caught.value.profile)


def test_what_is_unknown_is_no_number():
    document = json.loads(example().dumps())
    del document["total_time_ms"], document["edge_metrics"], document["metadata"]["hostname"]
    document["node_weights"] = {"collect": 7}
    text = str(Profile.from_dict(document))
    assert text.startswith("3 tasks, 3 edges, total time unknown\n")
    assert f"\ndagprofiler {__version__}, 2026-11-20 23:59:32, seed 42\n" in text
    instructions = [line.split()[-1] for line in text.split("\n")[4:7]]
    assert instructions == ["7", "-", "-"]
    assert "collect -> classify  80.01 kB            -" in text
    document["edge_weights"] = {}
    document["dag_structure"]["edges"] = []
    assert "on the wire" not in str(Profile.from_dict(document))
    imported = import_profile(WFFORMAT / "v16-specification.json")
    head, partial, origin, *_ = str(imported).split("\n")
    assert head == "3 tasks, 3 edges, total time unknown"
    assert partial.endswith("WfFormat 1.6, which holds no runtime of 3 of 3 tasks")
    assert origin == f"dagprofiler {__version__} (imported from wfformat 1.6)"
    imported = import_profile(WFFORMAT / "v16-partial.json")
    moment = imported.timestamp[:19].replace("T", " ")
    assert f"\n{origin} on laptop, {moment}\n" in str(imported)


@pytest.mark.parametrize("name", ["a\nb", "\x1b[31mred", "\ud800", "\u202egnp"])
def test_a_hostile_host_reason_or_flag_does_not_break_the_table(name):
    assert "\nprüfen  " in str(Profile.loads(example().dumps().replace("process", "prüfen")))
    profile = example(run={"state": "partial", "reason": f"one{name}two", "tasks": {}})
    profile.sections["statistics"] = {"flags": {profile.dag_structure["nodes"][0]: [name]}}
    shown = "\n".join(render(blocks(figures(profile), [part])) for part in ("summary", "flags"))
    assert shown.count("not known to this version") == 1
    assert all(line.isprintable() for line in shown.splitlines())
    del profile.sections["statistics"]
    profile.hostname = f"worker{name}01"
    lines = str(profile).splitlines()
    assert len(lines) == len(str(example()).splitlines()) + 1
    assert all(line.isprintable() for line in lines)
