import pytest

from dagprofiler._util.text import quantity, share


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, "ms", "-"),
        (0, "B", "0 B"),
        (999, "instructions", "999 instructions"),
        (12345, "instructions", "12.35 k instructions"),
        (2**63, "B", "9.223 EB"),
        (21, "B", "21 B"),
        (160_000, "B", "160 kB"),
        (0.00012, "ms", "0.00012 ms"),
        (1234567.8, "reference ms", "1,234,568 reference ms"),
    ],
)
def test_quantities_read_well(value, unit, text):
    assert quantity(value, unit) == text


def test_shares_are_between_0_and_1():
    assert share(0, 0) == 0
    assert share(1, 4) == 0.25
