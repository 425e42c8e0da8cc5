"""figures() and blocks(): what is shown of a profile, as data and as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import TypeVar

from dagprofiler._document import ProfileData
from dagprofiler._document.rounds import COLD, MEASURED, WARM_UP
from dagprofiler._document.table import edge_table, edges_of, task_table
from dagprofiler._util import JsonObject, Values, grouped
from dagprofiler._util.json import collector_paused, jsonable, mapping_in
from dagprofiler._util.text import (
    BYTES,
    MOST_ROWS,
    Block,
    doubts,
    number,
    printable,
    quantity,
    render,
    some,
    table_of,
)
from dagprofiler.analysis.critical_path import Analysis, analysis_of, route, span_block
from dagprofiler.analysis.makespan import makespan_blocks, makespan_of
from dagprofiler.analysis.weights import Number, known_values
from dagprofiler.errors import counted, short_repr
from dagprofiler.stats import FLAGS

Item = TypeVar("Item")

#: The parts of what is shown, in their order.
PARTS = ("summary", "makespan", "tasks", "edges", "path", "meters", "flags")

#: Orders of the tasks, each by a column.
SORTS = {
    "time": "cost",
    "in": "bytes_in",
    "out": "bytes_out",
    "weight": "node_weight",
    "name": "task",
    "order": "execution_order",
}

#: Columns whose smallest values are first.
_ASCENDING = ("task", "execution_order")

#: Columns of the table of tasks that are no meters of their own.
_OWN = {
    *("task", "execution_order", "state", "time_ms", "low_ms", "high_ms", "share", "flags"),
    *("compute_time_ms", "deserialize_time_ms", "serialize_time_ms", "bytes_in", "bytes_out"),
    *("node_weight", "estimated_instructions", "reference_time_ms", "corrected_ms", "cost"),
}

#: How many tasks a sentence names.
_NAMED = 5


def summary(profile: ProfileData) -> str:
    """Return what terminals show of a profile."""
    with collector_paused():
        return render(profile_blocks(profile))


def profile_blocks(profile: ProfileData) -> list[Block]:
    """Return what terminals and notebooks show of a profile; at most 40 rows of each table."""
    return blocks(figures(profile, top=MOST_ROWS))


def figures(
    profile: ProfileData, sort: str = "time", cost: str | None = None, top: int = 0
) -> JsonObject:
    """Return what is shown of a profile, by part.

    Parameters
    ----------
    sort
        Order of the tasks, one of `SORTS`.
    cost
        Source of the tasks' costs, as for :func:`dagprofiler.analyze`; by default their times.
    top
        Maximum number of tasks, edges and bottlenecks; 0 for all.

    Raises
    ------
    WeightError
        If `cost` is given and no task has such a cost.
    """
    with collector_paused():
        analysis, why_not = analysis_of(profile, cost)
        costs = {} if analysis is None else known_values(analysis.weights)
        total = sum(costs.values())
        names, pairs = profile.dag_structure["nodes"], edges_of(profile)
        by = SORTS[sort]
        values = [costs.get(n) for n in names] if by == "cost" else task_table(profile)[by]
        tasks = list(task_table(profile, _first(names, values, top, down=by not in _ASCENDING)))
        for task in tasks:
            task["cost"] = costs.get(task["task"])
            task["share"] = task["cost"] / total if total and task["cost"] is not None else None
        sizes = {(e.source, e.target): e.size_bytes for e in profile.metrics.edge_metrics}
        return {
            "summary": _summary(profile, analysis, len(pairs)),
            "makespan": makespan_of(profile, analysis),
            "tasks": tasks,
            "edges": list(edge_table(profile, _first(pairs, list(map(sizes.get, pairs)), top))),
            "path": _path(analysis, why_not, top),
            "flags": flags_of(profile),
        }


def _first(
    items: Sequence[Item], values: Sequence[Number | None], top: int, *, down: bool = True
) -> list[Item]:
    """Return the first items in the order of their values, or all of them for 0."""
    keys = [value or 0 for value in values]
    order = sorted(range(len(items)), key=keys.__getitem__, reverse=down)
    return [items[i] for i in order[: top or None]]


def _summary(profile: ProfileData, analysis: Analysis | None, edges: int) -> JsonObject:
    run, environment = profile.run, profile.environment
    return {
        "name": profile.name,
        "tasks": len(profile.dag_structure["nodes"]),
        "edges": edges,
        "total_time_ms": profile.metrics.total_time_ms,
        "cost": None if analysis is None else analysis.weights.source,
        "unit": None if analysis is None else analysis.weights.unit,
        "state": run.state,
        "reason": run.reason,
        "failures": {n: entry for n, entry in run.tasks.items() if "error" in entry},
        "rounds": run.rounds,
        "conditions": _conditions(profile),
        "executor": run.executor,
        "overhead": run.overhead,
        "predicted": "prediction" in profile.sections,
        "origin": _origin(profile),
        "command": environment.command,
        "config": jsonable(profile.config)[0],
        "notes": [*_notes(profile), *_moving(profile)],
    }


def _moving(profile: ProfileData) -> Iterator[str]:
    """Yield the time in which data are moved between tasks, which is in no task's own time."""
    entries = profile.metrics.task_metrics
    sent = sum([entry.serialize_time_ms or 0 for entry in entries])
    received = sum([entry.deserialize_time_ms or 0 for entry in entries])
    if profile.run.overhead is not None and (sent or received):
        yield f"data: serialized in {number(sent)} ms, deserialized in {number(received)} ms"


