"""Run the examples of a page, and compare what they print with what the page says.

    python check_page.py PAGE.md

For pages that need more than the library, which changes a process (distributed does) or takes an
interpreter of its own (SAGA does); ``tests/test_docs.py`` runs the others itself.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import sys
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "docs"))
from showing import FENCE, kind_and_text

CHECKER, FLAGS = doctest.OutputChecker(), doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Block(NamedTuple):
    """A fenced block of a page: what kind it is, its text, and the line before its first."""

    kind: str
    text: str
    line: int


def blocks(markdown):
    """Return the fenced blocks of a page, in order."""
    return [
        Block(found["kind"].strip(), found["text"], markdown.count("\n", 0, found.start("text")))
        for found in FENCE.finditer(markdown)
    ]


def check(page, module):
    """Run a page's examples in `module`; raise AssertionError where one differs from the page."""
    printed = None
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.kind == "python":
            # Empty lines before it, so that a traceback shows the line of the page.
            code = compile("\n" * block.line + block.text, str(page), "exec")
            with contextlib.redirect_stdout(io.StringIO()) as stream:
                exec(code, module.__dict__)
            printed = stream.getvalue()
        elif block.kind == "{shown}":
            _, markup = kind_and_text(eval(block.text.strip(), module.__dict__))
            assert markup.startswith(("<div", "<svg", "<!doctype html>"))
        elif block.kind == "output":
            where = f"{page.name}:{block.line}"
            assert printed is not None, f"{where}: output of which example?"
            if not CHECKER.check_output(block.text, printed, FLAGS):
                example = doctest.Example("", block.text)
                difference = CHECKER.output_difference(example, printed, FLAGS)
                raise AssertionError(f"{where}: {difference}")
            printed = None


if __name__ == "__main__":
    sys.modules["page"] = ModuleType("page")
    check(Path(sys.argv[1]), sys.modules["page"])
