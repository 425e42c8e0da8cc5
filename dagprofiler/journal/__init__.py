"""Journal: a hook that makes a run outlast the process that drives it."""

from __future__ import annotations

import os
import warnings
from time import perf_counter
from typing import TYPE_CHECKING, Any

from dagprofiler.engine.hooks import Hook
from dagprofiler.errors import DagProfilerWarning, JournalError, describe, short_repr
from dagprofiler.journal._records import (
    RecordFile,
    config_differences,
    graph_differences,
    graph_of,
    packed,
    packed_config,
    same_inputs,
    sources_of,
)
from dagprofiler.journal._store import OutputStore, frames_in
from dagprofiler.journal.past import ReplayLog, check_shape

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dagprofiler.config import Config
    from dagprofiler.engine.hooks import RunInfo
    from dagprofiler.engine.log import RoundLog, RunLog, TaskRecord
    from dagprofiler.graph.wiring import Wiring
    from dagprofiler.measure.pipeline import Contract
    from dagprofiler.task import Task


__all__ = ["Journal"]

_RECORDS = "journal"


class Journal(Hook):
    """Writes down each task that finished, so that a run which is killed can be gone on with.

    The worker that ran a task writes its outputs to a file of its own in the
    directory, and waits until they are on the disk. Then this process appends
    a record, before any consumer of the outputs starts. Both have checksums.

    Parameters
    ----------
    directory
        A path that all workers reach. It is made if it is not there, for its
        owner alone, and must not hold a journal.
    trust
        Whether other users may own what is there, and write to it: what they put
        there runs when the journal is resumed. By default that is refused.

    Notes
    -----
    Outputs outlast also the machine's power. Records are left to the operating
    system, which writes them within seconds, until a round is complete: one
    that is lost with the power means that its task runs again.

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
        self._ledger: RecordFile | None = None
        #: What is written before the first record: that an earlier attempt is gone on with.
        self._first: dict[str, Any] | None = None
        self._log: RunLog
        #: Names of the tasks, which may get more, and their numbers as far as they are known.
        self._names: list[str] = []
        self._numbers: dict[str, int] = {}

    @classmethod
    def reopened(cls, directory: str | os.PathLike[str], *, trust: bool = False) -> Journal:
        """Return the journal that is in a directory."""
        journal = cls(directory, trust=trust)
        path = os.path.join(journal.store.directory, _RECORDS)
        if not os.path.exists(path):
            raise JournalError(journal.store.directory, ["there is no journal in this directory"])
        journal.store.check()
        journal.store.check(_RECORDS)
        ledger = journal._ledger = RecordFile(path)
        try:
            check_shape(ledger)
            journal.store = journal.store._replace(key=ledger.header["key"])
            if not os.path.exists(journal.store.token):
                raise JournalError(journal.store.token, ["there is no such file"])
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
        """Return what earlier attempts did, if it is the same run that is to be gone on with.

        Raises
        ------
        JournalError
            With all that differs.
        """
        ledger: RecordFile = self._ledger  # type: ignore[assignment]  # of a journal reopened
        header, directory = ledger.header, self.store.directory
        stored = {
            name: {field: frames_in(self.store, where, field) for field in where["fields"]}
            for name, where in header["inputs"].items()
        }
        compared = ["dag", "config", "sources"]
        problems = list(graph_differences(graph_of(contracts, wiring), header["graph"]))
        if list(rules) != header["rules"]:
            problems.append(
                f"rules: {short_repr(list(rules))}, in the journal {short_repr(header['rules'])}"
            )
        found, unknown = config_differences(config, header["config"])
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
        past = ReplayLog(ledger, self.store, wiring, stored)
        changed = []
        for name, now in sources_of(tasks).items():
            source = header["sources"].get(name)
            if source is None or now is None:
                unknown[f"sources.{name}"] = "its source is not known"
            elif source != now:
                changed.append(name)
        _warn_of([name for name in changed if name in past.finished])
        self._first = past.resume(
            {"compared": compared, "not_compared": unknown, "changed": changed}
        )
        return past

    def run_started(self, run: RunInfo) -> None:
        """Write the header; of a journal that is gone on with, drop what is not whole."""
        self._log = run.log
        if self._first is not None:
            self._first["executor"] = run.log.executor
            self._of_run.cut()
            return
        directory = self.store.directory
        path = os.path.join(directory, _RECORDS)
        try:
            if os.path.exists(path):
                raise FileExistsError(path)
            self.store.found()
            self._ledger = RecordFile.create(path, self._header(run), self.store.new_file)
        except OSError as error:
            why = f"cannot be written: {describe(error)}"
            if os.path.exists(path):
                why = f"it holds a journal already: dag.resume({directory!r}), or take another one"
            raise JournalError(directory, [why]) from error

    @property
    def _of_run(self) -> RecordFile:
        if self._ledger is None:
            raise JournalError(self.store.directory, ["it follows no run"])
        return self._ledger

    def _header(self, run: RunInfo) -> dict[str, Any]:
        asked = run.asked
        store = self.store.open()
        store.begin()
        inputs = {name: store.put(fields) for name, fields in run.inputs.items()}
        store.close()
        return {
            "key": self.store.key,
            "timestamp": run.log.timestamp,
            "at_ms": (perf_counter() - run.log.started) * 1e3,
            "executor": run.log.executor,
            "seed": run.seed,
            "rounds": asked["rounds"].to_dict(),
            "meters": _packed_meters(asked["meters"], self.store.directory),
            "keep": asked["keep"],
            "on_error": asked["on_error"],
            "config": packed_config(run.config),
            "inputs": inputs,
            "sources": sources_of(run.tasks),
            "rules": asked["rules"],
            "graph": graph_of(run.contracts, run.log.wiring),
        }

    def task_finished(self, record: TaskRecord) -> None:
        """Append its record."""
        log, i = self._log, self._number(record.task)
        one = log.rounds[record.round]
        told = {
            "task": record.task,
            "round": record.round,
            **_of_round(log, one),
            "times_ms": list(record.phases.values()),
            "worker": _worker(record.worker, log.ahead_s(one.ran_on[i])),
            "stored": one.stored.pop(i),
            "spans": self._spans(one, i),
            **_told(one, log.wiring, i),
        }
        if one.growth is not None:
            names, added_s = log.wiring.names, one.growth.added_s[i]
            told["added_ms"] = log.since_start_ms([added_s])[0] if added_s else None
            told["after"] = [names[source] for source in log.wiring.predecessors(i)]
        self._append(told)

    def _spans(self, one: RoundLog, i: int) -> dict[str, Any] | None:
        """Return what tracing saw inside a task, on the clock of the run."""
        log, spans = self._log, one.spans.get(i)
        if spans is None:
            return None
        return spans.packed().shifted(-log.started - log.ahead_s(one.ran_on[i])).to_dict()

    def _number(self, task: str) -> int:
        names = self._log.wiring.names
        if names is not self._names:
            self._names, self._numbers = names, {}
        known = len(self._numbers)
        if known < len(names):
            self._numbers.update(zip(names[known:], range(known, len(names))))
        return self._numbers[task]

    def round_finished(self, number: int) -> None:
        """Append what is known of a round once it is complete, and sync."""
        log = self._log
        one, names = log.rounds[number], log.wiring.names
        self._append(
            {
                "round": number,
                **_of_round(log, one),
                "tasks": sum(map(one.succeeded, range(len(names)))),
                "ended_ms": log.since_start_ms([one.ended_s])[0],
                "waited_s": one.waited_s,
                "legacy_generators": one.legacy_generators,
                "attempts": {names[i]: list(lost) for i, lost in one.attempts.items()},
            }
        )
        self._of_run.sync()

    def _append(self, record: Mapping[str, Any]) -> None:
        if self._first is not None:
            first, self._first = self._first, None
            self._of_run.append({"at_ms": record["at_ms"], "resumed": first})
        self._of_run.append(record)

    def close(self) -> None:
        """Close the file of records."""
        ledger, self._ledger = self._ledger, None
        if ledger is not None:
            ledger.close()


def _packed_meters(meters: Any, directory: str) -> Any:
    """Return what ``run(meters=...)`` was given as JSON holds it."""
    if meters is None or isinstance(meters, str):
        return meters
    try:
        return {"pickled": packed(meters)}
    except Exception as error:
        problem = f"the meters cannot be written down: {describe(error)}"
        raise JournalError(directory, [problem]) from error


def _warn_of(tasks: Sequence[str]) -> None:
    if tasks:
        names = ", ".join(map(repr, tasks[:10])) + (
            f" and {len(tasks) - 10} more" if len(tasks) > 10 else ""
        )
        warnings.warn(
            f"resume: the source of {names} is not what it was; results from before are taken over",
            DagProfilerWarning,
            stacklevel=4,
        )


def _worker(worker: dict[str, Any] | None, ahead_s: float) -> dict[str, Any] | None:
    if worker is None or not ahead_s:
        return worker
    return {**worker, "clock_ahead_ms": round(ahead_s * 1e3, 6)}


def _of_round(log: RunLog, one: RoundLog) -> dict[str, Any]:
    """Return what is known of a round at any moment, and which one this is."""
    at_ms, began_ms = log.since_start_ms([perf_counter(), one.started_s])
    return {
        "at_ms": at_ms,
        "kind": one.kind,
        "began_ms": began_ms,
        "columns": one.columns,
        "total_s": one.total_s,
    }


def _told(one: RoundLog, wiring: Wiring, i: int) -> dict[str, Any]:
    """Return what the log of a round holds of a task beside its times."""
    wire, payload, begin = one.wire_bytes, one.payload_bytes, wiring.first_slot[i]
    decode_s: dict[str, list[Any]] = {}
    for place, (field, _) in enumerate(wiring.feeds(i), wiring.first_input[i]):
        decode_s.setdefault(field, []).append(one.decode_s[place])
    digest = one.digests.get(i)
    return {
        "bytes": {
            field: [wire[slot], payload.get(slot, wire[slot])]
            for slot, field in enumerate(wiring.outputs[i], begin)
        },
        "undeclared_bytes": one.undeclared_bytes.get(i),
        "decode_s": decode_s,
        "encode_s": {
            field: one.encode_s[slot] for slot, field in enumerate(wiring.outputs[i], begin)
        },
        "meters": one.meters[i],
        "digest": None if digest is None else digest.hex(),
        # Of the round, so far.
        "reasons": one.reasons,
        "costs_s": [one.meters_s, one.garbage_s, one.store_s],
    }
