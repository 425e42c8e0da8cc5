from __future__ import annotations

import subprocess
import sys

import pytest
from cli_runner import command, environment

import dagprofiler

COMMANDS = ("run", "resume", "show", "compare", "report", "export", "import", "validate")


def test_help_loads_nothing_that_takes_long(shelf):
    code = (
        "import sys; from dagprofiler.cli import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "heavy = {'numpy', 'jsonschema', 'rich', 'shtab', 'yaml', 'multiprocessing', 'asyncio'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True
    )

    assert done.stdout.splitlines()[-1] == "[]"
    assert all(f"\n    {name} " in done.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_json_and_help(capsys, name):
    from dagprofiler.cli import main

    with pytest.raises(SystemExit) as left:
        main([name, "--help"])

    assert left.value.code == 0
    assert "--json" in capsys.readouterr().out


def test_the_version_is_that_of_the_package(shelf):
    done = command("--version", cwd=shelf.folder, code=0)

    assert done.stdout == f"dagprofiler {dagprofiler.__version__}\n"


def test_a_reader_that_has_enough_ends_the_command_without_a_word(shelf):
    process = subprocess.Popen(
        [sys.executable, "-m", "dagprofiler", "show", shelf.profile, "--json"],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()

    assert said == b""
    assert process.wait() == 141


def test_python_warnings_are_lines(shelf, folder):
    path = f"{folder}/warns.py"
    with open(path, "w", encoding="utf-8") as file:
        file.write(
            "import warnings\nwarnings.warn('old')\nfrom dagprofiler import DAG\ndag = DAG({})\n"
        )
    done = command("run", path, "-q", cwd=shelf.folder, code=0)

    assert done.stderr == "dagprofiler: warning: UserWarning: old\n"
