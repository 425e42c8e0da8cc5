"""Perfetto and speedscope show what programs that trace themselves have recorded."""

import base64
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from smoke import ASYNC, COROUTINES, PROCESSES, SMOKE, THREADS
from trace_files import ROOT, read

from dagprofiler.tracing import merge

pytestmark = pytest.mark.external


@pytest.fixture
def traces(tmp_path):
    """Runs a program; returns the traces that it wrote."""

    def run(program, options=""):
        file = tmp_path / "program.py"
        file.write_text(program, encoding="utf-8")
        env = {**os.environ, "PYTHONPATH": str(ROOT), "PERFFLOW_OPTIONS": options}
        subprocess.run([sys.executable, str(file)], cwd=tmp_path, env=env, check=True)
        return sorted(tmp_path.glob("perfflow.*.pfw"))

    return run


def test_every_trace_of_the_suite_is_loaded_whole(trace_processor, tmp_path):
    env = {**os.environ, "DAGPROFILER_KEEP_TRACES": str(tmp_path)}
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/tracing"]
    subprocess.run(tests, cwd=ROOT, env=env, check=True, stdout=subprocess.DEVNULL)
    traces = sorted(tmp_path.iterdir())
    assert len(traces) > 50
    for trace in traces:
        events = read(trace)["traceEvents"]
        slices = sum(event["ph"] in "XBbin" for event in events)
        values = sum(len(event["args"]) for event in events if event["ph"] == "C")
        rows = trace_processor.load(trace.read_bytes())
        assert rows("select count(*) from slice") == [(slices,)], trace.name
        assert rows("select count(*) from counter") == [(values,)], trace.name


CALLS = "select name, depth, count(*) from slice group by 1, 2 order by 2"
THREE_CALLS = [("foo", 0, 4), ("bar", 1, 4), ("bas", 2, 4)]


@pytest.mark.parametrize(
    ("program", "options", "query", "expected"),
    [
        (SMOKE, "log-event=compact", CALLS, THREE_CALLS),
        (SMOKE, "log-event=verbose", CALLS, THREE_CALLS),
        (
            *(THREADS, ""),
            "select count(*) from slice join thread_track t on t.id = track_id group by utid",
            [(3,)] * 5,
        ),
        (
            *(ASYNC, ""),
            "select count(*), count(distinct track_id), min(dur) >= 1e9 from slice",
            [(5, 5, 1)],
        ),
        (
            *(COROUTINES, ""),
            # Without the time that writing takes.
            """select name, count(*), count(distinct track_id), null from slice
            where category <> 'dagprofiler' group by 1
            union all select 'values', count(*), min(value), max(value) from counter order by 1""",
            [
                ("parse", 1000, 1, None),
                *((name, 1000, 1000, None) for name in ("read", "request", "rows")),
                ("values", 3000, 0.0, 2.0),
            ],
        ),
    ],
    ids=["compact calls", "verbose calls", "threads", "calls that wait a second", "coroutines"],
)
def test_calls_are_slices_of_their_threads_and_coroutines(
    trace_processor, traces, program, options, query, expected
):
    assert trace_processor.load(traces(program, options)[0].read_bytes())(query) == expected


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_four_processes_are_in_one_trace(trace_processor, traces, tmp_path, method):
    merged = merge(traces(PROCESSES.format(method=method)), tmp_path / "merged.pfw")
    rows = trace_processor.load(Path(merged.path).read_bytes())
    of_processes = """
        select count(*) from slice join thread_track t on t.id = track_id join thread using (utid)
        group by upid
    """
    assert rows(of_processes) == [(3,)] * 4


def test_speedscope_shows_the_spans(browser, speedscope, traces, tmp_path):
    trace = traces(SMOKE)[0]
    # As its command does: a script beside the page hands it the file.
    content = base64.b64encode(trace.read_bytes()).decode()
    name = json.dumps(trace.name)
    script = tmp_path / "load.js"
    script.write_text(f"speedscope.loadFileFromBase64({name}, {json.dumps(content)})")
    page = browser.new_page()
    problems = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(f"{speedscope.as_uri()}#localProfilePath={script}")
    page.get_by_text("Sandwich").click()
    for function in ("foo", "bar", "bas"):
        page.get_by_text(function, exact=True).wait_for()
    assert problems == []
    page.close()
