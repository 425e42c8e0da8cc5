"""The JSON Schema of a profile document, and the check against it.

``metadata.schema_version`` counts our extensions of the standard's format:

* absent: 0.1.0, and programs that know only the standard. Entries of
  ``execution_metrics`` may be named after the task's class.
* 1: names are the task's name in the DAG throughout; the optional sections
  ``run``, ``edge_metrics``, ``weight_sources``, ``timeline``, ``environment``.
"""

from __future__ import annotations

import reprlib
import sys
from functools import cache
from math import isfinite
from typing import TYPE_CHECKING, Any

from dagprofiler.errors import ProfileError, describe, json_path, shorten
from dagprofiler.quickcheck import surely_satisfies

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from jsonschema import Draft202012Validator

__all__ = ["PROFILE_SCHEMA", "SCHEMA_VERSION", "validate_profile"]

#: The newest ``metadata.schema_version`` that this reader knows.
SCHEMA_VERSION = 1

_MAX_INT = 2**63 - 1


def _value(kind: str | list[str], description: str, **keywords: Any) -> dict[str, Any]:
    return {"type": kind, "description": description, **keywords}


def _text(description: str, **keywords: Any) -> dict[str, Any]:
    return _value("string", description, **keywords)


def _integer(
    description: str, *, minimum: int = 0, maximum: int = _MAX_INT, null: bool = False
) -> dict[str, Any]:
    kind: str | list[str] = ["integer", "null"] if null else "integer"
    return _value(kind, description, minimum=minimum, maximum=maximum)


def _number(description: str, *, null: bool = False) -> dict[str, Any]:
    kind: str | list[str] = ["number", "null"] if null else "number"
    return _value(kind, description, minimum=0, maximum=sys.float_info.max)


def _list(description: str, items: Mapping[str, Any], **keywords: Any) -> dict[str, Any]:
    return _value("array", description, items=items, **keywords)


def _map(description: str, values: Mapping[str, Any] | bool) -> dict[str, Any]:  # noqa: FBT001
    return _value("object", description, additionalProperties=values)


def _object(
    description: str, properties: Mapping[str, Any], required: Iterable[str] = ()
) -> dict[str, Any]:
    return _value("object", description, required=[*required], properties=properties)


_METADATA = _object(
    "Where the profile comes from.",
    {
        "timestamp": _text(
            "When the run began: UTC with `Z`; without an offset (0.1.0) the host's local time.",
            format="date-time",
        ),
        "dagprofiler_version": _text("Version of the program that wrote the profile."),
        "schema_version": _integer(
            "Version of this format, counted from 1; absent in profiles of 0.1.0.", minimum=1
        ),
        "seed": _integer(
            "Seed of the run; null if it was not seeded.", minimum=-(2**63), null=True
        ),
        "hostname": _text("Host that drove the run."),
        "configuration_as_text": _list(
            "Parameters that JSON cannot hold and whose text is stored instead.",
            _text("Name of a parameter."),
        ),
    },
    ["timestamp", "dagprofiler_version"],
)

_DAG_STRUCTURE = _object(
    "The graph: tasks, edges and the order of execution.",
    {
        "nodes": _list("All tasks, each once.", _text("Name of a task in the DAG.")),
        "edges": _list(
            "All edges.",
            _object(
                "One edge.",
                {
                    "source": _text("Task that the data comes from."),
                    "target": _text("Task that the data goes to."),
                },
                ["source", "target"],
            ),
        ),
        "execution_order": _list(
            "Tasks in topological order.", _text("Name of a task in the DAG.")
        ),
    },
    ["nodes", "edges", "execution_order"],
)

_EXECUTION_METRICS = _list(
    "What each task took; over several rounds the medians.",
    _object(
        "One task.",
        {
            "task": _text("Name of the task in the DAG (in profiles of 0.1.0 often its class)."),
            "compute_time_ms": _number("Time in compute(), in milliseconds."),
            "serialize_time_ms": _number("Time to serialize the outputs, in milliseconds."),
            "deserialize_time_ms": _number("Time to deserialize the inputs, in milliseconds."),
            "bytes_in": _integer("Size of the serialized inputs, in bytes."),
            "bytes_out": _integer("Size of the serialized outputs, in bytes."),
        },
        ["task", "compute_time_ms", "bytes_in", "bytes_out"],
    ),
)

