"""WfFormat: the workflow instances of WfCommons, WRENCH, SimGrid and SAGA."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cache
from importlib import resources
from math import inf
from typing import Any, NamedTuple

from dagprofiler._document.quick import first_problem, inlined
from dagprofiler._document.rounds import MEASURED, measured_of
from dagprofiler._document.table import edges_of
from dagprofiler._util import grouped
from dagprofiler._util.checks import choice, number
from dagprofiler._util.json import mapping_in, plain_number, text_in, utc_text
from dagprofiler._util.text import distinct
from dagprofiler.analysis.weights import Weights, known_weights
from dagprofiler.config import Config
from dagprofiler.errors import (
    CycleError,
    FormatError,
    counted,
    short_repr,
    shorten,
)
from dagprofiler.formats import Export
from dagprofiler.formats._graph import left_out, predicted
from dagprofiler.graph.wiring import kahn_order
from dagprofiler.metrics import EDGE_COLUMNS, DAGMetrics
from dagprofiler.profile import Profile
from dagprofiler.stats import median

#: Key to its name before 1.5, and what to multiply the number there by.
_OldNumbers = Mapping[str, tuple[str, int]]


#: The versions that can be read; those from 1.4 on can be written.
VERSIONS = ("1.3", "1.4", "1.5", "1.6")

#: The versions that keep what was executed apart from what was specified.
NESTED = ("1.5", "1.6")

#: What entries of an executed task are called before 1.5, where that differs.
OLD_NAMES = {"coreCount": "cores", "energyInKWh": "energy", "avgPowerInW": "avgPower"}

#: The same for a machine's ``cpu``.
OLD_CPU_NAMES = {"coreCount": "count", "speedInMHz": "speed"}

#: Attributes of executed tasks to the columns of samples that hold them.
METERED = {
    "readBytes": "read_bytes",
    "writtenBytes": "written_bytes",
    "memoryInBytes": "peak_memory_bytes",
}

#: Characters in identifiers that all versions and readers accept.
_NOT_IN_IDS = re.compile(r"[^0-9A-Za-z_.-]")


def shifted(number: float, places: int) -> float:
    """Return ``number * 10**places``, rounded once.

    From milliseconds to seconds and back is the same number if it has 15 significant digits at
    most, as times of the clock have.

    Examples
    --------
    >>> 1.001 * 1e3, shifted(1.001, 3), shifted(1001.0, -3)
    (1000.9999999999999, 1001.0, 1.001)
    """
    return float(Decimal(repr(float(number))).scaleb(places))


def identifiers(names: Sequence[str], known: Mapping[str, Any]) -> dict[str, str]:
    """Return a distinct valid identifier for each name, from `known` or from the name.

    Examples
    --------
    >>> identifiers(["a b", "a_b", "a?b", "c"], {"c": "ID1"})
    {'a b': 'a_b_2', 'a_b': 'a_b', 'a?b': 'a_b_3', 'c': 'ID1'}
    """
    wanted = [text_in(known, name) or name for name in names]
    return dict(zip(names, distinct(wanted, "{}_{}", lambda t: _NOT_IN_IDS.sub("_", t) or "task")))


_SYSTEMS = {"Linux": "linux", "macOS": "macos", "Darwin": "macos", "Windows": "windows"}


def machine_of(host: str, sections: Mapping[str, Any]) -> dict[str, Any]:
    """Return the machine that a profile was measured on."""
    environment = sections.get("environment", {})
    name, _, release = environment.get("os", "").partition("-")
    system = _SYSTEMS.get(name)
    mhz = environment.get("cpu_mhz")
    machine = {
        "nodeName": host,
        "system": system,
        "release": system and (release or "unknown"),
        "architecture": environment.get("machine"),
        "memoryInBytes": environment.get("memory_bytes"),
    }
    cpu = {"coreCount": environment.get("cores"), "speedInMHz": mhz and max(1, round(mhz))}
    return {**_known(machine), "cpu": _known(cpu)}


def _known(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that are neither None nor 0 nor empty."""
    return {key: value for key, value in values.items() if value}


#: Sizes of edges, and their descriptions.
SIZES = {"spec": "its payload by the standard's rule", "wire": "its bytes as serialized"}

#: Costs that can become runtimes.
COSTS = ("time", "wall_time", "cpu_time", "reference_time")

#: Attributes of executed tasks that an imported profile keeps for the next export.
_KEPT = (
    *("command", "coreCount", "energyInKWh", "avgPowerInW"),
    *("priority", "executedAt", "launchDir", "category"),
)

#: Sections that the file holds, or that describe others.
_HELD = {"run", "samples", "weight_sources", "environment", "imported"}


