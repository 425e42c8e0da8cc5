"""The trace of a process: when it is written, forks, kills, and full disks."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from platforms import needs_fork, posix
from processes import limited_files, until
from trace_files import ROOT, events_of, read

from dagprofiler import trace
from dagprofiler.tracing import configure, flush


@trace
def noop():
    return None


def test_a_program_that_ends_leaves_a_closed_trace(traced):
    program = """
import atexit
from dagprofiler import span, trace
@trace
def late(): pass
class Last:
    def __del__(self): late()
"""
    traced.run(program)
    assert traced.files() == []
    ending = "kept = Last()\natexit.register(late)\nwith span('all'): 1 / 0\n"
    traced.run(program + ending, check=False)
    (file,) = traced.files()
    document = read(file)
    assert document["dagprofiler"] == {"closed": True}
    assert document["otherData"]["pid"] == int(file.suffixes[-2][1:])
    first, *others = events_of(document)
    assert first["name"] == "all"
    assert first["args"] == {"error": "ZeroDivisionError: division by zero"}
    assert {event["name"] for event in others} == {"late"}


KILLED = """
import time
from dagprofiler import trace
from dagprofiler.tracing import configure
configure(interval_s=0.01)
@trace
def work():
    pass
while True:
    work()
    time.sleep(0.001)
"""


def test_a_killed_program_leaves_a_trace_that_loads(traced):
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, "-c", KILLED], cwd=traced.folder, env=env)
    until(lambda: sum(file.read_text().count('"ph": "X"') for file in traced.files()) >= 100)
    process.kill()
    process.wait()
    document = read(traced.files()[0])
    assert document["dagprofiler"] == {"closed": False}
    assert len(events_of(document)) >= 100


FORK = """
import os, sys, threading
from dagprofiler import trace
@trace
def parent(): pass
@trace
def child(): pass
@trace
def both():
    return os.fork()
parent()
pids = []
for i in range(4):
    pids.append(both())
    if not pids[-1]:
        child()
        thread = threading.Thread(target=child)
        thread.start()
        thread.join()
        sys.exit(0)
    parent()
for pid in pids:
    assert os.waitpid(pid, 0)[1] == 0
"""


@needs_fork
def test_each_forked_process_has_a_file_of_its_own(traced):
    traced.run(FORK, "-W", "error", options="log-filename-include=name:name=job")
    documents = [read(file) for file in traced.files()]
    pids = [document["otherData"]["pid"] for document in documents]
    parents = {f"perfflow.job.{pid}.pfw" for pid in pids} - {file.name for file in traced.files()}
    assert len(documents) == 5
    assert len(parents) == 1
    names = sorted(sorted(e["name"] for e in events_of(d)) for d in documents)
    assert names == [["both"] * 4 + ["parent"] * 5] + [["both", "child", "child"]] * 4
    for document, pid in zip(documents, pids):
        assert {e["pid"] for e in document["traceEvents"]} == {pid}
        assert all(e["ts"] >= 0 for e in events_of(document))


def test_a_process_pool_leaves_a_closed_trace_for_each_worker(traced):
    traced.run(
        "from concurrent.futures import ProcessPoolExecutor\n"
        "from dagprofiler import trace\n"
        "@trace\n"
        "def work(i): return i\n"
        "if __name__ == '__main__':\n"
        "    with ProcessPoolExecutor(2) as pool:\n"
        "        assert list(pool.map(work, range(20))) == list(range(20))\n"
    )
    documents = [read(file) for file in traced.files()]
    assert sum(len(events_of(d)) for d in documents) == 20
    assert all(d["dagprofiler"]["closed"] for d in documents)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("filename", ["/dev/full", "/dev/null/below"])
def test_a_file_that_cannot_be_written_is_logged_once(traced, caplog, filename):
    configure(filename=filename)
    for _ in range(3):
        for _ in range(10):
            assert noop() is None
        assert flush() is None
    assert len(caplog.messages) == 1
    configure(filename="good.pfw")
    noop()
    assert traced.names() == ["noop"]


@posix
def test_a_disk_that_fills_up_keeps_what_was_written(traced):
    noop()
    flush()
    with limited_files(10_000):
        for _ in range(1000):
            noop()
        assert flush() is None
    assert len(events_of(read(traced.files()[0]))) == 1


def test_a_thread_writes_when_it_holds_many_spans(traced):
    configure(limit=2000, interval_s=1000)
    for _ in range(10_500):
        noop()
    names = [e["name"] for e in events_of(read(traced.files()[0]))]
    assert names.count("noop") >= 10_000
    # The time that writing took is not the program's.
    assert names.count("dagprofiler: write") >= 4
    assert traced.names().count("noop") == 10_500


def test_a_signal_handler_may_trace_and_flush(traced):
    if not hasattr(signal, "setitimer"):
        pytest.skip("this system has no such signals")
    seen, goes_on = [], [True]

    def handler(*_):
        noop()
        flush()
        seen.append(1)
        # Not at intervals: on a busy machine one would come before this is done.
        signal.setitimer(signal.ITIMER_REAL, 0.0005 * len(goes_on))

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.0005)
    try:
        for _ in range(100):
            for _ in range(20):
                noop()
            flush()
    finally:
        goes_on.clear()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(traced.events()) == 2000 + len(seen)


def test_threads_lose_no_span_while_others_write(traced):
    configure(limit=50, interval_s=0.001)
    with ThreadPoolExecutor(6) as pool:
        for _ in range(6):
            pool.submit(lambda: [noop() for _ in range(2000)])
        for _ in range(20):
            flush()
    assert traced.names().count("noop") == 12_000


def test_options_can_change_and_change_back(traced):
    noop()
    configure(filename="second.json")
    noop()
    noop()
    second = Path(flush())
    configure(filename=None, events="verbose")
    noop()
    assert second.name == "second.json"
    assert len(events_of(read(second))) == 2
    assert read(second)["dagprofiler"] == {"closed": True}
    # The first file is continued.
    assert [e["ph"] for e in traced.events()] == ["X", "B", "E"]
    (first,) = (file for file in traced.folder.iterdir() if file != second)
    assert read(first)["dagprofiler"] == {"closed": False}


def test_a_file_of_the_same_name_is_replaced(traced):
    path = traced.folder / "trace.json"
    path.write_text("x" * 10_000)
    configure(filename="trace.json")
    noop()
    assert traced.names() == ["noop"]
