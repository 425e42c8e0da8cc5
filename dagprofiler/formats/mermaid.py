"""mermaid: a picture that GitHub, GitLab and many wikis draw from text in a README."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from dagprofiler._util.text import BITS, quantity, share
from dagprofiler.errors import FormatError, counted
from dagprofiler.formats import Export
from dagprofiler.formats._graph import graph_of, legible, legible_names, renamed, shade

if TYPE_CHECKING:
    from dagprofiler.formats._graph import Costs
    from dagprofiler.profile import Profile


#: What GitHub draws: Mermaid's defaults of ``maxEdges`` and ``maxTextSize``, which a diagram
#: cannot raise for itself.
MAX_EDGES, MAX_CHARACTERS = 500, 50_000

_LEVELS = 5

# A word, in which single blanks, dots and hyphens stand between letters or digits. All else is
# coded: quotes end a label, Markdown makes lists and emphasis of it, and by the four characters
# of Mermaid's own marks (fl-ligature, degree, pilcrow, sharp s) a name could bring its own HTML.
_CODED = re.compile(r"(?<![^\W_])[ _.-]|[ _.-](?![^\W_])|[^\w .-]|[\ufb02\xdf]")

_NOTE = "a picture shows only names, states, weights and sizes of tasks and edges"


class Mermaid:
    """Renders profiles as Mermaid flowcharts."""

    name, extension = "mermaid", ".mmd"

    def render(
        self,
        profile: Profile,
        *,
        cost: str = "best",
        statistic: str = "median",
        fill: float | None = None,
        github: bool = True,
    ) -> Export:
        r"""Return the graph, top down, its tasks in five shades by cost.

        Parameters
        ----------
        cost, statistic, fill
            As :func:`dagprofiler.formats.node_link.to_networkx`; of a task without a value the
            label says ``-``, and its box is dashed.
        github
            Whether to refuse what GitHub would not draw: more than 500 edges, or 50,000
            characters.

        Raises
        ------
        FormatError
            If GitHub would not draw it.

        Notes
        -----
        Ids are numbers; names stand in labels, in entity codes as far as needed. What a file
        cannot hold stands as ``\uXXXX`` in them.
        """
        graph = graph_of(profile, cost, statistic, fill)
        if github and len(graph.edges) > MAX_EDGES:
            raise _too_large(counted(len(graph.edges), "edge"))
        names, unit = legible_names(list(graph.tasks)), graph.costs.unit
        ids = {name: f"t{number}" for number, name in enumerate(names)}
        lines = ["flowchart TD\n", f"    %% {_comment(graph.costs)}\n"]
        largest = max(graph.costs.values.values(), default=0)
        # The last is for tasks without a cost.
        groups: list[list[str]] = [[] for _ in range(_LEVELS + 1)]
        for name, task in graph.tasks.items():
            weight, state = task.get("weight"), task.get("state")
            label = f"{_coded(names[name])}<br/>{_coded(quantity(weight, unit))}"
            if state not in (None, "succeeded"):
                label += f"<br/>{state}"
            lines.append(f'    {ids[name]}["{label}"]\n')
            groups[_level(weight, largest)].append(ids[name])
        for (source, target), edge in graph.edges.items():
            label = _coded(quantity(edge.get("weight"), BITS))
            lines.append(f'    {ids[source]} -->|"{label}"| {ids[target]}\n')
        for level, group in enumerate(groups):
            if group:
                lines.append(f"    classDef c{level} {_look(level)}\n")
                lines.append(f"    class {','.join(group)} c{level}\n")
        text = "".join(lines)
        # Mermaid counts as JavaScript does.
        if github and len(text.encode("utf-16-le")) > 2 * MAX_CHARACTERS:
            raise _too_large(counted(len(text), "character"))
        return Export(text, (*graph.losses, _NOTE, *renamed(names)))


def _too_large(what: str) -> FormatError:
    return FormatError(
        f"{what} are more than GitHub draws ({MAX_EDGES:,} edges, {MAX_CHARACTERS:,} characters); "
        "github=False writes the diagram anyway, and format 'dot' has no limits"
    )


def _coded(text: str) -> str:
    """Return text escaped for a quoted label."""
    return _CODED.sub(lambda match: f"#{ord(match[0])};", text)


def _comment(costs: Costs) -> str:
    """Return the description of the costs, escaped for a comment."""
    return re.sub(r"[^\w .,:;()/'-]", "?", " ".join(legible(str(costs)).split()))


def _level(weight: Any, largest: Any) -> int:
    if weight is None:
        return _LEVELS
    return min(_LEVELS - 1, int(_LEVELS * share(weight, largest)))


def _look(level: int) -> str:
    if level == _LEVELS:
        return "fill:#ffffff,stroke:#333333,color:#000000,stroke-dasharray:4"
    return f"fill:{shade(level / (_LEVELS - 1))},stroke:#333333,color:#000000"


EXPORTER = Mermaid()
