"""Run the examples of a page, and compare what they print with what the page says.

    python check_page.py PAGE.md            compare
    python check_page.py --write PAGE.md    write what is measured now into the page

The fenced blocks of a page, by the words behind their fence:

``python``
    is executed, all of a page in one module.
``python FILE``
    are lines of this file of the checkout, and not executed.
``python no_run``, ``json excerpt``
    are left alone: one needs what a test lacks, as a cluster; the other is no whole document.
``output``
    is what the block before it prints; ``...`` stands for any text, as in doctest.
``output measured``
    is what the block before it printed once. The words of three quarters of its lines must be
    printed again, each in one line and in their order, whatever the numbers and the rest.
``output sample``
    is the same where words depend on the machine, as formulas do: one such line is enough.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib.util
import io
import os
import platform
import re
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
CHECKER, FLAGS = doctest.OutputChecker(), doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

FENCE = re.compile(r"(?ms)^(?P<fence>`{3,})(?P<kind>[^\n`]*)\n(?P<text>.*?)^(?P=fence)$")

#: What a page imports beside the library: ``<!-- needs: matplotlib -->``.
NEEDS = re.compile(r"<!-- needs: ([\w, ]+) -->")

#: A number with its unit.
NUMBER = re.compile(r"[+-]?\d[\d.,]*(?:e[+-]?\d+)?(?: ?(?:ns|us|µs|ms|s|B|kB|MB)\b)?")

#: Kinds of output that ``--write`` writes.
WRITTEN = {"output measured", "output sample"}


class Block(NamedTuple):
    """A fenced block of a page: its words, its text, the line before its first, its place."""

    kind: str
    text: str
    line: int
    place: tuple[int, int]


def blocks(markdown):
    """Return the fenced blocks of a page, in order."""
    return [
        Block(
            found["kind"].strip(),
            found["text"],
            markdown.count("\n", 0, found.start("text")),
            found.span("text"),
        )
        for found in FENCE.finditer(markdown)
    ]


def lacking(markdown):
    """Return which of the packages that a page needs are not there."""
    names = re.findall(r"\w+", " ".join(NEEDS.findall(markdown)))
    return [name for name in names if importlib.util.find_spec(name) is None]


def words(text):
    """Return the words of each line of an output, without its numbers."""
    return [NUMBER.sub(" ", line).split() for line in text.splitlines()]


def in_order(some, line):
    """Return whether these words are in a line, in their order."""
    rest = iter(line)
    return all(word in rest for word in some)


def difference(block, printed):
    """Return how a page's output differs from what was printed; empty if it does not."""
    if block.kind in WRITTEN:
        lines = [some for some in words(block.text) if some]
        lost = [some for some in lines if not any(in_order(some, line) for line in words(printed))]
        allowed = len(lines) / 4 if block.kind == "output measured" else max(0, len(lines) - 1)
        return "" if len(lost) <= allowed else f"not printed: {lost}\nof:\n{printed}"
    if CHECKER.check_output(block.text, printed, FLAGS):
        return ""
    return CHECKER.output_difference(doctest.Example("", block.text), printed, FLAGS)


def outputs(page, module, end=None):
    """Run a page's examples in `module`; yield each block of output, and what was printed.

    Only those before the character `end`, if it is given.
    """
    printed = None
    for block in blocks(page.read_text(encoding="utf-8")[:end]):
        if block.kind == "python":
            # Empty lines before it, so that a traceback shows the line of the page.
            code = compile("\n" * block.line + block.text, str(page), "exec")
            with contextlib.redirect_stdout(io.StringIO()) as stream:
                exec(code, module.__dict__)
            printed = stream.getvalue().replace(platform.node(), "worker-01")
        elif block.kind in {"output", *WRITTEN}:
            assert printed is not None, f"{page.name}:{block.line}: output of which example?"
            yield block, printed
            printed = None


def check(page, module):
    """Run a page's examples in `module`; raise AssertionError where one differs from the page."""
    for block, printed in outputs(page, module):
        found = difference(block, printed)
        assert not found, f"{page.name}:{block.line}: {found}"


def write(page, module):
    """Run a page's examples in `module`, and write what is measured into the page."""
    markdown = page.read_text(encoding="utf-8")
    for block, printed in reversed([*outputs(page, module)]):
        if block.kind in WRITTEN:
            lines = "".join(f"{line.rstrip()}\n" for line in printed.splitlines())
            markdown = markdown[: block.place[0]] + lines + markdown[block.place[1] :]
    page.write_text(markdown, encoding="utf-8")


if __name__ == "__main__":
    path = Path(sys.argv[-1]).resolve()
    # A module that can be found by its name, so that what the page defines can be pickled.
    sys.modules["page"] = ModuleType("page")
    if "--write" in sys.argv:
        missing = lacking(path.read_text(encoding="utf-8"))
        if missing:
            sys.exit(f"{path.name} needs {', '.join(missing)}")
        os.environ["MPLBACKEND"] = "Agg"
        sys.path.insert(0, str(ROOT / "docs" / "examples"))
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)  # Pages write files.
            write(path, sys.modules["page"])
            os.chdir(ROOT)
    else:
        check(path, sys.modules["page"])
