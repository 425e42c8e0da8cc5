"""Views of a graph that grows: predicates of rules read through them, bodies also add to it.

A *word* is the name of a task or a tag: rules read by either, and wait for changes of either.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple, Union

from dagprofiler.config import Config
from dagprofiler.engine.contracts import check_names, check_task
from dagprofiler.engine.run import Round
from dagprofiler.errors import DeclarationError, GraphError, did_you_mean, listed, short_repr
from dagprofiler.graph.edges import edge_text
from dagprofiler.measure.pipeline import encoded_size
from dagprofiler.task import Task, check_tags, grows

#: A task by its name, or as a view of it.
Named = Union[str, "TaskView"]

#: A task, or a class to make one of.
AnyTask = Union[Task, type[Task]]

#: Source and fields of each edge to a task.
Sources = list[tuple[str, Any]]

#: Handle, payload and length of each item of an output.
Encoded = list[tuple[Any, int, int]]

PENDING, SUCCEEDED, FAILED, SKIPPED = range(4)
#: Names of the states, by number.
STATES = ("pending", "succeeded", "failed", "skipped")

#: The word for all tasks.
ALL = ""

_NUMBER = re.compile(r"\[(\d+)\]")


class NotYetError(GraphError):
    """A rule looked at a task or an output that does not exist yet: a predicate does not hold."""


class OpenRule:
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
    words
        The words that its predicate looked at last, as in :class:`GraphView`.
    missing
        The name of a task which its predicate needs, and which does not exist; None for none.
    awake
        Whether it is queued for evaluation.
    """

    def __init__(self, rule: Any, name: str, number: int) -> None:
        self.rule = rule
        self.name = name
        self.number = number
        self.adds = frozenset(rule.adds)
        self.reads = frozenset(rule.reads)
        self.words: dict[str, None] = {}
        self.missing: str | None = None
        self.awake = False


class Tag:
    """A tag: its tasks, how many have not ended, and how many rules may add more, or failed to."""

    def __init__(self) -> None:
        self.tasks: list[int] = []
        self.unfinished = 0
        self.adders = 0


class GraphSoFar:
    """A growing graph as far as it has come, which views show to rules.

    Attributes
    ----------
    current, wiring
        The round, and its graph.
    config
        Parameters of the run.
    names, index
        Task names by number, and numbers by name.
    states
        For each task its state.
    tags, by_tag
        Task number to its tags, of tasks that have some; and each tag that tasks have or can get.
    """

    def __init__(self, current: Round, config: Config) -> None:
        self.current = current
        self.config = config
        self.wiring = current.log.wiring
        self.names = self.wiring.names
        self.index = {name: i for i, name in enumerate(self.names)}
        self.states = bytearray(len(self.names))
        self.tags: dict[int, tuple[str, ...]] = {}
        self.by_tag: defaultdict[str, Tag] = defaultdict(Tag)

    def state(self, word: str) -> int | None:
        """Return the state of a task; None if a word is not the name of one."""
        number = self.index.get(word)
        return None if number is None else self.states[number]

    def has(self, word: str) -> bool:
        """Tell whether a word is the name of a task, or a tag that tasks have or can get."""
        return word in self.index or word in self.by_tag

    def called(self, word: str) -> list[int]:
        """Return the tasks with a name or a tag."""
        named = [self.index[word]] if word in self.index else []
        return [*named, *self.by_tag[word].tasks] if word in self.by_tag else named

    def can_come(self, tag: str, rule: OpenRule) -> bool:
        """Tell whether another rule than this one may still add tasks with a tag."""
        return tag in self.by_tag and self.by_tag[tag].adders > (tag in rule.adds)

    def no_task(self, name: str) -> str:
        """Return the message for a task that does not exist."""
        return f"there is no task {name!r}{did_you_mean(name, self.names)}"

    def check_kept(self, rule: OpenRule, number: int, slot: int) -> None:
        """Raise a GraphError unless an output is kept for a rule that reads or connects it."""
        name = self.names[number]
        is_read = name in rule.reads or not rule.reads.isdisjoint(self.tags.get(number, ()))
        is_gone = self.current.slots.handles[slot] is None and self.states[number] == SUCCEEDED
        if is_gone or not is_read:
            what = f"outputs of task {name!r} are not kept for it; declare reads=[{name!r}]"
            where = "or a tag of that task, in it and in the rule that adds it"
            raise GraphError(f"rule {rule.name!r}: {what}, {where}")

    def value(self, number: int, slot: int) -> Any:
        """Return a copy of the value of an output, which is in a slot."""
        current = self.current
        return current.executor.value(current.slots.handles[slot], current.contracts[number].decode)


