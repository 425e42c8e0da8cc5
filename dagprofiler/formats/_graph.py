"""Graphs: the common parts of the formats of tasks and edges."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from dagprofiler._document.table import default_times, edge_table, edges_of, task_table
from dagprofiler._util import JsonObject, Values
from dagprofiler._util.checks import choice
from dagprofiler.analysis.weights import NAMED, STATISTICS, Weights, known_weights
from dagprofiler.errors import FormatError, WeightError, counted
from dagprofiler.formats import Export
from dagprofiler.metrics import TASK_FIELDS
from dagprofiler.profile import Profile


@dataclass(frozen=True)
class Graph:
    """A profile as a graph with attributes; unknown attributes are absent.

    Attributes
    ----------
    attributes
        Of the whole.
    tasks
        Task name to its attributes, in the order of the profile's nodes.
    edges
        Source and target to the edge's attributes.
    costs
        Weights of the tasks that have one; without any the provenance says why.
    losses
        Sentences on what a graph with attributes cannot hold.
    """

    attributes: JsonObject
    tasks: dict[str, JsonObject]
    edges: dict[tuple[str, str], JsonObject]
    costs: Weights
    losses: tuple[str, ...]

    @property
    def about(self) -> str:
        """What the weights are, in words."""
        costs = self.costs
        if not costs.source:
            return f"no weights: {costs.provenance}"
        return f"weights: {costs.source} in {costs.unit} ({costs.provenance})"


class GraphExporter:
    """Base class of the exporters that write a graph with attributes.

    Attributes
    ----------
    note
        What no file of the format holds, as a sentence; or an empty string.
    """

    name: str
    extension: str
    note = ""

    def render(
        self,
        profile: Profile,
        *,
        cost: str | None = None,
        statistic: str = "median",
        fill: float | None = None,
    ) -> Export:
        """Return the graph of tasks and edges.

        Parameters
        ----------
        cost
            Where the tasks' weights come from: a source of :meth:`dagprofiler.Profile.weights`;
            by default ``"time"``, or, in a profile without times, ``"best"``.
        statistic
            As there.
        fill
            The weight of tasks without a value; by default they have none.

        Raises
        ------
        WeightError
            If `cost`, `statistic` or `fill` is invalid.
        """
        graph = graph_of(profile, cost, statistic, fill)
        return Export(self.text(graph), (*graph.losses, *filter(None, [self.note])))

    def text(self, graph: Graph) -> str:
        """Return the text of a graph."""
        raise NotImplementedError


def costs_of(profile: Profile, cost: str | None, statistic: str, fill: float | None) -> Weights:
    """Return the costs of the tasks; some or all tasks may lack a value.

    Parameters
    ----------
    cost, statistic
        As for :meth:`dagprofiler.Profile.weights`; without `cost`, the time, or, in a profile
        without times, the best source.
    fill
        Cost of a task without a value; with None it has no cost.

    Raises
    ------
    WeightError
        If `cost`, `statistic` or `fill` is invalid.
    """
    cost = cost or ("time" if default_times(profile) else "best")
    try:
        weights = known_weights(profile, cost, statistic, fill)
        if not weights.values:
            # No task has a value: this raises an error with the reason.
            profile.weights(cost, statistic)
    except WeightError as error:
        if cost not in ("best", *NAMED) or statistic not in STATISTICS or fill is not None:
            raise
        return Weights({}, "", "", statistic, " ".join(error.reason.split()))
    if not weights.filled:
        return weights
    what = "none" if fill is None else f"{fill:.12g} given"
    tasks = counted(len(profile.dag_structure["nodes"]), "task")
    lacking = f"{what} for {len(weights.filled):,} of {tasks}"
    return replace(weights, provenance=f"{weights.provenance}; {lacking}")


def edge_bits(profile: Profile, size: str) -> dict[tuple[str, str], int]:
    """Return the size in bits of each edge that has one.

    Parameters
    ----------
    size
        ``"spec"``: payload by the standard's counting rule. ``"wire"``: as serialized.

    Raises
    ------
    FormatError
        If `size` is neither.
    """
    choice("size", size, ["spec", "wire"], error=FormatError)
    if size == "spec":
        keys = {"->".join(pair): pair for pair in edges_of(profile)}
        weights = profile.metrics.edge_weights.items()
        return {keys[key]: bits for key, bits in weights if key in keys}
    edges = profile.metrics.edge_metrics
    return {(e.source, e.target): 8 * e.wire_bytes for e in edges if e.wire_bytes is not None}


def graph_of(profile: Profile, cost: str | None, statistic: str, fill: float | None) -> Graph:
    """Return a profile as a graph with attributes; arguments as :func:`costs_of`."""
    costs = costs_of(profile, cost, statistic, fill)
    attributes = {
        "timestamp": profile.timestamp,
        "hostname": profile.hostname,
        "seed": profile.seed,
        "dagprofiler_version": profile.metadata.get("dagprofiler_version"),
        "total_time_ms": profile.metrics.total_time_ms,
        "node_weight_source": costs.source or None,
        "node_weight_unit": costs.unit or None,
        "node_weight_provenance": costs.provenance,
        "edge_weight_unit": "bits",
    }
    tasks, edges = {}, {}
    for row in task_table(profile):
        weight = costs.values.get(row["task"])
        tasks[row["task"]] = _known({"weight": weight, **{key: row[key] for key in _TASK}})
    for row in edge_table(profile):
        values = {"weight": row["size_bits"], **{key: row[key] for key in _EDGE}}
        edges[row["source"], row["target"]] = _known(values)
    losses = (*predicted(profile), *left_out(profile, ()))
    return Graph(_known(attributes), tasks, edges, costs, losses)


#: Columns of the table of tasks that are attributes.
_TASK = ("execution_order", "state", *TASK_FIELDS[1:])

#: The same of the table of edges.
_EDGE = ("size_bytes", "wire_bytes", "data_fields")


def _known(attributes: Values) -> JsonObject:
    return {name: value for name, value in attributes.items() if value is not None}


def predicted(profile: Profile) -> tuple[str, ...]:
    """Return a sentence if a profile is predicted, the first of all losses; else nothing."""
    return ("the figures are predicted, not measured",) if "prediction" in profile.sections else ()


def left_out(profile: Profile, held: Iterable[str]) -> tuple[str, ...]:
    """Return a sentence on the sections that are not in `held`, or nothing if all are."""
    sections = [*(("configuration",) if profile.config else ()), *profile.sections]
    missing = [name for name in sections if name not in held]
    return (f"these sections are left out: {', '.join(missing)}",) if missing else ()
