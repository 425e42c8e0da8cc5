import numpy as np
import pytest
from handmade import handmade, strict
from sample_profiles import golden_profile, profile_of, sink, source

from dagprofiler import DAG, CycleError, EdgeMetrics, Rounds
from dagprofiler.errors import FormatError, WeightError
from dagprofiler.formats import exporter
from dagprofiler.formats.saga import network_of

INFINITY = float("inf")
TWO = {"a": 1, "b": 1}
WRONG = (0, -1, INFINITY, "2")


def export(profile, **options):
    rendered = exporter("saga").render(profile, **options)
    return strict(rendered.text), rendered.losses


def made(costs=(("a", 3), ("b", 4)), sizes=((("a", "b"), 10, 33),), order=None):
    """A profile as somebody may have put it together, checked by nobody."""
    costs = dict(costs)
    edges = [EdgeMetrics(a, b, ["x"], size, wire) for (a, b), size, wire in sizes]
    sources = {
        name: {"node_weight": "estimated_instructions", "estimated_instructions": cost}
        for name, cost in costs.items()
    }
    profile = handmade(costs, edges, weights=costs, sections={"weight_sources": sources})
    profile.dag_structure["execution_order"] = list(costs) if order is None else order
    return profile


def run(**options):
    return DAG({"source": source, "sink": sink}, [("source", "sink")]).run(**options)


def test_a_network_makes_a_task_graph_a_problem_instance():
    document, _ = export(made())
    assert document == {
        "tasks": [{"name": "a", "cost": 3}, {"name": "b", "cost": 4}],
        "dependencies": [{"source": "a", "target": "b", "size": 80}],
    }
    network = {"speeds": {"n": 2}}
    document, _ = export(made(), network=network)
    assert list(document) == ["name", "task_graph", "network"]
    assert document["name"] == "profile"
    assert document["task_graph"] == export(made())[0]
    assert document["network"] == network_of(network)


def test_sizes_are_payload_or_wire_in_bits():
    odd = profile_of(["a", "b"])
    odd.metrics.edge_weights["a->b"] = 12
    for profile, size, bits in ((made(), "spec", 80), (made(), "wire", 264), (odd, "spec", 12)):
        assert export(profile, size=size)[0]["dependencies"][0]["size"] == bits


def test_stochastic_costs_and_sizes_are_the_measured_samples():
    profile = run(rounds=Rounds(4, warmup=2))
    samples = profile.sections["samples"]
    document, _ = export(profile, cost="wall_time", stochastic=True, size="wire")
    for one in document["tasks"]:
        assert one["cost"] == {"samples": samples["tasks"][one["name"]]["wall_ms"][-4:]}
    edge = samples["edges"]["source->sink"]
    bits = [8 * n for n in edge["wire_bytes"][-4:]]
    assert document["dependencies"][0]["size"] == {"samples": bits}


def test_what_has_no_samples_has_its_one_value():
    document, _ = export(made(), stochastic=True)
    assert [one["cost"] for one in document["tasks"]] == [{"samples": [3]}, {"samples": [4]}]
    assert [one["size"] for one in document["dependencies"]] == [{"samples": [80]}]
    with pytest.raises(FormatError, match="stochastic graph with a network"):
        export(made(), stochastic=True, network={"speeds": {"n": 1}})


# What SAGA would fail on later


def test_missing_costs_and_sizes_are_listed_or_filled():
    profile = golden_profile()
    with pytest.raises(WeightError, match="none for"):
        export(profile, cost="estimated")
    document, _ = export(profile, cost="estimated", fill=7.5, fill_size=0)
    assert [one["name"] for one in document["tasks"] if one["cost"] == 7.5] == ["=sum"]
    profile = made(sizes=[(("a", "b"), 10, None)])
    with pytest.raises(FormatError, match="no wire size of 'a' - 'b': give fill_size="):
        export(profile, size="wire")
    document, _ = export(profile, size="wire", fill_size=5)
    assert document["dependencies"][0]["size"] == 5
    profile.metrics.edge_weights.clear()
    with pytest.raises(FormatError, match="no spec size of 'a' - 'b': give fill_size="):
        export(profile)


def test_a_cycle_is_refused_and_a_graph_that_costs_nothing():
    profile = made(sizes=[(("a", "b"), 1, 1), (("b", "a"), 1, 1)])
    with pytest.raises(CycleError, match="'a' -> 'b' -> 'a'"):
        export(profile)
    # An order that is not complete is none.
    assert export(made(order=["b"])) == export(made())
    assert export(made([("a", 0), ("b", 1)]))[0]["tasks"][0]["cost"] == 0
    with pytest.raises(FormatError, match=r"'estimated' are 0: give cost="):
        export(made([("a", 0), ("b", 0)]))
    with pytest.raises(FormatError, match="SAGA reserves"):
        export(made([("__super_sink__", 1)], []))


# The network


def test_a_network_becomes_a_full_mesh():
    network = network_of({"speeds": {"b": 1, "a": np.float64(2)}, "bandwidth": np.int64(5)})
    assert network["nodes"] == [{"name": "b", "speed": 1}, {"name": "a", "speed": 2.0}]
    edges = ("b", "b", 1e18), ("a", "a", 1e18), ("a", "b", 5)
    assert network["edges"] == [dict(zip(("source", "target", "speed"), edge)) for edge in edges]
    assert {type(one["speed"]) for one in network["nodes"]} == {int, float}
    for link in (("a", "b"), ("b", "a")):
        (edge,) = network_of({"speeds": TWO, "bandwidth": {link: 7}})["edges"][2:]
        assert edge == {"source": "a", "target": "b", "speed": 7}


@pytest.mark.parametrize("loop", [None, INFINITY, 1e18])
def test_a_network_as_saga_writes_it_is_taken(loop):
    ours = network_of({"speeds": {"a": 1, "b": 2}, "bandwidth": 5})
    theirs = {"nodes": ours["nodes"], "edges": [dict(one) for one in ours["edges"]]}
    theirs["edges"][0]["speed"] = loop
    assert network_of(theirs) == ours
    assert network_of(ours) == ours


NO_NETWORKS = (
    *({"speed": {"a": 1}}, {"speeds": 3}),
    *({"nodes": [{"name": "a"}], "edges": []}, {"speeds": TWO, "bandwidth": {5: 1}}),
)


@pytest.mark.parametrize(
    ("network", "message"),
    [
        *(({"speeds": {"a": speed}}, "speed of node 'a' .* above 0") for speed in (None, *WRONG)),
        *(
            ({"speeds": TWO, "bandwidth": speed}, "bandwidth of link 'a' - 'b' must")
            for speed in WRONG
        ),
        ({"speeds": TWO}, "no bandwidth for 'a' - 'b'"),
        ({"speeds": {}}, "the network has no nodes"),
        *((none, "a network is {'speeds'") for none in (*NO_NETWORKS, [("a", 1)], 3)),
        ({"speeds": TWO, "bandwidth": {("a", "bb"): 1}}, "link 'a' - 'bb': .* no node"),
        ({"speeds": TWO, "bandwidth": {("a", "b"): 1, ("b", "a"): 2}}, "link 'b' - 'a' .* 1 .* 2"),
    ],
)
def test_an_invalid_network_says_what_is_wrong(network, message):
    with pytest.raises(FormatError, match=message):
        network_of(network)
