from __future__ import annotations

import copy
import inspect
import pickle

import cloudpickle
import pytest

from dagprofiler import DAG, Config, DeclarationError, GraphError, Task, ValidationError, task
from dagprofiler.decorators import dag
from dagprofiler.serializers import OutOfBandPickle


@task(inputs=[], outputs=["data"])
def source(cfg):
    """Return N numbers."""
    return {"data": list(range(cfg.N))}


@task(inputs=["data"], outputs=["result"], config_deps=["N"], estimate_fn=lambda cfg: cfg.N * 10)
def process(data, cfg):
    return {"result": [2 * number for number in data]}


@task(["result"], ["total"])
def add_up(result):
    """Add up, and need no config."""
    return {"total": sum(result)}


def test_the_decorator_makes_a_task_class():
    assert issubclass(process, Task)
    assert process.inputs == ["data"]
    assert process.outputs == ["result"]
    assert process.config_deps == ["N"]
    assert process().name == "process"
    assert process(name="other").name == "other"


def test_functions_with_and_without_cfg_run_side_by_side():
    profile = dag(tasks=[source, process, add_up], config=Config(N=4)).run()
    assert profile.final_outputs == {"total": 12}
    assert profile.metrics.node_weights == {"source": 0, "process": 40, "add_up": 0}


@pytest.mark.parametrize(
    "function",
    [
        lambda x, cfg: {"y": (x, cfg.N)},
        lambda x, cfg=None: {"y": (x, cfg.N)},
        lambda x, *, cfg: {"y": (x, cfg.N)},
        lambda x, **rest: {"y": (x, rest["cfg"].N)},
        lambda cfg, x: {"y": (x, cfg.N)},
    ],
)
def test_cfg_arrives_wherever_the_function_takes_it(function):
    made = task(inputs=["x"], outputs=["y"])(function)
    profile = DAG({"t": made}, [], Config(N=3)).run(inputs={"t": {"x": 1}})
    assert profile.final_outputs == {"y": (1, 3)}


def test_the_function_can_still_be_called_through_compute():
    assert add_up().compute(result=[1, 2]) == {"total": 3}
    assert add_up.compute([1, 2]) == {"total": 3}


# What it keeps


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_classes_and_instances_pickle(protocol):
    assert pickle.loads(pickle.dumps(process, protocol)) is process
    one = process(name="p", config=Config(N=2))
    loaded = pickle.loads(pickle.dumps(one, protocol))
    assert type(loaded) is process
    assert loaded.name == "p"
    assert loaded.config == Config(N=2)
    assert loaded.compute([1], loaded.config) == {"result": [2]}


def test_copies_of_an_instance_work():
    one = process(name="p", config=Config(N=2))
    for made in (copy.copy(one), copy.deepcopy(one)):
        assert made.name == "p"
        assert made.compute([1], None) == {"result": [2]}


def test_cloudpickle_takes_tasks_made_inside_a_function():
    factor = 3

    @task(outputs=["y"])
    def scale(x):
        return {"y": factor * x}

    loaded = pickle.loads(cloudpickle.dumps(scale(name="s")))
    assert loaded.name == "s"
    assert loaded.compute(2) == {"y": 6}


def test_name_module_and_docstring_are_the_function_s():
    assert source.__name__ == source.__qualname__ == "source"
    assert source.__module__ == __name__
    assert source.__doc__ == "Return N numbers."
    assert process.__doc__ is None


def test_a_function_inside_another_keeps_its_qualified_name():
    @task(outputs=[])
    def inner():
        return {}

    assert inner.__name__ == "inner"
    assert inner.__qualname__.endswith(".<locals>.inner")


def test_the_signature_is_the_function_s():
    assert list(inspect.signature(process).parameters) == ["data", "cfg"]
    assert list(inspect.signature(add_up).parameters) == ["result"]
    assert list(inspect.signature(process.compute).parameters) == ["data", "cfg"]


def test_the_source_is_the_function_s():
    assert "Return N numbers." in inspect.getsource(source)
    assert source.__wrapped__ is source.compute


# Declarations


def test_inputs_default_to_the_function_s_parameters():
    @task(outputs=["y"])
    def join(b, a, *, c=1, cfg=None):
        return {"y": (a, b, c)}

    assert join.inputs == ["b", "a", "c"]


def test_starred_parameters_are_no_inputs():
    @task(outputs=["y"])
    def anything(a, *rest, **more):
        return {"y": a}

    assert anything.inputs == ["a"]


def test_an_empty_list_of_inputs_is_not_a_default():
    @task(inputs=[], outputs=["y"])
    def optional(x=1):
        return {"y": x}

    assert optional.inputs == []


def test_declarations_are_copied_from_what_was_given():
    names = ["y"]
    made = task(inputs=[], outputs=names)(lambda: {"y": 1})
    names.append("z")
    assert made.outputs == ["y"]


def test_gathers_and_serializer_are_passed_on():
    serializer = OutOfBandPickle()
    made = task(outputs=["y"], gathers=["x"], serializer=serializer)(lambda x: {"y": x})
    assert made.gathers == ["x"]
    assert made().serializer is serializer


def test_the_decorator_without_parentheses_says_what_it_needs():
    def double(x):
        return {"y": 2 * x}

    with pytest.raises(DeclarationError, match=r"@task\(outputs=\[\.\.\.\]\) on 'double'"):
        task(double)


def test_the_decorator_without_outputs_says_what_it_needs():
    def double(x):
        return {"y": 2 * x}

    with pytest.raises(DeclarationError, match=r"^task 'double': .*@task\(outputs=\[\.\.\.\]\)"):
        task(inputs=["x"])(double)


