"""Any profile comes back as it was; a document of anybody loads whole, or is refused."""

import copy
import json
from functools import reduce
from operator import getitem
from pathlib import Path

from handmade import handmade, paths, strict
from hypothesis import assume, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from dagprofiler import Config, EdgeMetrics, Profile, ProfileError, TaskMetrics
from dagprofiler._document.references import check_references
from dagprofiler.schema import PROFILE_SCHEMA, inlined_schema, quick_valid, validate_profile

DATA = Path(__file__).parent / "data"
#: Documents with every section that there is, and as 0.1.0 wrote them.
DOCUMENTS = [
    json.loads((DATA / f"{name}.json").read_text())
    for name in ("complete-profile", "profile-of-0.1.0")
]
SPECIAL = ["", '"', "\\", "\r\n", "\x00", "\u2028", "\ufeff", "\ud800", "NaN", "%s{0}", "self"]

NUMBERS = st.integers() | st.floats() | st.sampled_from([2**63, 10**400, -0.0, 1e308])
TEXTS = st.sampled_from(["a", "b", "a->b", "partial", *SPECIAL]) | st.text()
ANYTHING = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(TEXTS, below, max_size=3),
    max_leaves=6,
)
# Two halves of one character become that character on the way through JSON.
NAMES = (st.sampled_from(SPECIAL) | st.text(max_size=9)).filter(
    lambda name: "->" not in name and name == json.loads(json.dumps(name))
)


def check_whole(profile):
    """Assert that a profile is valid, and comes back as it was."""
    document, saved = profile.to_dict(), profile.dumps()
    assert validate_profile(document)
    check_references(document)
    assert strict(saved) == document
    again = Profile.loads(saved)
    assert again == profile
    assert again.dumps() == saved
    assert str(again) == str(profile)


@st.composite
def mutated(draw):
    document = copy.deepcopy(draw(st.sampled_from(DOCUMENTS)))
    for _ in range(draw(st.integers(1, 3))):
        places = list(paths(document))
        *above, key = draw(st.sampled_from(places))
        holder = reduce(getitem, above, document)
        kind = draw(st.sampled_from(["delete", "replace", "move"]))
        if kind == "replace":
            holder[key] = draw(ANYTHING)
        elif kind == "move":
            other = draw(st.sampled_from(places))
            holder[key] = copy.deepcopy(reduce(getitem, other, document))
        else:
            del holder[key]
        assume(document)
    return document


@given(mutated())
def test_a_mutated_document_loads_whole_or_is_refused(document):
    text = json.dumps(document)
    if quick_valid(document, inlined_schema()):
        assert Draft202012Validator(PROFILE_SCHEMA).is_valid(document)
    try:
        profile = Profile.loads(text)
    except ProfileError as error:
        profile, refusal = None, error
    if profile is None:
        assert refusal.path.startswith("$")
        assert len(str(refusal)) < 5000
    else:
        check_whole(profile)


@given(st.lists(NAMES.filter(str.isprintable), min_size=1, max_size=5, unique=True), st.data())
def test_any_names_texts_and_parameters_come_back(names, data):
    field, parameter = data.draw(NAMES), data.draw(ANYTHING | st.complex_numbers() | st.binary())
    edges = list(zip(names, names[1:]))
    keys = [f"{source}->{target}" for source, target in edges]
    assume(keys == json.loads(json.dumps(keys)))
    timeline = {"workers": [{"host": field}], "columns": ["task", "round", "worker"]}
    timeline["records"] = [[name, 0, 0] for name in names]
    profile = handmade(
        names,
        [EdgeMetrics(*edge, [field], 1, 2, {field: {"size_bytes": 1}}) for edge in edges],
        times=[TaskMetrics(name, 1.5, 0.25, 0.0, 0, 1) for name in names],
        weights={name: i for i, name in enumerate(names)},
        config=Config(**{field: parameter}),
        hostname=field,
        sections={"run": {"state": "partial", "reason": names[0]}, "timeline": timeline},
    )
    check_whole(profile)
    loaded = Profile.loads(profile.dumps())
    assert loaded.dag_structure["nodes"] == names
    assert loaded.metrics == profile.metrics
