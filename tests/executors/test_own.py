"""The executor of the documentation's worked example."""

from pathlib import Path

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "docs" / "examples"


def test_the_worked_example_runs_on_its_pool(start):
    example = (EXAMPLES / "own_executor.py").read_text(encoding="utf-8")
    said, errors = start(example).communicate(timeout=60)
    assert said.splitlines() == [
        "{'sum': 5500} by multiprocessing.Pool",
        "the same serially: {'sum': 5500}",
        "at most two processes: True",
    ], errors
