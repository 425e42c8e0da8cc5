"""Waiting: the rules of a growing graph in one round, and what each of them waits for."""

from __future__ import annotations

from heapq import heappush
from typing import TYPE_CHECKING, Any

from dagprofiler.errors import GraphError, describe, did_you_mean
from dagprofiler.growing import Grown
from dagprofiler.openrules import OpenRule
from dagprofiler.views import STATES, SUCCEEDED

if TYPE_CHECKING:
    from dagprofiler.growing import Space

__all__ = ["OF_NAMES", "OF_TAGS", "Waiting", "undeclared"]

#: Kinds of what a predicate looked at that only tasks with a tag can change.
OF_TAGS = ("more", "tag", "all_ended", "ended")
#: The same of names: a task was asked for, or whether there is one.
OF_NAMES = ("name", "there")


class Waiting(Grown):
    """The rules that are open, each of which waits for what it has looked at to change.

    Attributes
    ----------
    adders
        Of each tag how many open rules may add it.
    """

    def __init__(self, space: Space) -> None:
        super().__init__(space)
        self._open: dict[int, OpenRule] = {}
        self._admitted = 0
        self._known: dict[str, int] = {}
        self.adders: dict[str, int] = {}
        #: Rules that may read what goes by a word.
        self._readers: dict[str, dict[int, OpenRule]] = {}
        #: What predicates looked at, and the rules that wait for it to change.
        self._watchers: dict[Any, set[int]] = {}
        self._watched_names: set[str] = set()
        self._dirty: list[int] = []
        #: Names that rules waited for in vain, and the rule.
        self._in_vain: dict[str, str] = {}
        self._branched = self._halted = False
        self._failures = 0

    def can_come(self, tag: str | None, rule: OpenRule) -> bool:
        """Tell whether a rule other than `rule` may still add tasks with a tag."""
        if tag is None:
            return any(other is not rule for other in self._open.values())
        return self.adders.get(tag, 0) > (tag in rule.adds and rule.waits)

    def check_tag(self, rule: OpenRule, tag: Any) -> None:
        """Raise a GraphError if no task can ever have had a tag."""
        if tag not in self.by_tag and tag not in self.adders:
            known = sorted({*self.by_tag, *self.adders})
            raise GraphError(
                f"rule {rule.name!r}: no task is tagged {tag!r}, and no rule adds such tasks "
                f"(tags: {', '.join(map(repr, known)) or 'none'}){did_you_mean(tag, known)}"
            )

    def read(self, rule: OpenRule, number: int, field: str) -> Any:
        """Return the value of an output, decoded anew."""
        outputs, name = self._wiring.outputs[number], self.names[number]
        if field not in outputs:
            raise GraphError(
                f"{field!r} is not an output of task {name!r} "
                f"(outputs: {', '.join(map(repr, outputs)) or 'none'})"
                f"{did_you_mean(field, outputs)}"
            )
        if not self._reads(rule, number):
            raise undeclared(rule, name, f"output {field!r} of task {name!r} is read")
        position = outputs.index(field)
        self._check_kept(number, position)
        return self._value(number, position)

    def _reads(self, rule: OpenRule, number: int) -> bool:
        return self.names[number] in rule.reads or not rule.reads.isdisjoint(self.tags[number])

    def _admit(self, rule: Any) -> None:
        """Take a rule up; it is asked when it is its turn."""
        same = self._known[rule.name] = self._known.get(rule.name, 0) + 1
        name = rule.name if same == 1 else f"{rule.name} ({same})"
        opened = OpenRule(rule, name, self._admitted)
        self._admitted += 1
        self._open[opened.number] = opened
        for tag in opened.adds:
            self.adders[tag] = self.adders.get(tag, 0) + 1
        for word in opened.reads:
            self._readers.setdefault(word, {})[opened.number] = opened
            for number in (*self.by_tag.get(word, ()), self.index.get(word)):
                # Others are held when they start.
                if number is not None and self._out[number]:
                    self._hold(opened, number)
        heappush(self._dirty, opened.number)

    def _hold(self, rule: OpenRule, number: int) -> None:
        """Keep the outputs of a task, which is about to start or has, until a rule is through."""
        space = self._space
        rule.held.append(number)
        self._use(number)
        if space.keep[number] and not self.states[number] and self.names[number] not in space.asked:
            # Nothing follows it so far. Whether that stays so is known at the end: until
            # then it is kept as it travels, rather than in memory as well.
            space.keep[number] = False
            self._ends.add(number)
            self._use(number)

    # What changes, and who waits for it.

    def _end(self, number: int, state: int) -> None:
        """Take note that a task has ended."""
        self.states[number] = state
        watchers = self._watchers
        if number in watchers:
            self._wake(number)
        for tag in self.tags[number]:
            left = self.unfinished[tag] = self.unfinished[tag] - 1
            if watchers:
                self._wake(("ended", tag))
                if not left:
                    self._wake(("all_ended", tag))

    def _wake(self, key: Any) -> None:
        """Let the rules be asked that have looked at what has changed."""
        for number in self._watchers.pop(key, ()):
            rule = self._open[number]
            if not rule.woken:
                rule.woken = True
                heappush(self._dirty, number)

    def _wait(self, rule: OpenRule) -> None:
        """Let a rule wait until something that it has looked at changes, if that can be."""
        for key in rule.looked:
            if not self._is_final(rule, key):
                break
        else:
            self._close(rule)
            return
        for key in rule.looked:
            self._watchers.setdefault(key, set()).add(rule.number)
            if type(key) is tuple and key[0] in OF_NAMES:
                self._watched_names.add(key[1])

    def _forget(self, rule: OpenRule) -> None:
        """Let a rule wait for nothing."""
        for key in rule.looked:
            watching = self._watchers.get(key)
            if watching is not None:
                watching.discard(rule.number)
                if not watching:
                    del self._watchers[key]
        rule.looked = ()

    def _is_final(self, rule: OpenRule, key: Any) -> bool:
        """Tell whether what a rule has looked at stays as it is for good."""
        if type(key) is int:
            return bool(self.states[key])
        kind, word = key
        if kind in OF_NAMES:
            return not self.can_come(None, rule)
        if self.can_come(word, rule):
            return False
        return kind in ("more", "tag") or not self.unfinished.get(word, 0)

    def _close(self, rule: OpenRule) -> None:
        """Take note that a rule can never fire."""
        failed = [i for i in rule.looked if type(i) is int and self.states[i] > SUCCEEDED]
        missing = self._missing(rule)
        if missing and not (failed or self._branched or self._space.log.errors or self._failures):
            self._fails(rule, self.unknown(missing[0]))
            return
        self.growth.unfired[rule.name] = self._why(rule)
        self._branched = self._branched or not (failed or missing)
        self._in_vain.update(dict.fromkeys(missing, rule.name))
        if failed:
            # What it would have added is missing, rather than known not to come.
            self._leave(rule)
        else:
            self._retire(rule)

    def _missing(self, rule: OpenRule) -> list[str]:
        """Return the names, of tasks that are not there, that a rule waits for."""
        return [key[1] for key in rule.looked if type(key) is tuple and key[0] == "name"]

    def _fails(self, rule: OpenRule, error: Exception) -> None:
        """Take note that a rule failed. What it would have added is missing from then on."""
        self._failures += 1
        self.growth.unfired[rule.name] = f"it failed: {describe(error)}"
        self._leave(rule)
        self._halted = self._space.fail(rule.name, error) or self._halted

    def _retire(self, rule: OpenRule) -> None:
        """Take note that a rule adds nothing any more, which others may wait for."""
        self._leave(rule)
        rule.waits = False
        for tag in rule.adds:
            left = self.adders[tag] = self.adders[tag] - 1
            # One is left that may be waiting itself, for what the others add.
            if left <= 1:
                for kind in OF_TAGS:
                    self._wake((kind, tag))
        if len(self._open) <= 1:
            general = [key for key in self._watchers if type(key) is tuple]
            for key in general:
                if key[0] in OF_NAMES or key[1] is None:
                    self._wake(key)

    def _leave(self, rule: OpenRule) -> None:
        """Close a rule, and let go of what is kept for it."""
        del self._open[rule.number]
        if rule.looked:
            self._forget(rule)
        for word in rule.reads:
            self._readers[word].pop(rule.number, None)
            if not self._readers[word]:
                del self._readers[word]
        for number in rule.held:
            self._release(number)
        rule.held = []

    def _why(self, rule: OpenRule) -> str:
        """Return why a rule did not fire."""
        missing = self._missing(rule)
        if missing:
            return f"it waits for task {missing[0]!r}, which never came"
        for i in rule.looked:
            if type(i) is int and self.states[i] != SUCCEEDED:
                state = "had not ended" if not self.states[i] else f"has {STATES[self.states[i]]}"
                return f"task {self.names[i]!r} {state}".replace("has skipped", "was skipped")
        for key in rule.looked:
            if type(key) is tuple and key[0] in OF_TAGS and not self._is_final(rule, key):
                return f"more tasks tagged {key[1]!r} could have come, or ended"
        return "its predicate did not hold"


def undeclared(rule: OpenRule, name: str, what: str) -> GraphError:
    """Return the error for an output that a rule has not declared."""
    return GraphError(
        f"rule {rule.name!r}: {what}, which the rule has to declare, so that it is kept: "
        f"reads=[{name!r}], or a tag of that task"
    )
