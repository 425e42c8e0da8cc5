import copy
import gzip
import io
import json
import math
import os
import pickle
import re
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from agreement import check_agreement
from handmade import failure, handmade, strict, structure_of

from dagprofiler import DAG, Config, Profile, __version__, task
from dagprofiler.errors import ProfileError
from dagprofiler.metrics import DAGMetrics, EdgeMetrics, TaskMetrics
from dagprofiler.schema import SCHEMA_VERSION, validate_profile

DATA = Path(__file__).parent / "data"
#: The samples of the documents that define the standard, and what 0.1.0 wrote but for the line
#: breaks inside lists: local time without an offset, numbers that JSON lacks, an edge listed twice,
#: and metrics named after classes.
NAMES = ("readme-sample", "standard-sample", "profile-of-0.1.0")
README_SAMPLE, STANDARD_SAMPLE, OLD = ((DATA / f"{name}.json").read_text() for name in NAMES)


@task(outputs=["data", "labels"], config_deps=["N"], estimate_fn=lambda cfg: cfg.N * 10)
def collect(cfg):
    return {"data": np.random.randn(cfg.N, 2), "labels": list(range(cfg.N))}


@task(outputs=["features"])
def process(data):
    return {"features": data**2}


@task(outputs=["classes"])
def classify(features, labels):
    return {"classes": labels}


@task(outputs=["classes"])
def fails(features, labels):
    raise ValueError("none")


def example(last=classify, **config):
    return DAG(
        {"collect": collect, "process": process, "classify": last},
        [("collect", "process"), ("collect", "classify"), ("process", "classify")],
        Config(**{"N": 4, **config}),
    )


@pytest.fixture
def measured():
    return example(shape=(2, 2), rates=np.arange(3)).run(seed=np.int64(42))


def partial():
    return failure(example(fails)).profile


