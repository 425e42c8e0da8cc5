"""Commands on the pages run one after the other, and print what the page says they print."""

import shutil
from pathlib import Path

import pytest
from check_commands import printed_by, results
from check_page import blocks, difference

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_commands_of_the_page_print_what_it_says(tmp_path):
    asked = True
    for block, command, expected, printed, code in results(tmp_path):
        assert asked or command == "echo $?", f"nobody asks for the exit code before {command}"
        # Whether a difference is within the noise is the machine's to say: 3 if that is unknown.
        undecided = code == 3 and command.startswith("dagprofiler compare")
        asked = not code or undecided or command == "echo $?"
        wrong = difference(block._replace(text=expected), printed)
        assert not wrong, f"{command}: {wrong}"
    assert asked


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
