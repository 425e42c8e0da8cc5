from __future__ import annotations

import copy
import io
import json
import random
from pathlib import Path

import pytest

from dagprofiler import Profile
from dagprofiler._document.checks import check_consistency
from dagprofiler.errors import FormatError, ProfileError, WeightError
from dagprofiler.formats import exporter, import_profile, importer
from dagprofiler.schema import validate_profile

ROOT = Path(__file__).resolve().parents[2]
OURS = ROOT / "tests" / "data" / "wfformat"
REAL = ROOT / "tests" / "data" / "wfinstances"

#: File to tasks and edges.
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


def path_of(name):
    return (OURS if name in SHAPES else REAL) / f"{name}.json"


def document(name):
    return json.loads(path_of(name).read_text(encoding="utf-8"))


def load(name):
    return import_profile(path_of(name))


def read(document):
    return importer("wfformat").read(document)


def again(profile, **options):
    text = exporter("wfformat").render(profile, **options).text
    return import_profile(io.StringIO(text), format="wfformat")


def walls(profile):
    entries = profile.sections["weight_sources"]
    return {name: entry.get("wall_time_ms") for name, entry in entries.items()}


EVERY = [*SHAPES, *REAL_SHAPES]


@pytest.mark.parametrize("name", EVERY)
def test_every_instance_becomes_a_profile_that_agrees_with_itself(name):
    profile = load(name)
    shape = {**SHAPES, **REAL_SHAPES}[name]
    structure = profile.dag_structure
    assert (len(structure["nodes"]), len(structure["edges"])) == shape
    whole = profile.to_dict()
    assert validate_profile(whole)
    check_consistency(whole)
    assert Profile.loads(profile.dumps()) == profile
    assert str(profile)


@pytest.mark.parametrize("version", ["1.4", "1.5", "1.6"])
@pytest.mark.parametrize("name", EVERY)
def test_what_is_imported_exported_and_imported_is_the_same(name, version):
    profile = load(name)
    second = again(profile, version=version)
    assert second.dag_structure == profile.dag_structure
    assert second.metrics.edge_weights == profile.metrics.edge_weights
    assert walls(second) == walls(profile)
    if profile.metrics.total_time_ms is not None or version != "1.4":
        assert second.metrics.total_time_ms == profile.metrics.total_time_ms
    assert (
        second.timestamp == profile.timestamp or "executed_at" not in profile.sections["imported"]
    )
    third = again(second, version=version)
    assert third.dag_structure == profile.dag_structure
    assert walls(third) == walls(profile)


def test_version_1_3_has_its_own_names_and_units():
    profile = load("v13")
    assert profile.metrics.total_time_ms == 12500
    assert walls(profile)["split_ID01"] == 2500
    assert profile.metrics.edge_weights["split_ID01->shrink_ID02"] == 8 * 4000
    row = profile.sections["samples"]["tasks"]["split_ID01"]
    assert row["peak_memory_bytes"] == [64_000]
    assert (row["read_bytes"], row["written_bytes"]) == ([10_000], [20_000])
    assert row["process_cpu_ms"] == [2000]
    machine = profile.sections["imported"]["machines"][0]
    assert machine["memoryInBytes"] == 4_000_000
    assert machine["cpu"] == {"coreCount": 8, "speedInMHz": 2400, "vendor": "GenuineIntel"}
    kept = profile.sections["imported"]["tasks"]["split_ID01"]
    assert kept["coreCount"] == 1.5
    assert kept["machines"] == ["node-1"]


def test_what_pegasus_read_and_wrote_was_in_bytes_before_1_4():
    instance = document("v13")
    instance["wms"]["name"] = "Pegasus"
    row = read(instance).sections["samples"]["tasks"]["split_ID01"]
    assert (row["read_bytes"], row["written_bytes"]) == ([10], [20])


def test_before_1_5_parents_may_be_identifiers():
    edges = load("v13").dag_structure["edges"]
    assert {"source": "shrink_ID03", "target": "clean_ID04"} in edges


