"""What a profile document holds: a shape for each section and each kind of entry.

``schema.py`` makes the JSON Schema of these, :func:`dagprofiler._document.checks.check_consistency`
checks the references that they declare, and the tables of the page on the format follow them.
"""

from __future__ import annotations

from math import inf
from sys import float_info
from typing import TYPE_CHECKING

from dagprofiler._document.rounds import MOMENTS
from dagprofiler._document.shapes import Row, may, must

if TYPE_CHECKING:
    from typing import Any


class MetadataSection:
    """Where the profile comes from."""

    timestamp: str = must(
        "When the run began: UTC with `Z`; without an offset (0.1.0) the host's local time.",
        format="date-time",
    )
    dagprofiler_version: str = must("Version of the program that wrote the profile.")
    name: str = may("Name of the DAG, or the target of the command; absent without one.")
    schema_version: int = may(
        "Version of this format, counted from 1; absent in profiles of 0.1.0.", least=1
    )
    seed: int | None = may("Seed of the run; null if it was not seeded.", least=-(2**63))
    hostname: str = may("Host that drove the run.")
    configuration_as_text: list[str] = may(
        "Parameters that JSON cannot hold and whose text is stored instead.", "Name of a parameter."
    )


class EdgeEntry:
    """One edge."""

    source: str = must("Task that the data comes from.")
    target: str = must("Task that the data goes to.")


class StructureSection:
    """The graph: tasks, edges and the order of execution."""

    nodes: list[str] = must("All tasks, each once.", "Name of a task in the DAG.")
    edges: list[EdgeEntry] = must("All edges.")
    execution_order: list[str] = must("Tasks in topological order.", "Name of a task in the DAG.")


class TaskEntry:
    """One task."""

    task: str = must(
        "Name of the task in the DAG (in profiles of 0.1.0 often its class).", ref="task"
    )
    compute_time_ms: float = must("Time in compute(), in milliseconds.")
    serialize_time_ms: float = may("Time to serialize the outputs, in milliseconds.")
    deserialize_time_ms: float = may("Time to deserialize the inputs, in milliseconds.")
    bytes_in: int = must("Size of the serialized inputs, in bytes.")
    bytes_out: int = must("Size of the serialized outputs, in bytes.")


class FrameEntry:
    """One frame."""

    file: str = must("Path of the file.")
    line: int = must("Number of the line, from 1.")
    function: str = must("Name of the function.")
    text: str = must("The line of code; empty if it cannot be read.")


class FailureEntry:
    """One task that did not succeed."""

    state: str = must(
        (
            "failed: the task raised; skipped: something upstream failed; cancelled: the run "
            "was stopped before the task began."
        ),
        one_of=("failed", "skipped", "cancelled"),
    )
    error: str = may("What a failed task raised: class and message.")
    traceback: list[FrameEntry] = may(
        "Where it was raised: the frames outside of dagprofiler, the outermost first, at most 20."
    )
    round: int = may(
        "Number of the round, from 0, warm-up included; absent in the first. Earlier "
        "rounds have measured the task."
    )


class AttemptEntry:
    """One lost attempt."""

    round: int = must("Number of the round, from 0, warm-up included.")
    error: str = must("Why it was lost.")


class ResumedEntry:
    """One resumption of the run."""

    timestamp: str = must("When, in UTC.")
    at_ms: float = must(
        "The same in milliseconds since the run began, on the clock of the timeline, "
        "which is paused between attempts."
    )
    gap_ms: float = may("Time between the attempts, by the machines' own clocks, in milliseconds.")
    round: int = may("Number of the round, from 0, warm-up included.")
    tasks: int = may("Number of tasks of that round that had finished.")
    executor_before: str = may("Name of the executor of the previous attempt.")
    torn_bytes: int = may("Size of an incomplete last record, in bytes; it is dropped.")
    dropped: list[str] = may(
        "Tasks that had finished and ran again, because their outputs were incomplete.",
        "Name of a task.",
    )
    compared: list[str] = may(
        "What was compared with the previous attempt; only `sources` may differ.",
        "One comparison.",
        one_of=("dag", "config", "sources", "seed", "inputs"),
    )
    not_compared: dict[str, str] = may(
        "What could not be compared: `config.` and a parameter, or `sources.` and a task.",
        "The reason.",
    )
    changed: list[str] = may("Tasks whose source has changed.", "Name of a task.")


