"""Views of a growing graph: GraphView for predicates, GraphEditor for bodies of rules."""

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
    class_name,
    describe,
    is_a,
    short_repr,
)
from dagprofiler.graph.edges import field_problem
from dagprofiler.measure.pipeline import encoded_size
from dagprofiler.task import Task, check_tags, grows, instance_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Union

    from dagprofiler.config import Config

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


def as_rules(rules: Any) -> Rules:
    """Return the argument of ``DAG(rules=...)`` as Rules, or raise a DeclarationError."""
    if not is_a(rules, (Rules, Iterable)) or is_a(rules, (str, Mapping)):
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


class GrowingGraph(Protocol):
    """The part of a dynamic graph that views use; its tasks are numbered.

    Its attributes are those of :class:`~dagprofiler.rules.dynamic.DynamicGraph`.
    """

    config: Config
    names: list[str]
    index: dict[str, int]
    states: bytearray
    tags: list[tuple[str, ...]]
    by_tag: dict[str, list[int]]
    unfinished: dict[str, int]
    adders: dict[str, int]
    kinds: set[type]
    growers: set[type]

    def can_come(self, tag: str | None, rule: PendingRule) -> bool:
        """Tell whether a rule other than `rule` may still add tasks with a tag."""

    def check_tag(self, rule: PendingRule, tag: Any) -> None:
        """Raise a GraphError if no task can ever have had a tag."""

    def read(self, rule: PendingRule, number: int, field: str) -> Any:
        """Return the value of an output, decoded anew."""

    def contract_of(self, name: str) -> Any:
        """Return the contract of a task."""

    def unknown(self, name: Any) -> Exception:
        """Return the error for a name that no task has."""


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
    _rule: PendingRule
    #: What was looked at: task numbers, and (kind, word).
    _looked: dict[Any, None]

    def __init__(self, growing: GrowingGraph) -> None:
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
        return self._growing.can_come(tag, self._rule)

    def _look_at_tag(self, kind: str, tag: str | None) -> Sequence[int]:
        self._looked[kind, tag] = None
        if tag is None:
            return range(len(self._growing.names))
        self._growing.check_tag(self._rule, tag)
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
        return self._growing.read(self._rule, self._growing.index[name], field)


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
    at
        Position of the first of them among the added tasks.
    """

    source: str
    field: str
    names: list[str]
    into: str
    at: int


class GraphEditor(GraphView):
    """A view of a growing graph to which the body of a rule appends.

    What the body appends becomes part of the graph, and of the view, after
    the body has returned: all of it, or nothing.
    """

    def __init__(self, growing: GrowingGraph, rule: PendingRule) -> None:
        self._growing = growing
        self._rule = rule
        self._looked = {}
        self.tasks_added: dict[str, Task] = {}
        self.tags_added: dict[str, tuple[str, ...]] = {}
        #: Target to its edges: source, and the fields as the body passed them.
        self.incoming: dict[str, list[tuple[str, Any]]] = {}
        #: Whether each new task was added after the new ones that feed it.
        self.ordered = True
        self.rules_added: list[Any] = []
        self.items: Items = {}
        #: First task of each map to the map.
        self.maps: dict[str, Mapped] = {}
        self._open = True

    @property
    def this(self) -> TaskView:
        """The task whose ``grow()`` is running.

        One task object may have several names in a graph; this is the current one.
        """
        rule = self._rule.rule
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
            Sources of edges to the task: names or views of tasks, or pairs of one of these
            and the fields of the edge, as for :class:`~dagprofiler.DAG`.
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
        if type(name) is not str or not name or "->" in name:
            check_names({name: None})
        if name in self._growing.index or name in self.tasks_added:
            raise GraphError(f"task {name!r} exists already")
        made = self._made(name, task)
        made.config = self._growing.config
        edges = self._sourced(after, name)
        if tags or made.tags:
            where = f"tags of task {name!r}"
            words = (*check_tags(made.tags, where), *check_tags(tags, where))
            self.tags_added[name] = tuple(dict.fromkeys(words))
        self.tasks_added[name] = made
        if edges:
            self.incoming[name] = edges
        return TaskView(self, name)

    def add_edge(self, source: Named, target: Named, fields: Any = None) -> None:
        """Add an edge to a new task; `fields` as for :class:`~dagprofiler.DAG`."""
        if not self._open:
            raise self._late()
        source, target = _name(source), _name(target)
        if target not in self.tasks_added:
            if target in self._growing.index:
                raise GraphError(
                    f"edge {short_repr(source)} -> {short_repr(target)}: "
                    f"{short_repr(target)} existed before; the target of an edge must be "
                    "a task that the same rule adds"
                )
            raise GraphError(
                f"edge {short_repr(source)} -> {short_repr(target)}: there is no task "
                f"{short_repr(target)}"
            )
        # The source may have been added after the target.
        self.ordered = self.ordered and source not in self.tasks_added
        self.incoming.setdefault(target, []).extend(self._sourced([(source, fields)], target))

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
        edges = self._sourced(after, name)
        into = _item_input(first, field, name) if into is None else into
        problem = field_problem(into)
        if problem is not None:
            raise GraphError(f"tasks {name!r}: input {into!r} {problem}")
        count = self._encode_items(source, field)
        names = [f"{name}[{i}]" for i in range(count)]
        check_names(dict.fromkeys(names[:1]))
        if count and not self._growing.index.keys().isdisjoint(names):
            existing = next(item for item in names if item in self._growing.index)
            raise GraphError(f"task {short_repr(existing)} exists already")
        if not self.tasks_added.keys().isdisjoint(names):
            raise GraphError(f"tasks named {name!r} are added twice")
        if edges:
            self.incoming.update((target, [*edges]) for target in names)
        at = len(self.tasks_added)
        instances = _instances(first, task, count)
        for made in instances:
            made.config = self._growing.config
        self.tasks_added.update(zip(names, instances))
        own = check_tags(first.tags, f"tags of task {name!r}")
        tags = (*own, *check_tags(tags, f"map {name!r}"))
        if tags:
            self.tags_added.update(dict.fromkeys(names, tuple(dict.fromkeys(tags))))
        if names:
            self.maps[names[0]] = Mapped(source, field, names, into, at)
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
                f"{where} is {class_name(value)}, expected a list or another iterable of items"
            )
        contract = self._growing.contract_of(source)
        encoded: list[tuple[Any, int, int]] = []
        for i, item in enumerate(value):
            try:
                frames = contract.encode(item)
            except Exception as error:
                raise SerializationError(
                    f"{where}: item {i} ({class_name(item)}) cannot be serialized: "
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

    def _sourced(self, after: Any, target: str) -> list[tuple[str, Any]]:
        """Return :func:`edges_of`, after checking whether the sources exist already."""
        edges = edges_of(after, target)
        for source, _ in edges:
            if source not in self._growing.index and source not in self.tasks_added:
                self.ordered = False
        return edges

    def _late(self) -> GraphError:
        return GraphError(
            f"rule {self._rule.name!r}: its body has returned and can add nothing any more"
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
        return self._growing.read(self._rule, self._growing.index[name], field)


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
