"""The command ``compare``: what is slower or faster, and whether that is a reason to fail."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from dagprofiler._util.text import printable
from dagprofiler.analysis.compare import WAY_OUT
from dagprofiler.analysis.weights import entries_of_tasks
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


#: Options that say how two targets are measured.
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
    "measure both in turns by dagprofiler compare --run BASE NEW"
)


class _Condition(NamedTuple):
    """When a comparison fails: what gets worse, by more than which share."""

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

    def holds(self, one: Mapping[str, Any]) -> list[str]:
        """Return what makes it hold: the names of tasks, or of edges, with by how much."""
        if self.word == "slower":
            return [
                f"{printable(name)} ({entry['ratio'] - 1:+.1%})"
                for name, entry in one["tasks"].items()
                if entry["verdict"] == SLOWER and entry["ratio"] - 1 > self.share
            ]
        return [
            f"{printable(name)} ({_growth(entry['other'], entry['self'])})"
            for name, entry in one["edge_bits"].items()
            # Of what was nothing, anything is more than any share.
            if None not in (entry["other"], entry["self"])
            and entry["self"] - entry["other"] > self.share * entry["other"]
        ]

    def needs(self, one: Mapping[str, Any]) -> bool:
        """Tell whether a verdict is missing that it is about."""
        verdicts = [entry["verdict"] for entry in one["tasks"].values()]
        return self.word == "slower" and INCONCLUSIVE in verdicts


def _growth(before: int, after: int) -> str:
    """Return in words how much more bits there are; of nothing no share is one."""
    return f"{after / before - 1:+.1%}" if before else f"0 -> {after // 8:,} bytes"


def compare(arguments: argparse.Namespace) -> int:
    """Compare profiles, or targets that are measured in turns, with a base."""
    conditions = [_Condition.of(text) for text in arguments.fail_if]
    found = _of_runs(arguments) if arguments.run else _of_files(arguments)
    for one in found:
        one["failed"] = {
            condition.text: reasons for condition in conditions if (reasons := condition.holds(one))
        }
    if arguments.json:
        print_json({"comparisons": found})
    else:
        lines = _markdown if arguments.markdown else _text
        print_text("\n\n".join("\n".join(lines(one)) for one in found))
    if any(one["failed"] for one in found):
        return _FAILED
    unsure = any(
        not _is_judged(one) or any(condition.needs(one) for condition in conditions)
        for one in found
    )
    return _NOT_COMPARABLE if unsure else 0


def _is_judged(one: Mapping[str, Any]) -> bool:
    """Tell whether there is a verdict on any task."""
    return any(entry["verdict"] != INCONCLUSIVE for entry in one["tasks"].values())


def _of_files(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    for option in _OF_RUNS:
        if getattr(arguments, option.replace("-", "_")):
            raise CommandError(f"compare: --{option} is for --run, which measures two targets")
    check_one_stdin(arguments.base, *arguments.new)
    base = load_profile(arguments.base)
    return [_comparison(base, load_profile(path), arguments.base, path) for path in arguments.new]


def _of_runs(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure two targets in turns, and compare them."""
    from dagprofiler._document.rounds import Rounds
    from dagprofiler.cli._run import conditions, meters
    from dagprofiler.cli._targets import load_dag
    from dagprofiler.experiments import compare_runs

    if len(arguments.new) != 1:
        raise CommandError("compare --run measures two targets in turns: give BASE and one NEW")
    check_one_stdin(arguments.base, *arguments.new)
    check_outputs(*(arguments.output or ()))
    rounds = conditions(arguments, Rounds(30))
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
    """Return the modules and packages that come from these folders, with their files."""
    found = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and "." not in name:
            here = os.path.dirname(file)
            if os.path.basename(file) == "__init__.py":
                here = os.path.dirname(here)
            if here in folders:
                found[name] = file
    return found


def _check_modules(known: Mapping[str, str], folders: Sequence[str]) -> None:
    """Refuse two targets of which one would run what the other has imported.

    Of a name there is one module in a process: that of the base, though there is another file
    of that name beside the new target.
    """
    for name, file in known.items():
        for folder in folders:
            for there in (f"{name}.py", os.path.join(name, "__init__.py")):
                other = os.path.join(folder, there)
                if os.path.isfile(other):
                    raise CommandError(
                        f"compare --run: both targets have a module {name!r}, {file} and {other}, "
                        "of which one process holds one; take two profiles and compare these: "
                        "dagprofiler run TARGET --rounds 10 --fresh-process -o FILE"
                    )


