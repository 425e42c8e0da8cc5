"""The package and its pages speak the field's English: phrases that a reader has to solve."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

#: Each with what to say in its place.
PUZZLES = {
    r"go(es|ne)? on with": "resume",
    r"takes? note": "is called once, note",
    r"beside each other": "concurrently",
    r"(is|are) told": "receives, is passed",
    r"tells of": "reports",
    r"it is asked": "is called",
    r"lets? go of": "releases",
    r"made good": "retried, repaired",
    r"what came of": "the result of",
    r"whoever": "the reader, the caller",
    r"cannot be had": "is not available",
    r"sees? off": "waits for",
    r"in vain": "without success",
    r"of the sort": "such",
    r"as it was asked": "as requested",
}


def texts():
    yield from (ROOT / "dagprofiler").rglob("*.py")
    yield from (ROOT / "dagprofiler").rglob("*.js")
    yield from (ROOT / "docs").rglob("*.md")
    yield ROOT / "README.md"


@pytest.mark.parametrize("phrase", PUZZLES)
def test_no_text_holds_a_phrase_that_a_reader_has_to_solve(phrase):
    puzzle = re.compile(rf"\b{phrase}\b".replace(" ", r"\s+(?:[#*]\s+)?"), re.IGNORECASE)
    found = [
        f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, match.start()) + 1}"
        for path in texts()
        for text in [path.read_text("utf-8")]
        for match in puzzle.finditer(text)
    ]
    assert found == [], f"say instead: {PUZZLES[phrase]}"
