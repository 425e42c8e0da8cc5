import json
import sys
from pathlib import Path

import pytest
from cli_runner import command
from jsonschema import Draft202012Validator

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


#: What commands print with --json.
SCHEMA = json.loads(
    (Path(__file__).resolve().parents[2] / "docs" / "cli.schema.json").read_text(encoding="utf-8")
)


def test_the_json_of_every_command_is_as_documented(cli, shelf, folder):
    def printed(name, *arguments, code=0):
        found = json.loads(cli(name, *arguments, "--json", code=code).out)
        schema = {**SCHEMA, "$ref": f"#/$defs/{name}"}
        assert [error.message for error in Draft202012Validator(schema).iter_errors(found)] == []
        return found

    measured = ["--rounds", "2", "--meters", "full", "-o", f"{folder}/p.json"]
    printed("run", shelf.target, *measured, "--report", f"{folder}/r.html")
    printed("run", "pipeline_of_tests.py:failing", "-o", f"{folder}/f.json", code=4)
    unlike = "pipeline_of_tests.py:unlike", "--rounds", "2"
    printed("run", *unlike, "-o", f"{folder}/u.json", code=2)
    printed("run", shelf.target, "--journal", f"{folder}/journal")
    printed("resume", f"{folder}/journal", shelf.target)
    for path in (shelf.profile, "p.json", "f.partial.json", "u.partial.json"):
        printed("show", Path(folder, path))
    printed("show", shelf.profile, "--part", "path")
    printed("compare", shelf.profile, f"{folder}/p.json", f"{folder}/f.partial.json", code=3)
    printed("report", shelf.profile, "-o", f"{folder}/x.html")
    printed("export", shelf.profile, "-o", f"{folder}/x.wfformat.json")
    printed("import", f"{folder}/x.wfformat.json", "-o", f"{folder}/imported.json")
    printed("validate", shelf.profile, f"{folder}/x.html", code=1)
    printed("show", f"{folder}/imported.json")
    printed("sweep", shelf.target, "--over", "N=100,200,400", "-q", "-o", f"{folder}/runs")
    found = printed("sweep", *unlike, "--over", "N=1,2", "-o", f"{folder}/two", code=2)
    assert found["error"].startswith("N=2: task 'add")
    printed("fit", f"{folder}/runs")
    printed("predict", f"{folder}/runs", "-c", "N=800", "-o", f"{folder}/guess.json")
    compared = printed("compare", f"{folder}/guess.json", shelf.profile)
    assert compared["comparisons"][0]["in_intervals"]["of"]
    printed("simulate", f"{folder}/guess.json", "--workers", "1..2")
    printed("simulate", shelf.profile, "--workers", "1", "-o", f"{folder}/one.json")
    compared = printed("compare", f"{folder}/one.json", shelf.profile)
    assert compared["comparisons"][0]["prediction"]["parts"].keys() >= {"tasks"}
    printed("simulate", f"{folder}/imported.json", "-o", f"{folder}/simulated.json")


def test_the_schema_is_one_and_describes_every_command():
    from dagprofiler.cli._parser import _COMMANDS

    Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$defs"].keys() == _COMMANDS.keys()
