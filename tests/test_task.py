import decimal
import fractions
import math
import pickle
import re
from functools import wraps
from types import MappingProxyType

import numpy as np
import pytest
from handmade import failure

from dagprofiler import DAG, Config, Task, ValidationError, task
from dagprofiler.errors import CostModelError, DeclarationError, OutputError, SerializationError
from dagprofiler.serializers import OutOfBandPickle


class Scale(Task):
    inputs = ["x"]
    outputs = ["y"]
    config_deps = ["factor"]

    def compute(self, x, cfg):
        return {"y": x * cfg.factor}


class Source(Task):
    outputs = ["x"]

    def compute(self):
        return {"x": 1}


def costing(model):
    """Return a one-task DAG whose cost model is `model`."""
    costly = type("Costly", (Source,), {"estimate_instructions": staticmethod(model)})
    return DAG({"costly": costly}, [], Config(N=1000, n=np.int64(8)))


def test_declarations_become_plain_lists():
    declared = (Scale.inputs, Scale.outputs, Scale.config_deps, Scale.gathers)
    assert declared == (["x"], ["y"], ["factor"], [])
    assert type("Fine", (Source,), {"config_deps": ["a-b", "cfg"]}).config_deps == ["a-b", "cfg"]
    assert Task._count_bytes({"a": b"12345", "b": np.zeros(3), "c": [1, 2, 3], "d": None}) == 29


@pytest.mark.parametrize("attribute", ["inputs", "outputs", "config_deps", "gathers"])
@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("data", "must be a list of names, got 'data'; write ['data']"),
        *((value, f"must be a list of names, got {value!r}") for value in (None, 3, {"x"}, {1: 2})),
        (["x", 3], "holds 3, expected a non-empty string"),
        (["x", "y", "x"], "names 'x' twice"),
    ],
)
def test_declarations_must_be_lists_of_names(attribute, value, problem):
    with pytest.raises(DeclarationError) as caught:
        type("Bad", (Source,), {attribute: value})
    assert str(caught.value).startswith(f"task class 'Bad': {attribute} {problem}")


@pytest.mark.parametrize("attribute", ["inputs", "outputs"])
@pytest.mark.parametrize("name", ["", "two words", "a-b", "1st", "class", "None", "cfg", "self"])
def test_fields_must_be_names_of_arguments(attribute, name):
    with pytest.raises(DeclarationError) as caught:
        type("Bad", (Source,), {attribute: [name]})
    why = "which is reserved by compute()" if name in ("cfg", "self") else "which cannot be a key"
    why = why if name else "expected a non-empty string"
    assert f"task class 'Bad': {attribute} holds {name!r}, {why}" in str(caught.value)


def test_gathered_fields_are_inputs():
    class Gathers(Task):
        inputs = ("x",)
        gathers = ("ys",)
        outputs = ("total",)

        def compute(self, ys, x=3, more=()):
            return {"total": [x, *ys, *more]}

    less = type("Less", (Gathers,), {"inputs": ()})
    assert Gathers.inputs == ["x", "ys"]
    assert less.inputs == ["ys"]
    own = less()
    own.gathers = ["ys", "more"]
    assert DAG({"a": own}).run().outputs == {"a": {"total": [3]}}
    assert less.inputs == ["ys"]
    wrong = type("Wrong", (Source,), {"inputs": ["a", "b"], "gathers": ["c"]})
    with pytest.raises(ValidationError, match=r"'w': compute\(\) does not take 'c'"):
        DAG({"w": wrong}).validate()


def test_a_dag_fixes_declarations_of_instances():
    class Sized(Task):
        outputs = property(lambda self: [f"x{i}" for i in range(len(self.name))])

        def compute(self):
            return dict.fromkeys(self.outputs, 0)

    wrong = Source()
    wrong.outputs = "x"
    with pytest.raises(DeclarationError, match=r"'wrong': outputs .*'x'; .*\['x'\]"):
        DAG({"fine": Source(), "wrong": wrong})
    dag = DAG({"one": Sized("a"), "two": Sized("bb")})
    assert dag.run().outputs == {"one": {"x0": 0}, "two": {"x0": 0, "x1": 0}}
    first, second = Source(), Source()
    first.outputs, second.outputs = ["x"], ["x"]
    dag = DAG({"a": first, "b": second})
    first.outputs.append("y")
    second.outputs = ["z"]
    assert dag.run().outputs == {"a": {"x": 1}, "b": {"x": 1}}


