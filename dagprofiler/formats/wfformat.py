"""WfFormat: the workflow instances of WfCommons, WRENCH, SimGrid and SAGA.

All versions are read and written in the words of 1.5, which keeps what was executed apart from
what was specified: :func:`_modern` and :func:`_flat` are the ways from and to 1.4.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dagprofiler._document.rounds import MEASURED
from dagprofiler._document.table import edges_of
from dagprofiler._util import JsonObject, Values, grouped
from dagprofiler._util.checks import choice, number
from dagprofiler._util.json import mapping_in, text_in, to_json, utc_text
from dagprofiler._util.text import distinct
from dagprofiler._version import SCHEMA_VERSION, __version__
from dagprofiler.analysis.weights import known_weights
from dagprofiler.errors import CycleError, FormatError, counted, explained
from dagprofiler.formats import Export
from dagprofiler.formats._graph import edge_bits, left_out, predicted
from dagprofiler.graph.wiring import kahn_order
from dagprofiler.metrics import EDGE_COLUMNS
from dagprofiler.profile import Profile
from dagprofiler.schema import first_problem, load_schema
from dagprofiler.stats import median

#: The versions that can be read; those from 1.4 on can be written.
VERSIONS = ("1.3", "1.4", "1.5", "1.6")

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
    "run is partial are left out; names of tasks that are no identifiers stay in name, in 1.4 in "
    "originalName"
)
_ABSENT = (
    "runtimes and sizes that are not known are absent, and readers may take them for 0; so is the "
    "execution part, which WRENCH requires, where no task has a runtime; without a total time "
    "makespanInSeconds is the sum of all runtimes"
)

#: Sections that the file holds, or that describe others.
_HELD = {"run", "samples", "weight_sources", "environment", "imported"}

#: Source and target to the files that travel between them.
_Edges = dict[tuple[str, str], list[str]]

_SYSTEMS = {"Linux": "linux", "macOS": "macos", "Darwin": "macos", "Windows": "windows"}


def identifiers(names: Sequence[str]) -> dict[str, str]:
    """Return a distinct valid identifier for each name.

    Examples
    --------
    >>> identifiers(["a b", "a_b", "a?b"])
    {'a b': 'a_b_2', 'a_b': 'a_b', 'a?b': 'a_b_3'}
    """
    return dict(zip(names, distinct(names, "{}_{}", lambda t: _NOT_IN_IDS.sub("_", t) or "task")))


def _known(values: Values) -> JsonObject:
    """Return the values that are neither None nor 0 nor empty."""
    return {key: value for key, value in values.items() if value}


def _renamed(values: Values, names: Mapping[str, str]) -> JsonObject:
    return {names.get(key, key): value for key, value in values.items()}


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

        Raises
        ------
        FormatError
            If an option is not one of these, or the profile has no tasks.
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
        choice("version", version, VERSIONS[1:], error=FormatError)
        choice("cost", cost, COSTS, error=FormatError)
        bits = edge_bits(profile, size)
        if fill is not None:
            fill = number("fill, in milliseconds,", fill, zero=True, error=FormatError)
        if not profile.dag_structure["nodes"]:
            raise FormatError("WfFormat has no workflows without tasks, and this profile has none")
        weights = known_weights(profile, cost, statistic, fill)
        document = _imported(profile) or _specified(profile, bits)
        document["schemaVersion"] = version
        if predicted(profile):
            document["description"] = "".join(predicted(profile))
        _execute(document, profile, weights.values)
        if version not in NESTED:
            document = _flat(document, profile)
        losses = *predicted(profile), _LOST, _ABSENT, *left_out(profile, _HELD)
        return Export(to_json(document) + "\n", losses)


def _imported(profile: Profile) -> JsonObject | None:
    """Return the instance that a profile was, with the profile's edges; None if it was none."""
    document = copy.deepcopy(mapping_in(mapping_in(profile.sections, "imported"), "document"))
    if first_problem(document, _schema()) is not None:
        return None
    tasks = document["workflow"]["specification"]["tasks"]
    if _names(tasks) != profile.dag_structure["nodes"]:
        return None
    _link(tasks, profile)
    return document


