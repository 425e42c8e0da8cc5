import enum
import json
import math
from pathlib import Path

import numpy as np
import pytest

from dagprofiler import Config
from dagprofiler._util.json import jsonable


class Colour(enum.IntEnum):
    RED = 3


class Letter(str, enum.Enum):
    A = "a"


class Dictable:
    def __repr__(self):
        return "Dictable()"

    def to_dict(self):
        return {"scale": np.float64(0.5), "steps": (1, 2)}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *((value, value) for value in (None, True, 3, -(2**63), 2**63 - 1, 0.5, "text", "\ud800")),
        ([1, [2.5, None]], [1, [2.5, None]]),
        ((1, (2,)), [1, [2]]),
        ({"a": {"b": (1,)}}, {"a": {"b": [1]}}),
        (Config(a=1), {"a": 1}),
        (Colour.RED, 3),
        *((kind(7), 7) for kind in (np.int32, np.uint64)),
        *((kind(0.5), 0.5) for kind in (np.float32, np.float64)),
        *((np.bool_(1), True), (np.str_("n"), "n"), (np.array(3), 3)),
        (np.arange(3), [0, 1, 2]),
        (np.eye(2), [[1.0, 0.0], [0.0, 1.0]]),
        (np.zeros((0, 2)), []),
        ([np.arange(2), np.int8(1)], [[0, 1], 1]),
        (Dictable(), {"scale": 0.5, "steps": [1, 2]}),
        ({Letter.A: 1}, {"a": 1}),
    ],
    ids=repr,
)
def test_what_json_can_hold_is_stored_as_json(value, expected):
    values, as_text = jsonable({"parameter": value})
    assert as_text == []
    assert values == {"parameter": expected}
    assert type(values["parameter"]) is type(expected) or isinstance(value, np.str_)
    assert json.loads(json.dumps(values, allow_nan=False)) == values


@pytest.mark.parametrize(
    "value",
    [
        *(math.nan, -math.inf, np.float32("nan"), np.array([1.0, np.nan]), [1, math.inf]),
        *({"a": math.nan}, {1: 2}, {(1, 2): 3}, 2**63, -(2**63) - 1, [2**64]),
        *(complex(1, 2), b"raw", frozenset([1]), range(3), Dictable, Path("here"), int),
        *(np.datetime64("2026-02-12"), np.datetime64("2026-11-20T23:59:32.123456789")),
        *(np.timedelta64(5, "ns"), [np.timedelta64(5, "ns")]),
    ],
    ids=repr,
)
def test_what_json_cannot_hold_is_stored_as_text_and_listed(value):
    stored = {"n": 1, "parameter": str(value)}
    assert jsonable({"n": 1, "parameter": value}) == (stored, ["parameter"])
