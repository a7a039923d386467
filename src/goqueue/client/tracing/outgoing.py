"""A message on its way out: the span of its sending, and the headers that carry its context.

Never in the way of a message: where there is no room for the headers it goes without them.
"""

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from goqueue import records
from goqueue.client.errors import GoQueueError
from goqueue.client.tracing.telemetry import find_telemetry
from goqueue.model import Header, Message, Refused
from goqueue.records import HEADER_SIZE

if TYPE_CHECKING:
    from opentelemetry.trace import Span, SpanContext

__all__ = ["SendTrace", "start_sending"]

_PARENT = "traceparent"
_STATE = "tracestate"
_NAMES = (_PARENT, _STATE)
_STATE_CHARACTERS_MAX = 4096
_TOPICS_MAX = 1024


def start_sending(topic: str, message: Message) -> "SendTrace | None":
    """Begin a span below the caller's; None if nobody traces, or the message has a context."""
    telemetry = find_telemetry()
    if telemetry is None:
        return None
    if message.headers and any(name == _PARENT for name, _ in message.headers):
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
        return ((_PARENT, parent),)
    return ((_PARENT, parent), (_STATE, state.encode()))
