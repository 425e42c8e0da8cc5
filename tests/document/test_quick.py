import math

import pytest

from dagprofiler._document.quick import _AT_ONCE, quick_valid

SIZE = {"type": "integer", "minimum": 0, "maximum": 2**63 - 1}
TIME = {"type": ["number", "null"], "minimum": 0, "maximum": 1e308}
WORD = {"type": ["string", "null"]}
X = {"type": "object", "properties": {"x": SIZE}}


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        *((value, SIZE) for value in (True, -1, 2**63, "1")),
        *((1, {"type": "integer", "maximum": 0}), (-1, {"type": "integer", "minimum": 0})),
        *((value, TIME) for value in (math.nan, math.inf, 10**400)),
        *(
            (values, {"type": "array", "items": TIME})
            for values in ([1.5, 10**400], [1.0, math.nan], [math.inf, -math.inf], [1.0, -0.5])
        ),
        ("x", {"type": "string", "enum": ["y"]}),
        (10**400, {"type": "number"}),
        (0, {"type": "number", "exclusiveMinimum": 0}),
        ([1, 2], {"type": "array", "items": SIZE, "maxItems": 1}),
        ([], {"type": "array", "items": SIZE, "minItems": 1}),
        ([[], [1]], {"type": "array", "items": {"type": "array", "items": SIZE, "minItems": 1}}),
        *(
            (row, {"type": "array", "items": SIZE, "prefixItems": [WORD]})
            for row in (["a", "b"], [3, 1])
        ),
        ({}, {**X, "required": ["x"]}),
        ({"x": None}, {**X, "required": []}),
        ({"a": -1}, {"type": "object", "additionalProperties": SIZE}),
        # These are valid, as a real validator says.
        (3.0, SIZE),
        ([1e308, 1e308], {"type": "array", "items": TIME}),
        ([], {"type": "array", "items": SIZE, "prefixItems": [WORD]}),
        (["a", [1]], {"type": "array", "items": {"type": ["string", "array"], "items": SIZE}}),
    ],
)
def test_certainly_not_or_left_to_a_real_validator(value, schema):
    assert not quick_valid(value, schema)


@pytest.mark.parametrize("length", [_AT_ONCE - 1, _AT_ONCE, _AT_ONCE + 1, 3 * _AT_ONCE])
def test_every_value_of_a_long_column_counts(length):
    schema = {"type": "array", "items": SIZE}
    column = [1] * length
    assert quick_valid(column, schema)
    for i in (0, length // 2, length - 1):
        assert not quick_valid([*column[:i], -1, *column[i + 1 :]], schema)
