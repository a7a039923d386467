"""Sends spans to a collector by OTLP over HTTP or gRPC, with the messaging conventions.

Uses OpenTelemetry's own exporters, so this module is imported only if OTLP is configured. They
retry for a while, and drop what they could not send. They read headers, certificates, compression
and timeouts from their environment variables (OTEL_EXPORTER_OTLP_HEADERS and so on).

Ids and times are the broker's, so a span is the same here as in the API and in files.
"""

import logging
from collections.abc import Sequence

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

import goqueue
from goqueue.runtime.exporters.exporter import ExporterUnusable, NotShipped
from goqueue.runtime.exporters.span_lines import WORDS, Role
from goqueue.tracing import NO_OFFSET, Kind, Span

__all__ = ["CollectorSink", "open_collector", "traces_url"]

# OpenTelemetry encodes a batch in one piece, which takes milliseconds: keep batches small.
_BATCH_SPANS = 128
_SYSTEM = "goqueue"
_PATH = "/v1/traces"
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_UNSET = Status(StatusCode.UNSET)


def open_collector(protocol: str, endpoint: str, node_id: str) -> "CollectorSink":
    """A sink for `http` or `grpc`; raises ExporterUnusable if that is impossible."""
    try:
        exporter = _grpc(endpoint) if protocol == "grpc" else _http(endpoint)
    except Exception as refused:
        # OpenTelemetry reads its own variables, and raises various errors for bad ones.
        raise ExporterUnusable(f"OTLP cannot be spoken: {refused}") from refused
    return CollectorSink(exporter, endpoint, node_id)


def _http(endpoint: str) -> SpanExporter:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter(endpoint=traces_url(endpoint))


def traces_url(endpoint: str) -> str:
    """The URL for spans over HTTP. A given path is kept."""
    has_path = endpoint.partition("://")[2].partition("/")[2]
    return endpoint if has_path else endpoint.rstrip("/") + _PATH


def _grpc(endpoint: str) -> SpanExporter:
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter(endpoint=endpoint, insecure=not endpoint.startswith("https://"))


class _Overheard(logging.NullHandler):
    """Captures the log of OpenTelemetry's exporters: the only place where they report errors."""

    said = ""

    def handle(self, record: logging.LogRecord) -> bool:
        # The first is the reason; the others are retries.
        self.said = self.said or record.getMessage()
        return True


class CollectorSink:
    """Sends spans to a collector."""

    name = "otlp"
    batch_spans = _BATCH_SPANS

    def __init__(self, exporter: SpanExporter, endpoint: str, node_id: str) -> None:
        self._exporter = exporter
        self._endpoint = endpoint
        self._resource = Resource.create(
            {
                "service.name": _SYSTEM,
                "service.version": goqueue.__version__,
                "service.instance.id": node_id,
            }
        )
        self._scope = InstrumentationScope(_SYSTEM, goqueue.__version__)
        self._overheard = _Overheard()
        talking = logging.getLogger("opentelemetry.exporter")
        talking.propagate = False
        talking.addHandler(self._overheard)

    def encode(self, span: Span) -> ReadableSpan:
        words = WORDS[span.kind]
        return ReadableSpan(
            name=f"{words.operation} {span.topic}" if span.topic else words.operation,
            context=_context(span.trace, span.span_id),
            parent=_context(span.trace, span.parent) if span.parent else None,
            resource=self._resource,
            attributes=_attributes(span),
            events=[Event(name, timestamp=at) for at, name in span.events()],
            links=_links(span),
            kind=_kind(span),
            instrumentation_scope=self._scope,
            status=Status(StatusCode.ERROR, span.detail or None) if words.failure else _UNSET,
            start_time=span.start,
            end_time=span.end,
        )

    def ship(self, encoded: Sequence[ReadableSpan]) -> None:
        self._overheard.said = ""
        if self._exporter.export(encoded) is not SpanExportResult.SUCCESS:
            reason = self._overheard.said or "it did not say why"
            raise NotShipped(f"{self._endpoint}: {reason}", cause="refused")

    @staticmethod
    def tidy() -> bool:
        return False

    def abort(self) -> None:
        self._exporter.shutdown()

    def close(self) -> None:
        self._exporter.shutdown()


def _context(trace: bytes, span_id: int) -> SpanContext:
    return SpanContext(int.from_bytes(trace), span_id, is_remote=False, trace_flags=_SAMPLED)


def _is_creation(span: Span) -> bool:
    """Whether this span created the message."""
    return span.span_id == span.creation


def _kind(span: Span) -> SpanKind:
    match WORDS[span.kind].role:
        case Role.PRODUCER if _is_creation(span):
            return SpanKind.PRODUCER
        case Role.CONSUMER:
            return SpanKind.CONSUMER
        case _:
            # Also for a message with its own context, whose sender is the producer.
            return SpanKind.INTERNAL


def _links(span: Span) -> list[Link]:
    """Spans that send, receive or settle a message link to the context that created it."""
    if _is_creation(span) or not WORDS[span.kind].operation_type:
        return []
    return [Link(_context(span.trace, span.creation))]


def _attributes(span: Span) -> dict[str, str | int]:
    words = WORDS[span.kind]
    found: dict[str, str | int] = {
        "messaging.system": _SYSTEM,
        "messaging.operation.name": words.operation,
    }
    if words.operation_type:
        found["messaging.operation.type"] = words.operation_type
    if span.topic:
        found["messaging.destination.name"] = span.topic
    if span.partition >= 0:
        found["messaging.destination.partition.id"] = str(span.partition)
    if span.offset != NO_OFFSET:
        found["messaging.message.id"] = f"{span.topic}/{span.partition}/{span.offset}"
        found["goqueue.message.offset"] = span.offset
    if span.group:
        found["messaging.consumer.group.name"] = span.group
    if span.member:
        found["messaging.client.id"] = span.member
    if span.attempt:
        found["goqueue.message.delivery_count"] = span.attempt
    if span.due is not None:
        found["goqueue.message.deliver_at"] = span.due
    if words.failure:
        found["error.type"] = (
            span.detail if span.kind is Kind.REFUSE and span.detail else words.failure
        )
    return found
