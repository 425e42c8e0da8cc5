from __future__ import annotations

import decimal
import fractions
import pickle
import sys

import numpy as np
import pytest

import dagprofiler
from dagprofiler import (
    DAG,
    Config,
    CostModelError,
    DeclarationError,
    OutputError,
    Profile,
    RunError,
    SerializationError,
    Task,
    ValidationError,
    task,
)
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

    class Costly(Source):
        estimate_instructions = staticmethod(model)

    return DAG({"costly": Costly}, [], Config(N=1000, n=np.int64(8)))


# Declarations


def test_declarations_are_plain_lists():
    assert (Scale.inputs, Scale.outputs, Scale.config_deps, Scale.gathers) == (
        ["x"],
        ["y"],
        ["factor"],
        [],
    )


def test_the_public_function_hides_the_module_of_the_same_name():
    assert dagprofiler.task is task
    assert sys.modules["dagprofiler.task"].Task is Task


@pytest.mark.parametrize("attribute", ["inputs", "outputs", "config_deps", "gathers"])
def test_a_bare_string_is_refused_when_the_class_is_made(attribute):
    with pytest.raises(DeclarationError) as caught:
        type("Bad", (Source,), {attribute: "data"})
    assert str(caught.value) == (
        f"task class 'Bad': {attribute} must be a list of names, got 'data'; write ['data']"
    )


@pytest.mark.parametrize("value", [None, 3, {"x"}, {"x": 1}])
def test_declarations_that_are_no_lists_are_refused(value):
    with pytest.raises(DeclarationError) as caught:
        type("Bad", (Source,), {"inputs": value})
    assert str(caught.value) == f"task class 'Bad': inputs must be a list of names, got {value!r}"


@pytest.mark.parametrize("attribute", ["inputs", "outputs", "config_deps"])
def test_a_name_that_is_no_string_is_refused(attribute):
    with pytest.raises(DeclarationError, match=f"'Bad': {attribute} holds 3, expected a string"):
        type("Bad", (Source,), {attribute: ["x", 3]})


@pytest.mark.parametrize("attribute", ["inputs", "outputs", "config_deps"])
def test_a_name_given_twice_is_refused(attribute):
    with pytest.raises(DeclarationError, match=f"'Bad': {attribute} names 'x' twice"):
        type("Bad", (Source,), {attribute: ["x", "y", "x"]})


@pytest.mark.parametrize("attribute", ["inputs", "outputs"])
@pytest.mark.parametrize("name", ["", "two words", "a-b", "1st", "class", "None"])
def test_a_name_that_is_no_keyword_argument_is_refused(attribute, name):
    with pytest.raises(DeclarationError) as caught:
        type("Bad", (Source,), {attribute: [name]})
    assert str(caught.value) == (
        f"task class 'Bad': {attribute} holds {name!r}, which cannot be a keyword argument"
    )


@pytest.mark.parametrize("attribute", ["inputs", "outputs"])
@pytest.mark.parametrize("name", ["cfg", "self"])
def test_cfg_and_self_as_fields_are_refused(attribute, name):
    with pytest.raises(DeclarationError) as caught:
        type("Bad", (Source,), {attribute: [name]})
    assert str(caught.value) == (
        f"task class 'Bad': {attribute} holds {name!r}, which is reserved by compute()"
    )


def test_config_deps_need_not_be_keyword_arguments():
    assert type("Fine", (Source,), {"config_deps": ["a-b", "cfg"]}).config_deps == ["a-b", "cfg"]


def test_a_gathered_field_need_not_be_repeated_in_inputs():
    class Gathers(Task):
        inputs = ("x",)
        gathers = ("ys",)
        outputs = ("total",)

        def compute(self, x, ys):
            return {"total": x + sum(ys)}

    class Less(Gathers):
        inputs = ()

        def compute(self, ys):
            return {"total": sum(ys)}

    assert Gathers.inputs == ["x", "ys"]
    assert Less.inputs == ["ys"]
    dag = DAG({"a": Gathers}, [])
    assert dag.run(inputs={"a": {"x": 3}}).final_outputs == {"total": 3}


def test_an_instance_may_gather_a_field_that_it_does_not_repeat_in_inputs():
    class Total(Task):
        outputs = ("total",)

        def compute(self, **fields):
            return {"total": fields["a"]}

    total = Total()
    total.gathers = ["a"]
    assert DAG({"t": total}).run().final_outputs == {"total": []}
    assert Total.inputs == []


def test_a_gathered_field_must_be_an_input():
    with pytest.raises(DeclarationError, match=r"'Bad': gathers .*'c', .*\(inputs: 'a', 'b'\)"):
        type("Bad", (Source,), {"inputs": ["a", "b"], "gathers": ["c"]})


