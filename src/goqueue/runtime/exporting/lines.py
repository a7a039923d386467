"""A span as a line of JSON: the form of span files and of standard output.

The form is documented in docs/reference/span-files.md. Fields are added to it, none is taken away
or given another meaning.
"""

import functools

import msgspec

from goqueue.model import format_time
from goqueue.runtime.exporting.words import WORDS
from goqueue.tracing import Kind, Span

__all__ = ["SpanEvent", "SpanLine", "encode_line"]

# The spans of a note share their times, and notes of one moment come together.
_format_time = functools.lru_cache(maxsize=256)(format_time)
_encode = msgspec.json.Encoder().encode


class SpanEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened at one moment of a span, named as the API names it."""

    timestamp: str
    event_type: str


class SpanLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One span. What does not apply is left out."""

    trace_id: str
    span_id: str
    parent_span_id: str = ""
    name: str
    kind: str
    topic: str
    partition: int
    offset: int
    start_time: str
    end_time: str
    events: list[SpanEvent]
    node_id: str
    consumer_group: str = ""
    consumer_id: str = ""
    delivery_count: int = 0
    deliver_at: str = ""
    dlq_topic: str = ""
    error: str = ""


def encode_line(span: Span, node_id: str) -> bytes:
    """The line of a span, with its end."""
    words = WORDS[span.kind]
    line = SpanLine(
        trace_id=span.trace.hex(),
        span_id=f"{span.span_id:016x}",
        parent_span_id=f"{span.parent:016x}" if span.parent else "",
        name=words.name,
        kind=words.role,
        topic=span.topic,
        partition=span.partition,
        offset=span.offset,
        start_time=_format_time(span.start),
        end_time=_format_time(span.end),
        events=[
            SpanEvent(timestamp=_format_time(at), event_type=name) for at, name in span.events()
        ],
        node_id=node_id,
        consumer_group=span.group,
        consumer_id=span.member,
        delivery_count=span.attempt,
        deliver_at="" if span.due is None else _format_time(span.due),
        dlq_topic=span.topic if span.kind is Kind.LETTER else "",
        error=span.detail,
    )
    return _encode(line) + b"\n"
