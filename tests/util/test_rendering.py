import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagprofiler import ProfileError
from dagprofiler._util.json import Columns, Items, Table, batched, held, render

DOCUMENT = [
    ("metadata", {"seed": None, "host": "worker-01"}),
    ("configuration", {}),
    ("dag_structure", {"nodes": ["a", "b"], "edges": [{"source": "a"}], "order": []}),
    ("metrics", [{"task": "a", "fields": ["x", "y"]}, {"task": "b", "fields": []}]),
    ("total_time_ms", 45.2),
    ("timeline", {"records": [["a", 0, None]]}),
    ("nothing", []),
]

TEXT = """\
{
"metadata":{
"seed":null,
"host":"worker-01"
},
"configuration":{},
"dag_structure":{
"nodes":[
"a",
"b"
],
"edges":[
{"source":"a"}
],
"order":[]
},
"metrics":[
{"task":"a","fields":["x","y"]},
{"task":"b","fields":[]}
],
"total_time_ms":45.2,
"timeline":{
"records":[
["a",0,null]
]
},
"nothing":[]
}
"""


def test_each_record_stands_on_a_line_of_its_own():
    assert "".join(render(DOCUMENT)) == TEXT


@pytest.mark.parametrize("empty", [{}, [], {"records": []}, {"a": {}, "b": {"c": []}}])
@pytest.mark.parametrize("section", ["dag_structure", "timeline", "other"])
def test_what_is_empty_is_written_as_such(section, empty):
    document = {"before": 1, section: empty, "after": 2}
    assert json.loads("".join(render(document.items()))) == document


@pytest.mark.parametrize("count", [1, 4095, 4096, 4097, 9000])
def test_long_tables_are_whole(count):
    document = {
        "list": [[i, "x"] for i in range(count)],
        "dict": {str(i): {"n": i} for i in range(count)},
        "timeline": {"records": [["t", i] for i in range(count)]},
    }
    text = "".join(render(document.items()))
    assert json.loads(text) == document
    assert text.count("\n") == 3 * count + 10


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf, object()])
@pytest.mark.parametrize(
    "place",
    [
        *(lambda n: n, lambda n: [n], lambda n: {"a": {"b": n}}),
        *(lambda n: Table([Columns({"n": [1.5, n]})]), lambda n: Table([Columns({"n": [1, [n]]})])),
        lambda n: Items([(["a", "b"], Columns({"n": [1.5, n]}))]),
    ],
)
def test_what_json_does_not_have_is_refused_with_the_section_that_holds_it(odd, place):
    with pytest.raises(ProfileError, match=r"^\$\.late: .*(JSON|object)") as caught:
        list(render([("early", 1), ("late", place(odd))]))
    assert isinstance(caught.value.__cause__, (ValueError, TypeError))


@pytest.mark.parametrize(
    "hostile", ['"', "\\", '", "', '},\n{"', "\n  ", "\x1f", "\x00", "\u2028", "\ud800", "é" * 9]
)
def test_hostile_text_stays_what_it_is_in_every_place(hostile):
    document = {
        hostile: 1,
        "list": [hostile, hostile],
        "dict": {hostile: hostile, "x" + hostile: [hostile]},
        "timeline": {hostile: [hostile], "records": [[hostile], [hostile]]},
    }
    text = "".join(render(document.items()))
    assert json.loads(text) == document
    assert text.isascii()


# Tables whose rows are yet to be made

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    # What the encoder puts between values, and what a row is put together with.
    | st.text()
    | st.sampled_from(["\n", ", ", "null", '": ', "]"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def text_of(section):
    return "".join(render([("dag_structure", {"table": section})]))


@given(st.lists(st.tuples(st.text(), VALUES, VALUES, VALUES), min_size=1), st.booleans())
def test_rows_held_by_column_are_written_as_the_rows_they_stand_for(rows, optional):
    keys, first, second, third = (list(column) for column in zip(*rows))
    columns = Columns({"a": first, "%s": second, "z": third}, optional=optional)
    dicts = [{"a": a, "%s": b, "z": c} for a, b, c in zip(first, second, third)]
    if optional:
        dicts = [
            {name: value for name, value in row.items() if name != "z" or value is not None}
            for row in dicts
        ]
    assert list(columns) == dicts
    assert text_of(Table([columns])) == text_of(dicts)
    lists = Columns([first, second])
    assert list(lists) == [list(row) for row in zip(first, second)]
    assert text_of(Table([lists, lists])) == text_of(list(lists) * 2)
    # The last of repeated keys counts, in memory and in the parsed text.
    items = Items([(keys, columns)])
    assert held(items) == dict(zip(keys, dicts))
    assert json.loads(text_of(items)) == json.loads(text_of(held(items)))


def test_values_inside_of_values_may_come_late_in_a_column():
    rows = [{"n": n} for n in (None, 1, [1, 2], "x", {"a": [1, 2], "b": 3}, np.int64(4))]
    assert text_of(Table([Columns({"n": [row["n"] for row in rows]})])) == text_of(rows)


def test_tables_are_made_batch_by_batch_and_empty_ones_are_written_as_such():
    seen = []
    rows = (seen.append(n) or n for n in range(10_000))
    pieces = render([("table", Table(Columns({"n": batch}) for batch in batched(rows)))])
    written = []
    while not seen:
        written.append(next(pieces))
    assert len(seen) < 5000
    assert len(json.loads("".join([*written, *pieces]))["table"]) == 10_000
    empty = {"list": Table([]), "dict": Items([])}
    assert "".join(render(empty.items())) == '{\n"list":[],\n"dict":{}\n}\n'
    section = {"columns": ["n"], "records": Table([[[1]], Columns([[2, 3]])])}
    assert held(section) == {"columns": ["n"], "records": [[1], [2], [3]]}
