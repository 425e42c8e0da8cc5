"""The parts of a report: the data of a profile that the page receives as JSON."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from functools import cached_property
from itertools import islice
from math import isfinite
from typing import Any, Callable

from dagprofiler._document.rounds import MEASURED
from dagprofiler._document.table import Column, edge_table, edges_of, label_of, task_table, unit_of
from dagprofiler._util import grouped
from dagprofiler._util.json import jsonable
from dagprofiler._util.text import BYTES, quantity
from dagprofiler.analysis.compare import MEANING, WAY_OUT, ProfileComparison
from dagprofiler.analysis.critical_path import Paths, analysis_of, bounds_of
from dagprofiler.analysis.makespan import LABELS, PARTS, makespan_of
from dagprofiler.analysis.weights import known_values
from dagprofiler.profile import Profile
from dagprofiler.report.drawing import Picture, Sketch, fold, kinds_by_name, of_groups, of_tasks
from dagprofiler.stats import FLAGS, median
from dagprofiler.stats.ranktests import INCONCLUSIVE


def finite(value: Any) -> Any:
    """Return a number limited to the range of floats; version 0.1.0 wrote larger ones."""
    if isinstance(value, int) and abs(value) >= 2**53:
        limit = sys.float_info.max
        return float(max(-limit, min(value, limit)))
    return value


#: Columns of tasks that are no figures of the page: names, and what other parts show.
_NO_FIGURES = {
    *("task", "execution_order", "state", "flags", "share"),
    *("low_ms", "high_ms", "wall_time_ms", "corrected_ms"),
}

_EDGE_FIGURES = ("size_bytes", "wire_bytes", "serialize_ms", "deserialize_ms")


#: Most values in a page, unless the times alone are more.
_SAMPLES = 400_000

#: Most records of a timeline in a page, unless a single round has more.
_RECORDS = 60_000

#: Statistics of a task's times that are shown.
_STATISTICS = ("median", "low", "high", "coverage", "mad", "min", "n")


def samples(subject: ReportSource) -> dict[str, Any] | None:
    """Return the samples of tasks by column, times first; None if there are none."""
    section = subject.sections.get("samples")
    if section is None:
        return None
    rows = section["tasks"]
    keys = dict.fromkeys(
        ["corrected_ms", "wall_ms", *(key for row in rows.values() for key in row)]
    )
    columns: list[dict[str, Any]] = []
    left_out, room = [], _SAMPLES
    for key in keys:
        values = [rows.get(name, {}).get(key) for name in subject.names]
        taken = [v for row in values if row for v in row]
        label = label_of(key)
        if any(taken) and columns and len(taken) > room:
            left_out.append(label)
        elif any(taken):
            room -= len(taken)
            columns.append({"key": key, "label": label, "unit": unit_of(key), "rows": values})
    statistics = subject.sections.get("statistics", {}).get("tasks", {})
    first = columns[0]["key"] if columns else ""
    return {
        "rounds": section["rounds"],
        "total_ms": section.get("total_ms"),
        "columns": columns,
        "left_out": left_out,
        "statistics": {
            what: [statistics.get(name, {}).get(first, {}).get(what) for name in subject.names]
            for what in _STATISTICS
        },
    }


def timeline(
    subject: ReportSource, numbers: Mapping[str, int] | None = None
) -> dict[str, Any] | None:
    """Return start and end of the phases of tasks, in columns; None without a timeline.

    `numbers` are those of the tasks, by default the subject's own; other tasks are left out.
    """
    numbers = subject.numbers if numbers is None else numbers
    section = subject.sections.get("timeline")
    if section is None:
        return None
    place = {name: i for i, name in enumerate(section["columns"])}
    moments = (
        (phase, place.get(f"{phase}_start_ms"), place.get(f"{phase}_end_ms"))
        for phase in ("deserialize", "compute", "serialize")
    )
    phases = [phase for phase in moments if None not in phase]
    began = [
        record
        for record in section["records"]
        if record[0] in numbers and any(record[start] is not None for _, start, _ in phases)
    ]
    if not began:
        return None
    rounds = sorted({record[1] for record in began})
    typical = _typical(subject, rounds)
    most = max(1, _RECORDS * len(rounds) // len(began))
    # Rounds with a typical time are dropped last.
    shown = set(sorted(rounds, key=typical.index)[:most])
    kept = [record for record in began if record[1] in shown]
    kinds = subject.sections.get("samples", {}).get("rounds", ())
    ready = place.get("ready_ms")
    return {
        "workers": _nodes(subject) or _workers(section["workers"]),
        "rounds": [[n, kinds[n] if n < len(kinds) else ""] for n in rounds if n in shown],
        "first": typical[0],
        "left_out": len(rounds) - len(shown),
        "task": [numbers[record[0]] for record in kept],
        "round": [record[1] for record in kept],
        "worker": [record[2] for record in kept],
        "ready": [None if ready is None else record[ready] for record in kept],
        "phases": [
            [phase, [record[start] for record in kept], [record[end] for record in kept]]
            for phase, start, end in phases
        ],
    }


def _spans(subject: ReportSource) -> dict[str, Any] | None:
    """Return the spans inside tasks, in columns, and those on the critical path by name."""
    section = subject.sections.get("spans")
    if section is None:
        return None
    place = {name: i for i, name in enumerate(section["columns"])}
    kept = [record for record in section["records"] if record[place["end_ms"]] is not None]
    shown = kept[:_RECORDS]
    columns = "round", "thread", "label", "start_ms", "end_ms"
    found = None if subject.analysis is None else subject.analysis.critical_spans
    critical = found and asdict(found)
    for span in critical["spans"] if critical else ():
        span["tasks"] = [subject.numbers[name] for name in span["tasks"]]
    return {
        **{name.removesuffix("_ms"): [row[place[name]] for row in shown] for name in columns},
        "task": [subject.numbers[row[place["task"]]] for row in shown],
        "labels": section["labels"],
        "threads": section["threads"],
        "left_out": max(0, len(kept) - _RECORDS),
        "critical": critical,
    }


def _typical(subject: ReportSource, rounds: Sequence[int]) -> list[int]:
    """Return the rounds, measured ones with a time near the median first."""
    section = subject.sections.get("samples", {})
    kinds, totals = section.get("rounds", ()), section.get("total_ms", ())
    times = {n: totals[n] for n in rounds if n < len(totals) and totals[n] is not None}
    measured = {n: time for n, time in times.items() if kinds[n] == MEASURED}
    if not measured:
        return list(rounds)
    middle = median(list(measured.values()))
    return sorted(
        rounds,
        key=lambda n: (n not in measured, n not in times, abs(times.get(n, middle) - middle)),
    )


def _workers(workers: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a description of each worker, without what all have in common."""
    telling = [key for key in ("host", "pid") if len({str(w.get(key)) for w in workers}) > 1]
    return [
        ", ".join([f"worker {i}", *(f"{key} {worker.get(key, 'unknown')}" for key in telling)])
        for i, worker in enumerate(workers)
    ]


