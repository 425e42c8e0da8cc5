"""The documentation's examples run, page by page, and print what the page says they print.

``check_page.py`` says what each kind of block is. A page that needs a package says so in a comment,
and is skipped without it.
"""

from __future__ import annotations

import ast
import dataclasses
import itertools
import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from check_page import NEEDS, blocks, check, lacking
from handmade import paths

import dagprofiler
from dagprofiler import Profile, Rounds
from dagprofiler.analysis.weights import SOURCES
from dagprofiler.measure.meters import METER_SETS, select
from dagprofiler.schema import inlined_schema
from dagprofiler.stats import FLAGS as FLAGS_OF_A_TASK

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

#: Pages whose examples run for seconds, as those with a process of their own do.
SLOW = {"README.md", "prediction.md", "tutorial.md"}


def named(page: Path) -> str:
    """Return the path of a page in the checkout."""
    return page.relative_to(ROOT).as_posix()


def marked(page: Path) -> object:
    """Return a page as a parameter."""
    slow = page.name in SLOW or NEEDS.search(page.read_text(encoding="utf-8"))
    return pytest.param(page, marks=[pytest.mark.slow] if slow else [], id=named(page))


@pytest.mark.parametrize("page", [marked(page) for page in PAGES])
def test_examples_of_a_page_run_and_print_what_it_says(page, tmp_path, monkeypatch):
    # A module that can be found by its name, so that what the page defines can be pickled.
    text = page.read_text(encoding="utf-8")
    if lacking(text):
        pytest.skip(f"needs {', '.join(lacking(text))}")
    if NEEDS.search(text):
        path = os.pathsep.join([str(ROOT), str(ROOT / "docs" / "examples")])
        command = [sys.executable, str(ROOT / "tests" / "check_page.py"), str(page)]
        env = {**os.environ, "MPLBACKEND": "Agg", "PYTHONPATH": path}
        options = {"cwd": tmp_path, "env": env, "capture_output": True, "text": True}
        done = subprocess.run(command, check=False, **options)
        assert done.returncode == 0, done.stderr
        return
    module = ModuleType(f"page_{page.stem.replace('-', '_')}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    check(page, module)


def test_every_page_is_linked_from_the_index():
    docs = ROOT / "docs"
    lists = "".join((docs / name).read_text(encoding="utf-8") for name in ("index.md", "api.md"))
    # Items of a list, and first cells of a row.
    links = re.findall(r"(?m)^(?:-|\|) \[[^]]+\]\(([\w/-]+\.md)\)", lists)
    assert {docs / link for link in links} == {*PAGES} - {ROOT / "README.md", docs / "index.md"}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_pages_quote_files_as_they_are(page):
    kinds = {block.kind for block in blocks(page.read_text(encoding="utf-8"))}
    directives = {kind for kind in kinds if kind.startswith("{")}
    # The reference of the API is made of the docstrings.
    assert directives <= ({"{eval-rst}"} if page.parent.name == "api" else set())
    if page.parent.name != "api":
        assert re.findall(r"\{[\w:]+\}`", page.read_text(encoding="utf-8")) == []
    for block in blocks(page.read_text(encoding="utf-8")):
        language, _, source = block.kind.partition(" ")
        if language not in {"output", "console"} and source not in {"", "no_run", "excerpt"}:
            text = (ROOT / source).read_text(encoding="utf-8")
            assert block.text in text, f"line {block.line} is not as in {source}"


def test_the_page_on_benchmarks_has_the_last_figures():
    folder = ROOT / "tests" / "benchmarks"
    figures, page = runpy.run_path(str(folder / "figures.py")), ROOT / "docs" / "benchmarks.md"
    docs = page.read_text(encoding="utf-8")
    last = (folder / "FIGURES.md").read_text(encoding="utf-8")
    assert figures["with_figures"](docs, last) == docs


def test_profiles_in_pages_have_the_keys_of_a_real_one(tmp_path):
    texts = [page.read_text(encoding="utf-8") for page in PAGES]
    samples = [block.text for text in texts for block in blocks(text) if block.kind == "json"]
    sample = ROOT / "docs" / "examples" / "quickstart.json"
    for text in (*samples, sample.read_text(encoding="utf-8")):
        Profile.loads(text)
    assert samples
    written = tmp_path / "profile.json"
    # In a process of its own: this one may have a calibration, which a profile then holds.
    quickstart = ROOT / "docs" / "examples" / "quickstart.py"
    # Outside of a repository, so that it has no commit.
    command = [sys.executable, quickstart, written]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=tmp_path)
    assert shape(json.loads(sample.read_text("utf-8"))) == shape(
        json.loads(written.read_text("utf-8"))
    )


