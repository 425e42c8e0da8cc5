from __future__ import annotations

import pickle
import re
from functools import partialmethod, wraps
from itertools import zip_longest

import numpy as np
import pytest

from dagprofiler import (
    DAG,
    ORDER_ONLY,
    Config,
    DagProfilerError,
    DeclarationError,
    GraphError,
    Profile,
    SerializationError,
    Task,
    ValidationError,
    task,
)
from dagprofiler.serializers import PickleSerializer


def make(name, outputs=(), inputs=(), gathers=(), compute=None):
    """Return a task class that passes on which inputs it got, or uses `compute`."""

    def report(self, cfg, **fields):
        return {field: {self.label: fields} for field in outputs}

    body = {
        "outputs": list(outputs),
        "inputs": list(inputs),
        "gathers": list(gathers),
        "label": name,
        "compute": compute or report,
    }
    return type(name, (Task,), body)


def constant(**outputs):
    return make("Constant", outputs, compute=lambda self: outputs)


def received(dag, **arguments):
    """Return what the compute() of the last task got."""
    (value,) = dag.run(**arguments).final_outputs.values()
    (fields,) = value.values()
    return fields


Sink = make("Sink", ["got"], ["x", "y"])


def refused(*arguments, error=GraphError, **options):
    with pytest.raises(error) as caught:
        DAG(*arguments, **options)
    return str(caught.value)


def problems(dag, **arguments):
    """Return the words on all problems, which validate() and run() agree on."""
    with pytest.raises(ValidationError) as from_validate:
        dag.validate(**arguments)
    with pytest.raises(ValidationError) as from_run:
        dag.run(**arguments)
    assert str(from_validate.value) == str(from_run.value)
    return [str(problem) for problem in from_run.value.problems]


def assert_problems(dag, *, says, **arguments):
    """Check that there is a problem for each of these patterns, in their order."""
    for problem, pattern in zip_longest(problems(dag, **arguments), says, fillvalue=""):
        assert re.search(pattern or "^$", problem)


# Tasks and their names


def test_tasks_may_be_given_as_classes():
    dag = DAG({"a": constant(x=1), "b": Sink()}, [("a", "b")])
    assert all(isinstance(node, Task) for node in dag.tasks.values())
    assert received(dag) == {"x": 1}


def test_tasks_keep_the_order_in_which_they_are_given():
    dag = DAG({"b": constant(x=1), "a": constant(x=2)})
    assert list(dag.tasks) == ["b", "a"]
    assert dag.run().dag_structure["nodes"] == ["b", "a"]
    assert dag.execution_order == ["a", "b"]


@pytest.mark.parametrize("given", [3, None, "Sink", dict, Config(N=1)])
def test_what_is_no_task_is_refused(given):
    assert refused({"a": given}, error=DeclarationError) == (
        f"task 'a': expected a Task or a class of them, got {given!r}"
    )


def test_a_class_that_needs_arguments_is_refused():
    class Needs(Sink):
        def __init__(self, size):
            super().__init__()

    message = refused({"a": Needs}, error=DeclarationError)
    assert message.startswith("task 'a': cannot make an instance of 'Needs': ")
    assert "size" in message


# Edges


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        (3, "is not a name"),
        (None, "is not a name"),
        ("", "cannot be a keyword argument"),
        ("two words", "cannot be a keyword argument"),
        ("class", "cannot be a keyword argument"),
        ("cfg", "is reserved by compute()"),
        ("self", "is reserved by compute()"),
    ],
)
def test_an_edge_cannot_feed_what_is_no_keyword_argument(name, problem):
    assert refused({"a": constant(x=1), "b": Sink}, [("a", "b", {"x": name})]) == (
        f"edge 'a' -> 'b': input {name!r} {problem}"
    )


# Which fields travel


@pytest.mark.parametrize("timeout", ["soon", 0, -1.0, float("nan"), float("inf"), [1]])
def test_a_timeout_is_a_number_of_seconds_above_0(timeout):
    with pytest.raises(ValidationError, match=r"timeout must be .* above 0"):
        DAG({"a": constant(x=1)}).run(timeout=timeout)


# Fan-in


def test_many_producers_are_counted_and_some_are_named():
    tasks = {f"a{i}": constant(x=i) for i in range(9)}
    dag = DAG({**tasks, "c": Sink}, [(name, "c") for name in tasks])
    assert_problems(
        dag, says=[r"task 'c': input 'x'.* 9 .*: 'a0', 'a1', 'a2', 'a3', 'a4', \.\.\.; .*'gathers'"]
    )


