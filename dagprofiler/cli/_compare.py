"""The command ``compare``: which tasks are slower or faster, and whether to fail."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from math import ceil, isfinite, log
from typing import NamedTuple

from dagprofiler._util import JsonObject
from dagprofiler._util.json import jsonable
from dagprofiler._util.text import Block, markdown, printable, render
from dagprofiler.analysis.compare import ProfileComparison, Rows, compare_profiles
from dagprofiler.cli import _output
from dagprofiler.cli._parser import NEGATIVE, UNDECIDED, CommandError
from dagprofiler.errors import listed
from dagprofiler.stats import DIFFERENCE
from dagprofiler.stats.ranktests import INCONCLUSIVE, SLOWER

#: Options for measuring two targets.
_OF_RUNS = (
    *("config", "new-config", "seed", "meters", "rounds", "warmup", "precision", "max-time"),
    *("fresh-process", "busy-cores", "output", "report"),
)

_CONDITION = re.compile(r"(slower|larger)(?:\s*>\s*(\d+(?:\.\d+)?)\s*%)?")

#: What gives verdicts: where rounds are missing, and where there are enough.
_WAY_OUT = (
    "take both with dagprofiler run TARGET --rounds 10 --fresh-process, on one machine, or "
    "measure both with dagprofiler compare --run BASE NEW"
)
_LESS_NOISE = "take more rounds, on a machine that no other program uses"
_IN_TURNS = "or measure both in turns with dagprofiler compare --run BASE NEW"


class _Condition(NamedTuple):
    """A condition of --fail-if: what gets worse, by more than which share."""

    text: str
    word: str
    share: float

    @classmethod
    def of(cls, text: str) -> _Condition:
        match = _CONDITION.fullmatch(text.strip())
        if match is None:
            known = '"slower", "slower > 5%" or "larger > 5%"'
            raise CommandError(f"--fail-if: expected {known}, got {text!r}")
        return cls(text.strip(), match[1], float(match[2] or 0) / 100)

    def holds(self, comparison: ProfileComparison, rows: Rows) -> list[str]:
        """Return those of the rows, or the edges, for which it holds, and by how much."""
        if self.word == "slower":
            return [
                f"{name} ({row['ratio'] - 1:+.1%})"
                for name, row in rows
                if row["verdict"] == SLOWER and row["low"] > 1 + self.share
            ]
        return [
            f"{printable(name)} ({_growth(entry['other'], entry['self'])})"
            for name, entry in comparison["edge_weight_diff"].items()
            # If there were no bytes, any number is more than any share.
            if entry["self"] - entry["other"] > self.share * entry["other"]
        ]


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"


def _growth(before: int, after: int) -> str:
    """Return the growth in bits as a share, or in bytes if there were none."""
    return f"{after / before - 1:+.1%}" if before else f"0 -> {after // 8:,} bytes"


class _Outcome(NamedTuple):
    """What a gate says of a comparison."""

    exit_code: int
    #: Each condition that holds, with the tasks and edges for which it does.
    failed: dict[str, list[str]]
    #: Which slowdowns may have been missed, in words.
    missed: str


class _Gate:
    """What makes a comparison fail: conditions, and slowdowns that might have been missed.

    Attributes
    ----------
    difference
        The smallest slowdown that has to be seen, as a share.
    """

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._conditions = [_Condition.of(text) for text in arguments.fail_if]
        self._least_share, self._strict = arguments.least_share, arguments.strict
        shares = [c.share for c in self._conditions if c.word == "slower"]
        self._is_of_times = self._strict or bool(shares)
        self.difference = min([share for share in shares if share], default=DIFFERENCE)

    def judge(self, comparison: ProfileComparison) -> _Outcome:
        """Return the exit code, what failed, and what may have been missed."""
        rows = comparison.rows(self._least_share)
        holding = {c.text: c.holds(comparison, rows) for c in self._conditions}
        failed = {text: names for text, names in holding.items() if names}
        judged = any(row["comparable"] for _, row in rows)
        missed = self._missed(rows) if judged and self._is_of_times else ""
        # Bytes can be compared without samples, and a prediction has none.
        is_predicted = comparison.keys() & {"prediction", "in_intervals"}
        needs_no_verdict = not self._is_of_times and (self._conditions or is_predicted)
        is_decided = needs_no_verdict or (judged and not (self._strict and missed))
        exit_code = 0 if is_decided else UNDECIDED
        return _Outcome(NEGATIVE if failed else exit_code, failed, missed)

    def _missed(self, rows: Rows) -> str:
        """Return which slowdowns may have been missed, and how many rounds would show them."""
        most, words = 1 + self.difference, []
        judged = [(name, row) for name, row in rows if row["comparable"] and row["rounds"] > 1]
        unseen = [(name, row) for name, row in judged if row["low"] <= most < row["high"]]
        if unseen:
            unseen.sort(key=lambda named: named[1]["high"], reverse=True)
            sizes = [f"{_percent(row['high'] - 1)} of {name}" for name, row in unseen]
            # Of equal programs, the distance of the end from 1 falls with the root of the rounds.
            rounds = [row["rounds"] * (log(row["high"]) / log(most)) ** 2 for _, row in unseen]
            words = [
                f"a slowdown of up to {listed(sizes, 3, str)} could have been missed",
                f"about {ceil(max(rounds)):,} rounds would show {_percent(self.difference)}",
            ]
        if unjudged := [name for name, row in rows if not row["comparable"]]:
            words.append(f"no verdict on {listed(unjudged, 3, str)}")
        return "; ".join(words)


def compare(arguments: argparse.Namespace) -> int:
    """Compare profiles, or interleaved runs of targets, with a base."""
    gate = _Gate(arguments)
    compared = _of_runs if arguments.run else _of_files
    judged = [(c, gate.judge(c)) for c in compared(arguments, gate.difference)]
    if arguments.json:
        _output.print_json({"comparisons": [_as_json(*pair) for pair in judged]})
    else:
        width = _output.width()
        blocks = [_blocks(*pair, in_turns=arguments.run) for pair in judged]
        shown = [markdown(b) if arguments.markdown else render(b, 0, width) for b in blocks]
        _output.print_text("\n\n".join(shown))
    # One that fails counts more than one without a verdict.
    codes = [outcome.exit_code for _, outcome in judged]
    return NEGATIVE if NEGATIVE in codes else max(codes)


def _as_json(comparison: ProfileComparison, outcome: _Outcome) -> JsonObject:
    """Return a comparison for JSON, which holds no infinite percentages and few kinds of values."""
    document = {**comparison, "headline": comparison.headline()}
    document.update(failed=outcome.failed, missed=outcome.missed)
    differing = comparison["config_diff"].items()
    document["config_diff"] = {name: jsonable(values)[0] for name, values in differing}
    for key in ("node_weight_diff", "edge_weight_diff"):
        document[key] = {
            name: {**entry, "pct": entry["pct"] if isfinite(entry["pct"]) else None}
            for name, entry in comparison[key].items()
        }
    return document


def _of_files(arguments: argparse.Namespace, difference: float) -> list[ProfileComparison]:
    for option in _OF_RUNS:
        if getattr(arguments, option.replace("-", "_")):
            raise CommandError(f"compare: --{option} needs --run, which measures two targets")
    base, comparisons = _output.load_profile(arguments.base), []
    for path in arguments.new:
        new, names = _output.load_profile(path), _names(arguments.base, path)
        _check_common(arguments.base, base.dag_structure["nodes"], path, new.dag_structure["nodes"])
        comparisons.append(compare_profiles(new, base, names=names, difference=difference))
    return comparisons


def _of_runs(arguments: argparse.Namespace, difference: float) -> list[ProfileComparison]:
    """Measure two targets with interleaved rounds, and compare them."""
    from dagprofiler.cli._run import measuring, run_options
    from dagprofiler.cli._targets import load_dag
    from dagprofiler.experiments import compare_runs

    if len(arguments.new) != 1:
        raise CommandError("compare --run measures two targets: give BASE and one NEW")
    targets, outputs = (arguments.base, arguments.new[0]), arguments.output or []
    _output.check_outputs(*outputs, arguments.report)
    options = run_options(arguments, 30)
    with measuring(arguments, lambda _: outputs or ["base.json", "new.json"]):
        base = load_dag(targets[0], arguments.config)
        new = load_dag(targets[1], [*arguments.config, *arguments.new_config])
        _check_common(targets[0], base.tasks, targets[1], new.tasks)
        runs = compare_runs(base, new, **options, difference=difference, progress=True)
    profiles, written = [runs.base, runs.new], [*outputs]
    _output.save_all(zip(profiles, outputs))
    runs.comparison.update(zip(("base", "new"), _names(*targets)))
    if arguments.report is not None:
        unsaved = [] if outputs else profiles
        _output.note_left_out(_output.write(runs.report, arguments.report, unsaved))
        written.append(arguments.report)
    for path in written:
        _output.note(f"written: {path}")
    return [runs.comparison]


def _check_common(base: str, base_tasks: Iterable[str], new: str, new_tasks: Iterable[str]) -> None:
    """Raise a CommandError unless two DAGs have a task in common."""
    if set(base_tasks).isdisjoint(new_tasks):
        words = f"{base} and {new} have no task in common: compare versions of one DAG"
        raise CommandError(words, UNDECIDED)


def _names(base: str, new: str) -> tuple[str, str]:
    """Return names that tell two files or targets apart, also if they are the same."""
    return (base, new) if base != new else (f"{base} (base)", f"{new} (new)")


def _blocks(comparison: ProfileComparison, outcome: _Outcome, *, in_turns: bool) -> list[Block]:
    """Return the blocks of a comparison, then what failed, and what would tell more."""
    notes = [f"failed: {text}: {', '.join(names)}" for text, names in outcome.failed.items()]
    notes += [outcome.missed] if outcome.missed else []
    verdicts = {row["verdict"] for row in comparison["task_times"].values()}
    obstacles = comparison["obstacles"].keys() - {"few_rounds"}
    if verdicts == {INCONCLUSIVE} and not obstacles and "prediction" not in comparison:
        ways = _LESS_NOISE if in_turns else f"{_LESS_NOISE}, {_IN_TURNS}"
        notes.append(f"for a verdict: {ways}")
    return [*comparison.blocks(_WAY_OUT), Block(notes=notes)]