def shape(value):
    """Return the keys in a JSON value, in their order, and nothing of what they hold."""
    if isinstance(value, dict):
        return [(key, shape(below)) for key, below in value.items()]
    return [shape(item) for item in value] if isinstance(value, list) else None


def rows_of_the_format():
    """Yield the section, the path below it and the type that each row of the page's tables says."""
    page = (ROOT / "docs" / "profile-format.md").read_text(encoding="utf-8")
    for part in re.split(r"(?m)^### (?=\w)", page)[1:]:
        for line in part.splitlines():
            if line.startswith("| `"):
                names, kind, *_ = [cell.strip() for cell in line.strip("| ").split(" | ")]
                for i, name in enumerate(names.split(", ")):
                    kinds = kind.split(", ")
                    yield part.split()[0], name.strip("`"), kinds[min(i, len(kinds) - 1)]


def described(section, path):
    """Return the schema of a path as the page writes it; None if it is not of the section."""
    schema = inlined_schema()["properties"][section]
    for step in path.split("."):
        schema = schema.get("items", schema.get("additionalProperties", schema))
        schema = schema.get("properties", {}).get(step.removesuffix("[]"))
        if schema is None:
            return None
    return schema


def test_profile_format_page_has_every_field():
    rows = list(rows_of_the_format())
    for section, schema in inlined_schema()["properties"].items():
        while "items" in schema or isinstance(schema.get("additionalProperties"), dict):
            schema = schema.get("items") or schema["additionalProperties"]  # noqa: PLW2901
        assert {path for name, path, _ in rows if name == section} >= set(
            schema.get("properties", ())
        )
    wrong = []
    for section, path, kind in rows:
        schema = described(section, path)
        if schema is not None:
            types = {schema["type"]} if isinstance(schema["type"], str) else {*schema["type"]}
            said = {"list": "array"}.get(kind.split()[0], kind.split()[0])
            if said not in types or ("null" in kind.split(" of ")[0]) != ("null" in types):
                wrong.append((section, path, kind, types))
    assert not wrong
    words = set(re.findall(r"\w+", (ROOT / "docs" / "profile-format.md").read_text("utf-8")))
    named = {path[-1] for path in paths(inlined_schema()) if path[-2:-1] == ("properties",)}
    assert words >= named


MEASUREMENTS = (ROOT / "docs" / "measurements.md").read_text(encoding="utf-8")


def table(*head):
    """Return the cells of the table on measurements.md whose head begins with these, by row."""
    _, _, below = MEASUREMENTS.partition("\n| " + " | ".join(head))
    rows = itertools.takewhile(lambda line: line.startswith("|"), below.splitlines()[1:])
    return [[cell.strip() for cell in row.strip("| ").split(" | ")] for row in rows][1:]


