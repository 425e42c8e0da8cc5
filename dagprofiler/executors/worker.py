"""Worker: which process and thread runs a task, and what ends it.

A task with a time limit runs in a process beside its worker, which can be ended.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from dagprofiler._util import Value
from dagprofiler._util.files import occupy_standard_streams
from dagprofiler._util.interpreter import HOSTNAME
from dagprofiler.errors import TaskTimeoutError, WorkerError
from dagprofiler.measure.machine import allocator_settings, clock_domain

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess

#: How long the process for tasks with a time limit stays without a task, in seconds.
_IDLE_S = 10.0
#: The longest time limit that is kept, in seconds: 23 days, as long as poll() waits.
_LONGEST_S = 2e6
#: How often to check that it still runs while it sends nothing, in seconds, and how long to wait
#: for its end when its connection is closed.
_END_S = 1.0

#: Whether Ctrl-C can be made to wait; it cannot on Windows.
_MASKS = hasattr(signal, "pthread_sigmask")


class Worker(NamedTuple):
    """The worker that ran a task.

    Attributes
    ----------
    host, pid, thread
        As in the profile's ``timeline.workers``.
    clock
        Its clock domain: workers of the same domain read the same clock.
    alone
        Whether no other task runs in its process: whether it is the main thread.
    allocator
        As of :func:`~dagprofiler.measure.machine.allocator_settings`.
    """

    host: str
    pid: int
    thread: int
    clock: str
    alone: bool
    allocator: tuple[tuple[str, str], ...] = ()


def this_worker() -> Worker:
    """Return the worker that this thread is."""
    # Outside of the main thread, other tasks or the engine run in the process.
    alone = threading.current_thread() is threading.main_thread()
    process = HOSTNAME, os.getpid(), threading.get_ident(), clock_domain()
    return Worker(*process, alone, allocator_settings())


#: The processes with which this one ends.
_parents: set[int] = set()


def end_with(parent: int) -> None:
    """End this worker process when the process that started it ends, even if it is killed.

    Parameters
    ----------
    parent
        The id of that process.

    Notes
    -----
    A thread waits for it without ever waking up, so that it does not disturb measurements. On
    Linux it waits for the process itself, elsewhere for multiprocessing's sentinel, which in a
    forked worker does not fire while another forked worker without a task is alive.
    """
    from multiprocessing import parent_process

    if parent in _parents:
        return
    _parents.add(parent)
    ends: list[int] = []
    process = parent_process()
    if process is not None and process.pid == parent and process.sentinel is not None:
        ends.append(process.sentinel)
    with suppress(OSError, AttributeError):
        ends.append(os.pidfd_open(parent))
    if ends:
        threading.Thread(target=_end_after, args=(ends,), daemon=True).start()


def _end_after(ends: list[int]) -> None:
    from multiprocessing.connection import wait

    wait(ends)
    os._exit(1)


class TimeLimitProcess(threading.local):
    """The process beside this thread that runs its tasks with time limits, while there is one."""

    process: Any = None
    connection: Any = None
    #: The environment that it inherited: engines say there which GPUs a task has.
    environment: dict[str, str]
    #: The worker that it is.
    worker: Worker

    def call(
        self, perform: Callable[[list[Any]], Value], inputs: list[Any], limit_s: float, task: str
    ) -> tuple[Worker, Value | Exception]:
        """Call a function in the process, and end that at the time limit.

        Parameters
        ----------
        perform, inputs
            The function, and its argument, a list that is cleared once it is sent.
        limit_s
            In seconds, above 0; it counts from the moment at which the process has the inputs.
        task
            The name of the task that the function performs, for errors.

        Returns
        -------
        tuple
            The worker that the process was, and what the function returned, or a
            TaskTimeoutError, or a WorkerError if the process has ended.

        Raises
        ------
        RuntimeError
            If the process cannot be started.
        """
        data = pickle.dumps((perform, inputs), pickle.HIGHEST_PROTOCOL)
        inputs.clear()
        error: Exception
        try:
            self._send(data)
            begun = perf_counter()
            if self.connection.poll(min(limit_s, _LONGEST_S)):
                return self.worker, pickle.loads(self.connection.recv_bytes())
            error = TaskTimeoutError(task, limit_s, perf_counter() - begun)
        except (EOFError, OSError):
            self.process.join(_END_S)
            reason = f"its process ended with exit code {self.process.exitcode}"
            error = WorkerError(task, [], reason)
        except BaseException:
            # Ctrl-C.
            self._end()
            raise
        self._end()
        return self.worker, error

    def _send(self, data: bytes) -> None:
        """Send a call to the process, or else to a new one, and wait until it begins."""
        if self.process is not None and self.environment == {**os.environ}:
            # It has ended if it had no task for long.
            with suppress(EOFError, OSError):
                self._hand_over(data)
                return
        self._end()
        self.environment = {**os.environ}
        try:
            self.process, self.connection = spawned(_serve)
            self.worker = pickle.loads(self.connection.recv_bytes())
        except (EOFError, OSError) as error:
            raise RuntimeError(
                "no process can be started for tasks with a time limit; a program whose "
                "workers are processes needs to start under if __name__ == '__main__':"
            ) from error
        self._hand_over(data)

    def _hand_over(self, data: bytes) -> None:
        self.connection.send_bytes(data)
        received(self.process, self.connection)

    def _end(self) -> None:
        """End the process, if there is one, and those that it has started."""
        process, self.process = self.process, None
        if process is not None:
            end_process(process, self.connection)


def spawned(target: Callable[..., None], *arguments: object) -> tuple[SpawnProcess, Connection]:
    """Start a process by multiprocessing's "spawn"; return it, and the connection to it.

    Parameters
    ----------
    target
        Called there with the other end of the connection, the id of this process and the
        `arguments`; it calls :func:`at_interrupt`.
    """
    import multiprocessing as mp
    from multiprocessing.reduction import ForkingPickler
    from multiprocessing.resource_tracker import ensure_running

    # Engines start daemons, which may not start others; this one ends with its worker.
    mp.current_process().daemon = False
    key = mp.current_process().authkey
    if type(key).__module__ == "billiard.process":
        # Celery's own kind, which does not travel.
        ForkingPickler.register(type(key), lambda key: (bytes, (bytes(key),)))
    context = mp.get_context("spawn")
    occupy_standard_streams()
    connection, theirs = context.Pipe()
    process = context.Process(target=target, args=(theirs, os.getpid(), *arguments), daemon=True)
    main, lost = vars(sys.modules["__main__"]), {}
    if not os.path.exists(main.get("__file__") or os.curdir):
        # A program that was read from a pipe, which cannot be read again.
        lost["__file__"] = main.pop("__file__")
    # The process inherits the start method, and does not know that of loky.
    method = mp.get_start_method(allow_none=True)
    mp.set_start_method("spawn", force=True)
    if _MASKS:
        # The resource tracker starts with the first process, and would let Ctrl-C through.
        ensure_running()
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process.start()
    finally:
        if _MASKS:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        mp.set_start_method(method, force=True)
        main.update(lost)
        theirs.close()
    return process, connection


def at_interrupt(handler: signal.Handlers) -> None:
    """Set what Ctrl-C does in a process of :func:`spawned`, in which it has waited until now."""
    signal.signal(signal.SIGINT, handler)
    if _MASKS:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


@contextmanager
def interrupted_later() -> Iterator[None]:
    """Delay Ctrl-C until the body has started or ended a cluster.

    In the middle of it, Ctrl-C would leave a cluster that can be neither used nor ended.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed: list[Any] = []
    before = signal.signal(signal.SIGINT, lambda *what: pressed.append(what))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        # Also if it failed: who pressed Ctrl-C waits for that, not for the error.
        if pressed and callable(before):
            before(*pressed[0])


