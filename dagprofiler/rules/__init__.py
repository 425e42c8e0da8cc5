"""Rules: they add tasks to a graph while it runs.

A rule is a pair: a predicate, which reads the graph and returns whether the
rule can fire, and a body, which then appends to the graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Callable

from dagprofiler._util import Values
from dagprofiler._util.checks import boolean, integer
from dagprofiler.engine.contracts import check_task
from dagprofiler.errors import DeclarationError, short_repr
from dagprofiler.rules.views import (
    AnyTask,
    GraphEditor,
    GraphView,
    Sources,
    TaskView,
    check_rule,
    edges_of,
    names_of,
)
from dagprofiler.task import Task, check_tags

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
    """Appends to a graph while it runs: once, as soon as a predicate holds.

    Parameters
    ----------
    when
        The predicate: takes a :class:`~dagprofiler.rules.GraphView`, and
        returns a bool. Evaluated again only when something it looked at changed.
    then
        The body: takes a :class:`~dagprofiler.rules.GraphEditor` and appends to it. What it
        appends is applied whole, or not at all.
    name
        The rule's name in errors and profiles; by default the body's name.
    adds
        Tags of the tasks that the body, or the rules that it adds, may add.
    reads
        Names, views or tags of the tasks whose outputs the rule reads, or
        connects to tasks that it adds: these outputs are kept until it has
        fired. The tasks that predicates of this module wait for are included.

    Raises
    ------
    DeclarationError
        If an argument has the wrong type.

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
    ...     then=lambda graph: graph.add_task("report", report, after="measure"),
    ... )
    >>> DAG({"measure": measure}, rules=[large]).run().final_outputs
    {'text': '3 is large'}
    """

    def __init__(
        self,
        when: Callable[[GraphView], bool],
        then: Callable[[GraphEditor], object],
        name: str | None = None,
        adds: Iterable[str] = (),
        reads: Iterable[str | TaskView] = (),
    ) -> None:
        if name is None:
            name = getattr(then, "__name__", type(then).__name__)
        if not isinstance(name, str) or not name:
            raise DeclarationError(f"Rule: name must be a non-empty string, got {short_repr(name)}")
        if not (callable(when) and callable(then)):
            got = f"got {short_repr(when)} and {short_repr(then)}"
            raise DeclarationError(f"rule {name!r}: when and then must be callable, {got}")
        self.when = when
        self.then = then
        self.name = name
        self.adds = check_tags(adds, f"rule {name!r}: adds")
        declared = check_tags(names_of(reads), f"rule {name!r}: reads")
        self.reads = (*declared, *getattr(when, "reads", ()))
        #: Names of tasks that must have succeeded before the predicate can hold.
        self.needs: tuple[str, ...] = getattr(when, "needs", ())

    def __repr__(self) -> str:
        return f"<Rule {self.name!r}>"


def rule(
    when: Callable[[GraphView], bool],
    *,
    name: str | None = None,
    adds: Iterable[str] = (),
    reads: Iterable[str | TaskView] = (),
) -> Callable[[Callable[[GraphEditor], object]], Rule]:
    """Make a rule of the decorated function, its body; parameters as for :class:`Rule`.

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


@dataclass(frozen=True)
class Rules:
    """Rules of a graph, and the settings that they share.

    Parameters
    ----------
    rules
        The rules, evaluated in this order.
    strict
        Whether a rule that never fires is an error.
    max_firings
        How often rules may fire in one round; this limit ends rules that trigger themselves.
    """

    rules: Iterable[Any] = ()
    strict: bool = False
    max_firings: int = 100_000

    def __post_init__(self) -> None:
        if not isinstance(self.rules, Iterable) or isinstance(self.rules, (str, Mapping)):
            raise DeclarationError(f"rules must be a list of rules, got {short_repr(self.rules)}")
        object.__setattr__(self, "rules", tuple(self.rules))
        for rule in self.rules:
            check_rule(rule)
        boolean("Rules: strict", self.strict, error=DeclarationError)
        most = integer("Rules: max_firings", self.max_firings, error=DeclarationError)
        object.__setattr__(self, "max_firings", most)


class Predicate:
    """A predicate, and the names and tags of the tasks that it waits for.

    Parameters
    ----------
    reads
        These names and tags: a rule with the predicate may read the outputs of the tasks.
    holds, arguments
        A function, and what it takes after the view of the graph.
    needs
        Tasks that must have succeeded; while the first is pending, nobody asks the function.
    """

    def __init__(
        self,
        reads: tuple[str, ...],
        holds: Callable[..., bool],
        *arguments: Any,
        needs: tuple[str, ...] = (),
    ) -> None:
        self.reads = reads
        self.needs = needs
        self._holds = holds
        self._arguments = arguments

    def __call__(self, graph: GraphView) -> bool:
        return self._holds(graph, *self._arguments)


def after(*tasks: str | TaskView) -> Predicate:
    """Wait until these tasks, given by name or as views, have succeeded."""
    names = check_tags(names_of(tasks), "after()")
    return Predicate(names, GraphView.have_succeeded, names, needs=names)


def complete(tag: str) -> Predicate:
    """Wait until no rule can add a task with this tag; existing ones may still be pending."""
    return Predicate(check_tags([tag], "complete()"), _complete, tag, [])


