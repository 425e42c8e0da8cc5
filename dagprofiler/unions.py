"""The graph of several rounds, in each of which it grew anew, and their logs in its numbers."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

from dagprofiler.graph import kahn_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dagprofiler.livewiring import LiveWiring
    from dagprofiler.readings import Growth, RoundLog

__all__ = ["renumber", "united"]


def united(first: LiveWiring, second: LiveWiring) -> LiveWiring:
    """Return the wiring of all tasks and edges of two graphs that grew from the same one.

    Where all of the second is in the first, that is the first itself. A task
    that has other outputs in the second has all of them.

    Raises
    ------
    CycleError
        If tasks come the other way round in the second.
    """
    if second.same_as(first):
        return first
    outputs: dict[str, dict[str, None]] = {}
    items: dict[str, dict[str, None]] = {}
    #: Task to (source, field) to the input that it feeds; to its predecessors.
    feeds: dict[str, dict[tuple[str, str], str]] = {}
    sources: dict[str, dict[str, None]] = {}
    for one in (first, second):
        names = one.names
        for i, name in enumerate(names):
            outputs.setdefault(name, {}).update(dict.fromkeys(one.outputs[i]))
            sources.setdefault(name, {}).update((names[s], None) for s in one.predecessors(i))
            fed = feeds.setdefault(name, {})
            for target_input, slot in one.feeds(i):
                fed.setdefault((names[one.owner[slot]], _field(one, slot)), target_input)
        for slot, item in one.items.items():
            items.setdefault(names[one.owner[slot]], {})[item] = None
    union = _laid_out(first, outputs, items, feeds, sources)
    return first if union.same_as(first) else union


def _laid_out(
    first: LiveWiring,
    outputs: dict[str, dict[str, None]],
    items: dict[str, dict[str, None]],
    feeds: dict[str, dict[tuple[str, str], str]],
    sources: dict[str, dict[str, None]],
) -> LiveWiring:
    """Return the wiring that says so."""
    wiring = copy(first)
    given = first.names[: first.given]
    after: dict[str, list[str]] = {}
    for name in outputs.keys() - given:
        for source in sources[name].keys() - given:
            after.setdefault(source, []).append(name)
    # Each behind its predecessors in both.
    rest = kahn_order(list(outputs.keys() - given), after)
    wiring.names = names = [*given, *rest]
    index = {name: i for i, name in enumerate(names)}
    wiring.outputs = [list(outputs[name]) for name in names]
    wiring.first_slot, wiring.owner, wiring.items, wiring.after = [], [], {}, {}
    slots: dict[tuple[str, str], int] = {}
    for i, name in enumerate(names):
        wiring.first_slot.append(len(wiring.owner))
        for output in wiring.outputs[i]:
            slots[name, output] = len(wiring.owner)
            wiring.owner.append(i)
    for name, of_source in items.items():
        for item in of_source:
            slots[name, item] = len(wiring.owner)
            wiring.items[len(wiring.owner)] = item
            wiring.owner.append(index[name])
    wiring.uses = [0] * len(wiring.owner)
    wiring.inputs, wiring.slots, wiring.first_input = [], [], [0]
    wiring.sources, wiring.first_source = [], [0]
    for i, name in enumerate(names):
        wiring.inputs += feeds[name].values()
        wiring.slots += map(slots.__getitem__, feeds[name])
        wiring.first_input.append(len(wiring.inputs))
        numbers = sorted(index[source] for source in sources[name])
        for number in numbers:
            wiring.after.setdefault(number, []).append(i)
        wiring.sources += numbers
        wiring.first_source.append(len(wiring.sources))
    for slot in wiring.slots:
        wiring.uses[slot] += 1
    wiring.forget()
    return wiring


def _field(wiring: LiveWiring, slot: int) -> str:
    source = wiring.owner[slot]
    return wiring.field(source, slot - wiring.first_slot[source])


def renumber(one: RoundLog, new: LiveWiring) -> list[int] | None:
    """Bring the log of a round to the numbers of a wiring that holds all of the round's graph.

    Returns
    -------
    list of int or None
        The new number of each task; None if all are the same.
    """
    growth: Any = one.growth
    old: LiveWiring = growth.wiring
    if new is old:
        return None
    index = {name: i for i, name in enumerate(new.names)}
    tasks = [index[name] for name in old.names]
    known = {(owner, _field(new, slot)): slot for slot, owner in enumerate(new.owner)}
    slots = [known[tasks[owner], _field(old, slot)] for slot, owner in enumerate(old.owner)]
    count = len(new.names)

    one.times = [
        moment
        for six in _moved([one.times_of(i) for i in range(len(tasks))], tasks, count, [None] * 6)
        for moment in six
    ]
    one.ran_on = _moved(one.ran_on, tasks, count, 0)
    one.wire_bytes = _moved(one.wire_bytes, slots, len(new.owner), 0)
    one.payload_bytes = {slots[slot]: size for slot, size in one.payload_bytes.items()}
    for name in ("undeclared_bytes", "errors", "meters", "digests", "attempts", "spans"):
        setattr(one, name, {tasks[i]: value for i, value in getattr(one, name).items()})
    one.skipped = {tasks[i] for i in one.skipped}
    growth.empty = set(range(len(new.owner))).difference(
        slots[slot] for slot in range(len(slots)) if slot not in growth.empty
    )
    if one.encode_s:
        one.encode_s = _moved(one.encode_s, slots, len(new.owner), None)
        one.decode_s = _moved(one.decode_s, _places(old, new, tasks, slots), len(new.slots), None)
    _renumber_growth(growth, new, tasks)
    return tasks


def _renumber_growth(growth: Growth, new: LiveWiring, tasks: list[int]) -> None:
    old, count = growth.wiring, len(new.names)
    growth.estimates = {tasks[i]: value for i, value in growth.estimates.items()}
    growth.added_s = _moved(growth.added_s, tasks, count, 0.0)
    growth.firings = [
        firing._replace(tasks=[tasks[i] for i in firing.tasks]) for firing in growth.firings
    ]
    absent = {tasks[i] for i in growth.absent}
    growth.absent = absent.union(range(count)).difference(
        task for i, task in enumerate(tasks) if i not in growth.absent
    )
    here = {(tasks[source], tasks[target]) for source, target, _ in old.edges()}
    here.difference_update((tasks[s], tasks[t]) for s, t in growth.lacking)
    growth.lacking = {
        (source, target)
        for source, target, _ in new.edges()
        if (source, target) not in here and not growth.absent.intersection((source, target))
    }
    growth.wiring = new


def _places(old: LiveWiring, new: LiveWiring, tasks: list[int], slots: list[int]) -> list[int]:
    """Return where each input of a wiring is in another."""
    places = []
    for i, task in enumerate(tasks):
        begin, end = new.first_input[task : task + 2]
        place = dict(zip(new.slots[begin:end], range(begin, end)))
        places += [place[slots[slot]] for _, slot in old.feeds(i)]
    return places


def _moved(values: Sequence[Any], places: Sequence[int], count: int, missing: Any) -> list[Any]:
    """Return a list of `count` values, each of those given at its new place."""
    moved = [missing] * count
    for place, value in zip(places, values):
        moved[place] = value
    return moved
