import json
import math
import subprocess
import sys

import pytest

from dagprofiler._document import Calibration
from dagprofiler.measure import calibrate as calibration
from dagprofiler.measure.calibrate import KERNEL_VERSION, REFERENCE_MS, calibrate

#: The reference machine, twice as fast at matrices, with one round slow and one fast.
ROUNDS = [
    {name: ms * factor for name, ms in {**REFERENCE_MS, "matrix": 1.25}.items()}
    for factor in (1.0, 1.0, 5.0, 1.0, 0.8, 1.0, 1.25, 0.2, 1.0)
]


def test_a_calibration_is_kept_until_it_is_old(monkeypatch):
    monkeypatch.setattr(calibration, "_latest", [])
    monkeypatch.setattr(calibration, "asked_for", [])
    found = calibrate()
    assert calibrate() is calibration.calibration_of_process(oldest_s=3600) is found
    anew = calibration.calibration_of_process(oldest_s=0)
    assert anew.taken_at > found.taken_at
    assert calibrate(again=True) is not anew
    assert calibration.asked_for == [calibrate()]


def test_a_calibration_comes_back_from_json():
    found = calibrate()
    assert list(found.parts) == list(REFERENCE_MS)
    assert all(0 < speed < math.inf for speed in found.parts.values())
    assert found.score == pytest.approx(math.prod(found.parts.values()) ** (1 / 3))
    assert found.kernel_version == KERNEL_VERSION == 1
    assert found.spread >= 0
    document = json.loads(json.dumps(found.to_dict()))
    assert list(document) == ["score", "parts", "spread", "kernel_version", "taken_at"]
    assert Calibration.from_dict(document) == found


def test_a_plain_run_reports_a_calibration_that_was_asked_for():
    code = """
import sys
from dagprofiler import DAG, calibrate, task
@task(outputs=["x"])
def source():
    return {"x": 1}
def reported(rounds):
    run = DAG({"source": source}).run(rounds=rounds)
    return "calibration" in run.sections["environment"]
print("numpy" in sys.modules, reported(1), reported(2), reported(1))
calibrate()
print("numpy" in sys.modules, reported(1))
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.split() == ["False", "False", "True", "False", "True", "True"]


def test_a_disturbed_round_moves_neither_score_nor_spread():
    found = calibration._judged(ROUNDS)
    assert found.parts == {"python": 1.0, "matrix": 2.0, "memory": 1.0}
    assert found.score == pytest.approx(2 ** (1 / 3))
    # The second largest of nine, 1 / 0.8, and the second least, 1 / 1.25.
    assert found.spread == pytest.approx((1.25 - 0.8) / 2)