Gather = make("Gather", ["got"], ["x"], ["x"])


def test_gathered_inputs_arrive_in_the_order_of_the_edges():
    tasks = {"a": constant(x=1), "b": constant(x=2), "c": constant(x=3), "z": Gather}
    dag = DAG(tasks, [("c", "z"), ("a", "z"), ("b", "z")])
    assert received(dag) == {"x": [3, 1, 2]}


def test_a_gathered_input_without_producers_is_an_empty_list():
    assert received(DAG({"z": Gather})) == {"x": []}


def test_fields_are_renamed_into_a_gathered_input():
    dag = DAG(
        {"a": constant(p=1, q=2), "b": constant(x=3), "z": Gather},
        [("a", "z", {"q": "x"}), ("b", "z"), ("a", "z", {"p": "x"})],
    )
    assert received(dag) == {"x": [2, 3, 1]}


def test_gathered_lists_are_not_shared():
    def grow(self, x):
        x.append(0)
        return {"got": {"": {"x": x}}}

    grows = make("Grows", ["got"], ["x"], ["x"], compute=grow)
    dag = DAG({"a": constant(x=1), "y": grows, "z": grows}, [("a", "y"), ("a", "z")])
    assert dag.run().outputs == {n: {"got": {"": {"x": [1, 0]}}} for n in "yz"}


def test_an_instance_may_choose_what_it_gathers():
    alike, other = Gather(), Gather()
    other.gathers = []
    tasks = {"a": constant(x=1), "b": constant(x=2), "y": alike, "z": other}
    edges = [(source, target) for source in "ab" for target in "yz"]
    assert_problems(DAG(tasks, edges), says=["task 'z': input 'x'.* 2 .*: 'a', 'b'; .*'gathers'"])


# What validate() finds


def test_the_constructor_leaves_inputs_to_validate():
    dag = DAG({"b": make("Needs", ["y"], ["x"], compute=lambda self, x: {"y": x})})
    assert_problems(dag, says=[r"task 'b': compute\(\) needs 'x'"])


def test_validate_of_a_valid_dag_says_nothing_and_runs_nothing():
    ran = []
    dag = DAG({"a": make("A", ["x"], compute=lambda self: ran.append(1) or {"x": 1})})
    assert dag.validate() is None
    assert ran == []


def test_unexpected_inputs_are_named_with_their_source_and_the_nearest_name():
    takes = make("Takes", ["y"], ["data"], compute=lambda self, data=0, *, cfg: {"y": data})
    dag = DAG({"a": constant(dat=1), "b": takes}, [("a", "b")])
    assert_problems(
        dag, says=[r"task 'b': .* not take 'dat' .*'a' \(.*'data'\); .*'data'\?; .*\[\]"]
    )


@pytest.mark.parametrize(
    "compute",
    [
        lambda self, x: {"got": x},
        lambda self, x, y=2: {"got": x},
        lambda self, x, *, y=2, cfg=None: {"got": x},
        lambda self, *args, x: {"got": x},
        lambda self, **fields: {"got": fields["x"]},
        lambda self, cfg, x=0, **fields: {"got": x},
    ],
)
def test_what_binds_to_the_signature_is_fine(compute):
    dag = DAG({"a": constant(x=1), "b": make("B", ["got"], compute=compute)}, [("a", "b")])
    assert dag.run().final_outputs == {"got": 1}


def test_a_positional_only_parameter_cannot_be_fed():
    def compute(self, x, /):
        return {"y": x}

    dag = DAG({"a": constant(x=1), "b": make("B", ["y"], ["x"], compute=compute)}, [("a", "b")])
    assert_problems(
        dag,
        says=[
            r"task 'b': compute\(\) needs 'x, /'",
            r"task 'b': .* not take 'x' .*'a' \(.*'x, /'\); .*\[\]",
        ],
    )


@pytest.mark.parametrize("fields", [ORDER_ONLY, [], {}])
def test_an_edge_that_only_orders_provides_nothing(fields):
    needs = make("B", ["y"], ["x"], compute=lambda self, x: {"y": x})
    dag = DAG({"a": constant(x=1), "b": needs}, [("a", "b", fields)])
    assert dag.edge_fields == {("a", "b"): []}
    assert_problems(dag, says=[r"task 'b': compute\(\) needs 'x'"])


