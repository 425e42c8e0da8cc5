"""What the tasks of an instance refer to: each other, files, and machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dagprofiler.errors import counted, json_path
from dagprofiler.importers.wfreading import quote, refusal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dagprofiler.importers.wfinstances import Instance, Task
    from dagprofiler.importers.wfreading import Path

__all__ = ["check_files", "check_machines", "find_edges", "resolve"]


def find_edges(instance: Instance) -> None:
    """Find the edges of an instance, and the files that travel on each."""
    tasks = instance.tasks
    edges = _declared(tasks)
    declared = bool(edges)
    parents: dict[int, list[int]] = {}
    for source, target in edges:
        parents.setdefault(target, []).append(source)
    producers: dict[str, dict[int, None]] = {}
    for i, task in enumerate(tasks):
        for file in task.outputs or ():
            producers.setdefault(file, {})[i] = None
    undeclared = 0
    for i, task in enumerate(tasks):
        above = parents.get(i, ())
        for file in task.inputs or ():
            makers = producers.get(file, {})
            if not declared:
                sources = [source for source in makers if source != i]
            elif len(makers) < len(above):
                sources = [source for source in makers if (source, i) in edges]
            else:
                # Whoever shares a file with thousands may have but one of them as a parent.
                sources = [source for source in above if source in makers]
            for source in sources:
                edges.setdefault((source, i), []).append(file)
            undeclared += len(makers) - (i in makers) - len(sources)
    instance.edges = edges
    if edges and not declared:
        instance.notes.append("no task names parents or children: the edges follow from the files")
    if undeclared:
        instance.notes.append(
            f"{counted(undeclared, 'time')} a task reads a file of another that is not among its "
            "parents: there is no edge"
        )


def resolve(tasks: list[Task]) -> None:
    """Turn references by identifier into names, by which tasks refer to each other before 1.5."""
    names = {task.reference for task in tasks}
    by_id: dict[str, str] = {}
    for task in tasks:
        if task.id and task.id not in names:
            by_id.setdefault(task.id, task.reference)
    if not by_id:
        return
    for task in tasks:
        for references in (task.parents, task.children):
            if references is not None:
                references[:] = [by_id.get(reference, reference) for reference in references]


def check_files(entry: Mapping[str, Any], path: Path, sizes: Mapping[str, int]) -> None:
    """Refuse a task that reads or writes a file that is not listed."""
    for key in ("inputFiles", "outputFiles"):
        for i, file in enumerate(entry.get(key) or ()):
            if file not in sizes:
                raise refusal(
                    f"file {quote(file)} is not in workflow.specification.files, so that it "
                    "has no size",
                    *(*path, key, i),
                )


def check_machines(instance: Instance) -> None:
    """Refuse a task that ran on a machine that is not listed, if any are."""
    names = {machine["nodeName"] for machine in instance.machines}
    for task in instance.tasks:
        machines = task.extras.get("machines")
        if machines is None:
            continue
        if not isinstance(machines, list) or not all(isinstance(name, str) for name in machines):
            raise refusal(f"machines of task {quote(task.reference)} are no list", *task.path)
        for name in machines:
            if names and name not in names:
                raise refusal(
                    f"task {quote(task.reference)} ran on {quote(name)}, which is not among "
                    "the machines",
                    *task.path,
                )


def _declared(tasks: Sequence[Task]) -> dict[tuple[int, int], list[str]]:
    """Return the edges that tasks name; a place for files with each."""
    number = {task.reference: i for i, task in enumerate(tasks)}
    above = _pairs(tasks, "parents", number)
    below = _pairs(tasks, "children", number)
    for pairs, others, end, key in ((above, below, 0, "children"), (below, above, 1, "parents")):
        for pair, path in pairs.items():
            lacking, other = tasks[pair[end]], tasks[pair[1 - end]]
            if pair not in others and getattr(lacking, key) is not None:
                raise refusal(
                    f"task {quote(other.reference)} names {quote(lacking.reference)}, whose "
                    f"{key}, at {json_path((*lacking.path, key))}, do not name it",
                    *path,
                )
    return {pair: [] for pair in {**above, **below}}


def _pairs(
    tasks: Sequence[Task], key: str, number: Mapping[str, int]
) -> dict[tuple[int, int], Path]:
    """Return source and target of the edges that one kind of lists names, and the places."""
    pairs: dict[tuple[int, int], Path] = {}
    for i, task in enumerate(tasks):
        for k, reference in enumerate(getattr(task, key) or ()):
            other = number.get(reference)
            path = (*task.path, key, k)
            if other is None:
                raise refusal(f"there is no task {quote(reference)}", *path)
            if other == i:
                raise refusal(f"task {quote(reference)} is among its own {key}: a cycle", *path)
            pairs[(other, i) if key == "parents" else (i, other)] = path
    return pairs
