"""The trace of this process: its options, its file, and when it is written."""

from __future__ import annotations

import _thread
import atexit
import os
import sys
import threading
import weakref
from contextlib import suppress
from contextvars import ContextVar
from itertools import islice
from time import time
from typing import TYPE_CHECKING, Any

from dagprofiler.tracing.events import Track, process_name
from dagprofiler.tracing.host import boot, hostname, started_by_multiprocessing, wait_for_end
from dagprofiler.tracing.options import Options, from_environment
from dagprofiler.tracing.recording import INSTANT, Buffer, Label, Sink, clock, record, state
from dagprofiler.tracing.spool import TraceFile

if TYPE_CHECKING:
    from collections.abc import Callable

    from dagprofiler.tracing.usage import Usage

__all__ = ["at_close", "note", "recorder", "switch"]

#: How many spans are made into text at once.
_CHUNK = 2048

#: Limit of a buffer whose next span is to come to the recorder's attention.
_NEXT = -1


class _Alive:
    """Lives as long as the thread does."""

    __slots__ = ("__weakref__",)


class _Thread:
    """A buffer of the process, and whether its thread is still there."""

    def __init__(self, buffer: Buffer, alive: weakref.ref[_Alive]) -> None:
        self.buffer = buffer
        self.alive = alive
        self.track: Track | None = None


