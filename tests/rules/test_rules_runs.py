"""Growing graphs in all kinds of runs."""

import gc
import sys
import threading
import weakref
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import nullcontext

import pytest
from handmade import edge_bytes, failure
from hypothesis import given
from hypothesis import strategies as st

from dagprofiler import DAG, GraphError, Profile, Rounds, RunError, Task, rng, task
from dagprofiler.rules import Rule, after, all_succeeded, complete, map_over, reduce


@pytest.fixture(params=[None, ThreadPoolExecutor, ProcessPoolExecutor])
def executor(request):
    with nullcontext() if request.param is None else request.param(2) as pool:
        yield pool


class Node(Task):
    """Names what it received, in order."""

    inputs = gathers = ["x", "size"]
    outputs = ["x", "size"]

    def __init__(self, number):
        super().__init__()
        self.number = number

    def compute(self, x, size):
        return {"x": (self.number, *x, *size), "size": b"s" * self.number, "beside": 1}

    @staticmethod
    def estimate_instructions(cfg):
        return 7


@task(outputs=["items"])
def lists(items):
    return {"items": items}


@task(outputs=["x"])
def takes(item):
    return {"x": item}


@task(outputs=["x"], gathers=["x"])
def adds(x):
    return {"x": sum(x)}


@task(outputs=["x"])
def fails(x=None):
    raise RuntimeError("no luck")


@task(outputs=["x"])
def fails_if_odd(item):
    return {"x": item} if item % 2 == 0 else 1 / 0


@task(outputs=["x"])
def draws(item):
    return {"x": int(rng().integers(1 << 30))}


@st.composite
def programs(draw):
    """Draw the edges of a DAG, and in which pieces its tasks come."""
    count = draw(st.integers(1, 9))
    edges = [
        (i, j, draw(st.sampled_from([["x"], [], ["x", "size"]])))
        for j in range(count)
        for i in range(j)
        if draw(st.booleans())
    ]
    cuts = draw(st.sets(st.integers(0, count)))
    return count, edges, sorted({0, *cuts, count})


def piecewise(names, edges, cuts):
    """Return a DAG of which each piece is added by a rule behind the one before."""

    def edges_to(begin, end):
        return [(names[i], names[j], fields) for i, j, fields in edges if begin <= j < end]

    def piece(begin, end, *following):
        def body(graph):
            for number in range(begin, end):
                graph.add_task(names[number], Node(number))
            for edge in edges_to(begin, end):
                graph.add_edge(*edge)
            if following:
                graph.add_rule(piece(end, *following))

        return Rule(after(*names[max(0, begin - 2) : begin]), body, reads=names)

    _, end, *following = cuts
    tasks = {names[i]: Node(i) for i in range(end)}
    return DAG(tasks, edges_to(0, end), rules=[piece(end, *following)] if following else [])


def said(profile):
    """Return what two profiles of the same graph have in common."""
    metrics, names = profile.metrics, set(profile.dag_structure["execution_order"])
    tasks = {one.task: (one.bytes_in, one.bytes_out) for one in metrics.task_metrics}
    edges = {ends: (*sizes, {*fields}) for ends, (*sizes, fields) in edge_bytes(profile).items()}
    return names, profile.outputs, tasks, edges, metrics.node_weights, metrics.edge_weights


@given(programs())
def test_a_graph_that_comes_in_pieces_is_the_graph_given_whole(program):
    count, edges, cuts = program
    names = [f"t{i}" for i in range(count)]
    whole = piecewise(names, edges, [0, count]).run(keep=names)
    grown = piecewise(names, edges, cuts).run(keep=names)
    assert said(grown) == said(whole)
    assert Profile.loads(grown.dumps()) == grown


def map_reduce(items, task=takes, producer=lists):
    rules = [map_over("list", "items", task, name="p"), reduce("p", adds, name="sum")]
    return DAG({"list": producer.bind(items=items)}, rules=rules)


def test_a_map_and_its_merge_run_on_all_executors(executor):
    dag = map_reduce([*range(50)], draws)
    # What is kept may come later, or never.
    asked = {"seed": 5, "keep": ["p[1]", "list", "p[2]", "p[70]"]}
    profile = dag.run(**asked, executor=executor)
    assert said(profile) == said(dag.run(**asked))
    assert [*profile.outputs] == ["list", "p[1]", "p[2]", "sum"]
    # Each task that is added has its own stream.
    assert profile.outputs["p[1]"] != profile.outputs["p[2]"]
    records = profile.sections["origins"]["records"]
    assert [row[0] for row in records] == [*[f"p[{i}]" for i in range(50)], "sum"]
    ready = {row[0]: row[3] for row in profile.sections["timeline"]["records"]}
    assert all(ready[name] >= at_ms for name, _, _, at_ms in records if name != "sum")
    assert "rules_ms" in profile.sections["run"]["overhead"]
    # A run leaves the DAG as it was.
    assert list(dag.tasks) == ["list"]
    assert list(dag.run(executor=executor).outputs) == ["sum"]


