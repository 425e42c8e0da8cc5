"""opentelemetry: a run as spans of OpenTelemetry, sent by a tracer provider."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from dagprofiler._document import SpanRow
from dagprofiler._document.table import TaskSpan, edges_of, moment_ns, task_spans
from dagprofiler._util import grouped
from dagprofiler.errors import FormatError, needs_extra, short_repr
from dagprofiler.profile import Profile

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
        raise FormatError(
            "there is no tracer provider for the spans; pass one, or call "
            "opentelemetry.trace.set_tracer_provider() first"
        )
    return _Sender(profile, trace, provider).send(ran)


class _Sender:
    def __init__(self, profile: Profile, trace: Any, provider: Any) -> None:
        self._profile = profile
        self._trace = trace
        version = profile.metadata.get("dagprofiler_version")
        self._tracer = provider.get_tracer("dagprofiler", version)
        self._flush = getattr(provider, "force_flush", lambda: None)
        self._epoch_ns = _epoch_ns(profile.timestamp)
        self._sent = self._ended = 0

    def send(self, everything: Sequence[TaskSpan]) -> int:
        """Send the spans of all rounds; return their number."""
        if not everything:
            return 0
        nodes, sections = self._profile.dag_structure["nodes"], self._profile.sections
        attributes = {"dag.tasks": len(nodes), "dag.predicted": "prediction" in sections or None}
        root = self._span("dag run", None, min(ran.start for ran in everything), attributes)
        traced = grouped(((row.task, row.round), row) for row in self._profile.spans.rows())
        for number, of_round in grouped((ran.round, ran) for ran in everything).items():
            begun = min(ran.start for ran in of_round)
            round_span = self._span("round", root, begun, {"dag.round": number})
            self._send_round(of_round, round_span, traced)
            self._end(round_span, max(ran.end for ran in of_round))
        self._end(root, max(ran.end for ran in everything))
        self._flush()
        return self._sent

    def _send_round(
        self,
        of_round: Sequence[TaskSpan],
        parent: Any,
        traced: Mapping[tuple[str, int], Sequence[SpanRow]],
    ) -> None:
        sent: dict[str, Any] = {}
        incoming = self._incoming()
        workers = self._profile.timeline.workers
        # In execution order, since a link needs an existing span; files may have any times.
        of_task = {ran.task: ran for ran in of_round}
        order = self._profile.dag_structure["execution_order"]
        for name in order:
            if name not in of_task:
                continue
            ran = of_task[name]
            worker = {} if ran.worker is None else workers[ran.worker]
            links = [
                self._trace.Link(sent[source].get_span_context(), _attributes(attributes))
                for source, attributes in incoming.get(name, ())
                if source in sent
            ]
            attributes = {"dag.task": name, "dag.round": ran.round, **_of_worker(worker)}
            span = sent[name] = self._span(name, parent, ran.start, attributes, links)
            self._send_inside(span, ran, worker, traced.get((name, ran.round), ()))
            if ran.failure is not None and ran.failure["state"] == "failed":
                self._mark(span, ran.failure.get("error", ""))
            self._end(span, ran.end)

    def _send_inside(
        self, span: Any, ran: TaskSpan, worker: Mapping[str, Any], traced: Iterable[SpanRow]
    ) -> None:
        """Send the phases of a task, and the traced spans in them."""
        phases = [
            (start, end, self._span(name, span, start, {})) for name, start, end in ran.phases
        ]
        # Spans of different threads are not nested.
        for of_thread in grouped((row.thread_index, row) for row in traced).values():
            around: list[tuple[int, Any]] = []
            for row in sorted(of_thread, key=lambda row: (row.start_ms, -row.end_ms)):
                start, end = moment_ns(row.start_ms), moment_ns(row.end_ms)
                words = _words_of(row, worker)
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

    def _mark(self, span: Any, error: str) -> None:
        span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, error))
        span.set_attribute("error.type", error.partition(":")[0])

    def _incoming(self) -> dict[str, list[tuple[str, dict[str, Any]]]]:
        """Return for each task its predecessors, with fields and sizes of the edges."""
        carried = {
            (edge.source, edge.target): {
                "dag.edge.fields": list(edge.data_fields),
                "dag.edge.size_bytes": edge.size_bytes,
            }
            for edge in self._profile.metrics.edge_metrics
        }
        pairs = edges_of(self._profile)
        return grouped((pair[1], (pair[0], carried.get(pair, {}))) for pair in pairs)

    def _span(
        self, name: str, parent: Any, start: int, attributes: Mapping[str, Any], links: Any = ()
    ) -> Any:
        self._sent += 1
        return self._tracer.start_span(
            name,
            context=self._trace.set_span_in_context(parent or self._trace.INVALID_SPAN),
            attributes=_attributes(attributes),
            links=links,
            start_time=self._epoch_ns + start,
        )

    def _end(self, span: Any, end: int) -> None:
        span.end(self._epoch_ns + end)
        self._ended += 1
        if self._ended % _BATCH == 0:
            self._flush()


def _epoch_ns(timestamp: str | None) -> int:
    """Return the start of the run, in ns since 1970."""
    try:
        # Before Python 3.11 it does not know the Z.
        moment = datetime.fromisoformat((timestamp or "").replace("Z", "+00:00"))
    except ValueError:
        problem = f"{short_repr(timestamp)} is not a valid timestamp"
        raise FormatError(f"metadata.timestamp: {problem}") from None
    # The time that 0.1.0 wrote, which names no zone, is that of the host; it has microseconds.
    return round(moment.timestamp() * 1e6) * 1000


def _of_worker(worker: Mapping[str, Any]) -> dict[str, Any]:
    named = {"host": "host.name", "pid": "process.pid", "thread": "thread.id"}
    return {named[key]: value for key, value in worker.items() if key in named}


def _words_of(row: SpanRow, worker: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of what was traced: around what it was, in which thread, its values."""
    name = f"{row.category}.{row.name}"
    words = {**(row.args or {}), "dag.span.category": row.category}
    if all(part.isidentifier() for part in name.split(".")):
        words["code.function.name"] = name
    words["thread.name"] = row.thread
    if row.own:
        # Python's number, as that of the task; of others only the system's is known.
        words["thread.id"] = worker.get("thread")
    return words


def _attributes(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes in OpenTelemetry's types, others as text; without None values."""
    return {name: _attribute(value) for name, value in values.items() if value is not None}


def _attribute(value: Any) -> Any:
    if isinstance(value, float) or (isinstance(value, int) and -(2**63) <= value < 2**63):
        return value
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return value
    return str(value)
