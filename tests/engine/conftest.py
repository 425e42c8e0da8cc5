"""The clock of the tests of the engine."""

import sys

import pytest
from steps import Clock

import dagprofiler.measure.instruments
import dagprofiler.measure.meters  # noqa: F401  (it reads a clock)


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    for name, module in list(sys.modules.items()):
        if name.startswith("dagprofiler.") and hasattr(module, "perf_counter"):
            monkeypatch.setattr(module, "perf_counter", made)
    return made
