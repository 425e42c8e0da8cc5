"""What tracing sees inside the tasks of a run, and where that can be looked at."""

import asyncio
import gc
import json
import sys
import textwrap
import threading
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import nullcontext
from datetime import datetime

import pytest
import traced_programs
from handmade import failure
from platforms import needs_fork
from trace_files import events_of, read
from traced_programs import chain, fails, pools

from dagprofiler import DAG, Journal, Profile, Rounds, Tracer, analyze, span, task, tracing
from dagprofiler._util.interpreter import recording
from dagprofiler.errors import FormatError, RunError, TraceError, ValidationError
from dagprofiler.formats.opentelemetry import to_opentelemetry

#: Task to how often each name is in it, in one round.
SEEN = {
    "load": {"read": 1, "count_to": 1, "depth": 1, "loaded": 1},
    "fill": {"fill": 1},
    "wait": {"Wait.one": 3},
}


def rows(profile):
    """Return the records of the section as dicts, with labels and threads in their places."""
    section = profile.sections["spans"]
    for record in section["records"]:
        row = dict(zip(section["columns"], record))
        thread = section["threads"][row["thread"]]
        yield {**row, **section["labels"][row["label"]], "thread": thread}


def counted(profile, number=0):
    seen = {}
    for row in rows(profile):
        if row["round"] == number:
            seen.setdefault(row["task"], Counter())[row["name"]] += 1
    return {task: dict(names) for task, names in seen.items()}


def with_spans(*records, labels, times_ms=None):
    """A profile of one task with these spans: thread, label, start and end in ms, arguments."""
    profile = DAG({"fill": traced_programs.fill}).run(inputs={"fill": {"text": ""}})
    document = json.loads(profile.dumps())
    if times_ms is not None:
        start = document["timeline"]["columns"].index("compute_start_ms")
        document["timeline"]["records"][0][start:] = times_ms
        document["execution_metrics"][0]["compute_time_ms"] = times_ms[1] - times_ms[0]
    document["spans"] = {
        "labels": [{"kind": kind, "name": name, "category": "m"} for kind, name in labels],
        "threads": [{"worker": 0, "id": i, "name": "t", "own": i == 0} for i in range(3)],
        "columns": ["task", "round", "thread", "label", "start_ms", "end_ms", "id", "args"],
        "records": [
            ["fill", 0, thread, label, start, end, None, args]
            for thread, label, start, end, args in records
        ],
    }
    return Profile.from_dict(document)


@pytest.fixture(params=[None, ThreadPoolExecutor, ProcessPoolExecutor])
def executor(request):
    """Run one task at a time in a process, whose threads are then the task's."""
    workers = 1 if request.param is ThreadPoolExecutor else 2
    with nullcontext() if request.param is None else request.param(workers) as pool:
        yield pool


def test_threads_record_for_the_only_task_or_their_context():
    both_run, recorded = (threading.Barrier(2) for _ in range(2))

    def in_thread(n):
        thread = threading.Thread(target=traced_programs.count_to, args=(n,))
        thread.start()
        thread.join()

    @task(outputs=["x"])
    def alone():
        in_thread(1)
        return {"x": 1}

    def beside(x):
        both_run.wait(60)
        # Of two tasks at once, this one is not known to be the thread's.
        in_thread(2)
        asyncio.run(asyncio.wait_for(asyncio.to_thread(traced_programs.count_to, 3), 60))
        recorded.wait(60)
        return {}

    tasks = {"alone": alone, **{name: task(outputs=[])(beside) for name in "ab"}}
    with tracing.collecting() as outside, ThreadPoolExecutor(2) as pool:
        profile = DAG(tasks, [("alone", "a"), ("alone", "b")]).run(executor=pool)
    assert counted(profile) == {name: {"count_to": 1} for name in tasks}
    assert not any(row["thread"]["own"] for row in rows(profile))
    assert outside.spans() == []


