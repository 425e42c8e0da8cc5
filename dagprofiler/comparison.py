"""Comparison: how two profiles differ, as a dict, as text, and as notebooks show it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from dagprofiler.errors import short_repr
from dagprofiler.markup import Markup, Shown, cut_table, paragraph, text, view
from dagprofiler.quantities import MOST_ROWS, aligned, and_more, number, printable
from dagprofiler.summary import comparison_rows, comparison_summary

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["Comparison", "times_markup"]

_RATIOS = "times, as ratios to those there:"

#: Verdicts that have a colour.
_COLOURED = ("faster", "slower")


class _Part(NamedTuple):
    """A table of what differs: its rows, the first of which is its head."""

    title: str
    rows: Sequence[Sequence[str]]
    left: Sequence[int]


class Comparison(dict[str, Any], Shown):
    """How two profiles differ, as :meth:`Profile.compare <dagprofiler.Profile.compare>` says.

    A dict with the keys that are described there; ``print`` and notebooks show it as tables.
    """

    def __str__(self) -> str:
        lines = self._notes()
        if self._times:
            lines += ["", _RATIOS, comparison_summary(self._times)]
        for title, rows, left in self._parts():
            lines += ["", title, *aligned(rows[: MOST_ROWS + 1], left)]
            lines += and_more(len(rows) - 1, "rows")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        notes = map(paragraph, self._notes())
        times = [paragraph(_RATIOS), times_markup(self._times)] if self._times else []
        parts = (
            part
            for title, rows, left in self._parts()
            for part in (paragraph(title), cut_table(rows, "rows", left))
        )
        return view(*notes, *times, *parts)

    @property
    def _times(self) -> dict[str, Any]:
        return {**self["task_times"], **self["edge_times"]}

    def _notes(self) -> list[str]:
        difference, scale = self["time_diff_ms"], self.get("scale")
        known = "not known of both" if difference is None else f"{difference:+,.3f} ms here"
        notes = [f"total time: {known}", *([printable(scale)] if scale else ())]
        for key, where in (("only_in_self", "here"), ("only_in_other", "there")):
            names = self.get(key, ())
            if names:
                more = f" and {len(names) - MOST_ROWS:,} more" if len(names) > MOST_ROWS else ""
                listed = ", ".join(map(printable, names[:MOST_ROWS]))
                notes.append(f"tasks only {where}: {listed}{more}")
        return notes

    def _parts(self) -> Iterator[_Part]:
        """Yield what differs beside times."""
        if self["config_diff"]:
            yield _Part("parameters:", _values(self["config_diff"]), (0, 1, 2))
        for key, title in (("node_weight_diff", "instructions:"), ("edge_weight_diff", "bits:")):
            if self[key]:
                yield _Part(title, _weights(self[key]), (0,))


def _values(differing: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, ...]]:
    return [
        ("", "here", "there"),
        *(
            (
                printable(name),
                *(printable(short_repr(entry[side])) for side in ("self", "other")),
            )
            for name, entry in differing.items()
        ),
    ]


def _weights(differing: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, ...]]:
    return [
        ("", "here", "there", "difference", "%"),
        *(
            (
                printable(name),
                *(number(entry[key]) for key in ("self", "other")),
                f"{entry['diff']:+,}",
                f"{entry['pct']:+,.1f}",
            )
            for name, entry in differing.items()
        ),
    ]


def times_markup(times: Mapping[str, Mapping[str, Any]]) -> Markup:
    """Return a table of what a comparison says of the times of tasks and edges."""
    (head, *rows), reason = comparison_rows(times)
    body = [(*row[:3], _coloured(row[3])) for row in rows]
    note = paragraph(reason, quiet=True) if reason else ""
    return Markup(f"{cut_table([head, *body], 'tasks and edges', left=(0, 3))}{note}")


def _coloured(words: str) -> str:
    """Return a verdict and its reason, with the verdict in its colour."""
    verdict, colon, reason = words.partition(":")
    if verdict not in _COLOURED:
        return words
    return Markup(f'<b class="{verdict}">{verdict}</b>{colon}{text(reason)}')