def test_files_that_several_tasks_read_count_on_each_edge():
    weights = load("v14").metrics.edge_weights
    assert weights == {"read->count": 5120, "read->draw": 5120, "count->draw": 160}


def test_an_edge_says_which_files_it_carries():
    edges = {(edge.source, edge.target): edge for edge in load("v14").metrics.edge_metrics}
    edge = edges["count", "draw"]
    assert edge.data_fields == ["sums", "log"]
    assert edge.field_bytes == {
        "sums": {"size_bytes": 16, "wire_bytes": 16},
        "log": {"size_bytes": 4, "wire_bytes": 4},
    }


def test_tasks_that_share_names_go_by_their_identifiers():
    profile = load("v15")
    assert profile.dag_structure["nodes"] == ["p/1", "p/2", "d/1", "d/2", "add"]
    assert profile.sections["imported"]["tasks"]["d/1"]["name"] == "DIFF"


def test_tasks_of_distinct_names_go_by_them():
    profile = load("v16-partial")
    assert profile.dag_structure["nodes"] == ["make data", "use data", "report"]
    assert profile.sections["imported"]["ids"]["use data"] == "ID2"


def test_edges_follow_from_files_where_no_task_names_another():
    profile = load("v16-partial")
    assert profile.metrics.edge_weights == {"make data->use data": 96, "use data->report": 56}
    assert "follow from the files" in profile.sections["imported"]["notes"][0]


def test_a_file_from_a_task_that_is_no_parent_makes_no_edge():
    instance = document("v15")
    instance["workflow"]["specification"]["tasks"][4]["inputFiles"].append("two.fits")
    profile = read(instance)
    assert len(profile.dag_structure["edges"]) == 5
    assert profile.sections["imported"]["notes"][0].startswith("1 time a task reads a file")


def test_the_only_machine_is_the_environment():
    profile = load("v16-partial")
    assert profile.hostname == "laptop"
    environment = profile.sections["environment"]
    assert environment["os"] == "macos-25.1"
    assert (environment["machine"], environment["cores"]) == ("arm64", 10)
    assert (environment["cpu_mhz"], environment["memory_bytes"]) == (3200, 17179869184)


def test_several_machines_are_no_environment():
    profile = load("v15")
    assert profile.hostname is None
    assert set(profile.sections["environment"]) == {"not_measured"}
    assert [machine["nodeName"] for machine in profile.sections["imported"]["machines"]] == [
        "w1",
        "w2",
    ]


def test_a_specification_alone_says_that_nothing_was_measured():
    profile = load("v16-specification")
    assert profile.metrics.task_metrics == []
    assert profile.metrics.total_time_ms is None
    assert profile.metrics.edge_weights == {}
    assert profile.sections["run"]["rounds"] == 0
    assert "nothing was measured" in profile.sections["run"]["reason"]
    assert "samples" not in profile.sections
    said = profile.sections["environment"]["not_measured"]
    assert "no runtimes" in said["wall_time_ms"]
    assert "no makespan" in said["total_time_ms"]
    assert "size_bytes" in said
    with pytest.raises(WeightError, match="no round was measured"):
        profile.weights("wall_time")


def test_a_task_without_runtime_lacks_that_figure_alone():
    profile = load("v16-partial")
    assert [task.task for task in profile.metrics.task_metrics] == ["make data", "use data"]
    entry = profile.sections["weight_sources"]["report"]
    assert entry["wall_time_ms"] is None
    assert "no runtime of the task" in entry["reasons"]["wall_time_ms"]
    assert profile.sections["run"]["reason"].endswith("no runtime of 1 of 3 tasks")
    with pytest.raises(WeightError, match=r"'report'.*no runtime"):
        profile.weights("wall_time")


def test_bytes_of_tasks_without_lists_of_files_are_0_and_it_is_said():
    instance = document("v16-partial")
    assert "bytes_in" not in read(instance).sections["environment"]["not_measured"]
    for entry in instance["workflow"]["specification"]["tasks"]:
        entry.pop("outputFiles", None)
    profile = read(instance)
    said = profile.sections["environment"]["not_measured"]
    assert said["bytes_in"] == said["bytes_out"]
    assert "it is 0 here" in said["bytes_out"]
    assert {entry.bytes_out for entry in profile.metrics.task_metrics} == {0}


