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
from collections.abc import Mapping, Sequence
from functools import partial
from io import FileIO
from time import perf_counter
from typing import Any

from dagprofiler._util.interpreter import HOSTNAME
from dagprofiler.engine.hooks import Hook, RunInfo
from dagprofiler.engine.log import RunLog, TaskRecord, since_ms
from dagprofiler.errors import JournalError, describe
from dagprofiler.journal.replay import (
    LINES,
    TOTALS,
    PastRun,
    bound_of,
    declaration,
    declarations,
    pickled,
    sources_of,
    values_of,
)
from dagprofiler.profile import Profile
from dagprofiler.serializers import FrameList, picklable

#: Version of the format; the others were those of development versions.
FORMAT = 5

#: The records of a journal of format 1 or 2.
_OLD = "journal"

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
        #: What this process stores itself.
        self._own = self.store()
        self._file: LineFile | None = None
        #: The state at which earlier attempts left the run; None for a first one.
        self.past: PastRun | None = None
        self._rounds_begun = 0
        self._log: RunLog
        #: Names of the tasks, a list that may grow, and the numbers of those seen so far.
        self._names: list[str] = []
        self._numbers: dict[str, int] = {}

    @classmethod
    def reopened(cls, directory: str | os.PathLike[str]) -> Journal:
        """Open the journal in a directory.

        Raises
        ------
        JournalError
            If there is none, it has another format, or another run is writing to it.
        """
        journal = cls(directory)
        folder = journal.directory
        if not holds_journal(folder):
            problem = "there is no journal in this directory"
            if os.path.exists(os.path.join(folder, _OLD)):
                problem = "another version of dagprofiler wrote this journal, in a format before "
                problem += f"{FORMAT}: resume it with that version"
            raise JournalError(folder, [problem])
        try:
            file = journal._open()
            if not file.lines:
                problem = "its run ended before it began: run it again, in another directory"
                raise JournalError(folder, [problem])
            version = file.lines[0].get("format")
            if version != FORMAT:
                problem = f"its format is {version!r}, this version reads {FORMAT}"
                raise JournalError(folder, [problem])
            journal.past = PastRun(folder, file.lines, file.torn_bytes)
            journal._rounds_begun = len(journal.past.rounds)
        except BaseException:
            journal.close()
            raise
        return journal

    def _open(self) -> LineFile:
        try:
            os.makedirs(self.directory, exist_ok=True)
            self._file = LineFile(os.path.join(self.directory, LINES))
        except OSError as error:
            problem = f"cannot be written: {describe(error)}"
            raise JournalError(self.directory, [problem]) from error
        return self._file

    def run_started(self, run: RunInfo) -> None:
        """Write the header, or the line of a resumption."""
        self._log = run.log
        if self.past is None:
            file = self._open()
            if file.lines or file.torn_bytes:
                hint = f"dag.resume({self.directory!r}), or use another one"
                raise JournalError(self.directory, [f"it holds a journal already: {hint}"])
            self._append(self._header(run))
        elif self.past.totals is None:
            resumed = {**self.past.resumed[-1], "executor": run.log.executor}
            self._append({"resumed": resumed})

    def _header(self, run: RunInfo) -> dict[str, Any]:
        options, log, workflow = run.options, run.log, run.log.setup.workflow
        try:
            meters = pickle.dumps(options.meters)
        except Exception as error:
            problem = f"the meters cannot be recorded: {describe(error)}"
            raise JournalError(self.directory, [problem]) from error
        stored = {
            "meters": meters,
            "inputs": {name: _picklable(fields) for name, fields in run.inputs.items()},
            "values": pickled(values_of(workflow)),
        }
        return {
            "format": FORMAT,
            "timestamp": log.timestamp,
            "executor": log.executor,
            "seed": options.seed,
            "rounds": options.rounds.to_dict(),
            "keep": options.keep,
            "on_error": options.on_error,
            "sources": sources_of(workflow),
            "rules": list(workflow.rules),
            "graph": declarations(log.wiring, workflow.contracts),
            "values": self._own.append(stored),
        }

    def task_finished(self, record: TaskRecord) -> None:
        """Append the line of a task."""
        log, i = self._log, self._number(record.task)
        round_log = log.rounds[record.round]
        self._begin(record.round)
        ahead_s = log.ahead_s(round_log.ran_on[i])
        worker = record.worker
        if worker is not None and ahead_s:
            worker = {**worker, "clock_ahead_ms": round(ahead_s * 1e3, 6)}
        wire, payload, wiring = round_log.wire_bytes, round_log.payload_bytes, log.wiring
        zero_s = log.started + ahead_s
        line = {
            "task": record.task,
            "times_ms": since_ms(round_log.times_of(i), zero_s),
            "worker": worker,
            "total_s": round_log.total_s,
            "bytes": {
                name: [wire[slot], payload.get(slot, wire[slot])]
                for slot, name in enumerate(wiring.outputs[i], wiring.first_slot[i])
            },
            "reasons": round_log.reasons,
            **round_log.entry(i, zero_s),
        }
        if round_log.growth is not None and i >= log.wiring.given:
            line.update(self._added(round_log.growth.added_s[i], i))
        self._append(line)

    def _added(self, added_s: float, i: int) -> dict[str, Any]:
        """Return what the line of a task holds in addition if a rule has added the task."""
        log, contract = self._log, self._log.contracts[i]
        bound = bound_of(log.wiring.names[i], contract)
        return {
            "added_ms": log.since_start_ms([added_s])[0],
            "declared": declaration(i, contract, log.wiring),
            "bound": contract.bound and self._own.append(pickled(bound)),
        }

    def _number(self, task: str) -> int:
        names = self._log.wiring.names
        if names is not self._names:
            self._names, self._numbers = names, {}
        count = len(self._numbers)
        if count < len(names):
            self._numbers.update(zip(names[count:], range(count, len(names))))
        return self._numbers[task]

    def _begin(self, number: int) -> None:
        """Append the line of a round that begins, unless there is one."""
        if number < self._rounds_begun:
            return
        round_log = self._log.rounds[number]
        began_ms = self._log.since_start_ms([round_log.started_s])[0]
        self._append(
            {"kind": round_log.kind, "columns": [*round_log.columns], "began_ms": began_ms}
        )
        self._rounds_begun = number + 1

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
        if log.reason is None and (self.past is None or self.past.totals is None):
            totals = {name: getattr(log.costs, name) for name in TOTALS}
            self._append({"totals": {**totals, "environment": log.environment}})

    def _append(self, line: Mapping[str, Any]) -> None:
        at_ms = self._log.since_start_ms([perf_counter()])[0]
        self._file.append({"at_ms": at_ms, **line})  # type: ignore[union-attr]  # open in a run

    def close(self) -> None:
        """Close the file."""
        file, self._file = self._file, None
        if file is not None:
            file.close()


