"""Programs written for version 0.1.0 run unchanged, and the deviations are those listed."""

from __future__ import annotations

import dataclasses
import json
import pickle
import textwrap
from pathlib import Path

import numpy as np
import pytest

from dagprofiler import (
    DAG,
    Config,
    DAGMetrics,
    EdgeMetrics,
    Profile,
    RunError,
    Task,
    TaskMetrics,
    analyze,
    task,
)
from dagprofiler.decorators import dag as make_dag
from dagprofiler.decorators import task as task_of_decorators
from dagprofiler.schema import PROFILE_SCHEMA, validate_profile

# A program in the manner of 0.1.0


class Collect(Task):
    inputs = []
    outputs = ["x", "y"]

    def compute(self, cfg=None):
        n = cfg.N if cfg else 10
        return {"x": np.random.randn(n), "y": np.random.randn(n)}

    @staticmethod
    def estimate_instructions(cfg):
        return cfg.N * 10


class Double(Task):
    inputs = ["x"]
    outputs = ["z"]
    config_deps = ["scale"]

    def compute(self, x, cfg=None):
        scale = cfg.get("scale", 2) if cfg else 1.0
        return {"z": x * scale}

    @staticmethod
    def estimate_instructions(cfg):
        return cfg.get("N", 100) * 5


class Add(Task):
    inputs = ["y", "z"]
    outputs = ["result"]

    def compute(self, y, z, cfg=None):
        return {"result": y + z}


EDGES = [("T0", "T1"), ("T0", "T2"), ("T1", "T2")]


def program(n=100, **options):
    return DAG(
        tasks={"T0": Collect(), "T1": Double(), "T2": Add()},
        edges=EDGES,
        config=Config(N=n, **options),
    )


def test_a_program_runs_and_measures():
    dag = program()
    assert dag.execution_order == ["T0", "T1", "T2"]
    profile = dag.run(seed=42)
    metrics = profile.metrics
    assert len(metrics.task_metrics) == 3
    assert metrics.node_weights == {"T0": 1000, "T1": 500, "T2": 0}
    assert metrics.edge_weights == {"T0->T1": 6400, "T0->T2": 6400, "T1->T2": 6400}
    assert profile.final_outputs["result"].shape == (100,)
    assert list(profile.final_outputs) == ["result"]


def test_arguments_may_be_given_by_position():
    dag = DAG({"T0": Collect("first", None), "T1": Double()}, [("T0", "T1", ["x"])], Config(N=3))
    assert dag.run(1).metrics.edge_weights == {"T0->T1": 192}
    assert dag.run(1).seed == 1


def test_the_attributes_of_a_dag():
    dag = program()
    assert set(dag.tasks) == {"T0", "T1", "T2"}
    assert dag.config.N == 100
    assert dag.edges["T0"] == ["T1", "T2"]
    assert dict(dag.edges) == {"T0": ["T1", "T2"], "T1": ["T2"]}
    assert dict(dag.reverse_edges) == {"T1": ["T0"], "T2": ["T0", "T1"]}
    assert dag.reverse_edges.get("T0", []) == dag.edges["T2"] == []
    assert dag.edge_fields == {("T0", "T1"): ["x"], ("T0", "T2"): ["y"], ("T1", "T2"): ["z"]}
    assert all(node.config is dag.config for node in dag.tasks.values())


def test_a_dag_without_a_config_has_an_empty_one():
    dag = DAG(tasks={"T0": Collect()}, edges=[])
    assert isinstance(dag.config, Config)
    assert len(dag.config) == 0
    assert not dag.config


def test_a_cycle_is_a_value_error_that_says_cycle():
    with pytest.raises(ValueError, match="cycle"):
        DAG(tasks={"A": Collect(), "B": Double()}, edges=[("A", "B"), ("B", "A")])


def test_the_smallest_ready_name_comes_first():
    dag = DAG({name: Collect() for name in ("T10", "T2", "T1")}, [("T10", "T1", ["x"])])
    assert dag.execution_order == ["T10", "T1", "T2"]


