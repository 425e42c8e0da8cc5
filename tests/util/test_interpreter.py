"""What of its process a run depends on: modules that another thread imports."""

import asyncio.events
import sys
import threading
from types import ModuleType

import pytest

from dagprofiler import serializers
from dagprofiler._util import json
from dagprofiler._util.interpreter import imported, recording
from dagprofiler.config import same_value
from dagprofiler.engine.log import environment
from dagprofiler.tracing import _perfflow, async_event, span
from dagprofiler.tracing._state import in_event_loop


@pytest.fixture
def half_made(monkeypatch):
    """Put a module in place of which nothing is there yet, as while a thread imports it."""

    def put(name):
        module = ModuleType(name)
        module.__spec__ = type("Spec", (), {"_initializing": True})()
        monkeypatch.setitem(sys.modules, name, module)

    return put


def test_a_module_counts_as_imported_once_all_of_it_is_there(half_made, monkeypatch):
    assert imported("asyncio.events") is asyncio.events
    assert imported("no_such_module") is None
    half_made("asyncio.events")
    assert imported("asyncio.events") is None
    without_spec = ModuleType("made_by_hand")
    del without_spec.__spec__
    monkeypatch.setitem(sys.modules, "made_by_hand", without_spec)
    assert imported("made_by_hand") is without_spec


def test_a_module_is_seen_half_made_by_other_threads_alone_while_it_is_imported(
    tmp_path, monkeypatch
):
    (tmp_path / "slow_to_import.py").write_text(
        "import sys\nbegun, go_on = sys.signals_of_the_test\nbegun.set()\ngo_on.wait(60)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    signals = threading.Event(), threading.Event()
    monkeypatch.setattr(sys, "signals_of_the_test", signals, raising=False)
    thread = threading.Thread(target=__import__, args=("slow_to_import",))
    thread.start()
    assert signals[0].wait(60)
    assert "slow_to_import" in sys.modules
    assert imported("slow_to_import") is None
    signals[1].set()
    thread.join()
    assert imported("slow_to_import") is sys.modules.pop("slow_to_import")


def test_nothing_stumbles_over_asyncio_and_processes_that_another_thread_imports(
    half_made, monkeypatch
):
    monkeypatch.setattr(recording, "running_loop", None)
    for name in ("asyncio.events", "asyncio.tasks", "multiprocessing.process"):
        half_made(name)
    with span("meanwhile"):
        assert not in_event_loop()
    assert recording.running_loop is None
    monkeypatch.setattr(_perfflow, "in_event_loop", lambda: True)
    for pointcut in ("before", "after"):
        async_event(pointcut, "work", "category")


@pytest.mark.parametrize("name", ["numpy", "pandas", "polars"])
def test_nothing_stumbles_over_a_package_that_another_thread_imports(half_made, name):
    half_made(name)
    assert not serializers.is_array(3)
    assert serializers._table_kind(3) == ""
    assert json.jsonable({"z": 1j}) == ({"z": "1j"}, ["z"])
    assert same_value(1j, 1j)
    assert "numpy" in environment(thorough=True)["versions"]
    with pytest.raises(TypeError, match="complex has no JSON form"):
        json.plain_number(1j)
