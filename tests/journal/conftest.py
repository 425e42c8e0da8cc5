"""What all tests of journals share: sources are read once."""

import functools
import inspect

import pytest
from journal_tasks import ran

from dagprofiler import Journal


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
