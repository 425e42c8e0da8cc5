"""summary(): a profile as text for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dagprofiler._document.rounds import COLD, MEASURED, WARM_UP
from dagprofiler._document.table import entries_of_tasks
from dagprofiler._util.json import mapping_in
from dagprofiler._util.text import MOST_ROWS, aligned, and_more, number, printable
from dagprofiler.errors import counted
from dagprofiler.stats.summary import FLAGS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dagprofiler._document import ProfileData


#: Columns of samples that are in other tables.
_SHOWN = ("wall_ms", "corrected_ms", "serialize_ms", "deserialize_ms")

#: Fields of a task's entry of ``execution_metrics``, in the order of the table.
_FIGURES = (
    *("compute_time_ms", "serialize_time_ms", "deserialize_time_ms"),
    *("bytes_in", "bytes_out"),
)


def summary(profile: ProfileData) -> str:
    """Return tables of tasks, edges, statistics and meters, and the run's conditions.

    A weight marked ``*`` is a default: the task has no cost model. At most 40
    tasks and edges are shown.
    """
    metrics, structure = profile.metrics, profile.dag_structure
    run = profile.sections.get("run", {})
    defaults = {
        name
        for name, entry in profile.sections.get("weight_sources", {}).items()
        if entry.get("node_weight") == "default"
    }
    lines = [
        *([printable(profile.name)] if profile.name is not None else ()),
        origin(profile),
        ", ".join(
            [
                counted(len(structure["nodes"]), "task"),
                counted(len(structure["edges"]), "edge"),
                "total time unknown"
                if metrics.total_time_ms is None
                else f"total {number(metrics.total_time_ms)} ms",
            ]
        ),
    ]
    if run.get("state") == "partial":
        states = run.get("tasks", {})
        lines.append(f"PARTIAL: {printable(run.get('reason'))}")
        lines += [f"  {printable(t)}: {states[t].get('state')}" for t in list(states)[:MOST_ROWS]]
        lines += and_more(len(states), "tasks")
    conditions = run.get("conditions")
    if conditions is not None:
        kinds = profile.sections.get("samples", {}).get("rounds")
        lines.append(_rounds_line(run, conditions, kinds))
    entries, unclear = entries_of_tasks(profile)
    names = structure["execution_order"] if unclear else list(entries)
    rows = [
        (
            printable(name),
            *(number(getattr(entries.get(name), figure, None)) for figure in _FIGURES),
            number(metrics.node_weights.get(name)) + "*" * (name in defaults),
        )
        for name in names[:MOST_ROWS]
    ]
    head = ("task", "compute ms", "serialize ms", "deserialize ms", "bytes in", "bytes out")
    lines += ["", *aligned([(*head, "instructions"), *rows])]
    lines += and_more(len(names), "tasks")
    if defaults.intersection(names[:MOST_ROWS]):
        lines.append("* default: no cost model")
    if unclear:
        lines.append(f"no times: {unclear}")
    if metrics.edge_metrics:
        edges = [
            (
                f"{printable(edge.source)} -> {printable(edge.target)}",
                number(edge.size_bytes),
                number(edge.wire_bytes),
                printable(", ".join(edge.data_fields)),
            )
            for edge in metrics.edge_metrics[:MOST_ROWS]
        ]
        lines += ["", *aligned([("edge", "bytes", "on the wire", "fields"), *edges], left=(0, 3))]
        lines += and_more(len(metrics.edge_metrics), "edges")
    if "statistics" in profile.sections:
        lines += _statistics(profile.sections["statistics"])
        lines += _metered(profile.sections["statistics"])
    elif "samples" in profile.sections:
        lines += _metered_once(profile.sections["samples"])
    lines += _not_measured(profile.sections)
    lines += _never_fired(profile.sections.get("origins", {}))
    if "overhead" in run:
        kinds = ", ".join(
            f"{kind[: -len('_ms')]} {number(value)} ms" for kind, value in run["overhead"].items()
        )
        lines += ["", f"overhead: {kinds}"]
    return "\n".join(lines)


def origin(profile: ProfileData) -> str:
    """Return version, host, time and seed of a profile, as far as known."""
    sections = profile.sections
    words = f"dagprofiler {printable(profile.metadata.get('dagprofiler_version'))}"
    if "prediction" in sections:
        words = f"PREDICTED, not measured; {words}"
    imported = mapping_in(sections, "imported")
    if imported:
        source = f"{imported.get('format', '')} {imported.get('version', '')}".strip()
        words += f" (imported{f' from {printable(source)}' if source else ''})"
    if profile.hostname is not None:
        words += f" on {printable(profile.hostname)}"
    if "timestamp" not in sections.get("environment", {}).get("not_measured", {}):
        words += f", {printable(profile.timestamp)}"
    words += commit(profile)
    if profile.seed is not None:
        return f"{words}, seed {profile.seed}"
    # Files of other tools don't record seeds.
    return words if imported else f"{words}, no seed"


def commit(profile: ProfileData) -> str:
    """Return the git commit of a profile as the end of a sentence, as far as known."""
    git = mapping_in(mapping_in(profile.sections, "environment"), "git")
    if "commit" not in git:
        return ""
    changed = " with changes" if git.get("clean") is False else ""
    return f", commit {printable(git['commit'])[:10]}{changed}"


def _rounds_line(
    run: Mapping[str, Any], conditions: Mapping[str, Any], kinds: Sequence[str] | None
) -> str:
    """Return the number of rounds, their conditions, and the statistic of the times."""
    complete, warm_up = run.get("rounds", 0), conditions.get("warmup", 0)
    count = complete
    if kinds is not None:
        # After a failure there may be fewer rounds than requested.
        count, warm_up = kinds.count(MEASURED), kinds.count(COLD) + kinds.count(WARM_UP)
    words = [counted(count, "measured round") if count else "no round was measured"]
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
    """Return a table of the times in compute(), and the meanings of its flags."""
    tasks, flags = section.get("tasks", {}), section.get("flags", {})
    rows = [("task", "median ms", "interval", "coverage", "MAD", "min", "n", "flags")]
    for name in list(tasks)[:MOST_ROWS]:
        best = tasks[name].get("corrected_ms", tasks[name].get("wall_ms"))
        if best is None:
            continue
        interval = f"{number(best.get('low'))} to {number(best.get('high'))}"
        coverage = best.get("coverage")
        figures = (
            number(best["median"]),
            interval,
            "-" if coverage is None else f"{coverage:.1%}",
            number(best.get("mad")),
            number(best.get("min")),
            number(best["n"]),
        )
        rows.append((printable(name), *figures, printable(", ".join(flags.get(name, ())))))
    lines = ["", "compute(), without run-queue delay where that was measured:"]
    lines += aligned(rows, left=(0, 7))
    lines += and_more(len(tasks), "tasks")
    raised = {flag for names in flags.values() for flag in names}
    return lines + [f"{flag}: {meaning}" for flag, meaning in FLAGS.items() if flag in raised]


def _metered(section: Mapping[str, Any]) -> list[str]:
    """Return a table of the medians of metered quantities other than times."""
    tasks = {
        name: {column: summary["median"] for column, summary in columns.items()}
        for name, columns in section.get("tasks", {}).items()
    }
    return _metered_table("medians of what was metered:", tasks)


def _metered_once(section: Mapping[str, Any]) -> list[str]:
    """Return the same table for one round."""
    tasks = {
        name: {
            column: next((v for v in values if v is not None), None)
            for column, values in columns.items()
        }
        for name, columns in section.get("tasks", {}).items()
    }
    return _metered_table("what was metered:", tasks)


def _metered_table(head: str, tasks: Mapping[str, Mapping[str, Any]]) -> list[str]:
    # Columns that are 0 throughout are left out.
    shown = dict.fromkeys(
        column
        for row in tasks.values()
        for column, value in row.items()
        if value and column not in _SHOWN
    )
    if not shown:
        return []
    rows = [
        (printable(name), *(number(tasks[name].get(column)) for column in shown))
        for name in list(tasks)[:MOST_ROWS]
    ]
    return [
        "",
        head,
        *aligned([("task", *map(printable, shown)), *rows]),
        *and_more(len(tasks), "tasks"),
    ]


def _never_fired(origins: Mapping[str, Any]) -> list[str]:
    """Return the rules that never fired, and why."""
    reasons = {entry["rule"]: entry["reason"] for entry in origins.get("never_fired", ())}
    fired = {entry["rule"] for entry in origins.get("fired", ())}
    lines = [
        f"rule {printable(repr(rule))} never fired: {printable(why)}"
        for rule, why in reasons.items()
        if rule not in fired
    ]
    return ["", *lines[:MOST_ROWS], *and_more(len(lines), "rules")] if lines else []


def _not_measured(sections: Mapping[str, Any]) -> list[str]:
    """Return why requested meters gave no values."""
    tasks = sections.get("samples", {}).get("tasks", {})
    columns = {column for row in tasks.values() for column in row}
    reasons = sections.get("environment", {}).get("not_measured", {})
    return [
        f"{printable(column)}: {printable(why)}"
        for column, why in reasons.items()
        if column in columns
    ]


def comparison_summary(times: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a table of the compared times of tasks and edges."""
    rows, reason = comparison_rows(times)
    return "\n".join([*aligned(rows, left=(0, 3)), *([reason] if reason else ())])


def comparison_rows(times: Mapping[str, Mapping[str, Any]]) -> tuple[list[tuple[str, ...]], str]:
    """Return a head and the rows of a comparison, and the reason that all verdicts share."""
    reasons = {printable(entry.get("reason", "")) for entry in times.values()}
    common = reasons.pop() if len(times) > 1 and len(reasons) == 1 else ""
    rows: list[tuple[str, ...]] = [("", "ratio", "interval", "verdict")]
    for name, entry in times.items():
        known = entry.get("low") is not None
        interval = f"{number(entry['low'])} to {number(entry['high'])}" if known else "-"
        keys = ("verdict",) if common else ("verdict", "reason")
        verdict = ": ".join(printable(entry[key]) for key in keys if key in entry)
        rows.append((printable(name), number(entry.get("ratio")), interval, verdict))
    return rows, common
