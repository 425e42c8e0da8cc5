"""Journal: a hook that records a run, so that it can be resumed in another process.

The process that drives the run appends lines of JSON to one file: a header, which says what
identifies the run; a line where a round begins and where it ends; a line for each finished task;
one for each resumption; and one at the end of the run. Workers append pickled outputs to files
of their own, so that no worker waits for another and no output passes through the driver.
"""

from __future__ import annotations

import json
import os
import pickle
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache, partial
from io import FileIO
from time import perf_counter
from typing import Any

from dagprofiler._document.rounds import MEASURED
from dagprofiler._util import JsonObject, Values, covered
from dagprofiler._util.interpreter import HOSTNAME
from dagprofiler._util.json import utc_text
from dagprofiler.config import same_value
from dagprofiler.engine.contracts import Workflow
from dagprofiler.engine.hooks import Hook, RunInfo
from dagprofiler.engine.log import RunCosts, RunLog, TaskRecord, since_ms
from dagprofiler.engine.run import Frontier, Round
from dagprofiler.engine.setup import RunOptions
from dagprofiler.errors import (
    DagProfilerWarning,
    JournalError,
    describe,
    explained,
    listed,
    short_repr,
)
from dagprofiler.graph.wiring import Wiring
from dagprofiler.measure.pipeline import Contract
from dagprofiler.profile import Profile
from dagprofiler.serializers import FrameList, picklable

#: Version of the format.
FORMAT = 6

#: The file of a journal that holds its lines.
LINES = "journal.jsonl"

_encode = json.JSONEncoder(separators=(",", ":")).encode

#: The journals that this process writes: the lock of a file keeps out other processes only.
_in_use: set[str] = set()