def received(process: SpawnProcess, connection: Connection) -> bytes:
    """Return what a process sends next; raise an EOFError if it ends without."""
    # Processes that its tasks have left may keep its end of the connection open after its end.
    while not connection.poll(_END_S):
        if not process.is_alive() and not connection.poll():
            raise EOFError
    return connection.recv_bytes()


def end_process(process: Any, connection: Connection) -> None:
    """Close the connection, and end a process and those of its group."""
    connection.close()
    if process.is_alive():
        # Windows has no groups of processes.
        with suppress(OSError, AttributeError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.join()


#: The process of each thread.
time_limit_process = TimeLimitProcess()


def _serve(connection: Connection, parent: int) -> None:
    """Answer calls until there are none for a while, or the worker has ended."""
    from multiprocessing import active_children, current_process

    # The worker receives Ctrl-C, and ends this process with all processes of its tasks.
    at_interrupt(signal.SIG_IGN)
    if hasattr(os, "setsid"):
        os.setsid()
    # Tasks may start processes, too, which daemons may not.
    current_process().daemon = False
    end_with(parent)
    send: Callable[[bytes], None] = connection.send_bytes
    with suppress(EOFError, OSError):
        send(pickle.dumps(this_worker()))
        # It stays as long as its tasks' processes run: its end would wait for theirs.
        while connection.poll(None if active_children() else _IDLE_S):
            perform, inputs = pickle.loads(connection.recv_bytes())
            send(b"")
            send(pickle.dumps(perform(inputs), pickle.HIGHEST_PROTOCOL))
