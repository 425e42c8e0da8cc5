"""Past: what earlier attempts at a run did, for the one that goes on with it."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from dagprofiler.documents import utc_now
from dagprofiler.errors import JournalError, short_repr
from dagprofiler.ledger import unpacked
from dagprofiler.rounds import MEASURED, Rounds
from dagprofiler.segments import frames_in, torn

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping, Sequence

    from dagprofiler.graph import Wiring
    from dagprofiler.ledger import Ledger
    from dagprofiler.readings import RoundLog
    from dagprofiler.records import RunLog

__all__ = ["Past", "PastRound"]

#: Tasks that are missing are listed so far.
_MOST = 10


class PastRound:
    """What earlier attempts did of a round.

    Attributes
    ----------
    kind
        What the round is for.
    records
        Name of each task that finished to its record, in the order in which they did.
    ended
        The record of the round, if it was completed.
    is_last
        Whether no later one was begun.
    spent_s
        How long they worked on it, in seconds.
    """

    def __init__(self, directory: str, wiring: Wiring) -> None:
        self._directory = directory
        self._wiring = wiring
        self._busy: list[tuple[float, float]] = []
        self.records: dict[str, dict[str, Any]] = {}
        self.ended: dict[str, Any] | None = None
        self.is_last = False
        self.spent_s = 0.0

    @property
    def complete(self) -> bool:
        """Whether nothing is left to be done."""
        return self.ended is not None

    @property
    def kind(self) -> str:
        """What the round is for."""
        return str(self._any["kind"])

    @property
    def columns(self) -> list[str]:
        """What the meters measure."""
        return list(self._any["columns"])

    @property
    def began_ms(self) -> float:
        """When it began, in milliseconds from the run's start."""
        return float(self._any["began_ms"])

    @property
    def _any(self) -> dict[str, Any]:
        return self.ended or next(iter(self.records.values()))

    def torn(self) -> list[str]:
        """Return the tasks whose outputs are cut off, and all that was made of them."""
        names, ends = self._wiring.names, dict[str, int]()
        numbers = {name: i for i, name in enumerate(names)}
        whole: set[str] = set()
        # What a task was made of finished before it.
        for name, record in self.records.items():
            before = record.get("after")
            if before is None:
                before = [names[i] for i in self._wiring.predecessors(numbers[name])]
            if whole.issuperset(before) and not torn(self._directory, record["stored"], ends):
                whole.add(name)
        return [name for name in self.records if name not in whole]

    def drop(self, tasks: Iterable[str]) -> None:
        """Forget what tasks did, which are to run again."""
        for name in tasks:
            del self.records[name]
            self.ended = None

    def fields(self, task: str) -> list[str]:
        """Return the outputs of a task that were stored."""
        return list(self.records[task]["stored"]["fields"])

    def frames(self, task: str, field: str) -> Any:
        """Return the serialized value of an output."""
        return frames_in(self._directory, self.records[task]["stored"], field)

    def begin(self, one: RoundLog, log: RunLog) -> None:
        """Write into the log of the round when it began, and what that cost so far."""
        one.started_s = log.started + self.began_ms / 1e3
        for record in reversed(self.records.values()):
            one.meters_s, one.garbage_s, one.store_s = record["costs_s"]
            break

    def take_over(
        self, one: RoundLog, log: RunLog, i: int, recall: Callable[[dict[str, Any]], int]
    ) -> None:
        """Write into the log of the round what is known of a task that finished.

        Parameters
        ----------
        i
            Number of the task.
        recall
            Returns the number that a worker of earlier attempts has now.
        """
        wiring = log.wiring
        record = self.records[wiring.names[i]]
        worker = record["worker"]
        one.ran_on[i] = -1 if worker is None else recall(worker)
        times: list[float] = [log.started + ms / 1e3 for ms in record["times_ms"]]
        one.times[6 * i : 6 * i + 6] = times
        self._busy.append((times[0], times[-1]))
        self._enter(one, wiring, i, record)
        if record["spans"] is not None:
            from dagprofiler.tracing.collecting import Packed

            one.spans[i] = Packed.of(record["spans"]).shifted(log.started)
        one.reasons.update(record["reasons"])

    def check(self, wiring: Wiring, i: int) -> None:
        """Raise a JournalError if a task that rules added is not what it was."""
        record = self.records[wiring.names[i]]
        problems = [
            f"task {wiring.names[i]!r}: {what} {short_repr(now)}, in the journal {short_repr(then)}"
            for what, now, then in (
                ("outputs", wiring.outputs[i], list(record["bytes"])),
                ("after", [wiring.names[s] for s in wiring.predecessors(i)], record["after"]),
            )
            if sorted(now) != sorted(then)
        ]
        if problems:
            raise JournalError(self._directory, problems)

    def check_all(self, tasks: Container[str]) -> None:
        """Raise a JournalError unless rules have added again all tasks that finished."""
        missing = [name for name in self.records if name not in tasks]
        if missing:
            names = ", ".join(map(repr, missing[:_MOST])) + ", ..." * (len(missing) > _MOST)
            raise JournalError(
                self._directory, [f"no rule has added what finished before: {names}"]
            )

    def added_s(self, log: RunLog, tasks: Iterable[str]) -> float | None:
        """Return when tasks were added, of which some finished; None if none of them did."""
        for name in tasks:
            if name in self.records:
                return float(log.started + self.records[name]["added_ms"] / 1e3)
        return None

    def end(self, one: RoundLog, log: RunLog) -> None:
        """Write into the log of the round what is known of it as a whole."""
        ended, one.waited_s = self.ended, _covered_s(self._busy)
        if ended is not None:
            numbers = {name: i for i, name in enumerate(log.wiring.names)}
            one.total_s, one.waited_s = ended["total_s"], ended["waited_s"]
            one.ended_s = log.started + ended["ended_ms"] / 1e3
            one.legacy_generators = ended["legacy_generators"]
            one.attempts = {numbers[name]: lost for name, lost in ended["attempts"].items()}

    @staticmethod
    def _enter(one: RoundLog, wiring: Wiring, i: int, record: Mapping[str, Any]) -> None:
        """Write what :func:`_told` told of a task into the log of the round."""
        # All at the first task; later only what a graph has grown by.
        one.decode_s += [None] * (len(wiring.slots) - len(one.decode_s))
        one.encode_s += [None] * (len(wiring.owner) - len(one.encode_s))
        for slot, field in enumerate(wiring.outputs[i], wiring.first_slot[i]):
            one.wire_bytes[slot], payload = record["bytes"][field]
            if payload != one.wire_bytes[slot]:
                one.payload_bytes[slot] = payload
            one.encode_s[slot] = record["encode_s"][field]
        decode_s = {field: iter(spent) for field, spent in record["decode_s"].items()}
        for place, (field, _) in enumerate(wiring.feeds(i), wiring.first_input[i]):
            one.decode_s[place] = next(decode_s[field])
        if record["undeclared_bytes"] is not None:
            one.undeclared_bytes[i] = record["undeclared_bytes"]
        if record["digest"] is not None:
            one.digests[i] = bytes.fromhex(record["digest"])
        one.meters[i] = record["meters"]


