"""Growth: what lets a graph grow while it runs, and Growing: one round of it."""

from __future__ import annotations

from collections import deque
from functools import partial
from heapq import heappop, heappush
from itertools import chain
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from dagprofiler.engine.log import Firing
from dagprofiler.errors import DeclarationError, GraphError, describe, did_you_mean, short_repr
from dagprofiler.rules._extend import GraphExtension
from dagprofiler.rules.views import (
    FAILED,
    PENDING,
    SKIPPED,
    STATES,
    SUCCEEDED,
    GraphEditor,
    GraphView,
    GrowRule,
    NotYet,
    PendingRule,
)
from dagprofiler.task import check_tags, grows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from dagprofiler.config import Config
    from dagprofiler.engine.log import Growth, RoundLog
    from dagprofiler.engine.validate import ContractReader
    from dagprofiler.executors.dispatch import Dispatcher
    from dagprofiler.executors.serial import SerialExecutor
    from dagprofiler.graph.wiring import LiveWiring
    from dagprofiler.measure.pipeline import Contract
    from dagprofiler.rules.views import Rules
    from dagprofiler.task import Task


class Space(NamedTuple):
    """What a round works on: lists that get longer as the graph grows.

    Attributes
    ----------
    log
        Readings of the round, its growth among them.
    tasks, contracts, keep
        For each task itself, what it declares, and whether its outputs are wanted back.
    handles, uses
        For each slot its handle, and how often it is still needed.
    outputs
        Outputs that came back, by task number.
    executor
        Where tasks run.
    asked
        Names of tasks whose outputs are wanted, whatever follows them.
    fail
        Takes note of a rule that failed, and why; returns whether nothing new is to start.
    added_s
        Returns when tasks were added that an earlier attempt at this run had, else None.
    """

    log: RoundLog
    tasks: list[Task]
    contracts: list[Contract]
    keep: list[bool]
    handles: list[Any]
    uses: list[int]
    outputs: dict[int, Mapping[str, Any]]
    executor: SerialExecutor | Dispatcher
    asked: frozenset[str]
    fail: Callable[[str, Exception], bool]
    added_s: Callable[[Iterable[str]], float | None] | None


