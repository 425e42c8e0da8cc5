"""DynamicGraph: a graph that rules extend while it runs, in one round."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import chain, product
from time import perf_counter
from typing import TYPE_CHECKING, Any

from dagprofiler.engine.log import Firing, Growth
from dagprofiler.engine.options import check_limits, estimates_of, problems_of
from dagprofiler.errors import (
    DeclarationError,
    GraphError,
    ValidationError,
    describe,
    did_you_mean,
    short_repr,
)
from dagprofiler.graph.edges import Matches, check_parallel
from dagprofiler.graph.wiring import GrowableWiring, kahn_order
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
    from collections.abc import Iterable, Mapping

    from dagprofiler.config import Config
    from dagprofiler.engine.options import ContractReader
    from dagprofiler.engine.run import Round
    from dagprofiler.graph.wiring import Wiring
    from dagprofiler.measure.pipeline import Contract
    from dagprofiler.rules.views import Mapped, Rules
    from dagprofiler.task import Task

#: Kinds of keys in `PendingRule.looked` that change only with tasks of a tag.
OF_TAGS = ("more", "tag", "all_ended", "ended")
#: Kinds of keys that change only with tasks of a name: its view, or whether it exists.
OF_NAMES = ("name", "exists")


class DynamicGraph:
    """A graph that rules extend, in one round: its tasks, and the rules that may still fire.

    The run loop asks it for tasks that are ready, and tells it which ones ended.

    Parameters
    ----------
    given
        The initial graph.
    rules, reader, config
        The rules of the graph, the reader of contracts, and the parameters of the run.

    Attributes
    ----------
    wiring
        The graph, which grows.
    names, index
        Task names by number, and numbers by name.
    tags, by_tag
        For each task its tags, and for each tag its tasks.
    unfinished
        For each tag the number of its tasks that have not ended.
    states
        For each task its state.
    adders
        For each tag the number of pending rules that may add it.
    kinds, growers
        Classes of tasks that have been checked, and those of them that define ``grow()``.
    """

    def __init__(self, given: Wiring, rules: Rules, reader: ContractReader, config: Config) -> None:
        self.wiring = GrowableWiring(given)
        self.config = config
        self._limits = rules
        self._reader = reader
        self._begun = False

    # Called by the ready loop.

    def begin(self, current: Round) -> None:
        """Prepare the round, and evaluate all rules for the first time."""
        wiring = self._wiring = self.wiring
        self._log = current.log
        # Estimates of tasks that another round added stay with it.
        given = len(wiring.names)
        estimates = {i: value for i, value in current.run.estimates.items() if i < given}
        self._growth = current.log.growth = Growth(estimates, [0.0] * given)
        # These lists get longer as the graph grows.
        tasks = self._tasks = current.tasks
        self._contracts = current.contracts
        slots = self._slots = current.slots
        self._keep, self._handles, self._uses = slots.kept, slots.handles, slots.uses
        self._outputs = current.results.outputs
        self._executor = current.executor
        self._asked = current.keep
        self._fail = current.rule_failed
        self._added_s = current.added_s

        self.names: list[str] = wiring.names
        count = len(self.names)
        self.index = dict(zip(self.names, range(count)))
        self.tags: list[tuple[str, ...]] = []
        self.by_tag: dict[str, list[int]] = {}
        self.unfinished: dict[str, int] = {}
        self.kinds: set[type] = set()
        self.growers: set[type] = set()
        self.states = bytearray(count)
        #: For each task whether it has started.
        self._started = bytearray(count)
        #: For each task the number of its predecessors that have not succeeded.
        starts = wiring.first_source
        self._waiting = [end - begin for begin, end in zip(starts, starts[1:])]
        #: A heap of the numbers of ready tasks.
        self._ready = [i for i, left in enumerate(self._waiting) if not left]
        self._running = 0
        #: Tasks without successors so far, whose outputs are kept because rules read them.
        self._ends: set[int] = set()
        self._matches = Matches()
        #: Combinations of a contract and the inputs that arrive which have passed validation.
        self._fine: set[tuple[Any, ...]] = set()

        #: The pending rules, by their numbers.
        self._open: dict[int, PendingRule] = {}
        self._admitted = 0
        self._known: dict[str, int] = {}
        self.adders: dict[str, int] = {}
        #: Name or tag to the rules that may read outputs of its tasks.
        self._readers: dict[str, dict[int, PendingRule]] = {}
        #: Key that predicates looked at, to the numbers of the rules that wait for it to change;
        #: some may be closed, or wait for other keys by now.
        self._watchers: dict[Any, set[int]] = {}
        #: A heap of the numbers of the rules to evaluate.
        self._dirty: list[int] = []
        #: Name that no task can get any more, to the rule that waited for it.
        self._never_added: dict[str, str] = {}
        self._branched = self._halted = False
        self._failures = 0
        #: What all predicates look at the graph through.
        self._view = GraphView(self)

        self._admit_tags({n: tuple(task.tags) for n, task in zip(self.names, tasks) if task.tags})
        for rule in self._limits.rules:
            self._admit(rule)
        for i, task in enumerate(tasks):
            if grows(type(task)):
                self._admit(GrowRule(self.names[i], task))
        self._begun = True
        self._ask()

    def pop(self) -> int | None:
        """Remove and return the smallest ready number; None if there is none."""
        ready, states = self._ready, self.states
        while True:
            if not ready:
                if self._running or not self._idle():
                    return None
                continue
            number = heappop(ready)
            if not states[number]:
                break
        self._running += 1
        self._started[number] = 1
        if self._readers:
            for word in (self.names[number], *self.tags[number]):
                for rule in self._readers.get(word, {}).values():
                    self._hold(rule, number)
        return number

    def done(self, number: int) -> None:
        """Mark a task as succeeded; its successors may become ready, and rules may fire."""
        self._running -= 1
        waiting = self._waiting
        for target in self._wiring.after.get(number, ()):
            waiting[target] = left = waiting[target] - 1
            if not left:
                heappush(self._ready, target)
        self._end(number, SUCCEEDED)
        if self._dirty:
            self._ask()

    def failed(self, number: int, skipped: Iterable[int], *, stops: bool) -> None:
        """Mark a task as failed, and the tasks that depend on it as skipped."""
        self._running -= 1
        self._halted = stops
        self._end(number, FAILED)
        for other in skipped:
            self._end(other, SKIPPED)
        if self._dirty:
            self._ask()

    def finish(self, *, ended: bool) -> None:
        """Complete the log of the round; always called once, also after a failure."""
        if not self._begun:
            return
        if ended:
            self._conclude()
        wiring, log = self._wiring, self._log
        for rule in self._open.values():
            self._growth.unfired[rule.name] = self._why(rule)
        if log.encode_s:
            log.extend_columns()
        for i in [i for i in self._outputs if i in wiring.after]:
            if self.names[i] not in self._asked:
                del self._outputs[i]
        # Refers to this object, too.
        del self._view

    def _conclude(self) -> None:
        """Fetch the outputs of exit tasks, and fail on unfired rules that look like mistakes."""
        for i in sorted(self._ends):
            if self.states[i] == SUCCEEDED:
                self._outputs[i] = {
                    field: self._value(i, position)
                    for position, field in enumerate(self._wiring.outputs[i])
                }
        if self._halted or self._log.errors:
            return
        for name, error in self._unmet():
            self._halted = self._fail(name, error) or self._halted

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
        return bool(self._ready)

    # Called by views.

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

    def contract_of(self, name: str) -> Contract:
        """Return the contract of a task."""
        number = self.index.get(name)
        if number is None:
            raise self.unknown(name)
        return self._contracts[number]

    def unknown(self, name: Any) -> GraphError:
        """Return the error for a name that no task has."""
        return GraphError(f"there is no task {name!r}{did_you_mean(name, list(self.index))}")

    def read(self, rule: PendingRule, number: int, field: str) -> Any:
        """Return the value of an output, decoded anew."""
        outputs, name = self._wiring.outputs[number], self.names[number]
        if field not in outputs:
            raise GraphError(
                f"{field!r} is not an output of task {name!r} "
                f"(outputs: {', '.join(map(repr, outputs)) or 'none'})"
                f"{did_you_mean(field, outputs)}"
            )
        position = outputs.index(field)
        self._check_kept(rule, number, position, f"it reads output {field!r} of")
        return self._value(number, position)

    # The outputs that rules read.

    def _check_kept(self, rule: PendingRule, number: int, position: int, what: str) -> None:
        """Refuse to use an output that is not kept for the rule."""
        name = self.names[number]
        if name not in rule.reads and rule.reads.isdisjoint(self.tags[number]):
            raise GraphError(
                f"rule {rule.name!r}: {what} task {name!r}; the rule must declare it, so that it "
                f"is kept: reads=[{name!r}], or a tag of that task"
            )
        handle = self._handles[self._wiring.first_slot[number] + position]
        if handle is None and self.states[number] == SUCCEEDED:
            raise GraphError(
                f"outputs of task {name!r} are no longer kept: it ended before the rule that "
                "reads them was added; name it in reads= of the rule that adds that rule too"
            )

    def _value(self, number: int, position: int) -> Any:
        handle = self._handles[self._wiring.first_slot[number] + position]
        return self._executor.value(handle, self._contracts[number].decode)

    def _hold(self, rule: PendingRule, number: int) -> None:
        """Keep the outputs of a task, which starts or has started, until a rule is closed."""
        rule.held.append(number)
        times = 1
        if self._keep[number] and not self.states[number] and self.names[number] not in self._asked:
            # An exit task so far; whether it stays one is known at the end. Until then its
            # outputs are kept only serialized, not in memory as well.
            self._keep[number] = False
            self._ends.add(number)
            times = 2
        first, uses = self._wiring.first_slot[number], self._uses
        for slot in range(first, first + len(self._wiring.outputs[number])):
            uses[slot] += times

    def _release(self, number: int) -> None:
        first = self._wiring.first_slot[number]
        self._slots.release(range(first, first + len(self._wiring.outputs[number])))

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
        """Queue the rules whose predicates looked at a key that has changed."""
        for number in self._watchers.pop(key, ()):
            rule = self._open.get(number)
            if rule is not None and not rule.woken and key in rule.looked:
                rule.woken = True
                heappush(self._dirty, number)

    def _wait(self, rule: PendingRule) -> None:
        """Let a rule wait for a change of what it looked at; close it if nothing can change."""
        for key in rule.looked:
            if not (self.states[key] if type(key) is int else self._is_final(rule, key)):
                break
        else:
            self._close(rule)
            return
        watchers = self._watchers
        for key in rule.looked:
            if key in watchers:
                watchers[key].add(rule.number)
            else:
                watchers[key] = {rule.number}

    def _is_final(self, rule: PendingRule, key: Any) -> bool:
        """Tell whether a name or a tag that a rule has looked at can no longer change."""
        kind, word = key
        if kind in OF_NAMES:
            return not self.can_come(None, rule)
        if self.can_come(word, rule):
            return False
        return kind in ("more", "tag") or not self.unfinished.get(word, 0)

    # Evaluating rules.

    def _ask(self) -> None:
        """Evaluate the woken rules in their order until none is left."""
        begun = perf_counter()
        dirty = self._dirty
        try:
            while dirty and not self._halted:
                rule = self._open.get(heappop(dirty))
                if rule is None:
                    continue
                rule.woken = False
                try:
                    if self._holds(rule):
                        self._fire(rule)
                except Exception as error:  # noqa: BLE001  (users' code may raise anything)
                    self._fails(rule, error)
        finally:
            self._growth.rules_s += perf_counter() - begun

    def _holds(self, rule: PendingRule) -> bool:
        view = self._view
        view._rule, view._looked = rule, {}  # noqa: SLF001  (same package)
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
        rule.looked = {} if answer else view._looked  # noqa: SLF001  (same package)
        if not answer:
            self._wait(rule)
        return answer

    def _fire(self, rule: PendingRule) -> None:
        editor = GraphEditor(self, rule)
        growth = self._growth
        if len(growth.firings) >= self._limits.max_firings:
            raise GraphError(
                f"rules have fired {self._limits.max_firings} times, which is the limit "
                "(Rules(max_firings=...)); does the rule trigger itself?"
            )
        try:
            answer = rule.rule.then(editor)
        finally:
            editor._open = False  # noqa: SLF001  (same package)
        if answer is not None:
            raise DeclarationError(f"its body returned {short_repr(answer)}, expected None")
        for added_rule in editor.rules_added:
            if added_rule.adds:
                tags = check_tags(added_rule.adds, f"rule {added_rule.name!r}: adds")
                _check_tags(rule, tags)
        first = len(self.names)
        if editor.tasks_added:
            self._add_tasks(rule, editor)
        count = len(self.names)
        for added_rule in editor.rules_added:
            self._admit(added_rule)
        if self.growers:
            for i in range(first, count):
                if type(self._tasks[i]) in self.growers:
                    self._admit(GrowRule(self.names[i], self._tasks[i]))
        at_s = None if self._added_s is None else self._added_s(editor.tasks_added)
        at_s = at_s or perf_counter()
        growth.added_s += [at_s] * (count - first)
        growth.firings.append(Firing(rule.name, at_s, range(first, count)))
        self._retire(rule)

    def _admit(self, rule: Any) -> None:
        """Add a rule to the pending ones; it is evaluated in its turn."""
        number, name = self._admitted, rule.name
        self._admitted = number + 1
        same = self._known[name] = self._known.get(name, 0) + 1
        opened = PendingRule(rule, name if same == 1 else f"{name} ({same})", number)
        self._open[number] = opened
        for tag in opened.adds:
            self.adders[tag] = self.adders.get(tag, 0) + 1
        for word in opened.reads:
            self._readers.setdefault(word, {})[number] = opened
            for task in (*self.by_tag.get(word, ()), self.index.get(word)):
                # Outputs of other tasks are held when they start.
                if task is not None and self._started[task]:
                    self._hold(opened, task)
        heappush(self._dirty, number)

    def _fails(self, rule: PendingRule, error: Exception) -> None:
        """Record that a rule failed, and close it."""
        self._failures += 1
        self._growth.unfired[rule.name] = f"it failed: {describe(error)}"
        self._leave(rule)
        self._halted = self._fail(rule.name, error) or self._halted

    def _close(self, rule: PendingRule) -> None:
        """Close a rule that can never fire."""
        failed = [i for i in rule.looked if type(i) is int and self.states[i] > SUCCEEDED]
        missing = self._missing(rule)
        if missing and not (failed or self._branched or self._log.errors or self._failures):
            self._fails(rule, self.unknown(missing[0]))
            return
        self._growth.unfired[rule.name] = self._why(rule)
        self._branched = self._branched or not (failed or missing)
        self._never_added.update(dict.fromkeys(missing, rule.name))
        if failed:
            # Rules that wait for its tasks keep waiting: the failure caused their absence.
            self._leave(rule)
        else:
            self._retire(rule)

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
        if self._watchers and len(self._open) <= 1:
            for key in [key for key in self._watchers if type(key) is tuple]:
                if key[0] in OF_NAMES or key[1] is None:
                    self._wake(key)

    def _leave(self, rule: PendingRule) -> None:
        """Remove a rule, and release the outputs that are kept for it."""
        del self._open[rule.number]
        for word in rule.reads:
            readers = self._readers[word]
            del readers[rule.number]
            if not readers:
                del self._readers[word]
        for number in rule.held:
            self._release(number)
        rule.held = []

    def _missing(self, rule: PendingRule) -> list[str]:
        """Return the names of missing tasks that a rule waits for."""
        return [key[1] for key in rule.looked if type(key) is tuple and key[0] == "name"]

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

    def _unmet(self) -> Iterable[tuple[str, GraphError]]:
        """Yield unfired rules that look like mistakes, and the error of each."""
        pending = [*self._open.values()]
        if self._limits.strict:
            unfired = {**self._growth.unfired, **{rule.name: self._why(rule) for rule in pending}}
            for name, why in unfired.items():
                yield name, GraphError(f"rule {name!r} never fired: {why}")
            return
        for rule in pending:
            tags = {key[1] for key in rule.looked if type(key) is tuple and key[0] in OF_TAGS}
            others = [other for other in pending if other is not rule and other.adds & tags]
            if others:
                yield (
                    rule.name,
                    GraphError(
                        f"rules wait for each other: {rule.name!r} waits until no more tasks "
                        f"tagged {min(tags & others[0].adds)!r} can be added, and "
                        f"{others[0].name!r}, which may add them, never fired"
                    ),
                )

    # Adding the tasks of a body: all of them, or nothing.

    def _add_tasks(self, rule: PendingRule, editor: GraphEditor) -> None:
        """Add the tasks of a body, if they are valid.

        Raises
        ------
        GraphError, DeclarationError, CostModelError
            If they are not; then nothing has changed.
        """
        names, tasks = list(editor.tasks_added), list(editor.tasks_added.values())
        self._check_tasks(rule, editor, tasks)
        check_limits(self._executor, editor.tasks_added)
        put = self._executor.put
        items = chain.from_iterable(editor.items.values())
        handles = [put(frames) for frames, _, _ in items] if editor.items else []
        contracts = self._reader.read_all(names, tasks)
        wiring = self._wiring
        first, slots = len(self.names), len(wiring.owner)
        try:
            if not editor.ordered:
                places = {name: place for place, name in enumerate(names)}
                names = self._sorted(editor, names)
                contracts = [contracts[places[name]] for name in names]
                tasks = [tasks[places[name]] for name in names]
            kinds = self._place(rule, editor, names, contracts)
            problems = [] if kinds <= self._fine else problems_of(wiring, contracts, {}, first)
            estimates, failed = estimates_of(names, tasks, self.config, first)
            problems += failed
            if problems:
                raise problems[0] if len(problems) == 1 else ValidationError(problems)
        except BaseException:
            wiring.cut(first, slots)
            for name in names:
                self.index.pop(name, None)
            raise
        # Nothing below is refused.
        self._fine |= kinds
        self._tasks.extend(tasks)
        self._contracts.extend(contracts)
        self._growth.estimates.update(estimates)
        self._extend_lists(first, editor, handles)
        self._link(first)
        self._admit_tags(editor.tags_added)

    def _check_tasks(self, rule: PendingRule, editor: GraphEditor, tasks: list[Task]) -> None:
        """Refuse tasks that the rule may not add."""
        grown = len(self.names) - self._wiring.given
        if grown + len(tasks) > self._limits.max_tasks:
            raise GraphError(
                f"rules may add {self._limits.max_tasks} tasks (Rules(max_tasks=...)), and this "
                f"one adds {len(tasks)} to {grown}; does it trigger itself?"
            )
        for tags in set(editor.tags_added.values()):
            _check_tags(rule, tags)
        if self.growers:
            for task in tasks:
                if type(task) in self.growers:
                    _check_tags(rule, task.adds)
        for name in self._never_added:
            if name in editor.tasks_added:
                raise GraphError(
                    f"task {name!r} is added too late: rule {self._never_added[name]!r}, which "
                    "waits for it, was closed when no other rule could add it"
                )

    def _sorted(self, editor: GraphEditor, names: list[str]) -> list[str]:
        """Return the new tasks in topological order."""
        inner: list[tuple[str, str]] = []
        for target, edges in editor.incoming.items():
            for source, _ in edges:
                where = f"edge {short_repr(source)} -> {short_repr(target)}"
                if source == target:
                    raise GraphError(f"{where}: a task cannot feed itself")
                if source in editor.tasks_added:
                    inner.append((source, target))
                elif source not in self.index:
                    raise GraphError(
                        f"{where}: there is no task {short_repr(source)}"
                        f"{did_you_mean(source, [*self.index, *names])}"
                    )
        return kahn_order(names, inner)

    def _place(
        self, rule: PendingRule, editor: GraphEditor, names: list[str], contracts: list[Contract]
    ) -> set[tuple[Any, ...]]:
        """Append all new tasks to the wiring, each after its predecessors.

        Returns
        -------
        set of tuple
            Their contracts, by identity, each with the inputs that arrive.
        """
        wiring, index, incoming = self._wiring, self.index, editor.incoming
        #: Tasks of maps that are not added in one step: the map, and the slot of the item.
        mapped: dict[str, tuple[Mapped, int]] = {}
        #: First task of each other map to the map, and the slot of the first item.
        whole: dict[str, tuple[Mapped, int]] = {}
        if editor.maps:
            first_items = {
                (feeder, field): wiring.add_items(index[feeder], field, len(encoded))
                for (feeder, field), encoded in editor.items.items()
            }
            for of_map in editor.maps.values():
                members, item = of_map.names, first_items[of_map.source, of_map.field]
                of_members = set(map(id, contracts[of_map.at : of_map.at + len(members)]))
                if editor.ordered and len(of_members) == 1 and incoming.keys().isdisjoint(members):
                    whole[members[0]] = of_map, item
                else:
                    mapped.update((name, (of_map, item + i)) for i, name in enumerate(members))
        checked: set[int] = set()
        kinds: set[tuple[Any, ...]] = set()
        number, count = 0, len(names)
        while number < count:
            name, contract = names[number], contracts[number]
            if name not in whole:
                edges, item_of = incoming.get(name, ()), mapped.get(name)
                fields = self._place_one(rule, name, contract, edges, item_of, checked)
                kinds.add((id(contract), *fields))
                number += 1
                continue
            of_map, item = whole[name]
            begin, members = len(wiring.names), of_map.names
            number += len(members)
            index.update(zip(members, range(begin, begin + len(members))))
            wiring.add_mapped(members, contract.outputs, index[of_map.source], item, of_map.into)
            kinds.add((id(contract), of_map.into))
        return kinds

    def _place_one(
        self,
        rule: PendingRule,
        name: str,
        contract: Contract,
        edges: Iterable[tuple[str, Any]],
        item: tuple[Mapped, int] | None,
        checked: set[int],
    ) -> list[str]:
        """Append a new task to the wiring; a task of a map with its item's slot.

        Parameters
        ----------
        checked
            Slots of older tasks whose edges have been checked; grows.

        Returns
        -------
        list of str
            Its inputs that arrive.
        """
        wiring, index, old = self._wiring, self.index, len(self.states)
        outputs, first_slot, inputs = wiring.outputs, wiring.first_slot, contract.inputs
        sources: dict[int, Any] = {}
        slots: list[int] = []
        fields: list[str] = []
        if item is not None:
            of_map, slot = item
            sources[index[of_map.source]] = ()
            slots.append(slot)
            fields.append(of_map.into)
        for source, spec in edges:
            number = index[source]
            declared = outputs[number]
            routes = self._matches.routes(source, name, spec, declared, inputs)
            before = sources.get(number)
            if before is None:
                sources[number] = routes
            else:
                if before or not routes:
                    check_parallel(source, name, before, routes, declared)
                sources[number] = before + routes
            first = first_slot[number]
            for position, field in routes:
                slot = first + position
                if number < old and slot not in checked:
                    self._check_kept(rule, number, position, "an edge carries outputs of")
                    checked.add(slot)
                slots.append(slot)
                fields.append(field)
        index[name] = len(wiring.names)
        if fields == inputs:
            # Tasks that are alike share one list.
            fields = inputs
        wiring.add_task(name, contract.outputs, [*sources], slots, fields)
        return fields

    def _extend_lists(self, first: int, editor: GraphEditor, handles: list[Any]) -> None:
        """Extend the lists of the round to the new tasks and slots."""
        log, wiring, uses = self._log, self._wiring, self._uses
        count = len(wiring.names) - first
        if handles:
            self._handles.extend(handles)
            sizes = chain.from_iterable(editor.items.values())
            for slot, (_, payload, length) in enumerate(sizes, len(log.wire_bytes)):
                log.wire_bytes.append(length)
                if payload != length:
                    log.payload_bytes[slot] = payload
        log.times += [None] * (6 * count)
        log.ran_on += [0] * count
        more = len(wiring.owner) - len(log.wire_bytes)
        log.wire_bytes += [0] * more
        self._handles.extend([None] * more)
        for slot in wiring.slots[wiring.first_input[first] :]:
            uses[slot] += 1

    def _link(self, first: int) -> None:
        """Enter new tasks as successors of their predecessors; skip those after a failure."""
        wiring, states = self._wiring, self.states
        after, sources, first_source = wiring.after, wiring.sources, wiring.first_source
        for name in wiring.names[first:]:
            # The integer that `index` holds: another would take 32 bytes, as in _admit_tags().
            i = self.index[name]
            left, state = 0, PENDING
            for source in sources[first_source[i] : first_source[i + 1]]:
                if source in after:
                    after[source].append(i)
                else:
                    after[source] = [i]
                    self._gain_successor(source)
                before = states[source]
                if not before:
                    left += 1
                elif before != SUCCEEDED:
                    state = SKIPPED
            self._keep.append(True)
            self._waiting.append(left)
            self._started.append(0)
            states.append(state)
            if state:
                self._log.skipped.add(i)
                self._slots.release(slot for _, slot in wiring.feeds(i))
            elif not left:
                heappush(self._ready, i)

    def _gain_successor(self, number: int) -> None:
        """Stop returning the outputs of a task that was an exit task until now."""
        if number in self._ends:
            self._ends.discard(number)
            self._release(number)
        elif self.names[number] not in self._asked:
            self._keep[number] = False
            self._outputs.pop(number, None)

    def _admit_tags(self, tags: Mapping[str, tuple[str, ...]]) -> None:
        """Enter new tasks under their tags, and wake the rules that wait for them."""
        first, watchers = len(self.tags), self._watchers
        names, unfinished = self.names[first:], self.unfinished
        if tags:
            self.tags += [tags.get(name, ()) for name in names]
            for i, words in zip(map(self.index.__getitem__, names), self.tags[first:]):
                for tag in words:
                    self.by_tag.setdefault(tag, []).append(i)
                    unfinished[tag] = unfinished.get(tag, 0) + (not self.states[i])
        else:
            self.tags += [()] * len(names)
        if watchers:
            new = (None, *chain.from_iterable(tags.values()))
            for key in watchers.keys() & {*product(OF_NAMES, names), *product(OF_TAGS, new)}:
                self._wake(key)


def _check_tags(rule: PendingRule, tags: Iterable[str]) -> None:
    for tag in tags:
        if tag not in rule.adds:
            raise GraphError(
                f"tag {tag!r} is not one that the rule may add: declare adds=[{tag!r}]"
            )
