import json
import math
import re
from functools import reduce
from operator import getitem
from pathlib import Path

import pytest
from handmade import paths
from jsonschema import Draft202012Validator

from dagprofiler._document.rounds import MOMENTS
from dagprofiler.errors import ProfileError, json_path
from dagprofiler.schema import (
    _AT_ONCE,
    PROFILE_SCHEMA,
    SCHEMA_VERSION,
    inlined_schema,
    quick_valid,
    validate_profile,
)

DATA = Path(__file__).parent / "data"
#: Every section and every field that the schema knows.
COMPLETE = (DATA / "complete-profile.json").read_text()


@pytest.fixture
def document():
    return json.loads(COMPLETE)


def put(document, path, value):
    """Set what is at `path` of `document`."""
    reduce(getitem, path[:-1], document)[path[-1]] = value


def refusal(document):
    with pytest.raises(ProfileError) as caught:
        validate_profile(document)
    return caught.value


def subschemas(schema):
    yield schema
    children = [*schema.get("properties", {}).values(), *schema.get("prefixItems", [])]
    for child in (*children, schema.get("items"), schema.get("additionalProperties")):
        if isinstance(child, dict):
            yield from subschemas(child)


def test_the_schema_describes_fields_with_units():
    assert PROFILE_SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator.check_schema(PROFILE_SCHEMA)
    assert json.loads(json.dumps(PROFILE_SCHEMA, allow_nan=False)) == PROFILE_SCHEMA
    # What 0.1.0 required, and nothing else.
    sections = ["metadata", "configuration", "dag_structure", "node_weights", "edge_weights"]
    assert PROFILE_SCHEMA["required"] == sections
    described = {"_ms": 0, "_bytes": 0}
    for schema in subschemas(inlined_schema()):
        assert schema["description"]
        for name, field in schema.get("properties", {}).items():
            for suffix, unit in (("_ms", "millisecond"), ("_bytes", "in bytes")):
                if name.endswith(suffix):
                    assert unit in field["description"]
                    described[suffix] += 1
    assert all(described.values())


@pytest.mark.parametrize("name", ["readme-sample", "standard-sample", "complete-profile"])
def test_samples_are_surely_valid_and_jsonschema_agrees(name):
    sample = json.loads((DATA / f"{name}.json").read_text())
    assert quick_valid(sample, inlined_schema())
    Draft202012Validator(PROFILE_SCHEMA).validate(sample)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("metadata", "timestamp"), "2025-01-30T17:45:00.123456"),
        (("metadata", "seed"), -7),
        (("metadata", "seed"), 2**63 - 1),
        (("metadata", "extra"), {"any": "thing"}),
        (("extents",), {"a later": "version's"}),
        (("execution_metrics", 0, "loop_idx"), "whatever"),
        (("node_weights", "a"), 2**63 - 1),
        (("edge_weights", "a->b"), 2**63 - 1),
        (("total_time_ms",), 10**30),
        (("configuration", "N"), math.nan),
        (("configuration", "N"), [math.inf, 10**400, -1]),
        (("environment", "cores"), None),
        (("run", "overhead"), {"something_ms": 1.5}),
    ],
)
def test_allowed_values_take_the_quick_way_and_jsonschema_agrees(document, path, value):
    put(document, path, value)
    assert quick_valid(document, inlined_schema())
    assert validate_profile(document)
    assert Draft202012Validator(PROFILE_SCHEMA).is_valid(document)


@pytest.mark.parametrize("length", [_AT_ONCE - 1, _AT_ONCE, _AT_ONCE + 1, 3 * _AT_ONCE])
def test_every_value_of_a_long_column_counts(length):
    schema = {"type": "array", "items": {"type": "integer", "minimum": 0}}
    column = [1] * length
    assert quick_valid(column, schema)
    for i in (0, length // 2, length - 1):
        for wrong in (-1, math.nan, True):
            assert not quick_valid([*column[:i], wrong, *column[i + 1 :]], schema)


#: A value that is not allowed at a place, and what is said of it.
WRONG = {
    "$.metadata": ([], "'object'"),
    "$.metadata.timestamp": (3, "'string'"),
    "$.metadata.seed": (2**63, f"maximum of {2**63 - 1}"),
    "$.metadata.schema_version": (0, "minimum of 1"),
    "$.edge_weights['a->b']": (-8, "minimum of 0"),
    "$.node_weights.a": (True, "'integer'"),
    "$.node_weights.b": (math.nan, "not of type"),
    "$.node_weights.c": (10**400, "'integer'"),
    "$.execution_metrics[1].bytes_in": (1.5, "'integer'"),
    "$.execution_metrics[0].compute_time_ms": (None, "'number'"),
    "$.total_time_ms": (math.inf, "not of type"),
    "$.run.tasks.c.state": ("succeeded", "'failed', 'skipped', 'cancelled'"),
    "$.timeline.columns[0]": ("name", "'task'"),
    "$.timeline.columns[3]": ("ended_ms", f"is not one of {[*MOMENTS]}"),
    "$.timeline.records[1][4]": (math.nan, "not of type"),
    "$.timeline.records[1]": (["a"], "too short"),
    "$.edge_metrics.records[0][3].x.wire_bytes": (-1, "minimum of 0"),
    "$.environment.calibration.score": (0.0, "0.0 is less than"),
    "$.weight_sources.a.wall_time_ms": ("fast", "'number', 'null'"),
}


@pytest.mark.parametrize("where", WRONG)
def test_a_wrong_value_is_named_with_its_place(document, where):
    value, says = WRONG[where]
    put(document, next(path for path in paths(document) if json_path(path) == where), value)
    assert not quick_valid(document, inlined_schema())
    error = refusal(document)
    assert error.path == where
    assert error.message.startswith(repr(value)[:99])
    assert says in error.message
    assert len(error.message) < 400
    assert str(error) == f"{where}: {error.message}"


@pytest.mark.parametrize("version", [2, 99, 2.0])
def test_newer_schema_versions_ask_for_an_upgrade(document, version):
    for none in (True, "2", None, math.nan):
        document["metadata"]["schema_version"] = none
        error = refusal(document)
        assert error.path == "$.metadata.schema_version"
        assert "upgrade" not in error.message
    document["metadata"]["schema_version"] = version
    document["node_weights"] = "of a shape that this version does not know"
    error = refusal(document)
    assert error.path == "$.metadata.schema_version"
    assert re.search(rf"version {version}, .* up to {SCHEMA_VERSION}; upgrade", error.message)