def test_a_serializer_class_is_refused_where_an_instance_is_due():
    with pytest.raises(
        DeclarationError, match=r"'Bad': serializer .*class OutOfBandPickle; .*OutOfBandPickle\(\)"
    ):
        type("Bad", (Source,), {"serializer": dagprofiler.serializers.OutOfBandPickle})


def test_a_serializer_that_is_none_is_refused():
    with pytest.raises(DeclarationError, match=r"serializer .*, got 'pickle'"):
        type("Bad", (Source,), {"serializer": "pickle"})


def test_what_an_instance_declares_is_checked_when_it_enters_a_dag():
    source = Source()
    source.outputs = "x"
    with pytest.raises(DeclarationError, match=r"'wrong': outputs .*'x'; .*\['x'\]"):
        DAG({"fine": Source(), "wrong": source})


def test_declarations_may_be_properties():
    class Sized(Task):
        def __init__(self, size):
            super().__init__()
            self.size = size

        @property
        def outputs(self):
            return [f"x{i}" for i in range(self.size)]

        def compute(self):
            return dict.fromkeys(self.outputs, 0)

    dag = DAG({"one": Sized(1), "two": Sized(2)})
    assert dag.run().outputs == {"one": {"x0": 0}, "two": {"x0": 0, "x1": 0}}


def test_declarations_changed_after_the_dag_was_made_change_nothing():
    first, second = Source(), Source()
    first.outputs, second.outputs = ["x"], ["x"]
    dag = DAG({"a": first, "b": second})
    first.outputs.append("y")
    second.outputs = ["z"]
    assert dag.run().outputs == {"a": {"x": 1}, "b": {"x": 1}}


# Names and the abstract class


def test_the_name_is_that_of_the_class_by_default():
    assert (Source().name, Source("s").name, Source(name="t").name) == ("Source", "s", "t")


def test_a_subclass_need_not_call_init():
    class Bare(Source):
        def __init__(self):
            self.ready = True

    assert (Bare().name, Bare().config) == ("Bare", None)
    assert Bare().run({})["metrics"].task == "Bare"


def test_compute_must_be_implemented():
    class Idle(Task):
        outputs = ["x"]

    with pytest.raises(TypeError, match="compute"):
        Idle()
    with pytest.raises(DeclarationError, match=r"task 'idle': .*'Idle': "):
        DAG({"idle": Idle})


# compute() and its config


def signatures():
    class Takes(Task):
        outputs = ["seen"]

        def compute(self, cfg):
            return {"seen": cfg}

    class Defaults(Takes):
        def compute(self, cfg=None):
            return {"seen": cfg}

    class KeywordOnly(Takes):
        def compute(self, *, cfg):
            return {"seen": cfg}

    class Anything(Takes):
        def compute(self, **fields):
            return {"seen": fields["cfg"]}

    class Without(Takes):
        def compute(self):
            return {"seen": "none given"}

    class Positional(Takes):
        def compute(self, *args):
            return {"seen": args or "none given"}

    return [Takes, Defaults, KeywordOnly, Anything, Without, Positional]


@pytest.mark.parametrize("made", signatures(), ids=lambda made: made.__name__)
def test_compute_gets_cfg_only_if_it_accepts_it(made):
    config = Config(N=3)
    expected = "none given" if made.__name__ in ("Without", "Positional") else config
    assert DAG({"t": made}, [], config).run().final_outputs["seen"] == expected
    assert made().run({}, config)["outputs_raw"]["seen"] == expected


def test_self_config_is_the_config_of_the_dag_that_runs():
    class Reads(Source):
        def compute(self):
            return {"x": self.config.N}

    shared = Reads()
    one, two = (DAG({"t": shared}, [], Config(N=n)) for n in (1, 2))
    seen = [dag.run().final_outputs["x"] for dag in (one, two, one, two, two, one)]
    assert seen == [1, 2, 1, 2, 2, 1]


def test_one_instance_under_two_names_is_two_tasks_with_one_state():
    class Counts(Task):
        inputs = ["n"]
        outputs = ["n"]
        calls = 0

        def compute(self, n=0):
            self.calls += 1
            return {"n": n + 10 * self.calls}

    counts = Counts()
    profile = DAG({"a": counts, "b": counts}, [("a", "b")]).run(keep=["a"])
    assert profile.outputs == {"a": {"n": 10}, "b": {"n": 30}}
    assert [m.task for m in profile.metrics.task_metrics] == ["a", "b"]
    assert profile.metrics.node_weights == {"a": 0, "b": 0}
    assert (counts.calls, counts.name) == (2, "Counts")


