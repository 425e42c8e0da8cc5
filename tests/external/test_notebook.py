"""The notebook of the examples, executed in a real kernel as a user's would be."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
from platforms import found

pytestmark = pytest.mark.external

NOTEBOOK = Path(__file__).resolve().parent.parent.parent / "docs" / "examples" / "notebook.ipynb"


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """The cells of the notebook with their outputs, and the folder that it ran in."""
    for package in ("nbclient", "ipykernel", "matplotlib"):
        found(f"the package {package}", find_spec(package))
    import nbformat
    from nbclient import NotebookClient

    folder = tmp_path_factory.mktemp("notebook")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(folder)}})
    return client.execute().cells, folder


def shown(cells, source):
    """What the cell whose code begins, or ends, like this has shown, by kind."""
    (cell,) = [c for c in cells if c.source.startswith(source) or c.source.endswith(source)]
    return {kind: text for output in cell.outputs for kind, text in output.data.items()}


def test_objects_show_themselves_as_html_text_and_pictures(executed):
    cells, folder = executed
    outputs = [output for cell in cells for output in cell.get("outputs", ())]
    # Neither a warning nor an error.
    assert {output.output_type for output in outputs} == {"execute_result", "display_data"}
    expected = {"\ndag": "4 tasks, 4 edges", "\nprofile": "critical path"}
    expected.update({"compare_runs": "verdict", "analyze": "average parallelism"})
    for source, words in expected.items():
        data = shown(cells, source)
        assert words in data["text/html"]
        assert data["text/plain"]
        assert len(data["text/html"]) < 30_000
    for source in ("ax = plot.gantt", "ax = plot.samples"):
        assert "image/png" in shown(cells, source)
    assert {"profile.json", "dag.svg", "report.html"} <= {file.name for file in folder.iterdir()}
    assert (folder / "dag.svg").read_text(encoding="utf-8").startswith("<svg")


def test_the_notebook_is_kept_without_outputs():
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert all(not cell.get("outputs") for cell in cells)
