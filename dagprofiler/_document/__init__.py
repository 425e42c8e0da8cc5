"""ProfileData: the attributes of a profile that analyses read; Calibration, stored in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from dagprofiler._util.checks import number
from dagprofiler.config import Config
from dagprofiler.errors import ProfileError, describe, short_repr
from dagprofiler.metrics import DAGMetrics


class ProfileData(Protocol):
    """A profile as data; see :class:`~dagprofiler.Profile` for the attributes."""

    config: Config
    seed: int | None
    hostname: str | None
    metadata: dict[str, Any]

    @property
    def timestamp(self) -> str | None:
        """When the run started, as ISO 8601 text."""

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


@dataclass(frozen=True)
class Calibration:
    """How fast a machine is, relative to the reference machine.

    Attributes
    ----------
    score
        Geometric mean of the parts. A machine of score 2 is twice as fast as
        the reference: ``reference_ms = measured_ms * score``.
    parts
        Speed at each kind of work: ``python`` (a loop in the interpreter),
        ``matrix`` (products of small matrices, one core), ``memory`` (copies
        of arrays of 2 MiB).
    spread
        Half the width of the confidence interval of the score, relative to
        the score. It covers only the repeats within one calibration, 0.1 s:
        scores of one machine differ by more between processes and minutes,
        by 5 to 15 % on a virtual machine of two cores.
    kernel_version
        Scores of different versions do not compare.
    taken_at
        When it was taken, as ISO 8601 text in UTC; None if that is unknown.

    Notes
    -----
    One number can't describe a machine: another one may be twice as fast at
    matrix products and no faster in the interpreter. If the parts of two
    machines have different ratios, the speedup of a task lies between these
    ratios, depending on its work.
    """

    score: float
    parts: dict[str, float]
    spread: float
    kernel_version: int
    taken_at: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the calibration as stored in a profile's ``environment``."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Calibration:
        """Return the calibration that a profile's ``environment`` holds.

        Raises
        ------
        ProfileError
            If a field is missing or is not a number; the score and the parts
            must be above 0, the spread at least 0.
        """
        try:
            calibration = cls(
                score=float(data["score"]),
                parts={str(name): float(speed) for name, speed in data["parts"].items()},
                spread=float(data["spread"]),
                kernel_version=int(data["kernel_version"]),
                taken_at=data.get("taken_at"),
            )
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            raise ProfileError(f"calibration {short_repr(data)}: {describe(error)}") from error
        for name, speed in {"score": calibration.score, **calibration.parts}.items():
            number(f"calibration: {name}", speed, error=ProfileError)
        number("calibration: spread", calibration.spread, zero=True, error=ProfileError)
        return calibration
