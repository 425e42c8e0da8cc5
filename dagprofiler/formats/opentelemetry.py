"""opentelemetry: a run as spans of OpenTelemetry, sent by a tracer provider."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from dagprofiler.errors import FormatError, MissingExtraError, short_repr
from dagprofiler.formats._graph import legible
from dagprofiler.formats.chrome_trace import all_that_ran, moment_ns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dagprofiler.formats.chrome_trace import Ran
    from dagprofiler.profile import Profile


#: Spans between flushes; processors hold 2048 spans by default, and drop the rest.
_BATCH = 512

#: The last moment that the protocol can hold, in ns since 1970.
_LAST_NS = 2**64 - 1


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
    try:
        from opentelemetry import trace
    except ImportError as error:
        raise MissingExtraError("to_opentelemetry()", "otel") from error
    timeline = profile.sections.get("timeline")
    if timeline is None:
        raise FormatError(
            "the profile has no section 'timeline', so the times of its tasks are unknown"
        )
    provider = trace.get_tracer_provider() if tracer_provider is None else tracer_provider
    if isinstance(provider, (trace.ProxyTracerProvider, trace.NoOpTracerProvider)):
        raise FormatError(
            "there is no tracer provider for the spans; pass one, or call "
            "opentelemetry.trace.set_tracer_provider() first"
        )
    return _Sender(profile, trace, provider).send(timeline)


class _Sender:
    def __init__(self, profile: Profile, trace: Any, provider: Any) -> None:
        self._profile = profile
        self._trace = trace
        version = profile.metadata.get("dagprofiler_version")
        self._tracer = provider.get_tracer("dagprofiler", version)
        self._flush = getattr(provider, "force_flush", None)
        self._epoch_ns = _epoch_ns(profile.timestamp)
        self._sent = self._ended = 0

    def send(self, timeline: Mapping[str, Any]) -> int:
        """Send the spans of all rounds; return their number."""
        by_round: dict[int, list[tuple[int | None, Ran]]] = {}
        for worker, ran in all_that_ran(timeline):
            by_round.setdefault(ran.round, []).append((worker, ran))
        if not by_round:
            return 0
        everything = [ran for of_round in by_round.values() for _, ran in of_round]
        attributes = {"dag.tasks": len(self._profile.dag_structure["nodes"])}
        root = self._span("dag run", None, min(ran.start for ran in everything), attributes)
        seen = self._seen_by_task()
        for number, of_round in by_round.items():
            begun = min(ran.start for _, ran in of_round)
            round_span = self._span("round", root, begun, {"dag.round": number})
            self._send_round(of_round, round_span, timeline["workers"], seen)
            self._end(round_span, max(ran.end for _, ran in of_round))
        self._end(root, max(ran.end for ran in everything))
        if self._flush is not None:
            self._flush()
        return self._sent

    def _send_round(
        self,
        of_round: Sequence[tuple[int | None, Ran]],
        parent: Any,
        workers: Sequence[Mapping[str, Any]],
        seen: Mapping[tuple[str, int], list[Sequence[Any]]],
    ) -> None:
        sent: dict[str, Any] = {}
        incoming = self._incoming()
        # In execution order, since a link needs an existing span; files may have any times.
        of_task = {ran.task: (worker, ran) for worker, ran in of_round}
        for name in self._profile.dag_structure["execution_order"]:
            if name not in of_task:
                continue
            worker, ran = of_task[name]
            links = [
                self._trace.Link(sent[source].get_span_context(), _attributes(attributes))
                for source, attributes in incoming.get(name, ())
                if source in sent
            ]
            attributes = {"dag.task": name, "dag.round": ran.round}
            if worker is not None:
                attributes.update(_of_worker(workers[worker]))
            span = sent[name] = self._span(name, parent, ran.start, attributes, links)
            self._send_inside(span, ran, seen.get((name, ran.round), ()))
            self._fail(span, ran)
            self._end(span, ran.end)

    def _send_inside(self, span: Any, ran: Ran, seen: Sequence[Sequence[Any]]) -> None:
        """Send the phases of a task, and the traced spans in them."""
        section = self._profile.sections.get("spans", {})
        labels, threads = section.get("labels", ()), section.get("threads", ())
        phases = []
        for phase, start, end in ran.phases:
            phases.append((start, end, self._span(phase, span, start, {})))
        around: list[tuple[int, Any]] = []
        last_thread = None
        for _, _, thread, label, start_ms, end_ms, _, args, *_ in seen:
            kind, name = labels[label]["kind"], labels[label]["name"]
            start, end = moment_ns(start_ms), moment_ns(end_ms)
            attributes = {**(args or {}), "code.namespace": labels[label]["category"]}
            if kind in ("instant", "async_instant"):
                span.add_event(legible(name), _attributes(attributes), self._time(start))
            if kind not in ("span", "async"):
                continue
            if thread != last_thread:
                around.clear()
                last_thread = thread
            while around and around[-1][0] <= start:
                around.pop()
            inside = [phase for begin, until, phase in phases if begin <= start < until]
            parent = next(
                (outer for until, outer in reversed(around) if end <= until),
                inside[0] if inside else span,
            )
            attributes["thread.id"] = threads[thread]["id"]
            traced = self._span(name, parent, start, attributes)
            if "error" in attributes:
                self._mark(traced, str(attributes["error"]))
            self._end(traced, end)
            if kind == "span":
                around.append((end, traced))
        for _, end, phase_span in phases:
            self._end(phase_span, end)

    def _fail(self, span: Any, ran: Ran) -> None:
        failure = self._profile.sections.get("run", {}).get("tasks", {}).get(ran.task, {})
        if failure.get("state") == "failed" and failure.get("round", 0) == ran.round:
            self._mark(span, failure.get("error", ""))

    def _mark(self, span: Any, error: str) -> None:
        span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, legible(error)))

    def _incoming(self) -> dict[str, list[tuple[str, dict[str, Any]]]]:
        """Return for each task its predecessors, with fields and sizes of the edges."""
        carried = {
            (edge.source, edge.target): {
                "dag.edge.fields": list(edge.data_fields),
                "dag.edge.size_bytes": edge.size_bytes,
            }
            for edge in self._profile.metrics.edge_metrics
        }
        incoming: dict[str, list[tuple[str, dict[str, Any]]]] = {}
        for edge in self._profile.dag_structure["edges"]:
            ends = edge["source"], edge["target"]
            incoming.setdefault(ends[1], []).append((ends[0], carried.get(ends, {})))
        return incoming

    def _seen_by_task(self) -> dict[tuple[str, int], list[Sequence[Any]]]:
        """Return the traced records of each task and round, by start, the longest first."""
        section = self._profile.sections.get("spans", {"records": ()})
        seen: dict[tuple[str, int], list[Sequence[Any]]] = {}
        for record in section["records"]:
            seen.setdefault((record[0], record[1]), []).append(record)
        for records in seen.values():
            # By thread, since spans of different threads are not nested.
            records.sort(key=lambda record: (record[2], record[4], -record[5]))
        return seen

    def _span(
        self,
        name: str,
        parent: Any,
        start: int,
        attributes: Mapping[str, Any],
        links: Sequence[Any] = (),
    ) -> Any:
        self._sent += 1
        return self._tracer.start_span(
            legible(name),
            context=self._trace.set_span_in_context(parent or self._trace.INVALID_SPAN),
            attributes=_attributes(attributes),
            links=links,
            start_time=self._time(start),
        )

    def _end(self, span: Any, end: int) -> None:
        span.end(self._time(end))
        self._ended += 1
        if self._ended % _BATCH == 0 and self._flush is not None:
            self._flush()

    def _time(self, moment: int) -> int:
        return max(0, min(self._epoch_ns + moment, _LAST_NS))


def _epoch_ns(timestamp: str | None) -> int:
    """Return the start of the run, in ns since 1970."""
    moment = None
    with suppress(ValueError):
        # Before Python 3.11 it does not know the Z.
        moment = datetime.fromisoformat((timestamp or "").replace("Z", "+00:00"))
    if moment is None:
        raise FormatError(f"metadata.timestamp: {short_repr(timestamp)} is not a valid timestamp")
    if moment.tzinfo is None:
        # 0.1.0 wrote the local time of the host.
        moment = moment.astimezone()
    since = moment - datetime(1970, 1, 1, tzinfo=timezone.utc)
    return ((since.days * 86400 + since.seconds) * 10**6 + since.microseconds) * 1000


def _of_worker(worker: Mapping[str, Any]) -> dict[str, Any]:
    named = {"host": "host.name", "pid": "process.pid", "thread": "thread.id"}
    return {named[key]: value for key, value in worker.items() if key in named}


def _attributes(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes in OpenTelemetry's types, others as text; without None values."""
    return {legible(name): _attribute(value) for name, value in values.items() if value is not None}


def _attribute(value: Any) -> Any:
    if isinstance(value, (bool, float)):
        return value
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return value
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return [legible(item) for item in value]
    return legible(str(value))
