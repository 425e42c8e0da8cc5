"""What of this process a run depends on: its threads, its modules, what the program asked for.

All of it may change while somebody looks: in other threads, and inside of a task.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from contextvars import ContextVar
from typing import Any

#: The calibration that the program itself has asked for, once it has.
asked_for: list[Any] = []

#: Where the spans of this context go, if it has a place of its own.
sink: ContextVar[Any] = ContextVar("sink")


class TaskThread:
    """A thread that computes tasks, as code inside of them finds it.

    Attributes
    ----------
    busy
        Whether a task computes in it.
    spans
        The :class:`~dagprofiler.tracing.collection.Collection` of what is recorded in its
        tasks, one after the other; None before tracing is imported.
    thread
        The number by which Python knows its thread.
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
        """Return what computes tasks in this thread while a task in it, which runs them, waits."""
        if self._inner is None:
            self._inner = TaskThread()
        here.worker = self._inner
        return self._inner

    def innermost(self) -> TaskThread:
        """Return what computes the innermost task in this thread, or this one if none does."""
        inner = self._inner
        return inner.innermost() if inner is not None and inner.busy else self


class _Recording:
    """What tracing has to say to runs, which do not import it.

    Attributes
    ----------
    off
        Whether this process records nothing by its own choice.
    tracing
        Has ``begin(worker)``, called before its first task, and ``place()``, which returns the
        :data:`sink` of a run that begins in this thread; None before tracing is imported.
    """

    __slots__ = ("off", "tracing")

    def __init__(self) -> None:
        self.off = False
        self.tracing: Any = None


class _ThisThread(threading.local):
    """The worker of this thread: of the innermost task, if tasks in it run others."""

    def __init__(self) -> None:
        self.worker = TaskThread()


def workers() -> list[TaskThread]:
    """Return all workers there are."""
    # Other threads may add some meanwhile, or end.
    alive = [worker() for worker in _workers[:]]
    return [worker for worker in alive if worker is not None]


def imported(name: str) -> Any:
    """Return the module of this name if it has been imported completely, else None.

    While a thread imports a module, other threads find in ``sys.modules`` what there is of it.
    """
    module = sys.modules.get(name)
    spec = getattr(module, "__spec__", None)
    return None if getattr(spec, "_initializing", False) else module


def _begin_anew() -> None:
    """Forget, in a process that was forked, what its parent computes."""
    _workers.clear()
    here.worker = TaskThread()


_workers: list[weakref.ref[TaskThread]] = []
recording = _Recording()
here = _ThisThread()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
