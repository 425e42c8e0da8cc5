"""The JSON Schema of a profile document, and the check against it.

``metadata.schema_version`` counts our extensions of the standard's format:

* absent: 0.1.0, and programs that know only the standard. Entries of
  ``execution_metrics`` may be named after the task's class.
* 1: names are the task's name in the DAG throughout; the optional sections
  ``run``, ``edge_metrics``, ``weight_sources``, ``samples``, ``statistics``,
  ``timeline``, ``spans``, ``environment``, ``prediction``, ``engine``, ``schedule``.
"""

from __future__ import annotations

import reprlib
import sys
from functools import cache
from math import isfinite
from typing import TYPE_CHECKING, Any

from dagprofiler._document.quickcheck import doubtful, surely_satisfies
from dagprofiler._document.rounds import MOMENTS
from dagprofiler.errors import ProfileError, describe, json_path, one_line, shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from jsonschema import Draft202012Validator, ValidationError


__all__ = ["PROFILE_SCHEMA", "SCHEMA_VERSION", "validate_profile"]

#: The newest ``metadata.schema_version`` that this reader knows.
SCHEMA_VERSION = 1

_MAX_INT = 2**63 - 1


def _value(kind: str | list[str], description: str, **keywords: Any) -> dict[str, Any]:
    return {"type": kind, "description": description, **keywords}


def _text(description: str, **keywords: Any) -> dict[str, Any]:
    return _value("string", description, **keywords)


def _integer(
    description: str, *, minimum: int = 0, maximum: int = _MAX_INT, null: bool = False
) -> dict[str, Any]:
    kind: str | list[str] = ["integer", "null"] if null else "integer"
    return _value(kind, description, minimum=minimum, maximum=maximum)


def _number(description: str, *, null: bool = False) -> dict[str, Any]:
    kind: str | list[str] = ["number", "null"] if null else "number"
    return _value(kind, description, minimum=0, maximum=sys.float_info.max)


def _finite(description: str, *, null: bool = False) -> dict[str, Any]:
    kind: str | list[str] = ["number", "null"] if null else "number"
    most = sys.float_info.max
    return _value(kind, description, minimum=-most, maximum=most)


def _positive(description: str) -> dict[str, Any]:
    return _value("number", description, minimum=sys.float_info.min, maximum=sys.float_info.max)


def _list(description: str, items: Mapping[str, Any], **keywords: Any) -> dict[str, Any]:
    return _value("array", description, items=items, **keywords)


def _map(description: str, values: Mapping[str, Any] | bool) -> dict[str, Any]:  # noqa: FBT001
    return _value("object", description, additionalProperties=values)


def _object(
    description: str, properties: Mapping[str, Any], required: Iterable[str] = ()
) -> dict[str, Any]:
    return _value("object", description, required=[*required], properties=properties)


_METADATA = _object(
    "Where the profile comes from.",
    {
        "timestamp": _text(
            "When the run began: UTC with `Z`; without an offset (0.1.0) the host's local time.",
            format="date-time",
        ),
        "dagprofiler_version": _text("Version of the program that wrote the profile."),
        "name": _text("Name of the DAG, or the target of the command; absent without one."),
        "schema_version": _integer(
            "Version of this format, counted from 1; absent in profiles of 0.1.0.", minimum=1
        ),
        "seed": _integer(
            "Seed of the run; null if it was not seeded.", minimum=-(2**63), null=True
        ),
        "hostname": _text("Host that drove the run."),
        "configuration_as_text": _list(
            "Parameters that JSON cannot hold and whose text is stored instead.",
            _text("Name of a parameter."),
        ),
    },
    ["timestamp", "dagprofiler_version"],
)

_DAG_STRUCTURE = _object(
    "The graph: tasks, edges and the order of execution.",
    {
        "nodes": _list("All tasks, each once.", _text("Name of a task in the DAG.")),
        "edges": _list(
            "All edges.",
            _object(
                "One edge.",
                {
                    "source": _text("Task that the data comes from."),
                    "target": _text("Task that the data goes to."),
                },
                ["source", "target"],
            ),
        ),
        "execution_order": _list(
            "Tasks in topological order.", _text("Name of a task in the DAG.")
        ),
    },
    ["nodes", "edges", "execution_order"],
)

