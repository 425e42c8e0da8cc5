"""What a profile document holds: a shape for each section and each kind of entry.

``schema.py`` makes the JSON Schema of these, :func:`dagprofiler._document.checks.check_consistency`
checks the references that they declare, and the tables of the page on the format follow them.
"""

from __future__ import annotations

from math import inf
from sys import float_info
from typing import Any

from dagprofiler._document.rounds import MOMENTS
from dagprofiler._document.shapes import Row, may, must


class MetadataSection:
    """Where the profile comes from.

    Attributes
    ----------
    timestamp
        When the run began: UTC with `Z`; without an offset (0.1.0) the host's local time.
    dagprofiler_version
        Version of the program that wrote the profile.
    name
        Name of the DAG, or the target of the command; absent without one.
    schema_version
        Version of this format, counted from 1; absent in profiles of 0.1.0.
    seed
        Seed of the run; null if it was not seeded.
    hostname
        Host that drove the run.
    configuration_as_text
        Parameters that JSON cannot hold and whose text is stored instead.

        - Name of a parameter.
    """

    timestamp: str = must(format="date-time")
    dagprofiler_version: str = must()
    name: str = may()
    schema_version: int = may(least=1)
    seed: int | None = may(least=-(2**63))
    hostname: str = may()
    configuration_as_text: list[str] = may()


class EdgeEntry:
    """One edge.

    Attributes
    ----------
    source
        Task that the data comes from.
    target
        Task that the data goes to.
    """

    source: str = must(ref="task")
    target: str = must(ref="task")


class StructureSection:
    """The graph: tasks, edges and the order of execution.

    Attributes
    ----------
    nodes
        All tasks, each once.

        - Name of a task in the DAG.
    edges
        All edges.
    execution_order
        Tasks in topological order.

        - Name of a task in the DAG.
    """

    nodes: list[str] = must()
    edges: list[EdgeEntry] = must()
    execution_order: list[str] = must(ref="task")


class TaskEntry:
    """One task.

    Attributes
    ----------
    task
        Name of the task in the DAG (in profiles of 0.1.0 often its class).
    compute_time_ms
        Time in compute(), in milliseconds.
    serialize_time_ms
        Time to serialize the outputs, in milliseconds.
    deserialize_time_ms
        Time to deserialize the inputs, in milliseconds.
    bytes_in
        Size of the serialized inputs, in bytes.
    bytes_out
        Size of the serialized outputs, in bytes.
    """

    task: str = must(ref="task")
    compute_time_ms: float = must()
    serialize_time_ms: float = may()
    deserialize_time_ms: float = may()
    bytes_in: int = must()
    bytes_out: int = must()


class FrameEntry:
    """One frame.

    Attributes
    ----------
    file
        Path of the file.
    line
        Number of the line, from 1.
    function
        Name of the function.
    text
        The line of code; empty if it cannot be read.
    """

    file: str = must()
    line: int = must()
    function: str = must()
    text: str = must()


class FailureEntry:
    """One task that did not succeed.

    Attributes
    ----------
    state
        failed: the task raised; skipped: something upstream failed; cancelled: the run was stopped
        before the task began.
    error
        What a failed task raised: class and message.
    traceback
        Where it was raised: the frames outside of dagprofiler, the outermost first, at most 20.
    round
        Number of the round, from 0, warm-up included; absent in the first. Earlier rounds have
        measured the task.
    """

    state: str = must(one_of=("failed", "skipped", "cancelled"))
    error: str = may()
    traceback: list[FrameEntry] = may()
    round: int = may()


class AttemptEntry:
    """One lost attempt.

    Attributes
    ----------
    round
        Number of the round, from 0, warm-up included.
    error
        Why it was lost.
    """

    round: int = must()
    error: str = must()


