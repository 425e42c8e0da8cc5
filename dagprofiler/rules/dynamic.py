"""Growing: the per-task state and the pending rules of a dynamic graph in one round."""

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
    from dagprofiler.graph.wiring import GrowableWiring
    from dagprofiler.measure.pipeline import Contract
    from dagprofiler.rules.views import Rules
    from dagprofiler.task import Task


class Space(NamedTuple):
    """The state that a round works on: lists that get longer as the graph grows.

    Attributes
    ----------
    log
        Readings of the round, with its growth.
    tasks, contracts, keep
        For each task: the task, its contract, and whether its outputs are returned.
    handles, uses
        For each slot: its handle, and the number of its remaining uses.
    outputs
        Returned outputs, by task number.
    executor
        Runs the tasks.
    asked
        Names of tasks whose outputs are returned even if other tasks follow them.
    fail
        Records the failure of a rule; returns whether no new task may start.
    added_s
        Returns when a previous attempt at this run added these tasks, else None.
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
        For each tag the number of its tasks that have not ended.
    states
        For each task its state.
    """

    def __init__(self, space: Space) -> None:
        growth: Any = space.log.growth
        self.growth: Growth = growth
        self._space = space
        self._wiring: GrowableWiring = space.log.wiring  # type: ignore[assignment]
        self.names = self._wiring.names
        count = len(self.names)
        self.index = dict(zip(self.names, range(count)))
        self.tags: list[tuple[str, ...]] = []
        self.by_tag: dict[str, list[int]] = {}
        self.unfinished: dict[str, int] = {}
        #: Classes of tasks that have been checked.
        self.kinds: set[type] = set()
        self._out = bytearray(count)
        self.states = bytearray(count)
        #: For each task the number of its predecessors that have not succeeded.
        starts = self._wiring.first_source
        self._waiting = [end - begin for begin, end in zip(starts, starts[1:])]
        #: Numbers of tasks that were ready when added, and of those that became ready later.
        self._fresh = deque(i for i, left in enumerate(self._waiting) if not left)
        self._ready: list[int] = []
        #: Tasks without successors so far, whose outputs are kept because rules read them.
        self._ends: set[int] = set()

    def unknown(self, name: Any) -> GraphError:
        """Return the error for a name that no task has."""
        return GraphError(f"there is no task {name!r}{did_you_mean(name, list(self.index))}")

    def outputs_of(self, name: str) -> list[str]:
        """Return the outputs that a task declares."""
        return self._wiring.outputs[self._number(name)]

    def contract_of(self, name: str) -> Contract:
        """Return the contract of a task."""
        return self._space.contracts[self._number(name)]

    def _number(self, name: str) -> int:
        number: int | None = self.index.get(name)
        if number is None:
            raise self.unknown(name)
        return number

    def _check_kept(self, number: int, position: int) -> None:
        if self._space.handles[self._wiring.first_slot[number] + position] is None:
            raise GraphError(
                f"outputs of task {self.names[number]!r} are no longer kept: it ended before "
                "the rule that reads them was added; name it in reads= of the rule that adds "
                "that rule too"
            )

    def _value(self, number: int, position: int) -> Any:
        handle = self._space.handles[self._wiring.first_slot[number] + position]
        return self._space.executor.value(handle, self._space.contracts[number].decode)

    def _next(self) -> int | None:
        """Remove and return the smallest ready number; None if there is none."""
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
        editor: GraphEditor,
        handles: list[Any],
        tasks: list[Task],
        contracts: list[Contract],
        estimates: dict[int, int],
    ) -> None:
        """Extend every list that has an entry for each task to the size of the graph."""
        wiring, space, log = self._wiring, self._space, self._space.log
        if handles:
            self._append_items(editor, handles)
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
            for name in asked.intersection(editor.tasks_added):
                space.keep[self.index[name]] = True

    def _append_items(self, editor: GraphEditor, handles: list[Any]) -> None:
        """Append the items of mapped outputs to the lists of slots."""
        log = self._space.log
        self._space.handles.extend(handles)
        sizes = chain.from_iterable(editor.items.values())
        for slot, (_, payload, length) in enumerate(sizes, len(log.wire_bytes)):
            log.wire_bytes.append(length)
            if payload != length:
                log.payload_bytes[slot] = payload

    def _link(self, first: int) -> None:
        """Enter new tasks as successors of their predecessors; skip those after a failure."""
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
                        self._gain_successor(source)
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
        """Skip a new task, because a predecessor failed or was skipped."""
        space = self._space
        space.log.skipped.add(number)
        for _, slot in self._wiring.feeds(number):
            self._drop_use(slot)

    def _gain_successor(self, number: int) -> None:
        """Stop returning the outputs of a task that was an exit task until now."""
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
            self._drop_use(slot)

    def _drop_use(self, slot: int) -> None:
        uses = self._space.uses
        uses[slot] -= 1
        if not uses[slot]:
            self._space.handles[slot] = None