def _covered_s(spans: Sequence[tuple[float, float]]) -> float:
    """Return for how long at least one of several spans of time lasted."""
    covered = until = 0.0
    for begin, end in sorted(spans):
        covered += max(0.0, end - max(begin, until))
        until = max(until, end)
    return covered


class Past:
    """What earlier attempts at a run did, as their journal says.

    Parameters
    ----------
    ledger
        Its records.
    directory
        Where it is.
    wiring
        The graph, which is known to be that of the journal.
    inputs
        What came from outside the graph, serialized.

    Attributes
    ----------
    asked
        What :meth:`DAG.run <dagprofiler.DAG.run>` was asked for.
    kinds
        What the rounds that were begun were for.
    earlier_s, measured_s
        How long was worked on the run, and since the first measured round began, in
        seconds.
    finished
        Names of the tasks of which there are results.
    resumed
        For each time that the run was gone on with what the profile says of it.
    """

    def __init__(
        self,
        ledger: Ledger,
        directory: str,
        wiring: Wiring,
        inputs: Mapping[str, Mapping[str, Any]],
    ) -> None:
        header = self._header = ledger.header
        self._torn_bytes = ledger.torn_bytes
        self._dropped: list[str] = []
        meters = header["meters"]
        self.asked: dict[str, Any] = {
            "seed": header["seed"],
            "inputs": inputs,
            "rounds": Rounds(**header["rounds"]),
            "meters": unpacked(meters["pickled"]) if isinstance(meters, dict) else meters,
            "keep": header["keep"],
            "on_error": header["on_error"],
        }
        self.resumed: list[dict[str, Any]] = []
        self._rounds: list[PastRound] = []
        self._executor = header["executor"]
        at_ms: float = header["at_ms"]
        for record in ledger.records:
            if "resumed" in record:
                self._executor = record["resumed"].pop("executor")
                self.resumed.append(record["resumed"])
                at_ms = max(at_ms, record["resumed"]["at_ms"])
                self._drop(record["resumed"]["dropped"])
                continue
            if record["round"] == len(self._rounds):
                self._rounds.append(PastRound(directory, wiring))
            one = self._rounds[record["round"]]
            if "task" in record:
                one.records[record["task"]] = record
                at_ms = max(at_ms, record["times_ms"][-1])
            else:
                one.ended = record
                at_ms = max(at_ms, record["ended_ms"])
        self._at_ms = at_ms
        self.earlier_s = at_ms / 1e3
        self._find_last()
        self.kinds = [one.kind for one in self._rounds]
        first = self.kinds.index(MEASURED) if MEASURED in self.kinds else None
        self.measured_s = 0.0 if first is None else self._since_s(self._rounds[first])
        self.finished = {name for one in self._rounds for name in one.records}

    def _since_s(self, one: PastRound) -> float:
        return self.earlier_s - one.began_ms / 1e3

    def _find_last(self) -> None:
        """See what of the last round is whole."""
        if self._rounds:
            last = self._rounds[-1]
            last.spent_s = self._since_s(last)
            last.is_last = True
            self._dropped = last.torn()
            self._drop(self._dropped)

    def _drop(self, tasks: Iterable[str]) -> None:
        """Forget what tasks of the last round did; all of it, if nothing else was done."""
        if self._rounds:
            last = self._rounds[-1]
            last.drop(tasks)
            if not last.records and not last.complete:
                self._rounds.pop()

    def of_round(self, number: int) -> PastRound | None:
        """Return what was done of a round; None if nothing was."""
        return self._rounds[number] if number < len(self._rounds) else None

    def resume(self, compared: Mapping[str, Any]) -> dict[str, Any]:
        """Note that the run is gone on with now; return what the profile says of it."""
        last = self._rounds[-1] if self._rounds else None
        before = self.resumed[-1] if self.resumed else {**self._header, "at_ms": 0.0}
        worked_ms = self._at_ms - before["at_ms"]
        away_ms = (_moment(utc_now()) - _moment(before["timestamp"])).total_seconds() * 1e3
        entry = {
            "timestamp": utc_now(),
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
        """Put the log of the run on the clock of the attempts before."""
        log.timestamp = self._header["timestamp"]
        log.started -= self.earlier_s
        log.earlier_s = self.earlier_s
        log.resumed = self.resumed


def _moment(timestamp: str) -> datetime:
    return datetime.strptime(timestamp, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc)
