"""What is not there: a test that needs it is skipped, or fails where it must not be."""

from __future__ import annotations

import os

import pytest


def found(what, where):
    """Return where something is; without it the test is skipped, or fails if it must not be."""
    if where:
        return where
    missing = pytest.fail if os.environ.get("DAGPROFILER_EXTERNAL") == "required" else pytest.skip
    return missing(f"{what} is not there")