def _nodes(subject: ReportSource) -> list[str] | None:
    """Return the node of each worker of a run along a schedule; None if that is not clear."""
    schedule, section = subject.sections.get("schedule"), subject.sections["timeline"]
    if schedule is None:
        return None
    homes = {task: node for node, tasks in schedule.items() for task in tasks}
    found = {record[2]: homes.get(record[0]) for record in section["records"]}
    names = [found.get(number) for number in range(len(section["workers"]))]
    return None if None in names else [f"node {name}" for name in names]


def _prediction(subject: ReportSource) -> dict[str, Any] | None:
    """Return the makespan of a simulated profile on numbers of workers, and what would gain."""
    section = subject.sections.get("prediction", {})
    known = {name: section[name] for name in ("curve", "gains") if section.get(name)}
    return known or None


#: Parts of the base that are shown with those of the profile.
_OF_BOTH = ("about", "summary")

#: Tables whose differing rows are shown.
_DIFFERING = ("configuration", "machine")


def comparison(
    subject: ReportSource, base: ReportSource, found: ProfileComparison
) -> dict[str, Any]:
    """Return the differences: times with verdicts, bytes, instructions, parameters, machine."""
    mine, theirs = (parts(side, (*_OF_BOTH, *_DIFFERING)) for side in (subject, base))
    reasons: dict[str, int] = {}
    times = found["task_times"]
    return {
        "base": {name: theirs[name] for name in _OF_BOTH},
        "names": [found["base"], found["new"]],
        "headline": found.headline(),
        "meaning": f"{MEANING}; {WAY_OUT}" if found.needs_rounds else MEANING,
        "total": _judgement(found["total_time"], reasons),
        "verdicts": Counter(entry["verdict"] for entry in times.values()),
        "tasks": [
            {"task": subject.numbers[name], **_judgement(entry, reasons)}
            for name, entry in times.items()
        ],
        "edges": [
            {"name": name, **_judgement(entry, reasons)}
            for name, entry in found["edge_times"].items()
        ],
        "reasons": list(reasons),
        "prediction": _against_reality(found.get("prediction"), subject, base),
        "added": found.get("only_in_self", []),
        "removed": found.get("only_in_other", []),
        "bytes": _weights(found["edge_weight_diff"], 8),
        "instructions": _weights(found["node_weight_diff"], 1),
        **{name: _rows(mine, theirs, name) for name in _DIFFERING},
    }


