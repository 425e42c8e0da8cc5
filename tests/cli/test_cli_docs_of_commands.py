"""Commands on the pages run one after the other, and print what the page says they print.

In a ```console block a line ``$ dagprofiler ...`` is a command, ``$ echo $?`` asks for its exit
code, and the lines below are what it prints, in which ``...`` stands for any text; those below
``$ cat FILE`` are the file.
"""

import doctest
import re
import shlex
import shutil
from pathlib import Path

import pytest
from check_page import CHECKER, FLAGS, blocks
from cli_runner import command as run

ROOT = Path(__file__).resolve().parents[2]


def printed_by(line, folder):
    """Run a line of a shell; return what it prints and its exit code."""
    outputs, code = "", 0
    for part in line.split(" | "):
        words = shlex.split(part)
        assert words.pop(0) == "dagprofiler", line
        done = run(*words, input=outputs, cwd=folder)
        outputs, code = done.stdout, done.returncode
        said = done.stderr
    return outputs or (said if code else ""), code


def steps(text):
    """Yield each command of a page with what it prints; of a page's code also what it is."""
    for block in blocks(text):
        for step in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            command, _, expected = step.partition("\n")
            yield command, expected


@pytest.mark.slow
def test_commands_of_the_page_print_what_it_says(tmp_path):
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    code = next(block.text for block in blocks(page) if block.kind == "python")
    (tmp_path / "pipeline.py").write_text(code, encoding="utf-8")
    last, asked = 0, True
    for command, expected in steps(page):
        if command == "echo $?":
            assert expected.strip() == str(last)
            asked = True
            continue
        if command.startswith("cat "):
            (tmp_path / command[len("cat ") :]).write_text(expected, encoding="utf-8")
            continue
        assert asked or not last, f"nobody asks for the exit code before {command}"
        printed, last = printed_by(command, tmp_path)
        # Whether a difference is within the noise is the machine's to say: 3 if that is unknown.
        asked = last == 3 and command.startswith("dagprofiler compare")
        if not CHECKER.check_output(expected, printed, FLAGS):
            example = doctest.Example("", expected)
            difference = CHECKER.output_difference(example, printed, FLAGS)
            pytest.fail(f"{command}: {difference}")
    assert asked or not last


def test_yaml_of_the_page_runs(tmp_path):
    pytest.importorskip("yaml")
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    for kind, name in (("python", "pipeline.py"), ("yaml", "pipeline.yaml")):
        text = next(block.text for block in blocks(page) if block.kind == kind)
        (tmp_path / name).write_text(text, encoding="utf-8")
    _, code = printed_by("dagprofiler run pipeline.yaml --rounds 2 -q", tmp_path)
    assert code == 0


@pytest.mark.slow
def test_commands_of_the_readme_run(tmp_path):
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    found = [block.text for block in blocks(page) if block.kind == "console"]
    lines = [line for text in found for line in text.splitlines()]
    commands = [line for line in lines if line.startswith("dagprofiler ")]
    shutil.copytree(ROOT / "docs" / "examples", tmp_path / "docs" / "examples")
    assert len(commands) >= 3
    for command in commands:
        printed, code = printed_by(command, tmp_path)
        assert code == 0, printed
