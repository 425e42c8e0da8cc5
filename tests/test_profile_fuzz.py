import copy
import json
from functools import reduce
from operator import getitem
from pathlib import Path

import pytest
from handmade import handmade, paths, strict
from hypothesis import assume, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from dagprofiler import Config, DAGMetrics, EdgeMetrics, Profile, ProfileError, TaskMetrics
from dagprofiler._document.quick import quick_valid
from dagprofiler._document.references import check_references
from dagprofiler._document.upgrade import upgrade
from dagprofiler.schema import PROFILE_SCHEMA, inlined_schema, validate_profile

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
    *("\udfff", '"},\n{"', '", "', "]}", "null", "NaN", "$.a[0]", "%s{}{0}", "__class__"),
    *("_params", "self", "data", "x" * 70_000),
]


def loads_whole_or_is_refused(text):
    """Load `text`; whatever loads must be right in every way, else ProfileError says where."""
    try:
        profile = Profile.loads(text)
    except ProfileError as refusal:
        profile, error = None, refusal
    if profile is None:
        assert error.path.startswith("$")
        assert str(error) == (f"{error.path}: " if error.path != "$" else "") + error.message
        assert len(str(error)) < 5000
        return None
    document = profile.to_dict()
    assert validate_profile(document)
    check_references(document)
    saved = profile.dumps()
    assert strict(saved) == document
    again = Profile.loads(saved)
    assert again == profile
    assert again.dumps() == saved
    assert (str(again), repr(again)) == (str(profile), repr(profile))
    loaded = json.loads(text)
    upgrade(loaded)
    for name in loaded.keys() - {"metadata", "configuration", "execution_metrics", "edge_metrics"}:
        assert document[name] == loaded[name]
    for name in loaded["metadata"].keys() - {"configuration_as_text"}:
        assert document["metadata"][name] == loaded["metadata"][name]
    entries = loaded.get("execution_metrics", ())
    assert [t.task for t in profile.metrics.task_metrics] == [entry["task"] for entry in entries]
    assert document["configuration"].keys() == loaded["configuration"].keys()
    return profile


def places(document):
    """Return all nodes of a document, as pairs of what holds them and where."""
    return [(reduce(getitem, above, document), last) for *above, last in paths(document)]


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
    near = [[value], {"a": value}, str(value), bool(value), None]
    if isinstance(value, (int, float)):
        return [*near, -value, value + 0.5, float(value)] if abs(value) < 2**64 else near
    if isinstance(value, str):
        return [*near, value.upper(), value + " ", 0]
    return [*near, list(value), [*value] * 2, [*value][::-1], {}, []] if value else near


@st.composite
def mutated(draw, documents=(FULL, OLD)):
    document = copy.deepcopy(draw(st.sampled_from(documents)))
    for _ in range(draw(st.integers(1, 3))):
        nodes = places(document)
        if not nodes:
            break
        holder, key = draw(st.sampled_from(nodes))
        kind = draw(st.sampled_from(["delete", "replace", "retype", "duplicate", "move"]))
        if kind == "replace":
            holder[key] = draw(ANYTHING)
        elif kind == "retype":
            holder[key] = draw(st.sampled_from(retyped(holder[key])))
        elif kind == "move":
            other, there = draw(st.sampled_from(nodes))
            holder[key] = copy.deepcopy(other[there])
        elif kind == "delete":
            del holder[key]
        elif isinstance(holder, list):
            holder.insert(key, copy.deepcopy(holder[key]))
        else:
            holder[draw(TEXTS)] = copy.deepcopy(holder[key])
    return document


@pytest.mark.parametrize("document", [FULL, OLD], ids=["full", "old"])
def test_the_documents_that_are_mutated_load_and_truncated_are_refused(document):
    text = json.dumps(document)
    assert loads_whole_or_is_refused(text) is not None
    for end in range(len(text)):
        with pytest.raises(ProfileError, match=r"^not JSON: "):
            Profile.loads(text[:end])


@given(mutated())
def test_a_mutated_document_loads_whole_or_is_refused_and_the_quick_check_takes_no_wrong_one(
    document,
):
    loads_whole_or_is_refused(json.dumps(document))
    if quick_valid(document, inlined_schema()):
        assert Draft202012Validator(PROFILE_SCHEMA).is_valid(document)


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


@given(st.binary(max_size=200), ANYTHING)
def test_random_bytes_and_values_are_refused(content, value):
    for found in (content, b"", b"\xef\xbb\xbf", b"\xff\xfe", bytes(4), b"{}", b"null"):
        with pytest.raises(ProfileError):
            Profile.loads(found)
    with pytest.raises(ProfileError):
        validate_profile(value)


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
    assert Profile.loads(saved) == profile
    loads_whole_or_is_refused(saved)


# Two halves of one character become that character on the way through JSON.
NAMES = (
    st.sampled_from(HOSTILE) | st.text(st.characters(exclude_categories=[]), max_size=9)
).filter(lambda name: "->" not in name and name == json.loads(json.dumps(name)))


@given(st.lists(NAMES.filter(str.isprintable), min_size=1, max_size=5, unique=True), st.data())
def test_hostile_texts_are_saved_and_loaded_in_every_place(names, data):
    field = data.draw(NAMES)
    edges = list(zip(names, names[1:]))
    keys = [f"{source}->{target}" for source, target in edges]
    assume(keys == json.loads(json.dumps(keys)))
    carried = [EdgeMetrics(*edge, [field], 1, 2, {field: {"size_bytes": 1}}) for edge in edges]
    times = [TaskMetrics(name, 1.5, 0.25, 0.0, 0, 1) for name in names]
    weights = {name: i for i, name in enumerate(names)}
    timeline = {"workers": [{"host": field}], "columns": ["task", "round", "worker"]}
    timeline["records"] = [[name, 0, 0] for name in names]
    sections = {"run": {"state": "partial", "reason": names[0]}, "timeline": timeline}
    known = {"config": Config(**{field: field}), "hostname": field, "sections": sections}
    profile = handmade(names, carried, times=times, weights=weights, **known)
    loaded = loads_whole_or_is_refused(profile.dumps())
    assert loaded == profile
    assert loaded.dag_structure["nodes"] == names
    assert loaded.metrics == profile.metrics
