"""What DaskExecutor has Dask's workers do. They import this module, and Dask with it."""

from __future__ import annotations

import pickle
from typing import Any

from distributed import WorkerPlugin, get_worker

from dagprofiler.executors.jobs import announce, withdraw
from dagprofiler.serializers import frames_bytes

#: One for all runs: a scheduler keeps the last events of each topic for good.
TOPIC = "dagprofiler"

#: What is wanted by the process that drives the run, and smaller, goes there with the record: to
#: ask for it takes as long as a task.
SMALL_BYTES = 10_000


class Held:
    """The serialized value of one output: what stands at a worker.

    Parameters
    ----------
    frames
        The serialized value.
    """

    __slots__ = ("frames",)

    def __init__(self, frames: Any) -> None:
        self.frames = frames

    def __reduce__(self) -> tuple[Any, ...]:
        return Held, (self.frames,)

    def __sizeof__(self) -> int:
        # Dask asks, to run tasks where their inputs are and to know when memory gets short.
        return object.__sizeof__(self) + frames_bytes(self.frames)


class _Gone:
    """Stands for outputs that could not be made again after their worker died."""

    __slots__ = ("_why",)

    def __init__(self, why: str) -> None:
        self._why = why

    def __reduce__(self) -> tuple[Any, ...]:
        return _Gone, (self._why,)

    def __getitem__(self, _: str) -> _Gone:
        return self

    @property
    def frames(self) -> Any:
        raise RuntimeError(f"an input was lost with its worker, and made again: {self._why}")


class Announcement(WorkerPlugin):  # type: ignore[misc]  # Dask has no types
    """Makes the session of a round known to all workers, also to those that come later.

    Parameters
    ----------
    key, session
        As :func:`~dagprofiler.executors.jobs.announce` takes them.
    """

    def __init__(self, key: str, session: bytes) -> None:
        self._key = key
        self._session = session

    def setup(self, worker: Any) -> None:  # noqa: ARG002  (the worker's process is what counts)
        """Begin at a worker."""
        announce(self._key, self._session)

    def teardown(self, worker: Any) -> None:  # noqa: ARG002  (the same)
        """End at a worker."""
        withdraw(self._key)


def perform_job(job: Any, key: str, *inputs: Any) -> Any:
    """Do a job at a worker: tell what came of it, and return its outputs, which stay there.

    What is told arrives before Dask says that the job is done: both go the same way.
    """
    outcome = job([held.frames for held in inputs])
    outputs: Any = _Gone("its worker does not know of the run")
    if outcome is not None:
        worker, record, attempts = outcome
        times, payload, wire, frames, values, error, readings, spans = record
        if error is not None:
            outputs = _Gone(f"task {job.name!r} failed then")
        elif job.keep and sum(wire.values()) <= SMALL_BYTES:
            outputs = None
        else:
            held = {field: Held(data) for field, data in frames.items()}
            outputs = next(iter(held.values())) if len(held) == 1 else held
            frames = dict.fromkeys(frames)
        record = (times, payload, wire, frames, values, error, readings, spans)
        outcome = (worker, record, attempts)
    get_worker().log_event(TOPIC, (key, pickle.dumps(outcome, pickle.HIGHEST_PROTOCOL)))
    return outputs
