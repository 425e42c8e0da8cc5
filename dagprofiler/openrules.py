"""Rules as a run sees them: what is asked for, and a rule in one round."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dagprofiler.errors import DeclarationError, short_repr

if TYPE_CHECKING:
    from dagprofiler.views import GraphView

__all__ = ["Behind", "OpenRule", "Rules", "as_rules", "check_rule"]


@dataclass(frozen=True)
class Rules:
    """Rules, and what holds for all of them.

    Parameters
    ----------
    rules
        Asked in this order.
    strict
        Whether a rule that never fires is an error.
    max_tasks, max_firings
        How many tasks rules may add, and how often they may fire, in one
        round: what ends rules that feed themselves.
    """

    rules: Iterable[Any] = ()
    strict: bool = False
    max_tasks: int = 1_000_000
    max_firings: int = 100_000

    def __post_init__(self) -> None:
        if not isinstance(self.rules, Iterable):
            raise DeclarationError(
                f"Rules: rules must be a list of rules, got {short_repr(self.rules)}"
            )
        object.__setattr__(self, "rules", tuple(self.rules))
        if not isinstance(self.strict, bool):
            raise DeclarationError(
                f"Rules: strict must be True or False, got {short_repr(self.strict)}"
            )
        for name in ("max_tasks", "max_firings"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise DeclarationError(
                    f"Rules: {name} must be an integer of at least 0, got {short_repr(value)}"
                )


def as_rules(given: Any) -> Rules:
    """Return what ``DAG(rules=...)`` was given as Rules, or raise a DeclarationError."""
    if not isinstance(given, (Rules, Iterable)) or isinstance(given, (str, Mapping)):
        raise DeclarationError(f"rules must be a list of rules, got {short_repr(given)}")
    rules: Rules = given if isinstance(given, Rules) else Rules(given)
    for rule in rules.rules:
        check_rule(rule)
    return rules


def check_rule(rule: Any) -> None:
    """Raise a DeclarationError unless `rule` is a rule."""
    if not (callable(getattr(rule, "when", None)) and callable(getattr(rule, "then", None))):
        raise DeclarationError(f"rules: expected a Rule, got {short_repr(rule)}")


class OpenRule:
    """A rule in a round.

    Attributes
    ----------
    rule
        What it says.
    name
        What it goes by; the second of a name is ``name (2)``.
    number
        Its place in the order in which rules are asked.
    adds, reads
        Tags that it may add; tasks and tags whose outputs it reads.
    held
        Tasks whose outputs are kept for it.
    looked
        What its predicate looked at: task numbers, and (kind, tag or name).
    waits, woken
        Whether it has not fired, and whether it is about to be asked.
    """

    def __init__(self, rule: Any, name: str, number: int) -> None:
        self.rule = rule
        self.name = name
        self.number = number
        self.adds = frozenset(rule.adds)
        self.reads = frozenset(rule.reads)
        self.held: list[int] = []
        self.looked: Iterable[Any] = ()
        self.waits = self.woken = True


class Behind:
    """The rule that a task with a ``grow()`` of its own is.

    Attributes
    ----------
    task
        The name of the task in the graph.
    """

    def __init__(self, name: str, task: Any) -> None:
        self.name = f"grow of {name}"
        self.adds = task.adds
        self.reads = (name,)
        self.then = task.grow
        self.task = name

    def when(self, graph: GraphView) -> bool:
        """Tell whether the task has succeeded."""
        return graph[self.task].succeeded
