"""Pages that show what their examples make: a directive, and the program that runs a page.

A fenced block of kind ``{shown}`` holds an expression, and stands for what a notebook would show
of it where it stands among the page's Python blocks: an object by its HTML, matplotlib's axes as a
picture, the name of an HTML file that the page has written as that file, in a frame. Every page
that has such blocks is run once a build, in a process and a folder of its own, by

    python showing.py PAGE.md FOLDER
"""

from __future__ import annotations

import importlib.util
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

FENCE = re.compile(r"(?ms)^(?P<fence>`{3,})(?P<kind>[^\n`]*)\n(?P<text>.*?)^(?P=fence)$")

#: What a page imports beside the library: ``<!-- needs: matplotlib -->``.
NEEDS = re.compile(r"<!-- needs: ([\w, ]+) -->")

FRAME = (
    '<iframe src="{}" title="{}" style="width:100%;height:640px;border:1px solid #8886"></iframe>'
)


def lacking(page: str) -> list[str]:
    """Return which of the packages that a page needs are not there."""
    names = re.findall(r"\w+", " ".join(NEEDS.findall(page)))
    return [name for name in names if importlib.util.find_spec(name) is None]


def kind_and_text(value: Any) -> tuple[str, str]:
    """Return what is shown of a value: how it stands in the page, and its text."""
    if hasattr(value, "_repr_html_"):
        return "markup", value._repr_html_()
    if hasattr(value, "get_figure"):
        picture = io.StringIO()
        value.get_figure().savefig(picture, format="svg", facecolor="white")
        fitting = '<svg style="max-width:100%;height:auto"'
        return "markup", fitting + picture.getvalue().partition("<svg")[2]
    if isinstance(value, str) and value.endswith(".html"):
        return "file", Path(value).read_text(encoding="utf-8")
    raise TypeError(f"expected an object with _repr_html_, axes or an HTML file, got {value!r}")


def run(page: Path) -> list[tuple[str, str]]:
    """Execute the Python blocks of a page; return what its expressions show."""
    # A module that can be found by its name, so that what the page defines can be pickled.
    module = sys.modules["page"] = ModuleType("page")
    shown = []
    for block in FENCE.finditer(page.read_text(encoding="utf-8")):
        kind, text = block["kind"].strip(), block["text"]
        if kind == "python":
            exec(compile(text, str(page), "exec"), module.__dict__)  # noqa: S102  (our own pages)
        elif kind == "{shown}":
            shown.append(kind_and_text(eval(text.strip(), module.__dict__)))  # noqa: S307  (as above)
    return shown


@cache
def shown_by(page: Path) -> list[tuple[str, str]]:
    """Return what a page shows, run in a process of its own; nothing if it lacks a package."""
    if lacking(page.read_text(encoding="utf-8")):
        return []
    import dagprofiler

    library = str(Path(dagprofiler.__file__).resolve().parent.parent)
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(  # noqa: S603  (this very program)
            [sys.executable, __file__, str(page), "shown.json"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": library},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{page} does not run:\n{done.stderr}")
        return json.loads((Path(folder) / "shown.json").read_text(encoding="utf-8"))


def setup(app: Any) -> dict[str, Any]:
    """Add the directive to Sphinx."""
    from docutils import nodes
    from sphinx.util.docutils import SphinxDirective

    class Shown(SphinxDirective):
        has_content = True

        def run(self) -> list[nodes.Node]:
            env = self.env
            number = env.temp_data["shown"] = env.temp_data.get("shown", -1) + 1
            shown = shown_by(Path(env.doc2path(env.docname)))
            if not shown:
                why = "This build lacks a package that the picture here is made with."
                return [nodes.paragraph(text=why)]
            kind, text = shown[number]
            if kind == "file":
                name = f"{env.docname}-{number}.html"
                folder = Path(env.app.outdir) / "_shown"
                folder.mkdir(parents=True, exist_ok=True)
                (folder / name).write_text(text, encoding="utf-8")
                text = FRAME.format(f"_shown/{name}", "\n".join(self.content))
            return [nodes.raw("", text, format="html")]

    app.add_directive("shown", Shown)
    return {"parallel_read_safe": True}


if __name__ == "__main__":
    if "matplotlib" not in lacking("<!-- needs: matplotlib -->"):
        import matplotlib

        matplotlib.use("Agg")
    Path(sys.argv[2]).write_text(json.dumps(run(Path(sys.argv[1]))), encoding="utf-8")