class ResumedEntry:
    """One resumption of the run.

    Attributes
    ----------
    timestamp
        When, in UTC.
    at_ms
        The same in milliseconds since the run began, on the clock of the timeline, which is paused
        between attempts.
    gap_ms
        Time between the attempts, by the machines' own clocks, in milliseconds.
    round
        Number of the round, from 0, warm-up included.
    tasks
        Number of tasks of that round that had finished.
    executor_before
        Name of the executor of the previous attempt.
    torn_bytes
        Size of an incomplete last record, in bytes; it is dropped.
    dropped
        Tasks that had finished and ran again, because their outputs were incomplete.

        - Name of a task.
    compared
        What was compared with the previous attempt; only `sources` may differ.

        - One comparison.
    not_compared
        What could not be compared: `config.` and a parameter, or `sources.` and a task.

        - The reason.
    changed
        Tasks whose source has changed.

        - Name of a task.
    """

    timestamp: str = must()
    at_ms: float = must()
    gap_ms: float = may()
    round: int = may()
    tasks: int = may()
    executor_before: str = may()
    torn_bytes: int = may()
    dropped: list[str] = may()
    compared: list[str] = may(one_of=("dag", "config", "sources", "seed", "inputs"))
    not_compared: dict[str, str] = may()
    changed: list[str] = may()


class ConditionsEntry:
    """The conditions of the rounds, as requested.

    Attributes
    ----------
    n
        Number of measured rounds, or `auto`.
    warmup
        Number of warm-up rounds before them.
    max_rounds
        Maximum number of measured rounds with `auto`.
    max_time_s
        Time after which `auto` ends, in seconds.
    precision
        Half-width of the intervals that `auto` aims at, relative to the median.
    collect_garbage
        When garbage was collected: before `rounds` or `tasks`; null if not.
    fresh_process
        Whether each round had a process of its own.
    busy_cores
        Number of other cores that were kept busy.
    check_outputs
        Whether outputs were compared between rounds.
    """

    n: int | str = may()
    warmup: int = may()
    max_rounds: int = may()
    max_time_s: float = may()
    precision: float = may()
    collect_garbage: str | None = may()
    fresh_process: bool = may()
    busy_cores: int = may()
    check_outputs: bool = may()


class RunSection:
    """How the run went.

    Attributes
    ----------
    state
        complete: every task succeeded; partial: some did not.
    reason
        Why the run is partial; absent if it is complete.
    tasks
        Tasks that did not succeed, by name; absent if all did.
    overhead
        Time that the run spent outside the tasks, by kind: `prepare_ms`, `loop_ms`, `hooks_ms`;
        with several rounds or meters `meters_ms`, `garbage_ms` (collecting it outside all clocks),
        `between_rounds_ms`; with a journal `journal_ms`; for a graph that grows `rules_ms`.

        - Time of this kind over all rounds, in milliseconds.
    executor
        Name of the executor that ran the tasks.
    bound
        Arguments that were bound to tasks, by task; absent if there are none.

        - Argument -> its value.
        - As text, shortened.
    priorities
        Source of the priorities among ready tasks; absent if Kahn's order was used.
    legacy_generators
        false: tasks ran concurrently in threads, so the seed reached only `dagprofiler.rng()`;
        absent otherwise.
    attempts
        Tasks that were lost with a worker and run again, by name; absent without any.

        - The lost attempts, in order.
    resumed
        The resumptions of the run after it had ended early; absent without any.
    rounds
        Number of measured rounds, without warm-up.
    elapsed_ms
        Wall-clock time of all rounds together, in milliseconds.
    ended_by
        What ended the measured rounds.
    """

    state: str = must(one_of=("complete", "partial"))
    reason: str = may()
    tasks: dict[str, FailureEntry] = may(keys="task")
    overhead: dict[str, float] = may()
    executor: str = may()
    bound: dict[str, dict[str, str]] = may(keys="task")
    priorities: str = may(one_of=("profile", "given", "cost_models"))
    legacy_generators: bool = may()
    attempts: dict[str, list[AttemptEntry]] = may()
    resumed: list[ResumedEntry] = may()
    rounds: int = may()
    conditions: ConditionsEntry = may()
    elapsed_ms: float = may()
    ended_by: str = may(one_of=("n", "precision", "max_rounds", "max_time_s"))


