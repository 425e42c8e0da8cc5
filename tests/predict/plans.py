"""Profiles with given times, without a run."""

from __future__ import annotations

from statistics import median

from dagprofiler import Profile


def profile_of(
    times_ms, edges=(), *, wire=0, rounds=(), cpu=None, delay=None, sections=None, config=None
):
    """Return a profile of tasks with these times, whose edges carry `wire` bytes.

    With `rounds`, each a factor on the times, it has samples.
    """
    names = [*times_ms]
    keys = [f"{a}->{b}" for a, b in edges]
    document = {
        "metadata": {
            "timestamp": "2026-01-01T00:00:00Z",
            "dagprofiler_version": "0.2.0",
            "schema_version": 1,
            "hostname": "here",
        },
        "configuration": config or {},
        "dag_structure": {
            "nodes": names,
            "edges": [{"source": a, "target": b} for a, b in edges],
            "execution_order": names,
        },
        "node_weights": dict.fromkeys(names, 0),
        "edge_weights": dict.fromkeys(keys, 8 * wire),
        "execution_metrics": [
            {
                "task": name,
                "compute_time_ms": ms * float(median(rounds or [1.0])),
                "serialize_time_ms": 0.0,
                "deserialize_time_ms": 0.0,
                "bytes_in": 0,
                "bytes_out": wire,
            }
            for name, ms in times_ms.items()
        ],
        "edge_metrics": {
            "columns": ["data_fields", "size_bytes", "wire_bytes"],
            "records": [[["x"], wire, wire] for _ in edges],
        },
        **(sections or {}),
    }
    if rounds:
        document["samples"] = {
            "rounds": ["measured"] * len(rounds),
            "tasks": {
                name: {
                    "wall_ms": [ms * factor for factor in rounds],
                    **({} if cpu is None else {"cpu_ms": [ms * factor * cpu for factor in rounds]}),
                    **({} if delay is None else {"delay_ms": [ms * delay for _ in rounds]}),
                }
                for name, ms in times_ms.items()
            },
        }
    return Profile.from_dict(document)