def _comparison(
    base: Profile,
    new: Profile,
    base_name: str,
    new_name: str,
    verdicts: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return what there is to say of two profiles; its verdicts are on `new` seen from `base`."""
    ours, theirs = (set(one.dag_structure["nodes"]) for one in (new, base))
    if not ours & theirs:
        raise CommandError(
            f"{base_name} and {new_name} have no task in common: they are profiles of different "
            "DAGs; compare profiles of one DAG, whose tasks keep their names",
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
        "reason": "there are no samples of several rounds on both sides",
    }


def _times(profile: Profile) -> dict[str, float]:
    """Return how long each task took, in ms: its median, where there are several rounds."""
    statistics = profile.sections.get("statistics", {}).get("tasks", {})
    entries, _ = entries_of_tasks(profile)
    times = {name: entry.compute_time_ms for name, entry in entries.items()}
    for name, columns in statistics.items():
        best = columns.get("corrected_ms") or columns.get("wall_ms")
        if best is not None:
            times[name] = best["median"]
    return times


def _rows(one: Mapping[str, Any]) -> tuple[list[list[str]], list[str]]:
    """Return the table of tasks, and what stands below it: why there is no verdict."""
    reasons: dict[str, int] = {}
    rows = [["task", "base ms", "new ms", "ratio", "interval", "verdict"]]
    for name, entry in one["tasks"].items():
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
    # What is to be done in a program is another thing on a command line.
    notes = [f"[{mark}] {text.replace(f'; {WAY_OUT}', '')}" for text, mark in reasons.items()]
    if notes and not _is_judged(one):
        notes.append(f"so nothing can be said: {_ON_A_COMMAND_LINE}")
    return rows, notes


def _besides(one: Mapping[str, Any]) -> list[str]:
    """Return what differs beside times, a sentence each."""
    lines = []
    for key, value in one["config"].items():
        lines.append(f"config {printable(key)}: {value['other']!r} -> {value['self']!r}")
    changed = [
        f"{printable(name)} {entry['other'] // 8:,} -> {entry['self'] // 8:,}"
        for name, entry in one["edge_bits"].items()
        if entry["other"] and entry["self"]
    ]
    if changed:
        more = f" and {len(changed) - 10} more" if len(changed) > 10 else ""
        lines.append(f"bytes of edges: {', '.join(changed[:10])}{more}")
    edges = [
        f"{printable(name)} is {entry['verdict']} ({_ratio(entry['ratio'])})"
        for name, entry in one["edges"].items()
        if entry["verdict"] not in (INCONCLUSIVE, NO_DIFFERENCE)
    ]
    if edges:
        lines.append(f"passing data on: {', '.join(edges)}")
    for key, which in (("only_in_base", "base"), ("only_in_new", "new")):
        if one[key]:
            more = f" and {len(one[key]) - 10} more" if len(one[key]) > 10 else ""
            names = ", ".join(map(printable, one[key][:10]))
            lines.append(f"only in the {which}, so not compared: {names}{more}")
    if one["scale"]:
        lines.append(one["scale"])
    return lines


def _head(one: Mapping[str, Any]) -> str:
    totals = (
        f"{milliseconds(one['base_total_ms'])} -> {milliseconds(one['new_total_ms'])} ms in all"
    )
    return f"{printable(one['new'])} against {printable(one['base'])}: {totals}"


def _failures(one: Mapping[str, Any]) -> list[str]:
    return [f"failed: {text}: {', '.join(names)}" for text, names in one["failed"].items()]


def _text(one: Mapping[str, Any]) -> list[str]:
    rows, notes = _rows(one)
    below = [line for note in [*notes, *_besides(one)] for line in wrapped(note)]
    failures = [line for failure in _failures(one) for line in wrapped(failure)]
    return [
        *wrapped(_head(one)),
        "",
        *table(rows, left=(0, 5)),
        *_spaced(below),
        *_spaced(failures),
    ]


def _spaced(lines: Sequence[str]) -> list[str]:
    return ["", *lines] if lines else []


def _markdown(one: Mapping[str, Any]) -> list[str]:
    rows, notes = _rows(one)
    cells = [[_escaped(cell) for cell in row] for row in rows]
    lines = [f"**{_escaped(_head(one))}**", "", f"| {' | '.join(cells[0])} |"]
    lines.append("|---|---:|---:|---:|---|---|")
    lines += [f"| {' | '.join(row)} |" for row in cells[1:]]
    items = [*_failures(one), *notes, *_besides(one)]
    return [*lines, *_spaced([f"- {_escaped(item)}" for item in items])]


def _escaped(text: str) -> str:
    """Return text as Markdown shows it as it is."""
    return re.sub(r"([\\`*_\[\]<>|#~&@])", r"\\\1", text)


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