def _complete(graph: GraphView, tag: str, after: Sources) -> bool:
    _require(after, graph)
    return not graph.can_come(tag)


def all_succeeded(tag: str) -> Predicate:
    """Wait until no rule can add a task with this tag, and all existing ones have succeeded."""
    return Predicate(check_tags([tag], "all_succeeded()"), _all_succeeded, tag)


def _all_succeeded(graph: GraphView, tag: str) -> bool:
    if graph.can_come(tag) or not graph.all_ended(tag):
        return False
    return all(task.succeeded for task in graph.tasks(tag))


def when_output(task: str | TaskView, field: str, condition: Callable[[Any], bool]) -> Predicate:
    """Wait until a task has succeeded and its output satisfies a condition."""
    names = check_tags(names_of([task]), "when_output()")
    return Predicate(names, _when_output, names[0], field, condition, needs=names)


def _when_output(graph: GraphView, task: str, field: str, condition: Callable[[Any], bool]) -> bool:
    return condition(graph[task].output(field))


def count(tag: str, n: int) -> Predicate:
    """Wait until there are `n` tasks with this tag; they may still be pending."""
    least = integer("count(): n", n, error=DeclarationError)
    return Predicate(check_tags([tag], "count()"), _count, tag, least)


def _count(graph: GraphView, tag: str, n: int) -> bool:
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
        The name of a task, or of another map, to map over each of its tasks;
        and the output whose items are mapped.
    task
        A task class, to make an instance for each item, or a task that all
        items share.
    name
        Name of the map: tasks are ``name[i]``, those of a map of a map
        ``name[i][j]``, and are tagged ``name``. By default the name of the
        task class.
    into
        The input that receives the item; by default the input with the name
        of the output, or the only input.
    after
        Sources of further edges to each task, as for
        :meth:`GraphEditor.add_task <dagprofiler.rules.GraphEditor.add_task>`.
    tags
        Further tags of the tasks, in addition to `name`.
    """
    name = _default_name(task) if name is None else name
    tags = (name, *check_tags(tags, f"map {name!r}: tags"))
    return _map(source, field, task, name, into=into, after=edges_of(after, name), tags=tags)


def _map(source: str, field: str, task: AnyTask, name: str, **options: Any) -> Rule:
    """Return the rule of a map over one task, or over each with a tag; see :func:`map_over`."""
    after = options["after"]
    return Rule(
        Predicate((source, *(name for name, _ in after)), _can_map, source, after),
        partial(_add_map, source, field, task, name, options),
        name=f"map {name}",
        adds=options["tags"],
    )


def _can_map(graph: GraphView, source: str, after: Sources) -> bool:
    _require(after, graph)
    return not graph.can_come(source) if graph.is_tag(source) else graph[source].succeeded


def _add_map(
    source: str, field: str, task: AnyTask, name: str, options: Values, graph: GraphEditor
) -> None:
    if not graph.is_tag(source):
        graph.map(source, field, task, name, **options)
        return
    for number, mapped in enumerate(graph.tasks(source)):
        # The map over process[3] is called name[3].
        is_item = mapped.name.startswith(f"{source}[")
        place = mapped.name[len(source) :] if is_item else f"[{number}]"
        graph.add_rule(_map(mapped.name, field, task, f"{name}{place}", **options))


def _require(after: Sources, graph: GraphView) -> None:
    """Raise NotYetError, so that the predicate does not hold, until all sources of edges exist."""
    for name, _ in after:
        graph[name]


def reduce(
    source: str,
    task: Task | type[Task],
    *,
    name: str | None = None,
    fields: Any = None,
    after: Iterable[Any] = (),
    tags: Iterable[str] = (),
) -> Rule:
    """Return a rule that adds one task after all tasks of a map, or with a tag.

    The rule fires as soon as no more of these tasks can be added. The task
    gathers values in the order of the list that was mapped; a map over
    nothing gives an empty list.

    Parameters
    ----------
    source
        The name of a map, or a tag.
    task
        A task, or a task class. Its ``gathers`` must name the fields that it
        receives from each source.
    name
        Name of the task; by default the name of its class.
    fields
        Fields that the edges carry, as for :class:`~dagprofiler.DAG`.
    after
        Sources of further edges to the task.
    tags
        Tags of the task.
    """
    name = _default_name(task) if name is None else name
    tags = check_tags(tags, f"reduce {name!r}: tags")
    edges = edges_of(after, name)
    reads = (*check_tags([source], "reduce()"), *(name for name, _ in edges))
    return Rule(
        Predicate(reads, _complete, source, edges),
        partial(_reduce, source, name, task, fields, edges, tags),
        name=f"reduce {name}",
        adds=tags,
    )


def _reduce(
    tag: str, name: str, task: AnyTask, fields: Any, after: Sources, tags: Any, graph: GraphEditor
) -> None:
    sources = [(view.name, fields) for view in graph.tasks(tag)]
    graph.add_task(name, task, after=[*after, *sources], tags=tags)


def _default_name(task: AnyTask) -> str:
    if isinstance(task, type) and issubclass(task, Task):
        return task.__name__
    return check_task("", task).name
