"""What a program asks of its trace: other options, and that it is written now."""

from __future__ import annotations

import os
from dataclasses import fields, replace
from typing import Any

from dagprofiler.errors import TraceError, did_you_mean, short_repr
from dagprofiler.tracing.options import Options
from dagprofiler.tracing.process import recorder

__all__ = ["configure", "flush"]


def configure(**options: Any) -> Options:
    """Set options of the trace of this process; those that are not given stay as they are.

    Parameters
    ----------
    **options
        Fields of :class:`~dagprofiler.tracing.options.Options`.

    Returns
    -------
    Options
        Those that hold now.

    Raises
    ------
    TraceError
        If there is no such option, or a value makes no sense.

    Notes
    -----
    The options that a process begins with are those in the environment variable
    ``PERFFLOW_OPTIONS``. Where the file becomes another one, what was recorded so far is
    written to the old one.

    Examples
    --------
    >>> configure(enable=False).enable
    False
    >>> configure(enable=True).limit
    65536
    """
    known = [field.name for field in fields(Options)]
    for name in options:
        if name not in known:
            raise TraceError(
                f"option {name!r} is not known (known: {', '.join(known)})"
                f"{did_you_mean(name, known)}"
            )
    if "directory" in options:
        try:
            options["directory"] = os.path.abspath(os.fsdecode(options["directory"]))
        except TypeError as error:
            raise TraceError(
                f"directory={short_repr(options['directory'])}: expected a path"
            ) from error
    if isinstance(options.get("filename_include"), list):
        options["filename_include"] = tuple(options["filename_include"])
    recorder.configure(replace(recorder.options, **options))
    return recorder.options


def flush() -> str | None:
    """Write all that was recorded so far.

    Returns
    -------
    str or None
        Where the file is, which is strict JSON; None if there is none, since nothing was
        recorded or it cannot be written.
    """
    recorder.write()
    return recorder.path
