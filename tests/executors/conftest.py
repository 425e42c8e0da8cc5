"""Tests of Dask and of Ray are looked at only where they are to run."""

from __future__ import annotations


def pytest_ignore_collect(collection_path, config):
    # With Dask comes tblib, which changes how all errors pickle, and so other tests.
    engine = collection_path.name in {"test_dask.py", "test_ray.py"}
    return True if engine and "not external" in config.option.markexpr else None