class Recorder:
    """Writes what the threads of this process record: now and then, when it is much, at the end.

    Nothing that goes wrong here reaches the program: what cannot be written is counted, and
    said once.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        #: What is 0 in the trace, and the time of day then.
        self.zero = clock()
        self._epoch = time() - (clock() - self.zero)
        self._threads: list[_Thread] = []
        self._alive = threading.local()
        self._registered = False
        self._child = False
        self._complained = False
        self._begin_anew()

    def _begin_anew(self) -> None:
        """Be as in a process that has recorded nothing."""
        self._lock = threading.RLock()
        self._writing = False
        self._started = False
        self._over = False
        self._file: TraceFile | None = None
        self._rest: tuple[Any, Any] | None = None
        self._writer = 0
        self._lost = 0
        self._why: str | None = None
        self._usage: Usage | None = None

    # -- what buffers ask for ----------------------------------------------------------------

    def new_buffer(self) -> Buffer:
        """Return a buffer for the calling thread."""
        buffer = Buffer(self, self._limit())
        self._alive.token = token = _Alive()
        self._threads.append(_Thread(buffer, weakref.ref(token)))
        return buffer

    def full(self, buffer: Buffer) -> None:
        """Look after a buffer that is longer than its limit."""
        if not self.options.enable:
            buffer.clear()
            return
        try:
            self.start()
            if self._usage is not None:
                buffer += self._usage.rows(clock())
            if len(buffer) > 3 * self.options.limit or self._over:
                began = clock()
                self.write()
                if not self._over:
                    # Time that the program's own spans would otherwise be blamed for.
                    buffer += ("dagprofiler: write", began, clock())
        except Exception as error:  # noqa: BLE001  (as in start)
            self._complain(error)

    def _limit(self) -> int:
        attentive = not self._started or self._over or self.options.cpu_mem_usage
        return _NEXT if attentive else 3 * self.options.limit

    def _set_limits(self) -> None:
        limit = self._limit()
        for thread in list(self._threads):
            thread.buffer.limit = limit

    # -- writing -----------------------------------------------------------------------------

    def write(self, *, wait: bool = True) -> None:
        """Write all that is held; with `wait`, after who is already about to."""
        if wait:
            # Not by `acquire`: after a call an interrupt may come, and the lock stay taken.
            with self._lock:
                self._write()
        elif self._lock.acquire(blocking=False):
            try:
                self._write()
            finally:
                self._lock.release()

    def _write(self) -> None:
        # A signal's handler, or a finalizer, may come here from the midst of writing.
        if not self._writing:
            self._writing = True
            try:
                for thread in list(self._threads):
                    self._write_thread(thread)
            finally:
                self._writing = False

    def _write_thread(self, thread: _Thread) -> None:
        # Asked first: a thread that is over by then adds nothing.
        over, buffer = thread.alive() is None, thread.buffer
        rows = buffer[:]
        if not rows:
            if over:
                self._threads.remove(thread)
            return
        del buffer[: len(rows)]
        names, track = [], thread.track
        if track is None:
            verbose = self.options.events == "verbose"
            track = thread.track = Track(os.getpid(), buffer.thread, self.zero, verbose=verbose)
            process = process_name(os.getpid(), f"{self.options.name}, {hostname()}")
            names = [process, track.name_line]
        left = iter(rows)
        for begin in range(0, len(rows), 3 * _CHUNK):
            try:
                lines = track.lines(islice(left, 3 * _CHUNK))
                self._make_file().write(names + lines, **self._ending())
            except BaseException as error:
                thread.track = None
                self._lost += (len(rows) - begin) // 3
                if not isinstance(error, Exception):
                    # The program is interrupted, and it is its own affair what comes of that.
                    self._why = self._why or type(error).__name__
                    raise
                self._complain(error)
                break
            names = []

    def _make_file(self) -> TraceFile:
        """Return the file; there is one, though a signal's handler make it meanwhile."""
        if self._file is None:
            made = self._new_file()
            self._file = self._file or made
        return self._file

    def _new_file(self) -> TraceFile:
        child = self._child or started_by_multiprocessing()
        path = self.options.path(hostname(), os.getpid(), child=child)
        clocks = {"zero_s": self.zero, "epoch_s": self._epoch, "boot": boot()}
        about = {"name": self.options.name, "hostname": hostname(), "pid": os.getpid()}
        return TraceFile(path, {**about, "clock": clocks})

    def _ending(self) -> dict[str, Any]:
        lost = {"lost": self._lost, "why": self._why} if self._lost else {}
        return {"closed": self._over, **lost}

    def _complain(self, error: Exception) -> None:
        """Say once that spans are lost."""
        self._why = self._why or f"{type(error).__name__}: {error}"
        if self._complained:
            return
        self._complained = True
        from logging import getLogger

        with suppress(Exception):
            where = "" if self._file is None else f" to {self._file.path!r}"
            getLogger("dagprofiler.tracing").warning(
                "the trace cannot be written%s, spans are lost: %s", where, self._why
            )

    # -- beginning and end -------------------------------------------------------------------

    def start(self) -> None:
        """See to it that what is held gets written, from the first span on."""
        if self._started:
            return
        try:
            self._start()
        except Exception as error:  # noqa: BLE001  (what is traced never pays for being traced)
            self._complain(error)
        except BaseException:
            # An interrupt of the program: the next span starts again.
            self._started = False
            raise

    def _start(self) -> None:
        # Before the lock is taken: a fork meanwhile would leave it taken in the child for good.
        self.register()
        with self._lock:
            if self._started:
                return
            self._started = True
            # Where the program is now is where it was started, as far as it is known.
            self._make_file()
            util = sys.modules.get("multiprocessing.util")
            if util is not None and started_by_multiprocessing():
                # It ends its processes without what is registered at exit.
                util.Finalize(None, self.close, exitpriority=-100)
            if self.options.cpu_mem_usage:
                from dagprofiler.tracing.usage import Usage

                self._usage = Usage(clock())
            self._rest = (_thread.allocate_lock(), _thread.allocate_lock())
            for lock in self._rest:
                lock.acquire()
            try:
                # Not one of `threading`'s: a program may wait for all of these.
                _thread.start_new_thread(self._keep_writing, self._rest)
            except RuntimeError:
                # The interpreter is about to end, or may have no threads.
                self._rest, self._over = None, True
            self._set_limits()

    def _keep_writing(self, stop: Any, stopped: Any) -> None:
        self._writer = _thread.get_native_id()
        try:
            while not stop.acquire(timeout=self.options.interval_s):
                try:
                    # Never waits, so that who waits for this thread may hold the lock.
                    self.write(wait=False)
                except Exception as error:  # noqa: BLE001  (as in start)
                    self._complain(error)
        finally:
            stopped.release()

    def pause(self) -> None:
        """Write all, and end the thread that writes until the next span comes.

        Before a fork: the new process then has nothing of ours half done, and Python does not
        warn of a thread that the program knows nothing of.
        """
        rest, self._rest = self._rest, None
        try:
            if rest is not None:
                stop, stopped = rest
                with suppress(RuntimeError):  # another thread has just done it
                    stop.release()
                stopped.acquire(timeout=10)
                wait_for_end(self._writer)
        finally:
            self._started = False
            self._set_limits()
        with suppress(Exception):
            self.write()

    def register(self) -> None:
        """Be told of forks and of the end of the process."""
        if not self._registered:
            self._registered = True
            atexit.register(self.close)
            if hasattr(os, "register_at_fork"):
                os.register_at_fork(before=self.pause, after_in_child=self._after_fork)

    def _after_fork(self) -> None:
        """Begin anew in a process that was forked: what is held is its parent's."""
        if self._file is not None:
            self._file.abandon()
        self._begin_anew()
        self._child = True
        self._threads.clear()
        state.sink.set(_sink)
        state.fallback = _sink
        _sink.buffer.clear()
        _sink.buffer = self.new_buffer()
        for forget in _forgetters:
            forget()

    def close(self) -> None:
        """Write all, and say that it is all; spans that come later are written one by one."""
        for finish in _finishers:
            finish()
        self.pause()
        self._started = self._over = True
        self._end_file()
        self._set_limits()

    def _end_file(self) -> None:
        """Say in the file whether it is closed."""
        if self._file is not None and self._file.is_open:
            with self._lock, suppress(OSError):
                self._file.write((), **self._ending())

    def configure(self, options: Options) -> None:
        """Go on with other options."""
        new_file = options.path("", 1, child=False) != self.options.path("", 1, child=False)
        new_file = new_file or options.events != self.options.events
        if self._started or new_file:
            self.pause()
        with self._lock:
            if new_file and self._file is not None:
                over, self._over = self._over, True
                self._end_file()
                self._file.abandon()
                self._file, self._over = None, over
                self._lost, self._why, self._complained = 0, None, False
                for thread in self._threads:
                    thread.track = None
            self.options = options
            self._usage = None
            self._set_limits()
        switch()

    @property
    def path(self) -> str | None:
        """Where the trace is; None if nothing has been written."""
        return self._file.path if self._file is not None and self._file.is_open else None