def _link(tasks: Sequence[JsonObject], profile: Profile) -> dict[str, JsonObject]:
    """Write the edges of a profile into its tasks; return these by name."""
    by_name = dict(zip(profile.dag_structure["nodes"], tasks))
    for task in tasks:
        task.update(parents=[], children=[])
    for source, target in edges_of(profile):
        by_name[source]["children"].append(by_name[target]["id"])
        by_name[target]["parents"].append(by_name[source]["id"])
    return by_name


def _specified(profile: Profile, bits: Mapping[tuple[str, str], int]) -> JsonObject:
    """Return an instance of tasks, and of edges of some bits, without any runtimes."""
    ids = identifiers(profile.dag_structure["nodes"])
    tasks = _link([{"name": name, "id": ids[name]} for name in ids], profile)
    files = []
    for source, target in edges_of(profile):
        if (source, target) not in bits:
            continue
        # Other programs may write bits that are not whole bytes.
        size_bytes = -(-bits[source, target] // 8)
        file = f"{ids[source]}/{ids[target]}"
        files.append({"id": file, "sizeInBytes": size_bytes})
        tasks[source].setdefault("outputFiles", []).append(file)
        tasks[target].setdefault("inputFiles", []).append(file)
    for task in tasks.values():
        # A missing list means unknown files, an empty one no files.
        for key, others in (("inputFiles", "parents"), ("outputFiles", "children")):
            if not task[others]:
                task[key] = []
    software = str(profile.metadata.get("dagprofiler_version") or "unknown")
    machines = _machines(profile)
    # WRENCH fails on an empty list of machines.
    used = _known({"machines": [machine["nodeName"] for machine in machines]})
    executed = [{"id": task["id"], **used} for task in tasks.values()]
    return {
        "name": "dagprofiler",
        "schemaVersion": "",
        "runtimeSystem": {"name": "dagprofiler", "version": software},
        "workflow": {
            "specification": {"tasks": list(tasks.values()), "files": files},
            "execution": {"tasks": executed, "machines": machines},
        },
    }


def _execute(document: JsonObject, profile: Profile, runtimes_ms: Mapping[str, float]) -> None:
    """Put runtimes, and what else was measured, into an instance."""
    workflow = document["workflow"]
    specified = workflow["specification"]["tasks"]
    old = workflow.pop("execution", None) or {"tasks": ()}
    if not runtimes_ms:
        return
    total_ms = profile.metrics.total_time_ms
    if total_ms is None:
        total_ms = sum(runtimes_ms.values())
    executed = {task["id"]: task for task in old["tasks"]}
    tasks = []
    for name, entry in zip(profile.dag_structure["nodes"], specified):
        if name in runtimes_ms:
            task = executed.get(entry["id"], {"id": entry["id"]})
            task["runtimeInSeconds"] = _seconds(runtimes_ms[name])
            # It is that of another runtime, or 0.
            task.pop("avgCPU", None)
            tasks.append({**task, **dict(_metered(profile, name, runtimes_ms[name]))})
    workflow["execution"] = {
        "makespanInSeconds": _seconds(total_ms),
        "executedAt": old.get("executedAt") or profile.timestamp,
        "tasks": tasks,
        # WRENCH requires a cpu of each.
        **_known({"machines": [{"cpu": {}, **machine} for machine in old.get("machines") or ()]}),
    }


def _seconds(time_ms: float) -> float:
    """Return a time in seconds; in nanoseconds it is whole, as those of the clock are."""
    return round(time_ms / 1e3, 9)


def _metered(profile: Profile, name: str, runtime_ms: float) -> Iterator[tuple[str, float]]:
    """Yield attributes of an executed task from the medians of its samples.

    Readers multiply ``avgCPU`` by the runtime, so it is the CPU time as a share of that.
    """
    samples = profile.samples
    cpu_ms = samples.of(name, "process_cpu_ms") or samples.of(name, "cpu_ms")
    # WRENCH divides by it, so it must not be 0.
    if cpu_ms and runtime_ms and (percent := round(100 * median(cpu_ms) / runtime_ms, 6)):
        yield "avgCPU", percent
    for key, column in METERED.items():
        if measured := samples.of(name, column):
            yield key, round(median(measured))


def _machines(profile: Profile) -> list[JsonObject]:
    """Return the machine that a profile was measured on, if it is known."""
    if profile.hostname is None:
        return []
    environment = profile.sections.get("environment", {})
    system, _, release = environment.get("os", "").partition("-")
    machine = {
        "nodeName": profile.hostname,
        "system": _SYSTEMS.get(system),
        "release": release if system in _SYSTEMS else None,
        "architecture": environment.get("machine"),
        "memoryInBytes": environment.get("memory_bytes"),
    }
    mhz = round(environment.get("cpu_mhz") or 0)
    cpu = {"coreCount": environment.get("cores"), "speedInMHz": mhz}
    return [{**_known(machine), "cpu": _known(cpu)}]


def _flat(document: JsonObject, profile: Profile) -> JsonObject:
    """Return an instance of 1.5 in the words of 1.4, where tasks refer to each other by name."""
    specification = document["workflow"]["specification"]
    # It requires both, even where nothing was executed.
    workflow: JsonObject = {
        "makespanInSeconds": _seconds(profile.metrics.total_time_ms or 0.0),
        "executedAt": profile.timestamp,
        **document["workflow"].get("execution", {}),
    }
    file_bytes = {file["id"]: file["sizeInBytes"] for file in specification.get("files") or ()}
    executed = {task["id"]: task for task in workflow.get("tasks", ())}
    tasks = []
    for specified in specification["tasks"]:
        task: JsonObject = {"name": specified["id"], "id": specified["id"], "type": "compute"}
        if specified["name"] != specified["id"]:
            task["originalName"] = specified["name"]
        task.update(parents=specified["parents"], children=specified["children"])
        files = [
            {"name": file, "sizeInBytes": file_bytes[file], "link": link}
            for link in ("input", "output")
            for file in specified.get(f"{link}Files") or ()
            if file in file_bytes
        ]
        if files or specified.keys() >= {"inputFiles", "outputFiles"}:
            task["files"] = files
        attributes = _renamed(executed.get(specified["id"], {}), _OLD_NAMES)
        # SimGrid binds a task to the machine it names, which its platform may not have.
        attributes.pop("machines", None)
        tasks.append({**task, **attributes})
    workflow["tasks"] = tasks
    for machine in workflow.get("machines", ()):
        machine["cpu"] = _renamed(mapping_in(machine, "cpu"), _OLD_CPU_NAMES)
    return {**_renamed(document, {"runtimeSystem": "wms"}), "workflow": workflow}


# Reading


def _schema() -> JsonObject:
    """Return what is read of instances in the words of 1.5, as a JSON Schema."""
    return load_schema("dagprofiler.formats", "wfformat.schema.json")


_ISO_8601 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)?", re.ASCII)