#: As 0.1.0 saved the README's Quick Start, but for the line breaks.
QUICK_START = (Path(__file__).parent / "data" / "quick-start-of-0.1.0.json").read_text()


def test_a_profile_of_0_1_0_has_the_times_of_its_tasks(tmp_path):
    profile = Profile.loads(QUICK_START)
    times = {"collect": 14.652, "process": 12.6, "classify": 0.004}
    assert profile.weights("wall_time").values == times
    assert profile.weights("best").source == "wall_time"
    path = analyze(profile).without_communication.critical_path
    assert path == ("collect", "process", "classify")
    profile.export(tmp_path / "saga.json", "saga", cost="wall_time")
    costs = json.loads((tmp_path / "saga.json").read_text())["tasks"]
    assert {task["name"]: task["cost"] for task in costs} == times
    shown = str(profile)
    assert "1,000,000" in shown
    assert "CollectData" not in shown
    assert [t.task for t in Profile.loads(profile.dumps()).metrics.task_metrics] == [
        *("CollectData", "ProcessData", "Classify")
    ]


def test_a_profile_of_0_1_0_that_lacks_an_entry_shows_its_weights_and_why_no_times():
    document = json.loads(QUICK_START)
    del document["execution_metrics"][1]
    shown = str(Profile.from_dict(document))
    assert "1,000,000" in shown
    assert "14.652" not in shown
    assert "no times: execution_metrics has 2 entries" in shown


def test_a_task_alone():
    double = Double()
    assert (double.name, double.inputs, double.outputs, double.config_deps) == (
        "Double",
        ["x"],
        ["z"],
        ["scale"],
    )
    assert double.config is None
    x = np.array([1.0, 2.0, 3.0])
    result = double.run({"x": Task.serialize(x)}, Config(scale=2.0))
    assert set(result) == {"outputs", "outputs_raw", "metrics"}
    assert np.array_equal(Task.deserialize(result["outputs"]["z"]), x * 2)
    assert np.array_equal(result["outputs_raw"]["z"], x * 2)
    metrics = result["metrics"]
    assert metrics.task == "Double"
    assert metrics.bytes_in == len(Task.serialize(x))
    assert metrics.bytes_out == len(result["outputs"]["z"])
    assert metrics.loop_idx == 0


def test_a_task_alone_takes_keywords_and_its_own_config():
    collect = Collect(name="source", config=Config(N=3))
    result = collect.run(inputs={}, config=None)
    assert result["outputs_raw"]["x"].shape == (3,)
    assert result["metrics"].task == "source"
    assert collect.run({}, config=Config(N=5))["outputs_raw"]["x"].shape == (5,)


def test_a_task_alone_without_a_config_gets_none():
    assert Collect().run({})["outputs_raw"]["x"].shape == (10,)


def test_missing_outputs_of_a_task_alone_are_a_value_error():
    class Half(Collect):
        def compute(self, cfg=None):
            return {"x": 1}

    with pytest.raises(ValueError, match="y"):
        Half().run({})


def test_serialize_and_deserialize_are_static():
    assert Task.deserialize(Task.serialize([1, 2])) == [1, 2]
    assert Collect.deserialize(Collect().serialize({"a": 1})) == {"a": 1}


def test_the_signature_of_the_abstract_compute_may_be_used():
    class Generic(Task):
        outputs = ["names"]

        def compute(self, cfg=None, **inputs):
            return {"names": sorted(inputs)}

    dag = DAG({"T0": Collect(), "G": Generic()}, [("T0", "G")], Config(N=2))
    assert dag.execution_order == ["T0", "G"]
    assert dag.run().final_outputs == {"names": ["x", "y"]}


class Text(Task):
    """Overrides its format."""

    inputs = ["x"]
    outputs = ["text"]

    @staticmethod
    def serialize(data):
        return json.dumps(data).encode()

    @staticmethod
    def deserialize(data):
        return json.loads(data)

    def compute(self, x, cfg=None):
        return {"text": [float(value) for value in x]}


