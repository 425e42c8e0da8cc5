"""The JSON Schema of a profile document, and the check against it.

The schema is the file ``profile.schema.json`` of this package: the contract with readers and
writers in any language. ``metadata.schema_version`` counts our extensions of the standard's format:

* absent: 0.1.0, and programs that know only the standard;
  :func:`upgrade` brings them up to date when they are loaded.
* 1: names are the task's name in the DAG throughout; the optional sections
  ``run``, ``edge_metrics``, ``weight_sources``, ``samples``, ``statistics``,
  ``timeline``, ``spans``, ``environment``, ``prediction``, ``engine``, ``schedule``.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from dagprofiler._document.quick import first_problem, load_schema
from dagprofiler._util import JsonObject
from dagprofiler._util.json import mapping_in
from dagprofiler._version import SCHEMA_VERSION
from dagprofiler.errors import ProfileError

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
