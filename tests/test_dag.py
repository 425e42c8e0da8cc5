import pickle
import re
from itertools import zip_longest

import numpy as np
import pytest

from dagprofiler import DAG, ORDER_ONLY, Config, Profile, Task, task
from dagprofiler.errors import DeclarationError, GraphError, SerializationError, ValidationError
from dagprofiler.serializers import PickleSerializer


def make(name, outputs=(), inputs=(), gathers=(), compute=None):
    """Return a task class that passes on which inputs it got, or uses `compute`."""

    def report(self, cfg, **fields):
        return {field: {self.label: fields} for field in outputs}

    declared = {"outputs": [*outputs], "inputs": [*inputs], "gathers": [*gathers]}
    return type(name, (Task,), {**declared, "label": name, "compute": compute or report})


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


def assert_problems(dag, *, says, **arguments):
    """Check that validate() and run() find a problem for each of these patterns, in their order."""
    with pytest.raises(ValidationError) as from_validate:
        dag.validate(**arguments)
    with pytest.raises(ValidationError) as from_run:
        dag.run(**arguments)
    assert str(from_validate.value) == str(from_run.value)
    for problem, pattern in zip_longest(from_run.value.problems, says, fillvalue=""):
        assert re.search(pattern or "^$", str(problem))


def test_tasks_may_be_given_as_classes_and_keep_their_order():
    dag = DAG({"a": constant(x=1), "b": Sink()}, [("a", "b")])
    assert all(isinstance(node, Task) for node in dag.tasks.values())
    assert received(dag) == {"x": 1}
    assert repr(dag) == "<DAG: 2 tasks, 1 edge>"
    assert repr(dag.tasks["b"]) == "<Sink 'Sink'>"
    assert repr(Sink(name="other")) == "<Sink 'other'>"
    dag = DAG({"b": constant(x=1), "a": constant(x=2)})
    # What is added later is no part of it.
    dag.tasks["c"] = constant(y=2)()
    profile = dag.run()
    assert profile.dag_structure["nodes"] == ["b", "a"]
    assert profile.dag_structure["execution_order"] == dag.execution_order == ["a", "b"]


class Calls(Task):
    """Calls a function of its own, which a property returns as its compute()."""

    outputs = ("value",)

    def __init__(self, function, *inputs):
        super().__init__()
        self.function, self.inputs = function, [*inputs]

    @property
    def compute(self):
        return self.function


def test_each_task_of_a_class_may_have_a_compute_of_its_own():
    tasks = {"a": Calls(lambda: {"value": 1}), "b": Calls(lambda value: {"value": -value}, "value")}
    assert DAG(tasks, [("a", "b")]).run().final_outputs == {"value": -1}


Needs = type("Needs", (Sink,), {"__init__": lambda self, size: None})


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        *(
            ({"a": given}, f"task 'a': expected a Task or a class of them, got {given!r}")
            for given in (3, None, "Sink", dict, Config(N=1))
        ),
        ({"a": Needs}, "task 'a': cannot make an instance of 'Needs': "),
        ([Sink()], "tasks must be {name: task}, got [<Sink 'Sink'>]"),
    ],
)
def test_dag_refuses_wrong_tasks_and_edges(tasks, message):
    assert refused(tasks, error=DeclarationError).startswith(message)
    for edges in ({}, {"a": "b"}):
        said = refused({"a": Sink, "b": Sink}, edges)
        assert said == f"edges must be a list of (source, target), got {edges!r}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        *(
            ({"timeout": value}, "timeout must be .* above 0")
            for value in ("soon", 0, -1.0, float("nan"), float("inf"), [1])
        ),
        ({"on_error": "ignore"}, "^on_error .*'stop'.*'finish'.*'ignore'$"),
        ({"keep": ["snk"]}, "^keep: .*'snk'; .*'sink'"),
        ({"keep": "sink"}, r"^keep .*'sink'; .*\['sink'\]"),
        *(({"keep": value}, "^keep .*3") for value in (3, [3])),
        *(({"inputs": value}, "inputs") for value in (3, [("sink", {})], {"sink": 3})),
        *(({"inputs": value}, "inputs") for value in ({"sink": "x"}, {"sink": {3: 1}})),
        ({"executor": "threads:2"}, r"as ThreadPoolExecutor\(2\) or .* got 'threads:2'"),
        ({"rounds": 0}, "Rounds: n must be .* at least 1 or 'auto', got 0"),
        ({"meters": ["default", "memory"], "rounds": 6}, "(?i)meter.*'memory'"),
    ],
    ids=repr,
)
def test_run_refuses_wrong_arguments(arguments, message):
    with pytest.raises(ValidationError, match=message):
        DAG({"sink": Sink}).run(**arguments)


