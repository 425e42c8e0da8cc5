"""DynamicGraph: a graph that rules extend while it runs; and the views through which they see it.

:class:`GraphView` is for predicates, :class:`GraphEditor` for bodies.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import chain, product
from time import perf_counter
from typing import Any, NamedTuple, Union

from dagprofiler._util.checks import boolean, integer
from dagprofiler.config import Config
from dagprofiler.engine.contracts import ContractReader, check_names, check_task, problems_of
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
from dagprofiler.graph.edges import Matches, check_parallel, edge_text, field_problem
from dagprofiler.graph.wiring import Wiring
from dagprofiler.measure.pipeline import Contract, encoded_size
from dagprofiler.task import Task, check_tags, grows, instance_of

#: A task by its name, or as a view of it.
Named = Union[str, "TaskView"]


@dataclass(frozen=True)
class Rules:
    """Rules of a graph, and the settings that they share.

    Parameters
    ----------
    rules
        The rules, evaluated in this order.
    strict
        Whether a rule that never fires is an error.
    max_tasks, max_firings
        How many tasks rules may add, and how often they may fire, in one
        round; these limits end rules that trigger themselves.
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
        boolean("Rules: strict", self.strict, error=DeclarationError)
        for name in ("max_tasks", "max_firings"):
            limit = integer(f"Rules: {name}", getattr(self, name), error=DeclarationError)
            object.__setattr__(self, name, limit)


def as_rules(rules: Any) -> Rules:
    """Return the argument of ``DAG(rules=...)`` as Rules, or raise a DeclarationError."""
    if not isinstance(rules, (Rules, Iterable)) or isinstance(rules, (str, Mapping)):
        raise DeclarationError(f"rules must be a list of rules, got {short_repr(rules)}")
    checked: Rules = rules if isinstance(rules, Rules) else Rules(rules)
    for rule in checked.rules:
        check_rule(rule)
    return checked


def check_rule(rule: Any) -> None:
    """Raise a DeclarationError unless `rule` is a rule."""
    if not (callable(getattr(rule, "when", None)) and callable(getattr(rule, "then", None))):
        raise DeclarationError(f"rules: expected a Rule, got {short_repr(rule)}")


class PendingRule:
    """A rule that may still fire in a round.

    Attributes
    ----------
    rule
        The rule itself.
    name
        Its unique name; the second rule of a name is ``name (2)``.
    number
        Its place in the order in which rules are evaluated.
    adds, reads
        Tags that it may add; names and tags of the tasks whose outputs it reads.
    held
        Tasks whose outputs are kept for it.
    looked
        What its predicate looked at: task numbers, and (kind, tag or name).
    waits, woken
        Whether it has not fired, and whether it is queued for evaluation.
    """

    def __init__(self, rule: Any, name: str, number: int) -> None:
        self.rule = rule
        self.name = name
        self.number = number
        self.adds = frozenset(rule.adds)
        self.reads = frozenset(rule.reads)
        self.held: list[int] = []
        self.looked: dict[Any, None] = {}
        self.waits = self.woken = True


