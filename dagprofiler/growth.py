"""Growth: what lets a graph grow while it runs, and Growing: one round of it."""

from __future__ import annotations

from functools import partial
from heapq import heappop, heappush
from time import perf_counter
from typing import TYPE_CHECKING, Any

from dagprofiler.drafts import Draft
from dagprofiler.errors import DeclarationError, GraphError, short_repr
from dagprofiler.growing import Space
from dagprofiler.openrules import Behind
from dagprofiler.parts import Extension
from dagprofiler.readings import Firing
from dagprofiler.task import check_tags, grows
from dagprofiler.views import FAILED, SKIPPED, SUCCEEDED, GraphView, NotYet
from dagprofiler.waiting import OF_NAMES, OF_TAGS, Waiting, undeclared

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dagprofiler.config import Config
    from dagprofiler.contracts import ContractReader
    from dagprofiler.openrules import OpenRule, Rules

__all__ = ["Growing", "Grows"]


class Grows:
    """What the rounds of a run of a graph that grows have in common.

    Parameters
    ----------
    rules
        The rules.
    reader
        Reads the contracts of tasks.
    config
        Parameters of the run.
    """

    def __init__(self, rules: Rules, reader: ContractReader, config: Config) -> None:
        self.rules = rules
        self.reader = reader
        self.config = config

    def begin(self, **works_on: Any) -> Growing:
        """Return a round that is about to begin, on the fields of a :class:`Space`."""
        return Growing(self, Space(**works_on))