def _origin(profile: ProfileData) -> str:
    """Return version, host, time, commit and seed of a profile, as far as known."""
    environment, imported = profile.environment, mapping_in(profile.sections, "imported")
    words = f"dagprofiler {printable(profile.metadata.get('dagprofiler_version'))}"
    if imported:
        source = f"{imported.get('format', '')} {imported.get('version', '')}".strip()
        words += f" (imported{f' from {printable(source)}' if source else ''})"
    if environment.python is not None:
        words += f", Python {printable(environment.python)}"
    if profile.hostname is not None:
        words += f" on {printable(profile.hostname)}"
    if "timestamp" not in environment.not_measured:
        words += f", {printable(profile.timestamp)[:19].replace('T', ' ')}"
    if "commit" in environment.git:
        changed = " with changes" if environment.git.get("clean") is False else ""
        words += f", commit {printable(environment.git['commit'])[:10]}{changed}"
    if profile.seed is not None:
        return f"{words}, seed {profile.seed}"
    # Files of other tools don't record seeds.
    return words if imported else f"{words}, no seed"


def _conditions(profile: ProfileData) -> str | None:
    """Return the number of rounds, their conditions, and the statistic of the times."""
    run, kinds = profile.run, Counter(profile.samples.rounds)
    conditions = run.conditions
    if not conditions:
        return None
    complete, warm_up = run.rounds or 0, kinds[COLD] + kinds[WARM_UP]
    # After a failure there may be fewer rounds than requested, or some that are not complete.
    measured = kinds[MEASURED] if kinds else complete
    words = [counted(measured, "measured round")]
    if complete < measured:
        words.append(f"{complete} of them complete")
    if warm_up:
        words.append(f"{warm_up} warm-up")
    if conditions.get("fresh_process"):
        words.append("each in a new process")
    if conditions.get("busy_cores"):
        words.append(f"other cores kept busy: {conditions['busy_cores']}")
    if run.ended_by in ("max_rounds", "max_time_s"):
        words.append(f"ended by {run.ended_by} before the precision was reached")
    times = "; times are of the warm-up" if warm_up and not measured else ""
    times = "; times are medians" if measured > 1 else times
    return f"{', '.join(words)}{times}"


def _notes(profile: ProfileData) -> Iterator[str]:
    """Yield doubts about a prediction, the engine, why figures are missing, and unfired rules."""
    sections = profile.sections
    prediction = sections.get("prediction", {})
    if prediction.get("interval_ms"):
        low, high = (number(end) for end in prediction["interval_ms"])
        yield f"95 % from {low} to {high} ms in all"
    if prediction.get("beyond", 0) > 1:
        yield f"parameters are up to {prediction['beyond']:.3g} times beyond the measured values"
    yield from doubts(prediction.get("reasons", ()))
    engine = mapping_in(sections, "engine")
    if engine:
        times = [f"{name} {number(engine.get(f'{name}_ms'))} ms" for name in _ENGINE]
        workers = counted(engine.get("workers", 0), "worker")
        where = f"{engine.get('executor')} on {engine.get('host')}"
        yield f"engine: {where}, {workers}: {', '.join(times)} a task"
    if "unassigned_metrics" in sections:
        yield "no times: execution_metrics named no tasks, and was not one entry for each"
    columns = {column for row in profile.samples.tasks.values() for column in row}
    for column, why in profile.environment.not_measured.items():
        if column in columns:
            yield f"{column}: {why}"
    origins = profile.origins
    fired = Counter(rule for rule, _ in {(e["rule"], e["round"]) for e in origins.fired})
    unfired = grouped((entry["rule"], entry["reason"]) for entry in origins.never_fired)
    for rule, reasons in unfired.items():
        partly = f"did not fire in {len(reasons)} of {len(reasons) + fired[rule]} rounds"
        yield f"rule {rule!r} {partly if fired[rule] else 'never fired'}: {reasons[-1]}"


