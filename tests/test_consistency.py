from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dagprofiler.consistency import check_consistency
from dagprofiler.errors import CycleError, ProfileError
from dagprofiler.schema import validate_profile

#: The samples of the documents that define the standard.
DATA = Path(__file__).parent / "data"
README_SAMPLE = (DATA / "readme-sample.json").read_text()

STANDARD_SAMPLE = (DATA / "standard-sample.json").read_text()


def profile(nodes, edges, order=None, *, version=1, **sections):
    """Return a document of the graph that agrees with itself, `sections` apart."""
    document = {
        "metadata": {"timestamp": "2026-11-20T23:59:32Z", "dagprofiler_version": "0.2.0"},
        "configuration": {},
        "dag_structure": {
            "nodes": list(nodes),
            "edges": [{"source": source, "target": target} for source, target in edges],
            "execution_order": list(nodes if order is None else order),
        },
        "node_weights": dict.fromkeys(nodes, 0),
        "edge_weights": {f"{source}->{target}": 64 for source, target in edges},
        "execution_metrics": [metrics(name) for name in nodes],
        "total_time_ms": 1.5,
        **sections,
    }
    if version is not None:
        document["metadata"]["schema_version"] = version
    validate_profile(document)
    return document


def metrics(name):
    return {"task": name, "compute_time_ms": 1.0, "bytes_in": 0, "bytes_out": 8}


def edge(source, target, size=8, **more):
    return {"source": source, "target": target, "data_fields": [], "size_bytes": size, **more}


def timeline(*records, workers=1):
    return {
        "workers": [{"host": "here", "pid": i} for i in range(workers)],
        "columns": ["task", "round", "worker", "ready_ms"],
        "records": list(records),
    }


def chain(**sections):
    return profile("abc", ["ab", "bc"], **sections)


def refusal(document):
    with pytest.raises(ProfileError) as caught:
        check_consistency(document)
    return caught.value


def words(document):
    error = refusal(document)
    return error.path, error.message


# What is no contradiction


@pytest.mark.parametrize("sample", [README_SAMPLE, STANDARD_SAMPLE])
def test_the_samples_of_the_documents_agree_with_themselves(sample):
    check_consistency(json.loads(sample))


def test_a_complete_profile_agrees_with_itself():
    check_consistency(
        chain(
            edge_metrics=[edge("a", "b", size_bits=64), edge("b", "c")],
            timeline=timeline(["a", 0, 0, 0.5], ["a", 1, 1, 0.5], ["b", 0, None, None], workers=2),
            weight_sources={"a": {"node_weight": "default"}},
            run={"state": "partial", "tasks": {"c": {"state": "failed"}}},
        )
    )


def test_an_empty_graph_agrees_with_itself():
    check_consistency(profile([], [], edge_metrics=[], timeline=timeline(workers=0)))


def test_what_is_absent_is_no_contradiction():
    document = chain(order="ab", edge_metrics=[edge("b", "c")], timeline=timeline())
    document["node_weights"] = {}
    document["edge_weights"] = {}
    del document["execution_metrics"], document["total_time_ms"]
    check_consistency(document)


def test_weights_and_metrics_may_stand_in_any_order():
    document = chain(edge_metrics=[edge("b", "c", 8), edge("a", "b", 8)])
    document["edge_weights"] = {"b->c": 64, "a->b": 64}
    check_consistency(document)


def test_0_1_0_named_metrics_after_classes():
    document = profile("ab", ["ab"], version=None)
    document["execution_metrics"] = [metrics("MyTask"), metrics("MyTask")]
    check_consistency(document)


def test_0_1_0_repeated_edges():
    check_consistency(profile("abc", ["ab", "ab", "bc"], version=None))
    check_consistency(profile("abc", ["ab", "ab", "bc"], order="a", version=None))


def test_names_with_an_arrow_are_fine_while_they_are_unambiguous():
    names = ["a->b", "c", "d->"]
    edges = [("a->b", "c"), ("c", "d->")]
    check_consistency(profile(names, edges, edge_metrics=[edge("c", "d->"), edge("a->b", "c")]))


# Structure