class Grown:
    """The tasks of a growing graph.

    Attributes
    ----------
    names, index
        Task names by number, and numbers by name.
    tags, by_tag
        For each task its tags, and for each tag its tasks.
    unfinished
        Of each tag how many tasks are yet to end.
    states
        Of each task its state.
    """

    def __init__(self, space: Space) -> None:
        growth: Any = space.log.growth
        self.growth: Growth = growth
        self._space = space
        self._wiring: LiveWiring = growth.wiring
        self.names = self._wiring.names
        count = len(self.names)
        self.index = dict(zip(self.names, range(count)))
        self.tags: list[tuple[str, ...]] = []
        self.by_tag: dict[str, list[int]] = {}
        self.unfinished: dict[str, int] = {}
        #: Types of tasks, known to be such.
        self.kinds: set[type] = set()
        self._out = bytearray(count)
        self.states = bytearray(count)
        #: How many predecessors of each task are not done.
        starts = self._wiring.first_source
        self._waiting = [end - begin for begin, end in zip(starts, starts[1:])]
        #: Numbers of tasks that were ready when they came, and of those that became it.
        self._fresh = deque(i for i, left in enumerate(self._waiting) if not left)
        self._ready: list[int] = []
        #: Tasks that nothing follows so far, and whose outputs are kept since rules read them.
        self._ends: set[int] = set()

    def unknown(self, name: Any) -> GraphError:
        """Return the error for a name that no task has."""
        return GraphError(f"there is no task {name!r}{did_you_mean(name, list(self.index))}")

    def outputs_of(self, name: str) -> list[str]:
        """Return the outputs that a task declares."""
        return self._wiring.outputs[self._number(name)]

    def contract_of(self, name: str) -> Contract:
        """Return what a task declares."""
        return self._space.contracts[self._number(name)]

    def _number(self, name: str) -> int:
        number: int | None = self.index.get(name)
        if number is None:
            raise self.unknown(name)
        return number

    def _check_kept(self, number: int, position: int) -> None:
        if self._space.handles[self._wiring.first_slot[number] + position] is None:
            raise GraphError(
                f"outputs of task {self.names[number]!r} are not kept any more: it had ended "
                "before the rule that reads them was there; let the rule that adds that rule "
                "read them too"
            )

    def _value(self, number: int, position: int) -> Any:
        handle = self._space.handles[self._wiring.first_slot[number] + position]
        return self._space.executor.value(handle, self._space.contracts[number].decode)

    def _next(self) -> int | None:
        """Take the smallest number that is ready; None if there is none."""
        fresh, ready = self._fresh, self._ready
        while fresh or ready:
            older = ready and not (fresh and fresh[0] < ready[0])
            number = heappop(ready) if older else fresh.popleft()
            if not self.states[number]:
                return number
        return None

    def _append(
        self,
        first: int,
        draft: GraphEditor,
        handles: list[Any],
        tasks: list[Task],
        contracts: list[Contract],
        estimates: dict[int, int],
    ) -> None:
        """Make all that has an entry for each task as long as the graph is now."""
        wiring, space, log = self._wiring, self._space, self._space.log
        if handles:
            self._take_items(draft, handles)
        count = len(tasks)
        space.tasks.extend(tasks)
        space.contracts.extend(contracts)
        self.growth.estimates.update(estimates)
        log.times += [None] * (6 * count)
        log.ran_on += [0] * count
        more = len(wiring.owner) - len(log.wire_bytes)
        log.wire_bytes += [0] * more
        space.handles.extend([None] * more)
        uses = space.uses
        for slot in wiring.slots[wiring.first_input[first] :]:
            uses[slot] += 1
        self._link(first)
        asked, after = space.asked, wiring.after
        space.keep.extend([i not in after for i in range(first, first + count)])
        if asked:
            for name in asked.intersection(draft.tasks_added):
                space.keep[self.index[name]] = True

    def _take_items(self, draft: GraphEditor, handles: list[Any]) -> None:
        """Put the items of outputs into the slots that they have."""
        log = self._space.log
        self._space.handles.extend(handles)
        sizes = chain.from_iterable(draft.items.values())
        for slot, (_, payload, length) in enumerate(sizes, len(log.wire_bytes)):
            log.wire_bytes.append(length)
            if payload != length:
                log.payload_bytes[slot] = payload

    def _link(self, first: int) -> None:
        """Let new tasks wait for their predecessors; skip those behind a failure."""
        wiring, states, waiting = self._wiring, self.states, self._waiting
        after, sources, begin = wiring.after, wiring.sources, wiring.first_source[first]
        for i, end in enumerate(wiring.first_source[first + 1 :], first):
            left = 0
            state = PENDING
            for source in sources[begin:end]:
                followers = after.get(source)
                if followers is None:
                    after[source] = [i]
                    if source < first:
                        self._is_no_end(source)
                else:
                    followers.append(i)
                before = states[source]
                if not before:
                    left += 1
                elif before != SUCCEEDED:
                    state = SKIPPED
            begin = end
            waiting.append(left)
            states.append(state)
            self._out.append(0)
            if state:
                self._skip(i)
            elif not left:
                self._fresh.append(i)

    def _skip(self, number: int) -> None:
        """Skip a new task, since something before it failed."""
        space = self._space
        space.log.skipped.add(number)
        for _, slot in self._wiring.feeds(number):
            self._let_go(slot)

    def _is_no_end(self, number: int) -> None:
        """Take note that something follows a task now: its outputs are not wanted back for that."""
        space = self._space
        if number in self._ends:
            self._ends.discard(number)
            self._release(number)
        elif self.names[number] not in space.asked:
            space.keep[number] = False
            space.outputs.pop(number, None)

    def _use(self, number: int) -> None:
        first = self._wiring.first_slot[number]
        for slot in range(first, first + len(self._wiring.outputs[number])):
            self._space.uses[slot] += 1

    def _release(self, number: int) -> None:
        first = self._wiring.first_slot[number]
        for slot in range(first, first + len(self._wiring.outputs[number])):
            self._let_go(slot)

    def _let_go(self, slot: int) -> None:
        uses = self._space.uses
        uses[slot] -= 1
        if not uses[slot]:
            self._space.handles[slot] = None


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
        self._open: dict[int, PendingRule] = {}
        self._admitted = 0
        self._known: dict[str, int] = {}
        self.adders: dict[str, int] = {}
        #: Rules that may read what goes by a word.
        self._readers: dict[str, dict[int, PendingRule]] = {}
        #: What predicates looked at, and the rules that wait for it to change.
        self._watchers: dict[Any, set[int]] = {}
        self._watched_names: set[str] = set()
        self._dirty: list[int] = []
        #: Names that rules waited for in vain, and the rule.
        self._in_vain: dict[str, str] = {}
        self._branched = self._halted = False
        self._failures = 0

    def can_come(self, tag: str | None, rule: PendingRule) -> bool:
        """Tell whether a rule other than `rule` may still add tasks with a tag."""
        if tag is None:
            return any(other is not rule for other in self._open.values())
        return self.adders.get(tag, 0) > (tag in rule.adds and rule.waits)

    def check_tag(self, rule: PendingRule, tag: Any) -> None:
        """Raise a GraphError if no task can ever have had a tag."""
        if tag not in self.by_tag and tag not in self.adders:
            known = sorted({*self.by_tag, *self.adders})
            raise GraphError(
                f"rule {rule.name!r}: no task is tagged {tag!r}, and no rule adds such tasks "
                f"(tags: {', '.join(map(repr, known)) or 'none'}){did_you_mean(tag, known)}"
            )

    def read(self, rule: PendingRule, number: int, field: str) -> Any:
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

    def _reads(self, rule: PendingRule, number: int) -> bool:
        return self.names[number] in rule.reads or not rule.reads.isdisjoint(self.tags[number])

    def _admit(self, rule: Any) -> None:
        """Take a rule up; it is asked when it is its turn."""
        same = self._known[rule.name] = self._known.get(rule.name, 0) + 1
        name = rule.name if same == 1 else f"{rule.name} ({same})"
        opened = PendingRule(rule, name, self._admitted)
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

    def _hold(self, rule: PendingRule, number: int) -> None:
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

    def _wait(self, rule: PendingRule) -> None:
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

    def _forget(self, rule: PendingRule) -> None:
        """Let a rule wait for nothing."""
        for key in rule.looked:
            watching = self._watchers.get(key)
            if watching is not None:
                watching.discard(rule.number)
                if not watching:
                    del self._watchers[key]
        rule.looked = ()

    def _is_final(self, rule: PendingRule, key: Any) -> bool:
        """Tell whether what a rule has looked at stays as it is for good."""
        if type(key) is int:
            return bool(self.states[key])
        kind, word = key
        if kind in OF_NAMES:
            return not self.can_come(None, rule)
        if self.can_come(word, rule):
            return False
        return kind in ("more", "tag") or not self.unfinished.get(word, 0)

    def _close(self, rule: PendingRule) -> None:
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

    def _missing(self, rule: PendingRule) -> list[str]:
        """Return the names, of tasks that are not there, that a rule waits for."""
        return [key[1] for key in rule.looked if type(key) is tuple and key[0] == "name"]

    def _fails(self, rule: PendingRule, error: Exception) -> None:
        """Take note that a rule failed. What it would have added is missing from then on."""
        self._failures += 1
        self.growth.unfired[rule.name] = f"it failed: {describe(error)}"
        self._leave(rule)
        self._halted = self._space.fail(rule.name, error) or self._halted

    def _retire(self, rule: PendingRule) -> None:
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

    def _leave(self, rule: PendingRule) -> None:
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

    def _why(self, rule: PendingRule) -> str:
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


def undeclared(rule: PendingRule, name: str, what: str) -> GraphError:
    """Return the error for an output that a rule has not declared."""
    return GraphError(
        f"rule {rule.name!r}: {what}, which the rule has to declare, so that it is kept: "
        f"reads=[{name!r}], or a tag of that task"
    )


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
        self._extension = GraphExtension(self._wiring, self.index, grows.reader, self.config)
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

    def _holds(self, rule: PendingRule) -> bool:
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

    def _fire(self, rule: PendingRule) -> None:
        draft = GraphEditor(self, rule)
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

    def _apply(self, rule: PendingRule, draft: GraphEditor) -> None:
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

    def _check_tags(self, rule: PendingRule, tags: Iterable[str]) -> None:
        for tag in tags:
            if tag not in rule.adds:
                raise GraphError(
                    f"tag {tag!r} is none that the rule may add: declare adds=[{tag!r}]"
                )

    def _check_tasks(self, rule: PendingRule, draft: GraphEditor) -> None:
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

    def _check_source(self, rule: PendingRule, source: int, slot: int) -> None:
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
                    self._admit(GrowRule(self.names[i], task))

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