class Read(Task):
    inputs = ["text"]
    outputs = ["count"]

    def compute(self, text, cfg=None):
        return {"count": len(text)}


def test_serialize_and_deserialize_may_be_overridden():
    dag = DAG({"a": Collect(), "b": Text(), "c": Read()}, [("a", "b"), ("b", "c")], Config(N=4))
    profile = dag.run(seed=0, keep=["b"])
    assert profile.final_outputs == {"count": 4}
    length = len(Text.serialize(profile.outputs["b"]["text"]))
    assert profile.metrics.edge_weights["b->c"] == 8 * length
    alone = Text().run({"x": b"[1, 2]"})
    assert alone["outputs"] == {"text": b"[1.0, 2.0]"}


class Recorded(Task):
    """Records what passes through run(), as programs for 0.1.0 may."""

    inputs = ["x"]
    outputs = ["z"]

    def __init__(self, **options):
        super().__init__(**options)
        self.seen = []

    def run(self, inputs, config=None):
        result = super().run(inputs, config)
        self.seen.append((sorted(inputs), config, result["metrics"]))
        return result

    def compute(self, x, cfg=None):
        return {"z": x * cfg.factor}


class Source(Task):
    outputs = ["x"]

    def __init__(self, value):
        super().__init__()
        self.value = value

    def compute(self, cfg=None):
        return {"x": self.value}


class Sink(Task):
    inputs = ["z"]
    outputs = ["got"]

    def compute(self, z, cfg=None):
        return {"got": z}


def recorded(value=3, recorder=Recorded, source=Source, **options):
    tasks = {"a": source(value), "b": recorder(), "c": Sink()}
    return DAG(tasks, [("a", "b"), ("b", "c")], Config(factor=2), **options)


def test_a_dag_goes_through_an_override_of_run():
    dag = recorded()
    profile = dag.run()
    assert profile.final_outputs == {"got": 6}
    ((fields, config, metrics),) = dag.tasks["b"].seen
    assert fields == ["x"]
    assert config is dag.config
    assert isinstance(metrics, TaskMetrics)
    assert [metrics.task for metrics in profile.metrics.task_metrics] == ["a", "b", "c"]
    assert profile.metrics.task_metrics[1].bytes_in == len(Task.serialize(3))
    assert profile.metrics.task_metrics[1].bytes_out == len(Task.serialize(6))
    assert profile.metrics.edge_weights == {
        "a->b": 8 * len(Task.serialize(3)),
        "b->c": 8 * len(Task.serialize(6)),
    }
    assert Profile.loads(profile.dumps()) == profile


def test_an_override_of_run_gets_serialized_inputs():
    class Peeks(Recorded):
        def run(self, inputs, config=None):
            self.seen.append({name: Task.deserialize(data) for name, data in inputs.items()})
            return super().run(inputs, config)

    dag = recorded(value=[1], recorder=Peeks)
    assert dag.run().final_outputs == {"got": [1, 1]}
    assert dag.tasks["b"].seen[0] == {"x": [1]}


@pytest.mark.parametrize("value", [b"bytes", [1, 2], [b"1", b"2"], None], ids=repr)
def test_values_of_all_kinds_pass_through_an_override_of_run(value):
    class Passes(Recorded):
        def compute(self, x, cfg=None):
            return {"z": x}

    assert recorded(value=value, recorder=Passes).run().final_outputs == {"got": value}


def test_an_override_of_run_works_after_a_producer_of_another_format():
    class Own(Source):
        serialize = staticmethod(Text.serialize)
        deserialize = staticmethod(Text.deserialize)

    dag = recorded(value=[1, 2], source=Own)
    assert dag.run().final_outputs == {"got": [1, 2, 1, 2]}


def test_an_override_of_run_works_with_a_format_of_its_own():
    class Own(Recorded):
        serialize = staticmethod(Text.serialize)
        deserialize = staticmethod(Text.deserialize)

    assert recorded(value=[1, 2], recorder=Own).run().final_outputs == {"got": [1, 2, 1, 2]}


