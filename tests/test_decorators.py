import copy
import inspect
import pickle
import re

import cloudpickle
import pytest

from dagprofiler import DAG, Config, DeclarationError, GraphError, Task, ValidationError, task
from dagprofiler.decorators import dag
from dagprofiler.serializers import OutOfBandPickle


@task(inputs=[], outputs=["data"])
def source(cfg):
    """Return N numbers."""
    return {"data": list(range(cfg.N))}


@task(["data"], ["result"], ["N"], lambda cfg: cfg.N * 10)
def process(data, cfg):
    return {"result": [2 * number for number in data]}


@task(["result"], ["total"])
def add_up(result):
    """Add up, and need no config."""
    return {"total": sum(result)}


def test_a_decorated_function_is_a_task_class():
    assert issubclass(process, Task)
    declared = (process.inputs, process.outputs, process.config_deps)
    assert declared == (["data"], ["result"], ["N"])
    assert (process().name, process(name="other").name) == ("process", "other")
    assert add_up().compute(result=[1, 2]) == add_up.compute([1, 2]) == {"total": 3}
    profile = dag(tasks=[source, process, add_up], config=Config(N=4)).run()
    assert profile.final_outputs == {"total": 12}
    assert profile.metrics.node_weights == {"source": 0, "process": 40, "add_up": 0}
    assert profile["source"].node_weight is None


@pytest.mark.parametrize(
    "made", [copy.copy, copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))]
)
def test_classes_and_instances_pickle_and_can_be_copied(made):
    assert made(process) is process
    one = made(process(name="p", config=Config(N=2)))
    assert (type(one), one.name, one.config) == (process, "p", Config(N=2))
    assert one.compute([1], one.config) == {"result": [2]}


def test_a_class_reads_like_its_function():
    assert source.__name__ == source.__qualname__ == "source"
    assert source.__module__ == __name__
    assert source.__doc__ == "Return N numbers."
    assert process.__doc__ is None
    for of in (process, process.compute):
        assert list(inspect.signature(of).parameters) == ["data", "cfg"]
    assert list(inspect.signature(add_up).parameters) == ["result"]
    assert "Return N numbers." in inspect.getsource(source)
    assert source.__wrapped__ is source.compute
    inner = task(outputs=["y"])(lambda: {"y": 1})
    assert inner.__qualname__.endswith(".<locals>.<lambda>")


def test_inputs_default_to_the_parameters():
    names = ["y"]
    join = task(outputs=names)(lambda b, a, *rest, c=1, cfg=None, **more: {"y": (a, b, c)})
    names.append("z")
    assert (join.inputs, join.outputs) == (["b", "a", "c"], ["y"])
    assert task(inputs=[], outputs=["y"])(lambda x=1: {"y": x}).inputs == []
    serializer = OutOfBandPickle()
    made = task(outputs=["y"], gathers=["x"], serializer=serializer)(lambda x: {"y": x})
    assert made.gathers == ["x"]
    assert made().serializer is serializer


def test_the_decorator_without_outputs_says_what_it_needs():
    def double(x):
        return {"y": 2 * x}

    for decorate in (task, task(inputs=["x"])):
        with pytest.raises(DeclarationError, match=r"^task 'double': .*@task\(outputs=\["):
            decorate(double)
    with pytest.raises(DeclarationError, match=r"^task class 'double': "):
        task(outputs="y")(double)


def test_decorated_tasks_can_be_subclassed_and_nested():
    class Loud(add_up):
        def compute(self, result):
            return {"total": 10 * sum(result)}

    profile = DAG({"loud": Loud}).run(inputs={"loud": {"result": [1, 2]}})
    assert profile.final_outputs == {"total": 30}
    factor = 3

    @task(outputs=["y"])
    def scale(x):
        return {"y": factor * x}

    loaded = pickle.loads(cloudpickle.dumps(scale(name="s")))
    assert loaded.name == "s"
    assert loaded.compute(2) == {"y": 6}


def test_dag_infers_edges_from_the_fields_unless_they_are_given():
    serializer = OutOfBandPickle()
    made = dag([add_up, process, source], Config(N=2), serializer=serializer)
    assert isinstance(made, DAG)
    assert made.execution_order == ["source", "process", "add_up"]
    assert made.edge_fields == {("source", "process"): ["data"], ("process", "add_up"): ["result"]}
    assert (made.config, made.serializer) == (Config(N=2), serializer)
    pair = task(inputs=[], outputs=["x", "y"])(lambda: {"x": 1, "y": 2})(name="pair")
    made = dag([pair, task(outputs=["z"])(lambda x, y: {"z": (x, y)})(name="use")])
    assert made.edge_fields == {("pair", "use"): ["x", "y"]}
    assert made.run().final_outputs == {"z": (1, 2)}
    made = dag([source, process, add_up], Config(N=2), [("source", "process")])
    assert made.edge_fields == {("source", "process"): ["data"]}
    assert dag([source, process], edges=[]).edge_fields == {}


def test_dag_takes_instances_by_their_names():
    class Report(Task):
        inputs = ["total"]

        def compute(self, total):
            return {"text": f"{total}"}

    made = dag([source(name="numbers"), process, add_up, Report], Config(N=3))
    assert list(made.tasks) == ["numbers", "process", "add_up", "Report"]
    assert made.run().final_outputs == {"text": "6"}
    collect = task(outputs=["all"], gathers=["data"])(lambda data: {"all": data})(name="collect")
    made = dag([source, OTHER, collect], Config(N=2))
    assert made.run().final_outputs == {"all": [[0, 1], [1]]}
    with pytest.raises(ValidationError, match=r"'process': input 'data' has 2 .*'gathers'"):
        dag([source, OTHER, process], Config(N=2)).validate()
    made = dag([process], Config(N=2))
    with pytest.raises(ValidationError, match=r"'process': .* needs 'data'"):
        made.validate()
    assert made.run(inputs={"process": {"data": [1]}}).final_outputs == {"result": [2]}


OTHER = task(inputs=[], outputs=["data"])(lambda: {"data": [1]})(name="other")
AGAIN = task(outputs=["data"])(lambda data: {"data": data})(name="again")
FORTH = task(outputs=["b"])(lambda a: {"b": a})(name="forth")
BACK = task(outputs=["a"])(lambda b: {"a": b})(name="back")


@pytest.mark.parametrize(
    ("tasks", "error", "message"),
    [
        ([AGAIN], GraphError, "'again' -> 'again': a task cannot feed itself"),
        ([source, source(name="source")], GraphError, "^two tasks .*'source'$"),
        ([FORTH, BACK], GraphError, "cycle: 'back' -> 'forth' -> 'back'"),
        ([type("Abstract", (Task,), {})], DeclarationError, "'Abstract'"),
        *(
            ([source, wrong], DeclarationError, rf"^dag\(\): .*got {re.escape(repr(wrong))}$")
            for wrong in ("source", None, len)
        ),
    ],
)
def test_dag_refuses_tasks_that_it_cannot_wire(tasks, error, message):
    with pytest.raises(error, match=message):
        dag(tasks)
