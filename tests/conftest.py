"""What holds for all tests: signals, a folder for what they leave, how many examples are tried.

HYPOTHESIS_PROFILE
    ``ci`` tries more examples than ``dev``, the default. ``--hypothesis-profile`` goes first.
"""

import gc
import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from dagprofiler._util.interpreter import asked_for

#: The folder that holds the package.
ROOT = Path(__file__).resolve().parent.parent

# At import, before workers of pytest-xdist start: what ignores SIGINT is inherited, and Python
# then sets no handler. `nohup`, jobs in the background and some CI ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# No deadlines, nor complaints of slow data: on a busy machine they are false alarms. No files
# either, as the checkout may be read-only: a failure prints how to repeat it.
common = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow],
    "database": None,
    "print_blob": True,
}
settings.register_profile("dev", max_examples=10, **common)
settings.register_profile("ci", max_examples=75, **common)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


def pytest_addoption(parser, pluginmanager):
    """Accept the options of pytest-xdist that pyproject.toml gives, also with -p no:xdist."""
    if not pluginmanager.hasplugin("xdist"):
        options = parser.getgroup("without xdist")
        for name in ("-n", "--dist"):
            options._addoption(name)


@pytest.fixture(scope="session", autouse=True)
def _left_behind(tmp_path_factory):
    """Run in a folder apart from the checkout, for good: some files are written at exit."""
    os.chdir(tmp_path_factory.mktemp("left_behind"))


@pytest.fixture(scope="session", autouse=True)
def _frozen():
    """Keep the tests themselves out of the garbage collections that come before each round."""
    if hasattr(gc, "freeze"):  # PyPy has none
        gc.collect()
        gc.freeze()


@pytest.fixture
def thawed():
    """Leave nothing frozen, whatever the test does; the count of what Python itself freezes."""
    gc.unfreeze()
    gc.collect()
    yield gc.get_freeze_count()
    gc.unfreeze()
    gc.freeze()


@pytest.fixture
def start(request, tmp_path):
    """Return a function that starts a program in a group of its own, which ends with the test.

    It runs in `tmp_path`, and finds the package and the modules beside the test.
    """
    running, here = [], Path(request.path).parent

    def start(text, *arguments, command=(sys.executable,), **environment):
        path = tmp_path / "program.py"
        path.write_text(text, encoding="utf-8")
        env = {**os.environ, "PYTHONPATH": f"{here}{os.pathsep}{ROOT}", **environment}
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        how = {"env": env, "cwd": tmp_path, "start_new_session": True, "text": True}
        process = subprocess.Popen([*command, str(path), *arguments], **how, **pipes)
        running.append(process)
        return process

    yield start
    for process in running:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.fixture(autouse=True)
def _uncalibrated():
    """Forget that a test called `calibrate()`, which all later runs of the process would report."""
    yield
    asked_for.clear()


def pytest_ignore_collect(collection_path, config):
    """Look at tests that import an engine only where they are to run: not all have it."""
    # With Dask comes tblib, which changes how all errors pickle, and so other tests.
    engine = collection_path.name in {
        "test_dask.py", "test_ray.py", "test_dask_graphs.py", "test_hamilton_graphs.py"
    }  # fmt: skip
    return True if engine and "not external" in config.option.markexpr else None


def pytest_terminal_summary(terminalreporter):
    """Name the ten files that took longest: the tests of one are to take under 5 s."""
    seconds = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[report.nodeid.partition("::")[0]] += report.duration
    if len(seconds) > 10:
        terminalreporter.section("slowest ten files")
        for file, took in seconds.most_common(10):
            terminalreporter.line(f"{took:6.2f}s {file}")


@pytest.fixture(scope="module")
def quick():
    """Let engines be calibrated in a second, which is not exact."""
    from dagprofiler.experiments import calibration
    from dagprofiler.predict import Engine

    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"_RUNS": 1, "_CHAIN": 5, "_LONG_S": 0.02, "_TURNS": 2}.items():
            patch.setattr(calibration, name, value)
        patch.setattr(Engine, "RUNS", 1)
        yield
