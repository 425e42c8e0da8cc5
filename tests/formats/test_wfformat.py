from __future__ import annotations

import io
import json
import re
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagprofiler import (
    DAG,
    Config,
    DAGMetrics,
    EdgeMetrics,
    FormatError,
    Profile,
    Rounds,
    TaskMetrics,
    WeightError,
    task,
)
from dagprofiler.formats import exporter, import_profile
from dagprofiler.formats.wfformat import identifiers

DATA = Path(__file__).resolve().parents[1] / "data"
SCHEMA = json.loads((DATA / "wfformat" / "schema-1.5.json").read_text(encoding="utf-8"))

#: What each version allows in what tasks are referred to by.
REFERENCES = re.compile(r"[0-9a-zA-Z_.-]+")

NASTY = [
    "two words",
    "two_words",
    'quo"te',
    "quo'te",
    "Grüße",
    "new\nline",
    "$HOME",
    "<b>",
    "x" * 300,
    "\ud800",
    "a/b",
    "=1+1",
    "-",
]


def render(profile, **options):
    return exporter("wfformat").render(profile, **options)


def instance(profile, **options):
    return json.loads(render(profile, **options).text)


def again(profile, **options):
    return import_profile(io.StringIO(render(profile, **options).text))


def made(names, edges, times_ms=None, **options):
    """Return a profile of one round; `edges` are pairs with their bytes."""
    times_ms = [1.5] * len(names) if times_ms is None else times_ms
    return Profile(
        Config(),
        {
            "nodes": list(names),
            "edges": [{"source": source, "target": target} for source, target in edges],
            "execution_order": list(names),
        },
        DAGMetrics(
            [
                TaskMetrics(name, time_ms, 0.5, 0.25, 0, 8)
                for name, time_ms in zip(names, times_ms)
                if time_ms is not None
            ],
            [
                EdgeMetrics(*pair, ["x"], size, wire_bytes=2 * size + 1)
                for pair, size in edges.items()
            ],
            dict.fromkeys(names, 0),
            {"->".join(pair): 8 * size for pair, size in edges.items()},
            10.25,
        ),
        timestamp="2026-11-20T23:59:32Z",
        hostname="node-1",
        **options,
    )


@pytest.fixture
def measured():
    @task(inputs=[], outputs=["x", "y"], estimate_fn=lambda cfg: 100)
    def source(cfg):
        return {"x": list(range(cfg.n)), "y": 1.5}

    @task(inputs=["x"], outputs=["z"], estimate_fn=lambda cfg: 10)
    def middle(x):
        return {"z": sum(x)}

    @task(inputs=["y", "z"], outputs=["w"], estimate_fn=lambda cfg: 1)
    def sink(y, z):
        return {"w": y * z}

    edges = [("source", "middle"), ("source", "sink"), ("middle", "sink")]
    tasks = {"source": source, "middle": middle, "sink": sink}
    return DAG(tasks, edges, Config(n=1000)).run(seed=7, rounds=Rounds(3), meters="full")


def test_version_1_5_holds_specification_and_execution():
    profile = made(["a", "b"], {("a", "b"): 24}, [1001.0, 2.5])
    assert instance(profile) == {
        "name": "dagprofiler",
        "schemaVersion": "1.5",
        "runtimeSystem": {
            "name": "dagprofiler",
            "version": profile.metadata["dagprofiler_version"],
        },
        "workflow": {
            "specification": {
                "tasks": [
                    {
                        "name": "a",
                        "id": "a",
                        "parents": [],
                        "children": ["b"],
                        "inputFiles": [],
                        "outputFiles": ["a/b"],
                    },
                    {
                        "name": "b",
                        "id": "b",
                        "parents": ["a"],
                        "children": [],
                        "inputFiles": ["a/b"],
                        "outputFiles": [],
                    },
                ],
                "files": [{"id": "a/b", "sizeInBytes": 24}],
            },
            "execution": {
                "makespanInSeconds": 0.01025,
                "executedAt": "2026-11-20T23:59:32Z",
                "tasks": [
                    {"id": "a", "runtimeInSeconds": 1.001, "machines": ["node-1"]},
                    {"id": "b", "runtimeInSeconds": 0.0025, "machines": ["node-1"]},
                ],
                "machines": [{"nodeName": "node-1", "cpu": {}}],
            },
        },
    }


