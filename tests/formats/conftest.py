import pytest


@pytest.fixture(name="networkx")
def networkx_itself():
    return pytest.importorskip("networkx")
