"""dagprofiler: what each task of a DAG costs, and what each edge carries.

The function :func:`task` hides the submodule ``dagprofiler.task`` as an
attribute of this package; ``from dagprofiler.task import Task`` works.
"""

__version__ = "0.2.0"

from dagprofiler.config import Config
from dagprofiler.dag import DAG
from dagprofiler.decorators import task
from dagprofiler.errors import (
    CostModelError,
    CycleError,
    DagProfilerError,
    DeclarationError,
    GraphError,
    MissingExtraError,
    OutputError,
    ProfileError,
    RunError,
    SerializationError,
    ValidationError,
)
from dagprofiler.hooks import Hook
from dagprofiler.metrics import DAGMetrics, EdgeMetrics, TaskMetrics
from dagprofiler.profile import Profile
from dagprofiler.seeding import rng
from dagprofiler.task import Task

__all__ = [
    "DAG",
    "Config",
    "CostModelError",
    "CycleError",
    "DAGMetrics",
    "DagProfilerError",
    "DeclarationError",
    "EdgeMetrics",
    "GraphError",
    "Hook",
    "MissingExtraError",
    "OutputError",
    "Profile",
    "ProfileError",
    "RunError",
    "SerializationError",
    "Task",
    "TaskMetrics",
    "ValidationError",
    "__version__",
    "rng",
    "task",
]