def test_a_task_twice():
    document = chain()
    document["dag_structure"]["nodes"] = ["a", "b", "c", "b"]
    assert words(document) == ("$.dag_structure.nodes[3]", "task 'b' is listed before, at 1")


@pytest.mark.parametrize("end", ["source", "target"])
def test_an_edge_of_a_task_that_is_not_there(end):
    document = chain()
    document["dag_structure"]["edges"][1][end] = "x"
    assert words(document) == (f"$.dag_structure.edges[1].{end}", "there is no task 'x'")


def test_an_edge_from_a_task_to_itself():
    assert words(profile("ab", ["ab", "bb"])) == (
        "$.dag_structure.edges[1]",
        "task 'b' has an edge to itself",
    )


def test_an_edge_twice():
    assert words(profile("abc", ["ab", "bc", "ab"])) == (
        "$.dag_structure.edges[2]",
        "edge 'a->b' is listed before, at 0",
    )


@pytest.mark.parametrize("version", [None, 1])
def test_two_edges_of_one_key(version):
    edges = [("a", "b->c"), ("a", "d"), ("a->b", "c")]
    names = ["a", "a->b", "b->c", "c", "d"]
    assert words(profile(names, edges, version=version)) == (
        "$.dag_structure.edges[0]",
        "this edge and another share the key 'a->b->c' of edge_weights",
    )


def test_an_order_with_a_task_that_is_not_there():
    assert words(profile("abc", ["ab"], order="abxc")) == (
        "$.dag_structure.execution_order[2]",
        "there is no task 'x'",
    )


def test_an_order_with_a_task_twice():
    assert words(profile("abc", ["ab"], order="aba")) == (
        "$.dag_structure.execution_order[2]",
        "task 'a' is listed before, at 0",
    )


@pytest.mark.parametrize("order", ["cab", "acb", "cb"])
def test_an_order_against_an_edge(order):
    assert words(chain(order=order)) == (
        f"$.dag_structure.execution_order[{order.index('c')}]",
        "'c' comes before 'b', against the edge 'b->c'",
    )


def test_an_order_against_a_path_of_edges():
    assert words(chain(order="ca")) == (
        "$.dag_structure.execution_order[0]",
        "'c' comes before 'a', from which edges lead to it through tasks that the order lacks",
    )


@pytest.mark.parametrize("order", ["", "d"])
def test_a_cycle_that_the_order_leaves_out(order):
    error = refusal(profile("abcd", ["ab", "bc", "ca"], order=order))
    assert error.path == "$.dag_structure.edges"
    assert error.message == "tasks form a cycle: 'a' -> 'b' -> 'c' -> 'a'"
    assert isinstance(error.__cause__, CycleError)


def test_a_cycle_contradicts_every_complete_order():
    assert refusal(profile("abc", ["ab", "bc", "ca"])).path == "$.dag_structure.execution_order[0]"


# Weights and metrics


@pytest.mark.parametrize(
    ("section", "entry"),
    [
        ("node_weights", 0),
        ("weight_sources", {"node_weight": "default"}),
    ],
)
def test_a_weight_of_a_task_that_is_not_there(section, entry):
    document = chain(**{section: {"a": entry, "x y": entry}})
    assert words(document) == (f"$.{section}['x y']", "there is no task 'x y'")


def test_a_state_of_a_task_that_is_not_there():
    document = chain(run={"state": "partial", "tasks": {"x": {"state": "skipped"}}})
    assert words(document) == ("$.run.tasks.x", "there is no task 'x'")


def test_a_weight_of_an_edge_that_is_not_there():
    document = chain()
    document["edge_weights"] = {"a->b": 1, "a->c": 1}
    assert words(document) == ("$.edge_weights['a->c']", "there is no edge 'a->c'")


def test_metrics_of_an_edge_that_is_not_there():
    document = chain(edge_metrics=[edge("a", "b"), edge("a", "c")])
    assert words(document) == ("$.edge_metrics[1]", "there is no edge 'a->c'")


def test_metrics_of_an_edge_that_merely_has_the_key_of_another():
    names = ["a", "b->c", "a->b", "c"]
    document = profile(names, [("a", "b->c")], edge_metrics=[edge("a->b", "c")])
    assert words(document) == ("$.edge_metrics[0]", "there is no edge 'a->b->c'")


