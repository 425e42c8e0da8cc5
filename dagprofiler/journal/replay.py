"""PastRun: the state at which earlier attempts left a run, read from its journal."""

from __future__ import annotations

import os
import pickle
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cache
from time import perf_counter
from typing import Any

from dagprofiler._document.rounds import MEASURED, Rounds
from dagprofiler._util.json import utc_text
from dagprofiler.config import same_value
from dagprofiler.engine.log import RunLog
from dagprofiler.engine.run import Frontier, Round
from dagprofiler.engine.setup import RunOptions, Workflow
from dagprofiler.errors import DagProfilerWarning, JournalError, describe, listed, short_repr
from dagprofiler.graph.wiring import Wiring
from dagprofiler.measure.pipeline import Contract

#: The file of a journal that holds its lines.
LINES = "journal.jsonl"

#: Times of a complete run in its log, in seconds.
TOTALS = ("prepare_s", "hooks_s", "garbage_s", "total_s")

#: The most tasks that a message names.
_MOST = 10


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
    tasks: dict[str, dict[str, Any]] = field(default_factory=dict)
    ended: dict[str, Any] | None = None


class PastRun:
    """The state at which earlier attempts left a run.

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
        What was asked of the run; inputs are serialized.
    rounds
        The rounds that were begun.
    earlier_s
        Time that was spent on the run, in seconds.
    resumed
        The profile's entry for each resumption of the run, this one included.
    totals
        The times and the environment of a complete run; None if it is not complete.
    """

    def __init__(self, directory: str, lines: Sequence[Mapping[str, Any]], torn_bytes: int) -> None:
        header = self._header = lines[0]
        self.directory = directory
        self.rounds: list[PastRound] = []
        self.resumed: list[dict[str, Any]] = []
        self.totals: dict[str, Any] | None = None
        self._executor: str = header["executor"]
        self._torn_bytes = torn_bytes
        for line in lines[1:]:
            self._add(line)
        self._at_ms: float = lines[-1]["at_ms"]
        self.earlier_s = self._at_ms / 1e3
        self._lost = self._lost_tasks()
        self._drop(self._lost)
        self._values = values = read_outputs(directory, header["values"])
        rounds = Rounds(**header["rounds"])
        meters = pickle.loads(values["meters"])
        options = header["seed"], values["inputs"], rounds, meters, header["keep"]
        self.options = RunOptions(*options, header["on_error"])

    def _add(self, line: Mapping[str, Any]) -> None:
        if "task" in line:
            self.rounds[-1].tasks[line["task"]] = dict(line)
        elif "kind" in line:
            self.rounds.append(PastRound(line["kind"], line["columns"], line["began_ms"]))
        elif "ended" in line:
            self.rounds[-1].ended = line["ended"]
        elif "totals" in line:
            self.totals = line["totals"]
        elif "resumed" in line:
            entry = dict(line["resumed"])
            self._executor = entry.pop("executor")
            self._drop(entry["dropped"])
            self.resumed.append(entry)
        else:
            raise JournalError(self.directory, [f"it is no journal: a line has {listed([*line])}"])

    def _lost_tasks(self) -> list[str]:
        """Return the tasks of the last round whose outputs are not all there, and what followed."""
        sizes, whole = dict[str, int](), set[str]()
        tasks = self.rounds[-1].tasks if self.rounds else {}
        # The predecessors of a task finished before it.
        for name, line in tasks.items():
            after = (self._header["graph"].get(name) or line["declared"])["after"]
            file, _, end = line["readings"]["stored"]
            if file not in sizes:
                path = os.path.join(self.directory, file)
                sizes[file] = os.path.getsize(path) if os.path.exists(path) else 0
            if whole.issuperset(after) and end <= sizes[file]:
                whole.add(name)
        return [name for name in tasks if name not in whole]

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
        self,
        workflow: Workflow,
        *,
        seed: int | None,
        inputs: Mapping[str, Mapping[str, Any]] | None,
    ) -> None:
        """Raise a JournalError that lists all differences to another run, if there are any.

        Adds the entry of this resumption.
        """
        header = self._header
        graph = declarations(workflow.wiring, workflow.contracts)
        facts: dict[str, Any]
        before: dict[str, Any]
        facts, before = {"rules": list(workflow.rules)}, {"rules": header["rules"]}
        compared = ["dag", "config", "sources"]
        if seed is not None:
            compared.append("seed")
            facts["seed"], before["seed"] = seed, header["seed"]
        values, unknown = comparable(values_of(workflow), self._values["values"])
        problems = [
            *graph_differences(graph, header["graph"]),
            *differences({**facts, **values[0]}, {**before, **values[1]}),
        ]
        if inputs is not None:
            compared.append("inputs")
            contracts = dict(zip(workflow.wiring.names, workflow.contracts))
            problems += input_differences(inputs, self._values["inputs"], contracts)
        if problems:
            raise JournalError(self.directory, problems)
        changed = self._changed_sources(sources_of(workflow), unknown)
        if self.totals is None:
            self._resume({"compared": compared, "not_compared": unknown, "changed": changed})

    def _changed_sources(
        self, sources: Mapping[str, str | None], unknown: dict[str, str]
    ) -> list[str]:
        """Return the tasks whose source has changed; warn of those that do not run again."""
        before = self._header["sources"]
        unsure = [name for name, source in sources.items() if None in (source, before[name])]
        unknown.update((f"sources.{name}", "its source is not known") for name in unsure)
        changed = [n for n, source in sources.items() if n not in unsure and source != before[n]]
        finished = {name for past in self.rounds for name in past.tasks}
        reused = [name for name in changed if name in finished]
        if reused:
            warnings.warn(
                f"resume: the source of {listed(reused, _MOST)} has changed; recorded results "
                "are reused",
                DagProfilerWarning,
                stacklevel=4,
            )
        return changed

    def _resume(self, compared: Mapping[str, Any]) -> None:
        """Add the entry of this resumption."""
        last = self.rounds[-1] if self.rounds else None
        going_on = last is not None and last.ended is None
        before = self.resumed[-1] if self.resumed else {**self._header, "at_ms": 0.0}
        now = utc_text()
        away_ms = (_moment(now) - _moment(before["timestamp"])).total_seconds() * 1e3
        self.resumed.append(
            {
                "timestamp": now,
                "at_ms": self._at_ms,
                "gap_ms": round(max(0.0, away_ms - (self._at_ms - before["at_ms"])), 6),
                "round": len(self.rounds) - going_on,
                "tasks": len(last.tasks) if last and going_on else 0,
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
            for name in TOTALS:
                setattr(log.costs, name, self.totals[name])


class Replayed:
    """What to run next in a round that earlier attempts began: what they did not finish.

    Parameters
    ----------
    inner
        What to run next without earlier attempts.
    past
        The round, as the journal has it.
    directory
        That of the journal.
    is_last
        Whether it is the last round that was begun.
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
        #: Where the outputs of the others are, which have not been needed yet.
        self._places: dict[int, Sequence[Any]] = {}
        self._busy: list[tuple[float, float]] = []
        self._current: Round

    def begin(self, current: Round) -> None:
        """Continue the clock of the round."""
        self._current = current
        log, past = current.log, self._past
        if [*log.columns] != past.columns:
            why = f"the meters measure {[*log.columns]}, in the journal {past.columns}"
            raise JournalError(self._directory, [why])
        log.started_s = current.run.started + past.began_ms / 1e3
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

    def _take_over(self, i: int, line: Mapping[str, Any]) -> None:
        """Enter a task that has finished; load what rules or the profile may need of it."""
        current, name, place = self._current, self.wiring.names[i], line["readings"]["stored"]
        if "declared" in line:
            self._check(i, line)
        self._enter(i, line)
        self._places[i] = place
        if self.wiring.grows:
            self._load(i)
        if current.slots.kept[i] and self._is_last:
            decode, outputs = (
                current.contracts[i].decode,
                read_outputs(self._directory, place, name),
            )
            try:
                decoded = {output: decode(frames) for output, frames in outputs.items()}
            except Exception as error:
                why = f"outputs of task {name!r} cannot be decoded: {describe(error)}"
                raise JournalError(self._directory, [why]) from error
            current.results.outputs[i] = decoded

    def _enter(self, i: int, line: Mapping[str, Any]) -> None:
        """Enter a task into the log of the round; what it consumed is not needed any more."""
        current, wiring, log = self._current, self.wiring, self._current.log
        zero_s = current.run.started
        log.ran_on[i] = current.executor.recall(line["worker"])
        log.set_times(i, [zero_s + ms / 1e3 for ms in line["times_ms"]])
        for slot, name in enumerate(wiring.outputs[i], wiring.first_slot[i]):
            log.wire_bytes[slot], payload = line["bytes"][name]
            if payload != log.wire_bytes[slot]:
                log.payload_bytes[slot] = payload
        log.enter(i, line, zero_s)
        log.columns.update(line["reasons"])
        begin_s, *_, end_s = log.times_of(i)
        self._busy.append((begin_s, end_s))
        current.slots.release(slot for _, slot in wiring.feeds(i))

    def _load(self, i: int) -> None:
        """Load the outputs of a task that others need, unless it runs anew or they are loaded."""
        current, wiring = self._current, self.wiring
        slots, place, outputs = current.slots, self._places.pop(i, None), None
        for slot, name in enumerate(wiring.outputs[i], wiring.first_slot[i]):
            if place is not None and slots.uses[slot]:
                outputs = outputs or read_outputs(self._directory, place, wiring.names[i])
                slots.handles[slot] = current.executor.put(outputs[name])

    def _check(self, i: int, line: Mapping[str, Any]) -> None:
        """Raise a JournalError if a task that a rule added differs from the one in the journal."""
        contract, name = self._current.contracts[i], self.wiring.names[i]
        declared = {name: declaration(i, contract, self.wiring)}
        stored = line["bound"] and read_outputs(self._directory, line["bound"], name)
        values, _ = comparable(bound_of(name, contract), stored or {})
        problems = [
            *graph_differences(declared, {name: line["declared"]}),
            *differences(*values),
        ]
        if problems:
            raise JournalError(self._directory, problems)

    def _added_s(self, tasks: Iterable[str]) -> float | None:
        """Return when tasks were added, if any of them has finished before; else None."""
        for name in tasks:
            if name in self._left:
                added_ms: float = self._left[name]["added_ms"]
                return self._current.run.started + added_ms / 1e3
        return None

    def failed(self, task: int, skipped: Iterable[int], *, stops: bool) -> None:
        """Mark a task as failed, and the tasks that depend on it as skipped."""
        self._inner.failed(task, skipped, stops=stops)

    def finish(self, *, ended: bool) -> None:
        """Complete the log; raise a JournalError if rules no longer add tasks that finished."""
        current, ended_before = self._current, self._past.ended
        results, log = current.results, current.log
        numbers = {name: i for i, name in enumerate(self.wiring.names)}
        # Those that were not reached before the run failed or was interrupted.
        for name, line in self._left.items():
            if name in numbers:
                self._enter(numbers[name], line)
        failed = results.errors or results.rule_failures or not ended
        missing = [] if failed else [name for name in self._left if name not in numbers]
        self._inner.finish(ended=ended and not missing)
        log.waited_s = _covered_s(self._busy)
        if ended_before is not None:
            for name, lost in ended_before["attempts"].items():
                if name in numbers:
                    log.note(numbers[name], attempts=lost)
            log.total_s, log.waited_s = ended_before["total_s"], ended_before["waited_s"]
            log.ended_s = current.run.started + ended_before["ended_ms"] / 1e3
            log.legacy_generators = ended_before["legacy_generators"]
        if missing:
            why = f"no rule has added tasks that finished before: {listed(missing, _MOST)}"
            raise JournalError(self._directory, [why])


def _covered_s(spans: Sequence[tuple[float, float]]) -> float:
    """Return the total time that the union of several intervals covers, in seconds."""
    covered = until = 0.0
    for begin, end in sorted(spans):
        covered += max(0.0, end - max(begin, until))
        until = max(until, end)
    return covered


def _moment(timestamp: str) -> datetime:
    return datetime.strptime(timestamp, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc)


def read_outputs(directory: str, place: Sequence[Any], task: str = "") -> Any:
    """Return what is stored at a place: the serialized outputs of a task, or other values.

    Raises
    ------
    JournalError
        If it cannot be read.
    """
    name, begin, _ = place
    path = os.path.join(directory, name)
    try:
        with open(path, "rb") as file:
            file.seek(begin)
            return pickle.load(file)
    except Exception as error:
        what = f"outputs of task {task!r}" if task else "the arguments of the run"
        raise JournalError(path, [f"{what} cannot be read: {describe(error)}"]) from error


def declaration(i: int, contract: Contract, wiring: Wiring) -> dict[str, Any]:
    """Return what a task declares and its incoming edges, as JSON."""
    names = wiring.names
    feeds = [
        [name, names[wiring.owner[slot]], wiring.field_of(slot)] for name, slot in wiring.feeds(i)
    ]
    return {
        "inputs": list(contract.inputs),
        "outputs": list(contract.outputs),
        "gathers": list(contract.gathers),
        "serializer": str(contract.serializer),
        # The order matters to a task that gathers; rules may add edges in another one.
        "fed with": feeds if contract.gathers and not wiring.grows else sorted(feeds),
        "after": sorted(names[source] for source in wiring.predecessors(i)),
    }


def declarations(wiring: Wiring, contracts: Sequence[Contract]) -> dict[str, dict[str, Any]]:
    """Return what each task declares."""
    return {name: declaration(i, contracts[i], wiring) for i, name in enumerate(wiring.names)}


def graph_differences(now: Mapping[str, Any], then: Mapping[str, Any]) -> Iterator[str]:
    """Yield the differences between declarations and those in the journal."""
    for what, names in (
        ("the DAG lacks", [name for name in then if name not in now]),
        ("the journal lacks", [name for name in now if name not in then]),
    ):
        if names:
            yield f"{what} task{'s' * (len(names) > 1)} {listed(names, _MOST)}"
    differing = [name for name in now if name in then and now[name] != then[name]]
    for name in differing[:_MOST]:
        for part in differences(now[name], then[name]):
            yield f"task {name!r}: {part}"
    if differing[_MOST:]:
        yield f"more that differ: {listed(differing[_MOST:], _MOST)}"


def differences(now: Mapping[str, Any], then: Mapping[str, Any]) -> Iterator[str]:
    """Yield the differences between named values and those in the journal."""
    for name in {**now, **then}:
        if name not in then:
            yield f"{name} is not in the journal"
        elif name not in now:
            yield f"{name} is in the journal only"
        elif not same_value(then[name], now[name]):
            yield f"{name}: {short_repr(now[name])}, in the journal {short_repr(then[name])}"


def bound_of(name: str, contract: Contract) -> dict[str, Any]:
    """Return the arguments that are bound to a task, by names that say what they are."""
    return {f"bound.{name}.{argument}": value for argument, value in contract.bound.items()}


def values_of(workflow: Workflow) -> dict[str, Any]:
    """Return the parameters and bound arguments of a run, by names that say what they are."""
    values = {f"config.{name}": value for name, value in workflow.config.items()}
    for name, contract in zip(workflow.wiring.names, workflow.contracts):
        values.update(bound_of(name, contract))
    return values


def pickled(values: Mapping[str, Any]) -> dict[str, bytes | None]:
    """Return each value pickled; None if it cannot be."""
    texts: dict[str, bytes | None] = {}
    for name, value in values.items():
        try:
            texts[name] = pickle.dumps(value)
        except Exception:  # noqa: BLE001  (a value's own __reduce__ may raise anything)
            texts[name] = None
    return texts


def comparable(
    now: Mapping[str, Any], then: Mapping[str, bytes | None]
) -> tuple[tuple[dict[str, Any], dict[str, Any]], dict[str, str]]:
    """Return values and those in the journal, and why others cannot be compared.

    Parameters
    ----------
    then
        The values in the journal, as :func:`pickled` returned them.
    """
    new, old, unknown = {**now}, dict[str, Any](), dict[str, str]()
    for name, text in then.items():
        try:
            # Objects without an __eq__ are equal if their pickles are.
            is_same = name in now and text == pickle.dumps(now[name])
            old[name] = now[name] if is_same else pickle.loads(text)  # type: ignore[arg-type]
        except Exception as error:  # noqa: BLE001  (code of users)
            unknown[name] = "it could not be pickled" if text is None else describe(error)
            new.pop(name, None)
    return (new, old), unknown


def input_differences(
    now: Mapping[str, Mapping[str, Any]],
    then: Mapping[str, Mapping[str, Any]],
    contracts: Mapping[str, Contract],
) -> Iterator[str]:
    """Yield the inputs from outside the graph that differ from the serialized ones `then`."""
    for task in {**now, **then}:
        new, old = now.get(task, {}), then.get(task, {})
        for input_ in {**new, **old}:
            name = f"inputs.{task}.{input_}"
            if input_ not in old:
                yield f"{name} is not in the journal"
            elif input_ not in new:
                yield f"{name} is in the journal only"
            elif task in contracts and contracts[task].encode(new[input_]) != old[input_]:
                yield f"{name} differs from the one in the journal"


def sources_of(workflow: Workflow) -> dict[str, str | None]:
    """Return a hash of the source of each task: of its function, or its classes; None if unknown.

    The source of functions that they call is not included.
    """
    sources = {}
    for name, task in zip(workflow.wiring.names, workflow.tasks):
        function = vars(task).get("__wrapped__") or vars(type(task)).get("__wrapped__")
        sources[name] = _source_of(function or type(task))
    return sources


@cache
def _source_of(written: Any) -> str | None:
    import inspect
    from hashlib import blake2b

    parts = [written]
    if isinstance(written, type):
        ours = ("dagprofiler", "builtins", "abc")
        parts = [base for base in written.__mro__ if base.__module__.partition(".")[0] not in ours]
    try:
        text = "\n".join([inspect.getsource(part) for part in parts])
    except Exception:  # noqa: BLE001  (inspect reads a file that may have changed)
        return None
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
