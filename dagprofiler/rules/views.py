"""A growing graph as the bodies of rules see it: they append to it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from dagprofiler.engine.options import check_names, check_task
from dagprofiler.errors import (
    DeclarationError,
    GraphError,
    SerializationError,
    describe,
    short_repr,
)
from dagprofiler.graph.edges import field_problem
from dagprofiler.measure.pipeline import encoded_size
from dagprofiler.task import Task, check_tags, instance_of

if TYPE_CHECKING:
    from collections.abc import Container, Sequence
    from typing import Union

    from dagprofiler.config import Config

    #: A task by its name, or as a view of it.
    Named = Union[str, "TaskView"]


@dataclass(frozen=True)
class Rules:
    """Rules, and what holds for all of them.

    Parameters
    ----------
    rules
        Asked in this order.
    strict
        Whether a rule that never fires is an error.
    max_tasks, max_firings
        How many tasks rules may add, and how often they may fire, in one
        round: what ends rules that feed themselves.
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
        if not isinstance(self.strict, bool):
            raise DeclarationError(
                f"Rules: strict must be True or False, got {short_repr(self.strict)}"
            )
        for name in ("max_tasks", "max_firings"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise DeclarationError(
                    f"Rules: {name} must be an integer of at least 0, got {short_repr(value)}"
                )


def as_rules(given: Any) -> Rules:
    """Return what ``DAG(rules=...)`` was given as Rules, or raise a DeclarationError."""
    if not isinstance(given, (Rules, Iterable)) or isinstance(given, (str, Mapping)):
        raise DeclarationError(f"rules must be a list of rules, got {short_repr(given)}")
    rules: Rules = given if isinstance(given, Rules) else Rules(given)
    for rule in rules.rules:
        check_rule(rule)
    return rules


def check_rule(rule: Any) -> None:
    """Raise a DeclarationError unless `rule` is a rule."""
    if not (callable(getattr(rule, "when", None)) and callable(getattr(rule, "then", None))):
        raise DeclarationError(f"rules: expected a Rule, got {short_repr(rule)}")


class PendingRule:
    """A rule in a round.

    Attributes
    ----------
    rule
        What it says.
    name
        What it goes by; the second of a name is ``name (2)``.
    number
        Its place in the order in which rules are asked.
    adds, reads
        Tags that it may add; tasks and tags whose outputs it reads.
    held
        Tasks whose outputs are kept for it.
    looked
        What its predicate looked at: task numbers, and (kind, tag or name).
    waits, woken
        Whether it has not fired, and whether it is about to be asked.
    """

    def __init__(self, rule: Any, name: str, number: int) -> None:
        self.rule = rule
        self.name = name
        self.number = number
        self.adds = frozenset(rule.adds)
        self.reads = frozenset(rule.reads)
        self.held: list[int] = []
        self.looked: Iterable[Any] = ()
        self.waits = self.woken = True


class GrowRule:
    """The rule that a task with a ``grow()`` of its own is.

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
        return graph[self.task].succeeded


PENDING, SUCCEEDED, FAILED, SKIPPED = range(4)
#: What they are called.
STATES = ("pending", "succeeded", "failed", "skipped")

_NUMBER = re.compile(r"\[(\d+)\]")


class NotYet(BaseException):
    """A predicate looked at what is not there yet. Never leaves the library."""


def natural(name: str) -> list[Any]:
    """Return what names are sorted by: numbers in brackets by their value."""
    start, _, rest = name.partition("[")
    number = rest[:-1]
    if number.isdecimal() and rest[-1] == "]":
        # Most are of this form.
        return [start, int(number), ""]
    parts: list[Any] = _NUMBER.split(name)
    parts[1::2] = map(int, parts[1::2])
    return parts


class GrowingGraph(Protocol):
    """What views ask of a graph that grows; its tasks are numbered."""

    @property
    def config(self) -> Config:
        """Parameters of the run."""

    @property
    def names(self) -> Sequence[str]:
        """Names of the tasks."""

    @property
    def index(self) -> dict[str, int]:
        """Name to number."""

    @property
    def states(self) -> Sequence[int]:
        """The state of each task."""

    @property
    def tags(self) -> Sequence[tuple[str, ...]]:
        """The tags of each task."""

    @property
    def by_tag(self) -> Mapping[str, Sequence[int]]:
        """Tag to the numbers of its tasks."""

    @property
    def unfinished(self) -> Mapping[str, int]:
        """Tag to how many of its tasks have not finished."""

    @property
    def adders(self) -> Container[str]:
        """Tags that rules may still add."""

    @property
    def kinds(self) -> set[type]:
        """Classes of tasks that have been checked."""

    def can_come(self, tag: str | None, rule: PendingRule) -> bool:
        """Tell whether a rule other than `rule` may still add tasks with a tag."""

    def check_tag(self, rule: PendingRule, tag: Any) -> None:
        """Refuse a tag that no task can ever have had."""

    def read(self, rule: PendingRule, number: int, field: str) -> Any:
        """Return the value of an output, decoded anew."""

    def contract_of(self, name: str) -> Any:
        """Return what a task declares."""

    def unknown(self, name: Any) -> Exception:
        """Return the error for a name that no task has."""


class TaskView:
    """A task of a growing graph, as rules see it.

    Attributes
    ----------
    name
        Its name in the graph.
    """

    __slots__ = ("_number", "_view", "name")

    def __init__(self, view: GraphView, number: int, name: str) -> None:
        self._view = view
        self._number = number
        self.name = name

    def __repr__(self) -> str:
        return f"<task {self.name!r}>"

    @property
    def tags(self) -> tuple[str, ...]:
        """Its tags."""
        return self._view._growing.tags[self._number]  # noqa: SLF001  (a part of it)

    @property
    def state(self) -> str:
        """``"pending"`` until it has ended, then ``"succeeded"``, ``"failed"`` or ``"skipped"``."""
        return self._view._state(self._number)  # noqa: SLF001

    @property
    def succeeded(self) -> bool:
        """Whether it has ended without an error."""
        # Asked for more often than all else.
        self._view._looked[self._number] = None  # noqa: SLF001
        return self._view._growing.states[self._number] == SUCCEEDED  # noqa: SLF001

    @property
    def ended(self) -> bool:
        """Whether it has ended, one way or the other."""
        return self.state != "pending"

    def output(self, field: str) -> Any:
        """Return what it returned: a copy, so that changing it changes nothing.

        Until the task has succeeded, a predicate that asks for it does not hold.

        Raises
        ------
        GraphError
            If there is no such output, or the rule does not say that it reads it.
        """
        return self._view._output(self._number, field)  # noqa: SLF001


class GraphView:
    """A growing graph as a predicate sees it: read-only.

    What a predicate looks at is noted, and it is asked again when some of it
    has changed. What it learns elsewhere, from a clock or from a file, does
    not count as a change.
    """

    def __init__(self, growing: GrowingGraph, rule: PendingRule) -> None:
        self._growing = growing
        self._rule = rule
        #: What was looked at: task numbers, and (kind, word).
        self._looked: dict[Any, None] = {}

    @property
    def config(self) -> Config:
        """Parameters of the run."""
        return self._growing.config

    def __contains__(self, name: object) -> bool:
        found = name in self._growing.index
        if not found:
            self._look("there", name)
        return found

    def __getitem__(self, name: str) -> TaskView:
        """Return the task `name`.

        While there is none, but a rule is left that might add it, a predicate
        that asks for it does not hold.
        """
        number = self._growing.index.get(name)
        if number is None:
            self._look("name", name)
            raise NotYet
        return TaskView(self, number, name)

    def tasks(self, tag: str | None = None) -> list[TaskView]:
        """Return the tasks that are there, all or those with a tag, in the order of their names.

        Numbers in brackets count by their value: ``p[2]`` comes before ``p[10]``.
        """
        names = self._growing.names
        numbers = self._look_at_tag("tag", tag)
        return [
            TaskView(self, i, names[i]) for i in sorted(numbers, key=lambda i: natural(names[i]))
        ]

    def count(self, tag: str | None = None) -> int:
        """Return how many tasks there are, in all or with a tag."""
        return len(self._look_at_tag("tag", tag))

    def count_ended(self, tag: str) -> int:
        """Return how many tasks with a tag have ended."""
        numbers = self._look_at_tag("ended", tag)
        return len(numbers) - self._growing.unfinished.get(tag, 0)

    def is_tag(self, word: str) -> bool:
        """Tell whether tasks can have a word as a tag, and none has it as its name."""
        growing = self._growing
        return word not in growing.index and (word in growing.by_tag or word in growing.adders)

    def all_ended(self, tag: str) -> bool:
        """Tell whether no task with a tag, of those that are there, is yet to end."""
        self._look_at_tag("all_ended", tag)
        return not self._growing.unfinished.get(tag, 0)

    def can_come(self, tag: str) -> bool:
        """Tell whether any more tasks with a tag can come, other than by this very rule."""
        self._look_at_tag("more", tag)
        return self._growing.can_come(tag, self._rule)

    def _look(self, *key: Any) -> None:
        self._looked[key] = None

    def _look_at_tag(self, kind: str, tag: str | None) -> Sequence[int]:
        self._look(kind, tag)
        if tag is None:
            return range(len(self._growing.names))
        self._growing.check_tag(self._rule, tag)
        return self._growing.by_tag.get(tag, ())

    def _state(self, number: int) -> str:
        self._looked[number] = None
        return STATES[self._growing.states[number]]

    def _output(self, number: int, field: str) -> Any:
        self._looked[number] = None
        if self._growing.states[number] != SUCCEEDED:
            raise NotYet
        return self._growing.read(self._rule, number, field)


#: Source and output to its items: encoded, their payload and their length.
Items = dict[tuple[str, str], list[tuple[Any, int, int]]]


class Mapped(NamedTuple):
    """Tasks that go over the items of an output.

    Attributes
    ----------
    source, field
        The task, and its output.
    names
        The tasks, in the order of the items.
    into
        The input that an item goes to.
    at
        The place of the first one among the tasks that are added.
    """

    source: str
    field: str
    names: list[str]
    into: str
    at: int


class GraphEditor(GraphView):
    """A growing graph as the body of a rule sees it: it may append.

    What is appended is not part of the graph, and of what the view shows,
    before the body has returned; then all of it is, or nothing.
    """

    def __init__(self, growing: GrowingGraph, rule: PendingRule) -> None:
        self._growing = growing
        self._rule = rule
        self._looked = {}
        self.tasks_added: dict[str, Task] = {}
        self.tags_added: dict[str, tuple[str, ...]] = {}
        #: Target to its edges: source, and the fields as given.
        self.incoming: dict[str, list[tuple[str, Any]]] = {}
        #: Whether each new task comes behind the new ones that feed it.
        self.ordered = True
        self.rules_added: list[Any] = []
        self.items: Items = {}
        #: First task of each map to all of it.
        self.maps: dict[str, Mapped] = {}
        self._open = True

    @property
    def this(self) -> TaskView:
        """In ``grow()`` of a task, that task.

        A task does not know what it goes by in a graph, and may go by many names.
        """
        rule = self._rule.rule
        if not isinstance(rule, GrowRule):
            raise GraphError(
                "the body of a rule is that of no task; graph.this is for grow() of a task"
            )
        return self[rule.task]

    def add_task(
        self,
        name: str,
        task: Task | type[Task],
        after: Iterable[Any] | Named = (),
        tags: Iterable[str] = (),
    ) -> str:
        """Add a task.

        Parameters
        ----------
        name
            Its name in the graph, which no other task has.
        task
            A task, or a task class, of which an instance is made.
        after
            Where edges to it come from: names or views of tasks, or pairs of one of these
            and the fields of the edge, as for :class:`~dagprofiler.DAG`.
        tags
            Tags beside those of the task itself.

        Returns
        -------
        str
            The name.
        """
        self._check_open()
        check_names({name: None})
        if name in self._growing.index or name in self.tasks_added:
            raise GraphError(f"there is a task {name!r} already")
        made = self._made(name, task)
        edges = self._sourced(edges_of(after, name))
        if tags or made.tags:
            where = f"tags of task {name!r}"
            words = (*check_tags(made.tags, where), *check_tags(tags, where))
            self.tags_added[name] = tuple(dict.fromkeys(words))
        self.tasks_added[name] = made
        if edges:
            self.incoming[name] = edges
        return name

    def add_edge(self, source: Named, target: Named, fields: Any = None) -> None:
        """Add an edge to a task that is new; `fields` as for :class:`~dagprofiler.DAG`."""
        self._check_open()
        source, target = _name(source), _name(target)
        if target not in self.tasks_added:
            if target in self._growing.index:
                raise GraphError(
                    f"edge {short_repr(source)} -> {short_repr(target)}: "
                    f"{short_repr(target)} was there before; edges can only "
                    "lead to tasks that the same rule adds"
                )
            raise GraphError(
                f"edge {short_repr(source)} -> {short_repr(target)}: there is no task "
                f"{short_repr(target)}"
            )
        # It may lead from a task that has come after its target.
        self.ordered = self.ordered and source not in self.tasks_added
        self.incoming.setdefault(target, []).extend(self._sourced([(source, fields)]))

    def add_rule(self, rule: Any) -> None:
        """Add a rule, which is asked once this one's body has been applied."""
        self._check_open()
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
        """Add one task for each item of an output; item i alone goes to ``name[i]``.

        Parameters
        ----------
        source, field
            The task, and its output, which is a list or the like.
        task
            A task class, of which an instance is made for each item, or a
            task, which they share.
        name
            Of the tasks, without the number.
        into
            The input that the item goes to; by default the only one, or the
            one with the name of the output.
        after, tags
            As for :meth:`add_task`, of each of them.

        Returns
        -------
        list of str
            The names of the tasks, in the order of the items.
        """
        self._check_open()
        source = _name(source)
        one = check_task(name, task)
        edges = self._sourced(edges_of(after, name))
        into = _item_input(one, field, name) if into is None else into
        problem = field_problem(into)
        if problem is not None:
            raise GraphError(f"tasks {name!r}: input {into!r} {problem}")
        count = self._encode_items(source, field)
        names = [f"{name}[{i}]" for i in range(count)]
        check_names(dict.fromkeys(names[:1]))
        if count and not self._growing.index.keys().isdisjoint(names):
            found = next(one for one in names if one in self._growing.index)
            raise GraphError(f"there is a task {short_repr(found)} already")
        if not self.tasks_added.keys().isdisjoint(names):
            raise GraphError(f"tasks named {name!r} are added twice")
        if edges:
            self.incoming.update((target, [*edges]) for target in names)
        at = len(self.tasks_added)
        self.tasks_added.update(zip(names, _instances(one, task, count)))
        tags = (*check_tags(one.tags, f"tags of task {name!r}"), *check_tags(tags, f"map {name!r}"))
        if tags:
            self.tags_added.update(dict.fromkeys(names, tuple(dict.fromkeys(tags))))
        if names:
            self.maps[names[0]] = Mapped(source, field, names, into, at)
        return names

    def _encode_items(self, source: str, field: str) -> int:
        """Encode the items of an output, each for itself; return how many there are."""
        if (source, field) in self.items:
            return len(self.items[source, field])
        value = self[source].output(field)
        where = f"output {field!r} of task {short_repr(source)}"
        # An array of no dimensions says that it can be gone through, and cannot.
        if (
            isinstance(value, (str, bytes, bytearray, Mapping, AbstractSet))
            or not isinstance(value, Iterable)
            or getattr(value, "shape", None) == ()
        ):
            raise GraphError(
                f"{where} is {type(value).__name__}, expected a list of items or the like"
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

    def close(self) -> None:
        """Take nothing any more: the body has returned."""
        self._open = False

    def _made(self, name: str, task: Task | type[Task]) -> Task:
        """Return what :func:`check_task` does, which asks abstract classes, once a class."""
        kinds = self._growing.kinds
        if type(task) in kinds:
            return task  # type: ignore[return-value]
        if isinstance(task, type) and task in kinds:
            return instance_of(task, f"task {name!r}")
        made = check_task(name, task)
        kinds.add(type(made))
        return made

    def _sourced(self, edges: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
        """Return edges, once it is noted whether what they come from is there already."""
        for source, _ in edges:
            if source not in self._growing.index and source not in self.tasks_added:
                self.ordered = False
        return edges

    def _check_open(self) -> None:
        if not self._open:
            raise GraphError(
                f"rule {self._rule.name!r}: its body has returned, and adds nothing any more"
            )

    def _output(self, number: int, field: str) -> Any:
        if self._growing.states[number] != SUCCEEDED:
            raise GraphError(
                f"task {self._growing.names[number]!r} has not succeeded, so that there is no "
                f"output {field!r} to read"
            )
        return self._growing.read(self._rule, number, field)

    def __getitem__(self, name: str) -> TaskView:
        """Return the task `name`."""
        number = self._growing.index.get(name)
        if number is None:
            raise self._growing.unknown(name)
        return TaskView(self, number, name)


def _instances(one: Task, given: Task | type[Task], count: int) -> Iterable[Task]:
    """Return as many instances of a class, the first of which is `one`; or that task, repeated."""
    if one is given:
        return [one] * count
    kind: Any = given
    return [one, *[kind() for _ in range(count - 1)]][:count]


def edges_of(after: Any, target: str) -> list[tuple[str, Any]]:
    """Return source and fields of each edge that `after` says leads to a task, or raise."""
    if isinstance(after, (str, TaskView)):
        return [(_name(after), None)]
    if not isinstance(after, Iterable):
        raise GraphError(
            f"task {short_repr(target)}: after must be a list of tasks, got {short_repr(after)}"
        )
    edges = []
    for given in after:
        source, fields = given, None
        if not isinstance(given, (str, TaskView)):
            try:
                source, fields = given
            except (TypeError, ValueError):
                raise GraphError(
                    f"task {short_repr(target)}: after holds {short_repr(given)}, expected a "
                    "task or (task, fields)"
                ) from None
        edges.append((_name(source), fields))
    return edges


def _name(task: Any) -> str:
    if isinstance(task, str):
        return task
    if isinstance(task, TaskView):
        return task.name
    raise GraphError(f"expected a task of the graph, or the name of one, got {short_repr(task)}")


def _item_input(task: Task, field: str, name: str) -> str:
    """Return the input that an item of `field` goes to."""
    if len(task.inputs) == 1 or field in task.inputs:
        return field if field in task.inputs else task.inputs[0]
    raise GraphError(
        f"tasks {name!r}: which of their inputs an item of {field!r} goes to has to be said "
        f"by into=... (inputs: {', '.join(map(repr, task.inputs)) or 'none'})"
    )
