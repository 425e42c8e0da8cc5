"""csv: a table of the tasks or the edges, for spreadsheets and data frames."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from typing import Any

from dagprofiler._util.checks import choice
from dagprofiler.errors import FormatError
from dagprofiler.formats import Export
from dagprofiler.formats._graph import Graph, GraphExporter, graph_of, legible, renamed
from dagprofiler.profile import Profile

#: Columns of the table of tasks. `weight` is in `weight_unit`.
TASK_COLUMNS = (
    *("task", "execution_order", "state", "weight", "weight_unit", "weight_source"),
    *("compute_time_ms", "serialize_time_ms", "deserialize_time_ms", "bytes_in", "bytes_out"),
)

#: Columns of the table of edges. `data_fields` are a JSON list.
EDGE_COLUMNS = ("source", "target", "data_fields", "size_bits", "size_bytes", "wire_bytes")

#: First characters that spreadsheets take for a formula, and the prefix that prevents it.
_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_QUOTE = "'"


class Csv(GraphExporter):
    """Renders profiles as tables of comma-separated values (RFC 4180)."""

    name, extension = "csv", ".csv"

    def render(
        self,
        profile: Profile,
        *,
        table: str = "tasks",
        cost: str | None = None,
        statistic: str = "median",
        fill: float | None = None,
    ) -> Export:
        r"""Return one of the two tables.

        Parameters
        ----------
        table
            ``"tasks"`` or ``"edges"``: a row for each, with the columns `TASK_COLUMNS` or
            `EDGE_COLUMNS`.
        cost, statistic, fill
            As of every graph.

        Raises
        ------
        FormatError
            If `table` is unknown.

        Notes
        -----
        The cell of what is not known is empty. No cell is a formula to a spreadsheet: a ``'``
        stands before names that begin with ``=``, ``+``, ``-``, ``@`` (or their full-width
        forms), a tab or an end of line; also before those that begin with ``'``, so that a
        leading ``'`` is never part of a name. What a file cannot hold stands as ``\uXXXX``.
        """
        choice("table", table, [*_TABLES], error=FormatError)
        columns, rows, other = _TABLES[table]
        graph = graph_of(profile, cost, statistic, fill)
        cells = {name: _defused(text) for name, text in graph.names.items()}
        stream = io.StringIO(newline="")
        writer = csv.writer(stream)
        writer.writerow(columns)
        writer.writerows(rows(graph, cells))
        note = f"the {other} are in another table: table={other!r}"
        return Export(stream.getvalue(), (*graph.losses, note, *renamed(graph.names)))


def _task_rows(graph: Graph, cells: Mapping[str, str]) -> Iterator[list[Any]]:
    weighed = {"weight_unit": graph.costs.unit, "weight_source": graph.costs.source}
    for name, task in graph.tasks.items():
        row = {"task": cells[name], **task, **(weighed if "weight" in task else {})}
        yield list(map(row.get, TASK_COLUMNS))


def _edge_rows(graph: Graph, cells: Mapping[str, str]) -> Iterator[list[Any]]:
    for (source, target), edge in graph.edges.items():
        row = {**edge, "source": cells[source], "target": cells[target]}
        if "data_fields" in edge:
            row["data_fields"] = legible(json.dumps(edge["data_fields"], ensure_ascii=False))
        row["size_bits"] = edge.get("weight")
        yield list(map(row.get, EDGE_COLUMNS))


def _defused(text: str) -> str:
    return _QUOTE + text if text.startswith((*_FORMULAS, _QUOTE)) else text


#: Table to its columns, what yields its rows, and the other table.
_TABLES = {
    "tasks": (TASK_COLUMNS, _task_rows, "edges"),
    "edges": (EDGE_COLUMNS, _edge_rows, "tasks"),
}

EXPORTER = Csv()
