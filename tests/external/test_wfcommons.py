"""wfcommons reads what is exported as WfFormat 1.5 and 1.6, SAGA what is exported as 1.4.

DAGPROFILER_WFCOMMONS_PYTHON
    An interpreter, 3.12 or newer, with ``wfcommons`` and ``anrg-saga``.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest
from platforms import found

from dagprofiler import DAG, Config, task
from dagprofiler.formats import import_profile
from dagprofiler.formats.wfformat import identifiers

pytestmark = pytest.mark.external

HERE = Path(__file__).resolve().parent
DATA = HERE.parent / "data"
NAMES = ["load data", "load_data", "Grüße <&> $x", "it's", "a/b"]


@pytest.fixture
def read(tmp_path):
    name = "DAGPROFILER_WFCOMMONS_PYTHON"
    python = found(name, os.environ.get(name))

    def read_all(profile):
        files = [tmp_path / f"{version}.json" for version in ("1.4", "1.5", "1.6")]
        for path in files:
            profile.export(path, "wfformat", version=path.stem)
        command = [python, HERE / "check_wfcommons.py", DATA / "wfformat" / "schema-1.5.json"]
        return json.loads(subprocess.check_output([*command, *files], cwd=tmp_path))

    return read_all


def agrees(profile, seen):
    """Tell whether programs found the graph, the sizes and the times of a profile."""
    names = profile.dag_structure["nodes"]
    times = profile.weights("time").values
    kept = profile.sections.get("imported", {}).get("document")
    ids = identifiers(names)
    if kept is not None:
        tasks = kept["workflow"]["specification"]["tasks"]
        ids = dict(zip(names, [task["id"] for task in tasks]))
    for version, read in seen.items():
        # SAGA takes neither a time nor a size of 0.
        least = 1e-9 if version == "1.4.json" else 0
        expected = {ids[name]: max(least, times[name] / 1e3) for name in names}
        assert read["nodes"] == pytest.approx(expected)
        sizes = {
            (ids[edge.source], ids[edge.target]): max(least, edge.size_bytes)
            for edge in profile.metrics.edge_metrics
        }
        assert {(a, b): size for a, b, size in read["edges"]} == sizes
        assert read["warnings"] == []
    return True


def test_a_measured_profile_is_read_by_wfcommons_and_saga(read):
    first = task(inputs=[], outputs=["x"])(lambda cfg: {"x": list(range(cfg.n))})
    more = task(inputs=["x"], outputs=["x"])(lambda x: {"x": x * 2})
    tasks = {name: more if i else first for i, name in enumerate(NAMES)}
    profile = DAG(tasks, list(zip(NAMES, NAMES[1:])), Config(n=100)).run(meters="full")
    seen = read(profile)
    assert agrees(profile, seen)
    assert {*map(tuple, seen["1.6.json"]["machines"].values())} == {(profile.hostname,)}


@pytest.mark.parametrize(
    "name",
    [
        *("wfformat/v14", "wfformat/v15", "wfinstances/srasearch-chameleon-10a-001"),
        *("wfinstances/methylseq-dirt02-001", "wfinstances/montage-chameleon-2mass-005d-001"),
        "wfinstances/bwa-chameleon-small-001",
    ],
)
def test_an_imported_instance_is_read_again(read, name):
    profile = import_profile(DATA / f"{name}.json")
    assert agrees(profile, read(profile))
