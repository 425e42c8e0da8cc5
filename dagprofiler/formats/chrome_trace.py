"""chrome_trace: the timeline, for Perfetto and other viewers of Chrome's traces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

from dagprofiler._document import SpanRow
from dagprofiler._document.table import TaskSpan, edges_of, moment_ns, task_spans
from dagprofiler._util import grouped
from dagprofiler._util.json import trace_events, trace_json
from dagprofiler.analysis.critical_path import analyze
from dagprofiler.errors import CycleError, WeightError
from dagprofiler.formats import Export
from dagprofiler.formats._graph import left_out, predicted
from dagprofiler.profile import Profile

_LOST = "weights of tasks, sizes of edges and tasks of which no start is known are left out"


class ChromeTrace:
    """Renders the timeline of profiles in Chrome's trace event format, as strict JSON."""

    name, extension = "chrome_trace", ".trace.json"

    def render(self, profile: Profile) -> Export:
        """Return a span a task and round, its phases in it, and an arrow an edge and round.

        Raises
        ------
        FormatError
            If the profile has no timeline.

        Notes
        -----
        ``ts`` and ``dur`` are in microseconds, from the start of the run. Processes and threads
        are numbered, and named by what the profile calls them; rounds follow one another there,
        and have a track of their own. An arrow leads from the last phase of a task to the first
        of the next. O(n log n) time.
        """
        spans = task_spans(profile)
        trace = _Trace(profile)
        trace.add_rounds(spans)
        for worker, of_worker in grouped((span.worker, span) for span in spans).items():
            trace.add_tasks(worker, of_worker)
        trace.add_flows(edges_of(profile))
        trace.add_traced(profile.spans.rows())
        other = {
            "hostname": profile.hostname,
            "timestamp": profile.timestamp,
            "dagprofiler_version": profile.metadata.get("dagprofiler_version"),
            "prediction": " ".join(predicted(profile)),
        }
        head = trace_json({key: str(value) for key, value in other.items() if value})
        lines = ",\n".join(trace.events)
        text = f'{{"displayTimeUnit": "ms", "otherData": {head}, "traceEvents": [\n{lines}\n]}}\n'
        losses = *predicted(profile), _LOST, *left_out(profile, ("timeline", "spans"))
        return Export(text, losses)


class _Ran(NamedTuple):
    """A task in the trace: its span, its process and thread as text, and its last phase's start."""

    span: TaskSpan
    place: str
    last_ns: int


class _Seen(NamedTuple):
    """What tracing saw, as it is shown: the kind may differ, times are in ns."""

    row: SpanRow
    kind: str
    start: int
    end: int
    args: Mapping[str, Any]


