"""The trace of a process: its options, when it is written, forks, threads and the end."""

from __future__ import annotations

import _thread
import atexit
import os
import sys
import threading
import weakref
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from itertools import islice
from time import process_time, sleep, time
from typing import Any

from dagprofiler._util.checks import boolean, choice, integer, number
from dagprofiler._util.interpreter import HOSTNAME, imported, recording, sink
from dagprofiler.errors import TraceError, describe, did_you_mean, short_repr
from dagprofiler.tracing._file import TraceFile, Track, process_name
from dagprofiler.tracing._recording import Buffer, Label, Sink, clock, record, state

_PARTS = ("name", "instance-path", "hostname", "pid")

_EVENTS = ("compact", "verbose")
_BOOLEANS = {"true": True, "false": False}


@dataclass(frozen=True)
class Options:
    """How the trace of a process is written.

    Attributes
    ----------
    enable
        Whether anything is recorded.
    directory
        Where files are written; created if missing.
    name
        Name of this part of a workflow.
    filename_include
        Parts of a file's name between ``perfflow`` and ``.pfw``: any of ``"name"``,
        ``"instance-path"``, ``"hostname"`` and ``"pid"``.
    filename
        A custom file name instead.
    cpu_mem_usage
        Whether CPU usage and memory are sampled when spans end.
    events
        ``"compact"``: one event for each span; ``"verbose"``: one for its start, one for its end.
    limit
        How many spans a thread holds before they are written; at least 1.
    interval_s
        Interval in which spans are written in any case, in seconds; above 0.
    """

    enable: bool = True
    directory: str = "."
    name: str = "generic"
    filename_include: tuple[str, ...] = ("hostname", "pid")
    filename: str | None = None
    cpu_mem_usage: bool = False
    events: str = "compact"
    limit: int = 65_536
    interval_s: float = 0.25

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise TraceError(f"name={short_repr(self.name)}: expected text")
        parts, known = self.filename_include, ", ".join(map(repr, _PARTS))
        if not isinstance(parts, tuple) or any(part not in _PARTS for part in parts):
            raise TraceError(f"filename_include={short_repr(parts)}: expected some of {known}")
        choice("events", self.events, _EVENTS, error=TraceError)
        boolean("enable", self.enable, error=TraceError)
        boolean("cpu_mem_usage", self.cpu_mem_usage, error=TraceError)
        integer("limit", self.limit, 1, error=TraceError)
        number("interval_s", self.interval_s, unit="seconds", error=TraceError)
        name = self.filename
        if name is not None and not (isinstance(name, str) and os.path.basename(name)):
            raise TraceError(f"filename={short_repr(name)}: expected a file's name")

    def path(self, hostname: str, pid: int, *, child: bool) -> str:
        """Return the path of a process's file.

        If the file's name does not contain the process id, a child process adds it, since
        parent and child may both write.
        """
        if self.filename is not None:
            tells_pid = False
            stem, ending = os.path.splitext(self.filename)
        else:
            tells_pid = "pid" in self.filename_include
            known = {"name": self.name, "hostname": hostname, "pid": str(pid)}
            parts = [
                f"{{{_instance_path()}}}" if part == "instance-path" else known[part]
                for part in self.filename_include
            ]
            stem, ending = ".".join(["perfflow", *parts]), ".pfw"
        if child and not tells_pid:
            stem = f"{stem}.{pid}"
        return os.path.abspath(os.path.join(self.directory, stem + ending))


def from_environment(text: str | None) -> tuple[Options, list[str]]:
    """Return the options in the text of ``PERFFLOW_OPTIONS``, and its problems.

    Problems are not raised: the user of a program may be unable to change it.

    Examples
    --------
    >>> options, problems = from_environment("name=solver:log-enable=no")
    >>> options.name, problems
    ('solver', ["log-enable='no': expected true or false"])
    """
    given: dict[str, Any] = {}
    problems = []
    for item in filter(None, (text or "").split(":")):
        key, equals, value = item.partition("=")
        if not equals or "=" in value:
            problems.append(f"{short_repr(item)}: expected option=value")
        elif key == "name":
            given["name"] = value
        elif key == "log-dir":
            given["directory"] = value
        elif key == "log-filename-include":
            parts = list(filter(None, value.split(",")))
            unknown = [part for part in parts if part not in _PARTS]
            given["filename_include"] = tuple(part for part in parts if part in _PARTS)
            problems += [f"log-filename-include: {part!r} is not known" for part in unknown]
        elif key in _CHOICES:
            option, choices = _CHOICES[key]
            word = value.lower()
            if word not in choices:
                problems.append(f"{key}={short_repr(value)}: expected {' or '.join(choices)}")
            elif option:
                given[option] = _BOOLEANS.get(word, word)
            elif (key, word) == ("caliper-enable", "true"):
                problems.append(f"{key}={value}: there is no Caliper here")
        else:
            problems.append(f"option {short_repr(key)} is not known{did_you_mean(key, _KEYS)}")
    return Options(**given), problems


