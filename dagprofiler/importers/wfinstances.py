"""Instances of WfFormat 1.3 to 1.6, checked and brought to one shape."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from dagprofiler.documents import mapping_in
from dagprofiler.errors import counted, json_path
from dagprofiler.importers.wflinks import check_files, check_machines, find_edges, resolve
from dagprofiler.importers.wfreading import (
    bytes_of,
    check,
    name_of,
    number_of,
    objects_of,
    part_of,
    quote,
    refusal,
    texts_of,
)
from dagprofiler.wfnames import METERED, NESTED, OLD_CPU_NAMES, OLD_NAMES, VERSIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dagprofiler.importers.wfreading import Path

__all__ = ["Instance", "Task", "read_instance"]

#: What tasks hold that goes into other places of a profile, in the words of 1.5 and of 1.4.
_PLACED = {
    *("name", "originalName", "id", "parents", "children", "files"),
    *("runtimeInSeconds", "runtime", "avgCPU", *METERED),
    *("bytesRead", "bytesWritten", "memory", "machine", *OLD_NAMES.values()),
}

_NEW_NAMES = {old: new for new, old in OLD_NAMES.items()}
_NEW_CPU_NAMES = {old: new for new, old in OLD_CPU_NAMES.items()}


class Task(NamedTuple):
    """One task of an instance.

    Attributes
    ----------
    path
        Where it stands.
    reference
        What other tasks refer to it by, which is distinct: its ``id``, before 1.5 its ``name``.
    name, id
        As the instance has them; the identifier may be empty before 1.5.
    parents, children, inputs, outputs
        None if the instance does not say.
    runtime_s
        In seconds.
    figures
        ``avgCPU`` in percent, and what `METERED` names, in bytes.
    extras
        What else is known of it, in the words of 1.5.
    """

    path: Path
    reference: str
    name: str
    id: str
    parents: list[str] | None
    children: list[str] | None
    inputs: list[str] | None
    outputs: list[str] | None
    runtime_s: float | None
    figures: dict[str, Any]
    extras: dict[str, Any]


@dataclass
class Instance:
    """A workflow instance.

    Attributes
    ----------
    version
        Of WfFormat.
    tasks
        At least one.
    file_bytes
        Size of each file, in bytes; None if the instance lists no files.
    makespan_s, executed_at
        In seconds; as the instance has it.
    machines
        In the words of 1.5, each with a ``nodeName``.
    kept
        Name, description, date, author and runtime system of the instance.
    edges
        Numbers of source and target to the files between them.
    notes
        What the files say that parents and children do not.
    """

    version: str
    tasks: list[Task]
    file_bytes: dict[str, int] | None
    makespan_s: float | None
    executed_at: str | None
    machines: list[dict[str, Any]]
    kept: dict[str, Any]
    edges: dict[tuple[int, int], list[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def read_instance(document: Any) -> Instance:
    """Return the instance that a document holds; FormatError, with the place, if it is none."""
    check(document, dict, ())
    version = document.get("schemaVersion")
    if version not in VERSIONS:
        known = ", ".join(VERSIONS)
        what = "it is no WfFormat" if version is None else f"got {quote(version)}"
        raise refusal(f"expected a version of WfFormat ({known}); {what}", "schemaVersion")
    workflow = part_of(document, "workflow", dict, ())
    if version in NESTED:
        instance = _nested(workflow, version)
    else:
        system = mapping_in(document, "wms") or mapping_in(document, "runtimeSystem")
        # Before 1.4 these were in kilobytes, but for what Pegasus wrote.
        in_bytes = "pegasus" in str(system.get("name")).lower()
        instance = _flat(workflow, version, 1 if in_bytes else 1000)
    for key, kept in (
        ("name", "name"),
        ("description", "description"),
        ("createdAt", "created_at"),
    ):
        if document.get(key) is not None:
            instance.kept[kept] = part_of(document, key, str, ())
    for key, kept in (("author", "author"), ("runtimeSystem", "runtime_system")):
        old = "wms" if key == "runtimeSystem" and key not in document else key
        if document.get(old) is not None:
            instance.kept[kept] = part_of(document, old, dict, ())
    check_machines(instance)
    find_edges(instance)
    return instance


def _nested(workflow: Mapping[str, Any], version: str) -> Instance:
    """Read the workflow of 1.5 and 1.6."""
    above = ("workflow", "specification")
    specification = part_of(workflow, "specification", dict, ("workflow",))
    entries = objects_of(specification, "tasks", above)
    file_bytes = None
    if specification.get("files") is not None:
        file_bytes = _file_sizes(
            objects_of(specification, "files", above, empty=True), (*above, "files")
        )
    below = ("workflow", "execution")
    execution = {}
    if workflow.get("execution") is not None:
        execution = part_of(workflow, "execution", dict, ("workflow",))
    executed = _executed(execution, below)
    tasks = []
    for i, entry in enumerate(entries):
        path: Path = (*above, "tasks", i)
        identifier = name_of(entry, "id", path)
        place, attributes = executed.pop(identifier, (path, {}))
        tasks.append(
            Task(
                path,
                identifier,
                name_of(entry, "name", path),
                identifier,
                texts_of(entry, "parents", path),
                texts_of(entry, "children", path),
                texts_of(entry, "inputFiles", path),
                texts_of(entry, "outputFiles", path),
                _seconds(attributes, ("runtimeInSeconds",), place),
                _figures(attributes, place, {}),
                {key: value for key, value in attributes.items() if key not in _PLACED},
            )
        )
        if file_bytes is not None:
            check_files(entry, path, file_bytes)
    _check_distinct(tasks)
    if executed:
        identifier, (place, _) = next(iter(executed.items()))
        raise refusal(f"there is no task {quote(identifier)}", *place, "id")
    return Instance(
        version,
        tasks,
        file_bytes,
        _seconds(execution, ("makespanInSeconds",), below),
        _date(execution, below),
        _machines(execution, below, {}),
        {},
    )


def _executed(execution: Mapping[str, Any], path: Path) -> dict[str, tuple[Path, dict[str, Any]]]:
    """Return place and entry of each executed task by its identifier."""
    found: dict[str, tuple[Path, dict[str, Any]]] = {}
    if not execution:
        return found
    for i, entry in enumerate(objects_of(execution, "tasks", path)):
        place: Path = (*path, "tasks", i)
        identifier = name_of(entry, "id", place)
        if identifier in found:
            first = json_path(found[identifier][0])
            raise refusal(f"task {quote(identifier)} is listed before, at {first}", *place, "id")
        if entry.get("runtimeInSeconds") is None:
            raise refusal(
                f"task {quote(identifier)} has no runtimeInSeconds; one that did not run is not "
                "listed here",
                *place,
            )
        found[identifier] = (place, entry)
    return found


def _flat(workflow: Mapping[str, Any], version: str, byte_scale: int) -> Instance:
    """Read the workflow of 1.3 and 1.4."""
    above: Path = ("workflow",)
    file_bytes: dict[str, int] = {}
    tasks = []
    for i, entry in enumerate(objects_of(workflow, "tasks", above)):
        path: Path = (*above, "tasks", i)
        name = name_of(entry, "name", path)
        inputs = outputs = None
        if entry.get("files") is not None:
            inputs, outputs = _linked_files(entry, path, file_bytes)
        extras = {
            _NEW_NAMES.get(key, key): value
            for key, value in entry.items()
            if key not in _PLACED or key in _NEW_NAMES
        }
        if entry.get("machine") is not None:
            extras["machines"] = [name_of(entry, "machine", path)]
        tasks.append(
            Task(
                path,
                name,
                entry["originalName"] if isinstance(entry.get("originalName"), str) else name,
                entry["id"] if isinstance(entry.get("id"), str) else "",
                texts_of(entry, "parents", path),
                texts_of(entry, "children", path),
                inputs,
                outputs,
                _seconds(entry, ("runtimeInSeconds", "runtime"), path),
                _figures(
                    entry,
                    path,
                    {
                        "readBytes": ("bytesRead", byte_scale),
                        "writtenBytes": ("bytesWritten", byte_scale),
                        "memoryInBytes": ("memory", 1000),
                    },
                ),
                extras,
            )
        )
    _check_distinct(tasks)
    resolve(tasks)
    return Instance(
        version,
        tasks,
        file_bytes,
        _seconds(workflow, ("makespanInSeconds", "makespan"), above),
        _date(workflow, above),
        _machines(workflow, above, _NEW_CPU_NAMES),
        {},
    )


def _linked_files(
    entry: Mapping[str, Any], path: Path, file_bytes: dict[str, int]
) -> tuple[list[str], list[str]]:
    """Return the files that a task reads and writes, and note their sizes."""
    files: dict[str, dict[str, None]] = {"input": {}, "output": {}}
    for i, file in enumerate(objects_of(entry, "files", path, empty=True)):
        place: Path = (*path, "files", i)
        name = str(file.get("path") or "") + name_of(file, "name", place)
        # What 1.3 calls size is in bytes in the instances that there are, whatever its schema says.
        key = "sizeInBytes" if "sizeInBytes" in file else "size"
        size = bytes_of(file, key, place)
        if file_bytes.setdefault(name, size) != size:
            raise refusal(
                f"file {quote(name)} has {counted(size, 'byte')} here and {file_bytes[name]:,} "
                "elsewhere",
                *(*place, key),
            )
        link = file.get("link")
        if link not in ("input", "output"):
            raise refusal(f"expected 'input' or 'output', got {quote(link)}", *place, "link")
        files[link][name] = None
    return list(files["input"]), list(files["output"])


def _file_sizes(entries: Iterable[Mapping[str, Any]], path: Path) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for i, entry in enumerate(entries):
        name = name_of(entry, "id", (*path, i))
        if name in sizes:
            raise refusal(f"file {quote(name)} is listed before", *path, i, "id")
        sizes[name] = bytes_of(entry, "sizeInBytes", (*path, i))
    return sizes


def _check_distinct(tasks: Sequence[Task]) -> None:
    first: dict[str, Task] = {}
    for task in tasks:
        other = first.setdefault(task.reference, task)
        if other is not task:
            raise refusal(
                f"task {quote(task.reference)} is listed before, at {json_path(other.path)}",
                *task.path,
            )


def _machines(
    execution: Mapping[str, Any], path: Path, new_names: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return the machines in the words of 1.5."""
    if execution.get("machines") is None:
        return []
    machines = []
    for i, entry in enumerate(objects_of(execution, "machines", path, empty=True)):
        place: Path = (*path, "machines", i)
        name_of(entry, "nodeName", place)
        machine = {key: value for key, value in entry.items() if key != "memory"}
        if isinstance(entry.get("cpu"), dict):
            machine["cpu"] = {new_names.get(k, k): value for k, value in entry["cpu"].items()}
        if new_names and "memoryInBytes" not in entry and "memory" in entry:
            machine["memoryInBytes"] = 1000 * (number_of(entry, "memory", place) or 0)
        machines.append(machine)
    return machines


def _figures(
    entry: Mapping[str, Any], path: Path, old: Mapping[str, tuple[str, int]]
) -> dict[str, Any]:
    figures = {}
    for key in ("avgCPU", *METERED):
        name, scale = key, 1
        if key not in entry and key in old:
            name, scale = old[key]
        value = number_of(entry, name, path)
        if value is not None:
            figures[key] = value * scale
    return figures


def _seconds(entry: Mapping[str, Any], keys: Sequence[str], path: Path) -> float | None:
    """Return a time under the first of `keys` that is there."""
    key = next((key for key in keys if key in entry), keys[0])
    return number_of(entry, key, path)


def _date(entry: Mapping[str, Any], path: Path) -> str | None:
    return None if entry.get("executedAt") is None else part_of(entry, "executedAt", str, path)
