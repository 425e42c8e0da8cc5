"""chrome_trace: the timeline, for Perfetto and other viewers of Chrome's traces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from heapq import heappop, heappush
from itertools import count
from typing import Any, NamedTuple

from dagprofiler._document.table import TaskSpan, edges_of, moment_ns, task_spans
from dagprofiler._util import grouped
from dagprofiler._util.json import trace_events, trace_json
from dagprofiler.analysis.critical_path import analyze
from dagprofiler.errors import CycleError, WeightError, counted
from dagprofiler.formats import Export
from dagprofiler.formats._graph import left_out, predicted
from dagprofiler.profile import Profile


class _Seen(NamedTuple):
    """A span and its place."""

    start: int
    end: int
    kind: str
    name: str
    words: Mapping[str, Any]
    id: str | None


def _events(kind: str, span: _Seen, place: str, numbers: Iterator[int]) -> list[str]:
    what = f"{span.name}, {place}, "
    args = f', "args": {trace_json(span.words)}' if span.words or kind == "counter" else ""
    if kind == "span":
        return [f'{{"ph": "X", {what}{times(span.start, span.end)}{args}}}']
    if kind.startswith("async"):
        what += f'"id": {trace_json(span.id or f"overlapping {next(numbers)}")}, '
    return trace_events(kind, what, str(span.start / 1000), str(span.end / 1000), args)


def times(start: int, end: int) -> str:
    """Return start and duration of an event, from moments in ns."""
    return f'"ts": {start / 1000}, "dur": {(end - start) / 1000}'


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
        and have a track of their own. Spans of one thread that overlap, which no run of ours
        has, are put side by side. An arrow leads from the last phase of a task to the first of
        the next. O(n log n) time.
        """
        spans = task_spans(profile)
        timeline = profile.sections["timeline"]
        critical = _critical(profile) if "spans" in profile.sections else frozenset()
        trace = _Trace(profile, critical)
        trace.add_rounds(spans)
        for number, of_worker in grouped((span.worker, span) for span in spans).items():
            trace.add_worker(None if number is None else timeline["workers"][number], of_worker)
        trace.add_flows(edges_of(profile))
        if "spans" in profile.sections:
            trace.add_traced(profile.sections["spans"], timeline["workers"])
        other = {
            "hostname": profile.hostname,
            "timestamp": profile.timestamp,
            "dagprofiler_version": profile.metadata.get("dagprofiler_version"),
            "prediction": " ".join(predicted(profile)),
        }
        text = (
            '{"displayTimeUnit": "ms", '
            f'"otherData": {trace_json({k: str(v) for k, v in other.items() if v})}, '
            '"traceEvents": [\n' + ",\n".join(trace.events) + "\n]}\n"
        )
        return Export(text, tuple(_losses(profile, timeline, spans)))