class Journal(Hook):
    """Records each task that finished, so that a run which is killed can be resumed.

    The worker that ran a task appends its outputs to its own file in the directory. Then this
    process appends a record, before any consumer of the outputs starts.

    Parameters
    ----------
    directory
        A path that all workers can reach. The journal creates it if it does not exist; it must
        not hold a journal.

    Notes
    -----
    A journal holds pickles, which execute code: resume only what you wrote. What a power failure
    keeps from being written to disk, usually the last half minute, runs again.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from dagprofiler import DAG, task
    >>> @task(outputs=["x"])
    ... def source():
    ...     return {"x": 3}
    >>> directory, dag = mkdtemp(), DAG({"source": source})
    >>> profile = dag.run(hooks=[Journal(directory)])
    >>> dag.resume(directory).outputs
    {'source': {'x': 3}}
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = os.path.abspath(os.fspath(directory))
        self.store = partial(OutputFile, self.directory)
        #: The file for what this process stores itself.
        self._outputs = self.store()
        self._file: LineFile
        #: The state in which earlier attempts left the run; None for the first attempt.
        self._past: PastRun | None = None
        self._rounds_begun = 0
        self._log: RunLog

    def reopen(self) -> PastRun:
        """Open the journal in the directory, and return the state of the run that it records.

        Raises
        ------
        JournalError
            If there is none, it has another format, or another run is writing to it.
        """
        if not holds_journal(self.directory):
            raise JournalError(self.directory, ["there is no journal in this directory"])
        self._file = LineFile(os.path.join(self.directory, LINES))
        self._past = PastRun(self.directory, self._file.lines, self._file.torn_bytes)
        self._rounds_begun = len(self._past.rounds)
        return self._past

    def run_started(self, run: RunInfo) -> None:
        """Write the header, or the line of a resumption; a complete run gets no line."""
        self._log = run.log
        if self._past is None:
            self._file = LineFile(os.path.join(self.directory, LINES))
            if self._file.lines or self._file.torn_bytes:
                hint = f"dag.resume({self.directory!r}), or use another one"
                raise JournalError(self.directory, [f"it holds a journal already: {hint}"])
            self._append(self._header(run))
        elif self._past.totals is None:
            resumed = {**self._past.resumed[-1], "executor": run.log.executor}
            self._append({"resumed": resumed})

    def _header(self, run: RunInfo) -> JsonObject:
        log, workflow = run.log, run.log.setup.workflow
        inputs = {name: _picklable(fields) for name, fields in run.inputs.items()}
        # What a resumption may choose anew is left out.
        options = replace(
            run.options, inputs=inputs, executor=None, priorities=None, timeout=None, schedule=None
        )
        # A meter's own __reduce__ may raise anything.
        with _refusing(self.directory, "the meters cannot be recorded"):
            stored = {"options": pickle.dumps(options, 5), "values": pickled(values_of(workflow))}
        return {
            "format": FORMAT,
            "timestamp": log.timestamp,
            "executor": log.executor,
            "sources": sources_of(workflow),
            "facts": facts_of(workflow),
            "stored": self._outputs.append(stored),
        }

    def task_finished(self, record: TaskRecord) -> None:
        """Append the line of a task."""
        log, i, wiring = self._log, record.number, self._log.wiring
        round_log = log.rounds[record.round]
        self._begin(record.round)
        ahead_s = log.ahead_s(round_log.ran_on[i])
        worker = record.worker
        if worker is not None and ahead_s:
            worker = {**worker, "clock_ahead_ms": round(ahead_s * 1e3, 6)}
        wire, payload = round_log.wire_bytes, round_log.payload_bytes
        slots = range(wiring.first_slot[i], wiring.first_slot[i] + len(wiring.outputs[i]))
        zero_s = log.started + ahead_s
        line = {
            "task": record.task,
            "times_ms": since_ms(round_log.times_of(i), zero_s),
            "worker": worker,
            "total_s": round_log.total_s,
            "bytes": [(wire[slot], payload.get(slot, wire[slot])) for slot in slots],
            "reasons": round_log.reasons,
            **round_log.entry(i, zero_s),
        }
        if round_log.growth is not None and i >= len(log.setup.workflow.nodes):
            # A rule has added the task.
            contract = log.contracts[i]
            bound = bound_of(record.task, contract)
            line["added_ms"] = log.since_start_ms([round_log.growth.added_s[i]])[0]
            line["declared"] = declaration(i, contract, wiring)
            line["bound"] = self._outputs.append(pickled(bound)) if bound else None
        self._append(line)

    def _begin(self, number: int) -> None:
        """Append the line of a round that begins, unless the journal has it."""
        if number == self._rounds_begun:
            round_log = self._log.rounds[number]
            began_ms = self._log.since_start_ms([round_log.started_s])[0]
            columns = [*round_log.columns]
            self._append({"kind": round_log.kind, "columns": columns, "began_ms": began_ms})
            self._rounds_begun += 1

    def round_finished(self, number: int) -> None:
        """Append the line of a complete round."""
        log = self._log
        round_log, names = log.rounds[number], log.wiring.names
        self._begin(number)
        ended = {
            "ended_ms": log.since_start_ms([round_log.ended_s])[0],
            "total_s": round_log.total_s,
            "waited_s": round_log.waited_s,
            "legacy_generators": round_log.legacy_generators,
            "attempts": {names[i]: list(lost) for i, lost in round_log.facts("attempts").items()},
        }
        self._append({"ended": ended})

    def run_finished(self, profile: Profile) -> None:
        """Append the totals of a complete run, which resuming it returns."""
        log = self._log
        if log.reason is None and (self._past is None or self._past.totals is None):
            self._append({"totals": {"costs": vars(log.costs), "environment": log.environment}})

    def _append(self, line: JsonObject) -> None:
        at_ms = self._log.since_start_ms([perf_counter()])[0]
        self._file.append({"at_ms": at_ms, **line})

    def close(self) -> None:
        """Close the file."""
        if hasattr(self, "_file"):
            self._file.close()


def _refusing(path: str, words: str, of: type[Exception] = Exception, hint: str = "") -> explained:
    """Raise a JournalError for what is raised in the block: `words`, the cause and `hint`."""
    return explained(lambda problem: JournalError(path, [problem]), words, hint, of=of)


def holds_journal(directory: str) -> bool:
    """Tell whether a directory holds a journal; one with an empty file does not yet."""
    path = os.path.join(directory, LINES)
    return os.path.exists(path) and os.path.getsize(path) > 0


class LineFile:
    """The lines of a journal, each a JSON object; one run at a time appends to them.

    Parameters
    ----------
    path
        The file; it is created if it does not exist.

    Attributes
    ----------
    lines
        The complete lines that the file held.
    torn_bytes
        Size of an incomplete last line, which the next one replaces; 0 if there is none.

    Raises
    ------
    JournalError
        If the file cannot be opened, or another run is writing to it.
    """

    def __init__(self, path: str) -> None:
        self.path = os.path.realpath(path)
        if self.path in _in_use:
            raise JournalError(path, ["another run in this process is writing to it"])
        with _refusing(path, "cannot be written", OSError):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            self._file = FileIO(path, "a+")
        self._lock()
        _in_use.add(self.path)
        self._file.seek(0)
        *self.lines, torn = self._file.readall().split(b"\n")
        self.torn_bytes = len(torn)

    def _lock(self) -> None:
        """Keep other processes out as long as the file is open."""
        try:
            # Unlike with flock(), forked workers do not keep the lock of a driver that was killed.
            from fcntl import LOCK_EX, LOCK_NB, lockf

            lockf(self._file, LOCK_EX | LOCK_NB)
        except (BlockingIOError, PermissionError) as error:
            self._file.close()
            raise JournalError(self.path, ["another process is writing to it"]) from error
        except (ImportError, OSError):
            # Windows, or a file system without locks.
            return

    def append(self, line: JsonObject) -> None:
        """Append a line; it survives a kill of this process.

        Raises
        ------
        JournalError
            If it cannot be written; a part that was written is dropped when the run is resumed.
        """
        content = memoryview(_encode(line).encode("ascii") + b"\n")
        written = 0
        try:
            if self.torn_bytes:
                self._file.truncate(self._file.seek(0, os.SEEK_END) - self.torn_bytes)
                self.torn_bytes = 0
            while written < len(content):
                written += self._file.write(content[written:])
        except OSError as error:
            self.torn_bytes = written
            raise JournalError(self.path, [f"cannot be written: {describe(error)}"]) from error

    def close(self) -> None:
        """Close the file, and give up the lock."""
        self._file.close()
        _in_use.discard(self.path)


class OutputFile:
    """The file to which one worker appends the outputs of its tasks, pickled.

    Parameters
    ----------
    directory
        That of the journal.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        # Hosts and containers may share names and process numbers.
        self._name = f"{HOSTNAME}-{os.getpid()}-{os.urandom(4).hex()}.pickle".replace(os.sep, "_")

    def begin(self) -> None:
        """Raise a JournalError if this worker cannot reach the journal."""
        if not holds_journal(self._directory):
            raise self._unwritten("there is no journal on this worker")

    def put(self, encoded: Values) -> list[str | int]:
        """Append the serialized outputs of a task; return their place as :meth:`append`."""
        return self.append(_picklable(encoded))

    def append(self, value: object) -> list[str | int]:
        """Append a value; return the file, and where the value begins and ends in it.

        Raises
        ------
        JournalError
            If it cannot be written; a part that was written is never read.
        """
        try:
            # Opened for each task: a worker's thread ends without notice.
            with open(os.path.join(self._directory, self._name), "ab") as file:
                begin = file.tell()
                pickle.dump(value, file, 5)
                end = file.tell()
        except OSError as error:
            raise self._unwritten(describe(error)) from error
        return [self._name, begin, end]

    def _unwritten(self, why: str) -> JournalError:
        problem = f"worker {HOSTNAME} (process {os.getpid()}) cannot write there: {why}"
        return JournalError(self._directory, [problem])


