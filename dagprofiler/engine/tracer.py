"""Tracer: a hook that says what is recorded inside the tasks of a run."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING

from dagprofiler.engine.hooks import Hook
from dagprofiler.errors import TraceError, short_repr
from dagprofiler.tracing.functions import FunctionCollector
from dagprofiler.tracing.runs import FLOOR_MS, SPANS_OF_A_TASK, Tracing

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType


class Tracer(Hook):
    """Records the functions of modules inside the tasks of a run, without annotations.

    What is annotated with ``@trace`` or ``span()`` is recorded in each run whose tasks come
    to it, unless tracing is switched off. With a Tracer it is in any case.

    Parameters
    ----------
    functions
        Modules, or their names, whose functions are recorded; a package stands for all that
        is in it.
    floor_ms
        Calls of these that take less leave nothing, in milliseconds; at least 0.
    limit
        How many spans of each thread of a task are kept in a round, the first ones, at 20
        bytes each; others are counted.

    Raises
    ------
    TraceError
        If a module is not found or is not written in Python, or a number makes no sense.

    Notes
    -----
    By ``sys.monitoring`` from Python 3.12 on, and ``sys.setprofile`` before, which costs
    every call of a task some tenths of a microsecond: times are then for telling functions
    apart, not for comparing with runs without.

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
            raise TraceError(f"limit={limit}: expected one span at least")
        places = FunctionCollector(functions, floor_ms=floor_ms).places
        self.tracing = Tracing(limit, places, float(floor_ms))
