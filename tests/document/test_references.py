import json
from functools import reduce
from operator import getitem
from pathlib import Path

import pytest
from handmade import structure_of

from dagprofiler._document.references import check_references
from dagprofiler.errors import ProfileError
from dagprofiler.schema import upgrade, validate_profile

#: Every section that refers to tasks, edges and rows.
WHOLE = (Path(__file__).parents[1] / "data" / "complete-profile.json").read_text("utf-8")


def profile(nodes, edges, order=None, **sections):
    """Return a document of the graph."""
    stamp = {"timestamp": "2026-11-20T23:59:32Z", "dagprofiler_version": "0.2.0"}
    structure = {**structure_of(nodes, edges), "execution_order": [*(order or nodes)]}
    return {
        "metadata": {**stamp, "schema_version": 1},
        "configuration": {},
        "dag_structure": structure,
        "node_weights": dict.fromkeys(nodes, 0),
        "edge_weights": {f"{source}->{target}": 64 for source, target in edges},
        **sections,
    }


def metrics(name):
    return {"task": name, "compute_time_ms": 1.0, "bytes_in": 0, "bytes_out": 8}


def edges(*pairs):
    return structure_of("", pairs)["edges"]


SUMMARY = {"median": 1.0, "n": 1}
X, XY = "there is no task 'x'", "there is no edge 'x->y'"


@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        ("dag_structure.nodes", [*"abcb"], "task 'b' is listed twice"),
        ("dag_structure.edges", edges("ab", "xc"), X),
        ("dag_structure.edges", edges("ab", "bc", "ab"), "edge 'a->b' is listed twice"),
        ("dag_structure.execution_order", [*"cb"], "'c' comes before 'b', against the edge 'b->c'"),
        ("node_weights", {"x": 0}, X),
        ("edge_weights", {"x->y": 1}, XY),
        ("execution_metrics", [metrics("x")], X),
        ("weight_sources", {"x": {"node_weight": "default"}}, X),
        ("samples.tasks", {"x": {}}, X),
        ("samples.tasks.a.wall_ms", [1.0], "1 entries for 3 rounds"),
        ("statistics.edges", {"x->y": {"wire_bytes": SUMMARY}}, XY),
        ("prediction.intervals_ms", {"x": [1, 2]}, X),
        ("schedule.node", ["x"], X),
        ("edge_metrics.records", [None], "1 records for 3 edges"),
        ("timeline.records", [["a", 0, 1, 0.5, None, None]], "there is no worker 1, only 1"),
        (
            "timeline.records",
            [["a", 0, 0, 1, None, None]] * 2,
            "task and round ('a', 0) is listed twice",
        ),
        ("spans.records", [["x", 0, 0, 0, 1, 2, None, None]], X),
        ("spans.records", [["a", 0, 1, 0, 1, 2, None, None]], "there is no thread 1, only 1"),
    ],
)
def test_dangling_references_name_their_section(where, value, message):
    document = json.loads(WHOLE)
    *sections, last = where.split(".")
    reduce(getitem, sections, document)[last] = value
    validate_profile(document)
    with pytest.raises(ProfileError) as caught:
        check_references(document)
    assert (caught.value.path, caught.value.message) == (f"$.{where}", message)


@pytest.mark.parametrize(
    "document",
    [
        json.loads(WHOLE),
        profile([], []),
        profile("abc", ["ab", "bc"], order="b"),
        profile(["a->b", "c", "d->"], [("a->b", "c"), ("c", "d->")]),
    ],
    ids=["of every section", "empty", "of an incomplete order", "of names that hold arrows"],
)
def test_a_document_whose_references_exist_is_accepted(document):
    validate_profile(document)
    check_references(document)


@pytest.mark.parametrize(
    ("nodes", "edges", "message"),
    [
        *(
            ([name, "b"], [], "holds characters that cannot be printed")
            for name in ("a\nb", "\x1b[31m", "\ud800", "\u202e")
        ),
        # Both have the same key in edge_weights.
        (["a", "a->b", "b->c", "c"], [("a", "b->c"), ("a->b", "c")], "'a->b->c' is listed twice"),
    ],
)
def test_names_that_nobody_can_tell_apart_are_refused(nodes, edges, message):
    with pytest.raises(ProfileError, match=message) as caught:
        check_references(profile(nodes, edges))
    assert caught.value.path.startswith("$.dag_structure.")
    assert str(caught.value).isprintable()


def upgraded(nodes, edges, **sections):
    """Return a document of 0.1.0 that was brought up to date."""
    document = profile(nodes, edges, **sections)
    del document["metadata"]["schema_version"]
    upgrade(document)
    validate_profile(document)
    check_references(document)
    return document


def test_metrics_of_classes_are_assigned_to_tasks_by_their_place():
    two = [metrics("MyTask"), {**metrics("MyTask"), "compute_time_ms": 2.0}]
    document = upgraded("ab", ["ab"], execution_metrics=two)
    assert [entry["task"] for entry in document["execution_metrics"]] == ["a", "b"]
    assert [entry["compute_time_ms"] for entry in document["execution_metrics"]] == [1.0, 2.0]
    # What belongs to no task is kept apart.
    document = upgraded("abc", ["ab", "bc"], execution_metrics=[metrics("MyTask")])
    assert document["execution_metrics"] == []
    assert document["unassigned_metrics"] == [metrics("MyTask")]


def test_repeated_edges_and_large_weights_are_upgraded():
    weights = {"a": -1, "b": 2**63, "c": 7}
    document = upgraded("abc", ["ab", "ab", "bc"], node_weights=weights)
    assert document["dag_structure"]["edges"] == edges("ab", "bc")
    assert document["node_weights"] == {"a": 0, "b": 2**63 - 1, "c": 7}
