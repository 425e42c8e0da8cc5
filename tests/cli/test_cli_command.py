import os
import re
import shlex
import subprocess
import sys

import pytest
from cli_runner import command, environment, python
from handmade import Terminal

import dagprofiler
from dagprofiler.cli._output import print_text

COMMANDS = ("run", "resume", "show", "compare", "report", "export", "import", "validate")


def test_help_loads_nothing_that_takes_long():
    code = (
        "import sys; from dagprofiler.cli import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "heavy = {'numpy', 'jsonschema', 'rich', 'shtab', 'yaml', 'multiprocessing', 'asyncio'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = python("-c", code)
    assert done.stdout.splitlines()[-1] == "[]"
    assert all(f"\n    {name} " in done.stdout for name in COMMANDS)


def test_version_and_warnings_are_a_line_each(shelf, written):
    done = command("--version", cwd=shelf.folder, code=0)
    assert done.stdout == f"dagprofiler {dagprofiler.__version__}\n"
    text = "import warnings\nwarnings.warn('old')\nfrom dagprofiler import DAG\ndag = DAG({})\n"
    done = command("run", written("warns.py", text), "-q", cwd=shelf.folder, code=0)
    assert done.stderr == "dagprofiler: warning: UserWarning: old\n"


@pytest.mark.skipif(sys.platform == "win32", reason="pipes break otherwise there")
def test_a_closed_pipe_ends_the_command_silently(shelf):
    words = [sys.executable, "-m", "dagprofiler", "show", shelf.profile, "--json"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(words, env=environment(), **pipes) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
@pytest.mark.parametrize("words", [["show"], ["export", "--format", "dot"]])
def test_a_standard_output_that_is_full_is_named(shelf, words):
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = command(*words, shelf.profile, stdout=full)
    assert done.stderr == "dagprofiler: no space left on device: 'standard output'\n"
    assert done.returncode == 2


@pytest.mark.skipif(os.name != "posix", reason="its shell closes no streams")
@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&- 2>&-"])
def test_a_run_with_closed_standard_streams_is_saved(shelf, folder, closed):
    options = ["-q", "-o", f"{folder}/p.json", "--rounds", "2", "--fresh-process"]
    words = [sys.executable, "-m", "dagprofiler", "run", shelf.target, *options]
    line = f"{shlex.join(words)} {closed}"
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": shelf.folder}
    done = subprocess.run(line, shell=True, check=False, env=environment(), **pipes)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert dagprofiler.Profile.load(f"{folder}/p.json").sections["run"]["rounds"] == 2


def test_text_is_the_same_without_rich(monkeypatch):
    with_rich, without = Terminal(), Terminal()
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    print_text("task  verdict\na     slower", with_rich)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    print_text("task  verdict\na     slower", without)
    assert without.getvalue() == "task  verdict\na     slower\n"
    assert re.sub(r"\x1b\[[\d;]*m", "", with_rich.getvalue()) == without.getvalue()
