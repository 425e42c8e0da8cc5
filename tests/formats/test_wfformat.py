import io
import json
import re
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from agreement import check_agreement
from handmade import handmade
from hypothesis import example, given
from hypothesis import strategies as st
from sample_profiles import names as names_of_tasks
from sample_profiles import sink

from dagprofiler import DAG, Config, EdgeMetrics, Profile, Rounds, TaskMetrics, task
from dagprofiler.errors import FormatError, ProfileError, WeightError
from dagprofiler.formats import exporter, import_profile, importer
from dagprofiler.schema import validate_profile

DATA = Path(__file__).resolve().parents[1] / "data"
SCHEMA = json.loads((DATA / "wfformat" / "schema-1.5.json").read_text(encoding="utf-8"))

#: Files to their tasks and edges: ours, and some of WfInstances.
SHAPES = {
    "v13": (4, 4),
    "v14": (3, 3),
    "v15": (5, 5),
    "v16-specification": (3, 3),
    "v16-partial": (3, 2),
}
REAL_SHAPES = {
    "srasearch-chameleon-10a-001": (8, 11),
    "methylseq-dirt02-001": (8, 12),
    "montage-chameleon-2mass-005d-001": (8, 10),
    "bwa-chameleon-small-001": (8, 16),
}
EVERY = {**SHAPES, **REAL_SHAPES}

NASTY = [
    *("two words", "two_words", 'quo"te', "quo'te", "Grüße", "$HOME", "<b>"),
    *("x" * 300, "a/b", "=1+1", "-"),
]


def document(name):
    folder = DATA / ("wfformat" if name in SHAPES else "wfinstances")
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


def read(document):
    return importer("wfformat").read(document)


def load(name):
    return read(document(name))


def render(profile, **options):
    return exporter("wfformat").render(profile, **options)


def instance(profile, **options):
    return json.loads(render(profile, **options).text)


def executed(profile, **options):
    return instance(profile, **options)["workflow"].get("execution", {"tasks": []})["tasks"]


def again(profile, **options):
    return import_profile(io.StringIO(render(profile, **options).text))


def walls(profile):
    entries = profile.sections["weight_sources"]
    return {name: entry.get("wall_time_ms") for name, entry in entries.items()}


def made(names, edges, times_ms=None, **options):
    """Return a profile of one round; `edges` are pairs with their bytes."""
    times_ms = [1.5] * len(names) if times_ms is None else times_ms
    tasks = [
        TaskMetrics(name, time_ms, 0.5, 0.25, 0, 8)
        for name, time_ms in zip(names, times_ms)
        if time_ms is not None
    ]
    carried = [
        EdgeMetrics(*pair, ["x"], size, wire_bytes=2 * size + 1) for pair, size in edges.items()
    ]
    options.update(timestamp="2026-11-20T23:59:32Z", hostname="node-1", total_ms=10.25)
    return handmade(names, carried, times=tasks, **options)


@pytest.fixture(scope="module")
def measured():
    both = task(outputs=["x", "y"])(lambda: {"x": list(range(50)), "y": 1.5})
    last = task(outputs=["w"], gathers=["y"])(lambda y: {"w": y})
    edges = [("first", "middle"), ("first", "last", ["y"]), ("middle", "last")]
    dag = DAG({"first": both, "middle": sink, "last": last}, edges, Config(n=1000))
    return dag.run(seed=7, rounds=Rounds(3), meters="full")


# What is written


def test_version_1_5_splits_what_1_4_holds_with_the_task():
    profile = made(["a", "b"], {("a", "b"): 24}, [1001.0, 2.5])
    expected = """{"name": "dagprofiler", "schemaVersion": "1.5",
        "runtimeSystem": {"name": "dagprofiler", "version": "VERSION"},
        "workflow": {
            "specification": {
                "tasks": [
                    {"name": "a", "id": "a", "parents": [], "children": ["b"],
                     "inputFiles": [], "outputFiles": ["a/b"]},
                    {"name": "b", "id": "b", "parents": ["a"], "children": [],
                     "inputFiles": ["a/b"], "outputFiles": []}],
                "files": [{"id": "a/b", "sizeInBytes": 24}]},
            "execution": {
                "makespanInSeconds": 0.01025, "executedAt": "2026-11-20T23:59:32Z",
                "tasks": [
                    {"id": "a", "runtimeInSeconds": 1.001, "machines": ["node-1"]},
                    {"id": "b", "runtimeInSeconds": 0.0025, "machines": ["node-1"]}],
                "machines": [{"nodeName": "node-1", "cpu": {}}]}}}"""
    version = profile.metadata["dagprofiler_version"]
    assert instance(profile) == json.loads(expected.replace("VERSION", version))
    profile = made(["a", "b"], {("a", "b"): 24})
    (file,) = instance(profile, size="wire")["workflow"]["specification"]["files"]
    assert file["sizeInBytes"] == 49
    workflow = instance(profile, version="1.4")["workflow"]
    assert workflow["makespanInSeconds"] == 0.01025
    file = {"name": "a/b", "sizeInBytes": 24, "link": "input"}
    known = {"name": "b", "id": "b", "type": "compute", "parents": ["a"], "children": []}
    assert workflow["tasks"][1] == {**known, "files": [file], "runtimeInSeconds": 0.0015}
    profile.metrics.edge_metrics[0].wire_bytes = None
    assert instance(profile, size="wire")["workflow"]["specification"]["files"] == []