def test_a_task_is_named_after_its_class_and_has_to_compute():
    bare = type("Bare", (Source,), {"__init__": lambda self: None})
    assert (Source().name, Source("s").name, Source(name="t").name) == ("Source", "s", "t")
    assert (bare().name, bare().config) == ("Bare", None)
    assert bare().run({})["metrics"].task == "Bare"
    with pytest.raises(DeclarationError, match=r"'Source': name .* 3; .*compute\(\)"):
        Source(3)
    idle = type("Idle", (Task,), {"outputs": ["x"]})
    with pytest.raises(TypeError, match="compute"):
        idle()
    with pytest.raises(DeclarationError, match=r"task 'idle': .*'Idle': "):
        DAG({"idle": idle})


def seeing(compute):
    return type("Sees", (Task,), {"outputs": ["seen"], "compute": compute})


def passing_on(function):
    @wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


SIGNATURES = [
    lambda self, cfg: {"seen": cfg},
    lambda self, cfg=None: {"seen": cfg},
    lambda self, *, cfg: {"seen": cfg},
    lambda self, **fields: {"seen": fields["cfg"]},
    passing_on(passing_on(lambda self, cfg: {"seen": cfg})),
    lambda self: {"seen": "none given"},
    lambda self, *args: {"seen": args or "none given"},
    passing_on(lambda self: {"seen": "none given"}),
]


@pytest.mark.parametrize("place", range(len(SIGNATURES)))
def test_compute_gets_cfg_only_if_it_accepts_it(place):
    config, made = Config(N=3), seeing(SIGNATURES[place])
    expected = config if place < 5 else "none given"
    assert DAG({"t": made}, [], config).run().final_outputs["seen"] == expected
    assert made().run({}, config)["outputs_raw"]["seen"] == expected


def test_shared_instances_get_the_config_of_their_dag():
    shared = type("Reads", (Source,), {"compute": lambda self: {"x": self.config.N}})()
    one, two = (DAG({"t": shared}, [], Config(N=n)) for n in (1, 2))
    seen = [dag.run().final_outputs["x"] for dag in (one, two, one, two, two, one)]
    assert seen == [1, 2, 1, 2, 2, 1]

    class Sized(Source):
        def estimate_instructions(self, cfg):
            return len(self.name) * cfg.N + self.config.N

    tasks = {"a": Sized("aa"), "b": Sized("bbb")}
    first, second = (DAG(tasks, [], Config(N=n)) for n in (10, 20))
    for dag, n in ((first, 10), (second, 20), (first, 10)):
        assert dag.run().metrics.node_weights == {"a": 3 * n, "b": 4 * n}


def returning(value):
    return type("Returns", (Task,), {"outputs": ["x", "y"], "compute": lambda self: value})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"x": 1}, "compute() returned no 'y' (declared: 'x', 'y'; returned: 'x')"),
        ({}, "compute() returned no 'x', 'y' (declared: 'x', 'y'; returned: none)"),
        (None, "compute() returned NoneType, expected a mapping of its outputs "),
        ([1, 2], "compute() returned list, expected a mapping of its outputs "),
    ],
)
def test_wrong_outputs_are_errors_that_name_task_and_field(value, message):
    cause = failure(DAG({"wrong": returning(value)})).__cause__
    assert isinstance(cause, OutputError)
    assert str(cause).startswith(f"task 'wrong': {message}")
    assert "declared: 'x', 'y'" in str(cause)
    with pytest.raises(OutputError, match="task 'Returns': "):
        returning(value)().run({})