def by_hand(*, weights=None, edge_bits=80, total=4.5, **keywords):
    a, b = TaskMetrics("a", 1.5, 0.25, 0.0, 0, 10), TaskMetrics("b", 2.5, 0.125, 0.0625, 10, 7)
    where = {"timestamp": "2026-11-20T23:59:32.123456Z", "hostname": "worker-01"}
    figures = {"times": [a, b], "weights": weights or {"a": 100, "b": 0}, "total_ms": total}
    keywords = {"config": Config(N=4), **where, **figures, **keywords}
    profile = handmade("ab", [EdgeMetrics("a", "b", ["x"], edge_bits // 8)], **keywords)
    profile.metrics.edge_weights["a->b"] = edge_bits
    return profile


def minimal(**sections):
    return {**json.loads(README_SAMPLE), **sections}


def test_a_saved_profile_loads_equal(tmp_path, measured):
    path = tmp_path / "profile.json"
    assert measured.save(path) == str(path)
    assert Profile.load(path) == measured
    assert Profile.load(str(path)) == measured
    assert Profile.loads(measured.dumps()) == measured
    assert Profile.from_dict(measured.to_dict()) == measured
    for look in ("dag_structure", "metrics", "sections"):
        profile = example().run(seed=1)
        text = profile.dumps()
        getattr(profile, look)
        assert profile.dumps() == text
    profile = example().run(rounds=3)
    for statistic in ("median", "mean", "min", "max"):
        weights = profile.weights("reference_time", statistic)
        assert Profile.loads(profile.dumps()).weights("reference_time", statistic) == weights
        assert list(weights.values) == profile.dag_structure["nodes"]


def test_load_returns_all_but_the_outputs(measured):
    loaded = Profile.loads(measured.dumps())
    assert loaded.config == Config(N=4, shape=[2, 2], rates=[0, 1, 2])
    for name in ("dag_structure", "metrics", "sections", "seed", "timestamp", "hostname"):
        assert getattr(loaded, name) == getattr(measured, name)
    assert (measured.seed, type(measured.seed)) == (42, int)
    assert (str(loaded), repr(loaded)) == (str(measured), repr(measured))
    assert measured.final_outputs == {"classes": [0, 1, 2, 3]}
    assert measured.outputs == {"classify": {"classes": [0, 1, 2, 3]}}
    assert loaded.final_outputs == loaded.outputs == {}
    document = strict(measured.dumps())
    assert document == measured.to_dict()
    assert validate_profile(document)
    check_agreement(document)
    standard = ["metadata", "configuration", "dag_structure", "node_weights", "edge_weights"]
    ours = ["edge_metrics", "run", "weight_sources", "timeline", "environment"]
    assert [*document] == [*standard, "execution_metrics", "total_time_ms", *ours]


@pytest.mark.parametrize(
    "make", [copy.copy, copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))]
)
def test_copies_of_a_profile_are_equal_and_independent(measured, make):
    for profile in (measured, Profile.loads(OLD), partial()):
        untouched = make(profile)
        assert untouched == profile
        assert profile.final_outputs == untouched.final_outputs
        assert make(untouched).dumps() == untouched.dumps() == profile.dumps()
    before, other = measured.dumps(), copy.deepcopy(measured)
    other.metrics.node_weights["collect"] = 7
    other.sections["run"]["state"] = "partial"
    other.hostname = "elsewhere"
    assert other != measured
    assert measured.dumps() == before


def test_profiles_are_equal_when_documents_are():
    assert by_hand() == by_hand()
    changes = {"edge_bits": 88, "seed": 1, "hostname": "worker-02"}
    for name, value in {**changes, "sections": {"note": 1}, "metadata": {"note": 1}}.items():
        assert by_hand() != by_hand(**{name: value})
    assert by_hand(final_outputs={"x": 1}) == by_hand(outputs={"b": {"x": 2}})
    assert by_hand() != by_hand().to_dict()
    assert (by_hand() == 1) is False
    with pytest.raises(TypeError, match="unhashable"):
        hash(by_hand())


def test_profiles_made_by_hand_are_saved():
    metrics = DAGMetrics([], [], {"a": 1, "b": 2}, {"a->b": 8}, 4.5)
    where = ("2026-02-12T09:30:00", "lab-7")
    profile = Profile(Config(), structure_of("ab", ["ab"]), metrics, {"x": 1}, 3, *where)
    assert (profile.final_outputs, profile.seed) == ({"x": 1}, 3)
    assert (profile.timestamp, profile.hostname) == where
    assert Profile.loads(profile.dumps()) == profile
    profile = by_hand(timestamp=None, hostname=None)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", profile.timestamp)
    assert profile.hostname
    sections = {"energy": {"a": {"joules": 3.5}}, "levels": {1: "one"}}
    figures = {"weights": {"a": np.int64(3), "b": np.int32(4)}, "total": np.float32(4.5)}
    more = {"metadata": {"operator": "ada"}, "sections": sections, "seed": np.int64(5)}
    profile = by_hand(**figures, **more)
    document = strict(profile.dumps())
    versions = {"dagprofiler_version": __version__, "schema_version": SCHEMA_VERSION}
    known = {"seed": 5, "hostname": "worker-01", "operator": "ada"}
    timestamp = "2026-11-20T23:59:32.123456Z"
    assert document["metadata"] == {"timestamp": timestamp, **versions, **known}
    ours = {"energy": {"a": {"joules": 3.5}}, "levels": {"1": "one"}, "total_time_ms": 4.5}
    assert {**ours, "node_weights": {"a": 3, "b": 4}}.items() <= document.items()
    assert Profile.loads(profile.dumps()).dumps() == profile.dumps()
    assert str(profile)


def test_config_values_that_json_lacks_are_text_and_are_listed(tmp_path):
    config = Config(N=4, model=complex(1, 2), rates=np.arange(2), kinds={"b"}, limit=math.inf)
    profile = by_hand(config=config)
    document = strict(profile.dumps())
    text = {"model": "(1+2j)", "kinds": "{'b'}", "limit": "inf"}
    assert document["configuration"] == {"N": 4, "rates": [0, 1], **text}
    assert document["metadata"]["configuration_as_text"] == [*text]
    loaded = Profile.load(profile.save(tmp_path / "profile.json"))
    assert loaded.config["model"] == "(1+2j)"
    assert loaded == profile
    assert Profile.loads(loaded.dumps()) == profile
    loaded.config = loaded.config.copy(limit=3)
    assert loaded.to_dict()["metadata"]["configuration_as_text"] == ["model", "kinds"]


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_nan_is_refused_and_the_old_file_stays(tmp_path, number):
    path = tmp_path / "profile.json"
    by_hand().save(path)
    before = path.read_text()
    sections = {"energy": {"a": [number]}}, {"energy": object()}
    for profile in (by_hand(total=number), *(by_hand(sections=own) for own in sections)):
        for write in (profile.dumps, lambda profile=profile: profile.save(path)):
            with pytest.raises(ProfileError, match=r"cannot be written: .*JSON"):
                write()
    assert path.read_text() == before
    assert os.listdir(tmp_path) == ["profile.json"]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
def test_load_refuses_nan_and_what_is_nested_too_deep(number):
    samples = {"rounds": ["measured"], "total_ms": ["@"], "tasks": {}, "edges": {}}
    sample = minimal(energy={"a": [0, "@"]}), minimal(total_time_ms="@"), minimal()
    sample[2]["metadata"]["load"] = "@"
    sample += (minimal(samples=samples),)
    places = "$.energy", "$.total_time_ms", "$.metadata", "$.samples.total_ms"
    for document, place in zip(sample, places):
        with pytest.raises(ProfileError) as caught:
            Profile.loads(json.dumps(document).replace('"@"', number))
        assert caught.value.path.startswith(place)
    text = json.dumps(minimal(configuration={"N": "@"})).replace('"@"', number)
    assert str(Profile.loads(text).config.N) == str(float(number))
    text = json.dumps(minimal(energy="@")).replace('"@"', "[" * 100_000 + "]" * 100_000)
    with pytest.raises(ProfileError, match="nested too deep"):
        Profile.loads(text)


@pytest.mark.parametrize("text", [README_SAMPLE, STANDARD_SAMPLE, OLD], ids=NAMES)
def test_files_of_others_are_saved_without_loss(tmp_path, text):
    path = tmp_path / "profile.json"
    path.write_text(text)
    loaded = Profile.load(path)
    document = json.loads(text)
    kept = {name: getattr(loaded, name) for name in ("timestamp", "seed", "hostname")}
    assert document["metadata"] == {"dagprofiler_version": "0.1.0", **kept}
    edges = document["dag_structure"]["edges"]
    unique = [edge for i, edge in enumerate(edges) if edge not in edges[:i]]
    assert loaded.dag_structure == {**document["dag_structure"], "edges": unique}
    for name in ("node_weights", "edge_weights", "total_time_ms"):
        assert document[name] == getattr(loaded.metrics, name)
    # Entries that 0.1.0 named after classes are those of the tasks at these places.
    entries = [entry.to_dict() for entry in loaded.metrics.task_metrics]
    assert [{**entry, "task": ""} for entry in document["execution_metrics"]] == [
        {**entry, "task": ""} for entry in entries
    ]
    assert {entry["task"] for entry in entries} <= {*loaded.dag_structure["nodes"]}
    moment = loaded.timestamp[:19].replace("T", " ")
    assert f"\ndagprofiler 0.1.0 on {loaded.hostname}, {moment}" in str(loaded)
    saved = strict(loaded.dumps())
    assert Profile.from_dict(saved) == loaded
    changed = ("metadata", "configuration", "dag_structure", "execution_metrics")
    assert list(saved) == list(document)
    assert all(saved[name] == document[name] for name in document if name not in changed)
    assert saved["metadata"].items() >= document["metadata"].items()
    assert saved["metadata"]["schema_version"] == SCHEMA_VERSION


def test_absent_sections_load():
    document = minimal(node_weights={}, edge_weights={})
    del document["execution_metrics"], document["total_time_ms"]
    document["metadata"] = {"timestamp": "2026-11-20", "dagprofiler_version": "9"}
    loaded = Profile.from_dict(document)
    assert (loaded.seed, loaded.hostname, loaded.metrics.total_time_ms) == (None, None, None)
    assert loaded.metrics.task_metrics == loaded.metrics.edge_metrics == []
    assert loaded.to_dict() == {
        **document,
        "metadata": {**document["metadata"], "schema_version": SCHEMA_VERSION, "seed": None},
        "execution_metrics": [],
    }
    assert repr(loaded)
    entry = {"task": "collect", "compute_time_ms": 1.5, "bytes_in": 0, "bytes_out": 1}
    short = Profile.from_dict(minimal(execution_metrics=[entry]))
    assert short.metrics.task_metrics[0].compute_time_ms == 1.5
    unfinished = Profile.from_dict(minimal(run={"state": "partial"}))
    assert "PARTIAL" in str(unfinished)
    for profile in (loaded, short, unfinished):
        assert Profile.loads(profile.dumps()) == profile
        assert str(profile)


OLD_READER = """
import json, sys
from importlib.metadata import version
from dagprofiler import Profile
from dagprofiler.schema import validate_profile

assert version("dagprofiler") == "0.1.0"
for path in sys.argv[1:]:
    validate_profile(json.load(open(path)))
    profile = Profile.load(path)
    print(json.dumps([
        profile.config.to_dict(), profile.dag_structure, profile.metrics.to_dict(),
        profile.seed, profile.timestamp, profile.hostname,
    ]))
    profile.save(path)
"""


@pytest.mark.external
def test_0_1_0_loads_our_files_and_we_load_what_it_makes_of_them(tmp_path, measured):
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "old"], check=True)
    folder, suffix = ("Scripts", ".exe") if os.name == "nt" else ("bin", "")
    python = tmp_path / "old" / folder / f"python{suffix}"
    wanted = ["dagprofiler==0.1.0", "jsonschema"]
    subprocess.run([python, "-m", "pip", "install", "--quiet", *wanted], check=True)
    profiles = [measured, partial(), example(model=1j).run(), Profile.loads(OLD)]
    paths = [profile.save(tmp_path / f"{i}.json") for i, profile in enumerate(profiles)]
    env = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    where = {"cwd": tmp_path, "env": env, "text": True}
    lines = subprocess.check_output([python, "-c", OLD_READER, *paths], **where).splitlines()
    for profile, path, line in zip(profiles, paths, lines):
        config, structure, metrics, seed, timestamp, hostname = strict(line)
        document = profile.to_dict()
        assert (config, structure) == (document["configuration"], profile.dag_structure)
        assert metrics["task_metrics"] == document["execution_metrics"]
        for name in ("node_weights", "edge_weights", "total_time_ms"):
            assert metrics[name] == getattr(profile.metrics, name)
        assert (seed, timestamp, hostname) == (profile.seed, profile.timestamp, profile.hostname)
        rewritten = Profile.load(path)
        assert rewritten.metadata == {"dagprofiler_version": "0.1.0", "schema_version": 1}
        assert rewritten.metrics.task_metrics == profile.metrics.task_metrics
    assert len(lines) == len(profiles)


