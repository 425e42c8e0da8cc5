"""The command ``compare``: which tasks are slower or faster, and whether to fail."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from dagprofiler._document.table import entries_of_tasks
from dagprofiler._util.text import printable
from dagprofiler.analysis.compare import WAY_OUT
from dagprofiler.cli._output import (
    check_one_stdin,
    check_outputs,
    keep,
    load_profile,
    print_json,
    print_text,
    stdout_apart,
)
from dagprofiler.cli._parser import CommandError
from dagprofiler.cli._show import milliseconds, table, wrapped
from dagprofiler.stats.ranktests import INCONCLUSIVE, NO_DIFFERENCE, SLOWER

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from dagprofiler.profile import Profile


#: Options for measuring two targets.
_OF_RUNS = (
    "config",
    "new-config",
    "seed",
    "meters",
    "rounds",
    "warmup",
    "precision",
    "max-time",
    "fresh-process",
    "busy-cores",
    "output",
)

#: Exit codes: a condition of --fail-if holds; there is no verdict.
_FAILED, _NOT_COMPARABLE = 1, 3

_CONDITION = re.compile(r"(slower|larger)(?:\s*>\s*(\d+(?:\.\d+)?)\s*%)?")

_ON_A_COMMAND_LINE = (
    "take both with dagprofiler run TARGET --rounds 10 --fresh-process, on one machine, or "
    "measure both with dagprofiler compare --run BASE NEW"
)


class _Condition(NamedTuple):
    """A condition of --fail-if: what gets worse, by more than which share."""

    text: str
    word: str
    share: float

    @classmethod
    def of(cls, text: str) -> _Condition:
        found = _CONDITION.fullmatch(text.strip())
        if found is None:
            raise CommandError(
                f'--fail-if: expected "slower", "slower > 5%" or "larger > 5%", got {text!r}'
            )
        return cls(text.strip(), found[1], float(found[2] or 0) / 100)

    def holds(self, comparison: Mapping[str, Any]) -> list[str]:
        """Return the tasks, or edges, for which the condition holds, and by how much."""
        if self.word == "slower":
            return [
                f"{printable(name)} ({entry['ratio'] - 1:+.1%})"
                for name, entry in comparison["tasks"].items()
                if entry["verdict"] == SLOWER and entry["ratio"] - 1 > self.share
            ]
        return [
            f"{printable(name)} ({_growth(entry['other'], entry['self'])})"
            for name, entry in comparison["edge_bits"].items()
            # If there were no bytes, any number is more than any share.
            if None not in (entry["other"], entry["self"])
            and entry["self"] - entry["other"] > self.share * entry["other"]
        ]

    def needs(self, comparison: Mapping[str, Any]) -> bool:
        """Return whether a verdict that the condition depends on is missing."""
        verdicts = [entry["verdict"] for entry in comparison["tasks"].values()]
        return self.word == "slower" and INCONCLUSIVE in verdicts


def _growth(before: int, after: int) -> str:
    """Return the growth in bits as a share, or in bytes if there were none."""
    return f"{after / before - 1:+.1%}" if before else f"0 -> {after // 8:,} bytes"


def compare(arguments: argparse.Namespace) -> int:
    """Compare profiles, or interleaved runs of targets, with a base."""
    conditions = [_Condition.of(text) for text in arguments.fail_if]
    comparisons = _of_runs(arguments) if arguments.run else _of_files(arguments)
    for comparison in comparisons:
        comparison["failed"] = {
            condition.text: reasons
            for condition in conditions
            if (reasons := condition.holds(comparison))
        }
    if arguments.json:
        print_json({"comparisons": comparisons})
    else:
        lines = _markdown if arguments.markdown else _text
        print_text("\n\n".join("\n".join(lines(comparison)) for comparison in comparisons))
    if any(comparison["failed"] for comparison in comparisons):
        return _FAILED
    unsure = any(
        not _is_judged(comparison) or any(condition.needs(comparison) for condition in conditions)
        for comparison in comparisons
    )
    return _NOT_COMPARABLE if unsure else 0


def _is_judged(comparison: Mapping[str, Any]) -> bool:
    """Return whether there is a verdict on any task."""
    return any(entry["verdict"] != INCONCLUSIVE for entry in comparison["tasks"].values())


def _of_files(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    for option in _OF_RUNS:
        if getattr(arguments, option.replace("-", "_")):
            raise CommandError(f"compare: --{option} needs --run, which measures two targets")
    check_one_stdin(arguments.base, *arguments.new)
    base = load_profile(arguments.base)
    return [_comparison(base, load_profile(path), arguments.base, path) for path in arguments.new]


def _of_runs(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure two targets with interleaved rounds, and compare them."""
    from dagprofiler._document.rounds import Rounds
    from dagprofiler.cli._run import conditions, meters
    from dagprofiler.cli._targets import load_dag
    from dagprofiler.experiments import compare_runs
    from dagprofiler.measure.machine import ask_git

    if len(arguments.new) != 1:
        raise CommandError("compare --run measures two targets: give BASE and one NEW")
    check_one_stdin(arguments.base, *arguments.new)
    check_outputs(*(arguments.output or ()))
    rounds = conditions(arguments, Rounds(30))
    ask_git()
    with stdout_apart(arguments.json):
        start = [*sys.path]
        base = load_dag(arguments.base, arguments.config)
        folders = [entry for entry in sys.path if entry not in start]
        known = _modules_in(folders)
        new = load_dag(arguments.new[0], [*arguments.config, *arguments.new_config])
        _check_modules(known, [entry for entry in sys.path if entry not in (*start, *folders)])
        result = compare_runs(
            new, base, rounds=rounds, seed=arguments.seed, meters=meters(arguments)
        )
    names = arguments.base, arguments.new[0]
    if arguments.output is not None:
        keep(zip((result.b, result.a), arguments.output))
    verdicts = {"task_times": result.task_times, "edge_times": result.edge_times}
    return [_comparison(result.b, result.a, *names, verdicts=verdicts)]