Gather = make("Gather", ["got"], ["x"], ["x"])


def test_gathered_inputs_keep_the_order_of_edges():
    tasks = {"a": constant(x=1), "b": constant(x=2), "c": constant(x=3), "z": Gather}
    assert received(DAG(tasks, [("c", "z"), ("a", "z"), ("b", "z")])) == {"x": [3, 1, 2]}
    renamed = [("a", "z", {"q": "x"}), ("b", "z"), ("a", "z", {"p": "x"})]
    tasks = {"a": constant(p=1, q=2), "b": constant(x=3), "z": Gather}
    assert received(DAG(tasks, renamed)) == {"x": [2, 3, 1]}
    assert received(DAG({"z": Gather})) == {"x": []}
    assert received(DAG({"z": Gather}), inputs={"z": {"x": [1, 2]}}) == {"x": [1, 2]}
    grows = make("Grows", ["got"], ["x"], ["x"], lambda self, x: x.append(0) or {"got": x})
    dag = DAG({"a": constant(x=1), "y": grows, "z": grows}, [("a", "y"), ("a", "z")])
    assert dag.run().outputs == {name: {"got": [1, 0]} for name in "yz"}


def positional(self, x, /):
    return {"y": x}


def takes_x(self, x):
    return {"y": x}


NOT_GATHERING = Gather()
NOT_GATHERING.gathers = []
NINE = {f"a{i}": constant(x=i) for i in range(9)}
ONE = {"a": constant(x=1)}
NEEDS_X = make("NeedsX", ["y"], ["x"], compute=lambda self, x: {"y": x})
NEEDS = r"task 'b': compute\(\) needs 'x'"
TAKES = make("Takes", ["y"], ["data"], compute=lambda self, data=0, *, cfg: {"y": data})
PROBLEMS = {
    "an input that nobody provides": (DAG({"b": NEEDS_X}), {}, NEEDS),
    **{
        f"an edge with the fields {fields!r}, which only orders": (
            *(DAG({**ONE, "b": NEEDS_X}, [("a", "b", fields)]), {}, NEEDS),
        )
        for fields in ([], {}, ORDER_ONLY)
    },
    "an input that a task without an edge has": (
        *(DAG({**ONE, "b": NEEDS_X}), {}),
        "task 'b': .* needs 'x', .*; task 'a' has it as output, but no edge brings it here",
    ),
    "an input that is misspelt": (
        *(DAG({"a": constant(xs=1), "b": make("B", ["y"], compute=takes_x)}), {}),
        "task 'b': .* needs 'x', .*; did you mean 'xs'",
    ),
    "an input that is declared by another name": (
        *(DAG({"b": make("B", ["y"], ["z"], compute=takes_x)}), {}),
        "task 'b': .* needs 'x', .*; its declared inputs are 'z'",
    ),
    "many producers": (
        *(DAG({**NINE, "c": Sink}, [(name, "c") for name in NINE]), {}),
        r"task 'c': input 'x'.* 9 .*: 'a0', 'a1', 'a2', 'a3', 'a4' and 4 more; .*'gathers'",
    ),
    "one input of two outputs of a task": (
        *(DAG({"b": constant(x=1, y=2), "c": Sink}, [("b", "c", {"x": "x", "y": "x"})]), {}),
        "task 'c': input 'x'.* 2 producers: 'b', 'b'; .*'gathers'",
    ),
    "an instance that does not gather": (
        *(DAG({**ONE, "b": constant(x=2), "z": NOT_GATHERING}, [("a", "z"), ("b", "z")]), {}),
        "task 'z': input 'x'.* 2 .*: 'a', 'b'; .*'gathers'",
    ),
    "a name that is nearly right": (
        *(DAG({"a": constant(dat=1), "b": TAKES}, [("a", "b")]), {}),
        r"task 'b': .* not take 'dat' .*'a' \(.*'data'\); .*'data'\?; .*\[\]",
    ),
    "a positional-only parameter": (
        *(DAG({**ONE, "b": make("B", ["y"], ["x"], compute=positional)}, [("a", "b")]), {}),
        r"task 'b': compute\(\) needs 'x, /'",
        r"task 'b': .* not take 'x' .*'a' \(.*'x, /'\); .*\[\]",
    ),
    "a gathered input that compute() does not take": (
        *(DAG({"b": make("B", ["y"], ["x"], ["x"], compute=lambda self: {"y": 1})}), {}),
        r"task 'b': .* not take 'x' \(.*nothing\); .*\[\]",
    ),
    "inputs of an unknown task": (
        *(DAG({"classify": Sink}), {"clasify": {"x": 1}}),
        "^inputs: .*'clasify'; .*'classify'",
    ),
    "inputs that compute() does not take": (
        *(DAG(ONE), {"a": {"y": 1}}),
        r"task 'a': .* not take 'y' .*run\(inputs=.*\) \(.*nothing\); .*\[\]",
    ),
    "an input from an edge and from outside": (
        *(DAG({**ONE, "b": Sink}, [("a", "b")]), {"b": {"x": 1}}),
        r"task 'b': input 'x'.* 2 .*: 'a', run\(inputs=.*\); .*'gathers'",
    ),
    "an input that is gathered and given": (
        *(DAG({**ONE, "b": Gather}, [("a", "b")]), {"b": {"x": [1]}}),
        "task 'b': input 'x' is gathered",
    ),
    "cfg as an input": (DAG({"b": Sink}), {"b": {"cfg": Config()}}, "'b'.*'cfg'"),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_problem_is_named_with_its_task_field_and_sources(name):
    dag, inputs, *says = PROBLEMS[name]
    assert_problems(dag, inputs=inputs, says=says)


def test_all_problems_are_found_at_once():
    costly = make("Costly", ["y"], compute=lambda self: {"y": 1})
    costly.estimate_instructions = staticmethod(lambda cfg: -1)
    sources = {"a": constant(x=1), "b": constant(x=2), "f": constant(q=1)}
    tasks = {**sources, "c": Sink, "d": NEEDS_X, "e": NEEDS_X, "g": costly, "h": costly}
    dag = DAG(tasks, [("a", "c"), ("b", "c"), ("a", "f"), ("a", "e")])
    says = ["'c'.* 2 producers", "'d'.* needs 'x'", "'f'.* not take 'x'", "'g'.*-1", "'h'.*-1"]
    assert_problems(dag, says=[f"^task {pattern}" for pattern in says])
    with pytest.raises(ValidationError, match=r"^5 problems:\n  - task "):
        dag.validate()
    with pytest.raises(ValidationError) as caught:
        DAG({f"t{i:04d}": NEEDS_X for i in range(2000)}).validate()
    assert len(caught.value.problems) == 2000
    lines = str(caught.value).splitlines()
    assert (len(lines), lines[-1]) == (12, "  and 1,990 more")
    # It runs nothing.
    assert DAG({"a": make("A", ["x"], compute=lambda self: 1 / 0)}).validate() is None


def test_inputs_feed_fields_from_outside():
    dag = DAG({"b": Sink})
    array = np.arange(5)
    fields = received(dag, inputs={"b": {"x": array, "y": [1, 2]}})
    assert fields["x"].tolist() == [0, 1, 2, 3, 4]
    assert fields["x"] is not array
    assert fields["y"] == [1, 2]
    # They count as bytes that come in, but are no edge.
    dag = DAG({"a": constant(x=1), "b": Sink}, [("a", "b")])
    profile = dag.run(inputs={"b": {"y": b"12345"}})
    sizes = len(Task.serialize(1)), len(Task.serialize(b"12345"))
    assert profile.metrics.task_metrics[1].bytes_in == sum(sizes)
    assert list(profile.metrics.edge_weights) == ["a->b"]


class Views(PickleSerializer):
    name = "views"
    dumps = staticmethod(lambda value: memoryview(pickle.dumps(value)))


@pytest.mark.parametrize(
    ("serializer", "value", "message"),
    [
        (None, lambda: None, r"\(function\) cannot be serialized: "),
        (Views(), 1, r"\(int\) .*TypeError: .*memoryview"),
    ],
)
def test_inputs_that_cannot_be_serialized_are_named(serializer, value, message):
    with pytest.raises(SerializationError, match=f"^inputs: 'x' of task 'b' {message}") as caught:
        DAG({"b": Sink}, serializer=serializer).run(inputs={"b": {"x": value}})
    assert caught.value.__cause__ is not None


def test_a_task_that_is_replaced_is_used():
    dag = DAG({"a": constant(x=1), "b": Sink}, [("a", "b")])
    dag.run()
    dag.tasks["a"] = constant(x=2)
    dag.tasks["b"] = make("Other", ["got"], ["x"], compute=lambda self, x: {"got": x + 10})()
    dag.validate()
    for _ in range(2):
        assert dag.run().final_outputs == {"got": 12}
    dag.tasks["b"] = make("Other", ["got"], ["x"], compute=lambda self, x, z: {"got": z})()
    with pytest.raises(ValidationError, match="'z'"):
        dag.run()
    for wrong, error, message in (
        (constant(y=2)(), ValidationError, r"^task 'a' .*\['y'\].*\['x'\]"),
        (5, DeclarationError, "task 'a': expected a Task"),
    ):
        dag.tasks["a"] = wrong
        with pytest.raises(error, match=message):
            dag.run()


def test_a_mapping_changes_parameters_and_a_config_replaces_them():
    @task(outputs=["x"], config_deps=["seconds"])
    def reads(cfg):
        return {"x": dict(cfg)}

    dag = DAG({"reads": reads}, [], {"N": 1, "slow": 1.0})
    assert dag.with_config({"slow": 1.3}).run().final_outputs["x"] == {"N": 1, "slow": 1.3}
    assert dag.with_config({"seconds": 5}).config == {"N": 1, "slow": 1.0, "seconds": 5}
    assert dag.with_config(Config(slow=1.3, other=2)).config == {"slow": 1.3, "other": 2}
    assert DAG({"reads": reads}).with_config({"any": 1}).config == {"any": 1}
    known = "no parameter 'slwo' (parameters: 'N', 'slow', 'seconds'); did you mean 'slow'?"
    with pytest.raises(ValidationError, match=re.escape(known)):
        dag.with_config({"N": 2, "slwo": 1.3})
    assert dag.config == {"N": 1, "slow": 1.0}


def test_a_dag_has_a_name_and_so_has_its_profile():
    dag = DAG({"a": constant()}, name="first")
    profile = dag.with_config({"n": 1}).run()
    again = Profile.loads(profile.dumps())
    assert dag.name == profile.name == again.name == again.metadata["name"] == "first"
    assert str(profile).startswith("first, 1 task, ")
    assert "'first'" in repr(dag)
    assert "'first'" in repr(profile)
    assert DAG({}).run().name is None
    for name in ("", 7):
        with pytest.raises(DeclarationError, match=f"name .*{name!r}"):
            DAG({}, name=name)