class Instance:
    """Converts a profile to WfFormat."""

    def __init__(self, profile: Profile, version: str, size: str, runtimes_ms: Weights) -> None:
        self._profile = profile
        #: Where they are known, or given.
        self._runtimes_ms = runtimes_ms.values
        self._filled = sum(name in self._runtimes_ms for name in runtimes_ms.filled)
        self._version = version
        self._is_nested = version in NESTED
        self._size = size
        self._nodes: list[str] = profile.dag_structure["nodes"]
        #: The section that an import keeps; of free form.
        self._imported = mapping_in(profile.sections, "imported")
        known = mapping_in(self._imported, "ids") if self._is_nested else {}
        self._ids = identifiers(self._nodes, known)
        self._ids_are_names = all(name == self._ids[name] for name in self._nodes)
        self._lay_out_edges()
        self._losses: list[str] = []

    def _lay_out_edges(self) -> None:
        ids, metrics = self._ids, self._profile.metrics
        wire = {(edge.source, edge.target): edge.wire_bytes for edge in metrics.edge_metrics}
        self._parents: dict[str, list[str]] = {name: [] for name in self._nodes}
        self._children: dict[str, list[str]] = {name: [] for name in self._nodes}
        self._inputs: dict[str, list[str]] = {}
        self._outputs: dict[str, list[str]] = {}
        self._file_bytes: dict[str, int] = {}
        self._unknown_sizes = 0
        for source, target in edges_of(self._profile):
            self._parents[target].append(ids[source])
            self._children[source].append(ids[target])
            bits = metrics.edge_weights.get(f"{source}->{target}")
            # 0.1.0 may have written bits that are not whole bytes.
            size_bytes = None if bits is None else -(-bits // 8)
            if self._size == "wire":
                size_bytes = wire.get((source, target))
                if size_bytes is None and bits is not None:
                    raise FormatError(
                        "size='wire': the profile holds no wire size of the edge "
                        f"{source!r} -> {target!r}; size='spec' takes the payload"
                    )
            if size_bytes is None:
                self._unknown_sizes += 1
                continue
            file = f"{ids[source]}/{ids[target]}"
            self._file_bytes[file] = size_bytes
            self._outputs.setdefault(source, []).append(file)
            self._inputs.setdefault(target, []).append(file)

    def document(self, workflow: str | None) -> dict[str, Any]:
        """Return the instance."""
        profile, imported = self._profile, self._imported
        software = str(profile.metadata.get("dagprofiler_version") or "unknown")
        system = {"name": "dagprofiler", "version": software}
        document = {
            "name": workflow or text_in(imported, "name") or "dagprofiler",
            "description": "".join(predicted(profile)) or text_in(imported, "description"),
            "createdAt": text_in(imported, "created_at"),
            "schemaVersion": self._version,
            ("runtimeSystem" if self._is_nested else "wms"): (
                mapping_in(imported, "runtime_system") if imported else system
            ),
            "author": mapping_in(imported, "author"),
            "workflow": self._nested() if self._is_nested else self._flat(),
        }
        return _known(document)

    def _nested(self) -> dict[str, Any]:
        """Return the workflow of 1.5 and 1.6."""
        files = [{"id": file, "sizeInBytes": size} for file, size in self._file_bytes.items()]
        specified = {"tasks": list(map(self._specified, self._nodes)), "files": files}
        if not self._runtimes_ms:
            return {"specification": specified}
        executed = [{"id": self._ids[name], **values} for name, values in self._executed()]
        machines = _known({"machines": self._machines()})
        execution = {**self._execution(), "tasks": executed, **machines}
        return {"specification": specified, "execution": execution}

    def _specified(self, name: str) -> dict[str, Any]:
        entry: dict[str, Any] = {
            "name": self._shown(name),
            "id": self._ids[name],
            "parents": self._parents[name],
            "children": self._children[name],
        }
        # A missing list means unknown files, an empty one no files.
        if name in self._inputs or not self._parents[name]:
            entry["inputFiles"] = self._inputs.get(name, [])
        if name in self._outputs or not self._children[name]:
            entry["outputFiles"] = self._outputs.get(name, [])
        return entry

    def _shown(self, name: str) -> str:
        """Return the task's name; for an imported task the original one."""
        # When read again, tasks with the same name are named by their identifiers.
        return (self._ids_are_names and text_in(self._extras(name), "name")) or name

    def _flat(self) -> dict[str, Any]:
        """Return the workflow of 1.4, where tasks refer to each other by name."""
        executed = dict(self._executed())
        tasks = []
        for name in self._nodes:
            task: dict[str, Any] = dict.fromkeys(("name", "id"), self._ids[name])
            task["type"] = "compute"
            if self._ids[name] != name:
                task["originalName"] = name
            task.update(parents=self._parents[name], children=self._children[name])
            files = [
                {"name": file, "sizeInBytes": self._file_bytes[file], "link": link}
                for link, of in (("input", self._inputs), ("output", self._outputs))
                for file in of.get(name, ())
            ]
            if files or not (self._parents[name] or self._children[name]):
                task["files"] = files
            attributes = executed.get(name, {})
            # SimGrid binds a task to the machine it names, which its platform may not have.
            attributes.pop("machines", None)
            task.update((OLD_NAMES.get(key, key), value) for key, value in attributes.items())
            tasks.append(task)
        machines = self._machines()
        for machine in machines:
            cpu = mapping_in(machine, "cpu")
            machine["cpu"] = {OLD_CPU_NAMES.get(k, k): value for k, value in cpu.items()}
        return {**self._execution(), "tasks": tasks, **_known({"machines": machines})}

    def _execution(self) -> dict[str, Any]:
        total_ms = self._profile.metrics.total_time_ms
        if total_ms is None:
            total_ms = min(sum(self._runtimes_ms.values()), sys.float_info.max)
            self._losses.append(
                "the profile has no total time, which WfFormat requires: makespanInSeconds is "
                "the sum of all runtimes"
            )
        at = text_in(self._imported, "executed_at") or self._profile.timestamp
        return {"makespanInSeconds": shifted(total_ms, -3), "executedAt": at}

    def _executed(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the tasks with a runtime, and their execution attributes."""
        samples = self._profile.sections.get("samples", {"rounds": [], "tasks": {}})
        host = self._profile.hostname
        for name, runtime_ms in self._runtimes_ms.items():
            attributes: dict[str, Any] = {"runtimeInSeconds": shifted(runtime_ms, -3)}
            row = samples["tasks"].get(name)
            if row:
                attributes.update(_metered(samples["rounds"], row, runtime_ms))
            extras = self._extras(name)
            attributes.update((key, extras[key]) for key in _KEPT if key in extras)
            machines = extras.get("machines") if self._imported else [host]
            # WRENCH fails on an empty list.
            if machines and machines != [None]:
                attributes["machines"] = machines
            yield name, attributes

    def _extras(self, name: str) -> Mapping[str, Any]:
        return mapping_in(mapping_in(self._imported, "tasks"), name)

    def _machines(self) -> list[dict[str, Any]]:
        """Return the machines, each with a ``cpu``, which WRENCH requires."""
        if self._imported:
            kept = self._imported.get("machines")
            machines = kept if isinstance(kept, list) else []
            return [{"cpu": {}, **machine} for machine in machines if isinstance(machine, dict)]
        host = self._profile.hostname
        return [] if host is None else [machine_of(host, self._profile.sections)]

    def losses(self) -> Iterator[str]:
        """Yield what the file does not hold."""
        yield from predicted(self._profile)
        yield from self._losses
        yield from self._lost_of_tasks()
        if self._unknown_sizes:
            # Tasks have one list of files, which cannot be marked as incomplete.
            taken = "" if self._is_nested else "; readers may take it for 0"
            edges = counted(self._unknown_sizes, "edge has", "edges have")
            yield f"{edges} no known size, and so no file{taken}"
        yield from _lost_sections(self._profile)
        renamed = [name for name in self._nodes if self._ids[name] != name]
        if renamed:
            kinds = "task name is no identifier", "task names are no identifiers"
            first = f"{short_repr(renamed[0])} goes by {short_repr(self._ids[renamed[0]])}"
            kept = "name" if self._is_nested else "originalName"
            names = counted(len(renamed), *kinds)
            yield f"{names} of WfFormat: {first}, and its name stays in {kept}"

    def _lost_of_tasks(self) -> Iterator[str]:
        count, known = len(self._nodes), len(self._runtimes_ms)
        if self._filled:
            tasks = counted(self._filled, "task has", "tasks have")
            yield f"{tasks} no runtime: fill= stands for it"
        if not known:
            where = "execution part, which WRENCH requires" if self._is_nested else "times"
            yield f"no task has a runtime: the file has no {where}"
        elif known < count:
            tasks = counted(count - known, "task has", "tasks have")
            yield f"{tasks} no runtime: readers may take it for 0"
        metrics = self._profile.metrics
        if any(metrics.node_weights.values()):
            yield "node weights are left out: WfFormat holds times, and no instructions"
        if metrics.task_metrics:
            yield "times to serialize and deserialize, and bytes in and out of tasks, are left out"
        if metrics.edge_metrics:
            yield "which outputs travel on which edge is left out"
        if any(edge.wire_bytes not in (None, edge.size_bytes) for edge in metrics.edge_metrics):
            other = "wire" if self._size == "spec" else "spec"
            yield f"an edge has one size here, {SIZES[self._size]}; size={other!r} writes the other"


def _metered(
    kinds: Sequence[str], row: Mapping[str, Sequence[Any]], runtime_ms: float
) -> Iterator[tuple[str, int | float]]:
    """Yield attributes of an executed task from the medians of its samples.

    Readers multiply ``avgCPU`` by the runtime, so it is the CPU time as a share of that.
    """

    def middle(column: str) -> int | float | None:
        measured = measured_of(kinds, row.get(column, ()))
        return median(measured) if measured else None

    cpu_ms = middle("process_cpu_ms")
    if cpu_ms is None:
        cpu_ms = middle("cpu_ms")
    # WRENCH divides by it, so it must not be 0.
    percent = round(100 * cpu_ms / runtime_ms, 6) if runtime_ms and cpu_ms is not None else 0
    if 0 < percent < inf:
        yield "avgCPU", percent
    for key, column in METERED.items():
        value = middle(column)
        if value is not None:
            yield key, round(value)


def _lost_sections(profile: Profile) -> Iterator[str]:
    if profile.seed is not None:
        yield "the seed is left out"
    rounds = profile.sections.get("samples", {}).get("rounds", []).count(MEASURED)
    if rounds > 1:
        yield f"the samples of {rounds} rounds are left out: one number stands for all"
    if profile.sections.get("run", {}).get("state") == "partial":
        yield "that the run is partial, and why, is left out"
    if profile.sections.get("environment", {}).keys() - {"not_measured"}:
        yield "of the environment all but the machine is left out"
    yield from left_out(profile, _HELD)


_WRITTEN = VERSIONS[1:]

_encode = json.JSONEncoder(allow_nan=False, default=plain_number).encode


class WfFormat:
    """Writes profiles as WfFormat.

    Attributes
    ----------
    name, extension
        ``"wfformat"``, ``".wfformat.json"``.
    """

    name, extension = "wfformat", ".wfformat.json"

    def render(
        self,
        profile: Profile,
        *,
        version: str = "1.5",
        cost: str = "time",
        statistic: str = "median",
        fill: float | None = None,
        size: str = "spec",
        workflow: str | None = None,
    ) -> Export:
        """Return a profile as a workflow instance.

        Parameters
        ----------
        version
            ``"1.4"``, which SAGA and SimGrid read; ``"1.5"``, the only one that WRENCH
            reads; ``"1.6"``, the newest.
        cost
            Source of ``runtimeInSeconds``: ``"time"``, wall time without run-queue delay where
            that was measured; ``"wall_time"``, ``"cpu_time"`` or ``"reference_time"``.
            Instructions are no seconds.
        statistic
            ``"median"``, ``"mean"``, ``"min"`` or ``"max"`` of the measured samples.
        fill
            Milliseconds for tasks without a runtime; by default the file has none either.
        size
            ``"spec"``: payload by the standard's counting rule; ``"wire"``: as serialized.
        workflow
            Name of the workflow; by default the one that it was imported by, or
            ``"dagprofiler"``.

        Raises
        ------
        FormatError
            If an option is not one of these, the profile has no tasks, or `size` is
            ``"wire"`` and an edge has none.
        WeightError
            If `cost` has no times: no common scale, no samples.

        Notes
        -----
        One file for each edge, named ``source/target``. Identifiers are task names in
        which each character but letters, digits, ``_``, ``.`` and ``-`` is ``_``, with a
        number where two were the same; what they were stays in ``name``, in version 1.4,
        where names are what tasks refer to, in ``originalName``. O(tasks + edges) time.
        """
        choice("version", version, _WRITTEN, error=FormatError)
        choice("cost", cost, COSTS, error=FormatError)
        choice("size", size, [*SIZES], error=FormatError)
        if fill is not None:
            fill = number("fill, in milliseconds,", fill, zero=True, error=FormatError)
        if not profile.dag_structure["nodes"]:
            raise FormatError("WfFormat has no workflows without tasks, and this profile has none")
        instance = Instance(profile, version, size, known_weights(profile, cost, statistic, fill))
        document = instance.document(None if workflow is None else str(workflow))
        return Export("".join(_lines(document)) + "\n", tuple(instance.losses()))


def _lines(value: Any, indent: str = "\n") -> Iterator[str]:
    """Yield a document as JSON with one record a line."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        yield f"[{indent}  " + f",{indent}  ".join(map(_encode, value)) + f"{indent}]"
    elif isinstance(value, dict) and value:
        opening = "{"
        for key, item in value.items():
            yield f"{opening}{indent}  {_encode(key)}: "
            yield from _lines(item, f"{indent}  ")
            opening = ","
        yield f"{indent}}}"
    else:
        yield _encode(value)


#: What an import keeps of the whole instance, by its name there: the last one counts.
_KEPT_OF_ALL = {
    "name": "name",
    "description": "description",
    "createdAt": "created_at",
    "author": "author",
    "wms": "runtime_system",
    "runtimeSystem": "runtime_system",
}


@cache
def _schemas() -> dict[str, dict[str, Any]]:
    """Return what is read of instances, ``"flat"`` and ``"nested"``, as JSON Schemas."""
    text = (resources.files("dagprofiler.formats") / "wfformat.schema.json").read_text("utf-8")
    definitions = json.loads(text)["$defs"]
    return {name: inlined(definitions[name], definitions) for name in ("flat", "nested")}


#: What tasks hold that goes into other places of a profile, in the words of 1.5 and of 1.4.
_PLACED = {
    *("name", "originalName", "id", "parents", "children", "files"),
    *("runtimeInSeconds", "runtime", "avgCPU", *METERED),
    *("bytesRead", "bytesWritten", "memory", "machine", *OLD_NAMES.values()),
}

_NEW_NAMES = {old: new for new, old in OLD_NAMES.items()}
_NEW_CPU_NAMES = {old: new for new, old in OLD_CPU_NAMES.items()}


class ExecutedTask(NamedTuple):
    """One task of an instance; None is what the instance does not say."""

    #: What other tasks refer to it by, which is distinct: its ``id``, before 1.5 its ``name``.
    reference: str
    name: str
    #: May be empty before 1.5.
    id: str
    parents: list[str]
    children: list[str]
    inputs: list[str] | None
    outputs: list[str] | None
    wall_ms: float | None
    #: ``avgCPU`` in percent, and what `METERED` names, in bytes.
    figures: dict[str, Any]
    #: What else is known of it, in the words of 1.5.
    extras: dict[str, Any]


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else shifted(seconds, 3)


def _old_numbers(byte_scale: int) -> _OldNumbers:
    return {
        "runtimeInSeconds": ("runtime", 1),
        "makespanInSeconds": ("makespan", 1),
        "readBytes": ("bytesRead", byte_scale),
        "writtenBytes": ("bytesWritten", byte_scale),
        "memoryInBytes": ("memory", 1000),
    }


def _number(values: Mapping[str, Any], key: str, old: _OldNumbers) -> float | None:
    """Return a number; without the key that under the name in `old`, times the factor there."""
    if key in values or key not in old:
        number: float | None = values.get(key)
        return number
    name, factor = old[key]
    value = values.get(name)
    return None if value is None else value * factor


def _distinct(texts: Iterable[str] | None) -> list[str] | None:
    return None if texts is None else list(dict.fromkeys(texts))


def _by_name(entries: Iterable[dict[str, Any]], key: str, what: str) -> dict[str, dict[str, Any]]:
    """Return the entries by the text under a key, which is to be distinct."""
    named: dict[str, dict[str, Any]] = {}
    for entry in entries:
        if named.setdefault(entry[key], entry) is not entry:
            raise FormatError(f"$.workflow: {what} {short_repr(entry[key])} is listed twice")
    return named


def _nested(workflow: Mapping[str, Any]) -> tuple[list[ExecutedTask], dict[str, int] | None]:
    """Return tasks and sizes of files of 1.5 and 1.6."""
    specification, execution = workflow["specification"], workflow.get("execution") or {}
    file_bytes = None
    if specification.get("files") is not None:
        listed = _by_name(specification["files"], "id", "file")
        file_bytes = {name: int(file["sizeInBytes"]) for name, file in listed.items()}
    executed = _by_name(execution.get("tasks", ()), "id", "task")
    tasks = []
    for identifier, entry in _by_name(specification["tasks"], "id", "task").items():
        used = [_distinct(entry.get(key)) for key in ("inputFiles", "outputFiles")]
        attributes = executed.pop(identifier, {})
        tasks.append(_task(entry, attributes, identifier, entry["name"], identifier, used, {}))
    if executed:
        raise FormatError(
            f"$.workflow.execution: there is no task {short_repr(next(iter(executed)))}"
        )
    return tasks, file_bytes


def _task(
    entry: Mapping[str, Any],
    attributes: Mapping[str, Any],
    reference: str,
    name: str,
    identifier: str,
    used: Sequence[list[str] | None],
    old: _OldNumbers,
) -> ExecutedTask:
    numbers = {key: _number(attributes, key, old) for key in ("avgCPU", *METERED)}
    new_names = _NEW_NAMES if old else {}
    return ExecutedTask(
        reference=reference,
        name=name,
        id=identifier,
        parents=_distinct(entry.get("parents")) or [],
        children=_distinct(entry.get("children")) or [],
        inputs=used[0],
        outputs=used[1],
        wall_ms=_ms(_number(attributes, "runtimeInSeconds", old)),
        figures={key: value for key, value in numbers.items() if value is not None},
        extras={
            new_names.get(key, key): value
            for key, value in attributes.items()
            if key not in _PLACED or key in new_names
        },
    )


def _flat(
    workflow: Mapping[str, Any], old: _OldNumbers
) -> tuple[list[ExecutedTask], dict[str, int]]:
    """Return tasks and sizes of files of 1.3 and 1.4."""
    file_bytes: dict[str, int] = {}
    tasks = []
    for reference, entry in _by_name(workflow["tasks"], "name", "task").items():
        used = _linked_files(entry.get("files"), file_bytes)
        name = entry.get("originalName")
        name = reference if name is None else name
        task = _task(entry, entry, reference, name, text_in(entry, "id"), used, old)
        if entry.get("machine") is not None:
            task.extras["machines"] = [entry["machine"]]
        tasks.append(task)
    return tasks, file_bytes


def _linked_files(
    entries: Sequence[Mapping[str, Any]] | None, file_bytes: dict[str, int]
) -> tuple[list[str] | None, list[str] | None]:
    """Return the files that a task reads and writes, and store their sizes."""
    if entries is None:
        return None, None
    linked: dict[str, dict[str, None]] = {"input": {}, "output": {}}
    for file in entries:
        name = str(file.get("path") or "") + file["name"]
        # In 1.3 `size` is in bytes in all known instances, contrary to its schema.
        size = file.get("sizeInBytes", file.get("size"))
        if size is None:
            raise FormatError(f"$.workflow: file {short_repr(name)} has no size")
        if file_bytes.setdefault(name, int(size)) != size:
            raise FormatError(
                f"$.workflow: file {short_repr(name)} has {counted(int(size), 'byte')} and "
                f"{file_bytes[name]:,} elsewhere"
            )
        linked[file["link"]][name] = None
    return list(linked["input"]), list(linked["output"])


def _machines(execution: Mapping[str, Any], old: _OldNumbers) -> list[dict[str, Any]]:
    """Return the machines in the words of 1.5."""
    new_names = _NEW_CPU_NAMES if old else {}
    machines = []
    for entry in execution.get("machines") or ():
        machine = {key: value for key, value in entry.items() if key != "memory"}
        if isinstance(machine.get("cpu"), dict):
            machine["cpu"] = {new_names.get(k, k): value for k, value in machine["cpu"].items()}
        memory_kb = entry.get("memory")
        if old and "memoryInBytes" not in machine and isinstance(memory_kb, (int, float)):
            machine["memoryInBytes"] = 1000 * memory_kb
        machines.append(machine)
    return machines


def _edges(tasks: Sequence[ExecutedTask]) -> tuple[dict[tuple[int, int], list[str]], list[str]]:
    """Return the edges with the files that travel on each, and what the files say beyond them."""
    edges = _declared(tasks)
    declared = bool(edges)
    parents = grouped((target, source) for source, target in edges)
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
    notes = []
    if edges and not declared:
        notes.append("no task names parents or children: the edges follow from the files")
    if undeclared:
        notes.append(
            f"{counted(undeclared, 'time')} a task reads a file of another that is not among its "
            "parents: there is no edge"
        )
    return edges, notes


def _declared(tasks: Sequence[ExecutedTask]) -> dict[tuple[int, int], list[str]]:
    """Return the edges that tasks name as parents or children, each with a list for its files."""
    number = {task.reference: i for i, task in enumerate(tasks)}
    # Before 1.5 tasks may refer to each other by identifiers, too.
    for i, task in enumerate(tasks):
        if task.id:
            number.setdefault(task.id, i)
    pairs: dict[tuple[int, int], list[str]] = {}
    for key in ("parents", "children"):
        for i, task in enumerate(tasks):
            for reference in getattr(task, key):
                other = number.get(reference)
                if other is None:
                    raise FormatError(
                        f"$.workflow: there is no task {short_repr(reference)}, one of the {key} "
                        f"of {short_repr(task.reference)}"
                    )
                pairs[(other, i) if key == "parents" else (i, other)] = []
    return pairs


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
            If the document is no WfFormat of a known version, or refers to what it does not hold:
            tasks of one name, tasks and files that are not there, cycles, negative figures, and
            from 1.5 on tasks that were executed and have no runtime.
        ProfileError
            If something that is kept as it is holds a number that is not finite, such as 1e999.

        Notes
        -----
        A task that was not executed, or before 1.5 has no runtime, and a file with several
        producers or none, are no errors. An edge is what parents or children name; if no task
        names any, edges follow from the files. O(tasks + edges + uses of files) time, and for
        the order O((tasks + edges) log tasks).
        """
        return Profile.from_dict(_Import(document).document())


class _Import:
    """Reads an instance of at least one task, and converts it to a profile."""

    def __init__(self, document: Any) -> None:
        version = document.get("schemaVersion") if isinstance(document, dict) else None
        if version not in VERSIONS:
            known = ", ".join(VERSIONS)
            what = "it is no WfFormat" if version is None else f"got {short_repr(version)}"
            raise FormatError(f"$.schemaVersion: expected a version of WfFormat ({known}); {what}")
        self._version: str = version
        is_nested = version in NESTED
        problem = first_problem(document, _schemas()["nested" if is_nested else "flat"])
        if problem is not None:
            raise FormatError(f"{problem.path}: {problem.message}")
        #: Name, description, date, author and runtime system of the instance.
        self._kept = {
            name: document[key]
            for key, name in _KEPT_OF_ALL.items()
            if document.get(key) is not None
        }
        workflow = execution = document["workflow"]
        old: _OldNumbers = {}
        if is_nested:
            execution = workflow.get("execution") or {}
            tasks, file_bytes = _nested(workflow)
        else:
            # Before 1.4 these were in kilobytes, except in files of Pegasus.
            runtime = str(self._kept.get("runtime_system", {}).get("name")).lower()
            old = _old_numbers(1 if "pegasus" in runtime else 1000)
            tasks, file_bytes = _flat(workflow, old)
        self._tasks = tasks
        #: Size of each file, in bytes; None if the instance lists no files.
        self._file_bytes: Mapping[str, int] | None = file_bytes
        self._total_ms = _ms(_number(execution, "makespanInSeconds", old))
        #: As the instance has it.
        self._executed_at = execution.get("executedAt")
        #: In the words of 1.5, each with a ``nodeName``.
        self._machines = _machines(execution, old)
        #: Numbers of source and target to the files between them; what only the files say.
        self._edges, self._notes = _edges(tasks)
        self._names = _names(tasks)
        self._timed = [task.wall_ms is not None for task in tasks]
        self._not_measured = dict(_NOT_IN_WFFORMAT)

    def document(self) -> dict[str, Any]:
        """Return the document of the profile."""
        names = self._names
        if self._total_ms is None:
            self._not_measured["total_time_ms"] = "the file holds no makespan"
        pairs = [(names[source], names[target]) for source, target in self._edges]
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
        if self._total_ms is not None:
            document["total_time_ms"] = self._total_ms
        if any(self._timed):
            document["samples"] = self._samples()
        return document

    def _metadata(self) -> dict[str, Any]:
        dates = [
            text
            for text in (self._executed_at, self._kept.get("created_at"))
            if isinstance(text, str) and _ISO_8601.fullmatch(text)
        ]
        if not dates:
            self._not_measured["timestamp"] = (
                "the file has no date in ISO 8601: it is that of the import"
            )
        timestamp = dates[0] if dates else utc_text()
        # The versions of the writing software come from a new profile.
        blank = Profile(Config(), {}, DAGMetrics([], [], {}, {}, 0.0), timestamp=timestamp)
        metadata = {"timestamp": timestamp, **blank.metadata, "seed": None}
        if len(self._machines) == 1:
            metadata["hostname"] = self._machines[0]["nodeName"]
        return metadata

    def _order(self, pairs: Sequence[tuple[str, str]]) -> list[str]:
        try:
            return kahn_order(self._names, pairs)
        except CycleError as error:
            raise FormatError(f"$.workflow: {shorten(str(error))}") from error

    def _carried(self) -> list[list[Any] | None]:
        """Return the records of ``edge_metrics``; None for edges whose sizes are unknown."""
        tasks, file_bytes = self._tasks, self._file_bytes
        if file_bytes is None:
            self._not_measured["size_bytes"] = "the file lists no files, so that no size is known"
            return [None] * len(self._edges)
        records: list[list[Any] | None] = []
        for (source, target), files in self._edges.items():
            if tasks[source].outputs is None or tasks[target].inputs is None:
                self._not_measured["size_bytes"] = (
                    "of tasks at the ends of edges without a size the file lists no files"
                )
                records.append(None)
                continue
            # A file is the serialized output.
            total = self._total_bytes(files, target)
            sizes = {
                file: dict.fromkeys(("size_bytes", "wire_bytes"), file_bytes[file])
                for file in files
            }
            records.append([files, total, total, sizes if len(files) > 1 else None])
        return records

    def _total_bytes(self, files: Sequence[str] | None, task: int) -> int:
        sizes = self._file_bytes
        if sizes is None or files is None:
            kind = "the file does not say which files all tasks read and write; then it is 0 here"
            self._not_measured.update(bytes_in=kind, bytes_out=kind)
            return 0
        if missing := [file for file in files if file not in sizes]:
            raise FormatError(
                f"$.workflow: file {short_repr(missing[0])} of task "
                f"{short_repr(self._tasks[task].reference)} is not among the files, and has no size"
            )
        return sum(sizes[file] for file in files)

    def _execution_metrics(self) -> list[dict[str, Any]]:
        entries = []
        for i, task in enumerate(self._tasks):
            if task.wall_ms is not None:
                entry = {"task": self._names[i], "compute_time_ms": task.wall_ms}
                entry["bytes_in"] = self._total_bytes(task.inputs, i)
                entry["bytes_out"] = self._total_bytes(task.outputs, i)
                entries.append(entry)
        return entries

    def _run(self) -> dict[str, Any]:
        missing, count = self._timed.count(False), len(self._tasks)
        if not missing:
            return {"state": "complete", "rounds": 1}
        lacking = f"runtime of {missing:,} of {counted(count, 'task')}"
        if missing == count:
            lacking = "runtimes: nothing was measured"
        reason = f"imported from WfFormat {self._version}, which holds no {lacking}"
        return {"state": "partial", "reason": reason, "rounds": int(missing < count)}

    def _weight_sources(self) -> dict[str, Any]:
        if not any(self._timed):
            self._not_measured["wall_time_ms"] = "the file holds no runtimes"
            return {name: {"node_weight": "default"} for name in self._names}
        why = {"reasons": {"wall_time_ms": "the file holds no runtime of the task"}}
        times_ms = ((name, task.wall_ms) for name, task in zip(self._names, self._tasks))
        return {
            name: {"node_weight": "default", "wall_time_ms": ms, **(why if ms is None else {})}
            for name, ms in times_ms
        }

    def _samples(self) -> dict[str, Any]:
        """Return the measurements of each task, as one round."""
        rows: dict[str, Any] = {}
        for name, task in zip(self._names, self._tasks):
            if task.wall_ms is not None:
                row: dict[str, Any] = {"wall_ms": task.wall_ms}
                if "avgCPU" in task.figures:
                    row["process_cpu_ms"] = min(task.figures["avgCPU"] / 100 * task.wall_ms, 1e308)
                figures = task.figures.items()
                row.update((METERED[key], value) for key, value in figures if key in METERED)
                rows[name] = {column: [value] for column, value in row.items()}
        total_ms = [self._total_ms]
        return {"rounds": [MEASURED], "total_ms": total_ms, "tasks": rows, "edges": {}}

    def _environment(self) -> dict[str, Any]:
        """Return the single machine, if known, and what was not measured."""
        machine = self._machines[0] if len(self._machines) == 1 else {}
        cpu = mapping_in(machine, "cpu")
        system = text_in(machine, "system"), text_in(machine, "release")
        known = {
            "os": "-".join(filter(None, system)),
            "machine": text_in(machine, "architecture"),
            "cores": _whole(cpu, "coreCount"),
            "cpu_mhz": _whole(cpu, "speedInMHz"),
            "memory_bytes": _whole(machine, "memoryInBytes"),
        }
        return {**_known(known), "not_measured": self._not_measured}

    def _imported(self) -> dict[str, Any]:
        """Return the section for data without another place."""
        tasks = dict(zip(self._names, self._tasks))
        extras = {
            name: {**task.extras, **({} if task.name == name else {"name": task.name})}
            for name, task in tasks.items()
        }
        kept = {
            "executed_at": self._executed_at,
            "machines": self._machines,
            "ids": {name: task.id for name, task in tasks.items() if task.id not in ("", name)},
            "tasks": _known(extras),
            "notes": self._notes,
        }
        return {"format": "wfformat", "version": self._version, **self._kept, **_known(kept)}


def _names(tasks: Sequence[ExecutedTask]) -> list[str]:
    """Return the names of the tasks in the profile."""
    names = [task.name for task in tasks]
    if len(set(names)) < len(names) or "->" in " ".join(names):
        names = [task.reference for task in tasks]
    for name in names:
        if "->" in name:
            raise FormatError(
                f"$.workflow: {short_repr(name)} holds '->', which joins names in edge weights"
            )
    return names


def _whole(mapping: Mapping[str, Any], key: str) -> int | None:
    """Return a number of at least 1 as an integer, or None."""
    value = mapping.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return round(value) if 1 <= value <= _MAX_INT else None


EXPORTER = WfFormat()
IMPORTER = WfFormatImporter()
