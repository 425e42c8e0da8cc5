"""The documentation's examples run, page by page, and print what the page says they print.

In README.md and docs/*.md every ```python block is executed, all of a page in
one module. An ```output block is what the python block before it prints; in it
``...`` stands for any text, as in doctest. Other blocks are left alone.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import json
import re
import runpy
import sys
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

import dagprofiler
from dagprofiler import Profile
from dagprofiler.schema import PROFILE_SCHEMA

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

#: The pages that teach by example; the others may have none.
WITH_EXAMPLES = {
    "README.md",
    "compatibility.md",
    "hooks.md",
    "index.md",
    "profile-format.md",
    "serializers.md",
    "standard.md",
    "tutorial.md",
}

FENCE = re.compile(r"(?ms)^(?P<fence>`{3,})(?P<kind>[^\n`]*)\n(?P<text>.*?)^(?P=fence)$")
CHECKER = doctest.OutputChecker()
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Block(NamedTuple):
    """A fenced block of a page: what kind it is, its text, and the line before its first."""

    kind: str
    text: str
    line: int


def blocks(markdown: str) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
    return [
        Block(found["kind"].strip(), found["text"], markdown.count("\n", 0, found.start("text")))
        for found in FENCE.finditer(markdown)
    ]


def run(block: Block, page: Path, module: ModuleType) -> str:
    """Execute a block in `module`; return what it prints."""
    # Empty lines before it, so that a traceback shows the line of the page.
    code = compile("\n" * block.line + block.text, str(page), "exec")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, module.__dict__)
    return printed.getvalue()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_of_a_page_run_and_print_what_it_says(page, tmp_path, monkeypatch):
    # A module that can be found by its name, so that what the page defines can be pickled.
    module = ModuleType(f"page_{page.stem.replace('-', '_')}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    printed = None
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.kind == "python":
            printed = run(block, page, module)
        elif block.kind == "output":
            assert printed is not None, f"{page.name}:{block.line}: output of which example?"
            if not CHECKER.check_output(block.text, printed, FLAGS):
                example = doctest.Example("", block.text)
                difference = CHECKER.output_difference(example, printed, FLAGS)
                pytest.fail(f"{page.name}:{block.line}: {difference}")
            printed = None


def test_every_page_that_teaches_by_example_has_examples():
    found = {
        page.name
        for page in PAGES
        if any(block.kind == "python" for block in blocks(page.read_text(encoding="utf-8")))
    }

    assert found >= WITH_EXAMPLES


def test_index_links_every_page():
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    linked = {
        line
        for block in blocks(index)
        if block.kind == "{toctree}"
        for line in block.text.splitlines()
        if line and not line.startswith(":")
    }

    assert linked == {page.stem for page in PAGES} - {"README", "index"}


def test_samples_of_a_profile_load():
    samples = [
        block.text
        for page in PAGES
        for block in blocks(page.read_text(encoding="utf-8"))
        if block.kind == "json"
    ]

    for sample in samples:
        Profile.loads(sample)
    assert len(samples) >= 2


def test_sample_of_the_quick_start_has_the_keys_of_a_real_one_in_their_order():
    page = (ROOT / "docs" / "profile-format.md").read_text(encoding="utf-8")
    sample = [block.text for block in blocks(page) if block.kind == "json"][1]
    quickstart = runpy.run_path(str(ROOT / "docs" / "examples" / "quickstart.py"))
    written = quickstart["build_dag"]().run(seed=42).dumps()

    assert shape(json.loads(sample)) == shape(json.loads(written))


def shape(value):
    """Return the keys in a JSON value, in their order, and nothing of what they hold."""
    if isinstance(value, dict):
        return [(key, shape(below)) for key, below in value.items()]
    return [shape(item) for item in value] if isinstance(value, list) else None


def test_profile_format_page_names_every_field_of_the_schema():
    page = (ROOT / "docs" / "profile-format.md").read_text(encoding="utf-8")
    words = set(re.findall(r"[a-z_]+", " ".join(re.findall(r"`([^`]+)`", page))))

    assert words >= set(fields(PROFILE_SCHEMA))


def fields(schema):
    """Yield the names of all properties in a schema."""
    if isinstance(schema, dict):
        yield from schema.get("properties", ())
        for below in schema.values():
            yield from fields(below)


def test_api_page_names_every_public_name():
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    missing = [
        name
        for name in dagprofiler.__all__
        if not re.search(rf"auto\w+:: dagprofiler\.(\w+\.)?{name}$", page, re.MULTILINE)
    ]

    assert missing == ["__version__"]


def test_architecture_page_names_every_module():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    package = Path(dagprofiler.__file__).parent
    modules = {file.relative_to(package).as_posix() for file in package.rglob("*.py")}

    assert set(re.findall(r"^\| `([\w/]+\.py)` \|", page, re.MULTILINE)) == modules - {
        "executors/__init__.py"
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_of_a_page_lead_somewhere(page):
    links = re.findall(r"\]\(([^):#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))

    assert [link for link in links if not (page.parent / link).exists()] == []


def test_output_that_differs_from_the_page_is_noticed():
    assert not CHECKER.check_output("1 ... 3\n", "1 2 4\n", FLAGS)
    assert CHECKER.check_output("1 ... 3\n", "1 2 3\n", FLAGS)


def test_blocks_know_their_kind_and_their_line():
    page = "# Title\n\n```python\nx = 1\n```\n\n````console\n```python\n````\n"

    assert blocks(page) == [Block("python", "x = 1\n", 3), Block("console", "```python\n", 7)]