_RUN = _object(
    "How the run went.",
    {
        "state": _text(
            "complete: every task succeeded; partial: some did not.", enum=["complete", "partial"]
        ),
        "reason": _text("Why the run is partial; absent if it is complete."),
        "tasks": _map(
            "Tasks that did not succeed, by name; absent if all did.",
            _object(
                "One task that did not succeed.",
                {
                    "state": _text(
                        "failed: the task raised; skipped: something upstream failed; "
                        "cancelled: the run was stopped before the task began.",
                        enum=["failed", "skipped", "cancelled"],
                    ),
                    "error": _text("What a failed task raised: class and message."),
                },
                ["state"],
            ),
        ),
        "overhead": _map(
            "What the run did besides the tasks, by kind: `prepare_ms`, `loop_ms`, `hooks_ms`.",
            _number("Time of this kind, in milliseconds."),
        ),
        "executor": _text("Name of the executor that ran the tasks."),
        "rounds": _integer("How often the DAG was run."),
    },
    ["state"],
)

_SIZE_BYTES = _integer("Payload by the standard's counting rule, in bytes.")
_WIRE_BYTES = _integer("Payload as serialized, in bytes.")

_EDGE_METRICS = _list(
    "What each edge carried.",
    _object(
        "One edge.",
        {
            "source": _text("Task that the data comes from."),
            "target": _text("Task that the data goes to."),
            "data_fields": _list(
                "The source's outputs that travel on this edge.", _text("Name of an output.")
            ),
            "size_bytes": _SIZE_BYTES,
            "size_bits": _integer("8 x size_bytes, in bits."),
            "wire_bytes": _WIRE_BYTES,
            "fields": _map(
                "The same for each of the data_fields.",
                _object("One field.", {"size_bytes": _SIZE_BYTES, "wire_bytes": _WIRE_BYTES}),
            ),
        },
        ["source", "target", "data_fields", "size_bytes"],
    ),
)

_WEIGHT_SOURCES = _map(
    "For each task all candidates for its node weight.",
    _object(
        "One task.",
        {
            "node_weight": _text(
                "Which candidate is the node weight; `default` if none is and the 0 says nothing."
            ),
            "estimated_instructions": _integer(
                "What the task's cost model says, in instructions; null if it has none.", null=True
            ),
            "wall_time_ms": _number(
                "Measured time in compute(), in milliseconds; null if the task did not finish.",
                null=True,
            ),
            "reasons": _map(
                "Why candidates are null, by candidate.", _text("Why this one is null.")
            ),
        },
        ["node_weight"],
    ),
)

_TIMELINE = _object(
    "When each phase of each task began and ended, on one clock.",
    {
        "workers": _list(
            "Where tasks ran.",
            _object(
                "One thread of one process.",
                {
                    "host": _text("Name of the host."),
                    "pid": _integer("Process number."),
                    "thread": _integer("Thread number."),
                },
            ),
        ),
        "columns": _list(
            "What the entries of a record are, in order.",
            _text("A moment; its unit is part of the name."),
            prefixItems=[
                _text("Name of the task.", enum=["task"]),
                _text("Number of the round.", enum=["round"]),
                _text("Index into `workers`.", enum=["worker"]),
            ],
            minItems=3,
        ),
        "records": _list(
            "One record for each task and round.",
            _list(
                "Entries as `columns` says.",
                _number(
                    "Milliseconds since the run began; null for what was not reached.", null=True
                ),
                prefixItems=[
                    _text("Name of the task in the DAG."),
                    _integer("Round, counted from 0."),
                    _integer("Index into `workers`; null if no worker took the task.", null=True),
                ],
                minItems=3,
            ),
        ),
    },
    ["workers", "columns", "records"],
)

_ENVIRONMENT = _object(
    "What the run was measured on.",
    {
        "python": _text("Version of Python."),
        "implementation": _text("Implementation of Python."),
        "os": _text("Operating system and its version."),
        "machine": _text("Machine architecture."),
        "cpu": _value(["string", "null"], "Model of the processor; null if unknown."),
        "cores": _integer("Logical processors of the host; null if unknown.", null=True),
        "versions": _map(
            "Versions of packages, by name.",
            _value(["string", "null"], "Version; null if the package was not loaded."),
        ),
    },
)

