import json
import os
import re
import stat
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from cli_runner import command, environment, python
from processes import limited_files

from dagprofiler import Profile


def saved(folder, name="p.json"):
    return Profile.load(os.path.join(folder, name))


def test_run_writes_a_profile_and_shows_it(shelf, cli, folder):
    profile = Profile.load(shelf.profile)
    assert (profile.seed, profile.sections["run"]["rounds"]) == (1, 7)
    assert shelf.first.stdout.startswith(f"{shelf.target}, 3 tasks, 2 edges, ")
    assert "critical path: " in shelf.first.stdout
    assert shelf.first.stdout.endswith(f"profile: {shelf.profile}\n")
    assert shelf.first.stderr == ""
    assert "use -o profile.json" in cli("run", shelf.target).out
    done = cli("run", shelf.target, "--quiet")
    assert (done.out, done.err) == ("", "")
    written = {"profile": f"{folder}/p.json", "report": f"{folder}/r.html"}
    options = ["-o", written["profile"], "--report", written["report"], "--json"]
    found = json.loads(cli("run", shelf.target, *options).out)
    assert found["written"] == written
    assert {task["task"] for task in found["tasks"]} == {"read", "add", "show"}
    assert Path(written["report"]).read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize("target", [".py:dag", ":dag", ".py", ":build"])
def test_a_target_is_a_dag_or_a_function_that_builds_one(cli, target):
    assert "3 tasks" in cli("run", f"pipeline_of_tests{target}").out


def test_parameters_have_the_type_of_what_they_replace(cli, folder, shelf):
    given = ["N=2e2", "factor=3", 'names=["b"]', "on=False", "label=7", "extra=[1]"]
    options = [word for one in given for word in ("--config", one)]
    cli("run", shelf.target, "-o", f"{folder}/p.json", *options)
    config = saved(folder).config.to_dict()
    del config["model"]
    expected = {"N": 200, "factor": 3.0, "names": ["b"], "on": False, "label": "7", "extra": [1]}
    assert config == expected
    assert isinstance(config["factor"], float)
    cli("run", "pipeline_of_tests:build", "-c", "n=7", "-c", "label=y", "-o", f"{folder}/p.json")
    cli("run", "pipeline_of_tests:needs", "-c", "size=8", "-o", f"{folder}/q.json")
    assert (saved(folder).config.N, saved(folder).config.label) == (7, "y")
    assert saved(folder, "q.json").config.N == 8


def test_a_run_is_as_requested_and_a_pool_made_for_it_ends(cli, folder, shelf, refused, written):
    options = ["--rounds", "6", "--warmup", "1", "--meters", "wall,cpu", "--executor", "threads:2"]
    cli("run", shelf.target, *options, "-o", f"{folder}/p.json")
    sections = saved(folder).sections
    conditions = sections["run"]["conditions"]
    assert (conditions["n"], conditions["warmup"]) == (6, 1)
    assert sections["run"]["executor"] == "ThreadPoolExecutor"
    assert "cpu_ms" in sections["samples"]["tasks"]["add"]
    text = (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "made = []\n"
        "def two():\n    made.append(ThreadPoolExecutor(2))\n    return made[-1]\n"
    )
    executor = f"{written('pools_of_tests.py', text)}:two"
    assert "ThreadPoolExecutor" in cli("run", shelf.target, "--executor", executor).out
    refused("run", "pipeline_of_tests.py:failing", "--executor", executor, code=4)
    assert len(sys.modules["pools_of_tests"].made) == 2
    for pool in sys.modules["pools_of_tests"].made:
        with pytest.raises(RuntimeError, match="after shutdown"):
            pool.submit(print)


@pytest.mark.slow
def test_processes_and_new_processes_find_the_tasks_of_a_file(shelf, folder, written):
    code = (
        "import multiprocessing, sys; from dagprofiler.cli import main; "
        "multiprocessing.set_start_method('spawn'); sys.exit(main())"
    )
    # In a folder of its own, and with a name that only importlib takes.
    text = Path(shelf.folder, "pipeline_of_tests.py").read_text(encoding="utf-8")
    target = written("my-pipeline.py", text) + ":dag"
    for more in (["--executor", "processes:1"], ["--rounds", "1", "--fresh-process"]):
        done = python("-c", code, "run", target, *more)
        assert done.returncode == 0, done.stderr
        assert "3 tasks" in done.stdout


