"""What a command refuses, and by which words; all of it is said on one line."""

import json
import shlex
from pathlib import Path

import pytest
from cli_runner import command

#: Commands, in which {names} stand for paths, and what their lines say, parted by "|".
REFUSED = [
    # Targets.
    ("run :dag", "expected module:dag or file.py:dag"),
    ("run no_such_module:dag", "there is no module 'no_such_module'"),
    ("run no_such_file.py:dag", "there is no file '"),
    ("run {target}:bild", "has no 'bild'; did you mean 'build'?"),
    ("run {target}:read", "is a class, not a DAG"),
    ("run {target}:PIPE", "has no 'PIPE'; give one of pipeline_of_tests.py:dag, "),
    ("run {target}:not_one", "returned int"),
    ("run {target}:broken", "failed: ValueError: no such cell ("),
    ("run {target}:needs", "missing a required argument: 'size': give --config NAME=VALUE"),
    # Parameters.
    ("run {dag} --config M=3", "--config|no parameter 'M' (parameters: 'N', 'factor',"),
    ("run {dag} --config N=1.5", "N: expected a value of type 'int', as JSON, got '1.5'"),
    ("run {dag} --config N", "expected NAME=VALUE, got 'N'"),
    # Options of runs.
    ("run {dag} --seed x", "argument --seed: invalid int value: 'x'"),
    ("run {dag} --rounds often", "--rounds: expected a number of at least 1, or auto, got 'often'"),
    ("run {dag} --timeout 3", "timeout: a serial run cannot end a task"),
    ("run {dag} --executor thread:4", "--executor|'thread:4'; did you mean 'threads'?"),
    ("run {dag} --executor processes:9999999", "workers, got 'processes:9999999'"),
    ("run {dag} --executor {target}:build", "executor must be None|got <DAG"),
    ("run {dag} --eta-from no_such.json", "no such file or directory: 'no_such.json'"),
    ("run {dag} --rouns 3", "unknown arguments: --rouns 3; did you mean '--rounds'?"),
    ("run {dag} -o page.html", "a profile is JSON, got 'page.html'; --report writes"),
    ("run {dag} --schedule {plan} --executor processes:2", "schedule|{{node: pool}}"),
    ("run {dag} --schedule {plan} --journal {folder}/j", "--schedule|journal"),
    # Outputs.
    ("run {marks} -o {folder}/no/p.json", "No such file or directory"),
    ("run {marks} --report {folder}", "cannot be written: Is a directory"),
    ("run {marks} -o x.json --report ./x.json", "is given twice"),
    ("run {dag} -o {target}", "is also an input"),
    ("report {profile} -o ./profile.json", "is also an input"),
    # Files and formats.
    ("show {cut}", "not JSON"),
    ("show {foreign}", "is a required property"),
    ("show {new}", "upgrade dagprofiler"),
    ("show {folder}", "is a directory: "),
    ("show {profile} --top -5", "--top must be an integer of at least 0, got -5"),
    ("run {target} --report -", "the page needs a file"),
    ("run {target} --journal ''", "expected a directory, got ''"),
    ("show {target}", "is a program: dagprofiler run"),
    ("import {foreign}", "is in no format known; give --format (known: wfformat)"),
    ("export {profile}", "--format"),
    ("export {profile} --format dot --json", "give -o FILE"),
    ("export {profile} -o {folder}/p.txt", "give --format"),
    ("export {profile} --format dot --option cst=3", "'cst'; options: cost, statistic, fill"),
    ("export {profile} --format saga --option network=@none.json", "no such file or directory"),
    # Comparing.
    ("compare {profile} {profile} --fail-if 'slower > 5'", '--fail-if: expected "slower"'),
    ("compare {profile} {profile} --least-share 5", "expected a share from 0 to 1"),
    ("compare {profile} {profile} --least-share x", "expected a share from 0 to 1"),
    ("compare {profile} {profile} --rounds 3", "needs --run"),
    # Predicting.
    ("sweep {target} --over N=1,x -o {folder}", "--over N|'x'"),
    ("sweep {target} --over N=1,2 --over N=3 -o {folder}", "--over|'N'|twice"),
    ("sweep {target} --over N=1 -o sweep.json", "sweep.json|directory"),
    ("fit {empty}", "no complete profile|*.json"),
    ("fit {profile}", "fit: at least 3 configurations|got 1; dagprofiler sweep TARGET --over"),
    ("predict {profile} -c N=5", "predict: at least 3 configurations|dagprofiler sweep TARGET"),
    ("simulate {profile} --engine {profile}", "--engine|section engine"),
    ("simulate {profile} --engine {profile} --executor threads", "--engine|--executor"),
    ("simulate {profile} --workers 4..1", "4..1"),
    ("simulate {profile} --faster add=x", "--faster add|'x'"),
    ("simulate {profile} --schedule {target}", "--schedule|JSON"),
    # Commands.
    ("--rounds 3 run {target}", "options follow the command: give --rounds after it"),
    ("run {profile}", "is no program; dagprofiler show and report take profiles"),
    ("runn", "there is no command 'runn'; did you mean 'run'?"),
    ("pipeline.py", "give one of run, resume, show, "),
]

