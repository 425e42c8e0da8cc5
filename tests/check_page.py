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

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "docs"))
from showing import FENCE, kind_and_text

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def main(page: Path) -> None:
    """Run the page; leave with an error where it is wrong."""
    module = sys.modules["page"] = ModuleType("page")
    printed = ""
    for block in FENCE.finditer(page.read_text(encoding="utf-8")):
        kind, text = block["kind"].strip(), block["text"]
        if kind == "python":
            stream = io.StringIO()
            with contextlib.redirect_stdout(stream):
                exec(compile(text, str(page), "exec"), module.__dict__)
            printed = stream.getvalue()
        elif kind == "{shown}":
            kind_and_text(eval(text.strip(), module.__dict__))
        elif kind == "output" and not doctest.OutputChecker().check_output(text, printed, FLAGS):
            sys.exit(f"expected:\n{text}\ngot:\n{printed}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
