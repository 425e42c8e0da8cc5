"""Tests of Dask are looked at only where they are to run."""

from __future__ import annotations


def pytest_ignore_collect(collection_path, config):
    # With Dask comes tblib, which changes how all errors pickle, and so other tests.
    if collection_path.name == "test_dask.py" and "not external" in config.option.markexpr:
        return True
    return None