class _Trace:
    """The events of a trace, as text, and where the spans of tasks are in it."""

    def __init__(self, profile: Profile, critical: AbstractSet[str]) -> None:
        self.events: list[str] = []
        self._critical = critical
        self._kinds: Sequence[str] = profile.sections.get("samples", {}).get("rounds", ())
        self._numbers = count(1)
        self._processes: dict[tuple[Any, Any], int] = {}
        #: By round and task: where an arrow may begin, and where it may end.
        self._ends: dict[int, dict[str, tuple[str, str]]] = {}
        #: Task and round to its span, and to process and thread, as text.
        self._homes: dict[tuple[str, int], tuple[TaskSpan, str]] = {}

    def add_rounds(self, spans: Iterable[TaskSpan]) -> None:
        """Add a track with a span for each round."""
        add = self.events.append
        process = self._process("run", None)
        rounds = [
            TaskSpan(min(span.start for span in group), max(span.end for span in group), "", number)
            for number, group in grouped((span.round, span) for span in spans).items()
        ]
        for lane, of_lane in enumerate(_lanes(rounds)):
            place = self._thread(process, "rounds", lane)
            for round_span in of_lane:
                number = round_span.round
                kind = f" ({self._kinds[number]})" if number < len(self._kinds) else ""
                name = trace_json(f"round {number}{kind}")
                bounds_us = times(round_span.start, round_span.end)
                add(f'{{"ph": "X", "name": {name}, "cat": "round", {place}, {bounds_us}}}')

    def add_worker(self, worker: Mapping[str, Any] | None, spans: Sequence[TaskSpan]) -> None:
        """Add a track, or as many as it takes, with the spans of one worker."""
        if worker is None:
            process, name = self._process("unknown worker", None), "unknown thread"
        else:
            process = self._process(worker.get("host"), worker.get("pid"))
            name = f"thread {worker.get('thread', 'unknown')}"
        for lane, of_lane in enumerate(_lanes(spans)):
            place = self._thread(process, name, lane)
            for span in of_lane:
                self._add_span(span, place)

    def _add_span(self, span: TaskSpan, place: str) -> None:
        add, words = self.events.append, trace_json(self._words_of(span))
        add(
            f'{{"ph": "X", "name": {trace_json(span.task)}, "cat": "task", {place}, '
            f'{times(span.start, span.end)}, "args": {words}}}'
        )
        self._homes[span.task, span.round] = span, place
        last = span.start
        for phase, start, end in span.phases:
            add(f'{{"ph": "X", "name": "{phase}", "cat": "phase", {place}, {times(start, end)}}}')
            last = start
        self._ends.setdefault(span.round, {})[span.task] = (
            f'{place}, "ts": {last / 1000}}}',
            f'{place}, "ts": {span.start / 1000}}}',
        )

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
        add, numbers = self.events.append, count(1)
        for ends in self._ends.values():
            for source, target in edges:
                if source in ends and target in ends:
                    flow = f'"name": "edge", "cat": "edge", "id": {next(numbers)}, '
                    add(f'{{"ph": "s", {flow}{ends[source][0]}')
                    add(f'{{"ph": "f", "bp": "e", {flow}{ends[target][1]}')

    def add_traced(self, traced: Mapping[str, Any], workers: Sequence[Mapping[str, Any]]) -> None:
        """Add what tracing saw inside the tasks, and a track for each other thread.

        Spans of a task's own thread lie within its phases. Those of one thread that overlap
        without one being in the other become asynchronous.
        """
        names = [
            f'"name": {trace_json(label["name"])}, "cat": {trace_json(label["category"])}'
            for label in traced["labels"]
        ]
        by_place: dict[str, list[_Seen]] = {}
        places: dict[int, str] = {}
        for task, number, thread, label, start_ms, end_ms, own_id, args, *_ in traced["records"]:
            info, kind = traced["threads"][thread], traced["labels"][label]["kind"]
            home, place = self._homes.get((task, number), (None, ""))
            start, end = moment_ns(start_ms), moment_ns(end_ms)
            words = {} if args is None else dict(args)
            if home is not None and info["own"]:
                # Clocks are read one after the other: what is in a task must not stick out of it.
                start, end = (max(home.start, min(home.end, at)) for at in (start, end))
            else:
                if thread not in places:
                    places[thread] = self._place_of(info, workers)
                place = places[thread]
                words = {"task": task, "round": number, **words}
            if task in self._critical and info["own"]:
                words.setdefault("critical_path", True)
            if kind == "counter":
                # Any other argument would be a counter too.
                words = {
                    name: value
                    for name, value in (args or {}).items()
                    if isinstance(value, (int, float)) and not isinstance(value, bool)
                }
            unique = None if own_id is None else f"{task} {number} {own_id}"
            span = _Seen(start, end, kind, names[label], words, unique)
            by_place.setdefault(place, []).append(span)
        numbers = count(1)
        for place, seen in by_place.items():
            seen.sort(key=lambda span: (span.start, -span.end))
            around: list[int] = []
            for span in seen:
                kind = span.kind
                if kind == "span":
                    while around and around[-1] <= span.start:
                        around.pop()
                    if around and around[-1] < span.end:
                        kind = "async"
                    else:
                        around.append(span.end)
                self.events += _events(kind, span, place, numbers)

    def _place_of(self, thread: Mapping[str, Any], workers: Sequence[Mapping[str, Any]]) -> str:
        """Return process and thread, as text, of a thread other than the tasks'."""
        info = {} if thread["worker"] is None else workers[thread["worker"]]
        process = self._process(info.get("host", "unknown worker"), info.get("pid"))
        return self._thread(process, f"{thread['name']} ({thread['id']})", 0)

    def _process(self, host: Any, pid: Any) -> int:
        number = self._processes.get((host, pid))
        if number is None:
            number = self._processes[host, pid] = next(self._numbers)
            words = f"{host or 'unknown host'}{'' if pid is None else f', pid {pid}'}"
            name = f'"args": {{"name": {trace_json(words)}}}'
            self.events.append(f'{{"ph": "M", "name": "process_name", "pid": {number}, {name}}}')
        return number

    def _thread(self, process: int, name: str, lane: int) -> str:
        place = f'"pid": {process}, "tid": {next(self._numbers)}'
        words = trace_json(f"{name} ({lane + 1})" if lane else name)
        self.events.append(
            f'{{"ph": "M", "name": "thread_name", {place}, "args": {{"name": {words}}}}}'
        )
        return place


def _critical(profile: Profile) -> frozenset[str]:
    """Return the tasks on the critical path; none where times do not tell it."""
    try:
        found = analyze(profile, cost="wall_time")
    except (CycleError, WeightError):
        return frozenset()
    return frozenset(found.without_communication.critical_path)


def _lanes(spans: Iterable[TaskSpan]) -> list[list[TaskSpan]]:
    """Return the spans in the fewest lists in which none overlap."""
    lanes: list[list[TaskSpan]] = []
    ends: list[tuple[int, int]] = []
    for span in sorted(spans):
        if ends and ends[0][0] <= span.start:
            lane = heappop(ends)[1]
        else:
            lane = len(lanes)
            lanes.append([])
        lanes[lane].append(span)
        heappush(ends, (span.end, lane))
    return lanes


def _losses(profile: Profile, timeline: Mapping[str, Any], spans: Sequence[Any]) -> Iterator[str]:
    yield from predicted(profile)
    yield "weights of tasks and sizes of edges are left out"
    yield from left_out(profile, ("timeline", "spans"))
    dropped = sum(profile.sections.get("spans", {}).get("dropped", {}).values())
    if dropped:
        yield f"{counted(dropped, 'span')} inside tasks had no room in the profile"
    missing = len(timeline["records"]) - len(spans)
    if missing:
        records = counted(missing, "record of the timeline has", "records of the timeline have")
        yield f"{records} no start, and so no span"
    never = len(profile.dag_structure["nodes"]) - len({span.task for span in spans})
    if never:
        yield f"{counted(never, 'task')} never began: no span"


EXPORTER = ChromeTrace()