@pytest.mark.parametrize(
    ("change", "place", "says"),
    [
        (lambda d: d.pop("node_weights"), "$", "'node_weights' is a required"),
        (
            lambda d: d["dag_structure"]["execution_order"].reverse(),
            *("$.dag_structure.execution_order", "'process' .* 'collect', .*'collect->process'"),
        ),
        (
            lambda d: (d.clear(), d.update(metadata={"schema_version": 99})),
            *("$.metadata.schema_version", "version 99, .* up to 1; upgrade"),
        ),
    ],
    ids=["a missing section", "an order against the edges", "a newer format of unknown shape"],
)
def test_load_names_the_path_of_an_invalid_value(tmp_path, change, place, says):
    document, path = minimal(), tmp_path / "profile.json"
    change(document)
    text = json.dumps(document)
    path.write_text(text)
    loads = (Profile.load, path), (Profile.loads, text), (Profile.loads, text.encode())
    for load, argument in (*loads, (Profile.from_dict, document)):
        with pytest.raises(ProfileError, match=says) as caught:
            load(argument)
        assert caught.value.path == place


def test_compare_returns_what_0_1_0_returned():
    mine = by_hand(config=Config(N=4, get=[1], same=1.0), weights={"a": 150, "c": 5}, edge_bits=60)
    theirs = by_hand(config=Config(N=4, M=None, same=True), weights={"a": 100, "b": 0}, total=4.0)
    expected = {
        "config_diff": {"get": {"self": [1], "other": None}},
        "node_weight_diff": {
            "a": {"self": 150, "other": 100, "diff": 50, "pct": 50.0},
            "c": {"self": 5, "other": 0, "diff": 5, "pct": math.inf},
        },
        "edge_weight_diff": {"a->b": {"self": 60, "other": 80, "diff": -20, "pct": -25.0}},
        "time_diff_ms": 0.5,
    }
    assert {name: mine.compare(theirs)[name] for name in expected} == expected
    assert theirs.compare(mine)["node_weight_diff"]["c"]["pct"] == -100.0
    assert not any(mine.compare(mine)[name] for name in expected)


