"""The command ``show``: the figures of a profile, as text of 80 columns or JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from dagprofiler._document.table import entries_of_tasks
from dagprofiler._util.text import aligned, printable
from dagprofiler.cli._output import fitted, load_profile, print_json, print_text, width
from dagprofiler.report.data import ReportSource
from dagprofiler.stats.summary import FLAGS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from dagprofiler.profile import Profile


PARTS = ("summary", "tasks", "edges", "path", "flags")

#: Names are not shortened below this length.
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
    """Print the figures of a profile."""
    shown = figures(load_profile(arguments.profile), arguments.sort)
    parts = arguments.part or PARTS
    if arguments.json:
        print_json({part: shown[part] for part in PARTS if part in parts})
    else:
        print_text(text(shown, parts=parts, top=arguments.top))
    return 0


def figures(profile: Profile, sort: str = "time") -> dict[str, Any]:
    """Return the figures of a profile by part."""
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
    """Return the figures of each task, in execution order."""
    sections, metrics = profile.sections, profile.metrics
    statistics = sections.get("statistics", {}).get("tasks", {})
    flags = sections.get("statistics", {}).get("flags", {})
    measured, _ = entries_of_tasks(profile)
    sources = sections.get("weight_sources", {})
    rows = []
    for name in profile.dag_structure["execution_order"]:
        entry, columns = measured.get(name), statistics.get(name, {})
        best = columns.get("corrected_ms") or columns.get("wall_ms") or {}
        is_default = sources.get(name, {}).get("node_weight") == "default"
        rows.append(
            {
                "task": name,
                "time_ms": best.get("median", entry and entry.compute_time_ms),
                "low_ms": best.get("low"),
                "high_ms": best.get("high"),
                "serialize_ms": entry and entry.serialize_time_ms,
                "deserialize_ms": entry and entry.deserialize_time_ms,
                "bytes_in": entry and entry.bytes_in,
                "bytes_out": entry and entry.bytes_out,
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
    """Return the critical path, the parallelism and the bottlenecks."""
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
            {"name": item.name, "kind": item.kind, "cost": item.cost, "gain": item.gain}
            for item in paths.bottlenecks
        ],
        "spans": None if critical is None else asdict(critical),
    }


def _flags(profile: Profile) -> list[dict[str, Any]]:
    raised = profile.sections.get("statistics", {}).get("flags", {})
    return [
        {"flag": flag, "meaning": meaning, "tasks": names}
        for flag, meaning in FLAGS.items()
        if (names := [name for name in raised if flag in raised[name]])
    ]


def text(shown: Mapping[str, Any], *, parts: Sequence[str], top: int) -> str:
    """Return figures as text; `top` rows of each table, or all for 0."""
    made: dict[str, Any] = {
        "summary": _summary_lines,
        "tasks": _task_lines,
        "edges": _edge_lines,
        "path": _path_lines,
        "flags": _flag_lines,
    }
    blocks = [made[part](shown[part], top) for part in PARTS if part in parts]
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _summary_lines(summary: Mapping[str, Any], _: int) -> list[str]:
    total = summary["total_time_ms"]
    head = f"{_counted(summary['tasks'], 'task')}, {_counted(summary['edges'], 'edge')}"
    head += "" if total is None else f", {milliseconds(total)} ms in total"
    if summary["rounds"]:
        head += f", {_counted(summary['rounds'], 'round')}"
    if summary["executor"] is not None:
        head += f", {printable(summary['executor'])}"
    lines = [head]
    if summary["state"] == "partial":
        lines += wrapped(f"PARTIAL: {printable(summary['reason'])}")
    where = [printable(summary["timestamp"])[:19].replace("T", " ")]
    if summary["hostname"] is not None:
        where.append(f"on {printable(summary['hostname'])}")
    seed = "no seed" if summary["seed"] is None else f"seed {summary['seed']}"
    version = summary["dagprofiler_version"]
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
    """Return the half-width of the median's interval, in percent of the median."""
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
    length = f"{milliseconds(path['span'])} {unit}"
    if with_edges is not None:
        length += f", with communication {milliseconds(with_edges)} {unit}"
    lines = [f"critical path: {length}", *wrapped(" -> ".join(shown), "  ")]
    if path["parallelism"] is not None:
        speedup = f"speed-up by concurrency at most {path['parallelism']:.2f}"
        lines.append(f"  all tasks: {milliseconds(work)} {unit}; {speedup}")
    gains = [item for item in path["gains"] if item["gain"]][:3]
    if gains:
        words = ", ".join(
            f"{printable(item['name'])} ({milliseconds(item['gain'])})" for item in gains
        )
        lines += wrapped(f"gain if free: {words}", "  ")
    return [*lines, *_span_lines(path["spans"], top)]


def _span_lines(critical: Mapping[str, Any] | None, top: int) -> list[str]:
    """Return the time on the path by span; nothing if the run was not traced."""
    if critical is None:
        return []
    spans, whole_ms = critical["spans"], critical["compute_ms"]
    shown = spans[:top] if top else spans
    rows = [["critical path by span", "calls", "total ms", "self ms", "of the path"]]
    for span in shown:
        calls, total_ms, self_ms = span["calls"], span["total_ms"], span["self_ms"]
        times = f"{calls:,.0f}" if calls == round(calls) else f"{calls:,.1f}"
        share = _share(total_ms if self_ms is None else self_ms, whole_ms)
        row = [printable(span["name"]), times, milliseconds(total_ms), milliseconds(self_ms), share]
        rows.append(row)
    uncovered_ms = critical["uncovered_ms"]
    share = _share(uncovered_ms, whole_ms)
    rows.append(["(in no span)", "", "", milliseconds(uncovered_ms), share])
    return ["", *table(rows), *_more(len(spans) - len(shown), "span")]


def _share(part: float, whole: float) -> str:
    return f"{part / whole:.1%}" if whole else "-"


def _flag_lines(flags: Sequence[Mapping[str, Any]], top: int) -> list[str]:
    lines = []
    for entry in flags:
        names = entry["tasks"][:top] if top else entry["tasks"]
        more = len(entry["tasks"]) - len(names)
        listed = ", ".join(map(printable, names)) + (f" and {more:,} more" if more else "")
        lines += wrapped(f"{entry['flag']}: {listed}")
        lines += wrapped(entry["meaning"], "  ")
    return lines


def table(rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> list[str]:
    """Return the lines of a table; on a terminal, shorten names to make it fit."""
    across = width()
    if across is not None:
        rest = sum(max(map(len, column)) + 2 for column in list(zip(*rows))[1:])
        most = max(_LEAST_NAME, across - rest)
        rows = [[fitted(row[0], most), *row[1:]] for row in rows]
    return aligned(rows, left)


def wrapped(line: str, indent: str = "") -> list[str]:
    """Return a sentence wrapped to the width of the terminal, or to 80 columns."""
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
