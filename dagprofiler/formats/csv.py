"""csv: a table of the tasks or the edges, for spreadsheets and data frames."""

from __future__ import annotations

import csv
import io
import json

from dagprofiler._util.checks import choice
from dagprofiler.errors import FormatError
from dagprofiler.formats import Export
from dagprofiler.formats._graph import GraphExporter, graph_of
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
        stream = io.StringIO(newline="")
        columns, other = (TASK_COLUMNS, "edges") if table == "tasks" else (EDGE_COLUMNS, "tasks")
        writer = csv.DictWriter(stream, columns, extrasaction="ignore")
        writer.writeheader()
        if table == "tasks":
            unit = {"weight_unit": graph.costs.unit, "weight_source": graph.costs.source}
            for name, values in graph.tasks.items():
                writer.writerow({"task": name, **values, **(unit if "weight" in values else {})})
        else:
            for (source, target), values in graph.edges.items():
                row = {"source": source, "target": target, **values}
                row["size_bits"] = values.get("weight")
                if "data_fields" in values:
                    row["data_fields"] = json.dumps(values["data_fields"])
                writer.writerow(row)
        note = f"the {other} are in another table: table={other!r}"
        return Export(stream.getvalue(), (*graph.losses, note))


EXPORTER = Csv()
