"""predict: what another configuration, another number of workers or a schedule would take.

:func:`fit` finds cost models in profiles of several configurations, and
:meth:`CostModels.predict` makes a profile of another one. :func:`simulate` runs a profile on
workers that an :class:`Engine` describes, without running a task.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dagprofiler.predict._engine import Engine, busy_gap_ms
    from dagprofiler.predict._fit import CostModel, CostModels, fit
    from dagprofiler.predict._simulate import Simulation, simulate

__all__ = ["CostModel", "CostModels", "Engine", "Simulation", "busy_gap_ms", "fit", "simulate"]

_PLACES = {
    "CostModel": "_fit",
    "CostModels": "_fit",
    "Engine": "_engine",
    "busy_gap_ms": "_engine",
    "Simulation": "_simulate",
    "fit": "_fit",
    "simulate": "_simulate",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
