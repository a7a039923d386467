"""Spans as OpenTelemetry's conventions for messaging want them."""

from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import SpanKind, StatusCode

from goqueue.runtime.exporters.otlp import CollectorSink, open_collector, traces_url
from goqueue.tracing import Kind, Span
from tests.unit.runtime.exporters.trace_entries import GIVEN, entry, spans


class Nowhere(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        del spans
        return SpanExportResult.FAILURE


def encoded(span: Span) -> ReadableSpan:
    return CollectorSink(Nowhere(), "nowhere", "node-1").encode(span)


def test_a_publication_is_sent_by_the_producer_whose_context_it_makes() -> None:
    (span,) = spans(entry(first=7))
    made = encoded(span)
    assert made.name == "send orders"
    assert made.kind is SpanKind.PRODUCER
    assert made.context.trace_id == int.from_bytes(span.trace)
    assert made.context.span_id == span.span_id
    assert made.parent is None
    assert not made.links
    assert (made.start_time, made.end_time) == (1_000, 2_500)
    assert dict(made.attributes or {}) == {
        "messaging.system": "goqueue",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders",
        "messaging.destination.partition.id": "2",
        "messaging.message.id": "orders/2/7",
        "goqueue.message.offset": 7,
    }
    assert made.resource.attributes["service.name"] == "goqueue"
    assert made.resource.attributes["service.instance.id"] == "node-1"


def test_a_message_that_brought_its_context_has_a_producer_already() -> None:
    (span,) = spans(entry(given={0: GIVEN}))
    made = encoded(span)
    assert made.kind is SpanKind.INTERNAL
    assert made.parent is not None
    assert made.parent.span_id == int.from_bytes(GIVEN[16:24])
    assert [link.context.span_id for link in made.links] == [int.from_bytes(GIVEN[16:24])]


def test_a_delivery_is_received_by_a_consumer_and_links_to_where_the_message_was_made() -> None:
    fields: dict[str, Any] = {
        "group": "billing",
        "group_number": 1,
        "member": "c-1",
        "attempts": (2,),
    }
    (published,) = spans(entry(first=7))
    (fetched,) = spans(entry(first=7, kind=Kind.FETCH, **fields))
    made = encoded(fetched)
    assert made.name == "receive orders"
    assert made.kind is SpanKind.CONSUMER
    assert [link.context.span_id for link in made.links] == [published.span_id]
    attributes = made.attributes or {}
    assert attributes["messaging.consumer.group.name"] == "billing"
    assert attributes["messaging.client.id"] == "c-1"
    assert attributes["goqueue.message.delivery_count"] == 2


@pytest.mark.parametrize(
    ("kind", "name", "operation_type", "error"),
    [
        (Kind.ACK, "ack orders", "settle", None),
        (Kind.NACK, "nack orders", "settle", "nacked"),
        (Kind.REJECT, "reject orders", "settle", "rejected"),
        (Kind.REFUSE, "send orders", "send", "because"),
        (Kind.EXPIRE, "expire orders", None, "visibility_expired"),
        (Kind.DEAD_LETTER, "dead_letter orders", None, "dead_letter"),
        (Kind.REDRIVE, "redrive orders", None, None),
        (Kind.FIRE, "fire orders", None, None),
    ],
)
def test_what_failed_says_so(
    kind: Kind, name: str, operation_type: str | None, error: str | None
) -> None:
    made = encoded(spans(entry(kind=kind, attempts=(1,), group="g", detail="because"))[0])
    attributes = made.attributes or {}
    assert made.name == name
    assert attributes.get("messaging.operation.type") == operation_type
    assert attributes.get("error.type") == error
    assert made.status.status_code is (StatusCode.ERROR if error else StatusCode.UNSET)
    assert made.status.description == ("because" if error else None)


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("http://127.0.0.1:1", "http://127.0.0.1:1/v1/traces"),
        ("http://127.0.0.1:1/", "http://127.0.0.1:1/v1/traces"),
        ("https://a.example/custom/path", "https://a.example/custom/path"),
    ],
)
def test_spans_go_to_the_usual_path_unless_another_is_named(endpoint: str, url: str) -> None:
    assert traces_url(endpoint) == url


@pytest.mark.parametrize(
    ("protocol", "endpoint"),
    [
        ("http", "http://127.0.0.1:1"),
        ("grpc", "127.0.0.1:1"),
        ("grpc", "https://a.example:4317"),
    ],
)
def test_a_collector_can_be_opened_before_it_is_there(protocol: str, endpoint: str) -> None:
    sink = open_collector(protocol, endpoint, "node-1")
    assert sink.name == "otlp"
    sink.close()
