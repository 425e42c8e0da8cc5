import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagprofiler import ProfileError
from dagprofiler._util.json import render


def text_of(document):
    return "".join(render(document.items()))


@pytest.mark.parametrize("count", [1, 4097])
def test_long_tables_are_whole(count):
    document = {
        "list": [[i, "x"] for i in range(count)],
        "dict": {str(i): {"n": i} for i in range(count)},
        "timeline": {"records": [["t", i] for i in range(count)]},
    }
    text = text_of(document)
    assert json.loads(text) == document
    assert text.count("\n") == 3 * count + 10


@pytest.mark.parametrize("odd", [math.nan, object()])
@pytest.mark.parametrize(
    "place",
    [lambda n: n, lambda n: [n], lambda n: {"a": {"b": n}}, lambda n: [{"n": 1}, {"n": [n]}]],
)
def test_values_that_json_lacks_name_their_section(odd, place):
    with pytest.raises(ProfileError, match=r"^\$\.late: .*(JSON|object)") as caught:
        list(render([("early", 1), ("late", place(odd))]))
    assert isinstance(caught.value.__cause__, (ValueError, TypeError))


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    # What the encoder puts between values, and what a row is put together with.
    | st.text()
    | st.sampled_from(["\n", ", ", "null", '": ', "]", "},\n{", "\u2028", "\ud800"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(st.lists(VALUES), st.dictionaries(st.text(), VALUES))
def test_any_values_are_written_as_ascii_json(rows, entries):
    document = {"list": rows, "dict": entries, "timeline": {"dict": entries, "records": rows}}
    text = text_of(document)
    assert json.loads(text) == document
    assert text.isascii()


def test_numpy_numbers_are_written_as_json():
    document = {"list": [np.int64(4), 1], "dict": {1: np.float64(0.5), 2: [np.int64(1)]}}
    assert json.loads(text_of(document)) == {"list": [4, 1], "dict": {"1": 0.5, "2": [1]}}
