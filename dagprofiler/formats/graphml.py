"""graphml: the XML of graphs with typed attributes, as networkx, igraph, Gephi and yEd read it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from numbers import Integral, Real
from typing import Any

from dagprofiler._util.json import plain_number
from dagprofiler.formats._graph import Graph, GraphExporter, legible

_HEAD = """\
<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns"
         xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
         xsi:schemaLocation="http://graphml.graphdrawing.org/xmlns
                             http://graphml.graphdrawing.org/xmlns/1.0/graphml.xsd">
"""

_MARKS = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}

#: White space would come back as a blank from an attribute, and as a line feed from a text.
_ESCAPES = str.maketrans({**_MARKS, "\t": "&#9;", "\n": "&#10;", "\r": "&#13;"})


class GraphML(GraphExporter):
    """Renders profiles as GraphML, with the attributes of :func:`.node_link.to_networkx`.

    Ids are the tasks' names; ``data_fields`` are a JSON list.
    """

    name, extension = "graphml", ".graphml"

    def text(self, graph: Graph) -> str:
        """Return the document."""
        ids = {name: _escaped(text) for name, text in graph.names.items()}
        whole = _Keys("graph", [graph.attributes])
        nodes, edges = _Keys("node", graph.tasks.values()), _Keys("edge", graph.edges.values())
        lines = [_HEAD, *whole.declarations(), *nodes.declarations(), *edges.declarations()]
        lines.append(f'<graph edgedefault="directed">\n{whole.data(graph.attributes)}\n')
        for name, values in graph.tasks.items():
            lines.append(f'<node id="{ids[name]}">{nodes.data(values)}</node>\n')
        for (source, target), values in graph.edges.items():
            ends = f'source="{ids[source]}" target="{ids[target]}"'
            lines.append(f"<edge {ends}>{edges.data(values)}</edge>\n")
        lines.append("</graph>\n</graphml>\n")
        return "".join(lines)


class _Keys:
    """The attributes of the graph, its nodes or its edges: their ids and types."""

    def __init__(self, kind: str, rows: Iterable[Mapping[str, Any]]) -> None:
        self.kind = kind
        types: dict[str, set[type]] = {}
        for row in rows:
            for name, value in row.items():
                types.setdefault(name, set()).add(type(value))
        self.types = {name: _type(kinds) for name, kinds in types.items()}
        self._tags = {name: f'<data key="{kind}_{name}">' for name in types}

    def declarations(self) -> Iterator[str]:
        for name, kind in self.types.items():
            yield (
                f'<key id="{self.kind}_{name}" for="{self.kind}" '
                f'attr.name="{name}" attr.type="{kind}"/>\n'
            )

    def data(self, values: Mapping[str, Any]) -> str:
        tags = self._tags
        return "".join([f"{tags[name]}{_text(value)}</data>" for name, value in values.items()])


_encode = json.JSONEncoder(ensure_ascii=False, default=plain_number).encode


def _type(kinds: set[type]) -> str:
    # Edited profiles may hold numpy's numbers.
    if all(issubclass(kind, Integral) for kind in kinds):
        return "long"
    return "double" if all(issubclass(kind, Real) for kind in kinds) else "string"


def _text(value: Any) -> str:
    if type(value) in (int, float):
        return repr(value)
    return _escaped(legible(value if isinstance(value, str) else _encode(value)))


def _escaped(text: str) -> str:
    return text.translate(_ESCAPES)


EXPORTER = GraphML()
