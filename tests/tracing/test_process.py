"""What happens to programs that are traced: they fork, are killed, or their disk is full."""

import gc
import os
import signal
import subprocess
import sys
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from platforms import needs_fork, posix
from processes import until
from trace_files import ROOT, events_of, read

from dagprofiler import trace
from dagprofiler.tracing import configure, flush
from dagprofiler.tracing._process import recorder


@trace
def noop():
    return None


def test_a_program_that_ends_leaves_a_closed_trace_if_it_recorded_anything(traced):
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
for i in range(1000):
    work()
time.sleep(600)
"""


def test_a_program_that_is_killed_loses_the_last_moment_alone(traced):
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, "-c", KILLED], cwd=traced.folder, env=env)
    until(lambda: sum(file.read_text().count('"ph": "X"') for file in traced.files()) >= 1000)
    process.kill()
    process.wait()
    document = read(traced.files()[0])
    assert document["dagprofiler"] == {"closed": False}
    assert len(events_of(document)) == 1000


FORK = """
import os, sys
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
        sys.exit(0)
    parent()
for pid in pids:
    assert os.waitpid(pid, 0)[1] == 0
"""


@needs_fork
def test_each_process_of_a_fork_has_a_file_of_its_own_named_by_its_number(traced):
    traced.run(FORK, "-W", "error", options="log-filename-include=name:name=job")
    documents = [read(file) for file in traced.files()]
    pids = [document["otherData"]["pid"] for document in documents]
    parents = {f"perfflow.job.{pid}.pfw" for pid in pids} - {file.name for file in traced.files()}
    assert len(documents) == 5
    assert len(parents) == 1
    names = sorted(sorted(e["name"] for e in events_of(d)) for d in documents)
    assert names == [["both"] * 4 + ["parent"] * 5] + [["both", "child"]] * 4
    for document, pid in zip(documents, pids):
        assert {e["pid"] for e in document["traceEvents"]} == {pid}
        assert all(e["ts"] >= 0 for e in events_of(document))


THREADS = """
import os, threading, warnings
from dagprofiler import trace
from dagprofiler.tracing import configure, flush
warnings.simplefilter("ignore")
configure(interval_s=0.001, limit=100)
@trace
def work(): pass
stop = False
def spin():
    while not stop:
        work()
threads = [threading.Thread(target=spin) for _ in range(4)]
for thread in threads:
    thread.start()
pids = []
for i in range(40):
    pids.append(os.fork())
    if not pids[-1]:
        for _ in range(3):
            work()
        flush()
        os._exit(0)
for pid in pids:
    assert os.waitpid(pid, 0)[1] == 0
stop = True
for thread in threads:
    thread.join()
"""


@pytest.mark.slow
@needs_fork
def test_no_child_hangs_that_is_forked_while_threads_trace(traced):
    traced.run(THREADS)
    *children, parent = sorted(len(events_of(read(file))) for file in traced.files())
    assert children == [3] * 40
    assert parent > 100


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
def test_a_full_disk_costs_the_program_nothing_and_is_said_once(traced, caplog):
    configure(filename="/dev/full")
    for _ in range(3):
        for _ in range(10):
            assert noop() is None
        assert flush() is None
    (complaint,) = caplog.messages
    assert "/dev/full" in complaint
    assert "No space left on device" in complaint
    configure(filename="good.pfw")
    noop()
    assert traced.names() == ["noop"]


@posix
def test_a_disk_that_fills_up_keeps_what_was_written_whole(traced):
    program = """
import logging, resource, signal
from dagprofiler import span
from dagprofiler.tracing import flush
logging.disable()
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
for i in range(50):
    for j in range(10):
        with span(f'span {i} {j}'): pass
    flush()