class JsonFormat:
    name = "json"

    def dumps(self, obj):
        return json.dumps(obj).encode()

    def loads(self, frames):
        return json.loads(frames)


def test_an_override_of_run_works_under_the_serializer_of_the_dag():
    from dagprofiler.serializers import OutOfBandPickle

    for serializer in (JsonFormat(), OutOfBandPickle()):
        dag = recorded(value=[1, 2], serializer=serializer)
        assert dag.run().final_outputs == {"got": [1, 2, 1, 2]}


def test_an_override_of_run_with_gathered_inputs():
    class Gathers(Recorded):
        gathers = ["x"]

        def compute(self, x, cfg=None):
            return {"z": x}

    tasks = {"a": Source(b"1"), "b": Source([2]), "c": Gathers()}
    dag = DAG(tasks, [("b", "c"), ("a", "c")], Config(factor=2))
    assert dag.run().final_outputs == {"z": [[2], b"1"]}


def test_an_override_of_run_may_change_the_outputs():
    class Changes(Recorded):
        def run(self, inputs, config=None):
            result = super().run(inputs, config)
            raw = {"z": -result["outputs_raw"]["z"]}
            outputs = {"z": self.serialize(raw["z"])}
            return {**result, "outputs": outputs, "outputs_raw": raw}

    profile = recorded(recorder=Changes).run(keep=["b"])
    assert profile.final_outputs == {"got": -6}
    assert profile.outputs["b"] == {"z": -6}


def test_an_override_of_run_draws_from_the_stream_of_its_task():
    class Draws(Recorded):
        def compute(self, x, cfg=None):
            return {"z": float(np.random.random())}

    class Plain(Task):
        inputs = ["x"]
        outputs = ["z"]
        compute = Draws.compute

    assert recorded(recorder=Draws).run(5).final_outputs == (
        recorded(recorder=Plain).run(5).final_outputs
    )


def test_an_override_of_run_that_fails_fails_like_a_task():
    class Fails(Recorded):
        def run(self, inputs, config=None):
            raise ZeroDivisionError("by zero")

    with pytest.raises(RunError) as caught:
        recorded(recorder=Fails).run()
    assert caught.value.task == "b"
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    profile = caught.value.profile
    assert profile.to_dict()["run"]["tasks"]["b"]["state"] == "failed"
    assert Profile.loads(profile.dumps()) == profile


def test_an_override_of_run_may_return_no_serialized_outputs():
    class Raw(Recorded):
        def run(self, inputs, config=None):
            result = super().run(inputs, config)
            return {"outputs_raw": result["outputs_raw"], "metrics": result["metrics"]}

    dag = recorded(recorder=Raw)
    assert dag.run().final_outputs == recorded().run().final_outputs


@pytest.mark.parametrize("lost", [{"outputs": {}, "outputs_raw": {}}, None])
def test_an_override_of_run_that_loses_an_output_fails_like_a_task(lost):
    class Loses(Recorded):
        def run(self, inputs, config=None):
            result = super().run(inputs, config)
            return None if lost is None else {**result, **lost}

    with pytest.raises(RunError) as caught:
        recorded(recorder=Loses).run()
    assert caught.value.task == "b"
    assert "'b'" in str(caught.value)
    assert list(caught.value.profile.metrics.edge_weights) == ["a->b"]


@pytest.mark.parametrize("name", ["a", "m", "z"])
def test_an_override_of_run_may_stand_in_one_instance(name):
    replaced, seen = Source(1), []

    def run(inputs, config=None):
        seen.append(config)
        return Source.run(replaced, inputs, config)

    replaced.run = run
    dag = DAG({"b": Source(2), name: replaced, "y": Source(3)}, [], Config(factor=2))
    assert dag.run().outputs == {"b": {"x": 2}, name: {"x": 1}, "y": {"x": 3}}
    assert seen == [dag.config]