@pytest.mark.parametrize("version", ["1.5", "1.6"])
def test_what_was_measured_satisfies_the_schema(measured, version):
    for words in ("node weights", "configuration", "the seed", "timeline", "no identifiers"):
        assert lost(measured, words)
    document = instance(measured, version=version)
    assert document["schemaVersion"] == version
    jsonschema.validate(document, SCHEMA)
    execution = document["workflow"]["execution"]
    assert all("cpu" in machine for machine in execution["machines"])
    assert len(execution["tasks"]) == 3


def test_meters_and_machine_are_written_as_far_as_known():
    row = {
        "wall_ms": [9.0, 2.0, 4.0, 3.0],
        "process_cpu_ms": [9.0, 1.5, None, 1.5],
        "peak_memory_bytes": [9, 4096, 8192, 4096],
        "read_bytes": [9, 0, 0, 0],
        "written_bytes": [None, None, None, None],
    }

    def written(**other):
        samples = {"rounds": ["warm_up", *["measured"] * 3], "tasks": {"a": {**row, **other}}}
        (task,) = executed(made(["a"], {}, sections={"samples": samples}))
        return task

    figures = {"runtimeInSeconds": 0.003, "avgCPU": 50.0, "memoryInBytes": 4096, "readBytes": 0}
    assert written() == {"id": "a", **figures, "machines": ["node-1"]}
    # WRENCH divides by it.
    assert "avgCPU" not in written(process_cpu_ms=[None, 1e-9] * 2)
    sizes = {"cores": 4, "cpu_mhz": 2399.6, "memory_bytes": 2**33}
    environment = {"os": "Linux-6.1.0-x86_64", "machine": "x86_64", **sizes}
    profile = made(["a"], {}, sections={"environment": environment})
    system = {"system": "linux", "release": "6.1.0-x86_64", "architecture": "x86_64"}
    sizes = {"memoryInBytes": 2**33, "cpu": {"coreCount": 4, "speedInMHz": 2400}}
    (machine,) = instance(profile)["workflow"]["execution"]["machines"]
    assert machine == {"nodeName": "node-1", **system, **sizes}
    (old,) = instance(profile, version="1.4")["workflow"]["machines"]
    assert old["cpu"] == {"count": 4, "speed": 2400}
    profile.hostname = None
    execution = instance(profile)["workflow"]["execution"]
    assert "machines" not in execution
    assert "machines" not in execution["tasks"][0]


@pytest.mark.parametrize("cost", ["time", "wall_time", "cpu_time"])
@pytest.mark.parametrize("statistic", ["median", "mean", "min", "max"])
def test_runtimes_are_weights_of_the_cost_and_statistic(measured, cost, statistic):
    weights = measured.weights(cost, statistic).values
    tasks = executed(measured, cost=cost, statistic=statistic)
    assert {t["id"]: t["runtimeInSeconds"] * 1e3 for t in tasks} == pytest.approx(weights, abs=1e-6)


def lost(profile, words, **options):
    return any(words in loss for loss in render(profile, **options).losses)


def test_a_missing_runtime_is_absent_or_filled():
    profile = made(["a", "b"], {("a", "b"): 8}, [1.0, None])
    assert [entry["id"] for entry in executed(profile)] == ["a"]
    profile.metrics.total_time_ms = None
    assert instance(profile)["workflow"]["execution"]["makespanInSeconds"] == 0.001
    assert lost(profile, "makespanInSeconds is the sum")
    assert lost(profile, "not known are absent")
    filled = executed(profile, fill=2000)
    assert [entry["runtimeInSeconds"] for entry in filled] == [0.001, 2.0]
    profile = made(["a", "b"], {("a", "b"): 8})
    profile.metrics.edge_weights.clear()
    profile.metrics.edge_metrics.clear()
    first, second = instance(profile)["workflow"]["specification"]["tasks"]
    assert (first["children"], second["parents"]) == (["b"], ["a"])
    assert "outputFiles" not in first
    assert "inputFiles" not in second
    assert again(profile).metrics.edge_weights == {}
    with pytest.raises(FormatError, match="without tasks"):
        render(made([], {}))


