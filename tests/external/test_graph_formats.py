"""Graphviz, Mermaid's own parser, and old and new networkx read what is exported for them."""

import json
import re
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from sample_profiles import HOSTILE, golden_profile, names, profile_of, rendered

pytestmark = pytest.mark.external

SVG = "{http://www.w3.org/2000/svg}"


#: What a label holds escaped.
ESCAPE = re.compile(r"\\([\\n\"])|&amp;")


def unescaped(found):
    return {"n": "\n", None: "&"}.get(found[1], found[1])


def drawn(dot, text, form):
    done = subprocess.run([dot, f"-T{form}"], input=text.encode(), capture_output=True, check=True)
    assert not done.stderr, done.stderr
    return done.stdout.decode()


def lines_of(group):
    return [text.text or "" for text in group.iter(f"{SVG}text")]


def expected_lines(name):
    return [*name.replace("\t", " ").replace("\r", "\n").split("\n"), "1 instructions"]


def shown(lines):
    """What is left of lines in a picture: blanks at most single, lines at least a mark."""
    return [line for line in (" ".join(one.split()) for one in lines) if line]


def test_the_golden_profile_is_drawn(dot):
    svg = ET.fromstring(drawn(dot, rendered("dot", golden_profile()), "svg"))
    groups = {g.get("class"): [] for g in svg.iter(f"{SVG}g")}
    for group in svg.iter(f"{SVG}g"):
        groups[group.get("class")].append(lines_of(group))
    assert ["=sum", "-", "failed"] in groups["node"]
    assert ['the "join" <&>', "1,234 ms"] in groups["node"]
    assert sorted(groups["edge"]) == [["-"], ["0 B"], ["80 B"], ["800 kB"]]


@settings(
    max_examples=settings.default.max_examples // 4,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(tasks=names(max_size=8))
@example(tasks=HOSTILE)
def test_any_names_are_drawn_as_they_are(dot, tasks):
    text = rendered("dot", profile_of(tasks, dict.fromkeys(tasks, 1)))
    graph = json.loads(drawn(dot, text, "dot_json"), strict=False)
    nodes = graph.get("objects", ())
    assert [node["name"] for node in nodes] == [f"t{i}" for i in range(len(tasks))]
    labels = [ESCAPE.sub(unescaped, node["label"]) for node in nodes]
    assert labels == ["\n".join(expected_lines(name)) for name in tasks]
    assert [(e["tail"], e["head"]) for e in graph.get("edges", ())] == [
        (i, i + 1) for i in range(len(tasks) - 1)
    ]
    svg = ET.fromstring(drawn(dot, text, "svg"))
    groups = [g for g in svg.iter(f"{SVG}g") if g.get("class") == "node"]
    found = [shown(lines_of(group)) for group in groups]
    assert sorted(found) == sorted(shown(expected_lines(name)) for name in tasks)


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


PROGRAM = """
import json, sys, networkx
with open(sys.argv[1], encoding="utf-8") as file:
    graph = networkx.node_link_graph(json.load(file))
xml = networkx.read_graphml(sys.argv[2])
print(json.dumps({
    "version": networkx.__version__,
    "json": [list(graph.nodes(data=True)), list(graph.edges(data=True)), graph.graph],
    "xml": [list(xml.nodes(data=True)), list(xml.edges(data=True))],
    "directed": [graph.is_directed(), xml.is_directed()],
}))
"""


@pytest.fixture
def read(networkx_pythons, tmp_path):
    def read_all(profile):
        files = tmp_path / "graph.json", tmp_path / "graph.graphml"
        profile.export(files[0], "node_link")
        profile.export(files[1], "graphml")
        for python in networkx_pythons:
            yield json.loads(subprocess.check_output([python, "-c", PROGRAM, *files]))

    return read_all


def test_every_version_reads_the_graph_with_its_attributes(read):
    written = json.loads(rendered("node_link", golden_profile()))
    nodes = [[node.pop("id"), node] for node in written["nodes"]]
    edges = [[edge.pop("source"), edge.pop("target"), edge] for edge in written["edges"]]
    for found in read(golden_profile()):
        assert found["directed"] == [True, True], found["version"]
        assert found["json"] == [nodes, edges, written["graph"]], found["version"]
        for _, _, values in found["xml"][1]:
            if "data_fields" in values:
                values["data_fields"] = json.loads(values["data_fields"])
        assert found["xml"] == [nodes, edges], found["version"]


def test_every_version_reads_hostile_names(read):
    for found in read(profile_of(HOSTILE)):
        assert [name for name, _ in found["json"][0]] == HOSTILE, found["version"]
        assert [name for name, _ in found["xml"][0]] == HOSTILE, found["version"]
