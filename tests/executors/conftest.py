"""Tests of Dask and of Ray are looked at only where they are to run."""

from __future__ import annotations

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


def pytest_ignore_collect(collection_path, config):
    # With Dask comes tblib, which changes how all errors pickle, and so other tests.
    engine = collection_path.name in {"test_dask.py", "test_ray.py"}
    return True if engine and "not external" in config.option.markexpr else None
