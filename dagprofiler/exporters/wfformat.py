"""WfFormat: the workflow instances of WfCommons, WRENCH, SimGrid and SAGA."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from dagprofiler.errors import FormatError, did_you_mean, short_repr
from dagprofiler.exporters import Export
from dagprofiler.exporters.networks import finite_number
from dagprofiler.exporters.wfdocuments import COSTS, SIZES, Instance
from dagprofiler.rendering import plain_number
from dagprofiler.wfnames import VERSIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dagprofiler.profile import Profile

__all__ = ["EXPORTER", "WfFormat"]

_WRITTEN = VERSIONS[1:]

_encode = json.JSONEncoder(allow_nan=False, default=plain_number).encode


class WfFormat:
    """Writes profiles as WfFormat.

    Attributes
    ----------
    name, extension
        ``"wfformat"``, ``".wfformat.json"``.
    """

    name, extension = "wfformat", ".wfformat.json"

    def render(
        self,
        profile: Profile,
        *,
        version: str = "1.5",
        cost: str = "wall_time",
        statistic: str = "median",
        fill: float | None = None,
        size: str = "spec",
        workflow: str | None = None,
    ) -> Export:
        """Return a profile as a workflow instance.

        Parameters
        ----------
        version
            ``"1.4"``, which SAGA and SimGrid read; ``"1.5"``, the only one that WRENCH
            reads; ``"1.6"``, the newest.
        cost
            What becomes ``runtimeInSeconds``: ``"wall_time"``, ``"cpu_time"``,
            ``"reference_time"``, or ``"best"``, the first of the former two that every
            task has. Instructions are no seconds.
        statistic
            ``"median"``, ``"mean"``, ``"min"`` or ``"max"`` of the measured samples.
        fill
            Milliseconds for tasks without a runtime; by default the file has none either.
        size
            ``"spec"``: payload by the standard's counting rule; ``"wire"``: as serialized.
        workflow
            Name of the workflow; by default the one that it was imported by, or
            ``"dagprofiler"``.

        Raises
        ------
        FormatError
            If an option is not one of these, the profile has no tasks, or `size` is
            ``"wire"`` and an edge has none.
        WeightError
            If the times of `cost` cannot be had: no common scale, no samples.

        Notes
        -----
        One file for each edge, named ``source/target``. Identifiers are task names in
        which each character but letters, digits, ``_``, ``.`` and ``-`` is ``_``, with a
        number where two were the same; what they were stays in ``name``, in version 1.4,
        where names are what tasks refer to, in ``originalName``. O(tasks + edges) time.
        """
        _choice("version", version, _WRITTEN)
        _choice("cost", cost, COSTS)
        _choice("size", size, list(SIZES))
        if workflow is not None and not isinstance(workflow, str):
            raise FormatError(f"workflow must be text, got {workflow!r}")
        if fill is not None:
            fill = finite_number(fill, "fill, in milliseconds,")
        if not profile.dag_structure["nodes"]:
            raise FormatError("WfFormat has no workflows without tasks, and this profile has none")
        instance = Instance(profile, version, size)
        instance.take_runtimes(cost, statistic, fill)
        document = instance.document(workflow)
        return Export("".join(_lines(document)) + "\n", tuple(instance.losses()))


def _choice(what: str, value: Any, known: Sequence[str]) -> None:
    if value not in known:
        words = ", ".join(map(repr, known))
        raise FormatError(
            f"{what} must be one of {words}, got {short_repr(value)}{did_you_mean(value, known)}"
        )


def _lines(value: Any, indent: str = "\n") -> Iterator[str]:
    """Yield a document as JSON with one record a line."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        yield f"[{indent}  " + f",{indent}  ".join(map(_encode, value)) + f"{indent}]"
    elif isinstance(value, dict) and value:
        opening = "{"
        for key, item in value.items():
            yield f"{opening}{indent}  {_encode(key)}: "
            yield from _lines(item, f"{indent}  ")
            opening = ","
        yield f"{indent}}}"
    else:
        yield _encode(value)


EXPORTER = WfFormat()
