"""What all tests of journals share."""

import pytest
from journal_tasks import ran

from dagprofiler import Journal


@pytest.fixture(autouse=True)
def _nothing_ran():
    ran.clear()


@pytest.fixture
def journal(tmp_path, request):
    """The directory of a journal of the module's program that is complete."""
    request.module.program().run(**request.module.ASKED, hooks=[Journal(tmp_path / "journal")])
    ran.clear()
    return tmp_path / "journal"
