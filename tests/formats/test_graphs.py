import csv
import io
import json
import xml.etree.ElementTree as ET

import pytest
from sample_profiles import HOSTILE, golden_profile, profile_of, rendered, source

from dagprofiler import DAG, Profile, RunError, task
from dagprofiler.formats import exporter
from dagprofiler.formats.node_link import to_networkx

GRAPHS = ["csv", "dot", "graphml", "mermaid", "node_link"]


@task(outputs=["y"])
def fails(x):
    raise ValueError(x)


def rows(profile, table):
    text = rendered("csv", profile, table=table)
    return list(csv.DictReader(io.StringIO(text, newline=""), strict=True))


def graphml(profile, **options):
    return ET.fromstring(rendered("graphml", profile, **options).encode())


def elements(root, kind):
    return root.iter(f"{{http://graphml.graphdrawing.org/xmlns}}{kind}")


# All formats


@pytest.mark.parametrize("form", [*GRAPHS, "chrome_trace"])
def test_partial_and_hostile_profiles_are_written_as_utf_8(form, tmp_path):
    with pytest.raises(RunError) as caught:
        DAG({"a": source, "b": fails}, [("a", "b")]).run()
    assert "failed" in rendered(form, caught.value.profile)
    profile = profile_of(HOSTILE)
    profile.sections["timeline"] = {
        "workers": [{"host": "\ud800"}],
        "columns": ["task", "round", "worker", "compute_start_ms", "compute_end_ms"],
        "records": [[name, 0, 0, i, i + 1] for i, name in enumerate(HOSTILE)],
    }
    profile.hostname = "\udfff\x00"
    profile.export(tmp_path / "file", form)
    assert (tmp_path / "file").read_text(encoding="utf-8")
    if form in GRAPHS:
        assert rendered(form, profile_of([]))


def test_losses_name_the_sections_that_are_left_out():
    assert "no weights: " in rendered("dot", golden_profile(), cost="counted")
    (loss,) = exporter("graphml").render(golden_profile()).losses
    left_out = loss.rpartition(": ")[2].split(", ")
    assert set(left_out) == {"configuration", "run", "weight_sources", "timeline"}


def test_fields_are_a_json_list_and_sizes_have_units():
    document = profile_of(["a", "b"]).to_dict()
    fields = ["=x", 'a"b,\né', "<&>"]
    columns = ["data_fields", "size_bytes", "wire_bytes"]
    document["edge_metrics"] = {"columns": columns, "records": [[fields, 1, 2]]}
    profile = Profile.from_dict(document)
    assert [row["task"] for row in rows(profile_of(HOSTILE), "tasks")] == HOSTILE
    (row,) = rows(profile, "edges")
    assert (row["size_bits"], row["size_bytes"], row["wire_bytes"]) == ("8", "1", "2")
    assert json.loads(row["data_fields"]) == fields
    found = {data.get("key"): data.text for data in elements(graphml(profile), "data")}
    assert json.loads(found["edge_data_fields"]) == fields


# Mermaid


def test_simple_names_stay_legible_in_mermaid():
    text = rendered("mermaid", profile_of(["load_data-2.1 é 中文"]))
    assert '["load_data-2.1 é 中文<br/>1 instructions"]' in text
    profile = golden_profile()
    profile.hostname = "x\n%%{init: {}}%%\u2028click t0 href\r"
    lines = rendered("mermaid", profile, cost="wall_time").split("\n")
    assert lines[1].startswith("    %% weights: wall_time in ms (wall time")
    assert not set("{}%\u2028\r") & set(lines[1].replace("%%", "", 1))
    assert lines[2].startswith("    t0[")
    assert any("a picture" in loss for loss in exporter("mermaid").render(golden_profile()).losses)


# GraphML and node-link, for networkx


# In 3.4 and 3.5 networkx says that the key of node-link will change.
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_networkx_reads_the_live_graph_with_its_types():
    networkx = pytest.importorskip("networkx")
    profile = golden_profile()
    live = to_networkx(profile)
    assert type(live) is networkx.DiGraph
    linked = networkx.node_link_graph(json.loads(rendered("node_link", profile)))
    assert linked.graph == live.graph
    graph = networkx.read_graphml(io.BytesIO(rendered("graphml", profile).encode()))
    for _, _, values in graph.edges(data=True):
        if "data_fields" in values:
            values["data_fields"] = json.loads(values["data_fields"])
    # networkx adds the defaults of attributes, of which there are none.
    assert graph.graph.pop("node_default") == graph.graph.pop("edge_default") == {}
    assert networkx.utils.graphs_equal(linked, live)
    assert networkx.utils.graphs_equal(graph, live)
    assert type(graph.nodes["load"]["bytes_out"]) is int
    assert type(graph.nodes["load"]["weight"]) is float
    text = rendered("graphml", profile_of(HOSTILE))
    graph = networkx.read_graphml(io.BytesIO(text.encode()))
    assert list(graph) == HOSTILE


def test_the_live_graph_has_attributes_with_units():
    pytest.importorskip("networkx")
    graph = to_networkx(golden_profile(), cost="wall_time")
    assert graph.graph["node_weight_unit"] == "ms"
    assert graph.nodes["load"]["weight"] == 5.625
    assert graph.nodes["=sum"] == {"execution_order": 2, "state": "failed"}
    assert graph.edges["=sum", "report"] == {}
    filled = to_networkx(golden_profile(), cost="estimated", fill=2)
    assert filled.graph["node_weight_unit"] == "instructions"
    assert filled.nodes["=sum"]["weight"] == 2
    assert list(to_networkx(profile_of(HOSTILE))) == HOSTILE


def test_edges_stand_under_the_keys_of_all_versions_of_networkx():
    document = json.loads(rendered("node_link", golden_profile()))
    assert document["edges"] == document["links"]


def test_values_of_an_attribute_have_one_type_in_graphml():
    document = profile_of(["a", "b"]).to_dict()
    document["weight_sources"] = {
        name: {"node_weight": "wall_time_ms", "wall_time_ms": ms}
        for name, ms in (("a", 1), ("b", 1.5))
    }
    root = graphml(Profile.from_dict(document), cost="wall_time")
    types = {key.get("id"): key.get("attr.type") for key in elements(root, "key")}
    assert types["node_weight"] == "double"
    profile = golden_profile()
    profile.hostname = "</data><x>&"
    found = {data.get("key"): data.text for data in elements(graphml(profile), "data")}
    assert found["graph_hostname"] == "</data><x>&"
