import copy
import json
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dagprofiler import Config, DAGMetrics, EdgeMetrics, Profile, ProfileError, TaskMetrics
from dagprofiler._document.checks import check_consistency
from dagprofiler.schema import validate_profile

DATA = Path(__file__).parent / "data"
#: A document with every section that there is.
FULL = {
    **json.loads((DATA / "complete-profile.json").read_text()),
    "unknown": {"deep": [{"x": [1, None]}]},
}
#: What 0.1.0 wrote: no schema version, and an edge listed twice.
OLD = json.loads((DATA / "profile-of-0.1.0.json").read_text())

HOSTILE = [
    *("", " ", '"', "'", "\\", "\n", "\r\n", "\x00", "\x1f", "\x7f", "\u2028", "\ufeff", "\ud800"),
    *(
        "\udfff",
        '"},\n{"',
        '", "',
        "]}",
        "null",
        "NaN",
        "$.a[0]",
        "%s{}{0}",
        "__class__",
        "_params",
    ),
    *("self", "data", "x" * 70_000),
]


def refuse(constant):
    raise AssertionError(constant)


def load(text):
    """Return the profile in `text` and None, or None and the error."""
    try:
        return Profile.loads(text), None
    except ProfileError as error:
        return None, error


def loads_whole_or_is_refused(text):
    """Load `text`; whatever loads must be right in every way, else ProfileError says where."""
    profile, error = load(text)
    if profile is None:
        assert error.path.startswith("$")
        assert str(error) == (f"{error.path}: " if error.path != "$" else "") + error.message
        assert len(str(error)) < 5000
        return None
    document = profile.to_dict()
    assert validate_profile(document)
    check_consistency(document)
    saved = profile.dumps()
    assert json.loads(saved, parse_constant=refuse) == document
    again = Profile.loads(saved)
    assert again == profile
    assert again.dumps() == saved
    assert str(again) == str(profile)
    assert repr(again) == repr(profile)
    loaded = json.loads(text)
    for name in loaded.keys() - {"metadata", "configuration", "execution_metrics", "edge_metrics"}:
        assert document[name] == loaded[name]
    for name, value in loaded["metadata"].items():
        if name != "configuration_as_text":
            assert document["metadata"][name] == value
    assert [t.task for t in profile.metrics.task_metrics] == [
        entry["task"] for entry in loaded.get("execution_metrics", ())
    ]
    assert document["configuration"].keys() == loaded["configuration"].keys()
    return profile


def places(value, parent=None, key=None):
    """Return all nodes of a document, as pairs of what holds them and where."""
    found = [] if parent is None else [(parent, key)]
    items = value.items() if isinstance(value, dict) else enumerate(value)
    if isinstance(value, (dict, list)):
        for below, item in items:
            found += (
                places(item, value, below) if isinstance(item, (dict, list)) else [(value, below)]
            )
    return found


NUMBERS = (
    st.integers() | st.floats() | st.sampled_from([2**63, -(2**63), 2**64, 10**400, -0.0, 1e308])
)
TEXTS = st.sampled_from(["a", "b", "c", "a->b", "b->a", "default", "partial", *HOSTILE]) | st.text()
ANYTHING = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(TEXTS, below, max_size=3),
    max_leaves=6,
)


def retyped(value):
    """Return values that say the same, more or less, in another type."""
    if isinstance(value, bool) or value is None:
        return [int(bool(value)), str(value), []]
    if isinstance(value, (int, float)):
        near = [float(value), value + 0.5] if abs(value) < 2**64 else [0.5]
        return [*near, str(value), -value, bool(value), [value], None]
    if isinstance(value, str):
        return [[value], {value: value}, value.upper(), value + " ", None, 0]
    if isinstance(value, list):
        return [dict.fromkeys("ab", value), value[::-1], value * 2, [value], None, {}]
    return [list(value), [*map(list, value.items())], list(value.values()), [value], None, ""]


@st.composite
def mutated(draw, documents=(FULL, OLD)):
    document = copy.deepcopy(draw(st.sampled_from(documents)))
    for _ in range(draw(st.integers(1, 3))):
        nodes = places(document)
        if not nodes:
            break
        holder, key = draw(st.sampled_from(nodes))
        kind = draw(st.sampled_from(["delete", "replace", "retype", "duplicate", "rename", "move"]))
        if kind == "delete":
            del holder[key]
        elif kind == "replace":
            holder[key] = draw(ANYTHING)
        elif kind == "retype":
            holder[key] = draw(st.sampled_from(retyped(holder[key])))
        elif kind == "move":
            other, there = draw(st.sampled_from(nodes))
            holder[key] = copy.deepcopy(other[there])
        elif isinstance(holder, list):
            holder.insert(key, copy.deepcopy(holder[key]))
        else:
            name = draw(TEXTS)
            holder[name] = copy.deepcopy(holder[key])
            if kind == "rename" and name != key:
                del holder[key]
    return document


