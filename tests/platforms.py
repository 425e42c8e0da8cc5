"""What tests need and not every system has: without it they are skipped, and say why."""

import os

import pytest

posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX: signals, pipes, limits")
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
needs_two_cores = pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="there is no core to keep busy beside this one",
)
#: Of tests of another engine, which leaves its sockets to the collector of garbage.
of_engine = [
    pytest.mark.external,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def found(what, where):
    """Return where something is; without it the test is skipped, or fails if it must not be."""
    if where:
        return where
    missing = pytest.fail if os.environ.get("DAGPROFILER_EXTERNAL") == "required" else pytest.skip
    return missing(f"{what} is not there")
