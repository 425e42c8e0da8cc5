"""WfFormat: the workflow instances of WfCommons, WRENCH, SimGrid and SAGA.

All versions are read and written in the words of 1.5, which keeps what was executed apart from
what was specified: :func:`_modern` and :func:`_flat` are the ways from and to 1.4.
"""

from __future__ import annotations

import copy
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from math import inf
from typing import Any

from dagprofiler._document import Samples
from dagprofiler._document.quick import first_problem, inlined
from dagprofiler._document.rounds import MEASURED
from dagprofiler._document.table import edges_of
from dagprofiler._util import grouped
from dagprofiler._util.checks import choice, number
from dagprofiler._util.json import mapping_in, plain_number, text_in, utc_text
from dagprofiler._util.text import distinct
from dagprofiler.analysis.weights import known_weights
from dagprofiler.config import Config
from dagprofiler.errors import CycleError, FormatError, counted, short_repr, shorten
from dagprofiler.formats import Export
from dagprofiler.formats._graph import left_out, predicted
from dagprofiler.graph.wiring import kahn_order
from dagprofiler.metrics import EDGE_COLUMNS, DAGMetrics
from dagprofiler.profile import Profile
from dagprofiler.stats import median

#: The versions that can be read; those from 1.4 on can be written.
VERSIONS = ("1.3", "1.4", "1.5", "1.6")

_WRITTEN = VERSIONS[1:]

#: The versions that keep what was executed apart from what was specified.
NESTED = ("1.5", "1.6")

#: What parts of an executed task were called before 1.5, and are called since.
_NEW_NAMES = {
    "runtime": "runtimeInSeconds",
    "cores": "coreCount",
    "energy": "energyInKWh",
    "avgPower": "avgPowerInW",
    "bytesRead": "readBytes",
    "bytesWritten": "writtenBytes",
    "memory": "memoryInBytes",
}

#: Those whose old name is written in 1.4: it has the new ones of the others too.
_OLD_NAMES = {_NEW_NAMES[old]: old for old in ("cores", "energy", "avgPower")}

#: The same for a machine's ``cpu``.
_NEW_CPU_NAMES = {"count": "coreCount", "speed": "speedInMHz"}
_OLD_CPU_NAMES = {new: old for old, new in _NEW_CPU_NAMES.items()}

#: What a task of 1.4 holds that is no part of an executed task.
_SPECIFIED = {"name", "originalName", "id", "type", "parents", "children", "files", "machine"}

#: Attributes of executed tasks to the columns of samples that hold them.
METERED = {
    "readBytes": "read_bytes",
    "writtenBytes": "written_bytes",
    "memoryInBytes": "peak_memory_bytes",
}

#: Costs that can become runtimes.
COSTS = ("time", "wall_time", "cpu_time", "reference_time")

#: Characters in identifiers that all versions and readers accept.
_NOT_IN_IDS = re.compile(r"[^0-9A-Za-z_.-]")

_LOST = (
    "WfFormat holds one time of each task, what was metered, one size of each edge and the "
    "machine: node weights, other times and sizes, fields of edges, the seed, samples and why a "
    "run is partial are left out"
)

#: Sections that the file holds, or that describe others.
_HELD = {"run", "samples", "weight_sources", "environment", "imported"}

_encode = json.JSONEncoder(allow_nan=False, default=plain_number).encode


def identifiers(names: Sequence[str]) -> dict[str, str]:
    """Return a distinct valid identifier for each name.

    Examples
    --------
    >>> identifiers(["a b", "a_b", "a?b"])
    {'a b': 'a_b_2', 'a_b': 'a_b', 'a?b': 'a_b_3'}
    """
    return dict(zip(names, distinct(names, "{}_{}", lambda t: _NOT_IN_IDS.sub("_", t) or "task")))