def test_config_in_all_its_ways():
    cfg = Config(N_UE=10000, N_CELL=7)
    assert cfg.N_UE == cfg["N_UE"] == 10000
    assert (cfg.get("N_SLICE", 5), cfg.get("N_CELL"), cfg.get("other")) == (5, 7, None)
    assert cfg.to_dict() == {"N_UE": 10000, "N_CELL": 7}
    assert ("N_UE" in cfg, "other" in cfg) == (True, False)
    assert list(cfg) == ["N_UE", "N_CELL"]
    assert len(cfg) == 2
    assert repr(cfg) == "Config(N_UE=10000, N_CELL=7)"
    assert cfg.copy(N_UE=5, new=1).to_dict() == {"N_UE": 5, "N_CELL": 7, "new": 1}
    assert cfg.N_UE == 10000
    with pytest.raises(AttributeError):
        cfg.other  # noqa: B018
    with pytest.raises(KeyError):
        cfg["other"]


def test_metrics_are_made_by_position_and_turn_into_dicts():
    one = TaskMetrics("a", 1.5, 0.25, 0.125, 10, 20)
    assert one.loop_idx == 0
    assert TaskMetrics("a", 1, 2, 3, 4, 5, loop_idx=6).loop_idx == 6
    assert one.to_dict() == {
        "task": "a",
        "compute_time_ms": 1.5,
        "serialize_time_ms": 0.25,
        "deserialize_time_ms": 0.125,
        "bytes_in": 10,
        "bytes_out": 20,
    }
    edge = EdgeMetrics("a", "b", ["x"], 3)
    assert edge.size_bits == 24
    assert edge.to_dict() == {
        "source": "a",
        "target": "b",
        "data_fields": ["x"],
        "size_bytes": 3,
        "size_bits": 24,
    }
    edge.size_bytes = 4
    assert edge.size_bits == 32
    whole = DAGMetrics([one], [edge], {"a": 1, "b": 0}, {"a->b": 32}, 2.5)
    assert whole.to_dict() == {
        "task_metrics": [one.to_dict()],
        "edge_metrics": [edge.to_dict()],
        "node_weights": {"a": 1, "b": 0},
        "edge_weights": {"a->b": 32},
        "total_time_ms": 2.5,
    }
    assert all(map(dataclasses.is_dataclass, (one, edge, whole)))
    assert pickle.loads(pickle.dumps(whole)) == whole


def hand_made():
    metrics = DAGMetrics(
        [TaskMetrics("a", 1.5, 0.25, 0.125, 0, 20)], [], {"a": 1, "b": 0}, {"a->b": 32}, 2.5
    )
    structure = {
        "nodes": ["a", "b"],
        "edges": [{"source": "a", "target": "b"}],
        "execution_order": ["a", "b"],
    }
    return Profile(config=Config(N=1), dag_structure=structure, metrics=metrics, final_outputs={})


def test_a_profile_may_be_made_by_hand(tmp_path):
    profile = hand_made()
    assert profile.seed is None
    assert profile.timestamp
    assert profile.hostname
    path = tmp_path / "profile.json"
    assert profile.save(str(path)) == str(path)
    loaded = Profile.load(str(path))
    assert loaded.metrics.node_weights == {"a": 1, "b": 0}
    assert loaded.metrics.total_time_ms == 2.5
    assert loaded.timestamp == profile.timestamp


def test_save_and_load(tmp_path):
    path = tmp_path / "profile.json"
    profile = program().run(seed=42)
    profile.save(path)
    data = json.loads(path.read_text(encoding="utf-8"))
    assert data["metadata"]["seed"] == 42
    assert data["configuration"] == {"N": 100}
    assert data["node_weights"] == {"T0": 1000, "T1": 500, "T2": 0}
    validate_profile(data)
    loaded = Profile.load(path)
    assert loaded.config.N == 100
    assert loaded.metrics.node_weights == profile.metrics.node_weights
    assert loaded.metrics.edge_weights == profile.metrics.edge_weights
    assert loaded.dag_structure == profile.dag_structure
    assert (loaded.seed, loaded.timestamp, loaded.hostname) == (
        profile.seed,
        profile.timestamp,
        profile.hostname,
    )
    assert loaded.final_outputs == {}


