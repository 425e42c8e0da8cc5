"""SerialExecutor: one task after the other, in the thread that drives the run."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from dagprofiler._util import JsonObject
from dagprofiler._util.interpreter import HOSTNAME
from dagprofiler.config import Config
from dagprofiler.executors import RoundReport
from dagprofiler.graph.wiring import Wiring
from dagprofiler.measure.pipeline import RecordFields, Work, perform
from dagprofiler.serializers import Codec, Frames, Handle

if TYPE_CHECKING:
    from dagprofiler.measure.instruments import Instrumentation, Instruments
    from dagprofiler.measure.random import Streams


@dataclass
class SerialExecutor:
    """Runs each task when its result is requested.

    For each round the run loop calls :meth:`begin`, then :meth:`submit` and
    :meth:`next` for each task, and :meth:`end`. It never inspects the handle of an
    output; here that is the serialized value. A
    :class:`~dagprofiler.executors.dispatch.Dispatcher` has the same interface and
    uses an :class:`~dagprofiler.executors.Executor`.

    Attributes
    ----------
    config, streams
        Parameters of the run, and its random streams if it has a seed.
    name
        Its name in the profile.
    capacity
        How many tasks it accepts at once.
    serial
        Whether it runs one task after the other, so that Kahn's order is enough.
    workers
        The workers, in the form of the profile's ``timeline.workers``; the first is this thread.
        A journal adds those of earlier attempts at the run.
    """

    config: Config
    streams: Streams | None
    # On the instance, where the run loop, which reads it before each task, finds it faster.
    capacity: int = 1
    workers: list[JsonObject] = field(default_factory=list)
    name: ClassVar[str] = "serial"
    serial: ClassVar[bool] = True
    _instrumentation: Instrumentation | None = None
    _instruments: Instruments | None = None

    def begin(self, instrumentation: Instrumentation | None, wiring: Wiring) -> None:
        """Begin a round whose tasks are measured by these instruments, or by none."""
        if not self.workers:
            thread = threading.get_ident()
            self.workers.append({"host": HOSTNAME, "pid": os.getpid(), "thread": thread})
        if instrumentation is not self._instrumentation:
            self.close()
            self._instruments = instrumentation and instrumentation.open()
            self._instrumentation = instrumentation

    def submit(self, number: int, work: Work, handles: list[Handle]) -> None:
        """Keep task `number`; `handles` are those of its inputs, in order."""
        self._submitted = number, work, handles

    def next(self) -> tuple[int, int, RecordFields]:
        """Return a finished task's number, the index of its worker, and its record."""
        number, work, handles = self._submitted
        return number, 0, perform(work, handles, self.config, self.streams, self._instruments)

    @staticmethod
    def end() -> RoundReport:
        """Return an empty report: the run loop ran all tasks itself and never waited."""
        return RoundReport()

    @staticmethod
    def ahead_s(_: int) -> float:
        """Return 0: there is one clock."""
        return 0.0

    @staticmethod
    def put(frames: Frames) -> Handle:
        """Return the handle of a serialized value: itself."""
        return frames

    @staticmethod
    def value(handle: Handle, decode: Codec) -> Any:
        """Return the value of a handle."""
        return decode(handle)

    def close(self) -> None:
        """Close the instruments; called once after the last task."""
        instruments, self._instruments = self._instruments, None
        self._instrumentation = None
        if instruments is not None:
            instruments.close()
