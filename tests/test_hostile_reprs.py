"""Whatever is given where something else is expected: it is refused, in a short message."""

from __future__ import annotations

import io
import json

import pytest

from dagprofiler import (
    DAG,
    Config,
    DagProfilerError,
    Journal,
    Profile,
    Rounds,
    Rule,
    RunError,
    Task,
    analyze,
    calibrate,
    compare_runs,
    count,
    import_profile,
    map_over,
    reduce,
    task,
    trace,
    when_output,
)
from dagprofiler.decorators import dag as make_dag
from dagprofiler.errors import describe, did_you_mean, json_path, short_repr
from dagprofiler.executors.pools import PoolExecutor
from dagprofiler.tracer import Tracer

MOST = 2000


class Raising:
    """Says nothing of itself."""

    def __repr__(self):
        raise ValueError("not telling")

    __str__ = __repr__


class Huge:
    def __repr__(self):
        return "x" * 10_000_000


class Rude:
    """Breaks lines, colours the terminal, and cannot be encoded."""

    def __repr__(self):
        return "a\nb\x1b[31m\ud800"


class NoText:
    def __repr__(self):
        return 3


HOSTILE = [Raising, Huge, Rude, NoText]
