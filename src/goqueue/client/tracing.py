"""OpenTelemetry propagation without a dependency on it.

Only a program that has imported OpenTelemetry can have a current span or a tracer provider, so this
module never imports it first. A sent message gets a span and the headers of its context, if they
fit; a received one gets a span for its handling, linked to its trace.
"""

import contextlib
import functools
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from goqueue import records
from goqueue.client.errors import GoQueueError
from goqueue.model import (
    DELAYED_FROM_HEADER,
    TRACEPARENT_HEADER,
    TRACESTATE_HEADER,
    Header,
    Message,
    Refused,
)
from goqueue.model.requests import TraceSeed
from goqueue.records import (
    CONTEXT_BYTES,
    GIVEN_CONTEXT_BYTES,
    HEADER_SIZE,
    derive_contexts,
    parse_traceparent,
)

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, SpanContext, SpanKind, Tracer

__all__ = [
    "Origin",
    "SendTrace",
    "Telemetry",
    "Work",
    "find_telemetry",
    "parent_of",
    "processing",
    "remote_context",
    "start_sending",
]

_API = "opentelemetry.trace"
_SCOPE = "goqueue.client"


class Telemetry(msgspec.Struct, frozen=True, eq=False):
    """What spans are made by, and of which kinds."""

    tracer: "Tracer"
    producer: "SpanKind"
    consumer: "SpanKind"


def find_telemetry() -> Telemetry | None:
    """None in a program that does not use OpenTelemetry."""
    return _load() if _API in sys.modules else None


@functools.cache
def _load() -> Telemetry | None:
    try:
        from opentelemetry import trace
    except ImportError:
        # Something else of that name, or half of it.
        return None
    # Until a provider is set it makes spans that record nothing and have their parent's context.
    tracer = trace.get_tracer(_SCOPE)
    return Telemetry(tracer, trace.SpanKind.PRODUCER, trace.SpanKind.CONSUMER)


_OFFSET_DIGITS_MAX = 19
_TRACE_BYTES = 16
_TRACE_DIGITS = 2 * _TRACE_BYTES

# From what the trace of a message without a context of its own follows: the id that the broker
# told, or the seed of its partition.
Origin = TraceSeed | str | None


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """What the span of the work on a message says of it."""

    topic: str
    partition: int
    offset: int
    group: str = ""


def parent_of(headers: Iterable[Header], offset: int, origin: Origin) -> str:
    """The context of a message, as `traceparent` writes it; empty if nobody follows it.

    Of a message that carries no context and whose broker told its trace id alone, the span is made
    up of the last 16 digits of that id.
    """
    for name, value in headers:
        if name == TRACEPARENT_HEADER:
            context = parse_traceparent(value)
            if context:
                return _written(context)
        elif name == DELAYED_FROM_HEADER and value.isdigit() and len(value) <= _OFFSET_DIGITS_MAX:
            offset = int(value)
    if isinstance(origin, TraceSeed):
        made = derive_contexts(origin.high, origin.low, (offset,))
        is_followed = int.from_bytes(made[8:_TRACE_BYTES]) < origin.threshold
        return _written(made + b"\x01") if is_followed else ""
    if not origin or len(origin) != _TRACE_DIGITS:
        return ""
    return f"00-{origin}-{origin[_TRACE_BYTES:]}-01"


def _written(context: bytes) -> str:
    trace, span = context[:_TRACE_BYTES].hex(), context[_TRACE_BYTES:CONTEXT_BYTES].hex()
    return f"00-{trace}-{span}-{context[GIVEN_CONTEXT_BYTES - 1]:02x}"


def remote_context(parent: str, state: str) -> "Context | None":
    """The context for OpenTelemetry; None if the program does not use it, or there is none."""
    if not parent or find_telemetry() is None:
        return None
    from opentelemetry.context import get_current
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier = {TRACEPARENT_HEADER: parent}
    if state:
        carrier[TRACESTATE_HEADER] = state
    return TraceContextTextMapPropagator().extract(carrier, context=get_current())


