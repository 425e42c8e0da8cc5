"""WfFormat: the workflow instances of WfCommons, WRENCH, SimGrid and SAGA."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from decimal import Decimal
from math import inf
from typing import TYPE_CHECKING, Any, Union

from dagprofiler._document.rounds import MEASURED, measured_of
from dagprofiler._util.checks import choice
from dagprofiler._util.json import mapping_in, plain_number, text_in
from dagprofiler.errors import FormatError, counted, short_repr, shorten
from dagprofiler.formats import Export
from dagprofiler.formats.saga import finite_number
from dagprofiler.stats import median

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from dagprofiler.profile import Profile


Number = Union[int, float]

#: The versions that can be read; those from 1.4 on can be written.
VERSIONS = ("1.3", "1.4", "1.5", "1.6")

#: The versions that keep what was executed apart from what was specified.
NESTED = ("1.5", "1.6")

#: What entries of an executed task are called before 1.5, where that differs.
OLD_NAMES = {
    "coreCount": "cores",
    "energyInKWh": "energy",
    "avgPowerInW": "avgPower",
}

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


def shifted(number: Number, places: int) -> float:
    """Return ``number * 10**places``, rounded once.

    From milliseconds to seconds and back is the same number if it has 15 significant digits at
    most, as times of the clock have.

    Examples
    --------
    >>> 1.001 * 1e3, shifted(1.001, 3), shifted(1001.0, -3)
    (1000.9999999999999, 1001.0, 1.001)
    """
    return float(Decimal(repr(float(number))).scaleb(places))


def identifiers(names: Iterable[str], known: Mapping[str, Any]) -> dict[str, str]:
    """Return a distinct valid identifier for each name, from `known` or from the name.

    Examples
    --------
    >>> identifiers(["a b", "a_b", "a?b", "c"], {"c": "ID1"})
    {'a b': 'a_b_2', 'a_b': 'a_b', 'a?b': 'a_b_3', 'c': 'ID1'}
    """
    wanted = {name: text_in(known, name) or name for name in names}
    found: dict[str, str] = {}
    taken: set[str] = set()
    for name, identifier in wanted.items():
        if identifier and identifier not in taken and not _NOT_IN_IDS.search(identifier):
            found[name] = identifier
            taken.add(identifier)
    used: Counter[str] = Counter()
    for name, identifier in wanted.items():
        if name in found:
            continue
        base = candidate = _NOT_IN_IDS.sub("_", identifier) or "task"
        while candidate in taken:
            used[base] += 1
            candidate = f"{base}_{used[base] + 1}"
        found[name] = candidate
        taken.add(candidate)
    return {name: found[name] for name in wanted}


_SYSTEMS = {"Linux": "linux", "macOS": "macos", "Darwin": "macos", "Windows": "windows"}


def machine_of(host: str, sections: Mapping[str, Any]) -> dict[str, Any]:
    """Return the machine that a profile was measured on."""
    environment = sections.get("environment", {})
    system, _, release = environment.get("os", "").partition("-")
    machine: dict[str, Any] = {"nodeName": host}
    if system in _SYSTEMS:
        machine.update(system=_SYSTEMS[system], release=release or "unknown")
    if environment.get("machine"):
        machine["architecture"] = environment["machine"]
    if environment.get("memory_bytes"):
        machine["memoryInBytes"] = environment["memory_bytes"]
    cpu: dict[str, Any] = {}
    if environment.get("cores"):
        cpu["coreCount"] = environment["cores"]
    if environment.get("cpu_mhz"):
        cpu["speedInMHz"] = max(1, round(environment["cpu_mhz"]))
    machine["cpu"] = cpu
    return machine


#: Sizes of edges, and their descriptions.
SIZES = {"spec": "its payload by the standard's rule", "wire": "its bytes as serialized"}

#: Costs that can become runtimes.
COSTS = ("time", "wall_time", "cpu_time", "reference_time")

#: Attributes of executed tasks that an imported profile keeps for the next export.
_KEPT = (
    "command",
    "coreCount",
    "energyInKWh",
    "avgPowerInW",
    "priority",
    "executedAt",
    "launchDir",
    "category",
)

#: Sections that the file holds, or that describe others.
_HELD = {"run", "samples", "weight_sources", "environment", "imported"}


class Instance:
    """Converts a profile to WfFormat."""

    def __init__(self, profile: Profile, version: str, size: str) -> None:
        self._profile = profile
        self._version = version
        self._size = size
        self._nodes: list[str] = profile.dag_structure["nodes"]
        #: The section that an import keeps; of free form.
        self._imported = mapping_in(profile.sections, "imported")
        known = mapping_in(self._imported, "ids") if version in NESTED else {}
        self._ids = identifiers(self._nodes, known)
        self._ids_are_names = all(name == self._ids[name] for name in self._nodes)
        self._lay_out_edges()
        self._runtimes_ms: Mapping[str, float] = {}
        self._filled = 0
        self._losses: list[str] = []

    def _lay_out_edges(self) -> None:
        edges = self._profile.dag_structure["edges"]
        # Edges of 0.1.0 may repeat.
        pairs = list(dict.fromkeys((edge["source"], edge["target"]) for edge in edges))
        sizes = self._sizes(pairs)
        ids = self._ids
        self._parents: dict[str, list[str]] = {name: [] for name in self._nodes}
        self._children: dict[str, list[str]] = {name: [] for name in self._nodes}
        self._inputs: dict[str, list[str]] = {}
        self._outputs: dict[str, list[str]] = {}
        self._file_bytes: dict[str, int] = {}
        self._unknown_sizes = 0
        for (source, target), size_bytes in zip(pairs, sizes):
            self._parents[target].append(ids[source])
            self._children[source].append(ids[target])
            if size_bytes is None:
                self._unknown_sizes += 1
                continue
            file = f"{ids[source]}/{ids[target]}"
            self._file_bytes[file] = size_bytes
            self._outputs.setdefault(source, []).append(file)
            self._inputs.setdefault(target, []).append(file)

    def _sizes(self, pairs: Sequence[tuple[str, str]]) -> list[int | None]:
        """Return the size of each edge in bytes, None if unknown."""
        metrics = self._profile.metrics
        bits = [metrics.edge_weights.get(f"{source}->{target}") for source, target in pairs]
        # 0.1.0 may have written bits that are not whole bytes.
        sizes = [None if size is None else -(-size // 8) for size in bits]
        if self._size == "spec":
            return sizes
        wire = {(edge.source, edge.target): edge.wire_bytes for edge in metrics.edge_metrics}
        lacking = [
            pair for pair, size in zip(pairs, sizes) if size is not None and wire.get(pair) is None
        ]
        if lacking:
            source, target = lacking[0]
            more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
            raise FormatError(
                f"size='wire': the profile holds no wire size of the edge {source!r} -> "
                f"{target!r}{more}; size='spec' takes the payload"
            )
        return [wire.get(pair) for pair in pairs]

    def take_runtimes(self, cost: str, statistic: str, fill: float | None) -> None:
        """Store the known runtimes, in milliseconds."""
        found = self._profile.weights(cost, statistic, fill=0 if fill is None else fill)
        absent = set(found.filled) if fill is None else set()
        self._runtimes_ms = {n: ms for n, ms in found.values.items() if n not in absent}
        self._filled = len(found.filled) - len(absent)

    def document(self, workflow: str | None) -> dict[str, Any]:
        """Return the instance."""
        profile, imported = self._profile, self._imported
        document: dict[str, Any] = {"name": workflow or text_in(imported, "name") or "dagprofiler"}
        for key, kept in (("description", "description"), ("createdAt", "created_at")):
            if text_in(imported, kept):
                document[key] = imported[kept]
        document["schemaVersion"] = self._version
        system = {
            "name": "dagprofiler",
            "version": str(profile.metadata.get("dagprofiler_version") or "unknown"),
        }
        if imported:
            system = mapping_in(imported, "runtime_system")
        if system:
            document["runtimeSystem" if self._version in NESTED else "wms"] = system
        if mapping_in(imported, "author"):
            document["author"] = imported["author"]
        nested = self._version in NESTED
        document["workflow"] = self._nested() if nested else self._flat()
        return document

    def _nested(self) -> dict[str, Any]:
        """Return the workflow of 1.5 and 1.6."""
        files = [{"id": file, "sizeInBytes": size} for file, size in self._file_bytes.items()]
        workflow: dict[str, Any] = {
            "specification": {"tasks": list(map(self._specified, self._nodes)), "files": files}
        }
        if self._runtimes_ms:
            workflow["execution"] = {
                **self._execution(),
                "tasks": [
                    {"id": self._ids[name], **attributes} for name, attributes in self._executed()
                ],
            }
            machines = self._machines()
            if machines:
                workflow["execution"]["machines"] = machines
        return workflow

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
            entry = {"name": self._ids[name], "id": self._ids[name], "type": "compute"}
            if self._ids[name] != name:
                entry["originalName"] = name
            task: dict[str, Any] = {
                **entry,
                "parents": self._parents[name],
                "children": self._children[name],
            }
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
        workflow = {**self._execution(), "tasks": tasks}
        machines = self._machines()
        if machines:
            for machine in machines:
                cpu = mapping_in(machine, "cpu")
                machine["cpu"] = {OLD_CPU_NAMES.get(k, k): value for k, value in cpu.items()}
            workflow["machines"] = machines
        return workflow

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
        yield from self._losses
        yield from self._lost_of_tasks()
        if self._unknown_sizes:
            # Tasks have one list of files, which cannot be marked as incomplete.
            taken = "" if self._version in NESTED else "; readers may take it for 0"
            edges = counted(self._unknown_sizes, "edge has", "edges have")
            yield f"{edges} no known size, and so no file{taken}"
        yield from _lost_sections(self._profile)
        renamed = [name for name in self._nodes if self._ids[name] != name]
        if renamed:
            first = renamed[0]
            names = counted(
                len(renamed), "task name is no identifier", "task names are no identifiers"
            )
            yield (
                f"{names} of WfFormat: "
                f"{short_repr(first)} goes by {short_repr(self._ids[first])}, and its "
                f"name stays in {'name' if self._version in NESTED else 'originalName'}"
            )

    def _lost_of_tasks(self) -> Iterator[str]:
        count, known = len(self._nodes), len(self._runtimes_ms)
        if self._filled:
            tasks = counted(self._filled, "task has", "tasks have")
            yield f"{tasks} no runtime: fill= stands for it"
        if not known:
            where = "execution part, which WRENCH requires" if self._version in NESTED else "times"
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
    if profile.config:
        yield "the configuration is left out"
    if profile.seed is not None:
        yield "the seed is left out"
    rounds = profile.sections.get("samples", {}).get("rounds", []).count(MEASURED)
    if rounds > 1:
        yield f"the samples of {rounds} rounds are left out: one number stands for all"
    if profile.sections.get("run", {}).get("state") == "partial":
        yield "that the run is partial, and why, is left out"
    if profile.sections.get("environment", {}).keys() - {"not_measured"}:
        yield "of the environment all but the machine is left out"
    others = [name for name in profile.sections if name not in _HELD]
    if others:
        yield f"these sections are left out: {', '.join(map(shorten, others))}"


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
        if workflow is not None and not isinstance(workflow, str):
            raise FormatError(f"workflow must be text, got {workflow!r}")
        if fill is not None:
            fill = finite_number(fill, "fill, in milliseconds,")
        if not profile.dag_structure["nodes"]:
            raise FormatError("WfFormat has no workflows without tasks, and this profile has none")
        instance = Instance(profile, version, size)
        instance.take_runtimes(cost, statistic, fill)
        document = instance.document(workflow)
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


EXPORTER = WfFormat()
