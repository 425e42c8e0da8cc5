"""SAGA loads and schedules what is exported for it.

DAGPROFILER_SAGA_PYTHON
    An interpreter, 3.12 or newer, with ``anrg-saga``, numpy and jsonschema.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from outside import found

pytestmark = pytest.mark.external

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def test_saga_schedules_the_examples_and_agrees_with_hand_calculations(tmp_path):
    python = found("DAGPROFILER_SAGA_PYTHON", os.environ.get("DAGPROFILER_SAGA_PYTHON"))
    # Its environment has its own libraries, but the dagprofiler under test.
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        [python, str(HERE / "check_saga.py"), str(tmp_path)],
        env=environment,
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_page_on_saga_runs_and_prints_what_it_says(tmp_path):
    python = found("DAGPROFILER_SAGA_PYTHON", os.environ.get("DAGPROFILER_SAGA_PYTHON"))
    page = ROOT / "docs" / "saga.md"
    done = subprocess.run(
        [python, str(HERE.parent / "check_page.py"), str(page)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'docs' / 'examples'}"},
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
