"""What runs depend on in this process: its host, threads, modules, calibration and tracing.

All but the host may change at any time: in other threads, and inside a task.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from contextvars import ContextVar
from typing import Any

if hasattr(os, "uname"):
    _hostname = os.uname().nodename
else:
    # Its import takes 3 ms, on Windows only.
    import platform

    _hostname = platform.node()

#: The name of this machine.
HOSTNAME: str = _hostname

#: The calibration that the program requested, if any.
asked_for: list[Any] = []

#: Destination of the spans of this context, if it has its own.
sink: ContextVar[Any] = ContextVar("sink")


class TaskThread:
    """A thread that computes tasks, as seen by code inside them.

    Attributes
    ----------
    busy
        Whether a task is running in it.
    spans
        The :class:`~dagprofiler.tracing.collection.Collection` of the spans of its
        tasks; None before tracing is imported.
    thread
        Its number, as ``threading.get_ident()``.
    """

    __slots__ = ("__weakref__", "_inner", "busy", "spans", "thread")

    def __init__(self) -> None:
        self.busy = False
        self.spans: Any = None
        self.thread = threading.get_ident()
        self._inner: TaskThread | None = None
        _workers.append(weakref.ref(self, _workers.remove))
        if recording.tracing is not None:
            recording.tracing.begin(self)

    def inner(self) -> TaskThread:
        """Return the worker for tasks that a task in this thread runs itself."""
        if self._inner is None:
            self._inner = TaskThread()
        here.worker = self._inner
        return self._inner

    def innermost(self) -> TaskThread:
        """Return the worker of the innermost running task in this thread, or this one."""
        inner = self._inner
        return inner.innermost() if inner is not None and inner.busy else self


class _Recording:
    """The interface of tracing to runs, which do not import it.

    Attributes
    ----------
    off
        Whether recording is switched off in this process.
    tracing
        Has ``begin(worker)``, called before a worker's first task, and ``place()``, which returns
        the :data:`sink` of a run that begins in this thread; None before tracing is imported.
    """

    off = False
    tracing: Any = None


class _ThisThread(threading.local):
    """The worker of this thread: that of the innermost task, if tasks run others."""

    def __init__(self) -> None:
        self.worker = TaskThread()


def workers() -> list[TaskThread]:
    """Return all workers."""
    # Other threads may add workers meanwhile, or end.
    alive = [worker() for worker in _workers[:]]
    return [worker for worker in alive if worker is not None]


def imported(name: str) -> Any:
    """Return the module of this name if it has been imported completely, else None.

    While a thread imports a module, ``sys.modules`` holds it incomplete.
    """
    module = sys.modules.get(name)
    spec = getattr(module, "__spec__", None)
    return None if getattr(spec, "_initializing", False) else module


def _begin_anew() -> None:
    """Forget the workers of the parent in a forked process."""
    _workers.clear()
    here.worker = TaskThread()


_workers: list[weakref.ref[TaskThread]] = []
recording = _Recording()
here = _ThisThread()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
