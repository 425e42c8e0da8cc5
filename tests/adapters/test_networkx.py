import pytest

from dagprofiler import DAG, Config, CycleError, DeclarationError, GraphError, Task

networkx = pytest.importorskip("networkx")


def graph_of(nodes, edges=(), attribute="task"):
    graph = networkx.DiGraph()
    for name, held in nodes.items():
        graph.add_node(name, **({} if held is None else {attribute: held}))
    for source, target, *fields in edges:
        graph.add_edge(source, target, **({"data_fields": fields[0]} if fields else {}))
    return graph


class Divide(Task):
    inputs = ["above", "below"]
    outputs = ["quotient"]

    def compute(self, above, below):
        return {"quotient": above / below}


class Two(Divide):
    outputs = ["p", "q"]


def one():
    return 1


def four(cfg):
    return cfg.N


def subtract(left, right=0):
    return left - right


THREE = {"left": one, "x": one, "b": subtract}


@pytest.mark.parametrize(
    ("target", "edges", "result"),
    [
        (lambda one, four: four - one, [("one", "last"), ("four", "last")], 3),
        (lambda left: left, [("four", "last")], 4),
        (subtract, [("one", "last", {"one": "right"}), ("four", "last", {"four": "left"})], 3),
        (subtract, [("one", "last", []), ("four", "last", {"four": "left"})], 4),
        (Divide, [("one", "last", {"one": "below"}), ("four", "last", {"four": "above"})], 4.0),
        (Divide(), [("one", "last", {"one": "above"}), ("four", "last", {"four": "below"})], 0.25),
    ],
)
def test_edges_carry_what_they_say_or_the_names_that_tasks_share(target, edges, result):
    graph = graph_of({"one": one, "four": four, "last": target}, edges, "call")
    profile = DAG.from_networkx(graph, Config(N=4), task="call").run()
    assert list(profile.outputs["last"].values()) == [result]
    # Nodes need not be names.
    graph = graph_of({(2, 3): lambda: 5, 1: lambda value: value - 1}, [((2, 3), 1)])
    assert DAG.from_networkx(graph).run().outputs == {"1": {"value": 4}}


@pytest.mark.parametrize(
    ("nodes", "edges", "error", "words"),
    [
        ({"a": one, "b": None}, [], GraphError, ["'b'", "'task'"]),
        ({"a": one, "b": 3}, [], DeclarationError, ["'b'", "3"]),
        ({"a": one, "b": max}, [("a", "b")], DeclarationError, ["'b'", "max()"]),
        ({1: one, "1": one}, [], GraphError, ["1", "'1'"]),
        ({"a": one, "b": one}, [("a", "b")], GraphError, ["'a' -> 'b'", "parameters []"]),
        (THREE, [("left", "b"), ("x", "b")], GraphError, ["'x' -> 'b'", "'data_fields'"]),
        (
            {"a": Two, "b": subtract},
            [("a", "b")],
            GraphError,
            ["'b'", "['left', 'right']", "['p', 'q']"],
        ),
        ({"a": subtract, "b": one}, [("a", "b"), ("b", "a")], CycleError, ["'a' -> 'b' -> 'a'"]),
    ],
)
def test_from_networkx_names_the_node(nodes, edges, error, words):
    with pytest.raises(error) as caught:
        DAG.from_networkx(graph_of(nodes, edges))
    assert not [word for word in words if word not in str(caught.value)]
    for other in (networkx.Graph(graph_of(nodes)), networkx.MultiDiGraph(), {"a": ["b"]}):
        with pytest.raises(GraphError, match="DiGraph"):
            DAG.from_networkx(other)
