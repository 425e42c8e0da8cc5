"""Engine: what an executor adds to the times of tasks, as measured on that executor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import ClassVar

from dagprofiler._util import JsonObject
from dagprofiler.errors import ProfileError, explained, short_repr
from dagprofiler.graph.replay import Overhead


@dataclass(frozen=True)
class Engine:
    """What an executor adds to the times of tasks, as ``calibrate_engine(executor)`` measures it.

    Attributes
    ----------
    executor
        The executor's name in profiles.
    host
        Where it was calibrated.
    workers
        How many tasks it ran at once.
    latency_ms
        From sending a job to an idle worker until its record is back, without the task and
        without `driver_ms`.
    gap_ms
        Between two tasks of a worker, if the second was waiting.
    start_ms
        What the first task of each worker in a run takes more.
    driver_ms
        CPU time of the process that drives the run, for each task.
    worker_ms
        CPU time of a worker's process for each task, beside the task: of threads that receive,
        send and keep account. 0 if that process is the driver.
    always
        Cores that its processes use all the time, for each worker: for
        heartbeats, samples and polling.
    write_ms, read_ms
        Time to hand over a value of 0.2 MB, and one of 2 MB, outside the phases of the tasks:
        of the worker that made it, and of each that reads it.
    cores
        Cores that the workers of its machine share.
    contention
        How many times longer a computation takes while 1, 2, 3 ... workers compute: the
        geometric mean over kinds of work.
    shares_memory
        Whether its workers are threads of one process, which share the interpreter's lock.
    allocator
        The ``MALLOC_*`` variables with which its workers were started.
    arrays
        How many times longer an operation on an array of 1 MB takes on its workers than in the
        process that calibrated it, if their ``MALLOC_*`` variables differ; else 1.
    error
        How far predictions of single runs from rounds on its workers were off when it was
        calibrated, relative to the makespan: the root of the mean of the squares.
    error_elsewhere
        The same from rounds in the process that calibrated it.

    Notes
    -----
    Keep it with a profile as ``profile.sections["engine"] = engine.to_dict()``:
    :func:`simulate` finds it there.
    """

    #: Sizes of the values of which it has times.
    VALUE_BYTES: ClassVar[tuple[int, int]] = (200_000, 2_000_000)

    executor: str
    host: str
    workers: int
    latency_ms: float
    gap_ms: float
    driver_ms: float
    write_ms: tuple[float, float] = (0.0, 0.0)
    read_ms: tuple[float, float] = (0.0, 0.0)
    cores: int = 1
    contention: tuple[float, ...] = (1.0,)
    shares_memory: bool = False
    allocator: Mapping[str, str] = field(default_factory=dict)
    error: float = 0.0
    worker_ms: float = 0.0
    always: float = 0.0
    start_ms: float = 0.0
    arrays: float = 1.0
    error_elsewhere: float = 0.0

    def to_dict(self) -> JsonObject:
        """Return the engine as stored in a profile's section ``engine``."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self).items()
        }

    @classmethod
    def from_dict(cls, data: JsonObject) -> Engine:
        """Return the engine that a profile's section ``engine`` holds.

        Raises
        ------
        ProfileError
            If a field is missing or unknown.
        """
        values: JsonObject = {
            name: tuple(value) if isinstance(value, list) else value for name, value in data.items()
        }
        with explained(ProfileError, f"engine {short_repr(data)}", of=TypeError):
            return cls(**values)

    @property
    def overhead(self) -> Overhead:
        """What it adds to each task, as :func:`~dagprofiler.graph.replay.replay` takes it."""
        return Overhead(*(getattr(self, name) for name in Overhead._fields))

    def handing_over_ms(self, size_bytes: float) -> tuple[float, float]:
        """Return the times to write and to read a value, by lines between the sizes measured."""
        small, large = self.VALUE_BYTES
        beyond = max(0.0, size_bytes - small) / (large - small)
        part = min(1.0, size_bytes / small)
        write, read = (a * part + (b - a) * beyond for a, b in (self.write_ms, self.read_ms))
        return write, read

    def __str__(self) -> str:
        write, read = (f"{a:.3f} and {b:.3f} ms" for a, b in (self.write_ms, self.read_ms))
        factors = ", ".join(f"{factor:.2f}" for factor in self.contention)
        return (
            f"{self.executor} on {self.host}: {self.workers} workers, {self.cores} cores\n"
            f"latency {self.latency_ms:.3f} ms, gap {self.gap_ms:.3f} ms, start "
            f"{self.start_ms:.3f} ms a worker\n"
            f"driver {self.driver_ms:.3f} ms and worker {self.worker_ms:.3f} ms a task, "
            f"{self.always:.3f} cores a worker all the time\n"
            f"values of 0.2 and 2 MB: {write} to write, {read} to read\n"
            f"computing with 1, 2, ... workers at once takes {factors} times as long\n"
            f"predictions of single runs were off by {self.error:.1%}, from rounds elsewhere by "
            f"{self.error_elsewhere:.1%}"
        )
