from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from dagprofiler import ValidationError
from dagprofiler._util import checks


@pytest.mark.parametrize(
    ("check", "value", "expected"),
    [
        *((checks.integer, value, int(value)) for value in (np.int8(3), 0, 2**63 - 1)),
        *((checks.number, kind(4), 4) for kind in (np.int16, type("Integer", (int,), {}))),
        *((checks.number, kind(1.5), 1.5) for kind in (np.float32, type("Float", (float,), {}))),
        (checks.number, Fraction(1, 4), 0.25),
        (lambda name, value: checks.number(name, value, zero=True), 0, 0),
        (lambda name, value: checks.choice(name, value, ("a", None)), None, None),
        (lambda name, value: checks.choice(name, value, ("a", "b")), "b", "b"),
        (checks.boolean, False, False),
        (checks.names, iter(["x", "y"]), ["x", "y"]),
    ],
)
def test_a_value_that_fits_is_returned_as_a_plain_one(check, value, expected):
    returned = check("argument", value)
    assert returned == expected
    assert type(returned) is type(expected)


@pytest.mark.parametrize(
    ("check", "values"),
    [
        (checks.integer, [-1, 2**63, True, np.True_, 1.0, "1", None]),
        (lambda name, value: checks.integer(name, value, 1, 5), [0, 6]),
        (checks.number, [0, -1, float("inf"), float("nan"), 2**63, True, 1j, "1", None]),
        (checks.number, [np.float64("nan"), np.uint64(2**63), np.True_, Decimal(3), [1.0]]),
        (lambda name, value: checks.number(name, value, zero=True), [-1e-9]),
        (lambda name, value: checks.choice(name, value, ("a", "b")), ["c", "", None, 1, ["a"]]),
        (checks.boolean, [0, 1, None, "yes"]),
        (checks.names, ["x", 5, None, ["x", ""], ["x", 3], [["x"]]]),
    ],
)
def test_a_value_that_does_not_fit_is_refused_by_name(check, values):
    for value in values:
        with pytest.raises(ValidationError, match="argument"):
            check("argument", value)


def test_the_error_is_of_the_kind_that_the_caller_names():
    with pytest.raises(KeyError, match="workers must be an integer of at least 1 or 'all', got 0"):
        checks.integer("workers", 0, 1, other="'all'", error=KeyError)
