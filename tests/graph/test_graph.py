import pickle
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagprofiler import DAG, CycleError, GraphError, Task
from dagprofiler.graph.replay import NO_OVERHEAD, _Cores
from dagprofiler.graph.wiring import kahn_order


class Node(Task):
    def __init__(self, inputs=(), outputs=()):
        super().__init__()
        self.inputs, self.outputs = list(inputs), list(outputs)

    def compute(self, **received):
        return dict.fromkeys(self.outputs)


def message(edges, tasks=None):
    """Return the GraphError's message that a DAG with these edges gives."""
    if tasks is None:
        tasks = {"a": Node(outputs=["data", "labels"]), "b": Node(inputs=["data"], outputs=["out"])}
    with pytest.raises(GraphError) as caught:
        DAG(tasks, edges)
    assert isinstance(caught.value, ValueError)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    "name", ["", 1, None, ("a",), "->", "a->b", "->a", "a->", "a\n", "a\x1b[31m", "a\u202e"]
)
def test_dag_refuses_wrong_names(name):
    wanted = "printable characters, without '->'" if name and str(name) == name else "a non-empty"
    assert f"task name {name!r}: expected {wanted}" in message([], {name: Node()})


@pytest.mark.parametrize("edge", [("a", "b"), ["a", "b"], ("a", "b", None)])
def test_an_edge_without_fields_carries_what_the_names_share(edge):
    tasks = {"a": Node(outputs=["z", "x", "y"]), "b": Node(inputs=["y", "x", "w"])}
    dag = DAG(tasks, [edge])
    assert dag.edge_fields == {("a", "b"): ["x", "y"]}


@pytest.mark.parametrize("nothing", [[], (), {}])
def test_an_edge_with_no_fields_only_orders(nothing):
    dag = DAG({"a": Node(inputs=["x"]), "z": Node(outputs=["x"])}, [("z", "a", nothing)])
    assert (dag.execution_order, dag.edge_fields) == (["z", "a"], {("z", "a"): []})
    assert dag.run().metrics.edge_weights == {"z->a": 0}


AB = "edge 'a' -> 'b': "
OUTPUTS = r"\(outputs: 'data', 'labels'\)"
REFUSED = [
    # What is no edge.
    *((edge, f"edge {edge!r}: expected (source, target) or ") for edge in ("ab", "abc", ("a",))),
    *((edge, f"edge {edge!r}: expected (source, target) or ") for edge in ((), None, 5)),
    (("a", "b", [], []), "edge ('a', 'b', [], []): expected (source, target) or "),
    ({"a": 1, "b": 2}, "edge {'a': 1, 'b': 2}: expected (source, target) or "),
    # Unknown tasks.
    (("a", "x"), "edge 'a' -> 'x': there is no task 'x'"),
    (("a", "lasst"), "edge 'a' -> 'lasst': there is no task 'lasst'; did you mean 'last'?"),
    (("a", "a"), "edge 'a' -> 'a': a task cannot feed itself"),
    (("b", "a", ["x"]), "edge 'b' -> 'a': field 'x' is not an output of 'b' (outputs: none)"),
]
WRONG_FIELDS = [
    *((fields, f"expected a list.*got {fields!r}$") for fields in ("data", 5, {"data"}, b"data")),
    *(([field], rf"field {re.escape(repr(field))} .*{OUTPUTS}") for field in (5, None, ["data"])),
    *(({"data": name}, f"input {re.escape(repr(name))} is not a name") for name in (5, None, [1])),
    *(({"data": name}, f"input '{name}' cannot be a key") for name in ("", "two words", "class")),
    *(({"data": name}, f"input '{name}' is reserved by compute") for name in ("cfg", "self")),
    (["dta"], rf"field 'dta' is not .*'a' {OUTPUTS}.*'data'\?$"),
    ({"label": "data"}, rf"field 'label' is not .*'a' {OUTPUTS}.*'labels'\?$"),
    (["data", "data"], "field 'data' is named twice$"),
]
#: The fields of two edges between the same tasks, and what both carry.
TWICE = [
    (None, None, "'data'"),
    ([], [], "no field"),
    (["data", "labels"], ["labels", "data"], "'data', 'labels'"),
    ({"labels": "y"}, {"labels": "x"}, "'labels'"),
]


@pytest.mark.parametrize(("edge", "expected"), REFUSED)
def test_dag_refuses_wrong_edges(edge, expected):
    tasks = {"a": Node(outputs=["data"]), "b": Node(inputs=["data"]), "last": Node()}
    assert message([edge], tasks).startswith(expected)


@pytest.mark.parametrize(("fields", "expected"), WRONG_FIELDS)
def test_wrong_fields_name_the_nearest_output(fields, expected):
    assert re.search(f"^{AB}{expected}", message([("a", "b", fields)]))


@pytest.mark.parametrize(("first", "second", "common"), TWICE)
def test_an_edge_given_twice_with_the_same_fields_is_refused(first, second, common):
    said = message([("a", "b", first), ["a", "b", second]])
    assert said == f"edge 'a' -> 'b' is given twice, both times with {common}"


def test_parallel_edges_become_one():
    tasks = {"a": Node(outputs=["x", "y", "z"]), "b": Node(), "c": Node(), "d": Node()}
    parallel = [("a", "b", ["z"]), ("a", "b", {"x": "w"})]
    dag = DAG(tasks, iter([("a", "d"), *parallel, ("a", "c"), ("b", "d"), ("c", "d")]))
    assert (dag.edges["a"], dag.edges["d"]) == (["d", "b", "c"], [])
    assert (dag.reverse_edges["d"], dag.reverse_edges["a"]) == (["a", "b", "c"], [])
    assert dag.edge_fields["a", "b"] == ["z", "x"]
    assert len(dag.run().dag_structure["edges"]) == 5


def test_a_cycle_error_holds_the_cycle_alone():
    tasks = {name: Node() for name in "abcdef"}
    edges = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "b"), ("d", "e"), ("e", "f")]
    with pytest.raises(CycleError) as caught:
        DAG(tasks, edges)
    assert caught.value.cycle == ["b", "c", "d", "b"]
    assert str(caught.value) == "tasks form a cycle: 'b' -> 'c' -> 'd' -> 'b'"
    names = [f"n{i:05}" for i in range(20_000)]
    with pytest.raises(CycleError) as caught:
        kahn_order(names, zip(names, [*names[1:], names[0]]))
    assert caught.value.cycle == [*names, names[0]]


NAMES = "abcdef"
PAIRS = [(source, target) for source in NAMES for target in NAMES if source != target]


@given(st.sets(st.sampled_from(PAIRS), max_size=9))
def test_a_graph_has_an_order_or_a_cycle(pairs):
    try:
        dag = DAG({name: Node() for name in NAMES}, [(*pair, []) for pair in pairs])
    except CycleError as error:
        cycle = error.cycle
        assert cycle[0] == cycle[-1] == min(cycle)
        assert len(set(cycle)) == len(cycle) - 1
        assert pairs.issuperset(zip(cycle, cycle[1:]))
    else:
        place = dag.execution_order.index
        assert all(place(source) < place(target) for source, target in pairs)


def test_a_replay_forgets_the_needs_of_tasks_that_have_ended():
    cores = _Cores(NO_OVERHEAD, workers=1)
    for i in range(9):
        needs = 1 / (i + 1), 0.0, 1.0
        cores.begin(i, needs, 1.0, print, i)
        assert cores.end(i + 1, cores.groups[needs]) == (print, i)
    assert len(cores.groups) == 1