def test_a_gathered_input_that_compute_does_not_take_is_a_problem():
    dag = DAG({"b": make("B", ["y"], ["x"], ["x"], compute=lambda self: {"y": 1})})
    assert_problems(dag, says=[r"task 'b': .* not take 'x' \(.*nothing\); .*\[\]"])


def test_all_problems_are_found_at_once():
    needs = make("Needs", ["y"], ["x"], compute=lambda self, x: {"y": x})
    costly = make("Costly", ["y"], compute=lambda self: {"y": 1})
    costly.estimate_instructions = staticmethod(lambda cfg: -1)
    tasks = {
        "a": constant(x=1),
        "b": constant(x=2),
        "c": Sink,
        "d": needs,
        "e": needs,
        "f": constant(q=1),
        "g": costly,
        "h": costly,
    }
    dag = DAG(tasks, [("a", "c"), ("b", "c"), ("a", "f"), ("a", "e")])
    expected = [
        "task 'c': input 'x' has 2 producers: 'a', 'b'; list it in 'gathers' to receive all",
        "task 'd': compute() needs 'x', and nobody provides it",
        (
            "task 'f': compute() does not take 'x' from 'a' (it takes: nothing); "
            "an edge with fields [] only orders"
        ),
        "task 'g': estimate_instructions returned -1, expected 0 to 2**63 - 1",
        "task 'h': estimate_instructions returned -1, expected 0 to 2**63 - 1",
    ]
    assert sorted(problems(dag)) == expected
    with pytest.raises(ValidationError) as caught:
        dag.validate()
    lines = str(caught.value).split("\n  - ")
    assert lines[0] == "5 problems:"
    assert sorted(lines[1:]) == expected
    assert isinstance(caught.value, GraphError)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_instances_with_a_compute_of_their_own_are_judged_by_it():
    def compute(x):
        return {"got": x}

    one, two = constant(got=1)(), constant(got=2)()
    one.compute = compute
    tasks = {"a": constant(x=5), "b": one, "c": two}
    assert DAG(tasks, [("a", "b")]).run().outputs == {"b": {"got": 5}, "c": {"got": 2}}
    assert_problems(DAG(tasks), says=[r"task 'b': compute\(\) needs 'x'"])


@pytest.mark.parametrize("names", ["ab", "ba"])
def test_alike_tasks_with_a_compute_of_another_kind_are_distinguished(names):
    class Call:
        def __call__(self, x):
            return {"got": x}

    plain = constant(got=2)
    called = plain()
    called.compute = Call()
    tasks = dict(zip(names, [plain(), called]))
    (name,) = (name for name, node in tasks.items() if node is called)
    profile = DAG(tasks).run(inputs={name: {"x": 5}})
    assert profile.outputs[name] == {"got": 5}
    assert sorted(fields["got"] for fields in profile.outputs.values()) == [2, 5]


# Values from outside the graph


def test_inputs_feed_fields_from_outside():
    dag = DAG({"b": Sink})
    array = np.arange(5)
    fields = received(dag, inputs={"b": {"x": array, "y": [1, 2]}})
    assert fields["x"].tolist() == [0, 1, 2, 3, 4]
    assert fields["x"] is not array
    assert fields["y"] == [1, 2]


def test_inputs_are_counted_as_bytes_in_but_are_no_edge():
    dag = DAG({"a": constant(x=1), "b": Sink}, [("a", "b")])
    profile = dag.run(inputs={"b": {"y": b"12345"}})
    sizes = len(Task.serialize(1)), len(Task.serialize(b"12345"))
    assert profile.metrics.task_metrics[1].bytes_in == sum(sizes)
    assert list(profile.metrics.edge_weights) == ["a->b"]


def test_inputs_of_unknown_tasks_are_a_problem():
    dag = DAG({"classify": Sink})
    assert_problems(dag, inputs={"clasify": {"x": 1}}, says=["^inputs: .*'clasify'; .*'classify'"])


def test_inputs_that_compute_does_not_take_are_a_problem():
    dag = DAG({"a": constant(x=1)})
    assert_problems(
        dag,
        inputs={"a": {"y": 1}},
        says=[r"task 'a': .* not take 'y' .*run\(inputs=.*\) \(.*nothing\); .*\[\]"],
    )


