import re

import numpy as np
import pytest
from handmade import failure

from dagprofiler import DAG, Rule, Rules, Task, map_over, reduce, rule, task
from dagprofiler.errors import DeclarationError, GraphError, ValidationError
from dagprofiler.rules import after, complete, count, when_output


class Number(Task):
    outputs = ["n"]

    def __init__(self, n=0, tags=()):
        super().__init__()
        self.n, self.tags = n, list(tags)

    def compute(self):
        return {"n": self.n}


@task(outputs=["files"])
def finds(files):
    return {"files": files}


@task(outputs=["n"])
def double(n):
    return {"n": 2 * n}


@task(outputs=["total"], gathers=["n"])
def total(n):
    return {"total": list(n)}


@task(inputs=["file"], outputs=["n"])
def process(file):
    return {"n": len(file)}


def branch(name, condition):
    return Rule(
        when_output("check", "n", condition),
        lambda graph: graph.add_task(name, double, after="check", tags=["answer"]),
        name=name,
        adds=["answer"],
    )


def map_reduce(files):
    rules = [map_over("list", "files", process), reduce("process", total)]
    return DAG({"list": finds.bind(files=files)}, rules=rules)


@pytest.mark.parametrize(
    "items",
    [["x" * n for n in range(25)], [], ("a", "bb"), [b"a", b"b" * 1000], np.array(["a", "bb"])],
    ids=lambda items: f"{type(items).__name__} of {len(items)}",
)
def test_a_map_over_items_and_its_merge_take_three_lines(items):
    profile = map_reduce(items).run()
    assert profile.final_outputs == {"total": [len(item) for item in items]}
    mapped = [f"process[{i}]" for i in range(len(items))]
    assert profile.dag_structure["nodes"] == ["list", *mapped, "total"]
    # An edge to a mapped task carries its item alone.
    for i, (edge, item) in enumerate(zip(profile.metrics.edge_metrics, items)):
        assert (edge.source, edge.target, edge.data_fields) == ("list", mapped[i], [f"files[{i}]"])
        assert edge.wire_bytes == len(Task.serialize(item))
        assert edge.size_bytes == (len(item) if type(item) is bytes else edge.wire_bytes)


@pytest.mark.parametrize("items", ["text", {"a": 1}, {"a"}, 3])
def test_what_has_no_items_in_order_cannot_be_mapped(items):
    error = failure(map_reduce(items)).failures["rule 'map process'"]
    given = f"output 'files' of task 'list' is {type(items).__name__}, "
    assert str(error) == f"{given}expected a list or another iterable of items"


@task(inputs=["file", "n"], outputs=["n"])
def weigh(file, n):
    return {"n": n * len(file)}


def test_maps_and_merges_wait_for_the_sources_of_their_edges():
    @rule(after("first"))
    def add_factor(graph):
        graph.add_task("factor", Number(10))
        graph.add_rule(reduce("w", total, name="merge", after=graph["first"]))

    @rule(after("w[0]"))
    def add_last(graph):
        graph.add_task("last", Number(1))

    tasks = {"list": finds.bind(files=["a", "bb"]), "first": Number(3)}
    weights = map_over("list", "files", weigh, into="file", after="factor", name="w")
    rules = [weights, reduce("w", total, after="last"), add_factor, add_last]
    profile = DAG(tasks, rules=rules).run()
    assert profile.outputs["total"] == {"total": [1, 10, 20]}
    assert profile.outputs["merge"] == {"total": [3, 10, 20]}


def endless(name):
    def body(graph):
        graph.add_task(f"{name}+", double, after=name)
        graph.add_rule(endless(f"{name}+"))

    return Rule(after(name), body, "endless")


def adds_double(graph):
    graph.add_task("x", double, after="0")


IN_VAIN = {
    "a map behind no task": (
        [map_over("list", "files", weigh, into="file", after="facto")],
        "map weigh: ^there is no task 'facto'; did you mean 'factor'",
    ),
    "a map into either of two inputs": (
        [map_over("list", "files", weigh)],
        "map weigh: 'weigh': into=.*'files' .*'file', 'n'",
    ),
    "a map over no task": (
        [map_over("lst", "files", process), reduce("process", total)],
        "map process: ^there is no task 'lst'; did you mean 'list'",
    ),
    "a merge of a tag that no task can have": (
        [map_over("list", "files", process), reduce("proces", total)],
        "reduce total: .*'proces', .*; did you mean 'process'",
    ),
    "rules that wait for each other": (
        [Rule(complete("pdf"), print, name, adds=["pdf"]) for name in ("first", "second")],
        "first: another rule that may add tasks tagged 'pdf' did not fire",
    ),
    "strict rules of which one does not fire": (
        Rules([branch("small", lambda n: n < 3), branch("large", lambda n: n >= 3)], strict=True),
        "large: ^rule 'large' never fired: its predicate did not hold$",
    ),
    "a rule that is too late for an output": (
        [Rule(after("a"), lambda g: g.add_rule(Rule(after("0"), adds_double, "late")))],
        "late: 'late': outputs of task '0' are not kept for it; .*reads=",
    ),
    "a predicate that returns no bool": (
        [Rule(lambda g: None, print, "r")],
        "r: ^its predicate returned None, expected True or False$",
    ),
    "a rule that feeds itself tasks": (
        Rules([endless("a")], max_firings=7),
        "endless (8): ^rules have fired 7 times, which is the limit",
    ),
}