@pytest.mark.parametrize("version", ["1.4", "1.5"])
def test_an_unknown_size_is_not_0_beside_a_known_one(version):
    profile = made("abc", {("a", "b"): 8, ("b", "c"): 16})
    del profile.metrics.edge_weights["a->b"]
    assert again(profile, version=version).metrics.edge_weights == {"b->c": 128}


@pytest.mark.parametrize("fill", [None, 2000, np.float64(2000)])
def test_an_unmeasured_profile_is_filled_or_has_no_execution(fill):
    profile = load("v16-specification")
    tasks = executed(profile, statistic="mean", fill=fill)
    assert [entry["runtimeInSeconds"] for entry in tasks] == ([] if fill is None else [2.0] * 3)
    assert lost(profile, "WRENCH requires", fill=fill)
    for total_ms in (None, 3000.0):
        profile.metrics.total_time_ms = total_ms
        assert again(profile, version="1.4").metrics.total_time_ms == total_ms


# What is written and read again


TIMES_MS = st.integers(0, 10**12).map(lambda ns: round(ns / 1e6, 6))


@st.composite
def profiles(draw):
    names = draw(names_of_tasks(min_size=1, max_size=8))
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    edges = draw(st.dictionaries(st.sampled_from(pairs), st.integers(0, 2**50))) if pairs else {}
    times = draw(st.lists(TIMES_MS, min_size=len(names), max_size=len(names)))
    return made(names, edges, times)


@pytest.mark.parametrize("version", ["1.4", "1.5"])
@given(profile=profiles())
@example(profile=made(NASTY, {pair: i for i, pair in enumerate(zip(NASTY, NASTY[1:]))}))
def test_any_profile_comes_back_with_its_graph_and_weights(profile, version):
    text = render(profile, version=version).text
    workflow = json.loads(text)["workflow"]
    if version == "1.4":
        references = [entry["name"] for entry in workflow["tasks"]]
    else:
        jsonschema.validate(json.loads(text), SCHEMA)
        references = [entry["id"] for entry in workflow["specification"]["tasks"]]
    assert all(re.fullmatch(r"[0-9a-zA-Z_.-]+", reference) for reference in references)
    assert len(set(references)) == len(references)
    back = import_profile(io.BytesIO(text.encode()))
    assert back.dag_structure["nodes"] == profile.dag_structure["nodes"]
    pairs = {(edge["source"], edge["target"]) for edge in profile.dag_structure["edges"]}
    assert {(e["source"], e["target"]) for e in back.dag_structure["edges"]} == pairs
    assert back.metrics.edge_weights == profile.metrics.edge_weights
    assert back.weights("wall_time").values == profile.weights("wall_time").values
    assert back.metrics.total_time_ms == profile.metrics.total_time_ms
    second = again(back, version=version)
    assert second.dag_structure == back.dag_structure
    assert second.metrics.edge_weights == back.metrics.edge_weights


@pytest.mark.parametrize("version", ["1.4", "1.6"])
@pytest.mark.parametrize("name", EVERY)
def test_an_imported_instance_is_the_same_when_exported(name, version):
    profile = load(name)
    structure, whole = profile.dag_structure, profile.to_dict()
    assert (len(structure["nodes"]), len(structure["edges"])) == EVERY[name]
    assert validate_profile(whole)
    check_agreement(whole)
    assert Profile.loads(profile.dumps()) == profile
    assert str(profile)
    second = again(profile, version=version)
    assert second.dag_structure == profile.dag_structure
    assert second.metrics.edge_weights == profile.metrics.edge_weights
    assert walls(second) == walls(profile)
    if profile.metrics.total_time_ms is not None or version != "1.4":
        assert second.metrics.total_time_ms == profile.metrics.total_time_ms
    if profile.sections["imported"]["document"]["workflow"].get("execution"):
        assert second.timestamp == profile.timestamp
    third = again(second, version=version)
    assert third.dag_structure == profile.dag_structure
    assert walls(third) == walls(profile)


# What is read