def _picklable(encoded: Values) -> Values:
    """Return serialized values in a form that pickle accepts without copying them."""
    return {
        field: FrameList(data) if isinstance(data, list) else picklable(data, 5)
        for field, data in encoded.items()
    }


@dataclass
class PastRound:
    """One round that earlier attempts began.

    Attributes
    ----------
    kind
        The purpose of the round.
    columns
        Names of the columns that its meters measured.
    began_ms
        When it began, in milliseconds from the run's start.
    tasks
        Name of each task that finished to its line, in the order of their ends.
    ended
        The totals of the round; None if it is not complete.
    """

    kind: str
    columns: list[str]
    began_ms: float
    tasks: dict[str, JsonObject] = field(default_factory=dict)
    ended: JsonObject | None = None


class PastRun:
    """The state in which earlier attempts left a run.

    Parameters
    ----------
    directory
        That of the journal.
    lines
        The lines of the journal.
    torn_bytes
        Size of an incomplete last line.

    Attributes
    ----------
    options
        The options of the run; inputs are serialized, and where tasks run is left out.
    rounds
        The rounds that were begun.
    earlier_s
        Time that was spent on the run, in seconds.
    resumed
        The profile's entry for each resumption of the run, this one included.
    totals
        The times and the environment of a complete run; None if it is not complete.
    """

    def __init__(self, directory: str, lines: Sequence[bytes], torn_bytes: int) -> None:
        words = "it is damaged, or its run ended before it began"
        hint = "; run it again, in another directory"
        with _refusing(directory, words, ValueError, hint):
            header, *records = [json.loads(line) for line in lines]
        if header["format"] != FORMAT:
            problem = f"its format is {header['format']!r}, this version reads {FORMAT}"
            raise JournalError(directory, [problem])
        self.directory = directory
        self.rounds: list[PastRound] = []
        self.resumed: list[JsonObject] = []
        self.totals: JsonObject | None = None
        self._header = header
        self._executor: str = header["executor"]
        self._torn_bytes = torn_bytes
        for record in records:
            self._add(record)
        self._at_ms: float = [header, *records][-1]["at_ms"]
        self.earlier_s = self._at_ms / 1e3
        self._lost = self._lost_tasks()
        self._drop(self._lost)
        stored = read_stored(directory, header["stored"])
        self._values: dict[str, bytes | None] = stored["values"]
        self.options: RunOptions = pickle.loads(stored["options"])

    def _add(self, line: JsonObject) -> None:
        if "task" in line:
            self.rounds[-1].tasks[line["task"]] = dict(line)
        elif "kind" in line:
            self.rounds.append(PastRound(line["kind"], line["columns"], line["began_ms"]))
        elif "ended" in line:
            self.rounds[-1].ended = line["ended"]
        elif "totals" in line:
            self.totals = line["totals"]
        else:
            entry = dict(line["resumed"])
            self._executor = entry.pop("executor")
            self._drop(entry["dropped"])
            self.resumed.append(entry)

    def _lost_tasks(self) -> list[str]:
        """Return the tasks of the last round whose outputs are incomplete, and their successors."""
        sizes = {entry.name: entry.stat().st_size for entry in os.scandir(self.directory)}
        complete = set[str]()
        tasks = self.rounds[-1].tasks if self.rounds else {}
        # The predecessors of a task finished before it.
        for name, line in tasks.items():
            declared = line.get("declared") or self._header["facts"][f"task {name!r}"]
            file, _, end = line["readings"]["stored"]
            if sizes.get(file, 0) >= end and complete.issuperset(declared["after"]):
                complete.add(name)
        return [name for name in tasks if name not in complete]

    def _drop(self, tasks: Iterable[str]) -> None:
        """Remove the lines of tasks of the last round, which run again."""
        for name in tasks:
            del self.rounds[-1].tasks[name]
            self.rounds[-1].ended = self.totals = None

    @property
    def kinds(self) -> list[str]:
        """The purpose of each round that was begun."""
        return [past.kind for past in self.rounds]

    @property
    def measured_s(self) -> float:
        """Time since the first measured round began, in seconds."""
        began_ms = [past.began_ms for past in self.rounds if past.kind == MEASURED]
        return self.earlier_s - began_ms[0] / 1e3 if began_ms else 0.0

    def compare(
        self, workflow: Workflow, *, seed: int | None, inputs: Mapping[str, Values] | None
    ) -> None:
        """Add the entry of this resumption; raise a JournalError if the run is another one.

        The error lists all differences.
        """
        now, then = facts_of(workflow), dict(self._header["facts"])
        compared = ["dag", "config", "sources"]
        if seed is not None:
            compared.append("seed")
            now["seed"], then["seed"] = seed, self.options.seed
        if inputs is not None:
            compared.append("inputs")
            contracts = dict(zip(workflow.wiring.names, workflow.contracts))
            serialized = {
                task: {name: contracts[task].encode(value) for name, value in fields.items()}
                for task, fields in inputs.items()
                if task in contracts
            }
            now["inputs"], then["inputs"] = {**inputs, **serialized}, self.options.inputs or {}
        unknown = check_same(self.directory, now, then, values_of(workflow), self._values)
        changed = self._changed_sources(sources_of(workflow), unknown)
        if self.totals is None:
            self._resume({"compared": compared, "not_compared": unknown, "changed": changed})

    def _changed_sources(
        self, sources: Mapping[str, str | None], unknown: dict[str, str]
    ) -> list[str]:
        """Return the tasks whose source has changed; warn of those whose results are reused.

        Adds the tasks whose source is not known to `unknown`.
        """
        before, finished = self._header["sources"], {name for r in self.rounds for name in r.tasks}
        compared = {name: source for name, source in sources.items() if source and before[name]}
        for name in sorted(sources.keys() - compared.keys()):
            unknown[f"sources.{name}"] = "its source is not known"
        changed = [name for name, source in compared.items() if source != before[name]]
        reused = [name for name in changed if name in finished]
        if reused:
            words = f"the source of {listed(reused, 10)} has changed; recorded results are reused"
            warnings.warn(f"resume: {words}", DagProfilerWarning, stacklevel=4)
        return changed

    def _resume(self, compared: JsonObject) -> None:
        """Add the entry of this resumption."""
        last = self.rounds[-1] if self.rounds and self.rounds[-1].ended is None else None
        before = self.resumed[-1] if self.resumed else {**self._header, "at_ms": 0.0}
        now = utc_text()
        moments = [datetime.fromisoformat(text[:-1]) for text in (before["timestamp"], now)]
        away_ms = (moments[1] - moments[0]).total_seconds() * 1e3
        self.resumed.append(
            {
                "timestamp": now,
                "at_ms": self._at_ms,
                "gap_ms": round(max(0.0, away_ms - (self._at_ms - before["at_ms"])), 6),
                "round": len(self.rounds) - (last is not None),
                "tasks": 0 if last is None else len(last.tasks),
                "executor_before": self._executor,
                "torn_bytes": self._torn_bytes,
                "dropped": self._lost,
                **compared,
            }
        )

    def frontier(self, inner: Frontier, number: int) -> Frontier:
        """Return the frontier of a round, which takes over the tasks that have finished.

        Parameters
        ----------
        inner
            The frontier of the round without earlier attempts.
        number
            That of the round, from 0.
        """
        if number >= len(self.rounds):
            return inner
        last = number + 1 == len(self.rounds)
        return Replayed(inner, self.rounds[number], self.directory, is_last=last)

    def continue_clock(self, log: RunLog) -> None:
        """Shift the log of the run to the clock of the earlier attempts."""
        log.timestamp = self._header["timestamp"]
        log.costs.earlier_s = self.earlier_s
        log.resumed = self.resumed

    def finish(self, log: RunLog) -> None:
        """Enter the totals of a complete run into its log, which runs nothing any more."""
        if self.totals is not None:
            log.executor = self._executor
            log.environment = self.totals["environment"]
            log.costs = RunCosts(**self.totals["costs"])