#: Option to the field that it sets, and its values; those of other versions set none.
_CHOICES = {
    "log-enable": ("enable", [*_BOOLEANS]),
    "cpu-mem-usage": ("cpu_mem_usage", [*_BOOLEANS]),
    "log-event": ("events", _EVENTS),
    "log-format": ("", ("array", "object")),
    "caliper-enable": ("", [*_BOOLEANS]),
}
_KEYS = ["name", "log-dir", "log-filename-include", *_CHOICES]


def _instance_path() -> str:
    """Return what tells apart the components of a workflow, as PerfFlowAspect does.

    Each process appends its own part to that of the process which started it.
    """
    global _own_part  # noqa: PLW0603  (once a process)
    if _own_part is None:
        above = os.environ.get("PERFFLOW_INSTANCE_PATH")
        own = os.environ.get("FLUX_JOB_ID") or _job_hash()
        _own_part = own if above is None else f"{above}.{own}"
        os.environ["PERFFLOW_INSTANCE_PATH"] = _own_part
    return _own_part


_own_part: str | None = None


def _job_hash() -> str:
    from hashlib import sha1
    from urllib.parse import urlparse

    get = os.environ.get
    job = "1"
    if get("FLUX_URI"):
        job = os.path.dirname(urlparse(get("FLUX_URI", "")).path)
    if get("SLURM_JOB_ID") and get("SLURM_STEP_ID"):
        job = f"{get('SLURM_JOB_ID')}.{get('SLURM_STEP_ID')}"
    elif get("LSB_JOBID") and get("LS_JOBPID"):
        job = f"{get('LSB_JOBID')}.{get('LS_JOBPID')}"
    return sha1(job.encode(), usedforsecurity=False).hexdigest()[:8]


def wait_for_end(thread: int) -> None:
    """Wait at most 1 s until the system has removed a thread that has ended.

    At a fork, Python 3.12 and later count threads as the system does, and warn of more than one.
    """
    for _ in range(10_000):
        if not os.path.exists(f"/proc/self/task/{thread}"):
            break
        sleep(0.0001)


def boot() -> str | None:
    """Return the id of this boot of the machine; None if unknown.

    Processes with the same id share a clock.
    """
    try:
        # No codec that is yet to be imported: a signal's handler may come here amid the import.
        with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return None


def started_by_multiprocessing() -> bool:
    """Tell whether multiprocessing started this process."""
    process = imported("multiprocessing.process")
    return process is not None and process.parent_process() is not None


#: Seconds between samples: processor time is counted in steps of up to 10 ms.
_SHORTEST_S = 0.01


class Usage:
    """Samples processor time and resident memory.

    Parameters
    ----------
    now
        Reading of the clock, from which on usage counts.
    """

    def __init__(self, now: float) -> None:
        self._last = now
        self._cpu_s = process_time()

    def rows(self, now: float) -> tuple[Any, ...]:
        """Return samples in recorded form; nothing if the last ones are too recent.

        ``cpu_usage`` is in percent of one processor, from the last sample to this one;
        ``memory_usage`` is resident memory, in kB of 1000 bytes. It is missing if the system
        does not report it.
        """
        since = now - self._last
        if since < _SHORTEST_S:
            return ()
        cpu_s = process_time()
        percent = round(100 * (cpu_s - self._cpu_s) / since, 1)
        cpu = Label("counter", "cpu_usage", "usage", {"percent": percent})
        rows: tuple[Any, ...] = (cpu, self._last, self._last)
        with suppress(OSError), open("/proc/self/statm", "rb") as file:
            resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            memory = Label("counter", "memory_usage", "usage", {"kB": resident / 1000})
            rows += (memory, now, now)
        self._last, self._cpu_s = now, cpu_s
        return rows


