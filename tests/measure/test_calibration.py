from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from dagprofiler import ProfileError
from dagprofiler._document import Calibration
from dagprofiler.measure import calibrate as calibration
from dagprofiler.measure.calibrate import KERNEL_VERSION, REFERENCE_MS, calibrate

#: The reference machine, twice as fast at matrices, with one round slow and one fast.
ROUNDS = [
    {name: ms * factor for name, ms in {**REFERENCE_MS, "matrix": 1.25}.items()}
    for factor in (1.0, 1.0, 5.0, 1.0, 0.8, 1.0, 1.25, 0.2, 1.0)
]


def test_what_is_found_is_known_for_the_rest_of_the_process(monkeypatch):
    monkeypatch.setattr(calibration, "_found", [])
    monkeypatch.setattr(calibration, "asked_for", [])
    found = calibrate()
    assert calibrate() is found
    assert calibrate(again=True) is not found
    assert calibration.asked_for == [calibrate()]


def test_rounds_do_not_rely_on_a_calibration_that_is_old(monkeypatch):
    monkeypatch.setattr(calibration, "_found", [])
    found = calibration.calibration_of_process()
    assert calibration.calibration_of_process(oldest_s=3600) is found
    anew = calibration.calibration_of_process(oldest_s=0)
    assert anew is not found
    assert anew.taken_at > found.taken_at


def test_every_kernel_has_a_part_and_the_score_is_their_geometric_mean():
    found = calibrate()
    assert list(found.parts) == list(REFERENCE_MS)
    assert all(0 < speed < math.inf for speed in found.parts.values())
    assert found.score == pytest.approx(math.prod(found.parts.values()) ** (1 / 3))
    assert found.kernel_version == KERNEL_VERSION
    assert found.spread >= 0


def test_numpy_is_loaded_only_to_calibrate():
    code = (
        "import sys; from dagprofiler.measure.calibrate import calibrate; "
        "print('numpy' in sys.modules); calibrate(); print('numpy' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.split() == ["False", "True"]


def test_a_plain_run_reports_a_calibration_only_if_the_program_asked_for_one():
    code = """
from dagprofiler import DAG, calibrate, task

@task(outputs=["x"])
def source():
    return {"x": 1}

def reported(rounds):
    profile = DAG({"source": source}).run(rounds=rounds)
    weights = profile.sections["weights"]["nodes"] if "weights" in profile.sections else None
    return "calibration" in profile.sections["environment"], weights and weights["source"]

before = reported(1)
print(before[0], reported(2)[0], reported(1) == before)
calibrate()
print(reported(1)[0])
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.split() == ["False", "True", "True", "True"]


def test_the_kernels_do_what_is_said_of_them(monkeypatch):
    kernels = calibration.kernels()
    assert list(kernels) == list(REFERENCE_MS)
    calls = []
    for name in ("matmul", "copyto"):
        monkeypatch.setattr(np, name, lambda *_, name=name, **__: calls.append(name))
    for work in kernels.values():
        work()
    assert calls == ["matmul"] * 25 + ["copyto"] * 60
    # The sum of the numbers of digits of 0 to 29,999, and of what is left of them by 7.
    assert kernels["python"]() == sum(len(str(i)) + i % 7 for i in range(30_000))


def test_windows_whose_cpu_clock_is_coarse_is_timed_by_the_wall(monkeypatch):
    ticks = iter([1_000_000, 4_500_000])
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(calibration.time, "perf_counter_ns", lambda: next(ticks))
    assert calibration._time_ms(lambda: None) == 3.5


def test_a_machine_as_fast_as_the_reference_has_score_1():
    found = calibration._judged([REFERENCE_MS] * 9)
    assert found == Calibration(
        1.0, {"python": 1.0, "matrix": 1.0, "memory": 1.0}, 0.0, KERNEL_VERSION, found.taken_at
    )


def test_half_the_time_is_twice_the_speed_so_that_time_and_score_multiply():
    halved = {name: ms / 2 for name, ms in REFERENCE_MS.items()}
    found = calibration._judged([halved] * 9)
    assert found.score == pytest.approx(2.0)
    assert halved["python"] * found.score == pytest.approx(REFERENCE_MS["python"])


def test_a_round_that_was_disturbed_moves_neither_the_score_nor_its_spread():
    found = calibration._judged(ROUNDS)
    assert found.parts == {"python": 1.0, "matrix": 2.0, "memory": 1.0}
    assert found.score == pytest.approx(2 ** (1 / 3))
    # The second largest of nine, 1 / 0.8, and the second least, 1 / 1.25.
    assert found.spread == pytest.approx((1.25 - 0.8) / 2)


def test_a_calibration_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        calibrate().score = 2.0


def test_a_calibration_goes_into_json_and_comes_back():
    found = calibrate()
    document = json.loads(json.dumps(found.to_dict()))
    assert list(document) == ["score", "parts", "spread", "kernel_version", "taken_at"]
    assert Calibration.from_dict(document) == found


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"score": 0}, "calibration: score must be finite and above 0, got 0.0"),
        ({"score": math.nan}, "calibration: score must be finite and above 0, got nan"),
        ({"score": math.inf}, "calibration: score must be finite and above 0, got inf"),
        ({"parts": {"gpu": -1}}, "calibration: gpu must be finite and above 0, got -1.0"),
        ({"spread": -0.5}, "calibration: spread must be finite and at least 0, got -0.5"),
        ({"spread": math.nan}, "calibration: spread must be finite and at least 0, got nan"),
        ({"score": "fast"}, "ValueError: could not convert string to float: 'fast'"),
        ({"score": None}, "TypeError"),
        ({"parts": [1.0]}, "AttributeError"),
        ({"score": 10**400}, "OverflowError"),
        ({"kernel_version": "one"}, "ValueError"),
    ],
)
def test_what_is_no_calibration_is_refused_in_words(change, message):
    with pytest.raises(ProfileError) as caught:
        Calibration.from_dict({**calibrate().to_dict(), **change})
    assert message in str(caught.value)


@pytest.mark.parametrize("field", ["score", "parts", "spread", "kernel_version"])
def test_a_field_that_is_missing_is_named(field):
    document = calibrate().to_dict()
    del document[field]
    with pytest.raises(ProfileError, match=f"KeyError: '{field}'"):
        Calibration.from_dict(document)


def test_an_unknown_part_is_kept():
    document = {**calibrate().to_dict(), "parts": {"gpu": 3}, "kernel_version": 7}
    found = Calibration.from_dict(document)
    assert (found.parts, found.kernel_version) == ({"gpu": 3.0}, 7)