class ConditionsEntry:
    """The conditions of the rounds, as requested."""

    n: int | str = may("Number of measured rounds, or `auto`.")
    warmup: int = may("Number of warm-up rounds before them.")
    max_rounds: int = may("Maximum number of measured rounds with `auto`.")
    max_time_s: float = may("Time after which `auto` ends, in seconds.")
    precision: float = may(
        "Half-width of the intervals that `auto` aims at, relative to the median."
    )
    collect_garbage: str | None = may(
        "When garbage was collected: before `rounds` or `tasks`; null if not."
    )
    fresh_process: bool = may("Whether each round had a process of its own.")
    busy_cores: int = may("Number of other cores that were kept busy.")
    check_outputs: bool = may("Whether outputs were compared between rounds.")


class RunSection:
    """How the run went."""

    state: str = must(
        "complete: every task succeeded; partial: some did not.", one_of=("complete", "partial")
    )
    reason: str = may("Why the run is partial; absent if it is complete.")
    tasks: dict[str, FailureEntry] = may(
        "Tasks that did not succeed, by name; absent if all did.", keys="task"
    )
    overhead: dict[str, float] = may(
        (
            "Time that the run spent outside the tasks, by kind: `prepare_ms`, `loop_ms`, "
            "`hooks_ms`; with several rounds or meters `meters_ms`, `garbage_ms` (collecting "
            "it outside all clocks), `between_rounds_ms`; with a journal `journal_ms`; for a "
            "graph that grows `rules_ms`."
        ),
        "Time of this kind over all rounds, in milliseconds.",
    )
    executor: str = may("Name of the executor that ran the tasks.")
    bound: dict[str, dict[str, str]] = may(
        "Arguments that were bound to tasks, by task; absent if there are none.",
        "Argument -> its value.",
        "As text, shortened.",
        keys="task",
    )
    priorities: str = may(
        "Source of the priorities among ready tasks; absent if Kahn's order was used.",
        one_of=("profile", "given", "cost_models"),
    )
    legacy_generators: bool = may(
        "false: tasks ran concurrently in threads, so the seed reached only "
        "`dagprofiler.rng()`; absent otherwise."
    )
    attempts: dict[str, list[AttemptEntry]] = may(
        "Tasks that were lost with a worker and run again, by name; absent without any.",
        "The lost attempts, in order.",
    )
    resumed: list[ResumedEntry] = may(
        "The resumptions of the run after it had ended early; absent without any."
    )
    rounds: int = may("Number of measured rounds, without warm-up.")
    conditions: ConditionsEntry = may()
    elapsed_ms: float = may("Wall-clock time of all rounds together, in milliseconds.")
    ended_by: str = may(
        "What ended the measured rounds.", one_of=("n", "precision", "max_rounds", "max_time_s")
    )


class FieldEntry:
    """One field."""

    size_bytes: int = may("Payload by the standard's counting rule, in bytes.")
    wire_bytes: int = may("Payload as serialized, in bytes.")


class CarriedRecord(Row):
    """Entries as `columns` says."""

    data_fields: list[str] = must(
        "The source's outputs that travel on this edge.", "Name of an output."
    )
    size_bytes: int = must("Payload by the standard's counting rule, in bytes.")
    wire_bytes: int | None = must("Payload as serialized, in bytes; null if not recorded.")
    rest: dict[str, FieldEntry] | None = may(
        "Sizes of each of several fields, by name; null if there are none."
    )


