"""Automatic mode: functions of named modules, recorded without annotations, also in tasks."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from importlib.util import find_spec
from types import CodeType, FrameType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from dagprofiler._util.checks import number
from dagprofiler._util.interpreter import SPANS_OF_A_TASK, Collection, recording
from dagprofiler.errors import TraceError, describe, did_you_mean, short_repr
from dagprofiler.tracing._recorder import switch
from dagprofiler.tracing._state import clock, collection_here, note, record

if TYPE_CHECKING:
    from typing_extensions import Self


#: Ids of ``sys.monitoring``: that of profilers, and two unassigned ones.
_TOOLS = (2, 3, 4)

#: What a callback returns for code whose events are of no interest.
_DISABLE: Any = getattr(getattr(sys, "monitoring", None), "DISABLE", None)


class FunctionCollector:
    """Records a span for each call of a function of some modules, while it is started.

    Parameters
    ----------
    modules
        Modules or their names; a package includes all of its modules.
    floor_ms
        Shorter calls are not recorded, so that traces stay small; at least 0.
    collected_only
        Whether calls outside of every :func:`collecting` are not recorded.
    places
        The :attr:`places` of another process: code that was sent from there may not be
        importable here by its module's name.

    Raises
    ------
    TraceError
        If a module is not found or is not written in Python, or `floor_ms` is invalid.

    Notes
    -----
    From Python 3.12 on it uses ``sys.monitoring``: it records all threads, and code of other
    modules costs next to nothing. Before, it uses ``sys.setprofile``: it records the thread that
    starts it, and every call costs. Generators and coroutines have
    a span for each time they run, from when they are resumed until they wait.

    Examples
    --------
    >>> import textwrap
    >>> from dagprofiler.tracing import collecting
    >>> with collecting() as collection, FunctionCollector([textwrap], floor_ms=0):
    ...     text = textwrap.fill("some words")
    >>> "fill" in [span.name for span in collection.spans()]
    True
    """

    def __init__(
        self,
        modules: Iterable[ModuleType | str],
        *,
        floor_ms: float = 0.1,
        collected_only: bool = False,
        places: Iterable[tuple[str, str]] = (),
    ) -> None:
        if isinstance(modules, (str, ModuleType)):
            modules = [modules]
        if not hasattr(modules, "__iter__"):
            raise TraceError(f"functions={short_repr(modules)}: expected modules or their names")
        floor_ms = number("floor_ms", floor_ms, zero=True, unit="milliseconds", error=TraceError)
        self._floor_s = floor_ms / 1000
        self._places = dict(map(_place_of, modules))
        for place, name in places:
            self._places[place] = name
            with suppress(TraceError):
                self._places[_place_of(name)[0]] = name
        self._collected_only = collected_only
        #: Id of each code object seen so far to its label, None if not recorded, and itself.
        self._seen: dict[int, tuple[tuple[str, str] | None, CodeType]] = {}
        #: The calls that have begun and not ended, of each thread.
        self._open = threading.local()
        self._lock = threading.Lock()
        #: How many have started it.
        self._users = 0
        self._tool: int | None = None

    @property
    def places(self) -> tuple[tuple[str, str], ...]:
        """The path of the code of each module, and the module's name."""
        return tuple(self._places.items())

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
            self._open.begun = []
            sys.setprofile(self._profile)
            return
        with self._lock:
            if not self._users:
                self._start_monitoring()
            self._users += 1

    def stop(self) -> None:
        """End recording; calls that have not returned are not recorded."""
        if sys.version_info < (3, 12):
            if getattr(sys.getprofile(), "__self__", None) is self:
                sys.setprofile(None)
            return
        with self._lock:
            if self._users:
                self._users -= 1
                if not self._users:
                    self._stop_monitoring()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _label(self, code: CodeType) -> tuple[str, str] | None:
        """Return name and category of a code's spans; None if it is not recorded."""
        if id(code) not in self._seen:
            label = None
            for place, module in self._places.items():
                file = code.co_filename
                if file == place or (place.endswith(os.sep) and file.startswith(place)):
                    label = getattr(code, "co_qualname", code.co_name), module
            # The reference to the code keeps its id valid.
            self._seen[id(code)] = (label, code)
        return self._seen[id(code)][0]

    def _begin(self, code: CodeType, *_: Any) -> Any:
        if self._label(code) is None:
            return _DISABLE
        vars(self._open).setdefault("begun", []).append((code, clock()))
        return None

    def _end(self, code: CodeType, *_: Any) -> Any:
        end = clock()
        label = self._label(code)
        if label is None:
            return _DISABLE
        begun = vars(self._open).get("begun")
        # Others on top of it had no event for their return.
        while begun:
            other, start = begun.pop()
            if other is code:
                if end - start >= self._floor_s and self._is_wanted():
                    record("span", *label, start, end)
                break
        return None

    def _is_wanted(self) -> bool:
        if self._collected_only:
            return collection_here().functions is self
        return not recording.off

    def _profile(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            self._begin(frame.f_code)
        elif event == "return":
            self._end(frame.f_code)

    def _callbacks(self) -> dict[int, Any]:
        def thrown(code: CodeType, *_: Any) -> None:
            self._begin(code)

        def unwound(code: CodeType, *_: Any) -> None:
            self._end(code)

        events: Any = sys.monitoring.events  # type: ignore[attr-defined,unused-ignore]
        return {
            events.PY_START: self._begin,
            events.PY_RESUME: self._begin,
            events.PY_RETURN: self._end,
            events.PY_YIELD: self._end,
            # Events of exceptions cannot be disabled at a place in the code.
            events.PY_THROW: thrown,
            events.PY_UNWIND: unwound,
        }

    def _start_monitoring(self) -> None:
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
        for tool in _TOOLS:
            with suppress(ValueError):
                monitoring.use_tool_id(tool, "dagprofiler")
                break
        else:
            raise TraceError("other profilers have taken all ids of sys.monitoring")
        self._tool = tool
        callbacks = self._callbacks()
        for event, callback in callbacks.items():
            monitoring.register_callback(tool, event, callback)
        monitoring.set_events(tool, sum(callbacks))
        # Enable events that an earlier collector disabled.
        monitoring.restart_events()

    def _stop_monitoring(self) -> None:
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
        monitoring.set_events(self._tool, 0)
        for event in self._callbacks():
            monitoring.register_callback(self._tool, event, None)
        monitoring.free_tool_id(self._tool)
        self._tool = None
        self._open = threading.local()


class Tracing(NamedTuple):
    """What to record inside of tasks; sent to workers, where :meth:`open` begins.

    Attributes
    ----------
    limit
        How many spans of each thread of a task are kept, the first ones; others are counted.
    places
        Paths of the code whose functions are recorded without annotations, and the names of
        its modules.
    floor_ms
        Shorter calls of these functions are not recorded, in milliseconds.
    """

    limit: int
    places: tuple[tuple[str, str], ...]
    floor_ms: float

    def open(self) -> OpenTracing:
        """Return the recorder of the calling thread."""
        return OpenTracing(self)


class OpenTracing:
    """Records what a Tracer requests in the tasks of one thread."""

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing
        self._task: Collection | None = None

    def start(self) -> None:
        """Begin recording the task that is about to compute in this thread."""
        self._task = task = collection_here()
        task.limit = self._tracing.limit
        switch(+1)
        if self._tracing.places:
            collector = _collector(self._tracing)
            try:
                collector.start()
            except TraceError as error:
                note("functions are not recorded", why=str(error))
            else:
                task.functions = collector

    def stop(self) -> None:
        """End recording the task, if it was begun."""
        task, self._task = self._task, None
        if task is not None:
            switch(-1)
            # It may be that of the next task, too.
            task.limit = SPANS_OF_A_TASK
            if task.functions is not None:
                task.functions.stop()
                task.functions = None


@lru_cache(maxsize=16)
def _collector(tracing: Tracing) -> FunctionCollector:
    """Return the collector that all tasks of this process share."""
    return FunctionCollector(
        (), floor_ms=tracing.floor_ms, collected_only=True, places=tracing.places
    )


def _place_of(module: ModuleType | str) -> tuple[str, str]:
    """Return the path of the code of a module or package, and its name."""
    if not isinstance(module, (str, ModuleType)):
        raise TraceError(f"functions: expected a module or its name, got {short_repr(module)}")
    if isinstance(module, str):
        name, file = module, _file_of(module)
    else:
        name, file = module.__name__, getattr(module, "__file__", None)
    if not file or not file.endswith(".py"):
        raise TraceError(f"module {name!r} is not written in Python, so its calls are not seen")
    folder, base = os.path.split(file)
    return (folder + os.sep if base == "__init__.py" else file), name


def _file_of(name: str) -> str | None:
    if name in sys.modules:
        return getattr(sys.modules[name], "__file__", None)
    try:
        spec = find_spec(name)
    except (ImportError, ValueError) as error:
        raise TraceError(f"module {name!r} is not found: {describe(error)}") from error
    if spec is None:
        raise TraceError(f"module {name!r} is not found{did_you_mean(name, list(sys.modules))}")
    return spec.origin
