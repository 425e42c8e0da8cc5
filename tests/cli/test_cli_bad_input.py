import json
from pathlib import Path

import numpy as np
import pytest
from cli_runner import command

from dagprofiler.cli._targets import as_like

RUN = ("run", "pipeline_of_tests.py:dag")


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("no_such_module:dag", "there is no module 'no_such_module'"),
        ("no_such_file.py:dag", "there is no file '"),
        ("pipeline_of_tests.py:bild", "has no 'bild'; did you mean 'build'?"),
        ("pipeline_of_tests.py:dga", "has no 'dga'; did you mean 'dag'?"),
        ("pipeline_of_tests.py:dag.nope", "has no 'dag.nope'"),
        ("pipeline_of_tests.py:read", "got a class"),
        ("pipeline_of_tests.py:PIPE", "has no 'PIPE'; give one of pipeline_of_tests.py:dag, "),
        ("pipeline_of_tests.py:__name__", "got a str"),
        ("pipeline_of_tests.py:not_one", "returned int"),
        ("pipeline_of_tests.py:broken", "failed: ValueError: no such cell ("),
        (
            "pipeline_of_tests.py:needs",
            "missing a required argument: 'size': give --config NAME=VALUE",
        ),
        (":dag", "expected module:dag or file.py:dag"),
        ("no_such.yaml", "cannot be read: No such file or directory"),
    ],
)
def test_a_target_that_is_none_is_a_line_that_says_why(refused, target, says):
    line = refused("run", target)
    assert line.startswith(f"target {target!r}")
    assert says in line


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
    ],
)
def test_a_file_that_does_not_import_or_holds_no_dag_is_a_line(refused, written, text, says):
    assert says in refused("run", written("broken_of_tests.py", text))


def test_a_file_named_like_a_module_and_a_dag_that_is_not_valid_are_refused(refused, written, cli):
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


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("M=3", "no parameter 'M' (parameters: 'N', 'factor', 'names', 'on',"),
        ("Factor=3", "did you mean 'factor'?"),
        ("N=x", "N: expected a value of type 'int', as JSON, got 'x'"),
        ("N=1.5", "N: expected a value of type 'int', as JSON, got '1.5'"),
        ("factor=much", "factor: expected a value of type 'float', as JSON, got 'much'"),
        ("names=3", "names: expected a value of type 'list', as JSON, got '3'"),
        ("on=maybe", "on: expected a value of type 'bool', as JSON, got 'maybe'"),
        ("model=3", "model: expected a value of type 'object'"),
        ("N", "expected NAME=VALUE, got 'N'"),
    ],
)
def test_a_parameter_that_does_not_fit_is_a_line(refused, given, says):
    line = refused(*RUN, "--config", given)
    assert line.startswith("--config")
    assert says in line


def test_values_may_have_types_that_only_numpy_has():
    assert as_like("N", "3", np.int64(1)) == 3
    assert as_like("shape", "[1, 2]", (0, 0)) == (1, 2)
    assert as_like("any", "[1, 2]", None) == [1, 2]


def test_outputs_are_checked_before_the_run(refused, folder, written):
    marker = Path(folder, "ran")
    marks = f"open({str(marker)!r}, 'w').close()\nfrom dagprofiler import DAG\ndag = DAG({{}})\n"
    target = written("marks.py", marks)
    assert "there is no directory" in refused("run", target, "-o", f"{folder}/no/p.json")
    assert "is a directory" in refused("run", target, "--report", folder)
    assert "is given twice" in refused("run", target, "-o", "x.json", "--report", "./x.json")
    assert "is a directory" in refused("run", target, "-o", "")
    assert refused("run", target, "--journal", "") == "--journal: expected a directory, got ''"
    assert not marker.exists()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--seed", "x"], "argument --seed: invalid int value: 'x'"),
        (["--rounds", "often"], "expected a number of at least 1, or auto, got 'often'"),
        (["--rounds", "0"], "argument --rounds: expected a number of at least 1, or auto, got '0'"),
        (["--warmup", "-1"], "warmup must be an integer of at least 0, got -1"),
        (["--max-time", "0"], "max_time_s must be a finite number above 0, got 0.0"),
        (["--meters", "speed"], "meters: 'speed' is unknown"),
        (["--timeout", "3"], "timeout: a serial run cannot end a task"),
        (["--executor", "fast"], "--executor: expected serial, threads:4"),
        (["--executor", "processes:9999999"], "workers, got 'processes:9999999'"),
        (["--executor", "threads:no"], "workers, got 'threads:no'"),
        (["--executor", "serial:2"], "--executor"),
        (["--executor", "pipeline_of_tests.py:build"], "is a DAG, not an executor"),
        (["--eta-from", "no_such.json"], "no_such.json: cannot be read: No such file"),
        (["--rouns", "3"], "unknown arguments: --rouns 3; did you mean '--rounds'?"),
        (["--rouns=3"], "did you mean '--rounds'?"),
        (["--executor", "thread:4"], "got 'thread:4'; did you mean 'threads'?"),
        (["-o", "page.html"], "-o writes the profile, which is JSON; --report page.html writes"),
        (["-o", "p.csv"], "dagprofiler export"),
    ],
)
def test_an_option_that_does_not_fit_is_a_line(refused, options, says):
    assert says in refused(*RUN, *options)


