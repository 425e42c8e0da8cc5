"""The JSON Schema of a profile document, and the check against it.

The schema is the file ``profile.schema.json`` of this package: the contract with readers and
writers in any language. ``metadata.schema_version`` counts our extensions of the standard's format:

* absent: 0.1.0, and programs that know only the standard;
  :func:`upgrade` brings them up to date when they are loaded.
* 1: names are the task's name in the DAG throughout; the optional sections
  ``run``, ``edge_metrics``, ``weight_sources``, ``samples``, ``statistics``,
  ``timeline``, ``spans``, ``environment``, ``prediction``, ``engine``, ``schedule``.

:func:`quick_valid` compares documents with a schema, a column at a time: all values that one field
has anywhere in the document go together through builtins that loop in C. That takes a fraction of
the time of ``json.loads``; jsonschema, which is asked about what is not certainly valid, takes 20
times as long.
"""

from __future__ import annotations

import json
from functools import cache, partial
from importlib.resources import files
from itertools import chain
from math import inf, isfinite
from operator import itemgetter
from sys import float_info
from typing import TYPE_CHECKING, Any

from dagprofiler._util import JsonObject
from dagprofiler._util.json import mapping_in
from dagprofiler._version import SCHEMA_VERSION
from dagprofiler.errors import ProfileError, json_path, one_line

if TYPE_CHECKING:
    #: The schema, as JSON Schema draft 2020-12; read at its first use.
    PROFILE_SCHEMA: JsonObject

__all__ = ["PROFILE_SCHEMA", "SCHEMA_VERSION", "validate_profile"]


def __getattr__(name: str) -> Any:
    if name == "PROFILE_SCHEMA":
        return _schema()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


#: The largest weight that the schema allows.
_MOST = 2**63 - 1


@cache
def _schema() -> JsonObject:
    text = (files("dagprofiler") / "profile.schema.json").read_text("utf-8")
    schema: JsonObject = json.loads(text)
    return schema


def inlined_schema() -> JsonObject:
    """Return ``PROFILE_SCHEMA`` without references, for :func:`quick_valid`."""
    return load_schema("dagprofiler", "profile.schema.json")


def validate_profile(data: Any) -> bool:
    """Check a profile document, as ``json.load`` returns it, against the schema.

    Parameters
    ----------
    data
        The document.

    Returns
    -------
    bool
        True; an invalid document raises an error.

    Raises
    ------
    ProfileError
        If the document does not satisfy ``PROFILE_SCHEMA``, holds NaN or an
        infinity in one of its number fields, or is of a newer schema version.

    Notes
    -----
    :func:`dagprofiler._document.references.check_references` checks whether the tasks, edges and
    rows that the document refers to exist.

    Examples
    --------
    >>> validate_profile({"metadata": []})
    Traceback (most recent call last):
    dagprofiler.errors.ProfileError: 'configuration' is a required property
    """
    _refuse_newer(data)
    problem = first_problem(data, inlined_schema())
    if problem is not None:
        raise problem
    return True


def upgrade(document: Any) -> None:
    """Bring a document without a schema version up to date, in place.

    Parameters
    ----------
    document
        What :func:`json.loads` returned, not yet checked.

    Notes
    -----
    Version 0.1.0 listed some edges twice, wrote weights of any size, and named entries of
    ``execution_metrics`` after the classes of tasks, one for each place of the execution order.
    Entries that belong to no task are moved to the section ``unassigned_metrics``. A document
    that is not of the standard's shape stays as it is, for the schema to refuse.
    """
    try:
        metadata, structure = document["metadata"], document["dag_structure"]
        if "schema_version" in metadata:
            return
        edges = {(edge["source"], edge["target"]): edge for edge in structure["edges"]}
        weights = {n: min(max(w, 0), _MOST) for n, w in document["node_weights"].items()}
        entries = document.get("execution_metrics", [])
        nodes, order = structure["nodes"], structure["execution_order"]
        if len({entry["task"] for entry in entries} & {*nodes}) < len(entries):
            # 0.1.0 repeated the class for each of its tasks; only the place tells them apart.
            names = order if len(entries) == len(order) else ()
            renamed = [{**entry, "task": name} for name, entry in zip(names, entries)]
            document["execution_metrics"] = renamed
            if not renamed:
                document["unassigned_metrics"] = entries
        structure["edges"], document["node_weights"] = list(edges.values()), weights
        metadata["schema_version"] = SCHEMA_VERSION
    except (AttributeError, KeyError, TypeError):
        pass


def _refuse_newer(data: Any) -> None:
    version = mapping_in(data, "metadata").get("schema_version") if isinstance(data, dict) else None
    if isinstance(version, (int, float)) and version > SCHEMA_VERSION:
        fix = f"this one reads versions up to {SCHEMA_VERSION}; upgrade dagprofiler to read it"
        why = f"the profile has schema version {version}, {fix}"
        raise ProfileError(why, "$.metadata.schema_version")


#: Values that are checked together: few enough for the processor's cache.
_AT_ONCE = 1000

_NULL = type(None)
_NUMBERS = {int, float}

#: The Python types that ``json.load`` returns for each type. A bool is not an integer here.
_PYTHON_TYPES: dict[str, set[type]] = {
    "array": {list},
    "boolean": {bool},
    "integer": {int},
    "null": {_NULL},
    "number": _NUMBERS,
    "object": {dict},
    "string": {str},
}