@pytest.mark.parametrize(("rules", "expected"), IN_VAIN.values(), ids=IN_VAIN)
def test_a_rule_that_fails_is_named_with_what_is_wrong(rules, expected):
    tasks = {"list": finds.bind(files=["a"]), "factor": Number(10, ["pdf"]), "0": Number()}
    name, _, message = expected.partition(": ")
    tasks.update({"0+": double, "a": Number(), "check": Number(1)})
    error = failure(DAG(tasks, [("0", "0+")], rules=rules))
    assert re.search(message, str(error.failures[f"rule '{name}'"]))


def test_two_maps_over_one_list_have_their_items_apart():
    def merge(graph):
        graph.add_task("m", total, after=[*graph.tasks("p"), *graph.tasks("q")])

    maps = [map_over("list", "files", process, name=name) for name in "pq"]
    rules = [*maps, Rule(complete("p"), merge, "m", reads=["q"])]
    dag = DAG({"list": finds.bind(files=["a", "bb"])}, rules=rules)
    assert dag.run().final_outputs == {"total": [1, 2, 1, 2]}


def test_views_show_names_tags_states_and_outputs():
    seen = []

    @rule(after("a"), reads=["a"], adds=["v"])
    def look(graph):
        one = graph["a"]
        seen.extend(["a" in graph, "x" in graph, one.name, one.tags, one.state, one.output("n")])
        seen.extend([[task.name for task in graph.tasks(*tags)] for tags in ((), ("t",), ("u",))])
        seen.extend([graph.count(), graph.count("u"), graph.config.k, repr(one)])
        # A view of an added task stands for its name.
        new = graph.add_task("new", double, after=one, tags=["v"])
        seen.append((new.name, new.tags, new.state, new.succeeded, new.ended, repr(new)))
        other = graph.add_task("other", double, after=[new])
        graph.add_rule(Rule(after(other), late, reads=[new]))

    def late(graph):
        seen.append(("new" in graph, graph["new"].output("n"), graph["new"].state))

    DAG({"b": Number(2, ["t"]), "a": Number(1, ["t", "u"])}, config={"k": 3}, rules=[look]).run()
    assert seen[:6] == [True, False, "a", ("t", "u"), "succeeded", 1]
    assert seen[6:13] == [["a", "b"], ["a", "b"], ["a"], 2, 1, 3, "<task 'a'>"]
    assert seen[13] == ("new", ("v",), "pending", False, False, "<task 'new'>")
    assert seen[14:] == [(True, 2, "succeeded")]


def test_a_body_that_has_returned_adds_nothing():
    kept = []
    # A bool of numpy holds too.
    dag = DAG({"a": Number()}, rules=[Rule(lambda g: np.bool_(g["a"].ended), kept.append, "r")])
    dag.run()
    with pytest.raises(GraphError, match=r"'r': .* has returned"):
        kept[0].add_task("b", Number())


def body_fails(body, tasks=None):
    rules = [Rule(after("a"), body, "r")]
    dag = DAG(tasks or {"a": Number(1), "z": Number()}, rules=rules)
    error = failure(dag, on_error="finish")
    assert error.task is None
    # The body is applied whole or not at all, and what is independent finishes.
    assert set(error.profile.dag_structure["nodes"]) == set(dag.tasks)
    assert set(error.profile.outputs) >= set(dag.tasks) - {"a"}
    assert str(error).startswith("rule 'r' failed: ")
    return str(error.failures["rule 'r'"])


def adding(*steps):
    def body(graph):
        graph.add_task("new", double, after="a")
        for method, *arguments in steps:
            getattr(graph, method)(*arguments)

    return body


class Listing(Number):
    adds = ["process"]

    def grow(self, graph):
        graph.map("list", "n", process, "process", tags=["process"])


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([("add_task", "a", double)], "task 'a' exists already"),
        ([("add_task", "x->y", double)], "task name 'x->y': expected a printable"),
        ([("add_task", "x", 3)], "task 'x': expected a Task or a class of them, got 3"),
        ([("add_task", "list", Listing())], "declare adds=['process']"),
        ([("add_task", "x", double), ("add_task", "y", double)], "2 problems:"),
        ([("add_edge", "new", "z")], "edge 'new' -> 'z': the target must be a task that the same"),
        ([("add_edge", "nn", "new")], "edge 'nn' -> 'new': there is no task 'nn'"),
        ([("add_edge", "a", "new")], "edge 'a' -> 'new' is given twice"),
        (
            [("add_task", "other", double, [("a", ["m"])])],
            "edge 'a' -> 'other': field 'm' is not an output of 'a' (outputs: 'n')",
        ),
        ([("add_task", "other", double)], "task 'other': compute() needs 'n', and nobody provides"),
        (
            [("add_task", "x", double, ["y"]), ("add_task", "y", double, ["x"])],
            "edge 'y' -> 'x': the source must be added before the target",
        ),
        ([("add_task", "x", double, "a", ["t"])], "declare adds=['t']"),
        ([("add_task", "x", double, [3])], "task 'x': after must be a list of tasks and pairs"),
        (
            [("add_rule", Rule(after("a"), print, "s", adds=["t"]))],
            "the rule may not add tag 't': declare adds=['t']",
        ),
        ([("map", "nn", "n", process, "p")], "there is no task 'nn'"),
    ],
)
def test_a_body_is_refused_with_names(steps, message):
    assert message in body_fails(adding(*steps))


