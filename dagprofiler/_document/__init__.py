"""ProfileData: the attributes of a profile that analyses read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dagprofiler.config import Config
    from dagprofiler.metrics import DAGMetrics


class ProfileData(Protocol):
    """A profile as data; see :class:`~dagprofiler.Profile` for the attributes."""

    config: Config
    seed: int | None
    timestamp: str | None
    hostname: str | None
    metadata: dict[str, Any]

    @property
    def name(self) -> str | None:
        """What the profile is of, if that is known."""

    @property
    def dag_structure(self) -> dict[str, Any]:
        """``nodes``, ``edges`` and ``execution_order``."""

    @property
    def metrics(self) -> DAGMetrics:
        """Metrics of tasks and edges."""

    @property
    def sections(self) -> Mapping[str, Any]:
        """The sections of the document that have no attribute of their own."""
