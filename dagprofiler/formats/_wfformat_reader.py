"""WfFormat: workflow instances of WfCommons as profiles."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from dagprofiler._document.rounds import MEASURED
from dagprofiler._util.json import mapping_in, plain_document, text_in, utc_now
from dagprofiler.config import Config
from dagprofiler.errors import (
    CycleError,
    FormatError,
    ProfileError,
    counted,
    json_path,
    short_repr,
    shorten,
)
from dagprofiler.formats.wfformat import (
    METERED,
    NESTED,
    OLD_CPU_NAMES,
    OLD_NAMES,
    VERSIONS,
    shifted,
)
from dagprofiler.graph.wiring import kahn_order
from dagprofiler.metrics import EDGE_COLUMNS, DAGMetrics
from dagprofiler.profile import Profile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Union

    Path = tuple[Union[str, int], ...]

#: The largest time in seconds whose milliseconds are finite, with room for sums of them.
_MAX_SECONDS = 1e300

_MAX_BYTES = 2**60 - 1


def number_of(entry: Mapping[str, Any], key: str, path: Path) -> float | None:
    """Return a number of at least 0; None if there is none."""
    value = entry.get(key)
    if value is None:
        return None
    # A bool is an int in Python, but not a number in JSON.
    if type(value) not in (int, float):
        raise refusal(f"expected a number, got {quote(value)}", *path, key)
    if not 0 <= value <= _MAX_SECONDS:
        what = "negative" if value < 0 else "no time and no size"
        raise refusal(f"{quote(value)} is {what}", *path, key)
    return value  # type: ignore[no-any-return]


def bytes_of(entry: Mapping[str, Any], key: str, path: Path) -> int:
    """Return the size of a file, which is required."""
    value = number_of(entry, key, path)
    if value is None:
        raise refusal("the file has no size", *path)
    if value != int(value) or value > _MAX_BYTES:
        raise refusal(f"expected whole bytes below 2**60, got {short_repr(value)}", *path, key)
    return int(value)


def name_of(entry: Mapping[str, Any], key: str, path: Path) -> str:
    """Return a text that is not empty."""
    name: str = part_of(entry, key, str, path)
    if not name:
        raise refusal("the text is empty", *path, key)
    return name


def texts_of(entry: Mapping[str, Any], key: str, path: Path) -> list[str] | None:
    """Return a list of texts, each once; None if there is no list."""
    if entry.get(key) is None:
        return None
    texts = part_of(entry, key, list, path)
    for i, text in enumerate(texts):
        check(text, str, (*path, key, i))
    return list(dict.fromkeys(texts))


def objects_of(
    entry: Mapping[str, Any], key: str, path: Path, *, empty: bool = False
) -> list[dict[str, Any]]:
    """Return a list of objects, which is required."""
    found: list[dict[str, Any]] = part_of(entry, key, list, path)
    if not found and not empty:
        raise refusal("expected at least one entry", *path, key)
    for i, item in enumerate(found):
        check(item, dict, (*path, key, i))
    return found


_KINDS: dict[type, str] = {dict: "an object", list: "a list", str: "a text"}


def part_of(entry: Mapping[str, Any], key: str, kind: type, path: Path) -> Any:
    """Return the required value of a key."""
    if key not in entry:
        raise refusal(f"expected {_KINDS[kind]} under {short_repr(key)}, which is missing", *path)
    check(entry[key], kind, (*path, key))
    return entry[key]


def check(value: Any, kind: type, path: Path) -> None:
    """Raise an error unless a value is of a kind."""
    if not isinstance(value, kind):
        raise refusal(f"expected {_KINDS[kind]}, got {quote(value)}", *path)


def quote(value: Any) -> str:
    """Return a value as messages show it."""
    return short_repr(value)


def refusal(message: str, *path: Any) -> FormatError:
    """Return an error that names the place."""
    return FormatError(f"{json_path(path)}: {message}")


def find_edges(instance: ReadInstance) -> None:
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
                # A task may share a file with thousands and have only one of them as parent.
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


def resolve(tasks: list[ExecutedTask]) -> None:
    """Replace references by identifier with names, as versions before 1.5 require."""
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
    """Raise an error if a task reads or writes a file that is not listed."""
    for key in ("inputFiles", "outputFiles"):
        for i, file in enumerate(entry.get(key) or ()):
            if file not in sizes:
                raise refusal(
                    f"file {quote(file)} is not in workflow.specification.files, so that it "
                    "has no size",
                    *(*path, key, i),
                )


def check_machines(instance: ReadInstance) -> None:
    """Raise an error if a task ran on an unlisted machine, if any are listed."""
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


def _declared(tasks: Sequence[ExecutedTask]) -> dict[tuple[int, int], list[str]]:
    """Return the edges that tasks name, each with a list for its files."""
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
    tasks: Sequence[ExecutedTask], key: str, number: Mapping[str, int]
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


#: What tasks hold that goes into other places of a profile, in the words of 1.5 and of 1.4.
_PLACED = {
    *("name", "originalName", "id", "parents", "children", "files"),
    *("runtimeInSeconds", "runtime", "avgCPU", *METERED),
    *("bytesRead", "bytesWritten", "memory", "machine", *OLD_NAMES.values()),
}

_NEW_NAMES = {old: new for new, old in OLD_NAMES.items()}
_NEW_CPU_NAMES = {old: new for new, old in OLD_CPU_NAMES.items()}


class ExecutedTask(NamedTuple):
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
class ReadInstance:
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
    tasks: list[ExecutedTask]
    file_bytes: dict[str, int] | None
    makespan_s: float | None
    executed_at: str | None
    machines: list[dict[str, Any]]
    kept: dict[str, Any]
    edges: dict[tuple[int, int], list[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def read_instance(document: Any) -> ReadInstance:
    """Return the instance in a document; raise a FormatError with the place if invalid."""
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
        # Before 1.4 these were in kilobytes, except in files of Pegasus.
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


def _nested(workflow: Mapping[str, Any], version: str) -> ReadInstance:
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
            ExecutedTask(
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
    return ReadInstance(
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


def _flat(workflow: Mapping[str, Any], version: str, byte_scale: int) -> ReadInstance:
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
            ExecutedTask(
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
    return ReadInstance(
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
    """Return the files that a task reads and writes, and store their sizes."""
    files: dict[str, dict[str, None]] = {"input": {}, "output": {}}
    for i, file in enumerate(objects_of(entry, "files", path, empty=True)):
        place: Path = (*path, "files", i)
        name = str(file.get("path") or "") + name_of(file, "name", place)
        # In 1.3 `size` is in bytes in all known instances, contrary to its schema.
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


def _check_distinct(tasks: Sequence[ExecutedTask]) -> None:
    first: dict[str, ExecutedTask] = {}
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


_ISO_8601 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)?", re.ASCII)

_MAX_INT = 2**63 - 1

_NOT_IN_WFFORMAT = {
    "estimated_instructions": "WfFormat holds times, and no instructions",
    "counted_instructions": "WfFormat holds times, and no instructions",
    "reference_time_ms": "WfFormat has no calibration score of the machine",
    "cpu_time_ms": "WfFormat holds the CPU use of processes, not of the task's thread",
    "serialize_ms": "WfFormat holds no such time",
    "deserialize_ms": "WfFormat holds no such time",
}


class WfFormatImporter:
    """Reads WfFormat 1.3 to 1.6.

    Attributes
    ----------
    name
        ``"wfformat"``.

    Notes
    -----
    Tasks go by their names if these are distinct, else by what refers to them: their
    identifiers. ``sections["imported"]`` keeps what a profile has no place for, in the words
    of WfFormat 1.5; an export to WfFormat writes it again.
    """

    name = "wfformat"

    def recognizes(self, document: Any) -> bool:
        """Return whether a document has a ``schemaVersion`` and a ``workflow``."""
        return isinstance(document, dict) and {"schemaVersion", "workflow"} <= document.keys()

    def read(self, document: Any) -> Profile:
        """Return the profile of an instance.

        Raises
        ------
        FormatError
            If the document is no WfFormat of a known version, or contradicts itself: tasks
            of one name, tasks and files that are not there, parents and children that
            disagree, cycles, negative figures, and from 1.5 on tasks that were executed and have no
            runtime. The message begins with the place.
        ProfileError
            If something that is kept as it is holds a number that is not finite, such as
            1e999; with the place.

        Notes
        -----
        A task that was not executed, or before 1.5 has no runtime, and a file with several
        producers or none, are no errors. If no task names parents or children, they follow from
        the files. O(tasks + edges + uses of files) time, and for the order O((tasks + edges)
        log tasks).
        """
        instance = read_instance(document)
        try:
            return Profile.from_dict(_Import(instance).document())
        except ProfileError:
            # The error is in a part that is kept unchanged; name its place in the file.
            plain_document(document)
            raise


class _Import:
    """Converts an instance to a profile."""

    def __init__(self, instance: ReadInstance) -> None:
        self._instance = instance
        self._tasks = instance.tasks
        self._names = _names(instance.tasks)
        self._timed = [task.runtime_s is not None for task in instance.tasks]
        self._not_measured = dict(_NOT_IN_WFFORMAT)

    def document(self) -> dict[str, Any]:
        """Return the document of the profile."""
        instance, names = self._instance, self._names
        if instance.makespan_s is None:
            self._not_measured["total_time_ms"] = "the file holds no makespan"
        pairs = [(names[source], names[target]) for source, target in instance.edges]
        carried = self._carried()
        keys = (f"{source}->{target}" for source, target in pairs)
        weighed = ((key, 8 * record[1]) for key, record in zip(keys, carried) if record is not None)
        document: dict[str, Any] = {
            "metadata": self._metadata(),
            "configuration": {},
            "dag_structure": {
                "nodes": names,
                "edges": [{"source": source, "target": target} for source, target in pairs],
                "execution_order": self._order(pairs),
            },
            "node_weights": dict.fromkeys(names, 0),
            "edge_weights": dict(weighed),
            "edge_metrics": {"columns": [*EDGE_COLUMNS], "records": carried},
            "execution_metrics": self._execution_metrics(),
            "run": self._run(),
            "weight_sources": self._weight_sources(),
            "environment": self._environment(),
            "imported": self._imported(),
        }
        if instance.makespan_s is not None:
            document["total_time_ms"] = shifted(instance.makespan_s, 3)
        if any(self._timed):
            document["samples"] = self._samples()
        return document

    def _metadata(self) -> dict[str, Any]:
        instance = self._instance
        dates = [
            text
            for text in (instance.executed_at, instance.kept.get("created_at"))
            if isinstance(text, str) and _ISO_8601.fullmatch(text)
        ]
        if not dates:
            self._not_measured["timestamp"] = (
                "the file has no date in ISO 8601: it is that of the import"
            )
        timestamp = dates[0] if dates else utc_now()
        # The versions of the writing software come from a new profile.
        blank = Profile(Config(), {}, DAGMetrics([], [], {}, {}, 0.0), timestamp=timestamp)
        metadata = {"timestamp": timestamp, **blank.metadata, "seed": None}
        if len(instance.machines) == 1:
            metadata["hostname"] = instance.machines[0]["nodeName"]
        return metadata

    def _order(self, pairs: Sequence[tuple[str, str]]) -> list[str]:
        below: dict[str, list[str]] = {}
        for source, target in pairs:
            below.setdefault(source, []).append(target)
        try:
            return kahn_order(self._names, below)
        except CycleError as error:
            place = json_path(self._instance.tasks[0].path[:-1])
            raise FormatError(f"{place}: {shorten(str(error))}") from error

    def _carried(self) -> list[list[Any] | None]:
        """Return the records of ``edge_metrics``; None for edges whose sizes are unknown."""
        instance, tasks = self._instance, self._tasks
        if instance.file_bytes is None:
            self._not_measured["size_bytes"] = "the file lists no files, so that no size is known"
            return [None] * len(instance.edges)
        records: list[list[Any] | None] = []
        for (source, target), files in instance.edges.items():
            if tasks[source].outputs is None or tasks[target].inputs is None:
                self._not_measured["size_bytes"] = (
                    "of tasks at the ends of edges without a size the file lists no files"
                )
                records.append(None)
                continue
            # A file is the serialized output.
            sizes = {
                file: dict.fromkeys(("size_bytes", "wire_bytes"), instance.file_bytes[file])
                for file in files
            }
            total = self._total_bytes(files, target)
            records.append([files, total, total, sizes if len(files) > 1 else None])
        return records

    def _total_bytes(self, files: Sequence[str] | None, task: int) -> int:
        sizes = self._instance.file_bytes
        if sizes is None or files is None:
            kind = "the file does not say which files all tasks read and write; then it is 0 here"
            self._not_measured.update(bytes_in=kind, bytes_out=kind)
            return 0
        total = sum(map(sizes.__getitem__, files))
        if 8 * total > _MAX_INT:
            raise FormatError(
                f"{json_path(self._tasks[task].path)}: its files have {total:,} bytes together, "
                "whose bits do not fit 64 bits"
            )
        return total

    def _execution_metrics(self) -> list[dict[str, Any]]:
        return [
            {
                "task": name,
                "compute_time_ms": _wall_ms(task),
                "bytes_in": self._total_bytes(task.inputs, i),
                "bytes_out": self._total_bytes(task.outputs, i),
            }
            for i, (name, task) in enumerate(zip(self._names, self._tasks))
            if self._timed[i]
        ]

    def _run(self) -> dict[str, Any]:
        missing, what = self._timed.count(False), f"imported from WfFormat {self._instance.version}"
        if not missing:
            return {"state": "complete", "rounds": 1}
        if missing == len(self._tasks):
            reason = f"{what}, which holds no runtimes: nothing was measured"
            return {"state": "partial", "reason": reason, "rounds": 0}
        reason = (
            f"{what}, which holds no runtime of {missing:,} of {counted(len(self._tasks), 'task')}"
        )
        return {"state": "partial", "reason": reason, "rounds": 1}

    def _weight_sources(self) -> dict[str, Any]:
        if not any(self._timed):
            self._not_measured["wall_time_ms"] = "the file holds no runtimes"
            return {name: {"node_weight": "default"} for name in self._names}
        why = {"wall_time_ms": "the file holds no runtime of the task"}
        return {
            name: {
                "node_weight": "default",
                "wall_time_ms": _wall_ms(task),
                **({"reasons": why} if task.runtime_s is None else {}),
            }
            for name, task in zip(self._names, self._tasks)
        }

    def _samples(self) -> dict[str, Any]:
        """Return the measurements of each task, as one round."""
        rows: dict[str, Any] = {}
        for name, task in zip(self._names, self._tasks):
            wall_ms = _wall_ms(task)
            if wall_ms is None:
                continue
            row: dict[str, Any] = {"wall_ms": wall_ms}
            if "avgCPU" in task.figures:
                row["process_cpu_ms"] = min(task.figures["avgCPU"] / 100 * wall_ms, 1e308)
            row.update(
                (column, task.figures[key])
                for key, column in METERED.items()
                if key in task.figures
            )
            rows[name] = {column: [value] for column, value in row.items()}
        makespan_s = self._instance.makespan_s
        total_ms = None if makespan_s is None else shifted(makespan_s, 3)
        return {"rounds": [MEASURED], "total_ms": [total_ms], "tasks": rows, "edges": {}}

    def _environment(self) -> dict[str, Any]:
        """Return the single machine, if known, and what was not measured."""
        environment: dict[str, Any] = {}
        if len(self._instance.machines) == 1:
            machine = self._instance.machines[0]
            cpu = mapping_in(machine, "cpu")
            system = "-".join(
                filter(None, (text_in(machine, "system"), text_in(machine, "release")))
            )
            known = {
                "os": system,
                "machine": text_in(machine, "architecture"),
                "cores": _whole(cpu, "coreCount"),
                "cpu_mhz": _whole(cpu, "speedInMHz"),
                "memory_bytes": _whole(machine, "memoryInBytes"),
            }
            environment = {key: value for key, value in known.items() if value}
        return {**environment, "not_measured": self._not_measured}

    def _imported(self) -> dict[str, Any]:
        """Return the section for data without another place."""
        instance = self._instance
        section: dict[str, Any] = {"format": "wfformat", "version": instance.version}
        section.update(instance.kept)
        if instance.executed_at is not None:
            section["executed_at"] = instance.executed_at
        if instance.machines:
            section["machines"] = instance.machines
        ids = {
            name: task.id
            for name, task in zip(self._names, self._tasks)
            if task.id not in ("", name)
        }
        if ids:
            section["ids"] = ids
        extras = {
            name: {**task.extras, **({"name": task.name} if task.name != name else {})}
            for name, task in zip(self._names, self._tasks)
        }
        extras = {name: kept for name, kept in extras.items() if kept}
        if extras:
            section["tasks"] = extras
        if instance.notes:
            section["notes"] = instance.notes
        return section


def _names(tasks: Sequence[ExecutedTask]) -> list[str]:
    """Return the names of the tasks in the profile."""
    names = [task.name for task in tasks]
    if len(set(names)) < len(names) or "->" in " ".join(names):
        names = [task.reference for task in tasks]
    for name, task in zip(names, tasks):
        if "->" in name:
            raise FormatError(
                f"{json_path(task.path)}: {short_repr(name)} holds '->', which joins names in "
                "edge weights"
            )
    return names


def _wall_ms(task: ExecutedTask) -> float | None:
    return None if task.runtime_s is None else shifted(task.runtime_s, 3)


def _whole(mapping: Mapping[str, Any], key: str) -> int | None:
    """Return a number of at least 1 as an integer, or None."""
    value = mapping.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return round(value) if 1 <= value <= _MAX_INT else None


IMPORTER = WfFormatImporter()
