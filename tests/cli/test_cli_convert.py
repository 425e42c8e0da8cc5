import json
import sys
from pathlib import Path

import pytest
from cli_runner import command

from dagprofiler import Profile


def test_report_writes_a_file_or_standard_output(shelf):
    text = Path(shelf.profile).read_text(encoding="utf-8")
    done = command("report", "profile.json", "--base", shelf.profile, cwd=shelf.folder, code=0)
    assert done.stdout == "written: profile.html\n"
    page = (shelf.folder / "profile.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    done = command("report", "-", "-o", "-", cwd=shelf.folder, code=0, input=text)
    assert done.stdout.startswith("<!doctype html>")


def test_export_takes_the_format_from_the_ending(cli, shelf, folder):
    path = f"{folder}/p.dot"
    done = cli("export", shelf.profile, "-o", path)
    assert done.out == f"written: {path}\n"
    assert "are left out: " in done.err
    assert Path(path).read_text(encoding="utf-8").startswith("digraph")
    assert cli("export", shelf.profile, "--format", "mermaid").out.startswith("flowchart")
    Path(folder, "network.json").write_text(
        '{"speeds": {"here": 1, "there": 2}, "bandwidth": 5}', encoding="utf-8"
    )
    options = ["--option", f"network=@{folder}/network.json", "--cost", "wall_time"]
    done = cli("export", shelf.profile, "-o", f"{folder}/p.saga.json", *options, "--json")
    assert "costs are ms (wall_time: " in json.loads(done.out)["left_out"][0]
    instance = json.loads(Path(folder, "p.saga.json").read_text(encoding="utf-8"))
    assert [node["name"] for node in instance["network"]["nodes"]] == ["here", "there"]


def test_import_reads_what_export_wrote(cli, shelf, folder):
    path = f"{folder}/p.wfformat.json"
    cli("export", shelf.profile, "-o", path)
    made = Path(path).read_text(encoding="utf-8")
    done = command("import", "-", cwd=shelf.folder, code=0, input=made)
    assert set(Profile.loads(done.stdout).dag_structure["nodes"]) == {"read", "add", "show"}


def test_validate_says_of_each_file_whether_it_is_valid(cli, refused, shelf, written):
    text = Path(shelf.profile).read_text(encoding="utf-8")
    cut = written("cut.json", '{"metadata": ')
    first, second = cli("validate", shelf.profile, cut, code=1).out.splitlines()
    assert first == f"{shelf.profile}: a valid profile"
    assert second.startswith(f"{cut}: not JSON: ")
    done = command("validate", "-", "--json", cwd=shelf.folder, code=0, input=text)
    assert json.loads(done.stdout)[0]["valid"] is True
    # A file that cannot be read is not called invalid.
    assert "no such file" in refused("validate", "no_such.json")


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_knows_commands_and_options(cli, refused, monkeypatch, shell):
    pytest.importorskip("shtab")
    script = cli("completion", shell).out
    for word in ("dagprofiler", "validate", "--fresh-process", "(chrome_trace csv dot"):
        assert word in script
    as_json = json.loads(cli("completion", shell, "--json").out)
    assert as_json == {"shell": shell, "script": script[:-1]}
    assert "must be 'bash', 'zsh'" in refused("completion", "nope")
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert 'pip install "dagprofiler[cli]"' in refused("completion", shell)
