"""predict: what another configuration, another number of workers or a schedule would take.

:func:`fit` finds cost models in profiles of several configurations, and
:meth:`CostModels.predict` makes a profile of another one. :func:`simulate` runs a profile on
workers that an :class:`Engine` describes, without running a task.
"""

from dagprofiler.predict._engine import Engine
from dagprofiler.predict._fit import CostModel, CostModels, fit
from dagprofiler.predict._simulate import CALIBRATE as CALIBRATE
from dagprofiler.predict._simulate import Simulation, simulate

__all__ = ["CostModel", "CostModels", "Engine", "Simulation", "fit", "simulate"]
