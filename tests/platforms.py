"""Marks for tests that need what not every system has; each says why."""

import os

import pytest

posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX: signals, pipes, limits")
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