class FieldEntry:
    """One field.

    Attributes
    ----------
    size_bytes
        Payload by the standard's counting rule, in bytes.
    wire_bytes
        Payload as serialized, in bytes.
    """

    size_bytes: int = may()
    wire_bytes: int = may()


class CarriedRecord(Row):
    """Entries as `columns` says.

    Attributes
    ----------
    data_fields
        The source's outputs that travel on this edge.

        - Name of an output.
    size_bytes
        Payload by the standard's counting rule, in bytes.
    wire_bytes
        Payload as serialized, in bytes; null if not recorded.
    rest
        Sizes of each of several fields, by name; null if there are none.
    """

    data_fields: list[str] = must()
    size_bytes: int = must()
    wire_bytes: int | None = must()
    rest: dict[str, FieldEntry] | None = may()


class CarriedSection:
    """What each edge carried.

    Attributes
    ----------
    columns
        What the entries of a record are, in order.

        - Name of the entry; units are part of it.
    records
        One record for each edge of `dag_structure`, in its order; null if the source did not
        succeed.
    """

    columns: list[str] = must(columns=CarriedRecord, one_of=("fields",))
    records: list[CarriedRecord | None] = must()


class WeightEntry:
    """One task.

    Attributes
    ----------
    node_weight
        The candidate that is the node weight; `default` if none is (0 is no estimate).
    estimated_instructions
        Result of the task's cost model, in instructions; null if it has none.
    counted_instructions
        Counted by the processor, in instructions of user code.
    reference_time_ms
        Time in compute() without run-queue delay, multiplied by the machine's calibration score:
        milliseconds on the reference machine.
    cpu_time_ms
        CPU time of the thread, in milliseconds.
    wall_time_ms
        Time in compute(), in milliseconds, if `execution_metrics` does not have it; null if nothing
        does.
    reasons
        Why candidates are null, by candidate.

        - Why this one is null.
    """

    node_weight: str = must()
    estimated_instructions: int | None = may()
    counted_instructions: int | None = may()
    reference_time_ms: float | None = may()
    cpu_time_ms: float | None = may()
    wall_time_ms: float | None = may()
    reasons: dict[str, str] = may()


class SamplesSection:
    """All values measured in several rounds, or in one with meters.

    Attributes
    ----------
    rounds
        Kind of each round, in order.

        - Figures come from `measured` rounds; the `allocation` pass counts allocations.
    total_ms
        Wall-clock time of each round, in milliseconds.

        - In milliseconds; null for the allocation pass.
    tasks
        By task.

        - By quantity.
        - A value for each round.
        - In the unit of the column's name; null if it was not measured.
    edges
        By edge key (src->dst): `serialize_ms`, `deserialize_ms` of its fields, `size_bytes`,
        `wire_bytes`.

        - By quantity.
        - A value for each round.
        - In the unit of the column's name; null if it was not measured.
    """

    rounds: list[str] = must(one_of=("cold", "warm_up", "measured", "allocation"))
    total_ms: list[float | None] = may()
    tasks: dict[str, dict[str, list[float | None]]] = must(keys="task", least=-inf)
    edges: dict[str, dict[str, list[float | None]]] = may(keys="edge", least=-inf)


class SummaryEntry:
    """Statistics of one quantity over the measured rounds: in milliseconds, bytes or a count.

    Attributes
    ----------
    median
        Median.
    mad
        Median absolute deviation, not scaled.
    low
        Lower end of the median's confidence interval.
    high
        Upper end of the median's confidence interval.
    coverage
        Probability that the interval covers the median.
    min
        Smallest value.
    n
        Number of values.
    """

    median: float = must(least=-inf)
    mad: float = may(least=-inf)
    low: float = may(least=-inf)
    high: float = may(least=-inf)
    coverage: float = may(most=1)
    min: float = may(least=-inf)
    n: int = must(least=1)


