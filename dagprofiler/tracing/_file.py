"""The trace file of one process: strict JSON after every write.

The text ends with a tail that closes all brackets. The next events overwrite the tail,
with a new one at their end, in a single system call.
"""

from __future__ import annotations

import errno
import json
import os
from bisect import bisect_left
from contextlib import suppress
from functools import lru_cache
from itertools import count
from json.encoder import encode_basestring
from logging import getLogger
from typing import TYPE_CHECKING, Any

from dagprofiler._util.files import open_untricked, replaced
from dagprofiler.tracing._recording import (
    ASYNC,
    ASYNC_INSTANT,
    COUNTER,
    INSTANT,
    SPAN,
    Label,
    new_id,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dagprofiler.tracing._recording import AnyLabel


#: How many spans that others may still be around are remembered, of each thread.
_REMEMBERED = 16_384

#: Of how many labels the beginning of the line is kept, of each thread.
_MOST_HEADS = 1024

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def encode(value: Any) -> str:
    """Return `value`, a JSON value, as JSON text that Perfetto reads correctly.

    Perfetto takes a quote after any backslash as escaped, even after an escaped backslash.
    """
    return _encode(value).replace("\\\\", "\\u005c")


@lru_cache(maxsize=4096)
def _quoted(name: str) -> str:
    return encode_basestring(name).replace("\\\\", "\\u005c")


def process_name(pid: int, name: str) -> str:
    """Return the event that names a process."""
    return (
        f'{{"ph": "M", "name": "process_name", "pid": {pid}, "args": {{"name": {_quoted(name)}}}}}'
    )


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
    Spans of one thread arrive in the order of their ends and are to be nested. One that
    began within another and ended after it, which only happens where a span is closed by
    hand or left open across an ``await`` or a ``yield``, is written as an asynchronous
    one. To find these, the spans that are in no other yet are remembered: O(log n) each.
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
        words = encode({"name": name})
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
                head, args = self._head(label), f', "args": {encode(label.args)}'
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
        """Return what all spans of a label begin with; nothing if it is not one of a span."""
        if isinstance(label, str):
            name, category, args = label, "span", None
        else:
            _, name, category, args, _ = label
            if label.kind != SPAN:
                return ""
        head = f'"name": {_quoted(name)}, "cat": {_quoted(category)}, {self._place}"ts": '
        if args is None:
            if len(self._heads) >= _MOST_HEADS:
                self._heads.clear()
            self._heads[label] = head
        return head

    def _overlaps(self, start: float, end: float) -> bool:
        """Say whether a span, whose end is the latest, began within another."""
        starts, ends = self._starts, self._ends
        first_inside = bisect_left(starts, start)
        if first_inside and ends[first_inside - 1] > start:
            return True
        del starts[first_inside:], ends[first_inside:]
        starts.append(start)
        ends.append(end)
        return False

    def _other(self, label: Label, start: float, end: float) -> list[str]:
        """Return the events of what is no span of the thread."""
        what = f'"name": {_quoted(label.name)}, "cat": {_quoted(label.category)}, {self._place}'
        begin, finish = f'"ts": {(start - self._zero) * 1e6:.3f}', (end - self._zero) * 1e6
        args = f', "args": {encode(label.args)}' if label.args else ""
        if label.kind == COUNTER:
            return [f'{{"ph": "C", {what}{begin}{args}}}']
        if label.kind == INSTANT:
            return [f'{{"ph": "i", "s": "t", {what}{begin}{args}}}']
        # Numbers are counted in each process.
        number = f"{self._pid:x}.{label.id:x}" if isinstance(label.id, int) else str(label.id)
        what += f'"id": {_quoted(number)}, '
        if label.kind == ASYNC_INSTANT:
            return [f'{{"ph": "n", {what}{begin}{args}}}']
        return [
            f'{{"ph": "b", {what}{begin}{args}}}',
            f'{{"ph": "e", {what}"ts": {finish:.3f}}}',
        ]


def _locked(descriptor: int) -> str | None:
    """Lock a file for this process as long as it is open; say why that cannot be."""
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
    """Return the label of a span that has to stand apart from those of its thread."""
    if isinstance(label, str):
        return Label(ASYNC, label, "span", None, new_id())
    return label._replace(kind=ASYNC, id=new_id())


#: The member of the document, beside what Chrome's format has, that says how it ended.
SECTION = "dagprofiler"

#: How much is read of the beginning and of the end of a file that is there.
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
        Path of the file, once it is open that which is written.
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
        tail = f'\n], "{SECTION}": {encode(ending)}'.encode().ljust(_TAIL_BYTES) + b"}\n"
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
        """Open a file that nobody writes to and that can be continued; else say why not."""
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
        """Find the end of the trace in a file, and its clock; say why it cannot be continued."""
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
        return f'{{"displayTimeUnit": "ms", "otherData": {encode(self._header)}, "traceEvents": ['

    def _put(self, place: int, content: bytes) -> None:
        os.lseek(self._descriptor, place, os.SEEK_SET)
        left = memoryview(content)
        while left:
            left = left[os.write(self._descriptor, left) :]