def _modules_in(folders: Sequence[str]) -> dict[str, str]:
    """Return the modules and packages from these folders, with their files."""
    modules = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and "." not in name:
            here = os.path.dirname(file)
            if os.path.basename(file) == "__init__.py":
                here = os.path.dirname(here)
            if here in folders:
                modules[name] = file
    return modules


def _check_modules(known: Mapping[str, str], folders: Sequence[str]) -> None:
    """Raise an error if both targets have a module of the same name.

    A process holds one module of a name, so the new target would run the base's module.
    """
    for name, file in known.items():
        for folder in folders:
            for path in (f"{name}.py", os.path.join(name, "__init__.py")):
                other = os.path.join(folder, path)
                if os.path.isfile(other):
                    raise CommandError(
                        f"compare --run: both targets have a module {name!r}, {file} and {other}, "
                        "but a process can import only one; compare two profiles instead: "
                        "dagprofiler run TARGET --rounds 10 --fresh-process -o FILE"
                    )


def _comparison(
    base: Profile,
    new: Profile,
    base_name: str,
    new_name: str,
    verdicts: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the comparison of two profiles; verdicts are on `new` relative to `base`."""
    ours, theirs = (set(profile.dag_structure["nodes"]) for profile in (new, base))
    if not ours & theirs:
        raise CommandError(
            f"{base_name} and {new_name} have no task in common: they are profiles of different "
            "DAGs; compare profiles of one DAG, with the same task names",
            _NOT_COMPARABLE,
        )
    found = new.compare(base)
    found.update(verdicts or {})
    before, after = _times(base), _times(new)
    tasks = {
        name: {"base_ms": before.get(name), "new_ms": after.get(name), **entry}
        for name, entry in found["task_times"].items()
    }
    for name in new.dag_structure["nodes"]:
        if name in theirs and name not in tasks:
            tasks[name] = _without_samples(before.get(name), after.get(name))
    return {
        "base": base_name,
        "new": new_name,
        "base_total_ms": base.metrics.total_time_ms,
        "new_total_ms": new.metrics.total_time_ms,
        "tasks": tasks,
        "edges": found["edge_times"],
        "edge_bits": found["edge_weight_diff"],
        "config": found["config_diff"],
        "only_in_base": sorted(theirs - ours),
        "only_in_new": sorted(ours - theirs),
        "scale": found.get("scale"),
    }


def _without_samples(before: float | None, after: float | None) -> dict[str, Any]:
    return {
        "base_ms": before,
        "new_ms": after,
        "ratio": after / before if before and after is not None else None,
        "low": None,
        "high": None,
        "verdict": INCONCLUSIVE,
        "reason": "one of the profiles has no samples of several rounds",
    }


def _times(profile: Profile) -> dict[str, float]:
    """Return the time of each task in ms: the median if there are several rounds."""
    statistics = profile.sections.get("statistics", {}).get("tasks", {})
    entries, _ = entries_of_tasks(profile)
    times = {name: entry.compute_time_ms for name, entry in entries.items()}
    for name, columns in statistics.items():
        best = columns.get("corrected_ms") or columns.get("wall_ms")
        if best is not None:
            times[name] = best["median"]
    return times


def _rows(comparison: Mapping[str, Any]) -> tuple[list[list[str]], list[str]]:
    """Return the table of tasks, and notes on why there is no verdict."""
    reasons: dict[str, int] = {}
    rows = [["task", "base ms", "new ms", "ratio", "interval", "verdict"]]
    for name, entry in comparison["tasks"].items():
        verdict = entry["verdict"]
        if verdict == INCONCLUSIVE:
            mark = reasons.setdefault(entry.get("reason", ""), len(reasons) + 1)
            verdict = f"{INCONCLUSIVE} [{mark}]"
        elif verdict == NO_DIFFERENCE:
            verdict = "no difference"
        rows.append(
            [
                printable(name),
                milliseconds(entry["base_ms"]),
                milliseconds(entry["new_ms"]),
                _ratio(entry["ratio"]),
                "-" if entry["low"] is None else f"{entry['low']:.2f}-{entry['high']:.2f}",
                verdict,
            ]
        )
    # The fix for programs is replaced by that for the command line.
    notes = [f"[{mark}] {text.replace(f'; {WAY_OUT}', '')}" for text, mark in reasons.items()]
    if notes and not _is_judged(comparison):
        notes.append(f"for a verdict: {_ON_A_COMMAND_LINE}")
    return rows, notes


def _differences(comparison: Mapping[str, Any]) -> list[str]:
    """Return the differences other than times, a sentence each."""
    lines = []
    for key, value in comparison["config"].items():
        lines.append(f"config {printable(key)}: {value['other']!r} -> {value['self']!r}")
    changed = [
        f"{printable(name)} {entry['other'] // 8:,} -> {entry['self'] // 8:,}"
        for name, entry in comparison["edge_bits"].items()
        if entry["other"] and entry["self"]
    ]
    if changed:
        more = f" and {len(changed) - 10} more" if len(changed) > 10 else ""
        lines.append(f"bytes of edges: {', '.join(changed[:10])}{more}")
    edges = [
        f"{printable(name)} is {entry['verdict']} ({_ratio(entry['ratio'])})"
        for name, entry in comparison["edges"].items()
        if entry["verdict"] not in (INCONCLUSIVE, NO_DIFFERENCE)
    ]
    if edges:
        lines.append(f"serializing of edges: {', '.join(edges)}")
    for key, which in (("only_in_base", "base"), ("only_in_new", "new")):
        if comparison[key]:
            more = f" and {len(comparison[key]) - 10} more" if len(comparison[key]) > 10 else ""
            names = ", ".join(map(printable, comparison[key][:10]))
            lines.append(f"only in the {which}, so not compared: {names}{more}")
    if comparison["scale"]:
        lines.append(comparison["scale"])
    return lines


def _head(comparison: Mapping[str, Any]) -> str:
    before, after = (milliseconds(comparison[f"{side}_total_ms"]) for side in ("base", "new"))
    totals = f"{before} -> {after} ms in total"
    return f"{printable(comparison['new'])} against {printable(comparison['base'])}: {totals}"


def _failures(comparison: Mapping[str, Any]) -> list[str]:
    return [f"failed: {text}: {', '.join(names)}" for text, names in comparison["failed"].items()]


def _text(comparison: Mapping[str, Any]) -> list[str]:
    rows, notes = _rows(comparison)
    below = [line for note in [*notes, *_differences(comparison)] for line in wrapped(note)]
    failures = [line for failure in _failures(comparison) for line in wrapped(failure)]
    return [
        *wrapped(_head(comparison)),
        "",
        *table(rows, left=(0, 5)),
        *_spaced(below),
        *_spaced(failures),
    ]


def _spaced(lines: Sequence[str]) -> list[str]:
    return ["", *lines] if lines else []


def _markdown(comparison: Mapping[str, Any]) -> list[str]:
    rows, notes = _rows(comparison)
    cells = [[_escaped(cell) for cell in row] for row in rows]
    lines = [f"**{_escaped(_head(comparison))}**", "", f"| {' | '.join(cells[0])} |"]
    lines.append("|---|---:|---:|---:|---|---|")
    lines += [f"| {' | '.join(row)} |" for row in cells[1:]]
    items = [*_failures(comparison), *notes, *_differences(comparison)]
    return [*lines, *_spaced([f"- {_escaped(item)}" for item in items])]


def _escaped(text: str) -> str:
    """Return text with Markdown's special characters escaped."""
    return re.sub(r"([\\`*_\[\]<>|#~&@])", r"\\\1", text)


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