def test_undeclared_outputs_do_not_travel():
    takes = task(inputs=["x", "extra"], outputs=["fields"])(lambda **got: {"fields": sorted(got)})
    outputs = MappingProxyType({"x": 1, "y": 2, "extra": b"123"})
    returns = returning(outputs)
    profile = DAG({"t": returns}).run()
    assert profile.final_outputs == outputs
    alone = returns().run({})
    assert list(alone["outputs"]) == ["x", "y", "extra"]
    size = sum(len(Task.serialize(value)) for value in outputs.values())
    assert profile.metrics.task_metrics[0].bytes_out == alone["metrics"].bytes_out == size
    profile = DAG({"t": returns, "u": takes}, [("t", "u")]).run()
    assert profile.final_outputs == {"fields": ["cfg", "x"]}


def test_task_run_returns_outputs_and_metrics():
    data, array = Task.serialize(3), np.arange(4)
    result = Scale().run({"x": data}, Config(factor=2))
    metrics, out = result.pop("metrics"), Task.serialize(6)
    assert result == {"outputs": {"y": out}, "outputs_raw": {"y": 6}}
    assert (metrics.task, metrics.bytes_in, metrics.bytes_out) == ("Scale", len(data), len(out))
    result = Scale().run({"x": array}, Config(factor=2))
    assert result["outputs_raw"]["y"].tolist() == [0, 2, 4, 6]
    assert result["metrics"].bytes_in == array.nbytes
    assert Scale(config=Config(factor=5)).run({"x": 2})["outputs_raw"] == {"y": 10}
    assert Scale(config=Config(factor=5)).run({"x": 2}, Config(factor=7))["outputs_raw"]["y"] == 14
    takes = seeing(SIGNATURES[0])
    for result in (takes().run({}, Config()), takes(config=Config()).run({})):
        cfg = result["outputs_raw"]["seen"]
        assert (type(cfg), cfg) == (Config, Config())
    zero = type("Zero", (Scale,), {"serializer": OutOfBandPickle()})
    first = zero().run({"x": np.arange(1000)}, Config(factor=2))
    second = zero().run({"x": first["outputs"]["y"]}, Config(factor=3))
    assert second["outputs_raw"]["y"][1] == 6
    assert second["metrics"].bytes_in == first["metrics"].bytes_out >= 8000
    made = task(outputs=["got"], gathers=["p", "q"])(lambda p, q: {"got": (p, q)})()
    assert made.run({})["outputs_raw"] == {"got": ([], [])}
    assert made.run({"q": [1]})["outputs_raw"] == {"got": ([], [1])}


@pytest.mark.parametrize(
    ("method", "message", "cause"),
    [
        ({"compute": lambda self: {"x": lambda: 1}}, "^task 'source': output 'x' .fun", Exception),
        ({"serialize": lambda self, x: "text"}, "^task 'source': .* 'x' returned str,", TypeError),
        ({"deserialize": lambda self, x: {}[0]}, "^task 'sink': input 'x' .*: KeyErr", KeyError),
    ],
)
def test_a_value_that_cannot_be_encoded_or_decoded_is_named(method, message, cause):
    broken = type("Broken", (Source,), method)
    dag = DAG({"source": broken, "sink": Scale}, [("source", "sink")], Config(factor=1))
    failed = failure(dag)
    error = failed.__cause__
    assert isinstance(error, SerializationError)
    assert re.match(message, str(error))
    assert failed.task in message
    assert isinstance(error.__cause__, cause)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *((value, int(value)) for value in (0, 7, 2.0, 2**63 - 1)),
        *((value, int(value)) for value in (np.int32(5), np.uint8(200), np.int64(2**53 + 1))),
        *((2.001, 3), (np.float64(0.5), 1), (1000 * np.log2(1000), 9966), (np.array(2.5), 3)),
        *((fractions.Fraction(7, 2), 4), (decimal.Decimal("1.5"), 2)),
    ],
)
def test_results_become_whole_numbers_rounded_up(value, expected):
    weight = costing(lambda cfg: value).run().metrics.node_weights["costly"]
    assert weight == expected
    assert type(weight) is int