def test_what_tasks_print_is_not_in_the_profile(folder, written):
    text = (
        "from dagprofiler import DAG, task\n"
        "@task(outputs=['x'])\n"
        "def talk():\n    print('hello')\n    return {'x': 1}\n"
        "dag = DAG({'talk': talk})\n"
    )
    done = command("run", written("talks.py", text), "-o", "-", cwd=folder, code=0)
    assert Profile.loads(done.stdout).dag_structure["nodes"] == ["talk"]
    assert done.stderr == "hello\n"


def test_a_file_in_a_package_is_its_module(cli, folder, written):
    Path(folder, "package_of_tests").mkdir()
    written("package_of_tests/__init__.py", "")
    written("package_of_tests/sizes.py", "N = 3\n")
    text = "from dagprofiler import DAG\nfrom .sizes import N\ndag = DAG({}, [], {'N': N})\n"
    target = written("package_of_tests/inside.py", text)
    assert "0 tasks" in " ".join(cli("run", target).out.split())
    done = cli("run", "pipeline_of_tests:broken", "--debug", code=2)
    assert "Traceback" in done.err
    assert done.err.splitlines()[-1].startswith("dagprofiler: target")


def test_a_failed_run_leaves_its_partial_profile_and_report(cli, folder):
    profile, page = f"{folder}/p.partial.json", f"{folder}/r.html"
    options = ["-o", f"{folder}/p.json", "--report", page, "--json"]
    done = cli("run", "pipeline_of_tests:failing", *options, code=4)
    found = json.loads(done.out)
    problem = "task 'fails' failed: ValueError: no such cell"
    line, place, text = done.err.splitlines()
    assert line.startswith(f"dagprofiler: {problem}; measured: 0 complete rounds in {profile}")
    assert f"its report in {page}" in line
    assert re.fullmatch(r"  .*pipeline_of_tests.py, line \d+, in fails", place)
    assert text == '    raise ValueError("no such cell")'
    assert "no such cell" in Path(page).read_text(encoding="utf-8")
    assert found["error"] == problem
    assert found["written"] == {"profile": profile, "report": page}
    assert found["summary"]["failures"]["fails"]["traceback"][-1]["function"] == "fails"
    assert saved(folder, "p.partial.json").sections["run"]["state"] == "partial"
    assert not os.path.exists(f"{folder}/p.json")


@pytest.mark.parametrize("output", ["-", os.devnull])
def test_a_partial_profile_of_no_file_has_a_place(refused, shelf, output):
    line = refused("run", "pipeline_of_tests:failing", "-o", output, code=4)
    assert line.endswith("; measured: 0 complete rounds in profile.partial.json")
    (shelf.folder / "profile.partial.json").unlink()


@pytest.fixture
def second_places(folder, monkeypatch):
    """Return a folder for temporary files, and a function that takes the profile out of it."""
    places = Path(folder, "second")
    places.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(places))

    def only(line):
        (path,) = places.iterdir()
        assert str(path) in line
        assert os.name != "posix" or stat.S_IMODE(path.stat().st_mode) == 0o600
        profile = Profile.load(path)
        path.unlink()
        return profile

    return SimpleNamespace(folder=places, only=only)


with_full_disk = pytest.mark.skipif(
    not os.path.exists("/dev/full"), reason="this system has no /dev/full"
)


