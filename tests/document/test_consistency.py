import copy
import json
import re
from itertools import permutations
from pathlib import Path

import pytest
from handmade import structure_of
from hypothesis import given
from hypothesis import strategies as st

from dagprofiler._document.checks import check_consistency
from dagprofiler._document.rounds import statistics_of
from dagprofiler.errors import CycleError, ProfileError, json_path
from dagprofiler.schema import validate_profile

#: The samples of the documents that define the standard.
DATA = Path(__file__).parent.parent / "data"


def profile(nodes, edges, order=None, *, version=1, **sections):
    """Return a document of the graph that agrees with itself, `sections` apart."""
    order = nodes if order is None else order
    document = {
        "metadata": {"timestamp": "2026-11-20T23:59:32Z", "dagprofiler_version": "0.2.0"},
        "configuration": {},
        "dag_structure": {**structure_of(nodes, edges), "execution_order": [*order]},
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


def edge(size=8, names=(), wire=None, fields=None):
    """Return a record of an edge."""
    return [list(names), size, wire, fields]


def carried(*records):
    return {"columns": ["data_fields", "size_bytes", "wire_bytes", "fields"], "records": [*records]}


def timeline(*records, workers=({},), names=("ready_ms",)):
    """Return a timeline of records of a task, a round, a worker and the moments of these names."""
    columns = ["task", "round", "worker", *names]
    return {"workers": [*workers], "columns": columns, "records": [*records]}


def origins(*records):
    columns = ["task", "round", "rule", "at_ms"]
    return {"columns": columns, "records": [*records], "fired": [], "never_fired": []}


def source(choice, **candidates):
    return {"node_weight": choice, **candidates}


def fields(**sizes):
    """Return the record of an edge of 8 bytes, 20 on the wire, with `sizes` of its fields."""
    return edge(8, "xy", 20, sizes)


def chain(**sections):
    return profile("abc", ["ab", "bc"], **sections)


def refusal(document):
    with pytest.raises(ProfileError) as caught:
        check_consistency(document)
    return caught.value


def words(document):
    error = refusal(document)
    return error.path, error.message


def moments(*records, **options):
    return timeline(*records, names=("compute_start_ms", "compute_end_ms"), **options)


#: Two measured rounds of two tasks and an edge, with allocations counted in a third.
SAMPLES = {
    "rounds": ["cold", "measured", "measured", "allocation"],
    "total_ms": [9.0, 4.0, 6.0, None],
    "tasks": {
        "a": {"wall_ms": [5.0, 1.0, None, None], "allocation_bytes": [None, None, None, 64]},
        "b": {"wall_ms": [4.0, 3.0, 4.0, None], "power_W": [None] * 4},
    },
    "edges": {"a->b": {"serialize_ms": [1.0, 0.000001, 0.000002, None]}},
}


def sampled(rounds, wall_ms, time_ms):
    """Return a profile whose task b has these samples and this time."""
    samples = {"rounds": rounds, "tasks": {"b": {"wall_ms": wall_ms}}}
    return chain(samples=samples, execution_metrics=[{**metrics("b"), "compute_time_ms": time_ms}])


READY = ("ready_ms", "compute_start_ms", "compute_end_ms")
PHASES = ("deserialize_start_ms", "deserialize_end_ms", "compute_start_ms", "compute_end_ms")
ARROWS = profile(["a->b", "c", "d->"], [("a->b", "c"), ("c", "d->")], version=None)
FAILED = {"state": "partial", "tasks": {"c": {"state": "failed"}}}
AGREEING = {
    **{
        f"the sample of the {of}": json.loads((DATA / f"{of}-sample.json").read_text())
        for of in ("readme", "standard")
    },
    "a complete profile": chain(
        edge_metrics=carried(edge(wire=20), edge()),
        timeline=timeline(
            *(["a", 0, 0, 0.5], ["a", 1, 1, 0.5], ["b", 0, None, None]), workers=[{}] * 2
        ),
        weight_sources={
            "a": source("default", estimated_instructions=None),
            "b": source("estimated_instructions", estimated_instructions=7),
            "c": source("joules", joules=0.5),
        },
        node_weights={"a": 0, "b": 7, "c": 2**63 - 1},
        execution_metrics=[metrics("a"), metrics("b")],
        run=FAILED,
    ),
    "an empty graph": profile([], [], edge_metrics=carried(), timeline=timeline(workers=())),
    "what is absent": {
        name: section
        for name, section in chain(
            order="ab",
            edge_metrics=carried(None, edge()),
            timeline=timeline(),
            node_weights={},
            edge_weights={},
        ).items()
        if name not in {"execution_metrics", "total_time_ms"}
    },
    "weights in any order": chain(
        edge_metrics=carried(edge(8), edge(9)), edge_weights={"b->c": 72, "a->b": 64}
    ),
    "an edge that carries nothing": chain(
        edge_metrics=carried(edge(0, fields={}), edge()), edge_weights={"a->b": 0}
    ),
    "a source of a task without a weight": chain(
        node_weights={}, weight_sources={"a": source("joules", joules=8)}
    ),
    "names with half an arrow": profile(["a-", ">b"], []),
    **{
        f"statistics {statistics} without samples": chain(
            statistics={"tasks": {"a": {"wall_ms": {"median": 2, "n": 1, **statistics}}}}
        )
        for statistics in ({}, {"low": 2, "high": 2}, {"low": 1, "high": 3, "min": 0})
    },
    "samples without statistics": chain(samples={**SAMPLES, "tasks": {}}),
    "statistics of some samples, and of what has none": chain(
        samples={**SAMPLES, "tasks": {}},
        statistics={"tasks": {"b": {"energy_J": {"median": 1.0, "n": 2}}}},
    ),
    "a time of warm-up rounds where none is measured": sampled(["cold", "warm_up"], [5.0, 1.0], 3),
    "a time of a task that no measured round finished": sampled(
        ["cold", "measured"], [5.0, None], 9.0
    ),
    "a time of a class, as there is no schema version": {
        **sampled(["measured"], [1.5], 9.0),
        "metadata": {"timestamp": "2026-11-20T23:59:32Z", "dagprofiler_version": "0.1.0"},
    },
    "tasks by different clocks": chain(
        timeline=moments(
            *(["a", 0, 0, 1.0, 3.0], ["b", 0, 1, 2.0, 4.0]),
            workers=({}, {"clock_ahead_ms": 3.5, "clock_error_ms": 2.0}),
        )
    ),
    **{
        f"a task from {begun} to {ended}": chain(timeline=moments(["a", 0, 0, begun, ended]))
        for begun, ended in ((1.0, 1.0), (1.0, None), (None, None), (0.0, 9.5))
    },
    "a task that starts before it is ready by a clock that is behind": chain(
        timeline=timeline(
            ["a", 0, 0, 2.0, 1.0, 3.0], workers=[{"clock_ahead_ms": -7.5}], names=READY
        )
    ),
    "tasks of different rounds": chain(
        timeline=moments(
            *(["a", 1, 0, 5.0, 6.0], ["b", 1, 0, 6.0, 7.0], ["a", 0, 0, 1, 2], ["b", 0, 0, 2, 3])
        )
    ),
    **{
        f"fields that add up or are not all known: {sizes}": chain(
            edge_metrics=carried(fields(**sizes), None)
        )
        for sizes in (
            {"x": {"size_bytes": 3, "wire_bytes": 9}, "y": {"size_bytes": 5, "wire_bytes": 11}},
            {"y": {"size_bytes": 5}, "x": {"size_bytes": 3, "wire_bytes": 9}},
            {"x": {"wire_bytes": 9}, "y": {"size_bytes": 5, "wire_bytes": 11}},
            {"x": {"size_bytes": 3.0}, "y": {"size_bytes": 5}},
            {"x": {}, "y": {}},
        )
    },
    "0.1.0's metrics of classes": profile(
        "ab", ["ab"], version=None, execution_metrics=[metrics("MyTask"), metrics("MyTask")]
    ),
    "0.1.0's metrics of a class named like a task": chain(run=FAILED, version=None),
    "0.1.0's repeated edges": profile("abc", ["ab", "ab", "bc"], version=None),
    "0.1.0's short order": profile("abc", ["ab", "ab", "bc"], order="a", version=None),
    "0.1.0's unambiguous arrows": {**ARROWS, "edge_metrics": carried(edge(), edge())},
    **{
        f"0.1.0's weight {weight}": chain(node_weights={"a": weight}, version=None)
        for weight in (-1, 2**63)
    },
    "0.1.0's long weight": chain(node_weights={"a": 10**400}, version=None),
}


@pytest.mark.parametrize("document", AGREEING.values(), ids=AGREEING)
def test_what_is_no_contradiction(document):
    check_consistency(document)


def whole():
    """Return a document with a section of every kind that speaks of tasks and edges."""
    return chain(
        node_weights={"a": 3, "b": 7, "c": 0},
        weight_sources={},
        edge_metrics=carried(None, None),
        timeline=timeline(["a", 0, 0, 0.5]),
        origins=origins(["b", 0, "r", 0.5], ["b", 1, "r", 0.5]),
        samples=copy.deepcopy(SAMPLES),
        statistics=statistics_of(SAMPLES),
        execution_metrics=[
            {**metrics(name), "compute_time_ms": time_ms, "serialize_time_ms": 9.0}
            for name, time_ms in (("a", 1.0), ("b", 3.5), ("c", 7.0))
        ],
        run={"state": "partial", "tasks": {}},
        spans={
            "labels": [{"kind": "span", "name": "f", "category": "m"}],
            "threads": [
                {"worker": 0, "id": 1, "name": "main", "own": True},
                {"worker": None, "id": 2, "name": "lost", "own": False},
            ],
            "columns": ["task", "round", "thread", "label", "start_ms", "end_ms", "id", "args"],
            "records": [["a", 0, 0, 0, 1, 2, None, None], ["b", 0, 1, 0, 1, 1, None, None]],
            "dropped": {"a": 1},
        },
    )


def edges(*pairs):
    return structure_of("", pairs)["edges"]


#: What is said of a source of a weight, and one of which that is wrong where the weight is 7.
SOURCES = [
    *(
        (source(name, **values), f"there is no value for {name!r} here")
        for name, values in (
            ("banana", {}),
            ("estimated_instructions", {}),
            ("estimated_instructions", {"estimated_instructions": None}),
            ("node_weight", {}),
            ("reasons", {"reasons": {}}),
            ("", {"estimated_instructions": 0}),
        )
    ),
    *(
        (source(name, **values), f"{name!r} means {value} instructions, not what is in node_weight")
        for name, values, value in (
            ("default", {}, 0),
            ("default", {"default": 7}, 0),
            ("estimated_instructions", {"estimated_instructions": 8}, 8),
        )
    ),
]


X, XY = "there is no task 'x'", "there is no edge 'x->y'"


@pytest.mark.parametrize(
    ("where", "value", "path", "message"),
    [
        ("dag_structure nodes", [*"abcb"], "[3]", "task 'b' is listed before, at 1"),
        ("dag_structure edges", edges("ab", "xc"), "[1].source", X),
        ("dag_structure edges", edges("ab", "bx"), "[1].target", X),
        ("dag_structure edges", edges("ab", "bb"), "[1]", "task 'b' has an edge to itself"),
        ("dag_structure edges", edges("ab", "bc", "ab"), "[2]", "edge 'a->b' is listed before"),
        ("dag_structure execution_order", [*"abxc"], "[2]", X),
        ("dag_structure execution_order", [*"aba"], "[2]", "task 'a' is listed before, at 0"),
        ("dag_structure execution_order", [*"ca"], "[0]", "'c' comes before 'a', from which edges"),
        *(
            (
                *("dag_structure execution_order", [*order], f"[{order.index('c')}]"),
                "'c' comes before 'b', against the edge 'b->c'",
            )
            for order in ("cab", "acb", "cb")
        ),
        ("node_weights", {"a": 0, "x y": 0}, "['x y']", "there is no task 'x y'"),
        *(
            ("node_weights", {"a": 0, "b": weight}, ".b", "the weight is not from 0 to 2")
            for weight in (-1, 2**63, 10**5000, 1e300)
        ),
        ("weight_sources", {"x": source("default")}, ".x", X),
        *(
            (
                *("weight_sources", {"a": source("joules", joules=2.5), "b": entry}),
                *(".b.node_weight", said),
            )
            for entry, said in SOURCES
        ),
        ("run tasks", {"x": {"state": "skipped"}}, ".x", X),
        *(
            case
            for state in ("failed", "skipped", "cancelled")
            for case in (
                ("run tasks", {"c": {"state": state}}, ".c", f"the task is {state}, but has metr"),
                (
                    *("run", {"state": "complete", "tasks": {"c": {"state": state}}}, ".state"),
                    f"the run is complete, but task 'c' is {state}",
                ),
            )
        ),
        ("edge_weights", {"a->b": 1, "x->y": 1}, "['x->y']", XY),
        *(
            ("prediction", prediction, path, "expected a lower and an upper end, got")
            for ends in ([], [1], [1, 2, 3])
            for prediction, path in (
                ({"interval_ms": ends}, ".interval_ms"),
                ({"curve": [{"interval_ms": ends}]}, ".curve[0].interval_ms"),
                ({"serialize_intervals_ms": {"a": ends}}, ".serialize_intervals_ms.a"),
            )
        ),
        ("edge_metrics records", [edge()], "", "1 records for 2 edges"),
        ("edge_metrics records", [None, [[], 8]], "[1]", "2 entries for 4 columns"),
        ("edge_metrics records", [None, edge(9)], "[1][1]", "72 bits here, but 64 in"),
        ("edge_metrics records", [None, edge(8, "xyx")], "[1][0][2]", "field 'x' is listed before"),
        ("edge_metrics records", [edge(fields={}), None], "[0][1]", "8 bytes, but .* add up to 0"),
        *(
            (
                *("edge_metrics records", [None, fields(**{name: {} for name in names})]),
                *("[1][3]", "the keys are not the data_fields"),
            )
            for names in ("x", "xyz", "xz", "")
        ),
        *(
            (
                "edge_metrics records",
                [edge(8, "z", 1, {"z": other}), fields(x={column: total - 4}, y={column: 4})],
                *(f"[1][{part}]", f"{size} bytes, but the fields add up to {total}"),
            )
            for part, column, size, total in ((1, "size_bytes", 8, 9), (2, "wire_bytes", 20, 19))
            for other in ({}, {"size_bytes": 8, "wire_bytes": 1}, {"size_bytes": 8})
        ),
        *(
            ("execution_metrics 1 compute_time_ms", wrong, "", f"{wrong} here, .* samples is 3.5")
            for wrong in (3.6, 4.0, 3.0)
        ),
        ("execution_metrics", [metrics("a"), metrics("x")], "[1].task", X),
        ("execution_metrics", [*map(metrics, "aba")], "[2].task", "task 'a' is listed before"),
        ("timeline records", [["a", 0, 0, 0.5], ["x", 0, 0, 0.5]], "[1][0]", X),
        ("timeline records", [["b", 0, 0]], "[0]", "3 entries for 4 columns"),
        ("timeline records", [["b", 0, 0, 1.0, 2.0]], "[0]", "5 entries for 4 columns"),
        ("timeline records", [["b", 0, 1, 0.5]], "[0][2]", "no worker 1, only 1 in timeline.work"),
        (
            *("timeline records", [["a", 0, 0, 0.5], ["a", 1, 0, 0.5], ["a", 0, None, None]]),
            *("[2]", r"task and round \('a', 0\) is listed before, at 0"),
        ),
        (
            *("timeline columns", ["task", "round", "worker", "ready_ms", "ready_ms"]),
            *("[4]", "column 'ready_ms' is listed before, at 3"),
        ),
        *(
            ("timeline", timeline(["a", 0, 0, *times], names=PHASES), f".records[0][{i}]", says)
            for times, i, says in (
                ((3.0, 2.0, 4.0, 5.0), 4, "deserialize_end_ms is 2.0, before 3.0"),
                ((3.0, 4.0, 3.5, 5.0), 5, "compute_start_ms is 3.5, before 4.0"),
                ((3.0, None, None, 2.0), 6, "compute_end_ms is 2.0, before 3.0"),
            )
        ),
        ("timeline", timeline(["a", 0, 0, 2.0, 1.0, 3.0], names=READY), ".records[0][4]", ""),
        (
            *("timeline", moments(["a", 0, 0, 1.0, 3.0], ["b", 0, 0, 2.0, 4.0]), ".records[1][3]"),
            "the task starts at 2.0, before 'a', on which it depends, ends at 3.0",
        ),
        (
            "timeline",
            moments(["a", 1, 0, 5.0, 6.0], ["b", 1, 0, 5.5, 7.0], ["a", 0, 0, 1, 2]),
            *(".records[1][3]", "the task starts at 5.5"),
        ),
        ("origins records", [["b", 0, "r", 0.5], ["x", 0, "r", 0.5]], "[1][0]", X),
        ("origins records", [["b", 0, "r", 0.5]] * 2, "[1]", r"round \('b', 0\) is listed before"),
        ("origins records", [["b", 0, "r", 0.5, 1.5]], "[0]", "5 entries for 4 columns"),
        ("spans threads 0 worker", 1, "", "there is no worker 1, only 1"),
        ("spans records 1 0", "x", "", X),
        ("spans records 1 2", 2, "", "there is no thread 2, only 2"),
        ("spans records 1 3", 1, "", "there is no label 1, only 1"),
        ("spans records 1", ["b", 0, 0, 0, 2, 1, None, None], "", "ends at 1, before it starts"),
        ("samples total_ms", [], "", "0 entries for 4 rounds"),
        ("samples tasks a wall_ms", [1.0], "", "1 entries for 4 rounds"),
        ("samples tasks b wall_ms", [None, 0.5, -0.5, 1.0], "[2]", "-0.5 is less than 0"),
        ("samples tasks", {"x": {}}, ".x", X),
        ("samples edges", {"x->y": {}}, "['x->y']", XY),
        ("statistics total_ms median", 5.1, "", "5.1 here, but the median of the samples is 5.0"),
        ("statistics tasks a wall_ms n", 2, "", "2 values here, but 1 in samples"),
        ("statistics tasks a allocation_bytes median", 65, "", "65 here, but the median"),
        ("statistics tasks b wall_ms median", 3.50001, "", "3.50001 here, but the median"),
        ("statistics edges a->b serialize_ms n", 3, "", "3 values here, but 2 in samples"),
        ("statistics edges a->b serialize_ms median", 1.0, "", "1.0 here, but the median"),
        ("statistics total_ms", {"median": 5, "high": 4, "n": 2}, ".median", "median is 5, more"),
        ("statistics total_ms", {"median": 5, "min": 6, "n": 2}, ".min", "min is 6, more than"),
        ("statistics tasks", {"x": {}}, ".x", X),
        ("statistics edges", {"x->y": {}}, "['x->y']", XY),
        (
            *("statistics tasks", {"a": {"wall_ms": {"median": 1.0, "low": 1.5, "n": 1}}}),
            *(".a.wall_ms.low", "low is 1.5, more than median, which is 1.0"),
        ),
    ],
)
def test_what_a_document_says_against_itself(where, value, path, message):
    document = whole()
    check_consistency(document)
    *sections, last = (int(part) if part.isdigit() else part for part in where.split())
    part = document
    for section in sections:
        part = part[section]
    part[last] = value
    place, said = words(document)
    assert place == json_path([*sections, last]) + path
    assert re.match(f".*{message}", said)


def test_times_are_medians_of_warm_up_rounds_where_none_is_measured():
    where, message = words(sampled(["cold", "warm_up"], [5.0, 1.0], 5.0))
    assert where == "$.execution_metrics[0].compute_time_ms"
    assert message == "5.0 here, but the median of the samples is 3.0"


def test_names_that_could_be_keys_of_edges():
    pairs = [("a", "b->c"), ("a", "d"), ("a->b", "c")]
    assert words(profile(["a", "a->b", "b->c", "c", "d"], pairs, version=None)) == (
        "$.dag_structure.edges[0]",
        "this edge and another share the key 'a->b->c' of edge_weights",
    )
    assert words(profile(["a-", ">b", "a->b"], [])) == (
        "$.dag_structure.nodes[2]",
        "task name 'a->b' holds '->', which joins names in edge weights",
    )


@pytest.mark.parametrize("order", ["", "d"])
def test_a_cycle_that_the_order_leaves_out(order):
    error = refusal(profile("abcd", ["ab", "bc", "ca"], order=order))
    assert error.path == "$.dag_structure.edges"
    assert error.message == "tasks form a cycle: 'a' -> 'b' -> 'c' -> 'a'"
    assert isinstance(error.__cause__, CycleError)
    whole = profile("abc", ["ab", "bc", "ca"])
    assert refusal(whole).path == "$.dag_structure.execution_order[0]"


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


@given(st.lists(st.text("->a", max_size=4), unique=True, max_size=5), st.data())
def test_names_of_arrows_are_refused_exactly_if_two_edges_share_a_key(nodes, data):
    pairs = [(s, t) for i, s in enumerate(nodes) for t in nodes[i + 1 :]]
    edges = data.draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    document = profile(nodes, edges, version=None)
    if len({f"{source}->{target}" for source, target in edges}) == len(edges):
        check_consistency(document)
    else:
        assert "share the key" in refusal(document).message
