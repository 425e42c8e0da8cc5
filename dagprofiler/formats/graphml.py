"""graphml: the XML of graphs with typed attributes, as networkx, igraph, Gephi and yEd read it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from numbers import Integral, Real
from typing import Any
from xml.sax.saxutils import escape

from dagprofiler.formats._graph import Graph, GraphExporter

_HEAD = """\
<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns"
         xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
         xsi:schemaLocation="http://graphml.graphdrawing.org/xmlns
                             http://graphml.graphdrawing.org/xmlns/1.0/graphml.xsd">
"""


class GraphML(GraphExporter):
    """Renders profiles as GraphML, with the attributes of :func:`.node_link.to_networkx`.

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


def _keys(kind: str, rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
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


def _data(kind: str, values: Mapping[str, Any]) -> str:
    parts = [f'<data key="{kind}_{key}">{_text(value)}</data>' for key, value in values.items()]
    return "".join(parts)


def _text(value: Any) -> str:
    if isinstance(value, Real):
        return str(value)
    return _escaped(value if isinstance(value, str) else json.dumps(value))


def _escaped(text: str) -> str:
    return escape(text, {'"': "&quot;"})


EXPORTER = GraphML()
