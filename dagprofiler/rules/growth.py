"""GrowingGraph: what to run next in a round of a graph to which rules add tasks."""

from __future__ import annotations

from collections import defaultdict
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
    ValidationError,
    describe,
    frames_of,
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
    NotYetError,
    OpenRule,
)
from dagprofiler.task import grows

#: States of a task for which a rule may wait without end, in words.
_STATE_IN_WORDS = {PENDING: "had not ended", FAILED: "has failed", SKIPPED: "was skipped"}


class RuleQueue:
    """The rules of a round that may still fire, and which of them are to be evaluated.

    Attributes
    ----------
    open
        The rules that have neither fired nor been closed, by number.
    readers
        Word to the number of open rules that may read outputs of its tasks.
    waiting
        Word to the rules that wait for a change of it; some of these may be closed.
    awake
        A heap of the rules to evaluate, after their numbers; some of them may be closed.
    """

    def __init__(self) -> None:
        self.open: dict[int, OpenRule] = {}
        self.readers: defaultdict[str, int] = defaultdict(int)
        self.waiting: defaultdict[str, set[OpenRule]] = defaultdict(set)
        self.awake: list[tuple[int, OpenRule]] = []
        self._admitted = 0
        #: Name to the number of rules of that name so far.
        self._copies: defaultdict[str, int] = defaultdict(int)

    def admit(self, rule: Any) -> OpenRule:
        """Add a rule, which neither waits nor is queued for evaluation yet."""
        self._admitted += 1
        self._copies[rule.name] += 1
        copies = self._copies[rule.name]
        name = rule.name if copies == 1 else f"{rule.name} ({copies})"
        opened = OpenRule(rule, name, self._admitted)
        self.open[opened.number] = opened
        return opened

    def wait(self, rule: OpenRule) -> None:
        """Let a rule wait for a change of what it looked at."""
        for word in rule.words:
            self.waiting[word].add(rule)

    def wake(self, words: Iterable[str]) -> None:
        """Queue the rules that wait for a change of a name or a tag."""
        for word in words:
            for rule in self.waiting.pop(word, ()):
                if rule.number in self.open and not rule.awake:
                    self.queue(rule)

    def queue(self, rule: OpenRule) -> None:
        """Queue a rule for evaluation in its turn."""
        rule.awake = True
        heappush(self.awake, (rule.number, rule))