_EXECUTION_METRICS = _list(
    "What each task took; over several rounds the medians.",
    _object(
        "One task.",
        {
            "task": _text("Name of the task in the DAG (in profiles of 0.1.0 often its class)."),
            "compute_time_ms": _number("Time in compute(), in milliseconds."),
            "serialize_time_ms": _number("Time to serialize the outputs, in milliseconds."),
            "deserialize_time_ms": _number("Time to deserialize the inputs, in milliseconds."),
            "bytes_in": _integer("Size of the serialized inputs, in bytes."),
            "bytes_out": _integer("Size of the serialized outputs, in bytes."),
        },
        ["task", "compute_time_ms", "bytes_in", "bytes_out"],
    ),
)

_CONDITIONS = _object(
    "The conditions of the rounds, as requested.",
    {
        "n": _value(["integer", "string"], "Number of measured rounds, or `auto`."),
        "warmup": _integer("Number of warm-up rounds before them."),
        "max_rounds": _integer("Maximum number of measured rounds with `auto`."),
        "max_time_s": _number("Time after which `auto` ends, in seconds."),
        "precision": _number(
            "Half-width of the intervals that `auto` aims at, relative to the median."
        ),
        "collect_garbage": _value(
            ["string", "null"],
            "When garbage was collected: before `rounds` or `tasks`; null if not.",
        ),
        "fresh_process": _value("boolean", "Whether each round had a process of its own."),
        "busy_cores": _integer("Number of other cores that were kept busy."),
        "check_outputs": _value("boolean", "Whether outputs were compared between rounds."),
    },
)

_RESUMED = _object(
    "One resumption of the run.",
    {
        "timestamp": _text("When, in UTC."),
        "at_ms": _number(
            "The same in milliseconds since the run began, on the clock of the timeline, which is "
            "paused between attempts."
        ),
        "gap_ms": _number(
            "Time between the attempts, by the machines' own clocks, in milliseconds."
        ),
        "round": _integer("Number of the round, from 0, warm-up included."),
        "tasks": _integer("Number of tasks of that round that had finished."),
        "executor_before": _text("Name of the executor of the previous attempt."),
        "torn_bytes": _integer("Size of an incomplete last record, in bytes; it is dropped."),
        "dropped": _list(
            "Tasks that had finished and ran again, because their outputs were incomplete.",
            _text("Name of a task."),
        ),
        "compared": _list(
            "What was compared with the previous attempt; only `sources` may differ.",
            _text("One comparison.", enum=["dag", "config", "sources", "seed", "inputs"]),
        ),
        "not_compared": _map(
            "What could not be compared: `config.` and a parameter, or `sources.` and a task.",
            _text("The reason."),
        ),
        "changed": _list("Tasks whose source has changed.", _text("Name of a task.")),
    },
    ["timestamp", "at_ms"],
)

_RUN = _object(
    "How the run went.",
    {
        "state": _text(
            "complete: every task succeeded; partial: some did not.", enum=["complete", "partial"]
        ),
        "reason": _text("Why the run is partial; absent if it is complete."),
        "tasks": _map(
            "Tasks that did not succeed, by name; absent if all did.",
            _object(
                "One task that did not succeed.",
                {
                    "state": _text(
                        "failed: the task raised; skipped: something upstream failed; "
                        "cancelled: the run was stopped before the task began.",
                        enum=["failed", "skipped", "cancelled"],
                    ),
                    "error": _text("What a failed task raised: class and message."),
                    "traceback": _list(
                        "Where it was raised: the frames outside of dagprofiler, the outermost "
                        "first, at most 20.",
                        _object(
                            "One frame.",
                            {
                                "file": _text("Path of the file."),
                                "line": _integer("Number of the line, from 1."),
                                "function": _text("Name of the function."),
                                "text": _text("The line of code; empty if it cannot be read."),
                            },
                            ["file", "line", "function", "text"],
                        ),
                    ),
                    "round": _integer(
                        "Number of the round, from 0, warm-up included; absent in the first. "
                        "Earlier rounds have measured the task."
                    ),
                },
                ["state"],
            ),
        ),
        "overhead": _map(
            "Time that the run spent outside the tasks, by kind: `prepare_ms`, `loop_ms`, "
            "`hooks_ms`; with several rounds or meters `meters_ms`, `garbage_ms` (collecting it "
            "outside all clocks), `between_rounds_ms`; with a journal `journal_ms`; for a graph "
            "that grows `rules_ms`.",
            _number("Time of this kind over all rounds, in milliseconds."),
        ),
        "executor": _text("Name of the executor that ran the tasks."),
        "bound": _map(
            "Arguments that were bound to tasks, by task; absent if there are none.",
            _map("Argument -> its value.", _text("As text, shortened.")),
        ),
        "priorities": _text(
            "Source of the priorities among ready tasks; absent if Kahn's order was used.",
            enum=["profile", "given", "cost_models"],
        ),
        "legacy_generators": _value(
            "boolean",
            "false: tasks ran concurrently in threads, so the seed reached only "
            "`dagprofiler.rng()`; absent otherwise.",
        ),
        "attempts": _map(
            "Tasks that were lost with a worker and run again, by name; absent without any.",
            _list(
                "The lost attempts, in order.",
                _object(
                    "One lost attempt.",
                    {
                        "round": _integer("Number of the round, from 0, warm-up included."),
                        "error": _text("Why it was lost."),
                    },
                    ["round", "error"],
                ),
            ),
        ),
        "resumed": _list(
            "The resumptions of the run after it had ended early; absent without any.",
            _RESUMED,
        ),
        "rounds": _integer("Number of measured rounds, without warm-up."),
        "conditions": _CONDITIONS,
        "elapsed_ms": _number("Wall-clock time of all rounds together, in milliseconds."),
        "ended_by": _text(
            "What ended the measured rounds.",
            enum=["n", "precision", "max_rounds", "max_time_s"],
        ),
    },
    ["state"],
)

