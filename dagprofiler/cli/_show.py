"""The command ``show``: a profile as figures, and these as text of 80 columns."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from dagprofiler._util.text import aligned, printable
from dagprofiler.analysis.weights import entries_of_tasks
from dagprofiler.cli._output import fitted, load_profile, print_json, print_text, width
from dagprofiler.report.data import ReportSource
from dagprofiler.stats.summary import FLAGS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from dagprofiler.profile import Profile


PARTS = ("summary", "tasks", "edges", "path", "flags")

#: Names are not made shorter than that.
_LEAST_NAME = 12

_SORTS: dict[str, Any] = {
    "time": lambda task: -(task["time_ms"] or 0),
    "in": lambda task: -(task["bytes_in"] or 0),
    "out": lambda task: -(task["bytes_out"] or 0),
    "weight": lambda task: -(task["instructions"] or 0),
    "name": lambda task: task["task"],
    "order": lambda _: 0,
}


def show(arguments: argparse.Namespace) -> int:
    """Print what a profile says."""
    found = figures(load_profile(arguments.profile), arguments.sort)
    parts = arguments.part or PARTS
    if arguments.json:
        print_json({part: found[part] for part in PARTS if part in parts})
    else:
        print_text(text(found, parts=parts, top=arguments.top))
    return 0


def figures(profile: Profile, sort: str = "time") -> dict[str, Any]:
    """Return what there is to show of a profile, part by part."""
    tasks = _tasks(profile)
    return {
        "summary": _summary(profile),
        "tasks": sorted(tasks, key=_SORTS[sort]),
        "edges": sorted(_edges(profile), key=lambda edge: -(edge["bytes"] or 0)),
        "path": _path(profile),
        "flags": _flags(profile),
    }


def _summary(profile: Profile) -> dict[str, Any]:
    run = profile.sections.get("run", {})
    structure = profile.dag_structure
    return {
        "tasks": len(structure["nodes"]),
        "edges": len(structure["edges"]),
        "total_time_ms": profile.metrics.total_time_ms,
        "state": run.get("state"),
        "reason": run.get("reason"),
        "rounds": run.get("rounds"),
        "executor": run.get("executor"),
        "seed": profile.seed,
        "hostname": profile.hostname,
        "timestamp": profile.timestamp,
        "dagprofiler_version": profile.metadata.get("dagprofiler_version"),
    }


def _tasks(profile: Profile) -> list[dict[str, Any]]:
    """Return what is known of each task, in execution order."""
    sections, metrics = profile.sections, profile.metrics
    statistics = sections.get("statistics", {}).get("tasks", {})
    flags = sections.get("statistics", {}).get("flags", {})
    measured, _ = entries_of_tasks(profile)
    sources = sections.get("weight_sources", {})
    rows = []
    for name in profile.dag_structure["execution_order"]:
        one, columns = measured.get(name), statistics.get(name, {})
        best = columns.get("corrected_ms") or columns.get("wall_ms") or {}
        is_default = sources.get(name, {}).get("node_weight") == "default"
        rows.append(
            {
                "task": name,
                "time_ms": best.get("median", one and one.compute_time_ms),
                "low_ms": best.get("low"),
                "high_ms": best.get("high"),
                "serialize_ms": one and one.serialize_time_ms,
                "deserialize_ms": one and one.deserialize_time_ms,
                "bytes_in": one and one.bytes_in,
                "bytes_out": one and one.bytes_out,
                "instructions": None if is_default else metrics.node_weights.get(name),
                "flags": list(flags.get(name, ())),
            }
        )
    total = sum(row["time_ms"] or 0 for row in rows)
    for row in rows:
        known = row["time_ms"] is not None and total
        row["share"] = row["time_ms"] / total if known else None
    return rows


def _edges(profile: Profile) -> list[dict[str, Any]]:
    return [
        {
            "source": edge.source,
            "target": edge.target,
            "fields": list(edge.data_fields),
            "bytes": edge.size_bytes,
            "wire_bytes": edge.wire_bytes,
        }
        for edge in profile.metrics.edge_metrics
    ]


def _path(profile: Profile) -> dict[str, Any]:
    """Return the critical path, and what limits running beside each other."""
    subject = ReportSource(profile)
    analysis, paths = subject.analysis, subject.paths
    if analysis is None or paths is None:
        return {"tasks": [], "why_not": subject.why_not}
    with_edges, critical = analysis.with_communication, analysis.critical_spans
    return {
        "tasks": list(paths.critical_path),
        "unit": analysis.weights.unit,
        "costs": analysis.weights.source,
        "span": analysis.span,
        "span_with_edges": None if with_edges is None else with_edges.span,
        "work": analysis.work,
        "parallelism": analysis.average_parallelism,
        "gains": [
            {"name": one.name, "kind": one.kind, "cost": one.cost, "gain": one.gain}
            for one in paths.bottlenecks
        ],
        "spans": None if critical is None else asdict(critical),
    }


def _flags(profile: Profile) -> list[dict[str, Any]]:
    raised = profile.sections.get("statistics", {}).get("flags", {})
    return [
        {"flag": flag, "meaning": meaning, "tasks": found}
        for flag, meaning in FLAGS.items()
        if (found := [name for name in raised if flag in raised[name]])
    ]


def text(found: Mapping[str, Any], *, parts: Sequence[str], top: int) -> str:
    """Return figures as text; `top` rows of each table, or all for 0."""
    made: dict[str, Any] = {
        "summary": _summary_lines,
        "tasks": _task_lines,
        "edges": _edge_lines,
        "path": _path_lines,
        "flags": _flag_lines,
    }
    blocks = [made[part](found[part], top) for part in PARTS if part in parts]
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _summary_lines(one: Mapping[str, Any], _: int) -> list[str]:
    total = one["total_time_ms"]
    head = f"{_counted(one['tasks'], 'task')}, {_counted(one['edges'], 'edge')}"
    head += "" if total is None else f", {milliseconds(total)} ms in all"
    if one["rounds"]:
        head += f", {_counted(one['rounds'], 'round')}"
    if one["executor"] is not None:
        head += f", {printable(one['executor'])}"
    lines = [head]
    if one["state"] == "partial":
        lines += wrapped(f"PARTIAL: {printable(one['reason'])}")
    where = [printable(one["timestamp"])[:19].replace("T", " ")]
    if one["hostname"] is not None:
        where.append(f"on {printable(one['hostname'])}")
    seed = "no seed" if one["seed"] is None else f"seed {one['seed']}"
    version = one["dagprofiler_version"]
    made_by = "" if version is None else f", dagprofiler {printable(version)}"
    return [*lines, *wrapped(f"{' '.join(where)}, {seed}{made_by}")]


def _task_lines(tasks: Sequence[Mapping[str, Any]], top: int) -> list[str]:
    shown = tasks[:top] if top else tasks
    has_interval = any(task["low_ms"] is not None for task in shown)
    has_weight = any(task["instructions"] is not None for task in shown)
    head = ["task", "time ms"] + ["+-"] * has_interval
    head += ["share", "in", "out"] + ["instructions"] * has_weight
    rows = [head]
    for task in shown:
        row = [printable(task["task"]), milliseconds(task["time_ms"])]
        if has_interval:
            row.append(_half_width(task))
        row.append("-" if task["share"] is None else f"{task['share']:.1%}")
        row += [_bytes(task["bytes_in"]), _bytes(task["bytes_out"])]
        if has_weight:
            row.append("-" if task["instructions"] is None else f"{task['instructions']:,}")
        rows.append(row)
    return [*table(rows), *_more(len(tasks) - len(shown), "task")]


def _half_width(task: Mapping[str, Any]) -> str:
    """Return how far the interval of the median reaches, in percent of it."""
    low, median, high = task["low_ms"], task["time_ms"], task["high_ms"]
    if low is None or high is None or not median:
        return "-"
    return f"{max(high - median, median - low) / median:.1%}"


def _edge_lines(edges: Sequence[Mapping[str, Any]], top: int) -> list[str]:
    if not edges:
        return []
    shown = edges[:top] if top else edges
    rows = [["edge", "bytes", "on the wire", "fields"]]
    rows += [
        [
            f"{printable(edge['source'])} -> {printable(edge['target'])}",
            _bytes(edge["bytes"]),
            _bytes(edge["wire_bytes"]),
            fitted(printable(", ".join(edge["fields"])), 24),
        ]
        for edge in shown
    ]
    return [*table(rows, left=(0, 3)), *_more(len(edges) - len(shown), "edge")]


def _path_lines(path: Mapping[str, Any], top: int) -> list[str]:
    names = path["tasks"]
    if not names:
        return wrapped(f"no critical path: {path['why_not']}") if path.get("why_not") else []
    most = top or len(names)
    shown = [printable(name) for name in names]
    if len(shown) > most:
        half = max(1, most // 2)
        shown[half : len(shown) - half] = [f"({len(shown) - 2 * half} more)"]
    unit, work, with_edges = path["unit"], path["work"], path["span_with_edges"]
    long = f"{milliseconds(path['span'])} {unit}"
    if with_edges is not None:
        long += f", with what its edges cost {milliseconds(with_edges)} {unit}"
    lines = [f"critical path: {long}", *wrapped(" -> ".join(shown), "  ")]
    if path["parallelism"] is not None:
        times = f"{path['parallelism']:.2f} times as fast"
        lines.append(f"  all tasks: {milliseconds(work)} {unit}; beside each other at most {times}")
    gains = [one for one in path["gains"] if one["gain"]][:3]
    if gains:
        words = ", ".join(
            f"{printable(one['name'])} ({milliseconds(one['gain'])})" for one in gains
        )
        lines += wrapped(f"what the path would lose if it cost nothing: {words}", "  ")
    return [*lines, *_span_lines(path["spans"], top)]


def _span_lines(critical: Mapping[str, Any] | None, top: int) -> list[str]:
    """Return what the time on the path goes into; nothing of a run that was not traced."""
    if critical is None:
        return []
    spans, whole_ms = critical["spans"], critical["compute_ms"]
    shown = spans[:top] if top else spans
    rows = [["critical path by span", "calls", "total ms", "self ms", "of the path"]]
    for one in shown:
        calls, total_ms, self_ms = one["calls"], one["total_ms"], one["self_ms"]
        times = f"{calls:,.0f}" if calls == round(calls) else f"{calls:,.1f}"
        share = _share(total_ms if self_ms is None else self_ms, whole_ms)
        row = [printable(one["name"]), times, milliseconds(total_ms), milliseconds(self_ms), share]
        rows.append(row)
    uncovered_ms = critical["uncovered_ms"]
    share = _share(uncovered_ms, whole_ms)
    rows.append(["(in no span)", "", "", milliseconds(uncovered_ms), share])
    return ["", *table(rows), *_more(len(spans) - len(shown), "span")]


def _share(part: float, whole: float) -> str:
    return f"{part / whole:.1%}" if whole else "-"


def _flag_lines(flags: Sequence[Mapping[str, Any]], top: int) -> list[str]:
    lines = []
    for one in flags:
        names = one["tasks"][:top] if top else one["tasks"]
        more = len(one["tasks"]) - len(names)
        listed = ", ".join(map(printable, names)) + (f" and {more:,} more" if more else "")
        lines += wrapped(f"{one['flag']}: {listed}")
        lines += wrapped(one["meaning"], "  ")
    return lines


def table(rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> list[str]:
    """Return the lines of a table; on a terminal names are shortened until it fits."""
    across = width()
    if across is not None:
        rest = sum(max(map(len, column)) + 2 for column in list(zip(*rows))[1:])
        most = max(_LEAST_NAME, across - rest)
        rows = [[fitted(row[0], most), *row[1:]] for row in rows]
    return aligned(rows, left)


def wrapped(line: str, indent: str = "") -> list[str]:
    """Return a sentence as lines that fit."""
    from textwrap import wrap

    return wrap(
        line,
        width() or 80,
        initial_indent=indent,
        subsequent_indent=indent or "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def milliseconds(value: float | None) -> str:
    """Return a time, or a number of instructions, as text."""
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3f}"


def _bytes(value: int | None) -> str:
    """Return a number of bytes with three digits or more, in units of 1000."""
    if value is None:
        return "-"
    amount, unit = float(value), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if amount < 1000 or unit == "TB":
            break
        amount /= 1000
    return f"{value:,} B" if unit == "B" else f"{amount:,.1f} {unit}"


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _more(count: int, what: str) -> list[str]:
    return [f"... and {_counted(count, f'more {what}')}; --top 0 shows all"] if count > 0 else []
