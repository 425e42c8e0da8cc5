"""csv: a table of the tasks or the edges, for spreadsheets and data frames."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

from dagprofiler._util.checks import choice
from dagprofiler.errors import FormatError
from dagprofiler.formats import Export
from dagprofiler.formats._graph import Graph, GraphExporter, graph_of
from dagprofiler.profile import Profile

#: Columns of the table of tasks. `weight` is in `weight_unit`.
TASK_COLUMNS = (
    *("task", "execution_order", "state", "weight", "weight_unit", "weight_source"),
    *("compute_time_ms", "serialize_time_ms", "deserialize_time_ms", "bytes_in", "bytes_out"),
)

#: Columns of the table of edges. `data_fields` are a JSON list.
EDGE_COLUMNS = ("source", "target", "data_fields", "size_bits", "size_bytes", "wire_bytes")


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
        """Return one of the two tables.

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
        The cell of what is not known is empty.
        """
        choice("table", table, ["tasks", "edges"], error=FormatError)
        graph = graph_of(profile, cost, statistic, fill)
        columns, rows = _tasks(graph) if table == "tasks" else _edges(graph)
        stream = io.StringIO(newline="")
        writer = csv.DictWriter(stream, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
        other = "edges" if table == "tasks" else "tasks"
        note = f"the {other} are in another table: table={other!r}"
        return Export(stream.getvalue(), (*graph.losses, note))


def _tasks(graph: Graph) -> tuple[tuple[str, ...], Iterator[dict[str, Any]]]:
    unit = {"weight_unit": graph.costs.unit, "weight_source": graph.costs.source}
    return TASK_COLUMNS, (
        {"task": name, **values, **(unit if "weight" in values else {})}
        for name, values in graph.tasks.items()
    )


def _edges(graph: Graph) -> tuple[tuple[str, ...], Iterator[dict[str, Any]]]:
    rows = (
        {"source": source, "target": target, "size_bits": values.get("weight"), **values}
        for (source, target), values in graph.edges.items()
    )
    return EDGE_COLUMNS, (
        {**row, "data_fields": json.dumps(row["data_fields"])} if "data_fields" in row else row
        for row in rows
    )


EXPORTER = Csv()