_SAMPLE_LIST = _list(
    "A value for each round.",
    _finite("In the unit of the column's name; null if it was not measured.", null=True),
)

_SAMPLES = _object(
    "All values measured in several rounds, or in one with meters.",
    {
        "rounds": _list(
            "Kind of each round, in order.",
            _text(
                "Figures come from `measured` rounds; the `allocation` pass counts allocations.",
                enum=["cold", "warm_up", "measured", "allocation"],
            ),
        ),
        "total_ms": _list(
            "Wall-clock time of each round, in milliseconds.",
            _number("In milliseconds; null for the allocation pass.", null=True),
        ),
        "tasks": _map("By task.", _map("By quantity.", _SAMPLE_LIST)),
        "edges": _map(
            "By edge key (src->dst): `serialize_ms`, `deserialize_ms` of its fields, `size_bytes`, "
            "`wire_bytes`.",
            _map("By quantity.", _SAMPLE_LIST),
        ),
    },
    ["rounds", "tasks"],
)

_SUMMARY = _object(
    "Statistics of one quantity over the measured rounds: in milliseconds, bytes or a count.",
    {
        "median": _finite("Median."),
        "mad": _finite("Median absolute deviation, not scaled."),
        "low": _finite("Lower end of the median's confidence interval."),
        "high": _finite("Upper end of the median's confidence interval."),
        "coverage": _value(
            "number", "Probability that the interval covers the median.", minimum=0, maximum=1
        ),
        "min": _finite("Smallest value."),
        "n": _integer("Number of values.", minimum=1),
    },
    ["median", "n"],
)

_STATISTICS = _object(
    "The statistics of the samples.",
    {
        "confidence": _value("number", "Coverage that the intervals aim at.", minimum=0, maximum=1),
        "total_ms": _SUMMARY,
        "tasks": _map("By task.", _map("By quantity.", _SUMMARY)),
        "edges": _map("By edge key (src->dst).", _map("By quantity.", _SUMMARY)),
        "cold_ms": _map(
            "Time in compute() in the cold round, in milliseconds, by task.",
            _number("In milliseconds; null if the task did not finish there.", null=True),
        ),
        "flags": _map(
            "Warnings about a task's figures, by task; tasks without a flag are absent.",
            _list("Flags.", _text("Name of a flag.")),
        ),
    },
)

_SIZE_BYTES = _integer("Payload by the standard's counting rule, in bytes.")
_WIRE_BYTES = _integer("Payload as serialized, in bytes.")

_EDGE_METRICS = _list(
    "What each edge carried.",
    _object(
        "One edge.",
        {
            "source": _text("Task that the data comes from."),
            "target": _text("Task that the data goes to."),
            "data_fields": _list(
                "The source's outputs that travel on this edge.", _text("Name of an output.")
            ),
            "size_bytes": _SIZE_BYTES,
            "size_bits": _integer("8 x size_bytes, in bits."),
            "wire_bytes": _WIRE_BYTES,
            "fields": _map(
                "The same for each of the data_fields.",
                _object("One field.", {"size_bytes": _SIZE_BYTES, "wire_bytes": _WIRE_BYTES}),
            ),
        },
        ["source", "target", "data_fields", "size_bytes"],
    ),
)

