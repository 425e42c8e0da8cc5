"""Analyses of a profile's data: weights, comparison, critical path, communication."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dagprofiler.analysis._analyze import (
        Analysis,
        Bottleneck,
        CriticalSpan,
        CriticalSpans,
        Paths,
        analysis_of,
        analyze,
        bounds_of,
    )

__all__ = [
    "Analysis",
    "Bottleneck",
    "CriticalSpan",
    "CriticalSpans",
    "Paths",
    "analysis_of",
    "analyze",
    "bounds_of",
]


def __getattr__(name: str) -> Any:
    """Import the analysis at its first use: a profile needs weights and comparisons only."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}._analyze"), name)
