"""Configuration of the documentation build: ``sphinx-build -W docs docs/_build``."""

import re

import dagprofiler

project = "dagprofiler"
author = "the dagprofiler authors"
project_copyright = f"2026, {author}"
version = release = dagprofiler.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "myst_parser",
]
autosummary_generate = False
exclude_patterns = ["_build"]

myst_heading_anchors = 3

autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_rtype = False
python_maximum_signature_line_length = 88

html_theme = "furo"
html_title = f"dagprofiler {release}"


def add_contents(_app, page, source):
    """Make the site's contents of the lists of links that readers of the files see.

    Of a section ``## How to`` of index.md, lines as ``- [Title](page.md): ...``; of api.md, rows as
    ``| [Title](api/page.md) | ... |``.
    """
    if page in {"index", "api"}:
        for title, section in re.findall(r"(?ms)^## ([^\n]+)\n(.*?)(?=^## |\Z)", source[0]):
            pages = re.findall(r"(?m)^(?:-|\|) \[[^]]+\]\(([\w/-]+)\.md\)", section)
            if pages:
                listed = "\n".join(pages)
                source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n{listed}\n```\n"


def setup(app):
    """Connect what is above."""
    app.connect("source-read", add_contents)