class StatisticsSection:
    """The statistics of the samples.

    Attributes
    ----------
    confidence
        Coverage that the intervals aim at.
    tasks
        By task.

        - By quantity.
    edges
        By edge key (src->dst).

        - By quantity.
    cold_ms
        Time in compute() in the cold round, in milliseconds, by task.

        - In milliseconds; null if the task did not finish there.
    flags
        Warnings about a task's figures, by task; tasks without a flag are absent.

        - Flags.
        - Name of a flag.
    """

    confidence: float = may(most=1)
    total_ms: SummaryEntry = may()
    tasks: dict[str, dict[str, SummaryEntry]] = may(keys="task")
    edges: dict[str, dict[str, SummaryEntry]] = may(keys="edge")
    cold_ms: dict[str, float | None] = may(keys="task")
    flags: dict[str, list[str]] = may(keys="task")


class WorkerEntry:
    """One thread of one process.

    Attributes
    ----------
    host
        Name of the host.
    pid
        Process number.
    thread
        Thread number.
    clock_ahead_ms
        Offset of its clock from that of the process that drove the run, in milliseconds; its times
        are corrected for it. Absent if it is the same clock.
    clock_error_ms
        Maximum error of this offset, in milliseconds.
    """

    host: str = may()
    pid: int = may()
    thread: int = may()
    clock_ahead_ms: float = may(least=-inf)
    clock_error_ms: float = may()


class MomentsRecord(Row):
    """Entries as `columns` says.

    Attributes
    ----------
    task
        Name of the task in the DAG.
    round
        Round, counted from 0.
    worker
        Index into `workers`; null if no worker took the task.
    rest
        Milliseconds since the run began; null if it was not reached.
    """

    task: str = must(ref="task")
    round: int = must(ref="round")
    worker: int | None = must(ref="timeline.workers")
    rest: float | None = may()


class TimelineSection:
    """When each phase of each task began and ended, on one clock.

    Attributes
    ----------
    workers
        Where tasks ran.
    columns
        What the entries of a record are, in order.

        - A moment; its unit is part of the name.
    records
        One record for each task and round.
    """

    workers: list[WorkerEntry] = must()
    columns: list[str] = must(columns=MomentsRecord, one_of=MOMENTS)
    records: list[MomentsRecord] = must()


class LabelEntry:
    """One label.

    Attributes
    ----------
    kind
        span: nests with the others of its thread; async: may overlap others; instant,
        async_instant: without duration; counter: values at a moment.
    name
        Its name.
    category
        Module of a function, or another category.
    """

    kind: str = must(one_of=("span", "async", "instant", "async_instant", "counter"))
    name: str = must()
    category: str = must()


class ThreadEntry:
    """One thread.

    Attributes
    ----------
    worker
        Index into `timeline.workers` of the task's worker; null if unknown.
    id
        Its number in the operating system.
    name
        Its name in Python.
    own
        Whether this thread ran the tasks.
    """

    worker: int | None = must(ref="timeline.workers")
    id: int = must()
    name: str = must()
    own: bool = must()


class SpanRecord(Row):
    """Entries as `columns` says.

    Attributes
    ----------
    task
        Name of the task in the DAG.
    round
        Round, counted from 0.
    thread
        Index into `threads`.
    label
        Index into `labels`.
    start_ms
        Milliseconds since the run began.
    end_ms
        Milliseconds since the run began; equal to the start for an instant.
    id
        Null unless asynchronous.
    args
        By name; null if there are none.
    rest
        Columns of later versions.
    """

    task: str = must(ref="task")
    round: int = must(ref="round")
    thread: int = must(ref="spans.threads")
    label: int = must(ref="spans.labels")
    start_ms: float = must(least=-inf)
    end_ms: float = must(least=-inf)
    id: str | None = must()
    args: dict[str, Any] | None = must()
    rest: str | float | bool | None = may()


