"""The clock of the tests of the engine."""

import sys

import pytest
from steps import Clock

# They read a clock, and a program loads them late.
import dagprofiler.engine.progress
import dagprofiler.engine.run
import dagprofiler.measure.instruments
import dagprofiler.measure.meters  # noqa: F401


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    for name, module in list(sys.modules.items()):
        if name.startswith("dagprofiler.") and hasattr(module, "perf_counter"):
            monkeypatch.setattr(module, "perf_counter", made)
    return made