#: Times of an engine that are shown.
_ENGINE = ("latency", "gap", "driver")


def _path(analysis: Analysis | None, why_not: str, top: int) -> JsonObject:
    """Return the critical path, the parallelism and the bottlenecks."""
    if analysis is None:
        return {"tasks": [], "why_not": why_not}
    alone, with_edges = analysis.without_communication, analysis.with_communication
    return {
        "tasks": list(alone.critical_path),
        "tasks_with_edges": None if with_edges is None else list(with_edges.critical_path),
        "unit": analysis.weights.unit,
        "span": analysis.span,
        "span_with_edges": None if with_edges is None else with_edges.span,
        "work": analysis.work,
        "parallelism": analysis.average_parallelism,
        "gains": [item._asdict() for item in alone.bottlenecks[: top or None]],
        "spans": None if analysis.critical_spans is None else asdict(analysis.critical_spans),
    }


def flags_of(profile: ProfileData) -> list[JsonObject]:
    """Return the raised flags with their tasks; those of a newer version have no meaning."""
    raised = profile.sections.get("statistics", {}).get("flags", {})
    tasks = grouped((flag, name) for name, flags in raised.items() for flag in flags)
    return [
        {"flag": flag, "meaning": FLAGS.get(flag, ""), "tasks": tasks[flag]}
        for flag in dict.fromkeys([*FLAGS, *tasks])
        if flag in tasks
    ]


def blocks(shown: JsonObject, parts: Sequence[str] = PARTS) -> list[Block]:
    """Return the blocks of some parts of what :func:`figures` returned."""
    about, tasks, makespan = shown["summary"], shown["tasks"], shown["makespan"]
    flags = [
        printable(f"{entry['flag']}: {entry['meaning'] or 'not known to this version'}")
        for entry in shown["flags"]
    ]
    by_part: dict[str, Iterable[Block]] = {
        "summary": _summary_blocks(shown),
        "makespan": () if makespan is None else makespan_blocks(makespan),
        "tasks": [_task_block(tasks, about)],
        "edges": [_edge_block(shown["edges"], about)],
        "path": _path_blocks(shown["path"]),
        "meters": [_meter_block(tasks, about)],
        "flags": [Block(notes=flags)],
    }
    return [block for part in PARTS if part in parts for block in by_part[part]]


def _summary_blocks(shown: JsonObject) -> Iterator[Block]:
    """Yield what the profile is of, its size and total, and what is wrong with its figures."""
    about, flags = shown["summary"], shown["flags"]
    total = about["total_time_ms"]
    # Only runs of several rounds have conditions.
    of = "in all" if about["conditions"] is None else "a round"
    time = f"{number(total)} ms {of}"
    if total is None:
        time = f"total time unknown{' (use simulate)' if about['predicted'] else ''}"
    size = counted(about["tasks"], "task"), counted(about["edges"], "edge")
    parts = (about["name"], *size, time, about["executor"])
    head = ", ".join([printable(part) for part in parts if part is not None])
    notes = [] if about["conditions"] is None else [about["conditions"]]
    notes += [printable(f"{entry['flag']}: {some(entry['tasks'], _NAMED)}") for entry in flags]
    if about["state"] == "partial":
        notes.insert(0, f"PARTIAL: {printable(about['reason'])}")
    notes += [printable(note) for note in about["notes"]]
    if about["overhead"] is not None:
        overhead = about["overhead"].items()
        kinds = (f"{_words(kind.removesuffix('_ms'))} {number(ms)} ms" for kind, ms in overhead)
        every = ", all rounds together" if (about["rounds"] or 0) > 1 else ""
        notes += [f"outside of the tasks{every}: {', '.join(kinds)}"]
    if about["config"]:
        values = (f"{key}={short_repr(value)}" for key, value in about["config"].items())
        notes.append(printable(f"configuration: {', '.join(values)}"))
    predicted = "PREDICTED, not measured; " if about["predicted"] else ""
    yield Block(f"{predicted}{head}", notes=[*notes, printable(about["origin"])])
    for name, entry in about["failures"].items():
        yield failure_block(name, entry)


