import io
import json
import xml.etree.ElementTree as ET

from hypothesis import given
from sample_profiles import HOSTILE, golden_profile, names, profile_of, rendered

from dagprofiler import Profile
from dagprofiler.formats._graph import legible_names
from dagprofiler.formats.node_link import to_networkx

NS = "{http://graphml.graphdrawing.org/xmlns}"


def read(text):
    return ET.fromstring(text.encode())


def test_networkx_reads_the_live_graph_with_its_types(networkx):
    profile = golden_profile()
    text = rendered("graphml", profile)
    graph, live = networkx.read_graphml(io.BytesIO(text.encode())), to_networkx(profile)
    for _, _, values in graph.edges(data=True):
        if "data_fields" in values:
            values["data_fields"] = json.loads(values["data_fields"])
    # networkx adds the defaults of attributes, of which there are none.
    assert graph.graph.pop("node_default") == graph.graph.pop("edge_default") == {}
    assert networkx.utils.graphs_equal(graph, live)
    assert type(graph.nodes["load"]["bytes_out"]) is int
    assert type(graph.nodes["load"]["weight"]) is float
    assert graph.is_directed()
    text = rendered("graphml", profile_of(HOSTILE))
    graph = networkx.read_graphml(io.BytesIO(text.encode()))
    assert list(graph) == list(legible_names(HOSTILE).values())


def test_numbers_of_which_one_is_whole_are_all_of_one_type():
    profile = profile_of(["a", "b"])
    document = profile.to_dict()
    document["weight_sources"] = {
        "a": {"node_weight": "wall_time_ms", "wall_time_ms": 1},
        "b": {"node_weight": "wall_time_ms", "wall_time_ms": 1.5},
    }
    root = read(rendered("graphml", Profile.from_dict(document), cost="wall_time"))
    (key,) = [key for key in root.iter(f"{NS}key") if key.get("id") == "node_weight"]
    assert key.get("attr.type") == "double"


@given(names(max_size=6))
def test_names_come_back_or_are_mapped(tasks):
    root = read(rendered("graphml", profile_of(tasks)))
    expected = list(legible_names(tasks).values())
    assert [node.get("id") for node in root.iter(f"{NS}node")] == expected
    edges = [(edge.get("source"), edge.get("target")) for edge in root.iter(f"{NS}edge")]
    assert edges == list(zip(expected, expected[1:]))


def test_fields_come_back_and_what_is_said_of_the_whole_cannot_break_out():
    document = profile_of(["a", "b"]).to_dict()
    fields = ["<&>\x00\ud800é\x85", '"\n']
    columns = ["data_fields", "size_bytes", "wire_bytes"]
    document["edge_metrics"] = {"columns": columns, "records": [[fields, 1, 2]]}
    root = read(rendered("graphml", Profile.from_dict(document)))
    (found,) = [data for data in root.iter(f"{NS}data") if data.get("key") == "edge_data_fields"]
    assert json.loads(found.text) == fields
    profile = golden_profile()
    profile.hostname = "</data>\x00\r\ud800<x>"
    root = read(rendered("graphml", profile))
    (found,) = [data for data in root.iter(f"{NS}data") if data.get("key") == "graph_hostname"]
    assert found.text == "</data>\\u0000\r\\ud800<x>"