def test_version_1_3_has_its_own_names_units_and_references():
    profile = load("v13")
    assert profile.metrics.total_time_ms == 12500
    assert walls(profile)["split_ID01"] == 2500
    assert profile.metrics.edge_weights["split_ID01->shrink_ID02"] == 8 * 4000
    # Parents may be identifiers.
    assert {"source": "shrink_ID03", "target": "clean_ID04"} in profile.dag_structure["edges"]
    row = profile.sections["samples"]["tasks"]["split_ID01"]
    assert row["peak_memory_bytes"] == [64_000]
    assert (row["read_bytes"], row["written_bytes"]) == ([10_000], [20_000])
    assert row["process_cpu_ms"] == [2000]
    execution = profile.sections["imported"]["document"]["workflow"]["execution"]
    machine = execution["machines"][0]
    assert machine["memoryInBytes"] == 4_000_000
    assert machine["cpu"] == {"coreCount": 8, "speedInMHz": 2400, "vendor": "GenuineIntel"}
    kept = execution["tasks"][0]
    assert (kept["coreCount"], kept["machines"]) == (1.5, ["node-1"])
    # What Pegasus read and wrote was in bytes before 1.4.
    pegasus = document("v13")
    pegasus["wms"]["name"] = "Pegasus"
    row = read(pegasus).sections["samples"]["tasks"]["split_ID01"]
    assert (row["read_bytes"], row["written_bytes"]) == ([10], [20])


def test_edges_carry_files_and_tasks_have_distinct_names():
    metrics = load("v14").metrics
    assert metrics.edge_weights == {"read->count": 5120, "read->draw": 5120, "count->draw": 160}
    (edge,) = [edge for edge in metrics.edge_metrics if edge.source == "count"]
    assert edge.data_fields == ["sums", "log"]
    sizes = {"sums": 16, "log": 4}
    assert edge.field_bytes == {n: {"size_bytes": s, "wire_bytes": s} for n, s in sizes.items()}
    profile = load("v15")
    assert profile.dag_structure["nodes"] == ["p/1", "p/2", "d/1", "d/2", "add"]
    profile = load("v16-partial")
    assert profile.dag_structure["nodes"] == ["make data", "use data", "report"]
    specified = instance(profile)["workflow"]["specification"]["tasks"]
    assert [task["id"] for task in specified] == ["ID1", "ID2", "ID3"]


def test_edges_follow_from_files_where_no_task_names_another():
    profile = load("v16-partial")
    assert profile.metrics.edge_weights == {"make data->use data": 96, "use data->report": 56}
    assert "follow from the files" in profile.sections["imported"]["notes"][0]
    declared = document("v15")
    declared["workflow"]["specification"]["tasks"][4]["inputFiles"].append("two.fits")
    assert read(declared).dag_structure == load("v15").dag_structure
    # One of the two ends suffices.
    for entry in declared["workflow"]["specification"]["tasks"]:
        del entry["children"]
    assert read(declared).dag_structure == load("v15").dag_structure


def test_the_only_machine_is_the_environment():
    profile = load("v16-partial")
    assert profile.hostname == "laptop"
    environment = profile.sections["environment"]
    environment.pop("not_measured")
    sizes = {"cores": 10, "cpu_mhz": 3200, "memory_bytes": 17179869184}
    assert environment == {"os": "macos-25.1", "machine": "arm64", **sizes}
    profile = load("v15")
    assert profile.hostname is None
    assert set(profile.sections["environment"]) == {"not_measured"}
    machines = profile.sections["imported"]["document"]["workflow"]["execution"]["machines"]
    assert [machine["nodeName"] for machine in machines] == ["w1", "w2"]


def lacking(profile):
    """Return why figures of an imported profile are not measured."""
    return profile.environment.not_measured


def test_figures_that_the_file_lacks_are_not_measured():
    profile = load("v16-specification")
    metrics = profile.metrics
    assert (metrics.task_metrics, metrics.total_time_ms, metrics.edge_weights) == ([], None, {})
    assert "no makespan" in lacking(profile)["total_time_ms"]
    assert "size_bytes" in lacking(profile)
    with pytest.raises(WeightError, match="no round was measured"):
        profile.weights("wall_time")
    profile = load("v16-partial")
    assert [task.task for task in profile.metrics.task_metrics] == ["make data", "use data"]
    assert profile.run.reason.endswith("no runtime of 1 of 3 tasks")
    with pytest.raises(WeightError, match=r"'report'.*no runtime of the task"):
        profile.weights("wall_time")


