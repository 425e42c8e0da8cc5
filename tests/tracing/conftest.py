"""A trace of its own for each test; and, on demand, all traces for other programs to read.

DAGPROFILER_KEEP_TRACES
    A folder into which the traces of all tests are copied.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
from trace_files import ROOT, events_of, read

from dagprofiler.tracing import Options, configure, flush
from dagprofiler.tracing._recorder import recorder


class Trace:
    """The trace of this process, and those of programs that run in the folder."""

    def __init__(self, folder):
        self.folder = folder

    def events(self, ph=None):
        """What was recorded in this process, in the order of the file."""
        path = flush()
        events = [] if path is None else events_of(read(path))
        return [event for event in events if ph is None or event["ph"] == ph]

    def names(self, ph=None):
        return [event["name"] for event in self.events(ph)]

    def files(self):
        return sorted(self.folder.rglob("*.pfw"))

    def run(self, code, *arguments, options="", check=True):
        """Run a program in the folder; return what it printed."""
        program = self.folder / "program.py"
        program.write_text(code, encoding="utf-8")
        env = {**os.environ, "PYTHONPATH": str(ROOT), "PERFFLOW_OPTIONS": options}
        command = [sys.executable, *arguments, str(program)]
        how = {"capture_output": True, "text": True, "timeout": 300}
        done = subprocess.run(command, check=False, cwd=self.folder, env=env, **how)
        assert not check or done.returncode == 0, done.stderr
        assert not check or not done.stderr, done.stderr
        return done.stdout


@pytest.fixture
def traced(tmp_path, request):
    before, folder = recorder.options, tmp_path / "traces"
    folder.mkdir()
    configure(**{**asdict(Options()), "directory": folder})
    yield Trace(folder)
    flush()
    configure(**{**asdict(Options()), "directory": folder / "over"})
    configure(**asdict(before))
    keep = os.environ.get("DAGPROFILER_KEEP_TRACES")
    for i, file in enumerate(sorted(folder.rglob("*.pfw")) if keep else ()):
        shutil.copy(file, Path(keep) / f"{request.node.name[:100].replace('/', '_')}-{i}.pfw")