def natural(name: str) -> list[tuple[int, str]]:
    """Return a sort key for a name: numbers in brackets count by their value."""
    parts = _NUMBER.split(name)
    return [(int(part) if i % 2 else 0, part) for i, part in enumerate(parts)]


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
        return self._view.tags_of(self.name)

    @property
    def state(self) -> str:
        """``"pending"`` until the task ends; ``"succeeded"``, ``"failed"`` or ``"skipped"``."""
        return STATES[self._view.state_of(self.name)]

    @property
    def succeeded(self) -> bool:
        """Whether the task has ended without an error."""
        return self._view.state_of(self.name) == SUCCEEDED

    @property
    def ended(self) -> bool:
        """Whether the task has succeeded, failed or been skipped."""
        return self._view.state_of(self.name) != PENDING

    def output(self, field: str) -> Any:
        """Return a copy of an output of the task.

        A predicate that calls this before the task has succeeded does not hold.

        Raises
        ------
        GraphError
            If the task has no such output, or the rule does not declare it in ``reads``.
        """
        return self._view.output_of(self.name, field)


class GraphView:
    """A read-only view of a growing graph, for predicates.

    The view records what a predicate looks at; the predicate is evaluated
    again when some of that has changed. Other sources, such as a clock or a
    file, do not cause another evaluation.

    Attributes
    ----------
    words
        The words that were looked at, in order.
    """

    def __init__(self, graph: GraphSoFar, rule: OpenRule) -> None:
        self._graph = graph
        self._rule = rule
        self.words: dict[str, None] = {}

    @property
    def config(self) -> Config:
        """Parameters of the run."""
        return self._graph.config

    def __contains__(self, name: object) -> bool:
        name = _name_of(name)
        self.words[name] = None
        return name in self._graph.index

    def __getitem__(self, name: Named) -> TaskView:
        """Return the task `name`.

        A predicate that looks up a task which does not exist yet, but which a
        rule may still add, does not hold.
        """
        name = _name_of(name)
        self.state_of(name)
        return TaskView(self, name)

    def tasks(self, tag: str | None = None) -> list[TaskView]:
        """Return the existing tasks, all or those with a tag, in the order of their names.

        Numbers in brackets count by their value: ``p[2]`` is before ``p[10]``.
        """
        names = self._graph.names
        names = [names[i] for i in self._numbers(tag)]
        return [TaskView(self, name) for name in sorted(names, key=natural)]

    def count(self, tag: str | None = None) -> int:
        """Return the number of existing tasks, of all or of those with a tag."""
        return len(self._numbers(tag))

    def _numbers(self, tag: str | None) -> Sequence[int]:
        if tag is not None:
            return self._look(tag).tasks
        self.words[ALL] = None
        return range(len(self._graph.names))

    def count_ended(self, tag: str) -> int:
        """Return the number of tasks with a tag that have ended."""
        return self.count(tag) - self._look(tag).unfinished

    def is_tag(self, word: str) -> bool:
        """Tell whether tasks can have a word as a tag, and no task has it as its name."""
        return word not in self._graph.index and word in self._graph.by_tag

    def all_ended(self, tag: str) -> bool:
        """Tell whether all existing tasks with a tag have ended."""
        return not self._look(tag).unfinished

    def can_come(self, tag: str) -> bool:
        """Tell whether another rule may still add tasks with a tag."""
        self._look(tag)
        return self._graph.can_come(tag, self._rule)

    def _look(self, tag: str) -> Tag:
        self.words[tag] = None
        tags = self._graph.by_tag
        if tag not in tags:
            hint = did_you_mean(tag, [*tags])
            raise GraphError(f"no task is tagged {tag!r}, and no rule adds such tasks{hint}")
        return tags[tag]

    def tags_of(self, name: str) -> tuple[str, ...]:
        """Return the tags of a task."""
        return self._graph.tags.get(self._graph.index[name], ())

    def state_of(self, name: str) -> int:
        """Return the state of a task; raise NotYetError if there is none of that name."""
        self.words[name] = None
        number = self._graph.index.get(name)
        if number is None:
            self._rule.missing = name
            raise NotYetError
        return self._graph.states[number]

    def have_succeeded(self, names: Iterable[str]) -> bool:
        """Tell whether tasks have succeeded; look at none after the first that has not."""
        for name in names:  # noqa: SIM110  (each rule asks: a generator costs more than the rest)
            if self.state_of(name) != SUCCEEDED:
                return False
        return True

    def output_of(self, name: str, field: str) -> Any:
        """Return a copy of an output of a task; raise NotYetError until it has succeeded."""
        if self.state_of(name) != SUCCEEDED:
            raise NotYetError(f"task {name!r} has not succeeded: no output {field!r} to read")
        graph = self._graph
        number = graph.index[name]
        outputs = graph.wiring.outputs[number]
        if field not in outputs:
            hint = f"(outputs: {listed(outputs)}){did_you_mean(field, outputs)}"
            raise GraphError(f"{field!r} is not an output of task {name!r} {hint}")
        slot = graph.wiring.first_slot[number] + outputs.index(field)
        graph.check_kept(self._rule, number, slot)
        return graph.value(number, slot)


