"""What commands print with --json is what docs/cli.schema.json describes."""

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

SCHEMA = json.loads(
    (Path(__file__).resolve().parents[2] / "docs" / "cli.schema.json").read_text(encoding="utf-8")
)


@pytest.fixture
def printed(cli):
    """Return a function that runs a command with --json; what it prints fits the schema."""

    def run(name, *arguments, code=0):
        found = json.loads(cli(name, *arguments, "--json", code=code).out)
        schema = {**SCHEMA, "$ref": f"#/$defs/{name}"}
        assert [error.message for error in Draft202012Validator(schema).iter_errors(found)] == []
        return found

    return run


def test_the_json_of_every_command_is_as_documented(printed, shelf, folder):
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
    compared = printed("compare", f"{folder}/guess.json", shelf.profile, code=3)
    assert compared["comparisons"][0]["in_intervals"]["of"]
    printed("simulate", f"{folder}/guess.json", "--workers", "1..2")
    printed("simulate", shelf.profile, "--workers", "1", "-o", f"{folder}/one.json")
    compared = printed("compare", f"{folder}/one.json", shelf.profile, code=3)
    assert compared["comparisons"][0]["prediction"]["parts"].keys() >= {"tasks"}
    printed("simulate", f"{folder}/imported.json", "-o", f"{folder}/simulated.json")


def test_the_schema_is_one_and_describes_every_command():
    from dagprofiler.cli import _COMMANDS

    Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$defs"].keys() == _COMMANDS.keys()
