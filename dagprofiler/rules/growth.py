"""GrowingGraph: what to run next in a round of a graph to which rules add tasks."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from time import perf_counter
from typing import Any

import numpy as np

from dagprofiler.config import Config
from dagprofiler.engine.contracts import ContractReader, problems_of
from dagprofiler.engine.log import Firing, Growth
from dagprofiler.engine.run import Round
from dagprofiler.engine.setup import check_limits, estimates_of
from dagprofiler.errors import (
    DeclarationError,
    GraphError,
    SerializationError,
    ValidationError,
    describe,
    did_you_mean,
    short_repr,
)
from dagprofiler.graph.edges import Matches, Route, check_parallel, edge_text
from dagprofiler.graph.wiring import Wiring
from dagprofiler.measure.pipeline import Contract
from dagprofiler.rules import Rules
from dagprofiler.rules.views import (
    ALL,
    FAILED,
    PENDING,
    SKIPPED,
    SUCCEEDED,
    GraphEditor,
    GraphSoFar,
    GraphView,
    GrowRule,
    NotYet,
    OpenRule,
)
from dagprofiler.task import grows

#: By the state of a task.
_WHAT_CAME_OF_IT = {PENDING: "had not ended", FAILED: "has failed", SKIPPED: "was skipped"}


class RuleQueue:
    """The rules of a round that may still fire, and which of them are to be evaluated.

    Attributes
    ----------
    open
        The rules that have neither fired nor been closed, by number.
    readers
        Name or tag to the number of open rules that may read outputs of its tasks.
    waiting
        Name or tag to the numbers of the rules that wait for a change of it; some of these may
        be closed.
    awake
        A heap of the numbers of the rules to evaluate; some of them may be closed.
    """

    def __init__(self) -> None:
        self.open: dict[int, OpenRule] = {}
        self.readers: dict[str, int] = {}
        self.waiting: dict[str, set[int]] = {}
        self.awake: list[int] = []
        self._admitted = 0
        self._names: dict[str, int] = {}

    def admit(self, rule: Any) -> OpenRule:
        """Add a rule, which is evaluated in its turn."""
        number, name = self._admitted, rule.name
        same = self._names[name] = self._names.get(name, 0) + 1
        opened = OpenRule(rule, name if same == 1 else f"{name} ({same})", number)
        self._admitted = number + 1
        self.open[number] = opened
        for word in opened.reads:
            self.readers[word] = self.readers.get(word, 0) + 1
        heappush(self.awake, number)
        return opened

    def close(self, rule: OpenRule) -> None:
        """Remove a rule; the last one left cannot wait for others any more."""
        del self.open[rule.number]
        for word in rule.reads:
            self.readers[word] -= 1
            if not self.readers[word]:
                del self.readers[word]
        if len(self.open) == 1:
            self._awaken(*self.open)

    def wait(self, rule: OpenRule) -> None:
        """Let a rule wait for a change of what it looked at."""
        for word in rule.words:
            self.waiting.setdefault(word, set()).add(rule.number)

    def wake(self, words: Iterable[str]) -> None:
        """Queue the rules that wait for a change of a name or a tag."""
        for word in words:
            for number in self.waiting.pop(word, ()):
                self._awaken(number)

    def _awaken(self, number: int) -> None:
        rule = self.open.get(number)
        if rule is not None and not rule.awake:
            rule.awake = True
            heappush(self.awake, number)

    def next_awake(self) -> OpenRule | None:
        """Remove and return the first rule to evaluate; None if there is none."""
        while self.awake:
            rule = self.open.get(heappop(self.awake))
            if rule is not None:
                rule.awake = False
                return rule
        return None


class GrowingGraph:
    """A graph to which rules add tasks, in one round.

    The run loop asks it for tasks that are ready, and tells it which ones ended.

    Parameters
    ----------
    given
        The initial graph.
    settings, reader, config
        The rules of the graph, the reader of contracts, and the parameters of the run.

    Attributes
    ----------
    wiring
        The graph, which grows.
    """

    def __init__(
        self, given: Wiring, settings: Rules, reader: ContractReader, config: Config
    ) -> None:
        self.wiring = given.growing()
        self._given = len(given.names)
        self._settings = settings
        self._reader = reader
        self._config = config
        self._growth = Growth({}, [0.0] * len(self.wiring.names))
        self._rules = RuleQueue()
        self._matches = Matches()
        #: What :func:`problems_of` remembers.
        self._wrong: dict[Any, bool] = {}
        #: For each task the number of its predecessors that have not succeeded.
        self._left: list[int] = []
        #: A heap of the numbers of the tasks that are ready.
        self._ready: list[int] = []
        self._running = 0
        #: Whether nothing starts any more.
        self._halted = False
        #: Names of the tasks whose outputs are returned whatever follows them.
        self._keep: frozenset[str] = frozenset()
        self._round: Round
        self._graph: GraphSoFar

    # Called by the run loop.

    def begin(self, current: Round) -> None:
        """Prepare the round, and evaluate all rules for the first time."""
        wiring, names = self.wiring, self.wiring.names
        self._round = current
        self._graph = GraphSoFar(current, self._config)
        # Estimates of tasks that another round added stay with it.
        estimates = current.run.estimates
        self._growth.estimates = {i: estimates[i] for i in estimates if i < len(names)}
        current.log.growth = self._growth
        self._keep = frozenset(current.run.setup.options.keep)
        current.slots.kept[:] = [name in self._keep for name in names]
        for i, task in enumerate(current.tasks):
            self._left.append(len(wiring.predecessors(i)))
            if not self._left[i]:
                heappush(self._ready, i)
            if task.tags:
                self._enter_tags(i, tuple(task.tags))
            if self._is_held(i):
                self._hold(i, 1)
        for rule in self._settings.rules:
            self._admit_rule(rule)
        for name, task in zip(names, current.tasks):
            if grows(type(task)):
                self._admit_rule(GrowRule(name, task))
        self._evaluate()

    def pop(self) -> int | None:
        """Remove and return the smallest number of a ready task; None if there is none."""
        if not self._ready and (self._running or not self._goes_on()):
            return None
        self._running += 1
        return heappop(self._ready)

    def done(self, number: int) -> None:
        """Mark a task as succeeded; its successors may become ready, and rules may fire."""
        self._running -= 1
        for target in self.wiring.after.get(number, ()):
            self._left[target] -= 1
            if not self._left[target]:
                heappush(self._ready, target)
        self._end(number, SUCCEEDED)
        if self._rules.awake:
            self._evaluate()

    def failed(self, number: int, skipped: Iterable[int], *, stops: bool) -> None:
        """Mark a task as failed, and the tasks that depend on it as skipped."""
        self._running -= 1
        self._halted = stops
        self._end(number, FAILED)
        for other in skipped:
            self._end(other, SKIPPED)
        if self._rules.awake:
            self._evaluate()

    def finish(self, *, ended: bool) -> None:
        """Complete the log of the round; always called once, also after a failure."""
        waiting = {rule.name: self._why(rule) for rule in self._rules.open.values()}
        unfired = self._growth.unfired
        unfired.update(waiting)
        if not ended:
            return
        self._decode_exits()
        results = self._round.results
        if not (results.errors or results.rule_failures):
            # What still waits now waits for each other.
            for name, why in (unfired if self._settings.strict else waiting).items():
                error = GraphError(f"rule {name!r} never fired: {why}")
                self._round.rule_failed(name, error)

    def _goes_on(self) -> bool:
        """Tell whether more tasks become ready, with none ready and none running.

        Closes the rules that wait for tasks which only other waiting rules could add; merges of
        what they would have added may then fire.
        """
        if not self._halted:
            for rule in [*self._rules.open.values()]:
                if any(self._is_missing(word) for word in rule.words):
                    self._give_up(rule)
            self._evaluate()
        return bool(self._ready)

    # Evaluating rules.

    def _evaluate(self) -> None:
        """Evaluate rules in their order until none is awake."""
        begun = perf_counter()
        try:
            while not self._halted:
                rule = self._rules.next_awake()
                if rule is None:
                    break
                try:
                    if self._holds(rule):
                        self._fire(rule)
                    elif self._is_settled(rule):
                        self._give_up(rule)
                    else:
                        self._rules.wait(rule)
                except Exception as error:  # noqa: BLE001  (users' code may raise anything)
                    self._fail(rule, error)
        finally:
            self._growth.rules_s += perf_counter() - begun

    def _holds(self, rule: OpenRule) -> bool:
        """Tell whether the predicate of a rule holds, and note what it looked at."""
        view = GraphView(self._graph, rule)
        rule.words, rule.missing = view.words, None
        try:
            answer = rule.rule.when(view)
        except NotYet as signal:
            rule.missing = signal.name
            return False
        if not isinstance(answer, (bool, np.bool_)):
            raise DeclarationError(
                f"its predicate returned {short_repr(answer)}, expected True or False"
            )
        return bool(answer)

    def _is_missing(self, word: str) -> bool:
        """Tell whether a word is neither the name of a task nor a tag."""
        return word not in self._graph.index and word not in self._graph.by_tag

    def _is_settled(self, rule: OpenRule) -> bool:
        """Tell whether nothing that the predicate of a rule looked at can change any more."""
        graph = self._graph
        for word in rule.words:
            number, tag = graph.index.get(word), graph.by_tag.get(word)
            if number is not None and graph.states[number] == PENDING:
                return False
            if tag is not None and (tag.unfinished or tag.adders > (word in rule.adds)):
                return False
            # Any other rule may add a task of that name.
            if number is None and tag is None and len(self._rules.open) > 1:
                return False
        return True

    def _fire(self, rule: OpenRule) -> None:
        """Call the body of a rule, and apply what it appends: all of it, or nothing."""
        growth, current = self._growth, self._round
        if len(growth.firings) >= self._settings.max_firings:
            raise GraphError(
                f"rules have fired {self._settings.max_firings} times, which is the limit "
                "(Rules(max_firings=...)); does the rule trigger itself?"
            )
        draft = GraphEditor(self._graph, rule)
        answer = rule.rule.then(draft)
        draft.ended = True
        if answer is not None:
            raise DeclarationError(f"its body returned {short_repr(answer)}, expected None")
        first = len(self.wiring.names)
        if draft.new_tasks:
            self._add_tasks(rule, draft)
        for new_rule in draft.new_rules:
            self._admit_rule(new_rule)
        at_s = None if current.added_s is None else current.added_s(draft.new_tasks)
        at_s = at_s or perf_counter()
        growth.added_s += [at_s] * len(draft.new_tasks)
        growth.firings.append(Firing(rule.name, at_s, range(first, len(self.wiring.names))))
        self._close(rule)

    def _admit_rule(self, rule: Any) -> None:
        """Open a rule, and keep the outputs of existing tasks that it reads."""
        for number in self._read_by(rule):
            if not self._is_held(number):
                self._hold(number, 1)
        for word in self._rules.admit(rule).adds:
            self._graph.tag(word).adders += 1

    # The ways for a rule to end.

    def _fail(self, rule: OpenRule, error: Exception) -> None:
        """Close a rule that failed."""
        self._close(rule, f"it failed: {describe(error)}", may_add=True)
        self._halted = self._round.rule_failed(rule.name, error) or self._halted

    def _give_up(self, rule: OpenRule) -> None:
        """Close a rule that can never fire.

        If it waits for a task, that name is wrong, unless a task failed or another rule has not
        fired, which may be why the task is missing.
        """
        if rule.missing is not None and not (self._growth.unfired or self._round.results.errors):
            hint = did_you_mean(rule.missing, self.wiring.names)
            self._fail(rule, GraphError(f"there is no task {rule.missing!r}{hint}"))
            return
        states = [self._state(word) for word in rule.words]
        # What its tasks would have added is missing because of the failure.
        self._close(rule, self._why(rule), may_add=FAILED in states or SKIPPED in states)

    def _close(self, rule: OpenRule, why: str | None = None, *, may_add: bool = False) -> None:
        """Close a rule.

        Parameters
        ----------
        why
            Why it did not fire; None if it did.
        may_add
            Whether rules that wait until no more tasks with its tags can come wait for ever.
        """
        self._rules.close(rule)
        for number in self._read_by(rule):
            if not self._is_held(number):
                self._hold(number, -1)
        if why is not None:
            self._growth.unfired[rule.name] = why
        if not may_add:
            for word in rule.adds:
                tag = self._graph.by_tag[word]
                tag.adders -= 1
                # The last one may itself wait until the others can add no more.
                if tag.adders <= 1:
                    self._rules.wake([word])

    def _state(self, word: str) -> int | None:
        """Return the state of a task; None if a word is not the name of one."""
        number = self._graph.index.get(word)
        return None if number is None else self._graph.states[number]

    def _why(self, rule: OpenRule) -> str:
        """Return why a rule has not fired."""
        if rule.missing is not None:
            return f"it still waited for task {rule.missing!r}"
        for word in rule.words:
            state = self._state(word)
            if state in (PENDING, FAILED, SKIPPED):
                return f"task {word!r} {_WHAT_CAME_OF_IT[state]}"
        for word in rule.words:
            tag = self._graph.by_tag.get(word)
            # Most rules wait for no tag; looking at all others for each would be quadratic.
            if tag is None or tag.adders <= (word in rule.adds):
                continue
            for other in self._rules.open.values():
                if other is not rule and word in other.adds:
                    return (
                        f"it waits until no more tasks tagged {word!r} can be added, and rule "
                        f"{other.name!r}, which may add them, never fired"
                    )
        return "its predicate did not hold"

    # Adding the tasks of a body.

    def _add_tasks(self, rule: OpenRule, draft: GraphEditor) -> None:
        """Add the tasks of a body, if they are valid.

        Raises
        ------
        GraphError, DeclarationError, CostModelError
            If they are not; then nothing has changed.
        """
        wiring, current = self.wiring, self._round
        first, first_slot, limit = len(wiring.names), len(wiring.owner), self._settings.max_tasks
        grown, tasks = first - self._given, [*draft.new_tasks.values()]
        if grown + len(tasks) > limit:
            raise GraphError(
                f"rules may add {limit} tasks (Rules(max_tasks=...)), and this one adds "
                f"{len(tasks)} to {grown}; does it trigger itself?"
            )
        valid = False
        try:
            contracts = self._wire(rule, draft)
            names = wiring.names[first:]
            check_limits(current.executor, names, tasks)
            problems = problems_of(wiring, contracts, {}, first, self._wrong)
            estimates, failed = estimates_of(names, tasks, self._config, first)
            problems += failed
            if problems:
                raise problems[0] if len(problems) == 1 else ValidationError(problems)
            valid = True
        finally:
            if not valid:
                wiring.cut(first, first_slot)
                for name in draft.new_tasks:
                    self._graph.index.pop(name, None)
        # From here on nothing is refused.
        self._growth.estimates.update(estimates)
        current.tasks.extend(tasks)
        current.contracts.extend(contracts)
        self._enter_slots(draft, first)
        for name in names:
            self._enter(name, draft.new_tags.get(name, ()))
        if self._rules.waiting:
            self._rules.wake({ALL, *names}.union(*draft.new_tags.values()))

    def _wire(self, rule: OpenRule, draft: GraphEditor) -> list[Contract]:
        """Add the tasks of a body to the wiring, each after its sources; return their contracts."""
        wiring, index = self.wiring, self._graph.index
        contracts = []
        first = len(wiring.names)
        slot_of = self._slots_of_items(draft) if draft.maps else {}
        for name, task in draft.new_tasks.items():
            contract = self._reader.read(name, task)
            contracts.append(contract)
            sources: dict[int, tuple[Route, ...]] = {}
            slots, fields = [], []
            if name in slot_of:
                slot, field = slot_of[name]
                slots.append(slot)
                fields.append(field)
                sources[wiring.owner[slot]] = ()
            for source, spec in draft.new_edges.get(name, ()):
                if source not in index:
                    raise self._no_source(draft, source, name)
                number = index[source]
                declared = wiring.outputs[number]
                routes = self._matches.routes(source, name, spec, declared, contract.inputs)
                if number in sources:
                    check_parallel(source, name, sources[number], routes, declared)
                sources[number] = sources.get(number, ()) + routes
                for position, field in routes:
                    slot = wiring.first_slot[number] + position
                    if number < first:
                        self._graph.check_kept(rule, number, slot, "an edge carries outputs of")
                    slots.append(slot)
                    fields.append(field)
            index[name] = len(wiring.names)
            # Tasks that are alike share one tuple.
            inputs = contract.inputs if (*fields,) == contract.inputs else (*fields,)
            wiring.add_task(name, contract.outputs, [*sources], slots, inputs)
        return contracts

    def _slots_of_items(self, draft: GraphEditor) -> dict[str, tuple[int, str]]:
        """Add the slots of the items of maps; return for each task its slot and its input."""
        slot_of = {}
        for items in draft.maps:
            source = self._graph.index[items.source]
            first = self.wiring.add_items(source, items.field, len(items.encoded))
            for slot, name in enumerate(items.names, first):
                slot_of[name] = slot, items.into
        return slot_of

    def _no_source(self, draft: GraphEditor, source: str, target: str) -> GraphError:
        """Return the error for an edge whose source is not there when its target is added."""
        if source == target:
            why = "a task cannot feed itself"
        elif source in draft.new_tasks:
            why = f"{source!r} is added after {target!r}; add the source of an edge first"
        else:
            why = f"there is no task {source!r}{did_you_mean(source, [*self._graph.index])}"
        return GraphError(f"{edge_text(source, target)}: {why}")

    def _enter_slots(self, draft: GraphEditor, first: int) -> None:
        """Enter the items of maps and the outputs of new tasks, and what takes them."""
        wiring, log, slots = self.wiring, self._round.log, self._round.slots
        for items in draft.maps:
            for handle, payload, length in items.encoded:
                if payload != length:
                    log.payload_bytes[len(slots.handles)] = payload
                slots.handles.append(handle)
                log.wire_bytes.append(length)
        names, first_output = wiring.names[first:], len(slots.handles)
        more = len(wiring.owner) - first_output
        slots.handles.extend([None] * more)
        log.extend(len(names), more)
        slots.kept.extend([name in self._keep for name in names])
        for slot in range(first_output, len(wiring.owner)):
            # No task follows so far.
            slots.uses[slot] += 1
        for slot in wiring.slots[wiring.first_input[first] :]:
            slots.uses[slot] += 1

    def _enter(self, name: str, tags: tuple[str, ...]) -> None:
        """Enter a new task behind its predecessors; skip it if one of them failed."""
        wiring, states = self.wiring, self._graph.states
        i = self._graph.index[name]
        left, state = 0, PENDING
        for source in wiring.predecessors(i):
            if source in wiring.after:
                wiring.after[source].append(i)
            else:
                wiring.after[source] = [i]
                if not self._is_held(source):
                    self._hold(source, -1)
            if states[source] == PENDING:
                left += 1
            elif states[source] != SUCCEEDED:
                state = SKIPPED
        states.append(state)
        self._left.append(left)
        if state == SKIPPED:
            self._round.log.note(i, skipped=True)
            self._round.slots.release(slot for _, slot in wiring.feeds(i))
        elif not left:
            heappush(self._ready, i)
        if tags:
            self._enter_tags(i, tags)

    def _enter_tags(self, i: int, tags: tuple[str, ...]) -> None:
        """Enter a task under its tags."""
        self._graph.tags[i] = tags
        for word in tags:
            tag = self._graph.tag(word)
            tag.tasks.append(i)
            tag.unfinished += self._graph.states[i] == PENDING

    def _end(self, number: int, state: int) -> None:
        """Set the final state of a task, and wake the rules that wait for it."""
        graph = self._graph
        graph.states[number] = state
        tags = graph.tags.get(number, ())
        for word in tags:
            graph.by_tag[word].unfinished -= 1
        self._rules.wake((graph.names[number], *tags))

    # The outputs that are kept: those that other tasks take, as in any graph, and beside these
    # the outputs of tasks that no other follows so far, or that a rule may read.

    def _is_held(self, number: int) -> bool:
        """Tell whether the outputs of a task are kept even if no other task takes them."""
        graph, readers = self._graph, self._rules.readers
        return (
            number not in self.wiring.after
            or graph.names[number] in readers
            or not readers.keys().isdisjoint(graph.tags.get(number, ()))
        )

    def _read_by(self, rule: Any) -> set[int]:
        """Return the tasks whose outputs a rule may read."""
        graph, numbers = self._graph, set()
        for word in rule.reads:
            if word in graph.index:
                numbers.add(graph.index[word])
            if word in graph.by_tag:
                numbers.update(graph.by_tag[word].tasks)
        return numbers

    def _hold(self, number: int, more: int) -> None:
        """Count one more use of the outputs of a task, or one less; drop them after the last."""
        wiring, slots = self.wiring, self._round.slots
        first = wiring.first_slot[number]
        for slot in range(first, first + len(wiring.outputs[number])):
            slots.uses[slot] = uses = slots.uses[slot] + more
            if not uses:
                slots.handles[slot] = None

    def _decode_exits(self) -> None:
        """Return the outputs of the tasks that no other task follows."""
        wiring, current, outputs = self.wiring, self._round, self._round.results.outputs
        handles = current.slots.handles
        for i, state in enumerate(self._graph.states):
            if state != SUCCEEDED or i in wiring.after or i in outputs:
                continue
            values: dict[str, Any] = {}
            for slot, field in enumerate(wiring.outputs[i], wiring.first_slot[i]):
                try:
                    values[field] = current.executor.value(
                        handles[slot], current.contracts[i].decode
                    )
                except Exception as error:
                    raise SerializationError(
                        f"output {field!r} of task {wiring.names[i]!r} cannot be decoded: "
                        f"{describe(error)}"
                    ) from error
                handles[slot] = None
            outputs[i] = values
