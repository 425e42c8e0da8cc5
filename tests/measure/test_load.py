import os
import signal
import sys
import threading

import pytest
from platforms import needs_two_cores
from processes import alive_in, children, until

from dagprofiler import DagProfilerError, ValidationError
from dagprofiler.measure import busy as load
from dagprofiler.measure.busy import busy


@needs_two_cores
def test_every_thread_gets_its_cores_back():
    cores, end = os.sched_getaffinity(0), threading.Event()
    old, new = (threading.Thread(target=end.wait) for _ in range(2))
    old.start()
    try:
        with busy(1):
            new.start()
            for thread in (0, old.native_id, new.native_id):
                assert os.sched_getaffinity(thread) < cores
        for thread in (0, old.native_id, new.native_id):
            assert os.sched_getaffinity(thread) == cores
    finally:
        end.set()
        old.join()
        new.join()


PROGRAM = """
import os, sys, time
from platforms import needs_two_cores
from processes import alive_in
from dagprofiler.measure.busy import busy
with busy(1):
    try:
        print("busy", flush=True)
        time.sleep(60)
    except KeyboardInterrupt:
        sys.stdin.read()
        print(len(alive_in(os.getpgrp())), flush=True)
        raise
"""


@needs_two_cores
@pytest.mark.parametrize(
    ("end", "sign", "says"), [("kill", "SIGKILL", ""), ("killpg", "SIGINT", "2\n")]
)
def test_burners_end_with_their_program_and_not_before(start, end, sign, says):
    process = start(PROGRAM, PYTHONPATH=os.pathsep.join(sys.path))
    assert process.stdout.readline() == "busy\n"
    assert len(alive_in(process.pid)) == 2
    getattr(os, end)(process.pid, getattr(signal, sign))
    told, complaint = process.communicate()
    assert told == says
    assert complaint.count("Traceback") == bool(says)
    until(lambda: not alive_in(process.pid))


def test_more_cores_than_can_be_spared_are_refused(monkeypatch):
    monkeypatch.setattr(load, "usable_cores", lambda: [0, 1])
    with pytest.raises(ValidationError, match=r"=2: .* use 2 cores, and one must"), busy(2):
        pytest.fail("the body must not run")


@needs_two_cores
def test_a_core_that_cannot_be_had_is_an_error(monkeypatch):
    own, others = os.sched_getaffinity(0), children()
    monkeypatch.setattr(load, "usable_cores", lambda: [min(own), 100_000])
    with pytest.raises(DagProfilerError, match="core 100000 cannot"), busy(1):
        pytest.fail("the body must not run")
    assert others.issuperset(children())
    assert os.sched_getaffinity(0) == own