def failure_block(name: str, entry: Values) -> Block:
    """Return where and how a task failed."""
    lines = []
    for frame in entry.get("traceback", ()):
        lines.append(f"  {frame['file']}, line {frame['line']}, in {frame['function']}")
        lines += [f"    {frame['text']}"] if frame["text"] else []
    title = f"task {printable(name)!r} failed: {printable(entry['error'])}"
    return Block(title, notes=list(map(printable, lines)))


def _task_block(tasks: Sequence[JsonObject], about: JsonObject) -> Block:
    """Return the table of tasks; columns that nothing is known of are left out."""
    is_time = about["cost"] in ("time", None)
    cost = "time ms" if is_time else f"{about['cost']} {about['unit']}"
    states = [task["state"] for task in tasks]
    columns = {
        "task": [task["task"] for task in tasks],
        cost: [task["cost"] for task in tasks],
        "+-": [_half_width(task) for task in tasks] if is_time else [],
        "share": ["-" if task["share"] is None else f"{task['share']:.1%}" for task in tasks],
        "in": [quantity(task["bytes_in"], BYTES) for task in tasks],
        "out": [quantity(task["bytes_out"], BYTES) for task in tasks],
        "instructions": [task["node_weight"] for task in tasks],
        "state": states if {*states} - {"succeeded", None} else [],
    }
    for head in ("+-", "instructions", "state"):
        if {*columns[head]} <= {None, "-"}:
            del columns[head]
    table = table_of([*columns], zip(*columns.values()))
    left = (0, len(columns) - 1) if "state" in columns else (0,)
    return Block("tasks", table, left, "tasks", more=about["tasks"] - len(tasks))


def _half_width(task: JsonObject) -> str:
    """Return the half-width of the median's interval, in percent of the median."""
    low, median, high = task["low_ms"], task["time_ms"], task["high_ms"]
    if low is None or high is None or not median:
        return "-"
    return f"{max(high - median, median - low) / median:.1%}"


def _edge_block(edges: Sequence[JsonObject], about: JsonObject) -> Block:
    rows = [
        (
            f"{edge['source']} -> {edge['target']}",
            quantity(edge["size_bytes"], BYTES),
            quantity(edge["wire_bytes"], BYTES),
            some(edge["data_fields"] or (), 3),
        )
        for edge in edges
    ]
    table = table_of(("edge", "bytes", "on the wire", "fields"), rows)
    return Block("edges", table, (0, 3), "edges", more=about["edges"] - len(edges))


def _path_blocks(path: JsonObject) -> Iterator[Block]:
    names = path["tasks"]
    if "why_not" in path:
        yield Block(f"no critical path: {path['why_not']}")
    if not names:
        return
    unit, with_edges = path["unit"], path["span_with_edges"]
    head = f"critical path: {number(path['span'])} of {number(path['work'])} {unit} in all tasks"
    if path["parallelism"] is not None:
        head += f", so that concurrency gives a speed-up of at most {path['parallelism']:.2f}"
    notes = [f"  {route(names)}"]
    if with_edges is not None:
        also = path["tasks_with_edges"]
        words = f", {route(also)}" if also != names else ""
        notes.append(f"  with serializing between tasks: {number(with_edges)} {unit}{words}")
    gains = [item for item in path["gains"] if item["gain"]][:3]
    if gains:
        words = ", ".join(f"{printable(item['name'])} {number(item['gain'])}" for item in gains)
        notes.append(f"  gain if free, with enough workers, in {unit}: {words}")
    yield Block(head, notes=notes)
    if path["spans"] is not None:
        yield span_block(path["spans"])


def _words(key: str) -> str:
    return printable(key.replace("_", " "))


def _meter_block(tasks: Sequence[JsonObject], about: JsonObject) -> Block:
    """Return a table of what was metered; columns that are 0 throughout are left out."""
    keys = dict.fromkeys(key for task in tasks for key in task if key not in _OWN)
    shown = [key for key in keys if any(task[key] for task in tasks)]
    rows = [(task["task"], *(task[key] for key in shown)) for task in tasks if shown]
    table = table_of(["task", *(_words(key) for key in shown)], rows)
    return Block("meters", table, what="tasks", more=about["tasks"] - len(tasks))
