"""Grown: the tasks of a growing graph in one round, and all that has an entry for each of them."""

from __future__ import annotations

from collections import deque
from heapq import heappop
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from dagprofiler.errors import GraphError, did_you_mean
from dagprofiler.views import PENDING, SKIPPED, SUCCEEDED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from dagprofiler.drafts import Draft
    from dagprofiler.executors.dispatching import Dispatcher
    from dagprofiler.executors.serial import SerialExecutor
    from dagprofiler.livewiring import LiveWiring
    from dagprofiler.pipeline import Contract
    from dagprofiler.readings import Growth, RoundLog
    from dagprofiler.task import Task

__all__ = ["Grown", "Space"]


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
        draft: Draft,
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

    def _take_items(self, draft: Draft, handles: list[Any]) -> None:
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