def test_compare():
    first, second = program(100).run(), program(200, scale=3).run()
    comparison = first.compare(second)
    assert comparison.keys() >= {
        "config_diff",
        "node_weight_diff",
        "edge_weight_diff",
        "time_diff_ms",
    }
    assert comparison["config_diff"] == {
        "N": {"self": 100, "other": 200},
        "scale": {"self": None, "other": 3},
    }
    assert comparison["node_weight_diff"]["T0"] == {
        "self": 1000,
        "other": 2000,
        "diff": -1000,
        "pct": -50.0,
    }
    assert "T2" not in comparison["node_weight_diff"]
    assert comparison["edge_weight_diff"]["T1->T2"] == {
        "self": 6400,
        "other": 12800,
        "diff": -6400,
        "pct": -50.0,
    }
    assert comparison["time_diff_ms"] == (
        first.metrics.total_time_ms - second.metrics.total_time_ms
    )


def written_by_0_1_0():
    """Return a document as 0.1.0 wrote it: local time, and metrics named after the class."""
    path = Path(__file__).parent / "data" / "source-and-sink-of-0.1.0.json"
    return json.loads(path.read_text())


def test_profiles_written_by_0_1_0_load(tmp_path):
    path = tmp_path / "old.json"
    path.write_text(json.dumps(written_by_0_1_0(), indent=2), encoding="utf-8")
    profile = Profile.load(path)
    assert profile.config.nested == {"x": 1.5}
    assert profile.metrics.edge_metrics[0].size_bytes == 24
    assert profile.metrics.task_metrics[0].task == "SourceTask"
    assert profile.timestamp == "2026-02-12T17:45:00.123456"
    assert profile.to_dict() == written_by_0_1_0()


def test_0_1_0_would_load_what_is_written_now():
    """0.1.0 passed each entry on as arguments and split edge keys in two."""
    data = json.loads(program().run().dumps())
    for entry in data["execution_metrics"]:
        assert set(entry) <= {field.name for field in dataclasses.fields(TaskMetrics)}
    assert all(len(key.split("->")) == 2 for key in data["edge_weights"])
    Config(**data["configuration"])


def test_the_schema_is_where_it_was():
    assert PROFILE_SCHEMA["type"] == "object"
    assert validate_profile(written_by_0_1_0()) is not False


def test_tasks_of_functions():
    assert task is task_of_decorators

    @task(inputs=[], outputs=["data"], config_deps=["N"], estimate_fn=lambda cfg: cfg.N)
    def source(cfg):
        """Make data."""
        return {"data": np.ones(cfg.N)}

    @task(["data"], ["result"], None, lambda cfg: cfg.N * 10)
    def process(data, cfg):
        return {"result": data * 2}

    assert issubclass(source, Task)
    assert source.__name__ == source().name == "source"
    assert source.__doc__ == "Make data."
    assert source(name="other", config=Config(N=1)).name == "other"
    assert (source.config_deps, process.inputs) == (["N"], ["data"])
    dag = make_dag(tasks=[source, process], config=Config(N=100))
    assert dag.edge_fields == {("source", "process"): ["data"]}
    profile = dag.run()
    assert profile.metrics.node_weights == {"source": 100, "process": 1000}
    assert profile.final_outputs["result"].sum() == 200
    explicit = make_dag([source, process], Config(N=2), [("source", "process", ["data"])])
    assert explicit.run().final_outputs["result"].tolist() == [2.0, 2.0]


def test_dag_takes_task_classes_of_all_kinds():
    dag = make_dag(tasks=[Collect, Double, Add], config=Config(N=3))
    assert set(dag.edge_fields) == {("Collect", "Double"), ("Collect", "Add"), ("Double", "Add")}
    assert dag.run(seed=1).final_outputs["result"].shape == (3,)


