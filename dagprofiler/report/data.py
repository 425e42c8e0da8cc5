"""The data of a report: what the page receives as JSON, and no more than a browser can show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from itertools import accumulate, islice
from math import inf
from typing import TYPE_CHECKING

from dagprofiler._document import Samples, TimelineRow
from dagprofiler._document.table import (
    ProfileTable,
    edge_table,
    edges_of,
    label_of,
    task_table,
    unit_of,
)
from dagprofiler._util import JsonObject
from dagprofiler._util.json import jsonable
from dagprofiler.analysis.critical_path import analysis_of, bounds_of, paths_of
from dagprofiler.analysis.makespan import LABELS, PARTS, makespan_of
from dagprofiler.analysis.summary import flags_of
from dagprofiler.analysis.weights import Number, known_values
from dagprofiler.profile import Profile
from dagprofiler.report.drawing import Folding, Sketch, fold, kinds_by_name, lay_out, unfolded
from dagprofiler.stats import median
from dagprofiler.stats.ranktests import INCONCLUSIVE

if TYPE_CHECKING:
    from dagprofiler.analysis.compare import ProfileComparison


class ReportSource:
    """A profile, and what several parts of a report need to know of it.

    Parameters
    ----------
    profile
        Fresh or loaded.
    cost, statistic
        As for :func:`dagprofiler.analyze`; by default times if there are any, else the best
        costs that all tasks have.

    Attributes
    ----------
    names, numbers
        Names of the tasks, in the profile's order; and name to number.
    edges
        Source and target of each edge, by number.
    edge_table
        The table of edges.
    analysis
        None if no source has costs of the tasks; `why_not` is then the reason.
    costs
        The cost of each task, None where it was filled in; empty without an analysis.
    path
        The tasks on the critical path, by number; empty if that is unknown.

    Raises
    ------
    WeightError
        If `cost` is given, and no task has such a cost.
    """

    def __init__(
        self, profile: Profile, cost: str | None = None, statistic: str = "median"
    ) -> None:
        self.profile, self.sections = profile, profile.sections
        self.names: list[str] = profile.dag_structure["nodes"]
        self.numbers = {name: number for number, name in enumerate(self.names)}
        self.edges = [(self.numbers[a], self.numbers[b]) for a, b in edges_of(profile)]
        self.edge_table: ProfileTable = edge_table(profile)
        self.analysis, self.why_not = analysis_of(profile, cost, statistic)
        self.costs: Sequence[Number | None] = ()
        self.path: list[int] = []
        if self.analysis is not None:
            known = known_values(self.analysis.weights)
            self.costs = [known.get(name) for name in self.names]
            critical_path = paths_of(self.analysis).critical_path
            self.path = [self.numbers[name] for name in critical_path]

    @cached_property
    def kinds(self) -> list[str]:
        """The kind of each task: the rule that added it, else the pattern of its name."""
        rules = {row.task: row.rule for row in self.profile.origins.rows()}
        patterns = kinds_by_name(self.names)
        return [rules.get(name, pattern) for name, pattern in zip(self.names, patterns)]


def page_data(
    source: ReportSource,
    base: ReportSource | None = None,
    comparison: ProfileComparison | None = None,
) -> JsonObject:
    """Return the data of a page by part, without the parts that a profile lacks.

    Parameters
    ----------
    base, comparison
        What the profile is compared with, and the comparison.
    """
    makespan = makespan_of(source.profile, source.analysis)
    data = {
        "names": source.names,
        "profile": _facts(source),
        "summary": _summary(source),
        "makespan": makespan and {**makespan, "labels": LABELS},
        "tasks": _tasks(source),
        "edges": _edges(source),
        "pictures": _pictures(source),
        "growth": _growth(source),
        "kinds": _kinds(source),
        "timeline": _timeline(source, source.numbers),
        "spans": _spans(source),
        "samples": _samples(source),
        "flags": flags_of(source.profile) or None,
        "comparison": _comparison(source, base, comparison) if base and comparison else None,
    }
    return {part: value for part, value in data.items() if value is not None}


def losses(data: JsonObject) -> Iterator[str]:
    """Yield what the profile holds and the page does not, in words."""
    for part, what in (("timeline", "rounds"), ("spans", "spans"), ("samples", "samples of")):
        left_out = data.get(part, {}).get("left_out")
        if left_out:
            words = f"{what} {', '.join(left_out)}" if part == "samples" else f"{left_out} {what}"
            yield f"too many for a page: {words}"
    if all(picture["kind"] != "tasks" for picture in data["pictures"]):
        yield "too many for a page: tasks, so the picture shows groups of them"


def _facts(source: ReportSource) -> JsonObject:
    """Return the sections that say how a run went, with what and where."""
    profile, sections = source.profile, source.sections
    origin = {"taken": profile.timestamp, "host": profile.hostname, "seed": profile.seed}
    environment = sections.get("environment", {})
    reasons = environment.get("not_measured", {})
    return {
        "metadata": {**origin, **profile.metadata},
        "configuration": jsonable(profile.config)[0],
        "run": sections.get("run", {}),
        "environment": environment,
        # By label, since a meter and the candidate that it gives have the same.
        "not_measured": {label_of(key): reason for key, reason in reasons.items()},
        "prediction": sections.get("prediction", {}),
    }


#: Rows of the table of bounds.
_ROWS = 10


def _summary(source: ReportSource) -> JsonObject:
    """Return the figures of the whole; of costs only if they are known."""
    summary: JsonObject = {
        "total_ms": source.profile.metrics.total_time_ms,
        "total": source.sections.get("statistics", {}).get("total_ms"),
        "bytes": sum(size or 0 for size in source.edge_table["size_bytes"]),
        "why_not": source.why_not,
    }
    analysis = source.analysis
    if analysis is None:
        return summary
    return {
        **summary,
        "unit": analysis.weights.unit,
        "source": analysis.weights.source,
        "provenance": analysis.weights.provenance,
        "filled": len(analysis.weights.filled),
        "communication": analysis.communication_note,
        "with_communication": analysis.with_communication is not None,
        "work": analysis.work,
        "span": analysis.span,
        "with_edges": paths_of(analysis).span,
        "parallelism": analysis.average_parallelism,
        "bottlenecks": [bottleneck._asdict() for bottleneck in analysis.bottlenecks],
        "bounds": list(islice(bounds_of(analysis), _ROWS)),
    }


#: Columns of tasks that are no figures of the page: names, and what other parts show.
_NO_FIGURES = {
    *("task", "execution_order", "state", "flags", "share"),
    *("low_ms", "high_ms", "wall_time_ms", "corrected_ms"),
}

_EDGE_FIGURES = ("size_bytes", "wire_bytes", "serialize_ms", "deserialize_ms")


def _tasks(source: ReportSource) -> JsonObject:
    columns = task_table(source.profile).columns
    # The node weight is one of the candidates, which have columns of their own.
    hidden = _NO_FIGURES | ({"node_weight"} if "estimated_instructions" in columns else set())
    figures = [
        column._asdict()
        for key, column in columns.items()
        if key not in hidden and any(column.values)
    ]
    analysis = source.analysis
    if analysis is None:
        return {"figures": figures}
    slack = paths_of(analysis).slack
    return {
        "figures": figures,
        "cost": source.costs,
        "levels": [analysis.levels[name] for name in source.names],
        "slack": [slack[name] for name in source.names],
        "path": source.path,
    }


def _edges(source: ReportSource) -> JsonObject:
    return {
        "source": [start for start, _ in source.edges],
        "target": [end for _, end in source.edges],
        "fields": [", ".join(fields or ()) for fields in source.edge_table["data_fields"]],
        "figures": [
            column._asdict()
            for key, column in source.edge_table.columns.items()
            if key in _EDGE_FIGURES and any(value is not None for value in column.values)
        ],
    }


#: From this number of tasks on, groups are shown first.
_MANY = 150

#: Most tasks and edges at which a browser stays responsive.
_TASKS, _EDGES = 4_000, 12_000

#: Groups get a picture if their number is below this share of the tasks.
_FEWER = 0.7


def _pictures(source: ReportSource) -> list[JsonObject]:
    """Return a picture of all tasks, one of groups of them, or both, the first to show first."""
    count = len(source.names)
    pictures = []
    is_drawn_whole = count <= _TASKS and len(source.edges) <= _EDGES
    if is_drawn_whole:
        pictures.append(_picture("tasks", unfolded(source.names, source.edges)))
    folding = fold(source.names, source.edges, kinds=source.kinds)
    if not is_drawn_whole or len(folding.tasks) < _FEWER * count:
        place = 0 if count > _MANY else len(pictures)
        pictures.insert(place, _picture("groups", folding))
    return pictures


def _picture(kind: str, folding: Folding) -> JsonObject:
    layout = lay_out(len(folding.tasks), folding.edges)
    return {"kind": kind, **folding._asdict(), "layout": layout._asdict()}


def _growth(source: ReportSource) -> JsonObject | None:
    """Return the steps in which the graph grew in its last round, and the step of each task."""
    origins = source.profile.origins
    last = max((step["round"] for step in origins.fired), default=0)
    steps = [step for step in origins.fired if step["round"] == last and step["tasks"]]
    if not steps:
        return None
    numbers = {step["rule"]: number for number, step in enumerate(steps, 1)}
    step_of_task = [0] * len(source.names)
    for row in origins.rows():
        # Tasks that were not in this round come after its last step.
        step = numbers.get(row.rule, 0) if row.round == last else len(steps) + 1
        step_of_task[source.numbers[row.task]] = step
    return {"steps": steps, "step_of_task": step_of_task}


def _kinds(source: ReportSource) -> JsonObject:
    """Return the kinds of tasks, the most expensive first, and the kind of each task."""
    totals = dict.fromkeys(source.kinds, 0.0)
    for kind, cost in zip(source.kinds, source.costs):
        totals[kind] += cost or 0
    labels = sorted(totals, key=lambda kind: -totals[kind])
    numbers = {label: number for number, label in enumerate(labels)}
    return {"labels": labels, "of": [numbers[kind] for kind in source.kinds]}


#: Most records of a timeline in a page, unless a single round has more.
_RECORDS = 60_000


def _timeline(source: ReportSource, numbers: Mapping[str, int]) -> JsonObject | None:
    """Return the timeline of the tasks in `numbers`, by column, of as many rounds as have room.

    None if the profile has no timeline.
    """
    rows = [row for row in begun(source.profile) if row.task in numbers]
    if not rows:
        return None
    samples = source.profile.samples
    rounds = typical_first(samples, {row.round for row in rows})
    shown = {*rounds[: max(1, _RECORDS * len(rounds) // len(rows))]}
    kinds = dict(enumerate(samples.rounds))
    columns = zip(*(row for row in rows if row.round in shown))
    by_name: JsonObject = dict(zip(TimelineRow._fields, columns))
    by_name["task"] = [numbers[name] for name in by_name["task"]]
    return {
        "workers": worker_names(source.profile),
        "rounds": [[number, kinds.get(number, "")] for number in sorted(shown)],
        "first": rounds[0],
        "left_out": len(rounds) - len(shown),
        "columns": by_name,
    }


def begun(profile: Profile) -> list[TimelineRow]:
    """Return the rows of a timeline of the tasks that began."""
    return [
        row
        for row in profile.timeline.rows()
        if row.deserialize_start_ms is not None or row.compute_start_ms is not None
    ]


def typical_first(samples: Samples, rounds: set[int]) -> list[int]:
    """Return the rounds, the measured ones with a time near the median first."""
    totals = dict(enumerate(samples.total_ms))
    times_ms = {n: ms for n in samples.measured if (ms := totals.get(n)) is not None}
    middle = median(list(times_ms.values())) if times_ms else 0.0
    return sorted(sorted(rounds), key=lambda number: abs(times_ms.get(number, inf) - middle))


def worker_names(profile: Profile) -> list[str]:
    """Return the node of each worker of a run along a schedule, else what tells it apart."""
    workers = profile.timeline.workers
    schedule = profile.sections.get("schedule") or {}
    homes = {task: node for node, tasks in schedule.items() for task in tasks}
    nodes = {row.worker: homes[row.task] for row in profile.timeline.rows() if row.task in homes}
    differing = [key for key in ("host", "pid") if len({str(w.get(key)) for w in workers}) > 1]
    names = []
    for number, worker in enumerate(workers):
        words = [f"worker {number}", *(f"{key} {worker.get(key, 'unknown')}" for key in differing)]
        names.append(f"node {nodes[number]}" if number in nodes else ", ".join(words))
    return names


def _spans(source: ReportSource) -> JsonObject | None:
    """Return the spans inside tasks, and those on the critical path by name."""
    spans = source.profile.spans
    if "spans" not in source.sections:
        return None
    # Task, round, thread, label, start and end.
    records = [[source.numbers[task], *columns[:5]] for task, *columns in spans.records]
    critical = source.analysis and source.analysis.critical_spans
    return {
        "labels": spans.labels,
        "threads": spans.threads,
        "records": records[:_RECORDS],
        "left_out": max(0, len(records) - _RECORDS),
        "critical": critical and asdict(critical),
    }


#: Most values in a page, unless the times alone are more.
_SAMPLES = 400_000


def sampled(samples: Samples) -> list[str]:
    """Return the columns of tasks with any value but 0, times first."""
    rows = samples.tasks.values()
    keys = dict.fromkeys(["corrected_ms", "wall_ms", *(key for row in rows for key in row)])
    return [key for key in keys if any(any(row.get(key, ())) for row in rows)]


def _samples(source: ReportSource) -> JsonObject | None:
    """Return the samples of tasks by column, of as many columns as have room."""
    samples = source.profile.samples
    keys = sampled(samples)
    if not keys:
        return None
    rows = {k: [samples.tasks.get(name, {}).get(k) for name in source.names] for k in keys}
    sizes = accumulate(sum(len(row) for row in rows[key] if row) for key in keys)
    shown = [key for key, size in zip(keys, sizes) if size <= _SAMPLES] or keys[:1]
    statistics = source.sections.get("statistics", {}).get("tasks", {})
    return {
        "rounds": samples.rounds,
        "columns": [
            {"key": key, "label": label_of(key), "unit": unit_of(key), "rows": rows[key]}
            for key in shown
        ],
        "left_out": [label_of(key) for key in keys[len(shown) :]],
        "statistics": [statistics.get(name, {}).get(keys[0], {}) for name in source.names],
    }


def _comparison(
    source: ReportSource, base: ReportSource, comparison: ProfileComparison
) -> JsonObject:
    """Return the differences: times with verdicts, bytes, instructions."""
    from dagprofiler.analysis.compare import MEANING, WAY_OUT

    reasons: dict[str, int] = {}
    return {
        "base": {"profile": _facts(base), "summary": _summary(base)},
        "names": [comparison["base"], comparison["new"]],
        "headline": comparison.headline(),
        "meaning": f"{MEANING}; {WAY_OUT}" if comparison.needs_rounds else MEANING,
        "total": _judgement(comparison["total_time"], reasons),
        "tasks": [
            {"task": source.numbers[name], **_judgement(entry, reasons)}
            for name, entry in comparison["task_times"].items()
        ],
        "edges": [
            {"name": name, **_judgement(entry, reasons)}
            for name, entry in comparison["edge_times"].items()
        ],
        "reasons": list(reasons),
        "prediction": _against_reality(comparison.get("prediction"), source, base),
        "added": comparison.get("only_in_self", []),
        "removed": comparison.get("only_in_other", []),
        "bits": _weights(comparison["edge_weight_diff"]),
        "instructions": _weights(comparison["node_weight_diff"]),
    }


def _judgement(entry: JsonObject, reasons: dict[str, int]) -> JsonObject:
    # The reason for any other verdict is a p-value, for which a page of many tasks has no room.
    reason = entry["reason"] if entry["verdict"] == INCONCLUSIVE else None
    figures = "base_ms", "new_ms", "ratio", "low", "high", "coverage", "verdict"
    return {
        "quantity": label_of(entry["quantity"]),
        **{key: entry[key] for key in figures},
        "reason": None if reason is None else reasons.setdefault(reason, len(reasons)),
    }


def _weights(differing: Mapping[str, JsonObject]) -> list[tuple[str, int, int]]:
    return [(name, entry["self"], entry["other"]) for name, entry in differing.items()]


def _against_reality(
    error: JsonObject | None, source: ReportSource, base: ReportSource
) -> JsonObject | None:
    """Return how far a prediction is off, by parts, and both timelines, the predicted one first."""
    if error is None:
        return None
    sides = sorted((source, base), key=lambda side: "prediction" not in side.sections)
    timelines = [_timeline(side, source.numbers) for side in sides]
    if None in timelines:
        return None
    parts = [{"words": PARTS[name], **part} for name, part in error["parts"].items()]
    return {**error, "parts": parts, "sides": list(zip(("predicted", "real"), timelines))}


def sketch(source: ReportSource) -> Sketch:
    """Return the DAG with costs, data on edges, and the critical path."""
    fields = source.edge_table["data_fields"]
    is_known = any(names is not None for names in fields)
    return Sketch(
        source.names,
        source.edges,
        costs=source.costs,
        unit=source.analysis.weights.unit if source.analysis else "",
        fields=[", ".join(names or ()) for names in fields] if is_known else (),
        sizes=source.edge_table["size_bytes"],
        path=source.path,
        unfinished=[source.numbers[name] for name in source.profile.run.tasks],
    )
