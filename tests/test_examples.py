"""The programs in docs/examples: each runs as its reader would run it, and does what it says."""

import subprocess
import sys
import sysconfig
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import pytest

from dagprofiler import Profile

EXAMPLES = Path(__file__).resolve().parent.parent / "docs" / "examples"

TASKS = {
    "image_pipeline": ["capture", "denoise", "segment", "label", "sharpness", "shrink", "describe"],
    "measured_weights": ["write", "parse", "by_host", "by_page", "report"],
    "quickstart": ["collect", "process", "classify"],
    "slice_scheduler": ["collect", "predict", "schedule", "evaluate"],
    "text_index": ["read", "tokenize", "count", "tfidf", "rank"],
}


def load(name):
    """Import the example `name` by its path, as docs is no package."""
    return SimpleNamespace(**run_path(str(EXAMPLES / f"{name}.py")))


def run(name, folder, *arguments):
    """Run the example `name` in `folder` and return what it printed."""
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


#: These run for a second or more.
SLOW = {"measured_weights", "text_index"}
NAMES = [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in TASKS]

KLINGON = b"# -*- coding: klingon -*-\n"

slices, index = load("slice_scheduler"), load("text_index")
growing, words = load("growing_graphs"), load("word_counts")


@pytest.mark.parametrize("name", NAMES)
def test_example_writes_a_profile_into_the_current_folder_or_where_it_is_told_and_prints_it(
    name, tmp_path
):
    printed = run(name, tmp_path)
    profile = Profile.load(str(tmp_path / f"{name}_profile.json"))
    assert profile.dag_structure["execution_order"] == TASKS[name]
    assert str(profile) in printed
    folder = tmp_path / "folder"
    folder.mkdir()
    run(name, folder, "here.json")
    assert [file.name for file in folder.iterdir()] == ["here.json"]
    assert list(Profile.load(str(folder / "here.json")).metrics.node_weights) == TASKS[name]


def test_every_example_is_tested_and_the_quickstart_has_the_weights_of_its_readme():
    # These are in tests/executors/test_own.py, and below.
    others = {"own_executor", "growing_graphs", "word_counts"}
    assert {file.stem for file in EXAMPLES.glob("*.py")} == {*TASKS, *others}
    metrics = load("quickstart").build_dag().run(seed=42).metrics
    assert metrics.node_weights == {"collect": 100_000, "process": 1_000_000, "classify": 0}
    for edge in ("collect->process", "process->classify"):
        assert metrics.edge_weights[edge] == 6_400_000


def outcome(seed=1, **size):
    """Return every field that the tasks of one small scheduling window made."""
    dag = slices.build_dag(**{"N_UE": 400, "N_CELL": 3, "N_SLICE": 4, "N_PRB": 4, **size})
    outputs = dag.run(seed=seed, keep=list(dag.tasks)).outputs
    return {field: value for task in dag.tasks for field, value in outputs[task].items()}


def test_slice_scheduler_makes_a_state_for_each_ue_and_better_cqi_for_better_sinr():
    state = outcome(N_UE=300, N_CELL=7, N_SLICE=5, K=6)
    shapes = [state[field].shape for field in ("Q", "CQI", "SINR", "cell", "slice", "features")]
    assert shapes == [(300,)] * 5 + [(300, 6)]
    assert set(state["cell"]) <= set(range(7))
    assert set(state["slice"]) <= set(range(5))
    assert np.all((state["Q"] >= 0) & (state["Q"] <= state["features"].sum(axis=1)))
    state = outcome(N_UE=2000)
    assert set(state["CQI"]) <= set(range(16))
    assert np.all(np.diff(state["CQI"][np.argsort(state["SINR"])]) >= 0)
    assert len(set(state["CQI"])) > 10
    assert slices.generate_cqi(np.array([-60.0, -10.0, 60.0])).tolist() == [0, 0, 15]


def test_slice_scheduler_predicts_traffic_that_repeats_itself():
    level = np.random.default_rng(7).uniform(1e4, 1e5, 500)
    none = np.zeros(500, dtype=np.int64)
    features, cfg = np.repeat(level[:, None], 4, axis=1), slices.build_dag(N_SLICE=2, K=4).config
    predicted = slices.T1Predict().compute(Q=none, features=features, slice=none, cfg=cfg)
    assert np.allclose(predicted["demand"], level, rtol=0.01)