def test_compare_takes_profiles_without_a_total_time():
    readme, standard = Profile.loads(README_SAMPLE), Profile.loads(STANDARD_SAMPLE)
    assert readme.compare(standard)["time_diff_ms"] == 0.0
    document = minimal()
    del document["total_time_ms"]
    assert readme.compare(Profile.from_dict(document))["time_diff_ms"] is None
    # Edges of a file that holds only their weights have no fields.
    edges = readme.metrics.edge_metrics
    assert edges[1] == EdgeMetrics("collect", "classify", [], 80010)
    assert [edge.size_bits for edge in edges] == [6400000, 640080, 6400000]


def test_streams_of_text_and_bytes_are_saved_to_and_loaded_from(tmp_path, capsys, measured):
    for stream in (io.StringIO(), io.BytesIO()):
        assert measured.save(stream) == ""
        stream.seek(0)
        assert Profile.load(stream) == measured
    with open(tmp_path / "profile.json", "w", encoding="utf-8") as stream:
        assert measured.save(stream) == str(tmp_path / "profile.json")
    measured.save(sys.stdout)
    assert Profile.loads(capsys.readouterr().out) == measured
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-32"):
        assert Profile.loads(measured.dumps().encode(encoding)) == measured


def test_a_file_whose_name_ends_in_gz_is_compressed(tmp_path):
    plain, small, again = (tmp_path / name for name in ("p.json", "p.json.gz", "again.json.gz"))
    for path in (plain, small, again):
        by_hand().save(path)
    assert gzip.decompress(small.read_bytes()) == plain.read_bytes()
    assert small.read_bytes() == again.read_bytes()
    assert Profile.load(small) == by_hand()
    for content in (small.read_bytes()[:-20], plain.read_bytes()):
        small.write_bytes(content)
        with pytest.raises(ProfileError, match=re.escape("p.json.gz")):
            Profile.load(small)


