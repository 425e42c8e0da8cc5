"""ReplayLog: the state that is replayed from a journal when a run resumes."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from functools import partial
from itertools import islice
from operator import le
from time import perf_counter
from typing import Any

from dagprofiler._document.quick import quick_valid as surely_satisfies
from dagprofiler._document.rounds import ALLOCATION, COLD, MEASURED, WARM_UP, Rounds
from dagprofiler._util.json import utc_text
from dagprofiler.engine.log import RoundLog, RunLog
from dagprofiler.engine.options import RunOptions
from dagprofiler.engine.run import Frontier, Round
from dagprofiler.errors import JournalError, describe, listed, short_repr, shorten
from dagprofiler.graph.wiring import Wiring
from dagprofiler.journal._records import OutputStore, RecordFile, differences, unpacked
from dagprofiler.schema import inlined_schema

#: The most missing tasks, or problems, that a message lists.
_MOST = 10


def _object(properties: Mapping[str, Any], optional: Mapping[str, Any] | None = None) -> Any:
    both = {**properties, **(optional or {})}
    return {"type": "object", "properties": both, "required": [*properties]}


def _list(*prefix: Any, then: Any = None) -> Any:
    # No value has a type of an empty list.
    rest = {"type": []} if then is None else then
    return {"type": "array", "minItems": len(prefix), "prefixItems": prefix, "items": rest}


def _map(values: Any) -> Any:
    return {"type": "object", "additionalProperties": values}


def _or_null(schema: Any) -> Any:
    return {**schema, "type": [schema["type"], "null"]}


_TEXT = {"type": "string"}
_TEXTS = _list(then=_TEXT)
_COUNT = {"type": "integer", "minimum": 0, "maximum": 2**53}
_LENGTH = {**_COUNT, "minimum": -(2**53)}
#: Moments and times in milliseconds: up to thirty years, where a float still holds nanoseconds.
_TIME = {"type": "number", "minimum": 0, "maximum": 1e12}
_MOMENT = {**_TIME, "minimum": -1e12}
_STORED = _object(
    {
        "segment": _TEXT,
        "fields": _map(_list(_COUNT, _COUNT, {"type": "boolean"}, _list(then=_LENGTH))),
    }
)
_NUMBERED = {"record": _COUNT}
_BOUND = _map(_or_null(_TEXT))
_HEADER = _object(
    {
        **_NUMBERED,
        "key": _TEXT,
        "timestamp": _TEXT,
        "at_ms": _TIME,
        "executor": _TEXT,
        "seed": _or_null({**_COUNT, "maximum": 2**63 - 1}),
        "rounds": _object({}),
        "meters": {**_object({"pickled": _TEXT}), "type": ["object", "string", "null"]},
        "keep": _TEXTS,
        "on_error": {"type": "string", "enum": ["stop", "finish"]},
        "config": _map(_or_null(_TEXT)),
        "inputs": _map(_STORED),
        "sources": _map(_or_null(_TEXT)),
        "rules": _TEXTS,
        "bound": _map(_BOUND),
        "graph": _map(
            _object(
                {
                    **dict.fromkeys(("inputs", "outputs", "gathers", "after"), _TEXTS),
                    "serializer": _TEXT,
                    "fed with": _list(then=_list(_TEXT, _TEXT, _TEXT)),
                }
            )
        ),
    }
)
_OF_PROFILE: Any = inlined_schema()["properties"]
_RESUMED = _OF_PROFILE["run"]["properties"]["resumed"]["items"]
_RESUMED = _object(
    {
        **_NUMBERED,
        "at_ms": _TIME,
        "resumed": {
            **_RESUMED,
            "properties": {**_RESUMED["properties"], "executor": _TEXT, "at_ms": _TIME},
            "required": [*_RESUMED["properties"], "executor"],
        },
    }
)
_OF_ROUND = {
    **_NUMBERED,
    "at_ms": _TIME,
    "round": _COUNT,
    "kind": {"type": "string", "enum": [COLD, WARM_UP, MEASURED, ALLOCATION]},
    "began_ms": _TIME,
    "columns": _TEXTS,
    "total_s": _TIME,
}
_TASK = _object(
    {
        **_OF_ROUND,
        "task": _TEXT,
        "times_ms": _list(*[_MOMENT] * 6),
        "worker": _OF_PROFILE["timeline"]["properties"]["workers"]["items"],
        "stored": _STORED,
        "spans": _or_null(_object({})),
        "bytes": _map(_list(_COUNT, _COUNT)),
        "undeclared_bytes": _or_null(_COUNT),
        "decode_s": _map(_list(then=_or_null(_TIME))),
        "encode_s": _map(_or_null(_TIME)),
        "meters": _list(then={"type": ["number", "null"]}),
        "digest": _or_null(_TEXT),
        "reasons": _map(_TEXT),
        "costs_s": _list(_TIME, _TIME, _TIME),
    },
    # Of a dynamic graph.
    {"added_ms": _or_null(_TIME), "after": _TEXTS, "bound": _BOUND},
)
_READ = _list(then={"type": ["number", "null"], "minimum": 0})
#: Of a run without meters of a user's own; only those may return negative readings.
_TASK_METERED_BY_US = {**_TASK, "properties": {**_TASK["properties"], "meters": _READ}}
_ROUND = _object(
    {
        **_OF_ROUND,
        "tasks": _COUNT,
        "ended_ms": _TIME,
        "waited_s": _or_null(_TIME),
        "legacy_generators": {"type": ["boolean", "null"]},
        "attempts": _map(_TEXTS),
    }
)


#: Times of a complete run in its log, in seconds.
TOTALS = ("prepare_s", "hooks_s", "garbage_s", "total_s")
_COMPLETE = _object(
    {
        **_NUMBERED,
        "at_ms": _TIME,
        "totals": _object(
            {**dict.fromkeys(TOTALS, _TIME), "environment": _OF_PROFILE["environment"]}
        ),
    }
)


def check_shape(record_file: RecordFile) -> None:
    """Raise a JournalError unless all records have the fields that this version writes."""
    kinds: dict[str, list[Any]] = {"task": [], "resumed": [], "totals": [], "tasks": []}
    for record in record_file.records:
        # What is of no other kind is the record of a round.
        kinds[next((kind for kind in kinds if kind in record), "tasks")].append(record)
    others = isinstance(record_file.header.get("meters"), dict)
    for records, schema in (
        ([record_file.header], _HEADER),
        (kinds["task"], _TASK if others else _TASK_METERED_BY_US),
        (kinds["tasks"], _ROUND),
        (kinds["resumed"], _RESUMED),
        (kinds["totals"], _COMPLETE),
    ):
        if not surely_satisfies(records, _list(then=schema)):
            # None if only the sum of a meter's readings exceeds a float.
            problems = [*islice(_misshapen(records, schema), _MOST)]
            if problems:
                raise JournalError(record_file.path, problems)
    for record in kinds["task"]:
        columns, values = record["columns"], record["meters"]
        # A meter of ours that counts returns no fraction.
        parts = [column for column, value in zip(columns, values) if type(value) is float]
        whole = others or all(column.endswith("_ms") for column in parts)
        if not whole or (values and len(values) != len(columns)):
            why = f"{columns!r} cannot be {values!r}"
            raise JournalError(record_file.path, [f"{_line_of(record)}: {why}"])


def _misshapen(records: Iterable[dict[str, Any]], schema: Any) -> Iterator[str]:
    for record in records:
        for name, field in schema["properties"].items():
            if name in record and not surely_satisfies(record[name], field):
                value = shorten(repr(record[name]))
                yield f"{_line_of(record)}: {name!r} is {value}, which is not valid"
            elif name in schema["required"] and name not in record:
                yield f"{_line_of(record)}: {name!r} is missing"


def _line_of(record: Mapping[str, Any]) -> str:
    return f"line {record['record'] + 1}"


class ReplayedRound:
    """The results of one round that previous attempts recorded.

    Attributes
    ----------
    kind
        The purpose of the round.
    columns
        Names of the columns that the meters measured.
    began_ms
        When the round began, in milliseconds from the run's start.
    records
        Name of each task that finished to its record, in the order of their ends.
    ended
        The record of the round, if it is complete.
    is_last
        Whether no later round was begun.
    """

    def __init__(
        self,
        store: OutputStore,
        wiring: Wiring,
        numbers: Mapping[str, int],
        first: Mapping[str, Any],
    ) -> None:
        self._store = store
        self._wiring = wiring
        self._numbers = numbers
        self._first = first
        self.kind: str = first["kind"]
        self.columns: list[str] = first["columns"]
        self.began_ms: float = first["began_ms"]
        self._busy: list[tuple[float, float]] = []
        self.records: dict[str, dict[str, Any]] = {}
        self.ended: dict[str, Any] | None = None
        self.is_last = False

    def add(self, record: dict[str, Any]) -> str:
        """Add the record of a task, or of the round; return why it is not valid, else ""."""
        for what in ("kind", "began_ms", "columns"):
            if record[what] != self._first[what]:
                return f"{what!r} is {record[what]!r}, in an earlier record {self._first[what]!r}"
        if "task" not in record:
            self.ended = record
            if record["tasks"] != len(self.records):
                return f"the round had {record['tasks']} tasks, not {len(self.records)}"
            if not all(map(self.records.__contains__, record["attempts"])):
                return "it has attempts at tasks that the round does not have"
            return ""
        name, times = record["task"], record["times_ms"]
        if name in self.records:
            return f"task {name!r} has a record already"
        added_ms = record.get("added_ms")
        if name not in self._numbers and ("after" not in record or added_ms is None):
            return f"there is no task {name!r}, and no rule added it"
        if "clock_ahead_ms" not in record["worker"]:
            sources = [
                self.records[source] for source in self._before(record) & self.records.keys()
            ]
            ended = [at["times_ms"][-1] for at in sources if "clock_ahead_ms" not in at["worker"]]
            times = [max(record["began_ms"], added_ms or 0.0, *ended), *times, record["at_ms"]]
        if not all(map(le, times, times[1:])):
            return f"task {name!r}: its times run backwards: {times}"
        self.records[name] = record
        return ""

    def _before(self, record: Mapping[str, Any]) -> set[str]:
        """Return the names of the predecessors of a task."""
        if "after" in record:
            return set(record["after"])
        names = self._wiring.names
        return {names[i] for i in self._wiring.predecessors(self._numbers[record["task"]])}

    @property
    def complete(self) -> bool:
        """Whether all tasks of the round succeeded."""
        return self.ended is not None

    def torn(self) -> list[str]:
        """Return the tasks whose outputs are cut off, and the tasks that depend on them."""
        ends, whole = dict[str, int](), set[str]()
        # The predecessors of a task finished before it.
        for name, record in self.records.items():
            if self._before(record) <= whole and not self._store.is_torn(record["stored"], ends):
                whole.add(name)
        return [name for name in self.records if name not in whole]

    def drop(self, tasks: Iterable[str]) -> None:
        """Remove the records of tasks, which will run again."""
        for name in tasks:
            del self.records[name]
            self.ended = None

    def fields(self, task: str) -> list[str]:
        """Return the names of the stored outputs of a task."""
        return list(self.records[task]["stored"]["fields"])

    def frames(self, task: str, field: str) -> Any:
        """Return the serialized value of an output."""
        return self._store.frames(self.records[task]["stored"], field)

    def value(self, task: str, field: str, decode: Callable[[Any], Any]) -> Any:
        """Return the decoded value of an output."""
        frames = self.frames(task, field)
        try:
            return decode(frames)
        except Exception as error:
            why = f"output {field!r} of task {task!r} cannot be decoded: {describe(error)}"
            raise JournalError(self._store.directory, [why]) from error

    def begin(self, round_log: RoundLog, log: RunLog) -> None:
        """Enter the begin and the costs so far into the log of the round."""
        for what, now, then in (
            ("is", round_log.kind, self.kind),
            ("measures", round_log.columns, self.columns),
        ):
            if now != then:
                why = f"the round {what} {now!r}, in the journal {then!r}"
                raise self._wrong(self.ended or self._first, why)
        round_log.started_s = log.started + self.began_ms / 1e3
        for record in reversed(self.records.values()):
            round_log.meters_s, round_log.garbage_s, round_log.store_s = record["costs_s"]
            round_log.total_s = record["total_s"]
            break

    def _wrong(self, record: Mapping[str, Any], why: str) -> JournalError:
        return JournalError(self._store.directory, [f"{_line_of(record)}: {why}"])

    def take_over(
        self, round_log: RoundLog, log: RunLog, i: int, recall: Callable[[dict[str, Any]], int]
    ) -> None:
        """Enter a finished task into the log of the round.

        Parameters
        ----------
        i
            Number of the task.
        recall
            Returns the current number of a worker of previous attempts.
        """
        wiring = log.wiring
        record = self.records[wiring.names[i]]
        self._check(record, wiring, i, log.contracts[i].bound)
        round_log.ran_on[i] = recall(record["worker"])
        if record["spans"] is not None:
            self._check_spans(record)
        round_log.enter(i, record, log.started)
        begin_s, *_, end_s = round_log.times_of(i)
        self._busy.append((begin_s, end_s))

    def _check_spans(self, record: Mapping[str, Any]) -> None:
        """Raise a JournalError unless the spans of a task are valid."""
        from dagprofiler.engine.sections import Traced, spans_section
        from dagprofiler.tracing.collection import Packed

        try:
            packed = Packed.of(record["spans"])
            section = spans_section([Traced(record["task"], record["round"], 0, packed, 0.0)])
            backwards = any(start > end for _, _, start, end in packed.spans())
        except (AttributeError, ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise self._wrong(record, f"spans: {describe(error)}") from error
        if backwards or not surely_satisfies(section, _OF_PROFILE["spans"]):
            raise self._wrong(record, "these spans are not valid")

    def _check(
        self, record: Mapping[str, Any], wiring: Wiring, i: int, bound: Mapping[str, Any]
    ) -> None:
        """Raise a JournalError if a task differs from its record."""
        names, outputs, stored = wiring.names, wiring.outputs[i], record["stored"]["fields"]
        fed_with = [field for field, seconds in record["decode_s"].items() for _ in seconds]
        after = [names[source] for source in wiring.predecessors(i)]
        try:
            bytes.fromhex(record["digest"] or "")
        except ValueError as error:
            raise self._wrong(record, f"digest: {describe(error)}") from error
        problems = [
            f"task {names[i]!r}: {what} {short_repr(now)}, in the journal {short_repr(then)}"
            for what, now, then in (
                ("outputs", outputs, list(record["bytes"])),
                ("outputs", outputs, list(record["encode_s"])),
                ("outputs", outputs, [field for field in outputs if field in stored]),
                ("fed with", [field for field, _ in wiring.feeds(i)], fed_with),
                ("after", after, record.get("after", after)),
            )
            if now != then and sorted(now) != sorted(then)
        ]
        if "bound" in record:
            problems += differences(bound, record["bound"], "bound", f"task {names[i]!r}: bound")[0]
        if problems:
            raise JournalError(self._store.directory, problems)

    def check_all(self, tasks: Container[str]) -> None:
        """Raise a JournalError unless the graph has all tasks that finished."""
        missing = [name for name in self.records if name not in tasks]
        if missing:
            why = f"no rule has added tasks that finished before: {listed(missing, _MOST)}"
            raise JournalError(self._store.directory, [why])

    def added_s(self, log: RunLog, tasks: Iterable[str]) -> float | None:
        """Return when tasks were added, if any of them has a record; else None."""
        for name in tasks:
            added_ms = self.records.get(name, {}).get("added_ms")
            if added_ms is not None:
                return float(log.started + added_ms / 1e3)
        return None

    def end(self, round_log: RoundLog, log: RunLog) -> None:
        """Enter the totals of the round into its log, once its tasks are entered."""
        ended, round_log.waited_s = self.ended, _covered_s(self._busy)
        if ended is not None:
            numbers = {name: i for i, name in enumerate(log.wiring.names)}
            round_log.total_s, round_log.waited_s = ended["total_s"], ended["waited_s"]
            round_log.ended_s = log.started + ended["ended_ms"] / 1e3
            round_log.legacy_generators = ended["legacy_generators"]
            round_log.attempts = {numbers[name]: lost for name, lost in ended["attempts"].items()}


class Resumed:
    """What to run next in a round that previous attempts began.

    Takes over the tasks that have records: of a fixed graph all of them before any other
    starts, of a dynamic graph each when it is ready, since rules fire after it.

    Parameters
    ----------
    inner
        What to run next without previous attempts.
    past
        What they recorded of this round.
    """

    def __init__(self, inner: Frontier, past: ReplayedRound) -> None:
        self.wiring = inner.wiring
        self.pop: Callable[[], int | None]
        self.done: Callable[[int], None] | None
        self._inner = inner
        self._past = past
        self._current: Round
        self._finished: set[int] = set()

    def begin(self, current: Round) -> None:
        """Take over what finished, and begin with the rest."""
        self._current = current
        past, inner = self._past, self._inner
        past.begin(current.log, current.run)
        if self.wiring.grows:
            current.added_s = partial(past.added_s, current.run)
            is_finished: Callable[[int], bool] = self._take_over
        else:
            past.check_all(set(self.wiring.names))
            self._take_over_all()
            is_finished = self._finished.__contains__
        current.start_clock(perf_counter())
        inner.begin(current)
        next_ready, done = inner.pop, inner.done

        def pop() -> int | None:
            number = next_ready()
            while number is not None and is_finished(number):
                if done is not None:
                    done(number)
                number = next_ready()
            return number

        self.pop, self.done = pop, done

    def failed(self, task: int, skipped: Iterable[int], *, stops: bool) -> None:
        """Mark a task as failed, and the tasks that depend on it as skipped."""
        self._inner.failed(task, skipped, stops=stops)

    def finish(self, *, ended: bool) -> None:
        """Complete the log; raise a JournalError if the graph lacks tasks with records."""
        current = self._current
        try:
            if ended and not (current.results.errors or current.results.rule_failures):
                self._past.check_all({self.wiring.names[i] for i in self._finished})
        except BaseException:
            ended = False
            raise
        finally:
            self._inner.finish(ended=ended)
            self._past.end(current.log, current.run)

    def _take_over_all(self) -> None:
        """Enter all tasks with records, and keep their outputs that other tasks still need."""
        past, current, wiring = self._past, self._current, self.wiring
        finished = self._finished
        finished.update(i for i, name in enumerate(wiring.names) if name in past.records)
        for i in sorted(finished):
            past.take_over(current.log, current.run, i, current.executor.recall)
        if not past.complete:
            for i in finished:
                current.slots.release(slot for _, slot in wiring.feeds(i))
            for i in finished:
                self._put(i)
        if past.is_last or not past.complete:
            self._return(finished)

    def _take_over(self, i: int) -> bool:
        """Enter a task, if it has a record."""
        past, current, wiring = self._past, self._current, self.wiring
        if wiring.names[i] not in past.records:
            return False
        past.take_over(current.log, current.run, i, current.executor.recall)
        self._finished.add(i)
        current.slots.release(slot for _, slot in wiring.feeds(i))
        self._put(i)
        self._return([i])
        return True

    def _put(self, i: int) -> None:
        """Keep the outputs of a task that other tasks still need."""
        slots, put = self._current.slots, self._current.executor.put
        name = self.wiring.names[i]
        for slot, field in enumerate(self.wiring.outputs[i], self.wiring.first_slot[i]):
            if slots.uses[slot]:
                slots.handles[slot] = put(self._past.frames(name, field))

    def _return(self, tasks: Iterable[int]) -> None:
        """Decode the outputs of tasks that the profile returns."""
        past, current = self._past, self._current
        for i in tasks:
            if current.slots.kept[i]:
                name, decode = self.wiring.names[i], current.contracts[i].decode
                current.results.outputs[i] = {
                    field: past.value(name, field, decode) for field in past.fields(name)
                }


def _covered_s(spans: Sequence[tuple[float, float]]) -> float:
    """Return the total time that the union of several intervals covers, in seconds."""
    covered = until = 0.0
    for begin, end in sorted(spans):
        covered += max(0.0, end - max(begin, until))
        until = max(until, end)
    return covered


class ReplayLog:
    """The state of a run that previous attempts recorded in a journal.

    Parameters
    ----------
    record_file
        The records of the journal.
    store
        The store of the outputs.
    wiring
        The graph; must be the one of the journal.
    inputs
        Inputs from outside the graph, serialized.

    Attributes
    ----------
    options
        What was asked of the run; inputs are serialized.
    kinds
        The purpose of each round that was begun.
    earlier_s, measured_s
        Time spent on the run, and since the first measured round began, in seconds.
    finished
        Names of the tasks that have results.
    resumed
        The profile's entry for each resumption of the run.
    totals
        The times and the environment of a complete run; None if it is not complete.

    Raises
    ------
    JournalError
        If records contradict each other, or the graph.
    """

    def __init__(
        self,
        record_file: RecordFile,
        store: OutputStore,
        wiring: Wiring,
        inputs: Mapping[str, Mapping[str, Any]],
    ) -> None:
        header = self._header = record_file.header
        self._path = record_file.path
        self._store = store
        self._wiring = wiring
        self._numbers = {name: i for i, name in enumerate(wiring.names)}
        self._torn_bytes = record_file.torn_bytes
        self._dropped: list[str] = []
        meters = header["meters"]
        try:
            _moment(header["timestamp"])
            self.options = RunOptions(
                header["seed"],
                inputs,
                Rounds(**header["rounds"]),
                unpacked(meters["pickled"]) if isinstance(meters, dict) else meters,
                header["keep"],
                header["on_error"],
            )
        except Exception as error:
            raise self._wrong(header, describe(error)) from error
        self.resumed: list[dict[str, Any]] = []
        self.totals: dict[str, Any] | None = None
        self._rounds: list[ReplayedRound] = []
        self._executor = header["executor"]
        self._at_ms: float = header["at_ms"]
        for record in record_file.records:
            if record["at_ms"] < self._at_ms:
                raise self._wrong(record, "it is older than the record before it")
            self._at_ms = record["at_ms"]
            if self.totals is not None and "resumed" not in record:
                raise self._wrong(record, "it is behind the end of the run")
            self.totals = record.get("totals")
            if "resumed" in record:
                self._add_resumption(record)
            elif self.totals is None:
                self._add(record)
        self.earlier_s = self._at_ms / 1e3
        self._find_last()
        self.kinds = [past.kind for past in self._rounds]
        wanted = self.options.rounds.n
        if wanted != "auto" and self.kinds.count(MEASURED) > wanted:
            raise self._wrong(header, f"it has more rounds than the {wanted} of the run")
        first = self.kinds.index(MEASURED) if MEASURED in self.kinds else None
        self.measured_s = 0.0 if first is None else self._since_s(self._rounds[first])
        self.finished = {name for past in self._rounds for name in past.records}

    def _wrong(self, record: Mapping[str, Any], why: str) -> JournalError:
        return JournalError(self._path, [f"{_line_of(record)}: {why}"])

    def _add_resumption(self, record: Mapping[str, Any]) -> None:
        """Add the record of a resumption, and remove the tasks that it dropped."""
        entry = {**record["resumed"]}
        self._executor = entry.pop("executor")
        try:
            _moment(entry["timestamp"])
            self._drop(entry["dropped"])
        except (KeyError, ValueError) as error:
            raise self._wrong(record, describe(error)) from error
        self.resumed.append(entry)

    def _add(self, record: dict[str, Any]) -> None:
        """Add the record of a task or of a round."""
        rounds = self._rounds
        begun = len(rounds) - bool(rounds and not rounds[-1].complete)
        if record["round"] != begun:
            raise self._wrong(record, f"round {record['round']} is out of order")
        if begun == len(rounds):
            rounds.append(ReplayedRound(self._store, self._wiring, self._numbers, record))
        why = rounds[-1].add(record)
        if why:
            raise self._wrong(record, why)

    def _since_s(self, past: ReplayedRound) -> float:
        return self.earlier_s - past.began_ms / 1e3

    def _find_last(self) -> None:
        """Mark the last round, and remove its tasks whose outputs are cut off."""
        if self._rounds:
            last = self._rounds[-1]
            last.is_last = True
            self._dropped = last.torn()
            self._drop(self._dropped)
        if self._dropped:
            self.totals = None

    def _drop(self, tasks: Iterable[str]) -> None:
        """Remove the records of tasks of the last round, and the round if it is then empty."""
        if self._rounds:
            last = self._rounds[-1]
            last.drop(tasks)
            if not last.records and not last.complete:
                self._rounds.pop()

    def frontier(self, inner: Callable[[int], Frontier]) -> Callable[[int], Frontier]:
        """Return a function from a round's number to its frontier, which takes over finished tasks.

        Parameters
        ----------
        inner
            Returns the frontier of a round without previous attempts, by its number.
        """

        def resumed(number: int) -> Frontier:
            if number >= len(self._rounds):
                return inner(number)
            return Resumed(inner(number), self._rounds[number])

        return resumed

    def resume(self, compared: Mapping[str, Any]) -> dict[str, Any]:
        """Add the current resumption; return its entry in the profile."""
        last = self._rounds[-1] if self._rounds else None
        before = self.resumed[-1] if self.resumed else {**self._header, "at_ms": 0.0}
        worked_ms = self._at_ms - before["at_ms"]
        away_ms = (_moment(utc_text()) - _moment(before["timestamp"])).total_seconds() * 1e3
        entry = {
            "timestamp": utc_text(),
            "at_ms": round(self._at_ms, 6),
            "gap_ms": round(max(0.0, away_ms - worked_ms), 6),
            "round": len(self._rounds) - (last is not None and not last.complete),
            "tasks": 0 if last is None or last.complete else len(last.records),
            "executor_before": self._executor,
            "torn_bytes": self._torn_bytes,
            "dropped": self._dropped,
            **compared,
        }
        self.resumed.append(entry)
        return dict(entry)

    def carry_on(self, log: RunLog) -> None:
        """Shift the log of the run to the clock of the previous attempts."""
        log.timestamp = self._header["timestamp"]
        log.started -= self.earlier_s
        log.earlier_s = self.earlier_s
        log.resumed = self.resumed

    def conclude(self, log: RunLog) -> None:
        """Enter the totals of a complete run into its log, which runs nothing any more."""
        if self.totals is not None:
            log.executor = self._executor
            for name, value in self.totals.items():
                setattr(log, name, value)


def _moment(timestamp: str) -> datetime:
    return datetime.strptime(timestamp, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc)