@contextlib.contextmanager
def processing(work: Work, parent: str, state: str) -> "Iterator[Span | None]":
    """A span of work on a message, current within the block; none without OpenTelemetry."""
    telemetry = find_telemetry()
    if telemetry is None:
        yield None
        return
    attributes: dict[str, str | int] = {
        "messaging.system": "goqueue",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": work.topic,
        "messaging.destination.partition.id": str(work.partition),
        "messaging.message.id": f"{work.topic}/{work.partition}/{work.offset}",
        "goqueue.message.offset": work.offset,
    }
    if work.group:
        attributes["messaging.consumer.group.name"] = work.group
    with telemetry.tracer.start_as_current_span(
        f"process {work.topic}",
        context=remote_context(parent, state),
        kind=telemetry.consumer,
        attributes=attributes,
    ) as span:
        yield span


_NAMES = (TRACEPARENT_HEADER, TRACESTATE_HEADER)
_STATE_CHARACTERS_MAX = 4096
_TOPICS_MAX = 1024


def start_sending(topic: str, message: Message) -> "SendTrace | None":
    """Begin a span below the caller's; None if nobody traces, or the message has a context."""
    telemetry = find_telemetry()
    if telemetry is None:
        return None
    if message.headers and any(name == TRACEPARENT_HEADER for name, _ in message.headers):
        return None
    span = telemetry.tracer.start_span(
        f"send {topic}", kind=telemetry.producer, attributes=_attributes(topic)
    )
    context = span.get_span_context()
    return SendTrace(span, _headers(context)) if context.is_valid else None


@functools.lru_cache(_TOPICS_MAX)
def _attributes(topic: str) -> Mapping[str, str]:
    return {
        "messaging.system": "goqueue",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": topic,
    }


class SendTrace:
    """The span of one message, until its outcome is known."""

    __slots__ = ("_headers", "_span")

    def __init__(self, span: "Span", headers: tuple[Header, ...]) -> None:
        self._span = span
        self._headers = headers

    def load(self, message: Message, size_bytes: int, bytes_max: int) -> tuple[Message, int]:
        """The message with its context, and its new size; as it was if there is no room."""
        added = sum(len(name) + len(value) for name, value in self._headers)
        if size_bytes - HEADER_SIZE + added > bytes_max:
            return message, size_bytes
        own = tuple(header for header in message.headers if header[0] not in _NAMES)
        loaded = msgspec.structs.replace(message, headers=(*own, *self._headers))
        if own:
            try:
                records.build((loaded,))
            except Refused:
                return message, size_bytes
        return loaded, size_bytes + added

    def end(self, topic: str, partition: int, offset: int) -> None:
        """The message stands there."""
        if self._span.is_recording():
            self._span.set_attribute("messaging.destination.partition.id", str(partition))
            self._span.set_attribute("messaging.message.id", f"{topic}/{partition}/{offset}")
            self._span.set_attribute("goqueue.message.offset", offset)
        self._span.end()

    def fail(self, error: GoQueueError) -> None:
        """The message went nowhere, or nobody knows where."""
        from opentelemetry.trace import StatusCode

        if self._span.is_recording():
            self._span.set_attribute("error.type", error.code)
            self._span.set_status(StatusCode.ERROR, error.sentence)
        self._span.end()


def _headers(context: "SpanContext") -> tuple[Header, ...]:
    flags = int(context.trace_flags)
    parent = f"00-{context.trace_id:032x}-{context.span_id:016x}-{flags:02x}".encode()
    state = context.trace_state.to_header() if context.trace_state else ""
    if not state or len(state) > _STATE_CHARACTERS_MAX:
        return ((TRACEPARENT_HEADER, parent),)
    return ((TRACEPARENT_HEADER, parent), (TRACESTATE_HEADER, state.encode()))
