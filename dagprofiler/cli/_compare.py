"""The command ``compare``: which tasks are slower or faster, and whether to fail."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from math import isfinite
from typing import Any, NamedTuple

from dagprofiler._util.json import jsonable
from dagprofiler._util.text import Block, printable, render
from dagprofiler.analysis.compare import PREDICTED, WAY_OUT, ProfileComparison, compare_profiles
from dagprofiler.cli import _output
from dagprofiler.cli._parser import CommandError
from dagprofiler.profile import Profile
from dagprofiler.stats.ranktests import DIFFERENCE, INCONCLUSIVE, SLOWER

#: Options for measuring two targets.
_OF_RUNS = (
    *("config", "new-config", "seed", "meters", "rounds", "warmup", "precision", "max-time"),
    *("fresh-process", "busy-cores", "output", "report"),
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
                for name, entry in comparison["task_times"].items()
                if entry["verdict"] == SLOWER and entry["ratio"] - 1 > self.share
            ]
        return [
            f"{printable(name)} ({_growth(entry['other'], entry['self'])})"
            for name, entry in comparison["edge_weight_diff"].items()
            # If there were no bytes, any number is more than any share.
            if entry["self"] - entry["other"] > self.share * entry["other"]
        ]

    def needs(self, comparison: Mapping[str, Any]) -> bool:
        """Return whether a verdict that the condition depends on is missing."""
        verdicts = [entry["verdict"] for entry in comparison["task_times"].values()]
        return self.word == "slower" and INCONCLUSIVE in verdicts


def _growth(before: int, after: int) -> str:
    """Return the growth in bits as a share, or in bytes if there were none."""
    return f"{after / before - 1:+.1%}" if before else f"0 -> {after // 8:,} bytes"


def compare(arguments: argparse.Namespace) -> int:
    """Compare profiles, or interleaved runs of targets, with a base."""
    conditions = [_Condition.of(text) for text in arguments.fail_if]
    # The smallest slowdown that is asked for has to be visible.
    shares = [condition.share for condition in conditions if condition.word == "slower"]
    difference = min(filter(None, shares), default=DIFFERENCE)
    made = _of_runs if arguments.run else _of_files
    comparisons = made(arguments, difference)
    for comparison in comparisons:
        comparison["failed"] = {
            condition.text: reasons
            for condition in conditions
            if (reasons := condition.holds(comparison))
        }
    if arguments.json:
        _output.print_json({"comparisons": list(map(_as_json, comparisons))})
    elif arguments.markdown:
        _output.print_text("\n\n".join(map(_markdown, comparisons)))
    else:
        shown = (
            render(_blocks(comparison), 0, _output.width() or 80) for comparison in comparisons
        )
        _output.print_text("\n\n".join(shown))
    if any(comparison["failed"] for comparison in comparisons):
        return _FAILED
    unsure = any(
        not _is_judged(comparison) or any(condition.needs(comparison) for condition in conditions)
        for comparison in comparisons
    )
    return _NOT_COMPARABLE if unsure else 0


def _as_json(comparison: ProfileComparison) -> dict[str, Any]:
    """Return a comparison for JSON, which holds no infinite percentages and few kinds of values."""
    found = dict(comparison)
    found["config_diff"] = {n: jsonable(both)[0] for n, both in comparison["config_diff"].items()}
    for key in ("node_weight_diff", "edge_weight_diff"):
        found[key] = {
            name: {**entry, "pct": entry["pct"] if isfinite(entry["pct"]) else None}
            for name, entry in comparison[key].items()
        }
    return found


def _is_judged(comparison: Mapping[str, Any]) -> bool:
    """Return whether there is a verdict on any task."""
    return any(entry["verdict"] != INCONCLUSIVE for entry in comparison["task_times"].values())


def _of_files(arguments: argparse.Namespace, difference: float) -> list[ProfileComparison]:
    for option in _OF_RUNS:
        if getattr(arguments, option.replace("-", "_")):
            raise CommandError(f"compare: --{option} needs --run, which measures two targets")
    _output.check_one_stdin(arguments.base, *arguments.new)
    for path in (arguments.base, *arguments.new):
        if path.endswith(".py") or (":" in path and not os.path.exists(path)):
            raise CommandError(
                f"compare: {path!r} is a target, not a profile; "
                "compare --run BASE NEW measures two targets"
            )
    base = _output.load_profile(arguments.base)
    names = [(arguments.base, path) for path in arguments.new]
    return [
        _compared(_output.load_profile(name[1]), base, name, difference=difference)
        for name in names
    ]


def _of_runs(arguments: argparse.Namespace, difference: float) -> list[ProfileComparison]:
    """Measure two targets with interleaved rounds, and compare them."""
    from dagprofiler._document.rounds import Rounds
    from dagprofiler.cli._run import conditions, measuring, meters, save_each
    from dagprofiler.cli._targets import load_dag
    from dagprofiler.experiments import RunComparison, compare_runs
    from dagprofiler.measure.machine import ask_git

    if len(arguments.new) != 1:
        raise CommandError("compare --run measures two targets: give BASE and one NEW")
    names = arguments.base, arguments.new[0]
    written = list(arguments.output or ())
    _output.check_outputs(*written, arguments.report)
    for path in written:
        _output.check_profile_suffix(path)
    rounds = conditions(arguments, Rounds(30))
    ask_git()
    files = written or ["base.json", "new.json"]
    with measuring(arguments, partial(save_each, lambda profiles: zip(profiles, files))):
        base = load_dag(names[0], arguments.config)
        new = load_dag(names[1], [*arguments.config, *arguments.new_config])
        found = compare_runs(
            base, new, rounds=rounds, seed=arguments.seed, meters=meters(arguments), progress=True
        )
    _output.keep(zip((found.base, found.new), written))
    compared = _compared(found.new, found.base, names, paired=True, difference=difference)
    if arguments.report is not None:
        with _output.writing_to(arguments.report):
            RunComparison(found.base, found.new, compared).report(arguments.report)
        written.append(arguments.report)
    for path in written:
        _output.note(f"written: {path}")
    return [compared]


def _compared(new: Profile, base: Profile, names: tuple[str, str], **how: Any) -> ProfileComparison:
    """Return the comparison of two profiles that have a task in common."""
    if not {*new.dag_structure["nodes"]} & {*base.dag_structure["nodes"]}:
        raise CommandError(
            f"{names[0]} and {names[1]} have no task in common: they are profiles of different "
            "DAGs; compare profiles of one DAG, with the same task names",
            _NOT_COMPARABLE,
        )
    if names[0] == names[1]:
        names = f"{names[0]} (base)", f"{names[1]} (new)"
    return compare_profiles(new, base, names=names, **how)


def _blocks(comparison: ProfileComparison) -> list[Block]:
    """Return the blocks of a comparison; the way out is the one on a command line."""
    # A prediction has no samples, however its base was measured.
    why = comparison["total_time"].get("reason", "")
    over = _is_judged(comparison) or "prediction" in comparison or why.startswith(PREDICTED)
    way_out = [] if over else [f"for a verdict: {_ON_A_COMMAND_LINE}"]
    failed = (f"failed: {text}: {', '.join(names)}" for text, names in comparison["failed"].items())
    blocks = [*comparison.blocks(), Block(notes=way_out), Block(notes=failed)]
    return [
        replace(
            block,
            title=printable(block.title),
            notes=[printable(words.replace(f"; {WAY_OUT}", "")) for words in block.notes],
        )
        for block in blocks
    ]


def _markdown(comparison: ProfileComparison) -> str:
    parts = []
    for block in _blocks(comparison):
        lines = []
        if block.title and len(block.rows) != 1:
            lines += [f"**{_escaped(block.title)}**", ""]
        if len(block.rows) > 1:
            head, *body = [[_escaped(cell) for cell in row] for row in block.rows]
            rules = ["---" if i in block.left else "---:" for i in range(len(head))]
            lines += [f"| {' | '.join(head)} |", f"|{'|'.join(rules)}|"]
            lines += [f"| {' | '.join(row)} |" for row in body]
        lines += [f"- {_escaped(words)}" for words in block.notes]
        if lines:
            parts.append("\n".join(lines).rstrip())
    return "\n\n".join(parts)


def _escaped(text: str) -> str:
    """Return text with Markdown's special characters escaped."""
    return re.sub(r"([\\`*_\[\]<>|#~&@])", r"\\\1", text)