class _Trace:
    """The events of a trace, and where the tasks are in it."""

    def __init__(self, profile: Profile) -> None:
        self.events: list[str] = []
        self._critical = _critical(profile) if "spans" in profile.sections else frozenset()
        self._kinds = profile.samples.rounds
        self._workers = profile.timeline.workers
        self._thread_ids = [thread["id"] for thread in profile.spans.threads]
        self._numbers = count(1)
        self._processes: dict[tuple[Any, Any], int] = {}
        self._threads: dict[int, str] = {}
        #: By round and task.
        self._ran: dict[int, dict[str, _Ran]] = {}

    def add_rounds(self, spans: Iterable[TaskSpan]) -> None:
        """Add a track with a span for each round."""
        place = self._thread(self._process("run", None), "rounds")
        rounds = grouped((span.round, span) for span in spans)
        for number, group in sorted(rounds.items()):
            kind = f" ({self._kinds[number]})" if number < len(self._kinds) else ""
            start, end = min(span.start for span in group), max(span.end for span in group)
            self.events.append(_span(f"round {number}{kind}", "round", place, start, end))

    def add_tasks(self, worker: int | None, spans: Iterable[TaskSpan]) -> None:
        """Add a track with the tasks of one worker, and their phases."""
        if worker is None:
            place = self._thread(self._process("unknown worker", None), "unknown thread")
        else:
            info = self._workers[worker]
            process = self._process(info.get("host"), info.get("pid"))
            place = self._thread(process, f"thread {info.get('thread', 'unknown')}")
        for span in sorted(spans):
            words = self._words_of(span)
            self.events.append(_span(span.task, "task", place, span.start, span.end, words))
            last_ns = span.start
            for phase, start, end in span.phases:
                self.events.append(_span(phase, "phase", place, start, end))
                last_ns = start
            self._ran.setdefault(span.round, {})[span.task] = _Ran(span, place, last_ns)

    def _words_of(self, span: TaskSpan) -> dict[str, Any]:
        """Return the attributes of a task other than times."""
        failure = span.failure or {}
        words = {
            "round": span.round,
            "ready_ms": span.ready_ms,
            "critical_path": span.task in self._critical or None,
            "state": failure.get("state"),
            "error": failure.get("error"),
        }
        return {key: value for key, value in words.items() if value is not None}

    def add_flows(self, edges: Sequence[tuple[str, str]]) -> None:
        """Add an arrow for each edge and round in which both its tasks began."""
        numbers = count(1)
        for ran in self._ran.values():
            for source, target in edges:
                if source in ran and target in ran:
                    first, second = ran[source], ran[target]
                    what = f'"name": "edge", "cat": "edge", "id": {next(numbers)}'
                    begin, end = first.last_ns / 1000, second.span.start / 1000
                    self.events += [
                        f'{{"ph": "s", {what}, {first.place}, "ts": {begin}}}',
                        f'{{"ph": "f", "bp": "e", {what}, {second.place}, "ts": {end}}}',
                    ]

    def add_traced(self, rows: Iterable[SpanRow]) -> None:
        """Add what tracing saw inside the tasks, and a track for each other thread.

        Spans of one thread that overlap without one being in the other, since they were closed
        in the wrong order, become asynchronous: viewers would drop them.
        """
        numbers = count(1)
        for place, seen in grouped(self._placed(row) for row in rows).items():
            around: list[int] = []
            for one in sorted(seen, key=lambda one: (one.start, -one.end)):
                row, shown = one.row, one
                number = None if row.id is None else f"{row.task} {row.round} {row.id}"
                if one.kind == "span":
                    while around and around[-1] <= one.start:
                        around.pop()
                    if around and around[-1] < one.end:
                        number = f"overlapping {next(numbers)}"
                        shown = one._replace(kind="async")
                    else:
                        around.append(one.end)
                self._add_seen(shown, place, number)

    def _placed(self, row: SpanRow) -> tuple[str, _Seen]:
        """Return process and thread of a span, and the span as it is shown there."""
        ran = self._ran.get(row.round, {}).get(row.task)
        start, end = moment_ns(row.start_ms), moment_ns(row.end_ms)
        args: dict[str, Any] = dict(row.args or {})
        if ran is not None and row.own:
            place = ran.place
            # Clocks are read one after the other: what is in a task must not stick out of it.
            start = max(ran.span.start, min(ran.span.end, start))
            end = max(ran.span.start, min(ran.span.end, end))
        else:
            place = self._place_of(row)
            args = {"task": row.task, "round": row.round, **args}
        if row.own and row.task in self._critical:
            args.setdefault("critical_path", True)
        if row.kind == "counter":
            # Any other argument would be a counter too.
            args = {
                name: value
                for name, value in (row.args or {}).items()
                if isinstance(value, (int, float)) and not isinstance(value, bool)
            }
        return place, _Seen(row, row.kind, start, end, args)

    def _place_of(self, row: SpanRow) -> str:
        """Return process and thread of a thread other than the tasks'."""
        index = row.thread_index
        if index not in self._threads:
            info = {} if row.worker is None else self._workers[row.worker]
            process = self._process(info.get("host", "unknown worker"), info.get("pid"))
            name = f"{row.thread} ({self._thread_ids[index]})"
            self._threads[index] = self._thread(process, name)
        return self._threads[index]

    def _add_seen(self, seen: _Seen, place: str, number: str | None) -> None:
        row, kind = seen.row, seen.kind
        if kind == "span":
            event = _span(row.name, row.category, place, seen.start, seen.end, seen.args)
            self.events.append(event)
            return
        what = f'"name": {trace_json(row.name)}, "cat": {trace_json(row.category)}, {place}, '
        if kind.startswith("async"):
            what += f'"id": {trace_json(number)}, '
        args = f', "args": {trace_json(seen.args)}' if seen.args or kind == "counter" else ""
        begin, end = str(seen.start / 1000), str(seen.end / 1000)
        self.events += trace_events(kind, what, begin, end, args)

    def _process(self, host: Any, pid: Any) -> int:
        number = self._processes.get((host, pid))
        if number is None:
            number = self._processes[host, pid] = next(self._numbers)
            name = f"{host or 'unknown host'}{'' if pid is None else f', pid {pid}'}"
            what = {"name": "process_name", "pid": number, "args": {"name": name}}
            self.events.append(trace_json({"ph": "M", **what}))
        return number

    def _thread(self, process: int, name: str) -> str:
        """Add a thread; return process and thread as members of its events."""
        what = {"pid": process, "tid": next(self._numbers)}
        event = {"ph": "M", "name": "thread_name", **what, "args": {"name": name}}
        self.events.append(trace_json(event))
        return trace_json(what)[1:-1]


def _span(
    name: str,
    category: str,
    place: str,
    start: int,
    end: int,
    args: Mapping[str, Any] | None = None,
) -> str:
    """Return the event of a span, from `start` to `end` in ns; as text, since there are many."""
    what = f'"name": {trace_json(name)}, "cat": {trace_json(category)}, {place}'
    more = f', "args": {trace_json(args)}' if args else ""
    return f'{{"ph": "X", {what}, "ts": {start / 1000}, "dur": {(end - start) / 1000}{more}}}'


def _critical(profile: Profile) -> frozenset[str]:
    """Return the tasks on the critical path; none where times do not tell it."""
    try:
        found = analyze(profile, cost="wall_time")
    except (CycleError, WeightError):
        return frozenset()
    return frozenset(found.without_communication.critical_path)


EXPORTER = ChromeTrace()
