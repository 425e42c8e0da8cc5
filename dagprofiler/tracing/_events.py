"""Events in Chrome's format: those of recorded spans, and traces merged on one clock."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import IO, Any, NamedTuple

from dagprofiler._util import JsonObject, PathLike
from dagprofiler._util.files import write
from dagprofiler._util.json import mapping_in, trace_json
from dagprofiler.errors import TraceError, explained

#: The phase of the first event of each kind, in Chrome's format, and of the one at its end.
_PHASES = {
    "span": '"B"',
    "async": '"b"',
    "async_instant": '"n"',
    "instant": '"i", "s": "t"',
    "counter": '"C"',
}
_ENDS = {"span": '"E"', "async": '"e"'}


@lru_cache(maxsize=4096)
def _what(name: str, category: str, place: str) -> str:
    """Return the members ``name``, ``cat`` and those in `place`, each with a comma behind it."""
    return f'"name": {trace_json(name)}, "cat": {trace_json(category)}, {place}'


def name_event(kind: str, place: str, name: str) -> str:
    """Return the event that names a process or a thread."""
    return f'{{"ph": "M", "name": "{kind}", {place}"args": {trace_json({"name": name})}}}'


def span_events(
    spans: Iterable[tuple[Any, ...]], pid: int, thread: int, zero_s: float, *, verbose: bool
) -> list[str]:
    """Return the events of what one thread recorded.

    Parameters
    ----------
    spans
        Fields of ``Span``.
    pid, thread
        The system's numbers of process and thread.
    zero_s
        Reading of the clock, in seconds, that is 0 in the trace.
    verbose
        Whether spans become two events each, one for the start and one for the end.
    """
    events: list[str] = []
    place = f'"pid": {pid}, "tid": {thread}, '
    for kind, name, category, start, end, args, number in spans:
        what = _what(name, category, place)
        # Rounded before they are subtracted, so that what lies within another still does.
        begin_ns, end_ns = round((start - zero_s) * 1e9), round((end - zero_s) * 1e9)
        begin = f"{begin_ns / 1e3:.3f}"
        words = f', "args": {trace_json(args)}' if args else ""
        if kind == "span" and not verbose:
            duration = f"{(end_ns - begin_ns) / 1e3:.3f}"
            events.append(f'{{"ph": "X", {what}"ts": {begin}, "dur": {duration}{words}}}')
            continue
        if number is not None:
            # Numbers are counted in each process.
            id = f"{pid:x}.{number:x}" if isinstance(number, int) else number
            what = f'{what}"id": {trace_json(id)}, '
        events.append(f'{{"ph": {_PHASES[kind]}, {what}"ts": {begin}{words}}}')
        if kind in _ENDS:
            events.append(f'{{"ph": {_ENDS[kind]}, {what}"ts": {end_ns / 1e3:.3f}}}')
    return events


#: The member of the document that Chrome's format does not have: how the file ended.
SECTION = "dagprofiler"


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
    """One trace to be merged: its events, its header, and the shift of its times."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.notes: list[str] = []
        self.shift_us = 0.0
        document = self._read()
        if not isinstance(document, dict):
            document = {"traceEvents": document}
        events: Any = document.get("traceEvents")
        if not isinstance(events, list) or not all(isinstance(event, dict) for event in events):
            raise TraceError(f"{path!r} is no trace: expected a list of events")
        self.events: list[JsonObject] = events
        if mapping_in(document, SECTION).get("closed") is False:
            self.notes.append("it is not closed: the process was killed, or still runs")
        self.about = mapping_in(document, "otherData")
        #: Readings of two clocks at the start of the process; empty in files of other programs.
        clock = mapping_in(self.about, "clock")
        self.clock = clock if {"boot", "zero_s", "epoch_s"} <= clock.keys() else {}

    def _read(self) -> Any:
        text = Path(self.path).read_text("utf-8", errors="replace")
        try:
            return json.loads(text)
        except ValueError:
            # PerfFlowAspect leaves the end open, and a kill may come amid a write.
            self.notes.append("its end was open: the process was killed while it wrote")
        closed = text[: text.rfind("},\n") + 1] + ("]}" if text.startswith("{") else "]")
        with explained(TraceError, f"{self.path!r} is no trace", of=ValueError):
            return json.loads(closed)


def merge(
    paths: PathLike | Iterable[PathLike], output: PathLike | IO[Any] = "merged.pfw"
) -> Merged:
    """Join the traces of several processes into one that viewers load.

    Parameters
    ----------
    paths
        One file or several, which may be those of killed processes, of PerfFlowAspect and of
        other tools.
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
    a note says so. Processes with the same id get new ids. Files are read whole.
    """
    if isinstance(paths, (str, bytes, os.PathLike)):
        paths = [paths]
    sources = [_Source(os.fsdecode(path)) for path in paths]
    if not sources:
        raise TraceError("merge() of no traces: expected at least one file")
    _align(sources)
    lines: list[str] = []
    notes: list[str] = []
    taken: set[int] = set()
    for source in sources:
        _move(source, taken)
        with explained(TraceError, f"{source.path!r} is no trace", of=ValueError):
            lines += [trace_json(event) for event in source.events]
        notes += [f"{source.path}: {note}" for note in source.notes]
    about = {"merged": [source.about for source in sources if source.about], "notes": notes}
    head = f'{{"displayTimeUnit": "ms", "otherData": {trace_json(about)}, "traceEvents": [\n'
    path = write(output, [head, ",\n".join(lines), "\n]}\n"])
    return Merged(path, len(lines), notes)


def _align(sources: Sequence[_Source]) -> None:
    """Align the traces in time."""
    timed = [source for source in sources if source.clock]
    first = min(timed, key=lambda source: source.clock["epoch_s"], default=None)
    for source in sources:
        if first is None or not source.clock:
            source.notes.append("has no start time: its times are unchanged")
            continue
        clock, boot = "zero_s", source.clock["boot"]
        if source is not first and (boot is None or boot != first.clock["boot"]):
            clock = "epoch_s"
            source.notes.append("aligned by the time of day: its clock may be another machine's")
        source.shift_us = (source.clock[clock] - first.clock[clock]) * 1e6
    # The time of day may have changed meanwhile.
    earliest_us = min((source.shift_us for source in timed), default=0.0)
    for source in timed:
        source.shift_us -= earliest_us


def _move(source: _Source, taken: set[int]) -> None:
    """Shift the times of the events, and replace process ids that are taken; extend `taken`."""
    pids: dict[int, int] = {}
    for event in source.events:
        if source.shift_us and isinstance(event.get("ts"), (int, float)):
            event["ts"] = round(event["ts"] + source.shift_us, 3)
        pid = event.get("pid")
        if not isinstance(pid, int):
            continue
        if pid not in pids:
            # A step leads above the process ids of all systems.
            pids[pid] = next(free for free in count(pid, 1 << 22) if free not in taken)
            taken.add(pids[pid])
        if pids[pid] != pid:
            event["pid"] = pids[pid]
            if isinstance(event.get("id"), str):
                # Numbers of asynchronous spans begin with that of their process.
                event["id"] = f"{event['id']} of {pids[pid]}"