class Items(NamedTuple):
    """The items of an output that a map serializes apart.

    Attributes
    ----------
    source, field
        The task, and its output.
    encoded
        For each item its handle, payload and length.
    names, into
        For each item the task that receives it, and the input of these tasks.
    """

    source: str
    field: str
    encoded: Encoded
    names: list[str]
    into: str


class GraphEditor(GraphView):
    """A view of a growing graph to which the body of a rule appends.

    What the body appends becomes part of the graph, and of the view, after
    the body has returned: all of it, or nothing.
    """

    def __init__(self, graph: GraphSoFar, rule: OpenRule) -> None:
        super().__init__(graph, rule)
        self.new_tasks: dict[str, Task] = {}
        # The same names to the tags of the tasks, and to their edges.
        self.new_tags: dict[str, tuple[str, ...]] = {}
        self.new_edges: dict[str, Sources] = {}
        self.new_rules: list[Any] = []
        self.maps: list[Items] = []
        #: Whether the body has returned.
        self.ended = False

    @property
    def this(self) -> TaskView:
        """The task whose ``grow()`` is running, under its name in the graph."""
        return self[self._rule.rule.task]

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
        check_names([name])
        tags = tags if tags == () else check_tags(tags, f"tags of task {name!r}")
        self._add(name, check_task(name, task), edges_of(after, name), tags)
        return TaskView(self, name)

    def _add(self, name: str, task: Task, edges: Sources, tags: tuple[str, ...]) -> None:
        if name in self._graph.index or name in self.new_tasks:
            raise GraphError(f"task {name!r} exists already")
        task.config = self._graph.config
        if task.tags:
            words = check_tags(task.tags, f"tags of task {name!r}")
            tags = tuple(dict.fromkeys((*words, *tags)))
        self._check_open(tags)
        self.new_tasks[name] = task
        self.new_tags[name], self.new_edges[name] = tags, edges
        if grows(type(task)):
            self.add_rule(GrowRule(name, task))

    def add_edge(self, source: Named, target: Named, fields: Any = None) -> None:
        """Add an edge to a new task; `fields` as for :class:`~dagprofiler.DAG`.

        The source exists already, or was added before the target.
        """
        source, target = _name_of(source), _name_of(target)
        if target not in self.new_tasks:
            why = "the target must be a task that the same body adds"
            raise GraphError(f"{edge_text(source, target)}: {why}")
        # The tasks of a map share one list.
        self.new_edges[target] = [*self.new_edges[target], (source, fields)]

    def add_rule(self, rule: Any) -> None:
        """Add a rule; it is first evaluated after this body has been applied."""
        check_rule(rule)
        self._check_open(rule.adds)
        self.new_rules.append(rule)

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
        source, edges = _name_of(source), edges_of(after, name)
        tags = check_tags(tags, f"map {name!r}: tags")
        check_names([name])
        into = _item_input(check_task(name, task), field, name) if into is None else into
        encoded = self._encoded_items(source, field)
        names = [f"{name}[{i}]" for i in range(len(encoded))]
        for item_name in names:
            # Items share a task, or have an instance of a class each.
            self._add(item_name, check_task(item_name, task), edges, tags)
        self.maps.append(Items(source, field, encoded, names, into))
        return names

    def _encoded_items(self, source: str, field: str) -> Encoded:
        """Encode each item of an output apart."""
        value = self[source].output(field)
        is_ordered = not isinstance(value, (str, bytes, bytearray, Mapping, AbstractSet))
        if not (is_ordered and isinstance(value, Iterable)):
            what = f"output {field!r} of task {source!r} is {type(value).__name__}"
            raise GraphError(f"{what}, expected a list or another iterable of items")
        current = self._graph.current
        contract = current.contracts[self._graph.index[source]]
        encoded: Encoded = []
        for item in value:
            frames = contract.encode(item)
            handle = current.executor.put(frames)
            encoded.append((handle, *encoded_size(contract, item, frames)))
        return encoded

    def _check_open(self, tags: Iterable[str]) -> None:
        """Refuse what comes after the body has returned, and tags that the rule may not add."""
        if self.ended:
            raise GraphError(f"rule {self._rule.name!r}: its body has returned, it adds no more")
        for tag in tags:
            if tag not in self._rule.adds:
                raise GraphError(f"the rule may not add tag {tag!r}: declare adds=[{tag!r}]")

    def tags_of(self, name: str) -> tuple[str, ...]:
        """Return the tags of a task, which may be a new one."""
        return self.new_tags[name] if name in self.new_tags else super().tags_of(name)

    def state_of(self, name: str) -> int:
        """Return the state of a task; one that the body has added is pending."""
        if name in self._graph.index:
            return super().state_of(name)
        if name in self.new_tasks:
            return PENDING
        raise GraphError(self._graph.no_task(name))


