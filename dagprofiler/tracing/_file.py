"""Trace files: the one that a process writes, and several merged into one on one clock.

A trace file is strict JSON after every write. The text ends with a tail that closes all brackets.
The next events overwrite the tail, with a new one at their end, in a single system call.
"""

from __future__ import annotations

import errno
import json
import os
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import count
from json.encoder import encode_basestring
from logging import getLogger
from typing import IO, Any, NamedTuple

from dagprofiler._util.files import open_untricked, replaced, write
from dagprofiler._util.json import jsonable, mapping_in, trace_events, trace_json
from dagprofiler.errors import TraceError, short_repr
from dagprofiler.tracing._recording import AnyLabel, Label, new_id

#: How many spans of each thread are kept, to find those that overlap others.
_REMEMBERED = 16_384

#: For how many labels of each thread the beginning of the line is kept.
_MOST_HEADS = 1024


@lru_cache(maxsize=4096)
def _quoted(name: str) -> str:
    return encode_basestring(name).replace("\\\\", "\\u005c")


def process_name(pid: int, name: str) -> str:
    """Return the event that names a process."""
    args = trace_json({"name": name})
    return f'{{"ph": "M", "name": "process_name", "pid": {pid}, "args": {args}}}'


class Track:
    """Turns what one thread recorded into events.

    Parameters
    ----------
    pid, thread
        Number of the process; number and name of the thread.
    zero
        Reading of the clock, in seconds, that is 0 in the trace.
    verbose
        Whether spans become two events each, one for the start and one for the end.

    Notes
    -----
    Spans of one thread arrive in the order of their ends, and must be nested. A span that
    began within another and ended after it, which only happens where one is closed by
    hand or left open across an ``await`` or a ``yield``, is written as an asynchronous
    span. To find these, the spans that no other contains so far are kept: O(log n) each.
    """

    def __init__(self, pid: int, thread: tuple[int, str], zero: float, *, verbose: bool) -> None:
        tid, name = thread
        self._pid = pid
        self._place = f'"pid": {pid}, "tid": {tid}, '
        self._zero = zero
        self._verbose = verbose
        self._starts: list[float] = []
        self._ends: list[float] = []
        self._heads: dict[AnyLabel, str] = {}
        #: The event that names the thread.
        words = trace_json({"name": name})
        self.name_line = f'{{"ph": "M", "name": "thread_name", {self._place}"args": {words}}}'

    def lines(self, rows: Iterable[Any]) -> list[str]:
        """Return the events of some spans: label, start and end of one after the other."""
        lines: list[str] = []
        add, zero, heads = lines.append, self._zero, self._heads
        starts, ends = self._starts, self._ends
        compact = not self._verbose
        labels = iter(rows)
        for label, start, end in zip(labels, labels, labels):
            if type(label) is str or label.args is None:
                head, args = heads.get(label) or self._head(label), ""
            else:
                head, args = self._head(label), f', "args": {trace_json(label.args)}'
            if not head:
                lines += self._other(label, start, end)
                continue
            if not ends or ends[-1] <= start:
                starts.append(start)
                ends.append(end)
            elif self._overlaps(start, end):
                lines += self._other(_apart(label), start, end)
                continue
            # Rounded before they are subtracted, so that what lies within another still does.
            begin_ns, end_ns = int((start - zero) * 1e9 + 0.5), int((end - zero) * 1e9 + 0.5)
            if compact:
                duration = (end_ns - begin_ns) / 1e3
                add(f'{{"ph": "X", {head}{begin_ns / 1e3:.3f}, "dur": {duration:.3f}{args}}}')
            else:
                add(f'{{"ph": "B", {head}{begin_ns / 1e3:.3f}{args}}}')
                add(f'{{"ph": "E", {head}{end_ns / 1e3:.3f}}}')
        if len(starts) > _REMEMBERED:
            del starts[: -_REMEMBERED // 2], ends[: -_REMEMBERED // 2]
        return lines

    def _head(self, label: AnyLabel) -> str:
        """Return the beginning of the lines of a label; "" if the label is not of spans."""
        if isinstance(label, str):
            name, category, args = label, "span", None
        else:
            _, name, category, args, _ = label
            if label.kind != "span":
                return ""
        head = f'"name": {_quoted(name)}, "cat": {_quoted(category)}, {self._place}"ts": '
        if args is None:
            if len(self._heads) >= _MOST_HEADS:
                self._heads.clear()
            self._heads[label] = head
        return head

    def _overlaps(self, start: float, end: float) -> bool:
        """Tell whether a span, whose end is the latest, began within another."""
        starts, ends = self._starts, self._ends
        first_inside = bisect_left(starts, start)
        if first_inside and ends[first_inside - 1] > start:
            return True
        del starts[first_inside:], ends[first_inside:]
        starts.append(start)
        ends.append(end)
        return False

    def _other(self, label: Label, start: float, end: float) -> list[str]:
        """Return the events of anything but a span of the thread."""
        what = f'"name": {_quoted(label.name)}, "cat": {_quoted(label.category)}, {self._place}'
        if label.kind.startswith("async"):
            # Numbers are counted in each process.
            number = f"{self._pid:x}.{label.id:x}" if isinstance(label.id, int) else str(label.id)
            what += f'"id": {_quoted(number)}, '
        begin, finish = (f"{(moment - self._zero) * 1e6:.3f}" for moment in (start, end))
        args = f', "args": {trace_json(label.args)}' if label.args else ""
        return trace_events(label.kind, what, begin, finish, args)


def _locked(descriptor: int) -> str | None:
    """Lock a file for this process while it is open; return why if that is not possible."""
    try:
        from fcntl import LOCK_EX, LOCK_NB, flock
    except ImportError:
        # A new file is nobody else's.
        return "is there already" if os.fstat(descriptor).st_size else None
    try:
        flock(descriptor, LOCK_EX | LOCK_NB)
    except BlockingIOError:
        return "is written by another process"
    except OSError:
        return "is there already, and cannot be locked" if os.fstat(descriptor).st_size else None
    return None


def _apart(label: AnyLabel) -> Label:
    """Return the label of an asynchronous span, which may overlap those of its thread."""
    if isinstance(label, str):
        return Label("async", label, "span", None, new_id())
    return label._replace(kind="async", id=new_id())


#: The member of the document that Chrome's format does not have: how the file ended.
SECTION = "dagprofiler"

#: How many bytes are read of the beginning, and of the end, of a file that exists.
_READ_BYTES = 65_536

#: Least length of the tail: a full disk then has room for one that says what was lost, and why.
_TAIL_BYTES = 192


class TraceFile:
    """A trace that grows.

    Parameters
    ----------
    path
        Path of the file. A closed trace that it holds is continued. If another process writes
        to it, or it holds anything else, the trace gets a name of its own. A symbolic link is
        followed within its folder, and refused if it leads elsewhere.
    header
        Its ``otherData``, as JSON values.

    Attributes
    ----------
    path
        Path of the file; once it is open, of the one that is written.
    zero_s
        Reading of this process's clock, in seconds, that is 0 in the file, once it is open.
    """

    def __init__(self, path: str, header: Mapping[str, Any]) -> None:
        self.path = path
        self._header = header
        self.zero_s: float = header.get("clock", {}).get("zero_s", 0.0)
        self._descriptor = -1
        #: Where the tail begins.
        self._end = 0
        self._empty = True
        #: Whether a write has begun and not ended.
        self._torn = False

    @property
    def is_open(self) -> bool:
        """Whether something has been written."""
        return self._descriptor >= 0

    def write(self, events: Sequence[str], **ending: Any) -> None:
        """Append events, one a line, and a new tail.

        Raises
        ------
        OSError
            If they could not be written; the file then has its previous content, if the
            system can restore it.
        """
        self.open()
        text = "" if self._end else self._head()
        if events:
            text += ("\n" if self._empty else ",\n") + ",\n".join(events)
        # Half a surrogate pair, which UTF-8 cannot hold, has a form in JSON.
        content = text.encode("utf-8", "backslashreplace")
        tail = f'\n], "{SECTION}": {trace_json(ending)}'.encode().ljust(_TAIL_BYTES) + b"}\n"
        if self._torn:
            # The last write was interrupted.
            os.ftruncate(self._descriptor, self._end)
        self._torn = True
        try:
            self._put(self._end, content + tail)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._descriptor, self._end)
                self._put(self._end, tail if self._end else b"")
            if not self._end:
                self.abandon()
            raise
        self._end += len(content)
        self._empty = self._empty and not events
        if not events:
            # The tail may have become shorter.
            os.ftruncate(self._descriptor, self._end + len(tail))
        self._torn = False

    def abandon(self) -> None:
        """Close the file unchanged; in a forked process it belongs to the parent."""
        if self.is_open:
            with suppress(OSError):
                os.close(self._descriptor)
        self._descriptor = -1

    def open(self) -> None:
        """Open the file, unless it is open.

        Raises
        ------
        OSError
            If it cannot be opened.
        """
        if self.is_open:
            return
        folder = os.path.dirname(self.path)
        os.makedirs(folder, exist_ok=True)
        path = os.path.realpath(self.path)
        if os.path.dirname(path) != os.path.realpath(folder):
            # Another user may have created it: the names of traces can be guessed.
            raise OSError(errno.ELOOP, "Is a link that leads out of its folder", self.path)
        self._end, self._empty, self._torn = 0, True, False
        if replaced(self.path) is None:
            self._descriptor = open_untricked(path, os.O_WRONLY)
            return
        why = self._claim(path)
        if why is None:
            return
        stem, ending = os.path.splitext(self.path)
        for number in count(1):
            own = f"{stem}.{os.getpid()}{f'.{number}' * (number > 1)}{ending}"
            if self._claim(own) is None:
                break
        getLogger("dagprofiler.tracing").warning("the trace is in %r: %r %s", own, path, why)
        self.path = own

    def _claim(self, path: str) -> str | None:
        """Open a file that nobody writes to and that can be continued; else return why not."""
        descriptor = open_untricked(path, os.O_RDWR | os.O_CREAT)
        try:
            why = _locked(descriptor) or self._continue(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        if why is None:
            self._descriptor = descriptor
        else:
            os.close(descriptor)
        return why

    def _continue(self, descriptor: int) -> str | None:
        """Find the end and the clock of the trace in a file; return why it cannot be continued."""
        size = os.fstat(descriptor).st_size
        if not size:
            return None
        other = "holds something else than a trace that was closed"
        os.lseek(descriptor, 0, os.SEEK_SET)
        head, line, _ = os.read(descriptor, _READ_BYTES).partition(b"\n")
        begin = max(0, size - _READ_BYTES)
        os.lseek(descriptor, begin, os.SEEK_SET)
        rest = os.read(descriptor, _READ_BYTES)
        tail = rest.rfind(b"\n], ")
        try:
            ending = json.loads(b"{" + rest[tail + 4 :])
            theirs = json.loads(head + b"]}")["otherData"]["clock"]
            closed = bool(line) and tail >= 0 and ending == {SECTION: {"closed": True}}
            mine = self._header["clock"]
            if theirs["boot"] is not None and theirs["boot"] == mine["boot"]:
                zero_s = float(theirs["zero_s"])
            else:
                zero_s = mine["zero_s"] - (mine["epoch_s"] - float(theirs["epoch_s"]))
        except (ValueError, LookupError, TypeError):
            return other
        if not closed:
            return other
        self.zero_s = zero_s
        self._end, self._empty = begin + tail, rest[:tail].endswith(b"[")
        return None

    def _head(self) -> str:
        return (
            f'{{"displayTimeUnit": "ms", "otherData": {trace_json(self._header)}, "traceEvents": ['
        )

    def _put(self, place: int, content: bytes) -> None:
        os.lseek(self._descriptor, place, os.SEEK_SET)
        left = memoryview(content)
        while left:
            left = left[os.write(self._descriptor, left) :]


#: Lines that are read at once, a balance of speed and memory.
_BATCH = 4096

#: Errors of text that is not JSON or is nested too deeply.
_NOT_JSON = (ValueError, RecursionError)

#: Times beyond this, in any unit, are invalid.
_LATEST = 1e18

_HEAD_END = '"traceEvents": ['


class Merged(NamedTuple):
    """The result of a merge.

    Attributes
    ----------
    path
        Path of the trace.
    events
        Number of its events.
    notes
        Problems: truncated files, clocks that may differ.
    """

    path: str
    events: int
    notes: list[str]


class _Source:
    """One trace to be merged: its header, and the shift of its times."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.notes: list[str] = []
        self.shift_us = 0.0
        with _opened(path) as file:
            head = file.readline()
        #: Whether each line is an event, as we write it.
        self.in_lines = head.rstrip().endswith(_HEAD_END)
        self.about: dict[str, Any] = {}
        if self.in_lines:
            try:
                self.about = mapping_in(json.loads(head + "]}"), "otherData")
            except _NOT_JSON as error:
                raise TraceError(f"{path!r} is no trace: {error}") from error
        clock = mapping_in(self.about, "clock")
        self.boot = clock.get("boot")
        self.zero_s: Any = clock.get("zero_s")
        self.epoch_s: Any = clock.get("epoch_s")
        self.has_clock = _is_moment(self.zero_s) and _is_moment(self.epoch_s)
        self.pids: dict[int, int] = {}

    def batches(self) -> Iterator[list[Any]]:
        """Yield the events, in lists."""
        if not self.in_lines:
            yield _whole(self)
            return
        closed = None
        with _opened(self.path) as file:
            file.readline()
            lines: list[str] = []
            for line in file:
                if line.startswith("]"):
                    closed = _ending(line)
                    break
                lines.append(line.rstrip().rstrip(","))
                if len(lines) == _BATCH:
                    yield self.parsed(lines)
                    lines = []
            yield self.parsed(lines)
        if closed is None:
            self.notes.append("it ends in the midst: the process was killed while it wrote")
        else:
            if not closed.get("closed"):
                self.notes.append("it is not closed: the process was killed, or still runs")
            if closed.get("lost"):
                self.notes.append(f"{closed['lost']} spans were lost: {closed.get('why')}")

    def parsed(self, lines: list[str]) -> list[Any]:
        """Return the events in lines, one a line; of others there are notes."""
        try:
            events: list[Any] = json.loads(f"[{','.join(filter(None, lines))}]")
        except _NOT_JSON:
            events = []
            for line in lines:
                try:
                    events.append(json.loads(line))
                except _NOT_JSON:
                    if line:
                        self.notes.append(f"a line is no event: {short_repr(line[:60])}")
        return events


def merge(paths: Any, output: Any = "merged.pfw") -> Merged:
    """Join the traces of several processes into one that viewers load.

    Parameters
    ----------
    paths
        One file or several, including files of killed processes, of PerfFlowAspect
        and of other tools.
    output
        File to write, or an open stream.

    Returns
    -------
    Merged
        Path, number of events, and notes, which the file also holds under
        ``otherData``.

    Raises
    ------
    TraceError
        If there is no file, or one is not a trace.
    OSError
        If one cannot be read, or `output` cannot be written.

    Notes
    -----
    Times count from the start of the first process. Processes of one machine share a
    clock until it is restarted. Others are aligned by the time of day of their start,
    as far as their clocks agree, and traces without it are left unchanged;
    a note says so. Processes with the same id get new ids. Memory use does not
    grow with the length of files in our format; files in other formats are read whole.
    """
    if isinstance(paths, (str, bytes, os.PathLike)):
        paths = [paths]
    sources = [_Source(os.fsdecode(path)) for path in paths]
    if not sources:
        raise TraceError("merge() of no traces: expected at least one file")
    notes = _align(sources)
    counted = [0]
    path = write(output, _pieces(sources, notes, counted))
    return Merged(path, counted[0], notes)


def _align(sources: Sequence[_Source]) -> list[str]:
    """Align the traces in time; return notes on the alignment."""
    timed = [source for source in sources if source.has_clock]
    if not timed:
        return ["no trace has its start time: times are those of the files"] * (len(sources) > 1)
    first = min(timed, key=lambda source: source.zero_s + (source.epoch_s - source.zero_s))
    # The process that began first, on its own clock, among those that share it.
    kin = [source for source in timed if source.boot is not None and source.boot == first.boot]
    first = min(kin or [first], key=lambda source: source.zero_s)
    notes = []
    for source in sources:
        if not source.has_clock:
            notes.append(f"{source.path}: has no start time: its times are unchanged")
        elif source is first or (source.boot is not None and source.boot == first.boot):
            source.shift_us = (source.zero_s - first.zero_s) * 1e6
        else:
            source.shift_us = (source.epoch_s - first.epoch_s) * 1e6
            notes.append(
                f"{source.path}: aligned by the time of day: its clock may be another machine's"
            )
    return notes


def _pieces(sources: Sequence[_Source], notes: list[str], counted: list[int]) -> Iterator[str]:
    yield '{"displayTimeUnit": "ms", "traceEvents": ['
    lead, taken = "\n", set[int]()
    for source in sources:
        for batch in source.batches():
            events = [event for event in batch if isinstance(event, dict) and "ph" in event]
            if len(events) < len(batch):
                source.notes.append(f"{len(batch) - len(events)} entries are no events")
            _move(source, events, taken)
            for event in events:
                try:
                    line = trace_json(event)
                except _NOT_JSON as error:
                    source.notes.append(f"an event is not passed on: {error}")
                    continue
                yield lead + line
                lead = ",\n"
                counted[0] += 1
        taken.update(source.pids.values())
        notes += [f"{source.path}: {note}" for note in source.notes]
    heads = [jsonable({"head": source.about})[0]["head"] for source in sources if source.about]
    yield f'\n], "otherData": {trace_json({"merged": heads, "notes": notes})}}}\n'


def _is_moment(value: Any) -> bool:
    return type(value) in (int, float) and -_LATEST < value < _LATEST


def _move(source: _Source, events: Iterable[dict[str, Any]], taken: set[int]) -> None:
    """Shift the times of events, and replace process ids that are taken."""
    shift_us, pids = source.shift_us, source.pids
    for event in events:
        if shift_us and _is_moment(event.get("ts")):
            event["ts"] = round(event["ts"] + shift_us, 3)
        pid = event.get("pid")
        if isinstance(pid, int):
            if pid not in pids:
                used = taken.union(pids.values())
                # A step leads above the process ids of all systems.
                pids[pid] = next(free for free in count(pid, 1 << 22) if free not in used)
            if pids[pid] != pid:
                event["pid"] = pids[pid]
                if isinstance(event.get("id"), str):
                    # Numbers of asynchronous spans begin with that of their process.
                    event["id"] = f"{event['id']} of {pids[pid]}"


def _whole(source: _Source) -> list[Any]:
    """Return the events of a trace in another format than our lines."""
    with _opened(source.path) as file:
        text = file.read().strip()
    try:
        document = json.loads(text)
    except _NOT_JSON:
        # PerfFlowAspect and others leave the end open.
        try:
            document = json.loads(text.rstrip(", \n") + "]")
        except _NOT_JSON as error:
            # Its forked children write into one file, each with a beginning of its own.
            lines = [line.strip(" ,") for line in text.splitlines()]
            document = source.parsed([line for line in lines if line not in ("", "[", "]")])
            if not any(isinstance(event, dict) for event in document):
                raise TraceError(f"{source.path!r} is no trace: {error}") from error
        source.notes.append("its end was open")
    if isinstance(document, dict):
        document = document.get("traceEvents")
    if not isinstance(document, list):
        raise TraceError(f"{source.path!r} is no trace: expected a list of events")
    return document


def _ending(line: str) -> dict[str, Any] | None:
    """Return what the last line says of how the file ended; None if it is cut itself."""
    try:
        ending = json.loads("{" + line.lstrip("],")).get(SECTION, {})
    except _NOT_JSON:
        return None
    return ending if isinstance(ending, dict) else None


def _opened(path: str) -> IO[str]:
    # What a kill has cut in two may be a letter.
    return open(path, encoding="utf-8", errors="replace")