def test_what_comes_behind_a_failure_is_skipped(executor):
    error = failure(map_reduce([0, 1, 2], fails_if_odd), on_error="finish", executor=executor)
    assert list(error.failures) == ["p[1]"]
    states = error.profile.sections["run"]["tasks"]
    assert states["sum"] == {"state": "skipped"}
    assert states["p[1]"]["state"] == "failed"
    assert [one.task for one in error.profile.metrics.task_metrics] == ["list", "p[0]", "p[2]"]


def test_what_is_added_behind_a_failure_is_skipped_at_once(executor):
    def body(graph):
        graph.add_task("x", Node(1), after=["bad", "a"])
        graph.add_task("y", Node(1), after="x")

    rule = Rule(lambda g: g["bad"].ended and g["c"].ended, body, "b", reads=["a", "bad"])
    dag = DAG({"a": Node(1), "bad": fails, "c": Node(1)}, [("a", "c")], rules=[rule])
    profile = failure(dag, on_error="finish", executor=executor).profile
    states = profile.sections["run"]["tasks"]
    found = {name: one["state"] for name, one in states.items()}
    assert found == {"bad": "failed", "x": "skipped", "y": "skipped"}


def test_rules_that_wait_for_a_failed_task_never_fire():
    asked = []
    dag = DAG({"a": fails, "b": Node(1)}, rules=[Rule(lambda g: asked.append(1) or False, print)])
    failure(dag)
    assert asked == [1]
    wait = [map_over("list", "x", takes, name="p"), reduce("p", adds)]
    wait.append(Rule(all_succeeded("p"), print, "all"))
    more = Rule(after("a"), lambda g: g.add_task("more", Node(2), after="a"))
    dag = DAG({"a": Node(1), "list": fails}, rules=[*wait, more])
    error = failure(dag, on_error="finish")
    assert list(error.failures) == ["list"]
    # What is independent of the failure grows and finishes.
    assert list(error.profile.outputs) == ["more"]
    unfired = error.profile.sections["origins"]["never_fired"]
    assert [one["rule"] for one in unfired] == ["map p", "reduce adds", "all"]
    assert unfired[0] == {"round": 0, "rule": "map p", "reason": "task 'list' has failed"}
    printed = str(error.profile)
    assert "\nrule 'map p' never fired: task 'list' has failed" in printed
    assert printed.count("never fired") == 3


@pytest.mark.parametrize("rounds", [1, 2])
@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_what_a_rule_raises_ends_its_round_which_is_kept(error, rounds):
    fired = []

    def body(graph):
        fired.append(graph)
        if len(fired) == rounds:
            raise error
        graph.add_task("b", Node(1))

    with pytest.raises((error, RuntimeError)) as caught:
        DAG({"a": Node(1)}, rules=[Rule(after("a"), body)]).run(rounds=Rounds(rounds, warmup=0))
    profile = caught.value.profile
    assert error.__name__ in profile.run.reason
    assert profile.run.state == "partial"
    assert "a" in {one.task for one in profile.metrics.task_metrics}
    assert profile.run.tasks == ({"b": {"state": "cancelled", "round": 1}} if rounds > 1 else {})


def test_in_each_round_the_graph_grows_anew():
    profile = map_reduce([1, 2, 3]).run(rounds=5, meters="default")
    assert profile.dag_structure["nodes"] == ["list", "p[0]", "p[1]", "p[2]", "sum"]
    sections = profile.sections
    assert (len(sections["origins"]["records"]), sections["run"]["rounds"]) == (7 * 4, 5)
    assert sections["statistics"]["tasks"]["p[1]"]["wall_ms"]["n"] == 5


@pytest.mark.parametrize("lengths", [(1, 3, 2), (3, 1, 2), (0, 1, 0)])
def test_a_task_that_is_not_in_every_round_is_named(lengths):
    left = iter(lengths)
    varies = task(outputs=["items"])(lambda items: {"items": [*range(next(left))]})
    with pytest.raises(GraphError, match=rf"'p\[{min(lengths[:2])}\]'") as caught:
        map_reduce([], producer=varies).run(rounds=Rounds(3, warmup=0))
    profile = caught.value.profile
    run = profile.sections["run"]
    assert (run["state"], run["rounds"]) == ("partial", 1)
    names = [f"p[{i}]" for i in range(lengths[0])]
    assert set(profile.dag_structure["nodes"]) == {"list", "sum", *names}
    assert Profile.loads(profile.dumps()) == profile


def test_edges_that_differ_between_rounds_are_refused():
    turns = iter("ab")
    turn = task(outputs=["x"])(lambda: {"x": [next(turns)]})

    def body(graph):
        graph.add_task("end", Node(3), after=graph["t"].output("x"))

    rules = [Rule(after("t"), body, reads=["a", "b"])]
    with pytest.raises(GraphError, match="'end'"):
        DAG({"t": turn, "a": Node(1), "b": Node(2)}, rules=rules).run(rounds=Rounds(2, warmup=0))