def _against_reality(
    error: Mapping[str, Any] | None, subject: ReportSource, base: ReportSource
) -> dict[str, Any] | None:
    """Return how far a prediction is off, by parts, and both timelines, the predicted one first."""
    if error is None:
        return None
    sides: list[list[Any]] = []
    for side in sorted((subject, base), key=lambda side: "prediction" not in side.sections):
        shown = timeline(side, subject.numbers)
        if shown is None:
            return None
        shown["workers"] = _nodes(side) or [f"worker {i}" for i in range(len(shown["workers"]))]
        sides.append(["real" if sides else "predicted", shown])
    parts = [{"words": PARTS[name], **part} for name, part in error["parts"].items()]
    return {**error, "parts": parts, "sides": sides}


def _judgement(entry: Mapping[str, Any], reasons: dict[str, int]) -> dict[str, Any]:
    # Of the others it is a p-value, which a page of many tasks has no room for.
    reason = entry.get("reason") if entry["verdict"] == INCONCLUSIVE else None
    figures = {key: entry[key] for key in ("base_ms", "new_ms", "ratio", "low", "high", "coverage")}
    return {
        "quantity": label_of(entry["quantity"]),
        **{k: v if v is not None and isfinite(v) else None for k, v in figures.items()},
        "verdict": entry["verdict"],
        "reason": None if reason is None else reasons.setdefault(reason, len(reasons)),
    }


def _weights(differing: Mapping[str, Mapping[str, Any]], divisor: int) -> list[list[Any]]:
    return [
        [name, finite(entry["self"]) / divisor, finite(entry["other"]) / divisor]
        for name, entry in differing.items()
    ]


def _rows(mine: Mapping[str, Any], theirs: Mapping[str, Any], part: str) -> list[list[Any]]:
    """Return the differing rows of two tables of two columns, with both values.

    What only one side knows of its machine is no difference: a package that was not imported yet.
    """
    left, right = dict(mine.get(part, ())), dict(theirs.get(part, ()))
    known = [*filter(right.__contains__, left)]
    return [
        [label, left.get(label), right.get(label)]
        for label in (known if part == "machine" else dict.fromkeys([*left, *right]))
        if left.get(label) != right.get(label) and not label.startswith(_SPEED)
    ]