@needs_fork
def test_a_process_that_a_task_forks_has_a_trace_of_its_own(traced):
    program = """
import os
from dagprofiler import DAG, span, task
from dagprofiler.tracing import flush
@task(outputs=[])
def forks():
    child = os.fork()
    if not child:
        with span("in the child"):
            pass
        flush()
        os._exit(0)
    print(os.waitpid(child, 0)[1])
    with span("in the parent"):
        return {}
section = DAG({"forks": forks}).run().sections["spans"]
print([section["labels"][record[3]]["name"] for record in section["records"]])
"""
    assert traced.run(program, "-W", "ignore") == "0\n['in the parent']\n"
    names = {event["name"] for file in traced.files() for event in events_of(read(file))}
    assert "in the child" in names


def test_a_failed_task_keeps_its_spans(executor):
    profile = failure(chain(bad=fails), executor=executor, on_error="finish").profile
    inside = [row for row in rows(profile) if row["task"] == "bad"]
    assert [row["name"] for row in inside] == ["count_to", "before it failed", "fails"]
    assert inside[-1]["args"] == {"error": "ValueError: no"}


def test_a_collection_does_not_get_the_spans_of_tasks():
    inside = tracing.Collection()

    @task(outputs=[])
    def collects():
        with tracing.collecting(inside), span("collected"):
            pass
        with span("of the task"):
            return {}

    with tracing.collecting() as outside:
        profile = DAG({"collects": collects}).run()
        with span("after the run"):
            pass
    assert [one.name for one in inside.spans()] == ["collected"]
    assert counted(profile) == {"collects": {"of the task": 1}}
    assert [one.name for one in outside.spans()] == ["after the run"]


@pytest.mark.parametrize(
    "asked",
    [
        {"meters": ["allocation"]},
        pytest.param({"rounds": Rounds(2, fresh_process=True)}, marks=pytest.mark.slow),
    ],
)
def test_fresh_processes_send_their_spans(asked):
    profile = chain().run(**asked, hooks=[Tracer()])
    numbers = sorted({row["round"] for row in rows(profile)})
    assert [counted(profile, number) for number in numbers] == [SEEN] * len(numbers)


def test_without_tracing_only_a_tracer_records():
    tracing.configure(enable=False)
    try:
        assert "spans" not in chain().run().sections
        assert counted(chain().run(hooks=[Tracer()])) == SEEN
        with ThreadPoolExecutor(2) as pool:
            chain().run(executor=pool, hooks=[Tracer([textwrap])])
        gc.collect()
        assert recording.off
        if sys.version_info >= (3, 12):
            assert "dagprofiler" not in map(sys.monitoring.get_tool, range(6))
    finally:
        tracing.configure(enable=True)


def test_a_tracer_records_functions_without_annotations(executor):
    hooks = [Tracer([textwrap], floor_ms=0)]
    profile = chain(many=pools).run(executor=executor, hooks=hooks)
    found = [row for row in rows(profile) if row["category"] == "textwrap"]
    assert "wrap" in {row["name"].split(".")[-1] for row in found}
    # Before Python 3.12 only those of the task's own thread.
    others = {"many": False} if sys.version_info >= (3, 12) else {}
    assert {row["task"]: row["thread"]["own"] for row in found} == {"fill": True, **others}


def test_functions_are_told_by_the_name_of_their_module():
    # A spawned process runs the main module under this name.
    scope = {"__name__": "__mp_main__"}
    exec("def work(): return 1", scope)

    @task(outputs=[])
    def calls():
        scope["work"]()
        json.loads("[1]")
        textwrap.fill("some words")
        return {}

    profile = DAG({"calls": calls}).run(hooks=[Tracer(["__main__", json], floor_ms=0)])
    found = {(row["name"].split(".")[-1], row["category"]) for row in rows(profile)}
    assert found >= {("work", "__main__"), ("loads", "json"), ("raw_decode", "json")}
    assert {category for _, category in found} == {"__main__", "json"}


