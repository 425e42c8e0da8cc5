"""chrome_trace: the timeline, for Perfetto and other viewers of Chrome's traces."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import count
from typing import Any

from dagprofiler._document import SpanRow
from dagprofiler._document.table import TaskSpan, edges_of, moment_ns, task_spans
from dagprofiler._util import JsonObject, grouped
from dagprofiler._util.json import trace_json
from dagprofiler.analysis.critical_path import analyze
from dagprofiler.errors import CycleError, WeightError
from dagprofiler.formats import Export
from dagprofiler.formats._graph import left_out, predicted
from dagprofiler.profile import Profile

#: Numbers of process and thread in the trace.
_Place = tuple[int, int]

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
        about = {key: str(value) for key, value in other.items() if value}
        document = {"displayTimeUnit": "ms", "otherData": about, "traceEvents": trace.events}
        losses = *predicted(profile), _LOST, *left_out(profile, ("timeline", "spans"))
        return Export(trace_json(document) + "\n", losses)


#: The phase, in Chrome's format, of each kind of span; others are asynchronous, as ``"b"``.
_PHASES = {"span": "X", "instant": "i", "async_instant": "n", "counter": "C"}


class _Trace:
    """The events of a trace, and where the tasks are in it."""

    def __init__(self, profile: Profile) -> None:
        self.events: list[JsonObject] = []
        self._critical = _critical(profile) if "spans" in profile.sections else frozenset()
        self._kinds = profile.samples.rounds
        self._workers = profile.timeline.workers
        self._thread_ids = [thread["id"] for thread in profile.spans.threads]
        self._numbers = count(1)
        #: By host and number of the process.
        self._processes: dict[tuple[Any, Any], int] = {}
        #: By number of the worker, and by number of another thread.
        self._of_workers: dict[int | None, _Place] = {}
        self._of_threads: dict[int, _Place] = {}
        #: By round and task.
        self._ran: dict[int, dict[str, TaskSpan]] = {}

    def add_rounds(self, spans: Iterable[TaskSpan]) -> None:
        """Add a track with a span for each round."""
        place = self._track("run", None, "rounds")
        for number, group in sorted(grouped((span.round, span) for span in spans).items()):
            kind = f" ({self._kinds[number]})" if number < len(self._kinds) else ""
            start, end = min(span.start for span in group), max(span.end for span in group)
            self._add_span(f"round {number}{kind}", "round", place, start, end)

    def add_tasks(self, worker: int | None, spans: Iterable[TaskSpan]) -> None:
        """Add a track with the tasks of one worker, and their phases."""
        if worker is None:
            place = self._track("unknown worker", None, "unknown thread")
        else:
            info = self._workers[worker]
            thread = f"thread {info.get('thread', 'unknown')}"
            place = self._track(info.get("host"), info.get("pid"), thread)
        self._of_workers[worker] = place
        for span in sorted(spans):
            failure = span.failure or {}
            args = {
                "round": span.round,
                "ready_ms": span.ready_ms,
                "critical_path": span.task in self._critical or None,
                "state": failure.get("state"),
                "error": failure.get("error"),
            }
            args = {key: value for key, value in args.items() if value is not None}
            self._add_span(span.task, "task", place, span.start, span.end, args)
            for phase, start, end in span.phases:
                self._add_span(phase, "phase", place, start, end)
            self._ran.setdefault(span.round, {})[span.task] = span

    def add_flows(self, edges: Sequence[tuple[str, str]]) -> None:
        """Add an arrow for each edge and round in which both its tasks began."""
        numbers = count(1)
        for ran in self._ran.values():
            for source, target in edges:
                if source in ran and target in ran:
                    first, second, number = ran[source], ran[target], next(numbers)
                    place = self._of_workers[first.worker]
                    start = first.phases[-1][1] if first.phases else first.start
                    self._add("s", "edge", "edge", place, start, id=number)
                    place = self._of_workers[second.worker]
                    self._add("f", "edge", "edge", place, second.start, id=number, bp="e")

    def add_traced(self, rows: Iterable[SpanRow]) -> None:
        """Add what tracing saw inside the tasks, and a track for each other thread.

        Spans of one thread that overlap without one being in the other, since they were closed
        in the wrong order, become asynchronous: viewers would drop them.
        """
        numbers = count(1)
        for place, seen in grouped((self._place_of(row), row) for row in rows).items():
            ends: list[int] = []
            for row in sorted(seen, key=lambda row: (row.start_ms, -row.end_ms)):
                start, end = self._interval_of(row)
                kind, number = row.kind, f"{row.task} {row.round} {row.id}"
                if kind == "span":
                    while ends and ends[-1] <= start:
                        ends.pop()
                    if ends and ends[-1] < end:
                        kind, number = "async", f"overlapping {next(numbers)}"
                    else:
                        ends.append(end)
                self._add_seen(row, kind, number, place, start, end)

    def _add_seen(
        self, row: SpanRow, kind: str, number: str, place: _Place, start: int, end: int
    ) -> None:
        phase, what = _PHASES.get(kind, "b"), (row.name, row.category, place)
        args = {**(row.args or {})}
        if phase == "C":
            # Any other argument would be a counter too.
            values = {n: v for n, v in args.items() if type(v) in (int, float)}
            self._add(phase, *what, start, args=values)
            return
        if self._ran_around(row) is None:
            args = {"task": row.task, "round": row.round, **args}
        if row.own and row.task in self._critical:
            args.setdefault("critical_path", True)
        if phase == "X":
            self._add_span(*what, start, end, args)
            return
        more: JsonObject = {"s": "t"} if phase == "i" else {"id": number}
        self._add(phase, *what, start, **more, args=args)
        if phase == "b":
            self._add("e", *what, end, id=number)

    def _ran_around(self, row: SpanRow) -> TaskSpan | None:
        """Return the task whose thread a span was in; None if it was in another thread."""
        return self._ran.get(row.round, {}).get(row.task) if row.own else None

    def _interval_of(self, row: SpanRow) -> tuple[int, int]:
        start, end = moment_ns(row.start_ms), moment_ns(row.end_ms)
        task = self._ran_around(row)
        if task is None:
            return start, end
        # Clocks are read one after the other: what is in a task must not stick out of it.
        first, last = task.start, task.end
        return max(first, min(last, start)), max(first, min(last, end))

    def _place_of(self, row: SpanRow) -> _Place:
        task, index = self._ran_around(row), row.thread_index
        if task is not None:
            return self._of_workers[task.worker]
        if index not in self._of_threads:
            info = {} if row.worker is None else self._workers[row.worker]
            name = f"{row.thread} ({self._thread_ids[index]})"
            place = self._track(info.get("host", "unknown worker"), info.get("pid"), name)
            self._of_threads[index] = place
        return self._of_threads[index]

    def _track(self, host: Any, pid: Any, thread: str) -> _Place:
        """Add a thread, and its process if that is new; return their numbers."""
        process = self._processes.get((host, pid))
        if process is None:
            process = self._processes[host, pid] = next(self._numbers)
            name = f"{host or 'unknown host'}{'' if pid is None else f', pid {pid}'}"
            self._name({"name": "process_name", "pid": process}, name)
        number = next(self._numbers)
        self._name({"name": "thread_name", "pid": process, "tid": number}, thread)
        return process, number

    def _name(self, what: JsonObject, name: str) -> None:
        self.events.append({"ph": "M", **what, "args": {"name": name}})

    def _add(
        self, phase: str, name: str, category: str, place: _Place, start: int, **more: Any
    ) -> None:
        """Add an event at a moment in ns; empty arguments are left out."""
        if not more.get("args", True) and phase != "C":
            del more["args"]
        event = {"ph": phase, "name": name, "cat": category, "pid": place[0], "tid": place[1]}
        self.events.append({**event, "ts": start / 1000, **more})

    def _add_span(
        self, name: str, category: str, place: _Place, start: int, end: int, args: Any = ()
    ) -> None:
        self._add("X", name, category, place, start, dur=(end - start) / 1000, args=args)


def _critical(profile: Profile) -> frozenset[str]:
    """Return the tasks on the critical path; none where times do not tell it."""
    with suppress(CycleError, WeightError):
        return frozenset(analyze(profile, cost="wall_time").without_communication.critical_path)
    return frozenset()


EXPORTER = ChromeTrace()