@pytest.mark.parametrize(
    ("model", "error"),
    [
        (lambda cfg: cfg.M * 10, r"failed: AttributeError: .*'M' \(.*'N', 'n'\)"),
        (lambda cfg: cfg["M"], "failed: KeyError: 'M'"),
        *(
            (lambda cfg, value=value: value, f"returned {re.escape(repr(value))}, expected None or")
            for value in (-1, -1e-300, np.int64(-3), 2**63, math.nan, math.inf, "100", 1j, [1])
        ),
    ],
)
def test_a_cost_model_that_fails_or_returns_no_number_is_named(model, error):
    says = f"'costly': estimate_instructions {error}"
    with pytest.raises(ValidationError, match=says) as caught:
        costing(model).run()
    assert isinstance(caught.value.problems[0], CostModelError)


@pytest.mark.parametrize("model", [None, lambda cfg: None])
def test_no_cost_model_is_a_default_unlike_0(model):
    dag = DAG({"costly": Source}) if model is None else costing(model)
    profile = dag.run()
    assert profile.metrics.node_weights == {"costly": 0}
    document = profile.to_dict()
    # No task has one, so that the reason stands once.
    assert "estimated_instructions" not in document["weight_sources"].get("costly", {})
    reasons = document["environment"]["not_measured"]
    assert reasons["estimated_instructions"] == "the task has no cost model"
    assert profile.tasks["node_weight"] == [None]
    assert Source.estimate_instructions(Config()) == 0
    source = costing(lambda cfg: 0).run().to_dict()["weight_sources"]["costly"]
    assert source["node_weight"] == "estimated_instructions"
    assert source["estimated_instructions"] == 0
    assert "reasons" not in source


@task(outputs=["y"])
def scale(x, factor, cfg, offset=0):
    return {"y": factor * x + offset + cfg.N}


class Power(Task):
    inputs = ["x", "exponent"]
    outputs = ["y"]

    def __init__(self, name=None, config=None, sign=1):
        super().__init__(name, config)
        self.sign = sign

    def compute(self, x, exponent):
        return {"y": self.sign * x**exponent}


def test_one_function_serves_many_nodes_with_bound_arguments():
    triple = scale.bind(factor=2, offset=1).bind(factor=3)
    tasks = {"double": scale.bind(factor=2), "triple": triple}
    edges = [("double", "triple", {"y": "x"}), ("triple", "minus", {"y": "x"})]
    dag = DAG({**tasks, "minus": Power(sign=-1).bind(exponent=2)}, edges, Config(N=0))
    profile = pickle.loads(pickle.dumps(dag)).run(inputs={"double": {"x": 1}})
    assert profile.final_outputs == {"y": -49}
    triple = {"factor": "3", "offset": "1"}
    bound = {"double": {"factor": "2"}, "triple": triple, "minus": {"exponent": "2"}}
    assert profile.sections["run"]["bound"] == bound


def test_bind_returns_another_task():
    original = Power()
    bound = original.bind(exponent=3)
    assert (original.inputs, original.bound) == (["x", "exponent"], {})
    assert (bound.inputs, bound.compute(x=2)) == (["x"], {"y": 8})
    for name in ("factr", "cfg"):
        with pytest.raises(DeclarationError, match=f"'scale'.*'{name}'.*'factor'"):
            scale.bind(**{name: 1})
    with pytest.raises(DeclarationError, match=r"'any'.*'cfg'"):
        task(inputs=[], outputs=[])(lambda **fields: {})(name="any").bind(cfg=1)
    dag = DAG(
        {"a": scale.bind(factor=1, x=1), "b": scale.bind(factor=1)}, [("a", "b", {"y": "factor"})]
    )
    with pytest.raises(ValidationError, match=r"'b'.*'factor' from 'a'"):
        dag.validate(inputs={"b": {"x": 1}})
