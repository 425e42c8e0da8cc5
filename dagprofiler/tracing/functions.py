"""What a Tracer records in tasks, also functions of named modules without annotations."""

from __future__ import annotations

import sys
import threading
from functools import lru_cache
from importlib import import_module
from inspect import currentframe
from types import CodeType, FrameType, ModuleType
from typing import Any, NamedTuple

from dagprofiler._util.interpreter import SPANS_OF_A_TASK, Collection
from dagprofiler.errors import TraceError, explained, short_repr
from dagprofiler.tracing._recorder import switch
from dagprofiler.tracing._spans import clock, collection_here, instant, record

#: Ids of ``sys.monitoring``: that of profilers, and two unassigned ones.
_TOOLS = (2, 3, 4)

#: What a callback returns for code whose events are of no interest.
_DISABLE: Any = getattr(getattr(sys, "monitoring", None), "DISABLE", None)


class _Begun(threading.local):
    """The calls that have begun and not ended in this thread: their code, and when they began."""

    # For each traced call, a dictionary of threads would take a tenth longer.
    def __init__(self) -> None:
        self.calls: list[tuple[CodeType, float]] = []


class Functions:
    """Records a span for each call of a function of some modules, in the tasks that started it.

    Parameters
    ----------
    modules
        Names of the modules; a package includes all of its modules.
    floor_ms
        Shorter calls are not recorded, so that traces stay small; at least 0.

    Notes
    -----
    From Python 3.12 on it uses ``sys.monitoring``: it records all threads, and code of other
    modules costs next to nothing. Before, it uses ``sys.setprofile``: it records the thread that
    starts it, and every call costs. Generators and coroutines have
    a span for each time they run, from when they are resumed until they wait.
    """

    def __init__(self, modules: tuple[str, ...], floor_ms: float) -> None:
        self._modules, self._floor_s = modules, floor_ms / 1000
        #: Id of each code object that ran so far to name and category of its spans (None for code
        #: that is not recorded), and the code.
        self._labels: dict[int, tuple[tuple[str, str] | None, CodeType]] = {}
        self._begun = _Begun()
        self._lock = threading.Lock()
        #: How many have started it.
        self._users = 0
        self._tool = -1

    def start(self) -> None:
        """Begin to record, in this thread before Python 3.12; other users may have started it.

        Raises
        ------
        TraceError
            If another profiler is active in this thread, or all profiler ids are taken.
        """
        if sys.version_info < (3, 12):
            if sys.getprofile() is not None:
                raise TraceError("another profiler is active in this thread; only one is possible")
            self._begun.calls = []
            sys.setprofile(self._profile)
            return
        with self._lock:
            if not self._users:
                self._start_monitoring()
            self._users += 1

    def stop(self) -> None:
        """End recording; calls that have not returned are not recorded."""
        if sys.version_info < (3, 12):
            # A task may have set a profiler of its own.
            if sys.getprofile() == self._profile:
                sys.setprofile(None)
            return
        with self._lock:
            self._users -= 1
            if not self._users:
                monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
                monitoring.set_events(self._tool, 0)
                monitoring.free_tool_id(self._tool)
                self._begun = _Begun()

    def _label(self, code: CodeType) -> tuple[str, str] | None:
        """Return name and category of the spans of code that runs; None if it has none."""
        if id(code) not in self._labels:
            frame, label = currentframe(), None
            while frame is not None and frame.f_code is not code:
                frame = frame.f_back
            name = "" if frame is None else str(frame.f_globals.get("__name__"))
            # A spawned process runs the main module under another name.
            name = "__main__" if name == "__mp_main__" else name
            for module in self._modules:
                if f"{name}.".startswith(f"{module}."):
                    label = getattr(code, "co_qualname", code.co_name), module
            # The reference to the code keeps its id valid.
            self._labels[id(code)] = label, code
        return self._labels[id(code)][0]

    def _begin(self, code: CodeType, *_: Any) -> Any:
        if self._label(code) is None:
            return _DISABLE
        self._begun.calls.append((code, clock()))
        return None

    def _end(self, code: CodeType, *_: Any) -> Any:
        end = clock()
        label = self._label(code)
        if label is None:
            return _DISABLE
        # Calls that began after it may have ended without an event.
        begun = self._begun.calls
        while begun:
            other, start = begun.pop()
            if other is code:
                if end - start >= self._floor_s and collection_here().functions is self:
                    record("span", *label, start, end)
                break
        return None

    def _profile(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            self._begin(frame.f_code)
        elif event == "return":
            self._end(frame.f_code)

    def _start_monitoring(self) -> None:
        def thrown(code: CodeType, *_: Any) -> None:
            self._begin(code)

        def unwound(code: CodeType, *_: Any) -> None:
            self._end(code)

        monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
        free = [tool for tool in _TOOLS if monitoring.get_tool(tool) is None]
        if not free:
            raise TraceError("other profilers have taken all ids of sys.monitoring")
        self._tool, events = free[0], monitoring.events
        callbacks = {
            events.PY_START: self._begin,
            events.PY_RESUME: self._begin,
            events.PY_RETURN: self._end,
            events.PY_YIELD: self._end,
            # Events of exceptions cannot be disabled at a place in the code.
            events.PY_THROW: thrown,
            events.PY_UNWIND: unwound,
        }
        monitoring.use_tool_id(self._tool, "dagprofiler")
        for event, callback in callbacks.items():
            monitoring.register_callback(self._tool, event, callback)
        monitoring.set_events(self._tool, sum(callbacks))
        # Enable events that an earlier collector disabled.
        monitoring.restart_events()


class Tracing(NamedTuple):
    """What to record inside of tasks; sent to workers.

    Attributes
    ----------
    limit
        How many spans of each thread of a task are kept, the first ones; others are counted.
    modules
        Names of the modules whose functions are recorded without annotations.
    floor_ms
        Shorter calls of these functions are not recorded, in milliseconds.
    """

    limit: int
    modules: tuple[str, ...]
    floor_ms: float

    def start(self) -> Collection:
        """Begin recording the task that is about to compute in this thread, and return it."""
        task = collection_here()
        task.limit = self.limit
        switch(+1)
        if self.modules:
            functions = _functions(self.modules, self.floor_ms)
            try:
                functions.start()
                task.functions = functions
            except TraceError as error:
                instant("functions are not recorded", why=str(error))
        return task

    def stop(self, task: Collection) -> None:
        """End recording a task."""
        switch(-1)
        # The next task of this thread may use the same collection.
        task.limit = SPANS_OF_A_TASK
        if task.functions is not None:
            task.functions.stop()
            task.functions = None


#: Returns the :class:`Functions` for these arguments, which all tasks of this process share.
_functions = lru_cache(maxsize=16)(Functions)


def module_name(module: ModuleType | str) -> str:
    """Return the name of a module, which may be given by its name.

    Raises
    ------
    TraceError
        If it is not found or is not written in Python, so that its calls are not seen.
    """
    if isinstance(module, str):
        with explained(TraceError, f"module {module!r} is not found", of=ImportError):
            module = import_module(module)
    name, file = getattr(module, "__name__", ""), getattr(module, "__file__", None)
    # The main module of a notebook has no file.
    if name != "__main__" and not str(file).endswith(".py"):
        raise TraceError(f"{short_repr(module)} is no module that is written in Python")
    return name