@pytest.mark.parametrize("blocks", [1, 4, 40, 1000], ids=["overloaded", "busy", "calm", "idle"])
def test_a_window_keeps_within_its_queues_budgets_and_blocks(blocks):
    window = outcome(N_PRB=blocks)
    assert np.all(window["demand"] >= window["Q"])
    assert window["budget"].min() >= 0
    handed_out = window["budget"].sum(axis=1)
    assert np.all(handed_out <= blocks * slices.SLOTS)
    assert blocks > 1 or np.all(handed_out == slices.SLOTS)
    granted = np.zeros_like(window["budget"])
    np.add.at(granted, (window["cell"], window["slice"]), window["granted"])
    assert window["granted"].min() >= 0
    assert np.all(granted <= window["budget"])
    assert np.all((window["served"] >= 0) & (window["served"] <= window["Q"]))
    reached = window["CQI"] > 0
    assert np.all(window["served"][~reached] == 0)
    assert blocks < 1000 or np.array_equal(window["served"][reached], window["Q"][reached])
    assert np.all((window["drained"] >= 0) & (window["drained"] <= 1))
    assert window["throughput"].sum() == window["served"].sum() / slices.WINDOW_S
    assert np.all((window["fairness"] > 0) & (window["fairness"] <= 1 + 1e-12))
    assert np.all((window["utilisation"] >= 0) & (window["utilisation"] <= 1))


def test_blocks_are_split_fairly_and_cells_keep_their_guarantees():
    values = np.array([3.0, 3.0, 5.0, 0.0, 0.0, 0.0])
    group = np.array([0, 0, 1, 1, 1, 2])
    assert slices.jain_index(values, group, 4).tolist() == pytest.approx([1, 1 / 3, 1, 1])
    budget = slices.split_cells(np.array([[10.0, 1e6, 1e6], [300.0, 0.0, 1e6]]), 1000)
    assert budget.sum(axis=1).tolist() == [1000, 1000]
    assert budget[:, 0].tolist() == [10, 166]
    assert budget[1, 1] == 0
    wanted = np.array([[10.0, 20.0, 30.0]])
    assert slices.split_cells(wanted, 1000).tolist() == [[10, 20, 30]]
    need, past = np.array([50.0, 50.0, 50.0, 2.0]), np.array([0.0, 10.0, 90.0, 0.0])
    alike = np.zeros(4, dtype=np.int64)
    granted = slices.fill_fairly(need=need, past=past, group=alike, totals=np.array([32]))
    assert granted.tolist() == [20, 10, 0, 2]
    wanted, cells = np.array([1.5, 1.25, 1.25, 7.0]), np.array([0, 0, 0, 1])
    assert slices.whole_blocks(wanted, cells, np.array([4, 9])).tolist() == [2, 1, 1, 7]


@pytest.mark.parametrize("size", [{"N_CELL": 1}, {"N_SLICE": 1}, {"K": 1}, {"N_UE": 1}])
def test_slice_scheduler_works_at_its_smallest_sizes(size):
    state = outcome(**size)
    assert np.all(state["served"] <= state["Q"])
    assert np.all(np.isfinite(state["SINR"]))


def test_the_same_seed_schedules_the_same_window_and_another_seed_another():
    weights = slices.build_dag(N_UE=100).run(seed=1).metrics.node_weights
    assert weights["collect"] == 100 * 5 + 100 * 5 * 5 + 100 * 3
    assert all(weight > 0 for weight in weights.values())
    first, again, other = outcome(seed=5), outcome(seed=5), outcome(seed=6)
    assert all(np.array_equal(first[field], again[field]) for field in first)
    assert not np.array_equal(first["Q"], other["Q"])


def test_text_index_reads_files_in_the_order_of_their_paths_as_many_as_it_may():
    folder = Path(sysconfig.get_path("stdlib"))
    paths = [file.relative_to(folder).as_posix() for file in index.source_files(folder, 10_000)]
    assert paths == sorted(set(paths))
    assert {"ast.py", "json/decoder.py", "xml/dom/minidom.py"} <= set(paths)
    profile = index.build_dag(max_files=7).run(keep=["read"])
    assert len(profile.outputs["read"]["paths"]) == len(profile.outputs["read"]["texts"]) == 7
    weights = profile.metrics.node_weights
    assert [name for name, weight in weights.items() if weight == 0] == ["tfidf"]
    found = index.words("def parseHTTPHeader(raw_data2, x):")
    assert found == ["def", "parse", "http", "header", "raw", "data"]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("# -*- coding: latin-1 -*-\n# café\n".encode("latin-1"), "# café"),
        *((head + b"# caf\xe9\n", "# caf\N{REPLACEMENT CHARACTER}") for head in (b"", KLINGON)),
    ],
)
def test_a_source_is_decoded_by_its_cookie_or_read_all_the_same(content, text, tmp_path):
    file = tmp_path / "source.py"
    file.write_bytes(content)
    assert text in index.read_source(file)


