"""Automatic mode: the functions of named modules, recorded without annotations."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from types import CodeType, FrameType, ModuleType
from typing import TYPE_CHECKING, Any

from dagprofiler._util.checks import number
from dagprofiler._util.interpreter import imported
from dagprofiler.errors import TraceError, describe, did_you_mean, short_repr
from dagprofiler.tracing._recording import Label, clock, record, state

if TYPE_CHECKING:
    from typing_extensions import Self


#: Ids of ``sys.monitoring``: that of profilers, and two unassigned ones.
_TOOLS = (2, 3, 4)


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
    starts it and threads that start later, and every call costs. Generators and coroutines have
    a span for each time they run, from when they are resumed until they wait.

    Examples
    --------
    >>> import textwrap
    >>> from dagprofiler.tracing import collecting
    >>> with collecting() as collection, FunctionCollector([textwrap], floor_ms=0):
    ...     text = textwrap.fill("some words")
    >>> "fill" in [label.name for label, _, _, _ in collection.packed().spans()]
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
        self._seen: dict[int, tuple[Label | None, CodeType]] = {}
        self._open = threading.local()
        self._tool: int | None = None
        #: The earlier profile functions: that of new threads, and that of each thread.
        self._before: Any = None
        self._profilers = threading.local()
        self._started = False

    @property
    def places(self) -> tuple[tuple[str, str], ...]:
        """The path of the code of each module, and the module's name."""
        return tuple(self._places.items())

    def start(self) -> None:
        """Begin to record.

        Raises
        ------
        TraceError
            If it is already started, or all profiler ids are taken.
        """
        if self._started:
            raise TraceError("the collector of functions is started already")
        # The first call that is seen is what returns from here.
        self._started = True
        try:
            if sys.version_info >= (3, 12):
                self._start_monitoring()
            else:
                self._start_profiling()
        except TraceError:
            self._started = False
            raise

    def stop(self) -> None:
        """End recording; calls that have not returned are not recorded."""
        if not self._started:
            return
        self._started = False
        if sys.version_info >= (3, 12) and self._tool is not None:
            sys.monitoring.set_events(self._tool, 0)
            for event in self._callbacks():
                sys.monitoring.register_callback(self._tool, event, None)
            sys.monitoring.free_tool_id(self._tool)
            self._tool = None
        else:
            self.leave()
            # Not if another was started after it, which puts back what was before both.
            if _owner(_for_threads()) is self:
                threading.setprofile(self._before)
        self._open = threading.local()

    def join(self) -> None:
        """Record in this thread, too; `leave` ends that.

        Raises
        ------
        TraceError
            If another profiler is active in this thread.
        """
        if sys.version_info >= (3, 12):
            return
        before = sys.getprofile()
        # A thread that was started meanwhile, or a run in a run, has one of ours.
        if before is not None and not isinstance(_owner(before), FunctionCollector):
            raise TraceError("another profiler is active in this thread; only one is possible")
        profilers = self._profilers.__dict__.setdefault("before", [])
        profilers.append(before)
        sys.setprofile(self._profile)

    def leave(self) -> None:
        """End recording in this thread, while others continue."""
        if sys.version_info < (3, 12):
            sys.setprofile(self._profilers.before.pop())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _label(self, code: CodeType) -> Label | None:
        """Return the label of a code's spans; None if it is not recorded."""
        known = self._seen.get(id(code))
        if known is None:
            label = None
            for place, module in self._places.items():
                file = code.co_filename
                if file == place or (place.endswith(os.sep) and file.startswith(place)):
                    name = getattr(code, "co_qualname", code.co_name)
                    label = Label("span", name, module)
            # The reference to the code keeps its id valid.
            known = self._seen[id(code)] = (label, code)
        return known[0]

    def _enter(self, code: CodeType) -> None:
        try:
            begun = self._open.begun
        except AttributeError:
            begun = self._open.begun = []
        begun.append((code, clock()))

    def _leave(self, code: CodeType, label: Label) -> None:
        end = clock()
        begun = getattr(self._open, "begun", ())
        # Others on top of it had no event for their return.
        while begun:
            other, start = begun.pop()
            if other is code:
                if end - start >= self._floor_s and self._is_wanted():
                    record(label, start, end)
                return

    def _is_wanted(self) -> bool:
        if self._collected_only:
            owner = state.sink.get(state.fallback).buffer.owner
            return getattr(owner, "functions", None) is self
        return not state.off

    def _callbacks(self) -> dict[int, Any]:
        events: Any = sys.monitoring.events  # type: ignore[attr-defined,unused-ignore]
        return {
            events.PY_START: self._begins,
            events.PY_RESUME: self._begins,
            events.PY_THROW: self._thrown,
            events.PY_RETURN: self._ends,
            events.PY_YIELD: self._ends,
            events.PY_UNWIND: self._unwound,
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

    def _begins(self, code: CodeType, *_: Any) -> Any:
        if self._label(code) is None:
            return sys.monitoring.DISABLE  # type: ignore[attr-defined,unused-ignore]
        self._enter(code)
        return None

    def _ends(self, code: CodeType, *_: Any) -> Any:
        label = self._label(code)
        if label is None:
            return sys.monitoring.DISABLE  # type: ignore[attr-defined,unused-ignore]
        self._leave(code, label)
        return None

    # Events of exceptions cannot be disabled at a place in the code.

    def _thrown(self, code: CodeType, *_: Any) -> None:
        self._begins(code)

    def _unwound(self, code: CodeType, *_: Any) -> None:
        self._ends(code)

    def _start_profiling(self) -> None:
        self.join()
        before = _for_threads()
        other = _owner(before)
        self._before = other._before if isinstance(other, FunctionCollector) else before  # noqa: SLF001  (one class)
        threading.setprofile(self._profile)

    def _profile(self, frame: FrameType, event: str, _: Any) -> None:
        if not self._started:
            # Of a thread that outlives the collector.
            sys.setprofile(None)
            return
        if event not in ("call", "return"):
            return
        code = frame.f_code
        label = self._label(code)
        if label is None:
            return
        if event == "call":
            self._enter(code)
        else:
            self._leave(code, label)


def _for_threads() -> Any:
    """Return the profile function of new threads."""
    return getattr(threading, "_profile_hook", None)


def _owner(method: Any) -> Any:
    return getattr(method, "__self__", None)


def _place_of(module: ModuleType | str) -> tuple[str, str]:
    """Return the path of the code of a module or package, and its name."""
    if not isinstance(module, (str, ModuleType)):
        raise TraceError(f"functions: expected a module or its name, got {short_repr(module)}")
    name = module.__name__ if isinstance(module, ModuleType) else module
    if isinstance(module, ModuleType):
        file = getattr(module, "__file__", None)
    elif (known := imported(name)) is not None:
        return _place_of(known)
    else:
        from importlib.util import find_spec

        try:
            spec = find_spec(name)
        except (ImportError, AttributeError, TypeError, ValueError) as error:
            raise TraceError(f"module {name!r} is not found: {describe(error)}") from error
        if spec is None:
            raise TraceError(f"module {name!r} is not found{did_you_mean(name, list(sys.modules))}")
        file = spec.origin
    if not file or not file.endswith(".py"):
        raise TraceError(f"module {name!r} is not written in Python, so its calls are not seen")
    folder, base = os.path.split(file)
    return (folder + os.sep if base == "__init__.py" else file), name
