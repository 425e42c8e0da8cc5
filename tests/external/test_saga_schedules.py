"""SAGA loads and schedules what is exported for it.

DAGPROFILER_SAGA_PYTHON
    An interpreter, 3.12 or newer, with ``anrg-saga``, numpy and jsonschema.
"""

import os
import subprocess
from pathlib import Path

import pytest
from platforms import found

pytestmark = pytest.mark.external

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent


@pytest.fixture
def passes(tmp_path):
    """Return a function that runs a program in SAGA's environment; it has to succeed."""
    python = found("DAGPROFILER_SAGA_PYTHON", os.environ.get("DAGPROFILER_SAGA_PYTHON"))
    # Its environment has its own libraries, but the dagprofiler under test.
    path = os.pathsep.join(map(str, [ROOT, ROOT / "docs" / "examples", ROOT / "tests"]))
    env = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0"}

    def run(*words):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        done = subprocess.run([python, *words], cwd=tmp_path, env=env, check=False, **pipes)
        assert done.returncode == 0, done.stdout

    return run


def test_saga_schedules_the_examples_as_calculated_by_hand(passes):
    passes(HERE / "check_saga.py", ".")


def test_the_page_on_saga_runs_and_prints_what_it_says(passes):
    passes(HERE.parent / "check_page.py", ROOT / "docs" / "saga.md")
