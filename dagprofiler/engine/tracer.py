"""Tracer: a hook that selects the functions to record inside the tasks of a run."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING

from dagprofiler.engine.hooks import Hook
from dagprofiler.errors import TraceError, short_repr
from dagprofiler.tracing.collection import FLOOR_MS, SPANS_OF_A_TASK, Tracing
from dagprofiler.tracing.functions import FunctionCollector

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType


class Tracer(Hook):
    """Records the functions of modules inside the tasks of a run, without annotations.

    Functions and blocks annotated with ``@trace`` or ``span()`` are recorded in every run,
    unless tracing is switched off. With a Tracer they are always recorded.

    Parameters
    ----------
    functions
        Modules, or their names, whose functions are recorded; a package includes all its
        modules.
    floor_ms
        Shorter calls of these functions are not recorded, in milliseconds; at least 0.
    limit
        The number of spans of each thread of a task that a round keeps, the first ones, at
        20 bytes each; further spans are only counted.

    Raises
    ------
    TraceError
        If a module is not found or is not written in Python, or a number is out of range.

    Notes
    -----
    Uses ``sys.monitoring`` from Python 3.12 on, and ``sys.setprofile`` before, which costs
    every call of a task some tenths of a microsecond: compare such times between functions,
    not with runs without a Tracer.

    Examples
    --------
    >>> import textwrap
    >>> from dagprofiler import DAG, task
    >>> @task(outputs=["text"])
    ... def fill():
    ...     return {"text": textwrap.fill("some words")}
    >>> profile = DAG({"fill": fill}).run(hooks=[Tracer(functions=[textwrap], floor_ms=0)])
    >>> profile.sections["spans"]["labels"][-1]["name"].split(".")[-1]
    'fill'
    """

    def __init__(
        self,
        functions: Iterable[ModuleType | str] = (),
        *,
        floor_ms: float = FLOOR_MS,
        limit: int = SPANS_OF_A_TASK,
    ) -> None:
        try:
            limit = index(limit)
        except TypeError:
            raise TraceError(f"limit={short_repr(limit)}: expected a number of spans") from None
        if limit < 1:
            raise TraceError(f"limit={limit}: expected at least one span")
        places = FunctionCollector(functions, floor_ms=floor_ms).places
        self.tracing = Tracing(limit, places, float(floor_ms))