class Replayed:
    """The frontier of a round that earlier attempts began: it runs what they did not finish.

    Parameters
    ----------
    inner
        The frontier of the round without earlier attempts.
    past
        The round, as the journal records it.
    directory
        That of the journal.
    is_last
        Whether it is the last round that earlier attempts began.
    """

    def __init__(self, inner: Frontier, past: PastRound, directory: str, *, is_last: bool) -> None:
        self.wiring = inner.wiring
        self.done: Callable[[int], None] | None
        self._inner = inner
        self._past = past
        self._directory = directory
        self._is_last = is_last
        #: Lines of the tasks that are still to be taken over.
        self._left = dict(past.tasks)
        self._current: Round

    def begin(self, current: Round) -> None:
        """Continue the clock of the round."""
        self._current = current
        log, past = current.log, self._past
        if [*log.columns] != past.columns:
            why = f"the meters measure {[*log.columns]}, in the journal {past.columns}"
            raise JournalError(self._directory, [why])
        log.started_s = current.run_log.started + past.began_ms / 1e3
        log.total_s = max((line["total_s"] for line in past.tasks.values()), default=0.0)
        current.added_s = self._added_s
        current.start_clock(perf_counter())
        self._inner.begin(current)
        self._pop, self.done = self._inner.pop, self._inner.done

    def pop(self) -> int | None:
        """Take over the tasks that are ready and have finished; return one that has not."""
        number = self._pop()
        while number is not None:
            line = self._left.pop(self.wiring.names[number], None)
            if line is None:
                for source in self.wiring.predecessors(number):
                    self._load(source)
                break
            self._take_over(number, line)
            if self.done is not None:
                self.done(number)
            number = self._pop()
        return number

    def _take_over(self, i: int, line: JsonObject) -> None:
        """Enter a task that has finished; load what rules or the profile may need of it."""
        current = self._current
        if "declared" in line:
            self._check(i, line)
        self._enter(i, line)
        if self.wiring.grows:
            self._load(i)
        if current.slots.kept[i] and self._is_last:
            decode = current.contracts[i].decode
            outputs = read_stored(self._directory, line["readings"]["stored"])
            values = {field: decode(data) for field, data in outputs.items()}
            current.results.outputs[self.wiring.names[i]] = values

    def _enter(self, i: int, line: JsonObject) -> None:
        """Enter a task into the log of the round, and release its inputs."""
        current, wiring, log = self._current, self.wiring, self._current.log
        zero_s = current.run_log.started
        workers = current.run_log.workers
        if line["worker"] not in workers:
            workers.append(line["worker"])
        log.ran_on[i] = workers.index(line["worker"])
        log.set_times(i, [zero_s + ms / 1e3 for ms in line["times_ms"]])
        for slot, (wire, payload) in enumerate(line["bytes"], wiring.first_slot[i]):
            log.wire_bytes[slot] = wire
            if payload != wire:
                log.payload_bytes[slot] = payload
        log.enter(i, line, zero_s)
        log.columns.update(line["reasons"])
        current.slots.release(slot for _, slot in wiring.feeds(i))

    def _load(self, i: int) -> None:
        """Load the outputs of a task that earlier attempts finished, if others need them."""
        slots, line = self._current.slots, self._past.tasks.get(self.wiring.names[i])
        named = enumerate(self.wiring.outputs[i], self.wiring.first_slot[i])
        needed = [(k, name) for k, name in named if slots.uses[k] and slots.handles[k] is None]
        if line is not None and needed:
            outputs = read_stored(self._directory, line["readings"]["stored"])
            for slot, name in needed:
                slots.handles[slot] = self._current.executor.put(outputs[name])

    def _check(self, i: int, line: JsonObject) -> None:
        """Raise a JournalError if a task that a rule added differs from the one in the journal."""
        contract, name = self._current.contracts[i], self.wiring.names[i]
        stored = {} if line["bound"] is None else read_stored(self._directory, line["bound"])
        now = {f"task {name!r}": declaration(i, contract, self.wiring)}
        then = {f"task {name!r}": line["declared"]}
        check_same(self._directory, now, then, bound_of(name, contract), stored)

    def _added_s(self, tasks: Iterable[str]) -> float | None:
        """Return when tasks were added, if any of them has finished before; else None."""
        for name in tasks:
            if name in self._left:
                added_ms: float = self._left[name]["added_ms"]
                return self._current.run_log.started + added_ms / 1e3
        return None

    def failed(self, task: int, skipped: Iterable[int], *, stops: bool) -> None:
        """Mark a task as failed, and the tasks that depend on it as skipped."""
        self._inner.failed(task, skipped, stops=stops)

    def finish(self, *, ended: bool) -> None:
        """Complete the log; raise a JournalError if rules no longer add tasks that finished."""
        current, ended_before = self._current, self._past.ended
        results, log = current.results, current.log
        numbers = {name: i for i, name in enumerate(self.wiring.names)}
        # Finished tasks that were not reached before the run failed or was interrupted.
        for name, line in self._left.items():
            if name in numbers:
                self._enter(numbers[name], line)
        failed = results.errors or results.rule_failures or not ended
        missing = [] if failed else [name for name in self._left if name not in numbers]
        self._inner.finish(ended=ended and not missing)
        times_ms = [line["times_ms"] for line in self._past.tasks.values()]
        log.waited_s = covered((moments[0], moments[-1]) for moments in times_ms) / 1e3
        if ended_before is not None:
            for name, lost in ended_before["attempts"].items():
                if name in numbers:
                    log.note(numbers[name], attempts=lost)
            log.total_s, log.waited_s = ended_before["total_s"], ended_before["waited_s"]
            log.ended_s = current.run_log.started + ended_before["ended_ms"] / 1e3
            log.legacy_generators = ended_before["legacy_generators"]
        if missing:
            why = f"no rule has added tasks that finished before: {listed(missing, 10)}"
            raise JournalError(self._directory, [why])