class GrowRule:
    """The rule of a task that defines ``grow()``.

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
        return have_succeeded(self.reads, graph)


PENDING, SUCCEEDED, FAILED, SKIPPED = range(4)
#: Names of the states, by number.
STATES = ("pending", "succeeded", "failed", "skipped")

_NUMBER = re.compile(r"\[(\d+)\]")


class NotYet(BaseException):
    """A predicate looked at a task or an output that does not exist yet; internal."""


def natural(name: str) -> list[Any]:
    """Return a sort key for a name: numbers in brackets count by their value."""
    start, _, rest = name.partition("[")
    number = rest[:-1]
    if number.isdecimal() and rest[-1] == "]":
        # Most are of this form.
        return [start, int(number), ""]
    parts: list[Any] = _NUMBER.split(name)
    parts[1::2] = map(int, parts[1::2])
    return parts


class TaskView:
    """A task of a growing graph, as rules see it.

    Attributes
    ----------
    name
        Its name in the graph.
    """

    __slots__ = ("_view", "name")

    def __init__(self, view: GraphView, name: str) -> None:
        self._view = view
        self.name = name

    def __repr__(self) -> str:
        return f"<task {self.name!r}>"

    @property
    def tags(self) -> tuple[str, ...]:
        """Its tags."""
        return self._view._tags(self.name)  # noqa: SLF001  (same module, as all below)

    @property
    def state(self) -> str:
        """``"pending"`` until the task ends; ``"succeeded"``, ``"failed"`` or ``"skipped"``."""
        return STATES[self._view._state(self.name)]  # noqa: SLF001

    @property
    def succeeded(self) -> bool:
        """Whether the task has ended without an error."""
        return self._view._state(self.name) == SUCCEEDED  # noqa: SLF001

    @property
    def ended(self) -> bool:
        """Whether the task has succeeded, failed or been skipped."""
        return self._view._state(self.name) != PENDING  # noqa: SLF001

    def output(self, field: str) -> Any:
        """Return a copy of an output of the task.

        A predicate that calls this before the task has succeeded does not hold.

        Raises
        ------
        GraphError
            If the task has no such output, or the rule does not declare it in ``reads``.
        """
        return self._view._output(self.name, field)  # noqa: SLF001


class GraphView:
    """A read-only view of a growing graph, for predicates.

    The view records what a predicate looks at; the predicate is evaluated
    again when some of that has changed. Other sources, such as a clock or a
    file, do not cause another evaluation.
    """

    #: The rule whose predicate or body has the view.
    rule: PendingRule
    #: What was looked at: task numbers, and (kind, word).
    _looked: dict[Any, None]

    def __init__(self, growing: DynamicGraph) -> None:
        self._growing = growing

    @property
    def config(self) -> Config:
        """Parameters of the run."""
        return self._growing.config

    def __contains__(self, name: object) -> bool:
        name = name.name if isinstance(name, TaskView) else name
        exists = name in self._growing.index
        if not exists:
            self._looked["exists", name] = None
        return exists

    def __getitem__(self, name: Named) -> TaskView:
        """Return the task `name`.

        A predicate that looks up a task which does not exist yet, but which a
        rule may still add, does not hold.
        """
        name = name.name if isinstance(name, TaskView) else name
        if name not in self._growing.index:
            self._looked["name", name] = None
            raise NotYet
        return TaskView(self, name)

    def tasks(self, tag: str | None = None) -> list[TaskView]:
        """Return the existing tasks, all or those with a tag, in the order of their names.

        Numbers in brackets count by their value: ``p[2]`` is before ``p[10]``.
        """
        all_names = self._growing.names
        names = [all_names[i] for i in self._look_at_tag("tag", tag)]
        return [TaskView(self, name) for name in sorted(names, key=natural)]

    def count(self, tag: str | None = None) -> int:
        """Return the number of existing tasks, of all or of those with a tag."""
        return len(self._look_at_tag("tag", tag))

    def count_ended(self, tag: str) -> int:
        """Return the number of tasks with a tag that have ended."""
        numbers = self._look_at_tag("ended", tag)
        return len(numbers) - self._growing.unfinished.get(tag, 0)

    def is_tag(self, word: str) -> bool:
        """Tell whether tasks can have a word as a tag, and no task has it as its name."""
        growing = self._growing
        return word not in growing.index and (word in growing.by_tag or word in growing.adders)

    def all_ended(self, tag: str) -> bool:
        """Tell whether all existing tasks with a tag have ended."""
        self._look_at_tag("all_ended", tag)
        return not self._growing.unfinished.get(tag, 0)

    def can_come(self, tag: str) -> bool:
        """Tell whether another rule may still add tasks with a tag."""
        self._look_at_tag("more", tag)
        return self._growing.can_come(tag, self.rule)

    def _look_at_tag(self, kind: str, tag: str | None) -> Sequence[int]:
        self._looked[kind, tag] = None
        if tag is None:
            return range(len(self._growing.names))
        self._growing.check_tag(self.rule, tag)
        return self._growing.by_tag.get(tag, ())

    def _tags(self, name: str) -> tuple[str, ...]:
        return self._growing.tags[self._growing.index[name]]

    def _state(self, name: str) -> int:
        number = self._growing.index[name]
        self._looked[number] = None
        return self._growing.states[number]

    def _output(self, name: str, field: str) -> Any:
        if self._state(name) != SUCCEEDED:
            raise NotYet
        return self._growing.read(self.rule, self._growing.index[name], field)


def have_succeeded(names: Iterable[str], graph: GraphView) -> bool:
    """Tell whether tasks have succeeded; looks at them up to the first that has not."""
    growing, looked = graph._growing, graph._looked  # noqa: SLF001  (same module)
    for name in names:
        number = growing.index.get(name)
        if number is None:
            return graph[name].succeeded
        looked[number] = None
        if growing.states[number] != SUCCEEDED:
            return False
    return True


#: Source and output to its items: encoded, payload and length in bytes.
Items = dict[tuple[str, str], list[tuple[Any, int, int]]]


class Mapped(NamedTuple):
    """Tasks that a map adds, one for each item of an output.

    Attributes
    ----------
    source, field
        The source task, and its output.
    names
        Names of the tasks, in the order of the items.
    into
        The input that receives the item.
    """

    source: str
    field: str
    names: list[str]
    into: str


class GraphEditor(GraphView):
    """A view of a growing graph to which the body of a rule appends.

    What the body appends becomes part of the graph, and of the view, after
    the body has returned: all of it, or nothing.
    """

    def __init__(self, growing: DynamicGraph, rule: PendingRule) -> None:
        self._growing = growing
        self.rule = rule
        self._looked = {}
        self.tasks_added: dict[str, Task] = {}
        self.tags_added: dict[str, tuple[str, ...]] = {}
        #: Target to its edges: source, and the fields as the body passed them.
        self.incoming: dict[str, list[tuple[str, Any]]] = {}
        self.rules_added: list[Any] = []
        self.items: Items = {}
        self.maps: list[Mapped] = []
        self._open = True

    @property
    def this(self) -> TaskView:
        """The task whose ``grow()`` is running.

        One task object may have several names in a graph; this is the current one.
        """
        rule = self.rule.rule
        if not isinstance(rule, GrowRule):
            raise GraphError(
                "graph.this is available only in grow() of a task, not in the body of a rule"
            )
        return self[rule.task]

    def add_task(
        self,
        name: str,
        task: Task | type[Task],
        after: Iterable[Any] | Named = (),
        tags: Iterable[str] = (),
    ) -> TaskView:
        """Add a task.

        Parameters
        ----------
        name
            Its name in the graph; must be unique.
        task
            A task, or a task class, to make an instance of.
        after
            Sources of edges to the task, which exist already or were added before it: names or
            views of tasks, or pairs of one of these and the fields of the edge, as for
            :class:`~dagprofiler.DAG`.
        tags
            Further tags, in addition to those of the task itself.

        Returns
        -------
        TaskView
            The new task, pending, to use as a source or target of edges.

        Raises
        ------
        GraphError, DeclarationError
            If the name exists already, or an argument is not valid.
        """
        if not self._open:
            raise self._late()
        check_names([name])
        if name in self._growing.index or name in self.tasks_added:
            raise GraphError(f"task {name!r} exists already")
        made = self._made(name, task)
        made.config = self._growing.config
        edges = edges_of(after, name)
        if tags or made.tags:
            where = f"tags of task {name!r}"
            words = (*check_tags(made.tags, where), *check_tags(tags, where))
            self.tags_added[name] = tuple(dict.fromkeys(words))
        self.tasks_added[name] = made
        if edges:
            self.incoming[name] = edges
        return TaskView(self, name)

    def add_edge(self, source: Named, target: Named, fields: Any = None) -> None:
        """Add an edge to a new task; `fields` as for :class:`~dagprofiler.DAG`.

        The source exists already, or was added before the target.
        """
        if not self._open:
            raise self._late()
        source, target = _name(source), _name(target)
        if target not in self.tasks_added:
            problem = f"there is no task {short_repr(target)}"
            if target in self._growing.index:
                problem = (
                    f"{short_repr(target)} existed before; the target of an edge must be a task "
                    "that the same rule adds"
                )
            raise GraphError(f"{edge_text(source, target)}: {problem}")
        self.incoming.setdefault(target, []).append((source, fields))

    def add_rule(self, rule: Any) -> None:
        """Add a rule; it is first evaluated after this body has been applied."""
        if not self._open:
            raise self._late()
        check_rule(rule)
        self.rules_added.append(rule)

    def map(
        self,
        source: Named,
        field: str,
        task: Task | type[Task],
        name: str,
        *,
        into: str | None = None,
        after: Iterable[Any] | Named = (),
        tags: Iterable[str] = (),
    ) -> list[str]:
        """Add one task for each item of an output; ``name[i]`` receives only item i.

        Parameters
        ----------
        source, field
            The source task, and its output, a list or another iterable of items.
        task
            A task class, to make an instance for each item, or a task that
            all items share.
        name
            Name of the tasks, without the number.
        into
            The input that receives the item; by default the input with the
            name of the output, or the only input.
        after, tags
            For each of the tasks, as for :meth:`add_task`.

        Returns
        -------
        list of str
            The names of the tasks, in the order of the items.
        """
        if not self._open:
            raise self._late()
        source = _name(source)
        first = self._made(name, task)
        edges = edges_of(after, name)
        into = _item_input(first, field, name) if into is None else into
        problem = field_problem(into)
        if problem is not None:
            raise GraphError(f"tasks {name!r}: input {into!r} {problem}")
        count = self._encode_items(source, field)
        names = [f"{name}[{i}]" for i in range(count)]
        check_names(names[:1])
        if count and not self._growing.index.keys().isdisjoint(names):
            existing = next(item for item in names if item in self._growing.index)
            raise GraphError(f"task {short_repr(existing)} exists already")
        if not self.tasks_added.keys().isdisjoint(names):
            raise GraphError(f"tasks named {name!r} are added twice")
        if edges:
            self.incoming.update((target, [*edges]) for target in names)
        instances = _instances(first, task, count)
        for made in instances:
            made.config = self._growing.config
        self.tasks_added.update(zip(names, instances))
        own = check_tags(first.tags, f"tags of task {name!r}")
        tags = (*own, *check_tags(tags, f"map {name!r}"))
        if tags:
            self.tags_added.update(dict.fromkeys(names, tuple(dict.fromkeys(tags))))
        self.maps.append(Mapped(source, field, names, into))
        return names

    def _encode_items(self, source: str, field: str) -> int:
        """Encode each item of an output separately; return the number of items."""
        if (source, field) in self.items:
            return len(self.items[source, field])
        value = self[source].output(field)
        where = f"output {field!r} of task {short_repr(source)}"
        # An array of no dimensions has __iter__, which raises.
        if (
            isinstance(value, (str, bytes, bytearray, Mapping, AbstractSet))
            or not isinstance(value, Iterable)
            or getattr(value, "shape", None) == ()
        ):
            raise GraphError(
                f"{where} is {type(value).__name__}, expected a list or another iterable of items"
            )
        contract = self._growing.contract_of(source)
        encoded: list[tuple[Any, int, int]] = []
        for i, item in enumerate(value):
            try:
                frames = contract.encode(item)
            except Exception as error:
                raise SerializationError(
                    f"{where}: item {i} ({type(item).__name__}) cannot be serialized: "
                    f"{describe(error)}"
                ) from error
            encoded.append((frames, *encoded_size(contract, item, frames)))
        self.items[source, field] = encoded
        return len(encoded)

    def _made(self, name: str, task: Task | type[Task]) -> Task:
        """Return :func:`check_task` of a task, with its class checked only once."""
        kinds = self._growing.kinds
        if type(task) in kinds:
            return task  # type: ignore[return-value]
        if isinstance(task, type) and task in kinds:
            return instance_of(task, f"task {name!r}")
        made = check_task(name, task)
        kinds.add(type(made))
        if grows(type(made)):
            self._growing.growers.add(type(made))
        return made

    def _late(self) -> GraphError:
        return GraphError(
            f"rule {self.rule.name!r}: its body has returned and can add nothing any more"
        )

    def __getitem__(self, name: Named) -> TaskView:
        """Return the task `name`."""
        name = name.name if isinstance(name, TaskView) else name
        if name not in self._growing.index:
            raise self._growing.unknown(name)
        return TaskView(self, name)

    def _tags(self, name: str) -> tuple[str, ...]:
        new = name in self.tasks_added
        return self.tags_added.get(name, ()) if new else super()._tags(name)

    def _state(self, name: str) -> int:
        # A new task becomes part of the graph after the body.
        number = self._growing.index.get(name)
        return PENDING if number is None else self._growing.states[number]

    def _output(self, name: str, field: str) -> Any:
        if self._state(name) != SUCCEEDED:
            why = "is new" if name in self.tasks_added else "has not succeeded"
            raise GraphError(f"task {name!r} {why}, so it has no output {field!r} to read")
        return self._growing.read(self.rule, self._growing.index[name], field)


def _instances(first: Task, task: Task | type[Task], count: int) -> list[Task]:
    """Return `count` instances of a class, the first of which is `first`; or a task, repeated."""
    if first is task:
        return [first] * count
    kind: Any = task
    return [first, *[kind() for _ in range(count - 1)]][:count]


def edges_of(after: Any, target: str) -> list[tuple[str, Any]]:
    """Return source and fields of each edge in the argument `after`, or raise a GraphError."""
    if isinstance(after, str):
        return [(after, None)]
    if isinstance(after, TaskView):
        return [(after.name, None)]
    if not isinstance(after, Iterable):
        raise GraphError(
            f"task {short_repr(target)}: after must be a list of tasks, got {short_repr(after)}"
        )
    edges = []
    for entry in after:
        source, fields = entry, None
        if not isinstance(entry, (str, TaskView)):
            try:
                source, fields = entry
            except (TypeError, ValueError):
                raise GraphError(
                    f"task {short_repr(target)}: after holds {short_repr(entry)}, expected a "
                    "task or (task, fields)"
                ) from None
        edges.append((_name(source), fields))
    return edges


def names_of(tasks: Any) -> Any:
    """Return tasks or tags with each view replaced by its name."""
    if not isinstance(tasks, (list, tuple, set, frozenset)) or TaskView not in map(type, tasks):
        return tasks
    return [task.name if isinstance(task, TaskView) else task for task in tasks]


def _name(task: Any) -> str:
    if isinstance(task, str):
        return task
    if isinstance(task, TaskView):
        return task.name
    raise GraphError(f"expected a task of the graph or its name, got {short_repr(task)}")


def _item_input(task: Task, field: str, name: str) -> str:
    """Return the input that receives an item of `field`."""
    if len(task.inputs) == 1 or field in task.inputs:
        return field if field in task.inputs else task.inputs[0]
    raise GraphError(
        f"tasks {name!r}: into=... must name the input that receives an item of {field!r} "
        f"(inputs: {', '.join(map(repr, task.inputs)) or 'none'})"
    )


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
        self.wiring = given.growing()
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
        self._asked = frozenset(current.run.setup.options.keep)
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
        wiring = self._wiring
        for rule in self._open.values():
            self._growth.unfired[rule.name] = self._why(rule)
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
        view.rule, view._looked = rule, {}  # noqa: SLF001  (same package)
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
        check_limits(self._executor, names, tasks)
        put = self._executor.put
        items = chain.from_iterable(editor.items.values())
        handles = [put(frames) for frames, _, _ in items] if editor.items else []
        contracts = [self._reader.read(name, task) for name, task in zip(names, tasks)]
        wiring = self._wiring
        first, slots = len(self.names), len(wiring.owner)
        try:
            kinds = self._place(editor, names, contracts)
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

    def _place(
        self, editor: GraphEditor, names: list[str], contracts: list[Contract]
    ) -> set[tuple[Any, ...]]:
        """Append all new tasks to the wiring, each after its predecessors.

        Returns
        -------
        set of tuple
            Their contracts, by identity, each with the inputs that arrive.
        """
        items = self._place_items(editor) if editor.maps else {}
        #: Slots of older tasks whose edges have been checked.
        checked: set[int] = set()
        kinds: set[tuple[Any, ...]] = set()
        for name, contract in zip(names, contracts):
            fields = self._place_one(editor, name, contract, items.get(name), checked)
            kinds.add((id(contract), *fields))
        return kinds

    def _place_items(self, editor: GraphEditor) -> dict[str, tuple[int, int, str]]:
        """Add the slots of items; return for each task of a map source, slot and input."""
        first_items = {
            (source, field): self._wiring.add_items(self.index[source], field, len(encoded))
            for (source, field), encoded in editor.items.items()
        }
        return {
            name: (self.index[source], slot, into)
            for source, field, members, into in editor.maps
            for slot, name in enumerate(members, first_items[source, field])
        }

    def _place_one(
        self,
        editor: GraphEditor,
        name: str,
        contract: Contract,
        item: tuple[int, int, str] | None,
        checked: set[int],
    ) -> tuple[str, ...]:
        """Append a new task to the wiring, and return its inputs that arrive."""
        wiring, index, old = self._wiring, self.index, len(self.states)
        outputs, first_slot, inputs = wiring.outputs, wiring.first_slot, contract.inputs
        sources: dict[int, Any] = {}
        slots: list[int] = []
        fields: list[str] = []
        if item is not None:
            number, slot, into = item
            sources[number] = ()
            slots.append(slot)
            fields.append(into)
        for source, spec in editor.incoming.get(name, ()):
            if source not in index:
                raise self._no_source(editor, source, name)
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
                    self._check_kept(editor.rule, number, position, "an edge carries outputs of")
                    checked.add(slot)
                slots.append(slot)
                fields.append(field)
        index[name] = len(wiring.names)
        # Tasks that are alike share one tuple.
        arriving = inputs if (*fields,) == inputs else (*fields,)
        wiring.add_task(name, contract.outputs, [*sources], slots, arriving)
        return arriving

    def _no_source(self, editor: GraphEditor, source: str, target: str) -> GraphError:
        """Return the error for an edge whose source is not there when its target is added."""
        if source == target:
            why = "a task cannot feed itself"
        elif source in editor.tasks_added:
            why = f"{source!r} is added after {target!r}; add the source of an edge first"
        else:
            why = f"there is no task {short_repr(source)}{did_you_mean(source, [*self.index])}"
        return GraphError(f"{edge_text(source, target)}: {why}")

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
        more = len(wiring.owner) - len(log.wire_bytes)
        log.extend(count, more)
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
