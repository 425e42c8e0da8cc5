"""The programs in docs/examples: each runs as its reader would run it, and does what it says."""

import subprocess
import sys
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

slices, index = load("slice_scheduler"), load("text_index")
growing = load("growing_graphs")


@pytest.mark.parametrize("name", NAMES)
def test_examples_write_and_print_a_profile(name, tmp_path):
    printed = run(name, tmp_path)
    profile = Profile.load(str(tmp_path / f"{name}_profile.json"))
    assert profile.dag_structure["execution_order"] == TASKS[name]
    assert str(profile) in printed
    folder = tmp_path / "folder"
    folder.mkdir()
    run(name, folder, "here.json")
    assert [file.name for file in folder.iterdir()] == ["here.json"]
    assert list(Profile.load(str(folder / "here.json")).metrics.node_weights) == TASKS[name]


SPAWNED = """
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
def pool():
    return ProcessPoolExecutor(2, mp_context=get_context("spawn"))
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", [*TASKS, "word_counts"])
def test_examples_run_in_processes_that_are_spawned(name, tmp_path):
    # As on macOS and Windows.
    (tmp_path / "spawned.py").write_text(SPAWNED)
    command = ["run", f"{EXAMPLES / name}.py:build_dag", "--executor", "spawned.py:pool"]
    command = [sys.executable, "-m", "dagprofiler", *command, "--seed", "1", "-o", "here.json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    profile = Profile.load(str(tmp_path / "here.json"))
    assert profile.run.state == "complete"
    assert profile.run.executor == "ProcessPoolExecutor"


def test_every_example_is_tested():
    # These are in tests/executors/test_pools.py, and below.
    others = {"own_executor", "growing_graphs", "word_counts"}
    assert {file.stem for file in EXAMPLES.glob("*.py")} == {*TASKS, *others}


def outcome(seed=1, **size):
    """Return every field that the tasks of one small scheduling window made."""
    dag = slices.build_dag(**{"N_UE": 400, "N_CELL": 3, "N_SLICE": 4, "N_PRB": 4, **size})
    outputs = dag.run(seed=seed, keep=list(dag.tasks)).outputs
    return {field: value for task in dag.tasks for field, value in outputs[task].items()}


def test_a_seed_schedules_the_same_window():
    weights = slices.build_dag(N_UE=100).run(seed=1).metrics.node_weights
    assert weights["collect"] == 100 * 5 + 100 * 5 * 5 + 100 * 3
    assert all(weight > 0 for weight in weights.values())
    first, again, other = outcome(seed=5), outcome(seed=5), outcome(seed=6)
    assert all(np.array_equal(first[field], again[field]) for field in first)
    assert not np.array_equal(first["Q"], other["Q"])


def test_text_index_finds_files_about_the_query():
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


def test_examples_of_growing_graphs_grow(tmp_path):
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
    profile = growing.recursion(6).run(keep=["start", *[f"step {i}" for i in range(1, 9)]])
    results = [profile.outputs[name]["n"] for name in profile.dag_structure["nodes"]]
    assert results == [6, 3, 10, 5, 16, 8, 4, 2, 1]
    profile = growing.late_merge().run()
    assert profile.final_outputs == {"total": 1 + 10 + 20 + 20}
    assert sum(target == "merge" for _, target in edges(profile)) == 4
    assert "{'total': 51}" in run("growing_graphs", tmp_path)
    run("word_counts", tmp_path)
    loaded = Profile.load(str(tmp_path / "word_counts_profile.json"))
    assert loaded.sections["origins"]["records"]