class Growing(Waiting):
    """A graph that grows: one round.

    It hands out tasks as they become ready, and asks rules as tasks end.
    """

    def __init__(self, grows: Grows, space: Space) -> None:
        super().__init__(space)
        self.config = grows.config
        self._limits = grows.rules
        self._extension = Extension(self._wiring, self.index, grows.reader, self.config)
        self._under_way = 0
        tagged = {n: tuple(task.tags) for n, task in zip(self.names, space.tasks) if task.tags}
        self._admit_tasks(0, tagged)
        for rule in self._limits.rules:
            self._admit(rule)
        self._grow_behind(0)

    # The ready-loop's side.

    def pop(self) -> int | None:
        """Take the smallest number that is ready; None if there is none."""
        number = self._next()
        while number is None:
            if self._under_way or not self._idle():
                return None
            number = self._next()
        self._under_way += 1
        self._out[number] = 1
        if self._readers:
            for word in (self.names[number], *self.tags[number]):
                for rule in self._readers.get(word, {}).values():
                    self._hold(rule, number)
        return number

    def done(self, number: int) -> None:
        """Take note that a task has succeeded; what follows may become ready, or grow."""
        self._under_way -= 1
        waiting, ready = self._waiting, self._ready
        for target in self._wiring.after.get(number, ()):
            waiting[target] = left = waiting[target] - 1
            if not left:
                heappush(ready, target)
        self._end(number, SUCCEEDED)
        if self._dirty:
            self._ask()

    def failed(self, number: int, skipped: Iterable[int], *, stops: bool) -> None:
        """Take note that a task has failed, and that others are skipped for it."""
        self._under_way -= 1
        self._halted = stops
        self._end(number, FAILED)
        for other in skipped:
            self._end(other, SKIPPED)
        if self._dirty:
            self._ask()

    def start(self) -> None:
        """Ask all rules for the first time."""
        self._ask()

    def finish(self) -> None:
        """Write down how it ended; called once, however it did."""
        space, wiring = self._space, self._wiring
        for rule in self._open.values():
            self.growth.unfired[rule.name] = self._why(rule)
        log = space.log
        if log.encode_s:
            log.decode_s += [None] * (len(wiring.slots) - len(log.decode_s))
            log.encode_s += [None] * (len(wiring.owner) - len(log.encode_s))
        for i in [i for i in space.outputs if i in wiring.after]:
            if self.names[i] not in space.asked:
                del space.outputs[i]

    def conclude(self) -> None:
        """Refuse what is wrong with rules that did not fire, and fetch the outputs of the ends."""
        space = self._space
        for i in sorted(self._ends):
            if self.states[i] == SUCCEEDED:
                space.outputs[i] = {
                    field: self._value(i, position)
                    for position, field in enumerate(self._wiring.outputs[i])
                }
        if self._halted or space.log.errors:
            return
        for name, error in self._unmet():
            self._halted = space.fail(name, error) or self._halted

    def _unmet(self) -> Iterable[tuple[str, GraphError]]:
        """Yield the rules that cannot have been meant like that."""
        unfired = {**self.growth.unfired, **{r.name: self._why(r) for r in self._open.values()}}
        if self._limits.strict:
            for name, why in unfired.items():
                yield name, GraphError(f"rule {name!r} never fired: {why}")
            return
        for rule in self._open.values():
            tags = {key[1] for key in rule.looked if type(key) is tuple and key[0] in OF_TAGS}
            others = [r for r in self._open.values() if r is not rule and r.adds & tags]
            if others:
                yield (
                    rule.name,
                    GraphError(
                        f"rules wait for each other: {rule.name!r} until no more tasks tagged "
                        f"{min(tags & others[0].adds)!r} can come, which {others[0].name!r} "
                        "may add, and that never fired"
                    ),
                )

    # Rules.

    def _ask(self) -> None:
        """Ask the rules that wait for what has changed, in their order, until none is left."""
        begun = perf_counter()
        try:
            while self._dirty and not self._halted:
                rule = self._open.get(heappop(self._dirty))
                if rule is None:
                    continue
                rule.woken = False
                try:
                    if self._holds(rule):
                        self._fire(rule)
                except Exception as error:  # noqa: BLE001  (users' code may raise anything)
                    self._fails(rule, error)
        finally:
            self.growth.rules_s += perf_counter() - begun

    def _holds(self, rule: OpenRule) -> bool:
        if rule.looked:
            self._forget(rule)
        view = GraphView(self, rule)
        try:
            answer = rule.rule.when(view)
        except NotYet:
            answer = False
        if answer is not True and answer is not False:
            # numpy's are of its own kind.
            if type(answer).__name__ not in ("bool_", "bool"):
                raise DeclarationError(
                    f"its predicate returned {short_repr(answer)}, expected True or False"
                )
            answer = bool(answer)
        if not answer:
            rule.looked = view._looked  # noqa: SLF001  (a part of this)
            self._wait(rule)
        return answer

    def _fire(self, rule: OpenRule) -> None:
        draft = Draft(self, rule)
        if len(self.growth.firings) >= self._limits.max_firings:
            raise GraphError(
                f"rules have fired {self._limits.max_firings} times, which is the limit "
                "(Rules(max_firings=...)); does it feed itself?"
            )
        try:
            answer = rule.rule.then(draft)
        finally:
            draft.close()
        if answer is not None:
            raise DeclarationError(f"its body returned {short_repr(answer)}, expected None")
        first = len(self.names)
        if draft.tasks_added or draft.rules_added:
            self._apply(rule, draft)
        then_s = self._space.added_s
        at_s = (then_s and then_s(draft.tasks_added)) or perf_counter()
        count = len(self.names)
        self.growth.added_s += [at_s] * (count - first)
        self.growth.firings.append(Firing(rule.name, at_s, range(first, count)))
        self._retire(rule)

    def _apply(self, rule: OpenRule, draft: Draft) -> None:
        """Take up what a body adds, all of it or nothing."""
        for one in draft.rules_added:
            if one.adds:
                self._check_tags(rule, check_tags(one.adds, f"rule {one.name!r}: adds"))
        first = len(self.names)
        if draft.tasks_added:
            self._check_tasks(rule, draft)
            put = self._space.executor.put
            handles = [put(frames) for items in draft.items.values() for frames, _, _ in items]
            added = self._extension.add(draft, partial(self._check_source, rule))
            # From here on nothing is refused.
            self._append(first, draft, handles, *added)
            self._admit_tasks(first, draft.tags_added)
        for one in draft.rules_added:
            self._admit(one)
        self._grow_behind(first)

    def _check_tags(self, rule: OpenRule, tags: Iterable[str]) -> None:
        for tag in tags:
            if tag not in rule.adds:
                raise GraphError(
                    f"tag {tag!r} is none that the rule may add: declare adds=[{tag!r}]"
                )

    def _check_tasks(self, rule: OpenRule, draft: Draft) -> None:
        """Refuse tasks that the rule may not add."""
        tasks = draft.tasks_added
        grown = len(self.names) - self._wiring.given
        if grown + len(tasks) > self._limits.max_tasks:
            raise GraphError(
                f"rules may add {self._limits.max_tasks} tasks (Rules(max_tasks=...)), and this "
                f"one adds {len(tasks)} to {grown}; does it feed itself?"
            )
        for tags in set(draft.tags_added.values()):
            self._check_tags(rule, tags)
        for name in tasks if self._in_vain else ():
            if name in self._in_vain:
                raise GraphError(
                    f"task {name!r} comes too late: rule {self._in_vain[name]!r} waited for it "
                    "until no rule was left that could add it"
                )
        for task in tasks.values():
            task.config = self.config
            if grows(type(task)):
                self._check_tags(rule, task.adds)

    def _check_source(self, rule: OpenRule, source: int, slot: int) -> None:
        """Refuse an edge that carries what is not kept for the rule."""
        if not self._reads(rule, source):
            name = self.names[source]
            raise undeclared(rule, name, f"an edge carries outputs of task {name!r}")
        if self.states[source] == SUCCEEDED:
            self._check_kept(source, slot - self._wiring.first_slot[source])

    def _admit_tasks(self, first: int, tags: Mapping[str, tuple[str, ...]]) -> None:
        """Enter new tasks under their tags, and keep the outputs that rules read."""
        names, of, states, unfinished = self.names[first:], tags.get, self.states, self.unfinished
        self.tags += [of(name, ()) for name in names]
        came: set[str] = set()
        if tags:
            for i, words in enumerate(self.tags[first:], first):
                came.update(words)
                for tag in words:
                    self.by_tag.setdefault(tag, []).append(i)
                    unfinished[tag] = unfinished.get(tag, 0) + (not states[i])
        for kind in OF_TAGS if self._watchers else ():
            self._wake((kind, None))
            for tag in came:
                self._wake((kind, tag))
        if self._watched_names:
            for name in self._watched_names.intersection(names):
                for kind in OF_NAMES:
                    self._wake((kind, name))
                self._watched_names.discard(name)

    def _grow_behind(self, first: int) -> None:
        """Take up the rules that new tasks are themselves."""
        tasks = self._space.tasks
        found: set[Any] = set(map(type, tasks[first:]))
        kinds = {kind for kind in found if grows(kind)}
        if kinds:
            for i, task in enumerate(tasks[first:], first):
                if type(task) in kinds:
                    self._admit(Behind(self.names[i], task))

    def _idle(self) -> bool:
        """Tell whether there is more to do, with nothing ready and nothing under way.

        Rules that wait for a task of some name, which only rules that wait
        themselves could add, are closed; that may let others fire.
        """
        if self._halted:
            return False
        for rule in [rule for rule in self._open.values() if self._missing(rule)]:
            self._close(rule)
        self._ask()
        return bool(self._fresh or self._ready)