#: Kinds of keys in `PendingRule.looked` that change only with tasks of a tag.
OF_TAGS = ("more", "tag", "all_ended", "ended")
#: Kinds of keys that change only with tasks of a name: its view, or whether it exists.
OF_NAMES = ("name", "exists")


class Waiting(Grown):
    """The pending rules, each of which waits for a change of what its predicate looked at.

    Attributes
    ----------
    adders
        For each tag the number of pending rules that may add it.
    """

    def __init__(self, space: Space) -> None:
        super().__init__(space)
        self._open: dict[int, PendingRule] = {}
        self._admitted = 0
        self._known: dict[str, int] = {}
        self.adders: dict[str, int] = {}
        #: Name or tag to the rules that may read outputs of its tasks.
        self._readers: dict[str, dict[int, PendingRule]] = {}
        #: Key that predicates looked at, to the rules that wait for it to change.
        self._watchers: dict[Any, set[int]] = {}
        self._watched_names: set[str] = set()
        self._dirty: list[int] = []
        #: Name that no task can get any more, to the rule that waited for it.
        self._never_added: dict[str, str] = {}
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
        """Add a rule to the pending ones; it is evaluated in its turn."""
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
                # Outputs of other tasks are held when they start.
                if number is not None and self._out[number]:
                    self._hold(opened, number)
        heappush(self._dirty, opened.number)

    def _hold(self, rule: PendingRule, number: int) -> None:
        """Keep the outputs of a task, which starts or has started, until a rule is closed."""
        space = self._space
        rule.held.append(number)
        self._use(number)
        if space.keep[number] and not self.states[number] and self.names[number] not in space.asked:
            # An exit task so far; whether it stays one is known at the end. Until then its
            # outputs are kept only serialized, not in memory as well.
            space.keep[number] = False
            self._ends.add(number)
            self._use(number)

    # Changes, and the rules that wait for them.

    def _end(self, number: int, state: int) -> None:
        """Set the final state of a task and wake the rules that wait for it."""
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
        """Queue the rules whose predicates looked at `key`, which has changed."""
        for number in self._watchers.pop(key, ()):
            rule = self._open[number]
            if not rule.woken:
                rule.woken = True
                heappush(self._dirty, number)

    def _wait(self, rule: PendingRule) -> None:
        """Let a rule wait for a change of what it looked at; close it if nothing can change."""
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
        """Remove a rule from all watchers."""
        for key in rule.looked:
            watching = self._watchers.get(key)
            if watching is not None:
                watching.discard(rule.number)
                if not watching:
                    del self._watchers[key]
        rule.looked = ()

    def _is_final(self, rule: PendingRule, key: Any) -> bool:
        """Tell whether what a rule has looked at can no longer change."""
        if type(key) is int:
            return bool(self.states[key])
        kind, word = key
        if kind in OF_NAMES:
            return not self.can_come(None, rule)
        if self.can_come(word, rule):
            return False
        return kind in ("more", "tag") or not self.unfinished.get(word, 0)

    def _close(self, rule: PendingRule) -> None:
        """Close a rule that can never fire."""
        failed = [i for i in rule.looked if type(i) is int and self.states[i] > SUCCEEDED]
        missing = self._missing(rule)
        if missing and not (failed or self._branched or self._space.log.errors or self._failures):
            self._fails(rule, self.unknown(missing[0]))
            return
        self.growth.unfired[rule.name] = self._why(rule)
        self._branched = self._branched or not (failed or missing)
        self._never_added.update(dict.fromkeys(missing, rule.name))
        if failed:
            # Rules that wait for its tasks keep waiting: the failure caused their absence.
            self._leave(rule)
        else:
            self._retire(rule)

    def _missing(self, rule: PendingRule) -> list[str]:
        """Return the names of missing tasks that a rule waits for."""
        return [key[1] for key in rule.looked if type(key) is tuple and key[0] == "name"]

    def _fails(self, rule: PendingRule, error: Exception) -> None:
        """Record that a rule failed, and close it."""
        self._failures += 1
        self.growth.unfired[rule.name] = f"it failed: {describe(error)}"
        self._leave(rule)
        self._halted = self._space.fail(rule.name, error) or self._halted

    def _retire(self, rule: PendingRule) -> None:
        """Close a rule that adds nothing any more, and wake the rules that wait for that."""
        self._leave(rule)
        rule.waits = False
        for tag in rule.adds:
            left = self.adders[tag] = self.adders[tag] - 1
            # The last one may itself wait until the others can add no more.
            if left <= 1:
                for kind in OF_TAGS:
                    self._wake((kind, tag))
        if len(self._open) <= 1:
            general = [key for key in self._watchers if type(key) is tuple]
            for key in general:
                if key[0] in OF_NAMES or key[1] is None:
                    self._wake(key)

    def _leave(self, rule: PendingRule) -> None:
        """Remove a rule, and release the outputs that are kept for it."""
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
            return f"it waits for task {missing[0]!r}, which was never added"
        for i in rule.looked:
            if type(i) is int and self.states[i] != SUCCEEDED:
                state = "had not ended" if not self.states[i] else f"has {STATES[self.states[i]]}"
                return f"task {self.names[i]!r} {state}".replace("has skipped", "was skipped")
        for key in rule.looked:
            if type(key) is tuple and key[0] in OF_TAGS and not self._is_final(rule, key):
                return f"more tasks tagged {key[1]!r} could have been added, or ended"
        return "its predicate did not hold"


