"""A message that arrived: the trace that it is part of, and the span of the work on it."""

import contextlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from goqueue.client.tracing.telemetry import find_telemetry
from goqueue.model import Header
from goqueue.model.requests import TraceSeed
from goqueue.records.tracing import CONTEXT_BYTES, GIVEN_BYTES, make_contexts, read_context

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span

__all__ = ["Origin", "Work", "parent_of", "processing", "remote_context"]

_PARENT = "traceparent"
_DELAYED_FROM = "gq.delayed-from"
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
        if name == _PARENT:
            context = read_context(value)
            if context:
                return _written(context)
        elif name == _DELAYED_FROM and value.isdigit() and len(value) <= _OFFSET_DIGITS_MAX:
            offset = int(value)
    if isinstance(origin, TraceSeed):
        made = make_contexts(origin.high, origin.low, (offset,))
        is_followed = int.from_bytes(made[8:_TRACE_BYTES]) < origin.threshold
        return _written(made + b"\x01") if is_followed else ""
    if not origin or len(origin) != _TRACE_DIGITS:
        return ""
    return f"00-{origin}-{origin[_TRACE_BYTES:]}-01"


def _written(context: bytes) -> str:
    trace, span = context[:_TRACE_BYTES].hex(), context[_TRACE_BYTES:CONTEXT_BYTES].hex()
    return f"00-{trace}-{span}-{context[GIVEN_BYTES - 1]:02x}"


def remote_context(parent: str, state: str) -> "Context | None":
    """The context for OpenTelemetry; None if the program does not use it, or there is none."""
    if not parent or find_telemetry() is None:
        return None
    from opentelemetry.context import get_current
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier = {"traceparent": parent, "tracestate": state} if state else {"traceparent": parent}
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
