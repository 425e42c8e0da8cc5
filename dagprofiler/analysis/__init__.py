"""Analyses of a profile's data: weights, comparison, critical path, communication."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dagprofiler.analysis._analyze import Analysis, analysis_of, analyze
    from dagprofiler.analysis._paths import Bottleneck, CriticalSpan, CriticalSpans, Paths

__all__ = [
    "Analysis",
    "Bottleneck",
    "CriticalSpan",
    "CriticalSpans",
    "Paths",
    "analysis_of",
    "analyze",
]

#: Imported at their first use: a profile needs weights and comparisons only.
_LATER = {
    "Analysis": "_analyze",
    "Bottleneck": "_paths",
    "CriticalSpan": "_paths",
    "CriticalSpans": "_paths",
    "Paths": "_paths",
    "analysis_of": "_analyze",
    "analyze": "_analyze",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
