"""Tracing: see inside tasks, and inside programs without any.

``@trace`` and ``with span(...)`` record what a program spends its time on. A plain program
gets one trace a process, which Perfetto, ``chrome://tracing`` and speedscope show; within
:func:`collecting`, spans go where they are asked for.
"""

from dagprofiler.tracing import runs as _runs  # noqa: F401  (it tells runs where spans go)
from dagprofiler.tracing._decorators import trace
from dagprofiler.tracing._merge import Merged, merge
from dagprofiler.tracing._options import Options
from dagprofiler.tracing._perfflow import async_event, critical_path, sync_event
from dagprofiler.tracing._process import configure, flush
from dagprofiler.tracing._spans import async_span, counter, instant, span
from dagprofiler.tracing.collection import Collection, collecting
from dagprofiler.tracing.functions import FunctionCollector

__all__ = [
    "Collection",
    "FunctionCollector",
    "Merged",
    "Options",
    "async_event",
    "async_span",
    "collecting",
    "configure",
    "counter",
    "critical_path",
    "flush",
    "instant",
    "merge",
    "span",
    "sync_event",
    "trace",
]
