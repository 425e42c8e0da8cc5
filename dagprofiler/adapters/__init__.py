"""Adapters: graphs of other libraries as tasks and edges, one file a library.

:class:`~dagprofiler.DAG` calls them: ``DAG.from_functions``, ``DAG.from_networkx``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dagprofiler.task import Task

__all__ = ["Converted"]


class Converted(NamedTuple):
    """A graph of another library, as the arguments of a DAG.

    Attributes
    ----------
    tasks
        Name to task.
    edges
        ``(source, target, fields)`` each.
    unknown
        What the other library's graph cannot give, to the reason; the profile holds these in
        ``environment.not_measured``.
    """

    tasks: Mapping[str, Task]
    edges: list[Any]
    unknown: Mapping[str, str]
