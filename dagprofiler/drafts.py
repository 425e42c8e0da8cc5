"""A growing graph as the bodies of rules see it: they append to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, NamedTuple

from dagprofiler.arguments import check_names, check_task
from dagprofiler.edges import field_problem
from dagprofiler.errors import GraphError, SerializationError, describe, short_repr
from dagprofiler.openrules import Behind, check_rule
from dagprofiler.pipeline import encoded_size
from dagprofiler.task import Task, check_tags, instance_of
from dagprofiler.views import SUCCEEDED, GraphView, TaskView

if TYPE_CHECKING:
    from typing import Union

    from dagprofiler.openrules import OpenRule
    from dagprofiler.views import GrowingGraph

    #: A task by its name, or as a view of it.
    Named = Union[str, "TaskView"]

#: Source and output to its items: encoded, their payload and their length.
Items = dict[tuple[str, str], list[tuple[Any, int, int]]]

__all__ = ["Draft", "Items", "Mapped", "edges_of"]


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


class Draft(GraphView):
    """A growing graph as the body of a rule sees it: it may append.

    What is appended is not part of the graph, and of what the view shows,
    before the body has returned; then all of it is, or nothing.
    """

    def __init__(self, growing: GrowingGraph, rule: OpenRule) -> None:
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
        if not isinstance(rule, Behind):
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
