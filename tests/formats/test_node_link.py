import json
import sys

import pytest
from hypothesis import given
from sample_profiles import HOSTILE, golden_profile, names, profile_of, rendered

from dagprofiler.errors import FormatError, MissingExtraError
from dagprofiler.formats.node_link import to_networkx


# In 3.4 and 3.5 networkx says that the key will change.
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_networkx_reads_it_as_the_live_graph(networkx):
    profile = golden_profile()
    graph = networkx.node_link_graph(json.loads(rendered("node_link", profile)))
    live = to_networkx(profile)
    assert type(live) is networkx.DiGraph
    assert networkx.utils.graphs_equal(graph, live)
    assert graph.graph == live.graph


def test_the_live_graph_has_attributes_with_units(networkx):
    graph = to_networkx(golden_profile(), cost="wall_time")
    assert graph.graph["node_weight_unit"] == "ms"
    assert graph.nodes["load"]["weight"] == 5.625
    assert graph.nodes["=sum"] == {"execution_order": 2, "state": "failed"}
    assert graph.edges["=sum", "report"] == {}
    filled = to_networkx(golden_profile(), cost="estimated", fill=2)
    assert filled.graph["node_weight_unit"] == "instructions"
    assert filled.nodes["=sum"]["weight"] == 2
    assert list(to_networkx(profile_of(HOSTILE))) == HOSTILE


def test_edges_stand_under_the_key_that_is_asked_for_and_networkx_is_an_extra(monkeypatch):
    for edges, keys in (("edges", ["edges"]), ("links", ["links"]), ("both", ["edges", "links"])):
        document = json.loads(rendered("node_link", golden_profile(), edges=edges))
        assert [key for key in document if key in ("edges", "links")] == keys
    with pytest.raises(FormatError, match="edges must be 'both', 'edges' or 'links'"):
        rendered("node_link", golden_profile(), edges="arcs")
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(MissingExtraError, match=r"dagprofiler\[networkx\]"):
        to_networkx(golden_profile())


@given(names(max_size=6))
def test_names_stay_what_they_are(tasks):
    document = json.loads(rendered("node_link", profile_of(tasks)))
    assert [node["id"] for node in document["nodes"]] == tasks
    assert [(e["source"], e["target"]) for e in document["edges"]] == list(zip(tasks, tasks[1:]))