class GrowRule:
    """The rule of a task that defines ``grow()``.

    Attributes
    ----------
    task
        The name of the task in the graph.
    """

    def __init__(self, name: str, task: Any) -> None:
        self.name = f"grow of {name}"
        self.adds = check_tags(task.adds, f"task {name!r}: adds")
        self.reads = (name,)
        self.needs = ()
        self.then = task.grow
        self.task = name

    def when(self, graph: GraphView) -> bool:
        """Tell whether the task has succeeded."""
        return graph[self.task].succeeded


def check_rule(rule: Any) -> None:
    """Raise a DeclarationError unless `rule` is a rule."""
    if not (hasattr(rule, "when") and hasattr(rule, "then")):
        raise DeclarationError(f"rules: expected a Rule, got {short_repr(rule)}")


def edges_of(after: Iterable[Any] | Named, target: str) -> Sources:
    """Return source and fields of each edge in the argument `after`, or raise a GraphError."""
    if isinstance(after, (str, TaskView)):
        return [(_name_of(after), None)]
    try:
        pairs = [(entry, None) if isinstance(entry, (str, TaskView)) else entry for entry in after]
        return [(_name_of(source), fields) for source, fields in pairs]
    except (TypeError, ValueError) as error:
        what = "after must be a list of tasks and pairs of (task, fields)"
        raise GraphError(f"task {target!r}: {what}, got {short_repr(after)}") from error


def names_of(tasks: Any) -> Any:
    """Return tasks or tags with each view replaced by its name."""
    if not tasks or not isinstance(tasks, (list, tuple, set, frozenset)):
        return tasks
    return [task.name if isinstance(task, TaskView) else task for task in tasks]


def _name_of(task: object) -> str:
    if isinstance(task, str):
        return task
    if isinstance(task, TaskView):
        return task.name
    raise GraphError(f"expected a task of the graph or its name, got {short_repr(task)}")


def _item_input(task: Task, field: str, name: str) -> str:
    """Return the input that receives an item of `field`."""
    if field in task.inputs:
        return field
    if len(task.inputs) == 1:
        return task.inputs[0]
    what = f"into=... must name the input that receives an item of {field!r}"
    raise GraphError(f"tasks {name!r}: {what} (inputs: {listed(task.inputs)})")