@pytest.mark.slow
def test_rounds_in_new_processes_grow_there():
    dag = map_reduce([1, 2])
    profile = dag.run(rounds=Rounds(2, warmup=0, fresh_process=True), keep=["p[0]"])
    assert profile.outputs == {"p[0]": {"x": 1}, "sum": {"x": 3}}
    assert len(profile.sections["origins"]["records"]) == 2 * 3
    error = failure(map_reduce(3), rounds=Rounds(2, warmup=0, fresh_process=True))
    assert list(error.failures) == ["rule 'map p'"]


def test_profiles_of_graphs_that_grew_differently_are_compared():
    one, three = map_reduce([1]).run(), map_reduce([1, 2, 3]).run()
    difference = one.compare(three)
    assert difference["only_in_other"] == ["p[1]", "p[2]"]
    assert "only_in_self" not in difference
    assert "only in base, so not compared: p[1], p[2]" in str(difference)
    assert three.compare(one)["only_in_self"] == ["p[1]", "p[2]"]


def test_the_graph_at_a_moment_can_be_had_from_the_profile():
    profile = map_reduce([1, 2]).run()
    loaded = Profile.loads(profile.dumps())
    moments = [one["at_ms"] for one in profile.sections["origins"]["fired"]]
    before = loaded.dag_structure_at(moments[0] - 1e-6)
    assert before == {"nodes": ["list"], "edges": [], "execution_order": ["list"]}
    between = loaded.dag_structure_at(moments[0])
    assert between["nodes"] == ["list", "p[0]", "p[1]"]
    assert [edge["target"] for edge in between["edges"]] == ["p[0]", "p[1]"]
    assert loaded.dag_structure_at(moments[1]) == loaded.dag_structure


def test_a_chain_of_rules_is_no_recursion():
    def link(i):
        def body(graph):
            graph.add_task(f"c{i}", adds, after=f"c{i - 1}")
            if i < 1500:
                graph.add_rule(link(i + 1))

        return Rule(after(f"c{i - 1}"), body, f"link {i}")

    assert sys.getrecursionlimit() <= 1500
    profile = DAG({"c0": adds}, rules=[link(1)]).run()
    assert len(profile.dag_structure["nodes"]) == 1501


def test_tasks_are_added_while_others_run():
    go = threading.Event()

    waits = task(outputs=["x"])(lambda: {"x": go.wait(20)})
    lets = task(outputs=["x"])(lambda x: go.set() or {"x": x})
    rule = Rule(after("quick"), lambda g: g.add_task("lets", lets, after="quick"), "r")
    dag = DAG({"quick": takes.bind(item=0), "waits": waits}, rules=[rule])
    with ThreadPoolExecutor(2) as pool:
        assert dag.run(executor=pool).outputs == {"lets": {"x": 0}, "waits": {"x": True}}


def test_a_wrong_name_and_a_tag_that_is_complete_are_known_early():
    order = []
    notes = task(outputs=["x"])(lambda item: order.append(item) or {"x": item})
    error = failure(DAG({"a": notes.bind(item=0)}, rules=[Rule(after("c"), print, "wrong")]))
    assert [*error.failures] == ["rule 'wrong'"]
    assert order == []
    rules = [
        map_over("list", "items", notes, name="p"),
        Rule(complete("p"), lambda graph: order.append("rule")),
    ]
    DAG({"list": lists.bind(items=[1, 2])}, rules=rules).run()
    assert order == ["rule", 1, 2]


def test_values_go_when_nobody_needs_them_any_more():
    kept, graphs = [], []

    def look(graph):
        kept.append([handle is not None for handle in graph._graph.current.slots.handles[:2]])
        graphs.append(weakref.ref(graph._graph))

    def add(graph):
        look(graph)
        graph.add_task("end", lists.bind(items=[]), after=[("a", [])])
        graph.add_rule(Rule(after("end"), look, "last"))

    gc.disable()
    try:
        tasks = dict.fromkeys("ab", lists.bind(items=b"x" * 1000))
        DAG(tasks, rules=[Rule(after("a", "b"), add)]).run()
    finally:
        gc.enable()
    # Nothing takes the output of `a` any more; `b` is an exit task.
    assert kept == [[True, True], [False, True]]
    assert graphs[0]() is None, "the graph waits for the garbage collector"


@task(outputs=["x"])
def succeeds():
    return {"x": 1}


def test_a_misspelt_name_is_told_although_another_is_pending():
    misspelt = Rule(after("frist", "first"), lambda graph: None, name="misspelt")
    dag = DAG({"first": succeeds, "other": fails}, rules=[misspelt])
    with pytest.raises(RunError) as caught:
        dag.run(on_error="finish")
    assert "no task 'frist'; did you mean 'first'?" in str(caught.value.failures["rule 'misspelt'"])
