"""The part of DaskExecutor that runs in Dask's workers and scheduler, which import this module."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from dagprofiler.errors import needs_extra
from dagprofiler.executors.jobs import Job
from dagprofiler.serializers import frames_bytes

with needs_extra("DaskExecutor", "dask"):
    from distributed import SchedulerPlugin, get_worker

#: One topic for all runs: a scheduler keeps the last events of each topic forever.
TOPIC = "dagprofiler"

#: Outputs up to this size are sent with the record, and values with the jobs: to fetch one takes as
#: long as a task.
SMALL_BYTES = 10_000


@dataclass
class Held:
    """The serialized value of one output, as a worker holds it."""

    frames: Any

    def __sizeof__(self) -> int:
        # Dask uses it to place tasks near their inputs, and to limit memory.
        return object.__sizeof__(self) + frames_bytes(self.frames)


class Anywhere(SchedulerPlugin):  # type: ignore[misc]  # Dask has no types
    """Lets a task whose worker has gone, with all others, run on any that comes.

    Dask itself would wait for that worker.

    Parameters
    ----------
    run
        What the keys of the run begin with.
    """

    def __init__(self, run: str) -> None:
        self._run = run
        self._scheduler: Any = None

    async def start(self, scheduler: Any) -> None:
        """Remember the scheduler."""
        self._scheduler = scheduler

    def transition(self, key: Any, start: str, finish: str, *_: Any, **__: Any) -> None:
        """Forget the worker of a task that no worker can run."""
        if finish == "no-worker" and str(key).startswith(self._run):
            self._scheduler.tasks[key].worker_restrictions = None


def perform_job(job: Job, key: str, *inputs: Any) -> Any:
    """Run a job in a worker: send its result as an event, return its large outputs, which stay.

    The event arrives before Dask reports that the job is done: both use the same stream.
    """
    if not all(isinstance(data, Held) for data in inputs):
        raise RuntimeError("an input was lost with its worker and could not be computed again")
    begun = perf_counter()
    result = job([held.frames for held in inputs])
    took_s = perf_counter() - begun
    stay: dict[tuple[int, str], Held] = {}

    def leave(k: int, field: str, frames: Any) -> Any:
        if result.records[k].wire_bytes[field] <= SMALL_BYTES:
            return frames
        stay[k, field] = Held(frames)
        return None

    sent = result.replace(leave)
    packed, worker = pickle.dumps(sent, pickle.HIGHEST_PROTOCOL), get_worker()
    worker.log_event(TOPIC, (key, worker.address, took_s, packed))
    return next(iter(stay.values())) if len(stay) == 1 else stay