def test_instructions_are_a_default_and_never_known():
    profile = load("v14")
    assert profile.metrics.node_weights == {"read": 0, "count": 0, "draw": 0}
    assert profile.sections["weight_sources"]["read"]["node_weight"] == "default"
    for source in ("counted", "estimated"):
        with pytest.raises(WeightError, match="no instructions"):
            profile.weights(source)


def test_a_runtime_of_0_is_known():
    assert walls(load("v14")) == {"read": 1001.0, "count": 10000.0, "draw": 0.0}


def test_a_date_that_is_not_iso_8601_is_kept_but_not_taken():
    profile = load("v13")
    assert profile.timestamp == "2020-01-02T03:04:05Z"
    assert profile.sections["imported"]["executed_at"] == "01-02-20T03:04:05Z"
    instance = document("v13")
    del instance["createdAt"]
    assert "import" in read(instance).sections["environment"]["not_measured"]["timestamp"]


def test_what_is_said_beyond_a_profile_is_kept_and_written_again():
    kept = load("v14").sections["imported"]
    assert kept["author"]["email"] == "nobody@example.org"
    assert kept["runtime_system"]["name"] == "Pegasus"
    assert kept["tasks"]["read"]["energyInKWh"] == 0.25
    second = again(load("v14"), version="1.6")
    for key in ("name", "author", "runtime_system", "machines", "executed_at", "created_at"):
        assert second.sections["imported"][key] == kept[key]
    task = second.sections["imported"]["tasks"]["read"]
    assert task["command"] == {"program": "read.sh", "arguments": ["-x"]}
    assert (task["avgPowerInW"], task["priority"], task["machines"]) == (3.5, 2, ["m1"])
    row = second.sections["samples"]["tasks"]["read"]
    assert (row["read_bytes"], row["written_bytes"]) == ([77], [88])


def test_what_is_kept_is_finite_and_else_refused_with_its_place_in_the_file():
    spoiled = document("v15")
    spoiled["workflow"]["execution"]["tasks"][1]["priority"] = float("inf")
    place = r"\$\.workflow\.execution\.tasks\[1\]\.priority: inf is not a finite number"
    with pytest.raises(ProfileError, match=place):
        read(spoiled)


def test_what_a_later_version_does_not_know_does_not_mean_something_in_an_earlier_one():
    instance = document("v15")
    instance["workflow"]["execution"]["machines"][0]["memory"] = "plenty"
    assert again(read(instance), version="1.4").dag_structure["nodes"]


def test_a_file_with_a_key_twice_is_not_half_imported():
    text = path_of("v15").read_text(encoding="utf-8")
    twice = text.replace('"tasks": [', '"tasks": [], "tasks": [', 1)
    with pytest.raises(ProfileError, match=r"key 'tasks'.*twice"):
        import_profile(io.StringIO(twice))
    assert import_profile(io.StringIO(text)) == load("v15")


def test_importing_does_not_change_the_document():
    instance = document("v13")
    before = copy.deepcopy(instance)
    read(instance)
    assert instance == before


def test_it_recognizes_what_has_a_version_and_a_workflow():
    recognizes = importer("wfformat").recognizes
    assert recognizes(document("v13"))
    assert not any(map(recognizes, ([], None, "x", {"schemaVersion": "1.5"}, {"metadata": {}})))


TASKS = "$.workflow.specification.tasks"
DONE = "$.workflow.execution"


def spec(instance):
    return instance["workflow"]["specification"]


def done(instance):
    return instance["workflow"]["execution"]


def cycle(instance):
    spec(instance)["tasks"][0]["parents"] = ["add"]
    spec(instance)["tasks"][4]["children"] = ["p/1"]


def twice(instance):
    spec(instance)["tasks"][1]["id"] = "p/1"


def arrows(instance):
    for i, task in enumerate(spec(instance)["tasks"]):
        task.update(id=f"{i}->", parents=[], children=[])
    del instance["workflow"]["execution"]