#: How many spans are made into text at once.
_CHUNK = 2048

#: Limit of a buffer that calls the recorder at its next span.
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
    """Writes the spans of the threads of this process: regularly, from full buffers, at the end.

    Errors never reach the program: spans that cannot be written are counted, and the first
    error is logged as a warning.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        #: The reading of the clock that is 0 in the trace, and the time of day then.
        self.zero = clock()
        self._epoch = time() - (clock() - self.zero)
        self._threads: list[_Thread] = []
        self._alive = threading.local()
        self._registered = False
        self._child = False
        self._complained = False
        #: How many collections are open.
        self.collections = 0
        #: Work that was begun by hand, once there may be any.
        self.by_hand: Any = None
        self._begin_anew()

    def _begin_anew(self) -> None:
        """Reset to the state of a process that has recorded nothing."""
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

    def new_buffer(self) -> Buffer:
        """Return a buffer for the calling thread."""
        buffer = Buffer(self, self._limit())
        self._alive.token = token = _Alive()
        self._threads.append(_Thread(buffer, weakref.ref(token)))
        return buffer

    def full(self, buffer: Buffer) -> None:
        """Write or drop the spans of a buffer that is longer than its limit."""
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
                    # Otherwise this time would count in the program's own spans.
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

    def write(self, *, wait: bool = True) -> None:
        """Write all spans; with `wait`, wait for another thread that writes."""
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
        # A signal handler or a finalizer may call this during a write.
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
        left = iter(rows)
        for begin in range(0, len(rows), 3 * _CHUNK):
            try:
                file, track, names = self._make_file(), thread.track, []
                if track is None:
                    file.open()
                    verbose = self.options.events == "verbose"
                    track = Track(os.getpid(), buffer.thread, file.zero_s, verbose=verbose)
                    process = process_name(os.getpid(), f"{self.options.name}, {HOSTNAME}")
                    thread.track, names = track, [process, track.name_line]
                lines = track.lines(islice(left, 3 * _CHUNK))
                file.write(names + lines, **self._ending())
            except BaseException as error:
                thread.track = None
                self._lost += (len(rows) - begin) // 3
                if not isinstance(error, Exception):
                    # The program is interrupted and handles that itself.
                    self._why = self._why or type(error).__name__
                    raise
                self._complain(error)
                break

    def _make_file(self) -> TraceFile:
        """Return the file; a signal handler may create it concurrently."""
        if self._file is None:
            child = self._child or started_by_multiprocessing()
            path = self.options.path(HOSTNAME, os.getpid(), child=child)
            clocks = {"zero_s": self.zero, "epoch_s": self._epoch, "boot": boot()}
            about = {"name": self.options.name, "hostname": HOSTNAME, "pid": os.getpid()}
            made = TraceFile(path, {**about, "clock": clocks})
            self._file = self._file or made
        return self._file

    def _ending(self) -> dict[str, Any]:
        lost = {"lost": self._lost, "why": self._why} if self._lost else {}
        return {"closed": self._over, **lost}

    def _complain(self, error: Exception) -> None:
        """Warn once that spans are lost."""
        self._why = self._why or describe(error)
        if self._complained:
            return
        self._complained = True
        from logging import getLogger

        with suppress(Exception):
            where = "" if self._file is None else f" to {self._file.path!r}"
            getLogger("dagprofiler.tracing").warning(
                "the trace cannot be written%s, spans are lost: %s", where, self._why
            )

    def start(self) -> None:
        """Start writing spans regularly, from the first span on."""
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
            # As early as possible: the program may change its directory.
            self._make_file()
            util = imported("multiprocessing.util")
            if util is not None and started_by_multiprocessing():
                # It ends its processes without calling what is registered at exit.
                util.Finalize(None, self.close, exitpriority=-100)
            if self.options.cpu_mem_usage:
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
            while not stop.acquire(timeout=min(self.options.interval_s, threading.TIMEOUT_MAX)):
                try:
                    # Never waits: the thread that waits for this one may hold the lock.
                    self.write(wait=False)
                except Exception as error:  # noqa: BLE001  (as in start)
                    self._complain(error)
        finally:
            stopped.release()

    def pause(self) -> None:
        """Write all spans, and end the writing thread until the next span.

        Called before a fork: the new process then has no partial state, and Python does not
        warn of a thread that the program did not start.
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
        """Register for forks and for the end of the process."""
        if not self._registered:
            self._registered = True
            atexit.register(self.close)
            if hasattr(os, "register_at_fork"):
                os.register_at_fork(before=self.pause, after_in_child=self._after_fork)

    def _after_fork(self) -> None:
        """Reset in a forked process: the recorded spans belong to its parent."""
        if self._file is not None:
            self._file.abandon()
        self._begin_anew()
        self._child = True
        self._threads.clear()
        state.sink.set(_anew)
        _sink.buffer.clear()
        _sink.buffer = self.new_buffer()
        if self.by_hand is not None:
            self.by_hand.forget()

    def close(self) -> None:
        """Write all spans and mark the file as closed; later spans are written one by one."""
        if self.by_hand is not None:
            self.by_hand.finish()
        self.pause()
        self._started = self._over = True
        self._end_file()
        self._set_limits()

    def _end_file(self) -> None:
        """Write the end of the file, which says whether it is closed."""
        if self._file is not None and self._file.is_open:
            with self._lock, suppress(OSError):
                self._file.write((), **self._ending())

    def configure(self, options: Options) -> None:
        """Continue with other options."""
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


