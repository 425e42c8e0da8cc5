"""The programs in docs/examples: each runs as its reader would run it, and does what it says."""

import subprocess
import sys
from pathlib import Path
from runpy import run_path

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


def run(name, folder, *arguments):
    """Run the example `name` in `folder` and return what it printed."""
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


#: These run for a second or more.
SLOW = {"measured_weights", "text_index"}
NAMES = [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in TASKS]


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


def test_text_index_finds_files_about_the_query():
    # By its path, as docs is no package.
    build_dag = run_path(str(EXAMPLES / "text_index.py"))["build_dag"]
    dag = build_dag(max_files=10_000, query="JSON decoder", top=5)
    ranking = dag.run().final_outputs["ranking"]
    assert (len(ranking), ranking[0][0].partition("/")[0]) == (5, "json")
    assert build_dag(max_files=5, query="zzqxj").run().final_outputs["ranking"] == []


def test_examples_of_growing_graphs_grow(tmp_path):
    printed = run("growing_graphs", tmp_path)
    branches = "\ncheck, publish\n", "\ncheck, repair\n", "step 8\n{'n': 1}", "{'total': 51}"
    texts = "\n{'text': 'file 0 file 1 file 2'}", "['title', 'page on rules', 'page on graphs']"
    assert [text for text in (*branches, *texts) if text not in printed] == []
    run("word_counts", tmp_path)
    loaded = Profile.load(str(tmp_path / "word_counts_profile.json"))
    assert loaded.sections["origins"]["records"]
