"""The executor of the documentation's worked example."""

import os
from pathlib import Path

from programs import PYTHONPATH

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "docs" / "examples"

DIES = """
import multiprocessing, os
from dagprofiler import DAG, RunError, Task
from own_executor import MultiprocessingPool

class Dies(Task):
    outputs = ["x"]
    def compute(self):
        os._exit(1)

if __name__ == "__main__":
    with multiprocessing.Pool(2) as pool:
        try:
            DAG({"dies": Dies, "dies too": Dies}).run(executor=MultiprocessingPool(pool))
        except RunError as error:
            print(error.__cause__)
"""


def test_the_worked_example_runs_on_its_pool(start):
    example = (EXAMPLES / "own_executor.py").read_text(encoding="utf-8")
    said, errors = start(example).communicate(timeout=60)
    assert said.splitlines() == [
        "{'sum': 5500} by multiprocessing.Pool",
        "the same serially: {'sum': 5500}",
        "at most two processes: True",
    ], errors


def test_the_worked_example_notices_a_process_that_dies(start):
    path = os.pathsep.join([str(EXAMPLES), PYTHONPATH])
    said, errors = start(DIES, PYTHONPATH=path).communicate(timeout=60)
    assert "was lost by its executor: ChildProcessError" in said, errors
