"""Tracing: record what happens inside tasks, and in programs without a DAG.

``@trace`` and ``with span(...)`` record how a program spends its time. A plain program
writes one trace for each process, for Perfetto, ``chrome://tracing`` and speedscope; within
:func:`collecting`, spans go to the collection.
"""

from dagprofiler._util.interpreter import Collection, Span
from dagprofiler.tracing._events import Merged, merge
from dagprofiler.tracing._perfflow import async_event, critical_path, sync_event
from dagprofiler.tracing._recorder import Options, collecting, configure, flush
from dagprofiler.tracing._spans import async_span, counter, instant, span, trace

__all__ = [
    "Collection",
    "Merged",
    "Options",
    "Span",
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