_NOT_IN_WFFORMAT = {
    "estimated_instructions": "WfFormat holds times, and no instructions",
    "counted_instructions": "WfFormat holds times, and no instructions",
    "reference_time_ms": "WfFormat has no calibration score of the machine",
    "cpu_time_ms": "WfFormat holds the CPU use of processes, not of the task's thread",
    "serialize_ms": "WfFormat holds no such time",
    "deserialize_ms": "WfFormat holds no such time",
}

_FILES_UNKNOWN = (
    "the file does not say of all tasks which files, of which size, they read and write: edges of "
    "these have no size, and bytes_in and bytes_out are 0 there"
)


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
            If the document is no WfFormat of a known version, or refers to tasks that are not
            there, has cycles or negative figures, or from 1.5 on tasks that were executed and have
            no runtime.
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
        version = choice("$.schemaVersion", version, VERSIONS, error=FormatError)
        instance: JsonObject = document
        if version not in NESTED:
            of = AttributeError, KeyError, TypeError, ValueError
            with explained(FormatError, f"$: not WfFormat {version}", of=of):
                instance = _modern(document)
        problem = first_problem(instance, _schema())
        if problem is not None:
            raise FormatError(f"{problem.path}: {problem.message}")
        return Profile.from_dict(_profile_document(instance, version))


