"""summary(): a profile as text for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dagprofiler.rounds import COLD, MEASURED, WARM_UP
from dagprofiler.statistics import FLAGS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dagprofiler.profile import Profile

__all__ = ["summary"]

#: Tasks and edges shown of a large profile.
_MOST = 40

#: Columns of samples that other tables are about.
_TOLD = ("wall_ms", "corrected_ms", "serialize_ms", "deserialize_ms")


def summary(profile: Profile) -> str:
    """Return a table of tasks and one of edges, and what the run did besides.

    A weight marked ``*`` is a default: the task has no cost model. Of a large
    profile the first 40 tasks and edges are shown.
    """
    metrics, structure = profile.metrics, profile.dag_structure
    run = profile.sections.get("run", {})
    defaults = {
        name
        for name, entry in profile.sections.get("weight_sources", {}).items()
        if entry.get("node_weight") == "default"
    }
    lines = [
        (
            f"dagprofiler {_shown(profile.metadata.get('dagprofiler_version'))} "
            f"on {_shown(profile.hostname)}, {_shown(profile.timestamp)}, seed {profile.seed}"
        ),
        (
            f"{_count(len(structure['nodes']), 'task')}, "
            f"{_count(len(structure['edges']), 'edge')}, total {_number(metrics.total_time_ms)} ms"
        ),
    ]
    if run.get("state") == "partial":
        states = run.get("tasks", {})
        lines.append(f"PARTIAL: {_shown(run.get('reason'))}")
        lines += [f"  {_shown(t)}: {states[t].get('state')}" for t in list(states)[:_MOST]]
        lines += _rest(len(states), "tasks")
    conditions = run.get("conditions")
    if conditions is not None:
        kinds = profile.sections.get("samples", {}).get("rounds")
        lines.append(_rounds_line(run, conditions, kinds))
    rows = [
        (
            _shown(task.task),
            _number(task.compute_time_ms),
            _number(task.serialize_time_ms),
            _number(task.deserialize_time_ms),
            _number(task.bytes_in),
            _number(task.bytes_out),
            _number(metrics.node_weights.get(task.task)) + "*" * (task.task in defaults),
        )
        for task in metrics.task_metrics[:_MOST]
    ]
    head = ("task", "compute ms", "serialize ms", "deserialize ms", "bytes in", "bytes out")
    lines += ["", *_columns([(*head, "instructions"), *rows])]
    lines += _rest(len(metrics.task_metrics), "tasks")
    if defaults.intersection(task.task for task in metrics.task_metrics[:_MOST]):
        lines.append("* default: no cost model")
    if metrics.edge_metrics:
        edges = [
            (
                f"{_shown(edge.source)} -> {_shown(edge.target)}",
                _number(edge.size_bytes),
                _number(edge.wire_bytes),
                _shown(", ".join(edge.data_fields)),
            )
            for edge in metrics.edge_metrics[:_MOST]
        ]
        lines += ["", *_columns([("edge", "bytes", "on the wire", "fields"), *edges], left=(0, 3))]
        lines += _rest(len(metrics.edge_metrics), "edges")
    if "statistics" in profile.sections:
        lines += _statistics(profile.sections["statistics"])
        lines += _metered(profile.sections["statistics"])
    elif "samples" in profile.sections:
        lines += _metered_once(profile.sections["samples"])
    lines += _not_measured(profile.sections)
    if "overhead" in run:
        kinds = ", ".join(
            f"{kind[: -len('_ms')]} {_number(value)} ms" for kind, value in run["overhead"].items()
        )
        lines += ["", f"overhead: {kinds}"]
    return "\n".join(lines)


def _rounds_line(
    run: Mapping[str, Any], conditions: Mapping[str, Any], kinds: Sequence[str] | None
) -> str:
    """Return how often the DAG was measured, under which conditions, and what times are."""
    complete, warm_up = run.get("rounds", 0), conditions.get("warmup", 0)
    count = complete
    if kinds is not None:
        # What was asked for a failure may have kept from happening.
        count, warm_up = kinds.count(MEASURED), kinds.count(COLD) + kinds.count(WARM_UP)
    words = [_count(count, "measured round") if count else "no round was measured"]
    if complete < count:
        words.append("not complete" if count == 1 else f"{complete} of them complete")
    if warm_up:
        words.append(f"{warm_up} warm-up")
    if conditions.get("fresh_process"):
        words.append("each in a new process")
    if conditions.get("busy_cores"):
        words.append(f"other cores kept busy: {conditions['busy_cores']}")
    if run.get("ended_by") in ("max_rounds", "max_time_s"):
        words.append(f"ended by {run['ended_by']} before the precision was reached")
    if count > 1:
        words[-1] += "; times are medians"
    elif not count and warm_up:
        words[-1] += "; times are " + (
            "of the cold round" if warm_up == 1 else "medians of the cold round and warm-up"
        )
    return ", ".join(words)


def _statistics(section: Mapping[str, Any]) -> list[str]:
    """Return a table of the times in compute(), and what its flags mean."""
    tasks, flags = section.get("tasks", {}), section.get("flags", {})
    rows = [("task", "median ms", "interval", "coverage", "MAD", "min", "n", "flags")]
    for name in list(tasks)[:_MOST]:
        best = tasks[name].get("corrected_ms", tasks[name].get("wall_ms"))
        if best is None:
            continue
        interval = f"{_number(best.get('low'))} to {_number(best.get('high'))}"
        coverage = best.get("coverage")
        figures = (
            _number(best["median"]),
            interval,
            "-" if coverage is None else f"{coverage:.1%}",
            _number(best.get("mad")),
            _number(best.get("min")),
            _number(best["n"]),
        )
        rows.append((_shown(name), *figures, _shown(", ".join(flags.get(name, ())))))
    lines = ["", "compute(), without run-queue delay where that was measured:"]
    lines += _columns(rows, left=(0, 7))
    lines += _rest(len(tasks), "tasks")
    raised = {flag for found in flags.values() for flag in found}
    return lines + [f"{flag}: {meaning}" for flag, meaning in FLAGS.items() if flag in raised]


def _metered(section: Mapping[str, Any]) -> list[str]:
    """Return a table of the medians of what was metered beside times."""
    tasks = {
        name: {column: summary["median"] for column, summary in columns.items()}
        for name, columns in section.get("tasks", {}).items()
    }
    return _metered_table("medians of what was metered:", tasks)


def _metered_once(section: Mapping[str, Any]) -> list[str]:
    """Return the same of one round."""
    tasks = {
        name: {
            column: next((v for v in values if v is not None), None)
            for column, values in columns.items()
        }
        for name, columns in section.get("tasks", {}).items()
    }
    return _metered_table("what was metered:", tasks)


def _metered_table(head: str, tasks: Mapping[str, Mapping[str, Any]]) -> list[str]:
    # What is 0 throughout is not worth the width.
    shown = dict.fromkeys(
        column
        for row in tasks.values()
        for column, value in row.items()
        if value and column not in _TOLD
    )
    if not shown:
        return []
    rows = [
        (_shown(name), *(_number(tasks[name].get(column)) for column in shown))
        for name in list(tasks)[:_MOST]
    ]
    return [
        "",
        head,
        *_columns([("task", *map(_shown, shown)), *rows]),
        *_rest(len(tasks), "tasks"),
    ]


def _not_measured(sections: Mapping[str, Any]) -> list[str]:
    """Return why meters that were asked for gave nothing."""
    asked = sections.get("samples", {}).get("tasks", {})
    columns = {column for row in asked.values() for column in row}
    reasons = sections.get("environment", {}).get("not_measured", {})
    return [
        f"{_shown(column)}: {_shown(why)}" for column, why in reasons.items() if column in columns
    ]


def comparison_summary(
    task_times: Mapping[str, Mapping[str, Any]], edge_times: Mapping[str, Mapping[str, Any]]
) -> str:
    """Return a table of what a comparison says of each task and edge."""
    rows = [("", "ratio", "interval", "verdict")]
    for name, entry in [*task_times.items(), *edge_times.items()]:
        known = entry.get("low") is not None
        interval = f"{_number(entry['low'])} to {_number(entry['high'])}" if known else "-"
        verdict = ": ".join(_shown(entry[key]) for key in ("verdict", "reason") if key in entry)
        rows.append((_shown(name), _number(entry.get("ratio")), interval, verdict))
    return "\n".join(_columns(rows, left=(0, 3)))


def _shown(text: Any) -> str:
    """Return `text` with what would upset a terminal or break the line written as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))


def _number(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:,.3f}" if isinstance(value, float) else f"{value:,}"


def _columns(rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows)]
    return [
        "  ".join(
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in rows
    ]


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _rest(count: int, what: str) -> list[str]:
    return [f"... and {count - _MOST:,} more {what}"] if count > _MOST else []
