"""opentelemetry: a run as spans of OpenTelemetry, sent by a tracer provider."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from dagprofiler._document import SpanRow
from dagprofiler._document.table import TaskSpan, edges_of, moment_ns, task_spans
from dagprofiler._util import JsonObject, Values, grouped
from dagprofiler.errors import FormatError, explained, needs_extra
from dagprofiler.profile import Profile

#: A span of OpenTelemetry.
_Sent = Any

#: Spans between flushes; processors hold 2048 spans by default, and drop the rest.
_BATCH = 512


def to_opentelemetry(profile: Profile, tracer_provider: Any = None) -> int:
    """Send spans of the run, its rounds, tasks, phases and traced spans to a provider.

    Parameters
    ----------
    profile
        A profile with a timeline.
    tracer_provider
        A provider of ``opentelemetry-sdk``; by default the one that the program has set.

    Returns
    -------
    int
        Number of spans sent.

    Raises
    ------
    MissingExtraError
        If the extra `otel` is not installed.
    FormatError
        If the profile has no timeline or no start time, or if there is no tracer provider.

    Notes
    -----
    A task's span links to the span of each predecessor in its round, with the edge's fields and
    bytes. Traced spans are children of the phase that they were in; instants are events of the
    task's span, and counters are left out. Failed tasks, and spans that an exception ended, have
    the status ERROR. Times are those of the run: ``metadata.timestamp`` plus the times of the
    timeline. Sampling, export and limits, such as 128 links a span, are the provider's; it is
    flushed regularly so that it drops no spans.

    Examples
    --------
    >>> from dagprofiler import DAG, task
    >>> from opentelemetry.sdk.trace import TracerProvider
    >>> @task(outputs=["x"])
    ... def source():
    ...     return {"x": 1}
    >>> to_opentelemetry(DAG({"source": source}).run(), TracerProvider()) > 3
    True
    """
    with needs_extra("to_opentelemetry()", "otel"):
        from opentelemetry import trace
    ran = task_spans(profile)
    provider = trace.get_tracer_provider() if tracer_provider is None else tracer_provider
    if isinstance(provider, (trace.ProxyTracerProvider, trace.NoOpTracerProvider)):
        raise FormatError("there is no tracer provider: pass one, or call set_tracer_provider()")
    return _Sender(profile, trace, provider).send(ran)


class _Sender:
    def __init__(self, profile: Profile, trace: Any, provider: Any) -> None:
        self._profile = profile
        self._trace = trace
        version = profile.metadata.get("dagprofiler_version")
        self._tracer = provider.get_tracer("dagprofiler", version)
        self._flush = getattr(provider, "force_flush", lambda: None)
        self._epoch_ns = _epoch_ns(profile.timestamp)
        self._traced = grouped(((row.task, row.round), row) for row in profile.spans.rows())
        carried = {
            (edge.source, edge.target): {
                "dag.edge.fields": list(edge.data_fields),
                "dag.edge.size_bytes": edge.size_bytes,
            }
            for edge in profile.metrics.edge_metrics
        }
        #: Task to its predecessors, with fields and sizes of the edges.
        self._incoming = grouped((b, (a, carried.get((a, b), {}))) for a, b in edges_of(profile))
        self._ended = 0

    def send(self, tasks: Sequence[TaskSpan]) -> int:
        """Send the spans of all rounds; return their number."""
        if not tasks:
            return 0
        is_predicted = "prediction" in self._profile.sections or None
        count = len(self._profile.dag_structure["nodes"])
        attributes = {"dag.tasks": count, "dag.predicted": is_predicted}
        root = self._span("dag run", None, min(task.start for task in tasks), attributes)
        for number, of_round in grouped((task.round, task) for task in tasks).items():
            start = min(task.start for task in of_round)
            round_span = self._span("round", root, start, {"dag.round": number})
            self._send_tasks(of_round, round_span)
            self._end(round_span, max(task.end for task in of_round))
        self._end(root, max(task.end for task in tasks))
        self._flush()
        return self._ended

    def _send_tasks(self, tasks: Sequence[TaskSpan], parent: _Sent) -> None:
        """Send the spans of the tasks of one round."""
        by_name = {task.task: task for task in tasks}
        sent: dict[str, _Sent] = {}
        # In execution order, since a link needs an existing span; files may have any times.
        order = self._profile.dag_structure["execution_order"]
        for name, task in [(name, by_name[name]) for name in order if name in by_name]:
            links = [
                self._trace.Link(sent[source].get_span_context(), _attributes(attributes))
                for source, attributes in self._incoming.get(name, ())
                if source in sent
            ]
            worker = {} if task.worker is None else self._profile.timeline.workers[task.worker]
            attributes = {
                "dag.task": name,
                "dag.round": task.round,
                "host.name": worker.get("host"),
                "process.pid": worker.get("pid"),
                "thread.id": worker.get("thread"),
            }
            span = sent[name] = self._span(name, parent, task.start, attributes, links)
            self._send_inside(span, task, worker.get("thread"))
            if task.failure is not None and task.failure["state"] == "failed":
                self._mark(span, task.failure.get("error", ""))
            self._end(span, task.end)

    def _send_inside(self, span: _Sent, task: TaskSpan, thread: int | None) -> None:
        """Send the phases of a task, and the traced spans in them."""
        phases = [(a, b, self._span(name, span, a, {})) for name, a, b in task.phases]
        rows = self._traced.get((task.task, task.round), ())
        # Spans of different threads are not nested.
        for of_thread in grouped((row.thread_index, row) for row in rows).values():
            around: list[tuple[int, _Sent]] = []
            for row in sorted(of_thread, key=lambda row: (row.start_ms, -row.end_ms)):
                start, end = moment_ns(row.start_ms), moment_ns(row.end_ms)
                words = _words_of(row, thread)
                if row.kind in ("instant", "async_instant"):
                    span.add_event(row.name, _attributes(words), self._epoch_ns + start)
                if row.kind not in ("span", "async"):
                    continue
                while around and around[-1][0] <= start:
                    around.pop()
                parents = [
                    *(outer for until, outer in reversed(around) if end <= until),
                    *(phase for begin, until, phase in phases if begin <= start < until),
                    span,
                ]
                sent = self._span(row.name, parents[0], start, words)
                if "error" in words:
                    self._mark(sent, str(words["error"]))
                self._end(sent, end)
                if row.kind == "span":
                    around.append((end, sent))
        for _, end, phase in phases:
            self._end(phase, end)

    def _mark(self, span: _Sent, error: str) -> None:
        span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, error))
        span.set_attribute("error.type", error.partition(":")[0])

    def _span(
        self, name: str, parent: _Sent, start: int, attributes: Values, links: Sequence[Any] = ()
    ) -> _Sent:
        return self._tracer.start_span(
            name,
            context=self._trace.set_span_in_context(parent or self._trace.INVALID_SPAN),
            attributes=_attributes(attributes),
            links=links,
            start_time=self._epoch_ns + start,
        )

    def _end(self, span: _Sent, end: int) -> None:
        span.end(self._epoch_ns + end)
        self._ended += 1
        if self._ended % _BATCH == 0:
            self._flush()


def _epoch_ns(timestamp: str | None) -> int:
    """Return the start of the run, in ns since 1970."""
    with explained(FormatError, "metadata.timestamp", of=ValueError):
        # Before Python 3.11 it does not know the Z.
        moment = datetime.fromisoformat((timestamp or "").replace("Z", "+00:00"))
    # The time that 0.1.0 wrote, which names no zone, is that of the host; it has microseconds.
    return round(moment.timestamp() * 1e6) * 1000


def _words_of(row: SpanRow, thread: int | None) -> JsonObject:
    """Return the attributes of what was traced: around what it was, in which thread, its values."""
    name = f"{row.category}.{row.name}"
    is_function = all(part.isidentifier() for part in name.split("."))
    return {
        **(row.args or {}),
        "dag.span.category": row.category,
        "code.function.name": name if is_function else None,
        "thread.name": row.thread,
        # Python's number, as that of the task; of others only the system's is known.
        "thread.id": thread if row.own else None,
    }


def _attributes(values: Values) -> JsonObject:
    """Return attributes in OpenTelemetry's types, others as text; without None values."""
    return {name: _attribute(value) for name, value in values.items() if value is not None}


def _attribute(value: Any) -> Any:
    if isinstance(value, float) or (isinstance(value, int) and -(2**63) <= value < 2**63):
        return value
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return value
    return str(value)