def holds_journal(directory: str) -> bool:
    """Tell whether there is a journal in a directory; an empty file is none yet."""
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
        If another run is writing to the file, or it is not a journal.
    """

    def __init__(self, path: str) -> None:
        self.path = os.path.realpath(path)
        if self.path in _in_use:
            raise JournalError(path, ["another run in this process is writing to it"])
        self._file = FileIO(path, "a+")
        _in_use.add(self.path)
        try:
            self._lock()
            self._file.seek(0)
            content = self._file.readall()
            self._end = content.rfind(b"\n") + 1
            self.torn_bytes = len(content) - self._end
            self.lines = self._parsed(content[: self._end].split(b"\n")[:-1])
        except BaseException:
            self.close()
            raise

    def _lock(self) -> None:
        """Keep other processes out as long as the file is open."""
        try:
            # Unlike with flock(), forked workers do not keep the lock of a driver that was killed.
            from fcntl import LOCK_EX, LOCK_NB, lockf
        except ImportError:
            return
        try:
            lockf(self._file, LOCK_EX | LOCK_NB)
        except (BlockingIOError, PermissionError) as error:
            raise JournalError(self.path, ["another process is writing to it"]) from error
        except OSError:
            # A file system without locks.
            return

    def _parsed(self, texts: Sequence[bytes]) -> list[dict[str, Any]]:
        try:
            return [json.loads(text) for text in texts]
        except ValueError as error:
            raise JournalError(self.path, [f"it is damaged, or no journal: {error}"]) from error

    def append(self, line: Mapping[str, Any]) -> None:
        """Append a line; it survives a kill of this process.

        Raises
        ------
        JournalError
            If it cannot be written; what there is of it is dropped when the run is resumed.
        """
        content = memoryview(_encode(line).encode("ascii") + b"\n")
        written = 0
        try:
            if self.torn_bytes:
                self._file.truncate(self._end)
                self.torn_bytes = 0
            while written < len(content):
                written += self._file.write(content[written:])
            self._end += written
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
        # Other hosts and containers may have the same names and numbers.
        self._name = f"{HOSTNAME}-{os.getpid()}-{os.urandom(4).hex()}.pickle".replace(os.sep, "_")

    def begin(self) -> None:
        """Raise a JournalError if this worker does not reach the journal."""
        if not holds_journal(self._directory):
            raise self._unwritten("there is no journal on this worker")

    def put(self, encoded: Mapping[str, Any]) -> list[Any]:
        """Append the serialized outputs of a task; return their place as :meth:`append`."""
        return self.append(_picklable(encoded))

    def append(self, value: Any) -> list[Any]:
        """Append a value; return the file, and where the value begins and ends in it.

        Raises
        ------
        JournalError
            If it cannot be written; what there is of it is never read.
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


def _picklable(encoded: Mapping[str, Any]) -> dict[str, Any]:
    """Return serialized values in a form that pickle accepts without copying them."""
    return {
        field: FrameList(data) if isinstance(data, list) else picklable(data, 5)
        for field, data in encoded.items()
    }
