from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from cli_runner import command

from dagprofiler import Profile


@pytest.fixture(scope="module")
def text(shelf):
    return Path(shelf.profile).read_text(encoding="utf-8")


def test_report_writes_a_page_beside_the_profile(shelf):
    done = command("report", "profile.json", "--base", shelf.profile, cwd=shelf.folder, code=0)
    assert done.stdout == "written: profile.html\n"
    page = (shelf.folder / "profile.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")


def test_report_reads_standard_input_and_writes_standard_output(shelf, text):
    done = command("report", "-", "-o", "-", cwd=shelf.folder, code=0, input=text)
    assert done.stdout.startswith("<!doctype html>")


def test_export_takes_the_format_from_the_ending_and_says_what_is_left_out(shelf):
    done = command("export", shelf.profile, "-o", "p.dot", cwd=shelf.folder, code=0)
    assert done.stdout == "written: p.dot\n"
    assert "are left out: " in done.stderr
    assert (shelf.folder / "p.dot").read_text(encoding="utf-8").startswith("digraph")


def test_options_of_a_format_are_typed_and_may_be_in_a_file(cli, shelf, folder):
    Path(folder, "network.json").write_text(
        '{"speeds": {"here": 1, "there": 2}, "bandwidth": 5}', encoding="utf-8"
    )
    options = ["--option", f"network=@{folder}/network.json", "--cost", "wall_time"]
    done = cli("export", shelf.profile, "-o", f"{folder}/p.saga.json", *options, "--json")
    assert "costs are ms (wall_time: " in json.loads(done.out)["left_out"][0]
    instance = json.loads(Path(folder, "p.saga.json").read_text(encoding="utf-8"))
    assert [node["name"] for node in instance["network"]["nodes"]] == ["here", "there"]


def test_export_writes_standard_output(cli, shelf):
    assert cli("export", shelf.profile, "--format", "mermaid").out.startswith("flowchart")


def test_import_reads_what_export_wrote(shelf):
    command("export", shelf.profile, "-o", "p.wfformat.json", cwd=shelf.folder, code=0)
    made = (shelf.folder / "p.wfformat.json").read_text(encoding="utf-8")
    done = command("import", "-", cwd=shelf.folder, code=0, input=made)
    assert set(Profile.loads(done.stdout).dag_structure["nodes"]) == {"read", "add", "show"}


def test_validate_says_of_each_file_whether_it_is_valid(shelf):
    (shelf.folder / "cut.json").write_text('{"metadata": ', encoding="utf-8")
    done = command("validate", shelf.profile, "cut.json", cwd=shelf.folder, code=1)
    lines = done.stdout.splitlines()
    assert lines[0] == f"{shelf.profile}: a valid profile"
    assert lines[1].startswith("cut.json: not JSON: ")
    assert lines[1].endswith("run it again")


def test_validate_has_json_and_reads_standard_input(shelf, text):
    done = command("validate", "-", "--json", cwd=shelf.folder, code=0, input=text)
    assert json.loads(done.stdout)[0]["valid"] is True


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_knows_the_commands_and_their_options(cli, shell):
    pytest.importorskip("shtab")
    script = cli("completion", shell).out
    assert "dagprofiler" in script
    assert "validate" in script
    assert "--fresh-process" in script
    assert "(chrome_trace csv dot" in script
    assert json.loads(cli("completion", shell, "--json").out) == {
        "shell": shell,
        "script": script[:-1],
    }


def test_completion_of_an_unknown_shell_is_refused(refused):
    pytest.importorskip("shtab")
    assert "expected one of bash, zsh" in refused("completion", "nope")


def test_the_same_commands_say_in_json_what_they_wrote(cli, shelf, folder):
    def said(*arguments):
        return json.loads(cli(*arguments, "--json").out)

    page, other = f"{folder}/r.html", f"{folder}/p.wfformat.json"
    assert said("report", shelf.profile, "-o", page) == {"written": page, "left_out": []}
    assert said("export", shelf.profile, "-o", other)["written"] == other
    imported = f"{folder}/imported.json"
    assert said("import", other, "-o", imported)["written"] == imported
    assert [one["valid"] for one in said("validate", shelf.profile, imported)] == [True, True]


def test_a_file_that_cannot_be_read_is_not_called_invalid(refused):
    assert "cannot be read" in refused("validate", "no_such.json")


def test_completion_without_its_extra_says_how_to_install_it(refused, monkeypatch):
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert 'pip install "dagprofiler[cli]"' in refused("completion", "bash")