@cache
def load_schema(package: str, name: str) -> JsonObject:
    """Return the JSON Schema in a file of a package, with definitions in place of references."""
    schema = json.loads((files(package) / name).read_text("utf-8"))
    whole: JsonObject = _inlined(schema, schema["$defs"])
    return whole


def _inlined(part: Any, definitions: JsonObject) -> Any:
    """Return a part of a schema with the definitions that it refers to in their places."""
    if isinstance(part, list):
        return [_inlined(item, definitions) for item in part]
    if not isinstance(part, dict):
        return part
    definition = definitions[part["$ref"].rpartition("/")[2]] if "$ref" in part else {}
    whole = {**definition, **part}
    return {key: _inlined(value, definitions) for key, value in whole.items() if key != "$ref"}


def quick_valid(data: object, schema: JsonObject) -> bool:
    """Tell whether `data` certainly satisfies `schema` and contains only finite numbers.

    Parameters
    ----------
    data
        A document as ``json.load`` returns it.
    schema
        A schema without references, with ``type`` throughout, ``items`` for arrays, ``enum``
        for strings only, either ``properties`` or ``additionalProperties`` for an object. Of
        other keywords only annotations, ``minItems``, ``maxItems``, ``minimum``,
        ``exclusiveMinimum``, ``maximum``, ``prefixItems`` and ``required``.

    Returns
    -------
    bool
        False means that only a real validator can decide.

    Notes
    -----
    Values without a schema (additional properties) are not checked.

    Examples
    --------
    >>> sizes = {"type": "integer", "minimum": 0, "maximum": 99}
    >>> schema = {"type": "object", "additionalProperties": sizes}
    >>> quick_valid({"a": 1, "b": 2}, schema), quick_valid({"a": True}, schema)
    (True, False)
    """
    try:
        return _column_valid([data], schema)
    except (IndexError, KeyError, OverflowError):
        # Something is missing, or an integer is too large to be added to a float.
        return False


def first_problem(data: object, schema: JsonObject) -> ProfileError | None:
    """Return the first way in which a document breaks a schema, or holds NaN; None for none.

    Parameters
    ----------
    data
        A document as ``json.load`` returns it.
    schema
        As :func:`quick_valid` takes it.
    """
    if quick_valid(data, schema):
        return None
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    types = Draft202012Validator.TYPE_CHECKER

    def is_finite(name: str, _: object, value: Any) -> bool:
        # Some integers are larger than any float.
        return bool(types.is_type(value, name) and abs(value) <= float_info.max)

    finite = {name: partial(is_finite, name) for name in ("number", "integer")}
    checker = types.redefine_many(finite)
    strict = extend(Draft202012Validator, type_checker=checker)  # type: ignore[no-untyped-call]
    for error in strict(schema).iter_errors(data):
        # Without jsonschema's error: with tblib, which Dask imports, causes are pickled too.
        return ProfileError(one_line(error.message), json_path(error.absolute_path))
    return None


def _column_valid(values: list[Any], schema: JsonObject) -> bool:
    if len(values) > _AT_ONCE:
        parts = (values[i : i + _AT_ONCE] for i in range(0, len(values), _AT_ONCE))
        return all(_column_valid(part, schema) for part in parts)
    kinds = set(map(type, values))
    if not kinds <= _allowed_types(schema["type"]):
        return False
    if _NULL in kinds:
        kinds.remove(_NULL)
        values = [value for value in values if value is not None]
    if not kinds or kinds == {bool}:
        return True
    if kinds <= _NUMBERS:
        return _numbers_valid(values, schema)
    if kinds == {str}:
        return "enum" not in schema or set(values) <= set(schema["enum"])
    if kinds == {dict}:
        return _objects_valid(values, schema)
    return kinds == {list} and _arrays_valid(values, schema)


def _allowed_types(names: str | list[str]) -> set[type]:
    return set().union(*(_PYTHON_TYPES[n] for n in ([names] if isinstance(names, str) else names)))


def _numbers_valid(values: list[Any], schema: JsonObject) -> bool:
    # A sum is finite only if all of it is; where there is no NaN, min() and max() are right.
    if "number" in schema["type"] and not isfinite(sum(values)):
        return False
    least, most = min(values), max(values)
    above = schema.get("minimum", -inf) <= least and schema.get("exclusiveMinimum", -inf) < least
    return bool(above and most <= schema.get("maximum", inf))


def _objects_valid(values: list[Any], schema: JsonObject) -> bool:
    for name, field in schema.get("properties", {}).items():
        try:
            column = list(map(itemgetter(name), values))
        except KeyError:
            if name in schema["required"]:
                return False
            column = [value[name] for value in values if name in value]
        if not _column_valid(column, field):
            return False
    others = schema.get("additionalProperties", True)
    rest = chain.from_iterable(map(dict.values, values))
    return others is True or _column_valid(list(rest), others)


def _arrays_valid(values: list[Any], schema: JsonObject) -> bool:
    lengths = [len(value) for value in values]
    if min(lengths) < schema.get("minItems", 0) or max(lengths) > schema.get("maxItems", inf):
        return False
    prefix = schema.get("prefixItems", ())
    for i, item in enumerate(prefix):
        if not _column_valid(list(map(itemgetter(i), values)), item):
            return False
    rest = map(itemgetter(slice(len(prefix), None)), values) if prefix else values
    return _column_valid(list(chain.from_iterable(rest)), schema["items"])
