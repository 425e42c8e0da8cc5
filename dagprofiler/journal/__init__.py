"""Journal: a hook that records a run, so that it can be resumed in another process."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any

from dagprofiler.config import Config
from dagprofiler.engine.hooks import Hook, RunInfo
from dagprofiler.engine.log import RoundLog, RunLog, TaskRecord
from dagprofiler.errors import DagProfilerWarning, JournalError, describe, listed, short_repr
from dagprofiler.graph.wiring import Wiring
from dagprofiler.journal._records import (
    OutputStore,
    RecordFile,
    differences,
    graph_differences,
    graph_of,
    packed,
    packed_bound,
    packed_config,
    same_inputs,
    sources_of,
)
from dagprofiler.journal.past import TOTALS, ReplayLog, check_shape
from dagprofiler.measure.pipeline import Contract
from dagprofiler.profile import Profile
from dagprofiler.task import Task

_RECORDS = "journal"


class Journal(Hook):
    """Records each task that finished, so that a run which is killed can be resumed.

    The worker that ran a task writes its outputs to its own file in the
    directory, and syncs it to disk. Then this process appends a record,
    before any consumer of the outputs starts. Both have checksums.

    Parameters
    ----------
    directory
        A path that all workers can reach. The journal creates it, readable by
        its owner alone, if it does not exist; it must not hold a journal.
    trust
        Whether other users may own the directory and its files, and write to
        them: resuming a journal executes code in it. Refused by default.

    Notes
    -----
    Outputs survive a power failure. Records are synced when a round is
    complete; before, the operating system writes them within seconds. If a
    power failure loses a record, its task runs again.

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

    def __init__(self, directory: str | os.PathLike[str], *, trust: bool = False) -> None:
        path = os.path.abspath(os.fspath(directory))
        self.store = OutputStore(path, os.urandom(16).hex(), trust)
        self._record_file: RecordFile | None = None
        #: The record of this resumption, written before the first record of a task.
        self._first: dict[str, Any] | None = None
        #: Whether an earlier attempt has completed the run.
        self._complete = False
        self._log: RunLog
        #: Names of the tasks, a list that may grow, and the numbers of those seen so far.
        self._names: list[str] = []
        self._numbers: dict[str, int] = {}

    @classmethod
    def reopened(cls, directory: str | os.PathLike[str], *, trust: bool = False) -> Journal:
        """Open the journal in a directory.

        Raises
        ------
        JournalError
            If there is none, it is damaged, or other users can write to it.
        """
        journal = cls(directory, trust=trust)
        path = os.path.join(journal.store.directory, _RECORDS)
        if not os.path.exists(path):
            raise JournalError(journal.store.directory, ["there is no journal in this directory"])
        journal.store.check()
        journal.store.check(_RECORDS)
        record_file = journal._record_file = RecordFile(path)
        try:
            check_shape(record_file)
            journal.store = journal.store._replace(key=record_file.header["key"])
            if not os.path.exists(journal.store.token):
                raise JournalError(journal.store.token, ["this file does not exist"])
        except BaseException:
            journal.close()
            raise
        return journal

    def check(
        self,
        tasks: Mapping[str, Task],
        wiring: Wiring,
        contracts: Sequence[Contract],
        *,
        config: Config,
        seed: int | None,
        inputs: Mapping[str, Mapping[str, Any]] | None,
        rules: Sequence[str],
    ) -> ReplayLog:
        """Return the state that previous attempts recorded, if this is the same run.

        Raises
        ------
        JournalError
            If the run differs from the one in the journal; it lists all differences.
        """
        record_file: RecordFile = self._record_file  # type: ignore[assignment]  # set by reopened()
        header, directory = record_file.header, self.store.directory
        stored = {
            name: {field: self.store.frames(place, field) for field in place["fields"]}
            for name, place in header["inputs"].items()
        }
        compared = ["dag", "config", "sources"]
        problems = list(graph_differences(graph_of(contracts, wiring), header["graph"]))
        if list(rules) != header["rules"]:
            problems.append(
                f"rules: {short_repr(list(rules))}, in the journal {short_repr(header['rules'])}"
            )
        found, unknown = differences(config, header["config"], "config", "config: parameter")
        for name, contract in zip(wiring.names, contracts):
            then = header["bound"].get(name, {})
            if contract.bound or then:
                where = f"task {name!r}: bound"
                more, incomparable = differences(contract.bound, then, f"bound.{name}", where)
                found += more
                unknown.update(incomparable)
        problems += found
        if seed is not None:
            compared.append("seed")
            if seed != header["seed"]:
                problems.append(
                    f"seed: {short_repr(seed)}, in the journal {short_repr(header['seed'])}"
                )
        if inputs is not None:
            compared.append("inputs")
            problems += same_inputs(inputs, stored, dict(zip(wiring.names, contracts)))
        if problems:
            raise JournalError(directory, problems)
        past = ReplayLog(record_file, self.store, wiring, stored)
        sources, recorded = sources_of(tasks), header["sources"]
        unsure = [name for name, now in sources.items() if None in (now, recorded.get(name))]
        unknown.update((f"sources.{name}", "its source is not known") for name in unsure)
        changed = [n for n, now in sources.items() if n not in unsure and now != recorded[n]]
        reused = [name for name in changed if name in past.finished]
        if reused:
            warnings.warn(
                f"resume: the source of {listed(reused, 10)} has changed; recorded results are "
                "reused",
                DagProfilerWarning,
                stacklevel=3,
            )
        self._complete = past.totals is not None
        if not self._complete:
            self._first = past.resume(
                {"compared": compared, "not_compared": unknown, "changed": changed}
            )
        return past

    def run_started(self, run: RunInfo) -> None:
        """Write the header; in a journal that is resumed, drop an incomplete last record."""
        self._log = run.log
        if self._complete:
            return
        if self._first is not None:
            self._first["executor"] = run.log.executor
            self._of_run.cut()
            return
        directory = self.store.directory
        path = os.path.join(directory, _RECORDS)
        try:
            if os.path.exists(path):
                raise FileExistsError(path)
            self.store.create()
            self._record_file = RecordFile.create(path, self._header(run), self.store.new_file)
        except OSError as error:
            why = f"cannot be written: {describe(error)}"
            if os.path.exists(path):
                why = f"it holds a journal already: dag.resume({directory!r}), or use another one"
            raise JournalError(directory, [why]) from error

    @property
    def _of_run(self) -> RecordFile:
        if self._record_file is None:
            raise JournalError(self.store.directory, ["it records no run"])
        return self._record_file

    def _header(self, run: RunInfo) -> dict[str, Any]:
        options = run.options
        store = self.store.open()
        store.begin()
        inputs = {name: store.put(fields) for name, fields in run.inputs.items()}
        store.close()
        return {
            "key": self.store.key,
            "timestamp": run.log.timestamp,
            "at_ms": (perf_counter() - run.log.started) * 1e3,
            "executor": run.log.executor,
            "seed": options.seed,
            "rounds": options.rounds.to_dict(),
            "meters": _packed_meters(options.meters, self.store.directory),
            "keep": options.keep,
            "on_error": options.on_error,
            "config": packed_config(run.config),
            "inputs": inputs,
            "sources": sources_of(run.tasks),
            "rules": list(run.rules),
            "graph": graph_of(run.contracts, run.log.wiring),
            "bound": {
                name: packed_bound(contract.bound)
                for name, contract in zip(run.log.wiring.names, run.contracts)
                if contract.bound
            },
        }

    def task_finished(self, record: TaskRecord) -> None:
        """Append the record of a task."""
        log, i = self._log, self._number(record.task)
        round_log = log.rounds[record.round]
        ahead_s = log.ahead_s(round_log.ran_on[i])
        worker = record.worker
        if worker is not None and ahead_s:
            worker = {**worker, "clock_ahead_ms": round(ahead_s * 1e3, 6)}
        entry = {
            **round_log.entry(i, log.started + ahead_s),
            "round": record.round,
            **_of_round(log, round_log),
            "worker": worker,
            "stored": round_log.stored.pop(i),
            "costs_s": [round_log.meters_s, round_log.garbage_s, round_log.store_s],
        }
        if round_log.growth is not None:
            names, added_s = log.wiring.names, round_log.growth.added_s[i]
            entry["added_ms"] = log.since_start_ms([added_s])[0] if added_s else None
            entry["after"] = [names[source] for source in log.wiring.predecessors(i)]
            entry["bound"] = packed_bound(log.contracts[i].bound)
        self._append(entry)

    def _number(self, task: str) -> int:
        names = self._log.wiring.names
        if names is not self._names:
            self._names, self._numbers = names, {}
        known = len(self._numbers)
        if known < len(names):
            self._numbers.update(zip(names[known:], range(known, len(names))))
        return self._numbers[task]

    def round_finished(self, number: int) -> None:
        """Append the record of a round, and sync all records to disk."""
        log = self._log
        round_log, names = log.rounds[number], log.wiring.names
        self._append(
            {
                "round": number,
                **_of_round(log, round_log),
                "tasks": sum(map(round_log.succeeded, range(len(names)))),
                "ended_ms": log.since_start_ms([round_log.ended_s])[0],
                "waited_s": round_log.waited_s,
                "legacy_generators": round_log.legacy_generators,
                "attempts": {names[i]: list(lost) for i, lost in round_log.attempts.items()},
            }
        )
        self._of_run.sync()

    def run_finished(self, profile: Profile) -> None:  # noqa: ARG002  (the log has it all)
        """Append the totals of a complete run, which resuming it returns."""
        log = self._log
        if self._complete or log.reason is not None:
            return
        at_ms = log.since_start_ms([perf_counter()])[0]
        totals = {**{name: getattr(log, name) for name in TOTALS}, "environment": log.environment}
        self._append({"at_ms": at_ms, "totals": totals})
        self._of_run.sync()

    def _append(self, record: Mapping[str, Any]) -> None:
        if self._first is not None:
            first, self._first = self._first, None
            self._of_run.append({"at_ms": record["at_ms"], "resumed": first})
        self._of_run.append(record)

    def close(self) -> None:
        """Close the file of records; warn if it is not in its place any more."""
        record_file, self._record_file = self._record_file, None
        if record_file is None:
            return
        there = record_file.is_there()
        record_file.close()
        if not there:
            warnings.warn(
                f"journal {record_file.path!r}: the file was removed or replaced during the run, "
                "which therefore cannot be resumed",
                DagProfilerWarning,
                stacklevel=2,
            )


def _packed_meters(meters: Any, directory: str) -> Any:
    """Return the argument of ``run(meters=...)`` as JSON."""
    if meters is None or isinstance(meters, str):
        return meters
    try:
        return {"pickled": packed(meters)}
    except Exception as error:
        problem = f"the meters cannot be recorded: {describe(error)}"
        raise JournalError(directory, [problem]) from error


def _of_round(log: RunLog, round_log: RoundLog) -> dict[str, Any]:
    """Return the fields of a round that each of its records holds."""
    at_ms, began_ms = log.since_start_ms([perf_counter(), round_log.started_s])
    return {
        "at_ms": at_ms,
        "kind": round_log.kind,
        "began_ms": began_ms,
        "columns": round_log.columns,
        "total_s": round_log.total_s,
    }