def test_an_input_from_an_edge_and_from_outside_has_two_producers():
    dag = DAG({"a": constant(x=1), "b": Sink}, [("a", "b")])
    assert_problems(
        dag,
        inputs={"b": {"x": 1}},
        says=[r"task 'b': input 'x'.* 2 .*: 'a', run\(inputs=.*\); .*'gathers'"],
    )


def test_an_input_that_is_gathered_and_given_is_a_problem():
    dag = DAG({"a": constant(x=1), "b": Gather}, [("a", "b")])
    assert_problems(dag, inputs={"b": {"x": [1]}}, says=["task 'b': input 'x' is gathered"])


def test_inputs_cannot_stand_in_for_cfg():
    (problem,) = problems(DAG({"b": Sink}), inputs={"b": {"cfg": Config()}})
    assert "'b'" in problem
    assert "'cfg'" in problem


@pytest.mark.parametrize("inputs", [3, [("b", {})], {"b": 3}, {"b": "x"}, {"b": {3: 1}}], ids=repr)
def test_inputs_of_another_form_are_refused(inputs):
    with pytest.raises(ValidationError, match="inputs"):
        DAG({"b": Sink}).run(inputs=inputs)


def test_a_gathered_input_may_be_given_whole():
    assert received(DAG({"b": Gather}), inputs={"b": {"x": [1, 2]}}) == {"x": [1, 2]}


def test_inputs_that_cannot_be_serialized_are_named():
    with pytest.raises(SerializationError) as caught:
        DAG({"b": Sink}).run(inputs={"b": {"x": lambda: None}})
    assert str(caught.value).startswith("inputs: 'x' of task 'b' (function) cannot be serialized: ")
    assert caught.value.__cause__ is not None


def test_inputs_that_a_serializer_makes_something_else_of_are_named():
    class Views(PickleSerializer):
        name = "views"
        dumps = staticmethod(lambda value: memoryview(pickle.dumps(value)))

    with pytest.raises(
        SerializationError, match=r"^inputs: 'x' of task 'b' \(int\) .*TypeError: .*memoryview"
    ):
        DAG({"b": Sink}, serializer=Views()).run(inputs={"b": {"x": 1}})


# Other arguments of run()


def test_on_error_must_be_one_of_its_words():
    with pytest.raises(ValidationError, match=r"^on_error .*'stop'.*'finish'.*'ignore'$"):
        DAG({}).run(on_error="ignore")


def test_keep_names_tasks():
    with pytest.raises(ValidationError, match=r"^keep: .*'colect'; .*'collect'"):
        DAG({"collect": Sink}).run(keep=["colect"])
    with pytest.raises(ValidationError, match=r"^keep .*'collect'; .*\['collect'\]"):
        DAG({"collect": Sink}).run(keep="collect")


# A run never changes the DAG


@task(inputs=[], outputs=["x", "unused"], estimate_fn=lambda cfg: cfg.N)
def source(cfg):
    return {"x": list(range(cfg.N)), "unused": 1}


@task(inputs=["x"], outputs=["x"], gathers=["x"])
def double(x, extra=0):
    if extra == "fail":
        raise ValueError
    return {"x": [2 * value for values in x for value in values]}


def test_a_run_never_changes_the_dag():
    def codes(dag):
        return [vars(node).copy() for node in dag.tasks.values()]

    dag = DAG(
        {"s": source, "d": double, "e": double},
        [("s", "d"), ("s", "e", {"x": "x"}), ("d", "e")],
        Config(N=4),
    )
    dag.run(inputs={"d": {"extra": 1}})
    before, attributes = vars(dag._wiring).copy(), codes(dag)
    text = repr([before, dag.edges, dag.reverse_edges, dag.edge_fields, dag.execution_order])
    for arguments in ({}, {"seed": 3}, {"keep": ["s"]}, {"inputs": {"d": {"extra": 2}}}):
        dag.run(**arguments)
        with pytest.raises(RuntimeError):
            dag.run(inputs={"e": {"extra": "fail"}})
        after = vars(dag._wiring)
        assert text == repr(
            [after, dag.edges, dag.reverse_edges, dag.edge_fields, dag.execution_order]
        )
        assert codes(dag) == attributes
    assert [m.bytes_in for m in dag.run().metrics.task_metrics] == [
        m.bytes_in for m in dag.run(keep=["d"], seed=1).metrics.task_metrics
    ]


# Tasks of unusual kinds