BROKEN = {
    "no version": (lambda d: d.pop("schemaVersion"), "$.schemaVersion: ", "it is no WfFormat"),
    "new version": (lambda d: d.update(schemaVersion="1.7"), "$.schemaVersion: ", "got '1.7'"),
    "old version": (lambda d: d.update(schemaVersion=1.5), "$.schemaVersion: ", "got 1.5"),
    "no workflow": (lambda d: d.pop("workflow"), "$: ", "'workflow', which is missing"),
    "workflow list": (lambda d: d.update(workflow=[]), "$.workflow: ", "expected an object"),
    "old shape": (
        lambda d: d["workflow"].pop("specification"),
        "$.workflow: ",
        "'specification', which is missing",
    ),
    "no tasks": (lambda d: spec(d).update(tasks=[]), f"{TASKS}: ", "at least one"),
    "task text": (lambda d: spec(d)["tasks"].append("x"), f"{TASKS}[5]: ", "expected an object"),
    "no name": (lambda d: spec(d)["tasks"][2].pop("name"), f"{TASKS}[2]: ", "'name'"),
    "empty id": (lambda d: spec(d)["tasks"][2].update(id=""), f"{TASKS}[2].id: ", "empty"),
    "id number": (lambda d: spec(d)["tasks"][2].update(id=3), f"{TASKS}[2].id: ", "a text"),
    "two of one id": (twice, f"{TASKS}[1]: ", f"'p/1' is listed before, at {TASKS}[0]"),
    "cycle": (cycle, f"{TASKS}: ", "tasks form a cycle"),
    "own parent": (
        lambda d: spec(d)["tasks"][4]["parents"].append("add"),
        f"{TASKS}[4].parents[2]: ",
        "a cycle",
    ),
    "no such parent": (
        lambda d: spec(d)["tasks"][3]["parents"].append("d/9"),
        f"{TASKS}[3].parents[2]: ",
        "there is no task 'd/9'",
    ),
    "no such child": (
        lambda d: spec(d)["tasks"][3]["children"].append("d/9"),
        f"{TASKS}[3].children[1]: ",
        "there is no task 'd/9'",
    ),
    "parent alone": (
        lambda d: spec(d)["tasks"][4]["parents"].append("p/2"),
        f"{TASKS}[4].parents[2]: ",
        f"task 'add' names 'p/2', whose children, at {TASKS}[1].children, do not name it",
    ),
    "child alone": (
        lambda d: spec(d)["tasks"][1]["children"].append("add"),
        f"{TASKS}[1].children[1]: ",
        f"task 'p/2' names 'add', whose parents, at {TASKS}[4].parents, do not name it",
    ),
    "parents text": (
        lambda d: spec(d)["tasks"][1].update(parents="p/1"),
        f"{TASKS}[1].parents: ",
        "a list",
    ),
    "parent number": (
        lambda d: spec(d)["tasks"][1].update(parents=[1]),
        f"{TASKS}[1].parents[0]: ",
        "a text",
    ),
    "file not listed": (
        lambda d: spec(d)["tasks"][0]["inputFiles"].append("moon.fits"),
        f"{TASKS}[0].inputFiles[1]: ",
        "no size",
    ),
    "file without size": (
        lambda d: spec(d)["files"][2].pop("sizeInBytes"),
        "$.workflow.specification.files[2]: ",
        "no size",
    ),
    "negative size": (
        lambda d: spec(d)["files"][2].update(sizeInBytes=-1),
        "$.workflow.specification.files[2].sizeInBytes: ",
        "-1 is negative",
    ),
    "half a byte": (
        lambda d: spec(d)["files"][2].update(sizeInBytes=0.5),
        "$.workflow.specification.files[2].sizeInBytes: ",
        "whole bytes",
    ),
    "size text": (
        lambda d: spec(d)["files"][2].update(sizeInBytes="1 MB"),
        "$.workflow.specification.files[2].sizeInBytes: ",
        "expected a number, got '1 MB'",
    ),
    "size true": (
        lambda d: spec(d)["files"][2].update(sizeInBytes=True),
        "$.workflow.specification.files[2].sizeInBytes: ",
        "expected a number",
    ),
    "size beyond": (
        lambda d: spec(d)["files"][2].update(sizeInBytes=10**400),
        "$.workflow.specification.files[2].sizeInBytes: ",
        "no size",
    ),
    "sizes beyond": (
        lambda d: [file.update(sizeInBytes=2**60 - 1) for file in spec(d)["files"]],
        f"{TASKS}[2]: ",
        "do not fit 64 bits",
    ),
    "file twice": (
        lambda d: spec(d)["files"].append({"id": "sky.fits", "sizeInBytes": 1000}),
        "$.workflow.specification.files[7].id: ",
        "listed before",
    ),
    "negative runtime": (
        lambda d: done(d)["tasks"][3].update(runtimeInSeconds=-0.5),
        f"{DONE}.tasks[3].runtimeInSeconds: ",
        "negative",
    ),
    "no runtime": (
        lambda d: done(d)["tasks"][3].pop("runtimeInSeconds"),
        f"{DONE}.tasks[3]: ",
        "has no runtimeInSeconds; one that did not run is not listed here",
    ),
    "null runtime": (
        lambda d: done(d)["tasks"][3].update(runtimeInSeconds=None),
        f"{DONE}.tasks[3]: ",
        "has no runtimeInSeconds",
    ),
    "endless runtime": (
        lambda d: done(d)["tasks"][3].update(runtimeInSeconds=float("inf")),
        f"{DONE}.tasks[3].runtimeInSeconds: ",
        "no time",
    ),
    "negative makespan": (
        lambda d: done(d).update(makespanInSeconds=-1),
        f"{DONE}.makespanInSeconds: ",
        "negative",
    ),
    "negative memory": (
        lambda d: done(d)["tasks"][1].update(memoryInBytes=-1),
        f"{DONE}.tasks[1].memoryInBytes: ",
        "negative",
    ),
    "executed twice": (
        lambda d: done(d)["tasks"].append({"id": "add", "runtimeInSeconds": 1}),
        f"{DONE}.tasks[5].id: ",
        f"listed before, at {DONE}.tasks[4]",
    ),
    "executed nowhere": (
        lambda d: done(d)["tasks"].append({"id": "moon", "runtimeInSeconds": 1}),
        f"{DONE}.tasks[5].id: ",
        "there is no task 'moon'",
    ),
    "no such machine": (
        lambda d: done(d)["tasks"][0].update(machines=["w3"]),
        f"{TASKS}[0]: ",
        "not among the machines",
    ),
    "machine number": (
        lambda d: done(d)["tasks"][0].update(machines=7),
        f"{TASKS}[0]: ",
        "are no list",
    ),
    "machine without name": (
        lambda d: done(d)["machines"][0].pop("nodeName"),
        f"{DONE}.machines[0]: ",
        "'nodeName'",
    ),
    "arrow in names": (arrows, f"{TASKS}[0]: ", "holds '->'"),
    "author text": (lambda d: d.update(author="me"), "$.author: ", "an object"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_wrong_is_refused_with_its_place(case):
    spoil, place, words = BROKEN[case]
    instance = document("v15")
    spoil(instance)
    with pytest.raises(FormatError) as refused:
        read(instance)
    assert str(refused.value).startswith(place)
    assert words in str(refused.value)


OLD_TASKS = "$.workflow.tasks"
OLD_BROKEN = {
    "two of one name": (
        lambda tasks: tasks[1].update(name="read"),
        f"{OLD_TASKS}[1]: ",
        f"'read' is listed before, at {OLD_TASKS}[0]",
    ),
    "no size": (
        lambda tasks: tasks[0]["files"][0].pop("sizeInBytes"),
        f"{OLD_TASKS}[0].files[0]: ",
        "no size",
    ),
    "two sizes": (
        lambda tasks: tasks[1]["files"][0].update(sizeInBytes=641),
        f"{OLD_TASKS}[1].files[0].sizeInBytes: ",
        "641 bytes here and 640 elsewhere",
    ),
    "no link": (
        lambda tasks: tasks[1]["files"][0].pop("link"),
        f"{OLD_TASKS}[1].files[0].link: ",
        "'input' or 'output', got None",
    ),
    "odd link": (
        lambda tasks: tasks[1]["files"][0].update(link=["input"]),
        f"{OLD_TASKS}[1].files[0].link: ",
        "got ['input']",
    ),
    "negative runtime": (
        lambda tasks: tasks[2].update(runtimeInSeconds=-1),
        f"{OLD_TASKS}[2].runtimeInSeconds: ",
        "negative",
    ),
    "no such parent": (
        lambda tasks: tasks[2].update(parents=["raed"]),
        f"{OLD_TASKS}[2].parents[0]: ",
        "no task 'raed'",
    ),
    "cycle": (
        lambda tasks: (tasks[0].update(parents=["draw"]), tasks[2].update(children=["read"])),
        f"{OLD_TASKS}: ",
        "cycle",
    ),
}


@pytest.mark.parametrize("case", OLD_BROKEN)
def test_what_is_wrong_before_1_5_is_refused_with_its_place(case):
    spoil, place, words = OLD_BROKEN[case]
    instance = document("v14")
    spoil(instance["workflow"]["tasks"])
    with pytest.raises(FormatError) as refused:
        read(instance)
    assert str(refused.value).startswith(place)
    assert words in str(refused.value)


@pytest.mark.parametrize("thing", [None, [], "1.5", 7, {}, {"schemaVersion": {}, "workflow": {}}])
def test_what_is_no_instance_at_all_is_refused(thing):
    with pytest.raises(FormatError, match=r"^\$"):
        read(thing)


def places(value, path=()):
    """Yield the path of everything inside a document."""
    yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from places(item, (*path, key))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from places(item, (*path, i))


JUNK = [None, True, -1, 0, 1.5, 10**30, "", "x", "a->b", [], [None], {}, {"id": 1}]


@pytest.mark.parametrize("name", SHAPES)
def test_a_spoiled_instance_is_refused_or_read_and_never_breaks(name):
    instance = document(name)
    pick = random.Random(name)
    refusals = []
    for path in places(instance):
        if not path:
            continue
        spoiled = copy.deepcopy(instance)
        holder = spoiled
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = pick.choice(JUNK)
        try:
            profile = read(spoiled)
        except FormatError as error:
            refusals.append(str(error))
        else:
            assert Profile.loads(profile.dumps()) == profile
            for version in ("1.4", "1.5"):
                assert again(profile, version=version).dag_structure == profile.dag_structure
    assert refusals
    assert all(text.startswith("$") for text in refusals)


def chain(count):
    files = [{"id": f"f{i}", "sizeInBytes": i} for i in range(count)]
    names = [f"t{i}" for i in range(count)]
    tasks = [
        {
            "name": name,
            "id": name,
            "parents": names[max(i - 1, 0) : i],
            "children": names[i + 1 : i + 2],
            "inputFiles": [f"f{i - 1}"] if i else [],
            "outputFiles": [f"f{i}"],
        }
        for i, name in enumerate(names)
    ]
    executed = [{"id": name, "runtimeInSeconds": 1} for name in names]
    return {
        "name": "chain",
        "schemaVersion": "1.5",
        "workflow": {
            "specification": {"tasks": tasks, "files": files},
            "execution": {
                "makespanInSeconds": count,
                "executedAt": "2026-01-01T00:00:00Z",
                "tasks": executed,
            },
        },
    }


def test_a_file_that_all_write_and_all_read_travels_on_declared_edges_alone():
    count = 5000
    instance = chain(count)
    specification = instance["workflow"]["specification"]
    specification["files"] = [{"id": "log", "sizeInBytes": 3}]
    for task in specification["tasks"]:
        task.update(inputFiles=["log"], outputFiles=["log"])
    profile = read(instance)
    assert set(profile.metrics.edge_weights.values()) == {24}
    assert len(profile.metrics.edge_weights) == count - 1
    (note,) = profile.sections["imported"]["notes"]
    assert note.startswith(f"{count * (count - 1) - (count - 1):,} times a task reads a file")
