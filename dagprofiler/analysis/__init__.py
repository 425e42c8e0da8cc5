"""Analyses of a profile's data: weights, comparison, critical path, communication."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dagprofiler.analysis._analyze import Analysis, analyze
    from dagprofiler.analysis._paths import Bottleneck, Paths
    from dagprofiler.analysis._spans import CriticalSpan, CriticalSpans

__all__ = ["Analysis", "Bottleneck", "CriticalSpan", "CriticalSpans", "Paths", "analyze"]


def __getattr__(name: str) -> Any:
    # Profiles need weights and comparisons; the rest is imported on first use.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from dagprofiler.analysis import _analyze

    return getattr(_analyze, name)