def test_version_1_4_holds_everything_with_the_task():
    profile = made(["a", "b"], {("a", "b"): 24})
    workflow = instance(profile, version="1.4", workflow="mine")["workflow"]
    assert workflow["makespanInSeconds"] == 0.01025
    assert workflow["tasks"][1] == {
        "name": "b",
        "id": "b",
        "type": "compute",
        "parents": ["a"],
        "children": [],
        "files": [{"name": "a/b", "sizeInBytes": 24, "link": "input"}],
        "runtimeInSeconds": 0.0015,
    }


@pytest.mark.parametrize("version", ["1.5", "1.6"])
def test_what_was_measured_satisfies_the_schema(measured, version):
    document = instance(measured, version=version)
    assert document["schemaVersion"] == version
    jsonschema.validate(document, SCHEMA)
    execution = document["workflow"]["execution"]
    assert all("cpu" in machine for machine in execution["machines"])
    assert len(execution["tasks"]) == 3


def test_what_was_metered_goes_with_the_task():
    samples = {
        "rounds": ["warm_up", "measured", "measured", "measured"],
        "tasks": {
            "a": {
                "wall_ms": [9.0, 2.0, 4.0, 3.0],
                "process_cpu_ms": [9.0, 1.5, None, 1.5],
                "peak_memory_bytes": [9, 4096, 8192, 4096],
                "read_bytes": [9, 0, 0, 0],
                "written_bytes": [None, None, None, None],
            }
        },
    }
    profile = made(["a"], {}, sections={"samples": samples})
    (entry,) = instance(profile)["workflow"]["execution"]["tasks"]
    idle = {
        **samples,
        "tasks": {"a": {**samples["tasks"]["a"], "process_cpu_ms": [None, 1e-9] * 2}},
    }
    (unshared,) = instance(made(["a"], {}, sections={"samples": idle}))["workflow"]["execution"][
        "tasks"
    ]
    # WRENCH divides by it.
    assert "avgCPU" not in unshared
    assert entry == {
        "id": "a",
        "runtimeInSeconds": 0.003,
        "avgCPU": 50.0,
        "memoryInBytes": 4096,
        "readBytes": 0,
        "machines": ["node-1"],
    }


def test_the_machine_is_described_as_far_as_it_is_known():
    environment = {
        "os": "Linux-6.1.0-x86_64",
        "machine": "x86_64",
        "cores": 4,
        "cpu_mhz": 2399.6,
        "memory_bytes": 2**33,
    }
    profile = made(["a"], {}, sections={"environment": environment})
    (machine,) = instance(profile)["workflow"]["execution"]["machines"]
    assert machine == {
        "nodeName": "node-1",
        "system": "linux",
        "release": "6.1.0-x86_64",
        "architecture": "x86_64",
        "memoryInBytes": 2**33,
        "cpu": {"coreCount": 4, "speedInMHz": 2400},
    }
    old = instance(profile, version="1.4")["workflow"]["machines"][0]
    assert old["cpu"] == {"count": 4, "speed": 2400}


def test_an_unknown_machine_is_absent():
    profile = made(["a"], {})
    profile.hostname = None
    execution = instance(profile)["workflow"]["execution"]
    assert "machines" not in execution
    assert "machines" not in execution["tasks"][0]


def test_sizes_are_payload_or_wire():
    profile = made(["a", "b"], {("a", "b"): 24})
    for size, size_bytes in (("spec", 24), ("wire", 49)):
        (file,) = instance(profile, size=size)["workflow"]["specification"]["files"]
        assert file["sizeInBytes"] == size_bytes


def test_an_edge_without_wire_size_is_named():
    profile = Profile.load(DATA / "readme-sample.json")
    with pytest.raises(FormatError, match=r"wire size .*'collect' -> 'process'"):
        render(profile, size="wire", fill=1)


def test_a_profile_of_0_1_0_has_what_it_has():
    export = render(Profile.load(DATA / "readme-sample.json"))
    workflow = json.loads(export.text)["workflow"]
    assert [entry["id"] for entry in workflow["execution"]["tasks"]] == ["collect"]
    assert any("2 tasks have no runtime" in loss for loss in export.losses)


def test_costs_are_times(measured):
    for options in ({}, {"cost": "time"}, {"cost": "wall_time"}, {"cost": "cpu_time"}):
        weights = measured.weights(options.get("cost", "time")).values
        tasks = instance(measured, **options)["workflow"]["execution"]["tasks"]
        assert {t["id"]: t["runtimeInSeconds"] for t in tasks} == pytest.approx(
            {name: value / 1e3 for name, value in weights.items()}
        )
    for cost in ("counted", "estimated", "walltime"):
        with pytest.raises(FormatError, match=f"cost must .*got '{cost}'"):
            render(measured, cost=cost)