def switch(collections: int = 0) -> None:
    """Change the number of open collections, and update whether spans are recorded."""
    if collections > 0:
        # A process that is forked meanwhile must not keep what is collected.
        recorder.register()
    with recorder._lock:  # noqa: SLF001  (one module)
        recorder.collections += collections
        recording.off = not recorder.options.enable
        state.off = recording.off and not recorder.collections


def note(name: str, /, **args: Any) -> None:
    """Add a note about a mistake to the trace."""
    if state.off:
        return
    now = clock()
    record(Label("instant", name, "dagprofiler", args), now, now)


class _Anew:
    """The sink of a context without one: a context variable cannot be unset in a child."""

    @property
    def buffer(self) -> Buffer:
        """The buffer of this thread."""
        buffer: Buffer = state.fallback.buffer
        return buffer


_options, _problems = from_environment(os.environ.get("PERFFLOW_OPTIONS"))
for _problem in _problems:
    with suppress(Exception):
        print(f"PERFFLOW_OPTIONS: {_problem}", file=sys.stderr)  # noqa: T201
recorder = Recorder(_options)
_sink = Sink(recorder)
_anew = _Anew()
state.sink = sink
state.fallback = _sink
state.running_loop = None
state.off = True
switch()


def configure(**options: Any) -> Options:
    """Set options of the trace of this process; others keep their values.

    Parameters
    ----------
    **options
        Fields of :class:`~dagprofiler.tracing.Options`.

    Returns
    -------
    Options
        The current options.

    Raises
    ------
    TraceError
        If there is no such option, or a value is invalid.

    Notes
    -----
    The environment variable ``PERFFLOW_OPTIONS`` sets the initial options. If the path of
    the file changes, earlier spans are written to the old file.

    Examples
    --------
    >>> configure(enable=False).enable
    False
    >>> configure(enable=True).limit
    65536
    """
    known = [field.name for field in fields(Options)]
    for name in options:
        if name not in known:
            hint = f" (known: {', '.join(known)}){did_you_mean(name, known)}"
            raise TraceError(f"option {name!r} is not known{hint}")
    if "directory" in options:
        directory = options["directory"]
        try:
            options["directory"] = os.path.abspath(os.fsdecode(directory))
        except TypeError as error:
            raise TraceError(f"directory={short_repr(directory)}: expected a path") from error
    if isinstance(options.get("filename_include"), list):
        options["filename_include"] = tuple(options["filename_include"])
    recorder.configure(replace(recorder.options, **options))
    return recorder.options


def flush() -> str | None:
    """Write all spans recorded so far.

    Returns
    -------
    str or None
        Path of the file, which is strict JSON; None if nothing was recorded or it
        cannot be written.
    """
    recorder.write()
    return recorder.path