# Outputs


class Returns(Task):
    outputs = ["x", "y"]

    def __init__(self, value):
        super().__init__()
        self.value = value

    def compute(self):
        return self.value


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
    with pytest.raises(RunError) as caught:
        DAG({"wrong": Returns(value)}).run()
    cause = caught.value.__cause__
    assert isinstance(cause, OutputError)
    assert isinstance(cause, ValueError)
    assert str(cause).startswith(f"task 'wrong': {message}")
    assert "declared: 'x', 'y'" in str(cause)
    with pytest.raises(OutputError, match="task 'Returns': "):
        Returns(value).run({})


def test_any_mapping_will_do_as_outputs():
    from types import MappingProxyType

    returned = MappingProxyType({"x": 1, "y": 2})
    assert DAG({"t": Returns(returned)}).run().final_outputs == {"x": 1, "y": 2}


def test_undeclared_outputs_are_kept_and_counted():
    returned = {"x": 1, "y": 2, "extra": b"123"}
    profile = DAG({"t": Returns(returned)}).run()
    assert profile.final_outputs == returned
    sizes = [len(Task.serialize(value)) for value in returned.values()]
    assert profile.metrics.task_metrics[0].bytes_out == sum(sizes)
    alone = Returns(returned).run({})
    assert list(alone["outputs"]) == ["x", "y", "extra"]
    assert alone["metrics"].bytes_out == sum(sizes)


def test_undeclared_outputs_do_not_travel():
    class Takes(Task):
        inputs = ["x", "extra"]
        outputs = ["fields"]

        def compute(self, cfg, **fields):
            return {"fields": sorted(fields)}

    returned = {"x": 1, "y": 2, "extra": 3}
    profile = DAG({"t": Returns(returned), "u": Takes}, [("t", "u")]).run()
    assert profile.final_outputs == {"fields": ["x"]}


# Task.run() alone


def test_run_returns_serialized_and_raw_outputs_and_metrics():
    data = Task.serialize(3)
    result = Scale().run({"x": data}, Config(factor=2))
    assert set(result) == {"outputs", "outputs_raw", "metrics"}
    assert result["outputs_raw"] == {"y": 6}
    assert {f: Task.deserialize(v) for f, v in result["outputs"].items()} == {"y": 6}
    metrics = result["metrics"]
    assert (metrics.task, metrics.bytes_in, metrics.bytes_out) == (
        "Scale",
        len(data),
        len(Task.serialize(6)),
    )


def test_run_takes_the_config_of_the_task_by_default():
    assert Scale(config=Config(factor=5)).run({"x": 2})["outputs_raw"] == {"y": 10}
    assert Scale(config=Config(factor=5)).run({"x": 2}, Config(factor=7))["outputs_raw"]["y"] == 14


def test_run_takes_what_is_not_bytes_as_it_is():
    array = np.arange(4)
    result = Scale().run({"x": array}, Config(factor=2))
    assert result["outputs_raw"]["y"].tolist() == [0, 2, 4, 6]
    assert result["metrics"].bytes_in == array.nbytes


def test_count_bytes_follows_the_specification():
    data = {"a": b"12345", "b": np.zeros(3), "c": [1, 2, 3], "d": None}
    assert Task._count_bytes(data) == 5 + 24


def test_run_uses_the_serializer_of_the_task_for_inputs_and_outputs():
    class Zero(Scale):
        serializer = dagprofiler.serializers.OutOfBandPickle()

    first = Zero().run({"x": np.arange(1000)}, Config(factor=2))
    second = Zero().run({"x": first["outputs"]["y"]}, Config(factor=3))
    assert second["outputs_raw"]["y"][1] == 6
    assert second["metrics"].bytes_in == first["metrics"].bytes_out >= 8000


# Errors of serialization


def test_an_output_that_cannot_be_serialized_is_named():
    class Lambda(Source):
        def compute(self):
            return {"x": lambda: None}

    with pytest.raises(RunError) as caught:
        DAG({"source": Lambda}).run()
    cause = caught.value.__cause__
    assert isinstance(cause, SerializationError)
    assert isinstance(cause, TypeError)
    assert str(cause).startswith("task 'source': output 'x' (function) cannot be serialized: ")
    assert cause.__cause__ is not None


def test_an_input_that_cannot_be_decoded_is_named():
    class Broken(Source):
        @staticmethod
        def deserialize(data):
            raise EOFError("cut off")

    with pytest.raises(RunError) as caught:
        DAG({"source": Broken, "sink": Scale}, [("source", "sink")], Config(factor=1)).run()
    assert caught.value.task == "sink"
    assert str(caught.value.__cause__) == (
        "task 'sink': input 'x' cannot be decoded: EOFError: cut off"
    )
    assert isinstance(caught.value.__cause__.__cause__, EOFError)