PROFILE_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "DAG Execution Profile",
    **_object(
        "One execution of a DAG of tasks, measured. Sections not named here are allowed.",
        {
            "metadata": _METADATA,
            "configuration": _map("Parameters of the run, by name; any JSON.", values=True),
            "dag_structure": _DAG_STRUCTURE,
            "node_weights": _map(
                "Task name -> estimated instruction count.",
                # 0.1.0 wrote any integer that a cost model returned.
                _value(
                    "integer",
                    "In instructions; 0 for a task without a cost model. From 0 to 2**63 - 1 "
                    "where `schema_version` is present.",
                ),
            ),
            "edge_weights": _map("Edge key (src->dst) -> data size in bits.", _integer("In bits.")),
            "execution_metrics": _EXECUTION_METRICS,
            "total_time_ms": _number("Wall-clock time of the whole run, in milliseconds."),
            "run": _RUN,
            "edge_metrics": _EDGE_METRICS,
            "weight_sources": _WEIGHT_SOURCES,
            "timeline": _TIMELINE,
            "environment": _ENVIRONMENT,
        },
        ["metadata", "configuration", "dag_structure", "node_weights", "edge_weights"],
    ),
}


def validate_profile(data: Any) -> bool:
    """Check a profile document, as ``json.load`` returns it, against the schema.

    Parameters
    ----------
    data
        The document.

    Returns
    -------
    bool
        True; a document that is not valid raises.

    Raises
    ------
    ProfileError
        If the document does not satisfy ``PROFILE_SCHEMA``, holds NaN or an
        infinity in one of its number fields, or is of a newer schema version.
        Its cause is jsonschema's own ``ValidationError``.

    Notes
    -----
    Whether the document agrees with itself is for
    :func:`dagprofiler.consistency.check_consistency` to say.

    Examples
    --------
    >>> validate_profile({"metadata": []})
    Traceback (most recent call last):
    dagprofiler.errors.ProfileError: $: 'configuration' is a required property
    """
    _refuse_newer(data)
    if not _surely_valid(data):
        _judge(data)
    return True


def _refuse_newer(data: Any) -> None:
    try:
        version = data["metadata"]["schema_version"]
    except (KeyError, TypeError, IndexError):
        return
    # 2.0 is an integer to JSON Schema.
    if type(version) in (int, float) and SCHEMA_VERSION < version <= _MAX_INT:
        raise ProfileError(
            f"the profile has schema version {shorten(str(version))}, this dagprofiler reads "
            f"versions up to {SCHEMA_VERSION}; upgrade dagprofiler to read it",
            json_path(["metadata", "schema_version"]),
        )


def _judge(data: Any) -> None:
    """Raise what jsonschema has to say against `data`, if anything."""
    from jsonschema.exceptions import best_match

    try:
        error = best_match(_validator().iter_errors(data))
    except (OverflowError, RecursionError, TypeError, ValueError) as unquotable:
        # It cannot be quoted in a message: nested too deeply, or not from JSON at all.
        raise ProfileError(f"the document cannot be judged: {describe(unquotable)}") from unquotable
    if error is None:
        return
    if isinstance(error.instance, float) and not isfinite(error.instance):
        message = f"{error.instance!r} is no finite number"
    else:
        message = shorten(error.message)
    # A traceback prints the cause, and with it all of the schema and the offending instance.
    error.schema = reprlib.repr(error.schema)
    if isinstance(error.instance, (dict, list)):
        error.instance = reprlib.repr(error.instance)
    raise ProfileError(message, json_path(error.absolute_path)) from error


@cache
def _validator() -> Draft202012Validator:
    """Return a validator of the schema to which NaN and infinities are no numbers."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    checker = Draft202012Validator.TYPE_CHECKER

    def is_finite_number(_: Any, value: Any) -> bool:
        return checker.is_type(value, "number") and (
            not isinstance(value, float) or isfinite(value)
        )

    finite = checker.redefine("number", is_finite_number)
    strict = extend(Draft202012Validator, type_checker=finite)  # type: ignore[no-untyped-call]
    validator: Draft202012Validator = strict(PROFILE_SCHEMA)
    return validator


def _surely_valid(data: Any) -> bool:
    """Tell whether `data` certainly satisfies the schema; False means: ask jsonschema."""
    return surely_satisfies(data, PROFILE_SCHEMA)
