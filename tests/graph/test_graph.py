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
        ends = {"a": Node(outputs=["data", "labels"]), "b": Node(inputs=["data"], outputs=["out"])}
        tasks = {**ends, "last": Node()}
    with pytest.raises(GraphError) as caught:
        DAG(tasks, edges)
    assert isinstance(caught.value, ValueError)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    "name", ["", 1, None, ("a",), "->", "a->b", "->a", "a->", "a\n", "a\x1b[31m", "a\u202e"]
)
def test_dag_refuses_wrong_names(name):
    wanted = "a printable, non-empty string without '->'"
    assert f"task name {name!r}: expected {wanted}" in message([], {name: Node()})


@pytest.mark.parametrize(
    ("edge", "carried"),
    [
        *((edge, ["x", "y"]) for edge in (("a", "b"), ["a", "b"], ("a", "b", None))),
        *((("a", "b", nothing), []) for nothing in ([], (), {})),
    ],
)
def test_an_edge_carries_what_the_names_share_or_only_orders(edge, carried):
    tasks = {"a": Node(outputs=["z", "x", "y"]), "b": Node(inputs=["y", "x", "w"])}
    assert DAG(tasks, [edge]).edge_fields == {("a", "b"): carried}


AB = "edge 'a' -> 'b': "
OUTPUTS = r"\(outputs: 'data', 'labels'\)"
NO_EDGES = ["ab", "abc", ("a",), (), None, 5, ("a", "b", [], []), {"a": 1, "b": 2}]
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


@pytest.mark.parametrize(
    ("edges", "expected"),
    [
        *(([e], rf"edge {re.escape(repr(e))}: expected \(source, target\) or ") for e in NO_EDGES),
        ([("a", "x")], "edge 'a' -> 'x': there is no task 'x'"),
        ([("a", "lst")], r"edge 'a' -> 'lst': there is no task 'lst'; did you mean 'last'\?"),
        ([("a", "a")], "edge 'a' -> 'a': a task cannot feed itself"),
        ([("last", "a", ["x"])], r".* field 'x' is not an output of 'last' \(outputs: none\)"),
        *(([("a", "b", fields)], f"{AB}{problem}") for fields, problem in WRONG_FIELDS),
        *(
            ([("a", "b", one), ["a", "b", other]], f".* given twice, both times with {common}$")
            for one, other, common in TWICE
        ),
    ],
)
def test_dag_refuses_wrong_edges_and_names_the_nearest(edges, expected):
    assert re.match(expected, message(edges))


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