def sketch(subject: ReportSource) -> Sketch:
    """Return the DAG with costs, data on edges, and the critical path."""
    numbers, found = subject.numbers, subject.analysis
    lost = subject.sections.get("run", {}).get("tasks", {})
    return Sketch(
        subject.names,
        subject.edges,
        costs=_costs(subject),
        unit="" if found is None else found.weights.unit,
        fields=_fields(subject),
        sizes=subject.sizes,
        path=subject.path,
        unfinished=[numbers[name] for name in lost],
    )


def _costs(subject: ReportSource) -> Sequence[Any]:
    """Return the costs of tasks; None for costs that were filled in."""
    if subject.analysis is None:
        return ()
    return [*map(known_values(subject.analysis.weights).get, subject.names)]


def _fields(subject: ReportSource) -> Sequence[str]:
    """Return the fields of each edge; nothing if the profile does not hold them."""
    carried = {
        (edge.source, edge.target): ", ".join(edge.data_fields)
        for edge in subject.profile.metrics.edge_metrics
        if edge.data_fields or edge.wire_bytes is not None
    }
    return [carried.get(ends, "") for ends in subject.pairs] if carried else ()


class ReportSource:
    """A profile, and data that several parts of a report share.

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
    analysis
        None if no source has costs of the tasks; `why_not` is then the reason.

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
        self.pairs = edges_of(profile)
        self.edges = [(self.numbers[source], self.numbers[target]) for source, target in self.pairs]
        self.analysis, self.why_not = analysis_of(profile, cost, statistic)

    @cached_property
    def task_figures(self) -> list[Column]:
        """The figures of tasks, except those that are 0 for all."""
        columns = task_table(self.profile).columns
        # The candidates say which of them the node weight is.
        others = _NO_FIGURES | ({"node_weight"} if "estimated_instructions" in columns else set())
        return [
            column._replace(values=[*map(finite, column.values)])
            for column in columns.values()
            if column.key not in others and any(column.values)
        ]

    @cached_property
    def edge_figures(self) -> list[Column]:
        """The figures of edges, in the order of `pairs`."""
        return [
            column._replace(values=[*map(finite, column.values)])
            for key, column in edge_table(self.profile).columns.items()
            if key in _EDGE_FIGURES and any(value is not None for value in column.values)
        ]

    @property
    def sizes(self) -> Sequence[Any]:
        """The bytes of each edge, or None; empty if no size is known."""
        return next((c.values for c in self.edge_figures if c.key == "size_bytes"), ())

    @property
    def flags(self) -> dict[str, list[str]]:
        """The flags, to the names of their tasks."""
        raised = self.sections.get("statistics", {}).get("flags", {})
        return grouped((flag, name) for name, flags in raised.items() for flag in flags)

    @cached_property
    def rules(self) -> dict[str, str]:
        """The rule that added each task of a graph that grew."""
        return {entry["task"]: entry["rule"] for entry in self.origins}

    @cached_property
    def origins(self) -> list[dict[str, Any]]:
        """The task, the round and the rule of each task that a rule added."""
        section = self.sections.get("origins", {"columns": (), "records": ()})
        return [dict(zip(section["columns"], record)) for record in section["records"]]

    @cached_property
    def kinds(self) -> list[str]:
        """The kind of each task: the rule that added it, else the pattern of its name."""
        patterns = kinds_by_name(self.names)
        return [self.rules.get(name, pattern) for name, pattern in zip(self.names, patterns)]

    @property
    def paths(self) -> Paths | None:
        """The paths with communication if known, else without."""
        found = self.analysis
        return None if found is None else found.with_communication or found.without_communication

    @property
    def path(self) -> list[int]:
        """The tasks on the critical path, by number; empty if that is unknown."""
        return [self.numbers[name] for name in (self.paths.critical_path if self.paths else ())]


#: From this number of tasks on, groups are shown first.
_MANY = 150

#: Most tasks and edges at which a browser stays responsive.
_TASKS, _EDGES = 4_000, 12_000

#: Groups get a picture if their number is below this share of the tasks.
_FEWER = 0.7


def pictures(subject: ReportSource) -> list[dict[str, Any]]:
    """Return one or two pictures, the one that is shown first at the front.

    Nodes and edges are in columns. A picture of groups lists the tasks of each node and the edges
    of each edge; in one of tasks they are those of the profile, in its order.
    """
    count, edges = len(subject.names), subject.edges
    whole = count <= _TASKS and len(edges) <= _EDGES
    made = []
    if whole:
        made.append({"kind": "tasks", **_picture_columns(of_tasks(subject.names, edges))})
    folding = fold(subject.names, edges, kinds=subject.kinds)
    if not whole or len(folding.groups) < _FEWER * count:
        groups = of_groups(folding)
        of = {"labels": groups.labels, "tasks": groups.tasks, "of": groups.of}
        picture = {"kind": "groups", **of, **_picture_columns(groups)}
        made.insert(0 if count > _MANY else len(made), picture)
    return made


def _picture_columns(picture: Picture) -> dict[str, Any]:
    return {
        "layers": picture.layout.layers,
        "places": picture.layout.places,
        "source": [source for source, _ in picture.edges],
        "target": [target for _, target in picture.edges],
        "bends": picture.layout.bends,
    }


#: Most characters of a parameter's value that are shown.
_LONGEST = 10_000

#: Rows of the tables of bottlenecks and of bounds.
_ROWS = 10

#: Words for the keys of metadata, a run and an environment that do not read as words.
_WORDS = {
    "dagprofiler_version": "dagprofiler",
    "schema_version": "version of the file's schema",
    "rounds": "complete rounds",
    "elapsed_ms": "elapsed time",
    "ended_by": "what ended the rounds",
    "resumed": "times resumed",
    "n": "measured rounds asked for",
    "warmup": "warm-up rounds",
    "max_rounds": "rounds, at most",
    "max_time_s": "time of all rounds, at most",
    "precision": "precision asked for, as a share of the median",
    "collect_garbage": "garbage collected before",
    "fresh_process": "each round in a new process",
    "busy_cores": "other cores kept busy",
    "check_outputs": "outputs compared between rounds",
    "prepare_ms": "overhead: preparing the run",
    "loop_ms": "overhead: run loop, outside of tasks",
    "hooks_ms": "overhead: hooks",
    "meters_ms": "overhead: meters",
    "garbage_ms": "overhead: collecting garbage",
    "between_rounds_ms": "overhead: between rounds",
    "cpu": "processor",
    "cpu_mhz": "clock, at most, in MHz",
    "cores": "logical processors",
    "cores_usable": "of them usable",
    "cores_quota": "granted by control groups, in cores",
    "memory_bytes": "memory",
    "machine": "architecture",
    "os": "operating system",
    "python": "Python",
    "blas_threads": "threads of BLAS",
}

#: Begins the rows of measured speeds, which differ from run to run.
_SPEED = "speed, reference machine = 1"


def parts(subject: ReportSource, names: Iterable[str] = ()) -> dict[str, Any]:
    """Return the parts with these names, or all, that are not empty."""
    made = {name: _PARTS[name](subject) for name in names or _PARTS}
    return {name: part for name, part in made.items() if part is not None}


def _about(subject: ReportSource) -> dict[str, Any]:
    profile, run = subject.profile, subject.sections.get("run", {})
    git = subject.sections.get("environment", {}).get("git", {})
    changed = "" if git.get("clean", True) else " with changes"
    return {
        "name": profile.metadata.get("name"),
        "commit": f"commit {git['commit'][:10]}{changed}" if git else None,
        "time": _moment(profile.timestamp),
        "host": profile.hostname,
        "seed": profile.seed,
        "version": profile.metadata.get("dagprofiler_version"),
        "state": run.get("state"),
        "reason": run.get("reason"),
        "rounds": run.get("rounds"),
        "predicted": subject.sections.get("prediction", {}).get("reasons"),
    }


def _moment(timestamp: str | None) -> str | None:
    """Return a time to the second, formatted for reading."""
    try:
        moment = datetime.fromisoformat(str(timestamp).replace("Z", "+00:00"))
    except ValueError:
        return timestamp
    if moment.tzinfo is None:
        return f"{moment:%Y-%m-%d %H:%M:%S}"
    return f"{moment.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S} UTC"


def _summary(subject: ReportSource) -> dict[str, Any]:
    found, paths = subject.analysis, subject.paths
    summary: dict[str, Any] = {
        "total_ms": subject.profile.metrics.total_time_ms,
        "total": subject.sections.get("statistics", {}).get("total_ms"),
        "tasks": len(subject.names),
        "edges": len(subject.edges),
        "bytes": sum(size or 0 for size in subject.sizes),
        "why_not": subject.why_not,
    }
    if found is None or paths is None:
        return summary
    return {
        **summary,
        "unit": found.weights.unit,
        "source": found.weights.source.replace("_", " "),
        "provenance": found.weights.provenance,
        "filled": len(found.weights.filled),
        "communication": found.communication_note,
        "with_communication": found.with_communication is not None,
        "work": found.work,
        "span": found.span,
        "with_edges": paths.span,
        "parallelism": found.average_parallelism,
        "bottlenecks": [item._asdict() for item in found.bottlenecks[:_ROWS]],
        "bounds": [
            [workers, shortest, speedup, longest]
            for workers, shortest, longest, speedup in islice(bounds_of(found), _ROWS)
        ],
    }


def _makespan(subject: ReportSource) -> dict[str, Any] | None:
    """Return where the time of the run went, and what would make it shorter."""
    shown = makespan_of(subject.profile, subject.analysis)
    return shown and {**shown, "labels": LABELS}


def _tasks(subject: ReportSource) -> dict[str, Any]:
    found, paths, numbers = subject.analysis, subject.paths, subject.numbers
    run = subject.sections.get("run", {})
    tasks: dict[str, Any] = {
        "names": subject.names,
        "figures": [column._asdict() for column in subject.task_figures],
        "states": {numbers[name]: entry for name, entry in run.get("tasks", {}).items()},
        "bound": {
            numbers[name]: [[key, _text(value)] for key, value in values.items()]
            for name, values in run.get("bound", {}).items()
            if name in numbers
        },
    }
    if found is None or paths is None:
        return tasks
    return {
        **tasks,
        "cost": _costs(subject),
        "levels": [found.levels[name] for name in subject.names],
        "slack": [paths.slack[name] for name in subject.names],
        "path": subject.path,
    }


def _kinds(subject: ReportSource) -> dict[str, Any]:
    """Return the kinds of tasks, the most expensive first, and the kind of each task."""
    totals = Counter(dict.fromkeys(subject.kinds, 0.0))
    for kind, cost in zip(subject.kinds, _costs(subject)):
        totals[kind] += cost or 0
    labels = sorted(totals, key=lambda kind: -totals[kind])
    place = {label: i for i, label in enumerate(labels)}
    by_rule = "one rule added them, or their names differ only in numbers"
    return {
        "by": by_rule if subject.rules else "their names differ only in numbers",
        "labels": labels,
        "of": [place[kind] for kind in subject.kinds],
    }


def _edges(subject: ReportSource) -> dict[str, Any]:
    return {
        "source": [source for source, _ in subject.edges],
        "target": [target for _, target in subject.edges],
        "fields": _fields(subject) or [""] * len(subject.pairs),
        "figures": [column._asdict() for column in subject.edge_figures],
    }


def _growth(subject: ReportSource) -> dict[str, Any] | None:
    """Return the steps in which the graph grew in its last round, and the step of each task."""
    fired = subject.sections.get("origins", {}).get("fired", ())
    last = max((step["round"] for step in fired), default=0)
    steps = [step for step in fired if step["round"] == last and step["tasks"]]
    if not steps:
        return None
    came = {step["rule"]: number for number, step in enumerate(steps, 1)}
    # Tasks that were not in this round come after its last step.
    of_task = [len(steps) + 1 if name in subject.rules else 0 for name in subject.names]
    for entry in subject.origins:
        if entry["round"] == last:
            of_task[subject.numbers[entry["task"]]] = came.get(entry["rule"], 0)
    return {
        "rules": [step["rule"] for step in steps],
        "at_ms": [step["at_ms"] for step in steps],
        "of_task": of_task,
    }


def _flags(subject: ReportSource) -> list[dict[str, Any]] | None:
    raised = subject.flags
    # Flags of a newer version come last, without a meaning.
    known = [*filter(raised.__contains__, FLAGS), *(flag for flag in raised if flag not in FLAGS)]
    numbers = {flag: [subject.numbers[name] for name in raised[flag]] for flag in known}
    return [
        {"flag": flag, "meaning": FLAGS.get(flag, ""), "tasks": tasks}
        for flag, tasks in numbers.items()
    ] or None


def _run(subject: ReportSource) -> list[list[str]]:
    """Return the run, its conditions and overhead, as rows of two cells."""
    profile, run = subject.profile, subject.sections.get("run", {})
    origin = {"taken": profile.timestamp, "host": profile.hostname, "seed": profile.seed}
    parts = (origin, profile.metadata, run, run.get("conditions", {}), run.get("overhead", {}))
    return [row for part in parts for row in _named(part)]


def _machine(subject: ReportSource) -> list[list[str]] | None:
    environment = subject.sections.get("environment", {})
    rows = _named(environment)
    for key in ("versions", "thread_settings"):
        rows += _texts(environment.get(key, {}).items())
    calibration = environment.get("calibration", {})
    speeds = {"all": calibration.get("score"), **calibration.get("parts", {})}
    rows += _texts((f"{_SPEED}: {kind}", speed) for kind, speed in speeds.items())
    return rows or None


def _missing(subject: ReportSource) -> list[list[str]] | None:
    """Return what was not measured, and why."""
    reasons = subject.sections.get("environment", {}).get("not_measured", {})
    # A meter and the weights that it gives have one label.
    rows = {label_of(key): why for key, why in reasons.items()}
    return [[label, why] for label, why in rows.items()] or None


def _configuration(subject: ReportSource) -> list[list[str]] | None:
    values: Mapping[str, Any] = jsonable(subject.profile.config)[0]
    return [[name, _text(value)] for name, value in values.items()] or None


def _named(section: Mapping[str, Any]) -> list[list[str]]:
    """Return the single values of a section, with the units that their keys end in."""
    return _texts(
        (_WORDS.get(key, key.replace("_", " ")), _with_unit(key, value))
        for key, value in section.items()
        if not isinstance(value, dict)
    )


def _with_unit(key: str, value: Any) -> Any:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return len(value)
    if key == "ended_by":
        return _WORDS.get(value, value)
    unit = key.rpartition("_")[2]
    if unit in ("ms", "s", "bytes") and isinstance(value, (int, float)):
        return quantity(value, BYTES if unit == "bytes" else unit).strip()
    return value


def _texts(rows: Iterable[tuple[str, Any]]) -> list[list[str]]:
    """Return the rows that are not empty, as text."""
    return [[label, _text(value)] for label, value in rows if value is not None]


def _text(value: Any) -> str:
    if isinstance(value, str):
        text = value
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        text = f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"
    else:
        text = json.dumps(value, ensure_ascii=False)
    if len(text) > _LONGEST:
        return f"{text[:_LONGEST]} … and {len(text) - _LONGEST:,} more characters"
    return text


#: Parts of a report by the name that the page uses. A part without data is None, and absent from
#: the page.
_PARTS: dict[str, Callable[[ReportSource], Any]] = {
    "about": _about,
    "summary": _summary,
    "makespan": _makespan,
    "tasks": _tasks,
    "edges": _edges,
    "pictures": pictures,
    "growth": _growth,
    "kinds": _kinds,
    "prediction": _prediction,
    "timeline": timeline,
    "spans": _spans,
    "samples": samples,
    "flags": _flags,
    "missing": _missing,
    "run": _run,
    "machine": _machine,
    "configuration": _configuration,
}
