"""Rules: what lets a graph grow while it runs.

A rule is a pair: a predicate, which looks at the graph and says whether enough
is known, and a body, which then appends to it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Callable

from dagprofiler.errors import DeclarationError, short_repr
from dagprofiler.rules.views import GraphEditor, GraphView, Rules, TaskView, edges_of
from dagprofiler.task import Task, check_tags

if TYPE_CHECKING:
    from collections.abc import Iterable


__all__ = [
    "GraphEditor",
    "GraphView",
    "Rule",
    "Rules",
    "TaskView",
    "after",
    "all_succeeded",
    "complete",
    "count",
    "map_over",
    "reduce",
    "rule",
    "when_output",
]


class Rule:
    """What is appended to a graph, and when: once, as soon as the predicate holds.

    Parameters
    ----------
    when
        The predicate: takes a :class:`~dagprofiler.rules.GraphView`, and
        returns a bool. Asked again only when something it looked at changed.
    then
        The body: takes a :class:`~dagprofiler.rules.GraphEditor`, appends to it, and
        returns None. What it appends is applied whole, or not at all.
    name
        What errors and profiles call it; by default the body's name.
    adds
        Tags that tasks may have which the body adds, or rules that it adds.
    reads
        Names and tags of the tasks whose outputs it reads, or passes on to
        tasks that it adds: they are kept until it has fired. What the
        predicates of this module wait for is always among them.

    Raises
    ------
    DeclarationError
        If any of these is something else.

    Examples
    --------
    >>> from dagprofiler import DAG, task
    >>> @task(outputs=["n"])
    ... def measure():
    ...     return {"n": 3}
    >>> @task(outputs=["text"])
    ... def report(n):
    ...     return {"text": f"{n} is large"}
    >>> large = Rule(
    ...     when=when_output("measure", "n", lambda n: n > 2),
    ...     then=lambda graph: graph.add_task("report", report, after="measure") and None,
    ... )
    >>> DAG({"measure": measure}, rules=[large]).run().final_outputs
    {'text': '3 is large'}
    """

    def __init__(
        self,
        when: Callable[[GraphView], bool],
        then: Callable[[GraphEditor], None],
        name: str | None = None,
        adds: Iterable[str] = (),
        reads: Iterable[str] = (),
    ) -> None:
        if name is None:
            name = getattr(then, "__name__", type(then).__name__)
        if not isinstance(name, str) or not name:
            raise DeclarationError(f"Rule: name must be a non-empty string, got {short_repr(name)}")
        where = f"rule {name!r}"
        if not callable(when):
            raise DeclarationError(f"{where}: when must be callable, got {short_repr(when)}")
        if not callable(then):
            raise DeclarationError(f"{where}: then must be callable, got {short_repr(then)}")
        self.when = when
        self.then = then
        self.name = name
        self.adds = adds if adds == () else check_tags(adds, f"{where}: adds")
        declared = reads if reads == () else check_tags(reads, f"{where}: reads")
        self.reads = (*declared, *getattr(when, "reads", ()))

    def __repr__(self) -> str:
        return f"<Rule {self.name!r}>"


def rule(
    when: Callable[[GraphView], bool],
    *,
    name: str | None = None,
    adds: Iterable[str] = (),
    reads: Iterable[str] = (),
) -> Callable[[Callable[[GraphEditor], None]], Rule]:
    """Make a rule of the function that is its body; parameters as of :class:`Rule`.

    Examples
    --------
    >>> from dagprofiler import task
    >>> @task(outputs=["text"])
    ... def report(n):
    ...     return {"text": f"{n} is large"}
    >>> @rule(when_output("measure", "n", lambda n: n > 2))
    ... def report_it(graph):
    ...     graph.add_task("report", report, after="measure")
    >>> report_it
    <Rule 'report_it'>
    """
    return lambda then: Rule(when, then, name, adds, reads)


class Predicate:
    """A predicate, and the names and tags of what it waits for."""

    __slots__ = ("holds", "reads")

    def __init__(self, holds: Callable[[GraphView], bool], reads: tuple[str, ...]) -> None:
        self.holds = holds
        self.reads = reads

    def __call__(self, graph: GraphView) -> bool:
        return self.holds(graph)


def after(*tasks: str) -> Predicate:
    """Wait until these tasks have succeeded."""
    return Predicate(partial(_after, tasks), check_tags(tasks, "after()"))


def _after(tasks: tuple[str, ...], graph: GraphView) -> bool:
    for name in tasks:  # noqa: SIM110  (a chain of rules asks this for each task)
        if not graph[name].succeeded:
            return False
    return True


def complete(tag: str) -> Predicate:
    """Wait until no more tasks with this tag can come; those there are may be yet to run."""
    return Predicate(partial(_complete, tag), check_tags([tag], "complete()"))


def _complete(tag: str, graph: GraphView) -> bool:
    return not graph.can_come(tag)


def all_succeeded(tag: str) -> Predicate:
    """Wait until no more tasks with this tag can come, and all there are have succeeded."""
    return Predicate(partial(_all_succeeded, tag), check_tags([tag], "all_succeeded()"))


def _all_succeeded(tag: str, graph: GraphView) -> bool:
    if graph.can_come(tag) or not graph.all_ended(tag):
        return False
    return all(task.succeeded for task in graph.tasks(tag))


def when_output(task: str, field: str, condition: Callable[[Any], bool]) -> Predicate:
    """Wait until a task has succeeded, and see whether an output satisfies a condition."""
    if not callable(condition):
        raise DeclarationError(
            f"when_output(): condition must be callable, got {short_repr(condition)}"
        )
    return Predicate(
        partial(_when_output, task, field, condition), check_tags([task], "when_output()")
    )


def _when_output(task: str, field: str, condition: Callable[[Any], bool], graph: GraphView) -> bool:
    return condition(graph[task].output(field))


def count(tag: str, n: int) -> Predicate:
    """Wait until there are `n` tasks with this tag; they may be yet to run."""
    if not isinstance(n, int) or isinstance(n, bool):
        raise DeclarationError(f"count(): n must be an integer, got {short_repr(n)}")
    return Predicate(partial(_count, tag, n), check_tags([tag], "count()"))


def _count(tag: str, n: int, graph: GraphView) -> bool:
    return graph.count(tag) >= n


def map_over(
    source: str,
    field: str,
    task: Task | type[Task],
    *,
    name: str | None = None,
    into: str | None = None,
    after: Iterable[Any] = (),
    tags: Iterable[str] = (),
) -> Rule:
    """Return a rule that adds one task for each item of an output.

    Parameters
    ----------
    source, field
        A task, or the name of another map, over each of whose tasks this one
        goes; and the output whose items are mapped.
    task
        A task class, of which an instance is made for each item, or a task,
        which they share.
    name
        Of the map: tasks are ``name[i]``, those of a map of a map
        ``name[i][j]``, and they are tagged with it. By default the name of
        the task class.
    into
        The input that the item goes to; by default the one with the name of
        the output, or the only one.
    after
        Where further edges to each of the tasks come from, as for
        :meth:`GraphEditor.add_task <dagprofiler.rules.GraphEditor.add_task>`.
    tags
        Tags beside `name`.
    """
    name = _name_of(task) if name is None else name
    edges = edges_of(after, name)
    return _map_rule(
        source, field, task, name, into, edges, (name, *check_tags(tags, f"map {name!r}: tags"))
    )


def _map_rule(
    source: str,
    field: str,
    task: Task | type[Task],
    name: str,
    into: str | None,
    after: list[tuple[str, Any]],
    tags: tuple[str, ...],
) -> Rule:
    return Rule(
        partial(_can_map, source, after),
        partial(_map, source, field, task, name, into, after, tags),
        name=f"map {name}",
        adds=tags,
        reads=[source, *(one for one, _ in after)],
    )


def _can_map(source: str, after: list[tuple[str, Any]], graph: GraphView) -> bool:
    _see(after, graph)
    if graph.is_tag(source):
        return not graph.can_come(source)
    return graph[source].succeeded


def _see(after: list[tuple[str, Any]], graph: GraphView) -> None:
    """Let a predicate not hold before all that edges come from is there."""
    for name, _ in after:
        graph[name]


def _map(
    source: str,
    field: str,
    task: Task | type[Task],
    name: str,
    into: str | None,
    after: list[tuple[str, Any]],
    tags: tuple[str, ...],
    graph: GraphEditor,
) -> None:
    if not graph.is_tag(source):
        graph.map(source, field, task, name, into=into, after=after, tags=tags)
        return
    for number, one in enumerate(graph.tasks(source)):
        # That over process[3] is called name[3].
        place = one.name[len(source) :] if one.name.startswith(f"{source}[") else f"[{number}]"
        graph.add_rule(_map_rule(one.name, field, task, f"{name}{place}", into, after, tags))


def reduce(
    source: str,
    task: Task | type[Task],
    *,
    name: str | None = None,
    fields: Any = None,
    after: Iterable[Any] = (),
    tags: Iterable[str] = (),
) -> Rule:
    """Return a rule that adds one task behind all tasks of a map, or with a tag.

    It is added as soon as no more of them can come. What it gathers comes in
    the order of the list that was mapped; of a map over nothing that is an
    empty list.

    Parameters
    ----------
    source
        The name of a map, or a tag.
    task
        A task, or a task class. What it receives of each has to be in its
        ``gathers``.
    name
        Of the task; by default that of its class.
    fields
        What the edges carry, as for :class:`~dagprofiler.DAG`.
    after
        Where further edges to it come from.
    tags
        Tags that it has.
    """
    name = _name_of(task) if name is None else name
    tags = check_tags(tags, f"reduce {name!r}: tags")
    edges = edges_of(after, name)
    return Rule(
        Predicate(partial(_can_reduce, source, edges), check_tags([source], "reduce()")),
        partial(_reduce, source, task, name, fields, edges, tags),
        name=f"reduce {name}",
        adds=tags,
        reads=[one for one, _ in edges],
    )


def _can_reduce(source: str, after: list[tuple[str, Any]], graph: GraphView) -> bool:
    _see(after, graph)
    return not graph.can_come(source)


def _reduce(
    source: str,
    task: Task | type[Task],
    name: str,
    fields: Any,
    after: list[tuple[str, Any]],
    tags: tuple[str, ...],
    graph: GraphEditor,
) -> None:
    behind: list[Any] = graph.tasks(source)
    if fields is not None:
        behind = [(one, fields) for one in behind]
    graph.add_task(name, task, after=[*after, *behind], tags=tags)


def _name_of(task: Task | type[Task]) -> str:
    if isinstance(task, type) and issubclass(task, Task):
        return task.__name__
    if isinstance(task, Task):
        return task.name
    raise DeclarationError(f"expected a Task or a class of them, got {short_repr(task)}")