def test_edges_of_files_without_a_size_have_no_bytes():
    tasks = a_task("a", outputFiles=["f"]), a_task("b", ["a"], inputFiles=["f"])
    profile = read(workflow(*tasks, files=[{"id": "g", "sizeInBytes": 1}]))
    assert profile.metrics.edge_weights == {}
    assert "size_bytes" in lacking(profile)
    spoiled = document("v15")
    assert not {"bytes_in", "size_bytes"} & {*lacking(read(spoiled))}
    for entry in spoiled["workflow"]["specification"]["tasks"]:
        entry.pop("outputFiles", None)
    reasons = lacking(read(spoiled))
    assert reasons["bytes_in"] == reasons["bytes_out"] == reasons["size_bytes"]
    assert "are 0 there" in reasons["bytes_out"]


def test_instructions_are_never_known():
    profile = load("v14")
    assert profile.metrics.node_weights == {"read": 0, "count": 0, "draw": 0}
    assert profile.sections["weight_sources"]["read"]["node_weight"] == "default"
    for source in ("counted", "estimated"):
        with pytest.raises(WeightError, match="no instructions"):
            profile.weights(source)
    assert walls(profile) == {"read": 1001.0, "count": 10000.0, "draw": 0.0}
    profile = load("v13")
    assert profile.timestamp == "2020-01-02T03:04:05Z"
    undated = document("v13")
    del undated["createdAt"]
    assert "import" in read(undated).sections["environment"]["not_measured"]["timestamp"]


def test_what_a_profile_cannot_hold_is_kept_and_written_again():
    kept = load("v14").sections["imported"]["document"]
    assert kept["author"]["email"] == "nobody@example.org"
    assert kept["runtimeSystem"]["name"] == "Pegasus"
    second = again(load("v14"), version="1.6")
    document_of_second = second.sections["imported"]["document"]
    for key in ("name", "author", "runtimeSystem", "createdAt"):
        assert document_of_second[key] == kept[key]
    execution = document_of_second["workflow"]["execution"]
    for key in ("machines", "executedAt"):
        assert execution[key] == kept["workflow"]["execution"][key]
    task = execution["tasks"][0]
    assert task["energyInKWh"] == 0.25
    assert task["command"] == {"program": "read.sh", "arguments": ["-x"]}
    assert (task["avgPowerInW"], task["priority"], task["machines"]) == (3.5, 2, ["m1"])
    row = second.sections["samples"]["tasks"]["read"]
    assert (row["read_bytes"], row["written_bytes"]) == ([77], [88])
    spoiled = document("v15")
    spoiled["workflow"]["execution"]["tasks"][1]["priority"] = float("inf")
    with pytest.raises(ProfileError, match=r"\$\.imported: .*float"):
        read(spoiled)


# What is refused


def workflow(*tasks, runtimes=(), files=()):
    """Return an instance of 1.5."""
    execution = {
        "makespanInSeconds": 1,
        "executedAt": "2026-01-02T03:04:05Z",
        "tasks": [{"id": name, "runtimeInSeconds": s} for name, s in runtimes],
    }
    specification = {"tasks": list(tasks), "files": list(files)}
    return {
        "name": "x",
        "schemaVersion": "1.5",
        "workflow": {"specification": specification, "execution": execution},
    }


def a_task(name, parents=(), children=(), **more):
    return {"name": name, "id": name, "parents": [*parents], "children": [*children], **more}


@pytest.mark.parametrize(
    ("instance", "words"),
    [
        (None, r"^\$"),
        ({**workflow(a_task("a")), "schemaVersion": "1.7"}, "'1.7'"),
        ({"schemaVersion": "1.5", "workflow": {}}, "specification"),
        (workflow({"id": "a"}), r"tasks\[0\]: 'name'"),
        (workflow(a_task("a"), a_task("a")), "two tasks have one identifier"),
        (workflow(a_task("a", ["b"]), a_task("b", ["a"])), "cycle"),
        (workflow(a_task("a", ["b"])), "no task 'b'.*'a'"),
        (workflow(a_task("a"), files=[{"id": "f", "sizeInBytes": -1}]), "sizeInBytes: -1"),
        (workflow(a_task("a"), runtimes=[("a", -0.5)]), "runtimeInSeconds: -0.5"),
        (workflow(a_task("a"), runtimes=[("b", 1)]), "no task 'b'"),
        ({"schemaVersion": "1.4", "workflow": {"tasks": [{"id": "a"}]}}, "not WfFormat 1.4.*name"),
    ],
)
def test_an_invalid_instance_is_refused_by_what_is_wrong(instance, words):
    with pytest.raises(FormatError, match=words):
        read(instance)