class CarriedSection:
    """What each edge carried."""

    columns: list[str] = must(
        "What the entries of a record are, in order.",
        "Name of the entry; units are part of it.",
        columns=CarriedRecord,
        one_of=("fields",),
    )
    records: list[CarriedRecord | None] = must(
        "One record for each edge of `dag_structure`, in its order; null if the source did not "
        "succeed."
    )


class WeightEntry:
    """One task."""

    node_weight: str = must(
        "The candidate that is the node weight; `default` if none is (0 is no estimate)."
    )
    estimated_instructions: int | None = may(
        "Result of the task's cost model, in instructions; null if it has none."
    )
    counted_instructions: int | None = may(
        "Counted by the processor, in instructions of user code."
    )
    reference_time_ms: float | None = may(
        "Time in compute() without run-queue delay, multiplied by the machine's "
        "calibration score: milliseconds on the reference machine."
    )
    cpu_time_ms: float | None = may("CPU time of the thread, in milliseconds.")
    wall_time_ms: float | None = may(
        "Time in compute(), in milliseconds, if `execution_metrics` does not have it; null if "
        "nothing does."
    )
    reasons: dict[str, str] = may("Why candidates are null, by candidate.", "Why this one is null.")


class SamplesSection:
    """All values measured in several rounds, or in one with meters."""

    rounds: list[str] = must(
        "Kind of each round, in order.",
        "Figures come from `measured` rounds; the `allocation` pass counts allocations.",
        one_of=("cold", "warm_up", "measured", "allocation"),
    )
    total_ms: list[float | None] = may(
        "Wall-clock time of each round, in milliseconds.",
        "In milliseconds; null for the allocation pass.",
    )
    tasks: dict[str, dict[str, list[float | None]]] = must(
        "By task.",
        "By quantity.",
        "A value for each round.",
        "In the unit of the column's name; null if it was not measured.",
        keys="task",
        least=-inf,
    )
    edges: dict[str, dict[str, list[float | None]]] = may(
        (
            "By edge key (src->dst): `serialize_ms`, `deserialize_ms` of its fields, "
            "`size_bytes`, `wire_bytes`."
        ),
        "By quantity.",
        "A value for each round.",
        "In the unit of the column's name; null if it was not measured.",
        keys="edge",
        least=-inf,
    )


class SummaryEntry:
    """Statistics of one quantity over the measured rounds: in milliseconds, bytes or a count."""

    median: float = must("Median.", least=-inf)
    mad: float = may("Median absolute deviation, not scaled.", least=-inf)
    low: float = may("Lower end of the median's confidence interval.", least=-inf)
    high: float = may("Upper end of the median's confidence interval.", least=-inf)
    coverage: float = may("Probability that the interval covers the median.", most=1)
    min: float = may("Smallest value.", least=-inf)
    n: int = must("Number of values.", least=1)


class StatisticsSection:
    """The statistics of the samples."""

    confidence: float = may("Coverage that the intervals aim at.", most=1)
    total_ms: SummaryEntry = may()
    tasks: dict[str, dict[str, SummaryEntry]] = may("By task.", "By quantity.", keys="task")
    edges: dict[str, dict[str, SummaryEntry]] = may(
        "By edge key (src->dst).", "By quantity.", keys="edge"
    )
    cold_ms: dict[str, float | None] = may(
        "Time in compute() in the cold round, in milliseconds, by task.",
        "In milliseconds; null if the task did not finish there.",
        keys="task",
    )
    flags: dict[str, list[str]] = may(
        "Warnings about a task's figures, by task; tasks without a flag are absent.",
        "Flags.",
        "Name of a flag.",
        keys="task",
    )


class WorkerEntry:
    """One thread of one process."""

    host: str = may("Name of the host.")
    pid: int = may("Process number.")
    thread: int = may("Thread number.")
    clock_ahead_ms: float = may(
        (
            "Offset of its clock from that of the process that drove the run, in "
            "milliseconds; its times are corrected for it. Absent if it is the same clock."
        ),
        least=-inf,
    )
    clock_error_ms: float = may("Maximum error of this offset, in milliseconds.")


