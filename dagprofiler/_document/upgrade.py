"""Documents of 0.1.0, and of programs that know only the standard, in the newest format."""

from __future__ import annotations

from typing import Any

from dagprofiler._version import SCHEMA_VERSION

#: The largest weight that the schema allows.
_MOST = 2**63 - 1


def upgrade(document: Any) -> None:
    """Bring a document without a schema version up to date, in place.

    Parameters
    ----------
    document
        What :func:`json.loads` returned, not yet checked.

    Notes
    -----
    Version 0.1.0 listed some edges twice, wrote weights of any size, and named entries of
    ``execution_metrics`` after the classes of tasks, one for each place of the execution order.
    Entries that belong to no task are moved to the section ``unassigned_metrics``. A document
    that is not of the standard's shape stays as it is, for the schema to refuse.
    """
    try:
        metadata, structure = document["metadata"], document["dag_structure"]
        if "schema_version" in metadata:
            return
        edges = {(edge["source"], edge["target"]): edge for edge in structure["edges"]}
        weights = {n: min(max(w, 0), _MOST) for n, w in document["node_weights"].items()}
        entries = document.get("execution_metrics", [])
        nodes, order = structure["nodes"], structure["execution_order"]
        if len({entry["task"] for entry in entries} & {*nodes}) < len(entries):
            # 0.1.0 repeated the class for each of its tasks; only the place tells them apart.
            names = order if len(entries) == len(order) else ()
            renamed = [{**entry, "task": name} for name, entry in zip(names, entries)]
            document["execution_metrics"] = renamed
            if not renamed:
                document["unassigned_metrics"] = entries
        structure["edges"], document["node_weights"] = list(edges.values()), weights
        metadata["schema_version"] = SCHEMA_VERSION
    except (AttributeError, KeyError, TypeError):
        pass
