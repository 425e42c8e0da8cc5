"""Configuration of the documentation build: ``sphinx-build -W docs docs/_build``."""

import sys
from pathlib import Path

import dagprofiler

sys.path.insert(0, str(Path(__file__).resolve().parent))

project = "dagprofiler"
author = "the dagprofiler authors"
project_copyright = f"2026, {author}"
version = release = dagprofiler.__version__

extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon", "myst_parser", "showing"]
exclude_patterns = ["_build"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_rtype = False
python_maximum_signature_line_length = 88

html_theme = "furo"
html_title = f"dagprofiler {release}"