def test_a_predicate_that_raises_fails_the_run_like_a_task():
    def broken(graph):
        return graph["a"].ended and 1 / 0

    # What it would have added is missing, and merged by nobody.
    rules = [Rule(broken, print, "r", adds=["t"]), reduce("t", total)]
    dag = DAG({"a": Number(1), "b": Number(2)}, rules=rules)
    error = failure(dag)
    assert isinstance(error.__cause__, ZeroDivisionError)
    run = error.profile.sections["run"]
    assert run["reason"] == "rule 'r' failed: ZeroDivisionError: division by zero"
    (never, _) = error.profile.sections["origins"]["never_fired"]
    assert re.search(r"ZeroDivisionError: .* \(.*test_rules.py:\d+\)$", never["reason"])
    assert run["tasks"] == {"b": {"state": "cancelled"}}
    error = failure(dag, on_error="finish")
    assert list(error.failures) == ["rule 'r'"]
    assert list(error.profile.outputs) == ["a", "b"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (lambda g: g["z"].output("n"), "^task 'z' has not succeeded: no output 'n'"),
        (lambda g: g["0"].output("n"), r"^rule 'r': .* '0' .* not kept .* reads=\['0'\], or a tag"),
        (lambda g: g.add_task("x", double, after="0"), r"not kept .* reads=\['0'\]"),
    ],
)
def test_outputs_that_a_rule_does_not_declare_are_not_read(body, message):
    tasks = {"a": Number(), "0": Number(), "z": Number()}
    assert re.search(message, body_fails(body, tasks))
    # An edge that only orders needs no declaration.
    ordered = Rule(after("a"), lambda g: g.add_task("x", Number(3), after=[("0", [])]))
    assert DAG(tasks, rules=[ordered]).run().outputs["x"] == {"n": 3}


def test_a_rule_may_wait_for_a_branch_that_is_not_taken():
    rules = [branch("large", lambda n: n > 3), Rule(after("large"), print, "behind")]
    rules += [Rule(lambda g: "large" in g, print, "there"), reduce("answer", total)]
    profile = DAG({"check": Number(1)}, rules=rules).run()
    assert profile.final_outputs == {"total": []}
    unfired = {one["rule"]: one["reason"] for one in profile.sections["origins"]["never_fired"]}
    assert unfired == {
        "large": "its predicate did not hold",
        "behind": "it still waited for task 'large'",
        "there": "its predicate did not hold",
    }


def test_merges_go_on_when_rules_before_them_wait_in_vain():
    rules = [branch("large", lambda n: n > 3), Rule(after("x"), print, "waits", adds=["t"])]
    late = Rule(complete("t"), lambda g: g.add_task("x", Number(7)), "late")
    profile = DAG({"check": Number(1)}, rules=[*rules, late]).run()
    assert profile.outputs["x"] == {"n": 7}
    assert profile.sections["run"]["state"] == "complete"
    unfired = {one["rule"]: one["reason"] for one in profile.sections["origins"]["never_fired"]}
    assert unfired["waits"] == "it still waited for task 'x'"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Rule(3, print), "'print': when .*got 3"),
        (lambda: Rule(print, print, "r", "tag"), "'r': adds must .*got 'tag'"),
        (lambda: Rule(print, print, "r", [], "a"), r"'r': reads must .*got 'a'"),
        (lambda: after(["a"]), r"after\(\) holds \['a'\], expected .*string"),
        (lambda: count("tag", "3"), r"count\(\): n .*got '3'"),
        *((lambda value=value: DAG({}, rules=value), "rules") for value in (3, "rule", [print])),
        (lambda: Rules([], max_firings=-1), "integer of at least 0"),
        (lambda: map_reduce([]).run(priorities={"list": 1}), "priorities"),
    ],
)
def test_a_wrong_argument_of_a_rule_is_refused(make, message):
    with pytest.raises((DeclarationError, ValidationError), match=message):
        make()


def test_a_task_may_add_a_graph_behind_itself():
    profile = DAG({"list": Listing(["a", "bb"])}, rules=[reduce("process", total)]).run()
    assert profile.final_outputs == {"total": [1, 2]}
    assert profile.sections["origins"]["fired"][0]["rule"] == "grow of list"