def _modern(document: JsonObject) -> JsonObject:
    """Return an instance of 1.3 or 1.4 in the words of 1.5."""
    workflow = document["workflow"]
    system = document.get("runtimeSystem") or document.get("wms") or {}
    # Before 1.4 these were in kilobytes, except in files of Pegasus.
    of_files = 1 if "pegasus" in str(system.get("name")).lower() else 1000
    scales = {"bytesRead": of_files, "bytesWritten": of_files, "memory": 1000}
    # Tasks may refer to each other by identifiers, too.
    ids = {task.get("id"): task["name"] for task in workflow["tasks"]}
    ids.update((task["name"], task["name"]) for task in workflow["tasks"])
    file_bytes: dict[str, Any] = {}
    specified, executed = [], []
    for old in workflow["tasks"]:
        original = old.get("originalName")
        task = {"name": old["name"] if original is None else original, "id": old["name"]}
        for key in ("parents", "children"):
            task[key] = [ids.get(reference, reference) for reference in old.get(key) or ()]
        specified.append({**task, **_linked_files(old, file_bytes)})
        attributes = {
            _NEW_NAMES.get(key, key): value * scales[key] if key in scales else value
            for key, value in old.items()
            if key not in _SPECIFIED and _NEW_NAMES.get(key) not in old and value is not None
        }
        if old.get("machine") is not None:
            attributes["machines"] = [old["machine"]]
        if "runtimeInSeconds" in attributes:
            executed.append({"id": old["name"], **attributes})
    execution = _renamed(workflow, {"makespan": "makespanInSeconds"})
    if not executed and execution.get("makespanInSeconds") == 0:
        # It is required, even where nothing was executed.
        del execution["makespanInSeconds"]
    execution["tasks"] = executed
    execution["machines"] = [_modern_machine(machine) for machine in workflow.get("machines") or ()]
    files = [{"id": file, "sizeInBytes": size} for file, size in file_bytes.items()]
    specification = {"tasks": specified, "files": files}
    modern = _renamed(document, {"wms": "runtimeSystem"})
    return {**modern, "workflow": {"specification": specification, "execution": execution}}


def _linked_files(task: JsonObject, file_bytes: dict[str, Any]) -> dict[str, list[str]]:
    """Return the files that a task of 1.4 reads and writes, and store their sizes.

    It has one list of both: where that names files of one kind only and the task has neighbours
    on the other side, the files of these are unknown.
    """
    if task.get("files") is None:
        return {}
    linked: dict[str, list[str]] = {"input": [], "output": []}
    for file in task["files"]:
        name = str(file.get("path") or "") + file["name"]
        linked[file["link"]].append(name)
        # In 1.3 `size` is in bytes in all known instances, contrary to its schema.
        size = file.get("sizeInBytes", file.get("size"))
        if size is not None:
            file_bytes[name] = size
    neighbours = {"input": task.get("parents"), "output": task.get("children")}
    return {
        f"{link}Files": files
        for link, files in linked.items()
        if files or not task["files"] or not neighbours[link]
    }


def _modern_machine(old: JsonObject) -> JsonObject:
    machine = {key: value for key, value in old.items() if key != "memory"}
    if isinstance(machine.get("cpu"), dict):
        machine["cpu"] = _renamed(machine["cpu"], _NEW_CPU_NAMES)
    if isinstance(old.get("memory"), (int, float)):
        machine.setdefault("memoryInBytes", 1000 * old["memory"])
    return machine


