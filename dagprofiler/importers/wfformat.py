"""WfFormat: workflow instances of WfCommons as profiles."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from dagprofiler.config import Config
from dagprofiler.documents import mapping_in, plain_document, text_in, utc_now
from dagprofiler.errors import (
    CycleError,
    FormatError,
    ProfileError,
    counted,
    json_path,
    short_repr,
    shorten,
)
from dagprofiler.graph import kahn_order
from dagprofiler.importers.wfinstances import Instance, Task, read_instance
from dagprofiler.metrics import DAGMetrics
from dagprofiler.profile import Profile
from dagprofiler.rounds import MEASURED
from dagprofiler.wfnames import METERED, shifted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["IMPORTER", "WfFormat"]

_ISO_8601 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)?", re.ASCII)

_MAX_INT = 2**63 - 1

_NOT_IN_WFFORMAT = {
    "estimated_instructions": "WfFormat holds times, and no instructions",
    "counted_instructions": "WfFormat holds times, and no instructions",
    "reference_time_ms": "WfFormat does not say how fast a machine is on our scale",
    "cpu_time_ms": "WfFormat holds the CPU use of processes, not of the task's thread",
    "serialize_ms": "WfFormat holds no such time",
    "deserialize_ms": "WfFormat holds no such time",
}


class WfFormat:
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
        """Tell whether a document has a ``schemaVersion`` and a ``workflow``."""
        return isinstance(document, dict) and {"schemaVersion", "workflow"} <= document.keys()

    def read(self, document: Any) -> Profile:
        """Return the profile that an instance stands for.

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
            # It is in what is kept as it was; the place that helps is the one in the file.
            plain_document(document)
            raise


class _Import:
    """An instance on its way to a profile."""

    def __init__(self, instance: Instance) -> None:
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
        edge_metrics = self._edge_metrics()
        document: dict[str, Any] = {
            "metadata": self._metadata(),
            "configuration": {},
            "dag_structure": {
                "nodes": names,
                "edges": [{"source": source, "target": target} for source, target in pairs],
                "execution_order": self._order(pairs),
            },
            "node_weights": dict.fromkeys(names, 0),
            "edge_weights": {
                f"{entry['source']}->{entry['target']}": 8 * entry["size_bytes"]
                for entry in edge_metrics
            },
            "edge_metrics": edge_metrics,
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
        # Which versions of what write this is for a new profile to say.
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

    def _edge_metrics(self) -> list[dict[str, Any]]:
        """Return entries for the edges whose sizes are known."""
        instance, names, tasks = self._instance, self._names, self._tasks
        if instance.file_bytes is None:
            self._not_measured["size_bytes"] = "the file lists no files, so that no size is known"
            return []
        entries = []
        for (source, target), files in instance.edges.items():
            if tasks[source].outputs is None or tasks[target].inputs is None:
                self._not_measured["size_bytes"] = (
                    "of tasks at the ends of edges without a size the file lists no files"
                )
                continue
            total = self._total_bytes(files, target)
            entry: dict[str, Any] = {
                "source": names[source],
                "target": names[target],
                "data_fields": files,
                "size_bytes": total,
                # A file is what was serialized.
                "wire_bytes": total,
            }
            if len(files) > 1:
                entry["fields"] = {
                    file: dict.fromkeys(("size_bytes", "wire_bytes"), instance.file_bytes[file])
                    for file in files
                }
            entries.append(entry)
        return entries

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
        """Return what was measured of each task, as one round."""
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
        """Return what is known of the machine, if there is one, and what is known of nothing."""
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
        """Return the section that keeps what has no other place."""
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


def _names(tasks: Sequence[Task]) -> list[str]:
    """Return what the tasks are called in the profile."""
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


def _wall_ms(task: Task) -> float | None:
    return None if task.runtime_s is None else shifted(task.runtime_s, 3)


def _whole(mapping: Mapping[str, Any], key: str) -> int | None:
    """Return a number of at least 1 as an integer, None if there is no such."""
    value = mapping.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return round(value) if 1 <= value <= _MAX_INT else None


IMPORTER = WfFormat()
