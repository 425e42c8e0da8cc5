"""The trace of a process: what is written when, also in forks and at the end of the process.

There is no writer thread: a thread that ends a span writes, if that is due or it holds many spans.
"""

from __future__ import annotations

import atexit
import math
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from io import FileIO
from time import process_time, time
from typing import Any, Callable

from dagprofiler._util.checks import boolean, choice, integer, number
from dagprofiler._util.interpreter import (
    HOSTNAME,
    Collection,
    ThreadSpans,
    imported,
    owner,
    recording,
)
from dagprofiler._util.json import trace_json
from dagprofiler.errors import TraceError
from dagprofiler.tracing._events import SECTION, name_event, span_events
from dagprofiler.tracing._spans import clock, forget_thread

#: Seconds between samples of usage: processor time is counted in steps of up to 10 ms.
_USAGE_S = 0.01

#: The process that imported this module; one that it has forked is another.
_IMPORTED_BY = os.getpid()

#: Above so many spans, the time that writing them took is recorded.
_MANY = 1000

#: What the name of a file may be made of.
_PARTS = ("name", "instance-path", "hostname", "pid")

#: Variables with the numbers of a job and of its step, of Flux, Slurm and LSF.
_JOBS = ("FLUX_JOB_ID", "SLURM_JOB_ID", "SLURM_STEP_ID", "LSB_JOBID", "LS_JOBPID")


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
        How many spans a thread holds before it writes them; at least 1.
    interval_s
        How long after a write the next span that ends is written with all before it, in
        seconds; above 0.
    """

    enable: bool = True
    directory: str = "."
    name: str = "generic"
    filename_include: Sequence[str] = ("hostname", "pid")
    filename: str | None = None
    cpu_mem_usage: bool = False
    events: str = "compact"
    limit: int = 10_000
    interval_s: float = 0.25

    def __post_init__(self) -> None:
        for part in self.filename_include:
            choice("filename_include", part, _PARTS, error=TraceError)
        choice("events", self.events, ("compact", "verbose"), error=TraceError)
        boolean("enable", self.enable, error=TraceError)
        boolean("cpu_mem_usage", self.cpu_mem_usage, error=TraceError)
        integer("limit", self.limit, 1, error=TraceError)
        number("interval_s", self.interval_s, unit="seconds", error=TraceError)

    def path(self, hostname: str, pid: int, *, child: bool) -> str:
        """Return the path of a process's file.

        If the file's name does not contain the process id, a child process adds it, since
        parent and child may both write.
        """
        parts = {"name": self.name, "hostname": hostname, "pid": str(pid)}
        if "instance-path" in self.filename_include:
            parts["instance-path"] = f"{{{_instance_path()}}}"
        included = [parts[part] for part in self.filename_include]
        file = self.filename or ".".join(["perfflow", *included, "pfw"])
        if child and (self.filename or "pid" not in self.filename_include):
            stem, ending = os.path.splitext(file)
            file = f"{stem}.{pid}{ending}"
        return os.path.abspath(os.path.join(self.directory, file))


@lru_cache(maxsize=1)
def _instance_path() -> str:
    """Return what tells apart the components of a workflow, as PerfFlowAspect does.

    Each process appends its own part to that of the process which started it.
    """
    part = ".".join(os.environ[name] for name in _JOBS if name in os.environ) or "1"
    above = os.environ.get("PERFFLOW_INSTANCE_PATH")
    path = os.environ["PERFFLOW_INSTANCE_PATH"] = part if above is None else f"{above}.{part}"
    return path


class TraceFile:
    """A trace that grows.

    It is strict JSON after every write: its tail closes all brackets, and the next write
    replaces the tail by its events and a new tail. One that cannot be written never costs the
    program more than its trace: a warning is logged, and no more is written.

    Parameters
    ----------
    path
        Path of the file. One that exists is replaced.
    about
        Its ``otherData``, as JSON values.
    """

    def __init__(self, path: str, about: dict[str, Any]) -> None:
        self.path = path
        self.failed = False
        #: The threads whose names it has.
        self.threads: set[tuple[int, str]] = set()
        #: Where the tail begins; 0 before the first write.
        self._end = 0
        head = f'{{"displayTimeUnit": "ms", "otherData": {trace_json(about)}, "traceEvents": ['
        self._lead = f"{head}\n"

    def write(self, events: list[str], *, closed: bool) -> None:
        """Append events, one a line, and note whether the process has ended."""
        # A tail alone, without a head, is not a trace.
        if self.failed or not (events or (closed and self._end)):
            return
        tail = f'\n], "{SECTION}": {{"closed": {trace_json(closed)}}}}}\n'.encode()
        content = b""
        if events:
            content = (self._lead + ",\n".join(events)).encode()
        try:
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            with FileIO(self.path, "r+" if self._end else "w") as stream:
                try:
                    _put(stream, self._end, content + tail)
                except OSError:
                    # On a full disk there is still room for the tail.
                    _put(stream, self._end, tail)
                    raise
            self._end += len(content)
            self._lead = ",\n"
        except OSError as error:
            self.failed = True
            from logging import getLogger

            logger = getLogger("dagprofiler.tracing")
            logger.warning("the trace cannot be written, spans are lost: %s", error)


def _put(stream: FileIO, place: int, content: bytes) -> None:
    """Write `content` at a place of a file, and cut what follows."""
    stream.seek(place)
    left = memoryview(content)
    while left:
        left = left[stream.write(left) :]
    stream.truncate()


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

    def samples(self, now: float) -> list[Any]:
        """Return samples as fields of ``Span``; none if the last ones are too recent.

        ``cpu_usage`` is in percent of one processor, from the last sample to this one;
        ``memory_usage`` is resident memory, in kB of 1000 bytes, where the system reports it.
        """
        since_s = now - self._last
        if since_s < _USAGE_S:
            return []
        cpu_s = process_time()
        percent = round(100 * (cpu_s - self._cpu_s) / since_s, 1)
        begin, self._last, self._cpu_s = self._last, now, cpu_s
        samples = [("counter", "cpu_usage", "usage", begin, begin, {"percent": percent}, None)]
        with suppress(OSError), open("/proc/self/statm", "rb") as file:
            args = {"kB": int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1000}
            samples.append(("counter", "memory_usage", "usage", now, now, args, None))
        return samples


class Recorder(Collection):
    """Takes the spans that belong to no task and no collection, and writes them."""

    def __init__(self, options: Options) -> None:
        self.options, self.limit = options, options.limit
        #: The reading of the clock that is 0 in the trace.
        self._zero_s = clock()
        #: How many collections are open.
        self.collections = 0
        #: Called before the end of the process.
        self.endings: list[Callable[[], None]] = []
        self._begin_anew()

    def _begin_anew(self) -> None:
        """Reset to the state of a process that has recorded nothing."""
        self.threads: dict[tuple[int, str], ThreadSpans] = {}
        self.lock = threading.RLock()
        #: The thread that is writing.
        self._writer: int | None = None
        #: Whether the process has ended.
        self._over = False
        #: The file that is written, once there is a span.
        self._file: TraceFile | None = None
        #: All files so far, by path: an option may change back to an earlier one.
        self._files: dict[str, TraceFile] = {}
        self._usage = Usage(clock()) if self.options.cpu_mem_usage else None
        #: When a write is due, and when the next span calls :meth:`make_room`: at once (-inf)
        #: before the first write, and after the end of the process.
        self._write_s = self.due_s = -math.inf

    def make_room(self, spans: ThreadSpans) -> None:
        """Write the spans of all threads, if a write is due or `spans` are many."""
        if not self.options.enable:
            spans.rows.clear()
            return
        now = clock()
        if self._usage is not None:
            spans.rows += self._usage.samples(now)
        held = len(spans.rows)
        is_due = now >= self._write_s or held > self.limit
        if is_due and self.write(wait=False) and held > _MANY:
            # Otherwise this time would count in the program's own spans.
            row = ("span", "dagprofiler: write", "dagprofiler", now, clock(), None, None)
            spans.rows.append(row)
        self.due_s = self._write_s if self._usage is None else min(self._write_s, now + _USAGE_S)

    def _begin_file(self) -> TraceFile:
        """Choose the file as early as possible: the program may change its directory."""
        pid = os.getpid()
        process = imported("multiprocessing.process")
        is_of_pool = process is not None and process.parent_process() is not None
        if is_of_pool and not self._files:
            # A pool ends its processes without calling what is registered at exit.
            imported("multiprocessing.util").Finalize(None, self.close, exitpriority=-100)
        path = self.options.path(HOSTNAME, pid, child=is_of_pool or pid != _IMPORTED_BY)
        epoch_s = time() - (clock() - self._zero_s)
        clocks = {"zero_s": self._zero_s, "epoch_s": epoch_s, "boot": _boot()}
        about = {"name": self.options.name, "hostname": HOSTNAME, "pid": pid, "clock": clocks}
        return self._files.setdefault(path, TraceFile(path, about))

    def write(self, *, wait: bool = True) -> bool:
        """Write all spans, unless another write is going on; return whether it did.

        With `wait`, wait for another thread that writes.
        """
        # A signal handler or a finalizer may call this amid a write.
        if self._writer == threading.get_ident() or not self.lock.acquire(blocking=wait):
            return False
        try:
            self._writer = threading.get_ident()
            self._write_s = -math.inf if self._over else clock() + self.options.interval_s
            events = self._take()
            if self._file is not None:
                self._file.write(events, closed=self._over)
            return True
        finally:
            self._writer = None
            self.lock.release()

    def _take(self) -> list[str]:
        """Remove the spans of all threads, and return their events."""
        pid, verbose, events = os.getpid(), self.options.events == "verbose", []
        recorded = list(self.threads.items())
        # Looked up after `recorded`, so that a thread that begins meanwhile is not taken for dead.
        alive = {thread.native_id for thread in threading.enumerate()}
        for thread, spans in recorded:
            rows = spans.rows[:]
            del spans.rows[: len(rows)]
            if not rows:
                if thread[0] not in alive:
                    self.threads.pop(thread, None)
                continue
            if self._file is None:
                self._file = self._begin_file()
            if thread not in self._file.threads:
                self._file.threads.add(thread)
                process, place = f"{self.options.name}, {HOSTNAME}", f'"pid": {pid}, '
                events.append(name_event("process_name", place, process))
                events.append(name_event("thread_name", f'{place}"tid": {thread[0]}, ', thread[1]))
            events += span_events(rows, pid, thread[0], self._zero_s, verbose=verbose)
        return events

    def leave_to_parent(self) -> None:
        """Reset in a forked process: the recorded spans and the files belong to its parent."""
        self._begin_anew()
        forget_thread()

    def close(self) -> None:
        """Write all spans, and mark the file as closed; later spans are written one by one."""
        for end in self.endings:
            end()
        self._over = True
        self.due_s = -math.inf
        self.write()

    def configure(self, options: Options) -> None:
        """Continue with other options."""
        moves = options.path("", 1, child=False) != self.options.path("", 1, child=False)
        # No other thread writes meanwhile.
        with self.lock:
            self.write()
            self.options, self.limit = options, options.limit
            if moves and self._file is not None:
                self._file.write([], closed=True)
                self._file = None
            self._usage = Usage(clock()) if options.cpu_mem_usage else None
        # The next span is written at once.
        self._write_s = self.due_s = -math.inf
        switch()

    @property
    def path(self) -> str | None:
        """Where the trace is; None if nothing has been written."""
        return None if self._file is None or self._file.failed else self._file.path


def _boot() -> str | None:
    """Return the id of this boot of the machine; None if unknown.

    Processes with the same id share a clock.
    """
    # UTF-8 is loaded: a signal handler that flushes cannot interrupt the import of a codec.
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
        return file.read().strip()
    return None


def switch(collections: int = 0) -> None:
    """Change the number of open collections, and update whether spans are recorded."""
    with recorder.lock:
        recorder.collections += collections
        recording.enabled = recorder.options.enable
        recording.off = not (recording.enabled or recorder.collections)


recorder = Recorder(Options())
recording.process = recorder
atexit.register(recorder.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=recorder.leave_to_parent)
switch()


@contextmanager
def collecting(collection: Collection | None = None) -> Iterator[Collection]:
    """Record the spans of this context in a collection while the body runs.

    Also when tracing is off, and in copies of the context: coroutines, ``asyncio.to_thread``.
    Other threads record into the trace of the process.

    Examples
    --------
    >>> from dagprofiler.tracing import collecting, span
    >>> with collecting() as collection:
    ...     with span("load"):
    ...         pass
    >>> [span.name for span in collection.spans()]
    ['load']
    """
    collection = Collection() if collection is None else collection
    token = owner.set(collection)
    switch(+1)
    try:
        yield collection
    finally:
        switch(-1)
        owner.reset(token)


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
    10000
    """
    known = [field.name for field in fields(Options)]
    for name in options:
        choice("option", name, known, error=TraceError)
    if "directory" in options:
        options["directory"] = os.path.abspath(os.fsdecode(options["directory"]))
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
