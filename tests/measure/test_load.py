import os
import select
import signal
import subprocess
import sys
import threading

import pytest
from processes import children

from dagprofiler import DagProfilerError, ValidationError
from dagprofiler.measure import busy as load
from dagprofiler.measure.busy import busy

#: What burners are kept on and who is watched is read from Linux.
LINUX = hasattr(os, "pidfd_open") and os.path.isdir("/proc/self/task")
USABLE = len(os.sched_getaffinity(0)) if LINUX else os.cpu_count() or 1

on_linux = pytest.mark.skipif(not LINUX, reason="burners are watched through /proc and pidfd")
on_two_cores = pytest.mark.skipif(USABLE < 2, reason="one core must be left")


def ends(pid, within_s=60.0):
    """Tell whether a process that is nobody's child here ends soon."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], within_s)[0])
    finally:
        os.close(handle)


def program(body, **how):
    """Start a program that runs `body` beside one burner, and return what it says first."""
    lines = [
        "import os, signal, sys, time",
        "sys.path.insert(0, sys.argv[1])",
        "from processes import children",
        "from dagprofiler.measure.busy import busy",
        "with busy(1):",
        "    [burner] = children()",
        *("    " + line for line in body),
    ]
    command = [sys.executable, "-c", "\n".join(lines), os.path.dirname(os.path.dirname(__file__))]
    started = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **how
    )
    return started, [int(pid) for pid in started.stdout.readline().split()]


@on_linux
@on_two_cores
def test_every_thread_gets_its_cores_back():
    cores, end, ready = os.sched_getaffinity(0), threading.Event(), threading.Barrier(2)

    def wait():
        ready.wait()
        end.wait()

    old, new = threading.Thread(target=wait), threading.Thread(target=wait)
    old.start()
    ready.wait()
    try:
        with busy(1):
            new.start()
            ready.wait()
            for thread in (0, old.native_id, new.native_id):
                assert os.sched_getaffinity(thread) < cores
        for thread in (0, old.native_id, new.native_id):
            assert os.sched_getaffinity(thread) == cores
    finally:
        end.set()
        old.join()
        new.join()


@on_linux
@on_two_cores
def test_burners_end_with_the_process_even_if_it_is_killed():
    process, [burner] = program(["print(burner, flush=True)", "sys.stdin.read()"])
    process.kill()
    process.communicate()
    assert ends(burner)


@on_linux
@on_two_cores
def test_ctrl_c_ends_the_burners_with_the_body_and_not_before():
    body = [
        "try:",
        "    print(burner, flush=True)",
        "    time.sleep(60)",
        "except KeyboardInterrupt:",
        "    sys.stdin.read()",
        "    print({burner} == children(), flush=True)",
        "    raise",
    ]
    process, [burner] = program(body, start_new_session=True)
    os.killpg(process.pid, signal.SIGINT)
    told, complaint = process.communicate()
    assert told == b"True\n"
    assert complaint.count(b"Traceback") == 1
    assert ends(burner, within_s=0)


def test_more_cores_than_can_be_spared_are_refused(monkeypatch):
    monkeypatch.setattr(load, "usable_cores", lambda: [0, 1])
    with pytest.raises(ValidationError, match=r"=2: .* use 2 cores, and one must"), busy(2):
        pytest.fail("the body must not run")


@on_linux
def test_a_core_that_cannot_be_had_is_an_error(monkeypatch):
    own, others = os.sched_getaffinity(0), children()
    monkeypatch.setattr(load, "usable_cores", lambda: [min(own), 100_000])
    with pytest.raises(DagProfilerError, match=r"core .*: OSError"), busy(1):
        pytest.fail("the body must not run")
    assert others.issuperset(children())
    assert os.sched_getaffinity(0) == own
