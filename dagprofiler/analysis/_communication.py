"""Communication costs of the edges of a profile."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dagprofiler._document.samples import measured_of
from dagprofiler.analysis.weights import STATISTICS
from dagprofiler.errors import WeightError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dagprofiler._document import ProfileData
    from dagprofiler.analysis.weights import Number, Weights
    from dagprofiler.metrics import EdgeMetrics


class Communication(NamedTuple):
    """Communication costs of the edges.

    Attributes
    ----------
    times
        Edge, as ``"source->target"``, to its time; None if none is known.
    note
        What the times consist of, or why there are none.
    unknown
        Edges without a known time, which count as 0 because others have one.
    """

    times: dict[str, Number] | None
    note: str
    unknown: tuple[str, ...] = ()


def communication_of(
    profile: ProfileData,
    pairs: Mapping[tuple[str, str], str],
    weights: Weights,
    bandwidth_bits_per_s: float | None,
    size: str,
) -> Communication:
    """Return the costs of the edges of a profile, in the unit of the weights.

    Parameters
    ----------
    pairs
        Source and target of each edge to ``"source->target"``.
    weights
        Costs of the tasks.
    bandwidth_bits_per_s
        Speed of the links; None if bits cost nothing.
    size
        Which size counts: ``"spec"`` or ``"wire"``.
    """
    instructions = weights.unit == "instructions"
    if instructions and bandwidth_bits_per_s is not None:
        raise WeightError(
            weights.source,
            [],
            "bandwidth_bits_per_s gives times, which cannot be added to instructions; give "
            "instructions_per_s too, or a time as cost",
        )
    metrics = {(edge.source, edge.target): edge for edge in profile.metrics.edge_metrics}
    loaded = {}
    for pair, key in pairs.items():
        edge = metrics.get(pair)
        # An order-only edge is known to cost nothing.
        if edge is None or edge.data_fields or edge.size_bytes:
            loaded[key] = edge
    free: dict[str, Number] = dict.fromkeys(pairs.values(), 0)
    if not loaded:
        return Communication(free, "none, since no edge carries anything")
    if instructions:
        return Communication(
            None,
            "unknown: times cannot be added to instructions; give instructions_per_s and "
            "bandwidth_bits_per_s, or a time as cost",
        )
    known, note = _times(profile, weights, loaded, bandwidth_bits_per_s, size)
    if not known:
        return Communication(None, note)
    return Communication({**free, **known}, note, tuple(key for key in loaded if key not in known))


def _times(
    profile: ProfileData,
    weights: Weights,
    edges: Mapping[str, EdgeMetrics | None],
    bandwidth_bits_per_s: float | None,
    size: str,
) -> tuple[dict[str, Number], str]:
    """Return the known times of `edges`, and what they consist of."""
    measured, words = _measured(profile, weights, edges)
    if bandwidth_bits_per_s is None:
        if measured:
            return measured, words
        return {}, f"unknown: {words}, and no bandwidth_bits_per_s is given"
    transfer: dict[str, Number] = {}
    for key, edge in edges.items():
        count = getattr(edge, "size_bytes" if size == "spec" else "wire_bytes", None)
        if count is not None:
            transfer[key] = 8 * count / bandwidth_bits_per_s * 1e3
    link = f"{size} bits / {bandwidth_bits_per_s:,.12g} a second"
    if not transfer:
        return {}, f"unknown: the profile has no {size} sizes of its edges"
    if not measured:
        return transfer, f"{link}; {words}"
    partly = "" if measured.keys() >= transfer.keys() else " where that was measured"
    # A measured time without a transfer time is incomplete, so it is left out.
    times = {key: time + measured.get(key, 0) for key, time in transfer.items()}
    return times, f"{words}{partly}, and {link}"


def _measured(
    profile: ProfileData, weights: Weights, keys: Iterable[str]
) -> tuple[dict[str, Number], str]:
    """Return the times to serialize and deserialize of the edges that have samples of both."""
    if weights.source in ("counted", "estimated"):
        return {}, "measured times of edges cannot be added to instructions"
    factor, words = 1.0, "measured serialize + deserialize"
    if weights.source == "reference_time":
        factor = profile.sections["environment"]["calibration"]["score"]
        words += " x calibration score"
    samples = profile.sections.get("samples", {})
    rows, kinds = samples.get("edges", {}), samples.get("rounds", ())
    times: dict[str, Number] = {}
    for key in keys:
        row = rows.get(key, {})
        both = zip(row.get("serialize_ms", ()), row.get("deserialize_ms", ()))
        values = measured_of(kinds, [None if None in pair else sum(pair) for pair in both])
        if values:
            times[key] = factor * STATISTICS[weights.statistic](values)
    if not times:
        return {}, "the profile has no times of edges; only runs with rounds=... measure them"
    return times, words