class MomentsRecord(Row):
    """Entries as `columns` says."""

    task: str = must("Name of the task in the DAG.", ref="task")
    round: int = must("Round, counted from 0.", ref="round")
    worker: int | None = must(
        "Index into `workers`; null if no worker took the task.", ref="timeline.workers"
    )
    rest: float | None = may("Milliseconds since the run began; null if it was not reached.")


class TimelineSection:
    """When each phase of each task began and ended, on one clock."""

    workers: list[WorkerEntry] = must("Where tasks ran.")
    columns: list[str] = must(
        "What the entries of a record are, in order.",
        "A moment; its unit is part of the name.",
        columns=MomentsRecord,
        one_of=MOMENTS,
    )
    records: list[MomentsRecord] = must("One record for each task and round.")


class LabelEntry:
    """One label."""

    kind: str = must(
        (
            "span: nests with the others of its thread; async: may overlap others; instant, "
            "async_instant: without duration; counter: values at a moment."
        ),
        one_of=("span", "async", "instant", "async_instant", "counter"),
    )
    name: str = must("Its name.")
    category: str = must("Module of a function, or another category.")


class ThreadEntry:
    """One thread."""

    worker: int | None = must(
        "Index into `timeline.workers` of the task's worker; null if unknown.",
        ref="timeline.workers",
    )
    id: int = must("Its number in the operating system.")
    name: str = must("Its name in Python.")
    own: bool = must("Whether this thread ran the tasks.")


class SpanRecord(Row):
    """Entries as `columns` says."""

    task: str = must("Name of the task in the DAG.", ref="task")
    round: int = must("Round, counted from 0.", ref="round")
    thread: int = must("Index into `threads`.", ref="spans.threads")
    label: int = must("Index into `labels`.", ref="spans.labels")
    start_ms: float = must("Milliseconds since the run began.", least=-inf)
    end_ms: float = must(
        "Milliseconds since the run began; equal to the start for an instant.", least=-inf
    )
    id: str | None = must("Null unless asynchronous.")
    args: dict[str, Any] | None = must("By name; null if there are none.")
    rest: str | float | bool | None = may("Columns of later versions.")


class SpansSection:
    """Spans traced inside the tasks; absent if nothing was traced."""

    labels: list[LabelEntry] = must("Kinds and names of spans.")
    threads: list[ThreadEntry] = must("Threads that recorded spans.")
    columns: list[str] = must(
        "What the entries of a record are, in order.",
        "A name; units are part of it.",
        columns=SpanRecord,
    )
    records: list[SpanRecord] = must("One record for each span, instant or value of a counter.")
    dropped: dict[str, int] = may(
        "Tasks with spans that were dropped for lack of room, by name; absent without any.",
        "Number of dropped spans in all rounds.",
        least=1,
        keys="task",
    )


class OriginRecord(Row):
    """Entries as `columns` says."""

    task: str = must("Name of the task in the DAG.", ref="task")
    round: int = must("Round, counted from 0.")
    rule: str = must("Name of the rule.")
    at_ms: float = must("Milliseconds since the run began.")
    rest: float | None = may("Columns of later versions.")


class FiredEntry:
    """One rule in one round."""

    round: int = must("Round, counted from 0.")
    rule: str = must("Name of the rule.")
    at_ms: float = must("When, in milliseconds since the run began.")
    tasks: int = must("Number of tasks that it added.")


class NeverFiredEntry:
    """One rule in one round."""

    round: int = must("Round, counted from 0.")
    rule: str = must("Name of the rule.")
    reason: str = must("Why it did not fire.")


class OriginsSection:
    """How the graph grew; absent for a graph that is fixed."""

    columns: list[str] = must(
        "What the entries of a record are, in order.", "Name of the entry.", columns=OriginRecord
    )
    records: list[OriginRecord] = must(
        "One record for each round and each task that a rule added in it; the other tasks"
        " were given."
    )
    fired: list[FiredEntry] = must("The rules that fired, in order.")
    never_fired: list[NeverFiredEntry] = must("The rules that did not fire.")