def test_the_statistic_is_that_of_weights(measured):
    for statistic in ("median", "mean", "min", "max"):
        weights = measured.weights("time", statistic).values
        tasks = instance(measured, statistic=statistic)["workflow"]["execution"]["tasks"]
        assert [t["runtimeInSeconds"] * 1e3 for t in tasks] == pytest.approx(
            [weights[t["id"]] for t in tasks]
        )
    with pytest.raises(WeightError, match="statistic"):
        render(measured, statistic="mode")


def test_a_task_without_runtime_is_absent_or_filled():
    profile = made(["a", "b"], {("a", "b"): 8}, [1.0, None])
    export = render(profile)
    tasks = json.loads(export.text)["workflow"]["execution"]["tasks"]
    assert [entry["id"] for entry in tasks] == ["a"]
    assert "1 task has no runtime: readers may take it for 0" in export.losses
    filled = render(profile, fill=2000)
    tasks = json.loads(filled.text)["workflow"]["execution"]["tasks"]
    assert [entry["runtimeInSeconds"] for entry in tasks] == [0.001, 2.0]
    assert "1 task has no runtime: fill= stands for it" in filled.losses


def test_without_runtimes_there_is_no_execution_and_a_word_about_wrench():
    export = render(made(["a"], {}, [None]))
    assert "execution" not in json.loads(export.text)["workflow"]
    assert any("WRENCH requires" in loss for loss in export.losses)


def test_an_unknown_total_is_the_sum_of_runtimes_and_said():
    profile = made(["a", "b"], {}, [1.0, 2.0])
    profile.metrics.total_time_ms = None
    export = render(profile)
    assert json.loads(export.text)["workflow"]["execution"]["makespanInSeconds"] == 0.003
    assert "makespanInSeconds is the sum" in export.losses[0]


@pytest.mark.parametrize("fill", [None, 2000, np.float64(2000)])
def test_an_unmeasured_profile_is_filled_or_has_no_execution_whatever_the_statistic(fill):
    export = render(
        import_profile(DATA / "wfformat" / "v16-specification.json"), statistic="mean", fill=fill
    )
    workflow = json.loads(export.text)["workflow"]
    tasks = workflow.get("execution", {"tasks": []})["tasks"]
    assert [entry["runtimeInSeconds"] for entry in tasks] == ([] if fill is None else [2.0] * 3)


def test_times_that_add_up_to_more_than_a_number_holds_are_written_as_the_largest():
    profile = made(["a", "b"], {}, [1.7e308, 1.7e308])
    profile.metrics.total_time_ms = None
    assert json.loads(render(profile).text)["workflow"]["execution"]["makespanInSeconds"] > 1e305


def test_an_edge_of_unknown_size_has_no_file():
    profile = made(["a", "b"], {("a", "b"): 8})
    profile.metrics.edge_weights.clear()
    profile.metrics.edge_metrics.clear()
    export = render(profile)
    first, second = json.loads(export.text)["workflow"]["specification"]["tasks"]
    assert (first["children"], second["parents"]) == (["b"], ["a"])
    assert "outputFiles" not in first
    assert "inputFiles" not in second
    assert "1 edge has no known size, and so no file" in export.losses
    assert again(profile).metrics.edge_weights == {}
    words = "1 edge has no known size, and so no file; readers may take it for 0"
    assert words in render(profile, version="1.4").losses


def test_what_the_format_cannot_hold_is_listed(measured):
    losses = "\n".join(render(measured).losses)
    for words in ("node weights", "the configuration", "the seed", "3 rounds", "timeline"):
        assert words in losses


def test_which_of_two_sizes_an_edge_has_is_said_where_they_differ(measured):
    assert not any("one size" in loss for loss in render(measured).losses)
    measured.metrics.edge_metrics[0].wire_bytes += 5
    words = "an edge has one size here, its payload by the standard's rule; size='wire' writes th"
    assert any(loss.startswith(words) for loss in render(measured).losses)
    words = "an edge has one size here, its bytes as serialized; size='spec' writes the other"
    assert words in render(measured, size="wire").losses
    assert not any("one size" in loss for loss in render(again(measured)).losses)