#: Called before the file is closed, and in a process that was forked.
_finishers: list[Callable[[], None]] = []
_forgetters: list[Callable[[], None]] = []


def at_close(finish: Callable[[], None], *, after_fork: Callable[[], None]) -> None:
    """Have `finish` called before the trace is closed, to record what is still open."""
    _finishers.append(finish)
    _forgetters.append(after_fork)


def switch(collections: int = 0) -> None:
    """Bring up to date whether anybody wants spans; so many more collections do now."""
    global _collections  # noqa: PLW0603  (of the process)
    if collections > 0:
        # What is collected is no concern of a process that is forked meanwhile.
        recorder.register()
    with recorder._lock:  # noqa: SLF001  (one module)
        _collections += collections
        state.off = not (recorder.options.enable or _collections)


_collections = 0


def note(name: str, /, **args: Any) -> None:
    """Leave a word in the trace about what was done wrong."""
    if state.off:
        return
    now = clock()
    record(Label(INSTANT, name, "dagprofiler", args), now, now)


def _from_environment() -> Options:
    options, problems = from_environment(os.environ.get("PERFFLOW_OPTIONS"))
    for problem in problems:
        with suppress(Exception):
            print(f"PERFFLOW_OPTIONS: {problem}", file=sys.stderr)  # noqa: T201
    return options


recorder = Recorder(_from_environment())
_sink = Sink(recorder)
state.sink = ContextVar("sink")
state.fallback = _sink
state.off = True
switch()
