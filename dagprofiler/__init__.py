"""dagprofiler: what each task of a DAG costs, and what each edge carries.

The function :func:`task` hides the submodule ``dagprofiler.task`` as an
attribute of this package; ``from dagprofiler.task import Task`` works.
"""

from typing import TYPE_CHECKING, Any

from dagprofiler._document import Calibration
from dagprofiler._document.rounds import Rounds
from dagprofiler._version import __version__
from dagprofiler.config import Config
from dagprofiler.dag import DAG, ORDER_ONLY
from dagprofiler.decorators import task
from dagprofiler.engine.hooks import Hook, Tracer
from dagprofiler.errors import (
    CostModelError,
    CycleError,
    DagProfilerError,
    DagProfilerWarning,
    DeclarationError,
    FormatError,
    GraphError,
    JournalError,
    MissingExtraError,
    OutputError,
    ProfileError,
    RunError,
    SerializationError,
    TaskTimeoutError,
    TraceError,
    ValidationError,
    WeightError,
    WorkerError,
)
from dagprofiler.metrics import DAGMetrics, EdgeMetrics, TaskMetrics
from dagprofiler.profile import Profile
from dagprofiler.task import Task

if TYPE_CHECKING:
    from dagprofiler.analysis.critical_path import Analysis, analyze
    from dagprofiler.analysis.weights import Weights
    from dagprofiler.engine.progress import Progress
    from dagprofiler.executors import Executor
    from dagprofiler.executors.celery import CeleryExecutor
    from dagprofiler.executors.dask import DaskExecutor
    from dagprofiler.executors.pools import PoolExecutor
    from dagprofiler.executors.ray import RayExecutor
    from dagprofiler.experiments import RunComparison, calibrate_engine, compare_runs, sweep
    from dagprofiler.formats import import_profile
    from dagprofiler.journal import Journal
    from dagprofiler.measure.calibrate import calibrate
    from dagprofiler.measure.meters import Meter
    from dagprofiler.measure.random import rng
    from dagprofiler.predict import fit, simulate
    from dagprofiler.rules import Rule, Rules, map_over, reduce, rule
    from dagprofiler.tracing import span, trace

__all__ = [
    "DAG",
    "ORDER_ONLY",
    "Analysis",
    "Calibration",
    "CeleryExecutor",
    "Config",
    "CostModelError",
    "CycleError",
    "DAGMetrics",
    "DagProfilerError",
    "DagProfilerWarning",
    "DaskExecutor",
    "DeclarationError",
    "EdgeMetrics",
    "Executor",
    "FormatError",
    "GraphError",
    "Hook",
    "Journal",
    "JournalError",
    "Meter",
    "MissingExtraError",
    "OutputError",
    "PoolExecutor",
    "Profile",
    "ProfileError",
    "Progress",
    "RayExecutor",
    "Rounds",
    "Rule",
    "Rules",
    "RunComparison",
    "RunError",
    "SerializationError",
    "Task",
    "TaskMetrics",
    "TaskTimeoutError",
    "TraceError",
    "Tracer",
    "ValidationError",
    "WeightError",
    "Weights",
    "WorkerError",
    "__version__",
    "analyze",
    "calibrate",
    "calibrate_engine",
    "compare_runs",
    "fit",
    "import_profile",
    "map_over",
    "reduce",
    "rng",
    "rule",
    "simulate",
    "span",
    "sweep",
    "task",
    "trace",
]

#: Modules that are imported when one of these names is used: a program that only runs needs none.
_LATER = {
    "analysis.critical_path": ("Analysis", "analyze"),
    "analysis.weights": ("Weights",),
    "engine.progress": ("Progress",),
    "executors": ("Executor",),
    "executors.celery": ("CeleryExecutor",),
    "executors.dask": ("DaskExecutor",),
    "executors.pools": ("PoolExecutor",),
    "executors.ray": ("RayExecutor",),
    "experiments": ("RunComparison", "calibrate_engine", "compare_runs", "sweep"),
    "formats": ("import_profile",),
    "journal": ("Journal",),
    "measure.calibrate": ("calibrate",),
    "measure.meters": ("Meter",),
    "measure.random": ("rng",),
    "predict": ("fit", "simulate"),
    "rules": ("Rule", "Rules", "map_over", "reduce", "rule"),
    "tracing": ("span", "trace"),
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    for module, names in _LATER.items():
        if name in names:
            value = getattr(import_module(f"{__name__}.{module}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
