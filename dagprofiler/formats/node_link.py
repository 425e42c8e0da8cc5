"""node_link and graphml: what networkx reads as JSON and as XML, and its live graph.

GraphML's typed attributes are also read by igraph, Gephi and yEd.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

from dagprofiler._util import Values
from dagprofiler._util.json import to_json
from dagprofiler.errors import needs_extra
from dagprofiler.formats._graph import Graph, GraphExporter, graph_of
from dagprofiler.profile import Profile

if TYPE_CHECKING:
    import networkx


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


class NodeLink(GraphExporter):
    """Renders profiles as node-link JSON, which networkx and many viewers read.

    The edges stand under ``"edges"``, where networkx reads them from 3.6 on, and under
    ``"links"``, where it reads them before, as D3 does.
    """

    name, extension = "node_link", ".node_link.json"

    def text(self, graph: Graph) -> str:
        """Return the graph that :func:`to_networkx` makes, as node-link JSON."""
        rows = [{"source": s, "target": t, **values} for (s, t), values in graph.edges.items()]
        document = {
            "directed": True,
            "multigraph": False,
            "graph": graph.attributes,
            "nodes": [{"id": name, **values} for name, values in graph.tasks.items()],
            "edges": rows,
            "links": rows,
        }
        return to_json(document) + "\n"


_HEAD = """\
<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns"
         xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
         xsi:schemaLocation="http://graphml.graphdrawing.org/xmlns
                             http://graphml.graphdrawing.org/xmlns/1.0/graphml.xsd">
"""


class GraphML(GraphExporter):
    """Renders profiles as GraphML, with the attributes of :func:`to_networkx`.

    Ids are the tasks' names; ``data_fields`` are a JSON list.
    """

    name, extension = "graphml", ".graphml"

    def text(self, graph: Graph) -> str:
        """Return the document."""
        tasks, edges = graph.tasks, graph.edges
        lines = [_HEAD, *_keys("graph", [graph.attributes])]
        lines += [*_keys("node", tasks.values()), *_keys("edge", edges.values())]
        lines.append(f'<graph edgedefault="directed">\n{_data("graph", graph.attributes)}\n')
        for name, values in tasks.items():
            lines.append(f'<node id="{_escaped(name)}">{_data("node", values)}</node>\n')
        for (source, target), values in edges.items():
            ends = f'source="{_escaped(source)}" target="{_escaped(target)}"'
            lines.append(f"<edge {ends}>{_data('edge', values)}</edge>\n")
        lines.append("</graph>\n</graphml>\n")
        return "".join(lines)


def _keys(kind: str, rows: Iterable[Values]) -> Iterator[str]:
    """Yield the declarations of the attributes of the graph, its nodes or its edges."""
    types: dict[str, set[type]] = {}
    for row in rows:
        for name, value in row.items():
            types.setdefault(name, set()).add(type(value))
    for name, of_values in types.items():
        of_name = f'for="{kind}" attr.name="{name}" attr.type="{_type(of_values)}"'
        yield f'<key id="{kind}_{name}" {of_name}/>\n'


def _type(of_values: set[type]) -> str:
    # Profiles that programs made may hold numpy's numbers.
    if all(issubclass(one, Integral) for one in of_values):
        return "long"
    return "double" if all(issubclass(one, Real) for one in of_values) else "string"


def _data(kind: str, values: Values) -> str:
    parts = [f'<data key="{kind}_{key}">{_text(value)}</data>' for key, value in values.items()]
    return "".join(parts)


def _text(value: Any) -> str:
    if isinstance(value, Real):
        return str(value)
    return _escaped(value if isinstance(value, str) else json.dumps(value))


def _escaped(text: str) -> str:
    return escape(text, {'"': "&quot;"})


NODE_LINK = NodeLink()
GRAPHML = GraphML()
