import copy
import itertools
import json
from pathlib import Path

import pytest
from handmade import handmade

from dagprofiler import DAG, Profile, Rounds, __version__, import_profile, task
from dagprofiler.analysis.summary import summary
from dagprofiler.errors import RunError
from dagprofiler.metrics import EdgeMetrics, TaskMetrics

WFFORMAT = Path(__file__).resolve().parent.parent / "data" / "wfformat"
WAITS = task(outputs=["x"])(lambda: {"x": 1})
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


ORIGIN = f"dagprofiler {__version__} on worker-01, 2026-11-20 23:59:32, seed 42"
HEAD = f"""\
3 tasks, 3 edges, 1,045.200 ms in all
{ORIGIN}
"""

TASKS = """
task      time ms  share        in       out  instructions
collect     5.627  81.8%       0 B  880.4 kB       100,000
process     1.250  18.2%  800.2 kB  800.2 kB     1,000,000
classify   0.0004   0.0%  880.4 kB  80.16 kB             -
"""

EDGES = """
edge                    bytes  on the wire  fields
collect -> process     800 kB     800.2 kB  data
collect -> classify  80.01 kB            -  labels, mask
process -> classify       0 B          0 B
"""

PATH = """
critical path: 6.877 of 6.877 ms in all tasks, so that concurrency gives a speed-up of at most 1.00
  collect -> process -> classify
  gain if free, with enough workers, in ms: collect 5.627, process 1.250, classify 0.0004
"""


def test_a_profile_prints_headline_tables_and_path():
    overhead = {"prepare_ms": 0.25, "loop_ms": 1234.5, "hooks_ms": 0.0}
    sources = {"collect": "estimated_instructions", "process": "estimated_instructions"}
    profile = example(
        run={"state": "complete", "overhead": overhead},
        weight_sources={n: {"node_weight": sources.get(n, "default")} for n in WEIGHTS},
    )
    notes = (
        "data: serialized in 0.640 ms, deserialized in 0.562 ms\n"
        "outside of the tasks: prepare 0.250 ms, loop 1,234.500 ms, hooks 0.000 ms\n"
    )
    head = HEAD.replace("dagprofiler", f"{notes}dagprofiler")
    before = copy.deepcopy(profile.to_dict())
    assert str(profile) == summary(profile) == (head + TASKS + EDGES + PATH).rstrip("\n")
    assert profile.to_dict() == before
    # A default is shown as a weight only where nothing says that it is one.
    assert "80.16 kB             0\n" in str(example())
    profile = example()
    profile.seed = None
    assert ORIGIN.replace("seed 42", "no seed") in str(profile)


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


@pytest.mark.parametrize("count", [0, 41, 1500])
def test_of_many_tasks_and_edges_the_first_forty_are_shown(count):
    names = [f"t{i:04}" for i in range(count + 1)]
    edges = [(source, target, []) for source, target in zip(names, names[1:])]
    text = str(DAG(dict.fromkeys(names, WAITS), edges).run())
    blocks = {block.split()[0]: block for block in text.split("\n\n")}
    assert blocks["task"].count("\nt") == min(count + 1, 40)
    assert blocks.get("edge", "").count(" -> ") == min(count, 40)
    assert ("... and 1,461 more tasks" in text) == (count == 1500)
    assert ("... and 1 more edges" in text) == (count == 41)


@pytest.mark.parametrize("name", ["a\nb", "\x1b[31mred", "\ud800", "\u202egnp"])
def test_a_hostile_host_or_reason_does_not_break_the_table(name):
    assert "\nprüfen  " in str(Profile.loads(example().dumps().replace("process", "prüfen")))
    profile = example(run={"state": "partial", "reason": f"one{name}two", "tasks": {}})
    profile.hostname = f"worker{name}01"
    lines = str(profile).splitlines()
    assert len(lines) == len(str(example()).splitlines()) + 1
    assert all(line.isprintable() for line in lines)


def test_what_was_metered_is_a_table_of_its_own():
    class Power:
        name, unit, reason, reading = "power", "W", None, 12.5

        def start(self):
            pass

        def stop(self):
            return self.reading

    class Broken(Power):
        name, reason, reading = "current", "no such sensor", None

    dag = DAG({"a": WAITS})
    once = str(dag.run(meters=[Power(), Broken(), "children_cpu"]))
    assert "\ntask  power W\na      12.500" in once
    assert "current_W: no such sensor" in once
    assert "measured round;" not in once
    often = str(dag.run(meters=Power(), rounds=2))
    assert "\ntask  power W\na      12.500" in often
    assert "2 measured rounds, 2 warm-up; times are medians" in often


@pytest.mark.parametrize(
    ("failing", "rounds", "line"),
    [
        (1, 3, "0 measured rounds, 1 warm-up"),
        (3, 3, "1 measured round, 0 of them complete, 2 warm-up"),
        (4, 3, "2 measured rounds, 1 of them complete, 2 warm-up; times are medians"),
        (6, 3, "3 measured rounds, 2 warm-up; times are medians"),
        (4, 1, "1 measured round, 2 warm-up"),
    ],
)
def test_the_rounds_of_a_run_that_failed_are_those_that_were(failing, rounds, line):
    times = itertools.count(1)
    second = task(outputs=["y"])(lambda x: {"y": 1 // (failing - next(times))})
    dag = DAG({"first": WAITS, "second": second}, [("first", "second")])
    try:
        profile = dag.run(rounds=Rounds(rounds, warmup=2))
    except RunError as error:
        profile = error.profile
    assert line in summary(profile).splitlines()
