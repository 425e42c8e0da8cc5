"""dagprofiler: what each task of a DAG costs, and what each edge carries.

The function :func:`task` hides the submodule ``dagprofiler.task`` as an
attribute of this package; ``from dagprofiler.task import Task`` works.
"""

__version__ = "0.2.0"

from dagprofiler.calibration import Calibration, calibrate
from dagprofiler.config import Config
from dagprofiler.dag import DAG
from dagprofiler.decorators import task
from dagprofiler.errors import (
    CostModelError,
    CycleError,
    DagProfilerError,
    DeclarationError,
    FormatError,
    GraphError,
    MissingExtraError,
    OutputError,
    ProfileError,
    RunError,
    SerializationError,
    ValidationError,
    WeightError,
)
from dagprofiler.hooks import Hook
from dagprofiler.importers import import_profile
from dagprofiler.interleaving import RunComparison, compare_runs
from dagprofiler.meters import Meter
from dagprofiler.metrics import DAGMetrics, EdgeMetrics, TaskMetrics
from dagprofiler.profile import Profile
from dagprofiler.rounds import Rounds
from dagprofiler.seeding import rng
from dagprofiler.task import Task
from dagprofiler.weights import Weights

__all__ = [
    "DAG",
    "Calibration",
    "Config",
    "CostModelError",
    "CycleError",
    "DAGMetrics",
    "DagProfilerError",
    "DeclarationError",
    "EdgeMetrics",
    "FormatError",
    "GraphError",
    "Hook",
    "Meter",
    "MissingExtraError",
    "OutputError",
    "Profile",
    "ProfileError",
    "Rounds",
    "RunComparison",
    "RunError",
    "SerializationError",
    "Task",
    "TaskMetrics",
    "ValidationError",
    "WeightError",
    "Weights",
    "__version__",
    "calibrate",
    "compare_runs",
    "import_profile",
    "rng",
    "task",
]