def test_a_tracer_ends_with_its_run():
    with ThreadPoolExecutor(1) as pool:
        chain().run(executor=pool, hooks=[Tracer([textwrap], floor_ms=0)])
        for hook in (Tracer(), Tracer(["json"]), Tracer(["textwrap"], floor_ms=60_000)):
            assert counted(chain().run(hooks=[hook])) == SEEN
        assert counted(chain().run(executor=pool)) == SEEN
    assert sys.getprofile() is None


def test_before_python_3_12_one_profiler_is_possible_in_a_thread():
    if sys.version_info >= (3, 12):
        pytest.skip("several are possible")
    sys.setprofile(lambda *_: None)
    try:
        profile = chain().run(hooks=[Tracer([textwrap])])
    finally:
        sys.setprofile(None)
    assert counted(profile)["fill"] == {"fill": 1, "functions are not recorded": 1}


def test_spans_above_the_limit_are_counted(tmp_path):
    profile = chain(coroutines=9).run(hooks=[Tracer(limit=2)])
    assert counted(profile)["wait"] == {"Wait.one": 2}
    assert profile.sections["spans"]["dropped"] == {"load": 2, "wait": 7}
    found = analyze(profile, cost="wall_time")
    assert found.critical_spans.dropped == 9
    assert "there was no room for 9 spans: Tracer(limit=...)" in str(found)
    assert "no room" not in str(analyze(chain().run(), cost="wall_time"))


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"functions": ["no_such_module"]}, "no_such_module"),
        ({"functions": ["math"]}, "math.* is no module that is written in Python"),
        ({"floor_ms": -1}, "floor_ms .* -1"),
        ({"limit": 0}, "limit .* 0"),
    ],
)
def test_tracer_names_its_invalid_parameter(wrong, why):
    with pytest.raises(TraceError, match=why):
        Tracer(**wrong)
    with pytest.raises(ValidationError, match="one Tracer"):
        chain().run(hooks=[Tracer(), Tracer()])


def test_spans_come_back_with_a_run_that_is_resumed(tmp_path):
    dag = chain(bad=fails)
    with pytest.raises(RunError):
        dag.run(hooks=[Journal(tmp_path)], on_error="finish")
    with pytest.raises(RunError) as caught:
        dag.resume(tmp_path)
    profile = caught.value.profile
    bad = {"bad": {"count_to": 1, "before it failed": 1, "fails": 1}}
    assert counted(profile) == {**SEEN, **bad}
    when = {(one.task, one.round): one for one in profile.timeline.rows()}
    for row in rows(profile):
        at = when[row["task"], row["round"]]
        assert at.compute_start_ms <= row["start_ms"] + 1e-3
        assert row["end_ms"] <= at.compute_end_ms + 1e-3


@pytest.mark.parametrize(
    ("spans", "expected", "uncovered_ms"),
    [
        # Threads that a task starts.
        (
            [(0, 0, 101, 103), (1, 1, 102, 108), (1, 2, 104, 105), (2, 1, 107, 115)],
            *({"a": (1, 2, 2), "b": (2, 8, 8), "c": (1, 1, 1)}, 1),
        ),
        # Recursive calls count once.
        ([(0, 0, *ends) for ends in ([102, 103], [101, 104], [100, 105])], {"a": (3, 5, 5)}, 5),
    ],
)
def test_the_critical_path_by_span_covers_all_time(spans, expected, uncovered_ms):
    profile = with_spans(
        *((*span, None) for span in spans),
        labels=[("span", name) for name in "abc"],
        times_ms=[100.0, 110.0, 110.0, 110.0],
    )
    found = analyze(profile, cost="wall_time").critical_spans
    assert {one.name: (one.calls, one.total_ms, one.self_ms) for one in found.spans} == expected
    assert found.uncovered_ms == pytest.approx(uncovered_ms)


@pytest.fixture
def telemetry():
    """A tracer provider of OpenTelemetry, and what keeps the spans it is given."""
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), sdk.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider, exporter