def undeclared(rule: PendingRule, name: str, what: str) -> GraphError:
    """Return the error for an output that a rule has not declared in ``reads``."""
    return GraphError(
        f"rule {rule.name!r}: {what}; the rule must declare it, so that it is kept: "
        f"reads=[{name!r}], or a tag of that task"
    )


class Grows:
    """Creates the rounds of a run of a dynamic graph.

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
        """Return a new round on the fields of a :class:`Space`."""
        return Growing(self, Space(**works_on))


class Growing(Waiting):
    """One round of a dynamic graph.

    Returns tasks as they become ready, and evaluates rules as tasks end.
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
        self._admit_grow_rules(0)

    # Called by the run loop.

    def pop(self) -> int | None:
        """Remove and return the smallest ready number; None if there is none."""
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
        """Mark a task as succeeded; its successors may become ready, and rules may fire."""
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
        """Mark a task as failed, and the tasks that depend on it as skipped."""
        self._under_way -= 1
        self._halted = stops
        self._end(number, FAILED)
        for other in skipped:
            self._end(other, SKIPPED)
        if self._dirty:
            self._ask()

    def start(self) -> None:
        """Evaluate all rules for the first time."""
        self._ask()

    def finish(self) -> None:
        """Complete the log of the round; always called once, also after a failure."""
        space, wiring = self._space, self._wiring
        for rule in self._open.values():
            self.growth.unfired[rule.name] = self._why(rule)
        log = space.log
        if log.encode_s:
            log.extend_columns()
        for i in [i for i in space.outputs if i in wiring.after]:
            if self.names[i] not in space.asked:
                del space.outputs[i]

    def conclude(self) -> None:
        """Fetch the outputs of exit tasks, and fail on unfired rules that look like mistakes."""
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
        """Yield unfired rules that look like mistakes, and the error of each."""
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
                        f"rules wait for each other: {rule.name!r} waits until no more tasks "
                        f"tagged {min(tags & others[0].adds)!r} can be added, and "
                        f"{others[0].name!r}, which may add them, never fired"
                    ),
                )

    # Rules.

    def _ask(self) -> None:
        """Evaluate the woken rules in their order until none is left."""
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
            # numpy has bools of its own.
            if type(answer).__name__ not in ("bool_", "bool"):
                raise DeclarationError(
                    f"its predicate returned {short_repr(answer)}, expected True or False"
                )
            answer = bool(answer)
        if not answer:
            rule.looked = view._looked  # noqa: SLF001  (same package)
            self._wait(rule)
        return answer

    def _fire(self, rule: PendingRule) -> None:
        editor = GraphEditor(self, rule)
        if len(self.growth.firings) >= self._limits.max_firings:
            raise GraphError(
                f"rules have fired {self._limits.max_firings} times, which is the limit "
                "(Rules(max_firings=...)); does the rule trigger itself?"
            )
        try:
            answer = rule.rule.then(editor)
        finally:
            editor.close()
        if answer is not None:
            raise DeclarationError(f"its body returned {short_repr(answer)}, expected None")
        first = len(self.names)
        if editor.tasks_added or editor.rules_added:
            self._apply(rule, editor)
        then_s = self._space.added_s
        at_s = (then_s and then_s(editor.tasks_added)) or perf_counter()
        count = len(self.names)
        self.growth.added_s += [at_s] * (count - first)
        self.growth.firings.append(Firing(rule.name, at_s, range(first, count)))
        self._retire(rule)

    def _apply(self, rule: PendingRule, editor: GraphEditor) -> None:
        """Apply what a body adds, all of it or nothing."""
        for added_rule in editor.rules_added:
            if added_rule.adds:
                tags = check_tags(added_rule.adds, f"rule {added_rule.name!r}: adds")
                self._check_tags(rule, tags)
        first = len(self.names)
        if editor.tasks_added:
            self._check_tasks(rule, editor)
            put = self._space.executor.put
            handles = [put(frames) for items in editor.items.values() for frames, _, _ in items]
            added = self._extension.add(editor, partial(self._check_source, rule))
            # Nothing below is refused.
            self._append(first, editor, handles, *added)
            self._admit_tasks(first, editor.tags_added)
        for added_rule in editor.rules_added:
            self._admit(added_rule)
        self._admit_grow_rules(first)

    def _check_tags(self, rule: PendingRule, tags: Iterable[str]) -> None:
        for tag in tags:
            if tag not in rule.adds:
                raise GraphError(
                    f"tag {tag!r} is not one that the rule may add: declare adds=[{tag!r}]"
                )

    def _check_tasks(self, rule: PendingRule, editor: GraphEditor) -> None:
        """Refuse tasks that the rule may not add."""
        tasks = editor.tasks_added
        grown = len(self.names) - self._wiring.given
        if grown + len(tasks) > self._limits.max_tasks:
            raise GraphError(
                f"rules may add {self._limits.max_tasks} tasks (Rules(max_tasks=...)), and this "
                f"one adds {len(tasks)} to {grown}; does it trigger itself?"
            )
        for tags in set(editor.tags_added.values()):
            self._check_tags(rule, tags)
        for name in tasks if self._never_added else ():
            if name in self._never_added:
                raise GraphError(
                    f"task {name!r} is added too late: rule {self._never_added[name]!r}, which "
                    "waits for it, was closed when no other rule could add it"
                )
        for task in tasks.values():
            task.config = self.config
            if grows(type(task)):
                self._check_tags(rule, task.adds)

    def _check_source(self, rule: PendingRule, source: int, slot: int) -> None:
        """Refuse an edge whose outputs are not kept for the rule."""
        if not self._reads(rule, source):
            name = self.names[source]
            raise undeclared(rule, name, f"an edge carries outputs of task {name!r}")
        if self.states[source] == SUCCEEDED:
            self._check_kept(source, slot - self._wiring.first_slot[source])

    def _admit_tasks(self, first: int, tags: Mapping[str, tuple[str, ...]]) -> None:
        """Enter new tasks under their tags, and wake the rules that wait for them."""
        names, of, states, unfinished = self.names[first:], tags.get, self.states, self.unfinished
        self.tags += [of(name, ()) for name in names]
        new_tags: set[str] = set()
        if tags:
            for i, words in enumerate(self.tags[first:], first):
                new_tags.update(words)
                for tag in words:
                    self.by_tag.setdefault(tag, []).append(i)
                    unfinished[tag] = unfinished.get(tag, 0) + (not states[i])
        for kind in OF_TAGS if self._watchers else ():
            self._wake((kind, None))
            for tag in new_tags:
                self._wake((kind, tag))
        if self._watched_names:
            for name in self._watched_names.intersection(names):
                for kind in OF_NAMES:
                    self._wake((kind, name))
                self._watched_names.discard(name)

    def _admit_grow_rules(self, first: int) -> None:
        """Admit the ``grow()`` of each new task that defines it as a rule."""
        tasks = self._space.tasks
        classes: set[Any] = set(map(type, tasks[first:]))
        kinds = {kind for kind in classes if grows(kind)}
        if kinds:
            for i, task in enumerate(tasks[first:], first):
                if type(task) in kinds:
                    self._admit(GrowRule(self.names[i], task))

    def _idle(self) -> bool:
        """Tell whether more tasks become ready, with none ready and none running.

        Closes the rules that wait for a task name which only other waiting
        rules could add; other rules may then fire.
        """
        if self._halted:
            return False
        for rule in [rule for rule in self._open.values() if self._missing(rule)]:
            self._close(rule)
        self._ask()
        return bool(self._fresh or self._ready)
