"""dot: a picture by Graphviz."""

from __future__ import annotations

from textwrap import wrap

from dagprofiler.formats._graph import PICTURE, Graph, GraphExporter, drawn, shade

_HEAD = """\
digraph "profile" {{
  graph [label="{label}", fontname="Helvetica", fontsize="10"];
  node [shape="box", style="filled", color="#333333", fontcolor="#000000", fontname="Helvetica"];
  edge [color="#333333", fontcolor="#000000", fontname="Helvetica", fontsize="10"];
"""

#: In a label there are \N, \G, \l and others, and entities as in HTML.
_LABELS = str.maketrans({"\\": "\\\\", '"': '\\"', "&": "&amp;", "\n": "\\n"})


class Dot(GraphExporter):
    """Renders profiles in Graphviz' language: costlier tasks are darker, larger edges wider.

    Ids are numbers, as Graphviz reads some names as keywords; names stand in labels and
    tooltips. Fill and width of a task are proportional to its cost, the largest being darkest
    and widest, the width of an edge to its size. Unknown weights are ``-``, and dashed.
    """

    name, extension, note = "dot", ".dot", PICTURE

    def text(self, graph: Graph) -> str:
        """Return the graph in Graphviz' language."""
        lines = [_HEAD.format(label=_label("\n".join(wrap(graph.about, 80))))]
        for ends, words, part in drawn(graph):
            label = "\\n".join(map(_label, words))
            look = 'style="dashed"' if part is None else f'penwidth="{1 + 4 * part:.3g}"'
            if len(ends) == 1:
                if part is not None:
                    look = f'fillcolor="{shade(part)}", penwidth="{1 + 2 * part:.3g}"'
                look = f'tooltip="{_label(words[0])}", {look}'
            place = " -> ".join(f'"t{number}"' for number in ends)
            lines.append(f'  {place} [label="{label}", {look}];\n')
        return "".join([*lines, "}\n"])


def _label(text: str) -> str:
    return text.translate(_LABELS)


EXPORTER = Dot()
