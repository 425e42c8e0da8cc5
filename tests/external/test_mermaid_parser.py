"""Mermaid's own parser takes what is exported, and shows of each name what it is."""

import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from sample_profiles import HOSTILE, golden_profile, names, profile_of, rendered

pytestmark = pytest.mark.external

SCRIPT = Path(__file__).resolve().parent / "mermaid_labels.mjs"


@pytest.fixture
def parsed(node, node_modules, tmp_path):
    def parse(texts):
        files = [tmp_path / f"{i}.mmd" for i in range(len(texts))]
        for file, text in zip(files, texts):
            file.write_bytes(text.encode())
        printed = subprocess.check_output([node, SCRIPT, node_modules, *files])
        return [json.loads(line) for line in printed.splitlines()]

    return parse


def labels(tasks):
    return {f"t{i}": [name, "1 instructions"] for i, name in enumerate(tasks)}


def test_the_golden_profile_is_understood(parsed):
    found, empty = parsed([rendered("mermaid", p) for p in (golden_profile(), profile_of([]))])
    assert empty == {"vertices": {}, "edges": [], "classes": {}}
    assert found["vertices"] == {
        "t0": ["load", "5.625 ms"],
        "t1": ['the "join" <&>', "1,234 ms"],
        "t2": ["=sum", "-", "failed"],
        "t3": ["report", "-", "skipped"],
    }
    edges = ["t0 t1 800 kB", "t0 t2 80 B", "t1 t2 0 B", "t2 t3 -"]
    assert [" ".join(edge) for edge in found["edges"]] == edges
    assert found["classes"] == {"t0": ["c0"], "t1": ["c4"], "t2": ["c5"], "t3": ["c5"]}


def test_hostile_names_are_shown_as_they_are(parsed):
    # Alone and together: what follows a name must not change what it means.
    some = [*([name] for name in HOSTILE), HOSTILE]
    texts = [rendered("mermaid", profile_of(tasks, dict.fromkeys(tasks, 1))) for tasks in some]
    assert [found.get("vertices", found) for found in parsed(texts)] == list(map(labels, some))


@settings(max_examples=1, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(some=names(min_size=200, max_size=400))
def test_any_names_are_shown_as_they_are(parsed, some):
    texts = [rendered("mermaid", profile_of([name], {name: 1})) for name in some]
    found = parsed(texts)
    assert [one.get("vertices", one) for one in found] == [labels([name]) for name in some]


def test_500_edges_are_drawn_and_501_are_not(parsed):
    tasks = [f"t{i}" for i in range(502)]
    drawn, refused = parsed([rendered("mermaid", profile_of(of)) for of in (tasks[:-1], tasks)])
    assert len(drawn["edges"]) == 500
    assert "limit" in refused["error"]
