"""Old and new versions of networkx read what is exported, without any argument."""

import json
import subprocess

import pytest
from sample_profiles import HOSTILE, golden_profile, profile_of, rendered

pytestmark = pytest.mark.external

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