@pytest.mark.parametrize(
    ("declarations", "expected"),
    [
        ({"outputs": "y"}, "outputs must be a list of names, got 'y'; write ['y']"),
        ({"outputs": ["a b"]}, "outputs holds 'a b', which cannot be a keyword argument"),
        ({"inputs": ["cfg"], "outputs": []}, "inputs holds 'cfg', which is reserved by"),
        ({"outputs": [], "gathers": ["z"]}, "gathers holds 'z', which is not an input"),
        ({"outputs": [], "serializer": OutOfBandPickle}, "serializer must be an instance"),
    ],
)
def test_wrong_declarations_are_refused_when_the_function_is_decorated(declarations, expected):
    def double(x):
        return {}

    with pytest.raises(DeclarationError) as caught:
        task(**declarations)(double)
    assert str(caught.value).startswith(f"task class 'double': {expected}")


def test_without_an_estimate_the_node_weight_is_a_default():
    profile = dag([source], Config(N=1)).run()
    assert profile.metrics.node_weights == {"source": 0}
    assert profile["source"].node_weight is None


def test_a_decorated_task_can_be_subclassed():
    class Loud(add_up):
        def compute(self, result):
            return {"total": 10 * sum(result)}

    profile = DAG({"loud": Loud}).run(inputs={"loud": {"result": [1, 2]}})
    assert profile.final_outputs == {"total": 30}


# Wiring by fields


def test_dag_infers_edges_from_the_fields():
    made = dag([add_up, process, source], Config(N=2))
    assert isinstance(made, DAG)
    assert made.execution_order == ["source", "process", "add_up"]
    assert made.edge_fields == {("source", "process"): ["data"], ("process", "add_up"): ["result"]}
    assert made.config == Config(N=2)


def test_dag_makes_one_edge_of_several_fields():
    first = task(inputs=[], outputs=["x", "y"])(make_pair)
    made = dag([first, task(outputs=["z"])(use_pair)])
    assert made.edge_fields == {("make_pair", "use_pair"): ["x", "y"]}
    assert made.run().final_outputs == {"z": (1, 2)}


def make_pair():
    return {"x": 1, "y": 2}


def use_pair(x, y):
    return {"z": (x, y)}


def test_dag_takes_instances_which_go_by_their_own_names():
    made = dag([source(name="numbers"), process], Config(N=2))
    assert list(made.tasks) == ["numbers", "process"]
    assert made.edges["numbers"] == ["process"]


def test_dag_takes_classes_that_were_not_decorated():
    class Report(Task):
        inputs = ["total"]

        def compute(self, total):
            return {"text": f"{total}"}

    made = dag([source, process, add_up, Report], Config(N=3))
    assert made.run().final_outputs == {"text": "6"}


def test_dag_takes_edges_instead_of_inferring_them():
    made = dag([source, process, add_up], Config(N=2), edges=[("source", "process")])
    assert made.edge_fields == {("source", "process"): ["data"]}
    assert dag([source, process], edges=[]).edge_fields == {}


def test_dag_leaves_an_input_without_producer_to_validation():
    made = dag([process], Config(N=2))
    with pytest.raises(ValidationError, match=r"'process': .* needs 'data'"):
        made.validate()
    assert made.run(inputs={"process": {"data": [1]}}).final_outputs == {"result": [2]}


@task(inputs=[], outputs=["data"])
def other_source():
    return {"data": [1]}


def test_dag_refuses_a_field_with_two_producers():
    with pytest.raises(
        GraphError, match=r"'data' of .*'process' .* 2 .*: 'source', 'other_source'; .*'gathers'"
    ):
        dag([source, other_source, process])


def test_dag_gives_all_producers_to_a_task_that_gathers():
    collect = task(outputs=["all"], gathers=["data"])(gather_all)
    made = dag([source, other_source, collect], Config(N=2))
    assert made.run().final_outputs == {"all": [[0, 1], [1]]}


def gather_all(data):
    return {"all": data}


@pytest.mark.parametrize("others", [[], [source]])
def test_dag_refuses_a_task_that_would_feed_itself(others):
    @task(outputs=["data"])
    def again(data):
        return {"data": data}

    with pytest.raises(GraphError, match=r"task 'again' would.*'data'"):
        dag([*others, again])


def test_dag_refuses_two_tasks_of_one_name():
    with pytest.raises(GraphError, match=r"^two tasks .*'source'$"):
        dag([source, source(name="source")])


def test_dag_names_a_cycle():
    forth = task(outputs=["b"])(lambda a: {"b": a})(name="forth")
    back = task(outputs=["a"])(lambda b: {"a": b})(name="back")
    with pytest.raises(GraphError, match="cycle: 'back' -> 'forth' -> 'back'"):
        dag([forth, back])


def not_decorated(data):
    return {}


@pytest.mark.parametrize("wrong", ["source", 5, None, int, not_decorated])
def test_dag_refuses_what_is_no_task(wrong):
    with pytest.raises(DeclarationError) as caught:
        dag([source, wrong])
    assert str(caught.value) == f"dag(): expected tasks or task classes, got {wrong!r}"


def test_dag_names_a_class_that_cannot_be_made():
    class Abstract(Task):
        pass

    with pytest.raises(DeclarationError, match="'Abstract'"):
        dag([Abstract])


def test_dag_takes_a_serializer():
    serializer = OutOfBandPickle()
    made = dag([source, process], Config(N=2), serializer=serializer)
    assert made.serializer is serializer
    assert made.run().final_outputs == {"result": [0, 2]}