def _known(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that are neither None nor 0 nor empty."""
    return {key: value for key, value in values.items() if value}


# Writing


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
        An imported profile becomes the instance that it was, with the runtimes of the profile.
        Any other has one file for each edge, named ``source/target``. Identifiers are task names in
        which each character but letters, digits, ``_``, ``.`` and ``-`` is ``_``, with a
        number where two were the same; what they were stays in ``name``, in version 1.4,
        where names are what tasks refer to, in ``originalName``. O(tasks + edges) time.
        """
        choice("version", version, _WRITTEN, error=FormatError)
        choice("cost", cost, COSTS, error=FormatError)
        choice("size", size, ["spec", "wire"], error=FormatError)
        if fill is not None:
            fill = number("fill, in milliseconds,", fill, zero=True, error=FormatError)
        if not profile.dag_structure["nodes"]:
            raise FormatError("WfFormat has no workflows without tasks, and this profile has none")
        weights = known_weights(profile, cost, statistic, fill)
        document = _imported(profile) or _specified(profile, size)
        document["schemaVersion"] = version
        if workflow is not None:
            document["name"] = str(workflow)
        if predicted(profile):
            document["description"] = "".join(predicted(profile))
        _execute(document, profile, weights.values)
        losses = tuple(_losses(document, profile, weights.filled))
        if version not in NESTED:
            document = _flat(document, profile)
        return Export("".join(_lines(document)) + "\n", losses)


def _losses(document: Mapping[str, Any], profile: Profile, filled: Iterable[str]) -> Iterator[str]:
    """Yield what the file does not hold."""
    yield from predicted(profile)
    yield _LOST
    workflow = document["workflow"]
    if profile.metrics.total_time_ms is None:
        yield (
            "the profile has no total time, which WfFormat requires: makespanInSeconds is the sum "
            "of all runtimes"
        )
    if list(filled):
        yield "tasks without a runtime have that of fill="
    if "execution" not in workflow:
        yield "no task has a runtime: the file has no execution part, which WRENCH requires"
    elif len(workflow["execution"]["tasks"]) < len(profile.dag_structure["nodes"]):
        yield "tasks without a runtime have none here: readers may take it for 0"
    if len(profile.metrics.edge_weights) < len(profile.dag_structure["edges"]):
        yield "edges without a known size have no file: readers may take it for 0"
    yield from left_out(profile, _HELD)
    if any(task["id"] != task["name"] for task in workflow["specification"]["tasks"]):
        yield "names of tasks that are no identifiers stay in name, in 1.4 in originalName"


def _imported(profile: Profile) -> dict[str, Any] | None:
    """Return the instance that a profile was, with valid identifiers; None if it was none."""
    document = copy.deepcopy(mapping_in(mapping_in(profile.sections, "imported"), "document"))
    if first_problem(document, _schemas()["nested"]) is not None:
        return None
    tasks = document["workflow"]["specification"]["tasks"]
    names = _names(tasks)
    if names != profile.dag_structure["nodes"]:
        return None
    ids = identifiers([task["id"] for task in tasks])
    has_ids = all(old == new for old, new in ids.items())
    for name, task in zip(names, tasks):
        task["id"] = ids[task["id"]]
        # When it is read again, tasks of one name are named by their identifiers.
        task["name"] = task["name"] if has_ids else name
        task["parents"], task["children"] = [], []
    by_name = dict(zip(names, tasks))
    for source, target in edges_of(profile):
        by_name[source]["children"].append(by_name[target]["id"])
        by_name[target]["parents"].append(by_name[source]["id"])
    execution = document["workflow"].get("execution") or {"tasks": ()}
    for task in execution["tasks"]:
        task["id"] = ids[task["id"]]
    return document


def _specified(profile: Profile, size: str) -> dict[str, Any]:
    """Return an instance of the tasks and edges of a profile, without what was executed."""
    names, metrics = profile.dag_structure["nodes"], profile.metrics
    ids = identifiers(names)
    wire = {(edge.source, edge.target): edge.wire_bytes for edge in metrics.edge_metrics}
    tasks: dict[str, dict[str, Any]] = {
        name: {"name": name, "id": ids[name], "parents": [], "children": []} for name in names
    }
    files = []
    for source, target in edges_of(profile):
        tasks[source]["children"].append(ids[target])
        tasks[target]["parents"].append(ids[source])
        bits = metrics.edge_weights.get(f"{source}->{target}")
        if bits is None:
            continue
        # Other programs may write bits that are not whole bytes.
        size_bytes = -(-bits // 8) if size == "spec" else wire.get((source, target))
        if size_bytes is None:
            raise FormatError(
                f"size='wire': the profile holds no wire size of the edge {source!r} -> "
                f"{target!r}; size='spec' takes the payload"
            )
        file = f"{ids[source]}/{ids[target]}"
        files.append({"id": file, "sizeInBytes": size_bytes})
        tasks[source].setdefault("outputFiles", []).append(file)
        tasks[target].setdefault("inputFiles", []).append(file)
    for task in tasks.values():
        # A missing list means unknown files, an empty one no files.
        for key, others in (("inputFiles", "parents"), ("outputFiles", "children")):
            if not task[others]:
                task.setdefault(key, [])
    software = str(profile.metadata.get("dagprofiler_version") or "unknown")
    return {
        "name": "dagprofiler",
        "schemaVersion": "",
        "runtimeSystem": {"name": "dagprofiler", "version": software},
        "workflow": {"specification": {"tasks": list(tasks.values()), "files": files}},
    }


def _execute(document: dict[str, Any], profile: Profile, runtimes_ms: Mapping[str, float]) -> None:
    """Put runtimes, and what else was measured, into an instance."""
    workflow = document["workflow"]
    kept = workflow.pop("execution", None) or {}
    if not runtimes_ms:
        return
    total_ms = profile.metrics.total_time_ms
    if total_ms is None:
        total_ms = min(sum(runtimes_ms.values()), sys.float_info.max)
    ids = [task["id"] for task in workflow["specification"]["tasks"]]
    executed = {task["id"]: task for task in kept.get("tasks", ())}
    machines = kept.get("machines") or [] if kept else _machines(profile)
    tasks = []
    for name, identifier in zip(profile.dag_structure["nodes"], ids):
        if name not in runtimes_ms:
            continue
        # WRENCH fails on an empty list of machines.
        on = {"machines": [machines[0]["nodeName"]]} if machines and not kept else {}
        seconds = _seconds(runtimes_ms[name])
        task = {"id": identifier, **on, **executed.get(identifier, {}), "runtimeInSeconds": seconds}
        # It is that of another runtime, or 0.
        task.pop("avgCPU", None)
        tasks.append({**task, **dict(_metered(profile.samples, name, runtimes_ms[name]))})
    workflow["execution"] = {
        "makespanInSeconds": _seconds(total_ms),
        "executedAt": kept.get("executedAt") or profile.timestamp,
        "tasks": tasks,
        # WRENCH requires a cpu of each.
        **_known({"machines": [{"cpu": {}, **machine} for machine in machines]}),
    }


def _seconds(time_ms: float) -> float:
    """Return a time in seconds; in nanoseconds it is whole, as those of the clock are."""
    return round(time_ms / 1e3, 9)


def _metered(samples: Samples, name: str, runtime_ms: float) -> Iterator[tuple[str, int | float]]:
    """Yield attributes of an executed task from the medians of its samples.

    Readers multiply ``avgCPU`` by the runtime, so it is the CPU time as a share of that.
    """
    medians = {}
    for column in ("process_cpu_ms", "cpu_ms", *METERED.values()):
        if measured := samples.of(name, column):
            medians[column] = median(measured)
    cpu_ms = medians.get("process_cpu_ms", medians.get("cpu_ms"))
    # WRENCH divides by it, so it must not be 0.
    percent = round(100 * cpu_ms / runtime_ms, 6) if runtime_ms and cpu_ms is not None else 0
    if 0 < percent < inf:
        yield "avgCPU", percent
    for key, column in METERED.items():
        if column in medians:
            yield key, round(medians[column])


_SYSTEMS = {"Linux": "linux", "macOS": "macos", "Darwin": "macos", "Windows": "windows"}


def _machines(profile: Profile) -> list[dict[str, Any]]:
    """Return the machine that a profile was measured on, if it is known."""
    if profile.hostname is None:
        return []
    environment = profile.sections.get("environment", {})
    name, _, release = environment.get("os", "").partition("-")
    system, mhz = _SYSTEMS.get(name), environment.get("cpu_mhz")
    machine = {
        "nodeName": profile.hostname,
        "system": system,
        "release": system and (release or "unknown"),
        "architecture": environment.get("machine"),
        "memoryInBytes": environment.get("memory_bytes"),
    }
    cpu = {"coreCount": environment.get("cores"), "speedInMHz": mhz and max(1, round(mhz))}
    return [{**_known(machine), "cpu": _known(cpu)}]


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


# Up to 1.4


def _modern(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return an instance of 1.3 or 1.4 in the words of 1.5."""
    flat = dict(document["workflow"])
    wms = document.get("runtimeSystem") or document.get("wms") or {}
    # Before 1.4 these were in kilobytes, except in files of Pegasus.
    of_files = 1 if "pegasus" in str(wms.get("name")).lower() else 1000
    scales = {"bytesRead": of_files, "bytesWritten": of_files, "memory": 1000}
    names = {entry["name"] for entry in flat["tasks"]}
    # Tasks may refer to each other by identifiers, too.
    by_id = {text_in(entry, "id"): entry["name"] for entry in flat["tasks"]}
    file_bytes: dict[str, int] = {}
    specified, executed = [], []
    for entry in flat.pop("tasks"):
        name, original = entry["name"], entry.get("originalName")
        task = {"name": name if original is None else original, "id": name}
        for key in ("parents", "children"):
            references = entry.get(key) or ()
            task[key] = [one if one in names else by_id.get(one, one) for one in references]
        specified.append({**task, **_linked_files(entry.get("files"), file_bytes)})
        attributes = {
            _NEW_NAMES.get(key, key): value * scales[key] if key in scales else value
            for key, value in entry.items()
            if key not in _SPECIFIED and _NEW_NAMES.get(key) not in entry and value is not None
        }
        machines = {} if entry.get("machine") is None else {"machines": [entry["machine"]]}
        if "runtimeInSeconds" in attributes:
            executed.append({"id": name, **attributes, **machines})
    execution = _renamed(flat, {"makespan": "makespanInSeconds"})
    if not executed and execution.get("makespanInSeconds") == 0:
        # It is required, even where nothing was executed.
        del execution["makespanInSeconds"]
    execution["tasks"] = executed
    execution["machines"] = [_modern_machine(entry) for entry in flat.get("machines") or ()]
    files = [{"id": file, "sizeInBytes": size} for file, size in file_bytes.items()]
    modern = _renamed(document, {"wms": "runtimeSystem"})
    modern["workflow"] = {
        "specification": {"tasks": specified, "files": files},
        "execution": execution,
    }
    return modern


def _linked_files(entries: Any, file_bytes: dict[str, int]) -> dict[str, list[str]]:
    """Return the files that a task reads and writes, if it lists any, and store their sizes."""
    if entries is None:
        return {}
    linked: dict[str, list[str]] = {"inputFiles": [], "outputFiles": []}
    for file in entries:
        name = str(file.get("path") or "") + file["name"]
        # In 1.3 `size` is in bytes in all known instances, contrary to its schema.
        size = file.get("sizeInBytes", file.get("size"))
        if size is None:
            raise FormatError(f"$.workflow: file {short_repr(name)} has no size")
        file_bytes[name] = int(size)
        linked[f"{file['link']}Files"].append(name)
    return linked


def _modern_machine(entry: Mapping[str, Any]) -> dict[str, Any]:
    machine = {key: value for key, value in entry.items() if key != "memory"}
    if isinstance(machine.get("cpu"), dict):
        machine["cpu"] = _renamed(machine["cpu"], _NEW_CPU_NAMES)
    if isinstance(entry.get("memory"), (int, float)):
        machine.setdefault("memoryInBytes", 1000 * entry["memory"])
    return machine


def _flat(document: Mapping[str, Any], profile: Profile) -> dict[str, Any]:
    """Return an instance of 1.5 in the words of 1.4, where tasks refer to each other by name."""
    workflow = document["workflow"]
    specification = workflow["specification"]
    # It requires both, even where nothing was executed.
    execution: dict[str, Any] = {
        "makespanInSeconds": _seconds(profile.metrics.total_time_ms or 0.0),
        "executedAt": profile.timestamp,
        **workflow.get("execution", {}),
    }
    file_bytes = {file["id"]: file["sizeInBytes"] for file in specification.get("files") or ()}
    executed = {task["id"]: task for task in execution.get("tasks", ())}
    tasks = []
    for entry in specification["tasks"]:
        task: dict[str, Any] = dict.fromkeys(("name", "id"), entry["id"])
        task["type"] = "compute"
        if entry["name"] != entry["id"]:
            task["originalName"] = entry["name"]
        task.update(parents=entry["parents"], children=entry["children"])
        files = [
            {"name": file, "sizeInBytes": file_bytes[file], "link": link}
            for link in ("input", "output")
            for file in entry.get(f"{link}Files") or ()
            if file in file_bytes
        ]
        if files or entry.keys() >= {"inputFiles", "outputFiles"}:
            task["files"] = files
        attributes = _renamed(executed.get(entry["id"], {}), _OLD_NAMES)
        # SimGrid binds a task to the machine it names, which its platform may not have.
        task.update((key, attributes[key]) for key in attributes if key not in ("id", "machines"))
        tasks.append(task)
    execution["tasks"] = tasks
    if "machines" in execution:
        execution["machines"] = [
            {**machine, "cpu": _renamed(mapping_in(machine, "cpu"), _OLD_CPU_NAMES)}
            for machine in execution["machines"]
        ]
    return {**_renamed(document, {"runtimeSystem": "wms"}), "workflow": execution}


def _renamed(values: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(key, key): value for key, value in values.items()}


# Reading


@cache
def _schemas() -> dict[str, dict[str, Any]]:
    """Return what is read of instances, ``"flat"`` and ``"nested"``, as JSON Schemas."""
    text = (resources.files("dagprofiler.formats") / "wfformat.schema.json").read_text("utf-8")
    definitions = json.loads(text)["$defs"]
    return {name: inlined(definitions[name], definitions) for name in ("flat", "nested")}


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
    identifiers. ``sections["imported"]`` keeps the instance, in the words of WfFormat 1.5, as
    ``document``; an export to WfFormat writes it again.
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
            If a name cannot be printed, or something that is kept as it is holds a number that is
            not finite, such as 1e999.

        Notes
        -----
        A task that was not executed, or before 1.5 has no runtime, and a file with several
        producers or none, are no errors. An edge is what parents or children name; if no task
        names any, edges follow from the files. O(tasks + edges + uses of files) time, and for
        the order O((tasks + edges) log tasks).
        """
        version = document.get("schemaVersion") if isinstance(document, dict) else None
        if version not in VERSIONS:
            known = ", ".join(VERSIONS)
            what = "it is no WfFormat" if version is None else f"got {short_repr(version)}"
            raise FormatError(f"$.schemaVersion: expected a version of WfFormat ({known}); {what}")
        is_nested = version in NESTED
        problem = first_problem(document, _schemas()["nested" if is_nested else "flat"])
        if problem is not None:
            raise FormatError(f"{problem.path}: {problem.message}")
        if not is_nested:
            _check_distinct(document["workflow"]["tasks"], "name")
        modern = document if is_nested else _modern(document)
        return Profile.from_dict(_Import(modern, version).document())


class _Import:
    """Converts an instance in the words of 1.5 to the document of a profile."""

    def __init__(self, instance: dict[str, Any], version: str) -> None:
        self._instance, self._version = instance, version
        specification = instance["workflow"]["specification"]
        execution = instance["workflow"].get("execution") or {}
        self._tasks: list[dict[str, Any]] = specification["tasks"]
        executed = {task["id"]: task for task in execution.get("tasks", ())}
        _check_distinct(self._tasks, "id")
        _check_distinct(execution.get("tasks", ()), "id")
        if unknown := executed.keys() - {task["id"] for task in self._tasks}:
            raise FormatError(f"$.workflow.execution: there is no task {short_repr(min(unknown))}")
        #: What was executed of each task.
        self._ran = [executed.get(task["id"], {}) for task in self._tasks]
        self._wall_ms = [_ms(ran.get("runtimeInSeconds")) for ran in self._ran]
        files = specification.get("files")
        #: Size of each file, in bytes; None if the instance lists no files.
        self._file_bytes: dict[str, int] | None = None
        if files is not None:
            self._file_bytes = {file["id"]: int(file["sizeInBytes"]) for file in files}
        #: Files of each task; None if they are unknown.
        self._inputs = [_distinct(task.get("inputFiles")) for task in self._tasks]
        self._outputs = [_distinct(task.get("outputFiles")) for task in self._tasks]
        self._total_ms = _ms(execution.get("makespanInSeconds"))
        self._executed_at = execution.get("executedAt")
        self._machines: list[dict[str, Any]] = execution.get("machines") or []
        #: Numbers of source and target to the files between them; what only the files say.
        self._edges, self._notes = _edges(self._tasks, self._inputs, self._outputs)
        self._names = _names(self._tasks)
        self._not_measured = dict(_NOT_IN_WFFORMAT)

    def document(self) -> dict[str, Any]:
        """Return the document of the profile."""
        names = self._names
        if self._total_ms is None:
            self._not_measured["total_time_ms"] = "the file holds no makespan"
        pairs = [(names[source], names[target]) for source, target in self._edges]
        carried = self._carried()
        weights = {
            f"{source}->{target}": 8 * record[1]
            for (source, target), record in zip(pairs, carried)
            if record is not None
        }
        imported = {"format": "wfformat", "version": self._version, "document": self._instance}
        document: dict[str, Any] = {
            "metadata": self._metadata(),
            "configuration": {},
            "dag_structure": {
                "nodes": names,
                "edges": [{"source": source, "target": target} for source, target in pairs],
                "execution_order": self._order(pairs),
            },
            "node_weights": dict.fromkeys(names, 0),
            "edge_weights": weights,
            "edge_metrics": {"columns": [*EDGE_COLUMNS], "records": carried},
            "execution_metrics": self._execution_metrics(),
            "run": self._run(),
            "weight_sources": self._weight_sources(),
            "environment": self._environment(),
            "imported": {**imported, **_known({"notes": self._notes})},
        }
        if self._total_ms is not None:
            document["total_time_ms"] = self._total_ms
        if document["execution_metrics"]:
            document["samples"] = self._samples()
        return document

    def _metadata(self) -> dict[str, Any]:
        dates = [
            text
            for text in (self._executed_at, self._instance.get("createdAt"))
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
        file_bytes = self._file_bytes
        if file_bytes is None:
            self._not_measured["size_bytes"] = "the file lists no files, so that no size is known"
            return [None] * len(self._edges)
        records: list[list[Any] | None] = []
        for (source, target), files in self._edges.items():
            if self._outputs[source] is None or self._inputs[target] is None:
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
            why = "the file does not say which files all tasks read and write; then it is 0 here"
            self._not_measured.update(bytes_in=why, bytes_out=why)
            return 0
        for file in files:
            if file not in sizes:
                raise FormatError(
                    f"$.workflow: file {short_repr(file)} of task "
                    f"{short_repr(self._tasks[task]['id'])} is not among the files, and has no size"
                )
        return sum(sizes[file] for file in files)

    def _execution_metrics(self) -> list[dict[str, Any]]:
        entries = []
        for i, wall_ms in enumerate(self._wall_ms):
            if wall_ms is not None:
                entry = {"task": self._names[i], "compute_time_ms": wall_ms}
                entry["bytes_in"] = self._total_bytes(self._inputs[i], i)
                entry["bytes_out"] = self._total_bytes(self._outputs[i], i)
                entries.append(entry)
        return entries

    def _run(self) -> dict[str, Any]:
        missing, count = self._wall_ms.count(None), len(self._tasks)
        if not missing:
            return {"state": "complete", "rounds": 1}
        lacking = f"runtime of {missing:,} of {counted(count, 'task')}"
        if missing == count:
            lacking = "runtimes: nothing was measured"
        reason = f"imported from WfFormat {self._version}, which holds no {lacking}"
        return {"state": "partial", "reason": reason, "rounds": int(missing < count)}

    def _weight_sources(self) -> dict[str, Any]:
        if self._wall_ms.count(None) == len(self._tasks):
            self._not_measured["wall_time_ms"] = "the file holds no runtimes"
            return {name: {"node_weight": "default"} for name in self._names}
        why = {"reasons": {"wall_time_ms": "the file holds no runtime of the task"}}
        return {
            name: {"node_weight": "default", "wall_time_ms": ms, **(why if ms is None else {})}
            for name, ms in zip(self._names, self._wall_ms)
        }

    def _samples(self) -> dict[str, Any]:
        """Return the measurements of each task, as one round."""
        rows: dict[str, Any] = {}
        for name, wall_ms, ran in zip(self._names, self._wall_ms, self._ran):
            if wall_ms is None:
                continue
            row: dict[str, Any] = {"wall_ms": wall_ms}
            if ran.get("avgCPU") is not None:
                row["process_cpu_ms"] = min(ran["avgCPU"] / 100 * wall_ms, 1e308)
            row.update(
                (column, ran[key]) for key, column in METERED.items() if ran.get(key) is not None
            )
            rows[name] = {column: [value] for column, value in row.items()}
        return {"rounds": [MEASURED], "total_ms": [self._total_ms], "tasks": rows, "edges": {}}

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


def _ms(seconds: float | None) -> float | None:
    """Return a time in milliseconds, whole in nanoseconds as in :func:`_seconds`."""
    return None if seconds is None else round(seconds * 1e3, 6)


def _distinct(texts: Iterable[str] | None) -> list[str] | None:
    return None if texts is None else list(dict.fromkeys(texts))


def _check_distinct(entries: Iterable[Mapping[str, Any]], key: str) -> None:
    seen: set[str] = set()
    for entry in entries:
        if entry[key] in seen:
            raise FormatError(f"$.workflow: task {short_repr(entry[key])} is listed twice")
        seen.add(entry[key])


def _edges(
    tasks: Sequence[Mapping[str, Any]],
    inputs: Sequence[Sequence[str] | None],
    outputs: Sequence[Sequence[str] | None],
) -> tuple[dict[tuple[int, int], list[str]], list[str]]:
    """Return the edges with the files that travel on each, and what the files say beyond them."""
    edges = _declared(tasks)
    declared = bool(edges)
    parents = grouped((target, source) for source, target in edges)
    producers: dict[str, dict[int, None]] = {}
    for i, files in enumerate(outputs):
        for file in files or ():
            producers.setdefault(file, {})[i] = None
    undeclared = 0
    for i, files in enumerate(inputs):
        above = set(parents.get(i, ()))
        for file in files or ():
            makers = producers.get(file, {})
            if declared:
                # A task may share a file with thousands and have only one of them as parent, or
                # have thousands of parents of which one writes the file: the smaller set counts.
                sources = [*(makers.keys() & above)]
            else:
                sources = [source for source in makers if source != i]
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


def _declared(tasks: Sequence[Mapping[str, Any]]) -> dict[tuple[int, int], list[str]]:
    """Return the edges that tasks name as parents or children, each with a list for its files."""
    numbers = {task["id"]: i for i, task in enumerate(tasks)}
    pairs: dict[tuple[int, int], list[str]] = {}
    for key in ("parents", "children"):
        for i, task in enumerate(tasks):
            for reference in task.get(key) or ():
                other = numbers.get(reference)
                if other is None:
                    raise FormatError(
                        f"$.workflow: there is no task {short_repr(reference)}, one of the {key} "
                        f"of {short_repr(task['id'])}"
                    )
                pairs[(other, i) if key == "parents" else (i, other)] = []
    return pairs


def _names(tasks: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the tasks in the profile."""
    names: list[str] = [task["name"] for task in tasks]
    if len(set(names)) < len(names) or "->" in " ".join(names):
        names = [task["id"] for task in tasks]
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