"""
    traced.run(program)
    document = read(traced.files()[0])
    ending, count = document["dagprofiler"], len(events_of(document))
    assert ending["closed"]
    assert 50 < count < 500
    assert count + ending["lost"] == 500
    assert "OSError" in ending["why"]


def test_a_directory_is_made_and_one_that_cannot_be_costs_the_program_nothing(traced, caplog):
    configure(directory=traced.folder / "a" / "b")
    noop()
    file = Path(flush())
    assert file.parent == traced.folder / "a" / "b"
    configure(directory=file / "below")
    assert noop() is flush() is None
    assert len(caplog.messages) == 1


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="removes a directory that is in use")
def test_a_working_directory_that_is_gone_costs_the_program_nothing(traced):
    program = (
        "import logging, os\n"
        "from dagprofiler import span\n"
        "logging.disable()\n"
        "os.mkdir('a'), os.chdir('a'), os.rmdir('../a')\n"
        "with span('b'): print('done')\n"
    )
    assert traced.run(program) == "done\n"


def test_more_than_the_limit_is_written_before_it_grows(traced):
    configure(limit=100, interval_s=1000)
    for _ in range(1050):
        noop()
        assert len(recorder._threads[0].buffer) <= 3 * 101
    before = [e["name"] for e in events_of(read(recorder.path))]
    assert 950 <= before.count("noop") <= 1050
    # Time that writing took is not the program's, and can be seen.
    assert before.count("dagprofiler: write") >= 9
    assert traced.names().count("noop") == 1050


def test_an_event_takes_no_more_than_80_bytes(traced):
    configure(limit=10**6, interval_s=1000)
    noop()
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(100_000):
        noop()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    # The list has some room to spare, and threads of the test runner allocate, too.
    assert grown / 100_000 <= 80


def test_buffers_of_threads_that_are_over_are_dropped_and_none_of_ours_is_started(traced):
    before = {*threading.enumerate()}
    for _ in range(20):
        thread = threading.Thread(target=noop)
        thread.start()
        thread.join()
    assert len(traced.events()) == 20
    flush()
    assert len(recorder._threads) < 5
    # Threads of earlier tests may still be ending.
    assert before.issuperset(threading.enumerate())


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no such signals")
def test_signals_that_trace_in_the_midst_of_writing_do_no_harm(traced):
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
        for _ in range(300):
            for _ in range(20):
                noop()
            flush()
    finally:
        goes_on.clear()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(traced.events()) == 6000 + len(seen)


INTERRUPTED = """
import signal
from dagprofiler import trace
from dagprofiler.tracing import configure, flush
class Interrupt(BaseException):
    pass
def handler(*_):
    raise Interrupt
@trace
def noop():
    pass
configure(limit=20, interval_s=1000, filename="trace.pfw")
# What Python imports at the first write is no concern of this.
noop()
flush()
interrupts = 0
signal.signal(signal.SIGALRM, handler)
for i in range(300):
    try:
        signal.setitimer(signal.ITIMER_REAL, 1e-6 * (i + 1))
        for _ in range(100):
            noop()
        flush()
        signal.setitimer(signal.ITIMER_REAL, 0)
    except Interrupt:
        interrupts += 1
signal.signal(signal.SIGALRM, signal.SIG_IGN)
noop()
assert interrupts
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no such signals")
@pytest.mark.skipif(sys.version_info < (3, 11), reason="`with` may then leave a lock taken itself")
def test_interrupts_in_the_midst_of_writing_leave_a_whole_file(traced):
    # In a program of its own: what measures coverage here would lose locks of its own.
    traced.run(INTERRUPTED)
    (path,) = traced.files()
    names = {event["name"] for event in events_of(read(path))}
    # What a write takes is recorded, too.
    assert names - {"dagprofiler: write"} == {"noop"}


def test_threads_lose_no_span_while_others_write(traced):
    configure(limit=50, interval_s=0.001)
    with ThreadPoolExecutor(6) as pool:
        for _ in range(6):
            pool.submit(lambda: [noop() for _ in range(2000)])
        for _ in range(20):
            flush()
    assert traced.names().count("noop") == 12_000


def test_options_can_change_as_it_goes(traced):
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


@pytest.mark.slow
def test_a_program_continues_the_trace_of_one_that_has_ended(traced):
    program = "from dagprofiler import span\nwith span('a'): pass\n"
    for _ in range(3):
        traced.run(program, options="log-filename-include=")
    (file,) = traced.files()
    assert file.name == "perfflow.pfw"
    events = events_of(read(file))
    assert [event["name"] for event in events] == ["a"] * 3
    assert len({event["pid"] for event in events}) == 3
    assert [event["ts"] for event in events] == sorted(event["ts"] for event in events)


@posix
def test_a_program_whose_file_another_one_writes_takes_a_name_of_its_own(traced):
    program = "from dagprofiler import span\nwith span('inner'): pass\n"
    configure(filename="perfflow.pfw")
    noop()
    ours = Path(flush())
    command = [sys.executable, "-c", program]
    env = {**os.environ, "PERFFLOW_OPTIONS": "log-filename-include="}
    how = {"cwd": ours.parent, "env": env, "capture_output": True, "text": True}
    done = subprocess.run(command, check=True, **how)
    (theirs,) = ours.parent.glob("perfflow.*.pfw")
    assert str(theirs) in done.stderr
    assert "written by another process" in done.stderr
    names = [[event["name"] for event in events_of(read(file))] for file in (ours, theirs)]
    assert names == [["noop"], ["inner"]]
