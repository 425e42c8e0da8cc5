"""dot and mermaid: pictures of the graph as text.

Ids are numbers, as Graphviz reads some names as keywords; names stand in labels.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from textwrap import wrap
from typing import NamedTuple

from dagprofiler._util.text import BYTES, quantity, share
from dagprofiler.formats._graph import Graph, GraphExporter

#: The lightest and the darkest of the first six of ColorBrewer's nine blues. Lightness alone
#: carries the meaning, so that they read without colour, and black text stands out on both.
_LIGHT, _DARK = (0xF7, 0xFB, 0xFF), (0x6B, 0xAE, 0xD6)

_PICTURE = "a picture shows only names, states, weights and sizes of tasks and edges"


class Drawn(NamedTuple):
    """A task or an edge in a picture.

    Attributes
    ----------
    ends
        Number of the task; or numbers of source and target.
    words
        Name, weight with unit, and the state if it is not that of a success; of an
        edge its size.
    part
        Weight relative to the largest, from 0 to 1; None if it is unknown.
    """

    ends: tuple[int, ...]
    words: tuple[str, ...]
    part: float | None


def drawn(graph: Graph) -> Iterator[Drawn]:
    """Yield the tasks of a picture, then its edges."""
    numbers = {name: number for number, name in enumerate(graph.tasks)}
    largest = max(graph.costs.values.values(), default=0)
    for name, task in graph.tasks.items():
        weight, state = task.get("weight"), task.get("state")
        failed = () if state in (None, "succeeded") else (state,)
        words = name, quantity(weight, graph.costs.unit), *failed
        yield Drawn((numbers[name],), words, None if weight is None else share(weight, largest))
    largest = max((edge.get("weight", 0) for edge in graph.edges.values()), default=0)
    for (source, target), edge in graph.edges.items():
        weight = edge.get("weight")
        part = None if weight is None else share(weight, largest)
        size = quantity(None if weight is None else -(-weight // 8), BYTES)
        yield Drawn((numbers[source], numbers[target]), (size,), part)


def shade(part: float) -> str:
    """Return a colour from almost white (0) to a blue on which black is legible (1).

    Examples
    --------
    >>> shade(0), shade(1)
    ('#f7fbff', '#6baed6')
    """
    mixed = (round(low + (high - low) * part) for low, high in zip(_LIGHT, _DARK))
    return "#" + "".join(f"{level:02x}" for level in mixed)


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

    name, extension, note = "dot", ".dot", _PICTURE

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


_LEVELS = 5

# A word, in which single blanks, dots and hyphens stand between letters or digits. All else is
# coded: quotes end a label, Markdown makes lists and emphasis of it, and by the four characters
# of Mermaid's own marks (fl-ligature, degree, pilcrow, sharp s) a name could bring its own HTML.
_CODED = re.compile(r"(?<![^\W_])[ _.-]|[ _.-](?![^\W_])|[^\w .-]|[\ufb02\xdf]")


class Mermaid(GraphExporter):
    """Renders profiles as Mermaid flowcharts, top down, with tasks in five shades by cost.

    Ids are numbers; names stand in labels, in entity codes as far as needed. Unknown weights are
    ``-``, and the boxes of their tasks dashed. GitHub draws at most 500 edges and 50,000
    characters.
    """

    name, extension, note = "mermaid", ".mmd", _PICTURE

    def text(self, graph: Graph) -> str:
        """Return the flowchart."""
        about = re.sub(r"[^\w .,:;()/'-]", "?", graph.about)
        lines = ["flowchart TD\n", f"    %% {about}\n"]
        # The last is for tasks without a cost.
        groups: list[list[str]] = [[] for _ in range(_LEVELS + 1)]
        for ends, words, part in drawn(graph):
            label = "<br/>".join(map(_coded, words))
            if len(ends) == 1:
                lines.append(f'    t{ends[0]}["{label}"]\n')
                level = _LEVELS if part is None else min(_LEVELS - 1, int(_LEVELS * part))
                groups[level].append(f"t{ends[0]}")
            else:
                lines.append(f'    t{ends[0]} -->|"{label}"| t{ends[1]}\n')
        for level, group in enumerate(groups):
            if group:
                lines.append(f"    classDef c{level} {_look(level)}\n")
                lines.append(f"    class {','.join(group)} c{level}\n")
        return "".join(lines)


def _coded(text: str) -> str:
    """Return text escaped for a quoted label."""
    return _CODED.sub(lambda match: f"#{ord(match[0])};", text)


def _look(level: int) -> str:
    if level == _LEVELS:
        return "fill:#ffffff,stroke:#333333,color:#000000,stroke-dasharray:4"
    return f"fill:{shade(level / (_LEVELS - 1))},stroke:#333333,color:#000000"


DOT = Dot()
MERMAID = Mermaid()