_WEIGHT_SOURCES = _map(
    "All candidates for each task's node weight. A candidate that no task has is absent; "
    "`environment.not_measured` has the reason.",
    _object(
        "One task.",
        {
            "node_weight": _text(
                "The candidate that is the node weight; `default` if none is (0 is no estimate)."
            ),
            "estimated_instructions": _integer(
                "Result of the task's cost model, in instructions; null if it has none.", null=True
            ),
            "counted_instructions": _integer(
                "Counted by the processor, in instructions of user code.", null=True
            ),
            "reference_time_ms": _number(
                "Time in compute() without run-queue delay, multiplied by the machine's "
                "calibration score: milliseconds on the reference machine.",
                null=True,
            ),
            "cpu_time_ms": _number("CPU time of the thread, in milliseconds.", null=True),
            "wall_time_ms": _number(
                "Measured time in compute(), in milliseconds; null if the task did not finish.",
                null=True,
            ),
            "reasons": _map(
                "Why candidates are null, by candidate.", _text("Why this one is null.")
            ),
        },
        ["node_weight"],
    ),
)

_TIMELINE = _object(
    "When each phase of each task began and ended, on one clock.",
    {
        "workers": _list(
            "Where tasks ran.",
            _object(
                "One thread of one process.",
                {
                    "host": _text("Name of the host."),
                    "pid": _integer("Process number."),
                    "thread": _integer("Thread number."),
                    "clock_ahead_ms": _finite(
                        "Offset of its clock from that of the process that drove the run, in "
                        "milliseconds; its times are corrected for it. Absent if it is the same "
                        "clock."
                    ),
                    "clock_error_ms": _number("Maximum error of this offset, in milliseconds."),
                },
            ),
        ),
        "columns": _list(
            "What the entries of a record are, in order.",
            _text("A moment; its unit is part of the name.", enum=[*MOMENTS]),
            prefixItems=[
                _text("Name of the task.", enum=["task"]),
                _text("Number of the round.", enum=["round"]),
                _text("Index into `workers`.", enum=["worker"]),
            ],
            minItems=3,
        ),
        "records": _list(
            "One record for each task and round.",
            _list(
                "Entries as `columns` says.",
                _number("Milliseconds since the run began; null if it was not reached.", null=True),
                prefixItems=[
                    _text("Name of the task in the DAG."),
                    _integer("Round, counted from 0."),
                    _integer("Index into `workers`; null if no worker took the task.", null=True),
                ],
                minItems=3,
            ),
        ),
    },
    ["workers", "columns", "records"],
)

_SPANS = _object(
    "Spans traced inside the tasks; absent if nothing was traced.",
    {
        "labels": _list(
            "Kinds and names of spans.",
            _object(
                "One label.",
                {
                    "kind": _text(
                        "span: nests with the others of its thread; async: may overlap others; "
                        "instant, async_instant: without duration; counter: values at a moment.",
                        enum=["span", "async", "instant", "async_instant", "counter"],
                    ),
                    "name": _text("Its name."),
                    "category": _text("Module of a function, or another category."),
                },
                ["kind", "name", "category"],
            ),
        ),
        "threads": _list(
            "Threads that recorded spans.",
            _object(
                "One thread.",
                {
                    "worker": _integer(
                        "Index into `timeline.workers` of the task's worker; null if unknown.",
                        null=True,
                    ),
                    "id": _integer("Its number in the operating system."),
                    "name": _text("Its name in Python."),
                    "own": _value("boolean", "Whether this thread ran the tasks."),
                },
                ["worker", "id", "name", "own"],
            ),
        ),
        "columns": _list(
            "What the entries of a record are, in order.",
            _text("A name; units are part of it."),
            prefixItems=[
                _text("Name of the task.", enum=["task"]),
                _text("Number of the round.", enum=["round"]),
                _text("Index into `threads`.", enum=["thread"]),
                _text("Index into `labels`.", enum=["label"]),
                _text("When it began.", enum=["start_ms"]),
                _text("When it ended.", enum=["end_ms"]),
                _text("Identifier of an asynchronous span among those of its name.", enum=["id"]),
                _text("Its arguments.", enum=["args"]),
            ],
            minItems=8,
        ),
        "records": _list(
            "One record for each span, instant or value of a counter.",
            _list(
                "Entries as `columns` says.",
                _value(
                    ["string", "number", "boolean", "null"],
                    "Columns of later versions.",
                ),
                prefixItems=[
                    _text("Name of the task in the DAG."),
                    _integer("Round, counted from 0."),
                    _integer("Index into `threads`."),
                    _integer("Index into `labels`."),
                    _finite("Milliseconds since the run began."),
                    _finite("Milliseconds since the run began; equal to the start for an instant."),
                    _value(["string", "null"], "Null unless asynchronous."),
                    _value(["object", "null"], "By name; null if there are none."),
                ],
                minItems=8,
            ),
        ),
        "dropped": _map(
            "Tasks with spans that were dropped for lack of room, by name; absent without any.",
            _integer("Number of dropped spans in all rounds.", minimum=1),
        ),
    },
    ["labels", "threads", "columns", "records"],
)