def read_stored(directory: str, place: Sequence[Any]) -> Any:
    """Return what is stored at a place: the serialized outputs of a task, or other values."""
    name, begin, _ = place
    path = os.path.join(directory, name)
    with _refusing(directory, f"{name} cannot be read"), open(path, "rb") as file:
        file.seek(begin)
        return pickle.load(file)


def declaration(i: int, contract: Contract, wiring: Wiring) -> JsonObject:
    """Return what a task declares and its incoming edges, as JSON."""
    origins = [list(origin) for origin in wiring.origins(i)]
    return {
        "inputs": list(contract.inputs),
        "outputs": list(contract.outputs),
        "gathers": list(contract.gathers),
        "serializer": str(contract.serializer),
        # A task that gathers depends on the order, but rules may add edges in another order.
        "fed with": origins if contract.gathers and not wiring.grows else sorted(origins),
        "after": sorted(wiring.names[source] for source in wiring.predecessors(i)),
    }


def check_same(
    directory: str,
    facts: Values,
    facts_before: Values,
    values: Values,
    pickles: Mapping[str, bytes | None],
) -> dict[str, str]:
    """Compare what identifies a run, or a task, with what the journal says of it.

    Parameters
    ----------
    facts, facts_before
        What is compared as JSON, by names for messages.
    values
        What is compared by its value, by names for messages. Objects without an ``__eq__`` are
        equal if their pickles are.
    pickles
        Those values in the journal, as :func:`pickled` returned them.

    Returns
    -------
    dict
        Name of each value that cannot be compared, and why.

    Raises
    ------
    JournalError
        If anything differs; it lists all differences.
    """
    before, now, unknown = dict(facts_before), pickled(values), {}
    for name, data in pickles.items():
        before[name] = values.get(name)
        if data is None:
            unknown[name] = "it could not be pickled"
        elif data != now.get(name):
            try:
                before[name] = pickle.loads(data)
            except Exception as error:  # noqa: BLE001  (code of users)
                unknown[name] = describe(error)
    problems = [*_differences({**facts, **values}, before)]
    if problems:
        raise JournalError(directory, problems)
    return unknown


