"""What `python -m build` makes, if ``DAGPROFILER_DIST`` names the folder that holds it."""

from __future__ import annotations

import os
import tarfile
import zipfile
from pathlib import Path

import pytest
from platforms import found

ROOT = Path(__file__).resolve().parent.parent.parent

pytestmark = pytest.mark.external


def built(pattern):
    """Return the one file that was built."""
    folder = found("a folder of distributions", os.environ.get("DAGPROFILER_DIST"))
    (path,) = Path(folder).glob(pattern)
    return path


def files_of(folder):
    """Return the files below a folder of the checkout, without byte code."""
    paths = (ROOT / folder).rglob("*")
    names = {path.relative_to(ROOT).as_posix() for path in paths if path.is_file()}
    return {name for name in names if "__pycache__" not in name and not name.endswith(".pyc")}


def test_the_wheel_is_the_package_and_nothing_else():
    with zipfile.ZipFile(built("*.whl")) as wheel:
        names = set(wheel.namelist())
    about = {name for name in names if name.split("/")[0].endswith(".dist-info")}
    assert {name.split("/", 1)[1] for name in about} == {
        *("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")
    }
    assert names - about == files_of("dagprofiler")
    assert names >= {
        *("dagprofiler/py.typed", "dagprofiler/profile.schema.json"),
        *("dagprofiler/report/assets/report.html", "dagprofiler/report/assets/main.js"),
    }


def test_the_sdist_has_what_its_tests_and_the_docs_need():
    with tarfile.open(built("*.tar.gz")) as sdist:
        names = {name.split("/", 1)[1] for name in sdist.getnames() if "/" in name}
    assert names >= {*("README.md", "LICENSE", "CHANGELOG.md", "pyproject.toml")}
    assert names >= files_of("dagprofiler") | files_of("docs/examples")
    assert names >= {name for name in files_of("tests") if name.endswith(".py")}