_ORIGINS = _object(
    "How the graph grew; absent for a graph that is fixed.",
    {
        "columns": _list(
            "What the entries of a record are, in order.",
            _text("Name of the entry."),
            prefixItems=[
                _text("Name of the task.", enum=["task"]),
                _text("Number of the round.", enum=["round"]),
                _text("Name of the rule that added it.", enum=["rule"]),
                _text("When.", enum=["at_ms"]),
            ],
            minItems=4,
        ),
        "records": _list(
            "One record for each round and each task that a rule added in it; the other tasks "
            "were given.",
            _list(
                "Entries as `columns` says.",
                _number("Columns of later versions.", null=True),
                prefixItems=[
                    _text("Name of the task in the DAG."),
                    _integer("Round, counted from 0."),
                    _text("Name of the rule."),
                    _number("Milliseconds since the run began."),
                ],
                minItems=4,
            ),
        ),
        "fired": _list(
            "The rules that fired, in order.",
            _object(
                "One rule in one round.",
                {
                    "round": _integer("Round, counted from 0."),
                    "rule": _text("Name of the rule."),
                    "at_ms": _number("When, in milliseconds since the run began."),
                    "tasks": _integer("Number of tasks that it added."),
                },
                ["round", "rule", "at_ms", "tasks"],
            ),
        ),
        "never_fired": _list(
            "The rules that did not fire.",
            _object(
                "One rule in one round.",
                {
                    "round": _integer("Round, counted from 0."),
                    "rule": _text("Name of the rule."),
                    "reason": _text("Why it did not fire."),
                },
                ["round", "rule", "reason"],
            ),
        ),
    },
    ["columns", "records", "fired", "never_fired"],
)

_ENVIRONMENT = _object(
    "Machine and software of the run.",
    {
        "python": _text("Version of Python."),
        "implementation": _text("Implementation of Python."),
        "os": _text("Operating system and its version."),
        "machine": _text("Machine architecture."),
        "cpu": _value(["string", "null"], "Model of the processor; null if unknown."),
        "cpu_mhz": _number(
            "Highest known frequency of the processor, in MHz; null if unknown.",
            null=True,
        ),
        "cores": _integer("Logical processors of the host; null if unknown.", null=True),
        "cores_usable": _integer(
            "Logical processors that the process may use; null if unknown.", null=True
        ),
        "cores_quota": _number(
            "Processor time granted by control groups, in cores; null if it is not limited.",
            null=True,
        ),
        "memory_bytes": _integer("Memory of the host, in bytes; null if unknown.", null=True),
        "thread_settings": _map(
            "Environment variables that set the threads of numerical libraries, by name.",
            _value(["string", "null"], "The variable's text; null if it is not set."),
        ),
        "allocator_settings": _map(
            "Environment variables that set the C library's allocator (`MALLOC_*`), by name.",
            _text("The variable's text."),
        ),
        "blas_threads": _integer(
            "Threads of numpy's BLAS; null if unknown or numpy was not loaded.", null=True
        ),
        "versions": _map(
            "Versions of packages, by name.",
            _value(["string", "null"], "Version; null if the package was not loaded."),
        ),
        "command": _text("The command line of the program that ran the DAG."),
        "git": _object(
            "The git repository of the current directory; absent outside of one.",
            {
                "commit": _text("Hash of the commit that was checked out."),
                "clean": _value(
                    "boolean",
                    "Whether the files were those of the commit; absent if git was not asked, "
                    "as only the command does.",
                ),
            },
            ["commit"],
        ),
        "calibration": _object(
            "Speed of the machine at a built-in kernel; absent if it was not calibrated.",
            {
                "score": _positive(
                    "Speed relative to the reference machine: milliseconds measured here, "
                    "times this, are milliseconds there."
                ),
                "parts": _map(
                    "The same for each kind of work, by name; the score is their geometric mean.",
                    _positive("Speed relative to the reference machine."),
                ),
                "spread": _number(
                    "Half the width of the score's confidence interval, relative to the score."
                ),
                "kernel_version": _integer(
                    "Version of the kernel; scores of different versions do not compare.",
                    minimum=1,
                ),
                "taken_at": _text("When it was taken, as ISO 8601 text in UTC."),
            },
            ["score", "parts", "spread", "kernel_version"],
        ),
        "not_measured": _map(
            "Quantities that were not measured, by the name of their candidate or column.",
            _text("The reason."),
        ),
    },
)

