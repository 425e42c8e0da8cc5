"""Merging the traces of several processes into one, on one clock."""

from __future__ import annotations

import json
import os
from typing import IO, TYPE_CHECKING, Any, NamedTuple, cast

from dagprofiler._util.files import write
from dagprofiler._util.json import jsonable
from dagprofiler.errors import TraceError, short_repr
from dagprofiler.tracing._file import SECTION, encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


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
            self.about = _loads(head + "]}", path).get("otherData", {})
        clock = self.about.get("clock") if isinstance(self.about, dict) else None
        clock = clock if isinstance(clock, dict) else {}
        self.boot = clock.get("boot")
        times = clock.get("zero_s"), clock.get("epoch_s")
        self.has_clock = all(map(_is_moment, times))
        self.zero_s, self.epoch_s = cast("tuple[float, float]", times)
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
                    line = _text(event)
                except _NOT_JSON as error:
                    source.notes.append(f"an event is not passed on: {error}")
                    continue
                yield lead + line
                lead = ",\n"
                counted[0] += 1
        taken.update(source.pids.values())
        notes += [f"{source.path}: {note}" for note in source.notes]
    heads = [jsonable({"head": source.about})[0]["head"] for source in sources if source.about]
    yield f'\n], "otherData": {_text({"merged": heads, "notes": notes})}}}\n'


def _text(value: Any) -> str:
    text = encode(value)
    # Half a surrogate pair, which UTF-8 cannot hold, has a form in JSON.
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


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
                pids[pid] = _free(pid, taken)
            if pids[pid] != pid:
                event["pid"] = pids[pid]
                if isinstance(event.get("id"), str):
                    # Numbers of asynchronous spans begin with that of their process.
                    event["id"] = f"{event['id']} of {pids[pid]}"


def _free(pid: int, taken: set[int]) -> int:
    while pid in taken:
        # Above the process ids of all systems.
        pid += 1 << 22
    return pid


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


def _loads(text: str, path: str) -> Mapping[str, Any]:
    try:
        document: Mapping[str, Any] = json.loads(text)
    except _NOT_JSON as error:
        raise TraceError(f"{path!r} is no trace: {error}") from error
    return document


def _opened(path: str) -> IO[str]:
    # What a kill has cut in two may be a letter.
    return open(path, encoding="utf-8", errors="replace")
