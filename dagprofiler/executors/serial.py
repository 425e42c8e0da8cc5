"""SerialExecutor: one task after the other, in the thread that drives the run."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

from dagprofiler.machine import hostname
from dagprofiler.pipeline import perform

if TYPE_CHECKING:
    from dagprofiler.config import Config
    from dagprofiler.instruments import Instrumentation, Instruments

__all__ = ["SerialExecutor"]


class SerialExecutor:
    """Runs each task when its result is asked for.

    This is the shape of every executor: :meth:`submit` takes a task and the
    handles of its inputs, :meth:`next` gives back the next task that is done.
    The run loop never looks into a handle; here it is the serialized value.

    Attributes
    ----------
    name
        What the profile calls it.
    capacity
        How many tasks it can hold at once.
    workers
        Who runs tasks, in the form of the profile's ``timeline.workers``.
    """

    name = "serial"
    capacity = 1

    def __init__(self, config: Config, seed: int | None) -> None:
        self.workers: list[dict[str, Any]] = [
            {
                "host": hostname(),
                "pid": os.getpid(),
                "thread": threading.get_ident(),
            }
        ]
        self._config = config
        self._seed = seed
        self._submitted: tuple[int, tuple[Any, ...], list[Any]]
        self._instrumentation: Instrumentation | None = None
        self._instruments: Instruments | None = None

    def instrument(self, instrumentation: Instrumentation | None) -> None:
        """Measure the tasks that come from now on by these instruments, or by none."""
        if instrumentation is not self._instrumentation:
            self.close()
            self._instruments = instrumentation and instrumentation.open()
            self._instrumentation = instrumentation

    def submit(self, number: int, work: tuple[Any, ...], handles: list[Any]) -> None:
        """Take task `number` over; `handles` stand for its inputs, in the order of the work."""
        self._submitted = number, work, handles

    def next(self) -> tuple[int, int, tuple[Any, ...]]:
        """Return a finished task's number, the index of its worker, and its record."""
        number, work, handles = self._submitted
        return number, 0, perform(work, handles, self._config, self._seed, self._instruments)

    def close(self) -> None:
        """Let go of the instruments; called once after the last task."""
        if self._instruments is not None:
            try:
                self._instruments.close()
            except BaseException:
                # Ctrl-C: what is closed stays closed, and nobody calls this again.
                self._instruments.close()
                raise
            self._instrumentation = self._instruments = None