def test_metrics_of_an_edge_twice():
    document = chain(edge_metrics=[edge("a", "b"), edge("b", "c"), edge("a", "b")])
    assert words(document) == ("$.edge_metrics[2]", "edge 'a->b' is listed before, at 0")


def test_metrics_of_a_repeated_edge_twice():
    document = profile("ab", ["ab", "ab"], version=None, edge_metrics=[edge(*"ab"), edge(*"ab")])
    assert words(document) == ("$.edge_metrics[1]", "edge 'a->b' is listed before, at 0")


def test_bits_that_are_not_eight_times_the_bytes():
    document = chain(edge_metrics=[edge("a", "b"), edge("b", "c", size_bits=65)])
    assert words(document) == ("$.edge_metrics[1].size_bits", "65 bits are not 8 x 8 bytes")


def test_a_size_that_is_not_the_weight():
    document = chain(edge_metrics=[edge("b", "c", 9)])
    assert words(document) == (
        "$.edge_metrics[0].size_bytes",
        "72 bits here, but 64 in edge_weights",
    )


def test_metrics_of_a_task_that_is_not_there():
    document = chain(execution_metrics=[metrics("a"), metrics("MyTask")])
    assert words(document) == ("$.execution_metrics[1].task", "there is no task 'MyTask'")


def test_metrics_of_a_task_twice():
    document = chain(execution_metrics=[metrics("a"), metrics("b"), metrics("a")])
    assert words(document) == ("$.execution_metrics[2].task", "task 'a' is listed before, at 0")


# Timeline


def test_a_record_of_a_task_that_is_not_there():
    document = chain(timeline=timeline(["a", 0, 0, 0.5], ["x", 0, 0, 0.5]))
    assert words(document) == ("$.timeline.records[1][0]", "there is no task 'x'")


@pytest.mark.parametrize("record", [["b", 0, 0], ["b", 0, 0, 1.0, 2.0]])
def test_a_record_longer_or_shorter_than_the_columns(record):
    document = chain(timeline=timeline(["a", 0, 0, 0.5], record))
    assert words(document) == ("$.timeline.records[1]", f"{len(record)} entries for 4 columns")


def test_a_record_of_a_worker_that_is_not_there():
    document = chain(timeline=timeline(["a", 0, 0, 0.5], ["b", 0, 2, 0.5], workers=2))
    assert words(document) == (
        "$.timeline.records[1][2]",
        "there is no worker 2, only 2 in timeline.workers",
    )


# In general


def test_long_names_are_quoted_in_part_only():
    name = "x" * 10_000
    document = chain(order=["a", name])
    assert len(str(refusal(document))) < 500
    cycle = ["a" * 1000, "b" * 1000]
    assert len(str(refusal(profile(cycle, [cycle, cycle[::-1]], order=[])))) < 500


def has_order(nodes, edges, part):
    """Tell by brute force whether a topological order has `part` in its order."""
    return any(
        [name for name in order if name in part] == part
        and all(order.index(source) < order.index(target) for source, target in edges)
        for order in permutations(nodes)
    )


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_an_order_is_refused_exactly_if_it_is_part_of_no_topological_order(data):
    nodes = data.draw(st.lists(st.sampled_from("abcde"), unique=True))
    pairs = list(permutations(nodes, 2))
    edges = data.draw(st.lists(st.sampled_from(pairs), unique=True, max_size=6)) if pairs else []
    part = data.draw(st.permutations(nodes))[: data.draw(st.integers(0, len(nodes)))]
    document = profile(nodes, edges, order=part)
    if has_order(nodes, edges, part):
        check_consistency(document)
    else:
        assert refusal(document).path.startswith("$.dag_structure.")


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text("->a", max_size=4), unique=True, max_size=5), st.data())
def test_names_of_arrows_are_refused_exactly_if_two_edges_share_a_key(nodes, data):
    pairs = [(s, t) for i, s in enumerate(nodes) for t in nodes[i + 1 :]]
    edges = data.draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    document = profile(nodes, edges)
    if len({f"{source}->{target}" for source, target in edges}) == len(edges):
        check_consistency(document)
    else:
        assert "share the key" in refusal(document).message