class GrowingGraph:
    """A graph to which rules add tasks, in one round.

    The run loop asks it for tasks that are ready, and tells it which ones ended.

    Parameters
    ----------
    graph
        The graph as it was declared.
    rules, reader, config
        The rules of the graph, the reader of contracts, and the parameters of the run.

    Attributes
    ----------
    wiring
        The graph, which grows.
    """

    def __init__(self, graph: Wiring, rules: Rules, reader: ContractReader, config: Config) -> None:
        self.wiring = graph.growing()
        self._settings = rules
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
        #: Whether no rule is evaluated any more.
        self._halted = False
        self._round: Round
        self._graph: GraphSoFar

    # Called by the run loop.

    def begin(self, current: Round) -> None:
        """Prepare the round, and evaluate all rules for the first time."""
        wiring, names = self.wiring, self.wiring.names
        self._round = current
        self._graph = GraphSoFar(current, self._config)
        # Without the estimates of tasks that earlier rounds added.
        estimates = current.run_log.estimates
        self._growth.estimates = {i: estimates[i] for i in estimates if i < len(names)}
        current.log.growth = self._growth
        for i, task in enumerate(current.tasks):
            self._left.append(len(wiring.predecessors(i)))
            if not self._left[i]:
                heappush(self._ready, i)
            if task.tags:
                self._enter_tags(i, tuple(task.tags))
        # The end of the run uses the outputs of a task as long as no task follows.
        self._use([i for i in range(len(names)) if i not in wiring.after], 1)
        for rule in self._settings.rules:
            self._admit_rule(rule)
        for name, task in zip(names, current.tasks):
            if grows(type(task)):
                self._admit_rule(GrowRule(name, task))
        self._evaluate()

    def pop(self) -> int | None:
        """Remove and return the smallest number of a ready task; None if there is none."""
        if not self._ready and (self._running or not self._continues()):
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
        self._evaluate()

    def failed(self, number: int, skipped: Iterable[int], *, stops: bool) -> None:
        """Mark a task as failed, and the tasks that depend on it as skipped."""
        self._running -= 1
        self._halted = stops
        self._end(number, FAILED)
        for other in skipped:
            self._end(other, SKIPPED)
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
            # No task runs any more, so these rules wait for each other.
            for name, why in (unfired if self._settings.strict else waiting).items():
                self._round.rule_failed(name, GraphError(f"rule {name!r} never fired: {why}"))

    def _continues(self) -> bool:
        """Close rules that cannot fire, evaluate the others, and tell whether a task is ready.

        Called when no task is ready or running. Only rules that wait themselves could still add
        tasks, so one that looked at a missing name, or at all tasks, is closed. Others, which wait
        until no more tasks with its tags can come, may then fire.
        """
        if not self._halted:
            for rule in [*self._rules.open.values()]:
                if not all(self._graph.has(word) for word in rule.words):
                    self._give_up(rule)
            self._evaluate()
        return bool(self._ready)

    # Evaluating rules.

    def _evaluate(self) -> None:
        """Evaluate rules in their order until none is awake."""
        awake = self._rules.awake
        if not awake:
            return
        begun = perf_counter()
        try:
            while awake and not self._halted:
                number, rule = heappop(awake)
                if number not in self._rules.open:
                    continue
                rule.awake = False
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
        except NotYetError:
            return False
        if not isinstance(answer, (bool, np.bool_)):
            what = f"its predicate returned {short_repr(answer)}"
            raise DeclarationError(f"{what}, expected True or False")
        return bool(answer)

    def _is_settled(self, rule: OpenRule) -> bool:
        """Tell whether nothing that the predicate of a rule looked at can change any more."""
        graph = self._graph
        for word in rule.words:
            # Another rule may add a task of a name that is missing.
            is_missing = not graph.has(word)
            if graph.state(word) == PENDING or (is_missing and len(self._rules.open) > 1):
                return False
            tag = graph.by_tag.get(word)
            if graph.can_come(word, rule) or (tag is not None and tag.unfinished):
                return False
        return True

    def _fire(self, rule: OpenRule) -> None:
        """Call the body of a rule, and apply what it appends: all of it, or nothing."""
        growth, current = self._growth, self._round
        most = self._settings.max_firings
        if len(growth.firings) >= most:
            why = f"rules have fired {most} times, which is the limit (Rules(max_firings=...))"
            raise GraphError(f"{why}; does the rule trigger itself?")
        draft = GraphEditor(self._graph, rule)
        rule.rule.then(draft)
        draft.ended = True
        first = len(self.wiring.names)
        if draft.new_tasks:
            self._add_tasks(rule, draft, first)
        added = range(first, len(self.wiring.names))
        for new_rule in draft.new_rules:
            self._admit_rule(new_rule)
        at_s = None if current.added_s is None else current.added_s(draft.new_tasks)
        at_s = at_s or perf_counter()
        growth.added_s += [at_s] * len(added)
        growth.firings.append(Firing(rule.name, at_s, added))
        self._close(rule)

    def _admit_rule(self, rule: Any) -> None:
        """Open a rule, and keep the outputs of existing tasks that it reads."""
        opened = self._rules.admit(rule)
        if rule.needs and self._graph.state(rule.needs[0]) == PENDING:
            # Until that task ends, the predicate cannot hold.
            opened.words = {rule.needs[0]: None}
            self._rules.wait(opened)
        else:
            self._rules.queue(opened)
        for word in opened.reads:
            self._rules.readers[word] += 1
            self._use(self._graph.called(word), 1)
        for word in opened.adds:
            self._graph.by_tag[word].adders += 1

    # The ways for a rule to end.

    def _fail(self, rule: OpenRule, error: Exception) -> None:
        """Close a rule that failed."""
        place = "".join(f" ({at['file']}:{at['line']})" for at in frames_of(error)[-1:])
        self._close(rule, f"it failed: {describe(error)}{place}", may_add=True)
        self._halted = self._round.rule_failed(rule.name, error) or self._halted

    def _give_up(self, rule: OpenRule) -> None:
        """Close a rule that can never fire.

        If it waits for a task, that name is wrong, unless a task failed or another rule has not
        fired, which may be why the task is missing.
        """
        if rule.missing is not None and not (self._growth.unfired or self._round.results.errors):
            self._fail(rule, GraphError(self._graph.no_task(rule.missing)))
            return
        states = [self._graph.state(word) for word in rule.words]
        # What its tasks would have added is missing because of the failure.
        self._close(rule, self._why(rule), may_add=FAILED in states or SKIPPED in states)

    def _close(self, rule: OpenRule, why: str | None = None, *, may_add: bool = False) -> None:
        """Close a rule.

        Parameters
        ----------
        why
            Why it did not fire; None if it did.
        may_add
            Whether its tags stay open: rules that wait for the last task with one never fire then.
        """
        del self._rules.open[rule.number]
        if len(self._rules.open) == 1:
            # No other rule can add what the last one waits for.
            (last,) = self._rules.open.values()
            if last.missing is not None:
                self._rules.wake([last.missing])
        for word in rule.reads:
            self._rules.readers[word] -= 1
            self._use(self._graph.called(word), -1)
        if why is not None:
            self._growth.unfired[rule.name] = why
        if not may_add:
            for word in rule.adds:
                tag = self._graph.by_tag[word]
                tag.adders -= 1
                # The last one may itself wait until the others can add no more.
                if tag.adders <= 1:
                    self._rules.wake([word])

    def _why(self, rule: OpenRule) -> str:
        """Return why a rule has not fired."""
        if rule.missing is not None:
            return f"it still waited for task {rule.missing!r}"
        for word in rule.words:
            state = self._graph.state(word)
            if state in _STATE_IN_WORDS:
                return f"task {word!r} {_STATE_IN_WORDS[state]}"
            if self._graph.can_come(word, rule):
                return f"another rule that may add tasks tagged {word!r} did not fire"
        return "its predicate did not hold"

    # Adding the tasks of a body.

    def _add_tasks(self, rule: OpenRule, draft: GraphEditor, first: int) -> None:
        """Add the tasks of a body, numbered from `first` on, if they are valid.

        Raises
        ------
        GraphError, DeclarationError, CostModelError
            If they are not; then nothing has changed.
        """
        wiring, current, first_slot = self.wiring, self._round, len(self.wiring.owner)
        tasks, accepted = [*draft.new_tasks.values()], False
        try:
            contracts = self._wire(rule, draft, first)
            names = wiring.names[first:]
            check_limits(current.run_log.setup.options.executor, names, tasks)
            estimates, failed = estimates_of(names, tasks, self._config, first)
            problems = [*problems_of(wiring, contracts, {}, first, self._wrong), *failed]
            if problems:
                raise problems[0] if len(problems) == 1 else ValidationError(problems)
            accepted = True
        finally:
            if not accepted:
                wiring.cut(first, first_slot)
                for name in draft.new_tasks:
                    self._graph.index.pop(name, None)
        self._growth.estimates.update(estimates)
        current.tasks.extend(tasks)
        current.contracts.extend(contracts)
        self._enter_slots(draft, first)
        for i, name in enumerate(names, first):
            self._enter(i, draft.new_tags[name])
        if self._rules.waiting:
            self._rules.wake({ALL, *names}.union(*draft.new_tags.values()))

    def _wire(self, rule: OpenRule, draft: GraphEditor, first: int) -> list[Contract]:
        """Add the tasks of a body to the wiring, each after its sources; return their contracts."""
        wiring, index = self.wiring, self._graph.index
        contracts = []
        item_of: dict[str, list[tuple[int, str]]] = {}
        for items in draft.maps:
            slot = wiring.add_items(index[items.source], items.field, len(items.encoded))
            item_of.update((name, [(i, items.into)]) for i, name in enumerate(items.names, slot))
        for i, (name, task) in enumerate(draft.new_tasks.items(), first):
            contract = self._reader.read(name, task)
            contracts.append(contract)
            # The slot of each value that arrives, and the input that takes it.
            feeds = item_of.get(name, [])
            sources: dict[int, tuple[Route, ...]] = {}
            for slot, _ in feeds:
                sources[wiring.owner[slot]] = ()
            for source, spec in draft.new_edges[name]:
                number = index.get(source)
                if number is None:
                    why = self._graph.no_task(source)
                    if source in draft.new_tasks:
                        why = "the source must be added before the target"
                    raise GraphError(f"{edge_text(source, name)}: {why}")
                declared = wiring.outputs[number]
                routes = self._matches.routes(source, name, spec, declared, contract.inputs)
                if number in sources:
                    check_parallel(source, name, sources[number], routes, declared)
                sources[number] = sources.get(number, ()) + routes
                for position, field in routes:
                    slot = wiring.first_slot[number] + position
                    if number < first:
                        self._graph.check_kept(rule, number, slot)
                    feeds.append((slot, field))
            index[name] = i
            slots, inputs = zip(*feeds) if feeds else ((), ())
            if inputs == contract.inputs:
                # Tasks that are alike share one tuple.
                inputs = contract.inputs
            wiring.add_task(name, contract.outputs, [*sources], slots, inputs)
        return contracts

    def _enter_slots(self, draft: GraphEditor, first: int) -> None:
        """Enter the items of maps and the outputs of new tasks, and what takes them."""
        wiring, log, slots = self.wiring, self._round.log, self._round.slots
        for items in draft.maps:
            for handle, payload, length in items.encoded:
                if payload != length:
                    log.payload_bytes[len(slots.handles)] = payload
                slots.handles.append(handle)
                log.wire_bytes.append(length)
        names, first_slot = wiring.names[first:], len(slots.handles)
        more = len(wiring.owner) - first_slot
        slots.extend(names, more)
        log.extend(len(names), more)
        # The end of the run holds them, as no task follows so far.
        slots.uses[first_slot:] = [1] * more
        for slot in wiring.slots[wiring.first_input[first] :]:
            slots.uses[slot] += 1

    def _enter(self, i: int, tags: tuple[str, ...]) -> None:
        """Enter a new task behind its predecessors; skip it if one of them failed."""
        wiring, graph = self.wiring, self._graph
        left, state = 0, PENDING
        for source in wiring.predecessors(i):
            if source in wiring.after:
                wiring.after[source].append(i)
            else:
                wiring.after[source] = [i]
                self._use([source], -1)
            if graph.states[source] == PENDING:
                left += 1
            elif graph.states[source] != SUCCEEDED:
                state = SKIPPED
        graph.states.append(state)
        self._left.append(left)
        if tags:
            self._enter_tags(i, tags)
        for word in (graph.names[i], *tags):
            if word in self._rules.readers:
                self._use([i], self._rules.readers[word])
        if state == SKIPPED:
            self._round.log.note(i, skipped=True)
            self._round.slots.release(slot for _, slot in wiring.feeds(i))
        elif not left:
            heappush(self._ready, i)

    def _enter_tags(self, i: int, tags: tuple[str, ...]) -> None:
        """Enter a task under its tags."""
        self._graph.tags[i] = tags
        for word in tags:
            tag = self._graph.by_tag[word]
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

    def _use(self, numbers: Iterable[int], more: int) -> None:
        """Add `more` uses, by rules or the end of the run, to outputs of tasks; drop those at 0."""
        outputs, first_slot = self.wiring.outputs, self.wiring.first_slot
        uses, handles = self._round.slots.uses, self._round.slots.handles
        for number in numbers:
            for slot, _ in enumerate(outputs[number], first_slot[number]):
                uses[slot] = left = uses[slot] + more
                if not left:
                    handles[slot] = None

    def _decode_exits(self) -> None:
        """Return the outputs of the tasks that no other task follows."""
        wiring, outputs = self.wiring, self._round.results.outputs
        for i, state in enumerate(self._graph.states):
            name = wiring.names[i]
            if state == SUCCEEDED and i not in wiring.after and name not in outputs:
                slots = enumerate(wiring.outputs[i], wiring.first_slot[i])
                outputs[name] = {field: self._graph.value(i, slot) for slot, field in slots}
