"""Time limits: a task that has one runs in a process beside its worker, which can be ended."""

from __future__ import annotations

import os
import pickle
import threading
from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING, Any

from dagprofiler.errors import PackedError, TaskTimeoutError, WorkerError

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

    from dagprofiler.executors.jobs import PackedJob

#: How long the process stays without a task, in seconds.
_IDLE_S = 10.0
#: How long it may take to end when its connection is closed, in seconds.
_END_S = 1.0


class _Beside(threading.local):
    """The process beside this thread of a worker, while there is one."""

    process: Any = None
    connection: Any = None
    #: The environment that it inherited: engines say there which GPUs a task has.
    environment: dict[str, str]
    #: The worker that it is.
    worker: tuple[Any, ...]

    def perform(self, job: PackedJob, frames: list[Any], limit_s: float) -> tuple[Any, ...] | None:
        """Perform a job, and end the process at the time limit; see :func:`perform_limited`."""
        from dagprofiler.executors.jobs import failed

        data = pickle.dumps((job, frames), pickle.HIGHEST_PROTOCOL)
        frames.clear()
        error: Exception
        try:
            try:
                self._send(data)
            except (EOFError, OSError):
                # It had no task for long, and has ended.
                self._end()
                self._send(data)
            begun = perf_counter()
            if self.connection.poll(limit_s):
                outcome: tuple[Any, ...] | None = pickle.loads(self.connection.recv_bytes())
                return outcome
            error = TaskTimeoutError(job.name, limit_s, perf_counter() - begun)
        except (EOFError, OSError):
            self.process.join(_END_S)
            reason = f"its process ended with exit code {self.process.exitcode}"
            error = WorkerError(job.name, [], reason)
        except BaseException:
            # Ctrl-C.
            self._end()
            raise
        self._end()
        return self.worker, failed(PackedError(error)), ()

    def _send(self, data: bytes) -> None:
        """Send a job, and wait until it begins."""
        if self.process is None or self.environment != {**os.environ}:
            self._end()
            try:
                self._start()
            except (EOFError, OSError) as error:
                raise RuntimeError(
                    "no process can be started for tasks with a time limit; a program whose "
                    "workers are processes needs to start under if __name__ == '__main__':"
                ) from error
        self.connection.send_bytes(data)
        self.connection.recv_bytes()

    def _start(self) -> None:
        """Start the process, and wait until it is ready."""
        from multiprocessing import (
            current_process,
            get_context,
            get_start_method,
            set_start_method,
        )
        from multiprocessing.reduction import ForkingPickler

        # Engines start daemons, which may not start others; this one ends with its worker.
        current_process().daemon = False
        key = current_process().authkey
        if type(key).__module__ == "billiard.process":
            # Celery's own kind, which does not travel.
            ForkingPickler.register(type(key), lambda key: (bytes, (bytes(key),)))
        context = get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.environment = {**os.environ}
        process = context.Process(target=_serve, args=(theirs, os.getpid()), daemon=True)
        # The process inherits the start method, and knows no method of loky's.
        method = get_start_method(allow_none=True)
        set_start_method("spawn", force=True)
        try:
            process.start()
        finally:
            set_start_method(method, force=True)
        self.process = process
        theirs.close()
        self.worker = pickle.loads(self.connection.recv_bytes())

    def _end(self) -> None:
        """End the process, if there is one."""
        process, self.process = self.process, None
        if process is not None:
            self.connection.close()
            process.kill()
            process.join()


_beside = _Beside()


def perform_limited(job: PackedJob, frames: list[Any], limit_s: float) -> tuple[Any, ...] | None:
    """Perform a job in the process beside this thread, and end that at the time limit.

    Parameters
    ----------
    job
        It has its session.
    frames
        Its inputs.
    limit_s
        In seconds, above 0; it counts from the moment at which the process has the job.

    Returns
    -------
    tuple
        The fields of the job's result.

    Raises
    ------
    RuntimeError
        If the process cannot be started.
    """
    return _beside.perform(job, frames, limit_s)


def _serve(connection: Connection[Any, Any], parent: int) -> None:
    """Perform jobs until there are none for a while, or the worker has ended."""
    import signal

    from dagprofiler.executors.jobs import end_with, this_worker

    # The worker hears of Ctrl-C, and ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with(parent)
    send: Callable[[bytes], None] = connection.send_bytes
    with suppress(EOFError, OSError):
        send(pickle.dumps(this_worker()))
        while connection.poll(_IDLE_S):
            job, frames = pickle.loads(connection.recv_bytes())
            send(b"")
            send(pickle.dumps(job.perform(frames), pickle.HIGHEST_PROTOCOL))
