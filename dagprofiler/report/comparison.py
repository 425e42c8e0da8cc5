"""A profile beside the one it is measured against."""

from __future__ import annotations

from collections import Counter
from math import isfinite
from typing import TYPE_CHECKING, Any

from dagprofiler.report.figures import finite, label_of, medians
from dagprofiler.report.parts import parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dagprofiler.report.subject import Subject

__all__ = ["comparison"]

#: Parts of the base that are shown beside the profile's own.
_BESIDE = ("about", "summary")

#: Tables of which the rows are shown that differ.
_DIFFERING = ("configuration", "machine")

_ONE_ROUND = "a single round says nothing about noise: take both with run(rounds=...)"


def comparison(subject: Subject, base: Subject) -> dict[str, Any]:
    """Return what differs: times with verdicts, bytes, instructions, parameters, the machine."""
    found = subject.profile.compare(base.profile)
    mine, theirs = (parts(one, (*_BESIDE, *_DIFFERING)) for one in (subject, base))
    reasons: dict[str, int] = {}
    tasks = _times(subject, base, found["task_times"], reasons)
    return {
        "base": {name: theirs[name] for name in _BESIDE},
        "scale": found.get("scale"),
        "verdicts": Counter(row["verdict"] for row in tasks),
        "tasks": tasks,
        "edges": _edge_times(found["edge_times"], reasons),
        "reasons": list(reasons),
        "added": [name for name in subject.names if name not in base.numbers],
        "removed": [name for name in base.names if name not in subject.numbers],
        "bytes": _weights(found["edge_weight_diff"], 8),
        "instructions": _weights(found["node_weight_diff"], 1),
        **{name: _rows(mine, theirs, name) for name in _DIFFERING},
    }


def _times(
    subject: Subject, base: Subject, compared: Mapping[str, Any], reasons: dict[str, int]
) -> list[dict[str, Any]]:
    """Return a row for each task that both have: both times, their ratio, and a verdict."""
    names = [name for name in subject.names if name in base.numbers]
    quantities = dict.fromkeys(entry["quantity"] for entry in compared.values())
    sides = [
        {key: _medians(one, names, key) for key in (*quantities, "")} for one in (subject, base)
    ]
    rows = []
    for i, name in enumerate(names):
        entry = compared.get(name, {"verdict": "can't say", "reason": _ONE_ROUND, "quantity": ""})
        mine, theirs = (side[entry["quantity"]][i] for side in sides)
        ratio = entry.get("ratio")
        if ratio is None and mine is not None and theirs:
            ratio = mine / theirs
        rows.append(
            {
                "task": subject.numbers[name],
                "mine": mine,
                "base": theirs,
                **_judgement(entry, reasons),
                "ratio": _known(ratio),
            }
        )
    return rows


def _edge_times(compared: Mapping[str, Any], reasons: dict[str, int]) -> list[dict[str, Any]]:
    return [{"name": name, **_judgement(entry, reasons)} for name, entry in compared.items()]


def _judgement(entry: Mapping[str, Any], reasons: dict[str, int]) -> dict[str, Any]:
    reason = entry.get("reason")
    return {
        "quantity": label_of(entry["quantity"]),
        **{key: _known(entry.get(key)) for key in ("ratio", "low", "high", "coverage")},
        "verdict": entry["verdict"],
        "reason": None if reason is None else reasons.setdefault(reason, len(reasons)),
    }


def _medians(subject: Subject, names: Sequence[str], key: str) -> list[Any]:
    """Return the median of a column of samples; without a key, the times in compute()."""
    section = subject.sections.get("samples")
    if key and section is not None:
        return list(medians(section["rounds"], section["tasks"], names, key))
    times: dict[str, Any] = {}
    for figures in subject.task_figures:
        if figures.key == "compute_time_ms":
            times = dict(zip(subject.names, figures.values))
    return [times.get(name) for name in names]


def _weights(differing: Mapping[str, Mapping[str, Any]], divisor: int) -> list[list[Any]]:
    return [
        [name, finite(entry["self"]) / divisor, finite(entry["other"]) / divisor]
        for name, entry in differing.items()
    ]


def _rows(mine: Mapping[str, Any], theirs: Mapping[str, Any], part: str) -> list[list[Any]]:
    """Return the rows of a table of two columns that differ, with both values."""
    left, right = dict(mine.get(part, ())), dict(theirs.get(part, ()))
    return [
        [label, left.get(label), right.get(label)]
        for label in _union(left, right)
        if left.get(label) != right.get(label)
    ]


def _union(first: Iterable[str], second: Iterable[str]) -> list[str]:
    return list(dict.fromkeys([*first, *second]))


def _known(value: Any) -> Any:
    return value if value is not None and isfinite(value) else None