@pytest.mark.parametrize("document", [FULL, OLD], ids=["full", "old"])
def test_the_documents_that_are_mutated_load(document):
    assert loads_whole_or_is_refused(json.dumps(document)) is not None


@given(mutated())
def test_a_mutated_document_loads_whole_or_is_refused(document):
    loads_whole_or_is_refused(json.dumps(document))


@pytest.mark.parametrize("document", [FULL, OLD], ids=["full", "old"])
def test_a_document_that_lacks_or_repeats_any_node_loads_whole_or_is_refused(document):
    for i in range(len(places(document))):
        for change in ("delete", "null", "duplicate"):
            changed = copy.deepcopy(document)
            holder, key = places(changed)[i]
            if change == "delete":
                del holder[key]
            elif change == "null":
                holder[key] = None
            elif isinstance(holder, list):
                holder.append(holder[key])
            else:
                holder["again"] = holder[key]
            loads_whole_or_is_refused(json.dumps(changed))


@pytest.mark.parametrize("document", [FULL, OLD], ids=["full", "old"])
def test_every_truncated_document_is_refused(document):
    text = json.dumps(document)
    for end in range(len(text)):
        with pytest.raises(ProfileError, match=r"^not JSON: "):
            Profile.loads(text[:end])


@given(st.binary(max_size=200))
def test_random_bytes_are_refused(content):
    for found in (content, b"", b"\xef\xbb\xbf", b"\xff\xfe", bytes(4), b"{}", b"null"):
        with pytest.raises(ProfileError):
            Profile.loads(found)


@given(st.data())
def test_a_document_with_damaged_bytes_loads_whole_or_is_refused(data):
    content = json.dumps(data.draw(st.sampled_from([FULL, OLD]))).encode()
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(content)))
        length = data.draw(st.integers(0, 20))
        content = content[:start] + data.draw(st.binary(max_size=4)) + content[start + length :]
    loads_whole_or_is_refused(content)


@pytest.mark.parametrize(
    "number", ["1" * 5000, "-" + "1" * 5000, "1" * 400, "1e999", "-1e999", "1e-999"]
)
@pytest.mark.parametrize("quoted", ["40", "64", "1.5", "45.2", "42", "4", "2", "1", "2.5", "7"])
def test_a_huge_number_anywhere_loads_whole_or_is_refused(number, quoted):
    text = json.dumps(FULL)
    for before, after in ((": ", ","), (": ", "}"), ("[", ","), (", ", "]")):
        place = f"{before}{quoted}{after}"
        if place in text:
            loads_whole_or_is_refused(text.replace(place, f"{before}{number}{after}", 1))


PARAMETERS = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text() | st.complex_numbers() | st.binary(max_size=3),
    lambda below: (
        st.lists(below, max_size=3)
        | st.tuples(below, below)
        | st.dictionaries(st.text(max_size=3) | st.integers(0, 9), below, max_size=3)
    ),
    max_leaves=10,
)


@given(PARAMETERS)
def test_any_config_is_saved_and_loaded(value):
    profile = Profile(
        Config(value=value, n=1), FULL["dag_structure"], DAGMetrics([], [], {}, {}, 1.0)
    )
    saved = profile.dumps()
    json.loads(saved, parse_constant=refuse)
    assert Profile.loads(saved) == profile
    loads_whole_or_is_refused(saved)


# Two halves of one character become that character on the way through JSON.
NAMES = (
    st.sampled_from(HOSTILE) | st.text(st.characters(exclude_categories=[]), max_size=9)
).filter(lambda name: "->" not in name and name == json.loads(json.dumps(name)))


@given(st.lists(NAMES, min_size=1, max_size=5, unique=True), st.data())
def test_hostile_names_are_saved_and_loaded_in_every_place(names, data):
    field = data.draw(NAMES)
    edges = list(zip(names, names[1:]))
    keys = [f"{source}->{target}" for source, target in edges]
    assume(keys == json.loads(json.dumps(keys)))
    profile = Profile(
        Config(**{field: field}),
        {
            "nodes": names,
            "edges": [{"source": source, "target": target} for source, target in edges],
            "execution_order": names,
        },
        DAGMetrics(
            [TaskMetrics(name, 1.5, 0.25, 0.0, 0, 1) for name in names],
            [EdgeMetrics(*edge, [field], 1, 2, {field: {"size_bytes": 1}}) for edge in edges],
            {name: i for i, name in enumerate(names)},
            dict.fromkeys(keys, 8),
            4.5,
        ),
        hostname=field,
        sections={
            "run": {"state": "partial", "reason": names[0]},
            "timeline": {
                "workers": [{"host": field}],
                "columns": ["task", "round", "worker"],
                "records": [[name, 0, 0] for name in names],
            },
        },
    )
    loaded = loads_whole_or_is_refused(profile.dumps())
    assert loaded == profile
    assert loaded.dag_structure["nodes"] == names
    assert loaded.metrics == profile.metrics