def test_weights_are_tf_times_idf_in_vectors_of_length_1():
    counts = [{"both": 4, "once": 1, "often": 3}, {"both": 1}]
    document_frequency = {"both": 2, "once": 1, "often": 1}
    weights = index.tfidf().compute(counts=counts, document_frequency=document_frequency)["weights"]
    assert weights[0]["both"] == 0
    assert weights[0]["often"] / weights[0]["once"] == pytest.approx(1 + np.log(3))
    assert sum(weight**2 for weight in weights[0].values()) == pytest.approx(1)
    assert weights[1] == {"both": 0}


def test_text_index_finds_the_files_that_are_about_the_query_and_none_for_other_words():
    dag = index.build_dag(max_files=10_000, query="JSON decoder", top=5)
    ranking = dag.run().final_outputs["ranking"]
    assert len(ranking) == 5
    assert ranking[0][0].startswith("json/")
    scores = [score for _, score in ranking]
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score <= 1 for score in scores)
    for query in ("", "zzqxj", "a b c"):
        profile = index.build_dag(max_files=5, query=query).run()
        assert profile.final_outputs["ranking"] == []


def edges(profile):
    return {(edge["source"], edge["target"]) for edge in profile.dag_structure["edges"]}


def test_files_are_processed_as_they_are_found_and_merged_when_no_more_can_come():
    profile = growing.files(3).run()
    assert profile.final_outputs == {"text": "file 0 file 1 file 2"}
    names = profile.dag_structure["nodes"]
    assert names == ["download", "process[0]", "process[1]", "process[2]", "merge"]
    assert growing.files(0).run().final_outputs == {"text": ""}
    profile = growing.book().run()
    assert profile.final_outputs == {"book": ["title", "page on rules", "page on graphs"]}
    fired = [firing["rule"] for firing in profile.sections["origins"]["fired"]]
    assert fired == ["typeset_chapters", "add_title", "reduce bind"]
    for quality, branch in ((0.7, "publish"), (0.3, "repair")):
        assert edges(growing.branches(quality).run()) == {("check", branch)}


def test_a_recursion_unrolls_down_to_one_and_a_late_merge_has_all_producers():
    profile = growing.recursion(6).run(keep=["start", *[f"step {i}" for i in range(1, 9)]])
    results = [profile.outputs[name]["n"] for name in profile.dag_structure["nodes"]]
    assert results == [6, 3, 10, 5, 16, 8, 4, 2, 1]
    assert len(edges(profile)) == 8
    profile = growing.late_merge().run()
    assert profile.final_outputs == {"total": 1 + 10 + 20 + 20}
    assert len(profile.dag_structure["nodes"]) == 7
    assert len(edges(profile)) == 7
    assert sum(target == "merge" for _, target in edges(profile)) == 4
    assert profile.sections["origins"]["never_fired"] == []


def test_words_of_the_standard_library_are_counted_by_package_and_letter():
    folder = Path(sysconfig.get_path("stdlib"))
    profile = words.build_dag(max_packages=5).run()
    packages = sorted(file.parent for file in folder.glob("*/__init__.py"))[:5]
    counted = Counter()
    for file in (file for package in packages for file in package.glob("*.py")):
        text = file.read_text(encoding="utf-8", errors="replace").lower()
        counted.update(words.WORD.findall(text))
    assert profile.final_outputs["total"] == sum(counted.values())
    letters = {word[0] for word in counted}
    assert set(profile.final_outputs["most"]) == letters
    assert len(profile.dag_structure["nodes"]) == 1 + 5 + len(letters) + 1
    with ThreadPoolExecutor(2) as pool:
        again = words.build_dag(max_packages=5).run(executor=pool)
    assert again.final_outputs == profile.final_outputs


def test_programs_run_as_their_readers_run_them(tmp_path):
    assert "{'total': 51}" in run("growing_graphs", tmp_path)
    run("word_counts", tmp_path)
    loaded = Profile.load(str(tmp_path / "word_counts_profile.json"))
    assert loaded.sections["origins"]["records"]
