"""mermaid: a picture that GitHub, GitLab and many wikis draw from text in a README."""

from __future__ import annotations

import re

from dagprofiler.formats._graph import PICTURE, Graph, GraphExporter, drawn, shade

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

    name, extension, note = "mermaid", ".mmd", PICTURE

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


EXPORTER = Mermaid()
