"""The JSON Schema of a profile document, and the check against it.

``metadata.schema_version`` counts our extensions of the standard's format:

* absent: 0.1.0, and programs that know only the standard. Entries of
  ``execution_metrics`` may be named after the task's class.
* 1: names are the task's name in the DAG throughout; the optional sections
  ``run``, ``edge_metrics``, ``weight_sources``, ``samples``, ``statistics``,
  ``timeline``, ``spans``, ``environment``, ``prediction``, ``engine``, ``schedule``.
"""

from __future__ import annotations

from functools import cache
from math import isfinite
from typing import TYPE_CHECKING, Any

from dagprofiler._document.sections import ProfileDocument
from dagprofiler._document.shapes import MAX_INT, doubtful, schema_of, surely_satisfies
from dagprofiler._version import SCHEMA_VERSION
from dagprofiler.errors import ProfileError, describe, json_path, one_line, shorten

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

PROFILE_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "DAG Execution Profile",
    **schema_of(ProfileDocument),
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
        True; an invalid document raises an error.

    Raises
    ------
    ProfileError
        If the document does not satisfy ``PROFILE_SCHEMA``, holds NaN or an
        infinity in one of its number fields, or is of a newer schema version.
        Its cause is jsonschema's own ``ValidationError``.

    Notes
    -----
    :func:`dagprofiler._document.checks.check_consistency` checks whether the
    document agrees with itself.

    Examples
    --------
    >>> validate_profile({"metadata": []})
    Traceback (most recent call last):
    dagprofiler.errors.ProfileError: 'configuration' is a required property
    """
    _refuse_newer(data)
    if not surely_satisfies(data, PROFILE_SCHEMA):
        _validate_doubtful(data)
    return True


def _refuse_newer(data: Any) -> None:
    try:
        version = data["metadata"]["schema_version"]
    except (KeyError, TypeError, IndexError):
        return
    # 2.0 is an integer to JSON Schema.
    if type(version) in (int, float) and SCHEMA_VERSION < version <= MAX_INT:
        raise ProfileError(
            f"the profile has schema version {shorten(str(version))}, this dagprofiler reads "
            f"versions up to {SCHEMA_VERSION}; upgrade dagprofiler to read it",
            json_path(["metadata", "schema_version"]),
        )


def _validate_doubtful(data: Any) -> None:
    """Raise the first error that jsonschema finds in `data`, if any."""
    for path, value, schema in doubtful(data, PROFILE_SCHEMA):
        try:
            error = next(_validator().evolve(schema=schema).iter_errors(value), None)
        except Exception as unquotable:
            # It cannot be quoted in a message: nested too deep, or not from JSON at all.
            raise ProfileError(
                f"cannot be checked: {describe(unquotable)}", json_path(path)
            ) from unquotable
        if error is not None:
            found, message = error.instance, one_line(error.message)
            if isinstance(found, float) and not isfinite(found):
                message = f"{found!r} is not a finite number"
            # Without jsonschema's error: with tblib, which Dask imports, causes are pickled too.
            raise ProfileError(message, json_path((*path, *error.absolute_path)))


@cache
def _validator() -> Draft202012Validator:
    """Return a validator of the schema that does not accept NaN and infinities as numbers."""
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
