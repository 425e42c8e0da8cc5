"""node_link: networkx's node-link JSON, and the live networkx graph."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from dagprofiler._util.checks import choice
from dagprofiler._util.json import plain_number
from dagprofiler.errors import FormatError, needs_extra
from dagprofiler.formats import Export
from dagprofiler.formats._graph import GraphExporter, graph_of
from dagprofiler.profile import Profile

if TYPE_CHECKING:
    import networkx


_KEYS = ("both", "edges", "links")


class NodeLink(GraphExporter):
    """Renders profiles as node-link JSON, which networkx and many viewers read."""

    name, extension = "node_link", ".node_link.json"

    def render(
        self,
        profile: Profile,
        *,
        cost: str | None = None,
        statistic: str = "median",
        fill: float | None = None,
        edges: str = "both",
    ) -> Export:
        """Return the graph that :func:`to_networkx` makes, as node-link JSON.

        Parameters
        ----------
        cost, statistic, fill
            As of every graph.
        edges
            The key of the edges: ``"edges"``, which networkx reads from 3.6 on,
            ``"links"``, which it reads before, as D3 does; by default ``"both"``.

        Raises
        ------
        FormatError
            If `edges` is none of these.
        """
        choice("edges", edges, [*_KEYS], error=FormatError)
        graph = graph_of(profile, cost, statistic, fill)
        rows = [{"source": s, "target": t, **values} for (s, t), values in graph.edges.items()]
        document: dict[str, Any] = {
            "directed": True,
            "multigraph": False,
            "graph": graph.attributes,
            "nodes": [{"id": name, **values} for name, values in graph.tasks.items()],
        }
        document.update((key, rows) for key in _KEYS[1:] if edges in ("both", key))
        text = json.dumps(document, allow_nan=False, default=plain_number, check_circular=False)
        return Export(text + "\n", graph.losses)


def to_networkx(
    profile: Profile,
    *,
    cost: str | None = None,
    statistic: str = "median",
    fill: float | None = None,
) -> networkx.DiGraph[Any]:
    """Return a profile as a ``networkx.DiGraph``; needs the extra ``networkx``.

    Parameters
    ----------
    cost, statistic, fill
        Where the nodes' ``weight`` comes from, and that of tasks without a value; as in
        ``profile.export("x.graphml")``.

    Returns
    -------
    networkx.DiGraph
        Of nodes: ``weight`` in the graph's ``node_weight_unit``, ``execution_order`` (from 0),
        ``state``, ``compute_time_ms``, ``serialize_time_ms``, ``deserialize_time_ms``,
        ``bytes_in``, ``bytes_out``. Of edges: ``weight`` in bits, ``size_bytes``,
        ``wire_bytes``, ``data_fields``. What is not known is absent.

    Raises
    ------
    WeightError
        If `cost`, `statistic` or `fill` is invalid.
    MissingExtraError
        If networkx is not installed.
    """
    with needs_extra("to_networkx()", "networkx"):
        import networkx
    graph = graph_of(profile, cost, statistic, fill)
    result: networkx.DiGraph[Any] = networkx.DiGraph(**graph.attributes)
    result.add_nodes_from(graph.tasks.items())
    result.add_edges_from((*ends, values) for ends, values in graph.edges.items())
    return result


EXPORTER = NodeLink()