def test_opentelemetry_gets_the_run_with_links_along_its_edges(telemetry):
    provider, exporter = telemetry
    profile = failure(chain(bad=fails), on_error="finish").profile
    with pytest.raises(FormatError, match="no tracer provider"):
        to_opentelemetry(profile)
    sent = to_opentelemetry(profile, provider)
    spans = exporter.get_finished_spans()
    assert sent == len(spans)
    named = {one.name: one for one in spans}
    by_id = {one.context.span_id: one for one in spans}
    parent = {one.name: by_id[one.parent.span_id].name for one in spans if one.parent}
    tasks = [one for one in spans if "dag.task" in one.attributes]
    linked = {one.name: [by_id[link.context.span_id].name for link in one.links] for one in tasks}
    assert linked == {"load": [], "fill": ["load"], "wait": ["fill"], "bad": ["fill"]}
    assert (parent["read"], parent["load"], parent["round"]) == ("compute", "round", "dag run")
    assert named["bad"].status.status_code.name == "ERROR"
    assert named["bad"].attributes["error.type"] == "ValueError"
    assert named["read"].attributes["thread.id"] == named["load"].attributes["thread.id"]
    assert named["read"].attributes["code.function.name"].endswith(".read")
    assert [event.name for event in named["load"].events] == ["loaded"]
    # What has no duration is no span.
    assert not {"loaded", "depth"} & named.keys()
    begun = datetime.fromisoformat(profile.timestamp.replace("Z", "+00:00"))
    assert begun.timestamp() - 1 <= named["dag run"].start_time / 1e9 <= time.time() + 1
    for one in spans:
        above = by_id[one.parent.span_id] if one.parent else one
        assert above.start_time <= one.start_time <= one.end_time <= above.end_time


def test_opentelemetry_gets_nested_spans_and_their_arguments(telemetry):
    provider, exporter = telemetry
    args = {"big": 2**63, "n": 3, "list": [1], "none": None, "x": 0.5}
    error = {"error": "ValueError: no"}
    kinds = [("span", "outer"), ("async", "waits"), ("span", "inner"), ("span", "late")]
    odd = [("span", "odd"), ("instant", "now"), ("span", "fails")]
    times = [(500, 900), (600, 950), (700, 800), (850, 900), (0, 1), (0, 0), (2, 3)]
    values = [*[None] * 4, args, args, error]
    spans = [(0, i, *ends, its) for i, (ends, its) in enumerate(zip(times, values))]
    to_opentelemetry(with_spans(*spans, labels=[*kinds, *odd]), provider)
    seen = exporter.get_finished_spans()
    by_id = {one.context.span_id: one.name for one in seen}
    above = {one.name: by_id[one.parent.span_id] for one in seen if one.parent}
    assert (above["inner"], above["late"]) == ("outer", "outer")
    assert above["waits"] == above["outer"] == "fill"
    (one,) = (one for one in seen if one.attributes.get("n") == 3)
    assert {"big": str(2**63), "list": "[1]", "x": 0.5}.items() <= dict(one.attributes).items()
    assert "none" not in one.attributes
    (fails,) = (one for one in seen if one.name == "fails")
    assert fails.status.status_code.name == "ERROR"


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the outer one is a profiler")
def test_a_run_inside_a_task_has_a_tracer_of_its_own():
    @task(outputs=["inner"])
    def outer():
        textwrap.fill("some words")
        inner = chain().run(hooks=[Tracer([textwrap, json], floor_ms=0)])
        textwrap.dedent(" some words")
        return {"inner": inner}

    profile = DAG({"outer": outer}).run(hooks=[Tracer([textwrap], floor_ms=0)])
    inner = profile.outputs["outer"]["inner"]
    both = (counted(inner)["fill"], {"wrap"}), (counted(profile)["outer"], {"fill", "dedent"})
    for seen, names in both:
        assert names <= {name.split(".")[-1] for name in seen}
