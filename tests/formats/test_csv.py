import csv
import io
import json

import pytest
from hypothesis import example, given
from sample_profiles import HOSTILE, golden_profile, names, profile_of, rendered

from dagprofiler import Profile
from dagprofiler.errors import FormatError
from dagprofiler.formats._graph import legible_names
from dagprofiler.formats.csv import EDGE_COLUMNS


def read(text):
    return list(csv.DictReader(io.StringIO(text, newline=""), strict=True))


def name_in(cell):
    """What the docs say: one ' at the beginning is not part of the name."""
    return cell.removeprefix("'")


@given(names(max_size=6))
@example(HOSTILE)
def test_names_come_back_or_are_mapped_and_no_cell_is_a_formula(tasks):
    profile = profile_of(tasks)
    texts = [rendered("csv", profile, table=table) for table in ("tasks", "edges")]
    rows, edges = map(read, texts)
    expected = list(legible_names(tasks).values())
    assert [name_in(row["task"]) for row in rows] == expected
    ends = [(name_in(row["source"]), name_in(row["target"])) for row in edges]
    assert ends == list(zip(expected, expected[1:]))
    cells = [cell for row in (*rows, *edges) for cell in row.values()]
    assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n")) for cell in cells)


def test_fields_are_a_json_list_and_there_are_two_tables():
    document = profile_of(["a", "b"]).to_dict()
    fields = ["=x", 'a"b,\n\ud800\x00é', "\x85"]
    columns = ["data_fields", "size_bytes", "wire_bytes"]
    document["edge_metrics"] = {"columns": columns, "records": [[fields, 1, 2]]}
    (row,) = read(rendered("csv", Profile.from_dict(document), table="edges"))
    assert json.loads(row["data_fields"]) == fields
    assert (row["size_bits"], row["size_bytes"], row["wire_bytes"]) == ("8", "1", "2")
    empty = rendered("csv", profile_of([]), table="edges")
    assert empty == f"{','.join(EDGE_COLUMNS)}\r\n"
    with pytest.raises(FormatError, match="table must be 'tasks' or 'edges', got 'nodes'"):
        rendered("csv", golden_profile(), table="nodes")
