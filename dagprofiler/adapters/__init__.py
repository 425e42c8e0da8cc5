"""Adapters: graphs and runs of other libraries, one file a library.

:class:`~dagprofiler.DAG` calls them: ``DAG.from_functions``, ``DAG.from_networkx``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dagprofiler._util import JsonObject, Values
from dagprofiler._util.json import utc_text
from dagprofiler.config import Config
from dagprofiler.graph.wiring import kahn_order
from dagprofiler.metrics import DAGMetrics, EdgeMetrics, TaskMetrics
from dagprofiler.profile import Profile
from dagprofiler.task import Task


class Converted(NamedTuple):
    """A graph of another library, as the arguments of a DAG.

    Attributes
    ----------
    tasks
        Name to task.
    edges
        ``(source, target, fields)`` each.
    unknown
        What the other library's graph cannot give, to the reason; the profile holds these in
        ``environment.not_measured``.
    """

    tasks: Mapping[str, Task]
    edges: list[Any]
    unknown: Mapping[str, str]


class Observed(NamedTuple):
    """One task that another library has run.

    Attributes
    ----------
    worker
        Index of its worker.
    ready_s, start_s, end_s
        When it could have begun, and when its computation began and ended, in seconds.
    nbytes
        Size of its result in bytes; None if unknown.
    """

    worker: int
    ready_s: float
    start_s: float
    end_s: float
    nbytes: int | None


class OwnRun(NamedTuple):
    """One run of another library.

    Attributes
    ----------
    executor
        What ran the tasks.
    began_s, epoch_s
        When the run began, on the clock of the tasks and in seconds since 1970.
    fields
        Each task, in the order in which they are known, to the name of its result.
    edges
        Source and target each.
    done
        Tasks that have finished.
    states
        The others, to their entries of the profile's ``run.tasks``.
    workers
        Entries of the profile's ``timeline.workers``.
    unknown
        What is not known, to the reason.
    sections
        Further sections of the profile.
    """

    executor: str
    began_s: float
    epoch_s: float
    fields: Mapping[str, str]
    edges: Sequence[tuple[str, str]]
    done: Mapping[str, Observed]
    states: Mapping[str, Values]
    workers: Sequence[Values]
    unknown: Mapping[str, str]
    sections: Values


def profile_of(run: OwnRun) -> Profile:
    """Return the profile of a run of another library, in one round."""

    def ms(moment_s: float) -> float:
        return max(0.0, round((moment_s - run.began_s) * 1e3, 6))

    order = kahn_order(run.fields, run.edges)
    done = {name: run.done[name] for name in order if name in run.done}
    edges = [
        EdgeMetrics(source, target, [run.fields[source]], nbytes)
        for source, target in run.edges
        if source in done and (nbytes := done[source].nbytes) is not None
    ]
    arriving = dict.fromkeys(run.fields, 0)
    for edge in edges:
        arriving[edge.target] += edge.size_bytes
    tasks, records = [], []
    for name, at in done.items():
        records.append([name, 0, at.worker, ms(at.ready_s), ms(at.start_s), ms(at.end_s)])
        took_ms = round((at.end_s - at.start_s) * 1e3, 6)
        # A time of None is not known, as in profiles of other programs.
        tasks.append(TaskMetrics(name, took_ms, None, None, arriving[name], at.nbytes or 0))  # type: ignore[arg-type]
    bits = {f"{edge.source}->{edge.target}": edge.size_bits for edge in edges}
    total_ms = max((ms(at.end_s) for at in done.values()), default=0.0)
    metrics = DAGMetrics(tasks, edges, dict.fromkeys(run.fields, 0), bits, total_ms)
    pairs = [{"source": source, "target": target} for source, target in run.edges]
    structure = {"nodes": [*run.fields], "edges": pairs, "execution_order": order}
    facts: JsonObject = {"state": "complete", "executor": run.executor, "rounds": 1}
    if run.states:
        failed = [name for name, entry in run.states.items() if entry["state"] == "failed"]
        first = f"task {failed[0]!r} failed" if failed else "it had not finished when it was read"
        facts.update(state="partial", reason=first, tasks=dict(run.states), rounds=0)
    moments = "ready_ms", "compute_start_ms", "compute_end_ms"
    sections = {
        "run": facts,
        "weight_sources": {},
        "timeline": {
            "workers": list(run.workers),
            "columns": ["task", "round", "worker", *moments],
            "records": records,
        },
        "environment": {"not_measured": dict(run.unknown)},
        **run.sections,
    }
    began = utc_text(run.epoch_s)
    return Profile(Config(), structure, metrics, timestamp=began, sections=sections)