def _differences(now: Values, then: Values) -> Iterator[str]:
    """Yield the differences between named values and those in the journal."""
    for name in {**then, **now}:
        if name not in then:
            yield f"{name} is not in the journal"
        elif name not in now:
            yield f"{name} is in the journal only"
        elif isinstance(now[name], dict) and isinstance(then[name], dict):
            yield from (f"{name}: {part}" for part in _differences(now[name], then[name]))
        elif not same_value(then[name], now[name]):
            yield f"{name}: {short_repr(now[name])}, in the journal {short_repr(then[name])}"


def bound_of(name: str, contract: Contract) -> Values:
    """Return the arguments that are bound to a task, by names for messages."""
    return {f"bound.{name}.{argument}": value for argument, value in contract.bound.items()}


def values_of(workflow: Workflow) -> Values:
    """Return the parameters and bound arguments of a run, by names for messages."""
    values = {f"config.{name}": value for name, value in workflow.config.items()}
    for name, contract in zip(workflow.wiring.names, workflow.contracts):
        values.update(bound_of(name, contract))
    return values


def pickled(values: Values) -> dict[str, bytes | None]:
    """Return each value pickled; None if it cannot be."""
    pickles: dict[str, bytes | None] = dict.fromkeys(values)
    for name, value in values.items():
        # Its own __reduce__ may raise anything.
        with suppress(Exception):
            pickles[name] = pickle.dumps(value)
    return pickles


def facts_of(workflow: Workflow) -> JsonObject:
    """Return what identifies a workflow, as JSON: the declaration of each task, and the rules."""
    wiring, contracts = workflow.wiring, workflow.contracts
    facts: JsonObject = {
        f"task {name!r}": declaration(i, contracts[i], wiring)
        for i, name in enumerate(wiring.names)
    }
    return {**facts, "rules": list(workflow.rules)}


def sources_of(workflow: Workflow) -> dict[str, str | None]:
    """Return a hash of the source of each task's function or compute(); None if unknown.

    The functions that these call are not included.
    """
    sources = {}
    for name, task in zip(workflow.wiring.names, workflow.tasks):
        function = vars(task).get("__wrapped__") or vars(type(task)).get("__wrapped__")
        sources[name] = _source_of(function or type(task).compute)
    return sources


@cache
def _source_of(function: Any) -> str | None:
    from hashlib import blake2b
    from inspect import getsource
    from tokenize import TokenError

    try:
        text = getsource(function)
    except (OSError, TypeError, IndexError, SyntaxError, TokenError):
        # The file is missing or has changed.
        return None
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