class SpansSection:
    """Spans traced inside the tasks; absent if nothing was traced.

    Attributes
    ----------
    labels
        Kinds and names of spans.
    threads
        Threads that recorded spans.
    columns
        What the entries of a record are, in order.

        - A name; units are part of it.
    records
        One record for each span, instant or value of a counter.
    dropped
        Tasks with spans that were dropped for lack of room, by name; absent without any.

        - Number of dropped spans in all rounds.
    """

    labels: list[LabelEntry] = must()
    threads: list[ThreadEntry] = must()
    columns: list[str] = must(columns=SpanRecord)
    records: list[SpanRecord] = must()
    dropped: dict[str, int] = may(least=1, keys="task")


class OriginRecord(Row):
    """Entries as `columns` says.

    Attributes
    ----------
    task
        Name of the task in the DAG.
    round
        Round, counted from 0.
    rule
        Name of the rule.
    at_ms
        Milliseconds since the run began.
    rest
        Columns of later versions.
    """

    task: str = must(ref="task")
    round: int = must()
    rule: str = must()
    at_ms: float = must()
    rest: float | None = may()


class FiredEntry:
    """One rule in one round.

    Attributes
    ----------
    round
        Round, counted from 0.
    rule
        Name of the rule.
    at_ms
        When, in milliseconds since the run began.
    tasks
        Number of tasks that it added.
    """

    round: int = must()
    rule: str = must()
    at_ms: float = must()
    tasks: int = must()


class NeverFiredEntry:
    """One rule in one round.

    Attributes
    ----------
    round
        Round, counted from 0.
    rule
        Name of the rule.
    reason
        Why it did not fire.
    """

    round: int = must()
    rule: str = must()
    reason: str = must()


class OriginsSection:
    """How the graph grew; absent for a graph that is fixed.

    Attributes
    ----------
    columns
        What the entries of a record are, in order.

        - Name of the entry.
    records
        One record for each round and each task that a rule added in it; the other tasks were given.
    fired
        The rules that fired, in order.
    never_fired
        The rules that did not fire.
    """

    columns: list[str] = must(columns=OriginRecord)
    records: list[OriginRecord] = must()
    fired: list[FiredEntry] = must()
    never_fired: list[NeverFiredEntry] = must()


class CalibrationEntry:
    """Speed of the machine at a built-in kernel; absent if it was not calibrated.

    Attributes
    ----------
    score
        Speed relative to the reference machine: milliseconds measured here, times this, are
        milliseconds there.
    parts
        The same for each kind of work, by name; the score is their geometric mean.

        - Speed relative to the reference machine.
    spread
        Half the width of the score's confidence interval, relative to the score.
    kernel_version
        Version of the kernel; scores of different versions do not compare.
    taken_at
        When it was taken, as ISO 8601 text in UTC.
    """

    score: float = must(least=float_info.min)
    parts: dict[str, float] = must(least=float_info.min)
    spread: float = must()
    kernel_version: int = must(least=1)
    taken_at: str = may()


class GitEntry:
    """The git repository of the current directory; absent outside of one.

    Attributes
    ----------
    commit
        Hash of the commit that was checked out.
    clean
        Whether the files were those of the commit; absent if git was not asked, as only the command
        does.
    """

    commit: str = must()
    clean: bool = may()