def test_one_name_that_is_no_identifier_is_one():
    profile = made(["a b"], {})
    assert render(profile).losses[-1].startswith("1 task name is no identifier of WfFormat: 'a b'")


@pytest.mark.parametrize("version", ["1.4", "1.5", "1.6"])
def test_names_are_mapped_to_identifiers_and_back(version):
    edges = {(a, b): i for i, (a, b) in enumerate(zip(NASTY, NASTY[1:]))}
    profile = made(NASTY, edges)
    export = render(profile, version=version)
    assert f"{len(NASTY) - 3} task names" in export.losses[-1]
    export.text.encode()
    document = json.loads(export.text)
    if version == "1.4":
        references = [entry["name"] for entry in document["workflow"]["tasks"]]
    else:
        jsonschema.validate(document, SCHEMA)
        references = [entry["id"] for entry in document["workflow"]["specification"]["tasks"]]
    assert all(map(REFERENCES.fullmatch, references))
    assert len(set(references)) == len(NASTY)
    back = import_profile(io.StringIO(export.text))
    assert back.dag_structure["nodes"] == NASTY
    assert back.metrics.edge_weights == profile.metrics.edge_weights


def test_identifiers_are_distinct_and_the_same_each_time():
    names = ["a b", "a_b", "a?b", "a_b_2", "a b_2", ""]
    found = identifiers(names, {})
    assert found == {
        "a b": "a_b_3",
        "a_b": "a_b",
        "a?b": "a_b_4",
        "a_b_2": "a_b_2",
        "a b_2": "a_b_2_2",
        "": "task",
    }
    assert identifiers(["x", "y"], {"x": "1", "y": "1"}) == {"x": "1", "y": "1_2"}
    assert identifiers(["x"], {"x": 7}) == {"x": "x"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"version": "1.3"}, "version .*'1.4', '1.5' or '1.6', got '1.3'"),
        ({"version": 1.5}, "version .*got 1.5"),
        ({"size": "bytes"}, "size .*'spec' or 'wire', got 'bytes'"),
        ({"workflow": 5}, "workflow must be text, got 5"),
        ({"fill": -1}, "fill, in milliseconds, .* at least 0, got -1"),
        ({"fill": float("nan")}, "fill, in milliseconds, must"),
        ({"fill": True}, "fill, in milliseconds, must"),
    ],
)
def test_an_option_that_is_none_is_refused(options, words):
    with pytest.raises(FormatError, match=words):
        render(made(["a"], {}), **options)


def test_a_profile_without_tasks_is_refused():
    with pytest.raises(FormatError, match="without tasks"):
        render(made([], {}))


@pytest.mark.parametrize(
    "section",
    [None, 7, [], {"ids": 3, "tasks": [], "machines": {}}, {"tasks": {"a": 1}, "machines": [1]}],
)
def test_a_foreign_section_named_imported_does_no_harm(section):
    jsonschema.validate(instance(made(["a"], {}, sections={"imported": section})), SCHEMA)


NAMES = st.text(min_size=1, max_size=6).filter(lambda name: "->" not in name)
TIMES_MS = st.integers(0, 10**12).map(lambda ns: round(ns / 1e6, 6))


@st.composite
def profiles(draw):
    names = draw(st.lists(NAMES, min_size=1, max_size=8, unique=True))
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    edges = draw(st.dictionaries(st.sampled_from(pairs), st.integers(0, 2**50))) if pairs else {}
    times = draw(st.lists(TIMES_MS, min_size=len(names), max_size=len(names)))
    return made(names, edges, times)


@given(profile=profiles(), version=st.sampled_from(["1.4", "1.5", "1.6"]))
def test_any_profile_comes_back_with_its_graph_and_weights(profile, version):
    back = again(profile, version=version)
    assert back.dag_structure["nodes"] == profile.dag_structure["nodes"]
    pairs = {(edge["source"], edge["target"]) for edge in profile.dag_structure["edges"]}
    assert {(e["source"], e["target"]) for e in back.dag_structure["edges"]} == pairs
    assert back.metrics.edge_weights == profile.metrics.edge_weights
    assert back.weights("wall_time").values == profile.weights("wall_time").values
    assert back.metrics.total_time_ms == profile.metrics.total_time_ms
    second = again(back, version=version)
    assert second.dag_structure == back.dag_structure
    assert second.metrics.edge_weights == back.metrics.edge_weights