CYCLE = """from dagprofiler import DAG, ORDER_ONLY, task
a = task(outputs=["x"])(lambda: {"x": 1})
dag = DAG({"a": a, "b": a}, [("a", "b", ORDER_ONLY), ("b", "a", ORDER_ONLY)])
"""


@pytest.mark.parametrize(("line", "says"), REFUSED, ids=[line for line, _ in REFUSED])
def test_what_does_not_fit_is_refused_by_name(refused, shelf, folder, written, line, says):
    whole = Path(shelf.profile).read_text(encoding="utf-8")
    empty, newer = Path(folder, "empty"), json.loads(whole)
    empty.mkdir()
    newer["metadata"]["schema_version"] = 99
    marks = f"open('{folder}/ran', 'w').close()\nfrom dagprofiler import DAG\ndag = DAG({{}})\n"
    paths = {
        "target": "pipeline_of_tests.py",
        "dag": "pipeline_of_tests.py:dag",
        "profile": shelf.profile,
        "folder": folder,
        "empty": empty,
        "marks": written("marks.py", marks),
        "cut": written("cut.json", whole[: len(whole) // 2]),
        "foreign": written("foreign.json", '{"a": 1}'),
        "new": written("new.json", json.dumps(newer)),
        "plan": written("plan.txt", '{"edge": ["read", "show"], "cloud": ["add"]}'),
    }
    said = refused(*shlex.split(line.format(**paths)))
    assert all(words in said for words in says.format().split("|"))
    assert Path(shelf.profile).read_text(encoding="utf-8") == whole
    # Nothing has run.
    assert not Path(folder, "ran").exists()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("import no_such_thing\n", "failed: ModuleNotFoundError: No module named 'no_such_thing'"),
        ("from broken_of_tests import a\n", "cannot import name 'a' from"),
        ("raise SystemExit('bye')\n", "failed: SystemExit: bye ("),
        ("x = 1 +\n", "failed: SyntaxError: invalid syntax (broken_of_tests.py, line 1)"),
        ("x = 1\n", "holds no DAG"),
        ("def make():\n    pass\n", "give one of "),
        ("from dagprofiler import DAG\na, b = DAG({}), DAG({})\n", "several DAGs; give one of "),
        (CYCLE, "broken_of_tests.py, line 3)"),
    ],
)
def test_a_file_without_a_dag_says_why(refused, written, text, says):
    assert says in refused("run", written("broken_of_tests.py", text))


def test_a_dag_that_is_not_valid_has_a_line_for_each_problem(refused, written, cli):
    assert "there is another module 'json'" in refused("run", written("json.py", "x = 1\n"))
    assert "rename the file" in refused("run", written("flow.v2.py", "x = 1\n"))
    text = (
        "from dagprofiler import DAG, task\n"
        "@task(inputs=['x'], outputs=['y'])\ndef a(x):\n    return {}\n"
        "dag = DAG({'a': a, 'b': a})\n"
    )
    lines = cli("run", written("invalid.py", text), code=2).err.splitlines()
    assert lines[0] == "dagprofiler: 2 problems:"
    assert len(lines) == 3


def test_an_empty_standard_input_is_no_profile(shelf):
    done = command("show", "-", cwd=shelf.folder, input="", code=2)
    assert "standard input: not JSON" in done.stderr


def test_an_unexpected_error_is_one_line(refused, cli, monkeypatch):
    assert cli(code=2).err.endswith("dagprofiler: a command is missing\n")

    def fails(_):
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr("dagprofiler.cli._convert.show", fails)
    assert refused("show", "x") == "ZeroDivisionError: by zero (--debug shows where)"
