"""The parts of a report: what the page is told of a profile, as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Callable

from dagprofiler.documents import jsonable
from dagprofiler.report.figures import label_of
from dagprofiler.report.pictures import pictures
from dagprofiler.report.series import samples, timeline
from dagprofiler.statistics import FLAGS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dagprofiler.report.figures import Figures
    from dagprofiler.report.subject import Subject

__all__ = ["parts"]

#: Longest text of a parameter's value that is shown.
_LONGEST = 10_000

#: Rows of the tables of bottlenecks and of bounds.
_ROWS = 10

_MACHINE = {
    "cpu": "processor",
    "cpu_mhz": "MHz, at most",
    "cores": "logical processors",
    "cores_usable": "of them usable",
    "cores_quota": "granted by control groups, in cores",
    "memory_bytes": "memory",
    "machine": "architecture",
    "os": "operating system",
    "implementation": "implementation",
    "python": "Python",
    "blas_threads": "threads of BLAS",
}


def parts(subject: Subject, names: Iterable[str] = ()) -> dict[str, Any]:
    """Return the parts of these names, or all, that there is something to say in."""
    made = {name: _PARTS[name](subject) for name in names or _PARTS}
    return {name: part for name, part in made.items() if part is not None}


def _about(subject: Subject) -> dict[str, Any]:
    profile, run = subject.profile, subject.sections.get("run", {})
    return {
        "time": _moment(profile.timestamp),
        "host": profile.hostname,
        "seed": profile.seed,
        "version": profile.metadata.get("dagprofiler_version"),
        "state": run.get("state"),
        "reason": run.get("reason"),
        "rounds": run.get("rounds"),
    }


def _moment(timestamp: str | None) -> str | None:
    """Return a time to the second, as people read it."""
    try:
        moment = datetime.fromisoformat(str(timestamp).replace("Z", "+00:00"))
    except ValueError:
        return timestamp
    if moment.tzinfo is None:
        return f"{moment:%Y-%m-%d %H:%M:%S}"
    return f"{moment.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S} UTC"


def _summary(subject: Subject) -> dict[str, Any]:
    found, paths = subject.analysis, subject.paths
    summary: dict[str, Any] = {
        "total_ms": subject.profile.metrics.total_time_ms,
        "total": subject.sections.get("statistics", {}).get("total_ms"),
        "tasks": len(subject.names),
        "edges": len(subject.edges),
        "bytes": sum(
            value or 0
            for figures in subject.edge_figures
            if figures.key == "size_bytes"
            for value in figures.values
        ),
        "why_not": subject.why_not,
    }
    if found is None or paths is None:
        return summary
    return {
        **summary,
        "unit": found.weights.unit,
        "provenance": found.weights.provenance,
        "filled": len(found.weights.filled),
        "communication": found.communication_note,
        "with_communication": found.with_communication is not None,
        "work": found.work,
        "span": found.span,
        "path_length": paths.span,
        "parallelism": found.average_parallelism,
        "bottlenecks": [asdict(one) for one in found.bottlenecks[:_ROWS]],
        "bounds": _bounds(subject),
    }


def _bounds(subject: Subject) -> list[list[Any]]:
    """Return workers, makespan and speed-up at best, until more workers are of no use."""
    found = subject.analysis
    rows: list[list[Any]] = []
    if found is None or found.average_parallelism is None:
        return rows
    workers = 1
    while len(rows) < _ROWS:
        best = found.makespan_at_least(workers), found.speedup_at_most(workers)
        rows.append([workers, *best, found.makespan_at_most(workers)])
        if workers >= found.average_parallelism:
            break
        workers *= 2
    return rows


def _tasks(subject: Subject) -> dict[str, Any]:
    found, paths, numbers = subject.analysis, subject.paths, subject.numbers
    tasks: dict[str, Any] = {
        "names": subject.names,
        "figures": _columns(subject.task_figures),
        "states": {
            numbers[name]: entry
            for name, entry in subject.sections.get("run", {}).get("tasks", {}).items()
        },
    }
    if found is None or paths is None:
        return tasks
    return {
        **tasks,
        "cost": [found.weights.values[name] for name in subject.names],
        "levels": [found.levels[name] for name in subject.names],
        "slack": [paths.slack[name] for name in subject.names],
        "path": [numbers[name] for name in paths.critical_path],
    }


def _edges(subject: Subject) -> dict[str, Any]:
    carried = {
        (edge.source, edge.target): edge.data_fields
        for edge in subject.profile.metrics.edge_metrics
    }
    return {
        "source": [source for source, _ in subject.edges],
        "target": [target for _, target in subject.edges],
        "fields": [", ".join(carried.get(ends, ())) for ends in subject.pairs],
        "figures": _columns(subject.edge_figures),
    }


def _columns(figures: Iterable[Figures]) -> list[dict[str, Any]]:
    return [one._asdict() for one in figures]


def _growth(subject: Subject) -> dict[str, Any] | None:
    """Return the steps in which the graph grew in its last round, and the step of each task."""
    origins = subject.sections.get("origins", {})
    last = max((one["round"] for one in origins.get("fired", ())), default=0)
    steps = [one for one in origins.get("fired", ()) if one["round"] == last and one["tasks"]]
    if not steps:
        return None
    came = {one["rule"]: step for step, one in enumerate(steps, 1)}
    columns = origins["columns"]
    task, number, rule = map(columns.index, ("task", "round", "rule"))
    grown = {record[task] for record in origins["records"]}
    # Tasks that this round had not come after its last step.
    of_task = [len(steps) + 1 if name in grown else 0 for name in subject.names]
    for record in origins["records"]:
        if record[number] == last:
            of_task[subject.numbers[record[task]]] = came.get(record[rule], 0)
    return {
        "rules": [one["rule"] for one in steps],
        "at_ms": [one["at_ms"] for one in steps],
        "of_task": of_task,
    }


def _flags(subject: Subject) -> list[dict[str, Any]] | None:
    raised: dict[str, list[int]] = {}
    for name, flags in subject.sections.get("statistics", {}).get("flags", {}).items():
        for flag in flags:
            raised.setdefault(flag, []).append(subject.numbers[name])
    # Flags of a newer version come last, without words.
    known = [*FLAGS, *(flag for flag in raised if flag not in FLAGS)]
    return [
        {"flag": flag, "meaning": FLAGS.get(flag, ""), "tasks": raised[flag]}
        for flag in known
        if flag in raised
    ] or None


def _run(subject: Subject) -> list[list[str]]:
    """Return what the run was, and what it did besides, as rows of two cells."""
    run = dict(subject.sections.get("run", {}))
    overhead, conditions = run.pop("overhead", {}), run.pop("conditions", {})
    run.pop("tasks", None)
    metadata = subject.profile.metadata
    rows: list[list[Any]] = [
        ["taken", subject.profile.timestamp],
        ["host", subject.profile.hostname],
        ["seed", subject.profile.seed],
        *([_words(key), value] for key, value in metadata.items()),
        *([_words(key), value] for key, value in run.items()),
        *([f"overhead: {_words(key)}", value] for key, value in overhead.items()),
        *([f"rounds: {_words(key)}", value] for key, value in conditions.items()),
    ]
    return _texts(rows)


def _machine(subject: Subject) -> list[list[str]] | None:
    environment = subject.sections.get("environment", {})
    memory = environment.get("memory_bytes")
    if memory is not None:
        environment = {**environment, "memory_bytes": f"{memory / 2**30:.1f} GiB"}
    rows = [[label, environment.get(key)] for key, label in _MACHINE.items()]
    for key in ("versions", "thread_settings"):
        rows += [[name, text] for name, text in environment.get(key, {}).items()]
    calibration = dict(environment.get("calibration", {}))
    parts = calibration.pop("parts", {})
    rows += [[f"calibration: {kind}", speed] for kind, speed in parts.items()]
    rows += [[f"calibration: {_words(key)}", value] for key, value in calibration.items()]
    return _texts(rows) or None


def _missing(subject: Subject) -> list[list[str]] | None:
    """Return what was not measured, and why."""
    reasons = subject.sections.get("environment", {}).get("not_measured", {})
    return [[label_of(key), why] for key, why in reasons.items()] or None


def _configuration(subject: Subject) -> list[list[str]] | None:
    values: Mapping[str, Any] = jsonable(subject.profile.config)[0]
    return [[name, _text(value)] for name, value in values.items()] or None


def _words(key: str) -> str:
    for unit in ("_ms", "_bytes"):
        if key.endswith(unit):
            return f"{key[: -len(unit)].replace('_', ' ')}, in {unit[1:]}"
    return key.replace("_", " ")


def _texts(rows: Iterable[list[Any]]) -> list[list[str]]:
    """Return the rows that say something, as text."""
    return [[label, _text(value)] for label, value in rows if value is not None]


def _text(value: Any) -> str:
    if isinstance(value, str):
        text = value
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        text = f"{value:,}" if isinstance(value, int) else f"{value:,.12g}"
    else:
        text = json.dumps(value, ensure_ascii=False)
    if len(text) > _LONGEST:
        return f"{text[:_LONGEST]} … and {len(text) - _LONGEST:,} more characters"
    return text


#: What a report holds, by the name that the page knows it by. A part that a profile has nothing
#: for is None, and absent from the page.
_PARTS: dict[str, Callable[[Subject], Any]] = {
    "about": _about,
    "summary": _summary,
    "tasks": _tasks,
    "edges": _edges,
    "pictures": pictures,
    "growth": _growth,
    "timeline": timeline,
    "samples": samples,
    "flags": _flags,
    "missing": _missing,
    "run": _run,
    "machine": _machine,
    "configuration": _configuration,
}
