"""What all tests of journals share: sources are read once, and no disk is waited for."""

import functools
import inspect
import os

import pytest
from journal_tasks import ran

from dagprofiler import Journal
from dagprofiler.journal import _records


@pytest.fixture(autouse=True, scope="module")
def _sources_read_once():
    """Before Python 3.13 the source of a class is found by parsing its whole file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inspect, "getsource", functools.cache(inspect.getsource))
        yield


@pytest.fixture(autouse=True)
def _nothing_ran():
    ran.clear()


@pytest.fixture
def journal(tmp_path, request):
    """The directory of a journal of the module's program that is complete."""
    request.module.program().run(**request.module.ASKED, hooks=[Journal(tmp_path / "journal")])
    ran.clear()
    return tmp_path / "journal"


@pytest.fixture(autouse=True)
def _disk_that_is_not_waited_for(monkeypatch):
    """Only a loss of power would tell the difference."""
    monkeypatch.setattr(_records, "_sync", lambda _: None)
    monkeypatch.setattr(os, "fsync", lambda _: None)
