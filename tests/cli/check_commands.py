"""Run the commands of docs/cli.md, and compare what they print with what the page says.

    python check_commands.py    write what is measured now into the page

In a ```console block a line ``$ dagprofiler ...`` is a command, ``$ echo $?`` asks for its exit
code, and the lines below are what it prints, in which ``...`` stands for any text; those below
``$ cat FILE`` are the file. ``console measured`` and ``console sample`` are to it what
``output measured`` and ``output sample`` are to ``output`` (check_page.py).
"""

from __future__ import annotations

import platform
import re
import shlex
import sys
import tempfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]
from check_page import WRITTEN, blocks  # noqa: E402
from cli_runner import command as run  # noqa: E402

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"


def printed_by(line, folder):
    """Run a line of a shell; return what it prints and its exit code."""
    outputs, code = "", 0
    for part in line.split(" | "):
        words = shlex.split(part)
        assert words.pop(0) == "dagprofiler", line
        done = run(*words, input=outputs, cwd=folder)
        outputs, code = done.stdout, done.returncode
        said = done.stderr
    printed = outputs or (said if code else "")
    return printed.replace(platform.node(), "worker-01").replace(f"{folder}/", ""), code


def steps(text):
    """Yield each command of a page's text with its block and what it prints."""
    for block in blocks(text):
        if block.kind.startswith("console"):
            printed = block._replace(kind=block.kind.replace("console", "output"))
            for step in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
                command, _, expected = step.partition("\n")
                yield printed, command, expected


def results(folder):
    """Run the commands of the page in a folder; yield block, command, expected, printed, code."""
    text = PAGE.read_text(encoding="utf-8")
    program = next(block.text for block in blocks(text) if block.kind == "python")
    (folder / "pipeline.py").write_text(program, encoding="utf-8")
    code = 0
    for block, command, expected in steps(text):
        printed = expected
        if command == "echo $?":
            printed = f"{code}\n"
        elif command.startswith("cat "):
            (folder / command[len("cat ") :]).write_text(expected, encoding="utf-8")
        elif command.startswith("dagprofiler "):
            printed, code = printed_by(command, folder)
        yield block, command, expected, printed, code


def write():
    """Write what the commands print now into the page."""
    text, places = PAGE.read_text(encoding="utf-8"), {}
    with tempfile.TemporaryDirectory() as folder:
        for block, command, _, printed, _ in results(Path(folder).resolve()):
            lines = "".join(f"{line.rstrip()}\n" for line in printed.splitlines())
            if block.kind in WRITTEN:
                places.setdefault(block.place, []).append(f"$ {command}\n{lines}")
    for (start, end), parts in sorted(places.items(), reverse=True):
        text = text[:start] + "".join(parts) + text[end:]
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