_PREDICTION = _object(
    "What the profile predicts, instead of having measured it; absent if it was measured.",
    {
        "kind": _text(
            "simulation: a run on other workers; cost_models: another configuration.",
            enum=["simulation", "cost_models"],
        ),
        "sources": _list(
            "The profiles behind it.",
            _object(
                "One profile.",
                {
                    "timestamp": _value(["string", "null"], "When its run began."),
                    "hostname": _value(["string", "null"], "Host that drove its run."),
                },
            ),
        ),
        "makespan_ms": _number("Predicted time of the whole run, in milliseconds."),
        "interval_ms": _value(
            ["array", "null"],
            "Lower and upper end of its 95 % interval, in milliseconds; null without samples.",
            items=_number("In milliseconds."),
        ),
        "beyond": _number(
            "Largest ratio of a parameter, or of its least measured value, to the largest "
            "measured value; at most 1 within the measured range."
        ),
        "intervals_ms": _map(
            "95 % interval of each task's time in compute(), in milliseconds.",
            _list("Its lower and its upper end.", _number("In milliseconds.")),
        ),
        "models": _map("Cost models as formulas, by quantity.", _text("A formula.")),
        "reasons": _list("Why it may not be trusted.", _text("A sentence.")),
    },
    ["kind", "sources", "reasons"],
)

_ENGINE = _object(
    "What the executor adds to the times of tasks, as calibrated on it.",
    {
        "executor": _text("Name of the executor."),
        "host": _text("Where it was calibrated."),
        "workers": _integer("Number of tasks that it ran at once.", minimum=1),
        "latency_ms": _number(
            "From sending a job to an idle worker until its record is back, without the task and "
            "without `driver_ms`, in milliseconds."
        ),
        "gap_ms": _number("Between two tasks of a worker if the second waited, in milliseconds."),
        "driver_ms": _number("CPU time of the driving process for each task, in milliseconds."),
        "write_ms_per_mb": _number(
            "Time of the worker that made a value to hand it over, in milliseconds per 1e6 bytes."
        ),
        "read_ms_per_mb": _number(
            "Time of each worker that reads it, in milliseconds per 1e6 bytes."
        ),
        "cores": _integer("Cores that the workers share.", minimum=1),
        "contention": _list(
            "How many times longer a computation takes while 1, 2, 3 ... workers compute.",
            _positive("A factor."),
        ),
        "contention_range": _list(
            "Least and most of this factor over kinds of work, with all workers busy.",
            _positive("A factor."),
        ),
        "shares_memory": _value("boolean", "Whether workers are threads of one process."),
        "allocator": _map("The workers' `MALLOC_*` variables, by name.", _text("Its text.")),
        "spread": _map(
            "Half the width of a figure's interval, relative to the figure, by its name.",
            _number("Relative to the figure."),
        ),
    },
    ["executor", "host", "workers", "latency_ms", "gap_ms", "driver_ms"],
)

_SCHEDULE = _map(
    "The schedule that the run followed, by node; absent if workers took tasks from one queue.",
    _list("The node's tasks in their order.", _text("Name of a task in the DAG.")),
)