def test_no_command_replaces_what_it_reads(refused, shelf):
    profile, before = shelf.profile, Path(shelf.profile).read_bytes()
    says = "is also an input of the command"
    assert says in refused("export", profile, "--format", "dot", "-o", profile)
    assert says in refused("report", profile, "-o", f"{shelf.folder}/./profile.json")
    assert says in refused("report", profile, "--base", profile, "-o", profile)
    assert says in refused("import", profile, "-o", profile)
    assert says in refused(*RUN, "-o", "pipeline_of_tests.py")
    assert Path(profile).read_bytes() == before


def test_files_that_are_no_profile_say_what_to_do(refused, folder, shelf, written):
    whole = Path(shelf.profile).read_text(encoding="utf-8")
    newer = json.loads(whole)
    newer["metadata"]["schema_version"] = 99
    assert "run it again" in refused("show", written("cut.json", whole[: len(whole) // 2]))
    assert "try dagprofiler import" in refused("show", written("foreign.json", '{"a": 1}'))
    assert "upgrade dagprofiler" in refused("show", written("new.json", json.dumps(newer)))
    assert "cannot be read: " in refused("show", folder)
    assert refused("import", written("empty.json", "")).startswith(f"{folder}/empty.json: not JSON")
    assert refused("import", folder) == f"{folder}: cannot be read: Is a directory"
    line = refused("import", written("other.json", '{"a": 1}'))
    assert "is in no format known; give --format (known: wfformat)" in line
    line = refused("show", shelf.profile, "--top", "-1")
    assert "argument --top: expected a number of rows, or 0 for all, got '-1'" in line


@pytest.mark.parametrize("words", [["show"], ["compare", "pipeline_of_tests.py"]])
def test_a_program_in_the_place_of_a_profile_is_named(refused, shelf, words):
    for target in ("pipeline_of_tests.py", "pipeline_of_tests.py:dag"):
        assert "is a program: dagprofiler run" in refused(*words, target)


def test_an_empty_standard_input_is_no_profile(shelf):
    for name in ("show", "validate", "report"):
        done = command(name, "-", cwd=shelf.folder, input="")
        assert done.returncode in (1, 2)
        assert "standard input: not JSON" in done.stdout + done.stderr


def test_a_cycle_is_located_in_the_file_of_the_user(refused, written):
    text = (
        "from dagprofiler import DAG, ORDER_ONLY, task\n"
        "@task(outputs=['x'])\ndef a():\n    return {'x': 1}\n"
        "dag = DAG({'a': a, 'b': a}, [('a', 'b', ORDER_ONLY), ('b', 'a', ORDER_ONLY)])\n"
    )
    path = written("cycle_of_tests.py", text)
    assert refused("run", path).endswith(f"({path}, line 5)")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ([], "--format"),
        (["--format", "dot", "--json"], "give -o FILE"),
        (["--format", "dott"], "did you mean 'dot'?"),
        (["-o", "{folder}/p.txt"], "give --format"),
        (["-o", ""], "output '': is a directory"),
        (["--format", "dot", "--option", "cst=3"], "'cst'; options: cost, statistic, fill"),
        (
            ["--format", "chrome_trace", "--cost", "time"],
            "'chrome_trace': got an unexpected keyword argument 'cost'",
        ),
        (["--format", "saga", "--option", "network=@none.json"], "no such file or directory"),
    ],
)
def test_formats_and_their_options_are_checked(refused, shelf, folder, options, says):
    assert says in refused("export", shelf.profile, *(o.format(folder=folder) for o in options))


def test_an_unknown_command_and_an_unexpected_error_are_one_line_each(refused, cli, monkeypatch):
    assert refused("runn") == "there is no command 'runn'; did you mean 'run'?"
    assert "give one of run, resume, show, " in refused("pipeline.py")
    assert cli(code=2).err.endswith("dagprofiler: a command is missing\n")

    def fails(_):
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr("dagprofiler.cli._convert.show", fails)
    assert refused("show", "x") == "ZeroDivisionError: by zero (--debug shows where)"