def _profile_document(instance: JsonObject, version: str) -> JsonObject:
    """Return the document of the profile of an instance in the words of 1.5."""
    specification = instance["workflow"]["specification"]
    execution = instance["workflow"].get("execution") or {"tasks": ()}
    names = _names(specification["tasks"])
    tasks = dict(zip(names, specification["tasks"]))
    by_id = {task["id"]: name for name, task in tasks.items()}
    if len(by_id) < len(specification["tasks"]):
        raise FormatError("$.workflow: two tasks have one identifier, or before 1.5 one name")
    executed = {task["id"]: task for task in execution["tasks"]}
    for identifier in executed.keys() - by_id.keys():
        raise FormatError(f"$.workflow.execution: there is no task {identifier!r}")
    ran = {by_id[i]: executed[i] for i in by_id if i in executed}
    walls_ms = {name: _ms(task["runtimeInSeconds"]) for name, task in ran.items()}
    edges, notes = _edges(tasks, by_id)
    with explained(FormatError, "$.workflow", of=CycleError):
        order = kahn_order(names, edges)
    imported = {"format": "wfformat", "version": version, "document": instance}
    pairs = [{"source": source, "target": target} for source, target in edges]
    document: JsonObject = {
        "configuration": {},
        "dag_structure": {"nodes": names, "edges": pairs, "execution_order": order},
        "node_weights": dict.fromkeys(names, 0),
        "edge_weights": {},
        "execution_metrics": [{"task": n, "compute_time_ms": ms} for n, ms in walls_ms.items()],
        "run": _run(len(ran), len(names), version),
        "weight_sources": {name: _weight_source(walls_ms.get(name)) for name in names},
        **_circumstances(instance, execution),
        "imported": {**imported, **_known({"notes": notes})},
    }
    if execution.get("makespanInSeconds") is not None:
        document["total_time_ms"] = _ms(execution["makespanInSeconds"])
    if ran:
        document["samples"] = {
            "rounds": [MEASURED],
            "total_ms": [document.get("total_time_ms")],
            "tasks": {name: _sampled(ran[name], wall_ms) for name, wall_ms in walls_ms.items()},
            "edges": {},
        }
    sizes = {file["id"]: int(file["sizeInBytes"]) for file in specification.get("files") or ()}
    _add_sizes(document, tasks, edges, sizes)
    return document


def _run(ran: int, tasks: int, version: str) -> JsonObject:
    if ran == tasks:
        return {"state": "complete", "rounds": 1}
    lacking = f"no runtime of {tasks - ran:,} of {counted(tasks, 'task')}"
    reason = f"imported from WfFormat {version}, which holds {lacking}"
    return {"state": "partial", "reason": reason, "rounds": int(ran > 0)}


def _weight_source(wall_ms: float | None) -> JsonObject:
    source: JsonObject = {"node_weight": "default", "wall_time_ms": wall_ms}
    if wall_ms is None:
        source["reasons"] = {"wall_time_ms": "the file holds no runtime of the task"}
    return source


def _sampled(executed: JsonObject, wall_ms: float) -> JsonObject:
    """Return the samples of a task: one round."""
    row = {"wall_ms": [wall_ms]}
    if executed.get("avgCPU") is not None:
        row["process_cpu_ms"] = [min(executed["avgCPU"] / 100 * wall_ms, 1e308)]
    for key, column in METERED.items():
        if executed.get(key) is not None:
            row[column] = [executed[key]]
    return row


def _circumstances(instance: JsonObject, execution: JsonObject) -> JsonObject:
    """Return the sections ``metadata`` and ``environment``: date, machine, what is unknown."""
    not_measured = dict(_NOT_IN_WFFORMAT)
    if execution.get("makespanInSeconds") is None:
        not_measured["total_time_ms"] = "the file holds no makespan"
    dates = execution.get("executedAt"), instance.get("createdAt")
    timestamp = next((date for date in dates if date and _ISO_8601.fullmatch(date)), None)
    if timestamp is None:
        not_measured["timestamp"] = "the file has no date in ISO 8601: it is that of the import"
        timestamp = utc_text()
    versions = {"dagprofiler_version": __version__, "schema_version": SCHEMA_VERSION}
    metadata = {"timestamp": timestamp, **versions, "seed": None}
    environment: JsonObject = {"not_measured": not_measured}
    machines = execution.get("machines") or []
    if len(machines) == 1:
        machine = machines[0]
        metadata["hostname"] = machine["nodeName"]
        cpu = mapping_in(machine, "cpu")
        facts = {
            "os": "-".join(filter(None, (text_in(machine, "system"), text_in(machine, "release")))),
            "machine": text_in(machine, "architecture"),
            "cores": _whole(cpu.get("coreCount")),
            "cpu_mhz": _whole(cpu.get("speedInMHz")),
            "memory_bytes": _whole(machine.get("memoryInBytes")),
        }
        environment.update(_known(facts))
    return {"metadata": metadata, "environment": environment}


