"""Plots with matplotlib (extra ``plot``): each draws on axes, and returns them.

Without `ax` each makes a figure of a size that fits. Text and lines have the colours of the
style that is in use.
"""

from dagprofiler.plot.distributions import samples
from dagprofiler.plot.graph import dag
from dagprofiler.plot.timeline import gantt

__all__ = ["dag", "gantt", "samples"]
