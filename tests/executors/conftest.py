"""How many tasks share a job."""

from math import inf

import pytest

from dagprofiler.executors.dispatch import BATCH_S, Durations


@pytest.fixture
def batches_of(monkeypatch):
    """Return a function that lets so many tasks share a job, whatever they take."""

    def batches(count):
        expected_s = BATCH_S / count if count > 1 else inf
        monkeypatch.setattr(Durations, "expected_s", lambda *_: expected_s)

    return batches