def test_partial_methods_of_two_classes_are_distinguished():
    class Scales(Task):
        inputs = ["x"]
        outputs = ["y"]

        def scaled(self, x, factor):
            return {"y": x * factor}

        compute = partialmethod(scaled, factor=3)

    class Shifts(Task):
        inputs = ["y"]
        outputs = ["z"]

        def shifted(self, y, by):
            return {"z": y + by}

        compute = partialmethod(shifted, by=1)

    tasks = {"a": constant(x=2), "b": Scales, "c": Shifts, "d": Shifts}
    profile = DAG(tasks, [("a", "b"), ("b", "c"), ("b", "d")]).run()
    assert profile.outputs == {"c": {"z": 7}, "d": {"z": 7}}


@pytest.mark.parametrize("names", ["bc", "cb"])
def test_a_function_is_a_method_in_one_class_and_static_in_another(names):
    def add(x, y=5):
        return {"got": y if isinstance(x, Task) else x + y}

    method, static = names
    as_method = make("Method", ["got"], ["y"], compute=add)
    as_static = make("Static", ["got"], ["x", "y"], compute=staticmethod(add))
    tasks = {"a": constant(x=1, y=2), method: as_method, static: as_static}
    profile = DAG(tasks, [("a", method), ("a", static)]).run()
    assert profile.outputs == {method: {"got": 2}, static: {"got": 3}}
    (problem,) = problems(DAG({"a": constant(x=1), method: as_method}, [("a", method)]))
    assert problem.startswith(f"task '{method}': compute() does not take 'x' from 'a'")


def test_a_wrapper_may_add_an_argument():
    def scaled(function):
        @wraps(function)
        def wrapper(self, x):
            return function(self, x, factor=3)

        return wrapper

    @scaled
    def compute(self, x, factor):
        return {"y": x * factor}

    kind = make("Scaled", ["y"], ["x"], compute=compute)
    assert DAG({"a": constant(x=2), "b": kind}, [("a", "b")]).run().final_outputs == {"y": 6}
    assert kind().run({"x": 2})["outputs_raw"] == {"y": 6}


def passing_on(function):
    @wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


@pytest.mark.parametrize("times", [1, 2])
def test_a_wrapper_gets_cfg_only_if_what_it_wraps_takes_it(times):
    def without(self, x):
        return {"y": x}

    def with_cfg(self, x, cfg):
        return {"y": x * cfg.N}

    for _ in range(times):
        without, with_cfg = passing_on(without), passing_on(with_cfg)
    tasks = {
        "a": constant(x=2),
        "b": make("Without", ["y"], ["x"], compute=without),
        "c": make("With", ["y"], ["x"], compute=with_cfg),
    }
    dag = DAG(tasks, [("a", "b"), ("a", "c")], Config(N=4))
    assert dag.run().outputs == {"b": {"y": 2}, "c": {"y": 8}}


# Tasks that are replaced


def test_a_task_that_is_replaced_is_used():
    dag = DAG({"a": constant(x=1), "b": Sink}, [("a", "b")])
    dag.tasks["a"] = constant(x=2)()
    dag.tasks["b"] = make("Other", ["got"], ["x"], compute=lambda self, x: {"got": x + 10})()
    dag.validate()
    assert dag.run().final_outputs == {"got": 12}
    assert dag.run().final_outputs == {"got": 12}


def test_a_task_may_be_replaced_by_a_class():
    dag = DAG({"a": constant(x=1)})
    dag.tasks["a"] = constant(x=2)
    assert dag.run().final_outputs == {"x": 2}


def test_a_task_with_other_outputs_cannot_replace_one():
    dag = DAG({"a": constant(x=1)})
    dag.tasks["a"] = constant(y=2)()
    with pytest.raises(ValidationError, match=r"^task 'a' .*\['y'\].*\['x'\]"):
        dag.run()


def test_a_task_that_is_added_to_a_finished_dag_is_no_part_of_its_profile():
    dag = DAG({"a": constant(x=1)})
    dag.tasks["b"] = constant(y=2)()
    profile = dag.run()
    assert profile.dag_structure["nodes"] == profile.dag_structure["execution_order"] == ["a"]
    assert Profile.loads(profile.dumps()) == profile


def test_what_is_no_task_cannot_replace_one():
    dag = DAG({"a": constant(x=1)})
    dag.tasks["a"] = 5
    with pytest.raises(DeclarationError, match="task 'a': expected a Task"):
        dag.run()


# Arguments of the wrong form


