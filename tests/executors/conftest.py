"""How many tasks share a job, programs in processes of their own, and what has to be there."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from math import inf

import pytest
from programs import PYTHONPATH

from dagprofiler.executors.dispatch import BATCH_S, Durations


@pytest.fixture
def batches_of(monkeypatch):
    """Return a function that lets so many tasks share a job, whatever they take."""

    def batches(count):
        expected_s = BATCH_S / count if count > 1 else inf
        monkeypatch.setattr(Durations, "expected_s", lambda *_: expected_s)

    return batches


@pytest.fixture
def impatient(monkeypatch):
    """Do not wait long before an executor is asked whether it still works."""
    monkeypatch.setattr("dagprofiler.executors.dispatch._PATIENCE_S", 0.001)


@pytest.fixture
def start(tmp_path):
    """Return a function that starts a program in a group of its own, which ends with the test."""
    running = []

    def start(text, *arguments, command=(sys.executable,), **environment):
        path = tmp_path / "program.py"
        path.write_text(text)
        process = subprocess.Popen(
            [*command, str(path), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": PYTHONPATH, **environment},
        )
        running.append(process)
        return process

    yield start
    for process in running:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