def test_a_dag_of_a_yaml_file(tmp_path, monkeypatch):
    pytest.importorskip("yaml")
    (tmp_path / "tasks_of_0_1_0.py").write_text(
        textwrap.dedent(
            """
            from dagprofiler import Task

            class Source(Task):
                inputs = []
                outputs = ["data"]

                def compute(self, cfg=None):
                    return {"data": [cfg.N]}

            class Sink(Task):
                inputs = ["data"]
                outputs = ["result"]

                def compute(self, data, cfg=None):
                    return {"result": sum(data)}
            """
        ),
        encoding="utf-8",
    )
    path = tmp_path / "dag.yaml"
    path.write_text(
        textwrap.dedent(
            """
            config: {N: 7}
            tasks:
              a: {module: tasks_of_0_1_0, class: Source}
              b: {module: tasks_of_0_1_0, class: Sink}
              c: {module: tasks_of_0_1_0, class: Sink}
              d: {module: tasks_of_0_1_0, class: Sink}
            edges:
              - [a, b]
              - {source: a, target: c}
              - {source: a, target: d, data: [data]}
            """
        ),
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)
    profile = DAG.from_yaml(str(path)).run()
    assert profile.outputs == {name: {"result": 7} for name in "bcd"}


def test_deviation_metrics_carry_the_name_of_the_dag():
    assert [metrics.task for metrics in program().run().metrics.task_metrics] == ["T0", "T1", "T2"]


def test_deviation_an_explicit_field_must_be_declared():
    with pytest.raises(ValueError, match="'w' is not an output of 'T0'"):
        DAG({"T0": Collect(), "T1": Double()}, [("T0", "T1", ["w"])])


def test_deviation_an_empty_list_only_orders():
    dag = DAG({"T0": Collect(), "T1": Collect()}, [("T0", "T1", [])], Config(N=1))
    assert dag.edge_fields == {("T0", "T1"): []}
    assert dag.run().metrics.edge_weights == {"T0->T1": 0}


def test_deviation_two_producers_are_an_error():
    tasks = {"a": Collect(), "b": Collect(), "c": Double()}
    with pytest.raises(ValueError, match="2 producers"):
        DAG(tasks, [("a", "c"), ("b", "c")], Config(N=1)).run()


def test_deviation_names_with_an_arrow_are_refused():
    with pytest.raises(ValueError, match="->"):
        DAG({"a->b": Collect()}, [])


def test_deviation_a_tasks_exception_is_the_cause_of_a_run_error():
    class Fails(Collect):
        def compute(self, cfg=None):
            raise LookupError("lost")

    with pytest.raises(RunError) as caught:
        DAG({"a": Fails()}, [], Config(N=1)).run()
    assert isinstance(caught.value.__cause__, LookupError)


def test_deviation_config_is_immutable():
    cfg = Config(N=1)
    with pytest.raises(AttributeError):
        cfg.N = 2
    with pytest.raises(TypeError):
        cfg["N"] = 2
    assert cfg.N == 1


def test_deviation_bytes_weigh_their_length():
    dag = DAG({"a": Source(b"12345"), "b": Sink()}, [("a", "b", {"x": "z"})])
    assert dag.run().metrics.edge_weights == {"a->b": 40}


def test_an_override_of_run_may_stand_over_a_compute_without_parameters():
    class Stub(Task):
        inputs = ["x"]
        outputs = ["z"]

        def run(self, inputs, config=None):
            x = self.deserialize(inputs["x"])
            return {
                "outputs": {"z": self.serialize(-x)},
                "outputs_raw": {"z": -x},
                "metrics": TaskMetrics(self.name, 0.0, 0.0, 0.0, 0, 0),
            }

        def compute(self):
            raise NotImplementedError

    dag = recorded(recorder=Stub)
    dag.validate()
    assert dag.run().final_outputs == {"got": -3}