def _add_sizes(document: JsonObject, tasks: Values, edges: _Edges, sizes: dict[str, int]) -> None:
    """Add the sizes of edges, inputs and outputs, which are those of files, to a profile."""

    def total(files: Sequence[str] | None) -> int | None:
        """Return the size of files; None if they, or the size of one, are unknown."""
        if files is None or not sizes.keys() >= set(files):
            return None
        return sum(sizes[file] for file in set(files))

    records: list[Any] = []
    for (source, target), files in edges.items():
        ends = tasks[source].get("outputFiles"), tasks[target].get("inputFiles")
        size = None if None in ends else total(files)
        if size is None:
            records.append(None)
            continue
        document["edge_weights"][f"{source}->{target}"] = 8 * size
        # A file is the serialized output.
        fields = {file: {"size_bytes": sizes[file], "wire_bytes": sizes[file]} for file in files}
        records.append([files, size, size, fields if len(files) > 1 else None])
    document["edge_metrics"] = {"columns": [*EDGE_COLUMNS], "records": records}
    all_known = None not in records
    for entry in document["execution_metrics"]:
        for key, files_key in (("bytes_in", "inputFiles"), ("bytes_out", "outputFiles")):
            size = total(tasks[entry["task"]].get(files_key))
            entry[key] = size or 0
            all_known = all_known and size is not None
    if not all_known:
        not_measured = document["environment"]["not_measured"]
        not_measured.update(dict.fromkeys(("size_bytes", "bytes_in", "bytes_out"), _FILES_UNKNOWN))


def _edges(tasks: Values, by_id: Mapping[str, str]) -> tuple[_Edges, list[str]]:
    """Return the edges with the files that travel on each, and notes on where they come from."""
    pairs: dict[tuple[str, str], None] = {}
    for key in ("parents", "children"):
        for name, task in tasks.items():
            for reference in task.get(key) or ():
                if reference not in by_id:
                    what = f"no task {reference!r}, one of the {key} of {task['id']!r}"
                    raise FormatError(f"$.workflow: there is {what}")
                other = by_id[reference]
                pairs[(other, name) if key == "parents" else (name, other)] = None
    outputs = {name: set(task.get("outputFiles") or ()) for name, task in tasks.items()}
    #: Each task to its files, each to its place among them.
    inputs = {
        name: {file: place for place, file in enumerate(task.get("inputFiles") or ())}
        for name, task in tasks.items()
    }
    notes = []
    if not pairs:
        writers = grouped((file, name) for name, files in outputs.items() for file in files)
        for name, files in inputs.items():
            sources = [writer for file in files for writer in writers.get(file, ())]
            pairs.update(((source, name), None) for source in sources if source != name)
        if pairs:
            notes = ["no task names parents or children: the edges follow from the files"]
    edges = {
        (a, b): sorted(inputs[b].keys() & outputs[a], key=inputs[b].__getitem__) for a, b in pairs
    }
    return edges, notes


def _names(tasks: Sequence[JsonObject]) -> list[str]:
    """Return the names of tasks in the profile: their identifiers if names are not distinct."""
    names = [task["name"] for task in tasks]
    return names if len(set(names)) == len(names) else [task["id"] for task in tasks]


def _ms(seconds: float) -> float:
    """Return a time in milliseconds, whole in nanoseconds as in :func:`_seconds`."""
    return round(seconds * 1e3, 6)


def _whole(value: Any) -> int | None:
    """Return a number of at least 1 as an integer, or None."""
    return round(value) if isinstance(value, (int, float)) and 1 <= value < 2**63 else None


EXPORTER = WfFormat()
IMPORTER = WfFormatImporter()