def test_tasks_must_be_a_mapping():
    message = refused([Sink()], error=DeclarationError)
    assert message.startswith("tasks must be {name: task}, got [<Sink 'Sink'>]")


@pytest.mark.parametrize("edges", [{}, {"a": "b"}])
def test_edges_cannot_be_a_mapping(edges):
    message = refused({"a": Sink, "b": Sink}, edges)
    assert message == f"edges must be a list of (source, target), got {edges!r}"


def test_a_dag_and_a_task_say_what_they_are():
    dag = DAG({"a": constant(x=1), "b": Sink}, [("a", "b")])
    assert repr(dag) == "<DAG: 2 tasks, 1 edge>"
    assert repr(dag.tasks["b"]) == "<Sink 'Sink'>"
    assert repr(Sink(name="other")) == "<Sink 'other'>"


def test_a_task_that_was_taken_out_of_the_dag_is_named():
    dag = DAG({"a": Sink, "b": Sink})
    del dag.tasks["b"]
    for call in (dag.run, dag.validate):
        with pytest.raises(ValidationError, match="task 'b' was taken out"):
            call()


def test_a_dag_has_a_name_and_so_has_its_profile():
    dag = DAG({"a": constant()}, name="first")
    profile = dag.with_config({"n": 1}).run()
    again = Profile.loads(profile.dumps())

    assert dag.name == profile.name == again.name == again.metadata["name"] == "first"
    assert str(profile).startswith("first, 1 task, ")
    assert "'first'" in repr(dag)
    assert "'first'" in repr(profile)
    assert DAG({}).run().name is None


@pytest.mark.parametrize("name", ["", 7])
def test_a_name_is_a_text(name):
    with pytest.raises(DeclarationError, match=f"name .*{name!r}"):
        DAG({}, name=name)


Source = constant(x=1)


class NoClass:
    @property
    def __class__(self):
        raise RuntimeError("no class")


class NoHash:
    def __hash__(self):
        raise RuntimeError("no hash")


def test_a_task_that_replaces_another_after_a_run_is_checked_too():
    dag = DAG({"a": Source, "b": make("B", ["y"], ["x"], compute=lambda self, x: {"y": x})})
    dag = DAG(dag.tasks, [("a", "b")])
    dag.run()
    dag.tasks["b"] = make("B", ["y"], ["x"], compute=lambda self, x, z: {"y": z})()
    with pytest.raises(ValidationError, match="'z'"):
        dag.run()
    with pytest.raises(ValidationError, match="'w'"):
        DAG({"a": Source}).run(inputs={"a": {"w": 1}})


TAKES_ANYTHING = {
    "tasks": DAG,
    "task": lambda value: DAG({"a": value}),
    "edges": lambda value: DAG({"a": Source}, value),
    "edge": lambda value: DAG({"a": Source}, [value]),
    "source": lambda value: DAG({"a": Source, "b": Sink}, [(value, "b")]),
    "fields": lambda value: DAG({"a": Source, "b": Sink}, [("a", "b", value)]),
    "field": lambda value: DAG({"a": Source, "b": Sink}, [("a", "b", [value])]),
    "config": lambda value: DAG({"a": Source}, config=value),
    "rules": lambda value: DAG({"a": Source}, rules=value),
    "keep": lambda value: DAG({"a": Source}).run(keep=[value]),
    **{
        name: lambda value, name=name: DAG({"a": Source}).run(**{name: value})
        for name in (
            *("seed", "inputs", "rounds", "meters", "executor", "timeout", "hooks", "on_error"),
        )
    },
}


@pytest.mark.parametrize("argument", TAKES_ANYTHING)
@pytest.mark.parametrize("hostile", [NoClass, NoHash])
def test_an_argument_that_raises_when_it_is_looked_at_is_refused(argument, hostile):
    with pytest.raises(DagProfilerError):
        TAKES_ANYTHING[argument](hostile())


@pytest.mark.parametrize(
    "tasks",
    [
        {"x" * 10**6: make("Needs", ["y"], ["x"], compute=lambda self, x: {"y": x})},
        {"x" * 10**6: 3},
        {"x" * 10**6: make("Silent", ["x"], compute=len)},
    ],
    ids=["no input", "no task", "fails"],
)
def test_a_name_of_a_megabyte_is_cut_in_messages(tasks):
    with pytest.raises(DagProfilerError) as caught:
        DAG(tasks).run()
    assert len(str(caught.value)) < 2000