def test_load_refuses_a_file_that_unpacks_to_too_much(tmp_path):
    bomb = tmp_path / "bomb.json.gz"
    with gzip.open(bomb, "wb") as file:
        for _ in range(64):
            file.write(b" " * 2**20)
        file.write(by_hand().dumps().encode())
    tracemalloc.start()
    try:
        with pytest.raises(ProfileError, match=r"than 8,388,608 bytes.*gunzip.*bomb\.json\.gz"):
            Profile.load(bomb, max_unpacked_bytes=8 * 2**20)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < 20 * 2**20
    assert Profile.load(bomb) == Profile.load(bomb, max_unpacked_bytes=None) == by_hand()


def test_the_file_has_one_record_a_line():
    assert repr(by_hand()) == "<Profile: 2 tasks, 1 edge, 4.5 ms>"
    unknown = by_hand()
    unknown.metrics.total_time_ms = None
    assert repr(unknown) == "<Profile: 2 tasks, 1 edge, total time unknown>"
    assert repr(Profile.loads(README_SAMPLE)) == "<Profile: 3 tasks, 3 edges, 45.2 ms>"
    golden = (DATA / "profile-by-hand.json").read_text()
    assert by_hand().dumps() == golden.replace("VERSION", __version__)
    names = [f"t{i}" for i in range(5000)]
    many = handmade(names, edges=list(zip(names, names[1:])))
    assert Profile.loads(many.dumps()) == many
    assert many.dumps().count("\n") > 3 * len(names)


@pytest.mark.parametrize(
    "value",
    [(1, (2, 3)), np.arange(6.0).reshape(2, 3), np.float32(0.1), math.nan, [math.nan], 1 + 2j],
    ids=repr,
)
def test_saved_parameters_compare_equal(value):
    profile = example(value=value).run()
    loaded = Profile.loads(profile.dumps())
    for mine, theirs in ((profile, loaded), (loaded, profile), (profile, profile)):
        assert mine.compare(theirs)["config_diff"] == {}
    assert list(profile.compare(example(value="other").run())["config_diff"]) == ["value"]
