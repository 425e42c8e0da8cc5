"""Tracing: see inside tasks, and inside programs without any.

``@trace`` and ``with span(...)`` record what a program spends its time on. A plain program
gets one trace a process, which Perfetto, ``chrome://tracing`` and speedscope show; within
:func:`collecting`, spans go where they are asked for.
"""

from dagprofiler.tracing import ofruns as _ofruns  # noqa: F401  (from here on, runs record)
from dagprofiler.tracing.collecting import Collection, collecting
from dagprofiler.tracing.control import configure, flush
from dagprofiler.tracing.decorating import trace
from dagprofiler.tracing.functions import FunctionCollector
from dagprofiler.tracing.merging import Merged, merge
from dagprofiler.tracing.options import Options
from dagprofiler.tracing.perfflow import async_event, critical_path, sync_event
from dagprofiler.tracing.spans import async_span, counter, instant, span

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
