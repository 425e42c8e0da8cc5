"""What a dozen programs measure stays as it is, to the letter, unless it is decided otherwise.

``DAGPROFILER_GOLDEN=write pytest tests/golden`` writes the files anew; look at their diff.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
FILES = HERE.parent / "data" / "golden"


pytestmark = pytest.mark.skipif(
    sys.version_info[:2] != (3, 11) or sys.implementation.name != "cpython",
    reason="what Python's own modules print differs between its versions; 3.11's is kept",
)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Return the folder in which the programs have written what they measured."""
    folder = tmp_path_factory.mktemp("golden")
    command = [sys.executable, str(HERE / "golden_programs.py"), str(folder)]
    subprocess.run(command, check=True, cwd=folder)
    if os.environ.get("DAGPROFILER_GOLDEN") == "write":
        FILES.mkdir(exist_ok=True)
        for path in folder.glob("*.txt"):
            (FILES / path.name).write_bytes(path.read_bytes())
    return folder


def test_the_programs_are_the_files(written):
    assert sorted(os.listdir(written)) == sorted(os.listdir(FILES))


@pytest.mark.parametrize("name", sorted(path.name for path in FILES.glob("*.txt")))
def test_a_program_measures_what_it_did(written, name):
    assert (written / name).read_text("utf-8") == (FILES / name).read_text("utf-8")