@with_full_disk
def test_a_full_disk_loses_no_profile(refused, shelf, folder, second_places):
    for option in ("-o", "--report"):
        line = refused("run", shelf.target, option, "/dev/full", "-q")
        assert "'/dev/full': cannot be written: No space left on device; the profile is in " in line
        assert second_places.only(line).dag_structure["nodes"] == ["read", "add", "show"]
    Path(folder, "q.partial.json").mkdir()
    line = refused("run", "pipeline_of_tests:failing", "-o", f"{folder}/q.json", code=4)
    assert second_places.only(line).run.state == "partial"
    compare = "compare", "--run", shelf.target, shelf.target, "--rounds", "2"
    line = refused(*compare, "-o", "/dev/full", f"{folder}/p.json")
    for profile in (second_places.only(line), saved(folder)):
        assert profile.dag_structure["nodes"] == ["read", "add", "show"]
    line = refused(*compare, "--report", "/dev/full")
    assert [str(place) in line for place in second_places.folder.iterdir()] == [True, True]


@with_full_disk
@pytest.mark.parametrize("taker", ["a full disk", "a reader that is gone"])
def test_a_profile_that_stdout_does_not_take_has_another_place(shelf, folder, taker):
    reader, writer = os.pipe()
    if taker == "a full disk":
        os.close(writer)
        writer = os.open("/dev/full", os.O_WRONLY)
    os.close(reader)
    options = {"stdout": writer, "env": {**environment(), "TMPDIR": folder}}
    done = command("run", shelf.target, "-o", "-", cwd=shelf.folder, **options)
    os.close(writer)
    (name,) = os.listdir(folder)
    assert done.stderr.count("\n") == 1
    assert f"the profile is in {folder}/{name}" in done.stderr
    assert done.returncode == (2 if taker == "a full disk" else 141)
    assert saved(folder, name).dag_structure["nodes"] == ["read", "add", "show"]


def test_a_profile_that_no_file_can_hold_is_said_to_be_lost(cli, shelf, folder, second_places):
    pytest.importorskip("resource")
    with limited_files(100):
        done = cli("run", shelf.target, "-q", "-o", f"{folder}/p.json", code=2)
    assert "lost: it cannot be saved to any file (File too large)" in done.err
    assert os.listdir(folder) == ["second"]
    assert list(second_places.folder.iterdir()) == []


def test_a_journal_says_which_command_resumes_it(cli, folder):
    words = ["pipeline_of_tests.py:failing", "--journal", f"{folder}/j", "--seed", "3"]
    resume = f"; dagprofiler resume {folder}/j TARGET resumes it\n"
    assert resume in cli("run", *words, code=4).err


def test_no_journal_is_written_over_and_another_run_is_refused(cli, refused, folder, shelf):
    failing, journal = "pipeline_of_tests:failing", f"{folder}/journal"
    cli("run", shelf.target, "--journal", f"{folder}/full", "-q")
    line = refused("run", shelf.target, "--journal", f"{folder}/full")
    assert (
        f"already holds the journal of a run: dagprofiler resume {folder}/full TARGET resumes it"
        in line
    )
    cli("run", "-q", shelf.target, "--journal", journal, "-c", "model=1", code=2)
    cli("run", "-q", failing, "--journal", journal, "--seed", "3", code=4)
    assert "TARGET" in refused("resume", journal)
    refused("resume", journal, failing, code=4)
    wrong = refused("resume", journal, failing, "-c", "N=4")
    assert wrong.startswith(f"journal {os.path.abspath(journal)!r}: config.N:")
    os.unlink("profile.partial.json")
    Path("go").touch()
    cli("resume", journal, failing, "-o", f"{folder}/p.json")
    os.unlink("go")
    assert (saved(folder).seed, len(saved(folder).run.resumed)) == (3, 2)


LATER = """
import time

from dagprofiler import DAG, task


@task(outputs=["x"])
def a():
    time.sleep(0.4)
    raise ValueError("a later")


@task(outputs=["x"])
def z():
    raise KeyError("z first")


dag = DAG({"a": a, "z": z})
"""


def test_the_place_of_a_failure_is_that_of_the_first_failure(cli, written):
    said = cli("run", written("later.py", LATER), "--executor", "threads:2", code=4).err
    assert "task 'z' failed: KeyError: 'z first'" in said
    assert "in z" in said
    assert "in a" not in said