PROFILE_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "DAG Execution Profile",
    **_object(
        "One execution of a DAG of tasks, measured. Sections not named here are allowed.",
        {
            "metadata": _METADATA,
            "configuration": _map("Parameters of the run, by name; any JSON.", values=True),
            "dag_structure": _DAG_STRUCTURE,
            "node_weights": _map(
                "Task name -> estimated instruction count.",
                # 0.1.0 wrote any integer that a cost model returned.
                _value(
                    "integer",
                    "In instructions; 0 for a task without a cost model. From 0 to 2**63 - 1 "
                    "where `schema_version` is present.",
                ),
            ),
            "edge_weights": _map("Edge key (src->dst) -> data size in bits.", _integer("In bits.")),
            "execution_metrics": _EXECUTION_METRICS,
            "total_time_ms": _number("Wall-clock time of the whole run, in milliseconds."),
            "run": _RUN,
            "edge_metrics": _EDGE_METRICS,
            "weight_sources": _WEIGHT_SOURCES,
            "samples": _SAMPLES,
            "statistics": _STATISTICS,
            "timeline": _TIMELINE,
            "spans": _SPANS,
            "origins": _ORIGINS,
            "environment": _ENVIRONMENT,
            "prediction": _PREDICTION,
            "engine": _ENGINE,
            "schedule": _SCHEDULE,
        },
        ["metadata", "configuration", "dag_structure", "node_weights", "edge_weights"],
    ),
}


def validate_profile(data: Any) -> bool:
    """Check a profile document, as ``json.load`` returns it, against the schema.

    Parameters
    ----------
    data
        The document.

    Returns
    -------
    bool
        True; an invalid document raises an error.

    Raises
    ------
    ProfileError
        If the document does not satisfy ``PROFILE_SCHEMA``, holds NaN or an
        infinity in one of its number fields, or is of a newer schema version.
        Its cause is jsonschema's own ``ValidationError``.

    Notes
    -----
    :func:`dagprofiler._document.checks.check_consistency` checks whether the
    document agrees with itself.

    Examples
    --------
    >>> validate_profile({"metadata": []})
    Traceback (most recent call last):
    dagprofiler.errors.ProfileError: $: 'configuration' is a required property
    """
    _refuse_newer(data)
    if not _surely_valid(data):
        _validate_doubtful(data)
    return True


def _refuse_newer(data: Any) -> None:
    try:
        version = data["metadata"]["schema_version"]
    except (KeyError, TypeError, IndexError):
        return
    # 2.0 is an integer to JSON Schema.
    if type(version) in (int, float) and SCHEMA_VERSION < version <= _MAX_INT:
        raise ProfileError(
            f"the profile has schema version {shorten(str(version))}, this dagprofiler reads "
            f"versions up to {SCHEMA_VERSION}; upgrade dagprofiler to read it",
            json_path(["metadata", "schema_version"]),
        )


def _validate_doubtful(data: Any) -> None:
    """Raise the first error that jsonschema finds in `data`, if any."""
    for path, value, schema in doubtful(data, PROFILE_SCHEMA):
        try:
            error = next(_validator().evolve(schema=schema).iter_errors(value), None)
        except Exception as unquotable:
            # It cannot be quoted in a message: nested too deep, or not from JSON at all.
            raise ProfileError(
                f"cannot be checked: {describe(unquotable)}", json_path(path)
            ) from unquotable
        if error is not None:
            error.path.extendleft(reversed(path))
            raise _refusal(error) from error


def _refusal(error: ValidationError) -> ProfileError:
    if isinstance(error.instance, float) and not isfinite(error.instance):
        message = f"{error.instance!r} is not a finite number"
    else:
        message = one_line(error.message)
    # A traceback prints the cause, and with it all of the offending instance.
    if isinstance(error.instance, (dict, list)):
        error.instance = reprlib.repr(error.instance)
    return ProfileError(message, json_path(error.absolute_path))


@cache
def _validator() -> Draft202012Validator:
    """Return a validator of the schema that does not accept NaN and infinities as numbers."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    checker = Draft202012Validator.TYPE_CHECKER

    def is_finite_number(_: Any, value: Any) -> bool:
        return checker.is_type(value, "number") and (
            not isinstance(value, float) or isfinite(value)
        )

    finite = checker.redefine("number", is_finite_number)
    strict = extend(Draft202012Validator, type_checker=finite)  # type: ignore[no-untyped-call]
    validator: Draft202012Validator = strict(PROFILE_SCHEMA)
    return validator


def _surely_valid(data: Any) -> bool:
    """Tell whether `data` certainly satisfies the schema; if False, jsonschema must decide."""
    return surely_satisfies(data, PROFILE_SCHEMA)