class CalibrationEntry:
    """Speed of the machine at a built-in kernel; absent if it was not calibrated."""

    score: float = must(
        (
            "Speed relative to the reference machine: milliseconds measured here, times this,"
            " are milliseconds there."
        ),
        least=float_info.min,
    )
    parts: dict[str, float] = must(
        "The same for each kind of work, by name; the score is their geometric mean.",
        "Speed relative to the reference machine.",
        least=float_info.min,
    )
    spread: float = must(
        "Half the width of the score's confidence interval, relative to the score."
    )
    kernel_version: int = must(
        "Version of the kernel; scores of different versions do not compare.", least=1
    )
    taken_at: str = may("When it was taken, as ISO 8601 text in UTC.")


class GitEntry:
    """The git repository of the current directory; absent outside of one."""

    commit: str = must("Hash of the commit that was checked out.")
    clean: bool = may(
        "Whether the files were those of the commit; absent if git was not asked, as only the "
        "command does."
    )


class EnvironmentSection:
    """Machine and software of the run."""

    python: str = may("Version of Python.")
    implementation: str = may("Implementation of Python.")
    os: str = may("Operating system and its version.")
    machine: str = may("Machine architecture.")
    cpu: str | None = may("Model of the processor; null if unknown.")
    cpu_mhz: float | None = may(
        "Highest known frequency of the processor, in MHz; null if unknown."
    )
    cores: int | None = may("Logical processors of the host; null if unknown.")
    cores_usable: int | None = may("Logical processors that the process may use; null if unknown.")
    cores_quota: float | None = may(
        "Processor time granted by control groups, in cores; null if it is not limited."
    )
    memory_bytes: int | None = may("Memory of the host, in bytes; null if unknown.")
    thread_settings: dict[str, str | None] = may(
        "Environment variables that set the threads of numerical libraries, by name.",
        "The variable's text; null if it is not set.",
    )
    allocator_settings: dict[str, str] = may(
        "Environment variables that set the C library's allocator (`MALLOC_*`), by name.",
        "The variable's text.",
    )
    blas_threads: int | None = may(
        "Threads of numpy's BLAS; null if unknown or numpy was not loaded."
    )
    versions: dict[str, str | None] = may(
        "Versions of packages, by name.", "Version; null if the package was not loaded."
    )
    command: str = may("The command line of the program that ran the DAG.")
    git: GitEntry = may()
    calibration: CalibrationEntry = may()
    not_measured: dict[str, str] = may(
        "Quantities that were not measured, by the name of their candidate or column.",
        "The reason.",
    )


class PredictedFromEntry:
    """One profile."""

    timestamp: str | None = may("When its run began.")
    hostname: str | None = may("Host that drove its run.")


class CurveEntry:
    """The makespan on one number of workers."""

    workers: int = must("Number of workers.", least=1)
    makespan_ms: float = must("Predicted time of the whole run, in milliseconds.")
    interval_ms: list[float] | None = may(
        "Lower and upper end of its 95 % interval, in milliseconds; null without samples.",
        "In milliseconds.",
    )


class PredictionSection:
    """What the profile predicts, instead of having measured it; absent if it was measured."""

    kind: str = must(
        "simulation: a run on other workers; cost_models: another configuration.",
        one_of=("simulation", "cost_models"),
    )
    sources: list[PredictedFromEntry] = must("The profiles behind it.")
    makespan_ms: float = may("Predicted time of the whole run, in milliseconds.")
    interval_ms: list[float] | None = may(
        "Lower and upper end of its 95 % interval, in milliseconds; null without samples.",
        "In milliseconds.",
    )
    curve: list[CurveEntry] = may("The makespan on each number of workers that was simulated.")
    beyond: float = may(
        "Largest ratio of a parameter, or of its least measured value, to the largest "
        "measured value; at most 1 within the measured range."
    )
    intervals_ms: dict[str, list[float]] = may(
        "95 % interval of each task's time in compute(), in milliseconds.",
        "Its lower and its upper end.",
        "In milliseconds.",
        keys="task",
    )
    models: dict[str, str] = may("Cost models as formulas, by quantity.", "A formula.")
    reasons: list[str] = must("Why it may not be trusted.", "A sentence.")