class EnvironmentSection:
    """Machine and software of the run.

    Attributes
    ----------
    python
        Version of Python.
    implementation
        Implementation of Python.
    os
        Operating system and its version.
    machine
        Machine architecture.
    cpu
        Model of the processor; null if unknown.
    cpu_mhz
        Highest known frequency of the processor, in MHz; null if unknown.
    cores
        Logical processors of the host; null if unknown.
    cores_usable
        Logical processors that the process may use; null if unknown.
    cores_quota
        Processor time granted by control groups, in cores; null if it is not limited.
    memory_bytes
        Memory of the host, in bytes; null if unknown.
    thread_settings
        Environment variables that set the threads of numerical libraries, by name.

        - The variable's text; null if it is not set.
    allocator_settings
        Environment variables that set the C library's allocator (`MALLOC_*`), by name.

        - The variable's text.
    blas_threads
        Threads of numpy's BLAS; null if unknown or numpy was not loaded.
    versions
        Versions of packages, by name.

        - Version; null if the package was not loaded.
    command
        The command line of the program that ran the DAG.
    not_measured
        Quantities that were not measured, by the name of their candidate or column.

        - The reason.
    """

    python: str = may()
    implementation: str = may()
    os: str = may()
    machine: str = may()
    cpu: str | None = may()
    cpu_mhz: float | None = may()
    cores: int | None = may()
    cores_usable: int | None = may()
    cores_quota: float | None = may()
    memory_bytes: int | None = may()
    thread_settings: dict[str, str | None] = may()
    allocator_settings: dict[str, str] = may()
    blas_threads: int | None = may()
    versions: dict[str, str | None] = may()
    command: str = may()
    git: GitEntry = may()
    calibration: CalibrationEntry = may()
    not_measured: dict[str, str] = may()


class PredictedFromEntry:
    """One profile.

    Attributes
    ----------
    timestamp
        When its run began.
    hostname
        Host that drove its run.
    """

    timestamp: str | None = may()
    hostname: str | None = may()


class CurveEntry:
    """The makespan on one number of workers.

    Attributes
    ----------
    workers
        Number of workers.
    makespan_ms
        Predicted time of the whole run, in milliseconds.
    interval_ms
        Lower and upper end of its 95 % interval, in milliseconds; null without samples.

        - In milliseconds.
    """

    workers: int = must(least=1)
    makespan_ms: float = must()
    interval_ms: list[float] | None = may()


class PredictionSection:
    """What the profile predicts, instead of having measured it; absent if it was measured.

    Attributes
    ----------
    kind
        simulation: a run on other workers; cost_models: another configuration.
    sources
        The profiles behind it.
    makespan_ms
        Predicted time of the whole run, in milliseconds.
    interval_ms
        Lower and upper end of its 95 % interval, in milliseconds; null without samples.

        - In milliseconds.
    curve
        The makespan on each number of workers that was simulated.
    gains
        Class of tasks to how much shorter the makespan is if they compute twice as fast.

        - As a share of the makespan.
    beyond
        Largest ratio of a parameter, or of its least measured value, to the largest measured value;
        at most 1 within the measured range.
    intervals_ms
        95 % interval of each task's time in compute(), in milliseconds.

        - Its lower and its upper end.
        - In milliseconds.
    serialize_intervals_ms
        That of its time to serialize its outputs, in milliseconds.

        - Its lower and its upper end.
        - In milliseconds.
    deserialize_intervals_ms
        That of its time to deserialize its inputs, in milliseconds.

        - Its lower and its upper end.
        - In milliseconds.
    models
        Cost models as formulas, by quantity.

        - A formula.
    reasons
        Why it may not be trusted.

        - A sentence.
    """

    kind: str = must(one_of=("simulation", "cost_models"))
    sources: list[PredictedFromEntry] = must()
    makespan_ms: float = may()
    interval_ms: list[float] | None = may()
    curve: list[CurveEntry] = may()
    gains: dict[str, float] = may()
    beyond: float = may()
    intervals_ms: dict[str, list[float]] = may(keys="task")
    serialize_intervals_ms: dict[str, list[float]] = may(keys="task")
    deserialize_intervals_ms: dict[str, list[float]] = may(keys="task")
    models: dict[str, str] = may()
    reasons: list[str] = must()