def test_a_serialize_that_returns_no_bytes_is_named():
    class Text(Source):
        @staticmethod
        def serialize(data):
            return "text"

    with pytest.raises(RunError) as caught:
        DAG({"source": Text}).run()
    assert isinstance(caught.value.__cause__, SerializationError)
    assert str(caught.value.__cause__) == (
        "task 'source': serialize() of output 'x' returned str, expected bytes or a list of buffers"
    )


# Cost models


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, 0),
        (7, 7),
        (2.0, 2),
        (2.001, 3),
        (np.int32(5), 5),
        (np.uint8(200), 200),
        (np.int64(2**53 + 1), 2**53 + 1),
        (2**63 - 1, 2**63 - 1),
        (np.float64(0.5), 1),
        (fractions.Fraction(7, 2), 4),
        (decimal.Decimal("1.5"), 2),
        (1000 * np.log2(1000), 9966),
    ],
)
def test_results_become_whole_numbers_rounded_up(value, expected):
    weight = costing(lambda cfg: value).run().metrics.node_weights["costly"]
    assert weight == expected
    assert type(weight) is int


@pytest.mark.parametrize("value", [-1, -0.5, -1e-300, np.int64(-3), 2**63, 1e30], ids=repr)
def test_results_out_of_range_are_errors(value):
    with pytest.raises(ValidationError) as caught:
        costing(lambda cfg: value).run()
    (problem,) = caught.value.problems
    assert isinstance(problem, CostModelError)
    assert str(problem) == (
        f"task 'costly': estimate_instructions returned {value!r}, expected 0 to 2**63 - 1"
    )


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), -float("inf"), np.float64("nan"), "100", b"1", 1j, [1], {}],
    ids=repr,
)
def test_results_that_are_no_finite_numbers_are_errors(value):
    with pytest.raises(ValidationError) as caught:
        costing(lambda cfg: value).validate()
    (problem,) = caught.value.problems
    assert isinstance(problem, CostModelError)
    assert str(problem) == (
        f"task 'costly': estimate_instructions returned {value!r}, expected a finite number or None"
    )


def test_a_parameter_that_the_config_lacks_is_named():
    with pytest.raises(
        ValidationError,
        match=r"'costly': estimate_instructions .*Error: .*'M' \(.*'N', 'n'\)",
    ):
        costing(lambda cfg: cfg.M * 10).run()
    with pytest.raises(
        ValidationError, match=r"'costly': estimate_instructions .*: KeyError: 'M'"
    ) as caught:
        costing(lambda cfg: cfg["M"]).run()
    assert isinstance(caught.value.__cause__, CostModelError)


@pytest.mark.parametrize("model", [None, lambda cfg: None])
def test_no_model_and_none_are_a_default_and_no_measurement(model):
    dag = DAG({"costly": Source}) if model is None else costing(model)
    profile = dag.run()
    assert profile.metrics.node_weights == {"costly": 0}
    document = profile.to_dict()
    # No task has one, so that the reason stands once.
    assert "estimated_instructions" not in document["weight_sources"].get("costly", {})
    reasons = document["environment"]["not_measured"]
    assert reasons["estimated_instructions"] == "the task has no cost model"
    assert profile.tasks["node_weight"] == [None]


def test_an_estimate_of_0_is_an_estimate():
    source = costing(lambda cfg: 0).run().to_dict()["weight_sources"]["costly"]
    assert source["node_weight"] == "estimated_instructions"
    assert source["estimated_instructions"] == 0
    assert "reasons" not in source


def test_all_cost_models_are_evaluated_before_the_first_task_runs():
    seen = []

    class Watched(Source):
        def compute(self):
            seen.append("run")
            return {"x": 0}

        @staticmethod
        def estimate_instructions(cfg):
            seen.append("estimate")
            return 1

    DAG({"a": Watched, "b": Watched, "c": Watched}).run()
    assert seen == ["estimate"] * 3 + ["run"] * 3


def test_a_cost_model_may_be_a_method_of_the_instance():
    class Sized(Source):
        def __init__(self, size):
            super().__init__()
            self.size = size

        def estimate_instructions(self, cfg):
            return self.size * cfg.N

    dag = DAG({"a": Sized(2), "b": Sized(3)}, [], Config(N=10))
    assert dag.run().metrics.node_weights == {"a": 20, "b": 30}