class EngineSection:
    """What the executor adds to the times of tasks, as calibrated on it."""

    executor: str = must("Name of the executor.")
    host: str = must("Where it was calibrated.")
    workers: int = must("Number of tasks that it ran at once.", least=1)
    latency_ms: float = must(
        "From sending a job to an idle worker until its record is back, without the task and "
        "without `driver_ms`, in milliseconds."
    )
    gap_ms: float = must("Between two tasks of a worker if the second waited, in milliseconds.")
    busy_gap_ms: float = may("The same while all cores compute, in milliseconds.")
    start_ms: float = may("What the first task of each worker takes more, in milliseconds.")
    driver_ms: float = must("CPU time of the driving process for each task, in milliseconds.")
    worker_ms: float = may(
        "CPU time of a worker's process for each task, beside the task, in milliseconds."
    )
    always: float = may("Cores that its processes use all the time, for each worker.")
    write_ms: list[float] = may(
        "Time of the worker that made a value to hand it over, of 0.2e6 and of 2e6 bytes, in "
        "milliseconds.",
        "A time.",
    )
    read_ms: list[float] = may("The same of each worker that reads it, in milliseconds.", "A time.")
    cores: int = may("Cores that the workers share.", least=1)
    contention: list[float] = may(
        "How many times longer a computation takes while 1, 2, 3 ... workers compute.",
        "A factor.",
        least=float_info.min,
    )
    contention_range: list[float] = may(
        "Least and most of this factor over kinds of work, with all workers busy.",
        "A factor.",
        least=float_info.min,
    )
    shares_memory: bool = may("Whether workers are threads of one process.")
    allocator: dict[str, str] = may("The workers' `MALLOC_*` variables, by name.", "Its text.")
    arrays: float = may(
        "How many times longer an operation on an array takes there than where it was calibrated, "
        "if these variables differ."
    )
    error: float = may(
        "How far predictions of single runs were off when it was calibrated, relative to them."
    )


class ProfileDocument:
    """One execution of a DAG of tasks, measured. Sections not named here are allowed."""

    metadata: MetadataSection = must()
    configuration: dict[str, Any] = must("Parameters of the run, by name; any JSON.")
    dag_structure: StructureSection = must()
    node_weights: dict[str, int] = must(
        "Task name -> estimated instruction count.",
        (
            "In instructions; 0 for a task without a cost model. From 0 to 2**63 - 1 where "
            "`schema_version` is present."
        ),
        least=None,
        keys="task",
    )
    edge_weights: dict[str, int] = must("Edge key (src->dst) -> data size in bits.", "In bits.")
    execution_metrics: list[TaskEntry] = may(
        "What each task took; over several rounds the medians."
    )
    total_time_ms: float = may("Wall-clock time of the whole run, in milliseconds.")
    run: RunSection = may()
    edge_metrics: CarriedSection = may()
    weight_sources: dict[str, WeightEntry] = may(
        "The candidates for each task's node weight, besides the time in `execution_metrics`. The "
        "node weight of a task without an entry is a default. A candidate that no task has is "
        "absent; `environment.not_measured` has the reason.",
        keys="task",
    )
    samples: SamplesSection = may()
    statistics: StatisticsSection = may()
    timeline: TimelineSection = may()
    spans: SpansSection = may()
    origins: OriginsSection = may()
    environment: EnvironmentSection = may()
    prediction: PredictionSection = may()
    engine: EngineSection = may()
    schedule: dict[str, list[str]] = may(
        "The schedule that the run followed, by node; absent if workers took tasks from one queue.",
        "The node's tasks in their order.",
        "Name of a task in the DAG.",
        ref="task",
    )
