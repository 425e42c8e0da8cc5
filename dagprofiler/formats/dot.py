"""dot: a picture by Graphviz."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING

from dagprofiler._util.text import BITS, quantity, share
from dagprofiler.formats import Export
from dagprofiler.formats._graph import graph_of, legible, legible_names, renamed, shade

if TYPE_CHECKING:
    from dagprofiler.profile import Profile


_HEAD = """\
digraph "profile" {{
  graph [label="{label}", fontname="Helvetica", fontsize="10"];
  node [shape="box", style="filled", color="#333333", fontcolor="#000000", fontname="Helvetica"];
  edge [color="#333333", fontcolor="#000000", fontname="Helvetica", fontsize="10"];
"""

#: In a label there are \N, \G, \l and others, and entities as in HTML.
_LABELS = str.maketrans(
    {"\\": "\\\\", '"': '\\"', "&": "&amp;", "\n": "\\n", "\r": "\\n", "\t": " "}
)

_NOTE = "a picture shows only names, states, weights and sizes of tasks and edges"


class Dot:
    """Renders profiles in Graphviz' language."""

    name, extension = "dot", ".dot"

    def render(
        self,
        profile: Profile,
        *,
        cost: str = "best",
        statistic: str = "median",
        fill: float | None = None,
    ) -> Export:
        r"""Return the graph: costlier tasks are darker, larger edges wider.

        Parameters
        ----------
        cost, statistic, fill
            As :func:`dagprofiler.formats.node_link.to_networkx`; of a task without a value the
            label says ``-``, and its box is dashed.

        Notes
        -----
        Ids are numbers, as Graphviz has its own mind about some names; they stand in labels and
        tooltips. What a file cannot hold stands as ``\uXXXX`` in them. Fill and width of a task
        are proportional to its cost, the largest being darkest and widest, the width of an edge
        to its size.
        """
        graph = graph_of(profile, cost, statistic, fill)
        names, unit = legible_names(list(graph.tasks)), graph.costs.unit
        ids = {name: f'"t{number}"' for number, name in enumerate(names)}
        lines = [_HEAD.format(label=_label("\n".join(wrap(str(graph.costs), 80))))]
        largest = max(graph.costs.values.values(), default=0)
        for name, task in graph.tasks.items():
            text, state, weight = _label(names[name]), task.get("state"), task.get("weight")
            label = f"{text}\\n{quantity(weight, unit)}"
            if state not in (None, "succeeded"):
                label += f"\\n{state}"
            part = share(weight or 0, largest)
            look = (
                'style="dashed"'
                if weight is None
                else f'fillcolor="{shade(part)}", penwidth="{1 + 2 * part:.3g}"'
            )
            lines.append(f'  {ids[name]} [label="{label}", tooltip="{text}", {look}];\n')
        largest = max((edge.get("weight", 0) for edge in graph.edges.values()), default=0)
        for (source, target), edge in graph.edges.items():
            weight = edge.get("weight")
            look = (
                'style="dashed"'
                if weight is None
                else f'penwidth="{1 + 4 * share(weight, largest):.3g}"'
            )
            lines.append(
                f'  {ids[source]} -> {ids[target]} [label="{quantity(weight, BITS)}", {look}];\n'
            )
        lines.append("}\n")
        return Export("".join(lines), (*graph.losses, _NOTE, *renamed(names)))


def _label(text: str) -> str:
    return legible(text).translate(_LABELS)


EXPORTER = Dot()