def test_the_default_model_says_0_as_in_0_1_0():
    assert Source.estimate_instructions(Config()) == 0


def test_a_cost_model_of_a_shared_instance_reads_the_config_of_the_run():
    class Costly(Source):
        def estimate_instructions(self, cfg):
            return self.config.N

    shared = Costly()
    first, second = DAG({"a": shared}, [], Config(N=1)), DAG({"a": shared}, [], Config(N=2))
    assert first.run().metrics.node_weights == {"a": 1}
    assert second.run().metrics.node_weights == {"a": 2}
    assert first.run().metrics.node_weights == {"a": 1}


def test_an_array_of_one_number_is_an_estimate():
    profile = costing(lambda cfg: np.array(2.5)).run()
    assert profile.metrics.node_weights == {"costly": 3}


class Seen(Task):
    outputs = ["seen"]

    def compute(self, cfg):
        return {"seen": cfg}


@pytest.mark.parametrize(
    "made", [lambda: Seen().run({}, Config()), lambda: Seen(config=Config()).run({})]
)
def test_an_empty_config_is_passed_on_as_it_is(made):
    (cfg,) = made()["outputs_raw"].values()
    assert isinstance(cfg, Config)
    assert cfg == Config()


def test_run_of_a_task_that_gathers_gives_an_empty_list_where_nothing_is_given():
    class Gathers(Task):
        inputs = ["p", "q"]
        gathers = ["p", "q"]
        outputs = ["got"]

        def compute(self, p, q):
            return {"got": (p, q)}

    assert Gathers().run({})["outputs_raw"] == {"got": ([], [])}
    assert Gathers().run({"q": [1]})["outputs_raw"] == {"got": ([], [1])}


def test_inputs_may_be_a_property_where_some_are_gathered():
    class Gathers(Task):
        gathers = ["x"]
        outputs = ["got"]

        @property
        def inputs(self):
            return ["x"]

        def compute(self, x):
            return {"got": x}

    dag = DAG({"a": Source, "b": Source, "c": Gathers}, [("a", "c"), ("b", "c")])
    assert dag.run().final_outputs == {"got": [1, 1]}

    class Wrong(Gathers):
        gathers = ["other"]

    with pytest.raises(DeclarationError, match="'other', which is not"):
        DAG({"a": Wrong})


def test_the_serializer_may_be_a_property():
    class Own(Source):
        @property
        def serializer(self):
            return OutOfBandPickle()

    class Wrong(Source):
        @property
        def serializer(self):
            return OutOfBandPickle

    assert Own().run({})["outputs"]["x"] == OutOfBandPickle.dumps(1)
    with pytest.raises(DeclarationError, match="must be an instance"):
        DAG({"a": Wrong})


def test_a_task_that_is_given_a_value_instead_of_a_name_says_so():
    @task(inputs=["x"], outputs=["y"])
    def f(x):
        return {"y": x}

    with pytest.raises(DeclarationError, match=r"'f': name .* 3; .*compute\(\)"):
        f(3)


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
    dag = DAG(
        {
            "double": scale.bind(factor=2),
            "triple": scale.bind(factor=2, offset=1).bind(factor=3),
            "minus": Power(sign=-1).bind(exponent=2),
        },
        [("double", "triple", {"y": "x"}), ("triple", "minus", {"y": "x"})],
        Config(N=0),
    )
    dag = pickle.loads(pickle.dumps(dag))
    profile = dag.run(inputs={"double": {"x": 1}})
    assert profile.final_outputs == {"y": -49}
    assert profile.sections["run"]["bound"] == {
        "double": {"factor": "2"},
        "triple": {"factor": "3", "offset": "1"},
        "minus": {"exponent": "2"},
    }
    assert Profile.loads(profile.dumps()) == profile


def test_binding_leaves_the_original_alone():
    original = Power()
    bound = original.bind(exponent=3)
    assert (original.inputs, original.bound) == (["x", "exponent"], {})
    assert (bound.inputs, bound.compute(x=2)) == (["x"], {"y": 8})


@pytest.mark.parametrize("name", ["factr", "cfg"])
def test_a_bound_argument_that_compute_does_not_take_is_refused(name):
    with pytest.raises(DeclarationError, match=f"'scale'.*'{name}'.*'factor'"):
        scale.bind(**{name: 1})


def test_an_edge_cannot_feed_a_bound_argument():
    dag = DAG(
        {"a": scale.bind(factor=1, x=1), "b": scale.bind(factor=1)}, [("a", "b", {"y": "factor"})]
    )
    with pytest.raises(ValidationError, match=r"'b'.*'factor' from 'a'"):
        dag.validate(inputs={"b": {"x": 1}})