class EngineSection:
    """What the executor adds to the times of tasks, as calibrated on it.

    Attributes
    ----------
    executor
        Name of the executor.
    host
        Where it was calibrated.
    workers
        Number of tasks that it ran at once.
    latency_ms
        From sending a job to an idle worker until its record is back, without the task and without
        `driver_ms`, in milliseconds.
    gap_ms
        Between two tasks of a worker if the second waited, in milliseconds.
    busy_gap_ms
        The same while all cores compute, in milliseconds.
    start_ms
        What the first task of each worker takes more, in milliseconds.
    driver_ms
        CPU time of the driving process for each task, in milliseconds.
    worker_ms
        CPU time of a worker's process for each task, beside the task, in milliseconds.
    always
        Cores that its processes use all the time, for each worker.
    write_ms
        Time of the worker that made a value to hand it over, of 0.2e6 and of 2e6 bytes, in
        milliseconds.

        - A time.
    read_ms
        The same of each worker that reads it, in milliseconds.

        - A time.
    cores
        Cores that the workers share.
    contention
        How many times longer a computation takes while 1, 2, 3 ... workers compute.

        - A factor.
    contention_range
        Least and most of this factor over kinds of work, with all workers busy.

        - A factor.
    shares_memory
        Whether workers are threads of one process.
    allocator
        The workers' `MALLOC_*` variables, by name.

        - Its text.
    arrays
        How many times longer an operation on an array takes there than where it was calibrated, if
        these variables differ.
    error
        How far predictions of single runs were off when it was calibrated, relative to them.
    """

    executor: str = must()
    host: str = must()
    workers: int = must(least=1)
    latency_ms: float = must()
    gap_ms: float = must()
    busy_gap_ms: float = may()
    start_ms: float = may()
    driver_ms: float = must()
    worker_ms: float = may()
    always: float = may()
    write_ms: list[float] = may()
    read_ms: list[float] = may()
    cores: int = may(least=1)
    contention: list[float] = may(least=float_info.min)
    contention_range: list[float] = may(least=float_info.min)
    shares_memory: bool = may()
    allocator: dict[str, str] = may()
    arrays: float = may()
    error: float = may()


class ProfileDocument:
    """One execution of a DAG of tasks, measured. Sections not named here are allowed.

    Attributes
    ----------
    configuration
        Parameters of the run, by name; any JSON.
    node_weights
        Task name -> estimated instruction count.

        - In instructions; 0 for a task without a cost model. From 0 to 2**63 - 1 where
          `schema_version` is present.
    edge_weights
        Edge key (src->dst) -> data size in bits.

        - In bits.
    execution_metrics
        What each task took; over several rounds the medians.
    total_time_ms
        Wall-clock time of the whole run, in milliseconds.
    weight_sources
        The candidates for each task's node weight, besides the time in `execution_metrics`. The
        node weight of a task without an entry is a default. A candidate that no task has is absent;
        `environment.not_measured` has the reason.
    schedule
        The schedule that the run followed, by node; absent if workers took tasks from one queue.

        - The node's tasks in their order.
        - Name of a task in the DAG.
    """

    metadata: MetadataSection = must()
    configuration: dict[str, Any] = must()
    dag_structure: StructureSection = must()
    node_weights: dict[str, int] = must(least=None, keys="task")
    edge_weights: dict[str, int] = must()
    execution_metrics: list[TaskEntry] = may()
    total_time_ms: float = may()
    run: RunSection = may()
    edge_metrics: CarriedSection = may()
    weight_sources: dict[str, WeightEntry] = may(keys="task")
    samples: SamplesSection = may()
    statistics: StatisticsSection = may()
    timeline: TimelineSection = may()
    spans: SpansSection = may()
    origins: OriginsSection = may()
    environment: EnvironmentSection = may()
    prediction: PredictionSection = may()
    engine: EngineSection = may()
    schedule: dict[str, list[str]] = may(ref="task")
