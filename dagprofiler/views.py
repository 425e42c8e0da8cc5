"""A growing graph as the predicates of rules see it: read-only."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from dagprofiler.config import Config
    from dagprofiler.openrules import OpenRule

__all__ = [
    "FAILED",
    "PENDING",
    "SKIPPED",
    "STATES",
    "SUCCEEDED",
    "GraphView",
    "NotYet",
    "TaskView",
]

PENDING, SUCCEEDED, FAILED, SKIPPED = range(4)
#: What they are called.
STATES = ("pending", "succeeded", "failed", "skipped")

_NUMBER = re.compile(r"\[(\d+)\]")


class NotYet(BaseException):
    """A predicate looked at what is not there yet. Never leaves the library."""


def natural(name: str) -> list[Any]:
    """Return what names are sorted by: numbers in brackets by their value."""
    start, _, rest = name.partition("[")
    number = rest[:-1]
    if number.isdecimal() and rest[-1] == "]":
        # Most are of this form.
        return [start, int(number), ""]
    parts: list[Any] = _NUMBER.split(name)
    parts[1::2] = map(int, parts[1::2])
    return parts


class GrowingGraph(Protocol):
    """What views ask of a graph that grows; its tasks are numbered."""

    @property
    def config(self) -> Config:
        """Parameters of the run."""

    @property
    def names(self) -> Sequence[str]:
        """Names of the tasks."""

    @property
    def index(self) -> dict[str, int]:
        """Name to number."""

    @property
    def states(self) -> Sequence[int]:
        """The state of each task."""

    @property
    def tags(self) -> Sequence[tuple[str, ...]]:
        """The tags of each task."""

    @property
    def by_tag(self) -> Mapping[str, Sequence[int]]:
        """Tag to the numbers of its tasks."""

    @property
    def unfinished(self) -> Mapping[str, int]:
        """Tag to how many of its tasks have not finished."""

    @property
    def adders(self) -> Container[str]:
        """Tags that rules may still add."""

    @property
    def kinds(self) -> set[type]:
        """Classes of tasks that have been checked."""

    def can_come(self, tag: str | None, rule: OpenRule) -> bool:
        """Tell whether a rule other than `rule` may still add tasks with a tag."""

    def check_tag(self, rule: OpenRule, tag: Any) -> None:
        """Refuse a tag that no task can ever have had."""

    def read(self, rule: OpenRule, number: int, field: str) -> Any:
        """Return the value of an output, decoded anew."""

    def contract_of(self, name: str) -> Any:
        """Return what a task declares."""

    def unknown(self, name: Any) -> Exception:
        """Return the error for a name that no task has."""


class TaskView:
    """A task of a growing graph, as rules see it.

    Attributes
    ----------
    name
        Its name in the graph.
    """

    __slots__ = ("_number", "_view", "name")

    def __init__(self, view: GraphView, number: int, name: str) -> None:
        self._view = view
        self._number = number
        self.name = name

    def __repr__(self) -> str:
        return f"<task {self.name!r}>"

    @property
    def tags(self) -> tuple[str, ...]:
        """Its tags."""
        return self._view._growing.tags[self._number]  # noqa: SLF001  (a part of it)

    @property
    def state(self) -> str:
        """``"pending"`` until it has ended, then ``"succeeded"``, ``"failed"`` or ``"skipped"``."""
        return self._view._state(self._number)  # noqa: SLF001

    @property
    def succeeded(self) -> bool:
        """Whether it has ended without an error."""
        # Asked for more often than all else.
        self._view._looked[self._number] = None  # noqa: SLF001
        return self._view._growing.states[self._number] == SUCCEEDED  # noqa: SLF001

    @property
    def ended(self) -> bool:
        """Whether it has ended, one way or the other."""
        return self.state != "pending"

    def output(self, field: str) -> Any:
        """Return what it returned: a copy, so that changing it changes nothing.

        Until the task has succeeded, a predicate that asks for it does not hold.

        Raises
        ------
        GraphError
            If there is no such output, or the rule does not say that it reads it.
        """
        return self._view._output(self._number, field)  # noqa: SLF001


class GraphView:
    """A growing graph as a predicate sees it: read-only.

    What a predicate looks at is noted, and it is asked again when some of it
    has changed. What it learns elsewhere, from a clock or from a file, does
    not count as a change.
    """

    def __init__(self, growing: GrowingGraph, rule: OpenRule) -> None:
        self._growing = growing
        self._rule = rule
        #: What was looked at: task numbers, and (kind, word).
        self._looked: dict[Any, None] = {}

    @property
    def config(self) -> Config:
        """Parameters of the run."""
        return self._growing.config

    def __contains__(self, name: object) -> bool:
        found = name in self._growing.index
        if not found:
            self._look("there", name)
        return found

    def __getitem__(self, name: str) -> TaskView:
        """Return the task `name`.

        While there is none, but a rule is left that might add it, a predicate
        that asks for it does not hold.
        """
        number = self._growing.index.get(name)
        if number is None:
            self._look("name", name)
            raise NotYet
        return TaskView(self, number, name)

    def tasks(self, tag: str | None = None) -> list[TaskView]:
        """Return the tasks that are there, all or those with a tag, in the order of their names.

        Numbers in brackets count by their value: ``p[2]`` comes before ``p[10]``.
        """
        names = self._growing.names
        numbers = self._look_at_tag("tag", tag)
        return [
            TaskView(self, i, names[i]) for i in sorted(numbers, key=lambda i: natural(names[i]))
        ]

    def count(self, tag: str | None = None) -> int:
        """Return how many tasks there are, in all or with a tag."""
        return len(self._look_at_tag("tag", tag))

    def count_ended(self, tag: str) -> int:
        """Return how many tasks with a tag have ended."""
        numbers = self._look_at_tag("ended", tag)
        return len(numbers) - self._growing.unfinished.get(tag, 0)

    def is_tag(self, word: str) -> bool:
        """Tell whether tasks can have a word as a tag, and none has it as its name."""
        growing = self._growing
        return word not in growing.index and (word in growing.by_tag or word in growing.adders)

    def all_ended(self, tag: str) -> bool:
        """Tell whether no task with a tag, of those that are there, is yet to end."""
        self._look_at_tag("all_ended", tag)
        return not self._growing.unfinished.get(tag, 0)

    def can_come(self, tag: str) -> bool:
        """Tell whether any more tasks with a tag can come, other than by this very rule."""
        self._look_at_tag("more", tag)
        return self._growing.can_come(tag, self._rule)

    def _look(self, *key: Any) -> None:
        self._looked[key] = None

    def _look_at_tag(self, kind: str, tag: str | None) -> Sequence[int]:
        self._look(kind, tag)
        if tag is None:
            return range(len(self._growing.names))
        self._growing.check_tag(self._rule, tag)
        return self._growing.by_tag.get(tag, ())

    def _state(self, number: int) -> str:
        self._looked[number] = None
        return STATES[self._growing.states[number]]

    def _output(self, number: int, field: str) -> Any:
        self._looked[number] = None
        if self._growing.states[number] != SUCCEEDED:
            raise NotYet
        return self._growing.read(self._rule, number, field)
