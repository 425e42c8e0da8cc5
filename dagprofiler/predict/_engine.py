"""Engine: what an executor adds to the times of tasks, as measured on that executor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from dagprofiler._util import JsonObject
from dagprofiler.errors import ProfileError, explained, short_repr
from dagprofiler.graph.replay import NO_OVERHEAD, Overhead


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
    overhead
        What it adds to each task, and the cores that its workers share.
    write_ms, read_ms
        Time to hand over a value of 0.2 MB, and one of 2 MB, outside the phases of the tasks:
        of the worker that made it, and of each that reads it.
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

    #: Runs whose predictions tell the error.
    RUNS: ClassVar[int] = 12
    #: Sizes of the values of which it has times.
    VALUE_BYTES: ClassVar[tuple[int, int]] = (200_000, 2_000_000)

    executor: str
    host: str
    workers: int
    overhead: Overhead
    write_ms: tuple[float, float] = (0.0, 0.0)
    read_ms: tuple[float, float] = (0.0, 0.0)
    shares_memory: bool = False
    allocator: Mapping[str, str] = field(default_factory=dict)
    error: float = 0.0
    arrays: float = 1.0
    error_elsewhere: float = 0.0

    def to_dict(self) -> JsonObject:
        """Return the engine as stored in a profile's section ``engine``, which has no levels."""
        values = {**vars(self), **self.overhead._asdict()}
        del values["overhead"]
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in values.items()
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
        costs = {name: values.pop(name) for name in Overhead._fields if name in values}
        with explained(ProfileError, f"engine {short_repr(data)}", of=TypeError):
            return cls(overhead=Overhead(**costs), **values)

    def handing_over_ms(self, size_bytes: float) -> tuple[float, float]:
        """Return the times to write and to read a value, by lines between the sizes measured."""
        small, large = self.VALUE_BYTES
        beyond = max(0.0, size_bytes - small) / (large - small)
        part = min(1.0, size_bytes / small)
        write, read = (a * part + (b - a) * beyond for a, b in (self.write_ms, self.read_ms))
        return write, read

    def __str__(self) -> str:
        write, read = (f"{a:.3f} and {b:.3f} ms" for a, b in (self.write_ms, self.read_ms))
        costs = self.overhead
        factors = ", ".join(f"{factor:.2f}" for factor in costs.contention)
        return (
            f"{self.executor} on {self.host}: {self.workers} workers, {costs.cores} cores\n"
            f"latency {costs.latency_ms:.3f} ms, gap {costs.gap_ms:.3f} ms, start "
            f"{costs.start_ms:.3f} ms a worker\n"
            f"driver {costs.driver_ms:.3f} ms and worker {costs.worker_ms:.3f} ms a task, "
            f"{costs.always:.3f} cores a worker all the time\n"
            f"values of 0.2 and 2 MB: {write} to write, {read} to read\n"
            f"computing with 1, 2, ... workers at once takes {factors} times as long\n"
            f"predictions of single runs were off by {self.error:.1%}, from rounds elsewhere by "
            f"{self.error_elsewhere:.1%}"
        )


#: That of a simulation without an engine: it costs nothing.
NO_ENGINE = Engine("simulated", "", 1, NO_OVERHEAD)