def test_measurements_page_is_complete():
    rows = table("flag", "is raised when", "what to do")
    assert [flag.strip("`") for flag, _, _ in rows] == list(FLAGS_OF_A_TASK)
    rows = table("name", "column of `samples`")
    found = {name.strip("`"): column.strip("`") for name, column, *_ in rows}
    names = ["delay", "cpu", *METER_SETS["full"]]
    assert found.pop("wall") == "wall_ms"
    assert (found.pop("gil"), found.pop("allocation")) == ("gil_ms", "allocation_bytes")
    assert found == {name: select(name).columns[0] for name in names}
    rows = table("field", "default", "means")
    defaults = {field.strip("`"): default for field, default, _ in rows}
    fields_of_rounds = {field.name: field.default for field in dataclasses.fields(Rounds)}
    assert defaults.pop("warmup").startswith(str(Rounds().warmup))
    assert fields_of_rounds.pop("warmup") is None
    assert {
        name: ast.literal_eval(default.strip("`")) for name, default in defaults.items()
    } == fields_of_rounds
    rows = table("source", "unit", "is")
    assert tuple(source.strip("`") for source, *_ in rows) == tuple(SOURCES)


def test_api_and_architecture_pages_are_complete():
    pages = [page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "api").glob("*.md")]
    named = re.findall(r"(?m)auto\w+:: dagprofiler\.(?:\w+\.)?(\w+)$", "\n".join(pages))
    assert {*dagprofiler.__all__} - {*named} == {"__version__"}
    listed = (ROOT / "docs" / "api" / "names.md").read_text(encoding="utf-8")
    lines = re.findall(r"(?m)^   (\w+)$", listed)
    assert sorted([*lines, "__version__"]) == sorted(dagprofiler.__all__)
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    tree = page[page.index("dagprofiler/\n") : page.index("## Floors")]
    package = Path(dagprofiler.__file__).parent
    rooms = {path.name for path in package.iterdir() if (path / "__init__.py").exists()}
    assert set(re.findall(r"^  (\w+)/", tree, re.MULTILINE)) == rooms


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_of_a_page_lead_somewhere(page):
    links = re.findall(r"\]\(([^):#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


#: A pipeline in two files, whose second task does so many times its work.
PIPELINE = {
    "pipeline.py": """
from dagprofiler import DAG
from steps import add, make

dag = DAG({"make": make, "add": add}, [("make", "add")])
""",
    "steps.py": """
from dagprofiler import task

@task(outputs=["rows"])
def make():
    return {"rows": list(range(30_000))}

@task(outputs=["total"])
def add(rows):
    return {"total": sum(row for row in rows for _ in range(TIMES))}
""",
}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="the recipe is for bash")
def test_the_recipe_for_ci_runs_as_it_stands(tmp_path):
    yaml = pytest.importorskip("yaml")
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    (workflow,) = [block.text for block in blocks(page) if block.kind == "yaml"]
    (job,) = yaml.safe_load(workflow)["jobs"].values()
    steps = {step["name"]: step["run"] for step in job["steps"] if {"name", "run"} <= {*step}}
    scripts = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = {**os.environ, "PATH": scripts, "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}

    def run(*command, at=tmp_path):
        return subprocess.run(command, cwd=at, env=env, capture_output=True, text=True, check=False)

    repository = tmp_path / "repository"
    repository.mkdir()
    run("git", "init", "-q", at=repository)
    for side, times in (("base", 1), ("new", 8)):
        for name, text in PIPELINE.items():
            (repository / name).write_text(text.replace("TIMES", str(times)), encoding="utf-8")
        run("git", "add", ".", at=repository)
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        assert run("git", *who, "commit", "-qm", side, at=repository).returncode == 0
        run("git", "worktree", "add", "-q", str(tmp_path / side), "HEAD", at=repository)
    done = {
        name: run("bash", "-e", "-c", text) for name, text in steps.items() if "gh " not in text
    }
    assert [*done] == ["Measure in turns", "Compare", "Report"]
    assert done["Measure in turns"].returncode == 0, done["Measure in turns"].stderr
    # Whatever the machine does meanwhile, eight times the work is seen or nothing is judged.
    assert done["Compare"].returncode == 1 or "nothing could be judged" in done["Compare"].stdout
    assert (tmp_path / "comparison.md").read_text(encoding="utf-8").count("| add |") == 2
    assert (tmp_path / "report.html").exists()
