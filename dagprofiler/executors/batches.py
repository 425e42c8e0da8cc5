"""Batch: several short tasks that travel to a worker as one job."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


#: How long a job of several tasks may keep a worker, in seconds: long enough to pay for its way,
#: short enough that no task waits long for the others.
BATCH_S = 1.5e-3
#: What a task costs a worker besides its own time, in seconds.
_TASK_S = 25e-6
#: What a byte of its outputs costs on its way, in seconds.
_BYTE_S = 10e-9


class Durations:
    """How long tasks keep a worker, as measured in this run."""

    def __init__(self) -> None:
        self._of_task: dict[str, float] = {}
        #: The sum and the number of those that tasks of a class had.
        self._of_class: dict[type, tuple[float, int]] = {}

    def expected_s(self, name: str, kind: type) -> float:
        """Return how long a task will keep a worker, in seconds; infinite if unknown.

        That is as long as in the last round, or else the mean of the tasks of its class.
        """
        known = self._of_task.get(name)
        if known is None:
            total_s, count = self._of_class.get(kind, (inf, 1))
            known = total_s / count
        return known

    def note(self, name: str, kind: type, record: tuple[Any, ...]) -> None:
        """Learn from the record of a task that succeeded."""
        times, _, wire = record[:3]
        took_s = times[5] - times[0] + _TASK_S + _BYTE_S * sum(wire.values())
        self._of_task[name] = took_s
        total_s, count = self._of_class.get(kind, (0.0, 0))
        self._of_class[kind] = total_s + took_s, count + 1


class _Packed(Protocol):
    """What a batch needs of a :class:`~dagprofiler.executors.jobs.PackedJob`."""

    name: str
    outputs: Sequence[str]

    def with_session(self, session: bytes) -> Any:
        """Return this job with the pickled session."""

    def __call__(self, frames: list[Any]) -> Any:
        """Perform the task."""


class Batch:
    """Several jobs as one, which an executor cannot tell from a single task's.

    Its inputs are those of its tasks, one after the other. Its outputs are those of its tasks
    as well, each named by the position of its task and its field.

    Parameters
    ----------
    jobs
        The jobs of its tasks.
    counts
        How many inputs each of them has.
    """

    __slots__ = ("_counts", "_jobs")

    #: Small outputs return with the record, as those that the driving process needs.
    keep = True

    def __init__(self, jobs: Sequence[_Packed], counts: Sequence[int]) -> None:
        self._jobs = jobs
        self._counts = counts

    def __reduce__(self) -> tuple[Any, ...]:
        return Batch, (self._jobs, self._counts)

    @property
    def name(self) -> str:
        """The first task's name, and the number of the others."""
        return f"{self._jobs[0].name} and {len(self._jobs) - 1} more"

    @property
    def outputs(self) -> list[tuple[int, str]]:
        """The outputs that other tasks need."""
        return [(k, field) for k, job in enumerate(self._jobs) for field in job.outputs]

    def with_session(self, session: bytes) -> Batch:
        """Return this batch with the pickled session, for a worker that does not have it."""
        first, *others = self._jobs
        return Batch([first.with_session(session), *others], self._counts)

    def __call__(self, frames: list[Any]) -> tuple[Any, ...] | None:
        """Perform the tasks one after the other; return None without their session.

        The record has the outputs of all; what else there is of each is in its readings.
        """
        worker, begin = None, 0
        sizes, encoded, rest = {}, {}, []
        for k, (job, count) in enumerate(zip(self._jobs, self._counts)):
            outcome = job(frames[begin : begin + count])
            if outcome is None:
                return None
            begin += count
            worker, record, _ = outcome
            times, payload, wire, leaving, outputs, error, readings, spans = record
            for field, data in leaving.items():
                sizes[k, field] = wire[field]
                encoded[k, field] = data
            rest.append((times, payload, wire, outputs, error, readings, spans))
        return worker, ((None,) * 6, {}, sizes, encoded, None, None, rest, None), ()

    @staticmethod
    def records(record: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        """Yield the record of each task, by that of the batch."""
        handles: list[dict[str, Any]] = [{} for _ in record[6]]
        for (k, field), handle in record[3].items():
            handles[k][field] = handle
        for frames, (times, payload, wire, *others) in zip(handles, record[6]):
            yield times, payload, wire, frames, *others
